"""Whether to trust the neighbourhoods of an embedding: false neighbours, and stability over repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import procrustes
from sklearn.base import clone

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.display import Shown
from .._utils.progress import track
from .._utils.typing import FloatArray, IntArray
from ..kernel.affinity import GaussianAffinity
from ..linalg.filters import MultiscaleFilter
from ..linalg.metrics import magnitude
from ..linalg.sketch import resolve_seed, sample
from ..neighbors.search import nearest_neighbors, neighbors_of
from .reference_sketch import ReferenceSketch

__all__ = [
    "NeighborSupport",
    "Repetitions",
    "StabilityMap",
    "neighbor_support",
    "repeated_embeddings",
    "stability_map",
]

# A neighbour is false if it is farther away than this multiple of the radius of true neighbours. Multiscale distances
# grow like the root of lengths, so their multiple is the root of that.
_SLACK = 2.0


@dataclass(frozen=True, repr=False)
class NeighborSupport(Shown):
    """Neighbours in an embedding, and whether the diffusion distance supports them.

    Attributes
    ----------
    points : ndarray of int, shape (m,)
        The points whose neighbours were looked at, in increasing order.
    indices : ndarray of int, shape (m, k)
        Their nearest neighbours in the embedding, nearest first.
    supported : ndarray of bool, shape (m, k)
        False if, at the level of the interval, the two are farther apart than twice the radius of k true neighbours
        (sqrt(2) times for multiscale distances, which grow like the square root of lengths).
    level : float
    embedding : ndarray of shape (m, n_components)
        Of these points.
    n_samples : int
        Number of all points. The share of supported neighbours among all of them is that of the m points with a
        standard error of at most ``1 / (2 sqrt(m))``.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> support = hs.DiffusionMaps(n_components=2, power=8).fit(X).unsupported_neighbors()
    >>> print(f"{1 - support.supported.mean():.0%} false")
    8% false
    >>> len(support.points[support.share < 0.5])  # points with mostly false neighbours
    13
    """

    points: IntArray
    indices: IntArray
    supported: NDArray[np.bool_]
    level: float
    embedding: FloatArray
    n_samples: int

    @property
    def share(self) -> FloatArray:
        """Share of each point's neighbours that are supported, shape (m,)."""
        share: FloatArray = self.supported.mean(axis=1)
        return share

    def __str__(self) -> str:
        bad = self.share < 0.5
        sampled, error = "", ""
        if len(bad) < self.n_samples:
            sampled = f", a random sample of {self.n_samples:,}"
            error = f" (standard error {self.share.std() / np.sqrt(len(bad)):.1%})"
        return (
            f"Of the {self.indices.shape[1]} nearest neighbours in the embedding, {1.0 - self.supported.mean():.1%}"
            f"{error} are false: the diffusion distance does not support them (intervals at {self.level:g}). More than "
            f"half are false for {bad.sum():,} of {len(bad):,} points{sampled}."
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the embedding's first two columns, coloured by the share of supported neighbours."""
        from .._utils.drawing import draw_shares  # noqa: PLC0415

        return draw_shares(ax, self.embedding, self.share, "share of supported neighbours")


def neighbor_support(
    Y: FloatArray, reference: ReferenceSketch, n_neighbors: int, level: float, n_points: int | None
) -> NeighborSupport:
    """Find false neighbours of some points in an embedding by the intervals of an independent reference sketch."""
    n = len(Y)
    k, points = min(n_neighbors, n - 1), sample(n, n if n_points is None else n_points)
    shown = neighbors_of(points, _scaled(Y), k)
    supported = np.empty(shown.shape, dtype=bool)
    slack = np.sqrt(_SLACK) if isinstance(reference.power, MultiscaleFilter) else _SLACK
    for some in chunks(len(points), k * reference.features.shape[1]):
        # At least k points lie within the largest upper end.
        near = reference.neighbors(points[some], k)
        radius = reference.interval(_pairs(points[some], near), level)[1].reshape(-1, k).max(axis=1)
        low = reference.interval(_pairs(points[some], shown[some]), level)[0].reshape(-1, k)
        supported[some] = low <= slack * radius[:, None]
    return NeighborSupport(points, shown, supported, level, Y[points], n)


def _pairs(points: IntArray, indices: IntArray) -> IntArray:
    """Each point with its neighbours, (m k, 2)."""
    return np.column_stack([np.repeat(points, indices.shape[1]), indices.ravel()])


@dataclass(frozen=True, repr=False)
class StabilityMap(Shown):
    """How each point changes over repetitions of an embedding.

    Attributes
    ----------
    points : ndarray of int, shape (m,)
        The points that are compared, in increasing order; neighbours are neighbours among these.
    kept : ndarray of shape (m,)
        Share of its nearest neighbours in the embedding that are its nearest neighbours in a repetition, on average.
    moved : ndarray of shape (m,)
        Root mean square distance to its position in the repetitions after Procrustes alignment, in units of the
        embedding's root mean square radius.
    under : str
        What was changed: "data" or "seed".
    n_repeats, n_neighbors : int
    n_fitted : int
        Number of points that a repetition is fitted to.
    embedding : ndarray of shape (m, n_components)
        Of these points.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> stability = hs.DiffusionMaps(n_components=2, power=8).fit(X).stability("data")
    >>> print(f"{stability.kept.mean():.0%} of neighbours kept")
    87% of neighbours kept
    >>> len(stability.points[stability.kept < 0.7])  # points that keep fewer than 70%
    8
    """

    points: IntArray
    kept: FloatArray
    moved: FloatArray
    under: str
    n_repeats: int
    n_neighbors: int
    n_fitted: int
    embedding: FloatArray

    def __str__(self) -> str:
        changed = "subsets of the data" if self.under == "data" else "other seeds"
        return (
            f"Over {self.n_repeats} repetitions with {changed}, of {self.n_fitted:,} points each, points keep "
            f"{self.kept.mean():.0%} of their {self.n_neighbors} nearest neighbours ({np.quantile(self.kept, 0.1):.0%} "
            f"or less in the least stable tenth) and move by {np.sqrt(np.mean(self.moved**2)):.2f} of the embedding's "
            "radius."
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the embedding's first two columns, coloured by the share of neighbours that stay."""
        from .._utils.drawing import draw_shares  # noqa: PLC0415

        return draw_shares(ax, self.embedding, self.kept, "share of neighbours kept")


class Repetitions(NamedTuple):
    """An embedding of some points, (m, k), and repetitions of it, each fitted to `n_fitted` points."""

    points: IntArray
    embedding: FloatArray
    others: Iterable[FloatArray]
    n_fitted: int


def repeated_embeddings(
    model: Any, under: str, n_repeats: int, share: float, *, n_points: int | None, random_state: int | None
) -> Repetitions:
    """Embeddings of the same points by a fitted estimator, with other seeds or from subsets of its data.

    If there are more than `n_points` points, a random sample is embedded instead; a graph is not sampled.
    """
    if under not in ("data", "seed"):
        raise ValueError(f"under={under!r} is not known; use 'data' or 'seed'.")
    (_require_seed if under == "seed" else _require_subsets)(model)
    n = model.kernel_.shape[0]
    points = sample(n, n_points if n_points is not None and _has_points(model) else n)
    if len(points) < n:
        model = _fitted_to(model, points, thinned=True)
    seeds = np.random.default_rng(resolve_seed(random_state)).integers(2**31, size=n_repeats)
    rngs = (np.random.default_rng(seed) for seed in seeds)
    size = len(points) if under == "seed" else max(2, round(share * len(points)))
    others = (_with_other_seed(model, rng) if under == "seed" else _from_subset(model, rng, size) for rng in rngs)
    return Repetitions(points, _embedding(model), track(others, "repeating", n_repeats), size)


def _has_points(model: Any) -> bool:
    return isinstance(model.kernel_.affinity, GaussianAffinity)


def _require_seed(model: Any) -> None:
    if not hasattr(model, "random_state") or not isinstance(getattr(model, "sketch", "named"), str):
        raise ValueError(f"this {type(model).__name__} does not draw random numbers; use under='data'.")


def _require_subsets(model: Any) -> None:
    if not _has_points(model):
        raise ValueError(
            "under='data' was given for a precomputed affinity, whose vertices may lose all neighbours in a subset; "
            "use under='seed'."
        )
    if isinstance(getattr(model, "sketch", "named"), np.ndarray):
        raise ValueError(
            "sketch was given as an array for all samples, which does not fit a subset of them; use a named sketch, "
            "such as sketch='gaussian'."
        )


def _embedding(model: Any) -> FloatArray:
    """The embedding of a fitted estimator as a NumPy array."""
    embedding: FloatArray = to_numpy(model.embedding_)
    return embedding


def _with_other_seed(model: Any, rng: np.random.Generator) -> FloatArray:
    """The embedding of the same kernel with another seed."""
    other = _unfitted(model, random_state=int(rng.integers(2**31)))
    other._labels = model._labels
    other._embed(model.kernel_, model.power_, model.kernel_.dtype)
    return _embedding(other)


def _from_subset(model: Any, rng: np.random.Generator, size: int) -> FloatArray:
    """All points, embedded by a model that was fitted to a random subset."""
    affinity = model.kernel_.affinity
    part = np.sort(rng.choice(affinity.n_samples, size, replace=False))
    X = affinity.X[:, part] if affinity.metric.precomputed else affinity.X
    placed: FloatArray = _fitted_to(model, part).transform(X)
    return placed


def _fitted_to(model: Any, part: IntArray, *, thinned: bool = False) -> Any:
    """A model like a fitted one, fitted to a part of its points; `thinned` if these are much farther apart."""
    affinity, masses = model.kernel_.affinity, model.kernel_.scaling.masses
    options: dict[str, Any] = {"random_state": model.seed_} if hasattr(model, "seed_") else {}
    if getattr(model, "init", None) is not None:
        options["init"] = np.asarray(model.init)[part]
    if thinned:  # times reach farther among fewer points, so that "auto" chooses them anew
        options |= {"n_neighbors": model.n_neighbors_, "power": model.power}
    if np.ndim(affinity.epsilon):
        options["bandwidth"] = model.kernel_.bandwidth_rule
    elif not (thinned and isinstance(model.bandwidth, str)):  # otherwise the rule finds the bandwidth of fewer points
        options["bandwidth"] = float(affinity.epsilon)
    X = affinity.X[part][:, part] if affinity.metric.precomputed else affinity.X[part]
    labels, masses = (None if values is None else values[part] for values in (model._labels, masses))
    if labels is not None and len(np.unique(labels[labels >= 0])) < 2:
        options["use_labels"] = False  # this part has too few of the known labels
    return _unfitted(model, **options).fit(X, labels, masses)


def _unfitted(model: Any, **parameters: Any) -> Any:
    """An unfitted copy with the power and the components of a fitted estimator."""
    other: Any = clone(model)
    other.set_params(**{"power": model.power_, "n_components": model.n_components_, "verbose": False} | parameters)
    return other.set_output(transform="default")


def stability_map(repetitions: Repetitions, under: str, n_neighbors: int) -> StabilityMap:
    """Compare an embedding with its repetitions."""
    points, Y, others, n_fitted = repetitions
    here = _scaled(Y)
    near = _neighbors(here, n_neighbors)
    n, k = near.shape
    offset = np.arange(n)[:, None] * n  # distinguishes the neighbours of different points
    kept, moved, repeats = np.zeros(n), np.zeros(n), 0
    for other in others:
        there = _scaled(other)
        kept += np.isin(near + offset, _neighbors(there, k) + offset).mean(axis=1)
        moved += n * np.square(np.subtract(*procrustes(here, there)[:2])).sum(axis=1)
        repeats += 1
    return StabilityMap(points, kept / repeats, np.sqrt(moved / repeats), under, repeats, k, n_fitted, Y)


def _scaled(Y: FloatArray) -> FloatArray:
    """Y in float64, in a unit whose squares do not underflow."""
    return np.ascontiguousarray(Y.astype(np.float64) / magnitude(Y))


def _neighbors(Z: FloatArray, n_neighbors: int) -> IntArray:
    return nearest_neighbors(Z, min(n_neighbors, len(Z) - 1)).indices.astype(np.int64)
