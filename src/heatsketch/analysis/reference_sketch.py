"""Independent reference sketch, for confidence intervals of embeddings that have no known law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import array_namespace, astype
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from ..kernel.operator import HeatKernel, KernelGraph
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.metrics import row_distances
from ..linalg.range_finder import leading_directions
from ..neighbors.search import neighbors_of
from ..optimize.features import deflated_features
from .distances import rows_of_pairs, sketch_interval

__all__ = ["ReferenceSketch", "reference_sketch"]

# For data of up to _FEW points: columns, how many of them are exact directions, and the relative error of distances by
# the polynomial of a multiscale filter. For larger data: the last two; the caller chooses the columns. Columns that are
# not exact are random ones of the remainder.
_FEW = 2000
_SMALL = 128, 32, 1e-4
_LARGE = 8, 0.01
_SEED = 0x317E55
# Candidates for true neighbours that are measured at a time, on each thread.
_MEASURED = 1 << 17


@dataclass(frozen=True)
class ReferenceSketch:
    """Diffusion distances by r exact leading directions and a Gaussian sketch of the remainder.

    Squared distances between rows of `features`, (N, r + m), are unbiased, up to the relative error `error` of all
    distances. The standard error of a distance is at most ``1 / sqrt(2 m)``, and less for pairs whose distance is
    mostly along the exact directions.
    """

    features: FloatArray
    n_exact: int
    kernel: HeatKernel
    power: Power
    error: float = 0.0

    def interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        """Confidence interval of diffusion distances, for pairs (m, 2) or condensed for all."""
        options: dict[str, Any] = {"n_exact": self.n_exact, "kernel": self.kernel, "power": self.power}
        low, high = sketch_interval(self.features, pairs, level, **options)
        return low / (1.0 + self.error), high / (1.0 - self.error)

    def log_variance(self, pairs: IntArray) -> float:
        """What errors of the sketch add to the variance of the logarithms of distances over pairs, (p, 2).

        With s the share of the sketched remainder in the squared distance of a pair, the error of its logarithm has the
        variance ``s^2 / (2 m)``. As all pairs see the same random columns, the errors of two of them have the
        covariance ``s s' cos^2 / (2 m)``, with the angle between their remainders. What they have in common does not
        add to the variance over pairs.
        """
        m = self.features.shape[1] - self.n_exact
        ends = rows_of_pairs(self.features, pairs)
        rest = ends[:, 0] - ends[:, 1]
        total = np.square(rest).sum(axis=1)
        rest = rest[:, self.n_exact :] / np.sqrt(np.where(total > 0, total, np.inf))[:, None]
        share = np.square(rest).sum(axis=1)
        # Vectors u = s^(1/2) r / |r| with (u . u')^2 = s s' cos^2, and mean (u . u')^2 = |mean u u^T|^2.
        along = np.einsum("pi,pj->ij", rest, rest, optimize=True) / len(pairs)
        seen = float(np.square(along).sum())
        # Random columns add (1 - cos^2) / m to each squared cosine.
        common = max(0.0, (m * seen - float(share.mean()) ** 2) / max(1, m - 1))
        return float(max(0.0, np.mean(np.square(share)) - common) / (2.0 * m))

    def neighbors(self, rows: IntArray, k: int) -> IntArray:
        """Points that are near to some points by diffusion distance, (m, k).

        If the kernel is a graph, they are the nearest of the points within two edges, by the estimated distance,
        otherwise of all points.
        """
        found = np.full((len(rows), k), -1)
        graph = self.kernel.graph()
        if graph is not None:
            # Through a hub many points are within two edges.
            edges = graph.S[graph.places[rows]]
            sizes = np.diff(graph.S.indptr)[edges.indices]
            most = np.add.reduceat(np.append(sizes, 0), edges.indptr[:-1]) * (np.diff(edges.indptr) > 0)
            pieces = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(np.cumsum(most) // _MEASURED)) + 1)
            points = graph.points
            each(lambda some: self._within_two_edges(graph, points, rows[some], found, some), pieces)
        lacking = np.flatnonzero(found[:, 0] < 0)
        if len(lacking):
            device = self.kernel.device
            kind = None if device else "blocks"
            found[lacking] = neighbors_of(rows[lacking], self.features, k, device, kind=kind)
        return found

    def _within_two_edges(
        self, graph: KernelGraph, points: IntArray, rows: IntArray, found: IntArray, at: IntArray
    ) -> None:
        """Set the rows `at` of `found`, (m, k), to the nearest points within two edges, if there are k of them.

        `points` are those of the graph.
        """
        here, k = graph.places[rows], found.shape[1]
        reached = graph.S[here] @ graph.S  # [m, U]
        row = np.repeat(np.arange(len(rows)), np.diff(reached.indptr))
        other = reached.indices != here[row]
        row, near = row[other], points[reached.indices[other]]
        order = np.lexsort((row_distances(self.features, rows[row], near), row))
        starts = np.searchsorted(row, np.arange(len(rows) + 1))
        enough = np.flatnonzero(np.diff(starts) >= k)
        found[at[enough]] = near[order[starts[enough, None] + np.arange(k)]]


def reference_sketch(
    kernel: HeatKernel, power: Power, columns: int = 64, *, n_random: int | None = None
) -> ReferenceSketch:
    """Sketch the diffusion distances of a kernel with a fixed seed, independently of any embedding.

    For more than 2000 points it has `columns` columns, 8 of them exact; for fewer, 128 and 32. If `n_random` is given,
    it has that many random columns instead, and the trivial direction alone is exact.
    """
    exact, error = _LARGE
    if kernel.shape[0] <= _FEW:
        columns, exact, error = _SMALL
    others = kernel.shape[0] - (kernel.trivial is not None)
    if n_random is None:
        Q = leading_directions(kernel, min(exact, others), power)
    else:
        Q = kernel.asblock(np.empty((kernel.shape[0], 0)))
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        Q = array_namespace(Q).concat([kernel.trivial[:, None], Q], axis=1)
    Q = astype(Q, kernel.dtype)
    n_random = columns - Q.shape[1] if n_random is None else n_random
    features = kernel.collect(deflated_features(kernel, Q, n_random, power, _SEED, rtol=error))
    return ReferenceSketch(features, Q.shape[1], kernel, power, error if isinstance(power, MultiscaleFilter) else 0.0)
