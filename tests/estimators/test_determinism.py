"""The same seed, data and version give the same bits, whatever the threads and chunks; backends agree to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import digests
import heatsketch as hs
from budget import rounds
from digests import digest, points
from heatsketch._utils.threads import product

# Threads of BLAS, OMP_NUM_THREADS, the seed of Python's hashes, cores, and threads of the caller.
ENVIRONMENTS = [(1, 1, "0", 1, 1), (4, 4, "1", 3, 2), (2, 2, "random", 2, 1), (3, 1, "7", 2, 3)]


def digests_in(blas: int, omp: int, hashes: str, cores: int, callers: int) -> dict[str, str]:
    """Digests of all results by a process of its own."""
    told = {"OPENBLAS_NUM_THREADS": blas, "MKL_NUM_THREADS": blas, "OMP_NUM_THREADS": omp, "PYTHONHASHSEED": hashes}
    told |= {"PYTHONPATH": os.pathsep.join([str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, digests.__file__, str(cores), str(callers)],
        env=os.environ | {name: str(value) for name, value in told.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_threads_and_hashes_change_no_bit(record_property):
    """Of estimators, solvers, rules, answers and the command; a hunt looks at further environments."""
    first, *others = (digests_in(*environment) for environment in ENVIRONMENTS[: min(4, 2 * rounds(1))])
    for found in others:
        assert [name for name in first if found[name] != first[name]] == []
        assert found.keys() == first.keys()
    assert len(first) > 40
    assert len(set(first.values())) == len(first)  # no digest is that of nothing
    record_property("cases", len(first) * len(others))


@pytest.mark.parametrize("threads", [2, 3])
def test_limits_around_a_call_change_no_bit(monkeypatch, threads):
    """What the caller allows BLAS, and cores that are there, matter neither to a fit nor to products by hand."""
    X = points(600, 40, np.float64)

    def work():
        model = hs.DiffusionMaps(3, bandwidth=1.0).fit(X)
        return digest([model.embedding_, model.transform(X[::2] + 0.01), model.kernel_ @ X, model.kernel_.toarray()])

    with threadpool_limits(1, "blas"):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: 1)
        alone = work()
    with threadpool_limits(threads, "blas"):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: threads)
        assert work() == alone


@pytest.mark.parametrize("shape", [(1, 1, 1), (130, 7, 3), (1500, 900, 1), (700, 700, 700), (0, 5, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_numpy_and_of_any_number_of_threads(monkeypatch, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(m, n)).astype(dtype), rng.normal(size=(n, k)).astype(dtype)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda threads=threads: threads)
        with threadpool_limits(threads, "blas"):
            found.append(product(A, B))
    np.testing.assert_array_equal(*found)
    assert found[0].dtype == dtype
    bound = n * np.finfo(dtype).eps * (abs(A) @ abs(B))  # of any order of summation
    assert (abs(found[0] - A.astype(np.float64) @ B.astype(np.float64)) <= bound).all()


def public_work(X):
    """Calls of everything public that computes, by name."""
    A = hs.heat_kernel(X, bandwidth=1.0)
    model, d = hs.GaussianProcessEmbedding(3, random_state=0).fit(X), hs.diffusion_distances(A, 2)
    return {
        "bilipschitz_constant": lambda: hs.bilipschitz_constant(X, d),
        "canonical_metric": lambda: hs.canonical_metric(A),
        "compare_embeddings": lambda: hs.compare_embeddings(X, 2, methods=["DiffusionMaps"], power=2),
        "compare_kernels": lambda: hs.compare_kernels(A, A),
        "diffusion_distances": lambda: hs.diffusion_distances(A, 2),
        "estimate_bandwidth": lambda: hs.estimate_bandwidth(X),
        "gaussian_process": lambda: hs.gaussian_process(A, 2),
        "global_diffusion_distance": lambda: hs.global_diffusion_distance(A, A),
        "heat_kernel": lambda: hs.heat_kernel(X),
        "measure_distortion": lambda: hs.measure_distortion(X, d),
        "secant_products": lambda: hs.secant_products(A, 2, [[0, 1, 2]]),
        "spectral_density": lambda: hs.spectral_density(A),
        "fit": lambda: hs.HeatSketch(2, solver_params={"n_rounds": 1}).fit(X),
        "transform": lambda: model.transform(X[:5] + 0.01),
        "at_powers": lambda: model.at_powers([2]),
        "add_components": lambda: model.add_components(1),
        "scales": lambda: model.scales([2]),
        "stability": lambda: model.stability(n_repeats=1),
        "diagnose": model.diagnose,
        "distortion": model.distortion,
        "unsupported_neighbors": model.unsupported_neighbors,
        "embedded": lambda: model.diffusion_distances([[0, 1]], interval=0.9),
    }


# What computes nothing that BLAS could round, or asks others to; reports and pictures show what was computed.
IDLE = {"components_for", "distance_interval", "estimate", "load_model", "save_model", "write_report"}


class Watched(dict):
    """What `quiet_blas` keeps, counting how often BLAS is told."""

    told = 0

    def __setitem__(self, key, value):
        self.told += not self
        super().__setitem__(key, value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_everything_public_holds_blas_to_one_thread_once_and_throughout(monkeypatch):
    work = public_work(points(60, 4, np.float64))
    functions = {name for name in hs.__all__ if callable(getattr(hs, name)) and name[0].islower()}
    assert {name for name in functions if not name.startswith("plot_")} - IDLE <= set(work)
    for name, call in work.items():
        watched = Watched()
        monkeypatch.setattr("heatsketch._utils.threads._asking", watched)
        call()
        assert (name, watched.told) == (name, 1)


# What backends differ by, as a share of the largest entry.
BOUND = {"float64": 1e-10, "float32": 2e-5}


class TestBackends:
    """The same kernel by every way to multiply."""

    def embed(self, X, **options):
        return hs.GaussianProcessEmbedding(4, bandwidth=1.0, power=4, random_state=0, **options).fit(X)

    def assert_close(self, model, X, new):
        held = self.embed(X)
        assert held.kernel_.affinity.description == "every pair"
        for found, expected in ((model.embedding_, held.embedding_), (model.transform(new), held.transform(new))):
            assert np.abs(np.asarray(found) - expected).max() <= BOUND[str(X.dtype)] * np.abs(expected).max()

    @pytest.mark.parametrize("d", [4, 40])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_held_formed_on_the_fly_sparse_and_pytorch(self, monkeypatch, d, dtype):
        X = points(300, d, dtype)
        new = X[:50] + dtype(0.01)
        self.assert_close(self.embed(X, cutoff=1e-30), X, new)
        pytest.importorskip("torch")
        self.assert_close(self.embed(X, device="torch-cpu"), X, new)

    @pytest.mark.parametrize("d", [4, 40])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_a_memory_that_does_not_hold_the_kernel(self, monkeypatch, d, dtype):
        X = points(300, d, dtype)
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: X.dtype.itemsize * 300**2)
        model = self.embed(X)
        assert model.kernel_.affinity.description == "every pair, formed on the fly"
        monkeypatch.undo()
        self.assert_close(model, X, X[:50] + dtype(0.01))

    def test_chunks_of_dask_change_no_bit_and_dask_little(self, monkeypatch):
        da = pytest.importorskip("dask.array")
        monkeypatch.setattr("heatsketch.backends.dask.layout.BAND", 150)
        X = points(300, 4, np.float64)
        made = [self.embed(da.from_array(X, chunks=chunks)) for chunks in ((300, 4), (70, 2), ((10, 200, 90), 4))]
        found = [digest([model.embedding_.compute(), model.transform(X[:9] + 0.01)]) for model in made]
        assert len(set(found)) == 1
        self.assert_close(made[0], X, X[:50] + 0.01)

    def test_a_file_in_memory_and_in_batches(self, monkeypatch, tmp_path):
        """Rows of a mapped file and their order in memory are no different from an array's."""
        X = points(300, 4, np.float64)
        np.save(tmp_path / "x.npy", np.asfortranarray(X))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        same = [self.embed(Z, **kind) for Z in (X, mapped, X[:, ::-1][:, ::-1]) for kind in ({}, {"n_neighbors": 9})]
        found = [digest(model.embedding_) for model in same]
        assert found == found[:2] * 3
