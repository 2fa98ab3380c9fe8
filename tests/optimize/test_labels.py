"""Few labels: which y is used, soft labels, similarities that agree, and embeddings that separate classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch.optimize.labels import agreeing, few_labels, known_classes, spread_labels
from heatsketch.optimize.spaces import neighbor_graph

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
    @pytest.mark.parametrize(
        "y",
        [
            [0, 1, 1, 0],
            [-1, 1, 1, -1],  # both classes of a binary problem
            [-1, -1, -1, -1],
            [-3, -1, 0, 2],  # targets
            [0.5, -1.0, 1.0, 2.0],
            ["a", "b", "a", "b"],
            [[0, -1], [1, -1], [0, 1], [1, 0]],
            [True, False, True, False],
        ],
    )
    def test_other_targets_are_not_labels(self, y):
        labels, reason = few_labels(np.array(y), 4)
        assert labels is None
        assert reason

    def test_labels_may_be_of_any_integer_type(self):
        given = [0, -1, 1, -1]
        for y in (
            np.array(given, dtype=np.int8),
            np.array(given, dtype=object),
            np.array(given)[:, None],
            [0.0, -1.0, 1.0, -1.0],
            pd.Series(given, index=[5, 6, 7, 8]),
        ):
            np.testing.assert_array_equal(few_labels(y, 4)[0], given)

    @pytest.mark.parametrize("unknown", ["-1", "", -1])
    def test_names_of_classes_are_no_labels(self, unknown):
        with pytest.warns(UserWarning, match="not integers"):
            labels, _ = few_labels(np.array(["a", "b", unknown, unknown], dtype=object), 4)
        assert labels is None

    def test_warnings_name_the_line_of_a_pipeline(self, clouds):
        y = np.where(np.arange(N) % 3 == 0, -1, 1 + np.arange(N) % 2)
        with pytest.warns(UserWarning, match="y is not used") as said:
            make_pipeline(hs.HeatSketch(random_state=0), LogisticRegression()).fit(clouds[0], y)
        assert said[0].filename == __file__

    def test_a_class_called_minus_one_is_no_unknown_label(self):
        with pytest.warns(UserWarning, match="class"):
            assert few_labels(np.repeat([-1, 0, 1], 50), 150)[0] is None
        assert few_labels([-2, -1, 0, 1, -1, -1], 6)[0] is None

    @pytest.mark.parametrize(
        ("y", "message"), [([0, 1, -1], "3 labels"), ([0.0, np.nan, 1.0, 1.0], "-1"), (["a", None, "b", "b"], "-1")]
    )
    def test_errors(self, y, message):
        with pytest.raises(ValueError, match=message):
            few_labels(np.array(y), 4)


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


class TestEmbedding:
    @pytest.mark.parametrize("y", [None, np.full(N, -1), np.arange(N) % 2, np.array(["a", "b"] * (N // 2))])
    def test_without_few_labels_nothing_changes(self, clouds, y):
        expected = HS(2, random_state=0).fit_transform(clouds[0])
        np.testing.assert_array_equal(HS(2, random_state=0).fit_transform(clouds[0], y), expected)

    @pytest.mark.parametrize(
        "options", [{}, {"n_components": 10}, {"objective": "neighbors"}, {"power": 4}, {"bandwidth": 4.0}], ids=str
    )
    def test_known_classes_are_separated(self, clouds, options):
        X, label, y = clouds
        model = HS(**({"n_components": 2, "random_state": 0} | options))
        before, after = model.fit_transform(X), model.fit_transform(X, y)
        assert separation(after, label) > 1.05 * separation(before, label)

    def test_classifiers_of_unseen_points_gain(self):
        X, label = hs.datasets.digits()
        y = np.full(900, -1)
        for c in range(10):
            y[np.flatnonzero(label[:900] == c)[:5]] = c
        scores = []
        for given in (None, y):
            model = HS(2, random_state=0).fit(X[:900], given)
            scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(model.embedding_[y != -1], y[y != -1])
            scores.append(scaled.score(model.transform(X[900:]), label[900:]))
        assert scores[1] > scores[0]

    def test_a_fit_without_labels_forgets_them(self, clouds):
        X, _, y = clouds
        model = HS(2, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.fit(X).embedding_, HS(2, random_state=0).fit(X).embedding_)

    def test_more_components_and_saved_models_keep_labels(self, clouds, tmp_path):
        X, _, y = clouds
        model = HS(2, random_state=0).fit(X, y)
        hs.save_model(model, tmp_path / "model.heatsketch")
        expected = HS(3, random_state=0).fit(X, y).embedding_
        for other in (model, hs.load_model(tmp_path / "model.heatsketch")):
            np.testing.assert_allclose(other.add_components(1).embedding_, expected, atol=1e-6)

    @pytest.mark.parametrize("under", ["seed", "data"])
    def test_stability_repeats_the_fit_with_labels(self, clouds, under):
        X, _, y = clouds
        model = HS(2, random_state=0).fit(X, y)
        kept = model.stability(under, n_repeats=3).kept.mean()
        model._labels = None
        assert kept > model.stability(under, n_repeats=3).kept.mean()

    @pytest.mark.parametrize("options", [{"objective": "log-stress"}, {"objective": "bilipschitz", "power": 2}])
    def test_labels_that_cannot_be_used_are_reported(self, clouds, options):
        with pytest.warns(UserWarning, match="not used"):
            HS(2, random_state=0, **options).fit(clouds[0][::3], clouds[2][::3])

    def test_targets_of_a_pipeline_are_not_used(self, clouds, capsys):
        X, label, _ = clouds
        pipeline = make_pipeline(HS(2, random_state=0, verbose=True), LogisticRegression()).fit(X, label)
        np.testing.assert_array_equal(pipeline[0].embedding_, HS(2, random_state=0).fit_transform(X))
        assert "y is not used" in capsys.readouterr().err

    def test_other_estimators_ignore_labels(self, clouds):
        X, _, y = clouds
        for model in (hs.DiffusionMaps(2), hs.GaussianProcessEmbedding(2, random_state=0)):
            np.testing.assert_array_equal(model.fit_transform(X, y), model.fit_transform(X))

    def test_on_a_cluster(self, clouds):
        arrays = pytest.importorskip("dask.array")
        X = arrays.from_array(clouds[0], chunks=(150, 5))
        with pytest.warns(UserWarning, match="cluster"):
            HS(2, random_state=0).fit(X, clouds[2])

    def test_on_a_device(self, clouds, device):
        X, label, y = clouds
        before, after = (HS(2, random_state=0, device=device.name).fit_transform(X, given) for given in (None, y))
        assert separation(after, label) > 1.2 * separation(before, label)
