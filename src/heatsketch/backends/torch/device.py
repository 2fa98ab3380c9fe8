"""Devices of PyTorch, and the backend that handles tensors passed in by users.

PyTorch is imported when it is first needed. If it is missing, the error names the extra that installs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..._utils.array import to_numpy
from ..._utils.extras import optional

__all__ = ["Device", "TorchBackend", "backend", "computing", "device_of", "full_precision"]

# Files that a GPU driver creates on Linux: NVIDIA, AMD, and WSL.
_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/kfd", "/dev/dxg")


def _torch() -> Any:
    return optional("torch", "compute on a GPU", "gpu")


@dataclass(frozen=True)
class Device:
    """A device of PyTorch.

    Attributes
    ----------
    name : str
        As PyTorch calls it: "cuda:0", or "cpu" for PyTorch without a GPU.
    """

    name: str

    @property
    def torch(self) -> Any:
        """The library, after the functions for tensors have been registered."""
        torch = _torch()
        import_module(f"{__package__}.operators")
        return torch

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.name.startswith("cuda")

    @property
    def chip(self) -> str:
        """The model name of a GPU; "CPU" for the CPU."""
        return str(self.torch.cuda.get_device_name(self.name)) if self.is_cuda else "CPU"

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors of a GPU; 1 for the CPU."""
        return int(self.torch.cuda.get_device_properties(self.name).multi_processor_count) if self.is_cuda else 1

    def dtype(self, dtype: Any) -> Any:
        """The torch dtype of a NumPy dtype."""
        return getattr(self.torch, np.dtype(dtype).name)

    def tensor(self, values: Any, dtype: Any = None) -> Any:
        """An array or a tensor as a tensor on this device, detached; not copied if it is one already."""
        dtype = None if dtype is None else self.dtype(dtype)
        if not isinstance(values, self.torch.Tensor):
            values = np.ascontiguousarray(values)
            values = values.astype(values.dtype.newbyteorder("="), copy=False)
            # PyTorch warns about read-only arrays, even if nothing writes to them.
            values = self.torch.from_numpy(values if values.flags.writeable else values.copy())
        return values.detach().to(device=self.name, dtype=dtype)

    def free_memory(self) -> int:
        """Free memory of a GPU in bytes, including the reserve of PyTorch's allocator."""
        cuda = self.torch.cuda
        free, _ = cuda.mem_get_info(self.name)
        return int(free + cuda.memory_reserved(self.name) - cuda.memory_allocated(self.name))

    def dense_operator(self, array: Any) -> Any:
        """Operator of a dense matrix held on the device."""
        from .operators import DeviceDenseOperator  # noqa: PLC0415

        return DeviceDenseOperator(array, self)

    def sparse_operator(self, array: Any, order: Any = None) -> Any:
        """Operator of a sparse matrix held on the device, with rows and columns in `order`."""
        from .operators import DeviceSparseOperator  # noqa: PLC0415

        return DeviceSparseOperator(array, self, order)

    def gaussian_operator(self, X: Any, epsilon: Any, **options: Any) -> Any:
        """Operator of the Gaussian kernel between all pairs of points, formed on the fly."""
        from .operators import DeviceGaussianOperator  # noqa: PLC0415

        return DeviceGaussianOperator(X, epsilon, self, **options)

    def neighbor_index(self, X: Any) -> Any:
        """Exact search for nearest neighbours by the Euclidean distance."""
        from .nearest import DeviceIndex  # noqa: PLC0415

        return DeviceIndex(X, self)


class TorchBackend:
    """PyTorch as a backend of heatsketch; see :mod:`heatsketch._utils.registry`."""

    distributed = False

    def find_device(self, name: str) -> Device:
        """The device that a user named; see :func:`heatsketch._utils.registry.find_device`."""
        torch = _torch()
        if name == "torch-cpu":
            return Device("cpu")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        number = int(name.partition(":")[2] or torch.cuda.current_device() if count else 0)
        if number >= count:
            raise ValueError(
                f"device={name!r} was given, and PyTorch {torch.__version__} finds {count or 'no'} "
                f"GPU{'s' * (count > 1)} here; use device='cpu' or 'auto', or install a build of PyTorch that fits the "
                "driver."
            )
        return Device(f"cuda:{number}")

    def has_gpu(self) -> bool:
        """Whether PyTorch sees a GPU. It is imported, which takes seconds, only if a GPU driver is installed."""
        has_driver = sys.platform != "linux" or any(Path(driver).exists() for driver in _DRIVERS)
        return has_driver and bool(_torch().cuda.is_available())

    def device_of(self, X: Any) -> Device | None:
        """The device that a tensor is on; None for other objects of PyTorch."""
        return device_of(X) if isinstance(X, _torch().Tensor) else None

    def table(self, X: Any) -> Any:
        """A tensor as a NumPy array with the same entries."""
        return to_numpy(X.float() if X.dtype == _torch().bfloat16 else X)

    def as_given(self, Y: Any, X: Any) -> Any:
        """An embedding as a tensor on the device of `X`."""
        return device_of(X).tensor(Y)

    def computing(self) -> Any:
        """Context manager for computations with tensors; see :func:`computing`."""
        return computing()


backend = TorchBackend()


def device_of(values: Any) -> Device:
    """The device that a tensor is on."""
    return Device(str(values.device))


@contextmanager
def computing() -> Iterator[None]:
    """Use full precision and raise MemoryError with remedies; no effect if PyTorch has not been imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    try:
        with full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"the memory of the device does not hold what is needed ({str(error).splitlines()[0]}). Free some of it, "
            "ask for fewer components, keep neighbours only (n_neighbors=32), or use device='cpu'."
        ) from error


@contextmanager
def full_precision() -> Iterator[None]:
    """Disable TF32 and other reduced precision in float32 products, whatever the user allows elsewhere."""
    # PyTorch has two settings for this and refuses to multiply if they contradict each other. The older one cannot be
    # read if the newer one allows reduced precision.
    torch = _torch()
    try:
        allowed = torch.get_float32_matmul_precision()
    except RuntimeError:
        allowed = "highest"
    backends: tuple[Any, ...] = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    newer = [matmul for matmul in backends if hasattr(matmul, "fp32_precision")]  # since PyTorch 2.9
    before = [matmul.fp32_precision for matmul in newer]
    try:
        if allowed != "highest":
            torch.set_float32_matmul_precision("highest")
        for matmul in newer:
            matmul.fp32_precision = "ieee"
        yield
    finally:
        if allowed != "highest":
            torch.set_float32_matmul_precision(allowed)
        for matmul, precision in zip(newer, before, strict=True):
            matmul.fp32_precision = precision
