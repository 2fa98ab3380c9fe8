"""HeatSketch: what it promises, against the methods it is made to beat."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data

HS = hs.HeatSketch


def _options(setting, normalization):
    return {"power": setting.power, "bandwidth": setting.bandwidth, "normalization": normalization}


class TestAgainstOthers:
    @pytest.mark.parametrize("normalization", ["symmetric", "bistochastic"])
    @pytest.mark.parametrize("name", PAPER_SETS)
    def test_below_both(self, name, normalization):
        """The study's bars, on a sample that is not among its trials: at most 0.4 of the better."""
        X, setting = paper_data(name, seed=77)
        options = _options(setting, normalization)
        ours = HS(3, random_state=0, **options).fit(X).distortion_.log
        maps = hs.DiffusionMaps(3, **options).fit(X).distortion().log
        sketch = hs.GaussianProcessEmbedding(3, random_state=0, **options).fit(X).distortion().log
        better = min(maps, sketch)
        assert ours <= better
        if better > 0.2:
            assert ours <= 0.4 * better

    def test_on_unseen_points(self):
        X, setting = paper_data("stretched_torus", seed=78)
        unseen = hs.datasets.stretched_torus(500, random_state=79)
        options = _options(setting, "bistochastic")
        others = (hs.DiffusionMaps(6, **options), hs.GaussianProcessEmbedding(6, random_state=0, **options))
        ours = HS(6, random_state=0, **options).fit(X).distortion(unseen)
        assert ours.exhaustive
        assert ours.log < 0.7 * min(other.fit(X).distortion(unseen).log for other in others)

    def test_typical_distances(self):
        """The mean-square objective is better in the mean square, and the other one in the worst case."""
        X, setting = paper_data("stretched_torus", seed=80)
        rms, worst = {}, {}
        for objective in ("bilipschitz", "log-stress"):
            model = HS(3, objective=objective, random_state=0, **_options(setting, "bistochastic")).fit(X)
            ratios = np.log(model.diffusion_distances() / hs.diffusion_distances(model.kernel_, setting.power))
            rms[objective], worst[objective] = ratios.std(), model.distortion_.log
        assert rms["log-stress"] < rms["bilipschitz"]
        assert worst["bilipschitz"] < worst["log-stress"]

    def test_beyond_all_pairs(self):
        """Above 2000 points pairs are searched for and distances sketched; exact ones confirm the result."""
        X = hs.datasets.stretched_torus(2100, random_state=0)
        options = {"bandwidth": 0.3, "power": 10, "n_neighbors": 24}
        ours = HS(4, random_state=0, solver_params={"width": 96, "n_rounds": 6}, **options).fit(X)
        assert ours.width_ == 96
        others = hs.DiffusionMaps(4, **options), hs.GaussianProcessEmbedding(4, random_state=0, **options)
        d = hs.diffusion_distances(ours.kernel_, 10)  # of one kernel for all
        exact = {
            type(model).__name__: hs.measure_distortion(model.embedding_, d).log
            for model in (ours, *(other.fit(X) for other in others))
        }
        assert exact["HeatSketch"] < 0.8 * min(exact["DiffusionMaps"], exact["GaussianProcessEmbedding"])
        assert 0.7 * exact["HeatSketch"] < ours.distortion_.log <= exact["HeatSketch"] + 1e-9
        assert not ours.distortion_.exhaustive


@pytest.fixture(scope="module", params=NORMALIZATIONS)
def model(request, torus):
    return HS(3, bandwidth=1.0, normalization=request.param, random_state=0, solver_params={"n_rounds": 4}).fit(torus)


class TestASketchLikeTheOthers:
    def test_it_is_the_kernel_seen_through_a_matrix(self, model):
        S = np.linalg.matrix_power(model.kernel_.symmetric.toarray(), 8)
        expected = model.kernel_.weigh_rows(S @ model._M)
        shift = expected - model.embedding_  # of the constant mode
        np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-7 * np.ptp(model.embedding_))

    def test_new_points(self, model, torus):
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-9)
        np.testing.assert_allclose(model.transform(torus[7:9]), model.embedding_[7:9], atol=1e-9)

    def test_scales(self, model):
        two, eight = model.at_powers([2, 8])
        np.testing.assert_allclose(eight, model.embedding_, atol=1e-9)
        S = model.kernel_.symmetric.toarray()
        expected = model.kernel_.weigh_rows(S @ (S @ model._M))
        np.testing.assert_allclose(pdist(two), pdist(expected), rtol=1e-6)

    def test_distortion_is_measured(self, model):
        exact = hs.diffusion_distances(model.kernel_, 8)
        assert np.exp(model.distortion_.log) == pytest.approx(hs.bilipschitz_constant(model.embedding_, exact))
        assert model.distortion_ == model.distortion()
        assert model.distortion_.log == pytest.approx(min(r.distortion for r in model.history_), rel=1e-6)

    def test_the_median_distance_is_right(self, model):
        ratio = model.diffusion_distances() / hs.diffusion_distances(model.kernel_, 8)
        assert 0.95 < np.median(ratio) < 1.05

    def test_intervals_hold_the_diffusion_distance(self, model):
        distances, low, high = model.diffusion_distances(interval=0.95)
        true = hs.diffusion_distances(model.kernel_, 8)
        slack = 1e-9 * true.max()
        assert np.mean((low - slack <= true) & (true <= high + slack)) > 0.9
        assert np.mean((distances < low) | (distances > high)) > 0.5  # and tell where two dimensions are too few

    def test_more_components(self, torus):
        model = HS(2, bandwidth=1.0, random_state=0).fit(torus)
        before = model.distortion_.log
        model.add_components(2)
        assert model.embedding_.shape == (300, 4)
        assert model.n_components_ == 4
        assert model.distortion_.log < 0.7 * before
        assert "present" in {r.start for r in model.history_}
        np.testing.assert_allclose(model.transform(torus[:3]), model.embedding_[:3], atol=1e-9)

    def test_more_components_of_what_was_fitted(self, torus):
        """Parameters that were set since do not mix with what is there, and the sketch is as wide as need be."""
        model = HS(2, bandwidth=1.0, solver_params={"width": 3, "n_rounds": 2}, random_state=0).fit(torus)
        model.set_params(power=2).add_components(4)
        assert np.linalg.matrix_rank(model.embedding_) == 6
        np.testing.assert_allclose(model.at_powers([8])[0], model.embedding_, atol=1e-9)
        assert model.distortion().log == pytest.approx(model.distortion_.log)
        model.set_params(solver_params={"n_rounds": "many"})
        with pytest.raises(ValueError, match="n_rounds"):
            model.add_components(1)


class TestOptions:
    def test_same_seed_same_embedding(self, torus):
        model = HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, random_state=5)
        first = model.fit_transform(torus)
        np.testing.assert_array_equal(first, clone(model).fit_transform(torus))
        np.testing.assert_array_equal(first, clone(model).set_params(random_state=model.seed_).fit_transform(torus))
        assert np.abs(first - clone(model).set_params(random_state=6).fit_transform(torus)).max() > 1e-6

    def test_units_of_the_data_do_not_matter(self, torus):
        a = HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, random_state=0).fit(torus)
        b = HS(2, bandwidth=64.0, solver_params={"n_rounds": 3}, random_state=0).fit(8.0 * torus)
        np.testing.assert_array_equal(a.embedding_, b.embedding_)

    def test_starts_by_name(self, torus):
        model = HS(
            2, bandwidth=1.0, solver_params={"n_rounds": 3}, random_state=0, init=["random", "random", "spectral"]
        ).fit(torus)
        assert {r.start for r in model.history_} == {"random", "random 2", "spectral"}
        assert model.init_ in {"random", "random 2", "spectral"}
        assert HS(2, bandwidth=1.0, solver_params={"n_rounds": 2}, init="deflated").fit(torus).init_ == "deflated"

    def test_a_start_of_ones_own(self, torus):
        given = hs.DiffusionMaps(2, bandwidth=1.0).fit_transform(torus)
        model = HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, init=given, random_state=0).fit(torus)
        spectral = HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, init="spectral", random_state=0).fit(torus)
        assert model.init_ == "given"
        assert model.history_[0].distortion == pytest.approx(spectral.history_[0].distortion, rel=1e-6)
        # A picture of any origin is taken by its nearest sketch.
        assert np.isfinite(
            HS(2, bandwidth=1.0, solver_params={"n_rounds": 2}, init=torus[:, :2]).fit(torus).embedding_
        ).all()

    def test_float32(self, torus):
        model = HS(2, bandwidth=1.0, random_state=0).fit(torus.astype(np.float32))
        assert model.embedding_.dtype == np.float32
        assert model.distortion_.log < hs.DiffusionMaps(2, bandwidth=1.0).fit(torus).distortion().log

    def test_as_many_components_as_there_are_directions(self):
        X = np.random.default_rng(0).normal(size=(6, 3))
        model = HS(10, bandwidth=2.0).fit(X)
        assert model.embedding_.shape == (6, 10)
        assert model.distortion_.log < 1e-6

    def test_graphs_and_repeated_points(self, torus):
        model = HS(3, affinity="precomputed", random_state=0).fit(nx.les_miserables_graph())
        assert (
            model.distortion_.log
            < hs.DiffusionMaps(3, affinity="precomputed").fit(nx.les_miserables_graph()).distortion().log
        )
        twice = HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, random_state=0).fit(np.vstack([torus, torus]))
        np.testing.assert_allclose(twice.embedding_[:300], twice.embedding_[300:], atol=1e-9)

    def test_real_powers(self, torus):
        model = HS(2, bandwidth=1.0, power=2.5, solver_params={"n_rounds": 2}).fit(torus)
        np.testing.assert_allclose(model.transform(torus), model.embedding_, atol=1e-8)

    def test_what_was_chosen_is_said(self, torus, capsys):
        HS(2, bandwidth=1.0, solver_params={"n_rounds": 2}, verbose=True).fit(torus)
        assert "[HeatSketch]" in capsys.readouterr().err

    def test_into_an_array(self, torus):
        out = np.empty((300, 2))
        model = HS(2, bandwidth=1.0, solver_params={"n_rounds": 2}, random_state=0)
        assert model.fit_transform(torus, out=out) is out
        np.testing.assert_array_equal(out, clone(model).fit_transform(torus))
        with pytest.raises(ValueError, match=r"of shape \(300, 2\)"):
            model.fit_transform(torus, out=np.empty((300, 512)))

    def test_many_components_of_parts(self):
        """Two clusters that share no heat."""
        X = np.random.default_rng(0).normal(size=(120, 2))
        X[60:] += 1e3
        model = HS(4, n_neighbors=10, power=4, random_state=0).fit(X)
        maps = hs.DiffusionMaps(4, n_neighbors=10, power=4).fit(X)
        assert model.distortion_.log < maps.distortion().log

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_components": "auto"}, "does not have"),
            ({"objective": "stress"}, "objective='stress' is not known"),
            ({"init": "pca"}, "init='pca' was given"),
            ({"init": ["random", "pca"]}, "known are 'auto' and"),
            ({"init": []}, r"list of shape \(0,\)"),
            ({"init": np.zeros((300, 3))}, r"shape \(300, 3\)"),
            ({"init": np.zeros((10, 2))}, "10 rows for 300 samples"),
            ({"init": np.full((300, 2), np.nan)}, "finite"),
            ({"init": np.ones((300, 2))}, "equal rows"),
            ({"solver_params": {"width": "wide"}}, "width"),
            ({"solver_params": {"regularization": "much"}}, "regularization"),
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_refused(self, torus, options, message):
        with pytest.raises(ValueError, match=message):
            HS(**{"n_components": 2, "bandwidth": 1.0, **options}).fit(torus)


class TestUnseenPoints:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize(
        "model", [hs.DiffusionMaps(3), hs.GaussianProcessEmbedding(3, random_state=0)], ids=lambda m: type(m).__name__
    )
    def test_training_points_have_the_training_distortion(self, torus, model, normalization):
        model = clone(model).set_params(bandwidth=1.0, normalization=normalization).fit(torus)
        assert model.distortion(torus).log == pytest.approx(model.distortion().log, rel=1e-6)

    @pytest.mark.parametrize("normalization", ["bistochastic", "stochastic"])
    def test_a_graph_too(self, normalization):
        A = nx.to_numpy_array(nx.les_miserables_graph())
        model = hs.GaussianProcessEmbedding(3, affinity="precomputed", normalization=normalization, random_state=0)
        assert model.fit(A).distortion(A).log == pytest.approx(model.distortion().log, rel=1e-6)

    def test_distances_between_rows(self, torus):
        """Against the definition: rows a(x) A^(t-1), by dense algebra."""
        unseen = hs.datasets.stretched_torus(40, random_state=3)
        model = hs.DiffusionMaps(3, bandwidth=1.0, power=4).fit(torus)
        affinity = np.exp(-np.square(unseen[:, None] - torus[None]).sum(axis=-1))
        scale = model.kernel_.scaling.scale
        rows = affinity * scale / (affinity @ scale)[:, None]
        rows = rows @ np.linalg.matrix_power(model.kernel_.toarray(), 3)
        expected = hs.measure_distortion(model.transform(unseen), pdist(rows)).log
        assert model.distortion(unseen).log == pytest.approx(expected, rel=1e-6)

    def test_many_are_sampled(self, torus, monkeypatch):
        monkeypatch.setattr("heatsketch.analysis.distortion.ALL_PAIRS", 50)
        model = hs.DiffusionMaps(2, bandwidth=1.0).fit(torus)
        found = model.distortion(torus)
        assert found.n_pairs == 50 * 49 / 2
        assert not found.exhaustive
        assert found.log <= model.distortion().log

    def test_one_point_has_no_distances(self, torus):
        with pytest.raises(ValueError, match="at least 2"):
            hs.DiffusionMaps(2, bandwidth=1.0).fit(torus).distortion(torus[:1])
