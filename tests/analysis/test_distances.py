"""Diffusion distances: the paper's three forms, the laws of their estimates, and distances between data sets."""

from __future__ import annotations

import tracemalloc

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch.analysis.distances import _pairs_of_few
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.diffusion import matrix_power

FORMS = ("rows", "spectrum", "covariance")


@pytest.fixture(scope="module")
def circle_kernel():
    return hs.heat_kernel(hs.datasets.circle(80, random_state=0), bandwidth=0.5)


class TestExact:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("power", [0.5, 1, 2.5, 8])
    def test_three_forms_are_one(self, kernel, form, power):
        # The definition, from an eigendecomposition of its own: sum over l of lambda^(2t) (w_i v_i - w_j v_j)^2.
        values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
        coordinates = vectors * np.maximum(values, 0) ** power
        if kernel.row_weight is not None:
            coordinates = kernel.row_weight[:, None] * coordinates
        expected = pdist(coordinates)
        found = hs.diffusion_distances(kernel, power, form=form)
        np.testing.assert_allclose(found, expected, atol=1e-6 * expected.max())

    @pytest.mark.parametrize("form", FORMS)
    def test_pairs_are_those_of_all_pairs(self, kernel, form):
        pairs = np.array([[0, 1], [5, 2], [299, 7], [3, 3]])
        square = squareform(hs.diffusion_distances(kernel, 3, form=form))
        found = hs.diffusion_distances(kernel, 3, pairs, form=form)
        np.testing.assert_allclose(found, square[pairs[:, 0], pairs[:, 1]], atol=1e-7)

    def test_many_pairs_in_chunks(self, kernel, monkeypatch):
        pairs = np.random.default_rng(0).integers(0, 300, (1500, 2))
        whole = hs.diffusion_distances(kernel, 2, pairs)
        monkeypatch.setattr("heatsketch.analysis.distances._ROW_ENTRIES", 1000)
        np.testing.assert_allclose(hs.diffusion_distances(kernel, 2, pairs), whole, atol=1e-12)

    @pytest.mark.parametrize("most", [2, 7, 40, 60, 1000])
    def test_chunks_touch_few_points(self, most):
        points = np.random.default_rng(0).permutation(10_000)[:60]
        pairs = points[np.column_stack(np.triu_indices(60, 1))]
        groups = list(_pairs_of_few(pairs, most))
        touched = [len(np.unique(pairs[some])) for some in groups]
        np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(len(pairs)))
        assert max(touched) <= most
        # Square tiles of half as many points on a side would need the rows of `most` points each.
        tiles = -(-60 // (most // 2))
        assert sum(touched) <= max(60, most * tiles * (tiles + 1) // 2)

    def test_time_t_of_A_is_the_canonical_metric_of_A_to_the_2t(self, circle_kernel):
        for t in (0.5, 1, 3):
            expected = hs.canonical_metric(matrix_power(circle_kernel, 2 * t))
            np.testing.assert_allclose(hs.diffusion_distances(circle_kernel, t), expected, atol=1e-7)

    def test_rows_of_A_belong_to_time_one(self, circle_kernel):
        np.testing.assert_allclose(hs.diffusion_distances(circle_kernel, 1), pdist(circle_kernel.toarray()), rtol=1e-6)

    def test_markov_kernel_gives_the_distance_of_coifman_and_lafon(self, torus):
        P = hs.heat_kernel(torus, bandwidth=1.0, normalization="stochastic")
        stationary = P.trivial**2
        rows = np.linalg.matrix_power(P.toarray(), 4) / np.sqrt(stationary)  # L2 with weight 1 / pi
        np.testing.assert_allclose(hs.diffusion_distances(P, 4), pdist(rows), atol=1e-8)

    def test_a_plain_matrix_will_do(self):
        B = np.random.default_rng(0).normal(size=(20, 20))
        A = B @ B.T
        np.testing.assert_allclose(hs.diffusion_distances(A, 2), pdist(A @ A), rtol=1e-9)

    def test_large_times_keep_their_digits(self, circle_kernel):
        values = np.sort(np.linalg.eigvalsh(circle_kernel.toarray()))[::-1]
        d = hs.diffusion_distances(circle_kernel, 400)
        assert 0 < d.max() < 3 * values[1] ** 400
        assert d.min() > 1e-6 * d.max()

    def test_bad_requests(self, circle_kernel):
        with pytest.raises(ValueError, match="form='angles' is not known"):
            hs.diffusion_distances(circle_kernel, 1, form="angles")
        with pytest.raises(ValueError, match="between 0 and 79"):
            hs.diffusion_distances(circle_kernel, 1, [[0, 80]])
        with pytest.raises(ValueError, match=r"integers of shape \(m, 2\)"):
            hs.diffusion_distances(circle_kernel, 1, [[0.5, 1.0]])
        with pytest.raises(ValueError, match="square and symmetric"):
            hs.diffusion_distances(np.arange(9.0).reshape(3, 3), 1)


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


def test_interval_with_an_exact_part():
    low, high = hs.distance_interval(3.0, 5, exact_part=4.0)
    inner_low, inner_high = hs.distance_interval(3.0, 5)
    assert low == pytest.approx(np.hypot(4, inner_low))
    assert high == pytest.approx(np.hypot(4, inner_high))


class TestComponents:
    @pytest.mark.parametrize("error", [0.05, 0.1, 0.3])
    def test_is_the_smallest_that_suffices(self, error):
        def failure(k):
            return stats.chi2.cdf(k * (1 - error) ** 2, k) + stats.chi2.sf(k * (1 + error) ** 2, k)

        k = hs.components_for(error)
        assert failure(k) <= 0.05 < failure(k - 1)

    def test_holds_simultaneously(self):
        # 30 points in general position (identity kernel): all 435 distances of a sketch within 30% at once.
        k = hs.components_for(0.3, n_samples=30)
        rng = np.random.default_rng(0)
        held = sum(np.abs(pdist(rng.normal(size=(30, k))) / np.sqrt(2 * k) - 1).max() <= 0.3 for _ in range(200))
        assert held >= 190 - 3 * np.sqrt(200 * 0.05)

    def test_grows_with_samples_and_confidence(self):
        assert hs.components_for(0.1) < hs.components_for(0.1, 100) < hs.components_for(0.1, 10_000)
        assert hs.components_for(0.1) < hs.components_for(0.1, confidence=0.999)

    @pytest.mark.parametrize("error", [0, 1, -0.1, np.nan, "0.1"])
    def test_bad_errors(self, error):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            hs.components_for(error)

    def test_bad_samples(self):
        with pytest.raises(ValueError, match="at least 2"):
            hs.components_for(0.1, 1)


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
        k, n = 4, 2000
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

    def test_bad_requests(self, pair):
        with pytest.raises(ValueError, match="60 and 3 items"):
            hs.global_diffusion_distance(pair[0], np.eye(3))
        with pytest.raises(ValueError, match="at least 2"):
            hs.global_diffusion_distance(*pair, n_components=1)


def test_as_heat_kernel_keeps_operators():
    kernel = hs.heat_kernel(hs.datasets.circle(10, random_state=0))
    assert as_heat_kernel(kernel) is kernel
    assert as_heat_kernel(kernel.symmetric).symmetric is kernel.symmetric


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_all_forms_refuse_real_powers_of_indefinite_kernels(form, power):
    A = hs.heat_kernel(nx.cycle_graph(9), affinity="precomputed", diagonal="keep", normalization="symmetric")
    with pytest.raises(ValueError, match="use a whole power"):
        hs.diffusion_distances(A, power, form=form)


def test_many_pairs_take_little_memory():
    kernel = hs.heat_kernel(hs.datasets.circle(400, random_state=0), bandwidth=0.5)
    pairs = np.random.default_rng(0).integers(0, 400, (100_000, 2))  # 320 MB of row differences, were they formed
    tracemalloc.start()
    hs.diffusion_distances(kernel, 2, pairs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6


def test_more_bad_requests():
    with pytest.raises(ValueError, match="at least 1e-06"):
        hs.components_for(1e-9)
    with pytest.raises(ValueError, match="positive integer"):
        hs.distance_interval(1.0, 0)
    with pytest.raises(ValueError, match="must be square"):
        hs.canonical_metric(np.ones((2, 3)))
