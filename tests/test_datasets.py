"""Data sets: shape, geometry, uniformity, seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heatsketch import datasets

MAKERS = ("circle", "stretched_torus", "klein_bottle", "circle_with_outliers", "gaussian_clouds")


@pytest.mark.parametrize("name", MAKERS)
def test_seed_repeats_and_size_is_kept(name):
    make = getattr(datasets, name)
    a, b, c = (make(37, random_state=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert len(a) == 37
    assert len(make(11, random_state=np.random.default_rng(0))) == 11
    assert len(make(11, random_state=np.random.RandomState(0))) == 11


def test_circle():
    X, theta = datasets.circle(2000, 0, return_parameters=True)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    np.testing.assert_allclose(np.arctan2(X[:, 1], X[:, 0]) % (2 * np.pi), theta)
    assert stats.kstest(theta / (2 * np.pi), "uniform").pvalue > 1e-3


def test_stretched_torus():
    X, angles = datasets.stretched_torus(2000, 3.5, 0, return_parameters=True)
    np.testing.assert_allclose(np.linalg.norm(X[:, :2], axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(X[:, 2:], axis=1), 3.5)
    for angle in angles.T:
        assert stats.kstest(angle / (2 * np.pi), "uniform").pvalue > 1e-3


def test_klein_bottle():
    X, parameters = datasets.klein_bottle(500, random_state=0, return_parameters=True)
    u, v = parameters.T
    np.testing.assert_allclose(np.hypot(X[:, 0], X[:, 1]), 10 + 5 * np.cos(v))
    np.testing.assert_allclose(np.hypot(X[:, 2], X[:, 3]), np.abs(5 * np.sin(v)))
    np.testing.assert_allclose(X[:, 0], (10 + 5 * np.cos(v)) * np.cos(u))


def test_circle_with_outliers():
    X = datasets.circle_with_outliers(200, 0)
    np.testing.assert_array_equal(X[-2:], [[0, 3], [3, 0]])
    np.testing.assert_allclose(np.linalg.norm(X[:-2], axis=1), 1)


def test_gaussian_clouds():
    X, labels = datasets.gaussian_clouds(3000, random_state=0, return_labels=True)
    assert X.shape == (3000, 10)
    centres = np.array([X[labels == c].mean(axis=0) for c in range(3)])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.linalg.norm(centres[a] - centres[b]) == pytest.approx(5, abs=0.3)
    assert np.mean([X[labels == c].var(axis=0).mean() for c in range(3)]) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("n", [0, 2.5])
def test_invalid_size(n):
    with pytest.raises(ValueError, match="n="):
        datasets.circle(n)
    with pytest.raises(ValueError, match="n="):
        datasets.circle_with_outliers(n)


def test_more_clouds_than_features_raise():
    with pytest.raises(ValueError, match="n_features"):
        datasets.gaussian_clouds(10, n_clouds=11)
