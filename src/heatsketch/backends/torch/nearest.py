"""Exact nearest neighbours on a device: all distances, tile by tile, with a proof for each row that none was missed.

Distances of a tile come from one matrix product, ``|x|^2 + |y|^2 - 2 x.y``, which rounds. Hence somewhat more than the
k nearest are kept, and their distances are computed again by differences in float64. A point y that was not kept has an
approximate distance of at least `a`, the largest of those kept. With ``|y|^2 <= 2 |x|^2 + 2 D`` the error of that
distance is at most ``g (|x|^2 + |y|^2) <= g (3 |x|^2 + 2 D)``, where `D` is the true squared distance; hence

    D >= (a - 3 g |x|^2) / (1 + 2 g),

and if this is more than the k-th distance found, the row is correct. Of many points fused programs compute the
distances on tensor cores (:mod:`heatsketch.backends.torch.grouped`), where Triton compiles for the device. Rows without
a proof are searched again by products in float32, then in float64, and the remaining rows (mostly ties) by differences
of all pairs in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..._utils.array import to_numpy
from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import central_point, refuse_overflow
from .operators import fused_kernels
from .tensors import TensorDevice, computing

__all__ = ["DeviceIndex", "nearest"]

Progress = Callable[[int, int], None]

# Candidates kept beyond k: at least this many, and this share of k.
_SLACK = 8
_SLACK_SHARE = 0.25
# Up to this many features distances are formed by differences, which is as fast as a product and loses no digits.
_DIRECT_FEATURES = 4
# Points are scaled so that norms are at most two to this power: squares stay within float32. What underflows is then
# smaller than _UNDERFLOW for each feature.
_EXPONENT = 60
_UNDERFLOW = 2.0**-80
# Bytes of a tile and its temporaries: on a GPU, where launching is expensive, and on a CPU, where tiles should stay in
# the cache; and the share of a GPU's free memory.
_TILE_BYTES = {"cuda": 1 << 31, "cpu": 1 << 26}
_LEAST_BYTES = 1 << 18
_MEMORY_SHARE = 0.25
# The share of a GPU's free memory that the factors of the fused programs may take.
_GROUPED_SHARE = 0.5
# Copies of a tile that are alive at the same time: the tile and what is selected from it; the differences; and in the
# last search keys that break ties.
_PRODUCT_COPIES, _DIRECT_COPIES, _LAST_COPIES = 2, 3, 6
# Tiles are this many times wider than high: fewer lists to merge.
_WIDER = 8
# The smallest entries of a tile are searched in the groups of this many columns with the smallest minima.
_GROUP = 16
# Points and queries from which the fused programs search, if there are this many times more groups than are looked at:
# for fewer queries it takes too long to form the groups.
_MANY, _MANY_QUERIES, _MORE_GROUPS = 1 << 14, 1 << 13, 4


class DeviceIndex:
    """Exact search for Euclidean nearest neighbours by computing all distances on a device.

    Parameters
    ----------
    X : ndarray or tensor of float32 or float64, shape (N, d)
    device : TensorDevice
    """

    method = "device"

    def __init__(self, X: Any, device: TensorDevice) -> None:
        refuse_overflow(X)
        self._X, self._device = X, device
        self.recall: float | None = 1.0
        self.order: IntArray = np.arange(X.shape[0])  # a device gathers rows fast in any order

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_there"}

    @cached_property
    def _there(self) -> Any:
        """The points on the device."""
        return self._device.tensor(self._X)

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[Any, Any]:
        """The k nearest other points of each point, as tensors on the device."""
        return nearest(self._device, self._there, self._there, k, itself=True, progress=progress)

    def query(self, Q: Any, k: int) -> tuple[IntArray, FloatArray]:
        """The k points nearest to each query."""
        Q = np.asarray(Q)
        refuse_overflow(Q)
        ids, squared = nearest(self._device, Q, self._there, k)
        return to_numpy(ids), to_numpy(squared)


@computing()
def nearest(
    device: TensorDevice, Q: Any, X: Any, k: int, *, itself: bool = False, progress: Progress | None = None
) -> tuple[Any, Any]:
    """The k points nearest to each query, exactly: indices, int32, and squared distances, float64: tensors (m, k).

    Nearest points come first, points at the same distance (in float64) in increasing order. `Q`, (m, d), and `X`,
    (n, d), are arrays or tensors whose squared distances do not overflow in float64. With `itself`, query i is point i,
    which is excluded from its neighbours. `progress` is called with the number of finished queries and of all queries.
    """
    m = Q.shape[0]
    job = _Job(device.tensor(Q), device.tensor(X), k, itself, _tile_bytes(device))
    out = tuple(torch.empty((m, k), dtype=dtype, device=job.X.device) for dtype in (torch.int32, torch.float64))
    rows = torch.arange(m, device=job.X.device)
    free = device.free_memory() if device.is_cuda else math.inf
    for way in _ways(job, free if fused_kernels(device) else 0):
        if len(rows):
            rows = rows[~_search(job, way, rows, out, progress)]
            progress = None  # few rows are searched again
    return out[0], out[1]


def _tile_bytes(device: TensorDevice) -> int:
    """Bytes that a tile and its temporaries may take on a device."""
    if not device.is_cuda:
        return _TILE_BYTES["cpu"]
    return max(_LEAST_BYTES, min(_TILE_BYTES["cuda"], int(_MEMORY_SHARE * device.free_memory())))


@dataclass(frozen=True)
class _Job:
    """Queries, points, and the number of neighbours; `budget` is the number of bytes for a tile."""

    Q: Any
    X: Any
    k: int
    itself: bool
    budget: int

    @property
    def n_listed(self) -> int:
        """Candidates of a row."""
        slack = max(_SLACK, int(_SLACK_SHARE * self.k))
        return int(min(self.k + slack, self.X.shape[0] - int(self.itself)))


@dataclass(frozen=True)
class _Way:
    """How the distances of a tile are computed."""

    dtype: Any
    direct: bool  # by differences
    last: bool = False  # by differences in float64, with ties in increasing order: no proof is needed
    fused: bool = False  # by the fused programs

    def tile(self, m: int, n: int, n_listed: int, budget: int) -> tuple[int, int]:
        """Rows and columns of a tile."""
        copies = _LAST_COPIES if self.last else _DIRECT_COPIES if self.direct else _PRODUCT_COPIES
        entries = max(1, budget // (copies * self.dtype.itemsize))
        rows = max(1, min(m, math.isqrt(entries // _WIDER), entries // n_listed))
        return rows, max(1, min(n, entries // rows))


def _ways(job: _Job, free: float) -> list[_Way]:
    """The ways to search, each for the rows that the one before could not prove.

    The fused programs search if there is memory for them: `free` are bytes on their device, 0 if there are no programs.
    """
    (n, d), last = job.X.shape, _Way(torch.float64, True, last=True)
    if d <= _DIRECT_FEATURES:
        return [_Way(torch.promote_types(job.Q.dtype, job.X.dtype), True), last]
    ways = [_Way(torch.float32, False), _Way(torch.float64, False), last]
    if not free or n < _MANY or len(job.Q) < _MANY_QUERIES:
        return ways
    from .grouped import RUN, held_bytes  # noqa: PLC0415 - needs Triton

    if n // RUN < _MORE_GROUPS * job.n_listed or held_bytes(n, d) > _GROUPED_SHARE * free:
        return ways
    return [_Way(torch.float16, False, fused=True), *ways]


def _centre(X: Any) -> Any:
    """A central point, in float64, (d,)."""
    few = X[:: max(1, X.shape[0] // 64)]
    return torch.from_numpy(central_point(to_numpy(few))).to(X.device)


class _Placed:
    """Queries and points as a way computes with them: centred, and scaled by a power of two.

    Differences need no centre; without one, float32 points are not rounded. The last way does not scale either.
    """

    def __init__(self, job: _Job, way: _Way, rows: Any) -> None:
        self.way, self._job = way, job
        X, d = job.X, job.X.shape[1]
        centre = torch.zeros(d, dtype=torch.float64, device=X.device) if way.direct else _centre(X)
        self.factor = math.ldexp(1.0, 0 if way.last else _exponent(job, centre))
        self.X, self._norms = self._place(X, centre)
        if job.itself and len(rows) == X.shape[0]:
            self.Q, self._own_norms = self.X, self._norms
        else:
            given = job.Q if len(rows) == job.Q.shape[0] else job.Q[rows]
            self.Q, self._own_norms = self._place(given, centre)
        self._short_norms = self._norms.to(way.dtype)
        # Rounding: d units for the product, half a dozen for coordinates, norms and sums; twice that covers the rest.
        self._unit = 2.0 * (d + 16) * torch.finfo(way.dtype).eps / 2
        self._last_unit = 2.0 * (d + 16) * torch.finfo(torch.float64).eps / 2
        self._underflow = d * _UNDERFLOW
        self.height, self._width = way.tile(len(rows), X.shape[0], job.n_listed, job.budget)

    def _place(self, points: Any, centre: Any) -> tuple[Any, Any]:
        """Centred and scaled points, and their squared norms in float64."""
        placed = torch.empty(points.shape, dtype=self.way.dtype, device=points.device)
        norms = torch.empty(len(points), dtype=torch.float64, device=points.device)
        for rows in chunks(*points.shape):
            placed[rows] = (points[rows].double() - centre) * self.factor
            norms[rows] = placed[rows].double().square().sum(1)
        return placed, norms

    def distances(self, rows: slice, columns: slice) -> Any:
        """Squared distances of a tile, up to a constant for each row, shape (m, n)."""
        q, x = self.Q[rows], self.X[columns]
        if not self.way.direct:
            return torch.addmm(self._short_norms[columns], q, x.T, alpha=-2.0)
        features = x.T.contiguous()
        out, difference = (torch.zeros((len(q), len(x)), dtype=q.dtype, device=q.device) for _ in range(2))
        for j, feature in enumerate(features):
            torch.sub(q[:, j, None], feature, out=difference)
            out.addcmul_(difference, difference)
        return out

    def proved(self, rows: slice, kept: Any, kth: Any) -> Any:
        """Rows of which no neighbour can have been missed, bool (m,).

        `kept` is the largest approximate distance of a candidate, as `distances` returns it, (m,), and `kth` the k-th
        smallest true squared distance of the candidates, (m,).
        """
        kept = kept.double()
        if not self.way.direct:  # differences have a relative error
            norms = self._own_norms[rows]
            kept = kept + norms - 3.0 * self._unit * norms
        least = (kept - self._underflow) / (1.0 + 2.0 * self._unit)
        return kth * self.factor * self.factor * (1.0 + self._last_unit) < least

    def answer(self, rows: slice, own: Any) -> tuple[Any, Any, Any]:
        """Neighbours of some rows, squared distances, and whether they are proved; `own` are their queries."""
        way, job = self.way, self._job
        listed = job.k if way.last else job.n_listed
        values: Any = None
        ids: Any = None
        for columns in chunks(job.X.shape[0], 1, self._width):
            D = self.distances(rows, columns)
            if job.itself:
                _exclude_self(D, own - columns.start)
            count = min(listed, D.shape[1])
            near, places = _smallest_in_order(D, count) if way.last else _smallest(D, count)
            del D
            places += columns.start
            if values is None:
                values, ids = near, places
                continue
            values, ids = torch.cat([values, near], 1), torch.cat([ids, places], 1)
            # Indices of later tiles are higher, so a stable sort keeps ties in increasing order.
            if way.last:
                order = values.sort(dim=1, stable=True).indices
            else:
                order = _selected(values, min(listed, values.shape[1]))
            order = order[:, :listed]
            values, ids = values.gather(1, order), ids.gather(1, order)
        ids, squared = _ranked(job, own, ids)
        if way.last or listed == job.X.shape[0] - int(job.itself):
            proved = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
        else:
            proved = self.proved(rows, values.amax(1), squared[:, -1])
        return ids, squared, proved


class _Grouped:
    """Queries and points as the fused programs compare them."""

    def __init__(self, job: _Job, rows: Any) -> None:
        from .grouped import LARGEST_NORM, RUN, Groups, rounding  # noqa: PLC0415 - needs Triton

        self._job, self._run = job, RUN
        (n, d), X = job.X.shape, job.X
        self._centre = _centre(X)
        self.factor = math.ldexp(LARGEST_NORM, _exponent(job, self._centre) - _EXPONENT)
        self._groups = Groups(lambda some: self._place(X[some]), n, d, X.device)
        self._unit, self._lost = rounding(d)
        self._last_unit = 2.0 * (d + 16) * torch.finfo(torch.float64).eps / 2
        self._position = torch.empty_like(self._groups.order)
        self._position[self._groups.order] = torch.arange(n, device=X.device)
        # Minima and what is selected from them, candidates and their columns.
        entries = self._groups.n_groups + 4 * RUN * job.n_listed
        self.height = max(128, job.budget // (8 * entries) // 128 * 128)
        # Queries next to each other look at the same groups.
        self.rows = rows[self._position[rows].argsort()] if job.itself else rows

    def _place(self, points: Any) -> Any:
        """Centred and scaled points in float64."""
        return (points.double() - self._centre) * self.factor

    def answer(self, _rows: slice, own: Any) -> tuple[Any, Any, Any]:
        """Neighbours of some queries, squared distances, and whether they are proved."""
        job, groups = self._job, self._groups
        x = self._place(job.Q[own])
        least, near = _smallest(groups.minima(x), job.n_listed)
        position = self._position[own] if job.itself else torch.full_like(own, -1)
        D = groups.distances(x, near, position)
        values, places = _smallest(D, job.n_listed)
        found = near.gather(1, places // self._run) * self._run + places % self._run
        ids, squared = _ranked(job, own, groups.order[found])
        norms = x.square().sum(1)
        kept = torch.minimum(norms + 2.0 * least.amax(1), values.amax(1).double())
        bound = (kept - 3.0 * self._unit * norms - self._lost) / (1.0 + 2.0 * self._unit)
        return ids, squared, squared[:, -1] * self.factor * self.factor * (1.0 + self._last_unit) < bound


def _exponent(job: _Job, centre: Any) -> int:
    """The power of two by which points are scaled."""
    Q, X = job.Q, job.X
    ends = [end.double() - centre for points in ((X,) if job.itself else (Q, X)) for end in points.aminmax(dim=0)]
    largest = math.sqrt(X.shape[1]) * float(torch.stack(ends).abs().max())
    return min(_EXPONENT - math.frexp(largest)[1], 1000) if largest > 0 else 0


def _search(job: _Job, way: _Way, rows: Any, out: tuple[Any, ...], progress: Progress | None) -> Any:
    """Search rows one way, write their neighbours, and return which of them are proved, bool (m,)."""
    placed: Any = _Grouped(job, rows) if way.fused else _Placed(job, way, rows)
    proved = torch.zeros(len(job.Q), dtype=torch.bool, device=rows.device)
    own = getattr(placed, "rows", rows)
    for some in chunks(len(rows), 1, placed.height):
        here = own[some]
        out[0][here], out[1][here], proved[here] = placed.answer(some, here)
        if progress is not None:
            progress(some.stop, len(rows))
    return proved[rows]


def _ranked(job: _Job, own: Any, ids: Any) -> tuple[Any, Any]:
    """The k nearest of some candidates, (m, c), and their squared distances in float64, (m, k)."""
    ids = ids.sort(1).values
    squared, order = _measured(job, own, ids).sort(dim=1, stable=True)
    return ids.gather(1, order)[:, : job.k].int(), squared[:, : job.k]


def _exclude_self(D: Any, own: Any) -> None:
    """Set the entry of each row's own column to infinity, if it is in the tile."""
    column = own.clamp(0, D.shape[1] - 1)
    here = D.gather(1, column[:, None])
    D.scatter_(1, column[:, None], torch.where((column == own)[:, None], torch.inf, here))


def _selected(values: Any, count: int) -> Any:
    """Columns of the smallest entries of each row, unsorted."""
    return values.topk(count, dim=1, largest=False, sorted=False).indices


def _smallest(D: Any, count: int) -> tuple[Any, Any]:
    """The smallest entries of each row and their columns, unsorted, each (m, count).

    They are in the `count` groups of columns with the smallest minima. Finding these takes one pass over the tile;
    selecting from the whole tile would take several.
    """
    n = D.shape[1]
    width = n // _GROUP
    if width < 4 * count:
        places = _selected(D, count)
        return D.gather(1, places), places
    first = _selected(D[:, : width * _GROUP].unflatten(1, (_GROUP, width)).amin(1), count)
    steps = width * torch.arange(_GROUP, device=D.device)
    columns = (first[:, None, :] + steps[:, None]).flatten(1)
    rest = torch.arange(width * _GROUP, n, device=D.device).expand(len(D), -1)
    columns = torch.cat([columns, rest], 1)
    values = D.gather(1, columns)
    places = _selected(values, count)
    return values.gather(1, places), columns.gather(1, places)


def _smallest_in_order(D: Any, count: int) -> tuple[Any, Any]:
    """The smallest entries of each row and their columns, by value and then by column, each (m, count)."""
    kth = D.topk(count, dim=1, largest=False).values[:, -1:]
    number = torch.arange(D.shape[1], dtype=D.dtype, device=D.device)
    # All smaller entries, and as many of the equal ones as are missing, lowest columns first.
    key = torch.where(D < kth, -1.0, torch.where(D == kth, number, torch.inf))
    places = _selected(key, count).sort(1).values
    values, order = D.gather(1, places).sort(dim=1, stable=True)
    return values, places.gather(1, order)


def _measured(job: _Job, own: Any, ids: Any) -> Any:
    """Squared distances of candidates by differences in float64, shape (m, c)."""
    out = torch.empty(ids.shape, dtype=torch.float64, device=ids.device)
    d = job.X.shape[1]
    for rows in chunks(len(ids), ids.shape[1] * d, max(1, job.budget // 24)):
        difference = job.Q[own[rows], None].double() - job.X[ids[rows]].double()
        out[rows] = difference.square_().sum(2)
    return out
