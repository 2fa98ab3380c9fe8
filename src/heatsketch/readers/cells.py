"""Single cells: h5ad files."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..extras import optional
from .data import Data, Reading, check_known, refuse_missing

__all__ = ["read_h5ad"]


def read_h5ad(path: Any, reading: Reading) -> Data:
    """Read an AnnData: its principal components if there are, else its matrix; columns of ``obs`` are kept aside."""
    anndata = optional("anndata", "read h5ad", "scanpy")
    try:
        cells = anndata.read_h5ad(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it cannot be read as h5ad: {error}.") from error
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
    names = names if reading.id is None else cells.obs[reading.id].astype(str).to_numpy(dtype=object)
    note = f"{'the matrix X' if key == 'X' else f'obsm[{key!r}]'} is embedded"
    return Data(X, names, None, columns, notes=[note], source=cells)
