"""A Triton program that multiplies a sparse matrix in compressed rows by a block of columns.

:func:`heatsketch.backends.torch.operators.sparse_product` launches it.
"""

import triton
import triton.language as tl

__all__ = ["sparse_kernel"]


@triton.jit
def sparse_kernel(
    starts, columns, values, V, Out, n, width,
    BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """BM rows and BC columns of the product, BN entries of each row at a time."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    i = tl.minimum(rows, n - 1)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    # In 64 bits: positions beyond the last entry must not wrap.
    first, end = tl.load(starts + i).to(tl.int64), tl.load(starts + i + 1).to(tl.int64)
    out = tl.zeros([BM, BC], dtype=Out.dtype.element_ty)
    for start in range(0, tl.max(end - first, 0), BN):
        place = first[:, None] + (start + tl.arange(0, BN))[None, :]
        kept = place < end[:, None]
        j = tl.load(columns + place, mask=kept, other=0).to(tl.int64)
        entries = tl.load(values + place, mask=kept, other=0.0)
        across = kept[:, :, None] & (c < width)[None, None, :]
        x = tl.load(V + j[:, :, None] * width + c[None, None, :], mask=across, other=0.0)
        out += tl.sum(entries[:, :, None] * x, 1)
    tl.store(Out + rows[:, None] * width + c[None, :], out, mask=(rows < n)[:, None] & (c < width)[None, :])
