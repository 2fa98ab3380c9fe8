"""The Gaussian kernel of all pairs on a device, against float64: accurate whatever the data, bandwidth and columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gaussian_cases as cases
import heatsketch as hs
from gaussian_cases import Case, columns, error, operator, points, product
from heatsketch._utils.registry import find_device, has_gpu
from heatsketch.backends.torch.operators import fused_kernels

torch = pytest.importorskip("torch")

# What a product may be off by in each arithmetic; measured are mostly a tenth of these.
BOUNDS = {"halves": 2e-3, "mixed": 1e-4, "split": 5e-5, "float32": 2e-5}
# What the documentation promises of the arithmetic that is chosen.
PROMISED = 1e-4


@pytest.fixture(scope="module")
def interpreted():
    """All that was measured by a process in which Triton interprets its kernels."""
    pytest.importorskip("triton")
    paths = [str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, cases.__file__],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    if found and all("only 0-dimensional arrays can be converted" in one.get("failed", "") for one in found.values()):
        pytest.skip("this Triton's interpreter is older than this NumPy, which takes no arrays for numbers")
    return found


@pytest.fixture(params=["torch-cpu", "cuda"])
def measured(request):
    """What a function or a case gives, by its name."""
    if request.param == "cuda":
        if not has_gpu():
            pytest.skip("there is no GPU")
        device = find_device("cuda")
        if not fused_kernels(device):
            pytest.skip("Triton is not there, or not for this GPU")
        return lambda name: cases.attempt(name, device)
    found = request.getfixturevalue("interpreted")
    return found.__getitem__


def _get(measured, name):
    found = measured(name)
    assert "failed" not in found, found["failed"]
    return found


class TestFused:
    @pytest.mark.parametrize("name", cases.ARITHMETICS)
    def test_every_arithmetic(self, measured, name):
        found = _get(measured, name)
        arithmetic = cases.ARITHMETICS[name].precision
        assert found["arithmetic"] == arithmetic
        assert max(found["random"], found["ones"]) < BOUNDS[arithmetic]

    @pytest.mark.parametrize("name", cases.CHOICES)
    def test_what_is_chosen_is_accurate_enough(self, measured, name):
        found = _get(measured, name)
        assert max(found["random"], found["ones"]) < PROMISED

    def test_columns_of_very_different_sizes(self, measured):
        assert max(_get(measured, "sizes").values()) < BOUNDS["split"]

    def test_rows_at_new_points(self, measured):
        for found in _get(measured, "new_points").values():
            assert found["logs"] < 1.0
            assert found["error"] < PROMISED

    def test_points_beyond_the_others(self, measured):
        found = _get(measured, "outposts")
        assert found["arithmetic"] == "halves"  # which is enough for the cluster, and for nothing beyond it
        assert max(found["error"], found["new"]) < PROMISED

    def test_far_points_without_a_diagonal(self, measured):
        found = _get(measured, "far_without_diagonal")
        assert found["far"] == 2
        assert found["error"] < PROMISED
        assert found["rows"] < 10 * PROMISED  # of every row by itself, also where all entries are tiny

    def test_precisions_that_do_not_suit_the_points_are_refused(self, measured):
        found = _get(measured, "refused")
        assert "precision='split' was given, but 60 of 60 points lie so far out" in found["words"]
        assert found["auto"] == "float32"
        assert found["error"] < BOUNDS["float32"]

    def test_tiles_that_have_nothing_to_give_are_skipped(self, measured):
        for found in _get(measured, "skipping").values():
            assert found["share"] < 0.9
            assert found["error"] < PROMISED

    def test_order_and_repetition(self, measured):
        found = _get(measured, "order")
        assert found["equal"]
        assert found["error"] < BOUNDS["split"]

    def test_out_of_memory(self, measured):
        found = _get(measured, "out_of_memory")
        # Twice with too many columns, then with fewer, and so from then on; the 33rd is alone.
        assert found["widths"] == [64, 32, 16, 16, 1, 1, 16, 16, 1, 16]
        assert max(found["error"], found["after"]) < 1e-6
        assert found["new"] < BOUNDS["split"]
        assert "61 points with 33 columns does not fit into the memory" in found["words"]
        assert "n_neighbors=32" in found["words"]


@pytest.fixture(scope="module")
def gpu():
    if not has_gpu() or not fused_kernels(find_device("cuda")):
        pytest.skip("there is no GPU that Triton compiles for")
    return find_device("cuda")


class TestLarge:
    """What only a GPU can do in a test's time."""

    @pytest.mark.parametrize("n", [1_000, 30_000, 300_000])
    @pytest.mark.parametrize(("d", "k"), [(3, 32), (50, 17), (3, 1), (50, 1)])
    def test_errors_do_not_grow_with_the_number_of_points(self, gpu, n, d, k):
        found = cases.measure(Case("a cloud", n, d, k, 0.3), gpu, n_rows=24)
        assert max(found["random"], found["ones"]) < 3e-5

    @pytest.mark.parametrize("precision", ["mixed", "split", "float32"])
    @pytest.mark.parametrize(("local", "zero"), [(True, False), (False, True), (True, True)])
    def test_local_scales_and_no_diagonal(self, gpu, precision, local, zero):
        found = cases.measure(Case("a cloud", 30_001, 17, 16, 0.3, precision, local, zero), gpu, n_rows=24)
        assert max(found["random"], found["ones"]) < BOUNDS[precision]

    @pytest.mark.parametrize("d", [50, 130, 300])
    def test_differences_of_many_features(self, gpu, d):
        found = cases.measure(Case("a cloud", 2001, d, 17, 1.0, "float32"), gpu, n_rows=100)
        assert max(found["random"], found["ones"]) < BOUNDS["float32"]

    @pytest.mark.parametrize("data", ["clusters", "an outlier", "two far clusters", "heavy tails", "pixels"])
    def test_data_that_are_not_easy(self, gpu, data):
        for factor in (1e-3, 0.1, 10.0):
            found = cases.measure(Case(data, 30_001, 10, 17, factor), gpu, n_rows=24)
            assert max(found["random"], found["ones"]) < PROMISED

    @pytest.mark.parametrize("d", [2, 30])
    def test_row_sums_of_the_bistochastic_kernel(self, gpu, d):
        X = points("a cloud", 30_000, d)
        kernel = hs.heat_kernel(X, n_neighbors=None, device="cuda")
        row_sums = kernel @ np.ones(30_000, dtype=np.float32)
        assert np.abs(row_sums - 1.0).max() < 1e-4
        several = kernel @ np.ones((30_000, 5), dtype=np.float32)
        assert np.abs(several - 1.0).max() < 2e-4  # by matrix units

    def test_products_repeat(self, gpu):
        X, V = points("a cloud", 30_000, 20), columns(30_000, 33)
        op = operator(X, 10.0, gpu)
        np.testing.assert_array_equal(op @ V, op @ V)


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


def _chunked(monkeypatch):
    monkeypatch.setattr("heatsketch.backends.torch.operators.fused_kernels", lambda device: False)


class TestChunked:
    """PyTorch alone: in float64, without Triton, and on the CPU."""

    @pytest.fixture(autouse=True)
    def without_triton(self, monkeypatch):
        _chunked(monkeypatch)

    @pytest.mark.parametrize("local", [False, True])
    @pytest.mark.parametrize("zero", [False, True])
    @pytest.mark.parametrize("shape", [(2, 1), (17, 3), (131, 50)])
    def test_products(self, device, dtype, local, zero, shape):
        n, d = shape
        case = Case("a cloud", n, d, 1, 0.3, local=local)
        X, V = points("a cloud", n, d).astype(dtype), columns(n, 17).astype(dtype)
        V[:, 0] = 1.0
        op = operator(X, case.epsilon, device, dtype=dtype, zero_diagonal=zero)
        expected = product(X, case.epsilon, V, zero=zero)
        for found in (op @ V, np.column_stack([op @ v for v in V.T])):
            assert found.dtype == dtype
            assert error(found, expected) < 200 * np.finfo(dtype).eps

    @pytest.mark.parametrize("data", ["clusters", "an outlier", "two far clusters", "far from the origin", "pixels"])
    @pytest.mark.parametrize("factor", [1e-6, 1e-2, 1.0, 1e6])
    def test_whatever_the_data(self, device, dtype, data, factor):
        X, V, epsilon = points(data, 61, 5).astype(dtype), columns(61, 3).astype(dtype), 10.0 * factor
        found = operator(X, epsilon, device, dtype=dtype) @ V
        assert error(found, product(X, epsilon, V)) < (1e-5 if dtype is np.float32 else 1e-11)

    def test_columns_of_very_different_sizes(self, device):
        X, V = points("a cloud", 61, 3), columns(61, 4) * np.array([1e-30, 1.0, 1e30, 0.0], dtype=np.float32)
        found, expected = operator(X, 2.0, device) @ V, product(X, 2.0, V)
        assert max(error(found[:, c], expected[:, c]) for c in range(3)) < 1e-5
        assert not found[:, 3].any()

    def test_rows_at_new_points(self, device):
        for found in cases.new_points(device).values():
            assert found["logs"] < 1.0
            assert found["error"] < 1e-5

    def test_order_and_repetition(self, device):
        found = cases.order(device)
        assert found["equal"]
        assert found["error"] < 1e-6

    def test_in_chunks(self, device, dtype, monkeypatch):
        X, V = points("a cloud", 131, 3), columns(131, 5)
        op = operator(X, 2.0, device, dtype=dtype, zero_diagonal=True)
        whole = op @ V
        op._kernel._entries = 1000
        np.testing.assert_allclose(op @ V, whole, rtol=1e-5 if dtype is np.float32 else 1e-13, atol=1e-6)


class TestMemory:
    @pytest.fixture
    def kernel(self, device, monkeypatch):
        """A kernel whose products run out of memory for more rows at a time than `limit`."""
        from heatsketch.backends.torch.chunked import ChunkedGaussian  # noqa: PLC0415

        _chunked(monkeypatch)
        exponents = ChunkedGaussian._exponents

        def short(self, x, scale, *, differences):
            asked.append(len(x))
            if len(x) > self.limit:
                raise torch.OutOfMemoryError("short")
            return exponents(self, x, scale, differences=differences)

        monkeypatch.setattr(ChunkedGaussian, "_exponents", short)
        asked = []
        op = operator(points("a cloud", 61, 3), 2.0, device)
        op._kernel.limit = 61
        return op, asked

    def test_fewer_rows_at_a_time(self, kernel):
        op, asked = kernel
        V = columns(61, 3)
        expected = op @ V
        asked.clear()
        op._kernel.limit = 20
        np.testing.assert_allclose(op @ V, expected, rtol=1e-5, atol=1e-6)
        assert asked[:3] == [61, 30, 15]
        asked.clear()
        np.testing.assert_allclose(op.rows(points("a cloud", 61, 3), 2.0, V)[0], expected, rtol=1e-5, atol=1e-6)
        assert max(asked) == 15  # it is remembered

    def test_nothing_fits(self, kernel):
        op, asked = kernel
        op._kernel.limit = 0
        with pytest.raises(MemoryError, match=r"a row of 61 kernel entries does not fit.*n_neighbors=32"):
            op @ columns(61, 3)
        assert asked == [61, 30, 15, 7, 3, 1]


class TestWithoutTriton:
    @pytest.mark.parametrize("missing", ["triton.runtime.interpreter", "heatsketch.backends.torch.programs"])
    def test_pytorch_alone_gives_the_same(self, device, monkeypatch, missing):
        """Triton is not installed, or does not import."""
        X, V = points("a cloud", 131, 3), columns(131, 5)
        with_it = operator(X, 2.0, device) @ V
        monkeypatch.setitem(sys.modules, missing, None)
        assert not fused_kernels(device)
        op = operator(X, 2.0, device)
        assert op.arithmetic in ("float32", "float64", "differences")
        assert error(op @ V, with_it.astype(float)) < BOUNDS["split"]

    def test_on_the_cpu_nothing_is_compiled(self):
        assert not fused_kernels(find_device("torch-cpu"))


def test_unknown_precision(device):
    with pytest.raises(ValueError, match="precision='double' is not known; use one of"):
        operator(points("a cloud", 5, 2), 1.0, device, precision="double")
    with pytest.raises(ValueError, match="precision='double' is not known; use one of"):
        hs.heat_kernel(points("a cloud", 5, 2), precision="double")
