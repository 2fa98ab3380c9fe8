"""The kernel of neighbours in bands: the graph, its products and its rows at new points are those of one machine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import heatsketch as hs
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.build import build_affinity
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.metrics import Metric

da = pytest.importorskip("dask.array")

from heatsketch.backends.dask import graph, layout  # noqa: E402
from heatsketch.backends.dask.neighbor_affinity import banded_neighbor_affinity  # noqa: E402
from heatsketch.backends.dask.neighbors import BandedNeighborhoods  # noqa: E402
from heatsketch.backends.dask.placement import placed_by_locality, split_space  # noqa: E402

RNG = np.random.default_rng(0)
N = 2100


@pytest.fixture(autouse=True)
def _small_bands(monkeypatch):
    monkeypatch.setattr(layout, "BAND", 300)


def banded(X, k=8, chunks=700, **options):
    """The affinity of points in bands, and that of one machine."""
    parsed = KernelOptions(n_neighbors=k, **options)
    lazy = da.from_array(X, chunks=(chunks, X.shape[1]))
    affinity, rule = banded_neighbor_affinity(
        lazy, k, parsed.measure, bandwidth=parsed.bandwidth, zero_diagonal=parsed.diagonal == "zero"
    )
    one, expected_rule = build_affinity(X, parsed)
    assert rule == expected_rule
    return affinity, one


def arranged(affinity, V):
    return affinity.operator.asblock(da.from_array(V, chunks=(500, -1)))


def columns(affinity, V):
    return affinity.layout.arranged(da.from_array(V, chunks=(500, -1)))


def matrix(affinity):
    """The whole kernel in the order of the data."""
    n = affinity.n_samples
    return affinity.operator.matmat(arranged(affinity, np.eye(n)))[np.arange(n)]


def doubled(points):
    """Points of which some are there several times, far from each other in the order of rows."""
    return np.concatenate([points, points[: len(points) // 5], points[:7], points[:7]])


DATA = {
    "plane": (RNG.normal(size=(N, 2)), {}),
    "space": (RNG.normal(size=(N, 3)), {"bandwidth": "self-tuning"}),
    "six": (RNG.normal(size=(N, 6)), {"diagonal": "zero"}),
    "twenty": (RNG.normal(size=(N, 20)), {"bandwidth": 9.0}),
    "single": (RNG.normal(size=(N, 3)).astype(np.float32), {}),
    "grid": (np.stack(np.meshgrid(np.arange(50.0), np.arange(50.0)), axis=-1).reshape(-1, 2), {"bandwidth": 2.0}),
    "repeated": (doubled(RNG.normal(size=(N - 400, 3))), {"bandwidth": "self-tuning", "diagonal": "zero"}),
    "few": (RNG.integers(0, 15, size=(N, 2)).astype(np.float64), {}),
    "blocks": (RNG.normal(size=(N, 3)), {"metric": "cityblock"}),
    "angles": (RNG.normal(size=(N, 4)), {"metric": "cosine"}),
}


@pytest.mark.parametrize("name", DATA)
def test_the_graph_is_that_of_one_machine(name, monkeypatch):
    X, options = DATA[name]
    if name in ("plane", "single", "blocks"):  # with trees
        monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    affinity, one = banded(X, **options)
    K, expected = matrix(affinity), one.operator.toarray()
    assert K.dtype == X.dtype
    np.testing.assert_array_equal(K != 0, expected != 0)
    np.testing.assert_allclose(K, expected, rtol=1e-6 if X.dtype == np.float32 else 1e-9)
    assert affinity.recall == 1.0
    epsilon = affinity.epsilon if np.ndim(affinity.epsilon) == 0 else affinity.epsilon[np.arange(len(X))]
    np.testing.assert_allclose(np.asarray(epsilon), one.epsilon, rtol=1e-9)


@pytest.mark.parametrize("name", DATA)
def test_new_points_have_the_rows_of_one_machine(name):
    X, options = DATA[name]
    affinity, one = banded(X, **options)
    Q = np.concatenate([X[:40], X[:40] + 0.1, 30.0 + RNG.normal(size=(5, X.shape[1])), X[-3:]]).astype(X.dtype)
    V = RNG.normal(size=(len(X), 3))
    products, log_scale = affinity.row_products(da.from_array(Q, chunks=(33, -1)), columns(affinity, V))
    rows, expected = one.rows(Q)
    assert products.chunks == ((33, 33, 22), (3,))
    np.testing.assert_allclose(log_scale.compute(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(products.compute(), rows @ V, atol=1e-5 if X.dtype == np.float32 else 1e-9)


def test_wide_neighbourhoods_reach_new_points():
    X = np.concatenate([RNG.normal(size=(N, 2)), [[40.0, 0.0], [0.0, 60.0]]])  # outliers, whose circles hold the rest
    affinity, one = banded(X, bandwidth=50.0)
    Q, V = RNG.normal(size=(9, 2)), RNG.normal(size=(len(X), 2))
    products, _ = affinity.row_products(da.from_array(Q, chunks=(9, -1)), columns(affinity, V))
    np.testing.assert_allclose(products.compute(), one.rows(Q)[0] @ V, atol=1e-9)


def test_chunks_do_not_matter():
    X = doubled(RNG.normal(size=(N - 400, 3)))
    V, results = RNG.normal(size=(len(X), 4)), []
    for chunks in (700, 101, len(X)):
        lazy = da.from_array(X, chunks=(chunks, 2))
        affinity, _ = banded_neighbor_affinity(lazy, 8, Metric())
        results.append(affinity.operator.matmat(arranged(affinity, V))[np.arange(len(X))])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_local_data_have_a_small_halo_and_it_is_all_that_moves(monkeypatch):
    X = hs.datasets.circle(N, random_state=0)
    affinity, _ = banded(X)
    operator = affinity.operator
    assert isinstance(affinity, GaussianAffinity)
    assert 0 < operator.halo_rows < 0.1 * N
    assert "8 neighbours" in affinity.description
    moved = []
    take = graph._linked_rows
    monkeypatch.setattr(graph, "_linked_rows", lambda *args: moved.append(take(*args)) or moved[-1])
    operator.matmat(arranged(affinity, RNG.normal(size=(N, 5))))
    assert sum(part.nbytes for part in moved) == operator.bytes_moved(5) == 40 * operator.halo_rows


def test_recall_of_clusters_is_measured(monkeypatch):
    monkeypatch.setattr("heatsketch.neighbors.search._BLOCKED_LIMIT", 10)
    monkeypatch.setattr(layout, "BAND", 1200)
    X = RNG.normal(size=(N, 12))
    affinity, _ = banded(X)
    assert "clusters" in affinity.description
    assert 0.97 < affinity.recall <= 1.0
    # Against all distances.
    K = matrix(affinity)
    D2 = ((X[:100, None] - X) ** 2).sum(-1)
    nearest = np.argsort(D2, axis=1)[:, :9]
    assert np.take_along_axis(K[:100] > 0, nearest, axis=1).mean() > 0.97


def test_placing_by_locality():
    X = RNG.normal(size=(N, 5))
    found, points = placed_by_locality(da.from_array(X, chunks=(333, 2)))
    numbers, starts = found.numbers.compute(), found.starts
    np.testing.assert_array_equal(np.sort(numbers), np.arange(N))
    np.testing.assert_array_equal(points.compute(), X[numbers])
    assert all((np.diff(numbers[a:b]) > 0).all() for a, b in pairwise(starts))
    assert 0.5 * N / 7 < min(found.sizes) <= max(found.sizes) < 1.6 * N / 7
    np.testing.assert_array_equal(found.restored(points).compute(), X)
    np.testing.assert_array_equal(found.arranged(da.from_array(X, chunks=(20, 5))).compute(), X[numbers])
    np.testing.assert_array_equal(numbers[found.positions(np.array([5, 77, 5]))], [5, 77, 5])


@pytest.mark.parametrize(
    "X",
    [
        np.ones((N, 2)),
        np.repeat(RNG.normal(size=(3, 2)), N // 3, axis=0),
        np.where(RNG.random((N, 1)) < 0.01, 1e200, 0.0),
    ],
    ids=["one point", "three points", "almost one point"],
)
def test_points_that_coincide_stay_together(X):
    found, points = placed_by_locality(da.from_array(X, chunks=(700, 1)))
    assert min(found.sizes) > 0
    held = points.compute()
    bands = [np.unique(held[a:b], axis=0) for a, b in pairwise(found.starts)]
    assert sum(map(len, bands)) == len(np.unique(X, axis=0))


def test_a_point_goes_where_it_goes_alone():
    X = RNG.normal(size=(N, 17))
    partition = split_space(X[:500], 11)
    cells = partition.cells(X)
    assert partition.n_cells == 11
    assert set(cells) == set(range(11))
    np.testing.assert_array_equal(cells[:60], [partition.cells(X[i : i + 1])[0] for i in range(60)])
    np.testing.assert_array_equal(cells, partition.cells(np.asfortranarray(X)))


def test_what_has_no_distances_is_refused():
    with pytest.raises(ValueError, match="all distances between the 2100 points are zero"):
        banded_neighbor_affinity(da.ones((N, 2), chunks=(500, 2)), 8, Metric())
    X = np.concatenate([np.zeros((N, 2)), RNG.normal(size=(50, 2))])
    found, points = placed_by_locality(da.from_array(X, chunks=(500, 2)))
    hoods = BandedNeighborhoods(points, found, 5, Metric())
    assert hoods.n_vertices == 51
