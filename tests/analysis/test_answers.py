"""What a fitted embedding answers: intervals, supported neighbours, stability, scales, wanted errors, comparisons."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import heatsketch as hs
from heatsketch.analysis.distances import columns_for, error_of
from heatsketch.analysis.neighborhoods import stability_map
from heatsketch.analysis.reference_sketch import reference_sketch

mpl.use("Agg")

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
QUESTIONS = ["diffusion_distances", "unsupported_neighbors", "stability", "scales", "diagnose", "add_components"]
ESTIMATORS = [GP(3, random_state=0), DM(3), HS(3, solver_params={"n_rounds": 2}, random_state=0)]


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda e: type(e).__name__)
def model(request, torus):
    return request.param.set_params(bandwidth=1.0).fit(torus)


class TestReferenceSketch:
    def test_covers_at_its_level(self):
        covered, pairs = [], np.random.default_rng(0).integers(0, 200, (300, 2))
        for seed in range(20):  # the sketch is always the same, the data are not
            kernel = hs.heat_kernel(np.random.default_rng(seed).normal(size=(200, 6)), n_neighbors=10)
            low, high = reference_sketch(kernel, 1.0).interval(pairs, 0.9)
            true = hs.diffusion_distances(kernel, 1.0, pairs)
            covered.append(np.mean((low <= true) & (true <= high)))
        # pairs of one data set share the sketch; over data sets they do not
        assert np.mean(covered) == pytest.approx(0.9, abs=4 * np.std(covered) / np.sqrt(20) + 0.01)

    def test_is_exact_where_few_modes_are_left(self, kernel):
        pairs = [[0, 1], [7, 200], [40, 41]]
        low, high = reference_sketch(kernel, 32.0).interval(pairs, 0.95)
        true = hs.diffusion_distances(kernel, 32.0, pairs)
        np.testing.assert_allclose(low, true, rtol=1e-6)
        np.testing.assert_allclose(high, true, rtol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("power", [2.0, 8.0, 32.0, 128.0])
    @pytest.mark.parametrize("n", [20, 300])
    def test_is_no_narrower_than_rounding(self, torus, dtype, power, n):
        model = DM(2, bandwidth=1.0, power=power).fit(torus[:n].astype(dtype))
        _, low, high = model.diffusion_distances(interval=0.95)
        true = hs.diffusion_distances(model.kernel_, power)
        assert np.mean((low <= true) & (true <= high)) > 0.9

    def test_all_eigenvectors_are_right(self, torus):
        model = DM(299, power=32, bandwidth=1.0).fit(torus)
        distances, low, high = model.diffusion_distances(interval=0.95)
        assert np.mean((low <= distances) & (distances <= high)) > 0.9


class TestSupport:
    def test_a_crossing_is_found(self):
        """A circle drawn as a figure of eight: points that meet in the middle are no neighbours."""
        X, angles = hs.datasets.circle(400, random_state=0, return_parameters=True)
        model = DM(2, bandwidth=0.05).fit(X)
        assert model.unsupported_neighbors().supported.all()
        model.embedding_ = np.column_stack([np.sin(angles), np.sin(2 * angles)])
        support = model.unsupported_neighbors()
        crossing = np.linalg.norm(model.embedding_, axis=1) < 0.1
        assert support.share[crossing].mean() < 0.75
        assert support.share[np.abs(model.embedding_[:, 0]) > 0.5].min() == 1.0

    def test_shapes_and_few_points(self, model):
        support = model.unsupported_neighbors(6)
        assert support.indices.shape == support.supported.shape == (300, 6)
        assert (support.indices != np.arange(300)[:, None]).all()
        few = GP(2, random_state=0).fit(np.random.default_rng(0).normal(size=(5, 2))).unsupported_neighbors(15)
        assert few.indices.shape == (5, 4)

    def test_a_random_picture_is_not_believed(self, torus):
        model = DM(2, bandwidth=1.0).fit(torus)
        model.embedding_ = np.random.default_rng(0).normal(size=(300, 2))
        assert model.unsupported_neighbors().supported.mean() < 0.6


class TestStability:
    def test_maps_are_stable_under_parts_of_the_data(self, torus):
        stability = DM(3, bandwidth=1.0).fit(torus).stability("data", n_repeats=3, share=0.9)
        assert stability.kept.mean() > 0.8
        assert np.sqrt(np.mean(stability.moved**2)) < 0.3
        assert stability.n_repeats == 3

    def test_few_random_columns_are_not_stable_under_another_seed(self, torus):
        few, many = (GP(k, bandwidth=1.0, random_state=0).fit(torus).stability("seed") for k in (2, 256))
        assert few.kept.mean() < 0.6
        assert many.kept.mean() > 0.8

    def test_turning_and_scaling_is_no_change(self):
        Y = np.random.default_rng(0).normal(size=(80, 3))
        Q = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
        found = stability_map(Y, [5.0 * Y @ Q + 3.0, -Y], "seed", 10)
        np.testing.assert_allclose(found.kept, 1.0)
        np.testing.assert_allclose(found.moved, 0.0, atol=1e-9)

    def test_where_it_changes(self):
        Y = np.random.default_rng(0).normal(size=(100, 2))
        other = Y.copy()
        other[0] += 20.0
        found = stability_map(Y, [other], "data", 10)
        assert np.argmin(found.kept) == np.argmax(found.moved) == 0

    def test_repeats(self, torus):
        model = GP(4, bandwidth="self-tuning", power="entropy", random_state=0).fit(torus)
        a, b = (model.stability("data", n_repeats=2, random_state=3) for _ in range(2))
        np.testing.assert_array_equal(a.kept, b.kept)

    def test_frames(self, torus):
        model = DM(2, bandwidth=1.0).set_output(transform="pandas").fit(torus)
        assert model.stability(n_repeats=1).kept.shape == (300,)

    def test_more_components_than_a_part_has(self, torus):
        assert DM(19, bandwidth=1.0).fit(torus[:20]).stability(n_repeats=2).kept.shape == (20,)

    @pytest.mark.parametrize("under", ["data", "seed"])
    def test_a_sketch_of_ones_own(self, torus, under):
        model = GP(2, bandwidth=1.0, sketch=np.random.default_rng(0).normal(size=(300, 2))).fit(torus)
        with pytest.raises(ValueError, match=r"random|part"):
            model.stability(under)

    def test_precomputed_distances(self, torus):
        D = np.linalg.norm(torus[:, None] - torus[None], axis=2)
        options = {"n_components": 3, "bandwidth": 1.0}
        given = DM(metric="precomputed", **options).fit(D).stability(n_repeats=2)
        points = DM(**options).fit(torus).stability(n_repeats=2)
        np.testing.assert_allclose(given.kept, points.kept, atol=0.1)

    def test_refusals(self, torus):
        model = DM(2, bandwidth=1.0).fit(torus)
        with pytest.raises(ValueError, match="random"):
            model.stability("seed")
        with pytest.raises(ValueError, match="under='noise' is not known"):
            model.stability("noise")
        with pytest.raises(ValueError, match=r"share=1.0 was given"):
            model.stability(share=1.0)
        graph = GP(2, affinity="precomputed", random_state=0).fit(np.ones((5, 5)) + np.eye(5))
        with pytest.raises(ValueError, match="precomputed"):
            graph.stability("data")
        assert graph.stability("seed", n_repeats=2).kept.shape == (5,)


class TestScales:
    def test_one_row_for_each_power(self, model):
        scales = model.scales([1, 4, 16])
        np.testing.assert_array_equal(scales.powers, [1, 4, 16])
        for name in ("entropy", "effective_dimension", "spectral_dimension", "distortion", "paths"):
            values = getattr(scales, name)
            assert values.shape == (3,)
            assert np.isfinite(values).all()
        assert (np.diff(scales.entropy) < 0).all()

    def test_the_power_of_the_embedding_is_among_them(self, model):
        scales = model.scales()
        assert scales.chosen == 8.0
        assert 8.0 in scales.powers

    def test_distortion_is_that_of_the_embedding(self, model):
        found = model.scales([8.0]).distortion[0]
        exact = np.log(model.distortion(quantiles=(0.01,)).central[0.01])
        assert found == pytest.approx(exact, rel=0.15)  # on a sample of 128 points

    def test_graphs_have_no_paths(self):
        graph = np.diag(np.ones(29), 1) + np.diag(np.ones(29), -1)
        scales = GP(2, affinity="precomputed", random_state=0).fit(graph).scales()
        assert scales.paths is None

    def test_times_are_checked(self, model):
        with pytest.raises(ValueError, match="positive"):
            model.scales([1, -2])


class TestWantedError:
    def test_a_plain_sketch_takes_what_the_law_says(self, torus):
        model = GP(4, bandwidth=1.0, random_state=0).fit(torus).add_components(distance_error=0.2)
        assert model.n_components_ == hs.components_for(0.2)
        assert model.distance_error_ == pytest.approx(0.2, abs=0.005)
        whole = GP(model.n_components_, bandwidth=1.0, random_state=0).fit(torus)
        np.testing.assert_allclose(model.embedding_, whole.embedding_, atol=1e-12)

    def test_nothing_is_added_where_it_is_reached(self, torus):
        model = GP(300, bandwidth=1.0, random_state=0).fit(torus).add_components(distance_error=0.2)
        assert model.n_components_ == 300
        assert model.distance_error_ < 0.1

    def test_exact_directions_need_fewer(self, torus):
        true = hs.diffusion_distances(hs.heat_kernel(torus, bandwidth=1.0), 8)
        within = []
        for seed in range(16):
            model = GP(8, n_exact=4, bandwidth=1.0, random_state=seed).fit(torus).add_components(distance_error=0.1)
            assert model.n_components_ < hs.components_for(0.1) // 4
            within.append(np.mean(np.abs(model.diffusion_distances() / true - 1) < 0.1))
        assert np.mean(within) == pytest.approx(0.95, abs=4 * np.std(within) / 4)

    @pytest.mark.parametrize(
        "model", [DM(2, bandwidth=1.0), HS(2, bandwidth=1.0, solver_params={"n_rounds": 3}, random_state=0)]
    )
    def test_others_measure(self, model, torus):
        model.fit(torus).add_components(distance_error=0.15)
        true = hs.diffusion_distances(model.kernel_, 8)
        assert np.mean(np.abs(model.diffusion_distances() / true - 1) < 0.15) > 0.93
        assert model.distance_error_ <= 0.15

    def test_what_cannot_be_reached_is_said(self, torus):
        model = HS(2, bandwidth=1.0, power=1, solver_params={"n_rounds": 1}, random_state=0).fit(torus)
        model._most_components = lambda: 3
        with pytest.warns(ConvergenceWarning, match="distance_error"):
            model.add_components(distance_error=0.001)
        assert model.distance_error_ > 0.001

    def test_memory_is_asked_for_first(self, torus):
        model = GP(4, bandwidth=1.0, random_state=0).fit(torus)
        with pytest.raises(MemoryError, match="distance_error"):
            model.add_components(distance_error=1e-5)
        assert model.n_components_ == 4

    @pytest.mark.parametrize("arguments", [{}, {"n": 2, "distance_error": 0.1}])
    def test_one_of_the_two(self, torus, arguments):
        with pytest.raises(ValueError, match="one of"):
            GP(2).fit(torus).add_components(**arguments)

    def test_law_of_shares(self):
        shares = np.array([0.02, 0.3, 1.0])
        k = columns_for(0.1, shares)
        assert error_of(k, shares) <= 0.1 < error_of(k - 1, shares)
        chi = np.random.default_rng(0).chisquare(k, (200_000, 1)) / k
        off = np.abs(np.sqrt(1 - shares + shares * chi) - 1) > 0.1
        assert off.mean() == pytest.approx(0.05, abs=0.003)
        assert columns_for(0.1, np.ones(1)) == hs.components_for(0.1)


@pytest.fixture(scope="module")
def kernels():
    """Of a circle, and of the same points with noise."""
    X = hs.datasets.circle(150, random_state=0)
    noisy = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    return tuple(hs.heat_kernel(points, bandwidth=0.3) for points in (X, noisy))


class TestComparison:
    def test_items_add_up(self, kernels):
        found = hs.compare_kernels(*kernels, 3, random_state=0)
        assert np.square(found.item_distances).sum() == pytest.approx(found.total.distance**2)
        assert found.total == hs.global_diffusion_distance(*kernels, 3, random_state=0)

    def test_item_intervals_cover_exactly(self, kernels):
        A, B = (np.linalg.matrix_power(k.toarray(), 3) for k in kernels)
        true = np.linalg.norm(A - B, axis=1)
        covered = []
        for seed in range(200):
            found = hs.compare_kernels(*kernels, 3, n_components=8, interval=0.9, random_state=seed)
            covered.append(np.mean((found.item_low <= true) & (true <= found.item_high)))
        assert np.mean(covered) == pytest.approx(0.9, abs=4 * np.std(covered) / np.sqrt(200))

    def test_both_are_seen_through_one_sketch(self, kernels):
        same = hs.compare_kernels(kernels[0], kernels[0], 2, n_components=5, random_state=1)
        np.testing.assert_array_equal(same.first, same.second)
        assert same.total.distance == 0
        model = GP(5, power=2, bandwidth=0.3, random_state=1)
        model.fit(hs.datasets.circle(150, random_state=0))
        shift = same.first - model.embedding_  # of the constant mode, which embeddings leave out
        np.testing.assert_allclose(shift - shift.mean(axis=0), 0.0, atol=1e-9)

    def test_refusals(self, kernels):
        with pytest.raises(ValueError, match="150 and 3"):
            hs.compare_kernels(kernels[0], np.eye(3))
        with pytest.raises(ValueError, match="n_components=1 was given"):
            hs.compare_kernels(*kernels, n_components=1)


class TestDrawing:
    def test_results_draw_themselves(self, model):
        above, below = model.scales([1, 2, 8]).plot()
        assert above.get_yscale() == "log"
        assert len(below.get_lines()) == 3  # two curves, and the chosen power
        for result in (model.unsupported_neighbors(), model.stability(n_repeats=1)):
            ax = result.plot()
            assert ax.collections[0].get_offsets().shape == (300, 2)
            assert result.plot(ax) is ax
        mpl.pyplot.close("all")

    def test_comparison(self):
        A, B = (hs.heat_kernel(hs.datasets.circle(60, random_state=s), bandwidth=0.5) for s in (0, 1))
        ax = hs.compare_kernels(A, B, random_state=0).plot()
        assert len(ax.collections) == 2
        assert len(ax.get_lines()) == 60
        mpl.pyplot.close("all")

    def test_one_component(self, torus):
        ax = DM(1, bandwidth=1.0).fit(torus).stability(n_repeats=1).plot()
        assert len(ax.collections[0].get_offsets()) == 300
        mpl.pyplot.close("all")


@pytest.mark.parametrize("question", QUESTIONS)
def test_only_a_fitted_embedding_answers(question):
    with pytest.raises(NotFittedError):
        getattr(GP(2), question)()
