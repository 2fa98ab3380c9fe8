"""How many directions are exact, and the best of several sketches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import heatsketch as hs
from conftest import NORMALIZATIONS, PAPER_SETS, paper_data
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.optimize.deflation import best_split

GP = hs.GaussianProcessEmbedding


def _share(kernel, power, r):
    """Mean squared share of squared distances, over all pairs, that is not in r leading eigenvectors."""
    exact = np.square(hs.diffusion_distances(kernel, power))
    pairs = eigenpairs(kernel, max(r, 1))
    leading = np.square(pdist(pairs.coordinates(power, 1e-14)[:, :r])) if r else 0.0
    return np.mean(np.square(1.0 - leading / exact))


@pytest.mark.parametrize("k", [4, 24])
@pytest.mark.parametrize("name", PAPER_SETS)
def test_predicted_errors(name, k):
    """Against the law, with exact shares over all pairs: variance of a squared distance 2 / (k - r) times share^2."""
    X, setting = paper_data(name)
    kernel = hs.heat_kernel(X, bandwidth=setting.bandwidth)
    split = best_split(kernel, k, setting.power, seed=0)
    law = np.array([np.sqrt(2 / (k - r) * _share(kernel, setting.power, r)) for r in range(k)])
    # Twenty thousand random pairs stand for all.
    np.testing.assert_allclose(split.errors, law, rtol=0.1, atol=1e-9)
    assert split.errors[0] == pytest.approx(np.sqrt(2 / k))
    # Never worse in expectation.
    r = split.directions.shape[1]
    assert law[r] <= law[0] * (1 + 1e-12)
    assert law[r] <= 1.1 * law.min() + 1e-9 or r == 0


def test_measured_errors():
    X, setting = paper_data("circle")
    options = {"power": setting.power, "bandwidth": setting.bandwidth, "n_exact": "auto"}
    models = [GP(8, random_state=seed, **options).fit(X) for seed in range(20)]
    r = models[0].n_exact_
    exact = np.square(hs.diffusion_distances(models[0].kernel_, setting.power))
    measured = np.mean([np.square(np.square(pdist(m.embedding_)) / exact - 1.0) for m in models])
    law = 2 / (8 - r) * _share(models[0].kernel_, setting.power, r)
    assert 0.5 < measured / law < 2.0
    assert measured < 1e-3 * 2 / 8  # of a plain sketch


def test_unbiased(torus):
    torus = torus[:100]
    options = {"bandwidth": 1.0, "power": 4, "n_exact": "auto"}
    model = GP(12, random_state=0, **options).fit(torus)
    assert 0 < model.n_exact_ < 12
    exact = np.square(hs.diffusion_distances(model.kernel_, 4))
    mean = np.mean(
        [np.square(pdist(GP(12, random_state=s, **options).fit_transform(torus))) for s in range(80)], axis=0
    )
    spread = np.sqrt(2 / (12 - model.n_exact_) / 80)
    assert np.abs(mean / exact - 1.0).max() < 6 * spread


def test_nothing_exact_where_it_does_not_pay():
    X, setting = paper_data("klein_bottle")
    model = GP(4, n_exact="auto", power=setting.power, bandwidth=setting.bandwidth, random_state=0).fit(X)
    assert model.n_exact_ == 0
    plain = GP(4, power=setting.power, bandwidth=setting.bandwidth, random_state=0).fit(X)
    np.testing.assert_array_equal(model.embedding_, plain.embedding_)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_all_normalisations(torus, normalization):
    kernel = hs.heat_kernel(torus, bandwidth=1.0, normalization=normalization)
    model = GP(40, n_exact="auto", bandwidth=1.0, normalization=normalization, random_state=0).fit(torus)
    assert model.n_exact_ > 20
    error = np.square(pdist(model.embedding_) / hs.diffusion_distances(kernel, 8)) - 1.0
    assert np.sqrt(np.mean(np.square(error))) < 3 * best_split(kernel, 40, 8, 0).errors.min()


def test_large_data_and_large_powers():
    X = hs.datasets.circle(2100, random_state=0)
    assert GP(8, n_exact="auto", bandwidth=0.25, random_state=0).fit(X).n_exact_ > 2
    X = np.random.default_rng(0).normal(size=(200, 3))
    second = hs.DiffusionMaps(1, bandwidth=60.0).fit(X).eigenvalues_[0]
    # Distances of about 1e-200, whose squares are not numbers.
    tiny = GP(4, n_exact="auto", bandwidth=60.0, power=round(-200 / np.log10(second)), random_state=0).fit(X)
    assert tiny.n_exact_ == 3


def test_one_component_is_sketched(torus):
    assert GP(1, n_exact="auto", bandwidth=1.0).fit(torus).n_exact_ == 0


def test_wanted_errors_and_growth(torus):
    model = GP("auto", n_exact="auto", distance_error=0.3, bandwidth=1.0, random_state=0).fit(torus)
    assert model.n_components_ == hs.components_for(0.3)
    r, sketched = model.n_exact_, model.n_components_ - model.n_exact_
    low, high = model.diffusion_distances([[0, 1]], interval=0.9)[1:]
    assert low[0] < high[0]
    model.add_components(3)
    assert (model.n_exact_, model._n_sketched) == (r, sketched + 3)


class TestBestOfSeveral:
    @pytest.mark.parametrize(
        "options",
        [{"n_init": 0}, {"n_init": 2, "sketch": np.ones((300, 2))}, {"n_exact": "auto", "sketch": np.ones((300, 2))}],
    )
    def test_refused(self, torus, options):
        with pytest.raises(ValueError, match="n_init"):
            GP(2, bandwidth=1.0, **options).fit(torus)
