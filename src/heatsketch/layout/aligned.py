"""Layouts of several data sets on the same items, in which an item has the same place where its surroundings agree.

The objective is the sum of the mixtures of all data sets and a coupling::

    c / (B - 1)  mean_i sum_(a, b) log(1 + |y_i^a - y_i^b|^2 / (s_i^a s_i^b)),

with the places of item i in pairs of the B data sets. It grows slowly with the distance: an item whose surroundings
changed is not held back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.array import asarray_like, to_numpy
from .._utils.threads import each, shares
from .._utils.typing import FloatArray
from ..compiled import forces as loops
from .descent import Mixture, first_layout
from .similarities import Similarities

__all__ = ["AlignedMixture"]

# The weight c of the coupling.
_COUPLED = 0.01


class AlignedMixture:
    """The mixtures of several data sets on the same items, and their coupling.

    Embeddings Y, (n, k), hold the points of all data sets, one after another.

    Parameters
    ----------
    parts : sequence of Similarities
        Their features can be compared, sample by sample.
    weight : float in [0, 1]
        w, the weight of neighbours.
    k : int
    seed : int
    """

    def __init__(self, parts: Sequence[Similarities], weight: float, k: int, seed: int) -> None:
        self._parts, self._seed = parts, seed
        self._mixtures = [Mixture(part, weight, k, seed) for part in parts]
        self._ends = np.cumsum([len(part.scales) for part in parts])[:-1]
        self._scales = np.concatenate([part.scales for part in parts])
        # Incidence of points and items; the items of one point have parts of its coupling.
        incidence = sparse.vstack([_incidence(part) for part in parts], format="csr")
        graph = sparse.csr_array(incidence @ incidence.T)
        own = np.repeat(np.arange(len(parts)), [len(part.scales) for part in parts])
        rows = np.repeat(np.arange(len(own)), np.diff(graph.indptr))
        graph.data[own[rows] == own[graph.indices]] = 0.0
        graph.eliminate_zeros()
        self._coupling = graph * np.float32(_COUPLED / max(1, len(parts) - 1))

    @property
    def features(self) -> FloatArray:
        """Features of all points, (n, m)."""
        return np.concatenate([to_numpy(part.features) for part in self._parts])

    def start(self, k: int) -> FloatArray:
        """The leading directions of all data sets together, (n, k)."""
        normals = np.random.default_rng(self._seed).normal(size=(len(self._parts[0].places), k))  # of the items
        start: FloatArray = first_layout(self.features, k, np.concatenate([normals[p.samples] for p in self._parts]))
        return start

    def split(self, Y: FloatArray) -> list[FloatArray]:
        """The points of each data set."""
        return np.split(Y, self._ends)

    def gradient(self, Y: FloatArray, exaggeration: float = 1.0) -> FloatArray:
        """The gradient for each point, times n / 4 with the n points of its data set."""
        parts = [asarray_like(part, mine.features, np.float32) for part, mine in self._pairs(Y)]
        found = [to_numpy(one.gradient(part, exaggeration)) for one, part in zip(self._mixtures, parts, strict=True)]
        C, pulled = self._coupling, np.empty_like(Y)
        arrays = C.indptr, C.indices, C.data, Y, self._scales, pulled
        each(lambda rows: loops.attract(*arrays, rows.start, rows.stop), shares(len(Y), 64), blas=False)
        return np.concatenate(found) + pulled

    def loss(self, Y: FloatArray) -> float:
        """The value at the Y of the last gradient."""
        C, totals = self._coupling, np.empty(len(Y))
        arrays = C.indptr, C.indices, C.data, Y, self._scales, totals
        each(lambda rows: loops.divergence(*arrays, rows.start, rows.stop), shares(len(Y), 64), blas=False)
        parts = [asarray_like(part, mine.features, np.float32) for part, mine in self._pairs(Y)]
        value = sum(one.loss(part) for one, part in zip(self._mixtures, parts, strict=True))
        return float(value + totals.sum() * len(self._parts) / len(Y))

    def _pairs(self, Y: FloatArray) -> list[tuple[Any, Similarities]]:
        return list(zip(self.split(Y), self._parts, strict=True))


def _incidence(part: Similarities) -> Any:
    """Points of one data set and items, (n, N), with rows of norm 1."""
    counts = np.bincount(part.places, minlength=len(part.scales))
    values = (1.0 / np.sqrt(counts[part.places])).astype(np.float32)
    return sparse.csr_array((values, (part.places, np.arange(len(part.places)))), shape=(len(counts), len(part.places)))
