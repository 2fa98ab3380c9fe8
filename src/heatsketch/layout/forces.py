"""Forces between the points of an embedding: attraction, repulsion, and what keeps distances to landmarks.

The repulsion between all pairs is summed directly for few points. For more, in one to three dimensions, near pairs are
summed directly and the smooth remainder is interpolated on a grid (:mod:`heatsketch.layout.grid`). In more dimensions
the points repel a random sample, a new one in each step, which is unbiased.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from .._utils.array import array_namespace, asarray_like, device
from .._utils.chunks import chunks
from .._utils.threads import each, shares
from .._utils.typing import FloatArray, IntArray
from ..compiled import forces as loops
from .grid import Field, Grid, Scales

__all__ = ["DRAWN", "FEW_POINTS", "GRID_DIMENSIONS", "Forces", "GridRepulsion", "forces", "log_distances"]

# Points up to which the repulsion of all pairs is summed directly: a grid would take longer.
FEW_POINTS = 8_192
# Dimensions in which a grid is faster than all pairs.
GRID_DIMENSIONS = 3
# Points that repel all others in a step, in more dimensions.
DRAWN = 1_024
# Squared distances below this fraction of the mean squared norm of features are those of coinciding points.
_COINCIDENT = 1e-6


class Forces(Protocol):
    """Sums over pairs for an embedding Y, (n, k), with similarities P of neighbours and a scale s of each point."""

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)``, (n, k)."""

    def divergence(self, Y: Any) -> float:
        """``sum_ij P_ij log(1 + |y_i - y_j|^2 / (s_i s_j))``."""

    def repulsion(self, Y: Any) -> tuple[Any, float]:
        """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)``, (n, k), and the sum of q_ij over all i and j, i not j."""

    def stretching(self, Y: Any, least: float, mean: float) -> tuple[Any, float, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the landmarks j, (n, k), and mean and variance of l_ij.

        ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least``; pairs that coincide are left out.
        """


def log_distances(features: Any, landmarks: IntArray) -> Any:
    """Logarithms of the squared distances between all rows of features and some, (n, m), in float32 and any unit.

    They are -100 for pairs that coincide.
    """
    xp, chosen = array_namespace(features), features[asarray_like(landmarks, features)]
    unit = float(xp.max(xp.abs(features))) or 1.0  # squares could underflow
    unit *= float(xp.mean(xp.square(features / unit)) * features.shape[1]) ** 0.5 or 1.0
    chosen = chosen / unit
    own = xp.sum(chosen * chosen, axis=1)
    logs = xp.empty((features.shape[0], len(landmarks)), dtype=xp.float32, device=device(features))
    for rows in chunks(features.shape[0], features.shape[1]):
        block = features[rows] / unit
        squared = xp.sum(block * block, axis=1)[:, None] + own - 2.0 * (block @ chosen.T)
        logs[rows] = xp.where(squared > _COINCIDENT, xp.log(xp.clip(squared, min=_COINCIDENT)), -100.0)
    return logs


class GridRepulsion:
    """The repulsion of all pairs by a grid, which is made again when points leave it or have moved together."""

    def __init__(self, scales: Scales) -> None:
        self._scales = scales
        self._grid: Grid | None = None

    def __call__(self, Y: FloatArray) -> tuple[FloatArray, float]:
        """Forces on the points Y, (n, k), and the sum of similarities, as `Forces.repulsion`."""
        if self._grid is None or not self._grid.suits(Y):
            self._grid = Grid.around(Y, self._scales)
        return Field.on_grid(self._grid, Y, self._scales).forces()


class CompiledForces:
    """Forces by compiled loops, on all cores; each row is computed by one of them.

    Parameters
    ----------
    features : ndarray of shape (n, m)
        Distances are compared between its rows.
    graph : csr_array of shape (n, n)
        P.
    scales : ndarray of shape (n,)
    landmarks : ndarray of int
    seed : int
        Of the points that are drawn.
    """

    def __init__(self, features: FloatArray, graph: Any, scales: FloatArray, landmarks: IntArray, seed: int) -> None:
        self._P, self._n, self._landmarks = graph, len(features), landmarks
        self._logs = log_distances(features, landmarks)
        self._pairs = max(1, int(np.count_nonzero(self._logs > -100.0)))
        self._scales, self._rng = Scales.of(scales), np.random.default_rng(seed)
        self._grid = GridRepulsion(self._scales)

    def attraction(self, Y: FloatArray) -> FloatArray:
        """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)``, (n, k)."""
        P, s, out = self._P, self._scales.values, np.empty_like(Y)
        work = shares(self._n, 4 * Y.shape[1] * (1 + P.nnz // self._n))
        each(
            lambda rows: loops.attract(P.indptr, P.indices, P.data, Y, s, out, rows.start, rows.stop), work, blas=False
        )
        return out

    def divergence(self, Y: FloatArray) -> float:
        """``sum_ij P_ij log(1 + |y_i - y_j|^2 / (s_i s_j))``."""
        P, s, out = self._P, self._scales.values, np.empty(self._n)
        work = shares(self._n, 32 * (1 + P.nnz // self._n))
        each(
            lambda rows: loops.divergence(P.indptr, P.indices, P.data, Y, s, out, rows.start, rows.stop),
            work,
            blas=False,
        )
        return float(out.sum())

    def repulsion(self, Y: FloatArray) -> tuple[FloatArray, float]:
        """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)``, (n, k), and the sum of q_ij over all i and j, i not j."""
        n, k = Y.shape
        if n > FEW_POINTS and k <= GRID_DIMENSIONS:
            return self._grid(Y)
        if n <= max(FEW_POINTS if k <= GRID_DIMENSIONS else 0, 2 * DRAWN):
            return Field.of_points(Y, self._scales).between(Y, self._scales)
        drawn = self._rng.choice(n, DRAWN, replace=False, shuffle=False)
        out, total = Field.of_points(Y[drawn], self._scales.at(drawn)).between(Y, self._scales)
        share = n / len(drawn)
        return share * out, share * total

    def stretching(self, Y: FloatArray, least: float, mean: float) -> tuple[FloatArray, float, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the landmarks j, (n, k), and mean and variance of l_ij."""
        out, others = np.empty_like(Y), np.ascontiguousarray(Y[self._landmarks].T)
        totals = np.empty((2, self._n))
        logs, work = self._logs, shares(self._n, 4 * others.size)

        def stretch(rows: slice) -> None:
            loops.stretch(Y, others, logs, least, mean, out, totals[0], totals[1], rows.start, rows.stop)

        each(stretch, work, blas=False)
        mean, square = totals.sum(axis=1) / self._pairs
        return out, float(mean), float(square - mean * mean)


@singledispatch
def forces(features: Any, graph: Any, scales: FloatArray, landmarks: IntArray, seed: int) -> Forces:
    """Forces for a graph of neighbours in CSR form, (n, n), and scales, (n,); backends register their own features."""
    return CompiledForces(features, graph, scales, landmarks, seed)
