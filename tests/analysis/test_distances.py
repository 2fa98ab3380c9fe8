"""Diffusion distances against their definition, and the chi-square law of their estimates."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from heatsketch.analysis import distances
from heatsketch.analysis.distances import columns_for, distances_among, embedded_distances, error_of, sketch_interval
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.diffusion import matrix_power
from heatsketch.linalg.operators import DenseOperator
from laws import symmetric

N = 24
X = np.random.default_rng(0).normal(size=(N, 2))
PAIRS = np.array([[0, 1], [5, 2], [23, 7], [3, 3], [1, 0]])


@cache
def _kernel(normalization="bistochastic"):
    return hs.heat_kernel(X, bandwidth=2.0, tol=1e-14, normalization=normalization)


def _coordinates(kernel, t):
    """Rows whose distances are the diffusion distances, by an independent eigendecomposition."""
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values = np.where(values > 1e-13, values, 0.0)
    weight = 1.0 if kernel.row_weight is None else kernel.row_weight[:, None]
    return weight * vectors * values**t


class TestExact:
    @pytest.mark.parametrize("normalization", ["bistochastic", "symmetric", "stochastic"])
    @pytest.mark.parametrize("t", [1, 2.5])
    def test_definition_by_spectrum_and_covariance(self, normalization, t):
        kernel = _kernel(normalization)
        expected = pdist(_coordinates(kernel, t))
        found = hs.diffusion_distances(kernel, t)
        np.testing.assert_allclose(found, expected, atol=1e-9 * expected.max())
        some = hs.diffusion_distances(kernel, t, PAIRS)
        np.testing.assert_allclose(some, squareform(expected)[tuple(PAIRS.T)], atol=1e-9 * expected.max())
        C = matrix_power(kernel, 2 * t)
        weight = np.ones(N) if kernel.row_weight is None else kernel.row_weight
        np.testing.assert_allclose(hs.canonical_metric(np.outer(weight, weight) * C), expected, atol=1e-6)
        points = np.array([4, 0, 17, 9])
        among = distances_among(kernel, points, [t])[0]
        np.testing.assert_allclose(among, pdist(_coordinates(kernel, t)[points]), atol=1e-9)

    @pytest.mark.parametrize("values", [[2.0, 0.5, 0.4, 0.3, 0.2], [1.0, 0.6, 0.5, 0.4, 0.3]])
    def test_plain_matrix_and_trivial_mode(self, values):
        A, Q = symmetric(np.array(values))
        expected = pdist(Q * np.array(values))
        np.testing.assert_allclose(hs.diffusion_distances(A, 1), expected, atol=1e-9)
        if values[0] == 1.0:
            kernel = hs.HeatKernel(DenseOperator(A), trivial=Q[:, 0])  # not constant
            np.testing.assert_allclose(hs.diffusion_distances(kernel, 1), expected, atol=1e-9)

    def test_markov_kernel_gives_the_distance_of_coifman_and_lafon(self, torus):
        P = hs.heat_kernel(torus, bandwidth=1.0, normalization="stochastic")
        rows = np.linalg.matrix_power(P.toarray(), 4) / P.trivial  # L2 with weight 1 / pi, pi = trivial^2
        np.testing.assert_allclose(hs.diffusion_distances(P, 4), pdist(rows), atol=1e-8)

    def test_tiny_distances_keep_their_digits(self):
        kernel = _kernel()
        second = np.linalg.eigvalsh(kernel.symmetric.toarray())[-2]
        t = round(-200 / np.log10(second))
        whole = squareform(hs.diffusion_distances(kernel, t))
        assert 0 < whole.max() < 1e-190
        np.testing.assert_allclose(hs.diffusion_distances(kernel, t, PAIRS), whole[tuple(PAIRS.T)], rtol=1e-4)

    @pytest.mark.parametrize("power", [0, -1.0, "2", True])
    def test_bad_powers(self, power):
        with pytest.raises(ValueError, match=r"positive.*multiscale"):
            hs.diffusion_distances(np.eye(3), power)

    def test_bad_pairs_and_indefinite_kernels(self):
        with pytest.raises(ValueError, match="between 0 and 23"):
            hs.diffusion_distances(_kernel(), 1, [[0, 24]])
        A = hs.heat_kernel(nx.cycle_graph(9), affinity="precomputed", diagonal="keep", normalization="symmetric")
        with pytest.raises(ValueError, match="whole power"):
            hs.diffusion_distances(A, 1.5)

    @pytest.mark.parametrize("share", [0.0, 2.0], ids=["from all pairs", "from columns of pairs"])
    @pytest.mark.parametrize("power", [3, "multiscale"])
    def test_pairs_are_those_of_all_pairs(self, share, power, monkeypatch):
        monkeypatch.setattr(distances, "_MANY_POINTS", share)
        every = squareform(hs.diffusion_distances(_kernel(), power))
        np.testing.assert_allclose(hs.diffusion_distances(_kernel(), power, PAIRS), every[tuple(PAIRS.T)], atol=1e-10)


class TestGroups:
    @pytest.mark.parametrize(("entries", "most"), [(1, 2), (5 * N, 5)])
    def test_rows_fit_in_memory(self, entries, most, monkeypatch):
        pairs = np.random.default_rng(0).integers(0, N, (200, 2))
        expected = squareform(pdist(_coordinates(_kernel(), 2)))[tuple(pairs.T)]
        widths, plain = [], distances.column_distances
        monkeypatch.setattr(distances, "column_distances", lambda *a: widths.append(a[0].shape[1]) or plain(*a))
        monkeypatch.setattr(distances, "ROW_ENTRIES", entries)
        np.testing.assert_allclose(hs.diffusion_distances(_kernel(), 2, pairs), expected, atol=1e-12)
        assert max(widths) == most

    def test_many_pairs_take_little_memory(self):
        kernel = hs.heat_kernel(hs.datasets.circle(400, random_state=0), bandwidth=0.5)
        pairs = np.random.default_rng(0).integers(0, 400, (100_000, 2))  # 320 MB of row differences
        tracemalloc.start()
        hs.diffusion_distances(kernel, 2, pairs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 150e6


@pytest.mark.parametrize("normalization", ["stochastic", "symmetric"])
def test_dask_kernel(normalization, one_thread, monkeypatch):
    monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 10)
    monkeypatch.setattr(distances, "MOST_COLUMNS", 6)
    here, there = (
        hs.heat_kernel(points, bandwidth=2.0, normalization=normalization, n_neighbors=None)
        for points in (X, one_thread.from_array(X, chunks=(12, 2)))
    )
    assert not there.in_memory
    expected = hs.diffusion_distances(here, 2, PAIRS)
    np.testing.assert_allclose(hs.diffusion_distances(there, 2, PAIRS), expected, atol=1e-12)
    among = [distances_among(kernel, np.array([4, 0, 17]), [1, 3]) for kernel in (here, there)]
    np.testing.assert_allclose(among[1], among[0], atol=1e-12)
    with pytest.raises(ValueError, match="pairs"):
        hs.diffusion_distances(there, 2)


class TestEmbedded:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("scale", [1.0, 1e-30])
    def test_distances_between_rows(self, dtype, scale):
        Y = (scale * X).astype(dtype)
        expected = squareform(pdist(Y.astype(np.float64) / scale)) * scale
        for pairs, values in ((None, squareform(expected)), (PAIRS, expected[tuple(PAIRS.T)])):
            found = embedded_distances(Y, pairs)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, values, rtol=1e-9)


@pytest.fixture(scope="module", params=[1, 10])
def ratios(request, torus):
    """Squared distances over their expectation, times k, over seeds."""
    k = request.param
    pairs = np.array([[0, 1], [10, 200], [50, 51]])
    model = hs.GaussianProcessEmbedding(k, power=6, bandwidth=1.0).fit(torus)
    d = hs.diffusion_distances(model.kernel_, 6, pairs)
    estimates = []
    for seed in range(250):  # another sketch of the same kernel each time
        model.set_params(random_state=seed)._embed(model.kernel_, 6.0, np.float64)
        estimates.append(model.diffusion_distances(pairs))
    return k, k * np.square(estimates) / d**2


class TestLaw:
    """For a Gaussian sketch k |y_i - y_j|^2 / d_ij^2 is chi-square with k degrees of freedom."""

    def test_goodness_of_fit(self, ratios):
        k, values = ratios
        for pair in values.T:
            assert stats.kstest(pair, stats.chi2(k).cdf).pvalue > 1e-3
        assert (np.abs(values.mean(axis=0) / k - 1) < 4 * np.sqrt(2 / k / len(values))).all()

    def test_intervals_cover(self, ratios):
        k, values = ratios
        low, high = hs.distance_interval(np.sqrt(values / k), k, 0.95)  # estimates of a distance of 1
        for count in ((low < 1) & (high > 1)).sum(axis=0):
            assert stats.binomtest(int(count), len(values), 0.95).pvalue > 1e-3


class TestIntervals:
    @pytest.mark.parametrize("level", [0.5, 0.95])
    @pytest.mark.parametrize("k", [1, 7])
    def test_chi_square_quantiles(self, k, level):
        d, exact = np.array([0.0, 0.5, 2.0]), np.array([3.0, 0.0, 1.0])
        low, high = hs.distance_interval(d, k, level, exact_part=exact)
        law, tail = stats.chi2(k), (1 - level) / 2
        np.testing.assert_allclose(low, np.sqrt(exact**2 + k * d**2 / law.isf(tail)))
        np.testing.assert_allclose(high, np.sqrt(exact**2 + k * d**2 / law.ppf(tail)))

    @pytest.mark.parametrize("pairs", [None, PAIRS])
    def test_exact_columns_of_a_sketch(self, pairs):
        kernel, Y = _kernel(), np.random.default_rng(0).normal(size=(N, 5))
        plain = sketch_interval(Y, pairs, 0.9, n_exact=0, kernel=kernel, power=4)
        np.testing.assert_array_equal(plain, hs.distance_interval(embedded_distances(Y, pairs), 5, 0.9))
        low, high = sketch_interval(Y, pairs, 0.9, n_exact=2, kernel=kernel, power=4)
        exact, sketched = (embedded_distances(part, pairs) for part in (Y[:, :2], Y[:, 2:]))
        expected = hs.distance_interval(sketched, 3, 0.9, exact_part=exact)
        np.testing.assert_allclose(low, expected[0], atol=1e-7)
        np.testing.assert_allclose(high, expected[1], atol=1e-7)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_no_narrower_than_rounding(self, dtype):
        kernel = hs.heat_kernel(X.astype(dtype), bandwidth=2.0)
        kernel.scaling = replace(kernel.scaling, residual=3e-9)
        Y = np.zeros((N, 5))
        Y[:, 0] = np.arange(N)  # exact: the sketched part is zero
        low, high = sketch_interval(Y, [[0, 3]], 0.9, n_exact=2, kernel=kernel, power=1e6)
        assert 3 - low[0] > 1e6 * np.finfo(dtype).eps
        assert high[0] - 3 > 1e6 * np.finfo(dtype).eps

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="NaN or infinity"):
            hs.distance_interval([1.0, np.nan], 3)
        for level in (0, 1.5, None, True):
            with pytest.raises(ValueError, match="level="):
                hs.distance_interval(1.0, 3, level)
        for count in (0, 2.5, None):
            with pytest.raises(ValueError, match="n_components="):
                hs.distance_interval(1.0, count)


def _failure(e, k, share):
    """A squared distance, of which k columns sketch a share, leaves [(1 - e)^2, (1 + e)^2]."""
    law = stats.chi2(k)
    below = max(1 - (1 - (1 - e) ** 2) / share, 0.0)
    return law.cdf(k * below) + law.sf(k * (1 + ((1 + e) ** 2 - 1) / share))


class TestComponents:
    @pytest.mark.parametrize(
        ("e", "n", "confidence"), [(0.2, None, 0.95), (0.5, 2, 0.9), (0.3, 50, 0.99), (0.9, None, 0.3)]
    )
    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_fewest_columns_that_suffice(self, e, n, confidence, share):
        found = columns_for(e, np.array([share]), n, confidence=confidence)
        allowed = (1 - confidence) / (1 if n is None else n * (n - 1) / 2)
        assert _failure(e, found, share) <= allowed
        assert found == 1 or _failure(e, found - 1, share) > allowed
        if share == 1.0:
            assert hs.components_for(e, n, confidence=confidence) == found

    def test_simultaneous_for_all_pairs(self):
        # 30 points in general position (identity kernel): all 435 distances within 30% at once.
        k = hs.components_for(0.3, n_samples=30)
        rng = np.random.default_rng(0)
        held = sum(np.abs(pdist(rng.normal(size=(30, k))) / np.sqrt(2 * k) - 1).max() <= 0.3 for _ in range(200))
        assert held >= 190 - 3 * np.sqrt(200 * 0.05)

    def test_shares_of_a_remainder(self):
        shares = np.array([0.02, 0.3, 1.0])
        k = columns_for(0.1, shares)
        assert error_of(k, shares) <= 0.1 < error_of(k - 1, shares)
        chi = np.random.default_rng(0).chisquare(k, (200_000, 1)) / k
        off = np.abs(np.sqrt(1 - shares + shares * chi) - 1) > 0.1
        assert off.mean() == pytest.approx(0.05, abs=0.003)

    def test_bad_requests(self):
        for bad in (0.0, 1.0, 1e-7):
            with pytest.raises(ValueError, match="distance_error="):
                hs.components_for(bad)
        with pytest.raises(ValueError, match="confidence="):
            hs.components_for(0.1, confidence=1)
        for bad in (1, 2.5):
            with pytest.raises(ValueError, match="n_samples="):
                hs.components_for(0.5, bad)


def test_matrix_without_a_scaling_has_intervals():
    low, high = sketch_interval(np.eye(3), None, 0.9, n_exact=1, kernel=as_heat_kernel(np.eye(3)), power=1)
    assert (low < high).all()


def test_pairs_and_points_give_the_same(kernel):
    """Few pairs are diffused as differences, many as points."""
    pairs = np.random.default_rng(0).integers(0, kernel.shape[0], (400, 2))
    many = hs.diffusion_distances(kernel, 4.0, pairs)
    few = np.concatenate([hs.diffusion_distances(kernel, 4.0, pairs[i : i + 5]) for i in range(0, 50, 5)])
    np.testing.assert_allclose(few, many[:50], rtol=1e-8, atol=1e-14)
