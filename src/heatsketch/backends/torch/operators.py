"""Operators on a device of PyTorch: they multiply tensors that lie there, and take and give arrays as well."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.array import to_numpy
from ..._utils.typing import FloatArray
from ...kernel.options import PRECISIONS
from ...linalg.metrics import central_point
from ...linalg.operators import Operator, SparseOperator
from ...linalg.sketch import Sketch
from .device import Device, computing
from .sketches import draw

__all__ = ["DeviceDenseOperator", "DeviceGaussianOperator", "DeviceOperator", "DeviceSparseOperator"]

# The least that a chip must be capable of for the fused kernels: NVIDIA's Ampere of 2020.
_CAPABILITY = (8, 0)


class DeviceOperator(Operator):
    """A matrix whose products are made on a device."""

    device: Device

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as a tensor on the device, of the operator's dtype unless another is given."""
        return self.device.tensor(V, self.dtype if dtype is None else dtype)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """The first rows of some columns of a sketch, made on the device."""
        return draw(sketch, shape, first_column, self.device, dtype)

    def project(self, V: Any, u: Any) -> Any:
        """``(I - u u^T) V``, or `V` itself where it has no part along u but for rounding."""
        part = u @ V
        if self.is_clean(to_numpy(part), to_numpy((V * V).sum(0))):
            return V
        return (u[:, None] * -part[None, :]).add_(V)

    def matmat(self, V: Any) -> Any:
        """K V for a tensor on the device."""
        self._check_rows(V, (2,))
        with computing():
            return self._product(V)

    @abstractmethod
    def _product(self, V: Any) -> Any:
        """K V for a tensor on the device."""


class DeviceDenseOperator(DeviceOperator):
    """Products with a matrix held on the device, (N, N)."""

    @computing()
    def __init__(self, array: FloatArray, device: Device) -> None:
        self.device, self._held = device, device.tensor(array)
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype

    def _product(self, V: Any) -> Any:
        return self._held @ V

    def toarray(self) -> FloatArray:
        """A copy of the matrix."""
        return np.array(to_numpy(self._held))


class DeviceSparseOperator(DeviceOperator):
    """Products with a sparse matrix on the device, in compressed rows.

    Parameters
    ----------
    array : csr_array of shape (M, N)
        In `order`, if there is one.
    device : Device
    order : ndarray of int, shape (N,), optional
    """

    @computing()
    def __init__(self, array: Any, device: Device, order: Any = None) -> None:
        array = sparse.csr_array(array)
        self.device, self.order = device, order
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype
        self._held = self._compressed(*(device.tensor(part) for part in (array.indptr, array.indices, array.data)))
        self._order = None if order is None else device.tensor(order)

    def _compressed(self, starts: Any, columns: Any, values: Any) -> Any:
        """Compressed rows of PyTorch."""
        with warnings.catch_warnings():  # remarks on them, which a user can do nothing about
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
            return self.device.torch.sparse_csr_tensor(starts, columns, values, size=self.shape, check_invariants=False)

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        """Where rows start, columns and values."""
        return self._held.crow_indices(), self._held.col_indices(), self._held.values()

    @property
    def here(self) -> SparseOperator:
        """The same matrix in the memory of the machine."""
        starts, columns, values = (to_numpy(part) for part in self._parts)
        array = sparse.csr_array((values, columns, starts), shape=self.shape)
        return SparseOperator(array, order=self.order, reorder=False)

    def reordered(self) -> DeviceSparseOperator:
        """The same matrix with rows and columns in `order`."""
        if self.order is None:
            return self
        same = copy(self)
        same.order = same._order = None
        return same

    @computing()
    def scaled(self, left: Any, right: Any) -> DeviceSparseOperator:
        """``diag(left) K diag(right)``, for a matrix without an order of its own."""
        starts, columns, values = self._parts
        values = values * self.asblock(left).repeat_interleave(starts.diff())
        values *= self.asblock(right)[columns]
        same = copy(self)
        same._held = self._compressed(starts, columns, values)
        return same

    def _product(self, V: Any) -> Any:
        if self._order is None:
            return self._held @ V
        out = self.device.torch.empty_like(V)
        out[self._order] = self._held @ V[self._order]
        return out

    def toarray(self) -> FloatArray:
        """The matrix with its zeros."""
        return self.here.toarray()


class DeviceGaussianOperator(DeviceOperator):
    """Products with ``exp(-|x_i - x_j|^2 / epsilon)`` for all pairs, in memory O(N (d + k)), on a device.

    In float32 on a GPU by fused kernels (:mod:`heatsketch.backends.torch.products`): every product is within 1e-4 of
    the exact one, mostly within 1e-5, in the norm, for any columns. In float64, without Triton, or on the CPU by
    PyTorch, some rows at a time (:mod:`heatsketch.backends.torch.chunked`).

    Parameters
    ----------
    X : ndarray or tensor of shape (N, d)
    epsilon : float, or ndarray of shape (N,)
        A number, or the squared local scale s_i^2 of each point: then epsilon_ij = s_i s_j.
    device : Device
    zero_diagonal : bool
        Set the affinity of a point with itself to zero; no two points may coincide then.
    dtype : dtype of the products
    precision : {"auto", "halves", "mixed", "split", "float32"}
        How the fused kernels form exponents (:mod:`heatsketch.backends.torch.halves`); "auto" by the data.

    Attributes
    ----------
    arithmetic : str
        How exponents are formed.
    """

    @computing()
    def __init__(
        self,
        X: Any,
        epsilon: float | FloatArray,
        device: Device,
        *,
        zero_diagonal: bool = False,
        dtype: Any = np.float32,
        precision: str = "auto",
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision={precision!r} is not known; use one of {PRECISIONS}.")
        n = X.shape[0]
        self.shape, self.dtype, self.device, self.zero_diagonal = (n, n), np.dtype(dtype), device, zero_diagonal
        scales = np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), n)
        self._unit = float(np.median(scales))
        self._centre = device.tensor(central_point(to_numpy(X[:: max(1, n // 1000)])), np.float64)
        points, scale = device.tensor(X), device.tensor(self._unit / scales)
        if self.dtype == np.float32 and fused_kernels(device):
            from .gaussian import FusedGaussian  # noqa: PLC0415

            self._kernel: Any = FusedGaussian(
                points, self._centre, self._unit, scale, zero_diagonal=zero_diagonal, precision=precision
            )
        else:
            from .chunked import ChunkedGaussian  # noqa: PLC0415

            kind = device.dtype(self.dtype)
            self._kernel = ChunkedGaussian(points, self._centre, self._unit, scale, kind, zero_diagonal=zero_diagonal)
        self.arithmetic: str = self._kernel.arithmetic

    @property
    def rounding(self) -> float:
        """Relative error of a product: matrix units cut off what they add."""
        return self._kernel.rounding or super().rounding

    def _product(self, V: Any) -> Any:
        return self._kernel.product(V)

    @computing()
    def rows(self, X: FloatArray, epsilon: Any, V: Any) -> tuple[FloatArray, FloatArray]:
        """Kernel rows of other points times V, each in units of its largest entry, and the logarithms of these.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        epsilon : float, or ndarray of shape (m,)
        V : ndarray of shape (N, k)

        Returns
        -------
        products : ndarray of shape (m, k)
        logs : ndarray of shape (m,)
        """
        scale = self._unit / np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), X.shape[0])
        found = self._kernel.rows(self.device.tensor(X), self.device.tensor(scale), self.asblock(V))
        products, logs = (to_numpy(part) for part in found)
        return products, logs


def fused_kernels(device: Device) -> bool:
    """Whether Triton is there and can compile for the device, or interprets its kernels on the CPU."""
    try:
        from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

        from .programs import halves_kernel  # noqa: PLC0415
    except ImportError:
        return False
    if not device.is_cuda:
        return isinstance(halves_kernel, InterpretedFunction)
    nvidia = device.torch.version.hip is None
    return nvidia and bool(device.torch.cuda.get_device_capability(device.name) >= _CAPABILITY)
