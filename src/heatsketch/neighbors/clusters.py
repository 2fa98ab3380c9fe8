"""Approximate nearest neighbours in many dimensions: clusters, and matrix products between those that are close.

Points are grouped by k-means. Two clusters are compared if their centres are close relative to the clusters' sizes,
``|c_a - c_b|^2 <= reach (r_a^2 + r_b^2)``: one matrix product gives all distances between their points, for both
sides. The reach is calibrated on the exact neighbours of a sample, and the recall is measured on another sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .._utils.chunks import chunks
from .._utils.memmap import arranged
from .._utils.threads import Scratch, each
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..compiled import BOTH_WAYS, LANES, SAME_POINTS, TO_ROWS
from ..linalg.metrics import magnitude, refuse_overflow, squared_distances
from ..linalg.sketch import sample

__all__ = ["ClusterIndex"]

Progress = Callable[[int, int], None]

# Matrix products favour large clusters, the search small ones; too many would cost more to assign than they save.
_POINTS_PER_CLUSTER = 512
_MOST_CLUSTERS = 2048
# k-means: steps, points of the sample for each cluster, points that give the centre and the scale of the data, and the
# coordinates, in units of that scale, from which on a point is an outlier.
_LLOYD_STEPS = 5
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
# Coordinates, in units of a typical cluster, beyond which squares in float32 would overflow.
_FAR = 1e16


def _squared_norms(A: FloatArray) -> FloatArray:
    norms: FloatArray = np.einsum("ij,ij->i", A, A)
    return norms


def _padded(width: int) -> int:
    """The next multiple of the number of lanes of the compiled search."""
    return -(-width // LANES) * LANES


def kmeans(X: FloatArray, n_clusters: int) -> IntArray:
    """Labels of the points by a few steps of Lloyd's iteration on a sample, in float32, shape (N,).

    Outliers form their own cluster, so that they do not widen another one. scikit-learn's KMeans on the same sample
    takes as long in total, needs a limit on OpenMP's threads, and importing it delays the first fit.
    """
    n = X.shape[0]
    few = np.asarray(X[sample(n, _FEW)], dtype=np.float64)
    centre = np.median(few, axis=0)
    apart = np.abs(few - centre).max(axis=1)
    unit = float(np.median(apart)) or magnitude(apart)

    def normal(rows: Any) -> FloatArray:
        return np.asarray(np.clip((X[rows] - centre) / unit, -_OUTLYING, _OUTLYING), dtype=np.float32)

    def assign(points: Callable[[slice], FloatArray], n: int) -> IntArray:
        labels, half = np.empty(n, dtype=np.int64), 0.5 * _squared_norms(centres)

        def nearest_centre(rows: slice) -> None:
            here = points(rows)
            labels[rows] = (here @ centres.T - half).argmax(axis=1)
            labels[rows][np.abs(here).max(axis=1) >= _OUTLYING] = len(centres)

        each(nearest_centre, chunks(n, len(centres), 1 << 19))
        return labels

    centres = normal(sample(n, n_clusters))
    some = normal(sample(n, _SAMPLE_PER_CLUSTER * n_clusters))
    for _ in range(_LLOYD_STEPS):
        labels = assign(some.__getitem__, len(some))
        order = np.argsort(labels, kind="stable")
        taken, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        inside = taken < n_clusters
        means = np.add.reduceat(some[order], starts, axis=0) / sizes[:, None]
        centres[taken[inside]] = means[inside]
    return assign(normal, n)


class Tile(NamedTuple):
    """Distances between a block of points and a part of a cluster: ``left_i + right_j - products_ij``.

    The columns `columns` belong to the cluster `cluster`; the first of them is point `number`. The squared norm `right`
    of padding is NaN.
    """

    products: FloatArray
    left: FloatArray
    right: FloatArray
    columns: slice
    cluster: int
    number: int


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

        span = tile.columns.start, tile.columns.stop
        state = self.worst, self.count, self.squared, self.ids
        offer(tile.products, tile.left, tile.right, *span, row, tile.number, mode, self.k, *state)

    def cut(self) -> None:
        """Keep the k nearest of each row."""
        from ..compiled.search import shrink  # noqa: PLC0415

        state = self.squared, self.ids, self.count, self.worst, self.k
        each(lambda rows: shrink(*state, rows.start, rows.stop), chunks(len(self.count), 1, 1 << 14))

    def put(self, rows: IntArray, other: Candidates) -> None:
        """Set the candidates of some rows."""
        self.worst[rows], self.count[rows] = other.worst[: len(rows)], other.count
        self.squared[rows], self.ids[rows] = other.squared, other.ids


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
        labels = kmeans(X, max(1, min(_MOST_CLUSTERS, X.shape[0] // _POINTS_PER_CLUSTER)))
        sizes = np.bincount(labels)
        sizes = sizes[sizes > 0]
        self.order: IntArray = np.argsort(labels, kind="stable")
        self.points = arranged(X, self.order)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])
        starts = self._offsets[:-1]
        # Centres and squared radii of the clusters.
        self._centres = np.add.reduceat(self.points, starts, axis=0, dtype=np.float64) / sizes[:, None]
        radii = np.empty(X.shape[0])
        each(lambda a: self._radii(a, radii), range(len(sizes)))
        self._spread = np.add.reduceat(radii, starts) / sizes
        self._extent = np.sqrt(np.maximum.reduceat(radii, starts))
        # The size of a typical cluster is the unit: squares of coordinates are within the range of float32.
        self._unit = float(np.sqrt(np.median(self._spread[self._spread > 0]))) if self._spread.any() else 1.0
        self._precision: Any = np.float32
        self._reach = 0.0
        self.recall: float | None = None
        self._scratch = Scratch()

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_scratch"}
        return state | {"points": np.array(self.points)}  # a temporary file cannot be sent to another process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _scratch=Scratch())

    def _radii(self, a: int, out: FloatArray) -> None:
        members = self._members(a)
        out[members] = np.square(self.points[members] - self._centres[a]).sum(axis=1)

    def _members(self, a: int) -> slice:
        return slice(int(self._offsets[a]), int(self._offsets[a + 1]))

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """The k nearest other points of each point; `progress` gets the number of clusters done, and of all."""
        n = self.points.shape[0]
        found = Candidates(n, k)
        chosen = sample(n, 2 * _CALIBRATION)
        ids, squared = self._exact(chosen, k)
        self._choose_precision(chosen, squared[:, -1])
        first, second = chosen[::2], chosen[1::2]
        ratios, again = self._ratios(first, ids[::2]), self._ratios(second, ids[1::2])
        done, self._reach = -1.0, float(np.quantile(ratios, _COVERED, method="higher"))
        while True:
            self._compare(found, done, self._reach, progress)
            found.cut()
            self.recall = self._measure_recall(found, second, squared[1::2, -1])
            if self.recall >= _RECALL or self._reach == np.inf:
                break
            # The sample was too easy. Search as far as the neighbours of both samples, then everywhere.
            farthest = float(max(ratios.max(), again.max()))
            done, self._reach = self._reach, farthest if farthest > self._reach else np.inf
        if self.recall < _LEAST_RECALL:
            self._last_resort(found)
        self._complete(found, None)
        return self._measured(self.points, found.nearest)

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
        """Use float64 if float32 does not resolve the neighbours of more than a few points.

        The error of ``|x|^2 + |y|^2 - 2 x.y`` is a few units in the last place of the squared extent of a cluster.
        """
        extent = self._extent[np.searchsorted(self._offsets, rows, side="right") - 1]
        vague = extent**2 > _RESOLVED * kth
        self._precision = np.float64 if vague.mean() > _VAGUE else np.float32

    def _measure_recall(self, found: Candidates, rows: IntArray, kth: FloatArray) -> float:
        """Share of neighbours of the sample that are as near as the true ones, by exact distances."""
        ids = found.nearest[rows]
        held = np.arange(found.k) < found.count[rows, None]
        # Neighbours that are missing stand at the end of the sorted row, infinitely far.
        _, squared = self._measured(self.points[rows], np.where(held, ids, 0))
        squared = np.where(np.sort(held, axis=1)[:, ::-1], squared, np.inf)
        return float((squared <= SAME * kth[:, None]).mean())

    def query_order(self, Q: FloatArray) -> IntArray:
        """An order of queries in which those of one cluster follow each other, shape (m,): faster in batches."""
        labels = np.empty(len(Q), dtype=np.int32)
        centre = self._centres.mean(axis=0)
        centres = ((self._centres - centre) / self._unit).astype(np.float32)
        half = 0.5 * _squared_norms(centres)

        def nearest_centre(rows: slice) -> None:
            here = np.clip((Q[rows] - centre) / self._unit, -_FAR, _FAR).astype(np.float32)
            labels[rows] = (here @ centres.T - half).argmax(axis=1)

        each(nearest_centre, chunks(len(Q), len(centres), 1 << 19))
        return np.argsort(labels, kind="stable")

    def query(self, Q: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Nearest neighbours of other points, as `neighbors` gives them."""
        found = Candidates(Q.shape[0], k)
        for rows in chunks(Q.shape[0], len(self._centres)):
            D2 = squared_distances(Q[rows], self._centres)
            # Queries of one cluster, those inside it apart from those outside.
            labels, nearest = D2.argmin(axis=1), D2.min(axis=1)
            labels = 2 * labels + (nearest > np.square(self._extent)[labels])
            order = np.argsort(labels, kind="stable")
            groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
            each(lambda g, D2=D2, start=rows.start: self._place(Q, start + g, D2[g], found), groups)
        self._complete(found, Q)
        return self._measured(Q, found.nearest)

    def _place(self, Q: FloatArray, rows: IntArray, D2: FloatArray, found: Candidates) -> None:
        """Offer queries of one cluster the points of all clusters in reach.

        The reach of queries inside the cluster is that of its points. Outside, it is that of the farthest query.
        """
        a = int(D2[0].argmin())
        apart = np.square(self._centres - self._centres[a]).sum(axis=1)
        farthest, spread = float(D2[:, a].max()), float(self._spread[a])
        if farthest <= self._extent[a] ** 2:
            near = _ratio(apart, spread + self._spread) <= self._reach
        else:
            near = _ratio(apart, max(farthest, spread) + self._spread) <= self._reach
            near |= D2.min(axis=0) <= farthest
        others = np.flatnonzero(near)
        mine = Candidates(len(rows), found.k)
        for tile in self._tiles(Q[rows], self._centres[a], others):
            mine.offer(tile, 0, TO_ROWS)
        found.put(rows, mine)

    def _ratios(self, rows: IntArray, ids: IntArray) -> FloatArray:
        """``|c_a - c_b|^2 / (r_a^2 + r_b^2)`` for the clusters of points and their neighbours, flat."""
        a = np.searchsorted(self._offsets, rows, side="right") - 1
        b = np.searchsorted(self._offsets, ids, side="right") - 1
        apart = np.square(self._centres[a][:, None, :] - self._centres[b]).sum(axis=2)
        return _ratio(apart, self._spread[a][:, None] + self._spread[b]).ravel()

    def _compare(self, found: Candidates, beyond: float, reach: float, progress: Progress | None) -> None:
        """Compare all pairs of clusters whose ratio is above `beyond` and at most `reach`."""
        n_clusters = len(self._centres)
        locks = [Lock() for _ in range(n_clusters)]
        if beyond < 0:  # each with itself first: limits found there save work everywhere else
            each(lambda a: self._compare_cluster(a, np.array([a]), locks, found), range(n_clusters))
        finished = count(1)

        def with_others(a: int) -> None:
            apart = np.square(self._centres[a + 1 :] - self._centres[a]).sum(axis=1)
            ratio = _ratio(apart, self._spread[a + 1 :] + self._spread[a])
            others = np.flatnonzero((ratio > beyond) & (ratio <= reach))
            self._compare_cluster(a, a + 1 + others[np.argsort(ratio[others])], locks, found)
            if progress is not None:
                progress(next(finished), n_clusters)

        each(with_others, range(n_clusters))

    def _compare_cluster(self, a: int, others: IntArray, locks: list[Lock], found: Candidates) -> None:
        members = self._members(a)
        for start in range(members.start, members.stop, _TILE_ROWS):
            block = self.points[start : min(members.stop, start + _TILE_ROWS)]
            for tile in self._tiles(block, self._centres[a], others):
                b = tile.cluster
                if a == b:
                    with locks[a]:
                        found.offer(tile, start, SAME_POINTS)
                else:
                    with locks[min(a, b)], locks[max(a, b)]:
                        found.offer(tile, start, BOTH_WAYS)

    def _tiles(self, block: FloatArray, centre: FloatArray, others: IntArray) -> Iterator[Tile]:
        """Distances from a block of points to the clusters `others`, several of them in one matrix product.

        Coordinates are relative to the centre of the block's cluster, in float64, before they are rounded, so that
        near points keep their digits. Those too far away to be squared are clipped.
        """
        kind = self._precision

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
                tile = products, left, right
            else:  # float32 is enough for the distances themselves
                exact = (left[:, None] + right[None, :] - products).astype(np.float32)
                tile = -exact, np.zeros(len(A), np.float32), np.where(np.isnan(right), right, 0.0).astype(np.float32)
            for start, stop, (b, piece) in zip(starts, starts[1:], group, strict=False):
                yield Tile(*tile, slice(int(start), int(stop)), b, piece.start)

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

    def _complete(self, found: Candidates, Q: FloatArray | None) -> None:
        """Search exactly for the neighbours of points that have too few candidates."""
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
            width = columns.stop - columns.start
            D2 = np.full((len(rows), _padded(width)), np.nan)
            D2[:, :width] = squared_distances(block, self.points[columns]) / unit
            if Q is None:
                inside = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
                D2[inside, rows[inside] - columns.start] = np.nan
            right = np.zeros(D2.shape[1], dtype=np.float32)
            near = -np.minimum(D2, _FAR).astype(np.float32)
            with lock:
                found.offer(Tile(near, zeros, right, slice(0, len(right)), 0, columns.start), 0, TO_ROWS)

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
