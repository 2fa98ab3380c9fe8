"""Arrays in files: points that are mapped into memory are not read into it."""

from __future__ import annotations

import tempfile
from mmap import mmap

import numpy as np

from ._typing import FloatArray, IntArray
from .chunks import chunks

__all__ = ["arranged", "is_mapped"]


def is_mapped(X: FloatArray) -> bool:
    """Whether the memory of an array is that of a file."""
    owner: object = X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, mmap)


def arranged(X: FloatArray, order: IntArray) -> FloatArray:
    """``X[order]``: in memory, or in a temporary file where `X` is in a file.

    The file has no name, so nothing is left behind when the array is gone.
    """
    if not is_mapped(X):
        return X[order]
    with tempfile.TemporaryFile(prefix="heatsketch") as file:
        out: FloatArray = np.memmap(file, dtype=X.dtype, mode="w+", shape=X.shape)
    for rows in chunks(len(order), X.shape[1]):
        out[rows] = X[order[rows]]
    return out
