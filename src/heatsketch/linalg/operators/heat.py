"""A heat kernel as linear algebra sees it: an operator that knows its trivial mode."""

from __future__ import annotations

from typing import Any

from ..._utils.array import array_namespace, asarray_like, to_numpy
from ..._utils.typing import FloatArray, IntArray
from ..sketch import Sketch, UnitSketch
from .base import Operator
from .composed import DeflatedOperator

# A trivial mode whose entries differ by less than this, relative to the largest, is constant.
_CONSTANT = 1e-12


class HeatOperator(Operator):
    """``A = diag(w) S diag(1/w)`` with S symmetric and, as far as it is known, a trivial mode ``S u = u``.

    Attributes
    ----------
    symmetric : Operator
        S.
    trivial : array of shape (N,), or None
        Unit eigenvector u of S with eigenvalue 1; None where none is known.
    row_weight : array of shape (N,), or None
        w, or None for 1. Diffusion distances are distances between the rows of ``diag(w) S^t``.
    definite : bool
        Whether S is known to be positive semidefinite.
    residual : float or None
        Largest deviation of row sums from 1, for a kernel that was scaled to be Markov; None for a given matrix.
    """

    trivial: Any
    row_weight: Any
    definite: bool
    residual: float | None

    def __init__(
        self,
        symmetric: Operator,
        *,
        trivial: Any = None,
        row_weight: Any = None,
        definite: bool = False,
        residual: float | None = None,
    ) -> None:
        self.symmetric: Operator = symmetric
        self.trivial, self.row_weight, self.definite, self.residual = trivial, row_weight, definite, residual
        self.shape, self.dtype, self.in_memory = symmetric.shape, symmetric.dtype, symmetric.in_memory

    @property
    def deflated(self) -> Operator:
        """S without its trivial mode, where one is known."""
        return self.symmetric if self.trivial is None else DeflatedOperator(self.symmetric, self.trivial)

    @property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode takes the same value in every row, and so is absent from all distances."""
        if self.trivial is None:
            return False
        if self.row_weight is not None:
            return True
        xp = array_namespace(self.trivial)
        low, high = float(xp.min(self.trivial)), float(xp.max(self.trivial))
        return high - low <= _CONSTANT * max(abs(low), abs(high))

    @property
    def rounding(self) -> float:
        """Relative error that a product may have."""
        return self.symmetric.rounding

    def asblock(self, V: Any, dtype: Any = None) -> Any:
        """`V` as the operator S takes it."""
        return self.symmetric.asblock(V, dtype)

    def ones(self) -> Any:
        """A vector of ones that S multiplies."""
        return self.symmetric.ones()

    def draw(self, sketch: Sketch, shape: tuple[int, int], first_column: int, dtype: Any) -> Any:
        """Columns of a sketch, made where S computes."""
        return self.symmetric.draw(sketch, shape, first_column, dtype)

    def units(self, rows: IntArray, *, weighted: bool = False) -> Any:
        """Unit columns at the given rows, (N, m), where the kernel computes; times their row weights on request."""
        weights = to_numpy(self.row_weight[rows]) if weighted and self.row_weight is not None else None
        return self.sketched(UnitSketch.at(rows, weights), len(rows), dtype=self.dtype)

    def collect(self, V: Any) -> Any:
        """A block, or an array of the user's with a row for each point, as a NumPy array.

        A kernel that is not `in_memory` gives a distributed array instead.
        """
        return to_numpy(V)

    def hand_out(self, V: Any) -> Any:
        """A block as users get it: a NumPy array, or a collection of the library that holds the data."""
        return to_numpy(V)

    def weigh_rows(self, Y: Any) -> Any:
        """``diag(w) Y`` in the dtype of Y."""
        if self.row_weight is None:
            return Y
        xp = array_namespace(Y)
        return xp.astype(asarray_like(self.row_weight, Y), Y.dtype)[:, None] * Y

    def matmat(self, V: Any) -> Any:
        """A V."""
        if self.row_weight is None:
            return self.symmetric.matmat(V)
        w = self.asblock(self.row_weight)[:, None]
        return w * self.symmetric.matmat(V / w)

    def toarray(self) -> FloatArray:
        """A as an array of shape (N, N)."""
        A = self.symmetric.toarray()
        if self.row_weight is not None:
            w = self.row_weight.astype(self.dtype)
            A *= w[:, None]
            A /= w[None, :]
        return A
