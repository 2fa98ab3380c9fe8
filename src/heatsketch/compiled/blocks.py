"""Elementwise loops over blocks of columns: each reads its blocks once, where NumPy would read them several times."""

from __future__ import annotations

from .._utils.typing import FloatArray
from .library import Function

__all__ = ["add", "combine", "exponential", "subtract"]

_combine = Function(
    "combine", "T* out[n], T current[n], T previous[n]", "d scale, d shift, l start<=n, l stop<=n", T="fd"
)
_add = Function("add", "d* total[n], T term[n]", "d factor, l start<=n, l stop<=n", T="fd")
_subtract = Function("subtract", "T* W[n, k], T factors[k], T V[n, k]", "l k, l start<=n, l stop<=n", T="fd")
_exponential = Function("exponential", "T x[n], T* out[n]", "l n", T="fd")


def combine(
    out: FloatArray, current: FloatArray, previous: FloatArray, scale: float, shift: float, start: int, stop: int
) -> None:
    """``out = scale out - shift current - previous``, on entries start to stop of flat arrays."""
    _combine((out, current, previous), scale, shift, start, stop)


def add(total: FloatArray, factor: float, term: FloatArray, start: int, stop: int) -> None:
    """``total += factor term``, on entries start to stop of flat arrays; the total is in float64."""
    _add((total, term), factor, start, stop)


def subtract(W: FloatArray, factors: FloatArray, V: FloatArray, start: int, stop: int) -> None:
    """``W -= V diag(factors)``, on rows start to stop of (N, k) blocks."""
    _subtract((W, factors, V), start, stop)


def exponential(x: FloatArray, out: FloatArray) -> None:
    """exp(x) for x <= 0 as the other loops compute it, to two units in the last place; 0 below -87 or -708."""
    _exponential((x, out))
