"""Points of any shape and scale: a finite embedding that is right, or one clear error; silence; the input as it was."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import cases
from hostile_points import (
    LONG,
    affinity,
    attempt,
    expected_kernel,
    expected_rows,
    fitted,
    in_units_of,
    kernels,
    models,
    points,
    squares_underflow,
)
from laws import placing

GP = hs.GaussianProcessEmbedding
TOLERANCE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}


def _agree(found, expected, tolerance, rounding=0.0):
    """Compare arrays up to a share of the largest entry, and what rounding does to them."""
    assert np.isfinite(found).all()
    scale = float(np.abs(expected).max())
    allowed = tolerance * scale + rounding
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=0, atol=allowed)


@cases(40)
@given(points(), kernels())
def test_a_kernel_is_that_of_the_book(X, options):
    options, before = in_units_of(X, options), X.tobytes()
    A, said = attempt(lambda: hs.heat_kernel(X, **options))
    assert X.tobytes() == before
    if A is None:
        return
    found = A.toarray()
    assert np.isfinite(found).all()
    if said:  # the scaling did not converge
        return
    K = affinity(X, A.bandwidth, options)
    if options["normalization"] != "symmetric":
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=TOLERANCE[X.dtype])
    if squares_underflow(X):  # they are rounding
        return
    if np.diagonal(K).all() or "bistochastic" not in options["normalization"]:
        expected = expected_kernel(K, found.astype(LONG), options["normalization"], options["alpha"])
        _agree(found, expected, TOLERANCE[X.dtype])


@cases(40)
@given(points(), models())
def test_an_embedding_is_the_power_of_its_kernel_and_transforms_to_itself(X, model):
    before = X.tobytes()
    fit, said = fitted(X, model)
    assert X.tobytes() == before
    if fit is None:
        return
    Y = fit.embedding_
    assert (Y.shape, Y.dtype) == ((len(X), fit.n_components_), X.dtype)
    again, _ = attempt(lambda: fit.transform(X))
    assert again is not None
    _agree(again, Y, TOLERANCE[X.dtype], placing(fit))
    if isinstance(fit, GP) and fit.n_exact_ == 0 and float(fit.power_).is_integer() and not said:
        expected, trivial = _power_of_kernel(fit)
        rounding = (fit.power_ * _residual(fit) + len(X) * float(np.finfo(np.float64).eps)) * trivial
        _agree(Y, expected, TOLERANCE[X.dtype] * fit.power_, rounding)


def _power_of_kernel(fit):
    """``diag(w) S^t M`` in extended precision, with the trivial mode or without it; and the size of what it is in M."""
    S, u = fit.kernel_.symmetric.toarray().astype(LONG), fit.kernel_.trivial.astype(LONG)
    M = fit.sketch_.matrix(len(S), fit.n_components_).astype(LONG) / np.sqrt(LONG(fit.n_components_))
    trivial = np.outer(u, u)
    power = np.linalg.matrix_power(S - trivial, int(fit.power_)) + (
        trivial if not fit.kernel_.trivial_is_constant else 0
    )
    w = fit.kernel_.row_weight
    w = np.ones(len(S), LONG) if w is None else w.astype(LONG)
    return w[:, None] * (power @ M), float(w.max() * np.abs(u @ M).max())


QUESTIONS = {
    "distances": lambda fit: fit.diffusion_distances(),
    "interval": lambda fit: np.concatenate(fit.diffusion_distances([[0, 1]], interval=0.9)),
    "distortion": lambda fit: np.exp(-fit.distortion().log),
    "distortion of new points": lambda fit: np.exp(-fit.distortion(fit.kernel_.points).log),
    "times": lambda fit: fit.at_powers([1, 3.5, 20]),
    "growth": lambda fit: fit.add_components(1).embedding_,
    "growth to an error": lambda fit: fit.add_components(distance_error=0.5).embedding_,
    "diagnosis": lambda fit: len(str(fit.diagnose())),
    "scales": lambda fit: fit.scales().powers,
    "stability": lambda fit: fit.stability(n_repeats=1).kept,
    "support": lambda fit: fit.unsupported_neighbors(2).share,
    "dimension": lambda fit: fit.intrinsic_dimension_,
    "exact distances": lambda fit: hs.diffusion_distances(fit.kernel_, 2.5),
    "density": lambda fit: hs.spectral_density(fit.kernel_).entropy([1.0, 4.0]),
}


@cases(40)
@given(points(), models(), st.sampled_from(sorted(QUESTIONS)))
def test_a_fitted_embedding_answers_in_numbers_or_in_words(X, model, question):
    fit, _ = fitted(X, model)
    if fit is not None:
        answer, _ = attempt(lambda: QUESTIONS[question](fit))
        assert answer is None or np.isfinite(answer).all()


@cases(40)
@given(points(), kernels(), st.data())
def test_new_points_are_embedded_by_their_own_rows(X, options, data):
    options = in_units_of(X, options)
    fit, said = attempt(lambda: GP(2, power=2, random_state=0, **options).fit(X))
    if fit is None:
        return
    Q = data.draw(_new_points(X))
    before = Q.tobytes()
    Y, _ = attempt(lambda: fit.transform(Q))
    assert Q.tobytes() == before
    if Y is None:
        return
    assert np.isfinite(Y).all()
    if said or options["normalization"] == "symmetric" or options.get("diagonal") == "zero":
        return
    A, u = fit.kernel_.toarray().astype(LONG), fit.kernel_.trivial.astype(LONG)
    w = np.ones(len(u), LONG) if fit.kernel_.row_weight is None else fit.kernel_.row_weight.astype(LONG)
    M = fit.sketch_.matrix(len(X), 2).astype(LONG) / np.sqrt(LONG(2))
    Z = A @ (w[:, None] * M) - (w * u)[0] * (u @ M)  # a row of A, whose sum is 1, takes it to an embedding
    rows, moved = expected_rows(Q, X, A, fit.kernel_.bandwidth, options)
    known = np.isfinite(rows).all(axis=1) & (moved < TOLERANCE[X.dtype])
    # Row sums are 1 up to the residual of the scaling, once for A and once for the new row.
    residual = max(_residual(fit), 10 * float(np.finfo(X.dtype).eps))
    tolerance = 10 * TOLERANCE[X.dtype] * float(np.abs(Z).max()) + 2 * residual * float(np.abs(w[:, None] * M).max())
    np.testing.assert_allclose(Y[known].astype(float), (rows @ Z)[known].astype(float), rtol=0, atol=tolerance)
    # Of points so far away that rounding decides, it is sure that they lie among the others.
    assert (Y <= Z.max(axis=0) + tolerance).all()
    assert (Y >= Z.min(axis=0) - tolerance).all()


def _residual(fit):
    """By how much row sums differ from 1."""
    return 0.0 if fit.kernel_.scaling is None else fit.kernel_.scaling.residual


@st.composite
def _new_points(draw, X):
    """Points near to, on and far from those given, or of another scale altogether."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([0.0, 1e-8, 1.0, 1e3, 1e8, 1e18, 1e100, 1e290]))
    largest = float(np.abs(X).max()) or 1.0
    with np.errstate(over="ignore", under="ignore"):
        Q = X[rng.integers(len(X), size=3)] + size * min(largest, 1e300) * rng.normal(size=(3, X.shape[1]))
    limit = np.finfo(X.dtype)
    return np.clip(Q, limit.min, limit.max).astype(draw(st.sampled_from([X.dtype, np.float64])))


@cases(40)
@given(points(scaled=False), models(), st.integers(-520, 520))
def test_another_unit_of_length_changes_nothing_or_is_refused(X, model, exponent):
    kind, options = model
    X, options = X.astype(np.float64), in_units_of(X, options)
    if options["power"] == "auto":  # a search, in which rounding decides where all times are alike
        options["power"] = 8
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(X, exponent)  # of which nothing is rounded
        if not np.array_equal(np.ldexp(scaled, -exponent), X) or squares_underflow(X) or squares_underflow(scaled):
            return
        if not isinstance(options["bandwidth"], str):
            bandwidth = float(np.ldexp(options["bandwidth"], 2 * exponent))
            if not np.isfinite(bandwidth) or np.ldexp(bandwidth, -2 * exponent) != options["bandwidth"]:
                return
    first, _ = attempt(lambda: kind(**options).fit(X))
    if isinstance(options["bandwidth"], str):
        bandwidth = options["bandwidth"]
    second, _ = attempt(lambda: kind(**{**options, "bandwidth": bandwidth}).fit(scaled))
    if first is None or second is None:
        return
    if first.kernel_.scaling is None or first.kernel_.scaling.converged:  # else it stopped somewhere
        _agree(second.kernel_.toarray(), first.kernel_.toarray(), max(1e-9, len(X) * _residual(first)))
        if kind is GP:  # eigenvectors of equal eigenvalues, and what is optimised, may follow the last digit
            _agree(second.embedding_, first.embedding_, 1e-7)


@cases(40)
@given(points(), kernels(), st.randoms(use_true_random=False))
def test_the_order_of_points_changes_nothing(X, options, random):
    options = in_units_of(X, options)
    order = np.array(random.sample(range(len(X)), len(X)))
    (A, said), (B, too) = (attempt(lambda Z=Z: hs.heat_kernel(Z, **options)) for Z in (X, X[order]))
    if ConvergenceWarning in (*said, *too):  # how far a scaling came before it was given up follows rounding
        return
    assert (A is None) == (B is None)
    if A is not None:
        _agree(B.toarray(), A.toarray()[order][:, order], TOLERANCE[X.dtype])
