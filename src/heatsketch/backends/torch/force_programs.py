"""Triton programs of the forces between the points of an embedding: each handles a block of points.

:mod:`heatsketch.backends.torch.forces` launches them. Points are (n, K), sums (n, K); KP is a power of two, K or more.
"""

import triton
import triton.language as tl

__all__ = ["attraction_kernel", "repulsion_kernel", "stretching_kernel"]


@triton.jit
def _added(out, weights, Y, O, i, j, K: tl.constexpr, KP: tl.constexpr):  # noqa: E741
    """The sum over j of ``weights_ij (y_i - o_j)``, added to `out`, (BM, KP)."""
    for k in tl.static_range(K):
        apart = tl.load(Y + i * K + k)[:, None] - tl.load(O + j * K + k)
        out += tl.where(tl.arange(0, KP)[None, :] == k, tl.sum(weights * apart, 1)[:, None], 0.0)
    return out


@triton.jit
def _squared(squared, Y, O, i, j, K: tl.constexpr):  # noqa: E741
    """``|y_i - o_j|^2``, added to `squared`."""
    for k in tl.static_range(K):
        apart = tl.load(Y + i * K + k)[:, None] - tl.load(O + j * K + k)
        squared += apart * apart
    return squared


@triton.jit
def _store(Out, out, rows, n, K: tl.constexpr, KP: tl.constexpr):
    k = tl.arange(0, KP)[None, :]
    tl.store(Out + rows[:, None] * K + k, out, mask=(rows < n)[:, None] & (k < K))


@triton.jit
def attraction_kernel(
    starts, columns, values, Y, scales, Out, n,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sums over a row of a matrix P in compressed rows of ``P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)``."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    i = tl.minimum(rows, n - 1)
    # In 64 bits: positions beyond the last entry must not wrap.
    first, end = tl.load(starts + i).to(tl.int64), tl.load(starts + i + 1).to(tl.int64)
    own = tl.load(scales + i)
    out = tl.zeros([BM, KP], dtype=tl.float32)
    for start in range(0, tl.max(end - first, 0), BN):
        place = first[:, None] + (start + tl.arange(0, BN))[None, :]
        kept = place < end[:, None]
        j = tl.load(columns + place, mask=kept, other=0).to(tl.int64)
        squared = _squared(own[:, None] * tl.load(scales + j), Y, Y, i, j, K)
        out = _added(out, tl.load(values + place, mask=kept, other=0.0) / squared, Y, Y, i, j, K, KP)
    _store(Out, out, rows, n, K, KP)


@triton.jit
def repulsion_kernel(
    Y, scales, Others, others_scales, Out, Totals, n, m,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sums over m other points of ``q_ij^2 (y_i - o_j) / (s_i s_j)``, and of ``q_ij``."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    i = tl.minimum(rows, n - 1)
    own = tl.load(scales + i)
    out, total = tl.zeros([BM, KP], dtype=tl.float32), tl.zeros([BM], dtype=tl.float32)
    for start in range(0, m, BN):
        j = start + tl.arange(0, BN)
        kept, j = j < m, tl.minimum(j, m - 1)[None, :]
        both = own[:, None] * tl.load(others_scales + j)
        falling = tl.where(kept[None, :], 1.0 / _squared(both, Y, Others, i, j, K), 0.0)
        q = both * falling
        total += tl.sum(q, 1)
        out = _added(out, q * falling, Y, Others, i, j, K, KP)
    _store(Out, out, rows, n, K, KP)
    tl.store(Totals + rows, total, mask=rows < n)


@triton.jit
def stretching_kernel(
    Y, Others, logs, Out, Totals, Squares, n, m, least, mean,
    K: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sums over m other points of ``(l_ij - mean) (y_i - o_j) / s_ij``, of ``l_ij`` and its square.

    Pairs that coincide are left out. ``l_ij = (log s_ij - logs_ij) / 2`` with ``s_ij = |y_i - o_j|^2 + least``.
    """
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    i = tl.minimum(rows, n - 1)
    out = tl.zeros([BM, KP], dtype=tl.float32)
    total, square = tl.zeros([BM], dtype=tl.float32), tl.zeros([BM], dtype=tl.float32)
    for start in range(0, m, BN):
        j = start + tl.arange(0, BN)
        kept, j = (j < m)[None, :], tl.minimum(j, m - 1)[None, :]
        given = tl.load(logs + i[:, None] * m + j)
        kept = kept & (given > -100.0)
        squared = _squared(tl.zeros([BM, BN], dtype=tl.float32) + least, Y, Others, i, j, K)
        ratios = tl.where(kept, 0.5 * (tl.log(squared) - given), 0.0)
        total += tl.sum(ratios, 1)
        square += tl.sum(ratios * ratios, 1)
        out = _added(out, tl.where(kept, (ratios - mean) / squared, 0.0), Y, Others, i, j, K, KP)
    _store(Out, out, rows, n, K, KP)
    tl.store(Totals + rows, total, mask=rows < n)
    tl.store(Squares + rows, square, mask=rows < n)
