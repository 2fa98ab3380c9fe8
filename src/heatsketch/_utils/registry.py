"""Backends: other arrays than NumPy's, and devices. A backend is loaded when one of its arrays or devices is given.

A backend is a module ``heatsketch.backends.NAME`` with an object ``backend``. No other module names one, or the library
that it is for. Arrays of other libraries on a GPU, such as CuPy's, are taken by the backend of devices through DLPack.
The object has

- ``distributed``: whether its arrays stay on a cluster;
- ``table(X)``: an array of the backend in a form that scikit-learn accepts;
- ``device_of(X)``: the device of an array, None for NumPy on the CPU;
- ``as_given(Y, X)``: an embedding Y as an array of the kind of X, on the device of X;
- ``computing()``: a context manager for computations that may use the backend.

The backend of devices also has ``find_device`` and ``has_gpu``, which the functions below call. A distributed backend
also has

- ``check_points(X, options)``: the checked input of a kernel;
- ``fit(model, X, options)`` and ``transform(model, X, out)`` of an estimator;
- ``refuse_out(out)``: raise an error if an array to write to is given;
- ``gathered(X)``: an array or frame in memory;
- ``as_frame(model, Y, index)``: an embedding as a frame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Protocol

__all__ = [
    "DEVICES",
    "Device",
    "as_given",
    "backend_of",
    "computing",
    "device_for",
    "device_of",
    "distributed_backend",
    "find_device",
    "has_gpu",
]

_PACKAGE = f"{__package__.rpartition('.')[0]}.backends"
# Backends have the name of the library whose arrays they take.
_BACKENDS = ("torch", "dask")
# Values of `device` (besides those with the number of a GPU, such as "cuda:1"), and the backend of these devices.
DEVICES = ("auto", "cpu", "cuda", "torch-cpu")
_DEVICES = "torch"
# Devices of DLPack that are GPUs: CUDA and ROCm.
_DLPACK_GPUS = (2, 10)


class Device(Protocol):
    """Where products are computed, if not by NumPy on the CPU."""

    name: str

    @property
    def chip(self) -> str:
        """The product name of the device."""

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU, which has its own memory."""

    @property
    def multiprocessors(self) -> int: ...

    def free_memory(self) -> int:
        """Free memory of a GPU in bytes."""

    def tensor(self, values: Any, dtype: Any = None) -> Any:
        """An array on the device."""

    def dense_operator(self, array: Any) -> Any:
        """Operator of a dense matrix on the device."""

    def sparse_operator(self, array: Any, order: Any = None) -> Any:
        """Operator of a sparse matrix on the device, with rows and columns in `order`."""

    def gaussian_operator(self, X: Any, epsilon: Any, **options: Any) -> Any:
        """Operator of the Gaussian kernel between all pairs of points, formed on the fly."""

    def neighbor_index(self, X: Any) -> Any:
        """Exact search for nearest neighbours."""


def _load(name: str) -> Any:
    return import_module(f"{_PACKAGE}.{name}").backend


def backend_of(X: Any) -> Any:
    """The backend for arrays of the type of `X`, or on a GPU; None for NumPy, SciPy and anything else."""
    library = type(X).__module__.partition(".")[0]
    if library in _BACKENDS:
        return _load(library)
    return _load(_DEVICES) if _is_on_gpu(X) else None


def _is_on_gpu(X: Any) -> bool:
    """Whether an array of any library is in the memory of a GPU, by DLPack."""
    if not hasattr(type(X), "__dlpack_device__"):
        return False
    try:
        return X.__dlpack_device__()[0] in _DLPACK_GPUS
    except (
        BufferError,
        RuntimeError,
        ValueError,
    ):  # on several devices, or one unknown to DLPack
        return False


def find_device(name: str) -> Device | None:
    """The device "cuda", "cuda:1" or "torch-cpu" (PyTorch without a GPU); None for "cpu", which is NumPy."""
    if name == "cpu":
        return None
    device: Device = _load(_DEVICES).find_device(name)
    return device


def has_gpu() -> bool:
    """Whether there is a GPU, and the library to compute on it."""
    try:
        return bool(_load(_DEVICES).has_gpu())
    except (ImportError, OSError):  # not installed, or it does not load
        return False


def device_of(X: Any) -> Device | None:
    """The device of an array; None for NumPy arrays."""
    backend = backend_of(X)
    return None if backend is None else backend.device_of(X)


def device_for(X: Any, wanted: str) -> str:
    """The device to compute on: for "auto" the GPU that `X` is on, if any."""
    device = device_of(X) if wanted == "auto" else None
    return wanted if device is None or not device.is_cuda else device.name


def as_given(Y: Any, X: Any) -> Any:
    """An embedding as an array of the kind of `X`, on the device of `X`."""
    backend = backend_of(X)
    return Y if backend is None else backend.as_given(Y, X)


def distributed_backend(X: Any) -> Any:
    """The backend that fits data of this type where they are; None for data in memory."""
    backend = backend_of(X)
    return backend if backend is not None and backend.distributed else None


@contextmanager
def computing() -> Iterator[None]:
    """Prepare the backends that are loaded for computations: full precision, and errors with a remedy."""
    with ExitStack() as stack:
        for name in _BACKENDS:
            backend = getattr(sys.modules.get(f"{_PACKAGE}.{name}"), "backend", None)
            if backend is not None:
                stack.enter_context(backend.computing())
        yield
