"""Distances between points, and the Gaussian affinities made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.utils.extmath import row_norms

from ._typing import FloatArray

__all__ = ["METRICS_EUCLIDEAN", "gaussian_affinity", "squared_distances"]

METRICS_EUCLIDEAN = frozenset({"euclidean", "l2", "sqeuclidean"})

# Up to this many features differences are formed one by one, which is exact and no slower than a matrix product.
_DIRECT_FEATURES = 16
# |x|^2 + |y|^2 - 2 x.y loses digits where the points are close for their distance from the centre. Below this
# fraction of |x|^2 + |y|^2 the difference is formed instead, which leaves a relative error near 1e-9.
_CANCELLATION = 1e-6
_ROUNDING = 1e-14
_PAIRS_PER_CHUNK = 1 << 16


def squared_distances(X: Any, Y: Any = None, metric: str = "euclidean") -> FloatArray:
    """Squared distances between the rows of `X` and those of `Y`, in float64.

    Parameters
    ----------
    X : ndarray or sparse array of shape (m, d), or (m, N) distances if metric is "precomputed"
    Y : ndarray or sparse array of shape (N, d), default: X
    metric : str
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed". Its distances are squared,
        except that "sqeuclidean" means the squared Euclidean distance itself.

    Returns
    -------
    D2 : ndarray of float64, shape (m, N)
        Exactly 0 where two rows are equal.
    """
    Y = X if Y is None else Y
    D2: FloatArray
    if metric == "precomputed":
        D2 = np.square(X, dtype=np.float64)
        return D2
    if metric not in METRICS_EUCLIDEAN:
        D2 = np.asarray(pairwise_distances(X, Y, metric=metric), dtype=np.float64)
        D2[_ROUNDING * D2.max(initial=0.0) >= D2] = 0.0  # a point's distance to itself may be rounding instead of 0
        return np.square(D2, out=D2)
    if sparse.issparse(X) or sparse.issparse(Y):
        return _guarded(sparse.csr_array(X, dtype=np.float64), sparse.csr_array(Y, dtype=np.float64))
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    if X.shape[1] <= _DIRECT_FEATURES:
        D2 = cdist(X, Y, "sqeuclidean")
        return D2
    centre = Y.mean(axis=0)
    return _guarded(X - centre, Y - centre)


def _guarded(X: Any, Y: Any) -> FloatArray:
    """Squared Euclidean distances by a matrix product, with close pairs formed as differences."""
    norms = row_norms(X, squared=True)[:, None] + row_norms(Y, squared=True)[None, :]
    product = X @ Y.T
    D2: FloatArray = norms - 2.0 * (product.toarray() if sparse.issparse(product) else product)
    close_i, close_j = np.nonzero(_CANCELLATION * norms >= D2)
    for start in range(0, len(close_i), _PAIRS_PER_CHUNK):
        i, j = close_i[start : start + _PAIRS_PER_CHUNK], close_j[start : start + _PAIRS_PER_CHUNK]
        D2[i, j] = row_norms(X[i] - Y[j], squared=True)
    return D2


def gaussian_affinity(D2: FloatArray, epsilon: FloatArray | float) -> FloatArray:
    """``exp(-D2 / epsilon)``, written over `D2`; `epsilon` is a number or broadcasts against `D2`."""
    D2 /= epsilon
    np.negative(D2, out=D2)
    return np.exp(D2, out=D2)
