"""Points as rows of a tensor: distances of pairs, and what pulls at pairs in an optimisation.

Differences are formed one by one and added up in float64, as compiled code on the CPU does, whatever the dtype of the
points. Nothing is scattered, so that sums have one order and results repeat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._utils.array import to_numpy
from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import column_distances, magnitude, row_distances
from ...optimize.pairs import Pairs
from ...optimize.solver import play
from .device import device_of

__all__ = ["PairDifferences", "distances_of_columns", "distances_of_rows"]

# Entries of rows that are gathered at a time: some 200 MB with the temporaries.
_ENTRIES = 1 << 23
# Squared distances are larger than true ones by this: the logarithm of zero has no slope.
_LEAST = 1e-290


@row_distances.register
def distances_of_rows(Z: torch.Tensor, i: Any, j: Any) -> Any:
    """Distances between rows of a tensor, for given pairs; see :func:`heatsketch.linalg.metrics.row_distances`."""
    here = device_of(Z)
    a, b = here.tensor(i), here.tensor(j)
    out = torch.empty(len(a), dtype=torch.float64, device=Z.device)
    for some in chunks(len(a), Z.shape[1], _ENTRIES):
        out[some] = _differences(Z, a[some], b[some]).square_().sum(1).sqrt_()
    return to_numpy(out) if isinstance(i, np.ndarray) else out


@column_distances.register
def distances_of_columns(V: torch.Tensor, i: IntArray, j: IntArray) -> FloatArray:
    """Distances between columns of a tensor, for given pairs."""
    scale = magnitude(V)
    distances: FloatArray = scale * row_distances((V.T / scale).contiguous(), i, j)
    return distances


def _differences(Z: Any, i: Any, j: Any) -> Any:
    """``z_i - z_j`` in float64, shape (m, d)."""
    return Z.index_select(0, i).double().sub_(Z.index_select(0, j))


class PairDifferences:
    """Pairs in play as the differences of their features, gathered once: embedded pairs are then one product.

    Parameters
    ----------
    features : tensor of shape (N, m)
    pairs : Pairs
        Of NumPy arrays.
    """

    def __init__(self, features: Any, pairs: Pairs) -> None:
        self._here, self._log_d = device_of(features), pairs.log_d
        self._D = _differences(features, self._here.tensor(pairs.i), self._here.tensor(pairs.j))  # [p, m]

    def ratios(self, W: FloatArray) -> FloatArray:
        """``log(|y_i - y_j| / d_ij)`` with ``Y = F W``, shape (p,)."""
        self._Z = self._D @ self._here.tensor(W)  # [p, k]
        self._squares = to_numpy(self._Z.square().sum(1).add_(_LEAST))
        ratios: FloatArray = 0.5 * np.log(self._squares) - self._log_d
        return ratios

    def gradient(self, slope: FloatArray) -> FloatArray:
        """Gradient by W, (m, k), of a function of the last ratios whose derivatives by these are given, (p,)."""
        by_pair = self._here.tensor(slope / self._squares)[:, None] * self._Z
        gradient: FloatArray = to_numpy(self._D.T @ by_pair)
        return gradient


@play.register
def _(features: torch.Tensor, pairs: Pairs) -> PairDifferences:
    return PairDifferences(features, pairs)
