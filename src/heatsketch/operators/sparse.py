"""A matrix of which only the nonzero entries are held."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import FloatArray
from .base import Operator


class SparseOperator(Operator):
    """Products with a SciPy sparse array in CSR form, shape (N, N)."""

    def __init__(self, array: Any) -> None:
        self.array = array.tocsr()
        self.shape = (array.shape[0], array.shape[1])
        self.dtype = array.dtype

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V, row by row over the nonzero entries."""
        return np.asarray(self.array @ V)

    def toarray(self) -> FloatArray:
        """The matrix with its zeros."""
        return np.asarray(self.array.toarray())
