"""Diffusion distances: exact, and estimated with intervals."""

from __future__ import annotations

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
from ..linalg.diffusion import RELATIVE_ERROR, check_power, diffuse, matrix_power, require_definite, require_range
from ..linalg.eigen import eigenpairs
from ..linalg.metrics import column_distances, magnitude, squared_distances
from ..linalg.rounding import rounding_level
from .processes import canonical_metric, check_pairs, rows_of_pairs

__all__ = [
    "check_level",
    "columns_for",
    "components_for",
    "diffusion_distances",
    "distance_interval",
    "distances_among",
    "embedded_distances",
    "error_of",
    "sketch_interval",
]

# Entries of kernel rows held at a time: 256 MB in float64.
_ROW_ENTRIES = 1 << 25
# Columns of a kernel on a cluster that are diffused at a time, for as many points.
_MOST_COLUMNS = 256
_SMALLEST_ERROR = 1e-6
# Units of rounding that a distance may be off by; four times what was seen on tori of 20 and 500 points.
_ROUNDINGS = 4.0


@quiet_blas()
def diffusion_distances(A: Any, power: float, pairs: ArrayLike | None = None, *, form: str = "rows") -> FloatArray:
    r"""Exact diffusion distances at time t.

    The paper's three forms are the same number::

        D(i, j)^2 = |a_i - a_j|^2                         rows of A^t
                  = sum_l lambda_l^(2t) (v_l(i) - v_l(j))^2    spectrum of A
                  = C_ii + C_jj - 2 C_ij                  canonical metric of the process with covariance C = A^(2t)

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
        For a kernel with row weights the rows are those of ``diag(w) S^t``; for a Markov kernel this is the distance
        of Coifman and Lafon.
    power : float
        t.
    pairs : array-like of int, shape (m, 2), optional
        All pairs when left out.
    form : {"rows", "spectrum", "covariance"}
        "rows" is the most accurate for close points and the only one that needs no N x N matrix when `pairs` are
        given.

    Returns
    -------
    distances : ndarray of shape (m,)
        When `pairs` is None condensed, as :func:`scipy.spatial.distance.pdist` returns them.

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(100, random_state=0), bandwidth=0.25)
    >>> hs.diffusion_distances(A, power=8).shape
    (4950,)
    >>> hs.diffusion_distances(A, power=8, pairs=[[0, 1], [0, 2]]).shape
    (2,)
    """
    check_power(power)
    kernel = as_heat_kernel(A)
    n = kernel.shape[0]
    if form not in ("rows", "spectrum", "covariance"):
        raise ValueError(f"form={form!r} is not known; use 'rows', 'spectrum' or 'covariance'.")
    require_range(kernel, [power])
    require_definite(kernel, [power])
    if pairs is not None:
        pairs = check_pairs(pairs, n)
    if not kernel.in_memory and (pairs is None or form != "rows"):
        raise ValueError(
            f"diffusion distances of {'all' if pairs is None else 'some'} pairs of {n} points on a cluster were asked "
            f"for with form={form!r}, which takes a matrix of all pairs; give pairs, and leave form at 'rows'."
        )
    if form == "rows" and pairs is not None:
        return _pair_distances(kernel, power, pairs)
    if form == "rows":
        rows = kernel.weigh_rows(matrix_power(kernel, power, trivial=not kernel.trivial_is_constant))
        condensed = _condensed(rows)
    elif form == "spectrum":
        condensed = _condensed(_spectral_coordinates(kernel, power))
    else:
        C = matrix_power(kernel, 2.0 * power, trivial=not kernel.trivial_is_constant)
        if kernel.row_weight is not None:
            C = np.outer(kernel.row_weight, kernel.row_weight) * C
        condensed = canonical_metric(C)
    if pairs is not None:
        condensed = squareform(condensed, checks=False)[pairs[:, 0], pairs[:, 1]]
    return condensed


def _condensed(points: FloatArray) -> FloatArray:
    scale = magnitude(points)
    distances: FloatArray = scale * squareform(np.sqrt(squared_distances(points / scale)), checks=False)
    return distances


def _pair_distances(kernel: Any, power: float, pairs: Any) -> FloatArray:
    out = np.empty(len(pairs))
    most = max(2, _ROW_ENTRIES // kernel.shape[0]) if kernel.in_memory else _MOST_COLUMNS
    for some in _pairs_of_few(pairs, most):
        indices, where = np.unique(pairs[some], return_inverse=True)
        units = kernel.units(indices, weighted=True)
        columns = diffuse(kernel, units, [power], trivial=not kernel.trivial_is_constant)[0]
        out[some] = column_distances(columns, *where.reshape(-1, 2).T)
    return out


def _pairs_of_few(pairs: IntArray, most: int) -> Iterator[IntArray]:
    """Numbers of all pairs in groups, each of which touches at most so many points, at least 2.

    Pairs are taken tile by tile of the matrix that they are entries of: where they are dense, a group of pairs of
    `most` points has about the square of as many; where they are sparse, tiles are joined.
    """
    places = np.unique(np.sort(pairs, axis=1), return_inverse=True)[1].reshape(-1, 2) // (most // 2)
    order = np.lexsort((places[:, 1], places[:, 0]))
    while len(order):
        count = _first_of_few(pairs, order, most)
        yield order[:count]
        order = order[count:]


def _first_of_few(pairs: IntArray, order: IntArray, most: int) -> int:
    """How many pairs, taken in this order, touch at most so many points."""
    size = most
    while True:
        first = np.sort(np.unique(pairs[order[:size]], return_index=True)[1])  # where each point turns up
        if len(first) > most:
            return int(first[most]) // 2
        if size >= len(order):
            return len(order)
        size *= 2


def _spectral_coordinates(kernel: Any, power: float) -> FloatArray:
    """All of diffusion maps: lambda^t v, with the trivial coordinate where it matters, (N, N)."""
    n = kernel.shape[0]
    found = eigenpairs(kernel, n if kernel.trivial is None else n - 1)
    coordinates = found.coordinates(power, rounding_level(kernel))
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        coordinates = np.column_stack([kernel.trivial, coordinates])
    weighed: FloatArray = kernel.weigh_rows(coordinates)
    return weighed


def distances_among(kernel: HeatKernel, points: IntArray, powers: Sequence[float]) -> list[FloatArray]:
    """Exact diffusion distances between some points, condensed, at each of several times, all from one pass.

    Parameters
    ----------
    kernel : HeatKernel
    points : ndarray of int, shape (m,)
    powers : sequence of float

    Returns
    -------
    distances : list of ndarray of shape (m (m - 1) / 2,)
    """
    units = kernel.units(points, weighted=True)
    blocks = diffuse(kernel, units, powers, trivial=not kernel.trivial_is_constant)
    return [column_distances(block, *np.triu_indices(len(points), 1)) for block in blocks]


def distance_interval(
    distances: ArrayLike, n_components: int, level: float = 0.95, *, exact_part: ArrayLike | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Confidence interval for diffusion distances that were estimated by a Gaussian sketch.

    ``k |y_i - y_j|^2 / d_ij^2`` is chi-square with k degrees of freedom, so the interval is exact for every pair,
    whatever the spectrum.

    Parameters
    ----------
    distances : array-like
        Distances in the sketched coordinates.
    n_components : int
        k, the number of sketched coordinates.
    level : float in (0, 1)
    exact_part : array-like or float
        Distances in coordinates that are known exactly; added in squares.

    Returns
    -------
    low, high : ndarrays
        Each pair's distance lies between them with probability `level`.

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
        raise ValueError("distances contain NaN or infinity; an interval needs finite ones.")
    squared = np.square(np.asarray(distances, dtype=np.float64)) * n_components
    exact = np.square(np.asarray(exact_part, dtype=np.float64))
    tail = (1.0 - level) / 2.0
    low = np.sqrt(exact + squared / chi2.ppf(1.0 - tail, n_components))
    high = np.sqrt(exact + squared / chi2.ppf(tail, n_components))
    return low, high


def embedded_distances(Y: Any, pairs: ArrayLike | None) -> FloatArray:
    """Distances between rows of `Y`: condensed for all pairs, or for the given ones."""
    points = to_numpy(Y).astype(np.float64) if pairs is None else rows_of_pairs(Y, pairs)
    scale = magnitude(points)
    points /= scale
    distances: FloatArray = scale * (
        pdist(points) if pairs is None else np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    )
    return distances


def sketch_interval(
    Y: Any, pairs: ArrayLike | None, level: float, *, n_exact: int, kernel: HeatKernel, power: float
) -> tuple[FloatArray, FloatArray]:
    """`distance_interval` for rows of ``Y = S^t M``: exact directions first, then a Gaussian sketch of the remainder.

    Beside exact directions the interval may shrink to a point; it is no narrower than rounding.

    Parameters
    ----------
    Y : array of shape (N, k); a distributed one only if pairs are given
    pairs : array-like of int, shape (m, 2), or None for all
    level : float
    n_exact : int
        Exact columns.
    kernel : HeatKernel
    power : float

    Returns
    -------
    low, high : ndarrays of shape (m,)
    """
    sketched = embedded_distances(Y[:, n_exact:], pairs)
    if not n_exact:
        return distance_interval(sketched, Y.shape[1], level)
    exact = embedded_distances(Y[:, :n_exact], pairs)
    low, high = distance_interval(sketched, Y.shape[1] - n_exact, level, exact_part=exact)
    slack = _rounding(Y, pairs, kernel, power)
    return np.maximum(low - slack, 0.0), high + slack


def _rounding(Y: Any, pairs: ArrayLike | None, kernel: HeatKernel, power: float) -> FloatArray:
    """Bound for the rounding of distances between rows of ``Y = S^t M``, of the shape of the distances.

    A product rounds in units of the rows it makes, t products t times; polynomials and the scaling of the kernel have
    tolerances of their own. Where a distance is exact but for these, an interval must not be narrower.
    """
    if pairs is None:
        norms = np.linalg.norm(to_numpy(Y).astype(np.float64), axis=1)
        larger = np.maximum(*(norms[ends] for ends in np.triu_indices(len(norms), 1)))
    else:
        larger = np.linalg.norm(rows_of_pairs(Y, pairs), axis=2).max(axis=1, initial=0.0)
    unit = float(np.finfo(kernel.dtype).eps) * max(power, 1.0) + RELATIVE_ERROR[kernel.dtype]
    unit += kernel.residual or 0.0
    bound: FloatArray = _ROUNDINGS * unit * larger
    return bound


def components_for(distance_error: float, n_samples: int | None = None, *, confidence: float = 0.95) -> int:
    """How many components a Gaussian sketch needs for a wanted relative error of distances.

    Parameters
    ----------
    distance_error : float in [1e-6, 1)
        e: estimates shall lie between (1 - e) and (1 + e) times the diffusion distance.
    n_samples : int, optional
        When given, all n (n - 1) / 2 distances shall do so at once (by the union bound); otherwise each single one.
    confidence : float in (0, 1)
        With at least this probability.

    Returns
    -------
    n_components : int
        From the chi-square law, not from a Johnson-Lindenstrauss bound: the smallest number that suffices, except
        that the union bound is not sharp.

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
    """`components_for` where only a share of each squared distance is sketched, and the rest is exact.

    Parameters
    ----------
    distance_error, n_samples, confidence
        As for `components_for`.
    shares : ndarray of shape (m,)
        Shares of the remainder in squared distances, of a sample of pairs; the probability is a mean over them.

    Returns
    -------
    n_columns : int
        Random columns for the remainder, at least 1.
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
    low = high // 2  # does not suffice, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _miss(e, middle, shares) > allowed else (low, middle)
    return high


def error_of(n_columns: int, shares: FloatArray, n_samples: int | None = None, *, confidence: float = 0.95) -> float:
    """The error that so many columns reach: the least `distance_error` for which `columns_for` asks for no more."""
    allowed = (1.0 - confidence) / (1.0 if n_samples is None else n_samples * (n_samples - 1) / 2.0)
    low, high = 0.0, 1.0
    while high - low > _SMALLEST_ERROR:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _miss(middle, n_columns, shares) > allowed else (low, middle)
    return high


def _miss(e: float, k: int, shares: FloatArray) -> float:
    """Probability that a distance is off by more than e, a mean over pairs with these shares of the remainder."""
    # It is where the mean of k squared normals is off by this much.
    shares = np.maximum(shares, _SMALLEST_ERROR)
    below, above = 1.0 - (1.0 - (1.0 - e) ** 2) / shares, 1.0 + ((1.0 + e) ** 2 - 1.0) / shares
    return float(np.mean(chi2.cdf(k * np.maximum(below, 0.0), k) + chi2.sf(k * above, k)))


def check_level(value: float, name: str) -> float:
    """Refuse what is not a number strictly between 0 and 1."""
    if not is_number(value) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} was given; it must lie strictly between 0 and 1.")
    return float(value)
