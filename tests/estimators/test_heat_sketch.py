"""HeatSketch: a smaller worst distortion than the other methods, and a sketch like theirs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data
from heatsketch.estimators.heat_sketch import OBJECTIVES

HS, DM, GP = hs.HeatSketch, hs.DiffusionMaps, hs.GaussianProcessEmbedding
WORST = {"objective": "bilipschitz", "random_state": 0}


def _options(setting, normalization="bistochastic"):
    return {"power": setting.power, "bandwidth": setting.bandwidth, "normalization": normalization}


def _share_of_neighbors(d, found, k=10):
    """Share of the k nearest neighbours by distances d, condensed, that are among those by other distances."""
    near, other = (np.argsort(squareform(one), axis=1)[:, 1 : k + 1] for one in (d, found))
    return np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, other, strict=True)])


class TestAgainstOthers:
    @pytest.mark.parametrize("normalization", ["symmetric", "bistochastic"])
    @pytest.mark.parametrize("name", PAPER_SETS)
    def test_below_both(self, name, normalization):
        """At most 0.4 of the better, on a sample that is not among those of the study."""
        X, setting = paper_data(name, seed=77)
        options = _options(setting, normalization)
        ours = HS(3, **WORST, **options).fit(X).distortion().log
        others = (DM(3, **options), GP(3, random_state=0, **options))
        better = min(other.fit(X).distortion().log for other in others)
        assert ours <= better
        assert ours <= 0.4 * better or better <= 0.2

    def test_on_new_points(self):
        X, setting = paper_data("stretched_torus", seed=78)
        new = hs.datasets.stretched_torus(500, random_state=79)
        others = (DM(6, **_options(setting)), GP(6, random_state=0, **_options(setting)))
        ours = HS(6, **WORST, **_options(setting)).fit(X).distortion(new)
        assert ours.log < 0.7 * min(other.fit(X).distortion(new).log for other in others)

    def test_objectives(self):
        """Neighbours are kept by what counts them, and the worst distance by what minimises it."""
        X = hs.datasets.stretched_torus(500, random_state=80)
        kept, spread, worst = {}, {}, {}
        models = {name: HS(2, objective=name, random_state=0) for name in OBJECTIVES}
        for name, model in (models | {"DM": DM(2), "GP": GP(2, random_state=0)}).items():
            Y, exact = model.fit_transform(X), hs.diffusion_distances(model.kernel_, model.power_)
            kept[name], spread[name] = _share_of_neighbors(exact, pdist(Y)), np.log(pdist(Y) / exact).std()
            worst[name] = model.distortion().log
        for name in ("neighbors", "mixed"):
            assert kept[name] > 0.03 + max(kept[other] for other in ("log-stress", "bilipschitz", "DM", "GP"))
        for name in OBJECTIVES:
            assert spread[name] < min(spread["DM"], spread["GP"])
        assert min(worst, key=worst.get) == "bilipschitz"

    def test_beyond_all_pairs(self, monkeypatch):
        """Pairs are searched and distances sketched; exact distances confirm the result."""
        for module in ("estimators.heat_sketch", "analysis.distortion"):
            monkeypatch.setattr(f"heatsketch.{module}.ALL_PAIRS", 100)
        X = hs.datasets.stretched_torus(600, random_state=0)
        options = {"bandwidth": 0.3, "power": 10, "n_neighbors": 24}
        ours = HS(4, **WORST, **options).fit(X)
        assert not ours.distortion().exhaustive
        d = hs.diffusion_distances(ours.kernel_, 10)
        models = (ours, DM(4, **options).fit(X), GP(4, random_state=0, **options).fit(X))
        exact, *others = (hs.measure_distortion(model.embedding_, d).log for model in models)
        assert exact < 0.8 * min(others)
        assert 0.7 * exact < ours.distortion().log <= exact + 1e-9


@pytest.fixture(scope="module", params=[(a, b) for a in ("bilipschitz", "mixed") for b in NORMALIZATIONS], ids=str)
def model(request, torus):
    objective, normalization = request.param
    options = {"bandwidth": 1.0, "power": 8, "normalization": normalization, "objective": objective}
    return HS(3, random_state=0, **options).fit(torus)


def _row_weight(kernel):
    return 1.0 if kernel.row_weight is None else kernel.row_weight[:, None]


class TestSketch:
    def test_formula(self, model, torus):
        S = model.kernel_.symmetric.toarray()
        if model.objective != "bilipschitz":
            np.testing.assert_allclose(model.at_powers([8])[0], model.embedding_, atol=1e-9)
            with pytest.raises(ValueError, match="from time 8 on"):
                model.at_powers([2, 8])
            later = model.kernel_.weigh_rows(S @ S @ (model.embedding_ / _row_weight(model.kernel_)))
            shift = later - model.at_powers([10])[0]
            np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-7 * np.ptp(later))
            return
        for t, Y in ((8, model.embedding_), (8, model.at_powers([2, 8])[1]), (2, model.at_powers([2, 8])[0])):
            expected = model.kernel_.weigh_rows(np.linalg.matrix_power(S, t) @ model._M)
            shift = expected - Y  # a constant mode is left out
            np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-7 * np.ptp(Y))
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-9)
        np.testing.assert_allclose(model.transform(torus[7:9]), model.embedding_[7:9], atol=1e-9)

    def test_distortion(self, model):
        exact = hs.diffusion_distances(model.kernel_, 8)
        assert model.distortion().constant == pytest.approx(hs.bilipschitz_constant(model.embedding_, exact))
        assert 0.95 < np.median(pdist(model.embedding_) / exact) < 1.05

    def test_intervals(self, model):
        distances, low, high = model.diffusion_distances(interval=0.95)
        true = hs.diffusion_distances(model.kernel_, 8)
        slack = 1e-9 * true.max()
        assert np.mean((low - slack <= true) & (true <= high + slack)) > 0.9
        assert np.mean((distances < low) | (distances > high)) > 0.5  # three dimensions are too few

    @pytest.mark.parametrize("objective", ["bilipschitz", "mixed"])
    def test_more_components(self, torus, objective):
        options = {"bandwidth": 1.0, "power": 8, "objective": objective, "random_state": 0}
        model = HS(2, **options).fit(torus)
        model.set_params(power=2).add_components(2)  # the new power does not mix with the fitted one
        np.testing.assert_array_equal(model.embedding_, HS(4, **options).fit_transform(torus))
        np.testing.assert_allclose(model.at_powers([8])[0], model.embedding_, atol=1e-9)
        np.testing.assert_allclose(model.transform(torus[:3]), model.embedding_[:3], atol=1e-9)

    @pytest.mark.parametrize("options", [{}, {"power": 8}, WORST])
    def test_a_copy_with_one_more_component(self, torus, options):
        model = HS(2, **{"random_state": 0, **options}).fit(torus)
        before, wider = model.embedding_.copy(), model._widened()
        np.testing.assert_array_equal(model.embedding_, before)
        np.testing.assert_array_equal(wider.embedding_, HS(3, **{"random_state": 0, **options}).fit_transform(torus))
        np.testing.assert_allclose(wider.transform(torus[:3]), wider.embedding_[:3], atol=1e-6)
        np.testing.assert_allclose(model.transform(torus[:3]), before[:3], atol=1e-6)


class TestOptions:
    @pytest.mark.parametrize("objective", ["mixed", "bilipschitz"])
    def test_unit_does_not_matter(self, torus, objective):
        options = {"objective": objective, "random_state": 0}
        a, b = (HS(2, bandwidth=unit**2, **options).fit(unit * torus) for unit in (1.0, 8.0))
        np.testing.assert_array_equal(a.embedding_, b.embedding_)

    def test_given_start(self, torus):
        """The search is never worse than its start, be it an embedding that was optimised before."""
        options = {"bandwidth": 1.0, "power": 8, **WORST}
        maps, best = DM(2, bandwidth=1.0, power=8).fit(torus), HS(2, **options).fit(torus)
        for start in (maps, best):
            given = HS(2, init=start.embedding_, **options).fit(torus)
            assert given.distortion().log < 1.001 * start.distortion().log

    def test_float32_and_real_powers(self, torus):
        model = HS(2, bandwidth=1.0, power=2.5, **WORST).fit(torus.astype(np.float32))
        assert model.embedding_.dtype == np.float32
        assert model.distortion().log < DM(2, bandwidth=1.0, power=2.5).fit(torus).distortion().log

    def test_as_many_components_as_directions(self):
        model = HS(6, bandwidth=2.0, objective="bilipschitz").fit(np.random.default_rng(0).normal(size=(6, 3)))
        assert model.embedding_.shape == (6, 6)
        assert model.distortion().log < 1e-6

    def test_graphs_duplicates_and_clusters(self, torus):
        graph = nx.les_miserables_graph()
        model = HS(3, affinity="precomputed", **WORST).fit(graph)
        assert model.distortion().log < DM(3, affinity="precomputed").fit(graph).distortion().log
        twice = HS(2, bandwidth=1.0, **WORST).fit(np.vstack([torus, torus]))
        np.testing.assert_allclose(twice.embedding_[:300], twice.embedding_[300:], atol=1e-9)
        X = np.random.default_rng(0).normal(size=(120, 2))
        X[60:] += 1e3  # two clusters that share no heat
        options = {"n_neighbors": 10, "power": 4}
        assert HS(4, **WORST, **options).fit(X).distortion().log < DM(4, **options).fit(X).distortion().log
