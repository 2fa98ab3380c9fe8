"""What points are called and coloured by: names and columns, checked, with missing values told apart."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray

__all__ = ["MISSING", "MOST_COLOURS", "Column", "feature_columns", "read_columns", "read_names"]

MISSING = "missing"
# Whole numbers with at most this many values are names of groups, as labels of clusters are.
_FEW_VALUES = 20
# Groups that have a colour of their own, and groups that keep their label; the others, the smallest ones, are one.
MOST_COLOURS = 23
_MOST_GROUPS = 500
_OTHERS = "(others)"
# Features are offered for colouring up to this many.
_MOST_FEATURES = 36


@dataclass(frozen=True)
class Column:
    """A value of each point: a number, or the name of a group.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n,)
        Numbers, NaN where missing; or the number of the group, -1 where missing.
    labels : tuple of str, or None
        Names of the groups; None for numbers.
    """

    name: str
    values: FloatArray | IntArray
    labels: tuple[str, ...] | None = None

    def at(self, rows: IntArray) -> Column:
        """The column of some of the points."""
        return replace(self, values=self.values[rows])


def read_names(names: Any, n_samples: int) -> list[str] | None:
    """Names of the samples as words; None where there are none, and they are called by their numbers."""
    if names is None:
        return None
    values = _one_dimension(names, "names", n_samples)
    return [MISSING if gone else str(value) for value, gone in zip(values, _missing(values), strict=True)]


def read_columns(columns: Any, n_samples: int) -> list[Column]:
    """Columns of a pandas or polars frame, or of a dict of arrays.

    Raises
    ------
    ValueError
        If a column has not one value for each sample.
    TypeError
        If it is none of these.
    """
    return [_column(str(name), values, n_samples) for name, values in _named(columns)]


def feature_columns(X: FloatArray, names: Any = None) -> list[Column]:
    """The features of the points themselves, where there are few enough to choose from."""
    n_features = X.shape[1]
    if n_features > _MOST_FEATURES:
        return []
    titles = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    dense = X.toarray() if hasattr(X, "toarray") else X
    return [_numbers(title, np.asarray(dense[:, j], dtype=np.float64)) for j, title in enumerate(titles)]


def _named(columns: Any) -> Iterator[tuple[Any, Any]]:
    if columns is None:
        return
    if isinstance(columns, Mapping):
        yield from columns.items()
        return
    names = getattr(columns, "columns", None)
    if names is None or not hasattr(columns, "shape"):
        raise TypeError(
            f"columns were given as {type(columns).__name__}; give a pandas or polars frame, or a dict of names and "
            "arrays with a value for each sample."
        )
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if list(names).count(name) > 1})
        raise ValueError(f"columns has {twice} more than once; give each column a name of its own.")
    for name in names:
        yield name, columns[name]


def _column(name: str, values: Any, n_samples: int) -> Column:
    found = _one_dimension(values, f"column {name!r}", n_samples)
    if found.dtype.kind == "c":
        raise ValueError(f"column {name!r} holds complex numbers; give real numbers or words.")
    # A pandas categorical, or a series of one, has an order of its own.
    categories = getattr(getattr(values, "cat", values), "categories", None)
    if categories is None and found.dtype.kind in "iuf":
        few = found.dtype.kind in "iu" and len(np.unique(found)) <= _FEW_VALUES
        return _groups(name, found, _missing(found)) if few else _numbers(name, found.astype(np.float64))
    gone = _missing(found)
    there = found[~gone]
    numeric = categories is None and len(there) and all(_is_number(value) for value in there)
    if numeric:
        numbers = np.full(n_samples, np.nan)
        numbers[~gone] = there.astype(np.float64)
        return _numbers(name, numbers)
    return _groups(name, found, gone, None if categories is None else [str(value) for value in categories])


def _numbers(name: str, values: FloatArray) -> Column:
    return Column(name, np.where(np.isfinite(values), values, np.nan))


def _groups(name: str, values: Any, gone: Any, order: list[str] | None = None) -> Column:
    """Groups in the order given, or that of their values; by size where there are more than colours."""
    codes = np.full(len(values), -1, dtype=np.int64)
    there = values[~gone]
    try:
        distinct = sorted(set(there.tolist()))
    except TypeError:  # values of several kinds have no order
        distinct = sorted(set(there.tolist()), key=str)
    labels = list(dict.fromkeys(str(value) for value in distinct))
    if order is not None:
        labels = [label for label in order if label in set(labels)]
    number = {label: at for at, label in enumerate(labels)}
    codes[~gone] = [number[str(value)] for value in there.tolist()]
    if len(labels) > MOST_COLOURS:  # the largest come first: they get the colours
        rank = np.argsort(-np.bincount(codes[codes >= 0], minlength=len(labels)), kind="stable")
        renamed = np.full(len(labels) + 1, -1, dtype=np.int64)
        renamed[rank] = np.minimum(np.arange(len(labels)), _MOST_GROUPS - 1)
        codes, labels = renamed[codes], [labels[at] for at in rank]
    if len(labels) > _MOST_GROUPS:
        labels = [*labels[: _MOST_GROUPS - 1], _OTHERS]
    return Column(name, codes, tuple(labels))


def _one_dimension(values: Any, what: str, n_samples: int) -> Any:
    """`values` as an array of shape (n_samples,)."""
    if isinstance(values, (str, bytes)):
        raise ValueError(f"{what} was given as {values!r}; give a value for each of the {n_samples} samples.")
    found = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if found.dtype.kind in "OUS" and isinstance(values, (list, tuple)):
        found = np.empty(len(values), dtype=object)  # not strings made of numbers, as NumPy makes them of a mixture
        found[:] = values
    if found.shape != (n_samples,):
        raise ValueError(
            f"{what} has shape {found.shape}; give one value for each of the {n_samples} samples, in their order."
        )
    return found


def _missing(values: Any) -> Any:
    """Where there is no value: None, NaN, NaT or pandas' NA, (n,)."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    pandas = sys.modules.get("pandas")
    absent = () if pandas is None else (pandas.NA, pandas.NaT)
    return np.array(
        [
            value is None or any(value is one for one in absent) or (isinstance(value, float) and value != value)  # noqa: PLR0124
            for value in values
        ],
        dtype=bool,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
