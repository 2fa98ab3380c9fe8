"""How many directions to take exactly, and the error that follows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.optimize.deflation import best_split

GP = hs.GaussianProcessEmbedding
CIRCLE = hs.datasets.circle(200, random_state=0)
TORUS = hs.datasets.stretched_torus(150, random_state=0)


def remaining_share(kernel, power, r):
    """Mean square, over all pairs, of the share of squared distances outside r leading eigenvectors."""
    exact = np.square(hs.diffusion_distances(kernel, power))
    leading = np.square(pdist(eigenpairs(kernel, r).coordinates(power, 1e-14)[:, :r])) if r else 0.0
    return np.mean(np.square(1.0 - leading / exact))


@pytest.mark.parametrize("k", [4, 24])
@pytest.mark.parametrize(("X", "bandwidth", "power"), [(CIRCLE, 0.25, 8), (TORUS, 1.0, 10)], ids=["circle", "torus"])
def test_predicted_errors(X, bandwidth, power, k):
    """The variance of a squared distance is 2 / (k - r) times the squared share that is sketched."""
    kernel = hs.heat_kernel(X, bandwidth=bandwidth)
    split = best_split(kernel, k, power, seed=0)
    law = np.array([np.sqrt(2 / (k - r) * remaining_share(kernel, power, r)) for r in range(k)])
    # Twenty thousand random pairs stand for all.
    np.testing.assert_allclose(split.errors, law, rtol=0.1, atol=1e-9)
    assert split.errors[0] == pytest.approx(np.sqrt(2 / k))
    r = split.directions.shape[1]
    assert law[r] <= 1.1 * law.min() + 1e-9 or (r == 0 and law.min() > 0.9 * law[0])


def test_unbiased_with_predicted_error():
    options = {"bandwidth": 1.0, "power": 4}
    model = GP(12, n_exact="auto", random_state=0, **options).fit(TORUS)
    r = model.n_exact_
    assert 0 < r < 12
    exact = np.square(hs.diffusion_distances(model.kernel_, 4))
    sketches = [GP(12, n_exact=r, random_state=seed, **options).fit_transform(TORUS) for seed in range(60)]
    np.testing.assert_allclose(sketches[0], model.embedding_, atol=1e-12)
    errors = np.array([np.square(pdist(Y)) for Y in sketches]) / exact - 1.0
    assert np.abs(errors.mean(axis=0)).max() < 6 * np.sqrt(2 / (12 - r) / 60)
    assert np.mean(np.square(errors)) == pytest.approx(2 / (12 - r) * remaining_share(model.kernel_, 4, r), rel=0.3)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_all_normalizations(normalization):
    kernel = hs.heat_kernel(TORUS, bandwidth=1.0, normalization=normalization)
    model = GP(40, n_exact="auto", power=8, bandwidth=1.0, normalization=normalization, random_state=0).fit(TORUS)
    assert model.n_exact_ > 20
    error = np.square(pdist(model.embedding_) / hs.diffusion_distances(kernel, 8)) - 1.0
    assert np.sqrt(np.mean(np.square(error))) < 3 * best_split(kernel, 40, 8, 0).errors.min()


def test_no_exact_direction_without_gain():
    X = hs.datasets.klein_bottle(300, random_state=0)
    options = {"power": 4, "bandwidth": 4.0, "random_state": 0}
    model, plain = (GP(4, n_exact=n, **options).fit(X) for n in ("auto", 0))
    assert model.n_exact_ == 0
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)


def test_small_and_degenerate_kernels():
    one = best_split(hs.heat_kernel(TORUS, bandwidth=1.0), 1, 2, 0)
    assert one.directions.shape == (150, 0)
    coincident = best_split(as_heat_kernel(np.full((5, 5), 0.2)), 4, 2, 0)
    assert coincident.directions.shape == (5, 0)
    np.testing.assert_allclose(coincident.errors, [np.sqrt(2 / 4)])
    # Six points have five nontrivial directions.
    assert best_split(hs.heat_kernel(TORUS[:6], bandwidth=9.0), 20, 1, 3).errors.shape == (6,)


def test_large_power():
    X = np.random.default_rng(0).normal(size=(100, 3))
    second = hs.DiffusionMaps(1, bandwidth=60.0).fit(X).eigenvalues_[0]
    # Distances of about 1e-200, whose squares underflow.
    tiny = GP(4, n_exact="auto", bandwidth=60.0, power=round(-200 / np.log10(second)), random_state=0).fit(X)
    assert tiny.n_exact_ >= 2


def test_distance_error_and_added_components(torus):
    model = GP("auto", n_exact="auto", distance_error=0.3, bandwidth=1.0, random_state=0).fit(torus)
    assert model.n_components_ == hs.components_for(0.3)
    r, k = model.n_exact_, model.n_components_
    low, high = model.diffusion_distances([[0, 1]], interval=0.9)[1:]
    assert low[0] < high[0]
    model.add_components(3)
    assert (model.n_exact_, model.n_components_) == (r, k + 3)
