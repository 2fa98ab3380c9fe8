"""Operators that multiply on a device of PyTorch, and distances between rows of tensors.

Importing this module registers the functions for tensors: `row_distances`, `condensed_distances` and
`column_distances` of :mod:`heatsketch.linalg.metrics`, and :func:`heatsketch.optimize.solver.dilations`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..._utils.array import to_numpy
from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import central_point, column_distances, condensed_distances, magnitude, row_distances
from ...linalg.operators import Operator, SparseOperator
from ...linalg.sketch import Sketch
from ...optimize.pairs import Pairs
from ...optimize.solver import dilations
from .sketches import draw
from .tensors import TensorDevice, computing, device_of, on

__all__ = ["DeviceDenseOperator", "DeviceGaussianOperator", "DeviceOperator", "DeviceSparseOperator", "PairDifferences"]

# Compute capability that the fused kernels need: NVIDIA Ampere (2020).
_CAPABILITY = (8, 0)
# Entries of rows that are gathered at a time: about 200 MB with the temporaries.
_GATHERED = 1 << 23
# Added to squared distances, so that the logarithm has a derivative at zero.
_LEAST = 1e-290
# Columns up to which a program multiplies several rows of a sparse matrix.
_FEW_COLUMNS = 4


class DeviceOperator(Operator):
    """A matrix that multiplies tensors on a device."""

    device: TensorDevice

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as a tensor on the device, of the operator's dtype unless another is given."""
        return self.device.tensor(V, self.dtype if dtype is None else dtype)

    def ones(self) -> Any:
        """A vector of ones on the device, (N,)."""
        return torch.ones(self.shape[0], dtype=torch.float64, device=self.device.name)

    def laid_out(self, values: Any) -> Any:
        """A user's vector with an entry for each point, (N,), in float64 on the device."""
        return self.device.tensor(values, np.float64)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """The first rows of some columns of a sketch, made on the device."""
        return draw(sketch, shape, first_column, self.device, dtype)

    def project(self, V: Any, u: Any) -> Any:
        """``(I - u u^T) V``, or `V` itself if it is orthogonal to u up to rounding."""
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
    """Products with a dense matrix held on the device, (N, N)."""

    @computing()
    def __init__(self, array: FloatArray, device: TensorDevice) -> None:
        self.device, self._held = device, device.tensor(array)
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype

    def _product(self, V: Any) -> Any:
        return self._held @ V

    def toarray(self) -> FloatArray:
        """A copy of the matrix."""
        return np.array(to_numpy(self._held))


class DeviceSparseOperator(DeviceOperator):
    """Products with a sparse matrix held on the device as compressed rows.

    On a GPU a fused program multiplies, whose sums have one order; cuSPARSE's products do not repeat.

    Parameters
    ----------
    array : csr_array of shape (M, N)
        With rows and columns in `order`, if one is given.
    device : TensorDevice
    order : ndarray of int, shape (N,), optional
    """

    @computing()
    def __init__(self, array: Any, device: TensorDevice, order: Any = None) -> None:
        array = sparse.csr_array(array)
        self.device, self.order = device, order
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype
        self._held = self._compressed(*(device.tensor(part) for part in (array.indptr, array.indices, array.data)))
        self._order = None if order is None else device.tensor(order)

    @classmethod
    def of_parts(cls, starts: Any, columns: Any, values: Any, device: TensorDevice) -> DeviceSparseOperator:
        """A square matrix from tensors on the device: row pointers, column indices and values."""
        new = cls.__new__(cls)
        n = len(starts) - 1
        new.device, new.order, new._order = device, None, None
        new.shape, new.dtype = (n, n), np.dtype(str(values.dtype).removeprefix("torch."))
        index = torch.int32 if len(values) <= np.iinfo(np.int32).max else torch.int64
        new._held = new._compressed(starts.to(index), columns.to(index), values)
        return new

    def _compressed(self, starts: Any, columns: Any, values: Any) -> Any:
        with warnings.catch_warnings():  # that the layout is in beta
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
            return torch.sparse_csr_tensor(starts, columns, values, size=self.shape, check_invariants=False)

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """Row pointers, column indices and values."""
        return self._held.crow_indices(), self._held.col_indices(), self._held.values()

    def reordered(self) -> DeviceSparseOperator:
        """The same matrix with rows and columns in `order`."""
        if self.order is None:
            return self
        same = copy(self)
        same.order = same._order = None
        return same

    @computing()
    def scaled(self, left: Any, right: Any) -> DeviceSparseOperator:
        """``diag(left) K diag(right)``, for a matrix without an `order`."""
        starts, columns, values = self.parts
        values = values * self.asblock(left).repeat_interleave(starts.diff())
        values *= self.asblock(right)[columns]
        return self.with_values(values)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceSparseOperator:  # noqa: ARG002
        """The same matrix in another dtype."""
        return self if self.dtype == dtype else self.with_values(self.parts[2].to(self.device.dtype(dtype)))

    def with_values(self, values: Any) -> DeviceSparseOperator:
        """A matrix with the same pattern and other values, a tensor in the order of the rows."""
        starts, columns, _ = self.parts
        same = copy(self)
        same.dtype = np.dtype(str(values.dtype).removeprefix("torch."))
        same._held = self._compressed(starts, columns, values)
        return same

    def _product(self, V: Any) -> Any:
        if self._order is None:
            return self._multiplied(V)
        out = torch.empty_like(V)
        out[self._order] = self._multiplied(V[self._order])
        return out

    def _multiplied(self, V: Any) -> Any:
        fused = self.device.is_cuda and fused_kernels(self.device)
        return sparse_product(self.parts, V) if fused else self._held @ V

    def selected(self, rows: IntArray) -> sparse.csr_array:
        """Some rows of the matrix in memory, (m, N), for a matrix without an order."""
        starts, columns, values = self.parts
        wanted = self.device.tensor(rows)
        first, counts = starts[wanted].long(), (starts[wanted + 1] - starts[wanted]).long()
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        place = torch.arange(int(indptr[-1]), device=first.device) + (first - indptr[:-1]).repeat_interleave(counts)
        parts = (to_numpy(part) for part in (values[place], columns[place], indptr))
        return sparse.csr_array(tuple(parts), shape=(len(rows), self.shape[1]))

    @property
    def here(self) -> SparseOperator:
        """The same matrix in memory."""
        starts, columns, values = (to_numpy(part) for part in self.parts)
        array = sparse.csr_array((values, columns, starts), shape=self.shape)
        return SparseOperator(array, order=self.order, reorder=False)

    def toarray(self) -> FloatArray:
        """The dense matrix."""
        return self.here.toarray()


class DeviceGaussianOperator(DeviceOperator):
    """Products with ``exp(-|x_i - x_j|^2 / epsilon)`` for all pairs, in memory O(N (d + k)), on a device.

    In float32 on a GPU fused kernels multiply (:mod:`heatsketch.backends.torch.gaussian`): every product is within
    1e-4 of the exact one in the norm, mostly within 2e-5, for any columns. In float64, without Triton, or on the CPU
    PyTorch multiplies row chunk by row chunk (:mod:`heatsketch.backends.torch.chunked`).

    Parameters are those of :class:`heatsketch.linalg.operators.TiledGaussianOperator`; X may be a tensor, and
    `precision` says how the fused kernels form exponents. `arithmetic` is the way that was chosen.
    """

    @computing()
    def __init__(
        self,
        X: Any,
        epsilon: float | FloatArray,
        device: TensorDevice,
        *,
        zero_diagonal: bool = False,
        dtype: Any = np.float32,
        precision: str = "auto",
    ) -> None:
        n = X.shape[0]
        self.shape, self.dtype, self.device, self.zero_diagonal = (n, n), np.dtype(dtype), device, zero_diagonal
        scales = np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), n)
        self._unit = float(np.median(scales))
        centre = device.tensor(central_point(to_numpy(X[:: max(1, n // 1000)])), np.float64)
        points = device.tensor(X), centre, self._unit, device.tensor(self._unit / scales)
        if self.dtype == np.float32 and fused_kernels(device):
            from .gaussian import FusedGaussian  # noqa: PLC0415

            self._kernel: Any = FusedGaussian(*points, zero_diagonal=zero_diagonal, precision=precision)
        else:
            from .chunked import ChunkedGaussian  # noqa: PLC0415

            self._kernel = ChunkedGaussian(*points, device.dtype(self.dtype), zero_diagonal=zero_diagonal)
        self.arithmetic: str = self._kernel.arithmetic

    @property
    def rounding(self) -> float:
        """Relative error of a product."""
        return self._kernel.rounding or super().rounding

    def _product(self, V: Any) -> Any:
        return self._kernel.product(V)

    @computing()
    def thinned(self) -> tuple[Any, Operator, Callable[[Any], Any]] | None:
        """Some of many points, the kernel between them, and products of all rows with them: (m,) -> (N,)."""
        found = self._kernel.thinned() if hasattr(self._kernel, "thinned") else None
        if found is None:
            return None
        points, kernel, products = found
        few = copy(self)
        few._kernel, few.shape = kernel, (len(points), len(points))
        return points, few, products

    @computing()
    def rows(self, X: FloatArray, epsilon: Any, V: Any) -> tuple[FloatArray, FloatArray]:
        """Kernel rows of new points, (m, d), times V, (N, k), each divided by its largest entry: (m, k).

        The logarithms of these entries come second, (m,).
        """
        scale = self._unit / np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), X.shape[0])
        found = self._kernel.rows(self.device.tensor(X), self.device.tensor(scale), self.asblock(V))
        products, logs = (to_numpy(part) for part in found)
        return products, logs


def sparse_product(parts: tuple[Any, Any, Any], V: Any) -> Any:
    """The product of a matrix in compressed rows with a block of columns, by a fused program."""
    from .sparse_programs import sparse_kernel  # noqa: PLC0415 - needs Triton

    n, width = len(parts[0]) - 1, V.shape[1]
    V, out = V.contiguous(), torch.empty((n, width), dtype=V.dtype, device=V.device)
    if width:
        # The fastest on an H200: many rows of few columns, or one row.
        columns = min(64, 1 << (width - 1).bit_length())
        rows, entries = (8, 16) if width <= _FEW_COLUMNS else (1, 32)
        with on(V):
            sparse_kernel[-(-n // rows), -(-width // columns)](
                *parts, V, out, n, width, BM=rows, BN=entries, BC=columns, num_warps=1
            )
    return out


def fused_kernels(device: TensorDevice) -> bool:
    """Whether Triton is installed and compiles for the device, or interprets its kernels on the CPU."""
    try:
        from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

        from .programs import halves_kernel  # noqa: PLC0415
    except ImportError:
        return False
    if not device.is_cuda:
        return isinstance(halves_kernel, InterpretedFunction)
    return torch.version.hip is None and bool(torch.cuda.get_device_capability(device.name) >= _CAPABILITY)


def _differences(Z: Any, i: Any, j: Any) -> Any:
    """``z_i - z_j`` in float64 whatever the dtype of the points, as on the CPU, shape (m, d)."""
    return Z.index_select(0, i).double().sub_(Z.index_select(0, j))


@row_distances.register
def _(Z: torch.Tensor, i: Any, j: Any) -> Any:
    here = device_of(Z)
    a, b = here.tensor(i), here.tensor(j)
    out = torch.empty(len(a), dtype=torch.float64, device=Z.device)
    for some in chunks(len(a), Z.shape[1], _GATHERED):
        out[some] = _differences(Z, a[some], b[some]).square_().sum(1).sqrt_()
    return to_numpy(out) if isinstance(i, np.ndarray) else out


@condensed_distances.register
def _(Z: torch.Tensor) -> Any:
    return torch.nn.functional.pdist(Z.double())


@column_distances.register
def _(V: torch.Tensor, i: IntArray, j: IntArray) -> FloatArray:
    scale = magnitude(V)
    distances: FloatArray = scale * row_distances((V.T / scale).contiguous(), i, j)
    return distances


class PairDifferences:
    """Active pairs as the differences of their features, gathered once: embedded pairs are then one product.

    Nothing is scattered, so sums have one order and results repeat.

    Parameters
    ----------
    features : tensor of shape (N, m)
    pairs : Pairs
        Of NumPy arrays.
    """

    def __init__(self, features: Any, pairs: Pairs) -> None:
        self._here, self._log_d = device_of(features), pairs.log_d
        self._D = _differences(features, self._here.tensor(pairs.i), self._here.tensor(pairs.j))  # [p, m]

    def ratios(self, W: FloatArray) -> FloatArray:
        """``log(|y_i - y_j| / d_ij)`` with ``Y = F W``, shape (p,)."""
        self._Z = self._D @ self._here.tensor(W)  # [p, k]
        self._squares = to_numpy(self._Z.square().sum(1).add_(_LEAST))
        ratios: FloatArray = 0.5 * np.log(self._squares) - self._log_d
        return ratios

    def gradient(self, slope: FloatArray) -> FloatArray:
        """Gradient by W, (m, k), of a function of the last ratios whose derivatives by these are given, (p,)."""
        by_pair = self._here.tensor(slope / self._squares)[:, None] * self._Z
        gradient: FloatArray = to_numpy(self._D.T @ by_pair)
        return gradient


@dilations.register
def _(features: torch.Tensor, pairs: Pairs) -> PairDifferences:
    return PairDifferences(features, pairs)
