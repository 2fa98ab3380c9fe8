"""How the sentences of section 5 are decided from the tables, where a comparison of means is not enough."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pandas as pd

from ..._typing import FloatArray
from .evidence import Verdict, above, below, both, by_trial, gap, listed, log_L, share, within

CHARTS = ("circle", "stretched_torus", "klein_bottle", "circle_with_outliers", "gaussian_clouds")
LARGE = float(np.log(10.0))  # an L of ten
HUGE = float(np.log(20.0))
NOTICEABLE = 0.1  # share of trials


def means(table: pd.DataFrame, method: str, at: Iterable[int], axis: str = "k") -> str:
    """Mean log L at each k, in words."""
    at = list(at)
    return listed([f"{axis} = {i}" for i in at], (float(log_L(table, method, i, axis).mean()) for i in at))


def alike(table: pd.DataFrame, first: str, second: str, at: Iterable[int]) -> Verdict:
    """Whether two methods differ by less than one error bar, at every k."""
    at = list(at)
    samples = gap(table, first, second, at)
    bars = (float(log_L(table, first, k).std()) for k in at)
    return within(samples, dict(zip(samples, bars, strict=True)))


def normalisations(*tables: pd.DataFrame) -> Verdict:
    """Whether the two normalisations lie within one error bar in most settings."""
    similar, different = 0, []
    for name, table in zip(CHARTS, tables, strict=True):
        for family in ("DM", "GP", "GPSB"):
            ks = sorted(table["k"].unique())
            verdicts = {k: alike(table, family + "S", family + "B", [k]).holds for k in ks}
            similar += sum(holds is True for holds in verdicts.values())
            apart = [str(k) for k, holds in verdicts.items() if holds is False]
            different += [f"{family} on {name} (k = {', '.join(apart)})"] if apart else []
    total = 3 * sum(table["k"].nunique() for table in tables)
    others = "; apart: " + "; ".join(different) if different else ""
    return Verdict(similar > total / 2, f"{similar} of {total} settings{others}")


def about_three(table: pd.DataFrame) -> Verdict:
    """Whether L, on average over k = 4 to 8, is 3 when rounded."""
    ks = range(4, 9)
    average = np.mean([log_L(table, "GPS", k) for k in ks], axis=0)
    verdict = both(above({"mean": average}, float(np.log(2.5))), below({"mean": average}, float(np.log(3.5))))
    return Verdict(verdict.holds, f"exp of the mean {np.exp(average.mean()):.2f}; mean log L {means(table, 'GPS', ks)}")


def equally(table: pd.DataFrame) -> Verdict:
    """Whether all methods are about equally bad at k = 2."""
    methods = ("DMS", "DMB", "GPS", "GPB")
    values = {m: log_L(table, m, 2) for m in methods}
    average = np.mean(list(values.values()), axis=0)
    margins = {f"{m} above": v - 0.8 * average for m, v in values.items()}
    margins |= {f"{m} below": 1.25 * average - v for m, v in values.items()}
    struggle = above({f"{m}, k = 2": v for m, v in values.items()}, HUGE)
    holds = both(above(margins), struggle).holds
    return Verdict(holds, "mean log L " + listed(methods, (float(v.mean()) for v in values.values())))


def catching_up(table: pd.DataFrame) -> Verdict:
    """Whether the lead of Gaussian process embeddings shrinks towards k = 12."""
    gaps = list(gap(table, "DMS", "GPS", [*range(4, 8), 12]).values())
    return above({"mean of k = 4 to 7, less k = 12": np.mean(gaps[:4], axis=0) - gaps[4]})


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
    """Whether sketches show circle and outliers at one scale where diffusion maps do not."""
    logs = {
        method: np.log10(by_trial(table, "reach", method=method) / by_trial(table, "outlier_distance", method=method))
        for method in ("GPS", "DMS")
    }
    verdict = above({"orders of magnitude between GPS and DMS": logs["GPS"] - logs["DMS"]}, 1.0)
    typical = listed(list(logs), (float(10.0 ** np.median(v)) for v in logs.values()), 4)
    return Verdict(verdict.holds, f"circle / outliers, median: {typical}; {verdict.measured}")


def mean_gap(table: pd.DataFrame, worse: str, better: str) -> FloatArray:
    """Mean over k of one method's log L less another's, trial by trial."""
    average: FloatArray = np.mean(list(gap(table, worse, better, sorted(table["k"].unique())).values()), axis=0)
    return average


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
