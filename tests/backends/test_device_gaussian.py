"""Products with the Gaussian kernel of all pairs on a device, compared with float64 for hard data and bandwidths.

`TestFused` runs where Triton compiles for a GPU; `tests/slow/test_triton.py` runs it with Triton's interpreter.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import heatsketch as hs
from heatsketch._utils.array import to_numpy
from heatsketch._utils.registry import find_device
from heatsketch.kernel.normalize import normalize

torch = pytest.importorskip("torch")
from heatsketch.backends.torch.operators import DeviceGaussianOperator, fused_kernels  # noqa: E402

# Relative errors of products in each arithmetic; measured ones are mostly a tenth of these.
BOUNDS = {"halves": 2e-3, "mixed": 1e-4, "split": 5e-5, "float32": 2e-5}
# The documented bound for the arithmetic that "auto" chooses.
PROMISED = 1e-4


def points(name, n, d, seed=0):
    """Easy and hard data."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if name == "clusters":
        X = 0.1 * X + 10.0 * rng.normal(size=(5, d))[rng.integers(5, size=n)]
    elif name == "outlier":
        X[n // 2] = 1e6
    elif name == "two far clusters":
        X[: n // 2] += 1e4
    elif name == "far from the origin":
        X += 3e3
    elif name == "heavy tails":
        X = rng.standard_t(2, size=(n, d))
    elif name == "pixels":
        X = rng.integers(256, size=(n, d)).astype(float)
    return X.astype(np.float32)


def bandwidth(n, d, factor=1.0, *, local=False):
    """In units of the mean squared distance of normal points."""
    return 2.0 * d * factor * (np.exp(np.random.default_rng(3).normal(size=n)) if local else 1.0)


def columns(n, k, seed=1):
    return np.random.default_rng(seed).normal(size=(n, k)).astype(np.float32)


def product(X, epsilon, V, *, zero=False, rows=None):
    """Rows of the product in float64, by differences."""
    X, V = X.astype(np.float64), V.astype(np.float64)
    rows = np.arange(len(X)) if rows is None else rows
    scales = np.broadcast_to(np.sqrt(epsilon), len(X))
    out = np.empty((len(rows), V.shape[1]))
    for place, i in enumerate(rows):
        K = np.exp(-np.square(X - X[i]).sum(axis=1) / (scales[i] * scales))
        if zero:
            K[i] = 0.0
        out[place] = K @ V
    return out


def error(found, expected):
    """Relative error in the norm."""
    return float(np.linalg.norm(np.asarray(found, dtype=np.float64) - expected) / np.linalg.norm(expected))


def worst_error(op, X, epsilon, k, *, zero=False, n_rows=100_000):
    """Relative error of products with random columns, and with a column of ones."""
    V, ones = columns(len(X), k), np.ones((len(X), 1), dtype=np.float32)
    rows = np.arange(0, len(X), max(1, len(X) // n_rows))
    blocks = [V, ones] if k == 1 else [np.hstack([ones, V[:, 1:]])]
    found, expected = [], []
    for W in blocks:
        found += list((op @ W)[rows].T)
        expected += list(product(X, epsilon, W, zero=zero, rows=rows).T)
    one = 1 if k == 1 else 0
    random = [c for c in range(len(found)) if c != one]
    return max(error([found[c] for c in some], [expected[c] for c in some]) for some in ([one], random))


def check_new_points(device, bound):
    """Rows at points near the others, far from them, and at the same places."""
    for data, n, zero, local in (
        ("cloud", 1100, False, False),
        ("cloud", 61, True, False),
        ("cloud", 61, False, True),
        ("outlier", 301, False, False),
    ):
        X, epsilon, V = points(data, n, 3), bandwidth(n, 3, 0.3, local=local), columns(n, 3)
        new = np.vstack([points("cloud", 3, 3, 7), [[40.0, 0, 0], [1e3, -1e3, 0], [-1e5, 3.0, 1e4]], X[:3]])
        new, own = new.astype(np.float32), epsilon[:9] if local else epsilon
        products, logs = device.gaussian_operator(X, epsilon, zero_diagonal=zero).rows(new, own, V)
        D2 = np.square(new.astype(float)[:, None] - X.astype(float)[None]).sum(axis=2)
        exponents = -D2 / (np.sqrt(own).reshape(-1, 1) * np.sqrt(epsilon))
        if zero:
            exponents[D2 == 0] = -np.inf
        top = exponents.max(axis=1)
        expected = np.exp(exponents - top[:, None]) @ V.astype(float)
        np.testing.assert_allclose(logs, top, rtol=1e-12, atol=1e-4)
        found = products * np.exp(logs - top)[:, None]
        assert max(error(*rows) for rows in zip(found, expected, strict=True)) < bound


def check_sizes(device, bound, **options):
    """Columns of very different sizes, and one of zeros, side by side."""
    X, V = points("cloud", 61, 3), columns(61, 4) * np.array([1e-30, 1.0, 1e30, 0.0], dtype=np.float32)
    found, expected = device.gaussian_operator(X, 2.0, **options) @ V, product(X, 2.0, V)
    assert max(error(found[:, c], expected[:, c]) for c in range(3)) < bound
    assert not found[:, 3].any()


def check_order(device, bound):
    """Products repeat to the last bit and do not depend on the order of the points."""
    X, V, shuffled = points("cloud", 131, 3), columns(131, 17), np.random.default_rng(5).permutation(131)
    op = device.gaussian_operator(X, 2.0)
    found = op @ V
    np.testing.assert_array_equal(op @ V, found)
    assert error(device.gaussian_operator(X[shuffled], 2.0) @ V[shuffled], found[shuffled]) < bound


@pytest.fixture
def fused(device):
    if not fused_kernels(device):
        pytest.skip("Triton neither compiles for this device nor interprets")
    return device


class TestFused:
    @pytest.mark.parametrize("precision", BOUNDS)
    @pytest.mark.parametrize(
        ("n", "d", "k"), [(61, 1, 2), (2, 3, 1), (17, 17, 16), (131, 50, 17), (67, 130, 33), (45, 300, 5)]
    )
    def test_every_arithmetic(self, fused, precision, n, d, k):
        if precision == "mixed" and d > 130:
            pytest.skip("too deep for the registers")
        if precision == "float32" and d > 3 and not fused.is_cuda:
            pytest.skip("takes long in an interpreter")
        X, epsilon = points("cloud", n, d), bandwidth(n, d)
        op = fused.gaussian_operator(X, epsilon, precision=precision)
        assert op.arithmetic == precision
        assert worst_error(op, X, epsilon, k) < BOUNDS[precision]

    @pytest.mark.parametrize("precision", BOUNDS)
    @pytest.mark.parametrize(("local", "zero"), [(True, False), (False, True), (True, True)])
    def test_local_scales_and_zero_diagonal(self, fused, precision, local, zero):
        n, d, k = (30_001, 17, 16) if fused.is_cuda and precision != "halves" else (61, 3, 3)
        X, epsilon = points("cloud", n, d), bandwidth(n, d, 0.3, local=local)
        op = fused.gaussian_operator(X, epsilon, precision=precision, zero_diagonal=zero)
        assert worst_error(op, X, epsilon, k, zero=zero, n_rows=61) < BOUNDS[precision]

    @pytest.mark.parametrize("d", [1, 3, 50])
    @pytest.mark.parametrize("factor", [1e-8, 2e-3, 0.1, 1.0, 100.0, 1e8])
    def test_any_bandwidth(self, fused, d, factor):
        X, epsilon = points("cloud", 61, d), bandwidth(61, d, factor)
        assert worst_error(fused.gaussian_operator(X, epsilon), X, epsilon, 3) < PROMISED

    @pytest.mark.parametrize(
        "data", ["clusters", "outlier", "two far clusters", "far from the origin", "heavy tails", "pixels"]
    )
    @pytest.mark.parametrize(("factor", "local"), [(1e-2, False), (1.0, False), (0.1, True)])
    def test_hard_data(self, fused, data, factor, local):
        n, d, k = (30_001, 10, 17) if fused.is_cuda else (301 if data == "outlier" else 61, 3, 3)
        X, epsilon = points(data, n, d), bandwidth(n, d, factor, local=local)
        assert worst_error(fused.gaussian_operator(X, epsilon), X, epsilon, k, n_rows=61) < PROMISED

    def test_rough_products_are_taken_if_rounding_averages_out(self, fused, monkeypatch):
        from heatsketch.backends.torch import gaussian  # noqa: PLC0415 - needs Triton

        monkeypatch.setattr(gaussian, "_MANY", 0)
        X, V = points("cloud", 1100, 30), columns(1100, 5)
        inside = torch.from_numpy(V).to(fused.name)
        for epsilon, averages in ((1.0, True), (bandwidth(1100, 30), False)):
            op = fused.gaussian_operator(X, epsilon, precision="split")
            kernel, expected = op._kernel, product(X, epsilon, V)
            values = gaussian._values(inside[kernel._order])
            assert kernel._averages_out(values) is averages
            rough = kernel._rough(kernel._left, slice(0, 1100), values).cpu().numpy()[:, :5] / 2.0**gaussian.SHIFT
            order = kernel._order.cpu().numpy()
            assert error(rough, expected[order]) < (1e-6 if averages else 2e-3)  # the diagonal is exact
            assert error(op @ V, expected) < BOUNDS["split"]

    def test_scaling_starts_from_some_of_the_points(self, fused, monkeypatch):
        from heatsketch.backends.torch import gaussian  # noqa: PLC0415

        X, n = points("cloud", 1100, 3), 1100
        assert fused.gaussian_operator(X[:61], 2.0).thinned() is None
        monkeypatch.setattr(gaussian, "worth_symmetry", lambda _: True)
        op = fused.gaussian_operator(X, 2.0, precision="split")
        some, few, products = op.thinned()
        some, K = some.cpu().numpy(), product(X, 2.0, np.eye(n))
        assert len(np.unique(some)) == few.shape[0] == 69
        assert error(few.toarray(), K[np.ix_(some, some)]) < BOUNDS["split"]
        v = np.random.default_rng(0).uniform(size=69)
        assert error(products(fused.tensor(v)).cpu(), K[:, some] @ v) < BOUNDS["split"]
        found = normalize(op)
        scale = to_numpy(found.scale)
        assert abs(scale * (K @ scale) - 1.0).max() < 1e-4
        monkeypatch.setattr(DeviceGaussianOperator, "thinned", lambda _: None)
        np.testing.assert_allclose(scale, to_numpy(normalize(op).scale), rtol=1e-4)

    def test_columns_of_different_sizes(self, fused):
        check_sizes(fused, BOUNDS["split"], precision="split")
        check_sizes(fused, BOUNDS["float32"], precision="float32")

    def test_rows_at_new_points(self, fused):
        check_new_points(fused, PROMISED)

    def test_two_points_outside_a_cluster(self, fused):
        """A column that is nonzero at these points only: the arithmetic must suit them too."""
        X = 0.02 * np.random.default_rng(0).normal(size=(300, 3))
        X[:2] += 1.03
        X, V = X.astype(np.float32), np.eye(300, 1) + np.eye(300, 1, k=-1)
        assert error(fused.gaussian_operator(X, 1.0) @ V, product(X, 1.0, V)) < PROMISED
        inner, new = fused.gaussian_operator(X[2:], 1.0), X[:1] + np.float32(0.3)
        assert inner.arithmetic == "halves"
        products, logs = inner.rows(new, 1.0, np.ones((298, 1)))
        row = np.exp(-np.square(new.astype(float) - X[2:].astype(float)).sum(axis=1))
        assert error(products * np.exp(logs)[:, None], row.sum().reshape(1, 1)) < PROMISED

    def test_far_points_with_zero_diagonal(self, fused):
        """Isolated points between clusters, whose entries are all tiny, and two points too far out for float16."""
        rng = np.random.default_rng(0)
        clusters = [0.3 * rng.normal(size=(50, 5)) + 14.0 * sign * np.eye(5)[k] for k in range(5) for sign in (1, -1)]
        isolated = np.zeros((3, 5))
        isolated[1, 1] = isolated[2, 2] = 5.5
        X = np.vstack([*clusters, isolated, [[0, 0, 0, 0, 25.0], [0, 0.5, 0, 0, 25.0]]]).astype(np.float32)
        V, rows = columns(len(X), 3), np.r_[0:500:9, 500:505]
        out = (fused.gaussian_operator(X, 1.0, zero_diagonal=True) @ V)[rows]
        expected = product(X, 1.0, V, zero=True, rows=rows)
        assert error(out, expected) < PROMISED
        assert max(error(*row) for row in zip(out, expected, strict=True)) < 10 * PROMISED

    def test_precision_that_does_not_suit_the_points(self, fused):
        angles = np.linspace(0.0, 6.0, 60)
        X, V = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32), columns(60, 3)
        with pytest.raises(ValueError, match="precision='split'"):
            fused.gaussian_operator(X, 0.001, precision="split")
        op = fused.gaussian_operator(X, 0.001)
        assert op.arithmetic == "float32"
        assert error(op @ V, product(X, 0.001, V)) < BOUNDS["float32"]

    def test_negligible_tiles_are_skipped(self, fused):
        X = np.linspace(-1, 1, 1200)[np.random.default_rng(0).permutation(1200), None].astype(np.float32)
        V, rows = columns(1200, 2), np.arange(0, 1200, 7)
        for precision in ("auto", "float32") if fused.is_cuda else ("auto",):
            op = fused.gaussian_operator(X, 0.004, precision=precision)
            assert op._kernel.share < 0.9
            assert error((op @ V)[rows], product(X, 0.004, V, rows=rows)) < PROMISED

    @pytest.mark.parametrize(("precision", "d"), [("split", 3), ("mixed", 17)])
    @pytest.mark.parametrize("local", [False, True])
    def test_single_columns_of_many_points(self, fused, precision, d, *, local):
        """Every entry is computed once, for a row and a column."""
        n = 300_001 if fused.is_cuda else 1100
        X, epsilon = points("cloud", n, d), bandwidth(n, d, local=local)
        op = fused.gaussian_operator(X, epsilon, precision=precision)
        assert op._kernel._symmetric
        assert worst_error(op, X, epsilon, 1, n_rows=24) < BOUNDS[precision]
        V = columns(n, 1)
        np.testing.assert_array_equal(op @ V, op @ V)

    def test_small_bandwidths_along_few_directions(self, fused):
        """The leading principal directions need more digits than the others, in which all points are near."""
        n, d = 5000 if fused.is_cuda else 131, 50
        X = 0.04 * points("cloud", n, d)
        X[:, :2] += np.random.default_rng(4).normal(size=(n, 2)).astype(np.float32)
        axes = np.linalg.qr(np.random.default_rng(2).normal(size=(d, d)))[0]
        X = (X @ axes).astype(np.float32)
        op = fused.gaussian_operator(X, 0.1, precision="mixed")
        assert op._kernel._split >= 2
        assert worst_error(op, X, 0.1, 3, n_rows=131) < 2e-5
        if fused.is_cuda:
            assert fused.gaussian_operator(X, 0.1).arithmetic == "mixed"

    def test_order_and_repetition(self, fused):
        check_order(fused, BOUNDS["split"])


class TestLarge:
    """Sizes that only a GPU can multiply in a test's time."""

    @pytest.fixture
    def gpu(self, fused):
        if not fused.is_cuda:
            pytest.skip("needs a GPU")
        return fused

    @pytest.mark.parametrize("n", [1_000, 30_000, 300_000])
    @pytest.mark.parametrize(("d", "k"), [(3, 32), (50, 17), (3, 1), (50, 1)])
    def test_errors_do_not_grow_with_the_number_of_points(self, gpu, n, d, k):
        X, epsilon = points("cloud", n, d), bandwidth(n, d, 0.3)
        assert worst_error(gpu.gaussian_operator(X, epsilon), X, epsilon, k, n_rows=24) < 3e-5

    @pytest.mark.parametrize("d", [2, 30])
    def test_row_sums_of_the_bistochastic_kernel(self, gpu, d):
        kernel = hs.heat_kernel(points("cloud", 30_000, d), n_neighbors=None, device="cuda")
        row_sums = kernel @ np.ones(30_000, dtype=np.float32)
        assert np.abs(row_sums - 1.0).max() < 1e-4
        several = kernel @ np.ones((30_000, 5), dtype=np.float32)
        assert np.abs(several - 1.0).max() < 2e-4  # by tensor cores

    def test_products_repeat(self, gpu):
        op, V = gpu.gaussian_operator(points("cloud", 30_000, 20), 10.0), columns(30_000, 70)
        np.testing.assert_array_equal(op @ V, op @ V)


class TestChunked:
    """PyTorch alone: in float64, without Triton, and on the CPU."""

    @pytest.fixture(autouse=True)
    def without_triton(self, monkeypatch):
        monkeypatch.setattr("heatsketch.backends.torch.operators.fused_kernels", lambda device: False)

    @pytest.fixture(params=[np.float64, np.float32])
    def dtype(self, request):
        return request.param

    @pytest.mark.parametrize(("local", "zero"), [(False, False), (True, False), (False, True), (True, True)])
    @pytest.mark.parametrize("shape", [(2, 1), (17, 3), (131, 50)])
    def test_products(self, device, dtype, monkeypatch, *, local, zero, shape):
        n, d = shape
        X, V, epsilon = points("cloud", n, d), columns(n, 17).astype(dtype), bandwidth(n, d, 0.3, local=local)
        op = device.gaussian_operator(X, epsilon, dtype=dtype, zero_diagonal=zero)
        expected = product(X, epsilon, V, zero=zero)
        for entries in (1 << 26, 1000):  # all rows at once, and row chunks
            monkeypatch.setattr("heatsketch.backends.torch.chunked._ENTRIES", entries)
            for found in (op @ V, np.column_stack([op @ v for v in V.T])):
                assert found.dtype == dtype
                assert error(found, expected) < 200 * np.finfo(dtype).eps

    @pytest.mark.parametrize("data", ["clusters", "outlier", "two far clusters", "far from the origin", "pixels"])
    @pytest.mark.parametrize("factor", [1e-6, 1e-2, 1.0, 1e6])
    def test_hard_data(self, device, dtype, data, factor):
        X, V, epsilon = points(data, 61, 5), columns(61, 3), 10.0 * factor
        found = device.gaussian_operator(X.astype(dtype), epsilon, dtype=dtype) @ V.astype(dtype)
        assert error(found, product(X, epsilon, V)) < (1e-5 if dtype is np.float32 else 1e-11)

    def test_like_the_fused_products(self, device):
        check_sizes(device, 1e-5)
        check_new_points(device, 1e-5)
        check_order(device, 1e-6)


@pytest.mark.parametrize("missing", ["triton.runtime.interpreter", "heatsketch.backends.torch.programs"])
def test_missing_triton(device, monkeypatch, missing):
    X, V = points("cloud", 131, 3), columns(131, 5)
    expected = device.gaussian_operator(X, 2.0) @ V
    monkeypatch.setitem(sys.modules, missing, None)
    assert not fused_kernels(device)
    assert error(device.gaussian_operator(X, 2.0) @ V, expected) < BOUNDS["split"]


def test_triton_is_not_used_on_the_cpu():
    pytest.importorskip("triton")
    from heatsketch.backends.torch.programs import halves_kernel  # noqa: PLC0415

    interpreted = not hasattr(halves_kernel, "arg_names")
    assert fused_kernels(find_device("torch-cpu")) == interpreted
