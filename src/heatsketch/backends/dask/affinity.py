"""The Gaussian affinity of all pairs of points in bands, and the rows of new points."""

from __future__ import annotations

from functools import cached_property
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.extras import optional
from ..._utils.typing import FloatArray
from ...kernel.affinity import GaussianAffinity
from ...kernel.bandwidth import NEIGHBOR, SAMPLE, SELF_TUNING_NEIGHBOR, bandwidth_by_rule, median_scale
from ...linalg.metrics import Metric, no_distance
from ...linalg.sketch import sample
from .array import DistributedArray
from .columns import add_up
from .gaussian import BandedGaussianOperator, GaussianBands
from .layout import Layout, divided
from .pairs import joined_sums, kth_of_lists, merged_nearest, nearest_of_pair, row_sums
from .tasks import Plan, gathered, settled

__all__ = ["BandedAffinity", "BandedGaussianAffinity", "bandwidth_in_bands", "local_scales_in_bands"]

# Points whose local scales tell the typical one.
_SOME = 1000
# New points of a task.
_QUERIES = 65_536


class BandedAffinity(GaussianAffinity):
    """An affinity of points on a cluster: `X` and local scales are distributed arrays, and rows are only multiplied."""

    layout: Layout

    @property
    def typical_epsilon(self) -> float:
        """The bandwidth, or the median of the squared local scales of some points."""
        epsilon: Any = self.epsilon
        return float(np.median(epsilon[sample(self.n_samples, _SOME)]) if np.ndim(epsilon) else epsilon)

    def bandwidth_by_rule(self, rule: str) -> float:
        """The bandwidth that a rule gives for the points."""
        return float(bandwidth_in_bands(self.X, rule, self.metric))

    def rows(self, X: Any) -> tuple[Any, FloatArray]:  # noqa: ARG002
        """No rows against all points are formed on a cluster."""
        raise TypeError("kernel rows at new points are not formed on a cluster; multiply them with row_products.")


class BandedGaussianAffinity(BandedAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` for all pairs of points on a cluster.

    Parameters
    ----------
    X : DistributedArray of shape (N, d)
    epsilon : float, or DistributedArray of shape (N,)
    layout : Layout
    device : str
        Where workers compute.
    metric, scale_neighbor, zero_diagonal, dtype, precision
        As for `GaussianAffinity`.
    """

    def __init__(
        self,
        X: Any,
        epsilon: Any,
        layout: Layout,
        *,
        metric: Metric | None = None,
        scale_neighbor: int = SELF_TUNING_NEIGHBOR,
        zero_diagonal: bool = False,
        dtype: Any = np.float64,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        super().__init__(
            X,
            epsilon,
            metric=metric,
            scale_neighbor=scale_neighbor,
            zero_diagonal=zero_diagonal,
            dtype=dtype,
            tiled=True,
            precision=precision,
        )
        self.layout = layout
        scales = epsilon.computed().values if np.ndim(epsilon) else epsilon
        points = X.computed().values
        self._bands = GaussianBands(points, scales, self.metric, zero_diagonal, self.dtype, device, precision, layout)
        self.description = f"every pair, formed on the fly in {len(layout.sizes)} chunks of rows"

    @cached_property
    def operator(self) -> BandedGaussianOperator:
        """``K``."""
        return BandedGaussianOperator(self._bands)

    def row_products(self, X: Any, V: Any) -> tuple[Any, Any]:
        """Rows of the kernel at new points times columns, planned.

        Parameters
        ----------
        X : Dask array of shape (m, d), in chunks of rows
        V : Dask array of shape (N, c), in bands

        Returns
        -------
        products : Dask array of shape (m, c), in the chunks of X
            In units in which the largest entry of each row is 1.
        log_scale : Dask array of shape (m,)
            The logarithms of these units.
        """
        given, kernel, held = X.chunks[0], self._bands.kernel(), self._bands.held()
        X = X.rechunk({0: divided(given, _QUERIES), 1: -1})
        plan = Plan(X, V, held)
        local = None
        if self._bands.local:
            local = local_scales_in_bands(X, self._bands.X, metric=self.metric, n_neighbors=self.scale_neighbor)
            plan = Plan(X, V, held, local)
        scales: list[Any] = [None] * len(X.chunks[0]) if local is None else plan.keys(local)
        for q, queries in enumerate(plan.keys(X)):
            parts = [
                plan.add("rows-of-new-points", (q, b), row_sums, queries, band, columns, scales[q], kernel)
                for b, (band, columns) in enumerate(zip(plan.keys(held), plan.keys(V), strict=True))
            ]
            both = add_up(plan, "rows-summed", q, parts, joined_sums)
            plan.add("new-products", (q, 0), getitem, both, 0)
            plan.add("new-scales", q, getitem, both, 1)
        products = plan.array("new-products", X.chunks[0], V.shape[1], np.float64)
        log_scale = plan.array("new-scales", X.chunks[0], None, np.float64)
        return products.rechunk({0: given}), log_scale.rechunk({0: given})


def local_scales_in_bands(X: Any, Y: Any, *, metric: Metric, n_neighbors: int) -> Any:
    """Squared distance from each row of `X` to its k-th neighbour among those of `Y`, (m,), planned.

    Parameters
    ----------
    X : Dask array of shape (m, d), in chunks of rows
    Y : Dask array of shape (N, d), in bands
    metric : Metric
    n_neighbors : int
        k.

    Returns
    -------
    scales : Dask array of shape (m,), in the chunks of X
    """
    plan = Plan(X, Y)
    for q, queries in enumerate(plan.keys(X)):
        lists = [
            plan.add("nearest-of-pair", (q, b), nearest_of_pair, queries, band, n_neighbors, metric)
            for b, band in enumerate(plan.keys(Y))
        ]
        merged = add_up(plan, "nearest", q, lists, merged_nearest)
        plan.add("local-scales", q, kth_of_lists, merged, n_neighbors)
    return plan.array("local-scales", X.chunks[0], None, np.float64)


def bandwidth_in_bands(X: Any, rule: str, metric: Metric, n_neighbors: int | None = None) -> Any:
    """Epsilon by a rule, as :func:`heatsketch.kernel.bandwidth.bandwidth_by_rule` has it; local scales, (N,), in bands.

    Parameters
    ----------
    X : DistributedArray of shape (N, d)
    rule : {"median", "neighbor", "slope", "self-tuning"}
    metric : Metric
    n_neighbors : int, optional
    """
    if rule in ("median", "slope"):
        return bandwidth_by_rule(X, rule, metric)[0]
    points = X.computed().values
    if rule == "self-tuning":
        k = n_neighbors or SELF_TUNING_NEIGHBOR
        local = settled(local_scales_in_bands(points, points, metric=metric, n_neighbors=k), name="measuring scales")
        if not bool(gathered((local > 0).all())):  # only where all points coincide
            raise no_distance(X.shape[0])
        return DistributedArray(local, X.layout)
    dask = optional("dask.array", "compute on a cluster", "dask")
    some = dask.from_array(X[sample(X.shape[0], SAMPLE)], chunks=(-1, -1))
    k = n_neighbors or NEIGHBOR
    scales = np.asarray(gathered(local_scales_in_bands(some, points, metric=metric, n_neighbors=k)))
    if not scales.any():
        raise no_distance(X.shape[0])
    return median_scale(scales)
