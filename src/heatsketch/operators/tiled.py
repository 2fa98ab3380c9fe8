"""All pairs, exactly, without the matrix: tiles of the Gaussian kernel are made, multiplied and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..threads import Scratch, workers
from .base import Operator

# Points to a tile: a float32 tile of 512 x 512 is 1 MB, which stays in the second-level cache.
TILE = 512
# Up to this many features differences are formed one by one, which no cancellation can harm and no product beats.
_DIRECT_FEATURES = 6
# Inner products are trusted while their rounding moves exponents by no more than this.
_EXPONENT_ERROR = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


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
        centred = (np.asarray(X, dtype=np.float64) - np.asarray(X.mean(axis=0), dtype=np.float64)) / unit
        self._scale = (unit / scales).astype(self.dtype)
        self._choose_arithmetic(centred, float((unit / scales).max()) ** 2)

    def _choose_arithmetic(self, centred: FloatArray, steepest: float) -> None:
        """Hold the points as the arithmetic that is accurate enough wants them."""
        norms = np.einsum("ij,ij->i", centred, centred)
        spread = 4.0 * float(norms.max(initial=0.0)) * steepest
        allowed = _EXPONENT_ERROR[self.dtype]
        accurate = [t for t in (np.float32, np.float64) if np.finfo(t).eps * spread <= allowed]
        if centred.shape[1] <= _DIRECT_FEATURES or not accurate:
            self._points, self._norms = np.ascontiguousarray(centred.T), None
            if np.finfo(self.dtype).eps * np.sqrt(spread) <= allowed:
                self._points = self._points.astype(self.dtype)
            return
        self._points, self._norms = centred.astype(accurate[0]), norms.astype(accurate[0])

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V, tile by tile."""
        out = np.zeros((self.shape[0], V.shape[1]), dtype=self.dtype)

        scratch = Scratch()

        def multiply(pair: tuple[slice, slice]) -> None:
            rows, columns = pair
            K = self._tile(rows, columns, scratch)
            out[rows] += K @ V[columns]
            if rows != columns:
                out[columns] += K.T @ V[rows]

        with workers(self.threads) as share:
            for fixture in tournament(self.shape[0], self.tile):
                for _ in share(multiply, fixture):
                    pass
        return out

    def _tile(self, rows: slice, columns: slice, scratch: Scratch) -> FloatArray:
        """Kernel between two blocks of points."""
        from ..compiled import exp_direct, exp_product  # noqa: PLC0415

        scale = self._scale[rows], self._scale[columns]
        shape = rows.stop - rows.start, columns.stop - columns.start
        K = scratch.array("kernel", shape, self.dtype)
        if self._norms is None:
            exp_direct(self._points[:, rows], self._points[:, columns], *scale, K)
        else:
            products = scratch.array("products", shape, self._points.dtype)
            np.matmul(self._points[rows] + self._points[rows], self._points[columns].T, out=products)
            exp_product(products, self._norms[rows], self._norms[columns], *scale, K)
        if self.zero_diagonal and rows == columns:
            np.fill_diagonal(K, 0.0)
        return K

    def toarray(self) -> FloatArray:
        """The matrix itself, for small N."""
        out = np.empty(self.shape, dtype=self.dtype)
        scratch = Scratch()
        for fixture in tournament(self.shape[0], self.tile):
            for rows, columns in fixture:
                out[rows, columns] = self._tile(rows, columns, scratch)
                out[columns, rows] = out[rows, columns].T
        return out


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
