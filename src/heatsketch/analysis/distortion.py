"""Distortion of distances by an embedding: the scale-free bi-Lipschitz constant, also without extreme pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform

from .._utils.array import astype, to_numpy
from .._utils.display import Shown
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray, RandomState
from ..kernel.operator import HeatKernel
from ..linalg.diffusion import coefficients
from ..linalg.filters import Power
from ..linalg.metrics import Metric, magnitude, row_distances
from ..linalg.sketch import resolve_seed, sample
from ..neighbors.search import index_kind, neighbors_of
from ..optimize.pairs import COINCIDENT, NEIGHBORS, distinct_points, neighbor_pairs
from .distances import diffusion_distances, embedded_distances
from .reference_sketch import ReferenceSketch, reference_sketch

__all__ = [
    "Distortion",
    "bilipschitz_constant",
    "kernel_distortion",
    "measure_distortion",
    "new_point_distortion",
]

QUANTILES = (0.001, 0.01, 0.05, 0.25)
# Share of pairs left out at either end where one central log L is reported.
TAIL = 0.01
# Up to this many points all pairs are measured.
ALL_PAIRS = 2000
# Entries of kernel rows of new points (128 MB, and a few times as much to diffuse them).
_ROW_ENTRIES = 1 << 24
# Random pairs whose distances are estimated, and pairs at either end whose distances are computed.
_RANDOM_PAIRS, _MINED_PAIRS = 20_000, 8
# Points whose neighbours in embedding and kernel are searched for the worst pairs: of a graph, of one in an embedding
# of many dimensions, where a search takes longer, and without a graph.
_SEARCHED, _SLOWLY_SEARCHED, _FEW_SEARCHED = 25_000, 2_000, 20_000


@dataclass(frozen=True, repr=False)
class Distortion(Shown):
    """Distortion of an embedding against given distances.

    Attributes
    ----------
    constant : float
        L: the largest dilation ``|y_i - y_j| / d_ij`` over the smallest. At least 1, and 1 for a similarity.
    log : float
        Its natural logarithm, as the paper plots it.
    central : dict of float to float
        For each q the ratio of the (1 - q)- to the q-quantile of the dilations: L without the q extreme pairs on
        either side.
    most_contracted, most_expanded : tuple of int
        The pairs at which L is attained.
    n_pairs : int
        Number of pairs measured, without coincident points; if not `exhaustive`, of pairs whose distances were
        estimated, of which the worst 16 were measured.
    exhaustive : bool
        True if all pairs were measured. Otherwise `constant` is a lower bound for L, from a search in the
        neighbourhoods of up to 25,000 points in the kernel and in the embedding (fewer where a search takes long), and
        `central` are estimates from random pairs and a sketch of the kernel. The variance of the sketch is taken out of
        the spread of the logarithms of the dilations.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> model = hs.GaussianProcessEmbedding(n_components=8, power=8, random_state=0).fit(X)
    >>> found = model.distortion()
    >>> print(found)
    L = 9.802, log L = 2.283, over all 124,750 pairs
    >>> print(f"{found.central[0.01]:.2f} without the 1% extreme pairs on either side")
    3.23 without the 1% extreme pairs on either side
    """

    constant: float
    log: float
    central: dict[float, float]
    most_contracted: tuple[int, int]
    most_expanded: tuple[int, int]
    n_pairs: int
    exhaustive: bool

    def __str__(self) -> str:
        if self.exhaustive:
            return f"L = {self.constant:.4g}, log L = {self.log:.3f}, over all {self.n_pairs:,} pairs"
        return f"L >= {self.constant:.4g}, log L >= {self.log:.3f}, over a sample of {self.n_pairs:,} pairs"


@quiet_blas()
def bilipschitz_constant(Y: ArrayLike, distances: ArrayLike) -> float:
    """Scale-free bi-Lipschitz constant L of an embedding, as section 5 of the paper defines it.

    The smallest L for which ``c d(x, y) <= |f(x) - f(y)| <= c L d(x, y)`` for some c > 0 and all pairs.

    Parameters
    ----------
    Y : array-like of shape (N, k)
    distances : array-like
        Condensed, shape (N (N - 1) / 2,), or square, shape (N, N). Pairs closer than 1e-12 of the largest distance
        are left out.

    Returns
    -------
    L : float
        At least 1; infinite if the embedding maps two distinct points to one.

    Examples
    --------
    >>> from scipy.spatial.distance import pdist
    >>> from heatsketch import bilipschitz_constant
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
    >>> bilipschitz_constant([[0, 0], [3, 0], [0, 6]], pdist(X))
    1.0
    """
    return measure_distortion(Y, distances, quantiles=()).constant


@quiet_blas()
def measure_distortion(Y: ArrayLike, distances: ArrayLike, *, quantiles: Sequence[float] = QUANTILES) -> Distortion:
    """Distortion of an embedding against given distances, over all pairs.

    Parameters
    ----------
    Y : array-like of shape (N, k)
    distances : array-like
        Condensed or square, as for `bilipschitz_constant`.
    quantiles : sequence of float in (0, 1/2)
        For the central versions of L.

    Returns
    -------
    distortion : Distortion

    Examples
    --------
    >>> from scipy.spatial.distance import pdist
    >>> from sklearn.decomposition import PCA
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(200, random_state=0)
    >>> found = hs.measure_distortion(PCA(2).fit_transform(X), pdist(X))
    >>> print(found)
    L = 206.5, log L = 5.330, over all 19,900 pairs
    >>> found.most_contracted  # the points that PCA moves together most
    (80, 103)
    """
    Y, d = np.asarray(Y, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    if Y.ndim != 2 or len(Y) < 2:
        raise ValueError(f"Y has shape {Y.shape}; it must be (N, k) with at least 2 points.")
    n = len(Y)
    if d.ndim == 2:
        d = squareform(d, checks=False)
    if d.shape != (n * (n - 1) // 2,):
        raise ValueError(
            f"distances of shape {np.shape(distances)} were given; for {n} points they must be square, ({n}, {n}), or "
            f"condensed, ({n * (n - 1) // 2},)."
        )
    return _summarise(pdist(Y / magnitude(Y)), d, lambda at: _condensed_pair(at, n), quantiles, exhaustive=True)


def _condensed_pair(position: int, n: int) -> tuple[int, int]:
    """The pair (i, j), i < j, at a position of the condensed distances of n points."""
    starts = np.arange(n) * (2 * n - np.arange(n) - 1) // 2  # where the pairs (i, i + 1), ... begin
    i = int(np.searchsorted(starts[:-1], position, side="right")) - 1
    return i, int(position - starts[i]) + i + 1


def _summarise(
    embedded: FloatArray,
    d: FloatArray,
    pair_at: Callable[[int], tuple[int, int]],
    quantiles: Sequence[float],
    *,
    exhaustive: bool,
) -> Distortion:
    if not (np.isfinite(d).all() and np.isfinite(embedded).all() and d.min() >= 0):
        raise ValueError("distances contain NaN, infinity or negative numbers; the distortion is a ratio of distances.")
    if not all(0 < q < 0.5 for q in quantiles):
        raise ValueError(f"quantiles={tuple(quantiles)} were given; they must lie strictly between 0 and 1/2.")
    apart = np.flatnonzero(d > COINCIDENT * d.max())
    if not len(apart):
        raise ValueError("all distances are zero: the points coincide, and there is no distortion to measure.")
    dilation = embedded[apart] / d[apart]
    low, high = int(np.argmin(dilation)), int(np.argmax(dilation))
    central = {float(q): _ratio(*np.quantile(dilation, [1.0 - q, q])) for q in quantiles}
    constant = _ratio(dilation[high], dilation[low])
    return Distortion(
        constant=constant,
        log=float(np.log(constant)),
        central=central,
        most_contracted=pair_at(int(apart[low])),
        most_expanded=pair_at(int(apart[high])),
        n_pairs=len(dilation),
        exhaustive=exhaustive,
    )


def _ratio(top: float, bottom: float) -> float:
    return float(top / bottom) if bottom > 0 else float("inf")


def kernel_distortion(
    Y: Any,
    kernel: HeatKernel,
    power: Power,
    *,
    quantiles: Sequence[float] = QUANTILES,
    exhaustive: bool | None = None,
    random_state: RandomState = 0,
    reference: Callable[[], ReferenceSketch] | None = None,
) -> Distortion:
    """Distortion of an embedding against the diffusion distance of a kernel.

    If `exhaustive`, by default up to 2000 points, all pairs are measured, which needs an N x N matrix. Otherwise a
    reference sketch estimates the distances of random pairs, and of neighbours in `Y` and by diffusion. For the 16
    worst of these pairs distances are computed. `reference` makes the sketch, by default that of the kernel.
    """
    Y = astype(kernel.collect(Y), np.float64)
    Y = Y / magnitude(Y)  # L does not depend on the scale
    if exhaustive and not kernel.in_memory:
        raise ValueError(
            f"exhaustive=True was given for {len(Y)} points on a cluster, which have too many pairs; leave it at None."
        )
    if exhaustive if exhaustive is not None else len(Y) <= ALL_PAIRS and kernel.in_memory:
        return measure_distortion(Y, diffusion_distances(kernel, power), quantiles=quantiles)
    sketch = reference_sketch(kernel, power) if reference is None else reference()
    pairs = np.random.default_rng(resolve_seed(random_state)).integers(len(Y), size=(_RANDOM_PAIRS, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    low, high = np.sort(_near_pairs(Y, sketch), axis=1).T
    near = np.sort(low * len(Y) + high)
    near = near[np.diff(near, prepend=-1) > 0]
    every = np.vstack([pairs, np.column_stack([near // len(Y), near % len(Y)])])
    dilations = _dilations(Y, sketch.features, every)
    central = _central(dilations[: len(pairs)], sketch.log_variance(pairs), quantiles) if quantiles else {}
    finite = np.flatnonzero(np.isfinite(dilations))
    order = finite[np.argsort(dilations[finite], kind="stable")]
    worst = every[np.unique(np.concatenate([order[:_MINED_PAIRS], order[-_MINED_PAIRS:]]))]
    found = _summarise(
        embedded_distances(Y, worst),
        diffusion_distances(kernel, power, worst),
        lambda at: (int(worst[at, 0]), int(worst[at, 1])),
        (),
        exhaustive=False,
    )
    return replace(found, central=central, n_pairs=len(order))


def new_point_distortion(
    X: Any, kernel: HeatKernel, power: Power, place: Callable[[Any], FloatArray], *, random_state: RandomState = 0
) -> Distortion:
    """Distortion of new points X, (m, d), that a function places; of a random subset if m is large.

    The diffusion distance of new points is the distance of their rows ``a(x) S^(t-1)``.
    """
    m = X.shape[0]
    if m < 2:
        raise ValueError(f"{m} new point was given; the distortion is a ratio of distances, so give at least 2.")
    size = max(2, min(ALL_PAIRS, _ROW_ENTRIES // kernel.shape[0]))
    if m > size:
        X = X[np.sort(np.random.default_rng(resolve_seed(random_state)).choice(m, size, replace=False))]
    columns = kernel.asblock(kernel.rows_at_new_points(X).T)
    rows = to_numpy(coefficients(kernel, columns, power, trivial=not kernel.trivial_is_constant)).T.astype(np.float64)
    scale = magnitude(rows)
    d = scale * row_distances(np.ascontiguousarray(rows) / scale, *np.triu_indices(len(rows), 1))
    return replace(measure_distortion(place(X), d), exhaustive=m <= size)


def _dilations(Y: FloatArray, features: FloatArray, pairs: IntArray) -> FloatArray:
    """Estimated dilations of pairs, (m, 2) -> (m,); NaN for points that coincide."""
    met = np.zeros(len(Y), dtype=bool)
    met[pairs] = True
    points, places = np.flatnonzero(met), (np.cumsum(met) - 1)[pairs]
    blocks = (np.ascontiguousarray(to_numpy(Z[points])) for Z in (Y, features))
    embedded, d = (magnitude(Z) * row_distances(Z / magnitude(Z), *places.T) for Z in blocks)
    dilations: FloatArray = np.full(len(d), np.nan)
    np.divide(embedded, d, out=dilations, where=d > COINCIDENT * d.max(initial=0.0))
    return dilations


def _central(dilations: FloatArray, log_variance: float, quantiles: Sequence[float]) -> dict[float, float]:
    """Central versions of L from dilations whose logarithms have errors of a known variance.

    Errors add up to the variance of the logarithms. Without them their spread is smaller by the factor `shrunk`.
    """
    dilations = dilations[np.isfinite(dilations)]
    spread = float(np.var(np.log(dilations[dilations > 0]))) if dilations.any() else 0.0
    shrunk = np.sqrt(max(0.0, 1.0 - log_variance / spread)) if spread > 0 else 1.0
    return {float(q): _ratio(*np.quantile(dilations, [1.0 - q, q])) ** shrunk for q in quantiles}


def _near_pairs(Y: FloatArray, sketch: ReferenceSketch) -> IntArray:
    """Pairs of distinct points that are near in the embedding, and pairs that are near by diffusion, (m, 2).

    The latter are edges of the kernel if it is a graph, otherwise neighbours in the sketch.
    """
    graph = sketch.kernel.graph()
    if graph is None:
        numbers = sample(len(Y), _FEW_SEARCHED)
        Y, features = (np.ascontiguousarray(to_numpy(Z[numbers])) for Z in (Y, sketch.features))
        numbers = numbers[distinct := distinct_points(features)]
        found = [np.column_stack(neighbor_pairs(Z[distinct])) for Z in (Y, features)]
        return np.asarray(numbers[np.vstack(found)])
    points = graph.points
    some = sample(len(points), _SEARCHED)
    edges = graph.S[some]
    Y, device = Y[points], sketch.kernel.device
    slow = index_kind(Y.shape, Metric(), False, device, len(some)) == "clusters"
    searched = sample(len(points), _SLOWLY_SEARCHED) if slow else some
    near = neighbors_of(searched, Y, min(NEIGHBORS, len(points) - 1), device)
    i = np.concatenate([np.repeat(some, np.diff(edges.indptr)), np.repeat(searched, near.shape[1])])
    j = np.concatenate([edges.indices, near.ravel()])
    pairs = np.column_stack([i, j])[i != j]
    return np.asarray(points[pairs])
