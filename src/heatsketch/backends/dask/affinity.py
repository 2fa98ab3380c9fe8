"""The Gaussian affinity of all pairs of points in row chunks, and bandwidth rules."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, partial
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...kernel.affinity import GaussianAffinity
from ...kernel.bandwidth import (
    NEIGHBOR,
    SAMPLE,
    SELF_TUNING_NEIGHBOR,
    kth_neighbor,
    rule_of_distinct,
    scale_reach,
    self_tuned,
)
from ...linalg.metrics import Metric, no_distance
from ...linalg.sketch import sample
from ...neighbors.neighborhoods import row_keys
from .array import DistributedArray
from .layout import Layout
from .pairs import AllPairsOperator, ChunkPoints, PairKernel, joined_sums, nearest, row_sums
from .tasks import Parts, Plan, gathered, persisted

__all__ = ["AllPairsAffinity", "ChunkedAffinity", "bandwidth_of"]


class ChunkedAffinity(GaussianAffinity):
    """An affinity of points on a cluster: `X` and local scales are distributed arrays."""

    layout: Layout

    def bandwidth_by_rule(self, rule: str) -> float:
        """The bandwidth that a rule gives for the points."""
        return float(bandwidth_of(self.X, rule, self.metric))

    @abstractmethod
    def row_products(self, X: Any, V: Any) -> tuple[Any, Any]:
        """Kernel rows of new points X, (m, d), scaled to a largest entry of 1, times V, (N, c).

        Returns the products, (m, c), and the logarithms of the scales, (m,), in the chunks of X.
        """


class AllPairsAffinity(ChunkedAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` for all pairs of points on a cluster; options are those of `GaussianAffinity`."""

    def __init__(self, X: DistributedArray, epsilon: Any, *, device: str = "auto", **options: Any) -> None:
        super().__init__(X, epsilon, tiled=True, **options)
        self.layout = X.layout
        self._pair_kernel = PairKernel(
            self.metric,
            None if np.ndim(epsilon) else float(epsilon),
            self.zero_diagonal,
            self.dtype.str,
            device,
            self.precision,
        )
        scales = epsilon.values if np.ndim(epsilon) else None
        self._points = persisted(_chunk_points(X.values, scales), name="distributing points")
        self.description = f"every pair, formed on the fly in {len(self.layout.sizes)} chunks of rows"

    @cached_property
    def operator(self) -> AllPairsOperator:
        """``K``."""
        epsilon: Any = self.epsilon.values if np.ndim(self.epsilon) else self.epsilon
        return AllPairsOperator(self._points, self.X.values, epsilon, self.layout, self._pair_kernel)

    @cached_property
    def distinct_points(self) -> IntArray:
        """One of each set of equal training points, increasing."""
        return first_rows(self.X.values)

    def row_products(self, X: Any, V: Any) -> tuple[Any, Any]:
        """Kernel rows of new points times columns, lazy."""
        local = None
        if np.ndim(self.epsilon):
            distinct = _rows_at(self.X.values, self.distinct_points)
            local = chunked_scales(X, distinct, metric=self.metric, n_neighbors=self.scale_neighbor)
        new = _chunk_points(X, local)
        plan = Plan(V, new, self._points)
        for q, queries in enumerate(plan.keys(new)):
            parts = [
                plan.add("rows-of-new-points", (q, b), row_sums, queries, chunk, columns, self._pair_kernel)
                for b, (chunk, columns) in enumerate(zip(plan.keys(self._points), plan.keys(V), strict=True))
            ]
            both = plan.add_tree("sum-of-rows", q, joined_sums, parts)
            plan.add("new-products", (q, 0), getitem, both, 0)
            plan.add("new-scales", q, getitem, both, 1)
        products = plan.array("new-products", X.chunks[0], V.shape[1], np.float64)
        return products, plan.array("new-scales", X.chunks[0], None, np.float64)


def _chunk_points(X: Any, scales: Any) -> Parts:
    """The points of each chunk with their local scales, lazy."""
    plan = Plan(X) if scales is None else Plan(X, scales)
    keys: list[Any] = [None] * len(X.chunks[0]) if scales is None else plan.keys(scales)
    for b, points in enumerate(plan.keys(X)):
        plan.add("points", b, ChunkPoints, points, keys[b])
    return plan.parts("points", range(len(X.chunks[0])))


def first_rows(X: Any) -> IntArray:
    """The first of each set of equal rows of a Dask array, increasing."""
    plan, chunks = Plan(X), range(len(X.chunks[0]))
    for b, points in enumerate(plan.keys(X)):
        plan.add("row-keys", b, row_keys, points)
    return np.sort(np.unique(np.concatenate(gathered(plan.parts("row-keys", chunks))), return_index=True)[1])


def _rows_at(X: Any, rows: IntArray) -> Any:
    """Some rows of a Dask array, or X itself for all of them."""
    return X if len(rows) == X.shape[0] else X[rows]


def chunked_scales(X: Any, Y: Any, *, metric: Metric, n_neighbors: int, floor: bool = True) -> Any:
    """Squared local scales as :func:`heatsketch.kernel.bandwidth.local_scales` gives them, (m,), lazy."""
    plan, reach = Plan(X, Y), scale_reach(n_neighbors) if floor else n_neighbors
    for q, queries in enumerate(plan.keys(X)):
        lists = [
            plan.add("nearest-in-chunk", (q, b), nearest, queries, chunk, reach, metric)
            for b, chunk in enumerate(plan.keys(Y))
        ]
        plan.add("local-scales", q, _scales, plan.add_tree("nearest", q, _merged, lists), n_neighbors, floor)
    return plan.array("local-scales", X.chunks[0], None, np.float64)


def _merged(several: list[FloatArray]) -> FloatArray:
    """Lists of `nearest` over several chunks as one list."""
    k = several[0].shape[1] - 1
    lists = np.concatenate([found[:, :k] for found in several], axis=1)
    lists = np.partition(lists, k - 1, axis=1)[:, :k]
    return np.column_stack([lists, np.max([found[:, k] for found in several], axis=0)])


def _scales(lists: FloatArray, k: int, floor: bool) -> FloatArray:
    """Squared local scales from lists of `nearest`, (m,)."""
    listed = np.where(np.isfinite(lists), lists, lists[:, -1:])  # the largest distance, if fewer points are apart
    kth = partial(kth_neighbor, listed[:, :-1])
    return self_tuned(kth, k) if floor else kth(k)


def bandwidth_of(X: DistributedArray, rule: str, metric: Metric, n_neighbors: int | None = None) -> Any:
    """Epsilon by a rule, as :func:`heatsketch.kernel.bandwidth.bandwidth_by_rule`; local scales are distributed."""
    distinct = _rows_at(X.values, first_rows(X.values))
    if rule in ("median", "slope"):
        return rule_of_distinct(DistributedArray.from_dask(distinct), rule, metric)
    if rule == "self-tuning":
        k = n_neighbors or SELF_TUNING_NEIGHBOR
        local = persisted(chunked_scales(X.values, distinct, metric=metric, n_neighbors=k), name="measuring scales")
        if not bool(gathered((local > 0).all())):
            raise no_distance()
        return DistributedArray(local, X.layout)
    some = distinct[sample(distinct.shape[0], SAMPLE)].rechunk((-1, -1))
    k = n_neighbors or NEIGHBOR
    scales = gathered(chunked_scales(some, distinct, metric=metric, n_neighbors=k, floor=False))
    if not scales.any():
        raise no_distance()
    return float(np.median(scales))
