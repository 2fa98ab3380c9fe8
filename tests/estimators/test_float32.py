"""Float32 against float64, for each kind of kernel, within bounds that follow from rounding errors.

EPS = 2^-23 is twice the rounding of one operation. Points are the same numbers in both. No bound is idle: somewhere
the error reaches a 1e-5th of it.
"""

from __future__ import annotations

import numpy as np
import pytest

import heatsketch as hs
from conftest import NORMALIZATIONS
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.normalize import normalize
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.diffusion import RELATIVE_ERROR, diffuse
from heatsketch.linalg.metrics import EXPONENT_ERROR, squared_distances
from heatsketch.linalg.operators import TiledGaussianOperator

EPS = float(np.finfo(np.float32).eps)
TINY = float(np.finfo(np.float32).tiny)
PATHS = ("dense", "tiled", "neighbours", "cutoff")
N, EPSILON = 150, 0.6
X = hs.datasets.stretched_torus(N, radius=1.5, random_state=0).astype(np.float32)
# Tiles promise exponents to 1e-5; what is held is rounded once.
ENTRY = {"dense": EPS, "tiled": EXPONENT_ERROR[np.dtype(np.float32)] + 10 * EPS, "neighbours": EPS, "cutoff": EPS}


@pytest.fixture
def check():
    """Assert a bound; at the end, that it was not idle."""
    ratios = []

    def within(error: float, bound: float) -> None:
        assert error <= bound
        ratios.append(error / bound)

    yield within
    assert max(ratios) > 1e-5


def kernel(path: str, dtype: type, normalization: str = "bistochastic") -> hs.HeatKernel:
    """The heat kernel in a precision, held or formed in one of four ways."""
    points, options = X.astype(dtype), {"bandwidth": EPSILON, "normalization": normalization}
    if path == "neighbours":
        return hs.heat_kernel(points, n_neighbors=20, **options)
    if path == "cutoff":
        return hs.heat_kernel(points, cutoff=1e-4, **options)
    affinity = GaussianAffinity(points, EPSILON, dtype=dtype, tiled=path == "tiled")
    return HeatKernel.from_affinity(affinity, normalize(affinity.operator, normalization))


def entries(path: str, single: hs.HeatKernel, double: hs.HeatKernel) -> float:
    """Bound for the relative error of entries of S; as they are positive, |S_32 - S_64| <= bound |S| = bound too.

    An entry of K is off by ENTRY; a row sum by that and the n additions of float32; factors are then rounded
    themselves. Algorithm 1 (alpha = 1) takes a sum to the power -1, and another to the power -1/2 of what was divided
    by the first, twice: 1 + 1.5, twice. Bistochastic scaling passes errors of row sums on by sqrt(n) / (1 + lambda_n)
    at most, as 1 / (1 + S) does, and so it does with the residuals at which both iterations ended; its weights, where
    it has some, are powers -1 of sums.
    """
    row = ENTRY[path] + N / 2 * EPS
    if single.scaling.residual == 0.0 and single.scaling.n_iter == 2:
        return ENTRY[path] + 2 * 2.5 * row + 4 * EPS
    lowest = min(0.0, float(np.linalg.eigvalsh(double.symmetric.toarray())[0]))
    residual = single.scaling.residual + double.scaling.residual
    return ENTRY[path] + 2 * np.sqrt(N) / (1 + lowest) * (2 * row + residual) + 4 * EPS


@pytest.mark.parametrize("path", PATHS)
def test_entries_of_the_affinity(path, check):
    single, double = (kernel(path, dtype).affinity.operator.toarray() for dtype in (np.float32, np.float64))
    assert single.dtype == np.float32
    if path == "tiled":  # a relative error, by that of exponents; entries below 1e-30 are negligible
        seen = double > 1e-30
        check(np.abs(single[seen] / double[seen] - 1).max(), ENTRY[path] * (1 + -np.log(double[seen].min())))
    else:  # rounded once, half a unit
        seen = double >= TINY
        check(np.abs(single[seen] / double[seen] - 1).max(), 0.5 * EPS)
    assert np.abs(single[~seen]).max(initial=0.0) <= 1.1e-30
    check(np.abs(single - double).max(), ENTRY[path])


@pytest.mark.parametrize("d", [3, 7, 200, 2000])
def test_exponents_of_tiles(d, check):
    # On either side of the largest spread at which inner products in float32 suffice.
    points = (np.random.default_rng(d).random((60, d)) ** 8).astype(np.float32)
    D2 = squared_distances(points)
    for factor in (0.5, 2.0):
        centre = np.median(points, axis=0)
        norm = float(np.square(points.astype(np.float64) - centre).sum(axis=1).max())
        epsilon = 4 * norm * EPS / 1e-5 * max(1.0, d / 128) / factor
        found = TiledGaussianOperator(points, epsilon, dtype=np.float32).toarray().astype(np.float64)
        exact = np.exp(-D2 / epsilon)
        seen = exact > 1e-30
        z = -np.log(exact[seen])
        # The exponential itself takes the product of three numbers, each rounded: z times 4 roundings.
        excess = np.abs(np.log(found[seen]) + z) - z * 4 * EPS
        check(max(0.0, float(excess.max())), 1.5e-5)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("path", PATHS)
def test_heat_kernels(path, normalization, check):
    single, double = (kernel(path, dtype, normalization) for dtype in (np.float32, np.float64))
    S, T = single.symmetric.toarray(), double.symmetric.toarray()
    check(np.linalg.norm(S - T, 2), entries(path, single, double))
    check(np.linalg.norm(single.trivial - double.trivial), entries(path, single, double))


@pytest.mark.parametrize("normalization", ["bistochastic", "symmetric"])
@pytest.mark.parametrize("path", PATHS)
def test_powers(path, normalization, check):
    """S^t is off by t times the error of S; every product rounds, and a polynomial has its own tolerance.

    Of a polynomial of degree m each of the m products' rounding is enlarged up to m times (Chebyshev's polynomials of
    the second kind at the end of the interval), with m^2 = 2 t log(2 / tolerance).
    """
    single, double = (kernel(path, dtype, normalization) for dtype in (np.float32, np.float64))
    M = np.random.default_rng(1).normal(size=(N, 4)).astype(np.float32)
    size, tolerance = np.linalg.norm(M), RELATIVE_ERROR[np.dtype(np.float32)]
    off = entries(path, single, double)
    for t in (1, 40, 200) + ((2.5,) if double.definite else ()):
        Y, Z = (diffuse(A, M.astype(A.dtype), [t], trivial=False)[0] for A in (single, double))
        assert Y.dtype == np.float32
        rounding = N / 2 * EPS * max(t, 1.0) * (np.log(2 / tolerance) if t > 40 or t % 1 else 1.0)
        check(np.linalg.norm(Y - Z), size * (t * off + rounding + tolerance))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("n_neighbors", [None, 20])
def test_embeddings_and_distances(n_neighbors, normalization, check):
    options = {"bandwidth": EPSILON, "n_neighbors": n_neighbors, "normalization": normalization}
    path = "dense" if n_neighbors is None else "neighbours"
    sketch = {"power": 8, "random_state": 0}
    single, double = (hs.GaussianProcessEmbedding(4, **sketch, **options).fit(X.astype(t)) for t in (np.float32, float))
    assert single.embedding_.dtype == np.float32
    A, B = single.kernel_, double.kernel_
    weight = 1.0 if B.row_weight is None else float(B.row_weight.max())
    relative = entries(path, A, B)
    off = 8 * (relative + N / 2 * EPS) + 2 * relative
    G = np.linalg.norm(double.sketch_.matrix(N, 4)) / 2
    check(np.linalg.norm(single.embedding_ - double.embedding_), weight * G * off)
    pairs = np.column_stack(np.triu_indices(N, 1))[::97]
    here, there = (hs.diffusion_distances(K, 8, pairs) for K in (A, B))
    check(np.abs(here - there).max(), np.sqrt(2) * weight * off)


def test_powers_below_one_are_computed_in_float64():
    # Square roots of eigenvalues below float32's rounding would be larger than the rounding: 3e-4.
    single, double = (
        hs.GaussianProcessEmbedding(4, power=0.5, bandwidth=EPSILON, random_state=0).fit(X.astype(t)).embedding_
        for t in (np.float32, float)
    )
    assert single.dtype == np.float32
    assert np.abs(single - double).max() <= EPS * np.abs(double).max()
