"""From places of an embedding back to data: weights, error on new points, pipelines, containers, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch.analysis import inverse
from heatsketch.analysis.inverse import local_weights

RNG = np.random.default_rng(0)
MODELS = [hs.GaussianProcessEmbedding(8, random_state=0), hs.DiffusionMaps(8), hs.HeatSketch(8, random_state=0)]


@pytest.fixture(scope="module")
def roll():
    angle, height = 1.5 * np.pi * (1.0 + 2.0 * RNG.uniform(size=900)), 21.0 * RNG.uniform(size=900)
    return np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])


class TestWeights:
    @pytest.mark.parametrize("k", [1, 2, 10])
    def test_constants_are_kept(self, k):
        Y, places = RNG.normal(size=(200, k)), 3.0 * RNG.normal(size=(50, k))
        np.testing.assert_allclose(local_weights(Y, places).sum(axis=1), 1.0, atol=1e-12)

    def test_linear_maps_are_kept_without_ridge(self, monkeypatch):
        monkeypatch.setattr(inverse, "_RIDGE", 1e-12)
        Y, places, B = RNG.normal(size=(500, 3)), 0.5 * RNG.normal(size=(40, 3)), RNG.normal(size=(3, 6))
        np.testing.assert_allclose(local_weights(Y, places) @ (Y @ B + 2.0), places @ B + 2.0, atol=1e-9)

    def test_embedded_points_are_kept(self):
        Y = RNG.normal(size=(200, 3))
        np.testing.assert_allclose(local_weights(Y, Y[:50]).toarray(), np.eye(50, 200), atol=1e-7)

    def test_a_large_ridge_gives_a_mean(self, monkeypatch):
        monkeypatch.setattr(inverse, "_RIDGE", 1e12)
        assert local_weights(RNG.normal(size=(500, 3)), RNG.normal(size=(40, 3))).min() >= 0

    def test_error_of_smooth_maps_is_of_second_order(self):
        """Four times as many points of the plane have neighbours at half the distance: a fourth of the error."""
        errors = []
        for n in (500, 8000):
            Y, places = RNG.uniform(size=(n, 2)), RNG.uniform(0.2, 0.8, size=(200, 2))
            found, true = (np.sin(4.0 * points).sum(axis=1) for points in (Y, places))
            errors.append(np.abs(local_weights(Y, places) @ found - true).mean())
        assert errors[1] < errors[0] / 4

    def test_coinciding_and_few_points(self):
        Y = np.repeat([[0.0, 0.0], [1.0, 0.0]], 40, axis=0)
        weights = local_weights(Y, np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])).toarray()
        np.testing.assert_allclose(weights[:, :40].sum(axis=1), [1.0, 0.0, 0.0], atol=1e-12)
        assert local_weights(Y[:2], Y[:1]).shape == (1, 2)

    def test_scale_and_order_of_points_do_not_matter(self):
        Y, places, order = RNG.normal(size=(300, 2)), RNG.normal(size=(20, 2)), RNG.permutation(300)
        expected = local_weights(Y, places).toarray()
        np.testing.assert_allclose(local_weights(Y[order], places).toarray(), expected[:, order], atol=1e-12)
        for unit in (1e-180, 1e180):
            np.testing.assert_allclose(local_weights(unit * Y, unit * places).toarray(), expected, atol=1e-12)

    def test_many_points_in_several_components(self):
        """The neighbours are the nearest points, also where they are found by clusters."""
        rng = np.random.default_rng(0)
        Y, places = rng.normal(size=(5000, 5)), rng.normal(size=(2500, 5))
        found = local_weights(Y, places).indices.reshape(2500, 30)
        expected = cKDTree(Y).query(places, 30)[1]
        np.testing.assert_array_equal(found, np.sort(expected, axis=1))

    def test_far_places_give_the_edge(self):
        Y = RNG.uniform(size=(2000, 2))
        np.testing.assert_allclose(local_weights(Y, np.array([[1e6, 0.5]])) @ Y, [[1.0, 0.5]], atol=0.2)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_new_points_are_found_again(roll, model):
    model.fit(roll[:700])
    found = model.inverse_transform(model.transform(roll[700:]))
    assert np.square(found - roll[700:]).sum() < 0.05 * np.square(roll[700:] - roll.mean(axis=0)).sum()


def test_pipeline_returns_to_the_units_of_the_data(roll):
    data = roll * [1.0, 100.0, 0.01] + [0.0, 5.0, 9.0]
    pipeline = make_pipeline(StandardScaler(), hs.HeatSketch(3, random_state=0)).fit(data)
    Y = pipeline[-1].embedding_
    found = pipeline.inverse_transform(Y)
    np.testing.assert_allclose(found, local_weights(Y, Y) @ data, rtol=1e-9)


def test_float32_and_frames(roll):
    model = hs.DiffusionMaps(3).fit(roll[:200])
    Y = model.embedding_[:5]
    expected = model.inverse_transform(Y)
    np.testing.assert_array_equal(model.inverse_transform(pd.DataFrame(Y)), expected)
    narrow = hs.DiffusionMaps(3).fit(roll[:200].astype(np.float32))
    assert narrow.inverse_transform(narrow.embedding_[:5]).dtype == np.float32


def test_sparse_data_give_dense_results():
    rng = np.random.default_rng(1)
    X = sparse.csr_array(rng.uniform(size=(80, 30)) * (rng.uniform(size=(80, 30)) < 0.2))
    model = hs.GaussianProcessEmbedding(2, random_state=0).fit(X)
    found = model.inverse_transform(model.embedding_)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, local_weights(model.embedding_, model.embedding_) @ X.toarray())


def test_errors(roll):
    model = hs.DiffusionMaps(3).fit(roll[:100])
    with pytest.raises(ValueError, match="2 columns"):
        model.inverse_transform(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform(np.full((1, 3), np.nan))
    affinity = np.exp(-np.square(roll[:50, None] - roll[None, :50]).sum(axis=2) / 10.0)
    model = hs.DiffusionMaps(3, affinity="precomputed").fit(affinity)
    with pytest.raises(ValueError, match="precomputed"):
        model.inverse_transform(model.embedding_)


def test_far_places_are_those_at_the_edge():
    angle = 2 * np.pi * np.arange(200) / 200
    model = hs.DiffusionMaps(2).fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    direction = np.array([[0.6, 0.8]])
    edge = model.inverse_transform(1e3 * direction)
    for far in (1e6, 1e12, 1e17, 1e200):
        np.testing.assert_allclose(model.inverse_transform(far * direction), edge, atol=1e-2)


def test_saved_models(roll, tmp_path):
    model = hs.HeatSketch(2, random_state=0).fit(roll[:200])
    hs.save_model(model, tmp_path / "model.npz")
    loaded = hs.load_model(tmp_path / "model.npz")
    places = model.embedding_[:7] + 0.1
    np.testing.assert_allclose(loaded.inverse_transform(places), model.inverse_transform(places))


def test_on_a_cluster(roll, monkeypatch):
    arrays = pytest.importorskip("dask.array")
    monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 100)  # fewer points are fitted in memory
    model = hs.DiffusionMaps(2, bandwidth=20.0).fit(arrays.from_array(roll[:200], chunks=(100, 3)))
    with pytest.raises(ValueError, match="cluster"):
        model.inverse_transform(np.zeros((1, 2)))


def test_tensors(roll):
    torch = pytest.importorskip("torch")
    model = hs.DiffusionMaps(2).fit(torch.from_numpy(roll[:200]))
    found = model.inverse_transform(model.embedding_[:3])
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), model.inverse_transform(model.embedding_[:3].numpy()))
