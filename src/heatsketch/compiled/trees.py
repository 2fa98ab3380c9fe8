"""A k-d tree: building it, and searching it for nearest neighbours.

The tree is complete: node i of level l holds the points from ``n i / 2^l`` to ``n (i + 1) / 2^l`` in an order in which
every subtree is contiguous, so that only the bounding boxes of the nodes are stored. Node i of level l is row
``2^l + i`` of the boxes; the root is row 1.

Distances are squared for p = 2, and not for p = 1 and infinity.
"""

from __future__ import annotations

import numpy as np

from .loops import loop

__all__ = ["nearest", "split"]


@loop
def _select(points, order, axis, start, stop, middle):  # type: ignore[no-untyped-def]
    """Partition the points from start to stop so that those before `middle` have no larger coordinate (Hoare)."""
    low, high = start, stop - 1
    while low < high:
        a, b, c = points[low, axis], points[(low + high) // 2, axis], points[high, axis]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                for f in range(points.shape[1]):
                    points[i, f], points[j, f] = points[j, f], points[i, f]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break


@loop
def split(points, order, low, high, level, index, depth):  # type: ignore[no-untyped-def]
    """Build the levels of a tree from node `index` of `level` down to `depth`.

    The points (n, d), and their numbers `order`, are put in the order of the tree; `low` and `high`, (2^(levels), d),
    are set to the corners of the boxes.
    """
    n, d = points.shape
    for at in range(level, depth + 1):
        for i in range(index << (at - level), (index + 1) << (at - level)):
            start, stop, node = (n * i) >> at, (n * (i + 1)) >> at, (1 << at) + i
            axis, widest = np.int64(0), -1.0
            for f in range(d):
                small = large = points[start, f]
                for p in range(start + 1, stop):
                    small, large = min(small, points[p, f]), max(large, points[p, f])
                low[node, f], high[node, f] = small, large
                if large - small > widest:
                    axis, widest = f, large - small
            if at < depth:
                _select(points, order, axis, start, stop, (n * (2 * i + 1)) >> (at + 1))


@loop
def _to_box(x, low, high, p):  # type: ignore[no-untyped-def]
    """Distance of a point to a box."""
    total = 0.0
    for f in range(len(x)):
        gap = max(0.0, low[f] - x[f], x[f] - high[f])
        total = total + gap * gap if p == 2.0 else total + gap if p == 1.0 else max(total, gap)
    return total


@loop
def _to_points(x, columns, start, stop, p, out):  # type: ignore[no-untyped-def]
    """Distances of a point to the points from start to stop."""
    m = stop - start
    out[:m] = 0.0
    for f in range(len(x)):
        here, there = x[f], columns[f, start:stop]
        if p == 2.0:
            for j in range(m):
                out[j] += (there[j] - here) * (there[j] - here)
        elif p == 1.0:
            for j in range(m):
                out[j] += abs(there[j] - here)
        else:
            for j in range(m):
                out[j] = max(out[j], abs(there[j] - here))


@loop
def nearest(columns, low, high, depth, Q, itself, p, ids, squared, start, stop):  # type: ignore[no-untyped-def]
    """Nearest neighbours of the queries from start to stop, sorted by distance, then number.

    Parameters
    ----------
    columns : ndarray of float64, shape (d, n)
        The points in the tree's order.
    low, high, depth
        The boxes from `split`, and the last level.
    Q : ndarray of float64, shape (m, d)
    itself : bool
        Whether the queries are the tree's points, which are not their own neighbours.
    p : float
        Exponent of the Minkowski metric: 1, 2 or infinity.
    ids, squared : ndarrays of int32 and float64, shape (m, k)
        Numbers of the neighbours and squared distances; set. There must be k neighbours.
    """
    n, k = columns.shape[1], ids.shape[1]
    stack, bounds = np.empty(depth + 1, np.int64), np.empty(depth + 1)
    here = np.empty((n >> depth) + 1)
    for q in range(start, stop):
        x, values, numbers = Q[q], squared[q], ids[q]
        held, worst, last, top = 0, np.inf, n, 1
        stack[0], bounds[0] = 1, 0.0
        while top:
            top -= 1
            node, bound = stack[top], bounds[top]
            # Descend to the nearer child, and remember the other one.
            while bound <= worst and node < 1 << depth:
                left = _to_box(x, low[2 * node], high[2 * node], p)
                right = _to_box(x, low[2 * node + 1], high[2 * node + 1], p)
                node = 2 * node + (right < left)
                stack[top], bounds[top], bound = node ^ 1, max(left, right), min(left, right)
                top += 1
            if bound > worst:
                continue
            leaf = node - (1 << depth)
            first, end = (n * leaf) >> depth, (n * (leaf + 1)) >> depth
            _to_points(x, columns, first, end, p, here)
            for j in range(first, end):
                distance = here[j - first]
                if distance > worst or (distance == worst and j > last) or (itself and j == q):
                    continue
                r = min(held, k - 1)
                while r > 0 and (values[r - 1] > distance or (values[r - 1] == distance and numbers[r - 1] > j)):
                    values[r], numbers[r] = values[r - 1], numbers[r - 1]
                    r -= 1
                values[r], numbers[r] = distance, j
                held = min(held + 1, k)
                if held == k:
                    worst, last = values[k - 1], np.int64(numbers[k - 1])
        if p != 2.0:
            for r in range(k):
                values[r] *= values[r]
