"""Graphs of networkx and igraph that try to break things: odd weights, odd names, and shapes with known spectra."""

from __future__ import annotations

from fractions import Fraction

import igraph
import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import squareform

import heatsketch as hs
from budget import cases
from conftest import NORMALIZATIONS
from graph_cases import answer, contents, formula, formula_distances
from heatsketch.linalg.eigen import eigenpairs

GIVEN = {"affinity": "precomputed"}
NAMES = (0, 1, -7, 2.5, "a", "b", "", ("x", 1), frozenset({3}), True, None.__class__, 10**30)
GOOD = (0, 0.0, -0.0, 1, 2.5, True, 1e-3, 10**20, Fraction(1, 3), np.float32(2), np.int8(3), "2.5", np.array(4.0))
BAD = (-1, float("nan"), float("inf"), -float("inf"), None, "heavy", "", 1j, [1, 2], {}, 10**400, "1e999", np.ones(2))


@st.composite
def edges(draw, weights=GOOD):
    """Vertices and edges (a, b, weight), with loops and parallel ones; weights are left out of some (`...`)."""
    n = draw(st.integers(2, 8))
    vertex = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(vertex, vertex, st.sampled_from([..., ..., *weights])), max_size=14))


def weigh(weight):
    return 1.0 if weight is ... else float(weight)


def matrix_of(n, listed):
    W = np.zeros((n, n))
    for a, b, weight in listed:
        W[a, b] += weigh(weight)
        if a != b:
            W[b, a] += weigh(weight)
    return W


def networkx_of(n, listed):
    graph = nx.MultiGraph(kind="hostile")
    graph.add_nodes_from(NAMES[:n], seen=[])
    for a, b, weight in listed:
        graph.add_edge(NAMES[a], NAMES[b], **({} if weight is ... else {"weight": weight}))
    return graph


def igraph_of(n, listed):
    graph = igraph.Graph(n=n, edges=[(a, b) for a, b, _ in listed])
    if any(weight is not ... for *_, weight in listed):
        graph.es["weight"] = [None if weight is ... else weight for *_, weight in listed]
    return graph


@cases(25)
@given(edges(), st.sampled_from(NORMALIZATIONS), st.sampled_from([0.5, 1, 3]))
def test_a_graph_has_the_kernel_of_its_matrix(drawn, normalization, power):
    """Edges in pieces, in either direction, with loops, with numbers of every kind: the matrix is the sum of all."""
    n, listed = drawn
    W = matrix_of(n, listed)
    model = hs.GaussianProcessEmbedding(2, normalization=normalization, power=power, random_state=0, **GIVEN)
    expected, refusal = answer(lambda: model.fit_transform(W))
    for graph in (networkx_of(n, listed), igraph_of(n, listed)):
        before = repr(contents(graph)) if isinstance(graph, nx.Graph) else repr(graph.to_dict_list())
        Y, other = answer(lambda graph=graph: model.fit_transform(graph))
        after = repr(contents(graph)) if isinstance(graph, nx.Graph) else repr(graph.to_dict_list())
        assert after == before
        if expected is None:
            assert Y is None
            assert other == refusal
            continue
        assert Y is not None, other
        np.testing.assert_allclose(Y, expected, atol=1e-6 * abs(expected).max())
        np.testing.assert_allclose(model.transform(graph), Y, atol=1e-9 * abs(Y).max())
        names = list(NAMES[:n]) if isinstance(graph, nx.Graph) else list(range(n))
        assert list(model.sample_names_) == names
        assert list(model.to_dict()) == names


@cases(60)
@given(edges(), st.sampled_from(BAD), st.data())
def test_an_edge_that_has_no_weight_is_named(drawn, bad, data):
    n, listed = drawn
    a, b = data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))
    listed = [*listed, (a, b, bad)]
    place = data.draw(st.integers(0, len(listed) - 1))
    listed[place], listed[-1] = listed[-1], listed[place]
    for make in (networkx_of, igraph_of):
        if bad is None and make is igraph_of:  # there it means that the edge was given no weight
            continue
        graph = make(n, listed)
        Y, refusal = answer(lambda graph=graph: hs.DiffusionMaps(1, **GIVEN).fit_transform(graph))
        assert Y is None
        assert f"has the weight {bad!r:.60}" in refusal
        ends = (NAMES[a], NAMES[b]) if make is networkx_of else (a, b)
        assert all(repr(end)[:60] in refusal for end in ends)


@pytest.mark.parametrize("power", [1, 8.5, 1e4])
def test_heavy_parallel_edges_and_loops_do_not_overflow(power):
    graph = nx.MultiGraph([(0, 1), (1, 2), (2, 0), (2, 3)])
    heavy = nx.MultiGraph()
    heavy.add_weighted_edges_from((a, b, 1.7e308) for a, b in graph.edges())
    A, B = (hs.heat_kernel(g, **GIVEN) for g in (graph, heavy))
    np.testing.assert_allclose(hs.diffusion_distances(B, power), hs.diffusion_distances(A, power), rtol=1e-9)
    heavy.add_edge(3, 3, weight=1.7e308)
    loops = hs.heat_kernel(heavy, normalization="stochastic", alpha=0.0, **GIVEN).toarray()
    np.testing.assert_allclose(loops[3], [0, 0, 0.5, 0.5])
    heavy.add_edge(0, 1, weight=1e308)
    with pytest.raises(ValueError, match=r"parallel edges have weights up to 1.7e\+308.*divide all weights"):
        hs.heat_kernel(heavy, **GIVEN)


def _faint_barbell():
    graph = nx.barbell_graph(4, 0)
    nx.set_edge_attributes(graph, 1.0, "weight")
    graph[3][4]["weight"] = 1e-12
    return graph


SHAPES = {
    "edge": nx.path_graph(2),
    "faint barbell": _faint_barbell(),
    "star": nx.star_graph(7),
    "path": nx.path_graph(9),
    "clique": nx.complete_graph(6),
    "bipartite": nx.complete_bipartite_graph(3, 4),
    "wheel": nx.wheel_graph(7),
    "lollipop": nx.lollipop_graph(4, 4),
    "isolated": nx.empty_graph(5),
    "matching": nx.from_edgelist([(0, 1), (2, 3), (4, 5)]),
    "parts": nx.disjoint_union_all([nx.path_graph(3), nx.complete_graph(4), nx.star_graph(3), nx.empty_graph(2)]),
}


@pytest.mark.parametrize("shape", SHAPES)
@cases(5)
@given(
    st.sampled_from(NORMALIZATIONS),
    st.sampled_from([0.5, 1, 8, 8.5, 1e4]),
    st.floats(1e-12, 1e12),
    st.sampled_from([0.0, 1.0]),
)
def test_shapes_have_the_distances_of_the_formulas(shape, normalization, power, weight, alpha):
    W = nx.to_numpy_array(SHAPES[shape])
    A, B = (
        hs.heat_kernel(K, normalization=normalization, alpha=alpha, **GIVEN) for K in (weight * W, sparse.csr_array(W))
    )
    S, _, w = formula(W, normalization, alpha, "auto")
    exact = formula_distances(S, w, power)
    # Eigenvalues that are zero come out as rounding, whose root counts below a power of 1.
    room = 1e-6 * exact.max() + (1e-12 if power >= 1 else 1e-6 * w.max())
    pairs = np.column_stack(np.triu_indices(len(W), 1))
    distances = hs.diffusion_distances
    for d in (distances(A, power), distances(A, power, form="spectrum"), distances(B, power, pairs)):
        np.testing.assert_allclose(squareform(d), exact, atol=room)


@cases(50)
@given(st.floats(1e-12, 1e12), st.integers(9, 11))
@example(288886857822.22217, 11)  # of LAPACK's vectors for these, two had a product of 0.24
@example(84.71830609967164, 11)
def test_parts_that_share_eigenvalues_have_orthogonal_eigenvectors(weight, k):
    A = hs.heat_kernel(weight * nx.to_numpy_array(SHAPES["parts"]), normalization="symmetric", alpha=0.0, **GIVEN)
    found = eigenpairs(A, k, solver="dense")
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-12)
    assert found.residuals.max() < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
@cases(2)
@given(st.sampled_from(NORMALIZATIONS), st.sampled_from([0.5, 1, 8, 8.5, 1e4]), st.sampled_from([1, 2]))
def test_shapes_are_optimised_or_refused(shape, normalization, power, k):
    W = nx.to_numpy_array(SHAPES[shape])
    options = {"normalization": normalization, "power": power, "random_state": 0, **GIVEN}
    model = hs.HeatSketch(k, solver_params={"n_rounds": 4}, **options)
    Y, refusal = answer(lambda: model.fit_transform(W))
    if Y is None:
        assert "nothing but the constant is left" in refusal
        assert shape == "edge" or power > 1e3
        return
    assert np.isfinite(Y).all()
    np.testing.assert_allclose(model.transform(W), Y, atol=1e-6 * abs(Y).max())


@cases(20)
@given(st.floats(-300, -1).map(lambda e: 10.0**e), st.sampled_from(NORMALIZATIONS), st.sampled_from([1, 50, 1e4, 1e8]))
def test_a_faint_bridge_keeps_two_cliques_apart(bridge, normalization, power):
    """Two cliques of m and a bridge b: heat crosses at a rate of about b / m^2 and no faster."""
    m = 5
    W = nx.to_numpy_array(nx.disjoint_union(nx.complete_graph(m), nx.complete_graph(m)))
    W[0, m] = W[m, 0] = bridge
    model, refusal = answer(lambda: hs.DiffusionMaps(1, normalization=normalization, power=power, **GIVEN).fit(W))
    if model is None:
        assert "nothing but the constant is left" in refusal
        assert power * bridge > 1e4
        return
    gap = 1.0 - model.eigenvalues_[0]
    assert -1e-9 <= gap <= 2 * bridge + 1e-8
    if power * bridge < 1e-3:
        Y = model.embedding_[:, 0]
        within = max(np.ptp(Y[:m]), np.ptp(Y[m:]))
        assert within <= 2 * bridge + 1e-6
        assert abs(Y[0] - Y[m]) > 0.5
        d = squareform(hs.diffusion_distances(model.kernel_, 1e4 if power > 1e4 else power))
        if power > 1:
            assert d[:m, :m].max() < 1e-3
            assert d[:m, m:].min() > 0.2


def test_a_long_path_has_the_embedding_of_its_closed_spectrum():
    """The lazy walk on a path has the eigenvalues (1 + cos(pi l / (n - 1))) / 2, and cosines for eigenvectors."""
    n, power = 2100, 1e4
    model = hs.GaussianProcessEmbedding(
        2, normalization="stochastic", alpha=0.0, power=power, random_state=0, **GIVEN
    ).fit(nx.path_graph(n))
    modes = np.arange(1, n)
    degrees = np.full(n, 2.0)
    degrees[[0, -1]] = 1.0
    u = np.sqrt(degrees / degrees.sum())
    V = u[:, None] * np.cos(np.pi * np.outer(np.arange(n), modes) / (n - 1))
    V /= np.linalg.norm(V, axis=0)
    M = model.sketch_.matrix(n, 2) / np.sqrt(2)
    Y = (V @ (((1 + np.cos(np.pi * modes / (n - 1))) / 2)[:, None] ** power * (V.T @ M))) / u[:, None]
    np.testing.assert_allclose(model.embedding_, Y, atol=1e-8 * abs(Y).max())
    same = igraph.Graph.Lattice([n], circular=False)
    np.testing.assert_allclose(model.fit_transform(same), Y, atol=1e-8 * abs(Y).max())
