r"""Geodesic distances by the cosines of kernel rows: exact, and estimated from a sketch with intervals.

Let a_i be the i-th row of ``S^t``. In flat space ``<a_i, a_j>``, an entry of ``S^(2t)``, is a Gaussian function of the
distance d, and ``cos(a_i, a_j) = exp(-d^2 / (2 epsilon t))``: the lengths of the rows cancel, and with them the density
of the points. So a single diffusion time gives

    d = sqrt(-2 epsilon t log cos_t),

which tends to the geodesic distance for t to 0 on every manifold, by Varadhan's formula [1]_ (on meshes see [2]_, on
data [3]_). No single time suits all pairs: at early times heat has not reached far points, and at late times near
points cannot be told apart. With ``power="multiscale"`` the times 1, 2, 4, ... take part with the weight ``sqrt(t)``.
Where the cosines are as in flat space

    sum_t sqrt(t) (1 - exp(-d^2 / (2 epsilon t)))  =  (2 sqrt(pi) / log 2) d / sqrt(2 epsilon),

with the sum over all powers of 2 (the error is below 1e-6), so the sum is a length, too. Cosines at times before the
first and after the last are taken as in flat space, ``cos_t = cos_1^(1 / t)`` and ``cos_T^(T / t)``. A cosine near 0 or
1 adds its full weight or nothing, so the noise of a sketch does little harm.

References
----------
.. [1] Varadhan. "On the behavior of the fundamental solution of the heat equation with variable coefficients".
   Communications on Pure and Applied Mathematics 20, 1967.
.. [2] Crane, Weischedel, Wardetzky. "Geodesics in heat". ACM Transactions on Graphics 32, 2013.
.. [3] Huguet, Tong, De Brouwer, Zhang, Wolf, Adelstein, Krishnaswamy. "A heat diffusion perspective on geodesic
   preserving dimensionality reduction". NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import brentq
from scipy.sparse.csgraph import dijkstra
from scipy.special import ndtr
from scipy.stats import chi, chi2

from .._utils.array import array_namespace, astype, to_numpy
from .._utils.chunks import chunks
from .._utils.threads import product, quiet_blas
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel, as_heat_kernel
from ..kernel.options import check_count
from ..linalg.diffusion import RELATIVE_ERROR, diffuse, matrix_power, require_definite, require_range
from ..linalg.filters import MultiscaleFilter, Power, longest
from ..linalg.range_finder import leading_directions
from ..linalg.sketch import GaussianSketch
from ..optimize.features import deflated_columns
from .distances import MOST_COLUMNS, ROW_ENTRIES, check_level, check_pairs, groups_of_pairs
from .power import power_of

__all__ = ["cosine_interval", "geodesic_distances", "geodesics_from", "paths", "sketched_geodesics"]

# Halvings of the first time and doublings of the last; shorter ones are left out (0.002 in the unit of the result), and
# longer ones summed up as a geometric series.
_OCTAVES = 20
# Random columns, of which so many are multiplied at a time, and their seed.
COLUMNS, _SLICE, _SEED = 128, 32, 0x6E0DE51C
# Exact directions, and random columns for the rest, if distances are those from a few points.
_EXACT, _REST = 16, 32
# Up to this many points the directions are eigenvectors; for more, diagonalising takes longer than all the rest.
_DENSE = 1000
# Share of pairs out of reach of a sketch that is worth a warning.
_OUT_OF_REACH = 0.01
# Nodes of the quadrature over a chi law, and artanh of the cosines at which the interval is tabulated.
_NODES = 32
_ARTANH = np.concatenate([np.linspace(0.0, 4.0, 41), [18.0]])
# The largest cosine whose artanh is finite, and a bound for the width of an interval in that scale.
_BELOW_ONE, _REACH = 1.0 - 1e-15, 20.0


@quiet_blas()
def geodesic_distances(A: Any, power: Power | str, pairs: ArrayLike | None = None) -> FloatArray:
    r"""Geodesic distances along the data, from the cosines of kernel rows.

    ``sqrt(-2 epsilon t log cos(a_i, a_j))`` at one time t, with a_i the i-th row of ``A^t``; for ``"multiscale"`` a sum
    over the times 1, 2, 4, ... (:mod:`heatsketch.analysis.geodesics`). In contrast to :func:`diffusion_distances` they
    are proportional to lengths along the data. With one bandwidth they do not depend on the density of the points. With
    local scales, the default, a step of heat is longer where points are sparse, so lengths there come out shorter.

    Parameters
    ----------
    A : HeatKernel, or symmetric non-negative matrix of shape (N, N)
        Row weights of the kernel change nothing, since they cancel in a cosine.
    power : float, {"auto", "multiscale"} or MultiscaleFilter
        t, or the times of the filter of :func:`multiscale`; its weights are not used.
    pairs : array-like of int, shape (m, 2), optional
        All pairs by default, which needs an N x N matrix.

    Returns
    -------
    distances : ndarray of shape (m,)
        Condensed if `pairs` is None, as :func:`scipy.spatial.distance.pdist` returns them. The unit is that of the
        points, up to a factor near 1: epsilon is the bandwidth (the median for local bandwidths). For a precomputed
        affinity epsilon is 1. Infinite for pairs that are not connected, such as those in different components of a
        graph.

    Notes
    -----
    At a single whole time small cosines keep all their digits. Otherwise they are computed by polynomials, to about
    ``1e-10 sqrt(N)``, and count as 0 below that.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> A = hs.heat_kernel(X, bandwidth=0.05)
    >>> d = hs.geodesic_distances(A, power=8)
    >>> bool(3.0 < d.max() < 3.3)  # half a turn, where straight lines have length 2
    True
    """
    kernel = as_heat_kernel(A)
    power = power_of(kernel, power)
    times = _times(power)
    require_range(kernel, times)
    require_definite(kernel, times)
    if pairs is None:
        if not kernel.in_memory:
            raise ValueError(f"all pairs of {kernel.shape[0]} points on a cluster need an N x N matrix; give pairs.")
        return _lengths(_all_cosines(kernel, times), kernel, power)
    chosen = check_pairs(pairs, kernel.shape[0])
    distances = _lengths(_pair_cosines(kernel, times, chosen), kernel, power)
    return _checked(distances, chosen, _apart(kernel, chosen))


def sketched_geodesics(
    kernel: HeatKernel,
    power: Power,
    pairs: ArrayLike | None = None,
    level: float | None = None,
    *,
    n_columns: int = COLUMNS,
    seed: int = _SEED,
) -> Any:
    """Geodesic distances estimated from a random sketch, and intervals at a level on request.

    The rows of ``S^t G``, with Gaussian columns G, are normal with covariances ``<a_i, a_j>``. Their cosine is the
    correlation coefficient of a bivariate normal sample, so its law is known (`cosine_interval`).

    Parameters
    ----------
    kernel : HeatKernel
    power : float or MultiscaleFilter
    pairs : array-like of int, shape (m, 2), optional
        All pairs by default.
    level : float in (0, 1), optional
        Of the intervals. Exact for one time; with several, each cosine has an interval at the level
        ``1 - (1 - level) / n_times`` and the length that follows has at least the level that was asked for.
    n_columns : int
        k.
    seed : int

    Returns
    -------
    distances : ndarray of shape (m,)
        At a single time infinite where the estimated cosine is not positive. With the multiscale filter, cosines at the
        last time that are below ``1 / sqrt(k)``, which a sketch cannot tell from 0, count as that much.
    low, high : ndarrays of shape (m,)
        If `level` is given. `high` is infinite where a cosine of zero cannot be excluded.

    Warns
    -----
    UserWarning
        If the multiscale filter ends before heat has reached many of the pairs.
    """
    n, times = kernel.shape[0], _times(power)
    if pairs is None and not kernel.in_memory:
        raise ValueError(f"all pairs of {n} points on a cluster need their sketches in memory; give pairs.")
    ends = np.column_stack(np.triu_indices(n, 1)) if pairs is None else check_pairs(pairs, n)
    points, places = np.unique(ends, return_inverse=True)
    among = None if pairs is None else places.reshape(-1, 2)
    cosines = [_row_cosines(rows, among) for rows in _sketched_rows(kernel, times, points, n_columns, seed)]
    apart = _apart(kernel, ends)
    least = 0.0
    if isinstance(power, MultiscaleFilter):
        least = n_columns**-0.5
        share = float(np.mean((cosines[-1] < least) & ~apart))
        if share > _OUT_OF_REACH:
            warn(
                f"heat has not reached {share:.0%} of the pairs in {times[-1]:g} steps: their distances are lower "
                "bounds. For larger distances, use heatsketch.geodesic_distances(model.kernel_, model.power_, pairs), "
                "or fit to a sample of the points."
            )

    def lengths(found: Iterable[FloatArray], least: float = 0.0) -> FloatArray:
        return _checked(_lengths(found, kernel, power, least), ends, apart)

    distances = lengths(cosines, least)
    if level is None:
        return distances
    each = 1.0 - (1.0 - check_level(level, "level")) / len(times)
    bounds = [cosine_interval(some, n_columns, each) for some in cosines]
    # A larger cosine is a shorter distance.
    return distances, lengths((high for _, high in bounds), least), lengths(low for low, _ in bounds)


def geodesics_from(
    kernel: HeatKernel,
    power: Power,
    sources: IntArray,
    level: float | None = None,
    *,
    n_exact: int = _EXACT,
    n_columns: int = _REST,
    seed: int = _SEED,
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    r"""Geodesic distances from a few points to all, with far smaller errors than those of `sketched_geodesics`.

    The products ``<a_r, a_i>`` with a source r are exact: they are a column of ``S^(2t)``. Only the part of a_i that is
    perpendicular to a_r is unknown, ``b_i = a_i - beta a_r`` with ``beta = <a_r, a_i> / |a_r|^2``, and the cosine
    follows from the tangent ``|b_i| / (beta |a_r|)``. Along orthonormal leading directions Q the rows are exact, too.
    The rest is sketched with k Gaussian columns G, and its squared length is that of ``b_i (I - Q Q^T)`` times
    ``chi^2_k / k``. This law gives the interval. Q carries nearly all of late rows, so intervals are narrow; they are
    widened by the error of the polynomials.

    Parameters
    ----------
    kernel : HeatKernel
    power : float or MultiscaleFilter
    sources : ndarray of int, shape (s,)
    level : float in (0, 1), optional
        Of the intervals, as for `sketched_geodesics`.
    n_exact : int
        Leading directions.
    n_columns : int
        k.
    seed : int

    Returns
    -------
    distances : ndarray of shape (s, N)
        With the multiscale filter finite everywhere; where the exact cosine at the last time is below its error, a
        lower bound. Meaningless between components of a graph.
    low, high : ndarrays of shape (s, N), or None without `level`
    """
    times = _times(power)
    require_range(kernel, times)
    require_definite(kernel, times)
    stepwise = len(times) == 1 and times[0].is_integer()
    units, doubled = kernel.units(sources), [2.0 * t for t in times]
    if stepwise:
        blocks = diffuse(_not_split(kernel), units, doubled, method="steps")
    else:
        blocks = diffuse(kernel, units, doubled)
    every = np.arange(kernel.shape[0])  # rows of a block on a cluster, in the order of the data
    products = [np.maximum(to_numpy(block[every]).astype(np.float64).T, 0.0) for block in blocks]  # each [s, N]
    Q = _leading(kernel, power, n_exact)
    exact, rest = _squared_tangents(kernel, Q, n_columns, seed, times=times, sources=sources, products=products)
    error = 2.0 * RELATIVE_ERROR[kernel.dtype] * np.sqrt(kernel.shape[0])
    share = float(np.mean(exact[-1] + rest[-1] > 1.0 / error**2))  # of cosines that are 0 but for rounding
    if share > _OUT_OF_REACH and isinstance(power, MultiscaleFilter) and kernel.components() is None:
        warn(
            f"heat has not reached {share:.0%} of the points in {times[-1]:g} steps: their distances are lower bounds. "
            f"{kernel.remedy(wider=True)}. If groups are separate, a kernel of neighbours in memory detects the gaps."
        )

    def lengths(factor: float, sign: int, least: float) -> FloatArray:
        cosines = (1.0 / np.sqrt(1.0 + known + factor * other) for known, other in zip(exact, rest, strict=True))
        widened = (some + sign * error * (some if stepwise else 1.0) for some in cosines)
        d = _lengths((_resolved(some, kernel, exact=stepwise) for some in widened), kernel, power, least)
        d[np.arange(len(sources)), sources] = 0.0
        return d

    if level is None:
        return lengths(1.0, 0, error), None, None
    tail = (1.0 - check_level(level, "level")) / len(times) / 2.0
    low, high = (n_columns / chi2.ppf(q, n_columns) for q in (1.0 - tail, tail))
    # A larger cosine is a shorter distance.
    return lengths(1.0, 0, error), lengths(low, 1, error), lengths(high, -1, 0.0)


def _squared_tangents(
    kernel: HeatKernel,
    Q: Any,
    n_columns: int,
    seed: int,
    *,
    times: list[float],
    sources: IntArray,
    products: list[FloatArray],
) -> FloatArray:
    """``|a_i - beta a_r|^2 / (beta |a_r|)^2`` along Q, and an estimate of the rest, by time: (2, n_times, s, N)."""
    at, every, r = (np.arange(len(sources)), sources), np.arange(kernel.shape[0]), Q.shape[1]
    M = deflated_columns(kernel, Q, n_columns, seed)
    found = np.empty((2, len(products), *products[0].shape))
    for number, V in enumerate(diffuse(kernel, M, times)):
        rows, inner = to_numpy(V[every]).astype(np.float64), products[number]
        size = inner[at][:, None]
        for n, source in enumerate(sources):
            for some in chunks(len(rows), rows.shape[1]):
                apart = np.square(rows[some] - (inner[n, some] / size[n])[:, None] * rows[source])
                found[:, number, n, some] = apart[:, :r].sum(axis=1), apart[:, r:].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[:, number] = np.where(inner > 0.0, found[:, number] * size / np.square(inner), np.inf)
    return found


def _leading(kernel: HeatKernel, power: Power, n_exact: int) -> Any:
    """Orthonormal directions that carry most of late rows: the trivial mode, if known, and leading ones, (N, r)."""
    Q = kernel.asblock(leading_directions(kernel, min(n_exact, kernel.shape[0] - 1), power, most_dense=_DENSE))
    if kernel.trivial is None:
        return Q
    return array_namespace(Q).concat([kernel.asblock(kernel.trivial[:, None]), Q], axis=1)


@dataclass(frozen=True)
class Paths:
    """A graph whose edges have lengths, (n, n), and the vertex of each point, (N,)."""

    lengths: Any
    places: IntArray

    def __call__(self, sources: IntArray, level: Any = None) -> tuple[FloatArray, None, None]:  # noqa: ARG002
        """Lengths of shortest paths from a few points to all, (s, N); infinite between components."""
        return dijkstra(self.lengths, directed=False, indices=self.places[sources])[:, self.places], None, None


def paths(kernel: HeatKernel, power: Power, *, exact: bool = False) -> Paths:
    """The neighbour graph of a kernel with geodesic distances as lengths of its edges.

    Geodesic distances flatten where heat has met the ends of the data, and are most accurate between neighbours. Sums
    along a path do not flatten. Lengths are exact, or come from `_EXACT` exact directions and `_REST` random columns.
    """
    graph = kernel.graph()
    if graph is None:
        raise ValueError(
            "paths run along the edges of a neighbour graph in memory, which this kernel does not have; give "
            "n_neighbors, or use kind='geodesic'."
        )
    upper = sparse.triu(graph.S, 1).tocoo()
    distinct = np.unique(graph.places, return_index=True)[1]
    pairs = np.column_stack([distinct[upper.row], distinct[upper.col]])
    d = geodesic_distances(kernel, power, pairs) if exact else _edge_lengths(kernel, power, pairs)
    # SciPy takes a length of 0 for a missing edge.
    d = np.maximum(d, np.finfo(np.float64).tiny)
    ends = upper.row.astype(np.int32), upper.col.astype(np.int32)  # as SciPy's shortest paths take them
    return Paths(sparse.csr_array((d, ends), shape=graph.S.shape), graph.places)


def _edge_lengths(kernel: HeatKernel, power: Power, pairs: IntArray) -> FloatArray:
    """Geodesic distances of neighbours from a sketch, (m,)."""
    times = _times(power)
    require_range(kernel, times)
    require_definite(kernel, times)
    M = deflated_columns(kernel, _leading(kernel, power, _EXACT), _REST, _SEED)
    cosines = []
    for V in diffuse(kernel, M, times):
        rows = to_numpy(V).astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        cosine = np.empty(len(pairs))
        for some in chunks(len(pairs), rows.shape[1]):
            cosine[some] = 1.0 - np.square(rows[pairs[some, 0]] - rows[pairs[some, 1]]).sum(axis=1) / 2.0
        cosines.append(cosine)
    return _lengths(cosines, kernel, power, 2.0 * RELATIVE_ERROR[kernel.dtype] * np.sqrt(kernel.shape[0]))


def _sketched_rows(
    kernel: HeatKernel, times: list[float], points: IntArray, n_columns: int, seed: int
) -> list[FloatArray]:
    """Rows of ``S^t G`` for some points, (p, k), at each time, from a few columns of G at a time."""
    parts: list[list[FloatArray]] = [[] for _ in times]
    for first in range(0, n_columns, _SLICE):
        G = kernel.sketched(GaussianSketch(seed), min(_SLICE, n_columns - first), first_column=first)
        for part, V in zip(parts, diffuse(kernel, G, times), strict=True):
            part.append(to_numpy(V[points]).astype(np.float64))
    return [np.concatenate(part, axis=1) for part in parts]


def cosine_interval(cosines: ArrayLike, n_columns: int, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Confidence interval of the cosine of two kernel rows from that of their sketches with k Gaussian columns.

    The sketches are k draws of a bivariate normal law with mean 0 and correlation rho. By Bartlett's decomposition of
    the Wishart law their sample correlation r satisfies

        r / sqrt(1 - r^2)  =  (rho / sqrt(1 - rho^2) X + Z) / Y

    with independent X ~ chi_k, Y ~ chi_(k-1) and normal Z [1]_. The interval holds those rho for which r lies between
    the two quantiles. Cosines of rows of a heat kernel are not negative; nor is the interval.

    Parameters
    ----------
    cosines : array-like
        r.
    n_columns : int
        k; a single column says nothing.
    level : float in (0, 1)

    Returns
    -------
    low, high : ndarrays
        The cosine of each pair lies between them with probability `level`.

    References
    ----------
    .. [1] Muirhead. "Aspects of Multivariate Statistical Theory", section 5.1. Wiley, 1982.
    """
    k, level = check_count(n_columns, "n_columns"), check_level(level, "level")
    r = np.arctanh(np.clip(np.asarray(cosines, dtype=np.float64), -_BELOW_ONE, _BELOW_ONE))
    if k == 1:
        return np.zeros_like(r), np.ones_like(r)
    below, above = _quantiles(k, level)
    return np.tanh(np.interp(r, above, _ARTANH)), np.tanh(np.interp(r, below, _ARTANH))


@lru_cache(maxsize=16)
def _quantiles(k: int, level: float) -> tuple[list[float], list[float]]:
    """Lower and upper quantiles of artanh r where artanh rho is each of `_ARTANH`."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    X, Y = (chi.ppf((nodes + 1.0) / 2.0, degrees) for degrees in (k, k - 1))
    W = np.outer(weights, weights) / 4.0

    def excess(q: float, z: float, probability: float) -> float:
        return float((W * ndtr(np.sinh(q) * Y[:, None] - np.sinh(z) * X)).sum()) - probability

    tail = (1.0 - level) / 2.0
    below, above = (
        [float(brentq(excess, z - _REACH, z + _REACH, args=(z, p))) for z in _ARTANH] for p in (tail, 1.0 - tail)
    )
    return below, above


def _times(power: Power) -> list[float]:
    """The diffusion times whose cosines are needed: t, or 1, 2, 4, ... up to the last one of a filter."""
    if isinstance(power, MultiscaleFilter):
        return [2.0**n for n in range(int(np.log2(longest(power))) + 1)]
    return [float(power)]


def _lengths(cosines: Iterable[FloatArray], kernel: HeatKernel, power: Power, least: float = 0.0) -> FloatArray:
    """Lengths from the cosines at `_times`, of which the last counts as `least` at least; infinite where it is 0."""
    affinity = kernel.affinity
    unit = np.sqrt(2.0 * affinity.typical_epsilon) if isinstance(affinity, GaussianAffinity) else np.sqrt(2.0)
    total: Any = 0.0
    for t, some in zip(_times(power), cosines, strict=True):
        cosine = np.clip(some, 0.0, 1.0)
        if not isinstance(power, MultiscaleFilter):
            with np.errstate(divide="ignore"):
                return np.asarray(unit * np.sqrt(t * np.abs(np.log(cosine))))
        total = total + np.sqrt(t) * (1.0 - cosine)
        if t == 1.0:
            shorter = cosine
            for m in range(1, _OCTAVES + 1):
                shorter = np.square(shorter)
                total += (1.0 - shorter) / 2.0 ** (m / 2.0)
    longer = np.maximum(cosine, least)
    for m in range(1, _OCTAVES + 1):
        longer = np.sqrt(longer)
        total += np.sqrt(t) * 2.0 ** (m / 2.0) * (1.0 - longer)
    with np.errstate(divide="ignore"):
        total += np.sqrt(t) * 2.0 ** (_OCTAVES / 2.0) * np.abs(np.log(longer)) / (np.sqrt(2.0) - 1.0)
    return np.asarray(unit * np.log(2.0) / (2.0 * np.sqrt(np.pi)) * total)


def _apart(kernel: HeatKernel, pairs: IntArray) -> IntArray:
    """Whether pairs lie in different components of a graph, (m,)."""
    part = kernel.components()
    return np.zeros(len(pairs), dtype=bool) if part is None else part[pairs[:, 0]] != part[pairs[:, 1]]


def _checked(distances: FloatArray, pairs: IntArray, apart: IntArray) -> FloatArray:
    """Distances of pairs, (m,), with infinity between components of a graph and 0 from a point to itself."""
    distances[apart] = np.inf
    distances[pairs[:, 0] == pairs[:, 1]] = 0.0
    return distances


def _all_cosines(kernel: HeatKernel, times: list[float]) -> Iterator[FloatArray]:
    """Cosines of all pairs of rows of ``S^t``, condensed; each time is twice the one before."""
    whole = times[0].is_integer()
    C = matrix_power(_not_split(kernel) if whole else kernel, 2.0 * times[0])
    upper = np.triu_indices(len(C), 1)
    for n, _ in enumerate(times):
        C = product(C, C) if n else C
        yield _resolved(_cosines(C)[upper], kernel, exact=whole)


def _pair_cosines(kernel: HeatKernel, times: list[float], pairs: IntArray) -> list[FloatArray]:
    """Cosines of pairs of rows of ``S^t``, by the kernel rows of their points."""
    found: list[FloatArray] = [np.empty(len(pairs)) for _ in times]
    stepwise = len(times) == 1 and times[0].is_integer()
    most = ROW_ENTRIES // (kernel.shape[0] * len(times)) if kernel.in_memory else MOST_COLUMNS
    for group in groups_of_pairs(pairs, max(2, most)):
        points, where = np.unique(pairs[group], return_inverse=True)
        i, j = where.reshape(-1, 2).T
        units = kernel.units(points)
        if stepwise:
            blocks = diffuse(_not_split(kernel), units, times, method="steps")
        else:
            blocks = diffuse(kernel, units, times)
        for cosines, V in zip(found, blocks, strict=True):
            rows = astype(V, np.float64)
            cosines[group] = _resolved(_cosines(to_numpy(rows.T @ rows))[i, j], kernel, exact=stepwise)
    return found


def _resolved(cosines: FloatArray, kernel: HeatKernel, *, exact: bool) -> FloatArray:
    """Cosines with 0 for those below the error of a polynomial, unless they are exact."""
    floor = 0.0 if exact else 2.0 * RELATIVE_ERROR[kernel.dtype] * np.sqrt(kernel.shape[0])
    return np.where(cosines > floor, cosines, 0.0)


def _not_split(kernel: HeatKernel) -> HeatKernel:
    """The same matrix without its trivial mode split off: sums of non-negative terms keep all digits, however small."""
    return HeatKernel(kernel.symmetric)


def _cosines(C: FloatArray) -> FloatArray:
    """Cosines from inner products, (n, n); 0 for vectors of length 0."""
    lengths = np.sqrt(np.diag(C))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    cosines: FloatArray = inverse[:, None] * C * inverse
    return cosines


def _row_cosines(rows: FloatArray, pairs: IntArray | None) -> FloatArray:
    """Cosines of rows, for given pairs or condensed for all; 0 for rows of length 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    if pairs is None:
        return product(rows, rows.T)[np.triu_indices(len(rows), 1)]
    found = np.empty(len(pairs))
    for some in chunks(len(pairs), rows.shape[1]):
        found[some] = np.einsum("ij,ij->i", *(rows[ends] for ends in pairs[some].T))
    return found
