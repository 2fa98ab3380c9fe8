"""A matrix held in memory."""

from __future__ import annotations

from ..._utils.threads import product
from ..._utils.typing import FloatArray
from .base import Operator


class DenseOperator(Operator):
    """Products with a matrix held as an array of shape (N, N)."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.shape = (array.shape[0], array.shape[1])
        self.dtype = array.dtype

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V."""
        return product(self.array, V)

    def toarray(self) -> FloatArray:
        """A copy of the matrix."""
        return self.array.copy()
