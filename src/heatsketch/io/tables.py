"""Tables with named columns: csv, tsv and parquet, read by pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.extras import optional
from .data import SEPARATORS, Data, Reading
from .errors import check_finite, check_known, check_memory, parsing, row_name

__all__ = ["read_parquet", "read_text"]

# A text column of which more than this share are numbers is numeric, with something wrong in it.
_MOSTLY_NUMBERS = 0.5


def read_text(file: Any, reading: Reading, *, separator: str = ",") -> Data:
    """Read a table in text, with or without a line of column names.

    `file` is seekable and binary; `separator` is that of the format, unless `reading` has one.
    """
    import pandas as pd  # noqa: PLC0415

    given = reading.separator
    options: dict[str, Any] = {
        "sep": separator if given is None else SEPARATORS.get(given, given),
        "encoding": reading.encoding or "utf-8-sig",
    }
    try:
        first = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
        cells = [str(cell) for cell in first.iloc[0]]
        headless = not reading.header if reading.header is not None else _is_data(cells)
        words = [] if headless else [name for name in (reading.id, *reading.label) if name in cells]
        file.seek(0)
        frame = pd.read_csv(
            file,
            header=None if headless else 0,
            converters=dict.fromkeys(words, str),  # as written: 007 is not 7, and NA may be a name
            low_memory=False,
            decimal=reading.decimal or ".",
            # By default pandas may round the last digit of a number.
            float_precision=None if reading.decimal else "round_trip",
            **options,
        )
    except UnicodeError as error:
        raise ValueError(f"it is not text in {options['encoding']} ({error}); give its --encoding.") from error
    except LookupError as error:
        raise ValueError(f"--encoding {reading.encoding} is not known: {error}.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OverflowError) as error:
        raise ValueError(f"cannot be read as a table: {str(error).strip()}.") from error
    for name in reading.label:
        if name in words:
            frame[name] = _as_written(frame[name])
    notes: list[str] = []
    if headless:
        frame.columns = [f"x{j}" for j in range(frame.shape[1])]
        notes.append("no column names: the first line holds numbers, so it is taken as data")
    elif not isinstance(frame.index, pd.RangeIndex):  # rows have more values than there are column names
        if frame.index.nlevels > 1 or frame.index.dtype.kind in "biuf":
            raise ValueError(
                f"rows hold {frame.shape[1] + frame.index.nlevels} values, and the first line names {frame.shape[1]} "
                "columns; name every column, or use --no-header."
            )
        notes.append("the first value of each row, which has no column name, is its id")
    return _split_columns(frame, reading, notes)


def _is_data(cells: Sequence[str]) -> bool:
    """Whether a first line holds values rather than names; 0, 1, 2, ... are the default names of pandas."""
    filled = [cell for cell in cells if cell.strip()]
    return len(filled) > 0 and all(map(_is_number, filled)) and list(cells) != [str(j) for j in range(len(cells))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_written(column: Any) -> Any:
    """A text column as numbers if all are, except those with leading zeros; empty cells are missing."""
    import pandas as pd  # noqa: PLC0415

    words = column.str.strip()
    words = words.where(words != "")
    if words.str.match(r"-?0\d", na=False).any():
        return words
    numbers = pd.to_numeric(words, errors="coerce")
    return numbers if (numbers.notna() == words.notna()).all() else words


def read_parquet(file: Any, reading: Reading) -> Data:
    """Read a parquet file; an index is taken as ids."""
    import pandas as pd  # noqa: PLC0415

    parquet = optional("pyarrow.parquet", "read parquet", "parquet")
    notes: list[str] = []
    with parsing("parquet", notes):
        about = parquet.read_metadata(file)
        check_memory(8 * about.num_rows * about.num_columns)
        file.seek(0)
        frame = pd.read_parquet(file)
    if not isinstance(frame.index, pd.RangeIndex):
        notes.append("the index is taken as ids")
    return _split_columns(frame, reading, notes)


def _split_columns(frame: Any, reading: Reading, notes: list[str]) -> Data:
    """Split the columns of a frame into ids, features, and columns to keep aside.

    Ids are the index if there is one, the column --id, or a first column without a name or called "id". Text columns
    without a role are kept aside.
    """
    import pandas as pd  # noqa: PLC0415

    frame = frame.rename(columns=str)
    known = list(frame.columns)
    check_known([name for name in reading.named if name != frame.index.name], known)
    if not len(frame):
        raise ValueError("it has no rows; there is nothing to embed.")
    column = reading.id if reading.id in known else None
    names: Any
    if column is None and not isinstance(frame.index, pd.RangeIndex):
        levels = frame.index.to_flat_index()
        names = [", ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in levels]
    else:
        column = column or _id_column(known, reading, notes)
        names = None if column is None else [str(one) for one in frame[column]]
    names = None if names is None else np.array(names, dtype=object)
    given = {*reading.label, *reading.drop, column}
    candidates = list(reading.only) or [name for name in known if name not in given]
    numbers = {name: _numbers(frame[name], name, names, wanted=name in reading.only) for name in candidates}
    features = [name for name in candidates if numbers[name] is not None]
    if not features:
        raise ValueError(
            f"no column is numeric, so there is nothing to embed; the columns are {', '.join(map(repr, known[:8]))}. "
            "For columns separated by semicolons use --separator semicolon, for decimals such as 0,5 --decimal ,"
        )
    if words := [name for name in candidates if numbers[name] is None]:
        listed = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
        notes.append(f"text columns are kept aside: {listed}")
    aside = [name for name in known if name not in {*features, *reading.drop, column}]
    X = np.column_stack([numbers[name] for name in features])
    check_finite(X, features, names)
    return Data(X, names, features, {name: frame[name] for name in aside}, notes=notes)


def _id_column(known: Sequence[str], reading: Reading, notes: list[str]) -> str | None:
    """A first column without a name, or called "id", unless it was given a role."""
    first = known[0] if known else ""
    if first in reading.named or not (first.startswith("Unnamed: 0") or first.lower() == "id"):
        return None
    shown = "the unnamed first column" if first.startswith("Unnamed") else f"column {first!r}"
    notes.append(f"{shown} is taken as ids")
    return first


def _numbers(column: Any, name: str, names: Any, *, wanted: bool) -> Any:
    """A column as float64, NaN for missing values; None for a text column.

    Raises
    ------
    ValueError
        If a column that is mostly numeric, or was asked for, holds text: one cell must not change a column's role.
    """
    import pandas as pd  # noqa: PLC0415

    if column.dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    readable = column.astype(str if column.dtype.kind in "mM" else object)  # pandas would turn dates into numbers
    found = pd.to_numeric(readable, errors="coerce")
    strays = np.flatnonzero(found.isna() & column.notna())
    if not len(strays):
        return found.to_numpy(dtype=np.float64, na_value=np.nan)
    if not wanted and float(found.notna().mean()) <= _MOSTLY_NUMBERS:
        return None
    at = int(strays[0])
    raise ValueError(
        f"{row_name(at, names)}, column {name!r} holds {str(column.iloc[at])!r}, which is not a number; correct it, "
        f"keep the column aside with --label {name!r}, or leave it out with --drop {name!r}."
    )
