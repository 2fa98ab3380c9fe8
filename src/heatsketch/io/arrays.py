"""Arrays without column names: npy, npz and Matrix Market files."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import io, sparse

from .data import Data, Reading
from .errors import check_finite, check_known, check_memory, parsing

__all__ = ["read_mtx", "read_npy", "read_npz"]


def read_npy(path: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read one array, memory-mapped."""
    with parsing("an array"):
        X = np.lib.format.open_memmap(path, mode="r")
    return _points(X, "the array")


def read_npz(file: Any, reading: Reading) -> Data:
    """Read a sparse matrix, or one of several arrays with vectors of the same length as columns."""
    notes: list[str] = []
    with parsing("an archive of arrays"), np.load(file, allow_pickle=False) as archive:
        check_memory(sum(member.file_size for member in archive.zip.infolist()))
        is_sparse = {"data", "shape", "format"} <= set(archive.files)
        if not is_sparse:
            arrays = _plain_arrays(archive, reading, notes)
        elif reading.named or reading.key:
            raise ValueError("it holds one sparse matrix, so --key, --id, --label and --drop do not apply")
        else:
            file.seek(0)
            matrix = _csr(sparse.load_npz(file))
    if is_sparse:
        return _points(matrix, "the matrix")
    key = _matrix_key(arrays, reading)
    data = _points(arrays.pop(key), f"the array {key!r}")
    columns = {name: a for name, a in arrays.items() if a.ndim == 1 and len(a) == data.X.shape[0]}
    check_known(reading.named, list(columns), "vector with one entry per row")
    names = None if reading.id is None else columns.pop(reading.id).astype(str).astype(object)
    columns = {name: a for name, a in columns.items() if name not in reading.drop}
    notes += [f"array {key!r} is embedded"] + ([f"kept aside: {', '.join(columns)}"] if columns else [])
    return Data(data.X, names, None, columns, notes=notes)


def _plain_arrays(archive: Any, reading: Reading, notes: list[str]) -> dict[str, Any]:
    """The arrays of an archive; those of Python objects are skipped unless they were asked for."""
    arrays = {}
    for name in archive.files:
        try:
            arrays[name] = archive[name]
        except ValueError as error:  # a pickle
            if name in {reading.key, *reading.named}:
                raise
            notes.append(f"array {name!r} is skipped: {error}")
    return arrays


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
    raise ValueError(f"it holds {len(matrices)} matrices ({', '.join(matrices)}); choose one with --key.")


def read_mtx(path: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read a Matrix Market file, dense or sparse."""
    with parsing("Matrix Market"):
        rows, columns, entries, form, *_ = io.mminfo(path)
        check_memory(8 * (rows + 2 * entries if form == "coordinate" else rows * columns))
        X = io.mmread(path)
        X = _csr(X) if sparse.issparse(X) else X
    return _points(X, "the matrix")


def _csr(X: Any) -> sparse.csr_array:
    """A sparse matrix in CSR format with valid indices, which compiled code does not check again."""
    check_memory(8 * X.shape[0])
    if hasattr(X, "check_format"):
        X.check_format(full_check=True)
    return sparse.csr_array(X)


def _points(X: Any, what: str) -> Data:
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"{what} has shape {X.shape} and dtype {X.dtype}; it must be a non-empty matrix of real numbers with one "
            "row per point. For a vector v, use v[:, None]."
        )
    check_finite(X)
    return Data(X)
