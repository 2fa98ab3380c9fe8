"""Traces, the spectral density and scales: against exact spectra and closed forms."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.base import clone

import heatsketch as hs
from heatsketch.analysis.density import SpectralDensity
from heatsketch.linalg import lanczos
from heatsketch.linalg.lanczos import spectral_quadrature
from laws import Permuted

mpl.use("Agg")


def exact_entropy(kernel: hs.HeatKernel, power: float) -> float:
    sizes = np.abs(np.linalg.eigvalsh(kernel.deflated.toarray()))
    shares = sizes ** (2 * power)
    shares = shares[shares > 0] / shares.sum()
    return float(-(shares * np.log(shares)).sum())


@pytest.fixture(scope="module")
def large():
    """More points than are diagonalised."""
    return hs.heat_kernel(hs.datasets.stretched_torus(700, random_state=0))


class TestQuadrature:
    def test_few_points_have_their_eigenvalues(self, kernel):
        nodes, weights = spectral_quadrature(kernel, 4, 5)
        values = np.linalg.eigvalsh(kernel.deflated.toarray())
        np.testing.assert_allclose((weights * nodes**2).sum(), (values**2).sum())
        assert weights.sum() == 299

    def test_late_traces_are_exact(self, large):
        nodes, weights = spectral_quadrature(large, 16, 64)
        values = np.linalg.eigvalsh(large.deflated.toarray())
        late = np.log(0.1) / np.log(values[-1])  # the largest eigenvalue has decayed to a tenth
        assert (weights * np.abs(nodes) ** late).sum() == pytest.approx((np.abs(values) ** late).sum(), rel=0.02)

    def test_traces_are_unbiased(self, large, monkeypatch):
        exact, found = np.sum(np.square(np.linalg.eigvalsh(large.deflated.toarray()))), []
        for seed in range(30):
            monkeypatch.setattr(lanczos, "_SEED", seed)
            nodes, weights = spectral_quadrature(large, 4, 8)
            found.append((weights * nodes**2).sum())
        assert np.mean(found) == pytest.approx(exact, abs=4 * np.std(found) / np.sqrt(30))

    def test_row_order_does_not_matter(self, large):
        order = np.random.default_rng(0).permutation(700)
        other = hs.HeatKernel(Permuted(large.symmetric.toarray(), order), trivial=large.trivial)
        expected, found = (SpectralDensity(*spectral_quadrature(one, 8, 24)) for one in (large, other))
        np.testing.assert_allclose(found.trace([1.0, 8.0, 32.0]), expected.trace([1.0, 8.0, 32.0]), rtol=1e-6)

    @pytest.mark.parametrize("n", [2, 40, 600])
    def test_exhausted_spaces_bring_no_nan(self, n):
        kernel = hs.heat_kernel(np.ones((n, n)), affinity="precomputed", diagonal="keep")  # only the trivial mode
        density = hs.spectral_density(kernel, n_columns=4, n_steps=10)
        assert np.isfinite(density.entropy([1.0, 10.0])).all()


class TestDensity:
    def test_entropy_of_a_torus(self):
        kernel = hs.heat_kernel(hs.datasets.stretched_torus(600, random_state=0))
        density = hs.spectral_density(kernel, n_columns=64)
        for power in (1.0, 4.0, 16.0, 64.0):
            exact = exact_entropy(kernel, power)
            # A trace of d modes is known to sqrt(2 / (32 d)), and so is its logarithm.
            assert float(density.entropy(power)) == pytest.approx(exact, abs=3 * np.sqrt(2 / (32 * np.exp(exact))))

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
        density = hs.spectral_density(hs.heat_kernel(X, bandwidth=0.5))
        assert density.count(1 - 1e-6) == pytest.approx(3)  # without the trivial mode

    def test_bad_arguments(self, kernel):
        for bad in ({"n_columns": 0}, {"n_steps": 2.5}):
            with pytest.raises(ValueError, match=next(iter(bad))):
                hs.spectral_density(kernel, **bad)


@pytest.fixture(scope="module")
def model(torus):
    return hs.GaussianProcessEmbedding(3, power=8, bandwidth=1.0, random_state=0).fit(torus)


class TestScales:
    def test_one_entry_for_each_power(self, model):
        scales = model.scales([1, 4, 16])
        np.testing.assert_array_equal(scales.powers, [1, 4, 16])
        for name in ("entropy", "effective_dimension", "spectral_dimension", "distortion"):
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

    def test_all_times_have_none_that_is_chosen(self, torus):
        model = hs.DiffusionMaps(2).fit(torus)
        found = model.scales()
        assert found.chosen is None
        assert "chosen" not in str(found)
        found.plot()
        plt.close("all")

    def test_plot(self, model):
        above, below = model.scales([1, 2, 8]).plot()
        assert above.get_yscale() == "log"
        assert len(below.get_lines()) == 2  # the curve, and the chosen power
        plt.close("all")

    def test_bad_powers(self, model):
        with pytest.raises(ValueError, match="positive"):
            model.scales([1, -2])


@pytest.mark.parametrize("normalization", ["bistochastic", "stochastic"])
@pytest.mark.parametrize("estimator", [hs.GaussianProcessEmbedding(3, random_state=0), hs.DiffusionMaps(3)])
def test_scales_from_inner_products(torus, monkeypatch, estimator, normalization):
    """Large data: distances from entries of S^(2t) are those from rows of S^t."""
    model = clone(estimator).set_params(bandwidth=1.0, normalization=normalization).fit(torus)
    monkeypatch.setattr("heatsketch.analysis.scales._ANCHORS", 32)
    expected = model.scales([2.0, 8.0, 32.0]).distortion
    monkeypatch.setattr("heatsketch.analysis.scales._FEW", 0)
    monkeypatch.setattr("heatsketch.analysis.scales._FEWEST", 32)
    np.testing.assert_allclose(model.scales([2.0, 8.0, 32.0]).distortion, expected, rtol=0.05)


def test_scales_refuse_powers_at_which_nothing_is_left():
    model = hs.GaussianProcessEmbedding(2, bandwidth=0.5, random_state=0).fit(hs.datasets.circle(200, random_state=0))
    assert np.isfinite(model.scales([1, 64]).distortion).all()
    with pytest.raises(ValueError, match="nothing but the constant"):
        model.scales([1, 1e6])
