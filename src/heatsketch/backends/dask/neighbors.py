"""Neighbours of points that lie in bands: an index for each band, those that may hold neighbours asked, lists merged.

A band is searched by itself first. A point then asks the other bands, one after the other, as long as their boxes are
nearer than the farthest vertex on its list; by metrics that do not know how far a box is it asks all of them. What
travels are the points that ask, and lists.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import Metric, no_distance
from ...linalg.sketch import sample
from ...neighbors.clusters import SAME
from ...neighbors.neighborhoods import WIDEST, lengths, looked_at, tied_often
from ...neighbors.search import index_kind, minkowski_exponent
from .layout import Layout
from .shards import (
    Asked,
    Lists,
    Shard,
    Vertices,
    ask,
    call,
    exactly,
    merge,
    nearest_box,
    numbered,
    own_lists,
    reach,
    search,
)
from .tasks import Parts, Plan, gathered, pick, same, settled

__all__ = ["BandedNeighborhoods", "Widest"]

# Points on which the recall is measured where an index is not exact.
_RECALL_SAMPLE = 160
# What is noted of a vertex for new points: how many points it is, its squared radius, and its scale.
_NOTES = 3
Widest = tuple[IntArray, FloatArray, FloatArray]


class BandedNeighborhoods:
    """Neighbourhoods of the points of a Dask array: `heatsketch.neighbors.neighborhoods.Neighborhoods` in bands.

    Parameters
    ----------
    X : Dask array of shape (N, d), in the bands of `layout`
        Equal points are in the same band.
    layout : Layout
    n_neighbors : int
    metric : Metric
    at_least : int
        Neighbours that `scales` will be asked for.

    Attributes
    ----------
    shards : parts of Shard
    lists : parts of Lists
        The neighbours of the vertices of each band; given up with `forget`.
    radii : parts of ndarrays of shape (U_b,)
        Squared distance of each vertex to its k-th neighbour.
    sizes : list of int
        Vertices of each band.
    method : str
        How the bands are searched: "tree", "clusters" or "blocks".
    recall : float
        Share of the true neighbours found, on a sample; 1 if all bands are searched exactly.
    """

    def __init__(self, X: Any, layout: Layout, n_neighbors: int, metric: Metric, *, at_least: int = 0) -> None:
        self._metric, self._layout, self.n_neighbors, self._at_least = metric, layout, n_neighbors, at_least
        self._exponent, self._bands = minkowski_exponent(metric), range(len(layout.sizes))
        # In few dimensions trees are best for bands of any size; elsewhere it depends on the size.
        kind = index_kind(X.shape, metric, sparse_points=False)
        plan = Plan(X)
        for b, points in enumerate(plan.keys(X)):
            shard = plan.add("index", b, Shard.of, points, metric, "tree" if kind == "tree" else None)
            plan.add("box", b, call, "box", shard)
            plan.add("vertices", b, call, "vertices", shard)
            plan.add("index-summary", b, _summary, shard)
        labels = ("index", "box", "vertices", "index-summary")
        self.shards, self._boxes, self.vertices, summaries = settled(
            *(plan.parts(label, self._bands) for label in labels), name="indexing bands"
        )
        found = gathered(summaries)
        self.sizes, folded, methods = ([one[i] for one in found] for i in range(3))
        # Exact bands among approximate ones do not make the search exact.
        self.method = "clusters" if "clusters" in methods else methods[0]
        self._folded = any(folded)
        self._search(X)
        self.recall = self._measure_recall(X) if self.method == "clusters" else 1.0

    @property
    def n_vertices(self) -> int:
        """Number of distinct points."""
        return sum(self.sizes)

    def _search(self, X: Any) -> None:
        n, k = self.n_vertices, self.n_neighbors
        if n < 2:
            raise no_distance(X.shape[0])
        wanted, most = lengths(n, k, self._at_least)
        while True:
            self._search_all(wanted)
            plan = Plan(self.lists)
            for b, lists in enumerate(plan.keys(self.lists)):
                plan.add("count-ties", b, call, "tied", lists, k)
            found = gathered(plan.parts("count-ties", self._bands))
            if wanted == most or not tied_often(sum(tied for tied, _ in found), n):
                break
            wanted = min(most, 2 * wanted)
        if not any(positive for _, positive in found):
            raise no_distance(n)
        self.radii = self.scales(k)

    def _search_all(self, length: int) -> None:
        """Look for so many neighbours of every vertex."""
        plan = Plan(self.shards, self._boxes, self.vertices)
        boxes = plan.keys(self._boxes)
        for a, shard in enumerate(plan.keys(self.shards)):
            noted = plan.add("notes", a, _multiplicity, plan.keys(self.vertices)[a], self.sizes[a], self._folded)
            own = plan.add("search-own", a, own_lists, shard, noted, a, length)
            plan.add("shard", a, getitem, own, 0)
            lists = plan.add("own-lists", a, getitem, own, 1)
            points = plan.add("vertex-points", a, call, "points", shard)
            if self._exponent is not None:
                plan.add("reach", a, reach, lists, points, boxes, self._exponent)
        labels = ["notes", "shard", "own-lists", "vertex-points"]
        labels += ["reach"] if self._exponent is not None else []
        parts = settled(*(plan.parts(label, self._bands) for label in labels), name="finding neighbours")
        notes, self.shards, lists, points = parts[:4]
        table = np.array(gathered(parts[4])) if self._exponent is not None else None
        self.lists = self._asked_around(lists, points, notes, table)

    def _asked_around(self, lists: Parts, points: Parts, notes: Parts, table: IntArray | None) -> Parts:
        """Lists of the vertices of each band, after all other bands that may hold neighbours have been asked."""
        plan = Plan(self.shards, self._boxes, lists, points, notes)
        boxes, keys = plan.keys(self._boxes), zip(plan.keys(lists), plan.keys(points), strict=True)
        for a, (known, here) in enumerate(keys):
            for b in _round_trip(a, len(self._bands), None if table is None else table[a]):
                asked = plan.add("ask", (a, b), ask, known, here, boxes[b], self._exponent)
                found = self._add_search(plan, "search", (a, b), asked, notes)
                known = plan.add("merge", (a, b), merge, known, found)  # noqa: PLW2901
            plan.add("lists", a, same, known)
        return list(settled(plan.parts("lists", self._bands), name="finding neighbours"))

    def _add_search(self, plan: Plan, label: str, pair: tuple[int, int], asked: Any, notes: Parts) -> Any:
        """A task that searches band ``pair[1]`` for points that ask; its plan knows the shards and the notes."""
        b = pair[1]
        return plan.add(label, pair, search, plan.keys(self.shards)[b], plan.keys(notes)[b], b, asked)

    def scales(self, k: int) -> Parts:
        """Squared distance of each vertex to its k-th neighbour, for k up to the number listed, parts of (U_b,)."""
        plan = Plan(self.lists)
        for b, lists in enumerate(plan.keys(self.lists)):
            plan.add("kth-neighbour", b, call, "kth", lists, k)
        return list(settled(plan.parts("kth-neighbour", self._bands)))

    def at_points(self, values: Parts) -> Any:
        """Values of the vertices as values of all points, a Dask array of shape (N,), in bands."""
        plan = Plan(values, self.vertices)
        for b, (value, vertices) in enumerate(zip(plan.keys(values), plan.keys(self.vertices), strict=True)):
            plan.add("at-points", b, _at_points, value, vertices)
        return settled(plan.array("at-points", self._layout.sizes, None, np.float64))

    def forget(self) -> None:
        """Give the lists up, once the graph holds what is in them."""
        del self.lists

    def _measure_recall(self, X: Any) -> float:
        """Share of the listed neighbours of a sample that are as near as the true ones."""
        layout = self._layout
        rows = np.sort(layout.positions(sample(layout.n_samples, _RECALL_SAMPLE)))
        points = pick(X, rows)
        bands = np.searchsorted(layout.starts, rows, side="right") - 1
        plan = Plan(self.lists, self.shards, self.vertices)
        keys = zip(plan.keys(self.lists), plan.keys(self.shards), plan.keys(self.vertices), strict=True)
        length = lengths(self.n_vertices, self.n_neighbors, self._at_least)[0]
        for b, (lists, shard, vertices) in enumerate(keys):
            plan.add("found-by-sample", b, _distances_of, lists, vertices, rows[bands == b] - layout.starts[b], length)
            plan.add("exact-for-sample", b, exactly, shard, self._metric, points, length + 1)
        parts = [plan.parts(label, self._bands) for label in ("found-by-sample", "exact-for-sample")]
        listed, exact = gathered(*parts, name="measuring the recall")
        # A point is the nearest to itself, and is left out.
        true = np.sort(np.concatenate(exact, axis=1), axis=1)[:, length]
        return float((np.concatenate(listed) <= SAME * true[:, None]).mean())

    def widest(self, notes: Parts) -> Parts:
        """The vertices of all bands with the widest neighbourhoods: a part of numbers, points and notes."""
        plan = Plan(self.shards, notes)
        some = [
            plan.add("widest-of-band", b, _widest, shard, noted, b)
            for b, (shard, noted) in enumerate(zip(plan.keys(self.shards), plan.keys(notes), strict=True))
        ]
        plan.add("widest", 0, _widest_of_all, some)
        return list(settled(plan.parts("widest", [0])))

    def query(self, Q: Any, notes: Parts, k_scale: int) -> Parts:
        """The nearest vertices of new points.

        Parameters
        ----------
        Q : Dask array of shape (m, d), in chunks of rows
        notes : parts of ndarrays of shape (U_b, n_notes)
            What shall be known of the vertices found; the first note is how many points they are.
        k_scale : int
            Neighbours that must be in the lists.

        Returns
        -------
        lists : parts of Lists, one for each chunk of `Q`
        """
        length = looked_at(self.n_vertices, self.n_neighbors, k_scale)
        plan, chunks = Plan(Q, self._boxes), range(len(Q.chunks[0]))
        for s, points in enumerate(plan.keys(Q)):
            home = plan.add("nearest-band", s, nearest_box, points, plan.keys(self._boxes), self._exponent)
            plan.add("count-nearest", s, np.bincount, home, None, len(self._bands))
        homes, counts = settled(plan.parts("nearest-band", chunks), plan.parts("count-nearest", chunks))
        lists = self._ask_at_home(Q, homes, np.array(gathered(counts)), notes, length)
        table = None
        if self._exponent is not None:
            plan = Plan(Q, lists, self._boxes)
            for s, (known, points) in enumerate(zip(plan.keys(lists), plan.keys(Q), strict=True)):
                plan.add("reach", s, reach, known, points, plan.keys(self._boxes), self._exponent)
            table = np.array(gathered(plan.parts("reach", chunks)))
        plan = Plan(Q, homes, lists, self.shards, self._boxes, notes)
        boxes, keys = plan.keys(self._boxes), zip(plan.keys(lists), plan.keys(Q), plan.keys(homes), strict=True)
        for s, (known, points, home) in enumerate(keys):
            for b in _round_trip(s, len(self._bands), None if table is None else table[s], itself=True):
                asked = plan.add("ask", (s, b), _ask_elsewhere, known, points, home, boxes[b], (b, self._exponent))
                found = self._add_search(plan, "search", (s, b), asked, notes)
                known = plan.add("merge", (s, b), merge, known, found)  # noqa: PLW2901
            plan.add("lists", s, same, known)
        return list(settled(plan.parts("lists", chunks), name="finding neighbours of new points"))

    def _ask_at_home(self, Q: Any, homes: Parts, counts: IntArray, notes: Parts, length: int) -> Parts:
        """Lists of new points with what is in the bands that they are nearest to."""
        plan = Plan(Q, homes, self.shards, notes)
        for s, (points, home) in enumerate(zip(plan.keys(Q), plan.keys(homes), strict=True)):
            known = plan.add("no-lists", s, Lists.nothing, Q.chunks[0][s], length, _NOTES)
            for b in np.flatnonzero(counts[s]).tolist():
                asked = plan.add("ask-nearest", (s, b), _ask_at, known, points, home, b)
                found = self._add_search(plan, "search-nearest", (s, b), asked, notes)
                known = plan.add("merge-nearest", (s, b), merge, known, found)
            plan.add("first-lists", s, same, known)
        return list(settled(plan.parts("first-lists", range(len(counts))), name="finding neighbours of new points"))


def _round_trip(a: int, n_bands: int, counts: IntArray | None, *, itself: bool = False) -> list[int]:
    """The bands that band a asks: those that most of its points may need first, then the next in number."""
    others = [(a + i) % n_bands for i in range(0 if itself else 1, n_bands)]
    if counts is None:
        return others
    return sorted((b for b in others if counts[b]), key=lambda b: -counts[b])


def _summary(shard: Shard) -> tuple[int, bool, str]:
    return len(shard.points), shard.vertices.gather is not None, shard.index.method


def _multiplicity(vertices: Vertices, n: int, folded: bool) -> FloatArray:
    """How many points each vertex is, (n, 1); no notes at all where all are one in every band."""
    if not folded:
        return np.empty((n, 0))
    counts = vertices.counts
    return np.ones((n, 1)) if counts is None else counts[:, None]


def _at_points(values: FloatArray, vertices: Vertices) -> FloatArray:
    return values[vertices.place]


def _distances_of(lists: Lists, vertices: Vertices, rows: IntArray, length: int) -> FloatArray:
    return lists.squared[vertices.place[rows], :length]


def _ask_at(lists: Lists, points: FloatArray, home: IntArray, band: int) -> Asked:
    return ask(lists, points, None, None, np.flatnonzero(home == band))


def _ask_elsewhere(
    lists: Lists, points: FloatArray, home: IntArray, box: FloatArray, band: tuple[int, float | None]
) -> Asked:
    return ask(lists, points, box, band[1], np.flatnonzero(home != band[0]))


def _widest(shard: Shard, notes: FloatArray, band: int) -> Widest:
    some = np.sort(np.argsort(-notes[:, 1], kind="stable")[:WIDEST])
    return numbered(band, some), shard.points[some], notes[some]


def _widest_of_all(bands: list[Widest]) -> Widest:
    ids, points, notes = (np.concatenate(part) for part in zip(*bands, strict=True))
    some = np.sort(np.argsort(-notes[:, 1], kind="stable")[:WIDEST])
    return ids[some], points[some], notes[some]
