"""Nearest neighbours in many dimensions: clusters, and matrix products between those that are close.

Points are grouped by k-means: each lies in the cluster of its nearest centre.

Neighbours of the points themselves are approximate. Two clusters are compared if their centres are close relative to
the clusters' sizes, ``|c_a - c_b|^2 <= reach (r_a^2 + r_b^2)``: one matrix product gives all distances between their
points, for both sides. The reach is calibrated on the exact neighbours of a sample, and the recall is measured on
another sample.

Neighbours of other points (queries) are exact. All points y of cluster b are at least as near to its centre as to that
of cluster a, so by the triangle inequality ``|q - y| >= (|q - c_b|^2 - |q - c_a|^2) / (2 |c_a - c_b|)``, the distance
of q from the half-space of these points. A cluster is left out if that is more than the k-th distance found, for all
queries of a block.

Products of coordinates in float32 are compared in registers, where they are formed. Where the processor multiplies
bytes fast, and bytes resolve the neighbours, coordinates are rounded to bytes. A few more candidates than neighbours
are then kept, whose exact distances decide. In float64, which few data need, products are matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, count
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .._utils.chunks import chunks
from .._utils.memmap import arranged, zeros_beside
from .._utils.threads import Scratch, each, workers
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..compiled import BOTH_WAYS, LANES, LARGEST_BYTE, SAME_POINTS, TO_ROWS
from ..compiled.library import BYTE_PRODUCTS
from ..linalg.metrics import central_point, magnitude, refuse_overflow, squared_distances
from ..linalg.sketch import sample

__all__ = ["ClusterIndex"]

Progress = Callable[[int, int], None]

# Matrix products favour large clusters, the search small ones; too many would cost more to assign than they save.
_POINTS_PER_CLUSTER = 512
_MOST_CLUSTERS = 2048
# k-means: steps, clusters that are found in one level, points of the sample for each cluster, points that give the
# centre and the scale of the data, and the coordinates, in units of that scale, from which on a point is an outlier.
_LLOYD_STEPS = 5
_ONE_LEVEL = 128
_SAMPLE_PER_CLUSTER = 48
_FEW = 1000
_OUTLYING = 1e4
# Points whose exact neighbours calibrate the reach, and as many others on which the recall is measured.
_CALIBRATION = 160
# Share of the sample's neighbours that the reach covers, and the recall that is aimed at.
_COVERED = 0.9975
_RECALL = 0.9935
# A tile of 512 x 2048 in float32 takes 4 MB.
_TILE_ROWS = 512
_TILE_COLUMNS = 2048
# Below this recall, exact search up to this number of points; beyond that, warn.
_LEAST_RECALL = 0.99
_MOST_DIFFERENCES = 20_000
# Distances that differ by less than this factor are equal for the recall.
SAME = 1.0 + 1e-5
# Float32 resolves neighbours while a cluster's squared extent is at most this multiple of their squared distance; if
# it does not for more than this share of a sample, float64 is used.
_RESOLVED = 1000.0
_VAGUE = 0.002
# The same for coordinates that are rounded to bytes, and the candidates beyond k that make up for it: at least this
# many, and this part of k.
_RESOLVED_BY_BYTES = 12.0
_VAGUE_BYTES = 0.01
_SPARE = 4
# Squared distances, relative to those between clusters, that products in float64 give to few digits.
_CANCELLED = 1e-9
# Coordinates, in units of a typical cluster, beyond which squares in float32 would overflow.
_FAR = 1e16


def _squared_norms(A: FloatArray) -> FloatArray:
    norms: FloatArray = np.einsum("ij,ij->i", A, A)
    return norms


def _padded(width: Any) -> Any:
    """The next multiple of the number of lanes of the compiled search."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True)
class Frame:
    """Coordinates about the middle of the data, in units of their typical size, in which clusters are found."""

    middle: FloatArray  # (d,)
    unit: float

    @classmethod
    def of(cls, X: FloatArray) -> Frame:
        """The frame of some points, from a sample."""
        few = np.asarray(X[sample(X.shape[0], _FEW)], dtype=np.float64)
        middle = np.median(few, axis=0)
        apart = np.abs(few - middle).max(axis=1)
        return cls(middle, float(np.median(apart)) or magnitude(apart))

    def coordinates(self, points: FloatArray) -> FloatArray:
        """Coordinates in float32, those of outliers clipped."""
        return np.asarray(np.clip((points - self.middle) / self.unit, -_OUTLYING, _OUTLYING), dtype=np.float32)

    def nearest(self, points: FloatArray, centres: FloatArray) -> IntArray:
        """The number of the nearest centre of each point, by rounded distances; that of all centres for outliers."""
        labels = np.empty(len(points), dtype=np.int64)

        def assign(rows: slice) -> None:
            here = self.coordinates(points[rows])
            outlying = np.abs(here).max(axis=1) >= _OUTLYING
            labels[rows] = np.where(outlying, len(centres), nearest_centre(here, centres))

        each(assign, chunks(len(points), len(centres), 1 << 19))
        return labels


def kmeans(X: FloatArray, n_clusters: int, frame: Frame) -> FloatArray:
    """Centres of clusters, in a frame, by a few steps of Lloyd's iteration on a sample, (about n_clusters, d).

    Many centres are found in two levels, each cluster of the first divided on its own, which takes a fraction of the
    time. scikit-learn's KMeans on the same sample takes as long in total, needs a limit on OpenMP's threads, and
    importing it delays the first fit.
    """
    some = frame.coordinates(X[sample(X.shape[0], _SAMPLE_PER_CLUSTER * n_clusters)])
    if n_clusters <= _ONE_LEVEL:
        return lloyd(some, n_clusters)
    labels = nearest_centre(some, lloyd(some, int(np.sqrt(n_clusters))))
    # Finer clusters of each coarse one, in proportion to its points.
    parts = [some[labels == a] for a in np.unique(labels)]
    shares = [max(1, round(n_clusters * len(part) / len(some))) for part in parts]
    with workers() as share:
        return np.concatenate([*share(lambda pair: lloyd(*pair), zip(parts, shares, strict=True))])


def lloyd(points: FloatArray, n_clusters: int) -> FloatArray:
    """Centres of clusters after a few steps of Lloyd's iteration from points in regular intervals."""
    centres = points[np.arange(n_clusters) * len(points) // max(1, n_clusters)]
    for _ in range(_LLOYD_STEPS):
        labels = nearest_centre(points, centres)
        order = np.argsort(labels, kind="stable")
        taken, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        centres[taken] = np.add.reduceat(points[order], starts, axis=0) / sizes[:, None]
    return centres


def nearest_centre(points: FloatArray, centres: FloatArray) -> IntArray:
    """The number of the nearest centre of each point, (m,)."""
    labels: IntArray = (points @ centres.T - 0.5 * _squared_norms(centres)).argmax(axis=1)
    return labels


class Tile(NamedTuple):
    """Distances between a block of points and a part of a cluster: ``left_i + right_j - products_ij``.

    The columns `columns` are the points `points` of the cluster `cluster`, then padding, whose squared norm `right` is
    NaN.
    """

    products: FloatArray
    left: FloatArray
    right: FloatArray
    columns: slice
    cluster: int
    points: slice


class Candidates:
    """The nearest neighbours found so far of m points, in buffers that are reduced to the k nearest when they are full.

    The result does not depend on the order of offers: among equal distances the smallest numbers win. The arrays are
    those of :func:`heatsketch.compiled.search.offer`.
    """

    def __init__(self, m: int, k: int) -> None:
        self.k = k
        self.worst = np.full(m + LANES, np.inf, dtype=np.float32)
        self.count = np.zeros(m, dtype=np.int32)
        self.squared = np.empty((m, _padded(2 * k)), np.float32)
        self.ids = np.empty(self.squared.shape, np.int32)

    @property
    def nearest(self) -> IntArray:
        """Numbers of the k nearest, after `cut`, (m, k)."""
        return np.ascontiguousarray(self.ids[:, : self.k])

    def offer(self, tile: Tile, row: int, mode: int) -> None:
        """Offer the points of a tile, whose first row is point `row`, in a mode of the compiled search."""
        from ..compiled.search import offer  # noqa: PLC0415

        spans = tile.columns.start, tile.columns.stop, row, tile.points.start, tile.points.stop
        state = self.worst, self.count, self.squared, self.ids
        offer(tile.products, tile.left, tile.right, *spans, mode, self.k, *state)

    def cut(self) -> None:
        """Keep the k nearest of each row."""
        from ..compiled.search import shrink  # noqa: PLC0415

        state = self.squared, self.ids, self.count, self.worst, self.k
        each(lambda rows: shrink(*state, rows.start, rows.stop), chunks(len(self.count), 1, 1 << 14))

    def put(self, rows: IntArray, other: Candidates) -> None:
        """Set the candidates of some rows."""
        self.worst[rows], self.count[rows] = other.worst[: len(rows)], other.count
        self.squared[rows], self.ids[rows] = other.squared, other.ids


class Codes:
    """The points of an index in blocks: coordinates relative to the centre of their cluster, as bytes or in float32."""

    def __init__(self, index: ClusterIndex, *, in_bytes: bool) -> None:
        self._points, self._offsets = index.points, index._offsets
        # In the dtype of the points, so that differences are exact.
        self._centres, self._unit = index._centres.astype(index.points.dtype), index.points.dtype.type(index._unit)
        n_clusters, d = self._centres.shape
        # The first block of each cluster, and the blocks; see `heatsketch.compiled.search.offer_codes`.
        self._blocks = np.concatenate([[0], np.cumsum(-(-np.diff(self._offsets) // LANES))])
        depth, dtype = (-(-d // 4), np.int32) if in_bytes else (d, np.float32)
        self._codes: Any = zeros_beside(index.points, (int(self._blocks[-1]), depth, LANES), dtype)
        # The units of the codes, and squared distances from the centres, in the unit of the index.
        self._steps = np.empty(n_clusters, dtype=np.float32)
        self._norms = np.full((self._blocks[-1], LANES), np.nan, dtype=np.float32)  # NaN for padding
        each(self._encode, range(n_clusters))

    def _span(self, a: int) -> tuple[int, int]:
        """The first point of a cluster, and the one after its last."""
        return int(self._offsets[a]), int(self._offsets[a + 1])

    def _members(self, a: int) -> slice:
        return slice(*self._span(a))

    def _local(self, a: int) -> FloatArray:
        """The points of a cluster relative to its centre."""
        local: FloatArray = self._points[self._members(a)] - self._centres[a]
        return local

    def _encode(self, a: int) -> None:
        """Lay the points of a cluster out in blocks of codes, rounded to bytes if these are integers."""
        points, codes = self._local(a) / self._unit, self._codes_of(a)
        self._norms[self._blocks[a] : self._blocks[a + 1]].reshape(-1)[: len(points)] = _squared_norms(points)
        step, in_bytes = np.float32(1), codes.dtype != np.float32
        if in_bytes:
            step = np.float32(max(np.abs(points).max(), LARGEST_BYTE * np.finfo(np.float32).tiny) / LARGEST_BYTE)
            points = np.rint(points / step)
        width = codes.shape[1] * (4 if in_bytes else 1)
        rows = np.zeros((len(codes) * LANES, width), dtype=np.int8 if in_bytes else np.float32)
        rows[: len(points), : points.shape[1]] = points
        codes[:] = rows.view(codes.dtype).reshape(len(codes), LANES, -1).transpose(0, 2, 1)
        self._steps[a] = step

    def _codes_of(self, a: int) -> Any:
        return self._codes[self._blocks[a] : self._blocks[a + 1]]

    def compare_cluster(self, a: int, others: IntArray, locks: list[Lock], found: Candidates) -> None:
        """Compare a cluster with others."""
        from ..compiled.search import offer_codes  # noqa: PLC0415

        state = found.worst, found.count, found.squared, found.ids
        for b, left, doubled in self._sides(a, others):
            right, factor = self._right(b, doubled), np.float32(2) * self._steps[a] * self._steps[b]
            spans = *self._span(a), *self._span(b)
            with locks[min(a, b)], locks[max(a, b)] if a != b else nullcontext():
                offer_codes(self._codes_of(a), self._codes_of(b), left, right, factor, *spans, a == b, found.k, *state)

    def _sides(self, a: int, others: IntArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Each other cluster, terms that depend on points of cluster a, padded, (blocks, 16), and ``2 g``, (d,).

        With p and q relative to the centres of x and y, and g between these, ``|x - y|^2 = |p|^2 + 2 p.g + |g|^2 +
        |q|^2 - 2 q.g - 2 p.q``; codes give the last term.
        """
        P = self._local(a)
        norms = _squared_norms(P / self._unit)
        for some in chunks(len(others), _padded(len(P))):
            gaps = (self._centres[a] - self._centres[others[some]]) / self._unit
            left = np.full((len(gaps), _padded(len(P))), np.nan, dtype=np.float32)
            left[:, : len(P)] = (gaps + gaps) / self._unit @ P.T + norms + _squared_norms(gaps)[:, None]
            yield from zip(others[some].tolist(), left.reshape(len(gaps), -1, LANES), gaps + gaps, strict=True)

    def _right(self, b: int, doubled: FloatArray) -> FloatArray:
        """Terms that depend on points of another cluster, padded, (blocks, 16)."""
        blocks = slice(self._blocks[b], self._blocks[b + 1])
        if self._codes.dtype == np.float32:
            products = doubled.astype(np.float32) @ self._codes[blocks]
        else:  # bytes have too few digits
            products = np.zeros((blocks.stop - blocks.start, LANES), dtype=np.float32)
            products.reshape(-1)[: self._offsets[b + 1] - self._offsets[b]] = self._local(b) @ (doubled / self._unit)
        terms: FloatArray = self._norms[blocks] - products
        return terms


class LocalPoints:
    """The points of an index for queries: relative to the centre of their cluster, in its unit and in float32."""

    def __init__(self, index: ClusterIndex) -> None:
        self._points, self._offsets, self._centres = index.points, index._offsets, index._centres
        self._unit, self._scratch = index._unit, index._scratch
        # The first row of each cluster below; the rows after its points are padding, whose squared norms are NaN.
        self._starts = np.concatenate([[0], np.cumsum(_padded(np.diff(self._offsets)))])
        self._rows = zeros_beside(self._points, (int(self._starts[-1]), self._points.shape[1]), np.float32)
        self._norms = np.full(len(self._rows), np.nan, dtype=np.float32)
        each(self._fill, range(len(self._centres)))

    def _fill(self, a: int) -> None:
        points = self._points[self._offsets[a] : self._offsets[a + 1]]
        rows = slice(self._starts[a], self._starts[a] + len(points))
        self._rows[rows] = self._local(points, a)
        self._norms[rows] = _squared_norms(self._rows[rows])

    def _local(self, points: FloatArray, a: int) -> FloatArray:
        local: FloatArray = np.clip((points - self._centres[a]) / self._unit, -_FAR, _FAR).astype(np.float32)
        return local

    def tiles(self, Q: FloatArray, a: int) -> Iterator[Tile]:
        """Distances from queries to the points of a cluster, (m, n), at most `_TILE_COLUMNS` of them at a time."""
        P = self._local(Q, a)
        left, doubled = _squared_norms(P), P + P
        for start in range(self._starts[a], self._starts[a + 1], _TILE_COLUMNS):
            rows = slice(start, min(self._starts[a + 1], start + _TILE_COLUMNS))
            products = self._scratch.array("products", (len(P), rows.stop - start), np.float32)
            np.matmul(doubled, self._rows[rows].T, out=products)
            first = self._offsets[a] + start - self._starts[a]
            members = slice(int(first), int(min(self._offsets[a + 1], first + _TILE_COLUMNS)))
            yield Tile(products, left, self._norms[rows], slice(0, rows.stop - start), a, members)


class ClusterIndex:
    """Neighbour search by clusters, for the Euclidean distance.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        Distinct points.

    Attributes
    ----------
    order : ndarray of int, shape (N,)
        The points cluster by cluster, so that neighbours have close numbers. The search returns numbers in this order.
    points : ndarray of shape (N, d)
        The points in this order.
    recall : float or None
        Share of the true neighbours that the search among the points themselves found, on a sample.
    """

    method = "clusters"

    def __init__(self, X: FloatArray) -> None:
        refuse_overflow(X)
        self._frame = Frame.of(X)
        centres = kmeans(X, max(1, min(_MOST_CLUSTERS, X.shape[0] // _POINTS_PER_CLUSTER)), self._frame)
        labels = self._frame.nearest(X, centres)
        self.order: IntArray = np.argsort(labels, kind="stable")
        self.points = arranged(X, self.order)
        taken, starts, sizes = np.unique(labels[self.order], return_index=True, return_counts=True)
        self._offsets = np.append(starts, len(labels))
        # In regular clusters, no other centre is nearer to a point than its own. Outliers are the last cluster, so that
        # they do not widen another one.
        regular = taken[taken < len(centres)]
        self._n_regular = len(regular)
        self._centres = self._frame.middle + self._frame.unit * centres[regular].astype(np.float64)
        if len(regular) < len(taken):
            self._centres = np.vstack([self._centres, self.points[starts[-1] :].mean(axis=0, dtype=np.float64)])
        # Squared radii of the clusters: the mean, and the root of the largest.
        radii = np.empty(X.shape[0])
        each(lambda a: self._radii(a, radii), range(len(sizes)))
        self._spread = np.add.reduceat(radii, starts) / sizes
        self._extent = np.sqrt(np.maximum.reduceat(radii, starts))
        # The size of a typical cluster is the unit: squares of coordinates are within the range of float32.
        self._unit = float(np.sqrt(np.median(self._spread[self._spread > 0]))) if self._spread.any() else 1.0
        self._precision: Any = np.float32
        self._reach = 0.0
        self._coded = self._in_bytes = False  # whether points are compared by codes, and whether these are bytes
        self.recall: float | None = None
        self._scratch, self._lock = Scratch(), Lock()
        self._local: LocalPoints | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A temporary file, a lock and a thread's buffers cannot be sent to another process.
        return self.__dict__ | {"points": np.array(self.points), "_scratch": None, "_lock": None, "_local": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _scratch=Scratch(), _lock=Lock())

    def _local_points(self) -> LocalPoints:
        """The points for queries; made on first use."""
        with self._lock:
            self._local = self._local or LocalPoints(self)
            return self._local

    def _radii(self, a: int, out: FloatArray) -> None:
        members = self._members(a)
        out[members] = np.square(self.points[members] - self._centres[a]).sum(axis=1)

    def _members(self, a: int) -> slice:
        return slice(int(self._offsets[a]), int(self._offsets[a + 1]))

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point; `progress` gets the number of clusters done, and of all."""
        n = self.points.shape[0]
        chosen = sample(n, 2 * _CALIBRATION)
        ids, squared = self._exact(chosen, k)
        self._choose_precision(chosen, squared[:, -1])
        codes = Codes(self, in_bytes=self._in_bytes) if self._coded else None
        found = Candidates(n, min(n - 1, self._n_candidates(k)))
        first, second = chosen[::2], chosen[1::2]
        ratios, again = self._ratios(first, ids[::2]), self._ratios(second, ids[1::2])
        done, self._reach = -1.0, float(np.quantile(ratios, _COVERED, method="higher"))
        while True:
            self._compare(found, codes, done, self._reach, progress)
            found.cut()
            self.recall = self._measure_recall(found, second, squared[1::2, -1], k)
            if self.recall >= _RECALL or self._reach == np.inf:
                break
            # The sample was too easy. Search as far as the neighbours of both samples, then everywhere.
            farthest = float(max(ratios.max(), again.max()))
            done, self._reach = self._reach, farthest if farthest > self._reach else np.inf
        if self.recall < _LEAST_RECALL:
            self._last_resort(found)
        self._complete(found)
        found.squared = found.squared[:0]  # the largest of the arrays
        ids, squared = np.empty((n, k), dtype=np.int32), np.empty((n, k))

        def measure(rows: slice) -> None:
            some, apart = self._measured(self.points[rows], np.ascontiguousarray(found.ids[rows, : found.k]))
            ids[rows], squared[rows] = some[:, :k], apart[:, :k]

        each(measure, chunks(n, 1, 4096))
        return ids, squared

    def _n_candidates(self, k: int) -> int:
        """Number of candidates of which the k nearest are chosen by exact distances."""
        return k + max(_SPARE, k // _SPARE) if self._in_bytes else k

    def _last_resort(self, found: Candidates) -> None:
        """Exact search, or a warning, if points lie in groups too small for products to resolve."""
        if self.points.shape[0] <= _MOST_DIFFERENCES:
            found.count[:] = 0  # `_complete` searches all of them exactly
            self.recall = 1.0
            return
        warn(
            f"the recall of the neighbour search is only {self.recall:.2f}: points lie in groups that are far smaller "
            "than the distances between them, more than float64 resolves. Embed the groups separately, or remove "
            "offsets that carry no information."
        )

    def _choose_precision(self, rows: IntArray, kth: FloatArray) -> None:
        """Use float64 if float32 does not resolve the neighbours of more than a few points, and bytes if they do.

        The error of ``|x|^2 + |y|^2 - 2 x.y`` is a few units in the last place of the squared extent of a cluster.
        """
        extent = self._extent[np.searchsorted(self._offsets, rows, side="right") - 1]

        def vague(resolved: float) -> float:
            return float((extent**2 > resolved * kth).mean())

        self._precision = np.float64 if vague(_RESOLVED) > _VAGUE else np.float32
        farthest = np.abs(self._centres - self._centres[0]).max() + self._extent.max()
        self._coded = self._precision == np.float32 and bool(farthest <= _FAR * self._unit)
        self._in_bytes = self._coded and BYTE_PRODUCTS and vague(_RESOLVED_BY_BYTES) <= _VAGUE_BYTES

    def _measure_recall(self, found: Candidates, rows: IntArray, kth: FloatArray, k: int) -> float:
        """Share of neighbours of the sample that are as near as the true ones, by exact distances."""
        ids = found.nearest[rows]
        held = np.arange(found.k) < found.count[rows, None]
        itself = rows[:, None].astype(np.int32)  # in place of neighbours that are missing
        ids, squared = self._measured(self.points[rows], np.where(held, ids, itself))
        squared[ids == itself] = np.inf
        return float((np.sort(squared, axis=1)[:, :k] <= SAME * kth[:, None]).mean())

    def query_order(self, Q: FloatArray) -> IntArray:
        """An order of queries in which those of one cluster follow each other, shape (m,): faster in batches."""
        labels = self._frame.nearest(Q, self._frame.coordinates(self._centres))
        return np.argsort(labels, kind="stable")

    def query(self, Q: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """The k points that are nearest to each of other points, (m, k): all of them, as `neighbors` gives them.

        Of points that are equally far up to rounding, any may be given.
        """
        wanted = min(len(self.points), k + _SPARE)
        ids: IntArray = np.empty((len(Q), wanted), dtype=np.int32)
        for rows in chunks(len(Q), len(self._centres)):
            ids[rows] = self._query(Q[rows], wanted)
        ids, squared = self._measured(Q, ids)
        return ids[:, :k], squared[:, :k]

    def _query(self, Q: FloatArray, k: int) -> IntArray:
        D2 = squared_distances(Q, self._centres)
        order = np.argsort(D2[:, : self._n_regular].argmin(axis=1), kind="stable")
        found, local = Candidates(len(Q), k), self._local_points()
        blocks = [order[rows] for rows in chunks(len(Q), 1, _TILE_ROWS)]
        each(lambda rows: found.put(rows, self._place(Q[rows], D2[rows], local, k)), blocks)
        self._complete(found, Q)
        return found.nearest

    def _place(self, Q: FloatArray, D2: FloatArray, local: LocalPoints, k: int) -> Candidates:
        """The nearest points of a block of queries, without those of queries that float32 does not resolve.

        D2, (m, n_clusters), are their squared distances to the centres.
        """
        found = Candidates(len(Q), k)

        def limits() -> FloatArray:
            worst: FloatArray = self._unit**2 * found.worst[: len(Q), None].astype(np.float64)
            return np.maximum(worst, 0.0)  # products round

        margins = self._margins(D2)
        order, n_searched = np.argsort(margins.min(axis=0), kind="stable"), 0
        while n_searched < len(order):
            some = order[n_searched : 2 * n_searched + 1]  # limits are renewed after 1, 3, 7, ... clusters
            n_searched += len(some)
            needed = some[(margins[:, some] <= np.sqrt(limits())).any(axis=0)]
            near = [local.tiles(Q, b) for b in needed[needed < self._n_regular].tolist()]
            # Outliers may be far from their centre; relative to it they would lose digits.
            outliers = self._tiles(Q, Q.mean(axis=0, dtype=np.float64), needed[needed >= self._n_regular], np.float32)
            for tile in chain(*near, outliers):
                found.offer(tile, 0, TO_ROWS)
            found.cut()
        nearest = D2[:, : self._n_regular].min(axis=1)
        found.count[nearest > _RESOLVED * limits()[:, 0]] = 0  # these are searched in float64
        return found

    def _margins(self, D2: FloatArray) -> FloatArray:
        """Lower bounds of the distances from queries to the points of each cluster, (m, n_clusters).

        D2 are their squared distances to the centres. For the rounding of labels see `Frame.nearest`: each term of its
        inner products is at most the product of the two sizes.
        """
        labels = D2[:, : self._n_regular].argmin(axis=1)
        nearest = np.take_along_axis(D2, labels[:, None], axis=1)
        some, which = np.unique(labels, return_inverse=True)
        gaps = np.sqrt(squared_distances(self._centres[some], self._centres))
        sizes = np.sqrt(np.square(self._centres - self._frame.middle).sum(axis=1)) + self._extent
        error = 2.0 * (self.points.shape[1] + 4) * np.finfo(np.float32).eps * np.square(sizes[some, None] + sizes)
        bounded = gaps > 0
        bounded[:, self._n_regular :] = False
        with np.errstate(divide="ignore", invalid="ignore"):
            margins: FloatArray = (D2 - nearest - error[which]) / (2.0 * gaps[which])
        margins[~bounded[which]] = -np.inf  # in its own cluster, and among outliers
        return margins

    def _ratios(self, rows: IntArray, ids: IntArray) -> FloatArray:
        """``|c_a - c_b|^2 / (r_a^2 + r_b^2)`` for the clusters of points and their neighbours, flat."""
        a = np.searchsorted(self._offsets, rows, side="right") - 1
        b = np.searchsorted(self._offsets, ids, side="right") - 1
        apart = np.square(self._centres[a][:, None, :] - self._centres[b]).sum(axis=2)
        return _ratio(apart, self._spread[a][:, None] + self._spread[b]).ravel()

    def _compare(
        self, found: Candidates, codes: Codes | None, beyond: float, reach: float, progress: Progress | None
    ) -> None:
        """Compare all pairs of clusters whose ratio is above `beyond` and at most `reach`."""
        n_clusters = len(self._centres)
        locks = [Lock() for _ in range(n_clusters)]
        compare = self._compare_cluster if codes is None else codes.compare_cluster
        if beyond < 0:  # each with itself first: limits found there save work everywhere else
            each(lambda a: compare(a, np.array([a]), locks, found), range(n_clusters))
        finished = count(1)

        def with_others(a: int) -> None:
            apart = np.square(self._centres[a + 1 :] - self._centres[a]).sum(axis=1)
            ratio = _ratio(apart, self._spread[a + 1 :] + self._spread[a])
            others = np.flatnonzero((ratio > beyond) & (ratio <= reach))
            compare(a, a + 1 + others[np.argsort(ratio[others])], locks, found)
            if progress is not None:
                progress(next(finished), n_clusters)

        each(with_others, range(n_clusters))

    def _compare_cluster(self, a: int, others: IntArray, locks: list[Lock], found: Candidates) -> None:
        members = self._members(a)
        for start in range(members.start, members.stop, _TILE_ROWS):
            block = self.points[start : min(members.stop, start + _TILE_ROWS)]
            for tile in self._tiles(block, self._centres[a], others, self._precision):
                b = tile.cluster
                if a == b:
                    with locks[a]:
                        found.offer(tile, start, SAME_POINTS)
                else:
                    with locks[min(a, b)], locks[max(a, b)]:
                        found.offer(tile, start, BOTH_WAYS)

    def _tiles(self, block: FloatArray, centre: FloatArray, others: IntArray, kind: Any) -> Iterator[Tile]:
        """Distances from a block of points to the clusters `others`, several of them in one matrix product.

        Coordinates are relative to the centre of the block's cluster, in float64, before they are rounded, so that
        near points keep their digits. Those too far away to be squared are clipped. Products are of the dtype `kind`.
        """

        def local(points: FloatArray) -> FloatArray:
            return np.clip((points - centre) / self._unit, -_FAR, _FAR).astype(kind)

        A = local(block)
        left, doubled = _squared_norms(A), A + A
        for group in self._groups(others):
            starts = np.cumsum([0, *(_padded(piece.stop - piece.start) for _, piece in group)])
            B = np.zeros((starts[-1], A.shape[1]), dtype=kind)
            right = np.full(len(B), np.nan, dtype=kind)
            for start, (_, piece) in zip(starts, group, strict=False):
                part = slice(start, start + piece.stop - piece.start)
                B[part] = local(self.points[piece])
                right[part] = _squared_norms(B[part])
            products = self._scratch.array("products", (len(A), len(B)), kind)
            np.matmul(doubled, B.T, out=products)
            if kind == np.float32:
                tile: tuple[FloatArray, FloatArray, FloatArray] = products, left, right
            else:  # float32 is enough for the distances themselves
                exact = (left[:, None] + right[None, :] - products).astype(np.float32)
                tile = -exact, np.zeros(len(A), np.float32), np.where(np.isnan(right), right, 0.0).astype(np.float32)
            for start, stop, (b, piece) in zip(starts, starts[1:], group, strict=False):
                yield Tile(*tile, slice(int(start), int(stop)), b, piece)

    def _groups(self, others: IntArray) -> Iterator[list[tuple[int, slice]]]:
        """Clusters, large ones in pieces, in groups that fill a tile."""
        group: list[tuple[int, slice]] = []
        filled = 0
        for b in others.tolist():
            members = self._members(b)
            for start in range(members.start, members.stop, _TILE_COLUMNS):
                piece = slice(start, min(members.stop, start + _TILE_COLUMNS))
                if group and filled + piece.stop - piece.start > _TILE_COLUMNS:
                    yield group
                    group, filled = [], 0
                group.append((b, piece))
                filled += piece.stop - piece.start
        if group:
            yield group

    def _complete(self, found: Candidates, Q: FloatArray | None = None) -> None:
        """Search exactly for the neighbours of points, or queries, that have too few candidates."""
        found.cut()
        lacking = np.flatnonzero(found.count < found.k)
        for some in chunks(len(lacking), 1, 2 * _CALIBRATION):
            found.ids[lacking[some], : found.k] = self._exact(lacking[some], found.k, Q)[0]

    def _exact(self, rows: IntArray, k: int, Q: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
        """Exact neighbours of the points `rows`, or of the queries `rows` of `Q`: numbers and squared distances."""
        block = self.points[rows] if Q is None else Q[rows]
        found, lock, zeros = Candidates(len(rows), k), Lock(), np.zeros(len(rows), dtype=np.float32)
        # One unit for each row: distances of outliers are much larger.
        typical = (len(self._centres) - 1) // 2
        unit = np.sort(squared_distances(block, self._centres), axis=1)[:, typical, None] + self._unit**2

        def look(columns: slice) -> None:
            here = self.points[columns]
            middle = central_point(here)
            A, B = np.asarray(block - middle, dtype=np.float64), np.asarray(here - middle, dtype=np.float64)
            # -|x - y|^2 in one product, of vectors with the squared norms beside the coordinates.
            A = np.hstack([A + A, -_squared_norms(A)[:, None], np.full((len(A), 1), -1.0)]) / unit
            near = A @ np.hstack([B, np.ones((len(B), 1)), _squared_norms(B)[:, None]]).T
            itself = np.flatnonzero((rows >= columns.start) & (rows < columns.stop)) if Q is None else rows[:0]
            near[itself, rows[itself] - columns.start] = -np.inf
            i, j = np.nonzero(near > -_CANCELLED)
            for some in chunks(len(i), block.shape[1]):
                differences = np.asarray(block[i[some]] - here[j[some]], dtype=np.float64)
                near[i[some], j[some]] = -_squared_norms(differences) / unit[i[some], 0]
            tile = np.full((len(A), _padded(len(B))), np.nan, dtype=np.float32)
            np.maximum(near, -_FAR, out=tile[:, : len(B)], casting="same_kind")
            tile[itself, rows[itself] - columns.start] = np.nan
            right = np.zeros(tile.shape[1], dtype=np.float32)
            with lock:
                found.offer(Tile(tile, zeros, right, slice(0, len(right)), 0, columns), 0, TO_ROWS)

        each(look, chunks(len(self.points), max(len(rows), 1), 1 << 18))
        found.cut()
        return self._measured(block, found.nearest)

    def _measured(self, Q: FloatArray, ids: IntArray) -> tuple[IntArray, FloatArray]:
        """Numbers and exact squared distances of neighbours, by differences in float64, nearest first."""
        from ..compiled.search import measure  # noqa: PLC0415

        squared, Q, points = np.empty(ids.shape), np.ascontiguousarray(Q), np.ascontiguousarray(self.points)
        each(lambda rows: measure(Q, points, ids, rows.start, rows.stop, squared), chunks(len(ids), 1, 4096))
        return ids, squared


def _ratio(apart: FloatArray, spread: FloatArray) -> FloatArray:
    """Squared distances of centres over the clusters' sizes; infinite between clusters of a single point each."""
    ratio: FloatArray = np.divide(apart, spread, out=np.full(np.shape(apart), np.inf), where=spread > 0)
    ratio[apart == 0] = 0.0
    return ratio
