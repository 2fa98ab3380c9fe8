"""Nearest neighbours: every index against all distances, and the reported recall against the true one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from heatsketch.compiled.search import offer_codes
from heatsketch.linalg.metrics import Metric
from heatsketch.linalg.sketch import sample
from heatsketch.neighbors import clusters
from heatsketch.neighbors.clusters import ClusterIndex
from heatsketch.neighbors.search import (
    BlockedIndex,
    TreeIndex,
    index_kind,
    make_index,
    nearest_neighbors,
    neighbors_of,
)

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(3000, 12))
LOW = RNG.normal(size=(3000, 3))


def tree_like(n, d=20, seed=0):
    """Branches with noise in all directions."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(6, d))
    branch, t = rng.integers(6, size=n), rng.uniform(size=n)
    return t[:, None] * directions[branch] + 0.15 * rng.normal(size=(n, d))


def brute_force(X, k, metric="euclidean"):
    """Numbers and squared distances."""
    D = cdist(X, X, metric)
    np.fill_diagonal(D, np.inf)
    nearest = np.argsort(D, axis=1, kind="stable")[:, :k]
    return nearest, np.take_along_axis(D, nearest, axis=1) ** 2


def true_recall(index, squared, X):
    """Share of the neighbours found, by their squared distances, that are as near as the true ones."""
    k, X = squared.shape[1], X.astype(np.float64)
    limit = np.partition(cdist(X, X), k, axis=1)[index.order, k, None]
    return (np.sqrt(squared) <= limit * (1 + 1e-6)).mean()


@pytest.mark.parametrize(
    ("index", "X", "metric"),
    [
        (TreeIndex, LOW, "euclidean"),
        (lambda X: TreeIndex(X, 1.0), LOW, "cityblock"),
        (lambda X: TreeIndex(X, np.inf), LOW, "chebyshev"),
        (lambda X: BlockedIndex(X, Metric()), CLOUD, "euclidean"),
        (lambda X: BlockedIndex(X, Metric("cosine")), CLOUD, "cosine"),
    ],
)
@pytest.mark.parametrize("k", [1, 7])
def test_exact_searches_agree_with_brute_force(index, X, metric, k):
    found = index(X)
    ids, squared = found.neighbors(k)
    nearest, expected = brute_force(X, k, metric)
    np.testing.assert_array_equal(found.order[ids], nearest[found.order])
    np.testing.assert_allclose(squared, expected[found.order], rtol=1e-9)
    assert found.recall == 1.0


HARD_FOR_TREES = {
    "one dimension": RNG.normal(size=(2000, 1)),
    "six dimensions": RNG.normal(size=(2001, 6)),
    "single precision, far from the origin": (RNG.normal(size=(3000, 3)) + 1e5).astype(np.float32),
    "grid with duplicates": RNG.integers(0, 9, size=(2500, 3)).astype(float),
    "few distinct points": np.repeat(RNG.normal(size=(4, 2)), 700, axis=0),
    "one point": np.zeros((900, 2)),
    "outliers": np.vstack([RNG.normal(size=(3000, 2)), 1e6 * RNG.normal(size=(9, 2))]),
    "huge coordinates": 1e150 * RNG.normal(size=(1000, 3)),
    "fewer than a leaf": RNG.normal(size=(12, 2)),
}


@pytest.mark.parametrize("name", HARD_FOR_TREES)
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_tree_agrees_with_scipy_on_hard_data(name, p):
    X = HARD_FOR_TREES[name]
    index = TreeIndex(X, p)
    points = X[index.order].astype(np.float64)
    k = min(30, len(X) - 1)
    outside = np.vstack([points[:60], 3.0 * points[:60], points.mean(axis=0, keepdims=True)])
    for Q, (ids, squared), wanted in (
        (points, index.neighbors(k), cKDTree(points).query(points, k + 1, p=p)[0][:, 1:]),
        (outside, index.query(outside, k), cKDTree(points).query(outside, k, p=p)[0]),
    ):
        np.testing.assert_allclose(np.sqrt(squared), wanted, rtol=1e-12)
        there = np.abs(Q[:, None] - points[ids])
        distances = {1.0: there.sum(axis=2), 2.0: np.linalg.norm(there, axis=2), np.inf: there.max(axis=2)}[p]
        np.testing.assert_allclose(distances, wanted, rtol=1e-12)
        assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()
    assert (index.neighbors(k)[0] != np.arange(len(X))[:, None]).all()


def test_tree_breaks_ties_by_number():
    index = TreeIndex(HARD_FOR_TREES["grid with duplicates"])
    ids, squared = index.neighbors(10)
    nearest, expected = brute_force(index.points, 10)
    np.testing.assert_array_equal(ids, nearest)
    np.testing.assert_allclose(squared, expected, rtol=1e-12)


def test_tree_is_pickled():
    index = TreeIndex(LOW)
    again = pickle.loads(pickle.dumps(index))
    for a, b in zip(again.query(LOW[:9], 4), index.query(LOW[:9], 4), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [lambda: TreeIndex(LOW), lambda: ClusterIndex(tree_like(4000).astype(np.float32))])
def test_results_do_not_depend_on_threads(make, monkeypatch):
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda threads=threads: int(threads))
        index = make()
        found.append((index.order, *index.neighbors(10)))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("n", "dtype"), [(600, np.float64), (5000, np.float32)])
def test_clusters_find_nearly_all_and_report_the_recall(n, dtype):
    X = tree_like(n).astype(dtype)
    index = ClusterIndex(X)
    ids, squared = index.neighbors(15)
    recall = true_recall(index, squared, X)
    assert recall > 0.99
    assert index.recall == pytest.approx(recall, abs=0.01)  # five standard errors of 160 points
    P = index.points.astype(np.float64)
    np.testing.assert_allclose(squared, np.square(P[:, None] - P[ids]).sum(axis=2), rtol=1e-12)
    assert (np.diff(squared, axis=1) >= 0).all()
    assert (ids != np.arange(n)[:, None]).all()
    assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("data", ["branches", "far from the origin", "heavy tails", "wide"])
def test_bytes_lose_hardly_any_neighbours(data, monkeypatch):
    """They are used for the first three, whatever the processor; heavy tails need more digits than they have."""
    rng = np.random.default_rng(1)
    X = {
        "branches": tree_like(5000).astype(np.float32),
        "far from the origin": tree_like(5000) + 1e6,
        "heavy tails": rng.standard_t(2, size=(5000, 12)),
        "wide": rng.normal(size=(5000, 70)),
    }[data]
    recalls, rounded = [], []
    for fast in (False, True):
        monkeypatch.setattr(clusters, "BYTE_PRODUCTS", fast)
        index = ClusterIndex(X)
        ids, squared = index.neighbors(15)
        rounded.append(index._in_bytes)
        recalls.append(true_recall(index, squared, X))
        np.testing.assert_allclose(squared, np.square(index.points[:, None] - index.points[ids]).sum(axis=2), rtol=1e-5)
        assert (ids != np.arange(len(X))[:, None]).all()
    assert rounded == [False, data != "heavy tails"]
    assert recalls[1] > recalls[0] - 0.002


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_products_of_codes_are_exact(kind):
    """Points whose coordinates are bytes: all distances are exact, of two clusters and within one."""
    rng = np.random.default_rng(0)
    m, n, d, k = 37, 53, 10, 6
    X = rng.integers(-127, 128, size=(m + n, d))
    parts, width = (X[:m], X[m:]), 12 if kind == np.int8 else d
    blocks = [np.zeros((64, width), kind) for _ in parts]
    for block, part in zip(blocks, parts, strict=True):
        block[: len(part), :d] = part
    words = np.concatenate(blocks).view(np.int32 if kind == np.int8 else np.float32)
    codes = words.reshape(8, 16, -1).transpose(0, 2, 1).copy()
    norms = np.full((2, 64), np.nan, np.float32)
    norms[0, :m], norms[1, :n] = np.square(X[:m]).sum(axis=1), np.square(X[m:]).sum(axis=1)
    found = clusters.Candidates(m + n, k)
    state = found.worst, found.count, found.squared, found.ids
    ends = 0, m, m + n
    held = [codes[:3], codes[4:]]  # the blocks that have points
    for a, b in ((0, 0), (1, 1), (0, 1)):
        terms = (norms[c].reshape(-1, 16)[: len(held[c])] for c in (a, b))
        offer_codes(held[a], held[b], *terms, 2.0, *ends[a : a + 2], *ends[b : b + 2], a == b, k, *state)
    found.cut()
    D = cdist(X, X) ** 2
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(np.sort(found.squared[:, :k], axis=1), np.sort(D, axis=1)[:, :k], rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(D, found.nearest, axis=1), found.squared[:, :k], rtol=1e-6)


def test_clusters_of_two_levels(monkeypatch):
    X = tree_like(5000)
    X[0] += 1e6  # an outlier stays alone
    frame, labels = clusters.Frame.of(X), []
    for one_level in (2, 1000):
        monkeypatch.setattr(clusters, "_ONE_LEVEL", one_level)
        labels.append(frame.nearest(X, clusters.kmeans(X, 40, frame)))
    for some in labels:
        assert (some == some[0]).sum() == 1
        assert 35 <= len(np.unique(some)) <= 45
    # Points differ from the centres of their clusters as little as in one level.
    spread = [sum(np.square(X[y == a] - X[y == a].mean(axis=0)).sum() for a in np.unique(y)) for y in labels]
    assert spread[0] < 1.1 * spread[1]


def test_clusters_widen_their_reach_after_an_easy_sample(monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.clusters._COVERED", 0.3)
    monkeypatch.setattr("heatsketch.neighbors.clusters._RECALL", 0.99)
    X = tree_like(5000)
    index = ClusterIndex(X)
    _, squared = index.neighbors(10)
    assert index.recall >= 0.99
    assert true_recall(index, squared, X) > 0.98


def test_small_distant_group_finds_neighbours_elsewhere():
    X = tree_like(3000)
    X[:4] += 1e4
    index = ClusterIndex(X)
    _, squared = index.neighbors(12)
    group = np.flatnonzero(index.order < 4)
    np.testing.assert_allclose(squared[group], brute_force(X, 12)[1][index.order][group], rtol=1e-9)


def new_points(X, n=2000):
    """New points as the data, training points, points between two of them, and points far away."""
    rng = np.random.default_rng(3)
    some, others = X[rng.integers(len(X), size=(2, n // 4))]
    return np.vstack([X[-n // 2 :], some, (some + others) / 2.0, 50.0 + some[:3]])


@pytest.mark.parametrize(
    "X",
    [*(RNG.normal(size=shape) for shape in ((4300, 6), (6000, 30))), tree_like(6000)],
    ids=["6 columns", "30 columns", "branches"],
)
def test_queries_find_all_their_neighbours(X):
    index, Q = ClusterIndex(X), np.vstack([new_points(X), X[:500]])
    expected = NearestNeighbors(n_neighbors=100).fit(X).kneighbors(Q)[0] ** 2
    for k in (1, 15, 100):
        ids, squared = index.query(Q, k)
        np.testing.assert_allclose(squared, expected[:, :k], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(squared[:, -1], np.square(Q - index.points[ids[:, -1]]).sum(axis=1), rtol=1e-9)
        np.testing.assert_array_equal(index.order[ids[-500:, 0]], np.arange(500))  # training points find themselves
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(index)).query(Q, 100)[0], ids)


def test_queries_nearer_to_outliers_than_to_clusters():
    """The bound by the centres holds for clusters of nearest centres only, of which the outliers are none."""
    n, rng = 6000, np.random.default_rng(0)
    along = np.eye(6)[0]
    X, Q = rng.normal(size=(n, 6)), 17_400 * along + rng.normal(size=(200, 6))
    # Points that do not shape the clusters: three that lie far out, but belong to one, and ten outliers.
    unseen = np.setdiff1d(np.arange(n), sample(n, clusters._SAMPLE_PER_CLUSTER * (n // clusters._POINTS_PER_CLUSTER)))
    X[unseen[:3]] = np.array([[14_200], [14_201], [14_202]]) * along
    X[unseen[3:13]] = 22_000 * along + 80 * rng.normal(size=(10, 6))
    expected = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(Q)[0] ** 2
    np.testing.assert_allclose(ClusterIndex(X).query(Q, 5)[1], expected, rtol=1e-9)


def test_queries_skip_distant_clusters(monkeypatch):
    X = np.repeat(100.0 * RNG.normal(size=(20, 12)), 500, axis=0) + RNG.normal(size=(10_000, 12))
    index, searched, tiles = ClusterIndex(X), [], clusters.LocalPoints.tiles
    found = lambda *args: (searched.append(tile) or tile for tile in tiles(*args))  # noqa: E731
    monkeypatch.setattr(clusters.LocalPoints, "tiles", found)
    index.query(X + 0.1, 10)
    assert sum(tile.products.size for tile in searched) < 0.3 * len(X) ** 2


@pytest.mark.parametrize("X", [LOW, CLOUD, tree_like(5000)], ids=["tree", "blocks", "clusters"])
def test_neighbours_of_some_points(X):
    rows = np.arange(3, 3000, 100)
    np.testing.assert_array_equal(neighbors_of(rows, X, 7), nearest_neighbors(X, 7).indices[rows])


def test_choice_of_the_search():
    plane, space = (100_000, 2), (100_000, 50)
    assert index_kind(plane, Metric(), False) == "tree"
    assert index_kind(plane, Metric("manhattan"), False) == "tree"
    assert index_kind(space, Metric(), False) == "clusters"
    assert index_kind(space, Metric("sqeuclidean"), False) == "clusters"
    assert index_kind((100_000, 6), Metric("chebyshev"), False) == "tree"
    for shape, metric, sparse_points in (
        (space, Metric("cosine"), False),
        (space, Metric("minkowski", {"p": 3}), False),
        (space, Metric(), True),
        ((100_000, 100_000), Metric("precomputed"), False),
        ((400, 2), Metric(), False),
        ((1000, 50), Metric(), False),
    ):
        assert index_kind(shape, metric, sparse_points) == "blocks"
    assert isinstance(make_index(CLOUD, Metric()), BlockedIndex)


@pytest.mark.parametrize("d", [3, 20])
def test_neighbours_are_indices_of_the_given_points(d, monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 1000)  # tree or clusters
    X = tree_like(2000, d).astype(np.float32)
    found = nearest_neighbors(X, 8)
    expected = brute_force(X.astype(np.float64), 8)[0]
    assert np.mean([len(np.intersect1d(a, b)) / 8 for a, b in zip(found.indices, expected, strict=True)]) > 0.99
    few = nearest_neighbors(sparse.csr_array(X[:200]), 3)
    np.testing.assert_array_equal(few.indices, brute_force(X[:200].astype(np.float64), 3)[0])


HARD = {
    "huge": 1e100 * tree_like(5000),
    "tiny": 1e-100 * tree_like(5000),
    "two distant parts": tree_like(5000) + 1e7 * (np.arange(5000) < 2500)[:, None],
    "outlier": np.vstack([tree_like(4999), np.full((1, 20), 1e20)]),
    **{
        f"groups of size {size:g}": np.repeat(RNG.normal(size=(100, 20)), 50, axis=0)
        + size * RNG.normal(size=(5000, 20))
        for size in (1e-2, 1e-8)
    },
}


@pytest.mark.parametrize("name", HARD)
def test_scales_beyond_float32(name):
    X = HARD[name]
    index = ClusterIndex(X)
    _, squared = index.neighbors(32)
    recall = true_recall(index, squared, X)
    assert recall > 0.99
    assert index.recall == pytest.approx(recall, abs=0.01)


@pytest.mark.parametrize("name", HARD)
def test_queries_are_exact_at_any_scale(name):
    X = HARD[name]
    index = ClusterIndex(X)
    some = np.random.default_rng(1).permutation(len(X))[:1500]
    _, squared = index.query(X[some], 12)
    np.testing.assert_allclose(squared[:, 1:], brute_force(X, 11)[1][some], rtol=1e-5)
    assert not squared[:, 0].any()


@pytest.mark.parametrize("name", HARD)
def test_all_distances_are_exact_at_any_scale(name):
    # Distances by products round, so rows that are not proven to be right are measured by differences.
    X = HARD[name][::5]
    ids, squared = BlockedIndex(X, Metric()).neighbors(12)
    nearest, expected = brute_force(X, 12)
    np.testing.assert_allclose(squared, expected, rtol=1e-12)
    assert (ids == nearest).mean() > 0.999  # all, but for distances that differ by rounding
    found, apart = BlockedIndex(X, Metric()).query(X[:50], 13)
    assert (found[:, 0] == np.arange(50)).all()
    np.testing.assert_allclose(apart[:, 1:], expected[:50], rtol=1e-12)


def test_low_recall_warns(monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.clusters._MOST_DIFFERENCES", 100)
    index = ClusterIndex(HARD["groups of size 1e-08"])
    with pytest.warns(UserWarning, match="recall of the neighbour search"):
        index.neighbors(32)
    assert index.recall < 0.99


@pytest.mark.parametrize("d", [3, 20])
def test_overflowing_distances_are_rejected(d):
    with pytest.raises(ValueError, match="overflow"):
        nearest_neighbors(1e200 * RNG.normal(size=(5000, d)), 4)
