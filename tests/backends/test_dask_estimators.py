"""Estimators on Dask equal those in memory to rounding, and gather no large array."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
import dask.bag  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

import heatsketch as hs  # noqa: E402
from heatsketch.analysis.processes import kernel_rows  # noqa: E402
from heatsketch.layout.similarities import relative_scales  # noqa: E402
from parameters import folded  # noqa: E402

N = 900
X = hs.datasets.stretched_torus(N, random_state=0)
PAIRS = np.random.default_rng(0).integers(0, N, (50, 2))
# A wide kernel, whose spectrum decays fast, and a scaling that takes two products: few tasks.
COMMON = {"bandwidth": 2.0, "power": 3, "normalization": "stochastic"}
FEW_TIMES = hs.MultiscaleFilter((1.0, 2.0, 4.0), (1.0, 1.0, 2.0))
# What two orders of summation may differ by, relative to the largest entry; eigenvectors beside a small gap by more.
ROUNDING, SPECTRAL = 1e-12, 1e-9


@pytest.fixture(autouse=True, scope="module")
def _two_chunks():
    """Two row chunks, limits that make data in memory count as large, and small searches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 450)
        for limit in (
            "linalg.eigen.DENSE_LIMIT",
            "kernel.plan.DIAGONALISED",
            "linalg.diffusion._EIGEN_LIMIT",
            "analysis.distortion.ALL_PAIRS",
            "estimators.heat_sketch.ALL_PAIRS",
        ):
            patch.setattr(f"heatsketch.{limit}", 0)
        patch.setattr("heatsketch.linalg.diffusion._MOST_DEGREE", 30)
        patch.setattr("heatsketch.analysis.distortion._RANDOM_PAIRS", 300)
        patch.setattr("heatsketch.analysis.diagnosis._STEPS", (8, 8))
        patch.setattr("heatsketch.analysis.scales._COLUMNS", (8, 8))
        patch.setattr("heatsketch.analysis.reference_sketch._FEW", 0)
        yield


def on_dask(rows: int | tuple[int, ...] = (400, 350, 150), columns: int = 2):
    """The points as a Dask array."""
    return da.from_array(X, chunks=(rows, columns))


def both(estimator, **parameters):
    """The same estimator fitted on Dask and in memory."""
    made = [estimator(**folded({**COMMON, **parameters})) for _ in range(2)]
    return made[0].fit(on_dask()), made[1].fit(X)


def assert_equal(found, expected, tolerance=ROUNDING):
    expected = np.asarray(expected)
    found = np.asarray(found)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.fixture(scope="module")
def maps():
    return both(hs.DiffusionMaps, n_components=3)


@pytest.fixture(scope="module")
def sketches():
    return both(hs.GaussianProcessEmbedding, n_components=8, n_exact=2, random_state=0)


@pytest.fixture(scope="module")
def optimised():
    return both(hs.HeatSketch, n_components=3, objective="bilipschitz", random_state=0)


@pytest.fixture(scope="module")
def of_neighbors():
    return both(hs.DiffusionMaps, n_components=3, n_neighbors=16, bandwidth="auto")


class TestDiffusionMaps:
    def test_eigenpairs(self, maps):
        there, here = maps
        assert_equal(there.eigenvalues_, here.eigenvalues_)
        assert isinstance(there.eigenvectors_, da.Array)
        assert_equal(there.eigenvectors_, here.eigenvectors_, SPECTRAL)
        assert_equal(there.embedding_, here.embedding_, SPECTRAL)
        assert there.embedding_.chunks == ((400, 350, 150), (3,))
        assert there.residuals_.max() < 1e-7

    def test_distances_and_intervals(self, maps):
        there, here = maps
        for found, expected in zip(*(model.diffusion_distances(PAIRS, interval=0.9) for model in maps), strict=True):
            assert_equal(found, expected, SPECTRAL)
        assert_equal(there.diffusion_distances(PAIRS), here.diffusion_distances(PAIRS), SPECTRAL)

    def test_other_powers_and_new_points(self, maps):
        there, here = maps
        found = there.at_powers([2, 5.5])
        assert isinstance(found, da.Array)
        assert_equal(found, here.at_powers([2, 5.5]), SPECTRAL)
        new = X[:40] + 0.01
        assert_equal(there.transform(new), here.transform(new), SPECTRAL)

    def test_dense_solver_raises(self):
        with pytest.raises(ValueError, match="use solver='randomized'"):
            hs.DiffusionMaps(2, solver="dense", **COMMON).fit(on_dask())


class TestGaussianProcessEmbedding:
    def test_exact_directions(self, sketches):
        there, here = sketches
        assert_equal(there.embedding_, here.embedding_)
        for found, expected in zip(
            *(model.diffusion_distances(PAIRS, interval=0.9) for model in sketches), strict=True
        ):
            assert_equal(found, expected)

    def test_chunks_of_the_data_change_no_bit(self, sketches):
        again = hs.GaussianProcessEmbedding(n_components=8, n_exact=2, random_state=0, **COMMON)
        found = again.fit_transform(on_dask(333, 1))
        np.testing.assert_array_equal(found, sketches[0].embedding_)
        assert found.chunks[0] == (333, 333, 234)

    def test_more_components(self):
        there, here = both(hs.GaussianProcessEmbedding, n_components=3, random_state=0)
        for model in (there, here):
            model.add_components(2)
            model.add_components(distance_error=0.3)
        assert there.n_components_ == here.n_components_ > 5
        assert there.distance_error_ == here.distance_error_
        assert_equal(there.embedding_, here.embedding_)
        assert_equal(there.transform(X[:20] + 0.01), here.transform(X[:20] + 0.01))

    @pytest.mark.parametrize("kind", ["columns", "array", "Dask array"])
    def test_sketches(self, kind):
        M = np.random.default_rng(1).normal(size=(N, 3))
        sketch = {"columns": "columns", "array": M, "Dask array": da.from_array(M, chunks=(500, 2))}[kind]
        there = hs.GaussianProcessEmbedding(3, sketch=sketch, random_state=0, **COMMON).fit(on_dask())
        sketch = M if kind != "columns" else kind
        here = hs.GaussianProcessEmbedding(3, sketch=sketch, random_state=0, **COMMON).fit(X)
        assert_equal(there.embedding_, here.embedding_)
        if kind == "array":
            with pytest.raises(ValueError, match="has 3 columns"):
                there.add_components(1)


@pytest.mark.parametrize(
    ("normalization", "power"),
    [("symmetric", 1.5), ("stochastic", 40.5), ("bistochastic-weighted", 3), ("bistochastic", 2)],
)
def test_normalizations_powers_and_exact_distances(normalization, power):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the short polynomial for 1.5, the same in both
        parameters = {"n_components": 3, "normalization": normalization, "power": power, "random_state": 0}
        there, here = both(hs.GaussianProcessEmbedding, **parameters)
        assert_equal(there.embedding_, here.embedding_, 1e-10)
    found, expected = (hs.diffusion_distances(model.kernel_, 2, PAIRS[:9]) for model in (there, here))
    assert_equal(found, expected)


def test_products_are_added_up_over_several_squares(monkeypatch):
    monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 180)  # five chunks
    monkeypatch.setattr("heatsketch.backends.dask.pairs.SQUARE", 2)
    monkeypatch.setattr("heatsketch.backends.dask.pairs.TASKS", 1)
    found, expected = both(hs.GaussianProcessEmbedding, n_components=3, random_state=0)
    assert len(found.kernel_.layout.sizes) == 5
    assert_equal(found.embedding_, expected.embedding_)


@pytest.mark.parametrize("kind", [hs.GaussianProcessEmbedding, hs.DiffusionMaps])
def test_all_times(kind, monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.diffusion._MOST_DEGREE", 500)
    seed = {} if kind is hs.DiffusionMaps else {"random_state": 0}
    there, here = both(kind, power="multiscale", **seed)
    assert there.power_.times == here.power_.times
    assert_equal(there.power_.weights, here.power_.weights, SPECTRAL)
    assert_equal(there.embedding_, here.embedding_, SPECTRAL)


@pytest.mark.parametrize(
    "options",
    [
        {"diagonal": "zero"},
        {"bandwidth": "self-tuning"},
        {"metric": "cityblock"},
        {"metric": "cityblock", "bandwidth": "self-tuning", "diagonal": "zero"},
    ],
)
def test_metrics_local_scales_and_diagonals(options):
    given = {"n_components": 3, "n_neighbors": None, "random_state": 0, **options}
    there, here = both(hs.GaussianProcessEmbedding, **given)
    assert isinstance(there.embedding_, da.Array)
    assert_equal(there.embedding_, here.embedding_)
    new = X[::90] + 0.01
    assert_equal(there.transform(da.from_array(new, chunks=(7, 2))), here.transform(new), 1e-10)


@pytest.mark.parametrize("rule", ["median", "slope", "neighbor"])
@pytest.mark.parametrize("n_neighbors", [None, 16])
def test_bandwidth_rules(rule, n_neighbors):
    there, here = (hs.heat_kernel(points, bandwidth=rule, n_neighbors=n_neighbors) for points in (on_dask(), X))
    assert there.bandwidth == pytest.approx(here.bandwidth, rel=1e-12)


@pytest.mark.parametrize("n_neighbors", ["auto", None])
def test_local_scales_repeat_a_fit(n_neighbors):
    """Local scales, with duplicates and near-duplicates, are those in memory; given back, they make the same kernel."""
    rng = np.random.default_rng(0)
    points = np.vstack([X, X[:30], X[7] + 1e-12 * rng.normal(size=(12, 4))])
    there, here = (
        hs.heat_kernel(given, n_neighbors=n_neighbors) for given in (da.from_array(points, chunks=(400, -1)), points)
    )
    assert there.affinity.n_neighbors == here.affinity.n_neighbors == (15 if n_neighbors == "auto" else None)
    assert_equal(there.bandwidth, here.bandwidth)
    V = da.from_array(rng.normal(size=(len(points), 3)), chunks=(400, -1))
    new = X[::90] + 0.01
    assert_equal(there.at_new_points(new, there.collect(V)), here.at_new_points(new, V.compute()), 1e-10)
    for scales in (there.bandwidth, here.bandwidth):
        again = hs.heat_kernel(da.from_array(points, chunks=(400, -1)), bandwidth=scales, n_neighbors=n_neighbors)
        assert_equal(again @ V, (there @ V).compute())


@pytest.mark.parametrize("n_neighbors", [16, None])
@pytest.mark.parametrize("normalization", ["symmetric", "stochastic"])
def test_geodesic_distances_with_local_scales(n_neighbors, normalization):
    """Their unit is the median of the local scales of all distinct points, as in memory."""
    rng = np.random.default_rng(0)
    points, weights = np.vstack([X, X[:300], X[:300]]), rng.uniform(0.5, 2.0, N + 600)
    pairs = rng.integers(0, len(points), (50, 2))
    options = {"power": 3, "normalization": normalization, "n_neighbors": n_neighbors, "random_state": 0}
    there, here = (
        hs.GaussianProcessEmbedding(3, **options).fit(given, sample_weight=weights)
        for given in (da.from_array(points, chunks=(400, -1)), points)
    )
    answers = [
        (model.geodesic_distances(pairs), *model.geodesic_distances(pairs, interval=0.9)) for model in (there, here)
    ]
    for found, expected in zip(*answers, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    found, expected = (hs.geodesic_distances(model.kernel_, 3, pairs[:9]) for model in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"n_neighbors": 16, "bandwidth": "auto"}, {"bandwidth": "self-tuning"}])
@pytest.mark.parametrize("normalization", ["symmetric", "bistochastic", "stochastic"])
def test_sample_weights(options, normalization):
    """Weighted samples on Dask are those in memory; the kernel is that of repeated samples."""
    weights = np.random.default_rng(0).integers(1, 4, N)
    given = {**COMMON, "n_neighbors": None, "normalization": normalization, **options}
    models = [hs.GaussianProcessEmbedding(3, random_state=0, **given) for _ in range(3)]
    here = models[0].fit(X, sample_weight=weights)
    for there, mass in zip(models[1:], (weights, da.from_array(weights, chunks=200)), strict=True):
        there.fit(on_dask(), sample_weight=mass)
        assert_equal(there.embedding_, here.embedding_, 1e-6)
    new = X[::90] + 0.01
    assert_equal(models[1].transform(da.from_array(new, chunks=(7, 2))), here.transform(new), 1e-6)
    repeated = np.repeat(np.arange(N), weights)
    del given["power"]
    A = hs.heat_kernel(da.from_array(X[repeated], chunks=(400, 2)), **given)
    f = np.sin(np.arange(N))
    found = (A @ da.from_array(f[repeated], chunks=400)).compute()[np.searchsorted(repeated, np.arange(N))]
    assert_equal(found, here.kernel_ @ f, 1e-7)


def test_fit_on_a_cluster_forgets_zero_weights():
    model = hs.GaussianProcessEmbedding(3, **COMMON, random_state=0).fit(X, sample_weight=np.arange(N) % 2)
    assert len(model.fit(on_dask()).geodesic_distances(PAIRS)) == len(PAIRS)


class TestNeighbors:
    """Rows of a kernel of neighbours lie in another order than the data."""

    def test_eigenvectors_and_distances(self, of_neighbors):
        there, here = of_neighbors
        assert there.kernel_.layout.order is not None
        assert_equal(there.bandwidth_, here.bandwidth_)
        assert_equal(there.eigenvectors_, here.eigenvectors_, SPECTRAL)
        assert_equal(there.embedding_, here.embedding_, SPECTRAL)
        for found, expected in zip(
            *(model.diffusion_distances(PAIRS, interval=0.9) for model in of_neighbors), strict=True
        ):
            assert_equal(found, expected, SPECTRAL)
        found, expected = (hs.diffusion_distances(model.kernel_, 2, PAIRS[:9]) for model in of_neighbors)
        assert_equal(found, expected)

    @pytest.mark.parametrize("kind", ["geodesic", "diffusion"])
    def test_pseudotime(self, of_neighbors, kind):
        found, expected = (model.pseudotime([3, 500], kind=kind, interval=0.9) for model in of_neighbors)
        for name in ("time", "low", "high"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)
        np.testing.assert_array_equal(found.root, expected.root)

    def test_answers(self, of_neighbors):
        there, here = of_neighbors
        assert there.intrinsic_dimension_ == pytest.approx(here.intrinsic_dimension_, rel=1e-12)
        there_rule, here_rule = (model.kernel_.affinity.bandwidth_by_rule("neighbor") for model in of_neighbors)
        assert there_rule == pytest.approx(here_rule, rel=1e-12)
        assert there.distortion().constant == pytest.approx(here.distortion().constant, rel=1e-6)
        assert there.diagnose().names == here.diagnose().names
        for model in of_neighbors:
            model.add_components(1)
        assert_equal(there.at_powers([2]), here.at_powers([2]), SPECTRAL)

    @pytest.mark.parametrize("sketch", ["columns", "array"])
    def test_sketches(self, sketch):
        M = np.random.default_rng(1).normal(size=(N, 3)) if sketch == "array" else sketch
        parameters = {"n_components": 3, "n_neighbors": 16, "sketch": M, "bandwidth": "self-tuning", "random_state": 0}
        there, here = both(hs.GaussianProcessEmbedding, **parameters)
        assert_equal(there.embedding_, here.embedding_)
        assert_equal(there.bandwidth_, here.bandwidth_)


class TestHeatSketch:
    def test_distortion_is_far_below_that_of_diffusion_maps(self, optimised, maps):
        """Over all pairs. Rounding changes the path of the optimisation, which may end elsewhere than in memory."""
        there, here = optimised
        exact = hs.diffusion_distances(here.kernel_, here.power_)
        ours, theirs = (np.ptp(np.log(pdist(np.asarray(m.embedding_)) / exact)) for m in (there, maps[0]))
        assert ours < 0.5 * theirs
        assert isinstance(there.embedding_, da.Array)
        assert not there.distortion().exhaustive
        assert_equal(there.transform(X[:30]), np.asarray(there.embedding_)[:30], 1e-8)

    @pytest.mark.parametrize("objective", ["mixed", "bilipschitz"])
    def test_given_start(self, maps, objective):
        start, options = maps[0].embedding_, {"objective": objective, "random_state": 0, **COMMON}
        found = hs.HeatSketch(3, init=start, **options).fit(on_dask())
        assert found.distortion().log < maps[0].distortion().log

    @pytest.mark.parametrize("options", [{}, {"n_neighbors": 16, "bandwidth": "auto", "power": FEW_TIMES}], ids=str)
    def test_mixture_keeps_distances_as_in_memory(self, options):
        """In memory, every sketch of a kernel of neighbours is a candidate; on a cluster, those of a wide sketch."""
        there, here = both(hs.HeatSketch, n_components=3, random_state=0, **options)
        assert isinstance(there.embedding_, da.Array)
        assert_equal(there.transform(X[:30]), np.asarray(there.embedding_)[:30], 1e-8)
        exact = hs.diffusion_distances(here.kernel_, here.power_, PAIRS)
        spreads = [np.log(model.diffusion_distances(PAIRS) / exact).std() for model in (there, here)]
        assert abs(spreads[0] - spreads[1]) < 0.1

    def test_scales_are_those_in_memory(self):
        some = np.random.default_rng(0).permutation(N)[:200]
        found = [relative_scales(hs.heat_kernel(points), some) for points in (on_dask(), X)]
        assert np.ptp(found[1]) > 0
        np.testing.assert_allclose(*found, rtol=1e-5)

    def test_more_components(self, optimised):
        there = optimised[0]
        before = there.distortion().log
        there.add_components(1)
        assert there.embedding_.chunks == ((400, 350, 150), (4,))
        assert there.distortion().log < before


class TestAnswers:
    def test_distortion(self, sketches):
        found, expected = (model.distortion() for model in sketches)
        assert found.constant == pytest.approx(expected.constant, rel=1e-9)
        assert found.central == pytest.approx(expected.central, rel=1e-9)
        assert (found.most_contracted, found.n_pairs) == (expected.most_contracted, expected.n_pairs)

    def test_scales_and_diagnosis(self, sketches):
        found, expected = (model.scales([2.0, 9.0]) for model in sketches)
        for name in ("entropy", "distortion"):
            assert_equal(getattr(found, name), getattr(expected, name), SPECTRAL)
        there, here = sketches
        assert str(there.diagnose()) == str(here.diagnose())
        assert there.intrinsic_dimension_ == pytest.approx(here.intrinsic_dimension_, rel=1e-12)

    def test_what_needs_all_points_raises(self, maps, tmp_path):
        there = maps[0]
        refused = [
            (there.diffusion_distances, "give pairs"),
            (there.unsupported_neighbors, "Fit to a part of the data in memory"),
            (there.stability, "Fit to a part of the data in memory"),
            (lambda: there.distortion(X[:5]), "Fit to a part of the data in memory"),
            (lambda: there.distortion(exhaustive=True), "leave it at None"),
            (lambda: hs.diffusion_distances(there.kernel_, 2), "give pairs"),
            (lambda: hs.save_model(there, tmp_path / "there.heatsketch"), "to_zarr"),
            (lambda: kernel_rows(there.kernel_, 2, [0]), "ask for diffusion_distances of pairs"),
            (lambda: there.kernel_ @ np.ones(N), f"give a Dask array with {N} rows"),
            (lambda: there.kernel_ @ da.ones(N - 1), f"give a Dask array with {N} rows"),
        ]
        for question, remedy in refused:
            with pytest.raises(ValueError, match=remedy):
                question()


class TestKernel:
    def test_of_a_dask_array(self):
        there, here = (hs.heat_kernel(points, bandwidth=0.4) for points in (on_dask(), X))
        V = np.random.default_rng(0).normal(size=(N, 3))
        assert_equal(there @ da.from_array(V, chunks=(400, 3)), here @ V)
        draws = [hs.gaussian_process(kernel, 2, power=2, random_state=0) for kernel in (there, here)]
        assert_equal(*draws)

    def test_few_points_are_gathered(self):
        kernel = hs.heat_kernel(on_dask()[:300], bandwidth=0.4)
        np.testing.assert_array_equal(kernel @ np.ones(300), hs.heat_kernel(X[:300], bandwidth=0.4) @ np.ones(300))

    def test_bad_input_raises(self):
        with pytest.raises(ValueError, match="NaN or infinity"):
            hs.heat_kernel(da.where(da.arange(N, chunks=500)[:, None] == 700, np.nan, X))
        with pytest.raises(ValueError, match="every point stands alone"):
            hs.heat_kernel(on_dask(), bandwidth=1e-9)
        with pytest.raises(TypeError, match="X is a Bag"):
            hs.heat_kernel(dask.bag.from_sequence([1, 2]))

    @pytest.mark.parametrize("n_neighbors", [None, 8])
    @pytest.mark.parametrize("rule", ["neighbor", "self-tuning"])
    def test_coincident_points_raise(self, rule, n_neighbors):
        same = da.ones((N, 2), chunks=(450, 2))
        with pytest.raises(ValueError, match="all distances between points are zero"):
            hs.heat_kernel(same, bandwidth=rule, n_neighbors=n_neighbors)


def test_few_points_are_fitted_in_memory(tmp_path):
    model = hs.DiffusionMaps(2, bandwidth=0.4).fit(on_dask(200)[:400])
    assert model.diffusion_distances().shape == (400 * 399 // 2,)
    model.add_components(1)
    assert model.embedding_.chunks == ((200, 200), (3,))
    assert model.at_powers([2.0]).chunks == ((1,), (200, 200), (3,))
    hs.save_model(model, tmp_path / "few.heatsketch")
    np.testing.assert_array_equal(hs.load_model(tmp_path / "few.heatsketch").embedding_, model.embedding_)


def test_no_large_array_is_gathered(monkeypatch):
    for sample in (
        "analysis.diagnosis._ROWS",
        "analysis.distortion._FEW_SEARCHED",
        "estimators.heat_sketch._SEEN",
        "kernel.bandwidth._COLUMNS",
        "kernel.bandwidth.SAMPLE",
        "neighbors.paths._POINTS",
    ):
        monkeypatch.setattr(f"heatsketch.{sample}", 200)
    monkeypatch.setattr("heatsketch.backends.dask.affinity.SAMPLE", 200)
    monkeypatch.setattr("heatsketch.optimize.deflation._PAIRS", 100)
    compute, shapes = dask.compute, []

    def watched(*args, **options):
        found = compute(*args, **options)
        shapes.append([np.shape(value) for value in found])
        return found

    for module in ("dask", "dask.base"):
        monkeypatch.setattr(f"{module}.compute", watched)
    points = on_dask()
    for model in (
        hs.GaussianProcessEmbedding(4, n_exact="auto", random_state=0, **COMMON),
        hs.HeatSketch(2, random_state=0, **COMMON),
        hs.HeatSketch(2, objective="bilipschitz", random_state=0, **COMMON),
    ):
        model.fit(points)
        model.add_components(1)
        model.diffusion_distances(PAIRS)
    model.diagnose()
    assert shapes
    # Rows that come back together, in one piece or in several.
    assert max(sum(shape[0] for shape in found if len(shape) == 2) for found in shapes) < N // 2
