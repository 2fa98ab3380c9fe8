"""How a kernel will be held, chosen from the size of the data and the machine before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .inputs import KernelOptions
from .resources import available_memory, size_in_words
from .threads import n_threads

__all__ = ["AUTO_NEIGHBORS", "Choice", "choose", "tiled_seconds"]

AUTO_NEIGHBORS = 32
# n_neighbors="auto" holds all pairs up to this many points: 0.8 GB in float64.
_DENSE_LIMIT = 10_000
# Beyond, it forms them on the fly where the products of an ordinary fit (some thirty, with sixteen columns) take no
# longer than about this many seconds.
_TILED_SECONDS = 5.0
_PRODUCTS = 30
_COLUMNS = 16
# Seconds of one core for a kernel entry that is formed on the fly, and for each feature and twice each column.
TILE_PAIR = (2.0e-9, 2.6e-11)
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
    """

    n_neighbors: int | None
    tiled: bool
    reason: str


def tiled_seconds(n_samples: int, n_features: int, n_columns: int) -> float:
    """Seconds of one core for a product with a kernel that is formed on the fly."""
    return n_samples * float(n_samples) / 2.0 * (TILE_PAIR[0] + TILE_PAIR[1] * (n_features + 2 * n_columns))


def choose(shape: tuple[int, ...], dtype: Any, options: KernelOptions, sparse_points: bool = False) -> Choice:
    """Choose between every pair held, every pair formed on the fly, and neighbours.

    Raises
    ------
    MemoryError
        If every pair was asked for, must be held (metrics other than Euclidean), and cannot be.
    """
    n = int(shape[0])
    size, memory = n * n * np.dtype(dtype).itemsize, available_memory()
    fits = size <= _MEMORY_SHARE * memory
    can_tile = options.measure.euclidean and options.metric != "sqeuclidean" and not sparse_points
    wanted = options.n_neighbors
    if options.cutoff is not None:
        return Choice(None, False, f"pairs whose affinity is at least {options.cutoff:g}")
    if wanted == "auto":
        if n <= _DENSE_LIMIT and fits:
            return Choice(None, False, f"every pair, held ({size_in_words(size)})")
        seconds = _PRODUCTS * tiled_seconds(n, int(shape[1]), _COLUMNS) / n_threads()
        if can_tile and seconds <= _TILED_SECONDS:
            return Choice(None, True, "every pair, formed on the fly")
        wanted = AUTO_NEIGHBORS
    if wanted is not None and int(wanted) < n - 1:
        return Choice(int(wanted), False, f"{wanted} neighbours")
    if can_tile and not (n <= _DENSE_LIMIT and fits):
        return Choice(None, True, "every pair, formed on the fly")
    if fits:
        return Choice(None, False, f"every pair, held ({size_in_words(size)})")
    raise MemoryError(
        f"every pair of {n} points with metric={options.metric!r} takes a matrix of {size_in_words(size)}, and "
        f"{size_in_words(memory)} are available; keep neighbours only (n_neighbors={AUTO_NEIGHBORS}), or use the "
        "Euclidean metric on dense points, for which the kernel need not be held."
    )
