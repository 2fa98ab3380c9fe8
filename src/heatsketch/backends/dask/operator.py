"""The contract of operators whose rows lie on the workers of Dask."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray
from ...linalg.operators import Operator
from ...linalg.sketch import ArraySketch, Sketch
from .array import DistributedArray
from .inputs import is_dask_array
from .layout import Layout
from .tasks import mapped, settled, summed

__all__ = ["BandedOperator"]


class BandedOperator(Operator):
    """A matrix that multiplies distributed arrays of shape (N, k) in the chunks of its layout.

    Products are computed when they are asked for and stay on the workers.
    """

    layout: Layout
    in_memory = False

    def asblock(self, V: Any, dtype: Any = None) -> DistributedArray:
        """`V`, a distributed array or a Dask array, in the operator's layout and dtype."""
        if is_dask_array(V):
            V = DistributedArray.from_dask(V)
        if not isinstance(V, DistributedArray):
            raise TypeError(
                f"{type(V).__name__} was given to a kernel whose rows lie on a cluster; give a Dask array with "
                f"{self.shape[0]} rows, which dask.array.from_array makes of an array."
            )
        self._check_rows(V, (1, 2))
        return V.laid_out(self.layout).astype(self.dtype if dtype is None else np.dtype(dtype))

    def ones(self) -> DistributedArray:
        """A vector of ones, (N,)."""
        return DistributedArray(self.layout.constant(1.0), self.layout, [])

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> DistributedArray:
        """Columns of a sketch at the rows of this operator: each worker makes its own rows."""
        if isinstance(sketch, ArraySketch):
            sketch.require(first_column + shape[1])
            columns = self.asblock(sketch.array, dtype)
            return columns[:, first_column : first_column + shape[1]]  # type: ignore[no-any-return]
        M = self.layout.sketched(sketch, shape[1], first_column=first_column, dtype=dtype)
        return DistributedArray(M, self.layout, [])

    def project(self, V: DistributedArray, u: DistributedArray) -> DistributedArray:
        """``(I - u u^T) V``, planned: to look whether there is anything to do would take longer."""
        values, vector = V.computed().values, u.computed().values
        along = summed("parts-along", np.matmul, vector, values)
        return DistributedArray(mapped("project", _without, values, vector, along), V.layout, [])

    def matmat(self, V: DistributedArray) -> DistributedArray:
        """K V, computed and held on the workers."""
        self._check_rows(V, (2,))
        product = self.multiply(settled(V.laid_out(self.layout).computed().values))
        return DistributedArray(product, self.layout)

    @abstractmethod
    def multiply(self, V: Any) -> Any:
        """K V for a Dask array in the chunks of the layout."""

    def toarray(self) -> FloatArray:
        """The matrix of all pairs is not formed on a cluster."""
        raise MemoryError(
            f"the matrix of {self.shape[0]} points on a cluster is not formed; multiply by it, or make the kernel of "
            "a part of the data in memory."
        )


def _without(V: FloatArray, u: FloatArray, along: FloatArray) -> FloatArray:
    out = u[:, None] * -along[None, :]
    out += V
    return out
