"""Memory-mapped arrays."""

from __future__ import annotations

import math
import os
import tempfile
from mmap import mmap
from typing import Any

import numpy as np

from .chunks import chunks
from .typing import IntArray

__all__ = ["arranged", "zeros_beside"]


def arranged(X: Any, order: IntArray) -> Any:
    """``X[order]``: in memory, or in a temporary file if `X` is memory-mapped."""
    if not _is_mapped(X):
        return X[order]
    out = zeros_beside(X, (len(order), X.shape[1]), X.dtype)
    for rows in chunks(len(order), X.shape[1]):
        out[rows] = X[order[rows]]
    return out


def zeros_beside(X: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros in memory, or in a temporary file if `X` is memory-mapped; the file is deleted with the array."""
    if not _is_mapped(X):
        return np.zeros(shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="heatsketch") as file:
        if hasattr(os, "posix_fallocate"):  # without space, writing to a memory map would kill the process
            os.posix_fallocate(file.fileno(), 0, math.prod(shape) * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


def _is_mapped(X: Any) -> bool:
    while isinstance(X, np.ndarray):
        X = X.base
    return isinstance(X, mmap)
