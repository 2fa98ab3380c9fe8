"""Where products are computed: by NumPy on the CPU, or by PyTorch on a device.

What flows through the library are blocks of columns. On the CPU they are NumPy arrays; an operator on a device
multiplies tensors that lie there, and takes and gives arrays as well. PyTorch is imported here and in
:mod:`heatsketch.fused`, and only when a device is asked for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._typing import FloatArray
from .extras import optional

__all__ = [
    "DEVICES",
    "Device",
    "all_finite",
    "as_numpy",
    "beside",
    "column_norms",
    "column_products",
    "column_ranges",
    "device_of",
    "empty",
    "find_device",
    "has_cuda",
    "is_tensor",
    "like",
    "matching",
    "orthonormal",
]

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

    def dtype(self, dtype: Any) -> Any:
        """PyTorch's name of a dtype of NumPy."""
        return getattr(self.torch, np.dtype(dtype).name)

    def tensor(self, values: Any, dtype: Any = None) -> Any:
        """An array, or a tensor from anywhere, as a tensor here; not copied if it is one already."""
        dtype = None if dtype is None else self.dtype(dtype)
        if not is_tensor(values):
            values = np.ascontiguousarray(values)
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
    except ModuleNotFoundError:
        return False


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


def is_tensor(values: Any) -> bool:
    """Whether something is a tensor of PyTorch; who has one has imported the library."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_numpy(values: Any) -> Any:
    """A tensor from wherever it lies as an array; anything else as it is."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def like(values: Any, given: Any) -> Any:
    """Values as an array or as a tensor, whichever `given` is, and where it is."""
    if not is_tensor(given):
        return as_numpy(values)
    return values.to(given.device) if is_tensor(values) else Device(str(given.device)).tensor(values)


def column_norms(V: Any) -> FloatArray:
    """Euclidean norm of each column of a block, (N, k) -> (k,), as an array."""
    if is_tensor(V):
        return np.asarray(as_numpy((V * V).sum(0).sqrt()))
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", V, V)))


def device_of(values: Any) -> Device | None:
    """The device that a tensor lies on; None for an array."""
    return Device(str(values.device)) if is_tensor(values) else None


def empty(shape: tuple[int, ...], dtype: Any, device: Device | None) -> Any:
    """An array of a dtype of NumPy that is yet to be filled, or a tensor on a device."""
    if device is None:
        return np.empty(shape, dtype=dtype)
    return device.torch.empty(shape, dtype=device.dtype(dtype), device=device.name)


def matching(values: Any, given: Any) -> Any:
    """Values as `like` gives them, and in the dtype of `given`, so that both can be multiplied as they are."""
    if is_tensor(given):
        return like(values, given).to(given.dtype)
    return np.asarray(as_numpy(values)).astype(given.dtype, copy=False)


def beside(*blocks: Any) -> Any:
    """Blocks of columns side by side; as the last one is: an array, or a tensor of its dtype."""
    last = blocks[-1]
    if not is_tensor(last):
        return np.column_stack([as_numpy(block) for block in blocks])
    return _torch().cat([matching(block, last) for block in blocks], 1)


def orthonormal(V: Any) -> Any:
    """Orthonormal columns that span those of a block, (N, k) -> (N, k)."""
    return _torch().linalg.qr(V)[0] if is_tensor(V) else np.linalg.qr(V)[0]


def column_products(V: Any, W: Any) -> FloatArray:
    """Inner products of the columns of two blocks, (N, k) -> (k,), in float64, as an array."""
    if is_tensor(V):
        return np.asarray(as_numpy((V.double() * W.double()).sum(0)))
    return np.asarray(np.einsum("ij,ij->j", V, W, dtype=np.float64))


def column_ranges(V: Any) -> FloatArray:
    """Largest minus smallest entry of each column, (N, k) -> (k,), as an array."""
    if is_tensor(V):
        low, high = _torch().aminmax(V, dim=0)
        return np.asarray(as_numpy(high - low))
    return np.asarray(np.ptp(V, axis=0))


def all_finite(V: Any) -> bool:
    """Whether all entries are numbers, and finite."""
    return bool((_torch() if is_tensor(V) else np).isfinite(V).all())
