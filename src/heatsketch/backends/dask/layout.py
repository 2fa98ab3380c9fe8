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
from ...linalg.sketch import sample
from .tasks import Plan, gathered, persisted

__all__ = ["CHUNK_ROWS", "Layout", "cells_of", "chunk_sizes", "split_space", "to_locality"]

# Rows of a chunk: at least this many, so that a task is worth its overhead; then at most 64 chunks, which keep hundreds
# of workers busy; then larger chunks up to the second number; and never more chunks than the scheduler can handle the
# pairs of. The sizes depend on the number of rows only, so that results do not depend on the workers. GPUs, which
# finish such a task fast, get the largest chunks.
CHUNK_ROWS = 4096
_MOST_ROWS, _CHUNKS, _MOST_CHUNKS = 65_536, 64, 512
# Sampled rows for each cell of a partition: the sizes of cells then differ by an eighth of their mean.
_PER_CELL = 64
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
class Split:
    """Two half-spaces: coordinates along `direction` below `threshold`, and the others.

    Each is the number of a cell, or split again.
    """

    direction: FloatArray  # [d]
    threshold: float
    below: Split | int
    beyond: Split | int


def split_space(points: FloatArray, n_cells: int, first: int = 0) -> Split | int:
    """Split space into at most `n_cells` cells, numbered from `first`, with about equal numbers of the points, (m, d).

    Each cell is halved across the direction in which its points extend most. In many dimensions data need not extend
    along any of the coordinates.
    """
    if n_cells == 1:
        return first
    direction, half = _longest(points), n_cells // 2
    coordinates = _along(points, direction)
    threshold = float(np.quantile(coordinates, half / n_cells))
    below = coordinates < threshold
    if not below.any():
        return first
    return Split(
        direction,
        threshold,
        split_space(points[below], half, first),
        split_space(points[~below], n_cells - half, first + half),
    )


def cells_of(X: FloatArray, space: Split | int) -> IntArray:
    """The cell of each point, (m, d) -> (m,): a function of the coordinates of the point only."""
    if isinstance(space, int):
        return np.full(len(X), space)
    below = _along(X, space.direction) < space.threshold
    cells = np.empty(len(X), dtype=np.int64)
    cells[below] = cells_of(X[below], space.below)
    cells[~below] = cells_of(X[~below], space.beyond)
    return cells


def _along(X: FloatArray, direction: FloatArray) -> FloatArray:
    """Coordinates of points along a direction, (m, d) -> (m,), in float64.

    Features are added in their order. Unlike a matrix product this rounds equal points equally, so that they are never
    separated.
    """
    out = np.zeros(len(X))
    for column, weight in zip(X.T, direction, strict=True):
        out += weight * column
    return out


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

    The chunk of a point depends on its coordinates and on a fixed sample of the rows. Equal points are in the same
    chunk.

    Parameters
    ----------
    X : Dask array of shape (N, d)
    """
    n, n_cells = X.shape[0], len(chunk_sizes(X.shape[0]))
    plan = Plan(X)
    some = gathered(X[sample(n, _PER_CELL * n_cells)]).astype(np.float64)
    space = plan.share(split_space(some, n_cells))
    for c, rows in enumerate(plan.keys(X)):
        plan.add("cells", c, cells_of, rows, space)
    cells = gathered(plan.array("cells", X.chunks[0], None, np.int64))
    sizes = np.bincount(cells)
    return Layout(tuple(sizes[sizes > 0].tolist()), X.chunks[0], np.argsort(cells, kind="stable"))
