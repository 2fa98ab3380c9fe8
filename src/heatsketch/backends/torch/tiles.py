"""Shapes of tiles: which suit which product, and which of them suits the chip at hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from .halves import DEEP
from .programs import VALUES

__all__ = ["Tile", "differences_tiles", "halves_tiles", "with_best_tile"]

# Chips of this capability are those that the tiles below were measured on (benchmarks/gpu); on others they are timed
# when a product has more than so many pairs, on so many rows for each multiprocessor.
_MEASURED = (9, 0)
_WORTHWHILE = 10**10
_TRIAL_ROWS = 256
_chosen: dict[Hashable, Tile] = {}


@dataclass(frozen=True)
class Tile:
    """Shape of the tiles and resources of a program.

    Attributes
    ----------
    rows, columns : int
        Powers of two; rows at most 256, columns at most 1024.
    warps, stages : int
    """

    rows: int
    columns: int
    warps: int
    stages: int


# For chips with less memory at each multiprocessor, and for deep factors.
_SMALLER = Tile(64, 64, 4, 2), Tile(64, 32, 4, 2), Tile(32, 32, 4, 1)


def halves_tiles(mode: int, size: int, width: int) -> tuple[Tile, ...]:
    """Tiles for factors of `size` bytes a row and `width` columns, the best first."""
    deep = size > 2 * DEEP
    if deep or mode != VALUES:
        first = Tile(64, 64, 4, 3) if size <= 64 else Tile(128, 64, 4, 3)
    elif width > 32:
        first = Tile(64, 64, 4, 3) if size <= 128 else Tile(128, 32, 4, 3)
    else:
        first = Tile(128, 64, 4, 4) if size <= 128 else Tile(128, 64, 4, 3)
    return first, Tile(128, 64, 4, 2), *_SMALLER


def differences_tiles(mode: int) -> tuple[Tile, ...]:
    """Tiles for differences, the best first."""
    return Tile(128, 32, 4, 3) if mode == VALUES else Tile(64, 32, 4, 3), *_SMALLER


def with_best_tile(
    key: Hashable, options: Sequence[Tile], launch: Callable[[Tile, int], Any], shape: tuple[int, int]
) -> Any:
    """What `launch` gives with the tile that suits the chip: known, or tried.

    Parameters
    ----------
    key : hashable
        Of the product and the device.
    options : sequence of Tile
    launch : callable
        With a tile and a number of rows.
    shape : tuple of int
        Rows and columns of the product.

    Raises
    ------
    MemoryError
        If the chip has not the resources for any of them.
    """
    if key in _chosen:
        return launch(_chosen[key], shape[0])
    if shape[0] * shape[1] > _WORTHWHILE and len(options) > 1 and _unmeasured():
        options = _by_time(options, launch, shape[0])
    for tile in options:
        try:
            out = launch(tile, shape[0])
        except OutOfResources:
            continue
        if shape[0] * shape[1] > _WORTHWHILE or not _unmeasured():
            _chosen[key] = tile
        return out
    raise MemoryError(
        f"{torch.cuda.get_device_name()} has not the memory on its multiprocessors for a product with this many "
        "features; use device='cpu' or float64 data."
    )


def _unmeasured() -> bool:
    return bool(torch.cuda.is_available() and torch.cuda.get_device_capability() != _MEASURED)


def _by_time(options: Sequence[Tile], launch: Callable[[Tile, int], Any], n_rows: int) -> list[Tile]:
    """The tiles that the chip has the resources for, fastest first."""
    multiprocessors = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    n_rows = min(n_rows, _TRIAL_ROWS * multiprocessors)
    seconds: dict[Tile, float] = {}
    event: Any = torch.cuda.Event
    for tile in options:
        begin, end = (event(enable_timing=True) for _ in range(2))
        try:
            launch(tile, n_rows)  # compiles it
        except OutOfResources:
            continue
        begin.record()
        launch(tile, n_rows)
        end.record()
        end.synchronize()
        seconds[tile] = begin.elapsed_time(end)
    return sorted(seconds, key=lambda tile: seconds[tile])
