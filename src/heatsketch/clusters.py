"""Nearest neighbours of many points in many dimensions: clusters, and matrix products between those that are close.

Points are grouped by k-means. Two clusters are compared if their centres are close for the clusters' sizes,
``|c_a - c_b|^2 <= reach (r_a^2 + r_b^2)``: one matrix product gives all distances between their points, which serve
both sides. How far the reach must go is read off from the exact neighbours of a sample, so that it grows with the
number of points and the dimension as it must; what was reached is measured on another sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np

from ._typing import FloatArray, IntArray
from .candidates import Found, Tile, padded
from .chunks import chunks
from .files import arranged
from .kernels import magnitude, squared_distances
from .sketch import sample
from .threads import Scratch, each, n_threads, workers

__all__ = ["ClusterIndex", "compared_share"]

Progress = Callable[[int, int], None]

_POINTS_PER_CLUSTER = 512
_MOST_CLUSTERS = 2048
_LLOYD_STEPS = 5
_SAMPLE_PER_CLUSTER = 48
# Points whose exact neighbours calibrate the reach, and as many others on which the recall is measured.
_CALIBRATION = 160
# Share of the sample's neighbours that the reach shall cover, and what is asked of the recall measured.
_COVERED = 0.9975
_RECALL = 0.9935
# A tile of 512 x 2048 in float32 is 4 MB.
_TILE_ROWS = 512
_TILE_COLUMNS = 2048
# Distances that differ by less are the same for the recall: the exact ones are held in float32 too.
_SAME = 1.0 + 1e-5
# Sizes of the samples that tell how much there will be to compare.
_TRIAL_SIZES = (5_000, 20_000)


class ClusterIndex:
    """Neighbour search by clusters, for the Euclidean distance.

    Parameters
    ----------
    X : ndarray of shape (N, d)
        Distinct points.

    Attributes
    ----------
    order : ndarray of int, shape (N,)
        The points cluster by cluster, so that neighbours have numbers that are close. The search gives numbers in
        this order.
    points : ndarray of shape (N, d)
        The points in this order.
    recall : float or None
        Share of the true neighbours that the search among the points themselves found, on a sample.
    """

    method = "clusters"

    def __init__(self, X: FloatArray) -> None:
        labels = _kmeans(X, max(1, min(_MOST_CLUSTERS, X.shape[0] // _POINTS_PER_CLUSTER)))
        sizes = np.bincount(labels)
        sizes = sizes[sizes > 0]
        self.order: IntArray = np.argsort(labels, kind="stable")
        self.points = arranged(X, self.order)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])
        starts = self._offsets[:-1]
        # Centres and squared radii of the clusters as they came out.
        self._centres = np.add.reduceat(self.points, starts, axis=0, dtype=np.float64) / sizes[:, None]
        radii = np.empty(X.shape[0])
        each(lambda a: self._radii(a, radii), range(len(sizes)))
        self._spread = np.add.reduceat(radii, starts) / sizes
        self._extent = np.sqrt(np.maximum.reduceat(radii, starts))
        self._reach = 0.0
        self.recall: float | None = None
        self._scratch = Scratch()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_scratch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _scratch=Scratch())

    def _radii(self, a: int, out: FloatArray) -> None:
        members = self._members(a)
        out[members] = np.square(self.points[members] - self._centres[a]).sum(axis=1)

    def _members(self, a: int) -> slice:
        return slice(int(self._offsets[a]), int(self._offsets[a + 1]))

    def neighbors(self, k: int, progress: Progress | None = None) -> tuple[IntArray, FloatArray]:
        """Nearest neighbours of all points among the others.

        Parameters
        ----------
        k : int
            At most N - 1.
        progress : callable, optional
            Told how many clusters of how many are done.

        Returns
        -------
        ids : ndarray of int32, shape (N, k)
            Numbers in `order`, nearest first.
        squared : ndarray of float64, shape (N, k)
        """
        n = self.points.shape[0]
        found = Found.nothing(n, k)
        chosen = sample(n, 2 * _CALIBRATION)
        exact = self._exact(chosen, k)
        first, second = exact.ids[::2, :k], exact.ids[1::2, :k]
        ratios = self._ratios(chosen[::2], first)
        done, covered = -1.0, _COVERED
        while True:
            self._reach = float(np.quantile(ratios, covered, method="higher"))
            self._compare(found, done, self._reach, progress)
            found.cut()
            limit = _SAME * exact.worst[: len(chosen)][1::2, None]
            self.recall = float((found.squared[chosen[1::2], :k] <= limit).mean())
            if self.recall >= _RECALL or covered >= 1.0:
                break
            # The sample misled: what it missed is looked for further out, and what was done stays.
            ratios = np.concatenate([ratios, self._ratios(chosen[1::2], second)])
            done, covered = self._reach, (1.0 + covered) / 2.0 if covered < 0.999 else 1.0
        self._complete(found, None)
        return self._measured(self.points, found)

    def query(self, Q: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
        """Nearest neighbours of other points, as `neighbors` gives them."""
        found = Found.nothing(Q.shape[0], k)
        for rows in chunks(Q.shape[0], len(self._centres)):
            D2 = squared_distances(Q[rows], self._centres)
            labels = D2.argmin(axis=1)
            order = np.argsort(labels, kind="stable")
            groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
            each(lambda g, D2=D2, start=rows.start: self._place(Q, start + g, D2[g], found), groups)
        self._complete(found, Q)
        return self._measured(Q, found)

    def pairs_within(self, limit: float) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """All pairs of points whose squared distance is at most `limit`, exactly, each once.

        Yields
        ------
        i, j : ndarrays of int
            Numbers in `order`, i before j.
        squared : ndarray of float64
        """

        def of_cluster(a: int) -> tuple[IntArray, IntArray, FloatArray]:
            apart = np.sqrt(np.square(self._centres[a:] - self._centres[a]).sum(axis=1))
            others = a + np.flatnonzero(apart <= _SAME * (np.sqrt(limit) + self._extent[a] + self._extent[a:]))
            members = self._members(a)
            found = []
            for start in range(members.start, members.stop, _TILE_ROWS):
                block = self.points[start : min(members.stop, start + _TILE_ROWS)]
                for tile in self._tiles(block, self._centres[a], others):
                    columns = tile.columns
                    D2 = tile.left[:, None] + tile.right[None, columns] - tile.products[:, columns]
                    slack = np.finfo(np.float32).eps * 8 * (tile.left[:, None] + tile.right[None, columns])
                    i, j = np.nonzero(D2 <= limit + slack)  # NaN, which fills up, is not
                    i, j = i + start, j + tile.number
                    i, j = i[i < j], j[i < j]
                    squared = np.concatenate(
                        [
                            np.square(self.points[i[some]].astype(np.float64) - self.points[j[some]]).sum(axis=1)
                            for some in chunks(len(i), self.points.shape[1])
                        ]
                        or [np.empty(0)]
                    )
                    found.append((i[squared <= limit], j[squared <= limit], squared[squared <= limit]))
            i, j, squared = (np.concatenate(part) for part in zip(*found, strict=True))
            return i, j, squared

        with workers() as share:
            yield from share(of_cluster, range(len(self._centres)))

    def _place(self, Q: FloatArray, rows: IntArray, D2: FloatArray, found: Found) -> None:
        """Offer queries of one cluster the points of all clusters in reach of the farthest of them."""
        a = int(D2[0].argmin())
        spread = max(float(D2[:, a].max()), float(self._spread[a]))
        ratio = _ratio(np.square(self._centres - self._centres[a]).sum(axis=1), spread + self._spread)
        others = np.flatnonzero((ratio <= self._reach) | (D2.min(axis=0) <= D2[:, a].max()))
        mine = Found.nothing(len(rows), found.k)
        for tile in self._tiles(Q[rows], self._centres[a], others):
            mine.offer(tile, 0, 0)
        found.put(rows, mine)

    def compared(self, k: int) -> float:
        """Share of all pairs of points that a search for k neighbours compares."""
        rows = sample(self.points.shape[0], _CALIBRATION)
        reach = float(np.quantile(self._ratios(rows, self._exact(rows, k).ids[:, :k]), _COVERED, method="higher"))
        sizes = np.diff(self._offsets).astype(np.float64)
        total = 0.0
        for a in range(len(sizes)):
            apart = np.square(self._centres - self._centres[a]).sum(axis=1)
            total += sizes[a] * sizes[_ratio(apart, self._spread + self._spread[a]) <= reach].sum()
        return float(total / sizes.sum() ** 2)

    def _ratios(self, rows: IntArray, ids: IntArray) -> FloatArray:
        """``|c_a - c_b|^2 / (r_a^2 + r_b^2)`` for the clusters of points and their neighbours, flat."""
        a = np.searchsorted(self._offsets, rows, side="right") - 1
        b = np.searchsorted(self._offsets, ids, side="right") - 1
        apart = np.square(self._centres[a][:, None, :] - self._centres[b]).sum(axis=2)
        return _ratio(apart, self._spread[a][:, None] + self._spread[b]).ravel()

    def _compare(self, found: Found, beyond: float, reach: float, progress: Progress | None) -> None:
        """Compare all pairs of clusters whose ratio is above `beyond` and at most `reach`."""
        n_clusters = len(self._centres)
        locks = [Lock() for _ in range(n_clusters)]
        if beyond < 0:  # each with itself first: the worst neighbours found there save work everywhere else
            each(lambda a: self._compare_cluster(a, np.array([a]), locks, found), range(n_clusters))
        done = [0]

        def with_others(a: int) -> None:
            apart = np.square(self._centres[a + 1 :] - self._centres[a]).sum(axis=1)
            ratio = _ratio(apart, self._spread[a + 1 :] + self._spread[a])
            others = np.flatnonzero((ratio > beyond) & (ratio <= reach))
            self._compare_cluster(a, a + 1 + others[np.argsort(ratio[others])], locks, found)
            done[0] += 1
            if progress is not None:
                progress(done[0], n_clusters)

        each(with_others, range(n_clusters))

    def _compare_cluster(self, a: int, others: IntArray, locks: list[Lock], found: Found) -> None:
        members = self._members(a)
        for start in range(members.start, members.stop, _TILE_ROWS):
            block = self.points[start : min(members.stop, start + _TILE_ROWS)]
            for tile in self._tiles(block, self._centres[a], others):
                b = tile.cluster
                if a == b:
                    with locks[a]:
                        found.offer(tile, start, 1)
                else:
                    with locks[min(a, b)], locks[max(a, b)]:
                        found.offer(tile, start, 2)

    def _tiles(self, block: FloatArray, centre: FloatArray, others: IntArray) -> Iterator[Tile]:
        """Distances from a block of points to the clusters `others`, several of them in one matrix product.

        Coordinates are taken from the centre of the block's cluster, in the precision of the points, before they are
        rounded to float32: what is near keeps its digits wherever it lies.
        """
        A = (block - centre).astype(np.float32)
        left, doubled = _squared_norms(A), A + A
        for group in self._groups(others):
            starts = np.cumsum([0, *(padded(piece.stop - piece.start) for _, piece in group)])
            B = np.zeros((starts[-1], A.shape[1]), dtype=np.float32)
            right = np.full(len(B), np.nan, dtype=np.float32)
            for start, (_, piece) in zip(starts, group, strict=False):
                part = slice(start, start + piece.stop - piece.start)
                B[part] = self.points[piece] - centre
                right[part] = _squared_norms(B[part])
            products = self._scratch.array("products", (len(A), len(B)), np.float32)
            np.matmul(doubled, B.T, out=products)
            for start, stop, (b, piece) in zip(starts, starts[1:], group, strict=False):
                yield Tile(products, left, right, slice(int(start), int(stop)), b, piece.start)

    def _groups(self, others: IntArray) -> Iterator[list[tuple[int, slice]]]:
        """Clusters, the large ones in pieces, gathered until they fill a tile."""
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

    def _complete(self, found: Found, Q: FloatArray | None) -> None:
        """Look everywhere for the neighbours of points to whom too few were offered."""
        found.cut()
        lacking = np.flatnonzero(found.count < found.k)
        for some in chunks(len(lacking), 1, 2 * _CALIBRATION):
            found.put(lacking[some], self._exact(lacking[some], found.k, Q))

    def _exact(self, rows: IntArray, k: int, Q: FloatArray | None = None) -> Found:
        """Exact neighbours of the points `rows`, or of the queries `rows` of `Q`."""
        block = self.points[rows] if Q is None else Q[rows]
        parts = [Found.nothing(len(rows), k) for _ in range(n_threads())]
        idle, zeros = list(parts), np.zeros(len(rows), dtype=np.float32)

        def look(columns: slice) -> None:
            found, width = idle.pop(), columns.stop - columns.start
            D2 = np.full((len(rows), padded(width)), np.nan)
            D2[:, :width] = squared_distances(block, self.points[columns])
            if Q is None:
                inside = np.flatnonzero((rows >= columns.start) & (rows < columns.stop))
                D2[inside, rows[inside] - columns.start] = np.nan
            right = np.zeros(D2.shape[1], dtype=np.float32)
            found.offer(Tile(-D2.astype(np.float32), zeros, right, slice(0, len(right)), 0, columns.start), 0, 0)
            idle.append(found)

        each(look, chunks(len(self.points), max(len(rows), 1), 1 << 18))
        for part in parts:
            part.cut()
        for part in parts[1:]:
            parts[0].merge(part)
        return parts[0]

    def _measured(self, Q: FloatArray, found: Found) -> tuple[IntArray, FloatArray]:
        """Numbers and exact squared distances of the neighbours found, nearest first."""
        from .compiled.search import measure  # noqa: PLC0415

        ids = np.ascontiguousarray(found.ids[:, : found.k])
        squared = np.empty(ids.shape)
        each(lambda rows: measure(Q, self.points, ids, rows.start, rows.stop, squared), chunks(len(ids), 1, 4096))
        return ids, squared


def compared_share(X: FloatArray) -> float:
    """Share of all pairs that the search among the points will compare, from samples of two sizes."""
    shares = []
    for size in _TRIAL_SIZES:
        if X.shape[0] > size:
            index = ClusterIndex(np.asarray(X[sample(X.shape[0], size)]))
            shares.append(index.compared(32))
    if len(shares) < len(_TRIAL_SIZES):
        return 1.0 if not shares else shares[-1]
    # The share falls with a power of the number of points, which the two samples tell.
    slope = np.log(shares[1] / shares[0]) / np.log(_TRIAL_SIZES[1] / _TRIAL_SIZES[0])
    return float(min(1.0, shares[1] * (X.shape[0] / _TRIAL_SIZES[1]) ** min(slope, 0.0)))


def _ratio(apart: FloatArray, spread: FloatArray) -> FloatArray:
    """Squared distances of centres by the clusters' sizes; infinite between clusters of a single point each."""
    ratio: FloatArray = np.divide(apart, spread, out=np.full(np.shape(apart), np.inf), where=spread > 0)
    ratio[apart == 0] = 0.0
    return ratio


def _squared_norms(A: FloatArray) -> FloatArray:
    norms: FloatArray = np.einsum("ij,ij->i", A, A)
    return norms


def _kmeans(X: FloatArray, n_clusters: int) -> IntArray:
    """Labels of the points by Lloyd's iteration on a sample, shape (N,)."""
    n = X.shape[0]
    centre, unit = X.mean(axis=0), magnitude(X)

    def normal(rows: Any) -> FloatArray:
        return np.asarray((X[rows] - centre) / unit, dtype=np.float32)

    centres = normal(sample(n, n_clusters))
    some = normal(sample(n, _SAMPLE_PER_CLUSTER * n_clusters))
    for _ in range(_LLOYD_STEPS):
        labels = _nearest(lambda rows: some[rows], len(some), centres)
        order = np.argsort(labels, kind="stable")
        taken, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        centres[taken] = np.add.reduceat(some[order], starts, axis=0) / sizes[:, None]
    return _nearest(normal, n, centres)


def _nearest(points: Callable[[slice], FloatArray], n: int, centres: FloatArray) -> IntArray:
    """Number of the nearest centre of each of n points, shape (n,)."""
    labels = np.empty(n, dtype=np.int64)
    half = 0.5 * _squared_norms(centres)

    def assign(rows: slice) -> None:
        labels[rows] = (points(rows) @ centres.T - half).argmax(axis=1)

    each(assign, chunks(n, len(centres), 1 << 19))
    return labels
