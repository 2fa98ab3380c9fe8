"""Reading and writing: files of data in, embeddings and fitted models out."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from .arrays import read_h5ad, read_mtx, read_npy, read_npz
from .data import Data, Reading
from .errors import check_exists, check_memory
from .graphs import read_edges, read_graphml
from .tables import read_parquet, read_text

__all__ = ["FORMATS", "Data", "Reading", "format_of", "read"]


@dataclass(frozen=True)
class Format:
    """A file format."""

    suffixes: tuple[str, ...]
    read: Callable[[Any, Reading], Data]  # takes an open binary file, or a path if `by_path`
    options: frozenset[str] = frozenset()  # fields of `Reading` that apply
    by_path: bool = False


# Longest text of an error.
_MAX_REASON = 1000
_ROLES = frozenset({"id", "label", "drop"})
# Fields of `Reading` that are no options of a format.
_INTERNAL = {"format", "encoder", "kept", "id_of_fit"}
_TABLE = _ROLES | {"only", "standardize", "categorical", "dates", "impute", "drop_missing"}
_TEXT = frozenset({"separator", "encoding"})
FORMATS = {
    "csv": Format((".csv",), partial(read_text, separator=","), _TABLE | _TEXT | {"decimal", "header"}),
    "tsv": Format((".tsv", ".tab"), partial(read_text, separator="\t"), _TABLE | _TEXT | {"decimal", "header"}),
    "parquet": Format((".parquet", ".pq"), read_parquet, _TABLE),
    "npy": Format((".npy",), read_npy, by_path=True),
    "npz": Format((".npz",), read_npz, _ROLES | {"key"}),
    "mtx": Format((".mtx",), read_mtx, by_path=True),
    "h5ad": Format((".h5ad",), read_h5ad, _ROLES | {"key"}, by_path=True),
    "edges": Format((".edges", ".edgelist"), read_edges, _TEXT),
    "graphml": Format((".graphml",), read_graphml, _ROLES),
}


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str:
    """The format of a file, by its suffix with or without ``.gz`` unless `given`; raises ValueError if unknown."""
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"format {given!r} is not known; use one of {', '.join(FORMATS)}.")
        return given
    suffix = Path(Path(path).name.lower().removesuffix(".gz")).suffix
    for name, kind in FORMATS.items():
        if suffix in kind.suffixes:
            return name
    known = " ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
    raise ValueError(
        f"the format of {'standard input' if str(path) == '-' else path} is not known; choose it with --format "
        f"({', '.join(FORMATS)}), or use a file that ends in one of: {known}, each with or without .gz."
    )


def read(path: str | os.PathLike[str], reading: Reading | None = None) -> Data:
    """Read a file of points or a graph; "-" is standard input, and files compressed by gzip are recognised.

    Nothing in the file is executed: no pickles are loaded, and no other file is opened.

    Raises
    ------
    ValueError
        If the file is not of its format, does not fit in memory or has missing values; the message says where.
    """
    reading = reading or Reading()
    name = format_of(path, reading.format)
    kind = FORMATS[name]
    for field in fields(Reading):
        given = getattr(reading, field.name) not in (None, (), [])
        if given and field.name not in kind.options | _INTERNAL:
            raise ValueError(f"--{field.name.replace('_', '-')} does not apply to {name} files; leave it out.")
    shown = "standard input" if str(path) == "-" else str(path)
    try:
        with _opened(path, kind) as file:
            data = kind.read(file, reading)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{shown} cannot be decompressed: {error}.") from error
    except (ValueError, MemoryError) as error:
        reason = str(error) or "there is not enough memory to read it."
        if len(reason) > _MAX_REASON:  # e.g. a cell that holds the rest of the file after an unclosed quote
            reason = f"{reason[: _MAX_REASON // 2]} ... {reason[-_MAX_REASON // 2 :]}"
        raise ValueError(f"{shown}: {reason}") from error
    if data.names is not None:
        data.notes.extend(_repeated_ids(data))
    return replace(data, notes=[f"{shown}: {note}" for note in data.notes])


def _repeated_ids(data: Data) -> Iterator[str]:
    """A note if ids occur more than once."""
    ids = data.names.tolist()
    if len(set(ids)) < len(ids):
        first, count = Counter(ids).most_common(1)[0]
        groups = "" if data.id_name is None else f"; if {data.id_name!r} names groups, use --label {data.id_name}"
        yield f"some ids occur more than once, such as {first!r} in {count} rows{groups}"


@contextmanager
def _opened(path: str | os.PathLike[str], kind: Format) -> Iterator[Any]:
    """A seekable binary file, decompressed; or the path of one, if the reader needs that."""
    with ExitStack() as stack:
        piped = str(path) == "-"
        raw: Any = sys.stdin.buffer if piped else stack.enter_context(check_exists(path).open("rb"))
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        if not piped and not packed:
            yield str(path) if kind.by_path else raw
            return
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        copy, size = Path(folder) / f"copy{kind.suffixes[0]}", 0
        content = gzip.GzipFile(fileobj=raw) if packed else raw
        with copy.open("wb") as target:
            while piece := content.read(1 << 22):
                size += len(piece)
                check_memory(size)  # a small file may decompress to a huge one
                target.write(piece)
        yield str(copy) if kind.by_path else stack.enter_context(copy.open("rb"))
