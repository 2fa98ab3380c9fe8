"""Cells: which representation of an AnnData is embedded and what is written to it, by the conventions of scanpy.

Neither scanpy nor anndata is imported: any object with ``obsm``, ``obsp``, ``uns`` and ``X`` will do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.indices import check_indices
from .._utils.registry import distributed_backend
from .._utils.typing import FloatArray
from .._utils.warn import warn
from .._version import __version__
from ..kernel.options import check_count
from ..linalg.filters import MultiscaleFilter

__all__ = [
    "BASIS",
    "METRIC",
    "NEIGHBORS",
    "PCA",
    "add_embedding",
    "check_source",
    "embedded",
    "in_memory",
    "keys",
    "plain",
    "probes",
    "record_of",
    "representation",
    "set_columns",
    "source_of",
]

# Up to this many genes scanpy uses X itself, and principal components of more.
_FEW_GENES = 50
# The name that scanpy gives to the components of a PCA.
PCA = "X_pca"
# The neighbours that scanpy's tools use, the parameters that sc.pp.neighbors records, and its methods.
NEIGHBORS = "neighbors"
_PARAMS = {"n_neighbors", "method", "random_state", "metric", "metric_kwds", "use_rep", "n_pcs"}
_SCANPY = ("umap", "gauss", "rapids", "jaccard")
# How this package calls the metric and its parameters.
METRIC = ("metric", "metric_params")
# Where embeddings are written by default.
BASIS = "X_heatsketch"
# Cells whose neighbours in the embedding are tested; of more cells, a random sample of this size.
_TESTED = 5_000
# Cells by which an embedding and its data are recognised.
_PROBES = 256


def keys(key: str | None) -> tuple[str, str]:
    """Keys of the embedding in obsm and of its record in uns."""
    return (BASIS, "heatsketch") if key is None or key == BASIS else (key, key)


def _is_ours(adata: Any, basis: Any) -> bool:
    """Whether a key of obsm is an embedding by `heat_sketch`."""
    record = adata.uns.get(basis)
    return basis == BASIS or (
        basis != "X" and isinstance(record, Mapping) and bool({"coefficients", "layout"} & record.keys())
    )


def source_of(
    adata: Any,
    use_rep: str | None = None,
    n_pcs: int | None = None,
    neighbors_key: str | None = None,
    *,
    metric: Any = None,
) -> dict[str, Any]:
    """What is embedded: {"neighbors_key": ...}, or {"use_rep": ...} with "n_pcs", "metric" and "metric_params" if set.

    If nothing is given, it is what the neighbours in ``uns`` were computed from, with their metric unless `metric` is
    given; `n_pcs` alone takes the first columns of that. scanpy's log says what it is.
    """
    source = _chosen(adata, use_rep, n_pcs, neighbors_key)
    if metric is not None:
        source = {name: value for name, value in source.items() if name not in METRIC}
    scanpy = sys.modules.get("scanpy")
    if scanpy is not None:
        scanpy.logging.info("    using " + ", ".join(f"{name} = {value!r}" for name, value in source.items()))
    return source


def _chosen(adata: Any, use_rep: str | None, n_pcs: int | None, neighbors_key: str | None) -> dict[str, Any]:
    """What is embedded."""
    metric: dict[str, Any] = {}
    if use_rep is None and neighbors_key is None:
        found = _followed(adata)
        if n_pcs is not None:  # of what is followed, unless that is X or a graph
            found = (found if n_pcs and found.get("use_rep", "X") != "X" else {}) | {"n_pcs": n_pcs}
        use_rep, n_pcs, neighbors_key = (found.get(name) for name in ("use_rep", "n_pcs", "neighbors_key"))
        metric = {name: found[name] for name in METRIC if name in found}
        metric = {} if metric == {"metric": "euclidean"} else metric
    if neighbors_key is not None:
        if use_rep is not None or n_pcs is not None:
            raise ValueError(
                "neighbors_key was given with use_rep or n_pcs; a neighbour graph needs no representation."
            )
        return {"neighbors_key": neighbors_key}
    if n_pcs is not None:
        check_count(n_pcs, "n_pcs", "a number of columns, 0 for X, or None", least=0)
    if use_rep is None:
        use_rep = _usual(adata, n_pcs)
    if use_rep == "X":
        if n_pcs:
            raise ValueError(f"n_pcs={n_pcs} was given with use_rep='X', whose columns are genes; leave one out.")
        return {"use_rep": "X"} | metric
    columns = representation(adata, {"use_rep": use_rep}).shape[1]
    if n_pcs is not None and not 0 < n_pcs <= columns:
        raise ValueError(f"n_pcs={n_pcs} was given, and {use_rep!r} has {columns} columns; give at most as many.")
    return {"use_rep": use_rep} | ({} if n_pcs is None else {"n_pcs": n_pcs}) | metric


def _usual(adata: Any, n_pcs: int | None) -> str:
    """The representation that scanpy uses if none is named."""
    return "X" if n_pcs == 0 or (adata.n_vars <= _FEW_GENES and n_pcs is None) else PCA


def _followed(adata: Any) -> dict[str, Any]:
    """What ``uns["neighbors"]`` was computed from, as options of `source_of`; its graph if that is not known."""
    recorded = adata.uns.get(NEIGHBORS)
    if recorded is None:
        return {}
    params = _recorded_params(recorded)
    if not set(params) <= _PARAMS or params.get("method") not in _SCANPY:
        return {"neighbors_key": NEIGHBORS}
    if _is_ours(adata, params.get("use_rep")):  # neighbours for clusters; go on with what was embedded
        params = _recorded_params(adata.uns.get(keys(params["use_rep"])[1]))
    params["metric_params"] = params.pop("metric_kwds", None) or params.get("metric_params")  # theirs, or ours
    if "neighbors_key" not in params:
        params["use_rep"] = params.get("use_rep") or _usual(adata, params.get("n_pcs"))
    names = ("use_rep", "n_pcs", "neighbors_key", *METRIC)
    return {name: params[name] for name in names if params.get(name) is not None}


def _recorded_params(record: Any) -> dict[str, Any]:
    """The parameters that a function of scanpy or this module recorded."""
    return {name: _single(value) for name, value in (record or {}).get("params", {}).items()}


def _single(value: Any) -> Any:
    """A parameter as scanpy gives it, though files may hold it as an array of one value."""
    if isinstance(value, Mapping):
        return {name: one.item() if isinstance(one, np.generic) else one for name, one in value.items()}
    return value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value


def embedded(adata: Any, source: Mapping[str, Any]) -> Any:
    """The representation (n_cells, d) or the graph (n_cells, n_cells) that `source` names."""
    check_source(adata, source)
    graph = source.get("neighbors_key")
    return representation(adata, source) if graph is None else _neighbor_graph(adata, graph)


def check_source(adata: Any, source: Mapping[str, Any]) -> None:
    """Raise ValueError if `source` is an embedding by heatsketch, or neighbours in one."""
    graph = source.get("neighbors_key")
    used = source["use_rep"] if graph is None else _recorded_params(adata.uns.get(graph)).get("use_rep")
    if _is_ours(adata, used):
        raise ValueError(f"{used!r} is an embedding by heatsketch; embed what it was computed from, such as 'X_pca'.")


def representation(adata: Any, source: Mapping[str, Any]) -> Any:
    """The matrix that is embedded, (n_cells, d)."""
    use_rep = str(source["use_rep"])
    if use_rep != "X":
        if use_rep not in adata.obsm:
            hint = "compute it with sc.pp.pca(adata)" if use_rep == PCA else "compute it first"
            raise ValueError(
                f"obsm has no {use_rep!r}; {hint}, or name another with use_rep: {', '.join([*adata.obsm, 'X'])}."
            )
        X = adata.obsm[use_rep]
        check_indices(X, f"obsm[{use_rep!r}]")
        X = (X if sparse.issparse(X) or distributed_backend(X) else np.asarray(X))[:, : source.get("n_pcs")]
        return _finite(adata, X, f"obsm[{use_rep!r}]")
    if adata.X is None or adata.isbacked:
        raise ValueError("X is missing or not in memory; use adata.to_memory(), or name a representation with use_rep.")
    check_indices(adata.X)
    return _finite(adata, adata.X, "X")


def _neighbor_graph(adata: Any, neighbors_key: str) -> Any:
    """Connectivities of a neighbour graph, (n_cells, n_cells)."""
    key = str(adata.uns.get(neighbors_key, {}).get("connectivities_key", "connectivities"))
    if neighbors_key not in adata.uns or key not in adata.obsp:
        raise ValueError(
            f"there is no neighbour graph {neighbors_key!r} in uns and obsp; compute one with sc.pp.neighbors(adata), "
            "or leave neighbors_key out."
        )
    graph = adata.obsp[key]
    check_indices(graph, f"obsp[{key!r}]")
    return graph


def _finite(adata: Any, X: Any, name: str) -> Any:
    """`X`; missing and infinite values raise ValueError, except in Dask arrays."""
    values = X.data if sparse.issparse(X) else X
    if distributed_backend(X) is None and values.dtype.kind == "f" and not np.isfinite(values).all():
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~np.isfinite(np.asarray(X.sum(axis=1)).ravel()))
        raise ValueError(
            f"{name} has missing or infinite values in {len(bad)} of {X.shape[0]} cells, such as "
            f"{str(adata.obs_names[bad[0]])!r}; leave these cells out (adata[mask].copy() with a boolean mask), or "
            "compute it again from complete data."
        )
    return X


def record_of(
    model: Any, params: Mapping[str, Any], *, diagnose: bool = True
) -> tuple[dict[str, Any], FloatArray | None]:
    """The record of an embedding for ``uns``, and the trust of each cell for ``obs``, None if it is not tested.

    The record has the parameters, chosen values and what places new cells, and with `diagnose` the distortion and
    findings, as values that h5ad and zarr files hold. Harmful findings are warned about.
    """
    record = {
        "params": {name: value for name, value in params.items() if value is not None},
        "version": __version__,
        "power": asdict(model.power_) if isinstance(model.power_, MultiscaleFilter) else model.power_,
    }
    record |= _placement(model)
    chosen = {name: in_memory(getattr(model, f"{name}_")) for name in ("bandwidth", "n_neighbors")}
    record |= {name: value for name, value in chosen.items() if value is not None}
    if not diagnose:
        return plain(record), None
    return plain(record | _examined(model)), _trust(model)


def _placement(model: Any) -> dict[str, Any]:
    """What places new cells: coefficients, or the unit of a layout and a few of its places, to recognise it by."""
    if getattr(model, "_unit", None) is None:
        return {"coefficients": in_memory(model._coefficients)}
    if not model.kernel_.in_memory:
        return {"layout": {"shape": model.embedding_.shape}}
    some = probes(len(model.embedding_))
    return {
        "layout": {
            "shape": model.embedding_.shape,
            "unit": model._unit,
            "repelled": model._repelled,
            "places": model.embedding_[some],
            "scales": model.kernel_.scaling.scale[some],
        }
    }


def probes(n: int) -> Any:
    """A few cells, evenly spaced, by which results are recognised."""
    return np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(int))


def _examined(model: Any) -> dict[str, Any]:
    """The distortion and the findings; warns about harmful ones."""
    found = model.diagnose()
    for finding in found:
        if finding.harmful:
            warn(f"{finding.message} {finding.remedy}")
    return {
        "distortion": asdict(model.distortion()),
        "diagnosis": {finding.name: asdict(finding) for finding in found},
    }


def _trust(model: Any) -> FloatArray | None:
    """Share of each cell's neighbours in the embedding that are near in the data, NaN if not tested; None for Dask."""
    if not model.kernel_.in_memory:
        return None
    support = model.unsupported_neighbors(n_points=_TESTED)
    trust = np.full(support.n_samples, np.nan)
    trust[support.points] = support.share
    return trust


def add_embedding(
    adata: Any, Y: Any, record: Mapping[str, Any] | None = None, trust: Any = None, *, key: str | None = None
) -> None:
    """Write an embedding with its record and trust; those of an earlier embedding are replaced or removed."""
    basis, name = keys(key)
    adata.obsm[basis] = in_memory(Y)
    adata.uns.pop(name, None)
    if record is not None:
        adata.uns[name] = record
    set_columns(adata, {f"{name}_trust": trust})


def set_columns(adata: Any, columns: Mapping[str, Any]) -> None:
    """Write columns of obs, and remove those that are None, which an earlier call may have written."""
    for name, values in columns.items():
        if values is not None:
            adata.obs[name] = values
        elif name in adata.obs:
            del adata.obs[name]


def in_memory(X: Any) -> Any:
    """A Dask array as a NumPy array; other arrays unchanged."""
    backend = distributed_backend(X)
    return X if backend is None else backend.gathered(X)


def plain(value: Any) -> Any:
    """A value as files hold it: keys as strings, sequences as arrays, NumPy's scalars as Python's."""
    if isinstance(value, Mapping):
        return {f"{key}": plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return value.item() if isinstance(value, np.generic) else value
