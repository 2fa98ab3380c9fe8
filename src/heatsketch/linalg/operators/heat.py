"""A heat kernel as an operator with a known trivial mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._utils.array import array_namespace, asarray_like, to_numpy
from ..._utils.typing import FloatArray, IntArray
from ..sketch import UnitSketch
from .base import Operator
from .composed import ComposedOperator, DeflatedOperator

# A trivial mode whose entries differ by less than this, relative to the largest, is constant.
_CONSTANT = 1e-12


class HeatOperator(ComposedOperator):
    """``A = diag(w) S diag(1/w)`` with S symmetric and a trivial mode ``S u = u``, if it is known.

    Attributes
    ----------
    symmetric : Operator
        S.
    trivial : array of shape (N,), or None
        Unit eigenvector u of S with eigenvalue 1.
    row_weight : array of shape (N,), or None
        w; None means 1. Diffusion distances are distances between the rows of ``diag(w) S^t``.
    definite : bool
        Whether S is known to be positive semidefinite.
    residual : float or None
        Largest deviation of row sums from 1, for a kernel that was scaled to be Markov; None for a given matrix.
    """

    symmetric: Operator
    trivial: Any
    row_weight: Any
    definite: bool
    residual: float | None
    lower_end: float | None = None  # a bound for the spectrum, kept once it is known

    @property
    def deflated(self) -> Operator:
        """S without its trivial mode."""
        return self.symmetric if self.trivial is None else DeflatedOperator(self.symmetric, self.trivial)

    @property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode is constant, so that distances do not depend on it."""
        if self.trivial is None:
            return False
        xp = array_namespace(self.trivial)
        mode = self.trivial if self.row_weight is None else self.row_weight * self.trivial
        low, high = float(xp.min(mode)), float(xp.max(mode))
        return high - low <= _CONSTANT * max(abs(low), abs(high))

    @property
    def operator(self) -> Operator:  # type: ignore[override]
        """S."""
        return self.symmetric

    def units(self, rows: IntArray, *, weighted: bool = False) -> Any:
        """Unit columns at the given rows, (N, m), times their row weights if `weighted`."""
        weights = np.ones(len(rows))
        if weighted and self.row_weight is not None:
            weights = to_numpy(self.row_weight[rows])
        return self.sketched(UnitSketch(0, points=rows, values=weights), len(rows), dtype=self.dtype)

    def collect(self, V: Any) -> Any:
        """A block, or a user's array with a row for each point, as a NumPy array, or distributed if not `in_memory`."""
        return to_numpy(V)

    def hand_out(self, V: Any) -> Any:
        """A block as users get it: a NumPy array, or a collection of the backend."""
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
