"""Files that nobody vouches for: how much they may claim, and how what is wrong with them is told."""

from __future__ import annotations

import codecs
import gzip
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from .._utils.memory import available_memory, size_in_words

__all__ = [
    "HARMLESS",
    "MOST_EXPANSION",
    "brief",
    "check_array_header",
    "check_compressed",
    "check_text",
    "check_unpacked",
    "file_size",
    "parsing",
    "unpack",
]

# A file that unpacks to at most so many bytes is read whatever its own size; so is one that unpacks to at most so many
# times its own size, if there is memory for it. Real tables stay well below; gzip reaches 1000 on what is all the same.
HARMLESS = 1 << 28
MOST_EXPANSION = 200
_PIECE = 1 << 22
# Letters of an error: a damaged file may have all of its content in one cell.
_LONGEST = 1000


def check_unpacked(size: int, packed: int, remedy: str = "unpack it yourself if you trust it, and read that") -> None:
    """Refuse what would unpack to more than a file of that size should, or than there is memory for.

    Parameters
    ----------
    size : int
        Bytes that it takes in memory, or those that have come of it so far.
    packed : int
        Bytes of the file.
    remedy : str
        What to do with a file that is right nevertheless.

    Raises
    ------
    ValueError
    """
    if size <= HARMLESS:
        return
    if size > MOST_EXPANSION * packed:
        raise ValueError(
            f"its {size_in_words(packed)} would unpack to {size_in_words(size)} or more, over {MOST_EXPANSION} times "
            f"as much, as a file does that is made to fill the memory; {remedy}."
        )
    if size > (there := available_memory()):
        raise ValueError(
            f"it would take {size_in_words(size)} of memory or more, and {size_in_words(there)} are available; give a "
            "part of it, or an uncompressed .npy file, which is not read into memory."
        )


def unpack(packed: Any, target: Any) -> None:
    """Decompress a file of gzip into another, within the bounds of `check_unpacked`."""
    size, done = file_size(packed), 0
    with gzip.GzipFile(fileobj=packed) as content:
        while piece := content.read(_PIECE):
            done += len(piece)
            check_unpacked(done, size)
            target.write(piece)


def file_size(file: Any) -> int:
    """Bytes of a file, open or by its name."""
    if isinstance(file, (str, os.PathLike)):
        return os.stat(file).st_size  # noqa: PTH116
    at = file.tell()
    size = int(file.seek(0, os.SEEK_END))
    file.seek(at)
    return size


def check_text(file: Any, encoding: str) -> None:
    """Refuse text with a NUL in it, at which pandas before 3.1 ends a cell without a word, and a number with it."""
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))  # where other characters have such bytes
    decode: Callable[[bytes], Any] = codecs.getincrementaldecoder(encoding)().decode if wide else bytes
    done = 0
    file.seek(0)
    while piece := file.read(_PIECE):
        text = decode(piece)
        if (at := text.find("\0" if wide else b"\0")) >= 0:
            unit = "character" if wide else "byte"
            raise ValueError(
                f"its {unit} {done + at + 1} is a NUL, which text does not have; mend it, or name its --encoding."
            )
        done += len(text)
    file.seek(0)


def check_array_header(file: Any, size: int) -> np.dtype[Any]:
    """The dtype of an array in NumPy's format, whose header promises no more than the bytes of the file.

    Parameters
    ----------
    file : binary file at its beginning
    size : int
        Its bytes.

    Raises
    ------
    ValueError
    """
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    wanted = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or (wanted > size and not dtype.hasobject):
        raise ValueError(f"its header promises an array of shape {shape} of {dtype}, and it has {size} bytes")
    return dtype


def check_compressed(X: Any) -> None:
    """Refuse a compressed sparse matrix whose parts do not fit together: compiled code does not look."""
    if (np.diff(X.indptr) < 0).any():  # which SciPy does not see where the last is zero
        raise ValueError("its index pointers fall")
    X.check_format(full_check=True)


@contextmanager
def parsing(what: str, notes: list[str] | None = None) -> Iterator[None]:
    """Tell whatever a library makes of a file that it cannot read as one kind of error.

    What other libraries raise on damaged files is nowhere promised, and much of it is no ValueError.

    Parameters
    ----------
    what : str
        What the file should be, such as "parquet".
    notes : list of str, optional
        Takes warnings that are meant for users; others are left out.

    Raises
    ------
    ValueError
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ImportError:
            raise
        except Exception as error:
            reason = brief(str(error).strip().rstrip(".")) or type(error).__name__
            raise ValueError(f"it cannot be read as {what}: {reason}.") from error
    if notes is not None:
        said = (brief(str(one.message)) for one in caught if issubclass(one.category, UserWarning))
        notes += dict.fromkeys(said)


def brief(text: str) -> str:
    """A text without its middle where it is too long for an error."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
