"""Names of samples: nodes of graphs, the index of frames."""

from __future__ import annotations

import pickle
import sys

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError

import heatsketch as hs
from heatsketch.kernel.options import sample_names

GP = hs.GaussianProcessEmbedding


def embedding(**parameters):
    return GP(3, affinity="precomputed", power=3, random_state=0, **parameters)


def words():
    return nx.Graph([("ant", "bee"), ("bee", "cow"), ("cow", "dog"), ("dog", "ant"), ("dog", "elk")])


def named_igraph():
    graph = igraph.Graph(n=5, edges=[(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)])
    graph.vs["name"] = ["ant", "bee", "cow", "dog", "elk"]
    return graph


MIXED = nx.Graph([("a", 1), (1, (2, 3)), ((2, 3), frozenset({4})), (frozenset({4}), "a")])
GRAPHS = {
    "words": (words(), ["ant", "bee", "cow", "dog", "elk"]),
    "pairs of numbers": (nx.grid_2d_graph(2, 3), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]),
    "all kinds": (MIXED, ["a", 1, (2, 3), frozenset({4})]),
    "tuples of several lengths": (nx.Graph([((1,), (1, 2)), ((1, 2), (1, 2, 3))]), [(1,), (1, 2), (1, 2, 3)]),
    "igraph": (named_igraph(), ["ant", "bee", "cow", "dog", "elk"]),
    "igraph without names": (igraph.Graph.Ring(4), [0, 1, 2, 3]),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_nodes_are_remembered(kind):
    graph, names = GRAPHS[kind]
    model = embedding().fit(graph)
    assert model.sample_names_.shape == (len(names),)
    assert model.sample_names_.tolist() == names
    vectors = model.to_dict()
    assert list(vectors) == names
    np.testing.assert_array_equal(np.stack(list(vectors.values())), model.embedding_)
    frame = model.to_frame()
    assert frame.index.tolist() == names
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), model.embedding_)


@pytest.mark.parametrize("kind", GRAPHS)
def test_frames_that_come_of_graphs_are_indexed_by_nodes(kind):
    graph, names = GRAPHS[kind]
    model = embedding().set_output(transform="pandas")
    for frame in (model.fit_transform(graph), model.transform(graph)):
        assert frame.index.tolist() == names
        np.testing.assert_allclose(frame.to_numpy(), model.embedding_, atol=1e-12)
    with config_context(transform_output="pandas"):
        assert embedding().fit_transform(graph).index.tolist() == names
    assert isinstance(embedding().fit_transform(graph), np.ndarray)


def test_a_node_is_found_by_its_name():
    for graph, name in ((words(), "cow"), (nx.grid_2d_graph(2, 3), (1, 1))):
        model = embedding().fit(graph)
        at = list(graph).index(name)
        np.testing.assert_array_equal(model.to_dict()[name], model.embedding_[at])
        np.testing.assert_array_equal(model.to_frame().loc[name], model.embedding_[at])


def test_what_is_handed_out_is_a_copy():
    model = embedding().fit(words())
    before = model.embedding_.copy()
    model.to_dict()["ant"][:] = 7
    frame = model.to_frame()
    frame.iloc[:] = 7
    np.testing.assert_array_equal(model.embedding_, before)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([f"cell{i}" for i in range(30)], name="barcode"),
        pd.date_range("2026-01-01", periods=30, name="day"),
        pd.RangeIndex(100, 130),
        pd.RangeIndex(30, name="row"),
        pd.MultiIndex.from_product([range(5), list("abcdef")], names=["plate", "well"]),
    ],
    ids=["text", "dates", "other numbers", "named numbers", "levels"],
)
def test_the_index_of_a_frame_is_kept_as_it_is(index, torus):
    frame = pd.DataFrame(torus[:30], index=index)
    model = GP(2, bandwidth=1.0, random_state=0).fit(frame.rename(columns=str))
    pd.testing.assert_index_equal(model.to_frame().index, index)
    assert list(model.to_dict()) == list(index)
    assert len(model.sample_names_) == 30


def test_samples_without_names_are_numbered(torus):
    for X in (torus[:20], torus[:20].tolist(), pd.DataFrame(torus[:20], columns=list("abcd"))):
        model = GP(2, bandwidth=1.0, random_state=0).fit(X)
        np.testing.assert_array_equal(model.sample_names_, np.arange(20))
        assert list(model.to_dict()) == list(range(20))
        assert model.to_frame().index.equals(pd.RangeIndex(20))
    assert sample_names(pd.DataFrame(torus)) is None  # nothing is kept for what pandas made up


def test_names_follow_the_last_fit_and_pickling():
    model = embedding().fit(words())
    again = pickle.loads(pickle.dumps(model))
    assert again.sample_names_.tolist() == model.sample_names_.tolist()
    model.fit(nx.path_graph(6))
    assert model.sample_names_.tolist() == list(range(6))
    model.fit(nx.to_numpy_array(words()))
    assert model.sample_names_.tolist() == list(range(5))
    assert list(model.add_components(2).to_dict()) == list(range(5))


def test_names_that_a_dictionary_cannot_hold():
    doubled, listed = named_igraph(), named_igraph()
    doubled.vs["name"] = ["ant", "bee", "cow", "bee", "elk"]
    with pytest.raises(ValueError, match="2 samples are called 'bee'"):
        embedding().fit(doubled).to_dict()
    assert embedding().fit(doubled).to_frame().loc["bee"].shape == (2, 3)
    listed.vs["name"] = [[i] for i in range(5)]
    with pytest.raises(TypeError, match=r"such as \[0\], cannot be keys of a dictionary .* use to_frame\(\)"):
        embedding().fit(listed).to_dict()


def test_only_a_fitted_embedding_has_names():
    for ask in (lambda m: m.sample_names_, lambda m: m.to_dict(), lambda m: m.to_frame()):
        with pytest.raises(NotFittedError):
            ask(embedding())


def test_an_igraph_graph_is_written_to_an_array():
    out = np.empty((5, 3))
    assert embedding().fit_transform(named_igraph(), out=out) is out


def test_without_pandas_the_remedy_is_told(monkeypatch):
    model = embedding().fit(words())
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert list(model.to_dict()) == ["ant", "bee", "cow", "dog", "elk"]
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        model.to_frame()
