"""What points are called and coloured by: names and columns, checked, with missing values told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.colors import Groups, Numbers, as_vector, is_missing, read_colors
from .._utils.typing import FloatArray, IntArray

__all__ = ["MISSING", "MOST_COLOURS", "Column", "feature_columns", "read_columns", "read_names"]

MISSING = "missing"
# Groups that have a colour of their own, and groups that keep their label; the others, the smallest ones, are one.
MOST_COLOURS = 23
_MOST_GROUPS = 500
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
    values = as_vector(names, n_samples, "names")
    return [MISSING if gone else _text(value) for value, gone in zip(values, is_missing(values), strict=True)]


def read_columns(columns: Any, n_samples: int) -> list[Column]:
    """Columns of a pandas or polars frame, or of a dict of arrays.

    Raises
    ------
    ValueError
        If a column has not one value for each sample.
    TypeError
        If it is none of these.
    """
    return [_column(_text(name), values, n_samples) for name, values in _named(columns)]


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
    found = read_colors(values, n_samples, label=name, most_groups=_MOST_GROUPS - 1, what=f"column {name!r}")
    if isinstance(found, Numbers):
        return Column(name, found.values)
    assert isinstance(found, Groups)
    codes, labels = found.codes, list(found.names)
    if len(labels) > MOST_COLOURS:  # the largest come first: they get the colours; those that were joined stay last
        sizes = np.bincount(codes[codes >= 0], minlength=len(labels))
        if found.n_joined:
            sizes[-1] = -1
        rank = np.argsort(-sizes, kind="stable")
        renamed = np.full(len(labels) + 1, -1, dtype=np.int64)  # -1 stays -1
        renamed[rank] = np.arange(len(labels))
        codes, labels = renamed[codes], [labels[at] for at in rank]
    return Column(name, codes, tuple(map(_text, labels)))


def _numbers(name: str, values: FloatArray) -> Column:
    return Column(name, np.where(np.isfinite(values), values, np.nan))


def _text(value: Any) -> str:
    """A value as words that a file can hold."""
    return str(value).encode("utf-8", "replace").decode()
