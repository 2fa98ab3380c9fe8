"""How many directions to take exactly: the prediction pair by pair, and the choice that follows from it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.range_finder import leading_directions
from heatsketch.optimize import deflation
from heatsketch.optimize.deflation import best_split
from heatsketch.optimize.features import deflated_sketch
from laws import symmetric

X = np.random.default_rng(0).normal(size=(40, 2))
STREAM = 0xDEF1A7


@cache
def _kernel(dtype=np.float64):
    return hs.heat_kernel(X.astype(dtype), bandwidth=3.0, tol=1e-12 if dtype == np.float64 else 1e-6)


def _predicted(kernel, k, power, seed, *, most, measured, pairs):
    """Errors of r = 0, ..., most exact directions, by their definition, pair by pair."""
    Q = leading_directions(kernel, measured, power)
    F = deflated_sketch(kernel, Q, 64, power, seed ^ STREAM)[1].astype(np.float64)
    F = F / np.abs(F).max()
    errors = []
    for r in range(most + 1):
        shares = []
        for i, j in zip(*np.random.default_rng([seed, STREAM]).integers(0, len(F), (2, pairs)), strict=True):
            squares = np.square(F[i] - F[j])
            if squares.sum() > 0:
                shares.append(squares[r:].sum() / squares.sum())
        errors.append(np.sqrt(2 / (k - r) * np.mean(np.square(shares))))
    return Q, np.array(errors)


@pytest.fixture
def few(monkeypatch):
    """Few pairs, for each is looked at by itself; and fewer directions than there are."""
    monkeypatch.setattr(deflation, "_PAIRS", 60)
    monkeypatch.setattr(deflation, "_MOST_EXACT", 9)
    monkeypatch.setattr(deflation, "_FURTHER", 4)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "most"), [(2, 1), (5, 4), (10, 9), (30, 9)])
def test_errors_are_those_predicted_pair_by_pair(k, most, dtype):
    kernel = _kernel(dtype)
    Q, errors = _predicted(kernel, k, 2, 7, most=most, measured=most + 4, pairs=60)
    split = best_split(kernel, k, 2, 7)
    assert split.errors.shape == (most + 1,)
    np.testing.assert_allclose(split.errors, errors, rtol=1e-9 if dtype == np.float64 else 1e-4)
    r = int(np.argmin(errors))
    assert r > 0  # on these data it pays
    assert split.directions.dtype == dtype
    np.testing.assert_array_equal(split.directions, Q[:, :r])


@pytest.mark.usefixtures("few")
def test_no_more_directions_than_there_are():
    # Six points have six directions, one of them trivial where it is known.
    A, _ = symmetric(np.array([1.0, 0.6, 0.5, 0.4, 0.3, 0.2]))
    kernel = as_heat_kernel(A)
    _, errors = _predicted(kernel, 20, 1, 3, most=6, measured=6, pairs=60)
    np.testing.assert_allclose(best_split(kernel, 20, 1, 3).errors, errors, rtol=1e-6, atol=1e-9)
    known = hs.heat_kernel(X[:6], bandwidth=3.0)
    assert best_split(known, 20, 1, 3).errors.shape == (6,)
    _, errors = _predicted(known, 3, 1, 3, most=2, measured=5, pairs=60)
    np.testing.assert_allclose(best_split(known, 3, 1, 3).errors, errors, rtol=1e-6, atol=1e-9)


def test_one_component_has_nothing_exact():
    split = best_split(_kernel(np.float32), 1, 2, 0)
    assert split.directions.shape == (40, 0)
    assert split.directions.dtype == np.float32
    np.testing.assert_allclose(split.errors, [np.sqrt(2)])


@pytest.mark.usefixtures("few")
def test_points_that_are_one_have_nothing_exact():
    A = np.full((5, 5), 0.2)
    split = best_split(as_heat_kernel(A), 4, 2, 0)
    assert split.directions.shape == (5, 0)
    np.testing.assert_allclose(split.errors, [np.sqrt(2 / 4)])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_a_gain_of_five_per_cent_is_worth_it(factor, monkeypatch):
    kernel = _kernel()
    errors = best_split(kernel, 5, 2, 7).errors
    gain = 1 - errors.min() / errors[0]
    monkeypatch.setattr(deflation, "_WORTHWHILE", factor * gain)
    taken = best_split(kernel, 5, 2, 7).directions.shape[1]
    assert taken == (int(np.argmin(errors)) if factor < 1 else 0)


@pytest.mark.usefixtures("few")
def test_tiny_distances_count_as_others_do():
    kernel = _kernel()
    second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
    tiny = round(-200 / np.log10(second))
    split = best_split(kernel, 4, tiny, 0)
    assert 0 < split.directions.shape[1]
    assert np.isfinite(split.errors).all()


def test_what_is_measured_by_default():
    assert (deflation._MOST_EXACT, deflation._FURTHER, deflation._PILOT, deflation._PAIRS) == (128, 16, 64, 20_000)
    assert deflation._WORTHWHILE == 0.05
