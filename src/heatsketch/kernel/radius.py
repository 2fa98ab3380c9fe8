"""Pairs within a radius: the kernel with all entries that matter, exact to a stated tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import chunks
from .._utils.memory import available_memory, size_in_words
from .._utils.progress import track
from .._utils.typing import FloatArray, IntArray
from ..linalg.operators import Operator, SparseOperator
from ..linalg.sketch import sample
from ..neighbors.clusters import ClusterIndex
from ..neighbors.search import index_kind
from .affinity import GaussianAffinity

__all__ = ["ENTRY", "RadiusAffinity"]

# Points whose neighbours are counted to see how many entries there will be.
_SAMPLE = 200
# Bytes that an entry takes while the matrix is put together.
ENTRY = 40
_MEMORY_SHARE = 0.9


class RadiusAffinity(GaussianAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` where that is at least `cutoff`, 0 elsewhere.

    No entry is off by more than `cutoff`, and every pair that is kept is found: search by clusters compares all whose
    balls come within the radius, ``sqrt(epsilon log(1 / cutoff))``, of each other.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d), or (N, N) distances if metric is "precomputed"
    epsilon : float, or ndarray of shape (N,)
    cutoff : float in (0, 1)
    **options
        Further ones of `GaussianAffinity`.
    """

    def __init__(self, X: Any, epsilon: float | FloatArray, cutoff: float, **options: Any) -> None:
        super().__init__(X, epsilon, **options)
        self.cutoff, self.definite = cutoff, False
        self.description = f"pairs whose affinity is at least {cutoff:g}"

    @cached_property
    def operator(self) -> Operator:
        """``K``, sparse; made on first use."""
        self._require_memory()
        kind = index_kind(self.X.shape, self.metric, sparse.issparse(self.X))
        if kind == "blocks" or not self.metric.euclidean:
            return self._placed(SparseOperator(self._by_blocks()))
        index = ClusterIndex(self.X)
        scale = np.broadcast_to(np.sqrt(self.epsilon), self.n_samples)[index.order]
        reach = -np.log(self.cutoff)
        parts = []
        for i, j, squared in index.pairs_within(float(scale.max()) ** 2 * reach):
            exponent = squared / (scale[i] * scale[j])
            near = (exponent <= reach) & ((squared > 0) | (not self.zero_diagonal))
            parts.append((i[near], j[near], np.exp(-exponent[near]).astype(self.dtype)))
        i, j, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._placed(SparseOperator(self._symmetric(i, j, values), order=index.order))

    def _by_blocks(self) -> sparse.csr_array:
        n = self.n_samples
        batches = list(chunks(n, n))
        rows = [
            self._sparse(self._kernel(self._squared(self.X[rows]), shift=False)[0])
            for rows in track(batches, "finding pairs", len(batches))
        ]
        K = sparse.vstack(rows, format="csr")
        return sparse.csr_array(K.maximum(K.T).astype(self.dtype))

    def _symmetric(self, i: IntArray, j: IntArray, values: FloatArray) -> sparse.csr_array:
        """The matrix of pairs that are given once, with its diagonal."""
        n = self.n_samples
        upper = sparse.coo_array((values, (i.astype(np.int32), j.astype(np.int32))), shape=(n, n)).tocsr()
        own = sparse.diags_array(np.full(n, 0.0 if self.zero_diagonal else 1.0, dtype=self.dtype))
        return sparse.csr_array(upper + upper.T + own)

    def _sparse(self, K: FloatArray) -> sparse.csr_array:
        K[K < self.cutoff] = 0.0
        return sparse.csr_array(K)

    def _require_memory(self) -> None:
        """Refuse a cutoff whose entries would not fit, judged by a sample of rows."""
        entries = self.expected_entries()
        size, memory = entries * ENTRY, available_memory()
        if size > _MEMORY_SHARE * memory:
            raise MemoryError(
                f"cutoff={self.cutoff:g} keeps about {entries / self.n_samples:.0f} pairs for each of "
                f"{self.n_samples} samples, which takes {size_in_words(size)}, and {size_in_words(memory)} are "
                "available; use a smaller bandwidth, a larger cutoff, or neighbours (n_neighbors=32)."
            )

    def expected_entries(self) -> float:
        """About how many pairs the cutoff keeps, from a sample of rows."""
        some = sample(self.n_samples, _SAMPLE)
        counts = [np.count_nonzero(K >= self.cutoff) for K in self._sample_rows(some)]
        return float(sum(counts)) / len(some) * self.n_samples

    def _sample_rows(self, some: IntArray) -> Iterator[FloatArray]:
        for rows in chunks(len(some), self.n_samples):
            yield self._kernel(self._squared(self.X[some[rows]]), shift=False)[0]

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Kernel rows of new points, (m, N), scaled so that the largest entry of each is 1."""
        K, log_scale = super().rows(X)
        with np.errstate(over="ignore"):
            K[K < self.cutoff * np.exp(-log_scale)[:, None]] = 0.0
        return sparse.csr_array(K), log_scale
