"""Powers of the kernel: against eigendecomposition, by each method, at small, real and large powers."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg import diffusion
from heatsketch.linalg.diffusion import coefficients, diffuse, matrix_power, rows_of_powers
from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.sketch import GaussianSketch
from laws import Permuted, Recorded, assert_close, symmetric

N = 60
X = np.random.default_rng(0).normal(size=(N, 2))
M = np.random.default_rng(1).normal(size=(N, 3))
EPS = 2.0**-52
ROUNDING = 100 * EPS  # eigenvalues of a kernel of norm 1 below this are rounding


@cache
def make_kernel(**options):
    return hs.heat_kernel(X, bandwidth=2.0, tol=1e-13, **options)


def reference(kernel, t, block, *, trivial=True):
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray().astype(float))
    values = np.maximum(values, 0.0)
    if not trivial:
        values[-1] = 0.0
    return (vectors * values**t) @ (vectors.T @ block)


def ring(n):
    theta = np.linspace(0, 2 * np.pi, n, endpoint=False) + 0.01 * np.sin(np.arange(n))
    return np.column_stack([np.cos(theta), np.sin(theta)])


def recorded(kernel):
    """The same kernel, whose operator records the blocks that it multiplies."""
    operator = Recorded(kernel.symmetric.toarray())
    return hs.HeatKernel(operator, trivial=kernel.trivial, definite=True), operator


class TestPowers:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("method", ["steps", "chebyshev", "eigen", "auto"])
    def test_match_eigendecomposition(self, normalization, method):
        kernel = make_kernel(normalization=normalization)
        for t in (1, 8, 300) if method == "steps" else (1, 8, 300, 2.5, 99.5):
            for trivial in (True, False):
                found = diffuse(kernel, M, [t], trivial=trivial, method=method)[0]
                assert_close(found, reference(kernel, t, M, trivial=trivial), 1e-7)

    @pytest.mark.parametrize("t", [0.5, 1, 1.5, 8, 100.5])
    def test_coefficients_give_power_after_one_product(self, t):
        kernel = make_kernel()
        Z = coefficients(kernel, M, t, trivial=False)
        assert_close(kernel.symmetric @ Z, reference(kernel, t, M, trivial=False), 1e-6)
        assert np.abs(kernel.trivial @ Z).max() < 1e-14 * max(1.0, np.abs(Z).max())

    def test_semigroup(self):
        kernel = make_kernel()
        assert_close(diffuse(kernel, diffuse(kernel, M, [2.5])[0], [1.5])[0], diffuse(kernel, M, [4.0])[0], 1e-7)
        assert_close(diffuse(kernel, diffuse(kernel, M, [0.5])[0], [0.5])[0], kernel.symmetric @ M, 1e-6)

    @pytest.mark.parametrize("t", [3, 0.5])
    def test_matrix_power(self, t):
        kernel = make_kernel()
        assert_close(matrix_power(kernel, t), reference(kernel, t, np.eye(N)), 1e-7)
        assert np.abs(matrix_power(kernel, t, trivial=False) @ kernel.trivial).max() < 1e-9

    def test_of_matrix_without_trivial_mode(self):
        A, Q = symmetric([0.9, 0.5, 0.2])
        for t in (3, 0.5):
            expected = (Q * np.array([0.9, 0.5, 0.2]) ** t) @ Q.T
            assert_close(matrix_power(as_heat_kernel(A), t), expected)
            assert_close(diffuse(as_heat_kernel(A), np.eye(3), [t])[0], expected)

    def test_float32_stays_float32(self):
        single = hs.heat_kernel(X.astype(np.float32), bandwidth=2.0)
        for t in (4, np.float64(200), 2.5):
            Y = diffuse(single, M, [t], trivial=False)[0]
            assert Y.dtype == np.float32
            assert_close(Y, diffuse(make_kernel(), M, [t], trivial=False)[0], 1e-3)
        assert matrix_power(single, 2.5).dtype == np.float64

    def test_indefinite_kernel_has_whole_powers_only(self):
        kernel = make_kernel(diagonal="zero")
        expected = np.linalg.matrix_power(kernel.symmetric.toarray(), 30) @ M
        for method in ("steps", "chebyshev"):
            np.testing.assert_allclose(diffuse(kernel, M, [30], method=method)[0], expected, atol=1e-7)
        with pytest.raises(ValueError, match="negative eigenvalues"):
            diffuse(kernel, M, [2.5])
        with pytest.raises(ValueError, match="whole power"):
            matrix_power(kernel, 0.5)

    @pytest.mark.parametrize("method", ["steps", "chebyshev"])
    def test_row_order_does_not_matter(self, method):
        A = make_kernel().symmetric.toarray()
        kernel = hs.HeatKernel(Permuted(A, np.random.default_rng(3).permutation(N)))
        assert_close(diffuse(kernel, M, [4], method=method)[0], np.linalg.matrix_power(A, 4) @ M)

    @pytest.mark.parametrize("power", [0, -1, np.nan, np.inf, "8", True, 1j, None])
    def test_invalid_power(self, power):
        for compute in (
            lambda: diffuse(make_kernel(), M, [2, power]),
            lambda: coefficients(make_kernel(), M, power),
            lambda: matrix_power(make_kernel(), power),
        ):
            with pytest.raises(ValueError, match="power"):
                compute()

    def test_invalid_method(self):
        with pytest.raises(ValueError, match="'magic'"):
            diffuse(make_kernel(), M, [2], method="magic")
        with pytest.raises(ValueError, match="whole powers"):
            diffuse(make_kernel(), M, [2.5], method="steps")


class TestCost:
    def test_several_powers_take_one_pass(self):
        kernel, operator = recorded(make_kernel())
        powers = [32, 2, 4, 8, 2]
        for Y, t in zip(diffuse(kernel, M, powers, method="steps"), powers, strict=True):
            assert_close(Y, reference(kernel, t, M), 1e-9)
        assert len(operator.seen) < 40  # 32 of the block, and a few of single vectors that bound the norm

    def test_chebyshev_takes_fewer_products_than_steps(self):
        kernel, operator = recorded(make_kernel())
        assert_close(diffuse(kernel, M, [1000])[0], reference(kernel, 1000, M), 1e-8)
        assert len(operator.seen) < 300

    def test_polynomial_is_as_accurate_as_promised(self, monkeypatch):
        kernel = make_kernel()
        second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
        exact = reference(kernel, 40.5, np.eye(N), trivial=False)
        for rtol in (1e-2, 1e-6, 1e-12):
            monkeypatch.setitem(diffusion.RELATIVE_ERROR, np.dtype(np.float64), rtol)
            found = diffuse(kernel, np.eye(N), [40.5], trivial=False)[0]
            # Relative to the end of the interval, which exceeds the spectrum by 1 / (2 t).
            assert np.linalg.norm(found - exact, 2) < 2 * rtol * second**40.5


class TestLimits:
    """Large powers, powers below 1, rounding, overflow."""

    def test_second_mode_survives_large_power(self):
        # lambda_2^t is far below the rounding of the trivial mode.
        kernel = hs.heat_kernel(ring(200), bandwidth=0.25, tol=1e-13)
        values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
        block = GaussianSketch(0).matrix(200, 3)
        leading = (vectors[:, -3:-1] * values[-3:-1] ** 10_000) @ (vectors[:, -3:-1].T @ block)
        assert np.abs(leading).max() < 1e-20
        assert_close(diffuse(kernel, block, [10_000], trivial=False)[0], leading, 1e-5)

    def test_very_large_power_of_slowly_mixing_kernel(self):
        kernel = hs.heat_kernel(ring(200), bandwidth=2e-3, tol=1e-13)
        block = GaussianSketch(0).matrix(200, 3)
        expected = matrix_power(kernel, 200_000, trivial=False) @ block
        assert np.abs(expected).max() > 1e-60
        assert_close(diffuse(kernel, block, [8, 200_000], trivial=False)[1], expected, 1e-5)

    def test_large_trivial_part_costs_no_digits(self):
        kernel = make_kernel()
        t = round(-8 / np.log10(np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]))
        large = M + 1e9 * kernel.trivial[:, None]
        found, expected = (diffuse(kernel, V, [t], trivial=False, method="chebyshev")[0] for V in (large, M))
        assert_close(found, expected, 1e-4)

    def test_wide_interval_keeps_accuracy(self, monkeypatch):
        kernel, power = make_kernel(), 60
        second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
        monkeypatch.setattr(diffusion, "_spectral_interval", lambda *_: ((0.0, 1.3 * second), second))
        monkeypatch.setitem(diffusion.RELATIVE_ERROR, np.dtype(np.float64), 1e-2)
        found = diffuse(kernel, M, [power], trivial=False, method="chebyshev")[0]
        assert_close(found, reference(kernel, power, M, trivial=False), 1e-3)

    def test_slow_convergence_warns(self, monkeypatch):
        kernel = make_kernel()
        monkeypatch.setattr(diffusion, "_EIGEN_LIMIT", 10)
        with pytest.warns(ConvergenceWarning, match="known to"):
            Y = diffuse(kernel, M, [0.5])[0]
        assert_close(Y, reference(kernel, 0.5, M), 1e-3)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_half_power_of_ill_conditioned_kernel(self, dtype):
        # Eigenvalues reach down to rounding, which S^(-1/2) enlarges.
        circle = hs.datasets.circle(150, random_state=0)
        model = hs.GaussianProcessEmbedding(8, power=0.5, bandwidth=0.25, random_state=0).fit(circle.astype(dtype))
        kernel = hs.heat_kernel(circle, bandwidth=0.25)
        block = GaussianSketch(0).matrix(150, 8) / np.sqrt(8)
        expected = diffuse(kernel, block, [0.5], trivial=False, method="eigen")[0]
        assert model.embedding_.dtype == dtype
        assert_close(model.embedding_, expected, 1e-5 if dtype == np.float32 else 1e-6)

    @pytest.mark.parametrize("power", [1.5, 200])
    def test_precomputed_affinity_of_unknown_definiteness(self, power):
        circle = hs.datasets.circle(150, random_state=0)
        W = np.exp(-cdist(circle, circle, "sqeuclidean") / 0.25)
        given = hs.GaussianProcessEmbedding(3, power=power, affinity="precomputed", random_state=0).fit_transform(W)
        direct = hs.GaussianProcessEmbedding(3, power=power, bandwidth=0.25, random_state=0).fit_transform(circle)
        assert_close(given, direct, 1e-6)

    @pytest.mark.parametrize("method", ["chebyshev", "eigen"])
    def test_rounding_counts_as_zero(self, method):
        A, Q = symmetric(np.array([1.0, 0.9 * ROUNDING, -0.9 * ROUNDING]))
        kernel = hs.HeatKernel(DenseOperator(A), trivial=Q[:, 0])
        assert not matrix_power(kernel, 1.5, trivial=False).any()
        assert not diffuse(kernel, np.eye(3), [1.5], trivial=False, method=method)[0].any()

    def test_negative_eigenvalue_beyond_rounding_raises(self):
        A, Q = symmetric(np.array([1.0, 500 * ROUNDING, -2000 * ROUNDING]))
        with pytest.raises(ValueError, match="negative eigenvalues"):
            matrix_power(hs.HeatKernel(DenseOperator(A), trivial=Q[:, 0]), 1.5)

    def test_eigenvalues_lost_to_rounding_warn(self):
        # At a power of 0.1 an eigenvalue below rounding could count for 4% of the largest.
        kernel = as_heat_kernel(symmetric(np.array([1.0, 0.5, 0.0, 0.0]))[0])
        for compute in (lambda: matrix_power(kernel, 0.1), lambda: diffuse(kernel, np.eye(4), [0.1], method="eigen")):
            with pytest.warns(ConvergenceWarning, match="known to"):
                compute()
        matrix_power(as_heat_kernel(symmetric(np.array([1.0, 0.5, 0.2]))[0]), 0.1)

    def test_overflowing_power_raises(self):
        for size in (-3.0, 3.0):
            kernel = as_heat_kernel(np.diag([size, 0.5]).astype(np.float32))
            largest = int(np.log(np.finfo(np.float32).max / 2) / np.log(3.0))
            assert np.isfinite(diffuse(kernel, np.eye(2), [largest])[0]).all()
            with pytest.raises(ValueError, match="range of float32"):
                diffuse(kernel, np.eye(2), [largest + 1])
        diffusion.require_range(make_kernel(), [1e300])  # of norm 1

    def test_overflow_after_failed_scaling_names_the_scaling(self):
        kernel = hs.HeatKernel(DenseOperator(np.diag([3.0, 0.5])), scaling=SimpleNamespace(residual=2.0))
        with pytest.raises(ValueError, match="scaling did not converge"):
            diffusion.require_range(kernel, [1e4])

    def test_rank_one_kernel(self):
        u = np.full(4, 0.5)
        kernel = hs.HeatKernel(DenseOperator(np.outer(u, u)), trivial=u, definite=True)
        for t in (2, 2.5, 90):
            np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t])[0], np.outer(u, u), atol=1e-15)
            np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t], trivial=False)[0], 0.0, atol=1e-15)

    def test_distances_of_tiny_coordinates_do_not_underflow(self):
        maps = hs.DiffusionMaps(2, power=9000, bandwidth=0.25).fit(hs.datasets.circle(100, random_state=0))
        assert 0 < np.abs(maps.embedding_).max() < 1e-160
        assert maps.diffusion_distances().min() > 0
        exact = hs.diffusion_distances(maps.kernel_, 9000, [[0, 1]])
        assert exact[0] == pytest.approx(maps.diffusion_distances([[0, 1]])[0], rel=1e-3)
        for exhaustive in (True, False):
            assert np.isfinite(maps.distortion(exhaustive=exhaustive).log)


class TestGraphs:
    def test_long_path_at_large_and_real_power(self):
        kernel = hs.heat_kernel(nx.path_graph(200), affinity="precomputed", tol=1e-12)
        block = GaussianSketch(0).matrix(200, 2)
        for t in (500, 2.5):
            assert_close(diffuse(kernel, block, [t])[0], reference(kernel, t, block), 1e-6)

    @pytest.mark.parametrize("power", [1, 7, 200])
    def test_without_self_loops_stay_finite(self, power):
        for graph in (nx.star_graph(5), nx.complete_graph(3), nx.cycle_graph(5)):
            A = hs.heat_kernel(graph, affinity="precomputed", diagonal="keep", normalization="symmetric")
            expected = pdist(np.linalg.matrix_power(A.toarray(), power))
            pairs = np.column_stack(np.triu_indices(len(graph), 1))
            np.testing.assert_allclose(hs.diffusion_distances(A, power, pairs), expected, atol=1e-9)
            np.testing.assert_allclose(hs.diffusion_distances(A, power), expected, atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e-3])  # with and without the trivial mode in the interval
def test_rows_of_powers(torus, size):
    kernel = hs.heat_kernel(torus, bandwidth=1.0, n_neighbors=20)
    V, rows = np.random.default_rng(0).normal(size=(300, 3)), np.array([5, 3, 200])
    found = rows_of_powers(kernel, V, rows, [1.0, 6.0, 40.0], rtol=1e-6, size=size)
    expected = diffuse(kernel, V, [1.0, 6.0, 40.0], trivial=False)
    for block, whole in zip(found, expected, strict=True):
        np.testing.assert_allclose(block, whole[rows], atol=1e-4 * np.abs(whole).max())
