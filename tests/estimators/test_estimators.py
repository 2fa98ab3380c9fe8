"""The embeddings themselves: the formula, new points, other scales, more components, intervals."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import pairwise_distances

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.linalg.sketch import SKETCHES, GaussianSketch
from parameters import folded

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch


def redrawn(model, seed):
    """The same kernel through another sketch."""
    model.set_params(random_state=seed)._embed(model.kernel_, model.power_, np.float64)
    return model


def assert_transforms_to_itself(model, X, tolerance=1e-10):
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=tolerance * scale)
    np.testing.assert_allclose(model.transform(X[5:8]), model.embedding_[5:8], atol=tolerance * scale)


class TestFormula:
    """Y = A^p G / sqrt(k), by dense algebra."""

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
        if sketch == "gaussian":
            np.testing.assert_array_equal(G, GaussianSketch(3).matrix(300, 5))

    def test_more_neighbours_approach_all_pairs(self, torus):
        exact = GP(4, bandwidth=0.3, n_neighbors=None, random_state=0).fit_transform(torus)
        errors = [
            np.abs(GP(4, bandwidth=0.3, n_neighbors=k, random_state=0).fit_transform(torus) - exact).max()
            for k in (5, 40, 150, 299)
        ]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 1e-12

    def test_neighbours_are_chosen_beyond_the_limit(self, torus, monkeypatch):
        monkeypatch.setattr("heatsketch.kernel.plan.DENSE_LIMIT", 100)
        monkeypatch.setattr("heatsketch.kernel.plan._TILED_SECONDS", 0.0)
        assert GP(2, bandwidth=1.0).fit(torus).n_neighbors_ == 32
        assert GP(2, bandwidth=1.0).fit(torus[:80]).n_neighbors_ is None

    def test_intrinsic_dimension(self):
        assert GP(2).fit(hs.datasets.circle(500, random_state=0)).intrinsic_dimension_ == pytest.approx(1, abs=0.3)
        assert GP(2, affinity="precomputed").fit(nx.cycle_graph(9)).intrinsic_dimension_ is None

    @pytest.mark.parametrize(("options", "least"), [({}, 0.7), ({"bandwidth": 0.1, "n_neighbors": None}, 0.95)])
    def test_density_of_a_normal_sample(self, options, least):
        X = np.random.default_rng(0).normal(size=(1000, 2))
        density = GP(2, **options).fit(X).density_
        assert np.median(density) == pytest.approx(1.0)
        assert stats.spearmanr(density, -(X**2).sum(axis=1)).statistic > least

    def test_density_does_not_depend_on_the_unit(self, torus):
        np.testing.assert_allclose(GP(2).fit(8.0 * torus).density_, GP(2).fit(torus).density_, rtol=1e-10)

    @pytest.mark.parametrize("kind", [np.float16, np.float32])
    def test_bandwidths_of_other_precision(self, torus, kind):
        for bandwidth in (0.25, np.full(len(torus), 0.25)):
            here, there = (GP(2, bandwidth=b, n_neighbors=8, random_state=0) for b in (bandwidth, kind(bandwidth)))
            np.testing.assert_array_equal(here.fit_transform(torus), there.fit_transform(torus))

    def test_density_of_a_graph_is_the_degree(self):
        graph = nx.star_graph(8)
        np.testing.assert_allclose(GP(2, affinity="precomputed").fit(graph).density_[0], 8.0)


class TestTransform:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"power": 1},
            {"power": 0.5},
            {"power": 300},
            {"alpha": 0.3},
            {"n_exact": 2},
            {"bandwidth": "self-tuning"},
            {"n_neighbors": 20},
            {"kernel_params": {"diagonal": "zero"}},
            {"metric": "cosine", "bandwidth": 0.1},
        ],
        ids=str,
    )
    def test_training_rows_land_on_the_embedding(self, torus, normalization, options):
        model = GP(4, normalization=normalization, random_state=0, **{"bandwidth": 1.0, **options}).fit(torus)
        assert_transforms_to_itself(model, torus)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("power", [1, 8, 0.5])
    def test_diffusion_maps(self, torus, normalization, power):
        model = DM(4, normalization=normalization, power=power, bandwidth=1.0).fit(torus)
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-10)

    def test_new_points_join_their_neighbours(self, torus):
        new = hs.datasets.stretched_torus(50, random_state=7)
        model = GP(16, bandwidth=1.0, random_state=0).fit(torus)
        nearest = cdist(new, torus).argmin(axis=1)
        offset = np.linalg.norm(model.transform(new) - model.embedding_[nearest], axis=1)
        assert np.median(offset) < 0.25 * np.median(model.diffusion_distances())
        # Nyström: with the new points in the training set, the space of the leading diffusion maps hardly moves.
        maps = DM(2, bandwidth=1.0, normalization="stochastic").fit(torus)
        whole = DM(2, bandwidth=1.0, normalization="stochastic").fit(np.vstack([torus, new]))
        a, b = (np.linalg.qr(Y)[0] for Y in (maps.transform(new), whole.embedding_[300:]))
        assert np.linalg.svd(a.T @ b, compute_uv=False).min() > 0.98

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_point_far_from_all_data(self, torus, normalization):
        model = GP(3, bandwidth=1.0, normalization=normalization, random_state=0).fit(torus)
        far = model.transform(np.full((1, 4), 1e4))
        assert np.isfinite(far).all()
        assert np.abs(far).max() <= 2 * np.abs(model.embedding_).max()

    def test_distances_and_sparse_points_give_the_same(self, torus):
        new = hs.datasets.stretched_torus(50, random_state=7)
        direct = GP(3, bandwidth=1.0, random_state=0).fit(torus)
        given = GP(3, bandwidth=1.0, random_state=0, metric="precomputed").fit(cdist(torus, torus))
        np.testing.assert_allclose(given.embedding_, direct.embedding_, atol=1e-9)
        np.testing.assert_allclose(given.transform(cdist(new, torus)), direct.transform(new), atol=1e-9)
        thin = GP(3, bandwidth=1.0, random_state=0).fit(sparse.csr_matrix(torus))
        np.testing.assert_allclose(thin.embedding_, direct.embedding_, atol=1e-9)
        np.testing.assert_allclose(thin.transform(sparse.csc_array(new)), direct.transform(new), atol=1e-9)

    @pytest.mark.parametrize(
        "options", [{"kernel_params": {"diagonal": "zero"}}, {"bandwidth": "self-tuning"}, {"n_neighbors": 5}], ids=str
    )
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_metric_with_rounding_on_the_diagonal(self, torus, options, dtype):
        X = torus.astype(dtype)
        model = GP(3, random_state=0, metric="cosine", **options).fit(X)
        assert_transforms_to_itself(model, X, 1e-10 if dtype == np.float64 else 1e-4)
        D = pairwise_distances(torus, metric="cosine")
        D[np.diag_indices(300)] = 2e-16
        given = GP(3, random_state=0, metric="precomputed", **options).fit(D)
        np.testing.assert_allclose(given.transform(D), given.embedding_, atol=1e-8 * np.abs(given.embedding_).max())

    def test_rows_are_independent(self):
        X = np.random.default_rng(0).normal(size=(50, 2))
        model = GP(2, random_state=0, metric="manhattan", kernel_params={"diagonal": "zero"}).fit(X)
        far = np.array([[1e15, 0.0]])
        with pytest.warns(UserWarning, match="1 of 4 new points are far"):
            placed = model.transform(np.vstack([X[:3], far]))
        np.testing.assert_allclose(placed[:3], model.transform(X[:3]), rtol=1e-12)

    def test_edges_of_very_different_weight(self):
        W = np.diag(np.ones(7), 1)
        W[0, 1] = 1e9
        W += W.T
        model = GP(2, affinity="precomputed", random_state=0).fit(W)
        np.testing.assert_allclose(model.transform(W[:5]), model.embedding_[:5], atol=1e-9)

    def test_metrics(self, torus):
        cubic, plain = (GP(2, metric="minkowski", metric_params={"p": p}, random_state=0).fit(torus) for p in (3, 2))
        np.testing.assert_allclose(plain.embedding_, GP(2, random_state=0).fit(torus).embedding_, atol=1e-9)
        assert not np.allclose(cubic.embedding_, plain.embedding_)
        few = torus[:30]
        own = GP(2, metric=lambda a, b: np.abs(a - b).sum(), random_state=0).fit(few)
        np.testing.assert_allclose(own.embedding_, GP(2, metric="manhattan", random_state=0).fit_transform(few))
        for model, X in ((cubic, torus), (own, few)):
            np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)

    def test_neighbour_of_the_bandwidth_rules(self, torus):
        for rule in ("neighbor", "self-tuning"):
            model = GP(2, bandwidth=rule, kernel_params={"bandwidth_neighbor": 20}, random_state=0).fit(torus)
            np.testing.assert_allclose(model.bandwidth_, hs.estimate_bandwidth(torus, rule, n_neighbors=20).epsilon)
            np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-12)


class TestScales:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("model", [GP(4, random_state=0), GP(4, n_exact=2, random_state=0), DM(4)], ids=str)
    def test_at_powers_equals_fits(self, torus, model, normalization):
        model = clone(model).set_params(bandwidth=1.0, normalization=normalization).fit(torus)
        powers = [2, 4.5, 64]
        scales = model.at_powers(powers)
        assert scales.shape == (3, 300, 4)
        for t, Y in zip(powers, scales, strict=True):
            fitted = clone(model).set_params(power=t).fit_transform(torus)
            np.testing.assert_allclose(Y, fitted, atol=1e-6 * np.abs(fitted).max())

    def test_bad_powers(self, torus):
        model = GP(2, bandwidth=5.0).fit(torus)
        for powers, message in (([2, -1], "positive"), ([], "list"), (3.0, "list"), ([2, 1e5], "nothing")):
            with pytest.raises(ValueError, match=message):
                model.at_powers(powers)
        graph = {"affinity": "precomputed", "kernel_params": {"diagonal": "keep"}, "normalization": "symmetric"}
        with pytest.raises(ValueError, match="whole power"):  # negative eigenvalues
            DM(5, power=2, **graph).fit(nx.cycle_graph(7)).at_powers([1.5])


class TestGrowth:
    @pytest.mark.parametrize("n_exact", [0, 3])
    @pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "columns"])
    def test_adding_components_equals_fitting_with_more(self, torus, n_exact, sketch):
        options = {"bandwidth": 1.0, "random_state": 4, "n_exact": n_exact, "sketch": sketch}
        grown = GP(5, **options).fit(torus).add_components(3).add_components(1)
        whole = GP(9, **options).fit(torus)
        np.testing.assert_allclose(grown.embedding_, whole.embedding_, atol=1e-12)
        np.testing.assert_allclose(grown.transform(torus[:5]), whole.transform(torus[:5]), atol=1e-12)
        assert len(grown.get_feature_names_out()) == grown.n_components_ == 9

    def test_diffusion_maps(self, torus):
        grown = DM(2, bandwidth=1.0).fit(torus).add_components(3)
        np.testing.assert_allclose(grown.embedding_, DM(5, bandwidth=1.0).fit(torus).embedding_, atol=1e-10)
        theta = np.linspace(0, 2 * np.pi, 60, endpoint=False)  # every eigenvalue twice
        maps = DM(1, bandwidth=0.5).fit(np.column_stack([np.cos(theta), np.sin(theta)]))
        before = maps.embedding_.copy()
        maps.add_components(2)
        np.testing.assert_allclose(maps.embedding_[:, :1], before, atol=1e-12)

    def test_bad_arguments(self, torus):
        model = GP(2, bandwidth=1.0).fit(torus)
        for arguments in ({}, {"n": 2, "distance_error": 0.1}):
            with pytest.raises(ValueError, match="one of"):
                model.add_components(**arguments)
        for n in (0, 1.5, True):
            with pytest.raises(ValueError, match="n="):
                model.add_components(n)
        given = GP(6, bandwidth=1.0, sketch=np.random.default_rng(0).normal(size=(300, 6))).fit(torus)
        with pytest.raises(ValueError, match="6 columns"):
            given.add_components(1)
        with pytest.raises(MemoryError, match="distance_error"):
            model.add_components(distance_error=1e-5)
        assert model.n_components_ == 2


class TestWantedError:
    def test_law_of_a_sketch(self, torus):
        model = GP(4, bandwidth=1.0, random_state=0).fit(torus).add_components(distance_error=0.2)
        assert model.n_components_ == hs.components_for(0.2)
        assert model.distance_error_ == pytest.approx(0.2, abs=0.005)
        same = GP("auto", distance_error=0.2, bandwidth=1.0, random_state=0).fit(torus)
        np.testing.assert_allclose(model.embedding_, same.embedding_, atol=1e-12)
        assert model.add_components(distance_error=0.5).n_components_ == same.n_components_

    def test_registered_sketch_with_a_law(self, torus, monkeypatch):
        monkeypatch.setitem(SKETCHES, "my-signs", SKETCHES["rademacher"])
        assert GP("auto", sketch="my-signs", distance_error=0.3).fit(torus).n_components_ == hs.components_for(0.3)

    def test_exact_directions_need_fewer(self, torus):
        true = hs.diffusion_distances(hs.heat_kernel(torus, bandwidth=1.0), 8)
        within = []
        for seed in range(8):
            model = GP(8, power=8, n_exact=4, bandwidth=1.0, random_state=seed).fit(torus)
            model.add_components(distance_error=0.1)
            assert model.n_components_ < hs.components_for(0.1) // 4
            within.append(np.mean(np.abs(model.diffusion_distances() / true - 1) < 0.1))
        assert np.mean(within) == pytest.approx(0.95, abs=4 * np.std(within) / np.sqrt(8))

    @pytest.mark.parametrize("model", [DM(2, bandwidth=1.0), GP(2, bandwidth=1.0, sketch="columns")], ids=str)
    def test_embedding_without_a_law_raises(self, model, torus):
        with pytest.raises(ValueError, match="law"):
            model.fit(torus).add_components(distance_error=0.15)


class TestExactComponents:
    PAIRS = np.array([[0, 1], [20, 120], [50, 51]])

    def test_squared_distances_stay_unbiased_and_vary_less(self, torus):
        found = {}
        for r in (0, 4):
            model = GP(12, power=4, bandwidth=1.0, n_exact=r).fit(torus)
            found[r] = np.array([redrawn(model, s).diffusion_distances(self.PAIRS) ** 2 for s in range(100)])
        exact = hs.diffusion_distances(model.kernel_, 4, self.PAIRS) ** 2
        for squared in found.values():
            assert (np.abs(squared.mean(axis=0) - exact) < 4 * squared.std(axis=0) / 10).all()
        assert (found[4].std(axis=0)[:2] < found[0].std(axis=0)[:2]).all()

    def test_randomized_directions_are_unbiased(self, monkeypatch, torus):
        """Beyond a few thousand points the directions are not eigenvectors."""
        monkeypatch.setattr("heatsketch.linalg.eigen.DENSE_LIMIT", 100)
        model = GP(10, n_exact=4, power=4, bandwidth=1.0, n_neighbors=16, random_state=0).fit(torus)
        found = np.array([redrawn(model, s).diffusion_distances(self.PAIRS) ** 2 for s in range(60)])
        exact = hs.diffusion_distances(model.kernel_, 4, self.PAIRS) ** 2
        assert (np.abs(found.mean(axis=0) - exact) < 4 * found.std(axis=0) / np.sqrt(60)).all()
        np.testing.assert_allclose(model.transform(torus[:50]), model.embedding_[:50], atol=1e-6)

    def test_indefinite_kernels_are_unbiased(self):
        W = nx.to_numpy_array(nx.cycle_graph(9))
        options = {"affinity": "precomputed", "diagonal": "keep", "normalization": "symmetric"}
        exact = hs.diffusion_distances(hs.heat_kernel(W, **options), 1) ** 2
        model = GP(60, n_exact=6, power=1, **folded(options)).fit(W)
        found = [redrawn(model, s).diffusion_distances() ** 2 for s in range(100)]
        assert np.mean(found, axis=0) == pytest.approx(exact, rel=0.1)


class TestIntervals:
    @pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "rademacher-hash"])
    def test_cover_over_seeds(self, torus, sketch):
        model = GP(8, power=4, bandwidth=1.0, sketch=sketch).fit(torus[:150])
        exact = hs.diffusion_distances(model.kernel_, 4, [[3, 100]])[0]
        found = (redrawn(model, s).diffusion_distances([[3, 100]], interval=0.95)[1:] for s in range(200))
        hits = sum(low[0] <= exact <= high[0] for low, high in found)
        assert stats.binomtest(hits, 200, 0.95).pvalue > 1e-3  # neither too narrow nor too wide

    def test_exact_components_narrow_them(self, torus):
        pairs = np.column_stack([np.arange(150), np.arange(150, 300)])
        model, plain = (GP(12, power=4, bandwidth=1.0, n_exact=r, random_state=0).fit(torus) for r in (4, 0))
        estimate, low, high = model.diffusion_distances(pairs, interval=0.99)
        exact = hs.diffusion_distances(model.kernel_, 4, pairs)
        assert ((low <= exact) & (exact <= high)).mean() > 0.9
        wide = plain.diffusion_distances(pairs, interval=0.99)
        assert np.median((high - low) / estimate) < 0.7 * np.median((wide[2] - wide[1]) / wide[0])

    @pytest.mark.parametrize("model", [DM(299, power=32), GP(4, sketch="columns", random_state=0)], ids=str)
    def test_reference_sketch_without_a_law(self, torus, model):
        model.set_params(bandwidth=1.0).fit(torus)
        distances, low, high = model.diffusion_distances(interval=0.95)
        assert distances.shape == low.shape == high.shape == (300 * 299 // 2,)
        true = hs.diffusion_distances(model.kernel_, model.power_)
        assert np.mean((low <= true) & (true <= high)) > 0.9


class TestFloat32:
    @pytest.mark.parametrize(
        ("library", "container"),
        [("numpy", "asarray"), ("pandas", "DataFrame"), ("dask.array", "from_array"), ("torch", "as_tensor")],
    )
    def test_half_precision_gives_float32(self, torus, library, container):
        half = torus.astype(np.float16)
        given = getattr(pytest.importorskip(library), container)(half)
        model, expected = (DM(3).fit(X) for X in (given, half.astype(np.float32)))
        np.testing.assert_array_equal(np.asarray(model.embedding_), expected.embedding_)
        np.testing.assert_array_equal(np.asarray(model.transform(given)), expected.transform(half))
        assert {str(Y.dtype).rpartition(".")[2] for Y in (model.embedding_, model.transform(given))} == {"float32"}
        assert hs.heat_kernel(given).dtype == np.float32

    @pytest.mark.parametrize("model", [GP(3, bandwidth=1.0, random_state=0), DM(3, bandwidth=1.0)], ids=str)
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_float32_in_float32_out(self, torus, model, normalization):
        double = clone(model).set_params(normalization=normalization).fit(torus)
        single = clone(model).set_params(normalization=normalization).fit(torus.astype(np.float32))
        assert single.embedding_.dtype == single.transform(torus[:3].astype(np.float32)).dtype == np.float32
        assert single.at_powers([2, 100]).dtype == np.float32
        # Leading eigenvalues in float32 are known to about 1e-6, their eighth powers to about 1e-5.
        np.testing.assert_allclose(single.embedding_, double.embedding_, atol=1e-3 * np.abs(double.embedding_).max())

    def test_small_eigenvalues_are_kept(self):
        X = np.random.default_rng(0).normal(size=(400, 2))
        double, single = (DM(40, power=1, bandwidth=4.0).fit(X.astype(t)) for t in (np.float64, np.float32))
        kept = double.eigenvalues_ > 1e-4
        assert kept.sum() > 15
        assert (np.abs(single.embedding_).max(axis=0)[kept] > 0).all()
