"""The bi-Lipschitz constant: closed forms, invariances, and what sampling guarantees."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.analysis.distortion import kernel_distortion


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(40, 3))


def test_similarities_have_constant_one(points):
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    assert hs.bilipschitz_constant(7 * points @ rotation + 5, pdist(points)) == pytest.approx(1, abs=1e-12)


def test_a_linear_map_has_the_ratio_of_its_singular_values():
    # Differences of a full grid point in the two axis directions, where diag(3, 1) is worst.
    X = np.array([[i, j] for i in range(5) for j in range(5)], dtype=float)
    assert hs.bilipschitz_constant(X * [3, 1], pdist(X)) == pytest.approx(3)


def test_definition(points):
    Y = points[:, :2]
    ratios = pdist(Y) / pdist(points)
    result = hs.measure_distortion(Y, pdist(points), quantiles=(0.1,))
    assert result.constant == pytest.approx(ratios.max() / ratios.min())
    assert result.log == pytest.approx(np.log(result.constant))
    assert result.central[0.1] == pytest.approx(np.quantile(ratios, 0.9) / np.quantile(ratios, 0.1))
    i, j = result.most_contracted
    dilation = np.linalg.norm(Y[i] - Y[j]) / np.linalg.norm(points[i] - points[j])
    assert dilation == pytest.approx(ratios.min())
    assert result.n_pairs == 780
    assert result.exhaustive


@pytest.mark.parametrize("pair", [(0, 1), (0, 39), (17, 23), (38, 39)])
def test_extreme_pairs_are_named_wherever_they_are(points, pair):
    d = squareform(pdist(points))
    for factor, name in ((1e3, "most_contracted"), (1e-3, "most_expanded")):
        bent = d.copy()
        bent[pair] = bent[pair[::-1]] = factor * d[pair]
        assert getattr(hs.measure_distortion(points, bent), name) == pair


def test_scale_and_order_do_not_matter(points):
    Y, d, order = points[:, :2], pdist(points), np.random.default_rng(0).permutation(40)
    L = hs.bilipschitz_constant(Y, d)
    assert hs.bilipschitz_constant(Y, squareform(d)) == L
    assert hs.bilipschitz_constant(1e6 * Y, 1e-6 * d) == pytest.approx(L)
    assert hs.bilipschitz_constant(Y[order], pdist(points[order])) == pytest.approx(L)


def test_quantiles_leave_out_ever_more(points):
    result = hs.measure_distortion(points[:, :2], pdist(points))
    central = [result.central[q] for q in sorted(result.central)]
    assert result.constant >= central[0]
    assert all(a >= b >= 1 for a, b in pairwise(central))


def test_collapsed_points_give_infinity(points):
    assert hs.bilipschitz_constant(np.zeros((40, 2)), pdist(points)) == np.inf


def test_coincident_points_are_left_out(points):
    points = np.vstack([points, points[:3]])
    result = hs.measure_distortion(2 * points, pdist(points))
    assert result.constant == pytest.approx(1)
    assert result.n_pairs == 43 * 42 // 2 - 3


@pytest.fixture(scope="module", params=["gp", "dm"])
def model(request, torus):
    if request.param == "gp":
        return hs.GaussianProcessEmbedding(4, power=8, bandwidth=1.0, random_state=0).fit(torus)
    return hs.DiffusionMaps(4, power=8, bandwidth=1.0).fit(torus)


class TestSampled:
    """Beyond a few thousand points: sampled and mined pairs."""

    def test_is_a_lower_bound_that_is_attained(self, model):
        whole = model.distortion()
        found = model.distortion(exhaustive=False)
        assert not found.exhaustive
        assert found.constant <= whole.constant * (1 + 1e-9)
        dilations = []
        for i, j in (found.most_expanded, found.most_contracted):
            d = hs.diffusion_distances(model.kernel_, 8, [[i, j]])[0]
            dilations.append(np.linalg.norm(model.embedding_[i] - model.embedding_[j]) / d)
        assert dilations[0] / dilations[1] == pytest.approx(found.constant)
        assert found.n_pairs < whole.n_pairs

    def test_search_finds_most_of_it(self, model):
        whole, found = model.distortion(), model.distortion(exhaustive=False)
        assert found == model.distortion(exhaustive=False)
        assert found.log > 0.9 * whole.log
        for q in (0.05, 0.25):
            assert np.log(found.central[q]) == pytest.approx(np.log(whole.central[q]), rel=0.1)

    def test_duplicates_do_not_mislead_the_search(self):
        X = np.repeat(hs.datasets.stretched_torus(60, random_state=0), 12, axis=0)
        model = hs.GaussianProcessEmbedding(4, bandwidth=1.0, random_state=0).fit(X)
        assert model.distortion(exhaustive=False).log > 0.9 * model.distortion(exhaustive=True).log


def test_central_versions_near_the_noise_of_the_sketch(monkeypatch):
    """64 components, whose distances are about as uncertain as those of the reference sketch."""
    X = hs.datasets.circle(800, random_state=0)
    model = hs.GaussianProcessEmbedding(64, n_neighbors=12, power=16, random_state=0).fit(X)
    exact = model.distortion(exhaustive=True).central
    monkeypatch.setattr("heatsketch.analysis.reference_sketch._FEW", 0)
    ratios = []
    for seed in range(101, 107):  # other columns than those of the embedding
        monkeypatch.setattr("heatsketch.analysis.reference_sketch._SEED", seed)
        found = kernel_distortion(model.embedding_, model.kernel_, 16.0, exhaustive=False).central
        ratios.append([np.log(found[q]) / np.log(exact[q]) for q in (0.05, 0.25)])
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.1)


def test_large_data_are_sampled_by_default(monkeypatch, torus):
    monkeypatch.setattr("heatsketch.analysis.distortion.ALL_PAIRS", 100)
    model = hs.DiffusionMaps(2, bandwidth=1.0).fit(torus)
    assert not kernel_distortion(model.embedding_, model.kernel_, 8).exhaustive


class TestNewPoints:
    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    @pytest.mark.parametrize("estimator", [hs.DiffusionMaps, hs.GaussianProcessEmbedding])
    def test_training_points_have_the_training_distortion(self, torus, estimator, normalization):
        model = estimator(3, bandwidth=1.0, normalization=normalization).fit(torus)
        assert model.distortion(torus).log == pytest.approx(model.distortion().log, rel=1e-6)

    def test_vertices_of_a_graph(self):
        A = nx.to_numpy_array(nx.les_miserables_graph())
        model = hs.GaussianProcessEmbedding(3, affinity="precomputed", random_state=0).fit(A)
        assert model.distortion(A).log == pytest.approx(model.distortion().log, rel=1e-6)

    def test_distances_between_rows(self, torus):
        """Against the definition: rows a(x) A^(t-1), by dense algebra."""
        unseen = hs.datasets.stretched_torus(40, random_state=3)
        model = hs.DiffusionMaps(3, bandwidth=1.0, power=4).fit(torus)
        affinity = np.exp(-np.square(unseen[:, None] - torus[None]).sum(axis=-1))
        scale = model.kernel_.scaling.scale
        rows = affinity * scale / (affinity @ scale)[:, None]
        rows = rows @ np.linalg.matrix_power(model.kernel_.toarray(), 3)
        expected = hs.measure_distortion(model.transform(unseen), pdist(rows)).log
        assert model.distortion(unseen).log == pytest.approx(expected, rel=1e-6)

    def test_many_are_sampled(self, torus, monkeypatch):
        monkeypatch.setattr("heatsketch.analysis.distortion.ALL_PAIRS", 50)
        model = hs.DiffusionMaps(2, bandwidth=1.0).fit(torus)
        found = model.distortion(torus)
        assert found.n_pairs == 50 * 49 / 2
        assert not found.exhaustive

    def test_one_point_has_no_distances(self, torus):
        with pytest.raises(ValueError, match="at least 2"):
            hs.DiffusionMaps(2, bandwidth=1.0).fit(torus).distortion(torus[:1])


class TestBadInput:
    def test_shapes(self, points):
        with pytest.raises(ValueError, match="condensed"):
            hs.bilipschitz_constant(points, np.ones(7))
        with pytest.raises(ValueError, match="square"):
            hs.bilipschitz_constant(points, np.ones((3, 3)))
        with pytest.raises(ValueError, match="at least 2 points"):
            hs.bilipschitz_constant([[1.0, 2.0]], [])

    def test_values(self, points):
        with pytest.raises(ValueError, match="NaN, infinity or negative"):
            hs.bilipschitz_constant(points, np.full(780, np.nan))
        with pytest.raises(ValueError, match="all distances are zero"):
            hs.bilipschitz_constant(points, np.zeros(780))
