"""Shortest paths in a sample: lengths, folds and concentration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import make_swiss_roll

import heatsketch as hs
from heatsketch.linalg.metrics import Metric
from heatsketch.neighbors.paths import shortest_paths

EUCLIDEAN = Metric()


def test_lengths_on_a_circle_are_arcs():
    X, angles = hs.datasets.circle(400, random_state=0, return_parameters=True)
    paths = shortest_paths(X, EUCLIDEAN)
    apart = np.abs(angles[paths.sources][:, None] - angles[paths.rows])
    arcs = np.minimum(apart, 2 * np.pi - apart)
    assert (paths.lengths <= arcs * (1 + 1e-9)).all()  # chords are shorter than arcs
    np.testing.assert_allclose(paths.lengths, arcs, rtol=0.02)
    np.testing.assert_allclose(paths.straight, 2 * np.sin(arcs / 2), rtol=1e-6, atol=1e-7)
    assert not paths.crossing().any()


def test_precomputed_distances(torus):
    points = shortest_paths(torus, EUCLIDEAN)
    given = shortest_paths(squareform(pdist(torus)), Metric("precomputed"))
    np.testing.assert_array_equal(points.rows, given.rows)
    np.testing.assert_allclose(points.lengths, given.lengths, rtol=1e-6)


def test_sheets_of_a_roll_are_different_folds():
    X, angle = make_swiss_roll(1500, random_state=0)
    paths = shortest_paths(X, EUCLIDEAN)
    a, b = angle[paths.sources][:, None], angle[paths.rows]
    crossing = paths.crossing()
    assert crossing[(np.abs(a - b) > 5) & (paths.straight < 8)].all()  # the next sheet is 2 pi away
    assert not crossing[np.abs(a - b) < 2].any()


def test_components_are_not_folds():
    X = np.vstack([hs.datasets.circle(50, random_state=0), 10.0 + hs.datasets.circle(60, random_state=1)])
    paths = shortest_paths(X, EUCLIDEAN)
    across = (paths.sources >= 50)[:, None] != (paths.rows >= 50)
    assert np.isinf(paths.lengths[across]).all()
    assert not paths.crossing().any()


def test_noise_concentrates_distances():
    near = [
        shortest_paths(np.random.default_rng(0).normal(size=(500, d)), EUCLIDEAN).concentration() for d in (2, 10, 50)
    ]
    assert near == sorted(near)
    assert near[0] < 0.3
    assert near[2] > 0.8


def test_duplicates_count_once(torus):
    assert len(shortest_paths(np.vstack([torus, torus[:100]]), EUCLIDEAN).rows) == 300


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]])])
def test_too_few_points(X):
    assert shortest_paths(X, EUCLIDEAN) is None
