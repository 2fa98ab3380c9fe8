"""Affinities of points: from data to the kernel matrix ``K`` as an operator, and to the kernel rows of new points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, partial, singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.chunks import CHUNK_ENTRIES, chunks
from .._utils.progress import track
from .._utils.registry import Device
from .._utils.threads import each, shares
from .._utils.typing import FloatArray, IntArray
from ..linalg.metrics import Metric, gaussian_affinity, squared_distances
from ..linalg.operators import (
    DenseOperator,
    FoldedOperator,
    Operator,
    SparseOperator,
    TiledGaussianOperator,
)
from ..neighbors.clusters import ClusterIndex
from ..neighbors.neighborhoods import KnownPoints, Neighborhoods, NewRows, distinct, kth_apart
from .bandwidth import SELF_TUNING_NEIGHBOR, bandwidth_by_rule, kth_neighbor, local_scales, self_tuned

__all__ = [
    "Affinity",
    "CutoffAffinity",
    "GaussianAffinity",
    "NeighborAffinity",
    "described",
    "gaussian_rows",
    "weighted_graph",
]

# A dense kernel is filled by several threads at once, in chunks that are this many times smaller than others.
FILLS = 4
# Multiplications that take as long as an exponential function.
_EXP = 8
# Rounding errors of precomputed distances are at most this fraction of the largest, and this many times less than any
# positive distance.
ROUNDING = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
APART = 16.0


class Affinity(ABC):
    """A symmetric, non-negative kernel k(x, y) on the data.

    It provides the matrix ``K`` between the N training points as an operator, and the rows of new points against the
    training points. A new point that is a training point has its row of ``K``.
    """

    n_samples: int
    dtype: np.dtype[Any]
    # Whether K is known to be positive semidefinite, so that A^t has a meaning for every real t > 0.
    definite: bool
    # Entries of a new point's row, for the size of batches.
    row_entries: int
    # How the kernel is stored, for users.
    description: str
    # Where products are computed; None for NumPy on the CPU.
    device: Device | None = None
    # Whether `row_products` multiplies rows of new points without forming them.
    multiplies_rows: bool = False
    # One of each set of equal training points, as an index.
    distinct_points: Any = slice(None)

    @property
    @abstractmethod
    def operator(self) -> Operator:
        """``K`` as an operator of shape (N, N)."""

    @abstractmethod
    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Kernel rows of new points.

        Returns
        -------
        rows : ndarray or csr_array of shape (m, N)
        log_scale : ndarray of shape (m,)
            The kernel is ``exp(log_scale) * rows``: a point far from all others keeps a row that does not underflow.
        """

    def batch_order(self, X: Any) -> IntArray | None:  # noqa: ARG002
        """An order of new points in which batches of them are faster, shape (m,); None if it does not matter."""
        return None

    def row_products(self, X: Any, V: Any) -> tuple[FloatArray, FloatArray]:
        """``rows(X)[0] @ V`` and the same `log_scale`, if `multiplies_rows`."""
        raise NotImplementedError

    def _placed(self, operator: DenseOperator | SparseOperator) -> Operator:
        """A matrix on the device, if there is one."""
        if self.device is None:
            return operator
        if isinstance(operator, DenseOperator):
            return self.device.dense_operator(operator.array)  # type: ignore[no-any-return]
        return self.device.sparse_operator(operator.held, operator.order)  # type: ignore[no-any-return]

    def is_training_input(self, X: Any) -> bool:  # noqa: ARG002
        """Whether `X` is known to be the training input itself, row for row."""
        return False

    @abstractmethod
    def twins(self, X: Any) -> sparse.csr_array:
        """Training points that new points equal, (m, N): rows with the sum 1, or 0 where there are none."""


class GaussianAffinity(Affinity):
    """``exp(-d(x, y)^2 / epsilon)`` for all pairs.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d), or (N, N) distances if metric is "precomputed"
    epsilon : float, or ndarray of shape (N,)
        A number, or the squared local scale s_i^2 of each point: then epsilon_ij = s_i s_j.
    metric : Metric
    scale_neighbor : int
        The neighbour whose distance is a point's local scale.
    zero_diagonal : bool
        Set k(x, x) = 0, also between coincident points.
    dtype : dtype of ``K``
    tiled : bool
        Whether products form the kernel tile by tile instead of storing it. Only for points and the Euclidean metric.
    device : Device, optional
        Where to compute; by default with NumPy on the CPU.
    precision : str
        Of the exponents on a device.
    """

    n_neighbors: int | None = None

    def __init__(
        self,
        X: Any,
        epsilon: float | FloatArray,
        *,
        metric: Metric | None = None,
        scale_neighbor: int = SELF_TUNING_NEIGHBOR,
        zero_diagonal: bool = False,
        dtype: Any = np.float64,
        tiled: bool = False,
        device: Device | None = None,
        precision: str = "auto",
    ) -> None:
        self.X, self.metric = X, metric or Metric()
        self.epsilon: Any = epsilon
        self.scale_neighbor, self.tiled, self.device, self.precision = scale_neighbor, tiled, device, precision
        self.zero_diagonal, self.dtype = zero_diagonal, np.dtype(dtype)
        self.n_samples = self.row_entries = X.shape[0]
        self.definite = self.metric.euclidean and np.ndim(epsilon) == 0 and not zero_diagonal
        self.description = "every pair, formed on the fly" if tiled else "every pair"
        if device is not None:
            self.description += f" on {device.chip}"

    @property
    def typical_epsilon(self) -> float:
        """The bandwidth, or the median of the squared local scales of distinct points."""
        epsilon: Any = self.epsilon
        return float(np.median(epsilon[self.distinct_points]) if np.ndim(epsilon) else epsilon)

    def bandwidth_by_rule(self, rule: str) -> float:
        """The bandwidth that a rule gives for the points."""
        return float(bandwidth_by_rule(self.X, rule, self.metric))

    def __getstate__(self) -> dict[str, Any]:
        # What is not pickled is computed again from X.
        return {name: value for name, value in self.__dict__.items() if name not in ("operator", "_known")}

    @cached_property
    def operator(self) -> Operator:
        """``K``, dense or tiled; made on first use."""
        if self.tiled:
            return self._tiles()
        n = self.n_samples
        K = np.empty((n, n), dtype=self.dtype)

        def fill(rows: slice) -> None:
            K[rows] = self._training_rows(rows)

        each(fill, chunks(n, n, CHUNK_ENTRIES // FILLS))
        return self._placed(DenseOperator(K))

    def _tiles(self) -> Operator:
        same = distinct(self.X) if self.zero_diagonal else None
        X, epsilon = self.X, self.epsilon
        if same is not None:  # coincident points have no affinity with each other either
            X, epsilon = X[same[0]], epsilon[same[0]] if isinstance(epsilon, np.ndarray) else epsilon
        options: dict[str, Any] = {"zero_diagonal": self.zero_diagonal, "dtype": self.dtype}
        tiles: Operator
        if self.device is None:
            tiles = TiledGaussianOperator(X, epsilon, **options)
        else:
            tiles = self.device.gaussian_operator(X, epsilon, precision=self.precision, **options)
        return tiles if same is None else FoldedOperator(tiles, same[1])

    def _training_rows(self, rows: slice) -> FloatArray:
        """Rows of ``K``, (m, N)."""
        epsilon: Any = self.epsilon
        here = epsilon[rows] if np.ndim(epsilon) else None
        return self._kernel(squared_distances(self.X[rows], self.X, self.metric), here, shift=False)[0]

    def _zero_rounding(self, X: Any) -> Any:
        """Precomputed distances (m, N) with 0 in place of rounding errors, such as of a point's distance to itself."""
        if not self.metric.precomputed:
            return X
        smallest = np.min(self.X, where=self.X > 0, initial=np.inf)
        limit = min(ROUNDING[self.X.dtype] * self.X.max(), smallest / APART)
        return np.where(limit >= X, X.dtype.type(0), X)

    def _kernel(self, D2: FloatArray, local: FloatArray | None, *, shift: bool) -> tuple[FloatArray, FloatArray]:
        """Kernel rows, and the log of their scale, from squared distances to the training points (m, N).

        `local` are squared local scales of the rows, (m,), if the training points have such scales.
        """
        epsilon: Any = self.epsilon
        if local is not None:
            epsilon = np.sqrt(local)[:, None] * np.sqrt(epsilon)[None, :]
        dropped = D2 == 0 if self.zero_diagonal else np.zeros(D2.shape, dtype=bool)
        lowest = np.zeros(D2.shape[0])
        if shift:  # exponents relative to that of the nearest point, which may be far away
            with np.errstate(over="ignore"):
                D2, epsilon = D2 / epsilon, 1.0
            lowest = np.where(dropped, np.inf, D2).min(axis=1)
            D2 -= np.where(np.isfinite(lowest), lowest, 0.0)[:, None]
        K = gaussian_affinity(D2, epsilon, self.dtype)
        K[dropped] = 0.0
        return K, -lowest

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Kernel rows of new points, (m, N), scaled so that the largest entry of each is 1."""
        D2 = squared_distances(self._zero_rounding(X), self.X, self.metric)
        epsilon: Any = self.epsilon
        local = None
        if np.ndim(epsilon):
            nearest = D2.argmin(axis=1)
            local = self_tuned(partial(kth_neighbor, D2[:, self.distinct_points]), self.scale_neighbor)
            local = np.where(D2[np.arange(len(D2)), nearest] == 0, epsilon[nearest], local)
        return self._kernel(D2, local, shift=True)

    @cached_property
    def _known(self) -> KnownPoints:
        return KnownPoints(self.X)

    def twins(self, X: Any) -> sparse.csr_array:
        """Training points that new points equal, (m, N): rows with the sum 1, or 0 where there are none."""
        m = X.shape[0]
        if self.metric.precomputed:
            D = self._zero_rounding(X)
            nearest = D.argmin(axis=1)
            twin = np.where(D[np.arange(m), nearest] == 0, nearest, -1)
        else:
            twin = self._known.match(X)
        rows = np.flatnonzero(twin >= 0)
        return sparse.csr_array((np.ones(len(rows)), (rows, twin[rows])), shape=(m, self.n_samples))

    @cached_property
    def distinct_points(self) -> Any:
        """One of each set of equal training points, as an index; only these count as neighbours."""
        same = None if self.metric.precomputed else distinct(self.X)
        return slice(None) if same is None else same[0]

    @property
    def multiplies_rows(self) -> bool:  # type: ignore[override]
        """Whether a device multiplies rows of new points without forming them; not if coincident points are folded."""
        return self.device is not None and self.tiled and hasattr(self.operator, "rows")

    def row_products(self, X: FloatArray, V: Any) -> tuple[FloatArray, FloatArray]:
        """``rows(X)[0] @ V`` and the same `log_scale`, on the device."""
        epsilon: Any = self.epsilon
        if np.ndim(epsilon):
            others, k = self.X[self.distinct_points], self.scale_neighbor
            epsilon = local_scales(X, others, metric=self.metric, n_neighbors=k, device=self.device)
        return self.operator.rows(X, epsilon, V)  # type: ignore[attr-defined, no-any-return]


def described(n_neighbors: int, recall: float) -> str:
    """How a kernel of neighbours is stored, for users."""
    return f"{n_neighbors} neighbours" + ("" if recall == 1.0 else f" (recall {recall:.3f})")


class CutoffAffinity(GaussianAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` if that is at least `cutoff`, else 0: sparse, and exact to `cutoff`, in (0, 1)."""

    def __init__(self, X: Any, epsilon: float | FloatArray, cutoff: float, **options: Any) -> None:
        super().__init__(X, epsilon, **options)
        self.cutoff, self.definite = cutoff, False
        self.description = f"pairs whose affinity is at least {cutoff:g}"

    @cached_property
    def operator(self) -> Operator:
        """``K``, sparse; made on first use."""
        n = self.n_samples
        batches = list(chunks(n, n))
        watched = track(batches, "finding pairs", len(batches))
        K = sparse.vstack([_kept(self._training_rows(rows), self.cutoff) for rows in watched], format="csr")
        K = sparse.csr_array(K.maximum(K.T).astype(self.dtype))
        same = None if self.metric.precomputed else distinct(self.X)
        if same is None:
            return self._placed(SparseOperator(K))
        first, places = same
        return FoldedOperator(self._placed(SparseOperator(K[first][:, first])), places)

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Kernel rows of new points, (m, N), scaled so that the largest entry of each is 1."""
        K, log_scale = super().rows(X)
        with np.errstate(over="ignore"):
            return _kept(K, self.cutoff * np.exp(-log_scale)[:, None]), log_scale


def _kept(K: FloatArray, least: Any) -> sparse.csr_array:
    """The entries that are at least `least`."""
    K[least > K] = 0.0
    return sparse.csr_array(K)


class NeighborAffinity(GaussianAffinity):
    """``exp(-d(x, y)^2 / epsilon)`` for pairs of neighbours, 0 for others.

    Parameters
    ----------
    X : ndarray or csr_array of shape (N, d), or (N, N) distances if metric is "precomputed"
    epsilon : float, or ndarray of shape (U,)
        A number, or the squared local scales of the vertices, in the order of the index.
    neighborhoods : Neighborhoods
        Of X.
    graph : tuple of arrays
        Its edges, from `NeighborLists.graph`.
    **options
        Of `GaussianAffinity`.
    """

    def __init__(
        self,
        X: Any,
        epsilon: float | FloatArray,
        neighborhoods: Neighborhoods,
        graph: tuple[Any, Any, Any],
        **options: Any,
    ) -> None:
        super().__init__(X, neighborhoods.at_points(epsilon) if isinstance(epsilon, np.ndarray) else epsilon, **options)
        self.neighborhoods, self.n_neighbors, self.definite = neighborhoods, neighborhoods.n_neighbors, False
        self.distinct_points = neighborhoods.distinct
        self.row_entries = neighborhoods.entries_of_row(self.scale_neighbor)
        self.description = described(self.n_neighbors, self.recall)
        if self.device is not None:
            self.description += f" on {self.device.chip}"
        # Of the vertices, in the order of the index.
        self._scale = np.full(neighborhoods.n_vertices, np.asarray(epsilon) ** -0.5)
        # K between vertices, in the order of the index.
        indptr, columns, squared = graph
        edges = squared, columns, indptr
        self._vertices: Any = weighted_graph(*edges, self._scale, self.dtype, zero_diagonal=self.zero_diagonal)

    @property
    def recall(self) -> float:
        """Share of the true neighbours that the search found, on a sample; 1 for an exact search."""
        recall = self.neighborhoods.index.recall
        assert recall is not None
        return recall

    def __getstate__(self) -> dict[str, Any]:
        # A matrix on a device is pickled as one in memory.
        return super().__getstate__() | {"_vertices": getattr(self._vertices, "here", self._vertices)}

    @cached_property
    def operator(self) -> Operator:
        """``K``, sparse."""
        vertices, order = self._vertices, self.neighborhoods.index.order
        if isinstance(vertices, SparseOperator):
            vertices = self._placed(SparseOperator(vertices.held, order=order))
        places = self.neighborhoods.places
        return vertices if places is None else FoldedOperator(vertices, places)

    def batch_order(self, X: Any) -> IntArray | None:
        """An order of new points in which batches of them are faster, shape (m,); None if it does not matter."""
        index = self.neighborhoods.index
        return index.query_order(X) if isinstance(index, ClusterIndex) else None

    def rows(self, X: Any) -> tuple[Any, FloatArray]:
        """Kernel rows of new points, (m, N), scaled so that the largest entry of each is 1."""
        hoods = self.neighborhoods
        found = hoods.rows(self._zero_rounding(X), self.scale_neighbor)
        local = None
        if np.ndim(self.epsilon):
            local = self_tuned(partial(kth_apart, found.lists[1]), self.scale_neighbor)
        K, lowest = gaussian_rows(found, local, self._scale, zero_diagonal=self.zero_diagonal)
        twins = np.flatnonzero(found.twin >= 0)
        if len(twins):  # a training point has the row that it has in the graph
            others = sparse.diags_array((found.twin < 0).astype(np.float64))
            put = sparse.csr_array(
                (np.ones(len(twins)), (twins, np.arange(len(twins)))), shape=(len(K.indptr) - 1, len(twins))
            )
            K = others @ K + put @ self._vertices.selected(found.twin[twins])
            lowest[twins] = 0.0
        return hoods.unfolded(K), -lowest


@singledispatch
def weighted_graph(
    squared: Any, columns: Any, indptr: Any, scale: FloatArray, dtype: Any, *, zero_diagonal: bool
) -> Operator:
    """``exp(-squared_ij scale_i scale_j)`` for the edges of a graph in compressed rows, as an operator.

    With `zero_diagonal` it is 0 at distance 0. Backends register their own arrays.
    """
    from ..compiled.search import gaussian_entries  # noqa: PLC0415

    data, n = np.empty(len(columns), dtype=dtype), len(scale)
    each(
        lambda rows: gaussian_entries(indptr, columns, squared, scale, data, rows.start, rows.stop),
        shares(n, _EXP * (1 + len(columns) // n)),
    )
    if zero_diagonal:
        data[squared == 0] = 0.0
    if len(columns) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    graph = sparse.csr_array((data, columns, indptr), shape=(n, n))
    if not data.all():  # an affinity that underflows is no edge
        graph.eliminate_zeros()
    return SparseOperator(graph, reorder=False)


def gaussian_rows(
    found: NewRows, local: FloatArray | None, scale: FloatArray, *, zero_diagonal: bool
) -> tuple[sparse.csr_array, FloatArray]:
    """Kernel rows of m new points against U vertices, (m, U), and the smallest exponent of each row, (m,).

    The exponent of a pair is its squared distance times the factors of both points: `scale`, (U,), of the vertices, and
    one over the root of the squared local scales `local`, (m,), of new points. A point that equals a vertex has its
    factor; without local scales all factors are equal. The smallest exponent is subtracted, so that the largest entry
    of each row is 1.
    """
    m, here = len(found.twin), scale[found.twin]
    if local is not None:
        new = found.twin < 0
        here[new] = local[new] ** -0.5
    row = np.repeat(np.arange(m), np.diff(found.indptr))
    with np.errstate(over="ignore"):  # exp(-inf) is 0
        exponent = found.squared * here[row] * scale[found.columns]
    if zero_diagonal:
        exponent[found.squared == 0] = np.inf
    lowest = np.full(m, np.inf)
    np.minimum.at(lowest, row, exponent)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    values = np.exp(lowest[row] - exponent)
    return sparse.csr_array((values, found.columns, found.indptr), shape=(m, len(scale))), lowest
