"""The multiscale filter: its formula, its polynomial, its weights, and what it keeps of known spectra."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.analysis.power import EXPONENT, LONGEST
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.diffusion import coefficients, diffuse, matrix_power
from heatsketch.linalg.filters import MultiscaleFilter, filtered, longest
from laws import Permuted, assert_close, symmetric

X = hs.datasets.stretched_torus(300, random_state=0)
M = np.random.default_rng(1).normal(size=(300, 3))
KERNELS = {
    "definite": {"bandwidth": 0.8},
    "neighbours": {"bandwidth": "self-tuning", "n_neighbors": 15},
    "no diagonal": {"bandwidth": 0.8, "diagonal": "zero"},
}


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request):
    return hs.heat_kernel(X, tol=1e-12, **KERNELS[request.param])


class TestFilter:
    def test_formula(self):
        h, x = MultiscaleFilter((1, 2, 4), (0.5, 2.0, 3.0)), np.array([-0.7, 0.0, 0.2, 1.0])
        np.testing.assert_allclose(h(x) ** 2, 0.5 * x**2 + 2 * x**4 + 3 * x**8)
        np.testing.assert_allclose(x * h.over_x(x), h(x))
        np.testing.assert_array_equal(np.sign(h(x)), np.sign(x))
        assert h.over_x(0.0) == np.sqrt(0.5)
        assert longest(h) == 4
        assert longest(2.5) == 2.5

    def test_single_time_is_a_power(self):
        values = np.array([0.9, 0.5, -0.3])
        np.testing.assert_allclose(filtered(MultiscaleFilter((1,), (1.0,)), values, 0.0), values)
        np.testing.assert_allclose(filtered(3, values, 0.0, over_x=True), values**2)

    @pytest.mark.parametrize(
        ("times", "weights"),
        [((), ()), ((1, 2), (1.0,)), ((0,), (1.0,)), ((1, 3), (1.0, 1.0)), ((1,), (0.0,)), ((1,), (np.nan,))],
    )
    def test_invalid(self, times, weights):
        with pytest.raises(ValueError, match="times"):
            MultiscaleFilter(times, weights)


class TestPolynomial:
    def test_matches_eigendecomposition(self, kernel):
        h = hs.multiscale(kernel)
        expected = matrix_power(kernel, h)
        assert_close(diffuse(kernel, M, [h])[0], expected @ M, 1e-7)
        Z = coefficients(kernel, M, h)
        assert_close(kernel.symmetric @ Z, expected @ M, 1e-7)
        assert np.abs(kernel.trivial @ Z).max() < 1e-10 * np.abs(Z).max()

    def test_matches_the_reference(self, kernel):
        h, A = hs.multiscale(kernel), kernel.symmetric.toarray()
        expected, found = hs.reference.multiscale(A, np.array(h.times, dtype=float), EXPONENT), matrix_power(kernel, h)
        assert_close(found @ found, expected @ expected, 1e-6)  # the signs of negative eigenvalues may differ

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_every_normalisation(self, normalization):
        kernel = hs.heat_kernel(X, bandwidth=0.8, normalization=normalization)
        h = hs.multiscale(kernel)
        assert_close(diffuse(kernel, M, [h])[0], matrix_power(kernel, h) @ M, 1e-6)

    def test_mixed_with_times(self, kernel):
        h = hs.multiscale(kernel)
        blocks = diffuse(kernel, M, [2, h, 30], trivial=False)
        for block, power in zip(blocks, (2, h, 30), strict=True):
            assert_close(block, diffuse(kernel, M, [power], trivial=False)[0], 1e-8)

    def test_float32(self, kernel):
        single = hs.heat_kernel(X.astype(np.float32), bandwidth=0.8)
        h = hs.multiscale(single)
        Y = diffuse(single, M, [h])[0]
        assert Y.dtype == np.float32
        assert_close(Y, matrix_power(hs.heat_kernel(X, bandwidth=0.8), h) @ M, 1e-3)

    def test_matrix_without_trivial_mode(self):
        A, Q = symmetric([0.9, 0.5, -0.2])
        h = hs.multiscale(A)
        expected = (Q * h(np.array([0.9, 0.5, -0.2]))) @ Q.T
        assert_close(diffuse(as_heat_kernel(A), np.eye(3), [h])[0], expected, 1e-7)

    def test_row_order_does_not_matter(self, kernel):
        A, order = kernel.symmetric.toarray(), np.random.default_rng(3).permutation(300)
        other = hs.HeatKernel(Permuted(A, order), trivial=kernel.trivial, scaling=kernel.scaling)
        h = hs.multiscale(kernel)
        assert_close(diffuse(other, M, [h])[0], diffuse(kernel, M, [h])[0], 1e-7)


class TestTimes:
    def test_weights_are_those_of_the_traces(self, kernel):
        h, values = hs.multiscale(kernel), np.linalg.eigvalsh(kernel.deflated.toarray())
        t = np.array(h.times, dtype=float)
        tau = (np.abs(values) ** (2 * t[:, None])).sum(axis=1)
        np.testing.assert_array_equal(t, 2.0 ** np.arange(len(t)))
        np.testing.assert_allclose(h.weights, t**EXPONENT / tau, rtol=1e-6)

    def test_estimated_weights_of_many_points(self):
        kernel = hs.heat_kernel(hs.datasets.stretched_torus(1200, random_state=0), **KERNELS["neighbours"])
        values = np.abs(np.linalg.eigvalsh(kernel.deflated.toarray()))
        h = hs.multiscale(kernel, exponent=0.0)
        tau = (values ** (2.0 * np.array(h.times)[:, None])).sum(axis=1)
        # Eight random columns know a trace of d modes to sqrt(2 / (8 d)); the last modes are known exactly.
        entropy = hs.spectral_density(kernel).entropy(np.array(h.times, dtype=float))
        error = np.abs(np.log(np.array(h.weights) * tau))
        assert (error < 3 * np.sqrt(2 / (8 * np.exp(entropy)))).all()
        assert error[-1] < 0.02

    def test_do_not_depend_on_the_seed_of_a_sketch(self):
        options = {"n_components": 3, **KERNELS["neighbours"]}
        first, second = (hs.GaussianProcessEmbedding(**options, random_state=seed).fit(X) for seed in (0, 1))
        assert first.power_ == second.power_ == hs.multiscale(first.kernel_)

    def test_end_where_the_last_mode_has_decayed(self):
        kernel = hs.heat_kernel(X, bandwidth=0.8)
        h, second = hs.multiscale(kernel), np.linalg.eigvalsh(kernel.deflated.toarray()).max()
        assert second ** (2 * h.times[-1]) > 1e-3 / 300
        assert second ** (4 * h.times[-1]) < 1e-3

    def test_end_where_nothing_decays_any_more(self):
        apart = np.concatenate([X, X + 1000.0])
        kernel = hs.heat_kernel(apart, **KERNELS["neighbours"])
        times = hs.multiscale(kernel).times
        assert times[-1] < LONGEST[0]
        # The parts differ in one mode that never decays.
        left = (np.abs(np.linalg.eigvalsh(kernel.deflated.toarray())) ** (2.0 * times[-1])).sum()
        assert left == pytest.approx(1.0, abs=0.05)

    def test_slow_start_is_no_end(self):
        graph = np.eye(300, k=1) + np.eye(300, k=-1) + 1000.0 * np.eye(300)
        assert hs.multiscale(hs.heat_kernel(graph, affinity="precomputed")).times[-1] == LONGEST[0]

    def test_matrix_of_a_large_norm(self):
        with pytest.raises(ValueError, match="eigenvalue of 5"):
            hs.multiscale(5.0 * np.eye(20))

    def test_late_times_are_told_to_be_inexact(self):
        kernel = hs.heat_kernel(X, **KERNELS["neighbours"])
        h = MultiscaleFilter(tuple(2**n for n in range(20)), (1.0,) * 20)
        with pytest.warns(ConvergenceWarning, match="End the times earlier"):
            coefficients(kernel, M, h)

    def test_graph_without_self_loops(self):
        graph = nx.cycle_graph(40)  # bipartite: -1 is an eigenvalue
        kernel = hs.heat_kernel(graph, affinity="precomputed", diagonal="zero")
        h = hs.multiscale(kernel)
        assert np.isfinite(h.weights).all()
        assert_close(diffuse(kernel, M[:40], [h])[0], matrix_power(kernel, h) @ M[:40], 1e-7)

    @pytest.mark.parametrize("exponent", [-0.1, 1.5, "half", None, True, np.nan])
    def test_invalid_exponent(self, exponent):
        with pytest.raises(ValueError, match="exponent"):
            hs.multiscale(hs.heat_kernel(X, bandwidth=0.8), exponent=exponent)


class TestGeometry:
    """On a closed curve and a flat torus, where the spectrum and geodesic distances are known."""

    @pytest.mark.parametrize("exponent", [0.5, 0.75])
    @pytest.mark.parametrize(("dimension", "side"), [(1, 4096), (2, 256)])
    def test_distances_grow_like_a_power_of_geodesics(self, exponent, dimension, side):
        # Steps of variance 1 along each circle of `side` points: eigenvalues are products of exp(-f^2 / 2).
        circle = np.exp(-0.5 * (2 * np.pi * np.fft.fftfreq(side)) ** 2)
        values = circle if dimension == 1 else np.outer(circle, circle).ravel()
        nontrivial = np.sort(values)[:-1]
        times = [t for t in 2 ** np.arange(24) if nontrivial[-1] ** (2.0 * t) > 1e-3]
        h = MultiscaleFilter(tuple(times), tuple(t**exponent / (nontrivial ** (2.0 * t)).sum() for t in times))
        squared = h(values) ** 2
        squared[np.argmax(values)] = 0.0  # the trivial mode
        k = np.fft.ifftn(squared.reshape((side,) * dimension)).real  # D(0, x)^2 = 2 (k(0) - k(x))
        line = k if dimension == 1 else k[0]
        near, far = 8, 32
        slope = 0.5 * np.log((line[0] - line[far]) / (line[0] - line[near])) / np.log(far / near)
        assert slope == pytest.approx(exponent, abs=0.1)
