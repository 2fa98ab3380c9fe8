"""How statements are decided from the tables where a comparison of means is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import stats

from heatsketch._utils.typing import FloatArray

from .cost import ORDERS
from .harness.evidence import (
    ENOUGH,
    HUGE,
    LARGE,
    LEVEL,
    NOTICEABLE,
    VISIBLE,
    Verdict,
    above,
    below,
    both,
    by_trial,
    centred,
    gap,
    listed,
    log_L,
    share,
    slopes,
    uncorrelated,
    with_error,
    within,
)
from .obstacles import APART, COLLAPSED

_WORST_ERRORS = ("circle", "torus", "Klein bottle")

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


def tail(table: pd.DataFrame) -> Verdict:
    """The truncated expansion's error against the sum of the eigenvalues left out."""
    found = {}
    for m in sorted(table.loc[table["quantity"] == "error", "terms"].unique()):
        error, expected = (by_trial(table, "value", quantity=q, terms=m) for q in ("error", "expected"))
        found[f"{m} terms"] = error / expected
    return centred(found, 1.0)


def fit(values: FloatArray, law: str, *parameters: float) -> Verdict:
    """Whether values follow a law (Kolmogorov and Smirnov)."""
    result = stats.kstest(values, law, args=parameters)
    if len(values) < ENOUGH:
        return Verdict(None, f"{len(values)} values are too few")
    measured = f"Kolmogorov-Smirnov distance {result.statistic:.4f} of {len(values)} values, p = {result.pvalue:.2f}"
    return Verdict(bool(result.pvalue > 1.0 - LEVEL), measured, by_default=True)


def coefficients(table: pd.DataFrame) -> Verdict:
    """Whether the coefficients of the expansion are standard normal and uncorrelated."""
    rows = table[table["quantity"] == "coefficient"]
    values = rows.pivot_table(index="trial", columns="terms", values="value").to_numpy()
    return both(fit(values.ravel(), "norm"), uncorrelated(values))


def ratios(column: str, value: float) -> Callable[[pd.DataFrame], Verdict]:
    """Whether a column of the distance law has the given mean, for each sketch and pair."""

    def judge(table: pd.DataFrame) -> Verdict:
        groups = table.groupby(["method", "pair"])
        return centred({f"{m}, pair {i}": rows[column].to_numpy() for (m, i), rows in groups}, value)

    return judge


def chi_square(table: pd.DataFrame) -> Verdict:
    """One pair from each trial, in turn: the pairs of a trial share their random matrix."""
    gaussian = table[table["method"] == "gaussian"]
    turn = gaussian[gaussian["pair"] == gaussian["trial"] % (gaussian["pair"].max() + 1)]
    k = int(turn["k"].iloc[0])
    return fit(k * turn["ratio"].to_numpy(), "chi2", k)


def sketch_variance(table: pd.DataFrame) -> Verdict:
    """Whether squared distances have the variance that their sketch's law predicts."""
    deviation = np.square(table["ratio"] - 1.0) / table["variance"]
    groups = table.assign(deviation=deviation).groupby(["method", "pair"])
    verdict = centred({f"{m}, pair {i}": rows["deviation"].to_numpy() for (m, i), rows in groups}, 1.0)
    signs = table[table["method"] != "gaussian"]
    share = (signs["variance"] * signs["k"] / 2.0).min()
    return Verdict(
        verdict.holds, f"{verdict.measured}; predicted for signs, down to {share:.3f} of Gaussians'", by_default=True
    )


def rate(*tables: pd.DataFrame) -> Verdict:
    """Whether the worst error falls like 1 / sqrt(k)."""
    found = {}
    for name, table in zip(_WORST_ERRORS, tables, strict=True):
        # The theorem is about the mean error: slopes are those of means over ten trials.
        tens = table[table["k"] >= 32].assign(trial=table["trial"] // 10)
        found[name] = slopes(tens.groupby(["trial", "k"], as_index=False)["worst"].mean(), "k", "worst")
    near = within({n: v + 0.5 for n, v in found.items()}, dict.fromkeys(found, 0.05))
    measured = "; ".join(f"{name} {with_error(values, 3)}" for name, values in found.items())
    return Verdict(near.holds, f"slope of log error against log k: {measured}")


def dudley(*tables: pd.DataFrame) -> Verdict:
    """Whether the worst error stays below the bound's shape times a constant."""
    found = {}
    for name, t in zip(_WORST_ERRORS, tables, strict=True):
        bound = t["diameter"] * t["entropy_low"] / np.sqrt(t["k"])
        for k, rows in t.assign(constant=t["worst"] / bound).groupby("k"):
            found[f"{name}, k = {k}"] = rows["constant"].to_numpy()
    constants = [v.mean() for v in found.values()]
    verdict = below(found, 16.0 * np.sqrt(2.0))
    return Verdict(
        verdict.holds,
        f"constant between {min(constants):.2f} and {max(constants):.2f} over three data sets and all k",
    )


def noisy(table: pd.DataFrame) -> Verdict:
    """Whether the mean change of the sketch is |A - B|_F^2, in every setting."""
    groups = table.groupby(["kernel", "noise", "sigma"])
    return centred(
        {f"{k}, {n}, sigma = {s}": (rows["sketched"] / rows["exact"]).to_numpy() for (k, n, s), rows in groups}, 1.0
    )


def variance(formula: str) -> Callable[[pd.DataFrame], Verdict]:
    """Squared deviation over its predicted variance, averaged over the settings of a trial."""

    def judge(table: pd.DataFrame) -> Verdict:
        predicted = 2.0 / table["k"] * (table["fourth"] if formula == "fourth" else table["exact"])
        ratio = np.square(table["sketched"] - table["exact"]) / predicted
        return centred({"observed / predicted variance": ratio.groupby(table["trial"]).mean().to_numpy()}, 1.0)

    return judge


def _change(table: pd.DataFrame, kernel: str, noise: str, sigma: float) -> FloatArray:
    """Relative change |A - B|_F / |A|_F, trial by trial."""
    where = {"kernel": kernel, "noise": noise, "sigma": sigma}
    return np.sqrt(by_trial(table, "exact", **where) / by_trial(table, "norm", **where))


def less_change(better: str, worse: str) -> Callable[[pd.DataFrame], Verdict]:
    """Whether one kernel changes less than another under heteroskedastic noise."""

    def judge(table: pd.DataFrame) -> Verdict:
        noise, sigmas = "heteroskedastic", sorted(table["sigma"].unique())
        changes = {s: (_change(table, worse, noise, s), _change(table, better, noise, s)) for s in sigmas}
        verdict = above({f"sigma = {s}": a - b for s, (a, b) in changes.items()})
        gains = (100.0 * float((1.0 - b / a).mean()) for a, b in changes.values())
        percents = listed([f"sigma = {s}" for s in changes], gains, 1)
        return Verdict(verdict.holds, f"per cent less change: {percents}")

    return judge


def not_injective(table: pd.DataFrame) -> Verdict:
    """Whether diffusion maps send points together for every k up to 2 floor(r)."""
    maps = table[table["method"] == "DMS"]
    collapse = maps[maps["k"] <= 2 * np.floor(maps["r"])]
    largest = float(collapse["separation"].max())
    return Verdict(
        largest < COLLAPSED, f"largest separation for k ≤ 2⌊r⌋: {largest:.1e}, over {maps['r'].nunique()} radii"
    )


def injective(table: pd.DataFrame) -> Verdict:
    """Whether Gaussian process embeddings keep all points apart from k = 5 on."""
    least = table[table["method"] == "GPS"].groupby("k")["separation"].min()
    measured = f"least separation {least[least.index >= 5].min():.1e}; at k = 3 and 4 {least[3]:.1e} and {least[4]:.1e}"
    return Verdict(bool((least[least.index >= 5] > APART).all()), measured)


def _growth(table: pd.DataFrame, method: str, k: int) -> FloatArray:
    """Growth of log L as the sample doubles, fitted over the three largest samples."""
    rows = table[(table["method"] == method) & (table["k"] == k)]
    sizes = sorted(rows["points"].unique())[-3:]
    rows = rows[rows["points"].isin(sizes)]
    return np.array([np.polyfit(np.log2(r["points"]), r["log_L"], 1)[0] for _, r in rows.groupby("trial")])


def refined(table: pd.DataFrame) -> Verdict:
    """Whether L grows faster with the sample where the map is no embedding than where it is one."""
    settings = list(dict.fromkeys(zip(table["method"], table["k"], strict=True)))
    found = {setting: _growth(table, *setting) for setting in settings}
    contrasts = ((("DMB", 6), ("DMB", 8)), (("GPB", 2), ("GPB", 8)), (("GPB", 3), ("GPB", 8)))
    verdict = above({f"{a[0]}, k = {a[1]} less k = {b[1]}": found[a] - found[b] for a, b in contrasts})
    measured = "; ".join(f"{method}, k = {k}: {with_error(growth)}" for (method, k), growth in found.items())
    return Verdict(verdict.holds, f"growth of log L with each doubling: {measured}")


def columns(table: pd.DataFrame) -> Verdict:
    """Whether well-chosen kernel columns are coordinates of a neighbourhood."""
    verdict = below({"best": by_trial(table, "log_L", method="kernel columns, best")}, LARGE)
    means = table.groupby("method", sort=False)["log_L"].mean()
    return Verdict(verdict.holds, "mean log L " + listed(list(means.index), means))


def eigenfunctions(m: int) -> Callable[[pd.DataFrame], Verdict]:
    """Whether the bistochastic kernel estimates the torus's leading eigenfunctions better."""

    def judge(table: pd.DataFrame) -> Verdict:
        errors = {n: by_trial(table, "error", normalization=n, modes=m) for n in ("symmetric", "bistochastic")}
        verdict = above({"symmetric less bistochastic": errors["symmetric"] - errors["bistochastic"]})
        return Verdict(
            verdict.holds, listed(list(errors), (v.mean() for v in errors.values()), 4) + f"; {verdict.measured}"
        )

    return judge


def cost_order(step: str, against: str) -> Callable[[pd.DataFrame], Verdict]:
    """Whether seconds grow no faster than the order derived in section 4.5."""

    def judge(table: pd.DataFrame) -> Verdict:
        rows = table[(table["step"] == step) & (table["against"] == against)]
        # The smallest size is dominated by what does not grow.
        fitted = slopes(rows[rows[against] > rows[against].min()], against, "seconds")
        order = ORDERS[step, against]
        return Verdict(
            below({step: fitted}, order + 0.5).holds,
            f"exponent of {against}: {with_error(fitted)}",
        )

    return judge
