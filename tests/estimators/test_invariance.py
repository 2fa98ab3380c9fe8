"""What must not matter: where the origin is and how axes are turned, the unit, the order of rows, chunks, idle columns.

Changes that round nothing (shifts on a grid of binary fractions, powers of two, signs) may change no bit. Others change
exponents by what they round, and the heat kernel by that, as the bounds say; EPS = 2^-52.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

import heatsketch as hs
from heatsketch.kernel import affinity as affinity_module
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.normalize import normalize
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.operators import TiledGaussianOperator
from heatsketch.neighbors.search import nearest_neighbors

EPS = float(np.finfo(np.float64).eps)
N = 90
PATHS = ("dense", "tiled", "neighbours", "cutoff")


def points(d: int, n: int = N) -> np.ndarray:
    """Normal points on a grid of 2^-20, so that far shifts of them are exact."""
    return np.round(np.random.default_rng(d).normal(size=(n, d)) * 2.0**20) / 2.0**20


def kernel(X, path: str = "dense", epsilon: float | str = 2.0, **options) -> hs.HeatKernel:
    """The heat kernel, held or formed in one of four ways."""
    if path == "tiled":
        affinity = GaussianAffinity(X, epsilon, tiled=True)
        return HeatKernel.from_affinity(affinity, normalize(affinity.operator, tol=1e-13))
    how = {"dense": {"n_neighbors": None}, "neighbours": {"n_neighbors": 12}, "cutoff": {"cutoff": 1e-5}}[path]
    return hs.heat_kernel(X, bandwidth=epsilon, tol=1e-13, **how, **options)


def change(A: hs.HeatKernel, B: hs.HeatKernel) -> float:
    """Of the kernel, in the norm, which is 1."""
    return float(np.linalg.norm(A.symmetric.toarray() - B.symmetric.toarray(), 2))


def allowed(exponents: float, A: hs.HeatKernel, B: hs.HeatKernel) -> float:
    """How far kernels may differ whose entries' exponents differ by so much.

    Row sums then differ by as much, by n roundings and by the residuals at which the scaling ended; ``1 / (1 + S)``
    passes that on to the scale by at most sqrt(n) / (1 + lambda_n), and S has it twice.
    """
    lowest = min(0.0, float(np.linalg.eigvalsh(A.symmetric.toarray())[0]))
    residual = A.scaling.residual + B.scaling.residual
    return exponents + 2 * np.sqrt(N) / (1 + lowest) * (exponents + 2 * N * EPS + residual)


def exponents_of(shift: float, d: int, epsilon: float, X: np.ndarray) -> float:
    """How far exponents are off if coordinates are off by `shift`: a distance by 2 sqrt(d) shift, and twice itself."""
    farthest = 2 * np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    return 2 * farthest * (2 * np.sqrt(d) * shift) / epsilon + (2 * d + 20) * EPS * farthest**2 / epsilon


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("path", PATHS)
def test_a_shift_that_rounds_nothing_changes_no_bit(path, d):
    X = points(d)
    A, B = (kernel(Z, path, 0.7 * d) for Z in (X, X + 2.0**30))
    np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())


@pytest.mark.parametrize("rule", ["neighbor", "median", "self-tuning"])
def test_nor_does_it_change_the_bandwidth(rule):
    for d in (3, 20):
        X = points(d)
        A, B = (kernel(Z, "dense", rule) for Z in (X, X - 2.0**30))
        np.testing.assert_array_equal(A.bandwidth, B.bandwidth)
        np.testing.assert_array_equal(A.toarray(), B.toarray())


@pytest.mark.parametrize("d", [3, 8])
def test_nor_the_neighbours_of_many_points(d):
    # A tree in few dimensions, clusters in many.
    X = points(d, 4500)
    here, there = (nearest_neighbors(Z, 5) for Z in (X, X + 2.0**30))
    assert here.method == ("tree" if d == 3 else "clusters")
    same = (here.indices == there.indices).all(axis=1)
    assert same.mean() > 0.99  # clusters find nearly all
    np.testing.assert_array_equal(here.squared[same], there.squared[same])


@pytest.mark.parametrize("shift", [1e4, 1e12])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("path", PATHS)
def test_a_far_shift_costs_what_it_rounds_off_the_data(path, d, shift):
    # That is half a unit in the last place of the shift: 7.5e-9 at 1e8. Nothing else is lost.
    X, epsilon = points(d), 0.7 * d
    A, B = (kernel(Z, path, epsilon) for Z in (X, X + shift))
    bound = allowed(exponents_of(0.5 * np.spacing(shift), d, epsilon, X), A, B)
    if path in ("neighbours", "cutoff") and shift > 1e8:  # pairs at the very edge may come or go
        same = (A.symmetric.toarray() > 0) == (B.symmetric.toarray() > 0)
        if not same.all():
            assert same.mean() > 0.999
            return
    assert change(A, B) <= bound
    if shift == 1e12:
        assert change(A, B) > 1e-8 * bound


@pytest.mark.parametrize("path", PATHS)
def test_reflections_change_no_bit_and_rotations_what_they_round(path):
    d, epsilon = 5, 3.0
    X = points(d)
    A, B = (kernel(Z, path, epsilon) for Z in (X, X * np.array([1, -1, 1, -1, -1])))
    np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())
    Q = ortho_group.rvs(d, random_state=0)
    C = kernel(X @ Q, path, epsilon)
    # Coordinates are sums of d products, and Q is orthogonal to as many roundings.
    rounding = 2 * d * EPS * np.linalg.norm(X, axis=1).max()
    assert change(A, C) <= allowed(exponents_of(rounding, d, epsilon, X), A, C)


def test_embeddings_and_distances_are_turned_with_nothing():
    d, epsilon, t = 5, 3.0, 6
    X, Q = points(d), ortho_group.rvs(d, random_state=1)
    sketch = {"power": t, "bandwidth": epsilon, "kernel_params": {"tol": 1e-13}, "random_state": 0}
    a, b = (hs.GaussianProcessEmbedding(4, **sketch).fit(Z) for Z in (X, X @ Q + 1.0))
    rounding = 2 * d * EPS * (1 + np.linalg.norm(X, axis=1).max())
    bound = allowed(exponents_of(rounding, d, epsilon, X), a.kernel_, b.kernel_)
    G = np.linalg.norm(a.sketch_.matrix(N, 4)) / 2
    assert np.linalg.norm(a.embedding_ - b.embedding_) <= G * (t + 2) * (bound + N * EPS)
    maps, turned = (
        hs.DiffusionMaps(3, power=t, bandwidth=epsilon, kernel_params={"tol": 1e-13}).fit(Z) for Z in (X, X @ Q + 1.0)
    )
    values = np.linalg.eigvalsh(a.kernel_.symmetric.toarray())[::-1]
    for c in range(3):  # signs are fixed by the vectors themselves
        gap = min(values[c] - values[c + 1], values[c + 1] - values[c + 2])
        error = np.linalg.norm(maps.embedding_[:, c] - turned.embedding_[:, c])
        assert error <= (t + 2 / gap) * (bound + N * EPS)
    pairs = np.column_stack(np.triu_indices(N, 1))[::31]
    here, there = (hs.diffusion_distances(m.kernel_, t, pairs) for m in (a, b))
    assert np.abs(here - there).max() <= 2 * t * (bound + N * EPS)


@pytest.mark.parametrize("exponent", [-160, 3])
@pytest.mark.parametrize("path", PATHS)
def test_powers_of_two_change_no_bit(path, exponent):
    X, unit = points(4), 2.0**exponent
    A, B = kernel(X, path), kernel(unit * X, path, 2.0 * unit**2)
    np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())
    if path != "tiled":
        for rule in ("neighbor", "self-tuning"):
            A, B = (kernel(Z, path, rule) for Z in (X, unit * X))
            np.testing.assert_array_equal(unit**2 * np.asarray(A.bandwidth), B.bandwidth)
            np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())


@pytest.mark.parametrize("unit", [1e-100, 3.7, 1e100])
@pytest.mark.parametrize("path", PATHS)
def test_other_units_change_what_they_round(path, unit):
    X = points(4)
    A, B = kernel(X, path), kernel(unit * X, path, 2.0 * unit**2)
    bound = allowed(exponents_of(EPS * np.abs(X).max(), 4, 2.0, X), A, B)
    assert change(A, B) <= bound


@pytest.mark.parametrize("normalization", ["bistochastic", "symmetric", "stochastic", "bistochastic-weighted"])
@pytest.mark.parametrize("path", ["dense", "neighbours", "cutoff"])
def test_the_order_of_rows(path, normalization):
    X, order = points(3), np.random.default_rng(0).permutation(N)
    A, B = (kernel(Z, path, normalization=normalization) for Z in (X, X[order]))
    np.testing.assert_array_equal(A.affinity.operator.toarray()[np.ix_(order, order)], B.affinity.operator.toarray())
    C = HeatKernel(affinity_module.DenseOperator(A.symmetric.toarray()[np.ix_(order, order)]))
    bound = allowed(0.0, A, B) + 8 * N * EPS  # sums are taken in another order, and nothing else happens
    assert change(C, B) <= bound
    here = hs.diffusion_distances(A, 5, np.column_stack([order[:-1], order[1:]]))
    there = hs.diffusion_distances(B, 5, np.column_stack([np.arange(N - 1), np.arange(1, N)]))
    weight = 1.0 if A.row_weight is None else A.row_weight.max()
    assert np.abs(here - there).max() <= 2 * 7 * weight * (bound + N * EPS)


@pytest.mark.parametrize("d", [3, 20])
def test_chunks_and_tiles(d, monkeypatch):
    X, V = points(d), np.random.default_rng(0).normal(size=(N, 3))
    whole = GaussianAffinity(X, 0.7 * d).operator.toarray()
    monkeypatch.setattr(affinity_module, "CHUNK_ENTRIES", 7 * N)
    cut = GaussianAffinity(X, 0.7 * d).operator.toarray()
    if d == 3:  # differences, pair by pair
        np.testing.assert_array_equal(whole, cut)
    farthest = 2 * np.linalg.norm(X, axis=1).max()
    assert np.abs(whole - cut).max() <= 2 * (d + 2) * EPS * farthest**2 / (0.7 * d)
    tiles = [TiledGaussianOperator(X, 0.7 * d, tile=tile) for tile in (256, 32, 7, 1)]
    for other in tiles[1:]:
        np.testing.assert_array_equal(tiles[0].toarray(), other.toarray())  # entry by entry
        assert (np.abs((tiles[0] @ V) - (other @ V)) <= N * EPS * (tiles[0] @ np.abs(V))).all()


@pytest.mark.parametrize("path", PATHS)
def test_new_points_in_batches(path):
    X, new = points(3), points(3, 40) + 0.25
    options = {
        "dense": {},
        "tiled": {},
        "neighbours": {"n_neighbors": 12},
        "cutoff": {"kernel_params": {"cutoff": 1e-5}},
    }[path]
    model = hs.GaussianProcessEmbedding(4, power=4, bandwidth=2.0, random_state=0, **options).fit(X)
    whole = model.transform(new)
    parts = np.vstack([model.transform(new[rows]) for rows in np.split(np.arange(40), [1, 2, 17, 30])])
    # Rows of a Markov matrix times coefficients: sums of N.
    size = np.abs(np.linalg.matrix_power(model.kernel_.symmetric.toarray(), 3)).sum(axis=1).max() * 10
    assert np.abs(whole - parts).max() <= 4 * N * EPS * size


@pytest.mark.parametrize("constant", [0.0, 1.0, -1e8])
@pytest.mark.parametrize("path", PATHS)
def test_constant_columns(path, constant):
    X, epsilon = points(3), 2.0
    A = kernel(X, path, epsilon)
    for more in (2, 17):
        B = kernel(np.column_stack([X, np.full((N, more), constant)]), path, epsilon)
        if 3 + more <= 6 or (path != "tiled" and 3 + more <= 16):  # differences, which are zero there
            np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())
        else:  # inner products from the centre, where they are zero: of norms, in which they are not
            assert change(A, B) <= allowed(exponents_of(0.0, 3 + more, epsilon, X), A, B)


@pytest.mark.parametrize("constant", [1.0, 1e6])
def test_constant_columns_of_sparse_points(constant):
    # Sparse points are not centred: what cancels is formed anew from differences, up to 1e-6 of the norms.
    X, epsilon = points(3), 2.0
    A = kernel(X, "dense", epsilon)
    B = kernel(sparse.csr_array(np.column_stack([X, np.full(N, constant)])), "dense", epsilon)
    norms = 2 * (np.square(X).sum(axis=1).max() + constant**2)
    near = np.square(X[:, None] - X[None]).sum(axis=2) <= 1e-6 * norms
    lost = 0.0 if near.all() else 12 * EPS * norms / epsilon
    assert change(A, B) <= allowed(lost + exponents_of(0.0, 4, epsilon, X), A, B)


@pytest.mark.parametrize("rule", [1e-4, "neighbor", "self-tuning"])
@pytest.mark.parametrize("path", ["dense", "neighbours"])
@pytest.mark.parametrize("apart", [1e6, 1e10])
def test_points_or_their_distances(apart, path, rule):
    # Small distances are distances, however much larger others are.
    X = 0.01 * points(2)
    X[: N // 2, 0] += apart
    D, new = cdist(X, X), cdist(X[:3] + 0.001, X)
    A, B = kernel(X, path, rule), kernel(D, path, rule, metric="precomputed")
    # A distance is a root that is squared again: three roundings of exponents that count, below 40.
    assert change(A, B) <= allowed(40 * 8 * EPS, A, B)
    rows, expected = B.rows_at_new_points(new), A.rows_at_new_points(X[:3] + 0.001)
    assert np.abs(rows - expected).max() <= allowed(40 * 8 * EPS, A, B)


@pytest.mark.parametrize("noise", [0.0, 1e-11])
def test_rounding_of_given_distances_shows_on_the_diagonal(noise):
    X = np.repeat(points(2, 30), 2, axis=0)  # every point twice
    D = cdist(X, X)
    D[D == 0] = noise * D.max() * np.random.default_rng(0).random(np.count_nonzero(D == 0))
    D = np.maximum(D, D.T)
    options = {
        "bandwidth": 2.0,
        "kernel_params": {"diagonal": "zero"},
        "n_neighbors": None,
        "power": 2,
        "random_state": 0,
    }
    given = hs.GaussianProcessEmbedding(3, metric="precomputed", **options).fit(D)
    own = hs.GaussianProcessEmbedding(3, **options).fit(X)
    assert np.abs(given.embedding_ - own.embedding_).max() <= 1e-6 * np.abs(own.embedding_).max()
    np.testing.assert_allclose(given.transform(D), given.embedding_, atol=1e-7 * np.abs(own.embedding_).max())
