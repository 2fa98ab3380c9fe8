"""Elementwise loops over blocks of columns: each reads its blocks once, where NumPy would read them several times.

Indices into slices are never negative: the compiler can tell only then, and vectorises, which is four times as fast.
"""

from __future__ import annotations

from .loops import loop

__all__ = ["add", "combine", "subtract"]


@loop
def combine(out, current, previous, scale, shift, start, stop):  # type: ignore[no-untyped-def]
    """``out = scale out - shift current - previous``, on entries start to stop of flat arrays."""
    out, current, previous = out[start:stop], current[start:stop], previous[start:stop]
    for i in range(len(out)):
        out[i] = scale * out[i] - shift * current[i] - previous[i]


@loop
def add(total, factor, term, start, stop):  # type: ignore[no-untyped-def]
    """``total += factor term``, on entries start to stop of flat arrays."""
    total, term = total[start:stop], term[start:stop]
    for i in range(len(total)):
        total[i] += factor * term[i]


@loop
def subtract(W, factors, V, start, stop):  # type: ignore[no-untyped-def]
    """``W -= V diag(factors)``, on rows start to stop of (N, k) blocks."""
    W, V = W[start:stop], V[start:stop]
    for i in range(len(W)):
        for c in range(W.shape[1]):
            W[i, c] -= factors[c] * V[i, c]
