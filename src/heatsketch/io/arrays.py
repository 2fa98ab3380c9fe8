"""Arrays without column names: npy, npz and Matrix Market files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from .data import Data, Reading, check_known, refuse_missing
from .untrusted import check_array_header, check_compressed, check_unpacked, file_size, parsing

__all__ = ["read_mtx", "read_npy", "read_npz"]

_SPARSE_MEMBERS = {"data", "shape", "format"}
# Bytes that an entry takes in a Matrix Market file at least: "1 1" in one of coordinates; or "1" in one of all entries,
# half of which are there if it is symmetric.
_LEAST_BYTES = {"coordinate": 4, "array": 1}
# What numbers are written with.
_OF_NUMBERS = b"0123456789+-. \t\r\nEeINFTYAinftya"
# Rows and columns of a sparse matrix: so many at most, or so many for each entry that is not zero. An empty row costs
# nothing in some files, and memory and time here.
_MOST_EMPTY, _MOST_PER_ENTRY = 10_000_000, 1000


def read_npy(file: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read one array; a plain file is mapped into memory rather than read."""
    with parsing("an array"):
        X = np.lib.format.open_memmap(file, mode="r")
    return _points(X, "the array")


def read_npz(file: Any, reading: Reading) -> Data:
    """Read the matrix of an archive, the array of one that has several, and vectors of its length as columns."""
    with parsing("an archive of arrays"), _archive(file) as archive:
        plain = [name for name in archive.files if _is_plain(archive, name, reading)]
        is_sparse = set(archive.files) >= _SPARSE_MEMBERS
        if is_sparse and (reading.named or reading.key):
            raise ValueError("it holds one sparse matrix and nothing else, so no names can be given")
        file.seek(0)
        arrays = {} if is_sparse else {name: archive[name] for name in plain}
        matrix = _sparse_matrix(sparse.load_npz(file)) if is_sparse else None
    if matrix is not None:
        return _points(matrix, "the matrix")
    key = _matrix_key(arrays, reading)
    data = _points(arrays.pop(key), f"the array {key!r}")
    n = data.X.shape[0]
    columns = {name: a for name, a in arrays.items() if a.ndim == 1 and len(a) == n}
    check_known(reading.named, list(columns), "vector of as many rows")
    names = None if reading.id is None else columns.pop(reading.id).astype(str).astype(object)
    columns = {name: a for name, a in columns.items() if name not in reading.drop}
    note = [f"array {key!r} is embedded"] + ([f"kept aside: {', '.join(columns)}"] if columns else [])
    return Data(data.X, names, None, columns, notes=note)


def _archive(file: Any) -> Any:
    """An archive whose members are what it says, each with a name of its own."""
    archive: Any = np.load(file, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise ValueError("it holds a single array; an ending of .npy tells so")
    if len(set(archive.files)) < len(archive.files):
        raise ValueError("two of its arrays have the same name")
    check_unpacked(
        sum(one.file_size for one in archive.zip.infolist()),
        file_size(file),
        "if you trust it, save it again with numpy.savez",
    )
    return archive


def _is_plain(archive: Any, name: str, reading: Reading) -> bool:
    """Whether a member holds numbers or words; one of Python objects is passed over unless it was asked for."""
    with archive.zip.open(f"{name}.npy") as member:
        kind = check_array_header(member, archive.zip.getinfo(f"{name}.npy").file_size)
    return not kind.hasobject or name in {reading.key, *reading.named}


def _sparse_matrix(X: Any) -> sparse.csr_array:
    """A matrix in compressed rows of one in any form, whose entries all lie in it: compiled code does not look."""
    _refuse_empty(X.shape, X.nnz)
    if hasattr(X, "indptr"):
        check_compressed(X)
    return sparse.csr_array(X)


def _refuse_empty(shape: tuple[int, ...], entries: int) -> None:
    if max(shape) > max(_MOST_EMPTY, _MOST_PER_ENTRY * entries):
        raise ValueError(
            f"it promises a matrix of shape {shape} with {entries} entries; of so sparse a matrix leave out the empty "
            "rows and columns"
        )


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
    with parsing("Matrix Market"), _whole_lines(path) as path:  # noqa: PLR1704
        rows, columns, entries, form, *_ = io.mminfo(path)
        if not rows or not columns:  # by which SciPy may divide
            raise ValueError(f"it promises a matrix of shape {rows, columns}, in which there is nothing")
        if (entries if form == "coordinate" else rows * columns) * _LEAST_BYTES[form] > file_size(path):
            raise ValueError(f"it promises {entries} entries, and has {file_size(path)} bytes")
        if form == "coordinate":
            _refuse_empty((rows, columns), entries)
        X = io.mmread(path)
        X = _sparse_matrix(X) if sparse.issparse(X) else X
    return _points(X, "the matrix")


@contextmanager
def _whole_lines(path: Any) -> Iterator[str]:
    """The name of a text of numbers that ends with a line's end: beyond the last line SciPy may end the process."""
    with Path(path).open("rb") as file:
        line = b""
        for line in file:
            if line.strip() and not line.lstrip().startswith(b"%"):
                break
        for piece in chain([line], iter(partial(file.read, 1 << 20), b"")):
            if strange := piece.translate(None, _OF_NUMBERS):
                raise ValueError(f"it has the byte {strange[:1]!r} among its numbers")
            line = piece
        if line.endswith(b"\n"):
            yield str(path)
            return
        file.seek(0)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            copy = Path(folder) / "whole.mtx"
            with copy.open("wb") as target:
                shutil.copyfileobj(file, target)
                target.write(b"\n")
            yield str(copy)


def _points(X: Any, what: str) -> Data:
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"{what} has shape {X.shape} and holds {X.dtype}; it must be a matrix of real numbers, with a row for each "
            "point: of a vector v, v[:, None] makes one."
        )
    refuse_missing(X)
    return Data(X)
