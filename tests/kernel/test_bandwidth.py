"""Bandwidth rules: their definitions, dimensions of known manifolds, equivariance."""

from __future__ import annotations

import numpy as np
import pytest
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
    np.testing.assert_allclose(hs.estimate_bandwidth(X, "self-tuning").epsilon, np.sort(D, axis=1)[:, 7])
    assert hs.estimate_bandwidth(X) == hs.estimate_bandwidth(X, "neighbor")


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
