"""Claims: the statistics behind the verdicts, and verdicts that a few trials decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.claims import CLAIMS, judge_claims
from heatsketch_paper.harness.evidence import (
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
from heatsketch_paper.judges import JUDGES

COMMITTED = Path(__file__).parents[2] / "docs" / "reproduction" / "tables"


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


def test_equality_is_refuted_but_never_proved(noise):
    assert centred({"a": noise, "b": noise}, 0.0).word == "consistent"
    found = centred({"a": noise, "b": noise + 0.5}, 0.0)
    assert found.word == "does not hold"
    assert "b" in found.measured


def test_shares_use_the_exact_binomial_interval():
    few, many = np.array([True] * 8 + [False] * 2), np.array([True] * 80 + [False] * 20)
    assert share(few, 0.5, "x").holds is None
    assert share(many, 0.5, "x").holds is True
    assert share(~many, 0.5, "x").holds is False


@pytest.mark.parametrize("values", [[], [9.0], [9.0] * 50 + [np.inf], [9.0] * 50 + [np.nan]])
def test_too_few_or_infinite_values_decide_nothing(values):
    assert above({"a": np.array(values)}).holds is None
    assert centred({"a": np.array(values)}, 0.0).holds is None


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


def test_pairs_are_compared_trial_by_trial():
    rows = [(t, m, k, 10 * t + k + (5 if m == "A" else 0)) for t in (1, 0) for m in "AB" for k in (2, 3)]
    table = pd.DataFrame(rows, columns=["trial", "method", "k", "log_L"])
    assert log_L(table, "A", 2).tolist() == [7, 17]
    assert by_trial(table, "log_L", method="B", k=3).tolist() == [3, 13]
    assert [gaps.tolist() for gaps in gap(table, "A", "B", [2, 3]).values()] == [[5, 5], [5, 5]]
    with pytest.raises(ValueError, match="no rows"):
        log_L(table, "C", 2)


def test_slopes_are_exponents():
    x = np.array([1.0, 2.0, 4.0])
    rows = pd.DataFrame({"trial": [0] * 3 + [1] * 3, "x": np.tile(x, 2), "y": np.concatenate([3 * x**-0.5, x**2])})
    np.testing.assert_allclose(slopes(rows, "x", "y"), [-0.5, 2.0])


def test_every_claim_has_a_judge_and_tables():
    assert set(CLAIMS) == set(JUDGES)
    assert {name for claim in CLAIMS.values() for name in claim.tables} <= set(EXPERIMENTS)


def _scaled(column, factor):
    return lambda t: t.assign(**{column: t[column] * factor(t)})


def _where(condition, column, factor):
    return lambda t: t.assign(**{column: t[column].where(~condition(t), t[column] * factor)})


# What would refute each statement: a change to its tables after which it must not hold any more.
REFUTED = {
    "expansion_error": _where(lambda t: t["quantity"] == "error", "value", 2.0),
    "expansion_coefficients": _where(lambda t: t["quantity"] == "coefficient", "value", 1.5),
    "unbiased": _where(lambda t: (t["method"] == "rademacher") & (t["pair"] == 3), "ratio", 1.3),
    "chi_square": _scaled("ratio", lambda t: t["ratio"]),
    "sketch_variance": _where(lambda t: t["pair"] == 2, "variance", 0.3),
    "worst_error_rate": _scaled("worst", lambda t: t["k"] ** 0.2),
    "dudley_bound": _scaled("worst", lambda t: 40.0),
    "robustness_mean": _where(lambda t: t["sigma"] == 0.1, "sketched", 1.2),
    "robustness_variance": _scaled("fourth", lambda t: 3.0),
    "robustness_bistochastic": _where(lambda t: t["kernel"] == "bistochastic", "exact", 1.5),
    "challenge_not_injective": lambda t: t.assign(separation=t["separation"].clip(lower=1e-6)),
    "challenge_gp_injective": _where(lambda t: (t["k"] == 7) & (t["r"] == 3.5), "separation", 1e-9),
    "challenge_refined": lambda t: t.assign(log_L=t["log_L"] + (t["k"] == 8) * np.log2(t["points"])),
    "low_powers_white": _scaled("from_white", lambda t: 10.0),
    "kernel_columns": lambda t: t.assign(log_L=t["log_L"] + 3),
    "cost_symmetric_N": _scaled("seconds", lambda t: t["N"]),
    "bistochastic_at_large_powers": _where(lambda t: t["method"] == "GPB", "log_L", 9.0),
    "dmb_eigenfunctions_1": _where(lambda t: t["normalization"] == "bistochastic", "error", 2.0),
    "outliers_circle_collapses": _scaled("reach_origin", lambda t: 10.0),
    "outliers_third_eigenvector": _scaled("closest", lambda t: 0.1),
    "outliers_own_eigenvectors": _scaled("held_2", lambda t: 0.5),
    "outliers_removed_crosses": _scaled("crossings", lambda t: t["trial"] == 0),
    "outliers_removed_structure": _scaled("structure", lambda t: -1.0),
    "outliers_scales_together": _scaled("reach", lambda t: 0.1),
    "plane_curves_cross": lambda t: t.assign(log_L=t["log_L"] - 5),
    "far_points_circle": _scaled("contracted", lambda t: 0.01),
}


@pytest.fixture(scope="module")
def committed():
    return {path.stem: pd.read_csv(path) for path in COMMITTED.glob("*.csv")}


@pytest.mark.parametrize("name", REFUTED)
def test_claims_fail_on_tables_that_refute_them(committed, name):
    tables = [committed[table] for table in CLAIMS[name].tables]
    assert JUDGES[name](*tables).holds is True
    assert JUDGES[name](*map(REFUTED[name], tables)).holds is False


@pytest.mark.parametrize(
    "name",
    [
        "circle_dm_better",
        "torus_gp_better",
        "klein_more_extreme",
        "outliers_dm_better_later",
        "multiscale_middle_powers",
        "multiscale_circle_dm_better",
    ],
)
def test_comparisons_fail_if_the_methods_change_places(committed, name):
    places = {"DMS": "GPS", "GPS": "DMS", "DMB": "GPB", "GPB": "DMB"}
    tables = [committed[table] for table in CLAIMS[name].tables]
    exchanged = [table.assign(method=table["method"].replace(places)) for table in tables]
    assert JUDGES[name](*tables).holds is True
    assert JUDGES[name](*exchanged).holds is False


def test_no_claim_is_decided_by_one_trial(committed):
    first = {name: table[table["trial"] == 0] for name, table in committed.items()}
    decided = judge_claims(first)
    decided = set(decided[decided["verdict"] != "undecided"]["name"])
    assert decided <= {"challenge_not_injective", "challenge_gp_injective"}  # which have no random part
