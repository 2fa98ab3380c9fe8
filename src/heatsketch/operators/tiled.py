"""All pairs, exactly, without the matrix: tiles of the Gaussian kernel are made, multiplied and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray
from ..kernels import EXPONENT_ERROR, central_point, products_in
from ..threads import Scratch, n_threads, workers
from .base import Operator

# Points to a tile: a float32 tile of 256 x 256 and the columns it is multiplied by stay close to the processor.
TILE = 256
_TILES_PER_JOB = 8
# Rows of a tile whose inner products are held at a time.
_STRIP = 32
# Columns are filled up to a multiple of this, the vectors of the compiled product.
_COLUMNS = 8
# Up to this many features differences are formed one by one, which no cancellation can harm and no product beats.
_DIRECT_FEATURES = 6


class TiledGaussianOperator(Operator):
    """Products with ``exp(-|x_i - x_j|^2 / epsilon)`` for all pairs, in memory O(N (d + k)).

    The plane of pairs is cut into square tiles. Each tile above the diagonal is computed once (a matrix product for
    the distances, one pass for the exponential) and serves both of its blocks by symmetry. Tiles are taken in rounds
    of a tournament, in which no block of rows appears twice: threads need no locks, and every sum has one order
    whatever their number.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    epsilon : float, or ndarray of shape (N,)
        A number, or the squared local scale s_i^2 of each point: then epsilon_ij = s_i s_j.
    zero_diagonal : bool
        Set the affinity of a point with itself to zero.
    dtype : dtype of the products
    tile : int
        Points to a tile.
    threads : int, optional
        By default all cores.

    Notes
    -----
    ``|x|^2 + |y|^2 - 2 x.y`` cancels where points are close for their distance from the centre. From the largest norm
    and the smallest epsilon it is known beforehand how far exponents can be off: float32 products are used while that
    is below 1e-5, float64 products beyond, and where even these do not do (below 1e-10 for float64 kernels), or in few
    dimensions, differences.
    """

    def __init__(
        self,
        X: FloatArray,
        epsilon: float | FloatArray,
        *,
        zero_diagonal: bool = False,
        dtype: Any = np.float64,
        tile: int = TILE,
        threads: int | None = None,
    ) -> None:
        n = X.shape[0]
        self.shape, self.dtype = (n, n), np.dtype(dtype)
        self.zero_diagonal, self.tile, self.threads = zero_diagonal, tile, threads
        scales = np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), n)
        unit = float(np.median(scales))  # numbers near 1, whatever the unit of X
        centred = (np.asarray(X, dtype=np.float64) - central_point(X)) / unit
        self._scale = (unit / scales).astype(self.dtype)
        self._choose_arithmetic(centred, float((unit / scales).max()) ** 2)

    def _choose_arithmetic(self, centred: FloatArray, steepest: float) -> None:
        """Hold the points as the arithmetic that is accurate enough wants them."""
        n, d = centred.shape
        norms = np.einsum("ij,ij->i", centred, centred)
        spread = 4.0 * float(norms.max(initial=0.0)) * steepest
        kind = products_in(spread, self.dtype)
        differences = d <= _DIRECT_FEATURES or kind is None
        if differences:  # relative to a difference, rounding is that of the coordinates
            close = float(np.finfo(self.dtype).eps) * spread**0.5 <= EXPONENT_ERROR[self.dtype]
            kind = self.dtype.type if close else np.float64
        self._columns = np.zeros((d, n + _COLUMNS), dtype=kind)  # a tile at the edge may read a little further
        self._columns[:, :n] = centred.T
        self._points = centred[: 0 if differences else n].astype(kind)
        self._norms = norms.astype(kind)

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V, tile by tile."""
        from ..compiled.products import tile_products  # noqa: PLC0415

        V = self.check_block(V)
        k = V.shape[1]
        width = -(-k // _COLUMNS) * _COLUMNS
        V = np.ascontiguousarray(np.pad(V, ((0, 0), (0, width - k))))
        out = np.zeros(V.shape, dtype=self.dtype)
        scratch = Scratch()
        held = self._points, self._columns, self._norms, self._scale, self.zero_diagonal

        def multiply(pairs: IntArray) -> None:
            P = scratch.array("products", (_STRIP, self.tile + _COLUMNS), self._columns.dtype)
            K = scratch.array("kernel", (self.tile, self.tile), self.dtype)
            tile_products(pairs, *held, V, out, P, K)

        threads = n_threads() if self.threads is None else self.threads
        with workers(threads, blas=False) as share:
            for fixture in tournament(self.shape[0], self.tile):
                pairs = np.array([(a.start, a.stop, b.start, b.stop) for a, b in fixture]).reshape(-1, 4)
                # As many tiles to each thread, in jobs that are large against the cost of handing them out.
                n_jobs = threads * -(-len(pairs) // (threads * _TILES_PER_JOB))
                for _ in share(multiply, np.array_split(pairs, n_jobs) if n_jobs else []):
                    pass
        return np.ascontiguousarray(out[:, :k])


def tournament(n: int, tile: int) -> Iterator[list[tuple[slice, slice]]]:
    """All unordered pairs of blocks, in rounds in which each block appears at most once (the circle method).

    Examples
    --------
    >>> from heatsketch.operators.tiled import tournament
    >>> for fixture in tournament(5, 2):
    ...     print([(a.start, b.start) for a, b in fixture])
    [(0, 0), (2, 2), (4, 4)]
    [(2, 4)]
    [(0, 2)]
    [(0, 4)]
    """
    blocks: list[slice | None] = [slice(start, min(n, start + tile)) for start in range(0, n, tile)]
    yield [(block, block) for block in blocks if block is not None]
    if len(blocks) % 2:
        blocks.append(None)  # whoever meets it sits the round out
    ring = blocks[1:]
    for turn in range(len(ring)):
        circle = [blocks[0], *ring[turn:], *ring[:turn]]
        pairs = zip(circle[: len(circle) // 2], reversed(circle[len(circle) // 2 :]), strict=True)
        yield [(min(a, b, key=_start), max(a, b, key=_start)) for a, b in pairs if a is not None and b is not None]


def _start(block: slice) -> int:
    return int(block.start)
