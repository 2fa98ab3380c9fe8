"""Dask arrays and frames as users give them: checked before any work, with what is not there on a cluster refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..._utils.extras import optional
from ..._utils.tables import explained
from ..._utils.typing import FloatArray
from ...kernel.options import KernelOptions, check_points
from . import layout
from .array import DistributedArray
from .tasks import Plan, gathered, settled

__all__ = [
    "as_points",
    "checked_bands",
    "chunk_sizes",
    "is_dask_array",
    "kernel_points",
    "probe_of",
    "refuse_on_cluster",
    "require_finite",
]


def is_dask_array(X: Any) -> bool:
    """Whether something is an array of Dask."""
    return isinstance(X, optional("dask.array", "compute on a cluster", "dask").Array)


def as_points(X: Any) -> Any:
    """A Dask array or frame as a Dask array of known shape, in chunks of rows, not computed; in a float dtype."""
    if hasattr(X, "to_dask_array"):
        X = _plain(X).to_dask_array(lengths=True)
    if not is_dask_array(X):
        raise TypeError(f"X is a {type(X).__name__}; of Dask's collections, arrays and frames are taken.")
    if X.ndim != 2:
        raise ValueError(
            f"X is a Dask array of {X.ndim} dimensions; it must have 2: a row for each sample. Reshape your data."
        )
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(
            f"X is a Dask array of {type(X._meta).__module__} arrays; give one of NumPy arrays, for example by "
            "X.map_blocks(lambda chunk: chunk.toarray()), or a sparse matrix in memory."
        )
    if np.isnan(X.shape[0]):
        X = X.copy().compute_chunk_sizes()  # of a copy: it changes the array itself
    empty = [size for size in X.chunks[0] if size == 0]
    rows = tuple(size for size in X.chunks[0] if size) if empty else X.chunks[0]
    X = X.rechunk({0: rows or (0,), 1: -1})
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _plain(X: Any) -> Any:
    """A Dask frame without the dtypes of numbers that only pandas has."""
    odd = [name for name, dtype in X.dtypes.items() if not isinstance(dtype, np.dtype) and dtype.kind in "biuf"]
    return X.astype(dict.fromkeys(odd, np.float64)) if odd else X


def chunk_sizes(X: Any) -> tuple[int, ...]:
    """Rows of each chunk of a Dask array, where they are known; of others nothing is promised."""
    sizes = X.chunks[0] if hasattr(X, "chunks") else X.to_dask_array(lengths=True).chunks[0]
    return () if np.isnan(sum(sizes)) else tuple(int(size) for size in sizes)


def checked_bands(X: Any, *, least: int) -> Any:
    """A Dask array or frame as points in chunks of rows, of which there must be so many."""
    points = as_points(X)
    if points.shape[0] < least:
        raise ValueError(f"X has {points.shape[0]} sample(s), and at least {least} are needed.")
    return points


def kernel_points(X: Any, options: KernelOptions) -> Any:
    """The input of a kernel that is a Dask array or frame, checked: points on workers; an array, if they are few."""
    refuse_on_cluster(options)
    points = checked_bands(X, least=2)
    if points.shape[0] <= layout.BAND:
        return check_points(gathered(X), options)
    with explained():
        check_array(probe_of(X, points), dtype=[np.float64, np.float32], ensure_min_samples=1)
    points = settled(points, name="reading points")
    require_finite(points)
    return DistributedArray.from_dask(points).computed()


def probe_of(X: Any, points: Any) -> Any:
    """Two rows of zeros with the dtype and the names of X, by which scikit-learn checks what it checks of points."""
    if hasattr(X, "to_dask_array"):
        pandas = optional("pandas", "make a frame")
        numeric = pandas.api.types.is_numeric_dtype
        zeros = {name: np.zeros(2) for name, dtype in X.dtypes.items() if numeric(dtype)}
        missing = [name for name in X.columns if name not in zeros]
        if missing:
            raise ValueError(f"columns {missing} of X are not numeric; encode categories or leave these columns out.")
        return pandas.DataFrame(zeros, columns=X.columns)
    return np.zeros((2, points.shape[1]), dtype=X.dtype)


def refuse_on_cluster(options: KernelOptions) -> None:
    """Refuse options that need a matrix of all pairs in one place, or have no counterpart on a cluster."""
    for name, value in (("affinity", options.affinity), ("metric", options.metric)):
        if value == "precomputed":
            raise ValueError(
                f"{name}='precomputed' was given with a Dask array; on a cluster kernels are made from points. Give "
                "points, or the matrix in memory (a sparse one, if it is large)."
            )
    if options.cutoff is not None:
        raise ValueError(
            f"cutoff={options.cutoff!r} was given with a Dask array; on a cluster every pair is used "
            "(n_neighbors=None) or neighbours are (n_neighbors=32). Leave cutoff at None."
        )


def require_finite(X: Any) -> None:
    """Refuse points with NaN or infinity, and say where the first is."""
    starts = np.concatenate([[0], np.cumsum(X.chunks[0])])
    plan = Plan(X)
    for b, key in enumerate(plan.keys(X)):
        plan.add("check-points", b, first_bad_row, key)
    found = gathered(*plan.parts("check-points", range(len(X.chunks[0]))))
    rows = [int(starts[b] + row) for b, row in enumerate(np.atleast_1d(found)) if row >= 0]
    if rows:
        raise ValueError(
            f"Input X contains NaN or infinity, first in row {rows[0]}; leave such rows out or fill them in "
            "(for example with dask_ml.impute.SimpleImputer)."
        )


def first_bad_row(X: FloatArray) -> int:
    """The first row with an entry that is no finite number, or -1."""
    bad = ~np.isfinite(X).all(axis=1)
    return int(bad.argmax()) if bad.any() else -1
