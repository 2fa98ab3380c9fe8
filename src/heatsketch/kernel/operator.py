"""The heat kernel: an operator with a known trivial mode and rows at new points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .._utils.array import to_numpy
from .._utils.chunks import CHUNK_ENTRIES, chunks
from .._utils.indices import check_indices
from .._utils.progress import task
from .._utils.registry import Device, computing
from .._utils.tables import table
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray
from .._utils.warn import warn
from ..linalg.operators import DenseOperator, FoldedOperator, HeatOperator, Operator, ScaledOperator, SparseOperator
from .affinity import Affinity, GaussianAffinity
from .graphs import is_graph
from .normalize import Scaling

__all__ = ["HeatKernel", "KernelGraph", "as_heat_kernel", "refuse_alone"]


# Entries of new points that are put in order at a time: 128 MB in float64.
_ORDERED = 1 << 24
# Batches wanted, for all threads, and the rows of the smallest, as each batch takes some time by itself.
_MANY_BATCHES, _SMALL_BATCH = 64, 512
# A new point is far from all points if every distance to them, squared, is above this multiple of the product of both
# points' own scales. Of held-out points of eight data sets, one with Cauchy noise, none is beyond 5.
_FAR = 10.0


class KernelGraph(NamedTuple):
    """The matrix S of a sparse heat kernel between distinct points, for points of mass 1.

    Attributes
    ----------
    S : csr_array of shape (U, U), or an operator on a device
        In float32, with rows in an order in which neighbours are close.
    places : ndarray of int, shape (N,)
        The row of each point.
    masses : ndarray of shape (U,)
        The sum of the masses of equal points.
    """

    S: Any
    places: IntArray
    masses: FloatArray

    @property
    def points(self) -> IntArray:
        """The first point of each row, shape (U,)."""
        points = np.empty(self.S.shape[0], dtype=np.int64)
        points[self.places[::-1]] = np.arange(len(self.places))[::-1]
        return points


class HeatKernel(HeatOperator):
    """The heat kernel A of a data set: an operator with a known trivial mode and rows at new points.

    ``A = diag(w) S diag(1/w)`` with S symmetric; ``w = 1`` for the normalisations of the paper, and A is a Markov
    matrix where ``w = 1/u`` ("stochastic" and "bistochastic-weighted").

    Attributes
    ----------
    symmetric : Operator
        S.
    trivial : ndarray of shape (N,), or None
        Unit eigenvector u of S with eigenvalue 1; None if it is not known.
    row_weight : ndarray of shape (N,), or None
        w, or None for 1. Diffusion distances are distances between the rows of ``diag(w) S^t``.
    definite : bool
        Whether S is known to be positive semidefinite.
    affinity, scaling, bandwidth_rule
        What the kernel was made from; None for a kernel that was given as a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = np.vstack([hs.datasets.circle(100, random_state=0), 10 + hs.datasets.circle(100, random_state=1)])
    >>> A = hs.heat_kernel(X)  # a fitted embedding has it as kernel_
    >>> np.bincount(A.components())
    array([100, 100])
    >>> heat = A @ np.eye(200)[0]  # one step of diffusion from point 0
    >>> bool(np.isclose(heat.sum(), 1.0)), bool(heat[100:].any())
    (True, False)
    """

    trivial: Any
    row_weight: Any
    definite: bool
    affinity: Affinity | None
    scaling: Scaling | None
    bandwidth_rule: str | None
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    in_memory: bool

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

    def _source(self) -> tuple[Affinity, Scaling]:
        """The affinity and its scaling."""
        if self.affinity is None or self.scaling is None:
            raise ValueError("this kernel was given as a matrix and has no rows at new points; build it from data.")
        return self.affinity, self.scaling

    @property
    def residual(self) -> float | None:  # type: ignore[override]
        """Largest deviation of row sums from 1; None for a kernel that was given as a matrix."""
        return None if self.scaling is None else self.scaling.residual

    @cached_property
    def symmetric(self) -> Operator:  # type: ignore[override]
        """S; composed on first use, so that a kernel loaded from a file forms its matrix only if needed."""
        if self._given is not None:
            return self._given
        affinity, scaling = self._source()
        return ScaledOperator(affinity.operator, scaling.scale, scaling.scale)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "symmetric"}

    def __repr__(self) -> str:
        held = "" if self.affinity is None else f", {self.affinity.description}"
        return f"HeatKernel(shape={self.shape}, dtype={self.dtype}{held})"

    def remedy(self, *, wider: bool) -> str:
        """How to make the kernel wider or narrower, as the beginning of a sentence for users.

        It names the bandwidth of the rule "neighbor" if that is on the right side.
        """
        affinity = self.affinity
        if not isinstance(affinity, GaussianAffinity):
            return "Add edges, or give edges larger and self-loops smaller weights" if wider else "Leave edges out"
        more, larger = ("more", "larger") if wider else ("fewer", "smaller")
        if np.ndim(affinity.epsilon):
            return f"Use {more} neighbours (n_neighbors), or a {larger} kernel_params['bandwidth_neighbor']"
        suggested = affinity.bandwidth_by_rule("neighbor")
        advised = (suggested > 1.01 * float(affinity.epsilon)) == wider
        by_rule = f" (the rule 'neighbor' gives {suggested:.3g})" if advised else ""
        return f"Use a {larger} bandwidth{by_rule}, or {more} neighbours (n_neighbors)"

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """Epsilon, or each point's squared local scale; None for a precomputed affinity."""
        return self.affinity.epsilon if isinstance(self.affinity, GaussianAffinity) else None

    @property
    def device(self) -> Device | None:
        """Where products are computed; None for NumPy on the CPU."""
        return getattr(self._given, "device", None) if self.affinity is None else self.affinity.device

    def components(self) -> IntArray | None:
        """Number of the connected component of each point, (N,); None unless the kernel is a graph in memory."""
        return self._of_graph(SparseOperator.components)

    def row_counts(self) -> IntArray | None:
        """Number of entries of each point's row, (N,), duplicates as one; None unless it is a graph in memory."""
        return self._of_graph(SparseOperator.row_counts)

    def graph(self, *, on_device: bool = False) -> KernelGraph | None:
        """The matrix S between distinct points; None unless the kernel is a graph in memory.

        With `on_device`, a matrix on a device stays there.
        """
        operator, places = self._graph_operator(on_device=on_device)
        if operator is None:
            return None
        if places is None:
            n = self.shape[0]
            places = np.arange(n) if operator.order is None else np.argsort(operator.order)
        scale, masses = np.ones(operator.shape[0], dtype=operator.dtype), None
        if self.scaling is not None:
            masses = self.scaling.masses
            scale[places] = to_numpy(self.scaling.scale) / (1.0 if masses is None else np.sqrt(masses))
        total = np.bincount(places, masses, minlength=len(scale)).astype(np.float64)
        S = operator.reordered().scaled(scale, scale)
        # A csr_array, or a matrix on a device.
        S = getattr(S, "held", S).astype(np.float32, copy=False)
        return KernelGraph(S, places, total)

    @property
    def is_graph(self) -> bool:
        """Whether it is a graph in memory."""
        return self._graph_operator()[0] is not None

    def folded(self) -> HeatKernel:
        """The kernel of neighbours between distinct points, with the same eigenvalues except zeros; others unchanged.

        ``S = D E K E^T D`` with the scaling D and the kernel K between distinct points. The columns of ``D E``, divided
        by their norms r, are orthonormal, so S has the nonzero eigenvalues of ``diag(r) K diag(r)``.
        """
        operator = None if self.affinity is None else self.affinity.operator
        if not isinstance(operator, FoldedOperator) or self.scaling is None:
            return self
        D, u, n = to_numpy(self.scaling.scale).astype(np.float64), self.trivial, operator.operator.shape[0]
        r = np.sqrt(np.bincount(operator.places, np.square(D), minlength=n))
        trivial = None if u is None else np.bincount(operator.places, D * to_numpy(u), minlength=n) / r
        return HeatKernel(ScaledOperator(operator.operator, r, r), trivial=trivial, definite=self.definite)

    def _of_graph(self, count: Callable[[SparseOperator], IntArray]) -> IntArray | None:
        operator, places = self._graph_operator()
        if operator is None:
            return None
        return count(operator) if places is None else count(operator)[places]

    def _graph_operator(self, *, on_device: bool = False) -> tuple[Any, IntArray | None]:
        """The sparse matrix of the affinity, and the row of each point if there are duplicates; None if it has none."""
        operator: Any = self._given if self.affinity is None else self.affinity.operator
        places = None
        if isinstance(operator, FoldedOperator):  # of distinct points
            operator, places = operator.operator, operator.places
        if hasattr(type(operator), "here"):  # on a device, with a copy in memory
            return operator if on_device else operator.here, places
        return (operator, places) if isinstance(operator, SparseOperator) else (None, None)

    def place(self, Z: Any) -> Any:
        """``diag(w) S Z`` for the training points, computed as by `at_new_points`, (N, k) -> (N, k)."""
        if self.affinity is None:
            return self.weigh_rows(self.symmetric @ Z)
        affinity, scaling = self._source()
        return ScaledOperator(affinity.operator, scaling.left, scaling.scale) @ Z

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
        check_indices(X)
        affinity, scaling = self._source()
        Z, m = to_numpy(Z), X.shape[0]
        out = np.empty((m, Z.shape[1]), dtype=Z.dtype) if out is None else out
        if affinity.is_training_input(X):
            out[:] = self.place(Z)
            return out
        weighted = scaling.scale[:, None].astype(Z.dtype) * Z
        numbers = np.arange(m)
        if affinity.multiplies_rows:  # the columns of all batches are moved to the device once
            with computing():
                masses = np.ones(len(Z)) if scaling.masses is None else scaling.masses
                weighted = self.asblock(np.column_stack([masses, scaling.reference, weighted]))

        def place(batch: slice | IntArray) -> FloatArray:
            if affinity.multiplies_rows:
                products, log_scale = affinity.row_products(X[batch], weighted)
                degrees, sums = products[:, :2].astype(np.float64).T
                left, product = self._left(degrees, sums, log_scale, numbers[batch]), products[:, 2:]
            else:
                left, rows, log_scale = self._scaled_rows(X[batch], numbers[batch])
                product = rows @ weighted
            out[batch] = left[:, None] * product
            return log_scale

        self.in_batches(X, place, X.shape[1] + Z.shape[1] if affinity.multiplies_rows else None)
        return out

    def in_batches(self, X: Any, place: Callable[[Any], FloatArray], entries: int | None = None) -> None:
        """Place new points X, (m, d), in batches on all threads; warns about those that are far from all data.

        Parameters
        ----------
        X : ndarray or csr_array of shape (m, d), or (m, N) for precomputed input
        place : callable
            From the rows of a batch, a slice or an array, to the `log_scale` of ``affinity.rows``.
        entries : int, optional
            Numbers in memory for each row, by which batches are large; by default those of ``affinity.rows``.
        """
        affinity, m = self._source()[0], X.shape[0]
        if entries is None:  # enough batches for all threads, whatever their number, on which no result depends
            entries = max(affinity.row_entries, CHUNK_ENTRIES // max(_SMALL_BATCH, m // _MANY_BATCHES))
        parts = list(chunks(m, X.shape[1], _ORDERED))
        n_batches = sum(len(list(chunks(part.stop - part.start, entries))) for part in parts)
        finished, scales = count(1), np.zeros(m)

        def placed(batch: slice | IntArray) -> None:
            scales[batch] = place(batch)
            advance(next(finished), n_batches)

        with task("placing new points") as advance:
            for part in parts:
                order = affinity.batch_order(X[part])  # in which batches are fast
                each(placed, _batches(part, order, entries), threads=None if self.device is None else 1)
        if isinstance(affinity, GaussianAffinity) and np.ndim(affinity.epsilon):
            warn_far(np.flatnonzero(scales < -_FAR), m)

    def rows_at_new_points(self, X: Any) -> FloatArray:
        """Rows of ``diag(w) S`` at new points, (m, N); those of `at_new_points` before the product."""
        check_indices(X)
        affinity, scaling = self._source()
        if affinity.is_training_input(X):
            every: FloatArray = self.place(np.eye(self.shape[0], dtype=self.dtype))
            return every
        left, rows, _ = self._scaled_rows(X, np.arange(X.shape[0]))
        dense = left[:, None] * (rows.toarray() if sparse.issparse(rows) else rows)
        scaled: FloatArray = dense * scaling.scale.astype(dense.dtype)
        return scaled

    def _scaled_rows(self, X: Any, numbers: IntArray) -> tuple[FloatArray, Any, FloatArray]:
        """Left factors of the kernel rows of new points, (m,), with ``affinity.rows(X)``."""
        affinity, scaling = self._source()
        rows, log_scale = affinity.rows(X)
        total = rows.sum(axis=1) if scaling.masses is None else rows @ scaling.masses
        degrees = np.asarray(total, dtype=np.float64).ravel()
        sums = np.asarray(rows @ scaling.reference, dtype=np.float64).ravel()
        return self._left(degrees, sums, log_scale, numbers), rows, log_scale

    def _left(self, degrees: FloatArray, sums: FloatArray, log_scale: FloatArray, numbers: IntArray) -> FloatArray:
        """Left factors of kernel rows of the new points `numbers`, (m,)."""
        refuse_alone(degrees, numbers)
        return self._source()[1].left_factor(degrees, sums, log_scale)


def _batches(part: slice, order: IntArray | None, entries: int) -> Iterator[slice | IntArray]:
    """Batches of some rows, each with `entries` entries, in an order."""
    for batch in chunks(part.stop - part.start, entries):
        if order is None:
            yield slice(part.start + batch.start, part.start + batch.stop)
        else:
            yield part.start + order[batch]


def refuse_alone(degrees: FloatArray, numbers: IntArray) -> None:
    """Raise ValueError if new points, with these numbers, (m,), have no affinity to any training point."""
    empty = np.flatnonzero(degrees <= 0)
    if len(empty):
        raise ValueError(
            f"row {numbers[empty[0]]} of X has no affinity to any training point, so it cannot be placed; leave "
            "such rows out (an isolated training vertex has its place in embedding_)."
        )


def warn_far(far: IntArray, m: int) -> None:
    """Warn about new points, of m, that are far from all data."""
    if len(far):
        rows = ", ".join(map(str, far[:5])) + (", ..." if len(far) > 5 else "")
        warn(
            f"{len(far):,} of {m:,} new points are far from all fitted points (row {rows}). They are placed among "
            "their nearest neighbours, and their places mean little; check these rows, or fit again with such points."
        )


def as_heat_kernel(A: Any) -> HeatKernel:
    """A `HeatKernel` unchanged; a symmetric matrix or operator as a kernel whose trivial mode is not known."""
    if isinstance(A, HeatKernel):
        return A
    if isinstance(A, Operator):
        return HeatKernel(A)
    if isinstance(A, BaseEstimator) or is_graph(A):
        raise ValueError(
            f"{type(A).__name__} was given as kernel; of a fitted estimator pass its kernel_, of a graph pass "
            "heat_kernel(graph, affinity='precomputed')."
        )
    A = check_array(
        table(A, "A"), accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="A"
    )
    if A.shape[0] != A.shape[1] or abs(A - A.T).max() > 1e-6 * abs(A).max():
        raise ValueError(
            f"A was given as a matrix of shape {A.shape}; it must be square and symmetric. Build a heat kernel "
            "from data with heat_kernel(X, ...)."
        )
    return HeatKernel(SparseOperator(A) if sparse.issparse(A) else DenseOperator(A))
