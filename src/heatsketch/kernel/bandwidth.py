r"""Rules for the bandwidth epsilon of ``exp(-|x - y|^2 / epsilon)``.

========================  ======================================================================================
``"median"``              the median squared distance between points
``"neighbor"``            the median, over points, of the squared distance to the k-th neighbour
``"slope"``               where ``log sum K`` rises fastest with ``log epsilon`` [1]_; twice that slope estimates
                          the intrinsic dimension
``"self-tuning"``         ``epsilon_ij = s_i s_j``, with s_i the distance from point i to its k-th neighbour [2]_,
                          or a quarter of that to its (2k + 1)-th if this is larger
``"auto"``                ``"self-tuning"``
========================  ======================================================================================

The second part of the rule "self-tuning" matters for near-duplicates only: a few points that differ by rounding errors
would have local scales of that size, and no affinity with any other point.

References
----------
.. [1] Coifman, Shkolnisky, Sigworth, Singer. "Graph Laplacian tomography from unknown random projections". IEEE
   Trans. Image Processing, 2008; Berry, Harlim. "Variable bandwidth diffusion kernels". ACHA, 2016.
.. [2] Zelnik-Manor, Perona. "Self-tuning spectral clustering". NeurIPS, 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import chunks
from .._utils.registry import Device
from .._utils.tables import checked, table
from .._utils.threads import quiet_blas, workers
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, no_distance, squared_distances
from ..linalg.sketch import sample
from ..neighbors.neighborhoods import distinct
from ..neighbors.search import index_kind, make_index

__all__ = [
    "AUTO_RULE",
    "BANDWIDTH_RULES",
    "SELF_TUNING_NEIGHBOR",
    "BandwidthEstimate",
    "SlopeProfile",
    "bandwidth_by_rule",
    "estimate_bandwidth",
    "kth_neighbor",
    "local_scales",
    "rule_of_distinct",
    "scale_reach",
    "self_tuned",
    "slope_profile",
    "without_zeros",
]

BANDWIDTH_RULES = ("auto", "median", "neighbor", "slope", "self-tuning")
AUTO_RULE = "self-tuning"
NEIGHBOR = 10  # the neighbour that sets the scale by default, chosen in docs/bandwidth.md
SELF_TUNING_NEIGHBOR = 7  # the neighbour that Zelnik-Manor and Perona use
# A local scale is at least this fraction of the distance to a neighbour about twice as far down the list. On a curve
# that distance is about twice the scale, and less in more dimensions.
_FLOOR = 0.25

# Rules for one number use the distances from at most this many points to all others ...
SAMPLE = 1000
# ... or, for "median" and "slope", to a sample of at most this many.
_COLUMNS = 20_000
# A histogram has 128 bins between a number and its double: 7 of the 52 bits of the mantissa of a float64.
_DROPPED_BITS = 52 - 7
_BINS = 1 << (63 - _DROPPED_BITS)
# Distances that are computed at a time, few enough to stay in the cache.
_ENTRIES = 1 << 20
# Further neighbours that a device searches for, in place of those that coincide with a point.
_COINCIDENT = 4


@dataclass(frozen=True)
class BandwidthEstimate:
    """Result of a bandwidth rule.

    Attributes
    ----------
    epsilon : float or ndarray of shape (n_samples,)
        The bandwidth; for "self-tuning" the squared local scale of each point.
    rule : str
        The rule that was applied; never "auto".
    dimension : float
        Estimate of the intrinsic dimension: twice the largest slope of ``log sum K`` against ``log epsilon``.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.circle(200, random_state=0)
    >>> found = hs.estimate_bandwidth(X, "neighbor")
    >>> print(f"{found.rule}: {found.epsilon:.3f}, dimension {found.dimension:.1f}")
    neighbor: 0.026, dimension 1.2
    >>> hs.heat_kernel(X, bandwidth=4 * found.epsilon)  # a wider kernel
    HeatKernel(shape=(200, 200), dtype=float64, every pair)
    """

    epsilon: float | FloatArray
    rule: str
    dimension: float


@quiet_blas()
def estimate_bandwidth(
    X: Any,
    rule: str = "auto",
    *,
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_neighbors: int | None = None,
) -> BandwidthEstimate:
    """Bandwidth of the Gaussian kernel by a named rule, and the intrinsic dimension.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features), or distances if metric is "precomputed"
    rule : {"auto", "median", "neighbor", "slope", "self-tuning"}
    metric : str or callable
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed".
    metric_params : dict, optional
        Further parameters of the metric.
    n_neighbors : int, optional
        The k of "neighbor" (default: 10) and "self-tuning" (default: 7).

    Returns
    -------
    estimate : BandwidthEstimate

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(2000, random_state=0)
    >>> estimate = hs.estimate_bandwidth(X, "slope")
    >>> f"dimension {estimate.dimension:.1f}"
    'dimension 2.2'
    """
    if rule not in BANDWIDTH_RULES:
        raise ValueError(
            f"bandwidth={rule!r} is not the name of a rule; use a positive number or one of {BANDWIDTH_RULES}."
        )
    if n_neighbors is not None and (int(n_neighbors) != n_neighbors or n_neighbors < 1):
        raise ValueError(f"n_neighbors={n_neighbors!r} was given; it must be a positive integer.")
    rule = AUTO_RULE if rule == "auto" else rule
    X = checked(table(X), "estimate_bandwidth")
    measured = Metric(metric, metric_params or {})
    if measured.precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(f"X has shape {X.shape}; precomputed distances must be square.")
    epsilon = bandwidth_by_rule(X, rule, measured, n_neighbors)
    return BandwidthEstimate(epsilon, rule, slope_profile(X, measured).dimension)


def bandwidth_by_rule(
    X: Any, rule: str, metric: Metric, n_neighbors: int | None = None, *, device: Device | None = None
) -> Any:
    """Epsilon by a rule other than "auto", for input that has been checked; an array (N,) for "self-tuning".

    Of equal points one counts, so that a rule does not depend on how often a point occurs.
    """
    same = None if metric.precomputed else distinct(X)
    if same is None or len(same[0]) < 2:
        return rule_of_distinct(X, rule, metric, n_neighbors, device=device)
    if rule == "self-tuning":
        return rule_of_distinct(X[same[0]], rule, metric, n_neighbors, device=device)[same[1]]
    return rule_of_distinct(X[np.sort(same[0])], rule, metric, n_neighbors, device=device)


def rule_of_distinct(
    X: Any, rule: str, metric: Metric, n_neighbors: int | None = None, *, device: Device | None = None
) -> Any:
    """`bandwidth_by_rule` for points without duplicates."""
    if rule == "self-tuning":
        k = n_neighbors or SELF_TUNING_NEIGHBOR
        scales = local_scales(X, X, metric=metric, n_neighbors=k, device=device)
        if not scales.all():
            raise no_distance()
        return scales
    if rule == "neighbor":
        some = X[sample(X.shape[0], SAMPLE)]
        k = n_neighbors or NEIGHBOR
        scales = local_scales(some, X, metric=metric, n_neighbors=k, floor=False, device=device)
        if not scales.any():
            raise no_distance()
        return float(np.median(scales))
    if rule == "slope":
        return slope_profile(X, metric).epsilon
    D2 = np.concatenate(list(_from_sampled_distances(X, metric, lambda D2: D2[D2 > 0])))
    if not len(D2):
        raise no_distance()
    return float(np.median(D2))


def kth_neighbor(D2: FloatArray, k: int) -> FloatArray:
    """Squared distance to the k-th nearest point that does not coincide, for each row of `D2`, shape (m,).

    As coincident points do not count, the value does not depend on whether the point itself is among the others, and
    is positive if there are duplicates.
    """
    apart = np.where(D2 > 0, D2, np.inf)
    k = min(k, D2.shape[1])
    kth = np.partition(apart, k - 1, axis=1)[:, k - 1]
    farthest = D2.max(axis=1)  # where fewer than k points are apart
    return np.where(np.isfinite(kth), kth, farthest)


def scale_reach(k: int) -> int:
    """How many neighbours the local scale by the k-th one depends on."""
    return 2 * k + 1


def self_tuned(kth: Callable[[int], FloatArray], k: int) -> FloatArray:
    """Squared local scales by the k-th neighbour, (m,), from a function that gives squared distances to any one."""
    local: FloatArray = np.maximum(kth(k), _FLOOR**2 * kth(scale_reach(k)))
    return local


def without_zeros(scales: FloatArray) -> FloatArray:
    """Local scales with their median in place of zeros, shape (m,).

    A scale is zero if all neighbours that were found coincide with the point. The affinity with them is 1, whatever the
    scale.
    """
    return np.where(scales > 0, scales, np.median(scales[scales > 0])) if not scales.all() else scales


def local_scales(
    X: Any, Y: Any, *, metric: Metric, n_neighbors: int, floor: bool = True, device: Device | None = None
) -> FloatArray:
    """Squared local scale of each row of `X` by its k-th neighbour among the rows of `Y`, shape (m,).

    Without the floor of `self_tuned`, it is the squared distance to the k-th neighbour.
    """

    def scale(D2: FloatArray) -> FloatArray:
        kth = partial(kth_neighbor, D2)
        return self_tuned(kth, n_neighbors) if floor else kth(n_neighbors)

    m, n, reach = X.shape[0], Y.shape[0], scale_reach(n_neighbors) if floor else n_neighbors
    scales = np.full(m, np.nan)
    if device is not None and index_kind(Y.shape, metric, sparse.issparse(Y), device, m) in ("device", "tree"):
        index = make_index(Y, metric, device, queries=m)
        _, listed = index.query(X, min(n, reach + _COINCIDENT))
        enough = np.count_nonzero(listed > 0, axis=1) >= reach
        scales[enough] = scale(listed[enough])
    left = np.flatnonzero(np.isnan(scales))  # all, or those with coincident neighbours
    for rows in chunks(len(left), n):
        scales[left[rows]] = scale(squared_distances(X[left[rows]], Y, metric))
    return scales


def _from_sampled_distances(X: Any, metric: Metric, function: Callable[[FloatArray], Any]) -> Iterator[Any]:
    """A function of the squared distances from a sample of the points to a larger one, some rows at a time."""
    n = X.shape[0]
    rows, columns = X[sample(n, SAMPLE)], sample(n, _COLUMNS)
    others = None if metric.precomputed else X[columns]

    def measure(some: slice) -> Any:
        here = rows[some][:, columns] if metric.precomputed else rows[some]
        return function(squared_distances(here, others, metric))

    with workers() as share:
        yield from share(measure, chunks(rows.shape[0], len(columns), _ENTRIES))


@dataclass(frozen=True)
class SlopeProfile:
    """Twice the slope of ``log sum K`` against ``log epsilon``: the dimension of neighbourhoods at each scale."""

    epsilons: FloatArray  # (n_trials,)
    dimensions: FloatArray  # (n_trials,)

    @property
    def epsilon(self) -> float:
        """Where the slope is largest."""
        return float(self.epsilons[np.argmax(self.dimensions)])

    @property
    def dimension(self) -> float:
        """The intrinsic dimension: the largest over all scales."""
        return float(self.dimensions.max())


def slope_profile(X: Any, metric: Metric) -> SlopeProfile:
    """The slope of ``log sum K`` against ``log epsilon`` over all scales of (a sample of) the data.

    The slope is ``sum (D2 / epsilon) K / sum K``. Distances are gathered in a fine logarithmic histogram first,
    which changes it by less than a part in a thousand and makes any number of trial bandwidths cheap.
    """

    # The leading bits of a positive float are its logarithm to base 2, interpolated between powers of 2.
    def histogram(D2: FloatArray) -> tuple[IntArray, int]:
        positive = D2.ravel() + 0.0  # not -0
        bins = np.bincount(positive.view(np.int64) >> _DROPPED_BITS, minlength=_BINS)
        return bins, D2.size - int(np.count_nonzero(D2))

    found = list(_from_sampled_distances(X, metric, histogram))
    counts, coincident = (sum(parts) for parts in zip(*found, strict=True))
    if coincident == counts.sum():
        raise no_distance()
    filled = np.flatnonzero(counts)
    counts = counts[filled]
    edges = np.stack([filled, filled + 1]) << _DROPPED_BITS
    middles = edges.view(np.float64).mean(axis=0)
    if filled[0] == 0:  # zeros are in the bin of the smallest numbers
        counts[0] -= coincident
        counts, middles = (counts, middles) if counts[0] else (counts[1:], middles[1:])
    centres = np.log(middles)
    low, high = float(centres[0]), float(centres[-1])
    # Independent of the unit of X, except for subnormal numbers.
    trials = np.linspace(low - 2.0, high + 2.0, 400)
    trials = trials[(trials >= np.log(np.finfo(np.float64).tiny)) | (trials == trials[-1])]
    # D2 / epsilon [trials, bins]; beyond e^20 the kernel is zero anyway
    ratio = np.exp(np.minimum(centres[None, :] - trials[:, None], 20.0))
    weights = counts * np.exp(-ratio)
    slopes = (ratio * weights).sum(axis=1) / (coincident + weights.sum(axis=1))
    return SlopeProfile(np.exp(trials), 2.0 * slopes)
