"""Independent reference sketch, for confidence intervals of embeddings that have no known law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import array_namespace, astype
from .._utils.typing import FloatArray, IntArray
from ..kernel.operator import HeatKernel
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.metrics import Metric, row_distances
from ..linalg.range_finder import leading_directions
from ..neighbors.search import make_index
from ..optimize.features import deflated_sketch
from .distances import embedded_distances, sketch_interval

__all__ = ["ReferenceSketch", "reference_sketch"]

# Columns, how many of them are exact directions, and the relative error of distances by the polynomial of a multiscale
# filter; for data of up to so many points, and for larger ones. The others are random columns of the remainder.
_FEW = 2000
_SMALL = 128, 32, 1e-4
_LARGE = 64, 8, 0.01
_SEED = 0x317E55


@dataclass(frozen=True)
class ReferenceSketch:
    """Diffusion distances by r exact leading directions and a Gaussian sketch of the remainder.

    Squared distances between rows of `features`, (N, r + m), are unbiased, up to the relative error `error` of all
    distances. The standard error of a distance is at most ``1 / sqrt(2 m)``: 9% for more than 2000 points, less for
    pairs whose distance is mostly along the exact directions.
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
        """Mean variance of the logarithms of estimated distances: ``share^2 / (2 m)``, by the law of the sketch.

        The share is that of the sketched remainder in the squared distance of a pair.
        """
        m = self.features.shape[1] - self.n_exact
        rest = np.square(embedded_distances(self.features[:, self.n_exact :], pairs))
        total = np.square(embedded_distances(self.features, pairs))
        share = np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)
        return float(np.mean(np.square(share)) / (2.0 * m))

    def neighbors(self, rows: IntArray, k: int) -> IntArray:
        """Points that are near to some points by diffusion distance, (m, k).

        If the kernel is a graph, they are the nearest of the points within two edges, by the estimated distance,
        otherwise of all points.
        """
        found = np.full((len(rows), k), -1)
        graph = self.kernel.graph()
        if graph is not None:
            here = graph.places[rows]
            reached = graph.S[here] @ graph.S  # [m, U]: vertices within two edges
            row = np.repeat(np.arange(len(rows)), np.diff(reached.indptr))
            other = reached.indices != here[row]
            row, near = row[other], graph.points[reached.indices[other]]
            order = np.lexsort((row_distances(self.features, rows[row], near), row))
            starts = np.searchsorted(row, np.arange(len(rows) + 1))
            enough = np.flatnonzero(np.diff(starts) >= k)
            found[enough] = near[order[starts[enough, None] + np.arange(k)]]
        lacking = np.flatnonzero(found[:, 0] < 0)
        if len(lacking):
            device = self.kernel.device
            index = make_index(self.features, Metric("euclidean"), device, kind=None if device else "blocks")
            nearest = index.order[index.query(self.features[rows[lacking]], k + 1)[0]]
            itself = nearest == rows[lacking, None]
            itself[~itself.any(axis=1), -1] = True  # behind points that coincide with it
            found[lacking] = nearest[~itself].reshape(-1, k)
        return found


def reference_sketch(kernel: HeatKernel, power: Power, *, n_random: int | None = None) -> ReferenceSketch:
    """Sketch the diffusion distances of a kernel with a fixed seed, independently of any embedding.

    With `n_random`, a narrower sketch of so many random columns and no exact directions but the trivial one.
    """
    columns, exact, error = _SMALL if kernel.shape[0] <= _FEW else _LARGE
    others = kernel.shape[0] - (kernel.trivial is not None)
    if n_random is None:
        Q = leading_directions(kernel, min(exact, others), power)
    else:
        Q = kernel.asblock(np.empty((kernel.shape[0], 0)))
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        Q = array_namespace(Q).concat([kernel.trivial[:, None], Q], axis=1)
    Q = astype(Q, kernel.dtype)
    n_random = columns - Q.shape[1] if n_random is None else n_random
    features = kernel.collect(deflated_sketch(kernel, Q, n_random, power, _SEED, rtol=error)[1])
    return ReferenceSketch(features, Q.shape[1], kernel, power, error if isinstance(power, MultiscaleFilter) else 0.0)
