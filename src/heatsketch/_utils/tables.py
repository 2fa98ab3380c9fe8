"""Tables of numbers as users have them: arrays, lists, frames and tensors; what is none is refused in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .registry import backend_of

__all__ = ["checked", "complex_error", "explained", "refuse_no_table", "table"]

_REMEDY = (
    "X must hold numbers, as many in every row: encode categories (for example with "
    "sklearn.preprocessing.OneHotEncoder) or leave such columns out."
)


def table(X: Any) -> Any:
    """`X` in a form that scikit-learn validates: an array, a sparse matrix or a frame, of numbers.

    Raises
    ------
    TypeError
        If `X` is no table at all, or has entries that are no numbers.
    ValueError
        If entries are missing, complex, dates or words, or do not fit in a float.
    """
    refuse_no_table(X)
    backend = backend_of(X)
    if backend is not None:
        return backend.table(X)
    if np.ma.is_masked(X):
        raise ValueError(
            f"{np.count_nonzero(X.mask)} entries of X are masked, so that their values mean nothing; fill them, for "
            "example with sklearn.impute.SimpleImputer, or leave their rows out."
        )
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if polars is not None and isinstance(X, polars.DataFrame):
        _refuse_columns([name for name, kind in X.schema.items() if not (kind.is_numeric() or kind == polars.Boolean)])
        return X
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return _from_pandas(X, pandas)
    if isinstance(X, Sequence) or getattr(getattr(X, "dtype", None), "kind", "f") in "OSUV":
        X = _numbers(X)
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in "mM":
        raise ValueError(f"X has dtype {X.dtype}; turn dates into numbers in a unit of your choice first.")
    if kind == "c":
        raise complex_error(f"X has dtype {X.dtype}")
    return X


def refuse_no_table(X: Any) -> None:
    """Refuse what cannot hold a row of numbers for each sample."""
    array = hasattr(X, "__array__") or hasattr(X, "__array_interface__") or hasattr(X, "shape")
    rows = isinstance(X, Sequence) and not isinstance(X, str | bytes)
    if not (array or rows) or isinstance(X, type):
        given = repr(X) if X is None or isinstance(X, Real) else f"an object of type {type(X).__name__}"
        raise TypeError(
            f"X was given as {given}; it must be a table of numbers with a row for each sample: an array of two "
            "dimensions, a sparse matrix, a list of rows, or a frame of pandas or polars."
        )


@contextmanager
def explained() -> Iterator[None]:
    """Add the next step to complaints about what is no number, and keep NumPy from speaking of sums that overflow."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except OverflowError as error:
        raise _unreadable(error) from error
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise _unreadable(error) from error


def checked(X: Any, asker: str) -> Any:
    """`X` as scikit-learn validates it for the function `asker`: at least two rows of finite numbers."""
    with explained():
        return check_array(
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=asker,
            input_name="X",
        )


def _numbers(X: Any) -> Any:
    """Rows of numbers, or an array of objects or words, as an array of numbers."""
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype.kind in "OSUV" else array
    except OverflowError as error:
        raise _unreadable(error) from error
    except (TypeError, ValueError) as error:
        raise type(error)(str(_unreadable(error))) from error


def _unreadable(error: Exception) -> ValueError:
    return ValueError(f"{str(error).rstrip('.')}. {_REMEDY}")


def complex_error(what: str) -> ValueError:
    """The error of complex data."""
    return ValueError(
        f"Complex data not supported: {what}; give real and imaginary parts as columns of their own, or one of them."
    )


def _from_pandas(X: Any, pandas: Any) -> Any:
    """A frame whose columns hold numbers, have names of their own, and leave nothing out but zeros."""
    _refuse_columns([name for name, column in X.items() if not _holds_numbers(column, pandas)])
    twice = list(dict.fromkeys(X.columns[X.columns.duplicated()]))
    if twice:
        raise ValueError(f"columns {twice} are there more than once in X; give each column a name of its own.")
    if not X.shape[1]:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    unreal = [name for name, kind in X.dtypes.items() if getattr(kind, "kind", "f") == "c"]
    if unreal:
        raise complex_error(f"columns {unreal} of X are complex")
    dense = {
        name: kind.subtype
        for name, kind in X.dtypes.items()
        if isinstance(kind, pandas.SparseDtype) and not (kind.fill_value == 0 and kind.subtype.kind == "f")
    }
    return X.astype(dense) if dense else X


def _refuse_columns(names: list[Any]) -> None:
    if names:
        raise ValueError(
            f"columns {names} of X are not numeric; encode categories (for example with "
            "sklearn.preprocessing.OneHotEncoder) or leave these columns out."
        )


def _holds_numbers(column: Any, pandas: Any) -> bool:
    """Whether a column of a pandas frame holds numbers, and not words, dates or categories."""
    if column.dtype == object:
        return all(isinstance(value, Real) for value in column)
    return bool(pandas.api.types.is_numeric_dtype(column.dtype))
