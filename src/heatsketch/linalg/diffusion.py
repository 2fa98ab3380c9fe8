"""Powers of the heat kernel applied to a block of columns: ``S^t M``, for many t in one pass."""

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
from .operators import HeatOperator, Operator
from .ritz import extreme_ritz
from .rounding import ROUNDING_ULPS, noise_level, refuse_negative, warn_inexact, warn_lost

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

# Error of the polynomial in place of lambda^t, relative to the largest nontrivial lambda^t.
RELATIVE_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
_MOST_DEGREE = 2000
# Up to this many points a real power that no short polynomial approximates is taken by diagonalising.
_EIGEN_LIMIT = 3000
# Products that finding the spectral interval costs, in the comparison of polynomial against plain steps.
_INTERVAL_COST = 15
_WIDEST_MARGIN = 0.01
# Share of what passes for rounding that the interval must have room for.
_ROUNDINGS = 0.04
# Units in the last place of an eigenvalue that its power may be off by, times the power.
_POWER_ULPS = 4.0
# Loss of accuracy from an interval that is too wide that goes without saying; logarithm of what is no number.
_SMALL_LOSS, _LARGEST_LOG = 2.0, 700.0
# Negative eigenvalues smaller than this fraction of the largest pass for rounding.
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

    The trivial mode is split off and handled exactly, so that its eigenvalue 1 does not drown the others at
    large t.

    Parameters
    ----------
    kernel : HeatOperator
        Its symmetric form S is used; row weights are left to the caller.
    M : array of shape (N, k)
    powers : sequence of float > 0
    trivial : bool
        Whether the result contains the trivial mode ``u u^T M``.
    method : {"auto", "steps", "chebyshev", "eigen"}
        "steps" multiplies t times (integer t); "chebyshev" approximates lambda^t by a polynomial of degree about
        sqrt(2 t log(2 / rtol)) on the interval of the nontrivial spectrum; "eigen" diagonalises the matrix.
        "auto" takes the cheapest that reaches `rtol`.
    rtol : float, optional
        Error of the polynomial relative to the largest nontrivial eigenvalue of S^t; by default 1e-10 for float64
        and 1e-6 for float32. No less is asked for than t roundings of that eigenvalue come to.

    Returns
    -------
    blocks : list of arrays of shape (N, k), of the kind of M
    """
    for t in powers:
        check_power(t)
    with computing(), quiet_blas():
        return _apply_powers(kernel, M, powers, trivial=trivial, method=method, rtol=rtol, weight=0)


def coefficients(
    kernel: HeatOperator,
    M: Any,
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
    with computing(), quiet_blas():
        return _apply_powers(kernel, M, exponents, trivial=trivial, method=method, rtol=rtol, weight=1)[0]


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
    """Refuse a power that is not a positive, finite number."""
    if isinstance(power, bool) or not isinstance(power, Real) or not 0 < float(power) < np.inf:
        raise ValueError(f"power={power!r} was given; the diffusion time must be a positive, finite number.")


def check_powers(powers: ArrayLike) -> FloatArray:
    """Several powers, each checked, as an array."""
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
    """S^e M for exponents e; with ``weight=1`` its error counts after one more product by S."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; use one of {METHODS}.")
    require_range(kernel, exponents)
    given, M = M, kernel.symmetric.asblock(M)
    rtol = RELATIVE_ERROR[kernel.dtype] if rtol is None else rtol
    exponents = [float(e) for e in exponents]  # NumPy's numbers would make float64 of blocks in float32
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
        # Rounding may bring the trivial mode back, and S^(t-1) with t < 1 enlarges it: only what is meant may be there.
        blocks = [block - _trivial_part(kernel, block) for block in blocks]
        blocks = [block + mode for block in blocks] if trivial else blocks
    return [asarray_like(block, given) for block in blocks]


def _trivial_part(kernel: HeatOperator, V: Any) -> Any:
    """``u u^T V``, or None where no trivial mode is known."""
    if kernel.trivial is None:
        return None
    u = kernel.symmetric.asblock(kernel.trivial)
    return u[:, None] * (u @ V)[None, :]


def _whole(exponents: Sequence[float]) -> bool:
    return all(float(e).is_integer() and e >= 0 for e in exponents)


def _in_order(work: Callable[[Operator, FloatArray], list[FloatArray]], S: Operator, V: Any) -> list[FloatArray]:
    """What `work` makes of S and V, done in the order of rows that S would rather have."""
    order = S.order
    if order is None:
        return work(S, V)
    return [from_order(block, order) for block in work(S.reordered(), V[order])]


def _steps(S: Operator, V: Any, exponents: list[int]) -> list[FloatArray]:
    """S^p V for whole p: one product after another."""
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
    low, high = interval
    # An interval that reaches beyond the spectrum takes x^t for larger than it is: what counts is the error relative
    # to the largest eigenvalue's power.
    most = max(*exponents, 0.0)
    loss = _growth(max(abs(low), abs(high)) / size, most)
    # The last bit of an eigenvalue is worth t of its power.
    rtol = max(rtol, _POWER_ULPS * most * float(np.finfo(np.float64).eps))
    rounding = float(np.finfo(kernel.dtype).eps)
    wanted = rtol if loss <= _SMALL_LOSS else max(rtol / loss, rounding)
    series, error = ([], np.inf) if method == "eigen" else _chebyshev_series(interval, exponents, wanted, weight)
    error = error if loss <= _SMALL_LOSS else loss * max(error, rounding)
    if method == "eigen" or (method == "auto" and error > rtol and S.shape[0] <= _EIGEN_LIMIT):
        return _by_eigenvectors(S, V, exponents, weight, noise)
    if error > rtol:
        warn_inexact(error, rtol)
    blocks = _in_order(lambda S, V: _evaluate_series(S, V, interval, series), S, V)
    size = max(abs(low), abs(high))
    return [size**e * block for e, block in zip(exponents, blocks, strict=True)]


def _spectral_interval(
    kernel: HeatOperator, exponents: Sequence[float], rtol: float
) -> tuple[tuple[float, float], float]:
    """An interval that holds the spectrum of the deflated kernel, and the size of the largest eigenvalue found."""
    most = max(*exponents, 0.0)
    # Widening the interval by 1/(2t) costs a factor of e^(1/2) in the error relative to lambda_2^t.
    margin = min(_WIDEST_MARGIN, 0.5 / (max(exponents) + 1.0))
    # Steps that the polynomial takes tell the ends of the spectrum to about as much as it needs.
    ritz = extreme_ritz(kernel.deflated, 0.1 * margin, most_steps=_degree(most, rtol))
    room = max(margin * ritz.size, _ROUNDINGS * noise_level(kernel))
    # Polynomials that are small on an interval explode outside of it: it must not be short of the spectrum.
    low, high = ritz.low - ritz.low_residual - room, max(ritz.high, 0.0) + ritz.high_residual + room
    if kernel.trivial is not None and kernel.residual is not None:
        # The kernel is similar to a Markov matrix, whose eigenvalues are within 1 but for rounding.
        bound = 1.0 + kernel.residual + 10.0 * kernel.rounding + room
        low, high = max(low, -bound), min(high, bound)
    if kernel.definite or not _whole(exponents):
        require_definite(kernel, exponents)
        low = 0.0
    return (float(low), float(high)), ritz.size


def _growth(ratio: float, exponent: float) -> float:
    """``ratio**exponent`` for ratio >= 1, or infinity."""
    logarithm = exponent * np.log(ratio)
    return float(np.exp(logarithm)) if logarithm < _LARGEST_LOG else np.inf


def require_definite(kernel: HeatOperator, powers: Sequence[float]) -> None:
    """Refuse powers that are not whole where the kernel is found to have negative eigenvalues."""
    if kernel.definite or _whole(powers):
        return
    # A Ritz value lies within the spectrum: where it is negative, so is an eigenvalue.
    ritz = extreme_ritz(kernel.deflated, _DEFINITE, both=True)
    refuse_negative(ritz.low, rounding=max(_DEFINITE * ritz.size, noise_level(kernel)))


def require_range(kernel: HeatOperator, powers: Sequence[float]) -> None:
    """Refuse powers beyond the range of numbers: what was given, or scaled in vain, need not be of norm 1."""
    if max(powers) <= 1.0:
        return
    largest = np.log(np.finfo(kernel.dtype).max / kernel.shape[0]) / max(powers)
    if kernel.residual is not None and np.log1p(kernel.residual) <= largest:
        return
    size = extreme_ritz(kernel.symmetric, 0.5).size  # soon found, and within a factor of two
    if size == 0.0 or np.log(2.0 * size) <= largest:
        return
    size = extreme_ritz(kernel.symmetric, 1e-3).size
    if np.log(size) > largest:
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
    """Powers by diagonalising; what lies below rounding is left out, and said if it could matter."""
    epsilon = float(np.finfo(S.dtype).eps)
    values, vectors = _eigensystem(S.toarray().astype(np.float64), epsilon, noise, whole=_whole(exponents))
    warn_lost((values == 0).sum() > 1, ROUNDING_ULPS * epsilon, min(exponents) + weight)
    projected = vectors.T @ to_numpy(V)
    blocks = [vectors @ (_power(values, e)[:, None] * projected) for e in exponents]
    return [asarray_like(block, V, S.dtype) for block in blocks]


def _power(values: FloatArray, exponent: float) -> FloatArray:
    """values**exponent, with 0 for values that are 0: of S^(t-1) only what S maps to something matters."""
    nonzero = values != 0
    return np.where(nonzero, np.where(nonzero, values, 1.0) ** exponent, 0.0)


def _eigensystem(
    S: FloatArray, epsilon: float, noise: float = 0.0, *, whole: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors of a matrix with rounding `epsilon`; what is zero up to rounding is zero.

    So are all, where none is larger than `noise`.
    """
    values, vectors = np.linalg.eigh((S + S.T) / 2.0)
    largest = float(np.abs(values).max())
    rounding = ROUNDING_ULPS * epsilon * largest if largest > noise else noise
    if not whole:
        refuse_negative(float(values[0]), rounding=max(1e3 * rounding, noise))
        values = np.maximum(values, 0.0)
    return np.where(np.abs(values) > rounding, values, 0.0), vectors


def _chebyshev_series(
    interval: tuple[float, float], exponents: Sequence[float], rtol: float, weight: int
) -> tuple[list[FloatArray], float]:
    """Series for x^e on the interval, and their worst error times x^weight, measured; x in units of the largest |x|."""
    # Lower degrees cannot follow x^t near the end of the interval, where the grid would not see it.
    degree = _degree(max(*exponents, 0.0), rtol)
    most = max(_MOST_DEGREE, 2 * degree)
    while True:
        grid = np.concatenate([[-1.0, 1.0], _chebyshev_points(4 * degree)])
        x = _relative(grid, interval)
        series: list[FloatArray] = []
        error = 0.0
        for e in exponents:
            c = _interpolate(_relative(_chebyshev_points(degree + 1), interval) ** e)
            miss = np.abs(x**weight * chebyshev.chebval(grid, c) - x ** (e + weight))
            series.append(c)
            error = max(error, float(miss.max()))
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
    # Totals in float64: hundreds of terms that nearly cancel are added up.
    wide = astype(previous, np.float64), astype(current, np.float64)
    totals = [float(c[0]) * wide[0] + float(c[1]) * wide[1] for c in series]
    for n in track(range(2, len(series[0])), "multiplying by the kernel", len(series[0]) - 2):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
        term = astype(current, np.float64)
        for i, c in enumerate(series):
            totals[i] += float(c[n]) * term
    return [astype(total, S.dtype) for total in totals]
