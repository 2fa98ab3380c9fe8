"""Exact nearest neighbours on a device: all distances, tile by tile, and a proof for every row that none was lost.

Distances of a tile come from one matrix product, ``|x|^2 + |y|^2 - 2 x.y``, which rounds. Hence somewhat more than the
k nearest are kept, and measured again by differences in float64. A point y that was not kept has an approximate
distance of at least `a`, the largest of those kept. With ``|y|^2 <= 2 |x|^2 + 2 D`` the error of that distance is at
most ``g (|x|^2 + |y|^2) <= g (3 |x|^2 + 2 D)``, where `D` is the true squared distance; hence

    D >= (a - 3 g |x|^2) / (1 + 2 g),

and where this is more than the k-th distance found, the row is right, whatever the others are. Rows that cannot be
proved are searched again in float64, and what is left (ties, above all) by differences in float64 of all pairs.
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
from ..._utils.memory import size_in_words
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import central_point, refuse_overflow
from .device import Device
from .precision import full_precision

__all__ = ["DeviceIndex", "nearest", "tile_bytes"]

Progress = Callable[[int, int], None]

# Neighbours kept beyond k: at least so many, and this share of k.
_SLACK = 8
_SLACK_SHARE = 0.25
# Up to this many features distances are formed by differences, which costs no more than a product and loses no digits.
_DIRECT_FEATURES = 4
# Points are scaled so that no norm exceeds two to this power: squares stay within float32. What underflows is then
# smaller than _UNDERFLOW for each feature.
_EXPONENT = 60
_UNDERFLOW = 2.0**-80
# Bytes that a tile and what is made from it may take: on a GPU, where launching costs more than waiting for memory, and
# on a CPU, where tiles should not leave the cache for long; and the share of a GPU's free memory.
_TILE_BYTES = {"cuda": 1 << 30, "cpu": 1 << 26}
_MEMORY_SHARE = 0.25
# Copies of a tile that are alive at the same time: the tile and what is selected from it; by differences also these;
# and in the last search keys to break ties by.
_PRODUCT_COPIES, _DIRECT_COPIES, _LAST_COPIES = 2, 3, 6
# Tiles this many times wider than high: fewer lists to merge.
_WIDER = 8
# The smallest of a tile are looked for among the groups of so many columns with the smallest minima.
_GROUP = 16
# Tiles that are refused for lack of memory are halved down to this.
_LEAST_BYTES = 1 << 18


class DeviceIndex:
    """Exact search by computing all distances on a device, for the Euclidean distance.

    Points keep their numbers: a device gathers rows from anywhere about as fast.

    Parameters
    ----------
    X : ndarray or tensor of float32 or float64, shape (N, d)
    device : Device
    """

    method = "device"

    def __init__(self, X: Any, device: Device) -> None:
        refuse_overflow(X)
        self._X, self._device = X, device
        self.recall: float | None = 1.0
        self.order: IntArray = np.arange(X.shape[0])

    def __getstate__(self) -> dict[str, Any]:
        # The copy on the device is made anew where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "_there"}

    @cached_property
    def _there(self) -> Any:
        """The points on the device."""
        return self._device.tensor(self._X)

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point."""
        return nearest(self._device, self._there, self._there, k, itself=True, progress=progress)

    def query(self, Q: Any, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each query."""
        Q = np.asarray(Q)
        refuse_overflow(Q)
        return nearest(self._device, Q, self._there, k)


def nearest(
    device: Device, Q: Any, X: Any, k: int, *, itself: bool = False, progress: Progress | None = None
) -> tuple[IntArray, FloatArray]:
    """The k points that are nearest to each query, exactly.

    Parameters
    ----------
    device : Device
    Q : ndarray or tensor of float32 or float64, shape (m, d)
    X : ndarray or tensor of float32 or float64, shape (n, d)
        Neither may be so large that squared distances overflow in float64.
    k : int
        At most n, or n - 1 with `itself`.
    itself : bool
        Whether query `i` is point `i`, which is then none of its own neighbours.
    progress : callable, optional
        Told how many queries of how many are done.

    Returns
    -------
    ids : ndarray of int32, shape (m, k)
        Nearest first; of points at the same distance (in float64) those with lower numbers.
    squared : ndarray of float64, shape (m, k)
        Squared distances, by differences in float64.

    Raises
    ------
    MemoryError
        If the points, or the smallest tiles, do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch.backends.torch.device import Device
    >>> from heatsketch.backends.torch.nearest import nearest
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> ids, squared = nearest(Device("cpu"), X, X, 1, itself=True)
    >>> ids.ravel(), squared.ravel()
    (array([1, 0, 1], dtype=int32), array([1., 1., 4.]))
    """
    m, (n, d) = Q.shape[0], X.shape
    most = n - int(itself)
    if not 1 <= k <= most:
        raise ValueError(f"k={k} was given; {n} points have between 1 and {most} neighbours to be found.")
    ids, squared = np.empty((m, k), dtype=np.int32), np.empty((m, k))
    try:
        job = _Job(device.tensor(Q), device.tensor(X), k, itself, tile_bytes(device))
        rows, done = np.arange(m), 0
        for way in _ways(d, torch.promote_types(job.Q.dtype, job.X.dtype)):
            if not len(rows):
                break
            with full_precision():
                lost = _search(job, way, rows, (ids, squared), progress and _later(progress, done))
            done, rows = done + len(rows), rows[lost]
    except torch.OutOfMemoryError as error:
        raise _too_large(device, Q, X, k) from error
    return ids, squared


def tile_bytes(device: Device) -> int:
    """Bytes that a tile and what is made from it may take on a device."""
    if not device.is_cuda:
        return _TILE_BYTES["cpu"]
    return max(_LEAST_BYTES, min(_TILE_BYTES["cuda"], int(_MEMORY_SHARE * device.free_memory())))


def _too_large(device: Device, Q: Any, X: Any, k: int) -> MemoryError:
    """The error of points that do not fit, or leave no room for tiles."""
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    return MemoryError(
        f"{k} neighbours of {Q.shape[0]} points among {X.shape[0]} in {X.shape[1]} dimensions ({size_in_words(size)}) "
        f"do not fit into the memory of {device.name}; free memory there, give float32 data or fewer features, or "
        "search with device='cpu'."
    )


def _later(progress: Progress, done: int) -> Progress:
    """Progress of rows that are searched again, after those that came before."""
    return lambda now, total: progress(done + now, done + total)


@dataclass
class _Job:
    """What is looked for. `budget` is the number of bytes for a tile, and becomes smaller where memory is short."""

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
    """How the distances of a tile are computed.

    Attributes
    ----------
    dtype : dtype of PyTorch
    direct : bool
        By differences.
    last : bool
        In float64, by differences, with ties broken by number: nothing can be lost.
    """

    dtype: Any
    direct: bool
    last: bool = False

    def tile(self, m: int, n: int, n_listed: int, budget: int) -> tuple[int, int]:
        """Rows and columns of a tile."""
        copies = _LAST_COPIES if self.last else _DIRECT_COPIES if self.direct else _PRODUCT_COPIES
        entries = max(1, budget // (copies * self.dtype.itemsize))
        rows = max(1, min(m, math.isqrt(entries // _WIDER), entries // n_listed))
        return rows, max(1, min(n, entries // rows))


def _ways(d: int, dtype: Any) -> list[_Way]:
    """How rows are searched, and then those that are left."""
    ways = [_Way(dtype, True)] if d <= _DIRECT_FEATURES else [_Way(torch.float32, False), _Way(torch.float64, False)]
    return [*ways, _Way(torch.float64, True, last=True)]


class _Placed:
    """Queries and points as a way computes with them: seen from a centre, scaled by a power of two.

    Differences need no centre; without one, float32 stays exactly what it was. The last way takes points as they are.
    """

    def __init__(self, job: _Job, way: _Way, rows: IntArray) -> None:
        self.way = way
        X, d = job.X, job.X.shape[1]
        centre = torch.zeros(d, dtype=torch.float64, device=X.device)
        if not way.direct:
            few = X[:: max(1, X.shape[0] // 64)]
            centre = torch.from_numpy(central_point(to_numpy(few))).to(X.device)
        exponent = 0 if way.last else _exponent(job, centre)
        self.factor = math.ldexp(1.0, exponent)
        self.X, self._norms = self._place(X, centre)
        if job.itself and len(rows) == X.shape[0]:
            self.Q, self._own_norms = self.X, self._norms
        else:
            given = job.Q if len(rows) == job.Q.shape[0] else job.Q[torch.from_numpy(rows).to(X.device)]
            self.Q, self._own_norms = self._place(given, centre)
        self._short_norms = self._norms.to(way.dtype)
        # Rounding: d units for the product, half a dozen for coordinates, norms and sums; twice that covers the rest.
        self._unit = 2.0 * (d + 16) * torch.finfo(way.dtype).eps / 2
        self._last_unit = 2.0 * (d + 16) * torch.finfo(torch.float64).eps / 2
        self._underflow = d * _UNDERFLOW

    def _place(self, points: Any, centre: Any) -> tuple[Any, Any]:
        """Points as they are computed with, and their squared norms in float64."""
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
        """Rows of which no neighbour can have been lost.

        Parameters
        ----------
        rows : slice
        kept : tensor of shape (m,)
            The largest approximate distance of a candidate, as `distances` gives it.
        kth : tensor of float64, shape (m,)
            The k-th smallest true squared distance of the candidates.
        """
        kept = kept.double()
        if not self.way.direct:  # differences err in proportion to themselves
            norms = self._own_norms[rows]
            kept = kept + norms - 3.0 * self._unit * norms
        least = (kept - self._underflow) / (1.0 + 2.0 * self._unit)
        return kth * self.factor * self.factor * (1.0 + self._last_unit) < least


def _exponent(job: _Job, centre: Any) -> int:
    """The power of two that points are scaled by."""
    Q, X = job.Q, job.X
    ends = [end.double() - centre for points in ((X,) if job.itself else (Q, X)) for end in points.aminmax(dim=0)]
    largest = math.sqrt(X.shape[1]) * float(torch.stack(ends).abs().max())
    return min(_EXPONENT - math.frexp(largest)[1], 1000) if largest > 0 else 0


def _search(job: _Job, way: _Way, rows: IntArray, out: tuple[IntArray, FloatArray], progress: Progress | None) -> Any:
    """Search rows one way; gives which of them may have lost a neighbour, shape (m,)."""
    placed, lost = _Placed(job, way, rows), np.zeros(len(rows), dtype=bool)
    own = torch.from_numpy(rows).to(job.X.device)
    m, start = len(rows), 0
    while start < m:
        height, width = way.tile(m, job.X.shape[0], job.n_listed, job.budget)
        some = slice(start, min(m, start + height))
        try:
            found = _answer(job, placed, some, own[some], width)
        except torch.OutOfMemoryError:
            if job.budget // 2 < _LEAST_BYTES:
                raise
            found = None
        if found is None:  # out of the exception, which holds on to the tensors
            job.budget //= 2
            torch.cuda.empty_cache()
            continue
        ids, squared, well = (to_numpy(part) for part in found)
        out[0][rows[some]], out[1][rows[some]], lost[some] = ids, squared, ~well
        start = some.stop
        if progress is not None:
            progress(start, m)
    return lost


def _answer(job: _Job, placed: _Placed, rows: slice, own: Any, width: int) -> tuple[Any, Any, Any]:
    """Neighbours of some rows: numbers, squared distances, and whether none can have been lost."""
    way, k = placed.way, job.k
    listed = k if way.last else job.n_listed
    values: Any = None
    ids: Any = None
    for columns in chunks(job.X.shape[0], 1, width):
        D = placed.distances(rows, columns)
        if job.itself:
            _leave_out(D, own - columns.start)
        count = min(listed, D.shape[1])
        near, places = _smallest_in_order(D, count) if way.last else _smallest(D, count)
        del D
        places += columns.start
        if values is None:
            values, ids = near, places
            continue
        values, ids = torch.cat([values, near], 1), torch.cat([ids, places], 1)
        # Numbers of later tiles are higher, so a stable order is that of the numbers.
        order = values.sort(dim=1, stable=True).indices if way.last else _selected(values, min(listed, values.shape[1]))
        order = order[:, :listed]
        values, ids = values.gather(1, order), ids.gather(1, order)
    ids = ids.sort(1).values
    squared = _measured(job, own, ids)
    squared, order = squared.sort(dim=1, stable=True)
    ids, squared = ids.gather(1, order)[:, :k], squared[:, :k]
    if way.last or listed == job.X.shape[0] - int(job.itself):
        well = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    else:
        well = placed.proved(rows, values.amax(1), squared[:, -1])
    return ids.int(), squared, well


def _leave_out(D: Any, own: Any) -> None:
    """Make the entry of each row's own column infinite, where the tile has it."""
    column = own.clamp(0, D.shape[1] - 1)
    here = D.gather(1, column[:, None])
    D.scatter_(1, column[:, None], torch.where((column == own)[:, None], torch.inf, here))


def _selected(values: Any, count: int) -> Any:
    """Columns of the smallest entries of each row, in no order."""
    return values.topk(count, dim=1, largest=False, sorted=False).indices


def _smallest(D: Any, count: int) -> tuple[Any, Any]:
    """The smallest entries of each row and their columns, in no order, each (m, count).

    They lie in the groups of columns with the smallest minima, as many groups as entries are wanted; finding these
    takes one pass over the tile, where selecting from all of it would take several.
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
    # All that are smaller, and of those that are equal as many as are still wanted, in their order.
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
