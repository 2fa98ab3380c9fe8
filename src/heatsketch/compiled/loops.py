"""How loops are compiled, and the exponential function that they use."""

from __future__ import annotations

from secrets import randbits
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from .vectors import bits_of, float_of

__all__ = ["exp", "exp64", "loop", "reordered_loop"]

# Fused multiply-add, but no reordering: sums keep their order, and the rounding trick of the exponential works. Not
# "nnan" or "ninf": padding is NaN and initial limits are infinite.
MATH = {"contract", "nsz"}


def loop(function: Any) -> Any:
    """Compile a function on first use, cached on disk, releasing the GIL.

    Loops take a range of rows, so that :mod:`heatsketch._utils.threads` can run several at once.
    """
    return _compiled(function, MATH)


def reordered_loop(function: Any) -> Any:
    """As `loop`, with sums in any order, so that they are vectorised; the order is the same for every row."""
    return _compiled(function, MATH | {"reassoc", "arcp"})


def _compiled(function: Any, math: set[str]) -> Any:
    options = {"nogil": True, "fastmath": math, "error_model": "numpy"}
    # Compiled functions are linked by their names. Those of a factory differ by what they enclose alone: with one name,
    # a process that loads them from the cache could call one for another, and read or write beyond arrays.
    enclosed = "".join(f"_{cell.cell_contents}" for cell in function.__closure__ or ())
    function.__name__, function.__qualname__ = function.__name__ + enclosed, function.__qualname__ + enclosed
    try:
        compiled = njit(function, cache=True, **options)
    except RuntimeError:  # no directory for the cache is writable
        return njit(function, **options)
    # Numba numbers the files of its cache. Processes that compile at the same time would choose the same numbers, and
    # one would run what another compiled, for other types or from an earlier version of the function.
    if hasattr(compiled, "_cache"):  # not with NUMBA_DISABLE_JIT
        files = compiled._cache._cache_file
        files._data_name = lambda _: files._data_name_pattern.format(number=randbits(62))
    return compiled


@njit(inline="always", fastmath=MATH)
def exp32(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to two units in the last place; branch-free, so that loops over it are vectorised."""
    y = max(x, np.float32(-87.0))
    shifted = y * np.float32(1.4426950408889634) + np.float32(12582912.0)  # rounds to an integer
    n = shifted - np.float32(12582912.0)
    f = y - n * np.float32(0.693359375)
    f = f - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    e = float_of(np.int32(bits_of(p) + (bits_of(shifted) << 23)))  # Numba widens integers to 64 bits
    return e if x >= np.float32(-87.0) else np.float32(0.0)


@njit(inline="always", fastmath=MATH)
def exp64(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 to two units in the last place."""
    y = max(x, -708.0)
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    f = y - n * 6.93145751953125e-1
    f = f - n * 1.42860682030941723212e-6
    p = 1.0 / 6227020800.0
    p = p * f + 1.0 / 479001600.0
    p = p * f + 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f * f + f + 1.0
    e = float_of(bits_of(p) + (bits_of(shifted) << 52))
    return e if x >= -708.0 else 0.0


def exp(x: Any) -> Any:
    """exp(x) for x <= 0, in the precision of x."""
    return np.exp(x)


@overload(exp, inline="always", jit_options={"fastmath": MATH})
def _exp_compiled(x):  # type: ignore[no-untyped-def]
    # Numba inlines lambdas only.
    return (lambda x: exp32(x)) if x == types.float32 else (lambda x: exp64(x))  # noqa: PLW0108
