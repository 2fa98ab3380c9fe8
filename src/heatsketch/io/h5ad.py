"""Single cells: h5ad files."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.extras import optional
from .data import Data, Reading, as_words, check_known, refuse_missing
from .untrusted import check_unpacked, file_size, parsing

__all__ = ["read_h5ad"]

# How a heap begins, before its length; and the number and the size of an entry.
_HEAP = b"GCOL\x01\0\0\0"
_ENTRY = struct.Struct("<H6xQ")


def read_h5ad(path: Any, reading: Reading) -> Data:
    """Read an AnnData: its principal components if there are, else its matrix; columns of ``obs`` are kept aside."""
    anndata = optional("anndata", "read h5ad", "scanpy")
    notes: list[str] = []
    with parsing("h5ad", notes):
        with optional("h5py", "read h5ad", "scanpy").File(path, "r") as file:
            _check_heaps(file, path)
            _check_parts(file, file_size(path))
        cells = anndata.read_h5ad(path)
    known = [*cells.obsm, "X"]
    key = reading.key or ("X_pca" if "X_pca" in cells.obsm else "X")
    check_known([key], known, "entry")
    X = cells.X if key == "X" else cells.obsm[key]
    if X is None:
        raise ValueError(f"it has no matrix X; name an entry of obsm with --key: {', '.join(cells.obsm) or 'none'}.")
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{key} has shape {X.shape} and holds {X.dtype}; it must be a matrix of real numbers.")
    names = cells.obs_names.to_numpy(dtype=object)
    refuse_missing(X, None, names)
    check_known(reading.named, list(cells.obs.columns))
    kept = [name for name in cells.obs.columns if name not in reading.drop and name != reading.id]
    columns = {name: cells.obs[name] for name in kept}  # with the order of their categories
    names = names if reading.id is None else as_words(cells.obs[reading.id])
    note = f"{'the matrix X' if key == 'X' else f'obsm[{key!r}]'} is embedded"
    return Data(X, names, None, columns, notes=[*notes, note], source=cells)


def _check_heaps(file: Any, path: Any) -> None:
    """Refuse damaged heaps of words, in which HDF5 (2.0, at least) may go round for ever.

    A heap is a row of entries, each as long as it says; one that says that it has no length is never left behind.
    Heaps do not overlap: all of them together have no more entries than the file has room for. The layout is that of
    "Global Heap" in the HDF5 File Format Specification.
    """
    if file.id.get_create_plist().get_sizes() != (8, 8):
        raise ValueError("its addresses and lengths do not take eight bytes each, as those that anndata writes do")
    with Path(path).open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        left = len(content) // _ENTRY.size
        start = content.find(_HEAP)
        while start >= 0:
            (length,) = struct.unpack_from("<Q", content, start + len(_HEAP))
            place, end = start + _ENTRY.size, min(start + length, len(content))
            while place + _ENTRY.size <= end:
                number, size = _ENTRY.unpack_from(content, place)
                step = _ENTRY.size + size + -size % 8 if number else size  # free room counts its own head
                if not _ENTRY.size <= step <= end - place:
                    raise ValueError(f"an entry of its heap of words at byte {start} is {size} bytes long")
                place, left = place + step, left - 1
                if left < 0:
                    raise ValueError(f"its heap of words at byte {start} overlaps with others")
            start = content.find(_HEAP, start + 1)


def _check_parts(file: Any, size: int) -> None:
    """Refuse what reading would fetch from elsewhere, follow without end, or fill the memory with.

    A dataset that was never written takes no room in the file, and all of its shape in memory.
    """
    h5py = optional("h5py", "read h5ad", "scanpy")
    total, seen, groups = 0, set(), [file["/"]]
    while groups:
        group = groups.pop()
        at = h5py.h5o.get_info(group.id).addr
        if at in seen:
            raise ValueError(f"its group {group.name} is there more than once")
        seen.add(at)
        for name in group:
            if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
                raise ValueError(f"{group.name}/{name} is a link to another file")
            part = group[name]
            if isinstance(part, h5py.Group):
                groups.append(part)
            elif isinstance(part, h5py.Dataset):
                if part.is_virtual or part.external:
                    raise ValueError(f"{part.name} has its values in another file")
                total += (part.size or 0) * part.dtype.itemsize
    check_unpacked(total, size, "if you trust it, take what is to be embedded out of it with anndata")
