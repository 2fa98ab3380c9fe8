"""Choice of a device, errors for devices and libraries that are missing, and machines with PyTorch only."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import numpy as np
import pytest

import heatsketch as hs
from heatsketch._utils.registry import computing, has_gpu
from heatsketch.kernel.cost import Work
from heatsketch.kernel.options import KernelOptions
from heatsketch.kernel.plan import predict

torch = pytest.importorskip("torch")

from heatsketch.backends.torch.device import Device  # noqa: E402

GP, DM, HS = hs.GaussianProcessEmbedding, hs.DiffusionMaps, hs.HeatSketch
X = hs.datasets.stretched_torus(50, random_state=0)


class _Absent(MetaPathFinder):
    """Hides PyTorch."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


@pytest.fixture
def no_pytorch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])


class TestErrors:
    @pytest.mark.parametrize("device", ["tpu", 3, "cuda:99"])
    def test_unknown(self, device):
        with pytest.raises(ValueError, match=f"device={device!r}"):
            GP(2, device=device).fit(X)

    def test_unknown_precision(self):
        with pytest.raises(ValueError, match="precision='double'"):
            GP(2, kernel_params={"precision": "double"}).fit(X)

    def test_no_gpu(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        for make in (lambda: GP(2, device="cuda").fit(X), lambda: hs.heat_kernel(X, device="cuda:0")):
            with pytest.raises(ValueError, match="no GPU"):
                make()
        assert not has_gpu()
        assert GP(2, device="auto").fit(X).kernel_.device is None

    @pytest.mark.usefixtures("no_pytorch")
    def test_no_pytorch(self):
        for place in ("cuda", "cuda:1", "torch-cpu"):
            with pytest.raises(ModuleNotFoundError, match=r"pip install 'heatsketch\[gpu\]'"):
                GP(2, device=place).fit(X)
            with pytest.raises(ModuleNotFoundError, match=r"torch is needed to compute on a GPU"):
                hs.heat_kernel(X, device=place)
        assert not has_gpu()
        assert GP(2, device="auto").fit(X).kernel_.device is None

    @pytest.mark.usefixtures("no_pytorch")
    def test_options_are_checked_without_pytorch(self):
        assert KernelOptions(device="cuda:7").device == "cuda:7"
        with pytest.raises(ValueError, match="device='cuda:'"):
            KernelOptions(device="cuda:")


class TestTensors:
    def test_dtypes_and_layouts(self):
        points = torch.from_numpy(X)
        Y = GP(2, device="torch-cpu", random_state=0).fit_transform(points.bfloat16())
        assert Y.dtype == torch.float32
        with pytest.raises(TypeError, match="to_dense"):
            GP(2).fit(points.to_sparse())
        with pytest.raises(ValueError, match="Complex data"):
            GP(2).fit(points.to(torch.complex64))

    def test_byte_order(self):
        A = hs.heat_kernel(X, device="torch-cpu")
        np.testing.assert_array_equal(A @ np.ones((50, 2), dtype=">f8"), A @ np.ones((50, 2)))


class TestPrecision:
    """Products of float32 have full precision, even if the user allows TF32 elsewhere."""

    def test_settings_are_restored(self):
        matmul = torch.backends.cuda.matmul
        newer = hasattr(matmul, "fp32_precision")
        try:
            torch.set_float32_matmul_precision("medium")
            with computing():
                assert torch.get_float32_matmul_precision() == "highest"
                assert not matmul.allow_tf32
            assert torch.get_float32_matmul_precision() == "medium"
            torch.set_float32_matmul_precision("highest")
            if newer:
                matmul.fp32_precision = "tf32"
                with computing():
                    assert not matmul.allow_tf32
                assert matmul.fp32_precision == "tf32"
        finally:
            if newer:
                matmul.fp32_precision = "ieee"
            torch.set_float32_matmul_precision("highest")

    def test_fits_use_full_precision(self, monkeypatch):
        seen = []
        product = torch.Tensor.__matmul__

        def watched(self, other):
            seen.append(torch.get_float32_matmul_precision())
            return product(self, other)

        monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
        torch.set_float32_matmul_precision("high")
        try:
            for model in (GP(3, n_exact=1), HS(2), HS(2, objective="bilipschitz"), DM(2)):
                model.set_params(device="torch-cpu").fit(X.astype("float32")).at_powers([2.0, 200.0])
            assert torch.get_float32_matmul_precision() == "high"
        finally:
            torch.set_float32_matmul_precision("highest")
        assert len(seen) > 20
        assert set(seen) == {"highest"}

    def test_out_of_memory(self):
        with pytest.raises(MemoryError, match="n_neighbors=32"), computing():
            raise torch.OutOfMemoryError("CUDA out of memory")


class TestCosts:
    @pytest.fixture
    def gpu(self, monkeypatch):
        device = Device("cuda:0")
        monkeypatch.setattr("heatsketch.kernel.plan.find_device", lambda name: None if name == "cpu" else device)
        monkeypatch.setattr(Device, "chip", "a chip")
        monkeypatch.setattr(Device, "multiprocessors", 100)
        monkeypatch.setattr(Device, "free_memory", lambda self: 2 * 10**9)

    @pytest.mark.usefixtures("gpu")
    def test_memory_of_a_gpu(self):
        there = KernelOptions(device="cuda", bandwidth=1.0)
        million = predict((1_000_000, 20), np.float32, there, Work(2), power=2)
        assert (million.n_neighbors, million.available) == (None, 2 * 10**9)
        assert million.fits
        assert not predict((1_000_000, 20), np.float32, there, Work(64), power=2).fits
        given = KernelOptions(affinity="precomputed", device="cuda")
        assert not predict((25_000, 25_000), np.float32, given, Work(2), power=2).fits

    @pytest.mark.usefixtures("gpu")
    def test_search_of_neighbours(self):
        """A search on a GPU takes its memory."""
        there = predict((100_000, 50), np.float32, KernelOptions(n_neighbors=32, device="cuda"), Work(4), power=2)
        assert (there.n_neighbors, there.available) == (32, 2 * 10**9)

    @pytest.mark.usefixtures("gpu")
    def test_cutoff_is_sparse(self):
        cut = [KernelOptions(cutoff=1e-6, device=place) for place in ("cuda", "cpu")]
        memory = [predict((400_000, 10), np.float32, options, Work(2), power=2).memory for options in cut]
        assert memory[0] == memory[1]


def test_broken_pytorch_means_no_gpu(monkeypatch):
    asked = []

    def broken():
        asked.append("torch")
        raise OSError("libcudart.so: cannot open shared object file")

    module = sys.modules["heatsketch.backends.torch.backend"]
    monkeypatch.setattr(module, "_DRIVERS", (__file__,))  # a driver seems to be installed
    monkeypatch.setattr(module, "_torch", broken)
    assert not has_gpu()
    assert asked
