"""Whether to trust the neighbourhoods of an embedding: false neighbours, and stability over repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import procrustes
from sklearn.base import clone

from .._utils.array import to_numpy
from .._utils.display import Shown
from .._utils.progress import track
from .._utils.typing import FloatArray, IntArray
from ..kernel.affinity import GaussianAffinity
from ..linalg.filters import MultiscaleFilter
from ..linalg.metrics import magnitude
from ..linalg.sketch import resolve_seed
from ..neighbors.search import nearest_neighbors
from .reference_sketch import ReferenceSketch

__all__ = ["NeighborSupport", "StabilityMap", "neighbor_support", "repeated_embeddings", "stability_map"]

# A neighbour is false if it is farther away than this multiple of the radius of true neighbours. Multiscale distances
# grow like the root of lengths, so their multiple is the root of that.
_SLACK = 2.0


@dataclass(frozen=True, repr=False)
class NeighborSupport(Shown):
    """Neighbours in an embedding, and whether the diffusion distance supports them.

    Attributes
    ----------
    indices : ndarray of int, shape (N, k)
        Each point's nearest neighbours in the embedding, nearest first.
    supported : ndarray of bool, shape (N, k)
        False if, at the level of the interval, the two are farther apart than twice the radius of k true neighbours
        (the root of 2 times for multiscale distances, which grow like the root of lengths).
    level : float
    embedding : ndarray of shape (N, n_components)
    """

    indices: IntArray
    supported: NDArray[np.bool_]
    level: float
    embedding: FloatArray

    @property
    def share(self) -> FloatArray:
        """Share of each point's neighbours that are supported, shape (N,)."""
        share: FloatArray = self.supported.mean(axis=1)
        return share

    def __str__(self) -> str:
        bad = self.share < 0.5
        return (
            f"{1.0 - self.supported.mean():.1%} of the {self.indices.shape[1]} nearest neighbours in the embedding are "
            f"not supported by the diffusion distance (intervals at {self.level:g}); more than half for {bad.sum()} of "
            f"{len(bad)} points."
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the embedding's first two columns, coloured by the share of supported neighbours."""
        from .._utils.drawing import draw_shares  # noqa: PLC0415

        return draw_shares(ax, self.embedding, self.share, "share of supported neighbours")


def neighbor_support(Y: FloatArray, reference: ReferenceSketch, n_neighbors: int, level: float) -> NeighborSupport:
    """Find false neighbours in an embedding by the intervals of an independent reference sketch."""
    n = len(Y)
    k = min(n_neighbors, n - 1)
    shown, true = _neighbors(_scaled(Y), k), _neighbors(_scaled(reference.features), k)
    # At least k points lie within the largest upper end.
    radius = reference.interval(_pairs(true), level)[1].reshape(n, k).max(axis=1)
    low = reference.interval(_pairs(shown), level)[0].reshape(n, k)
    slack = np.sqrt(_SLACK) if isinstance(reference.power, MultiscaleFilter) else _SLACK
    return NeighborSupport(shown, low <= slack * radius[:, None], level, Y)


def _pairs(indices: IntArray) -> IntArray:
    """Each point with its neighbours, (N k, 2)."""
    n, k = indices.shape
    return np.column_stack([np.repeat(np.arange(n), k), indices.ravel()])


@dataclass(frozen=True, repr=False)
class StabilityMap(Shown):
    """How each point changes over repetitions of an embedding.

    Attributes
    ----------
    kept : ndarray of shape (N,)
        Share of its nearest neighbours in the embedding that are its nearest neighbours in a repetition, on average.
    moved : ndarray of shape (N,)
        Root mean square distance to its position in the repetitions after Procrustes alignment, in units of the
        embedding's root mean square radius.
    under : str
        What was changed: "data" or "seed".
    n_repeats, n_neighbors : int
    embedding : ndarray of shape (N, n_components)
    """

    kept: FloatArray
    moved: FloatArray
    under: str
    n_repeats: int
    n_neighbors: int
    embedding: FloatArray

    def __str__(self) -> str:
        changed = "subsets of the data" if self.under == "data" else "other seeds"
        return (
            f"Over {self.n_repeats} repetitions with {changed}, points keep "
            f"{self.kept.mean():.0%} of their {self.n_neighbors} nearest neighbours (the least stable tenth "
            f"{np.quantile(self.kept, 0.1):.0%} or less) and move by {np.sqrt(np.mean(self.moved**2)):.2f} of the "
            "embedding's radius."
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the embedding's first two columns, coloured by the share of neighbours that stay."""
        from .._utils.drawing import draw_shares  # noqa: PLC0415

        return draw_shares(ax, self.embedding, self.kept, "share of neighbours kept")


def repeated_embeddings(
    model: Any, under: str, n_repeats: int, share: float, random_state: int | None
) -> Iterator[FloatArray]:
    """Embeddings of the same points by a fitted estimator, with other seeds or from subsets of its data."""
    if under not in ("data", "seed"):
        raise ValueError(f"under={under!r} is not known; use 'data' or 'seed'.")
    seeds = np.random.default_rng(resolve_seed(random_state)).integers(2**31, size=n_repeats)
    rngs = (np.random.default_rng(seed) for seed in seeds)
    others = (_with_other_seed(model, rng) if under == "seed" else _from_subset(model, rng, share) for rng in rngs)
    return track(others, "repeating", n_repeats)


def _with_other_seed(model: Any, rng: np.random.Generator) -> FloatArray:
    """The embedding of the same kernel with another seed."""
    if not hasattr(model, "random_state") or not isinstance(getattr(model, "sketch", "named"), str):
        raise ValueError(f"this {type(model).__name__} has no random numbers to draw again; use under='data'.")
    other = _unfitted(model, random_state=int(rng.integers(2**31)))
    other._labels = model._labels
    other._embed(model.kernel_, model.power_, model.kernel_.dtype)
    embedding: FloatArray = to_numpy(other.embedding_)
    return embedding


def _from_subset(model: Any, rng: np.random.Generator, share: float) -> FloatArray:
    """All points, embedded by a model that was fitted to a random subset."""
    affinity = model.kernel_.affinity
    if not isinstance(affinity, GaussianAffinity):
        raise ValueError(
            "under='data' was given for a precomputed affinity, whose vertices may lose all neighbours in a subset; "
            "use under='seed'."
        )
    for name in ("sketch", "init"):
        if isinstance(getattr(model, name, "named"), np.ndarray):
            raise ValueError(f"{name} was given as an array for all samples, which does not fit a subset of them.")
    X, n = affinity.X, affinity.n_samples
    part: Any = np.sort(rng.choice(n, max(2, round(share * n)), replace=False))
    labels = None if model._labels is None else model._labels[part]
    rule = model.kernel_.bandwidth_rule if np.ndim(affinity.epsilon) else float(affinity.epsilon)
    seeded = {"random_state": model.seed_} if hasattr(model, "seed_") else {}
    other = _unfitted(model, bandwidth=rule, **seeded)
    masses = model.kernel_.scaling.masses
    masses = None if masses is None else masses[part]
    if affinity.metric.precomputed:
        part, X = X[part][:, part], X[:, part]
    else:
        part = X[part]
    placed: FloatArray = other.fit(part, labels, masses).transform(X)
    return placed


def _unfitted(model: Any, **parameters: Any) -> Any:
    """An unfitted copy with the power and the components of a fitted estimator."""
    other: Any = clone(model)
    other.set_params(**{"power": model.power_, "n_components": model.n_components_, "verbose": False} | parameters)
    return other.set_output(transform="default")


def stability_map(Y: FloatArray, others: Iterable[FloatArray], under: str, n_neighbors: int) -> StabilityMap:
    """Compare an embedding with its repetitions, (N, k) each."""
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
    return StabilityMap(kept / repeats, np.sqrt(moved / repeats), under, repeats, k, Y)


def _scaled(Y: FloatArray) -> FloatArray:
    """Y in float64, in a unit whose squares do not underflow."""
    return np.ascontiguousarray(Y.astype(np.float64) / magnitude(Y))


def _neighbors(Z: FloatArray, n_neighbors: int) -> IntArray:
    return nearest_neighbors(Z, min(n_neighbors, len(Z) - 1)).indices.astype(np.int64)
