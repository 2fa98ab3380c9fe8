r"""The embedding that keeps neighbours and distances best.

Over all embeddings Y of n points it minimises::

    w KL(P || Q) + (1 - w) Var(log(|y_i - y_j| / d_ij)),

where P holds the similarities of neighbours, with the sum 1, Q the similarities
``q_ij = s_i s_j / (s_i s_j + |y_i - y_j|^2)`` of the embedding, normalised over all pairs, and d the diffusion
distances. The first term keeps neighbours, as t-SNE does [1]_, the second distances at all scales. The scales s are
those that the points have in the affinity: where the data are dense, so is the embedding.

The variance is estimated from the pairs of all points with some of them, the landmarks, and
``|y_i - y_j|^2 + (.0001 + .14 w) mean(Y^2)`` stands for ``|y_i - y_j|^2``: unbounded forces between close points would
make the layout depend on the seed.

The descent is that of t-SNE: momentum, and a gain for each point, which grows while its gradient keeps its direction
[2]_. In the first steps the attraction is multiplied, so that groups form. Later the whole layout grows, which takes
many steps by forces between points: once the objective falls slowly, dilations that lower it are taken at once. The
search ends when the objective does not fall any more.

References
----------
.. [1] van der Maaten, Hinton. "Visualizing data using t-SNE". Journal of Machine Learning Research, 2008.
.. [2] Jacobs. "Increased rates of convergence through learning rate adaptation". Neural Networks, 1988.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.progress import task
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..linalg.axes import balanced_axes
from ..linalg.metrics import row_distances
from ..linalg.sketch import sample
from .forces import forces
from .similarities import Similarities

__all__ = ["Found", "Mixture", "Objective", "first_layout", "minimise", "oriented"]

# Steps after which the objective is compared, its least fall, the most steps, and a typical number, for progress.
_WINDOW, _TOL, _MOST, _TYPICAL = 25, 2e-3, 1000, 300
# Factor of the attraction in early steps, and how many these are.
_EXAGGERATION, _EARLY = 4.0, 50
# Fall of the objective below which dilations are tried, and their factor.
_SLOW, _DILATION = 0.05, 1.25
# Noise of the start, relative to its size.
_NOISE = 0.01
# The longest step of a point, in units in which similarities fall to a half at distance 1.
_MOMENTUM, _LONGEST = 0.8, 5.0
# What a gain grows by, what it is multiplied by, and the least.
_FASTER, _SLOWER, _LEAST_GAIN = 0.2, 0.8, 0.01
# Landmarks, whose distances to all others are compared: at least, if distances alone are kept, and for each component.
_LANDMARKS = (32, 128, 2)
# Fraction of the mean square of coordinates that is added to squared distances, and what is added to it, times w.
_SOFTENED = (1e-4, 0.14)
# Pairs that determine the scale of the embedding.
_SCALED = 10_000


class Objective(Protocol):
    """What a descent minimises over embeddings Y, (n, k)."""

    def gradient(self, Y: Any, exaggeration: float) -> Any:
        """The gradient for each point, times n / 4, with the attraction of neighbours multiplied by a factor."""

    def loss(self, Y: Any) -> float:
        """The value at the Y of the last gradient."""


class Mixture:
    """The mixture of neighbours and distances of one data set.

    Parameters
    ----------
    similarities : Similarities
    weight : float in [0, 1]
        w, the weight of neighbours.
    k : int
        Components of the embedding.
    seed : int
        Of the points that are drawn; results do not depend on the number of threads.
    """

    def __init__(self, similarities: Similarities, weight: float, k: int, seed: int) -> None:
        self._weight, self._n = weight, len(similarities.scales)
        # In the order of the samples: weights of points are to give what repeated points give.
        landmarks = np.argsort(similarities.samples)[sample(self._n, max(_LANDMARKS[not weight], _LANDMARKS[2] * k))]
        self._forces = forces(similarities.features, similarities.graph, similarities.scales, landmarks, seed)
        self._share = (1.0 - weight) / len(landmarks)
        self._entropy = _entropy(similarities.graph) if weight > 0 else 0.0
        self._mean: float | None = None
        self._total = self._variance = 0.0

    def gradient(self, Y: Any, exaggeration: float = 1.0) -> Any:
        """The gradient for each point, times n / 4, with the attraction of neighbours multiplied by a factor."""
        xp, w = array_namespace(Y), self._weight
        found = xp.zeros_like(Y)
        if w > 0:
            repulsion, self._total = self._forces.repulsion(Y)
            found += (w * exaggeration) * self._forces.attraction(Y) - (w * self._n / self._total) * repulsion
        if w < 1:
            least = (_SOFTENED[0] + _SOFTENED[1] * w) * float(xp.mean(Y * Y))
            if self._mean is None:
                self._mean = self._forces.stretching(Y, least, 0.0)[1]
            # With the mean of the step before, which changes slowly.
            stretching, self._mean, self._variance = self._forces.stretching(Y, least, self._mean)
            found += self._share * stretching
        return found

    def loss(self, Y: Any) -> float:
        """The value at the Y of the last gradient."""
        w, value = self._weight, 0.0
        if w > 0:
            value += w * (self._forces.divergence(Y) / self._n + float(np.log(self._total)) + self._entropy)
        return value + (1.0 - w) * self._variance


def _entropy(graph: Any) -> float:
    """``sum_ij p_ij log p_ij`` of the similarities with the sum 1."""
    values = to_numpy(graph.parts[2] if hasattr(graph, "parts") else graph.data).astype(np.float64)
    values = values[values > 0]
    return float((values * np.log(values / values.sum())).sum() / values.sum()) if len(values) else 0.0


@dataclass(frozen=True)
class Found:
    """An embedding, and how the search ended.

    Attributes
    ----------
    Y : array of shape (n, k)
        In units in which similarities fall to a half at distance 1.
    loss : float
        The objective.
    n_steps : int
    unit : float
        Times Y, distances between points are about those of the features.
    """

    Y: Any
    loss: float
    n_steps: int
    unit: float = 1.0


@quiet_blas()
def minimise(objective: Objective, start: Any, *, fresh: bool = True) -> Found:
    """The best embedding found from a start, (n, k).

    Parameters
    ----------
    objective : Objective
    start : array of shape (n, k)
    fresh : bool
        Whether the start is in any unit, and groups are still to form; otherwise it is nearly right.
    """
    Y = astype(start, np.float32)
    xp = array_namespace(Y)
    if fresh:
        Y = Y / (float(xp.max(xp.std(Y, axis=0))) or 1.0)
    velocity, gain, ones = xp.zeros_like(Y), xp.ones_like(Y[:, :1]), xp.ones_like(Y[:1].T)
    early, loss, fall = _EARLY if fresh else 0, np.inf, np.inf
    with task("optimising the embedding") as advance:
        for step in range(_MOST):
            advance(min(step, _TYPICAL - 1), _TYPICAL)
            gradient = objective.gradient(Y, _EXAGGERATION if step < early else 1.0)
            if step >= early and step % _WINDOW == 0:
                value = objective.loss(Y)
                if loss - value < _SLOW:
                    Y, gradient, value = _dilated(objective, Y, gradient, value)
                loss, fall = value, loss - value
                if fall < _TOL:
                    return Found(Y, loss, step)
            turned = (gradient * velocity) @ ones > 0
            gain = xp.clip(xp.where(turned, _SLOWER * gain, gain + _FASTER), min=_LEAST_GAIN)
            velocity = _MOMENTUM * velocity - gain * gradient
            length = xp.sqrt((velocity * velocity) @ ones)
            velocity = velocity * xp.clip(_LONGEST / xp.clip(length, min=1e-30), max=1.0)
            Y = Y + velocity
    warn(
        f"the embedding was still improving after {_MOST} steps: the objective, {loss:.3g}, fell by {fall:.2g} in the "
        f"last {_WINDOW}. Fit again with init=model.embedding_ to go on.",
        ConvergenceWarning,
    )
    return Found(Y, loss, _MOST)


def _dilated(objective: Objective, Y: Any, gradient: Any, value: float) -> tuple[Any, Any, float]:
    """Y enlarged as long as that lowers the objective noticeably, with its gradient and value."""
    while True:
        larger = _DILATION * Y
        there = objective.gradient(larger, 1.0)
        found = objective.loss(larger)
        if not found < value - _TOL:
            return Y, gradient, value
        Y, gradient, value = larger, there, found


def first_layout(F: Any, k: int, normals: FloatArray) -> Any:
    """The k leading principal components of the rows of F, (n, k), and a little noise, by which seeds differ."""
    centred = F - array_namespace(F).mean(F, axis=0)
    axes = np.linalg.eigh(to_numpy(centred.T @ centred).astype(np.float64))[1][:, ::-1][:, :k]
    start = centred @ asarray_like(axes, F, np.float32)
    size = float(array_namespace(F).max(array_namespace(F).std(start, axis=0)))
    return start + asarray_like(_NOISE * size * normals, F, np.float32)


def oriented(found: Found, features: Any, samples: IntArray) -> Found:
    """The same along balanced axes, and the unit in which the median pair keeps its distance.

    The pairs are random, by the order of the points' samples.
    """
    Y = to_numpy(found.Y)
    i, j = np.argsort(samples)[np.random.default_rng(0).integers(0, len(Y), (2, _SCALED))]
    pairs = i[i != j], j[i != j]
    d = to_numpy(row_distances(features, *pairs))
    embedded = to_numpy(row_distances(Y.astype(np.float64), *pairs))
    apart = (d > 0) & (embedded > 0)
    unit = float(np.median(d[apart] / embedded[apart])) if apart.any() else 1.0
    return replace(found, Y=Y @ balanced_axes(Y), unit=unit)
