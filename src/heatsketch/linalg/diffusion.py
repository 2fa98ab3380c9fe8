"""Filters of the heat kernel applied to a block of columns: ``h(S) M`` with ``h(x) = x^t``, for many t in one pass.

A whole power of moderate size is computed by products one after another. Any other filter is a Chebyshev polynomial on
the interval of the nontrivial spectrum: `_chebyshev_series` expands functions in one degree, `_evaluate_series` applies
them all in one pass. For few points, powers that no short polynomial approximates come from all eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy.fft import dct

from .._utils.array import asarray_like, astype, from_order, to_numpy
from .._utils.progress import track
from .._utils.registry import computing
from .._utils.threads import product, quiet_blas
from .._utils.typing import FloatArray
from .eigen import chebyshev_step
from .lanczos import extreme_ritz
from .operators import HeatOperator, Operator
from .rounding import ROUNDING_ULPS, noise_level, require_nonnegative, warn_inexact, warn_lost

__all__ = [
    "METHODS",
    "RELATIVE_ERROR",
    "check_power",
    "check_powers",
    "coefficients",
    "diffuse",
    "matrix_power",
    "require_definite",
    "require_range",
]

METHODS = ("auto", "steps", "chebyshev", "eigen")
Filter = Callable[[FloatArray, int], FloatArray]

# Error of the polynomial in place of lambda^t, relative to the largest nontrivial lambda^t.
RELATIVE_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
_MOST_DEGREE = 2000
# Up to this many points the matrix is diagonalised for a real power that no short polynomial approximates.
_EIGEN_LIMIT = 3000
# Products that finding the spectral interval costs, in the comparison of polynomial against plain steps.
_INTERVAL_COST = 15
# Largest margin of the interval, relative to the largest eigenvalue, and its least width in units of the noise level.
_WIDEST_MARGIN = 0.01
_ROUNDINGS = 0.04
# Error of a power, in units of rounding times the power.
_POWER_ULPS = 4.0
# Loss of accuracy from an interval that is too wide, up to which the degree is not raised.
_SMALL_LOSS = 2.0
# Negative eigenvalues smaller than this fraction of the largest are rounding.
_DEFINITE = 1e-6


def diffuse(
    kernel: HeatOperator,
    M: Any,
    powers: Sequence[float],
    *,
    trivial: bool = True,
    method: str = "auto",
    rtol: float | None = None,
) -> list[Any]:
    """``S^t M`` for each t, all from one pass over the kernel.

    The trivial mode is split off and handled exactly, so that its eigenvalue 1 does not drown the others at large t.

    Parameters
    ----------
    kernel : HeatOperator
        S is its symmetric form; row weights are not applied.
    M : array of shape (N, k)
    powers : sequence of float > 0
    trivial : bool
        Whether the result contains the trivial mode ``u u^T M``.
    method : {"auto", "steps", "chebyshev", "eigen"}
        "steps" multiplies t times (integer t); "chebyshev" approximates lambda^t by a polynomial of degree about
        sqrt(2 t log(2 / rtol)) on the interval of the nontrivial spectrum; "eigen" diagonalises the matrix.
        "auto" takes the cheapest that reaches `rtol`.
    rtol : float, optional
        Error of the polynomial relative to the largest nontrivial eigenvalue of S^t, at least t roundings of it; by
        default 1e-10 for float64 and 1e-6 for float32.

    Returns
    -------
    blocks : list of arrays of shape (N, k), of the library of M
    """
    for t in powers:
        check_power(t)
    with computing(), quiet_blas():
        return _apply_powers(kernel, M, powers, trivial=trivial, method=method, rtol=rtol, weight=0)


def coefficients(kernel: HeatOperator, M: Any, power: float, *, trivial: bool = True, method: str = "auto") -> Any:
    """``Z = S^(t-1) M``, so that ``S Z = S^t M`` and a new point x has the embedding ``a(x) Z``.

    For t < 1 the exponent is negative; Z is then an approximation whose product with S approximates ``S^t M``.
    """
    check_power(power)
    with computing(), quiet_blas():
        return _apply_powers(kernel, M, [power - 1.0], trivial=trivial, method=method, rtol=None, weight=1)[0]


@quiet_blas()
def matrix_power(kernel: HeatOperator, power: float, *, trivial: bool = True) -> FloatArray:
    """``S^t`` as an array of shape (N, N), in float64."""
    check_power(power)
    require_range(kernel, [power])
    S: FloatArray = kernel.deflated.toarray().astype(np.float64)
    if float(power).is_integer():
        S = _whole_power(S, int(power))
    else:
        epsilon = float(np.finfo(kernel.dtype).eps)
        values, vectors = _eigensystem(S, epsilon, noise_level(kernel))
        warn_lost((values == 0).sum() > (kernel.trivial is not None), ROUNDING_ULPS * epsilon, power)
        S = product(vectors * _power(values, power), vectors.T)
    if trivial and kernel.trivial is not None:
        S += np.outer(kernel.trivial, kernel.trivial)
    return S


def _whole_power(S: FloatArray, p: int) -> FloatArray:
    """``S^p`` by repeated squaring."""
    result = S if p % 2 else None
    while p := p // 2:
        S = product(S, S)
        if p % 2:
            result = S if result is None else product(result, S)
    assert result is not None
    return result


def check_power(power: float) -> None:
    """Raise unless the power is a positive, finite number."""
    if isinstance(power, bool) or not isinstance(power, Real) or not 0 < float(power) < np.inf:
        raise ValueError(f"power={power!r} was given; the diffusion time must be a positive, finite number.")


def check_powers(powers: ArrayLike) -> FloatArray:
    """Checked powers as an array."""
    times = np.asarray(powers, dtype=np.float64)
    if times.ndim != 1 or not len(times):
        raise ValueError(f"powers of shape {times.shape} were given; give a list of one or more diffusion times.")
    for t in times:
        check_power(t)
    return times


def _apply_powers(
    kernel: HeatOperator,
    M: Any,
    exponents: Sequence[float],
    *,
    trivial: bool,
    method: str,
    rtol: float | None,
    weight: int,
) -> list[FloatArray]:
    """``S^e M`` for exponents e; with ``weight=1`` its error is measured after one more product by S."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; use one of {METHODS}.")
    require_range(kernel, exponents)
    given, M = M, kernel.symmetric.asblock(M)
    rtol = RELATIVE_ERROR[kernel.dtype] if rtol is None else rtol
    exponents = [float(e) for e in exponents]  # NumPy's scalars would turn float32 blocks into float64
    mode = _trivial_part(kernel, M)
    rest = M if mode is None else M - mode
    whole = _whole(exponents)
    if method == "auto" and whole:
        most = max(exponents)
        shortcut = np.sqrt(2.0 * most * np.log(2.0 / rtol)) + _INTERVAL_COST
        method = "steps" if shortcut >= most else method
    if method == "steps":
        if not whole:
            raise ValueError(f"method='steps' takes whole powers; {list(exponents)} were given. Use 'auto'.")
        blocks = _in_order(lambda S, V: _steps(S, V, [int(e) for e in exponents]), kernel.deflated, rest)
    else:
        blocks = _real_powers(kernel, rest, exponents, method=method, rtol=rtol, weight=weight)
    if mode is not None:
        # Rounding may bring the trivial mode back, and S^(t-1) with t < 1 enlarges it.
        blocks = [block - _trivial_part(kernel, block) for block in blocks]
        blocks = [block + mode for block in blocks] if trivial else blocks
    return [asarray_like(block, given) for block in blocks]


def _trivial_part(kernel: HeatOperator, V: Any) -> Any:
    """``u u^T V``, or None if no trivial mode is known."""
    if kernel.trivial is None:
        return None
    u = kernel.symmetric.asblock(kernel.trivial)
    return u[:, None] * (u @ V)[None, :]


def _whole(exponents: Sequence[float]) -> bool:
    return all(float(e).is_integer() and e >= 0 for e in exponents)


def _in_order(work: Callable[[Operator, FloatArray], list[FloatArray]], S: Operator, V: Any) -> list[FloatArray]:
    """``work(S, V)``, computed in the order of rows in which S multiplies fastest."""
    order = S.order
    if order is None:
        return work(S, V)
    return [from_order(block, order) for block in work(S.reordered(), V[order])]


def _steps(S: Operator, V: Any, exponents: list[int]) -> list[FloatArray]:
    """``S^p V`` for whole p: one product after another."""
    found = {}
    most = max(exponents)
    for p in track(range(most + 1), "multiplying by the kernel", most + 1):
        V = V if p == 0 else S.matmat(V)
        if p in exponents:
            found[p] = V
    return [found[p] for p in exponents]


def _real_powers(
    kernel: HeatOperator, V: Any, exponents: Sequence[float], *, method: str, rtol: float, weight: int
) -> list[FloatArray]:
    """Real powers of the deflated kernel, by a polynomial or by diagonalising."""
    S = kernel.deflated
    interval, size = _spectral_interval(kernel, exponents, rtol)
    noise = noise_level(kernel)
    if size <= noise:
        return [V - V for _ in exponents]
    largest = max(map(abs, interval))
    # An interval wider than the spectrum overestimates x^t; the error counts relative to the largest eigenvalue.
    most = max(*exponents, 0.0)
    with np.errstate(over="ignore"):
        loss = float(np.exp(most * np.log(largest / size)))
    # The last bit of an eigenvalue changes t bits of its power.
    rtol = max(rtol, _POWER_ULPS * most * float(np.finfo(np.float64).eps))
    rounding = float(np.finfo(kernel.dtype).eps)
    wanted = rtol if loss <= _SMALL_LOSS else max(rtol / loss, rounding)
    if method == "eigen":
        return _by_eigenvectors(S, V, exponents, weight, noise)
    filters = [_power_filter(e) for e in exponents]
    series, error = _chebyshev_series(filters, interval, _degree(most, wanted), wanted, weight)
    error = error if loss <= _SMALL_LOSS else loss * max(error, rounding)
    if method == "auto" and error > rtol and S.shape[0] <= _EIGEN_LIMIT:
        return _by_eigenvectors(S, V, exponents, weight, noise)
    if error > rtol:
        warn_inexact(error, rtol)
    blocks = _in_order(lambda S, V: _evaluate_series(S, V, interval, series), S, V)
    return [largest**e * block for e, block in zip(exponents, blocks, strict=True)]


def _spectral_interval(
    kernel: HeatOperator, exponents: Sequence[float], rtol: float
) -> tuple[tuple[float, float], float]:
    """An interval that holds the spectrum of the deflated kernel, and the size of the largest eigenvalue found."""
    most = max(*exponents, 0.0)
    # Widening the interval by 1/(2t) costs a factor of e^(1/2) in the error relative to lambda_2^t.
    margin = min(_WIDEST_MARGIN, 0.5 / (max(exponents) + 1.0))
    # As many steps as the polynomial takes find the ends of the spectrum about as accurately as it needs them.
    ritz = extreme_ritz(kernel.deflated, 0.1 * margin, most_steps=_degree(most, rtol))
    room = max(margin * ritz.size, _ROUNDINGS * noise_level(kernel))
    # Polynomials that are small on an interval explode outside of it: it must contain the spectrum.
    low, high = ritz.low - ritz.low_residual - room, max(ritz.high, 0.0) + ritz.high_residual + room
    if kernel.trivial is not None and kernel.residual is not None:
        # The kernel is similar to a Markov matrix, whose eigenvalues are at most 1 up to rounding.
        bound = 1.0 + kernel.residual + 10.0 * kernel.rounding + room
        low, high = max(low, -bound), min(high, bound)
    if kernel.definite or not _whole(exponents):
        require_definite(kernel, exponents)
        low = 0.0
    return (float(low), float(high)), ritz.size


def require_definite(kernel: HeatOperator, powers: Sequence[float]) -> None:
    """Raise if a power is not whole and the kernel has negative eigenvalues."""
    if kernel.definite or _whole(powers):
        return
    # A Ritz value lies within the spectrum: if it is negative, so is an eigenvalue.
    ritz = extreme_ritz(kernel.deflated, _DEFINITE, both=True)
    require_nonnegative(ritz.low, rounding=max(_DEFINITE * ritz.size, noise_level(kernel)))


def require_range(kernel: HeatOperator, powers: Sequence[float]) -> None:
    """Raise if a power overflows: a given matrix, or one whose scaling did not converge, need not have norm 1."""
    if max(powers) <= 1.0:
        return
    largest = np.log(np.finfo(kernel.dtype).max / kernel.shape[0]) / max(powers)
    if kernel.residual is not None and np.log1p(kernel.residual) <= largest:
        return
    size = extreme_ritz(kernel.symmetric, 1e-3).size
    if size > 0.0 and np.log(size) > largest:
        remedy = "divide the matrix by its largest, or build a heat kernel from data with heat_kernel(X, ...)."
        if kernel.residual is not None:
            remedy = "the scaling did not converge; use a smaller power, more neighbours or normalization='symmetric'."
        raise ValueError(
            f"power={max(powers)} of a matrix with an eigenvalue of size {size:.3g} is beyond the range of "
            f"{kernel.dtype}; the eigenvalues of a heat kernel are at most 1: {remedy}"
        )


def _by_eigenvectors(
    S: Operator, V: Any, exponents: Sequence[float], weight: int, noise: float = 0.0
) -> list[FloatArray]:
    """Powers by diagonalising, without eigenvalues below rounding; warns if they could matter."""
    epsilon = float(np.finfo(S.dtype).eps)
    values, vectors = _eigensystem(S.toarray().astype(np.float64), epsilon, noise, whole=_whole(exponents))
    warn_lost((values == 0).sum() > 1, ROUNDING_ULPS * epsilon, min(exponents) + weight)
    projected = vectors.T @ to_numpy(V)
    blocks = [vectors @ (_power(values, e)[:, None] * projected) for e in exponents]
    return [asarray_like(block, V, S.dtype) for block in blocks]


def _power(values: FloatArray, exponent: float) -> FloatArray:
    """``values**exponent``, with 0 for 0 even if the exponent is negative: S maps these directions to 0."""
    nonzero = values != 0
    return np.where(nonzero, np.where(nonzero, values, 1.0) ** exponent, 0.0)


def _eigensystem(
    S: FloatArray, epsilon: float, noise: float = 0.0, *, whole: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors of a matrix with rounding `epsilon`; 0 for eigenvalues below rounding or `noise`."""
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    largest = float(np.abs(values).max())
    rounding = ROUNDING_ULPS * epsilon * largest if largest > noise else noise
    if not whole:
        require_nonnegative(float(values[0]), rounding=max(1e3 * rounding, noise))
        values = np.maximum(values, 0.0)
    return np.where(np.abs(values) > rounding, values, 0.0), vectors


def _power_filter(exponent: float) -> Filter:
    return lambda x, weight: x ** (exponent + weight)


def _chebyshev_series(
    filters: Sequence[Filter], interval: tuple[float, float], degree: int, rtol: float, weight: int
) -> tuple[list[FloatArray], float]:
    """Chebyshev coefficients of filters on the interval, and their worst measured error times x^weight.

    A filter maps ``(x, weight)`` to ``x^weight h(x)``, with x relative to the largest |x| of the interval. The degree
    is raised until the error is at most `rtol`; a lower one than given cannot follow h between the points of the grid.
    """
    most = max(_MOST_DEGREE, 2 * degree)
    while True:
        grid = np.concatenate([[-1.0, 1.0], _chebyshev_points(4 * degree)])
        x, nodes = _relative(grid, interval), _relative(_chebyshev_points(degree + 1), interval)
        series = [_interpolate(h(nodes, 0)) for h in filters]
        error = max(
            float(np.abs(x**weight * chebyshev.chebval(grid, c) - h(x, weight)).max())
            for h, c in zip(filters, series, strict=True)
        )
        if error <= rtol or degree >= most:
            return series, error
        degree = min(most, int(1.2 * degree) + 1)


def _degree(exponent: float, rtol: float) -> int:
    """Degree at which a polynomial begins to follow ``x^exponent`` on [0, 1] to within `rtol`."""
    return 8 + int(np.sqrt(2.0 * exponent * np.log(2.0 / rtol)))


def _relative(z: FloatArray, interval: tuple[float, float]) -> FloatArray:
    """Map [-1, 1] to [low, high], in units of the larger of |low| and |high|."""
    low, high = interval
    return (0.5 * (high - low) * (z + 1.0) + low) / max(abs(low), abs(high))


def _chebyshev_points(n: int) -> FloatArray:
    """The n zeros of T_n, shape (n,)."""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def _interpolate(values: FloatArray) -> FloatArray:
    """Coefficients of the Chebyshev series through the values at `_chebyshev_points`."""
    c: FloatArray = dct(values, type=2) / len(values)
    c[0] /= 2.0
    return c


def _evaluate_series(S: Operator, V: Any, interval: tuple[float, float], series: list[FloatArray]) -> list[Any]:
    """Sums of c_n T_n(L) V with L = S mapped from [low, high] to [-1, 1], by the three-term recurrence."""
    low, high = interval
    half, centre = (high - low) / 2.0, (high + low) / 2.0
    previous, current = V, (S.matmat(V) - centre * V) / half
    # Totals in float64: hundreds of terms nearly cancel.
    wide = astype(previous, np.float64), astype(current, np.float64)
    totals = [float(c[0]) * wide[0] + float(c[1]) * wide[1] for c in series]
    for n in track(range(2, len(series[0])), "multiplying by the kernel", len(series[0]) - 2):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
        term = astype(current, np.float64)
        for i, c in enumerate(series):
            totals[i] += float(c[n]) * term
    return [astype(total, S.dtype) for total in totals]
