"""Functions of the heat kernel applied to a block of columns: ``h(S) M``.

A whole power of moderate size takes one product after another. Any other power, and the multiscale filter, is a
Chebyshev polynomial on the interval of the nontrivial spectrum: `_chebyshev_series` expands several functions in one
degree, and `_evaluate_series` applies them all in one pass. For few points, powers that no short polynomial
approximates come from all eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import dct

from .._utils.array import asarray_like, astype, from_order, in_order, to_numpy
from .._utils.progress import track
from .._utils.registry import computing
from .._utils.threads import product, quiet_blas
from .._utils.typing import FloatArray, IntArray
from .filters import MultiscaleFilter, Power, check_power, longest
from .lanczos import extreme_ritz
from .operators import HeatOperator, Operator
from .recurrences import add_term, chebyshev_step
from .rounding import ROUNDING_ULPS, noise_level, require_nonnegative, warn_inexact, warn_inexact_filter, warn_lost

__all__ = [
    "METHODS",
    "RELATIVE_ERROR",
    "coefficients",
    "diffuse",
    "matrix_power",
    "powers_of_sketch",
    "relative_error",
    "require_definite",
    "require_range",
    "rows_of_powers",
]

METHODS = ("auto", "steps", "chebyshev", "eigen")

# Error of the polynomial in place of lambda^t, relative to the largest nontrivial lambda^t.
RELATIVE_ERROR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}
# Error of the polynomial in place of the multiscale filter, relative to its value at every eigenvalue.
_MULTISCALE_ERROR = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
# Accuracy, and margin, of the lower end of its interval; the upper end of the spectrum of a Markov matrix is 1.
_END = 0.02
_MOST_DEGREE = 2000
# Size of the terms of a polynomial that are left out, relative to its error.
_TAIL = 0.1
# Factor by which the degree is raised until a polynomial is accurate enough.
_GROWTH = 1.05
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


class Target(NamedTuple):
    """A function that a polynomial approximates, the weight of its error, and their product, finite at zero."""

    function: Callable[[FloatArray], FloatArray]
    weight: Callable[[FloatArray], FloatArray]
    weighted: Callable[[FloatArray], FloatArray]


def diffuse(
    kernel: HeatOperator,
    M: Any,
    powers: Sequence[Power],
    *,
    trivial: bool = True,
    method: str = "auto",
    rtol: float | None = None,
) -> list[Any]:
    """``S^t M`` for each t, all from one pass over the kernel; ``h(S) M`` for a filter h, from a pass of its own.

    The trivial mode is split off and handled exactly, so that its eigenvalue 1 does not drown the others at large t.
    A multiscale filter leaves it out.

    Parameters
    ----------
    kernel : HeatOperator
        S is its symmetric form; row weights are not applied.
    M : array of shape (N, k)
    powers : sequence of float > 0, or MultiscaleFilter
    trivial : bool
        Whether the result contains the trivial mode ``u u^T M``.
    method : {"auto", "steps", "chebyshev", "eigen"}
        "steps" multiplies t times (integer t); "chebyshev" approximates lambda^t by a polynomial of degree about
        sqrt(2 t log(2 / error)) on the interval of the nontrivial spectrum; "eigen" diagonalises the matrix. "auto"
        takes the cheapest whose error, relative to the largest nontrivial eigenvalue of S^t, is at most 1e-10 in
        float64 and 1e-6 in float32, or t roundings.
    rtol : float, optional
        Error of a multiscale filter, relative to its value at every eigenvalue; by default 1e-8 in float64 and 1e-4 in
        float32.

    Returns
    -------
    blocks : list of arrays of shape (N, k), of the library of M
    """
    for t in powers:
        check_power(t)
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; use one of {METHODS}.")
    times = [t for t in powers if not isinstance(t, MultiscaleFilter)]
    blocks = iter(_apply_powers(kernel, M, times, trivial=trivial, method=method) if times else [])
    return [
        asarray_like(kernel.deflated @ _apply_multiscale(kernel, M, h, rtol), M)
        if isinstance(h, MultiscaleFilter)
        else next(blocks)
        for h in powers
    ]


def relative_error(power: Power, dtype: Any) -> float:
    """Error of the polynomial in place of a power, or of a filter."""
    return (_MULTISCALE_ERROR if isinstance(power, MultiscaleFilter) else RELATIVE_ERROR)[np.dtype(dtype)]


def coefficients(kernel: HeatOperator, M: Any, power: Power, *, trivial: bool = True) -> Any:
    """``Z = S^(t-1) M``, so that ``S Z = S^t M`` and a new point x has the embedding ``a(x) Z``.

    For t < 1 the exponent is negative; Z is then an approximation whose product with S approximates ``S^t M``. For a
    multiscale filter it is ``g(S) M`` with ``g(x) = h(x) / x``, without the trivial mode.
    """
    check_power(power)
    if isinstance(power, MultiscaleFilter):
        return _apply_multiscale(kernel, M, power)
    return _apply_powers(kernel, M, [power - 1.0], trivial=trivial, weight=1)[0]


@computing()
@quiet_blas()
def powers_of_sketch(kernel: HeatOperator, V: Any, h: MultiscaleFilter, powers: Sequence[float]) -> list[Any]:
    """``S^t M`` for the M whose sketch ``h(S) M`` is V, for each t of at least 1, all from one pass over the kernel.

    M itself is ``h(S)^-1 V``, whose entries may be huge; ``x^t / h(x)`` is at most one over the root of the first
    weight of the filter. The trivial mode, which the filter leaves out, is not contained.

    Parameters
    ----------
    kernel : HeatOperator
    V : array of shape (N, k)
    h : MultiscaleFilter
    powers : sequence of float >= 1

    Returns
    -------
    blocks : list of arrays of shape (N, k), of the library of V
    """
    require_range(kernel, [h])
    given, V, most = V, kernel.symmetric.asblock(V), max([*powers, longest(h)])
    mode = _trivial_part(kernel, V)
    rest = V if mode is None else V - mode
    if _whole(powers):
        interval = _multiscale_interval(kernel, most)
    else:
        require_definite(kernel, powers)
        interval = 0.0, _multiscale_interval(kernel, most)[1]

    def quotient(x: FloatArray, t: float, size: float = 1.0) -> FloatArray:
        base = x if float(t).is_integer() else np.maximum(x, 0.0)
        found: FloatArray = base ** (t - 1.0) / (size * h.over_x(x))
        return found

    # Errors count relative to the largest value.
    sizes = [float(quotient(np.linspace(0.0, interval[1], 1001), t).max()) for t in powers]
    targets = [
        Target(partial(quotient, t=t), partial(np.full_like, fill_value=1.0 / c), partial(quotient, t=t, size=c))
        for t, c in zip(powers, sizes, strict=True)
    ]
    rtol = _MULTISCALE_ERROR[kernel.dtype]
    series, error = _chebyshev_series(targets, interval, _degree(most, 1.0), rtol)
    if error > rtol:
        warn_inexact_filter(error, rtol)
    S = kernel.symmetric if interval[1] >= 1.0 else kernel.deflated
    blocks = _in_order(lambda S, V: _evaluate_series(S, V, interval, series), S, rest)
    return [asarray_like(b if mode is None else b - _trivial_part(kernel, b), given) for b in blocks]


@computing()
@quiet_blas()
def rows_of_powers(
    kernel: HeatOperator, V: Any, rows: IntArray, exponents: Sequence[float], *, rtol: float, size: float
) -> FloatArray:
    """Rows of ``S^e V`` without the trivial mode, for each e, all from one pass over the kernel in little memory.

    Parameters
    ----------
    kernel : HeatOperator
    V : array of shape (N, k)
    rows : ndarray of int, shape (m,)
    exponents : sequence of float > 0
    rtol : float
        Error relative to the largest nontrivial eigenvalue of ``S^e``.
    size : float
        The largest nontrivial eigenvalue of S, or somewhat less.

    Returns
    -------
    blocks : ndarray of float64, shape (n_exponents, m, k)
    """
    require_range(kernel, exponents)
    V, most = kernel.symmetric.asblock(V), max(exponents)
    mode = _trivial_part(kernel, V)
    if _whole(exponents) and rtol * size**most > RELATIVE_ERROR[kernel.dtype]:
        # What rounding brings back of the trivial mode does not grow, because the interval contains its eigenvalue.
        interval, rtol, S = _multiscale_interval(kernel, most), rtol * size**most, kernel.symmetric
    else:
        interval, size, S = *_spectral_interval(kernel, exponents), kernel.deflated
    if size <= noise_level(kernel):
        return np.zeros((len(exponents), len(rows), V.shape[1]))
    largest = max(map(abs, interval))
    targets = [_power_target(e, 0, largest) for e in exponents]
    series, error = _chebyshev_series(targets, interval, _degree(most, rtol), rtol)
    if error > rtol:
        warn_inexact(error, rtol)
    series = [_without_tail(c, _TAIL**2 * rtol) for c in series]  # differences of rows need more digits
    order, rest, at = S.order, V if mode is None else V - mode, rows
    if order is not None:
        S, rest, at = S.reordered(), rest[order], np.argsort(order)[rows]
    half, centre = (interval[1] - interval[0]) / 2.0, (interval[1] + interval[0]) / 2.0
    previous, current = rest, (S.matmat(rest) - centre * rest) / half
    seen = [to_numpy(previous[at]), to_numpy(current[at])]  # rows of T_n V
    length = max(map(len, series))
    for _ in track(range(2, length), "multiplying by the kernel", length - 2):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
        seen.append(to_numpy(current[at]))
    rows_seen = np.array(seen, dtype=np.float64)
    blocks = (largest**e * np.tensordot(c, rows_seen[: len(c)], axes=1) for e, c in zip(exponents, series, strict=True))
    return np.array(list(blocks))


@quiet_blas()
def matrix_power(kernel: HeatOperator, power: Power, *, trivial: bool = True) -> FloatArray:
    """``S^t``, or ``h(S)`` without the trivial mode for a multiscale filter, as an array (N, N) in float64."""
    check_power(power)
    require_range(kernel, [power])
    if isinstance(power, MultiscaleFilter):
        values, vectors = np.linalg.eigh(_symmetric_array(kernel))
        return product(vectors * power(values), vectors.T)
    if float(power).is_integer():
        found = _whole_power(kernel.deflated.toarray().astype(np.float64), int(power))
    else:
        values, vectors = _eigensystem(kernel, power, whole=False)
        found = product(vectors * _power(values, power), vectors.T)
    if trivial and kernel.trivial is not None:
        found += np.outer(kernel.trivial, kernel.trivial)
    return found


def _whole_power(S: FloatArray, p: int) -> FloatArray:
    """``S^p`` by repeated squaring."""
    result = S if p % 2 else None
    while p := p // 2:
        S = product(S, S)
        if p % 2:
            result = S if result is None else product(result, S)
    assert result is not None
    return result


@computing()
@quiet_blas()
def _apply_powers(
    kernel: HeatOperator,
    M: Any,
    exponents: Sequence[float],
    *,
    trivial: bool,
    method: str = "auto",
    weight: int = 0,
) -> list[FloatArray]:
    """``S^e M`` for exponents e; with ``weight=1`` the error is measured after one more product by S."""
    require_range(kernel, exponents)
    given, M = M, kernel.symmetric.asblock(M)
    exponents = [float(e) for e in exponents]  # NumPy's scalars would turn float32 blocks into float64
    mode = _trivial_part(kernel, M)
    rest = M if mode is None else M - mode
    whole = _whole(exponents)
    if method == "auto" and whole:
        most = max(exponents)
        shortcut = np.sqrt(2.0 * most * np.log(2.0 / RELATIVE_ERROR[kernel.dtype])) + _INTERVAL_COST
        method = "steps" if shortcut >= most else method
    if method == "steps":
        if not whole:
            raise ValueError(f"method='steps' takes whole powers; {list(exponents)} were given. Use 'auto'.")
        blocks = _in_order(lambda S, V: _steps(S, V, [int(e) for e in exponents]), kernel.deflated, rest)
    elif method == "eigen":
        blocks = _by_eigenvectors(kernel, rest, exponents, weight)
    else:
        blocks = _by_polynomials(kernel, rest, exponents, weight, diagonalise=method == "auto")
    if mode is not None:
        # Rounding may bring the trivial mode back, and S^(t-1) with t < 1 enlarges it.
        blocks = [block - _trivial_part(kernel, block) for block in blocks]
        blocks = [block + mode for block in blocks] if trivial else blocks
    return [asarray_like(block, given) for block in blocks]


@computing()
@quiet_blas()
def _apply_multiscale(kernel: HeatOperator, M: Any, h: MultiscaleFilter, rtol: float | None = None) -> Any:
    """``g(S) M`` with ``g(x) = h(x) / x``, without the trivial mode."""
    require_range(kernel, [h])
    given, M = M, kernel.symmetric.asblock(M)
    mode = _trivial_part(kernel, M)
    rest = M if mode is None else M - mode
    interval, rtol = _multiscale_interval(kernel, longest(h)), rtol or _MULTISCALE_ERROR[kernel.dtype]
    target = Target(h.over_x, lambda x: 1.0 / h.over_x(x), np.ones_like)
    series, error = _chebyshev_series([target], interval, _degree(longest(h), 1.0), rtol)
    if error > rtol:
        warn_inexact_filter(error, rtol)
    # What rounding brings back of the trivial mode does not grow, because the interval contains its eigenvalue.
    S = kernel.symmetric if interval[1] >= 1.0 else kernel.deflated
    [block] = _in_order(lambda S, V: _evaluate_series(S, V, interval, series), S, rest)
    return asarray_like(block if mode is None else block - _trivial_part(kernel, block), given)


def _trivial_part(kernel: HeatOperator, V: Any) -> Any:
    """``u u^T V``, or None if no trivial mode is known."""
    if kernel.trivial is None:
        return None
    u = kernel.symmetric.asblock(kernel.trivial)
    return u[:, None] * (u @ V)[None, :]


def _whole(exponents: Sequence[Power]) -> bool:
    """Whether the functions are defined for negative eigenvalues, too."""
    return all(isinstance(e, MultiscaleFilter) or (float(e).is_integer() and e >= 0) for e in exponents)


def _in_order(work: Callable[[Operator, FloatArray], list[FloatArray]], S: Operator, V: Any) -> list[FloatArray]:
    """``work(S, V)``, computed in the order of rows in which S multiplies fastest."""
    order = S.order
    if order is None:
        return work(S, V)
    return [from_order(block, order) for block in work(S.reordered(), in_order(V, order))]


def _steps(S: Operator, V: Any, exponents: list[int]) -> list[FloatArray]:
    """``S^p V`` for whole p: one product after another."""
    found = {}
    most = max(exponents)
    for p in track(range(most + 1), "multiplying by the kernel", most + 1):
        if p:
            V = S.matmat_of_product(V) if p > 1 else S.matmat(V)
        if p in exponents:
            found[p] = V
    return [found[p] for p in exponents]


def _by_polynomials(
    kernel: HeatOperator, V: Any, exponents: Sequence[float], weight: int, *, diagonalise: bool
) -> list[FloatArray]:
    """Powers of the deflated kernel by Chebyshev polynomials.

    If no short one is accurate enough, powers for few points come from eigenvectors, with `diagonalise`; others warn.
    """
    interval, size = _spectral_interval(kernel, exponents)
    if size <= noise_level(kernel):
        return [V - V for _ in exponents]
    largest = max(map(abs, interval))
    # An interval wider than the spectrum overestimates x^t; the error counts relative to the largest eigenvalue.
    most = max(*exponents, 0.0)
    with np.errstate(over="ignore"):
        loss = float(np.exp(most * np.log(largest / size)))
    # The last bit of an eigenvalue changes t bits of its power.
    rtol = max(RELATIVE_ERROR[kernel.dtype], _POWER_ULPS * most * float(np.finfo(np.float64).eps))
    rounding = float(np.finfo(kernel.dtype).eps)
    wanted = rtol if loss <= _SMALL_LOSS else max(rtol / loss, rounding)
    targets = [_power_target(e, weight, largest) for e in exponents]
    series, error = _chebyshev_series(targets, interval, _degree(most, wanted), wanted)
    error = error if loss <= _SMALL_LOSS else loss * max(error, rounding)
    if diagonalise and error > rtol and kernel.shape[0] <= _EIGEN_LIMIT:
        return _by_eigenvectors(kernel, V, exponents, weight)
    if error > rtol:
        warn_inexact(error, rtol)
    if loss <= _SMALL_LOSS:
        series = [_without_tail(c, _TAIL * wanted) for c in series]
    blocks = _in_order(lambda S, V: _evaluate_series(S, V, interval, series), kernel.deflated, V)
    return [largest**e * block for e, block in zip(exponents, blocks, strict=True)]


def _power_target(exponent: float, weight: float, scale: float) -> Target:
    """``x^exponent`` with the weight ``x^weight``, x relative to the largest eigenvalue: powers do not underflow."""
    exponents = exponent, weight, exponent + weight
    return Target(*(partial(lambda x, e: (x / scale) ** e, e=e) for e in exponents))


def _spectral_interval(kernel: HeatOperator, exponents: Sequence[float]) -> tuple[tuple[float, float], float]:
    """An interval that holds the spectrum of the deflated kernel, and the size of the largest eigenvalue found."""
    most = max(*exponents, 0.0)
    # Widening the interval by 1/(2t) costs a factor of e^(1/2) in the error relative to lambda_2^t.
    margin = min(_WIDEST_MARGIN, 0.5 / (max(exponents) + 1.0))
    # As many steps as the polynomial takes find the ends of the spectrum about as accurately as it needs them.
    ritz = extreme_ritz(kernel.deflated, 0.1 * margin, most_steps=_degree(most, RELATIVE_ERROR[kernel.dtype]))
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


def _multiscale_interval(kernel: HeatOperator, time: float) -> tuple[float, float]:
    """An interval that holds the spectrum of the deflated kernel, up to 1 if it is Markov, from fewer products."""
    if kernel.trivial is None or kernel.residual is None or time * kernel.residual > 1.0:
        return _spectral_interval(kernel, [time])[0]
    high = 1.0 + kernel.residual + 10.0 * kernel.rounding
    if kernel.definite:
        return 0.0, high
    if kernel.lower_end is None:
        ritz = extreme_ritz(kernel.deflated, _END, both=True)
        kernel.lower_end = ritz.low - ritz.low_residual - _END
    return max(kernel.lower_end, -high), high


def require_definite(kernel: HeatOperator, powers: Sequence[Power]) -> None:
    """Raise if a power is not whole and the kernel has negative eigenvalues."""
    if kernel.definite or _whole(powers):
        return
    # A Ritz value lies within the spectrum: if it is negative, so is an eigenvalue.
    ritz = extreme_ritz(kernel.deflated, _DEFINITE, both=True)
    require_nonnegative(ritz.low, rounding=max(_DEFINITE * ritz.size, noise_level(kernel)))


def require_range(kernel: HeatOperator, powers: Sequence[Power]) -> None:
    """Raise if a power overflows: a given matrix, or one whose scaling did not converge, need not have norm 1."""
    most = max(longest(power) for power in powers)
    if most <= 1.0:
        return
    largest = np.log(np.finfo(kernel.dtype).max / kernel.shape[0]) / most
    if kernel.residual is not None and np.log1p(kernel.residual) <= largest:
        return
    size = extreme_ritz(kernel.symmetric, 1e-3).size
    if size > 0.0 and np.log(size) > largest:
        remedy = "divide the matrix by its largest eigenvalue, or make a kernel from data with heat_kernel(X, ...)."
        if kernel.residual is not None:
            remedy = "the scaling did not converge; use a smaller power, more neighbours or normalization='symmetric'."
        raise ValueError(
            f"power={most:g} of a matrix with an eigenvalue of size {size:.3g} is beyond the range of "
            f"{kernel.dtype}; the eigenvalues of a heat kernel are at most 1: {remedy}"
        )


def _by_eigenvectors(kernel: HeatOperator, V: Any, exponents: Sequence[float], weight: int) -> list[FloatArray]:
    """Powers of the deflated kernel by diagonalising."""
    values, vectors = _eigensystem(kernel, min(exponents) + weight, whole=_whole(exponents))
    projected = vectors.T @ to_numpy(V)
    blocks = [vectors @ (_power(values, e)[:, None] * projected) for e in exponents]
    return [asarray_like(block, V, kernel.dtype) for block in blocks]


def _symmetric_array(kernel: HeatOperator) -> FloatArray:
    """The deflated kernel in float64, symmetric to the last bit, (N, N)."""
    S = kernel.deflated.toarray().astype(np.float64)
    symmetric: FloatArray = (S + S.T) / 2.0
    return symmetric


def _power(values: FloatArray, exponent: float) -> FloatArray:
    """``values**exponent``, with 0 for 0 even if the exponent is negative: S maps these directions to 0."""
    nonzero = values != 0
    return np.where(nonzero, np.where(nonzero, values, 1.0) ** exponent, 0.0)


def _eigensystem(kernel: HeatOperator, power: float, *, whole: bool) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, with 0 for those below rounding, and eigenvectors of the deflated kernel.

    Warns if eigenvalues below rounding could matter in the power. Raises for negative ones unless powers are whole.
    """
    noise = noise_level(kernel)
    values, vectors = np.linalg.eigh(_symmetric_array(kernel))
    largest, relative = float(np.abs(values).max()), ROUNDING_ULPS * float(np.finfo(kernel.dtype).eps)
    rounding = relative * largest if largest > noise else noise
    if not whole:
        require_nonnegative(float(values[0]), rounding=max(1e3 * rounding, noise))
        values = np.maximum(values, 0.0)
    values = np.where(np.abs(values) > rounding, values, 0.0)
    warn_lost((values == 0).sum() > (kernel.trivial is not None), relative, power)
    return values, vectors


def _chebyshev_series(
    targets: Sequence[Target], interval: tuple[float, float], degree: int, rtol: float
) -> tuple[list[FloatArray], float]:
    """Chebyshev coefficients of functions on the interval, and their worst measured, weighted error.

    The degree is raised until the error is at most `rtol`; a lower one than given cannot follow the functions between
    the points of the grid.
    """
    most = max(_MOST_DEGREE, 2 * degree)
    while True:
        grid = np.concatenate([_chebyshev_points(4 * degree), [-1.0, 1.0]])
        x, nodes = _mapped(grid, interval), _mapped(_chebyshev_points(degree + 1), interval)
        series = [_interpolate(target.function(nodes)) for target in targets]
        error = max(
            float(np.abs(target.weight(x) * _values(c, 4 * degree) - target.weighted(x)).max())
            for target, c in zip(targets, series, strict=True)
        )
        if error <= rtol or degree >= most:
            return series, error
        degree = min(most, int(_GROWTH * degree) + 1)


def _degree(exponent: float, rtol: float) -> int:
    """Degree at which a polynomial begins to follow ``x^exponent`` on [0, 1] to within `rtol`."""
    return 8 + int(np.sqrt(2.0 * exponent * np.log(2.0 / rtol)))


def _mapped(z: FloatArray, interval: tuple[float, float]) -> FloatArray:
    """Map [-1, 1] to [low, high]."""
    low, high = interval
    return 0.5 * (high - low) * (z + 1.0) + low


def _chebyshev_points(n: int) -> FloatArray:
    """The n zeros of T_n, shape (n,)."""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def _interpolate(values: FloatArray) -> FloatArray:
    """Coefficients of the Chebyshev series through the values at `_chebyshev_points`."""
    c: FloatArray = dct(values, type=2) / len(values)
    c[0] /= 2.0
    return c


def _values(c: FloatArray, n: int) -> FloatArray:
    """Values of a Chebyshev series at the n points of `_chebyshev_points`, more than its terms, at -1 and at 1."""
    padded = np.pad(0.5 * c, (0, n - len(c)))
    padded[0] *= 2.0
    return np.concatenate([dct(padded, type=3), [(c * (-1.0) ** np.arange(len(c))).sum(), c.sum()]])


def _without_tail(c: FloatArray, size: float) -> FloatArray:
    """A series without its last terms, whose sum is at most `size`; short times need fewer terms than long ones."""
    tails = np.cumsum(np.abs(c[::-1]))[::-1]
    return c[: max(2, int((tails > size).sum()))]


def _evaluate_series(S: Operator, V: Any, interval: tuple[float, float], series: list[FloatArray]) -> list[Any]:
    """Sums of c_n T_n(L) V with L = S mapped from [low, high] to [-1, 1], by the three-term recurrence."""
    low, high = interval
    half, centre = (high - low) / 2.0, (high + low) / 2.0
    previous, current = V, (S.matmat(V) - centre * V) / half
    # Totals in float64: hundreds of terms nearly cancel.
    wide = astype(previous, np.float64), astype(current, np.float64)
    totals = [float(c[0]) * wide[0] + float(c[1]) * wide[1] for c in series]
    length = max(map(len, series))
    for n in track(range(2, length), "multiplying by the kernel", length - 2):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
        for i, c in enumerate(series):
            if n < len(c):
                totals[i] = add_term(totals[i], float(c[n]), current)
    return [astype(total, S.dtype) for total in totals]
