"""Shortest paths in a neighbour graph of a sample, the reference for choosing the scales of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra

from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, row_distances, squared_distances
from ..linalg.sketch import sample
from .neighborhoods import distinct
from .search import nearest_neighbors

__all__ = ["Paths", "among", "shortest_paths"]

# Points of the sample, neighbours in the graph, and sources of paths to all others.
_POINTS, _NEIGHBORS, _LANDMARKS = 1000, 15, 16
# Points closer than this, relative to the farthest, coincide.
_COINCIDENT = 1e-12
# Points on different folds: ratio of path length to straight-line distance.
_DETOUR = 3.0
_ORDER = 0x0DE  # seed of the order of the sample, fixed so that choices are deterministic


@dataclass(frozen=True)
class Paths:
    """Pairs of points of a sample, and the lengths of the shortest paths between them.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        The sample, in random order.
    i, j : ndarrays of int, shape (n_pairs,)
        Positions in the sample: sources with all others, and neighbours.
    lengths, straight : ndarrays of shape (n_pairs,)
        Lengths of paths, and straight-line distances; positive.
    """

    rows: IntArray
    i: IntArray
    j: IntArray
    lengths: FloatArray
    straight: FloatArray

    def first(self, m: int) -> Paths:
        """The pairs among the first m points of the sample."""
        if m >= len(self.rows):
            return self
        some = (self.i < m) & (self.j < m)
        return Paths(self.rows[:m], self.i[some], self.j[some], self.lengths[some], self.straight[some])

    def distortion(self, F: FloatArray, *, exact: bool = False) -> float:
        """Deviation of distances between features (m, q) of the sample from being proportional to the paths.

        The root mean square of ``log(|f_i - f_j| / length)`` about its mean for a sketch, whose noise adds the same at
        all times; the fourth root of the mean fourth power for exact distances, which weighs the worst pairs more.
        """
        d = row_distances(np.ascontiguousarray(F), self.i, self.j)
        if not d.any():
            return float("inf")
        ratios = np.log(np.maximum(d, np.finfo(np.float64).tiny) / self.lengths)
        squared = np.square(ratios - ratios.mean())
        return float(np.mean(np.square(squared)) ** 0.25 if exact else np.mean(squared) ** 0.5)

    def leak(self, epsilon: float) -> float:
        """Share of the affinity of a Gaussian kernel, over these pairs, between points on different folds."""
        affinity = np.exp(-np.square(self.straight) / epsilon)
        total = float(affinity.sum())
        return float(affinity[self.lengths > _DETOUR * self.straight].sum() / total) if total else 0.0


def shortest_paths(X: Any, metric: Metric) -> Paths | None:
    """Shortest paths between points of a sample, in the graph of fifteen nearest neighbours.

    Components are linked by their closest pairs, so that every pair has a path. None if fewer than three of the points
    are distinct.
    """
    rows = sample(X.shape[0], _POINTS)
    same = distinct(among(X, rows, metric))
    rows = rows if same is None else rows[np.sort(same[0])]
    m = len(rows)
    if m < 3:
        return None
    # Random order: the first points are the sources.
    rows = rows[np.random.default_rng(_ORDER).permutation(m)]
    Z = among(X, rows, metric)
    near = nearest_neighbors(Z, min(_NEIGHBORS, m - 1), metric)
    k = near.indices.shape[1]
    # Distances may be zero though rows differ (cosine distance, say), and a sparse graph has no edges of length zero.
    steps = np.maximum(np.sqrt(near.squared, dtype=np.float64).ravel(), _COINCIDENT * np.sqrt(near.squared.max()))
    graph = sparse.csr_array((steps, (np.repeat(np.arange(m), k), near.indices.ravel())), shape=(m, m))
    graph = _linked(sparse.csr_array(graph.maximum(graph.T)), Z, metric)
    sources = np.arange(min(_LANDMARKS, m))
    graph.indices, graph.indptr = (part.astype(np.int32) for part in (graph.indices, graph.indptr))  # SciPy 1.12
    far = dijkstra(graph, directed=False, indices=sources)
    straight = np.sqrt(squared_distances(Z[sources], None if metric.precomputed else Z, metric), dtype=np.float64)
    edges = sparse.triu(graph, 1).tocoo()
    i = np.concatenate([np.repeat(sources, m), edges.row])
    j = np.concatenate([np.tile(np.arange(m), len(sources)), edges.col])
    lengths, straight = (np.concatenate([some.ravel(), edges.data]) for some in (far, straight))
    apart = straight > _COINCIDENT * straight.max()
    return Paths(rows, i[apart], j[apart], lengths[apart], straight[apart])


def among(X: Any, rows: IntArray, metric: Metric) -> Any:
    """The sample: its points, or the distances between them."""
    return X[rows][:, rows] if metric.precomputed else X[rows]


def _linked(graph: sparse.csr_array, Z: Any, metric: Metric) -> sparse.csr_array:
    """The graph with its components joined, one after another, by the shortest link."""
    n_parts, part = connected_components(graph, directed=False)
    if n_parts == 1:
        return graph
    D = np.sqrt(squared_distances(Z, None, metric), dtype=np.float64)
    linked = graph.tolil()
    for _ in range(n_parts - 1):
        inside, outside = np.flatnonzero(part == part[0]), np.flatnonzero(part != part[0])
        between = D[np.ix_(inside, outside)]
        a, b = np.unravel_index(int(np.argmin(between)), between.shape)
        i, j = inside[a], outside[b]
        linked[i, j] = linked[j, i] = D[i, j]
        part[part == part[j]] = part[0]
    return sparse.csr_array(linked)
