"""Balanced axes: a rotation to principal axes in the plane, and to equal variances with more components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from heatsketch.linalg.axes import balanced_axes


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_rotation(k):
    rng = np.random.default_rng(k)
    Y = rng.normal(size=(200, k)) @ np.diag(10.0 ** -np.arange(k)) @ rng.normal(size=(k, k)) + 5.0
    R = balanced_axes(Y)
    np.testing.assert_allclose(R.T @ R, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(pdist(Y @ R), pdist(Y), rtol=1e-6)
    covariance = np.atleast_2d(np.cov((Y @ R).T))
    if k > 2:
        np.testing.assert_allclose(covariance.diagonal(), covariance.trace() / k, rtol=1e-9)
    else:
        np.testing.assert_allclose(covariance, np.diag(np.linalg.eigvalsh(np.atleast_2d(np.cov(Y.T)))[::-1]), atol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_equal_points_and_equal_variances(k):
    """There is nothing to balance."""
    for Y in (np.ones((5, k)), np.vstack([np.eye(k), -np.eye(k)])):
        R = balanced_axes(Y)
        np.testing.assert_allclose(R.T @ R, np.eye(k), atol=1e-12)
