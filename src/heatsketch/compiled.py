"""Loops compiled by Numba: what NumPy can only do in several passes over memory.

Each takes a range of rows and lets go of the interpreter, so that `heatsketch.threads` can run several at once. None
changes the order of a sum with the number of threads. Compiled code is cached on disk at first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from .vectors import LANES, bits_of, float_of, lowest_bit, row_product, within, within_each

__all__ = [
    "exp_direct",
    "exp_product",
    "gaussian_entries",
    "measure",
    "mirror",
    "offer",
    "shrink",
    "sparse_product",
    "unite",
]

# Fused multiply-add and no special cases for NaN, but no reordering: the rounding trick of `_exp32` must stay.
_MATH = {"contract", "nnan", "ninf", "nsz"}


def _compile(function: Any) -> Any:
    return njit(function, nogil=True, cache=True, fastmath=_MATH, boundscheck=False, error_model="numpy")


@njit(inline="always", fastmath=_MATH)
def _exp32(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to two units in the last place; branch-free, so that loops over it are vectorised."""
    y = max(x, np.float32(-87.0))
    shifted = y * np.float32(1.4426950408889634) + np.float32(12582912.0)  # rounds to a whole number
    n = shifted - np.float32(12582912.0)
    f = y - n * np.float32(0.693359375)
    f = f - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    e = float_of(np.int32(bits_of(p) + (bits_of(shifted) << 23)))  # Numba widens integers to 64 bits
    return e if x >= np.float32(-87.0) else np.float32(0.0)


@njit(inline="always", fastmath=_MATH)
def _exp64(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to two units in the last place."""
    y = max(x, -708.0)
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    f = y - n * 6.93145751953125e-1
    f = f - n * 1.42860682030941723212e-6
    p = 1.0 / 6227020800.0
    p = p * f + 1.0 / 479001600.0
    p = p * f + 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f * f + f + 1.0
    e = float_of(bits_of(p) + (bits_of(shifted) << 52))
    return e if x >= -708.0 else 0.0


def _exp(x: Any) -> Any:
    """exp(x) for x <= 0, in the precision of x."""
    return np.exp(x)


@overload(_exp, inline="always", jit_options={"fastmath": _MATH})
def _exp_compiled(x: Any) -> Any:
    return _exp32_of if x == types.float32 else _exp64_of


def _exp32_of(x: Any) -> Any:
    return _exp32(x)


def _exp64_of(x: Any) -> Any:
    return _exp64(x)


@_compile
def exp_product(P, left, right, row_scale, column_scale, out):  # type: ignore[no-untyped-def]
    """``exp(-(left_i + right_j - P_ij) row_scale_i column_scale_j)``: kernel tile from inner products.

    Parameters
    ----------
    P : ndarray of shape (m, n)
        Twice the inner products of the points.
    left, right : ndarrays of shape (m,), (n,)
        Their squared norms, of the dtype of `P`.
    row_scale, column_scale : ndarrays of shape (m,), (n,)
        Of the dtype of `out`.
    out : ndarray of shape (m, n)
        May be `P` itself.
    """
    for i in range(P.shape[0]):
        norm, scale = left[i], row_scale[i]
        for j in range(P.shape[1]):
            squared = max(norm + right[j] - P[i, j], norm - norm)
            out[i, j] = _exp(-(squared * scale * column_scale[j]))


@_compile
def exp_direct(X, Y, row_scale, column_scale, out):  # type: ignore[no-untyped-def]
    """``exp(-|x_i - y_j|^2 row_scale_i column_scale_j)``: kernel tile from differences, which cannot cancel.

    Parameters
    ----------
    X, Y : ndarrays of shape (d, m), (d, n)
        Points in columns.
    row_scale, column_scale : ndarrays of shape (m,), (n,)
        Of the dtype of `out`.
    out : ndarray of shape (m, n)
    """
    for i in range(X.shape[1]):
        for j in range(Y.shape[1]):
            out[i, j] = 0
        for c in range(X.shape[0]):
            x = X[c, i]
            for j in range(Y.shape[1]):
                out[i, j] += (x - Y[c, j]) * (x - Y[c, j])
        scale = row_scale[i]
        for j in range(Y.shape[1]):
            out[i, j] = _exp(-(out[i, j] * scale * column_scale[j]))


@_compile
def shrink(squared, ids, count, worst, k, start, stop):  # type: ignore[no-untyped-def]
    """Bring the k nearest of each row's neighbours to its front, by quickselect.

    Of two that are as near the one with the smaller number comes first. Rows with fewer than k keep what they have.
    """
    for row in range(start, stop):
        low, high = 0, count[row] - 1
        while low < high and high >= k:
            middle = (low + high) // 2
            pivot, name = squared[row, middle], ids[row, middle]
            i, j = low, high
            while i <= j:
                while squared[row, i] < pivot or (squared[row, i] == pivot and ids[row, i] < name):
                    i += 1
                while squared[row, j] > pivot or (squared[row, j] == pivot and ids[row, j] > name):
                    j -= 1
                if i <= j:
                    squared[row, i], squared[row, j] = squared[row, j], squared[row, i]
                    ids[row, i], ids[row, j] = ids[row, j], ids[row, i]
                    i += 1
                    j -= 1
            if k - 1 <= j:
                high = j
            elif k - 1 >= i:
                low = i
            else:
                break
        if count[row] >= k:
            count[row] = k
            largest = squared[row, 0]
            for p in range(1, k):
                largest = max(largest, squared[row, p])
            worst[row] = largest


@_compile
def offer(P, left, right, start, stop, row, column, mode, k, worst, count, squared, ids):  # type: ignore[no-untyped-def]
    """Offer points to each other as neighbours: those of the rows of a tile, and those of some of its columns.

    Parameters
    ----------
    P : ndarray of float32, shape (m, n)
        Twice the inner products of the points.
    left, right : ndarrays of float32, shape (m,), (n,)
        Their squared norms; NaN, which is within no limit, for columns that only fill up.
    start, stop : int
        The columns that take part, a multiple of 16 of them.
    row, column : int
        Number of the first row's point, and of the point of column `start`.
    mode : int
        0: rows are queries from outside; 1: rows and columns are the same points, none of which is offered to itself;
        2: columns look for neighbours too.
    k : int
        Neighbours wanted.
    worst : ndarray of float32, shape (N + 16,)
        Squared distance beyond which a point takes no more neighbours; changed.
    count : ndarray of int32, shape (N,)
        Neighbours that a point holds; changed.
    squared, ids : ndarrays of float32 and int32, shape (N, more than k)
        The nearest so far and their numbers, in no order; changed.
    """
    n, room = P.shape[1], squared.shape[1]
    for i in range(P.shape[0]):
        norm, here = left[i], row + i
        for j in range(start, stop, LANES):
            there, at = j - start + column, i * n + j
            hits = within(norm, right, j, P, at, worst[here])
            while hits:
                lane = lowest_bit(hits)
                hits &= hits - 1
                if mode == 1 and here == there + lane:
                    continue
                c = count[here]
                squared[here, c], ids[here, c] = norm + right[j + lane] - P[i, j + lane], there + lane
                count[here] = c + 1
                if c + 1 == room:
                    shrink(squared, ids, count, worst, k, here, here + 1)
            hits = within_each(norm, right, j, P, at, worst, there) if mode == 2 else 0
            while hits:
                lane = lowest_bit(hits)
                hits &= hits - 1
                c = count[there + lane]
                squared[there + lane, c], ids[there + lane, c] = norm + right[j + lane] - P[i, j + lane], here
                count[there + lane] = c + 1
                if c + 1 == room:
                    shrink(squared, ids, count, worst, k, there + lane, there + lane + 1)


@_compile
def measure(X, Y, ids, start, stop, squared):  # type: ignore[no-untyped-def]
    """Squared distances from rows start to stop of `X` to their neighbours in `Y`, by differences; both sorted.

    Parameters
    ----------
    X, Y : ndarrays of shape (m, d), (N, d)
    ids : ndarray of int32, shape (m, k)
        Numbers of the neighbours; sorted by distance, then number. Negative where there is none.
    squared : ndarray of float64, shape (m, k)
        The squared distances, infinite where there is none.
    """
    for i in range(start, stop):
        for p in range(ids.shape[1]):
            j, total = ids[i, p], 0.0
            for c in range(X.shape[1]):
                difference = np.float64(X[i, c]) - np.float64(Y[max(j, 0), c])
                total += difference * difference
            if j < 0:
                total = np.inf
            q = p  # insertion keeps the part that is done sorted
            while q > 0 and (squared[i, q - 1] > total or (squared[i, q - 1] == total and ids[i, q - 1] > j)):
                squared[i, q], ids[i, q] = squared[i, q - 1], ids[i, q - 1]
                q -= 1
            squared[i, q], ids[i, q] = total, j


_row_products = {lanes: row_product(lanes) for lanes in (1, 2, 4, 8, 16, 32)}
_row1, _row2, _row4, _row8, _row16, _row32 = _row_products.values()


@_compile
def sparse_product(indptr, indices, data, V, out, start, stop):  # type: ignore[no-untyped-def]
    """Rows start to stop of ``K V`` for K in CSR form; the last block of columns may overlap the one before.

    Parameters
    ----------
    indptr, indices, data : ndarrays
        The matrix in compressed rows.
    V, out : ndarrays of shape (N, k), in the order of C
    """
    k = V.shape[1]
    lanes = 1
    while lanes < 32 and 2 * lanes <= k:
        lanes *= 2
    for row in range(start, stop):
        first, last = np.int64(indptr[row]), np.int64(indptr[row + 1])
        done = 0
        while done < k:
            column = min(done, k - lanes)
            if lanes == 32:
                _row32(indices, data, V, out, row, column, first, last)
            elif lanes == 16:
                _row16(indices, data, V, out, row, column, first, last)
            elif lanes == 8:
                _row8(indices, data, V, out, row, column, first, last)
            elif lanes == 4:
                _row4(indices, data, V, out, row, column, first, last)
            elif lanes == 2:
                _row2(indices, data, V, out, row, column, first, last)
            else:
                _row1(indices, data, V, out, row, column, first, last)
            done = column + lanes


@_compile
def mirror(ids, kept, missing, mutual):  # type: ignore[no-untyped-def]
    """Find the edges of a neighbour graph that only one of their two ends lists.

    Parameters
    ----------
    ids : ndarray of int32, shape (N, k)
    kept : ndarray of int32, shape (N,)
        How many of its neighbours a point keeps.
    missing : ndarray of int64, shape (N,)
        Number of edges that lead to a point which does not list them; counted up.
    mutual : ndarray of bool, shape (N, k)
        Whether the neighbour lists the point too; set.
    """
    for i in range(ids.shape[0]):
        for p in range(kept[i]):
            j = ids[i, p]
            known = np.int32(0)
            for q in range(kept[j]):
                known |= np.int32(ids[j, q] == i)
            mutual[i, p] = known > 0
            missing[j] += 1 - known


@_compile
def unite(ids, squared, kept, mutual, indptr, columns, values):  # type: ignore[no-untyped-def]
    """Write the graph in which every edge is listed at both ends, in compressed rows: the point itself comes first.

    Parameters
    ----------
    ids, squared : ndarrays of shape (N, k)
    kept, mutual : as `mirror` takes and leaves them
    indptr : ndarray of int64, shape (N + 1,)
    columns, values : ndarrays of shape (indptr[-1],)
        Neighbours and squared distances; set.
    """
    n = ids.shape[0]
    place = np.empty(n, dtype=np.int64)
    for i in range(n):
        start = indptr[i]
        columns[start], values[start] = i, 0
        for p in range(kept[i]):
            columns[start + 1 + p], values[start + 1 + p] = ids[i, p], squared[i, p]
        place[i] = start + 1 + kept[i]
    for i in range(n):
        for p in range(kept[i]):
            if not mutual[i, p]:
                j = ids[i, p]
                columns[place[j]], values[place[j]] = i, squared[i, p]
                place[j] += 1


@_compile
def gaussian_entries(indptr, columns, squared, scale, out, start, stop):  # type: ignore[no-untyped-def]
    """``exp(-squared_ij scale_i scale_j)`` for the entries of rows start to stop of a matrix in compressed rows."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = _exp64(-(np.float64(squared[p]) * scale[i] * scale[columns[p]]))
