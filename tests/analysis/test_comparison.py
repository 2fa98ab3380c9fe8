"""Two kernels on the same items: the law of their global distance, and of each item."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import stats

import heatsketch as hs
from heatsketch.linalg.diffusion import matrix_power

mpl.use("Agg")


@pytest.fixture(scope="module")
def kernels():
    """Of a circle, and of the same points with noise."""
    X = hs.datasets.circle(60, random_state=0)
    noisy = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    return tuple(hs.heat_kernel(points, bandwidth=0.5) for points in (X, noisy))


def test_law_is_a_sum_of_chi_squares(kernels):
    """The paper's robustness proposition, with its variance corrected: (2/k) sum mu^4."""
    A, B = kernels
    mu = np.linalg.eigvalsh(A.toarray() - B.toarray())
    k, n = 4, 500
    found = [hs.global_diffusion_distance(A, B, n_components=k, random_state=s) for s in range(n)]
    squared = np.array([f.distance**2 for f in found])
    variance = 2 / k * (mu**4).sum()
    assert squared.mean() == pytest.approx((mu**2).sum(), abs=4 * np.sqrt(variance / n))
    assert squared.var() == pytest.approx(variance, rel=0.2)
    assert abs(squared.var() - 2 / k * (mu**2).sum()) > 0.5 * variance  # what the paper prints does not fit
    assert np.mean([f.variance for f in found]) == pytest.approx(variance, rel=0.2)
    law = np.random.default_rng(0).chisquare(k, size=(4000, len(mu))) @ mu**2 / k
    assert stats.ks_2samp(squared, law).pvalue > 1e-3


def test_intervals_cover(kernels):
    powers = [matrix_power(kernel, 3) for kernel in kernels]
    items = np.linalg.norm(np.subtract(*powers), axis=1)
    exact = np.linalg.norm(items)
    total, covered = 0, []
    for seed in range(200):
        found = hs.compare_kernels(*kernels, 3, n_components=16, interval=0.9, random_state=seed)
        total += found.total.low <= exact <= found.total.high
        covered.append(np.mean((found.item_low <= items) & (items <= found.item_high)))
    assert stats.binomtest(total, 200, 0.9).pvalue > 1e-3
    assert np.mean(covered) == pytest.approx(0.9, abs=4 * np.std(covered) / np.sqrt(200))


def test_items_add_up(kernels):
    found = hs.compare_kernels(*kernels, 3, random_state=0)
    assert np.square(found.item_distances).sum() == pytest.approx(found.total.distance**2)
    assert found.total == hs.global_diffusion_distance(*kernels, 3, random_state=0)


def test_equal_kernels_have_distance_zero(kernels):
    same = hs.compare_kernels(kernels[0], kernels[0], 2, n_components=5, random_state=1)
    np.testing.assert_array_equal(same.first, same.second)
    assert same.total.distance == same.total.low == same.total.high == 0


def test_plot_draws_each_item(kernels):
    ax = hs.compare_kernels(*kernels, random_state=0).plot()
    assert len(ax.collections) == 2
    assert len(ax.get_lines()) == 60
    plt.close("all")


def test_bad_arguments(kernels):
    with pytest.raises(ValueError, match="60 and 3"):
        hs.compare_kernels(kernels[0], np.eye(3))
    with pytest.raises(ValueError, match="n_components=1"):
        hs.compare_kernels(*kernels, n_components=1)
