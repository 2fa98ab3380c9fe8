"""Eigenpairs: closed forms on circles and flat tori, solvers against each other, residuals."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.special import ive
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from heatsketch.kernel.operator import as_heat_kernel
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.linalg.range_finder import leading_directions


def circle_spectrum(epsilon: float, radius: float = 1.0, count: int = 200) -> np.ndarray:
    """Eigenvalues of exp(-|x-y|^2/eps) on a circle, normalised to be bistochastic: I_m(z) / I_0(z), z = 2 r^2 / eps.

    On the circle |x - y|^2 = 2 r^2 (1 - cos(angle)), so the kernel is a constant times exp(z cos(angle)), whose
    Fourier coefficients are modified Bessel functions.
    """
    m = np.abs(np.arange(-count, count + 1))
    z = 2 * radius**2 / epsilon
    return ive(m, z) / ive(0, z)


def torus_spectrum(epsilon: float, radius: float) -> np.ndarray:
    return np.sort(np.outer(circle_spectrum(epsilon), circle_spectrum(epsilon, radius)).ravel())[::-1]


@pytest.mark.parametrize("normalization", ["symmetric", "bistochastic", "stochastic"])
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_regular_circle_has_the_closed_form(normalization, epsilon):
    theta = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    X = np.column_stack([np.cos(theta), np.sin(theta)])
    maps = hs.DiffusionMaps(20, bandwidth=epsilon, normalization=normalization).fit(X)
    expected = np.sort(circle_spectrum(epsilon))[::-1][1:21]
    np.testing.assert_allclose(maps.eigenvalues_, expected, atol=1e-8)


def test_regular_flat_torus_has_the_closed_form():
    radius, epsilon = 2.5, 0.8
    u = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    v = np.linspace(0, 2 * np.pi, 45, endpoint=False)
    u, v = (a.ravel() for a in np.meshgrid(u, v))
    X = np.column_stack([np.cos(u), np.sin(u), radius * np.cos(v), radius * np.sin(v)])
    maps = hs.DiffusionMaps(30, bandwidth=epsilon).fit(X)
    np.testing.assert_allclose(maps.eigenvalues_, torus_spectrum(epsilon, radius)[1:31], atol=1e-7)


class TestSampledCircle:
    """Eigenvalues of a random sample differ from the closed form as first-order perturbation theory says.

    Write lambda_m for the closed form and R for the length of the mean of exp(2 i m theta) over the sample. To first
    order the double eigenvalue lambda_m of the bistochastic kernel splits into lambda_m (1 +- c R) with
    c = (1 - lambda_2m) / (1 + lambda_2m): the sample enters the quadratic form of cos(m theta) and sin(m theta) by
    its harmonic 2m, once through the sum and with the opposite sign, twice lambda_2m / (1 + lambda_2m), through the
    scaling. n R^2 has mean 1, so the root mean square of the deviation is lambda_m c / sqrt(n).
    """

    epsilon = 0.6

    def split(self, n, seed, m=1):
        X, theta = hs.datasets.circle(n, seed, return_parameters=True)
        exact = circle_spectrum(self.epsilon)[200:]  # m = 0, 1, 2, ...
        found = eigenpairs(hs.heat_kernel(X, bandwidth=self.epsilon), 2 * m).values[-2:]
        size = exact[m] * (1 - exact[2 * m]) / (1 + exact[2 * m])
        return found - exact[m], size, abs(np.exp(2j * m * theta).mean())

    def test_deviation_matches_theory(self):
        rest = {}
        for n in (100, 400):
            found = [self.split(n, seed) for seed in range(30)]
            rest[n] = np.mean([np.abs(d - size * R * np.array([1, -1])).max() for d, size, R in found])
        assert rest[100] < 3 / 100
        assert 2.5 < rest[100] / rest[400] < 6.5  # the remainder is O(1/n): a factor of 4
        # n R^2 is exponential: its mean over the trials has a relative standard error of 18%.
        size = found[0][1]
        assert np.mean([np.square(d) for d, _, _ in found]) == pytest.approx(size**2 / 400, rel=0.6)


def test_eigenvectors_on_the_circle_are_sines_and_cosines():
    X, theta = hs.datasets.circle(600, random_state=0, return_parameters=True)
    maps = hs.DiffusionMaps(4, bandwidth=0.2).fit(X)
    basis = np.linalg.qr(np.column_stack([f(m * theta) for m in (1, 2) for f in (np.cos, np.sin)]))[0]
    cosines = np.linalg.svd(basis.T @ maps.eigenvectors_, compute_uv=False)
    assert cosines.min() > 0.97


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_solvers_agree(solver, kernel):
    reference = np.sort(np.linalg.eigvalsh(kernel.symmetric.toarray()))[::-1][1:8]
    found = eigenpairs(kernel, 7, solver=solver)
    np.testing.assert_allclose(found.values, reference, atol=1e-8)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(7), atol=1e-8)
    measured = np.linalg.norm(kernel.symmetric.toarray() @ found.vectors - found.values * found.vectors, axis=0)
    np.testing.assert_allclose(found.residuals, measured, atol=1e-12)
    assert found.residuals.max() < 1e-7
    first = eigenpairs(kernel, 3, solver=solver)
    joined = first.join(eigenpairs(kernel, 4, solver=solver, after=first))
    np.testing.assert_allclose(joined.values, reference, atol=1e-8)
    np.testing.assert_allclose(joined.vectors.T @ joined.vectors, np.eye(7), atol=1e-6)


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_repeated_eigenvalues_are_all_found(solver):
    # Five distant clusters: eigenvalue 1 four times beside the trivial one.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 2)) + 100.0 * b for b in range(5)])
    kernel = hs.heat_kernel(X, bandwidth=2.0)
    found = eigenpairs(kernel, 6, solver=solver)
    np.testing.assert_allclose(found.values, eigenpairs(kernel, 6, solver="dense").values, atol=1e-7)
    np.testing.assert_allclose(found.values[:4], 1.0, atol=1e-7)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(6), atol=1e-6)


@pytest.mark.parametrize("groups", [3, 30])
def test_groups_of_a_sparse_kernel_are_all_found(groups):
    # As many times the eigenvalue 1 as there are groups, one of which is the trivial mode.
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(900 // groups, 5)) + 100.0 * b for b in range(groups)])
    found = eigenpairs(hs.heat_kernel(X, n_neighbors=10), groups)
    np.testing.assert_allclose(found.values[:-1], 1.0, atol=1e-7)
    assert found.values[-1] < 1.0 - 1e-4
    assert found.residuals.max() < 1e-6


def test_double_eigenvalues_of_a_sparse_circle_are_found():
    # A circulant matrix: eigenvalue (1 + 2 cos(2 pi m / n)) / 3, twice for each m from 1 on.
    n = 700
    W = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(n)) + sparse.eye_array(n))
    found = eigenpairs(hs.heat_kernel(W, affinity="precomputed", diagonal="keep"), 9)
    m = np.repeat(np.arange(1, 6), 2)[:9]
    np.testing.assert_allclose(found.values, (1 + 2 * np.cos(2 * np.pi * m / n)) / 3, atol=1e-9)


def test_invariant_subspaces_of_sparse_kernels_repeat():
    # Many equal components: an iteration from one vector breaks down at once and draws others.
    W = sparse.csr_array(sparse.kron(sparse.eye_array(100), np.ones((4, 4))))
    kernel = hs.heat_kernel(W, affinity="precomputed", diagonal="keep")
    first, second = (eigenpairs(kernel, 6, solver="arpack") for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_allclose(first.values, 1.0, atol=1e-8)


def test_eigenvalues_that_rounding_hides_do_not_warn(monkeypatch):
    # Products in half precision on a GPU are off by about this much.
    values = np.r_[1.0, 0.75 + 1e-4 * np.arange(4), np.linspace(0.0, 0.5, 145)]
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((150, 150)))[0]
    kernel = as_heat_kernel((Q * values) @ Q.T)
    monkeypatch.setattr(type(kernel.symmetric), "rounding", 5e-6)
    found = eigenpairs(kernel, 5, solver="dense")
    np.testing.assert_allclose(found.values[1:], 0.75, atol=4e-4)
    assert 1e-5 < found.residuals.max() < 4e-4


def _cycle(n: int) -> sparse.csr_array:
    """Random walk on a cycle: eigenvalues from -1 to 1, all but these two double."""
    return sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(n), dtype=float) / 2.0)


def _random(scale: float) -> sparse.csr_array:
    """A symmetric matrix with eigenvalues of both signs, of the given size."""
    A = np.random.default_rng(0).standard_normal((300, 300)) * (
        np.random.default_rng(1).uniform(size=(300, 300)) < 0.05
    )
    return sparse.csr_array(scale * (A + A.T) / np.abs(np.linalg.eigvalsh(A + A.T)).max())


def _few_large() -> sparse.csr_array:
    """Five eigenvalues above the rest, which lies between -0.9 and 0.1."""
    values = np.concatenate([np.linspace(-0.9, 0.1, 295), [0.7, 0.8, 0.9, 0.95, 1.0]])
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((300, 300)))[0]
    return sparse.csr_array((Q * values) @ Q.T)


@pytest.mark.parametrize(
    "S",
    [_cycle(400), _random(1.0), _random(0.05), _random(100.0), _few_large(), -_few_large()],
    ids=["cycle", "1", "small", "large", "few", "negative"],
)
def test_arpack_finds_the_largest_of_any_spectrum(S):
    S = (S + S.T) / 2.0
    pairs = eigenpairs(as_heat_kernel(S), 10, solver="arpack")
    np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(S.toarray())[::-1][:10], rtol=1e-7, atol=1e-7)
    assert pairs.residuals.max() < 1e-6 * max(1.0, pairs.values[0])


def test_trivial_mode_of_indefinite_kernel_is_dropped():
    # A complete graph without self-loops: eigenvalues 1 and -1/(n-1).
    W = 1.0 - np.eye(6)
    maps = hs.DiffusionMaps(5, affinity="precomputed", kernel_params={"diagonal": "keep"}, power=1).fit(W)
    np.testing.assert_allclose(maps.eigenvalues_, -0.2, atol=1e-8)


def test_all_eigenvectors_of_a_matrix():
    B = np.random.default_rng(0).normal(size=(20, 20))
    A = B @ B.T
    found = eigenpairs(as_heat_kernel(A), 20)
    np.testing.assert_allclose((found.vectors * found.values) @ found.vectors.T, A, atol=1e-10)


def test_unreached_accuracy_warns(kernel):
    with pytest.warns(ConvergenceWarning, match="residuals"):
        eigenpairs(kernel, 10, solver="randomized", max_iter=1)


def test_invalid_requests(kernel):
    with pytest.raises(ValueError, match="299"):
        eigenpairs(kernel, 300)
    with pytest.raises(ValueError, match="'power'"):
        eigenpairs(kernel, 2, solver="power")


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_bases_of_repeated_eigenvalues_do_not_depend_on_solver(solver):
    # Equally spaced points: every eigenvalue is double. Any solver finds the same vectors, wherever the cut is.
    theta = np.linspace(0, 2 * np.pi, 150, endpoint=False)
    kernel = hs.heat_kernel(np.column_stack([np.cos(theta), np.sin(theta)]), bandwidth=0.5, tol=1e-13)
    reference = eigenpairs(kernel, 8, solver="dense")
    for count in (1, 3, 4):
        found = eigenpairs(kernel, count, solver=solver, tol=1e-11)
        np.testing.assert_allclose(found.vectors, reference.vectors[:, :count], atol=1e-7)


def test_large_eigenspaces_are_complete():
    kernel = hs.heat_kernel(nx.star_graph(40), affinity="precomputed", normalization="symmetric", tol=1e-13)
    reference = eigenpairs(kernel, 39)
    for count in (1, 2, 10):  # the leaves share one eigenvalue 39 times
        np.testing.assert_allclose(eigenpairs(kernel, count).vectors, reference.vectors[:, :count], atol=1e-10)


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_low_rank_kernel_does_not_return_the_trivial_mode(solver):
    X = np.repeat(np.random.default_rng(0).normal(size=(8, 2)), 20, axis=0)  # rank 8
    kernel = hs.heat_kernel(X, bandwidth=2.0)
    found = eigenpairs(kernel, 3, solver=solver)
    np.testing.assert_allclose(found.values, np.sort(np.linalg.eigvalsh(kernel.toarray()))[::-1][1:4], atol=1e-9)
    assert np.abs(kernel.trivial @ found.vectors).max() < 1e-7


def test_small_distinct_eigenvalues_are_separated():
    X = np.sort(np.random.default_rng(0).random((300, 1)), axis=0)
    kernel = hs.heat_kernel(X, bandwidth=3.0)
    found = eigenpairs(kernel, 5, solver="dense")
    assert found.values[-1] < 1e-8
    assert (found.residuals < 1e-4 * found.values).all()


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_float32_bases_match_float64(solver):
    W = nx.to_numpy_array(nx.grid_2d_graph(12, 12, periodic=True)).astype(np.float32)
    single, double = (
        hs.heat_kernel(W.astype(t), affinity="precomputed", normalization="symmetric") for t in ("f4", "f8")
    )
    found = eigenpairs(single, 4, solver=solver, tol=1e-6)
    np.testing.assert_allclose(found.vectors, eigenpairs(double, 4).vectors, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leading_directions_of_large_data_are_nearly_optimal(dtype, monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.eigen.DENSE_LIMIT", 100)
    X = hs.datasets.stretched_torus(600, random_state=0).astype(dtype)
    kernel = hs.heat_kernel(X, bandwidth=1.0, n_neighbors=24)
    Q = leading_directions(kernel, 6, 16.0).astype(np.float64)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-5)
    assert np.abs(Q.T @ kernel.trivial).max() < 1e-5
    values, vectors = np.linalg.eigh(kernel.deflated.toarray().astype(np.float64))
    powers = np.sort(np.abs(values) ** 16)[::-1]
    least = np.sqrt(np.square(powers[6:]).sum())  # the residual of six eigenvectors (Eckart and Young)
    diffused = (vectors * np.abs(values) ** 16) @ (vectors.T @ Q)
    left = np.sqrt(np.square(powers).sum() - np.square(diffused).sum())
    assert left <= 1.05 * least
    np.testing.assert_array_equal(leading_directions(kernel, 6, 16.0), leading_directions(kernel, 6, 16.0))


def test_leading_directions_of_small_data_are_the_eigenvectors(kernel):
    np.testing.assert_allclose(leading_directions(kernel, 3, 8.0), eigenpairs(kernel, 3).vectors, atol=1e-12)
