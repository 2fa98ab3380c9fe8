"""The neighbour graph in bands: the rows of a band's vertices, and of other bands only the vertices that they meet.

The columns of a band's block are its own vertices and then its halo, the vertices of other bands that are neighbours of
its own. The graph is symmetric: a vertex is in the halo of a band exactly if it has a neighbour there, so each band
knows by itself what others need of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray, IntArray
from .layout import Layout
from .neighbors import BandedNeighborhoods
from .operator import BandedOperator
from .shards import Lists, Vertices, band_of, numbered, position_in, taken
from .tasks import Parts, Plan, gathered, settled

__all__ = ["GraphBlock", "HaloOperator", "Links", "banded_graph"]

# By the number of another band, the positions of the vertices that it needs, and what takes them from rows.
Links = dict[int, tuple[IntArray, Any]]


@dataclass(frozen=True)
class Edges:
    """Pairs that the vertices of a band keep: positions here, positions there, squared distances."""

    here: IntArray
    there: IntArray
    squared: FloatArray


@dataclass(frozen=True)
class GraphBlock:
    """The rows of a band's vertices, in compressed form.

    Attributes
    ----------
    vertices : Vertices
    indptr, columns : ndarrays of int32
        Columns from U on are the halo.
    values : ndarray of shape (indptr[-1],)
        Squared distances, or what they are weighed to.
    halo : ndarray of int64, shape (H,)
        Numbers of the vertices of other bands that are met, increasing.
    """

    vertices: Vertices
    indptr: IntArray
    columns: IntArray
    values: FloatArray
    halo: IntArray

    def product(self, V: FloatArray, halo: list[FloatArray]) -> FloatArray:
        """The block times the rows of a band, (n, k), and those of its halo, sums over what coincides, band by band."""
        from ...compiled.products import sparse_product  # noqa: PLC0415

        U = len(self.vertices.first)
        columns = np.empty((U + len(self.halo), V.shape[1]), dtype=V.dtype)
        columns[:U] = taken(self.vertices.taker(), V)
        if halo:
            np.concatenate(halo, out=columns[U:])
        out = np.empty((U, V.shape[1]), dtype=V.dtype)
        sparse_product(self.indptr, self.columns, self.values, columns, out, None, 0, U)
        return out[self.vertices.place]

    def weighed(self, scale: FloatArray, halo: list[FloatArray], zero_diagonal: bool, dtype: str) -> GraphBlock:
        """Gaussian weights ``exp(-squared_ij scale_i scale_j)`` in place of squared distances."""
        from ...compiled.search import gaussian_entries  # noqa: PLC0415

        data = np.empty(len(self.columns), dtype=dtype)
        scales = np.concatenate([scale, *halo])
        gaussian_entries(self.indptr, self.columns, self.values, scales, data, 0, len(self.indptr) - 1)
        if zero_diagonal:
            data[self.values == 0] = 0.0
        return replace(self, values=data)


class HaloOperator(BandedOperator):
    """Products with a sparse matrix in bands; of other bands only the rows that are needed are moved.

    Parameters
    ----------
    blocks : parts of GraphBlock
    links : parts of Links
    needed : ndarray of int, shape (B, B)
        How many vertices of the second band the first one needs.
    layout : Layout
    nnz : int
        Entries of the matrix between vertices.
    dtype : dtype

    Attributes
    ----------
    halo_rows : int
        Rows that a product moves from one band to another.
    """

    def __init__(
        self, blocks: Parts, links: Parts, needed: IntArray, layout: Layout, *, nnz: int, dtype: Any = np.float64
    ) -> None:
        self._blocks, self._links, self._needed, self.layout = blocks, links, needed, layout
        self.shape, self.dtype = (layout.n_samples, layout.n_samples), np.dtype(dtype)
        self.halo_rows, self.nnz = int(needed.sum()), nnz

    @property
    def n_tasks(self) -> int:
        """Tasks of a product: one for each band, and one for each pair of bands that have neighbours in common."""
        return int(len(self.layout.sizes) + np.count_nonzero(self._needed))

    def bytes_moved(self, n_columns: int = 1) -> int:
        """Bytes that a product with so many columns moves from one band to another."""
        return self.halo_rows * n_columns * self.dtype.itemsize

    def _halo(self, plan: Plan, values: Any, a: int, take: Callable[..., FloatArray]) -> list[Any]:
        """Keys of what band a needs of others, in the order of its halo, taken where it lies."""
        links, values = plan.keys(self._links), plan.keys(values)
        others = np.flatnonzero(self._needed[a]).tolist()
        return [plan.add("halo", (b, a), take, links[b], values[b], a) for b in others]

    def multiply(self, V: Any) -> Any:
        """K V, computed and held on the workers, (N, k)."""
        plan = Plan(V, self._blocks, self._links)
        for a, (block, rows) in enumerate(zip(plan.keys(self._blocks), plan.keys(V), strict=True)):
            plan.add("graph-product", (a, 0), GraphBlock.product, block, rows, self._halo(plan, V, a, _linked_rows))
        product = plan.array("graph-product", self.layout.sizes, V.shape[1], self.dtype)
        return settled(product, name="multiplying by the graph")

    def weighed(self, scales: Parts, *, zero_diagonal: bool, dtype: Any) -> HaloOperator:
        """The Gaussian kernel of a graph of squared distances; `scales` are those of the vertices, parts of (U_b,)."""
        plan, bands, dtype = Plan(scales, self._blocks, self._links), range(len(self._blocks)), np.dtype(dtype)
        for a, (block, scale) in enumerate(zip(plan.keys(self._blocks), plan.keys(scales), strict=True)):
            halo = self._halo(plan, scales, a, _linked_values)
            plan.add("kernel", a, GraphBlock.weighed, block, scale, halo, zero_diagonal, dtype.str)
        blocks = settled(plan.parts("kernel", bands), name="weighing the graph")
        return HaloOperator(blocks, self._links, self._needed, self.layout, nnz=self.nnz, dtype=dtype)


def banded_graph(neighborhoods: BandedNeighborhoods, layout: Layout) -> HaloOperator:
    """The squared distances of all pairs that are kept, those of vertices to themselves among them.

    A pair is kept if it is within the larger of the two radii: what one end keeps it sends to the other.
    """
    bands = range(len(layout.sizes))
    plan = Plan(neighborhoods.lists, neighborhoods.radii)
    keys = zip(plan.keys(neighborhoods.lists), plan.keys(neighborhoods.radii), strict=True)
    for a, (lists, radii) in enumerate(keys):
        kept = plan.add("edges", a, _kept_edges, lists, radii, len(bands))
        plan.add("count-edges", a, _count_edges, kept)
    edges, counts = settled(plan.parts("edges", bands), plan.parts("count-edges", bands), name="making the graph")
    table = np.array(gathered(counts))
    plan = Plan(edges, neighborhoods.vertices)
    keys = zip(plan.keys(edges), plan.keys(neighborhoods.vertices), strict=True)
    for a, (own, vertices) in enumerate(keys):
        senders = [b for b in np.flatnonzero(table[:, a]).tolist() if b != a]
        sent = [plan.add("send-edges", (b, a), _edges_to, plan.keys(edges)[b], a) for b in senders]
        made = plan.add("rows-of-graph", a, _block, own, vertices, a, senders, sent)
        plan.add("graph", a, getitem, made, 0)
        plan.add("links", a, getitem, made, 1)
        plan.add("count-halo", a, _count_halo, made, len(bands))
    labels = ("graph", "links", "count-halo")
    blocks, links, counts = settled(*(plan.parts(label, bands) for label in labels), name="making the graph")
    found = np.array(gathered(counts))
    return HaloOperator(blocks, links, found[:, 1:], layout, nnz=int(found[:, 0].sum()))


def _kept_edges(lists: Lists, radii: FloatArray, n_bands: int) -> list[Edges]:
    """What the vertices of a band keep, by the band of the other end."""
    keep = np.arange(lists.ids.shape[1]) < lists.kept(radii)[:, None]
    here, ids, squared = np.nonzero(keep)[0], lists.ids[keep], lists.squared[keep]
    bands = band_of(ids)
    order = np.argsort(bands, kind="stable")
    ends = np.searchsorted(bands[order], np.arange(n_bands + 1))
    return [
        Edges(here[some].astype(np.int32), position_in(ids[some]).astype(np.int32), squared[some])
        for some in (order[first:last] for first, last in pairwise(ends))
    ]


def _count_edges(edges: list[Edges]) -> IntArray:
    return np.array([len(some.here) for some in edges])


def _edges_to(edges: list[Edges], band: int) -> Edges:
    return edges[band]


def _block(
    own: list[Edges], vertices: Vertices, band: int, senders: list[int], sent: list[Edges]
) -> tuple[GraphBlock, Links]:
    """The rows of a band: what its vertices keep, and what keeps them; and what others need of it."""
    U = len(vertices.first)
    every = np.arange(U)
    inside = own[band]
    pairs: list[tuple[Any, ...]] = [(every, numbered(band, every), np.zeros(U))]
    # What a vertex keeps itself comes first: of two that are equal the first stays.
    pairs += [(some.here, numbered(b, some.there), some.squared) for b, some in enumerate(own)]
    pairs.append((inside.there, numbered(band, inside.here), inside.squared))
    pairs += [(some.there, numbered(b, some.here), some.squared) for b, some in zip(senders, sent, strict=True)]
    rows, ids, squared = (np.concatenate(part) for part in zip(*pairs, strict=True))
    foreign = band_of(ids) != band
    halo, columns = np.unique(ids[foreign]), position_in(ids)
    columns[foreign] = U + np.searchsorted(halo, ids[foreign])
    keys = rows.astype(np.int64) * (U + len(halo)) + columns
    keys, first = np.unique(keys, return_index=True)
    rows, columns = np.divmod(keys, U + len(halo))
    indptr = np.searchsorted(rows, np.arange(U + 1))
    kind = np.int32 if len(keys) <= np.iinfo(np.int32).max else np.int64
    block = GraphBlock(vertices, indptr.astype(kind), columns.astype(np.int32), squared[first], halo)
    met = columns >= U
    others, rows = band_of(halo)[columns[met] - U], rows[met]
    needed = {int(b): np.unique(rows[others == b]) for b in np.unique(others)}
    return block, {b: (positions, vertices.taker(positions)) for b, positions in needed.items()}


def _count_halo(made: tuple[GraphBlock, Links], n_bands: int) -> IntArray:
    """Entries of a block, and how many vertices of each band it needs, shape (1 + B,)."""
    counts = np.bincount(band_of(made[0].halo), minlength=n_bands)
    return np.concatenate([[len(made[0].columns)], counts])


def _linked_rows(links: Links, V: FloatArray, band: int) -> FloatArray:
    return taken(links[band][1], V)


def _linked_values(links: Links, values: FloatArray, band: int) -> FloatArray:
    return values[links[band][0]]
