"""Tables with named columns: csv, tsv and parquet, read by pandas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils.extras import optional
from .data import SEPARATORS, Data, Reading, as_words, check_known, place, refuse_missing
from .untrusted import check_text, check_unpacked, file_size, parsing

__all__ = ["read_parquet", "read_text"]

# A column of words of which more than this share are numbers is one of numbers with something wrong in it.
_MOSTLY_NUMBERS = 0.5
# Put before cells that are to stay as they are written, for pandas takes a plain NA to be nothing.
_MARK = "="


def read_text(file: Any, reading: Reading, *, separator: str = ",") -> Data:
    """Read a table in text, with or without a line of column names.

    Parameters
    ----------
    file : binary file that can be read twice
    reading : Reading
    separator : str
        That of the format, where `reading` names none.
    """
    pd = optional("pandas", "read tables")
    given = reading.separator
    options: dict[str, Any] = {
        "sep": separator if given is None else SEPARATORS.get(given, given),
        "encoding": reading.encoding or "utf-8-sig",
    }
    try:
        check_text(file, options["encoding"])
        first = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
        cells = [str(cell) for cell in first.iloc[0]]
        _refuse_other_separators(cells, given, options["sep"])
        headless = not reading.header if reading.header is not None else _is_data(cells)
        words = [] if headless else [name for name in (reading.id, *reading.labels) if name in cells]
        file.seek(0)
        frame = pd.read_csv(
            file,
            header=None if headless else 0,
            converters=dict.fromkeys(words, _MARK.__add__),  # as they are written: 007 is not 7, and NA may be a name
            low_memory=False,
            decimal=reading.decimal or ".",
            **_exactly(pd, reading),
            **options,
        )
        longer = not headless and _has_longer_rows(frame, file, options)
    except UnicodeError as error:
        raise ValueError(f"it is not text in {options['encoding']} ({error}); name its --encoding.") from error
    except LookupError as error:
        raise ValueError(f"--encoding {reading.encoding} is not known: {error}.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OverflowError) as error:  # the last of numbers without end
        raise ValueError(f"it cannot be read as a table: {str(error).strip()}.") from error
    if headless:
        frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    for name in words:
        frame[name] = _as_written(frame[name].str.removeprefix(_MARK))
    notes = ["no column names: the first line holds numbers, so it is taken as data"] if headless else []
    return _told_apart(frame, reading, notes, index_is_left_over=longer)


def _exactly(pd: Any, reading: Reading) -> dict[str, Any]:
    """Options by which pandas reads every number as the nearest there is, as it does of itself from 3.1 on."""
    released = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if released < (3, 1) and not reading.decimal else {}


def _has_longer_rows(frame: Any, file: Any, options: dict[str, Any]) -> bool:
    """Whether rows hold more values than the line of names, of which pandas makes an index without a word."""
    pd = optional("pandas", "read tables")
    if not frame.index.equals(pd.RangeIndex(len(frame))):
        return True
    # The values may be 0, 1, 2, ... as well. Where the line of names is a row like others, those after it may not be
    # longer than it.
    file.seek(0)
    try:
        pd.read_csv(file, header=None, nrows=2, dtype=str, **options)
    except pd.errors.ParserError:
        return True
    return False


def _refuse_other_separators(cells: Sequence[str], given: str | None, separator: str) -> None:
    strange = next((cell for cell in cells if any(c in cell for c in ";\t" if c != separator)), None)
    if given is None and strange is not None:
        raise ValueError(
            f"the first line has {strange!r} in one column, which looks like several; name what is between the columns "
            "with --separator comma, tab, space or semicolon."
        )


def _is_data(cells: Sequence[str]) -> bool:
    """Whether a first line holds values rather than names; 0, 1, 2, ... are the names that pandas gives."""
    numbers = [cell for cell in cells if cell.strip()]
    return len(numbers) > 0 and all(map(_is_number, numbers)) and list(cells) != [str(j) for j in range(len(cells))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_written(column: Any) -> Any:
    """A column that was read as words: whole numbers as such if all are, words otherwise, nothing where it is empty."""
    words = column.str.strip()
    there = words[words != ""]
    plain = len(there) > 0 and all(word.lstrip("-").isdecimal() and str(int(word)) == word for word in there)
    values = [None if word == "" else int(word) if plain else word for word in words]
    return np.array(values) if plain and None not in values else np.array(values, dtype=object)


def read_parquet(file: Any, reading: Reading) -> Data:
    """Read a parquet file; an index that it has holds ids."""
    pd = optional("pandas", "read tables")
    parquet = optional("pyarrow.parquet", "read parquet", "parquet")
    notes: list[str] = []
    with parsing("parquet", notes):
        about = parquet.read_metadata(file)
        twice = [name for name, n in Counter(about.schema.to_arrow_schema().names).items() if n > 1]
        if twice:
            raise ValueError(f"two of its columns are called {twice[0]!r}; give each a name of its own")
        # Where what is written of a column contradicts itself, to read some of it raises, to ask ends the process.
        opened = parquet.ParquetFile(file)
        for n in range(about.num_row_groups):
            next(opened.iter_batches(batch_size=1, row_groups=[n]), None)
        groups = [about.row_group(n) for n in range(about.num_row_groups)]
        values = sum(group.column(n).num_values for group in groups for n in range(group.num_columns))
        # A run of equal values takes no more room in the file than one.
        check_unpacked(8 * values, file_size(file), "if you trust it, read it with pandas and save it as .npy")
        file.seek(0)
        frame = pd.read_parquet(file)
    return _told_apart(frame, reading, notes)


def _told_apart(frame: Any, reading: Reading, notes: list[str], *, index_is_left_over: bool = False) -> Data:
    """Tell the columns of a frame apart: ids, features, and what is kept aside.

    Columns of words that have no role are kept aside. So is an unnamed first column, or one called "id", as ids.
    """
    frame = frame.rename(columns=str)
    known = list(frame.columns)
    if not frame.columns.is_unique:
        twice = known[int(np.argmax(frame.columns.duplicated()))]
        raise ValueError(f"two of its columns are called {twice!r}; give each a name of its own.")
    named = [name for name in reading.named if name != frame.index.name]
    check_known(named, known)
    if not len(frame):
        raise ValueError("it has no rows; there is nothing to embed.")
    index = _index_names(frame, notes, left_over=index_is_left_over)
    column = reading.id if reading.id in known else None if index is not None else _identity(known, reading, notes)
    names = index if column is None else as_words(frame[column])
    given = {*reading.labels, *reading.drop, column}
    candidates = list(reading.only) or [name for name in known if name not in given]
    numbers = {name: _numbers(frame[name], name, names, wanted=name in reading.only) for name in candidates}
    features = [name for name in candidates if numbers[name] is not None]
    words = [name for name in candidates if numbers[name] is None]
    if not features:
        hint = "" if reading.decimal else "; where numbers are written 0,5 say --decimal ,"
        raise ValueError(f"no column holds numbers, so there is nothing to embed{hint}.")
    if words:
        notes.append(f"columns of words are kept aside: {_listed(words)}")
    used = {*features, *reading.drop, column}
    aside = [name for name in known if name not in used]
    X = np.column_stack([numbers[name] for name in features])
    refuse_missing(X, features, names)
    return Data(X, names, features, {name: frame[name] for name in aside}, notes=notes)


def _index_names(frame: Any, notes: list[str], *, left_over: bool) -> Any:
    """Ids in the index of a frame; in text it is what rows have beyond the column names, as R writes row names."""
    pd = optional("pandas", "read tables")
    if isinstance(frame.index, pd.RangeIndex) and not left_over:
        return None
    if left_over and (frame.index.nlevels > 1 or frame.index.dtype.kind in "biuf"):
        raise ValueError(
            f"rows hold {frame.shape[1] + frame.index.nlevels} values, and the first line names {frame.shape[1]} "
            "columns; give each column a name, or say --no-header."
        )
    notes.append("the first value of each row, which has no name, is its id" if left_over else "the index holds ids")
    levels = frame.index.to_flat_index()
    return np.array([", ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in levels], dtype=object)


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


def _numbers(column: Any, name: str, names: Any, *, wanted: bool) -> Any:
    """A column as float64, NaN where nothing is; None for a column of words.

    Raises
    ------
    ValueError
        If there are words among numbers, or in a column that was asked for: a column must not change its role
        because of one cell.
    """
    pd = optional("pandas", "read tables")
    if column.dtype.kind in "biuf":
        if isinstance(column.dtype, np.dtype):  # the usual case, without what it takes to look for pandas' NA
            return column.to_numpy().astype(np.float64)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    # Dates would become numbers, which nobody means by them.
    readable = column.astype(str if column.dtype.kind in "mM" else object)
    found = pd.to_numeric(readable, errors="coerce")
    strays = np.flatnonzero(found.isna() & column.notna())
    if not len(strays):
        return found.to_numpy(dtype=np.float64, na_value=np.nan)
    if not wanted and float(found.notna().mean()) <= _MOSTLY_NUMBERS:
        return None
    at = int(strays[0])
    raise ValueError(
        f"{place(at, names)}, column {name!r} holds {str(column.iloc[at])!r}, which is no number; mend it, keep the "
        f"column aside with --label {name!r}, or leave it out with --drop {name!r}."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
