"""Planning: how a kernel is stored (dense, tiled or sparse), on which device, and what a fit costs in memory and time.

All of it follows from the size of the data, the options and the machine, before anything is computed.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np

from .._utils.chunks import CHUNK_ENTRIES
from .._utils.display import Facts, Shown
from .._utils.memory import available_memory, size_in_words
from .._utils.registry import Device, device_for, find_device, has_gpu
from .._utils.threads import n_threads, product
from ..linalg.eigen import DENSE_LIMIT as DIAGONALISED
from ..linalg.filters import FEW, TRACE_COLUMNS, TRACE_STEPS, MultiscaleFilter, Power, check_power_option
from ..neighbors.search import index_kind
from .affinity import FILLS
from .bandwidth import SAMPLE
from .options import KernelOptions, check_choice, check_count, check_points, is_number

__all__ = [
    "AUTO_NEIGHBORS",
    "DENSE_LIMIT",
    "LOCAL_NEIGHBORS",
    "METHODS",
    "Choice",
    "Estimate",
    "auto_neighbors",
    "choose",
    "estimate",
    "predict",
    "require_columns",
    "searched_columns",
    "sketch_columns",
    "wide_columns",
    "worth_every_pair",
]

# n_neighbors="auto" keeps this many neighbours with local scales, whatever the number of points (`docs/bandwidth.md`),
# and with one bandwidth this many where every pair would take long.
LOCAL_NEIGHBORS = 15
AUTO_NEIGHBORS = 32
# With one bandwidth it stores all pairs up to this many points: 0.8 GB in float64.
DENSE_LIMIT = 10_000
# Beyond, pairs are formed on the fly if the products of a typical fit (thirty, with sixteen columns) take at most this
# many seconds on two cores. The number of cores of the machine does not count: the same data get the same kernel.
_TILED_SECONDS = 5.0
_PRODUCTS, _COLUMNS, _CORES = 30, 16, 2
# "auto" looks for a GPU if the CPU would take longer than this, and uses every pair on it up to the second limit.
_WORTHWHILE, _FUSED_SECONDS = 2.0, 60.0
# Share of the available memory that the kernel may take, and that a fit may take.
_KERNEL_SHARE, _FIT_SHARE = 0.5, 0.95

# Seconds that the parts of a fit take on one core of the machine of `docs/scale.md`, which has the measurements.
_TILE_PAIR = (2.0e-9, 2.6e-11)  # a kernel entry formed on the fly; for each feature and twice each column
_REFERENCE_FLOPS = 2.5e11  # float32 operations per second in a large matrix product, on both cores
_TREE_POINT = (2e-7, 2.5e-7, 4e-7, 8e-7, 2e-6, 4e-6)  # a point's neighbours by a tree, in one to six features
_CLUSTER_POINT = 3e-6  # a point's clustering, calibration and exact distances
_CLUSTER_PAIR = (1.4e-10, 4e-12)  # a pair that is compared, and for each feature
_COMPARED_SHARE = 0.06  # of all pairs, by a search in clusters of typical data
_BLOCK_PAIR = 3.5e-9  # a pair in an exact search on the CPU
_GRAPH_POINT = 4e-7  # building the graph, per point
_SPARSE_ENTRY = 1.1e-10  # an entry of a sparse or given matrix, times a number
_DENSE_PAIR = 1.2e-8  # an entry of a dense kernel
_DENSE_PRODUCT = 4.5e-11  # an entry of a dense kernel, times a number
_FIXED, _CALL = 0.01, 2e-4  # a fit of few points, and one product; on any machine
# Seconds of an H200 (132 multiprocessors; float64 takes 30 times as long), from docs/gpu: a kernel entry formed on the
# fly and for each feature; a pair in a neighbour search and for each feature. One pass multiplies up to 64 columns. The
# last is the time of a neighbour graph and its products, relative to one core.
_FUSED_PAIR, _GPU_PAIR, _GPU_GRAPH = (4.5e-13, 9.0e-15), (4e-13, 9.5e-15), 0.25
_MULTIPROCESSORS, _FLOAT64, _FUSED_COLUMNS = 132, 30.0, 64
# Products of the bistochastic scaling, and the number of columns below which products do not become cheaper.
_BALANCING, _NARROWEST = 12, 4
# Methods whose fits are predicted. HeatSketch compares distances with a sketch of this many columns, at least, and for
# each component, or searches in a wide one, for data whose kernel is diagonalised and for larger ones; its optimisation
# takes so many seconds, and so many per point and for each component, on both cores or on a GPU.
METHODS = ("heatsketch", "gaussian-process")
_COMPARED_COLUMNS, _WIDE_COLUMNS = (32, 2), (512, 256)
_OPTIMISED_FIXED, _OPTIMISED_POINT, _GPU_OPTIMISED_POINT = 0.15, (1.15e-5, 3e-6), (2.5e-6, 7.5e-7)
# Degree of the polynomial of the multiscale filter, over the root of its last time. That time follows from the kernel,
# between 16 (well mixed data) and 4096 (long shapes); until it is known, this one stands for it.
_DEGREE = {np.dtype(np.float64): 8.2, np.dtype(np.float32): 4.1}
_TYPICAL_TIME = 1024
_UNION = 1.35  # entries of the neighbour graph per requested neighbour
_DIRECT_FEATURES = 16  # up to which distances are sums of squared differences, and need little memory
_COPIES = 4  # of a given affinity, made while it is checked and completed
_BLOCKS = 6  # arrays of the size of the embedding while components are added


@dataclass(frozen=True)
class Choice:
    """How the kernel is stored, and where products are computed."""

    n_neighbors: int | None  # None for every pair
    tiled: bool  # whether every pair is formed on the fly
    description: str  # for users
    device: Device | None = None  # None for NumPy on the CPU

    @property
    def on_gpu(self) -> bool:
        """Whether products are computed on a GPU."""
        return self.device is not None and self.device.is_cuda


def choose(shape: tuple[int, ...], dtype: Any, options: KernelOptions, entries: int | None = None) -> Choice:
    """Choose a device, and between a dense kernel, one formed on the fly, and a sparse one of neighbours.

    `entries` is the number of stored entries of a sparse X, and None for a dense one.

    Raises
    ------
    MemoryError
        If every pair was asked for, must be stored (metrics other than Euclidean), and does not fit.
    """
    device = _choose_device(shape, options, entries)
    where = "" if device is None else f" on {device.chip}"
    if options.affinity == "precomputed":
        return Choice(None, False, "the given affinity", device)
    if options.cutoff is not None:
        return Choice(None, False, f"pairs whose affinity is at least {options.cutoff:g}{where}", device)
    n = int(shape[0])
    size, memory = n * n * np.dtype(dtype).itemsize, available_memory()
    fits = size <= _KERNEL_SHARE * memory
    can_tile = options.measure.euclidean and entries is None
    wanted = options.n_neighbors
    if wanted == "auto":
        quick = n <= DENSE_LIMIT and (fits or can_tile)
        if can_tile and device is None:
            quick = quick or worth_every_pair(shape, _CORES)
        elif can_tile and device is not None and device.is_cuda:
            quick = quick or _PRODUCTS * _fused_seconds(n, int(shape[1]), dtype, device) <= _FUSED_SECONDS
        wanted = auto_neighbors(options, quick=quick)
    if wanted is not None and int(wanted) < n - 1:
        return Choice(int(wanted), False, f"{wanted} neighbours{where}", device)
    if can_tile and not (device is None and n <= DENSE_LIMIT and fits):
        return Choice(None, True, f"every pair, formed on the fly{where}", device)
    if fits:
        return Choice(None, False, f"every pair, held ({size_in_words(size)}){where}", device)
    raise MemoryError(
        f"every pair of {n} points with metric={options.metric!r} takes a matrix of {size_in_words(size)}, and "
        f"{size_in_words(memory)} are available; keep neighbours only (n_neighbors={AUTO_NEIGHBORS}), or use the "
        "Euclidean metric on dense points, for which the kernel need not be stored."
    )


def auto_neighbors(options: KernelOptions, *, quick: bool) -> int | None:
    """What n_neighbors="auto" means, None for every pair; `quick` if every pair takes little time and memory."""
    if options.bandwidth_rule == "self-tuning":
        return LOCAL_NEIGHBORS
    return None if quick else AUTO_NEIGHBORS


def _choose_device(shape: tuple[int, ...], options: KernelOptions, entries: int | None) -> Device | None:
    """Where to compute; "auto" looks for a GPU only if the CPU would take long."""
    if options.device != "auto":
        return find_device(options.device)
    n, d = int(shape[0]), int(shape[1])
    wanted = auto_neighbors(options, quick=True) if options.n_neighbors == "auto" else options.n_neighbors
    if options.affinity == "precomputed":
        seconds = _PRODUCTS * _COLUMNS * _SPARSE_ENTRY * (float(n) * n if entries is None else entries) / _CORES
    elif entries is not None or not options.measure.euclidean:
        return None
    elif wanted is None:
        seconds = _PRODUCTS * _tiled_seconds(n, d, _COLUMNS) / _CORES
    else:
        columns = _DEGREE[np.dtype(np.float64)] * _TYPICAL_TIME**0.5 * _COLUMNS
        search = _search_seconds(n, d, index_kind(shape, options.measure, False, None))
        seconds = search + _graph_seconds(n, int(wanted), columns)
    return find_device("cuda") if seconds > _WORTHWHILE and has_gpu() else None


def worth_every_pair(shape: tuple[int, ...], n_workers: int) -> bool:
    """Whether a typical fit to every pair, formed on the fly, takes seconds on this many cores."""
    return _PRODUCTS * _tiled_seconds(int(shape[0]), int(shape[1]), _COLUMNS) / n_workers <= _TILED_SECONDS


def _tiled_seconds(n_samples: int, n_features: int, n_columns: int) -> float:
    """Seconds of one core for a product with a kernel that is formed on the fly."""
    return n_samples * float(n_samples) / 2.0 * (_TILE_PAIR[0] + _TILE_PAIR[1] * (n_features + 2 * n_columns))


def _fused_seconds(n_samples: int, n_features: int, dtype: Any, device: Device) -> float:
    """Seconds of a GPU for a product, of up to 64 columns, with a kernel that is formed on the fly."""
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
        How the kernel will be stored.
    n_neighbors : int or None
        None for every pair.
    memory : int
        Peak memory in bytes, beside X and the libraries. On a GPU it is the GPU's, unless the machine's is too small.
    available : int
        Available memory in bytes, of the GPU or of the machine.
    seconds : float or None
        On this machine; None if it was not predicted.
    """

    n_samples: int
    held: str
    n_neighbors: int | None
    memory: int
    available: int
    seconds: float | None = None

    @property
    def fits(self) -> bool:
        """Whether the available memory suffices."""
        return self.memory <= _FIT_SHARE * self.available

    @property
    def duration(self) -> str:
        """The time with its unit."""
        return "" if self.seconds is None else _duration(self.seconds)

    def require_memory(self) -> None:
        """Raise a MemoryError with a remedy if the fit needs more memory than there is."""
        if self.fits:
            return
        every_pair = "neighbours instead of every pair (n_neighbors=32), or " if self.n_neighbors is None else ""
        raise MemoryError(
            f"{self.n_samples} samples with {self.held} take about {size_in_words(self.memory)}, and "
            f"{size_in_words(self.available)} are available. Use {every_pair}fewer neighbours or components, float32 "
            "data, or a sample of the points with transform for the rest; heatsketch.estimate predicts what each takes."
        )

    def __str__(self) -> str:
        took = "" if self.seconds is None else f", {self.duration}"
        return f"{self.n_samples} samples, {self.held}: about {size_in_words(self.memory)} of memory{took}"

    def _facts(self) -> Facts:
        facts = [
            ("samples", f"{self.n_samples:,}"),
            ("kernel", self.held),
            ("memory", f"about {size_in_words(self.memory)} of {size_in_words(self.available)}"),
        ]
        return facts if self.seconds is None else [*facts, ("time", f"about {self.duration}")]


def _duration(seconds: float) -> str:
    """A time with its unit."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.1f} s"


def sketch_columns(n_components: int) -> int:
    """Columns of the sketch with which `HeatSketch` compares distances, for all times of a graph of neighbours."""
    return max(_COMPARED_COLUMNS[0], _COMPARED_COLUMNS[1] * n_components)


def wide_columns(n_samples: int, n_components: int) -> int:
    """Columns of the wide sketch among whose projections `HeatSketch` searches at a single time."""
    return max(_WIDE_COLUMNS[n_samples > DIAGONALISED], n_components)


def searched_columns(n_samples: int, power: Power | str, n_components: int) -> int:
    """Columns that `HeatSketch` diffuses for a mixture, with a graph of neighbours if all times are kept."""
    every_time = isinstance(power, (str, MultiscaleFilter))
    return sketch_columns(n_components) if every_time else wide_columns(n_samples, n_components)


def estimate(
    X_or_shape: Any,
    *,
    method: str = "heatsketch",
    n_components: int = 2,
    power: Power | str = "auto",
    dtype: Any = None,
    **kernel_options: Any,
) -> Estimate:
    """Predict memory and time of an embedding, before anything is started.

    Parameters
    ----------
    X_or_shape : array-like or sparse matrix, or tuple (n_samples, n_features)
    method : {"heatsketch", "gaussian-process"}
        :class:`HeatSketch` with its default objective, or :class:`GaussianProcessEmbedding`.
    n_components, power
        As for these.
    dtype : dtype, optional
        For a shape; float64 by default.
    **kernel_options
        Of :func:`heat_kernel`, such as `n_neighbors`, `metric` and `device`; not `cutoff`, as the number of pairs above
        it is not known before.

    Returns
    -------
    estimate : Estimate
        Mostly within a factor of two (`docs/scale.md` has the measurements). `n_exact` adds the products of its
        directions; eigenvectors (:class:`DiffusionMaps`) take the memory of a Gaussian process embedding, and time that
        depends on the spectrum.

    Examples
    --------
    >>> import heatsketch as hs
    >>> small = hs.estimate((5000, 10), n_components=2)
    >>> print(small.held)
    15 neighbours
    >>> large = hs.estimate((1_000_000, 50), n_components=10, dtype="float32", device="cpu")
    >>> large.n_neighbors
    15
    >>> large.memory < 3e9
    True
    """
    kernel_options["device"] = device_for(X_or_shape, kernel_options.get("device", "auto"))
    options = KernelOptions(**kernel_options)
    check_choice(method, "method", METHODS)
    check_count(n_components, "n_components")
    check_power_option(power)
    if options.cutoff is not None:
        raise ValueError(f"cutoff={options.cutoff!r} was given; how many pairs it keeps is not known before a fit.")
    entries = None
    if X_or_shape is None or np.ndim(X_or_shape) < 2:
        shape, dtype = _check_shape(X_or_shape, options), np.dtype(np.float64 if dtype is None else dtype)
        if dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype} was given; the kernel is computed in float32 or float64.")
    else:
        X = check_points(X_or_shape, options)
        shape, dtype, entries = X.shape, X.dtype, getattr(X, "nnz", None)
    columns, optimised = n_components, 0
    if method == "heatsketch":
        columns, optimised = searched_columns(shape[0], power, n_components), n_components
    return predict(shape, dtype, options, n_components=columns, power=power, entries=entries, optimised=optimised)


def _check_shape(shape: Any, options: KernelOptions) -> tuple[int, int]:
    """Check that `shape` is the shape of a table."""
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
    power: Power | str | None = None,
    entries: int | None = None,
    optimised: int = 0,
) -> Estimate:
    """The memory of a fit, and its time if the power is given, for options that have been checked.

    `entries` is the number of stored entries of a sparse X, and `optimised` that of the components that `HeatSketch`
    optimises.
    """
    choice = choose(shape, dtype, options, entries)
    item = np.dtype(dtype).itemsize
    # A block of columns: the sketch in float64, its conversion, and its product.
    memory = int(shape[0]) * n_components * (8 + 5 * item) + _kernel_memory(shape, item, options, choice, entries)
    available, device = available_memory(), choice.device
    if device is not None and device.is_cuda and memory <= available and options.cutoff is None:
        memory, available = _device_memory(shape, item, choice, n_components, entries), device.free_memory()
    seconds = None
    if power is not None:
        seconds = _seconds(shape, dtype, options, choice, n_components=n_components, power=power, entries=entries)
        fixed, each = _GPU_OPTIMISED_POINT if choice.on_gpu else _OPTIMISED_POINT
        if optimised:
            work = shape[0] * (fixed + each * optimised)
            seconds += _OPTIMISED_FIXED + (work if choice.on_gpu else work * _slowness())
    return Estimate(int(shape[0]), choice.description, choice.n_neighbors, int(memory), available, seconds)


def require_columns(kernel: Any, n_columns: int) -> None:
    """Raise MemoryError if an embedding with that many columns does not fit; the memory of workers is not known."""
    size = _BLOCKS * kernel.shape[0] * n_columns * kernel.dtype.itemsize
    if kernel.in_memory and size > available_memory():
        raise MemoryError(
            f"{n_columns} components take about {size_in_words(size)}, and {size_in_words(available_memory())} are "
            "available; ask for a larger distance_error, or take leading directions exactly (n_exact='auto')."
        )


def _kernel_memory(
    shape: tuple[int, ...], item: int, options: KernelOptions, choice: Choice, entries: int | None
) -> float:
    """Peak of what the kernel takes of the machine's memory; `item` is the size of a number."""
    n, d = int(shape[0]), int(shape[1])
    if options.affinity == "precomputed":
        return _COPIES * (float(n) * n * item if entries is None else entries * (item + 4.0)) + 16 * n
    held = 8.0 * n * 16  # vectors: scalings and the history of their acceleration
    if options.measure.precomputed:
        held += 2.0 * n * n * item  # distances that are made symmetric
    chunk = 8.0 * min(CHUNK_ENTRIES, n * n) * (1.2 if d <= _DIRECT_FEATURES else 3.5)  # of distances
    if options.cutoff is not None:  # and its entries, whose number is not known yet
        return held + n * d * float(item) + chunk
    if choice.tiled and choice.on_gpu:
        return held + n * d * float(item)  # a copy of X, if it came as a tensor
    if choice.tiled:
        choosing = 3 * 8.0 * min(CHUNK_ENTRIES, n * min(n, SAMPLE))  # the bandwidth
        return held + max(choosing, n * d * (8.0 + 2 * item))
    if choice.n_neighbors is None:
        return held + float(n) * n * item + chunk * max(1.0, n_threads() / FILLS)
    listed = choice.n_neighbors + 4
    points, search = {
        "tree": (24.0 * n * d, 24.0 * min(n * listed, CHUNK_ENTRIES // 4)),
        "clusters": (float(item) * n * d, 16.0 * n * listed + 4.0 * n * d),
        "blocks": (0.0, min(2 * n_threads(), -(-n * n // CHUNK_ENTRIES)) * 2 * chunk),
        "device": (0.0, 0.0),
    }[index_kind(shape, options.measure, entries is not None, choice.device)]
    graph = n * (1 + _UNION * choice.n_neighbors) * (12.0 + item) + n * listed
    return held + points + 12.0 * n * listed + max(search, graph)


def _device_memory(shape: tuple[int, ...], item: int, choice: Choice, n_components: int, entries: int | None) -> float:
    """Peak of what a fit takes of the memory of a GPU; the search for neighbours takes what is free."""
    n, d = int(shape[0]), int(shape[1])
    blocks = n * n_components * (8 + 6.0 * item)
    if choice.n_neighbors is not None:
        graph = n * (1 + _UNION * choice.n_neighbors) * (80.0 + item)  # edges while they are sorted
        return blocks + max(graph, n * d * (24.0 + item))  # both factors of the search, and points in float32
    if choice.tiled:  # points in float64 twice, while they are sorted, and both factors in halves and eighths of them
        return blocks + n * d * (2 * 8.0 + item + 12.0) + 64.0 * n
    return blocks + (float(n) * n * item if entries is None else entries * (item + 4.0))


def _seconds(
    shape: tuple[int, ...],
    dtype: Any,
    options: KernelOptions,
    choice: Choice,
    *,
    n_components: int,
    power: Power | str,
    entries: int | None,
) -> float:
    """Time of a fit on this machine, or on its GPU."""
    n, d = int(shape[0]), int(shape[1])
    steps, traced = _steps(n, dtype, power)
    balancing = _BALANCING if options.normalization.startswith("bistochastic") else 2
    products = steps + traced / _COLUMNS + balancing
    columns = steps * max(n_components, _NARROWEST) + traced + balancing * _NARROWEST
    if choice.tiled and choice.on_gpu and choice.device is not None:
        passes = products * max(1.0, n_components / _FUSED_COLUMNS)
        return _FIXED + passes * _fused_seconds(n, d, dtype, choice.device)
    if options.affinity == "precomputed":
        work = (float(n) * n if entries is None else entries) * columns * _SPARSE_ENTRY
    elif choice.tiled:
        work = products * _tiled_seconds(n, d, n_components) / _CORES
    elif choice.n_neighbors is None:
        work = float(n) * n * (_DENSE_PAIR + columns * _DENSE_PRODUCT)
    else:
        kind = index_kind(shape, options.measure, entries is not None, choice.device)
        graph = _graph_seconds(n, choice.n_neighbors, columns)
        if kind == "device" and choice.on_gpu:
            return _FIXED + float(n) * n * (_GPU_PAIR[0] + _GPU_PAIR[1] * d) + graph * _GPU_GRAPH
        work = _search_seconds(n, d, kind) + graph
    return _FIXED + products * _CALL + work * _slowness()


def _steps(n_samples: int, dtype: Any, power: Power | str) -> tuple[float, float]:
    """Products that apply the filter to a block, and products with single columns that estimate its weights."""
    if isinstance(power, (str, MultiscaleFilter)):
        many = n_samples > FEW
        time = _TYPICAL_TIME if isinstance(power, str) else power.times[-1]
        traced = TRACE_COLUMNS[many] * TRACE_STEPS[many] if isinstance(power, str) else 0
        return _DEGREE[np.dtype(dtype)] * time**0.5, traced
    return (power if power < 128 else (2.0 * power * 24.0) ** 0.5), 0  # Chebyshev's recurrence, for errors of e^-24


def _graph_seconds(n: int, n_neighbors: int, n_columns: float) -> float:
    """Time of building a graph of neighbours and of products with it, of so many columns in all."""
    return n * _GRAPH_POINT + n * (1 + _UNION * n_neighbors) * n_columns * _SPARSE_ENTRY


def _search_seconds(n: int, d: int, kind: str) -> float:
    """Time of a search for neighbours on the CPU, of the machine of the constants above."""
    pairs = float(n) * n
    if kind == "tree":
        return n * _TREE_POINT[d - 1]
    if kind == "clusters":
        return n * _CLUSTER_POINT + _COMPARED_SHARE * pairs / 2.0 * (_CLUSTER_PAIR[0] + _CLUSTER_PAIR[1] * d)
    return pairs * _BLOCK_PAIR


@cache
def _slowness() -> float:
    """How many times longer a matrix product takes here than on the machine of the constants above."""
    size = 2048
    A = np.full((size, size), 0.5, dtype=np.float32)
    seconds = min(timeit.repeat(lambda: product(A, A), number=1, repeat=3))
    return max(_REFERENCE_FLOPS * seconds / (2.0 * size**3), 0.1)
