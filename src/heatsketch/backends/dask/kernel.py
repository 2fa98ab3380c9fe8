"""From points on a cluster and options to the heat kernel, which multiplies Dask arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import dask.array as da
import numpy as np
from scipy import sparse

from ..._utils.registry import has_gpu
from ..._utils.typing import FloatArray, IntArray
from ..._utils.warn import warn
from ...kernel.bandwidth import SELF_TUNING_NEIGHBOR
from ...kernel.build import build_affinity, compose_kernel, search_with_bandwidth
from ...kernel.normalize import LeftFactor, Scaling
from ...kernel.operator import HeatKernel, refuse_alone
from ...kernel.options import KernelOptions
from ...kernel.plan import DENSE_LIMIT, auto_neighbors, worth_every_pair
from .affinity import AllPairsAffinity, ChunkedAffinity, bandwidth_of
from .array import DistributedArray
from .layout import Layout, chunk_sizes
from .neighbor_affinity import ChunkedNeighborAffinity
from .neighbors import ChunkedNeighborhoods
from .tasks import Plan, gathered, n_workers, on_every_worker, persisted

__all__ = ["ChunkedHeatKernel", "build_chunked_affinity", "kept_neighbors", "place_chunks"]


class ChunkedHeatKernel(HeatKernel):
    """A heat kernel on a cluster.

    ``A @ V`` takes and returns Dask arrays in the order of the data; internally blocks are distributed arrays in the
    layout of the kernel.
    """

    in_memory = False
    affinity: ChunkedAffinity
    scaling: Scaling

    @property
    def layout(self) -> Layout:
        """Chunks and order of its rows."""
        return self.affinity.layout

    @property
    def bandwidth(self) -> Any:
        """Epsilon, or each point's squared local scale, (N,), as a Dask array in the order of the samples."""
        epsilon: Any = self.affinity.epsilon
        return self.hand_out(epsilon) if np.ndim(epsilon) else epsilon

    @cached_property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode takes the same value in every row."""
        return super().trivial_is_constant

    def collect(self, V: Any) -> DistributedArray:
        """A block, or an array with a row for each sample, as a distributed array."""
        if isinstance(V, DistributedArray):
            return V
        if not isinstance(V, da.Array):
            V = np.asarray(V)
            V = da.from_array(V, chunks=(self.layout.given if len(V) == self.shape[0] else -1, -1))
        return DistributedArray.from_dask(V)

    def hand_out(self, V: Any) -> Any:
        """A block as a Dask array in the order and the chunks of the data."""
        return persisted(V.layout.restored(V.values), name="restoring the order of rows")

    def __matmul__(self, V: Any) -> Any:
        if isinstance(V, DistributedArray):
            return super().__matmul__(V)
        if not isinstance(V, da.Array) or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"a kernel of shape {self.shape} on a cluster was given {type(V).__name__} of shape {np.shape(V)}; "
                f"give a Dask array with {self.shape[1]} rows."
            )
        return self.hand_out(super().__matmul__(DistributedArray.from_dask(V)))

    def at_new_points(self, X: Any, Z: Any, out: FloatArray | None = None) -> Any:
        """``a(x) Z`` for new points: each point's row of ``diag(w) S``, times coefficients.

        X, (m, d), and the result, (m, k), are Dask arrays in the same chunks, or both ndarrays; then `out` is used.
        """
        if not isinstance(X, da.Array):
            X = X.toarray() if sparse.issparse(X) else X
            found = gathered(self.at_new_points(da.from_array(X, chunks=(self.layout.sizes[0], -1)), Z))
            if out is None:
                return found
            out[:] = found
            return out
        scaling = self.scaling
        masses: Any = (self.ones() if scaling.masses is None else scaling.masses)[:, None]
        scaled = scaling.scale[:, None] * Z.astype(np.float64)
        columns = masses.__array_namespace__().concat([masses, scaling.reference[:, None], scaled], axis=1)
        products, log_scale = self.affinity.row_products(X, columns.laid_out(self.layout).values)
        plan, left = Plan(products, log_scale), self.scaling.left_factor
        first = np.concatenate([[0], np.cumsum(X.chunks[0])]).tolist()
        for q, (sums, logs) in enumerate(zip(plan.keys(products), plan.keys(log_scale), strict=True)):
            plan.add("place-new-points", (q, 0), _place, sums, logs, left, first[q], np.dtype(Z.dtype).str)
        return plan.array("place-new-points", X.chunks[0], Z.shape[1], Z.dtype)

    def points_at(self, samples: IntArray) -> FloatArray:
        """Some of the points, (m, d), in memory."""
        found: FloatArray = self.affinity.X[samples]
        return found

    def placed_by(self, place: Callable[[FloatArray], FloatArray], like: FloatArray) -> DistributedArray:
        """The points, placed by a function on the workers, (N, k), in the dtype of an embedding (m, k)."""
        X = self.affinity.X
        placed = place_chunks(X.values, place, like.shape[1], like.dtype)
        return DistributedArray(persisted(placed, name="placing points"), X.layout)


def place_chunks(X: Any, place: Callable[[FloatArray], FloatArray], k: int, dtype: Any) -> Any:
    """New points in a Dask array, (m, d), placed by a function, chunk by chunk: a lazy Dask array (m, k)."""
    plan = Plan(X)
    shared = plan.share(place)  # of this fit, also if the model is fitted again
    for b, key in enumerate(plan.keys(X)):
        plan.add("place-points", (b, 0), _placed, shared, key)
    return plan.array("place-points", X.chunks[0], k, dtype)


def _placed(place: Callable[[FloatArray], FloatArray], X: FloatArray) -> FloatArray:
    return place(X)


def _place(sums: FloatArray, log_scale: FloatArray, left: LeftFactor, first: int, dtype: str) -> FloatArray:
    """New points from the products of their kernel rows with ones, the reference and coefficients."""
    degrees, against = sums[:, 0], sums[:, 1]
    refuse_alone(degrees, first + np.arange(len(degrees)))
    placed: FloatArray = left(degrees, against, log_scale)[:, None] * sums[:, 2:]
    return placed.astype(dtype)


@compose_kernel.register
def _(affinity: ChunkedAffinity, scaling: Scaling, rule: str | None) -> HeatKernel:
    return ChunkedHeatKernel.from_affinity(affinity, scaling, rule)


def kept_neighbors(X: DistributedArray, options: KernelOptions) -> int | None:
    """Number of neighbours of points on a cluster; None for every pair.

    "auto" depends on the number of points only: an embedding must not depend on the workers.
    """
    wanted = options.n_neighbors
    if wanted == "auto":
        wanted = auto_neighbors(options, quick=len(X) <= DENSE_LIMIT)
    return None if wanted is None or int(wanted) >= len(X) - 1 else int(wanted)


@build_affinity.register
def build_chunked_affinity(
    X: DistributedArray, options: KernelOptions, dtype: Any = None
) -> tuple[ChunkedAffinity, str]:
    """The affinity of points on a cluster, (N, d), and the rule of its bandwidth."""
    rule, n_neighbors = options.bandwidth_rule, kept_neighbors(X, options)
    common: dict[str, Any] = {
        "metric": options.measure,
        "scale_neighbor": options.bandwidth_neighbor or SELF_TUNING_NEIGHBOR,
        "zero_diagonal": options.diagonal == "zero",
        "dtype": X.dtype if dtype is None else dtype,
    }
    if n_neighbors is not None:
        return _neighbor_affinity(X, n_neighbors, options, common), rule
    # To look for GPUs takes workers a while: only if the work is worth it.
    quick = options.device == "auto" and worth_every_pair(X.shape, n_workers())
    device = "cpu" if quick else options.device
    gpus = device.startswith("cuda") or (device == "auto" and any(on_every_worker(has_gpu)))
    points = X.laid_out(Layout(chunk_sizes(X.shape[0], largest=gpus), X.layout.given))
    epsilon = options.given_bandwidth(len(X))
    if epsilon is None:
        epsilon = bandwidth_of(points, rule, options.measure, options.bandwidth_neighbor)
    elif np.ndim(epsilon):
        epsilon = DistributedArray(da.from_array(epsilon, chunks=(points.layout.sizes,)), points.layout)
    return AllPairsAffinity(points, epsilon, device=device, precision=options.precision, **common), rule


def _neighbor_affinity(
    X: DistributedArray, n_neighbors: int, options: KernelOptions, common: dict[str, Any]
) -> ChunkedNeighborAffinity:
    """The affinity of neighbours; `common` are the options of all affinities."""
    if options.device not in ("auto", "cpu"):
        warn(
            f"device={options.device!r} was given with neighbours on a cluster, which are found and multiplied by the "
            "CPUs of the workers; GPUs are used for every pair (n_neighbors=None)."
        )
    rule, metric = options.bandwidth_rule, options.measure
    search = partial(ChunkedNeighborhoods.search, X.values, n_neighbors, metric)
    hoods, lists, epsilon = search_with_bandwidth(search, options, len(X), lambda: bandwidth_of(X, rule, metric))
    return ChunkedNeighborAffinity(epsilon, hoods, lists, **common)
