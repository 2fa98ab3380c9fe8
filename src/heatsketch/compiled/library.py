"""The shared library of compiled loops, which the build puts beside this module (see hatch_build.py)."""

from __future__ import annotations

import ctypes
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BYTE_PRODUCTS", "Function"]

# Types by the letters that the names of C functions end in.
_DTYPES = {
    letter: np.dtype(kind)
    for letter, kind in {"f": np.float32, "d": np.float64, "i": np.int32, "l": np.int64, "b": np.bool_}.items()
}
_NUMBERS: dict[str, Any] = {"l": ctypes.c_int64, "d": ctypes.c_double}
_SUFFIX = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")


def _path(variant: str) -> Path:
    return Path(__file__).parent / f"loops-{variant}.{_SUFFIX}"


def _load(variant: str) -> ctypes.CDLL:
    path = _path(variant)
    if not path.exists():
        raise ImportError(f"{path} does not exist; install heatsketch with pip, which compiles it: pip install -e .")
    return ctypes.CDLL(str(path))


def _best() -> str:
    """The variant for this processor, for instance one with AVX2."""
    name = _load("baseline").variant
    name.restype = ctypes.c_char_p
    return str(name().decode())


_VARIANT = _best()
if not _path(_VARIANT).exists():  # its compiler was too old for this processor
    _VARIANT = "baseline"
_LIBRARY = _load(_VARIANT)
# Whether one instruction multiplies and adds four bytes in each lane, four times as fast as float32. Elsewhere bytes
# take longer than float32.
BYTE_PRODUCTS = _VARIANT == "arm64-dotprod"


class Function:
    """A C function on arrays, in one instance for each combination of their types.

    Parameters
    ----------
    name : str
    arrays : str
        The type of each array, in the order of the arguments: f, d, i, l or b (float32, float64, int32, int64, bool),
        or a capital letter that stands for several. A star follows the type of an array that is written to.
    numbers : str
        The types of the numbers that follow: l or d.
    **types : str
        For each capital letter, the types that it stands for. The name of an instance ends in the types chosen.

    Examples
    --------
    >>> from heatsketch.compiled.library import Function
    >>> import numpy as np
    >>> add = Function("add", "d*T", "dll", T="fd")
    >>> total = np.ones(3)
    >>> add((total, np.arange(3.0)), 10.0, 0, 3)
    >>> total
    array([ 1., 11., 21.])
    """

    def __init__(self, name: str, arrays: str, numbers: str, **types: str) -> None:
        self._name, self._n_numbers = name, len(numbers)
        self._written = [star == "*" for star in re.findall(r"\w(\*?)", arrays)]
        arrays = arrays.replace("*", "")
        self._instances: dict[tuple[np.dtype[Any], ...], Any] = {}
        for letters in product(*types.values()):
            chosen = dict(zip(types, letters, strict=True))
            instance = _LIBRARY[f"{name}_{''.join(letters)}" if letters else name]
            instance.argtypes = [ctypes.c_void_p] * len(arrays) + [_NUMBERS[letter] for letter in numbers]
            instance.restype = None
            self._instances[tuple(_DTYPES[chosen.get(letter, letter)] for letter in arrays)] = instance

    def __call__(self, arrays: tuple[Any, ...], *numbers: float) -> None:
        """Call the instance for the types of the arrays: C-contiguous, and those written to aligned and writeable."""
        instance = self._instances.get(tuple([array.dtype for array in arrays]))
        if instance is None:
            accepted = " or ".join(f"({', '.join(map(str, dtypes))})" for dtypes in self._instances)
            raise TypeError(f"{self._name} takes arrays of {accepted}, got {[str(array.dtype) for array in arrays]}")
        if len(numbers) != self._n_numbers:  # ctypes accepts more
            raise TypeError(f"{self._name} takes {self._n_numbers} numbers, got {len(numbers)}")
        instance(*map(_pointer, arrays, self._written), *numbers)


# The address of an array, four times as fast as its attribute `ctypes`, but not for arrays that are read-only.
_buffer = (ctypes.c_char * 0).from_buffer


def _pointer(array: Any, written: bool) -> Any:
    flags = array.flags
    if flags.carray:
        return _buffer(array)
    if flags.c_contiguous and not written:
        # What another process sends may begin anywhere; `ctypes` keeps the copy alive during the call.
        return array.ctypes if flags.aligned else array.copy().ctypes
    trouble = "not C-contiguous" if not flags.c_contiguous else "not aligned" if not flags.aligned else "read-only"
    raise TypeError(f"an array of shape {array.shape} and strides {array.strides} is {trouble}")
