"""Affinities that users pass, as a matrix or a graph: the kernel matrix ``K``, and the kernel rows of new points."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import chunks
from .._utils.registry import Device
from .._utils.typing import FloatArray, IntArray
from ..linalg.operators import DenseOperator, Operator, SparseOperator
from ..linalg.sketch import GaussianSketch
from .affinity import Affinity
from .graphs import SYMMETRY_TOLERANCE, check_affinity

__all__ = ["KnownRows", "PrecomputedAffinity"]


class PrecomputedAffinity(Affinity):
    """A kernel given as a matrix: dense, sparse, or the adjacency of a graph.

    Parameters
    ----------
    W : ndarray or csr_array of shape (N, N), non-negative and symmetric up to rounding
    diagonal : {"auto", "keep", "zero"}
        "auto" gives each vertex without a self-loop one as heavy as its other edges together (the lazy walk): half of
        the heat stays, so that nothing oscillates on bipartite graphs, and a bistochastic scaling exists. An isolated
        vertex gets a self-loop as heavy as the heaviest edge. "zero" removes the diagonal.
    dtype : dtype of ``K``, optional
    device : Device, optional

    Attributes
    ----------
    given : ndarray or csr_array of shape (N, N)
        W, exactly symmetric and in that dtype.

    Notes
    -----
    Where self-loops were added or removed, rows of new points need the same if they belong to a training vertex, that
    is if they equal its row up to rounding. Vertices with equal rows, such as the leaves of a star, cannot be
    distinguished by them: such a row alone is placed at the mean of these vertices, and only the whole training matrix
    distinguishes them, by their order.
    """

    def __init__(self, W: Any, *, diagonal: str = "auto", dtype: Any = None, device: Device | None = None) -> None:
        W = check_affinity(W)
        self.device = device
        W = W if dtype is None else W.astype(dtype)
        self.given = W
        self.n_samples, self.dtype, self.definite = W.shape[0], W.dtype, False
        self.row_entries = 1 + 8 * W.nnz // W.shape[0] if sparse.issparse(W) else W.shape[0]
        self.description = "the given affinity"
        own = np.asarray(W.diagonal(), dtype=np.float64)
        degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        self._loops = np.zeros(self.n_samples)  # what is added to the diagonal
        if diagonal == "zero":
            self._loops = -own
        elif diagonal == "auto":
            self._loops = np.where(own == 0, np.where(degrees > 0, degrees, W.max() or 1.0), 0.0)
        self._known = None
        if self._loops.any():
            self._known, every = KnownRows(W), np.arange(self.n_samples)
            W = _with_entries(W, every, every, self._loops)
        self._held = SparseOperator(W) if sparse.issparse(W) else DenseOperator(W)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "operator"}

    @cached_property
    def operator(self) -> Operator:
        """``K``: the given matrix with its diagonal completed or removed."""
        return self._placed(self._held)

    def is_training_input(self, X: Any) -> bool:
        """Whether `X` is the matrix of the training vertices: then the order distinguishes equal rows."""
        return self._known is not None and self._known.is_the_matrix(X)

    def twins(self, X: Any) -> sparse.csr_array:
        """Training vertices whose rows new ones equal, (m, N): rows with the sum 1, or 0 where there are none."""
        known = self._known or KnownRows(self.given)
        i, j, share = known.match(X)
        return sparse.csr_array((share, (i, j)), shape=X.shape)

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Rows of new vertices against the training vertices, (m, N)."""
        rows = X
        if self._known is not None:
            i, j, share = self._known.match(rows)
            rows = _with_entries(rows, i, j, share * self._loops[j])
        # Each row in units of its largest entry, so that none is lost to underflow.
        largest = _row_maximum(rows).astype(np.float64)
        unit = np.where(largest > 0, largest, 1.0)
        rows = sparse.diags_array(1.0 / unit) @ rows if sparse.issparse(rows) else rows / unit[:, None]
        return rows, np.log(unit)


class KnownRows:
    """Finds the rows of a matrix that equal a given row.

    Rows are compared through their product with one random vector and then entry by entry, so the cost is one
    product, and rounding in the input does no harm.
    """

    def __init__(self, W: Any) -> None:
        self._W = W
        self._probe = GaussianSketch(0).matrix(W.shape[0], 1)[:, 0]
        keys = np.asarray(W @ self._probe, dtype=np.float64)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._largest = _row_maximum(W)

    def is_the_matrix(self, X: Any) -> bool:
        """Whether `X` is the matrix itself, up to rounding."""
        if X.shape != self._W.shape:
            return False
        return bool((_row_maximum(abs(X - self._W)) <= self._tolerance(X) * self._largest).all())

    def match(self, rows: Any) -> tuple[IntArray, IntArray, FloatArray]:
        """All i and j such that row i of `rows` equals row j of the matrix up to rounding; rows of zeros equal none.

        Also one over the number of rows that row i equals; each of shape (m,).
        """
        keys = np.asarray(rows @ self._probe, dtype=np.float64)
        largest = _row_maximum(rows)
        reach = self._tolerance(rows) * largest * np.abs(self._probe).sum()
        first = np.searchsorted(self._keys, keys - reach, side="left")
        counts = np.searchsorted(self._keys, keys + reach, side="right") - first
        counts[largest == 0] = 0
        i = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
        j = self._order[np.repeat(first, counts) + within]
        equal = np.zeros(len(i), dtype=bool)
        for chunk in chunks(len(i), self._W.shape[1]):
            worst = _row_maximum(abs(rows[i[chunk]] - self._W[j[chunk]]))
            equal[chunk] = worst <= self._tolerance(rows) * self._largest[j[chunk]]
        i, j = i[equal], j[equal]
        return i, j, 1.0 / np.bincount(i, minlength=len(keys))[i]

    def _tolerance(self, rows: Any) -> float:
        return max(SYMMETRY_TOLERANCE[self._W.dtype], SYMMETRY_TOLERANCE[rows.dtype])


def _row_maximum(W: Any) -> FloatArray:
    """Largest entry of each row, shape (m,)."""
    largest = W.max(axis=1)
    return np.ravel(largest.toarray() if sparse.issparse(largest) else largest)


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
