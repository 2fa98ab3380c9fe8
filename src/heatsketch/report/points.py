"""Points as the script of the page reads them: names, columns to colour by, coordinates in 16 bits and grid cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.colors import Colors, as_series, read_colors, summarize_cells
from .._utils.typing import FloatArray, IntArray

__all__ = [
    "MAX_COLORS",
    "MISSING",
    "encode_cells",
    "encode_column",
    "encode_fine_cells",
    "encode_points",
    "feature_columns",
    "read_columns",
    "read_names",
    "rounded",
    "scaled",
    "to_binary",
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
# Bits of either coordinate of the finest cells, and how many values of their points are stored.
_FINE_BITS, _FINE_VALUES = 14, 4_000_000
# Types of NumPy and their typed arrays in a browser.
_ARRAYS = {"u1": "Uint8Array", "u2": "Uint16Array", "i2": "Int16Array", "u4": "Uint32Array", "f4": "Float32Array"}


def read_names(names: Any, n_samples: int) -> list[str] | None:
    """Names of the samples as text; None if there are none."""
    if names is None:
        return None
    values = as_series(names, n_samples, "names")
    return [MISSING if gone else str(value) for value, gone in zip(values, values.isna(), strict=True)]


def read_columns(columns: Any, n_samples: int) -> list[Colors]:
    """Columns of a pandas or polars frame, or of a dict of arrays."""
    if columns is None:
        return []
    names = columns.keys() if hasattr(columns, "keys") else columns.columns  # polars frames have no keys
    return [_read_column(str(name), columns[name], n_samples) for name in names]


def _read_column(name: str, values: Any, n_samples: int) -> Colors:
    column = read_colors(values, n_samples, label=name, max_groups=_MAX_GROUPS - 1, what=f"column {name!r}")
    assert column is not None
    if column.groups is None or len(column.groups) <= MAX_COLORS:
        return column
    # The largest groups come first, since they get the colours; joined groups stay last.
    sizes = np.bincount(column.values[column.known], minlength=len(column.groups))
    if column.n_joined:
        sizes[-1] = -1
    rank = np.argsort(-sizes, kind="stable")
    renumbered = np.append(np.argsort(rank), -1)  # -1 stays -1
    return replace(column, values=renumbered[column.values], groups=tuple(column.groups[at] for at in rank))


def feature_columns(X: Any, names: Any = None) -> list[Colors]:
    """The features of the points, if there are few enough to choose from."""
    n_features = X.shape[1]
    if n_features > _MAX_FEATURES:
        return []
    labels = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    return [Colors(x, label=label) for label, x in zip(labels, dense.T, strict=True)]


def encode_column(column: Colors, rows: IntArray) -> dict[str, Any]:
    """The values of some points; numbers with the range of all."""
    values = column.values[rows]
    if column.groups is not None:
        return {"name": column.label, "labels": column.groups, "values": to_binary(values.astype(np.int16))}
    return {"name": column.label, "labels": None, "range": _range(column), **scaled(values)}


def _range(column: Colors) -> tuple[float, float]:
    known = column.values[column.known]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def encode_points(Y: FloatArray, rows: IntArray, d: int) -> dict[str, Any]:
    """Some rows of an embedding as integers in the bounding box of all rows; axes that it lacks are zero.

    Coordinates relative to the centre of the box are ``radius * (axis - 32768) / 32767``.
    """
    relative, radius = _in_box(Y)
    axes = np.full((d, len(rows)), _STEPS + 1, dtype=np.uint16)
    axes[: Y.shape[1]] = (np.rint(relative[rows] * _STEPS) + _STEPS + 1).T
    return {"axes": [to_binary(axis) for axis in axes], "radius": radius}


def _in_box(Y: FloatArray) -> tuple[FloatArray, float]:
    """Points relative to their bounding box, between -1 and 1, and half its longest side."""
    low, high = Y.min(axis=0).astype(np.float64), Y.max(axis=0).astype(np.float64)
    radius = float((high / 2 - low / 2).max())
    relative: FloatArray = (Y.astype(np.float64) - (low / 2 + high / 2)) / (radius if radius > 0 else 1.0)
    return relative, radius


def encode_cells(Y: FloatArray, columns: Sequence[Colors], size: int) -> dict[str, Any]:
    """Points (n, 2) counted in a grid over their bounding box, with the mean or the most common value of each column.

    Cells go by the second coordinate, then the first. A mean is a level from 1 to 254 over the column's range, a group
    its index plus 1; 0 is a cell without points, and 255 one whose values are all missing.
    """
    first, second = _cells(Y, size)
    cells = second * size + first
    counts = np.bincount(cells, minlength=size * size)
    colors = []
    for column in columns:
        levels = _levels(column, summarize_cells(_with_few_groups(column), cells, len(counts)))
        colors.append(to_binary(np.where(counts > 0, levels, 0).astype(np.uint8)))
    return {"size": size, "counts": to_binary(counts.astype(np.uint32)), "colours": colors}


def encode_fine_cells(Y: FloatArray, columns: Sequence[Colors]) -> dict[str, Any]:
    """Points (n, 2) in the cells of a grid of side ``2^bits`` over their bounding box, and their values.

    The bits of both coordinates of a cell alternate in its number (Morton order). The points of any larger cell of side
    ``2^-b`` are then consecutive, so that a page counts them in one pass. Numbers of cells, in increasing order, are
    stored as differences, one array for each byte: most bytes are zero. Values are levels as in `encode_cells`, of the
    first columns, 4 million in all, and None for others.
    """
    first, second = _cells(Y, 1 << _FINE_BITS)
    codes = _spread_bits(first) | _spread_bits(second) << np.uint32(1)
    order = np.argsort(codes, kind="stable")
    steps = np.diff(codes[order], prepend=np.uint32(0)).astype("<u4")
    colors = [
        to_binary(_levels(few, np.where(few.known, few.values, np.nan))[order].astype(np.uint8))
        if (at + 1) * len(codes) <= _FINE_VALUES
        else None
        for at, few in enumerate(map(_with_few_groups, columns))
    ]
    return {"bits": _FINE_BITS, "steps": to_binary(steps.view(np.uint8).reshape(-1, 4).T), "colours": colors}


def _cells(Y: FloatArray, size: int) -> IntArray:
    """First and second coordinates of the cells of points (n, 2) in a grid over their bounding box, (2, n)."""
    return np.clip(((_in_box(Y)[0] + 1.0) * (size / 2.0)).astype(np.int64), 0, size - 1).T


def _spread_bits(numbers: IntArray) -> NDArray[np.uint32]:
    """Numbers of up to 16 bits with a zero before each bit."""
    spread = numbers.astype(np.uint32)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        spread = (spread | spread << np.uint32(shift)) & np.uint32(mask)
    return spread


def _with_few_groups(column: Colors) -> Colors:
    """A column in which groups without a colour of their own count as one."""
    if column.groups is None:
        return column
    return replace(column, values=np.minimum(column.values, MAX_COLORS), groups=column.groups[: MAX_COLORS + 1])


def _levels(column: Colors, values: FloatArray) -> FloatArray:
    """Numbers as levels from 1 to 254 over the column's range, or groups as their index plus 1; 255 for NaN."""
    if column.groups is None:
        low, high = _range(column)
        values = np.rint((values - low) / (high - low if high > low else 1.0) * (_LEVELS - 1))
    return np.where(np.isnan(values), _NO_VALUE, values + 1)


def to_binary(values: NDArray[Any]) -> dict[str, Any]:
    """An array as a typed array of the browser: its kind, and its bytes."""
    data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"kind": _ARRAYS[values.dtype.str[1:]], "data": data}


def scaled(values: NDArray[Any]) -> dict[str, Any]:
    """Numbers in single precision relative to a power of two, so that any range fits; missing ones are NaN."""
    known = values[np.isfinite(values)]
    scale = float(np.ldexp(0.5, np.frexp(np.abs(known).max())[1])) if known.size else 1.0
    return {"scale": scale, "values": to_binary((values / scale).astype(np.float32))}


def rounded(values: FloatArray) -> list[float | None]:
    """Numbers for JSON, which has neither NaN nor infinity, with the digits that a plot shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
