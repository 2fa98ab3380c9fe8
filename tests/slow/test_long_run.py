"""Large and small powers: accuracy of the second mode, against closed forms in fifty digits.

An error d of an eigenvalue is a relative error ``p d / lambda`` of its p-th power.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import heatsketch as hs
from extended import EPS, Heat, exactly, gaussian, mp, off, squared_distances
from heatsketch.linalg.diffusion import diffuse, matrix_power

N = 60
ANGLES = 2 * np.pi * np.arange(N) / N
CIRCLE = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])


def circle_spectrum(epsilon: float) -> list:
    """Eigenvalues of the bistochastic kernel of N points around a circle, each but the first and last twice."""
    turns = [2 * mp.pi * j / N for j in range(N)]
    row = [mp.exp(-4 * mp.sin(a / 2) ** 2 / mp.mpf(epsilon)) for a in turns]
    return [sum(k * mp.cos(m * a) for k, a in zip(row, turns, strict=True)) / sum(row) for m in range(N // 2 + 1)]


def circle_power(epsilon: float, t: float, G: np.ndarray):
    """``S^t G`` without the trivial mode, from the leading modes in closed form, and lambda_2^t."""
    values = circle_spectrum(epsilon)
    out = np.zeros(G.shape) + mp.mpf(0)
    top = mp.power(values[1], mp.mpf(t))
    for m in range(1, N // 2 + 1):
        size = mp.power(values[m], mp.mpf(t))
        if size < top * mp.mpf(10) ** -20:
            break
        weight = 2 if 2 * m < N else 1
        out = out + size * weight / N * exactly(np.cos(m * (ANGLES[:, None] - ANGLES[None, :])) @ G)
    return out, top


def relative_error(p: float, leading: float, residual: float) -> float:
    """Bound for S^p: rounding of the entries of S, N of it in sums, twice the residual, and rounding of polynomials.

    The recurrence of m products enlarges rounding up to m times, and m^2 = 2 p log(2 / 1e-10) = 47 p.
    """
    return p / leading * ((20 + 2 * N) * EPS + 2 * residual) + 47 * p * EPS + 1e-10 + 1e-13


RUNS = [(e, t, name) for e, t in ((0.25, 10_000), (0.02, 10_000.5)) for name in ("bistochastic", "symmetric")]


@pytest.mark.parametrize(("epsilon", "t", "normalization"), [*RUNS, (0.004, 1_000_000, "bistochastic")])
def test_second_mode_of_a_circle(epsilon, t, normalization):
    options = {"power": t, "bandwidth": epsilon, "normalization": normalization, "kernel_params": {"tol": 1e-14}}
    model = hs.GaussianProcessEmbedding(3, random_state=5, **options).fit(CIRCLE)
    expected, top = circle_power(epsilon, t, model.sketch_.matrix(N, 3) / np.sqrt(3))
    assert float(top) > 1e-300
    residual = model.kernel_.scaling.residual
    bound = relative_error(t, float(circle_spectrum(epsilon)[1]), residual)
    assert bound < 1e-4
    assert off(model.embedding_, expected) <= bound * float(mp.sqrt((expected**2).sum()))
    maps = hs.DiffusionMaps(2, **options).fit(CIRCLE)
    # Two columns of lambda^t sqrt(2 / N) (cos, sin), up to a rotation.
    radius = np.linalg.norm(maps.embedding_ / float(top), axis=1)
    assert np.abs(radius / np.sqrt(2 / N) - 1).max() <= bound
    pairs = [[0, 1], [0, N // 2], [3, 17]]
    chord = 2 * np.abs(np.sin((ANGLES[[0, 0, 3]] - ANGLES[[1, N // 2, 17]]) / 2)) * np.sqrt(2 / N)
    for found in (hs.diffusion_distances(maps.kernel_, t, pairs), hs.diffusion_distances(maps.kernel_, t)[[0, 29]]):
        expected_distances = [top * mp.mpf(c) for c in chord[: len(found)]]
        if t * (1 - float(circle_spectrum(epsilon)[2] / circle_spectrum(epsilon)[1])) > 50:  # no other mode is left
            assert max(abs(f / e - 1) for f, e in zip(found, expected_distances, strict=True)) <= 10 * bound


@pytest.mark.parametrize("solver", ["dense", "randomized"])
def test_large_powers_of_eigenvalues(solver):
    # An eigenvalue is within its measured residual of the truth, and in fact within its square over the gap.
    maps = hs.DiffusionMaps(
        4, power=10_000, bandwidth=0.02, solver=solver, kernel_params={"tol": 1e-14 if solver == "dense" else 1e-10}
    )
    maps.fit(CIRCLE)
    exact = circle_spectrum(0.02)
    for c, value in enumerate([exact[1], exact[1], exact[2], exact[2]]):
        allowed = maps.residuals_[c] + 2 * maps.kernel_.scaling.residual + (20 + 2 * N) * EPS
        assert abs(maps.eigenvalues_[c] - value) <= allowed
        size = mp.power(value, 10_000)
        found = mp.mpf(float(np.linalg.norm(maps.embedding_[:, c])))
        assert abs(found / size - 1) <= np.expm1(10_000 * allowed / float(value)) + 1e-12


def _clusters(gap: float) -> tuple[np.ndarray, float]:
    """Two clusters of five points whose affinity is about `gap`, and the bandwidth."""
    X = 0.2 * np.random.default_rng(3).normal(size=(10, 2))
    X[5:, 0] += np.sqrt(-np.log(gap))
    return X, 1.0


@pytest.mark.parametrize(
    ("normalization", "p"), [("bistochastic", 1_000_000), ("symmetric", 10_000), ("stochastic", 10_000)]
)
def test_nearly_disconnected_clusters(normalization, p):
    X, epsilon = _clusters(3e-13)
    exact = Heat(gaussian(squared_distances(X), epsilon), normalization)
    assert 1e-14 < 1 - exact.values[1] < 1e-10
    A = hs.heat_kernel(X, bandwidth=epsilon, normalization=normalization, tol=1e-14)
    # The second mode remains; its error is p times that of the kernel.
    value = mp.power(exact.values[1], p)
    mode = value * exact.vectors[:, 1][:, None] * exact.vectors[:, 1][None, :]
    bound = relative_error(p, 1.0, A.scaling.residual) * np.sqrt(10)
    assert bound < 1e-6
    for S in (matrix_power(A, p, trivial=False), diffuse(A, np.eye(10), [p], trivial=False)[0]):
        assert off(S, mode) <= bound
    distances = hs.diffusion_distances(A, p, [[0, 1], [0, 9]])
    truth = exact.distances(p)
    assert abs(distances[1] / truth[0, 9] - 1) <= 2 * bound * float(max(exact.w)) / float(truth[0, 9])
    # Within a cluster only rounding is left.
    assert distances[0] <= float(truth[0, 1]) + 2 * bound * float(max(exact.w))


@pytest.mark.parametrize(("n", "diagonal", "t"), [(600, "auto", 100_000), (600, "auto", 1000.0), (301, "keep", 60_001)])
def test_large_powers_of_long_cycles(n, diagonal, t):
    # The largest eigenvalues are closer together than a short Lanczos run resolves. Without self-loops the smallest
    # matters as well.
    A = hs.heat_kernel(nx.cycle_graph(n), affinity="precomputed", diagonal=diagonal, tol=1e-14)
    M, theta = np.random.default_rng(0).normal(size=(n, 2)), 2 * np.pi * np.arange(n) / n
    expected = np.zeros_like(M)
    for m in range(1, n // 2 + 1):
        value = np.cos(np.pi * m / n) ** 2 if diagonal == "auto" else np.cos(2 * np.pi * m / n)
        c, s = np.cos(m * theta), np.sin(m * theta)
        size = np.sign(value) ** (t % 2) * np.abs(value) ** t
        expected += size * (2 if 2 * m < n else 1) / n * (np.outer(c, c @ M) + np.outer(s, s @ M))
    found = diffuse(A, M, [t], trivial=False, method="chebyshev")[0]
    # A row has three entries; the closed form has t roundings itself.
    bound = t * (20 * EPS + 2 * A.scaling.residual) + 47 * t * EPS + 1e-10
    assert np.linalg.norm(found - expected) <= bound * np.linalg.norm(expected)


@pytest.mark.parametrize("decade", [-300, -306, -312, -330])
@pytest.mark.parametrize("model", [hs.GaussianProcessEmbedding, hs.DiffusionMaps])
def test_underflowing_embedding_is_rejected(model, decade):
    # The power of the second eigenvalue is a normal number down to 1e-308, and subnormal below.
    values = circle_spectrum(0.25)
    p = int(decade / mp.log10(values[1]))
    options = {"power": p, "bandwidth": 0.25, "kernel_params": {"tol": 1e-14}}
    if decade < -308:
        with pytest.raises(ValueError, match="constant"):
            model(2, **options).fit(CIRCLE)
        return
    Y = model(2, **options).fit(CIRCLE).embedding_
    Y = Y / np.abs(Y).max()
    # Both modes of the second eigenvalue and nothing else: two columns that lie in the plane of cosine and sine.
    plane = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]) * np.sqrt(2 / N)
    assert np.linalg.norm(Y - plane @ (plane.T @ Y)) <= 1e-9 * np.linalg.norm(Y)
