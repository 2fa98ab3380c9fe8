"""What a user of large data sees: choices, estimates, files mapped into memory, progress, and errors in time."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances

import heatsketch as hs
from heatsketch._utils.memmap import is_mapped
from heatsketch._utils.memory import _control_groups, available_memory, size_in_words
from heatsketch.backends.torch.device import Device
from heatsketch.estimators import DiffusionMaps
from heatsketch.kernel.costs import Estimate
from heatsketch.kernel.options import KernelOptions
from heatsketch.kernel.plan import choose
from heatsketch.linalg.metrics import Metric
from heatsketch.neighbors.clusters import ClusterIndex
from heatsketch.neighbors.neighborhoods import Neighborhoods

GP = hs.GaussianProcessEmbedding


def roll(n, seed=0):
    rng = np.random.default_rng(seed)
    t = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
    return np.column_stack([t * np.cos(t), 21 * rng.uniform(size=n), t * np.sin(t)]) + 0.1 * rng.normal(size=(n, 3))


class TestChoice:
    def choose(self, n, d=3, dtype=np.float64, **options):
        return choose((n, d), dtype, KernelOptions(**options))

    def test_small_data_are_held(self):
        choice = self.choose(1000)
        assert (choice.n_neighbors, choice.tiled) == (None, False)
        assert "every pair, held (8.0 MB)" in choice.reason

    def test_middling_data_are_formed_on_the_fly_and_large_ones_sparse(self):
        assert self.choose(12_000).tiled
        assert self.choose(12_000, d=2000).n_neighbors == 32  # tiles would take long
        assert self.choose(1_000_000).n_neighbors == 32

    @pytest.mark.parametrize("cores", [1, 64])
    def test_the_number_of_cores_does_not_change_the_kernel(self, monkeypatch, cores):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda: cores)
        assert self.choose(15_000).tiled
        assert self.choose(16_000).n_neighbors == 32

    @pytest.mark.parametrize("d", [3, 2000])
    def test_little_memory_means_tiles(self, monkeypatch, d):
        """Every pair as with much memory, not neighbours: the same embedding up to rounding."""
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 100_000_000)
        assert self.choose(9000, d=d).tiled

    def test_what_is_asked_for_is_done(self):
        assert self.choose(1000, n_neighbors=5).n_neighbors == 5
        assert self.choose(100_000, n_neighbors=None).tiled
        assert self.choose(10, n_neighbors=50).n_neighbors is None

    def test_pairs_that_must_be_held_and_cannot_be(self, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.plan.available_memory", lambda: 1_000_000_000)
        with pytest.raises(
            MemoryError, match=r"metric='cosine' takes a matrix of 80.0 GB, and 1.0 GB are available; keep"
        ):
            self.choose(100_000, metric="cosine", n_neighbors=None)

    def test_the_embedding_tells_what_was_chosen(self):
        X = roll(5000)
        model = GP(2, n_neighbors=20).fit(X)
        assert model.kernel_.affinity.description == "20 neighbours (tree, recall 1.000)"


class TestEstimate:
    @pytest.mark.parametrize(
        ("n", "d", "options"),
        [
            (3000, 3, {"n_neighbors": None, "metric": "manhattan"}),
            (3000, 3, {"n_neighbors": None}),
            (3000, 60, {"n_neighbors": None}),
            (40_000, 3, {"n_neighbors": 32}),
            (30_000, 20, {"n_neighbors": 32}),
            (30_000, 20, {"n_neighbors": 8}),
            (11_000, 5, {"n_neighbors": None}),
        ],
    )
    def test_memory_within_a_factor_of_two(self, n, d, options):
        X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        foretold = hs.estimate((n, d), n_components=8, dtype=np.float32, **options).memory
        GP(8, power=2, random_state=0, **options).fit(X[:5000])  # compiled before it is measured
        tracemalloc.start()
        GP(8, power=2, random_state=0, **options).fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.5 < foretold / peak < 2.0

    def test_work_grows_as_it_must(self):
        def seconds(n, **options):
            return hs.estimate((n, 3), power=16, n_components=10, **options).seconds

        assert seconds(400_000, n_neighbors=32) / seconds(100_000, n_neighbors=32) == pytest.approx(4, rel=0.1)
        assert seconds(400_000, n_neighbors=None) / seconds(100_000, n_neighbors=None) == pytest.approx(16, rel=0.1)
        assert seconds(100_000, n_neighbors=64) > seconds(100_000, n_neighbors=16)

    def test_data_or_shape(self):
        X = roll(5000)
        given, shape = hs.estimate(X, n_neighbors=20), hs.estimate(X.shape, n_neighbors=20)
        assert given.memory == shape.memory
        assert given.n_neighbors == shape.n_neighbors == 20
        assert "5000 samples, 20 neighbours: about" in str(given)
        assert hs.estimate(sparse.csr_array(np.eye(50)), affinity="precomputed").held == "the given affinity"

    def test_with_a_cutoff_the_data_tell(self):
        X = roll(3000)
        few, many = (hs.estimate(X, cutoff=c, bandwidth=1.0) for c in (0.5, 1e-6))
        assert few.memory < many.memory
        with pytest.raises(ValueError, match="give X itself instead of its shape"):
            hs.estimate((3000, 3), cutoff=1e-3)

    @pytest.mark.parametrize("shape", [(10,), (10, 2, 3), (0, 3), (1, 3), (1e6, 3), (True, 3), [5], 1000, None, "X"])
    def test_bad_shapes(self, shape):
        with pytest.raises(ValueError, match="it must be data, or a shape"):
            hs.estimate(shape)

    def test_other_nonsense(self):
        with pytest.raises(ValueError, match="the diffusion time must be a positive"):
            hs.estimate((100, 3), power=-1)
        with pytest.raises(ValueError, match="computed in float32 or float64"):
            hs.estimate((100, 3), dtype="int64")
        with pytest.raises(ValueError, match="a precomputed matrix must be square"):
            hs.estimate((100, 3), metric="precomputed")

    def test_limits_on_groups_of_processes(self, tmp_path):
        own = tmp_path / "cgroup"
        own.write_text("0::/outer/inner\n")
        for folder, limit in (("outer/inner", "max"), ("outer", "1000"), ("", "max")):
            group = tmp_path / "fs" / folder
            group.mkdir(parents=True, exist_ok=True)
            (group / "memory.max").write_text(limit + "\n")
            (group / "memory.current").write_text("700\n")
            (group / "memory.stat").write_text("anon 300\ninactive_file 250\nactive_file 150\n")
        assert _control_groups(tmp_path / "fs", own) == [700]  # what files take is given back when it is needed
        assert _control_groups(tmp_path / "nothing", own) == []

    def test_limits_on_groups_of_the_older_kind(self, tmp_path):
        own = tmp_path / "cgroup"
        own.write_text("3:cpuset:/\n2:memory:/inner\n0::/\n")
        for folder, limit in (("inner", "1000"), ("", str((1 << 63) - 4096))):
            group = tmp_path / "fs" / "memory" / folder
            group.mkdir(parents=True, exist_ok=True)
            (group / "memory.limit_in_bytes").write_text(limit + "\n")
            (group / "memory.usage_in_bytes").write_text("1200\n")
            (group / "memory.stat").write_text("inactive_file 250\n")
        assert _control_groups(tmp_path / "fs", own) == [50]

    def test_a_fit_that_cannot_fit_is_refused_before_it_starts(self, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.costs.available_memory", lambda: 1_000_000)
        with pytest.raises(MemoryError, match=r"every pair.* would take about .* 1.0 MB are available. Use neighbours"):
            GP(2).fit(roll(3000))
        with pytest.raises(MemoryError, match="fewer neighbours or components"):
            GP(2, n_neighbors=10).fit(roll(3000))

    def test_it_is_refused_under_a_limit_of_the_system_too(self):
        code = (
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000, 6_000_000_000)); "
            "import numpy as np, heatsketch as hs; hs.GaussianProcessEmbedding(2, metric='cosine', n_neighbors=None)"
            ".fit(np.random.default_rng(0).normal(size=(60_000, 3)))"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "takes a matrix of 28.8 GB" in ran.stderr.splitlines()[-1]

    def test_words(self):
        assert size_in_words(2.5e9) == "2.5 GB"
        assert size_in_words(3e6) == "3.0 MB"
        assert available_memory() > 10_000_000
        assert (
            str(Estimate(5, "this", None, 10**9, 10**10, 200.0)) == "5 samples, this: about 1.0 GB of memory, 3.33 min"
        )

    def test_seconds_on_a_gpu_are_those_of_the_dtype(self, monkeypatch):
        class Chip(Device):
            multiprocessors, chip, is_cuda = 132, "a chip", True

            def free_memory(self):
                return 10**12

        monkeypatch.setattr("heatsketch.kernel.plan.find_device", lambda name: Chip("cuda:0"))
        single, double = (
            hs.estimate((100_000, 50), n_components=8, n_neighbors=None, device="cuda", dtype=dtype).seconds
            for dtype in ("float32", "float64")
        )
        assert double > 10 * single


class TestFiles:
    """Input and output that are mapped into memory."""

    @pytest.fixture
    def mapped(self, tmp_path):
        X = roll(6000).astype(np.float32)
        np.save(tmp_path / "X.npy", X)
        return X, np.load(tmp_path / "X.npy", mmap_mode="r")

    def test_points_in_a_file_are_not_read_into_memory(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(20_000, 300)).astype(np.float32)  # 24 MB
        np.save(tmp_path / "X.npy", X)
        peaks = []
        for points in (X, np.load(tmp_path / "X.npy", mmap_mode="r")):
            ClusterIndex(points[:3000]).neighbors(4)
            tracemalloc.start()
            index = ClusterIndex(points)
            index.neighbors(4)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert is_mapped(index.points) == is_mapped(points)
        twice = np.load(tmp_path / "X.npy", mmap_mode="r+")
        twice[1] = twice[0]
        assert is_mapped(Neighborhoods(twice[:5000], 4, Metric()).index.points)
        assert peaks[1] < peaks[0] - 0.9 * X.nbytes

    def test_a_model_of_a_file_travels_to_other_processes(self, tmp_path):
        np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(6000, 12)).astype(np.float32))
        file = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = GP(3, n_neighbors=15, random_state=0).fit(file)
        here = model.transform(file[:5])
        for there in Parallel(2)(delayed(model.transform)(np.array(file[:5])) for _ in range(2)):
            np.testing.assert_allclose(there, here, atol=1e-6)

    def test_no_room_for_a_temporary_file(self, tmp_path, monkeypatch):
        np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(6000, 12)))
        file = np.load(tmp_path / "X.npy", mmap_mode="r")

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.posix_fallocate", full, raising=False)
        with pytest.raises(OSError, match=r"no room for a temporary file of .* TMPDIR"):
            GP(3, n_neighbors=15).fit(file)

    @pytest.mark.parametrize("d", [3, 12])
    def test_points_in_a_file(self, tmp_path, d):
        X = np.random.default_rng(0).normal(size=(6000, d)).astype(np.float32)
        np.save(tmp_path / "X.npy", X)
        file = np.load(tmp_path / "X.npy", mmap_mode="r")
        options = {"n_neighbors": 15, "random_state": 0}
        np.testing.assert_array_equal(GP(3, **options).fit_transform(file), GP(3, **options).fit_transform(X))

    @pytest.mark.parametrize("estimator", [GP(3, random_state=0), DiffusionMaps(3)], ids=str)
    def test_embedding_in_a_file(self, tmp_path, estimator, torus):
        expected = estimator.fit_transform(torus)
        out = np.lib.format.open_memmap(tmp_path / "Y.npy", "w+", "float64", (300, 3))
        assert estimator.fit_transform(torus, out=out) is out
        assert estimator.embedding_ is out
        out.flush()
        np.testing.assert_array_equal(np.load(tmp_path / "Y.npy"), expected)

    def test_new_points_from_file_to_file(self, tmp_path, mapped):
        X, file = mapped
        model = GP(3, n_neighbors=15, random_state=0).fit(X[:5000])
        out = np.lib.format.open_memmap(tmp_path / "Y.npy", "w+", "float32", (6000, 3))
        assert model.transform(file, out=out) is out
        np.testing.assert_array_equal(np.load(tmp_path / "Y.npy"), model.transform(X))

    def test_new_points_take_little_memory_however_many(self):
        model = GP(3, n_neighbors=10, random_state=0).fit(roll(5000))
        peaks = []
        model.transform(roll(100))
        for m in (40_000, 160_000):
            new = roll(m, seed=1)
            tracemalloc.start()
            model.transform(new)
            peaks.append(tracemalloc.get_traced_memory()[1] - m * 3 * 8)  # without the result itself
            tracemalloc.stop()
        assert peaks[1] < 1.5 * peaks[0]

    @pytest.mark.parametrize(
        "out",
        [np.empty((300, 2)), np.empty((299, 3)), np.empty((300, 3), dtype=int), np.empty(300), [[0.0] * 3] * 300],
        ids=["narrow", "short", "integers", "flat", "a list"],
    )
    @pytest.mark.parametrize("n_components", [3, "auto"])
    def test_a_place_that_does_not_suit_is_refused_before_any_work(self, torus, out, n_components):
        model = GP(n_components, random_state=0, distance_error=0.5)
        with pytest.raises(ValueError, match=r"it must be a writeable array of float32 or float64 of shape \(300, "):
            model.fit_transform(torus, out=out)
        with pytest.raises(NotFittedError):
            model.transform(torus)


class TestCutoff:
    @pytest.mark.parametrize("limit", [10, 100_000])
    @pytest.mark.parametrize("options", [{}, {"diagonal": "zero"}, {"bandwidth": "self-tuning"}], ids=str)
    def test_the_kernel_is_exact_to_the_tolerance(self, limit, options, monkeypatch):
        monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", limit)  # by clusters, and by blocks
        X = np.vstack([roll(600), roll(5)])
        X[-5:] = X[:5]
        exact = hs.heat_kernel(X, n_neighbors=None, normalization="symmetric", **options).affinity
        kept = hs.heat_kernel(X, cutoff=1e-3, normalization="symmetric", **options).affinity
        K, S = exact.operator.toarray(), kept.operator.toarray()
        np.testing.assert_allclose(S[S > 0], K[S > 0], rtol=1e-9)
        assert K[S == 0].max() < 1e-3
        assert kept.operator.array.nnz < 0.3 * K.size
        np.testing.assert_array_equal(S, S.T)

    @pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine"])
    def test_other_metrics(self, metric):
        X = roll(4500)[::5] if metric == "cosine" else roll(4500)
        kept = hs.heat_kernel(X, cutoff=1e-3, metric=metric, bandwidth=0.3, normalization="symmetric").affinity
        rows = pairwise_distances(X[:50], X, metric=metric)
        K, S = np.exp(-(rows**2) / 0.3), kept.operator.array[:50].toarray()
        assert np.abs(K - S).max() < 1e-3

    def test_embeddings_approach_the_exact_one(self):
        X = roll(500)
        exact = GP(4, n_neighbors=None, random_state=0).fit_transform(X)
        errors = [np.abs(GP(4, cutoff=c, random_state=0).fit_transform(X) - exact).max() for c in (1e-1, 1e-3, 1e-9)]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-5 * np.abs(exact).max()

    def test_training_points_are_placed_where_they_are(self):
        X = roll(500)
        model = GP(4, cutoff=1e-6, random_state=0).fit(X)
        scale = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-5 * scale)

    @pytest.mark.parametrize("cutoff", [0, 1, -1e-3, "small"])
    def test_bad_cutoffs(self, torus, cutoff):
        with pytest.raises(ValueError, match="a number between 0 and 1"):
            GP(2, cutoff=cutoff).fit(torus)

    def test_a_cutoff_and_neighbours_exclude_each_other(self, torus):
        with pytest.raises(ValueError, match="leave n_neighbors at 'auto'"):
            GP(2, cutoff=1e-3, n_neighbors=5).fit(torus)

    def test_entries_that_would_not_fit_are_refused(self, torus, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.radius.available_memory", lambda: 100_000)
        with pytest.raises(MemoryError, match="use a smaller bandwidth, a larger cutoff, or neighbours"):
            GP(2, cutoff=1e-9).fit(torus)


def test_neighbours_come_close_to_all_pairs():
    """The error that docs/scale.md speaks of, at a size that tests can afford."""
    X = roll(2000)
    pairs = np.random.default_rng(0).integers(2000, size=(500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    exact = hs.diffusion_distances(hs.heat_kernel(X, n_neighbors=None), 16, pairs)
    near = hs.diffusion_distances(hs.heat_kernel(X, n_neighbors=32), 16, pairs)
    assert spearmanr(exact, near).statistic > 0.98
    assert np.median(np.abs(near / exact - 1)) < 0.1


def test_progress_is_shown_where_it_is_asked_for(capsys):
    GP(2, n_neighbors=10, verbose=True, random_state=0).fit(roll(5000)).transform(roll(10))
    said = capsys.readouterr()
    assert "5000 samples, float64, 10 neighbours (tree, recall 1.000), bandwidth" in said.err
    assert said.out == ""
    GP(2, n_neighbors=10, random_state=0).fit(roll(5000))
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_has_bars(monkeypatch):
    code = (
        "import numpy as np, heatsketch as hs; X = np.random.default_rng(0).normal(size=(30_000, 3)); "
        "hs.GaussianProcessEmbedding(2, n_neighbors=30, power=64, verbose=True).fit(X)"
    )
    for name, value in {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "multiplying by the kernel" in ran.stderr


def test_a_path_longer_than_its_neighbourhoods_is_one_piece():
    """Fifty thousand points on a line: the graph must hold them together, and distances along it must grow."""
    X = np.linspace(0, 1, 50_000)[:, None]
    model = GP(16, n_neighbors=8, power=64, random_state=0).fit(X)
    Y = model.embedding_
    steps = np.linalg.norm(np.diff(Y, axis=0), axis=1)
    far = np.linalg.norm(Y[:-5000] - Y[5000:], axis=1)
    assert steps.max() < far.min()
    assert cdist(Y[:1], Y[1:2]).item() > 0
