"""How many directions to take exactly: the split of k components that predicts the smallest error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.array import to_numpy
from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..linalg.metrics import magnitude, row_distances
from ..linalg.range_finder import leading_directions
from .features import deflated_sketch

__all__ = ["Split", "best_split"]

# Most directions that are tried, those measured beyond them, columns that sketch the remainder of these, and random
# pairs on which errors are predicted.
_MOST_EXACT, _FURTHER, _PILOT, _PAIRS = 128, 16, 64, 20_000
# A split is preferred to none where it lowers the predicted error by this much at least.
_WORTHWHILE = 0.05
_STREAM = 0xDEF1A7  # keeps the pilot apart from the embedding's own columns


@dataclass(frozen=True)
class Split:
    """Exact directions for an embedding of k components, and what is expected of any number of them.

    Attributes
    ----------
    directions : array of shape (N, r)
        Orthonormal; r may be 0.
    errors : ndarray of shape (most + 1,)
        Predicted relative standard deviation of squared distances, root mean square over pairs, for r = 0, 1, ...
    """

    directions: Any
    errors: FloatArray


def best_split(kernel: HeatKernel, k: int, power: float, seed: int) -> Split:
    r"""The number r of exact directions with the smallest predicted error, and these directions.

    With r directions exact, a squared distance is known up to its remainder, whose sketch by ``k - r`` columns has the
    relative standard deviation ``sqrt(2 / (k - r))``. If the remainder is the share s of the squared distance, the
    relative error is ``s sqrt(2 / (k - r))``. The shares are measured on random pairs, along the directions and some
    further ones; what is left beyond those is known from a pilot sketch.

    Parameters
    ----------
    kernel : HeatKernel
    k : int
    power : float
    seed : int

    Returns
    -------
    split : Split
    """
    n = kernel.shape[0]
    others = n if kernel.trivial is None else n - 1
    most = min(k - 1, _MOST_EXACT, others)
    if most < 1:
        return Split(np.empty((n, 0), dtype=kernel.dtype), np.array([np.sqrt(2.0 / k)]))
    measured = min(most + _FURTHER, others)
    Q = leading_directions(kernel, measured, power)
    wide = deflated_sketch(kernel, Q, _PILOT, power, seed ^ _STREAM)[1]
    i, j = np.random.default_rng([seed, _STREAM]).integers(0, n, (2, _PAIRS))
    # Only rows of these pairs are looked at, so that no more than they leave a device.
    seen, where = np.unique([ends[i != j] for ends in (i, j)], return_inverse=True)
    i, j = where.reshape(2, -1)
    F = to_numpy(wide[seen]).astype(np.float64)
    F /= magnitude(wide)
    beyond = np.square(row_distances(np.ascontiguousarray(F[:, measured:]), i, j))
    along = np.square(F[i, :measured] - F[j, :measured])  # [pairs, measured]
    # Remainders of r = measured, measured - 1, ..., 0 directions, turned round.
    remainder = np.column_stack([beyond, beyond[:, None] + np.cumsum(along[:, ::-1], axis=1)])[:, ::-1][:, : most + 1]
    apart = remainder[:, 0] > 0
    if not apart.any():
        return Split(Q[:, :0], np.array([np.sqrt(2.0 / k)]))
    share = remainder[apart] / remainder[apart, :1]
    errors: FloatArray = np.sqrt(2.0 / (k - np.arange(most + 1.0)) * np.mean(np.square(share), axis=0))
    r = int(np.argmin(errors))
    r = r if errors[r] < (1.0 - _WORTHWHILE) * errors[0] else 0
    return Split(Q[:, :r], errors)
