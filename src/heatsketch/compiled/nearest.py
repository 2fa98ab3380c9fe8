"""The search for nearest neighbours in a k-d tree.

Queries are answered in groups: those that lie together need the same leaves, and distances to the points of these are
computed side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import LANES
from .loops import loop
from .trees import apart, first_of, join, power, root
from .vectors import count_within, lowest_bit, nearby

__all__ = ["answer"]

# Points that are looked at together.
_BATCH = 16384
# Neighbours that are kept before the farther ones are left out, in units of k.
_ROOM = 8
# Neighbours of a query are first looked for within these multiples of the radius that its group's centre needs.
_HOPES = (1.07, 1.3)
# No distance is as large.
_FARTHEST = 1.7e308
# Numba compiles a function once more for a number that is written out.
_NONE = np.int64(0)
# What rounding may add to a sum of two distances.
_ROUNDED = 1.0 + 1e-12

_nearby1, _nearby2, _nearby_most = nearby("sum"), nearby("squares"), nearby("most")


class _Batch(NamedTuple):
    """Points of some leaves: coordinates (d, room), numbers (room,), and distances to something (room,)."""

    points: Any
    numbers: Any
    distances: Any


class _Group(NamedTuple):
    """Queries that are answered together: their box and centre, (1, d), each one's distance from the centre."""

    small: Any
    large: Any
    centre: Any
    away: Any


class _Lists(NamedTuple):
    """Neighbours of the queries of a group: distances and numbers (queries, room), how many, and the limits."""

    values: Any
    numbers: Any
    counts: Any
    limits: Any


@loop
def _nearby(points, start, Q, q, p, limit, out, at):  # type: ignore[no-untyped-def]
    """Distances of 16 points from `start` on to a query, and the bits of those within a limit."""
    if p == 2.0:
        return _nearby2(points, start, Q, q, limit, out, at)
    if p == 1.0:
        return _nearby1(points, start, Q, q, limit, out, at)
    return _nearby_most(points, start, Q, q, limit, out, at)


@loop
def _within(values, count, limit):  # type: ignore[no-untyped-def]
    """How many of the first values do not exceed a limit; what follows them, up to a full vector, is far away."""
    found = 0
    for start in range(0, count, LANES):
        found += count_within(values, start, limit)
    return found


@loop
def _limit(values, count, k):  # type: ignore[no-untyped-def]
    """A limit that k of the first values do not exceed; more only where they are equal to it."""
    low = high = values[0]
    for j in range(count):
        low, high = min(low, values[j]), max(high, values[j])
    values[count : count + LANES] = _FARTHEST
    below, above, bisect = np.int64(0), count, False
    while above > k:
        # Where the limit would be if the values were spread evenly; every other time the middle, which is sure to help.
        share = 0.5 if bisect else (k + 0.5 - below) / (above - below)
        middle = low + share * (high - low)
        if middle <= low or middle >= high:
            middle = low + 0.5 * (high - low)
        if middle <= low or middle >= high:  # nothing is between: what exceeds k is equal
            return low if _within(values, count, low) >= k else high
        found = _within(values, count, middle)
        if found < k:
            low, below = middle, found
        else:
            high, above = middle, found
        bisect = not bisect
    return high


@loop
def _keep(values, numbers, count, limit, k):  # type: ignore[no-untyped-def]
    """Keep the k neighbours within a limit, the first of those at it if there are more; return how many there are."""
    ties = k
    for j in range(count):
        ties -= values[j] < limit
    kept = 0
    for j in range(count):
        value, number = values[j], numbers[j]
        values[kept], numbers[kept] = value, number
        kept += value < limit or (value == limit and ties > 0)
        ties -= value == limit
    return kept


@loop
def _take(batch, total, Q, q, itself, p, k, limit, values, numbers, count):  # type: ignore[no-untyped-def]
    """Add the points of a batch within a limit to the neighbours of a query; return the limit and their number."""
    points, members, here = batch
    for start in range(0, total, LANES):
        hits = _nearby(points, start, Q, q, p, limit, here, 0)
        if total - start < LANES:
            hits &= (1 << (total - start)) - 1
        if hits and count + 2 * LANES > len(values):
            limit = _limit(values, count, k)
            count = _keep(values, numbers, count, limit, k)
        while hits:
            lane = lowest_bit(hits)
            hits &= hits - 1
            values[count], numbers[count] = here[lane], members[start + lane]
            count += not itself or members[start + lane] != q
    return limit, count


@loop
def _write_sorted(values, numbers, count, ids, distances, q, p):  # type: ignore[no-untyped-def]
    """Write the nearest of some neighbours in order of distance, then number: a neighbour's rank is its place."""
    k, total = ids.shape[1], 0
    values[count : count + LANES] = _FARTHEST
    for i in range(count):
        rank = _within(values, count, values[i]) - 1
        total += rank
        if rank < k:
            ids[q, rank], distances[q, rank] = numbers[i], values[i]
    if 2 * total != count * (count - 1):  # some are equally far away
        for i in range(count):
            rank = 0
            for j in range(count):
                rank += values[j] < values[i] or (values[j] == values[i] and numbers[j] < numbers[i])
            if rank < k:
                ids[q, rank], distances[q, rank] = numbers[i], values[i]
    if p != 2.0:
        for rank in range(k):
            distances[q, rank] *= distances[q, rank]


@loop
def _surround(Q, first, last, group, p):  # type: ignore[no-untyped-def]
    """Box and centre of the queries from first to last, and their distances to the centre; the largest comes back."""
    small, large, centre, away = group
    for f in range(Q.shape[1]):
        low = high = Q[first, f]
        for q in range(first + 1, last):
            low, high = min(low, Q[q, f]), max(high, Q[q, f])
        small[0, f], large[0, f], centre[0, f] = low, high, 0.5 * (low + high)
    widest = 0.0
    for q in range(first, last):
        total = 0.0
        for f in range(Q.shape[1]):
            total = join(total, Q[q, f] - centre[0, f], p)
        away[q - first] = root(total, p)
        widest = max(widest, away[q - first])
    return widest


@loop
def _copy(columns, left, right, batch, total):  # type: ignore[no-untyped-def]
    """Add a stretch of points to a batch, and return how many there are."""
    points, numbers, _ = batch
    for j in range(right - left):
        for f in range(len(columns)):
            points[f, total + j] = columns[f, left + j]
        numbers[total + j] = left + j
    return total + right - left


@loop
def _sharpen(batch, total, centre, wanted, widest, radius, p):  # type: ignore[no-untyped-def]
    """A smaller radius within which the centre of a group has neighbours enough, and the part of a batch that matters.

    A query's neighbours are within the radius and its distance from the centre; from the centre they are that distance
    farther.
    """
    points, numbers, distances = batch
    for start in range(0, total, LANES):
        _nearby(points, start, centre, 0, p, 0.0, distances, start)
    if total >= wanted:
        radius = min(radius, root(_limit(distances, total, wanted), p))
    farthest, kept = power(_ROUNDED * (radius + 2.0 * widest), p), 0
    for j in range(total):
        for f in range(len(points)):
            points[f, kept] = points[f, j]
        numbers[kept] = numbers[j]
        kept += distances[j] <= farthest
    return radius, kept


@loop
def _offer(batch, total, Q, first, last, itself, p, k, radius, only, away, lists):  # type: ignore[no-untyped-def]
    """Offer the points of a batch to the queries of a group."""
    all_values, all_numbers, counts, limits = lists
    for r in range(last - first):
        q, values, numbers, count = first + r, all_values[r], all_numbers[r], counts[r]
        limit = min(limits[r], power(_ROUNDED * (radius + away[r]), p))
        if only:  # there will be no other batch: a limit that gives enough neighbours was wide enough
            count = _NONE
            for hope in _HOPES:
                if count < k:
                    close = min(limit, power(hope * radius, p))
                    count = _take(batch, total, Q, q, itself, p, k, close, values, numbers, _NONE)[1]
        if not only or count < k:
            limit, count = _take(batch, total, Q, q, itself, p, k, limit, values, numbers, _NONE if only else count)
        limits[r], counts[r] = limit, count


@loop
def _search(tree, Q, first, last, leaf, itself, p, k, group, batch, lists, stack):  # type: ignore[no-untyped-def]
    """Find the neighbours of the queries from first to last, and some more, a batch of leaves at a time."""
    columns, low, high, depth = tree
    small, large, centre, away = group
    n, room = columns.shape[1], len(batch.numbers)
    wanted, widest = min(k + 1, n), _surround(Q, first, last, group, p)
    lists.counts[:], lists.limits[:] = 0, _FARTHEST
    # Neighbours of the centre limit how far those of the queries can be. The first ones are of a small subtree.
    level, i = depth, leaf
    while level > 0 and first_of(n, level, i + 1) - first_of(n, level, i) <= 2 * k:
        level, i = level - 1, i >> 1
    total = _copy(columns, first_of(n, level, i), first_of(n, level, i + 1), batch, _NONE)
    radius, _ = _sharpen(batch, total, centre, wanted, widest, _FARTHEST, p)
    total, only, top, stack[0] = _NONE, True, 1, 1
    while True:
        top -= 1
        node = stack[max(top, 0)]
        i = node - (1 << depth)
        left, right = first_of(n, depth, i), first_of(n, depth, i + 1)
        done = top < 0
        if not done and apart(small, large, 0, low, high, node, p) > power(_ROUNDED * (radius + widest), p):
            continue
        if done or (i >= 0 and total + right - left > room):
            only = only and done
            radius, total = _sharpen(batch, total, centre, wanted, widest, radius, p)
            _offer(batch, total, Q, first, last, itself, p, k, radius, only, away, lists)
            total = _NONE
        if done:
            break
        if i >= 0:
            total = _copy(columns, left, right, batch, total)
        else:
            stack[top], stack[top + 1] = 2 * node + 1, 2 * node
            top += 2


@loop
def answer(tree, Q, groups, leaves, itself, p, ids, distances, start, stop):  # type: ignore[no-untyped-def]
    """Nearest neighbours of the queries of some groups.

    Parameters
    ----------
    tree : Tree
    Q : ndarray of float64, shape (m, d)
        The queries, group by group.
    groups : ndarray of int64, shape (g + 1,)
        Where the groups begin in Q.
    leaves : ndarray of int64, shape (g,)
        A leaf near each group.
    itself : bool
        Whether the queries are the tree's points, which are not their own neighbours.
    p : float
        Exponent of Minkowski's metric: 1, 2 or infinity.
    ids, distances : ndarrays of int32 and float64, shape (m, k)
        Numbers of the neighbours, nearest first, and squared distances; set.
    start, stop : int
        The groups to answer.
    """
    d, n = tree.columns.shape
    k, most = ids.shape[1], 0
    for g in range(start, stop):
        most = max(most, groups[g + 1] - groups[g])
    room, listed = max(_BATCH, 4 * k + 2 * (n >> tree.depth) + 2), _ROOM * k + 2 * LANES
    batch = _Batch(np.empty((d, room + LANES)), np.empty(room, dtype=np.int64), np.empty(room + LANES))
    group = _Group(np.empty((1, d)), np.empty((1, d)), np.empty((1, d)), np.empty(most))
    numbers, counts = np.empty((most, listed), dtype=np.int64), np.empty(most, dtype=np.int64)
    lists = _Lists(np.empty((most, listed)), numbers, counts, np.empty(most))
    stack = np.empty(2 * tree.depth + 2, dtype=np.int64)
    for g in range(start, stop):
        first, last = groups[g], groups[g + 1]
        _search(tree, Q, first, last, leaves[g], itself, p, k, group, batch, lists, stack)
        for r in range(last - first):
            values, numbers, count = lists.values[r], lists.numbers[r], lists.counts[r]
            if count > 2 * k:
                count = _keep(values, numbers, count, _limit(values, count, k), k)
            _write_sorted(values, numbers, count, ids, distances, first + r, p)
