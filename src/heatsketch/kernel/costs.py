"""What a fit will cost, in memory and time, before anything is started."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import CHUNK_ENTRIES
from .._utils.memory import available_memory
from .._utils.registry import Device, device_for
from .._utils.threads import n_threads, workers
from .._utils.typing import FloatArray
from ..linalg.sketch import sample
from ..neighbors.clusters import ClusterIndex
from ..neighbors.search import index_kind
from .affinity import FILLS
from .bandwidth import bandwidth_by_rule
from .estimate import Estimate
from .options import KernelOptions, check_count, check_points, is_number
from .plan import Choice, choose, choose_device, fused_seconds, tiled_seconds
from .radius import ENTRY, RadiusAffinity

__all__ = ["Estimate", "compared_share", "estimate", "predict"]

# Seconds that the parts of a fit take on the machine below; `docs/scale.md` has the measurements behind them.
_REFERENCE_FLOPS = 2.5e11  # float32 multiplications and additions a second in a large matrix product, on both cores
_TREE_POINT = (1e-6, 2e-6, 2.5e-6, 1.2e-5, 3e-5, 6e-5)  # a point's neighbours by a tree, in one to six features
_CLUSTER_POINT = 1.4e-5  # a point's clustering, calibration and exact distances
_CLUSTER_PAIR = (1.0e-9, 2.5e-11)  # a pair that is compared, and for each feature
_BLOCK_PAIR = 1.2e-8  # a pair in an exact search by blocks
_TORCH_PAIR = (3e-9, 8e-12)  # a pair in an exact search by PyTorch on the CPU, and for each feature
# The same on a GPU of a server: a distance is written once and read twice in 2.5 TB/s of memory, and a feature takes a
# multiplication and an addition at 20 TFLOPS. An H200 was measured to take as long for 50 features (`docs/gpu`).
_GPU_PAIR = (5e-12, 1e-13)
_FUSED_COLUMNS = 64  # that a GPU multiplies in one pass over the kernel
_GRAPH_POINT = 2e-6  # a point's part in the graph
_SPARSE_ENTRY = 3e-10  # an entry of the graph times a number
_ENTRY_SECONDS = 1e-7  # an entry that a cutoff keeps
_DENSE_PAIR = 1.2e-8  # an entry of the kernel that is held
_DENSE_PRODUCT = 4.5e-11  # an entry of the kernel that is held, times a number
_FIXED = 0.05
# Share of all pairs of points that a search by clusters compares, where nothing is known of the data.
_TYPICAL_SHARE = 0.06
# Sizes of the samples that tell how much there will be to compare.
_TRIAL_SIZES = (5_000, 20_000)
# Products that balancing takes, and the least number of columns whose cost can be told from fewer.
_BALANCING = 12
_NARROWEST = 4
# Entries of the union graph for each neighbour asked for.
_UNION = 1.35
# Points whose neighbours tell the bandwidth where every pair is used, and features up to which distances need little.
_BANDWIDTH_SAMPLE = 1000
_DIRECT_FEATURES = 16
# Copies of a given affinity that are made while it is checked and completed.
_COPIES = 4


def estimate(
    X_or_shape: Any,
    *,
    n_components: int = 2,
    power: float = 8,
    bandwidth: float | str = "auto",
    normalization: str = "bistochastic",
    affinity: str = "gaussian",
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_neighbors: int | str | None = "auto",
    cutoff: float | None = None,
    dtype: Any = None,
    device: str = "auto",
) -> Estimate:
    """Memory and time of an embedding, before anything is started.

    Parameters
    ----------
    X_or_shape : array-like or sparse matrix, or tuple (n_samples, n_features)
        With the data, a small sample tells how many pairs a search for neighbours must compare; with a shape, what is
        typical is assumed.
    n_components, power, bandwidth, normalization, affinity, metric, metric_params, n_neighbors, cutoff, device
        As for :class:`GaussianProcessEmbedding`.
    dtype : dtype, optional
        For a shape; float64 by default.

    Returns
    -------
    estimate : Estimate
        Mostly within a factor of two of what a fit of :class:`GaussianProcessEmbedding` takes (`docs/scale.md` has the
        measurements). `n_exact` adds the products of its directions; eigenvectors (:class:`DiffusionMaps`) take as much
        memory, and time that depends on the spectrum; :class:`HeatSketch` takes the memory of as many components as its
        sketch has columns (256 beyond 2000 points) and somewhat more.

    Examples
    --------
    >>> import heatsketch as hs
    >>> small = hs.estimate((5000, 10), n_components=2)
    >>> print(small.held)
    every pair, held (200.0 MB)
    >>> large = hs.estimate((1_000_000, 50), n_components=10, power=16, dtype="float32", device="cpu")
    >>> large.n_neighbors
    32
    >>> large.memory < 3e9
    True
    """
    options = KernelOptions(
        bandwidth=bandwidth,
        normalization=normalization,
        affinity=affinity,
        metric=metric,
        metric_params=metric_params,
        n_neighbors=n_neighbors,
        cutoff=cutoff,
        device=device_for(X_or_shape, device),
    )
    check_count(n_components, "n_components")
    if not is_number(power) or not 0 < power < np.inf:
        raise ValueError(f"power={power!r} was given; the diffusion time must be a positive, finite number.")
    X = None
    if X_or_shape is None or np.ndim(X_or_shape) < 2:
        shape, dtype = _check_shape(X_or_shape, options), np.dtype(np.float64 if dtype is None else dtype)
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype} was given; the kernel is computed in float32 or float64.")
    else:
        X = check_points(X_or_shape, options)
        shape, dtype = X.shape, X.dtype
    given = {"sparse_points": sparse.issparse(X), "entries": getattr(X, "nnz", None)}
    known = predict(shape, dtype, options, n_components=n_components, **given)
    if cutoff is not None:
        return _with_cutoff(X, options, known, n_components, power)
    return replace(known, seconds=_seconds(shape, X, options, n_components, power, dtype=dtype))


def _check_shape(shape: Any, options: KernelOptions) -> tuple[int, int]:
    """Refuse what is not the shape of data."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    if len(sizes) != 2 or not all(is_number(size, Integral) for size in sizes) or sizes[0] < 2 or sizes[1] < 1:
        raise ValueError(
            f"{shape!r} was given; it must be data, or a shape (n_samples, n_features) of at least two samples."
        )
    if "precomputed" in (options.affinity, options.metric) and sizes[0] != sizes[1]:
        raise ValueError(f"the shape {sizes} was given; a precomputed matrix must be square.")
    return int(sizes[0]), int(sizes[1])


def predict(
    shape: tuple[int, ...],
    dtype: Any,
    options: KernelOptions,
    *,
    n_components: int,
    sparse_points: bool = False,
    entries: int | None = None,
) -> Estimate:
    """The memory that a fit will take, for options that have been checked; `entries` are those of a sparse X.

    On a GPU it is the GPU's that is counted.
    """
    n, item = int(shape[0]), np.dtype(dtype).itemsize
    # A block of columns: the sketch in float64, what it becomes, and what a product makes of it.
    blocks = n * n_components * (8 + 5 * item)
    if options.affinity == "precomputed":
        given = entries * (item + 4.0) if entries is not None else float(n) * n * item
        here = Estimate(n, "the given affinity", None, int(blocks + _COPIES * given + 16 * n), available_memory())
        return _tighter(here, choose_device(shape, options, entries=entries), int(blocks + given))
    choice = choose(shape, dtype, options, sparse_points)
    held = _held_memory(shape, item, options, choice, sparse_points=sparse_points)
    if options.measure.precomputed:
        held += 2.0 * n * n * item  # distances that are made symmetric
    here = Estimate(n, choice.reason, choice.n_neighbors, int(held + blocks), available_memory())
    if options.cutoff is not None:  # its entries, which are not known yet, are found by the CPU
        return here
    return _tighter(here, choice.device, _device_memory(shape, item, choice, n_components))


def _tighter(here: Estimate, device: Device | None, there: int) -> Estimate:
    """Of the machine's memory and the GPU's, where there is one, the one that would be short; else the GPU's."""
    if device is None or not device.is_cuda or not here.fits:
        return here
    return replace(here, memory=there, available=device.free_memory())


def _held_memory(
    shape: tuple[int, ...], item: int, options: KernelOptions, choice: Choice, *, sparse_points: bool
) -> float:
    """Peak of what the kernel itself takes."""
    device = choice.device
    n, d = int(shape[0]), int(shape[1])
    chunk = 8.0 * min(CHUNK_ENTRIES, n * n)
    vectors = 8.0 * n * 16  # scalings and the history of their acceleration
    choosing = 3 * 8.0 * min(CHUNK_ENTRIES, n * min(n, _BANDWIDTH_SAMPLE))  # the bandwidth
    temporary = chunk * (1.2 if d <= _DIRECT_FEATURES else 3.5)
    if options.cutoff is not None:
        return n * d * float(item) + vectors + temporary  # the entries are counted once the bandwidth is known
    if choice.tiled and device is not None and device.is_cuda:
        return n * d * float(item) + vectors  # a copy of X, if it came as a tensor
    if choice.tiled:
        return max(choosing, n * d * (8.0 + 2 * item)) + vectors
    if choice.n_neighbors is None:
        return max(choosing, n * n * item + temporary * max(1.0, n_threads() / FILLS)) + vectors
    kind = index_kind(shape, options.measure, sparse_points, device)
    here = device is not None and not device.is_cuda  # PyTorch on the CPU takes the memory that is counted
    listed = choice.n_neighbors + 4
    points = {"tree": 3 * 8.0, "clusters": float(item), "blocks": 0.0, "device": 8.0 * here}[kind] * n * d
    lists = n * listed * 12.0
    search = {
        "tree": 24.0 * min(n * listed, CHUNK_ENTRIES // 4),
        "clusters": n * listed * 16.0,
        "blocks": min(2 * n_threads(), -(-n * n // CHUNK_ENTRIES)) * 2 * temporary,
        "device": float(device.tile_bytes) if here and device else 0.0,
    }[kind]
    entries = n * (1 + _UNION * choice.n_neighbors)
    graph = entries * (12.0 + item) + n * listed
    return points + lists + max(search, graph) + vectors


def _device_memory(shape: tuple[int, ...], item: int, choice: Choice, n_components: int) -> int:
    """Peak of what a fit takes on a GPU."""
    n, d = int(shape[0]), int(shape[1])
    blocks = 6.0 * n * n_components * item + n * n_components * 8.0
    if choice.device is None:
        return 0
    if choice.n_neighbors is not None:
        graph = n * (1 + _UNION * choice.n_neighbors) * (4.0 + item)
        return int(blocks + max(graph, choice.device.tile_bytes + 2.0 * n * d * item))
    if not choice.tiled:
        return int(blocks + float(n) * n * item)
    # Points in float64 twice, while they are put in order, and both factors in halves and eighths of them.
    return int(blocks + n * d * (2 * 8.0 + item + 12.0) + 64.0 * n)


def _with_cutoff(X: Any, options: KernelOptions, known: Estimate, n_components: int, power: float) -> Estimate:
    """An estimate for pairs chosen by their affinity, of which a sample of rows tells how many there are."""
    if X is None:
        raise ValueError("how many pairs a cutoff keeps depends on the data; give X itself instead of its shape.")
    assert options.cutoff is not None
    epsilon: Any = options.bandwidth
    if isinstance(epsilon, str):
        epsilon, _ = bandwidth_by_rule(X, epsilon, options.measure)
    entries = RadiusAffinity(X, epsilon, options.cutoff, metric=options.measure).expected_entries()
    _, columns = _products(options, n_components, power)
    search = _search_seconds(X.shape, X, options)
    seconds = _FIXED + search + _slowness() * entries * (_ENTRY_SECONDS + columns * _SPARSE_ENTRY)
    return replace(known, memory=known.memory + int(ENTRY * entries), seconds=seconds)


def _products(options: KernelOptions, n_components: int, power: float) -> tuple[float, float]:
    """Products with the kernel that a fit takes, and columns multiplied in them altogether."""
    steps = power if power < 128 else (2.0 * power * 24.0) ** 0.5
    balancing = _BALANCING if options.normalization.startswith("bistochastic") else 2
    return steps + balancing, steps * max(n_components, _NARROWEST) + balancing * _NARROWEST


def _seconds(
    shape: tuple[int, ...], X: Any, options: KernelOptions, n_components: int, power: float, *, dtype: Any
) -> float:
    """Time of a fit on this machine, or on its GPU."""
    n, d = int(shape[0]), int(shape[1])
    products, columns = _products(options, n_components, power)
    if options.affinity == "precomputed":
        entries = float(X.nnz) if sparse.issparse(X) else float(n) * n
        return _FIXED + entries * columns * _SPARSE_ENTRY * _slowness()
    choice = choose(shape, dtype, options, sparse.issparse(X))
    search = 0.0
    if choice.tiled and choice.device is not None and choice.device.is_cuda:
        passes = products if n_components <= _FUSED_COLUMNS else products * n_components / _FUSED_COLUMNS
        return _FIXED + passes * fused_seconds(n, d, dtype, choice.device)
    if choice.tiled:
        work = products * tiled_seconds(n, d, n_components) / 2.0  # the reference has two cores
    elif choice.n_neighbors is None:
        work = n * n * (_DENSE_PAIR + columns * _DENSE_PRODUCT)
    else:
        search = _search_seconds(shape, X, options, choice.device)
        work = n * _GRAPH_POINT + n * (1 + _UNION * choice.n_neighbors) * columns * _SPARSE_ENTRY
    return _FIXED + search + work * _slowness()


def _search_seconds(shape: tuple[int, ...], X: Any, options: KernelOptions, device: Device | None = None) -> float:
    """Time of a search for neighbours, on this machine or on its device."""
    n, d = int(shape[0]), int(shape[1])
    kind = index_kind(shape, options.measure, sparse.issparse(X), device)
    if device is not None and kind == "device":
        pair = _GPU_PAIR if device.is_cuda else _TORCH_PAIR
        return n * float(n) * (pair[0] + pair[1] * d) * (1.0 if device.is_cuda else _slowness())
    if kind == "tree":
        return n * _TREE_POINT[d - 1] * _slowness()
    if kind == "blocks":
        return n * float(n) * _BLOCK_PAIR * _slowness()
    share = _TYPICAL_SHARE if X is None else compared_share(X)
    pairs = share * n * n / 2.0 * (_CLUSTER_PAIR[0] + _CLUSTER_PAIR[1] * d)
    return (n * _CLUSTER_POINT + pairs) * _slowness()


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


@cache
def _slowness() -> float:
    """How many times longer a matrix product takes here than on the machine of the constants above."""
    size, rounds = 512, 8 * n_threads()
    A, B = (np.full((size, size), value, dtype=np.float32) for value in (0.5, 2.0))
    with workers() as share:
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            for _ in share(lambda _: A @ B, range(rounds)):
                pass
            best = min(best, time.perf_counter() - start)
    return max(_REFERENCE_FLOPS * best / (rounds * 2.0 * size**3), 0.1)
