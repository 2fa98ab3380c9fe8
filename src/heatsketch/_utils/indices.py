"""Indices of sparse matrices that users pass or files hold.

SciPy trusts them: most of its functions, and compiled loops, read and write beyond the end of arrays if an index is
wrong. They are checked before any other use.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from .typing import IntArray

__all__ = ["check_indices"]

_INT32 = np.iinfo(np.int32)


def check_indices(X: Any, name: str = "X") -> None:
    """Raise ValueError if the indices of a sparse matrix are invalid; anything else is accepted.

    The indices are not changed. Rows with unsorted or repeated indices are valid.

    Parameters
    ----------
    X : SciPy sparse array or matrix in any format, or any other object
    name : str
        What it is called in the message.
    """
    if not sparse.issparse(X):
        return
    if X.ndim != 2:
        raise ValueError(
            f"{name} is a sparse array of shape {X.shape}; it must be a matrix with one row per sample. Reshape your "
            "data, for example with X.reshape(-1, 1)."
        )
    try:
        _CHECKS[X.format](X)
    except _InvalidError as error:
        raise ValueError(
            f"{name} is a sparse matrix in {X.format.upper()} format and of shape {X.shape}, but its indices are "
            f"invalid: {error}. Indices count from 0. Build the matrix again from values, rows and columns with "
            "scipy.sparse.coo_array((values, (rows, columns)), shape), which checks them."
        ) from None


class _InvalidError(Exception):
    """What is wrong with the indices, as the middle of a sentence."""


def _check_compressed(X: Any) -> None:
    """CSR, CSC and BSR: entries ``indptr[i]`` to ``indptr[i + 1]`` of `indices` belong to row i."""
    line, across = ("column", "row") if X.format == "csc" else ("row", "column")
    shape = X.shape[::-1] if X.format == "csc" else X.shape
    if X.format == "bsr":
        line, across = "block row", "block column"
        shape = _number_of_blocks(X)
    _check_integers({"indices": X.indices, "indptr": X.indptr})
    starts, indices, n_values = X.indptr, X.indices, _length(X.data, 3 if X.format == "bsr" else 1)
    if len(starts) != shape[0] + 1:
        raise _InvalidError(
            f"`indptr` has {len(starts)} entries; it must have {shape[0] + 1}, one more than there are {line}s"
        )
    if len(indices) != n_values:
        raise _InvalidError(f"`indices` has {len(indices)} entries and `data` {n_values}; they must have as many")
    wrong = (starts < 0) | (starts > len(indices))
    wrong[0] = starts[0] != 0
    wrong[1:] |= starts[1:] < starts[:-1]
    if wrong.any():
        first = int(wrong.argmax())
        where = f"{line} {first - 1} ends" if first else f"{line} 0 starts"
        least, most = (int(starts[first - 1]), len(indices)) if first else (0, 0)
        raise _InvalidError(
            f"{where} at entry {starts[first]} of `indices` (`indptr[{first}]`); "
            f"it must be {f'between {least} and {most}' if first else '0'}"
        )
    used = indices[: starts[-1]]
    entry = _first_outside(used, shape[1])
    if entry is not None:
        place = int(np.searchsorted(starts, entry, side="right")) - 1
        raise _InvalidError(
            f"{line} {place} has the {across} index {used[entry]} at entry {entry} of `indices`; "
            f"it must be between 0 and {shape[1] - 1}"
        )


def _number_of_blocks(X: Any) -> tuple[int, int]:
    """Rows and columns of blocks of a BSR matrix."""
    _length(X.data, 3)
    height, width = X.data.shape[1:]
    if not height or not width or X.shape[0] % height or X.shape[1] % width:
        raise _InvalidError(f"its blocks have the shape {(height, width)}, which does not divide that of the matrix")
    return X.shape[0] // height, X.shape[1] // width


def _check_coordinates(X: Any) -> None:
    _check_pairs(X.shape, X.row, X.col, _length(X.data, 1))


def _check_lists(X: Any) -> None:
    """LIL: for each row, a list of columns and a list of values."""
    if not len(X.rows) == len(X.data) == X.shape[0]:
        raise _InvalidError(f"`rows` and `data` have {len(X.rows)} and {len(X.data)} lists; each row must have one")
    lengths = np.array([len(row) for row in X.rows], dtype=np.int64)
    wrong = np.flatnonzero(lengths != [len(values) for values in X.data])
    if len(wrong):
        first = int(wrong[0])
        raise _InvalidError(
            f"row {first} has {lengths[first]} columns and {len(X.data[first])} values; it must have as many"
        )
    rows = np.repeat(np.arange(X.shape[0]), lengths)
    _check_pairs(X.shape, rows, _as_integers(list(chain.from_iterable(X.rows))), len(rows))


def _check_keys(X: Any) -> None:
    pairs = list(X.keys())
    rows, columns = (_as_integers([pair[axis] for pair in pairs]) for axis in (0, 1))
    _check_pairs(X.shape, rows, columns, len(pairs))


def _check_diagonals(X: Any) -> None:
    """DIA: a row of values for each offset; offsets beyond the shape hold no entries."""
    _check_integers({"offsets": X.offsets})
    n_diagonals = _length(X.data, 2)
    if len(X.offsets) != n_diagonals:
        raise _InvalidError(f"there are {len(X.offsets)} `offsets` and {n_diagonals} rows of `data`")
    values, counts = np.unique(X.offsets, return_counts=True)
    if (counts > 1).any():
        raise _InvalidError(f"`offsets` has {values[counts > 1][0]} more than once")
    outside = values[(values < _INT32.min) | (values > _INT32.max)]  # which SciPy does not convert
    if len(outside):
        raise _InvalidError(f"`offsets` has {outside[0]}; it must be between {1 - X.shape[0]} and {X.shape[1] - 1}")


def _check_pairs(shape: Sequence[int], rows: IntArray, columns: IntArray, n_values: int) -> None:
    """Rows and columns of entries, each of shape (n_values,)."""
    _check_integers({"row": rows, "col": columns})
    if not len(rows) == len(columns) == n_values:
        raise _InvalidError(
            f"it has {len(rows)} row indices, {len(columns)} column indices and {n_values} values; it must have as many"
        )
    for kind, indices, n in (("row", rows, shape[0]), ("column", columns, shape[1])):
        entry = _first_outside(indices, n)
        if entry is not None:
            of = f" of row {rows[entry]}" if kind == "column" else ""
            raise _InvalidError(
                f"entry {entry}{of} has the {kind} index {indices[entry]}; it must be between 0 and {n - 1}"
            )


def _check_integers(arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            found = f"{array.dtype} and shape {array.shape}" if hasattr(array, "dtype") else type(array).__name__
            raise _InvalidError(f"`{name}` is an array of {found}; it must be a vector of integers")


def _as_integers(values: list[Any]) -> Any:
    """Indices as an array, of objects if they are not integers of 64 bits."""
    return np.array(values) if values else np.zeros(0, dtype=np.int64)


def _length(data: Any, ndim: int) -> int:
    if not isinstance(data, np.ndarray) or data.ndim != ndim:
        raise _InvalidError(f"`data` has the shape {np.shape(data)}; it must be an array of {ndim} dimension(s)")
    return len(data)


def _first_outside(indices: IntArray, n: int) -> int | None:
    """Number of the first index that is not in [0, n)."""
    if not len(indices) or (int(indices.min()) >= 0 and int(indices.max()) < n):
        return None
    return int(((indices < 0) | (indices >= n)).argmax())


_CHECKS = {
    "csr": _check_compressed,
    "csc": _check_compressed,
    "bsr": _check_compressed,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
    "dok": _check_keys,
}
