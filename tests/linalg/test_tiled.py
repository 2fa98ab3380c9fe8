"""The exact kernel formed tile by tile: equal to the matrix for all tiles, threads and data."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import heatsketch as hs
from heatsketch.linalg.operators import TiledGaussianOperator, tiled
from heatsketch.linalg.operators.tiled import tournament

RNG = np.random.default_rng(0)


def exact(X, epsilon):
    local = np.sqrt(np.broadcast_to(epsilon, len(X)))
    D2 = cdist(X.astype(np.float64), X.astype(np.float64), "sqeuclidean")
    return np.exp(-D2 / (local[:, None] * local[None, :]))


@pytest.mark.parametrize(("n", "tile"), [(1, 8), (8, 8), (9, 8), (50, 7), (33, 1), (60, 512)])
@pytest.mark.parametrize("d", [1, 20])
def test_any_tile_gives_the_matrix(n, tile, d, monkeypatch):
    monkeypatch.setattr(tiled, "TILE", tile)
    X, V = RNG.normal(size=(n, d)), RNG.normal(size=(n, 4))
    operator = TiledGaussianOperator(X, float(d))
    np.testing.assert_allclose(operator @ V, exact(X, float(d)) @ V, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.toarray(), exact(X, float(d)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_tournament_pairs_blocks_once(n):
    """Every pair of blocks meets once, and no block occurs twice in a round."""
    met = []
    for fixture in tournament(n, 2):
        blocks = [start for a, b in fixture for start in {a.start, b.start}]
        assert len(blocks) == len(set(blocks))
        met += [(a.start, b.start) for a, b in fixture]
    starts = range(0, n, 2)
    assert sorted(met) == [(a, b) for a in starts for b in starts if a <= b]


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_the_product(d, dtype, monkeypatch):
    monkeypatch.setattr(tiled, "TILE", 16)
    X, V = RNG.normal(size=(100, d)), RNG.normal(size=(100, 5)).astype(dtype)
    products = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(tiled, "n_threads", lambda threads=threads: threads)
        products.append(TiledGaussianOperator(X, 2.0, dtype=dtype) @ V)
    for other in products[1:]:
        np.testing.assert_array_equal(other, products[0])


@pytest.mark.parametrize("offset", [1e4, 1e8])
@pytest.mark.parametrize("d", [2, 20])
def test_points_far_from_the_origin_do_not_cancel(offset, d):
    X = RNG.normal(size=(80, d))
    here = TiledGaussianOperator(X + offset, 0.5 * d).toarray()
    # The offset itself rounds the coordinates to offset * 2.2e-16.
    np.testing.assert_allclose(here, exact(X, 0.5 * d), atol=1e-12 + 40 * offset * 2.3e-16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_distant_clusters_keep_their_inner_distances(dtype):
    """Centring does not help here."""
    X = RNG.normal(size=(60, 20))
    X[30:, 0] += 1e8
    inner = exact(X, 20.0)
    got = TiledGaussianOperator(X, 20.0, dtype=dtype).toarray()
    np.testing.assert_allclose(got, inner, atol=1e-5 if dtype == np.float32 else 1e-7)


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outlier_does_not_reduce_accuracy(d, dtype):
    X = RNG.normal(size=(60, d))
    X[7] = 1e20
    got = TiledGaussianOperator(X, float(d), dtype=dtype).toarray()
    np.testing.assert_allclose(got, exact(X, float(d)), atol=1e-5 if dtype == np.float32 else 1e-9)


def test_float32_accuracy():
    for d, epsilon in ((3, 0.05), (50, 20.0)):
        X = RNG.normal(size=(100, d)).astype(np.float32)
        got = TiledGaussianOperator(X, epsilon, dtype=np.float32).toarray()
        assert np.abs(got - exact(X, epsilon)).max() < 2e-5
        assert np.abs(np.diagonal(got) - 1).max() < 1e-5


def test_coincident_points_and_local_scales():
    X = np.repeat(RNG.normal(size=(20, 10)), 3, axis=0)
    epsilon = RNG.uniform(1, 9, size=60)
    np.testing.assert_allclose(TiledGaussianOperator(X, epsilon).toarray(), exact(X, epsilon), atol=1e-12)
    assert (np.diagonal(TiledGaussianOperator(X, 1.0, zero_diagonal=True).toarray()) == 0).all()


def test_memory_is_linear_in_n():
    n = 3000
    X, V = RNG.normal(size=(n, 10)).astype(np.float32), RNG.normal(size=(n, 4)).astype(np.float32)
    TiledGaussianOperator(X[:100], 5.0, dtype=np.float32) @ V[:100]  # compile before measuring
    tracemalloc.start()
    TiledGaussianOperator(X, 5.0, dtype=np.float32) @ V
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n * 4 / 4


@pytest.mark.parametrize(
    "options", [{}, {"kernel_params": {"diagonal": "zero"}}, {"bandwidth": "self-tuning"}], ids=str
)
def test_embeddings_equal_those_of_the_matrix(torus, monkeypatch, options):
    X = np.vstack([torus[:100], torus[:5]])  # some points coincide
    options = options | {"random_state": 0, "n_neighbors": None}
    held = hs.GaussianProcessEmbedding(4, **options).fit(X)
    monkeypatch.setattr("heatsketch.kernel.plan.DENSE_LIMIT", 10)
    tiled = hs.GaussianProcessEmbedding(4, **options).fit(X)
    assert tiled.kernel_.affinity.tiled
    assert not held.kernel_.affinity.tiled
    scale = np.abs(held.embedding_).max()
    np.testing.assert_allclose(tiled.embedding_, held.embedding_, atol=1e-10 * scale)
    np.testing.assert_allclose(tiled.transform(X), tiled.embedding_, atol=1e-8 * scale)


def test_points_in_any_memory_order(monkeypatch):
    monkeypatch.setattr("heatsketch.kernel.plan.DENSE_LIMIT", 10)  # formed on the fly
    X = np.random.default_rng(0).normal(size=(60, 9))
    A, B = (hs.heat_kernel(Z, bandwidth=5.0, n_neighbors=None) for Z in (X, np.asfortranarray(X)))
    np.testing.assert_allclose(A @ np.eye(60), B @ np.eye(60), atol=1e-12)
