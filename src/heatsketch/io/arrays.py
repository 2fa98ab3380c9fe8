"""Arrays without column names: npy, npz, Matrix Market and h5ad files."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from .._utils.extras import optional
from .._utils.indices import check_indices
from .cells import NEIGHBORS, PCA, check_source, embedded, source_of
from .data import Data, Reading
from .errors import check_finite, check_known, check_memory, parsing

__all__ = ["read_h5ad", "read_mtx", "read_npy", "read_npz"]

# Bytes of a file that are read at a time, and of the longest number at its end.
_PIECE = 1 << 22
_LONGEST_NUMBER = 400


def read_npy(path: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read one array, memory-mapped."""
    with parsing("an array"):
        X = np.lib.format.open_memmap(path, mode="r")
    return Data(_checked(X, "the array"))


def read_npz(file: Any, reading: Reading) -> Data:
    """Read a sparse matrix, or one of several arrays with vectors of the same length as columns."""
    notes: list[str] = []
    with parsing("an archive of arrays"), np.load(file, allow_pickle=False) as archive:
        check_memory(sum(member.file_size for member in archive.zip.infolist()))
        if {"data", "shape", "format"} <= set(archive.files):  # as scipy.sparse.save_npz writes it
            file.seek(0)
            arrays = {"X": _csr(sparse.load_npz(file))}
        else:
            arrays = _plain_arrays(archive, reading, notes)
    key = _matrix_key(arrays, reading)
    X = _checked(arrays.pop(key), f"the array {key!r}")
    columns = {name: a for name, a in arrays.items() if a.ndim == 1 and len(a) == X.shape[0]}
    check_known(reading.named, list(columns), "vector with one entry per row")
    names = None if reading.id is None else columns.pop(reading.id).astype(str).astype(object)
    columns = {name: a for name, a in columns.items() if name not in reading.drop}
    notes += [f"array {key!r} is embedded"] + ([f"kept aside: {', '.join(columns)}"] if columns else [])
    return Data(X, names, None, columns, notes=notes, id_name=reading.id)


def _plain_arrays(archive: Any, reading: Reading, notes: list[str]) -> dict[str, Any]:
    """The arrays of an archive; pickles and other files in it are skipped unless they were asked for."""
    arrays = {}
    for name in archive.files:
        try:
            arrays[name] = _array(archive[name])
        except ValueError as error:
            if name in {reading.key, *reading.named}:
                raise
            notes.append(f"array {name!r} is skipped: {error}")
    return arrays


def _array(content: Any) -> Any:
    """What NumPy read from an archive, if it is an array: of other files it gives the bytes."""
    if not isinstance(content, np.ndarray):
        raise ValueError("it does not begin like an array in the npy format")
    return content


def _matrix_key(arrays: dict[str, Any], reading: Reading) -> str:
    """The name of the array that holds the points."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if reading.key is not None:
        check_known([reading.key], list(arrays), "array")
        return reading.key
    if "X" in matrices:
        return "X"
    if len(matrices) == 1:
        return matrices[0]
    if not matrices:
        found = ", ".join(arrays) or "no arrays"
        raise ValueError(f"it has no matrix, only {found}; save the points as an array of shape (n, d).")
    raise ValueError(f"it has {len(matrices)} matrices ({', '.join(matrices)}); choose one with --key.")


def read_mtx(path: Any, reading: Reading) -> Data:  # noqa: ARG001
    """Read a Matrix Market file, dense or sparse."""
    with parsing("Matrix Market"):
        source = _complete_text(Path(path))
        rows, columns, entries, form, *_ = io.mminfo(path)
        if not rows or not columns:  # SciPy's parser divides by them
            raise ValueError(f"it has {rows} rows and {columns} columns; at least one of each is needed")
        check_memory(8 * (rows + 2 * entries if form == "coordinate" else rows * columns))
        X = io.mmread(source)
        X = _csr(X) if sparse.issparse(X) else X
    return Data(_checked(X, "the matrix"))


def _complete_text(path: Path) -> Any:
    """The path of a file of numbers in lines, or its content with the newline that it lacks at the end.

    SciPy's parser reads beyond the end of a text that has zero bytes, or whose last line has no end.
    """
    size = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            if b"\0" in piece:
                raise ValueError(f"byte {size + piece.index(0)} is zero; the file is damaged, or not text")
            size += len(piece)
        file.seek(max(0, size - _LONGEST_NUMBER))
        end = file.read()
    if end.endswith(b"\n"):
        return path
    last = end.split()[-1] if end.strip() else b""
    try:
        float(last)
    except ValueError:
        raise ValueError(f"it ends with {last.decode(errors='replace')!r}, which is not a number") from None
    check_memory(2 * size)
    return BytesIO(path.read_bytes() + b"\n")


def _csr(X: Any) -> sparse.csr_array:
    """A sparse matrix in CSR format."""
    check_indices(X, "the matrix")
    check_memory(8 * X.shape[0])
    return sparse.csr_array(X)


def _checked(X: Any, what: str, names: Any = None) -> Any:
    """`X` if it is a matrix of finite real numbers; raises ValueError otherwise."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(
            f"{what} has shape {X.shape} and dtype {X.dtype}; it must be a non-empty matrix of real numbers with one "
            "row per point. For a vector v, use v[:, None]."
        )
    check_finite(X, names=names)
    return X


def read_h5ad(path: Any, reading: Reading) -> Data:
    """Read an AnnData: what `heatsketch.scanpy` embeds of it, or the entry of ``obsm`` that is named; or X.

    Columns of ``obs`` are kept aside.
    """
    anndata = optional("anndata", "read h5ad", "scanpy")
    notes: list[str] = []
    with parsing("h5ad", notes):
        with optional("h5py", "read h5ad", "scanpy").File(path, "r") as file:
            _check_contents(file)
        cells = anndata.read_h5ad(path)
    if reading.key is not None:
        check_known([reading.key], [*cells.obsm, *([] if cells.X is None else ["X"])], "entry")
        source: dict[str, Any] = {"use_rep": reading.key}
        check_source(cells, source)
        X = cells.X if reading.key == "X" else cells.obsm[reading.key]
    else:
        source, X = _default(cells)
    names = cells.obs_names.to_numpy(dtype=object)
    check_known(reading.named, list(cells.obs.columns))
    kept = [name for name in cells.obs.columns if name not in reading.drop and name != reading.id]
    columns = {name: cells.obs[name] for name in kept}  # with the order of their categories
    if reading.id is not None:
        names = np.array([str(name) for name in cells.obs[reading.id]], dtype=object)
    described = _described(source)
    X = _checked(_csr(X) if sparse.issparse(X) else np.asarray(X), described, names)
    followed = reading.key is None and NEIGHBORS in cells.uns and "neighbors_key" not in source
    return Data(
        X,
        names,
        None,
        columns,
        is_graph="neighbors_key" in source,
        notes=[*notes, f"{described} is embedded" + (f", as in uns[{NEIGHBORS!r}]" if followed else "")],
        source=cells,
        embedded=source,
        id_name=reading.id,
    )


def _default(cells: Any) -> tuple[dict[str, Any], Any]:
    """What `heatsketch.scanpy` embeds of an AnnData by default."""
    try:
        source = source_of(cells)
        return source, embedded(cells, source)
    except ValueError as error:
        if PCA in cells.obsm or NEIGHBORS in cells.uns:
            advice = "On the command line, name what is embedded with --key."
            raise ValueError(f"{str(error).rstrip('.')}. {advice}") from error
        raise ValueError(
            f"it has no obsm[{PCA!r}], and its {cells.n_vars:,} genes are not embedded as they are. Run "
            "sc.pp.normalize_total, sc.pp.log1p and sc.pp.pca on the cells, or embed X itself with --key X."
        ) from error


def _described(source: Mapping[str, Any]) -> str:
    """What is embedded, for users, such as "obsm['X_pca'] with the metric cosine"."""
    if "neighbors_key" in source:
        return f"the graph of uns[{source['neighbors_key']!r}]"
    name = "the matrix X" if source["use_rep"] == "X" else f"obsm[{source['use_rep']!r}]"
    name += f"[:, :{source['n_pcs']}]" if "n_pcs" in source else ""
    name += f" with the metric {source['metric']}" if "metric" in source else ""
    return name + (f" {source['metric_params']}" if "metric_params" in source else "")


def _check_contents(file: Any) -> None:
    """Raise ValueError if values lie in another file, or do not fit in memory."""
    h5py = optional("h5py", "read h5ad", "scanpy")
    outside = file.visititems_links(lambda name, link: name if isinstance(link, h5py.ExternalLink) else None)
    datasets: list[Any] = []
    file.visititems(lambda _, part: datasets.append(part) if isinstance(part, h5py.Dataset) else None)
    outside = outside or next((part.name for part in datasets if part.is_virtual or part.external), None)
    if outside is not None:
        raise ValueError(f"{outside} lies in another file")
    check_memory(sum((part.size or 0) * part.dtype.itemsize for part in datasets))
