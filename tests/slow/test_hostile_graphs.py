"""Whatever matrix or graph is brought: the heat kernel of the formulas, or one clear error; and nothing is changed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import squareform

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
    in_units,
)
from laws import placing

GIVEN = {"affinity": "precomputed"}
normalizations, diagonals = st.sampled_from(NORMALIZATIONS), st.sampled_from(["auto", "auto", "keep", "zero"])
_options = {"power": st.sampled_from(POWERS), "normalization": normalizations, "diagonal": diagonals}
_sketches = st.builds(
    hs.GaussianProcessEmbedding,
    st.integers(1, 3),
    trivial=st.sampled_from(["auto", "keep", "drop"]),
    random_state=st.just(0),
    affinity=st.just("precomputed"),
    **_options,
)
_maps = st.builds(hs.DiffusionMaps, st.just(1), affinity=st.just("precomputed"), **_options)
estimators = st.one_of(_sketches, _maps)


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
    expected, _, w = formula(W, normalization, alpha, diagonal)
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
    for form in (np.asarray, sparse.csr_array):
        scaled = form(in_units(W, scale)[order][:, order])
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
    st.sampled_from([np.float64, np.float32]),
    estimators,
)
def test_weights_of_any_size_are_embedded_or_refused(W, dtype, model):
    with np.errstate(over="ignore", under="ignore"):
        W = W.astype(dtype)
    Y, _ = answer(lambda: model.fit_transform(W))
    if Y is None:
        return
    assert np.isfinite(Y).all()
    if not model.kernel_.scaling.converged:  # then new rows, which are made to sum to 1, are others
        return
    for X in (W, sparse.csr_array(W)):
        Z, refusal = answer(lambda X=X: model.transform(X))
        assert Z is not None, refusal
        np.testing.assert_allclose(Z, Y, atol=1e-5 * abs(Y).max() + placing(model))


@cases(80)
@given(affinities(most=6), st.data())
def test_entries_that_no_affinity_has_are_refused(W, data):
    """A bad entry, alone or with its mirror image; asymmetry by rounding is mended."""
    i, j = data.draw(st.tuples(*[st.integers(0, len(W) - 1)] * 2))
    bad = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -1.0, -1e-300, "asymmetric", "rounded"]))
    X = W.copy()
    if isinstance(bad, str):
        j = (i + 1) % len(W)
        X[j, i] = X[i, j] = X[i, j] or 1.0
        X[i, j] *= 1 + (1e-12 if bad == "rounded" else 1e-3) * data.draw(st.sampled_from([-1, 1]))
    else:
        X[i, j] = bad
        X[j, i] = data.draw(st.sampled_from([bad, X[j, i]]))
    given, model = data.draw(in_a_form(X)), data.draw(estimators)
    before = contents(given)
    Y, refusal = answer(lambda: model.fit_transform(given))
    assert repr(contents(given)) == repr(before)  # NaN is not equal to itself
    if bad != "rounded":
        assert Y is None
        wanted = ("NaN", "infinity", "Negative") if not isinstance(bad, str) else ("not symmetric",)
        assert any(word in refusal for word in wanted), refusal
    elif Y is not None:
        assert np.isfinite(Y).all()
        if model.power >= 1:  # below, eigenvalues that are rounding count
            np.testing.assert_allclose(model.transform(X), Y, atol=1e-6 * abs(Y).max() + 1e-9)


@cases(60)
@given(affinities(least=3), normalizations, st.data())
def test_rows_of_training_vertices_land_on_them(W, normalization, data):
    """One by one; where several vertices have the same row, on their mean."""
    model = hs.GaussianProcessEmbedding(3, normalization=normalization, power=2, random_state=0, **GIVEN)
    Y, _ = answer(lambda: model.fit_transform(W))
    if Y is None:
        return
    some = data.draw(st.lists(st.integers(0, len(W) - 1), min_size=1, max_size=len(W) - 1))
    X = data.draw(st.sampled_from([np.asarray, np.asfortranarray, sparse.csr_array, sparse.coo_matrix]))(W[some])
    Z, refusal = answer(lambda: model.transform(X))
    if not W[some].any(axis=1).all():
        assert "no affinity to any training point" in refusal
        return
    same = (W[:, None] == W[None]).all(axis=2)
    expected = (same / same.sum(axis=1, keepdims=True)) @ Y
    np.testing.assert_allclose(Z, expected[some], atol=1e-6 * abs(Y).max())


@cases(40)
@given(affinities(least=3), st.sampled_from(SCALES), st.sampled_from([np.nan, np.inf, -1.0, 1.0]))
def test_rows_of_any_size_are_placed_or_refused(W, scale, entry):
    model, _ = answer(lambda: hs.GaussianProcessEmbedding(2, power=2, random_state=0, **GIVEN).fit(W))
    if model is None or not W[0].any():
        return
    X = in_units(W, scale)[:1]
    X[0, -1] = X[0, -1] if entry == 1.0 else entry
    for rows in (X, sparse.csr_array(X)):
        Z, refusal = answer(lambda rows=rows: model.transform(rows))
        if Z is None:
            assert any(word in refusal for word in ("NaN", "infinity", "non-negative", "same unit", "too far apart"))
            assert entry != 1.0 or scale < 1e-300 or scale > 1e300
        else:
            assert np.isfinite(Z).all()
            assert (X >= 0).all()
            size = abs(model.embedding_).max()
            assert abs(Z).max() <= 3 * size  # a mean of coefficients, as heat spreads


@st.composite
def distances(draw):
    """Symmetric, with a zero diagonal, ties and zeros; the triangle inequality does not hold."""
    n = draw(st.integers(3, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    D = np.triu(10.0 ** (draw(st.sampled_from([0.0, 1.0])) * rng.uniform(-1, 1, (n, n))), 1)
    D[rng.random((n, n)) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    return D + D.T


@cases(60)
@given(
    distances(), normalizations, st.sampled_from(SCALES), st.sampled_from(["auto", "median", "slope", "self-tuning"])
)
def test_distances_of_any_unit_give_one_kernel(D, normalization, scale, rule):
    options = {"metric": "precomputed", "normalization": normalization, "bandwidth": rule}
    A, refusal = answer(lambda: hs.heat_kernel(D, **options))
    X = np.asfortranarray(in_units(D, scale))
    before = X.copy()
    B, other = answer(lambda: hs.heat_kernel(X, **options))
    np.testing.assert_array_equal(X, before)
    if A is None or B is None:
        assert A is not None or B is None, refusal
        assert A is None or scale < 1e-140 or scale > 1e140, other
        return
    epsilon = A.bandwidth if np.ndim(A.bandwidth) == 0 else np.sqrt(np.outer(A.bandwidth, A.bandwidth))
    expected, _, w = formula(np.exp(-(D**2) / epsilon), normalization, 1.0, "keep")
    if A.scaling.converged:
        np.testing.assert_allclose(A.toarray(), w[:, None] * expected / w, atol=1e-6 * w.max() / w.min())
    if A.scaling.converged and B.scaling.converged:
        np.testing.assert_allclose(B.toarray(), A.toarray(), atol=1e-6 * abs(A.toarray()).max())
