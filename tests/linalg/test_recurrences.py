"""Steps of recurrences: small blocks by NumPy and large ones by compiled loops, in any memory order."""

from __future__ import annotations

import numpy as np
import pytest

from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.recurrences import add_term, chebyshev_step, column_products, without

RNG = np.random.default_rng(0)


@pytest.fixture(params=[("C", 3), ("C", 700), ("F", 700)], ids=str)
def blocks(request):
    order, k = request.param
    return [np.asarray(RNG.normal(size=(200, k)), order=order) for _ in range(2)]


def test_chebyshev_step(blocks):
    S, (previous, current) = RNG.normal(size=(200, 200)), blocks
    expected = 2.0 * (S @ current - 0.3 * current) / 0.7 - previous
    np.testing.assert_allclose(chebyshev_step(DenseOperator(S), previous, current, 0.3, 0.7), expected, atol=1e-10)


def test_chebyshev_step_of_blocks_in_another_precision(blocks):
    S, (previous, current) = RNG.normal(size=(200, 200)), blocks
    found = chebyshev_step(DenseOperator(S.astype(np.float32)), previous, current, 0.3, 0.7)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, chebyshev_step(DenseOperator(S), previous, current, 0.3, 0.7), atol=1e-3)


def test_add_term(blocks):
    total, term = blocks
    expected = total + 0.25 * term
    np.testing.assert_allclose(add_term(total, 0.25, term), expected, atol=1e-12)


def test_without(blocks):
    W, V = blocks
    factors = RNG.normal(size=W.shape[1])
    expected = W - V * factors
    np.testing.assert_allclose(without(W, factors, V, np.float64), expected, atol=1e-12)


def test_column_products(blocks):
    V, W = blocks
    np.testing.assert_allclose(column_products(V, W), (V * W).sum(axis=0), atol=1e-10)
