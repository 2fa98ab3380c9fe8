"""Independent reference sketch, for confidence intervals of embeddings that have no known law."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from .._utils.array import array_namespace, astype
from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..linalg.filters import Power
from ..linalg.range_finder import leading_directions
from ..optimize.features import deflated_sketch
from .distances import sketch_interval

__all__ = ["ReferenceSketch", "reference_sketch"]

# Exact directions, and random columns of the remainder.
_EXACT, _RANDOM = 32, 96
_SEED = 0x317E55


@dataclass(frozen=True)
class ReferenceSketch:
    """Diffusion distances by r exact leading directions and a Gaussian sketch of the remainder.

    Squared distances between rows of `features`, (N, r + m), are unbiased.
    """

    features: FloatArray
    n_exact: int
    kernel: HeatKernel
    power: Power

    def interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        """Confidence interval of diffusion distances, for pairs (m, 2) or condensed for all."""
        return sketch_interval(self.features, pairs, level, n_exact=self.n_exact, kernel=self.kernel, power=self.power)


def reference_sketch(kernel: HeatKernel, power: Power) -> ReferenceSketch:
    """Sketch the diffusion distances of a kernel with a fixed seed, independently of any embedding."""
    others = kernel.shape[0] - (kernel.trivial is not None)
    Q = leading_directions(kernel, min(_EXACT, others), power)
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        Q = array_namespace(Q).concat([kernel.trivial[:, None], Q], axis=1)
    Q = astype(Q, kernel.dtype)
    features = kernel.collect(deflated_sketch(kernel, Q, _RANDOM, power, _SEED)[1])
    return ReferenceSketch(features, Q.shape[1], kernel, power)
