"""Normalisations: their defining equations, convergence on the paper's data, and extension to new points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.normalize import NORMALIZATIONS as BY_NAME
from heatsketch.kernel.normalize import normalize
from heatsketch.linalg.operators import DenseOperator


def _affinity(n=120, seed=0, epsilon=0.5):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return GaussianAffinity(X, epsilon).operator


def _plain_sinkhorn(K, tol=1e-8):
    """Algorithm 2 as printed, except that two consecutive iterates are multiplied in its last line."""
    d = [np.ones(len(K)), K @ np.ones(len(K))]
    d.append(K @ (1 / d[1]))
    while np.abs(d[-1] / d[-3] - 1).max() > tol:
        d = [*d[-2:], K @ (1 / d[-1])]
    return d


@pytest.mark.parametrize("name", PAPER_SETS)
def test_row_sums_within_tol_in_at_most_60_products(name):
    X, setting = paper_data(name)
    A = hs.heat_kernel(X, bandwidth=setting.bandwidth, tol=1e-8)
    row_sums = A.toarray().sum(axis=1)
    assert np.abs(row_sums - 1).max() <= 1e-8
    assert A.scaling.n_iter <= 60
    assert 11 <= A.scaling.n_iter <= 13  # what docs/paper.md says
    assert A.scaling.converged
    # What is reported is what is measured.
    assert A.scaling.residual == pytest.approx(np.abs(row_sums - 1).max(), abs=1e-12)


def test_limit_is_that_of_the_papers_iteration():
    X, setting = paper_data("circle")
    K = GaussianAffinity(X, setting.bandwidth).operator.toarray()
    d = _plain_sinkhorn(K, tol=1e-10)
    expected = K / np.sqrt(d[-1] * d[-2])[:, None] / np.sqrt(d[-1] * d[-2])[None, :]
    np.testing.assert_allclose(hs.heat_kernel(X, bandwidth=setting.bandwidth, tol=1e-12).toarray(), expected, rtol=1e-8)


def test_last_line_of_algorithm_2_as_printed_is_wrong():
    X, setting = paper_data("circle")
    K = GaussianAffinity(X, setting.bandwidth).operator.toarray()
    d = _plain_sinkhorn(K)
    as_printed = np.sqrt(d[-1] * d[-3])
    row_sums = (K / as_printed[:, None] / as_printed[None, :]).sum(axis=1)
    assert np.ptp(row_sums) < 1e-5 * row_sums.mean()  # constant ...
    assert row_sums.mean() == pytest.approx(43.5, abs=0.1)  # ... but not 1


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_symmetric_is_algorithm_1(alpha):
    K = _affinity().array
    q = K.sum(axis=1) ** -alpha
    tilde = q[:, None] * K * q[None, :]
    v = tilde.sum(axis=1)
    scaling = normalize(DenseOperator(K), "symmetric", alpha=alpha)
    np.testing.assert_allclose(np.outer(scaling.scale, scaling.scale) * K, tilde / np.sqrt(np.outer(v, v)), rtol=1e-12)


def test_stochastic_is_the_markov_matrix_of_the_same_kernel(torus):
    P = hs.heat_kernel(torus, bandwidth=1.0, normalization="stochastic").toarray()
    A = hs.heat_kernel(torus, bandwidth=1.0, normalization="symmetric").toarray()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.eigvals(P).real.max(), 1.0)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(P).real), np.sort(np.linalg.eigvalsh(A)), atol=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_weighted_is_bistochastic_with_respect_to_the_weights(alpha):
    K = _affinity().array
    w = K.sum(axis=1) ** -alpha
    scaling = normalize(DenseOperator(K), "bistochastic-weighted", alpha=alpha)
    B = K * np.outer(scaling.scale, scaling.scale) / np.sqrt(np.outer(w, w))  # b(x, y) with sum_y b(x, y) w(y) = 1
    np.testing.assert_allclose(B @ w, 1.0, atol=1e-8)


def test_weighted_corrects_uneven_sampling():
    # A circle sampled with density 1 + .8 cos: the leading coordinates of the uniform circle come out round.
    rng = np.random.default_rng(0)
    theta = rng.uniform(0, 2 * np.pi, 20000)
    theta = theta[rng.uniform(0, 1.8, 20000) < 1 + 0.8 * np.cos(theta)][:2000]
    X = np.column_stack([np.cos(theta), np.sin(theta)])

    def roundness(normalization):
        Y = hs.DiffusionMaps(2, bandwidth=0.05, power=1, normalization=normalization).fit_transform(X)
        radius = np.linalg.norm(Y, axis=1)
        return radius.std() / radius.mean()

    assert roundness("bistochastic-weighted") < 0.1
    assert roundness("bistochastic-weighted") < 0.5 * roundness("bistochastic")


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_trivial_mode_has_eigenvalue_one_and_the_rest_less(normalization):
    K = _affinity(epsilon=4.0)
    scaling = normalize(K, normalization)
    S = np.outer(scaling.scale, scaling.scale) * K.array
    np.testing.assert_allclose(S @ scaling.trivial, scaling.trivial, atol=1e-8)
    assert np.linalg.norm(scaling.trivial) == pytest.approx(1)
    values = np.linalg.eigvalsh(S)
    assert values[-1] == pytest.approx(1, abs=1e-8)
    assert values[-2] < 1 - 1e-3
    assert values[0] > -1e-12  # the Gaussian kernel is positive semidefinite


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_extension_at_training_points_is_the_scaling(normalization):
    K = _affinity()
    scaling = normalize(K, normalization, alpha=0.7)
    degrees, sums = K.array.sum(axis=1), K.array @ scaling.reference
    left = scaling.extend(degrees, sums, np.zeros(len(K.array)))
    np.testing.assert_allclose(left, scaling.left, rtol=1e-12)
    # A kernel row may be given with its scale factored out.
    faint = scaling.extend(1e-30 * degrees, 1e-30 * sums, np.full(120, np.log(1e30)))
    np.testing.assert_allclose(1e-30 * faint, left, rtol=1e-9)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_multiplying_the_affinity_changes_nothing(normalization):
    K = _affinity()
    a, b = (normalize(DenseOperator(c * K.array), normalization) for c in (1.0, 1e-3))
    np.testing.assert_allclose(1e-3 * np.outer(b.scale, b.scale), np.outer(a.scale, a.scale), rtol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0])
def test_bistochastic_converges_at_every_bandwidth_on_skewed_data(epsilon):
    X = np.exp(1.5 * np.random.default_rng(0).normal(size=(400, 3)))
    scaling = normalize(GaussianAffinity(X, epsilon).operator)
    assert scaling.converged
    assert scaling.n_iter <= 60


def test_float32_asks_for_what_float32_can_give():
    X = hs.datasets.stretched_torus(300, random_state=0).astype(np.float32)
    A = hs.heat_kernel(X, bandwidth=1.0)
    assert A.dtype == np.float32
    assert np.abs(A.toarray().astype(np.float64).sum(axis=1) - 1).max() < 1e-5


def test_not_converging_warns_with_a_remedy():
    with pytest.warns(ConvergenceWarning, match=r"after 3 products, not within tol=1.0e-12. Raise max_iter"):
        scaling = normalize(_affinity(), tol=1e-12, max_iter=2)
    assert not scaling.converged
    assert 1e-12 < scaling.residual < 1


def test_a_star_without_self_loops_has_no_scaling_and_says_so():
    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = 1
    with pytest.warns(ConvergenceWarning, match="has no such scaling"):
        scaling = normalize(DenseOperator(star), max_iter=50)
    assert np.isfinite(scaling.scale).all()


def test_empty_rows_and_unknown_names_are_refused():
    K = np.ones((3, 3))
    K[1] = K[:, 1] = 0
    with pytest.raises(ValueError, match=r"1 rows of the affinity are zero \(the first is row 1\)"):
        normalize(DenseOperator(K))
    with pytest.raises(ValueError, match=r"'rowwise' is not known; use one of"):
        normalize(DenseOperator(np.ones((3, 3))), "rowwise")


def test_zero_diagonal_withstands_heteroskedastic_noise():
    # Landa, Coifman, Kluger: noise whose size varies with the point changes |x_i - x_j|^2 by n_i + n_j, which the
    # scaling absorbs; only the diagonal does not change, and so must go.
    rng = np.random.default_rng(0)
    theta = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    clean = np.zeros((200, 2000))
    clean[:, 0], clean[:, 1] = np.cos(theta), np.sin(theta)
    sizes = rng.uniform(0.05, 0.5, 200)
    noisy = clean + rng.normal(size=clean.shape) * (sizes / np.sqrt(2000))[:, None]

    def change(**options):
        a, b = (hs.heat_kernel(X, bandwidth=0.5, **options).toarray() for X in (clean, noisy))
        return np.linalg.norm(a - b) / np.linalg.norm(a)

    robust = change(normalization="bistochastic", diagonal="zero")
    assert robust < 0.25 * change(normalization="bistochastic")
    assert robust < 0.25 * change(normalization="symmetric")


def test_extreme_scalings_are_reached_by_plain_steps():
    # A triangle without self-loops: the scaling exists, far from where it starts.
    W = np.array([[0, 1, 1e-4], [1, 0, 1e-2], [1e-4, 1e-2, 0]])
    scaling = normalize(DenseOperator(W))
    assert scaling.converged
    np.testing.assert_allclose((np.outer(scaling.scale, scaling.scale) * W).sum(axis=1), 1.0, atol=1e-8)


def test_scalings_beyond_float32_are_refused_and_fine_in_float64():
    X = np.vstack([np.random.default_rng(0).normal(size=(200, 3)), [[12.0, 0, 0]]])
    options = {"bandwidth": 1.0, "diagonal": "zero", "normalization": "bistochastic"}
    assert np.isfinite(hs.heat_kernel(X, **options) @ np.ones(201)).all()
    with pytest.raises(ValueError, match=r"row 200 add up to .* more than scaling can bridge in float32. Use float64"):
        hs.heat_kernel(X.astype(np.float32), **options)


@pytest.mark.parametrize("beyond", [1e39, np.inf, np.nan])
def test_factors_out_of_range_are_refused(monkeypatch, beyond):
    K = DenseOperator(np.ones((3, 3), dtype=np.float32))
    found = normalize(K, "symmetric")
    far = np.array([1.0, beyond, 1.0])
    for name in ("scale", "left"):
        monkeypatch.setitem(BY_NAME, "symmetric", lambda *_, name=name: replace(found, **{name: far}))
        with pytest.raises(ValueError, match="cannot be scaled within the range of float32"):
            normalize(K, "symmetric")
