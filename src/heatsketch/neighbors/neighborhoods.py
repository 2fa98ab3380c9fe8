"""The neighbour graph of a data set, and its extension to new points.

A pair is an edge if its distance is at most the larger of the two k-th neighbour distances: the union of both
neighbourhoods. This depends on the two points and the data only, so it extends to new points. Duplicate points are one
vertex: neighbours are distinct points, however often each occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.array import device as device_of
from .._utils.chunks import chunks
from .._utils.memmap import arranged
from .._utils.progress import task
from .._utils.registry import Device
from .._utils.threads import each, shares, workers
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, no_distance, squared_distances
from ..linalg.sketch import philox
from .search import NeighborIndex, make_index

__all__ = [
    "KnownPoints",
    "NeighborLists",
    "Neighborhoods",
    "NewRows",
    "check_radii",
    "distinct",
    "joined",
    "kth_apart",
    "new_rows",
    "row_keys",
    "widest",
]

# Tolerance of the radius, so that rounding does not decide whether an edge is found from both ends.
EDGE = 1.0 + 1e-8
# Neighbours searched beyond k, to detect ties with the k-th. If more than this share of the points of a large data set
# have more ties, as on a grid, the search is repeated with more neighbours, up to this multiple of k; beyond that, the
# order of the points decides.
_SLACK = 4
_TIED = 0.01
_MOST_TIES = 4
# Up to this many points, new points are compared with all of them.
_SMALL = 2000
# Points with the largest radii, which are compared with all new points.
_WIDEST = 256
# The stream of random numbers for the hash of rows, and the factor that mixes bits.
_KEYS = 0xD
MIXED = np.uint64(0x9E3779B97F4A7C15)


@singledispatch
def distinct(X: Any) -> tuple[IntArray, IntArray] | None:
    """Find duplicate rows of `X`; None if there are none. Backends register their own arrays.

    Returns
    -------
    first : ndarray of int, shape (U,)
        The first of each set of equal rows.
    places : ndarray of int, shape (N,)
        The index into `first` of each row.
    """
    keys = _all_keys(X)
    in_order = np.sort(keys)
    if (in_order[1:] != in_order[:-1]).all():
        return None
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    for rows in chunks(len(keys), X.shape[1]):
        if abs(X[rows] - X[first[places[rows]]]).max() > 0:  # a collision of the hash
            dense = X.toarray() if sparse.issparse(X) else X
            first, places = np.unique(dense, axis=0, return_index=True, return_inverse=True)[1:]
            return first, places.ravel()
    return first, places


def _all_keys(X: Any) -> Any:
    """A hash of each row, on all threads, shape (N,)."""
    pieces = list(chunks(X.shape[0], X.shape[1], 1 << 20))
    with workers(1 if len(pieces) == 1 else None) as share:
        return np.concatenate([*share(lambda rows: row_keys(X[rows]), pieces)])


class KnownPoints:
    """Finds the point that equals a given one, by a hash.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d)
    """

    def __init__(self, X: Any) -> None:
        self._X, keys = X, _all_keys(X)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def match(self, Q: Any) -> IntArray:
        """The first point that equals each row of Q, (m, d), or -1, shape (m,)."""
        keys = row_keys(Q.astype(self._X.dtype, copy=False))
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found = np.where(self._keys[at] == keys, self._order[at], -1)
        candidates = np.flatnonzero(found >= 0)
        if len(candidates):  # other numbers may have the same hash
            apart = abs(Q[candidates] - self._X[found[candidates]]).max(axis=1)
            apart = apart.toarray().ravel() if sparse.issparse(apart) else apart
            found[candidates[apart > 0]] = -1
        return found


def row_keys(X: Any) -> Any:
    """A hash of each row, by integer arithmetic, shape (m,)."""
    factors = key_factors(X.shape[1])
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.eliminate_zeros()
        words = _words(X.data) * factors[X.indices]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return (_words(X) * factors).sum(axis=1, dtype=np.uint64)


def key_factors(d: int) -> Any:
    """A random odd number for each feature, uint64 (d,)."""
    a, b, _, _ = philox((np.arange(d), 0, 0, _KEYS), seed=0)
    return (a << np.uint64(32) | b) | np.uint64(1)


def _words(values: FloatArray) -> Any:
    """The bits of floats, mixed; the same for 0 and -0."""
    bits = np.ascontiguousarray(values + 0.0).view(f"u{values.dtype.itemsize}").astype(np.uint64)
    bits *= MIXED
    return bits ^ (bits >> np.uint64(32))


@dataclass(frozen=True)
class NewRows:
    """Edges of new points, in compressed rows.

    Attributes
    ----------
    indptr, columns : ndarrays of int
        Columns are numbers of vertices, in the order of the index.
    squared : ndarray of float64
    lists : tuple of ndarrays of shape (m, k)
        The nearest vertices and squared distances.
    twin : ndarray of int, shape (m,)
        The vertex that equals a new point, or -1.
    """

    indptr: IntArray
    columns: IntArray
    squared: FloatArray
    lists: tuple[IntArray, FloatArray]
    twin: IntArray


@dataclass(frozen=True, eq=False)
class NeighborLists:
    """The nearest vertices of each vertex, nearest first: what scales and the graph are made from.

    They take much memory; drop them when both are made.

    Attributes
    ----------
    ids, squared : arrays of shape (U, length)
        Numbers of vertices and squared distances, where the index searches: arrays, or tensors on a device.
    radii : ndarray of shape (U,)
        Squared distance of each vertex to its k-th neighbour.
    kept : ndarray of int, shape (U,)
        How many of each list are within the radius.
    """

    ids: Any
    squared: Any
    radii: FloatArray
    kept: IntArray

    @classmethod
    def of(cls, index: NeighborIndex, n: int, k: int, at_least: int) -> NeighborLists:
        """Lists of all n vertices of an index, long enough for k neighbours with ties and for scales by `at_least`."""
        wanted, most = lengths(n, k, at_least)
        while True:
            with task("finding neighbours") as advance:
                ids, squared = index.neighbors(wanted, advance)
            radii = kth_apart(squared, k)
            kept = within(squared, radii)
            if wanted == most or not tied_often(n_tied(kept, radii, wanted), n):
                break
            wanted = min(most, 2 * wanted)
        check_radii(radii)
        return cls(ids, squared, radii, kept)

    def scales(self, k: int) -> FloatArray:
        """Squared distance of each vertex to its k-th neighbour, for k up to the number listed, shape (U,)."""
        return kth_apart(self.squared, k)

    def graph(self) -> tuple[Any, Any, Any]:
        """All edges, in compressed rows: indptr, columns, squared distances; the diagonal comes first in each row."""
        return joined(self.ids, self.squared, self.kept)


class Neighborhoods:
    """Neighbour graph of a data set, made by `search`.

    Attributes
    ----------
    places : ndarray of int, shape (N,), or None
        The vertex of each point; None without duplicates.
    index : NeighborIndex
        Of the vertices.
    radii : ndarray of shape (U,)
        Squared distance of each vertex, in the order of the index, to its k-th neighbour.
    """

    def __init__(
        self,
        vertices: Any,
        n_neighbors: int,
        metric: Metric,
        *,
        same: tuple[IntArray, IntArray] | None,
        index: NeighborIndex,
        radii: FloatArray,
    ) -> None:
        self._X, self.n_neighbors, self._metric, self.index, self.radii = vertices, n_neighbors, metric, index, radii
        self._first = None if same is None else same[0]
        self.places = None if same is None else same[1]

    @classmethod
    def search(
        cls, X: Any, n_neighbors: int, metric: Metric, *, at_least: int = 0, device: Device | None = None
    ) -> tuple[Neighborhoods, NeighborLists]:
        """The neighbour graph of points, and the lists of neighbours that were found.

        Parameters
        ----------
        X : ndarray or csr_array of shape (N, d), or (N, N) distances if the metric is "precomputed"
        n_neighbors : int
        metric : Metric
        at_least : int
            The largest k for which the lists are asked for scales.
        device : Device, optional
            Device of the search, if it supports the data.
        """
        same = None
        if not metric.precomputed:
            same = distinct(X if device is None or sparse.issparse(X) else device.tensor(X))
        vertices = X if same is None else arranged(X, same[0])
        if vertices.shape[0] < 2:
            raise no_distance()
        index = make_index(vertices, metric, device)
        lists = NeighborLists.of(index, vertices.shape[0], n_neighbors, at_least)
        return cls(vertices, n_neighbors, metric, same=same, index=index, radii=lists.radii), lists

    @cached_property
    def _widest(self) -> IntArray:
        """The vertices that are compared with all new points."""
        return widest(self.radii)

    @cached_property
    def _positions(self) -> IntArray:
        """Position of each vertex in the order of the index."""
        return np.argsort(self.index.order)

    @property
    def distinct(self) -> Any:
        """The first of each set of equal points, as an index."""
        return slice(None) if self._first is None else self._first

    @property
    def n_vertices(self) -> int:
        """Number of distinct points."""
        return int(self._X.shape[0])

    def rows(self, Q: Any, k_scale: int = 0) -> NewRows:
        """Edges of new points.

        Candidates are the nearest vertices, several times the number of neighbours, and the vertices with the largest
        radii; up to 2,000 vertices, all of them. An edge by the radius of another vertex only may be missed: with 5,000
        points and 15 neighbours 5% of these edges on branches in R^50, 14% in a Gaussian cloud in R^10, none on a
        swiss roll. That is 2%, 5% and none of all edges.

        Parameters
        ----------
        Q : ndarray or csr_array of shape (m, d), or distances (m, N)
        k_scale : int
            Neighbours that must be in the lists.
        """
        n, k = self.n_vertices, self.n_neighbors
        ids, squared = self.index.query(Q, looked_at(n, k, k_scale))
        wide = None
        if ids.shape[1] < n:
            points = self.index.order[self._widest]
            new, others = (Q[:, points], None) if self._metric.precomputed else (Q, self._X[points])
            wide = self._widest, squared_distances(new, others, self._metric)
        return new_rows((ids, squared), kth_apart(squared, k), self.radii, wide)

    def entries_of_row(self, k_scale: int) -> int:
        """Numbers in memory for each new point; see `rows`."""
        return 8 * looked_at(self.n_vertices, self.n_neighbors, k_scale) + 4 * _n_widest(self.n_vertices)

    def at_points(self, values: FloatArray) -> FloatArray:
        """Values of the vertices, in the order of the index, as values of all points, (U,) -> (N,)."""
        out = np.empty_like(values)
        out[self.index.order] = values
        return out if self.places is None else out[self.places]

    def at_vertices(self, values: FloatArray) -> FloatArray:
        """Values of all points as values of the vertices, in the order of the index, (N,) -> (U,)."""
        vertices: FloatArray = values[self.distinct]
        return vertices[self.index.order]

    def unfolded(self, rows: Any) -> Any:
        """Rows against the vertices, in the order of the index, as rows against all points, (m, U) -> (m, N)."""
        columns = self._positions if self.places is None else self._positions[self.places]
        return sparse.csr_array(rows)[:, columns]


@singledispatch
def joined(ids: Any, squared: Any, kept: IntArray) -> tuple[Any, Any, Any]:
    """Edges from each point to its nearest ones, and back, in compressed rows.

    Each row has the point itself, then its neighbours, nearest first, then points of which it is a neighbour and which
    are not among its own. Backends register their own arrays.

    Parameters
    ----------
    ids, squared : arrays of shape (n, k)
        Lists of neighbours.
    kept : ndarray of int, shape (n,)
        How many of each list are neighbours.
    """
    from ..compiled.search import list_kept, list_lonely, mirror  # noqa: PLC0415

    kept = kept.astype(np.int32)
    lonely = np.zeros(ids.shape, dtype=bool)
    n, k = ids.shape
    each(lambda rows: mirror(ids, kept, lonely, rows.start, rows.stop), shares(n, k * k), blas=False)
    missing = np.bincount(ids[lonely], minlength=n)
    indptr = np.concatenate([[0], np.cumsum(1 + kept + missing)])
    columns, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], squared.dtype)
    lists = ids, squared, kept
    each(lambda rows: list_kept(*lists, indptr, columns, values, rows.start, rows.stop), shares(n, k), blas=False)
    list_lonely(*lists, lonely, indptr, columns, values)
    return indptr, columns, values


def new_rows(
    lists: tuple[IntArray, FloatArray],
    radii_here: FloatArray,
    radii: FloatArray,
    wide: tuple[IntArray, FloatArray] | None,
) -> NewRows:
    """Edges of m new points from their nearest vertices.

    Parameters
    ----------
    lists : tuple of ndarrays of shape (m, k)
        The nearest vertices and squared distances.
    radii_here, radii : ndarrays of shape (m,) and (U,)
        Squared distances of the new points and of the vertices to their k-th neighbours.
    wide : tuple of ndarrays of shape (w,) and (m, w), or None
        Further candidates: the vertices with the largest radii, and the squared distances to them.
    """
    ids, squared = lists
    known = np.ones(ids.shape, dtype=bool)
    if wide is not None:
        # A list may lack points that are as far away as its last one. All such points are left out, unless the new
        # point's own radius reaches them, so that a row does not depend on which of them were found.
        known = (squared < squared[:, -1:]) | (squared <= EDGE * radii_here[:, None])
    keep = known & (squared <= EDGE * np.maximum(radii_here[:, None], radii[ids]))
    row, _ = np.nonzero(keep)
    parts = [(row, ids[keep], squared[keep])]
    if wide is not None:
        vertices, D2 = wide
        # Leave out those found already, by their numbers: distances may be rounded differently.
        number = np.full(len(radii), -1)
        number[vertices] = np.arange(len(vertices))
        where, rank = np.nonzero(known & (number[ids] >= 0))
        D2[where, number[ids[where, rank]]] = np.inf
        row, column = np.nonzero(D2 <= EDGE * radii[vertices])
        parts.append((row, vertices[column], D2[row, column]))
    row, column, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(ids)))])
    twin = np.where(squared[:, 0] == 0, ids[:, 0], -1)
    return NewRows(indptr, column[order], values[order], lists, twin)


def lengths(n: int, k: int, at_least: int) -> tuple[int, int]:
    """Neighbours to search at first, and at most, for n vertices, k neighbours and `at_least` for scales."""
    most = max(1, n - 1 if n <= _SMALL else min(n - 1, _MOST_TIES * k + _SLACK))
    most = min(max(most, at_least), n - 1)
    return min(most, max(k + _SLACK, at_least)), most


def check_radii(radii: FloatArray) -> None:
    """Raise if squared distances to the k-th neighbours, (U,), are all zero, or underflow."""
    apart = radii[radii > 0]
    if not len(apart) or apart.min() < np.finfo(np.float64).tiny:
        raise no_distance()


def looked_at(n: int, k: int, k_scale: int) -> int:
    """Number of nearest vertices to find for a new point, of n vertices: candidates, and the first beyond them."""
    return min(n, 4 * max(k, k_scale) + 41)


def _n_widest(n: int) -> int:
    return n if n <= _SMALL else _WIDEST


def widest(radii: FloatArray) -> IntArray:
    """The vertices that are compared with all new points: those with the largest radii, (U,), all of a few."""
    k = _n_widest(len(radii))
    return np.argpartition(radii, -k)[-k:]


def n_tied(kept: IntArray, radii: FloatArray, wanted: int) -> int:
    """Number of vertices with possibly more ties, or without k neighbours at a positive distance."""
    return int(((kept == wanted) | (radii == 0)).sum())


def tied_often(tied: int, n: int) -> bool:
    """Whether enough of n vertices have ties to repeat the search with more neighbours."""
    return tied / n > (0.0 if n <= 10 * _SMALL else _TIED)


def kth_apart(squared: Any, k: int) -> FloatArray:
    """Squared distance to the k-th neighbour at a positive distance, from sorted lists (m, length), shape (m,).

    If there are fewer than k, the distance of the farthest. Distinct points may have the distance 0, by a cosine.
    """
    xp = array_namespace(squared)
    kth: FloatArray = to_numpy(astype(squared[:, min(k, squared.shape[1]) - 1], np.float64))
    some = xp.nonzero(squared[:, 0] <= 0)[0]
    if some.shape[0]:
        rows = squared[some]
        last = xp.clip(xp.count_nonzero(rows <= 0, axis=1) + k, max=squared.shape[1]) - 1
        kth = kth if kth.flags.writeable else kth.copy()
        kth[to_numpy(some)] = to_numpy(rows[xp.arange(rows.shape[0], device=device_of(squared)), last])
    return kth


def within(squared: Any, radii: FloatArray) -> IntArray:
    """How many of the leading entries of each row lie within its radius, shape (m,)."""
    xp, limits = array_namespace(squared), asarray_like(EDGE * radii, squared)[:, None]
    out = np.empty(squared.shape[0], dtype=np.int64)

    def count(rows: slice) -> None:
        out[rows] = to_numpy(xp.count_nonzero(squared[rows] <= limits[rows], axis=1))

    each(count, chunks(squared.shape[0], squared.shape[1], 1 << 20), blas=False)
    return out
