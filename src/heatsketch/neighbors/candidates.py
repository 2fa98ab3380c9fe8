"""Candidates for nearest neighbours: tiles of distances, and buffers that keep the nearest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.chunks import chunks
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from ..compiled import LANES

__all__ = ["Found", "Tile", "measure_all", "padded"]


def measure_all(Q: FloatArray, points: FloatArray, ids: IntArray, squared: FloatArray) -> None:
    """Squared distances of neighbours by differences, in float64; numbers and distances are sorted in place."""
    from ..compiled.search import measure  # noqa: PLC0415

    Q, points = np.ascontiguousarray(Q), np.ascontiguousarray(points)
    each(lambda rows: measure(Q, points, ids, rows.start, rows.stop, squared), chunks(len(ids), 1, 4096))


def padded(width: int) -> int:
    """The next multiple of the number of lanes."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True)
class Tile:
    """Distances between a block of points and a part of a cluster: ``left_i + right_j - products_ij``.

    Attributes
    ----------
    products : ndarray of float32, shape (m, n)
        Twice the inner products.
    left, right : ndarrays of float32, shape (m,), (n,)
        Squared norms.
    columns : slice
        The columns that belong to the cluster.
    cluster, number : int
        The cluster, and the number of the first of these points.
    """

    products: FloatArray
    left: FloatArray
    right: FloatArray
    columns: slice
    cluster: int
    number: int


@dataclass
class Found:
    """The nearest neighbours found so far, in buffers that are cut down to the k nearest whenever they are full.

    Attributes
    ----------
    k : int
    worst : ndarray of float32, shape (m + 16,)
        Squared distance beyond which a row takes no more; infinite until it has been cut down.
    count : ndarray of int32, shape (m,)
        Neighbours that a row holds.
    squared, ids : ndarrays of float32 and int32, shape (m, 2 k or a little more)
    """

    k: int
    worst: FloatArray
    count: IntArray
    squared: FloatArray
    ids: IntArray

    @classmethod
    def nothing(cls, m: int, k: int) -> Found:
        """Empty buffers."""
        worst = np.full(m + LANES, np.inf, dtype=np.float32)
        count = np.zeros(m, dtype=np.int32)
        room = padded(2 * k)
        return cls(k, worst, count, np.empty((m, room), np.float32), np.empty((m, room), np.int32))

    @property
    def nearest(self) -> IntArray:
        """A copy of the numbers of the k nearest, once the buffers have been cut, (m, k)."""
        return np.ascontiguousarray(self.ids[:, : self.k])

    def offer(self, tile: Tile, row: int, mode: int) -> None:
        """Offer the points of a tile; see :func:`heatsketch.compiled.search.offer` for the modes."""
        from ..compiled.search import offer  # noqa: PLC0415

        span = tile.columns.start, tile.columns.stop
        state = self.worst, self.count, self.squared, self.ids
        offer(tile.products, tile.left, tile.right, *span, row, tile.number, mode, self.k, *state)

    def cut(self) -> None:
        """Keep the k nearest of each row."""
        from ..compiled.search import shrink  # noqa: PLC0415

        state = self.squared, self.ids, self.count, self.worst, self.k
        each(lambda rows: shrink(*state, rows.start, rows.stop), chunks(len(self.count), 1, 1 << 14))

    def put(self, rows: IntArray, other: Found) -> None:
        """Take the findings of another, which are those of the given rows."""
        self.worst[rows], self.count[rows] = other.worst[: len(rows)], other.count
        self.squared[rows], self.ids[rows] = other.squared, other.ids

    def merge(self, other: Found) -> None:
        """Add what another has found for the same rows; both must have been cut."""
        k = self.k
        self.squared[:, k : 2 * k], self.ids[:, k : 2 * k] = other.squared[:, :k], other.ids[:, :k]
        for row in np.flatnonzero(self.count < k):  # close the gap in rows that are not full
            mine, total = self.count[row], self.count[row] + other.count[row]
            self.squared[row, mine:total] = other.squared[row, : other.count[row]]
            self.ids[row, mine:total] = other.ids[row, : other.count[row]]
        self.count += other.count
        self.cut()
