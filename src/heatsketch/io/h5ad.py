"""Single cells: h5ad files."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._utils.extras import optional
from .data import Data, Reading
from .errors import check_finite, check_known, check_memory, parsing

__all__ = ["read_h5ad"]


def read_h5ad(path: Any, reading: Reading) -> Data:
    """Read an AnnData: its principal components if it has any, else its matrix; columns of ``obs`` are kept aside."""
    anndata = optional("anndata", "read h5ad", "scanpy")
    notes: list[str] = []
    with parsing("h5ad", notes):
        with optional("h5py", "read h5ad", "scanpy").File(path, "r") as file:
            _check_contents(file)
        cells = anndata.read_h5ad(path)
    key = reading.key or ("X_pca" if "X_pca" in cells.obsm else "X")
    check_known([key], [*cells.obsm, "X"], "entry")
    X = cells.X if key == "X" else cells.obsm[key]
    if X is None:
        raise ValueError(f"it has no matrix X; choose an entry of obsm with --key: {', '.join(cells.obsm) or 'none'}.")
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{key} has shape {X.shape} and dtype {X.dtype}; it must be a matrix of real numbers.")
    names = cells.obs_names.to_numpy(dtype=object)
    check_finite(X, None, names)
    check_known(reading.named, list(cells.obs.columns))
    kept = [name for name in cells.obs.columns if name not in reading.drop and name != reading.id]
    columns = {name: cells.obs[name] for name in kept}  # with the order of their categories
    if reading.id is not None:
        names = np.array([str(name) for name in cells.obs[reading.id]], dtype=object)
    note = f"{'the matrix X' if key == 'X' else f'obsm[{key!r}]'} is embedded"
    return Data(X, names, None, columns, notes=[*notes, note], source=cells)


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
