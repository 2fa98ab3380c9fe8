"""Layouts as a whole: the search ends by itself, and finds what it should."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import procrustes
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import trustworthiness

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.layout import descent
from heatsketch.layout.descent import minimise
from heatsketch.layout.similarities import relative_scales, similarities_of

HS = hs.HeatSketch
DIGITS = load_digits().data


class Bowl:
    """A quadratic function, which is multiplied in early steps."""

    def __init__(self, centre):
        self.centre, self.factors = centre, []

    def gradient(self, Y, exaggeration):
        self.factors.append(exaggeration)
        return 0.2 * (Y - self.centre)

    def loss(self, Y):
        return float(np.square(Y - self.centre).mean())


class TestSearch:
    def test_ends_at_the_minimum(self):
        rng = np.random.default_rng(0)
        bowl = Bowl(rng.normal(size=(50, 2)).astype(np.float32) * 20)
        found = minimise(bowl, rng.normal(size=(50, 2)))
        assert found.loss < 0.1
        assert found.n_steps % 25 == 0
        assert bowl.factors[:50] == [4.0] * 50
        assert set(bowl.factors[50:]) == {1.0}

    def test_goes_on_from_a_start(self):
        bowl = Bowl(np.ones((50, 2), dtype=np.float32))
        found = minimise(bowl, bowl.centre, fresh=False)
        np.testing.assert_array_equal(found.Y, bowl.centre)
        assert set(bowl.factors) == {1.0}

    def test_limit_of_steps_is_reported(self, monkeypatch):
        monkeypatch.setattr(descent, "_MOST", 60)
        with pytest.warns(ConvergenceWarning, match="still improving after 60 steps"):
            model = HS(random_state=0).fit(DIGITS[:300])
        assert model.n_steps_ == 60

    @pytest.mark.parametrize("objective", ["mixed", "neighbors", "log-stress", "bilipschitz"])
    def test_loss_and_steps(self, objective, capsys):
        model = HS(objective=objective, random_state=0, verbose=objective != "bilipschitz").fit(DIGITS[:200])
        assert 0 < model.loss_ < 5
        assert 10 <= model.n_steps_ < 1000
        assert (
            objective == "bilipschitz" or f"{model.loss_:.4g} after {model.n_steps_} steps" in capsys.readouterr().err
        )

    def test_a_start_is_used(self):
        X = DIGITS[:300]
        first = HS(random_state=0).fit(X).embedding_
        again = HS(random_state=1, init=first).fit(X).embedding_
        mirrored = HS(random_state=1, init=first * [1, -1]).fit(X).embedding_
        assert procrustes(first, again)[2] < 0.15
        assert procrustes(again, mirrored)[2] < 0.02


class TestResult:
    def test_kept(self):
        model = HS(random_state=0).fit(DIGITS)
        assert trustworthiness(DIGITS, model.embedding_, n_neighbors=15) > 0.985

    def test_scale_and_axes(self):
        model = HS(random_state=0).fit(DIGITS[:400])
        d = hs.diffusion_distances(model.kernel_, model.power_)
        assert np.median(model.diffusion_distances() / d) == pytest.approx(1.0, abs=0.25)  # by a sketch of 32 columns
        Y = model.embedding_ - model.embedding_.mean(axis=0)
        covariance = Y.T @ Y
        assert abs(covariance[0, 1]) < 1e-3 * covariance[0, 0]
        assert covariance[0, 0] >= covariance[1, 1]

    @pytest.mark.parametrize("options", [{}, {"n_components": 5}, {"power": 4}])
    def test_threads_do_not_change_it(self, options, monkeypatch):
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
            found.append(HS(random_state=0, **options).fit_transform(DIGITS[:500]))
        np.testing.assert_array_equal(*found)

    def test_unit_of_the_data_does_not_change_it(self):
        small, large = (HS(random_state=0).fit_transform(DIGITS[:300] * unit) for unit in (2.0**-60, 2.0**40))
        np.testing.assert_allclose(small, large, atol=1e-5 * np.ptp(large))


class TestSimilarities:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("power", [2.0, None])
    def test_distances_are_diffusion_distances(self, normalization, power):
        kernel = hs.heat_kernel(DIGITS[:200], normalization=normalization)
        h = power or hs.multiscale(kernel)
        found = similarities_of(kernel, h, 2, weight=0.0)
        F = found.unit * np.asarray(found.features)[found.places]
        i, j = np.triu_indices(200, 1)
        ratios = np.linalg.norm(F[i] - F[j], axis=1) / hs.diffusion_distances(kernel, h)
        assert np.median(ratios) == pytest.approx(1.0, abs=0.1)  # by a sketch of 128 columns
        assert ratios.std() < 0.15
        assert found.graph.sum() == pytest.approx(200, rel=1e-5)

    def test_relative_scales(self):
        kernel = hs.heat_kernel(np.vstack([DIGITS[:200], [DIGITS[0] + 1e4]]), n_neighbors=15)
        scales = relative_scales(kernel, np.arange(201))
        assert np.median(scales) == pytest.approx(1.0)
        assert scales.max() == 4.0
        assert (relative_scales(hs.heat_kernel(DIGITS[:50], bandwidth=300.0), np.arange(50)) == 1).all()
