"""The search for nearest neighbours, and the graph that is made of them."""

from __future__ import annotations

import numpy as np

from .loops import exp64, loop
from .vectors import LANES, lowest_bit, within, within_each

__all__ = ["gaussian_entries", "measure", "mirror", "offer", "shrink", "unite"]


@loop
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


@loop
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
            others = within_each(norm, right, j, P, at, worst, there) if mode == 2 else 0
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
            while others:
                lane = lowest_bit(others)
                others &= others - 1
                c = count[there + lane]
                squared[there + lane, c], ids[there + lane, c] = norm + right[j + lane] - P[i, j + lane], here
                count[there + lane] = c + 1
                if c + 1 == room:
                    shrink(squared, ids, count, worst, k, there + lane, there + lane + 1)


@loop
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


@loop
def mirror(ids, kept, lonely, start, stop):  # type: ignore[no-untyped-def]
    """Find the edges of a neighbour graph that only one of their two ends lists, for the points start to stop.

    Parameters
    ----------
    ids : ndarray of int32, shape (N, k)
    kept : ndarray of int32, shape (N,)
        How many of its neighbours a point keeps.
    lonely : ndarray of bool, shape (N, k)
        Whether a neighbour is kept that does not keep the point; set.
    """
    for i in range(start, stop):
        for p in range(kept[i]):
            j = ids[i, p]
            known = np.int32(0)
            for q in range(kept[j]):
                known |= np.int32(ids[j, q] == i)
            lonely[i, p] = known == 0


@loop
def unite(ids, squared, kept, lonely, indptr, columns, values):  # type: ignore[no-untyped-def]
    """Write the graph in which every edge is listed at both ends, in compressed rows: the point itself comes first.

    Parameters
    ----------
    ids, squared : ndarrays of shape (N, k)
    kept, lonely : as `mirror` takes and leaves them
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
            if lonely[i, p]:
                j = ids[i, p]
                columns[place[j]], values[place[j]] = i, squared[i, p]
                place[j] += 1


@loop
def gaussian_entries(indptr, columns, squared, scale, out, start, stop):  # type: ignore[no-untyped-def]
    """``exp(-squared_ij scale_i scale_j)`` for the entries of rows start to stop of a matrix in compressed rows."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = exp64(-(np.float64(squared[p]) * scale[i] * scale[columns[p]]))
