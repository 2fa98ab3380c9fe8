"""The shared library of compiled loops, which the build puts beside this module (see hatch_build.py).

The environment variable HEATSKETCH_LOOPS names another folder to load it from: that of a build with sanitizers.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from functools import lru_cache
from itertools import chain, product, takewhile
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


_FOLDER = Path(os.environ.get("HEATSKETCH_LOOPS") or Path(__file__).parent)


def _path(variant: str) -> Path:
    return _FOLDER / f"loops-{variant}.{_SUFFIX}"


def _load(variant: str) -> ctypes.CDLL:
    path = _path(variant)
    if not path.exists():
        remedy = "install heatsketch with pip, which compiles it: pip install -e ."
        if os.environ.get("HEATSKETCH_LOOPS"):
            remedy = "unset HEATSKETCH_LOOPS, or compile there: python hatch_build.py --sanitize"
        raise ImportError(f"{path} does not exist; {remedy}")
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


# How arguments are declared: the type, star, name and dimensions of an array; the type, name and limit of a number.
_ARRAY = re.compile(r"(\w)(\*?) (\w+)\[([^]]+)\]")
_NUMBER = re.compile(r"(\w) (\w+)(?:(<=?)(\w+))?")


class Function:
    """A C function on arrays, in one instance for each combination of their types.

    Its arguments are declared in the order and with the names that they have in C. A call is given the arrays, and the
    numbers that are not dimensions of them. It checks types, layout, dimensions and limits before C uses them.

    Parameters
    ----------
    name : str
    arrays : str
        The arrays. A type is f, d, i, l or b (float32, float64, int32, int64, bool), or a capital letter that stands
        for several. A star marks an array that is written to. A dimension is a name, an integer, or their sum; all
        dimensions of one name must be equal.
    numbers : str
        The numbers that follow, of type l or d: first those that are dimensions of the arrays. Others may have a limit,
        a dimension or an integer: they must be between 0 and that. Numbers without a limit are not checked.
    **types : str
        For each capital letter, the types that it stands for. The name of an instance ends in the types chosen.

    Examples
    --------
    >>> from heatsketch.compiled.library import Function
    >>> import numpy as np
    >>> add = Function("add", "d* total[n], T term[n]", "d factor, l start<=n, l stop<=n", T="fd")
    >>> total = np.ones(3)
    >>> add((total, np.arange(3.0)), 10.0, 0, 3)
    >>> total
    array([ 1., 11., 21.])
    """

    def __init__(self, name: str, arrays: str, numbers: str, **types: str) -> None:
        self.name, self.arrays, self.numbers = name, _ARRAY.findall(arrays), _NUMBER.findall(numbers)
        # The types of the arrays of each instance.
        self.instances: dict[str, tuple[str, ...]] = {}
        self._calls: dict[tuple[np.dtype[Any], ...], Any] = {}
        for letters in product(*types.values()):
            chosen = dict(zip(types, letters, strict=True))
            instance = f"{name}_{''.join(letters)}" if letters else name
            self.instances[instance] = kinds = tuple(chosen.get(letter, letter) for letter, *_ in self.arrays)
            self._calls[tuple(_DTYPES[kind] for kind in kinds)] = call = _LIBRARY[instance]
            call.argtypes = [ctypes.c_void_p] * len(kinds) + [_NUMBERS[letter] for letter, *_ in self.numbers]
            call.restype = None
        self._written = [star == "*" for _, star, *_ in self.arrays]
        shapes = [dimensions.split(", ") for *_, dimensions in self.arrays]
        self._ranks, self._dimensions = [len(shape) for shape in shapes], list(chain(*shapes))
        sums = [(total, *total.split("+")) for total in self._dimensions if "+" in total]
        self._sums = [(total, name, int(more)) for total, name, more in sums]
        self._sizes = list(takewhile(self._dimensions.__contains__, [name for _, name, *_ in self.numbers]))
        given = [(place, *number[1:]) for place, number in enumerate(self.numbers[len(self._sizes) :])]
        self._n_given = len(given)
        self._limits = [(place, limit, sign == "<") for place, _, sign, limit in given if sign]
        names = chain(self._dimensions, (limit for *_, limit in self.numbers))
        self._integers = {name: int(name) for name in names if name.isdigit()}
        # Most calls have the shapes of earlier ones; looking them up takes a tenth of the time of comparing them.
        self._sizes_of = lru_cache(maxsize=256)(self._check_shapes)

    def __call__(self, arrays: tuple[Any, ...], *numbers: float) -> None:
        """Call the instance for the types of the arrays: C-contiguous, and those written to aligned and writeable."""
        call = self._calls.get(tuple([array.dtype for array in arrays]))
        if call is None:
            accepted = " or ".join(f"({', '.join(map(str, dtypes))})" for dtypes in self._calls)
            raise TypeError(f"{self.name} takes arrays of {accepted}, got {[str(array.dtype) for array in arrays]}")
        if len(numbers) != self._n_given:  # ctypes accepts more
            raise TypeError(f"{self.name} takes {self._n_given} numbers, got {len(numbers)}")
        sizes, limits = self._sizes_of(tuple([array.shape for array in arrays]))
        for place, largest in limits:
            if not 0 <= numbers[place] <= largest:
                name = self.numbers[len(sizes) + place][1]
                raise ValueError(f"{self.name} takes {name} from 0 to {largest}, got {numbers[place]}")
        # The buffer of an array is four times as fast as its attribute `ctypes`, but it must be writeable.
        pointers = [
            _buffer(array) if array.flags.carray else _pointer(array, written)
            for array, written in zip(arrays, self._written, strict=True)
        ]
        call(*pointers, *sizes, *numbers)

    def _check_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[int], list[tuple[int, int]]]:
        """The sizes that C is given, if the dimensions agree, and the places and limits of the numbers after them."""
        found = list(chain(*shapes))
        if [len(shape) for shape in shapes] == self._ranks:
            sizes = dict(zip(self._dimensions, found, strict=True)) | self._integers
            for total, name, more in self._sums:
                sizes[total] = sizes.setdefault(name, sizes[total] - more) + more
            if [sizes[name] for name in self._dimensions] == found:
                limits = [(place, sizes[limit] - below) for place, limit, below in self._limits]
                return [sizes[name] for name in self._sizes], limits
        declared = ", ".join(f"{name} ({dimensions})" for _, _, name, dimensions in self.arrays)
        raise ValueError(f"{self.name} takes arrays of shapes {declared}, got {', '.join(map(str, shapes))}")


_buffer = (ctypes.c_char * 0).from_buffer


def _pointer(array: Any, written: bool) -> Any:
    """The address of an array that is read-only or not aligned."""
    flags = array.flags
    if flags.c_contiguous and not written:
        # What another process sends may begin anywhere; `ctypes` keeps the copy alive during the call.
        return array.ctypes if flags.aligned else array.copy().ctypes
    trouble = "not C-contiguous" if not flags.c_contiguous else "not aligned" if not flags.aligned else "read-only"
    raise TypeError(f"an array of shape {array.shape} and strides {array.strides} is {trouble}")
