"""Forces between the points of an embedding, for :mod:`heatsketch.layout.forces`, on a device."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..._utils.array import to_numpy
from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...layout.forces import DRAWN, FEW_POINTS, GRID_DIMENSIONS, GridRepulsion, forces, log_distances
from ...layout.grid import Scales
from .operators import DeviceSparseOperator, fused_kernels
from .tensors import device_of, on

__all__ = ["DeviceForces", "FusedForces"]

# Entries of a block of differences.
_BLOCK = 1 << 26
# The logarithm of a squared distance below which points coincide.
_COINCIDE = -100.0
# Dimensions up to which the fused programs are faster.
_FUSED = 16
# Points up to which the fused programs sum the repulsion of all pairs.
_FUSED_POINTS = 65_536


class DeviceForces:
    """Forces by blocks of rows.

    Parameters
    ----------
    features : tensor of shape (n, m)
    graph : csr_array or DeviceSparseOperator of shape (n, n)
        Similarities of neighbours.
    scales : ndarray of shape (n,)
    landmarks : ndarray of int
    seed : int
        Of the points that are drawn.
    """

    _all_pairs = FEW_POINTS

    def __init__(self, features: Any, graph: Any, scales: FloatArray, landmarks: IntArray, seed: int) -> None:
        self._here = device_of(features)
        self._scales = self._here.tensor(scales)
        self._graph = graph if isinstance(graph, DeviceSparseOperator) else DeviceSparseOperator(graph, self._here)
        self._landmarks = self._here.tensor(landmarks)
        self._logs = log_distances(features, landmarks)
        self._pairs = max(1, int((self._logs > _COINCIDE).sum()))
        self._rng = np.random.default_rng(seed)

    @cached_property
    def _rows(self) -> Any:
        """The row of each entry of the graph."""
        starts = self._graph.parts[0]
        return torch.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())

    @cached_property
    def _grid(self) -> GridRepulsion:
        return GridRepulsion(Scales.of(to_numpy(self._scales)))

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)``, (n, k)."""
        _, columns, values = self._graph.parts
        weights = torch.empty_like(values)
        for some in chunks(len(values), Y.shape[1], _BLOCK):
            i, j = self._rows[some], columns[some]
            weights[some] = values[some] / (self._scales[i] * self._scales[j] + (Y[i] - Y[j]).square().sum(1))
        sums = self._graph.with_values(weights).matmat(torch.cat([Y, torch.ones_like(Y[:, :1])], dim=1))
        return sums[:, -1:] * Y - sums[:, :-1]

    def divergence(self, Y: Any) -> float:
        """``sum_ij P_ij log(1 + |y_i - y_j|^2 / (s_i s_j))``."""
        _, columns, values = self._graph.parts
        total = 0.0
        for some in chunks(len(values), Y.shape[1], _BLOCK):
            i, j = self._rows[some], columns[some]
            ratios = (Y[i] - Y[j]).square().sum(1) / (self._scales[i] * self._scales[j])
            total = total + (values[some] * ratios.log1p()).sum(dtype=torch.float64)
        return float(total)

    def repulsion(self, Y: Any) -> tuple[Any, float]:
        """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)``, (n, k), and the sum of q_ij over all i and j, i not j."""
        n, k = Y.shape
        if k <= GRID_DIMENSIONS and n > self._all_pairs:  # computed in memory
            found, total = self._grid(to_numpy(Y))
            return self._here.tensor(found), total
        if n <= (self._all_pairs if k <= GRID_DIMENSIONS else 2 * DRAWN):
            return self.repulsion_of(Y, np.arange(n))
        out, total = self.repulsion_of(Y, self._rng.choice(n, DRAWN, replace=False, shuffle=False))
        return out * (n / DRAWN), total * (n / DRAWN)

    def repulsion_of(self, Y: Any, drawn: IntArray) -> tuple[Any, float]:
        """The sums over some points j."""
        points, out, total = self._here.tensor(drawn), torch.empty_like(Y), 0.0
        others = Y[points]
        beside = torch.cat([others, torch.ones_like(others[:, :1])], dim=1)
        for rows in chunks(len(Y), len(drawn), _BLOCK):
            own = self._scales[rows, None] * self._scales[points]
            squared = own.clone()
            # By differences: a product of matrices, as in cdist, loses close points that are far from the origin.
            for here, there in zip(Y[rows].T, others.T, strict=True):
                squared.add_((here[:, None] - there).square_())
            falling = squared.reciprocal_()
            q = own.mul_(falling)
            total = total + q.sum(dtype=torch.float64)
            sums = q.mul_(falling) @ beside
            out[rows] = sums[:, -1:] * Y[rows] - sums[:, :-1]
        return out, float(total) - len(drawn)

    def stretching(self, Y: Any, least: float, mean: float) -> tuple[Any, float, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the landmarks j, (n, k), and mean and variance of l_ij."""
        others, out, total, square = Y[self._landmarks], torch.empty_like(Y), 0.0, 0.0
        for rows in chunks(len(Y), others.numel(), _BLOCK):
            between = Y[rows, None] - others  # [rows, landmarks, k]
            squared = between.square().sum(2).add_(least)
            apart = self._logs[rows] > _COINCIDE
            ratios = torch.where(apart, 0.5 * (squared.log() - self._logs[rows]), 0.0)
            total = total + ratios.sum(dtype=torch.float64)
            square = square + ratios.square().sum(dtype=torch.float64)
            weights = torch.where(apart, (ratios - mean) / squared, 0.0)
            out[rows] = (weights[:, :, None] * between).sum(1)
        return out, *self._moments(total, square)

    def _moments(self, total: Any, square: Any) -> tuple[float, float]:
        """Mean and variance of l_ij from their sum and that of their squares."""
        mean = float(total) / self._pairs
        return mean, float(square) / self._pairs - mean * mean


class FusedForces(DeviceForces):
    """Forces by fused Triton programs, for embeddings of a few dimensions."""

    _all_pairs = _FUSED_POINTS

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)``, (n, k)."""
        from .force_programs import attraction_kernel  # noqa: PLC0415 - needs Triton

        if Y.shape[1] > _FUSED:
            return super().attraction(Y)
        Y, out = Y.contiguous(), torch.empty_like(Y)
        with on(Y):
            attraction_kernel[self._blocks(32)](
                *self._graph.parts, Y, self._scales, out, len(Y), **_widths(Y), BM=32, BN=32, num_warps=4
            )
        return out

    def repulsion_of(self, Y: Any, drawn: IntArray) -> tuple[Any, float]:
        """The sums over some points j."""
        from .force_programs import repulsion_kernel  # noqa: PLC0415

        if Y.shape[1] > _FUSED:
            return super().repulsion_of(Y, drawn)
        points, Y = self._here.tensor(drawn), Y.contiguous()
        out, totals = torch.empty_like(Y), torch.empty_like(self._scales)
        with on(Y):
            repulsion_kernel[self._blocks(64)](
                Y, self._scales, Y[points], self._scales[points], out, totals, len(Y), len(drawn),
                **_widths(Y), BM=64, BN=64, num_warps=4,
            )  # fmt: skip
        return out, float(totals.sum(dtype=torch.float64)) - len(drawn)

    def stretching(self, Y: Any, least: float, mean: float) -> tuple[Any, float, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the landmarks j, (n, k), and mean and variance of l_ij."""
        from .force_programs import stretching_kernel  # noqa: PLC0415

        if Y.shape[1] > _FUSED:
            return super().stretching(Y, least, mean)
        Y = Y.contiguous()
        out, totals, squares = torch.empty_like(Y), torch.empty_like(self._scales), torch.empty_like(self._scales)
        with on(Y):
            stretching_kernel[self._blocks(64)](
                Y, Y[self._landmarks], self._logs, out, totals, squares, len(Y), len(self._landmarks), least, mean,
                **_widths(Y), BM=64, BN=32, num_warps=4,
            )  # fmt: skip
        return out, *self._moments(*(part.sum(dtype=torch.float64) for part in (totals, squares)))

    def _blocks(self, rows: int) -> tuple[int]:
        return (-(-len(self._scales) // rows),)


def _widths(Y: Any) -> dict[str, int]:
    """Compile-time constants of the programs."""
    k = int(Y.shape[1])
    return {"K": k, "KP": 1 << (k - 1).bit_length()}


@forces.register
def _(features: torch.Tensor, graph: Any, scales: FloatArray, landmarks: IntArray, seed: int) -> DeviceForces:
    kind = FusedForces if fused_kernels(device_of(features)) else DeviceForces
    return kind(features, graph, scales, landmarks, seed)
