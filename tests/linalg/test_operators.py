"""One contract for all operators: shape, dtype, and a product that is that of the matrix."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import sparse

import heatsketch as hs
from heatsketch._utils.registry import find_device, has_gpu
from heatsketch.linalg.operators import (
    DeflatedOperator,
    DenseOperator,
    FoldedOperator,
    ScaledOperator,
    SparseOperator,
    TiledGaussianOperator,
)

N = 37


def _symmetric(dtype=np.float64):
    rng = np.random.default_rng(0)
    B = rng.random((N, N))
    return ((B + B.T) / (2 * N)).astype(dtype)


def _sparse():
    K = _symmetric()
    return sparse.csr_array(np.where(K > 0.6 / N, K, 0.0))


def _unit():
    u = np.linspace(1, 2, N)
    return u / np.linalg.norm(u)


PROJECTOR = np.eye(N) - np.outer(_unit(), _unit())
X = np.random.default_rng(1).normal(size=(N, 3))
GAUSSIAN = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))

ORDER = np.random.default_rng(2).permutation(N)
LEFT, RIGHT = np.arange(1.0, N + 1), np.arange(2.0, N + 2)
SCALES = np.linspace(0.5, 2.0, N)
LOCAL = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / np.sqrt(np.outer(SCALES, SCALES)))
PLACES = np.arange(N) % 5


class Processor:
    """Operators on the CPU, made as by a device."""

    name = "cpu"
    dense_operator = staticmethod(DenseOperator)

    @staticmethod
    def sparse_operator(array, order=None):
        return SparseOperator(array, order=order)

    @staticmethod
    def gaussian_operator(X, epsilon, dtype=np.float32, **options):
        return TiledGaussianOperator(X, epsilon, dtype=dtype, **options)


def _ordered(device):
    return device.sparse_operator(_sparse()[ORDER][:, ORDER], ORDER)


# For each operator the matrix that it must be, formed independently.
OPERATORS = {
    "dense": (lambda device: device.dense_operator(_symmetric()), _symmetric()),
    "dense float32": (lambda device: device.dense_operator(_symmetric(np.float32)), _symmetric(np.float32)),
    "sparse": (lambda device: device.sparse_operator(_sparse()), _sparse().toarray()),
    "sparse float32": (
        lambda device: device.sparse_operator(_sparse().astype(np.float32)),
        _sparse().toarray().astype(np.float32),
    ),
    "sparse in an order": (_ordered, _sparse().toarray()),
    "scaled sparse in an order": (
        lambda device: ScaledOperator(_ordered(device), LEFT, np.ones(N)),
        np.diag(LEFT) @ _sparse().toarray(),
    ),
    "deflated sparse in an order": (
        lambda device: DeflatedOperator(_ordered(device), _unit()),
        PROJECTOR @ _sparse().toarray() @ PROJECTOR,
    ),
    "scaled": (
        lambda device: ScaledOperator(device.dense_operator(_symmetric()), LEFT, RIGHT),
        np.diag(LEFT) @ _symmetric() @ np.diag(RIGHT),
    ),
    "deflated": (
        lambda device: DeflatedOperator(device.dense_operator(_symmetric()), _unit()),
        PROJECTOR @ _symmetric() @ PROJECTOR,
    ),
    "folded": (
        lambda device: FoldedOperator(device.dense_operator(_symmetric()[:5, :5]), PLACES),
        _symmetric()[np.ix_(PLACES, PLACES)],
    ),
    "Gaussian": (lambda device: device.gaussian_operator(X, 1.0, dtype=np.float64), GAUSSIAN),
    "Gaussian float32": (lambda device: device.gaussian_operator(X, 1.0), GAUSSIAN.astype(np.float32)),
    "Gaussian, local scales": (lambda device: device.gaussian_operator(X, SCALES, dtype=np.float64), LOCAL),
    "Gaussian, zero diagonal": (
        lambda device: device.gaussian_operator(X, 1.0, zero_diagonal=True, dtype=np.float64),
        GAUSSIAN - np.eye(N),
    ),
    "heat kernel": (
        lambda device: hs.heat_kernel(
            X, bandwidth=1.0, normalization="stochastic", alpha=0.0, device=_user_name(device)
        ),
        GAUSSIAN / GAUSSIAN.sum(axis=1, keepdims=True),
    ),
}


class Gathered:
    """An operator on a cluster that takes and returns NumPy arrays."""

    order = None

    def __init__(self, operator, array):
        self.operator, self._array = operator, array
        self.shape, self.dtype = operator.shape, operator.dtype

    def reordered(self):
        return self

    def __matmul__(self, V):
        product = self.operator @ self.operator.asblock(self._array(V))
        return np.array(product[np.arange(len(product))])

    def toarray(self):
        with pytest.raises(MemoryError, match="not formed"):
            self.operator.toarray()
        return self @ np.eye(N)

    def __repr__(self):
        return repr(self.operator)


@cache
def _on_dask(name):
    da = pytest.importorskip("dask.array")
    points = da.from_array(X, chunks=(15, -1))
    options = {"bandwidth": 1.0, "normalization": "stochastic", "alpha": 0.0, "n_neighbors": None}
    if name == "neighbours":
        options["n_neighbors"] = 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heatsketch.backends.dask.layout.CHUNK_ROWS", 10)
        there, here = (hs.heat_kernel(given, **options) for given in (points, X))
    operators = [kernel if name == "heat kernel" else kernel.affinity.operator for kernel in (there, here)]
    if name == "deflated":
        operators = [there.deflated, here.deflated]
    return Gathered(operators[0], lambda V: da.from_array(V, chunks=(12,) * V.ndim)), operators[1].toarray()


DASK_OPERATORS = ("every pair", "neighbours", "deflated", "heat kernel")


def _user_name(device):
    return device.name if device.name == "cpu" or device.is_cuda else "torch-cpu"


def _made(name, place):
    make, matrix = OPERATORS[name]
    if place == "cpu":
        return make(Processor), matrix
    pytest.importorskip("torch")
    if place == "cuda" and not has_gpu():
        pytest.skip("there is no GPU")
    return make(find_device(place)), matrix


@pytest.fixture(
    params=[(name, place) for place in ("cpu", "torch-cpu", "cuda") for name in OPERATORS]
    + [(name, "Dask") for name in DASK_OPERATORS],
    ids=lambda param: f"{param[0]} on {param[1]}",
)
def operator(request, monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.operators.tiled.TILE", 10)
    name, place = request.param
    return _on_dask(name) if place == "Dask" else _made(name, place)


def _tolerance(operator):
    return 100 * np.finfo(operator.dtype).eps * N


def test_shape_and_dtype(operator):
    op, matrix = operator
    assert op.shape == matrix.shape
    assert op.dtype == matrix.dtype
    assert str(N) in repr(op)


@pytest.mark.parametrize("columns", [1, 5, 300])
def test_product_is_that_of_the_matrix(operator, columns):
    op, matrix = operator
    V = np.random.default_rng(2).normal(size=(N, columns))
    before = V.copy()
    out = op @ V
    assert out.dtype == op.dtype
    np.testing.assert_allclose(out, matrix @ V, atol=_tolerance(op) * np.abs(matrix @ V).max())
    np.testing.assert_array_equal(V, before)


def test_product_with_one_vector(operator):
    op, matrix = operator
    v = np.random.default_rng(3).normal(size=N)
    assert (op @ v).shape == (N,)
    np.testing.assert_allclose(op @ v, matrix @ v, atol=_tolerance(op) * np.abs(matrix @ v).max())


def test_product_is_linear_and_does_not_depend_on_the_layout(operator):
    op, _ = operator
    V = np.random.default_rng(4).normal(size=(N, 6))
    whole = op @ V
    scale = _tolerance(op) * np.abs(whole).max()
    np.testing.assert_allclose(op @ np.asfortranarray(V), whole, atol=scale)
    np.testing.assert_allclose(np.column_stack([op @ V[:, :2], op @ V[:, 2:]]), whole, atol=scale)
    np.testing.assert_allclose(op @ (2 * V[:, :3] - V[:, 3:]), 2 * whole[:, :3] - whole[:, 3:], atol=10 * scale)


def test_toarray(operator):
    op, matrix = operator
    np.testing.assert_allclose(op.toarray(), matrix, atol=_tolerance(op) * np.abs(matrix).max())
    op.toarray()[:] = np.nan  # a copy: the operator is not touched
    assert np.isfinite(op @ np.ones(N)).all()


def test_reordered_is_the_same_matrix(operator):
    op, matrix = operator
    order = np.arange(N) if op.order is None else op.order
    inside = op.reordered()
    assert inside.order is None
    V = np.random.default_rng(5).normal(size=(N, 3)).astype(op.dtype)
    expected = (matrix @ V)[order]
    np.testing.assert_allclose(inside @ V[order], expected, atol=_tolerance(op) * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("columns", "index"), [(0, "i4"), (1, "i8"), (3, "i4"), (5, "i8"), (10, "i4"), (17, "i4"), (70, "i8")]
)
def test_sparse_products_of_any_width_on_any_number_of_threads(dtype, columns, index, monkeypatch):
    rng = np.random.default_rng(columns)
    K = sparse.csr_array(np.where(rng.random((211, 211)) < 0.05, rng.random((211, 211)), 0.0))
    K = sparse.csr_array(K + K.T).astype(dtype)
    K.indices, K.indptr = K.indices.astype(index), K.indptr.astype(index)
    V = rng.normal(size=(211, columns)).astype(dtype)
    expected = K.toarray().astype(np.float64) @ V
    monkeypatch.setattr("heatsketch._utils.threads._WORTHWHILE", 0)
    products = []
    for threads in (1, 2, 5):
        monkeypatch.setattr("heatsketch._utils.threads._cores", lambda threads=threads: threads)
        products.append(SparseOperator(K) @ V)
    np.testing.assert_allclose(products[0], expected, atol=20 * np.finfo(dtype).eps * 10)
    for other in products[1:]:
        np.testing.assert_array_equal(other, products[0])


def test_large_sparse_matrices_are_reordered(monkeypatch):
    monkeypatch.setattr("heatsketch.linalg.operators.sparse._REORDER_ENTRIES", 10)
    shuffled = np.random.default_rng(0).permutation(500)
    path = sparse.diags_array([np.ones(499), np.full(500, 2.0), np.ones(499)], offsets=[-1, 0, 1]).tocsr()
    K = sparse.csr_array(path[shuffled][:, shuffled])
    op = SparseOperator(K)
    i, j = op.reordered().array.nonzero()
    assert np.abs(i - j).max() == 1  # the path is a path again
    V = np.random.default_rng(1).normal(size=(500, 3))
    np.testing.assert_allclose(op @ V, K @ V, atol=1e-14)
    assert abs(op.array - K).max() == 0


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("columns", [None, 5])
def test_tensors_in_and_out(name, device, columns):
    """A product is a tensor on the device of its argument."""
    op, matrix = _made(name, _user_name(device))
    V = np.random.default_rng(2).normal(size=N if columns is None else (N, columns))
    there = device.tensor(V, op.dtype)
    before, expected = there.clone(), matrix @ V
    for given in (there, there.cpu()):
        out = op @ given
        assert out.device == given.device
        assert out.dtype == given.dtype
        assert tuple(out.shape) == V.shape
        np.testing.assert_allclose(out.cpu().numpy(), expected, atol=_tolerance(op) * np.abs(expected).max())
    assert bool((there == before).all())


def test_wrong_size_raises(operator):
    op, _ = operator
    with pytest.raises(ValueError, match=f"give one with {N} rows"):
        op @ np.ones(N + 1)


@pytest.mark.parametrize("make", [lambda: SparseOperator(_sparse()), lambda: TiledGaussianOperator(X, 1.0)])
def test_compiled_products_check_shapes(make):
    for V in (np.ones((N - 1, 2)), np.ones((N + 1, 2)), np.ones(N)):
        with pytest.raises(ValueError, match=f"give one with {N} rows"):
            make().matmat(V)
    np.testing.assert_array_equal(make().matmat(np.ones((N, 2), dtype=np.float32)), make().matmat(np.ones((N, 2))))


def test_sparse_entries_with_strides():
    K = _sparse()
    apart = K.copy()
    apart.data = np.repeat(K.data, 2)[::2]
    np.testing.assert_allclose(SparseOperator(apart) @ np.eye(N), K.toarray(), atol=1e-15)


def test_deflation_holds_over_many_products():
    u = np.full(N, N**-0.5)
    K = np.full((N, N), 1 / N) + 1e-3 * (np.eye(N) - 1 / N)
    op = DeflatedOperator(DenseOperator(K), u)
    V = np.random.default_rng(0).normal(size=(N, 3))
    for _ in range(100):
        V = op @ V / 1e-3
    assert np.abs(u @ V).max() < 1e-14
    assert np.abs(V).max() > 0.1


def test_deflating_keeps_small_columns_clean():
    """A component along u does not decay while the rest of its column does."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(50, 3)))[0].astype(np.float32)
    u, v, w = Q.T
    S = DenseOperator(np.outer(u, u) + np.float32(0.9) * np.outer(v, v) + np.float32(0.1) * np.outer(w, w))
    V = np.column_stack([v, np.float32(1e-7) * w])
    deflated = DeflatedOperator(S, u)
    for _ in range(20):
        V = deflated.matmat(V)
    share = np.abs(u @ V) / np.linalg.norm(V.astype(np.float64), axis=0)
    assert share.max() < 1e-5
