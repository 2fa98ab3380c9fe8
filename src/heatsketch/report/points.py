"""Points as the report draws them: their names, the columns that colour them, coordinates in 16 bits and grid cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.colors import Groups, Numbers, as_vector, is_missing, read_colors
from .._utils.typing import FloatArray, IntArray

__all__ = [
    "MAX_COLORS",
    "MISSING",
    "Cells",
    "Column",
    "Coordinates",
    "count_in_cells",
    "feature_columns",
    "quantize",
    "read_columns",
    "read_names",
]

MISSING = "missing"
# Groups with their own colour, and groups that keep their label; smaller ones are joined.
MAX_COLORS = 23
_MAX_GROUPS = 500
# Features are offered as colours up to this number.
_MAX_FEATURES = 36
# Coordinates are integers between -32767 and 32767, stored as uint16 with an offset of 32768.
_STEPS = 32767
# Levels of a mean in a cell: 0 is an empty cell, 255 one whose values are all missing.
_LEVELS, _NO_VALUE = 254, 255


@dataclass(frozen=True)
class Column:
    """A value for each point: a number or a group.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n,)
        Numbers, NaN where missing; or group indices, -1 where missing.
    labels : tuple of str, or None
        Names of the groups; None for numbers.
    """

    name: str
    values: FloatArray | IntArray
    labels: tuple[str, ...] | None = None

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest number."""
        known = self.values[np.isfinite(self.values)]
        return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def read_names(names: Any, n_samples: int) -> list[str] | None:
    """Names of the samples as text; None if there are none."""
    if names is None:
        return None
    values = as_vector(names, n_samples, "names")
    return [MISSING if gone else _text(value) for value, gone in zip(values, is_missing(values), strict=True)]


def read_columns(columns: Any, n_samples: int) -> list[Column]:
    """Columns of a pandas or polars frame, or of a dict of arrays."""
    return [_column(_text(name), values, n_samples) for name, values in _named(columns)]


def feature_columns(X: Any, names: Any = None) -> list[Column]:
    """The features of the points, if there are few enough to choose from."""
    n_features = X.shape[1]
    if n_features > _MAX_FEATURES:
        return []
    titles = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return [Column(title, np.where(np.isfinite(x), x, np.nan)) for title, x in zip(titles, dense.T, strict=True)]


def _named(columns: Any) -> Iterator[tuple[Any, Any]]:
    if columns is None:
        return
    if isinstance(columns, Mapping):
        yield from columns.items()
        return
    if not hasattr(columns, "columns"):
        raise TypeError(
            f"columns were given as {type(columns).__name__}; give a pandas or polars frame, or a dict of arrays."
        )
    names = list(columns.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"columns {names} contain a name more than once; rename the duplicates.")
    for name in names:
        yield name, columns[name]


def _column(name: str, values: Any, n_samples: int) -> Column:
    found = read_colors(values, n_samples, label=name, max_groups=_MAX_GROUPS - 1, what=f"column {name!r}")
    if isinstance(found, Numbers):
        return Column(name, found.values)
    assert isinstance(found, Groups)
    codes, labels = found.codes, list(found.names)
    if len(labels) > MAX_COLORS:  # the largest groups first, since they get the colours; joined groups stay last
        sizes = np.bincount(codes[codes >= 0], minlength=len(labels))
        if found.n_joined:
            sizes[-1] = -1
        rank = np.argsort(-sizes, kind="stable")
        renumbered = np.full(len(labels) + 1, -1, dtype=np.int64)  # -1 stays -1
        renumbered[rank] = np.arange(len(labels))
        codes, labels = renumbered[codes], [labels[at] for at in rank]
    return Column(name, codes, tuple(map(_text, labels)))


def _text(value: Any) -> str:
    """A value as text that can be encoded."""
    return str(value).encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Coordinates:
    """Points in their bounding box, as integers.

    Attributes
    ----------
    axes : ndarray of uint16, shape (d, m)
        Coordinates relative to the centre of the box are ``radius * (axes - 32768) / 32767``.
    radius : float
        Half the longest side of the box.
    """

    axes: NDArray[np.uint16]
    radius: float


def quantize(Y: FloatArray, rows: IntArray, d: int) -> Coordinates:
    """Some rows of an embedding as integers in the bounding box of all rows; axes that it lacks are zero."""
    relative, radius = _in_box(Y)
    axes = np.full((d, len(rows)), _STEPS + 1, dtype=np.uint16)
    axes[: Y.shape[1]] = (np.rint(relative[rows] * _STEPS) + _STEPS + 1).T
    return Coordinates(axes, radius)


def _in_box(Y: FloatArray) -> tuple[FloatArray, float]:
    """Points relative to their bounding box, between -1 and 1, and half its longest side."""
    low, high = Y.min(axis=0).astype(np.float64), Y.max(axis=0).astype(np.float64)
    radius = float((high / 2 - low / 2).max())
    relative: FloatArray = (Y.astype(np.float64) - (low / 2 + high / 2)) / (radius if radius > 0 else 1.0)
    return relative, radius


@dataclass(frozen=True)
class Cells:
    """All points of a picture, counted in the cells of a grid over their bounding box.

    Attributes
    ----------
    counts : ndarray of uint32, shape (size, size)
        By the second coordinate, then the first.
    colors : list of ndarray of uint8, shape (size, size)
        For each column the mean in each cell, from 1 to 254 over the column's range, or the most common group, from 1;
        0 where there is no point, and 255 where all values are missing.
    """

    counts: NDArray[np.uint32]
    colors: list[NDArray[np.uint8]]


def count_in_cells(Y: FloatArray, columns: Sequence[Column], size: int) -> Cells:
    """Count points in a grid of `size` by `size` cells, with the mean or the most common value of each column.

    Parameters
    ----------
    Y : ndarray of shape (n, 2)
    columns : sequence of Column
        Of all n points.
    size : int
    """
    first, second = np.clip(((_in_box(Y)[0] + 1.0) * (size / 2.0)).astype(np.int64), 0, size - 1).T
    cells = second * size + first
    counts = np.bincount(cells, minlength=size * size)
    colors = []
    for column in columns:
        levels = _means(cells, column, len(counts)) if column.labels is None else _majority(cells, column, len(counts))
        colors.append(np.where(counts > 0, levels, 0).astype(np.uint8).reshape(size, size))
    return Cells(counts.astype(np.uint32).reshape(size, size), colors)


def _means(cells: IntArray, column: Column, n_cells: int) -> FloatArray:
    known = np.isfinite(column.values)
    counts = np.bincount(cells[known], minlength=n_cells)
    sums = np.bincount(cells[known], weights=column.values[known], minlength=n_cells)
    low, high = column.range
    shares = (sums / np.maximum(counts, 1) - low) / (high - low if high > low else 1.0)
    levels: FloatArray = np.where(counts > 0, np.rint(np.clip(shares, 0.0, 1.0) * (_LEVELS - 1)) + 1, _NO_VALUE)
    return levels


def _majority(cells: IntArray, column: Column, n_cells: int) -> IntArray:
    """The most common group in each cell; groups without their own colour count as one."""
    kinds = min(len(column.labels or ()), MAX_COLORS) + 2  # groups with a colour, the others, and missing
    codes = np.where(column.values < 0, kinds - 1, np.minimum(column.values, kinds - 2)).astype(np.int64)
    votes = np.bincount(cells * kinds + codes, minlength=n_cells * kinds).reshape(n_cells, kinds)
    winners: IntArray = votes.argmax(axis=1) + 1
    winners[winners == kinds] = _NO_VALUE
    return winners
