"""Diffusion distances: exact, estimated with intervals, and between data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform
from scipy.stats import chi2

from ._typing import FloatArray, RandomState
from .diffusion import check_power, diffuse, matrix_power, require_definite
from .heat import as_heat_kernel
from .inputs import check_count
from .kernels import magnitude, row_distances, squared_distances
from .processes import canonical_metric, check_pairs, kernel_rows
from .sketch import GaussianSketch, resolve_seed
from .spectrum import eigenpairs, rounding_level

__all__ = [
    "GlobalDistance",
    "components_for",
    "diffusion_distances",
    "distance_interval",
    "global_diffusion_distance",
]

# Entries of kernel rows held at a time (64 MB), and pairs treated together where all rows would take more.
_ROW_ENTRIES = 1 << 23
_PAIRS_PER_CHUNK = 512
_SMALLEST_ERROR = 1e-6


def diffusion_distances(A: Any, power: float, pairs: ArrayLike | None = None, *, form: str = "rows") -> FloatArray:
    r"""Exact diffusion distances at time t.

    The paper's three forms are the same number::

        D(i, j)^2 = |a_i - a_j|^2                         rows of A^t
                  = sum_l lambda_l^(2t) (v_l(i) - v_l(j))^2    spectrum of A
                  = C_ii + C_jj - 2 C_ij                  canonical metric of the process with covariance C = A^(2t)

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
        For a kernel with row weights the rows are those of ``diag(w) S^t``; for a Markov kernel this is the distance
        of Coifman and Lafon.
    power : float
        t.
    pairs : array-like of int, shape (m, 2), optional
        All pairs when left out.
    form : {"rows", "spectrum", "covariance"}
        "rows" is the most accurate for close points and the only one that needs no N x N matrix when `pairs` are
        given.

    Returns
    -------
    distances : ndarray of shape (m,)
        When `pairs` is None condensed, as :func:`scipy.spatial.distance.pdist` returns them.

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(100, random_state=0), bandwidth=0.25)
    >>> hs.diffusion_distances(A, power=8).shape
    (4950,)
    >>> hs.diffusion_distances(A, power=8, pairs=[[0, 1], [0, 2]]).shape
    (2,)
    """
    check_power(power)
    kernel = as_heat_kernel(A)
    n = kernel.shape[0]
    if form not in ("rows", "spectrum", "covariance"):
        raise ValueError(f"form={form!r} is not known; use 'rows', 'spectrum' or 'covariance'.")
    require_definite(kernel, [power])
    if pairs is not None:
        pairs = check_pairs(pairs, n)
    if form == "rows" and pairs is not None:
        return _pair_distances(kernel, power, pairs)
    if form == "rows":
        rows = kernel.weigh_rows(matrix_power(kernel, power, trivial=not kernel.trivial_is_constant))
        condensed = _condensed(rows)
    elif form == "spectrum":
        condensed = _condensed(_spectral_coordinates(kernel, power))
    else:
        C = matrix_power(kernel, 2.0 * power, trivial=not kernel.trivial_is_constant)
        if kernel.row_weight is not None:
            C = np.outer(kernel.row_weight, kernel.row_weight) * C
        condensed = canonical_metric(C)
    if pairs is not None:
        condensed = squareform(condensed, checks=False)[pairs[:, 0], pairs[:, 1]]
    return condensed


def _condensed(points: FloatArray) -> FloatArray:
    scale = magnitude(points)
    distances: FloatArray = scale * squareform(np.sqrt(squared_distances(points / scale)), checks=False)
    return distances


def _pair_distances(kernel: Any, power: float, pairs: Any) -> FloatArray:
    out = np.empty(len(pairs))
    order = np.argsort(pairs[:, 0], kind="stable")
    fits = len(np.unique(pairs)) * kernel.shape[0] <= _ROW_ENTRIES
    step = len(pairs) if fits else _PAIRS_PER_CHUNK
    for start in range(0, len(pairs), max(1, step)):
        chunk = order[start : start + step]
        indices, where = np.unique(pairs[chunk], return_inverse=True)
        rows = kernel_rows(kernel, power, indices)
        i, j = where.reshape(-1, 2).T
        scale = magnitude(rows)
        rows /= scale
        out[chunk] = scale * row_distances(rows, i, j)
    return out


def _spectral_coordinates(kernel: Any, power: float) -> FloatArray:
    """All of diffusion maps: lambda^t v, with the trivial coordinate where it matters, (N, N)."""
    n = kernel.shape[0]
    found = eigenpairs(kernel, n if kernel.trivial is None else n - 1, solver="dense")
    coordinates = found.coordinates(power, rounding_level(kernel))
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        coordinates = np.column_stack([kernel.trivial, coordinates])
    weighed: FloatArray = kernel.weigh_rows(coordinates)
    return weighed


def distance_interval(
    distances: ArrayLike, n_components: int, level: float = 0.95, *, exact_part: ArrayLike | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Confidence interval for diffusion distances that were estimated by a Gaussian sketch.

    ``k |y_i - y_j|^2 / d_ij^2`` is chi-square with k degrees of freedom, so the interval is exact for every pair,
    whatever the spectrum.

    Parameters
    ----------
    distances : array-like
        Distances in the sketched coordinates.
    n_components : int
        k, the number of sketched coordinates.
    level : float in (0, 1)
    exact_part : array-like or float
        Distances in coordinates that are known exactly; added in squares.

    Returns
    -------
    low, high : ndarrays
        Each pair's distance lies between them with probability `level`.

    Examples
    --------
    >>> from heatsketch import distance_interval
    >>> low, high = distance_interval(1.0, n_components=32)
    >>> f"{low:.2f} to {high:.2f}"
    '0.80 to 1.32'
    """
    level = _check_level(level, "level")
    check_count(n_components, "n_components")
    if not (np.isfinite(distances).all() and np.isfinite(exact_part).all()):
        raise ValueError("distances contain NaN or infinity; an interval needs finite ones.")
    squared = np.square(np.asarray(distances, dtype=np.float64)) * n_components
    exact = np.square(np.asarray(exact_part, dtype=np.float64))
    tail = (1.0 - level) / 2.0
    low = np.sqrt(exact + squared / chi2.ppf(1.0 - tail, n_components))
    high = np.sqrt(exact + squared / chi2.ppf(tail, n_components))
    return low, high


def components_for(distance_error: float, n_samples: int | None = None, *, confidence: float = 0.95) -> int:
    """How many components a Gaussian sketch needs for a wanted relative error of distances.

    Parameters
    ----------
    distance_error : float in [1e-6, 1)
        e: estimates shall lie between (1 - e) and (1 + e) times the diffusion distance.
    n_samples : int, optional
        When given, all n (n - 1) / 2 distances shall do so at once (by the union bound); otherwise each single one.
    confidence : float in (0, 1)
        With at least this probability.

    Returns
    -------
    n_components : int
        From the chi-square law, not from a Johnson-Lindenstrauss bound: the smallest number that suffices, except
        that the union bound is not sharp.

    Examples
    --------
    >>> from heatsketch import components_for
    >>> components_for(0.1)
    192
    >>> components_for(0.1, n_samples=1000)
    1424
    """
    e = _check_level(distance_error, "distance_error")
    if e < _SMALLEST_ERROR:
        raise ValueError(f"distance_error={e} was given; it must be at least {_SMALLEST_ERROR}.")
    allowed = 1.0 - _check_level(confidence, "confidence")
    if n_samples is not None:
        check_count(n_samples, "n_samples", "a whole number of at least 2", least=2)
        allowed /= n_samples * (n_samples - 1) / 2.0

    def fails(k: int) -> bool:
        return bool(chi2.cdf(k * (1 - e) ** 2, k) + chi2.sf(k * (1 + e) ** 2, k) > allowed)

    high = 1
    while fails(high):
        high *= 2
    low = high // 2  # fails, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def _check_level(value: float, name: str) -> float:
    if isinstance(value, (bool, str)) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name}={value!r} was given; it must lie strictly between 0 and 1.")
    return float(value)


@dataclass(frozen=True)
class GlobalDistance:
    """Estimate of the global diffusion distance ``|A^t - B^t|_F`` between two data sets on the same items.

    Attributes
    ----------
    distance : float
    low, high : float
        Ends of the confidence interval.
    variance : float
        Estimated variance of the squared distance: ``(2 / k) |(A^t - B^t)^2|_F^2``.
    n_components : int
    """

    distance: float
    low: float
    high: float
    variance: float
    n_components: int


def global_diffusion_distance(
    A: Any,
    B: Any,
    power: float = 1.0,
    *,
    n_components: int = 64,
    interval: float = 0.95,
    random_state: RandomState = None,
) -> GlobalDistance:
    r"""Global diffusion distance between two kernels on the same items, by one sketch of both.

    With the same Gaussian matrix G for both, ``|(A^t - B^t) G|_F^2 / k`` follows the law
    ``sum_i mu_i^2 chi^2_i(k) / k``, mu_i the eigenvalues of ``A^t - B^t``: its mean is ``|A^t - B^t|_F^2`` and its
    variance ``(2/k) sum mu_i^4`` (the paper prints ``sum mu_i^2`` there). The interval matches these two moments by
    a scaled chi-square, with ``sum mu_i^4`` estimated, unbiased, from products of different columns; it is close to its
    level from 16 components on and too narrow below 8.

    Parameters
    ----------
    A, B : HeatKernel or symmetric matrix of shape (N, N)
        Kernels with row weights are compared in their symmetric forms.
    power : float
    n_components : int
        k, at least 2.
    interval : float
        Level of the confidence interval.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    result : GlobalDistance
    """
    first, second = as_heat_kernel(A), as_heat_kernel(B)
    if first.shape != second.shape:
        raise ValueError(
            f"kernels of {first.shape[0]} and {second.shape[0]} items were given; the global diffusion distance "
            "compares two kernels on the same items, in the same order."
        )
    check_count(n_components, "n_components", "a whole number of at least 2, for the interval", least=2)
    tail = (1.0 - _check_level(interval, "interval")) / 2.0
    k = n_components
    G = GaussianSketch(resolve_seed(random_state)).matrix(first.shape[0], k)
    difference = diffuse(first, G, [power])[0].astype(np.float64) - diffuse(second, G, [power])[0]
    gram = difference.T @ difference  # [k, k]
    squared = float(np.trace(gram)) / k
    fourth = float((np.square(gram).sum() - np.square(np.diagonal(gram)).sum()) / (k * (k - 1)))
    variance = 2.0 * fourth / k
    if squared == 0.0 or fourth == 0.0:
        return GlobalDistance(squared**0.5, squared**0.5, squared**0.5, variance, k)
    freedom = 2.0 * squared**2 / variance  # of the chi-square with the same mean and variance
    low, high = (freedom * squared / chi2.ppf(q, freedom) for q in (1.0 - tail, tail))
    return GlobalDistance(squared**0.5, float(low) ** 0.5, float(high) ** 0.5, variance, k)
