"""The embeddings among which :mod:`heatsketch.optimize.mixture` searches: linear functions of parameters Z.

With the multiscale filter, every sketch of a sparse kernel is a candidate, ``Y = A Z`` with Z of the shape of Y: the
filter contains time 1, so these are the sketches ``h(A) M`` with ``M = (h(A) / A)^-1 Z``. At a single time t, which
smooths much more, and for kernels of all pairs, the candidates are the projections ``F Z`` of a wide sketch F.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.registry import device_of
from .._utils.typing import FloatArray, IntArray
from ..kernel.bandwidth import SELF_TUNING_NEIGHBOR
from ..kernel.operator import HeatKernel, KernelGraph
from ..kernel.plan import sketch_columns, wide_columns
from ..linalg.diffusion import diffuse
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.metrics import magnitude
from ..linalg.operators import Operator, SparseOperator
from ..linalg.sketch import GaussianSketch, sample
from ..neighbors.search import nearest_neighbors
from .features import WideSketch, wide_sketch
from .labels import agreeing, known_classes

__all__ = [
    "AlignedSpace",
    "FeatureSpace",
    "KernelSpace",
    "SearchSpace",
    "aligned_steps",
    "neighbor_graph",
    "relative_scales",
    "search_space",
    "searched",
]

# Weight of ``|Z - A Z|^2``: what differs between neighbours cannot be predicted for new points.
_ROUGHNESS = 0.00025
# Directions whose features are smaller, relative to the largest, are dropped: entries of M would be huge, and cancel at
# the fitted points only.
_LEAST = 1e-3
# Neighbours of each point by diffusion distance.
_NEIGHBORS = 15
# Columns of the sketch if distances alone are kept: their errors are then 6%.
_ACCURATE = 128
# Error of the filter, relative: far below that of the sketch, which has few columns.
_FILTER_ERROR = 0.01
# Scales are at most this factor above or below their median: a few extreme ones must not determine the picture.
_EXTREME = 4.0
# Samples of a data set on a cluster that are optimised, in this process.
_SEEN = 20_000
# Share of heat that may have stayed with its item in all steps if several kernels share one M, and bounds of the number
# of steps. With fewer, items are placed by their rows of M more than by the kernel: groups that are one in a data set
# are shown apart if they are two in another. With more, neighbours are kept less well.
_STAYED, _ALIGNED_STEPS, _ISOLATED = 0.005, (2, 16), 0.999
_SEED = 0x3A9  # fixed: distances and start are functions of the kernel, and pictures of other seeds nearly the same


class SearchSpace(Protocol):
    """Embeddings ``Y = L(Z)`` of n points that are linear in parameters Z, and about as long as Z.

    Attributes
    ----------
    start : array
        Parameters of the leading directions, or of a given embedding.
    features : array of shape (n, m)
        Distances between its rows are, or estimate, diffusion distances.
    graph : csr_array of shape (n, n), or an operator on a device
        Similarities of neighbours, symmetric, with the sum n.
    scales : ndarray of shape (n,)
        The scale of each point, relative to the median, in float32.
    """

    start: Any
    features: Any
    graph: Any
    scales: FloatArray

    def embedding(self, Z: Any) -> Any:
        """Y, (n, k)."""

    def gradient(self, Z: Any, slope: Any) -> Any:
        """Gradient with respect to the Z embedded last, given that with respect to Y, (n, k), with any penalty."""

    def matrix(self, Z: Any) -> Any:
        """M, (N, k), of the sketch."""


class KernelSpace:
    """``Y = diag(l) B Z`` for a sparse kernel between distinct points with masses c: the sum over equal points.

    ``B = diag(sqrt(c)) S diag(sqrt(c))`` is symmetric, with the nonzero eigenvalues of the kernel of all points, and
    ``l = w / sqrt(c)`` with w the row weight of the kernel for points of mass 1; l is relative to its mean.

    Parameters
    ----------
    kernel : HeatKernel
    graph : KernelGraph
        The sparse matrix of the kernel.
    power : Power
    k : int
    width : int
        Columns of the sketch that distances are compared with.
    init : ndarray of shape (N, k), optional
        Embedding to start from.
    aligned : int, optional
        For several kernels through one M: rows of the sketch belong to items, and B is applied so many times.
    """

    def __init__(
        self,
        kernel: HeatKernel,
        graph: KernelGraph,
        power: Power,
        k: int,
        *,
        width: int,
        init: FloatArray | None = None,
        aligned: int = 0,
    ) -> None:
        self._kernel, self._places, self.graph = kernel, graph.places, neighbor_graph(graph.S)
        self._steps = aligned or 1
        point = np.empty(graph.S.shape[0], dtype=np.int64)  # one of each row
        point[graph.places] = np.arange(len(graph.places))
        self.scales = relative_scales(kernel, point)
        root = np.sqrt(graph.masses)
        B: Any = graph.S if isinstance(graph.S, Operator) else SparseOperator(graph.S, reorder=False)
        if (root != 1).any():
            B = B.scaled(root, root)
        self._B = kernel.device.sparse_operator(B.held) if kernel.device and hasattr(B, "held") else B
        # Of all masses at a point, this one has a part.
        masses = None if kernel.scaling is None else kernel.scaling.masses
        own = 1.0 if masses is None else np.sqrt(to_numpy(masses)[point])
        trivial = None if kernel.trivial is None else root / own * to_numpy(kernel.trivial)[point]
        distinct = HeatKernel(self._B, trivial=trivial, definite=kernel.definite, scaling=kernel.scaling)
        share = np.ones(len(graph.places)) if masses is None else np.sqrt(to_numpy(masses))
        self._share = share / root[graph.places]
        if aligned:
            drawn = GaussianSketch(_SEED).matrix(len(graph.places), width)
            G = self.parameters(drawn) / float(np.sqrt(width))
        else:
            G = distinct.sketched(GaussianSketch(_SEED), width, dtype=np.float32) / float(np.sqrt(width))
        F = diffuse(distinct, G, [power], trivial=not kernel.trivial_is_constant, rtol=_FILTER_ERROR)[0]
        weight = 1.0 if kernel.row_weight is None else own * to_numpy(kernel.row_weight)[point]
        left = weight / root
        left = left / np.mean(left)
        self._left = None if (left == 1).all() else asarray_like(left[:, None], F, np.float32)
        self.features = F if self._left is None else self._left * F
        if init is None:
            start = _principal(self.features, k)
        else:
            start = asarray_like(init[point] - init[point].mean(axis=0), F, np.float32)
        self.start = start if self._left is None else start / self._left

    def embedding(self, Z: Any) -> Any:
        """Y, (n, k)."""
        self._smooth = self._smoothed(Z)
        return self._smooth if self._left is None else self._left * self._smooth

    def _smoothed(self, Z: Any) -> Any:
        for _ in range(self._steps):
            Z = self._B.matmat(Z)
        return Z

    def gradient(self, Z: Any, slope: Any) -> Any:
        """Gradient with respect to Z, with that of half the roughness ``|Z - B Z|^2``, after `embedding` of this Z."""
        rough = _ROUGHNESS * (Z - self._smooth)
        return rough + self._smoothed((slope if self._left is None else self._left * slope) - rough)

    def at_items(self, Z: Any) -> Any:
        """Parameters of all points, (N, k), from those of distinct ones: equal points have parts of one parameter."""
        return asarray_like(self._share[:, None], Z, np.float32) * Z[asarray_like(self._places, Z)]

    def parameters(self, M: FloatArray) -> Any:
        """Parameters of distinct points, (n, k), from those of all points: the transpose of `at_items`."""
        n = self.graph.shape[0]
        gather = sparse.csr_array((self._share, (self._places, np.arange(len(self._places)))), shape=(n, len(M)))
        return self._B.asblock(gather @ M)

    def matrix(self, Z: Any) -> Any:
        """M of all points, (N, k), without a constant trivial mode, which changes no distance."""
        kernel = self._kernel
        M = kernel.asblock(self.at_items(Z))
        return kernel.project(M, kernel.asblock(kernel.trivial)) if kernel.trivial_is_constant else M


class AlignedSpace:
    """``Y = [A_1^s M; A_2^s M; ...]``: several kernels on the same items through one M, the parameters, (N, k).

    Parameters
    ----------
    spaces : list of KernelSpace
        Each of one kernel, with aligned sketches.
    k : int
    """

    def __init__(self, spaces: list[KernelSpace], k: int) -> None:
        self._spaces = spaces
        self._ends = np.cumsum([space.graph.shape[0] for space in spaces])[:-1]
        self.features = np.concatenate([to_numpy(space.features) for space in spaces])
        self.graph = sparse.csr_array(sparse.block_diag([_in_memory(space.graph) for space in spaces], format="csr"))
        self.scales = np.concatenate([space.scales for space in spaces])
        self.start = self._at_items(_principal(self.features, k)) / np.float32(len(spaces))

    def _at_items(self, Y: FloatArray) -> FloatArray:
        """The sum, over all kernels, of values at their points, (n, k) -> (N, k)."""
        parts = zip(self._spaces, np.split(Y, self._ends), strict=True)
        total: FloatArray = sum(to_numpy(space.at_items(part)) for space, part in parts)
        return total

    def embedding(self, Z: FloatArray) -> FloatArray:
        """Y of all kernels, one after another, (n, k)."""
        return np.concatenate([to_numpy(space.embedding(space.parameters(Z))) for space in self._spaces])

    def gradient(self, Z: FloatArray, slope: FloatArray) -> FloatArray:
        """Gradient with respect to Z: the sum over all kernels."""
        parts = zip(self._spaces, np.split(slope, self._ends), strict=True)
        each = [
            space.gradient(space.parameters(Z), asarray_like(part, space.features, np.float32)) for space, part in parts
        ]
        return self._at_items(np.concatenate([to_numpy(one) for one in each]))

    def matrix(self, Z: FloatArray) -> FloatArray:
        """M, (N, k)."""
        return Z


class FeatureSpace:
    """``Y = F W`` for a wide sketch F; Z is W in units in which all directions of F count alike, and Y is as long as Z.

    Parameters
    ----------
    wide : WideSketch
    samples : ndarray of int, optional
        The points that are embedded, if not all.
    k : int
    scales : ndarray of shape (n,)
    dtype : dtype
        Of M.
    init : ndarray of shape (n, k), optional
        Embedding to start from.
    """

    def __init__(
        self,
        wide: WideSketch,
        samples: IntArray | None,
        k: int,
        *,
        scales: FloatArray,
        dtype: Any,
        init: FloatArray | None = None,
    ) -> None:
        self._wide, self.scales, self._dtype = wide, scales, dtype
        given = (wide if samples is None else wide.at(samples)).features
        # In a unit in which squares do not underflow in float32; it is that of Y, too.
        self.features = F = astype(given / magnitude(given), np.float32)
        xp, n = array_namespace(F), F.shape[0]
        centred = F - xp.mean(F, axis=0)
        squared, V = np.linalg.eigh(to_numpy(centred.T @ centred).astype(np.float64) / n)
        size = np.sqrt(np.maximum(squared[::-1], 0.0))
        kept = min(len(size), max(k, int(np.count_nonzero(size > _LEAST * size[0]))))
        unit = np.sqrt(kept) * np.maximum(size[:kept], _LEAST * size[0])
        self._turned = V[:, ::-1][:, :kept] / unit  # [m, kept]
        self._Q = centred @ asarray_like(self._turned, F, np.float32)
        self.graph = _feature_graph(F)
        if init is None:
            self.start = asarray_like(np.eye(kept, k) * unit[:, None], F, np.float32)
        else:
            self.start = self._Q.T @ asarray_like(init - init.mean(axis=0), F, np.float32) * (kept / n)

    def embedding(self, Z: Any) -> Any:
        """Y, (n, k)."""
        return self._Q @ Z

    def gradient(self, Z: Any, slope: Any) -> Any:  # noqa: ARG002
        """Gradient with respect to Z."""
        return self._Q.T @ slope

    def matrix(self, Z: Any) -> Any:
        """``M W``, (N, k), with the M of the wide sketch."""
        return self._wide.combined(self._turned @ to_numpy(Z).astype(np.float64), self._dtype)


def searched(kernel: HeatKernel) -> IntArray | None:
    """The samples that are optimised; None for all."""
    return None if kernel.in_memory else sample(kernel.shape[0], _SEEN)


def search_space(
    kernel: HeatKernel,
    power: Power,
    k: int,
    *,
    weight: float,
    init: FloatArray | None,
    labels: IntArray | None = None,
    check: Callable[[Any], None] = lambda _: None,
) -> SearchSpace:
    """The sketches to search among.

    With a `weight` of neighbours of 0, distances are compared with a wider sketch. `init` is an embedding of the
    `searched` samples to start from, or None. `labels` are those of all samples, -1 if unknown, or None. `check` raises
    an error for features in which all points coincide.
    """
    space: SearchSpace
    graph = kernel.graph(on_device=True) if isinstance(power, MultiscaleFilter) else None
    if graph is not None:
        width = sketch_columns(k) if weight > 0 else max(_ACCURATE, k)
        space = KernelSpace(kernel, graph, power, k, width=width, init=init)
        check(space.features)
        places = graph.places
    else:
        samples = searched(kernel)
        if samples is None and not isinstance(some := getattr(kernel.affinity, "distinct_points", slice(None)), slice):
            samples = np.sort(some)  # equal points would be the nearest neighbours of each other
            init = None if init is None else init[samples]
            labels = None if labels is None else labels[samples]
        space = _feature_space(kernel, power, k, samples=samples, init=init, check=check)
        places = np.arange(space.graph.shape[0])
    if labels is not None:
        known = known_classes(labels, places, space.graph.shape[0])
        space.graph = agreeing(_in_memory(space.graph), known)
    return space


def _feature_space(
    kernel: HeatKernel,
    power: Power,
    k: int,
    *,
    samples: IntArray | None,
    init: FloatArray | None,
    check: Callable[[Any], None],
) -> FeatureSpace:
    n = kernel.shape[0]
    wide = wide_sketch(kernel, power, wide_columns(n, k), _SEED)
    check(wide.features)
    scales = relative_scales(kernel, np.arange(n) if samples is None else samples)
    return FeatureSpace(wide, samples, k, scales=scales, dtype=kernel.dtype, init=init)


def relative_scales(kernel: HeatKernel, points: IntArray) -> FloatArray:
    """Scales of some points in the affinity, relative to their median; 1 if all points have the same bandwidth."""
    squared: Any = getattr(kernel.affinity, "epsilon", 1.0)
    if np.ndim(squared) == 0:
        return np.ones(len(points), dtype=np.float32)
    scales: FloatArray = np.sqrt(squared[points].astype(np.float64))
    relative: FloatArray = np.clip(scales / np.median(scales), 1.0 / _EXTREME, _EXTREME)
    return relative.astype(np.float32)


def aligned_steps(graphs: list[KernelGraph]) -> int:
    """Steps s of several kernels through one M: so many that ``a^s`` is small, a the mean diagonal of each kernel.

    For points a is about 0.15, which takes 3 steps; for graphs, whose walks are lazy, it is about 0.5 and takes 8.
    """
    stays = (graph.masses * graph.S.diagonal() for graph in graphs)
    # Heat of an isolated vertex stays, whatever the number of steps.
    stay = max(float(np.mean(a[a < _ISOLATED])) if (a < _ISOLATED).any() else 0.0 for a in stays)
    few, many = _ALIGNED_STEPS
    return min(many, max(few, int(np.ceil(np.log(_STAYED) / np.log(min(max(stay, _STAYED), 1.0 - _STAYED))))))


def _in_memory(graph: Any) -> Any:
    """A graph as a csr_array."""
    return graph if sparse.issparse(graph) else graph.here.held


@singledispatch
def neighbor_graph(S: Any) -> Any:
    """Similarities of neighbours: squared entries outside the diagonal of S, (n, n), as a csr_array with the sum n.

    Rows are normalised to the same sum before the matrix is made symmetric. Backends register their own matrices.
    """
    P = sparse.csr_array(S, dtype=np.float32, copy=True)
    P.data[P.indices == np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))] = 0
    P.eliminate_zeros()
    if not P.nnz:
        return P
    counts = np.diff(P.indptr)
    P.data /= np.repeat(P.max(axis=1).toarray().ravel(), counts)  # squares of an outlier's entries would underflow
    P.data **= 2
    P.data /= np.repeat(np.asarray(P.sum(axis=1)).ravel(), counts)
    P = sparse.csr_array(P + P.T)
    P.data *= P.shape[0] / float(P.data.sum(dtype=np.float64))
    return P


def _feature_graph(F: Any) -> Any:
    """Similarities of neighbours by the distances between rows of F, with a scale for each point."""
    n = F.shape[0]
    k = min(_NEIGHBORS, n - 1)
    near = nearest_neighbors(F, k, device=device_of(F))
    squared = near.squared.astype(np.float64)
    scale = np.sqrt(squared[:, min(SELF_TUNING_NEIGHBOR, k) - 1])
    scale = np.maximum(scale, _LEAST * (scale.mean() or 1.0))
    values = np.exp(-squared / (scale[:, None] * scale[near.indices]))
    starts = np.arange(0, n * k + 1, k)
    return neighbor_graph(sparse.csr_array((values.ravel(), near.indices.ravel(), starts), shape=(n, n)))


def _principal(F: Any, k: int) -> Any:
    """The k leading principal components of the rows of F, (n, k)."""
    centred = F - array_namespace(F).mean(F, axis=0)
    axes = np.linalg.eigh(to_numpy(centred.T @ centred).astype(np.float64))[1][:, ::-1][:, :k]
    return centred @ asarray_like(axes, F, np.float32)
