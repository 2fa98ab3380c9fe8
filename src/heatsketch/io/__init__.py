"""Files of data in: one function for all formats."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from .arrays import read_mtx, read_npy, read_npz
from .data import Data, Reading
from .frames import read_parquet, read_text
from .graphs import read_edges, read_graphml
from .h5ad import read_h5ad
from .untrusted import brief, unpack

__all__ = ["FORMATS", "Data", "Reading", "format_of", "read"]


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes
    ----------
    endings : tuple of str
    read : callable
    options : set of str
        Fields of `Reading` that mean something to it.
    by_name : bool
        Whether its reader wants the name of a file rather than an open one.
    """

    endings: tuple[str, ...]
    read: Callable[[Any, Reading], Data]
    options: frozenset[str] = frozenset()
    by_name: bool = False


_ROLES = frozenset({"id", "labels", "drop"})
_TABLE = _ROLES | {"only"}
_TEXT = frozenset({"separator", "encoding"})
FORMATS = {
    "csv": Format((".csv",), partial(read_text, separator=","), _TABLE | _TEXT | {"decimal", "header"}),
    "tsv": Format((".tsv", ".tab"), partial(read_text, separator="\t"), _TABLE | _TEXT | {"decimal", "header"}),
    "parquet": Format((".parquet", ".pq"), read_parquet, _TABLE),
    "npy": Format((".npy",), read_npy, by_name=True),
    "npz": Format((".npz",), read_npz, _ROLES | {"key"}),
    # From an open file SciPy ends the process on some noise.
    "mtx": Format((".mtx",), read_mtx, by_name=True),
    "h5ad": Format((".h5ad",), read_h5ad, _ROLES | {"key"}, by_name=True),
    "edges": Format((".edges", ".edgelist"), read_edges, _TEXT),
    "graphml": Format((".graphml",), read_graphml, _ROLES),
}
_GZIP = b"\x1f\x8b"


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str:
    """The format of a file, by its ending, with or without ``.gz``.

    Raises
    ------
    ValueError
        If it is not known.
    """
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"format {given!r} is not known; use one of {', '.join(FORMATS)}.")
        return given
    ending = Path(Path(path).name.lower().removesuffix(".gz")).suffix
    for name, kind in FORMATS.items():
        if ending in kind.endings:
            return name
    known = " ".join(e for kind in FORMATS.values() for e in kind.endings)
    raise ValueError(
        f"{'standard input has no ending' if str(path) == '-' else f'the ending of {path} is not known'}; name the "
        f"format with --format ({', '.join(FORMATS)}), or use a file that ends in one of: {known}, each with or "
        "without .gz."
    )


def read(path: str | os.PathLike[str], reading: Reading | None = None) -> Data:
    r"""Read a file of points or a graph.

    Parameters
    ----------
    path : path-like
        "-" for standard input. Files compressed by gzip are recognised.
    reading : Reading, optional

    Returns
    -------
    data : Data

    Raises
    ------
    ValueError
        If the file does not hold what its format promises, or holds missing values; the message tells where.

    Notes
    -----
    The file is data, whoever made it: nothing in it is run, no other file is opened because of it, and it is refused
    where it promises more than it can hold. What is compressed may unpack to 256 MB, or to 200 times its own size where
    there is memory for that; files beyond are taken for bombs, and can be unpacked by hand.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from heatsketch.io import Reading, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flowers.csv"
    ...     _ = path.write_text("width,height,kind\n1,2,rose\n3,4,tulip\n")
    ...     data = read(path)
    >>> data.features, data.X.shape, list(data.columns)
    (['width', 'height'], (2, 2), ['kind'])
    """
    reading = reading or Reading()
    name = format_of(path, reading.format)
    kind = FORMATS[name]
    _refuse_idle(reading, name)
    shown = "standard input" if str(path) == "-" else str(path)
    with _opened(path, kind) as file:
        try:
            data = kind.read(file, reading)
        except (ValueError, MemoryError) as error:
            raise ValueError(f"{shown}: {brief(str(error)) or 'there is not enough memory to read it.'}") from error
    if data.names is not None and len(set(data.names.tolist())) < len(data.names):
        data.notes.append("some ids occur more than once")
    return replace(data, notes=[f"{shown}: {note}" for note in data.notes])


def _refuse_idle(reading: Reading, name: str) -> None:
    """Refuse what means nothing to the format, rather than to ignore it."""
    for field in fields(Reading):
        if field.name in FORMATS[name].options | {"format"} or getattr(reading, field.name) in (None, (), []):
            continue
        option = {"labels": "label"}.get(field.name, field.name)
        raise ValueError(f"--{option} was given, which means nothing for {name} files; leave it out.")


@contextmanager
def _opened(path: str | os.PathLike[str], kind: Format) -> Iterator[Any]:
    """An open binary file that can be read twice, decompressed; or the name of one, where the reader wants that."""
    given = str(path) == "-"
    with ExitStack() as stack:
        raw: Any = io.BytesIO(sys.stdin.buffer.read()) if given else stack.enter_context(Path(path).open("rb"))
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        if not packed and not kind.by_name:
            yield raw
        elif not packed and not given:
            yield str(path)
        elif not kind.by_name:
            content = io.BytesIO()
            _unpacked(raw, content, path)
            content.seek(0)
            yield content
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            name = Path(folder) / f"unpacked{kind.endings[0]}"
            with name.open("wb") as copy:
                _unpacked(raw, copy, path) if packed else shutil.copyfileobj(raw, copy)
            yield str(name)


def _unpacked(raw: Any, target: Any, path: str | os.PathLike[str]) -> None:
    try:
        unpack(raw, target)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ValueError(f"{path} cannot be decompressed: {str(error).rstrip('.')}.") from error
