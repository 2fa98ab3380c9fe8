"""Powers of the heat kernel applied to a block of columns: ``S^t M``, for many t in one pass."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.polynomial import chebyshev
from scipy.fft import dct
from sklearn.exceptions import ConvergenceWarning

from ._typing import FloatArray
from .heat import HeatKernel
from .operators import Operator
from .spectrum import deflated, lowest_eigenvalue, spectral_interval

__all__ = ["METHODS", "check_power", "coefficients", "diffuse", "matrix_power"]

METHODS = ("auto", "steps", "chebyshev", "eigen")

# Error of the polynomial in place of lambda^t, relative to the largest nontrivial lambda^t.
_RELATIVE_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
_MOST_DEGREE = 2000
# Up to this many points a real power that no short polynomial approximates is taken by diagonalising.
_EIGEN_LIMIT = 3000
# Products that finding the spectral interval costs, in the comparison of polynomial against plain steps.
_INTERVAL_COST = 15
_WIDEST_MARGIN = 0.01


def diffuse(
    kernel: HeatKernel,
    M: FloatArray,
    powers: Sequence[float],
    *,
    trivial: bool = True,
    method: str = "auto",
    rtol: float | None = None,
) -> list[FloatArray]:
    """``S^t M`` for each t, all from one pass over the kernel.

    The trivial mode is split off and handled exactly, so that its eigenvalue 1 does not drown the others at
    large t.

    Parameters
    ----------
    kernel : HeatKernel
        Its symmetric form S is used; row weights are left to the caller.
    M : ndarray of shape (N, k)
    powers : sequence of float > 0
    trivial : bool
        Whether the result contains the trivial mode ``u u^T M``.
    method : {"auto", "steps", "chebyshev", "eigen"}
        "steps" multiplies t times (integer t); "chebyshev" approximates lambda^t by a polynomial of degree about
        sqrt(2 t log(2 / rtol)) on the interval of the nontrivial spectrum; "eigen" diagonalises the matrix.
        "auto" takes the cheapest that reaches `rtol`.
    rtol : float, optional
        Error of the polynomial relative to the largest nontrivial eigenvalue of S^t; by default 1e-10 for float64
        and 1e-6 for float32.

    Returns
    -------
    blocks : list of ndarray of shape (N, k)
    """
    for t in powers:
        check_power(t)
    return _apply_powers(kernel, M, powers, trivial=trivial, method=method, rtol=rtol, then_multiplied=False)


def coefficients(
    kernel: HeatKernel,
    M: FloatArray,
    power: float,
    *,
    trivial: bool = True,
    method: str = "auto",
    rtol: float | None = None,
) -> FloatArray:
    """``Z = S^(t-1) M``, so that ``S Z = S^t M`` and a new point x has the embedding ``a(x) Z``.

    For t < 1 the exponent is negative; Z is then the polynomial (or truncated spectral) approximation whose
    product with S approximates ``S^t M``.
    """
    check_power(power)
    exponents = [power - 1.0]
    return _apply_powers(kernel, M, exponents, trivial=trivial, method=method, rtol=rtol, then_multiplied=True)[0]


def matrix_power(kernel: HeatKernel, power: float, *, trivial: bool = True) -> FloatArray:
    """``S^t`` as an array of shape (N, N), in float64."""
    check_power(power)
    S = deflated(kernel).toarray().astype(np.float64)
    if float(power).is_integer():
        S = np.linalg.matrix_power(S, int(power))
    else:
        values, vectors = _eigensystem(S)
        S = (vectors * values**power) @ vectors.T
    if trivial and kernel.trivial is not None:
        S += np.outer(kernel.trivial, kernel.trivial)
    return S


def check_power(power: float) -> None:
    """Refuse a power that is not a positive, finite number."""
    if isinstance(power, (bool, str)) or not np.isreal(power) or not 0 < float(power) < np.inf:
        raise ValueError(f"power={power!r} was given; the diffusion time must be a positive, finite number.")


def _apply_powers(
    kernel: HeatKernel,
    M: FloatArray,
    exponents: Sequence[float],
    *,
    trivial: bool,
    method: str,
    rtol: float | None,
    then_multiplied: bool,
) -> list[FloatArray]:
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; use one of {METHODS}.")
    M = np.asarray(M, dtype=kernel.dtype)
    rtol = _RELATIVE_ERROR[kernel.dtype] if rtol is None else rtol
    S = deflated(kernel)
    mode = None if kernel.trivial is None else np.outer(kernel.trivial, kernel.trivial @ M).astype(kernel.dtype)
    rest = M if mode is None else M - mode
    whole = all(float(e).is_integer() and e >= 0 for e in exponents)
    if method == "auto" and whole:
        most = max(exponents)
        shortcut = np.sqrt(2.0 * most * np.log(2.0 / rtol)) + _INTERVAL_COST
        method = "chebyshev" if shortcut < most else "steps"
    if method == "steps":
        if not whole:
            raise ValueError(f"method='steps' takes whole powers; {list(exponents)} were given. Use 'auto'.")
        blocks = _steps(S, rest, [int(e) for e in exponents])
    else:
        blocks = _real_powers(kernel, rest, exponents, method=method, rtol=rtol, weight=int(then_multiplied))
    if trivial and mode is not None:
        blocks = [block + mode for block in blocks]
    return blocks


def _steps(S: Operator, V: FloatArray, exponents: list[int]) -> list[FloatArray]:
    """S^p V for whole p: one product after another."""
    found = {}
    for p in range(max(exponents) + 1):
        V = V if p == 0 else S.matmat(V)
        if p in exponents:
            found[p] = V
    return [found[p] for p in exponents]


def _real_powers(
    kernel: HeatKernel, V: FloatArray, exponents: Sequence[float], *, method: str, rtol: float, weight: int
) -> list[FloatArray]:
    """Real powers of the deflated kernel, by a polynomial or by diagonalising.

    With ``weight=1`` the result is to be multiplied by S once more: the error counts after that product.
    """
    S = deflated(kernel)
    # Widening the interval by 1/(2t) costs a factor of e^(1/2) in the error relative to lambda_2^t.
    margin = min(_WIDEST_MARGIN, 0.5 / (max(exponents) + 1.0))
    whole = all(float(e).is_integer() and e >= 0 for e in exponents)
    low, high = spectral_interval(S, definite=kernel.definite or not whole, margin=margin)
    if high <= 0.0:
        return [np.zeros_like(V) for _ in exponents]
    if not whole and not kernel.definite:
        _refuse_negative(lowest_eigenvalue(S), high)
    series, error = ([], np.inf) if method == "eigen" else _chebyshev_series((low, high), exponents, rtol, weight)
    if method == "eigen" or (method == "auto" and error > rtol and S.shape[0] <= _EIGEN_LIMIT):
        values, vectors = _eigensystem(S.toarray().astype(np.float64))
        projected = vectors.T @ V
        return [(vectors @ (_power(values, e)[:, None] * projected)).astype(V.dtype) for e in exponents]
    if error > rtol:
        warnings.warn(
            f"the power was approximated to {error:.1e} of the largest nontrivial eigenvalue, not to {rtol:.1e}: small "
            "powers that are not whole converge slowly. Use a power of 2 or more, a whole one, or method='eigen'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    blocks = _evaluate_series(S, V, (low, high), series)
    return [high**e * block for e, block in zip(exponents, blocks, strict=True)]


def _refuse_negative(lowest: float, highest: float) -> None:
    if lowest < -1e-6 * highest:
        raise ValueError(
            f"a power that is not a whole number was asked for, but the kernel has negative eigenvalues (down to "
            f"{lowest:.2g}), which have none; use a whole power, or a kernel that is positive semidefinite (Gaussian "
            "with a Euclidean metric, all pairs, one bandwidth, diagonal kept)."
        )


def _power(values: FloatArray, exponent: float) -> FloatArray:
    """values**exponent, with 0 for values that are 0: of S^(t-1) only what S maps to something matters."""
    return np.where(values > 0, np.where(values > 0, values, 1.0) ** exponent, 0.0)


def _eigensystem(S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors of a positive semidefinite matrix; what is zero up to rounding is zero."""
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    highest = max(float(values[-1]), 0.0)
    _refuse_negative(float(values[0]), highest)
    return np.where(values > len(values) * np.finfo(np.float64).eps * highest, values, 0.0), vectors


def _chebyshev_series(
    interval: tuple[float, float], exponents: Sequence[float], rtol: float, weight: int
) -> tuple[list[FloatArray], float]:
    """Series for (x / high)^e on [low, high], and their worst error times (x / high)^weight, measured."""
    degree = 8
    while True:
        grid = _chebyshev_points(4 * degree)  # they crowd at the ends, where the error is largest
        x = _relative(grid, interval)
        series: list[FloatArray] = []
        error = 0.0
        for e in exponents:
            c = _interpolate(_relative(_chebyshev_points(degree + 1), interval) ** e)
            miss = np.abs(x**weight * (chebyshev.chebval(grid, c) - x**e))
            series.append(c)
            error = max(error, float(miss.max()))
        if error <= rtol or degree >= _MOST_DEGREE:
            return series, error
        degree = min(_MOST_DEGREE, int(1.2 * degree) + 1)


def _relative(z: FloatArray, interval: tuple[float, float]) -> FloatArray:
    """Map [-1, 1] to [low, high], in units of high."""
    low, high = interval
    return (0.5 * (high - low) * (z + 1.0) + low) / high


def _chebyshev_points(n: int) -> FloatArray:
    """The n zeros of T_n, shape (n,)."""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def _interpolate(values: FloatArray) -> FloatArray:
    """Coefficients of the Chebyshev series through the values at `_chebyshev_points`."""
    c: FloatArray = dct(values, type=2) / len(values)
    c[0] /= 2.0
    return c


def _evaluate_series(
    S: Operator, V: FloatArray, interval: tuple[float, float], series: list[FloatArray]
) -> list[FloatArray]:
    """Sums of c_n T_n(L) V with L = S mapped from [low, high] to [-1, 1], by the three-term recurrence."""
    low, high = interval
    half, centre = (high - low) / 2.0, (high + low) / 2.0
    previous, current = V, (S.matmat(V) - centre * V) / half
    totals = [c[0] * previous + c[1] * current for c in series]
    for n in range(2, len(series[0])):
        previous, current = current, (2.0 / half) * (S.matmat(current) - centre * current) - previous
        for i, c in enumerate(series):
            totals[i] += c[n] * current
    return [total.astype(V.dtype, copy=False) for total in totals]
