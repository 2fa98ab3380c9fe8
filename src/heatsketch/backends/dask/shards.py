"""The search for neighbours in one band: its vertices with their index, and lists that are merged across bands.

A vertex is told by a number that says where it is: its band, and its position in the order of the band's index.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import Metric
from ...neighbors.neighborhoods import distinct, kth_apart, n_tied, within
from ...neighbors.search import BlockedIndex, NeighborIndex, make_index

__all__ = ["Asked", "Lists", "Shard", "Vertices", "ask", "band_of", "merge", "position_in", "reach", "search", "taken"]

# A box is as far as its points to so much: distances may be rounded in different ways.
_ROUNDED = 1.0 - 1e-8
_POSITION_BITS = 32
# Coordinates that are compared at a time.
_ENTRIES = 1 << 18


def numbered(band: int, positions: IntArray) -> IntArray:
    """The numbers of vertices of a band."""
    return (np.int64(band) << _POSITION_BITS) + positions.astype(np.int64)


def band_of(ids: IntArray) -> IntArray:
    """The bands of vertices."""
    bands: IntArray = ids >> _POSITION_BITS
    return bands


def position_in(ids: IntArray) -> IntArray:
    """The positions of vertices in their bands."""
    positions: IntArray = ids & ((1 << _POSITION_BITS) - 1)
    return positions


@dataclass(frozen=True)
class Vertices:
    """Which rows of a band coincide.

    Attributes
    ----------
    place : ndarray of int, shape (n,)
        The position of each row's vertex.
    first : ndarray of int, shape (U,)
        A row of each vertex.
    gather : csr_array of int8, shape (U, n), or None if no rows coincide
        Ones that add up the rows of each vertex.
    """

    place: IntArray
    first: IntArray
    gather: Any = None

    @property
    def counts(self) -> FloatArray | None:
        """Rows of each vertex, shape (U,), or None if no rows coincide."""
        return None if self.gather is None else np.diff(self.gather.indptr).astype(np.float64)

    def taker(self, positions: IntArray | None = None) -> Any:
        """What `taken` needs for the vertices of all or of some positions."""
        if self.gather is None:
            return self.first if positions is None else self.first[positions]
        return self.gather if positions is None else self.gather[positions]


def taken(taker: Any, V: FloatArray) -> FloatArray:
    """Sums over the rows of each vertex, which are rows of `V` where none coincide, (n, k) -> (U, k)."""
    return np.take(V, taker, axis=0) if isinstance(taker, np.ndarray) else np.asarray(taker @ V)


@dataclass(frozen=True)
class Shard:
    """The vertices of a band and their index, in whose order they are numbered.

    Attributes
    ----------
    vertices : Vertices
    points : ndarray of shape (U, d)
    index : NeighborIndex
    """

    vertices: Vertices
    points: FloatArray
    index: NeighborIndex

    @classmethod
    def of(cls, X: FloatArray, metric: Metric, kind: str | None) -> Shard:
        """The shard of a band of points; `kind` is that of the index, by default what suits the band."""
        same = distinct(X)
        first, places = (np.arange(len(X)), np.arange(len(X))) if same is None else same
        index = make_index(X if same is None else X[first], metric, kind=kind)
        positions = np.empty(len(first), dtype=np.int64)
        positions[index.order] = np.arange(len(first))
        places, first, n = positions[places], first[index.order], len(X)
        ones = np.ones(n, dtype=np.int8)
        gather = None if same is None else sparse.csr_array((ones, (places, np.arange(n))), shape=(len(first), n))
        return cls(Vertices(places, first, gather), X[first], index)

    @property
    def box(self) -> FloatArray:
        """The smallest and the largest coordinates, shape (2, d)."""
        return np.stack([self.points.min(axis=0), self.points.max(axis=0)]).astype(np.float64)

    def searched(self, length: int) -> tuple[IntArray, FloatArray, Shard]:
        """The nearest vertices of each vertex in the band itself, and the shard, whose index may have learnt of it."""
        index, n = copy(self.index), len(self.points)
        if n == 1:
            return np.empty((1, 0), dtype=np.int32), np.empty((1, 0)), self
        ids, squared = index.neighbors(min(length, n - 1))
        return ids, squared, replace(self, index=index)


@dataclass(frozen=True)
class Lists:
    """The nearest vertices that were found so far, nearest first.

    Attributes
    ----------
    ids : ndarray of int64, shape (m, length)
        -1 where there is none yet.
    squared : ndarray of float64, shape (m, length)
        Squared distances; infinite where there is none yet.
    notes : ndarray of float64, shape (m, length, n_notes)
        What is known of the vertices listed; the first note, if there is any, is how many points they are.
    """

    ids: IntArray
    squared: FloatArray
    notes: FloatArray

    @classmethod
    def nothing(cls, m: int, length: int, n_notes: int) -> Lists:
        """Empty lists."""
        return cls(np.full((m, length), -1), np.full((m, length), np.inf), np.ones((m, length, n_notes)))

    @property
    def farthest(self) -> FloatArray:
        """Squared distance beyond which a vertex does not come on a list any more, shape (m,)."""
        return self.squared[:, -1]

    def kth(self, k: int) -> FloatArray:
        """Squared distance to the k-th neighbour that does not coincide, shape (m,)."""
        return kth_apart(self.squared, k, (lambda rows: self.notes[rows, :, 0]) if self.notes.shape[2] else None)

    def kept(self, radii: FloatArray) -> IntArray:
        """How many of the listed vertices are within the radius, shape (m,)."""
        return within(self.squared, radii)

    def tied(self, k: int) -> tuple[int, bool]:
        """How many rows may have more neighbours as far away as the k-th, and whether any distance is positive."""
        radii = self.kth(k)
        return n_tied(self.kept(radii), radii, self.squared.shape[1]), bool(radii.any())


@dataclass(frozen=True)
class Asked:
    """Points that ask a band: their rows, coordinates, how far it is worth to look, and for how many neighbours."""

    rows: IntArray
    points: FloatArray
    farthest: FloatArray
    length: int


def box_distances(points: FloatArray, box: FloatArray, p: float) -> FloatArray:
    """A lower bound of the squared distances of points to those in a box, by Minkowski's metric, shape (m,)."""
    out = np.empty(len(points))
    for rows in chunks(len(points), points.shape[1], _ENTRIES):
        gaps = np.maximum(np.maximum(box[0] - points[rows], points[rows] - box[1]), 0.0)
        if p == 2.0:
            out[rows] = np.square(gaps).sum(axis=1)
        else:
            out[rows] = np.square(gaps.sum(axis=1) if p == 1.0 else gaps.max(axis=1))
    return _ROUNDED * out


def reach(lists: Lists, points: FloatArray, boxes: list[FloatArray], p: float) -> IntArray:
    """How many of the points may have neighbours in each band, shape (B,)."""
    counts = [(box_distances(points, box, p) <= lists.farthest).sum() for box in boxes]
    return np.array(counts, dtype=np.int64)


def nearest_box(points: FloatArray, boxes: list[FloatArray], p: float | None) -> IntArray:
    """The band that each point is nearest to; any is as good as another where the metric does not tell."""
    distances = np.stack([box_distances(points, box, 2.0 if p is None else p) for box in boxes])
    nearest: IntArray = distances.argmin(axis=0)
    return nearest


def ask(
    lists: Lists, points: FloatArray, box: FloatArray | None, p: float | None, rows: IntArray | None = None
) -> Asked:
    """The points (of `rows`) that may have neighbours in a band, by what is known so far; all, without an exponent."""
    rows = np.arange(len(points)) if rows is None else rows
    if p is not None and box is not None:
        rows = rows[box_distances(points[rows], box, p) <= lists.farthest[rows]]
    return Asked(rows, points[rows], lists.farthest[rows], lists.ids.shape[1])


def search(shard: Shard, notes: FloatArray, band: int, asked: Asked) -> tuple[IntArray, Lists]:
    """The nearest vertices of a band for the points that ask; columns in which none is near enough are left out."""
    if not len(asked.rows):
        return asked.rows, Lists.nothing(0, 0, notes.shape[1])
    ids, squared = shard.index.query(asked.points, min(asked.length, len(shard.points)))
    width = int((squared <= asked.farthest[:, None]).sum(axis=1).max())
    ids, squared = ids[:, :width], squared[:, :width]
    return asked.rows, Lists(numbered(band, ids), squared, notes[ids])


def merge(lists: Lists, found: tuple[IntArray, Lists]) -> Lists:
    """Lists with what was found for some of their rows; of equal distances the vertex with the smaller number first."""
    rows, others = found
    length = lists.ids.shape[1]
    if not others.ids.size:
        return lists
    ids, squared, notes = lists.ids.copy(), lists.squared.copy(), lists.notes.copy()
    all_ids = np.concatenate([ids[rows], others.ids], axis=1)
    all_squared = np.concatenate([squared[rows], others.squared], axis=1)
    order = np.lexsort((all_ids, all_squared), axis=1)[:, :length]
    ids[rows] = np.take_along_axis(all_ids, order, axis=1)
    squared[rows] = np.take_along_axis(all_squared, order, axis=1)
    if notes.shape[2]:
        all_notes = np.concatenate([notes[rows], others.notes], axis=1)
        notes[rows] = np.take_along_axis(all_notes, order[:, :, None], axis=1)
    return Lists(ids, squared, notes)


def own_lists(shard: Shard, notes: FloatArray, band: int, length: int) -> tuple[Shard, Lists]:
    """The vertices of a band searched by themselves."""
    ids, squared, shard = shard.searched(length)
    m, width = ids.shape
    empty = Lists.nothing(m, length, notes.shape[1])
    empty.ids[:, :width], empty.squared[:, :width], empty.notes[:, :width] = numbered(band, ids), squared, notes[ids]
    return shard, empty


def exactly(shard: Shard, metric: Metric, points: FloatArray, length: int) -> FloatArray:
    """Squared distances of some points to the nearest vertices of a band, all of which are looked at."""
    return BlockedIndex(shard.points, metric).query(points, min(length, len(shard.points)))[1]


def call(method: str, value: Any, *args: Any) -> Any:
    """A method or attribute of an object that is on a worker."""
    attribute = getattr(value, method)
    return attribute(*args) if callable(attribute) else attribute
