"""Nearest neighbours of many points in few dimensions: a k-d tree that answers queries a leaf at a time."""

from __future__ import annotations

import numpy as np

from .._utils.chunks import chunks
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import refuse_overflow
from .clusters import Progress

__all__ = ["TreeIndex"]

# Points of a leaf at most. Smaller leaves are searched sooner, larger ones share more of the way.
_LEAF = 16
# Levels of the tree that are built before its parts are built side by side.
_TOP = 3
# Leaves, or queries, that one thread answers at a time.
_LEAVES = 64
_QUERIES = 4096


class TreeIndex:
    """Exact search by a k-d tree.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    p : {1, 2, infinity}
        Exponent of Minkowski's metric.

    Attributes
    ----------
    order : ndarray of int, shape (N,)
        The points leaf by leaf.
    points : ndarray of float64, shape (N, d)
        The points in this order.
    recall : float
        1.
    """

    method = "tree"

    def __init__(self, X: FloatArray, p: float = 2.0) -> None:
        from ..compiled.trees import split  # noqa: PLC0415

        refuse_overflow(X)
        n, d = X.shape
        self._p = float(p)
        self.recall: float | None = 1.0
        self._depth = depth = max(0, int(np.ceil(np.log2(n / _LEAF))))
        self.points = np.array(X, dtype=np.float64, order="C")
        self.order: IntArray = np.arange(n)
        boxes, top = (np.empty((2 << depth, d)), np.empty((2 << depth, d))), min(_TOP, depth)
        split(self.points, self.order, *boxes, 0, 0, top)
        each(lambda i: split(self.points, self.order, *boxes, top, i, depth), range(1 << top), blas=False)
        self._parts = (np.ascontiguousarray(self.points.T), *boxes, depth)

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point."""
        leaves = np.arange(1 << self._depth)
        groups = np.append((len(self.points) * leaves) >> self._depth, len(self.points))
        return self._answer(self.points, groups, leaves, k, itself=True, progress=progress)

    def query(self, Q: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each query."""
        from ..compiled.trees import Tree, descend  # noqa: PLC0415

        Q = np.ascontiguousarray(Q, dtype=np.float64)
        leaf = np.empty(len(Q), dtype=np.int64)
        tree = Tree(*self._parts)
        each(lambda rows: descend(Q, tree, leaf, rows.start, rows.stop), chunks(len(Q), 1, _QUERIES), blas=False)
        order = np.argsort(leaf, kind="stable")
        # Groups are the queries that come to the same leaf, or so many of them as a leaf may hold.
        place = np.arange(len(Q)) - np.searchsorted(leaf[order], leaf[order])
        first = np.flatnonzero(place % _LEAF == 0)
        ids, squared = self._answer(Q[order], np.append(first, len(Q)), leaf[order][first], k, itself=False)
        back = np.empty_like(order)
        back[order] = np.arange(len(Q))
        return ids[back], squared[back]

    def _answer(
        self,
        Q: FloatArray,
        groups: IntArray,
        leaves: IntArray,
        k: int,
        *,
        itself: bool,
        progress: Progress | None = None,
    ) -> tuple[IntArray, FloatArray]:
        from ..compiled.nearest import answer  # noqa: PLC0415
        from ..compiled.trees import Tree  # noqa: PLC0415

        ids, squared = np.empty((len(Q), k), dtype=np.int32), np.empty((len(Q), k))
        tree = Tree(*self._parts)

        def search(some: slice) -> None:
            answer(tree, Q, groups, leaves, itself, self._p, ids, squared, some.start, some.stop)
            if progress is not None:
                progress(some.stop, len(leaves))

        each(search, chunks(len(leaves), 1, _LEAVES), blas=False)
        return ids, squared
