"""All pairs, exactly, on a cluster: pairs of bands are tasks, and each is used for both of its blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..kernels import Metric, central_point
from ..operators.tiled import Arithmetic, largest_norm
from .columns import add_up
from .layout import Layout, pick
from .operator import BandedOperator
from .pairs import PairKernel, between
from .tasks import Key, Parts, Plan, gathered, settled

__all__ = ["BandedGaussianOperator", "GaussianBands"]

# Rows whose median is the centre of the points; those that `central_point` looks at.
_CENTRE_ROWS = 64


@dataclass(frozen=True, eq=False)
class GaussianBands:
    """Points in bands and their kernel ``exp(-d(x, y)^2 / epsilon)``.

    Attributes
    ----------
    X : Dask array of shape (N, d), in bands
    epsilon : float, or Dask array of shape (N,) in bands
        A number, or squared local scales.
    metric : Metric
    zero_diagonal : bool
    dtype : dtype of the kernel
    device : str
        Where workers compute; "auto" takes the GPU of each that has one.
    precision : str
    layout : Layout
    """

    X: Any
    epsilon: Any
    metric: Metric
    zero_diagonal: bool
    dtype: np.dtype[Any]
    device: str
    precision: str
    layout: Layout

    @property
    def local(self) -> bool:
        """Whether each point has a scale of its own."""
        return np.ndim(self.epsilon) > 0

    @property
    def compiled(self) -> bool:
        """Whether tiles are formed by the compiled loops, or by a device: Euclidean distances, diagonal kept."""
        return self.metric.euclidean and self.metric.name != "sqeuclidean" and not self.zero_diagonal

    def held(self) -> Parts:
        """The points of each band and their local scales, or None, as tasks take them."""
        plan = Plan(self.X, self.epsilon) if self.local else Plan(self.X)
        scales: list[Any] = plan.keys(self.epsilon) if self.local else [None] * len(self.layout.sizes)
        for b, key in enumerate(plan.keys(self.X)):
            plan.add("points", b, _pair, key, scales[b])
        return plan.parts("points", range(len(self.layout.sizes)))

    def kernel(self) -> PairKernel:
        """What tasks must know of the kernel, without how tiles are formed."""
        epsilon = None if self.local else float(self.epsilon)
        return PairKernel(self.metric, epsilon, self.zero_diagonal, self.dtype.str, self.device, self.precision)

    def tiled_kernel(self) -> PairKernel:
        """The same with the arithmetic that is accurate for all tiles."""
        if not self.compiled:
            return self.kernel()
        n, d = self.X.shape
        centre = central_point(pick(self.X, np.arange(0, n, max(1, n // _CENTRE_ROWS))))
        unit, steepest = self._unit()
        plan = Plan(self.X)
        for b, key in enumerate(plan.keys(self.X)):
            plan.add("norms", b, largest_norm, key, centre, unit)
        norm = float(np.max(gathered(*plan.parts("norms", range(len(self.layout.sizes))))))
        arithmetic = Arithmetic.choose(norm, steepest, d, self.dtype)
        return replace(self.kernel(), arithmetic=arithmetic, centre=centre, unit=unit)

    def _unit(self) -> tuple[float, float]:
        """A length near which the scales of the points lie, and how much steeper the kernel is at the smallest."""
        if not self.local:
            return float(np.sqrt(self.epsilon)), 1.0
        n = self.X.shape[0]
        unit = float(np.sqrt(np.median(pick(self.epsilon, np.arange(0, n, max(1, n // 1000))))))
        return unit, unit**2 / float(gathered(self.epsilon.min()))


class BandedGaussianOperator(BandedOperator):
    """Products with ``exp(-d(x, y)^2 / epsilon)`` for all pairs of points in bands.

    Each pair of bands is a task, which forms the kernel between them tile by tile and gives the products with both of
    its blocks. They are taken along a curve that stays within small squares of the plane of pairs, and added up as
    trees, so that what waits to be added is a few times a block, whatever the number of bands.

    Parameters
    ----------
    bands : GaussianBands
    """

    def __init__(self, bands: GaussianBands) -> None:
        n = bands.layout.n_samples
        self.layout, self.shape, self.dtype = bands.layout, (n, n), bands.dtype
        self._points, self._kernel = settled(bands.held(), name="laying points out"), bands.tiled_kernel()

    def matmat(self, V: Any) -> Any:
        """K V, pair of bands by pair of bands."""
        V = self.asblock(V)
        return settled(self._product(V), name="multiplying bands")

    def _product(self, V: Any) -> Any:
        plan = Plan(V, self._points)
        blocks, points = plan.keys(V), plan.keys(self._points)
        n_bands, kernel = len(points), self._kernel
        halves: dict[tuple[int, int], Key] = {}
        for i in range(n_bands):
            for j in range(i, n_bands):
                there = (points[j], blocks[i], blocks[j]) if i != j else (None, blocks[i], None)
                key = plan.add("kernel-tile", (i, j), between, points[i], *there, kernel, urgency=-_curve(i, j))
                halves[i, j] = plan.add("half-of-tile", (i, j, 0), _half, key, 0, urgency=1)
                if i != j:
                    halves[j, i] = plan.add("half-of-tile", (i, j, 1), _half, key, 1, urgency=1)
        for i in range(n_bands):
            add_up(plan, "kernel-product", (i, 0), [halves[i, j] for j in range(n_bands)])
        return plan.array("kernel-product", self.layout.sizes, V.shape[1], self.dtype)


def _curve(i: int, j: int) -> int:
    """The place of a pair of bands on the curve of Morton, which fills squares one after another; from 1."""
    place = 0
    for bit in range(max(i, j).bit_length()):
        place |= ((i >> bit & 1) << 2 * bit + 1) | ((j >> bit & 1) << 2 * bit)
    return place + 1


def _half(product: tuple[FloatArray, FloatArray | None], which: int) -> FloatArray | None:
    return product[which]


def _pair(X: FloatArray, scales: Any) -> tuple[FloatArray, Any]:
    return X, scales
