"""Products of kernels with blocks of columns: tiles that are formed on the fly, and sparse matrices."""

from __future__ import annotations

import numpy as np

from .loops import exp, loop
from .vectors import block_product, row_product

__all__ = ["sparse_product", "tile_products"]

_block4x32, _block1x32 = block_product(4, 32), block_product(1, 32)
_block4x8, _block1x8 = block_product(4, 8), block_product(1, 8)


# Squared distances, in units of epsilon, from which on the kernel is zero; those of outliers would overflow float32.
_FARTHEST = np.float32(1e30)


@loop
def _add_product(K, start, step, stride, m, n, V, first, width, out):  # type: ignore[no-untyped-def]
    """``out += K V`` for a matrix K of shape (m, n) and `width` columns of V from `first` on, a multiple of 8.

    Entry (i, j) of K lies at ``start + i step + j stride`` in memory. BLAS does this at a third of its speed where
    `width` or n is small, because so few columns do not pay for its copies.
    """
    done, across = 0, out.shape[1]
    while done < width:
        lanes = 32 if width - done >= 32 else 8
        i = 0
        while i < m:
            at, column, target = start + i * step, first + done, i * across + done
            if m - i >= 4 and lanes == 32:
                _block4x32(K, at, step, stride, n, V, column, out, target)
            elif m - i >= 4:
                _block4x8(K, at, step, stride, n, V, column, out, target)
            elif lanes == 32:
                _block1x32(K, at, step, stride, n, V, column, out, target)
            else:
                _block1x8(K, at, step, stride, n, V, column, out, target)
            i += 4 if m - i >= 4 else 1
        done += lanes


@loop
def _exp_rows(points, columns, norms, scale, pair, P, K):  # type: ignore[no-untyped-def]
    """A tile of the kernel from inner products: ``exp(-(|x|^2 + |y|^2 - 2 x.y) s_x s_y)``."""
    top, bottom, left, right = pair
    n, d, strip = right - left, points.shape[1], len(P)
    farthest = 1e30 if K.itemsize == 4 else 1e300  # so that nothing overflows where the kernel is kept
    other_norms, other_scales = norms[left:right], scale[left:right]
    for first in range(top, bottom, strip):  # a few rows at a time, whose products stay close to the processor
        rows = min(strip, bottom - first)
        P[:rows] = 0
        _add_product(points, first * d, d, 1, rows, d, columns, left, (n + 7) // 8 * 8, P)
        for i in range(rows):
            norm, here, products, row = norms[first + i], scale[first + i], P[i, :n], K[first - top + i, :n]
            for j in range(n):
                row[j] = min(max(norm + other_norms[j] - (products[j] + products[j]), norm - norm), farthest)
            # Only the difference needs the digits of the products: its exponential is as exact as the kernel.
            for j in range(n):
                row[j] = exp(-(row[j] * here * other_scales[j]))


@loop
def _exp_differences(columns, scale, pair, K):  # type: ignore[no-untyped-def]
    """A tile of the kernel from differences, which cannot cancel."""
    top, bottom, left, right = pair
    other_scales = scale[left:right]
    for i in range(bottom - top):
        row, here = K[i, : right - left], scale[top + i]
        for j in range(len(row)):
            row[j] = 0
        for c in range(columns.shape[0]):
            x, ys = columns[c, top + i], columns[c, left:right]
            for j in range(len(row)):
                row[j] = min(row[j] + (x - ys[j]) * (x - ys[j]), _FARTHEST)
        for j in range(len(row)):
            row[j] = exp(-(row[j] * here * other_scales[j]))


@loop
def tile_products(pairs, points, columns, norms, scale, zero_diagonal, V, out, P, K):  # type: ignore[no-untyped-def]
    """Form tiles of a Gaussian kernel, and use each for both of its blocks.

    Parameters
    ----------
    pairs : ndarray of int64, shape (p, 4)
        Top, bottom, left and right of the tiles.
    points : ndarray of shape (N, d), or (0, d): then differences are formed instead of inner products
    columns : ndarray of shape (d, N or more)
        The points in columns.
    norms : ndarray of shape (N,)
        Their squared norms.
    scale : ndarray of shape (N,)
        Exponents are multiplied by the scales of both points.
    zero_diagonal : bool
    V, out : ndarrays of shape (N, k)
        k is a multiple of 8; the products are added to `out`.
    P, K : ndarrays
        For inner products of some rows of a tile, and for the kernel of a whole one.
    """
    across, k = K.shape[1], V.shape[1]
    for t in range(len(pairs)):
        pair = pairs[t, 0], pairs[t, 1], pairs[t, 2], pairs[t, 3]
        top, bottom, left, right = pair
        m, n = bottom - top, right - left
        if len(points):
            _exp_rows(points, columns, norms, scale, pair, P, K)
        else:
            _exp_differences(columns, scale, pair, K)
        if top == left and zero_diagonal:
            for i in range(m):
                K[i, i] = 0
        _add_product(K, 0, across, 1, m, n, V[left:right], 0, k, out[top:bottom])
        if top != left:
            _add_product(K, 0, 1, across, n, m, V[top:bottom], 0, k, out[left:right])


_row_products = {lanes: row_product(lanes) for lanes in (1, 2, 4, 8, 16, 32)}
_row1, _row2, _row4, _row8, _row16, _row32 = _row_products.values()


@loop
def sparse_product(indptr, indices, data, V, out, places, start, stop):  # type: ignore[no-untyped-def]
    """Rows start to stop of ``K V`` for K in CSR form; the last block of columns may overlap the one before.

    Parameters
    ----------
    indptr, indices, data : ndarrays
        The matrix in compressed rows.
    V, out : ndarrays of shape (N, k), in the order of C
    places : ndarray of int64, shape (N,), or None
        The row of `V` and `out` that each row and column of the matrix belongs to; None where that is its own number.
    """
    k = V.shape[1]
    lanes = 1
    while lanes < 32 and 2 * lanes <= k:
        lanes *= 2
    for i in range(start, stop):
        first, last = np.int64(indptr[i]), np.int64(indptr[i + 1])
        done = 0
        while done < k:
            column = min(done, k - lanes)
            if lanes == 32:
                _row32(indices, data, V, out, places, i, column, first, last)
            elif lanes == 16:
                _row16(indices, data, V, out, places, i, column, first, last)
            elif lanes == 8:
                _row8(indices, data, V, out, places, i, column, first, last)
            elif lanes == 4:
                _row4(indices, data, V, out, places, i, column, first, last)
            elif lanes == 2:
                _row2(indices, data, V, out, places, i, column, first, last)
            else:
                _row1(indices, data, V, out, places, i, column, first, last)
            done = column + lanes
