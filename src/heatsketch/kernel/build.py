"""From data and options to the heat kernel: plan, affinity, normalisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.array import array_namespace, astype
from .._utils.registry import device_for, distributed_backend
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..neighbors.neighborhoods import Neighborhoods
from .affinity import Affinity, CutoffAffinity, GaussianAffinity, NeighborAffinity
from .bandwidth import (
    NEIGHBOR,
    SELF_TUNING_NEIGHBOR,
    bandwidth_by_rule,
    scale_reach,
    self_tuned,
    without_zeros,
)
from .normalize import Scaling, normalize
from .operator import HeatKernel
from .options import KernelOptions, check_distances, check_masses, check_points
from .plan import choose
from .precomputed import PrecomputedAffinity

__all__ = ["build_affinity", "build_heat_kernel", "heat_kernel", "normalized"]

# A kernel whose off-diagonal entries add up to less than this in every row is the identity in practice; one whose row
# sums all come this close to N, in units of the dtype's precision, is constant.
_ALONE = 1e-6
_CONSTANT_ULPS = 1e5


@quiet_blas()
def heat_kernel(
    X: Any,
    *,
    bandwidth: float | str | FloatArray = "auto",
    normalization: str = "bistochastic",
    alpha: float = 1.0,
    affinity: str = "gaussian",
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    bandwidth_neighbor: int | None = None,
    n_neighbors: int | str | None = "auto",
    cutoff: float | None = None,
    diagonal: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    device: str = "auto",
    precision: str = "auto",
    sample_weight: ArrayLike | None = None,
) -> HeatKernel:
    """Heat kernel of a data set, as an operator.

    Parameters
    ----------
    X : array-like, tensor, sparse matrix, Dask array or frame, or networkx or igraph graph
        Points (n_samples, n_features); square distances or affinities if metric or affinity is "precomputed". The
        kernel of a Dask array or frame with more than 4,096 rows is on the current cluster, and multiplies Dask arrays.
    bandwidth : float, {"auto", "median", "neighbor", "slope", "self-tuning"}, or array of shape (n_samples,)
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, or the rule that chooses it (:mod:`heatsketch.kernel.bandwidth`).
        "auto" is "self-tuning": epsilon_ij = s_i s_j with a local scale for each point. An array gives these scales
        squared, such as ``A.bandwidth`` of another kernel of the same points; new points have scales of their own.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}
        See :mod:`heatsketch.kernel.normalize`.
    alpha : float
        Density exponent of all normalisations but "bistochastic": 0 keeps the sampling density, 1 removes it.
    affinity : {"gaussian", "precomputed"}
    metric : str or callable
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict, optional
        Further parameters of the metric.
    bandwidth_neighbor : int, optional
        The k of the rules "neighbor" (default: 10) and "self-tuning" (default: 7).
    n_neighbors : int, None or "auto"
        None uses every pair; an integer keeps the pairs within the larger of their two k-th neighbour radii. "auto"
        keeps 15 neighbours with local scales; with one bandwidth it uses every pair while that is fast (up to 10,000
        points and somewhat beyond) and 32 neighbours for more. ``A.affinity.description`` says which.
    cutoff : float, optional
        Leave out pairs whose affinity is below this, such as 1e-6: the kernel is sparse, and exact to this tolerance.
    diagonal : {"auto", "keep", "zero"}
        "zero" sets the affinity of points with themselves to zero, which is robust to heteroskedastic noise;
        "auto" keeps it, and adds self-loops that a precomputed affinity lacks.
    tol : float
        Largest deviation of row sums from 1 (bistochastic).
    max_iter : int
        Largest number of products in the bistochastic scaling.
    device : {"auto", "cpu", "cuda", "cuda:1", "torch-cpu"}
        Where to compute: with NumPy on the CPU, or with PyTorch on a GPU ("torch-cpu": with PyTorch on the CPU).
        "auto" uses a GPU if there is one and the work is large enough.
    precision : {"auto", "halves", "mixed", "split", "float32"}
        How a GPU forms the exponents of a float32 kernel (`docs/theory/halves.md`); "auto" is the cheapest way that is
        accurate enough for the data.
    sample_weight : array-like of shape (n_samples,), optional
        Positive weights of the points. A point with an integer weight counts as that many equal points
        (`docs/theory/weights.md`).

    Returns
    -------
    A : HeatKernel
        With ``A.shape``, ``A.dtype``, ``A @ V`` and ``A.toarray()``.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(300, random_state=0), bandwidth=0.25)
    >>> row_sums = A @ np.ones(300)
    >>> bool(np.abs(row_sums - 1).max() < 1e-8)
    True
    """
    options = KernelOptions(
        bandwidth=bandwidth,
        normalization=normalization,
        alpha=alpha,
        affinity=affinity,
        metric=metric,
        metric_params=metric_params,
        bandwidth_neighbor=bandwidth_neighbor,
        n_neighbors=n_neighbors,
        cutoff=cutoff,
        diagonal=diagonal,
        tol=tol,
        max_iter=max_iter,
        device=device_for(X, device),
        precision=precision,
    )
    backend = distributed_backend(X)
    points = check_points(X, options) if backend is None else backend.check_points(X, options)
    return build_heat_kernel(points, options, masses=check_masses(sample_weight, points.shape[0]))


def build_heat_kernel(X: Any, options: KernelOptions, dtype: Any = None, masses: Any = None) -> HeatKernel:
    """`heat_kernel` for input that has been checked; computed in `dtype`, by default that of X."""
    affinity, rule = build_affinity(X, options, dtype)
    return normalized(affinity, options, rule, masses)


def normalized(
    affinity: Affinity, options: KernelOptions, bandwidth_rule: str | None = None, masses: Any = None
) -> HeatKernel:
    """The heat kernel ``diag(s) K diag(s)`` of an affinity K, with s by ``options.normalization``."""
    K = affinity.operator
    if masses is not None:
        masses = K.laid_out(masses)
    degrees = astype(K @ (K.ones() if masses is None else masses), np.float64)
    if isinstance(affinity, GaussianAffinity):
        _check_bandwidth(affinity, degrees, masses)
    scaling = normalize(
        K,
        options.normalization,
        masses=masses,
        alpha=options.alpha,
        tol=options.tol,
        max_iter=options.max_iter,
        degrees=degrees,
    )
    return compose_kernel(affinity, scaling, bandwidth_rule)


@singledispatch
def compose_kernel(affinity: Affinity, scaling: Scaling, rule: str | None) -> HeatKernel:
    """The heat kernel of an affinity and its scaling; backends register their own affinities."""
    return HeatKernel.from_affinity(affinity, scaling, rule)


@singledispatch
def build_affinity(X: Any, options: KernelOptions, dtype: Any = None) -> tuple[Affinity, str | None]:
    """The affinity of input that has been checked, and the rule that chose its bandwidth, if any.

    Backends register their own arrays.
    """
    dtype = X.dtype if dtype is None else dtype
    choice = choose(X.shape, dtype, options, getattr(X, "nnz", None))
    if options.affinity == "precomputed":
        return PrecomputedAffinity(X, diagonal=options.diagonal, dtype=dtype, device=choice.device), None
    metric, neighbor, rule = options.measure, options.bandwidth_neighbor, options.bandwidth_rule
    if metric.precomputed:
        X = check_distances(X)
    common = {
        "metric": metric,
        "scale_neighbor": neighbor or SELF_TUNING_NEIGHBOR,
        "zero_diagonal": options.diagonal == "zero",
        "dtype": dtype,
        "device": choice.device,
    }
    epsilon = options.given_bandwidth(X.shape[0])
    if choice.n_neighbors is None:
        if epsilon is None:
            epsilon = bandwidth_by_rule(X, rule, metric, neighbor, device=choice.device)
        if options.cutoff is not None:
            return CutoffAffinity(X, epsilon, float(options.cutoff), **common), rule
        return GaussianAffinity(X, epsilon, tiled=choice.tiled, precision=options.precision, **common), rule
    search = partial(Neighborhoods.search, X, choice.n_neighbors, metric, device=choice.device)
    hoods, lists, epsilon = search_with_bandwidth(
        search, options, X.shape[0], lambda: bandwidth_by_rule(X, rule, metric)
    )
    graph = lists.graph()
    del lists  # the kernel takes its place in memory
    return NeighborAffinity(X, epsilon, hoods, graph, **common), rule


def search_with_bandwidth(
    search: Callable[..., tuple[Any, Any]], options: KernelOptions, n_samples: int, by_distances: Callable[[], float]
) -> tuple[Any, Any, float | FloatArray]:
    """Neighbourhoods, their lists, and epsilon: a number, or the squared local scales of the vertices, (U,).

    The scales of the points come from the same search. ``search(at_least=k)`` finds k neighbours or more, and
    `by_distances` applies a rule that does not depend on neighbours.
    """
    rule, epsilon = options.bandwidth_rule, options.given_bandwidth(n_samples)
    k = options.bandwidth_neighbor or (SELF_TUNING_NEIGHBOR if rule == "self-tuning" else NEIGHBOR)
    hoods, lists = search(at_least={"self-tuning": scale_reach(k), "neighbor": k}.get(rule, 0))
    if epsilon is not None:
        return hoods, lists, hoods.at_vertices(epsilon) if np.ndim(epsilon) else epsilon
    if rule == "self-tuning":
        return hoods, lists, without_zeros(self_tuned(lists.scales, k))
    epsilon = float(np.median(lists.scales(k))) if rule == "neighbor" else by_distances()
    if epsilon == 0:
        raise ValueError(
            f"more than half of the points coincide with {k} or more others, so the rule 'neighbor' gives "
            "no bandwidth; give a number, or leave repeated points out."
        )
    return hoods, lists, epsilon


def _check_bandwidth(affinity: GaussianAffinity, degrees: Any, masses: Any) -> None:
    """Raise ValueError if the kernel, by its smallest and largest degree, is the identity or constant."""
    n, xp = affinity.n_samples, array_namespace(degrees)
    own: Any = 1.0 if masses is None else masses
    total = float(n) if masses is None else float(xp.sum(masses))
    kept = 0.0 if affinity.zero_diagonal else 1.0
    others = degrees - kept * own
    ulps = _CONSTANT_ULPS * float(np.finfo(affinity.dtype).eps) / n
    if float(xp.max(others)) * n / total < _ALONE:
        trouble, verb = "so small that every point stands alone", "larger"
    elif affinity.n_neighbors is None and float(xp.min(others + own)) > total * (1.0 - max(ulps, 1e-12)):
        trouble, verb = "so large that all affinities are equal", "smaller"
    else:
        return
    remedy = affinity.bandwidth_by_rule("neighbor")
    raise ValueError(
        f"bandwidth={affinity.typical_epsilon:.3g} is {trouble}; use a {verb} one (the rule "
        f"bandwidth='neighbor' gives {remedy:.3g} here)."
    )
