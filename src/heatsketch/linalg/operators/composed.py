"""Operators around operators: normalised, deflated and folded ones, for any backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._utils.array import to_numpy
from ..._utils.registry import device_of
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch
from .base import Operator


class ComposedOperator(Operator):
    """An operator around another one, with its dtype, blocks and, by default, shape."""

    operator: Operator
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    order: IntArray | None
    in_memory: bool

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.shape, self.dtype, self.order = operator.shape, operator.dtype, operator.order
        self.in_memory = operator.in_memory

    @property
    def rounding(self) -> float:
        """Relative error of a product."""
        return self.operator.rounding

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as an array that the inner operator multiplies."""
        return self.operator.asblock(V, dtype)

    def ones(self) -> Any:
        """A vector of ones, (N,)."""
        return np.ones(self.shape[0]) if self.shape != self.operator.shape else self.operator.ones()

    def laid_out(self, values: Any) -> Any:
        """A vector with an entry for each point, (N,), as an array of the kind of `ones`."""
        return self.operator.laid_out(values)

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """Columns of the first rows of a sketch, made on the device of the inner operator."""
        return self.operator.draw(sketch, shape, first_column, dtype)

    def project(self, V: Any, u: Any) -> Any:
        """``(I - u u^T) V`` for a unit vector u."""
        return self.operator.project(V, u)


class ScaledOperator(ComposedOperator):
    """``diag(left) K diag(right)`` for vectors of shape (N,), cast to the dtype of K."""

    def __init__(self, operator: Operator, left: Any, right: Any) -> None:
        super().__init__(operator)
        self.left, self.right = operator.asblock(left), operator.asblock(right)

    def reordered(self) -> Operator:
        """The same matrix with rows and columns in `order`."""
        inside, left, right = self.operator.reordered(), self.left, self.right
        if self.order is not None:
            left, right = left[self.order], right[self.order]
        if hasattr(inside, "scaled"):  # saves a pass in every product
            return inside.scaled(left, right)  # type: ignore[no-any-return]
        return self if self.order is None else ScaledOperator(inside, left, right)

    def matmat(self, V: Any) -> Any:
        """diag(left) (K (diag(right) V))."""
        out = self.operator.matmat(self.right[:, None] * V)
        out *= self.left[:, None]
        return out

    def toarray(self) -> FloatArray:
        """The scaled matrix."""
        out = self.operator.toarray()
        out *= to_numpy(self.left)[:, None]
        out *= to_numpy(self.right)[None, :]
        return out


class DeflatedOperator(ComposedOperator):
    """``S - u u^T``: a symmetric operator without its unit eigenvector `u` of eigenvalue 1.

    Blocks are projected before and after a product if they have a component along `u`, so that rounding does not bring
    it back.
    """

    def __init__(self, operator: Operator, vector: Any) -> None:
        super().__init__(operator)
        self.vector = operator.asblock(vector)

    def reordered(self) -> DeflatedOperator:
        """The same matrix with rows and columns in `order`."""
        return self if self.order is None else DeflatedOperator(self.operator.reordered(), self.vector[self.order])

    def matmat(self, V: Any) -> Any:
        """(I - u u^T) S (I - u u^T) V."""
        return self.matmat_of_product(self.project(V, self.vector))

    def matmat_of_product(self, V: Any) -> Any:
        """The same for a product with this operator, which is orthogonal to u."""
        return self.project(self.operator.matmat(V), self.vector)

    def toarray(self) -> FloatArray:
        """The deflated matrix."""
        S, u = self.operator.toarray(), to_numpy(self.vector)
        S = u[:, None] * -(u @ S)[None, :] + S
        deflated: FloatArray = (u[:, None] * -(u @ S.T)[None, :] + S.T).T
        return deflated


class FoldedOperator(ComposedOperator):
    """``E K E^T``: a kernel between U distinct points, for N points with duplicates.

    Parameters
    ----------
    operator : Operator of shape (U, U)
    places : ndarray of int, shape (N,)
        The distinct point that equals each point.
    """

    def __init__(self, operator: Operator, places: IntArray) -> None:
        if operator.order is not None:  # in which its products are fastest
            places = np.argsort(operator.order)[places]
            operator = operator.reordered()
        super().__init__(operator)
        self.places = places
        n = len(places)
        self.shape = (n, n)
        ones = np.ones(n, dtype=operator.dtype)
        self._gather = sparse.csr_array((ones, (places, np.arange(n))), shape=(operator.shape[0], n))
        self._gather_on_device: Operator | None = None

    def matmat(self, V: Any) -> Any:
        """E (K (E^T V))."""
        device = device_of(V)
        if device is None:
            sums = np.asarray(self._gather @ V)
        else:
            self._gather_on_device = self._gather_on_device or device.sparse_operator(self._gather)
            sums = self._gather_on_device.matmat(V)
        return self.operator.matmat(sums)[self.places]

    def toarray(self) -> FloatArray:
        """The matrix between all points."""
        return np.asarray(self.operator.toarray()[np.ix_(self.places, self.places)])
