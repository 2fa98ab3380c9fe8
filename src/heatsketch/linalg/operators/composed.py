"""Operators around operators: normalising and deflating are compositions, so that no backend knows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..._utils.blocks import as_numpy, column_norms, is_banded, like, rows_scaled, without
from ..._utils.devices import Device, is_tensor
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch
from .base import Operator

# A column whose part along a vector is below so many units in the last place of its norm has none.
_PROJECTED_ULPS = 4.0
# Norms below this, or above its inverse, are of numbers whose squares leave the range of float32.
_SQUARABLE = 1e-15


class ComposedOperator(Operator):
    """An operator around another one, whose dtype, kind of block and, unless it says otherwise, shape it keeps."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.shape, self.dtype, self.order = operator.shape, operator.dtype, operator.order

    @property
    def rounding(self) -> float:
        """That of the operator inside."""
        return self.operator.rounding

    def asblock(self, V: ArrayLike) -> FloatArray:
        """`V` as the operator inside wants it."""
        return self.operator.asblock(V)

    def ones(self) -> Any:
        """A vector of ones, as the operator inside multiplies it."""
        return np.ones(self.shape[0]) if self.shape != self.operator.shape else self.operator.ones()

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0) -> Any:
        """Columns of a sketch, where the operator inside has its rows."""
        if self.shape != self.operator.shape:
            return super().sketched(sketch, n_columns, first_column=first_column)
        return self.operator.sketched(sketch, n_columns, first_column=first_column)


class ScaledOperator(ComposedOperator):
    """``diag(left) K diag(right)``.

    Parameters
    ----------
    operator : Operator of shape (N, N)
    left, right : ndarray of shape (N,)
        Cast to the operator's dtype.
    """

    def __init__(self, operator: Operator, left: FloatArray, right: FloatArray) -> None:
        super().__init__(operator)
        self.left, self.right = operator.asblock(left), operator.asblock(right)

    def reordered(self) -> Operator:
        """The same matrix with rows and columns in `order`."""
        if self.order is None:
            return self
        inside, left, right = self.operator.reordered(), self.left[self.order], self.right[self.order]
        if hasattr(inside, "scaled"):  # scaled entries save every product a pass
            return inside.scaled(left, right)  # type: ignore[no-any-return]
        return ScaledOperator(inside, left, right)

    def matmat(self, V: FloatArray) -> FloatArray:
        """diag(left) (K (diag(right) V))."""
        out = rows_scaled(self.operator.matmat(rows_scaled(self.asblock(V), self.right)), self.left, over=True)
        product: FloatArray = like(out, V)
        return product

    def toarray(self) -> FloatArray:
        """The scaled matrix."""
        out = self.operator.toarray()
        out *= as_numpy(self.left)[:, None]
        out *= as_numpy(self.right)[None, :]
        return out


class DeflatedOperator(ComposedOperator):
    """``S - u u^T``: a symmetric operator without its eigenvector `u` of eigenvalue 1.

    Blocks are projected before and after a product wherever they have a part along `u`, so that rounding cannot bring
    it back however many products follow.

    Parameters
    ----------
    operator : Operator of shape (N, N), symmetric
    vector : ndarray of shape (N,)
        The unit eigenvector `u`.
    """

    def __init__(self, operator: Operator, vector: FloatArray) -> None:
        super().__init__(operator)
        self.vector = operator.asblock(vector)

    def reordered(self) -> DeflatedOperator:
        """The same matrix with rows and columns in `order`."""
        return self if self.order is None else DeflatedOperator(self.operator.reordered(), self.vector[self.order])

    def project(self, V: FloatArray) -> FloatArray:
        """(I - u u^T) V for a block of columns, (N, k) -> (N, k)."""
        projected: FloatArray = without(V, self.vector)
        return projected

    def _settled(self, V: FloatArray) -> FloatArray:
        """`V` itself where it has no part along u but for rounding, which is cheaper to see than to take out."""
        if is_banded(V):  # to look would take longer
            return self.project(V)
        part, whole = as_numpy(abs(self.vector @ V)), column_norms(V)  # of each column
        clean = part <= _PROJECTED_ULPS * np.finfo(self.dtype).eps * whole
        return V if (clean & (whole > _SQUARABLE) & (whole < 1.0 / _SQUARABLE)).all() else self.project(V)

    def matmat(self, V: FloatArray) -> FloatArray:
        """(I - u u^T) S (I - u u^T) V."""
        product: FloatArray = like(self._settled(self.operator.matmat(self._settled(self.asblock(V)))), V)
        return product

    def toarray(self) -> FloatArray:
        """The deflated matrix."""
        S, u = self.operator.toarray(), as_numpy(self.vector)
        S = u[:, None] * -(u @ S)[None, :] + S
        deflated: FloatArray = (u[:, None] * -(u @ S.T)[None, :] + S.T).T
        return deflated


class FoldedOperator(ComposedOperator):
    """``E K E^T``: a kernel between distinct points, for data in which points coincide.

    Parameters
    ----------
    operator : Operator of shape (U, U)
    places : ndarray of int, shape (N,)
        Which of the U distinct points each of the N points is.
    """

    def __init__(self, operator: Operator, places: IntArray) -> None:
        super().__init__(operator)
        self.places, self.order = places, None
        n = len(places)
        self.shape = (n, n)
        ones = np.ones(n, dtype=operator.dtype)
        self._gather = sparse.csr_array((ones, (places, np.arange(n))), shape=(operator.shape[0], n))
        self._gather_there: Operator | None = None

    def matmat(self, V: FloatArray) -> FloatArray:
        """E (K (E^T V))."""
        block = self.asblock(V)
        product: FloatArray = like(self.operator.matmat(self._gathered(block))[self.places], V)
        return product

    def _gathered(self, V: Any) -> Any:
        """E^T V, where V lies."""
        if not is_tensor(V):
            return np.asarray(self._gather @ V)
        if self._gather_there is None:
            from ...backends.torch.operators import DeviceSparseOperator  # noqa: PLC0415

            self._gather_there = DeviceSparseOperator(self._gather, Device(str(V.device)))
        return self._gather_there.matmat(V)

    def toarray(self) -> FloatArray:
        """The matrix between all points."""
        return np.asarray(self.operator.toarray()[np.ix_(self.places, self.places)])
