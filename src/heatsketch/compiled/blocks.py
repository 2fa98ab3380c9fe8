"""Elementwise loops over blocks of columns: each reads its blocks once, where NumPy would read them several times."""

from __future__ import annotations

from .loops import loop

__all__ = ["add", "combine", "subtract"]


@loop
def combine(out, current, previous, scale, shift, start, stop):  # type: ignore[no-untyped-def]
    """``out = scale out - shift current - previous``, on entries start to stop of flat arrays."""
    for i in range(start, stop):
        out[i] = scale * out[i] - shift * current[i] - previous[i]


@loop
def add(total, factor, term, start, stop):  # type: ignore[no-untyped-def]
    """``total += factor term``, on entries start to stop of flat arrays."""
    for i in range(start, stop):
        total[i] += factor * term[i]


@loop
def subtract(W, factors, V, start, stop):  # type: ignore[no-untyped-def]
    """``W -= V diag(factors)``, on rows start to stop of (N, k) blocks."""
    for i in range(start, stop):
        for c in range(W.shape[1]):
            W[i, c] -= factors[c] * V[i, c]
