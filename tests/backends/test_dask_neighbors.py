"""The kernel of neighbours in row chunks: the graph, its products and its rows at new points equal those in memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import heatsketch as hs
from heatsketch.kernel.build import build_affinity
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.metrics import Metric

da = pytest.importorskip("dask.array")

from heatsketch.backends.dask import layout  # noqa: E402
from heatsketch.backends.dask.array import DistributedArray  # noqa: E402
from heatsketch.backends.dask.layout import cells_of, split_space, to_locality  # noqa: E402
from heatsketch.backends.dask.neighbors import ChunkedNeighborhoods  # noqa: E402

RNG = np.random.default_rng(0)
N = 2100


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(layout, "CHUNK_ROWS", 300)


def both(X, k=8, chunks=700, **options):
    """The affinity of points in row chunks, and in memory."""
    parsed = KernelOptions(n_neighbors=k, **options)
    lazy = DistributedArray.from_dask(da.from_array(X, chunks=(chunks, 2)))
    (affinity, rule), (here, expected_rule) = build_affinity(lazy, parsed), build_affinity(X, parsed)
    assert rule == expected_rule
    return affinity, here


def matrix(affinity):
    """The whole kernel in the order of the data."""
    n = affinity.n_samples
    eye = affinity.operator.asblock(da.from_array(np.eye(n), chunks=(500, -1)))
    return affinity.operator.matmat(eye)[np.arange(n)]


def row_products(affinity, Q, V):
    columns = affinity.layout.arranged(da.from_array(V, chunks=(500, -1)))
    return affinity.row_products(da.from_array(Q, chunks=(33, -1)), columns)


def doubled(points):
    """Points with some duplicates, far from each other in the order of rows."""
    return np.concatenate([points, points[: len(points) // 5], points[:7], points[:7]])


DATA = {
    "plane": (RNG.normal(size=(N, 2)), {}),
    "six": (RNG.normal(size=(N, 6)), {"diagonal": "zero"}),
    "twenty": (RNG.normal(size=(N, 20)), {"bandwidth": 9.0}),
    "single": (RNG.normal(size=(N, 3)).astype(np.float32), {"bandwidth": "self-tuning"}),
    "grid": (np.stack(np.meshgrid(np.arange(50.0), np.arange(50.0)), axis=-1).reshape(-1, 2), {"bandwidth": 2.0}),
    "repeated": (doubled(RNG.normal(size=(N - 400, 3))), {"bandwidth": "self-tuning", "diagonal": "zero"}),
    "lattice": (np.indices((3,) * 6, dtype=np.float64).reshape(6, -1).T, {}),  # many ties
    "few": (RNG.integers(0, 15, size=(N, 2)).astype(np.float64), {}),
    "city blocks": (RNG.normal(size=(N, 3)), {"metric": "cityblock"}),
    "angles": (RNG.normal(size=(N, 4)), {"metric": "cosine"}),
}


@pytest.mark.parametrize("name", DATA)
def test_graph_and_rows_of_new_points_equal_those_in_memory(name, monkeypatch):
    X, options = DATA[name]
    if name in ("plane", "single", "city blocks"):  # with trees
        monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    affinity, here = both(X, **options)
    K, expected = matrix(affinity), here.operator.toarray()
    assert K.dtype == X.dtype
    np.testing.assert_array_equal(K != 0, expected != 0)
    np.testing.assert_allclose(K, expected, rtol=1e-6 if X.dtype == np.float32 else 1e-9)
    assert affinity.recall == 1.0
    epsilon = affinity.epsilon[np.arange(len(X))] if np.ndim(affinity.epsilon) else affinity.epsilon
    np.testing.assert_allclose(epsilon, here.epsilon, rtol=1e-9)
    assert affinity.typical_epsilon == pytest.approx(here.typical_epsilon, rel=1e-9)
    Q = np.concatenate([X[:40], X[:40] + 0.1, 30.0 + RNG.normal(size=(5, X.shape[1])), X[-3:]]).astype(X.dtype)
    V = RNG.normal(size=(len(X), 3))
    products, log_scale = row_products(affinity, Q, V)
    rows, expected = here.rows(Q)
    assert products.chunks == ((33, 33, 22), (3,))
    np.testing.assert_allclose(log_scale.compute(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(products.compute(), rows @ V, atol=1e-5 if X.dtype == np.float32 else 1e-9)


def test_wide_neighbourhoods_reach_new_points():
    X = np.concatenate([RNG.normal(size=(N, 2)), [[40.0, 0.0], [0.0, 60.0]]])  # outliers with large radii
    affinity, here = both(X, bandwidth=50.0)
    Q, V = RNG.normal(size=(9, 2)), RNG.normal(size=(len(X), 2))
    np.testing.assert_allclose(row_products(affinity, Q, V)[0].compute(), here.rows(Q)[0] @ V, atol=1e-9)


def test_chunks_of_the_data_do_not_matter():
    X = doubled(RNG.normal(size=(N - 400, 3)))
    found = [matrix(both(X, chunks=chunks)[0])[:, :50] for chunks in (700, 101, len(X))]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_local_data_have_a_small_halo():
    affinity, _ = both(hs.datasets.circle(N, random_state=0))
    operator = affinity.operator
    assert 0 < operator.halo_rows < 0.1 * N
    assert "8 neighbours" in affinity.description


def test_recall_of_clusters_is_measured(monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    monkeypatch.setattr(layout, "CHUNK_ROWS", 1200)
    X = RNG.normal(size=(N, 12))
    measure, measured = ChunkedNeighborhoods._measure_recall, []
    monkeypatch.setattr(
        ChunkedNeighborhoods, "_measure_recall", lambda *args: measured.append(measure(*args)) or measured[-1]
    )
    affinity, _ = both(X)
    assert measured == [affinity.recall]  # so that the search was by clusters
    assert 0.97 < affinity.recall <= 1.0
    D2 = ((X[:100, None] - X) ** 2).sum(-1)
    nearest = np.argsort(D2, axis=1)[:, :9]
    assert np.take_along_axis(matrix(affinity)[:100] > 0, nearest, axis=1).mean() > 0.97


def test_layout_by_locality():
    X = RNG.normal(size=(N, 5))
    lazy = da.from_array(X, chunks=(333, 5))
    found = to_locality(lazy)
    np.testing.assert_array_equal(np.sort(found.order), np.arange(N))
    assert 0.5 * N / 7 < min(found.sizes) <= max(found.sizes) < 1.6 * N / 7
    arranged = found.arranged(lazy)
    np.testing.assert_array_equal(arranged.compute(), X[found.order])
    np.testing.assert_array_equal(found.restored(arranged).compute(), X)
    np.testing.assert_array_equal(found.samples(found.positions(np.array([5, 77, 5]))), [5, 77, 5])


@pytest.mark.parametrize("n_points", [1, 3])
def test_duplicates_stay_in_one_chunk(n_points):
    X = np.repeat(RNG.normal(size=(n_points, 2)), N // n_points, axis=0)
    found = to_locality(da.from_array(X, chunks=(700, 2)))
    chunks = [np.unique(X[found.order[a:b]], axis=0) for a, b in pairwise(found.starts)]
    assert sum(map(len, chunks)) == n_points


def test_cell_of_a_point_does_not_depend_on_other_points():
    X = RNG.normal(size=(N, 17))
    space = split_space(X[:500], 11)
    cells = cells_of(X, space)
    assert set(cells) == set(range(11))
    np.testing.assert_array_equal(cells[:60], [cells_of(X[i : i + 1], space)[0] for i in range(60)])
    np.testing.assert_array_equal(cells, cells_of(np.asfortranarray(X), space))


def test_coincident_points_are_one_vertex():
    X = np.concatenate([np.zeros((N, 2)), RNG.normal(size=(50, 2))])
    assert ChunkedNeighborhoods(da.from_array(X, chunks=(500, 2)), 5, Metric()).n_vertices == 51


def test_rule_without_a_bandwidth_raises_as_in_memory():
    """By the cosine, multiples of a few directions coincide, more of them than are listed as neighbours."""
    rays = RNG.normal(size=(7, 1, 4)) * np.arange(1, 251)[:, None]
    X = np.concatenate([rays.reshape(-1, 4), RNG.normal(size=(N - 1750, 4))])
    for points in (X, DistributedArray.from_dask(da.from_array(X, chunks=(700, 4)))):
        with pytest.raises(ValueError, match="coincide"):
            build_affinity(points, KernelOptions(n_neighbors=8, metric="cosine", bandwidth="neighbor"))


def test_squares_that_underflow_raise_as_in_memory():
    X = 1e-157 * RNG.normal(size=(N, 3))
    for points in (X, DistributedArray.from_dask(da.from_array(X, chunks=(700, 3)))):
        with pytest.raises(ValueError, match="underflow"):
            build_affinity(points, KernelOptions(n_neighbors=8, bandwidth="self-tuning"))
