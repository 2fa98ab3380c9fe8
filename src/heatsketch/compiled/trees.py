"""A k-d tree: how it is built, and how far its nodes are.

The tree is complete: node i of level l holds the points from ``n i / 2^l`` to ``n (i + 1) / 2^l`` in an order in which
every subtree lies in one piece, so that only the boxes of the nodes have to be stored.

Distances are kept as squares for p = 2, where that saves the roots, and as they are for p = 1 and infinity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .loops import loop

__all__ = ["Tree", "apart", "descend", "first_of", "join", "power", "root", "split"]

# Squares that are smaller have lost digits.
_SMALLEST_SQUARE = 1e-300


class Tree(NamedTuple):
    """A tree: its points in columns (d, n), the corners of the nodes' boxes (2^(depth + 1), d), and its last level.

    Node i of level l has row ``2^l + i``.
    """

    columns: Any
    low: Any
    high: Any
    depth: int


@loop
def first_of(n, level, i):  # type: ignore[no-untyped-def]
    """Number of the first point of a node."""
    return (n * i) >> level


@loop
def _select(points, order, axis, start, stop, middle):  # type: ignore[no-untyped-def]
    """Put points from start to stop in such an order that those before `middle` have no larger coordinate (Hoare)."""
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
    """Build the levels of a tree from a node down: boxes of the nodes, and points in the tree's order.

    Parameters
    ----------
    points : ndarray of float64, shape (n, d)
        Put in the tree's order, together with their numbers `order`.
    low, high : ndarrays of float64, shape (2^(levels), d)
        Corners of the boxes; set.
    level, index : int
        The node to begin with.
    depth : int
        The last level. The points of its nodes are not split by this call.
    """
    n, d = points.shape
    for at in range(level, depth + 1):
        for i in range(index << (at - level), (index + 1) << (at - level)):
            start, stop, node = first_of(n, at, i), first_of(n, at, i + 1), (1 << at) + i
            axis, widest = np.int64(0), -1.0
            for f in range(d):
                small = large = points[start, f]
                for p in range(start + 1, stop):
                    small, large = min(small, points[p, f]), max(large, points[p, f])
                low[node, f], high[node, f] = small, large
                if large - small > widest:
                    axis, widest = f, large - small
            if at < depth:
                _select(points, order, axis, start, stop, first_of(n, at + 1, 2 * i + 1))


@loop
def join(total, difference, p):  # type: ignore[no-untyped-def]
    """Add a coordinate's difference to a distance."""
    if p == 2.0:
        return total + difference * difference
    return total + abs(difference) if p == 1.0 else max(total, abs(difference))


@loop
def root(kept, p):  # type: ignore[no-untyped-def]
    """A distance from what is kept of it."""
    return np.sqrt(kept) if p == 2.0 else kept


@loop
def power(distance, p):  # type: ignore[no-untyped-def]
    """What is kept of a distance, or a little more, where its square has lost its digits."""
    return distance * distance + _SMALLEST_SQUARE if p == 2.0 else distance


@loop
def apart(small, large, i, low, high, node, p):  # type: ignore[no-untyped-def]
    """Least distance between the points of a node and those of the box with the corners small[i] and large[i]."""
    total = 0.0
    for f in range(small.shape[1]):
        gap = max(low[node, f] - large[i, f], small[i, f] - high[node, f])
        total = join(total, max(0.0, gap), p)
    return total


@loop
def descend(Q, tree, leaves, start, stop):  # type: ignore[no-untyped-def]
    """The leaf that each query from start to stop comes to by always taking the nearer child."""
    _, low, high, depth = tree
    for q in range(start, stop):
        i = 0
        for level in range(1, depth + 1):
            node = (1 << level) + 2 * i
            i = 2 * i + (apart(Q, Q, q, low, high, node + 1, 2.0) < apart(Q, Q, q, low, high, node, 2.0))
        leaves[q] = i
