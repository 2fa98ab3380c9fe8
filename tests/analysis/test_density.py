"""Krylov sketches and the spectral density: against exact powers, exact spectra and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import heatsketch as hs
from heatsketch.analysis.density import density_of
from heatsketch.linalg.lanczos import KrylovSketch, horizon


def exact_entropy(kernel: hs.HeatKernel, power: float) -> float:
    sizes = np.abs(np.linalg.eigvalsh(kernel.deflated.toarray()))
    shares = sizes ** (2 * power)
    shares = shares[shares > 0] / shares.sum()
    return float(-(shares * np.log(shares)).sum())


class TestKrylov:
    @pytest.mark.parametrize("power", [1.0, 3.0, 17.0])
    def test_powers_are_those_of_the_matrix(self, kernel, power):
        rows = np.array([5, 0, 123, 250])
        sketch = KrylovSketch(kernel, rows, 4, 32)
        assert horizon(32) > power
        values, vectors = np.linalg.eigh(kernel.deflated.toarray())
        start = np.column_stack([KrylovSketch(kernel, np.arange(300), 4, 1)._kept[0]]) * sketch._norms
        exact = vectors @ (np.abs(values)[:, None] ** power * (vectors.T @ start))
        exact = kernel.weigh_rows(exact)[rows] / np.sqrt(4)
        found = sketch.features(power) * sketch.largest**power
        np.testing.assert_allclose(found, exact, atol=2e-3 * np.abs(exact).max())

    def test_quadrature_is_exact_for_polynomials(self, kernel):
        sketch = KrylovSketch(kernel, np.arange(300), 3, 5)
        S, start = kernel.deflated.toarray(), sketch._kept[0] * sketch._norms
        nodes, weights = sketch.quadrature()
        for degree in range(10):  # up to 2 s - 1
            exact = np.einsum("ij,ij->j", start, np.linalg.matrix_power(S, degree) @ start)
            np.testing.assert_allclose((weights * nodes**degree).sum(axis=1), exact, rtol=1e-9, atol=1e-10)

    def test_going_on_is_starting_with_more(self, kernel):
        rows = np.arange(10)
        whole, grown = KrylovSketch(kernel, rows, 2, 12), KrylovSketch(kernel, rows, 2, 5)
        grown.extend(12)
        np.testing.assert_array_equal(whole.features(6.0), grown.features(6.0))

    def test_a_reordered_graph_gives_the_rows_that_were_asked_for(self):
        X = hs.datasets.stretched_torus(20_000, random_state=0).astype(np.float32)
        kernel = hs.heat_kernel(X, n_neighbors=48)
        assert kernel.symmetric.order is not None
        rows = np.array([17, 3, 19_999])
        start = KrylovSketch(kernel, np.arange(20_000), 2, 1)._kept[0]
        exact = kernel.deflated @ start
        sketch = KrylovSketch(kernel, rows, 2, 24)
        found = sketch.features(1.0) * sketch.largest * np.sqrt(2) / sketch._norms
        # |S| in place of S, which has small negative eigenvalues
        np.testing.assert_allclose(found, exact[rows], atol=0.02 * np.abs(exact).max())

    @pytest.mark.parametrize("n", [2, 3, 40])
    def test_exhausted_spaces_bring_no_nan(self, n):
        kernel = hs.heat_kernel(
            np.ones((n, n)), affinity="precomputed", diagonal="keep"
        )  # nothing but the trivial mode
        sketch = KrylovSketch(kernel, np.arange(n), 4, 10)
        assert np.isfinite(sketch.features(5.0)).all()
        assert np.isfinite(density_of(sketch).entropy([1.0, 10.0])).all()


class TestDensity:
    @pytest.mark.parametrize("power", [1.0, 4.0, 16.0, 64.0])
    def test_entropy_of_a_torus(self, power):
        kernel = hs.heat_kernel(hs.datasets.stretched_torus(600, random_state=0))
        density = hs.spectral_density(kernel, n_columns=64)
        exact = exact_entropy(kernel, power)
        # a trace of d modes is known to sqrt(2 / (64 d)), and so is its logarithm
        assert float(density.entropy(power)) == pytest.approx(exact, abs=3 * np.sqrt(2 / (64 * np.exp(exact))))

    def test_traces_are_unbiased(self, kernel):
        density = hs.spectral_density(kernel, n_columns=256)
        assert float(density.trace(4.0)) == pytest.approx((density.weights * density.nodes**4).sum(axis=1).mean())
        exact = np.sum(np.abs(np.linalg.eigvalsh(kernel.deflated.toarray())) ** 4)
        found = (density.weights * np.abs(density.nodes) ** 4).sum(axis=1)
        assert found.mean() == pytest.approx(exact, abs=4 * found.std() / np.sqrt(256))

    @pytest.mark.parametrize(("dimension", "points"), [(1, "circle"), (2, "torus")])
    def test_spectral_dimension_is_that_of_the_manifold(self, dimension, points):
        n = 1000
        if points == "circle":
            angles = 2 * np.pi * np.arange(n) / n
            X = np.column_stack([np.cos(angles), np.sin(angles)])
            epsilon = 100 * (2 * np.pi / n) ** 2
        else:
            X, epsilon = hs.datasets.stretched_torus(2 * n, 1.0, random_state=0), 0.15
        density = hs.spectral_density(hs.heat_kernel(X, bandwidth=epsilon), n_columns=64)
        assert float(density.spectral_dimension(2.0)) == pytest.approx(dimension, rel=0.1)

    def test_entropy_falls_and_stays_between_its_bounds(self, kernel):
        density = hs.spectral_density(kernel)
        entropy = density.entropy(np.geomspace(0.5, 1e6, 40))
        assert (np.diff(entropy) <= 1e-9).all()
        assert 0 <= entropy[-1] < entropy[0] < np.log(300)
        np.testing.assert_allclose(density.effective_dimension(3.0), np.exp(density.entropy(3.0)))

    def test_parts_are_counted(self):
        X = np.vstack([hs.datasets.circle(60, random_state=s) + 1e3 * s for s in range(4)])
        density = hs.spectral_density(hs.heat_kernel(X, bandwidth=0.5), n_columns=200)
        assert density.count(1 - 1e-6) == pytest.approx(3, abs=0.9)  # four parts: three modes beside the trivial one

    def test_bad_numbers_are_refused(self, kernel):
        with pytest.raises(ValueError, match="n_columns=0 was given"):
            hs.spectral_density(kernel, n_columns=0)
        with pytest.raises(ValueError, match=r"n_steps=2.5 was given"):
            hs.spectral_density(kernel, n_steps=2.5)
