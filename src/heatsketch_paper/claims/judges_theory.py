"""How the theory's statements are decided from the tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from heatsketch._utils.typing import FloatArray

from ..cost import ORDERS
from ..obstacles import APART, COLLAPSED
from .evidence import (
    ENOUGH,
    LARGE,
    LEVEL,
    Verdict,
    above,
    below,
    both,
    by_trial,
    centred,
    listed,
    slopes,
    uncorrelated,
    with_error,
    within,
)

_WORST_ERRORS = ("circle", "torus", "Klein bottle")


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
