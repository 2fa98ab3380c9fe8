"""Shortest paths, and the bandwidth and diffusion time chosen by them or by the entropy."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import make_swiss_roll

import heatsketch as hs
from heatsketch.analysis.power import choose_power, choose_scales
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.metrics import Metric
from heatsketch.neighbors.paths import Paths, shortest_paths

GP, DM = hs.GaussianProcessEmbedding, hs.DiffusionMaps
EUCLIDEAN = Metric()


def roll(n: int = 1000, seed: int = 0) -> np.ndarray:
    return make_swiss_roll(n, random_state=seed)[0]


class TestPaths:
    def test_lengths_on_a_circle_are_arcs(self):
        X, angles = hs.datasets.circle(400, random_state=0, return_parameters=True)
        paths = shortest_paths(X, EUCLIDEAN)
        apart = np.abs(angles[paths.rows[paths.i]] - angles[paths.rows[paths.j]])
        arcs = np.minimum(apart, 2 * np.pi - apart)
        assert (paths.lengths <= arcs * (1 + 1e-9)).all()  # chords are shorter than arcs
        np.testing.assert_allclose(paths.lengths, arcs, rtol=0.02)
        np.testing.assert_allclose(paths.straight, 2 * np.sin(arcs / 2), rtol=1e-6)

    def test_precomputed_distances(self, torus):
        points, given = (
            shortest_paths(*args) for args in ((torus, EUCLIDEAN), (squareform(pdist(torus)), Metric("precomputed")))
        )
        np.testing.assert_array_equal(points.rows, given.rows)
        np.testing.assert_allclose(np.sort(points.lengths), np.sort(given.lengths), rtol=1e-9)

    def test_components_are_joined_where_they_are_nearest(self):
        X = np.vstack([hs.datasets.circle(50, random_state=0), 10.0 + hs.datasets.circle(60, random_state=1)])
        paths = shortest_paths(X, EUCLIDEAN)
        assert np.isfinite(paths.lengths).all()
        side = paths.rows >= 50
        across = side[paths.i] != side[paths.j]
        assert across.any()
        gap = np.linalg.norm(X[:50, None] - X[None, 50:], axis=2).min()
        assert paths.lengths[across].min() >= gap * (1 - 1e-12)

    def test_duplicates_count_once(self, torus):
        paths = shortest_paths(np.vstack([torus, torus[:100]]), EUCLIDEAN)
        assert len(paths.rows) == 300
        assert (paths.lengths > 0).all()

    @pytest.mark.parametrize("X", [np.zeros((5, 2)), np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]])])
    def test_too_few_points(self, X):
        assert shortest_paths(X, EUCLIDEAN) is None

    def test_distortion_is_zero_for_a_multiple_and_ignores_scale(self, torus):
        paths = shortest_paths(torus, EUCLIDEAN)
        rng = np.random.default_rng(0)
        F = rng.normal(size=(len(paths.rows), 4))
        assert paths.distortion(1e-7 * F) == pytest.approx(paths.distortion(F))
        d = np.linalg.norm(F[paths.i] - F[paths.j], axis=1)
        exact = Paths(paths.rows, paths.i, paths.j, 3.0 * d, paths.straight)
        assert exact.distortion(F) == pytest.approx(0.0, abs=1e-6)
        assert paths.distortion(np.zeros_like(F)) == np.inf

    def test_a_roll_leaks_and_a_circle_does_not(self):
        folded, open_ = (shortest_paths(X, EUCLIDEAN) for X in (roll(), hs.datasets.circle(500, random_state=0)))
        assert folded.leak(1.0) < 1e-6  # sheets are six apart
        assert folded.leak(60.0) > 0.05
        assert open_.leak(100.0) == 0.0

    def test_first_points_of_the_sample(self, torus):
        paths = shortest_paths(torus, EUCLIDEAN)
        few = paths.first(50)
        assert len(few.rows) == 50
        assert max(few.i.max(), few.j.max()) < 50
        kept = (paths.i < 50) & (paths.j < 50)
        np.testing.assert_array_equal(few.lengths, paths.lengths[kept])


class TestPower:
    def test_paths_choose_the_best_time_against_geodesics(self):
        X, angles = hs.datasets.stretched_torus(500, random_state=1, return_parameters=True)
        apart = np.abs(angles[:, None] - angles[None, :])
        apart = np.minimum(apart, 2 * np.pi - apart) * [1.0, 3.5]
        geodesic = squareform(np.hypot(*apart.transpose(2, 0, 1)), checks=False)
        kernel = hs.heat_kernel(X)
        chosen = choose_power(kernel, shortest_paths(X, EUCLIDEAN))
        assert chosen.rule == "paths"
        assert not chosen.at_edge

        def central(power: float) -> float:
            ratios = np.log(hs.diffusion_distances(kernel, power) / geodesic)
            return float(np.subtract(*np.quantile(ratios, [0.99, 0.01])))

        assert central(chosen.power) <= 1.1 * min(map(central, (2, 4, 8, 16, 32, 64)))
        assert central(chosen.power) < 0.6 * central(64)

    def test_entropy_leaves_a_few_modes(self):
        kernel = hs.heat_kernel(hs.datasets.stretched_torus(800, random_state=0))
        chosen = choose_power(kernel, None)
        assert chosen.rule == "entropy"
        values = np.linalg.eigvalsh(deflated_array(kernel))
        shares = values ** (2 * chosen.power) / (values ** (2 * chosen.power)).sum()
        left = np.exp(-(shares * np.log(np.maximum(shares, 1e-300))).sum())
        assert 5 < left < 16
        assert (np.diff(chosen.scores) < 0).all()

    def test_units_do_not_matter(self):
        X = hs.datasets.klein_bottle(400, random_state=0)
        here, there = (GP(2, power="auto", random_state=0).fit(factor * X) for factor in (1.0, 1e5))
        assert here.power_ == there.power_
        assert there.bandwidth_ == pytest.approx(1e10 * here.bandwidth_, rel=1e-6)

    def test_seed_and_estimator_do_not_matter(self, torus):
        models = [GP(2, power="auto", random_state=0), GP(5, power="auto", random_state=9), DM(2, power="auto")]
        assert len({(m.fit(torus).power_, m.bandwidth_) for m in models}) == 1
        chosen = models[0].power_choice_
        assert chosen.rule == models[0].kernel_.bandwidth_rule == "paths"
        assert chosen.power == models[0].power_
        assert chosen.power in chosen.powers

    def test_chosen_values_repeat_the_embedding(self, torus):
        auto = GP(3, power="auto", random_state=0).fit(torus)
        given = GP(3, power=auto.power_, bandwidth=auto.bandwidth_, random_state=0).fit(torus)
        np.testing.assert_array_equal(auto.embedding_, given.embedding_)

    def test_wide_bandwidth_warns(self, torus):
        with pytest.warns(UserWarning, match="chose 1"):
            model = GP(2, power="paths", bandwidth=200.0, random_state=0).fit(torus)
        assert model.power_ == 1

    def test_unknown_rules(self, torus):
        with pytest.raises(ValueError, match="power='knee'"):
            GP(2, power="knee").fit(torus)
        with pytest.raises(ValueError, match="power='paths'"):
            GP(2, power="paths", affinity="precomputed").fit(np.ones((4, 4)))

    @pytest.mark.parametrize(
        "options", [{}, {"n_neighbors": 12}, {"kernel_params": {"cutoff": 1e-4}}, {"metric": "manhattan"}]
    )
    def test_every_kind_of_kernel(self, torus, options):
        model = GP(2, power="auto", random_state=0, **options).fit(torus.astype(np.float32))
        assert model.power_ >= 1
        assert model.embedding_.dtype == np.float32
        assert np.isfinite(model.embedding_).all()

    def test_bandwidth_neighbor_sets_the_bandwidth(self, torus):
        narrow, wide = (
            GP(2, power="auto", kernel_params={"bandwidth_neighbor": k}, random_state=0).fit(torus) for k in (5, 40)
        )
        assert narrow.bandwidth_ == hs.estimate_bandwidth(torus, "neighbor", n_neighbors=5).epsilon
        assert wide.bandwidth_ > 4 * narrow.bandwidth_

    def test_neighbours(self):
        model = GP(8, power="auto", n_neighbors=16, random_state=0).fit(roll(4000).astype(np.float32))
        assert model.kernel_.bandwidth_rule == "neighbor"
        assert model.power_choice_.rule == "paths"
        assert model.power_ >= 32  # the roll is long, and the steps are short


class TestGraphs:
    def test_a_real_graph(self):
        model = hs.DiffusionMaps(2, power="auto", affinity="precomputed").fit(nx.les_miserables_graph())
        assert model.power_choice_.rule == "entropy"
        assert 4 <= model.power_ <= 256

    @pytest.mark.parametrize(
        "graph",
        [nx.complete_graph(12), nx.star_graph(30), nx.path_graph(40), nx.disjoint_union_all([nx.cycle_graph(9)] * 12)],
        ids=["complete", "star", "path", "many parts"],
    )
    def test_never_nan(self, graph):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the shortest time was chosen, where that is so
            model = GP(2, power="auto", affinity="precomputed", random_state=0).fit(graph)
        assert np.isfinite(model.power_choice_.scores).all()
        assert model.power_ >= 1
        assert np.isfinite(model.embedding_).all()


class TestTogether:
    def test_wide_bandwidth_for_a_circle(self):
        X = hs.datasets.circle(300, random_state=0)
        model = DM(2, power="auto").fit(X)
        assert model.kernel_.bandwidth_rule == "paths"
        assert model.bandwidth_ > 20 * hs.estimate_bandwidth(X, "neighbor").epsilon

    def test_narrow_bandwidth_for_a_roll(self):
        X = roll()
        model = GP(4, power="auto", random_state=0).fit(X)
        assert model.kernel_.bandwidth_rule == "neighbor"
        assert 16 <= model.power_ <= 128

    def test_outliers(self):
        X = np.vstack([hs.datasets.circle(200, random_state=0), [[1e4, 0.0]]])
        paths = shortest_paths(X, EUCLIDEAN)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = choose_scales(X, KernelOptions(), paths)
        assert found is None or np.isfinite(found[0])

    def test_a_given_bandwidth_is_kept(self, torus):
        model = GP(2, bandwidth=0.7, power="auto", random_state=0).fit(torus)
        assert model.bandwidth_ == 0.7
        assert model.power_ > 1

    @pytest.mark.parametrize("n", [2, 5])
    def test_few_points(self, n):
        X = np.random.default_rng(n).normal(size=(n, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = GP(2, power="auto", random_state=0).fit(X)
        assert np.isfinite(model.embedding_).all()


def deflated_array(kernel: hs.HeatKernel) -> np.ndarray:
    u = kernel.trivial
    return kernel.symmetric.toarray() - np.outer(u, u)
