"""Krylov sketches, the spectral density and scales: against exact powers, exact spectra and closed forms."""

from __future__ import annotations

import matplotlib as mpl
import networkx as nx
import numpy as np
import pytest
from matplotlib import pyplot as plt

import heatsketch as hs
from heatsketch.analysis.density import SpectralDensity
from heatsketch.linalg.lanczos import KrylovSketch, horizon
from laws import Permuted

mpl.use("Agg")


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

    def test_reordered_operator_gives_the_wanted_rows(self, kernel):
        order, rows = np.random.default_rng(0).permutation(300), np.array([17, 3, 299])
        permuted = Permuted(kernel.symmetric.toarray(), order)
        other = hs.HeatKernel(permuted, trivial=kernel.trivial, row_weight=kernel.row_weight)
        found, expected = (KrylovSketch(one, rows, 2, 24).features(3.0) for one in (other, kernel))
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())

    @pytest.mark.parametrize("n", [2, 40])
    def test_exhausted_spaces_bring_no_nan(self, n):
        kernel = hs.heat_kernel(np.ones((n, n)), affinity="precomputed", diagonal="keep")  # only the trivial mode
        sketch = KrylovSketch(kernel, np.arange(n), 4, 10)
        assert np.isfinite(sketch.features(5.0)).all()
        assert np.isfinite(SpectralDensity(*sketch.quadrature()).entropy([1.0, 10.0])).all()


class TestDensity:
    def test_entropy_of_a_torus(self):
        kernel = hs.heat_kernel(hs.datasets.stretched_torus(600, random_state=0))
        density = hs.spectral_density(kernel, n_columns=64)
        for power in (1.0, 4.0, 16.0, 64.0):
            exact = exact_entropy(kernel, power)
            # A trace of d modes is known to sqrt(2 / (64 d)), and so is its logarithm.
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

    def test_components_are_counted(self):
        X = np.vstack([hs.datasets.circle(60, random_state=s) + 1e3 * s for s in range(4)])
        density = hs.spectral_density(hs.heat_kernel(X, bandwidth=0.5), n_columns=200)
        assert density.count(1 - 1e-6) == pytest.approx(3, abs=0.9)  # without the trivial mode

    def test_bad_arguments(self, kernel):
        for bad in ({"n_columns": 0}, {"n_steps": 2.5}):
            with pytest.raises(ValueError, match=next(iter(bad))):
                hs.spectral_density(kernel, **bad)


@pytest.fixture(scope="module")
def model(torus):
    return hs.GaussianProcessEmbedding(3, bandwidth=1.0, random_state=0).fit(torus)


class TestScales:
    def test_one_entry_for_each_power(self, model):
        scales = model.scales([1, 4, 16])
        np.testing.assert_array_equal(scales.powers, [1, 4, 16])
        for name in ("entropy", "effective_dimension", "spectral_dimension", "distortion", "paths"):
            values = getattr(scales, name)
            assert values.shape == (3,)
            assert np.isfinite(values).all()
        assert (np.diff(scales.entropy) < 0).all()

    def test_default_powers_contain_the_chosen_one(self, model):
        scales = model.scales()
        assert scales.chosen == 8.0
        assert 8.0 in scales.powers

    def test_distortion_is_that_of_the_embedding(self, model):
        exact = np.log(model.distortion().central[0.01])
        assert model.scales([8.0]).distortion[0] == pytest.approx(exact, rel=0.15)  # a sample of 128 points

    def test_graphs_have_no_paths(self):
        model = hs.DiffusionMaps(2, affinity="precomputed", power=2).fit(nx.cycle_graph(30))
        found = model.scales([1.0, 4.0])
        assert found.paths is None
        assert "paths" not in found._repr_html_()

    def test_plot(self, model):
        above, below = model.scales([1, 2, 8]).plot()
        assert above.get_yscale() == "log"
        assert len(below.get_lines()) == 3  # two curves, and the chosen power
        plt.close("all")

    def test_bad_powers(self, model):
        with pytest.raises(ValueError, match="positive"):
            model.scales([1, -2])
