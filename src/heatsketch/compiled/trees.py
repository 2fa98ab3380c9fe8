"""A k-d tree: building it, and searching it for nearest neighbours.

The tree is complete: node i of level l holds the points from ``n i / 2^l`` to ``n (i + 1) / 2^l`` in an order in which
every subtree is contiguous, so that only the bounding boxes of the nodes are stored. Node i of level l is row
``2^l + i`` of the boxes; the root is row 1.

Distances are squared for p = 2, and not for p = 1 and infinity.
"""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["nearest", "split"]

_split = Function(
    "split",
    "d* points[n, d], l* order[n], d* low[boxes, d], d* high[boxes, d]",
    "l n, l d, l level, l index<boxes, l depth",
)
_nearest = Function(
    "nearest",
    "d columns[d, n], d low[boxes, d], d high[boxes, d], d Q[m, d], i* ids[m, k], d* squared[m, k]",
    "l d, l n, l k, l depth, l itself<=1, d p, l start<=m, l stop<=m",
)


def split(
    points: FloatArray, order: IntArray, low: FloatArray, high: FloatArray, level: int, index: int, depth: int
) -> None:
    """Build the levels of a tree from node `index` of `level` down to `depth`.

    The points (n, d), and their numbers `order`, are put in the order of the tree; `low` and `high`, (2^(levels), d),
    are set to the corners of the boxes.
    """
    _split((points, order, low, high), level, index, depth)


def nearest(
    columns: FloatArray,
    low: FloatArray,
    high: FloatArray,
    depth: int,
    Q: FloatArray,
    itself: bool,
    p: float,
    ids: IntArray,
    squared: FloatArray,
    start: int,
    stop: int,
) -> None:
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
    _nearest((columns, low, high, Q, ids, squared), depth, itself, p, start, stop)
