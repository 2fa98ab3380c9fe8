"""Grouping points by k-means, roughly: on a sample, a few steps, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._utils.chunks import chunks
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import magnitude
from ..linalg.sketch import sample

__all__ = ["kmeans", "squared_norms"]

# A few steps on so many points for each cluster bring centres close to where they would end up.
_LLOYD_STEPS = 5
_SAMPLE_PER_CLUSTER = 48
# Points that tell the centre and the size of the data, and the coordinates in units of that size that are very far out.
_FEW = 1000
_OUTLYING = 1e4


def squared_norms(A: FloatArray) -> FloatArray:
    """Squared norm of each row, shape (m,)."""
    norms: FloatArray = np.einsum("ij,ij->i", A, A)
    return norms


def kmeans(X: FloatArray, n_clusters: int) -> IntArray:
    """Labels of the points by Lloyd's iteration on a sample, shape (N,).

    Points that lie very far from the others are a cluster by themselves, so that they do not blur any other.
    """
    n = X.shape[0]
    few = np.asarray(X[sample(n, _FEW)], dtype=np.float64)
    centre = np.median(few, axis=0)
    apart = np.abs(few - centre).max(axis=1)
    unit = float(np.median(apart)) or magnitude(apart)

    def normal(rows: Any) -> FloatArray:
        return np.asarray(np.clip((X[rows] - centre) / unit, -_OUTLYING, _OUTLYING), dtype=np.float32)

    centres = normal(sample(n, n_clusters))
    some = normal(sample(n, _SAMPLE_PER_CLUSTER * n_clusters))
    for _ in range(_LLOYD_STEPS):
        labels = _nearest(lambda rows: some[rows], len(some), centres)
        order = np.argsort(labels, kind="stable")
        taken, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        inside = taken < n_clusters
        means = np.add.reduceat(some[order], starts, axis=0) / sizes[:, None]
        centres[taken[inside]] = means[inside]
    return _nearest(normal, n, centres)


def _nearest(points: Callable[[slice], FloatArray], n: int, centres: FloatArray) -> IntArray:
    """Number of the nearest centre of each of n points, or one more for those that lie very far out, shape (n,)."""
    labels = np.empty(n, dtype=np.int64)
    half = 0.5 * squared_norms(centres)

    def assign(rows: slice) -> None:
        here = points(rows)
        labels[rows] = (here @ centres.T - half).argmax(axis=1)
        labels[rows][np.abs(here).max(axis=1) >= _OUTLYING] = len(centres)

    each(assign, chunks(n, len(centres), 1 << 19))
    return labels
