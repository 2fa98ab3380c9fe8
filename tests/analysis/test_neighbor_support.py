"""False neighbours and stability of an embedding, and the reference sketch behind them."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import heatsketch as hs
from heatsketch.analysis.neighborhoods import Repetitions, stability_map
from heatsketch.analysis.reference_sketch import ReferenceSketch, reference_sketch

mpl.use("Agg")
GP, DM = hs.GaussianProcessEmbedding, hs.DiffusionMaps


class TestReferenceSketch:
    @pytest.mark.parametrize("n_random", [None, 16])
    def test_covers_at_its_level(self, n_random):
        covered, pairs = [], np.random.default_rng(0).integers(0, 150, (300, 2))
        for seed in range(10):  # the sketch is always the same, the data are not
            kernel = hs.heat_kernel(np.random.default_rng(seed).normal(size=(150, 6)), n_neighbors=10)
            low, high = reference_sketch(kernel, 1.0, n_random=n_random).interval(pairs, 0.9)
            true = hs.diffusion_distances(kernel, 1.0, pairs)
            covered.append(np.mean((low <= true) & (true <= high)))
        # Pairs of one data set share the sketch, so the error is that of a mean over data sets.
        assert np.mean(covered) == pytest.approx(0.9, abs=4 * np.std(covered) / np.sqrt(10) + 0.01)

    def test_exact_if_few_modes_are_left(self, kernel):
        pairs = [[0, 1], [7, 200], [40, 41]]
        true = hs.diffusion_distances(kernel, 32.0, pairs)
        for end in reference_sketch(kernel, 32.0).interval(pairs, 0.95):
            np.testing.assert_allclose(end, true, rtol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("power", [2.0, 128.0])
    def test_no_narrower_than_rounding(self, torus, dtype, power):
        model = DM(2, bandwidth=1.0, power=power).fit(torus[:100].astype(dtype))
        _, low, high = model.diffusion_distances(interval=0.95)
        true = hs.diffusion_distances(model.kernel_, power)
        assert np.mean((low <= true) & (true <= high)) > 0.9

    @pytest.mark.parametrize("d", [2, 5])
    def test_variance_over_pairs(self, kernel, d):
        """Of distances between points of R^d in m random columns: (1 - 1/d) / (2 m), as the mean of cos^2 is 1/d."""
        rng, m, n = np.random.default_rng(0), 24, 300
        X, pairs = rng.normal(size=(n, d)), rng.integers(0, n, (2000, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        true = np.log(np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1))
        predicted, seen = [], []
        for _ in range(300):
            F = X @ rng.normal(size=(d, m)) / np.sqrt(m)
            predicted.append(ReferenceSketch(F, 0, kernel, 1.0).log_variance(pairs))
            seen.append(np.var(np.log(np.linalg.norm(F[pairs[:, 0]] - F[pairs[:, 1]], axis=1)) - true))
        expected = (1.0 - 1.0 / d) / (2.0 * m)
        assert np.mean(predicted) == pytest.approx(expected, rel=0.1)
        assert np.mean(seen) == pytest.approx(expected, rel=0.1)

    @pytest.mark.parametrize("power", [16.0, "multiscale"])
    def test_few_pairs_are_exact(self, torus, power):
        model = DM(2, n_neighbors=10, power=power).fit(torus)
        pairs = [[0, 1], [7, 200], [40, 41], [3, 3]]
        _, low, high = model.diffusion_distances(pairs, interval=0.95)
        true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
        assert ((low <= true) & (true <= high)).all()
        assert (high - low < 1e-3 * true.max()).all()
        assert "_reference" not in vars(model)


class TestSupport:
    def test_crossing_is_found(self):
        """A circle drawn as a figure of eight: points that meet at the crossing are false neighbours."""
        X, angles = hs.datasets.circle(400, random_state=0, return_parameters=True)
        model = DM(2, bandwidth=0.05, power=8).fit(X)
        assert model.unsupported_neighbors().supported.all()
        model.embedding_ = np.column_stack([np.sin(angles), np.sin(2 * angles)])
        support = model.unsupported_neighbors()
        crossing = np.linalg.norm(model.embedding_, axis=1) < 0.1
        assert support.share[crossing].mean() < 0.75
        assert support.share[np.abs(model.embedding_[:, 0]) > 0.5].min() == 1.0

    def test_random_positions_are_not_supported(self, torus):
        model = DM(2, bandwidth=1.0).fit(torus)
        model.embedding_ = np.random.default_rng(0).normal(size=(300, 2))
        assert model.unsupported_neighbors().supported.mean() < 0.6

    def test_few_points(self):
        few = GP(2, random_state=0).fit(np.random.default_rng(0).normal(size=(5, 2))).unsupported_neighbors(15)
        assert few.indices.shape == few.supported.shape == (5, 4)
        assert (few.indices != np.arange(5)[:, None]).all()


class TestStability:
    def test_maps_are_stable_under_subsets(self, torus):
        stability = DM(3, bandwidth=1.0).fit(torus).stability("data", n_repeats=3, share=0.9)
        assert stability.kept.mean() > 0.8
        assert np.sqrt(np.mean(stability.moved**2)) < 0.3
        assert stability.n_repeats == 3

    def test_few_random_columns_are_not_stable_under_seeds(self, torus):
        few, many = (GP(k, bandwidth=1.0, random_state=0).fit(torus).stability("seed", n_repeats=2) for k in (2, 256))
        assert few.kept.mean() < 0.6
        assert many.kept.mean() > 0.8

    def test_similarity_is_no_change(self):
        Y = np.random.default_rng(0).normal(size=(80, 3))
        Q = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
        found = stability_map(Repetitions(np.arange(80), Y, [5.0 * Y @ Q + 3.0, -Y], 80), "seed", 10)
        np.testing.assert_allclose(found.kept, 1.0)
        np.testing.assert_allclose(found.moved, 0.0, atol=1e-9)

    def test_point_that_moves(self):
        Y = np.random.default_rng(0).normal(size=(100, 2))
        other = Y.copy()
        other[0] += 20.0
        found = stability_map(Repetitions(np.arange(100), Y, [other], 90), "data", 10)
        assert np.argmin(found.kept) == np.argmax(found.moved) == 0

    def test_same_seed_same_result(self, torus):
        model = GP(4, random_state=0).fit(torus)
        a, b = (model.stability("data", n_repeats=2, random_state=3) for _ in range(2))
        np.testing.assert_array_equal(a.kept, b.kept)

    def test_precomputed_distances_and_frames(self, torus):
        D = np.linalg.norm(torus[:, None] - torus[None], axis=2)
        given = DM(3, bandwidth=1.0, metric="precomputed").fit(D).stability(n_repeats=2)
        points = DM(3, bandwidth=1.0).set_output(transform="pandas").fit(torus).stability(n_repeats=2)
        np.testing.assert_allclose(given.kept, points.kept, atol=0.1)

    def test_bad_arguments(self, torus):
        model = DM(2, bandwidth=1.0).fit(torus)
        for under, message in (("seed", "random"), ("noise", "not known")):
            with pytest.raises(ValueError, match=message):
                model.stability(under)
        with pytest.raises(ValueError, match="share="):
            model.stability(share=1.0)
        given = GP(2, bandwidth=1.0, sketch=np.random.default_rng(0).normal(size=(300, 2))).fit(torus)
        for under in ("data", "seed"):
            with pytest.raises(ValueError, match=r"random|subset"):
                given.stability(under)
        graph = GP(2, affinity="precomputed", random_state=0).fit(np.ones((5, 5)) + np.eye(5))
        with pytest.raises(ValueError, match="precomputed"):
            graph.stability("data")
        assert graph.stability("seed", n_repeats=2).kept.shape == (5,)


@pytest.mark.parametrize("k", [1, 3])
def test_results_draw_themselves(torus, k):
    model = DM(k, bandwidth=1.0).fit(torus)
    for result in (model.unsupported_neighbors(), model.stability(n_repeats=1)):
        ax = result.plot()
        assert ax.collections[0].get_offsets().shape == (300, 2)
        assert result.plot(ax) is ax
    plt.close("all")


class TestSamples:
    """Large data are sampled; sizes are reduced here."""

    @pytest.fixture
    def model(self):
        X = hs.datasets.stretched_torus(2500, random_state=0)
        return GP(3, n_neighbors=12, random_state=0).fit(X)

    def test_sampled_support_is_part_of_the_whole(self, model):
        whole, some = model.unsupported_neighbors(n_points=None), model.unsupported_neighbors(n_points=400)
        assert whole.indices.shape == (2500, 15)
        assert some.points.shape == some.share.shape == (400,)
        np.testing.assert_array_equal(some.indices, whole.indices[some.points])
        np.testing.assert_array_equal(some.supported, whole.supported[some.points])
        np.testing.assert_array_equal(some.embedding, model.embedding_[some.points])
        assert "400 points, a random sample of 2,500" in str(some)

    @pytest.mark.parametrize("joined", [True, False])
    def test_neighbors_by_diffusion(self, model, monkeypatch, joined):
        """Those within two edges of a graph are nearly the nearest of all."""
        reference, rows = reference_sketch(model.kernel_, model.power_), np.arange(0, 2500, 50)
        if not joined:
            monkeypatch.setattr(type(model.kernel_), "graph", lambda _: None)
        found = reference.neighbors(rows, 10)
        D = np.linalg.norm(reference.features[rows, None] - reference.features[None], axis=2)
        D[np.arange(50), rows] = np.inf
        farthest = np.take_along_axis(D, found, axis=1).max(axis=1)
        np.testing.assert_allclose(farthest, np.sort(D, axis=1)[:, 9], rtol=0.02 if joined else 1e-5)

    def test_neighbors_in_little_memory(self, model, monkeypatch):
        reference, rows = reference_sketch(model.kernel_, model.power_), np.arange(0, 2500, 50)
        whole = reference.neighbors(rows, 10)
        monkeypatch.setattr("heatsketch.analysis.reference_sketch._MEASURED", 1000)
        np.testing.assert_array_equal(reference.neighbors(rows, 10), whole)

    @pytest.mark.parametrize("under", ["data", "seed"])
    def test_stability_of_a_sample(self, model, under):
        found = model.stability(under, n_repeats=2)
        assert found.points.shape == found.kept.shape == found.moved.shape == (1000,)
        assert found.n_fitted == {"data": 800, "seed": 1000}[under]
        assert found.kept.mean() > 10 * 15 / 1000  # ten times as often as by chance
        assert model.stability(under, n_repeats=1, n_points=None).kept.shape == (2500,)

    def test_reference_sketch_covers(self, model):
        pairs = np.random.default_rng(0).integers(0, 2500, (200, 2))
        low, high = reference_sketch(model.kernel_, model.power_).interval(pairs, 0.95)
        true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
        assert np.mean((low <= true) & (true <= high)) > 0.85
