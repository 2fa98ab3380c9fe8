"""Pairs of points and their diffusion distances: all of them, or those that a search finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from ._typing import FloatArray, IntArray
from .chunks import chunks
from .kernels import row_distances, squared_distances
from .neighbors import nearest_neighbors
from .sketch import GaussianSketch

__all__ = ["AllPairs", "FoundPairs", "PairSource", "Pairs", "distinct_points", "neighbor_pairs"]

# Pairs closer than this fraction of the largest distance coincide: their ratio would be rounding over rounding.
COINCIDENT = 1e-12
# Nearest neighbours of each point, in the embedding and by diffusion distance, and points of which all pairs are
# looked at in each round.
NEIGHBORS = 8
_BATCH = 1024
# Points coincide if they do so in a few random directions, to this many digits.
_PROJECTED, _DIGITS = 3, 9


@dataclass(frozen=True)
class Pairs:
    """Pairs of points with the logarithms of their diffusion distances.

    Attributes
    ----------
    i, j : ndarrays of int, shape (m,)
    log_d : ndarray of shape (m,)
    """

    i: IntArray
    j: IntArray
    log_d: FloatArray

    def __len__(self) -> int:
        return len(self.i)

    def ratios(self, Y: FloatArray) -> FloatArray:
        """``log(|y_i - y_j| / d_ij)``, shape (m,)."""
        return _log(row_distances(Y, self.i, self.j)) - self.log_d

    def take(self, where: IntArray) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.i[where], self.j[where], self.log_d[where])

    def joined(self, others: Pairs, n: int) -> Pairs:
        """These and other pairs of n points, each once, in the order of their indices."""
        both = concatenated(self, others)
        first = np.unique(np.minimum(both.i, both.j) * n + np.maximum(both.i, both.j), return_index=True)[1]
        return both.take(first)


def concatenated(*several: Pairs) -> Pairs:
    """Pairs one after another."""
    return Pairs(*(np.concatenate([getattr(pairs, name) for pairs in several]) for name in ("i", "j", "log_d")))


class PairSource(ABC):
    """Where the pairs of a data set come from."""

    n_samples: int

    @abstractmethod
    def candidates(self, Y: FloatArray, rng: np.random.Generator) -> tuple[Pairs, FloatArray]:
        """Pairs among which those that Y, (N, k), distorts most are looked for, and their log dilations."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""


class AllPairs(PairSource):
    """All pairs of a data set that is small enough.

    Parameters
    ----------
    distances : ndarray of shape (N (N - 1) / 2,)
        Condensed.
    n_samples : int
    """

    def __init__(self, distances: FloatArray, n_samples: int) -> None:
        self.n_samples = n_samples
        i, j = np.triu_indices(n_samples, 1)
        apart = distances > COINCIDENT * distances.max()
        self._apart = slice(None) if apart.all() else apart
        self._pairs = Pairs(i[apart], j[apart], np.log(distances[apart]))

    def candidates(self, Y: FloatArray, rng: np.random.Generator) -> tuple[Pairs, FloatArray]:  # noqa: ARG002
        """All of them."""
        return self._pairs, _log(pdist(Y)[self._apart]) - self._pairs.log_d

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""
        count = len(self._pairs)
        return self._pairs if count <= size else self._pairs.take(rng.choice(count, size, replace=False))


class FoundPairs(PairSource):
    """Pairs of a large data set: near in the embedding, near by diffusion distance, and of a random batch of points.

    A pair that is contracted is near in the embedding though far by diffusion distance, so it is found among the
    neighbours there, whose diffusion distances are then looked up.

    Parameters
    ----------
    features : ndarray of shape (N, m)
        Distances between its rows are the diffusion distances.
    """

    def __init__(self, features: FloatArray) -> None:
        self.n_samples = len(features)
        self._features = features
        mean = features.mean(axis=0)
        radius = max(float(np.linalg.norm(features[s] - mean, axis=1).max()) for s in chunks(*features.shape))
        self._least = COINCIDENT * 2.0 * radius  # the largest distance is between one and two radii
        self._distinct = distinct_points(features)
        self._near = self._measured(*self._neighbors(features))

    def _neighbors(self, Z: FloatArray) -> tuple[IntArray, IntArray]:
        if len(self._distinct) < 2:
            return self._distinct[:0], self._distinct[:0]
        i, j = neighbor_pairs(Z[self._distinct])
        return self._distinct[i], self._distinct[j]

    def _measured(self, i: IntArray, j: IntArray) -> Pairs:
        d = row_distances(self._features, i, j)
        apart = d > self._least
        return Pairs(i[apart], j[apart], np.log(d[apart]))

    def candidates(self, Y: FloatArray, rng: np.random.Generator) -> tuple[Pairs, FloatArray]:
        """Neighbours in Y, neighbours by diffusion distance, and all pairs of a batch of points."""
        pairs = concatenated(self._measured(*self._neighbors(Y)), self._near, self._batch(rng))
        return pairs, pairs.ratios(Y)

    def _batch(self, rng: np.random.Generator) -> Pairs:
        points = np.sort(rng.choice(self.n_samples, min(_BATCH, self.n_samples), replace=False))
        F = self._features[points].astype(np.float64)
        i, j = np.triu_indices(len(points), 1)
        d = np.sqrt(squared_distances(F))[i, j]
        apart = d > self._least
        return Pairs(points[i[apart]], points[j[apart]], np.log(d[apart]))

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""
        i, j = rng.integers(0, self.n_samples, (2, size))
        return self._measured(*(ends[i != j] for ends in (i, j)))


def distinct_points(Z: FloatArray) -> IntArray:
    """One point of those that coincide in Z, (N, d): neighbours at no distance would crowd out the others."""
    seen = Z @ GaussianSketch(0).matrix(Z.shape[1], _PROJECTED).astype(Z.dtype)
    rounded = np.round(seen / (np.abs(seen).max() or 1.0), _DIGITS)
    return np.sort(np.unique(rounded, axis=0, return_index=True)[1])


def neighbor_pairs(Z: FloatArray, k: int = NEIGHBORS) -> tuple[IntArray, IntArray]:
    """Each point of Z, (N, d), with its k nearest others, every pair once: two index arrays."""
    n = len(Z)
    k = min(k, n - 1)
    i, j = np.repeat(np.arange(n), k), nearest_neighbors(Z, k).indices.astype(np.int64).ravel()
    keys = np.unique(np.minimum(i, j) * n + np.maximum(i, j))
    return keys // n, keys % n


def _log(d: FloatArray | float) -> FloatArray:
    """Logarithm of distances, finite where points coincide."""
    logs: FloatArray = np.log(np.maximum(d, np.finfo(np.float64).tiny))
    return logs
