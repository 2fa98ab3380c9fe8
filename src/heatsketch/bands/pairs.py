"""What a worker does with a pair of bands: form the kernel between them, tile by tile, and use it for both.

Nothing here knows of Dask: these are the functions that tasks call. A worker never holds more of the kernel than a few
tiles, however large a band is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray
from ..chunks import chunks
from ..devices import find_device, has_cuda, on_device
from ..kernels import Metric, gaussian_affinity, squared_distances
from ..operators import DeviceGaussianOperator
from ..operators.tiled import TILE, Arithmetic, Tiles, padded, tournament
from ..threads import Scratch

__all__ = [
    "RowSums",
    "between",
    "between_by_metric",
    "between_on_device",
    "joined_sums",
    "kth_of_lists",
    "merged_nearest",
    "nearest_of_pair",
    "prepared",
    "row_sums",
    "worker_device",
]


def between(A: Tiles, B: Tiles | None, V: FloatArray, W: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
    """``K W`` and ``K^T V`` for the kernel K between two bands; for one band (B and W None) its own ``K V``.

    Parameters
    ----------
    A, B : Tiles
        The points of either band, m and n of them.
    V, W : ndarrays of shape (m, k) and (n, k)

    Returns
    -------
    ndarrays of shape (m, k) and (n, k)
    """
    m, k = V.shape
    if B is None or W is None:
        tiles, block, pairs = A, V, _own_pairs(m)
    else:
        tiles, block, pairs = A.joined(B), np.concatenate([V, W]), _crossed_pairs(m, len(B))
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


def between_by_metric(
    A: tuple[Any, Any], B: tuple[Any, Any] | None, V: FloatArray, W: FloatArray | None, kernel: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """The same for any metric, some rows at a time, and with zeros between points that coincide where that is wanted.

    Parameters
    ----------
    A, B : tuples
        Points (m, d) of a band, and their squared local scales (m,), or None.
    V, W : ndarrays
        As for `between`.
    kernel : dict
        `metric`, `epsilon`, `zero_diagonal` and `dtype`.
    """
    here = A
    there, right = (A, V) if B is None or W is None else (B, W)
    out = np.empty(V.shape, dtype=V.dtype)
    mirrored = None if B is None else np.zeros(right.shape, dtype=V.dtype)
    for rows in chunks(len(V), there[0].shape[0]):
        local = None if here[1] is None else here[1][rows]
        K = _kernel(here[0][rows], there[0], (local, there[1]), kernel)
        out[rows] = K @ right
        if mirrored is not None:
            mirrored += K.T @ V[rows]
    return out, mirrored


def _kernel(X: Any, Y: Any, scales: tuple[Any, Any], kernel: dict[str, Any]) -> FloatArray:
    D2 = squared_distances(X, Y, kernel["metric"])
    epsilon = kernel["epsilon"]
    if scales[0] is not None:
        epsilon = np.sqrt(scales[0])[:, None] * np.sqrt(scales[1])[None, :]
    coincident = D2 == 0 if kernel["zero_diagonal"] else None
    K = gaussian_affinity(D2, epsilon, kernel["dtype"])
    if coincident is not None:
        K[coincident] = 0.0
    return K.astype(kernel["dtype"], copy=False)


def between_on_device(
    A: tuple[Any, Any], B: tuple[Any, Any] | None, V: FloatArray, W: FloatArray | None, kernel: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """`between` on the worker's own device; the points are as for `between_by_metric`."""
    device = find_device(kernel["device"])
    assert device is not None
    (X, here), (Y, there) = A, B or A
    epsilon = kernel["epsilon"]
    options = {"dtype": kernel["dtype"], "precision": kernel["precision"]}

    def scales(of: Any) -> Any:
        return epsilon if of is None else of

    with on_device():
        second = DeviceGaussianOperator(Y, scales(there), device, **options)
        if B is None or W is None:
            return second.matmat(V), None
        first = DeviceGaussianOperator(X, scales(here), device, **options)
        return _unshifted(second.rows(X, scales(here), W)), _unshifted(first.rows(Y, scales(there), V))


def _unshifted(found: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Products with rows as they are, from those with rows whose largest entry is 1."""
    products, log_scale = found
    whole: FloatArray = np.exp(log_scale)[:, None].astype(products.dtype) * products
    return whole


def worker_device(wanted: str) -> str:
    """Where a worker computes: on its own GPU if it has one and nothing else was asked for."""
    return ("cuda" if has_cuda() else "cpu") if wanted == "auto" else wanted


# Rows of the kernel at new points, summed against columns: the sums, in units in which the largest entry of each row
# is 1, and the logarithm of that entry. Those of several bands are joined in the larger unit.
RowSums = tuple[FloatArray, FloatArray]


def row_sums(
    Q: Any, band: tuple[Any, Any], columns: FloatArray, local: FloatArray | None, kernel: dict[str, Any]
) -> RowSums:
    """The rows of new points against one band, summed.

    Parameters
    ----------
    Q : ndarray of shape (m, d)
    band : tuple
        Points (n, d) and their squared local scales (n,), or None.
    columns : ndarray of shape (n, c)
    local : ndarray of shape (m,), or None
        Squared local scales of the new points.
    kernel : dict

    Returns
    -------
    sums : ndarray of shape (m, c)
    log_scale : ndarray of shape (m,)
    """
    X, scales = band
    sums, log_scale = np.zeros((Q.shape[0], columns.shape[1])), np.zeros(Q.shape[0])
    for rows in chunks(Q.shape[0], X.shape[0]):
        D2 = squared_distances(Q[rows], X, kernel["metric"])
        epsilon = kernel["epsilon"]
        if scales is not None and local is not None:
            epsilon = np.sqrt(local[rows])[:, None] * np.sqrt(scales)[None, :]
        exponent = D2 / epsilon
        if kernel["zero_diagonal"]:
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


def prepared(X: FloatArray, centre: FloatArray, unit: float, scales: Any, arithmetic: Arithmetic) -> Tiles:
    """A band's points as tiles are formed from them; `scales` are squared local scales (m,), or the epsilon of all."""
    roots = np.broadcast_to(np.sqrt(np.asarray(scales, dtype=np.float64)), len(X))
    return arithmetic.tiles(X, centre, unit, roots)
