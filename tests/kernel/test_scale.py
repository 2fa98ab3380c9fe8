"""Large data: the planned kernel, cost estimates, memory-mapped files, cutoffs."""

from __future__ import annotations

import pickle
import tracemalloc
from mmap import mmap
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import heatsketch as hs
from heatsketch._utils import memory
from heatsketch.kernel.options import KernelOptions
from heatsketch.kernel.plan import choose
from heatsketch.linalg.diffusion import diffuse
from heatsketch.neighbors.clusters import ClusterIndex, Codes
from heatsketch.optimize.features import wide_sketch

GP = hs.GaussianProcessEmbedding


def swiss_roll(n, seed=0):
    rng = np.random.default_rng(seed)
    t = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
    return np.column_stack([t * np.cos(t), 21 * rng.uniform(size=n), t * np.sin(t)]) + 0.1 * rng.normal(size=(n, 3))


def peak_memory(work):
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


class TestPlan:
    def choose(self, n, d=3, **options):
        return choose((n, d), np.float64, KernelOptions(**{"device": "cpu", "bandwidth": 1.0, **options}))

    @pytest.mark.parametrize("bandwidth", ["auto", "self-tuning", np.ones(20)], ids=str)
    def test_fifteen_neighbors_with_local_scales(self, bandwidth):
        for n in (17, 1000, 1_000_000):
            for options in ({}, {"metric": "cosine"}, {"metric": "precomputed"}):
                assert self.choose(n, bandwidth=bandwidth, **options).n_neighbors == 15
        assert self.choose(16, bandwidth=bandwidth).n_neighbors is None
        assert self.choose(1000, bandwidth=bandwidth, n_neighbors=None).n_neighbors is None

    def test_by_size(self):
        small = self.choose(1000)
        assert (small.n_neighbors, small.tiled) == (None, False)
        assert self.choose(12_000).tiled
        assert self.choose(12_000, d=2000).n_neighbors == 32  # tiles would take long
        assert self.choose(1_000_000).n_neighbors == 32

    def test_number_of_cores_does_not_change_the_kernel(self, monkeypatch):
        for cores in (1, 64):
            monkeypatch.setattr("heatsketch._utils.threads._cores", lambda cores=cores: cores)
            assert self.choose(15_000).tiled
            assert self.choose(16_000).n_neighbors == 32

    def test_little_memory_means_tiles(self, monkeypatch):
        """Every pair as with much memory: the same embedding up to rounding."""
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 100_000_000)
        assert self.choose(9000).tiled
        assert self.choose(9000, d=2000).tiled

    def test_gpu_uses_every_pair_of_more_points(self, monkeypatch):
        gpu = SimpleNamespace(chip="a chip", is_cuda=True, multiprocessors=100)
        monkeypatch.setattr("heatsketch.kernel.plan.find_device", lambda name: gpu)
        options = KernelOptions(device="cuda", bandwidth=1.0)
        there = choose((1_000_000, 20), np.float32, options)
        assert (there.n_neighbors, there.tiled, there.device) == (None, True, gpu)
        assert choose((1_000_000, 20), np.float64, options).n_neighbors == 32
        assert choose((1_000_000, 20), np.float32, KernelOptions(device="cuda")).n_neighbors == 15

    def test_gpu_is_looked_for_where_the_cpu_takes_long(self, monkeypatch):
        gpu = SimpleNamespace(chip="a GPU", is_cuda=True, multiprocessors=132)
        monkeypatch.setattr("heatsketch.kernel.plan.find_device", lambda name: gpu)
        monkeypatch.setattr("heatsketch.kernel.plan.has_gpu", lambda: True)

        def device(n, d, **options):
            return choose((n, d), np.float32, KernelOptions(**options)).device

        assert device(20_000, 3) is None  # a second by the CPU
        assert device(20_000, 3, bandwidth=1.0) is gpu
        assert device(1_000_000, 3) is device(200_000, 100) is gpu

    def test_explicit_options_are_followed(self):
        assert self.choose(1000, n_neighbors=5).n_neighbors == 5
        assert self.choose(100_000, n_neighbors=None).tiled
        assert self.choose(10, n_neighbors=50).n_neighbors is None

    def test_matrix_larger_than_memory_raises(self, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 1_000_000_000)
        with pytest.raises(MemoryError, match="metric='cosine'"):
            self.choose(100_000, metric="cosine", n_neighbors=None)


def test_memory_is_that_of_the_tightest_group(tmp_path, monkeypatch):
    job = tmp_path / "batch" / "job7"
    job.mkdir(parents=True)
    (tmp_path / "own").write_text("1:name=systemd:/\n0::/batch/job7\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    unlimited = memory.available_memory()
    for group, limit in ((job, "max"), (job.parent, "1000")):
        (group / "memory.max").write_text(limit)
        (group / "memory.current").write_text("700")
        (group / "memory.stat").write_text("anon 600\nfile 100\n")
    assert memory.available_memory() == 400
    (job.parent / "memory.max").write_text("max")
    assert memory.available_memory() == pytest.approx(unlimited, rel=0.2)


class TestEstimate:
    @pytest.mark.parametrize(("n", "d", "options"), [(2000, 60, {"n_neighbors": None}), (8000, 3, {"n_neighbors": 32})])
    def test_memory_within_a_factor_of_two(self, n, d, options, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")  # each thread has buffers, which small data do not fill
        X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        sizes = {"n_components": 8, "dtype": np.float32, "device": "cpu"} | options
        for method, model in (("gaussian-process", GP(8, power=2)), ("heatsketch", hs.HeatSketch(8))):
            predicted = hs.estimate((n, d), method=method, **sizes).memory
            model.set_params(device="cpu", random_state=0, **options).fit(X[:5000])  # compile before measuring
            assert 0.5 < predicted / peak_memory(lambda model=model: model.fit(X)) < 2.0

    def test_seconds_grow_with_the_work(self):
        def seconds(n, **options):
            return hs.estimate((n, 3), power=16, n_components=10, device="cpu", **options).seconds

        assert seconds(400_000, n_neighbors=32) / seconds(100_000, n_neighbors=32) == pytest.approx(4, rel=0.1)
        assert seconds(400_000, n_neighbors=None) / seconds(100_000, n_neighbors=None) == pytest.approx(16, rel=0.1)
        assert seconds(100_000, n_neighbors=64) > seconds(100_000, n_neighbors=16)

    def test_every_pair_counts_the_wide_sketch(self):
        def steps(n, n_neighbors=None, **options):
            return dict(hs.estimate((n, 3), n_neighbors=n_neighbors, device="cpu", **options).steps)

        assert "finding eigenvectors" in steps(800)
        assert "finding eigenvectors" not in steps(800, 700)
        assert "finding leading directions" in steps(5000)
        many, few = steps(5000), steps(5000, method="gaussian-process", n_components=32)
        assert many["multiplying by the kernel"] > 6 * few["multiplying by the kernel"]
        assert steps(2000)["finding eigenvectors"] < steps(2001)["multiplying by the kernel"]

    @pytest.mark.parametrize("n_neighbors", [None, 15])
    def test_features_count(self, n_neighbors):
        few, many = (hs.estimate((1000, d), n_neighbors=n_neighbors, device="cpu") for d in (20, 20_000))
        assert many.memory > few.memory + 1000 * 20_000 * 8
        assert many.seconds > few.seconds + 0.1
        assert not hs.estimate((100, 10**9), n_neighbors=n_neighbors, device="cpu").fits

    def test_methods_and_pages_take_their_own_time(self):
        def seconds(n, **options):
            return hs.estimate((n, 20), n_components=5, device="cpu", dtype="float32", **options).seconds

        for n in (2000, 20_000, 200_000):
            assert seconds(n, method="gaussian-process") < seconds(n, method="heatsketch") < seconds(n, page=True)
        assert seconds(200_000, method="diffusion-maps") > 2 * seconds(200_000, method="gaussian-process")
        steps = dict(hs.estimate((20_000, 20), device="cpu", page=True).steps)
        assert {"finding neighbours", "optimising the embedding", "drawing the pictures"} <= steps.keys()
        assert all(value > 0 for value in steps.values())

    def test_data_and_shape_give_the_same(self):
        X = swiss_roll(5000)
        given, shape = hs.estimate(X, n_neighbors=20), hs.estimate(X.shape, n_neighbors=20)
        assert given.memory == shape.memory
        assert given.n_neighbors == shape.n_neighbors == 20
        assert "5,000 samples" in str(given)
        assert "does not fit" not in str(given)
        assert hs.estimate(sparse.csr_array(np.eye(50)), affinity="precomputed").memory > 0

    def test_what_does_not_fit_is_said_with_a_remedy(self, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 10**8)
        assert "does not fit. Use fewer components" in str(hs.estimate((10**6, 50)))
        assert not hs.estimate((2000, 5), page=True).fits
        assert hs.estimate((2000, 5)).fits
        with pytest.raises(MemoryError, match="Use neighbours instead of every pair"):
            hs.HeatSketch(n_neighbors=None, bandwidth=1.0).fit(np.zeros((5000, 50)))

    def test_unknown_options_raise(self):
        with pytest.raises(TypeError, match=r"no parameter 'n_component'\. Did you mean 'n_components'"):
            hs.estimate((50, 3), n_component=3)

    @pytest.mark.parametrize("shape", [(10,), (1, 3), (1e6, 3), None])
    def test_invalid_shape(self, shape):
        with pytest.raises(ValueError, match="shape"):
            hs.estimate(shape)

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"power": -1}, "positive"),
            ({"dtype": "int64"}, "float32"),
            ({"metric": "precomputed"}, "square"),
            ({"cutoff": 1e-3}, "cutoff"),
        ],
    )
    def test_invalid_options(self, options, word):
        with pytest.raises(ValueError, match=word):
            hs.estimate((100, 3), **options)

    def test_more_components_than_samples_raise_before_work(self, monkeypatch):
        X = swiss_roll(40)
        for method, model, k in (("heatsketch", hs.HeatSketch, 41), ("diffusion-maps", hs.DiffusionMaps, 40)):
            with pytest.raises(ValueError, match="39"):
                hs.estimate(X.shape, method=method, n_components=k)
            with pytest.raises(ValueError, match="39"):
                model(k).fit(X)
            assert hs.estimate(X.shape, method=method, n_components=k - 1).fits
        with pytest.raises(ValueError, match="39"):
            hs.HeatSketch(random_state=0).fit(X).add_components(39)
        monkeypatch.setattr("heatsketch.estimators._base.build_affinity", None)
        with pytest.raises(ValueError, match="at most 39"):
            hs.HeatSketch(3000, objective="bilipschitz").fit(X)

    def test_fit_that_exceeds_memory_raises_before_work(self, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 1_000_000)
        for n_neighbors in (None, 10):
            with pytest.raises(MemoryError, match="neighbours"):
                GP(2, n_neighbors=n_neighbors).fit(swiss_roll(3000))


class TestMappedFiles:
    def mapped(self, folder, X):
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")

    def test_points_are_not_read_into_memory(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(5000, 20)).astype(np.float32)
        for points, is_mapped in ((self.mapped(tmp_path, X), True), (X, False)):
            index = ClusterIndex(points)
            codes = Codes(index, in_bytes=False)._codes
            assert isinstance(index.points.base, mmap) == isinstance(codes.base, mmap) == is_mapped

    def test_embedding_equals_that_of_the_array(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(5000, 12)).astype(np.float32)
        file, options = self.mapped(tmp_path, X), {"n_neighbors": 15, "random_state": 0}
        model = GP(3, **options).fit(file)
        np.testing.assert_array_equal(model.embedding_, GP(3, **options).fit_transform(X))
        there = pickle.loads(pickle.dumps(model))  # as another process receives it
        np.testing.assert_allclose(there.transform(X[:5]), model.transform(file[:5]), atol=1e-6)

    def test_output_in_a_file(self, tmp_path, torus):
        model = GP(3, random_state=0)
        expected = model.fit_transform(torus)
        for compute in (model.fit_transform, model.transform):
            out = np.lib.format.open_memmap(tmp_path / "Y.npy", "w+", "float64", (300, 3))
            assert compute(torus, out=out) is out
            out.flush()
            np.testing.assert_allclose(np.load(tmp_path / "Y.npy"), expected, atol=1e-9)

    def test_transform_memory_does_not_grow_with_new_points(self, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")  # each thread places a batch
        monkeypatch.setattr("heatsketch.kernel.operator._MANY_BATCHES", 1)  # as large as memory allows
        model = GP(3, n_neighbors=10, random_state=0).fit(swiss_roll(5000))
        model.transform(swiss_roll(100))
        peaks = []
        for m in (20_000, 40_000):
            new = swiss_roll(m, seed=1)
            peaks.append(peak_memory(lambda new=new: model.transform(new)) - m * 3 * 8)  # without the result
        assert peaks[1] < 1.5 * peaks[0]

    @pytest.mark.parametrize("out", [np.empty((299, 3)), np.empty((300, 3), dtype=int), [[0.0] * 3] * 300], ids=type)
    def test_invalid_output_raises_before_work(self, torus, out):
        model = GP(3, random_state=0)
        with pytest.raises(ValueError, match=r"shape \(300, "):
            model.fit_transform(torus, out=out)
        with pytest.raises(NotFittedError):
            model.transform(torus)


class TestCutoff:
    @pytest.mark.parametrize("options", [{}, {"diagonal": "zero"}, {"bandwidth": "self-tuning"}], ids=str)
    def test_kernel_is_exact_above_the_cutoff(self, options):
        X = swiss_roll(405)
        X[-5:] = X[:5]
        exact = hs.heat_kernel(X, n_neighbors=None, normalization="symmetric", **options).affinity
        kept = hs.heat_kernel(X, cutoff=1e-3, normalization="symmetric", **options).affinity
        K, S = exact.operator.toarray(), kept.operator.toarray()
        np.testing.assert_allclose(S[S > 0], K[S > 0], rtol=1e-9)
        assert K[S == 0].max() < 1e-3
        assert kept.operator.operator.array.nnz < 0.4 * K.size  # equal points are one
        np.testing.assert_array_equal(S, S.T)

    def test_embeddings_approach_the_exact_one(self):
        X = swiss_roll(300)
        exact = GP(4, n_neighbors=None, random_state=0).fit_transform(X)
        models = [GP(4, kernel_params={"cutoff": c}, random_state=0).fit(X) for c in (1e-1, 1e-3, 1e-9)]
        errors = [np.abs(model.embedding_ - exact).max() for model in models]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-5 * np.abs(exact).max()
        np.testing.assert_allclose(models[2].transform(X), models[2].embedding_, atol=1e-5 * np.abs(exact).max())

    @pytest.mark.parametrize("cutoff", [0, 1, "small"])
    def test_invalid_cutoff(self, torus, cutoff):
        with pytest.raises(ValueError, match="cutoff"):
            hs.heat_kernel(torus, cutoff=cutoff)

    def test_cutoff_with_neighbours_raises(self, torus):
        with pytest.raises(ValueError, match="n_neighbors"):
            hs.heat_kernel(torus, cutoff=1e-3, n_neighbors=5)


@pytest.mark.parametrize("options", [{}, {"normalization": "stochastic"}], ids=str)
def test_wide_sketch_of_few_points_is_that_of_products(options):
    kernel = hs.heat_kernel(swiss_roll(600), n_neighbors=None, **options)
    h = hs.multiscale(kernel)
    wide = wide_sketch(kernel, h, 32, seed=0)
    expected = kernel.weigh_rows(diffuse(kernel, wide.M, [h], trivial=not kernel.trivial_is_constant)[0]) / wide.unit
    np.testing.assert_allclose(wide.features, expected, atol=1e-7 * np.abs(expected).max())


def test_long_path_is_connected():
    X = np.linspace(0, 1, 20_000)[:, None]
    Y = GP(16, n_neighbors=8, power=64, random_state=0).fit_transform(X)
    steps = np.linalg.norm(np.diff(Y, axis=0), axis=1)
    assert 0 < steps[0] <= steps.max() < np.linalg.norm(Y[:-5000] - Y[5000:], axis=1).min()
