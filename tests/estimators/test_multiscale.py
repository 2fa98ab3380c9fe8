"""Embeddings that keep all diffusion times: the same contract as for a single time, and the same law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import heatsketch as hs

DM, GP, HS = hs.DiffusionMaps, hs.GaussianProcessEmbedding, hs.HeatSketch
X = hs.datasets.stretched_torus(400, random_state=0)
NEW = hs.datasets.stretched_torus(20, random_state=1)
PAIRS = np.random.default_rng(0).integers(0, 400, (200, 2))
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]


def fitted(kind, points=X, **options):
    seed = {} if kind is DM else {"random_state": 0}
    return kind(3, **seed, **options).fit(points)


@pytest.fixture(scope="module", params=[DM, GP, HS])
def model(request):
    return fitted(request.param)


class TestDefaults:
    def test_keep_all_times_of_fifteen_neighbours(self, model):
        assert isinstance(model.power_, hs.MultiscaleFilter)
        assert model.power_ == hs.multiscale(model.kernel_)
        assert model.n_neighbors_ == 15
        assert model.bandwidth_.shape == (400,)

    def test_repeat_by_what_was_fitted(self, model):
        again = fitted(type(model), power=model.power_, bandwidth=model.bandwidth_)
        np.testing.assert_array_equal(again.embedding_, model.embedding_)
        np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))
        named = fitted(type(model), power="multiscale", bandwidth="self-tuning", n_neighbors=15)
        np.testing.assert_array_equal(named.embedding_, model.embedding_)

    def test_training_points_land_on_the_embedding(self, model):
        np.testing.assert_allclose(model.transform(X[5:9]), model.embedding_[5:9], atol=1e-9)

    def test_new_points_land_near_their_neighbours(self, model):
        nearest = np.linalg.norm(NEW[:, None] - X[None], axis=2).argmin(axis=1)
        moved = np.linalg.norm(model.transform(NEW) - model.embedding_[nearest], axis=1)
        assert np.median(moved) < 0.2 * np.median(model.diffusion_distances(PAIRS))

    def test_single_times_are_those_of_a_power(self, model):
        at = model.at_powers([2, 16])
        for Y, t in zip(at, (2, 16), strict=True):
            if type(model) is HS:  # S^t M with the M whose sketch is the embedding
                values, V = np.linalg.eigh(model.kernel_.symmetric.toarray())
                part = V.T @ model.embedding_
                np.testing.assert_allclose(
                    V @ (model.power_(values)[:, None] * (part / model.power_(values)[:, None])), model.embedding_
                )
                Y0 = V @ ((values**t / model.power_(values))[:, None] * part)
                np.testing.assert_allclose(Y - Y[0], Y0 - Y0[0], atol=1e-5 * np.ptp(Y0))
            else:
                np.testing.assert_allclose(Y, fitted(type(model), power=t).embedding_, atol=1e-8 * np.ptp(Y))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_intervals_of_nearly_exact_distances(self, dtype):
        """The error of the filter's polynomial counts where sketched directions carry next to nothing."""
        points = hs.datasets.stretched_torus(40, random_state=0).astype(dtype)
        model = hs.GaussianProcessEmbedding(39, n_exact=38, normalization="symmetric", random_state=0).fit(points)
        exact = hs.diffusion_distances(model.kernel_, model.power_)
        _, low, high = model.diffusion_distances(interval=0.95)
        assert np.mean((low <= exact) & (exact <= high)) > 0.9

    def test_distortion_and_intervals_are_of_the_multiscale_distance(self, model):
        exact = hs.diffusion_distances(model.kernel_, model.power_)
        assert model.distortion().constant == pytest.approx(hs.bilipschitz_constant(model.embedding_, exact))
        _, low, high = model.diffusion_distances(interval=0.95)
        slack = 1e-7 * exact.max()
        assert np.mean((low - slack <= exact) & (exact <= high + slack)) > 0.9

    def test_saved_and_loaded(self, model, tmp_path):
        hs.save_model(model, tmp_path / "model.heatsketch")
        loaded = hs.load_model(tmp_path / "model.heatsketch")
        assert loaded.power_ == model.power_
        np.testing.assert_array_equal(loaded.transform(NEW), model.transform(NEW))

    def test_float32(self, model):
        single = fitted(type(model), X.astype(np.float32))
        assert single.embedding_.dtype == np.float32
        exact = hs.diffusion_distances(model.kernel_, model.power_, PAIRS)
        np.testing.assert_allclose(hs.diffusion_distances(single.kernel_, "multiscale", PAIRS), exact, rtol=2e-3)


class TestLaw:
    def test_distances_follow_chi_square(self):
        kernel = hs.heat_kernel(X)
        exact = hs.diffusion_distances(kernel, "multiscale", [[3, 333]])[0]
        model = GP(2000, random_state=0).fit(X)
        steps = np.square(model.embedding_[3] - model.embedding_[333]) * 2000 / exact**2  # chi-square with 1 degree
        assert kstest(steps, chi2(1).cdf).pvalue > 0.01

    def test_more_columns_are_those_of_a_larger_fit(self):
        model = GP(3, random_state=0).fit(X).add_components(2)
        np.testing.assert_allclose(model.embedding_, GP(5, random_state=0).fit(X).embedding_, atol=1e-12)

    def test_exact_directions_leave_distances_unbiased(self):
        exact = hs.diffusion_distances(hs.heat_kernel(X), "multiscale", PAIRS) ** 2
        model = GP(12, n_exact=8, random_state=0).fit(X)
        squares = []
        for seed in range(60):
            model.set_params(random_state=seed)._embed(model.kernel_, model.power_, np.float64)
            squares.append(model.diffusion_distances(PAIRS) ** 2)
        mean, error = np.mean(squares, axis=0), np.std(squares, axis=0) / np.sqrt(60)
        assert np.mean(np.abs(mean - exact) < 3 * error) > 0.97

    def test_pairs_agree_with_all(self):
        kernel = hs.heat_kernel(X)
        every = hs.diffusion_distances(kernel, "multiscale")
        i, j = np.triu_indices(400, 1)
        some = np.random.default_rng(0).choice(len(every), 50)
        found = hs.diffusion_distances(kernel, "multiscale", np.column_stack([i, j])[some])
        np.testing.assert_allclose(found, every[some], rtol=1e-6)


def test_times_are_numbers(model):
    with pytest.raises(ValueError, match="numbers"):
        model.at_powers([1, model.power_])


@pytest.mark.parametrize("power", ["paths", "entropy", "Multiscale", ""])
def test_unknown_names(power):
    with pytest.raises(ValueError, match="multiscale"):
        GP(2, power=power).fit(X)
