"""What must not matter: the origin, rotations, the unit, the order of rows, chunks, constant columns.

Changes that round nothing (shifts on a grid of binary fractions, powers of two, signs) change no bit. Others change
exponents by their rounding errors, and the heat kernel by that, as the bounds say; EPS = 2^-52.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import cases
from conftest import NORMALIZATIONS
from heatsketch.kernel import affinity as affinity_module
from heatsketch.kernel.affinity import GaussianAffinity
from heatsketch.kernel.normalize import normalize
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.operators import DenseOperator, TiledGaussianOperator

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
    """Largest difference of kernels whose exponents differ by `exponents`.

    Row sums then differ by as much, by n roundings and by the residuals of the scaling; ``1 / (1 + S)`` passes that on
    to the scale by at most sqrt(n) / (1 + lambda_n), and S has it twice.
    """
    lowest = min(0.0, float(np.linalg.eigvalsh(A.symmetric.toarray())[0]))
    residual = A.scaling.residual + B.scaling.residual
    return exponents + 2 * np.sqrt(N) / (1 + lowest) * (exponents + 2 * N * EPS + residual)


def exponents_of(shift: float, d: int, epsilon: float, X: np.ndarray) -> float:
    """Error of exponents if coordinates are off by `shift`: a distance by 2 sqrt(d) shift, and twice itself."""
    farthest = 2 * np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    return 2 * farthest * (2 * np.sqrt(d) * shift) / epsilon + (2 * d + 20) * EPS * farthest**2 / epsilon


@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("path", PATHS)
def test_exact_shifts_reflections_and_powers_of_two_change_no_bit(path, d):
    X, epsilon = points(d), 0.7 * d
    A = kernel(X, path, epsilon).symmetric.toarray()
    signs = np.where(np.arange(d) % 2, 1, -1)
    for Z, factor in ((X + 2.0**30, 1.0), (X * signs, 1.0), (2.0**-160 * X, 2.0**-320), (8.0 * X, 64.0)):
        np.testing.assert_array_equal(kernel(Z, path, factor * epsilon).symmetric.toarray(), A)


@pytest.mark.parametrize("rule", ["neighbor", "median", "self-tuning"])
def test_exact_shifts_and_powers_of_two_keep_bandwidth_rules(rule):
    for d in (3, 20):
        X = points(d)
        A, B, C = (kernel(Z, "dense", rule) for Z in (X, X - 2.0**30, 8.0 * X))
        np.testing.assert_array_equal(A.bandwidth, B.bandwidth)
        np.testing.assert_array_equal(64.0 * np.asarray(A.bandwidth), C.bandwidth)
        np.testing.assert_array_equal(A.toarray(), B.toarray())


@pytest.mark.parametrize("shift", [1e4, 1e12])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("path", PATHS)
def test_far_shifts_cost_only_the_rounding_of_the_data(path, d, shift):
    # That is half a unit in the last place of the shift: 7.5e-9 at 1e8.
    X, epsilon = points(d), 0.7 * d
    A, B = (kernel(Z, path, epsilon) for Z in (X, X + shift))
    bound = allowed(exponents_of(0.5 * np.spacing(shift), d, epsilon, X), A, B)
    same = (A.symmetric.toarray() > 0) == (B.symmetric.toarray() > 0)
    if path in ("neighbours", "cutoff") and shift > 1e8 and not same.all():  # pairs at the very edge may differ
        assert same.mean() > 0.999
    else:
        assert change(A, B) <= bound


@pytest.mark.parametrize("unit", [1e-100, 3.7, 1e100])
@pytest.mark.parametrize("path", PATHS)
def test_rotations_and_units_cost_only_rounding(path, unit):
    d, epsilon = 5, 3.0
    X, Q = points(d), ortho_group.rvs(5, random_state=0)
    A, B = kernel(X, path, epsilon), kernel(unit * (X @ Q), path, epsilon * unit**2)
    # Coordinates are sums of d products, and Q is orthogonal to as many roundings.
    rounding = (2 * d + 1) * EPS * np.linalg.norm(X, axis=1).max()
    assert change(A, B) <= allowed(exponents_of(rounding, d, epsilon, X), A, B)


def test_embeddings_and_distances_do_not_depend_on_axes():
    d, epsilon, t = 5, 3.0, 6
    X, Q = points(d), ortho_group.rvs(d, random_state=1)
    sketch = {"power": t, "bandwidth": epsilon, "kernel_params": {"tol": 1e-13}}
    a, b = (hs.GaussianProcessEmbedding(4, random_state=0, **sketch).fit(Z) for Z in (X, X @ Q + 1.0))
    rounding = 2 * d * EPS * (1 + np.linalg.norm(X, axis=1).max())
    bound = allowed(exponents_of(rounding, d, epsilon, X), a.kernel_, b.kernel_) + N * EPS
    G = np.linalg.norm(a.sketch_.matrix(N, 4)) / 2
    assert np.linalg.norm(a.embedding_ - b.embedding_) <= G * (t + 2) * bound
    maps, turned = (hs.DiffusionMaps(3, **sketch).fit(Z) for Z in (X, X @ Q + 1.0))
    values = np.linalg.eigvalsh(a.kernel_.symmetric.toarray())[::-1]
    for c in range(3):  # signs are fixed by the vectors themselves
        gap = min(values[c] - values[c + 1], values[c + 1] - values[c + 2])
        assert np.linalg.norm(maps.embedding_[:, c] - turned.embedding_[:, c]) <= (t + 2 / gap) * bound
    pairs = np.column_stack(np.triu_indices(N, 1))[::31]
    here, there = (hs.diffusion_distances(m.kernel_, t, pairs) for m in (a, b))
    assert np.abs(here - there).max() <= 2 * t * bound


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("path", ["dense", "neighbours", "cutoff"])
def test_order_of_rows(path, normalization):
    X, order = points(3), np.random.default_rng(0).permutation(N)
    A, B = (kernel(Z, path, normalization=normalization) for Z in (X, X[order]))
    np.testing.assert_array_equal(A.affinity.operator.toarray()[np.ix_(order, order)], B.affinity.operator.toarray())
    C = HeatKernel(DenseOperator(A.symmetric.toarray()[np.ix_(order, order)]))
    assert change(C, B) <= allowed(0.0, A, B) + 8 * N * EPS  # sums are in another order


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
    K = TiledGaussianOperator(X, 0.7 * d)
    entries, product, bound = K.toarray(), K @ V, N * EPS * (K @ np.abs(V))
    for tile in (32, 7):
        monkeypatch.setattr("heatsketch.linalg.operators.tiled.TILE", tile)
        np.testing.assert_array_equal(K.toarray(), entries)
        assert (np.abs(K @ V - product) <= bound).all()


@pytest.mark.parametrize("options", [{}, {"n_neighbors": 12}, {"kernel_params": {"cutoff": 1e-5}}], ids=str)
def test_new_points_in_batches(options):
    X, new = points(3), points(3, 40) + 0.25
    model = hs.GaussianProcessEmbedding(4, power=4, bandwidth=2.0, random_state=0, **options).fit(X)
    parts = np.vstack([model.transform(new[rows]) for rows in np.split(np.arange(40), [1, 2, 17, 30])])
    np.testing.assert_allclose(parts, model.transform(new), atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, -1e8])
@pytest.mark.parametrize("path", PATHS)
def test_constant_columns(path, constant):
    X, epsilon = points(3), 2.0
    A = kernel(X, path, epsilon)
    for more in (2, 17):
        B = kernel(np.column_stack([X, np.full((N, more), constant)]), path, epsilon)
        if 3 + more <= 6 or (path != "tiled" and 3 + more <= 16):  # differences, which are zero there
            np.testing.assert_array_equal(A.symmetric.toarray(), B.symmetric.toarray())
        else:  # inner products
            assert change(A, B) <= allowed(exponents_of(0.0, 3 + more, epsilon, X), A, B)


@pytest.mark.parametrize("constant", [1.0, 1e6])
def test_constant_columns_of_sparse_points(constant):
    # Sparse points are not centred: distances below 1e-6 of the norms are formed again from differences.
    X, epsilon = points(3), 2.0
    A = kernel(X, "dense", epsilon)
    B = kernel(sparse.csr_array(np.column_stack([X, np.full(N, constant)])), "dense", epsilon)
    norms = 2 * (np.square(X).sum(axis=1).max() + constant**2)
    near = np.square(X[:, None] - X[None]).sum(axis=2) <= 1e-6 * norms
    lost = 0.0 if near.all() else 12 * EPS * norms / epsilon
    assert change(A, B) <= allowed(lost + exponents_of(0.0, 4, epsilon, X), A, B)


@pytest.mark.parametrize("rule", [1e-4, "neighbor", "self-tuning"])
@pytest.mark.parametrize("path", ["dense", "neighbours"])
def test_points_or_their_distances(path, rule):
    X = 0.01 * points(2)
    X[: N // 2, 0] += 1e10  # small distances keep their digits beside large ones
    D, new = cdist(X, X), cdist(X[:3] + 0.001, X)
    A, B = kernel(X, path, rule), kernel(D, path, rule, metric="precomputed")
    # A distance is a root that is squared again: three roundings of exponents, and those above 40 do not matter.
    assert change(A, B) <= allowed(40 * 8 * EPS, A, B)
    rows, expected = B.rows_at_new_points(new), A.rows_at_new_points(X[:3] + 0.001)
    assert np.abs(rows - expected).max() <= allowed(40 * 8 * EPS, A, B)


@st.composite
def any_points(draw, least=2):
    """Points with ties, duplicates and scales from tiny to huge."""
    shape = draw(st.tuples(st.integers(least, 25), st.integers(1, 20)))
    elements = draw(
        st.sampled_from([st.integers(-3, 3).map(float), st.floats(-1, 1, width=32), st.floats(-1e6, 1e6, width=32)])
    )
    X = draw(hnp.arrays(np.float64, shape, elements=elements))
    return X * draw(st.sampled_from([1.0, 1e-60, 1e60]))


@st.composite
def affinities(draw):
    """Symmetric non-negative matrices with zeros, empty rows, and weights of very different size."""
    n = draw(st.integers(2, 12))
    W = draw(hnp.arrays(np.float64, (n, n), elements=st.sampled_from([0.0, 0.0, 1.0, 1e-3, 1e3])))
    return np.triu(W) + np.triu(W, 1).T


def _fit(model, X):
    """Fit, or None if the data raise a ValueError."""
    try:
        return model.fit(X)
    except ValueError:
        return None


@pytest.mark.filterwarnings("ignore:X looks like")  # such as ten rows of ones
class TestAnyData:
    @cases(30)
    @given(any_points(), st.sampled_from(NORMALIZATIONS), st.sampled_from([1, 8, 8.5]))
    def test_embeddings_are_finite_and_transform_to_themselves(self, X, normalization, power):
        before = X.copy()
        model = _fit(hs.GaussianProcessEmbedding(3, normalization=normalization, power=power), X)
        np.testing.assert_array_equal(X, before)
        if model is not None:
            Y = model.embedding_
            assert np.isfinite(Y).all()
            np.testing.assert_allclose(model.transform(X), Y, atol=1e-6 * np.abs(Y).max())

    @cases(30)
    @given(any_points(least=3), st.floats(0.01, 100))
    def test_scaling_the_data_scales_only_the_bandwidth(self, X, factor):
        try:
            a = hs.heat_kernel(X)
        except ValueError:
            return
        b = hs.heat_kernel(factor * X)
        assert b.bandwidth == pytest.approx(factor**2 * a.bandwidth, rel=1e-6)
        np.testing.assert_allclose(b.toarray(), a.toarray(), atol=1e-5)

    @cases(30)
    @given(any_points(least=4))
    def test_diffusion_maps_never_exceed_the_diffusion_distance(self, X):
        model = _fit(hs.DiffusionMaps(2, power=2), X)
        if model is not None:
            exact = hs.diffusion_distances(model.kernel_, 2)
            assert (model.diffusion_distances() <= exact + 1e-7 * exact.max()).all()

    @cases(30)
    @given(affinities(), st.sampled_from(["symmetric", "bistochastic", "stochastic"]))
    def test_affinities(self, W, normalization):
        model = _fit(hs.GaussianProcessEmbedding(3, affinity="precomputed", normalization=normalization, power=3), W)
        if model is not None:
            assert np.isfinite(model.embedding_).all()
            np.testing.assert_allclose(model.transform(W), model.embedding_, atol=1e-8)
            if normalization == "bistochastic":
                np.testing.assert_allclose(model.kernel_.toarray().sum(axis=1), 1.0, atol=1e-7)

    @cases(30)
    @given(affinities())
    def test_affinities_without_diagonal_are_bistochastic_or_raise(self, W):
        try:
            A = hs.heat_kernel(W, affinity="precomputed", diagonal="keep", max_iter=200)
        except (ValueError, ConvergenceWarning) as error:
            assert "scal" in str(error)  # noqa: PT017 - either is correct
        else:
            np.testing.assert_allclose(A.toarray().sum(axis=1), 1.0, atol=1e-7)
