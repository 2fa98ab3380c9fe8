"""Arrays in files: points that are mapped into memory are not read into it."""

from __future__ import annotations

import os
import tempfile
from mmap import mmap

import numpy as np

from .chunks import chunks
from .typing import FloatArray, IntArray

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

    Raises
    ------
    OSError
        If there is no room for the file.
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
    """Make a file of a size that the disk really has: writing to a map of more than that would end the process."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.truncate(descriptor, size)
    except OSError as error:
        raise OSError(
            f"no room for a temporary file of {size / 1e9:.1f} GB in {tempfile.gettempdir()} ({error}); name a folder "
            "with more in the environment variable TMPDIR, or give X in memory."
        ) from error
