"""The contract of operators whose rows lie in bands on the workers of Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._utils.blocks import is_banded
from ..._utils.typing import FloatArray
from ...linalg.operators import Operator
from ...linalg.sketch import Sketch
from .layout import Layout
from .tasks import pick

__all__ = ["BandedOperator"]


class BandedOperator(Operator):
    """A matrix that multiplies blocks in bands, Dask arrays of shape (N, k) whose chunks are those of its layout.

    Products are computed when they are asked for and stay on the workers.
    """

    layout: Layout

    def asblock(self, V: Any) -> Any:
        """`V` in the operator's dtype, in the bands of its layout."""
        if not is_banded(V):
            raise TypeError(
                f"{type(V).__name__} was given to a kernel whose rows lie on a cluster; give a Dask array with "
                f"{self.shape[0]} rows, which dask.array.from_array makes of an array."
            )
        if V.chunks[0] != self.layout.sizes or (V.ndim == 2 and V.numblocks[1] > 1):
            V = V.rechunk({0: self.layout.sizes, **({1: -1} if V.ndim == 2 else {})})
        return V if V.dtype == self.dtype else V.astype(self.dtype)

    def number_of(self, row: int) -> int:
        """The number of the sample at a row."""
        numbers = self.layout.numbers
        return row if numbers is None else int(pick(numbers, np.array([row]))[0])

    def ones(self) -> Any:
        """A vector of ones, (N,), in bands."""
        return self.layout.constant(1.0)

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0, dtype: Any = np.float64) -> Any:
        """Columns of a sketch at the rows of this operator, (N, n_columns), in bands."""
        return self.layout.sketched(sketch, n_columns, first_column=first_column, dtype=dtype)

    def matvec(self, v: Any) -> Any:
        """Product with one column, (N,) -> (N,)."""
        return self.matmat(self.asblock(v)[:, None])[:, 0]

    def toarray(self) -> FloatArray:
        """No matrix of all pairs is formed on a cluster."""
        raise MemoryError(
            f"the matrix of {self.shape[0]} points on a cluster is not formed; multiply by it, or make the kernel of "
            "a part of the data in memory."
        )
