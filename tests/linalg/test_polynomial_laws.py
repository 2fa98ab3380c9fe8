"""Powers by polynomials: the interval, the series on it, how far it reaches, and the products that it takes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg import diffusion
from heatsketch.linalg.diffusion import coefficients, diffuse
from heatsketch.linalg.ritz import ExtremeRitz
from laws import Watched, assert_close, symmetric


class TestTheInterval:
    RITZ = ExtremeRitz(low=-0.3, low_residual=0.01, high=0.8, high_residual=0.02)

    @pytest.fixture
    def seen(self, monkeypatch):
        found = {"ritz": self.RITZ}

        def ritz(S, accuracy, *, both=False, most_steps=None):
            if most_steps is not None:  # for the interval, not to see what a given matrix is
                found.setdefault("sought", []).append((accuracy, most_steps))
            return found["ritz"]

        def series(interval, exponents, rtol, weight):
            found["asked"] = interval, list(exponents), rtol, weight
            return [np.array([0.0, 1.0]) for _ in exponents], 0.0

        monkeypatch.setattr(diffusion, "extreme_ritz", ritz)
        monkeypatch.setattr(diffusion, "_chebyshev_series", series)
        return found

    @pytest.mark.parametrize(("times", "margin"), [([3, 9], 0.01), ([99, 2], 0.005), ([49], 0.01), ([50], 0.5 / 51)])
    def test_holds_the_spectrum_with_room(self, seen, times, margin):
        A = symmetric(np.linspace(-0.3, 0.8, 6))[0]
        blocks = diffuse(as_heat_kernel(A), np.eye(6), times, method="chebyshev", rtol=1e-5)
        (low, high), exponents, rtol, weight = seen["asked"]
        steps = 8 + int(np.sqrt(2 * max(times) * np.log(2e5)))  # as many as the polynomial takes
        assert seen["sought"] == [(pytest.approx(0.1 * margin), steps)]
        assert low == pytest.approx(-0.3 - 0.01 - margin * 0.8)
        assert high == pytest.approx(0.8 + 0.02 + margin * 0.8)
        # What the interval reaches beyond the spectrum is made up for, where it is more than a factor of two.
        beyond = (high / 0.8) ** max(times)
        assert (exponents, rtol, weight) == (times, pytest.approx(1e-5 / (beyond if beyond > 2 else 1)), 0)
        # The series is in units of the end that is further from zero.
        half, centre = (high - low) / 2, (high + low) / 2
        for block, t in zip(blocks, times, strict=True):
            assert_close(block, high**t * (A - centre * np.eye(6)) / half)

    def test_reaches_zero_from_below(self, seen):
        seen["ritz"] = ExtremeRitz(low=-0.9, low_residual=0.0, high=-0.1, high_residual=0.0)
        blocks = diffuse(as_heat_kernel(-np.eye(3)), np.eye(3), [3], method="chebyshev")
        low, high = seen["asked"][0]
        assert (low, high) == (pytest.approx(-0.9 - 0.009), pytest.approx(0.009))
        assert_close(blocks[0], 0.909**3 * (-np.eye(3) - (low + high) / 2 * np.eye(3)) / ((high - low) / 2))

    def test_begins_at_zero_where_nothing_is_negative(self, seen):
        X = np.random.default_rng(0).normal(size=(30, 2))
        kernel = hs.heat_kernel(X, bandwidth=2.0)
        assert kernel.definite
        coefficients(kernel, X, 61, method="chebyshev")
        (low, high), *asked = seen["asked"]
        assert low == 0.0
        assert asked == [[60], pytest.approx(1e-10 / (high / 0.8) ** 60), 1]
        seen["ritz"] = ExtremeRitz(0.0, 0.0, 0.8, 0.0)
        diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [2.5], method="chebyshev")
        assert seen["asked"][0][0] == 0.0

    def test_as_accurate_as_wanted_is_accurate_enough(self, monkeypatch):
        monkeypatch.setattr(diffusion, "_chebyshev_series", lambda *_: ([np.array([0.0, 1.0])], 1e-10))
        monkeypatch.setattr(diffusion, "_by_eigenvectors", None)
        assert len(diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [2.5])) == 1

    def test_is_not_looked_for_where_none_is_wanted(self, monkeypatch):
        monkeypatch.setattr(diffusion, "_chebyshev_series", None)
        found = diffuse(as_heat_kernel(np.diag([0.8, 0.1])), np.eye(2), [2.5], method="eigen")[0]
        np.testing.assert_allclose(found, np.diag([0.8**2.5, 0.1**2.5]), rtol=1e-12)

    def test_of_nothing_is_nothing(self, seen):
        seen["ritz"] = ExtremeRitz(0.0, 0.0, 0.0, 0.0)
        blocks = diffuse(as_heat_kernel(np.zeros((3, 3))), np.eye(3), [2, 7], method="chebyshev")
        assert len(blocks) == 2
        assert not np.any(blocks)
        assert "asked" not in seen


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

    def test_ends_where_the_error_is_what_is_wanted(self, degrees):
        error = diffusion._chebyshev_series((0.0, 0.5), [-0.25], 1.0, 1)[1]
        assert diffusion._chebyshev_series((0.0, 0.5), [-0.25], error, 1)[1] == error
        assert degrees == [8, 8]

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
        A = symmetric(np.linspace(-0.6, 0.9, 5))[0].astype(dtype)
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
            assert_close(block, sum(a * t for a, t in zip(c, T, strict=True)), 1e-13 if dtype == np.float64 else 1e-5)
