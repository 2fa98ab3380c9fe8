"""The neighbour graph: its definition, and its extension to new points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.linalg.metrics import Metric
from heatsketch.neighbors.neighborhoods import Neighborhoods, distinct

RNG = np.random.default_rng(0)


def by_definition(X, k, epsilon, *, metric="euclidean", zero=False):
    """Keep a pair within the larger of its k-th neighbour distances; equal points count once."""
    D = cdist(X, X, metric)
    D[D < 1e-12] = 0.0  # one minus a cosine
    first = np.unique(X, axis=0, return_index=True)[1]
    apart = np.where(D > 0, D, np.inf)[:, first]
    radius = np.sort(apart, axis=1)[:, k - 1]
    kept = np.maximum(radius[:, None], radius[None, :]) * (1 + 1e-9) >= D
    return np.where(kept & ~(zero & (D == 0)), np.exp(-(D**2) / epsilon), 0.0)


DATA = {
    "cloud": RNG.normal(size=(150, 3)),
    "grid": np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2),
    "one-hot": np.eye(60),
    "duplicates": np.vstack([RNG.normal(size=(80, 3)), np.repeat(RNG.normal(size=(4, 3)), 20, axis=0)]),
    "two parts": np.vstack([RNG.normal(size=(70, 3)), 100 + RNG.normal(size=(70, 3))]),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("kind", "diagonal"), [("blocks", "auto"), ("others", "auto"), ("others", "zero")])
def test_graph_agrees_with_its_definition(name, diagonal, kind, monkeypatch):
    X = DATA[name]
    if kind == "others":  # tree or clusters, the searches of large data
        monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    A = hs.heat_kernel(X, bandwidth=3.0, n_neighbors=7, diagonal=diagonal, normalization="symmetric")
    K = A.affinity.operator.toarray()
    expected = by_definition(X, 7, 3.0, zero=diagonal == "zero")
    np.testing.assert_allclose(K, expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "precomputed"])
def test_metrics_other_than_euclidean(metric):
    X = RNG.normal(size=(120, 4))
    given = cdist(X, X) if metric == "precomputed" else X
    A = hs.heat_kernel(given, bandwidth=1.0, n_neighbors=6, metric=metric, normalization="symmetric")
    name = {"manhattan": "cityblock", "precomputed": "euclidean"}.get(metric, metric)
    np.testing.assert_allclose(A.affinity.operator.toarray(), by_definition(X, 6, 1.0, metric=name), atol=1e-7)


def test_squared_euclidean_metric_gives_the_same_kernel(monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    for d in (3, 9):
        X = RNG.normal(size=(150, d))
        there, here = (hs.heat_kernel(X, n_neighbors=6, metric=name) for name in ("sqeuclidean", "euclidean"))
        np.testing.assert_array_equal(there.toarray(), here.toarray())


def test_sparse_points():
    X = RNG.normal(size=(120, 9)) * (RNG.random((120, 9)) < 0.4)
    X[::7] = X[0]
    options = {"bandwidth": 2.0, "n_neighbors": 6, "normalization": "symmetric"}
    dense, given = hs.heat_kernel(X, **options), hs.heat_kernel(sparse.csr_array(X), **options)
    np.testing.assert_allclose(given.toarray(), dense.toarray(), atol=1e-12)


def test_duplicate_rows():
    X = RNG.normal(size=(50, 3))
    assert distinct(X) is None
    assert distinct(sparse.csr_array(X)) is None
    X[[3, 10, 40]] = X[7]
    X[20] = X[21]
    first, places = distinct(X)
    np.testing.assert_array_equal(X[first][places], X)
    assert len(first) == 46
    first, places = distinct(sparse.csr_array(X))
    np.testing.assert_array_equal(X[first][places], X)
    assert distinct(np.array([[0.0], [-0.0], [1.0]])) is not None


@pytest.mark.parametrize(("d", "dtype"), [(1, np.float64), (50, np.float32)])
def test_duplicate_rows_of_large_data(d, dtype):
    X = (RNG.normal(size=(700, d)) + 1e6).astype(dtype)
    X = np.asarray(X[RNG.integers(700, size=2000)], order="F")
    found = distinct(X)
    assert len(found[0]) == len(np.unique(X, axis=0))
    np.testing.assert_array_equal(X[found[0]][found[1]], X)


def test_hash_collisions_of_rows(monkeypatch):
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])
    monkeypatch.setattr("heatsketch.neighbors.neighborhoods.row_keys", lambda X: np.zeros(X.shape[0], dtype=np.uint64))
    for rows in (X, sparse.csr_array(X)):
        first, places = distinct(rows)
        np.testing.assert_array_equal(X[first][places], X)
        assert len(first) == 2


def test_scales_and_graph_do_not_depend_on_their_order():
    X = RNG.normal(size=(150, 3))
    scales_first, graph_first = (Neighborhoods.search(X, 7, Metric(), at_least=12)[1] for _ in range(2))
    scales, graph = graph_first.scales(12), scales_first.graph()
    np.testing.assert_array_equal(scales_first.scales(12), scales)
    for part, same in zip(graph_first.graph(), graph, strict=True):
        np.testing.assert_array_equal(part, same)


class TestDegenerateDistances:
    @pytest.mark.parametrize("options", [{}, {"bandwidth": 1.0}, {"bandwidth": "self-tuning"}], ids=str)
    def test_all_points_equal(self, options):
        with pytest.raises(ValueError, match="are zero"):
            hs.GaussianProcessEmbedding(2, n_neighbors=5, **options).fit(np.ones((50, 3)))

    def test_squares_that_underflow(self):
        with pytest.raises(ValueError, match="underflow"):
            hs.GaussianProcessEmbedding(2, n_neighbors=5).fit(1e-200 * RNG.normal(size=(50, 3)))

    def test_zero_cosine_distances_between_different_points(self):
        X = (RNG.normal(size=(60, 4))[:, None, :] * np.arange(1, 31)[None, :, None]).reshape(-1, 4)
        Y = hs.GaussianProcessEmbedding(2, n_neighbors=5, metric="cosine", random_state=0).fit_transform(X)
        assert np.isfinite(Y).all()

    def test_too_many_zero_distances(self):
        D = np.zeros((2100, 2100))  # more than are compared with all others
        D[:100], D[:, :100] = 1.0, 1.0
        np.fill_diagonal(D, 0.0)
        with pytest.raises(ValueError, match="coincide"):
            hs.heat_kernel(D, n_neighbors=5, metric="precomputed", bandwidth="neighbor")
        A = hs.heat_kernel(D, n_neighbors=5, metric="precomputed")
        np.testing.assert_allclose(A.bandwidth, 1.0)
        np.testing.assert_allclose(A.rows_at_new_points(D[95:105]).sum(axis=1), 1.0, atol=1e-7)


def test_new_rows_of_precomputed_distances():
    X = RNG.normal(size=(2300, 3))
    D = cdist(X, X)
    model = hs.GaussianProcessEmbedding(2, n_neighbors=8, metric="precomputed", random_state=0).fit(D)
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(D[:20]), model.embedding_[:20], atol=1e-8 * scale)


def test_duplicates_share_a_vertex():
    X = np.vstack([RNG.normal(size=(300, 3)), np.zeros((3000, 3))])
    model = hs.GaussianProcessEmbedding(3, n_neighbors=10, random_state=0).fit(X)
    held = model.kernel_.affinity._vertices.held
    assert held.shape == (301, 301)
    assert np.ptp(model.embedding_[300:], axis=0).max() == 0
    sums = model.kernel_ @ np.ones(3300)
    np.testing.assert_allclose(sums, 1, atol=1e-7)


def tree_like(n, seed=0):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(6, 15))
    branch, t = rng.integers(6, size=n), rng.uniform(size=n)
    return t[:, None] * directions[branch] + 0.15 * rng.normal(size=(n, 15))


@pytest.mark.parametrize("make", [tree_like, lambda n: RNG.normal(size=(n, 3))], ids=["clusters", "tree"])
@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({}, np.float32),
        ({"bandwidth": "self-tuning"}, np.float64),
        ({"kernel_params": {"diagonal": "zero"}, "normalization": "symmetric"}, np.float64),
    ],
    ids=str,
)
def test_transform_of_training_points_is_their_embedding(make, options, dtype):
    X = make(5000).astype(dtype)
    X[-20:] = X[:20]
    model = hs.GaussianProcessEmbedding(4, random_state=0, n_neighbors=15, **options).fit(X)
    assert model.kernel_.affinity.neighborhoods.index.method in ("clusters", "tree")
    some = np.r_[0:300, 4970:5000]
    scale = np.abs(model.embedding_).max()
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(model.transform(X[some]), model.embedding_[some], atol=tolerance * scale)


@pytest.mark.parametrize("make", [tree_like, lambda n, seed=0: np.random.default_rng(seed).normal(size=(n, 3))])
def test_transform_agrees_with_comparing_all_vertices(make, monkeypatch):
    X, new = make(5000), make(300, seed=1)
    model = hs.GaussianProcessEmbedding(4, random_state=0, n_neighbors=15).fit(X)
    fast = model.transform(new)
    monkeypatch.setattr("heatsketch.neighbors.neighborhoods._SMALL", 10_000)  # compare all vertices
    exact = model.transform(new)
    scale = np.linalg.norm(exact - exact.mean(axis=0), axis=1).mean()
    assert np.linalg.norm(fast - exact, axis=1).mean() < 0.01 * scale


def grid(n, seed=0):
    """Points whose distances are often equal."""
    return np.round(2.0 * np.random.default_rng(seed).normal(size=(n, 6)))


@pytest.mark.parametrize("make", [tree_like, grid])
def test_batches_do_not_matter(make, monkeypatch):
    X, new = make(8000), make(900, seed=1)
    model = hs.GaussianProcessEmbedding(3, random_state=0, n_neighbors=15).fit(X)
    whole = model.transform(new)
    scale = np.abs(whole).max()
    single = np.vstack([model.transform(new[i : i + 1]) for i in range(100)])
    np.testing.assert_allclose(single, whole[:100], atol=1e-9 * scale)
    monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", 8 * 31 * 10)
    np.testing.assert_allclose(model.transform(new), whole, atol=1e-9 * scale)


def test_radius_of_an_outlier_reaches_new_points():
    X = np.vstack([RNG.normal(size=(5000, 3)), [[60.0, 0, 0]]])
    hoods, _ = Neighborhoods.search(X, 10, Metric())
    outlier = int(np.flatnonzero(hoods.index.order == 5000)[0])
    reach = np.sqrt(hoods.radii[outlier])
    rows = hoods.rows(np.array([[60.0 - 0.99 * reach, 0, 0]]))
    assert outlier in rows.columns


class TestBalancing:
    """Bistochastic scaling of disconnected graphs."""

    @pytest.mark.parametrize("name", ["two parts", "duplicates", "one-hot", "grid"])
    def test_row_sums(self, name):
        X = DATA[name]
        A = hs.heat_kernel(X, n_neighbors=5)
        np.testing.assert_allclose(A @ np.ones(len(X)), 1, atol=1e-7)

    @pytest.mark.parametrize("bridge", [1e-3, 1e-15])
    def test_weak_bridges(self, bridge):
        rng = np.random.default_rng(2)
        W = np.zeros((80, 80))
        for part in (slice(0, 40), slice(40, 80)):
            B = rng.random((40, 40)) * (rng.random((40, 40)) < 0.2)
            W[part, part] = B + B.T
        W[39, 40] = W[40, 39] = bridge
        A = hs.heat_kernel(sparse.csr_array(W), affinity="precomputed")
        np.testing.assert_allclose(A @ np.ones(80), 1, atol=1e-7)

    def test_star_without_loops_warns(self):
        W = np.zeros((6, 6))
        W[0, 1:] = W[1:, 0] = 1.0
        with pytest.warns(ConvergenceWarning, match="scaling"):
            hs.heat_kernel(sparse.csr_array(W), affinity="precomputed", diagonal="zero")
