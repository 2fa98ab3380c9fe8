"""Normalizations: their defining equations, convergence of the scaling, and the extension to new points."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data
from heatsketch.kernel import normalize as module
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.normalize import normalize, sinkhorn
from heatsketch.linalg.anderson import Anderson
from heatsketch.linalg.operators import DenseOperator
from laws import Permuted, Recorded


def gaussian(n=40, seed=0, epsilon=0.5):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return GaussianAffinity(X, epsilon).operator.toarray()


class TestEquations:
    @pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
    def test_symmetric_is_algorithm_1(self, alpha):
        K = gaussian()
        q = K.sum(axis=1) ** -alpha
        tilde = q[:, None] * K * q[None, :]
        v = tilde.sum(axis=1)
        scaling = normalize(DenseOperator(K), "symmetric", alpha=alpha)
        expected = tilde / np.sqrt(np.outer(v, v))
        np.testing.assert_allclose(np.outer(scaling.scale, scaling.scale) * K, expected, rtol=1e-12)

    def test_stochastic_is_the_markov_matrix_of_the_same_kernel(self, torus):
        P, A = (
            hs.heat_kernel(torus[:100], bandwidth=1.0, normalization=name).toarray()
            for name in ("stochastic", "symmetric")
        )
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(np.sort(np.linalg.eigvals(P).real), np.sort(np.linalg.eigvalsh(A)), atol=1e-10)

    @pytest.mark.parametrize("alpha", [0.5, 1.0])
    def test_weighted_is_bistochastic_with_respect_to_the_weights(self, alpha):
        K = gaussian()
        w = K.sum(axis=1) ** -alpha
        scaling = normalize(DenseOperator(K), "bistochastic-weighted", alpha=alpha)
        B = K * np.outer(scaling.scale, scaling.scale) / np.sqrt(np.outer(w, w))  # sum_y b(x, y) w(y) = 1
        np.testing.assert_allclose(B @ w, 1.0, atol=1e-8)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_trivial_mode_has_the_largest_eigenvalue(self, normalization):
        K = gaussian(epsilon=4.0)
        scaling = normalize(DenseOperator(K), normalization)
        S = np.outer(scaling.scale, scaling.scale) * K
        np.testing.assert_allclose(S @ scaling.trivial, scaling.trivial, atol=1e-8)
        assert np.linalg.norm(scaling.trivial) == pytest.approx(1)
        values = np.linalg.eigvalsh(S)
        assert values[-1] == pytest.approx(1, abs=1e-8)
        assert values[-2] < 1 - 1e-3
        assert values[0] > -1e-12  # the Gaussian kernel is positive semidefinite

    @pytest.mark.parametrize("tol", [1e-8, 0.1])
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_extension_at_training_points_is_the_scaling(self, normalization, tol):
        K = gaussian()
        scaling = normalize(DenseOperator(K), normalization, alpha=0.7, tol=tol)
        degrees, sums = K.sum(axis=1), K @ scaling.reference
        left = scaling.left_factor(degrees, sums, np.zeros(len(K)))
        np.testing.assert_allclose(left, scaling.left, rtol=1e-12)
        # A kernel row may be given with its scale factored out.
        faint = scaling.left_factor(1e-30 * degrees, 1e-30 * sums, np.full(len(K), np.log(1e30)))
        np.testing.assert_allclose(1e-30 * faint, left, rtol=1e-9)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_units_and_row_order_do_not_matter(self, normalization):
        K = gaussian()
        plain = normalize(DenseOperator(K), normalization, tol=1e-13)
        scaled = normalize(DenseOperator(1e-3 * K), normalization, tol=1e-13)
        expected = np.outer(plain.scale, plain.scale)
        np.testing.assert_allclose(1e-3 * np.outer(scaled.scale, scaled.scale), expected, rtol=1e-10)
        order = np.random.default_rng(1).permutation(len(K))
        permuted = normalize(Permuted(K, order), normalization, tol=1e-13)
        for field in fields(plain):
            a, b = (getattr(found, field.name) for found in (plain, permuted))
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12, err_msg=field.name)


def paper_iteration(K, tol):
    """Algorithm 2 as printed, without its last line."""
    d = [np.ones(len(K)), K @ np.ones(len(K))]
    d.append(K @ (1 / d[1]))
    while np.abs(d[-1] / d[-3] - 1).max() > tol:
        d = [*d[-2:], K @ (1 / d[-1])]
    return d


class TestPaper:
    @pytest.mark.parametrize("name", PAPER_SETS)
    def test_row_sums_within_tol_in_13_products(self, name):
        X, setting = paper_data(name)
        A = hs.heat_kernel(X, bandwidth=setting.bandwidth, tol=1e-8)
        residual = np.abs(A.toarray().sum(axis=1) - 1).max()
        assert residual <= 1e-8
        assert A.scaling.converged
        assert A.scaling.residual == pytest.approx(residual, abs=1e-12)
        assert A.scaling.n_iter <= 13

    def test_limit_is_that_of_algorithm_2(self):
        X, setting = paper_data("circle")
        K = GaussianAffinity(X, setting.bandwidth).operator.toarray()
        d = paper_iteration(K, tol=1e-10)
        expected = K / np.sqrt(d[-1] * d[-2])[:, None] / np.sqrt(d[-1] * d[-2])[None, :]
        A = hs.heat_kernel(X, bandwidth=setting.bandwidth, tol=1e-12).toarray()
        np.testing.assert_allclose(A, expected, rtol=1e-8)
        # Its last line as printed multiplies d_k and d_(k-2): row sums are constant, but not 1.
        d = paper_iteration(K, tol=1e-8)
        row_sums = (K / np.sqrt(d[-1] * d[-3])[:, None] / np.sqrt(d[-1] * d[-3])[None, :]).sum(axis=1)
        np.testing.assert_allclose(row_sums, 43.5, atol=0.1)

    def test_weighted_corrects_uneven_sampling(self):
        # A circle sampled with density 1 + .8 cos: the leading coordinates of the uniform circle come out round.
        rng = np.random.default_rng(0)
        theta = rng.uniform(0, 2 * np.pi, 8000)
        theta = theta[rng.uniform(0, 1.8, 8000) < 1 + 0.8 * np.cos(theta)][:1000]
        X = np.column_stack([np.cos(theta), np.sin(theta)])

        def roundness(normalization):
            Y = hs.DiffusionMaps(2, bandwidth=0.05, power=1, normalization=normalization).fit_transform(X)
            radius = np.linalg.norm(Y, axis=1)
            return radius.std() / radius.mean()

        weighted = roundness("bistochastic-weighted")
        assert weighted < 0.1
        assert weighted < 0.5 * roundness("bistochastic")

    def test_zero_diagonal_is_robust_to_heteroskedastic_noise(self):
        # Landa, Coifman, Kluger: noise whose size varies with the point changes |x_i - x_j|^2 by n_i + n_j, which the
        # scaling absorbs; only the diagonal does not change, and so must go.
        rng = np.random.default_rng(0)
        theta = np.linspace(0, 2 * np.pi, 100, endpoint=False)
        clean = np.zeros((100, 2000))
        clean[:, 0], clean[:, 1] = np.cos(theta), np.sin(theta)
        noisy = clean + rng.normal(size=clean.shape) * (rng.uniform(0.05, 0.5, 100) / np.sqrt(2000))[:, None]

        def change(**options):
            a, b = (hs.heat_kernel(X, bandwidth=0.5, **options).toarray() for X in (clean, noisy))
            return np.linalg.norm(a - b) / np.linalg.norm(a)

        robust = change(normalization="bistochastic", diagonal="zero")
        assert robust < 0.25 * change(normalization="bistochastic")
        assert robust < 0.25 * change(normalization="symmetric")


class TestLimits:
    @pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0])
    def test_converges_at_every_bandwidth_on_skewed_data(self, epsilon):
        X = np.exp(1.5 * np.random.default_rng(0).normal(size=(150, 3)))
        scaling = normalize(GaussianAffinity(X, epsilon).operator)
        assert scaling.converged
        assert scaling.n_iter <= 60

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_tolerance_is_limited_by_rounding(self, dtype):
        scaling = normalize(DenseOperator(gaussian().astype(dtype)), tol=0.0)
        assert scaling.converged
        assert scaling.residual <= 64 * np.finfo(dtype).eps

    @pytest.mark.parametrize("max_iter", [10, 100])
    def test_no_convergence_warns_and_returns_the_best(self, max_iter):
        star = np.zeros((6, 6))  # without self-loops: row sums approach 1, but no scaling exists
        star[0, 1:] = star[1:, 0] = 1
        K = Recorded(star)
        with pytest.warns(ConvergenceWarning, match="max_iter.*no such scaling"):
            found = normalize(K, max_iter=max_iter)
        rows = [s * product for s, product in zip(K.seen[1:], K.products[1:], strict=True)]
        assert found.residual == min(np.abs(r - 1).max() for r in rows)
        assert not found.converged
        assert np.isfinite(found.scale).all()

    @pytest.mark.parametrize("bad", [0.0, np.nan])
    def test_empty_row_raises(self, bad):
        with pytest.raises(ValueError, match=r"2 rows .* row 2\)"):
            normalize(DenseOperator(np.eye(5)), degrees=np.array([1.0, 2.0, bad, 3.0, bad]))

    def test_scaling_beyond_float32_raises(self):
        X = np.vstack([np.random.default_rng(0).normal(size=(100, 3)), [[12.0, 0, 0]]])
        options = {"bandwidth": 1.0, "diagonal": "zero", "normalization": "bistochastic"}
        assert np.isfinite(hs.heat_kernel(X, **options) @ np.ones(101)).all()
        with pytest.raises(ValueError, match="float64"):
            hs.heat_kernel(X.astype(np.float32), **options)


HARD = {
    "weights over a hundred orders of magnitude": lambda rng, n: (
        np.outer(*[10.0 ** rng.uniform(-50, 0, n)] * 2) * (1 + rng.random((n, n)))
    ),
    "sparse": lambda rng, n: rng.random((n, n)) * (rng.random((n, n)) < 0.3) + np.diag(10.0 ** rng.uniform(-6, 0, n)),
    "nearly two blocks": lambda rng, n: (
        (np.kron(np.eye(2), np.ones((n, n))) + 1e-12) * (1 + rng.random((2 * n, 2 * n)))
    ),
    "nearly bipartite": lambda rng, n: (
        np.kron([[0, 1], [0, 0]], rng.random((n, n))) + np.diag(10.0 ** rng.uniform(-8, -2, 2 * n))
    ),
    "path": lambda rng, n: np.diag(10.0 ** rng.uniform(-5, 5, n)) + np.diag(10.0 ** rng.uniform(-5, 5, n - 1), 1),
    "log-normal": lambda rng, n: np.exp(10 * rng.normal(size=(n, n))),
}


class TestConvergence:
    @pytest.mark.parametrize("name", HARD)
    def test_acceleration_reaches_the_tolerance_on_hard_matrices(self, name):
        rng = np.random.default_rng(2)
        for _ in range(8):
            W = HARD[name](rng, int(rng.integers(3, 14)))
            W = (W + W.T) / (W + W.T).max()
            s, sums, _ = sinkhorn(
                DenseOperator(W), np.ones(len(W)), start=W.sum(axis=1) ** -0.5, tol=1e-10, max_iter=1000
            )
            assert np.abs(sums - 1).max() <= 1e-10
            np.testing.assert_allclose(s * (W @ s), 1.0, atol=1e-10 + 4 * len(s) * np.finfo(np.float64).eps)

    def test_acceleration_takes_fewer_products_than_plain_steps(self, monkeypatch):
        class Plain:
            def extrapolate(self, x, step):
                return x + step, False

        K, counts = DenseOperator(gaussian(200)), []
        for kind in (Anderson, Plain):
            monkeypatch.setattr(module, "Anderson", kind)
            counts.append(normalize(K, tol=1e-12).n_iter)
        # Plain steps of a definite kernel halve the error: 40 for twelve digits.
        assert counts[0] < 0.6 * counts[1] <= 0.6 * 45

    def test_anderson_solves_a_linear_iteration(self):
        A, b = np.diag([0.9, 0.5, -0.3, 0.1]), np.random.default_rng(0).normal(size=4)
        x, solver = np.zeros(4), Anderson()
        for _ in range(6):  # one more than there are modes, and the first is a plain step
            x, _ = solver.extrapolate(x, A @ x + b - x)
        np.testing.assert_allclose(x, np.linalg.solve(np.eye(4) - A, b), rtol=1e-8)

    def test_error_of_the_scaling_is_bounded_by_the_residual(self):
        X = np.random.default_rng(0).normal(size=(60, 3))
        tight = hs.heat_kernel(X, bandwidth=0.5, tol=1e-14).scaling
        for tol in (1e-4, 1e-8):
            loose = hs.heat_kernel(X, bandwidth=0.5, tol=tol).scaling
            assert loose.residual <= tol
            assert loose.n_iter <= tight.n_iter
            # (1 + S)^-1 has norm at most 1 for a definite kernel.
            assert np.linalg.norm(np.log(loose.scale / tight.scale)) <= np.sqrt(60) * (loose.residual + 1e-13)
