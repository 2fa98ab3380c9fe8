r"""The sketch that keeps neighbours and distances best.

Over M in ``Y = h(A) M`` it minimises::

    w KL(P || Q) + (1 - w) Var(log(|y_i - y_j| / d_ij)),

where P holds the squared entries of the heat kernel outside its diagonal, normalised, Q the similarities
``q_ij = 1 / (1 + |y_i - y_j|^2 / (s_i s_j))`` of the embedding, normalised, and d the diffusion distances. The first
term keeps neighbours, as t-SNE does [1]_, the second keeps distances at all scales. The scales s are those that the
points have in the affinity: where the data are dense, so is the embedding.

The repulsion between all pairs, ``log sum q_ij``, is estimated in each step from a few points, drawn at random like
negative samples [2]_, and the second term compares the distances to a few landmarks: every step costs O(N). The
attraction is multiplied by a factor, larger in the first steps, in which groups form; a factor above 1 in the last
makes groups more compact, which pays the more points there are [3]_.

References
----------
.. [1] van der Maaten, Hinton. "Visualizing data using t-SNE". Journal of Machine Learning Research, 2008.
.. [2] McInnes, Healy, Melville. "UMAP: uniform manifold approximation and projection". arXiv:1802.03426, 2018.
.. [3] Böhm, Berens, Kobak. "Attraction-repulsion spectrum in neighbor embeddings". Journal of Machine Learning
   Research, 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, device, to_numpy
from .._utils.chunks import chunks
from .._utils.progress import track
from .._utils.threads import each, quiet_blas, shares
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import row_distances
from ..linalg.sketch import sample
from .axes import balanced_axes
from .spaces import SearchSpace

__all__ = ["CONTINUED", "FRESH", "Forces", "Steps", "forces", "log_distances", "minimise"]

_MOMENTUM, _AVERAGED = 0.9, 0.99
# Factors of the attraction in early steps and in others. The second grows from 1, at some number of points.
_ATTRACTION, _FEW_POINTS = (8.0, 2.0), 250
# Points drawn in each step, which repel all others, and points whose distances to all others are compared in all steps:
# at least, if distances alone are kept, and for each component.
_REPELLING, _LANDMARKS = (1024, 128), (32, 128, 2)
# Pairs that determine the scale of the embedding.
_SCALED = 10_000
# Fraction of the mean square of coordinates that is added to squared distances whose logarithms are compared, and what
# is added to it, times w, for neighbours, which the first term keeps: unbounded forces between close points would make
# the layout depend on the seed. Entries of a gradient are clipped at so many times their root mean square.
_SOFTENED, _LONGEST = (1e-4, 0.14), 5.0
# Squared distances below this fraction of the mean squared norm of features are those of coinciding points.
_COINCIDENT = 1e-6


@dataclass(frozen=True)
class Steps:
    """How to descend.

    The length of a step is a root mean square of entries of Z, in units in which similarities fall to a half at
    distance 1; it decreases to 0.
    """

    count: int
    length: float  # of the first
    early: float  # share of steps in which groups form


FRESH, CONTINUED = Steps(250, 1.0, 0.2), Steps(100, 0.7, 0.0)


class Forces(Protocol):
    """Sums over pairs, on the device of the features, (n, m), between whose rows distances are compared."""

    def attraction(self, Y: Any) -> Any:
        """``sum_j P_ij q_ij (y_i - y_j) / (s_i s_j)``, (n, k)."""

    def repulsion(self, Y: Any, drawn: IntArray) -> tuple[Any, float]:
        """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)`` over the drawn points j, (n, k), and the sum of q_ij, i not j."""

    def stretching(self, Y: Any, least: float, mean: float) -> tuple[Any, float]:
        """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` over the landmarks j, (n, k), and the mean of l_ij.

        ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least``; pairs that coincide are left out.
        """


def log_distances(features: Any, landmarks: IntArray) -> Any:
    """Logarithms of the squared distances between all rows of features and some, (n, m), in float32 and any unit.

    They are -100 for pairs that coincide.
    """
    xp, chosen = array_namespace(features), features[asarray_like(landmarks, features)]
    unit = float(xp.max(xp.abs(features))) or 1.0  # squares could underflow
    unit *= float(xp.mean(xp.square(features / unit)) * features.shape[1]) ** 0.5 or 1.0
    chosen = chosen / unit
    own = xp.sum(chosen * chosen, axis=1)
    logs = xp.empty((features.shape[0], len(landmarks)), dtype=xp.float32, device=device(features))
    for rows in chunks(features.shape[0], features.shape[1]):
        block = features[rows] / unit
        squared = xp.sum(block * block, axis=1)[:, None] + own - 2.0 * (block @ chosen.T)
        logs[rows] = xp.where(squared > _COINCIDENT, xp.log(xp.clip(squared, min=_COINCIDENT)), -100.0)
    return logs


class _CompiledForces:
    """Forces by compiled loops, on all cores; each row is computed by one of them."""

    def __init__(self, features: FloatArray, graph: Any, scales: FloatArray, landmarks: IntArray) -> None:
        self._graph, self._scales, self._n, self._landmarks = graph, scales, len(features), landmarks
        self._logs = log_distances(features, landmarks)
        self._pairs = max(1, int(np.count_nonzero(self._logs > -100.0)))

    def attraction(self, Y: FloatArray) -> FloatArray:
        from ..compiled.forces import attract  # noqa: PLC0415

        P, s, out = self._graph, self._scales, np.empty_like(Y)
        work = shares(self._n, 4 * Y.shape[1] * (1 + P.nnz // self._n))
        each(lambda rows: attract(P.indptr, P.indices, P.data, Y, s, out, rows.start, rows.stop), work, blas=False)
        return out

    def repulsion(self, Y: FloatArray, drawn: IntArray) -> tuple[FloatArray, float]:
        from ..compiled.forces import repel  # noqa: PLC0415

        out, totals, others = np.empty_like(Y), np.empty(self._n), np.ascontiguousarray(Y[drawn].T)
        s, work = (self._scales, self._scales[drawn]), shares(self._n, others.size)
        each(lambda rows: repel(Y, others, *s, out, totals, rows.start, rows.stop), work, blas=False)
        return out, float(totals.sum()) - len(drawn)

    def stretching(self, Y: FloatArray, least: float, mean: float) -> tuple[FloatArray, float]:
        from ..compiled.forces import stretch  # noqa: PLC0415

        out, totals, others = np.empty_like(Y), np.empty(self._n), np.ascontiguousarray(Y[self._landmarks].T)
        arrays, work = (Y, others, self._logs, least, mean, out, totals), shares(self._n, 4 * others.size)
        each(lambda rows: stretch(*arrays, rows.start, rows.stop), work, blas=False)
        return out, float(totals.sum()) / self._pairs


@singledispatch
def forces(features: Any, graph: Any, scales: FloatArray, landmarks: IntArray) -> Forces:
    """Forces for a graph of neighbours in CSR form, (n, n), and scales, (n,); backends register their own features."""
    return _CompiledForces(features, graph, scales, landmarks)


def _draws(n: int, steps: Steps, rng: np.random.Generator) -> Iterator[IntArray]:
    """The points that repel all others in each step, without repetition until fewer are left than a step draws."""
    order, start = rng.permutation(n), 0
    for step in range(steps.count):
        size = min(n, _REPELLING[step >= steps.early * steps.count])
        if start + size > n:
            order, start = rng.permutation(n), 0
        yield order[start : start + size]
        start += size


@quiet_blas()
def minimise(space: SearchSpace, weight: float, seed: int, steps: Steps = FRESH, *, n_sets: int = 1) -> Any:
    """M, (N, k), of the best embedding found.

    Parameters
    ----------
    space : SearchSpace
    weight : float in [0, 1]
        w, the weight of neighbours.
    seed : int
        Of the points that are drawn; the result does not depend on the number of threads.
    steps : Steps
        `FRESH`, or `CONTINUED` from a start that is nearly right.
    n_sets : int
        Data sets that the points are of: groups are as compact as the number of points of one asks for.
    """
    Z, rng = astype(space.start, np.float32), np.random.default_rng(seed)
    xp, Y = array_namespace(Z), space.embedding(Z)
    n, k = Y.shape
    landmarks = sample(n, max(_LANDMARKS[not weight], _LANDMARKS[2] * k))
    between = forces(space.features, space.graph, space.scales, landmarks)
    Z = Z / (float(xp.max(xp.std(Y, axis=0))) or 1.0)
    factors = _ATTRACTION[0], min(_ATTRACTION[1], max(1.0, (n / n_sets / _FEW_POINTS) ** (1 / 3)))
    velocity, size, mean = xp.zeros_like(Z), 0.0, None
    for step, points in enumerate(track(_draws(n, steps, rng), "optimising the sketch", steps.count)):
        Y = astype(space.embedding(Z), np.float32)
        slope = xp.zeros_like(Y)
        if weight > 0:
            repulsion, total = between.repulsion(Y, points)
            slope += (weight * factors[step >= steps.early * steps.count]) * between.attraction(Y)
            slope -= (weight * n / total) * repulsion
        if weight < 1:
            least = (_SOFTENED[0] + _SOFTENED[1] * weight) * float(xp.mean(Y * Y))
            mean = between.stretching(Y, least, 0.0)[1] if mean is None else mean
            stretching, mean = between.stretching(Y, least, mean)  # the mean of the step before: it changes slowly
            slope += ((1.0 - weight) / len(landmarks)) * stretching
        gradient = space.gradient(Z, slope)
        square = float(xp.mean(gradient * gradient))
        size = _AVERAGED * size + (1.0 - _AVERAGED) * square
        longest = _LONGEST * square**0.5  # a few points must not fly off
        velocity = _MOMENTUM * velocity + (1.0 - _MOMENTUM) * xp.clip(gradient, -longest, longest)
        corrected = (1.0 - _MOMENTUM ** (step + 1)) * (size / (1.0 - _AVERAGED ** (step + 1))) ** 0.5
        if corrected == 0:
            break
        Z = Z - (steps.length * (1.0 - step / steps.count) / corrected) * velocity
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
