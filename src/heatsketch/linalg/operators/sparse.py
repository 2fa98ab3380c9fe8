"""A matrix of which only the nonzero entries are held."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..._utils.threads import each, shares
from ..._utils.typing import FloatArray, IntArray
from .base import Operator

# From so many entries on rows are put in an order in which neighbours lie side by side; what belongs to fewer stays in
# the cache anyway.
_REORDER_ENTRIES = 1 << 20


class SparseOperator(Operator):
    """Products with a symmetric sparse matrix of shape (N, N), in compressed rows, on all cores.

    Parameters
    ----------
    array : SciPy sparse array or matrix
    order : ndarray of int, shape (N,), optional
        Given: the rows and columns of `array` are already in this order, ``array[i, j] = K[order[i], order[j]]``.
    reorder : bool
        Whether a large matrix that comes without an order is put in that of reverse Cuthill and McKee, which makes
        products several times faster. A small one is left as it is.
    threads : int, optional
        By default all cores.
    """

    def __init__(
        self, array: Any, *, order: IntArray | None = None, threads: int | None = None, reorder: bool = True
    ) -> None:
        held = sparse.csr_array(array)
        if reorder and order is None and held.nnz >= _REORDER_ENTRIES:
            order = reverse_cuthill_mckee(sparse.csr_matrix(held), symmetric_mode=True).astype(np.int64)
            held = permuted(held, order)
        # Compiled code counts on entries that lie side by side.
        held.data, held.indices, held.indptr = map(np.ascontiguousarray, (held.data, held.indices, held.indptr))
        self._held, self._threads = held, threads
        self.order = None if order is None else np.ascontiguousarray(order, dtype=np.int64)
        self.shape, self.dtype = (held.shape[0], held.shape[1]), held.dtype

    @property
    def held(self) -> Any:
        """The matrix as a csr_array, rows and columns in `order`."""
        return self._held

    @property
    def array(self) -> Any:
        """The matrix as a csr_array, rows and columns as given."""
        return self._held if self.order is None else permuted(self._held, np.argsort(self.order))

    def row_counts(self) -> IntArray:
        """Number of entries held in each row, rows as given, shape (N,)."""
        counts: IntArray = np.diff(self._held.indptr).astype(np.int64)
        if self.order is None:
            return counts
        given = np.empty_like(counts)
        given[self.order] = counts
        return given

    def reordered(self) -> SparseOperator:
        """The same matrix with rows and columns in `order`."""
        if self.order is None:
            return self
        return SparseOperator(self._held, threads=self._threads, reorder=False)

    def scaled(self, left: FloatArray, right: FloatArray) -> SparseOperator:
        """``diag(left) K diag(right)``, for a matrix without an order of its own."""
        K = self._held
        data = K.data * np.repeat(self.asblock(left), np.diff(K.indptr))
        data *= self.asblock(right)[K.indices]
        same = sparse.csr_array((data, K.indices, K.indptr), shape=K.shape)
        return SparseOperator(same, threads=self._threads, reorder=False)

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V, row by row over the nonzero entries."""
        from ...compiled.products import sparse_product  # noqa: PLC0415

        K, n = self._held, self.shape[0]
        V = self.check_block(V)
        out = np.empty_like(V)
        if not V.shape[1]:
            return out

        def multiply(rows: slice) -> None:
            sparse_product(K.indptr, K.indices, K.data, V, out, self.order, rows.start, rows.stop)

        per_row = V.shape[1] * (1 + K.nnz // max(1, n))
        each(multiply, shares(n, per_row, threads=self._threads), threads=self._threads, blas=False)
        return out

    def toarray(self) -> FloatArray:
        """The matrix with its zeros."""
        return np.asarray(self.array.toarray())


def permuted(K: Any, order: IntArray) -> Any:
    """``K[order][:, order]`` with sorted columns, for K in compressed rows."""
    inverse = np.empty(len(order), dtype=K.indices.dtype)
    inverse[order] = np.arange(len(order), dtype=K.indices.dtype)
    rows = K[order]
    out = sparse.csr_array((rows.data, inverse[rows.indices], rows.indptr), shape=K.shape)
    out.sort_indices()
    return out
