"""A sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..._utils.array import from_order, in_order
from ..._utils.indices import check_indices
from ..._utils.threads import each, shares
from ..._utils.typing import FloatArray, IntArray
from .base import Operator

# Number of entries from which rows are reordered so that neighbours are close; smaller matrices fit in the cache.
_REORDER_ENTRIES = 1 << 20


class SparseOperator(Operator):
    """Products with a symmetric sparse matrix in CSR format, on all cores.

    Parameters
    ----------
    array : SciPy sparse array or matrix of shape (N, N)
    order : ndarray of int, shape (N,), optional
        If given, the rows and columns of `array` are already in this order, ``array[i, j] = K[order[i], order[j]]``.
    reorder : bool
        Whether to put a large matrix without an order in reverse Cuthill-McKee order, which makes products several
        times faster.
    """

    def __init__(self, array: Any, *, order: IntArray | None = None, reorder: bool = True) -> None:
        check_indices(array, "the matrix of a SparseOperator")
        held = sparse.csr_array(array)
        if reorder and order is None and held.nnz >= _REORDER_ENTRIES:
            order = reverse_cuthill_mckee(sparse.csr_matrix(held), symmetric_mode=True).astype(np.int64)
            held = permuted(held, order)
        # For compiled code.
        held.data, held.indices, held.indptr = map(np.ascontiguousarray, (held.data, held.indices, held.indptr))
        # A csr_array with rows and columns in `order`.
        self.held: Any = held
        self.order = None if order is None else np.ascontiguousarray(order, dtype=np.int64)
        self.shape, self.dtype = (held.shape[0], held.shape[1]), held.dtype

    @property
    def array(self) -> Any:
        """The matrix as a csr_array, rows and columns in the original order."""
        return self.held if self.order is None else permuted(self.held, np.argsort(self.order))

    def selected(self, rows: IntArray) -> Any:
        """Some rows of the matrix, (m, N), for a matrix without an order."""
        return self.held[rows]

    def row_counts(self) -> IntArray:
        """Number of entries of each row in the original order, shape (N,)."""
        counts: IntArray = from_order(np.diff(self.held.indptr).astype(np.int64), self.order)
        return counts

    def components(self) -> IntArray:
        """Number of the connected component of each row in the original order, shape (N,)."""
        labels: IntArray = from_order(connected_components(self.held, directed=False)[1], self.order)
        return labels

    def reordered(self) -> SparseOperator:
        """The same matrix with rows and columns in `order`."""
        return self if self.order is None else SparseOperator(self.held, reorder=False)

    def scaled(self, left: FloatArray, right: FloatArray) -> SparseOperator:
        """``diag(left) K diag(right)``, for a matrix without an order."""
        K, left, right = self.held, self.asblock(left), self.asblock(right)
        data = np.empty_like(K.data)

        def scale(rows: slice) -> None:
            here = slice(K.indptr[rows.start], K.indptr[rows.stop])
            np.multiply(K.data[here], right[K.indices[here]], out=data[here])
            data[here] *= np.repeat(left[rows], np.diff(K.indptr[rows.start : rows.stop + 1]))

        each(scale, shares(K.shape[0], 1 + K.nnz // max(1, K.shape[0])), blas=False)
        return SparseOperator(sparse.csr_array((data, K.indices, K.indptr), shape=K.shape), reorder=False)

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V."""
        from ...compiled.products import sparse_product  # noqa: PLC0415

        K, n = self.held, self.shape[0]
        V = self.check_block(V)
        V = in_order(V, self.order)
        out = np.empty_like(V)
        if not V.shape[1]:
            return out

        def multiply(rows: slice) -> None:
            sparse_product(K.indptr, K.indices, K.data, V, out, rows.start, rows.stop)

        work = 1 + V.shape[1] // 4  # of an entry: reading it, and multiplying several columns at a time
        each(multiply, shares(n, work * (1 + K.nnz // max(1, n))), blas=False)
        return from_order(out, self.order)  # type: ignore[no-any-return]

    def toarray(self) -> FloatArray:
        """The matrix as a dense array."""
        return np.asarray(self.array.toarray())


def permuted(K: Any, order: IntArray) -> Any:
    """``K[order][:, order]`` with sorted columns, for K in CSR format."""
    inverse = np.empty(len(order), dtype=K.indices.dtype)
    inverse[order] = np.arange(len(order), dtype=K.indices.dtype)
    rows = K[order]
    out = sparse.csr_array((rows.data, inverse[rows.indices], rows.indptr), shape=K.shape)
    out.sort_indices()
    return out
