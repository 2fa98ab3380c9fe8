"""What the automatic choices promise, and whether the tables bear it out."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from ..pages import Tables, Verdict
from .against_grid import AGAINST_GRID
from .coverage import LEVEL
from .held_out import HELD_OUT

__all__ = ["MEASURES", "held_out", "judged", "ratios"]

MEASURES = {
    "exact_central": "diffusion distances, 98% of pairs",
    "exact_log_L": "diffusion distances, all pairs",
    "sketched_central": "32 components, 98% of pairs",
    "sketched_log_L": "32 components, all pairs",
}
_WITHIN, _SHARE = 1.1, 0.8
_FAILURE = 2.0
_EXTRA = 0.5
# Embeddings whose intervals are exact by a law; those of signs are approximations.
_EXACT = ("Gaussian", "4 exact", "time chosen", "witness")
_ERRORS = 3.0


def ratios(tables: Tables, rule: str = "auto") -> pd.DataFrame:
    """Mean distortion by a rule over the mean of the best on the grid: a row for each shape, a column per measure."""
    rows = {}
    for name, experiment in AGAINST_GRID.items():
        if experiment.name in tables:
            means = tables[experiment.name].groupby("rule")[list(MEASURES)].mean()
            rows[name] = means.loc[rule] / means.loc["best on the grid"]
    return pd.DataFrame(rows).T


def held_out(tables: Tables) -> pd.DataFrame:
    """Means by real data set: distortion between halves and labels, of "auto", of defaults, and of the grid's best."""
    rows = {}
    for name, experiment in HELD_OUT.items():
        if experiment.name not in tables:
            continue
        table = tables[experiment.name]
        grid = table[table["rule"] == "grid"].groupby("trial")
        auto, default = (table[table["rule"] == rule] for rule in ("auto", "neighbor, power 8"))
        rows[name] = {
            "best": grid["held_out"].min().mean(),
            "auto": auto["held_out"].mean(),
            "default": default["held_out"].mean(),
            "best labels": grid["labels"].max().mean(),
            "auto labels": auto["labels"].mean(),
            "default labels": default["labels"].mean(),
        }
    return pd.DataFrame(rows).T


def judged(tables: Tables) -> list[Verdict]:
    """All promises that the tables at hand can tell of."""
    found: list[Verdict] = []
    shapes, real = ratios(tables), held_out(tables)
    if len(shapes):
        found += [_within(f"Known geometry, {title}", shapes[measure]) for measure, title in MEASURES.items()]
        found.append(_never_a_failure(tables))
    if len(real):
        found.append(_within("Real data, two halves of the data on unseen points", real["auto"] / real["best"]))
        lost = real["auto labels"] - real["default labels"]
        found.append(
            Verdict(
                "Real data: neighbours have the same label no less often than with the default bandwidth and power.",
                "; ".join(
                    f"{name} {row['auto labels']:.3f} ({row['default labels']:.3f})" for name, row in real.iterrows()
                ),
                bool((lost >= 0).all()),
            )
        )
    if "coverage" in tables:
        found.append(_coverage(tables["coverage"]))
    times = [table for name, table in tables.items() if name.startswith("choice_times_")]
    if times:
        found.append(_times(times))
    return found


def _within(what: str, share: pd.Series) -> Verdict:
    good = share <= _WITHIN
    beyond = ", ".join(f"{name} {value:.2f}" for name, value in share[~good].items())
    return Verdict(
        f"{what}: log distortion within {_WITHIN - 1:.0%} of the best on the grid for four sets in five.",
        f"{good.sum()} of {len(share)}" + (f"; beyond: {beyond}" if beyond else ""),
        bool(good.mean() >= _SHARE),
    )


def _never_a_failure(tables: Tables) -> Verdict:
    worst = []
    for name, experiment in AGAINST_GRID.items():
        if experiment.name in tables:
            table = tables[experiment.name].set_index(["trial", "rule"])["exact_central"].unstack()
            worst.append(((table["auto"] / table["best on the grid"]).max(), name, len(table)))
    most, name, _ = max(worst)
    return Verdict(
        f"Never a failure: in no trial more than {_FAILURE:g} times the best log distortion (98% of pairs).",
        f"{sum(n for *_, n in worst)} trials, at most {most:.2f} ({name})",
        bool(most <= _FAILURE),
    )


def _coverage(table: pd.DataFrame) -> Verdict:
    by_trial = table.groupby(["method", "trial"])["covered"].mean().groupby("method")
    mean, error = by_trial.mean(), by_trial.sem()
    lawful = [method for method in mean.index if method.startswith(_EXACT)]
    off = ((mean - LEVEL) / error)[lawful]
    listed = "; ".join(f"{method} {mean[method]:.3f} ± {error[method]:.3f}" for method in mean.index)
    return Verdict(
        f"Intervals at {LEVEL} that follow from a law hold the distance that often: no mean is more than "
        f"{_ERRORS:g} standard errors below.",
        f"over {table['data'].nunique()} data sets and two kernels: {listed}",
        bool((off >= -_ERRORS).all()),
    )


def _times(tables: Iterable[pd.DataFrame]) -> Verdict:
    rows = []
    for table in tables:
        n = int(str(table["figure"].iloc[0]).rpartition("_")[2])
        for (method, data), part in table.groupby(["method", "data"], sort=False):
            rows.append((float(part["extra"].median()), f"{method}, {data}, {n:,} points"))
    over = [f"{what} {extra:.2f}" for extra, what in sorted(rows, reverse=True) if extra > _EXTRA]
    return Verdict(
        "The automatic choices take at most half of the time of the embedding itself.",
        f"in {len(rows) - len(over)} of {len(rows)} settings" + (f"; more: {'; '.join(over)}" if over else ""),
        not over,
    )
