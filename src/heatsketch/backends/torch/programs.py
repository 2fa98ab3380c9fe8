"""Triton programs of the fused products.

Each handles a block of rows and loops over groups of 1024 columns; `symmetric_kernel` handles two blocks of points.

:mod:`heatsketch.backends.torch.products` launches them.
"""

import triton
import triton.language as tl

__all__ = [
    "EIGHTH",
    "GROUP",
    "LARGEST",
    "ROWS",
    "SINGLE",
    "VALUES",
    "differences_kernel",
    "halves_kernel",
    "symmetric_kernel",
]

# Kernel columns that tensor cores add up before float32 additions take over; they are also skipped together.
GROUP = 1024
# The largest block of rows of a program; `Lists` has an entry for each.
ROWS = 256
# Factor of inner products of float8 numbers.
EIGHTH = 2.0**-12
# What a program computes from its tiles: a product with several columns, with one, or the largest exponent of a row.
VALUES, SINGLE, LARGEST = 0, 1, 2
_GROUP, _ROWS, _EIGHTH = tl.constexpr(GROUP), tl.constexpr(ROWS), tl.constexpr(EIGHTH)
_VALUES, _SINGLE, _LARGEST = tl.constexpr(VALUES), tl.constexpr(SINGLE), tl.constexpr(LARGEST)


@triton.jit
def _initial_total(BM: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr):
    """Initial total of a block of rows."""
    if MODE == _VALUES:
        total = tl.zeros([BM, C], dtype=tl.float32)
    elif MODE == _SINGLE:
        total = tl.zeros([BM], dtype=tl.float32)
    else:
        total = tl.full([BM], float("-inf"), dtype=tl.float32)
    return total


@triton.jit
def _initial_group(BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr):
    """Initial value of a group of tiles."""
    if MODE == _VALUES:
        part = tl.zeros([BM, C], dtype=tl.float32)
    elif MODE == _SINGLE:
        part = tl.zeros([BM, BN], dtype=tl.float32)
    else:
        part = tl.full([BM, BN], float("-inf"), dtype=tl.float32)
    return part


@triton.jit
def _accumulate(
    part, s, V, i, j, offset, n_columns,
    C: tl.constexpr, MODE: tl.constexpr, ROUGH: tl.constexpr, ZERO: tl.constexpr,
):  # fmt: skip
    """Add a tile of exponents to the part of its group; `j` and `V` start at the group's `offset`."""
    if MODE == _LARGEST:
        kept = offset + j[None, :] < n_columns
        if ZERO:
            kept = kept & (i[:, None] != offset + j[None, :])
        part = tl.maximum(part, tl.where(kept, s, float("-inf")))
    else:
        p = tl.exp2(s)
        if ZERO:
            p = tl.where(i[:, None] == offset + j[None, :], 0.0, p)
        if MODE == _SINGLE:
            part += p * tl.load(V + j)[None, :]
        elif ROUGH:
            part = tl.dot(p.to(tl.float16), tl.load(V + j[:, None] * C + tl.arange(0, C)[None, :]), part)
        else:
            c = tl.arange(0, C)
            first = tl.load(V + j[:, None] * (2 * C) + c[None, :])
            second = tl.load(V + j[:, None] * (2 * C) + C + c[None, :])
            p_first = p.to(tl.float16)
            p_second = (p - p_first.to(tl.float32)).to(tl.float16)
            part = tl.dot(p_first, first, part)
            part = tl.dot(p_first, second, part)
            part = tl.dot(p_second, first, part)
    return part


@triton.jit
def _add_group(total, part, MODE: tl.constexpr):
    """Add a group to the total, in float32 instead of on tensor cores."""
    if MODE == _VALUES:
        total += part
    elif MODE == _SINGLE:
        total += tl.sum(part, 1)
    else:
        total = tl.maximum(total, tl.max(part, 1))
    return total


@triton.jit
def _store(Out, total, i, n_rows, C: tl.constexpr, MODE: tl.constexpr):
    """Store the rows that exist; each share of the columns writes its own sheet."""
    sheet = Out + tl.program_id(1).to(tl.int64) * n_rows * C
    if MODE == _VALUES:
        c = tl.arange(0, C)
        tl.store(sheet + i.to(tl.int64)[:, None] * C + c[None, :], total, mask=i[:, None] < n_rows)
    else:
        tl.store(sheet + i, total, mask=i < n_rows)


@triton.jit
def halves_kernel(
    L, R, L8, R8, V, Out, starts, groups, n_rows, n_columns, n_groups,
    K: tl.constexpr, K1: tl.constexpr, E: tl.constexpr, PIECE: tl.constexpr,
    C: tl.constexpr, MODE: tl.constexpr, ROUGH: tl.constexpr, ZERO: tl.constexpr, SKIP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows of ``2^(L R^T) V``; see `by_halves`."""
    K2: tl.constexpr = K - K1
    WIDTH: tl.constexpr = 1 if MODE != _VALUES else C if ROUGH else 2 * C
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
        e = tl.arange(0, E)
        l3 = tl.load(L8 + rows[:, None] * E + e[None, :])
    total = _initial_total(BM, C, MODE)
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
        part = _initial_group(BM, BN, C, MODE)
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
                s += tl.dot(l3, tl.trans(tl.load(R8 + first * E + j[:, None] * E + e[None, :]))) * _EIGHTH
            part = _accumulate(part, s, Vg, i, j, g * _GROUP, n_columns, C, MODE, ROUGH, ZERO)
        total = _add_group(total, part, MODE)
    _store(Out, total, i, n_rows, C, MODE)


@triton.jit
def differences_kernel(
    X, Y, x_scale, y_scale, shift, V, Out, starts, groups, n_rows, n_columns, n_groups, x_stride, y_stride,
    D: tl.constexpr, C: tl.constexpr, MODE: tl.constexpr, ROUGH: tl.constexpr, ZERO: tl.constexpr, SKIP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows of the same product from coordinates stored feature by feature; see `by_differences`."""
    WIDTH: tl.constexpr = 1 if MODE != _VALUES else C if ROUGH else 2 * C
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    a, e = tl.load(x_scale + i), tl.load(shift + i)
    total = _initial_total(BM, C, MODE)
    begin, end = 0, n_groups
    if SKIP:
        block = tl.program_id(0) * BM // _ROWS
        begin, end = tl.load(starts + block), tl.load(starts + block + 1)
    for q in range(begin + tl.program_id(1), end, tl.num_programs(1)):
        g = q
        if SKIP:
            g = tl.load(groups + q)
        first = g.to(tl.int64) * _GROUP
        part = _initial_group(BM, BN, C, MODE)
        for t in tl.range(0, _GROUP // BN, num_stages=STAGES):
            j = t * BN + tl.arange(0, BN)
            squared = tl.zeros([BM, BN], dtype=tl.float32)
            x, y = X + i, Y + first + j
            for _ in range(0, D):  # addresses are incremented: features times points may exceed 32 bits
                apart = tl.load(x)[:, None] - tl.load(y)[None, :]
                squared += apart * apart
                x += x_stride
                y += y_stride
            s = e[:, None] - squared * a[:, None] * tl.load(y_scale + first + j)[None, :]
            part = _accumulate(part, s, V + first * WIDTH, i, j, g * _GROUP, n_columns, C, MODE, ROUGH, ZERO)
        total = _add_group(total, part, MODE)
    _store(Out, total, i, n_rows, C, MODE)


@triton.jit
def symmetric_kernel(
    L, R, L8, R8, V, Out, turn, n_blocks, size, n_padded,
    K: tl.constexpr, K1: tl.constexpr, E: tl.constexpr, PAIRS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Entries of two blocks of points, each of which serves a row and a column; see `by_symmetry`.

    A tile has BN points of the first block, which are held, beside BM points of the second, which follow each other.
    Sums over the second block stay in registers; those over the first are added to the result tile by tile.
    """
    K2: tl.constexpr = K - K1
    a, b = tl.program_id(0), tl.program_id(0)
    if PAIRS:  # blocks at equal distances from the turn's block, in a circle
        a = (turn + tl.program_id(0) + 1) % n_blocks
        b = (turn + n_blocks - tl.program_id(0) - 1) % n_blocks
    columns = tl.arange(0, BN)
    k1 = tl.arange(0, K1)
    begin = b.to(tl.int64) * size
    n_tiles = tl.minimum(size, tl.maximum(n_padded - b * size, 0)) // BM
    for start in range(a * size, tl.minimum((a + 1) * size, n_padded), BN):
        i = (start + columns).to(tl.int64)
        r1 = tl.trans(tl.load(R + i[:, None] * K + k1[None, :]))
        if K2 > 0:
            k2 = K1 + tl.arange(0, K2)
            r2 = tl.trans(tl.load(R + i[:, None] * K + k2[None, :]))
        if E > 0:
            e = tl.arange(0, E)
            r3 = tl.trans(tl.load(R8 + i[:, None] * E + e[None, :]))
        held = tl.load(V + i)
        part = tl.zeros([BM, BN], dtype=tl.float32)
        for t in tl.range(0, n_tiles, num_stages=STAGES):
            j = t * BM + tl.arange(0, BM)
            s = tl.dot(tl.load(L + begin * K + j[:, None] * K + k1[None, :]), r1)
            if K2 > 0:
                s = tl.dot(tl.load(L + begin * K + j[:, None] * K + k2[None, :]), r2, s)
            if E > 0:
                s += tl.dot(tl.load(L8 + begin * E + j[:, None] * E + e[None, :]), r3) * _EIGHTH
            p = tl.exp2(s)
            part += p * tl.load(V + begin + j)[:, None]
            if PAIRS:
                sums = Out + begin + j
                tl.store(sums, tl.load(sums) + tl.sum(p * held[None, :], 1).to(tl.float64))
        tl.store(Out + i, tl.load(Out + i) + tl.sum(part, 0).to(tl.float64))
