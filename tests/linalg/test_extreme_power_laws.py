"""Powers at the ends of what numbers can tell: rounding that is no spectrum, intervals that are too wide, overflow."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg import diffusion
from heatsketch.linalg.diffusion import diffuse, matrix_power
from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.ritz import ExtremeRitz
from laws import Watched, assert_close, symmetric

EPS = 2.0**-52
NOISE = 100 * EPS  # of a kernel of norm 1 in float64


def kernel(values, **known):
    """A kernel with these eigenvalues, the first of which is the trivial one's."""
    A, Q = symmetric(np.array(values))
    return hs.HeatKernel(DenseOperator(A), trivial=Q[:, 0], **known), Q[:, 1:]


@pytest.mark.parametrize("p", range(1, 12))
def test_whole_powers_are_products(p):
    A = symmetric(np.array([0.9, -0.7, 0.4]))[0]
    np.testing.assert_allclose(matrix_power(as_heat_kernel(A), p), np.linalg.matrix_power(A, p), rtol=1e-13)


class TestRounding:
    @pytest.mark.parametrize("method", ["chebyshev", "eigen"])
    def test_that_is_all_there_is_counts_as_nothing(self, method):
        only, _ = kernel([1.0, 0.9 * NOISE, -0.9 * NOISE])
        assert not matrix_power(only, 1.5, trivial=False).any()
        assert not diffuse(only, np.eye(3), [1.5], trivial=False, method=method)[0].any()

    def test_below_the_spectrum_is_not_refused(self):
        small, Q = kernel([1.0, 5 * NOISE, -0.1 * NOISE])
        expected = (5 * NOISE) ** 1.5 * np.outer(Q[:, 0], Q[:, 0])
        assert_close(matrix_power(small, 1.5, trivial=False), expected, 0.05)
        assert_close(diffuse(small, np.eye(3), [1.5], trivial=False, method="eigen")[0], expected, 0.05)

    def test_beyond_it_is_refused(self):
        wrong, _ = kernel([1.0, 500 * NOISE, -2000 * NOISE])
        with pytest.raises(ValueError, match="negative eigenvalues"):
            matrix_power(wrong, 1.5)

    @pytest.mark.parametrize(("values", "lost"), [([1.0, 0.5, 0.2], False), ([1.0, 0.5, 0.0], True)])
    def test_in_place_of_an_eigenvalue_is_said(self, values, lost):
        # At a power of 0.1, an eigenvalue below rounding would count for up to 0.04 of the largest.
        for one in (kernel(values)[0], as_heat_kernel(symmetric(np.array(values[1:]))[0])):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                matrix_power(one, 0.1)
            assert [warning.category for warning in told] == [ConvergenceWarning] * lost


class TestTheInterval:
    """Where the interval ends, by what is found of the spectrum and what is known of the kernel."""

    @pytest.fixture
    def found(self, monkeypatch):
        seen = SimpleNamespace(ritz=ExtremeRitz(-0.3, 0.01, 0.8, 0.02), steps=None)

        def ritz(S, accuracy, *, both=False, most_steps=None):
            seen.steps = most_steps or seen.steps
            return seen.ritz

        monkeypatch.setattr(diffusion, "extreme_ritz", ritz)
        return seen

    def test_a_markov_matrix_has_none_beyond_one(self, found):
        scaling, rounding = SimpleNamespace(residual=1e-4), EPS
        found.ritz = ExtremeRitz(-0.999, 0.5, 0.998, 0.5)
        markov = SimpleNamespace(
            trivial=np.ones(2), scaling=scaling, rounding=rounding, definite=False, symmetric=DenseOperator(np.eye(2))
        )
        (low, high), size = diffusion._spectral_interval(markov, [3], 1e-10)
        room = 0.01 * 0.999
        assert size == 0.999
        assert (-low, high) == (pytest.approx(1 + 1e-4 + room, abs=1e-12),) * 2
        markov.rounding = 1e-3
        assert diffusion._spectral_interval(markov, [3], 1e-10)[0][1] == pytest.approx(1 + 1e-4 + 0.01 + room)
        markov.scaling = None  # nothing is known of it
        assert diffusion._spectral_interval(markov, [3], 1e-10)[0][1] == pytest.approx(0.998 + 0.5 + room)
        markov.scaling, markov.trivial = scaling, None
        assert diffusion._spectral_interval(markov, [3], 1e-10)[0][1] == pytest.approx(0.998 + 0.5 + room)

    def test_within_its_bounds_it_is_what_was_found(self, found):
        markov = SimpleNamespace(
            trivial=np.ones(2),
            scaling=SimpleNamespace(residual=0.0),
            rounding=EPS,
            definite=False,
            symmetric=DenseOperator(np.eye(2)),
        )
        interval, _ = diffusion._spectral_interval(markov, [3], 1e-10)
        assert interval == (pytest.approx(-0.31 - 0.008), pytest.approx(0.82 + 0.008))
        assert all(type(end) is float for end in interval)
        found.ritz = ExtremeRitz(-1e-16, 0.0, 1e-16, 0.0)  # rounding needs more room than its own size
        assert diffusion._spectral_interval(markov, [3], 1e-10)[0][1] == pytest.approx(1e-16 + 0.04 * NOISE)

    @pytest.mark.parametrize(("exponents", "rtol"), [([60, 2], 1e-10), ([-0.5], 1e-10), ([900.0], 1e-6)])
    def test_is_sought_in_as_many_steps_as_the_polynomial_takes(self, found, exponents, rtol):
        found.ritz = ExtremeRitz(0.1, 0.01, 0.8, 0.02)
        diffusion._spectral_interval(as_heat_kernel(np.diag([0.8, 0.1])), exponents, rtol)
        assert found.steps == 8 + int(np.sqrt(2.0 * max(*exponents, 0.0) * np.log(2.0 / rtol)))


class TestGrowth:
    def test_is_a_power_or_infinite(self, monkeypatch):
        assert diffusion._growth(1.0, 1e6) == 1.0
        assert diffusion._growth(1.01, 1000.0) == pytest.approx(1.01**1000, rel=1e-12)
        assert diffusion._growth(np.e, 699.0) == pytest.approx(np.exp(699.0), rel=1e-12)
        assert diffusion._growth(2.0, 1e6) == np.inf
        assert diffusion._growth(np.e, 701.0) == np.inf
        monkeypatch.setattr(diffusion, "_LARGEST_LOG", 600.0 * np.log(np.e))
        assert diffusion._growth(np.e, 600.0) == np.inf

    @pytest.mark.parametrize(("factor", "asked"), [(1.9, 1.0), (2.1, 2.1)])
    def test_beyond_two_is_made_up_for(self, monkeypatch, factor, asked):
        A = np.diag([0.8, 0.1])
        seen = []

        def series(interval, exponents, rtol, weight):
            seen.append(rtol)
            return [np.array([0.0, 1.0])], 0.5 * rtol

        monkeypatch.setattr(diffusion, "_spectral_interval", lambda *_: ((0.0, 0.8 * factor ** (1 / 16)), 0.8))
        monkeypatch.setattr(diffusion, "_chebyshev_series", series)
        diffuse(as_heat_kernel(A), np.eye(2), [16], method="chebyshev", rtol=1e-6)
        assert seen == [pytest.approx(1e-6 / asked)]

    def test_beyond_what_numbers_tell_is_said(self, monkeypatch):
        monkeypatch.setattr(diffusion, "_spectral_interval", lambda *_: ((0.0, 1.6), 0.8))
        monkeypatch.setattr(diffusion, "_chebyshev_series", lambda *_: ([np.array([0.0, 1.0])], 0.0))
        with pytest.warns(ConvergenceWarning, match=r"known to 2\.4e-07"):  # 2^30 units in the last place
            diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [30], method="chebyshev", rtol=1e-12)

    def test_the_last_bit_of_an_eigenvalue_counts_once_for_every_step(self, monkeypatch):
        seen = []

        def series(interval, exponents, rtol, weight):
            seen.append(rtol)
            return [np.array([0.0, 1.0])], 0.0

        monkeypatch.setattr(diffusion, "_spectral_interval", lambda *_: ((0.0, 0.8), 0.8))
        monkeypatch.setattr(diffusion, "_chebyshev_series", series)
        for t in (2.0**20, 0.5):
            diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [t], method="chebyshev", rtol=1e-16)
        assert seen == [4 * 2.0**20 * EPS, 4 * 0.5 * EPS]


class TestRange:
    LARGEST = np.log(np.finfo(np.float32).max / 2)

    def test_powers_that_no_number_holds_are_refused(self):
        for size in (-3.0, 3.0):
            A = as_heat_kernel(np.diag([size, 0.5]).astype(np.float32))
            within = int(self.LARGEST / np.log(3.0))
            diffusion.require_range(A, [2, within])
            diffusion.require_range(A, [2, within // 2])
            with pytest.raises(ValueError, match=f"power={within + 1} of a matrix with an eigenvalue of size 3"):
                diffusion.require_range(A, [within + 1, 2])

    def test_the_remedy_is_that_of_what_was_given(self):
        S, remedy = DenseOperator(np.diag([3.0, 0.5])), "divide the matrix by its largest, or build a heat kernel from "
        with pytest.raises(ValueError, match=rf"at most 1: {remedy}data with heat_kernel\(X, \.\.\.\)\.$"):
            diffusion.require_range(hs.HeatKernel(S), [1e4])
        vain = hs.HeatKernel(S, scaling=SimpleNamespace(residual=2.0))
        remedy = "the scaling did not converge; use a smaller power, more neighbours or normalization='symmetric'"
        with pytest.raises(ValueError, match=rf"at most 1: {remedy}\.$"):
            diffusion.require_range(vain, [1e4])

    def test_a_scaling_is_believed_as_far_as_its_residual_goes(self):
        """A sum of a row is the largest size there is; at the end of the range it is within it."""
        S, power = Watched(np.diag([1.0, 0.5])), 1e4
        largest = np.log(np.finfo(np.float64).max / 2) / power
        residual = (1 - 1e-15) * np.expm1(largest)
        while np.log1p(residual) < largest:
            residual = np.nextafter(residual, 1.0)
        assert np.log1p(residual) == largest
        diffusion.require_range(hs.HeatKernel(S, scaling=SimpleNamespace(residual=residual)), [power])
        assert not S.seen
        diffusion.require_range(hs.HeatKernel(S, scaling=SimpleNamespace(residual=1.001 * residual)), [power])
        assert S.seen

    def test_is_that_of_the_dtype_and_of_sums_of_all_rows(self):
        n = 1000
        within = np.log(np.finfo(np.float64).max / n) / np.log(1.5)
        A = as_heat_kernel(np.diag(np.full(n, 1.5)))
        diffusion.require_range(A, [within - 1e-6])
        with pytest.raises(ValueError, match="beyond the range of float64"):
            diffusion.require_range(A, [within + 1e-6])

    @pytest.mark.parametrize("size", [1.0, 0.5, 0.0])
    def test_eigenvalues_within_one_have_any_power(self, size):
        assert diffusion.require_range(as_heat_kernel(np.diag([size, 0.0])), [1e300]) is None

    def test_is_not_looked_at_where_it_cannot_matter(self):
        S = Watched(np.diag([2.0, 1.0]))
        diffusion.require_range(hs.HeatKernel(S), [1.0, 0.5])
        assert not S.seen
        diffusion.require_range(hs.HeatKernel(S), [1.5])
        assert S.seen
        made = hs.heat_kernel(np.random.default_rng(0).normal(size=(9, 2)))
        diffusion.require_range(made, [1e300])  # of norm 1 by its making
