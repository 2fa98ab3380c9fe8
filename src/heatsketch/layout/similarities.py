"""Similarities of neighbours, and features whose distances are diffusion distances: what a layout is to keep.

The similarities P of a kernel of neighbours are its own entries outside the diagonal, with rows of equal sums. A kernel
of all pairs, or at a single time t, gives neighbours by its features: the rows of a wide sketch ``h(A) M``, between
which distances are diffusion distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.array import asarray_like, astype, to_numpy
from .._utils.registry import device_of
from .._utils.typing import FloatArray, IntArray
from ..kernel.affinity import GaussianAffinity
from ..kernel.bandwidth import SELF_TUNING_NEIGHBOR
from ..kernel.operator import HeatKernel, KernelGraph
from ..kernel.plan import sketch_columns, wide_columns
from ..linalg.diffusion import diffuse
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.metrics import magnitude
from ..linalg.operators import Operator, SparseOperator
from ..linalg.sketch import GaussianSketch
from ..neighbors.neighborhoods import distinct
from ..neighbors.search import nearest_neighbors
from ..optimize.features import wide_sketch

__all__ = [
    "Similarities",
    "distinct_samples",
    "in_memory",
    "neighbor_graph",
    "neighbor_weights",
    "relative_scales",
    "similarities_of",
]

# Neighbours of each point by diffusion distance, and of a new point, of all.
NEIGHBORS = 15
# Columns of the sketch if distances alone are kept: their errors are then 6%.
_ACCURATE = 128
# Error of the filter, relative: far below that of the sketch, which has few columns.
_FILTER_ERROR = 0.01
# Scales are at most this factor above or below their median: a few extreme ones must not determine the picture.
_EXTREME = 4.0
# The smallest scale of a point by its features, relative to the mean.
_LEAST = 1e-3
_SEED = 0x3A9  # fixed: distances and start are functions of the kernel, and pictures of other seeds nearly the same


@dataclass(frozen=True)
class Similarities:
    """What a layout of n distinct points is to keep.

    Attributes
    ----------
    graph : csr_array of shape (n, n), or an operator on a device
        Similarities P of neighbours, symmetric, with the sum n.
    features : array of shape (n, m)
        Distances between its rows, times `unit`, are diffusion distances or estimate them.
    scales : ndarray of shape (n,)
        The scale of each point, relative to the median, in float32.
    places : ndarray of int, shape (N,)
        The point of each sample: equal samples are one point.
    unit : float
    """

    graph: Any
    features: Any
    scales: FloatArray
    places: IntArray
    unit: float = 1.0

    @property
    def samples(self) -> IntArray:
        """The first sample of each point, shape (n,)."""
        first = np.empty(len(self.scales), dtype=np.int64)
        first[self.places[::-1]] = np.arange(len(self.places))[::-1]
        return first


def similarities_of(kernel: HeatKernel, power: Power, k: int, *, weight: float) -> Similarities:
    """The similarities for a layout in k dimensions, with this weight of neighbours.

    For all times of a graph, features of several kernels of the same samples can be compared, sample by sample.
    """
    graph = kernel.graph(on_device=True) if isinstance(power, MultiscaleFilter) else None
    if graph is None:
        return _by_features(kernel, power, k)
    F, unit = _sketch(kernel, graph, power, sketch_columns(k) if weight > 0 else max(_ACCURATE, k))
    return Similarities(neighbor_graph(graph.S), F, relative_scales(kernel, graph.points), graph.places, unit)


def _sketch(kernel: HeatKernel, graph: KernelGraph, power: Power, width: int) -> tuple[Any, float]:
    """A sketch of the kernel between distinct points, (n, width), and its unit.

    A row of its random matrix belongs to a sample, the first of its point.
    """
    points, root = graph.points, np.sqrt(graph.masses)
    B: Any = graph.S if isinstance(graph.S, Operator) else SparseOperator(graph.S, reorder=False)
    if (root != 1).any():  # diag(sqrt(c)) S diag(sqrt(c)) has the nonzero eigenvalues of the kernel of all samples
        B = B.scaled(root, root)
    B = kernel.device.sparse_operator(B.held) if kernel.device and hasattr(B, "held") else B
    # Of all masses at a point, its first sample has a part.
    masses = None if kernel.scaling is None else kernel.scaling.masses
    own = 1.0 if masses is None else np.sqrt(to_numpy(masses)[points])
    trivial = None if kernel.trivial is None else root / own * to_numpy(kernel.trivial)[points]
    merged = HeatKernel(B, trivial=trivial, definite=kernel.definite, scaling=kernel.scaling)
    G = kernel.sketched(GaussianSketch(_SEED), width, dtype=np.float32)
    G = merged.asblock(G[asarray_like(points, G)]) / float(np.sqrt(width))
    [F] = diffuse(merged, G, [power], trivial=not kernel.trivial_is_constant, rtol=_FILTER_ERROR)
    weight = (1.0 if kernel.row_weight is None else own * to_numpy(kernel.row_weight)[points]) / root
    unit = float(np.mean(weight))
    weight = weight / unit
    return (F if (weight == 1).all() else asarray_like(weight[:, None], F, np.float32) * F), unit


def _by_features(kernel: HeatKernel, power: Power, k: int) -> Similarities:
    """Neighbours by diffusion distance, which is that between the rows of a wide sketch."""
    n, affinity = kernel.shape[0], kernel.affinity
    samples: IntArray = np.arange(n)
    places = samples
    # Equal points would be the nearest neighbours of each other.
    if isinstance(affinity, GaussianAffinity) and not affinity.metric.precomputed:
        samples, places = distinct(affinity.X) or (samples, places)
    wide = wide_sketch(kernel, power, wide_columns(n, k), _SEED)
    F = wide.features if len(samples) == n else wide.features[asarray_like(samples, wide.features)]
    size = float(magnitude(F)) or 1.0  # squares could underflow in float32
    F = astype(F / size, np.float32)
    scales = relative_scales(kernel, samples)
    return Similarities(_feature_graph(F), F, scales, places, size * wide.unit)


def _feature_graph(F: Any) -> Any:
    """Similarities of neighbours by the distances between rows of F, with a scale for each point."""
    n = F.shape[0]
    near = nearest_neighbors(F, min(NEIGHBORS, n - 1), device=device_of(F))
    squared = near.squared.astype(np.float64)
    scale = np.sqrt(squared[:, min(SELF_TUNING_NEIGHBOR, squared.shape[1]) - 1])
    scale = np.maximum(scale, _LEAST * (scale.mean() or 1.0))
    values = np.exp(-squared / (scale[:, None] * scale[near.indices]))
    starts = np.arange(0, values.size + 1, values.shape[1])
    return neighbor_graph(sparse.csr_array((values.ravel(), near.indices.ravel(), starts), shape=(n, n)))


def neighbor_weights(kernel: HeatKernel, rows: Any, samples: IntArray) -> Any:
    """Weights of distinct points for new ones, (m, n), from affinities to all samples, (m, N); rows with the sum 1.

    ``p_j`` is proportional to ``k(x, x_j) s_j`` with the scaling s of a point of mass 1, as in the kernel itself. Of
    affinities to all points, (m, N) and dense, the largest count.
    """
    scaling = kernel.scaling
    assert scaling is not None
    scale = to_numpy(scaling.scale).astype(np.float64)
    scale = (scale if scaling.masses is None else scale / np.sqrt(scaling.masses))[samples]
    if sparse.issparse(rows):
        P = sparse.csr_array(rows, dtype=np.float64)
        P = P if len(samples) == P.shape[1] else P[:, samples]
        return _normalized(sparse.csr_array((P.data * scale[P.indices], P.indices, P.indptr), shape=P.shape))
    values = rows[:, samples] * scale
    k = min(NEIGHBORS, values.shape[1])
    near = np.sort(np.argpartition(-values, k - 1, axis=1)[:, :k], axis=1)
    kept = np.take_along_axis(values, near, axis=1).astype(np.float64)
    starts = np.arange(0, near.size + 1, k)
    return _normalized(sparse.csr_array((kept.ravel(), near.ravel(), starts), shape=values.shape))


def _normalized(P: Any) -> Any:
    """Rows divided by their sums."""
    sums = np.add.reduceat(P.data, P.indptr[:-1]) if P.nnz else np.ones(P.shape[0])
    P.data /= np.repeat(sums, np.diff(P.indptr))
    return P


def distinct_samples(kernel: HeatKernel) -> IntArray:
    """One of each set of equal samples, in increasing order."""
    samples = np.arange(kernel.shape[0])[getattr(kernel.affinity, "distinct_points", slice(None))]
    return np.sort(samples)


def relative_scales(kernel: HeatKernel, samples: IntArray) -> FloatArray:
    """Scales of some samples in the affinity, relative to their median; 1 if all points have the same bandwidth."""
    squared: Any = getattr(kernel.affinity, "epsilon", 1.0)
    if np.ndim(squared) == 0:
        return np.ones(len(samples), dtype=np.float32)
    scales: FloatArray = np.sqrt(squared[samples].astype(np.float64))
    relative: FloatArray = np.clip(scales / np.median(scales), 1.0 / _EXTREME, _EXTREME)
    return relative.astype(np.float32)


@singledispatch
def neighbor_graph(S: Any) -> Any:
    """Similarities of neighbours: entries outside the diagonal of S, (n, n), as a csr_array with the sum n.

    Rows are normalised to the same sum before the matrix is made symmetric. Backends register their own matrices.
    """
    P = sparse.csr_array(S, dtype=np.float32, copy=True)
    P.data[P.indices == np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))] = 0
    P.eliminate_zeros()
    if not P.nnz:
        return P
    counts = np.diff(P.indptr)
    P.data /= np.repeat(P.max(axis=1).toarray().ravel(), counts)  # sums of an outlier's entries could underflow
    P.data /= np.repeat(np.asarray(P.sum(axis=1)).ravel(), counts)
    P = sparse.csr_array(P + P.T)
    P.data *= P.shape[0] / float(P.data.sum(dtype=np.float64))
    return P


def in_memory(graph: Any) -> Any:
    """A graph as a csr_array."""
    return graph if sparse.issparse(graph) else graph.here.held
