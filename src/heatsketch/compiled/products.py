"""Products of kernels with blocks of columns: sparse matrices (products.c), and tiles formed on the fly (tiles.c)."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["sparse_product", "tile_products"]

_sparse_product = Function(
    "sparse_product",
    "I indptr[n+1], J indices[entries], T data[entries], T V[m, k], T* out[n, k]",
    "l k, l start<=n, l stop<=n",
    I="il",
    J="il",
    T="fd",
)
_tile_products = Function(
    "tile_products",
    "l tiles[n_tiles, 4], P points[n_points, d], P columns[d, n+8], P norms[n], T scale[n], T V[n, k], T* out[n, k], "
    "P* P[strip, wide], T* K[tall, across]",
    "l n_tiles, l n_points, l d, l n, l k, l strip, l wide, l across, l zero_diagonal<=1",
    P="fd",
    T="fd",
)


def sparse_product(
    indptr: IntArray, indices: IntArray, data: FloatArray, V: FloatArray, out: FloatArray, start: int, stop: int
) -> None:
    """Rows start to stop of ``K V`` into `out`, for K in CSR form, V of shape (m, k) and `out` of shape (n, k).

    Sums are held in registers, for a block of columns at a time: the largest power of two that fits, up to 32. The last
    block may overlap the one before.
    """
    _sparse_product((indptr, indices, data, V, out), start, stop)


def tile_products(
    pairs: IntArray,
    points: FloatArray,
    columns: FloatArray,
    norms: FloatArray,
    scale: FloatArray,
    zero_diagonal: bool,
    V: FloatArray,
    out: FloatArray,
    P: FloatArray,
    K: FloatArray,
) -> None:
    """Compute tiles of a Gaussian kernel, and use each for both of its blocks.

    Parameters
    ----------
    pairs : ndarray of int64, shape (p, 4)
        Top, bottom, left and right of the tiles.
    points, columns, norms, scale : ndarrays
        Those of :class:`heatsketch.linalg.operators.tiled.Tiles`.
    zero_diagonal : bool
    V, out : ndarrays of shape (N, k)
        k is a multiple of 8; the products are added to `out`.
    P, K : ndarrays
        Buffers for the inner products of some rows of a tile, and for a whole tile.
    """
    _tile_products((pairs, points, columns, norms, scale, V, out, P, K), zero_diagonal)
