"""New points in a layout whose points stay where they are.

A new point x has weights p of its neighbours, with the sum 1, a scale s, and its own part of the objective::

    sum_j p_j log(s s_j + |y - y_j|^2) + n / sum_ij q_ij  sum_j q_j(y),

which it minimises from the best of several starts: the mean of its neighbours, and the five nearest. The repulsion of
all points is a field, made once (:mod:`heatsketch.layout.grid`). There is none if the layout keeps distances alone. A
training point keeps its own place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._utils.indices import check_indices
from .._utils.typing import FloatArray, IntArray
from ..compiled import forces as loops
from ..kernel.operator import HeatKernel, refuse_alone
from ..linalg.sketch import sample
from .forces import FEW_POINTS, GRID_DIMENSIONS
from .grid import Field, Grid, Scales
from .similarities import distinct_samples, neighbor_weights, relative_scales

__all__ = ["Placement"]

# The square of the unit without neighbours, relative to the mean square of coordinates, as in the objective.
_SOFTENED = 1e-4
# Points that repel new ones, in more dimensions than a grid has.
_REPELLING = 4_096
# The step that ends the search, in units in which similarities fall to a half at distance 1.
_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class Placement:
    """Places new points in a layout.

    Attributes
    ----------
    kernel : HeatKernel
    embedding : ndarray of shape (N, k)
        Of the points of the kernel.
    unit : float
        Of the layout, in which similarities fall to a half at distance 1.
    repelled : bool
        Whether new points keep away from others: not if neighbours have no weight.
    """

    kernel: HeatKernel
    embedding: FloatArray
    unit: float
    repelled: bool

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    @cached_property
    def _samples(self) -> IntArray:
        return distinct_samples(self.kernel)

    @cached_property
    def _layout_unit(self) -> float:
        """Of the layout; without neighbours, that of the softened distances."""
        if self.repelled:
            return self.unit
        Y = self.embedding - self.embedding.mean(axis=0)
        return float(np.sqrt(_SOFTENED * np.mean(Y * Y)))

    @cached_property
    def _Y(self) -> FloatArray:
        """Distinct points, in the unit of the layout."""
        return np.ascontiguousarray(self.embedding[self._samples] / self._layout_unit, dtype=np.float32)

    @cached_property
    def _scales(self) -> Scales:
        return Scales.of(relative_scales(self.kernel, self._samples))

    @cached_property
    def _field(self) -> tuple[Field, float]:
        """The repulsion of all points, and its factor n / sum_ij q_ij."""
        Y, scales = self._Y, self._scales
        n, k = Y.shape
        if not self.repelled:
            return Field.of_points(Y[:1], scales.at(slice(1))), 0.0
        if n > FEW_POINTS and k <= GRID_DIMENSIONS:
            field = Field.on_grid(Grid.around(Y, scales), Y, scales)
            return field, n / field.forces()[1]
        some = sample(n, FEW_POINTS if k <= GRID_DIMENSIONS else _REPELLING)
        Y, scales = np.ascontiguousarray(Y[some]), scales.at(some)
        field = Field.of_points(Y, scales)
        return field, len(some) / (field.between(Y, scales)[1] or 1.0)

    def place(self, X: Any, out: FloatArray | None = None) -> FloatArray:
        """The places of new points, (m, k); each row depends on itself alone.

        Parameters
        ----------
        X : ndarray or csr_array of shape (m, d), or (m, N) for precomputed input
        out : ndarray of shape (m, k), optional
            Where to write them.
        """
        check_indices(X)
        affinity, m = self.kernel.affinity, X.shape[0]
        assert affinity is not None
        out = np.empty((m, self.embedding.shape[1]), dtype=self.embedding.dtype) if out is None else out
        if affinity.is_training_input(X):
            out[:] = self.embedding
            return out
        _ = self._field, affinity.twins(X[:1])  # what they need is made once, before threads ask for it
        numbers = np.arange(m)

        def place(batch: slice | IntArray) -> FloatArray:
            rows, log_scale = affinity.rows(X[batch])
            refuse_alone(np.asarray(rows.sum(axis=1), dtype=np.float64).ravel(), numbers[batch])
            out[batch] = self._settled(neighbor_weights(self.kernel, rows, self._samples), X[batch])
            return log_scale

        self.kernel.in_batches(X, place)
        return out

    def _settled(self, P: Any, X: Any) -> FloatArray:
        """Places of new points with weights P of the distinct points, (m, n), in the unit of the embedding."""
        m, k = P.shape[0], self._Y.shape[1]
        logs = np.log(self._scales.values.astype(np.float64))
        own = self._scales.of_others(np.exp(P @ logs))
        found, work = np.empty((m, k), dtype=np.float32), np.empty((m, 3, k), dtype=np.float32)
        field, factor = self._field
        weights = P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data.astype(np.float32)
        points, numbers = (self._Y, self._scales.values), (field.spacing, field.reach, factor, _TOL)
        loops.place(field.arrays, points, weights, (own.values, own.basis), found, work, numbers, 0, m)
        Y = (self._layout_unit * found).astype(self.embedding.dtype)
        twins = self.kernel.affinity.twins(X)  # type: ignore[union-attr]
        rows = np.flatnonzero(np.diff(twins.indptr))
        Y[rows] = twins[rows] @ self.embedding
        return Y
