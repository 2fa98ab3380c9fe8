"""From points on a cluster and options to the heat kernel."""

from __future__ import annotations

from typing import Any

from ..affinity import GaussianAffinity
from ..bandwidth import SELF_TUNING_NEIGHBOR
from ..choice import AUTO_NEIGHBORS, worth_every_pair
from ..devices import has_cuda
from ..inputs import KernelOptions
from .affinity import BandedGaussianAffinity, bandwidth_in_bands
from .layout import Layout, band_sizes
from .neighbor_affinity import banded_neighbor_affinity
from .tasks import n_workers, on_every_worker, settled

__all__ = ["build_banded_affinity", "neighbors_on_cluster"]


def neighbors_on_cluster(shape: tuple[int, ...], options: KernelOptions) -> int | None:
    """How many neighbours are kept of points on a cluster; None for every pair."""
    wanted = options.n_neighbors
    if wanted == "auto":
        quick = options.measure.euclidean and worth_every_pair(shape, n_workers())
        return None if quick else AUTO_NEIGHBORS
    return None if wanted is None or int(wanted) >= shape[0] - 1 else int(wanted)


def build_banded_affinity(X: Any, options: KernelOptions, dtype: Any) -> tuple[GaussianAffinity, str]:
    """The affinity of points on a cluster, and the rule by which its bandwidth was chosen.

    Parameters
    ----------
    X : Dask array of shape (N, d), in chunks of rows
    options : KernelOptions
    dtype : dtype of the kernel
    """
    rule = options.bandwidth if isinstance(options.bandwidth, str) else "given"
    rule = "neighbor" if rule == "auto" else rule
    n_neighbors = neighbors_on_cluster(X.shape, options)
    common: dict[str, Any] = {
        "metric": options.measure,
        "scale_neighbor": options.bandwidth_neighbor or SELF_TUNING_NEIGHBOR,
        "zero_diagonal": options.diagonal == "zero",
        "dtype": dtype,
    }
    if n_neighbors is not None:
        bandwidth = options.bandwidth if rule == "given" else rule
        if rule in ("median", "slope"):
            bandwidth = bandwidth_in_bands(X, rule, options.measure)
        affinity, _ = banded_neighbor_affinity(
            X, n_neighbors, bandwidth=bandwidth, bandwidth_neighbor=options.bandwidth_neighbor, **common
        )
        return affinity, rule
    # To look for GPUs takes workers a while: only where the work is worth it.
    quick = options.device == "auto" and worth_every_pair(X.shape, n_workers())
    device = "cpu" if quick else options.device
    layout = Layout(band_sizes(X.shape[0], largest=_on_gpus(device)), X.chunks[0])
    points = settled(layout.arranged(X), name="laying points out")
    epsilon: Any = options.bandwidth
    if rule != "given":
        epsilon = bandwidth_in_bands(points, rule, options.measure, options.bandwidth_neighbor)
    others: dict[str, Any] = {"device": device, "precision": options.precision}
    return BandedGaussianAffinity(points, epsilon, layout, **common, **others), rule


def _on_gpus(device: str) -> bool:
    """Whether workers compute on GPUs."""
    return device.startswith("cuda") or (device == "auto" and any(on_every_worker(has_cuda)))
