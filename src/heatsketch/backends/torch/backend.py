"""PyTorch as a backend: the devices that users name, and the tensors that they pass in.

PyTorch is imported when it is first needed. If it is missing, the error names the extra that installs it.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._utils.array import array_namespace, is_array_api_obj, to_numpy
from ..._utils.extras import optional

if TYPE_CHECKING:
    from .device import Device

__all__ = ["TorchBackend", "backend"]

# Files that a GPU driver creates on Linux: NVIDIA, AMD, and WSL.
_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/kfd", "/dev/dxg")


def _torch() -> Any:
    return optional("torch", "compute on a GPU", "gpu")


class TorchBackend:
    """PyTorch as a backend, as :mod:`heatsketch._utils.registry` describes one."""

    distributed = False

    def find_device(self, name: str) -> Device:
        """The device that a user named; see :func:`heatsketch._utils.registry.find_device`."""
        torch = _torch()
        if name == "torch-cpu":
            return _device("cpu")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        number = int(name.partition(":")[2] or torch.cuda.current_device() if count else 0)
        if number >= count:
            raise ValueError(
                f"device={name!r} was given, and PyTorch {torch.__version__} finds {count or 'no'} "
                f"GPU{'s' * (count > 1)} here; use device='cpu' or 'auto', or install a build of PyTorch that fits the "
                "driver."
            )
        return _device(f"cuda:{number}")

    def has_gpu(self) -> bool:
        """Whether PyTorch sees a GPU. It is imported, which takes seconds, only if a GPU driver is installed."""
        has_driver = sys.platform != "linux" or any(Path(driver).exists() for driver in _DRIVERS)
        return has_driver and bool(_torch().cuda.is_available())

    def device_of(self, X: Any) -> Device | None:
        """The device that a tensor, or an array of another library on a GPU, is on; None for other objects."""
        X = _tensor(X)
        return _device(str(X.device)) if isinstance(X, _torch().Tensor) else None

    def table(self, X: Any) -> Any:
        """A tensor, or an array on a GPU, as a NumPy array with the same entries.

        Computations on its device use the tensor itself.
        """
        X = _tensor(X).detach()
        X = X.float() if X.dtype in (_torch().bfloat16, _torch().float16) else X
        table = to_numpy(X)
        if X.is_cuda:
            _device(str(X.device)).remember(table, X)
        return table

    def as_given(self, Y: Any, X: Any) -> Any:
        """An embedding as a tensor on the device of `X`, or as an array of the library of `X`."""
        given = _device(str(_tensor(X).device)).tensor(Y)
        if isinstance(X, _torch().Tensor) or not is_array_api_obj(X):
            return given
        return array_namespace(X).from_dlpack(given)

    def computing(self) -> Any:
        """Context manager for computations with tensors; no effect if PyTorch has not been imported."""
        if "torch" not in sys.modules:
            return nullcontext()
        from .tensors import computing  # noqa: PLC0415

        return computing()


backend = TorchBackend()


def _tensor(X: Any) -> Any:
    """An array on a GPU as a tensor that shares its memory; objects of PyTorch unchanged."""
    torch = _torch()
    return X if type(X).__module__.partition(".")[0] == "torch" else torch.from_dlpack(X)


def _device(name: str) -> Device:
    from .device import Device  # noqa: PLC0415 - imports PyTorch

    return Device(name)
