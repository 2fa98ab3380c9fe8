"""Arrays without column names: npy, npz and Matrix Market files."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import io, sparse

from .data import Data, Reading, check_known, refuse_missing

__all__ = ["read_mtx", "read_npy", "read_npz"]

_SPARSE_MEMBERS = {"data", "indices", "indptr", "shape", "format"}


def read_npy(file: Any, reading: Reading) -> Data:
    """Read one array; a plain file is mapped into memory rather than read."""
    _refuse_names(reading, "an .npy file")
    try:
        X = np.load(file, mmap_mode="r" if isinstance(file, str) else None, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"it cannot be read as an array: {error}.") from error
    return _points(X, "the array")


def read_npz(file: Any, reading: Reading) -> Data:
    """Read the matrix of an archive, the array of one that has several, and vectors of its length as columns."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if set(archive.files) >= _SPARSE_MEMBERS:
                file.seek(0)
                return _points(sparse.csr_array(sparse.load_npz(file)), "the matrix")
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, OSError, KeyError) as error:
        raise ValueError(f"it cannot be read as an archive of arrays: {error}.") from error
    key = _matrix_key(arrays, reading)
    data = _points(arrays.pop(key), f"the array {key!r}")
    n = data.X.shape[0]
    columns = {name: a for name, a in arrays.items() if a.ndim == 1 and len(a) == n and name not in reading.drop}
    check_known([*([reading.id] if reading.id else []), *reading.labels], list(columns), "vector of as many rows")
    names = None if reading.id is None else columns.pop(reading.id).astype(str).astype(object)
    note = [f"array {key!r} is embedded"] + ([f"kept aside: {', '.join(columns)}"] if columns else [])
    return Data(data.X, names, None, columns, notes=note)


def _matrix_key(arrays: dict[str, Any], reading: Reading) -> str:
    """The name of the array that holds the points."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if reading.key is not None:
        check_known([reading.key], list(arrays), "array")
        return reading.key
    if "X" in matrices:
        return "X"
    if len(matrices) == 1:
        return matrices[0]
    raise ValueError(f"it holds {len(matrices)} matrices ({', '.join(matrices)}); name the one to embed with --key.")


def read_mtx(path: Any, reading: Reading) -> Data:
    """Read a Matrix Market file, dense or sparse, by its name."""
    _refuse_names(reading, "a Matrix Market file")
    try:
        X = io.mmread(path)
    except (ValueError, TypeError, OverflowError, StopIteration) as error:
        raise ValueError(f"it cannot be read as Matrix Market: {error}.") from error
    data = _points(sparse.csr_array(X) if sparse.issparse(X) else X, "the matrix")
    if data.X.shape[0] == data.X.shape[1]:
        data.notes.append(
            "the matrix is square and its rows are taken as points; say --affinity precomputed if it is a graph"
        )
    return data


def _points(X: Any, what: str) -> Data:
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(f"{what} has shape {X.shape} and holds {X.dtype}; it must be a matrix of real numbers.")
    refuse_missing(X)
    return Data(X)


def _refuse_names(reading: Reading, what: str) -> None:
    if reading.named:
        raise ValueError(f"{what} has no column names, so {reading.named[0]!r} is not known; use csv, parquet or npz.")
