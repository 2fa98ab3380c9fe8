"""Claims: the statistics behind the verdicts, and verdicts that a few trials decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.claims import CLAIMS, judge_claims
from heatsketch_paper.claims.evidence import (
    LEVEL,
    above,
    below,
    both,
    by_trial,
    centred,
    gap,
    log_L,
    share,
    slopes,
    uncorrelated,
    within,
)
from heatsketch_paper.figures import FIGURES, find_figures, plan
from heatsketch_paper.plane import crossings
from heatsketch_paper.runner import run
from heatsketch_paper.store import Store

ALL = [claim for claims in CLAIMS.values() for claim in claims]
COMMITTED = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture
def noise():
    return np.random.default_rng(0).normal(size=200)


def test_above_is_a_one_sided_t_test(noise):
    shifted = noise + 0.2
    low = shifted.mean() - stats.t.ppf(LEVEL, 199) * shifted.std(ddof=1) / np.sqrt(200)
    assert above({"a": shifted}, low - 1e-9).holds is True
    assert above({"a": shifted}, low + 1e-9).holds is None
    high = 2 * shifted.mean() - low
    assert above({"a": shifted}, high + 1e-9).holds is False
    assert below({"a": -shifted}, -low + 1e-9).holds is True
    assert below({"a": -shifted}, -high - 1e-9).holds is False


def test_comparisons_of_a_claim_share_the_level(noise):
    low = noise.mean() - stats.t.ppf(1 - 0.01 / 5, 199) * noise.std(ddof=1) / np.sqrt(200)
    many = {str(i): noise for i in range(5)}
    assert above(many, low - 1e-9).holds is True
    assert above(many, low + 1e-9).holds is None


def test_one_failing_comparison_decides(noise):
    assert above({"a": noise + 5, "b": noise - 5}).holds is False
    assert above({"a": noise + 5, "b": noise}).holds is None
    assert "b" in above({"a": noise + 5, "b": noise}).measured


def test_verdicts_err_at_the_stated_rate():
    rng = np.random.default_rng(0)
    trials = [rng.exponential(size=100) - 1.0 for _ in range(2000)]
    wrong = sum(above({"a": x}).holds is True for x in trials)
    assert wrong <= stats.binom.ppf(0.999, 2000, 1 - LEVEL)
    off = sum(centred({"a": x}, 0.0).holds is False for x in trials)
    assert off <= 3 * 2000 * (1 - LEVEL)  # exponentials are skew: the t interval errs a little more often


def test_equivalence_needs_the_whole_interval(noise):
    assert within({"a": noise}, {"a": 0.5}).holds is True
    assert within({"a": noise}, {"a": 0.1}).holds is None
    assert within({"a": noise + 1}, {"a": 0.5}).holds is False


def test_centred_finds_what_is_off(noise):
    assert centred({"a": noise, "b": noise}, 0.0).holds is True
    found = centred({"a": noise, "b": noise + 0.5}, 0.0)
    assert found.holds is False
    assert "b" in found.measured


def test_shares_use_the_exact_binomial_interval():
    few, many = np.array([True] * 8 + [False] * 2), np.array([True] * 80 + [False] * 20)
    assert share(few, 0.5, "x").holds is None
    assert share(many, 0.5, "x").holds is True
    assert share(~many, 0.5, "x").holds is False
    assert share(many, 0.5, "x").measured == "x in 80 of 100 trials"


def test_one_trial_decides_nothing():
    assert above({"a": np.array([9.0])}).holds is None
    assert centred({"a": np.array([9.0])}, 0.0).holds is None


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_values_that_are_no_numbers_decide_nothing(noise, value):
    assert above({"a": np.append(noise + 9, value)}).holds is None
    assert centred({"a": np.append(noise, value)}, 0.0).holds is None
    assert above({"a": np.array([])}).holds is None


def test_equality_is_never_proved(noise):
    assert centred({"a": noise}, 0.0).word == "consistent"
    assert centred({"a": noise + 9}, 0.0).word == "does not hold"
    assert above({"a": noise + 9}).word == "holds"


def test_the_comparison_that_decides_is_told(noise):
    wide, low = 100 * noise, 0.1 * noise - 1
    assert "clearest failure of 2: b" in above({"a": wide, "b": low}).measured
    assert "nearest to failing of 2: a" in above({"a": wide, "b": noise + 9}).measured


def test_correlations_are_found():
    independent = np.random.default_rng(0).normal(size=(300, 6))
    assert uncorrelated(independent).word == "consistent"
    independent[:, 3] += 0.5 * independent[:, 1]
    assert uncorrelated(independent).holds is False
    assert uncorrelated(independent[:5]).holds is None


def test_both_needs_both(noise):
    good, bad, open_ = above({"a": noise + 5}), above({"a": noise - 5}), above({"a": noise})
    assert both(good, good).holds is True
    assert both(good, open_).holds is None
    assert both(open_, bad).holds is False


@pytest.fixture
def table():
    rows = [
        {"trial": t, "method": m, "k": k, "log_L": 10 * t + k + (5 if m == "A" else 0)}
        for t in (1, 0)
        for m in "AB"
        for k in (2, 3)
    ]
    return pd.DataFrame(rows)


def test_pairs_are_compared_trial_by_trial(table):
    assert log_L(table, "A", 2).tolist() == [7, 17]
    assert by_trial(table, "log_L", method="B", k=3).tolist() == [3, 13]
    assert {k: v.tolist() for k, v in gap(table, "A", "B", [2, 3]).items()} == {
        "A - B, k = 2": [5, 5],
        "A - B, k = 3": [5, 5],
    }
    with pytest.raises(ValueError, match="no rows with method = C, k = 2"):
        log_L(table, "C", 2)


def test_slopes_are_exponents():
    x = np.array([1.0, 2.0, 4.0])
    rows = pd.DataFrame({"trial": [0] * 3 + [1] * 3, "x": np.tile(x, 2), "y": np.concatenate([3 * x**-0.5, x**2])})
    np.testing.assert_allclose(slopes(rows, "x", "y"), [-0.5, 2.0])


def test_claims_are_told_apart_and_rest_on_tables_that_exist():
    assert len({claim.name for claim in ALL}) == len(ALL)
    assert {name for claim in ALL for name in claim.tables} <= set(EXPERIMENTS)
    assert all(claim.place and claim.statement.endswith(".") and claim.test.endswith(".") for claim in ALL)


# Decided beyond doubt by a dozen trials: effects of many standard errors.
DECIDED = {
    "circle_dm_better": "holds",
    "circle_two_eigenfunctions": "holds",
    "circle_more_eigenfunctions": "holds",
    "space_curves_need_not_cross": "holds",
    "torus_dm_struggles": "holds",
    "torus_dm_catches_up": "holds",
    "klein_gp_better": "holds",
    "klein_more_extreme": "holds",
    "outliers_gp_better": "holds",
    "outliers_dm_better_later": "holds",
    "outliers_circle_collapses": "holds",
    "outliers_own_eigenvectors": "holds",
    "outliers_third_not_enough": "holds",
    "klein_dm_catches_up": "does not hold",
    "multiscale_middle_powers": "holds",
    "multiscale_circle_similar": "holds",
    "robustness_mean": "consistent",
    "robustness_variance": "consistent",
    "robustness_variance_printed": "does not hold",
    "robustness_zero_diagonal": "holds",
    "expansion_error": "consistent",
    "unbiased": "consistent",
    "unbiased_secants": "consistent",
    "dudley_bound": "holds",
    "challenge_not_injective": "holds",
    "challenge_gp_injective": "holds",
    "low_powers_white": "holds",
    "lowest_power_drawn": "does not hold",
    "high_powers_top": "holds",
}

# Trials of experiments of which eight would leave some claims open, or of which fewer decide them as well.
FEW = 8
TRIALS = dict.fromkeys(("circle", "stretched_torus", "klein_bottle", "circle_with_outliers"), 16) | dict.fromkeys(
    ("worst_error_circle", "worst_error_torus", "worst_error_klein", "challenge"), 4
)
# Experiments whose trials take long: two are run, and must be those that are committed, from where the others come.
DEAR = ("multiscale_torus", "multiscale_circle", "klein_bottle", "stretched_torus", "worst_error_torus",
        "worst_error_klein", "robustness", "challenge")  # fmt: skip
RUN = 2


@pytest.fixture(scope="module")
def few_trials(tmp_path_factory, committed):
    wanted = {name for claim in ALL if claim.name in DECIDED for name in claim.tables}
    planned = plan(find_figures(), n_trials=max(TRIALS.values()))
    experiments = [
        replace(e, n_trials=RUN if e.name in DEAR else TRIALS.get(e.name, FEW)) for e in planned if e.name in wanted
    ]
    store = Store(tmp_path_factory.mktemp("few"))
    run(experiments, store, jobs=1)
    tables = {e.name: store.read(e.name) for e in experiments}
    for name in DEAR:
        there = committed[name]
        same = there[there["trial"] < RUN].reset_index(drop=True)
        of_the_machine = ["seconds", "iterations"]
        pd.testing.assert_frame_equal(
            tables[name].drop(columns=of_the_machine, errors="ignore"),
            same.drop(columns=of_the_machine, errors="ignore"),
            rtol=1e-6,
        )
        tables[name] = there[there["trial"] < TRIALS.get(name, FEW)]
    return judge_claims(tables).set_index("name")


@pytest.mark.parametrize("name", DECIDED)
def test_claims_that_few_trials_decide(few_trials, name):
    found = few_trials.loc[name]
    assert found["verdict"] == DECIDED[name], found["measured"]
    (tables,) = (claim.tables for claim in ALL if claim.name == name)
    assert found["trials"] == max(TRIALS.get(table, FEW) for table in tables)


def _scaled(column, factor):
    return lambda t: t.assign(**{column: t[column] * factor(t)})


def _where(condition, column, factor):
    return lambda t: t.assign(**{column: t[column].where(~condition(t), t[column] * factor)})


# What would refute each statement: a change to its tables after which it must not hold any more.
REFUTED = {
    "expansion_error": _where(lambda t: t["quantity"] == "error", "value", 2.0),
    "expansion_coefficients": _where(lambda t: t["quantity"] == "coefficient", "value", 1.5),
    "unbiased": _where(lambda t: (t["method"] == "rademacher") & (t["pair"] == 3), "ratio", 1.3),
    "unbiased_secants": lambda t: t.assign(secant=t["secant"] + 0.2 * (t["pair"] == 5)),
    "chi_square": _scaled("ratio", lambda t: t["ratio"]),
    "sketch_variance": _where(lambda t: t["pair"] == 2, "variance", 0.3),
    "worst_error_rate": _scaled("worst", lambda t: t["k"] ** 0.2),
    "dudley_bound": _scaled("worst", lambda t: 40.0),
    "robustness_mean": _where(lambda t: t["sigma"] == 0.1, "sketched", 1.2),
    "robustness_variance": _scaled("fourth", lambda t: 3.0),
    "robustness_bistochastic": _where(lambda t: t["kernel"] == "bistochastic", "exact", 1.5),
    "robustness_zero_diagonal": _where(lambda t: t["kernel"] == "bistochastic, zero diagonal", "exact", 300.0),
    "challenge_not_injective": lambda t: t.assign(separation=t["separation"].clip(lower=1e-6)),
    "challenge_gp_injective": _where(lambda t: (t["k"] == 7) & (t["r"] == 3.5), "separation", 1e-9),
    "challenge_refined": lambda t: t.assign(log_L=t["log_L"] + (t["k"] == 8) * np.log2(t["points"])),
    "low_powers_white": _scaled("from_white", lambda t: 10.0),
    "high_powers_top": _scaled("top", lambda t: 0.9),
    "kernel_columns": lambda t: t.assign(log_L=t["log_L"] + 3),
    "cost_symmetric_N": _scaled("seconds", lambda t: t["N"]),
    "cost_sketch_p": _scaled("seconds", lambda t: t["p"].fillna(1)),
    "bistochastic_at_large_powers": _where(lambda t: t["method"] == "GPB", "log_L", 9.0),
    "dmb_eigenfunctions_1": _where(lambda t: t["normalization"] == "bistochastic", "error", 2.0),
    "outliers_circle_collapses": _scaled("reach_origin", lambda t: 10.0),
    "outliers_third_eigenvector": _scaled("closest", lambda t: 0.1),
    "outliers_own_eigenvectors": _scaled("held_2", lambda t: 0.5),
    "outliers_removed_crosses": _scaled("crossings", lambda t: t["trial"] == 0),
    "outliers_removed_scale": _scaled("reach", lambda t: 100.0),
    "outliers_removed_structure": _scaled("structure", lambda t: -1.0),
    "outliers_scales_together": _scaled("reach", lambda t: 0.1),
    "plane_curves_cross": lambda t: t.assign(log_L=t["log_L"] - 5),
    "far_points_circle": _scaled("contracted", lambda t: 0.01),
    "far_points_klein_bottle": _scaled("contracted", lambda t: 0.01),
}


@pytest.fixture(scope="module")
def committed():
    return {path.stem: pd.read_csv(path) for path in (COMMITTED / "tables").glob("*.csv")}


@pytest.mark.parametrize("name", REFUTED)
def test_claims_fail_on_tables_that_refute_them(committed, name):
    (claim,) = (claim for claim in ALL if claim.name == name)
    tables = [committed[table] for table in claim.tables]
    assert claim.judge(*tables).holds is True
    assert claim.judge(*map(REFUTED[name], tables)).holds is False


@pytest.mark.parametrize(
    "name",
    [
        "circle_dm_better",
        "circle_no_optimisation",
        "torus_gp_better",
        "klein_gp_better",
        "klein_more_extreme",
        "outliers_gp_better",
        "outliers_dm_better_later",
        "multiscale_middle_powers",
        "multiscale_surpasses",
        "multiscale_circle_dm_better",
    ],
)
def test_comparisons_fail_if_the_methods_change_places(committed, name):
    (claim,) = (claim for claim in ALL if claim.name == name)
    places = {"DMS": "GPS", "GPS": "DMS", "DMB": "GPB", "GPB": "DMB"}
    tables = [committed[table] for table in claim.tables]
    exchanged = [table.assign(method=table["method"].replace(places)) for table in tables]
    assert claim.judge(*tables).holds is True
    assert claim.judge(*exchanged).holds is False


def test_no_claim_is_decided_by_one_trial(committed):
    first = {name: table[table["trial"] == 0] for name, table in committed.items()}
    decided = judge_claims(first)
    decided = set(decided[decided["verdict"] != "undecided"]["name"])
    assert decided <= {"challenge_not_injective", "challenge_gp_injective"}  # which no chance is part of


def test_figure_1b_shows_the_first_curve_and_the_first_that_crosses_itself(committed):
    shapes = committed["circle_shapes"]
    crossed = shapes[(shapes["method"] == "GPS") & (shapes["crossings"] > 0)]["trial"].min()
    assert FIGURES["circle_sample"].trials == (0, crossed)
    sample = committed["circle_sample"]
    for trial, expected in ((0, 0), (crossed, 1)):
        points = sample[sample["trial"] == trial]
        assert crossings(points["angle"].to_numpy(), points[["x", "y"]].to_numpy()) == expected


# Mean log L of an independent implementation over 10 trials, to two digits, with the paper's parameters.
INDEPENDENT = {
    ("circle", "DMS"): {2: 0.12, 3: 0.09, 4: 0.01, 8: 0.01},
    ("circle", "GPS"): {2: 3.5, 3: 1.7, 4: 1.0, 5: 0.87, 6: 0.83, 8: 0.75},
    ("stretched_torus", "DMS"): {2: 6.7, 3: 5.4, 4: 4.9, 6: 4.0, 8: 3.2, 12: 1.9},
    ("stretched_torus", "DMB"): {2: 7.7, 3: 6.7, 4: 5.9, 6: 4.8, 8: 3.7, 12: 2.4},
    ("stretched_torus", "GPS"): {2: 7.3, 3: 5.0, 4: 3.8, 6: 2.8, 8: 2.1, 12: 1.6},
    ("klein_bottle", "DMS"): {3: 6.7, 5: 5.7, 8: 5.2, 12: 4.7, 20: 4.1},
    ("klein_bottle", "GPS"): {3: 5.1, 5: 3.5, 8: 2.4, 12: 1.8, 20: 1.4},
    ("circle_with_outliers", "DMS"): {2: 8.6, 3: 4.3, 4: 0.10, 5: 0.08},
    ("circle_with_outliers", "GPS"): {2: 3.9, 3: 1.8, 4: 1.5, 5: 1.3},
}


@pytest.mark.parametrize(("data", "method"), INDEPENDENT)
def test_committed_charts_agree_with_an_independent_implementation(data, method):
    table = pd.read_csv(COMMITTED / "tables" / f"{data}.csv")
    for k, reference in INDEPENDENT[data, method].items():
        values = log_L(table, method, k)
        error = values.std(ddof=1) * np.sqrt(1 / 10 + 1 / len(values))
        rounding = 0.05 if reference >= 1 else 0.005
        assert abs(values.mean() - reference) <= 3 * error + rounding


def test_committed_claims_follow_from_the_committed_tables(committed):
    assert set(committed) == set(EXPERIMENTS)
    judged = judge_claims(committed).astype(str)
    written = pd.read_csv(COMMITTED / "claims.csv", keep_default_na=False).astype(str)
    pd.testing.assert_frame_equal(judged, written)
    assert len(judged) == len(ALL)
