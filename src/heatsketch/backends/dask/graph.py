"""The kernel of the neighbour graph in row chunks; a product moves only the rows that other chunks need.

The columns of a block are the vertices of its own chunk, and then its halo: their neighbours in other chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...neighbors.neighborhoods import within
from .neighbors import ChunkedLists, ChunkedNeighborhoods, Lists
from .operator import ChunkedOperator
from .tasks import Plan, gathered, persisted

__all__ = ["GraphBlock", "GraphOperator"]

# Edges of the vertices of a chunk: positions in the chunk, numbers of the neighbours, and squared distances.
Edges = tuple[IntArray, IntArray, FloatArray]


@dataclass(frozen=True)
class GraphBlock:
    """Kernel rows of the vertices of a chunk, in compressed form."""

    indptr: IntArray
    columns: IntArray  # from U on, the halo
    values: FloatArray
    halo: IntArray  # numbers of the vertices in other chunks, increasing
    sent: dict[int, IntArray]  # by the number of another chunk, positions of the vertices here that are in its halo
    counts: IntArray | None  # rows of each vertex; None without duplicates

    def weighed(self, scale: FloatArray, bounds: tuple[int, int], zero_diagonal: bool, dtype: str) -> GraphBlock:
        """Gaussian weights in place of squared distances; `bounds` are the numbers of the vertices of the chunk."""
        from ...compiled.search import gaussian_entries  # noqa: PLC0415

        data, U = np.empty(len(self.columns), dtype=dtype), len(self.indptr) - 1
        scales = np.concatenate([scale[slice(*bounds)], scale[self.halo]])
        gaussian_entries(self.indptr, self.columns, self.values, scales, data, 0, U)
        if zero_diagonal:
            data[self.values == 0] = 0.0
        return replace(self, values=data)

    def folded(self, V: FloatArray) -> FloatArray:
        """Sums over the rows of each vertex, (m, k) -> (U, k)."""
        return V if self.counts is None else np.add.reduceat(V, np.cumsum(self.counts) - self.counts, axis=0)

    def vertex_columns(self, several: list[FloatArray]) -> FloatArray:
        """Folded columns, and with a second block, its rows at the vertices beside them, (U, k)."""
        if len(several) == 1:
            return self.folded(several[0])
        V, W = several
        first = slice(None) if self.counts is None else np.cumsum(self.counts) - self.counts
        return np.concatenate([self.folded(V), W[first]], axis=1)

    def product(self, V: FloatArray, halo: list[FloatArray]) -> FloatArray:
        """The block times the folded rows of its chunk, (U, k), and of its halo; rows of the chunk, (m, k)."""
        from ...compiled.products import sparse_product  # noqa: PLC0415

        columns = np.concatenate([V, *halo])
        out = np.empty_like(V)
        sparse_product(self.indptr, self.columns, self.values, columns, out, 0, len(V))
        return out if self.counts is None else np.repeat(out, self.counts, axis=0)

    def halo_of(self, chunk: int, V: FloatArray) -> FloatArray:
        """The folded rows, (U, k), that are in the halo of another chunk."""
        return np.take(V, self.sent[chunk], axis=0)


class GraphOperator(ChunkedOperator):
    """Products with the kernel ``exp(-squared distance * scale_i * scale_j)`` of the U vertices of a neighbour graph.

    Attributes
    ----------
    blocks : parts of GraphBlock
    halo_rows : int
        Rows that a product moves between chunks.
    """

    def __init__(
        self,
        neighborhoods: ChunkedNeighborhoods,
        lists: ChunkedLists,
        scale: FloatArray,
        *,
        zero_diagonal: bool,
        dtype: Any,
    ) -> None:
        self.layout, self.dtype = neighborhoods.layout, np.dtype(dtype)
        self.shape = (self.layout.n_samples, self.layout.n_samples)
        self._folded = neighborhoods.multiplicity is not None
        starts, chunks = neighborhoods.starts, range(len(self.layout.sizes))
        plan = Plan(lists.parts)
        for a, key in enumerate(plan.keys(lists.parts)):
            kept = plan.add("edges", a, _kept_edges, key, lists.radii[starts[a] : starts[a + 1]])
            plan.add("count-edges", a, _count, kept, starts)
        edges, counts = persisted(
            *(plan.parts(label, chunks) for label in ("edges", "count-edges")), name="making the graph"
        )
        table = np.array(gathered(counts))
        plan = Plan(edges)
        scales = plan.share(scale)
        for a, own in enumerate(plan.keys(edges)):
            bounds = int(starts[a]), int(starts[a + 1])
            senders = np.flatnonzero(table[:, a]).tolist()
            keys = plan.keys(edges)
            sent = [plan.add("send-edges", (b, a), _mirrored, keys[b], int(starts[b]), bounds) for b in senders]
            made = plan.add("squared-distances", a, _block, own, sent, a, starts, neighborhoods.counts[a])
            block = plan.add("graph", a, GraphBlock.weighed, made, scales, bounds, zero_diagonal, self.dtype.str)
            plan.add("count-halo", a, _count_halo, block, starts)
        self.blocks, counts = persisted(
            *(plan.parts(label, chunks) for label in ("graph", "count-halo")), name="making the graph"
        )
        needed = np.array(gathered(counts))  # [B, B]: how many rows chunk a needs of chunk b
        self.halo_rows = int(needed.sum())
        self._pairs = np.argwhere(needed).tolist()

    def multiply(self, V: Any) -> Any:
        """K V, (N, k)."""
        plan = Plan(V, self.blocks)
        blocks, rows = plan.keys(self.blocks), plan.keys(V)
        if self._folded:
            rows = [plan.add("fold", b, GraphBlock.folded, blocks[b], key) for b, key in enumerate(rows)]
        halos: list[list[Any]] = [[] for _ in blocks]
        for a, b in self._pairs:
            halos[a].append(plan.add("halo", (a, b), GraphBlock.halo_of, blocks[b], a, rows[b]))
        for a, (block, own, halo) in enumerate(zip(blocks, rows, halos, strict=True)):
            plan.add("graph-product", (a, 0), GraphBlock.product, block, own, halo)
        product = plan.array("graph-product", self.layout.sizes, V.shape[1], self.dtype)
        return persisted(product, name="multiplying by the graph")


def _kept_edges(lists: Lists, radii: FloatArray) -> Edges:
    """Edges to the listed neighbours within the radius, by the number of the neighbour."""
    ids, squared = lists
    keep = np.arange(ids.shape[1]) < within(squared, radii)[:, None]
    here, ids, squared = np.nonzero(keep)[0], ids[keep], squared[keep]
    order = np.argsort(ids, kind="stable")
    return here[order], ids[order], squared[order]


def _count(edges: Edges, starts: IntArray) -> IntArray:
    """Edges to each chunk, (B,)."""
    return np.diff(np.searchsorted(edges[1], starts))


def _mirrored(edges: Edges, start: int, bounds: tuple[int, int]) -> Edges:
    """Edges to the vertices of another chunk, as edges of those; `start` is the number of the first vertex here."""
    here, ids, squared = edges
    some = slice(*np.searchsorted(ids, bounds))
    return ids[some] - bounds[0], start + here[some], squared[some]


def _block(own: Edges, sent: list[Edges], chunk: int, starts: IntArray, counts: IntArray | None) -> GraphBlock:
    """Squared distances of a chunk: the diagonal, the edges of its vertices, and the edges of others to them."""
    start, stop = starts[chunk], starts[chunk + 1]
    U, every = stop - start, np.arange(stop - start)
    # Of an edge that both ends keep, the first stays.
    pairs = [(every, start + every, np.zeros(U)), own, *sent]
    rows, ids, squared = (np.concatenate(part) for part in zip(*pairs, strict=True))
    foreign = (ids < start) | (ids >= stop)
    halo, columns = np.unique(ids[foreign]), ids - start
    columns[foreign] = U + np.searchsorted(halo, ids[foreign])
    width = U + len(halo)
    keys, first = np.unique(rows * width + columns, return_index=True)
    rows, columns = np.divmod(keys, width)
    indptr = np.searchsorted(rows, np.arange(U + 1))
    # The matrix is symmetric: a vertex is in the halo of another chunk if it has a neighbour there.
    met = columns >= U
    others, met_rows = np.searchsorted(starts, halo[columns[met] - U], side="right") - 1, rows[met]
    needed = {int(b): np.unique(met_rows[others == b]) for b in np.unique(others)}
    return GraphBlock(indptr.astype(np.int32), columns.astype(np.int32), squared[first], halo, needed, counts)


def _count_halo(block: GraphBlock, starts: IntArray) -> IntArray:
    """Size of the halo of a block in each chunk, (B,)."""
    return np.diff(np.searchsorted(block.halo, starts))
