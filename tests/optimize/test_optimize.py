"""The search for the sketch that distorts the worst pair least: feature sketches, pairs, starts, solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import pdist
from threadpoolctl import threadpool_limits

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.analysis.distortion import measure_distortion
from heatsketch.optimize.features import wide_sketch
from heatsketch.optimize.pairs import AllPairs, FoundPairs, Pairs, neighbor_pairs
from heatsketch.optimize.solver import Start, _Descent, optimize, smooth_log_L
from heatsketch.optimize.starts import STARTS, make_start, nearest_projection

POWER = 8.0


@pytest.fixture(scope="module")
def points():
    return hs.datasets.stretched_torus(120, random_state=0)


@pytest.fixture(scope="module", params=["bistochastic", "stochastic"])
def kernel(request, points):
    return hs.heat_kernel(points, bandwidth=1.0, normalization=request.param)


@pytest.fixture(scope="module")
def wide(kernel):
    return wide_sketch(kernel, POWER, 512, seed=0)


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


class TestSmoothLogL:
    @pytest.mark.parametrize("sharpness", [0.5, 50.0])
    def test_gradient_matches_finite_differences(self, sharpness, rng):
        ratios = rng.normal(size=40)
        slope = smooth_log_L(ratios, sharpness)[1]
        numeric = approx_fprime(ratios, lambda r: smooth_log_L(r, sharpness)[0], 1e-7)
        np.testing.assert_allclose(slope, numeric, atol=1e-5)

    def test_scale_invariance(self, rng):
        ratios = rng.normal(size=40)
        assert smooth_log_L(ratios + 7.0, 3.0)[0] == pytest.approx(smooth_log_L(ratios, 3.0)[0])
        assert smooth_log_L(ratios, 3.0)[1].sum() == pytest.approx(0.0, abs=1e-12)

    def test_sharp_approximation_is_log_L(self, torus, rng):
        Y = torus @ rng.normal(size=(4, 2))
        log_L, ratios = measure_distortion(Y, pdist(torus)).log, np.log(pdist(Y) / pdist(torus))
        for sharpness in (10.0, 1000.0):
            gap = log_L - smooth_log_L(ratios, sharpness)[0]
            assert 0 <= gap <= 2 * np.log(len(ratios)) / sharpness


class TestWideSketch:
    def test_exact_distances(self, wide, kernel):
        np.testing.assert_allclose(pdist(wide.features), hs.diffusion_distances(kernel, POWER), rtol=1e-6)

    def test_features_are_the_kernel_times_M(self, wide, kernel):
        S = np.linalg.matrix_power(kernel.symmetric.toarray(), 8)
        expected = kernel.weigh_rows(S @ wide.M)
        shift = expected - wide.features
        np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-10)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_narrow_sketch_is_unbiased(self, normalization, points):
        kernel = hs.heat_kernel(points[:60], bandwidth=1.0, normalization=normalization)
        exact = hs.diffusion_distances(kernel, POWER) ** 2
        ratios = [pdist(wide_sketch(kernel, POWER, 16, seed).features) ** 2 / exact for seed in range(60)]
        # 8 random columns: a relative standard deviation of at most 1/2 each, 60 draws.
        assert np.abs(np.mean(ratios, axis=0) - 1.0).max() < 6 * 0.5 / np.sqrt(60)
        assert np.std(ratios, axis=0).max() < 0.5 * 1.6

    def test_negligible_directions_are_left_out(self):
        kernel = hs.heat_kernel(hs.datasets.circle(200, random_state=0), bandwidth=0.25)
        assert wide_sketch(kernel, 64, 512, 0).features.shape[1] < 12

    def test_negative_eigenvalues_count_by_magnitude(self):
        """A bipartite graph without self-loops has the eigenvalue -1, which is among the leading ones."""
        W = np.kron([[0.0, 1.0], [1.0, 0.0]], np.random.default_rng(0).uniform(0.1, 1.0, (30, 30)))
        W = np.maximum(W, W.T)
        kernel = hs.heat_kernel(W, affinity="precomputed", diagonal="keep", normalization="stochastic")
        narrow, whole = (wide_sketch(kernel, 3, width, 0) for width in (8, 512))
        a, b = (np.abs(wide.M[:, :4].T @ whole.M[:, :4]) for wide in (narrow, whole))
        np.testing.assert_allclose(np.linalg.svd(a, compute_uv=False), np.linalg.svd(b, compute_uv=False), atol=1e-6)

    def test_distances_whose_squares_underflow(self):
        X = np.random.default_rng(0).normal(size=(120, 3))
        power = round(-250 / np.log10(hs.DiffusionMaps(1, bandwidth=60.0).fit(X).eigenvalues_[0]))
        model = hs.HeatSketch(2, bandwidth=60.0, power=power, objective="bilipschitz", random_state=0).fit(X)
        assert wide_sketch(model.kernel_, power, 512, 0).unit < 1e-100
        assert model.distortion().log < 0.01


class TestPairs:
    def test_coincident_points_are_skipped(self):
        X = np.array([[0.0], [0.0], [1.0], [3.0]])
        source = AllPairs(pdist(X), 4)
        pairs, ratios = source.candidates(2.0 * X, np.random.default_rng(0))
        assert sorted(zip(pairs.i, pairs.j, strict=True)) == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
        np.testing.assert_allclose(ratios, np.log(2.0))
        found = FoundPairs(np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 2, axis=0))
        assert np.isfinite(found.candidates(np.ones((100, 2)), np.random.default_rng(0))[1]).all()
        assert found.sample(500, np.random.default_rng(0)).log_d.min() > -5

    def test_duplicates_do_not_hide_other_neighbours(self):
        """With twelve copies of each point, the neighbours searched are other points."""
        points = np.random.default_rng(0).normal(size=(40, 5))
        features = np.repeat(points, 12, axis=0)
        Y = features[:, :2]
        pairs, ratios = FoundPairs(features).candidates(Y, np.random.default_rng(0))
        everything = np.log(pdist(points[:, :2]) / pdist(points))
        assert len(pairs) > 100
        assert ratios.min() == pytest.approx(everything.min())

    def test_joined_pairs_are_unique(self):
        a = Pairs(np.array([0, 1]), np.array([1, 2]), np.array([0.1, 0.2]))
        b = Pairs(np.array([1, 2]), np.array([0, 3]), np.array([0.1, 0.3]))
        both = a.joined(b, 4)
        assert list(zip(both.i, both.j, strict=True)) == [(0, 1), (1, 2), (2, 3)]
        np.testing.assert_allclose(both.log_d, [0.1, 0.2, 0.3])

    def test_search_finds_the_worst_pairs(self):
        features = hs.datasets.stretched_torus(1000, random_state=0) @ np.random.default_rng(1).normal(size=(4, 6))
        Y = features[:, :2]
        everything = AllPairs(pdist(features), 1000).candidates(Y, np.random.default_rng(0))[1]
        found = FoundPairs(features).candidates(Y, np.random.default_rng(0))[1]
        assert found.min() == pytest.approx(everything.min())
        assert everything.max() - 0.02 < found.max() <= everything.max() + 1e-12

    def test_neighbor_pairs(self):
        i, j = neighbor_pairs(np.array([[0.0], [1.0], [3.0], [3.5]]), 1)
        assert list(zip(i, j, strict=True)) == [(0, 1), (2, 3)]


class TestStarts:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_spectral_start_is_diffusion_maps(self, points, normalization):
        maps = hs.DiffusionMaps(3, bandwidth=1.0, power=POWER, normalization=normalization).fit(points)
        wide = wide_sketch(maps.kernel_, POWER, 512, 0)
        Y = wide.features @ make_start("spectral", wide, 3, 0).W
        np.testing.assert_allclose(Y, maps.embedding_, atol=1e-7 * np.abs(Y).max())

    def test_random_start_is_unbiased(self, wide):
        d = pdist(wide.features) ** 2
        ratios = [pdist(wide.features @ make_start("random", wide, 16, seed).W) ** 2 / d for seed in range(100)]
        assert np.abs(np.mean(ratios, axis=0) - 1).max() < 6 * np.sqrt(2 / 16) / 10

    def test_deflated_start_takes_half_exactly(self, wide):
        W = make_start("deflated", wide, 5, 0).W
        np.testing.assert_array_equal(W[:, :2], make_start("spectral", wide, 2, 0).W)
        assert not W[wide.first : wide.first + 2, 2:].any()

    def test_nearest_projection_recovers_a_sketch(self, wide):
        Y = wide.features @ make_start("spectral", wide, 3, 0).W + 5.0
        again = pdist(wide.features @ nearest_projection(wide, Y))
        np.testing.assert_allclose(again, pdist(Y), atol=1e-5 * pdist(Y).max())
        # For an arbitrary embedding its entries stay moderate.
        other = nearest_projection(wide, np.random.default_rng(0).normal(size=(120, 2)))
        assert np.linalg.norm(other) < 1e3 * np.sqrt(240) / np.abs(wide.features).max()


@pytest.fixture(scope="module")
def setting(points):
    kernel = hs.heat_kernel(points, bandwidth=1.0)
    return wide_sketch(kernel, POWER, 512, 0), AllPairs(hs.diffusion_distances(kernel, POWER), len(points))


class TestOptimize:
    def run(self, setting, k=3, names=tuple(STARTS), **options):
        wide, source = setting
        starts = [make_start(name, wide, k, 0) for name in names]
        return optimize(wide.features, source, starts, 0, **options)

    @pytest.mark.parametrize("penalty", [0.0, 0.7])
    def test_gradient_matches_finite_differences(self, penalty, rng):
        F = rng.normal(size=(12, 5))
        i, j = np.triu_indices(12, 1)
        pairs = Pairs(i, j, np.log(pdist(F)))
        function = _Descent(F, pairs, 6.0, penalty, rng.uniform(1, 9, 5))
        W = rng.normal(size=15)
        numeric = approx_fprime(W, lambda w: function(w)[0], 1e-7)
        np.testing.assert_allclose(function(W)[1], numeric, atol=1e-5)
        # The objective, with its penalty, does not depend on scale.
        assert function(3.0 * W)[0] == pytest.approx(function(W)[0])

    def test_history_reports_the_measured_distortion(self, setting):
        found = self.run(setting)
        Y = setting[0].features @ found.W
        measured = measure_distortion(Y, np.exp(setting[1].candidates(Y, None)[0].log_d)).log
        assert measured == pytest.approx(min(r.distortion for r in found.history), rel=1e-9)

    def test_never_worse_than_its_starts(self, setting):
        wide, source = setting
        for k in (1, 3):
            Y = wide.features @ self.run(setting, k).W
            starts = [wide.features @ make_start(name, wide, k, 0).W for name in STARTS]
            ours, *theirs = (np.ptp(source.candidates(Z, None)[1]) for Z in (Y, *starts))
            assert ours <= min(theirs) + 1e-9

    def test_result_has_balanced_axes_and_unit_scale(self, setting):
        covariance = np.cov((setting[0].features @ self.run(setting, 2).W).T)
        assert abs(covariance[0, 1]) < 1e-12
        assert covariance[0, 0] >= covariance[1, 1]
        Y = setting[0].features @ self.run(setting, 3).W
        np.testing.assert_allclose(Y.var(axis=0), Y.var(axis=0).mean(), rtol=1e-9)
        assert np.median(setting[1].candidates(Y, None)[1]) == pytest.approx(0.0, abs=0.05)

    @pytest.mark.parametrize("found", [False, True])
    def test_threads_do_not_change_the_result(self, setting, monkeypatch, found):
        wide, source = setting
        results = []
        for threads in (1, 3):
            monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
            with threadpool_limits(threads):
                pairs = FoundPairs(wide.features) if found else source
                results.append(self.run((wide, pairs), n_rounds=4).W)
        np.testing.assert_array_equal(*results)

    def test_isometric_start_stops_at_once(self, setting):
        wide, source = setting
        start = Start("whole", np.eye(wide.features.shape[1]))
        found = optimize(wide.features, source, [start], 0)
        assert len(found.history) == 1
        assert found.history[0].distortion < 1e-9


def test_start_in_which_points_coincide():
    """In float32 the scale must not overflow, though the log dilation of such points is the lowest number."""
    features = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    features[1, :2] = features[0, :2]
    start = Start("leading", np.eye(6, 2))
    with np.errstate(over="raise"):
        found = optimize(features, FoundPairs(features), [start], 0, n_rounds=4)
    assert found.history[0].distortion > 100
    assert np.isfinite(found.W).all()
