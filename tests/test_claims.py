"""Claims: the statistics behind the verdicts, and verdicts that a few trials decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from heatsketch.experiments.catalogue import EXPERIMENTS
from heatsketch.experiments.claims import CLAIMS, judge_claims
from heatsketch.experiments.claims.evidence import (
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
    within,
)
from heatsketch.experiments.figures import find_figures, plan
from heatsketch.experiments.runner import run

COMMITTED = Path(__file__).parent.parent / "docs" / "reproduction"


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


def test_an_infinite_value_decides_nothing(noise):
    assert above({"a": np.append(noise + 9, np.inf)}).holds is None


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
    with pytest.raises(ValueError, match="no rows for method C and k = 2"):
        log_L(table, "C", 2)


def test_slopes_are_exponents():
    x = np.array([1.0, 2.0, 4.0])
    rows = pd.DataFrame({"trial": [0] * 3 + [1] * 3, "x": np.tile(x, 2), "y": np.concatenate([3 * x**-0.5, x**2])})
    np.testing.assert_allclose(slopes(rows, "x", "y"), [-0.5, 2.0])


def test_claims_are_told_apart_and_rest_on_tables_that_exist():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert {name for claim in CLAIMS for name in claim.tables} <= set(EXPERIMENTS)
    assert all(claim.place and claim.statement.endswith(".") and claim.test.endswith(".") for claim in CLAIMS)


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
    "outliers_third_eigenvector": "holds",
    "outliers_scales_together": "holds",
    "multiscale_middle_powers": "holds",
    "multiscale_circle_similar": "holds",
    "robustness_mean": "holds",
    "robustness_variance": "holds",
    "robustness_variance_printed": "does not hold",
    "robustness_zero_diagonal": "holds",
    "expansion_error": "holds",
    "expansion_coefficients": "holds",
    "unbiased": "holds",
    "unbiased_secants": "holds",
    "dudley_bound": "holds",
    "challenge_not_injective": "holds",
    "challenge_gp_injective": "holds",
    "low_powers_white": "holds",
    "lowest_power_drawn": "does not hold",
    "high_powers_top": "holds",
}


@pytest.fixture(scope="module")
def few_trials(tmp_path_factory):
    wanted = {name for claim in CLAIMS if claim.name in DECIDED for name in claim.tables}
    experiments = [e for e in plan(find_figures(), n_trials=16) if e.name in wanted]
    store = run(experiments, tmp_path_factory.mktemp("few"), jobs=2)
    return judge_claims({e.name: store.read(e.name) for e in experiments}).set_index("name")


@pytest.mark.parametrize("name", DECIDED)
def test_claims_that_few_trials_decide(few_trials, name):
    found = few_trials.loc[name]
    assert found["verdict"] == DECIDED[name], found["measured"]
    assert found["trials"] == 16


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


def test_committed_claims_follow_from_the_committed_tables():
    tables = {path.stem: pd.read_csv(path) for path in (COMMITTED / "tables").glob("*.csv")}
    assert set(tables) == set(EXPERIMENTS)
    judged = judge_claims(tables).astype(str)
    written = pd.read_csv(COMMITTED / "claims.csv", keep_default_na=False).astype(str)
    pd.testing.assert_frame_equal(judged, written)
    assert len(judged) == len(CLAIMS)
