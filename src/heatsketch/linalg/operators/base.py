"""The interface of operators, and a matrix in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._utils.array import as_array, asarray_like, to_numpy
from ..._utils.chunks import chunks
from ..._utils.threads import each, product, workers
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch

# Columns of the identity that `toarray` multiplies at a time.
_IDENTITY_BLOCK = 256
# A column whose component along a vector is below this many roundings of its norm is orthogonal to it.
_PROJECTED_ULPS = 4.0
_PROJECTED_ENTRIES = 1 << 18
# Squares of norms below this, or above its inverse, may underflow or overflow in float32.
_SQUARABLE = 1e-15


class Operator(ABC):
    """A square matrix that is only multiplied by blocks of columns.

    A subclass provides `shape`, `dtype` and `matmat`. A backend with arrays other than NumPy's also overrides how
    blocks are made: `asblock`, `ones` and `draw`.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    # The order of rows in which products are fastest, or None. Iterations use `reordered` and ``V[order]``, so that
    # rows are moved once and not with every product.
    order: IntArray | None = None
    # Whether arrays with a row for each point fit in this process or its device. If not, no (N, N) matrix is formed.
    in_memory: bool = True

    @property
    def rounding(self) -> float:
        """Relative error of a product."""
        return float(np.finfo(self.dtype).eps)

    def reordered(self) -> Operator:
        """The same matrix with rows and columns in `order`: entry (i, j) is that of (order[i], order[j])."""
        return self

    @abstractmethod
    def matmat(self, V: Any) -> Any:
        """Product with a block of columns from `asblock`, (N, k) -> (N, k); `V` is not changed."""

    def matmat_of_product(self, V: Any) -> Any:
        """`matmat` for a block that is itself a product with this operator; subclasses may save work."""
        return self.matmat(V)

    def check_block(self, V: Any) -> FloatArray:
        """`V` for compiled code: checked, C-contiguous and in this operator's dtype."""
        self._check_rows(V, (2,))
        return np.ascontiguousarray(V, dtype=self.dtype)

    def _check_rows(self, V: Any, dimensions: tuple[int, ...]) -> None:
        if V.ndim not in dimensions or V.shape[0] != self.shape[1]:
            raise ValueError(
                f"an operator of shape {self.shape} cannot multiply an array of shape {tuple(V.shape)}; give one with "
                f"{self.shape[1]} rows."
            )

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as an array that this operator multiplies, by default in its dtype."""
        return np.asarray(to_numpy(V), dtype=self.dtype if dtype is None else dtype)

    def ones(self) -> Any:
        """A vector of ones, (N,)."""
        return np.ones(self.shape[0])

    def laid_out(self, values: Any) -> Any:
        """A user's vector with an entry for each point, (N,), as an array in float64 of the kind of `ones`."""
        return to_numpy(values).astype(np.float64, copy=False)

    def thinned(self) -> tuple[Any, Operator, Callable[[Any], Any]] | None:
        """Some of the points, the operator between them, and products of all rows with them: (m,) -> (N,).

        None, unless products with all points take long.
        """
        return None

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0, dtype: Any = np.float64) -> Any:
        """Columns of a sketch, (N, n_columns), as an array that this operator multiplies."""
        return self.draw(sketch, (self.shape[0], n_columns), first_column, dtype)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """Columns of the first rows of a sketch, made on the device of this operator."""
        return sketch.matrix(*shape, first_column=first_column, dtype=dtype)

    def project(self, V: Any, u: Any) -> Any:
        """``(I - u u^T) V`` for a unit vector u, or `V` itself if it is orthogonal to u up to rounding."""
        pieces = list(chunks(len(V), V.shape[1], _PROJECTED_ENTRIES))

        def measure(rows: slice) -> tuple[FloatArray, FloatArray]:
            return u[rows] @ V[rows], np.einsum("ij,ij->j", V[rows], V[rows])

        with workers(1 if len(pieces) == 1 else None) as share:
            parts, squared = zip(*share(measure, pieces), strict=True)
        part = sum(parts)
        if self.is_clean(part, sum(squared)):  # saves a pass
            return V
        out = np.empty_like(V)

        def subtract(rows: slice) -> None:
            np.subtract(V[rows], u[rows, None] * part, out=out[rows])

        each(subtract, pieces)
        return out

    def is_clean(self, part: FloatArray, squared: FloatArray) -> bool:
        """Whether columns with these components along a unit vector, and squared norms, (k,), are orthogonal to it."""
        norm = np.sqrt(squared)
        clean = np.abs(part) <= _PROJECTED_ULPS * np.finfo(self.dtype).eps * norm
        return bool((clean & (norm > _SQUARABLE) & (norm < 1.0 / _SQUARABLE)).all())

    def __matmul__(self, V: Any) -> Any:
        V = as_array(V)
        block = self.asblock(V)
        self._check_rows(block, (1, 2))
        out = self.matmat(block) if block.ndim == 2 else self.matmat(block[:, None])[:, 0]
        return asarray_like(out, V)

    def toarray(self) -> FloatArray:
        """The matrix, (N, N)."""
        n = self.shape[0]
        out = np.empty(self.shape, dtype=self.dtype)
        for start in range(0, n, _IDENTITY_BLOCK):
            stop = min(n, start + _IDENTITY_BLOCK)
            out[:, start:stop] = self @ np.eye(n, stop - start, k=-start, dtype=self.dtype)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


class DenseOperator(Operator):
    """Products with a matrix held as an array of shape (N, N)."""

    def __init__(self, array: FloatArray) -> None:
        self.array = array
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V."""
        return product(self.array, V)

    def toarray(self) -> FloatArray:
        """A copy of the matrix."""
        return self.array.copy()
