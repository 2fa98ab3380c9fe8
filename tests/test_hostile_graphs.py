"""Whatever matrix or graph is brought: the heat kernel of the formulas, or one clear error; and nothing is changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import cases
from conftest import NORMALIZATIONS
from graph_cases import (
    POWERS,
    SCALES,
    affinities,
    answer,
    contents,
    formula,
    formula_distances,
    in_a_form,
)

GIVEN = {"affinity": "precomputed"}
MODELS = (hs.GaussianProcessEmbedding, hs.DiffusionMaps)
normalizations, diagonals = st.sampled_from(NORMALIZATIONS), st.sampled_from(["auto", "auto", "keep", "zero"])


@cases(60)
@given(affinities(), normalizations, st.sampled_from([0.0, 0.5, 1.0]), diagonals, st.sampled_from([1, 2, 3, 8.5, 100]))
def test_the_kernel_and_its_distances_are_those_of_the_formulas(W, normalization, alpha, diagonal, power):
    options = {**GIVEN, "normalization": normalization, "alpha": alpha, "diagonal": diagonal}
    A, refusal = answer(lambda: hs.heat_kernel(W, **options))
    if A is None:
        assert "zero" in refusal or "scaled" in refusal
        return
    S = A.symmetric.toarray()
    np.testing.assert_allclose(S, S.T, atol=1e-15 * abs(S).max())
    np.testing.assert_allclose(S @ A.trivial, A.trivial, atol=2 * max(A.scaling.residual, 1e-12))
    if not A.scaling.converged:
        return
    if normalization != "symmetric":
        np.testing.assert_allclose(A @ np.ones(len(W)), 1.0, atol=1e-7)
    values = np.linalg.eigvalsh(S)
    assert np.abs(values).max() <= 1 + 1e-7
    lazy = diagonal == "auto" and not np.diagonal(W).any()
    if lazy:
        assert values[0] >= -1e-7
    if not (lazy or normalization in ("symmetric", "stochastic")):
        return  # the limit need not be well determined where the kernel is indefinite
    expected, u, w = formula(W, normalization, alpha, diagonal)
    np.testing.assert_allclose(S, expected, atol=1e-7)
    np.testing.assert_allclose(A.toarray(), w[:, None] * expected / w, atol=1e-7 * w.max() / w.min())
    d, refusal = answer(lambda: hs.diffusion_distances(A, power))
    if d is None:
        assert "negative eigenvalues" in refusal
        assert not lazy
        return
    exact = formula_distances(expected, w, power)
    np.testing.assert_allclose(squareform(d), exact, atol=1e-6 * exact.max() + 1e-9)


@st.composite
def formed(draw):
    W = draw(affinities())
    return W, draw(in_a_form(W))


@cases(60)
@given(formed(), normalizations)
def test_the_form_of_a_matrix_does_not_matter_and_is_left_alone(both, normalization):
    W, X = both
    before = contents(X)
    model = hs.GaussianProcessEmbedding(2, normalization=normalization, power=2, random_state=0, **GIVEN)
    expected, refusal = answer(lambda: model.fit_transform(W))
    Y, other = answer(lambda: model.fit_transform(X))
    assert contents(X) == before
    if expected is None:
        assert Y is None, other
        assert refusal == other
        return
    assert Y is not None, other
    np.testing.assert_allclose(Y, expected, atol=1e-9 * abs(expected).max())
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-9 * abs(expected).max())
    assert contents(X) == before


@cases(60)
@given(affinities(least=3), normalizations, st.sampled_from(SCALES), st.randoms(use_true_random=False))
def test_neither_the_unit_nor_the_order_matters(W, normalization, scale, random):
    options = {**GIVEN, "normalization": normalization}
    A, refusal = answer(lambda: hs.heat_kernel(W, **options))
    order = np.array(random.sample(range(len(W)), len(W)))
    unit = scale / W.max() if W.any() and scale > 1 else scale
    for form in (np.asarray, sparse.csr_array):
        scaled = form((W * unit)[order][:, order])
        B, other = answer(lambda X=scaled: hs.heat_kernel(X, **options))
        if A is None:
            assert B is None, refusal
            continue
        if scale < 1e-310:  # digits were lost in the data
            assert B is None or np.isfinite(B.toarray()).all()
            continue
        assert B is not None, other
        expected = A.toarray()[order][:, order]
        np.testing.assert_allclose(B.toarray(), expected, atol=1e-7 * abs(expected).max())
        d, e = hs.diffusion_distances(A, 3), hs.diffusion_distances(B, 3)
        np.testing.assert_allclose(squareform(e), squareform(d)[order][:, order], atol=1e-6 * d.max() + 1e-9)


@cases(150)
@given(
    affinities(most=8, spread=160.0),
    st.sampled_from([(m, n) for m in MODELS for n in NORMALIZATIONS]),
    st.sampled_from(POWERS),
    diagonals,
    st.sampled_from(["auto", "keep", "drop"]),
    st.sampled_from([np.float64, np.float32]),
)
def test_weights_of_any_size_are_embedded_or_refused(W, kind, power, diagonal, trivial, dtype):
    with np.errstate(over="ignore", under="ignore"):
        W = W.astype(dtype)
    own = {"trivial": trivial, "random_state": 0} if kind[0] is hs.GaussianProcessEmbedding else {}
    model = kind[0](1, power=power, normalization=kind[1], diagonal=diagonal, **own, **GIVEN)
    Y, _ = answer(lambda: model.fit_transform(W))
    if Y is None:
        return
    assert np.isfinite(Y).all()
    for X in (W, sparse.csr_array(W)):
        Z, refusal = answer(lambda X=X: model.transform(X))
        assert Z is not None, refusal
        np.testing.assert_allclose(Z, Y, atol=1e-5 * abs(Y).max())
