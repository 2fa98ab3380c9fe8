"""Fused products with the Gaussian kernel by Triton: exponents, exponentials and product of a tile in one pass.

A program handles a block of rows and loops over the columns in groups of 1024, tile by tile. Kernel entries never
leave the registers. Tensor cores multiply float16 numbers; the result is as accurate as float32 because

- kernel entries and the columns that they multiply are each the sum of two float16 numbers,
  ``p v = p' v' + p' v'' + p'' v'``: with one each, a product with random columns would be off by 3e-4, since the errors
  do not average out;
- tensor cores truncate sums instead of rounding them, so long sums of positive numbers drift downwards: they add up
  only the tiles of a group, and groups are added in float32;
- entries are multiplied by 2^15 and columns are scaled to about 2^14, so that small ones keep their digits in float16.

A single column needs no tensor core: it is multiplied and added in float32. For many points every entry is computed
once and serves a row and a column (`by_symmetry`). Programs that run together have no point in common, so that sums
have one order and products repeat to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from triton.runtime.errors import OutOfResources

from .halves import DEEP, PIECE, leading
from .programs import GROUP, LARGEST, ROWS, SINGLE, VALUES, differences_kernel, halves_kernel, symmetric_kernel
from .tensors import on

__all__ = [
    "COLUMNS",
    "GROUP",
    "ROWS",
    "SHIFT",
    "Halves",
    "Lists",
    "Task",
    "Tile",
    "by_differences",
    "by_halves",
    "by_symmetry",
    "differences_tiles",
    "fitted",
    "halves_tiles",
    "shared",
    "symmetric_tiles",
    "worth_symmetry",
]

# Kernel entries are multiplied by two to this power, just within the range of float16.
SHIFT = 15.0
# Most columns that are multiplied at a time.
COLUMNS = 64
# Programs for each multiprocessor, below which the columns are shared between programs too.
_PROGRAMS = 8


class Halves(NamedTuple):
    """A factor: rows whose inner products are exponents. Rows beyond the points are zero."""

    columns: Any  # float16, (n_padded, K)
    eighths: Any  # float8, (n_padded, E), or None; their inner products are multiplied by 2^-12


class Lists(NamedTuple):
    """Groups of columns that are not negligible for block b of 256 rows, from ``starts[b]`` to ``starts[b + 1]``."""

    starts: Any  # int64, (n_blocks + 1,)
    groups: Any  # int32


class Tile(NamedTuple):
    """Shape of the tiles of a program (powers of two, at most 256 x 1024), and its resources."""

    rows: int
    columns: int
    warps: int
    stages: int


# For chips with less memory for each multiprocessor, and for deep factors.
_SMALLER = Tile(64, 64, 4, 2), Tile(64, 32, 4, 2), Tile(32, 32, 4, 1)
# The first tile for which a device has the resources, by device and product.
_fitting: dict[Hashable, Tile] = {}


def halves_tiles(mode: int, size: int, width: int, *, rough: bool = False) -> tuple[Tile, ...]:
    """Tiles for factors of `size` bytes a row and `width` columns, the fastest on an H200 first."""
    if rough and width <= 32 and size <= 2 * DEEP:
        first = Tile(64, 64, 4, 3) if size <= 64 else Tile(128, 64, 8, 3)
    elif size > 2 * DEEP or mode != VALUES:
        first = Tile(64, 64, 4, 3) if size <= 64 else Tile(128, 64, 4, 3)
    elif width > 32:
        first = Tile(64, 64, 4, 3) if size <= 128 else Tile(128, 32, 4, 3)
    else:
        first = Tile(128, 64, 4, 4) if size <= 128 else Tile(128, 64, 4, 3)
    return first, Tile(128, 64, 4, 2), *_SMALLER


def differences_tiles(mode: int) -> tuple[Tile, ...]:
    """Tiles for differences, the fastest on an H200 first."""
    return Tile(128, 32, 4, 3) if mode == VALUES else Tile(64, 32, 4, 3), *_SMALLER


def symmetric_tiles(size: int) -> tuple[Tile, ...]:
    """Tiles for symmetric products of one column with factors of `size` bytes a row, the fastest on an H200 first."""
    first = (Tile(64, 128, 4, 3),) if size <= 2 * DEEP else ()
    return *first, Tile(64, 64, 4, 3), *_SMALLER


def fitted(there: Any, key: tuple[Hashable, ...], tiles: Sequence[Tile], launch: Callable[[Tile], Any]) -> Any:
    """What `launch` returns for the first tile for which the device of a tensor has the resources."""
    key = there.device, *key
    with on(there):
        for tile in (_fitting[key],) if key in _fitting else tiles:
            try:
                out = launch(tile)
            except OutOfResources:
                continue
            _fitting[key] = tile
            return out
        raise MemoryError(
            f"{torch.cuda.get_device_name()} has too little memory on its multiprocessors for this many "
            "features; use device='cpu' or float64 data."
        )


@dataclass(frozen=True)
class Task:
    """A product of a kernel with `n_rows` rows and `n_columns` columns."""

    n_rows: int
    n_columns: int
    # First and second halves of C columns, float16, (n_padded, 2 C); or a single column, float32, (n_padded,); or None
    # for the largest exponent of each row.
    values: Any
    zero_diagonal: bool = False
    lists: Lists | None = None  # by default all groups are multiplied
    rough: bool = False  # one float16 number for each entry and column; `values` are (n_padded, C)

    @property
    def mode(self) -> int:
        """What a program computes from its tiles."""
        if self.values is None:
            return LARGEST
        return SINGLE if self.values.ndim == 1 else VALUES

    @property
    def width(self) -> int:
        """Columns of the result."""
        if self.mode != VALUES:
            return 1
        return int(self.values.shape[1]) // (1 if self.rough else 2)

    def run(self, kernel: Any, tiles: Sequence[Tile], head: tuple[Any, ...], *tail: Any, **constants: Any) -> Any:
        """Run a program with the first tile for which the device has the resources.

        `head` and `tail` are the arguments before and after those that all programs have. Returns a tensor of float32,
        shape (n_rows, width).
        """
        key = kernel.fn.__name__, self.mode, self.rough, self.width, *constants.values()
        return fitted(head[0], key, tiles, lambda tile: self._launch(kernel, tile, head, *tail, **constants))

    def _launch(self, kernel: Any, tile: Tile, head: tuple[Any, ...], *tail: Any, **constants: Any) -> Any:
        """Run a program over all rows; if these are few, several programs share the columns of a block."""
        device = head[0].device
        blocks, n_groups = -(-self.n_rows // tile.rows), -(-self.n_columns // GROUP)
        shares = shared(n_groups, blocks, device)
        out = torch.empty((shares, self.n_rows, self.width), dtype=torch.float32, device=device)
        lists = Lists(out, out) if self.lists is None else self.lists
        values = out if self.values is None else self.values
        sizes = self.n_rows, self.n_columns, n_groups
        kernel[blocks, shares](
            *head, values, out, lists.starts, lists.groups, *sizes, *tail,
            C=self.width, MODE=self.mode, ROUGH=self.rough, ZERO=self.zero_diagonal, SKIP=self.lists is not None,
            BM=tile.rows, BN=tile.columns, STAGES=tile.stages,
            num_warps=tile.warps, num_stages=tile.stages, enable_fp_fusion=True,
            **constants,
        )  # fmt: skip
        return out[0] if shares == 1 else out.amax(0) if self.values is None else out.sum(0)


def by_halves(left: Halves, right: Halves, task: Task) -> Any:
    """``2^(L R^T) V``, or the largest exponent of each row, (n_rows, width), with rows of L and R padded."""
    K, E = left.columns.shape[1], 0 if left.eighths is None else left.eighths.shape[1]
    depths = {"K": K, "K1": leading(K), "E": E, "PIECE": PIECE if K > DEEP else 0}
    tiles = halves_tiles(task.mode, 2 * K + E, task.width, rough=task.rough)
    return task.run(halves_kernel, tiles, _tensors(left, right), **depths)


def worth_symmetry(left: Halves) -> bool:
    """Whether symmetric products are faster for these points: enough blocks of them keep the device busy."""
    groups, K = left.columns.shape[0] // GROUP, left.columns.shape[1]
    return bool(groups >= 2 * _multiprocessors(left.columns.device) and K <= DEEP)


def by_symmetry(left: Halves, right: Halves, values: Any) -> Any:
    """``2^(L R^T) v``, (n_padded, 1) in float64, for a symmetric matrix and one padded column of float32, (n_padded,).

    Blocks of points take turns as in a tournament: in each of an odd number of turns, every block meets another one,
    and all pairs of blocks meet once. Sums over the rows of a pair and over its columns then go to different blocks.
    """
    n, K = left.columns.shape
    E = 0 if left.eighths is None else left.eighths.shape[1]
    device = values.device
    size = GROUP * max(1, -(-n // (4 * _multiprocessors(device) * GROUP)))
    blocks = -(-n // size)
    odd = blocks + 1 - blocks % 2  # an empty block completes the turns

    def launch(tile: Tile) -> Any:
        out = torch.zeros(n, dtype=torch.float64, device=device)
        options = {
            "K": K, "K1": leading(K), "E": E, "BM": tile.rows, "BN": tile.columns, "STAGES": tile.stages,
            "num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": True,
        }  # fmt: skip
        head = *_tensors(left, right), values, out
        symmetric_kernel[(blocks,)](*head, 0, odd, size, n, PAIRS=False, **options)
        for turn in range(odd if odd > 1 else 0):
            symmetric_kernel[(odd // 2,)](*head, turn, odd, size, n, PAIRS=True, **options)
        return out[:, None]

    return fitted(values, (symmetric_kernel.fn.__name__, K, E), symmetric_tiles(2 * K + E), launch)


def _tensors(left: Halves, right: Halves) -> tuple[Any, Any, Any, Any]:
    """The tensors of both factors; a program that does not use float8 is given others in their place."""
    eighths = (left.columns, right.columns) if left.eighths is None else (left.eighths, right.eighths)
    return left.columns, right.columns, *eighths


def by_differences(x: Any, y: Any, scales: tuple[Any, Any, Any], task: Task) -> Any:
    """``2^(shift_i - a_i b_j |x_i - y_j|^2) V``, or the largest exponent of each row, (n_rows, width).

    The points x, (d, rows), and y, (d, columns), are padded; `scales` are a, b and shift.
    """
    a, b, shift = scales
    strides = x.stride(0), y.stride(0)
    return task.run(differences_kernel, differences_tiles(task.mode), (x, y, a, b, shift), *strides, D=x.shape[0])


def shared(n_parts: int, blocks: int, device: Any) -> int:
    """How many programs share the columns of a block of rows, which come in `n_parts`, to keep a device busy."""
    return max(1, min(n_parts, _PROGRAMS * _multiprocessors(device) // blocks))


@cache
def _multiprocessors(device: Any) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1
