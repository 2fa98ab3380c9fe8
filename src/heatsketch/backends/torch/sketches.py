"""Sketches drawn on a device: the same random words as on the CPU, normals up to the rounding of their functions."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import torch

from ..._utils.chunks import chunks
from ..._utils.typing import IntArray
from ...linalg.sketch import GAUSSIAN, RADEMACHER, GaussianSketch, HashedRademacherSketch, RademacherSketch, Sketch
from .device import Device
from .words import gaussian, hashed_signs, signs

__all__ = ["draw"]

# Entries made at a time: as many as keep a GPU busy. With temporaries, below 100 bytes for each, that is less than half
# a GB. A row makes whole groups of columns, so that it costs as many entries as some columns more.
_ENTRIES_PER_LAUNCH, _FURTHER_COLUMNS = 1 << 22, 8


def draw(sketch: Sketch, shape: tuple[int, int], first_column: int, device: Device, dtype: Any = np.float64) -> Any:
    """Columns of the first rows of a sketch, as a tensor on a device; computed in float64.

    Parameters
    ----------
    sketch : Sketch
    shape : tuple of int
        Rows and columns.
    first_column : int
    device : Device
    dtype : dtype of NumPy
    """
    n_rows, n_columns = shape
    columns = np.arange(first_column, first_column + n_columns)
    out = torch.empty(shape, dtype=device.dtype(dtype), device=device.name)
    for rows in chunks(n_rows, n_columns + _FURTHER_COLUMNS, _ENTRIES_PER_LAUNCH):
        out[rows] = _entries(sketch, torch.arange(rows.start, rows.stop, device=device.name), columns)
    return out


@singledispatch
def _entries(sketch: Sketch, rows: Any, columns: IntArray) -> Any:
    """Entries of some rows and columns in float64: made on the CPU, unless there is a better way."""
    return torch.from_numpy(sketch.block(rows.cpu().numpy(), columns)).to(rows.device)


@_entries.register
def _(sketch: GaussianSketch, rows: Any, columns: IntArray) -> Any:
    return gaussian(rows, columns, GAUSSIAN, sketch.seed)


@_entries.register
def _(sketch: RademacherSketch, rows: Any, columns: IntArray) -> Any:
    return signs(rows, columns, RADEMACHER, sketch.seed)


@_entries.register
def _(sketch: HashedRademacherSketch, rows: Any, columns: IntArray) -> Any:
    return hashed_signs(rows, columns, tuple(int(c) for c in sketch.coefficients))
