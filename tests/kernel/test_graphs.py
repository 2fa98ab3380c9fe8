"""Graphs and precomputed affinities."""

from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel

import heatsketch as hs
from heatsketch.kernel.graphs import adjacency, check_affinity, precomputed_kind

GRAPHS = {
    "cycle": nx.cycle_graph(12),
    "star": nx.star_graph(9),
    "bipartite": nx.complete_bipartite_graph(3, 5),
    "karate": nx.karate_club_graph(),
    "with self-loops": nx.Graph([(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)]),
    "two components": nx.disjoint_union(nx.cycle_graph(6), nx.path_graph(7)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_transform_of_a_graph_is_its_embedding(name):
    graph = GRAPHS[name]
    model = hs.GaussianProcessEmbedding(3, affinity="precomputed", power=4, random_state=0).fit(graph)
    assert np.isfinite(model.embedding_).all()
    assert model.scaling_residual_ <= 1e-8
    W = nx.to_numpy_array(graph)
    for rows in (graph, W, sparse.csr_array(W), W.astype(np.float32)):
        np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-12)
    # Equal rows are indistinguishable: they are mapped to the mean of their vertices.
    same = (W[:, None] == W[None]).all(axis=2)
    expected = (same / same.sum(axis=1, keepdims=True)) @ model.embedding_
    for rows in (W, sparse.csr_array(W), W.astype(np.float32)):
        np.testing.assert_allclose(model.transform(rows[:-1]), expected[:-1], atol=1e-7)


def test_transform_of_a_graph_with_new_nodes():
    model = hs.DiffusionMaps(2, affinity="precomputed").fit(GRAPHS["karate"])
    with pytest.raises(ValueError, match=r"35 nodes .* 34 nodes"):
        model.transform(nx.star_graph(34))


def test_lazy_walk_on_a_cycle_has_the_closed_form():
    n = 12
    maps = hs.DiffusionMaps(n - 1, affinity="precomputed").fit(GRAPHS["cycle"])
    expected = np.sort(0.5 + 0.5 * np.cos(2 * np.pi * np.arange(1, n) / n))[::-1]  # (1 + P) / 2
    np.testing.assert_allclose(maps.eigenvalues_, expected, atol=1e-9)


def test_bipartite_graphs_do_not_oscillate():
    A = hs.heat_kernel(GRAPHS["bipartite"], affinity="precomputed")
    assert np.linalg.eigvalsh(A.toarray()).min() > -1e-9


def test_diagonal_keep_does_not_change_the_matrix():
    W = nx.to_numpy_array(GRAPHS["cycle"])
    A = hs.heat_kernel(W, affinity="precomputed", diagonal="keep", normalization="stochastic", alpha=0.0)
    np.testing.assert_allclose(A.toarray(), W / 2)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_diagonal_zero_on_a_matrix_with_a_diagonal(convert):
    W = rbf_kernel(np.random.default_rng(0).normal(size=(40, 2)))
    model = hs.GaussianProcessEmbedding(
        3, affinity="precomputed", kernel_params={"diagonal": "zero"}, random_state=0
    ).fit(convert(W))
    assert np.abs(np.diagonal(model.kernel_.toarray())).max() == 0
    np.testing.assert_allclose(model.transform(convert(W)), model.embedding_, atol=1e-12)


def test_isolated_vertices_keep_their_heat():
    graph = nx.cycle_graph(8)
    graph.add_nodes_from(["a", "b"])
    model = hs.GaussianProcessEmbedding(64, affinity="precomputed", power=50, random_state=0).fit(graph)
    A = model.kernel_.toarray()
    np.testing.assert_allclose(A[8:, 8:], np.eye(2), atol=1e-8)
    d = hs.diffusion_distances(model.kernel_, 50, [[8, 9], [0, 8], [0, 4]])
    assert d[0] == pytest.approx(np.sqrt(2))  # two components of one vertex: all heat stays apart
    assert d[1] > 1
    assert d[2] < 0.05
    np.testing.assert_allclose(model.transform(graph), model.embedding_)
    with pytest.raises(ValueError, match="row 1 of X"):
        model.transform(nx.to_numpy_array(graph)[7:9])


def test_adjacency_of_weights_parallel_edges_and_loops():
    graph = nx.MultiGraph()
    graph.add_weighted_edges_from([(0, 1, 2.0), (0, 1, 0.5), (1, 2, 1.0), (2, 2, 3.0)])
    np.testing.assert_allclose(adjacency(graph).toarray(), [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 3]])
    same = igraph.Graph(n=3, edges=[(0, 1), (1, 0), (1, 2), (2, 2)])
    same.es["weight"] = [2.0, 0.5, 1.0, 3.0]
    np.testing.assert_allclose(adjacency(same).toarray(), [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 3]])
    unweighted = igraph.Graph(n=3, edges=[(0, 1), (1, 2)])
    np.testing.assert_allclose(adjacency(unweighted).toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_networkx_igraph_and_matrices_agree():
    graph = GRAPHS["karate"]
    model = hs.GaussianProcessEmbedding(3, affinity="precomputed", random_state=0)
    Y = model.fit_transform(graph)
    np.testing.assert_allclose(model.fit_transform(igraph.Graph.from_networkx(graph)), Y)
    np.testing.assert_allclose(model.fit_transform(nx.to_numpy_array(graph)), Y, atol=1e-12)
    for form in (sparse.csr_matrix, sparse.coo_array):
        np.testing.assert_allclose(model.fit_transform(form(nx.to_numpy_array(graph))), Y, atol=1e-12)


@pytest.mark.parametrize("kind", [hs.HeatSketch, hs.GaussianProcessEmbedding])
def test_dense_matrix_of_a_sparse_graph_is_embedded_as_the_graph(kind):
    graph = nx.les_miserables_graph()
    model = kind(2, affinity="precomputed", random_state=0)
    Y = model.fit_transform(graph)
    W = nx.to_numpy_array(graph)
    np.testing.assert_array_equal(model.fit_transform(W), Y)
    assert sparse.issparse(model.kernel_.affinity.given)
    np.testing.assert_allclose(model.transform(W), Y, atol=1e-6)
    full = rbf_kernel(np.random.default_rng(0).normal(size=(30, 2)))
    assert not sparse.issparse(model.fit(full).kernel_.affinity.given)


def _weighted(library, weight):
    if library == "networkx":
        graph = nx.path_graph(["a", "b", "c"])
        graph["b"]["c"]["weight"] = weight
        return graph
    graph = igraph.Graph(n=3, edges=[(0, 1), (1, 2)])
    graph.vs["name"], graph.es["weight"] = ["a", "b", "c"], [1.0, weight]
    return graph


@pytest.mark.parametrize("library", ["networkx", "igraph"])
@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_weight_that_is_not_finite_is_located(library, weight):
    with pytest.raises(ValueError, match=f"from 'b' to 'c' has the weight {weight}.*remove the edge"):
        hs.DiffusionMaps(1, affinity="precomputed").fit(_weighted(library, weight))


@pytest.mark.parametrize("library", ["networkx", "igraph"])
def test_weight_beyond_float64(library):
    with pytest.raises(ValueError, match="integer beyond 1e308"):
        hs.DiffusionMaps(1, affinity="precomputed").fit(_weighted(library, 10**400))


@pytest.mark.parametrize(
    ("graph", "remedy"),
    [(nx.DiGraph([(0, 1)]), "to_undirected"), (igraph.Graph(n=2, edges=[(0, 1)], directed=True), "as_undirected")],
)
def test_directed_graph_raises(graph, remedy):
    with pytest.raises(ValueError, match=remedy):
        hs.DiffusionMaps(1, affinity="precomputed").fit(graph)


def test_graph_without_affinity_precomputed_raises():
    with pytest.raises(ValueError, match="precomputed"):
        hs.heat_kernel(GRAPHS["cycle"])


def test_precomputed_gaussian_equals_gaussian():
    X = hs.datasets.stretched_torus(150, random_state=0)
    W = rbf_kernel(X, gamma=1.0)
    options = {"n_components": 4, "random_state": 0}
    direct = hs.GaussianProcessEmbedding(bandwidth=1.0, **options).fit(X)
    given = hs.GaussianProcessEmbedding(affinity="precomputed", **options).fit(W)
    np.testing.assert_allclose(given.embedding_, direct.embedding_, atol=1e-9)
    new = hs.datasets.stretched_torus(20, random_state=1)
    np.testing.assert_allclose(given.transform(rbf_kernel(new, X, gamma=1.0)), direct.transform(new), atol=1e-9)


class TestChecks:
    @pytest.mark.parametrize(
        ("W", "word"),
        [
            (np.ones((2, 3)), "square"),
            (np.array([[1.0, -1.0], [-1.0, 1.0]]), "Negative"),
            (sparse.csr_array([[1.0, np.inf], [np.inf, 1.0]]), "infinity"),
            (np.triu(np.ones((3, 3))), "not symmetric"),
            (sparse.csr_array(np.triu(np.ones((3, 3)))), "not symmetric"),
            # A small entry beside a large one.
            (np.array([[1, 2e8, 1], [2e8, 1, 2], [1, 0, 1]]), "not symmetric"),
        ],
    )
    def test_invalid_affinity(self, W, word):
        with pytest.raises(ValueError, match=word):
            hs.heat_kernel(W, affinity="precomputed")

    def test_asymmetry_by_rounding_is_removed(self):
        W = rbf_kernel(np.random.default_rng(0).normal(size=(30, 2)))
        np.fill_diagonal(W, 0)
        rough = W * (1 + 1e-12 * np.random.default_rng(1).normal(size=W.shape))
        checked = check_affinity(rough)
        np.testing.assert_array_equal(checked, checked.T)
        model = hs.GaussianProcessEmbedding(3, affinity="precomputed", random_state=0).fit(rough)
        np.testing.assert_allclose(model.transform(rough), model.embedding_, atol=1e-9)

    def test_new_rows(self):
        W = rbf_kernel(np.random.default_rng(0).normal(size=(30, 2)))
        model = hs.GaussianProcessEmbedding(3, affinity="precomputed", random_state=0).fit(W)
        np.testing.assert_allclose(model.transform(W[:4] * 1e-300), model.embedding_[:4], atol=1e-9)
        with pytest.raises(ValueError, match="negative"):
            model.transform(-W[:1])

    @pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-12), (np.float32, 2e-7)])
    def test_diagonal_of_distances_is_zero_up_to_rounding(self, dtype, rounding):
        D = pairwise_distances(np.random.default_rng(0).normal(size=(30, 3))).astype(dtype)
        D[np.diag_indices(30)] = rounding
        model = hs.GaussianProcessEmbedding(
            2, metric="precomputed", kernel_params={"diagonal": "zero"}, random_state=0
        ).fit(D)
        assert np.abs(np.diagonal(model.kernel_.toarray())).max() == 0
        np.testing.assert_allclose(model.transform(D), model.embedding_, atol=1e-5)

    def test_invalid_distances(self):
        with pytest.raises(ValueError, match="diagonal"):
            hs.DiffusionMaps(1, metric="precomputed").fit(np.ones((4, 4)))
        with pytest.raises(ValueError, match="sparse"):
            hs.heat_kernel(sparse.eye_array(4, format="csr"), metric="precomputed")


class TestMatricesAsPoints:
    POINTS = np.random.default_rng(0).normal(size=(40, 3))

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_distances(self, dtype):
        D = pairwise_distances(self.POINTS).astype(dtype)
        with pytest.warns(UserWarning, match="distances.*metric='precomputed'") as said:
            hs.DiffusionMaps(1).fit(D)
        assert said[0].filename == __file__
        with pytest.warns(UserWarning, match="metric='precomputed'"):
            hs.heat_kernel(1 - np.corrcoef(self.POINTS))  # with a diagonal of rounding errors

    @pytest.mark.parametrize("convert", [nx.to_numpy_array, nx.to_scipy_sparse_array])
    def test_adjacency(self, convert):
        with pytest.warns(UserWarning, match="graph.*affinity='precomputed'"):
            hs.DiffusionMaps(1, n_neighbors=5).fit(convert(GRAPHS["karate"]))

    def test_affinities(self):
        assert precomputed_kind(rbf_kernel(self.POINTS)) == "affinities"

    def test_what_is_given_as_precomputed(self):  # warnings are errors
        hs.DiffusionMaps(1, metric="precomputed").fit(pairwise_distances(self.POINTS))
        model = hs.DiffusionMaps(1, affinity="precomputed").fit(nx.to_numpy_array(GRAPHS["karate"]))
        np.testing.assert_allclose(model.transform(nx.to_numpy_array(GRAPHS["karate"])), model.embedding_, atol=1e-9)

    @pytest.mark.parametrize(
        "X",
        [
            POINTS,
            POINTS @ POINTS.T,
            np.triu(pairwise_distances(POINTS)),
            pairwise_distances(POINTS[:9]),
            np.zeros((20, 20)),
            np.eye(20),
        ],
        ids=["points", "products", "asymmetric", "few", "zeros", "one-hot"],
    )
    def test_other_points(self, X):
        assert precomputed_kind(X) is None


@pytest.mark.parametrize("option", ["affinity", "metric"])
def test_missing_values_of_a_precomputed_matrix(option):
    W = np.ones((12, 12))
    W[2, 3] = np.nan
    with pytest.raises(ValueError, match="Correct these affinities or distances"):
        hs.DiffusionMaps(1, **{option: "precomputed"}).fit(W)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, 1e-20), (np.float32, 1e20), (np.float64, 1e-100), (np.float64, 1e100)],
)
def test_unit_of_an_affinity_does_not_matter(dtype, scale):
    A = np.random.default_rng(0).random((49, 49))
    W = (A + A.T).astype(dtype)
    model = hs.GaussianProcessEmbedding(
        3, affinity="precomputed", power=35, kernel_params={"diagonal": "zero"}, random_state=0
    )
    Y = model.fit_transform(W)
    scaled = model.fit_transform((W.astype(np.float64) * scale).astype(dtype))
    np.testing.assert_allclose(scaled, Y, atol=(1e-9 if dtype == np.float64 else 1e-3) * np.abs(Y).max())
