"""How many of k components should be exact directions: the split with the smallest predicted error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.array import to_numpy
from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..linalg.filters import Power
from ..linalg.metrics import magnitude, row_distances
from ..linalg.range_finder import leading_directions
from .features import deflated_sketch

__all__ = ["Split", "best_split", "measured_directions"]

# Most exact directions, further ones that are measured, columns that sketch the remainder, and random pairs on which
# errors are predicted.
_MOST_EXACT, _FURTHER, _PILOT, _PAIRS = 128, 16, 64, 20_000
# Least relative reduction of the predicted error for which directions are exact.
_WORTHWHILE = 0.05
_STREAM = 0xDEF1A7  # separates the pilot from the columns of the embedding


@dataclass(frozen=True)
class Split:
    """Exact directions for an embedding of k components, and the predicted error for any number of them.

    Attributes
    ----------
    directions : array of shape (N, r)
        Orthonormal; r may be 0.
    errors : ndarray of shape (most + 1,)
        Predicted relative standard deviation of squared distances, root mean square over pairs, for r = 0, 1, ...
    """

    directions: Any
    errors: FloatArray


def measured_directions(k: int, others: int) -> int:
    """Number of leading directions, of all `others`, among which those of k components are chosen; 0 for none."""
    most = min(k - 1, _MOST_EXACT, others)
    return min(most + _FURTHER, others) if most > 0 else 0


def best_split(kernel: HeatKernel, k: int, power: Power, seed: int) -> Split:
    """The number r of exact directions with the smallest predicted error, and these directions.

    With r exact directions, the remainder of a squared distance is sketched by ``k - r`` columns, with the relative
    standard deviation ``sqrt(2 / (k - r))``. If the remainder is the share s of the squared distance, its relative
    error is ``s sqrt(2 / (k - r))``. The shares are measured on random pairs, along the directions and some further
    ones, and beyond those by a pilot sketch.
    """
    n = kernel.shape[0]
    others = n if kernel.trivial is None else n - 1
    most, measured = min(k - 1, _MOST_EXACT, others), measured_directions(k, others)
    if most < 1:
        return Split(np.empty((n, 0), dtype=kernel.dtype), np.array([np.sqrt(2.0 / k)]))
    Q = leading_directions(kernel, measured, power)
    wide = deflated_sketch(kernel, Q, _PILOT, power, seed ^ _STREAM)[1]
    i, j = np.random.default_rng([seed, _STREAM]).integers(0, n, (2, _PAIRS))
    # Only rows of these pairs are copied from a device.
    seen, where = np.unique([ends[i != j] for ends in (i, j)], return_inverse=True)
    i, j = where.reshape(2, -1)
    F = to_numpy(wide[seen]).astype(np.float64)
    F /= magnitude(wide)
    beyond = np.square(row_distances(np.ascontiguousarray(F[:, measured:]), i, j))
    along = np.square(F[i, :measured] - F[j, :measured])  # [pairs, measured]
    # Remainders of r = 0, 1, ... directions: sums from the last direction backwards.
    remainder = np.column_stack([beyond, beyond[:, None] + np.cumsum(along[:, ::-1], axis=1)])[:, ::-1][:, : most + 1]
    apart = remainder[:, 0] > 0
    if not apart.any():
        return Split(Q[:, :0], np.array([np.sqrt(2.0 / k)]))
    share = remainder[apart] / remainder[apart, :1]
    errors: FloatArray = np.sqrt(2.0 / (k - np.arange(most + 1.0)) * np.mean(np.square(share), axis=0))
    r = int(np.argmin(errors))
    r = r if errors[r] < (1.0 - _WORTHWHILE) * errors[0] else 0
    return Split(Q[:, :r], errors)
