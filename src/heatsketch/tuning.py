r"""Choosing the bandwidth and the diffusion time from the data.

===========  ===================================================================================================
``"paths"``    the time at which diffusion distances come closest to being proportional to shortest paths over
               neighbouring points; if the bandwidth is "auto" and every pair is used, both are chosen together
``"entropy"``  the time at which all but seven of the modes that decay have decayed, by the von Neumann entropy;
               it asks nothing but the kernel
``"auto"``     "paths" where X holds points or distances, "entropy" for a precomputed affinity
===========  ===================================================================================================

Both look at the kernel through a few random columns (:mod:`heatsketch.krylov`), never at its eigenvectors.
`docs/choosing.md` has the study behind them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ._typing import FloatArray
from .bandwidth import bandwidth_by_rule
from .choice import choose
from .density import density_of
from .heat import HeatKernel, build_heat_kernel
from .inputs import KernelOptions
from .krylov import KrylovSketch, horizon
from .paths import Paths, among, shortest_paths
from .spectrum import deflated

__all__ = ["POWER_RULES", "ChosenPower", "choose_power", "choose_scales", "tuned_kernel"]

POWER_RULES = ("auto", "paths", "entropy")
# Random columns; products to begin with, and at most.
_COLUMNS = 32
_STEPS = (16, 32, 64, 96)
# Times that are tried, whole numbers about sqrt(2) apart.
_TIMES = np.unique(np.round(2.0 ** (np.arange(0, 27) / 2.0)))
# Bandwidths that are tried, from the tenth neighbour's to the median distance's; on how many points, to what accuracy.
_BANDWIDTHS, _SAMPLE, _SAMPLE_TOL = 6, 256, 1e-3
# The longest time tried there, and the share of the largest mode below which another does not matter.
_LONGEST_ON_SAMPLE, _NEGLIGIBLE = 128, 1e-8
# Once the distortion is so much larger than its least, longer times are worse.
_HOPELESS = 1.5
# Share of the affinity that may join different folds: what leaks in a hundred steps is then a tenth of the heat.
_LEAK = 1e-3
# Dimensions left by the rule "entropy" beside those that never decay.
_LEFT = 7.0
# A fall of the dimension that is rounding: all modes decay alike.
_ALIKE = 1e-6


@dataclass(frozen=True)
class ChosenPower:
    """A diffusion time that was chosen, and what it was chosen by.

    Attributes
    ----------
    power : float
    rule : str
        "paths" or "entropy".
    powers, scores : ndarrays of shape (n_powers,)
        Times that were compared, and for each the log distortion against shortest paths, or the effective dimension.
    at_edge : bool
        Whether the best was the shortest or the longest time that was compared: a better one may lie beyond.
    """

    power: float
    rule: str
    powers: FloatArray
    scores: FloatArray
    at_edge: bool


def tuned_kernel(X: Any, options: KernelOptions, rule: str, dtype: Any) -> tuple[HeatKernel, ChosenPower]:
    """The heat kernel of checked input, and its diffusion time by a rule; both together where that is possible.

    Parameters
    ----------
    X : ndarray or csr_array
    options : KernelOptions
    rule : {"auto", "paths", "entropy"}
    dtype : dtype
        In which to compute.

    Returns
    -------
    kernel : HeatKernel
    chosen : ChosenPower
    """
    by_paths = rule != "entropy" and options.affinity != "precomputed"
    paths = shortest_paths(X, options.measure) if by_paths else None
    if paths is not None and options.bandwidth == "auto":
        together = choose_scales(X, options, paths)
        if together is not None:
            epsilon, chosen = together
            kernel = build_heat_kernel(X, replace(options, bandwidth=epsilon), dtype)
            kernel.bandwidth_rule = "paths"
            return kernel, chosen
    kernel = build_heat_kernel(X, options, dtype)
    chosen = choose_power(kernel, paths)
    if chosen.power == 1:
        warnings.warn(
            f"power={rule!r} chose 1, the shortest time there is: with this kernel one step goes as far as is good, or "
            "farther. Use a smaller bandwidth (with bandwidth='auto' both are chosen together), or give the power.",
            UserWarning,
            stacklevel=3,
        )
    return kernel, chosen


def choose_power(kernel: HeatKernel, paths: Paths | None) -> ChosenPower:
    """The diffusion time of a kernel by its paths; by its entropy where there are none.

    Parameters
    ----------
    kernel : HeatKernel
    paths : Paths or None

    Returns
    -------
    chosen : ChosenPower
    """
    if paths is None:
        return _search(kernel, np.arange(1), _by_entropy)
    return _search(kernel, paths.rows, lambda sketch, powers: _by_paths(sketch, powers, paths))


def choose_scales(X: Any, options: KernelOptions, paths: Paths) -> tuple[float, ChosenPower] | None:
    """The bandwidth and the time at which diffusion distances come closest to the paths, judged on a sample.

    A sample is sparser than the data: where it asks for the narrowest bandwidth that it can bear, the data can bear,
    and may want, a narrower one, of which the sample tells nothing. None is returned then, as it is where wide kernels
    would join different folds of the data, or would be cut off by a limited number of neighbours.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d), or (N, N) distances if the metric is "precomputed"
    options : KernelOptions
    paths : Paths

    Returns
    -------
    epsilon : float
    chosen : ChosenPower
    """
    if choose(X.shape, X.dtype, options, sparse.issparse(X)).n_neighbors is not None:
        return None
    metric = options.measure
    few = paths.first(_SAMPLE)
    Z = among(X, few.rows, metric)
    narrow, wide = (bandwidth_by_rule(Z, rule, metric)[0] for rule in ("neighbor", "median"))
    trials = [float(e) for e in np.geomspace(narrow, max(narrow, wide), _BANDWIDTHS) if paths.leak(e) <= _LEAK]
    if len(trials) < 2:
        return None
    on_sample = replace(options, n_neighbors=None, cutoff=None, tol=max(options.tol, _SAMPLE_TOL))
    found = [_on_sample(Z, replace(on_sample, bandwidth=trial), few) for trial in trials]
    best = int(np.argmin([np.inf if one is None else one.scores.min() for one in found]))
    chosen = found[best]
    return (trials[best], chosen) if best and chosen is not None else None


def _on_sample(Z: Any, options: KernelOptions, paths: Paths) -> ChosenPower | None:
    """The best time for the kernel of the sample itself, which is small enough to be diagonalised."""
    try:
        kernel = build_heat_kernel(Z, options)
    except ValueError:  # such a kernel cannot be made of these points (outliers, say), so it is not chosen
        return None
    values, vectors = np.linalg.eigh(deflated(kernel).toarray().astype(np.float64))
    sizes = np.abs(values) / np.abs(values).max()
    scores: list[float] = []
    for t in _TIMES[_TIMES <= _LONGEST_ON_SAMPLE]:
        matter = sizes**t > _NEGLIGIBLE
        scores.append(paths.distortion(kernel.weigh_rows(vectors[:, matter] * sizes[matter] ** t)))
        if scores[-1] > _HOPELESS * min(scores):
            break
    return _chosen("paths", np.array(scores), int(np.argmin(scores)))


def _chosen(rule: str, scores: FloatArray, best: int) -> ChosenPower:
    powers = _TIMES[: len(scores)]
    return ChosenPower(float(powers[best]), rule, powers, scores, best in (0, len(powers) - 1))


# From a sketch and the times that it tells: the scores, and the position of the best.
_Judge = Callable[[KrylovSketch, FloatArray], tuple[str, FloatArray, int]]


def _search(kernel: HeatKernel, rows: Any, judge: _Judge) -> ChosenPower:
    """Compare times, with as many products as it takes for the best to be well within what they tell."""
    sketch = KrylovSketch(kernel, rows, _COLUMNS, _STEPS[0])
    for n_steps in _STEPS:
        sketch.extend(n_steps)
        powers = _TIMES[_TIMES <= horizon(n_steps)]
        rule, scores, best = judge(sketch, powers)
        if powers[best] <= powers[-1] / 2.0 or sketch.n_steps < n_steps:
            break
    return _chosen(rule, scores, best)


def _by_paths(sketch: KrylovSketch, powers: FloatArray, paths: Paths) -> tuple[str, FloatArray, int]:
    scores = np.array([paths.distortion(sketch.features(t)) for t in powers])
    return "paths", scores, int(np.argmin(scores))


def _by_entropy(sketch: KrylovSketch, powers: FloatArray) -> tuple[str, FloatArray, int]:
    """The last time at which seven modes are left above those that never decay, or half if there are fewer."""
    density = density_of(sketch)
    dimensions = density.effective_dimension(powers)
    decaying = np.maximum(dimensions - density.effective_dimension(_TIMES[-1]) - _ALIKE, 0.0)
    enough = np.flatnonzero(decaying > min(_LEFT, decaying[0] / 2.0))
    return "entropy", dimensions, int(enough[-1]) if len(enough) else 0
