"""The same seed and data give the same bits on any number of threads; backends agree to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import heatsketch as hs
from digests import digest, points
from heatsketch._utils.threads import product


def test_limits_of_the_caller_change_no_bit(monkeypatch):
    """Neither BLAS limits of the caller nor the number of cores change a fit or a product with the kernel."""
    X, threads = points(600, 40, np.float64), 3

    def work():
        model = hs.DiffusionMaps(3, bandwidth=1.0).fit(X)
        return digest([model.embedding_, model.transform(X[::2] + 0.01), model.kernel_ @ X, model.kernel_.toarray()])

    with threadpool_limits(1, "blas"):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: 1)
        alone = work()
    with threadpool_limits(threads, "blas"):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: threads)
        assert work() == alone


@pytest.mark.parametrize("shape", [(1, 1, 1), (1500, 900, 1), (700, 700, 700), (0, 5, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_equal_numpy_for_any_number_of_threads(monkeypatch, shape, dtype):
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


# Differences between backends, relative to the largest entry.
BOUND = {"float64": 1e-10, "float32": 2e-5}


class TestBackends:
    """The same kernel by different operators."""

    def embed(self, X, **options):
        return hs.GaussianProcessEmbedding(4, bandwidth=1.0, power=4, random_state=0, **options).fit(X)

    def assert_close(self, model, X, new):
        held = self.embed(X)
        assert held.kernel_.affinity.description == "every pair"
        for found, expected in ((model.embedding_, held.embedding_), (model.transform(new), held.transform(new))):
            assert np.abs(np.asarray(found) - expected).max() <= BOUND[str(X.dtype)] * np.abs(expected).max()

    @pytest.mark.parametrize("d", [4, 40])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dense_sparse_and_pytorch(self, d, dtype):
        X = points(300, d, dtype)
        new = X[:50] + dtype(0.01)
        self.assert_close(self.embed(X, kernel_params={"cutoff": 1e-30}), X, new)
        pytest.importorskip("torch")
        self.assert_close(self.embed(X, device="torch-cpu"), X, new)

    @pytest.mark.parametrize("d", [4, 40])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_tiles_if_the_kernel_exceeds_memory(self, monkeypatch, d, dtype):
        X = points(300, d, dtype)
        monkeypatch.setattr("heatsketch.kernel.plan._KERNEL_SHARE", 0.0)
        model = self.embed(X)
        assert model.kernel_.affinity.description == "every pair, formed on the fly"
        monkeypatch.undo()
        self.assert_close(model, X, X[:50] + dtype(0.01))

    def test_dask_chunks_change_no_bit(self, monkeypatch):
        da = pytest.importorskip("dask.array")
        monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 150)
        X = points(300, 4, np.float64)
        made = [self.embed(da.from_array(X, chunks=chunks)) for chunks in ((300, 4), (70, 2), ((10, 200, 90), 4))]
        found = [digest([model.embedding_.compute(), model.transform(X[:9] + 0.01)]) for model in made]
        assert len(set(found)) == 1
        self.assert_close(made[0], X, X[:50] + 0.01)

    def test_memory_layout_changes_no_bit(self, tmp_path):
        X = points(300, 4, np.float64)
        np.save(tmp_path / "x.npy", np.asfortranarray(X))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        same = [self.embed(Z, **kind) for Z in (X, mapped, X[:, ::-1][:, ::-1]) for kind in ({}, {"n_neighbors": 9})]
        found = [digest(model.embedding_) for model in same]
        assert found == found[:2] * 3
