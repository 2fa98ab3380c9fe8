"""Limits between two algorithms: on both sides of each, every question has the answer of a plain formula.

A limit is made as small as the data, or one smaller. All others are far away, so that each way is seen alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from numpy.linalg import matrix_power
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.base import clone

import heatsketch as hs
from heatsketch.linalg.sketch import GaussianSketch

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
N, D, K, NEIGHBORS, POWER, EPSILON = 400, 6, 8, 10, 6, 0.5
LEVEL = 0.9999


def branches(n, seed, gap=9.0):
    """Three branches with noise, one of them apart, in six columns."""
    rng = np.random.default_rng(seed)
    branch, t = rng.integers(3, size=n), 3.0 * rng.uniform(size=n)
    return t[:, None] * np.eye(D)[branch] + 0.12 * rng.normal(size=(n, D)) + gap * (branch == 2)[:, None]


X, NEW = branches(N, 0), branches(60, 1)
NEW[:20] = X[:20]
# Pairs within 60 neighbours, which heat joins in a few steps.
PAIRS = np.column_stack([np.arange(0, N, 5), np.argsort(cdist(X, X), axis=1)[::5, 1:61:20][:, 1]])
OPTIONS = {"bandwidth": EPSILON, "n_neighbors": NEIGHBORS, "power": POWER}
FAR, NEAR = 10**9, 30  # far beyond the size of the data, and far below

SEARCH, CLUSTERS = "heatsketch.neighbors.search.", "heatsketch.neighbors.clusters."
# Search by clusters of 40 points for any number of points, which goes on until a sample misses nothing.
BY_CLUSTERS = {
    SEARCH + "_FEW_POINTS": NEAR,
    SEARCH + "_BLOCKED_LIMIT": NEAR,
    SEARCH + "_FEW_QUERIES": 0,
    CLUSTERS + "_POINTS_PER_CLUSTER": 40,
    CLUSTERS + "_RECALL": 1.0,
}


@dataclass(frozen=True)
class Limit:
    """A limit between two algorithms, its values on both sides of the data, and what makes the code reach it."""

    path: str
    below: float
    above: float
    others: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def __str__(self):
        return self.path.removeprefix("heatsketch.")


def at_size(path, size=N, **options):
    """A limit that allows `size`, and one that does not."""
    return Limit(path, size, size - 1, **options)


# The limits of the searches for neighbours, on which all questions depend.
SEARCHES = [
    at_size(SEARCH + "_FEW_POINTS", others={SEARCH + "_TREE_FEATURES": D}),
    at_size(SEARCH + "_TREE_FEATURES", D, others={SEARCH + "_FEW_POINTS": NEAR}),
    at_size(SEARCH + "_MOST_TREE_FEATURES", D, others={SEARCH + "_FEW_POINTS": NEAR}, options={"metric": "cityblock"}),
    at_size(SEARCH + "_BLOCKED_LIMIT", others=BY_CLUSTERS),
    at_size(SEARCH + "_FEW_QUERIES", len(NEW), others=BY_CLUSTERS),
    at_size(SEARCH + "_MANY_FEATURES", D + 1),  # products from so many features on
    at_size(SEARCH + "_FEW_NEIGHBORS", NEIGHBORS + 12, others={SEARCH + "_MANY_FEATURES": D}),
    at_size(CLUSTERS + "_ONE_LEVEL", N // 40, others=BY_CLUSTERS),
    at_size("heatsketch.neighbors.neighborhoods._SMALL"),
]
# Limits of other computations.
COMPUTATIONS = [
    at_size("heatsketch.linalg.eigen.DENSE_LIMIT"),
    at_size("heatsketch.linalg.eigen._SPARSE_DENSE_LIMIT"),
    at_size("heatsketch.linalg.eigen._ARPACK_LIMIT", others={"heatsketch.linalg.eigen.DENSE_LIMIT": NEAR}),
    at_size("heatsketch.analysis.geodesics._DENSE"),
    at_size("heatsketch.analysis.pseudotime._DENSE"),
    at_size("heatsketch.analysis.reference_sketch._FEW"),
    at_size("heatsketch.analysis.scales._FEW"),
    at_size("heatsketch.analysis.distortion.ALL_PAIRS"),
    at_size("heatsketch.estimators._base._FEW_POINTS", len(np.unique(PAIRS))),
    Limit("heatsketch.linalg.recurrences._LARGE", 0, FAR),
    Limit("heatsketch.kernel.operator._ORDERED", len(NEW) * D, D),
]


@pytest.fixture
def options(request, monkeypatch):
    """Options of a fit; the limit is set, and all others are out of reach."""
    limit, value = request.param
    for other in SEARCHES:
        if "FEATURES" not in other.path and not other.path.startswith(CLUSTERS):
            monkeypatch.setattr(other.path, FAR)
    for path, there in (limit.others | {limit.path: value}).items():
        monkeypatch.setattr(path, there)
    return OPTIONS | limit.options


def on_both_sides(limits):
    sides = [(limit, value) for limit in limits for value in (limit.below, limit.above)]
    return pytest.mark.parametrize("options", sides, indirect=True, ids=lambda side: f"{side[0]}={side[1]}")


# The plain formulas


def plain_edges(D2, radii_here, radii):
    """Which pairs are edges: those within the larger of the two radii."""
    return D2 <= np.maximum(radii_here[:, None], radii) * (1 + 1e-8)


def kth(D2, k):
    """Squared distance to the k-th neighbour; the point itself, or a copy, does not count."""
    return np.sort(np.where(D2 > 0, D2, np.inf), axis=1)[:, k - 1]


@cache
def plain_kernel(metric="euclidean"):
    """A = diag(s) K diag(s) with rows that add up to 1, (N, N), and s."""
    D2 = cdist(X, X, metric) ** 2
    radii = kth(D2, NEIGHBORS)
    K = np.where(plain_edges(D2, radii, radii), np.exp(-D2 / EPSILON), 0.0)
    s = np.ones(N)
    for _ in range(1000):
        s = np.sqrt(s / (K @ s))
    return s[:, None] * K * s, s


def plain_rows(metric="euclidean"):
    """Rows of the kernel at the new points, (m, N): each adds up to 1."""
    D2 = cdist(NEW, X, metric) ** 2
    edges = plain_edges(D2, kth(D2, NEIGHBORS), kth(cdist(X, X, metric) ** 2, NEIGHBORS))
    rows = np.where(edges, np.exp(-D2 / EPSILON), 0.0) * plain_kernel(metric)[1]
    return rows / rows.sum(axis=1, keepdims=True)


def between(rows, pairs):
    """Distances between rows."""
    return np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)


def geodesics(P):
    """``sqrt(-2 epsilon t log cos)`` of the rows of A^t, (N, N)."""
    lengths = np.linalg.norm(P, axis=1)
    with np.errstate(divide="ignore"):
        squared = -2.0 * EPSILON * POWER * np.log(np.clip(P @ P.T / np.outer(lengths, lengths), 0.0, 1.0))
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(squared)


def plain_paths(P, A):
    """Lengths of the shortest paths along the graph, whose edges have the lengths of `geodesics`, (N, N)."""
    edges = np.where(A > 0, geodesics(P), 0.0)
    return dijkstra(sparse.csr_array(np.maximum(edges, edges.T)), directed=False)


def condensed(pairs):
    """Positions of pairs in condensed distances."""
    i, j = np.sort(pairs, axis=1).T
    return N * i - i * (i + 1) // 2 + j - i - 1


def folded(model):
    """The options of the kernel of another embedding."""
    return {name: getattr(model, name) for name in (*OPTIONS, "metric")}


def sketched(model, rows):
    """``rows G / sqrt(k)``, without the mean of G, which changes no distance."""
    G = GaussianSketch(model.seed_).matrix(N, K)
    return rows @ (G - G.mean(axis=0)) / np.sqrt(K)


@pytest.fixture(scope="module")
def expected():
    """Answers that have no short formula, by the ways for little data."""
    model = GP(K, random_state=0, **OPTIONS).fit(X)
    return {"inverse": model.inverse_transform(model.transform(NEW)), "scales": model.scales([POWER, 4 * POWER])}


@pytest.fixture
def model(options):
    return GP(K, random_state=0, **options).fit(X)


@on_both_sides(SEARCHES)
class TestSearches:
    def test_kernel_and_embedding(self, model):
        A, _ = plain_kernel(model.metric)
        np.testing.assert_allclose(model.kernel_.toarray(), A, atol=1e-7)
        np.testing.assert_allclose(model.embedding_, sketched(model, matrix_power(A, POWER)), atol=1e-7)

    def test_new_points(self, model):
        A, _ = plain_kernel(model.metric)
        placed = sketched(model, plain_rows(model.metric) @ matrix_power(A, POWER - 1))
        np.testing.assert_allclose(model.transform(NEW), placed, atol=1e-7)
        np.testing.assert_allclose(model.transform(NEW[:20]), model.embedding_[:20], atol=1e-9)

    def test_added_points(self, options):
        part = GP(K, random_state=0, **options).fit(X[: N // 2]).extend(X[N // 2 :])
        A, _ = plain_kernel(part.metric)
        np.testing.assert_allclose(part.embedding_, sketched(part, matrix_power(A, POWER)), atol=1e-7)

    def test_saved_model(self, model, tmp_path):
        hs.save_model(model, tmp_path / "model")
        loaded = hs.load_model(tmp_path / "model")
        np.testing.assert_allclose(loaded.transform(NEW), model.transform(NEW), atol=1e-12)
        np.testing.assert_allclose(loaded.kernel_.toarray(), model.kernel_.toarray(), atol=1e-12)


@on_both_sides(SEARCHES + COMPUTATIONS)
class TestQuestions:
    def test_distances(self, model):
        P = matrix_power(plain_kernel(model.metric)[0], POWER)
        exact = between(P, PAIRS)
        np.testing.assert_allclose(hs.diffusion_distances(model.kernel_, POWER, PAIRS), exact, rtol=1e-5)
        np.testing.assert_allclose(
            hs.diffusion_distances(model.kernel_, POWER)[condensed(PAIRS)], exact, rtol=1e-5, atol=1e-12
        )
        np.testing.assert_allclose(model.diffusion_distances(PAIRS), between(model.embedding_, PAIRS), rtol=1e-9)
        for kind in (model, DM(K, **folded(model)).fit(X)):
            _, low, high = kind.diffusion_distances(PAIRS, interval=LEVEL)
            assert ((low <= exact * (1 + 1e-6)) & (exact <= high * (1 + 1e-6))).all()
        assert (high < 4.0 * low).all()  # of the sketch for intervals, which has at least 24 random columns

    def test_geodesics(self, model):
        exact = geodesics(matrix_power(plain_kernel(model.metric)[0], POWER))[tuple(PAIRS.T)]
        np.testing.assert_allclose(hs.geodesic_distances(model.kernel_, POWER, PAIRS), exact, rtol=1e-5)
        np.testing.assert_allclose(hs.geodesic_distances(model.kernel_, POWER)[condensed(PAIRS)], exact, rtol=1e-5)
        found, low, high = model.geodesic_distances(PAIRS, interval=LEVEL)
        assert ((low <= exact) & (exact <= high)).all()
        assert np.median(found / exact) == pytest.approx(1.0, abs=0.15)  # all pairs share 128 random columns

    def test_pseudotime(self, model):
        A, _ = plain_kernel(model.metric)
        P = matrix_power(A, POWER)
        lengths = {"geodesic": geodesics(P), "diffusion": cdist(P, P), "path": plain_paths(P, A)}
        root = PAIRS[0, 0]
        here = np.isfinite(lengths["path"][root])  # other components are entered across gaps
        for kind, exact in lengths.items():
            with pytest.warns(UserWarning, match="components without a root"):
                found = hs.pseudotime(model.kernel_, root, POWER, kind=kind)
            np.testing.assert_array_equal(found.gaps == 0, here)
            some = here & (exact[root] < np.inf)
            np.testing.assert_allclose(found.time[some] * found.unit, exact[root, some], rtol=1e-5, atol=1e-6)
            if kind == "path":
                continue
            with pytest.warns(UserWarning, match="components without a root"):
                found = model.pseudotime(root, kind=kind, interval=LEVEL)
            assert (found.low[here] * found.unit <= exact[root, here] * (1 + 1e-6) + 1e-9).all()
            assert (exact[root, here] <= found.high[here] * found.unit * (1 + 1e-6) + 1e-9).all()

    def test_support(self, model):
        exact = cdist(*2 * [matrix_power(plain_kernel(model.metric)[0], POWER)])
        found = model.unsupported_neighbors(5, interval=LEVEL, n_points=len(NEW))
        nearest = cKDTree(model.embedding_).query(model.embedding_[found.points], 6)[1][:, 1:]
        np.testing.assert_array_equal(found.indices, nearest)
        # Even twice the distance of the fifth true neighbour is less than the distance of a false one.
        fifth = np.sort(exact[found.points], axis=1)[:, 5]
        false = np.nonzero(~found.supported)
        assert (exact[found.points[false[0]], found.indices[false]] > 2.0 * fifth[false[0]] * (1 - 1e-6)).all()

    def test_way_back(self, model, expected):
        if model.metric == "euclidean":  # the embedding of the other metric has other neighbours
            np.testing.assert_allclose(model.inverse_transform(model.transform(NEW)), expected["inverse"], atol=1e-6)

    def test_distortion(self, model):
        P, Y = matrix_power(plain_kernel(model.metric)[0], POWER), model.embedding_
        i, j = np.triu_indices(N, 1)
        ratios = np.linalg.norm(Y[i] - Y[j], axis=1) / np.linalg.norm(P[i] - P[j], axis=1)
        exact, found = np.log(ratios.max() / ratios.min()), model.distortion()
        assert 0.5 * exact <= found.log <= exact * (1 + 1e-6)  # of more points a lower bound

    def test_other_times(self, model, expected):
        A = plain_kernel(model.metric)[0]
        for Y, power in zip(model.at_powers([POWER, 3]), (POWER, 3), strict=True):
            np.testing.assert_allclose(Y, sketched(model, matrix_power(A, power)), atol=1e-7)
        if model.metric == "euclidean":
            found = model.scales([POWER, 4 * POWER])
            np.testing.assert_allclose(found.entropy, expected["scales"].entropy, rtol=0.05)

    def test_eigenvalues(self, model):
        found = DM(K, **folded(model)).fit(X)
        values = np.linalg.eigvalsh(plain_kernel(model.metric)[0])[::-1]
        np.testing.assert_allclose(found.eigenvalues_, values[1 : K + 1], rtol=1e-6)


@pytest.mark.parametrize("rows", [N, N - 1], ids=["in one process", "in chunks"])
def test_on_a_cluster(rows, monkeypatch):
    """The smallest Dask array that is not embedded in one process, with weights and copies."""
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", rows)
    # Without the gap, as components are not known on a cluster.
    points, new, weights = branches(N, 0, gap=0.0), branches(60, 1, gap=0.0), 1.0 + np.arange(N) % 3
    points[-9:] = points[:9]
    model = GP(K, n_neighbors=NEIGHBORS, power=4 * POWER, random_state=0)
    there = clone(model).fit(da.from_array(points, chunks=(150, D)), sample_weight=weights)
    here = model.fit(points, sample_weight=weights)
    assert there.kernel_.in_memory == (rows == N)
    np.testing.assert_allclose(there.embedding_.compute(), here.embedding_, atol=1e-7)
    np.testing.assert_allclose(there.transform(new), here.transform(new), atol=1e-7)
    for distances in ("diffusion_distances", "geodesic_distances"):
        found, expected = (getattr(m, distances)(PAIRS, interval=0.9) for m in (there, here))
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=distances)
    for kind in ("geodesic", "diffusion"):
        found, expected = (m.pseudotime(0, kind=kind) for m in (there, here))
        np.testing.assert_allclose(found.time, expected.time, rtol=1e-5, atol=1e-9)
