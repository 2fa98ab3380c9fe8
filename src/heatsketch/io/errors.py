"""Checks and error messages that all readers share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._utils.chunks import chunks
from .._utils.memory import available_memory, size_in_words
from .._utils.text import did_you_mean

__all__ = ["check_exists", "check_finite", "check_known", "check_memory", "not_text", "parsing", "row_name"]


@contextmanager
def parsing(what: str, notes: list[str] | None = None) -> Iterator[None]:
    """Turn every error of a library that cannot read a file as `what` into a ValueError.

    `notes` receives the text of each UserWarning; other warnings are dropped.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ImportError:
            raise
        except Exception as error:
            reason = str(error).strip().rstrip(".") or type(error).__name__
            raise ValueError(f"cannot be read as {what}: {reason}.") from error
    if notes is not None:
        notes += dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning))


def check_exists(path: str | os.PathLike[str]) -> Path:
    """`path`; raises FileNotFoundError if it does not exist, with the directory and a file of a similar name."""
    if "://" in str(path):
        raise FileNotFoundError(f"{path} is an address; download the file first.")
    path = Path(path)
    folder = path.absolute().parent
    if path.exists():
        return path
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} does not exist: there is no directory {folder}.")
    near = did_you_mean(path.name, (one.name for one in folder.iterdir()))
    raise FileNotFoundError(f"{path} does not exist in {folder}; give the path of a file.{near}")


def check_memory(size: int) -> None:
    """Raise ValueError if data of `size` bytes does not fit in memory."""
    if size > (available := available_memory()):
        raise ValueError(
            f"it needs {size_in_words(size)} of memory, and {size_in_words(available)} are available; use a part of "
            "it, or an uncompressed .npy file, which is memory-mapped"
        )


def check_known(names: Iterable[str], known: Sequence[str], what: str = "column") -> None:
    """Raise ValueError for the first name that is not among those known."""
    for name in names:
        if name not in known:
            listed = ", ".join(map(repr, known[:20])) + (f", and {len(known) - 20:,} more" if len(known) > 20 else "")
            raise ValueError(f"there is no {what} {name!r}.{did_you_mean(name, known)} There are: {listed or 'none'}.")


def not_text(encoding: str) -> str:
    """The message for a file that is not text in an encoding."""
    name = encoding.removesuffix("-sig").upper()  # UTF-8 is read with a signature at its beginning, or without
    return f"it is not text in {name}; give its encoding, such as --encoding latin-1 or cp1252."


def row_name(row: int, names: Any = None) -> str:
    """A row for a message: its number, counted from 0, and its id."""
    return f"row {row}" + ("" if names is None else f" ({names[row]})")


def check_finite(X: Any, features: Sequence[str] | None = None, names: Any = None) -> None:
    """Raise ValueError for a missing or infinite value, with its row and column.

    X is an array or csr_array of shape (n, d), real; it may be memory-mapped, and is checked in row chunks.
    """
    if issparse(X):
        entries = X.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))[:1]
        places = list(zip(entries.row[bad], entries.col[bad], strict=True))
    else:
        places = [
            (rows.start + i, j)
            for rows in chunks(X.shape[0], X.shape[1])
            for i, j in np.argwhere(~np.isfinite(X[rows]))[:1]
        ]
    for i, j in places:
        column = f"column {j + 1}" if features is None else f"column {features[j]!r}"
        what = "a missing value" if np.isnan(X[i, j]) else f"the value {X[i, j]}"
        raise ValueError(
            f"{row_name(i, names)}, {column} holds {what}; every value must be a finite number. Fill it in or "
            "remove the row, or leave the column out with --drop."
        )
