"""How the sentences of section 5 are decided from the tables, where a comparison of means is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pandas as pd

from heatsketch._utils.typing import FloatArray

from .evidence import (
    HUGE,
    LARGE,
    NOTICEABLE,
    VISIBLE,
    Verdict,
    above,
    below,
    both,
    by_trial,
    gap,
    listed,
    log_L,
    share,
    within,
)

CHARTS = (
    "circle",
    "stretched_torus",
    "klein_bottle",
    "circle_with_outliers",
    "gaussian_clouds",
    "multiscale_torus",
    "multiscale_circle",
)


def alike(table: pd.DataFrame, first: str, second: str, *, visibly: bool = False) -> Verdict:
    """Whether two methods differ by less than one error bar, or 0.1 if that is more, at every k (or p).

    With `visibly`, by less than 0.1 whatever the error bar: their curves cannot be told apart.
    """
    axis, at = _axis(table)
    samples = gap(table, first, second, at, axis)
    bars = (VISIBLE if visibly else max(VISIBLE, float(log_L(table, first, i, axis).std())) for i in at)
    return within(samples, dict(zip(samples, bars, strict=True)))


def _axis(table: pd.DataFrame) -> tuple[str, list[int]]:
    """What a chart runs over, k or p, and its values."""
    axis = "p" if table["p"].nunique() > 1 else "k"
    return axis, sorted(table[axis].unique())


def normalisations(families: Iterable[str]) -> Callable[..., Verdict]:
    """Whether the two normalisations are alike in most settings of some families of methods."""

    def judge(*tables: pd.DataFrame) -> Verdict:
        found: dict[str, list[bool | None]] = {}
        for name, table in zip(CHARTS, tables, strict=True):
            axis, at = _axis(table)
            parts = [table[table[axis] == i] for i in at]
            found[name] = [alike(part, f + "S", f + "B").holds for f in families for part in parts]
        counts = "; ".join(f"{name} {verdicts.count(True)} of {len(verdicts)}" for name, verdicts in found.items())
        verdicts = [holds for some in found.values() for holds in some]
        half = len(verdicts) / 2
        holds = True if verdicts.count(True) > half else False if verdicts.count(False) > half else None
        return Verdict(holds, f"alike in {verdicts.count(True)} of {len(verdicts)} settings ({counts})")

    return judge


def about_three(table: pd.DataFrame) -> Verdict:
    """Whether L lies between 2 and 4 at every k from 4 to 8."""
    values = {f"k = {k}": log_L(table, "GPS", k) for k in range(4, 9)}
    margins = {f"{k} above 2": v - np.log(2.0) for k, v in values.items()}
    margins |= {f"{k} below 4": np.log(4.0) - v for k, v in values.items()}
    L = listed(list(values), (float(np.exp(v.mean())) for v in values.values()))
    return Verdict(above(margins).holds, f"exp of the mean {L}")


def equally(table: pd.DataFrame) -> Verdict:
    """Whether all methods are about equally bad at k = 2."""
    methods = ("DMS", "DMB", "GPS", "GPB")
    values = {m: log_L(table, m, 2) for m in methods}
    average = np.mean(list(values.values()), axis=0)
    margins = {f"{m} above": v - 0.8 * average for m, v in values.items()}
    margins |= {f"{m} below": 1.25 * average - v for m, v in values.items()}
    margins |= {f"{m} struggles": v - HUGE for m, v in values.items()}
    return Verdict(above(margins).holds, "mean log L " + listed(methods, (float(v.mean()) for v in values.values())))


def catching_up(table: pd.DataFrame, last: int) -> Verdict:
    """Whether the lead of Gaussian process embeddings shrinks towards the last k."""
    *early, late = gap(table, "DMS", "GPS", [*range(4, 8), last]).values()
    verdict = above({f"mean of k = 4 to 7, less k = {last}": np.mean(early, axis=0) - late})
    return Verdict(verdict.holds, f"{verdict.measured}; still {late.mean():.2f} at k = {last}")


def more_extreme(torus: pd.DataFrame, klein: pd.DataFrame) -> Verdict:
    """Whether that lead is larger on the Klein bottle than on the torus."""
    means = [np.mean(list(gap(t, "DMS", "GPS", range(3, 13)).values()), axis=0) for t in (torus, klein)]
    n = min(len(m) for m in means)
    verdict = above({"Klein bottle less torus": means[1][:n] - means[0][:n]})
    return Verdict(
        verdict.holds,
        f"gap {means[1].mean():.2f} against {means[0].mean():.2f}; difference {verdict.measured.rpartition(': ')[2]}",
    )


def curves(table: pd.DataFrame) -> Verdict:
    """Whether random curves in the plane cross themselves at times, and whether L is large then."""
    sketches = table[table["method"] == "GPS"]
    crossed = sketches["crossings"].to_numpy() > 0
    often = share(crossed, NOTICEABLE, "crosses itself")
    if not crossed.any():
        return often
    return both(often, above({"log L of those": sketches["log_L"].to_numpy()[crossed]}, LARGE))


def crossing(table: pd.DataFrame, method: str) -> Verdict:
    """Whether the image of the circle crosses itself in a noticeable share of the trials."""
    return share(by_trial(table, "crossings", method=method) > 0, NOTICEABLE, "crosses itself")


def nearly_meets(table: pd.DataFrame) -> Verdict:
    """Whether far points of the circle nearly meet in less than a tenth of the trials at k = 3."""
    near = {k: by_trial(table, "closest", k=k) < 0.05 for k in sorted(table["k"].unique())}
    verdict = share(~near[3], 1.0 - NOTICEABLE, "do not")
    shares = listed([f"k = {k}" for k in near], (float(found.mean()) for found in near.values()), 3)
    return Verdict(verdict.holds, f"share of trials in which far points nearly meet: {shares}")


def concentrated(table: pd.DataFrame) -> Verdict:
    """Whether diffusion maps send the circle near the origin, compared with the outliers."""
    maps = table[table["method"] == "DMS"]
    ratio = (maps["reach_origin"] / maps["outlier_distance"]).to_numpy()
    return below({"circle's reach from the origin / distance of the outliers": ratio}, 0.1)


def wasted(table: pd.DataFrame) -> Verdict:
    """Whether the outliers hold most of either coordinate."""
    names = {"first coordinate": "held_1", "second coordinate": "held_2"}
    return above({name: by_trial(table, column, method="DMS") for name, column in names.items()}, 0.5)


def scales(table: pd.DataFrame) -> Verdict:
    """Whether sketches mostly show the circle at no less than a tenth of the outliers' distance."""
    ratios = {
        method: by_trial(table, "reach", method=method) / by_trial(table, "outlier_distance", method=method)
        for method in ("GPS", "DMS")
    }
    verdict = share(ratios["GPS"] >= 0.1, 0.5, "at least a tenth under GPS")
    typical = listed(list(ratios), (float(np.median(v)) for v in ratios.values()), 4)
    return Verdict(verdict.holds, f"{verdict.measured}; median circle / outliers {typical}")


def _mean_gap(table: pd.DataFrame, worse: str, better: str) -> FloatArray:
    """Mean over k of one method's log L less another's, trial by trial."""
    average: FloatArray = np.mean(list(gap(table, worse, better, sorted(table["k"].unique())).values()), axis=0)
    return average


def signs_cost_little(table: pd.DataFrame) -> Verdict:
    """Whether signs cost less than 10% in L on average over k, with the symmetric kernel."""
    return below({"mean over k of GPSBS - GPS": _mean_gap(table, "GPSBS", "GPS")}, 0.1)


def signs_gain(table: pd.DataFrame) -> Verdict:
    """Whether signs are better than Gaussians on average over k, with the bistochastic kernel."""
    return above({"mean over k of GPB - GPSBB": _mean_gap(table, "GPB", "GPSBB")})


def nearly(table: pd.DataFrame) -> Verdict:
    """Whether sketches do nearly as badly as diffusion maps at low powers."""
    ratios = {f"p = {p}": log_L(table, "GPS", p, "p") - 0.9 * log_L(table, "DMS", p, "p") for p in (2, 4)}
    means = listed(
        [f"{m}, p = {p}" for p in (2, 4) for m in ("GPS", "DMS")],
        (float(log_L(table, m, p, "p").mean()) for p in (2, 4) for m in ("GPS", "DMS")),
    )
    return Verdict(above(ratios).holds, f"mean log L {means}")


def steps(table: pd.DataFrame, powers: Iterable[int]) -> dict[str, FloatArray]:
    """Growth of GPS's log L from each power to the next."""
    return {
        f"from p = {a} to {b}": log_L(table, "GPS", b, "p") - log_L(table, "GPS", a, "p") for a, b in pairwise(powers)
    }
