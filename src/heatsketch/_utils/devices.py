"""Where products are computed: by NumPy on the CPU, or by PyTorch on a device.

What flows through the library are blocks of columns. On the CPU they are NumPy arrays; an operator on a device
multiplies tensors that lie there, and takes and gives arrays as well. PyTorch is imported here and in
:mod:`heatsketch.backends.torch`, and only when a device is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .extras import optional

__all__ = [
    "DEVICES",
    "Device",
    "device_for",
    "device_of",
    "find_device",
    "has_cuda",
    "is_tensor",
    "on_device",
    "worker_has_cuda",
]

# Where Linux shows the driver of a GPU: NVIDIA's, AMD's, and that of Windows below.
_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/kfd", "/dev/dxg")
# What `device` may be, beside the number of a GPU as in "cuda:1".
DEVICES = ("auto", "cpu", "cuda", "torch-cpu")


@dataclass(frozen=True)
class Device:
    """A device of PyTorch.

    Attributes
    ----------
    name : str
        As PyTorch calls it: "cuda:0", or "cpu" for PyTorch without a GPU.
    """

    name: str

    @cached_property
    def torch(self) -> Any:
        """The library."""
        return _torch()

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.name.startswith("cuda")

    @property
    def chip(self) -> str:
        """What the device calls itself."""
        return str(self.torch.cuda.get_device_name(self.name)) if self.is_cuda else "CPU"

    @property
    def multiprocessors(self) -> int:
        """How many a GPU has; 1 for the CPU."""
        return int(self.torch.cuda.get_device_properties(self.name).multi_processor_count) if self.is_cuda else 1

    def dtype(self, dtype: Any) -> Any:
        """PyTorch's name of a dtype of NumPy."""
        return getattr(self.torch, np.dtype(dtype).name)

    def tensor(self, values: Any, dtype: Any = None) -> Any:
        """An array, or a tensor from anywhere, as a tensor here; not copied if it is one already."""
        dtype = None if dtype is None else self.dtype(dtype)
        if not is_tensor(values):
            values = np.ascontiguousarray(values)
            values = values.astype(values.dtype.newbyteorder("="), copy=False)
            # PyTorch warns of memory that it must not write to, though none of ours ever does.
            values = self.torch.from_numpy(values if values.flags.writeable else values.copy())
        return values.detach().to(device=self.name, dtype=dtype)

    def free_memory(self) -> int:
        """Bytes that may still be taken, what PyTorch holds in reserve included."""
        cuda = self.torch.cuda
        free, _ = cuda.mem_get_info(self.name)
        return int(free + cuda.memory_reserved(self.name) - cuda.memory_allocated(self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.name,)


def _torch() -> Any:
    return optional("torch", "compute on a GPU", "gpu")


def has_cuda() -> bool:
    """Whether PyTorch is installed and finds a GPU."""
    try:
        return bool(_torch().cuda.is_available())
    except (ImportError, OSError):  # none, or one that does not load
        return False


def worker_has_cuda() -> bool:
    """`has_cuda` without importing PyTorch where no driver is in sight: that would take a worker 200 MB and seconds."""
    seen = sys.platform != "linux" or any(Path(driver).exists() for driver in _DRIVERS)
    return seen and has_cuda()


def find_device(name: str) -> Device | None:
    """The device that a user named; None for NumPy on the CPU.

    Parameters
    ----------
    name : str
        "cpu", "cuda", "cuda:1", or "torch-cpu" for PyTorch without a GPU.

    Raises
    ------
    ModuleNotFoundError
        If PyTorch is not installed; with what installs it.
    ValueError
        If there is no such device.
    """
    if name == "cpu":
        return None
    torch = _torch()
    if name == "torch-cpu":
        return Device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = int(name.partition(":")[2] or torch.cuda.current_device() if count else 0)
    if number >= count:
        raise ValueError(
            f"device={name!r} was given, and PyTorch {torch.__version__} finds {count or 'no'} GPU{'s' * (count > 1)} "
            "here; use device='cpu' or 'auto', or install a build of PyTorch that fits the driver."
        )
    return Device(f"cuda:{number}")


@contextmanager
def on_device() -> Iterator[None]:
    """While tensors are at work: products of float32 as they are written, and a lack of memory in words."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    from ..backends.torch.precision import full_precision  # noqa: PLC0415

    try:
        with full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"the memory of the device does not hold what is needed ({str(error).splitlines()[0]}). Free some of it, "
            "ask for fewer components, keep neighbours only (n_neighbors=32), or use device='cpu'."
        ) from error


def device_for(X: Any, wanted: str) -> str:
    """Where to compute on input that has not been checked: where a tensor lies, unless something else is wanted."""
    return str(X.device) if wanted == "auto" and is_tensor(X) and X.device.type == "cuda" else wanted


def device_of(values: Any) -> Device | None:
    """The device that a tensor lies on; None for an array."""
    return Device(str(values.device)) if is_tensor(values) else None


def is_tensor(values: Any) -> bool:
    """Whether something is a tensor of PyTorch; who has one has imported the library."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)
