r"""Choosing the bandwidth and the diffusion time from the data.

=============  =================================================================================================
``"paths"``    the time at which diffusion distances are closest to proportional to shortest paths over
               neighbouring points; if the bandwidth is "auto" and all pairs are used, both are chosen together
``"entropy"``  the time at which all but seven of the decaying modes have decayed, by the von Neumann entropy;
               needs only the kernel
``"auto"``     "paths" where X holds points or distances, "entropy" for a precomputed affinity
=============  =================================================================================================

Both use a few random columns of the kernel (:mod:`heatsketch.linalg.lanczos`); only the sample of 256 points on which
bandwidths are compared is diagonalised. `docs/choosing.md` has the reasons and the study.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.display import Shown
from .._utils.typing import FloatArray
from ..kernel.bandwidth import bandwidth_by_rule
from ..kernel.build import build_heat_kernel
from ..kernel.operator import HeatKernel
from ..kernel.options import KernelOptions, check_distances
from ..kernel.plan import kept_neighbors
from ..linalg.lanczos import KrylovSketch, horizon
from ..neighbors.paths import Paths, among, shortest_paths
from .density import SpectralDensity

__all__ = [
    "POWER_RULES",
    "TIMES",
    "ChosenPower",
    "Tuning",
    "choose_power",
    "choose_scales",
    "power_by_entropy",
    "tune",
]

POWER_RULES = ("auto", "paths", "entropy")
# Random columns and numbers of Lanczos steps, for up to _SMALL points and for more.
_COLUMNS, _STEPS = (32, 8), ((8, 16, 32, 64, 96), (8, 16, 32, 64))
_SMALL = 1000
# Candidate times, integers about sqrt(2) apart.
TIMES = np.unique(np.round(2.0 ** (np.arange(0, 27) / 2.0)))
# Number of candidate bandwidths, from the rule "neighbor" to the rule "median"; points of the sample, and tolerance.
_BANDWIDTHS, _SAMPLE, _SAMPLE_TOL = 6, 256, 1e-3
# Grid on which the widest bandwidth that does not join folds is searched.
_FINE = 24
# The longest time on the sample; modes below this share of the largest are neglected.
_LONGEST_ON_SAMPLE, _NEGLIGIBLE = 128, 1e-8
# Longer times are not tried once the distortion exceeds its minimum by this factor.
_HOPELESS = 1.5
# The search ends after this many bandwidths in turn that are worse than a wider one.
_WORSE = 2
# Share of the affinity that may join different folds: a tenth of the heat leaks in a hundred steps.
_LEAK = 1e-3
# Decaying modes left by the rule "entropy".
_LEFT = 7.0
# Rounding of the effective dimension.
_ALIKE = 1e-6


@dataclass(frozen=True, repr=False)
class ChosenPower(Shown):
    """A diffusion time that was chosen, and what it was chosen by.

    Attributes
    ----------
    power : float
    rule : str
        "paths" or "entropy".
    powers, scores : ndarrays of shape (n_powers,)
        Times that were compared, and for each the log distortion against shortest paths, or the effective dimension.
    at_edge : bool
        Whether the best was the shortest or the longest time compared; a better one may lie beyond.
    """

    power: float
    rule: str
    powers: FloatArray
    scores: FloatArray
    at_edge: bool

    def __str__(self) -> str:
        first, last = self.powers.min(), self.powers.max()
        place = "" if not self.at_edge else "the shortest " if self.power == first else "the longest "
        return f"{self.power:g} by {self.rule}, {place}of {len(self.powers)} times from {first:.4g} to {last:.4g}"


@dataclass(frozen=True)
class Tuning:
    """Options of a kernel and its diffusion time, as known before the kernel is built.

    `paths` are for the rule "paths"; `chosen` is None unless the time was chosen together with the bandwidth.
    """

    options: KernelOptions
    power: float | str
    paths: Paths | None = None
    chosen: ChosenPower | None = None

    def power_for(self, kernel: HeatKernel) -> tuple[float, ChosenPower | None]:
        """The diffusion time of the kernel, and how it was chosen (None if it was given)."""
        if not isinstance(self.power, str):
            return float(self.power), None
        if self.chosen is not None:
            kernel.bandwidth_rule = "paths"
            return self.chosen.power, self.chosen
        chosen = choose_power(kernel, self.paths)
        if chosen.power == 1:
            warnings.warn(
                f"power={self.power!r} chose 1, the shortest time there is: one step of this kernel may go too far. "
                "Use a smaller bandwidth, or give the power.",
                UserWarning,
                stacklevel=3,
            )
        return chosen.power, chosen


def tune(X: Any, options: KernelOptions, power: float | str) -> Tuning:
    """Choose the bandwidth and the diffusion time as far as possible before the kernel is built."""
    if not isinstance(power, str) or power == "entropy" or options.affinity == "precomputed":
        return Tuning(options, power)
    X = check_distances(X) if options.measure.precomputed else X
    paths = shortest_paths(X, options.measure)
    if paths is not None and options.bandwidth == "auto":
        together = choose_scales(X, options, paths)
        if together is not None:
            epsilon, chosen = together
            return Tuning(replace(options, bandwidth=epsilon), power, paths, chosen)
    return Tuning(options, power, paths)


def choose_power(kernel: HeatKernel, paths: Paths | None) -> ChosenPower:
    """The diffusion time of a kernel by shortest paths, or by its entropy if there are none."""
    rows = np.arange(1) if paths is None else paths.rows
    large = kernel.shape[0] > _SMALL
    sketch = KrylovSketch(kernel, rows, _COLUMNS[large], 0)
    scores: FloatArray = np.empty(0)
    for n_steps in _STEPS[large]:  # until the best time is well within those that the steps resolve
        sketch.extend(n_steps)
        powers = TIMES[TIMES <= horizon(n_steps)]
        if paths is None:
            scores, best = power_by_entropy(SpectralDensity(*sketch.quadrature()), powers)
        else:
            longer = [paths.distortion(sketch.features(t)) for t in powers[len(scores) :]]
            scores = np.append(scores, longer)
            best = int(np.argmin(scores))
        if powers[best] <= powers[-1] / 2.0 or sketch.n_steps < n_steps:
            break
    return _chosen("entropy" if paths is None else "paths", scores, best)


def choose_scales(X: Any, options: KernelOptions, paths: Paths) -> tuple[float, ChosenPower] | None:
    """The bandwidth and the time at which diffusion distances are closest to the paths, on a sample of the points.

    Returns None if the sample prefers the narrowest bandwidth that it supports: the data are denser than the sample,
    and may need a narrower one. Also if wide kernels would join different folds of the data, if the kernel is sparse,
    and if `bandwidth_neighbor` is given.
    """
    if kept_neighbors(X, options) is not None or options.cutoff is not None or options.bandwidth_neighbor is not None:
        return None
    metric = options.measure
    few = paths.first(_SAMPLE)
    Z = among(X, few.rows, metric)
    narrow, wide = (bandwidth_by_rule(Z, rule, metric) for rule in ("neighbor", "median"))
    # From the narrowest that the sample supports to the widest that does not join folds.
    open_ = [e for e in np.geomspace(narrow, max(narrow, wide), _FINE) if paths.leak(e) <= _LEAK]
    if len(open_) < 2:
        return None
    trials = np.geomspace(open_[0], open_[-1], _BANDWIDTHS).tolist()
    on_sample = replace(options, n_neighbors=None, tol=max(options.tol, _SAMPLE_TOL))
    best: tuple[float, ChosenPower] | None = None
    worse = 0
    for trial in reversed(trials):  # the widest first, which often is the best
        chosen = _on_sample(Z, replace(on_sample, bandwidth=trial), few)
        if chosen is not None and (best is None or chosen.scores.min() < best[1].scores.min()):
            best, worse = (trial, chosen), 0
        elif (worse := worse + 1) == _WORSE:
            break
    return None if best is None or best[0] == trials[0] else best


def _on_sample(Z: Any, options: KernelOptions, paths: Paths) -> ChosenPower | None:
    """The best time for the kernel of the sample, which is small enough to be diagonalised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kernel = build_heat_kernel(Z, options)
    except ValueError:  # no such kernel of these points, e.g. because of outliers
        return None
    values, vectors = np.linalg.eigh(kernel.deflated.toarray().astype(np.float64))
    sizes = np.abs(values) / np.abs(values).max()
    scores: list[float] = []
    for t in TIMES[TIMES <= _LONGEST_ON_SAMPLE]:
        matter = sizes**t > _NEGLIGIBLE
        features = kernel.weigh_rows(vectors[:, matter] * sizes[matter] ** t)
        scores.append(paths.distortion(features, exact=True))
        if scores[-1] > _HOPELESS * min(scores):
            break
    return _chosen("paths", np.array(scores), int(np.argmin(scores)))


def _chosen(rule: str, scores: FloatArray, best: int) -> ChosenPower:
    powers = TIMES[: len(scores)]
    return ChosenPower(float(powers[best]), rule, powers, scores, best in (0, len(powers) - 1))


def power_by_entropy(density: SpectralDensity, powers: FloatArray) -> tuple[FloatArray, int]:
    """Effective dimensions at given times, and the index of the time that the rule "entropy" chooses.

    It is the last at which seven decaying modes are left, or half of them if there are fewer.
    """
    dimensions = density.effective_dimension(powers)
    decaying = np.maximum(dimensions - density.effective_dimension(TIMES[-1]) - _ALIKE, 0.0)
    enough = np.flatnonzero(decaying > min(_LEFT, decaying[0] / 2.0))
    return dimensions, int(enough[-1]) if len(enough) else 0
