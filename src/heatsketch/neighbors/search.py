"""Nearest neighbours: exact by a k-d tree in few dimensions, by clusters in many, by all distances otherwise.

On a device all distances are computed, which is exact and fast enough for millions of points; only in few dimensions
a tree on the CPU is faster.

An index numbers the points in its own order (`order`), in which neighbours have close numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.registry import Device
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, central_point, refuse_overflow, squared_distances
from .clusters import ClusterIndex, Progress

__all__ = [
    "BlockedIndex",
    "NeighborIndex",
    "Neighbors",
    "TreeIndex",
    "index_kind",
    "make_index",
    "minkowski_exponent",
    "nearest_neighbors",
    "neighbors_of",
]

# The cost of a tree grows fast with the dimension: the largest for which it is faster than clusters, and, for metrics
# that clusters do not support, than all distances.
_TREE_FEATURES = 4
_MOST_TREE_FEATURES = 6
# Up to this many points all distances are computed, in few dimensions and in others.
_FEW_POINTS = 500
_BLOCKED_LIMIT = 4096
# Neighbours up to which they are inserted into a sorted list, and beyond which distances are partitioned.
_FEW_NEIGHBORS = 64
# Features from which on distances are found by products, and candidates beyond k that are measured by differences.
_MANY_FEATURES = 8
_SLACK = 8
# Distances of a chunk of rows, the number of rows wanted, as each chunk reads all points, and distances at most.
_CHUNK_ENTRIES, _CHUNK_ROWS, _MOST_ENTRIES = 1 << 20, 32, 1 << 25
# Queries up to which comparing them with all points is faster than to find clusters.
_FEW_QUERIES = 2000
# Pairs beyond which a tree on a few cores is faster than all distances on a large GPU.
_DEVICE_PAIRS = 1 << 34
# Points in a leaf of the tree at most, levels that are built before subtrees are built in parallel, and queries that a
# thread answers at a time.
_LEAF = 32
_TOP = 3
_QUERIES = 2048
# Metrics of a tree other than the Euclidean, as the exponent p of the Minkowski metric.
_MINKOWSKI = {"cityblock": 1.0, "l1": 1.0, "manhattan": 1.0, "chebyshev": np.inf}


class NeighborIndex(Protocol):
    """Interface of a neighbour search.

    Attributes
    ----------
    order : ndarray of int, shape (N,)
        Position `i` in this order is point ``order[i]`` of the data; all numbers below are positions.
    method : str
    recall : float or None
        Share of the true neighbours that `neighbors` found; 1 for exact methods, None before a search by one that is
        not. Queries are exact.
    """

    order: IntArray
    method: str
    recall: float | None

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[Any, Any]:
        """The k nearest other points of each point, nearest first: numbers and squared distances, (N, k).

        They are arrays, or tensors on the device of the index.
        """

    def query(self, Q: Any, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each query, (m, k)."""


class TreeIndex:
    """Exact search by a k-d tree, for the Minkowski metric with exponent p: 1, 2 or infinity.

    The order of the points is leaf by leaf; `points` are the points in this order.
    """

    method = "tree"

    def __init__(self, X: FloatArray, p: float = 2.0) -> None:
        from ..compiled.trees import split  # noqa: PLC0415

        refuse_overflow(X)
        n, d = X.shape
        self._p = float(p)
        self.recall: float | None = 1.0
        depth = max(0, int(np.ceil(np.log2(n / _LEAF))))
        self.points = np.array(X, dtype=np.float64, order="C")
        self.order: IntArray = np.arange(n, dtype=np.int64)
        boxes, top = (np.empty((2 << depth, d)), np.empty((2 << depth, d))), min(_TOP, depth)
        split(self.points, self.order, *boxes, 0, 0, top)
        each(lambda i: split(self.points, self.order, *boxes, top, i, depth), range(1 << top), blas=False)
        self._tree = (np.ascontiguousarray(self.points.T), *boxes, depth)

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point."""
        return self._search(self.points, k, itself=True, progress=progress)

    def query(self, Q: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each query."""
        refuse_overflow(Q)
        return self._search(np.ascontiguousarray(Q, dtype=np.float64), k, itself=False)

    def _search(
        self, Q: FloatArray, k: int, *, itself: bool, progress: Progress | None = None
    ) -> tuple[IntArray, FloatArray]:
        from ..compiled.trees import nearest  # noqa: PLC0415

        ids, squared = np.empty((len(Q), k), dtype=np.int32), np.empty((len(Q), k))

        def search(rows: slice) -> None:
            nearest(*self._tree, Q, itself, self._p, ids, squared, rows.start, rows.stop)
            if progress is not None:
                progress(rows.stop, len(Q))

        each(search, chunks(len(Q), 1, _QUERIES), blas=False)
        return ids, squared


class BlockedIndex:
    """Exact search by computing all distances, a row chunk at a time; for any metric.

    Euclidean distances in many dimensions come from products, ``|x|^2 + |y|^2 - 2 x.y``, which are faster and round.
    Hence a few more candidates than neighbours are measured by differences. A point that is no candidate is at least as
    far as the last candidate less twice the largest error of a product. If that is more than the k-th distance, none
    was missed; otherwise all distances of the row are computed by differences.
    """

    method = "blocks"

    def __init__(self, X: Any, metric: Metric) -> None:
        self._X, self._metric = X, metric
        self.recall: float | None = 1.0
        self.order = np.arange(X.shape[0])
        self._by_products = metric.euclidean and not sparse.issparse(X) and X.shape[1] >= _MANY_FEATURES
        if self._by_products:
            refuse_overflow(X)
            self._X = X = np.ascontiguousarray(X)  # for compiled code
            self._centre = central_point(X)
            points, norms = self._local(X)
            self._farthest = float(np.sqrt(norms.max()))
            # Inner products with (-2 x, |x|^2, 1) are squared distances.
            self._columns = np.vstack([points.T, np.ones(len(X)), norms])  # (d + 2, N)

    def _local(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points relative to the centre, in float64, and their squared norms."""
        points = np.asarray(Q - self._centre, dtype=np.float64)
        return points, np.einsum("ij,ij->i", points, points)

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point."""
        return self._search(self._X, k, itself=True, progress=progress)

    def query(self, Q: Any, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each query."""
        return self._search(Q, k, itself=False)

    def _search(self, Q: Any, k: int, *, itself: bool, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        m, n = Q.shape[0], self._X.shape[0]
        ids, squared = np.empty((m, k), dtype=np.int32), np.empty((m, k))
        by_products = self._by_products and k + _SLACK <= min(_FEW_NEIGHBORS, n - 1)

        def search(rows: slice) -> None:
            itself_at = np.arange(rows.start, rows.stop) if itself else None
            if by_products:
                ids[rows], squared[rows], proven = self._proven(Q[rows], k, itself_at)
                rest = np.flatnonzero(~proven)
            else:
                rest = np.arange(rows.stop - rows.start)
            if len(rest):
                some = rows.start + rest if by_products else rows
                D2 = squared_distances(Q[some], self._X, self._metric)
                ids[some], squared[some] = _smallest(D2, k, None if itself_at is None else itself_at[rest])
            if progress is not None:
                progress(rows.stop, m)

        each(search, chunks(m, n, min(max(_CHUNK_ENTRIES, _CHUNK_ROWS * n), _MOST_ENTRIES)))
        return ids, squared

    def _proven(self, Q: FloatArray, k: int, itself_at: IntArray | None) -> tuple[IntArray, FloatArray, Any]:
        """Neighbours by products, their squared distances by differences, and which rows are proven to be right."""
        from ..compiled.search import measure  # noqa: PLC0415

        points, norms = self._local(Q)
        D2 = np.column_stack([-2.0 * points, norms, np.ones(len(Q))]) @ self._columns
        candidates, approximate = _smallest(D2, k + _SLACK, itself_at)
        squared = np.empty(candidates.shape)
        measure(np.ascontiguousarray(Q), self._X, candidates, 0, len(candidates), squared)
        # The bound on the error of an inner product of d + 2 terms, and of two norms, in float64.
        unit = (Q.shape[1] + 6) * np.finfo(np.float64).eps
        error = unit * np.square(np.sqrt(norms) + self._farthest)
        return candidates[:, :k], squared[:, :k], approximate[:, -1] - 2.0 * error > squared[:, k - 1]


def _smallest(D2: FloatArray, k: int, itself_at: IntArray | None) -> tuple[IntArray, FloatArray]:
    """Columns and values of the k smallest entries of each row, sorted, ties by column; not those at `itself_at`."""
    from ..compiled.search import smallest  # noqa: PLC0415

    if itself_at is not None:
        D2[np.arange(len(D2)), itself_at] = np.inf
    if k <= _FEW_NEIGHBORS:
        ids, squared = np.empty((len(D2), k), dtype=np.int32), np.empty((len(D2), k))
        smallest(np.ascontiguousarray(D2), ids, squared)
        return ids, squared
    nearest = np.argpartition(D2, k - 1, axis=1)[:, :k]
    distances = np.take_along_axis(D2, nearest, axis=1)
    first = np.lexsort((nearest, distances), axis=1)
    return np.take_along_axis(nearest, first, axis=1), np.take_along_axis(distances, first, axis=1)


def index_kind(
    shape: tuple[int, ...],
    metric: Metric,
    sparse_points: bool,
    device: Device | None = None,
    queries: int | None = None,
) -> str:
    """The fastest search for points of this shape: "tree", "clusters", "blocks" or "device".

    `queries` is their number; by default that of the points.
    """
    if device is not None and metric.euclidean and not sparse_points:
        pairs = shape[0] * (shape[0] if queries is None else queries)
        return "tree" if shape[1] <= _TREE_FEATURES and pairs > _DEVICE_PAIRS else "device"
    if sparse_points or metric.precomputed or metric.params or shape[0] <= _FEW_POINTS:
        return "blocks"
    if shape[1] <= (_TREE_FEATURES if metric.euclidean else _MOST_TREE_FEATURES) and minkowski_exponent(metric):
        return "tree"
    few = queries is not None and queries <= _FEW_QUERIES
    return "clusters" if metric.euclidean and shape[0] > _BLOCKED_LIMIT and not few else "blocks"


def minkowski_exponent(metric: Metric) -> float | None:
    """The exponent p of a Minkowski metric that a tree supports (1, 2 or infinity), or None for other metrics."""
    if metric.euclidean:
        return 2.0
    return None if metric.params else _MINKOWSKI.get(str(metric.name))


def make_index(
    X: Any, metric: Metric, device: Device | None = None, *, queries: int | None = None, kind: str | None = None
) -> NeighborIndex:
    """An index of the points, of the given or the fastest kind for the number of queries (all points by default)."""
    kind = kind or index_kind(X.shape, metric, sparse.issparse(X), device, queries)
    if device is not None and kind == "device":
        return device.neighbor_index(X)  # type: ignore[no-any-return]
    if kind == "tree":
        exponent = minkowski_exponent(metric)
        assert exponent is not None
        return TreeIndex(to_numpy(X), exponent)
    if kind == "clusters":
        return ClusterIndex(X)
    return BlockedIndex(X, metric)


class Neighbors(NamedTuple):
    """Nearest neighbours of every point among the others, nearest first: numbers and squared distances, (N, k)."""

    indices: IntArray
    squared: FloatArray


def nearest_neighbors(X: Any, k: int, metric: Metric | str = "euclidean", device: Device | None = None) -> Neighbors:
    """Nearest neighbours of every point among the others.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d), or (N, N) distances if the metric is "precomputed"
    k : int
        At most N - 1.
    metric : Metric or str
    device : Device, optional
        Device of the Euclidean search of dense points, except for many points in few dimensions.

    Returns
    -------
    neighbors : Neighbors

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch.neighbors.search import nearest_neighbors
    >>> nearest_neighbors(np.array([[0.0], [1.0], [3.0]]), 1).indices.ravel()
    array([1, 0, 1], dtype=int32)
    """
    index = make_index(X, metric if isinstance(metric, Metric) else Metric(metric), device)
    ids, squared = (to_numpy(part) for part in index.neighbors(k))
    numbers = index.order[ids].astype(np.int32)
    inverse = np.argsort(index.order)
    return Neighbors(numbers[inverse], squared[inverse])


def neighbors_of(
    rows: IntArray, X: FloatArray, k: int, device: Device | None = None, *, kind: str | None = None
) -> IntArray:
    """The k nearest other points of some points of X, (N, d), by the Euclidean distance, nearest first: (m, k).

    `kind` is that of the index, by default the fastest for m queries.
    """
    metric = Metric("euclidean")
    index = make_index(X, metric, device, queries=len(rows), kind=kind)
    nearest = index.order[to_numpy(index.query(X[rows], k + 1)[0])]
    itself = nearest == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # behind points that coincide with it
    others: IntArray = nearest[~itself].reshape(-1, k)
    return others
