"""Tables with named columns: csv, tsv and parquet, read by pandas."""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from .._utils.extras import optional
from .._utils.text import listed
from ..tables import Contents, TableEncoder, TableError, read_columns
from .data import SEPARATORS, Data, Reading
from .errors import check_known, check_memory, not_text, parsing
from .hints import hints

__all__ = ["MISSING", "read_parquet", "read_text"]

# What pandas reads as a missing value.
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
# How the note of an encoder on missing values begins; here the note says by what they are replaced, too.
_FILLED = "missing values filled in"
# Bytes from which it pays to read a table with pyarrow.
_LARGE = 1 << 23


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
        _check_no_zero_bytes(file, options["encoding"])
        names, headless, wider = _header(file, reading, options)
        levels, id_column = _known_levels(reading), reading.id or _id_column(names, reading, [])
        words = [name for name in dict.fromkeys((id_column, *reading.label, *levels)) if name in names]
        frame = _read_numbers(file, reading, options["sep"], names, words, headless=headless)
        frame = _read_cells(file, reading, options, names, words, headless=headless) if frame is None else frame
    except UnicodeError as error:
        raise ValueError(not_text(options["encoding"])) from error
    except LookupError as error:
        raise ValueError(f"--encoding {reading.encoding} is not known: {error}.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OverflowError) as error:
        empty = isinstance(error, pd.errors.EmptyDataError)
        raise ValueError("it is empty." if empty else f"cannot be read as a table: {str(error).strip()}.") from error
    frame = frame.set_axis(names, axis=1) if headless else frame
    for name in words:
        if name in levels:
            frame[name] = _as_category(frame[name], levels[name])
        elif name != id_column:
            frame[name] = _as_written(frame[name], reading.decimal or ".")
    notes: list[str] = []
    if headless:
        notes.append("no column names: the first line is taken as data")
    elif wider:
        if frame.index.nlevels > 1 or frame.index.dtype.kind in "biuf":
            raise ValueError(
                f"rows hold {frame.shape[1] + frame.index.nlevels} values, and the first line names {frame.shape[1]} "
                "columns; name every column, or use --no-header."
            )
        notes.append("the first value of each row, which has no column name, is its id")
    with _lines_named(file, 0 if reading.drop_missing else len(frame), names=0 if headless else 1):
        return _split_columns(frame, reading, notes)


def _check_no_zero_bytes(file: Any, encoding: str) -> None:
    """Raise ValueError for a zero byte, at which pandas ends a cell without a word."""
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):  # zero bytes are parts of characters
        return
    line = 1
    while piece := file.read(1 << 22):
        at = piece.find(b"\0")
        line += piece.count(b"\n", 0, at if at >= 0 else None)
        if at >= 0:
            raise ValueError(
                f"line {line} holds a zero byte (NUL). The file may be damaged; if it is text in UTF-16, use "
                "--encoding utf-16."
            )
    file.seek(0)


@contextmanager
def _lines_named(file: Any, n_rows: int, names: int) -> Iterator[None]:
    """Add the line of the file to an error in one of its rows, if each row is a line after the lines of `names`."""
    try:
        yield
    except ValueError as error:
        row = re.match(r"row (\d+),", str(error))
        file.seek(0)
        if row is None or sum(1 for _ in file) != names + n_rows:  # blank lines, line breaks in cells, dropped rows
            raise
        place = f"row {row[1]} (line {names + int(row[1]) + 1} of the file),"
        raise ValueError(place + str(error)[row.end() :]) from error


def _header(file: Any, reading: Reading, options: dict[str, Any]) -> tuple[list[str], bool, bool]:
    """Names of the columns, whether the file does not name them, and whether rows have more values than names."""
    import pandas as pd  # noqa: PLC0415

    first = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    cells = [str(cell) for cell in first.iloc[0]]
    if reading.separator is None and options["sep"] == ",":
        _check_separated(cells)
    if not reading.header if reading.header is not None else _is_data(cells):
        return [f"x{j}" for j in range(len(cells))], True, False
    file.seek(0)
    names = list(pd.read_csv(file, nrows=0, **options).columns)
    return names, False, _rows_are_wider(file, len(cells), options)


def _read_cells(
    file: Any, reading: Reading, options: dict[str, Any], names: list[str], words: Sequence[str], *, headless: bool
) -> Any:
    """A file of cells of any kind, read by pandas; those of the columns `words` as they are written."""
    import pandas as pd  # noqa: PLC0415

    file.seek(0)
    return pd.read_csv(
        file,
        header=None if headless else 0,
        **_as_text(words, names, headless=headless),
        low_memory=False,
        decimal=reading.decimal or ".",
        # By default pandas may round the last digit of a number.
        float_precision=None if reading.decimal else "round_trip",
        **options,
    )


def _read_numbers(
    file: Any, reading: Reading, separator: str, names: list[str], words: Sequence[str], *, headless: bool
) -> Any:
    """A large file of numbers without gaps, and of text in the columns `words`, read by pyarrow on all cores.

    None for all other files, and without pyarrow: pandas reads them. Where both can read a file they give the same
    frame, to the last bit.
    """
    is_plain = reading.decimal is None and reading.encoding is None and len(separator) == 1
    if not is_plain or os.fstat(file.fileno()).st_size < _LARGE or find_spec("pyarrow") is None:
        return None
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    file.seek(0)
    data = file.read()
    convert = csv.ConvertOptions(
        column_types={name: pa.string() for name in words}, null_values=[], true_values=[], false_values=[]
    )
    rows = csv.ReadOptions(column_names=names, skip_rows=0 if headless else 1)
    try:
        table = csv.read_csv(pa.py_buffer(data), rows, csv.ParseOptions(delimiter=separator), convert)
    except pa.ArrowInvalid:
        return None
    kinds = {str(field.type) for field in table.schema if field.name not in words}
    # pyarrow reads 0x1f as an integer, and integers of more than 64 bits as numbers.
    unlike = [b"0x", b"0X"] if "int64" in kinds else []
    if not kinds <= {"int64", "double"} or any(part in data for part in unlike):
        return None
    frame = table.to_pandas()
    numbers = [name for name in names if name not in words]
    return frame if (frame[numbers].abs().max() < 2.0**63).all() else None


def _check_separated(cells: Sequence[str]) -> None:
    """Raise ValueError if a first line seems to be separated by something else than commas."""
    found = [name for name in ("semicolon", "tab") if all(SEPARATORS[name] in cell for cell in cells[1:] or cells)]
    if found:
        raise ValueError(
            f"its first line holds {listed(map(repr, cells))}; use --separator {found[0]}, and --decimal , for "
            "decimals such as 0,5. If commas separate its columns, use --separator comma."
        )


def _rows_are_wider(file: Any, n_names: int, options: dict[str, Any]) -> bool:
    """Whether rows have more values than there are column names."""
    import pandas as pd  # noqa: PLC0415

    file.seek(0)
    try:
        row = pd.read_csv(file, header=None, skiprows=1, nrows=1, dtype=str, **options)
    except pd.errors.EmptyDataError:  # there are no rows
        return False
    return int(row.shape[1]) > n_names


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


def _as_written(column: Any, decimal: str) -> Any:
    """A text column as numbers if all are, except those with leading zeros or 16 digits; empty cells are missing."""
    import pandas as pd  # noqa: PLC0415

    words = column.str.strip()
    words = words.where(words != "")
    if words.str.match(r"-?(0\d|\d{16,}$)", na=False).any():
        return words
    numbers = pd.to_numeric(words.str.replace(decimal, ".", regex=False), errors="coerce")
    return numbers if (numbers.notna() == words.notna()).all() else words


def _as_text(words: Sequence[str], names: Sequence[str], *, headless: bool) -> dict[str, Any]:
    """Options of pandas that read some columns as written: 007 is not 7, and NA may be a name.

    `names` are those of all columns; in a file without a header, pandas numbers them. (Converters do not suffice:
    pandas 3 looks for missing values after them.)
    """
    if not words:
        return {}
    keys: dict[str, Any] = {name: j if headless else name for j, name in enumerate(names)}
    missing = {keys[name]: list(MISSING) for name in names if name not in words}
    return {"dtype": {keys[name]: str for name in words}, "keep_default_na": False, "na_values": missing}


def _known_levels(reading: Reading) -> dict[str, Sequence[str | None]]:
    """Columns that are known to be categories before the file is read, with the levels of a model."""
    if reading.encoder is None:
        return dict.fromkeys(_chosen(reading), ())
    return {column.name: column.levels for column in reading.encoder.columns_ if column.kind == "category"}


def _chosen(reading: Reading) -> list[str]:
    """The columns that --categorical names."""
    return [name for name in reading.categorical if name != "all"]


def _as_category(column: Any, levels: Sequence[str | None]) -> Any:
    """A text column with its levels as written; empty cells are missing, as is "NA" where a model knows no such level.

    (In a column that was found to be a category when a model was fitted, "NA" was read as missing.)
    """
    words = column.str.strip()
    missing = (words == "") | (words.isin(MISSING) & ~words.isin(list(levels)) & bool(levels))
    return words.where(~missing)


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
    """Split the columns of a frame into ids, columns to embed, and columns to keep aside; encode those to embed.

    Ids are the index if there is one, the column --id, or a first column without a name or called "id".
    """
    import pandas as pd  # noqa: PLC0415

    frame = frame.rename(columns=str)
    known = list(frame.columns)
    chosen = _chosen(reading)
    check_known([name for name in (*reading.named, *chosen) if name != frame.index.name], known)
    if not len(frame):
        raise ValueError("it has no rows; there is nothing to embed.")
    column = reading.id if reading.id in known else None
    names: Any
    id_name: Any = column
    if column is None and not isinstance(frame.index, pd.RangeIndex):
        levels, id_name = frame.index.to_flat_index(), frame.index.name
        names = [", ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in levels]
    else:
        column = column or _id_column(known, reading, notes)
        names = None if column is None else [str(one) for one in frame[column]]
        if column is not None:
            blank = frame[column].isna() | (frame[column].astype(str).str.strip() == "")
            notes += [f"{blank.sum()} of {len(frame)} ids are blank"] if blank.any() else []
        id_name = None if column is None or column.startswith("Unnamed: 0") else column
    frame = frame.set_axis(pd.RangeIndex(len(frame)) if names is None else pd.Index(names, dtype=object), axis=0)
    given = {*reading.label, *reading.drop, column}
    candidates = [*dict.fromkeys([*reading.only, *chosen])] if reading.only else [n for n in known if n not in given]
    try:
        advice: list[str] = []
        if reading.encoder is None:
            frame, encoder, advice = _fit_encoder(frame, candidates, reading, notes)
        else:
            encoder = reading.encoder
            kinds = {one.name: one.kind for one in encoder.columns_ if one.name in known}
            categories = [name for name, kind in kinds.items() if kind == "category"]
            if reading.drop_missing:
                contents = read_columns(frame[list(kinds)], categories, dates=True)
                frame = _drop_missing(frame, list(kinds), contents, reading, notes)
        X = encoder.transform(frame)
    except TableError as error:
        raise ValueError(error.for_command if reading.encoder is None else error.for_new_rows) from error
    embedded = {one.name for one in encoder.columns_}
    aside = [name for name in known if name not in {*embedded, *reading.drop, column}]
    role = "kept aside" if reading.kept else "not embedded"
    notes.append(encoder.notes_[0] + (f"; {role}: {listed(aside)}" if aside else ""))
    if reading.encoder is None:
        notes += [*(one for one in encoder.notes_[1:] if not one.startswith(_FILLED)), *advice]
    notes += _filled(encoder, frame)
    return Data(
        np.asarray(X),
        None if names is None else frame.index.to_numpy(dtype=object),
        list(encoder.get_feature_names_out()),
        {name: frame[name] for name in aside},
        notes=notes,
        encoder=encoder,
        id_name=id_name,
    )


def _fit_encoder(
    frame: Any, candidates: list[str], reading: Reading, notes: list[str]
) -> tuple[Any, TableEncoder, list[str]]:
    """The rows to embed, an encoder that was fitted to the candidate columns that can be embedded, and advice."""
    encoder = TableEncoder(
        standardize="auto" if reading.standardize is None else reading.standardize,
        categorical=_categories(frame[candidates], reading),
        dates=reading.dates or "drop",
        impute=reading.impute,
    )
    contents = read_columns(frame[candidates], encoder.categorical, dates=encoder.dates == "number")
    left_out, found = contents.left_out, hints(frame[candidates], reading.categorical)
    if empty := [name for name, why in left_out.items() if why == "empty"]:
        which, them = ("column", "it") if len(empty) == 1 else ("columns", "them")
        options = " ".join(f"--drop {shlex.quote(name)}" for name in empty)
        how = f"do not name {them} with --only" if reading.only else f"leave {them} out with {options}"
        raise ValueError(f"{which} {', '.join(map(repr, empty))} {'is' if len(empty) == 1 else 'are'} empty; {how}.")
    if unused := [name for name in reading.only if name in left_out]:
        first = str(frame[unused[0]].iloc[0])
        raise ValueError(
            f"column {unused[0]!r} holds {left_out[unused[0]]}, such as {first!r}, which is not a number; embed text "
            "with --categorical NAME, and dates with --dates number."
        )
    if len(left_out) == len(candidates):
        held = listed([f"{name!r} ({why})" for name, why in left_out.items()])
        raise ValueError(
            f"no column is numeric, so there is nothing to embed; the columns are {held or 'none'}. Embed text with "
            f"--categorical NAME, and dates with --dates number. {_separator_advice(candidates, reading)}"
            + ". ".join(found)
        )
    if "text" in left_out.values() and "all" not in reading.categorical:
        found.append("text columns are embedded with --categorical NAME, or --categorical all")
    if "dates" in left_out.values():
        found.append("dates are embedded with --dates number")
    used = [name for name in candidates if name not in left_out]
    frame = _drop_missing(frame, used, contents, reading, notes) if reading.drop_missing else frame
    if isinstance(encoder.categorical, list):  # a constant column is no category
        encoder.set_params(categorical=[name for name in encoder.categorical if name in used])
    return frame, encoder.fit(frame[used]).set_output(transform="pandas"), found


def _separator_advice(names: Sequence[str], reading: Reading) -> str:
    """What to do if a table was read with the wrong separator."""
    if reading.separator is None:
        return (
            "For columns separated by semicolons use --separator semicolon, and --decimal , for decimals such as 0,5. "
        )
    for name in ("semicolon", "tab", "comma"):
        if len(names) == 1 and SEPARATORS[name] in names[0]:
            return f"For columns separated by {name}s use --separator {name}. "
    return "For decimals such as 0,5 use --decimal , (a comma). " if reading.decimal is None else ""


def _categories(frame: Any, reading: Reading) -> str | list[str]:
    """Which columns are categories, as the encoder takes them; names beside "all" add to it."""
    chosen = _chosen(reading)
    if "all" not in reading.categorical:
        return chosen
    if not chosen:
        return "auto"
    others = frame[[name for name in frame.columns if name not in chosen]]
    return [*read_columns(others).categories, *chosen]


def _filled(encoder: TableEncoder, frame: Any) -> list[str]:
    """A note on the missing values that an encoder fills in, and with what, if there are any."""
    found = []
    for column in encoder.columns_:
        cells = frame[column.name]
        blank = cells.str.strip() == "" if cells.dtype.kind == "O" and column.fill is not None else False
        if column.fill is not None and (count := int((cells.isna() | blank).sum())):
            fill = f"the most frequent value, {column.fill!r}" if column.levels else "the median"
            fill += f", {column.fill:g}" if column.kind == "number" else ""
            found.append(f"{column.name} ({count} by {fill})")
    return [f"{_FILLED}: {listed(found)}"] if found else []


def _drop_missing(frame: Any, used: list[str], contents: Contents, reading: Reading, notes: list[str]) -> Any:
    """The frame without rows that lack a value of the columns that are used."""
    # A column may be empty in a new table, and a cell of spaces is missing where numbers are read.
    missing = frame[used].isna().any(axis=1).to_numpy() | contents.missing
    if missing.all():
        advice = "leave out the emptiest columns with --drop" if reading.encoder is None else "fill in missing values"
        raise ValueError(f"all {len(frame)} rows lack a value; {advice}.")
    if missing.any():
        notes.append(f"{missing.sum()} of {len(frame)} rows have missing values and are dropped")
    return frame[~missing]


def _id_column(known: Sequence[str], reading: Reading, notes: list[str]) -> str | None:
    """The column of ids of a fit, or a first column without a name, or called "id", unless it was given a role."""
    if reading.id_of_fit in known and reading.id_of_fit not in reading.named:
        notes.append(f"column {reading.id_of_fit!r} is taken as ids, as in the fit")
        return reading.id_of_fit
    first = known[0] if known else ""
    if first in reading.named or not (first.startswith("Unnamed: 0") or first.lower() == "id"):
        return None
    shown = "the unnamed first column" if first.startswith("Unnamed") else f"column {first!r}"
    notes.append(f"{shown} is taken as ids")
    return first
