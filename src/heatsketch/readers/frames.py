"""Tables with named columns: csv, tsv and parquet, read and made by pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..extras import optional
from .data import Data, Reading, check_known, refuse_missing

__all__ = ["from_frame", "read_parquet", "read_text"]

# A column of words of which more than this share are numbers is one of numbers with something wrong in it.
_MOSTLY_NUMBERS = 0.5
_SEPARATORS = {"comma": ",", "tab": "\t", "space": r"\s+", "semicolon": ";"}


def read_text(file: Any, reading: Reading, *, separator: str = ",") -> Data:
    """Read a table in text, with or without a line of column names.

    Parameters
    ----------
    file : binary file
    reading : Reading
    separator : str
        That of the format, where `reading` names none.
    """
    import pandas as pd  # noqa: PLC0415

    chosen = separator if reading.separator is None else _SEPARATORS.get(reading.separator, reading.separator)
    try:
        frame = pd.read_csv(file, sep=chosen, low_memory=False, float_precision="round_trip")
        headless = _is_data(list(frame.columns))
        if headless:  # the first line is data
            file.seek(0)
            frame = pd.read_csv(file, sep=chosen, low_memory=False, float_precision="round_trip", header=None)
            frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"it cannot be read as a table: {str(error).strip()}.") from error
    if frame.shape[1] == 1 and reading.separator is None and any(c in str(frame.columns[0]) for c in ";\t,"):
        raise ValueError(
            f"the only column is {frame.columns[0]!r}, which looks like several; name what is between the columns "
            "with --separator comma, tab, space or semicolon."
        )
    data = from_frame(frame, reading)
    if headless:
        data.notes.insert(0, "no column names: the first line holds numbers, so it is taken as data")
    return data


def read_parquet(file: Any, reading: Reading) -> Data:
    """Read a parquet file."""
    import pandas as pd  # noqa: PLC0415

    optional("pyarrow", "read parquet", "parquet")
    try:
        frame = pd.read_parquet(file)
    except (OSError, ValueError) as error:  # pyarrow's own errors are kinds of these
        raise ValueError(f"it cannot be read as parquet: {error}.") from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names=frame.index.name or "id")
    return from_frame(frame, reading)


def from_frame(frame: Any, reading: Reading) -> Data:
    """Tell the columns of a frame apart: ids, features, and what is kept aside.

    Columns of words that have no role are kept aside. So is an unnamed first column, or one called "id", as ids.

    Parameters
    ----------
    frame : DataFrame
    reading : Reading
    """
    frame = frame.rename(columns=str)
    known = list(frame.columns)
    check_known(reading.named, known)
    if not len(frame):
        raise ValueError("it has no rows; there is nothing to embed.")
    notes: list[str] = []
    identity = reading.id or _identity(known, reading, notes)
    names = None if identity is None else frame[identity].astype(str).to_numpy(dtype=object)
    given = {*reading.labels, *reading.drop, identity}
    candidates = list(reading.only) or [name for name in known if name not in given]
    words = [name for name in candidates if not _holds_numbers(frame[name])]
    for name in words:
        _refuse_stray_words(frame[name], name, names, wanted=name in reading.only)
    features = [name for name in candidates if name not in words]
    if not features:
        raise ValueError("no column holds numbers, so there is nothing to embed.")
    if words:
        notes.append(f"columns of words are kept aside: {_listed(words)}")
    rest = [name for name in known if name not in {*features, *words, *given}]
    aside = [name for name in known if name in {*reading.labels, *words, *rest}]
    X = frame[features].to_numpy(dtype=np.float64, na_value=np.nan)
    refuse_missing(X, features, names)
    columns = {name: frame[name].to_numpy() for name in aside}
    return Data(X, names, features, columns, notes=notes)


def _identity(known: Sequence[str], reading: Reading, notes: list[str]) -> str | None:
    """The column that names the rows, where nobody said which."""
    first = known[0] if known else ""
    if first in reading.named:
        return None
    if first.startswith("Unnamed: 0") or first.lower() == "id":
        shown = "the unnamed first column" if first.startswith("Unnamed") else f"column {first!r}"
        notes.append(f"{shown} is taken as ids")
        return first
    return None


def _holds_numbers(column: Any) -> bool:
    return column.dtype.kind in "biuf"


def _refuse_stray_words(column: Any, name: str, names: Any, *, wanted: bool) -> None:
    """Refuse words among numbers: a column must not change its role because of one cell."""
    import pandas as pd  # noqa: PLC0415

    numbers = pd.to_numeric(column, errors="coerce")
    strays = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if not len(strays) or not (wanted or numbers.notna().mean() > _MOSTLY_NUMBERS):
        return
    at = int(strays[0])
    row = f"row {at + 1}" + ("" if names is None else f" ({names[at]})")
    raise ValueError(
        f"{row}, column {name!r} holds {str(column.iloc[at])!r} among numbers; mend it, keep the column aside with "
        f"--label {name!r}, or leave it out with --drop {name!r}."
    )


def _is_data(line: Sequence[str]) -> bool:
    """Whether a first line holds values rather than names; 0, 1, 2, ... are the names that pandas gives."""
    return len(line) > 0 and all(map(_is_number, line)) and list(line) != [str(j) for j in range(len(line))]


def _is_number(name: Any) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
