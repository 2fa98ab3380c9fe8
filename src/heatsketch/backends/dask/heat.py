"""From points on a cluster and options to the heat kernel."""

from __future__ import annotations

import warnings
from typing import Any

from ...kernel.bandwidth import SELF_TUNING_NEIGHBOR
from ...kernel.build import build_affinity
from ...kernel.options import KernelOptions
from ...kernel.plan import AUTO_NEIGHBORS, DENSE_LIMIT, kept_neighbors, worth_every_pair
from ..torch.device import worker_has_gpu
from .affinity import BandedAffinity, BandedGaussianAffinity, bandwidth_in_bands
from .array import DistributedArray
from .layout import Layout, band_sizes
from .neighbor_affinity import banded_neighbor_affinity
from .tasks import n_workers, on_every_worker, settled

__all__ = ["build_banded_affinity", "neighbors_on_cluster"]


@kept_neighbors.register
def neighbors_on_cluster(X: DistributedArray, options: KernelOptions) -> int | None:
    """How many neighbours are kept of points on a cluster; None for every pair.

    "auto" looks at the number of points alone: an embedding must not depend on the workers that happen to be there.
    """
    wanted = options.n_neighbors
    if wanted == "auto":
        return None if len(X) <= DENSE_LIMIT else AUTO_NEIGHBORS
    return None if wanted is None or int(wanted) >= len(X) - 1 else int(wanted)


@build_affinity.register
def build_banded_affinity(X: DistributedArray, options: KernelOptions, dtype: Any = None) -> tuple[BandedAffinity, str]:
    """The affinity of points on a cluster, and the rule by which its bandwidth was chosen.

    Parameters
    ----------
    X : DistributedArray of shape (N, d)
    options : KernelOptions
    dtype : dtype of the kernel
    """
    dtype = X.dtype if dtype is None else dtype
    rule = options.bandwidth if isinstance(options.bandwidth, str) else "given"
    rule = "neighbor" if rule == "auto" else rule
    n_neighbors = neighbors_on_cluster(X, options)
    common: dict[str, Any] = {
        "metric": options.measure,
        "scale_neighbor": options.bandwidth_neighbor or SELF_TUNING_NEIGHBOR,
        "zero_diagonal": options.diagonal == "zero",
        "dtype": dtype,
    }
    if n_neighbors is not None:
        _warn_of_device(options.device)
        bandwidth = options.bandwidth if rule == "given" else rule
        if rule in ("median", "slope"):
            bandwidth = bandwidth_in_bands(X, rule, options.measure)
        affinity, _ = banded_neighbor_affinity(
            X.computed().values,
            n_neighbors,
            bandwidth=bandwidth,
            bandwidth_neighbor=options.bandwidth_neighbor,
            **common,
        )
        return affinity, rule
    # To look for GPUs takes workers a while: only where the work is worth it.
    quick = options.device == "auto" and worth_every_pair(X.shape, n_workers())
    device = "cpu" if quick else options.device
    layout = Layout(band_sizes(X.shape[0], largest=_on_gpus(device)), X.layout.given)
    points = DistributedArray(settled(layout.arranged(X.values), name="laying points out"), layout)
    epsilon: Any = options.bandwidth
    if rule != "given":
        epsilon = bandwidth_in_bands(points, rule, options.measure, options.bandwidth_neighbor)
    others: dict[str, Any] = {"device": device, "precision": options.precision}
    return BandedGaussianAffinity(points, epsilon, layout, **common, **others), rule


def _warn_of_device(device: str) -> None:
    """Say so if a device is asked for that is not used."""
    if device not in ("auto", "cpu"):
        warnings.warn(
            f"device={device!r} was given with neighbours on a cluster, which are found and multiplied by the CPUs of "
            "the workers; every pair (n_neighbors=None) is what their GPUs compute.",
            UserWarning,
            stacklevel=2,
        )


def _on_gpus(device: str) -> bool:
    """Whether workers compute on GPUs."""
    return device.startswith("cuda") or (device == "auto" and any(on_every_worker(worker_has_gpu)))
