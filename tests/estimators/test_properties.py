"""Properties that hold for whatever data come: a finite embedding that transforms to itself, or one clear error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import cases
from conftest import NORMALIZATIONS


@st.composite
def points(draw, least=2):
    """Points with ties, duplicates and scales from tiny to huge."""
    shape = draw(st.tuples(st.integers(least, 25), st.integers(1, 20)))
    elements = draw(
        st.sampled_from([st.integers(-3, 3).map(float), st.floats(-1, 1, width=32), st.floats(-1e6, 1e6, width=32)])
    )
    X = draw(hnp.arrays(np.float64, shape, elements=elements))
    return X * draw(st.sampled_from([1.0, 1e-60, 1e60]))


def _fit(model, X):
    """Fit, or None where the data are refused in words."""
    refusal = ""
    try:
        return model.fit(X)
    except ValueError as error:
        refusal = str(error)
    assert len(refusal) > 40  # a sentence, not a code
    return None


@cases(30)
@given(points(), st.sampled_from(NORMALIZATIONS), st.sampled_from([1, 8, 8.5]))
def test_an_embedding_is_finite_and_transforms_to_itself(X, normalization, power):
    before = X.copy()
    model = _fit(hs.GaussianProcessEmbedding(3, normalization=normalization, power=power), X)
    np.testing.assert_array_equal(X, before)
    if model is not None:
        Y = model.embedding_
        assert np.isfinite(Y).all()
        np.testing.assert_allclose(model.transform(X), Y, atol=1e-6 * np.abs(Y).max())


@cases(30)
@given(points(), st.randoms(use_true_random=False))
def test_distances_follow_the_order_of_the_points(X, random):
    order = np.array(random.sample(range(len(X)), len(X)))
    try:
        a, b = hs.heat_kernel(X), hs.heat_kernel(X[order])
    except ValueError:
        with pytest.raises(ValueError, match=" "):
            hs.heat_kernel(X[order])
        return
    first, second = (hs.diffusion_distances(A, 4) for A in (a, b))
    np.testing.assert_allclose(np.sort(first), np.sort(second), atol=1e-6 * max(first.max(), 1e-300))


@cases(30)
@given(points(least=3), st.floats(0.01, 100))
def test_scaling_the_data_scales_the_bandwidth_and_nothing_else(X, factor):
    try:
        a = hs.heat_kernel(X)
    except ValueError:
        return
    b = hs.heat_kernel(factor * X)
    assert b.bandwidth == pytest.approx(factor**2 * a.bandwidth, rel=1e-6)
    np.testing.assert_allclose(b.toarray(), a.toarray(), atol=1e-5)


@cases(30)
@given(points(least=4))
def test_diffusion_maps_never_exceed_the_diffusion_distance(X):
    model = _fit(hs.DiffusionMaps(2, power=2), X)
    if model is not None:
        exact = hs.diffusion_distances(model.kernel_, 2)
        assert (model.diffusion_distances() <= exact + 1e-7 * exact.max()).all()


@st.composite
def affinities(draw):
    """Symmetric non-negative matrices with zeros, empty rows, and weights of very different size."""
    n = draw(st.integers(2, 12))
    entries = st.sampled_from([0.0, 0.0, 1.0, 1e-3, 1e3])
    W = draw(hnp.arrays(np.float64, (n, n), elements=entries))
    return np.triu(W) + np.triu(W, 1).T


@cases(30)
@given(affinities(), st.sampled_from(["symmetric", "bistochastic", "stochastic"]))
def test_any_affinity_is_embedded_or_refused(W, normalization):
    model = _fit(hs.GaussianProcessEmbedding(3, affinity="precomputed", normalization=normalization, power=3), W)
    if model is not None:
        assert np.isfinite(model.embedding_).all()
        np.testing.assert_allclose(model.transform(W), model.embedding_, atol=1e-8)
        if normalization == "bistochastic":
            np.testing.assert_allclose(model.kernel_.toarray().sum(axis=1), 1.0, atol=1e-7)


@cases(30)
@given(affinities())
def test_without_its_diagonal_an_affinity_may_have_no_scaling_and_says_so(W):
    A, refusal = None, ""
    try:
        A = hs.heat_kernel(W, affinity="precomputed", diagonal="keep", max_iter=200)
    except (ValueError, ConvergenceWarning) as said:
        refusal = str(said)
    if A is None:
        assert "cannot be scaled" in refusal or "has no such scaling" in refusal
    else:
        np.testing.assert_allclose(A.toarray().sum(axis=1), 1.0, atol=1e-7)
