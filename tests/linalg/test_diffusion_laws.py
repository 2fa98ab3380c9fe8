"""Powers of the kernel step by step: the polynomial, the interval it lives on, the way that is chosen, and its cost."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch._utils.progress import _display
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg import diffusion
from heatsketch.linalg.diffusion import coefficients, diffuse, matrix_power
from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.ritz import ExtremeRitz
from laws import Display, Shuffled, Watched, assert_close, symmetric

N = 30
X = np.random.default_rng(0).normal(size=(N, 2))
M = np.random.default_rng(1).normal(size=(N, 3))


@cache
def _kernel(**options):
    """Made once: how kernels are made is not what is tested here."""
    return hs.heat_kernel(X, bandwidth=2.0, tol=1e-14, **options)


def _exact(kernel, t, block, *, trivial=True):
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    kept = np.abs(values) > 1e-13
    if not trivial:
        kept[-1] = False
    powers = np.where(kept, np.abs(np.where(kept, values, 1.0)) ** t * np.sign(values) ** (t % 2), 0.0)
    return (vectors * powers) @ (vectors.T @ block)


@pytest.mark.parametrize("normalization", ["bistochastic", "stochastic"])
@pytest.mark.parametrize("method", ["auto", "chebyshev", "eigen"])
@pytest.mark.parametrize("t", [2, 7.25, 60])
def test_powers_by_every_method(t, method, normalization):
    kernel = _kernel(normalization=normalization)
    for trivial in (True, False):
        found = diffuse(kernel, M, [t, 3], trivial=trivial, method=method)
        assert_close(found[0], _exact(kernel, t, M, trivial=trivial))
        assert_close(found[1], _exact(kernel, 3, M, trivial=trivial))
        if method != "eigen":
            Z = coefficients(kernel, M, t, trivial=trivial, method=method)
            assert_close(kernel.symmetric.toarray() @ Z, _exact(kernel, t, M, trivial=trivial))


@pytest.fixture
def soon_given_up(monkeypatch):
    """Long polynomials take long."""
    monkeypatch.setattr(diffusion, "_MOST_DEGREE", 60)


@pytest.mark.usefixtures("soon_given_up")
def test_coefficients_of_small_times():
    kernel = _kernel()
    for method in ("auto", "eigen"):
        Z = coefficients(kernel, M, 0.5, method=method)
        assert_close(kernel.symmetric.toarray() @ Z, _exact(kernel, 0.5, M), 1e-6)
    np.testing.assert_allclose(coefficients(kernel, M, 1, trivial=True), M, atol=1e-12)
    u = kernel.trivial
    np.testing.assert_allclose(coefficients(kernel, M, 1, trivial=False), M - np.outer(u, u @ M), atol=1e-12)
    # Nothing of the trivial mode remains, and it is there by default.
    for t in (0.5, 1, 4, 9.5):
        Z = coefficients(kernel, M, t, trivial=False)
        assert np.abs(u @ Z).max() < 1e-15 * max(1.0, np.abs(Z).max())
        np.testing.assert_allclose(u @ coefficients(kernel, M, t), u @ M, atol=1e-12 * max(1.0, np.abs(Z).max()))


class TestMatrices:
    @pytest.mark.parametrize("t", [1, 3, 2.5])
    def test_powers(self, t):
        kernel = _kernel()
        u = kernel.trivial
        assert_close(matrix_power(kernel, t), _exact(kernel, t, np.eye(N)), 1e-11)
        np.testing.assert_allclose(matrix_power(kernel, t) @ u, u, atol=1e-12)
        assert np.abs(matrix_power(kernel, t, trivial=False) @ u).max() < 1e-14

    def test_without_a_trivial_mode(self):
        A, Q = symmetric([0.9, 0.5, 0.2])
        kernel = as_heat_kernel(A)
        for trivial in (True, False):
            assert_close(matrix_power(kernel, 2, trivial=trivial), A @ A)
            assert_close(matrix_power(kernel, 0.5, trivial=trivial), (Q * np.sqrt([0.9, 0.5, 0.2])) @ Q.T)

    def test_in_float64_whatever_the_kernel_is_in(self):
        kernel = hs.heat_kernel(X.astype(np.float32), bandwidth=2.0)
        for t in (2, 1.5):
            assert matrix_power(kernel, t).dtype == np.float64

    def test_rounding_is_that_of_the_kernel(self):
        values = np.array([1.0, 3e-6, 1e-13])
        A, Q = symmetric(values)
        single = as_heat_kernel(A.astype(np.float32))
        with pytest.warns(ConvergenceWarning, match="known to 3.5e-03"):  # what is below rounding is zero
            assert_close(matrix_power(single, 0.5), np.outer(Q[:, 0], Q[:, 0]), 1e-6)
        assert np.linalg.eigvalsh(matrix_power(as_heat_kernel(A), 0.5))[0] == pytest.approx(np.sqrt(1e-13), rel=1e-2)


@pytest.mark.parametrize("power", [True, np.True_, "2", None, 0, -1, -0.5, np.inf, np.nan, 1j])
def test_what_is_no_time_is_refused(power):
    kernel = _kernel()
    for ask in (
        lambda: diffuse(kernel, M, [2, power]),
        lambda: coefficients(kernel, M, power),
        lambda: matrix_power(kernel, power),
    ):
        with pytest.raises(ValueError, match="must be a positive, finite number"):
            ask()


def test_times_are_any_positive_numbers():
    for power in (1, np.int8(3), np.float32(0.5), 1e-9, 1e300):
        assert diffusion.check_power(power) is None


@pytest.mark.parametrize("t", [4, 80, 9.5])
def test_times_of_any_type_give_the_same_to_the_bit(t):
    single = hs.heat_kernel(X.astype(np.float32), bandwidth=2.0)
    for kernel in (single, _kernel()):
        plain, Z = diffuse(kernel, M, [t])[0], coefficients(kernel, M, t)
        assert plain.dtype == Z.dtype == kernel.dtype
        for kind in (np.float64, np.float32, np.int64 if t != 9.5 else np.float64):
            found = diffuse(kernel, M, [kind(t)])[0]
            assert found.dtype == kernel.dtype
            np.testing.assert_array_equal(found, plain)
            np.testing.assert_array_equal(coefficients(kernel, M, kind(t)), Z)


class TestSteps:
    def test_as_many_products_as_the_largest_time(self):
        A = symmetric([0.9, -0.5, 0.2, 0.1])[0]
        S = Watched(A)
        blocks = diffusion._steps(S, np.eye(4), [3, 0, 5, 3])
        assert len(S.seen) == 5
        for block, p in zip(blocks, [3, 0, 5, 3], strict=True):
            np.testing.assert_allclose(block, np.linalg.matrix_power(A, p), atol=1e-14)

    def test_progress_is_counted(self):
        kernel, display = _kernel(), Display()
        token = _display.set(display)
        try:
            diffuse(kernel, M, [3], method="steps")
            steps, display.reports = display.reports, []
            diffuse(kernel, M, [3], method="chebyshev")
        finally:
            _display.reset(token)
        assert steps == [("multiplying by the kernel", n, 4) for n in range(5)]
        total = display.reports[-1][2]
        assert display.reports == [("multiplying by the kernel", n, total) for n in range(total + 1)]

    def test_none_is_needed_for_the_coefficients_of_time_one(self):
        S = Watched(_kernel().symmetric.toarray())
        np.testing.assert_array_equal(coefficients(hs.HeatKernel(S), M, 1, method="steps"), M)
        np.testing.assert_array_equal(coefficients(hs.HeatKernel(S), M, 1), M)
        assert not S.seen

    @pytest.mark.parametrize("powers", [[2.5], [2, 2.5]])
    def test_take_whole_powers(self, powers):
        with pytest.raises(ValueError, match="takes whole powers"):
            diffuse(_kernel(), M, powers, method="steps")
        with pytest.raises(ValueError, match="takes whole powers"):
            coefficients(_kernel(), M, 0.5, method="steps")


@pytest.mark.parametrize("method", ["steps", "chebyshev"])
def test_the_order_of_rows_does_not_matter(method):
    A = _kernel().symmetric.toarray()
    order = np.random.default_rng(3).permutation(N)
    expected = np.linalg.matrix_power(A, 4) @ M
    assert_close(diffuse(hs.HeatKernel(Shuffled(A, order)), M, [4], method=method)[0], expected)
    assert_close(diffuse(hs.HeatKernel(Shuffled(A, order)), M, [4, 2], method=method)[1], A @ A @ M)


def test_work_is_done_in_the_order_that_is_preferred():
    class Reluctant(Shuffled):
        def matmat(self, V):
            raise AssertionError("multiplied in the order of the samples")

    A, order = _kernel().symmetric.toarray(), np.random.default_rng(3).permutation(N)
    found = diffusion._in_order(lambda S, V: [S.matmat(V)], Reluctant(A, order), M)
    assert_close(found[0], A @ M, 1e-13)


def test_a_large_trivial_part_costs_no_digits():
    kernel = _kernel()
    t = round(-8 / np.log10(np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]))
    large = M + 1e9 * kernel.trivial[:, None]
    found, expected = (diffuse(kernel, V, [t], trivial=False, method="chebyshev")[0] for V in (large, M))
    assert_close(found, expected, 1e-4)


class TestTheWayThatIsChosen:
    """Steps cost t products, the polynomial sqrt(2 t log(2 / rtol)) and 15 for its interval."""

    @pytest.fixture
    def chosen(self, monkeypatch):
        found = []
        for name in ("_steps", "_evaluate_series", "_by_eigenvectors"):
            plain = getattr(diffusion, name)
            monkeypatch.setattr(
                diffusion, name, lambda *args, name=name, plain=plain, **kw: found.append(name) or plain(*args, **kw)
            )
        return found

    @pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, None), (np.float32, None), (np.float64, 1e-3)])
    def test_the_cheaper_one(self, chosen, dtype, rtol):
        kernel = hs.heat_kernel(X.astype(dtype), bandwidth=2.0)
        accuracy = rtol or {np.float64: 1e-10, np.float32: 1e-6}[dtype]
        times = np.arange(2, 200)
        cheaper = np.sqrt(2 * times * np.log(2 / accuracy)) + 15 < times
        first = int(times[cheaper][0])
        for t in (2, first - 1, first, first + 30):
            diffuse(kernel, M, [1, t], rtol=rtol)
        assert chosen == ["_steps", "_steps", "_evaluate_series", "_evaluate_series"]
        chosen.clear()
        coefficients(kernel, M, first, rtol=rtol)  # of one time less
        coefficients(kernel, M, first + 1, rtol=rtol)
        assert chosen == ["_steps", "_evaluate_series"]

    def test_what_is_asked_for(self, chosen):
        for method in ("steps", "chebyshev", "eigen"):
            diffuse(_kernel(), M, [80], method=method)
            coefficients(_kernel(), M, 80, method=method)
        assert chosen == ["_steps"] * 2 + ["_evaluate_series"] * 2 + ["_by_eigenvectors"] * 2
        with pytest.raises(ValueError, match="'nothing' is not known"):
            diffuse(_kernel(), M, [2], method="nothing")

    @pytest.mark.usefixtures("soon_given_up")
    def test_few_points_are_diagonalised_where_no_polynomial_reaches(self, chosen, monkeypatch):
        monkeypatch.setattr(diffusion, "_EIGEN_LIMIT", N)
        diffuse(_kernel(), M, [0.5])
        assert chosen == ["_by_eigenvectors"]
        monkeypatch.setattr(diffusion, "_EIGEN_LIMIT", N - 1)
        with pytest.warns(ConvergenceWarning, match="not to 1.0e-10"):
            diffuse(_kernel(), M, [0.5])
        monkeypatch.setattr(diffusion, "_EIGEN_LIMIT", N)
        with pytest.warns(ConvergenceWarning, match="not to 1.0e-09"):
            diffuse(_kernel(), M, [0.5], method="chebyshev", rtol=1e-9)
        assert chosen == ["_by_eigenvectors", "_evaluate_series", "_evaluate_series"]

    def test_accuracy_is_as_asked_for(self, monkeypatch):
        kernel = _kernel()
        second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
        exact = _exact(kernel, 40.5, np.eye(N), trivial=False)
        lengths, plain = [], diffusion._evaluate_series
        monkeypatch.setattr(diffusion, "_evaluate_series", lambda *a: lengths.append(len(a[3][0])) or plain(*a))
        for rtol in (1e-2, 1e-6, 1e-12):
            found = diffuse(kernel, np.eye(N), [40.5], trivial=False, rtol=rtol)[0]
            # Relative to the end of the interval, which is wider than the spectrum by 1 / (2 t).
            assert np.linalg.norm(found - exact, 2) < 2 * rtol * second**40.5
        assert lengths == [9 + int(np.sqrt(81 * np.log(2 / rtol))) for rtol in (1e-2, 1e-6, 1e-12)]


def test_a_kernel_that_is_all_trivial_has_no_other_powers():
    u = np.full(4, 0.5)
    kernel = hs.HeatKernel(DenseOperator(np.outer(u, u)), trivial=u, definite=True)
    for t in (2, 2.5, 90):
        np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t])[0], np.outer(u, u), atol=1e-15)
        np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t], trivial=False)[0], 0.0, atol=1e-15)


class TestEigenvectors:
    def test_zeros_have_no_power(self):
        np.testing.assert_allclose(diffusion._power(np.array([4.0, 0.0, 0.25]), -0.5), [0.5, 0.0, 2.0])
        np.testing.assert_allclose(diffusion._power(np.array([-2.0, 0.0]), 3), [-8.0, 0.0])

    def test_rounding_is_zero(self):
        A, _ = symmetric([2.0, 1e-12, -1e-12, 1e-15])
        A[0, 1] += 1e-13  # asymmetric by rounding
        values, vectors = diffusion._eigensystem(A, 2.0**-52)
        np.testing.assert_allclose(np.sort(values), [0, 0, 1e-12, 2], atol=1e-13)
        assert np.count_nonzero(values) == 2
        whole = diffusion._eigensystem(A, 2.0**-52, whole=True)[0]
        assert np.count_nonzero(whole) == 3
        assert_close((vectors * values) @ vectors.T, A, 1e-11)

    def test_what_is_negative_beyond_rounding_is_refused(self):
        limit = 1e3 * 100 * 1e-10 * 2.0
        diffusion._eigensystem(np.diag([2.0, -0.9999 * limit]), 1e-10)
        with pytest.raises(ValueError, match="use a whole power"):
            diffusion._eigensystem(np.diag([2.0, -1.0001 * limit]), 1e-10)
        diffusion._eigensystem(np.diag([2.0, -1.0]), 1e-10, whole=True)

    @pytest.mark.parametrize(
        ("e", "weight", "said"), [(0.1, 0, True), (-0.9, 1, True), (0.5, 0, False), (-0.5, 1, False)]
    )
    def test_what_is_lost_is_said(self, e, weight, said):
        # Eigenvalues below 100 units of rounding are left out: at t = 0.1 they make (2e-14)^0.1 = 4% of the largest.
        values = np.array([1.0, 0.5, 0.0, 0.0])
        A, Q = symmetric(values)
        S, V = DenseOperator(A), np.eye(4)
        if said:
            with pytest.warns(ConvergenceWarning, match="known to 4.3e-02 .* not to 1.0e-03"):
                found = diffusion._by_eigenvectors(S, V, [e, 2.0], weight)
        else:
            found = diffusion._by_eigenvectors(S, V, [2.0, e], weight)[::-1]
        assert_close(found[0], (Q[:, :2] * values[:2] ** e) @ Q[:, :2].T)
        assert_close(found[1], (Q * values**2) @ Q.T)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one zero is the trivial mode's
            diffusion._by_eigenvectors(DenseOperator(symmetric([1.0, 0.5, 0.0])[0]), np.eye(3), [e], weight)

    def test_limits_themselves_are_within(self, monkeypatch):
        rounding = 100 * 2.0**-20 * 2.0
        np.testing.assert_array_equal(diffusion._eigensystem(np.diag([2.0, rounding]), 2.0**-20)[0], [0.0, 2.0])
        monkeypatch.setattr("heatsketch.linalg.rounding._LOST", (100 * 2.0**-52) ** 0.5)
        diffusion._by_eigenvectors(DenseOperator(np.diag([1.0, 0.0, 0.0])), np.eye(3), [0.5], 0)

    def test_whole_powers_may_be_negative_and_single(self):
        A = np.diag([-0.5, 1.0]).astype(np.float32)
        found = diffusion._by_eigenvectors(DenseOperator(A), np.eye(2, dtype=np.float32), [3], 0)
        assert found[0].dtype == np.float32
        np.testing.assert_allclose(found[0], np.diag([-0.125, 1.0]))


class TestDefiniteness:
    def test_is_asked_for_only_where_it_matters(self, monkeypatch):
        monkeypatch.setattr(diffusion, "extreme_ritz", None)
        assert diffusion.require_definite(_kernel(), [2.5]) is None
        assert diffusion.require_definite(as_heat_kernel(np.diag([1.0, -1.0])), [1, 2.0, 7]) is None

    @pytest.mark.parametrize("scale", [1.0, 1e-5])
    def test_rounding_passes(self, scale):
        for low, refused in ((-0.9e-6, False), (-1.1e-6, True)):
            kernel = as_heat_kernel(scale * symmetric([1.0, 0.7, 0.3, low])[0])
            if refused:
                with pytest.raises(ValueError, match="use a whole power"):
                    diffusion.require_definite(kernel, [2, 2.5])
            else:
                diffusion.require_definite(kernel, [2, 2.5])

    def test_both_ends_are_looked_at(self, monkeypatch):
        asked = []
        monkeypatch.setattr(
            diffusion, "extreme_ritz", lambda S, a, both=False: asked.append((a, both)) or ExtremeRitz(0, 0, 1, 0)
        )
        diffusion.require_definite(as_heat_kernel(np.eye(2)), [0.5])
        assert asked == [(1e-6, True)]


@pytest.mark.usefixtures("soon_given_up")
@pytest.mark.parametrize("powers", [[4], [9.5, 80]])
def test_tensors_are_multiplied_alike(powers):
    torch = pytest.importorskip("torch")
    here, there = _kernel(), _kernel(device="torch-cpu")
    for trivial in (True, False):
        expected = diffuse(here, M, powers, trivial=trivial)
        for found, one in zip(diffuse(there, torch.from_numpy(M), powers, trivial=trivial), expected, strict=True):
            assert isinstance(found, torch.Tensor)
            assert_close(found.numpy(), one, 1e-8)
        for found, one in zip(diffuse(there, M, powers, trivial=trivial), expected, strict=True):
            assert isinstance(found, np.ndarray)
            assert_close(found, one, 1e-8)
    Z = coefficients(there, torch.from_numpy(M), 0.5)
    assert_close(Z.numpy(), coefficients(here, M, 0.5), 1e-6)
