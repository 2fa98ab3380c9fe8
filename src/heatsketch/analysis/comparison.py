"""Comparison of two kernels on the same items: their distance, in total and for each item, by one sketch of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from .._utils.display import Shown
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, RandomState
from ..kernel.operator import as_heat_kernel
from ..kernel.options import check_count
from ..linalg.diffusion import diffuse
from ..linalg.filters import check_time
from ..linalg.metrics import magnitude
from ..linalg.sketch import GaussianSketch, resolve_seed, sample
from .distances import check_level, distance_interval

__all__ = ["GlobalDistance", "KernelComparison", "compare_kernels", "global_diffusion_distance"]

# Largest number of items drawn.
_DRAWN = 5000


@dataclass(frozen=True, repr=False)
class GlobalDistance(Shown):
    """Estimate of the global diffusion distance ``|A^t - B^t|_F`` between two data sets on the same items.

    Attributes
    ----------
    distance : float
    low, high : float
        Ends of the confidence interval.
    variance : float
        Estimated variance of the squared distance: ``(2 / k) |(A^t - B^t)^2|_F^2``.
    n_components : int

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> noisy = X + 0.05 * np.random.default_rng(0).normal(size=X.shape)
    >>> A, B = (hs.heat_kernel(points, bandwidth=0.25) for points in (X, noisy))
    >>> found = hs.global_diffusion_distance(A, B, power=4, random_state=0)
    >>> print(f"{found.distance:.3f}, between {found.low:.3f} and {found.high:.3f}")
    0.116, between 0.109 and 0.123
    """

    distance: float
    low: float
    high: float
    variance: float
    n_components: int

    def __str__(self) -> str:
        return f"{self.distance:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True, repr=False)
class KernelComparison(Shown):
    """Comparison of two data sets on the same items, by one random sketch of both kernels.

    Attributes
    ----------
    total : GlobalDistance
        Estimate of the global diffusion distance ``|A^t - B^t|_F``, with its interval.
    item_distances, item_low, item_high : ndarrays of shape (N,)
        Estimated distance between the rows of ``A^t`` and ``B^t`` of each item, with an exact confidence interval.
        Their squares add up to the square of the total.
    first, second : ndarrays of shape (N, n_components)
        Gaussian process embeddings of both; items with equal rows have equal positions.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> moved = X.copy()
    >>> moved[[7, 90]] *= 1.5
    >>> A, B = (hs.heat_kernel(points, bandwidth=0.25) for points in (X, moved))
    >>> comparison = hs.compare_kernels(A, B, power=2, random_state=0)
    >>> np.flatnonzero(comparison.item_low > 0.01)  # the items that moved
    array([ 7, 90])
    """

    total: GlobalDistance
    item_distances: FloatArray
    item_low: FloatArray
    item_high: FloatArray
    first: FloatArray
    second: FloatArray

    def __str__(self) -> str:
        most = np.argsort(-self.item_distances, kind="stable")[:3]
        named = ", ".join(f"{i} ({self.item_low[i]:.3g} to {self.item_high[i]:.3g})" for i in most)
        return f"Global diffusion distance {self.total}; items that differ most: {named}."

    def plot(self, ax: Any = None) -> Any:
        """Draw both embeddings along their two principal axes, with a line between the positions of each item.

        At most 5000 random items are drawn.
        """
        from .._utils.drawing import new_axes, point_size  # noqa: PLC0415

        ax = new_axes() if ax is None else ax
        both = np.vstack([self.first, self.second]).astype(np.float64)
        both = (both - both.mean(axis=0)) / magnitude(both)
        flat = both @ np.linalg.svd(both, full_matrices=False)[2][:2].T
        items = sample(len(self.first), _DRAWN)
        ends = flat[items], flat[items + len(self.first)]
        ax.plot(*np.stack(ends, axis=1).transpose(2, 1, 0), color="0.8", lw=0.5, zorder=0)
        for points, name in zip(ends, ("first", "second"), strict=True):
            ax.scatter(*points.T, s=point_size(len(items)), label=name, linewidths=0)
        ax.legend(frameon=False)
        ax.set(xlabel="first principal axis", ylabel="second principal axis")
        ax.set_aspect("equal", adjustable="datalim")
        return ax


@quiet_blas()
def compare_kernels(
    A: Any,
    B: Any,
    power: float = 1.0,
    *,
    n_components: int = 64,
    interval: float = 0.95,
    random_state: RandomState = None,
) -> KernelComparison:
    r"""Compare two kernels on the same items, for example of two times, two noise levels or two modalities.

    Both kernels are multiplied by one Gaussian matrix G. The norms of the rows of ``(A^t - B^t) G / sqrt(k)`` estimate
    the distance between the two rows of each item, with an exact chi-square law; together they estimate the global
    diffusion distance of the paper's robustness proposition.

    Parameters
    ----------
    A, B : HeatKernel or symmetric matrix of shape (N, N)
        Kernels with row weights are compared in their symmetric forms.
    power : float
    n_components : int
        k, at least 2.
    interval : float in (0, 1)
        Level of the confidence intervals.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    comparison : KernelComparison

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> moved = X.copy()
    >>> moved[7] *= 1.5
    >>> A, B = (hs.heat_kernel(points, bandwidth=0.25) for points in (X, moved))
    >>> comparison = hs.compare_kernels(A, B, power=2, random_state=0)
    >>> int(np.argmax(comparison.item_distances))
    7
    """
    first, second = as_heat_kernel(A), as_heat_kernel(B)
    if first.shape != second.shape:
        raise ValueError(
            f"kernels of {first.shape[0]} and {second.shape[0]} items were given; they must be on the same items, in "
            "the same order."
        )
    check_time(power)
    k = check_count(n_components, "n_components", "a whole number of at least 2, for the interval", least=2)
    level = check_level(interval, "interval")
    G = GaussianSketch(resolve_seed(random_state)).matrix(first.shape[0], k)
    ours, theirs = (diffuse(kernel, G, [power])[0].astype(np.float64) for kernel in (first, second))
    difference = ours - theirs
    items = np.linalg.norm(difference, axis=1) / np.sqrt(k)
    low, high = distance_interval(items, k, level)
    total = _total(difference, level)
    return KernelComparison(total, items, low, high, ours / np.sqrt(k), theirs / np.sqrt(k))


def global_diffusion_distance(
    A: Any,
    B: Any,
    power: float = 1.0,
    *,
    n_components: int = 64,
    interval: float = 0.95,
    random_state: RandomState = None,
) -> GlobalDistance:
    """Global diffusion distance ``|A^t - B^t|_F`` between two kernels: the total of `compare_kernels`.

    Parameters
    ----------
    A, B, power, n_components, interval, random_state
        As for `compare_kernels`. The interval is too narrow below 8 components.

    Returns
    -------
    result : GlobalDistance

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> found = hs.global_diffusion_distance(np.eye(3), 2 * np.eye(3), random_state=0)
    >>> bool(found.low < np.sqrt(3) < found.high)
    True
    """
    return compare_kernels(A, B, power, n_components=n_components, interval=interval, random_state=random_state).total


def _total(difference: FloatArray, level: float) -> GlobalDistance:
    """The global diffusion distance from ``(A^t - B^t) G``, G Gaussian, (N, k).

    ``|(A^t - B^t) G|_F^2 / k`` follows the law ``sum_i mu_i^2 chi^2_i(k) / k``, mu_i the eigenvalues of ``A^t - B^t``:
    its mean is ``|A^t - B^t|_F^2`` and its variance ``(2/k) sum mu_i^4`` (the paper prints ``sum mu_i^2``). The
    interval matches these two moments by a scaled chi-square, with an unbiased estimate of ``sum mu_i^4`` from products
    of different columns; it is close to its level from 16 components on and too narrow below 8.
    """
    k = difference.shape[1]
    tail = (1.0 - level) / 2.0
    gram = difference.T @ difference  # [k, k]
    squared = float(np.trace(gram)) / k
    fourth = float((np.square(gram).sum() - np.square(np.diagonal(gram)).sum()) / (k * (k - 1)))
    variance = 2.0 * fourth / k
    if squared == 0.0 or fourth == 0.0:
        return GlobalDistance(squared**0.5, squared**0.5, squared**0.5, variance, k)
    freedom = 2.0 * squared**2 / variance  # of the chi-square with the same mean and variance
    low, high = (freedom * squared / chi2.ppf(q, freedom) for q in (1.0 - tail, tail))
    return GlobalDistance(squared**0.5, float(low) ** 0.5, float(high) ** 0.5, variance, k)
