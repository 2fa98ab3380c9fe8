"""Bandwidth rules: their definitions, dimensions of known manifolds, equivariance, near-duplicates, given scales."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch.kernel.bandwidth import kth_neighbor

RULES = ("median", "neighbor", "slope", "self-tuning")


def sphere(n, d, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d + 1))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_rules_match_their_definitions():
    X = np.random.default_rng(0).normal(size=(100, 3))
    D = squareform(pdist(X)) ** 2
    assert hs.estimate_bandwidth(X, "median").epsilon == pytest.approx(np.median(pdist(X) ** 2))
    tenth = np.sort(D, axis=1)[:, 10]
    assert hs.estimate_bandwidth(X, "neighbor").epsilon == pytest.approx(np.median(tenth))
    assert hs.estimate_bandwidth(X, "neighbor", n_neighbors=3).epsilon == pytest.approx(np.median(np.sort(D)[:, 3]))
    by_rank = np.sort(D, axis=1)
    tuned = np.maximum(by_rank[:, 7], by_rank[:, 15] / 16)
    np.testing.assert_allclose(hs.estimate_bandwidth(X, "self-tuning").epsilon, tuned)
    auto = hs.estimate_bandwidth(X)
    assert auto.rule == "self-tuning"
    np.testing.assert_allclose(auto.epsilon, tuned)


def test_slope_is_the_largest_derivative():
    X = sphere(200, 2)
    D2 = squareform(pdist(X)) ** 2
    epsilon = hs.estimate_bandwidth(X, "slope").epsilon

    def slope(eps):
        K = np.exp(-D2 / eps)
        return (D2 / eps * K).sum() / K.sum()

    grid = epsilon * np.exp(np.linspace(-3, 3, 121))
    assert slope(epsilon) > 0.999 * max(slope(e) for e in grid)


@pytest.mark.parametrize(("dimension", "n"), [(1, 300), (2, 600), (3, 1500)])
def test_dimension_of_spheres(dimension, n):
    assert hs.estimate_bandwidth(sphere(n, dimension)).dimension == pytest.approx(dimension, abs=0.3)


@pytest.mark.parametrize("rule", RULES)
def test_units_and_order(rule):
    X = hs.datasets.stretched_torus(200, random_state=0)
    a, b = hs.estimate_bandwidth(X, rule), hs.estimate_bandwidth(4.0 * X, rule)
    np.testing.assert_allclose(np.asarray(b.epsilon), 16.0 * np.asarray(a.epsilon), rtol=1e-9)
    assert b.dimension == pytest.approx(a.dimension)
    order = np.random.default_rng(0).permutation(200)
    c = hs.estimate_bandwidth(X[order], rule)
    np.testing.assert_allclose(np.broadcast_to(c.epsilon, 200), np.broadcast_to(a.epsilon, 200)[order], rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_precomputed_distances_give_the_same(rule):
    X = np.random.default_rng(0).normal(size=(80, 3))
    a = hs.estimate_bandwidth(X, rule)
    b = hs.estimate_bandwidth(squareform(pdist(X)), rule, metric="precomputed")
    np.testing.assert_allclose(np.asarray(b.epsilon), np.asarray(a.epsilon), rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_duplicates_keep_the_bandwidth_positive(rule):
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 30, axis=0)
    assert np.all(np.asarray(hs.estimate_bandwidth(X, rule).epsilon) > 0)


def test_kth_neighbor_with_few_distinct_points():
    D2 = np.array([[0.0, 0.0, 1.0, 4.0]])
    assert kth_neighbor(D2, 1)[0] == 1
    assert kth_neighbor(D2, 2)[0] == 4
    assert kth_neighbor(D2, 3)[0] == 4  # only two distinct points: the farthest


def test_unknown_rule_and_degenerate_data_raise():
    X = hs.datasets.circle(10, random_state=0)
    with pytest.raises(ValueError, match="'silverman'"):
        hs.estimate_bandwidth(X, "silverman")
    with pytest.raises(ValueError, match="zero"):
        hs.estimate_bandwidth(np.ones((10, 2)))
    with pytest.raises(ValueError, match="overflow"):
        hs.estimate_bandwidth(1e200 * X)


@pytest.mark.parametrize("n_neighbors", [0, 1.5])
def test_invalid_neighbours(n_neighbors):
    with pytest.raises(ValueError, match="positive integer"):
        hs.estimate_bandwidth(hs.datasets.circle(10, random_state=0), "neighbor", n_neighbors=n_neighbors)


def definition(X, n_neighbors):
    """``exp(-|x - y|^2 / (s_x s_y))`` within the larger of the k-th neighbour radii of both points, or everywhere."""
    D = squareform(pdist(X))
    by_rank = np.sort(D, axis=1)
    local = np.maximum(by_rank[:, 7], by_rank[:, min(15, len(X) - 1)] / 4)
    K = np.exp(-(D**2) / np.outer(local, local))
    if n_neighbors is None:
        return K
    radii = by_rank[:, n_neighbors]
    return np.where(D <= np.maximum(radii[:, None], radii[None, :]) * (1 + 1e-9), K, 0.0)


def kernel_matrix(X, **options):
    return hs.heat_kernel(X, normalization="symmetric", **options).affinity.operator.toarray()


class TestAuto:
    X = np.random.default_rng(1).normal(size=(120, 3))

    def test_fifteen_neighbors_with_local_scales(self):
        expected = definition(self.X, 15)
        options = [
            (self.X, {}),
            (self.X, {"bandwidth": "self-tuning"}),
            (squareform(pdist(self.X)), {"metric": "precomputed"}),
            (sparse.csr_array(self.X), {}),
            (self.X, {"metric": "sqeuclidean"}),
        ]
        for given, named in options:
            np.testing.assert_allclose(kernel_matrix(given, **named), expected, atol=1e-9)

    def test_every_pair(self):
        np.testing.assert_allclose(kernel_matrix(self.X, n_neighbors=None), definition(self.X, None), atol=1e-9)

    @pytest.mark.parametrize("n", [2, 9, 16, 17])
    def test_few_points(self, n):
        D = squareform(pdist(self.X[:n]))
        by_rank = np.sort(D, axis=1)
        local = np.maximum(by_rank[:, min(7, n - 1)], by_rank[:, min(15, n - 1)] / 4)
        A = hs.heat_kernel(self.X[:n])
        assert A.affinity.n_neighbors == (None if n <= 16 else 15)
        np.testing.assert_allclose(A.bandwidth, local**2)
        np.testing.assert_allclose(A @ np.ones(n), 1.0, atol=1e-7)

    def test_one_bandwidth_uses_every_pair(self):
        for bandwidth in (1.0, "median", "neighbor", "slope"):
            assert hs.heat_kernel(self.X, bandwidth=bandwidth).affinity.n_neighbors is None


@pytest.mark.parametrize("n_neighbors", ["auto", None])
def test_near_duplicates_stay_connected(n_neighbors):
    """A few points that differ by rounding exchange heat with the others, and so does a new point among them."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 2)), 1e-12 * rng.normal(size=(12, 2))])
    A = hs.heat_kernel(X, n_neighbors=n_neighbors)
    assert A.toarray()[200:, :200].sum(axis=1).min() > 0.01
    new = 1e-12 * rng.normal(size=(3, 2))
    assert A.rows_at_new_points(new)[:, :200].sum(axis=1).min() > 0.01


class TestGivenScales:
    X = np.vstack([np.random.default_rng(2).normal(size=(300, 3)), np.ones((20, 3))])

    @pytest.mark.parametrize("options", [{}, {"n_neighbors": None}, {"n_neighbors": 5}, {"cutoff": 1e-3}], ids=str)
    def test_scales_of_a_fit_repeat_it(self, options):
        A = hs.heat_kernel(self.X, **options)
        B = hs.heat_kernel(self.X, bandwidth=A.bandwidth, **options)
        np.testing.assert_array_equal(B.toarray(), A.toarray())
        new = self.X[:20] + 0.1
        np.testing.assert_array_equal(B.rows_at_new_points(new), A.rows_at_new_points(new))

    @pytest.mark.parametrize("n_neighbors", ["auto", None])
    def test_any_scales(self, n_neighbors):
        """They are used as given, and a new point that is a training point has its scale."""
        X = self.X[:100]
        local = np.random.default_rng(0).uniform(0.5, 2.0, 100)
        A = hs.heat_kernel(X, bandwidth=local**2, n_neighbors=n_neighbors)
        K = A.affinity.operator.toarray()
        expected = np.exp(-(squareform(pdist(X)) ** 2) / np.outer(local, local))
        np.testing.assert_allclose(K[K > 0], expected[K > 0], rtol=1e-9)
        np.testing.assert_allclose(A.rows_at_new_points(X), A.toarray(), atol=1e-7)

    def test_estimators_repeat_a_fit(self):
        first = hs.GaussianProcessEmbedding(3, power=4, random_state=0).fit(self.X)
        again = hs.GaussianProcessEmbedding(3, power=4, bandwidth=first.bandwidth_, random_state=0).fit(self.X)
        np.testing.assert_array_equal(again.embedding_, first.embedding_)

    @pytest.mark.parametrize(
        "scales", [np.ones(5), np.zeros(320), np.full(320, np.nan), np.ones((320, 1)), ["wide"] * 320], ids=repr
    )
    def test_invalid_scales(self, scales):
        with pytest.raises(ValueError, match="scales"):
            hs.heat_kernel(self.X, bandwidth=scales)
