"""Selection of nearest neighbours from tiles of distances, and the neighbour graph."""

from __future__ import annotations

import numpy as np

from . import BOTH_WAYS, LANES, SAME_POINTS
from .loops import exp64, loop
from .vectors import (
    add_dots,
    any_at_most,
    at_most,
    distances,
    distances_of_dots,
    load,
    lowest_bit,
    n_bits,
    store,
    zeros,
)

__all__ = [
    "gaussian_entries",
    "list_kept",
    "list_lonely",
    "measure",
    "mirror",
    "offer",
    "offer_codes",
    "shrink",
    "smallest",
]

# Padding of a row: larger than any limit.
_FARTHEST = np.float32(3.4e38)


@loop
def shrink(squared, ids, count, worst, k, start, stop):  # type: ignore[no-untyped-def]
    """Move the k nearest candidates of the rows start to stop to the front; rows with no more are unchanged.

    The k-th distance is found by bisection, sixteen comparisons at a time. Among equal distances the smallest numbers
    are kept. For the arrays see `offer`.
    """
    for row in range(start, stop):
        held = count[row]
        if held <= k:
            continue
        squared[row, held:] = _FARTHEST
        below, limit = _bisect(squared, row, k, held)
        last = _last_of_ties(squared[row, :held], ids[row, :held], below, limit, k)
        place, largest = 0, squared[row, 0]
        for p in range(held):
            distance, number = squared[row, p], ids[row, p]
            if distance <= below or (distance <= limit and number <= last):
                largest = max(largest, distance) if place else distance
                squared[row, place], ids[row, place] = distance, number
                place += 1
        count[row], worst[row] = k, largest


@loop
def _bisect(squared, row, k, held):  # type: ignore[no-untyped-def]
    """Limits around the k-th smallest of a row: equal if exactly k are within, else adjacent numbers."""
    room = squared.shape[1]
    low = high = squared[row, 0]
    for p in range(1, held):
        low, high = min(low, squared[row, p]), max(high, squared[row, p])
    low -= np.float32(1e-6) * abs(low) + np.float32(1e-30)  # below all of them
    while True:
        middle = np.float32(0.5) * (low + high)
        if middle <= low or middle >= high:
            return low, high
        within_limit = 0
        for p in range(0, room, LANES):
            within_limit += n_bits(at_most(load(squared, row * room + p, LANES), middle))
        if within_limit == k:
            return middle, middle
        if within_limit < k:
            low = middle
        else:
            high = middle


@loop
def _last_of_ties(squared, ids, below, limit, k):  # type: ignore[no-untyped-def]
    """The largest number to keep among candidates at the limit, so that k are kept in total."""
    if below == limit:
        return np.int64(-1)
    wanted = k
    for p in range(len(squared)):
        wanted -= squared[p] <= below
    low, high = np.int64(-1), np.int64(2147483647)
    while high - low > 1:
        middle = (low + high) // 2
        found = 0
        for p in range(len(squared)):
            found += below < squared[p] <= limit and ids[p] <= middle
        if found >= wanted:
            high = middle
        else:
            low = middle
    return high


@loop
def offer(P, left, right, start, stop, row, column, mode, k, worst, count, squared, ids):  # type: ignore[no-untyped-def]
    """Offer the points of the rows and columns of a tile to each other as neighbours.

    Parameters
    ----------
    P : ndarray of float32, shape (m, n)
        Twice the inner products of the points.
    left, right : ndarrays of float32, shape (m,), (n,)
        Their squared norms; NaN, which is within no limit, for padding.
    start, stop : int
        The columns that take part, a multiple of 16 of them.
    row, column : int
        Number of the first row's point, and of the point of column `start`.
    mode : {TO_ROWS, SAME_POINTS, BOTH_WAYS}
        Which points get candidates; a point is not its own neighbour.
    k : int
        Number of neighbours.
    worst : ndarray of float32, shape (N + 16,)
        Squared distance beyond which a point takes no more neighbours: that of its k-th once there are k; changed.
    count : ndarray of int32, shape (N,)
        Number of candidates of a point; changed.
    squared, ids : ndarrays of float32 and int32, shape (N, room)
        Candidates, unsorted; changed. The room is more than k, and a multiple of 16.
    """
    n, room = P.shape[1], squared.shape[1]
    for i in range(P.shape[0]):
        norm, here = left[i], row + i
        for j in range(start, stop, LANES):
            there, at = j - start + column, i * n + j
            apart = distances(norm, load(right, j, LANES), load(P, at, LANES))
            hits = at_most(apart, worst[here])
            others = at_most(apart, load(worst, there, LANES)) if mode == BOTH_WAYS else 0
            while hits:
                lane = lowest_bit(hits)
                hits &= hits - 1
                if mode == SAME_POINTS and here == there + lane:
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
def smallest(D, ids, values):  # type: ignore[no-untyped-def]
    """The k smallest entries of each row of `D`, (m, n), into `values`, and their columns into `ids`, both (m, k).

    They are sorted by size, then column. For few of them this is three times as fast as NumPy's partition.
    """
    k = ids.shape[1]
    for i in range(D.shape[0]):
        row, kept, columns = D[i], values[i], ids[i]
        kept[:] = np.inf
        columns[:] = 0
        largest = kept[0]
        for j in range(len(row)):
            if row[j] < largest:
                q = k - 1
                while q > 0 and kept[q - 1] > row[j]:
                    kept[q], columns[q] = kept[q - 1], columns[q - 1]
                    q -= 1
                kept[q], columns[q] = row[j], j
                largest = kept[k - 1]


@loop
def offer_codes(codes, first, other, left, right, factor, row, column, mode, k, worst, count, squared, ids):  # type: ignore[no-untyped-def]
    """As `offer`, for points that are stored as bytes: ``left_i + right_j - factor x_i.y_j`` are their distances.

    Parameters
    ----------
    codes : ndarray of int32, shape (blocks, ceil(d / 4), 16)
        Coordinates of 16 points in each block, four signed bytes in one number.
    first, other : int
        The first block of the rows, and of the columns.
    left, right : ndarrays of float32, shape (m,), (n,)
        NaN for padding to multiples of 16.
    factor : float32
    row, column, mode, k, worst, count, squared, ids
        As for `offer`.
    """
    depth, room = codes.shape[1], squared.shape[1]
    near = np.empty((4, LANES), np.float32)
    for i in range(0, len(left), 4):
        start = (first + i // LANES) * depth * LANES + i % LANES
        for j in range(0, len(right), LANES):
            dots0 = zeros(codes, LANES)
            dots1, dots2, dots3 = dots0, dots0, dots0
            at = (other * LANES + j) * depth
            for c in range(0, depth * LANES, LANES):
                rows, columns = load(codes, start + c, 4), load(codes, at + c, LANES)
                dots0 = add_dots(rows, 0, columns, dots0)
                dots1 = add_dots(rows, 1, columns, dots1)
                dots2 = add_dots(rows, 2, columns, dots2)
                dots3 = add_dots(rows, 3, columns, dots3)
            norms, limits = load(right, j, LANES), load(worst, column + j, LANES)
            apart0 = distances_of_dots(left[i], norms, factor, dots0)
            apart1 = distances_of_dots(left[i + 1], norms, factor, dots1)
            apart2 = distances_of_dots(left[i + 2], norms, factor, dots2)
            apart3 = distances_of_dots(left[i + 3], norms, factor, dots3)
            limit = worst[row + i], worst[row + i + 1], worst[row + i + 2], worst[row + i + 3]
            if not any_at_most((apart0, apart1, apart2, apart3), limit, limits):
                continue
            store(apart0, near, 0)
            store(apart1, near, LANES)
            store(apart2, near, 2 * LANES)
            store(apart3, near, 3 * LANES)
            # The rows that take columns as neighbours, then the columns that take rows.
            hits = at_most(apart0, limit[0]) | at_most(apart1, limit[1]) << 16
            hits |= at_most(apart2, limit[2]) << 32 | at_most(apart3, limit[3]) << 48
            others = 0
            if mode == BOTH_WAYS:
                others = at_most(apart0, limits) | at_most(apart1, limits) << 16
                others |= at_most(apart2, limits) << 32 | at_most(apart3, limits) << 48
            for side in range(2):
                while hits:
                    bit = lowest_bit(hits)
                    hits &= hits - 1
                    here, there = row + i + bit // LANES, column + j + bit % LANES
                    if mode == SAME_POINTS and here == there:
                        continue
                    point, neighbor = (there, here) if side else (here, there)
                    c = count[point]
                    squared[point, c], ids[point, c] = near[bit // LANES, bit % LANES], neighbor
                    count[point] = c + 1
                    if c + 1 == room:
                        shrink(squared, ids, count, worst, k, point, point + 1)
                hits = others


@loop
def measure(X, Y, ids, start, stop, squared):  # type: ignore[no-untyped-def]
    """Squared distances, by differences, from rows start to stop of `X` to the rows `ids`, (m, k), of `Y`.

    Both `ids` and `squared` are sorted by distance, then number.
    """
    for i in range(start, stop):
        for p in range(ids.shape[1]):
            j, total = ids[i, p], 0.0
            for c in range(X.shape[1]):
                difference = np.float64(X[i, c]) - np.float64(Y[j, c])
                total += difference * difference
            q = p  # insertion sort
            while q > 0 and (squared[i, q - 1] > total or (squared[i, q - 1] == total and ids[i, q - 1] > j)):
                squared[i, q], ids[i, q] = squared[i, q - 1], ids[i, q - 1]
                q -= 1
            squared[i, q], ids[i, q] = total, j


@loop
def mirror(ids, kept, lonely, start, stop):  # type: ignore[no-untyped-def]
    """Find the edges that only one of their ends lists, for the points start to stop.

    Of its neighbours `ids`, (N, k), a point keeps the first ``kept``; `lonely`, (N, k), is set to whether one is kept
    that does not keep the point.
    """
    for i in range(start, stop):
        for p in range(kept[i]):
            j = ids[i, p]
            known = np.int32(0)
            for q in range(kept[j]):
                known |= np.int32(ids[j, q] == i)
            lonely[i, p] = known == 0


@loop
def list_kept(ids, squared, kept, indptr, columns, values, start, stop):  # type: ignore[no-untyped-def]
    """Write rows start to stop of a neighbour graph in CSR format: the diagonal, then the neighbours kept."""
    for i in range(start, stop):
        first = indptr[i]
        columns[first], values[first] = i, 0
        for p in range(kept[i]):
            columns[first + 1 + p], values[first + 1 + p] = ids[i, p], squared[i, p]


@loop
def list_lonely(ids, squared, kept, lonely, indptr, columns, values):  # type: ignore[no-untyped-def]
    """Write the edges that `mirror` found after what `list_kept` wrote, in the rows of the other ends."""
    place = indptr[:-1] + 1 + kept
    for i in range(ids.shape[0]):
        for p in range(kept[i]):
            if lonely[i, p]:
                j = ids[i, p]
                columns[place[j]], values[place[j]] = i, squared[i, p]
                place[j] += 1


@loop
def gaussian_entries(indptr, columns, squared, scale, out, start, stop):  # type: ignore[no-untyped-def]
    """``exp(-squared_ij scale_i scale_j)`` for the entries of rows start to stop of a matrix in CSR format."""
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = exp64(-(np.float64(squared[p]) * scale[i] * scale[columns[p]]))
