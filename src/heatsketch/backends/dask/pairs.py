"""The Gaussian kernel of all pairs of points in row chunks: each pair of chunks is a task.

A task forms the kernel between its two chunks tile by tile, and uses it for both blocks of the symmetric matrix.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.chunks import chunks
from ..._utils.progress import track
from ..._utils.registry import Device, computing, find_device, has_gpu
from ..._utils.threads import Scratch
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import CENTRE_ROWS, Metric, central_point, gaussian_affinity, squared_distances
from ...linalg.operators.tiled import TILE, Arithmetic, Tiles, largest_norm, padded, tournament
from .array import total
from .layout import Layout
from .operator import ChunkedOperator
from .tasks import Key, Parts, Plan, gathered, n_workers, persisted, wait

__all__ = ["SQUARE", "TASKS", "AllPairsOperator", "ChunkPoints", "PairKernel", "joined_sums", "nearest", "row_sums"]

Square = list[tuple[int, int]]  # pairs of chunks

# Chunks along the side of a square, and tasks for each worker that are submitted at a time.
SQUARE, TASKS = 8, 32
# Device operators of chunks that a worker keeps.
_KEPT = 16


@dataclass(frozen=True, eq=False)
class ChunkPoints:
    """Points of a row chunk, (m, d), and their squared local scales, (m,), or None."""

    points: Any
    scales: Any = None


@dataclass(frozen=True, eq=False)
class PairKernel:
    """``exp(-d(x, y)^2 / epsilon)`` between two chunks."""

    metric: Metric
    epsilon: float | None  # None if points have local scales
    zero_diagonal: bool
    dtype: str
    device: str = "cpu"  # with "auto", workers that have a GPU compute on it
    precision: str = "auto"
    # Of compiled tiles, with the origin (d,) and the unit of the points in them; None for other metrics than the
    # Euclidean, and with a zero diagonal.
    arithmetic: Arithmetic | None = None
    centre: FloatArray | None = None
    unit: float = 1.0

    def scales_of(self, chunk: ChunkPoints) -> Any:
        """Squared local scales, or the common epsilon."""
        return self.epsilon if chunk.scales is None else chunk.scales

    def exponents(self, A: ChunkPoints, B: ChunkPoints) -> FloatArray:
        """``d(x, y)^2 / epsilon``, (m, n); infinite for coincident points with a zero diagonal."""
        D2 = squared_distances(A.points, B.points, self.metric)
        if self.zero_diagonal:
            D2[D2 == 0] = np.inf
        epsilon: Any = self.epsilon if A.scales is None else np.sqrt(A.scales)[:, None] * np.sqrt(B.scales)
        with np.errstate(over="ignore"):
            D2 /= epsilon
        return D2

    def tiles(self, chunk: ChunkPoints) -> Tiles:
        """The points of a chunk for compiled tiles."""
        assert self.arithmetic is not None
        assert self.centre is not None
        roots = np.sqrt(np.asarray(self.scales_of(chunk), dtype=np.float64))
        points = chunk.points
        return self.arithmetic.tiles(points, self.centre, self.unit, np.broadcast_to(roots, len(points)))


def between(
    A: ChunkPoints, B: ChunkPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """``K W`` and ``K^T V`` for the kernel K between two chunks; without B and W, ``K V`` for the kernel of A."""
    if kernel.arithmetic is None:
        return _by_metric(A, B, V, W, kernel)
    if _worker_device(kernel.device) is not None:
        return _on_device(A, B, V, W, kernel)
    m, k = V.shape
    if B is None or W is None:
        tiles, block, pairs = kernel.tiles(A), V, _own_pairs(m)
    else:
        tiles, block = kernel.tiles(A).joined(kernel.tiles(B)), np.concatenate([V, W])
        pairs = _crossed_pairs(m, len(W))
    block, out = padded(np.ascontiguousarray(block))
    tiles.multiply(pairs, block, out, Scratch())
    return np.ascontiguousarray(out[:m, :k]), None if B is None else np.ascontiguousarray(out[m:, :k])


def _own_pairs(m: int) -> IntArray:
    fixtures = (pair for fixture in tournament(m, TILE) for pair in fixture)
    return np.array([(a.start, a.stop, b.start, b.stop) for a, b in fixtures], dtype=np.int64).reshape(-1, 4)


def _crossed_pairs(m: int, n: int) -> IntArray:
    """Tiles between the first m points and the n after them."""
    top, left = (np.arange(0, size, TILE) for size in (m, n))
    i, j = (grid.ravel() for grid in np.meshgrid(top, left, indexing="ij"))
    ends = np.minimum(i + TILE, m), m + np.minimum(j + TILE, n)
    return np.column_stack([i, ends[0], m + j, ends[1]]).astype(np.int64)


def _by_metric(
    A: ChunkPoints, B: ChunkPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """`between` for any metric."""
    there, right = (A, V) if B is None or W is None else (B, W)
    out = np.empty(V.shape, dtype=V.dtype)
    mirrored = None if B is None else np.zeros(right.shape, dtype=V.dtype)
    for rows in chunks(len(V), there.points.shape[0]):
        here = ChunkPoints(A.points[rows], None if A.scales is None else A.scales[rows])
        K = gaussian_affinity(kernel.exponents(here, there), 1.0, kernel.dtype).astype(kernel.dtype, copy=False)
        out[rows] = K @ right
        if mirrored is not None:
            mirrored += K.T @ V[rows]
    return out, mirrored


def _on_device(
    A: ChunkPoints, B: ChunkPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """`between` on the device of the worker."""
    options = kernel.epsilon, kernel.dtype, kernel.device, kernel.precision
    with computing():
        first = _device_operator(A, *options)
        if B is None or W is None:
            return first @ V, None
        second = _device_operator(B, *options)
        here, there = second.rows(A.points, kernel.scales_of(A), W), first.rows(B.points, kernel.scales_of(B), V)
    return _unscaled(*here), _unscaled(*there)


@cache
def _worker_device(wanted: str) -> Device | None:
    """The device of a worker, by default its GPU; None for the CPU."""
    return find_device(("cuda" if has_gpu() else "cpu") if wanted == "auto" else wanted)


@lru_cache(maxsize=_KEPT)
def _device_operator(chunk: ChunkPoints, epsilon: float | None, dtype: str, device: str, precision: str) -> Any:
    """The kernel of a chunk on the device, cached by the identity of the chunk: many tasks on a worker use the same."""
    there = _worker_device(device)
    assert there is not None
    return there.gaussian_operator(
        chunk.points, epsilon if chunk.scales is None else chunk.scales, dtype=dtype, precision=precision
    )


def _unscaled(products: FloatArray, log_scale: FloatArray) -> FloatArray:
    """Products with rows of the kernel, from those with rows scaled to a largest entry of 1."""
    unscaled: FloatArray = np.exp(log_scale)[:, None].astype(products.dtype) * products
    return unscaled


class AllPairsOperator(ChunkedOperator):
    """Products with ``exp(-d(x, y)^2 / epsilon)`` for all pairs of points in row chunks.

    The pairs of chunks are taken in squares of 8 x 8 chunks. Within a square the products are added up as trees, and
    to the sums of the squares before it. Only a few squares are submitted at a time, so that a worker holds the points
    and columns of a few chunks, and every sum has a fixed order. `points` are the chunks of X, (N, d), as parts.
    """

    def __init__(self, points: Parts, X: Any, epsilon: Any, layout: Layout, kernel: PairKernel) -> None:
        self.layout, self.shape, self.dtype = layout, (layout.n_samples, layout.n_samples), np.dtype(kernel.dtype)
        self._points = points
        compiled = kernel.metric.euclidean and not kernel.zero_diagonal
        self._kernel = self._with_arithmetic(kernel, X, epsilon) if compiled else kernel

    def _with_arithmetic(self, kernel: PairKernel, X: Any, epsilon: Any) -> PairKernel:
        """The kernel with an arithmetic that is accurate for all tiles."""
        n, d = X.shape
        centre = central_point(gathered(X[:: max(1, n // CENTRE_ROWS)]))
        unit, steepest = float(np.sqrt(epsilon)) if np.ndim(epsilon) == 0 else 1.0, 1.0
        if np.ndim(epsilon):
            some, least = gathered(epsilon[:: max(1, n // 1000)], epsilon.min())
            unit = float(np.sqrt(np.median(some)))
            steepest = unit**2 / float(least)
        plan = Plan(X)
        for b, key in enumerate(plan.keys(X)):
            plan.add("norms", b, largest_norm, key, centre, unit)
        norm = max(gathered(plan.parts("norms", range(len(self.layout.sizes)))))
        return replace(kernel, arithmetic=Arithmetic.choose(norm, steepest, d, self.dtype), centre=centre, unit=unit)

    def multiply(self, V: Any) -> Any:
        """K V, square by square."""
        sums: dict[int, Any] = {}
        submitted: deque[Parts] = deque()
        most = 1 + -(-TASKS * n_workers() // SQUARE**2)
        n_chunks, name = len(self.layout.sizes), "multiplying row chunks"
        *squares, last = _squares(n_chunks)
        for square in track(squares, name, len(squares) + 1):
            if len(submitted) >= most:
                wait(submitted.popleft(), name)
            plan = Plan(V, self._points, list(sums.values()))
            for b, parts in self._square(plan, V, square, sums).items():
                plan.add_tree("sum-of-square", b, total, parts)
            found = persisted(plan.parts("sum-of-square", _touched(square)))
            sums |= dict(zip(_touched(square), found, strict=True))
            submitted.append(found)
        plan = Plan(V, self._points, list(sums.values()))
        added = {b: [part.key] for b, part in sums.items()} | self._square(plan, V, last, sums)
        for b in range(n_chunks):
            plan.add_tree("kernel-product", (b, 0), total, added[b])
        return persisted(plan.array("kernel-product", self.layout.sizes, V.shape[1], self.dtype), name=name)

    def _square(self, plan: Plan, V: Any, square: Square, sums: dict[int, Any]) -> dict[int, list[Key]]:
        """Add the tasks of a square. Returns what is to be added up for each chunk, with the sum before the square."""
        blocks, points = plan.keys(V), plan.keys(self._points)
        parts: dict[int, list[Key]] = {b: [sums[b].key] if b in sums else [] for b in _touched(square)}
        for i, j in square:
            there = (points[j], blocks[i], blocks[j]) if i != j else (None, blocks[i], None)
            key = plan.add("kernel-tile", (i, j), between, points[i], *there, self._kernel)
            parts[i].append(plan.add("half-of-tile", (i, j, 0), getitem, key, 0))
            if i != j:
                parts[j].append(plan.add("half-of-tile", (i, j, 1), getitem, key, 1))
        return parts


def _squares(n_chunks: int) -> Iterator[Square]:
    """All pairs of chunks, in squares; those on the diagonal are triangles."""
    for top in range(0, n_chunks, SQUARE):
        for left in range(top, n_chunks, SQUARE):
            rows, columns = range(top, top + SQUARE), range(left, left + SQUARE)
            yield [(i, j) for i in rows for j in columns if i <= j < n_chunks]


def _touched(square: Square) -> list[int]:
    """The chunks of a square."""
    return sorted({chunk for pair in square for chunk in pair})


# Kernel rows of new points times columns: products with rows scaled to a largest entry of 1, and the logarithms of
# these scales.
RowSums = tuple[FloatArray, FloatArray]


def row_sums(Q: ChunkPoints, chunk: ChunkPoints, columns: FloatArray, kernel: PairKernel) -> RowSums:
    """Kernel rows of new points against one chunk, times columns, (m, c)."""
    m = Q.points.shape[0]
    sums, log_scale = np.zeros((m, columns.shape[1])), np.zeros(m)
    for rows in chunks(m, chunk.points.shape[0]):
        here = ChunkPoints(Q.points[rows], None if Q.scales is None else Q.scales[rows])
        exponents = kernel.exponents(here, chunk)
        least = exponents.min(axis=1)
        log_scale[rows] = -least
        shift = np.where(np.isfinite(least), least, 0.0)
        sums[rows] = np.exp(shift[:, None] - exponents) @ columns
    return sums, log_scale


def joined_sums(several: list[RowSums]) -> RowSums:
    """Row sums over several chunks."""
    log_scale = np.max([scale for _, scale in several], axis=0)
    common = np.where(np.isfinite(log_scale), log_scale, 0.0)
    products = sum(np.exp(scale - common)[:, None] * sums for sums, scale in several)
    return np.asarray(products), log_scale


def nearest(Q: Any, X: Any, k: int, metric: Metric) -> FloatArray:
    """The k smallest positive squared distances from each of `Q` to the points of a chunk, (m, k + 1).

    Infinite where there are fewer; the last column is the largest distance.
    """
    out = np.full((Q.shape[0], k + 1), np.inf)
    for rows in chunks(Q.shape[0], X.shape[0]):
        D2 = squared_distances(Q[rows], X, metric)
        few = min(k, D2.shape[1])
        out[rows, :few] = np.partition(np.where(D2 > 0, D2, np.inf), few - 1, axis=1)[:, :few]
        out[rows, k] = D2.max(axis=1)
    return out
