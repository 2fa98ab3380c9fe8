"""The kernel of neighbours of points in row chunks, and its rows at new points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import dask.array as da
import numpy as np
from scipy import sparse

from ..._utils.typing import FloatArray, IntArray
from ...kernel.affinity import described, gaussian_rows
from ...kernel.bandwidth import self_tuned
from ...linalg.metrics import Metric, squared_distances
from ...neighbors.neighborhoods import looked_at, new_rows, widest
from .affinity import ChunkedAffinity
from .array import DistributedArray
from .graph import GraphBlock, GraphOperator
from .neighbors import ChunkedLists, ChunkedNeighborhoods, Lists, kth_of
from .tasks import Parts, Plan, gathered, persisted

__all__ = ["ChunkedNeighborAffinity"]


class ChunkedNeighborAffinity(ChunkedAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` for pairs of neighbours, 0 for others, of points in row chunks.

    `epsilon` is a number, or squared local scales of the vertices, (U,).
    """

    def __init__(
        self, epsilon: float | FloatArray, neighborhoods: ChunkedNeighborhoods, lists: ChunkedLists, **options: Any
    ) -> None:
        self.layout = layout = neighborhoods.layout
        super().__init__(DistributedArray(neighborhoods.X, layout), epsilon, **options)
        self.neighborhoods, self.radii, self.recall = neighborhoods, lists.radii, lists.recall
        self.n_neighbors, self.definite = neighborhoods.n_neighbors, False
        self._scale = np.broadcast_to(np.asarray(epsilon) ** -0.5, neighborhoods.n_vertices)
        if np.ndim(epsilon):
            at_points = da.from_array(neighborhoods.at_points(epsilon), chunks=(layout.sizes,))
            self.epsilon = DistributedArray(at_points, layout)
        self._operator = GraphOperator(
            neighborhoods, lists, self._scale, zero_diagonal=self.zero_diagonal, dtype=self.dtype
        )
        share = 100 * self._operator.halo_rows / self.n_samples
        self.description = (
            f"{described(self.n_neighbors, self.recall)}, in {len(layout.sizes)} chunks of rows; a product moves "
            f"{share:.1f}% of the rows"
        )

    @property
    def typical_epsilon(self) -> float:
        """The bandwidth, or the median of the squared local scales of distinct points."""
        return float(np.median(self._scale**-2.0))

    @property
    def operator(self) -> GraphOperator:
        """``K``, sparse."""
        return self._operator

    @cached_property
    def _vertices(self) -> _Vertices:
        """What the rows of new points depend on."""
        hoods, wide = self.neighborhoods, None
        if looked_at(hoods.n_vertices, hoods.n_neighbors, self.scale_neighbor) < hoods.n_vertices:
            ids = widest(self.radii)
            first = np.searchsorted(hoods.at_points(np.arange(hoods.n_vertices)), ids)
            wide = ids, gathered(hoods.X[first])
        return _Vertices(
            self.radii,
            self._scale,
            wide,
            self.metric,
            hoods.n_neighbors,
            self.scale_neighbor if np.ndim(self.epsilon) else None,
            self.zero_diagonal,
        )

    def row_products(self, X: Any, V: Any) -> tuple[Any, Any]:
        """Kernel rows of new points times columns, computed at once."""
        layout, X, lists = self.neighborhoods.query(X, self.scale_neighbor)
        plan, every = Plan(X, lists), range(len(lists))
        vertices = plan.share(self._vertices)
        for s, (known, points) in enumerate(zip(plan.keys(lists), plan.keys(X), strict=True)):
            rows = plan.add("new-rows", s, _NewRows.of, known, points, vertices)
            plan.add("log-scale", s, attrgetter("log_scale"), rows)
            plan.add("count-needed", s, _NewRows.count, rows, self.neighborhoods.starts)
        labels = "new-rows", "count-needed"
        log_scale, rows, counts = persisted(
            plan.array("log-scale", layout.sizes, None, np.float64), *(plan.parts(label, every) for label in labels)
        )
        found = np.array(gathered(counts))
        plan = self._multiplied(rows, V, found[:, 1:], twins=bool(found[:, 0].any()))
        products = plan.array("new-products", layout.sizes, V.shape[1], np.float64)
        products = persisted(products, name="placing new points")
        return layout.restored(products), layout.restored(log_scale)

    def _multiplied(self, rows: Parts, V: Any, needed: IntArray, *, twins: bool) -> Plan:
        """A plan of the products of new rows with `V`; only the rows of `V` that they need are moved.

        A new point that equals a training point has the product of that point; these are further columns.
        """
        blocks, starts, c = self._operator.blocks, self.neighborhoods.starts, V.shape[1]
        sources = [V, self._operator.multiply(V.astype(self.dtype))] if twins else [V]
        plan = Plan(*sources, rows, blocks)
        columns = [
            plan.add("vertex-columns", b, GraphBlock.vertex_columns, block, list(several))
            for b, (block, *several) in enumerate(zip(plan.keys(blocks), *map(plan.keys, sources), strict=True))
        ]
        for s, new in enumerate(plan.keys(rows)):
            fetched = []
            for b in np.flatnonzero(needed[s]).tolist():
                wanted = plan.add("needed-rows", (s, b), _NewRows.needed_in, new, int(starts[b]), int(starts[b + 1]))
                fetched.append(plan.add("fetch", (s, b), np.take, columns[b], wanted, 0))
            plan.add("new-products", (s, 0), _NewRows.product, new, fetched, c)
        return plan


@dataclass(frozen=True, eq=False)
class _Vertices:
    """What the kernel rows of new points depend on."""

    radii: FloatArray  # (U,)
    scale: FloatArray  # (U,)
    wide: tuple[IntArray, FloatArray] | None  # numbers and points of the vertices with the largest radii
    metric: Metric
    n_neighbors: int
    scale_neighbor: int | None  # of the local scales; None for one bandwidth
    zero_diagonal: bool


@dataclass(frozen=True)
class _NewRows:
    """Kernel rows of some new points, which are empty for points that equal a training point."""

    matrix: Any  # csr_array of shape (m, n_needed)
    log_scale: FloatArray  # (m,)
    needed: IntArray  # numbers of the vertices in the columns, increasing
    twin: IntArray  # (m,): the column of the vertex that equals a new point, or -1

    @classmethod
    def of(cls, lists: Lists, points: FloatArray, vertices: _Vertices) -> _NewRows:
        """Kernel rows of new points from the lists of their nearest vertices."""
        wide = None
        if vertices.wide is not None:
            ids, others = vertices.wide
            wide = ids, squared_distances(points, others, vertices.metric)
        found = new_rows(lists, kth_of(lists, vertices.n_neighbors), vertices.radii, wide)
        local = None
        if vertices.scale_neighbor is not None:
            local = self_tuned(partial(kth_of, lists), vertices.scale_neighbor)
        K, lowest = gaussian_rows(found, local, vertices.scale, zero_diagonal=vertices.zero_diagonal)
        twin, has_twin = found.twin, found.twin >= 0
        lowest[has_twin] = 0.0
        K.data[np.repeat(has_twin, np.diff(K.indptr))] = 0.0
        K.eliminate_zeros()
        needed = np.union1d(K.indices, twin[has_twin])
        matrix = sparse.csr_array(
            (K.data, np.searchsorted(needed, K.indices), K.indptr), shape=(len(points), len(needed))
        )
        return cls(matrix, -lowest, needed, np.where(has_twin, np.searchsorted(needed, twin), -1))

    def count(self, starts: IntArray) -> IntArray:
        """New points that equal a vertex, and vertices needed of each chunk, (1 + B,)."""
        return np.concatenate([[np.count_nonzero(self.twin >= 0)], np.diff(np.searchsorted(self.needed, starts))])

    def needed_in(self, start: int, stop: int) -> IntArray:
        """Positions of the needed vertices in the chunk of the vertices start to stop."""
        first, last = np.searchsorted(self.needed, [start, stop])
        return self.needed[first:last] - start

    def product(self, fetched: list[FloatArray], n_columns: int) -> FloatArray:
        """The rows times columns, (m, n_columns); `fetched` are the rows of the needed vertices, chunk by chunk."""
        if not fetched:
            return np.zeros((self.matrix.shape[0], n_columns))
        columns = np.concatenate(fetched)
        out: FloatArray = self.matrix @ columns[:, :n_columns]
        twins = np.flatnonzero(self.twin >= 0)
        if len(twins):
            out[twins] = columns[self.twin[twins], n_columns:]
        return out
