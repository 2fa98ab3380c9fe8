"""The heat kernel as an operator that knows its trivial mode and its rows at new points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.progress import track
from .._utils.registry import Device, computing
from .._utils.tables import explained, table
from .._utils.typing import FloatArray
from ..linalg.operators import DenseOperator, HeatOperator, Operator, ScaledOperator, SparseOperator
from .affinity import Affinity, GaussianAffinity
from .graphs import is_graph
from .normalize import Scaling

__all__ = ["HeatKernel", "as_heat_kernel", "refuse_alone"]


class HeatKernel(HeatOperator):
    """The heat kernel A of a data set: an operator that also knows its trivial mode and its rows at new points.

    ``A = diag(w) S diag(1/w)`` with S symmetric; ``w = 1`` for the normalisations of the paper, and A is a Markov
    matrix where ``w = 1/u`` ("stochastic" and "bistochastic-weighted").

    Attributes
    ----------
    symmetric : Operator
        S.
    trivial : ndarray of shape (N,), or None
        Unit eigenvector u of S with eigenvalue 1; None where none is known.
    row_weight : ndarray of shape (N,), or None
        w, or None for 1. Diffusion distances are distances between the rows of ``diag(w) S^t``.
    definite : bool
        Whether S is known to be positive semidefinite.
    affinity, scaling, bandwidth_rule
        Where the kernel comes from; None for a kernel that was given as a matrix.
    """

    def __init__(
        self,
        symmetric: Operator | None = None,
        *,
        trivial: FloatArray | None = None,
        row_weight: FloatArray | None = None,
        definite: bool = False,
        affinity: Affinity | None = None,
        scaling: Scaling | None = None,
        bandwidth_rule: str | None = None,
    ) -> None:
        self.trivial, self.row_weight = trivial, row_weight
        self.definite, self.affinity, self.scaling, self.bandwidth_rule = definite, affinity, scaling, bandwidth_rule
        self._given = symmetric
        if affinity is not None:
            self.shape, self.dtype = (affinity.n_samples, affinity.n_samples), affinity.dtype
        elif symmetric is not None:
            self.shape, self.dtype = symmetric.shape, symmetric.dtype
            self.in_memory = symmetric.in_memory
        else:
            raise ValueError(
                "a heat kernel needs an operator, or an affinity and its scaling; use heat_kernel(X, ...)."
            )

    @classmethod
    def from_affinity(cls, affinity: Affinity, scaling: Scaling, bandwidth_rule: str | None = None) -> HeatKernel:
        """Compose the kernel ``diag(s) K diag(s)``."""
        return cls(
            trivial=scaling.trivial,
            row_weight=scaling.row_weight,
            definite=affinity.definite,
            affinity=affinity,
            scaling=scaling,
            bandwidth_rule=bandwidth_rule,
        )

    @property
    def residual(self) -> float | None:  # type: ignore[override]
        """Largest deviation of row sums from 1; None for a kernel that was given as a matrix."""
        return None if self.scaling is None else self.scaling.residual

    @cached_property
    def symmetric(self) -> Operator:  # type: ignore[override]
        """S; composed on first use, so that a kernel loaded from a file forms its matrix only if that is needed."""
        if self._given is not None:
            return self._given
        assert self.affinity is not None
        assert self.scaling is not None
        return ScaledOperator(self.affinity.operator, self.scaling.scale, self.scaling.scale)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "symmetric"}

    def __repr__(self) -> str:
        held = "" if self.affinity is None else f", {self.affinity.description}"
        return f"HeatKernel(shape={self.shape}, dtype={self.dtype}{held})"

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """Epsilon, or each point's squared local scale; None where the affinity was given."""
        return self.affinity.epsilon if isinstance(self.affinity, GaussianAffinity) else None

    @property
    def device(self) -> Device | None:
        """Where products are computed; None for NumPy on the CPU."""
        return getattr(self._given, "device", None) if self.affinity is None else self.affinity.device

    @property
    def points(self) -> Any:
        """What the kernel was made of, in the order of the samples; None where the affinity was given."""
        return self.affinity.X if isinstance(self.affinity, GaussianAffinity) else None

    @property
    def neighbor_bandwidth(self) -> float | None:
        """The bandwidth that the rule "neighbor" gives for the points; None where the affinity was given."""
        affinity = self.affinity
        return affinity.bandwidth_by_rule("neighbor") if isinstance(affinity, GaussianAffinity) else None

    def place(self, Z: Any) -> Any:
        """``diag(w) S Z`` for the training points, computed as `at_new_points` does, (N, k) -> (N, k)."""
        if self.affinity is None or self.scaling is None:
            return self.weigh_rows(self.symmetric @ Z)
        scaling = self.scaling
        return ScaledOperator(self.affinity.operator, scaling.left, scaling.scale) @ Z

    def at_new_points(self, X: Any, Z: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """``a(x) Z`` for new points: each point's own row of ``diag(w) S``, times coefficients.

        Parameters
        ----------
        X : ndarray or csr_array of shape (m, d), or (m, N) for precomputed input
        Z : ndarray of shape (N, k)
        out : ndarray of shape (m, k), optional
            Where to write the result.

        Returns
        -------
        Y : ndarray of shape (m, k)
        """
        self._require_data()
        assert self.affinity is not None
        Z, m = to_numpy(Z), X.shape[0]
        out = np.empty((m, Z.shape[1]), dtype=Z.dtype) if out is None else out
        if self.affinity.is_training_input(X):
            out[:] = self.place(Z)
            return out
        weighted = self._weighted(Z)
        fused = self.affinity.multiplies_rows
        batches = list(chunks(m, self.affinity.row_entries if not fused else X.shape[1] + Z.shape[1]))
        if fused:  # what all batches are multiplied with goes to the device once
            assert self.scaling is not None
            with computing():
                weighted = self.asblock(np.column_stack([np.ones(len(Z)), self.scaling.reference, weighted]))
        for batch in track(batches, "placing new points", len(batches)):
            if fused:
                left, product = self._fused_rows(X[batch], weighted, batch.start)
            else:
                left, rows = self._scaled_rows(X[batch], batch.start)
                product = rows @ weighted
            out[batch] = left[:, None] * product
        return out

    def rows_at_new_points(self, X: Any) -> FloatArray:
        """Rows of ``diag(w) S`` at new points, (m, N); those of `at_new_points` before the product."""
        self._require_data()
        assert self.affinity is not None
        if self.affinity.is_training_input(X):
            every: FloatArray = self.place(np.eye(self.shape[0], dtype=self.dtype))
            return every
        left, rows = self._scaled_rows(X, 0)
        dense = rows.toarray() if sparse.issparse(rows) else rows
        return self._weighted((left[:, None] * dense).T).T

    def _weighted(self, Z: FloatArray) -> FloatArray:
        assert self.scaling is not None
        return self.scaling.scale[:, None].astype(Z.dtype) * Z

    def _require_data(self) -> None:
        if self.affinity is None or self.scaling is None:
            raise ValueError("this kernel was given as a matrix and has no rows at new points; build it from data.")

    def _scaled_rows(self, X: Any, first: int) -> tuple[FloatArray, Any]:
        """Affinities of new points to the training points, (m, N), and the left factors of their kernel rows, (m,)."""
        assert self.affinity is not None
        assert self.scaling is not None
        rows, log_scale = self.affinity.rows(X)
        degrees = np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()
        refuse_alone(degrees, first)
        sums = np.asarray(rows @ self.scaling.reference, dtype=np.float64).ravel()
        return self.scaling.extend(degrees, sums, log_scale), rows

    def _fused_rows(self, X: Any, columns: Any, first: int) -> tuple[FloatArray, FloatArray]:
        """The same left factors, and the rows' product with coefficients, which a device gives without the rows.

        The first two columns, (N, 2 + k), are ones and the reference of the scaling.
        """
        assert self.affinity is not None
        assert self.scaling is not None
        products, log_scale = self.affinity.row_products(X, columns)
        degrees, sums = products[:, :2].astype(np.float64).T
        refuse_alone(degrees, first)
        return self.scaling.extend(degrees, sums, log_scale), products[:, 2:]


def refuse_alone(degrees: FloatArray, first: int) -> None:
    """Refuse new points, numbered from `first`, that have no affinity to any training point."""
    empty = np.flatnonzero(degrees <= 0)
    if len(empty):
        raise ValueError(
            f"row {first + empty[0]} of X has no affinity to any training point, so it cannot be placed; leave "
            "such rows out (an isolated training vertex has its place in embedding_)."
        )


def as_heat_kernel(A: Any) -> HeatKernel:
    """Return a `HeatKernel` as it is, and wrap a symmetric matrix or operator as one.

    A matrix brings no knowledge of a trivial mode; products and distances take all of its spectrum in.
    """
    if isinstance(A, HeatKernel):
        return A
    if isinstance(A, Operator):
        return HeatKernel(A)
    if isinstance(A, BaseEstimator):
        raise ValueError(
            f"{type(A).__name__} was given as kernel; pass the kernel of the fitted estimator, its kernel_."
        )
    if is_graph(A):
        raise ValueError("a graph was given as kernel; pass heat_kernel(graph, affinity='precomputed').")
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_min_samples": 2}
    with explained():
        A = check_array(table(A), input_name="A", ensure_all_finite=False, **options)
        if bad := np.count_nonzero(~np.isfinite(A.data if sparse.issparse(A) else A)):
            raise ValueError(
                f"A was given with {bad} entries that are NaN or infinite; a heat kernel has none. Build one from data "
                "with heat_kernel(X, ...)."
            )
        if A.shape[0] != A.shape[1] or abs(A - A.T).max() > 1e-6 * abs(A).max():
            raise ValueError(
                f"A was given as a matrix of shape {A.shape}; it must be square and symmetric. Build a heat kernel "
                "from data with heat_kernel(X, ...)."
            )
    if A.shape[0] * float(abs(A).max()) > np.sqrt(np.finfo(A.dtype).max):
        raise ValueError(
            f"A has entries of up to {abs(A).max():.3g}, whose products overflow; those of a heat kernel are about 1 "
            "at most. Divide A by its largest eigenvalue, or build a heat kernel from data with heat_kernel(X, ...)."
        )
    return HeatKernel(SparseOperator(A) if sparse.issparse(A) else DenseOperator(A))
