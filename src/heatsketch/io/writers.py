"""Embeddings into files: each row with its id and the columns that were kept aside."""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._utils.colors import is_missing
from .._utils.extras import optional
from .._utils.files import require_room, whole, writable
from .._utils.typing import FloatArray

__all__ = ["OUTPUTS", "check_output", "write"]

# Formats of output by their ending.
OUTPUTS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".npy": "npy", ".npz": "npz", ".h5ad": "h5ad"}
_SEPARATORS = {"csv": ",", "tsv": "\t"}


def check_output(path: str | os.PathLike[str], *, cells: bool = False) -> str:
    """The format that a file will have, asked before any work.

    Parameters
    ----------
    path : path-like
        "-" for standard output, as csv.
    cells : bool
        Whether the input is an AnnData, into which the embedding can be put.

    Raises
    ------
    ValueError
        If the ending is not known, or does not suit the input.
    OSError
        If nothing can be written there.
    """
    if str(path) == "-":
        return "csv"
    target = writable(path)
    name = target.name.lower()
    kind = OUTPUTS.get(Path(name.removesuffix(".gz")).suffix)
    if not target.exists() or target.is_file():  # a device has no ending
        if kind is None or (name.endswith(".gz") and kind not in _SEPARATORS):
            raise ValueError(
                f"the ending of {path} is not known; an embedding is written to {' '.join(OUTPUTS)}, .csv.gz, .tsv.gz, "
                "or to - for csv on standard output."
            )
        if kind == "h5ad" and not cells:
            raise ValueError(
                f"{path} is an h5ad file, which takes an h5ad file as input; write csv or parquet instead."
            )
    if kind == "parquet":
        optional("pyarrow", "write parquet", "parquet")
    return kind or "csv"


def write(
    path: str | os.PathLike[str],
    Y: FloatArray,
    components: Sequence[str],
    *,
    names: Any = None,
    columns: Mapping[str, Any] | None = None,
    cells: Any = None,
) -> None:
    """Write an embedding, whole or not at all.

    Parameters
    ----------
    path : path-like
        As for `check_output`.
    Y : ndarray of shape (n, k)
    components : sequence of str
        Names of the columns of Y.
    names : array-like of str, shape (n,), optional
        Ids; by default the numbers of the rows, from 0, in a table.
    columns : mapping of str to array-like of shape (n,), optional
        Written beside the embedding in tables and .npz files.
    cells : AnnData, optional
        Written with the embedding in its ``obsm["X_heatsketch"]``, for .h5ad.
    """
    kind = check_output(path, cells=cells is not None)
    if str(path) == "-":
        _frame(Y, components, names, columns or {}).to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    with whole(path) as target:
        if kind == "npy":
            with target.open("wb") as file:
                # To a file itself NumPy writes by a way that does not notice when the last bytes find no room.
                np.save(SimpleNamespace(write=file.write), Y)
        elif kind == "npz":
            _write_npz(target, Y, names, columns or {})
        elif kind == "h5ad":
            cells.obsm["X_heatsketch"] = np.asarray(Y)
            require_room(Path(path), _most_bytes(cells))  # HDF5 ends the process when a disk is full
            cells.write_h5ad(target)
        elif kind == "parquet":
            _frame(Y, components, names, columns or {}).to_parquet(target, index=False)
        else:
            packed = target.name.lower().endswith(".gz")
            with _packed(target) if packed else target.open("w", encoding="utf-8", newline="") as text:
                table = _frame(Y, components, names, columns or {})
                table.to_csv(text, sep=_SEPARATORS[kind], index=False, lineterminator="\n")


@contextmanager
def _packed(target: Path) -> Iterator[Any]:
    """A file of gzip for text, with the same bytes for the same text, for it says nothing of names and times.

    Of what Python's own opens a buffer is left when a disk is full, of which Python 3.14 complains long after.
    """
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS + 16)  # as gzip has it
    with target.open("wb") as file:
        yield SimpleNamespace(write=lambda text: file.write(packer.compress(text.encode())))
        file.write(packer.flush())


def _most_bytes(cells: Any) -> int:
    """Bytes that cells take in a file at most: not much more than in memory."""
    return int(1.25 * cells.__sizeof__()) + (1 << 20)


def _frame(Y: FloatArray, components: Sequence[str], names: Any, columns: Mapping[str, Any]) -> Any:
    pd = optional("pandas", "write tables")
    ids = np.arange(len(Y)) if names is None else names
    aside = _renamed(columns, {"id", *components})
    return pd.DataFrame(
        {"id": ids}
        | {name: np.asarray(values) for name, values in aside.items()}
        | {name: Y[:, j] for j, name in enumerate(components)}
    )


def _renamed(columns: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
    """Columns of the input, with other names where ours are taken."""
    return {f"{name} (input)" if name in taken else name: values for name, values in columns.items()}


def _write_npz(target: Path, Y: FloatArray, names: Any, columns: Mapping[str, Any]) -> None:
    """Y, ids and columns as plain arrays: words as NumPy's own strings, so that reading needs no pickle."""
    # "file" is what the function that writes calls its first argument.
    arrays = {_member(name): _plain(values) for name, values in _renamed(columns, {"Y", "id", "file"}).items()}
    if names is not None:
        arrays["id"] = _plain(names)
    with target.open("wb") as file:
        np.savez(file, **arrays | {"Y": Y})


def _member(name: str) -> str:
    """The name of a column in an archive: none that lies outside of where the archive is unpacked, or is cut short."""
    name = name.replace("\0", "_")
    parts = PureWindowsPath(name).parts  # which has both kinds of slashes, and drives
    return name if ".." not in parts and not PureWindowsPath(name).anchor else "_".join(re.split(r"[\\/:]", name))


def _plain(values: Any) -> Any:
    """Numbers as they are; anything else as words, empty where nothing is."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array
    missing = is_missing(array)
    words = np.datetime_as_string(array) if array.dtype.kind == "M" else array.tolist()
    return np.array(["" if gone else str(word) for word, gone in zip(words, missing, strict=True)])
