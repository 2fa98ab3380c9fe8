"""A sketch that stands witness: independent of an embedding, and so sure, within known bounds, of its distances."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from .._utils.array import array_namespace, astype
from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..linalg.range_finder import leading_directions
from ..optimize.features import deflated_sketch
from .distances import sketch_interval

__all__ = ["Witness", "call_witness"]

# Directions that are taken exactly, and random columns for the remainder.
_EXACT, _RANDOM = 32, 96
_SEED = 0x317E55


@dataclass(frozen=True)
class Witness:
    """Diffusion distances by leading directions and, beyond them, a Gaussian sketch with its chi-square law.

    Attributes
    ----------
    features : array of shape (N, r + m)
        Distances between rows are unbiased in their squares.
    n_exact : int
        r, the columns along which distances are exact.
    kernel : HeatKernel
    power : float
    """

    features: FloatArray
    n_exact: int
    kernel: HeatKernel
    power: float

    def interval(self, pairs: ArrayLike | None, level: float) -> tuple[FloatArray, FloatArray]:
        """Confidence interval of the diffusion distance, for pairs (m, 2), or all of them condensed."""
        return sketch_interval(self.features, pairs, level, n_exact=self.n_exact, kernel=self.kernel, power=self.power)


def call_witness(kernel: HeatKernel, power: float, *, trivial: bool) -> Witness:
    """A witness for the diffusion distances of a kernel; always the same, and no embedding's own sketch.

    Parameters
    ----------
    kernel : HeatKernel
    power : float
    trivial : bool
        Whether the distances contain the trivial mode, where it is not constant.
    """
    others = kernel.shape[0] - (kernel.trivial is not None)
    Q = leading_directions(kernel, min(_EXACT, others), power)
    if trivial and kernel.trivial is not None and not kernel.trivial_is_constant:
        Q = array_namespace(Q).concat([kernel.trivial[:, None], Q], axis=1)
    Q = astype(Q, kernel.dtype)
    features = kernel.collect(deflated_sketch(kernel, Q, _RANDOM, power, _SEED, trivial=trivial)[1])
    return Witness(features, Q.shape[1], kernel, power)
