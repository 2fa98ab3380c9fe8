"""Steps of three-term recurrences on blocks of columns, of Chebyshev and of Lanczos.

Large NumPy blocks are read once in each step, by compiled loops on all threads; other arrays use their own library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.chunks import chunks
from .._utils.threads import each, shares
from .._utils.typing import FloatArray
from .operators import Operator

__all__ = ["add_term", "chebyshev_step", "column_products", "without"]

# Entries from which compiled loops pay, and entries whose products are summed in the dtype of a block.
_LARGE, _SUMMED = 1 << 15, 1 << 18


def _is_large(V: Any) -> bool:
    """Whether compiled loops may write to the block: a flat view of it exists only in C order."""
    return isinstance(V, np.ndarray) and V.size >= _LARGE and V.flags.c_contiguous


def chebyshev_step(S: Operator, previous: Any, current: Any, centre: float, half: float) -> Any:
    """``2 (S - centre) / half current - previous``: the next Chebyshev polynomial, (N, k)."""
    out = S @ current
    scale, shift = 2.0 / half, 2.0 * centre / half
    if _is_large(out):
        from ..compiled.blocks import combine  # noqa: PLC0415

        # Blocks may start in float64, where S multiplies in float32.
        flat, now, before = (V.astype(out.dtype, copy=False).reshape(-1) for V in (out, current, previous))
        each(lambda some: combine(flat, now, before, scale, shift, some.start, some.stop), shares(out.size), blas=False)
        return out
    out *= scale
    out -= shift * current
    out -= previous
    return out


def add_term(total: Any, factor: float, term: Any) -> Any:
    """``total + factor term`` for a total in float64, in place."""
    if _is_large(total):
        from ..compiled.blocks import add  # noqa: PLC0415

        flat, terms = total.reshape(-1), term.reshape(-1)
        each(lambda some: add(flat, factor, terms, some.start, some.stop), shares(total.size), blas=False)
        return total
    total += factor * astype(term, np.float64)
    return total


def without(W: Any, factors: FloatArray, V: Any, dtype: Any) -> Any:
    """``W - V diag(factors)`` for blocks of a dtype of NumPy, which may overwrite W."""
    if _is_large(W):
        from ..compiled.blocks import subtract  # noqa: PLC0415

        along = factors.astype(dtype)
        each(lambda rows: subtract(W, along, V, rows.start, rows.stop), shares(len(W), W.shape[1]), blas=False)
        return W
    return W - asarray_like(factors, W, dtype) * V


def column_products(V: Any, W: Any) -> FloatArray:
    """Inner products of the columns of two blocks with each other, in float64, shape (k,)."""
    if _is_large(V):  # all of them by BLAS take less time than these by NumPy
        sums = sum((V[rows].T @ W[rows]).astype(np.float64) for rows in chunks(len(V), V.shape[1], _SUMMED))
        return np.diagonal(np.asarray(sums))
    V, W = astype(V, np.float64), astype(W, np.float64)
    products: FloatArray = to_numpy(array_namespace(V).sum(V * W, axis=0))
    return products
