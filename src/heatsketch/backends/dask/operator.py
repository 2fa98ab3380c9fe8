"""Base class of operators whose rows are in chunks on the workers."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from ..._utils.typing import FloatArray
from ...linalg.operators import Operator
from ...linalg.sketch import ArraySketch, ColumnSketch, Sketch, UnitSketch
from .array import DistributedArray, total
from .layout import Layout
from .tasks import Plan

__all__ = ["ChunkedOperator"]


class ChunkedOperator(Operator):
    """A matrix that multiplies distributed arrays of shape (N, k) in its layout. Products stay on the workers."""

    layout: Layout
    in_memory = False

    def asblock(self, V: Any, dtype: Any = None) -> DistributedArray:
        """`V`, a distributed array or a Dask array, in the operator's layout and dtype."""
        block: DistributedArray = DistributedArray.from_dask(V) if isinstance(V, da.Array) else V
        self._check_rows(block, (1, 2))
        return block.laid_out(self.layout).astype(self.dtype if dtype is None else np.dtype(dtype))

    def ones(self) -> DistributedArray:
        """A vector of ones, (N,)."""
        return DistributedArray(da.ones(self.shape[0], chunks=(self.layout.sizes,)), self.layout)

    def laid_out(self, values: Any) -> DistributedArray:
        """A vector with an entry for each point, (N,), in the order of the data, in the operator's layout."""
        if not isinstance(values, da.Array):
            values = da.from_array(np.asarray(values), chunks=(self.layout.given,))
        return self.asblock(values, np.float64)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> DistributedArray:
        """Columns of a sketch at the rows of this operator; each worker makes its own rows."""
        layout, last = self.layout, first_column + shape[1]
        sketch.require(last)
        if isinstance(sketch, ArraySketch):
            return self.asblock(sketch.array, dtype)[:, first_column:last]  # type: ignore[no-any-return]
        if isinstance(sketch, ColumnSketch):  # find its points once, not for every chunk
            sketch = UnitSketch(0, points=sketch.taken(last), values=np.full(last, np.sqrt(layout.n_samples)))
        plan = Plan() if layout.order is None else Plan(layout.sources)
        for b, (start, stop) in enumerate(pairwise(layout.starts.tolist())):
            rows: Any = range(start, stop) if layout.order is None else plan.keys(layout.sources)[b]
            plan.add("sketch", (b, 0), _sketch_rows, sketch, rows, (first_column, last), np.dtype(dtype).str)
        return DistributedArray(plan.array("sketch", layout.sizes, shape[1], dtype), layout)

    def project(self, V: DistributedArray, u: DistributedArray) -> DistributedArray:
        """``(I - u u^T) V``, lazy: a test whether V has a part along u would take longer."""
        values, vector = V.planned, u.laid_out(V.layout).planned
        plan = Plan(values, vector)
        keys = list(zip(plan.keys(values), plan.keys(vector), strict=True))
        parts = [plan.add("part-along", b, np.matmul, here, block) for b, (block, here) in enumerate(keys)]
        along = plan.add_tree("along", 0, total, parts)
        for b, (block, here) in enumerate(keys):
            plan.add("project", (b, 0), _without, block, here, along)
        return DistributedArray(plan.array("project", V.layout.sizes, V.shape[1], V.dtype), V.layout)

    def matmat(self, V: DistributedArray) -> DistributedArray:
        """K V."""
        self._check_rows(V, (2,))
        return DistributedArray(self.multiply(V.laid_out(self.layout).values), self.layout)

    @abstractmethod
    def multiply(self, V: Any) -> Any:
        """K V for a persisted Dask array in the layout of this operator."""

    def toarray(self) -> FloatArray:
        """Raise an error: the matrix of all pairs is not formed on a cluster."""
        raise MemoryError(
            f"the matrix of {self.shape[0]} points on a cluster is not formed; multiply by it, or make the kernel of "
            "a part of the data in memory."
        )


def _sketch_rows(sketch: Sketch, rows: Any, columns: tuple[int, int], dtype: str) -> FloatArray:
    return sketch.block(np.asarray(rows, dtype=np.int64), np.arange(*columns), dtype)


def _without(V: FloatArray, u: FloatArray, along: FloatArray) -> FloatArray:
    return V - u[:, None] * along
