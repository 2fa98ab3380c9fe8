"""Memory-mapped arrays, which are larger than memory or should not be read into it."""

from __future__ import annotations

import os
import tempfile
from mmap import mmap

import numpy as np

from .chunks import chunks
from .typing import FloatArray, IntArray

__all__ = ["arranged", "is_mapped"]


def is_mapped(X: FloatArray) -> bool:
    """Whether an array is memory-mapped."""
    owner: object = X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, mmap)


def arranged(X: FloatArray, order: IntArray) -> FloatArray:
    """``X[order]``: in memory, or in a temporary file if `X` is memory-mapped.

    The file is deleted with the array.

    Raises
    ------
    OSError
        If the disk is full.
    """
    if not is_mapped(X):
        return X[order]
    with tempfile.TemporaryFile(prefix="heatsketch") as file:
        size = len(order) * X.shape[1] * X.dtype.itemsize
        _reserve(file.fileno(), size)
        out: FloatArray = np.memmap(file, dtype=X.dtype, mode="r+", shape=(len(order), X.shape[1]))
    for rows in chunks(len(order), X.shape[1]):
        out[rows] = X[order[rows]]
    return out


def _reserve(descriptor: int, size: int) -> None:
    """Allocate the file on disk: writing to a memory map without space would kill the process."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.truncate(descriptor, size)
    except OSError as error:
        raise OSError(
            f"no space for a temporary file of {size / 1e9:.1f} GB in {tempfile.gettempdir()} ({error}); set the "
            "environment variable TMPDIR to another directory, or pass X in memory."
        ) from error
