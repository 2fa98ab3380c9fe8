"""Files of data in: one function for all formats."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from .arrays import read_mtx, read_npy, read_npz
from .cells import read_h5ad
from .data import Data, Reading
from .frames import read_parquet, read_text
from .graphs import read_edges, read_graphml

__all__ = ["FORMATS", "Data", "Reading", "format_of", "read"]


@dataclass(frozen=True)
class Format:
    """A kind of file: its endings, its reader, and whether that wants the name of a file rather than an open one."""

    endings: tuple[str, ...]
    read: Callable[[Any, Reading], Data]
    by_name: bool = False


FORMATS = {
    "csv": Format((".csv",), partial(read_text, separator=",")),
    "tsv": Format((".tsv", ".tab"), partial(read_text, separator="\t")),
    "parquet": Format((".parquet", ".pq"), read_parquet),
    "npy": Format((".npy",), read_npy, by_name=True),
    "npz": Format((".npz",), read_npz),
    "mtx": Format((".mtx",), read_mtx, by_name=True),  # from an open file, SciPy ends the process on some noise
    "h5ad": Format((".h5ad",), read_h5ad, by_name=True),
    "edges": Format((".edges", ".edgelist"), read_edges),
    "graphml": Format((".graphml",), read_graphml),
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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from heatsketch.readers import Reading, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flowers.csv"
    ...     _ = path.write_text("width,height,kind\n1,2,rose\n3,4,tulip\n")
    ...     data = read(path)
    >>> data.features, data.X.shape, list(data.columns)
    (['width', 'height'], (2, 2), ['kind'])
    """
    reading = reading or Reading()
    kind = FORMATS[format_of(path, reading.format)]
    shown = "standard input" if str(path) == "-" else str(path)
    with _opened(path, kind) as file:
        try:
            data = kind.read(file, reading)
        except (ValueError, MemoryError, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{shown}: {error}") from error
    if data.names is not None and len(set(data.names.tolist())) < len(data.names):
        data.notes.append("some ids occur more than once")
    return replace(data, notes=[f"{shown}: {note}" for note in data.notes])


@contextmanager
def _opened(path: str | os.PathLike[str], kind: Format) -> Iterator[Any]:
    """An open binary file that can be read twice, decompressed; or the name of one, where the reader wants that."""
    if str(path) == "-":
        content = sys.stdin.buffer.read()
    else:
        with Path(path).open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if kind.by_name and not packed:
                yield str(path)
                return
            if not packed:
                yield raw
                return
            content = raw.read()
    try:
        content = gzip.decompress(content) if content[:2] == _GZIP else content
    except (EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be decompressed: {error}.") from error
    if not kind.by_name:
        yield io.BytesIO(content)
        return
    with tempfile.NamedTemporaryFile(suffix=kind.endings[0]) as unpacked:
        unpacked.write(content)
        unpacked.flush()
        yield unpacked.name
