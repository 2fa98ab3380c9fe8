"""Embeddings into files, with ids and the columns that were kept aside."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np

from .._utils.extras import optional
from .._utils.files import check_writable, replacing
from .._utils.typing import FloatArray
from .cells import add_embedding

__all__ = ["OUTPUTS", "check_output", "write"]

# Output formats by suffix.
OUTPUTS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".npy": "npy", ".npz": "npz", ".h5ad": "h5ad"}
_SEPARATORS = {"csv": ",", "tsv": "\t"}


def check_output(path: str | os.PathLike[str], *, cells: bool = False) -> str:
    """The format of an output file; raises an error before any work if the file cannot be written.

    "-" is standard output, as csv. `cells` says whether the input is an AnnData, to which the embedding can be added.
    """
    if str(path) == "-":
        return "csv"
    target = check_writable(path)
    name = target.name.lower()
    kind = OUTPUTS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (name.endswith(".gz") and kind not in _SEPARATORS):
        raise ValueError(
            f"the suffix of {path} is not known; an embedding is written to {' '.join(OUTPUTS)}, .csv.gz, .tsv.gz, "
            "or to - for csv on standard output."
        )
    if kind == "h5ad" and not cells:
        raise ValueError(f"{path} is an h5ad file, which needs an h5ad file as input; write csv or parquet.")
    if kind == "parquet":
        optional("pyarrow", "write parquet", "parquet")
    return kind


def write(
    path: str | os.PathLike[str],
    Y: FloatArray,
    components: Sequence[str],
    *,
    names: Any = None,
    columns: Mapping[str, Any] | None = None,
    cells: Any = None,
    record: Mapping[str, Any] | None = None,
    trust: Any = None,
    id_name: str | None = None,
) -> None:
    """Write an embedding Y (n, k), completely or not at all.

    Tables have the ids `names` (row numbers by default), called `id_name` ("id" by default), `columns` of the input,
    and `components`, the names of the columns of Y. An .h5ad file has everything in `cells`, and Y in its
    ``obsm["X_heatsketch"]``, with its record and trust (`heatsketch.io.cells.record_of`).
    """
    kind = check_output(path, cells=cells is not None)
    taken = {"Y", "file"} if kind == "npz" else {*components}  # "file" is the first argument of np.savez
    id_name = "id" if id_name is None or id_name in taken else id_name
    aside = _renamed(columns or {}, {id_name, *taken})
    if str(path) == "-":
        _frame(Y, components, names, aside, id_name).to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    with replacing(path) as target:
        if kind == "h5ad":
            add_embedding(cells, np.asarray(Y), record, trust)
            cells.write_h5ad(target)
        elif kind == "npy":
            with target.open("wb") as file:  # np.save to a real file may miss an error when its last bytes are written
                np.save(SimpleNamespace(write=file.write), Y)
        elif kind == "npz":
            np.savez(target, **_archive(Y, names, aside, id_name))
        elif kind == "parquet":
            _frame(Y, components, names, aside, id_name).to_parquet(target, index=False)
        else:
            with _opened(target) as file:
                _frame(Y, components, names, aside, id_name).to_csv(
                    file, sep=_SEPARATORS[kind], index=False, lineterminator="\n"
                )


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """A new text file, compressed if its name ends in .gz, without a date and a name, so that the bytes repeat."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(file, "utf-8", newline=""))


def _frame(Y: FloatArray, components: Sequence[str], names: Any, columns: Mapping[str, Any], id_name: str) -> Any:
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(
        {id_name: np.arange(len(Y)) if names is None else names}
        | {name: np.asarray(values) for name, values in columns.items()}
        | {name: Y[:, j] for j, name in enumerate(components)}
    )


def _renamed(columns: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
    """Columns of the input, renamed if a name is taken."""
    return {f"{name} (input)" if name in taken else name: values for name, values in columns.items()}


def _archive(Y: FloatArray, names: Any, columns: Mapping[str, Any], id_name: str) -> dict[str, Any]:
    """Y, ids and columns for an .npz file: text as NumPy strings, so that no pickle is needed."""
    every = {**columns, **({} if names is None else {id_name: names})}
    # No path in the names of members, which could lead out of the folder where the archive is unpacked.
    return {re.sub(r"[\\/:\0]", "_", name): _plain(values) for name, values in every.items()} | {"Y": Y}


def _plain(values: Any) -> Any:
    """Numbers unchanged; anything else as text, empty for missing values."""
    import pandas as pd  # noqa: PLC0415

    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array
    return np.array(["" if pd.isna(one) else str(one) for one in pd.Series(array)])
