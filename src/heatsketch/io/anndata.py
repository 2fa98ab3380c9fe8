"""AnnData objects: representations and graphs that can be embedded.

anndata is not imported; any object with its attributes will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ..kernel.options import check_count

__all__ = [
    "check_adata",
    "disagree",
    "neighbor_graph",
    "new_representation",
    "probes",
    "representation",
    "source_of",
    "there",
]

# Up to this many genes scanpy works on X itself, and on principal components of more.
_FEW_GENES = 50
# Keys of scanpy for principal components and their loadings.
_PCA, _LOADINGS = "X_pca", "PCs"
# Number of cells by which a changed reference is detected, and the tolerance.
_PROBES, _AGREEMENT = 256, 1e-3


def check_adata(adata: Any, name: str = "adata", *, writes: bool) -> None:
    """Raise TypeError if `adata` is not an AnnData, ValueError if it is a view and `writes`."""
    if not all(hasattr(adata, part) for part in ("obsm", "obsp", "uns", "n_obs", "is_view", "isbacked")):
        raise TypeError(
            f"{name} was given as {type(adata).__name__}; give an AnnData object. For arrays and frames use "
            "heatsketch.HeatSketch()."
        )
    if writes and adata.is_view:
        raise ValueError(
            f"{name} is a view of another AnnData, and what is written to a view does not reach the other. Take a copy "
            "first, adata = adata[...].copy(), or have one returned (copy=True)."
        )


def there(mapping: Iterable[str], of: str) -> str:
    """The keys of a mapping, for a message."""
    keys = ", ".join(repr(key) for key in mapping)
    return f"{of} has {keys}" if keys else f"{of} is empty"


def source_of(adata: Any, use_rep: str | None, n_pcs: int | None, neighbors_key: str | None) -> dict[str, Any]:
    """What to embed: {"neighbors_key": ...}, or {"use_rep": ...} and possibly {"n_pcs": ...}."""
    if neighbors_key is not None:
        if use_rep is not None or n_pcs is not None:
            raise ValueError(
                f"neighbors_key={neighbors_key!r} was given with use_rep={use_rep!r} and n_pcs={n_pcs!r}; a graph of "
                "neighbours needs no representation. Give one of the two."
            )
        return {"neighbors_key": neighbors_key}
    if n_pcs is not None:
        check_count(n_pcs, "n_pcs", "a number of columns, 0 for X, or None", least=0)
    if use_rep is None:
        use_rep = "X" if n_pcs == 0 or (adata.n_vars <= _FEW_GENES and n_pcs is None) else _PCA
    if use_rep == "X":
        if n_pcs:
            raise ValueError(
                f"n_pcs={n_pcs} was given with use_rep='X', whose columns are genes; leave one of the two out."
            )
        return {"use_rep": "X"}
    if use_rep not in adata.obsm:
        remedy = "Compute it with sc.pp.pca(adata), or " if use_rep == _PCA else "Compute it first, or "
        raise ValueError(
            f"adata.obsm has no {use_rep!r} to embed: {there(adata.obsm, 'obsm')}. {remedy}name another with use_rep; "
            "use_rep='X' is the data matrix itself."
        )
    columns = adata.obsm[use_rep].shape[1]
    if n_pcs is not None and not 0 < n_pcs <= columns:
        raise ValueError(f"n_pcs={n_pcs} was given, and {use_rep!r} has {columns} columns; use as many at most.")
    return {"use_rep": use_rep} | ({} if n_pcs is None else {"n_pcs": n_pcs})


def representation(adata: Any, source: Mapping[str, Any]) -> Any:
    """The matrix that is embedded, (n_cells, d)."""
    use_rep = str(source["use_rep"])
    if use_rep != "X":
        if use_rep not in adata.obsm:
            raise ValueError(f"obsm has no {use_rep!r}, which was embedded: {there(adata.obsm, 'obsm')}.")
        X = adata.obsm[use_rep]
        return (X if sparse.issparse(X) else np.asarray(X))[:, : source.get("n_pcs")]
    if adata.isbacked:
        raise ValueError(
            f"X is in the file {adata.filename}; read it with adata.to_memory(), or embed a representation that is in "
            f"memory: {there(adata.obsm, 'obsm')}."
        )
    if adata.X is None:
        raise ValueError(f"adata has no X to embed; name a representation with use_rep: {there(adata.obsm, 'obsm')}.")
    return adata.X


def neighbor_graph(adata: Any, neighbors_key: str) -> Any:
    """Connectivities of a neighbour graph, (n_cells, n_cells)."""
    if neighbors_key not in adata.uns:
        graphs = [repr(key) for key, value in adata.uns.items() if key == "neighbors" or _is_graph(value)]
        raise ValueError(
            f"adata.uns has no {neighbors_key!r}; graphs of neighbours there are: {', '.join(graphs) or 'none'}. "
            "Compute one with sc.pp.neighbors(adata), or leave neighbors_key out."
        )
    key = str(adata.uns[neighbors_key].get("connectivities_key", "connectivities"))
    if key not in adata.obsp:
        raise ValueError(
            f"adata.obsp has no {key!r}, which uns[{neighbors_key!r}] names: {there(adata.obsp, 'obsp')}. Run "
            "sc.pp.neighbors(adata) again."
        )
    return adata.obsp[key]


def _is_graph(value: Any) -> bool:
    return isinstance(value, Mapping) and "connectivities_key" in value


def new_representation(adata: Any, adata_ref: Any, source: Mapping[str, Any], reference: Any) -> Any:
    """New cells in the coordinates of the reference, (m, d)."""
    use_rep = str(source["use_rep"])
    if use_rep == _PCA:
        new = _projected(adata, adata_ref, reference)
    elif use_rep == "X":
        new = _genes_of(adata, adata_ref)
    else:
        if use_rep not in adata.obsm:
            raise ValueError(
                f"the reference was embedded from obsm[{use_rep!r}], and of the new cells {there(adata.obsm, 'obsm')}. "
                "Bring them into the same space by the model that made it."
            )
        new = representation(adata, source)
    if new.shape[1] != reference.shape[1]:
        raise ValueError(
            f"the new cells have {new.shape[1]} columns in {use_rep!r}, and the reference has {reference.shape[1]}; "
            "both must come from the same model."
        )
    if sparse.issparse(reference):
        return sparse.csr_array(new)
    return new.toarray() if sparse.issparse(new) else new


def _projected(adata: Any, adata_ref: Any, reference: Any) -> Any:
    """Principal components of new cells, with the loadings and the centre of the reference."""
    if _LOADINGS not in adata_ref.varm:
        raise ValueError(
            f"adata_ref.varm has no {_LOADINGS!r}, by which new cells would get its principal components: "
            f"{there(adata_ref.varm, 'varm')}. Run sc.pp.pca and heat_sketch on the reference again."
        )
    loadings = np.asarray(adata_ref.varm[_LOADINGS])[:, : reference.shape[1]]
    some = probes(len(reference))
    # The centre is the same for every cell, so a few of them determine it.
    offsets = representation(adata_ref, {"use_rep": "X"})[some] @ loadings - reference[some]
    centre = np.asarray(offsets).mean(axis=0)
    if disagree(offsets, centre, reference):
        raise ValueError(
            f"adata_ref.obsm[{_PCA!r}] is not what adata_ref.X gives with varm[{_LOADINGS!r}]: one of them was changed "
            "since sc.pp.pca, or cells were left out. Run sc.pp.pca and heat_sketch on the reference again."
        )
    return np.asarray(_genes_of(adata, adata_ref) @ loadings) - centre


def _genes_of(adata: Any, adata_ref: Any) -> Any:
    """X of the new cells, with genes in the order of the reference."""
    X = representation(adata, {"use_rep": "X"})
    if adata.var_names.equals(adata_ref.var_names):
        return X
    where = adata.var_names.get_indexer_for(adata_ref.var_names) if adata.var_names.is_unique else np.empty(0)
    missing = adata_ref.var_names.difference(adata.var_names)
    if len(missing) or len(where) != adata_ref.n_vars:
        what = f"lack {len(missing)} of the {adata_ref.n_vars} genes of the reference" + (
            f", such as {', '.join(map(repr, missing[:3]))}" if len(missing) else ", or name some of them twice"
        )
        raise ValueError(f"the new cells {what}; give them the same genes (var_names), preprocessed in the same way.")
    return X[:, where]


def probes(n: int) -> Any:
    """A few cells, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(int))


def disagree(found: Any, expected: Any, scale: Any) -> bool:
    """Whether two arrays differ by more than rounding, relative to a third."""
    return not float(np.abs(found - expected).max()) <= _AGREEMENT * float(np.abs(scale).max())
