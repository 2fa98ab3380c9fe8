"""Diffusion distances: exact, and estimated with intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform
from scipy.stats import chi2

from .._utils.array import to_numpy
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from ..kernel.operator import HeatKernel, as_heat_kernel
from ..kernel.options import check_count, is_number
from ..linalg.diffusion import diffuse, matrix_power, relative_error, require_definite, require_range
from ..linalg.filters import Power, longest
from ..linalg.metrics import column_distances, magnitude, squared_distances
from ..linalg.recurrences import column_products
from ..linalg.sketch import sample
from .power import power_of

__all__ = [
    "check_level",
    "check_pairs",
    "columns_for",
    "components_for",
    "diffusion_distances",
    "distance_interval",
    "distances_among",
    "distances_in_sample",
    "embedded_distances",
    "error_of",
    "exact_interval",
    "rows_of_pairs",
    "sketch_interval",
]

# Entries of kernel rows in memory at a time: 256 MB in float64.
ROW_ENTRIES = 1 << 25
# Share of all points from which the distances between all of them take less time than those of the given pairs.
_MANY_POINTS = 0.25
# Points of a sample, however many there are.
_FEWEST = 16
# Columns that are diffused at a time on a cluster.
MOST_COLUMNS = 256
_SMALLEST_ERROR = 1e-6
# Rounding error of a distance, in units of the last place: four times what was measured on tori of 20 and 500 points.
_ROUNDINGS = 4.0


@quiet_blas()
def diffusion_distances(A: Any, power: Power | str, pairs: ArrayLike | None = None) -> FloatArray:
    r"""Exact diffusion distances: between the rows of ``A^t`` at time t, or of ``h(A)`` for all times at once.

    They are also the canonical metric of the process with covariance ``A^(2t)`` (:func:`canonical_metric`), and the
    distances in diffusion maps with all eigenvectors.

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
        For a kernel with row weights the rows are those of ``diag(w) S^t``; for a Markov kernel this is the distance
        of Coifman and Lafon.
    power : float, {"auto", "multiscale"} or MultiscaleFilter
        t, or the filter h of :func:`multiscale`.
    pairs : array-like of int, shape (m, 2), optional
        All pairs by default, which needs an N x N matrix.

    Returns
    -------
    distances : ndarray of shape (m,)
        Condensed if `pairs` is None, as :func:`scipy.spatial.distance.pdist` returns them.

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(100, random_state=0), bandwidth=0.25)
    >>> hs.diffusion_distances(A, power=8).shape
    (4950,)
    >>> hs.diffusion_distances(A, power=8, pairs=[[0, 1], [0, 2]]).shape
    (2,)
    """
    kernel = as_heat_kernel(A)
    power = power_of(kernel, power)
    require_range(kernel, [power])
    require_definite(kernel, [power])
    if pairs is not None:
        return _pair_distances(kernel, power, check_pairs(pairs, kernel.shape[0]))
    if not kernel.in_memory:
        raise ValueError(f"all pairs of {kernel.shape[0]} points on a cluster need an N x N matrix; give pairs.")
    rows = kernel.weigh_rows(matrix_power(kernel, power, trivial=not kernel.trivial_is_constant))
    scale = magnitude(rows)
    distances: FloatArray = scale * squareform(np.sqrt(squared_distances(rows / scale)), checks=False)
    return distances


def _pair_distances(kernel: HeatKernel, power: Power, pairs: IntArray) -> FloatArray:
    n, n_points = kernel.shape[0], len(np.unique(pairs))
    if kernel.in_memory and n * n <= ROW_ENTRIES and n_points > _MANY_POINTS * n:
        i, j = np.sort(pairs, axis=1).T  # of the condensed distances between all points
        every = diffusion_distances(kernel, power)
        return np.where(i == j, 0.0, every[np.where(i == j, 0, n * i - i * (i + 1) // 2 + j - i - 1)])
    out = np.empty(len(pairs))
    most = max(2, ROW_ENTRIES // kernel.shape[0]) if kernel.in_memory else MOST_COLUMNS
    for group in groups_of_pairs(pairs, most):
        indices, where = np.unique(pairs[group], return_inverse=True)
        if len(group) < len(indices):  # columns e_i - e_j of pairs, otherwise columns e_i of points
            i, j = (kernel.units(ends, weighted=True) for ends in pairs[group].T)
            columns = diffuse(kernel, i - j, [power], trivial=not kernel.trivial_is_constant)[0]
            scale = magnitude(columns)
            columns = columns / scale
            out[group] = scale * np.sqrt(column_products(columns, columns))
        else:
            units = kernel.units(indices, weighted=True)
            columns = diffuse(kernel, units, [power], trivial=not kernel.trivial_is_constant)[0]
            out[group] = column_distances(columns, *where.reshape(-1, 2).T)
    return out


def groups_of_pairs(pairs: IntArray, most: int) -> Iterator[list[int]]:
    """Positions of all pairs in groups, each of which touches at most `most` points, at least 2.

    Pairs are sorted by tiles of the N x N matrix: dense pairs of `most` points form one group.
    """
    points, places = np.unique(np.sort(pairs, axis=1), return_inverse=True)
    if len(points) <= most:
        yield list(range(len(pairs)))
        return
    tiles = places.reshape(-1, 2) // (most // 2)
    group: list[int] = []
    touched: set[int] = set()
    ends = pairs.tolist()
    for position in np.lexsort((tiles[:, 1], tiles[:, 0])).tolist():
        if len(touched) + len(set(ends[position]) - touched) > most:
            yield group
            group, touched = [], set()
        group.append(position)
        touched.update(ends[position])
    yield group


def distances_among(kernel: HeatKernel, points: IntArray, powers: Sequence[Power]) -> list[FloatArray]:
    """Exact diffusion distances between some points at several times, condensed, from one pass over the kernel."""
    units = kernel.units(points, weighted=True)
    blocks = diffuse(kernel, units, powers, trivial=not kernel.trivial_is_constant)
    return [column_distances(block, *np.triu_indices(len(points), 1)) for block in blocks]


def distances_in_sample(
    kernel: HeatKernel, powers: Sequence[Power], n_points: int
) -> tuple[IntArray, list[FloatArray]]:
    """Random points, fewer than `n_points` if their kernel rows take much memory, and what `distances_among` gives."""
    n = kernel.shape[0]
    points = sample(n, min(n_points, max(_FEWEST, ROW_ENTRIES // (n * len(powers)))))
    return points, distances_among(kernel, points, powers)


def check_pairs(pairs: ArrayLike, n_samples: int, *, width: int = 2) -> IntArray:
    """Check indices of pairs (or triples) of samples, shape (m, width)."""
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "iu":
        raise ValueError(
            f"indices of shape {array.shape} and dtype {array.dtype} were given; they must be integers of shape "
            f"(m, {width}), a row for each {'pair' if width == 2 else 'triple'}."
        )
    if array.size and (array.min() < 0 or array.max() >= n_samples):
        raise ValueError(
            f"indices from {array.min()} to {array.max()} were given; with {n_samples} samples they must lie between "
            f"0 and {n_samples - 1}."
        )
    return array.astype(np.int64)


def rows_of_pairs(Y: Any, pairs: ArrayLike) -> FloatArray:
    """The rows of both ends of each pair, as a NumPy array of float64, shape (m, 2, k)."""
    chosen = check_pairs(pairs, len(Y))
    rows: FloatArray = to_numpy(Y[chosen.reshape(-1)]).astype(np.float64)
    return rows.reshape(len(chosen), 2, Y.shape[1])


def distance_interval(
    distances: ArrayLike, n_components: int, level: float = 0.95, *, exact_part: ArrayLike | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Confidence interval of diffusion distances that a Gaussian sketch estimates.

    ``k |y_i - y_j|^2 / d_ij^2`` is chi-square with k degrees of freedom, so the interval is exact for every pair.

    Parameters
    ----------
    distances : array-like
        Distances in the sketched coordinates.
    n_components : int
        k, the number of sketched coordinates.
    level : float in (0, 1)
    exact_part : array-like or float
        Distances in exact coordinates; squares add up.

    Returns
    -------
    low, high : ndarrays
        The distance of each pair lies between them with probability `level`.

    Examples
    --------
    >>> from heatsketch import distance_interval
    >>> low, high = distance_interval(1.0, n_components=32)
    >>> f"{low:.2f} to {high:.2f}"
    '0.80 to 1.32'
    """
    level = check_level(level, "level")
    check_count(n_components, "n_components")
    if not (np.isfinite(distances).all() and np.isfinite(exact_part).all()):
        raise ValueError("distances contain NaN or infinity; they must be finite.")
    squared = np.square(np.asarray(distances, dtype=np.float64)) * n_components
    exact = np.square(np.asarray(exact_part, dtype=np.float64))
    tail = (1.0 - level) / 2.0
    low = np.sqrt(exact + squared / chi2.ppf(1.0 - tail, n_components))
    high = np.sqrt(exact + squared / chi2.ppf(tail, n_components))
    return low, high


def embedded_distances(Y: Any, pairs: ArrayLike | None) -> FloatArray:
    """Distances between rows of `Y`, for given pairs or condensed for all."""
    points = to_numpy(Y).astype(np.float64) if pairs is None else rows_of_pairs(Y, pairs)
    scale = magnitude(points)
    points /= scale
    distances: FloatArray = scale * (
        pdist(points) if pairs is None else np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    )
    return distances


def sketch_interval(
    Y: Any, pairs: ArrayLike | None, level: float, *, n_exact: int, kernel: HeatKernel, power: Power
) -> tuple[FloatArray, FloatArray]:
    """`distance_interval` for rows of ``Y = S^t M``, whose first `n_exact` columns are exact.

    Exact directions may shrink the interval to a point, so it is widened by a bound for rounding errors. A distributed
    Y needs pairs.
    """
    sketched = embedded_distances(Y[:, n_exact:], pairs)
    if not n_exact:
        return distance_interval(sketched, Y.shape[1], level)
    exact = embedded_distances(Y[:, :n_exact], pairs)
    low, high = distance_interval(sketched, Y.shape[1] - n_exact, level, exact_part=exact)
    slack = _rounding(Y, pairs, kernel, power)
    return np.maximum(low - slack, 0.0), high + slack


def exact_interval(kernel: HeatKernel, power: Power, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on the diffusion distances of a few pairs, (m, 2): the exact ones up to rounding errors."""
    points, places = np.unique(pairs, return_inverse=True)
    units = kernel.units(points, weighted=True)
    [columns] = diffuse(kernel, units, [power], trivial=not kernel.trivial_is_constant)
    distances = column_distances(columns, *places.reshape(-1, 2).T)
    slack = _unit_of_rounding(kernel, power) * np.sqrt(column_products(columns, columns))[places.reshape(-1, 2)].max(1)
    return np.maximum(distances - slack, 0.0), distances + slack


def _rounding(Y: Any, pairs: ArrayLike | None, kernel: HeatKernel, power: Power) -> FloatArray:
    """Bound for rounding errors of distances between rows of ``Y = S^t M``.

    Each of t products rounds relative to the rows; polynomials and the scaling of the kernel add their tolerances.
    """
    if pairs is None:
        norms = np.linalg.norm(to_numpy(Y).astype(np.float64), axis=1)
        larger = np.maximum(*(norms[ends] for ends in np.triu_indices(len(norms), 1)))
    else:
        larger = np.linalg.norm(rows_of_pairs(Y, pairs), axis=2).max(axis=1, initial=0.0)
    bound: FloatArray = _unit_of_rounding(kernel, power) * larger
    return bound


def _unit_of_rounding(kernel: HeatKernel, power: Power) -> float:
    """Bound for rounding errors of distances between rows of norm 1."""
    unit = kernel.rounding * max(longest(power), 1.0) + relative_error(power, kernel.dtype)
    return _ROUNDINGS * (unit + (kernel.residual or 0.0))


def components_for(distance_error: float, n_samples: int | None = None, *, confidence: float = 0.95) -> int:
    """Number of components that a Gaussian sketch needs for a wanted relative error of distances.

    Parameters
    ----------
    distance_error : float in [1e-6, 1)
        e: estimates lie between (1 - e) and (1 + e) times the diffusion distance.
    n_samples : int, optional
        If given, all n (n - 1) / 2 distances do so at once (by the union bound); otherwise each single one.
    confidence : float in (0, 1)
        Probability of this.

    Returns
    -------
    n_components : int
        From the chi-square law, not from a Johnson-Lindenstrauss bound: the smallest number that suffices for a
        single distance.

    Examples
    --------
    >>> from heatsketch import components_for
    >>> components_for(0.1)
    192
    >>> components_for(0.1, n_samples=1000)
    1424
    """
    return columns_for(distance_error, np.ones(1), n_samples, confidence=confidence)


def columns_for(
    distance_error: float, shares: FloatArray, n_samples: int | None = None, *, confidence: float = 0.95
) -> int:
    """`components_for` a sketched remainder, at least 1 column.

    `shares` are the shares of the remainder in squared distances, for a sample of pairs, shape (m,); the probability is
    a mean over them.
    """
    e = check_level(distance_error, "distance_error")
    if e < _SMALLEST_ERROR:
        raise ValueError(f"distance_error={e} was given; it must be at least {_SMALLEST_ERROR}.")
    allowed = 1.0 - check_level(confidence, "confidence")
    if n_samples is not None:
        check_count(n_samples, "n_samples", "a whole number of at least 2", least=2)
        allowed /= n_samples * (n_samples - 1) / 2.0
    high = 1
    while _miss(e, high, shares) > allowed:
        high *= 2
    candidates = range(high // 2 + 1, high + 1)  # the largest suffices
    return candidates[bisect_left(candidates, -allowed, key=lambda k: -_miss(e, k, shares))]


def error_of(n_columns: int, shares: FloatArray, *, confidence: float = 0.95) -> float:
    """The error that `n_columns` reach: the inverse of `columns_for`."""
    low, high = 0.0, 1.0
    while high - low > _SMALLEST_ERROR:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _miss(middle, n_columns, shares) > 1.0 - confidence else (low, middle)
    return high


def _miss(e: float, k: int, shares: FloatArray) -> float:
    """Probability that a relative error exceeds e, a mean over pairs with these shares of the remainder."""
    shares = np.maximum(shares, _SMALLEST_ERROR)
    below, above = 1.0 - (1.0 - (1.0 - e) ** 2) / shares, 1.0 + ((1.0 + e) ** 2 - 1.0) / shares
    return float(np.mean(chi2.cdf(k * np.maximum(below, 0.0), k) + chi2.sf(k * above, k)))


def check_level(value: float, name: str) -> float:
    """Require a number strictly between 0 and 1."""
    if not is_number(value) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} was given; it must lie strictly between 0 and 1.")
    return float(value)
