"""What scikit-learn's users rely on: its own checks, containers, names, pickling, transactional fits."""

from __future__ import annotations

import pickle
import sys

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import heatsketch as hs
from conftest import NORMALIZATIONS

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
CHECKED = [
    GP(),
    GP(normalization="symmetric", sketch="rademacher", alpha=0.5),
    GP(normalization="stochastic", sketch="rademacher-hash"),
    GP(normalization="bistochastic-weighted", sketch="columns"),
    GP(kernel_params={"diagonal": "zero"}),
    GP(bandwidth="self-tuning"),
    GP(n_neighbors=5),
    GP(metric="precomputed"),
    GP(n_exact="auto", n_components=4),
    DM(),
    DM(affinity="precomputed", solver="randomized"),
    HS(),
    HS(use_labels=True),
    HS(objective="log-stress", affinity="precomputed"),
    HS(objective="bilipschitz", power=2),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_check_estimator(estimator):
    """Every check of scikit-learn passes, except that weighted and repeated rows give the same random numbers."""
    # A fit to repeated rows in another order draws other random numbers, of the same law, and may find the opposite
    # eigenvectors: tests/estimators/test_sample_weight.py compares weighted samples with repeated ones.
    other_numbers = {
        f"check_sample_weight_equivalence_on_{kind}_data": "other random numbers" for kind in ("dense", "sparse")
    }
    results = check_estimator(estimator, on_skip=None, expected_failed_checks=other_numbers)
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] not in ("passed", "skipped")} <= other_numbers.keys()
    # The only check that may be skipped needs SCIPY_ARRAY_API=1 in the environment.
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("estimator", [GP, DM, HS])
def test_constructors_are_short(estimator):
    assert len(estimator().get_params()) <= 17


class TestContainers:
    def test_pandas_and_polars(self, torus):
        names = list("abcd")
        frame, other = pd.DataFrame(torus, columns=names), pl.DataFrame(torus, schema=names)
        model = GP(2, random_state=0)
        expected = model.fit_transform(torus)
        for data in (other, frame):
            np.testing.assert_array_equal(model.fit_transform(data), expected)
        assert list(model.feature_names_in_) == names
        out = GP(2, random_state=0).set_output(transform="pandas").fit_transform(frame)
        assert list(out.columns) == ["gaussianprocessembedding0", "gaussianprocessembedding1"]
        out = GP(2, random_state=0).set_output(transform="polars").fit(frame).transform(frame)
        np.testing.assert_allclose(out.to_numpy(), expected, atol=1e-12)

    def test_layouts_and_integers(self, torus):
        expected = GP(2, random_state=0).fit_transform(torus)
        wide = np.zeros((300, 8))
        wide[:, ::2] = torus
        frozen = torus.copy()
        frozen.setflags(write=False)
        for X in (np.asfortranarray(torus), wide[:, ::2], frozen, torus.tolist()):
            np.testing.assert_allclose(GP(2, random_state=0).fit_transform(X), expected, atol=1e-12)
        whole = np.random.default_rng(0).integers(0, 20, size=(40, 6))
        Y = GP(2, random_state=0).fit_transform(whole.astype(np.uint8))
        np.testing.assert_array_equal(Y, GP(2, random_state=0).fit_transform(whole.astype(float)))

    def test_input_is_not_changed(self, torus):
        X, D = torus.copy(), cdist(torus, torus)
        before = D.copy()
        GP(2).fit(X).transform(X)
        GP(2, metric="precomputed").fit(D).transform(D)
        GP(2, affinity="precomputed", kernel_params={"diagonal": "zero"}).fit(np.exp(-D)).transform(np.exp(-D))
        np.testing.assert_array_equal(X, torus)
        np.testing.assert_array_equal(D, before)
        W = sparse.csr_array((np.ones(6), np.array([1, 1, 0, 0, 2, 1]), np.array([0, 2, 5, 6])), shape=(3, 3))
        GP(2, affinity="precomputed").fit(W)  # duplicate entries are summed in a copy
        assert W.nnz == 6

    @pytest.mark.parametrize("model", [GP(2, random_state=0), HS(2, random_state=0)], ids=str)
    def test_out(self, torus, model):
        out = np.empty((300, 2))
        assert model.fit_transform(torus, out=out) is model.embedding_ is out
        np.testing.assert_array_equal(out, clone(model).fit_transform(torus))
        new = np.empty((5, 2), dtype=np.float32)
        assert model.transform(torus[:5], out=new) is new

    def test_in_a_pipeline_and_a_grid_search(self):
        X = hs.datasets.circle(80, random_state=0)
        pipeline = make_pipeline(PCA(2), DM(2, bandwidth=0.5), KNeighborsClassifier(3))
        grid = {"diffusionmaps__kernel_params": [None, {"diagonal": "zero"}]}
        search = GridSearchCV(pipeline, grid, cv=2).fit(X, X[:, 0] > 0)
        assert search.best_params_["diffusionmaps__kernel_params"] in grid["diffusionmaps__kernel_params"]
        assert clone(search.best_estimator_[1]).get_params() == search.best_estimator_[1].get_params()

    def test_verbose_reports_the_choices(self, torus, capsys):
        GP(2, verbose=True).fit(torus)
        printed = capsys.readouterr()
        assert all(
            word in printed.err for word in ("[GaussianProcessEmbedding]", "300", "15 neighbours", "self-tuning")
        )
        assert printed.out == ""
        GP(2).fit(torus)
        assert capsys.readouterr() == ("", "")


class TestRepeatability:
    @pytest.mark.parametrize("model", [GP(4), HS(2), HS(2, bandwidth=1.0, objective="bilipschitz")], ids=str)
    def test_seed_decides(self, torus, model):
        a, b, c = (clone(model).set_params(random_state=s).fit_transform(torus) for s in (1, 1, 2))
        np.testing.assert_array_equal(a, b)
        assert np.abs(a - c).max() > 1e-6
        drawn = clone(model).fit(torus)
        again = clone(model).set_params(random_state=drawn.seed_).fit_transform(torus)
        np.testing.assert_array_equal(again, drawn.embedding_)

    def test_chunks_change_only_rounding(self, torus, monkeypatch):
        whole = GP(4, random_state=0).fit(torus)
        Y, new = whole.embedding_, whole.transform(torus[:40])
        monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", 1000)
        monkeypatch.setattr("heatsketch.linalg.sketch._ENTRIES_PER_CHUNK", 7)
        pieces = GP(4, random_state=0).fit(torus)
        np.testing.assert_allclose(pieces.embedding_, Y, atol=1e-12)
        np.testing.assert_allclose(pieces.transform(torus[:40]), new, atol=1e-12)

    @pytest.mark.parametrize("normalization", NORMALIZATIONS)
    def test_pickling(self, torus, normalization):
        new = hs.datasets.stretched_torus(50, random_state=7)
        for model in (GP(4, random_state=0, normalization=normalization), DM(3, normalization=normalization)):
            stored = pickle.dumps(model.fit(torus))
            assert len(stored) < 300 * 300 * 8 / 2  # without the N x N matrix
            copy = pickle.loads(stored)
            np.testing.assert_allclose(copy.transform(new), model.transform(new), atol=1e-13)
            np.testing.assert_allclose(copy.at_powers([3]), model.at_powers([3]), atol=1e-12)


class TestTransactions:
    """A failed or interrupted method leaves the estimator unchanged."""

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
    def test_error_inside_a_fit(self, torus, error):
        calls = iter(range(150))

        def distance(x, y):
            if next(calls, None) is None:
                raise error
            return float(np.linalg.norm(x - y))

        model = GP(2, bandwidth=1.0, random_state=0).fit(torus).set_params(metric=distance)
        before = dict(vars(model))
        with pytest.raises(type(error)):
            model.fit(torus[:30])
        assert vars(model) == before

    @pytest.mark.parametrize("method", ["fit", "add_components"])
    def test_interrupted_optimisation(self, torus, method, monkeypatch):
        def interrupt(*_args):
            raise KeyboardInterrupt

        model = HS(2, random_state=0).fit(torus[:90])
        before = dict(vars(model))
        monkeypatch.setattr("heatsketch.layout.descent.balanced_axes", interrupt)  # the last step
        with pytest.raises(KeyboardInterrupt):
            model.fit(torus[90:]) if method == "fit" else model.add_components(1)
        assert vars(model) == before

    def test_parameters_set_after_a_fit_do_not_change_it(self, torus):
        options = {"normalization": "symmetric", "bandwidth": 1.0, "power": 8, "random_state": 0}
        model = GP(4, **options).fit(torus).set_params(power=3)
        whole = GP(6, **options).fit(torus)
        np.testing.assert_allclose(model.add_components(2).embedding_, whole.embedding_, atol=1e-12)
        np.testing.assert_allclose(model.at_powers([8])[0], whole.embedding_, atol=1e-9)


def graph_embedding():
    return GP(3, affinity="precomputed", power=3, random_state=0)


ANIMALS = ["ant", "bee", "cow", "dog", "elk"]


def animals(names=ANIMALS):
    graph = igraph.Graph(n=5, edges=[(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)])
    graph.vs["name"] = names
    return graph


MIXED = nx.Graph([("a", 1), (1, (2, 3)), ((2, 3), frozenset({4})), (frozenset({4}), "a")])
GRAPHS = {
    "words": (animals().to_networkx(vertex_attr_hashable="name"), ANIMALS),
    "tuples": (nx.grid_2d_graph(2, 3), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]),
    "all kinds": (MIXED, ["a", 1, (2, 3), frozenset({4})]),
    "igraph": (animals(), ANIMALS),
    "igraph without names": (igraph.Graph.Ring(4), [0, 1, 2, 3]),
}


class TestNames:
    @pytest.mark.parametrize("kind", GRAPHS)
    def test_nodes_of_graphs(self, kind):
        graph, names = GRAPHS[kind]
        model = graph_embedding().fit(graph)
        assert model.sample_names_.tolist() == names
        vectors, frame = model.to_dict(), model.to_frame()
        assert list(vectors) == frame.index.tolist() == names
        np.testing.assert_array_equal(np.stack(list(vectors.values())), model.embedding_)
        assert frame.columns.tolist() == model.get_feature_names_out().tolist()
        np.testing.assert_array_equal(frame.to_numpy(), model.embedding_)
        model.set_output(transform="pandas")
        for frame in (model.fit_transform(graph), model.transform(graph)):
            assert frame.index.tolist() == names
        with config_context(transform_output="pandas"):
            assert graph_embedding().fit_transform(graph).index.tolist() == names

    def test_pairs_may_be_names(self):
        model = graph_embedding().fit(animals())
        names = model.sample_names_.tolist()
        pairs = [[0, 1], [2, 0]]
        named = [[names[i] for i in pair] for pair in pairs]
        for ask in (model.diffusion_distances, model.geodesic_distances):
            np.testing.assert_array_equal(ask(named), ask(pairs))
        with pytest.raises(ValueError, match="no 'unicorn'"):
            model.diffusion_distances([["unicorn", names[0]]])

    def test_lookup_by_name_gives_a_copy(self):
        for graph, name in ((animals(), "cow"), (nx.grid_2d_graph(2, 3), (1, 1))):
            model = graph_embedding().fit(graph)
            at = model.sample_names_.tolist().index(name)
            np.testing.assert_array_equal(model.to_frame().loc[name], model.embedding_[at])
            vector = model.to_dict()[name]
            np.testing.assert_array_equal(vector, model.embedding_[at])
            vector[:] = 7
            assert not (model.embedding_[at] == 7).any()

    @pytest.mark.parametrize(
        "index",
        [
            pd.Index([f"cell{i}" for i in range(30)], name="barcode"),
            pd.date_range("2026-01-01", periods=30, name="day"),
            pd.RangeIndex(100, 130),
            pd.MultiIndex.from_product([range(5), list("abcdef")], names=["plate", "well"]),
        ],
        ids=["text", "dates", "numbers", "levels"],
    )
    def test_index_of_a_frame(self, index, torus):
        frame = pd.DataFrame(torus[:30], index=index, columns=list("abcd"))
        model = GP(2, bandwidth=1.0, random_state=0).fit(frame)
        pd.testing.assert_index_equal(model.to_frame().index, index)
        assert list(model.to_dict()) == list(index)

    def test_samples_without_names_are_numbered(self, torus):
        for X in (torus[:20], pd.DataFrame(torus[:20], columns=list("abcd"))):
            model = GP(2, bandwidth=1.0, random_state=0).fit(X)
            assert model.sample_names_.tolist() == list(model.to_dict()) == list(range(20))
            assert model.to_frame().index.equals(pd.RangeIndex(20))

    def test_names_follow_fits_and_pickling(self):
        model = graph_embedding().fit(animals())
        assert pickle.loads(pickle.dumps(model)).sample_names_.tolist() == ANIMALS
        assert list(model.add_components(2).to_dict()) == ANIMALS
        assert model.fit(nx.path_graph(6)).sample_names_.tolist() == list(range(6))

    def test_repeated_names(self):
        doubled = graph_embedding().fit(animals(["ant", "bee", "cow", "bee", "elk"]))
        with pytest.raises(ValueError, match="repeated"):
            doubled.to_dict()
        assert doubled.to_frame().loc["bee"].shape == (2, 3)

    def test_frames_need_pandas(self, monkeypatch):
        model = graph_embedding().fit(animals())
        monkeypatch.setitem(sys.modules, "pandas", None)
        assert list(model.to_dict()) == ANIMALS
        with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
            model.to_frame()


QUESTIONS = {
    "transform": [[[0.0]]],
    "at_powers": [[1]],
    "add_components": [1],
    "to_dict": [],
    "to_frame": [],
    "distortion": [],
    "diffusion_distances": [],
    "unsupported_neighbors": [],
    "stability": [],
    "scales": [],
    "diagnose": [],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_not_fitted(question):
    with pytest.raises(NotFittedError):
        getattr(GP(2), question)(*QUESTIONS[question])
