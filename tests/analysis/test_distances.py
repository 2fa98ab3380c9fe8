"""Diffusion distances: the paper's three forms, the laws of their estimates, and distances between data sets."""

from __future__ import annotations

import tracemalloc

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist

import heatsketch as hs
from heatsketch.linalg.diffusion import matrix_power

FORMS = ("rows", "spectrum", "covariance")


@pytest.fixture(scope="module")
def circle_kernel():
    return hs.heat_kernel(hs.datasets.circle(80, random_state=0), bandwidth=0.5)


class TestExact:
    def test_canonical_metric_of_the_squared_power(self, circle_kernel):
        for t in (0.5, 1, 3):
            expected = hs.canonical_metric(matrix_power(circle_kernel, 2 * t))
            np.testing.assert_allclose(hs.diffusion_distances(circle_kernel, t), expected, atol=1e-7)

    def test_time_one_compares_rows_of_the_kernel(self, circle_kernel):
        np.testing.assert_allclose(hs.diffusion_distances(circle_kernel, 1), pdist(circle_kernel.toarray()), rtol=1e-6)

    def test_markov_kernel_gives_the_distance_of_coifman_and_lafon(self, torus):
        P = hs.heat_kernel(torus, bandwidth=1.0, normalization="stochastic")
        stationary = P.trivial**2
        rows = np.linalg.matrix_power(P.toarray(), 4) / np.sqrt(stationary)  # L2 with weight 1 / pi
        np.testing.assert_allclose(hs.diffusion_distances(P, 4), pdist(rows), atol=1e-8)

    def test_plain_matrix(self):
        B = np.random.default_rng(0).normal(size=(20, 20))
        A = B @ B.T
        np.testing.assert_allclose(hs.diffusion_distances(A, 2), pdist(A @ A), rtol=1e-9)

    def test_large_times_keep_their_digits(self, circle_kernel):
        values = np.sort(np.linalg.eigvalsh(circle_kernel.toarray()))[::-1]
        d = hs.diffusion_distances(circle_kernel, 400)
        assert 0 < d.max() < 3 * values[1] ** 400
        assert d.min() > 1e-6 * d.max()


@pytest.fixture(scope="module", params=[1, 3, 10])
def ratios(request, torus):
    k = request.param
    kernel = hs.heat_kernel(torus, bandwidth=1.0)
    pairs = np.array([[0, 1], [10, 200], [50, 51]])
    d = hs.diffusion_distances(kernel, 6, pairs)
    model = hs.GaussianProcessEmbedding(k, power=6, bandwidth=1.0)
    estimates = [model.set_params(random_state=s).fit(torus).diffusion_distances(pairs) for s in range(250)]
    return k, k * np.square(estimates) / d**2


class TestLaw:
    """For a Gaussian sketch k |y_i - y_j|^2 / d_ij^2 is chi-square with k degrees of freedom."""

    def test_goodness_of_fit(self, ratios):
        k, values = ratios
        for pair in values.T:
            assert stats.kstest(pair, stats.chi2(k).cdf).pvalue > 1e-3

    def test_unbiased(self, ratios):
        k, values = ratios
        error = np.abs(values.mean(axis=0) / k - 1)
        assert (error < 4 * np.sqrt(2 / k / len(values))).all()

    def test_intervals_cover(self, ratios):
        k, values = ratios
        low, high = hs.distance_interval(np.sqrt(values / k), k, 0.95)  # estimates of a distance of 1
        covered = ((low < 1) & (high > 1)).sum(axis=0)
        n = len(values)
        for count in covered:
            assert stats.binomtest(int(count), n, 0.95).pvalue > 1e-3


class TestComponents:
    def test_holds_simultaneously(self):
        # 30 points in general position (identity kernel): all 435 distances of a sketch within 30% at once.
        k = hs.components_for(0.3, n_samples=30)
        rng = np.random.default_rng(0)
        held = sum(np.abs(pdist(rng.normal(size=(30, k))) / np.sqrt(2 * k) - 1).max() <= 0.3 for _ in range(200))
        assert held >= 190 - 3 * np.sqrt(200 * 0.05)

    def test_grows_with_samples_and_confidence(self):
        assert hs.components_for(0.1) < hs.components_for(0.1, 100) < hs.components_for(0.1, 10_000)
        assert hs.components_for(0.1) < hs.components_for(0.1, confidence=0.999)


@pytest.fixture(scope="module")
def pair():
    X = hs.datasets.circle(60, random_state=0)
    noisy = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    return tuple(hs.heat_kernel(Z, bandwidth=0.5) for Z in (X, noisy))


class TestGlobalDistance:
    """The robustness proposition, with its variance corrected: (2/k) sum mu^4."""

    def test_mean_and_variance(self, pair):
        A, B = pair
        mu = np.linalg.eigvalsh(A.toarray() - B.toarray())
        k, n = 4, 800
        found = [hs.global_diffusion_distance(A, B, n_components=k, random_state=s) for s in range(n)]
        squared = np.array([f.distance**2 for f in found])
        variance = 2 / k * (mu**4).sum()
        assert squared.mean() == pytest.approx((mu**2).sum(), abs=4 * np.sqrt(variance / n))
        assert squared.var() == pytest.approx(variance, rel=0.15)
        assert abs(squared.var() - 2 / k * (mu**2).sum()) > 0.5 * variance  # what the paper prints does not fit
        assert np.mean([f.variance for f in found]) == pytest.approx(variance, rel=0.15)

    def test_law_is_a_sum_of_chi_squares(self, pair):
        A, B = pair
        mu = np.linalg.eigvalsh(A.toarray() - B.toarray())
        rng = np.random.default_rng(0)
        law = rng.chisquare(4, size=(4000, len(mu))) @ mu**2 / 4
        found = [hs.global_diffusion_distance(A, B, n_components=4, random_state=s).distance ** 2 for s in range(500)]
        assert stats.ks_2samp(found, law).pvalue > 1e-3

    def test_interval_covers(self, pair):
        A, B = pair
        exact = np.linalg.norm(matrix_power(A, 3) - matrix_power(B, 3))
        found = [
            hs.global_diffusion_distance(A, B, 3, n_components=16, random_state=s, interval=0.9) for s in range(400)
        ]
        covered = sum(f.low <= exact <= f.high for f in found)
        assert stats.binomtest(covered, 400, 0.9).pvalue > 1e-3  # two moments matched: close to nominal

    def test_equal_kernels_have_distance_zero(self, pair):
        result = hs.global_diffusion_distance(pair[0], pair[0], random_state=0)
        assert result.distance == result.low == result.high == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_all_forms_refuse_real_powers_of_indefinite_kernels(form, power):
    A = hs.heat_kernel(nx.cycle_graph(9), affinity="precomputed", diagonal="keep", normalization="symmetric")
    with pytest.raises(ValueError, match="whole power"):
        hs.diffusion_distances(A, power, form=form)


def test_many_pairs_take_little_memory():
    kernel = hs.heat_kernel(hs.datasets.circle(400, random_state=0), bandwidth=0.5)
    pairs = np.random.default_rng(0).integers(0, 400, (100_000, 2))  # 320 MB of row differences, were they formed
    tracemalloc.start()
    hs.diffusion_distances(kernel, 2, pairs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6
