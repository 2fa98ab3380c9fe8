"""Points as the script of the page reads them: names, columns to colour by, coordinates in 16 bits and grid cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.colors import Colors, as_series, read_colors, summarize_cells
from .._utils.typing import FloatArray, IntArray

__all__ = [
    "COARSE_STEPS",
    "MAX_COLORS",
    "MAX_FEATURES",
    "MISSING",
    "PALETTE",
    "encode_cells",
    "encode_column",
    "encode_fine_cells",
    "encode_intervals",
    "encode_points",
    "feature_columns",
    "read_columns",
    "read_names",
    "rounded",
    "scaled",
    "to_binary",
]

MISSING = "missing"
# Colours of groups on a light and on a dark ground. Under red-green blindness the first ten are about as far apart as
# the eight colours of Okabe and Ito; in normal vision all twenty are.
PALETTE = {
    "light": (
        *("#356AAC", "#D2511A", "#C1B508", "#620074", "#93ADFE", "#82835F", "#014933", "#11B569", "#AD2F77", "#5636AA"),
        *("#267E05", "#694E00", "#13ABBF", "#003B7A", "#FD8C7B", "#684465", "#740033", "#A659C6", "#087970", "#D0860B"),
    ),
    "dark": (
        *("#8BB4E8", "#EF6B39", "#DCD015", "#AC57C0", "#DBE4FD", "#B3B585", "#007C59", "#54EB97", "#FE7FC0", "#9981FB"),
        *("#55B13F", "#A1790C", "#03E3FE", "#257FE5", "#FDB6AA", "#B189AD", "#D04772", "#E7B4FE", "#00B0A2", "#F29B00"),
    ),
}
# Groups with their own colour, and groups that keep their label; smaller ones are joined.
MAX_COLORS = 20
_MAX_GROUPS = 500
# Features are offered as colours up to this number, and up to this many values; more values than the last are stored
# with few bits.
MAX_FEATURES, _FEATURE_VALUES, _EXACT_VALUES, _FEATURE_BITS = 36, 120_000, 20_000, 8
# Intervals are stored with so many significant bits of their centres, and half widths in so many parts.
_INTERVAL_BITS, _WIDEST = 10, 65535
# Coordinates are integers between -steps and steps, stored as uint16 with an offset of steps + 1.
_FINE_STEPS, COARSE_STEPS = 32767, 2047
# Levels of a mean in a cell: 0 is an empty cell, 255 one whose values are all missing.
_LEVELS, _NO_VALUE = 254, 255
# Bits of either coordinate of the finest cells, and how many values of their points are stored.
_FINE_BITS, _FINE_VALUES = 14, 1_000_000
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
    if not (isinstance(columns, Mapping) or hasattr(columns, "columns")):
        raise TypeError(
            f"columns={type(columns).__name__} was given; it must be a frame, or a dict of arrays, as in "
            "columns={'label': labels}."
        )
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


def feature_columns(X: Any, names: Any = None, n_drawn: int = 1) -> list[Colors]:
    """The features of the points, if there are few enough to choose from; of many points the first ones.

    X is an array or a sparse matrix, whose columns have the names or x0, x1, ..., or a frame with names of its own.
    """
    n_features = X.shape[1]
    if n_features > MAX_FEATURES:
        return []
    kept = min(n_features, _FEATURE_VALUES // n_drawn)
    bits = _FEATURE_BITS if kept * n_drawn > _EXACT_VALUES else None
    if hasattr(X, "iloc"):
        frame = X.iloc[:, :kept]
        return read_columns({name: _with_bits(frame[name].to_numpy(), bits) for name in frame}, len(frame))
    labels = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    dense: FloatArray = np.asarray(X[:, :kept].toarray() if hasattr(X, "toarray") else X[:, :kept], dtype=np.float64)
    return [Colors(_with_bits(x, bits), label=label) for label, x in zip(labels, dense.T, strict=False)]


def _with_bits(values: NDArray[Any], bits: int | None) -> NDArray[Any]:
    """Numbers rounded to a few significant bits, so that they take little space when compressed."""
    if bits is None or values.dtype.kind != "f":
        return values
    significand, exponent = np.frexp(values)
    found: FloatArray = np.ldexp(np.rint(np.ldexp(significand, bits)), exponent - bits)
    return found


def encode_column(column: Colors, rows: IntArray) -> dict[str, Any]:
    """The values of some points, with the range or the sizes of groups of all."""
    values = column.values[rows]
    found = {"name": column.label, "labels": column.groups, "missing": int(np.count_nonzero(~column.known))}
    if column.groups is None:
        return found | {"range": _range(column), **scaled(values)}
    counts = np.bincount(column.values[column.known], minlength=len(column.groups)).tolist()
    n_groups = len(column.groups) - (column.n_joined > 0) + column.n_joined
    return found | {"groups": n_groups, "counts": counts, "values": to_binary(values.astype(np.int16))}


def _range(column: Colors) -> tuple[float, float]:
    known = column.values[column.known]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def encode_points(Y: FloatArray, rows: IntArray, d: int, steps: int = _FINE_STEPS) -> dict[str, Any]:
    """Some rows of an embedding as integers in the bounding box of all rows; axes that it lacks are zero.

    Coordinates relative to the centre of the box are ``radius * (axis - steps - 1) / steps``.
    """
    relative, radius = _in_box(Y)
    axes = np.full((d, len(rows)), steps + 1, dtype=np.uint16)
    axes[: Y.shape[1]] = (np.rint(relative[rows] * steps) + steps + 1).T
    return {"axes": [to_binary(axis) for axis in axes], "radius": radius, "steps": steps}


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
    stored as differences. Values are levels as in `encode_cells`, of the first columns, a million in all, and None for
    others.
    """
    first, second = _cells(Y, 1 << _FINE_BITS)
    codes = _spread_bits(first) | _spread_bits(second) << np.uint32(1)
    order = np.argsort(codes, kind="stable")
    steps = np.diff(codes[order], prepend=np.uint32(0))
    colors = [
        to_binary(_levels(few, np.where(few.known, few.values, np.nan))[order].astype(np.uint8))
        if (at + 1) * len(codes) <= _FINE_VALUES
        else None
        for at, few in enumerate(map(_with_few_groups, columns))
    ]
    return {"bits": _FINE_BITS, "steps": to_binary(steps), "colours": colors}


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
    """An array as a typed array of the browser: its kind, and its bytes, the first ones of all numbers first.

    In this order the bytes of similar numbers are compressed better.
    """
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).reshape(-1)
    data = values.view(np.uint8).reshape(len(values), -1).T.tobytes()
    return {"kind": _ARRAYS[values.dtype.str[1:]], "data": data}


def scaled(values: NDArray[Any]) -> dict[str, Any]:
    """Numbers in single precision relative to a power of two, so that any range fits; missing ones are NaN."""
    known = values[np.isfinite(values)]
    scale = float(np.ldexp(0.5, np.frexp(np.abs(known).max())[1])) if known.size else 1.0
    return {"scale": scale, "values": to_binary((values / scale).astype(np.float32))}


def encode_intervals(low: FloatArray, high: FloatArray) -> dict[str, Any]:
    """Intervals of distances as their centres and relative half widths, which are rounded up, in units of 1 / 65535.

    The ends are ``centre * (1 - width)`` and ``centre * (1 + width)``.
    """
    sums = low + high
    half = np.divide(high - low, sums, out=np.zeros_like(sums), where=sums > 0)
    width = np.ceil((half + np.ldexp(2.0 * (half > 0), -_INTERVAL_BITS)) * _WIDEST)
    width = np.minimum(width, _WIDEST).astype(np.uint16)
    return {"centre": scaled(_with_bits(0.5 * sums, _INTERVAL_BITS)), "width": to_binary(width)}


def rounded(values: FloatArray) -> list[float | None]:
    """Numbers for JSON, which has neither NaN nor infinity, with the digits that a plot shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
