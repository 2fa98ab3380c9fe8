"""The projection of a wide sketch that distorts the worst distance least.

An embedding is ``Y = F W`` with F the wide sketch and W, of shape (m, k), unknown. The dilation of a pair of points is
``|y_i - y_j| / d_ij``, embedded over diffusion distance, and the objective is ``log L``, the largest log dilation minus
the smallest. It is not smooth (it depends on the worst pairs) and not convex (k is smaller than m):

- a smooth objective approximates it, more sharply in each round, in units of the distortion reached;
- in each round the pairs that are distorted most join the active pairs, and L-BFGS takes a few steps on them;
- all starts take the opening rounds, the best continues, and the best embedding measured in any round is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from .._utils.array import array_namespace, asarray_like, to_numpy
from .._utils.progress import task
from .._utils.threads import each, quiet_blas
from .._utils.typing import FloatArray
from ..linalg.axes import balanced_axes
from .pairs import Pairs, PairSource

__all__ = ["Dilations", "Found", "Round", "Start", "dilations", "optimize", "smooth_log_L"]

# Sharpness in units of one over the distortion reached, in the first and last round. Pairs whose weight is smaller than
# e^-25 of the largest are not active.
_SHARPNESS = 8.0, 512.0
_NEGLIGIBLE = 25.0
# Pairs added in each round from either end, random pairs, and the share of opening rounds.
_WORST, _DRAWN, _OPENING = 2000, 4000, 2 / 7
# Weight, in units of the distortion reached, of the logarithm of ``|M|`` over the mean dilation. If M is much larger
# than the embedding, large terms cancel on the training points, and not on new ones.
_PENALTY = 0.1
# Steps of L-BFGS in each round, its memory, and the distortion below which nothing is left to improve.
_STEPS, _MEMORY = 15, 10
_CONVERGED = 1e-9
# The largest log dilation, whose square must not overflow in float32.
_LARGEST_LOG = 30.0


class Round(NamedTuple):
    """A round of the optimisation.

    Attributes
    ----------
    start : str
        Name of the start.
    number : int
        0 is the start itself.
    distortion : float
        The measured objective, log L.
    n_pairs : int
        Active pairs.
    seconds : float
        Since the optimisation began.
    """

    start: str
    number: int
    distortion: float
    n_pairs: int
    seconds: float


class Start(NamedTuple):
    """A name and a matrix of shape (m, k) to start from."""

    name: str
    W: FloatArray


class Found(NamedTuple):
    """The best projection, the name of its start, and all rounds, start by start.

    W is rotated to balanced axes of the embedding and scaled so that the median pair keeps its distance.
    """

    W: FloatArray
    start: str
    history: list[Round]


def optimize(
    features: Any,
    source: PairSource,
    starts: Sequence[Start],
    seed: int,
    *,
    weights: FloatArray | None = None,
    n_rounds: int = 14,
) -> Found:
    """The best projection of the features, (N, m), found from several starts.

    Embeddings are computed and measured on the device of the features, with pairs of the same array library; random
    pairs, drawn with the seed, and steps are NumPy's. `weights`, (m,), are the squared norms of the columns of the wide
    sketch, for the penalty; 1 by default.
    """
    opening = max(1, round(_OPENING * n_rounds))
    total = opening * (len(starts) - 1) + n_rounds
    with quiet_blas(), task("optimising the embedding") as advance:  # one thread each: the same steps with any number
        history: dict[str, list[Round]] = {start.name: [] for start in starts}
        began = perf_counter()

        def record(start: str, number: int, distortion: float, n_pairs: int) -> None:
            history[start].append(Round(start, number, distortion, n_pairs, perf_counter() - began))
            advance(sum(max(0, len(rounds) - 1) for rounds in history.values()), total)

        draws = np.random.default_rng(seed).spawn(len(starts))
        weights = np.ones(features.shape[1]) if weights is None else weights
        searches = [
            _Search(features, source, start, rng, n_rounds=n_rounds, weights=weights, record=record)
            for start, rng in zip(starts, draws, strict=True)
        ]
        # A device has one queue.
        each(lambda search: search.open(opening), searches, threads=None if isinstance(features, np.ndarray) else 1)
        best = min(searches, key=lambda search: search.best[0])
        best.run(n_rounds - opening)
        W = _oriented(features, best.best[1], source.sample(_DRAWN, np.random.default_rng(seed)))
    return Found(W, best.name, [done for rounds in history.values() for done in rounds])


def _oriented(features: Any, W: FloatArray, pairs: Pairs) -> FloatArray:
    """W turned to balanced axes and scaled so that the median pair keeps its distance."""
    Y = to_numpy(_embedded(features, W))
    oriented: FloatArray = np.exp(-np.median(pairs.ratios(Y))) * (W @ balanced_axes(Y))
    return oriented


def _embedded(features: Any, W: FloatArray) -> Any:
    """``F W`` in the dtype of the features."""
    return features @ array_namespace(features).astype(asarray_like(W, features), features.dtype)


class _Search:
    """The search from one start."""

    def __init__(
        self,
        features: Any,
        source: PairSource,
        start: Start,
        rng: np.random.Generator,
        *,
        n_rounds: int,
        weights: FloatArray,
        record: Callable[[str, int, float, int], None],
    ) -> None:
        self._features, self._source, self._weights, self._rng = features, source, weights, rng
        self._n_rounds = n_rounds
        self.name, self._W, self._record = start.name, np.array(start.W, dtype=np.float64), record
        self._active = source.sample(_DRAWN, rng)
        self._sharpness, self._penalty, self._rounds = 0.0, 0.0, -1
        self.best: tuple[float, FloatArray] = (np.inf, self._W)

    def open(self, n_rounds: int) -> None:
        """Measure the start, and take the opening rounds."""
        self.measure()
        self.run(n_rounds)

    def run(self, n_rounds: int) -> None:
        """Take some rounds, or fewer if nothing is left to improve."""
        for _ in range(n_rounds):
            if self.best[0] <= _CONVERGED or not np.isfinite(self._W).all():
                return
            self._descend()
            self.measure()

    def measure(self) -> None:
        """Measure the embedding, keep it if it is the best, and choose the pairs of the next round."""
        self._rounds += 1
        Y = _embedded(self._features, self._W)
        pairs, found = self._source.candidates(Y, self._rng)
        ratios = to_numpy(found)
        ends = float(ratios.min()), float(ratios.max())
        distortion = ends[1] - ends[0]
        if distortion < self.best[0]:
            self.best = distortion, self._W.copy()
        self._penalty = _PENALTY * distortion
        progress = min(1.0, self._rounds / max(1, self._n_rounds - 1))
        self._sharpness = _SHARPNESS[0] ** (1.0 - progress) * _SHARPNESS[1] ** progress / max(distortion, _CONVERGED)
        self._active = self._still_active(Y, *ends).joined(_extremes(pairs, ratios), self._source.n_samples)
        self._record(self.name, self._rounds, distortion, len(self._active))
        # The objective does not depend on the scale: centre the log dilations, and keep the largest from overflowing if
        # points coincide in the embedding.
        self._W *= np.exp(-max(0.5 * (ends[1] + ends[0]), ends[1] - _LARGEST_LOG))

    def _still_active(self, Y: Any, lowest: float, highest: float) -> Pairs:
        """The active pairs whose weight is not negligible, with all log dilations in this range."""
        now = self._active.ratios(Y)
        from_end = np.minimum(highest - now, now - lowest)
        return self._active.take(np.flatnonzero(self._sharpness * from_end < _NEGLIGIBLE))

    def _descend(self) -> None:
        """Take a few steps of L-BFGS on the active pairs."""
        function = _Descent(self._features, self._active, self._sharpness, self._penalty, self._weights)
        options = {"maxiter": _STEPS, "maxcor": _MEMORY}
        found = minimize(function, self._W.ravel(), jac=True, method="L-BFGS-B", options=options)
        self._W = found.x.reshape(self._W.shape)


def _extremes(pairs: Pairs, ratios: FloatArray) -> Pairs:
    """The pairs that are contracted or expanded most, in NumPy arrays."""
    if len(ratios) <= 2 * _WORST:
        return pairs.to_numpy()
    ends = [np.argpartition(signed, _WORST)[:_WORST] for signed in (ratios, -ratios)]
    return pairs.take(asarray_like(np.concatenate(ends), pairs.i)).to_numpy()


def smooth_log_L(ratios: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
    """A smooth approximation of the range of log dilations, (p,), and its derivatives, (p,).

    ``lme(b r) / b + lme(-b r) / b`` with lme the logarithm of the mean exponential and b the sharpness.
    """
    value, slope = 0.0, np.zeros_like(ratios)
    for sign, end in ((1.0, ratios.max()), (-1.0, ratios.min())):
        weights = np.exp(sign * sharpness * (ratios - end))
        total = weights.sum()
        value += sign * end + np.log(total / len(ratios)) / sharpness
        slope += sign * weights / total
    return float(value), slope


class Dilations(Protocol):
    """Log dilations of the active pairs as functions of W, with the features in float64."""

    def ratios(self, W: FloatArray) -> FloatArray:
        """``log(|y_i - y_j| / d_ij)`` with ``Y = F W``, shape (p,)."""

    def gradient(self, slope: FloatArray) -> FloatArray:
        """Gradient with respect to W, (m, k), given that with respect to the last ratios, (p,)."""


class _CompiledDilations:
    """Embeds each point of the pairs once, and sums gradients at the points in compiled loops."""

    def __init__(self, features: FloatArray, pairs: Pairs) -> None:
        points, where = np.unique(np.concatenate([pairs.i, pairs.j]), return_inverse=True)
        self._F = np.ascontiguousarray(features[points], dtype=np.float64)
        self._i, self._j = np.ascontiguousarray(where.reshape(2, -1))
        self._log_d = pairs.log_d
        self._ratios, self._inverse = np.empty((2, len(pairs)))

    def ratios(self, W: FloatArray) -> FloatArray:
        from ..compiled.pairs import log_ratios  # noqa: PLC0415

        self._Y = self._F @ W
        log_ratios(self._Y, self._i, self._j, self._log_d, self._ratios, self._inverse)
        return self._ratios

    def gradient(self, slope: FloatArray) -> FloatArray:
        from ..compiled.pairs import pull  # noqa: PLC0415

        forces = np.zeros_like(self._Y)
        pull(self._Y, self._i, self._j, slope * self._inverse, forces)
        gradient: FloatArray = self._F.T @ forces
        return gradient


@singledispatch
def dilations(features: Any, pairs: Pairs) -> Dilations:
    """Log dilations of pairs given in NumPy arrays; backends register their own features."""
    return _CompiledDilations(features, pairs)


class _Descent:
    """The smooth objective of the active pairs and its gradient, as functions of flattened W."""

    def __init__(self, features: Any, pairs: Pairs, sharpness: float, penalty: float, weights: FloatArray) -> None:
        self._dilations = dilations(features, pairs)
        self._sharpness, self._penalty, self._weights = sharpness, penalty, weights[:, None]

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        W = flat.reshape(len(self._weights), -1)
        ratios = self._dilations.ratios(W)
        value, slope = smooth_log_L(ratios, self._sharpness)
        slope -= self._penalty / len(slope)
        gradient = self._dilations.gradient(slope)
        if self._penalty:  # the logarithm of |M| over the mean dilation, which does not depend on the scale either
            size = float((self._weights * np.square(W)).sum())
            value += self._penalty * (0.5 * np.log(size) - float(ratios.mean()))
            gradient += self._penalty / size * (self._weights * W)
        return value, gradient.ravel()
