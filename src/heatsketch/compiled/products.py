"""Products of kernels with blocks of columns: sparse matrices (products.c), and tiles formed on the fly (tiles.c)."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["sparse_product", "tile_products"]

_sparse_product = Function("sparse_product", "IJTTT*", "lll", I="il", J="il", T="fd")
_tile_products = Function("tile_products", "lPPPTTT*P*T*", 9 * "l", P="fd", T="fd")


def sparse_product(
    indptr: IntArray, indices: IntArray, data: FloatArray, V: FloatArray, out: FloatArray, start: int, stop: int
) -> None:
    """Rows start to stop of ``K V`` into `out`, for K in CSR form and C-contiguous V and `out` of shape (N, k).

    Sums are held in registers, for a block of columns at a time: the largest power of two that fits, up to 32. The last
    block may overlap the one before.
    """
    _sparse_product((indptr, indices, data, V, out), V.shape[1], start, stop)


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
    arrays = pairs, points, columns, norms, scale, V, out, P, K
    sizes = len(pairs), len(points), *columns.shape, bool(zero_diagonal), V.shape[1], *P.shape, K.shape[1]
    _tile_products(arrays, *sizes)
