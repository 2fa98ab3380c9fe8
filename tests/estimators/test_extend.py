"""Samples that are added to a fitted embedding."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

import heatsketch as hs

X = hs.datasets.stretched_torus(300, random_state=0)
OLD, NEW = X[:220], X[220:]


@pytest.mark.parametrize("options", [{"bandwidth": 0.5, "power": 4}, {"bandwidth": "auto", "power": 4}, {}])
def test_random_sketch_equals_a_fit_to_all_samples(options):
    model = hs.GaussianProcessEmbedding(8, random_state=0, **options).fit(OLD)
    again = hs.GaussianProcessEmbedding(8, random_state=0, **options).fit(X)
    assert model.extend(NEW) is model
    np.testing.assert_array_equal(model.embedding_, again.embedding_)
    np.testing.assert_array_equal(model.transform(X[:5] + 0.1), again.transform(X[:5] + 0.1))


def test_seed_that_was_drawn_is_kept():
    model = hs.GaussianProcessEmbedding(8, power=4).fit(OLD)
    again = hs.GaussianProcessEmbedding(8, power=4, random_state=model.seed_).fit(X)
    np.testing.assert_array_equal(model.extend(NEW).embedding_, again.embedding_)


def test_diffusion_maps_keep_their_signs():
    model = hs.DiffusionMaps(3, power=4).fit(OLD)
    model.embedding_ *= [1, -1, 1]  # as if the other sign had been fixed
    before = model.embedding_.copy()
    model.extend(NEW)
    fitted = hs.DiffusionMaps(3, power=4).fit(X).embedding_
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(fitted), atol=1e-8)
    assert ((model.embedding_[:220] * before).sum(axis=0) > 0).all()
    np.testing.assert_allclose(model.transform(X[:5]), model.embedding_[:5], atol=1e-8)


class TestHeatSketch:
    def test_earlier_samples_stay_where_a_fit_moves_them(self):
        digits = load_digits().data[:900]
        old = digits[:700]
        model = hs.HeatSketch(random_state=0).fit(old)
        before = model.embedding_.copy()
        model.extend(digits[700:])
        fitted = hs.HeatSketch(random_state=0).fit(digits).embedding_
        stayed, moved = (procrustes(before, Y[:700])[2] for Y in (model.embedding_, fitted))
        assert stayed < 0.1
        assert stayed < 0.5 * moved
        assert trustworthiness(digits, model.embedding_) > trustworthiness(digits, fitted) - 0.01
        np.testing.assert_allclose(model.transform(digits), model.embedding_, atol=1e-4 * np.abs(before).max())

    @pytest.mark.parametrize("options", [{"power": 4}, {"bandwidth": 0.5}])
    def test_other_searches_can_be_continued(self, options):
        model = hs.HeatSketch(random_state=0, **options).fit(OLD)
        before = model.embedding_.copy()
        model.extend(NEW)
        assert procrustes(before, model.embedding_[:220])[2] < 0.15

    def test_distances_decide_for_themselves(self):
        """The plane cannot keep all of them, and what is given up changes with the data."""

        def log_stress(model):
            exact = hs.diffusion_distances(model.kernel_, model.power_)
            return np.log(model.diffusion_distances() / exact).std()

        options = {"objective": "log-stress", "random_state": 0}
        extended = hs.HeatSketch(**options).fit(OLD).extend(NEW)
        assert log_stress(extended) < 1.2 * log_stress(hs.HeatSketch(**options).fit(X))

    def test_worst_distance_decides_for_itself(self):
        """The objective has one value, however far the points are from where they were."""
        options = {"objective": "bilipschitz", "power": 4, "random_state": 0}
        extended = hs.HeatSketch(3, **options).fit(OLD).extend(NEW)
        assert extended.distortion().log < 1.2 * hs.HeatSketch(3, **options).fit(X).distortion().log

    def test_moved_is_measured(self):
        model = hs.HeatSketch(random_state=0).fit(OLD)
        before = model.embedding_ - model.embedding_.mean(axis=0)
        model.extend(NEW)
        after = model.embedding_[:220] - model.embedding_[:220].mean(axis=0)
        after *= np.vdot(after, before) / np.vdot(after, after)
        radius = np.sqrt(np.square(before).sum(axis=1).mean())
        np.testing.assert_allclose(model.moved_, np.linalg.norm(after - before, axis=1) / radius, rtol=1e-6)


def test_weights_and_names():
    frame = pd.DataFrame(OLD, pd.Index([f"a{i}" for i in range(220)], name="cell"), columns=list("wxyz"))
    new = pd.DataFrame(NEW, pd.Index([f"b{i}" for i in range(80)], name="cell"), columns=list("wxyz"))
    model = hs.GaussianProcessEmbedding(4, power=4, random_state=0).fit(frame, sample_weight=np.full(220, 2.0))
    model.extend(new, sample_weight=np.full(80, 3.0))
    weights = np.r_[np.full(220, 2.0), np.full(80, 3.0)]
    again = hs.GaussianProcessEmbedding(4, power=4, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.embedding_, again.embedding_)
    assert model.to_frame().loc["b7"].shape == (4,)
    assert model.to_frame().index.name == "cell"
    with pytest.raises(ValueError, match="feature names"):
        model.extend(new.rename(columns={"w": "v"}))


def test_type_of_the_first_samples_is_kept():
    model = hs.HeatSketch(random_state=0).fit(OLD.astype(np.float32)).extend(NEW)
    assert model.embedding_.dtype == np.float32


def test_samples_beyond_a_cutoff():
    model = hs.GaussianProcessEmbedding(4, bandwidth=0.5, kernel_params={"cutoff": 1e-6}, random_state=0).fit(OLD)
    whole = hs.GaussianProcessEmbedding(4, bandwidth=0.5, kernel_params={"cutoff": 1e-6}, random_state=0)
    far = np.concatenate([NEW, NEW[:20] + 50.0])
    np.testing.assert_allclose(model.extend(far).embedding_, whole.fit_transform(np.concatenate([OLD, far])), rtol=1e-6)


def test_labels():
    """Labels of a fit are kept; those of new samples are unknown."""
    y = np.where(OLD[:, 0] > 0, 1, 0)
    y[30:] = -1
    model = hs.HeatSketch(use_labels=True, random_state=0).fit(OLD, y).extend(NEW)
    np.testing.assert_array_equal(model._labels, np.r_[y, np.full(80, -1)])


@pytest.mark.parametrize(("first", "second"), [(sparse.csr_array, np.asarray), (np.asarray, sparse.csr_array)])
def test_sparse_and_dense_samples(first, second):
    model = hs.GaussianProcessEmbedding(4, power=4, random_state=0).fit(first(OLD))
    again = hs.GaussianProcessEmbedding(4, power=4, random_state=0).fit(X)
    np.testing.assert_allclose(model.transform(second(NEW)), model.transform(first(NEW)), atol=1e-12)
    np.testing.assert_allclose(model.extend(second(NEW)).embedding_, again.embedding_, atol=1e-8)


def test_new_samples_that_outnumber_the_others():
    """A start from few samples is worth little."""
    model = hs.HeatSketch(random_state=0).fit(X[:3]).extend(X[3:])
    assert model.power_ == hs.HeatSketch(random_state=0).fit(X).power_
    assert model.embedding_.std(axis=0).min() > 0.1 * model.embedding_.std(axis=0).max()


def test_new_fit_forgets():
    model = hs.HeatSketch(random_state=0).fit(OLD).extend(NEW).fit(OLD)
    assert not hasattr(model, "moved_")


def test_components_that_were_added_are_kept():
    model = hs.GaussianProcessEmbedding(4, power=4, random_state=0).fit(OLD).add_components(3)
    again = hs.GaussianProcessEmbedding(7, power=4, random_state=0).fit(X)
    np.testing.assert_allclose(model.extend(NEW).embedding_, again.embedding_, atol=1e-12)


def test_saved_model_can_be_extended(tmp_path):
    model = hs.HeatSketch(random_state=0).fit(OLD)
    hs.save_model(model, tmp_path / "m.heatsketch")
    loaded = hs.load_model(tmp_path / "m.heatsketch").extend(NEW)
    np.testing.assert_allclose(loaded.embedding_, model.extend(NEW).embedding_, atol=1e-6)


def test_what_cannot_be_extended():
    graph = sparse.csr_array(hs.heat_kernel(OLD, n_neighbors=8).affinity.operator.toarray())
    model = hs.GaussianProcessEmbedding(2, affinity="precomputed").fit(graph)
    with pytest.raises(ValueError, match="precomputed"):
        model.extend(graph[:3])
    model = hs.GaussianProcessEmbedding(2, sketch=np.ones((220, 2)) + OLD[:, :2], power=2).fit(OLD)
    before = model.embedding_
    with pytest.raises(ValueError, match="sketch"):
        model.extend(NEW)
    assert model.embedding_ is before
    with pytest.raises(ValueError, match="features"):
        hs.DiffusionMaps().fit(OLD).extend(NEW[:, :2])
