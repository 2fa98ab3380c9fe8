"""Shortest paths in a neighbour graph of a sample: which points are far along the data, though close in space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, squared_distances
from ..linalg.sketch import sample
from .neighborhoods import distinct
from .search import nearest_neighbors

__all__ = ["Paths", "shortest_paths"]

# Points of the sample, neighbours in the graph, and sources of paths to all others.
_POINTS, _NEIGHBORS, _SOURCES = 2000, 15, 64
# Points closer than this, relative to the farthest, coincide.
_COINCIDENT = 1e-12
# Points on different folds: their path is this many times longer than those of typical pairs at their distance.
_DETOUR = 2.0
_ORDER = 0x0DE  # seed of the order of the sample, fixed so that results repeat


@dataclass(frozen=True)
class Paths:
    """Straight-line distances and shortest paths from some points of a sample to all of its points.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        The sample, in random order; its first s points are the sources.
    straight : ndarray of shape (s, m)
        Distances.
    lengths : ndarray of shape (s, m)
        Lengths of shortest paths over the fifteen nearest neighbours of each point of the sample; infinite between
        components of that graph.
    """

    rows: IntArray
    straight: FloatArray
    lengths: FloatArray

    @property
    def sources(self) -> IntArray:
        """Rows of the sources, shape (s,)."""
        return self.rows[: len(self.straight)]

    def crossing(self) -> NDArray[np.bool_]:
        """Pairs on different folds of the data: joined by a path that makes a detour, shape (s, m).

        In many dimensions all paths are longer than straight lines, so detours are relative to the median pair.
        """
        joined: NDArray[np.bool_] = np.isfinite(self.lengths) & (self.straight > _COINCIDENT * self.straight.max())
        if not joined.any():
            return joined
        detours = np.divide(self.lengths, self.straight, out=np.ones_like(self.lengths), where=joined)
        return np.asarray(detours > _DETOUR * np.median(detours[joined]))

    def concentration(self) -> float:
        """Distance of the fifteenth neighbour over that of the median point, in the middle of the sample."""
        k = max(1, min(_NEIGHBORS, self.straight.shape[1] // 32))
        ordered = np.sort(self.straight, axis=1)
        return float(np.median(ordered[:, k] / np.median(ordered, axis=1)))


def shortest_paths(X: Any, metric: Metric) -> Paths | None:
    """Shortest paths between points of a sample; None if fewer than three of the points are distinct."""
    rows = sample(X.shape[0], _POINTS)
    same = distinct(_among(X, rows, metric))
    rows = rows if same is None else rows[np.sort(same[0])]
    m = len(rows)
    if m < 3:
        return None
    rows = rows[np.random.default_rng(_ORDER).permutation(m)]
    Z = _among(X, rows, metric)
    near = nearest_neighbors(Z, min(_NEIGHBORS, m - 1), metric)
    # Distances may be zero though rows differ (cosine distance, say), and a sparse graph has no edges of length zero.
    steps = np.maximum(np.sqrt(near.squared, dtype=np.float64).ravel(), _COINCIDENT * np.sqrt(near.squared.max()))
    starts = np.repeat(np.arange(m), near.indices.shape[1])
    graph = sparse.csr_array((steps, (starts, near.indices.ravel())), shape=(m, m))
    graph.indices, graph.indptr = (part.astype(np.int32) for part in (graph.indices, graph.indptr))  # SciPy 1.12
    sources = np.arange(min(_SOURCES, m))
    lengths = dijkstra(graph, directed=False, indices=sources)
    straight = np.sqrt(squared_distances(Z[sources], None if metric.precomputed else Z, metric), dtype=np.float64)
    return Paths(rows, straight, lengths)


def _among(X: Any, rows: IntArray, metric: Metric) -> Any:
    """The sample: its points, or the distances between them."""
    return X[rows][:, rows] if metric.precomputed else X[rows]
