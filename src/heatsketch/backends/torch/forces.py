"""Forces between the points of an embedding, for :mod:`heatsketch.optimize.mixture`, on a device.

Nothing is scattered, so sums have one order and results repeat.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._utils.chunks import chunks
from ..._utils.typing import IntArray
from ...optimize.mixture import coincident, forces
from .operators import DeviceSparseOperator
from .tensors import device_of

__all__ = ["DeviceForces"]

# Entries of a block of differences.
_BLOCK = 1 << 26


class DeviceForces:
    """Forces by blocks of rows.

    Parameters
    ----------
    features : tensor of shape (n, m)
    graph : csr_array of shape (n, n)
        Similarities of neighbours.
    """

    def __init__(self, features: Any, graph: Any) -> None:
        self._F, self._here = features.float(), device_of(features)
        self._norms = self._F.square().sum(1)
        self._coincident = coincident(self._F)
        self._graph = DeviceSparseOperator(graph, self._here)
        starts = self._graph.parts[0]
        self._rows = torch.arange(len(self._F), device=features.device).repeat_interleave(starts.diff())

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij q_ij (y_i - y_j)``, (n, k)."""
        _, columns, values = self._graph.parts
        weights = torch.empty_like(values)
        for some in chunks(len(values), Y.shape[1], _BLOCK):
            weights[some] = values[some] / (1.0 + (Y[self._rows[some]] - Y[columns[some]]).square().sum(1))
        sums = self._graph.with_values(weights).matmat(torch.cat([Y, torch.ones_like(Y[:, :1])], dim=1))
        return sums[:, -1:] * Y - sums[:, :-1]

    def repulsion(self, Y: Any, drawn: IntArray) -> tuple[Any, float]:
        """``sum_j q_ij^2 (y_i - y_j)`` over the drawn points j, (n, k), and the sum of all q_ij with i other than j."""
        others, out, total = Y[self._here.tensor(drawn)], torch.empty_like(Y), 0.0
        beside = torch.cat([others, torch.ones_like(others[:, :1])], dim=1)
        for rows in chunks(len(Y), len(drawn), _BLOCK):
            q = 1.0 / (1.0 + torch.cdist(Y[rows], others).square_())
            total = total + q.sum(dtype=torch.float64)
            sums = q.square_() @ beside
            out[rows] = sums[:, -1:] * Y[rows] - sums[:, :-1]
        return out, float(total) - len(drawn)

    def stretching(self, Y: Any, drawn: IntArray, least: float, mean: float) -> tuple[Any, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the drawn points, (n, k), and the mean of l_ij."""
        points = self._here.tensor(drawn)
        others, compared, out = Y[points], self._F[points], torch.empty_like(Y)
        total, pairs = 0.0, 0.0
        for rows in chunks(len(Y), len(drawn) * Y.shape[1], _BLOCK):
            d = self._norms[rows, None] + self._norms[points] - 2.0 * (self._F[rows] @ compared.T)
            apart, between = d > self._coincident, Y[rows, None] - others  # [rows, drawn, k]
            squared = between.square().sum(2).add_(least)
            ratios = torch.where(apart, 0.5 * torch.log(squared / d.clamp_(min=self._coincident)), 0.0)
            total, pairs = total + ratios.sum(dtype=torch.float64), pairs + apart.sum()
            weights = torch.where(apart, (ratios - mean) / squared, 0.0)
            out[rows] = (weights[:, :, None] * between).sum(1)
        return out, float(total) / max(1.0, float(pairs))


@forces.register
def _(features: torch.Tensor, graph: Any) -> DeviceForces:
    return DeviceForces(features, graph)
