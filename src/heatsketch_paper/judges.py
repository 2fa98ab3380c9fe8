"""How each claim is decided from its tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from pandas import DataFrame
from scipy import stats

from heatsketch._utils.typing import FloatArray

from .cost import ORDERS
from .harness.evidence import (
    ENOUGH,
    LEVEL,
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

__all__ = ["JUDGES"]

Judge = Callable[..., Verdict]

# Bounds that several claims share: an L of ten and of twenty; a share of trials or pairs; a difference in log L below
# which curves look the same in the charts.
_LARGE, _HUGE = float(np.log(10.0)), float(np.log(20.0))
_NOTICEABLE = 0.1
_VISIBLE = 0.1


def _axis(table: DataFrame) -> tuple[str, list[int]]:
    """What a chart runs over, k or p, and its values."""
    axis = "p" if table["p"].nunique() > 1 else "k"
    return axis, sorted(table[axis].unique())


def _alike(table: DataFrame, first: str, second: str, *, visibly: bool = False) -> Verdict:
    """Whether two methods differ by less than one error bar, or 0.1 if that is more, at every k (or p).

    With `visibly`, by less than 0.1 whatever the error bar: their curves look the same.
    """
    axis, at = _axis(table)
    samples = gap(table, first, second, at, axis)
    bars = (_VISIBLE if visibly else max(_VISIBLE, float(log_L(table, first, i, axis).std())) for i in at)
    return within(samples, dict(zip(samples, bars, strict=True)))


def _normalisations(*tables: DataFrame, families: tuple[str, ...]) -> Verdict:
    """Whether the two normalisations are alike in most settings of some families of methods."""
    found: dict[str, list[bool | None]] = {}
    for table in tables:
        axis, at = _axis(table)
        parts = [table[table[axis] == i] for i in at]
        found[table["figure"].iloc[0]] = [_alike(part, f + "S", f + "B").holds for f in families for part in parts]
    counts = "; ".join(f"{name} {verdicts.count(True)} of {len(verdicts)}" for name, verdicts in found.items())
    verdicts = [holds for some in found.values() for holds in some]
    half = len(verdicts) / 2
    holds = True if verdicts.count(True) > half else False if verdicts.count(False) > half else None
    return Verdict(holds, f"alike in {verdicts.count(True)} of {len(verdicts)} settings ({counts})")


def _far_points_on_crossed_curves(table: DataFrame) -> Verdict:
    crossed = table[(table["method"] == "GPS") & (table["crossings"] > 0)]
    return above({"GPS": crossed["contracted"].to_numpy()}, _NOTICEABLE)


def _far_points(table: DataFrame, ks: range) -> Verdict:
    return above({f"k = {k}": by_trial(table, "contracted", method="DMS", k=k) for k in ks}, _NOTICEABLE)


def _curves(table: DataFrame) -> Verdict:
    sketches = table[table["method"] == "GPS"]
    crossed = sketches["crossings"].to_numpy() > 0
    often = share(crossed, _NOTICEABLE, "crosses itself")
    if not crossed.any():
        return often
    return both(often, above({"log L of those": sketches["log_L"].to_numpy()[crossed]}, _LARGE))


def _about_three(table: DataFrame) -> Verdict:
    values = {f"k = {k}": log_L(table, "GPS", k) for k in range(4, 9)}
    margins = {f"{k} above 2": v - np.log(2.0) for k, v in values.items()}
    margins |= {f"{k} below 4": np.log(4.0) - v for k, v in values.items()}
    L = listed(list(values), (float(np.exp(v.mean())) for v in values.values()))
    return Verdict(above(margins).holds, f"exp of the mean {L}")


def _equally(table: DataFrame) -> Verdict:
    values = {m: log_L(table, m, 2) for m in ("DMS", "DMB", "GPS", "GPB")}
    average = np.mean(list(values.values()), axis=0)
    margins = {f"{m} above": v - 0.8 * average for m, v in values.items()}
    margins |= {f"{m} below": 1.25 * average - v for m, v in values.items()}
    margins |= {f"{m} struggles": v - _HUGE for m, v in values.items()}
    means = listed(list(values), (float(v.mean()) for v in values.values()))
    return Verdict(above(margins).holds, f"mean log L {means}")


def _stronger_than_in_the_plane(table: DataFrame) -> Verdict:
    lead = {k: log_L(table, "DMS", k) - log_L(table, "GPS", k) for k in range(2, 6)}
    return above({f"k = {k}": lead[k] - lead[2] for k in (3, 4, 5)})


def _catching_up(table: DataFrame, last: int) -> Verdict:
    """Whether the lead of Gaussian process embeddings shrinks towards the last k."""
    *early, late = gap(table, "DMS", "GPS", [*range(4, 8), last]).values()
    verdict = above({f"mean of k = 4 to 7, less k = {last}": np.mean(early, axis=0) - late})
    return Verdict(verdict.holds, f"{verdict.measured}; still {late.mean():.2f} at k = {last}")


def _more_extreme(torus: DataFrame, klein: DataFrame) -> Verdict:
    means = [np.mean(list(gap(t, "DMS", "GPS", range(3, 13)).values()), axis=0) for t in (torus, klein)]
    n = min(len(m) for m in means)
    verdict = above({"Klein bottle less torus": means[1][:n] - means[0][:n]})
    difference = verdict.measured.rpartition(": ")[2]
    return Verdict(verdict.holds, f"gap {means[1].mean():.2f} against {means[0].mean():.2f}; difference {difference}")


def _concentrated(table: DataFrame) -> Verdict:
    ratio = by_trial(table, "reach_origin", method="DMS") / by_trial(table, "outlier_distance", method="DMS")
    return below({"circle's reach from the origin / distance of the outliers": ratio}, 0.1)


def _crossing(table: DataFrame, method: str) -> Verdict:
    return share(by_trial(table, "crossings", method=method) > 0, _NOTICEABLE, "crosses itself")


def _relative_reach(table: DataFrame, method: str) -> FloatArray:
    """Reach of the circle's image over the least distance of an outlier, trial by trial."""
    return by_trial(table, "reach", method=method) / by_trial(table, "outlier_distance", method=method)


def _held_by_outliers(table: DataFrame) -> Verdict:
    names = {"first coordinate": "held_1", "second coordinate": "held_2"}
    return above({name: by_trial(table, column, method="DMS") for name, column in names.items()}, 0.5)


def _nearly_meets(table: DataFrame) -> Verdict:
    near = {k: by_trial(table, "closest", k=k) < 0.05 for k in sorted(table["k"].unique())}
    verdict = share(~near[3], 1.0 - _NOTICEABLE, "do not")
    shares = listed([f"k = {k}" for k in near], (float(found.mean()) for found in near.values()), 3)
    return Verdict(verdict.holds, f"share of trials in which far points nearly meet: {shares}")


def _scales(table: DataFrame) -> Verdict:
    ratios = {method: _relative_reach(table, method) for method in ("GPS", "DMS")}
    verdict = share(ratios["GPS"] >= 0.1, 0.5, "at least a tenth under GPS")
    typical = listed(list(ratios), (float(np.median(v)) for v in ratios.values()), 4)
    return Verdict(verdict.holds, f"{verdict.measured}; median circle / outliers {typical}")


def _mean_gap(table: DataFrame, worse: str, better: str) -> dict[str, FloatArray]:
    """Mean over k of one method's log L less another's, trial by trial."""
    gaps = gap(table, worse, better, sorted(table["k"].unique()))
    return {f"mean over k of {worse} - {better}": np.mean(list(gaps.values()), axis=0)}


def _signs_cost_little(table: DataFrame) -> Verdict:
    return below(_mean_gap(table, "GPSBS", "GPS"), 0.1)


def _signs_gain(table: DataFrame) -> Verdict:
    return above(_mean_gap(table, "GPB", "GPSBB"))


def _nearly(table: DataFrame) -> Verdict:
    ratios = {f"p = {p}": log_L(table, "GPS", p, "p") - 0.9 * log_L(table, "DMS", p, "p") for p in (2, 4)}
    means = {f"{m}, p = {p}": float(log_L(table, m, p, "p").mean()) for p in (2, 4) for m in ("GPS", "DMS")}
    return Verdict(above(ratios).holds, f"mean log L {listed(list(means), means.values())}")


def _worsens(table: DataFrame) -> Verdict:
    values = {p: log_L(table, "GPS", p, "p") for p in (32, 64, 128, 256, 512, 1024)}
    return above({f"from p = {a} to {b}": values[b] - values[a] for a, b in pairwise(values)})


def _best_in_the_middle(table: DataFrame) -> Verdict:
    middle = log_L(table, "GPS", 16, "p")
    return above({f"p = {p} less p = 16": log_L(table, "GPS", p, "p") - middle for p in (2, 256)})


def _truncation(table: DataFrame) -> Verdict:
    found = {}
    for m in sorted(table.loc[table["quantity"] == "error", "terms"].unique()):
        error, expected = (by_trial(table, "value", quantity=q, terms=m) for q in ("error", "expected"))
        found[f"{m} terms"] = error / expected
    return centred(found, 1.0)


def _fit(values: FloatArray, law: str, *parameters: float) -> Verdict:
    """Whether values follow a law (Kolmogorov and Smirnov)."""
    if len(values) < ENOUGH:
        return Verdict(None, f"{len(values)} values are too few")
    result = stats.kstest(values, law, args=parameters)
    measured = f"Kolmogorov-Smirnov distance {result.statistic:.4f} of {len(values)} values, p = {result.pvalue:.2f}"
    return Verdict(bool(result.pvalue > 1.0 - LEVEL), measured, by_default=True)


def _coefficients(table: DataFrame) -> Verdict:
    rows = table[table["quantity"] == "coefficient"]
    values = rows.pivot_table(index="trial", columns="terms", values="value").to_numpy()
    return both(_fit(values.ravel(), "norm"), uncorrelated(values))


def _mean_by_pair(table: DataFrame, column: str, value: float) -> Verdict:
    """Whether a column of the distance law has the given mean, for each sketch and pair."""
    groups = table.groupby(["method", "pair"])
    return centred({f"{m}, pair {i}": rows[column].to_numpy() for (m, i), rows in groups}, value)


def _chi_square(table: DataFrame) -> Verdict:
    # One pair from each trial, in turn: the pairs of a trial share their random matrix.
    gaussian = table[table["method"] == "gaussian"]
    turn = gaussian[gaussian["pair"] == gaussian["trial"] % (gaussian["pair"].max() + 1)]
    k = int(turn["k"].iloc[0])
    return _fit(k * turn["ratio"].to_numpy(), "chi2", k)


def _sketch_variance(table: DataFrame) -> Verdict:
    deviation = np.square(table["ratio"] - 1.0) / table["variance"]
    verdict = _mean_by_pair(table.assign(deviation=deviation), "deviation", 1.0)
    signs = table[table["method"] != "gaussian"]
    least = (signs["variance"] * signs["k"] / 2.0).min()
    measured = f"{verdict.measured}; predicted for signs, down to {least:.3f} of Gaussians'"
    return Verdict(verdict.holds, measured, by_default=True)


_WORST_ERRORS = ("circle", "torus", "Klein bottle")


def _rate(*tables: DataFrame) -> Verdict:
    found = {}
    for name, table in zip(_WORST_ERRORS, tables, strict=True):
        # The theorem is about the mean error: slopes are those of means over ten trials.
        tens = table[table["k"] >= 32].assign(trial=table["trial"] // 10)
        found[name] = slopes(tens.groupby(["trial", "k"], as_index=False)["worst"].mean(), "k", "worst")
    near = within({n: v + 0.5 for n, v in found.items()}, dict.fromkeys(found, 0.05))
    measured = "; ".join(f"{name} {with_error(values, 3)}" for name, values in found.items())
    return Verdict(near.holds, f"slope of log error against log k: {measured}")


def _dudley(*tables: DataFrame) -> Verdict:
    found = {}
    for name, t in zip(_WORST_ERRORS, tables, strict=True):
        bound = t["diameter"] * t["entropy_low"] / np.sqrt(t["k"])
        for k, rows in t.assign(constant=t["worst"] / bound).groupby("k"):
            found[f"{name}, k = {k}"] = rows["constant"].to_numpy()
    constants = [v.mean() for v in found.values()]
    measured = f"constant between {min(constants):.2f} and {max(constants):.2f} over three data sets and all k"
    return Verdict(below(found, 16.0 * np.sqrt(2.0)).holds, measured)


def _mean_change(table: DataFrame) -> Verdict:
    groups = table.assign(ratio=table["sketched"] / table["exact"]).groupby(["kernel", "noise", "sigma"])["ratio"]
    return centred({f"{k}, {n}, sigma = {s}": values.to_numpy() for (k, n, s), values in groups}, 1.0)


def _variance(table: DataFrame, column: str) -> Verdict:
    """Squared deviation over its predicted variance, averaged over the settings of a trial."""
    ratio = np.square(table["sketched"] - table["exact"]) / (2.0 / table["k"] * table[column])
    return centred({"observed / predicted variance": ratio.groupby(table["trial"]).mean().to_numpy()}, 1.0)


def _less_change(table: DataFrame, better: str, worse: str) -> Verdict:
    """Whether the relative change |A - B|_F / |A|_F of one kernel is less than that of another."""
    rows = table[table["noise"] == "heteroskedastic"].assign(change=np.sqrt(table["exact"] / table["norm"]))
    changes = {
        s: [by_trial(rows, "change", kernel=kernel, sigma=s) for kernel in (worse, better)]
        for s in sorted(table["sigma"].unique())
    }
    verdict = above({f"sigma = {s}": a - b for s, (a, b) in changes.items()})
    gains = (100.0 * float((1.0 - b / a).mean()) for a, b in changes.values())
    percents = listed([f"sigma = {s}" for s in changes], gains, 1)
    return Verdict(verdict.holds, f"per cent less change: {percents}")


def _not_injective(table: DataFrame) -> Verdict:
    maps = table[table["method"] == "DMS"]
    largest = float(maps.loc[maps["k"] <= 2 * np.floor(maps["r"]), "separation"].max())
    measured = f"largest separation for k ≤ 2⌊r⌋: {largest:.1e}, over {maps['r'].nunique()} radii"
    return Verdict(largest < COLLAPSED, measured)


def _injective(table: DataFrame) -> Verdict:
    least = table[table["method"] == "GPS"].groupby("k")["separation"].min()
    measured = f"least separation {least[least.index >= 5].min():.1e}; at k = 3 and 4 {least[3]:.1e} and {least[4]:.1e}"
    return Verdict(bool((least[least.index >= 5] > APART).all()), measured)


def _refined(table: DataFrame) -> Verdict:
    """Growth of log L as the sample doubles, fitted over the three largest samples."""
    large = table[table["points"].isin(sorted(table["points"].unique())[-3:])]
    growth = {
        setting: np.array([np.polyfit(np.log2(r["points"]), r["log_L"], 1)[0] for _, r in rows.groupby("trial")])
        for setting, rows in large.groupby(["method", "k"], sort=False)
    }
    contrasts = ((("DMB", 6), ("DMB", 8)), (("GPB", 2), ("GPB", 8)), (("GPB", 3), ("GPB", 8)))
    verdict = above({f"{a[0]}, k = {a[1]} less k = {b[1]}": growth[a] - growth[b] for a, b in contrasts})
    measured = "; ".join(f"{method}, k = {k}: {with_error(values)}" for (method, k), values in growth.items())
    return Verdict(verdict.holds, f"growth of log L with each doubling: {measured}")


def _columns(table: DataFrame) -> Verdict:
    verdict = below({"best": by_trial(table, "log_L", method="kernel columns, best")}, _LARGE)
    means = table.groupby("method", sort=False)["log_L"].mean()
    return Verdict(verdict.holds, "mean log L " + listed(list(means.index), means))


def _eigenfunctions(table: DataFrame, modes: int) -> Verdict:
    errors = {n: by_trial(table, "error", normalization=n, modes=modes) for n in ("symmetric", "bistochastic")}
    verdict = above({"symmetric less bistochastic": errors["symmetric"] - errors["bistochastic"]})
    means = listed(list(errors), (v.mean() for v in errors.values()), 4)
    return Verdict(verdict.holds, f"{means}; {verdict.measured}")


def _cost(table: DataFrame, step: str, against: str) -> Verdict:
    """Whether seconds grow no faster than the order derived in section 4.5."""
    rows = table[(table["step"] == step) & (table["against"] == against)]
    # The smallest size is dominated by what does not grow.
    fitted = slopes(rows[rows[against] > rows[against].min()], against, "seconds")
    holds = below({step: fitted}, ORDERS[step, against] + 0.5).holds
    return Verdict(holds, f"exponent of {against}: {with_error(fitted)}")


_TORUS, _KLEIN = range(3, 13), range(3, 21)
_COSTS: dict[str, Judge] = {
    f"cost_{step.replace(', ', '_')}_{against}": partial(_cost, step=step, against=against) for step, against in ORDERS
}
_SIGNS_TABLES = ("klein_bottle", "gaussian_clouds", "circle", "stretched_torus", "signs_with_outliers")

# By name of the claim; each takes the claim's tables.
JUDGES: dict[str, Judge] = {
    "normalisations_alike_sketches": partial(_normalisations, families=("GP", "GPSB")),
    "normalisations_alike_maps": partial(_normalisations, families=("DM",)),
    "far_points_circle": _far_points_on_crossed_curves,
    "far_points_stretched_torus": partial(_far_points, ks=range(2, 7)),
    "far_points_klein_bottle": partial(_far_points, ks=range(3, 7)),
    "circle_dm_better": lambda t: above(gap(t, "GPS", "DMS", range(2, 9))),
    "circle_two_eigenfunctions": lambda t: below({"DMS, k = 2": log_L(t, "DMS", 2)}, float(np.log(2.0))),
    "circle_more_eigenfunctions": lambda t: above({"DMS, k = 2 less k = 8": log_L(t, "DMS", 2) - log_L(t, "DMS", 8)}),
    "plane_curves_cross": _curves,
    "plane_not_effective": lambda t: above({"GPS, k = 2": log_L(t, "GPS", 2)}, _LARGE),
    "space_curves_need_not_cross": lambda t: below({"GPS, k = 3": log_L(t, "GPS", 3)}, _LARGE),
    "circle_no_optimisation": lambda t: above(gap(t, "GPS", "DMS", range(3, 9))),
    "circle_about_three": _about_three,
    "torus_dm_struggles": lambda t: above(
        {f"{m}, k = {k}": log_L(t, m, k) for m in ("DMS", "DMB") for k in range(2, 8)}, _HUGE
    ),
    "torus_plane_equal": _equally,
    "torus_gp_better": lambda t: above(gap(t, "DMS", "GPS", _TORUS) | gap(t, "DMB", "GPB", _TORUS)),
    "torus_stronger_from_three": _stronger_than_in_the_plane,
    "torus_dm_catches_up": partial(_catching_up, last=12),
    "torus_dmb_worse": lambda t: above(gap(t, "DMB", "DMS", range(2, 13))),
    "klein_gp_better": lambda t: above(gap(t, "DMS", "GPS", _KLEIN) | gap(t, "DMB", "GPB", _KLEIN)),
    "klein_dmb_worse": lambda t: above(gap(t, "DMB", "DMS", _KLEIN)),
    "klein_dm_catches_up": partial(_catching_up, last=20),
    "klein_more_extreme": _more_extreme,
    "outliers_gp_better": lambda t: above(gap(t, "DMS", "GPS", (2, 3)) | gap(t, "DMB", "GPB", (2, 3))),
    "outliers_dm_better_later": lambda t: above(gap(t, "GPS", "DMS", (4, 5)) | gap(t, "GPB", "DMB", (4, 5))),
    "outliers_circle_collapses": _concentrated,
    "outliers_removed_crosses": partial(_crossing, method="DMS"),
    "outliers_removed_structure": lambda t: above({"rank correlation": by_trial(t, "structure", method="DMS")}),
    "outliers_removed_scale": lambda t: below({"reach / distance": _relative_reach(t, "DMS")}, 0.1),
    "outliers_own_eigenvectors": _held_by_outliers,
    "outliers_third_eigenvector": _nearly_meets,
    "outliers_third_not_enough": lambda t: above({"k = 3 less k = 4": log_L(t, "DMS", 3) - log_L(t, "DMS", 4)}),
    "outliers_gps_crosses": partial(_crossing, method="GPS"),
    "outliers_scales_together": _scales,
    **{f"signs_alike_{name}": partial(_alike, first="GPS", second="GPSBS") for name in _SIGNS_TABLES[:2]},
    **{f"signs_no_disadvantage_{name}": _signs_cost_little for name in _SIGNS_TABLES},
    **{f"signs_slight_advantage_{name}": _signs_gain for name in _SIGNS_TABLES},
    **{
        f"signs_hidden_{name}": partial(_alike, first="GPSBS", second="GPSBB", visibly=True)
        for name in _SIGNS_TABLES[:2]
    },
    "multiscale_low_powers": _nearly,
    "multiscale_middle_powers": lambda t: above(gap(t, "DMS", "GPS", (16, 32), "p")),
    "multiscale_worsens": _worsens,
    "multiscale_surpasses": lambda t: above(gap(t, "GPS", "DMS", (1024,), "p")),
    "multiscale_circle_similar": _best_in_the_middle,
    "multiscale_circle_dm_better": lambda t: above(gap(t, "GPS", "DMS", [2**i for i in range(1, 9)], "p")),
    "expansion_error": _truncation,
    "expansion_coefficients": _coefficients,
    "unbiased": partial(_mean_by_pair, column="ratio", value=1.0),
    "unbiased_secants": partial(_mean_by_pair, column="secant", value=0.0),
    "chi_square": _chi_square,
    "worst_error_rate": _rate,
    "dudley_bound": _dudley,
    "robustness_mean": _mean_change,
    "robustness_variance": partial(_variance, column="fourth"),
    "robustness_variance_printed": partial(_variance, column="exact"),
    "challenge_not_injective": _not_injective,
    "challenge_gp_injective": _injective,
    "low_powers_white": lambda t: below({"p = 2^-12": by_trial(t, "from_white", exponent=-12)}, 0.01),
    "high_powers_top": lambda t: above({"share at p = 1024": by_trial(t, "top", exponent=10)}, 0.99),
    "kernel_columns": _columns,
    **_COSTS,
    "bistochastic_at_large_powers": lambda t: above(gap(t, "GPS", "GPB", (64, 128, 256), "p")),
    "sketch_variance": _sketch_variance,
    "robustness_bistochastic": partial(_less_change, better="bistochastic", worse="symmetric"),
    "robustness_zero_diagonal": partial(_less_change, better="bistochastic, zero diagonal", worse="bistochastic"),
    "challenge_refined": _refined,
    **{f"dmb_eigenfunctions_{m}": partial(_eigenfunctions, modes=m) for m in (1, 2, 3)},
    "lowest_power_drawn": lambda t: above({"share at p = 2": by_trial(t, "near_one", exponent=1)}, 0.5),
}
