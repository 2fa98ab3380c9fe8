"""Memory-mapped arrays."""

from __future__ import annotations

import os
import tempfile
from mmap import mmap

import numpy as np

from .chunks import chunks
from .typing import FloatArray, IntArray

__all__ = ["arranged"]


def arranged(X: FloatArray, order: IntArray) -> FloatArray:
    """``X[order]``: in memory, or in a temporary file if `X` is memory-mapped; the file is deleted with the array."""
    owner: object = X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, mmap):
        return X[order]
    with tempfile.TemporaryFile(prefix="heatsketch") as file:
        if hasattr(os, "posix_fallocate"):  # without space, writing to a memory map would kill the process
            os.posix_fallocate(file.fileno(), 0, len(order) * X.shape[1] * X.dtype.itemsize)
        out: FloatArray = np.memmap(file, dtype=X.dtype, mode="w+", shape=(len(order), X.shape[1]))
    for rows in chunks(len(order), X.shape[1]):
        out[rows] = X[order[rows]]
    return out
