"""Pairs of points and their diffusion distances: all pairs, or candidates from a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.chunks import chunks
from .._utils.registry import device_of
from .._utils.typing import FloatArray
from ..linalg.metrics import condensed_distances, row_distances
from ..linalg.sketch import GaussianSketch
from ..neighbors.search import nearest_neighbors

__all__ = ["AllPairs", "FoundPairs", "PairSource", "Pairs", "distinct_points", "neighbor_pairs"]

# Pairs closer than this fraction of the largest distance coincide: their ratio would be rounding over rounding.
COINCIDENT = 1e-12
# Nearest neighbours of each point, in the embedding and by diffusion distance, and points of which all pairs are
# candidates in each round.
NEIGHBORS = 8
_BATCH = 1024
# Points coincide if they do so in a few random directions, to this many digits.
_PROJECTED, _DIGITS = 3, 9


@dataclass(frozen=True)
class Pairs:
    """Pairs of points, (m,) each, with the logarithms of their diffusion distances.

    The millions of candidates of each round are arrays of the library of the embedding, on its device; the thousands
    that are chosen from them, or drawn, are NumPy arrays.
    """

    i: Any
    j: Any
    log_d: Any

    def __len__(self) -> int:
        return len(self.i)

    def ratios(self, Y: Any) -> Any:
        """``log(|y_i - y_j| / d_ij)``, shape (m,), for an embedding Y, (N, k)."""
        return _log(row_distances(Y, self.i, self.j)) - self.log_d

    def take(self, where: Any) -> Pairs:
        """Some of the pairs, by indices or a mask."""
        return Pairs(self.i[where], self.j[where], self.log_d[where])

    def to_numpy(self) -> Pairs:
        """The same pairs in NumPy arrays."""
        return Pairs(*map(to_numpy, (self.i, self.j, self.log_d)))

    def joined(self, others: Pairs, n: int) -> Pairs:
        """These and other pairs of n points, without duplicates, sorted by their indices."""
        both = concatenated(self, others)
        first = np.unique(np.minimum(both.i, both.j) * n + np.maximum(both.i, both.j), return_index=True)[1]
        return both.take(first)


def concatenated(*several: Pairs) -> Pairs:
    """Pairs of one array library, concatenated."""
    concat = array_namespace(several[0].i).concat
    return Pairs(*(concat([getattr(pairs, name) for pairs in several]) for name in ("i", "j", "log_d")))


class PairSource(ABC):
    """The pairs of a data set."""

    n_samples: int

    @abstractmethod
    def candidates(self, Y: Any, rng: np.random.Generator) -> tuple[Pairs, Any]:
        """Pairs that include those that Y, (N, k), distorts most, and their log dilations."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""


class AllPairs(PairSource):
    """All pairs of a small data set, from condensed distances.

    Embeddings that will be measured are arrays of the library of `like`.
    """

    def __init__(self, distances: FloatArray, n_samples: int, like: Any = None) -> None:
        self.n_samples = n_samples
        i, j = np.triu_indices(n_samples, 1)
        apart = distances > COINCIDENT * distances.max()
        parts = i[apart], j[apart], np.log(distances[apart])
        self._pairs = Pairs(*parts)
        self._judged = self._pairs if like is None else Pairs(*(asarray_like(part, like) for part in parts))

    def candidates(self, Y: Any, rng: np.random.Generator) -> tuple[Pairs, Any]:  # noqa: ARG002
        """All pairs."""
        return self._judged, self._judged.ratios(Y)

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""
        count = len(self._pairs)
        return self._pairs if count <= size else self._pairs.take(rng.choice(count, size, replace=False))


class FoundPairs(PairSource):
    """Pairs of a large data set: near in the embedding, near by diffusion distance, and of a random batch of points.

    A pair that is contracted is near in the embedding though far by diffusion distance, so it is found among the
    neighbours there. Diffusion distances are those between the rows of `features`, (N, m), an array of the library of
    the embeddings that will be measured.
    """

    def __init__(self, features: Any) -> None:
        self.n_samples = len(features)
        self._features, xp = features, array_namespace(features)
        mean, norm = xp.mean(features, axis=0), xp.linalg.vector_norm
        radius = max(float(norm(features[s] - mean, axis=1).max()) for s in chunks(*features.shape))
        self._least = COINCIDENT * 2.0 * radius  # the largest distance is between one and two radii
        self._distinct = distinct_points(features)
        self._near = self._measured(*self._neighbors(features))

    def _neighbors(self, Z: Any) -> tuple[Any, Any]:
        if len(self._distinct) < 2:
            return self._distinct[:0], self._distinct[:0]
        i, j = neighbor_pairs(Z[self._distinct])
        return self._distinct[i], self._distinct[j]

    def _measured(self, i: Any, j: Any) -> Pairs:
        return self._apart(i, j, row_distances(self._features, i, j))

    def _apart(self, i: Any, j: Any, d: Any) -> Pairs:
        """The pairs at distances d that do not coincide."""
        apart = d > self._least
        return Pairs(i[apart], j[apart], _log(d[apart]))

    def candidates(self, Y: Any, rng: np.random.Generator) -> tuple[Pairs, Any]:
        """Neighbours in Y, neighbours by diffusion distance, and all pairs of a batch of points."""
        pairs = concatenated(self._measured(*self._neighbors(Y)), self._near, self._batch(rng))
        return pairs, pairs.ratios(Y)

    def _batch(self, rng: np.random.Generator) -> Pairs:
        points = np.sort(rng.choice(self.n_samples, min(_BATCH, self.n_samples), replace=False))
        i, j = np.triu_indices(len(points), 1)
        i, j = (asarray_like(points[end], self._features) for end in (i, j))
        return self._apart(i, j, condensed_distances(self._features[points]))

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""
        i, j = rng.integers(0, self.n_samples, (2, size))
        return self._measured(*(ends[i != j] for ends in (i, j)))


def distinct_points(Z: Any) -> Any:
    """Indices of the distinct points of Z, (N, d): duplicates would crowd out other neighbours."""
    xp = array_namespace(Z)
    seen = Z @ xp.astype(asarray_like(GaussianSketch(0).matrix(Z.shape[1], _PROJECTED), Z), Z.dtype)
    whole = xp.round(astype(seen, np.float64) * (10.0**_DIGITS / (float(xp.max(xp.abs(seen))) or 1.0)))
    # Stable sorts by one column after another put equal rows next to each other, the first of them first.
    order = xp.argsort(whole[:, 0], stable=True)
    for column in range(1, _PROJECTED):
        order = order[xp.argsort(whole[order, column], stable=True)]
    whole = whole[order]
    new = xp.any(whole[1:] != whole[:-1], axis=1)
    return xp.sort(xp.concat([order[:1], order[1:][new]]))


def neighbor_pairs(Z: Any, k: int = NEIGHBORS) -> tuple[Any, Any]:
    """Each point of Z, (N, d), with its k nearest others, every pair once: two index arrays of the library of Z."""
    n = len(Z)
    found = nearest_neighbors(Z, min(k, n - 1), device=device_of(Z)).indices
    i, j = asarray_like(np.arange(n)[:, None], Z), asarray_like(found, Z, np.int64)
    xp = array_namespace(i)
    keys = xp.unique_values(xp.minimum(i, j) * n + xp.maximum(i, j))
    return keys // n, keys % n


def _log(d: Any) -> Any:
    """Logarithm of distances, finite if points coincide."""
    xp = array_namespace(d)
    return xp.log(xp.clip(d, min=float(np.finfo(np.float64).tiny)))
