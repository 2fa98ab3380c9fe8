"""The projection of a wide sketch that distorts distances least.

An embedding is ``Y = F W`` with F the wide sketch and W, of shape (m, k), to be found. The objective is not smooth (the
worst pairs decide) and not convex (k is smaller than m), so it is met by smoothing and by several starts:

- a smooth stand-in takes its place whose sharpness grows from round to round, in units of the distortion reached;
- in each round the pairs that are distorted most are added to those in play, and L-BFGS takes a few steps on them;
- all starts do the opening rounds, the best of them goes on, and the best embedding measured in any round is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from .._utils.array import array_namespace, asarray_like, to_numpy
from .._utils.progress import task
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from .objectives import Objective
from .pairs import Pairs, PairSource

__all__ = ["Found", "Plan", "Play", "Round", "Start", "optimize", "play"]

# Sharpness in units of one over the distortion reached, in the first and last round. Pairs whose weight is smaller than
# e^-25 of the largest are out of play.
_SHARPNESS = 8.0, 512.0
_NEGLIGIBLE = 25.0
# Pairs taken into play in each round from either end, those drawn at random, and how many of the rounds are opening.
_WORST, _DRAWN = 2000, 4000
_MEASURED = 100_000  # random pairs by which a mean square is measured
_OPENING = 2 / 7
# Steps of L-BFGS in each round, corrections that it remembers, and a distortion that is none.
_STEPS, _MEMORY = 15, 10
_NONE = 1e-9
# The largest log dilation whose square is a number, with room for the steps of a round.
_LARGEST_LOG = 300.0

Smooth = Callable[[FloatArray], tuple[float, FloatArray]]


class Round(NamedTuple):
    """What a round of the optimisation came to.

    Attributes
    ----------
    start : str
        Name of the start.
    number : int
        Counted from 0, which is the start itself.
    distortion : float
        The objective, measured: log L, or the root mean square of log dilations.
    n_pairs : int
        Pairs in play.
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
    """The best projection.

    Attributes
    ----------
    W : ndarray of shape (m, k)
        Turned to the principal axes of the embedding and scaled so that the median pair has its distance.
    start : str
        Where it comes from.
    history : list of Round
    """

    W: FloatArray
    start: str
    history: list[Round]


@dataclass(frozen=True)
class Plan:
    """How to optimise.

    Attributes
    ----------
    objective : type of Objective
    n_rounds : int
    regularization : float
        Weight, in units of the distortion reached, of the logarithm of ``|M|`` over the mean dilation: how much larger
        M is than the embedding that it makes. Where it is much larger, large terms cancel on the points that are seen,
        and not on others.
    """

    objective: type[Objective]
    n_rounds: int = 14
    regularization: float = 0.1


def optimize(
    features: Any,
    source: PairSource,
    starts: Sequence[Start],
    plan: Plan,
    seed: int,
    *,
    weights: FloatArray | None = None,
) -> Found:
    """The best projection found, and what was measured on the way.

    Parameters
    ----------
    features : array of shape (N, m)
        Embeddings are made and measured where it is; what is random, and the steps, are NumPy's.
    source : PairSource
        Of the same points and kind of array.
    starts : sequence of Start
    plan : Plan
    seed : int
        Of the pairs that are drawn.
    weights : ndarray of shape (m,), optional
        Of the rows of W in the penalty: squared norms of the columns that the features are made from; 1 by default.

    Returns
    -------
    found : Found
    """
    opening = max(1, round(_OPENING * plan.n_rounds))
    total = opening * (len(starts) - 1) + plan.n_rounds
    with quiet_blas(), task("optimising the sketch") as advance:  # one thread: the same steps with any number
        clock = _Clock(lambda done: advance(done, total))
        draws = np.random.default_rng(seed).spawn(len(starts))
        weights = np.ones(features.shape[1]) if weights is None else weights
        searches = [
            _Search(features, source, start, rng, plan=plan, weights=weights)
            for start, rng in zip(starts, draws, strict=True)
        ]
        for search in searches:
            search.open(opening, clock)
        best = min(searches, key=lambda search: search.best[0])
        best.run(plan.n_rounds - opening, clock)
        W = _oriented(features, best.best[1], source.sample(_DRAWN, np.random.default_rng(seed)))
    return Found(W, best.name, clock.history)


def _oriented(features: Any, W: FloatArray, pairs: Pairs) -> FloatArray:
    """W turned to the principal axes of its embedding and scaled so that the median pair has its distance."""
    Y = to_numpy(_embedded(features, W))
    scale = np.exp(-np.median(pairs.ratios(Y)))
    centred = Y - Y.mean(axis=0)
    axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1][:, ::-1]
    turned = centred @ axes
    # The entry largest in size is positive, so that no axis is turned round by rounding.
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(len(axes))]
    oriented: FloatArray = scale * (W @ (axes * np.where(largest < 0, -1.0, 1.0)))
    return oriented


def _embedded(features: Any, W: FloatArray) -> Any:
    """``F W`` in the dtype of the features."""
    return features @ array_namespace(features).astype(asarray_like(W, features), features.dtype)


class _Clock:
    """Keeps the history and reports progress."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.history: list[Round] = []
        self._advance, self._start = advance, perf_counter()

    def record(self, start: str, number: int, distortion: float, n_pairs: int) -> None:
        self.history.append(Round(start, number, distortion, n_pairs, perf_counter() - self._start))
        self._advance(sum(1 for done in self.history if done.number))


class _Search:
    """One start and what has become of it."""

    def __init__(
        self,
        features: Any,
        source: PairSource,
        start: Start,
        rng: np.random.Generator,
        *,
        plan: Plan,
        weights: FloatArray,
    ) -> None:
        self._features, self._source, self._weights, self._plan, self._rng = features, source, weights, plan, rng
        self.name, self._W = start.name, np.array(start.W, dtype=np.float64)
        self._in_play = source.sample(_DRAWN, rng)
        self._sharpness, self._penalty, self._rounds = 0.0, 0.0, -1
        self.best: tuple[float, FloatArray] = (np.inf, self._W)

    def open(self, n_rounds: int, clock: _Clock) -> None:
        """Measure the start and do the opening rounds."""
        self._look(clock)
        self.run(n_rounds, clock)

    def run(self, n_rounds: int, clock: _Clock) -> None:
        """Do so many rounds, or fewer where nothing is left to improve."""
        for _ in range(n_rounds):
            if self.best[0] <= _NONE or not np.isfinite(self._W).all():
                return
            self._descend()
            self._look(clock)

    def _look(self, clock: _Clock) -> None:
        """Measure the embedding, keep it if it is the best, and choose the pairs of the next round."""
        self._rounds += 1
        objective = self._plan.objective
        Y = _embedded(self._features, self._W)
        pairs, ratios = self._judged(Y)
        ratios = to_numpy(ratios)
        distortion = objective.measure(ratios)
        ends = float(ratios.min()), float(ratios.max())
        if distortion < self.best[0]:
            self.best = distortion, self._W.copy()
        self._penalty = self._plan.regularization * distortion
        way = min(1.0, self._rounds / max(1, self._plan.n_rounds - 1))
        self._sharpness = _SHARPNESS[0] ** (1.0 - way) * _SHARPNESS[1] ** way / max(distortion, _NONE)
        if objective.extreme:
            self._in_play = self._weighty(Y, *ends).joined(_extremes(pairs, ratios), self._source.n_samples)
        else:
            self._in_play = self._source.sample(_DRAWN, self._rng)
        clock.record(self.name, self._rounds, distortion, len(self._in_play))
        # All is free of scale; in the middle of the dilations numbers are neither large nor small. Where points
        # coincide in the embedding the smallest has no end: then the largest is kept from overflowing.
        self._W *= np.exp(-max(0.5 * (ends[1] + ends[0]), ends[1] - _LARGEST_LOG))

    def _judged(self, Y: Any) -> tuple[Pairs, Any]:
        """The pairs that tell how good an embedding is, and their log dilations."""
        if self._plan.objective.extreme:
            return self._source.candidates(Y, self._rng)
        # The same pairs for all, so that embeddings can be compared.
        pairs = self._source.sample(_MEASURED, np.random.default_rng(_MEASURED))
        return pairs, pairs.ratios(Y)

    def _weighty(self, Y: Any, lowest: float, highest: float) -> Pairs:
        """The pairs in play that will have some weight, with log dilations in this range."""
        now = self._in_play.ratios(Y)
        from_end = np.minimum(highest - now, now - lowest)
        return self._in_play.take(np.flatnonzero(self._sharpness * from_end < _NEGLIGIBLE))

    def _smooth(self, ratios: FloatArray) -> tuple[float, FloatArray]:
        return self._plan.objective.smooth(ratios, self._sharpness)

    def _descend(self) -> None:
        """Take a few steps of L-BFGS on the pairs in play."""
        function = _Descent(self._features, self._in_play, self._smooth, self._penalty, self._weights)
        options = {"maxiter": _STEPS, "maxcor": _MEMORY}
        found = minimize(function, self._W.ravel(), jac=True, method="L-BFGS-B", options=options)
        self._W = found.x.reshape(self._W.shape)


def _extremes(pairs: Pairs, ratios: FloatArray) -> Pairs:
    """The pairs that are contracted and expanded most, in NumPy arrays."""
    if len(ratios) <= 2 * _WORST:
        return pairs.to_numpy()
    ends = [np.argpartition(signed, _WORST)[:_WORST] for signed in (ratios, -ratios)]
    return pairs.take(asarray_like(np.concatenate(ends), pairs.i)).to_numpy()


class Play(Protocol):
    """Log dilations of the pairs in play as functions of W, with the features in float64."""

    def ratios(self, W: FloatArray) -> FloatArray:
        """``log(|y_i - y_j| / d_ij)`` with ``Y = F W``, shape (p,)."""

    def gradient(self, slope: FloatArray) -> FloatArray:
        """Gradient by W, (m, k), of a function of the last ratios whose derivatives by these are given, (p,)."""


class _PlayOnCPU:
    """The points of the pairs are embedded once each, and forces gathered at them, by compiled loops."""

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
        # The slope of log |y_i - y_j| is its inverse square.
        pull(self._Y, self._i, self._j, slope * self._inverse, forces)
        gradient: FloatArray = self._F.T @ forces
        return gradient


@singledispatch
def play(features: Any, pairs: Pairs) -> Play:
    """The pairs in play, given in NumPy arrays; backends register their own features."""
    return _PlayOnCPU(features, pairs)


class _Descent:
    """The smooth objective over the pairs in play and its gradient, as functions of W, flat."""

    def __init__(self, features: Any, pairs: Pairs, smooth: Smooth, penalty: float, weights: FloatArray) -> None:
        self._play = play(features, pairs)
        self._smooth, self._penalty, self._weights = smooth, penalty, weights[:, None]

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        W = flat.reshape(len(self._weights), -1)
        ratios = self._play.ratios(W)
        value, slope = self._smooth(ratios)
        slope -= self._penalty / len(slope)
        gradient = self._play.gradient(slope)
        if self._penalty:  # log of the size of M over the mean dilation: no more dependent on scale than the rest
            size = float((self._weights * np.square(W)).sum())
            value += self._penalty * (0.5 * np.log(size) - float(ratios.mean()))
            gradient += self._penalty / size * (self._weights * W)
        return value, gradient.ravel()
