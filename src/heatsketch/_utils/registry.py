"""The backends by name, loaded when an array of their kind or a device is met.

A backend is a module ``heatsketch.backends.NAME`` with an object ``backend`` (`Backend`). Nothing else in the library
names one, nor the libraries that they are for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

__all__ = [
    "DEVICES",
    "Backend",
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

# Backends by the root module of the arrays that are theirs.
_BACKENDS = {"torch": "torch", "dask": "dask", "dask_expr": "dask"}
# What `device` may be, beside the number of a GPU as in "cuda:1", and the backend that has these devices.
DEVICES = ("auto", "cpu", "cuda", "torch-cpu")
_DEVICES = "torch"


class Device(Protocol):
    """Where products are computed, if not by NumPy on the CPU.

    Attributes
    ----------
    name : str
    chip : str
        What the device is called by its maker.
    is_cuda : bool
        Whether it is a GPU, with memory of its own.
    multiprocessors : int
    tile_bytes : int
        Memory that a search for neighbours takes at a time.
    """

    name: str

    @property
    def chip(self) -> str: ...

    @property
    def is_cuda(self) -> bool: ...

    @property
    def multiprocessors(self) -> int: ...

    @property
    def tile_bytes(self) -> int: ...

    def free_memory(self) -> int:
        """Bytes that may still be taken."""

    def dense_operator(self, array: Any) -> Any:
        """Operator of a matrix that is held on the device."""

    def sparse_operator(self, array: Any, order: Any = None) -> Any:
        """Operator of a sparse matrix that is held on the device, with rows and columns in `order`."""

    def gaussian_operator(self, X: Any, epsilon: Any, **options: Any) -> Any:
        """Operator of the Gaussian kernel between all pairs of points, formed on the fly."""

    def neighbor_index(self, X: Any) -> Any:
        """Exact search for nearest neighbours."""


class Backend(Protocol):
    """What a backend does with arrays of its own kind that users pass in."""

    # Whether data of this kind are fitted where they lie, by `fit` and `transform` of the backend.
    distributed: bool

    def table(self, X: Any) -> Any:
        """`X` as a table of numbers in memory, or an error."""

    def device_of(self, X: Any) -> Device | None:
        """The device that an array is on; None for the CPU by NumPy."""

    def as_given(self, Y: Any, X: Any) -> Any:
        """An embedding Y as an array of the kind of X, where X is."""

    def computing(self) -> Any:
        """Context manager for computations that may use the backend."""


def _load(name: str) -> Any:
    return import_module(f"{__package__.rpartition('.')[0]}.backends.{name}").backend


def backend_of(X: Any) -> Any:
    """The backend whose kind of array `X` is; None for arrays of NumPy and SciPy, and for anything else."""
    name = _BACKENDS.get(type(X).__module__.partition(".")[0])
    return None if name is None else _load(name)


def find_device(name: str) -> Device | None:
    """The device that a user named; None for NumPy on the CPU.

    Parameters
    ----------
    name : str
        "cpu", "cuda", "cuda:1", or "torch-cpu" for PyTorch without a GPU.

    Raises
    ------
    ModuleNotFoundError
        If the library that it needs is not installed; says what installs it.
    ValueError
        If there is no such device.
    """
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
    """The device that an array is on; None for NumPy arrays."""
    backend = backend_of(X)
    return None if backend is None else backend.device_of(X)


def device_for(X: Any, wanted: str) -> str:
    """Where to compute on input that has not been checked: on the GPU that it is on, unless another is wanted."""
    device = device_of(X) if wanted == "auto" else None
    return wanted if device is None or not device.is_cuda else device.name


def as_given(Y: Any, X: Any) -> Any:
    """An embedding as an array of the kind of `X`, where X is; as it is for arrays in memory."""
    backend = backend_of(X)
    return Y if backend is None else backend.as_given(Y, X)


def distributed_backend(X: Any) -> Any:
    """The backend of data that are fitted where they lie; None for data in memory."""
    backend = backend_of(X)
    return backend if backend is not None and backend.distributed else None


@contextmanager
def computing() -> Iterator[None]:
    """While backends may compute: full precision, and errors that say what to do. Loads no backend."""
    with ExitStack() as stack:
        for name in dict.fromkeys(_BACKENDS.values()):
            module: ModuleType | None = sys.modules.get(f"{__package__.rpartition('.')[0]}.backends.{name}")
            if module is not None and hasattr(module, "backend"):
                stack.enter_context(module.backend.computing())
        yield
