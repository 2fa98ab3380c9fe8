"""Distances: against SciPy and scikit-learn, far from the origin, and for coincident points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from heatsketch.linalg.metrics import gaussian_affinity, squared_distances


@pytest.mark.parametrize("d", [1, 16, 17, 64])
def test_agrees_with_scipy(d):
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(40, d)), rng.normal(size=(30, d))
    np.testing.assert_allclose(squared_distances(X, Y), cdist(X, Y, "sqeuclidean"), rtol=1e-12)
    np.testing.assert_allclose(squared_distances(X), cdist(X, X, "sqeuclidean"), rtol=1e-9, atol=0)


@pytest.mark.parametrize("d", [3, 40])
def test_close_points_do_not_cancel(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, d))
    X[1] = X[0] + 2.0**-20
    far = X + 2.0**20  # exact in binary up to the last bits of X
    np.testing.assert_allclose(squared_distances(far), cdist(far, far, "sqeuclidean"), rtol=1e-8, atol=0)
    clusters = 1e-5 * X + rng.integers(0, 2, (50, 1))
    np.testing.assert_allclose(squared_distances(clusters), cdist(clusters, clusters, "sqeuclidean"), rtol=1e-9)


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_coincident_points_have_distance_zero(d, convert):
    X = np.random.default_rng(1).normal(size=(20, d)) * 1e3
    X[7] = X[3]
    D2 = squared_distances(convert(X))
    assert D2[3, 7] == 0
    assert (np.diagonal(D2) == 0).all()


def test_sparse_equals_dense():
    X = sparse.csr_array(np.where(np.random.default_rng(0).random((30, 50)) < 0.1, 1.5, 0.0))
    dense = cdist(X.toarray(), X.toarray(), "sqeuclidean")
    np.testing.assert_allclose(squared_distances(X), dense, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "chebyshev", "correlation", "braycurtis", "jaccard"])
def test_other_metrics_are_those_of_scikit_learn_squared(metric):
    X = np.random.default_rng(0).random(size=(30, 5))
    X = X < 0.5 if metric == "jaccard" else X
    D2 = squared_distances(X, metric=metric)
    np.testing.assert_allclose(D2, pairwise_distances(X, metric=metric) ** 2, atol=1e-12)
    assert (np.diagonal(D2) == 0).all()


def test_parallel_rows_have_cosine_distance_zero():
    direction = np.random.default_rng(0).normal(size=7)
    assert (squared_distances(np.outer(np.arange(1.0, 12), direction), metric="cosine") == 0).all()


def test_undefined_metric_raises():
    X = np.random.default_rng(0).normal(size=(5, 4))
    X[2] = 1.0  # the correlation with a constant row is undefined
    with pytest.raises(ValueError, match="correlation"):
        squared_distances(X, metric="correlation")


def test_precomputed_distances_are_squared_and_not_modified():
    D = np.abs(np.random.default_rng(0).normal(size=(4, 5)))
    before = D.copy()
    np.testing.assert_allclose(squared_distances(D, metric="precomputed"), D**2)
    np.testing.assert_array_equal(D, before)


def test_gaussian_affinity():
    D2 = np.array([[0.0, 1.0, 4.0]])
    np.testing.assert_allclose(gaussian_affinity(D2.copy(), 2.0, np.float64), np.exp(-D2 / 2))
    local = np.array([[1.0, 2.0, 8.0]])
    np.testing.assert_allclose(gaussian_affinity(D2.copy(), local, np.float64), np.exp(-D2 / local))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_affinities_are_zero_rather_than_subnormal(dtype):
    """Subnormal numbers would make products many times slower."""
    smallest = float(np.finfo(dtype).tiny)
    exponents = -np.log(smallest) + np.array([[-1.0, 1.0, 5.0, 30.0]])
    K = gaussian_affinity(exponents.copy(), 1.0, dtype).astype(dtype)
    assert K[0, 0] == pytest.approx(np.e * smallest, rel=1e-5)
    assert (K[0, 1:] == 0).all()
