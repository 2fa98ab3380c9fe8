"""How the rows of a data set are distributed: row chunks, and the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...linalg.sketch import philox
from .tasks import Plan, gathered, persisted

__all__ = ["CHUNK_ROWS", "Layout", "chunk_sizes", "split_space", "to_locality"]

# Rows of a chunk: at least this many, so that a task is worth its overhead; then at most 64 chunks, which keep hundreds
# of workers busy; then larger chunks up to the second number; and never more chunks than the scheduler can handle the
# pairs of. The sizes depend on the number of rows only, so that results do not depend on the workers. GPUs, which
# finish such a task fast, get the largest chunks.
CHUNK_ROWS = 4096
_MOST_ROWS, _CHUNKS, _MOST_CHUNKS = 65_536, 64, 512
# Sampled rows for each cell of a partition: the sizes of cells then differ by an eighth of their mean.
_PER_CELL = 64
# The stream of random numbers that chooses them.
_PLACEMENT = 0xE
# Power iterations for the longest direction of a cell.
_STEPS = 12


def chunk_sizes(n_samples: int, *, largest: bool = False) -> tuple[int, ...]:
    """Rows of each chunk, equal but for one row."""
    rows = _MOST_ROWS if largest else min(max(CHUNK_ROWS, -(-n_samples // _CHUNKS)), _MOST_ROWS)
    rows = max(rows, -(-n_samples // _MOST_CHUNKS))
    n_chunks = max(1, -(-n_samples // rows))
    return tuple(n_samples * (b + 1) // n_chunks - n_samples * b // n_chunks for b in range(n_chunks))


@dataclass(frozen=True, eq=False)
class Layout:
    """Chunks and order of the rows of a data set.

    Attributes
    ----------
    sizes : tuple of int
        Rows of each chunk.
    given : tuple of int
        Chunks of the rows in the user's array.
    order : ndarray of int, shape (N,), or None
        Row i on the workers is sample ``order[i]``; None if rows are in the order of the data.
    """

    sizes: tuple[int, ...]
    given: tuple[int, ...]
    order: IntArray | None = None

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> IntArray:
        """First row of each chunk, and the end."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def _positions(self) -> IntArray:
        assert self.order is not None
        return np.argsort(self.order)

    def samples(self, rows: IntArray) -> IntArray:
        """The samples in the given rows, shape (m,)."""
        return rows if self.order is None else self.order[rows]

    def positions(self, samples: IntArray) -> IntArray:
        """The rows of the given samples, shape (m,)."""
        return samples if self.order is None else self._positions[samples]

    def arranged(self, V: Any) -> Any:
        """Rows in the order of the data, in any chunks, as rows of this layout."""
        if self.order is None:
            return V.rechunk({0: self.sizes, 1: -1} if V.ndim == 2 else {0: self.sizes})
        even = self._destinations.chunks[0]
        return _moved(V.rechunk({0: even, 1: -1} if V.ndim == 2 else {0: even}), self._destinations, self.sizes)

    def restored(self, V: Any) -> Any:
        """Rows of this layout as rows in the order and the chunks of the data."""
        if self.order is not None:
            V = _moved(V, self.sources, chunk_sizes(self.n_samples))
        return V.rechunk({0: self.given})

    @cached_property
    def _destinations(self) -> Any:
        """The row of each sample, as a Dask array in the order of the data."""
        return persisted(da.from_array(self._positions, chunks=(chunk_sizes(self.n_samples),)))

    @cached_property
    def sources(self) -> Any:
        """The sample of each row, as a Dask array; only if there is an order."""
        return persisted(da.from_array(self.order, chunks=(self.sizes,)))

    def same_as(self, other: Layout) -> bool:
        """Whether rows are in the same chunks and order."""
        return self is other or (self.sizes == other.sizes and self.order is other.order)


def _moved(V: Any, destinations: Any, sizes: tuple[int, ...]) -> Any:
    """Rows of a Dask array in another order: row i goes to row ``destinations[i]`` of an array with chunks `sizes`."""
    plan = Plan(V, destinations)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    split = [
        plan.add("split-rows", c, _split, rows, where, starts)
        for c, (rows, where) in enumerate(zip(plan.keys(V), plan.keys(destinations), strict=True))
    ]
    for b in range(len(sizes)):
        pieces = [plan.add("send-rows", (c, b), getitem, key, b) for c, key in enumerate(split)]
        plan.add("move-rows", (b, 0) if V.ndim == 2 else b, _assemble, pieces)
    return plan.array("move-rows", sizes, V.shape[1] if V.ndim == 2 else None, V.dtype)


def _split(rows: FloatArray, destinations: IntArray, starts: IntArray) -> list[tuple[IntArray, FloatArray]]:
    """Rows for each chunk of the result, and their places in it."""
    chunk = np.searchsorted(starts, destinations, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    ends = np.searchsorted(chunk[order], np.arange(len(starts)))
    parts = (order[a:b] for a, b in pairwise(ends))
    return [(destinations[some] - starts[c], rows[some]) for c, some in enumerate(parts)]


def _assemble(pieces: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    places, rows = (np.concatenate(part) for part in zip(*pieces, strict=True))
    out = np.empty_like(rows)
    out[places] = rows
    return out


@dataclass(frozen=True)
class Partition:
    """A binary tree of half-spaces; its leaves are cells.

    A point goes to the first child of a node if its coordinate along the direction is below the threshold.
    """

    directions: list[FloatArray]
    thresholds: list[float]
    children: list[list[int]]  # the number of a node, or ``-1 - cell``

    def cells(self, X: FloatArray) -> IntArray:
        """The cell of each point, (m, d) -> (m,): a function of the coordinates of the point only."""
        columns = np.ascontiguousarray(X.T, dtype=np.float64)
        at = np.full(len(X), 0 if self.children else -1, dtype=np.int64)
        nodes = zip(self.directions, self.thresholds, self.children, strict=True)
        for node, (direction, threshold, children) in enumerate(nodes):  # parents come before their children
            here = np.flatnonzero(at == node)
            beyond = _along(columns[:, here], direction) >= threshold
            at[here] = np.where(beyond, children[1], children[0])
        return -1 - at


def _along(columns: FloatArray, direction: FloatArray) -> FloatArray:
    """Coordinates of points along a direction, (d, m) -> (m,).

    Features are added in their order. Unlike a matrix product this rounds equal points equally, so that they are never
    separated.
    """
    out = np.zeros(columns.shape[1])
    for column, weight in zip(columns, direction, strict=True):
        out += weight * column
    return out


def split_space(points: FloatArray, n_cells: int) -> Partition:
    """Split space into at most `n_cells` cells with about equal numbers of the points, (m, d).

    Each cell is halved across the direction in which its points extend most. In many dimensions data need not extend
    along any of the coordinates.
    """
    points = np.asarray(points, dtype=np.float64)
    partition, n_leaves = Partition([], [], []), 0
    # Rows of a node, its number of cells, and where to write its number; breadth first.
    waiting: list[tuple[FloatArray, int, list[int], int]] = [(points, n_cells, [0, 0], 0)]
    for here, share, children, which in waiting:
        direction = _longest(here)
        coordinates = _along(here.T, direction)
        threshold = float(np.quantile(coordinates, (share // 2) / share))
        below = coordinates < threshold
        if share == 1 or not below.any():
            children[which] = -1 - n_leaves
            n_leaves += 1
            continue
        children[which] = len(partition.children)
        below_and_beyond = [0, 0]
        partition.directions.append(direction)
        partition.thresholds.append(threshold)
        partition.children.append(below_and_beyond)
        waiting.append((here[below], share // 2, below_and_beyond, 0))
        waiting.append((here[~below], share - share // 2, below_and_beyond, 1))
    return partition


def _longest(points: FloatArray) -> FloatArray:
    """About the direction in which points extend most, by power iteration, shape (d,); 0 if all coincide."""
    centred = points - points.mean(axis=0)
    direction: FloatArray = centred[np.square(centred).sum(axis=1).argmax()]
    for _ in range(_STEPS):
        length = np.sqrt(direction @ direction)
        if length == 0:
            break
        direction = centred.T @ (centred @ (direction / length))
    return direction / (np.sqrt(direction @ direction) or 1.0)


def to_locality(X: Any) -> Layout:
    """A layout whose chunks are cells of space, so that neighbours are mostly in the same chunk.

    The chunk of a point depends on its coordinates and on a sample of the rows, chosen by their numbers. Equal points
    are in the same chunk.

    Parameters
    ----------
    X : Dask array of shape (N, d)
    """
    n, n_cells = X.shape[0], len(chunk_sizes(X.shape[0]))
    plan = Plan(X)
    partition = plan.share(split_space(gathered(X[_stratified(n, _PER_CELL * n_cells)]), n_cells))
    for c, rows in enumerate(plan.keys(X)):
        plan.add("cells", c, Partition.cells, partition, rows)
    cells = gathered(plan.array("cells", X.chunks[0], None, np.int64))
    sizes = np.bincount(cells)
    return Layout(tuple(sizes[sizes > 0].tolist()), X.chunks[0], np.argsort(cells, kind="stable"))


def _stratified(n: int, size: int) -> IntArray:
    """Numbers of rows, one at random from each of `size` stretches of equal length, shape (size,)."""
    size = min(n, size)
    ends = np.arange(size + 1) * n // size
    words = philox((np.arange(size), 0, 0, _PLACEMENT), seed=0)[0].astype(np.int64)
    chosen: IntArray = ends[:-1] + (words * np.diff(ends) >> 32)
    return chosen
