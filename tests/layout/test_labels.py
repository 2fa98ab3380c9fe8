"""Known labels: when and which y is used, soft labels, similarities that agree, and separated classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import trustworthiness
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch.layout.labels import agreeing, class_labels, known_classes, spread_labels
from heatsketch.layout.similarities import neighbor_graph

HS = hs.HeatSketch
N, CLASSES = 300, 3


@pytest.fixture(scope="module")
def clouds():
    """Three clouds that overlap, all labels, and labels of which ten of each class are known."""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(CLASSES), N // CLASSES)
    X = rng.normal(size=(N, 5)) + 2.0 * np.eye(CLASSES, 5)[label]
    y = np.full(N, -1)
    for c in range(CLASSES):
        y[rng.choice(np.flatnonzero(label == c), 10, replace=False)] = c
    return X, label, y


@pytest.fixture(scope="module")
def graph(clouds):
    return neighbor_graph(hs.heat_kernel(clouds[0]).graph().S)


def separation(Y, label):
    """Variance between classes over variance within them."""
    means = np.array([Y[label == c].mean(axis=0) for c in np.unique(label)])
    within = np.mean([Y[label == c].var(axis=0).sum() for c in np.unique(label)])
    return means.var(axis=0).sum() / within


class TestWhichLabels:
    def test_labels_may_be_of_any_type_that_holds_integers(self):
        given = [0, -1, 1, -1]
        for y in (
            given,
            np.array(given, dtype=np.int8),
            np.array(given, dtype=object),
            np.array(given)[:, None],
            [0.0, -1.0, 1.0, -1.0],
            pd.Series(given, index=[5, 6, 7, 8]),
            pd.Series(given, dtype="Int64"),
        ):
            labels = class_labels(y, 4)
            assert labels.dtype == np.int64
            np.testing.assert_array_equal(labels, given)

    @pytest.mark.parametrize("given", [[0, 1, 1, 0], [0, 1, -1, 2], [True, False, False, True], [7, -1, -1, 5]])
    def test_any_share_may_be_known(self, given):
        np.testing.assert_array_equal(class_labels(given, 4), np.array(given, dtype=int))

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (None, "y is None"),
            ([0, 1, -1], r"shape \(3,\)"),
            ([[0, -1], [1, -1], [0, 1], [1, 0]], r"shape \(4, 2\)"),
            (1, r"shape \(\)"),
            (["a", "b", "a", "-1"], "'a'"),
            (["0", "1", "0", "-1"], "'0'"),
            (np.array(["a", None, 0, 1], dtype=object), "'a'"),
            ([0, None, 0, 1], "None"),
            ([0.0, np.nan, 1.0, 1.0], "nan"),
            (pd.Series([0, None, 1, 1], dtype="Int64"), "nan|NA"),
            ([0.0, np.inf, 1.0, 1.0], "inf"),
            ([0.5, -1.0, 1.0, 2.0], "0.5"),
            ([1e300, -1.0, 1.0, 2.0], "1e[+]300"),
            ([-3, -1, 0, 2], "-3"),
            ([0j, 1j, 0j, 1j], "0j"),
            ([-1, -1, -1, -1], "0 classes"),
            ([-1, 1, 1, -1], "1 class"),
        ],
    )
    def test_errors(self, y, message):
        with pytest.raises(ValueError, match=message):
            class_labels(y, 4)

    def test_memory_for_many_classes(self, monkeypatch):
        monkeypatch.setattr("heatsketch.layout.labels.available_memory", lambda: 10_000_000)
        with pytest.raises(MemoryError, match="1,000 classes"):
            class_labels(np.arange(1000), 1000)
        assert len(class_labels(np.arange(1000) % 300, 1000)) == 1000


class TestSimilarities:
    def test_soft_labels_solve_their_equation(self, clouds, graph):
        C = known_classes(clouds[2], np.arange(N), N)
        transition = graph.toarray() / graph.sum(axis=1)[:, None]
        exact = np.linalg.solve(np.eye(N) - 0.9 * transition, 0.1 * C)
        np.testing.assert_allclose(spread_labels(graph, C), exact, atol=0.01 * exact.max())
        assert (spread_labels(graph, C).argmax(axis=1) == clouds[1]).mean() > 0.8

    def test_sums_and_symmetry_are_kept(self, clouds, graph):
        found = agreeing(graph, known_classes(clouds[2], np.arange(N), N))
        assert found.sum() == pytest.approx(N, rel=1e-5)
        assert (found.dtype, found.indices.dtype) == (graph.dtype, graph.indices.dtype)
        assert abs(found - found.T).max() < 1e-5
        assert found.diagonal().max() == 0

    def test_classes_attract_each_other_less(self, clouds, graph):
        C = known_classes(clouds[2], np.arange(N), N)
        guess = spread_labels(graph, C).argmax(axis=1)
        other = guess[:, None] != guess
        assert agreeing(graph, C).toarray()[other].sum() < 0.5 * graph.toarray()[other].sum()

    def test_clusters_without_labels_are_unchanged(self):
        """Of three clusters, two have labels: the third keeps its similarities, up to a factor."""
        ring = sparse.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[1, -1, 19, -19], shape=(20, 20))
        P = neighbor_graph(sparse.block_diag([ring, ring, ring], format="csr"))
        y = np.full(60, -1)
        y[0], y[25] = 0, 1
        found = agreeing(P, known_classes(y, np.arange(60), 60)).toarray()
        third = found[40:, 40:] / P.toarray()[40:, 40:].max()
        np.testing.assert_allclose(third, third.max() * (P.toarray()[40:, 40:] > 0), rtol=1e-5)
        assert not found[40:, :40].any()

    def test_points_that_labels_do_not_reach_keep_their_neighbors(self):
        """On a long path labels of one end do not reach the other; two points without neighbours stay without."""
        path = sparse.diags_array([1.0, 1.0], offsets=[1, -1], shape=(200, 200), format="csr")
        P = neighbor_graph(path)
        y = np.full(200, -1)
        y[:2] = 0, 1
        found = agreeing(P, known_classes(y, np.arange(200), 200))
        far = found.diagonal(1)[100:-2]
        np.testing.assert_allclose(far, far[0], rtol=1e-5)
        alone = neighbor_graph(sparse.eye_array(4, format="csr"))
        assert agreeing(alone, known_classes(np.array([0, 1, -1, -1]), np.arange(4), 4)).nnz == 0

    def test_names_of_classes_do_not_matter(self, clouds, graph):
        renamed = np.where(clouds[2] == -1, -1, np.array([7, 2, 40])[clouds[2]])
        a, b = (agreeing(graph, known_classes(y, np.arange(N), N)) for y in (clouds[2], renamed))
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-6)

    def test_repeated_points_share_their_labels(self):
        C = known_classes(np.array([0, -1, 1, 1]), np.array([0, 1, 1, 0]), 2)
        np.testing.assert_allclose(C, [[1.0, 0.5], [0.0, 0.5]])
        copies = known_classes(np.array([0, 0, 0, 0, -1]), np.array([0, 0, 0, 1, 2]), 3)
        np.testing.assert_allclose(copies, [[0.5], [0.5], [0.0]])


LABELLED = {"use_labels": True, "random_state": 0}


class TestEmbedding:
    @pytest.mark.parametrize("y", [np.where(np.arange(N) % 10 < 7, -1, np.arange(N) % 3), np.full(N, "a"), [np.nan], 7])
    def test_targets_of_a_pipeline_are_not_used(self, clouds, y):
        """Unless asked for: not even targets of which most are -1, nor any that labels could not be."""
        expected = HS(2, random_state=0).fit_transform(clouds[0])
        np.testing.assert_array_equal(HS(2, random_state=0).fit_transform(clouds[0], y), expected)

    @pytest.mark.parametrize(
        "options", [{}, {"n_components": 10}, {"objective": "neighbors"}, {"power": 4}, {"bandwidth": 4.0}], ids=str
    )
    def test_known_classes_are_separated(self, clouds, options):
        X, label, y = clouds
        before = HS(**({"random_state": 0} | options)).fit_transform(X)
        after = HS(**(LABELLED | options)).fit_transform(X, y)
        assert separation(after, label) > 1.05 * separation(before, label)

    @pytest.mark.parametrize("objective", ["mixed", "neighbors"])
    def test_more_labels_separate_more(self, clouds, objective):
        X, label, few = clouds
        half = np.where(np.arange(N) % 2, label, -1)
        found = [separation(HS(objective=objective, **LABELLED).fit_transform(X, y), label) for y in (few, half, label)]
        assert found[0] < found[1] < found[2] + 0.05

    def test_all_known_labels_keep_neighbors_within_classes(self, clouds):
        X, label, _ = clouds
        Y = HS(**LABELLED).fit_transform(X, label)
        for c in range(CLASSES):
            assert trustworthiness(X[label == c], Y[label == c]) > 0.8

    def test_classifiers_of_unseen_points_gain(self):
        X, label = hs.datasets.digits()
        y = np.full(900, -1)
        for c in range(10):
            y[np.flatnonzero(label[:900] == c)[:5]] = c
        scores = []
        for use_labels in (False, True):
            model = HS(2, use_labels=use_labels, random_state=0).fit(X[:900], y)
            scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(model.embedding_[y != -1], y[y != -1])
            scores.append(scaled.score(model.transform(X[900:]), label[900:]))
        assert scores[1] > scores[0]

    def test_a_fit_without_labels_forgets_them(self, clouds):
        X, _, y = clouds
        model = HS(**LABELLED).fit(X, y).set_params(use_labels=False)
        np.testing.assert_array_equal(model.fit(X, y).embedding_, HS(2, random_state=0).fit(X).embedding_)

    def test_more_components_and_saved_models_keep_labels(self, clouds, tmp_path):
        X, _, y = clouds
        model = HS(**LABELLED).fit(X, y)
        hs.save_model(model, tmp_path / "model.heatsketch")
        expected = HS(3, **LABELLED).fit(X, y).embedding_
        for other in (model, hs.load_model(tmp_path / "model.heatsketch")):
            assert other.use_labels
            np.testing.assert_allclose(other.add_components(1).embedding_, expected, atol=1e-6)

    def test_comparisons_keep_labels(self, clouds):
        X, _, y = clouds
        compared = hs.compare_embeddings(HS(**LABELLED).fit(X, y), n_components=3, methods=["HeatSketch"])
        np.testing.assert_allclose(
            compared["HeatSketch"].model.embedding_, HS(3, **LABELLED).fit(X, y).embedding_, atol=1e-6
        )

    @pytest.mark.parametrize("under", ["seed", "data"])
    def test_stability_repeats_the_fit_with_labels(self, clouds, under):
        X, _, y = clouds
        model = HS(**LABELLED).fit(X, y)
        kept = model.stability(under, n_repeats=3).kept.mean()
        model.use_labels, model._labels = False, None
        assert kept > model.stability(under, n_repeats=3).kept.mean()

    def test_stability_of_a_single_label_of_a_class(self, clouds):
        """Subsets without the second class are fitted without labels."""
        X, label, _ = clouds
        y = np.full(N, -1)
        y[[0, N - 1]] = label[[0, N - 1]]
        stability = HS(**LABELLED).fit(X, y).stability("data", n_repeats=4, random_state=0)
        assert np.isfinite(stability.kept).all()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective": "log-stress"}, "log-stress"),
            ({"objective": "bilipschitz", "power": 2}, "bilipschitz"),
            ({"neighbor_weight": 0}, "neighbor_weight=0"),
            ({"use_labels": "yes"}, "use_labels='yes'"),
            ({"use_labels": None}, "use_labels=None"),
        ],
        ids=str,
    )
    def test_options_without_a_use_for_labels(self, clouds, options, message):
        with pytest.raises(ValueError, match=message):
            HS(**(LABELLED | options)).fit(clouds[0], clouds[2])

    def test_labels_are_required(self, clouds):
        X, _, y = clouds
        model = HS(**LABELLED)
        for call in (model.fit, model.fit_transform, lambda X: hs.fit_aligned(model, [X, X])):
            with pytest.raises(ValueError, match="use_labels=True"):
                call(X)
        with pytest.raises(ValueError, match="shape"):
            model.fit(X, y[:-1])
        assert not hasattr(model, "embedding_")

    def test_other_estimators_ignore_labels(self, clouds):
        X, _, y = clouds
        for model in (hs.DiffusionMaps(2), hs.GaussianProcessEmbedding(2, random_state=0)):
            np.testing.assert_array_equal(model.fit_transform(X, y), model.fit_transform(X))

    def test_on_a_cluster(self, clouds):
        arrays = pytest.importorskip("dask.array")
        X = arrays.from_array(clouds[0], chunks=(150, 5))
        with pytest.raises(ValueError, match="cluster"):
            HS(**LABELLED).fit(X, clouds[2])

    def test_on_a_device(self, clouds, device):
        X, label, y = clouds
        before, after = (
            HS(2, use_labels=use, random_state=0, device=device.name).fit_transform(X, y) for use in (False, True)
        )
        assert separation(after, label) > 1.05 * separation(before, label)
