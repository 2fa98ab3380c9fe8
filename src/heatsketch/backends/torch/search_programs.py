"""Triton programs of the neighbour search: the nearest point of each group of points, and distances of candidates.

:mod:`heatsketch.backends.torch.grouped` launches them.
"""

import triton
import triton.language as tl

__all__ = ["COLUMNS", "RUN", "candidates_kernel", "minima_kernel"]

# Points of a group.
RUN = 32
# Columns of a tile. The i-th columns of RUN tiles in a row are a group, so that its minimum stays in one register.
COLUMNS = 64
_RUN, _COLUMNS = tl.constexpr(RUN), tl.constexpr(COLUMNS)


@triton.jit
def minima_kernel(
    L, R, Out, n_rows, n_sheets, row_stride,
    K: tl.constexpr, K1: tl.constexpr, PIECE: tl.constexpr, BM: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The smallest entry of ``L R^T`` in each group of columns; a sheet has RUN tiles and COLUMNS groups."""
    K2: tl.constexpr = K - K1
    i = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    if PIECE == 0:
        k1 = tl.arange(0, K1)
        l1 = tl.load(L + i[:, None] * K + k1[None, :])
        if K2 > 0:
            k2 = K1 + tl.arange(0, K2)
            l2 = tl.load(L + i[:, None] * K + k2[None, :])
    columns = tl.arange(0, _COLUMNS)
    for step in range(0, tl.cdiv(n_sheets - tl.program_id(1), tl.num_programs(1))):
        sheet = (tl.program_id(1) + step * tl.num_programs(1)).to(tl.int64)
        Rs = R + sheet * (_RUN * _COLUMNS * K)
        least = tl.full([BM, _COLUMNS], float("inf"), dtype=tl.float32)
        for t in tl.range(0, _RUN, num_stages=STAGES):
            j = t * _COLUMNS + columns
            if PIECE > 0:
                s = tl.zeros([BM, _COLUMNS], dtype=tl.float32)
                for start in range(0, K, PIECE):
                    k = start + tl.arange(0, PIECE)
                    a = tl.load(L + i[:, None] * K + k[None, :])
                    s = tl.dot(a, tl.trans(tl.load(Rs + j[:, None] * K + k[None, :])), s)
            else:
                s = tl.dot(l1, tl.trans(tl.load(Rs + j[:, None] * K + k1[None, :])))
                if K2 > 0:
                    s = tl.dot(l2, tl.trans(tl.load(Rs + j[:, None] * K + k2[None, :])), s)
            least = tl.minimum(least, s)
        out = Out + i[:, None] * row_stride + (sheet * _COLUMNS + columns)[None, :]
        tl.store(out, least, mask=(i < n_rows)[:, None])


@triton.jit
def candidates_kernel(Q, X, groups, own, Out, n_points, n_groups, width, D: tl.constexpr):
    """Squared distances of a query to the points of some groups, by differences; infinite to itself and to padding."""
    row = tl.program_id(0).to(tl.int64)
    run = tl.arange(0, _RUN)
    itself = tl.load(own + row)
    for g in range(0, n_groups):
        points = tl.load(groups + row * n_groups + g).to(tl.int64) * _RUN + run
        squared = tl.zeros([_RUN], dtype=tl.float32)
        for start in range(0, width, D):
            k = start + tl.arange(0, D)
            q = tl.load(Q + row * width + k, mask=k < width, other=0.0)
            x = tl.load(X + points[:, None] * width + k[None, :], mask=(k < width)[None, :], other=0.0)
            apart = q[None, :] - x
            squared += tl.sum(apart * apart, 1)
        kept = (points < n_points) & (points != itself)
        tl.store(Out + (row * n_groups + g) * _RUN + run, tl.where(kept, squared, float("inf")))
