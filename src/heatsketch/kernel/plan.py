"""Planning: how a kernel is stored (dense, tiled or sparse), on which device, and what a fit costs in memory and time.

All of it follows from the size of the data, the options and the machine, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np

from .._utils.chunks import CHUNK_ENTRIES
from .._utils.display import Facts, Shown
from .._utils.memory import available_memory, size_in_words
from .._utils.progress import Step
from .._utils.registry import Device, device_for, find_device, has_gpu
from .._utils.text import did_you_mean, duration
from .._utils.threads import n_threads
from ..linalg.eigen import DENSE_LIMIT as DIAGONALISED
from ..linalg.eigen import check_pairs
from ..linalg.filters import MultiscaleFilter, Power, check_power_option
from ..neighbors.search import index_kind
from .affinity import FILLS
from .bandwidth import SAMPLE
from .cost import CORES, UNION, Work, diagonalises, fit_steps, fused, here, is_sparse, page_steps, tiled
from .options import KernelOptions, check_choice, check_count, check_points, is_number

__all__ = [
    "AUTO_NEIGHBORS",
    "DENSE_LIMIT",
    "LOCAL_NEIGHBORS",
    "METHODS",
    "Choice",
    "Estimate",
    "auto_neighbors",
    "check_components",
    "choose",
    "estimate",
    "faster_way",
    "predict",
    "require_columns",
    "sketch_columns",
    "wide_columns",
    "wide_work",
    "work_of",
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
_PRODUCTS, _COLUMNS = 30, 16
# "auto" looks for a GPU if the CPU would take longer than this, and uses every pair on it up to the second limit.
_WORTHWHILE, _FUSED_SECONDS = 2.0, 60.0
# Share of the available memory that the kernel may take, and that a fit may take.
_KERNEL_SHARE, _FIT_SHARE = 0.5, 0.95

# HeatSketch compares distances with a sketch of this many columns, at least, and for each component, or searches in a
# wide one, for data whose kernel is diagonalised and for larger ones.
_COMPARED_COLUMNS, _WIDE_COLUMNS = (32, 2), (512, 256)
# Methods whose fits are predicted. A fit that takes more seconds than this is reported before it starts.
METHODS = ("heatsketch", "gaussian-process", "diffusion-maps")
_LONG = 60.0
_SAMPLED = 10  # a fit to one in so many samples is proposed as a faster one, and
_PLACING = {"finding neighbours", "balancing the kernel"}  # steps that placing the others takes, too, at most
_PAGE_MEMORY = 2.5e8  # that a page takes, of any number of points (63 to 282 MB from 500 to 60,000)
_SHOWN = 0.05  # share of the time from which a step is named
_DIRECT_FEATURES = 16  # up to which distances are sums of squared differences, and need little memory
_COPIES = 4  # of a given affinity, made while it is checked and completed
_CENTRED = 3, 1  # copies of X in float64 in products of all pairs, and for other metrics than the Euclidean
_DIAGONALISED_ARRAYS = 5  # of the size of the matrix while its eigenvectors are computed
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
            quick = quick or worth_every_pair(shape, CORES)
        elif can_tile and device is not None and device.is_cuda:
            quick = quick or _PRODUCTS * fused(n, int(shape[1]), dtype, device) <= _FUSED_SECONDS
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
    wanted = auto_neighbors(options, quick=True) if options.n_neighbors == "auto" else options.n_neighbors
    if options.affinity != "precomputed" and (entries is not None or not options.measure.euclidean):
        return None
    here = Choice(None if wanted is None else int(wanted), wanted is None, "on the CPU")
    power: Power | str = _PRODUCTS if wanted is None or options.affinity == "precomputed" else "auto"
    steps = fit_steps(shape, np.float64, options, here, Work(_COLUMNS), power=power, entries=entries)
    return find_device("cuda") if _total(steps) > _WORTHWHILE and has_gpu() else None


def worth_every_pair(shape: tuple[int, ...], n_workers: int) -> bool:
    """Whether a typical fit to every pair, formed on the fly, takes seconds on this many cores."""
    return _PRODUCTS * tiled(int(shape[0]), int(shape[1]), _COLUMNS) / n_workers <= _TILED_SECONDS


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
        Peak memory in bytes, besides X and the program itself (about 200 MB). For a fit on a GPU, memory of the GPU,
        unless that of the machine is too small.
    available : int
        Available memory in bytes, of the GPU or of the machine.
    steps : tuple of (str, float)
        The steps of the fit, and of the page if one was asked for, in their order, and their seconds on this machine.
    seconds : float
        Of all steps.

    Examples
    --------
    >>> import heatsketch as hs
    >>> cost = hs.estimate((50_000, 100), n_components=10, device="cpu")
    >>> cost.held, cost.fits
    ('15 neighbours', True)
    >>> [step for step, seconds in cost.steps][-2:]
    ['multiplying by the kernel', 'optimising the embedding']
    >>> hs.estimate((50_000, 100), method="gaussian-process", n_components=10, device="cpu").seconds < cost.seconds
    True
    """

    n_samples: int
    held: str
    n_neighbors: int | None
    memory: int
    available: int
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all steps, on this machine."""
        return _total(self.steps)

    @property
    def fits(self) -> bool:
        """Whether the available memory suffices."""
        return self.memory <= _FIT_SHARE * self.available

    @property
    def is_long(self) -> bool:
        """Whether it takes more than a minute."""
        return self.seconds > _LONG

    def require_memory(self) -> None:
        """Raise a MemoryError with a remedy if the fit needs more memory than there is."""
        if not self.fits:
            raise MemoryError(
                f"{self.n_samples:,} samples with {self.held} take about {size_in_words(self.memory)} of memory, and "
                f"{size_in_words(self.available)} are available. {self._remedy} heatsketch.estimate predicts what "
                "each takes."
            )

    @property
    def _remedy(self) -> str:
        """What to do if the memory does not suffice."""
        every_pair = "neighbours instead of every pair (n_neighbors=32), or " if self.n_neighbors is None else ""
        return f"Use {every_pair}fewer components, float32 data, or a sample of the points with transform for the rest."

    def __str__(self) -> str:
        needed, available = size_in_words(self.memory), size_in_words(self.available)
        cost = (
            f"{self.n_samples:,} samples, {self.held}: about {duration(self.seconds)} and {needed} of memory besides "
            f"the data and the program (about 200 MB); {available} are available."
        )
        return cost if self.fits else f"{cost} This does not fit. {self._remedy}"

    def _facts(self) -> Facts:
        return [
            ("samples", f"{self.n_samples:,}"),
            ("kernel", self.held),
            ("memory", f"about {size_in_words(self.memory)}, and {size_in_words(self.available)} are available"),
            ("time", f"about {duration(self.seconds)}"),
            *((name, duration(seconds)) for name, seconds in self.steps if seconds > _SHOWN * self.seconds),
        ]


def _total(steps: Iterable[Step]) -> float:
    return sum(seconds for _, seconds in steps)


def sketch_columns(n_components: int) -> int:
    """Columns of the sketch with which `HeatSketch` compares distances, for all times of a graph of neighbours."""
    return max(_COMPARED_COLUMNS[0], _COMPARED_COLUMNS[1] * n_components)


def wide_columns(n_samples: int, n_components: int) -> int:
    """Columns of the wide sketch among whose projections `HeatSketch` searches at a single time."""
    return max(_WIDE_COLUMNS[n_samples > DIAGONALISED], n_components)


def wide_work(n_samples: int, n_components: int) -> Work:
    """What `HeatSketch` does with a kernel if it searches among the projections of a wide sketch."""
    columns = wide_columns(n_samples, n_components)
    return Work(columns, optimised=n_components, directions=columns // 2)


def work_of(method: str, n_samples: int, power: Power | str, n_components: int) -> Work:
    """What a method does with a graph of neighbours; `predict` allows for other kernels."""
    if method != "heatsketch":
        return Work(n_components, eigenvectors=n_components if method == "diffusion-maps" else 0)
    if isinstance(power, (str, MultiscaleFilter)):
        return Work(sketch_columns(n_components), optimised=n_components)
    return wide_work(n_samples, n_components)


def check_components(method: str, n_samples: int, n_components: int) -> None:
    """Raise ValueError if the samples do not have that many eigenvectors, or fill fewer dimensions."""
    most = n_samples - 1
    if method == "diffusion-maps":
        check_pairs(n_components, most, n_samples)
    # As many components as samples are accepted: two for two samples are the default.
    if method == "heatsketch" and n_components > n_samples:
        raise ValueError(
            f"n_components={n_components} was given for {n_samples} samples; use at most {most}, which suffice to keep "
            "all distances."
        )


def estimate(
    X_or_shape: Any,
    *,
    method: str = "heatsketch",
    n_components: int = 2,
    power: Power | str = "auto",
    page: bool = False,
    dtype: Any = None,
    **kernel_options: Any,
) -> Estimate:
    """Predict the memory and the time that an embedding takes, without computing it.

    Parameters
    ----------
    X_or_shape : array-like or sparse matrix, or tuple (n_samples, n_features)
    method : {"heatsketch", "gaussian-process", "diffusion-maps"}
        :class:`HeatSketch` with its default objective, :class:`GaussianProcessEmbedding` without `n_exact`, or
        :class:`DiffusionMaps`.
    n_components, power
        As for these estimators.
    page : bool, default=False
        Whether to include the page that :func:`write_report` writes.
    dtype : dtype, optional
        Type of the data if a shape is given; float64 by default.
    **kernel_options
        Options of :func:`heat_kernel`, such as `n_neighbors`, `metric` and `device`. `cutoff` is not supported, because
        the number of pairs above it is not known before a fit.

    Returns
    -------
    estimate : Estimate
        Mostly within a factor of two (`docs/scale.md` has the measurements). The time of eigenvectors may be several
        times longer or shorter, because it depends on how close the eigenvalues are to each other. So may that of
        HeatSketch with every pair of more than 2000 points, because it depends on the longest diffusion time.

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
    known = [*signature(estimate).parameters, *(field.name for field in fields(KernelOptions))]
    if strange := sorted(kernel_options.keys() - {*known}):
        raise TypeError(f"estimate() has no parameter {strange[0]!r}.{did_you_mean(strange[0], known)}")
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
    check_components(method, shape[0], n_components)
    work = work_of(method, shape[0], power, n_components)
    return predict(shape, dtype, options, work, power=power, entries=entries, page=page, measured=True)


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
    work: Work,
    *,
    power: Power | str,
    entries: int | None = None,
    page: bool = False,
    measured: bool = False,
) -> Estimate:
    """The memory and the time of a fit, for options that have been checked, and the time of a page if one is made.

    `entries` is the number of stored entries of a sparse X. With `measured` the speed of this machine is measured even
    for a fit of a moment.
    """
    choice = choose(shape, dtype, options, entries)
    n, item, graph = int(shape[0]), np.dtype(dtype).itemsize, is_sparse(options, choice, entries)
    if work.optimised and not graph:
        work = wide_work(n, work.optimised)
    memory = _kernel_memory(shape, item, options, choice, entries)
    if diagonalises(n, work, graph=graph):
        memory = max(memory, _DIAGONALISED_ARRAYS * 8.0 * n * n)
    memory += n * work.held * (8 + 5 * item)  # a block of columns in float64, its conversion, and its product
    memory = max(memory, _PAGE_MEMORY) if page else memory
    available, device = available_memory(), choice.device
    if device is not None and device.is_cuda and memory <= available and options.cutoff is None:
        memory, available = _device_memory(shape, item, choice, work.held, entries), device.free_memory()
    steps = fit_steps(shape, dtype, options, choice, work, power=power, entries=entries)
    steps += page_steps(n) if page else []
    steps = steps if choice.on_gpu else here(steps, measured=measured)
    return Estimate(n, choice.description, choice.n_neighbors, int(memory), available, tuple(steps))


def faster_way(expected: Estimate, shape: tuple[int, ...], options: KernelOptions, fit: Callable[..., Estimate]) -> str:
    """A way to embed the data in half of the time or less, as the end of a sentence; empty if none is known.

    `fit` predicts fits to other shapes and with other options.
    """
    fitted = int(shape[0]) // _SAMPLED
    placing = sum(seconds for step, seconds in expected.steps if step in _PLACING)
    ways = [
        (f"n_neighbors={AUTO_NEIGHBORS}", shape, replace(options, n_neighbors=AUTO_NEIGHBORS), 0.0),
        (f"a fit to {fitted:,} random samples, with transform for the others,", (fitted, *shape[1:]), options, placing),
    ]
    for way, less, cheaper, further in ways:
        seconds = fit(less, options=cheaper).seconds + further
        if seconds < expected.seconds / 2.0:
            return f"; {way} takes about {duration(seconds)}"
    return ""


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
    numbers = 0.0 if options.measure.precomputed else float(n) * d if entries is None else float(entries)
    copies = 8.0 * numbers * _CENTRED[not options.measure.euclidean] if d > _DIRECT_FEATURES else 0.0
    if choice.n_neighbors is None:
        return held + copies + float(n) * n * item + chunk * max(1.0, n_threads() / FILLS)
    listed = choice.n_neighbors + 4
    points, search = {
        "tree": (24.0 * n * d, 24.0 * min(n * listed, CHUNK_ENTRIES // 4)),
        "clusters": (float(item) * n * d, 16.0 * n * listed + 4.0 * n * d),
        "blocks": (copies, min(2 * n_threads(), -(-n * n // CHUNK_ENTRIES)) * 2 * chunk),
        "device": (0.0, 0.0),
    }[index_kind(shape, options.measure, entries is not None, choice.device)]
    graph = n * (1 + UNION * choice.n_neighbors) * (12.0 + item) + n * listed
    return held + points + 12.0 * n * listed + max(search, graph)


def _device_memory(shape: tuple[int, ...], item: int, choice: Choice, n_components: int, entries: int | None) -> float:
    """Peak of what a fit takes of the memory of a GPU; the search for neighbours takes what is free."""
    n, d = int(shape[0]), int(shape[1])
    blocks = n * n_components * (8 + 6.0 * item)
    if choice.n_neighbors is not None:
        graph = n * (1 + UNION * choice.n_neighbors) * (80.0 + item)  # edges while they are sorted
        return blocks + max(graph, n * d * (24.0 + item))  # both factors of the search, and points in float32
    if choice.tiled:  # points in float64 twice, while they are sorted, and both factors in halves and eighths of them
        return blocks + n * d * (2 * 8.0 + item + 12.0) + 64.0 * n
    return blocks + (float(n) * n * item if entries is None else entries * (item + 4.0))
