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

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from .halves import EIGHTH, Halves

__all__ = ["COLUMNS", "GROUP", "ROWS", "SHIFT", "Lists", "Task", "Tile", "by_differences", "by_halves"]

# Columns of the kernel that are summed up by matrix units before they are added outside, and skipped together.
GROUP = 1024
# Rows are filled up to a multiple of this, the most that a program takes.
ROWS = 256
# Kernel entries are multiplied by two to this power, just within the range of a half.
SHIFT = 15.0
# Programs to a multiprocessor below which the columns are shared out as well.
_PROGRAMS = 8
_EIGHTH = tl.constexpr(EIGHTH)
_GROUP, _ROWS = tl.constexpr(GROUP), tl.constexpr(ROWS)
# Deeper factors than this do not stay on the chip: they are read again for every tile, in pieces of this depth.
_DEEP, _PIECE = 256, 64
# Most columns that are multiplied at a time.
COLUMNS = 32


@dataclass(frozen=True)
class Tile:
    """Shape of the tiles and resources of a program.

    Attributes
    ----------
    rows, columns : int
        Powers of two; columns at most 1024.
    warps, stages : int
    """

    rows: int
    columns: int
    warps: int
    stages: int


# What a program makes of its tiles.
_VALUES, _SINGLE, _LARGEST = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def _begin(BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr):
    """What a group of tiles starts from."""
    if MODE == _VALUES:
        return tl.zeros([BM, C], dtype=tl.float32)
    elif MODE == _SINGLE:
        return tl.zeros([BM, BN], dtype=tl.float32)
    else:
        return tl.full([BM, BN], float("-inf"), dtype=tl.float32)


@triton.jit
def _take_in(part, s, V, i, j, offset, n_columns, C: tl.constexpr, MODE: tl.constexpr, ZERO: tl.constexpr):
    """A tile of exponents, taken into the part of its group; `j` counts from the group's `offset`, and so does `V`."""
    if MODE == _LARGEST:
        kept = offset + j[None, :] < n_columns
        if ZERO:
            kept = kept & (i[:, None] != offset + j[None, :])
        return tl.maximum(part, tl.where(kept, s, float("-inf")))
    else:
        p = tl.exp2(s)
        if ZERO:
            p = tl.where(i[:, None] == offset + j[None, :], 0.0, p)
        if MODE == _SINGLE:
            return part + p * tl.load(V + j)[None, :]
        else:
            c = tl.arange(0, C)
            first = tl.load(V + j[:, None] * (2 * C) + c[None, :])
            second = tl.load(V + j[:, None] * (2 * C) + C + c[None, :])
            p_first = p.to(tl.float16)
            p_second = (p - p_first.to(tl.float32)).to(tl.float16)
            part = tl.dot(p_first, first, part)
            part = tl.dot(p_first, second, part)
            return tl.dot(p_second, first, part)


@triton.jit
def _add_up(total, part, MODE: tl.constexpr):
    """The total with one more group, added outside of the matrix units."""
    if MODE == _VALUES:
        return total + part
    elif MODE == _SINGLE:
        return total + tl.sum(part, 1)
    else:
        return tl.maximum(total, tl.max(part, 1))


@triton.jit
def _finish(Out, total, i, n_rows, BM: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr):
    """Write the rows that are there; each of the shares of the columns has a sheet of its own."""
    sheet = Out + tl.program_id(1).to(tl.int64) * n_rows * C
    if MODE == _VALUES:
        c = tl.arange(0, C)
        tl.store(sheet + i.to(tl.int64)[:, None] * C + c[None, :], total, mask=i[:, None] < n_rows)
    else:
        tl.store(sheet + i, total, mask=i < n_rows)


@triton.jit
def _halves_kernel(
    L, R, L8, R8, V, Out, starts, groups, n_rows, n_columns, n_groups,
    K: tl.constexpr, K1: tl.constexpr, E: tl.constexpr, E1: tl.constexpr, PIECE: tl.constexpr,
    C: tl.constexpr, MODE: tl.constexpr, ZERO: tl.constexpr, SKIP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows of ``2^(L R^T) V``; see `by_halves`."""
    K2: tl.constexpr = K - K1
    E2: tl.constexpr = E - E1
    WIDTH: tl.constexpr = 2 * C if MODE == _VALUES else 1
    base = tl.program_id(0).to(tl.int64) * BM
    rows = tl.arange(0, BM)
    i = tl.program_id(0) * BM + rows
    L += base * K
    if PIECE == 0:
        k1 = tl.arange(0, K1)
        l1 = tl.load(L + rows[:, None] * K + k1[None, :])
        if K2 > 0:
            k2 = K1 + tl.arange(0, K2)
            l2 = tl.load(L + rows[:, None] * K + k2[None, :])
    if E > 0:
        L8 += base * E
        e1 = tl.arange(0, E1)
        l3 = tl.load(L8 + rows[:, None] * E + e1[None, :])
        if E2 > 0:
            e2 = E1 + tl.arange(0, E2)
            l4 = tl.load(L8 + rows[:, None] * E + e2[None, :])
    if MODE == _VALUES:
        total = tl.zeros([BM, C], dtype=tl.float32)
    elif MODE == _SINGLE:
        total = tl.zeros([BM], dtype=tl.float32)
    else:
        total = tl.full([BM], float("-inf"), dtype=tl.float32)
    begin, end = 0, n_groups
    if SKIP:
        block = tl.program_id(0) * BM // _ROWS
        begin, end = tl.load(starts + block), tl.load(starts + block + 1)
    for q in range(begin + tl.program_id(1), end, tl.num_programs(1)):
        g = q
        if SKIP:
            g = tl.load(groups + q)
        first = g.to(tl.int64) * _GROUP
        Rg, Vg = R + first * K, V + first * WIDTH
        part = _begin(BM, BN, C, MODE)
        for t in tl.range(0, _GROUP // BN, num_stages=STAGES):
            j = t * BN + tl.arange(0, BN)
            s = tl.zeros([BM, BN], dtype=tl.float32)
            if PIECE > 0:
                for start in range(0, K, PIECE):
                    k = start + tl.arange(0, PIECE)
                    a = tl.load(L + rows[:, None] * K + k[None, :])
                    s = tl.dot(a, tl.trans(tl.load(Rg + j[:, None] * K + k[None, :])), s)
            else:
                s = tl.dot(l1, tl.trans(tl.load(Rg + j[:, None] * K + k1[None, :])), s)
                if K2 > 0:
                    s = tl.dot(l2, tl.trans(tl.load(Rg + j[:, None] * K + k2[None, :])), s)
            if E > 0:
                R8g = R8 + first * E
                fine = tl.dot(l3, tl.trans(tl.load(R8g + j[:, None] * E + e1[None, :])))
                if E2 > 0:
                    fine = tl.dot(l4, tl.trans(tl.load(R8g + j[:, None] * E + e2[None, :])), fine)
                s += fine * _EIGHTH
            part = _take_in(part, s, Vg, i, j, g * _GROUP, n_columns, C, MODE, ZERO)
        total = _add_up(total, part, MODE)
    _finish(Out, total, i, n_rows, BM, C, MODE)


@triton.jit
def _differences_kernel(
    X, Y, x_scale, y_scale, shift, V, Out, starts, groups, n_rows, n_columns, n_groups, x_stride, y_stride,
    D: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr, ZERO: tl.constexpr, SKIP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows of the same product, from coordinates that lie feature by feature; see `by_differences`."""
    WIDTH: tl.constexpr = 2 * C if MODE == _VALUES else 1
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    a, e = tl.load(x_scale + i), tl.load(shift + i)
    if MODE == _VALUES:
        total = tl.zeros([BM, C], dtype=tl.float32)
    elif MODE == _SINGLE:
        total = tl.zeros([BM], dtype=tl.float32)
    else:
        total = tl.full([BM], float("-inf"), dtype=tl.float32)
    begin, end = 0, n_groups
    if SKIP:
        block = tl.program_id(0) * BM // _ROWS
        begin, end = tl.load(starts + block), tl.load(starts + block + 1)
    for q in range(begin + tl.program_id(1), end, tl.num_programs(1)):
        g = q
        if SKIP:
            g = tl.load(groups + q)
        first = g.to(tl.int64) * _GROUP
        part = _begin(BM, BN, C, MODE)
        for t in tl.range(0, _GROUP // BN, num_stages=STAGES):
            j = t * BN + tl.arange(0, BN)
            squared = tl.zeros([BM, BN], dtype=tl.float32)
            for f in range(0, D):
                x = tl.load(X + f * x_stride + i)
                y = tl.load(Y + f * y_stride + first + j)
                apart = x[:, None] - y[None, :]
                squared += apart * apart
            s = e[:, None] - squared * a[:, None] * tl.load(y_scale + first + j)[None, :]
            part = _take_in(part, s, V + first * WIDTH, i, j, g * _GROUP, n_columns, C, MODE, ZERO)
        total = _add_up(total, part, MODE)
    _finish(Out, total, i, n_rows, BM, C, MODE)


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
    def mode(self) -> Any:
        """What a program makes of its tiles."""
        if self.values is None:
            return _LARGEST.value
        return _SINGLE.value if self.values.ndim == 1 else _VALUES.value

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self.values.shape[1] // 2 if self.mode == _VALUES.value else 1

    def launch(self, kernel: Any, tile: Tile, head: tuple[Any, ...], *tail: Any, **constants: Any) -> Any:
        """Run a kernel over all rows; where these are few, the columns are shared out too.

        Returns
        -------
        out : tensor of float32, shape (n_rows, width)
        """
        device = head[0].device
        blocks, n_groups = -(-self.n_rows // tile.rows), -(-self.n_columns // GROUP)
        shares = max(1, min(n_groups, _PROGRAMS * _multiprocessors(device) // blocks))
        out = torch.empty((shares, self.n_rows, self.width), dtype=torch.float32, device=device)
        lists = Lists(out, out) if self.lists is None else self.lists
        values = out if self.values is None else self.values
        sizes = self.n_rows, self.n_columns, n_groups
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            kernel[blocks, shares](
                *head, values, out, lists.starts, lists.groups, *sizes, *tail,
                C=self.width, MODE=self.mode, ZERO=self.zero_diagonal, SKIP=self.lists is not None,
                BM=tile.rows, BN=tile.columns, STAGES=tile.stages, num_warps=tile.warps, num_stages=tile.stages,
                **constants,
            )  # fmt: skip
        return out[0] if shares == 1 else out.amax(0) if self.values is None else out.sum(0)


def by_halves(left: Halves, right: Halves, task: Task, tile: Tile | None = None) -> Any:
    """``2^(L R^T) V``, row by row, or the largest exponents; L and R in halves.

    Parameters
    ----------
    left, right : Halves
        Of rows filled up to a multiple of 256, and columns to a multiple of 1024.
    task : Task
    tile : Tile, optional
        By default one that suits the depth of the factors and the chip.

    Returns
    -------
    out : tensor of float32, shape (n_rows, width)
    """
    K, E = left.columns.shape[1], 0 if left.eighths is None else left.eighths.shape[1]
    deep = K > _DEEP
    head = left.columns, right.columns, left.columns if E == 0 else left.eighths, right.columns if E == 0 else right.eighths
    depths = {"K": K, "K1": _leading(K), "E": E, "E1": _leading(E), "PIECE": _PIECE if deep else 0}
    return task.launch(_halves_kernel, tile or tile_for(task.mode, 2 * K + E, task.width), head, **depths)


def by_differences(x: Any, y: Any, scales: tuple[Any, Any, Any], task: Task, tile: Tile | None = None) -> Any:
    """``2^(shift_i - a_i b_j |x_i - y_j|^2) V``, row by row, or the largest exponents, in float32.

    Parameters
    ----------
    x, y : tensors of float32, shapes (d, rows) and (d, columns)
        Feature by feature; filled up to a multiple of 256 and of 1024.
    scales : three tensors of float32
        a, b and the shift of the rows.
    task : Task
    tile : Tile, optional

    Returns
    -------
    out : tensor of float32, shape (n_rows, width)
    """
    a, b, shift = scales
    strides = x.stride(0), y.stride(0)
    return task.launch(_differences_kernel, tile or _DIFFERENCES, (x, y, a, b, shift), *strides, D=x.shape[0])


_DIFFERENCES = Tile(64, 64, 4, 3)


def tile_for(mode: int, size: int, width: int) -> Tile:
    """The tile that suits a product whose factors take `size` bytes a row; found by `benchmarks/gpu`."""
    if size > 2 * _DEEP:
        return Tile(128, 64, 4, 3)
    if mode == _VALUES.value:
        return Tile(64, 64, 4, 3) if width > COLUMNS else Tile(128, 64, 4, 3)
    return Tile(64, 128, 4, 3) if size <= 64 else Tile(256, 64, 8, 3)


def _leading(width: int) -> int:
    """The largest power of two up to a width."""
    return 1 << (width.bit_length() - 1) if width else 0


@cache
def _multiprocessors(device: Any) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1
