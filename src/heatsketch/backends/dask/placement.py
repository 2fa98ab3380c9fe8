"""Data placed by locality: points that lie together go to the same band, so that bands need little of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import magnitude
from ...linalg.sketch import philox
from .layout import Layout, band_sizes, moved
from .tasks import Plan, gathered, pick, same, settled

__all__ = ["Partition", "placed_by_locality", "split_space"]

# Rows of a sample for each band: sizes of bands then differ by an eighth of their mean.
_PER_BAND = 64
# The stream of random words that chooses them.
_PLACEMENT = 0xE
# A direction is that of the points but for this share, which lie farthest out; a few steps come close enough to it.
_USUAL = 0.9
_STEPS = 12
# Coordinates that are held by columns at a time.
_ENTRIES = 1 << 21


@dataclass(frozen=True)
class Partition:
    """A tree of half-spaces, the cells of which are bands.

    Attributes
    ----------
    directions : ndarray of shape (n_nodes, d)
    thresholds : ndarray of shape (n_nodes,)
        A point goes to the first child of a node if its coordinate along the node's direction is smaller.
    children : ndarray of int, shape (n_nodes, 2)
        The number of a node, or ``-1 - cell``.
    n_cells : int
    """

    directions: FloatArray
    thresholds: FloatArray
    children: IntArray
    n_cells: int

    def cells(self, X: FloatArray) -> IntArray:
        """The cell of each point, (m, d) -> (m,): a function of the point's coordinates alone."""
        at = np.full(len(X), 0 if len(self.children) else -1, dtype=np.int64)
        for node in range(len(self.children)):  # parents come before their children
            here = np.flatnonzero(at == node)
            beyond = along(X, here, self.directions[node]) >= self.thresholds[node]
            at[here] = self.children[node][beyond.astype(np.int64)]
        return -1 - at


def along(X: FloatArray, rows: IntArray, direction: FloatArray) -> FloatArray:
    """Coordinates of some points along a direction, shape (m,).

    Features are added one by one in their order: the sum of a row is then rounded in the same way whatever rows are
    summed with it, which no matrix product promises, and equal points are never separated.
    """
    out = np.zeros(len(rows))
    for some in chunks(len(rows), X.shape[1], _ENTRIES):
        columns = np.ascontiguousarray(X[rows[some]].T, dtype=np.float64)
        total = out[some]
        for column, weight in zip(columns, direction, strict=True):
            if weight:
                total += column * weight
    return out


def split_space(points: FloatArray, n_cells: int) -> Partition:
    """Split space into cells that hold equal numbers of the points, each as compact as halving makes it.

    A cell is halved across the direction in which its points extend most. Coordinates by themselves would not do where
    the data extend in none of them, as in many dimensions. Where points coincide there are fewer cells.

    Parameters
    ----------
    points : ndarray of shape (m, d)
    n_cells : int
    """
    points = np.asarray(points, dtype=np.float64)
    directions: list[FloatArray] = []
    thresholds: list[float] = []
    children: list[list[int]] = []
    cells = 0
    # Rows of a node, the cells it is to have, and where its number is to be written; breadth first.
    waiting: list[tuple[IntArray, int, tuple[int, int] | None]] = [(np.arange(len(points)), n_cells, None)]
    for rows, share, parent in waiting:
        split = _halve(points[rows], (share // 2) / share) if share > 1 else None
        number = -1 - cells if split is None else len(children)
        if parent is not None:
            children[parent[0]][parent[1]] = number
        if split is None:
            cells += 1
            continue
        direction, threshold, below = split
        directions.append(direction)
        thresholds.append(threshold)
        children.append([0, 0])
        waiting.append((rows[below], share // 2, (number, 0)))
        waiting.append((rows[~below], share - share // 2, (number, 1)))
    shape = (len(children), points.shape[1])
    return Partition(
        np.reshape(directions, shape), np.array(thresholds), np.array(children, dtype=np.int64).reshape(-1, 2), cells
    )


def _halve(points: FloatArray, share: float) -> tuple[FloatArray, float, Any] | None:
    """A direction, a threshold that about a share of the points is below, and which they are; None if all coincide."""
    direction = _longest(points)
    if direction is None:
        return None
    coordinates = along(points, np.arange(len(points)), direction)
    ordered = np.sort(coordinates)
    gaps = 1 + np.flatnonzero(ordered[1:] > ordered[:-1])
    if not len(gaps):
        return None
    first = gaps[np.abs(gaps - share * len(points)).argmin()]
    below, threshold = ordered[first - 1], float(ordered[first])
    middle = below + 0.5 * (threshold - below)
    threshold = float(middle) if middle > below else threshold
    return direction, threshold, coordinates < threshold


def _longest(points: FloatArray) -> FloatArray | None:
    """About the direction in which most of the points extend most, of unit length, shape (d,); None if all coincide."""
    centred = points - np.median(points, axis=0)
    centred /= magnitude(centred)
    away = np.square(centred).sum(axis=1)
    if not away.any():
        return None
    usual = centred[away <= np.quantile(away, _USUAL)]
    if not usual.any():
        usual = centred
    usual = usual / magnitude(usual)
    direction: FloatArray = usual[np.square(usual).sum(axis=1).argmax()]
    for _ in range(_STEPS):
        direction = direction / np.sqrt(direction @ direction)
        step = (usual @ direction) @ usual
        if not step.any():
            break
        direction = step
    return direction / np.sqrt(direction @ direction)


def placed_by_locality(X: Any) -> tuple[Layout, Any]:
    """Rows of a data set put into bands of points that lie together.

    Which band a point goes to follows from its coordinates and a sample of the rows, chosen by their numbers: not from
    the chunks, nor from the workers. Equal points go to the same band.

    Parameters
    ----------
    X : Dask array of shape (N, d)
        In any chunks of known sizes; its entries are finite.

    Returns
    -------
    layout : Layout
    points : Dask array of shape (N, d), in the bands of the layout
    """
    n = X.shape[0]
    even = band_sizes(n)
    given = X.chunks[0]
    X = X.rechunk({0: even, 1: -1})
    some = pick(X, _stratified(n, _PER_BAND * len(even)))
    plan = Plan(X)
    partition = plan.add("partition", 0, same, split_space(some, len(even)))
    for c, rows in enumerate(plan.keys(X)):
        cells = plan.add("cells", c, _cells, partition, rows)
        plan.add("count-cells", c, _count, cells, len(even))
    cells, counts = settled(plan.array("cells", even, None, np.int64), plan.parts("count-cells", range(len(even))))
    table = np.array(gathered(counts))  # rows of each chunk in each cell
    filled = np.flatnonzero(table.sum(axis=0))
    sizes = tuple(table.sum(axis=0)[filled].tolist())
    # Where the first row of each chunk goes in each band.
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    firsts = np.zeros(table.shape, dtype=np.int64)
    firsts[:, filled] = starts + np.cumsum(table[:, filled], axis=0) - table[:, filled]
    plan = Plan(cells)
    begins = np.concatenate([[0], np.cumsum(even)])
    for c, key in enumerate(plan.keys(cells)):
        plan.add("destinations", c, _destinations, key, firsts[c])
        plan.add("row-numbers", c, np.arange, int(begins[c]), int(begins[c + 1]))
    destinations = settled(plan.array("destinations", even, None, np.int64))
    numbers = moved(plan.array("row-numbers", even, None, np.int64), sizes, destinations, "to-bands")
    numbers, points = settled(numbers, moved(X, sizes, destinations, "to-bands"), name="placing points by locality")
    return Layout(sizes, given, numbers), points


def _stratified(n: int, size: int) -> IntArray:
    """Numbers of rows, one at random from each of `size` stretches of equal length, always the same, shape (size,)."""
    size = min(n, size)
    ends = np.arange(size + 1) * n // size
    words = philox((np.arange(size), 0, 0, _PLACEMENT), seed=0)[0].astype(np.int64)
    chosen: IntArray = ends[:-1] + (words * np.diff(ends) >> 32)
    return chosen


def _cells(partition: Partition, X: FloatArray) -> IntArray:
    return partition.cells(X)


def _count(cells: IntArray, n_cells: int) -> IntArray:
    return np.bincount(cells, minlength=n_cells)


def _destinations(cells: IntArray, firsts: IntArray) -> IntArray:
    """Where the rows of a chunk go: one after the other in each band, in their order."""
    order = np.argsort(cells, kind="stable")
    rank = np.arange(len(cells)) - np.searchsorted(cells[order], cells[order])
    out = np.empty(len(cells), dtype=np.int64)
    out[order] = firsts[cells[order]] + rank
    return out
