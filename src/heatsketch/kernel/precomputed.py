"""Affinities that users bring, as a matrix or a graph: the kernel matrix ``K``, and the kernel rows of new points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.registry import Device
from .._utils.typing import FloatArray, IntArray
from ..linalg.operators import DenseOperator, Operator, SparseOperator
from .affinity import Affinity
from .graphs import KnownRows, check_affinity, divided, row_maximum

__all__ = ["PrecomputedAffinity"]


class PrecomputedAffinity(Affinity):
    """A kernel given as a matrix: dense, sparse, or the adjacency of a graph.

    Parameters
    ----------
    W : ndarray or csr_array of shape (N, N), non-negative and symmetric up to rounding
    diagonal : {"auto", "keep", "zero"}
        "auto" gives each vertex that has no self-loop one as heavy as its other edges together, so that half of its
        heat stays (the lazy walk): the kernel is then a heat kernel, with no oscillation on bipartite graphs, and has
        a bistochastic scaling. An isolated vertex gets a self-loop as heavy as the heaviest edge, so that the unit of
        the weights does not matter. "zero" removes the diagonal.

    Notes
    -----
    Where self-loops were added or removed, the rows of new points need the same, and for that one must know whether a
    row belongs to a training vertex: it does if it equals that vertex's row up to rounding. Vertices with equal rows
    (the leaves of a star) cannot be told apart by them: such a row by itself is placed at the mean of these vertices,
    and only the whole training matrix, given again, tells them apart by their order.
    """

    def __init__(self, W: Any, *, diagonal: str = "auto", dtype: Any = None, device: Device | None = None) -> None:
        W = check_affinity(W)
        self.device = device
        W = W if dtype is None else W.astype(dtype)
        # In units of about its largest entry, a power of two so that nothing is rounded; the heat kernel is the same.
        given = row_maximum(W)
        self._unit = W.dtype.type(2.0 ** np.floor(np.log2(given.max()))) if given.any() else W.dtype.type(1)
        W = divided(W, self._unit)
        self.n_samples, self.dtype, self.definite = W.shape[0], W.dtype, False
        self.row_entries = 1 + 8 * W.nnz // W.shape[0] if sparse.issparse(W) else W.shape[0]
        self.description = "the given affinity"
        own = np.asarray(W.diagonal(), dtype=np.float64)
        degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        _require_comparable(given, degrees)
        self._loops = np.zeros(self.n_samples)  # what is added to the diagonal
        if diagonal == "zero":
            self._loops = -own
        elif diagonal == "auto":
            heaviest = float(given.max() / self._unit) or 1.0
            self._loops = np.where(own == 0, np.where(degrees > 0, degrees, heaviest), 0.0)
        self._known = KnownRows(W) if self._loops.any() else None
        W = _with_entries(W, np.arange(self.n_samples), np.arange(self.n_samples), self._loops)
        self._held = SparseOperator(W) if sparse.issparse(W) else DenseOperator(W)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "operator"}

    @cached_property
    def operator(self) -> Operator:
        """``K``: the matrix given, with its diagonal completed or removed."""
        return self._placed(self._held)

    @property
    def given(self) -> Any:
        """The matrix as it was given."""
        every = np.arange(self.n_samples)
        held = self._held.array if isinstance(self._held, SparseOperator) else self._held.toarray()
        return _with_entries(held, every, every, -self._loops) * self._unit

    def is_training_input(self, X: Any) -> bool:
        """Whether `X` is the matrix of the training vertices: then equal rows are told apart by their order."""
        return self._known is not None and self._known.is_the_matrix(divided(X, self._unit))

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Rows of new vertices against the training vertices, (m, N)."""
        if X.shape[0] and X.min() < 0:
            raise ValueError(f"precomputed rows must be non-negative; the smallest entry is {X.min():.3g}.")
        rows = divided(X, self._unit)
        self._require_same_unit(row_maximum(X), row_maximum(rows))
        if self._known is not None:
            i, j, share = self._known.match(rows)
            rows = _with_entries(rows, i, j, share * self._loops[j])
        # Each row in units of its largest entry, so that none is lost to underflow.
        largest = row_maximum(rows).astype(np.float64)
        unit = np.where(largest > 0, largest, 1.0)
        rows = sparse.diags_array(1.0 / unit) @ rows if sparse.issparse(rows) else rows / unit[:, None]
        return rows, np.log(unit)

    def _require_same_unit(self, given: FloatArray, largest: FloatArray) -> None:
        """Refuse rows that leave the range of numbers when they are taken in the unit of the training matrix."""
        lost = (given > 0) & ~((largest >= np.finfo(largest.dtype).tiny) & np.isfinite(largest))
        if lost.any():
            raise ValueError(
                f"a row of X has affinities of up to {given[lost][0]:.1e}, and the training matrix of up to about "
                f"{self._unit:.1e}: too far apart in size for {largest.dtype}. Give rows in the unit of that matrix."
            )


def _require_comparable(given: FloatArray, degrees: FloatArray) -> None:
    """Refuse rows that vanish beside the largest entry of the matrix, from their largest entries and their sums."""
    lost = np.flatnonzero((given > 0) & (degrees == 0))
    if len(lost):
        raise ValueError(
            f"the affinities of row {lost[0]} are at most {given[lost[0]]:.1e}, those of others up to "
            f"{given.max():.1e}, more than scaling can bridge in {given.dtype}. Leave that sample out, or bring the "
            "affinities closer together, for example by their logarithms."
        )


def _with_entries(rows: Any, i: IntArray, j: IntArray, values: FloatArray) -> Any:
    """A copy of `rows` with `values` added at (i, j)."""
    values = values.astype(rows.dtype)
    if sparse.issparse(rows):
        out = (rows + sparse.csr_array((values, (i, j)), shape=rows.shape)).tocsr()
        out.eliminate_zeros()
        return out
    out = rows.copy()
    np.add.at(out, (i, j), values)
    return out
