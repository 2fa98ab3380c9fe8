"""Powers of the kernel: against diagonalisation, by each method, at small, real and large times."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg import diffusion
from heatsketch.linalg.diffusion import coefficients, diffuse, matrix_power
from heatsketch.linalg.sketch import GaussianSketch


def _reference(kernel, t, M, *, trivial=True):
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values = np.maximum(values, 0.0)
    if not trivial:
        values[-1] = 0.0
    return (vectors * values**t) @ (vectors.T @ M)


@pytest.fixture(scope="module")
def M():
    return GaussianSketch(0).matrix(300, 4)


def _error(Y, reference):
    return np.abs(Y - reference).max() / np.abs(reference).max()


def _counting(kernel):
    """The same kernel, and a list that grows by the shape of each block it multiplies."""
    calls = []

    class Counting(type(kernel.symmetric)):
        def matmat(self, V):
            calls.append(V.shape)
            return super().matmat(V)

    operator = Counting(kernel.symmetric.operator, kernel.symmetric.left, kernel.symmetric.right)
    return hs.HeatKernel(operator, trivial=kernel.trivial, definite=True), calls


@pytest.mark.parametrize("t", [1, 2, 8, 37, 300])
@pytest.mark.parametrize("method", ["steps", "chebyshev", "eigen", "auto"])
def test_whole_powers(kernel, M, t, method):
    reference = _reference(kernel, t, M, trivial=False)
    assert _error(diffuse(kernel, M, [t], trivial=False, method=method)[0], reference) < 1e-7
    assert _error(diffuse(kernel, M, [t], method=method)[0], _reference(kernel, t, M)) < 1e-7


@pytest.mark.parametrize(("t", "tolerance"), [(0.5, 1e-6), (0.75, 1e-6), (1.5, 1e-7), (2.5, 1e-7), (99.5, 1e-7)])
def test_real_powers(kernel, M, t, tolerance):
    assert _error(diffuse(kernel, M, [t])[0], _reference(kernel, t, M)) < tolerance


@pytest.mark.parametrize("t", [0.5, 1, 1.5, 8, 100.5])
def test_coefficients_give_the_power_after_one_product(kernel, M, t):
    Z = coefficients(kernel, M, t, trivial=False)
    assert _error(kernel.symmetric @ Z, _reference(kernel, t, M, trivial=False)) < 1e-6


def test_all_scales_come_from_one_pass(kernel, M):
    powers = [32, 2, 4, 8, 2]
    for Y, t in zip(diffuse(kernel, M, powers), powers, strict=True):
        assert _error(Y, diffuse(kernel, M, [t])[0]) < 1e-13
    counting, calls = _counting(kernel)
    diffuse(counting, M, powers)
    assert sum(shape == M.shape for shape in calls) == 32


def test_chebyshev_needs_far_fewer_products_than_steps(torus, M):
    kernel = hs.heat_kernel(torus, bandwidth=1.0)
    counting, calls = _counting(kernel)
    Y = diffuse(counting, M, [1000])[0]
    assert _error(Y, _reference(kernel, 1000, M)) < 1e-8
    assert sum(shape == M.shape for shape in calls) < 300


def test_semigroup(kernel, M):
    half = diffuse(kernel, M, [2.5])[0]
    assert _error(diffuse(kernel, half, [1.5])[0], diffuse(kernel, M, [4.0])[0]) < 1e-7


def test_square_root_is_a_square_root(kernel, M):
    half = diffuse(kernel, M, [0.5])[0]
    assert _error(diffuse(kernel, half, [0.5])[0], kernel.symmetric @ M) < 1e-6


@pytest.mark.parametrize("t", [1_000, 10_000])
def test_second_mode_survives_large_times(t):
    # lambda_2^t is far below the rounding of the trivial mode; differences must still be those of the second mode.
    theta = np.linspace(0, 2 * np.pi, 300, endpoint=False) + 0.01 * np.sin(np.arange(300))
    kernel = hs.heat_kernel(np.column_stack([np.cos(theta), np.sin(theta)]), bandwidth=0.25, tol=1e-13)
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    M = GaussianSketch(0).matrix(300, 3)
    Y = diffuse(kernel, M, [t], trivial=False)[0]
    leading = (vectors[:, -3:-1] * values[-3:-1] ** t) @ (vectors[:, -3:-1].T @ M)
    assert np.abs(leading).max() < 1e-20
    assert _error(Y, leading) < 1e-5


def test_matrix_power(kernel):
    S = kernel.symmetric.toarray()
    np.testing.assert_allclose(matrix_power(kernel, 3), S @ S @ S, atol=1e-8)
    root = matrix_power(kernel, 0.5)
    np.testing.assert_allclose(root @ root, S, atol=1e-7)
    gone = matrix_power(kernel, 3, trivial=False) @ kernel.trivial
    assert np.abs(gone).max() < 1e-12


def test_float32_stays_float32(torus, M):
    single = hs.heat_kernel(torus.astype(np.float32), bandwidth=1.0)
    double = hs.heat_kernel(torus, bandwidth=1.0)
    for t in (4, 200, 2.5):
        Y = diffuse(single, M, [t], trivial=False)[0]
        assert Y.dtype == np.float32
        assert _error(Y, diffuse(double, M, [t], trivial=False)[0]) < 1e-3


def test_indefinite_kernels_have_whole_powers_only(torus, M):
    kernel = hs.heat_kernel(torus, bandwidth=1.0, diagonal="zero")
    S = kernel.symmetric.toarray()
    for method in ("steps", "chebyshev"):
        Y = diffuse(kernel, M, [30], method=method)[0]
        np.testing.assert_allclose(Y, np.linalg.matrix_power(S, 30) @ M, atol=1e-7)
    with pytest.raises(ValueError, match=r"negative eigenvalues \(down to -0"):
        diffuse(kernel, M, [2.5])
    with pytest.raises(ValueError, match="use a whole power"):
        matrix_power(kernel, 0.5)


def test_a_matrix_without_known_trivial_mode():
    B = np.random.default_rng(0).normal(size=(30, 30))
    A = B @ B.T / 100
    np.testing.assert_allclose(diffuse(as_heat_kernel(A), np.eye(30), [3])[0], A @ A @ A, atol=1e-12)
    root = diffuse(as_heat_kernel(A), np.eye(30), [0.5])[0]
    np.testing.assert_allclose(root @ root, A, atol=1e-10)


def test_slow_convergence_is_said(kernel, M, monkeypatch):
    monkeypatch.setattr(diffusion, "_EIGEN_LIMIT", 10)
    with pytest.warns(ConvergenceWarning, match=r"known to .* not to 1.0e-10"):
        Y = diffuse(kernel, M, [0.5])[0]
    assert _error(Y, _reference(kernel, 0.5, M)) < 1e-3


@pytest.mark.parametrize("power", [0, -1, np.nan, np.inf, "8", True, 1j])
def test_bad_powers_are_refused(kernel, M, power):
    with pytest.raises(ValueError, match="must be a positive, finite number"):
        diffuse(kernel, M, [power])


def test_bad_methods_are_refused(kernel, M):
    with pytest.raises(ValueError, match="'magic' is not known"):
        diffuse(kernel, M, [2], method="magic")
    with pytest.raises(ValueError, match="takes whole powers"):
        diffuse(kernel, M, [2.5], method="steps")


@pytest.mark.parametrize("normalization", ["symmetric", "bistochastic", "stochastic"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_half_powers_of_an_ill_conditioned_kernel(normalization, dtype):
    # The circle's kernel has eigenvalues down to rounding, which S^(-1/2) enlarges: none may reach the embedding.
    X = hs.datasets.circle(300, random_state=0)
    options = {"power": 0.5, "bandwidth": 0.25, "normalization": normalization, "random_state": 0}
    model = hs.GaussianProcessEmbedding(8, **options).fit(X.astype(dtype))
    kernel = hs.heat_kernel(X, bandwidth=0.25, normalization=normalization)
    M = GaussianSketch(0).matrix(300, 8) / np.sqrt(8)
    expected = kernel.weigh_rows(diffuse(kernel, M, [0.5], trivial=not kernel.trivial_is_constant, method="eigen")[0])
    assert model.embedding_.dtype == dtype
    assert _error(model.embedding_, expected) < (1e-5 if dtype == np.float32 else 1e-6)


@pytest.mark.parametrize("power", [1.5, 60, 200])
def test_a_given_matrix_whose_definiteness_is_not_known(power):
    X = hs.datasets.circle(300, random_state=0)
    W = np.exp(-cdist(X, X, "sqeuclidean") / 0.25)
    given = hs.GaussianProcessEmbedding(3, power=power, affinity="precomputed", random_state=0).fit_transform(W)
    direct = hs.GaussianProcessEmbedding(3, power=power, bandwidth=0.25, random_state=0).fit_transform(X)
    assert _error(given, direct) < 1e-6


def test_long_path_graph_at_large_and_real_powers():
    graph = nx.path_graph(400)
    kernel = hs.heat_kernel(graph, affinity="precomputed", tol=1e-12)
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    M = GaussianSketch(0).matrix(400, 2)
    for t in (500, 2.5):
        expected = (vectors * np.maximum(values, 0) ** t) @ (vectors.T @ M)
        assert _error(diffuse(kernel, M, [t])[0], expected) < 1e-6


@pytest.mark.parametrize("graph", [nx.star_graph(5), nx.path_graph(3), nx.complete_graph(3), nx.cycle_graph(5)])
@pytest.mark.parametrize("power", [1, 7, 200])
def test_graphs_without_self_loops_oscillate_but_are_finite(graph, power):
    A = hs.heat_kernel(graph, affinity="precomputed", diagonal="keep", normalization="symmetric")
    expected = pdist(np.linalg.matrix_power(A.toarray(), power))
    pairs = np.column_stack(np.triu_indices(len(graph), 1))
    np.testing.assert_allclose(hs.diffusion_distances(A, power, pairs), expected, atol=1e-9)
    np.testing.assert_allclose(hs.diffusion_distances(A, power), expected, atol=1e-9)


@pytest.mark.parametrize("t", [20_000, 50_000, 200_000])
def test_very_large_powers_are_not_lost(t):
    # A cycle whose second eigenvalue is close to 1: at these times there is much left.
    theta = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    kernel = hs.heat_kernel(np.column_stack([np.cos(theta), np.sin(theta)]), bandwidth=2e-3, tol=1e-13)
    M = GaussianSketch(0).matrix(200, 3)
    expected = matrix_power(kernel, t, trivial=False) @ M
    assert np.abs(expected).max() > 1e-60
    assert _error(diffuse(kernel, M, [t], trivial=False)[0], expected) < 1e-5
    both = diffuse(kernel, M, [8, t], trivial=False)
    assert _error(both[1], expected) < 1e-5


def test_distances_of_tiny_coordinates_do_not_underflow():
    X = hs.datasets.circle(100, random_state=0)
    maps = hs.DiffusionMaps(2, power=9000, bandwidth=0.25).fit(X)
    assert 0 < np.abs(maps.embedding_).max() < 1e-160
    assert maps.diffusion_distances().min() > 0
    exact = hs.diffusion_distances(maps.kernel_, 9000, [[0, 1]])
    assert exact[0] == pytest.approx(maps.diffusion_distances([[0, 1]])[0], rel=1e-3)
    for exhaustive in (True, False):
        assert np.isfinite(maps.distortion(exhaustive=exhaustive).log)
