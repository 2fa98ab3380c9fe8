"""Float64 against fifty digits: each formula within a bound that follows from its rounding errors.

Bounds are first-order sums of rounding errors, in units of EPS = 2^-52, twice the rounding of one operation, which
leaves room for second order. Norms are Frobenius norms: for symmetric matrices ``|f(S + D) - f(S)| <= max |f'| |D|``,
the maximum over an interval that contains both spectra.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.spatial.distance import squareform
from sklearn.exceptions import ConvergenceWarning

import extended
import heatsketch as hs
from budget import rounds
from conftest import NORMALIZATIONS
from extended import EPS, Heat, exactly, off, worst
from heatsketch.compiled.blocks import exponential
from heatsketch.linalg.diffusion import RELATIVE_ERROR, diffuse, matrix_power
from heatsketch.linalg.metrics import squared_distances
from heatsketch.linalg.operators import TiledGaussianOperator
from heatsketch.linalg.rounding import ROUNDING_ULPS

N, D, EPSILON = 10, 3, 2.0
X = np.random.default_rng(7).normal(size=(N, D))


@cache
def affinity(kind: str = "every pair"):
    """K in fifty digits, its largest exponent, and the options that give it."""
    D2 = extended.squared_distances(X)
    if kind == "self-tuning":
        epsilon = extended.local_epsilon(D2, 4)
        return extended.gaussian(D2, epsilon), (D2 / epsilon).max(), {"bandwidth": kind, "bandwidth_neighbor": 4}
    K, largest = extended.gaussian(D2, EPSILON), D2.max() / EPSILON
    if kind == "neighbours":
        return extended.neighbors_only(K, D2, 3), largest, {"bandwidth": EPSILON, "n_neighbors": 3}
    if kind == "cutoff":
        cutoff = 0.05
        assert min(abs(K.ravel() - cutoff)) > 1e-6  # no entry is a matter of rounding
        return np.where(K >= cutoff, K, extended.mp.mpf(0)), largest, {"bandwidth": EPSILON, "cutoff": cutoff}
    return K, largest, {"bandwidth": EPSILON}


@cache
def heat(normalization: str, kind: str = "every pair", alpha: float = 1.0) -> tuple[Heat, hs.HeatKernel, float]:
    """The reference, what the package finds, and a bound for the relative error of the entries of S."""
    K, largest, options = affinity(kind)
    exact = Heat(K, normalization, alpha)
    A = hs.heat_kernel(X, normalization=normalization, alpha=alpha, tol=1e-14, **options)
    return exact, A, relative_error(exact, A, (float(largest) * (D + 7) + 2) * EPS, normalization, alpha)


def relative_error(exact: Heat, A: hs.HeatKernel, rho: float, normalization: str, alpha: float) -> float:
    """Of the entries of S, from that of the entries of K.

    - Exponents z: differences, squares, a sum of D and a quotient round D + 4 times; local scales take two roots and a
      product more. An entry exp(-z) is off by the error of z, that is by ``z (D + 7)``, and rounds itself: ``rho``.
    - Sums of n positive numbers are off by rho + n; powers -alpha of them by alpha times that.
    - The scaling of Algorithm 1 takes two such sums, one to the power alpha and one to the power 1/2, and S two scales.
    - Bistochastic scaling solves ``log s + log K s w = 0``, whose derivative is I + S: symmetric with eigenvalues of at
      least 1 where K is definite, 1 + lambda_n otherwise, so that relative errors of sums reach s by at most
      ``sqrt(n) / (1 + lambda_n)``. The residual at which the iteration ended is such an error too.
    """
    n = len(exact.S)
    if normalization.startswith("bistochastic"):
        lowest = min(0.0, float(exact.values[-1]))
        weights = alpha * (rho + n * EPS) if normalization == "bistochastic-weighted" else 0.0
        scale = np.sqrt(n) / (1.0 + lowest) * (rho + n * EPS + A.scaling.residual + 2 * weights) + weights
    else:
        scale = alpha * (rho + n * EPS) + 0.5 * (1 + 2 * alpha) * (rho + n * EPS)
    return rho + 2 * scale + 8 * EPS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_exponential_is_within_two_units_in_the_last_place(dtype):
    lowest = -87.0 if dtype == np.float32 else -708.0
    values = np.append(np.random.default_rng(0).uniform(lowest, 0, 300), [0.0, -1e-30, lowest]).astype(dtype)
    found = np.empty_like(values)
    exponential(values, found)
    truth = extended._exp(exactly(values))
    assert max(abs(f - e) / np.spacing(dtype(e)) for f, e in zip(exactly(found), truth, strict=True)) <= 2.0
    exponential(dtype([10 * lowest, -np.inf]), found := np.ones(2, dtype))
    assert (found == 0.0).all()


@pytest.mark.parametrize("offset", [0.0, 1e15])
@pytest.mark.parametrize("d", [3, 20])
def test_squared_distances_of_near_points_far_from_the_origin(offset, d):
    # Few features: differences, each off by a rounding, so that squares are by two and their sum by D more.
    # Many: |a|^2 + |b|^2 - 2 a.b from a centre, sums of D products; where that is 1e-6 of the norms or less,
    # differences.
    points = np.random.default_rng(1).normal(size=(8, d))
    points[1], points[3] = points[0] + 1e-7, points[2] + 1e-3
    points += offset
    truth = extended.squared_distances(points)
    found = squared_distances(points)
    truth[truth == 0] = extended.mp.mpf(1)
    relative = (d + 3) * EPS
    if d > 16:
        relative += 2 * (d + 2) * EPS / 1e-6
    assert worst(np.where(found == 0, 1.0, found), truth) <= relative


@pytest.mark.parametrize("apart", [0.0, 1e6, 1e12])
@pytest.mark.parametrize("d", [3, 20])
def test_tiles_of_distant_clusters(apart, d, monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.operators.tiled.TILE", 4)
    # The cheapest arithmetic if its exponents are within 1e-10, otherwise differences of the points.
    points = np.random.default_rng(2).normal(size=(10, d)) + 0.3
    points[5:, 0] += apart
    K = extended.gaussian(extended.squared_distances(points), float(d))
    found = TiledGaussianOperator(points, float(d)).toarray()
    as_given = apart >= (1e6 if d == 3 else 1e8)
    assert abs(found - K).max() <= (d + 8) * EPS + (0.0 if as_given else 1e-10)


@pytest.mark.parametrize("kind", ["every pair", "self-tuning", "cutoff", "neighbours"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_heat_kernel_entries(normalization, kind):
    exact, A, relative = heat(normalization, kind)
    kept = exact.S > 0
    S = A.symmetric.toarray()
    assert (S[~kept] == 0).all()
    assert worst(S[kept], exact.S[kept]) <= relative
    assert worst(A.trivial, exact.u) <= relative


def test_random_points_in_random_units(record_property):
    rng, trials = np.random.default_rng(4), rounds(8)
    for trial in range(trials):
        n, d = int(rng.integers(3, 8)), int(rng.choice([1, 2, 5, 16, 17, 40]))
        unit, far = 10.0 ** rng.uniform(-100, 100), 10.0 ** rng.uniform(-2, 10)
        points = unit * (rng.normal(size=(n, d)) + far * rng.normal(size=d))
        epsilon = unit**2 * d * 10.0 ** rng.uniform(-0.5, 1.5)
        normalization, alpha = NORMALIZATIONS[trial % 4], float(rng.choice([0.0, 0.5, 1.0]))
        D2 = extended.squared_distances(points)
        exact = Heat(extended.gaussian(D2, epsilon), normalization, alpha)
        A = hs.heat_kernel(points, bandwidth=epsilon, normalization=normalization, alpha=alpha, tol=1e-14)
        rho = (float(D2.max() / epsilon) * (d + 7) + 2) * EPS
        if d > 16:  # by inner products from a centre that is no farther than the points are from each other
            rho += 4 * (d + 3) * float(D2.max() / epsilon) * EPS
        assert worst(A.symmetric.toarray(), exact.S) <= relative_error(exact, A, rho, normalization, alpha)
    record_property("cases", trials)


def test_affinities_over_many_orders_of_magnitude():
    # diag(c) B diag(c) has the scaling of B over c, and therefore the same heat kernel for any c.
    B = np.exp(-squared_distances(X) / EPSILON)
    c = 10.0 ** np.linspace(-35, 35, N)
    W = c[:, None] * B * c[None, :]
    exact = Heat(exactly(W), "bistochastic")
    A = hs.heat_kernel(W, affinity="precomputed", tol=1e-13)
    # As above with rho of one product, and the residual.
    relative = 2 * np.sqrt(N) * ((N + 3) * EPS + A.scaling.residual) + 8 * EPS
    assert worst(A.symmetric.toarray(), exact.S) <= relative


def slack(t: float, relative: float, exact: Heat) -> float:
    """Bound for |S^t - exact|: what S is off by, times t (for t < 1: times t lambda_n^(t-1)), and t products of n."""
    size = float(extended.mp.sqrt((exact.S**2).sum()))
    steepest = t if t >= 1 else t * (0.5 * float(exact.values[-1])) ** (t - 1.0)
    polynomial = 0.0 if float(t).is_integer() and t < 60 else RELATIVE_ERROR[np.dtype(np.float64)] * np.sqrt(N)
    return steepest * size * (relative + N * EPS) + max(t, 1.0) * N * EPS * size + polynomial


@pytest.mark.parametrize("t", [1, 200, 2.5])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_powers_and_diffusion_distances(normalization, t):
    exact, A, relative = heat(normalization)
    bound = slack(t, relative, exact)
    assert off(matrix_power(A, t), exact.power(t)) <= bound
    assert off(diffuse(A, np.eye(N), [t])[0], exact.power(t)) <= bound
    assert off(diffuse(A, np.eye(N), [t], trivial=False)[0], exact.power(t, trivial=False)) <= bound
    # A distance is that of two rows, each times its weight, which is off by as much as u is.
    weight = float(max(exact.w))
    truth = exact.distances(t)
    pairs = np.column_stack(np.triu_indices(N, 1))
    allowed = 2 * weight * (bound + relative)
    assert abs(squareform(hs.diffusion_distances(A, t)) - truth).max() <= allowed
    assert abs(hs.diffusion_distances(A, t, pairs) - truth[tuple(pairs.T)]).max() <= allowed


@pytest.mark.parametrize("t", [1e-3, 0.5])
def test_short_times(t):
    K, largest = extended.gaussian(extended.squared_distances(X), 0.2), float(extended.squared_distances(X).max()) / 0.2
    exact, A = Heat(K, "bistochastic"), hs.heat_kernel(X, bandwidth=0.2, tol=1e-14)
    assert exact.values[-1] > 0.01
    rho = (largest * (D + 7) + 2) * EPS
    # Entries that are tiny are off by much for their size; in the norm an exponent of z is worth z exp(-z) < 1 / e.
    relative = (D + 9) * EPS + 2 * np.sqrt(N) * ((D + 9 + N) * EPS + A.scaling.residual)
    assert relative < rho
    bound = slack(t, relative, exact)
    assert off(matrix_power(A, t), exact.power(t)) <= bound
    assert off(diffuse(A, np.eye(N), [t])[0], exact.power(t)) <= bound
    model = hs.GaussianProcessEmbedding(4, power=t, bandwidth=0.2, kernel_params={"tol": 1e-14}, random_state=3).fit(X)
    G = exactly(model.sketch_.matrix(N, 4)) / 2
    # Through Z = S^(t-1) M, which is larger than the embedding by 1 / lambda_n, and one product.
    through = bound / float(exact.values[-1]) * float(extended.mp.sqrt((G**2).sum()))
    assert off(model.embedding_, exact.power(t, trivial=False) @ G) <= through


@pytest.mark.parametrize("pairs", [None, [[0, 1]]])
def test_eigenvalues_below_rounding_warn(pairs):
    # Two points that nearly coincide: lambda_n = 1e-16 is rounding, and lambda_n^.001 = .96 is nearly all there is.
    close = np.vstack([X, X[:1] + 1e-8])
    A = hs.heat_kernel(close, bandwidth=EPSILON)
    assert np.isfinite(hs.diffusion_distances(A, 0.3, pairs)).all()
    with pytest.warns(ConvergenceWarning, match="known to"):
        hs.diffusion_distances(A, 1e-3, pairs)
    with pytest.warns(ConvergenceWarning, match="known to"):
        hs.DiffusionMaps(N, power=1e-3, bandwidth=EPSILON).fit(close)


@pytest.mark.parametrize("apart", [1e-7, 1e-3])
def test_nearly_coincident_points(apart):
    # Rows of two such points nearly agree, and each rounds relative to itself, so the error is absolute. For real
    # powers the polynomial adds 1e-10, and eigenvalues below rounding are lost.
    close = np.vstack([X, X[:1] + apart / np.sqrt(D)])
    n, largest = len(close), float(extended.squared_distances(close).max()) / EPSILON
    exact = Heat(extended.gaussian(extended.squared_distances(close), EPSILON), "symmetric", alpha=0.0)
    A = hs.heat_kernel(close, bandwidth=EPSILON, normalization="symmetric", alpha=0.0)
    size = float(extended.mp.sqrt((exact.S**2).sum()))
    for t in (1, 8, 1.5, 0.5):
        truth = exact.distances(t)[0, n - 1]
        rounding = max(t, 1.0) * size * (2 * (largest * (D + 7) + 2 + n) + n) * EPS
        rounding += 0.0 if float(t).is_integer() else 2e-10 + 2 * (ROUNDING_ULPS * EPS) ** t
        found = hs.diffusion_distances(A, t, [[0, n - 1]])[0]
        assert abs(found - truth) <= rounding
        if float(t).is_integer():  # the digits that are left
            assert abs(found / truth - 1) <= rounding / truth < 1e-10 / apart


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("t", [1, 100])
def test_gaussian_process_embedding(normalization, t):
    exact, _, relative = heat(normalization)
    k = 5
    options = {"power": t, "bandwidth": EPSILON, "normalization": normalization, "random_state": 11}
    model = hs.GaussianProcessEmbedding(k, kernel_params={"tol": 1e-14}, **options).fit(X)
    G = exactly(model.sketch_.matrix(N, k)) / extended.mp.sqrt(k)
    # A trivial mode that is constant is left out.
    Y = exact.w[:, None] * (exact.power(t, trivial=normalization == "symmetric") @ G)
    # A^p is off by the bound; rows are multiplied by weights that are off by `relative`, and by the row sums'
    # residual, which is in it as well.
    size = float(max(exact.w)) * float(extended.mp.sqrt((G**2).sum()))
    assert off(model.embedding_, Y) <= size * (slack(t, relative, exact) + 2 * relative)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("t", [2.5, 50])
def test_diffusion_map_coordinates(normalization, t):
    # Eigenvalues are off by what S is off by; an eigenvector by that over the distance to the nearest other eigenvalue
    # (Davis and Kahan), times 2 for the angle's chord. Coordinates come by a product of S with lambda^(t-1) v.
    exact, A, relative = heat(normalization)
    k = 4
    maps = hs.DiffusionMaps(
        k, power=t, bandwidth=EPSILON, normalization=normalization, kernel_params={"tol": 1e-14}
    ).fit(X)
    size = float(extended.mp.sqrt((exact.S**2).sum())) * (relative + 4 * N * EPS)
    for c in range(k):
        value, others = exact.values[c + 1], np.delete(exact.values, c + 1)
        gap = float(min(abs(others - value)))
        assert abs(maps.eigenvalues_[c] - value) <= size
        column = exact.w * exact.vectors[:, c + 1] * extended.mp.power(value, t)
        sign = 1 if (exactly(maps.embedding_[:, c]) * column).sum() > 0 else -1
        lam = float(value)
        bound = t * lam ** (t - 1) * size + 2 * lam**t * size / gap + lam ** (t - 1) * (N * EPS + 2 * relative)
        assert off(sign * maps.embedding_[:, c], column) <= float(max(exact.w)) * bound
    assert A.trivial is not None


@pytest.mark.parametrize("kind", ["every pair", "neighbours"])
@pytest.mark.parametrize("distance", [10.0, 200.0])
def test_distant_new_points(kind, distance):
    # A row k(x, .) is known up to a factor, which the bistochastic extension divides out: exponents are off by
    # z (D + 7), and so is the largest of them, from which they are counted.
    exact, _, relative = heat("bistochastic", kind)
    new = X[:1] + distance
    _, _, options = affinity(kind)
    model = hs.GaussianProcessEmbedding(3, power=2, kernel_params={"tol": 1e-14}, random_state=0, **options).fit(X)
    D2 = extended.squared_distances(new, X)[0]
    row = extended._exp(-D2 / EPSILON)
    if kind == "neighbours":  # those within the new point's own radius
        row = np.where(np.sort(D2)[2] >= D2, row, extended.mp.mpf(0))
    if distance > 100:
        assert float(max(row)) == 0.0  # in float64
    Z = exact.power(1, trivial=False) @ (exactly(model.sketch_.matrix(N, 3)) / extended.mp.sqrt(3))
    left = row * exact.s / (row * exact.s).sum()
    z = float(D2.max()) / EPSILON
    allowed = (4 * z * (D + 7) * EPS + 4 * relative + 4 * N * EPS) * float(abs(Z).sum())
    assert off(model.transform(new)[0], left @ Z) <= allowed
