"""What a worker does with a pair of bands: form the kernel between them, tile by tile, and use it for both.

Nothing here knows of Dask: these are the functions that tasks call. A worker never holds more of the kernel than a few
tiles, however large a band is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any
from weakref import ref

import numpy as np

from ..._utils.chunks import chunks
from ..._utils.registry import find_device
from ..._utils.threads import Scratch
from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import Metric, gaussian_affinity, squared_distances
from ...linalg.operators.tiled import TILE, Arithmetic, Tiles, padded, tournament
from ..torch.device import Device, computing, worker_has_gpu

__all__ = [
    "BandPoints",
    "PairKernel",
    "RowSums",
    "between",
    "joined_sums",
    "kth_of_lists",
    "merged_nearest",
    "nearest_of_pair",
    "row_sums",
    "worker_device",
]

# The points of a band, (m, d), and their squared local scales, (m,), or None.
BandPoints = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class PairKernel:
    """What a worker must know of ``exp(-d(x, y)^2 / epsilon)`` to form it between two bands.

    Attributes
    ----------
    metric : Metric
    epsilon : float or None
        None where points have scales of their own.
    zero_diagonal : bool
        Whether points that coincide have no affinity.
    dtype : str
    device, precision : str
        "auto" takes the GPU of a worker that has one.
    arithmetic : Arithmetic or None
        How compiled tiles are formed; None where they are not: for other metrics, and without the diagonal.
    centre : ndarray of shape (d,), or None
    unit : float
        Where the points are taken from, and their unit.
    """

    metric: Metric
    epsilon: float | None
    zero_diagonal: bool
    dtype: str
    device: str = "cpu"
    precision: str = "auto"
    arithmetic: Arithmetic | None = None
    centre: FloatArray | None = None
    unit: float = 1.0

    def scales_of(self, band: BandPoints) -> Any:
        """Squared local scales, or the epsilon of all."""
        return self.epsilon if band[1] is None else band[1]

    def tiles(self, band: BandPoints) -> Tiles:
        """A band's points as compiled tiles are formed from them."""
        assert self.arithmetic is not None
        assert self.centre is not None
        roots = np.broadcast_to(np.sqrt(np.asarray(self.scales_of(band), dtype=np.float64)), len(band[0]))
        return self.arithmetic.tiles(band[0], self.centre, self.unit, roots)


def between(
    A: BandPoints, B: BandPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """``K W`` and ``K^T V`` for the kernel K between two bands; for one band (B and W None) its own ``K V``.

    Parameters
    ----------
    A, B : tuples
        Points of a band, (m, d) or (n, d), and their squared local scales, or None.
    V, W : ndarrays of shape (m, k) and (n, k)
    kernel : PairKernel

    Returns
    -------
    ndarrays of shape (m, k) and (n, k), or None
    """
    if kernel.arithmetic is None:
        return _by_metric(A, B, V, W, kernel)
    if worker_device(kernel.device) is not None:
        return _on_device(A, B, V, W, kernel)
    m, k = V.shape
    if B is None or W is None:
        tiles, block, pairs = kernel.tiles(A), V, _own_pairs(m)
    else:
        tiles, block = kernel.tiles(A).joined(kernel.tiles(B)), np.concatenate([V, W])
        pairs = _crossed_pairs(m, len(W))
    block, out = padded(np.ascontiguousarray(block))
    tiles.multiply(pairs, block, out, Scratch())
    return np.ascontiguousarray(out[:m, :k]), None if B is None else np.ascontiguousarray(out[m:, :k])


def _own_pairs(m: int) -> IntArray:
    fixtures = (pair for fixture in tournament(m, TILE) for pair in fixture)
    return np.array([(a.start, a.stop, b.start, b.stop) for a, b in fixtures], dtype=np.int64).reshape(-1, 4)


def _crossed_pairs(m: int, n: int) -> IntArray:
    """Tiles between the first m points and the n after them."""
    top, left = (np.arange(0, size, TILE) for size in (m, n))
    i, j = (grid.ravel() for grid in np.meshgrid(top, left, indexing="ij"))
    ends = np.minimum(i + TILE, m), m + np.minimum(j + TILE, n)
    return np.column_stack([i, ends[0], m + j, ends[1]]).astype(np.int64)


def _by_metric(
    A: BandPoints, B: BandPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """The same for any metric, some rows at a time, with zeros between points that coincide where that is wanted."""
    there, right = (A, V) if B is None or W is None else (B, W)
    out = np.empty(V.shape, dtype=V.dtype)
    mirrored = None if B is None else np.zeros(right.shape, dtype=V.dtype)
    for rows in chunks(len(V), there[0].shape[0]):
        K = _entries((A[0][rows], None if A[1] is None else A[1][rows]), there, kernel)
        out[rows] = K @ right
        if mirrored is not None:
            mirrored += K.T @ V[rows]
    return out, mirrored


def _entries(A: BandPoints, B: BandPoints, kernel: PairKernel) -> FloatArray:
    """The kernel between the points of A and those of B, (m, n)."""
    D2 = squared_distances(A[0], B[0], kernel.metric)
    epsilon: Any = kernel.epsilon
    if A[1] is not None and B[1] is not None:
        epsilon = np.sqrt(A[1])[:, None] * np.sqrt(B[1])[None, :]
    coincident = D2 == 0 if kernel.zero_diagonal else None
    K = gaussian_affinity(D2, epsilon, kernel.dtype)
    if coincident is not None:
        K[coincident] = 0.0
    return K.astype(kernel.dtype, copy=False)


def _on_device(
    A: BandPoints, B: BandPoints | None, V: FloatArray, W: FloatArray | None, kernel: PairKernel
) -> tuple[FloatArray, FloatArray | None]:
    """The same on the worker's own device."""
    with computing():
        first = _operator_there(A, kernel)
        if B is None or W is None:
            return first @ V, None
        second = _operator_there(B, kernel)
        here, there = second.rows(A[0], kernel.scales_of(A), W), first.rows(B[0], kernel.scales_of(B), V)
    return _unshifted(*here), _unshifted(*there)


def _operator_there(band: BandPoints, kernel: PairKernel) -> Any:
    """The kernel of a band on the worker's device; the latest are kept, for they are used again and again."""
    points, scales = band
    made = (id(points), kernel.epsilon, kernel.dtype, kernel.precision, kernel.device)
    with _lock:
        found = _there.get(made)
    if found is None or found[0]() is not points or found[1] is not scales:
        device = worker_device(kernel.device)
        assert device is not None
        options: dict[str, Any] = {"dtype": kernel.dtype, "precision": kernel.precision}
        operator = device.gaussian_operator(points, kernel.scales_of(band), **options)
        found = ref(points, lambda _: _forget(made)), scales, operator
        with _lock:
            _there[made] = found
            while len(_there) > _KEPT:
                del _there[next(iter(_there))]
    return found[2]


def _forget(made: tuple[Any, ...]) -> None:
    """Points that are gone need no kernel."""
    with _lock:
        _there.pop(made, None)


# By the identity of the points, which a worker holds for as long as the kernel is used.
_there: dict[tuple[Any, ...], tuple[Any, Any, Any]] = {}
_lock = RLock()
_KEPT = 16


def _unshifted(products: FloatArray, log_scale: FloatArray) -> FloatArray:
    """Products with rows as they are, from those with rows whose largest entry is 1."""
    whole: FloatArray = np.exp(log_scale)[:, None].astype(products.dtype) * products
    return whole


@cache
def worker_device(wanted: str) -> Device | None:
    """Where a worker computes: on its own GPU if it has one and nothing else was asked for; None for the CPU."""
    return find_device(("cuda" if worker_has_gpu() else "cpu") if wanted == "auto" else wanted)  # type: ignore[return-value]


# Rows of the kernel at new points, summed against columns: the sums, in units in which the largest entry of each row
# is 1, and the logarithm of that entry. Those of several bands are joined in the larger unit.
RowSums = tuple[FloatArray, FloatArray]


def row_sums(Q: Any, band: BandPoints, columns: FloatArray, local: FloatArray | None, kernel: PairKernel) -> RowSums:
    """The rows of new points against one band, summed.

    Parameters
    ----------
    Q : ndarray of shape (m, d)
    band : tuple
        Points (n, d) and their squared local scales (n,), or None.
    columns : ndarray of shape (n, c)
    local : ndarray of shape (m,), or None
        Squared local scales of the new points.
    kernel : PairKernel

    Returns
    -------
    sums : ndarray of shape (m, c)
    log_scale : ndarray of shape (m,)
    """
    X, scales = band
    sums, log_scale = np.zeros((Q.shape[0], columns.shape[1])), np.zeros(Q.shape[0])
    for rows in chunks(Q.shape[0], X.shape[0]):
        D2 = squared_distances(Q[rows], X, kernel.metric)
        epsilon: Any = kernel.epsilon
        if scales is not None and local is not None:
            epsilon = np.sqrt(local[rows])[:, None] * np.sqrt(scales)[None, :]
        exponent = D2 / epsilon
        if kernel.zero_diagonal:
            exponent[D2 == 0] = np.inf
        nearest = exponent.min(axis=1)
        log_scale[rows] = -nearest
        shift = np.where(np.isfinite(nearest), nearest, 0.0)
        sums[rows] = np.exp(shift[:, None] - exponent) @ columns
    return sums, log_scale


def joined_sums(several: list[RowSums]) -> RowSums:
    """Row sums over several bands from those over each."""
    log_scale = np.max([scale for _, scale in several], axis=0)
    common = np.where(np.isfinite(log_scale), log_scale, 0.0)
    total = np.zeros_like(several[0][0])
    for sums, scale in several:
        total += np.exp(scale - common)[:, None] * sums
    return total, log_scale


def nearest_of_pair(Q: Any, X: Any, k: int, metric: Metric) -> FloatArray:
    """The k smallest positive squared distances from each of `Q` to the points of a band, (m, k + 1).

    Where there are fewer, infinity; the last column is the largest distance of all.
    """
    out = np.full((Q.shape[0], k + 1), np.inf)
    for rows in chunks(Q.shape[0], X.shape[0]):
        D2 = squared_distances(Q[rows], X, metric)
        apart = np.where(D2 > 0, D2, np.inf)
        few = min(k, D2.shape[1])
        out[rows, :few] = np.partition(apart, few - 1, axis=1)[:, :few]
        out[rows, k] = D2.max(axis=1)
    return out


def merged_nearest(several: list[FloatArray]) -> FloatArray:
    """Lists of `nearest_of_pair` over several bands as one list over all of them."""
    k = several[0].shape[1] - 1
    lists = np.concatenate([found[:, :k] for found in several], axis=1)
    lists = np.partition(lists, k - 1, axis=1)[:, :k]
    farthest = np.max([found[:, k] for found in several], axis=0)
    return np.column_stack([lists, farthest])


def kth_of_lists(lists: FloatArray, k: int) -> FloatArray:
    """Squared distance to the k-th neighbour from such lists; the farthest where fewer points are apart, (m,)."""
    kth = np.sort(lists[:, :-1], axis=1)[:, k - 1]
    return np.where(np.isfinite(kth), kth, lists[:, -1])
