"""All pairs, exactly, on a cluster: pairs of bands are tasks, and each is used for both of its blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.progress import track
from ..._utils.typing import FloatArray
from ...linalg.metrics import CENTRE_ROWS, Metric, central_point
from ...linalg.operators.tiled import Arithmetic, largest_norm
from .columns import add_up, total
from .layout import Layout
from .operator import BandedOperator
from .pairs import PairKernel, between
from .tasks import Key, Parts, Plan, gathered, n_workers, pick, settled, started, waited_for

__all__ = ["SQUARE", "TASKS", "BandedGaussianOperator", "GaussianBands"]

Square = list[tuple[int, int]]  # pairs of bands

# Bands along the side of a square, and tasks for each worker that are under way at a time.
SQUARE, TASKS = 8, 32


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
        centre = central_point(pick(self.X, np.arange(0, n, max(1, n // CENTRE_ROWS))))
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
    its blocks. The plane of pairs is cut into squares of 8 by 8 bands. Within one, products are added up as trees, and
    to what the squares before it have left; only a few squares are under way at a time. So a worker holds the points
    and columns of a few bands, whatever their number, and every sum has one order, whoever computes it.

    Parameters
    ----------
    bands : GaussianBands
    """

    def __init__(self, bands: GaussianBands) -> None:
        n = bands.layout.n_samples
        self.layout, self.shape, self.dtype = bands.layout, (n, n), bands.dtype
        self._points, self._kernel = settled(bands.held(), name="laying points out"), bands.tiled_kernel()

    def multiply(self, V: Any) -> Any:
        """K V, square by square."""
        sums: dict[int, Any] = {}
        under_way: deque[Parts] = deque()
        most = 1 + -(-TASKS * n_workers() // SQUARE**2)
        n_bands = len(self.layout.sizes)
        for square in track(_squares(n_bands), "multiplying bands", _n_squares(n_bands)):
            if len(under_way) >= most:
                waited_for(under_way.popleft(), name="multiplying bands")
            started_now = started(self._square(V, square, sums), name="multiplying bands")
            sums |= dict(zip(_touched(square), started_now, strict=True))
            under_way.append(started_now)
        plan = Plan(list(sums.values()))
        for b in range(len(self.layout.sizes)):
            plan.add("kernel-product", (b, 0), total, [sums[b].key])
        return settled(
            plan.array("kernel-product", self.layout.sizes, V.shape[1], self.dtype), name="multiplying bands"
        )

    def _square(self, V: Any, square: Square, sums: dict[int, Any]) -> Parts:
        """The sums of the bands that a square touches, with what was there before."""
        plan = Plan(V, self._points, list(sums.values()))
        blocks, points = plan.keys(V), plan.keys(self._points)
        parts: dict[int, list[Key]] = {band: [sums[band].key] if band in sums else [] for band in _touched(square)}
        for i, j in square:
            there = (points[j], blocks[i], blocks[j]) if i != j else (None, blocks[i], None)
            key = plan.add("kernel-tile", (i, j), between, points[i], *there, self._kernel)
            parts[i].append(plan.add("half-of-tile", (i, j, 0), getitem, key, 0, urgency=1))
            if i != j:
                parts[j].append(plan.add("half-of-tile", (i, j, 1), getitem, key, 1, urgency=1))
        for band, several in parts.items():
            add_up(plan, "sum-of-square", band, several)
        return plan.parts("sum-of-square", _touched(square))


def _squares(n_bands: int) -> Iterator[Square]:
    """All pairs of bands, by the squares that they lie in; those of the diagonal are triangles."""
    for top in range(0, n_bands, SQUARE):
        for left in range(top, n_bands, SQUARE):
            rows, columns = range(top, top + SQUARE), range(left, left + SQUARE)
            yield [(i, j) for i in rows for j in columns if i <= j < n_bands]


def _n_squares(n_bands: int) -> int:
    along = -(-n_bands // SQUARE)
    return along * (along + 1) // 2


def _touched(square: Square) -> list[int]:
    """The bands that a square has pairs of."""
    return sorted({band for pair in square for band in pair})


def _pair(X: FloatArray, scales: Any) -> tuple[FloatArray, Any]:
    return X, scales
