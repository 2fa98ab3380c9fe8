"""The contract that every operator keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..._utils.array import as_array, asarray_like, to_numpy
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch

# Columns of the identity that the generic `toarray` multiplies at a time.
_IDENTITY_BLOCK = 256
# A column whose part along a vector is below this many units in the last place of its norm has none.
_PROJECTED_ULPS = 4.0
# Norms below this, or above its inverse, are of numbers whose squares leave the range of float32.
_SQUARABLE = 1e-15


class Operator(ABC):
    """A square matrix that one can only multiply by.

    A subclass owes three things: `shape`, `dtype` and `matmat`. Everything else follows. A backend whose arrays are not
    NumPy's also says how its blocks are made: `asblock`, `ones` and `draw`.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    # The order in which an operator would rather have its rows, or None: work that multiplies again and again is done
    # on `reordered`, with ``V[order]``, so that rows are moved once and not with every product.
    order: IntArray | None = None
    # Whether arrays with a row for each point are held by this process or its device. Where they are not, matrices of
    # all pairs are never formed, and only some of the rows are looked at in one place.
    in_memory: bool = True

    @property
    def rounding(self) -> float:
        """Relative error that a product may have, for solvers that look at what is small."""
        return float(np.finfo(self.dtype).eps)

    def reordered(self) -> Operator:
        """The same matrix with rows and columns in `order`: entry (i, j) is that of (order[i], order[j])."""
        return self

    @abstractmethod
    def matmat(self, V: Any) -> Any:
        """Product with a block of columns as `asblock` makes it, (N, k) -> (N, k); `V` is not changed."""

    def check_block(self, V: Any) -> FloatArray:
        """`V` as compiled code takes it: of this operator's dtype, with its number of rows, in the order of C."""
        self._check_rows(V, (2,))
        return np.ascontiguousarray(V, dtype=self.dtype)

    def _check_rows(self, V: Any, dimensions: tuple[int, ...]) -> None:
        if V.ndim not in dimensions or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"an operator of shape {self.shape} cannot multiply an array of shape {tuple(V.shape)}; give one with "
                f"{self.shape[1]} rows."
            )

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as an array of the kind that this operator multiplies, in its dtype unless another is given."""
        return np.asarray(to_numpy(V), dtype=self.dtype if dtype is None else dtype)

    def ones(self) -> Any:
        """A vector of ones, (N,), that this operator multiplies."""
        return np.ones(self.shape[0])

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0, dtype: Any = np.float64) -> Any:
        """Columns of a sketch at the rows of this operator, (N, n_columns), as an array that it multiplies."""
        return self.draw(sketch, (self.shape[0], n_columns), first_column, dtype)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """The first rows of some columns of a sketch, made where this operator computes."""
        return sketch.matrix(*shape, first_column=first_column, dtype=dtype)

    def project(self, V: Any, u: Any) -> Any:
        """``(I - u u^T) V`` for a unit vector u, or `V` itself where it has no part along u but for rounding."""
        part = u @ V
        if self.is_clean(part, np.einsum("ij,ij->j", V, V)):  # cheaper to see than to take out
            return V
        out = u[:, None] * -part[None, :]
        out += V
        return out

    def is_clean(self, part: FloatArray, squared: FloatArray) -> bool:
        """Whether columns with these parts along a unit vector, and squared norms, have none but for rounding, (k,)."""
        norm = np.sqrt(squared)
        clean = np.abs(part) <= _PROJECTED_ULPS * np.finfo(self.dtype).eps * norm
        return bool((clean & (norm > _SQUARABLE) & (norm < 1.0 / _SQUARABLE)).all())

    def __matmul__(self, V: Any) -> Any:
        V = as_array(V)
        block = self.asblock(V)
        self._check_rows(block, (1, 2))
        product = self.matmat(block) if block.ndim == 2 else self.matmat(block[:, None])[:, 0]
        return asarray_like(product, V)

    def toarray(self) -> FloatArray:
        """The matrix itself, (N, N); for small N."""
        n = self.shape[0]
        out = np.empty(self.shape, dtype=self.dtype)
        for start in range(0, n, _IDENTITY_BLOCK):
            stop = min(n, start + _IDENTITY_BLOCK)
            out[:, start:stop] = self @ np.eye(n, stop - start, k=-start, dtype=self.dtype)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"
