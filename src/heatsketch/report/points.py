"""Points as the script of the page reads them: names, columns to colour by, coordinates in 16 bits and grid cells."""

from __future__ import annotations

import base64
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
    first, second = np.clip(((_in_box(Y)[0] + 1.0) * (size / 2.0)).astype(np.int64), 0, size - 1).T
    cells = second * size + first
    counts = np.bincount(cells, minlength=size * size)
    colors = []
    for column in columns:
        if column.groups is None:
            low, high = _range(column)
            found = summarize_cells(column, cells, len(counts))
            found = np.rint((found - low) / (high - low if high > low else 1.0) * (_LEVELS - 1))
        else:  # groups without their own colour count as one
            few = replace(column, values=np.minimum(column.values, MAX_COLORS), groups=column.groups[: MAX_COLORS + 1])
            found = summarize_cells(few, cells, len(counts))
        levels = np.where(np.isnan(found), _NO_VALUE, found + 1)
        colors.append(to_binary(np.where(counts > 0, levels, 0).astype(np.uint8)))
    return {"size": size, "counts": to_binary(counts.astype(np.uint32)), "colours": colors}


def to_binary(values: NDArray[Any]) -> dict[str, str]:
    """An array as a typed array of the browser: its kind, and its bytes in base64."""
    data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"kind": _ARRAYS[values.dtype.str[1:]], "data": base64.b64encode(data).decode("ascii")}


def scaled(values: NDArray[Any]) -> dict[str, Any]:
    """Numbers in single precision relative to a power of two, so that any range fits; missing ones are NaN."""
    known = values[np.isfinite(values)]
    scale = float(np.ldexp(0.5, np.frexp(np.abs(known).max())[1])) if known.size else 1.0
    return {"scale": scale, "values": to_binary((values / scale).astype(np.float32))}


def rounded(values: FloatArray) -> list[float | None]:
    """Numbers for JSON, which has neither NaN nor infinity, with the digits that a plot shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
