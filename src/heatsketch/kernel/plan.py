"""Planning: how a kernel is held (dense, tiled or sparse), on which device, and what a fit costs in memory and time.

All of it is decided from the size of the data, the options and the machine, before anything is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import CHUNK_ENTRIES
from .._utils.display import Facts, Shown
from .._utils.memory import available_memory, size_in_words
from .._utils.registry import Device, device_for, find_device, has_gpu
from .._utils.threads import n_threads, workers
from .._utils.typing import FloatArray
from ..linalg.sketch import sample
from ..neighbors.clusters import ClusterIndex
from ..neighbors.search import index_kind
from .affinity import FILLS
from .bandwidth import bandwidth_by_rule
from .options import KernelOptions, check_count, check_points, is_number
from .radius import ENTRY, RadiusAffinity

__all__ = [
    "AUTO_NEIGHBORS",
    "DENSE_LIMIT",
    "Choice",
    "Estimate",
    "choose",
    "choose_device",
    "compared_share",
    "estimate",
    "kept_neighbors",
    "predict",
    "require_columns",
    "worth_every_pair",
]

AUTO_NEIGHBORS = 32
# n_neighbors="auto" holds all pairs up to this many points: 0.8 GB in float64.
DENSE_LIMIT = 10_000
# Beyond, pairs are formed on the fly where the products of an ordinary fit (thirty, with sixteen columns) take at most
# this many seconds on two cores, whatever the machine has: the same data get the same kernel everywhere.
_TILED_SECONDS = 5.0
_PRODUCTS, _COLUMNS, _CORES = 30, 16, 2
# "auto" looks for a GPU where the CPU would take longer than this, and uses every pair on it up to the second limit.
_WORTHWHILE, _FUSED_SECONDS = 5.0, 60.0
# Share of the available memory that the kernel may take, and that a fit may take.
_KERNEL_SHARE, _FIT_SHARE = 0.5, 0.95

# Seconds that the parts of a fit take on one core of the machine of `docs/scale.md`, which has the measurements.
_TILE_PAIR = (2.0e-9, 2.6e-11)  # a kernel entry formed on the fly; for each feature and twice each column
_REFERENCE_FLOPS = 2.5e11  # float32 operations a second in a large matrix product, on both cores
_TREE_POINT = (1e-6, 2e-6, 2.5e-6, 1.2e-5, 3e-5, 6e-5)  # a point's neighbours by a tree, in one to six features
_CLUSTER_POINT = 1.4e-5  # a point's clustering, calibration and exact distances
_CLUSTER_PAIR = (1.0e-9, 2.5e-11)  # a pair that is compared, and for each feature
_BLOCK_PAIR = 1.2e-8  # a pair in an exact search by blocks
_TORCH_PAIR = (3e-9, 8e-12)  # a pair in an exact search by PyTorch on the CPU, and for each feature
_GRAPH_POINT = 2e-6  # a point's part in the graph
_SPARSE_ENTRY = 3e-10  # an entry of a sparse or given matrix, times a number
_CUTOFF_ENTRY = 1e-7  # an entry that a cutoff keeps
_DENSE_PAIR = 1.2e-8  # an entry of a dense kernel
_DENSE_PRODUCT = 4.5e-11  # an entry of a dense kernel, times a number
_FIXED = 0.05
# Seconds of an H200 (132 multiprocessors; float64 takes 30 times as long), from docs/gpu: a kernel entry formed on the
# fly and for each feature; a pair in a neighbour search and for each feature. One pass multiplies up to 64 columns.
_FUSED_PAIR, _GPU_PAIR = (4.5e-13, 9.0e-15), (5e-12, 1e-13)
_MULTIPROCESSORS, _FLOAT64, _FUSED_COLUMNS = 132, 30.0, 64
# Share of all pairs that a search by clusters compares, where the data are not known, and the sizes of the samples that
# measure it where they are.
_TYPICAL_SHARE = 0.06
_TRIAL_SIZES = (5_000, 20_000)
# Products of the bistochastic scaling, and the number of columns below which products do not become cheaper.
_BALANCING, _NARROWEST = 12, 4
_UNION = 1.35  # entries of the neighbour graph for each neighbour asked for
# Points whose neighbours set the bandwidth of a dense kernel, and features up to which distances need little memory.
_BANDWIDTH_SAMPLE, _DIRECT_FEATURES = 1000, 16
_COPIES = 4  # of a given affinity, made while it is checked and completed
_BLOCKS = 6  # arrays as large as the embedding that exist while components are added


@dataclass(frozen=True)
class Choice:
    """How the kernel is held.

    Attributes
    ----------
    n_neighbors : int or None
        None for every pair.
    tiled : bool
        Whether every pair is formed on the fly.
    reason : str
        A description for users.
    device : Device or None
        Where products are computed; None for NumPy on the CPU.
    """

    n_neighbors: int | None
    tiled: bool
    reason: str
    device: Device | None = None


def choose(shape: tuple[int, ...], dtype: Any, options: KernelOptions, sparse_points: bool = False) -> Choice:
    """Choose between a dense kernel, one formed on the fly, and a sparse one of neighbours.

    Raises
    ------
    MemoryError
        If every pair was asked for, must be held (metrics other than Euclidean), and cannot be.
    """
    device = choose_device(shape, options, entries=0 if sparse_points else None)
    where = "" if device is None else f" on {device.chip}"
    if options.cutoff is not None:
        return Choice(None, False, f"pairs whose affinity is at least {options.cutoff:g}{where}", device)
    n = int(shape[0])
    size, memory = n * n * np.dtype(dtype).itemsize, available_memory()
    fits = size <= _KERNEL_SHARE * memory
    can_tile = options.measure.euclidean and options.metric != "sqeuclidean" and not sparse_points
    wanted = options.n_neighbors
    if wanted == "auto":
        quick = n <= DENSE_LIMIT and (fits or can_tile)
        if can_tile and device is None:
            quick = quick or worth_every_pair(shape, _CORES)
        elif can_tile and device is not None and device.is_cuda:
            quick = quick or _PRODUCTS * _fused_seconds(n, int(shape[1]), dtype, device) <= _FUSED_SECONDS
        wanted = None if quick else AUTO_NEIGHBORS
    if wanted is not None and int(wanted) < n - 1:
        return Choice(int(wanted), False, f"{wanted} neighbours{where}", device)
    if can_tile and not (device is None and n <= DENSE_LIMIT and fits):
        return Choice(None, True, f"every pair, formed on the fly{where}", device)
    if fits:
        return Choice(None, False, f"every pair, held ({size_in_words(size)}){where}", device)
    raise MemoryError(
        f"every pair of {n} points with metric={options.metric!r} takes a matrix of {size_in_words(size)}, and "
        f"{size_in_words(memory)} are available; keep neighbours only (n_neighbors={AUTO_NEIGHBORS}), or use the "
        "Euclidean metric on dense points, for which the kernel need not be held."
    )


def choose_device(shape: tuple[int, ...], options: KernelOptions, *, entries: int | None = None) -> Device | None:
    """Where to compute. "auto" looks for a GPU only where the CPU would take long; entries are those of a sparse X."""
    if options.device != "auto":
        return find_device(options.device)
    n, d = int(shape[0]), int(shape[1])
    if options.affinity == "precomputed":
        seconds = _PRODUCTS * _COLUMNS * _SPARSE_ENTRY * (float(n) * n if entries is None else entries)
    elif entries is not None or not options.measure.euclidean:
        return None
    else:
        seconds = _PRODUCTS * _tiled_seconds(n, d, _COLUMNS)
    worthwhile = seconds / _CORES > _WORTHWHILE and has_gpu()
    return find_device("cuda") if worthwhile else None


def worth_every_pair(shape: tuple[int, ...], n_workers: int) -> bool:
    """Whether an ordinary fit to every pair, formed on the fly, takes seconds on this many cores."""
    return _PRODUCTS * _tiled_seconds(int(shape[0]), int(shape[1]), _COLUMNS) / n_workers <= _TILED_SECONDS


def _tiled_seconds(n_samples: int, n_features: int, n_columns: int) -> float:
    """Seconds of one core for a product with a kernel that is formed on the fly."""
    return n_samples * float(n_samples) / 2.0 * (_TILE_PAIR[0] + _TILE_PAIR[1] * (n_features + 2 * n_columns))


def _fused_seconds(n_samples: int, n_features: int, dtype: Any, device: Device) -> float:
    """Seconds of a GPU for a product, of up to 32 columns, with a kernel that is formed on the fly."""
    pair = _FUSED_PAIR[0] + _FUSED_PAIR[1] * n_features
    if np.dtype(dtype) == np.float64:
        pair *= _FLOAT64
    return n_samples * float(n_samples) * pair * _MULTIPROCESSORS / device.multiprocessors


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """Predicted cost of a fit.

    Attributes
    ----------
    n_samples : int
    held : str
        How the kernel will be held.
    n_neighbors : int or None
        None for every pair.
    memory : int
        Bytes at the peak, beside X and the libraries themselves.
    available : int
        Bytes at hand.
    seconds : float or None
        On this machine; None where it was not asked for.
    """

    n_samples: int
    held: str
    n_neighbors: int | None
    memory: int
    available: int
    seconds: float | None = None

    @property
    def fits(self) -> bool:
        """Whether memory holds it."""
        return self.memory <= _FIT_SHARE * self.available

    @contextmanager
    def within_memory(self) -> Iterator[None]:
        """Raise a MemoryError with a remedy if the fit cannot fit, or if memory runs out all the same."""
        if not self.fits:
            raise MemoryError(self._shortage)
        try:
            yield
        except MemoryError as error:
            if type(error) is MemoryError and error.args:
                raise  # its own message is more specific
            lacking = f" ({error})" if error.args else ""
            raise MemoryError(f"memory ran out{lacking}: {self._shortage}") from error

    @property
    def _shortage(self) -> str:
        every_pair = "neighbours instead of every pair (n_neighbors=32), or " if self.n_neighbors is None else ""
        return (
            f"{self.n_samples} samples with {self.held} take about {size_in_words(self.memory)}, and "
            f"{size_in_words(self.available)} are available. Use {every_pair}fewer neighbours or components, float32 "
            "data, or a sample of the points with transform for the rest; heatsketch.estimate predicts what each takes."
        )

    def __str__(self) -> str:
        took = "" if self.seconds is None else f", {_duration(self.seconds)}"
        return f"{self.n_samples} samples, {self.held}: about {size_in_words(self.memory)} of memory{took}"

    def _facts(self) -> Facts:
        facts = [
            ("samples", f"{self.n_samples:,}"),
            ("kernel", self.held),
            ("memory", f"about {size_in_words(self.memory)} of {size_in_words(self.available)}"),
        ]
        return facts if self.seconds is None else [*facts, ("time", f"about {_duration(self.seconds)}")]


def _duration(seconds: float) -> str:
    """A time with its unit."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.1f} s"


@singledispatch
def kept_neighbors(X: Any, options: KernelOptions) -> int | None:
    """How many neighbours of each of the points will be kept, None for every pair; backends register their arrays."""
    return choose(X.shape, X.dtype, options, sparse.issparse(X)).n_neighbors


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


def require_columns(kernel: Any, n_columns: int) -> None:
    """Raise an error if memory does not hold an embedding with that many columns; that of workers is not known."""
    size = _BLOCKS * kernel.shape[0] * n_columns * kernel.dtype.itemsize
    if kernel.in_memory and size > available_memory():
        raise MemoryError(
            f"{n_columns} components take about {size_in_words(size)}, and {size_in_words(available_memory())} are "
            "available; ask for a larger distance_error, or take leading directions exactly (n_exact='auto')."
        )


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
    seconds = _FIXED + search + _slowness() * entries * (_CUTOFF_ENTRY + columns * _SPARSE_ENTRY)
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
        return _FIXED + passes * _fused_seconds(n, d, dtype, choice.device)
    if choice.tiled:
        work = products * _tiled_seconds(n, d, n_components) / 2.0  # the reference has two cores
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
