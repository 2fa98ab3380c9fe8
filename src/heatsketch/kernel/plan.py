"""How a kernel will be held, chosen from the size of the data and the machine before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.memory import available_memory, size_in_words
from .._utils.registry import Device, find_device, has_gpu
from .options import KernelOptions

__all__ = [
    "AUTO_NEIGHBORS",
    "DENSE_LIMIT",
    "Choice",
    "choose",
    "choose_device",
    "fused_seconds",
    "kept_neighbors",
    "tiled_seconds",
    "worth_every_pair",
]

AUTO_NEIGHBORS = 32
# n_neighbors="auto" holds all pairs up to this many points: 0.8 GB in float64.
DENSE_LIMIT = 10_000
# Beyond, it forms them on the fly where the products of an ordinary fit (some thirty, with sixteen columns) take no
# longer than about this many seconds.
_TILED_SECONDS = 5.0
_PRODUCTS = 30
# ... on so many cores, whatever the machine has: the same data get the same kernel everywhere.
_CORES = 2
_COLUMNS = 16
# Seconds of one core for a kernel entry that is formed on the fly, and for each feature and twice each column.
TILE_PAIR = (2.0e-9, 2.6e-11)
# "auto" looks for a GPU where one core would take longer than this, in seconds; on it every pair is used while an
# ordinary fit takes no longer than so many. A given entry takes that many seconds to multiply by a number.
_WORTHWHILE, _FUSED_SECONDS = 5.0, 60.0
_ENTRY = 3e-10
# Seconds of a GPU with so many multiprocessors for a kernel entry, and for each feature (benchmarks/gpu); float64 takes
# that many times as long.
FUSED_PAIR = (4.5e-13, 9.0e-15)
_MULTIPROCESSORS = 132
_FLOAT64 = 30.0
# Share of the available memory that the kernel may take.
_MEMORY_SHARE = 0.5


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
        In words, for those who want to know.
    device : Device or None
        Where products are computed; None for NumPy on the CPU.
    """

    n_neighbors: int | None
    tiled: bool
    reason: str
    device: Device | None = None


def tiled_seconds(n_samples: int, n_features: int, n_columns: int) -> float:
    """Seconds of one core for a product with a kernel that is formed on the fly."""
    return n_samples * float(n_samples) / 2.0 * (TILE_PAIR[0] + TILE_PAIR[1] * (n_features + 2 * n_columns))


def worth_every_pair(shape: tuple[int, ...], n_workers: int) -> bool:
    """Whether an ordinary fit to every pair, formed on the fly, is soon done by so many cores."""
    return _PRODUCTS * tiled_seconds(int(shape[0]), int(shape[1]), _COLUMNS) / n_workers <= _TILED_SECONDS


def fused_seconds(n_samples: int, n_features: int, dtype: Any, device: Device) -> float:
    """Seconds of a GPU for a product, of up to 32 columns, with a kernel that is formed on the fly."""
    pair = FUSED_PAIR[0] + FUSED_PAIR[1] * n_features
    if np.dtype(dtype) == np.float64:
        pair *= _FLOAT64
    return n_samples * float(n_samples) * pair * _MULTIPROCESSORS / device.multiprocessors


def choose_device(shape: tuple[int, ...], options: KernelOptions, *, entries: int | None = None) -> Device | None:
    """Where to compute. "auto" looks for a GPU only where the CPU would take long; entries are those of a sparse X."""
    if options.device != "auto":
        return find_device(options.device)
    n, d = int(shape[0]), int(shape[1])
    if options.affinity == "precomputed":
        seconds = _PRODUCTS * _COLUMNS * _ENTRY * (float(n) * n if entries is None else entries)
    elif entries is not None or not options.measure.euclidean:
        return None
    else:
        seconds = _PRODUCTS * tiled_seconds(n, d, _COLUMNS)
    worthwhile = seconds / _CORES > _WORTHWHILE and has_gpu()
    return find_device("cuda") if worthwhile else None


def choose(  # noqa: PLR0911 - a line for each case
    shape: tuple[int, ...], dtype: Any, options: KernelOptions, sparse_points: bool = False
) -> Choice:
    """Choose between every pair held, every pair formed on the fly, and neighbours.

    Raises
    ------
    MemoryError
        If every pair was asked for, must be held (metrics other than Euclidean), and cannot be.
    """
    device = choose_device(shape, options, entries=0 if sparse_points else None)
    if device is not None:
        return replace(_choose_there(shape, dtype, options, sparse_points, device), device=device)
    n = int(shape[0])
    size, memory = n * n * np.dtype(dtype).itemsize, available_memory()
    fits = size <= _MEMORY_SHARE * memory
    can_tile = _can_tile(options, sparse_points)
    wanted = options.n_neighbors
    if options.cutoff is not None:
        return Choice(None, False, f"pairs whose affinity is at least {options.cutoff:g}")
    if wanted == "auto":
        if n <= DENSE_LIMIT and fits:
            return Choice(None, False, f"every pair, held ({size_in_words(size)})")
        if can_tile and (n <= DENSE_LIMIT or worth_every_pair(shape, _CORES)):
            return Choice(None, True, "every pair, formed on the fly")
        wanted = AUTO_NEIGHBORS
    if wanted is not None and int(wanted) < n - 1:
        return Choice(int(wanted), False, f"{wanted} neighbours")
    if can_tile and not (n <= DENSE_LIMIT and fits):
        return Choice(None, True, "every pair, formed on the fly")
    if fits:
        return Choice(None, False, f"every pair, held ({size_in_words(size)})")
    raise _too_large(n, options, size, memory)


@singledispatch
def kept_neighbors(X: Any, options: KernelOptions) -> int | None:
    """How many neighbours of each of the points will be kept, None for every pair; backends register their arrays."""
    return choose(X.shape, X.dtype, options, sparse.issparse(X)).n_neighbors


def _choose_there(
    shape: tuple[int, ...], dtype: Any, options: KernelOptions, sparse_points: bool, device: Device
) -> Choice:
    """The same choice on a device, where every pair is soon formed."""
    n = int(shape[0])
    wanted, tiles = options.n_neighbors, _can_tile(options, sparse_points)
    if options.cutoff is not None:
        return Choice(None, False, f"pairs whose affinity is at least {options.cutoff:g}, on {device.chip}")
    if wanted == "auto":
        quick = n <= DENSE_LIMIT
        if tiles and not quick and device.is_cuda:
            quick = _PRODUCTS * fused_seconds(n, int(shape[1]), dtype, device) <= _FUSED_SECONDS
        wanted = None if quick else AUTO_NEIGHBORS
    if wanted is not None and int(wanted) < n - 1:
        return Choice(int(wanted), False, f"{wanted} neighbours, on {device.chip}")
    if tiles:
        return Choice(None, True, f"every pair, formed on the fly on {device.chip}")
    size, memory = n * n * np.dtype(dtype).itemsize, available_memory()
    if size > _MEMORY_SHARE * memory:
        raise _too_large(n, options, size, memory)
    return Choice(None, False, f"every pair, held ({size_in_words(size)}) on {device.chip}")


def _can_tile(options: KernelOptions, sparse_points: bool) -> bool:
    """Whether kernel entries can be formed on the fly."""
    return options.measure.euclidean and options.metric != "sqeuclidean" and not sparse_points


def _too_large(n: int, options: KernelOptions, size: int, memory: int) -> MemoryError:
    return MemoryError(
        f"every pair of {n} points with metric={options.metric!r} takes a matrix of {size_in_words(size)}, and "
        f"{size_in_words(memory)} are available; keep neighbours only (n_neighbors={AUTO_NEIGHBORS}), or use the "
        "Euclidean metric on dense points, for which the kernel need not be held."
    )
