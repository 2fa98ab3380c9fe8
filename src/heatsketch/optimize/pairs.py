"""Pairs of points and their diffusion distances: all of them, or those that a search finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from .._utils.blocks import as_numpy, matching
from .._utils.chunks import chunks
from .._utils.devices import Device, device_of, is_tensor
from .._utils.typing import FloatArray
from ..linalg.metrics import row_distances, squared_distances
from ..linalg.sketch import GaussianSketch
from ..neighbors.search import nearest_neighbors

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

    Where there is a device, the millions of pairs that are looked at in each round are tensors on it; the thousands
    that are chosen from them, or drawn, are arrays everywhere.

    Attributes
    ----------
    i, j : ndarrays or tensors of int, shape (m,)
    log_d : ndarray or tensor of shape (m,)
    """

    i: Any
    j: Any
    log_d: Any

    def __len__(self) -> int:
        return len(self.i)

    def ratios(self, Y: Any) -> Any:
        """``log(|y_i - y_j| / d_ij)``, shape (m,), an array or a tensor as the pairs are; Y likewise, or a tensor."""
        return _log(row_distances(Y, self.i, self.j)) - self.log_d

    def take(self, where: Any) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.i[where], self.j[where], self.log_d[where])

    def as_arrays(self) -> Pairs:
        """The same pairs in arrays, from wherever they lie."""
        return Pairs(as_numpy(self.i), as_numpy(self.j), as_numpy(self.log_d))

    def joined(self, others: Pairs, n: int) -> Pairs:
        """These and other pairs of n points, each once, in the order of their indices."""
        both = concatenated(self, others)
        first = np.unique(np.minimum(both.i, both.j) * n + np.maximum(both.i, both.j), return_index=True)[1]
        return both.take(first)


def concatenated(*several: Pairs) -> Pairs:
    """Pairs one after another, all in arrays or all on one device."""
    device = device_of(several[0].i)
    join = np.concatenate if device is None else device.torch.cat
    return Pairs(*(join([getattr(pairs, name) for pairs in several]) for name in ("i", "j", "log_d")))


class PairSource(ABC):
    """Where the pairs of a data set come from."""

    n_samples: int

    @abstractmethod
    def candidates(self, Y: Any, rng: np.random.Generator) -> tuple[Pairs, Any]:
        """Pairs among which those that Y, (N, k), distorts most are looked for, and their log dilations.

        They are tensors where the source lies on a device; so is Y then.
        """

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
    device : Device, optional
        Where embeddings will be measured.
    """

    def __init__(self, distances: FloatArray, n_samples: int, device: Device | None = None) -> None:
        self.n_samples = n_samples
        i, j = np.triu_indices(n_samples, 1)
        apart = distances > COINCIDENT * distances.max()
        self._apart: Any = slice(None) if apart.all() else apart
        self._pairs = self._judged = Pairs(i[apart], j[apart], np.log(distances[apart]))
        if device is not None:
            self._judged = Pairs(*(device.tensor(part) for part in (i[apart], j[apart], self._pairs.log_d)))
            self._apart = self._apart if apart.all() else device.tensor(apart)

    def candidates(self, Y: Any, rng: np.random.Generator) -> tuple[Pairs, Any]:  # noqa: ARG002
        """All of them."""
        return self._judged, _log(_all_distances(Y)[self._apart]) - self._judged.log_d

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
    features : ndarray of shape (N, m), or a tensor on the device where embeddings will be measured
        Distances between its rows are the diffusion distances.
    """

    def __init__(self, features: Any) -> None:
        self.n_samples = len(features)
        self._features, device = features, device_of(features)
        mean, norm = features.mean(axis=0), (np if device is None else device.torch).linalg.norm
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
        device = device_of(self._features)
        if device is None:
            F = self._features[points].astype(np.float64)
            return self._apart(points[i], points[j], np.sqrt(squared_distances(F))[i, j])
        i, j = device.tensor(points[i]), device.tensor(points[j])
        return self._apart(i, j, _all_distances(self._features[points]))

    def sample(self, size: int, rng: np.random.Generator) -> Pairs:
        """At most `size` pairs at random."""
        i, j = rng.integers(0, self.n_samples, (2, size))
        return self._measured(*(ends[i != j] for ends in (i, j)))


def distinct_points(Z: Any) -> Any:
    """One point of those that coincide in Z, (N, d): neighbours at no distance would crowd out the others.

    Their numbers are an array, or a tensor if Z is one.
    """
    seen = Z @ matching(GaussianSketch(0).matrix(Z.shape[1], _PROJECTED), Z)
    if is_tensor(seen):
        from ..backends.torch.points import distinct_rows  # noqa: PLC0415

        return distinct_rows((seen / (seen.abs().max() or 1.0)).round(decimals=_DIGITS))
    rounded = np.round(seen / (np.abs(seen).max() or 1.0), _DIGITS)
    return np.sort(np.unique(rounded, axis=0, return_index=True)[1])


def neighbor_pairs(Z: Any, k: int = NEIGHBORS) -> tuple[Any, Any]:
    """Each point of Z, (N, d), with its k nearest others, every pair once: two index arrays, tensors if Z is one."""
    n = len(Z)
    k = min(k, n - 1)
    device = device_of(Z)
    where: dict[str, Any] = {} if device is None else {"device": device}
    found = nearest_neighbors(Z, k, **where).indices
    if device is None:
        i, j = np.repeat(np.arange(n), k), found.astype(np.int64).ravel()
        keys = np.unique(np.minimum(i, j) * n + np.maximum(i, j))
    else:
        torch, i, j = device.torch, device.tensor(np.arange(n)[:, None]), device.tensor(found, np.int64)
        keys = torch.unique(torch.minimum(i, j) * n + torch.maximum(i, j))
    return keys // n, keys % n


def _all_distances(Y: Any) -> Any:
    """Distances of all pairs of rows, condensed, in float64."""
    if is_tensor(Y):
        from ..backends.torch.points import condensed_distances  # noqa: PLC0415

        return condensed_distances(Y)
    return pdist(Y)


def _log(d: Any) -> Any:
    """Logarithm of distances, finite where points coincide."""
    least = float(np.finfo(np.float64).tiny)
    return d.clamp(min=least).log() if is_tensor(d) else np.log(np.maximum(d, least))
