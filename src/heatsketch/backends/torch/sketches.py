"""Sketches drawn on a device: the random words of :mod:`heatsketch.linalg.sketch`, and normals up to rounding.

PyTorch lacks arithmetic of unsigned integers, so 32-bit words are held in int64. Products of two words wrap around
modulo 2^64, and a shift to the right copies the sign bit; a mask removes the copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._utils.chunks import chunks
from ..._utils.typing import IntArray
from ...linalg.sketch import GAUSSIAN, RADEMACHER, GaussianSketch, RademacherSketch, Sketch
from .tensors import TensorDevice

__all__ = ["draw", "philox"]

# Entries made at a time: enough to keep a GPU busy, below half a GB with temporaries. A row makes whole groups of
# columns, so it costs as much as some further columns.
_ENTRIES_PER_LAUNCH, _FURTHER_COLUMNS = 1 << 22, 8
_MASK32 = 0xFFFFFFFF


def draw(
    sketch: Sketch, shape: tuple[int, int], first_column: int, device: TensorDevice, dtype: Any = np.float64
) -> Any:
    """Columns of the first rows of a sketch, as a tensor on a device; computed in float64."""
    n_rows, n_columns = shape
    columns = np.arange(first_column, first_column + n_columns)
    out = torch.empty(shape, dtype=device.dtype(dtype), device=device.name)
    for rows in chunks(n_rows, n_columns + _FURTHER_COLUMNS, _ENTRIES_PER_LAUNCH):
        out[rows] = _entries(sketch, torch.arange(rows.start, rows.stop, device=device.name), columns)
    return out


def _entries(sketch: Sketch, rows: Any, columns: IntArray) -> Any:
    """Entries of rows, (m,), and columns, (k,), in float64; sketches other than these two are made on the CPU."""
    if isinstance(sketch, GaussianSketch):
        return _gaussian(rows, columns, sketch.seed)
    if isinstance(sketch, RademacherSketch):
        return _signs(rows, columns, sketch.seed)
    return torch.from_numpy(sketch.block(rows.cpu().numpy(), columns)).to(rows.device)


def _gaussian(rows: Any, columns: IntArray, seed: int) -> Any:
    """Entries of a `GaussianSketch`, up to the rounding of logarithm and cosine."""
    groups, where = np.unique(columns // 4, return_inverse=True)
    uniform = _words(rows, groups, GAUSSIAN, seed).to(torch.float64).add_(0.5).mul_(2.0**-32)
    radius = uniform[..., 0::2].log().mul_(-2.0).sqrt_()  # [rows, groups, 2]
    angle = uniform[..., 1::2] * (2.0 * np.pi)
    normals = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return _picked(normals.flatten(2), where, columns % 4)


def _signs(rows: Any, columns: IntArray, seed: int) -> Any:
    """Entries of a `RademacherSketch`."""
    groups, where = np.unique(columns // 128, return_inverse=True)
    words = _picked(_words(rows, groups, RADEMACHER, seed), where, (columns % 128) // 32)
    bit = torch.from_numpy(columns % 32).to(rows.device)
    return (words >> bit).bitwise_and_(1).to(torch.float64).mul_(2.0).sub_(1.0)


def philox(counter: tuple[Any, Any, Any, Any], seed: int) -> tuple[Any, ...]:
    """Philox4x32-10 as :func:`heatsketch.linalg.sketch.philox`, in tensors of int64 with values in [0, 2**32)."""
    shape = np.broadcast_shapes(*(c.shape for c in counter))
    c0, c1, c2, c3 = (c.expand(shape) for c in counter)
    key0, key1 = seed & _MASK32, (seed >> 32) & _MASK32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c2 = _high(p1).bitwise_xor_(c1).bitwise_xor_(key0), _high(p0).bitwise_xor_(c3).bitwise_xor_(key1)
        c1, c3 = p1.bitwise_and_(_MASK32), p0.bitwise_and_(_MASK32)
        key0, key1 = (key0 + 0x9E3779B9) & _MASK32, (key1 + 0xBB67AE85) & _MASK32
    return c0, c1, c2, c3


def _high(product: Any) -> Any:
    """The upper 32 of 64 bits."""
    return (product >> 32).bitwise_and_(_MASK32)


def _words(rows: Any, groups: IntArray, stream: int, seed: int) -> Any:
    """Four Philox words for each row and each group of columns, shape (rows, groups, 4)."""
    i = rows[:, None]
    group = torch.from_numpy(groups).to(rows.device)[None, :]
    last = torch.full_like(group, stream)
    return torch.stack(philox((i & _MASK32, i >> 32, group, last), seed), dim=-1)


def _picked(values: Any, group: IntArray, member: IntArray) -> Any:
    """The values at (group, member) in each row, (rows, groups, size) -> (rows, columns)."""
    flat = torch.from_numpy(group * values.shape[2] + member).to(values.device)
    return values.flatten(1).index_select(1, flat)
