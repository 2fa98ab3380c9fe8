"""The contract that every operator keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._utils.blocks import like
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch

# Columns of the identity that the generic `toarray` multiplies at a time.
_IDENTITY_BLOCK = 256


class Operator(ABC):
    """A square matrix that one can only multiply by.

    A subclass owes three things: `shape`, `dtype` and `matmat`. Everything else follows.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    # The order in which an operator would rather have its rows, or None: work that multiplies again and again is done
    # on `reordered`, with ``V[order]``, so that rows are moved once and not with every product.
    order: IntArray | None = None

    @property
    def rounding(self) -> float:
        """Relative error that a product may have, for solvers that look at what is small."""
        return float(np.finfo(self.dtype).eps)

    def reordered(self) -> Operator:
        """The same matrix with rows and columns in `order`: entry (i, j) is that of (order[i], order[j])."""
        return self

    @abstractmethod
    def matmat(self, V: FloatArray) -> FloatArray:
        """Product with a block of columns, (N, k) -> (N, k); `V` has the operator's dtype and is not changed."""

    def check_block(self, V: Any) -> FloatArray:
        """`V` as compiled code takes it: of this operator's dtype, with its number of rows, in the order of C."""
        if V.ndim != 2 or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"an operator of shape {self.shape} cannot multiply an array of shape {V.shape}; give one with "
                f"{self.shape[1]} rows."
            )
        return np.ascontiguousarray(V, dtype=self.dtype)

    def asblock(self, V: ArrayLike) -> FloatArray:
        """`V` as an array of the kind and dtype that this operator multiplies; a backend may have its own."""
        return np.asarray(V, dtype=self.dtype)

    def number_of(self, row: int) -> int:
        """The number of the sample at a row; they may lie in another order on a cluster."""
        return row

    def ones(self) -> Any:
        """A vector of ones, (N,), as this operator multiplies it."""
        return np.ones(self.shape[0])

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0) -> Any:
        """Columns of a sketch at the rows of this operator, (N, n_columns), in float64."""
        return sketch.matrix(self.shape[0], n_columns, first_column=first_column)

    def matvec(self, v: FloatArray) -> FloatArray:
        """Product with one column, (N,) or (N, 1) -> (N,)."""
        product: FloatArray = like(self.matmat(self.asblock(v).reshape(-1, 1))[:, 0], v)
        return product

    def __matmul__(self, V: ArrayLike) -> FloatArray:
        block = self.asblock(V)
        if block.ndim not in (1, 2) or block.shape[0] != self.shape[1]:
            raise ValueError(
                f"an operator of shape {self.shape} cannot multiply an array of shape {tuple(block.shape)}; give one "
                f"with {self.shape[1]} rows."
            )
        product: FloatArray = like(self.matvec(block) if block.ndim == 1 else self.matmat(block), V)
        return product

    def toarray(self) -> FloatArray:
        """The matrix itself, (N, N); for small N."""
        n = self.shape[0]
        out = np.empty(self.shape, dtype=self.dtype)
        for start in range(0, n, _IDENTITY_BLOCK):
            stop = min(n, start + _IDENTITY_BLOCK)
            out[:, start:stop] = self.matmat(np.eye(n, stop - start, k=-start, dtype=self.dtype))
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"
