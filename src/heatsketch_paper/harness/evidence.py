"""Statistics of claims: what trials say about a statement, with which confidence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from heatsketch._utils.typing import FloatArray

__all__ = [
    "ENOUGH",
    "LEVEL",
    "Samples",
    "Verdict",
    "above",
    "below",
    "both",
    "by_trial",
    "centred",
    "gap",
    "listed",
    "log_L",
    "share",
    "slopes",
    "uncorrelated",
    "with_error",
    "within",
]

# Confidence of every verdict; comparisons of one claim share it (Bonferroni).
LEVEL = 0.99

# Values that a test of a law needs.
ENOUGH = 20

# Numbers of independent trials, each list under the setting it belongs to ("k = 3").
Samples = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Verdict:
    """What the trials say.

    Attributes
    ----------
    holds : bool or None
        None if the trials do not decide at the level of confidence.
    measured : str
        The figures.
    by_default : bool
        Whether the statement is one of equality, which tests can refute but never prove.
    """

    holds: bool | None
    measured: str
    by_default: bool = False

    @property
    def word(self) -> str:
        """The verdict as the claims table prints it."""
        if self.holds and self.by_default:
            return "consistent"
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


def log_L(table: pd.DataFrame, method: str, at: int, axis: str = "k") -> FloatArray:
    """Log L of a method at one k (or p), trial by trial."""
    return by_trial(table, "log_L", method=method, **{axis: at})


def gap(table: pd.DataFrame, worse: str, better: str, at: Iterable[int], axis: str = "k") -> dict[str, FloatArray]:
    """Log L of one method less that of another on the same points, for each k (or p)."""
    name = f"{worse} - {better}, {axis} = "
    return {f"{name}{i}": log_L(table, worse, i, axis) - log_L(table, better, i, axis) for i in at}


def above(samples: Samples, bound: float = 0.0) -> Verdict:
    """Whether every mean exceeds a bound.

    Holds if all one-sided confidence bounds do; does not hold if one mean lies below the bound with confidence.
    """
    return _one_sided(samples, bound, 1.0)


def below(samples: Samples, bound: float) -> Verdict:
    """Whether every mean stays below a bound."""
    return _one_sided(samples, bound, -1.0)


def within(samples: Samples, margins: Mapping[str, float]) -> Verdict:
    """Whether every mean differs from zero by less than its margin: two one-sided tests for each (equivalence)."""
    signed = {}
    for label, values in samples.items():
        signed[f"{label} below"] = margins[label] - values
        signed[f"{label} above"] = margins[label] + values
    verdict = above(signed)
    worst = max(samples, key=lambda label: abs(float(np.mean(samples[label]))) - margins[label])
    mean, half = _mean_and_half(samples[worst], 2.0 * (1.0 - LEVEL) / len(signed))
    return Verdict(
        verdict.holds, f"largest against its margin: {worst}: {mean:+.3f} ± {half:.3f}, margin {margins[worst]:.3f}"
    )


def centred(samples: Samples, value: float) -> Verdict:
    """Whether no mean differs from a value: does not hold if one does, with confidence.

    A test can only fail to find a difference, so the verdict is "consistent" at best, and `measured` says how small a
    difference it would have found.
    """
    alpha = (1.0 - LEVEL) / len(samples)
    found = {label: _mean_and_half(values, alpha) for label, values in samples.items()}
    worst = max(found, key=lambda label: abs(found[label][0] - value) / max(found[label][1], 1e-300))
    mean, half = found[worst]
    holds = bool(abs(mean - value) <= half) if _decidable(samples) else None
    which = f"furthest from {value:g} of {len(samples)}: {worst}" if len(samples) > 1 else worst
    return Verdict(holds, f"{which}: {mean:.3f} ± {half:.3f}", by_default=True)


def uncorrelated(values: FloatArray) -> Verdict:
    """Whether no two columns are correlated, by Fisher's transform of their correlations."""
    n, k = values.shape
    if n < ENOUGH:
        return Verdict(None, f"{n} trials are too few for correlations")
    correlations: FloatArray = np.asarray(np.corrcoef(values, rowvar=False))[np.triu_indices(k, 1)]
    bound = np.tanh(stats.norm.ppf(1.0 - (1.0 - LEVEL) / (2.0 * len(correlations))) / np.sqrt(n - 3))
    largest = float(np.abs(correlations).max())
    measured = f"largest of {len(correlations)} correlations {largest:.2f}, bound {bound:.2f}"
    return Verdict(bool(largest <= bound), measured, by_default=True)


def share(found: NDArray[np.bool_], bound: float, what: str) -> Verdict:
    """Whether a property's probability exceeds a bound, by the exact binomial interval (Clopper and Pearson)."""
    n, k = len(found), int(np.sum(found))
    interval = stats.binomtest(k, n).proportion_ci(2.0 * LEVEL - 1.0, method="exact")
    holds = True if interval.low > bound else False if interval.high < bound else None
    return Verdict(holds, f"{what} in {k} of {n} trials")


def both(*verdicts: Verdict) -> Verdict:
    """All of several verdicts."""
    states = [v.holds for v in verdicts]
    holds = False if False in states else None if None in states else True
    return Verdict(holds, "; ".join(v.measured for v in verdicts), any(v.by_default for v in verdicts))


def slopes(table: pd.DataFrame, x: str, y: str) -> FloatArray:
    """Slope of log y against log x, fitted in each trial."""
    fits = [
        np.polyfit(np.log(rows[x].to_numpy(float)), np.log(rows[y].to_numpy(float)), 1)[0]
        for _, rows in table.groupby("trial")
    ]
    return np.array(fits)


def by_trial(table: pd.DataFrame, value: str, **where: Hashable) -> FloatArray:
    """A column where others have given values, in the order of the trials."""
    for column, wanted in where.items():
        table = table[table[column] == wanted]
    if table.empty:
        raise ValueError(f"the table has no rows with {', '.join(f'{k} = {v}' for k, v in where.items())}.")
    values: FloatArray = table.sort_values("trial")[value].to_numpy(dtype=np.float64)
    return values


def with_error(values: FloatArray, digits: int = 2) -> str:
    """A mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return f"{np.mean(values):+.{digits}f} ± {error:.{digits}f} (s.e.)"


def listed(labels: Sequence[Any], values: Iterable[float], digits: int = 2) -> str:
    """Means as the claims table lists them."""
    return ", ".join(f"{label}: {value:.{digits}f}" for label, value in zip(labels, values, strict=True))


def _one_sided(samples: Samples, bound: float, sign: float) -> Verdict:
    alpha = (1.0 - LEVEL) / len(samples)
    slack = {label: sign * (values - bound) for label, values in samples.items()}
    found = {label: _mean_and_half(values, 2.0 * alpha) for label, values in slack.items()}
    holds: bool | None = None
    # Report the comparison that decides: the one that fails most clearly, or is nearest to failing.
    decisive = min(found, key=lambda label: found[label][0] - found[label][1])
    if _decidable(samples):
        least = min(found, key=lambda label: found[label][0] + found[label][1])
        if sum(found[least]) < 0:
            holds, decisive = False, least
        elif found[decisive][0] > found[decisive][1]:
            holds = True
    mean, half = found[decisive]
    beyond = f", bound {bound:.3g}" if bound else ""
    which = decisive
    if len(samples) > 1:
        which = f"{'clearest failure' if holds is False else 'nearest to failing'} of {len(samples)}: {decisive}"
    return Verdict(holds, f"{which}: {bound + sign * mean:.3f} ± {half:.3f}{beyond}")


def _mean_and_half(values: FloatArray, alpha: float) -> tuple[float, float]:
    """Mean, and half the width of its t interval of level 1 - alpha; infinite where there is none."""
    n = len(values)
    if n < 2 or not np.isfinite(values).all():
        return (float(np.mean(values)) if n else np.nan), np.inf
    error = float(np.std(values, ddof=1)) / np.sqrt(n)
    return float(np.mean(values)), float(stats.t.ppf(1.0 - alpha / 2.0, n - 1)) * error


def _decidable(samples: Samples) -> bool:
    """Whether there are at least two finite values of each."""
    return all(len(values) >= 2 and np.isfinite(values).all() for values in samples.values())
