"""Distances between points, and the Gaussian affinities made from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import pairwise_distances
from sklearn.utils.extmath import row_norms

from .._utils.array import array_namespace
from .._utils.chunks import chunks
from .._utils.threads import each, product, shares
from .._utils.typing import FloatArray, IntArray

__all__ = [
    "CENTRE_ROWS",
    "EXPONENT_ERROR",
    "Metric",
    "central_point",
    "column_distances",
    "condensed_distances",
    "gaussian_affinity",
    "magnitude",
    "no_distance",
    "products_in",
    "refuse_overflow",
    "row_distances",
    "squared_distances",
]

# Up to this many features differences are computed, which is exact and no slower than a matrix product.
_DIRECT_FEATURES = 16
# |x|^2 + |y|^2 - 2 x.y cancels if the points are close for their distance from the centre. Below this fraction of
# |x|^2 + |y|^2 differences are computed instead, for a relative error near 1e-9; for all pairs if more than this share
# of them is below it.
_CANCELLATION = 1e-6
_MOSTLY_CLOSE = 0.2
# Rows whose median is the centre from which inner products are taken.
CENTRE_ROWS = 64
# Cosine and correlation distances below this are rounding.
_ANGULAR_ROUNDING = 1e-13
# Largest error of the exponents of the kernel.
EXPONENT_ERROR = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
# Beyond this, sums of two squared distances, and bandwidths that are tried beyond the largest, may overflow.
_LARGEST_SQUARE = float(np.finfo(np.float64).max) / 16.0
_METRICS_OF_THE_SAMPLE = frozenset({"seuclidean", "mahalanobis"})


@dataclass(frozen=True)
class Metric:
    """A distance between points, or "precomputed".

    Attributes
    ----------
    name : str or callable
        A metric of :func:`sklearn.metrics.pairwise_distances`, a function of two points, or "precomputed".
    params : dict
        Its further parameters, such as ``{"p": 3}`` for "minkowski".
    """

    name: str | Callable[..., float] = "euclidean"
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def precomputed(self) -> bool:
        """Whether rows of X are distances already."""
        return self.name == "precomputed"

    @property
    def euclidean(self) -> bool:
        """Whether this is the Euclidean distance, for which the Gaussian kernel is positive semidefinite."""
        return self.name in ("euclidean", "l2", "sqeuclidean") and not self.params


def squared_distances(X: Any, Y: Any = None, metric: Metric | str = "euclidean") -> FloatArray:
    """Squared distances between the rows of `X` and those of `Y`, in float64.

    Parameters
    ----------
    X : ndarray or sparse array of shape (m, d), or (m, N) distances if the metric is "precomputed"
    Y : ndarray or sparse array of shape (N, d), default: X
    metric : Metric or str
        Its distances are squared, except that "sqeuclidean" means the squared Euclidean distance itself.

    Returns
    -------
    D2 : ndarray of float64, shape (m, N)
        Exactly 0 where two rows are equal, unless the metric is a function that returns another value.
    """
    if not isinstance(metric, Metric):
        metric = Metric(metric)
    with np.errstate(over="ignore", invalid="ignore"):
        D2 = _squared_distances(X, X if Y is None else Y, metric)
    if not metric.euclidean and np.isnan(D2).any():  # otherwise NaN means overflow
        raise ValueError(
            f"metric={metric.name!r} gives NaN for some of the points, e.g. the correlation with a constant row is "
            "undefined; leave such rows out, or use another metric."
        )
    if not (D2 <= _LARGEST_SQUARE).all():
        raise _overflow()
    return D2


def central_point(Y: FloatArray) -> FloatArray:
    """The centre to subtract before inner products, in float64, shape (d,).

    It is the median of a few rows, not the mean, which one outlier moves so far that all others lose their digits.
    """
    some = 0.5 * Y[:: max(1, len(Y) // CENTRE_ROWS)]  # halves: the mean of two of them does not overflow
    return 2.0 * np.asarray(np.median(some, axis=0), dtype=np.float64)


def products_in(spread: float, dtype: np.dtype[Any]) -> Any:
    """The dtype in which ``|x|^2 + |y|^2 - 2 x.y`` is accurate enough for a kernel, or None if there is none.

    `spread` is the largest possible squared distance, in units of the smallest epsilon.
    """
    accurate = (t for t in (np.float32, np.float64) if float(np.finfo(t).eps) * spread <= EXPONENT_ERROR[dtype])
    return next(accurate, None)


def refuse_overflow(X: FloatArray) -> None:
    """Raise if squared distances between the points could overflow."""
    if magnitude(X) > np.sqrt(np.finfo(np.float64).max / (4.0 * X.shape[1])):
        raise _overflow()


def no_distance() -> ValueError:
    """The error for data whose points all coincide."""
    return ValueError(
        "all distances between points are zero, or so small that their squares underflow, so no bandwidth can be "
        "chosen; check that the rows of X differ, or rescale X."
    )


def _overflow() -> ValueError:
    return ValueError(
        "squared distances between points overflow; divide X by its largest absolute value (and the bandwidth, if "
        "given, by its square)."
    )


def _squared_distances(X: Any, Y: Any, metric: Metric) -> FloatArray:
    D2: FloatArray
    if metric.precomputed:
        D2 = np.square(X, dtype=np.float64)
        return D2
    X, Y = (Z.astype(np.float64) if sparse.issparse(Z) else np.asarray(Z, dtype=np.float64) for Z in (X, Y))
    if not metric.euclidean:
        return _other_metric(X, Y, metric)
    if sparse.issparse(X):
        return _guarded(X, Y)
    if X.shape[1] <= _DIRECT_FEATURES:
        D2 = cdist(X, Y, "sqeuclidean")
        return D2
    return _guarded(X, Y, central_point(Y))


def _guarded(X: Any, Y: Any, centre: FloatArray | None = None) -> FloatArray:
    """Squared Euclidean distances by a matrix product, with differences for close pairs."""
    A, B = (X, Y) if centre is None else (X - centre, Y - centre)
    norms = row_norms(A, squared=True)[:, None] + row_norms(B, squared=True)[None, :]
    D2: FloatArray = (A @ B.T).toarray() if sparse.issparse(A) else product(A, B.T)
    # In place: memory that is new takes longer than the arithmetic.
    D2 *= -2.0
    D2 += norms
    norms *= _CANCELLATION
    close = D2 <= norms
    n_close = np.count_nonzero(close)
    if n_close > _MOSTLY_CLOSE * close.size and not sparse.issparse(X):
        return np.asarray(cdist(X, Y, "sqeuclidean"))
    if n_close:
        i, j = np.nonzero(close)
        for some in chunks(len(i), X.shape[1]):
            D2[i[some], j[some]] = row_norms(X[i[some]] - Y[j[some]], squared=True)
    return D2


def _other_metric(X: Any, Y: Any, metric: Metric) -> FloatArray:
    """Squared distances by scikit-learn."""
    if metric.name in _METRICS_OF_THE_SAMPLE and not metric.params:
        raise ValueError(
            f"metric={metric.name!r} depends on the whole sample, so new points would change it; give its parameters "
            "(metric_params={'V': ...} or {'VI': ...}), or scale X first, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataConversionWarning)  # metrics of booleans convert X
            D = np.asarray(pairwise_distances(X, Y, metric=metric.name, **metric.params), dtype=np.float64)
    except TypeError as error:
        raise ValueError(
            f"metric={metric.name!r} with metric_params={metric.params} could not be computed on "
            f"{'sparse' if sparse.issparse(X) else 'dense'} X ({error}); for sparse X use 'euclidean', 'manhattan' or "
            "'cosine', or pass X.toarray()."
        ) from error
    if metric.name in ("cosine", "correlation"):
        D[D <= _ANGULAR_ROUNDING] = 0.0
    return np.square(D, out=D)


def magnitude(Z: Any) -> float:
    """Largest absolute entry, or 1 if all are zero: squares of points divided by it do not underflow."""
    if not all(Z.shape):
        return 1.0
    xp = array_namespace(Z)
    return max(float(xp.max(Z)), -float(xp.min(Z))) or 1.0


def gaussian_affinity(D2: FloatArray, epsilon: FloatArray | float, dtype: Any) -> FloatArray:
    """``exp(-D2 / epsilon)`` in place; `epsilon` is a number or broadcasts against `D2`.

    Numbers that are subnormal in `dtype`, in which the result will be stored, are set to zero: they make products many
    times slower.
    """
    with np.errstate(over="ignore"):
        D2 /= epsilon
    np.negative(D2, out=D2)
    with np.errstate(under="ignore"):
        K: FloatArray = np.exp(D2, out=D2)
    K[np.finfo(dtype).tiny > K] = 0.0
    return K


@singledispatch
def row_distances(Z: Any, i: Any, j: Any) -> Any:
    """Distances between rows ``i`` and ``j`` of Z, (N, d) -> (m,), in float64, of the library of `i`.

    Backends register their own arrays.
    """
    from ..compiled.pairs import distances  # noqa: PLC0415

    Z, i, j = np.ascontiguousarray(Z), np.ascontiguousarray(i, np.int64), np.ascontiguousarray(j, np.int64)
    out = np.empty(len(i))
    each(lambda some: distances(Z, i, j, out, some.start, some.stop), shares(len(i), 4 * Z.shape[1]), blas=False)
    return out


@singledispatch
def condensed_distances(Z: Any) -> Any:
    """Distances of all pairs of rows of Z, (N, d) -> (N (N - 1) / 2,), in the order of SciPy's pdist, in float64.

    Backends register their own arrays.
    """
    return np.sqrt(squared_distances(Z.astype(np.float64)))[np.triu_indices(len(Z), 1)]


@singledispatch
def column_distances(V: Any, i: IntArray, j: IntArray) -> FloatArray:
    """Distances between columns ``i`` and ``j`` of a block, (N, k) -> (m,), in float64.

    Backends register their own arrays.
    """
    rows = np.ascontiguousarray(V.T, dtype=np.float64)
    scale = magnitude(rows)
    distances: FloatArray = scale * row_distances(rows / scale, i, j)
    return distances
