"""Arrays without column names: npy, npz and Matrix Market files."""

from __future__ import annotations

import zlib
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy import io, sparse

from .data import Data, Reading, check_known, refuse_missing

__all__ = ["read_mtx", "read_npy", "read_npz"]

_SPARSE_MEMBERS = {"data", "indices", "indptr", "shape", "format"}


def read_npy(file: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read one array; a plain file is mapped into memory rather than read."""
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
                if reading.named or reading.key:
                    raise ValueError("it holds one sparse matrix and nothing else, so no names can be given")
                return _points(sparse.csr_array(sparse.load_npz(file)), "the matrix")
            arrays = {name: archive[name] for name in archive.files if _is_plain(archive, name, reading)}
    except (ValueError, EOFError, OSError, KeyError, BadZipFile, zlib.error) as error:
        raise ValueError(f"it cannot be read as an archive of arrays: {error}.") from error
    key = _matrix_key(arrays, reading)
    data = _points(arrays.pop(key), f"the array {key!r}")
    n = data.X.shape[0]
    columns = {name: a for name, a in arrays.items() if a.ndim == 1 and len(a) == n}
    check_known(reading.named, list(columns), "vector of as many rows")
    names = None if reading.id is None else columns.pop(reading.id).astype(str).astype(object)
    columns = {name: a for name, a in columns.items() if name not in reading.drop}
    note = [f"array {key!r} is embedded"] + ([f"kept aside: {', '.join(columns)}"] if columns else [])
    return Data(data.X, names, None, columns, notes=note)


def _is_plain(archive: Any, name: str, reading: Reading) -> bool:
    """Whether a member holds numbers or words; one of Python objects is passed over unless it was asked for."""
    with archive.zip.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        kind = read_header(member)[2]
    return not kind.hasobject or name in {reading.key, *reading.named}


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


def read_mtx(path: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read a Matrix Market file, dense or sparse, by its name."""
    try:
        X = io.mmread(path)
    except (ValueError, TypeError, OverflowError, StopIteration) as error:
        raise ValueError(f"it cannot be read as Matrix Market: {error}.") from error
    return _points(sparse.csr_array(X) if sparse.issparse(X) else X, "the matrix")


def _points(X: Any, what: str) -> Data:
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"{what} has shape {X.shape} and holds {X.dtype}; it must be a matrix of real numbers, with a row for each "
            "point: of a vector v, v[:, None] makes one."
        )
    refuse_missing(X)
    return Data(X)
