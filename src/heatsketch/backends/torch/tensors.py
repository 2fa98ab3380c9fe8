"""Tensors on a device of PyTorch: conversion, memory and precision."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

__all__ = ["TensorDevice", "computing", "device_of", "on"]

# Tensors with the entries of NumPy arrays that nobody changes, by device and the identity of the array.
_copies: dict[tuple[str, int], Any] = {}


@dataclass(frozen=True)
class TensorDevice:
    """Where tensors are.

    Attributes
    ----------
    name : str
        As PyTorch calls it: "cuda:0", or "cpu" for PyTorch without a GPU.
    """

    name: str

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.name.startswith("cuda")

    def dtype(self, dtype: Any) -> Any:
        """The torch dtype of a NumPy dtype."""
        return getattr(torch, np.dtype(dtype).name)

    def tensor(self, values: Any, dtype: Any = None) -> Any:
        """An array or a tensor as a tensor on this device, detached; not copied if it is one already, or remembered."""
        dtype = None if dtype is None else self.dtype(dtype)
        values = _copies.get((self.name, id(values)), values)
        if not isinstance(values, np.ndarray | torch.Tensor) and hasattr(values, "__dlpack__"):
            values = torch.from_dlpack(values)
        if not isinstance(values, torch.Tensor):
            values = np.ascontiguousarray(values)
            values = values.astype(values.dtype.newbyteorder("="), copy=False)
            # PyTorch warns about read-only arrays, even if nothing writes to them.
            values = torch.from_numpy(values if values.flags.writeable else values.copy())
        return values.detach().to(device=self.name, dtype=dtype)

    def remember(self, array: Any, tensor: Any) -> None:
        """Let `tensor` return this tensor for an array with the same entries, which nobody changes, while it exists."""
        key = self.name, id(array)
        _copies[key] = tensor
        weakref.finalize(array, _copies.pop, key, None)

    def free_memory(self) -> int:
        """Free memory of a GPU in bytes, including the reserve of PyTorch's allocator."""
        free, _ = torch.cuda.mem_get_info(self.name)
        return int(free + torch.cuda.memory_reserved(self.name) - torch.cuda.memory_allocated(self.name))


def device_of(values: Any) -> TensorDevice:
    """The device that a tensor is on."""
    return TensorDevice(str(values.device))


def on(values: Any) -> Any:
    """Context manager that launches programs on the GPU of a tensor; no effect for tensors in memory."""
    return torch.cuda.device(values.device) if values.is_cuda else nullcontext()


@contextmanager
def computing() -> Iterator[None]:
    """Use full precision, and raise MemoryError with remedies if the memory of a device does not suffice."""
    try:
        with _full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"the memory of the device does not hold what is needed ({str(error).splitlines()[0]}). Free some of it, "
            "ask for fewer components, keep neighbours only (n_neighbors=32), or use device='cpu'."
        ) from error


@contextmanager
def _full_precision() -> Iterator[None]:
    """Disable TF32 and other reduced precision in float32 products, even if the user allows it elsewhere."""
    # PyTorch has two settings for this and refuses to multiply if they contradict each other. The older one cannot be
    # read if the newer one allows reduced precision.
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
