"""Products of kernels with blocks of columns: tiles that are formed on the fly, and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .loops import exp, loop
from .vectors import entry, load, multiply_add, prefetch, store, zeros

__all__ = ["sparse_product", "tile_products"]

# Squared distances, in units of epsilon, from which on the kernel is zero; those of outliers would overflow float32.
_FARTHEST = np.float32(1e30)
# Entries of a sparse matrix for which rows of V are fetched ahead.
_AHEAD = 16


def _block_products(lanes: int) -> tuple[Any, Any]:
    """Functions that add four rows, or one, of a dense product ``K V`` to `lanes` columns of `out`.

    Entry (q, j) of the rows lies at ``start + q step + j stride`` in the memory of K, for j < n. The columns of V begin
    with `column`, and the block lies in the memory of `out` from `target` on.
    """

    @loop
    def four_rows(K, start, step, stride, n, V, column, out, target):  # type: ignore[no-untyped-def]
        k, across = V.shape[1], out.shape[1]
        sums0, sums1 = load(out, target, lanes), load(out, target + across, lanes)
        sums2, sums3 = load(out, target + 2 * across, lanes), load(out, target + 3 * across, lanes)
        for j in range(n):
            row, at = load(V, j * k + column, lanes), start + j * stride
            sums0 = multiply_add(entry(K, at), row, sums0)
            sums1 = multiply_add(entry(K, at + step), row, sums1)
            sums2 = multiply_add(entry(K, at + 2 * step), row, sums2)
            sums3 = multiply_add(entry(K, at + 3 * step), row, sums3)
        store(sums0, out, target)
        store(sums1, out, target + across)
        store(sums2, out, target + 2 * across)
        store(sums3, out, target + 3 * across)

    @loop
    def one_row(K, start, stride, n, V, column, out, target):  # type: ignore[no-untyped-def]
        sums = load(out, target, lanes)
        for j in range(n):
            sums = multiply_add(entry(K, start + j * stride), load(V, j * V.shape[1] + column, lanes), sums)
        store(sums, out, target)

    return four_rows, one_row


_four_rows_8, _one_row_8 = _block_products(8)
_four_rows_32, _one_row_32 = _block_products(32)


@loop
def _add_product(K, start, step, stride, m, n, V, first, width, out):  # type: ignore[no-untyped-def]
    """``out += K V`` for a matrix K of shape (m, n) and `width` columns of V from `first` on, a multiple of 8.

    Entry (i, j) of K lies at ``start + i step + j stride`` in memory: with `step` and `stride` exchanged, K is the
    transposed matrix. BLAS is three times slower if `width` or n is small, because so few columns do not pay for its
    copies.
    """
    done, across, fours = 0, out.shape[1], m // 4 * 4
    while done < width:
        column, wide = first + done, width - done >= 32
        for i in range(0, fours, 4):
            if wide:
                _four_rows_32(K, start + i * step, step, stride, n, V, column, out, i * across + done)
            else:
                _four_rows_8(K, start + i * step, step, stride, n, V, column, out, i * across + done)
        for i in range(fours, m):
            if wide:
                _one_row_32(K, start + i * step, stride, n, V, column, out, i * across + done)
            else:
                _one_row_8(K, start + i * step, stride, n, V, column, out, i * across + done)
        done += 32 if wide else 8


@loop
def _exp_rows(points, columns, norms, scale, pair, P, K):  # type: ignore[no-untyped-def]
    """A tile of the kernel from inner products: ``exp(-(|x|^2 + |y|^2 - 2 x.y) s_x s_y)``."""
    top, bottom, left, right = pair
    n, d, strip = right - left, points.shape[1], len(P)
    farthest = 1e30 if K.itemsize == 4 else 1e300  # does not overflow in the dtype of the kernel
    other_norms, other_scales = norms[left:right], scale[left:right]
    for first in range(top, bottom, strip):  # a few rows at a time, whose products stay in the cache
        rows = min(strip, bottom - first)
        P[:rows] = 0
        _add_product(points, first * d, d, 1, rows, d, columns, left, (n + 7) // 8 * 8, P)
        for i in range(rows):
            norm, here, products, row = norms[first + i], scale[first + i], P[i, :n], K[first - top + i, :n]
            for j in range(n):
                row[j] = min(max(norm + other_norms[j] - (products[j] + products[j]), norm - norm), farthest)
            # Only the difference needs the precision of the products.
            for j in range(n):
                row[j] = exp(-(row[j] * here * other_scales[j]))


@loop
def _exp_differences(columns, scale, pair, K):  # type: ignore[no-untyped-def]
    """A tile of the kernel from differences, which do not cancel."""
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


def _sparse_product(lanes: int) -> Any:
    @loop
    def multiply(indptr, indices, data, V, out, start, stop):  # type: ignore[no-untyped-def]
        k, final = V.shape[1], np.int64(indptr[stop]) - 1
        for i in range(start, stop):
            first, last = np.int64(indptr[i]), np.int64(indptr[i + 1])
            if lanes < k < 2 * lanes:  # both blocks at once: rows of V are gathered only once
                sums, others = zeros(V, lanes), zeros(V, lanes)
                for p in range(first, last):
                    value, at = entry(data, p), entry(indices, p) * k
                    sums = multiply_add(value, load(V, at, lanes), sums)
                    others = multiply_add(value, load(V, at + k - lanes, lanes), others)
                store(sums, out, i * k)
                store(others, out, i * k + k - lanes)
                continue
            for done in range(0, k, lanes):
                column, sums = min(done, k - lanes), zeros(V, lanes)
                for p in range(first, last):
                    if lanes == 32:  # two cache lines, more than the processor fetches ahead by itself
                        ahead = entry(indices, min(p + _AHEAD, final)) * k + column
                        prefetch(V, ahead)
                        prefetch(V, ahead + lanes // 2)
                    sums = multiply_add(entry(data, p), load(V, entry(indices, p) * k + column, lanes), sums)
                store(sums, out, i * k + column)

    return multiply


_SPARSE_PRODUCTS = [_sparse_product(lanes) for lanes in (1, 2, 4, 8, 16, 32)]


def sparse_product(indptr: Any, indices: Any, data: Any, V: Any, out: Any, start: int, stop: int) -> None:
    """Rows start to stop of ``K V`` into `out`, for K in CSR form and C-contiguous V and `out` of shape (N, k).

    Sums are held in registers, for a block of columns at a time: the largest power of two that fits, up to 32. The last
    block may overlap the one before.
    """
    multiply = _SPARSE_PRODUCTS[min(5, V.shape[1].bit_length() - 1)]
    multiply(indptr, indices, data, V, out, start, stop)
