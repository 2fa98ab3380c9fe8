"""Nearest neighbours of points in row chunks: each chunk has its own index, and lists of neighbours are merged.

A chunk is searched by itself first. Its points then search other chunks, one after the other, as long as their bounding
boxes are nearer than the farthest neighbour found; by metrics without distances to boxes they search all chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from operator import attrgetter, getitem
from typing import Any

import numpy as np

from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import Metric, no_distance
from ...linalg.sketch import sample
from ...neighbors.clusters import SAME
from ...neighbors.neighborhoods import check_radii, distinct, kth_apart, lengths, looked_at, n_tied, tied_often, within
from ...neighbors.search import BlockedIndex, NeighborIndex, index_kind, make_index, minkowski_exponent
from .layout import Layout, to_locality
from .tasks import Parts, Plan, gathered, persisted, same

__all__ = ["ChunkedLists", "ChunkedNeighborhoods", "Lists", "kth_of"]

# The nearest vertices found so far, nearest first: numbers and squared distances, (m, length); -1 and infinity where
# there are none yet.
Lists = tuple[IntArray, FloatArray]

# Points on which the recall of an approximate search is measured.
_RECALL_SAMPLE = 160
# New points of a task.
_QUERIES = 4096
# Distances to boxes are reduced by this factor, because distances may be rounded differently.
_ROUNDED = 1.0 - 1e-8
# Coordinates that are compared at a time.
_ENTRIES = 1 << 18


@dataclass(frozen=True)
class ChunkIndex:
    """Distinct points (vertices) of a row chunk and their index."""

    points: FloatArray  # (U, d), in the order of the index
    index: NeighborIndex
    order: IntArray  # (m,): rows of the chunk by vertex
    counts: IntArray | None  # (U,): rows of each vertex; None without duplicates

    @classmethod
    def of(cls, X: FloatArray, metric: Metric, kind: str | None) -> ChunkIndex:
        """Index of a chunk; `kind` is that of the index, by default the fastest."""
        same = distinct(X)
        vertices = X if same is None else X[same[0]]
        index = make_index(vertices, metric, kind=kind)
        if same is None:
            return cls(vertices[index.order], index, index.order, None)
        vertex = np.argsort(index.order)[same[1]]
        return cls(vertices[index.order], index, np.argsort(vertex, kind="stable"), np.bincount(vertex))

    @property
    def summary(self) -> tuple[int, str, FloatArray, IntArray, IntArray | None]:
        """Number of vertices, method of the search, bounding box (2, d), order and counts."""
        box = np.stack([self.points.min(axis=0), self.points.max(axis=0)]).astype(np.float64)
        return len(self.points), self.index.method, box, self.order, self.counts

    def own_lists(self, start: int, length: int) -> tuple[ChunkIndex, Lists]:
        """Neighbours of the vertices in this chunk; and this index, which may have tuned itself to the data."""
        index, n = copy(self.index), len(self.points)
        none = np.empty((1, 0), dtype=np.int64), np.empty((1, 0))
        found = index.neighbors(min(length, n - 1)) if n > 1 else none
        return replace(self, index=index), _padded(found, start, length)

    def lists_of(self, Q: FloatArray, start: int, length: int) -> Lists:
        """The nearest vertices of this chunk to new points."""
        return _padded(self.index.query(Q, min(length, len(self.points))), start, length)

    def exact_distances(self, Q: FloatArray, metric: Metric, length: int) -> FloatArray:
        """Squared distances to the nearest vertices of this chunk, by all distances."""
        return BlockedIndex(self.points, metric).query(Q, min(length, len(self.points)))[1]


@dataclass(frozen=True, eq=False)
class ChunkedLists:
    """The nearest vertices of each vertex, from one search: `heatsketch.neighbors.neighborhoods.NeighborLists`.

    Attributes
    ----------
    parts : parts of Lists
        Those of the vertices of each chunk. They are on the workers as long as this object exists.
    radii : ndarray of shape (U,)
        Squared distance of each vertex to its k-th neighbour.
    recall : float
        Share of the true neighbours found, on a sample; 1 for exact searches.
    """

    parts: Parts
    radii: FloatArray
    recall: float

    def scales(self, k: int) -> FloatArray:
        """Squared distance of each vertex to its k-th neighbour, for k up to the number listed, (U,)."""
        return np.concatenate(_of_lists(self.parts, "kth-neighbour", kth_of, k))


class ChunkedNeighborhoods:
    """Points on a cluster with their index: `heatsketch.neighbors.neighborhoods.Neighborhoods` in row chunks.

    Attributes
    ----------
    layout : Layout
        Chunks are cells of space; within a chunk rows are in the order of its index, duplicates side by side.
    X : Dask array of shape (N, d), in this layout
    starts : ndarray of int, shape (B + 1,)
        Number of the first vertex of each chunk, and the end.
    counts : list of ndarrays of int, or None for chunks without duplicates
        Rows of each vertex.
    method : str
        "tree", "clusters" or "blocks".
    """

    def __init__(self, X: Any, n_neighbors: int, metric: Metric) -> None:
        self._metric, self.n_neighbors, self._exponent = metric, n_neighbors, minkowski_exponent(metric)
        cells = to_locality(X)
        X = persisted(cells.arranged(X), name="sorting points by location")
        self._chunks = range(len(cells.sizes))
        # In few dimensions trees are best for chunks of any size.
        kind = "tree" if index_kind(X.shape, metric, sparse_points=False) == "tree" else None
        plan = Plan(X)
        for b, points in enumerate(plan.keys(X)):
            index = plan.add("index", b, ChunkIndex.of, points, metric, kind)
            plan.add("index-summary", b, attrgetter("summary"), index)
            order = plan.add("row-order", b, attrgetter("order"), index)
            plan.add("points", (b, 0), np.take, points, order, 0)
        self.X, self._indexes, summaries = persisted(
            plan.array("points", cells.sizes, X.shape[1], X.dtype),
            plan.parts("index", self._chunks),
            plan.parts("index-summary", self._chunks),
            name="indexing points",
        )
        sizes, methods, boxes, orders, self.counts = zip(*gathered(summaries), strict=True)
        assert cells.order is not None
        order = cells.order[np.concatenate([start + some for start, some in zip(cells.starts, orders, strict=False)])]
        self.layout = Layout(cells.sizes, cells.given, order)
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self._boxes = np.stack(boxes)
        # Exact chunks among approximate ones do not make the search exact.
        self.method = "clusters" if "clusters" in methods else methods[0]

    @classmethod
    def search(
        cls, X: Any, n_neighbors: int, metric: Metric, *, at_least: int = 0
    ) -> tuple[ChunkedNeighborhoods, ChunkedLists]:
        """Index points, and list their neighbours; `at_least` is the largest k for which the lists give scales."""
        hoods = cls(X, n_neighbors, metric)
        return hoods, hoods.lists(at_least)

    @property
    def n_vertices(self) -> int:
        """Number of distinct points."""
        return int(self.starts[-1])

    @property
    def multiplicity(self) -> IntArray | None:
        """Rows of each vertex, (U,); None without duplicates."""
        if all(counts is None for counts in self.counts):
            return None
        sizes = np.diff(self.starts)
        counts = [np.ones(n, np.int64) if c is None else c for n, c in zip(sizes, self.counts, strict=True)]
        return np.concatenate(counts)

    def at_points(self, values: Any) -> Any:
        """Values of the vertices as values of the rows on the workers, (U,) -> (N,)."""
        counts = self.multiplicity
        return values if counts is None else np.repeat(values, counts)

    def at_vertices(self, values: Any) -> Any:
        """Values of the samples, in the order of the data, as values of the vertices, (N,) -> (U,)."""
        values, counts = values[self.layout.samples(np.arange(len(values)))], self.multiplicity
        if counts is None:
            return values
        return values[np.cumsum(counts) - counts]  # of the first row of each vertex

    def lists(self, at_least: int = 0) -> ChunkedLists:
        """List the neighbours of every vertex, enough for scales by the `at_least`-th."""
        n, k = self.n_vertices, self.n_neighbors
        if n < 2:
            raise no_distance()
        wanted, most = lengths(n, k, at_least)
        while True:
            lists = self._search_all(wanted)
            found = _of_lists(lists, "radii", _radii, k)
            radii = np.concatenate([some for some, _ in found])
            if wanted == most or not tied_often(sum(tied for _, tied in found), n):
                break
            wanted = min(most, 2 * wanted)
        check_radii(radii)
        recall = self._measure_recall(lists, at_least) if self.method == "clusters" else 1.0
        return ChunkedLists(lists, radii, recall)

    def _search_all(self, length: int) -> Parts:
        """List `length` neighbours of every vertex."""
        plan = Plan(self._indexes)
        for a, key in enumerate(plan.keys(self._indexes)):
            own = plan.add("search-own", a, ChunkIndex.own_lists, key, int(self.starts[a]), length)
            index = plan.add("tuned-index", a, getitem, own, 0)
            plan.add("own-lists", a, getitem, own, 1)
            plan.add("vertices", a, attrgetter("points"), index)
        labels = ("tuned-index", "own-lists", "vertices")
        parts = persisted(*(plan.parts(label, self._chunks) for label in labels), name="finding neighbours")
        self._indexes, lists, points = parts
        return self._search_others(lists, points, self._chunks)

    def _search_others(self, lists: Parts, points: Parts, homes: Sequence[int]) -> Parts:
        """Lists extended by the vertices of all chunks that may have nearer ones, except `homes`, searched already."""
        plan, every = Plan(lists, points, self._indexes), range(len(lists))
        keys = list(zip(plan.keys(lists), plan.keys(points), strict=True))
        counts = np.ones((len(lists), len(self._chunks)), dtype=np.int64)
        if self._exponent is not None:
            boxes = plan.share(self._boxes)
            for s, (known, here) in enumerate(keys):
                plan.add("reach", s, _reach, known, here, boxes, self._exponent)
            counts = np.array(gathered(plan.parts("reach", every)))
        plan, indexes = Plan(lists, points, self._indexes), plan.keys(self._indexes)
        boxes = plan.share(self._boxes)
        for s, (known, here) in enumerate(keys):
            # The chunks that most points need come first, then in the order of their numbers from the home on.
            others = np.roll(self._chunks, -homes[s])[1:]
            for b in others[np.argsort(-counts[s, others], kind="stable")].tolist():
                if counts[s, b]:
                    where = b, int(self.starts[b]), self._exponent
                    known = plan.add("search", (s, b), _extended, known, here, indexes[b], boxes, where)  # noqa: PLW2901
            plan.add("lists", s, same, known)
        return list(persisted(plan.parts("lists", every), name="finding neighbours"))

    def _measure_recall(self, parts: Parts, at_least: int) -> float:
        """Share of the listed neighbours of a sample that are as near as the true ones."""
        length = lengths(self.n_vertices, self.n_neighbors, at_least)[0]
        rows = np.sort(self.layout.positions(sample(self.layout.n_samples, _RECALL_SAMPLE)))
        points, vertices = gathered(self.X[rows]), self.at_points(np.arange(self.n_vertices))[rows]
        plan = Plan(parts, self._indexes)
        for b, (lists, index) in enumerate(zip(plan.keys(parts), plan.keys(self._indexes), strict=True)):
            here = (vertices >= self.starts[b]) & (vertices < self.starts[b + 1])
            plan.add("listed-distances", b, _listed, lists, vertices[here] - self.starts[b], length)
            plan.add("exact-distances", b, ChunkIndex.exact_distances, index, points, self._metric, length + 1)
        labels = "listed-distances", "exact-distances"
        listed, exact = gathered(*(plan.parts(label, self._chunks) for label in labels))
        # A point is the nearest to itself, and is left out.
        true = np.sort(np.concatenate(exact, axis=1), axis=1)[:, length]
        return float((np.concatenate(listed) <= SAME * true[:, None]).mean())

    def query(self, Q: Any, k_scale: int) -> tuple[Layout, Any, Parts]:
        """The nearest vertices of new points, (m, d), at least `k_scale` of them.

        Returns the layout in which new points are sorted by their nearest chunk, the points in it, and a part with the
        lists of neighbours for each of its chunks.
        """
        length = looked_at(self.n_vertices, self.n_neighbors, k_scale)
        plan = Plan(Q)
        boxes = plan.share(self._boxes)
        for s, points in enumerate(plan.keys(Q)):
            plan.add("nearest-chunk", s, _nearest_box, points, boxes, self._exponent or 2.0)
        home = gathered(plan.array("nearest-chunk", Q.chunks[0], None, np.int64))
        counts = np.bincount(home, minlength=len(self._chunks)).tolist()
        pieces = [(b, min(_QUERIES, n - at)) for b, n in enumerate(counts) for at in range(0, n, _QUERIES)]
        homes, sizes = zip(*pieces, strict=True)
        layout = Layout(sizes, Q.chunks[0], np.argsort(home, kind="stable"))
        Q = persisted(layout.arranged(Q), name="sorting new points by location")
        plan, every = Plan(Q, self._indexes), range(len(homes))
        indexes = plan.keys(self._indexes)
        for s, (points, b) in enumerate(zip(plan.keys(Q), homes, strict=True)):
            plan.add("search-own", s, ChunkIndex.lists_of, indexes[b], points, int(self.starts[b]), length)
            plan.add("new-points", s, same, points)
        lists, points = persisted(plan.parts("search-own", every), plan.parts("new-points", every))
        return layout, Q, self._search_others(lists, points, homes)


def _padded(found: Lists, start: int, length: int) -> Lists:
    """Lists of `length` vertices, from those found in a chunk whose first vertex has the number `start`."""
    ids, squared = found
    missing = (0, 0), (0, length - ids.shape[1])
    ids = np.pad(start + ids.astype(np.int64), missing, constant_values=-1)
    return ids, np.pad(squared.astype(np.float64), missing, constant_values=np.inf)


def _of_lists(parts: Parts, label: str, function: Any, k: int) -> list[Any]:
    """``function(lists, k)`` for each chunk, gathered."""
    plan = Plan(parts)
    for b, lists in enumerate(plan.keys(parts)):
        plan.add(label, b, function, lists, k)
    return list(gathered(plan.parts(label, range(len(parts)))))


def kth_of(lists: Lists, k: int) -> FloatArray:
    """Squared distance to the k-th neighbour at a positive distance, from lists, (m,)."""
    return kth_apart(lists[1], k)


def _radii(lists: Lists, k: int) -> tuple[FloatArray, int]:
    """Distances to the k-th neighbour, and how many vertices may have more neighbours as far away."""
    radii = kth_of(lists, k)
    return radii, n_tied(within(lists[1], radii), radii, lists[1].shape[1])


def _listed(lists: Lists, rows: IntArray, length: int) -> FloatArray:
    return lists[1][rows, :length]


def _box_distances(points: FloatArray, box: FloatArray, p: float) -> FloatArray:
    """Lower bounds of the squared distances of points to those in a box, by a Minkowski metric, (m,)."""
    out = np.empty(len(points))
    for rows in chunks(len(points), points.shape[1], _ENTRIES):
        gaps = np.maximum(np.maximum(box[0] - points[rows], points[rows] - box[1]), 0.0)
        out[rows] = np.linalg.norm(gaps, ord=p, axis=1) ** 2
    return _ROUNDED * out


def _reach(lists: Lists, points: FloatArray, boxes: FloatArray, p: float) -> list[int]:
    """How many of the points may have neighbours in each chunk."""
    return [int((_box_distances(points, box, p) <= lists[1][:, -1]).sum()) for box in boxes]


def _nearest_box(points: FloatArray, boxes: FloatArray, p: float) -> IntArray:
    """The chunk that each point is nearest to."""
    nearest: IntArray = np.stack([_box_distances(points, box, p) for box in boxes]).argmin(axis=0)
    return nearest


def _extended(
    lists: Lists, points: FloatArray, other: ChunkIndex, boxes: FloatArray, where: tuple[int, int, float | None]
) -> Lists:
    """Lists with the vertices of another chunk; of equal distances the smaller number comes first.

    `where` is the number of the chunk, the number of its first vertex, and the exponent of the metric.
    """
    (ids, squared), (b, start, p) = lists, where
    length = ids.shape[1]
    near = True if p is None else _box_distances(points, boxes[b], p) <= squared[:, -1]
    rows = np.flatnonzero(np.broadcast_to(near, len(points)))
    if not len(rows):
        return lists
    found = other.lists_of(points[rows], start, min(length, len(other.points)))
    width = int((found[1] <= squared[rows, -1:]).sum(axis=1).max())  # the others are too far for all rows
    all_ids = np.concatenate([ids[rows], found[0][:, :width]], axis=1)
    all_squared = np.concatenate([squared[rows], found[1][:, :width]], axis=1)
    order = np.lexsort((all_ids, all_squared), axis=1)[:, :length]
    ids, squared = ids.copy(), squared.copy()
    ids[rows] = np.take_along_axis(all_ids, order, axis=1)
    squared[rows] = np.take_along_axis(all_squared, order, axis=1)
    return ids, squared
