"""The kernel of neighbours of points that lie in bands on workers, and its rows at new points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.extras import optional
from ..._utils.progress import track
from ..._utils.typing import FloatArray, IntArray
from ...kernel.bandwidth import NEIGHBOR, SAMPLE, SELF_TUNING_NEIGHBOR, median_scale
from ...linalg.metrics import Metric, squared_distances
from ...linalg.sketch import sample
from ...neighbors.neighborhoods import EDGE, looked_at
from .affinity import BandedAffinity
from .array import DistributedArray
from .graph import HaloOperator, banded_graph
from .layout import Layout, divided
from .neighbors import BandedNeighborhoods, Widest
from .placement import placed_by_locality
from .shards import Lists, Vertices, band_of, position_in, taken
from .tasks import Parts, Plan, gathered, n_workers, pick, settled

__all__ = ["BandedNeighborAffinity", "banded_neighbor_affinity"]

# New points of a task, entries of their lists, and such tasks for each worker that are planned at a time.
_QUERIES, _LISTED, _ROUNDS = 4096, 1 << 20, 4


def banded_neighbor_affinity(
    X: Any,
    n_neighbors: int,
    metric: Metric,
    *,
    bandwidth: float | str = "auto",
    bandwidth_neighbor: int | None = None,
    scale_neighbor: int = SELF_TUNING_NEIGHBOR,
    zero_diagonal: bool = False,
    dtype: Any = None,
) -> tuple[BandedNeighborAffinity, str]:
    """The kernel of neighbours of points on a cluster, and the rule by which its bandwidth was chosen.

    Parameters
    ----------
    X : Dask array of shape (N, d)
        In any chunks of known sizes; its entries are finite.
    n_neighbors : int
    metric : Metric
    bandwidth : float or {"auto", "neighbor", "self-tuning"}
        Rules that look at the distribution of distances are left to the caller, who gives a number.
    bandwidth_neighbor : int, optional
        The neighbour of the rule "neighbor".
    scale_neighbor : int
        The neighbour of the rule "self-tuning".
    zero_diagonal : bool
    dtype : dtype of the kernel, by default that of X

    Returns
    -------
    affinity : BandedNeighborAffinity
    rule : {"given", "neighbor", "self-tuning"}
    """
    rule = bandwidth if isinstance(bandwidth, str) else "given"
    rule = "neighbor" if rule == "auto" else rule
    at_scale = bandwidth_neighbor or NEIGHBOR
    needed = {"self-tuning": scale_neighbor, "neighbor": at_scale, "given": 0}[rule]
    layout, points = placed_by_locality(X)
    neighborhoods = BandedNeighborhoods(points, layout, n_neighbors, metric, at_least=needed)
    epsilon: float | str = bandwidth
    if rule == "neighbor":
        epsilon = _median_scale(neighborhoods, layout, at_scale)
    affinity = BandedNeighborAffinity(
        points,
        epsilon,
        neighborhoods,
        layout,
        metric=metric,
        scale_neighbor=scale_neighbor,
        zero_diagonal=zero_diagonal,
        dtype=X.dtype if dtype is None else dtype,
    )
    return affinity, rule


def _median_scale(neighborhoods: BandedNeighborhoods, layout: Layout, k: int) -> float:
    """The bandwidth by the rule "neighbor", of the sample of rows that is taken on one machine."""
    scales = neighborhoods.at_points(neighborhoods.scales(k))
    epsilon = median_scale(pick(scales, layout.positions(sample(layout.n_samples, SAMPLE))))
    if epsilon == 0:
        raise ValueError(
            f"more than half of the points coincide with {k} or more others, so the rule 'neighbor' gives no "
            "bandwidth; give a number, or leave repeated points out."
        )
    return epsilon


class BandedNeighborAffinity(BandedAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` for pairs of neighbours, 0 for others, of points in bands.

    Parameters
    ----------
    X : Dask array of shape (N, d), in the bands of `layout`
    epsilon : float or "self-tuning"
    neighborhoods : BandedNeighborhoods
        Of X; their lists are given up.
    layout : Layout
    **options
        metric, scale_neighbor, zero_diagonal and dtype, as for :class:`heatsketch.kernel.affinity.GaussianAffinity`.
    """

    def __init__(
        self, X: Any, epsilon: float | str, neighborhoods: BandedNeighborhoods, layout: Layout, **options: Any
    ) -> None:
        super().__init__(DistributedArray(X, layout), 0.0, **options)
        self.neighborhoods, self.layout, self.recall = neighborhoods, layout, neighborhoods.recall
        self.n_neighbors, self.definite = neighborhoods.n_neighbors, False
        if isinstance(epsilon, str):
            local = neighborhoods.scales(self.scale_neighbor)
            self._refuse_coincident(local)
            self.epsilon = DistributedArray(neighborhoods.at_points(local), layout)
        else:
            local, self.epsilon = None, epsilon
        self._notes = self._noted(local)
        graph = banded_graph(neighborhoods, layout)
        neighborhoods.forget()
        self._operator = graph.weighed(self._scales(), zero_diagonal=self.zero_diagonal, dtype=self.dtype)
        self.row_entries = 8 * looked_at(neighborhoods.n_vertices, neighborhoods.n_neighbors, 0)
        share = 100 * self._operator.halo_rows / self.n_samples
        self.description = (
            f"{self.n_neighbors} neighbours ({neighborhoods.method}, recall {self.recall:.3f}) in "
            f"{len(layout.sizes)} chunks of rows, halo {share:.1f}% of the rows"
        )

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @property
    def operator(self) -> HaloOperator:
        """``K``, sparse, in bands."""
        return self._operator

    def _refuse_coincident(self, local: Parts) -> None:
        plan = Plan(local)
        for b, values in enumerate(plan.keys(local)):
            plan.add("count-zeros", b, _count_zeros, values)
        zeros = sum(gathered(plan.parts("count-zeros", range(len(local)))))
        if zeros:
            raise ValueError(
                f"{zeros} points have no neighbour at a positive distance among those looked at, so they have no local "
                "scale; use another bandwidth rule, or leave repeated points out."
            )

    def _noted(self, local: Parts | None) -> Parts:
        """What new points must know of the vertices: multiplicity, squared radius and scale, parts of (U_b, 3)."""
        radii, vertices = self.neighborhoods.radii, self.neighborhoods.vertices
        plan = Plan(radii, vertices, local or [])
        scales = [float(self.epsilon)] * len(radii) if local is None else plan.keys(local)
        for b, (radius, rows) in enumerate(zip(plan.keys(radii), plan.keys(vertices), strict=True)):
            plan.add("vertex-notes", b, _notes, rows, radius, scales[b])
        return list(settled(plan.parts("vertex-notes", range(len(radii)))))

    def _scales(self) -> Parts:
        plan = Plan(self._notes)
        for b, notes in enumerate(plan.keys(self._notes)):
            plan.add("scales", b, _scale_of, notes)
        return plan.parts("scales", range(len(self._notes)))

    @cached_property
    def _widest(self) -> Parts:
        return self.neighborhoods.widest(self._notes)

    def row_products(self, X: Any, V: Any) -> tuple[Any, Any]:
        """Kernel rows of new points times columns; each row in units of its largest entry.

        Parameters
        ----------
        X : Dask array of shape (m, d), in chunks of rows
        V : Dask array of shape (N, c), in bands

        Returns
        -------
        products : Dask array of float64, shape (m, c), in the chunks of X
        log_scale : Dask array of float64, shape (m,)
            The kernel is ``exp(log_scale)`` times the rows that were multiplied.
        """
        given, hoods = X.chunks[0], self.neighborhoods
        length = looked_at(hoods.n_vertices, hoods.n_neighbors, self.scale_neighbor)
        X = X.rechunk({0: divided(given, max(1, min(_QUERIES, _LISTED // length))), 1: -1})
        V = V.rechunk({0: self.layout.sizes, 1: -1})
        # Some at a time: the lists of their neighbours are larger than what comes of them.
        step = _ROUNDS * n_workers()
        pieces = [X.blocks[at : at + step] for at in range(0, len(X.chunks[0]), step)]
        found = [self._some_products(some, V, length) for some in track(pieces, "placing new points", len(pieces))]
        dask = optional("dask.array", "compute on a cluster", "dask")
        products, log_scale = (
            dask.concatenate(parts, axis=0).rechunk({0: given}) for parts in zip(*found, strict=True)
        )
        self._latest = None, None
        return products, log_scale

    def _some_products(self, X: Any, V: Any, length: int) -> tuple[Any, Any]:
        """`row_products` of some of the new points, looking at so many vertices."""
        hoods, chunks = self.neighborhoods, range(len(X.chunks[0]))
        lists = hoods.query(X, self._notes, self.scale_neighbor)
        plan = Plan(X, lists, self._widest)
        neighbor = self.scale_neighbor if np.ndim(self.epsilon) else None
        rule = _Rule(hoods.n_neighbors, neighbor, self.metric, self.zero_diagonal)
        wide = plan.keys(self._widest)[0] if length < hoods.n_vertices else None
        for s, (known, points) in enumerate(zip(plan.keys(lists), plan.keys(X), strict=True)):
            made = plan.add("new-rows", s, _NewRows.of, known, points, wide, rule, len(self.layout.sizes))
            plan.add("log-scale", s, _log_scale, made)
            plan.add("count-needed", s, _count_needed, made)
        rows, log_scale, counts = settled(
            plan.parts("new-rows", chunks),
            plan.array("log-scale", X.chunks[0], None, np.float64),
            plan.parts("count-needed", chunks),
        )
        table = np.array(gathered(counts)).reshape(len(chunks), 2, -1)
        products = settled(self._multiplied(rows, V, table, X.chunks[0]), name="placing new points")
        return products, log_scale

    def _multiply_once(self, V: Any) -> Any:
        """``K V``, remembered for the next of the new points."""
        if getattr(self, "_latest", (None, None))[0] != V.name:
            self._latest = V.name, self._operator.multiply(V.astype(self.dtype))
        return self._latest[1]

    def _multiplied(self, rows: Parts, V: Any, table: IntArray, sizes: tuple[int, ...]) -> Any:
        """Products of new rows, for which only the rows of `V` travel that they meet; `table` says where there are."""
        vertices = self.neighborhoods.vertices
        # A new point that is a training point has the row of that point, and its product.
        twins = self._multiply_once(V) if table[:, 1].any() else V
        plan = Plan(rows, vertices, V, twins)
        keys = plan.keys(vertices), plan.keys(V), plan.keys(twins)
        for s, made in enumerate(plan.keys(rows)):
            fetched: list[list[Any]] = [[], []]
            kinds = (("fetch", _fetch, keys[1]), ("twins", _fetch_twins, keys[2]))
            for kind, (label, fetch, values) in enumerate(kinds):
                for b in np.flatnonzero(table[s, kind]).tolist():
                    wanted = plan.add(f"wanted-{label}", (s, b), _wanted, made, kind, b)
                    fetched[kind].append(plan.add(label, (s, b), fetch, keys[0][b], values[b], wanted))
            plan.add("new-products", (s, 0), _NewRows.product, made, *fetched, V.shape[1])
        return plan.array("new-products", sizes, V.shape[1], np.float64)


@dataclass(frozen=True)
class _Rule:
    """What decides on the rows of new points: neighbours kept, the neighbour that is the scale, metric, diagonal."""

    n_neighbors: int
    scale_neighbor: int | None
    metric: Metric
    zero_diagonal: bool


@dataclass(frozen=True)
class _NewRows:
    """Kernel rows of some new points.

    Attributes
    ----------
    matrix : csr_array of shape (m, n_needed)
    log_scale : ndarray of shape (m,)
    needed : list of two lists of ndarrays of int
        For each band, positions of the vertices that are columns, and of the vertices that new points coincide with.
    twins : ndarray of int
        The new points that coincide with a vertex, in the order of these vertices' bands.
    """

    matrix: Any
    log_scale: FloatArray
    needed: list[list[IntArray]]
    twins: IntArray

    @classmethod
    def of(cls, lists: Lists, points: FloatArray, wide: Widest | None, rule: _Rule, n_bands: int) -> _NewRows:
        """The rows of new points by the lists of their nearest vertices, and the vertices with the widest radii."""
        row, ids, squared, scale = _pairs(lists, points, wide, rule)
        m = len(points)
        twin = np.where(lists.squared[:, 0] == 0, lists.ids[:, 0], -1)
        here = scale if rule.scale_neighbor is None else (lists.kth(rule.scale_neighbor) ** -0.5)[row]
        exponent = squared * here * scale
        if rule.zero_diagonal:
            exponent[squared == 0] = np.inf
        lowest = np.full(m, np.inf)
        np.minimum.at(lowest, row, exponent)
        lowest = np.where(np.isfinite(lowest) & (twin < 0), lowest, 0.0)
        other = twin[row] < 0
        row, ids, values = row[other], ids[other], np.exp(lowest[row] - exponent)[other]
        columns, places = np.unique(ids, return_inverse=True)
        matrix = sparse.csr_array((values, (row, places.ravel())), shape=(m, len(columns)))
        twins = np.flatnonzero(twin >= 0)
        twins = twins[np.argsort(twin[twins], kind="stable")]
        needed = [_by_band(columns, n_bands), _by_band(twin[twins], n_bands)]
        return cls(matrix, -lowest, needed, twins)

    def product(self, fetched: list[FloatArray], twins: list[FloatArray], n_columns: int) -> FloatArray:
        """The rows times columns, (m, c)."""
        out = np.zeros((self.matrix.shape[0], n_columns))
        if fetched:
            out += self.matrix @ np.concatenate(fetched)
        if twins:
            out[self.twins] = np.concatenate(twins)
        return out


def _pairs(
    lists: Lists, points: FloatArray, wide: Widest | None, rule: _Rule
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """The pairs that new points keep: their rows, the vertices, squared distances and the scales of the vertices."""
    radii = lists.kth(rule.n_neighbors)
    keep = lists.squared <= EDGE * np.maximum(radii[:, None], lists.notes[:, :, 1])
    parts = [(np.nonzero(keep)[0], lists.ids[keep], lists.squared[keep], lists.notes[keep][:, 2])]
    if wide is not None:
        ids, others, notes = wide
        D2 = squared_distances(points, others, rule.metric)
        # Those that have been found already are told by their numbers: distances may be rounded differently.
        place = np.minimum(np.searchsorted(ids, lists.ids), len(ids) - 1)
        row, rank = np.nonzero(ids[place] == lists.ids)
        D2[row, place[row, rank]] = np.inf
        row, column = np.nonzero(D2 <= EDGE * notes[:, 1])
        parts.append((row, ids[column], D2[row, column], notes[column, 2]))
    row, ids, squared, scale = (np.concatenate(part) for part in zip(*parts, strict=True))
    return row, ids, squared, scale


def _by_band(ids: IntArray, n_bands: int) -> list[IntArray]:
    """Positions of vertices whose numbers increase, by band."""
    return np.split(position_in(ids), np.searchsorted(band_of(ids), np.arange(1, n_bands)))


def _count_zeros(values: FloatArray) -> int:
    return int(np.count_nonzero(values == 0))


def _notes(vertices: Vertices, radii: FloatArray, epsilon: Any) -> FloatArray:
    counts = vertices.counts
    ones = np.ones(len(radii))
    return np.column_stack([ones if counts is None else counts, radii, ones * np.power(epsilon, -0.5)])


def _scale_of(notes: FloatArray) -> FloatArray:
    return np.ascontiguousarray(notes[:, 2])


def _log_scale(rows: _NewRows) -> FloatArray:
    return rows.log_scale


def _count_needed(rows: _NewRows) -> IntArray:
    return np.array([[len(positions) for positions in kind] for kind in rows.needed])


def _wanted(rows: _NewRows, kind: int, band: int) -> IntArray:
    return rows.needed[kind][band]


def _fetch(vertices: Vertices, V: FloatArray, positions: IntArray) -> FloatArray:
    return taken(vertices.taker(positions), V)


def _fetch_twins(vertices: Vertices, V: FloatArray, positions: IntArray) -> FloatArray:
    return V[vertices.first[positions]]
