"""Powers of the kernel step by step: the polynomial, the interval it lives on, the way that is chosen, and its cost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch import diffusion
from heatsketch.diffusion import coefficients, diffuse, matrix_power
from heatsketch.heat_operator import as_heat_kernel
from heatsketch.operators import DenseOperator
from heatsketch.ritz import ExtremeRitz
from test_normalize_laws import Display, Shuffled, Watched, _display

N = 30
X = np.random.default_rng(0).normal(size=(N, 2))
M = np.random.default_rng(1).normal(size=(N, 3))


def _kernel(**options):
    return hs.heat_kernel(X, bandwidth=2.0, tol=1e-14, **options)


def _symmetric(values, seed=0):
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return (Q * values) @ Q.T, Q


def _exact(kernel, t, block, *, trivial=True):
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    kept = np.abs(values) > 1e-13
    if not trivial:
        kept[-1] = False
    powers = np.where(kept, np.abs(np.where(kept, values, 1.0)) ** t * np.sign(values) ** (t % 2), 0.0)
    return (vectors * powers) @ (vectors.T @ block)


def _close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("normalization", ["bistochastic", "stochastic"])
@pytest.mark.parametrize("method", ["auto", "chebyshev", "eigen"])
@pytest.mark.parametrize("t", [2, 7.25, 60])
def test_powers_by_every_method(t, method, normalization):
    kernel = _kernel(normalization=normalization)
    for trivial in (True, False):
        found = diffuse(kernel, M, [t, 3], trivial=trivial, method=method)
        _close(found[0], _exact(kernel, t, M, trivial=trivial))
        _close(found[1], _exact(kernel, 3, M, trivial=trivial))
        if method != "eigen":
            Z = coefficients(kernel, M, t, trivial=trivial, method=method)
            _close(kernel.symmetric.toarray() @ Z, _exact(kernel, t, M, trivial=trivial))


@pytest.fixture
def soon_given_up(monkeypatch):
    """Long polynomials take long."""
    monkeypatch.setattr(diffusion, "_MOST_DEGREE", 60)


@pytest.mark.usefixtures("soon_given_up")
def test_coefficients_of_small_times():
    kernel = _kernel()
    for method in ("auto", "eigen"):
        Z = coefficients(kernel, M, 0.5, method=method)
        _close(kernel.symmetric.toarray() @ Z, _exact(kernel, 0.5, M), 1e-6)
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
        _close(matrix_power(kernel, t), _exact(kernel, t, np.eye(N)), 1e-11)
        np.testing.assert_allclose(matrix_power(kernel, t) @ u, u, atol=1e-12)
        assert np.abs(matrix_power(kernel, t, trivial=False) @ u).max() < 1e-14

    def test_without_a_trivial_mode(self):
        A, Q = _symmetric([0.9, 0.5, 0.2])
        kernel = as_heat_kernel(A)
        for trivial in (True, False):
            _close(matrix_power(kernel, 2, trivial=trivial), A @ A)
            _close(matrix_power(kernel, 0.5, trivial=trivial), (Q * np.sqrt([0.9, 0.5, 0.2])) @ Q.T)

    def test_in_float64_whatever_the_kernel_is_in(self):
        kernel = hs.heat_kernel(X.astype(np.float32), bandwidth=2.0)
        for t in (2, 1.5):
            assert matrix_power(kernel, t).dtype == np.float64

    def test_rounding_is_that_of_the_kernel(self):
        values = np.array([1.0, 3e-6, 1e-13])
        A, Q = _symmetric(values)
        single = as_heat_kernel(A.astype(np.float32))
        _close(matrix_power(single, 0.5), np.outer(Q[:, 0], Q[:, 0]), 1e-6)  # what is below rounding is zero
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
        diffusion.check_power(power)


class TestSteps:
    def test_as_many_products_as_the_largest_time(self):
        A, Q = _symmetric([0.9, -0.5, 0.2, 0.1])
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
    _close(diffuse(hs.HeatKernel(Shuffled(A, order)), M, [4], method=method)[0], expected)
    _close(diffuse(hs.HeatKernel(Shuffled(A, order)), M, [4, 2], method=method)[1], A @ A @ M)


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


class TestTheInterval:
    RITZ = ExtremeRitz(low=-0.3, low_residual=0.01, high=0.8, high_residual=0.02)

    @pytest.fixture
    def seen(self, monkeypatch):
        found = {"ritz": self.RITZ}

        def ritz(S, accuracy, *, both=False):
            found.setdefault("accuracy", []).append(accuracy)
            return found["ritz"]

        def series(interval, exponents, rtol, weight):
            found["asked"] = interval, list(exponents), rtol, weight
            return [np.array([0.0, 1.0]) for _ in exponents], 0.0

        monkeypatch.setattr(diffusion, "extreme_ritz", ritz)
        monkeypatch.setattr(diffusion, "_chebyshev_series", series)
        return found

    @pytest.mark.parametrize(("times", "margin"), [([3, 9], 0.01), ([99, 2], 0.005), ([49], 0.01), ([50], 0.5 / 51)])
    def test_holds_the_spectrum_with_room(self, seen, times, margin):
        A = _symmetric(np.linspace(-0.3, 0.8, 6))[0]
        blocks = diffuse(as_heat_kernel(A), np.eye(6), times, method="chebyshev", rtol=1e-5)
        (low, high), exponents, rtol, weight = seen["asked"]
        assert seen["accuracy"] == [pytest.approx(0.1 * margin)]
        assert low == pytest.approx(-0.3 - 0.01 - margin * 0.8)
        assert high == pytest.approx(0.8 + 0.02 + margin * 0.8)
        assert (exponents, rtol, weight) == (times, 1e-5, 0)
        # The series is in units of the end that is further from zero.
        half, centre = (high - low) / 2, (high + low) / 2
        for block, t in zip(blocks, times, strict=True):
            _close(block, high**t * (A - centre * np.eye(6)) / half)

    def test_reaches_zero_from_below(self, seen):
        seen["ritz"] = ExtremeRitz(low=-0.9, low_residual=0.0, high=-0.1, high_residual=0.0)
        blocks = diffuse(as_heat_kernel(-np.eye(3)), np.eye(3), [3], method="chebyshev")
        low, high = seen["asked"][0]
        assert (low, high) == (pytest.approx(-0.9 - 0.009), pytest.approx(0.009))
        _close(blocks[0], 0.909**3 * (-np.eye(3) - (low + high) / 2 * np.eye(3)) / ((high - low) / 2))

    def test_begins_at_zero_where_nothing_is_negative(self, seen):
        kernel = _kernel()
        assert kernel.definite
        coefficients(kernel, M, 61, method="chebyshev")
        assert seen["asked"][0][0] == 0.0
        assert seen["asked"][1:] == ([60], 1e-10, 1)
        seen["ritz"] = ExtremeRitz(0.0, 0.0, 0.8, 0.0)
        diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [2.5], method="chebyshev")
        assert seen["asked"][0][0] == 0.0

    def test_of_nothing_is_nothing(self, seen):
        seen["ritz"] = ExtremeRitz(0.0, 0.0, 0.0, 0.0)
        blocks = diffuse(as_heat_kernel(np.zeros((3, 3))), np.eye(3), [2, 7], method="chebyshev")
        assert len(blocks) == 2
        assert not np.any(blocks)
        assert "asked" not in seen


def test_a_kernel_that_is_all_trivial_has_no_other_powers():
    u = np.full(4, 0.5)
    kernel = hs.HeatKernel(DenseOperator(np.outer(u, u)), trivial=u, definite=True)
    for t in (2, 2.5, 90):
        np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t])[0], np.outer(u, u), atol=1e-15)
        np.testing.assert_allclose(diffuse(kernel, np.eye(4), [t], trivial=False)[0], 0.0, atol=1e-15)


class TestTheSeries:
    def test_points_are_the_zeros(self):
        np.testing.assert_allclose(diffusion._chebyshev_points(7), chebyshev.chebpts1(7)[::-1], atol=1e-15)

    def test_interpolates(self):
        points = diffusion._chebyshev_points(9)
        np.testing.assert_allclose(
            diffusion._interpolate(np.exp(points)), chebyshev.chebinterpolate(np.exp, 8), atol=1e-14
        )

    def test_is_mapped_to_units_of_the_larger_end(self):
        z = np.array([-1.0, 0.0, 0.5, 1.0])
        np.testing.assert_allclose(diffusion._relative(z, (-4.0, 2.0)), [-1.0, -0.25, 0.125, 0.5])
        np.testing.assert_allclose(diffusion._relative(z, (0.0, 2.0)), [0.0, 0.5, 0.75, 1.0])

    @pytest.mark.parametrize(
        ("interval", "exponents", "rtol", "weight"),
        [((0.0, 0.9), [40.5, 3.0], 1e-8, 0), ((-0.5, 1.0), [30], 1e-6, 0), ((0.0, 0.5), [-0.25], 1e-3, 1)],
    )
    def test_error_is_measured(self, interval, exponents, rtol, weight):
        series, error = diffusion._chebyshev_series(interval, exponents, rtol, weight)
        assert error <= rtol
        assert len({len(c) for c in series}) == 1
        z = np.cos(np.linspace(0, np.pi, 40_001))
        z = z if interval[0] else z[:-1]
        x = diffusion._relative(z, interval)
        true = max(
            np.abs(x**weight * (chebyshev.chebval(z, c) - x**e)).max() for c, e in zip(series, exponents, strict=True)
        )
        assert error == pytest.approx(true, rel=0.05, abs=1e-14)

    @pytest.fixture
    def degrees(self, monkeypatch):
        found, plain = [], diffusion._interpolate
        monkeypatch.setattr(diffusion, "_interpolate", lambda values: found.append(len(values) - 1) or plain(values))
        return found

    @pytest.mark.parametrize(("e", "rtol"), [(40.5, 1e-8), (10_000, 1e-10)])
    def test_begins_with_the_degree_that_suffices(self, degrees, e, rtol):
        diffusion._chebyshev_series((0.0, 1.0), [e], rtol, 0)
        assert degrees == [8 + int(np.sqrt(2 * e * np.log(2 / rtol)))]

    def test_grows_by_a_fifth_up_to_2000(self, degrees):
        series, error = diffusion._chebyshev_series((0.0, 1.0), [0.5], 1e-10, 0)
        expected = [8 + int(np.sqrt(np.log(2e10)))]
        while expected[-1] < 2000:
            expected.append(min(2000, int(1.2 * expected[-1]) + 1))
        assert degrees == expected
        assert len(series[0]) == 2001
        assert 1e-5 < error < 1e-3
        assert error == pytest.approx(abs(chebyshev.chebval(-1.0, series[0])), rel=1e-6)

    def test_grows_to_twice_where_it_began_beyond(self, degrees, monkeypatch):
        monkeypatch.setattr(diffusion, "_MOST_DEGREE", 20)
        error = diffusion._chebyshev_series((0.0, 1.0), [60.0, 0.5], 1e-9, 0)[1]
        first = 8 + int(np.sqrt(120 * np.log(2e9)))
        assert degrees[0] == first
        assert degrees[-1] == 2 * first
        assert error > 1e-9
        degrees.clear()
        diffusion._chebyshev_series((0.0, 1.0), [-0.5], 1e-1, 1)
        assert degrees[0] == 8

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_evaluated_by_products(self, dtype):
        A = _symmetric(np.linspace(-0.6, 0.9, 5))[0].astype(dtype)
        S = Watched(A)
        series = [np.array([0.5, -1.0, 0.25, 2.0, 1.5]), np.array([1.0, 2.0, -3.0, 0.5, 0.1])]
        blocks = diffusion._evaluate_series(S, np.eye(5, dtype=dtype), (-0.7, 1.0), series)
        assert len(S.seen) == 4
        L = (A.astype(float) - 0.15 * np.eye(5)) / 0.85
        T = [np.eye(5), L, 2 * L @ L - np.eye(5)]
        T += [2 * L @ T[2] - T[1]]
        T += [2 * L @ T[3] - T[2]]
        for block, c in zip(blocks, series, strict=True):
            assert block.dtype == dtype
            _close(block, sum(a * t for a, t in zip(c, T, strict=True)), 1e-13 if dtype == np.float64 else 1e-5)


class TestEigenvectors:
    def test_zeros_have_no_power(self):
        np.testing.assert_allclose(diffusion._power(np.array([4.0, 0.0, 0.25]), -0.5), [0.5, 0.0, 2.0])
        np.testing.assert_allclose(diffusion._power(np.array([-2.0, 0.0]), 3), [-8.0, 0.0])

    def test_rounding_is_zero(self):
        A, _ = _symmetric([2.0, 1e-12, -1e-12, 1e-15])
        A[0, 1] += 1e-13  # asymmetric by rounding
        values, vectors = diffusion._eigensystem(A, 2.0**-52)
        np.testing.assert_allclose(np.sort(values), [0, 0, 1e-12, 2], atol=1e-13)
        assert np.count_nonzero(values) == 2
        whole = diffusion._eigensystem(A, 2.0**-52, whole=True)[0]
        assert np.count_nonzero(whole) == 3
        _close((vectors * values) @ vectors.T, A, 1e-11)

    def test_what_is_negative_beyond_rounding_is_refused(self):
        limit = 1e3 * 100 * 1e-10 * 2.0
        diffusion._eigensystem(np.diag([2.0, -0.99 * limit]), 1e-10)
        with pytest.raises(ValueError, match="use a whole power"):
            diffusion._eigensystem(np.diag([2.0, -1.01 * limit]), 1e-10)
        diffusion._eigensystem(np.diag([2.0, -1.0]), 1e-10, whole=True)

    @pytest.mark.parametrize(
        ("e", "weight", "said"), [(0.1, 0, True), (-0.9, 1, True), (0.5, 0, False), (-0.5, 1, False)]
    )
    def test_what_is_lost_is_said(self, e, weight, said):
        # Eigenvalues below 100 units of rounding are left out: at t = 0.1 they make (2e-14)^0.1 = 4% of the largest.
        values = np.array([1.0, 0.5, 0.0, 0.0])
        A, Q = _symmetric(values)
        S, V = DenseOperator(A), np.eye(4)
        if said:
            with pytest.warns(ConvergenceWarning, match="known to 4.3e-02 .* not to 1.0e-03"):
                found = diffusion._by_eigenvectors(S, V, [e, 2.0], weight)
        else:
            found = diffusion._by_eigenvectors(S, V, [2.0, e], weight)[::-1]
        _close(found[0], (Q[:, :2] * values[:2] ** e) @ Q[:, :2].T)
        _close(found[1], (Q * values**2) @ Q.T)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one zero is the trivial mode's
            diffusion._by_eigenvectors(DenseOperator(_symmetric([1.0, 0.5, 0.0])[0]), np.eye(3), [e], weight)

    def test_whole_powers_may_be_negative_and_single(self):
        A = np.diag([-0.5, 1.0]).astype(np.float32)
        found = diffusion._by_eigenvectors(DenseOperator(A), np.eye(2, dtype=np.float32), [3], 0)
        assert found[0].dtype == np.float32
        np.testing.assert_allclose(found[0], np.diag([-0.125, 1.0]))


class TestDefiniteness:
    def test_is_asked_for_only_where_it_matters(self, monkeypatch):
        monkeypatch.setattr(diffusion, "extreme_ritz", None)
        diffusion.require_definite(_kernel(), [2.5])
        diffusion.require_definite(as_heat_kernel(np.diag([1.0, -1.0])), [1, 2.0, 7])

    @pytest.mark.parametrize("scale", [1.0, 1e-5])
    def test_rounding_passes(self, scale):
        for low, refused in ((-0.9e-6, False), (-1.1e-6, True)):
            kernel = as_heat_kernel(scale * _symmetric([1.0, 0.7, 0.3, low])[0])
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
            _close(found.numpy(), one, 1e-8)
        for found, one in zip(diffuse(there, M, powers, trivial=trivial), expected, strict=True):
            assert isinstance(found, np.ndarray)
            _close(found, one, 1e-8)
    Z = coefficients(there, torch.from_numpy(M), 0.5)
    _close(Z.numpy(), coefficients(here, M, 0.5), 1e-6)
