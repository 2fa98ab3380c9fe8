"""The estimators: scikit-learn's own checks, new points, scales, growth, determinism."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.linalg.sketch import SKETCHES, GaussianSketch
from parameters import folded

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch

CHECKED = [
    *(GP(normalization=n) for n in NORMALIZATIONS),
    *(GP(sketch=s) for s in SKETCHES if s != "gaussian"),
    DM(),
    DM(normalization="stochastic"),
    GP(normalization="symmetric", sketch="rademacher", alpha=0.5),
    GP(power=2.5),
    GP(kernel_params={"diagonal": "zero"}),
    GP(bandwidth="self-tuning"),
    GP(n_neighbors=5),
    GP(metric="manhattan"),
    GP(affinity="precomputed"),
    GP(metric="precomputed"),
    DM(affinity="precomputed"),
    DM(solver="randomized"),
    GP(n_exact="auto", n_components=4),
    HS(normalization="stochastic", solver_params={"n_rounds": 1}),
    HS(objective="log-stress", solver_params={"n_rounds": 2, "width": 3}),
    HS(affinity="precomputed", solver_params={"n_rounds": 1}),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_check_estimator(estimator):
    """Every check of scikit-learn passes; none is marked as expected to fail."""
    results = check_estimator(estimator, on_skip=None)
    assert len(results) > 40
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    # The only check that may skip itself needs SCIPY_ARRAY_API=1 in the environment.
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.fixture(scope="module")
def new_points():
    return hs.datasets.stretched_torus(50, random_state=7)


class TestTransform:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"power": 1},
            {"power": 2.5},
            {"power": 0.5},
            {"power": 300},
            {"alpha": 0.3},
            {"n_exact": 2},
            {"bandwidth": "self-tuning"},
            {"n_neighbors": 20},
            {"kernel_params": {"diagonal": "zero"}},
            {"metric": "manhattan", "bandwidth": 2.0},
            {"metric": "cosine", "bandwidth": 0.1},
        ],
        ids=str,
    )
    def test_training_rows_land_on_the_embedding(self, torus, normalization, options):
        model = GP(4, normalization=normalization, random_state=0, **{"bandwidth": 1.0, **options}).fit(torus)
        scale = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-10 * scale)
        np.testing.assert_allclose(model.transform(torus[5:8]), model.embedding_[5:8], atol=1e-10 * scale)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("power", [1, 8, 0.5])
    def test_diffusion_maps_too(self, torus, normalization, power):
        model = DM(4, normalization=normalization, power=power, bandwidth=1.0).fit(torus)
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-10)

    def test_new_points_join_their_neighbours(self, torus, new_points):
        model = GP(16, bandwidth=1.0, random_state=0).fit(torus)
        nearest = cdist(new_points, torus).argmin(axis=1)
        offset = np.linalg.norm(model.transform(new_points) - model.embedding_[nearest], axis=1)
        spread = np.median(model.diffusion_distances())
        assert np.median(offset) < 0.25 * spread

    def test_new_points_are_the_limit_of_being_trained_on(self, torus, new_points):
        # Nyström: with the new points in the training set, the space of the leading diffusion maps hardly moves.
        maps = DM(2, bandwidth=1.0, normalization="stochastic").fit(torus)
        whole = DM(2, bandwidth=1.0, normalization="stochastic").fit(np.vstack([torus, new_points]))
        a, b = (np.linalg.qr(Y)[0] for Y in (maps.transform(new_points), whole.embedding_[300:]))
        assert np.linalg.svd(a.T @ b, compute_uv=False).min() > 0.98

    def test_a_point_far_from_all_data_is_placed_not_lost(self, torus):
        for normalization in NORMALIZATIONS:
            model = GP(3, bandwidth=1.0, normalization=normalization, random_state=0).fit(torus)
            far = model.transform(np.full((1, 4), 1e4))
            assert np.isfinite(far).all()
            assert np.abs(far).max() <= 2 * np.abs(model.embedding_).max()

    def test_precomputed_distances(self, torus, new_points):
        direct = GP(3, bandwidth=1.0, random_state=0).fit(torus)
        given = GP(3, bandwidth=1.0, random_state=0, metric="precomputed").fit(cdist(torus, torus))
        np.testing.assert_allclose(given.embedding_, direct.embedding_, atol=1e-9)
        np.testing.assert_allclose(given.transform(cdist(new_points, torus)), direct.transform(new_points), atol=1e-9)

    def test_sparse_points(self, torus, new_points):
        dense = GP(3, random_state=0).fit(torus)
        thin = GP(3, random_state=0).fit(sparse.csr_matrix(torus))
        np.testing.assert_allclose(thin.embedding_, dense.embedding_, atol=1e-9)
        np.testing.assert_allclose(thin.transform(sparse.csc_array(new_points)), dense.transform(new_points), atol=1e-9)


class TestFormula:
    """Y = A^p G / sqrt(k), against a computation of its own."""

    @pytest.mark.parametrize("normalization", ["symmetric", "bistochastic"])
    @pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "rademacher-hash", "columns"])
    def test_algorithms_4_and_5(self, torus, normalization, sketch):
        model = GP(5, power=4, bandwidth=1.0, normalization=normalization, sketch=sketch, random_state=3)
        Y = model.fit_transform(torus)
        G = model.sketch_.matrix(300, 5)
        expected = np.linalg.matrix_power(model.kernel_.toarray(), 4) @ G / np.sqrt(5)
        if normalization == "bistochastic":  # the constant mode is left out
            expected -= expected.mean(axis=0)
        np.testing.assert_allclose(Y, expected, atol=1e-8 * np.abs(expected).max())

    def test_given_matrix_cannot_grow(self, torus):
        G = np.random.default_rng(0).normal(size=(300, 6))
        model = GP(6, bandwidth=1.0, sketch=G, power=2).fit(torus)
        with pytest.raises(ValueError, match="has 6 columns"):
            model.add_components(1)

    def test_distances_at_large_power_are_those_of_the_second_mode(self):
        X = hs.datasets.circle(200, random_state=0)
        model = GP(64, power=2000, bandwidth=0.25, random_state=0).fit(X)
        exact = hs.diffusion_distances(model.kernel_, 2000)
        ratio = model.diffusion_distances() / exact
        assert 0.5 < np.median(ratio) < 1.5


class TestScales:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("model", [GP(4, random_state=0), GP(4, n_exact=2, random_state=0), DM(4)], ids=str)
    def test_at_powers_equals_fits(self, torus, model, normalization):
        model = clone(model).set_params(bandwidth=1.0, normalization=normalization).fit(torus)
        powers = [2, 4.5, 8, 64]
        scales = model.at_powers(powers)
        assert scales.shape == (4, 300, 4)
        for t, Y in zip(powers, scales, strict=True):
            fitted = clone(model).set_params(power=t).fit_transform(torus)
            np.testing.assert_allclose(Y, fitted, atol=1e-6 * np.abs(fitted).max())

    def test_bad_powers(self, torus):
        model = GP(2, bandwidth=1.0).fit(torus)
        with pytest.raises(ValueError, match="positive, finite"):
            model.at_powers([2, -1])


class TestGrowth:
    @pytest.mark.parametrize("n_exact", [0, 3])
    @pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "columns"])
    def test_adding_components_equals_fitting_with_more(self, torus, n_exact, sketch):
        options = {"bandwidth": 1.0, "random_state": 4, "n_exact": n_exact, "sketch": sketch}
        grown = GP(5, **options).fit(torus).add_components(3).add_components(1)
        whole = GP(9, **options).fit(torus)
        np.testing.assert_allclose(grown.embedding_, whole.embedding_, atol=1e-12)
        np.testing.assert_allclose(grown.transform(torus[:5]), whole.transform(torus[:5]), atol=1e-12)
        assert grown.n_components_ == 9
        assert len(grown.get_feature_names_out()) == 9

    def test_diffusion_maps_grow_too(self, torus):
        grown = DM(2, bandwidth=1.0).fit(torus).add_components(3)
        np.testing.assert_allclose(grown.embedding_, DM(5, bandwidth=1.0).fit(torus).embedding_, atol=1e-10)

    @pytest.mark.parametrize("n", [0, -1, 1.5, True])
    def test_bad_counts(self, torus, n):
        for model in (GP(2, bandwidth=1.0), DM(2, bandwidth=1.0)):
            with pytest.raises(ValueError, match=r"n=.* it must be a positive integer"):
                model.fit(torus).add_components(n)


class TestExactComponents:
    def test_squared_distances_stay_unbiased_and_vary_less(self, torus):
        pairs = np.array([[0, 1], [20, 120], [50, 51]])
        found = {}
        for r in (0, 4):
            model = GP(12, power=4, bandwidth=1.0, n_exact=r, random_state=0).fit(torus)
            found[r] = np.empty((100, 3))
            for s in range(100):  # another sketch of the same kernel each time
                model.set_params(random_state=s)._embed(model.kernel_, 4.0, None, np.float64)
                found[r][s] = model.diffusion_distances(pairs) ** 2
        exact = hs.diffusion_distances(model.kernel_, 4, pairs) ** 2
        for squared in found.values():
            error = squared.std(axis=0) / np.sqrt(len(squared))
            assert (np.abs(squared.mean(axis=0) - exact) < 4 * error).all()
        assert (found[4].std(axis=0)[:2] < found[0].std(axis=0)[:2]).all()

    def test_directions_of_large_data_change_no_expectation(self):
        """They are not eigenvectors there, and need not be."""
        X = hs.datasets.stretched_torus(2200, random_state=0)
        pairs = np.array([[0, 1], [20, 120], [50, 51], [7, 2000]])
        kernel = {"power": 4, "bandwidth": 1.0, "n_neighbors": 16}
        model = GP(10, n_exact=4, **kernel)
        found = np.array([model.set_params(random_state=s).fit(X).diffusion_distances(pairs) ** 2 for s in range(30)])
        exact = hs.diffusion_distances(model.kernel_, 4, pairs) ** 2
        assert (np.abs(found.mean(axis=0) - exact) < 4 * found.std(axis=0) / np.sqrt(len(found))).all()
        again = GP(10, n_exact=4, random_state=0, **kernel).fit(X)
        np.testing.assert_allclose(again.transform(X[:50]), again.embedding_[:50], atol=1e-6)

    def test_intervals_are_on_the_sketched_part(self, torus):
        model = GP(12, power=4, bandwidth=1.0, n_exact=4, random_state=0).fit(torus)
        pairs = np.random.default_rng(0).integers(0, 300, (300, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        estimate, low, high = model.diffusion_distances(pairs, interval=0.99)
        plain = GP(12, power=4, bandwidth=1.0, random_state=0).fit(torus).diffusion_distances(pairs, interval=0.99)
        exact = hs.diffusion_distances(model.kernel_, 4, pairs)
        assert ((low <= exact) & (exact <= high)).mean() > 0.9
        assert np.median((high - low) / estimate) < 0.7 * np.median((plain[2] - plain[1]) / plain[0])


class TestIntervals:
    def test_cover_over_seeds_for_signs_as_well(self, torus):
        for sketch in ("gaussian", "rademacher", "rademacher-hash"):
            covered = []
            model = GP(8, power=4, bandwidth=1.0, sketch=sketch).fit(torus[:150])
            for s in range(200):  # another sketch of the same kernel each time
                model.set_params(random_state=s)._embed(model.kernel_, 4.0, None, np.float64)
                _, low, high = model.diffusion_distances([[3, 100]], interval=0.95)
                covered.append((low[0], high[0]))
            exact = hs.diffusion_distances(model.kernel_, 4, [[3, 100]])[0]
            hits = sum(low <= exact <= high for low, high in covered)
            assert stats.binomtest(hits, 200, 0.95).pvalue > 1e-3  # neither too narrow nor too wide

    def test_all_pairs_are_condensed(self, torus):
        estimate, low, high = GP(8, bandwidth=1.0, random_state=0).fit(torus).diffusion_distances(interval=0.9)
        assert estimate.shape == low.shape == high.shape == (300 * 299 // 2,)
        assert ((low < estimate) & (estimate < high)).all()

    def test_columns_have_no_law_of_their_own(self, torus):
        model = GP(4, bandwidth=1.0, sketch="columns", random_state=0).fit(torus)
        pairs = [[0, 1], [3, 200]]
        _, low, high = model.diffusion_distances(pairs, interval=0.999)
        true = hs.diffusion_distances(model.kernel_, 8, pairs)
        assert ((low <= true) & (true <= high)).all()


class TestAutoComponents:
    def test_not_for_eigenvectors(self, torus):
        with pytest.raises(ValueError, match="use GaussianProcessEmbedding"):
            DM("auto").fit(torus)


class TestRepeatability:
    def test_seed_decides(self, torus):
        a, b, c = (GP(4, random_state=s).fit_transform(torus) for s in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        assert not np.allclose(a, c)

    def test_first_components_are_kept(self, torus):
        few, many = (GP(k, random_state=1).fit_transform(torus) * np.sqrt(k) for k in (3, 8))
        np.testing.assert_allclose(few, many[:, :3], atol=1e-12)

    def test_seed_attribute_repeats_a_random_run(self, torus):
        first = GP(3).fit(torus)
        np.testing.assert_array_equal(GP(3, random_state=first.seed_).fit(torus).embedding_, first.embedding_)

    def test_chunks_change_nothing_but_rounding(self, torus, monkeypatch):
        whole = GP(4, random_state=0).fit(torus)
        Y, new = whole.embedding_, whole.transform(torus[:40])
        monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", 1000)
        monkeypatch.setattr("heatsketch.linalg.sketch._ENTRIES_PER_CHUNK", 7)
        pieces = GP(4, random_state=0).fit(torus)
        np.testing.assert_allclose(pieces.embedding_, Y, atol=1e-12)
        np.testing.assert_allclose(pieces.transform(torus[:40]), new, atol=1e-12)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_pickling(self, torus, new_points, normalization):
        for model in (GP(4, random_state=0, normalization=normalization), DM(3, normalization=normalization)):
            model.fit(torus)
            stored = pickle.dumps(model)
            assert len(stored) < 300 * 300 * 8 / 2  # without the N x N matrix
            copy = pickle.loads(stored)
            np.testing.assert_allclose(copy.transform(new_points), model.transform(new_points), atol=1e-13)
            np.testing.assert_allclose(copy.at_powers([3]), model.at_powers([3]), atol=1e-12)


def test_more_neighbours_approach_every_pair(torus):
    exact = GP(4, bandwidth=0.3, n_neighbors=None, random_state=0).fit_transform(torus)
    errors = [
        np.abs(GP(4, bandwidth=0.3, n_neighbors=k, random_state=0).fit_transform(torus) - exact).max()
        for k in (5, 40, 150, 299)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-12


class TestContainers:
    def test_pandas_and_polars(self, torus):
        names = list("abcd")
        frame, other = pd.DataFrame(torus, columns=names), pl.DataFrame(torus, schema=names)
        model = GP(2, random_state=0)
        expected = model.fit_transform(torus)
        for data in (other, frame):
            np.testing.assert_array_equal(model.fit_transform(data), expected)
        assert list(model.feature_names_in_) == names
        out = GP(2, random_state=0).set_output(transform="pandas").fit_transform(frame)
        assert list(out.columns) == ["gaussianprocessembedding0", "gaussianprocessembedding1"]
        out = GP(2, random_state=0).set_output(transform="polars").fit(frame).transform(frame)
        np.testing.assert_allclose(out.to_numpy(), expected, atol=1e-12)

    @pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, bool])
    def test_whole_numbers(self, dtype):
        X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 20, size=(40, 6)).astype(dtype)
        Y = GP(2, random_state=0).fit_transform(X)
        assert Y.dtype == np.float64
        np.testing.assert_array_equal(Y, GP(2, random_state=0).fit_transform(X.astype(float)))

    @pytest.mark.parametrize("model", [GP(3, bandwidth=1.0, random_state=0), DM(3, bandwidth=1.0)], ids=str)
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_float32_in_float32_out(self, torus, model, normalization):
        double = clone(model).set_params(normalization=normalization).fit(torus)
        single = clone(model).set_params(normalization=normalization).fit(torus.astype(np.float32))
        assert single.embedding_.dtype == single.transform(torus[:3].astype(np.float32)).dtype == np.float32
        assert single.at_powers([2, 100]).dtype == np.float32
        # Leading eigenvalues in float32 are known to about 1e-6, their eighth powers to about 1e-5.
        scale = np.abs(double.embedding_).max()
        np.testing.assert_allclose(single.embedding_, double.embedding_, atol=1e-3 * scale)

    def test_memory_layout(self, torus):
        expected = GP(2, random_state=0).fit_transform(torus)
        wide = np.zeros((300, 8))
        wide[:, ::2] = torus
        frozen = torus.copy()
        frozen.setflags(write=False)
        for X in (np.asfortranarray(torus), wide[:, ::2], frozen, torus.tolist()):
            np.testing.assert_allclose(GP(2, random_state=0).fit_transform(X), expected, atol=1e-12)

    def test_input_is_not_changed(self, torus):
        X, D = torus.copy(), cdist(torus, torus)
        before = D.copy()
        GP(2).fit(X).transform(X)
        GP(2, metric="precomputed").fit(D).transform(D)
        GP(2, affinity="precomputed", kernel_params={"diagonal": "zero"}).fit(np.exp(-D)).transform(np.exp(-D))
        np.testing.assert_array_equal(X, torus)
        np.testing.assert_array_equal(D, before)

    def test_in_a_pipeline(self, torus):
        Y = make_pipeline(PCA(3), GP(2, random_state=0)).fit(torus).transform(torus)
        assert Y.shape == (300, 2)


def test_verbose_says_what_was_chosen(torus, capsys):
    GP(2, verbose=True).fit(torus)
    said = capsys.readouterr().err
    assert all(word in said for word in ("[GaussianProcessEmbedding]", "300", "every pair", "neighbor"))


def test_neighbours_are_chosen_beyond_the_limit(torus, monkeypatch):
    monkeypatch.setattr("heatsketch.kernel.plan.DENSE_LIMIT", 100)
    monkeypatch.setattr("heatsketch.kernel.plan._TILED_SECONDS", 0.0)
    model = GP(2, random_state=0).fit(torus)
    assert model.n_neighbors_ == 32
    assert sparse.issparse(model.kernel_.affinity.operator.array)
    assert GP(2).fit(torus[:80]).n_neighbors_ is None


def test_sketch_without_the_estimator_is_the_same(torus):
    model = GP(3, random_state=9).fit(torus)
    np.testing.assert_array_equal(model.sketch_.matrix(300, 3), GaussianSketch(9).matrix(300, 3))


class TestCornersOfTransform:
    """Where the same rule must hold for training and for new points."""

    @pytest.mark.parametrize(
        "options", [{"kernel_params": {"diagonal": "zero"}}, {"bandwidth": "self-tuning"}, {"n_neighbors": 5}], ids=str
    )
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_metrics_that_are_not_quite_zero_on_the_diagonal(self, torus, options, dtype):
        X = torus.astype(dtype)
        model = GP(3, random_state=0, metric="cosine", **options).fit(X)
        tolerance = 1e-10 if dtype == np.float64 else 1e-4
        scale = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(X), model.embedding_, atol=tolerance * scale)
        D = pairwise_distances(torus, metric="cosine")
        D[np.diag_indices(300)] = 2e-16
        given = GP(3, random_state=0, metric="precomputed", **options).fit(D)
        np.testing.assert_allclose(given.transform(D), given.embedding_, atol=1e-8 * np.abs(given.embedding_).max())

    def test_rows_do_not_depend_on_their_companions(self):
        X = np.random.default_rng(0).normal(size=(50, 2))
        model = GP(2, random_state=0, metric="manhattan", kernel_params={"diagonal": "zero"}).fit(X)
        far = np.array([[1e15, 0.0]])
        np.testing.assert_allclose(model.transform(np.vstack([X[:3], far]))[:3], model.transform(X[:3]), rtol=1e-12)

    def test_edges_of_very_different_weight(self):
        W = np.diag(np.ones(7), 1)
        W[0, 1] = 1e9
        W += W.T
        model = GP(2, affinity="precomputed", random_state=0).fit(W)
        np.testing.assert_allclose(model.transform(W[:5]), model.embedding_[:5], atol=1e-9)

    def test_overflow_in_new_points_is_refused(self, torus):
        for bandwidth in (1.0, "self-tuning"):
            with pytest.raises(ValueError, match="overflow"):
                GP(2, bandwidth=bandwidth).fit(torus).transform(np.full((1, 4), 1e160))

    @pytest.mark.parametrize("scale", [1e-100, 1e100])
    def test_self_tuning_at_extreme_scales(self, torus, scale):
        a = GP(2, bandwidth="self-tuning", random_state=0).fit_transform(torus)
        b = GP(2, bandwidth="self-tuning", random_state=0).fit_transform(scale * torus)
        np.testing.assert_allclose(a, b, atol=1e-10)

    def test_negative_distances_are_refused(self):
        D = cdist(np.eye(5), np.eye(5))
        with pytest.raises(ValueError, match="must hold distances"):
            GP(2, metric="precomputed", bandwidth=1.0).fit(D).transform(-D)


def test_diffusion_maps_keep_their_components_when_they_grow():
    theta = np.linspace(0, 2 * np.pi, 60, endpoint=False)  # every eigenvalue twice
    maps = DM(1, bandwidth=0.5).fit(np.column_stack([np.cos(theta), np.sin(theta)]))
    before = maps.embedding_.copy()
    maps.set_params(power=3).add_components(2)
    np.testing.assert_allclose(maps.embedding_[:, :1], before, atol=1e-12)
    np.testing.assert_allclose(maps.at_powers([maps.power_])[0], maps.embedding_, atol=1e-7)


def test_diffusion_maps_refuse_real_powers_of_negative_eigenvalues():
    maps = DM(5, power=2, affinity="precomputed", kernel_params={"diagonal": "keep"}, normalization="symmetric").fit(
        nx.cycle_graph(7)
    )
    with pytest.raises(ValueError, match="use a whole power"):
        maps.at_powers([1.5])


def test_exact_components_of_indefinite_kernels_are_unbiased():
    W = nx.to_numpy_array(nx.cycle_graph(9))
    options = {"affinity": "precomputed", "diagonal": "keep", "normalization": "symmetric"}
    exact = hs.diffusion_distances(hs.heat_kernel(W, **options), 1) ** 2
    model = GP(60, n_exact=6, power=1, **folded(options))
    found = [model.set_params(random_state=s).fit(W).diffusion_distances() ** 2 for s in range(100)]
    assert np.mean(found, axis=0) == pytest.approx(exact, rel=0.1)


def test_mining_does_not_use_the_columns_of_the_embedding(torus):
    model = GP(64, power=2, bandwidth=1.0, random_state=0).fit(torus)
    assert model.distortion(exhaustive=False, random_state=0).log > 0.9 * model.distortion().log


def test_duplicate_entries_of_sparse_input_are_summed_in_a_copy():
    W = sparse.csr_array((np.ones(6), np.array([1, 1, 0, 0, 2, 1]), np.array([0, 2, 5, 6])), shape=(3, 3))
    GP(2, affinity="precomputed").fit(W)
    assert W.nnz == 6


class TestMetrics:
    def test_parameters_of_metrics(self, torus):
        cubic = GP(2, metric="minkowski", metric_params={"p": 3}, random_state=0).fit(torus)
        plain = GP(2, metric="minkowski", metric_params={"p": 2}, random_state=0).fit(torus)
        np.testing.assert_allclose(plain.embedding_, GP(2, random_state=0).fit(torus).embedding_, atol=1e-9)
        assert not np.allclose(cubic.embedding_, plain.embedding_)
        np.testing.assert_allclose(cubic.transform(torus), cubic.embedding_, atol=1e-12)
        scaled = GP(2, metric="seuclidean", metric_params={"V": np.full(4, 4.0)}, bandwidth=0.25, random_state=0)
        np.testing.assert_allclose(
            scaled.fit_transform(torus), GP(2, bandwidth=1.0, random_state=0).fit_transform(torus)
        )

    def test_functions_as_metrics(self):
        X = hs.datasets.circle(30, random_state=0)
        model = GP(2, metric=lambda a, b: np.abs(a - b).sum(), random_state=0).fit(X)
        np.testing.assert_allclose(model.embedding_, GP(2, metric="manhattan", random_state=0).fit_transform(X))
        np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)

    def test_neighbour_of_the_bandwidth_rules(self, torus):
        for rule in ("neighbor", "self-tuning"):
            model = GP(2, bandwidth=rule, kernel_params={"bandwidth_neighbor": 20}, random_state=0).fit(torus)
            expected = hs.estimate_bandwidth(torus, rule, n_neighbors=20).epsilon
            np.testing.assert_allclose(model.bandwidth_, expected)
            np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-12)


def test_intrinsic_dimension():
    assert GP(2).fit(hs.datasets.circle(500, random_state=0)).intrinsic_dimension_ == pytest.approx(1, abs=0.3)
    assert GP(2, bandwidth=0.3).fit(hs.datasets.stretched_torus(500, random_state=0)).intrinsic_dimension_ < 3
    assert GP(2, affinity="precomputed").fit(nx.cycle_graph(9)).intrinsic_dimension_ is None


def test_parameters_set_after_a_fit_do_not_change_it(torus):
    options = {"normalization": "symmetric", "bandwidth": 1.0, "random_state": 0}
    model = GP(4, **options).fit(torus).set_params(power=3)
    whole = GP(6, **options).fit(torus)
    np.testing.assert_allclose(model.add_components(2).embedding_, whole.embedding_, atol=1e-12)
    np.testing.assert_allclose(model.at_powers([8])[0], whole.embedding_, atol=1e-9)


def test_at_powers_refuses_times_at_which_nothing_is_left(torus):
    model = GP(2, bandwidth=5.0).fit(torus)
    with pytest.raises(ValueError, match=r"at power=100000.0 nothing but the constant is left"):
        model.at_powers([2, 1e5])


def test_float32_keeps_small_eigenvalues():
    X = np.random.default_rng(0).normal(size=(400, 2))
    double, single = (DM(40, power=1, bandwidth=4.0).fit(X.astype(t)) for t in (np.float64, np.float32))
    kept = double.eigenvalues_ > 1e-4
    assert kept.sum() > 15
    assert (np.abs(single.embedding_).max(axis=0)[kept] > 0).all()


def test_a_registered_sketch_with_a_law_may_choose_its_components(torus, monkeypatch):
    monkeypatch.setitem(SKETCHES, "my-signs", type(GP(2, sketch="rademacher").fit(torus).sketch_))
    assert GP("auto", sketch="my-signs", distance_error=0.3).fit(torus).n_components_ == hs.components_for(0.3)


def test_mining_is_not_misled_by_duplicates():
    X = np.repeat(hs.datasets.stretched_torus(60, random_state=0), 12, axis=0)
    model = GP(4, power=8, bandwidth=1.0, random_state=0).fit(X)
    assert model.distortion(exhaustive=False).log > 0.9 * model.distortion(exhaustive=True).log
