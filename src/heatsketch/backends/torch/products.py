"""Products with the Gaussian kernel in one pass, by Triton: exponents, exponential and product of a tile at a time.

A program takes a block of rows and goes over the columns in groups of 1024, tile by tile. Nothing of the kernel leaves
the chip's registers. What makes the result as accurate as float32, though matrix units multiply halves:

- the entries of a tile and the columns they multiply are each the sum of two halves, ``p v = p' v' + p' v'' + p'' v'``:
  with one half each, a product with random columns would be off by 3e-4, since nothing averages out;
- matrix units cut off what they add instead of rounding it: a long sum of positive numbers drifts downwards. Only the
  tiles of a group are added there, and groups in float32 outside;
- entries are multiplied by 2^15 and columns brought near to 2^14, so that small ones keep their digits as halves.

A single column needs no matrix unit: it is multiplied and added in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from .halves import DEEP, PIECE, Halves
from .programs import GROUP, LARGEST, ROWS, SINGLE, VALUES, differences_kernel, halves_kernel
from .tiles import Tile, differences_tiles, halves_tiles, with_best_tile

__all__ = ["COLUMNS", "GROUP", "ROWS", "SHIFT", "Lists", "Task", "by_differences", "by_halves"]

# Kernel entries are multiplied by two to this power, just within the range of a half.
SHIFT = 15.0
# Programs to a multiprocessor below which the columns are shared out as well.
_PROGRAMS = 8
# Most columns that are multiplied at a time.
COLUMNS = 64


@dataclass(frozen=True)
class Lists:
    """Groups of columns that have anything to give to a block of 256 rows.

    Attributes
    ----------
    starts : tensor of int32, shape (n_blocks + 1,)
    groups : tensor of int32
        Those of block b from ``starts[b]`` to ``starts[b + 1]``.
    """

    starts: Any
    groups: Any


@dataclass(frozen=True)
class Task:
    """A product to be made.

    Attributes
    ----------
    n_rows, n_columns : int
        Of the kernel.
    values : tensor of float16, shape (n_padded, 2 C), of float32, shape (n_padded,), or None
        First and second halves of C columns; or a single one; or None: the largest exponent of each row is wanted.
    zero_diagonal : bool
    lists : Lists, optional
        By default all groups are taken.
    """

    n_rows: int
    n_columns: int
    values: Any
    zero_diagonal: bool = False
    lists: Lists | None = None

    @property
    def mode(self) -> int:
        """What a program makes of its tiles."""
        if self.values is None:
            return LARGEST
        return SINGLE if self.values.ndim == 1 else VALUES

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self.values.shape[1] // 2 if self.mode == VALUES else 1

    def run(self, kernel: Any, options: Sequence[Tile], head: tuple[Any, ...], *tail: Any, **constants: Any) -> Any:
        """Run a kernel with the tile that suits it here, found on first use.

        Parameters
        ----------
        kernel : compiled by Triton
        options : sequence of Tile
            The best on the chip that they were measured on first.
        head, tail : tuples
            Arguments of the kernel before and after those that all have.
        constants : dict
            What is known when it is compiled.

        Returns
        -------
        out : tensor of float32, shape (n_rows, width)
        """
        device = head[0].device
        key = device, kernel.fn.__name__, self.mode, self.width, *constants.values()

        def launch(tile: Tile, n_rows: int) -> Any:
            return replace(self, n_rows=n_rows).launch(kernel, tile, head, *tail, **constants)

        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            return with_best_tile(key, options, launch, (self.n_rows, self.n_columns))

    def launch(self, kernel: Any, tile: Tile, head: tuple[Any, ...], *tail: Any, **constants: Any) -> Any:
        """Run a kernel over all rows; where these are few, the columns are shared out too."""
        device = head[0].device
        blocks, n_groups = -(-self.n_rows // tile.rows), -(-self.n_columns // GROUP)
        shares = max(1, min(n_groups, _PROGRAMS * _multiprocessors(device) // blocks))
        out = torch.empty((shares, self.n_rows, self.width), dtype=torch.float32, device=device)
        lists = Lists(out, out) if self.lists is None else self.lists
        values = out if self.values is None else self.values
        sizes = self.n_rows, self.n_columns, n_groups
        kernel[blocks, shares](
            *head, values, out, lists.starts, lists.groups, *sizes, *tail,
            C=self.width, MODE=self.mode, ZERO=self.zero_diagonal, SKIP=self.lists is not None,
            BM=tile.rows, BN=tile.columns, STAGES=tile.stages,
            num_warps=tile.warps, num_stages=tile.stages, enable_fp_fusion=True,
            **constants,
        )  # fmt: skip
        return out[0] if shares == 1 else out.amax(0) if self.values is None else out.sum(0)


def by_halves(left: Halves, right: Halves, task: Task) -> Any:
    """``2^(L R^T) V``, row by row, or the largest exponents; L and R in halves.

    Parameters
    ----------
    left, right : Halves
        Of rows filled up to a multiple of 256, and columns to a multiple of 1024.
    task : Task

    Returns
    -------
    out : tensor of float32, shape (n_rows, width)
    """
    K, E = left.columns.shape[1], 0 if left.eighths is None else left.eighths.shape[1]
    deep = K > DEEP
    eighths = (left.columns, right.columns) if E == 0 else (left.eighths, right.eighths)
    head = left.columns, right.columns, *eighths
    depths = {"K": K, "K1": _leading(K), "E": E, "E1": _leading(E), "PIECE": PIECE if deep else 0}
    return task.run(halves_kernel, halves_tiles(task.mode, 2 * K + E, task.width), head, **depths)


def by_differences(x: Any, y: Any, scales: tuple[Any, Any, Any], task: Task) -> Any:
    """``2^(shift_i - a_i b_j |x_i - y_j|^2) V``, row by row, or the largest exponents, in float32.

    Parameters
    ----------
    x, y : tensors of float32, shapes (d, rows) and (d, columns)
        Feature by feature; filled up to a multiple of 256 and of 1024.
    scales : three tensors of float32
        a, b and the shift of the rows.
    task : Task

    Returns
    -------
    out : tensor of float32, shape (n_rows, width)
    """
    a, b, shift = scales
    strides = x.stride(0), y.stride(0)
    return task.run(differences_kernel, differences_tiles(task.mode), (x, y, a, b, shift), *strides, D=x.shape[0])


def _leading(width: int) -> int:
    """The largest power of two up to a width."""
    return 1 << (width.bit_length() - 1) if width else 0


@cache
def _multiprocessors(device: Any) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1
