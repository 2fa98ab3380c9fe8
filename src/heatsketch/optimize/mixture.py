r"""The sketch that keeps neighbours and distances best.

Over M in ``Y = h(A) M`` it minimises

    w KL(P || Q) + (1 - w) Var(log(|y_i - y_j| / d_ij)),

where P holds the squared entries of the heat kernel outside its diagonal, normalised, Q the similarities
``q_ij = 1 / (1 + |y_i - y_j|^2)`` of the embedding, normalised, and d the diffusion distances. The first term keeps
neighbours, as t-SNE does [1]_, the second keeps distances at all scales.

The repulsion between all pairs, ``log sum q_ij``, and the second term are estimated in each step from a few points,
drawn at random like negative samples [2]_: every step costs O(N). The attraction is multiplied by a factor, larger
in the first steps, in which groups form; a factor above 1 in the last makes groups more compact [3]_.

References
----------
.. [1] van der Maaten, Hinton. "Visualizing data using t-SNE". Journal of Machine Learning Research, 2008.
.. [2] McInnes, Healy, Melville. "UMAP: uniform manifold approximation and projection". arXiv:1802.03426, 2018.
.. [3] Böhm, Berens, Kobak. "Attraction-repulsion spectrum in neighbor embeddings". Journal of Machine Learning
   Research, 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.progress import track
from .._utils.threads import each, quiet_blas, shares
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import row_distances
from .axes import balanced_axes
from .spaces import SearchSpace

__all__ = ["Forces", "coincident", "forces", "minimise"]

_STEPS = 500
# Length of the first step, in units in which similarities fall to a half at distance 1; it decreases to 0.
_LENGTH = 1.0
_MOMENTUM, _AVERAGED = 0.9, 0.99
# Factors of the attraction, and the share of steps with the first.
_ATTRACTION, _EARLY = (8.0, 2.0), 0.3
# Points drawn in each step, of which all repel all others, and those among them to which distances are compared.
_REPELLING, _COMPARED = 256, 8
# Pairs that determine the scale of the embedding.
_SCALED = 10_000
# Fraction of the mean square of coordinates that is added to squared distances whose logarithms are compared, and the
# largest entry of a gradient in units of their root mean square.
_SOFTENED, _LONGEST = 1e-4, 5.0
# Squared distances below this fraction of the mean square of features are those of coinciding points.
_COINCIDENT = 1e-6


class Forces(Protocol):
    """Sums over pairs, on the device of the features, (n, m), between whose rows distances are compared."""

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij q_ij (y_i - y_j)``, (n, k)."""

    def repulsion(self, Y: Any, drawn: IntArray) -> tuple[Any, float]:
        """``sum_j q_ij^2 (y_i - y_j)`` over the drawn points j, (n, k), and the sum of all q_ij with i other than j."""

    def stretching(self, Y: Any, drawn: IntArray, least: float, mean: float) -> tuple[Any, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the drawn points, (n, k), and the mean of l_ij.

        ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least``; pairs that coincide are left out.
        """


def coincident(features: Any) -> float:
    """Squared distance between rows of features, (n, m), below which points coincide."""
    xp = array_namespace(features)
    square = float(xp.mean(features * features)) * int(features.shape[1])
    return _COINCIDENT * square + float(np.finfo(np.float32).tiny)


class _CompiledForces:
    """Forces by compiled loops, on all cores; each row is computed by one of them."""

    def __init__(self, features: FloatArray, graph: Any) -> None:
        self._F, self._graph, self._n = np.ascontiguousarray(features, dtype=np.float32), graph, len(features)
        self._coincident = np.float32(coincident(self._F))

    def attraction(self, Y: FloatArray) -> FloatArray:
        from ..compiled.forces import attract  # noqa: PLC0415

        P, out = self._graph, np.empty_like(Y)
        work = shares(self._n, 4 * Y.shape[1] * (1 + P.nnz // self._n))
        each(lambda rows: attract(P.indptr, P.indices, P.data, Y, out, rows.start, rows.stop), work, blas=False)
        return out

    def repulsion(self, Y: FloatArray, drawn: IntArray) -> tuple[FloatArray, float]:
        from ..compiled.forces import repel  # noqa: PLC0415

        out, totals, others = np.empty_like(Y), np.empty(self._n), np.ascontiguousarray(Y[drawn].T)
        work = shares(self._n, others.size)
        each(lambda rows: repel(Y, others, out, totals, rows.start, rows.stop), work, blas=False)
        return out, float(totals.sum()) - len(drawn)

    def stretching(self, Y: FloatArray, drawn: IntArray, least: float, mean: float) -> tuple[FloatArray, float]:
        from ..compiled.forces import stretch  # noqa: PLC0415

        out, (totals, counts) = np.empty_like(Y), np.empty((2, self._n))
        others, features = (np.ascontiguousarray(block[drawn].T) for block in (Y, self._F))
        limits = self._coincident, np.float32(least), np.float32(mean)

        def measure(rows: slice) -> None:
            stretch(Y, others, self._F, features, *limits, out, totals, counts, rows.start, rows.stop)

        each(measure, shares(self._n, features.size), blas=False)
        return out, float(totals.sum()) / max(1.0, float(counts.sum()))


@singledispatch
def forces(features: Any, graph: Any) -> Forces:
    """Forces for a graph of neighbours in CSR form, (n, n); backends register their own features."""
    return _CompiledForces(features, graph)


def _draws(n: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Batches of points at random, each point once before any is drawn again."""
    while True:
        order = rng.permutation(n)
        for start in range(0, n - n % (size := min(n, _REPELLING)), size):
            yield order[start : start + size]


@quiet_blas()
def minimise(space: SearchSpace, weight: float, seed: int) -> Any:
    """M, (N, k), of the best embedding found.

    Parameters
    ----------
    space : SearchSpace
    weight : float in [0, 1]
        w, the weight of neighbours.
    seed : int
        Of the points that are drawn; the result does not depend on the number of threads.
    """
    Z, between, rng = astype(space.start, np.float32), forces(space.features, space.graph), np.random.default_rng(seed)
    xp, Y = array_namespace(Z), space.embedding(Z)
    n = Y.shape[0]
    Z = Z / (float(xp.max(xp.std(Y, axis=0))) or 1.0)
    velocity, size, mean = xp.zeros_like(Z), 0.0, None
    drawn = _draws(n, rng)
    for step in track(range(_STEPS), "optimising the sketch", _STEPS):
        Y, points = space.embedding(Z), next(drawn)
        slope = xp.zeros_like(Y)
        if weight > 0:
            repulsion, total = between.repulsion(Y, points)
            slope += (weight * _ATTRACTION[step >= _EARLY * _STEPS]) * between.attraction(Y)
            slope -= (weight * n / total) * repulsion
        if weight < 1:
            few, least = points[:_COMPARED], _SOFTENED * float(xp.mean(Y * Y))
            if mean is None:
                mean = between.stretching(Y, few, least, 0.0)[1]
            stretching, now = between.stretching(Y, few, least, mean)
            slope += ((1.0 - weight) / len(few)) * stretching
            mean = now if step < 10 else 0.9 * mean + 0.1 * now
        gradient = space.gradient(Z, slope)
        square = float(xp.mean(gradient * gradient))
        size = _AVERAGED * size + (1.0 - _AVERAGED) * square
        longest = _LONGEST * np.sqrt(square)  # a few points must not fly off
        velocity = _MOMENTUM * velocity + (1.0 - _MOMENTUM) * xp.clip(gradient, -longest, longest)
        corrected = (1.0 - _MOMENTUM ** (step + 1)) * np.sqrt(size / (1.0 - _AVERAGED ** (step + 1)))
        if not corrected > 0:
            break
        Z = Z - (_LENGTH * (1.0 - step / _STEPS) / corrected) * velocity
    return space.matrix(Z @ asarray_like(_orientation(space, to_numpy(space.embedding(Z))), Z, np.float32))


def _orientation(space: SearchSpace, Y: FloatArray) -> FloatArray:
    """Rotation to balanced axes, (k, k), times the factor by which the median pair keeps its distance."""
    i, j = np.random.default_rng(0).integers(0, len(Y), (2, _SCALED))
    pairs = i[i != j], j[i != j]
    d = to_numpy(row_distances(space.features, *pairs))
    found = to_numpy(row_distances(Y.astype(np.float64), *pairs))
    apart = (d > 0) & (found > 0)
    scale = np.median(d[apart] / found[apart]) if apart.any() else 1.0
    return scale * balanced_axes(Y)
