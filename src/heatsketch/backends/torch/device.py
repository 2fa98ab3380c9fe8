"""Devices of PyTorch, and what is computed on them."""

from __future__ import annotations

from typing import Any

import torch

from . import forces, graphs  # noqa: F401 - register functions of tensors
from .nearest import DeviceIndex
from .operators import DeviceDenseOperator, DeviceGaussianOperator, DeviceSparseOperator
from .tensors import TensorDevice

__all__ = ["Device"]


class Device(TensorDevice):
    """A device of PyTorch, as :class:`heatsketch._utils.registry.Device` describes one."""

    @property
    def chip(self) -> str:
        """The model name of a GPU; "CPU" for the CPU."""
        return str(torch.cuda.get_device_name(self.name)) if self.is_cuda else "CPU"

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors of a GPU; 1 for the CPU."""
        return int(torch.cuda.get_device_properties(self.name).multi_processor_count) if self.is_cuda else 1

    def dense_operator(self, array: Any) -> DeviceDenseOperator:
        """Operator of a dense matrix held on the device."""
        return DeviceDenseOperator(array, self)

    def sparse_operator(self, array: Any, order: Any = None) -> DeviceSparseOperator:
        """Operator of a sparse matrix held on the device, with rows and columns in `order`."""
        return DeviceSparseOperator(array, self, order)

    def gaussian_operator(self, X: Any, epsilon: Any, **options: Any) -> DeviceGaussianOperator:
        """Operator of the Gaussian kernel between all pairs of points, formed on the fly."""
        return DeviceGaussianOperator(X, epsilon, self, **options)

    def neighbor_index(self, X: Any) -> DeviceIndex:
        """Exact search for nearest neighbours by the Euclidean distance."""
        return DeviceIndex(X, self)
