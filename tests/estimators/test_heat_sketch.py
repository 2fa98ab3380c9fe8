"""HeatSketch: smaller distortion than the other methods, and a sketch like theirs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data

HS, DM, GP = hs.HeatSketch, hs.DiffusionMaps, hs.GaussianProcessEmbedding
SHORT = {"n_rounds": 3}


def _options(setting, normalization="bistochastic"):
    return {"power": setting.power, "bandwidth": setting.bandwidth, "normalization": normalization}


class TestAgainstOthers:
    @pytest.mark.parametrize("normalization", ["symmetric", "bistochastic"])
    @pytest.mark.parametrize("name", PAPER_SETS)
    def test_below_both(self, name, normalization):
        """At most 0.4 of the better, on a sample that is not among those of the study."""
        X, setting = paper_data(name, seed=77)
        options = _options(setting, normalization)
        ours = HS(3, random_state=0, **options).fit(X).distortion_.log
        others = (DM(3, **options), GP(3, random_state=0, **options))
        better = min(other.fit(X).distortion().log for other in others)
        assert ours <= better
        assert ours <= 0.4 * better or better <= 0.2

    def test_on_new_points(self):
        X, setting = paper_data("stretched_torus", seed=78)
        new = hs.datasets.stretched_torus(500, random_state=79)
        others = (DM(6, **_options(setting)), GP(6, random_state=0, **_options(setting)))
        ours = HS(6, random_state=0, **_options(setting)).fit(X).distortion(new)
        assert ours.log < 0.7 * min(other.fit(X).distortion(new).log for other in others)

    def test_objectives(self):
        """Each objective wins by its own measure: mean square, and worst case."""
        X, setting = paper_data("stretched_torus", seed=80)
        rms, worst = {}, {}
        for objective in ("bilipschitz", "log-stress"):
            model = HS(3, objective=objective, random_state=0, **_options(setting)).fit(X)
            ratios = np.log(model.diffusion_distances() / hs.diffusion_distances(model.kernel_, setting.power))
            rms[objective], worst[objective] = ratios.std(), model.distortion_.log
        assert rms["log-stress"] < rms["bilipschitz"]
        assert worst["bilipschitz"] < worst["log-stress"]

    def test_beyond_all_pairs(self, monkeypatch):
        """Pairs are searched and distances sketched; exact distances confirm the result."""
        for module in ("estimators.heat_sketch", "analysis.distortion"):
            monkeypatch.setattr(f"heatsketch.{module}.ALL_PAIRS", 100)
        X = hs.datasets.stretched_torus(600, random_state=0)
        options = {"bandwidth": 0.3, "power": 10, "n_neighbors": 24}
        ours = HS(4, random_state=0, solver_params={"width": 96, "n_rounds": 6}, **options).fit(X)
        assert ours.width_ == 96
        assert not ours.distortion_.exhaustive
        d = hs.diffusion_distances(ours.kernel_, 10)
        models = (ours, DM(4, **options).fit(X), GP(4, random_state=0, **options).fit(X))
        exact, *others = (hs.measure_distortion(model.embedding_, d).log for model in models)
        assert exact < 0.8 * min(others)
        assert 0.7 * exact < ours.distortion_.log <= exact + 1e-9


@pytest.fixture(scope="module", params=NORMALIZATIONS)
def model(request, torus):
    return HS(
        3, bandwidth=1.0, power=8, normalization=request.param, random_state=0, solver_params={"n_rounds": 4}
    ).fit(torus)


class TestSketch:
    def test_formula(self, model, torus):
        S = model.kernel_.symmetric.toarray()
        for t, Y in ((8, model.embedding_), (8, model.at_powers([2, 8])[1]), (2, model.at_powers([2, 8])[0])):
            expected = model.kernel_.weigh_rows(np.linalg.matrix_power(S, t) @ model._M)
            shift = expected - Y  # a constant mode is left out
            np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-7 * np.ptp(Y))
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-9)
        np.testing.assert_allclose(model.transform(torus[7:9]), model.embedding_[7:9], atol=1e-9)

    def test_distortion(self, model):
        exact = hs.diffusion_distances(model.kernel_, 8)
        assert model.distortion_.constant == pytest.approx(hs.bilipschitz_constant(model.embedding_, exact))
        assert model.distortion_ == model.distortion()
        assert model.distortion_.log == pytest.approx(min(r.distortion for r in model.history_), rel=1e-6)
        assert 0.95 < np.median(pdist(model.embedding_) / exact) < 1.05

    def test_intervals(self, model):
        distances, low, high = model.diffusion_distances(interval=0.95)
        true = hs.diffusion_distances(model.kernel_, 8)
        slack = 1e-9 * true.max()
        assert np.mean((low - slack <= true) & (true <= high + slack)) > 0.9
        assert np.mean((distances < low) | (distances > high)) > 0.5  # three dimensions are too few

    def test_more_components(self, torus):
        model = HS(2, bandwidth=1.0, power=8, solver_params={"width": 64}, random_state=0).fit(torus)
        before = model.distortion_.log
        model.set_params(power=2).add_components(2)  # the new power does not mix with the fitted one
        assert model.embedding_.shape == (300, 4)
        assert model.distortion_.log < 0.7 * before
        assert model.distortion().log == pytest.approx(model.distortion_.log)
        assert "present" in {r.start for r in model.history_}
        np.testing.assert_allclose(model.at_powers([8])[0], model.embedding_, atol=1e-9)
        np.testing.assert_allclose(model.transform(torus[:3]), model.embedding_[:3], atol=1e-9)


class TestOptions:
    def test_unit_does_not_matter(self, torus):
        a, b = (HS(2, bandwidth=unit**2, solver_params=SHORT, random_state=0).fit(unit * torus) for unit in (1.0, 8.0))
        np.testing.assert_array_equal(a.embedding_, b.embedding_)

    def test_starts(self, torus):
        options = {"bandwidth": 1.0, "solver_params": SHORT, "random_state": 0}
        model = HS(2, init=["random", "random", "spectral"], **options).fit(torus)
        assert {r.start for r in model.history_} == {"random", "random 2", "spectral"}
        assert HS(2, init="deflated", **options).fit(torus).init_ == "deflated"
        given = HS(2, init=DM(2, bandwidth=1.0).fit_transform(torus), **options).fit(torus)
        spectral = HS(2, init="spectral", **options).fit(torus)
        assert given.init_ == "given"
        assert given.history_[0].distortion == pytest.approx(spectral.history_[0].distortion, rel=1e-6)

    def test_float32_and_real_powers(self, torus):
        model = HS(2, bandwidth=1.0, power=2.5, random_state=0).fit(torus.astype(np.float32))
        assert model.embedding_.dtype == np.float32
        assert model.distortion_.log < DM(2, bandwidth=1.0, power=2.5).fit(torus).distortion().log

    def test_as_many_components_as_directions(self):
        model = HS(10, bandwidth=2.0).fit(np.random.default_rng(0).normal(size=(6, 3)))
        assert model.embedding_.shape == (6, 10)
        assert model.distortion_.log < 1e-6

    def test_graphs_duplicates_and_clusters(self, torus):
        graph = nx.les_miserables_graph()
        model = HS(3, affinity="precomputed", random_state=0).fit(graph)
        assert model.distortion_.log < DM(3, affinity="precomputed").fit(graph).distortion().log
        twice = HS(2, bandwidth=1.0, solver_params=SHORT, random_state=0).fit(np.vstack([torus, torus]))
        np.testing.assert_allclose(twice.embedding_[:300], twice.embedding_[300:], atol=1e-9)
        X = np.random.default_rng(0).normal(size=(120, 2))
        X[60:] += 1e3  # two clusters that share no heat
        options = {"n_neighbors": 10, "power": 4}
        assert HS(4, random_state=0, **options).fit(X).distortion_.log < DM(4, **options).fit(X).distortion().log
