r"""Pseudotime: the distance from a root along the data, with intervals, finite on every component.

The time of a point is its geodesic or diffusion distance from the nearest root, divided by the largest one. Heat does
not cross between components of a neighbour graph, so distances to other components are infinite. Where the points have
coordinates, a component without a root is entered by the shortest edge from the part that has been reached, as in a
minimum spanning tree of the components. Crossing takes as much time per length as a step between neighbours of the two
ends (`docs/theory/pseudotime.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.display import Shown
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel, as_heat_kernel
from ..kernel.options import check_choice
from ..linalg.filters import Power
from ..linalg.metrics import Metric, squared_distances
from ..neighbors.neighborhoods import distinct
from ..neighbors.search import make_index
from .distances import check_level, diffusion_distances, embedded_distances
from .geodesics import geodesic_distances, paths
from .power import power_of
from .reference_sketch import ReferenceSketch

__all__ = ["KINDS", "Pseudotime", "kind_of", "pseudotime", "sketched_diffusion", "time_from_roots"]

KINDS = ("auto", "path", "geodesic", "diffusion")
# Distances of all points from a few, (s, N), and the ends of their intervals if a level was given.
Measured: TypeAlias = "tuple[FloatArray, FloatArray | None, FloatArray | None]"
Measure: TypeAlias = Callable[[IntArray, Any], Measured]
# Up to this many points exact distances come from the N x N matrix, which is quicker than N columns.
_DENSE = 5000
# Neighbours of each end of a gap, whose steps say how much time a length takes.
_STEPS = 10
# Tips of branches in a component at most.
_TIPS = 32


@dataclass(frozen=True, repr=False)
class Pseudotime(Shown):
    """The time of each point, from 0 at a root to 1.

    Attributes
    ----------
    time : ndarray of shape (N,)
        NaN for points that cannot be reached from a root, in other components of a graph without coordinates. Infinite
        where a single diffusion time is too short.
    low, high : ndarrays of shape (N,), or None
        Ends of the intervals of the distance from the root, in the unit of `time`, if they were asked for. `high` is
        infinite where a sketch cannot exclude it; both are NaN beyond a gap.
    root : ndarray of int, shape (N,)
        The nearest root; -1 where there is none.
    gaps : ndarray of int, shape (N,)
        How many gaps between components were crossed on the way; 0 in components with a root.
    unit : float
        The distance that was scaled to 1.
    kind : {"geodesic", "path", "diffusion"}
    level : float or None
        Of the intervals.
    part : ndarray of int, shape (N,)
        Connected component of each point.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> t = np.linspace(0, 1, 50)[:, None]
    >>> X = np.vstack([t * [-1, 0], t[1:] * [1, 1], t[1:] * [1, -1]])  # three arms from the origin
    >>> found = hs.pseudotime(hs.heat_kernel(X), roots=49)  # the end of the first
    >>> found.time[[49, 98, 147]].round(2)  # at the three ends
    array([0., 1., 1.])
    >>> np.bincount(found.branches())
    array([50, 49, 49])
    """

    time: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    root: IntArray
    gaps: IntArray
    unit: float
    kind: str
    level: float | None
    part: IntArray
    _measure: Measure = field(repr=False)

    def __str__(self) -> str:
        n, crossed = len(self.time), int((self.gaps > 0).sum())
        beyond = f", {crossed} of them across gaps" if crossed else ""
        return f"{self.kind} time of {n} points{beyond}; 1 is a distance of {self.unit:.3g}."

    def branches(self, min_length: float = 0.2) -> IntArray:
        """Group the points into branches: points of one branch lie on the paths from the root to the same tips.

        The paths from the root to x and e run together until the time ``(time(x) + time(e) - d(x, e)) / 2``, the Gromov
        product. The first tip is the point with the largest time. Each further tip is the point whose path is separate
        from the paths to all earlier tips for the longest time, as long as that is at least `min_length`. A branch
        consists of the points at which the paths to the same tips still run together. Distances from each tip are
        measured in the same way as those from the root.

        Parameters
        ----------
        min_length : float in (0, 1)
            Length of the shortest branch, in units of `time`. Shorter ones cannot be told from noise.

        Returns
        -------
        branch : ndarray of int, shape (N,)
            Numbered by their earliest points; components of a graph have no branch in common.
        """
        check_level(min_length, "min_length")
        if self.kind == "diffusion":
            raise ValueError(
                "branches were asked for with kind='diffusion', whose times do not add up along a path; use "
                "kind='geodesic' or 'path'."
            )
        branch = np.empty(len(self.time), dtype=np.int64)
        first = 0
        for number in np.unique(self.part):
            here = np.flatnonzero(self.part == number)
            found = self._branches_in(here, min_length)
            branch[here], first = first + found, first + found.max() + 1
        start = np.full(first, np.inf)
        np.minimum.at(start, branch, np.nan_to_num(self.time, nan=np.inf))
        return np.argsort(np.argsort(start, kind="stable"))[branch]

    def _branches_in(self, here: IntArray, min_length: float) -> IntArray:
        """Branches of one component, by the points of it."""
        time = self.time[here] - self.time[here].min()
        if not (np.isfinite(time).all() and np.ptp(time) >= min_length):
            return np.zeros(len(here), dtype=np.int64)
        tips: list[int] = []
        agreed = np.empty((0, len(here)))  # [tips, n]
        while len(tips) < _TIPS:
            alone = time - agreed.max(axis=0, initial=0.0)
            tip = int(alone.argmax())
            if alone[tip] < min_length:
                break
            d = self._measure(here[[tip]], None)[0][0, here] / self.unit
            tips, agreed = [*tips, tip], np.vstack([agreed, (time + time[tip] - d) / 2.0])
        together = _nested(agreed[:, tips])
        sets = together[agreed.argmax(axis=0)] >= time[:, None]  # [n, tips]
        return np.unique(sets, axis=0, return_inverse=True)[1].ravel()


def _nested(agreed: FloatArray) -> FloatArray:
    """Agreement of tips, (m, m), made that of a tree by average linkage."""
    together = np.full(agreed.shape, np.inf)
    if len(agreed) > 1:
        apart = agreed.max() - (agreed + agreed.T) / 2.0
        together = agreed.max() - squareform(cophenet(linkage(squareform(apart, checks=False), "average")))
        np.fill_diagonal(together, np.inf)
    return together


@quiet_blas()
def pseudotime(A: Any, roots: ArrayLike, power: Power | str = "multiscale", *, kind: str = "auto") -> Pseudotime:
    """Distance of every point from a root along the data, between 0 and 1.

    Distances are exact. The method of the same name of a fitted embedding estimates them from a sketch, with intervals,
    and needs far fewer products for many points.

    Parameters
    ----------
    A : HeatKernel, or symmetric non-negative matrix of shape (N, N)
    roots : int, array-like of int, or boolean mask of shape (N,)
        Where time begins. With several roots the time is that from the nearest.
    power : float, {"auto", "multiscale"} or MultiscaleFilter
    kind : {"auto", "path", "geodesic", "diffusion"}
        Lengths along the data (:func:`geodesic_distances`); lengths of the shortest paths along the neighbour graph,
        whose edges have the former lengths; or diffusion distances (:func:`diffusion_distances`), which grow like the
        square root of lengths. "auto" is "path" if the kernel is a neighbour graph, otherwise "geodesic".

    Returns
    -------
    pseudotime : Pseudotime
        With ``.time``, ``.root`` and ``.gaps``, all of shape (N,).

    Warns
    -----
    UserWarning
        If there are components without a root.

    Examples
    --------
    >>> import heatsketch as hs
    >>> import numpy as np
    >>> X = np.linspace(0, 3, 200)[:, None]
    >>> found = hs.pseudotime(hs.heat_kernel(X), roots=0)
    >>> bool((np.diff(found.time) > 0).all())
    True
    """
    kernel = as_heat_kernel(A)
    kind = kind_of(kernel, kind, None)
    h = power_of(kernel, power)
    if kind == "path":
        return time_from_roots(kernel, roots, paths(kernel, h, exact=True), kind)
    exact = geodesic_distances if kind == "geodesic" else diffusion_distances
    if kernel.in_memory and kernel.shape[0] <= _DENSE:
        measure = partial(_rows_of, squareform(exact(kernel, h)))
    else:
        measure = partial(_exact_distances, exact, kernel, h)
    return time_from_roots(kernel, roots, measure, kind)


def kind_of(kernel: HeatKernel, kind: str, level: float | None) -> str:
    """The kind that "auto" stands for: paths where there is a graph, unless intervals are asked for."""
    check_choice(kind, "kind", KINDS)
    if kind == "path" and level is not None:
        raise ValueError(
            "kind='path' was given with an interval, and no law is known for the lengths of paths; use "
            "kind='geodesic', or leave interval out."
        )
    if kind != "auto":
        return kind
    return "path" if level is None and kernel.components() is not None else "geodesic"


def _rows_of(D: FloatArray, sources: IntArray, level: None) -> Measured:  # noqa: ARG001
    return D[sources], None, None


def _exact_distances(exact: Any, kernel: HeatKernel, power: Power, sources: IntArray, level: None) -> Measured:  # noqa: ARG001
    return np.stack([exact(kernel, power, _pairs(source, kernel.shape[0])) for source in sources]), None, None


def sketched_diffusion(reference: ReferenceSketch, sources: IntArray, level: float | None) -> Measured:
    """Diffusion distances from a few points to all by a reference sketch, (s, N), and their intervals."""
    n, width = reference.features.shape
    d, low, high = np.empty((3, len(sources), n))
    for row, source in enumerate(sources):
        for some in chunks(n, 2 * width):
            pairs = _pairs(source, n)[some]
            d[row, some] = embedded_distances(reference.features, pairs)
            if level is not None:
                low[row, some], high[row, some] = reference.interval(pairs, level)
    return (d, None, None) if level is None else (d, low, high)


def _pairs(source: int, n: int) -> IntArray:
    """A point with every point, (n, 2)."""
    return np.column_stack([np.full(n, source), np.arange(n)])


class _Crossing(NamedTuple):
    """The shortest edge from the part that has been reached to a component: its ends, and its length."""

    near: int
    entry: int
    length: float


def time_from_roots(
    kernel: HeatKernel, roots: ArrayLike, measure: Measure, kind: str, level: float | None = None
) -> Pseudotime:
    """Pseudotime by distances from the roots, and in a component without a root from the point where it is entered.

    With a level and several roots, the interval of each distance has a higher one, so that all hold at once.
    """
    n = kernel.shape[0]
    chosen = check_roots(roots, n)
    components = kernel.components()
    part = np.zeros(n, dtype=np.int64) if components is None else components
    crossings = _crossings(kernel, part, np.unique(part[chosen]))
    gaps = _gaps(part, chosen, crossings)
    each = None
    if level is not None:
        each = 1.0 - (1.0 - check_level(level, "interval")) / len(chosen)
    sources = np.unique([*chosen.tolist(), *(end for one in crossings for end in (one.near, one.entry))])
    row = {int(source): number for number, source in enumerate(sources)}
    measured = measure(sources, each)
    across = [_rate(kernel, part, one, row, measured[0]) * one.length for one in crossings]

    def times(d: FloatArray) -> tuple[FloatArray, IntArray]:
        """The time of each point, unscaled, and its root."""
        from_each = np.where(part == part[chosen][:, None], d[[row[int(one)] for one in chosen]], np.inf)  # [r, N]
        nearest = from_each.argmin(axis=0)
        time, root = from_each[nearest, np.arange(n)], np.where(gaps == 0, chosen[nearest], -1)
        for (near, entry, _), gap in zip(crossings, across, strict=True):
            here = part == part[entry]
            time[here], root[here] = time[near] + gap + d[row[entry], here], root[near]
        time[gaps < 0] = np.nan
        return time, root

    time, root = times(measured[0])
    low, high = (None if some is None else times(some)[0] for some in measured[1:])
    _warn_about(gaps)
    unit = float(np.max(time, where=np.isfinite(time), initial=0.0)) or 1.0
    # How long a gap is has no law.
    low, high = (None if some is None else np.where(gaps == 0, some / unit, np.nan) for some in (low, high))
    return Pseudotime(time / unit, low, high, root, gaps, unit, kind, level, part, measure)


def check_roots(roots: ArrayLike, n_samples: int) -> IntArray:
    """Numbers of the roots, sorted, from an integer, integers or a boolean mask."""
    given = np.atleast_1d(np.asarray(roots))
    if given.dtype == bool and given.shape == (n_samples,):
        given = np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(
            f"roots of shape {given.shape} and dtype {given.dtype} were given; give the number of a sample, several, "
            f"or a boolean mask of shape ({n_samples},) with at least one root."
        )
    if given.min() < 0 or given.max() >= n_samples:
        raise ValueError(
            f"roots from {given.min()} to {given.max()} were given; with {n_samples} samples they must lie between 0 "
            f"and {n_samples - 1}."
        )
    return np.unique(given).astype(np.int64)


def _crossings(kernel: HeatKernel, part: IntArray, rooted: IntArray) -> list[_Crossing]:
    """How components without a root are entered, nearest first (Prim's algorithm); none without coordinates."""
    rest = np.flatnonzero(~np.isin(part, rooted))
    source = _coordinates(kernel) if len(rest) else None
    if source is None:
        return []
    X, metric = source
    nearest, squared = np.full(len(part), -1), np.full(len(part), np.inf)
    joined, crossings = np.flatnonzero(np.isin(part, rooted)), []
    while len(rest):
        ids, d2 = _nearest_among(X, metric, joined, rest)
        closer = d2 < squared[rest]
        nearest[rest[closer]], squared[rest[closer]] = ids[closer], d2[closer]
        entry = int(rest[np.argmin(squared[rest])])
        crossings.append(_Crossing(int(nearest[entry]), entry, float(np.sqrt(squared[entry]))))
        joined = np.flatnonzero(part == part[entry])
        rest = rest[part[rest] != part[entry]]
    return crossings


def _coordinates(kernel: HeatKernel) -> tuple[Any, Metric] | None:
    """The data and their metric; None for a precomputed affinity or a matrix."""
    affinity = kernel.affinity
    if not isinstance(affinity, GaussianAffinity):
        return None
    return affinity.X if sparse.issparse(affinity.X) else to_numpy(affinity.X), affinity.metric


def _nearest_among(X: Any, metric: Metric, among: IntArray, points: IntArray) -> tuple[IntArray, FloatArray]:
    """The nearest of some points to each of others, and its squared distance."""
    if metric.precomputed:
        D2 = np.square(X[np.ix_(points, among)])
        ids = D2.argmin(axis=1)
        return among[ids], D2[np.arange(len(points)), ids]
    index = make_index(X[among], metric, queries=len(points))
    ids, squared = index.query(X[points], 1)
    return among[index.order[ids[:, 0]]], squared[:, 0]


def _rate(kernel: HeatKernel, part: IntArray, crossing: _Crossing, row: dict[int, int], d: FloatArray) -> float:
    """Time per length of the steps from both ends of a gap to their neighbours, a median; 1 if both are alone."""
    source = _coordinates(kernel)
    assert source is not None
    X, metric = source
    rates: list[FloatArray] = [np.empty(0)]
    for end in (crossing.near, crossing.entry):
        others = np.flatnonzero(part == part[end])
        same = None if metric.precomputed else distinct(X[others])
        others = others if same is None else others[np.sort(same[0])]
        lengths = X[end, others] if metric.precomputed else np.sqrt(squared_distances(X[[end]], X[others], metric)[0])
        others, lengths = others[lengths > 0.0], lengths[lengths > 0.0]
        few = np.argsort(lengths, kind="stable")[:_STEPS]
        rates.append(d[row[end], others[few]] / lengths[few])
    found = np.concatenate(rates)
    return float(np.median(found)) if len(found) else 1.0


def _gaps(part: IntArray, roots: IntArray, crossings: list[_Crossing]) -> IntArray:
    """Number of gaps on the way to each point; -1 for points that are not reached."""
    number = np.full(int(part.max()) + 1, -1)
    number[part[roots]] = 0
    for crossing in crossings:
        number[part[crossing.entry]] = number[part[crossing.near]] + 1
    return number[part]


def _warn_about(gaps: IntArray) -> None:
    """Say which points heat does not reach from a root."""
    crossed, unknown = int((gaps > 0).sum()), int((gaps < 0).sum())
    if crossed:
        warn(
            f"{crossed} of {len(gaps)} points are in components without a root: their time continues across the "
            "shortest gap in the data (`gaps` says where). Give a root in each component, or raise n_neighbors."
        )
    if unknown:
        warn(
            f"{unknown} of {len(gaps)} points are in components without a root, and without coordinates their distance "
            "is not known: their time is NaN. Give a root in each component."
        )
