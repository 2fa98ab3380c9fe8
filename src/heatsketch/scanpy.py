"""Embeddings of AnnData objects, with the conventions of scanpy.

Neither scanpy nor anndata is imported: any object with ``obsm``, ``obsp``, ``uns`` and ``X`` will do. All handling of
AnnData objects in memory is here; `io.h5ad` reads files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from ._utils.tables import explained
from ._utils.typing import FloatArray
from ._version import __version__
from .analysis.diagnosis import Finding
from .analysis.distortion import Distortion
from .estimators import METHODS
from .kernel.build import build_heat_kernel
from .kernel.options import KernelOptions, check_count, check_points

__all__ = ["heat_sketch", "place_cells"]

# Where the defaults for cells are not those of the estimators, beside what the signature says.
_FOR_CELLS = {"heatsketch": {"objective": "log-stress"}}
_FEWEST_CELLS = 3
# Parameters that say how affinities are made of points; a graph of neighbours has affinities.
_OF_POINTS = ("bandwidth_neighbor", "cutoff", "metric", "metric_params")

# Up to this many genes scanpy works on X itself, and on principal components of more.
_FEW_GENES = 50
# What scanpy calls the components of a PCA, and the matrix that makes them.
_PCA, _LOADINGS = "X_pca", "PCs"
# Cells of a reference by which it is seen whether it is still what it was, and how well they must agree.
_PROBES, _AGREEMENT = 256, 1e-3


def heat_sketch(
    adata: Any,
    n_components: int = 2,
    *,
    method: str = "heatsketch",
    use_rep: str | None = None,
    n_pcs: int | None = None,
    neighbors_key: str | None = None,
    n_neighbors: int | str | None = 15,
    bandwidth: float | str = "self-tuning",
    power: float | str = "entropy",
    key_added: str | None = None,
    random_state: int | None = 0,
    diagnose: bool = True,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Embed the cells of an AnnData object by a sketch of the heat kernel.

    Parameters
    ----------
    adata : AnnData of shape (n_cells, n_genes)
        No view, unless `copy` is set. Of one that is backed by a file, whatever lies in memory can be used.
    n_components : int, default=2
    method : {"heatsketch", "gaussian-process", "diffusion-maps"}, default="heatsketch"
        :class:`HeatSketch` keeps diffusion distances best in few dimensions, :class:`GaussianProcessEmbedding` is the
        one for many, and :class:`DiffusionMaps` are there to compare with.
    use_rep : str or None, default=None
        "X", or a key of ``adata.obsm`` such as "X_pca" or "X_scVI". None is what scanpy takes: X of up to 50 genes,
        else "X_pca".
    n_pcs : int or None, default=None
        Use so many of the first columns of "X_pca", or of `use_rep`; None uses all, and 0 is X, as in scanpy.
    neighbors_key : str or None, default=None
        Use a graph of neighbours instead of a representation: "neighbors", where ``sc.pp.neighbors`` puts it, or what
        it was told as `key_added`. New cells cannot be placed on a graph.
    n_neighbors : int, None or "auto", default=15
        Neighbours that heat goes to from each cell, as many as in ``sc.pp.neighbors``; None is all cells.
    bandwidth : float or str, default="self-tuning"
        How far heat goes in one step: "self-tuning" gives each cell its own scale, because cells of one kind lie dense
        and those of another sparse. Neither this nor `n_neighbors` has an effect where `neighbors_key` names a graph.
    power : float or {"entropy", "paths", "auto"}, default="entropy"
        Diffusion time, or the rule that chooses it.
    key_added : str or None, default=None
        Where to write: ``adata.obsm[key_added]`` and ``adata.uns[key_added]``. None is "X_heatsketch" and "heatsketch".
    random_state : int or None, default=0
        None is another embedding every time. Without effect on diffusion maps, which have no random numbers.
    diagnose : bool, default=True
        Whether to measure the distortion and to look for what commonly goes wrong. For tens of thousands of cells this
        takes longer than a Gaussian process embedding itself.
    copy : bool, default=False
        Return a copy instead of writing to `adata`.
    **options
        Further parameters of the estimator, such as ``verbose=True``. The `objective` of HeatSketch is "log-stress"
        unless given: typical distances matter more here than the worst one.

    Returns
    -------
    adata : AnnData or None
        None unless `copy` is set. It has got

        ``obsm["X_heatsketch"]`` : ndarray of shape (n_cells, n_components)
            The embedding.
        ``uns["heatsketch"]`` : dict
            ``params`` that were asked for; ``power``, ``bandwidth`` and ``n_neighbors`` that were chosen (the last two
            where there are any); what `place_cells` needs; and unless `diagnose` is off ``distortion`` against the
            diffusion distance and ``diagnosis``, what looks wrong, by name. All of it can be written to files.

    Warns
    -----
    UserWarning
        If the embedding is not to be trusted as it is, with the reason and the remedy.

    See Also
    --------
    place_cells : Where new cells belong in it.

    Examples
    --------
    >>> from anndata import AnnData
    >>> from heatsketch import datasets
    >>> from heatsketch.scanpy import heat_sketch
    >>> adata = AnnData(datasets.stretched_torus(200, random_state=0))
    >>> heat_sketch(adata, n_components=3)
    >>> adata.obsm["X_heatsketch"].shape
    (200, 3)
    >>> sorted(adata.uns["heatsketch"]["diagnosis"])
    []
    """
    _check_adata(adata, writes=not copy)
    if copy and adata.isbacked:
        raise ValueError("copy=True was given for an AnnData that is backed by a file; use adata.to_memory() instead.")
    check_count(n_components, "n_components")
    if random_state is not None:
        check_count(random_state, "random_state", "a whole number, which can be kept with the cells, or None", least=0)
    if adata.n_obs < _FEWEST_CELLS:
        raise ValueError(f"adata has {adata.n_obs} cells; give at least {_FEWEST_CELLS}, and for a map of use dozens.")
    source = _source_of(adata, use_rep, n_pcs, neighbors_key)
    _check_options(options, graph=neighbors_key is not None)
    given: dict[str, Any] = {"n_components": n_components, "power": power, "random_state": random_state}
    given |= _FOR_CELLS.get(method, {})
    if neighbors_key is None:
        X = _representation(adata, source)
        given |= {"n_neighbors": n_neighbors, "bandwidth": bandwidth}
    else:
        X = _neighbor_graph(adata, neighbors_key)
        given |= {"affinity": "precomputed"}
    given |= options
    model = _estimator(method, given).fit(X)
    record = _record(model, {"method": method} | source | given)
    if diagnose:
        record |= _examined(model)
    adata = adata.copy() if copy else adata
    basis, name = ("X_heatsketch", "heatsketch") if key_added is None else (key_added, key_added)
    _put(adata, basis, model.embedding_, name, record)
    return adata if copy else None


def place_cells(adata: Any, adata_ref: Any, *, key: str | None = None, copy: bool = False) -> Any:
    """Place new cells in the embedding of others, each by its own row of the heat kernel.

    The cells of the reference stay where they are, and each new one lands where the reference would have it, whatever
    the other new ones are. Where principal components were embedded, new cells are projected on those of the reference,
    with its centre.

    Parameters
    ----------
    adata : AnnData
        New cells, with the genes of the reference in any order, preprocessed as these were; or with the same
        representation in ``obsm``, where that is not "X_pca".
    adata_ref : AnnData
        With an embedding by `heat_sketch`, and what it was made from.
    key : str or None, default=None
        What was given as `key_added`.
    copy : bool, default=False
        Return a copy instead of writing to `adata`.

    Returns
    -------
    adata : AnnData or None
        None unless `copy` is set. It has got ``obsm["X_heatsketch"]``, or ``obsm[key]``.
    """
    _check_adata(adata, writes=not copy)
    _check_adata(adata_ref, "adata_ref", writes=False)
    basis, name = ("X_heatsketch", "heatsketch") if key is None else (key, key)
    if name not in adata_ref.uns or basis not in adata_ref.obsm:
        raise ValueError(
            f"adata_ref has no embedding {basis!r}: {_there(adata_ref.obsm, 'obsm')}. Embed it first with "
            "heatsketch.scanpy.heat_sketch(adata_ref), or name the embedding with key."
        )
    record = adata_ref.uns[name]
    params, Z = record["params"], np.asarray(record["coefficients"])
    if "neighbors_key" in params:
        raise ValueError(
            f"{basis!r} was made from the graph of neighbours {params['neighbors_key']!r}, in which new cells have no "
            "place. Embed the reference from a representation (use_rep='X_pca'), in which they have one."
        )
    if len(Z) != adata_ref.n_obs:
        raise ValueError(
            f"adata_ref has {adata_ref.n_obs} cells, and had {len(Z)} when it was embedded; place new cells by the "
            "whole reference, or embed what is left of it."
        )
    reference = _representation(adata_ref, params)
    new = _new_representation(adata, adata_ref, params, reference)
    placed = _place(new, reference, record, adata_ref.obsm[basis])
    adata = adata.copy() if copy else adata
    adata.obsm[basis] = placed
    return adata if copy else None


def _put(adata: Any, basis: str, embedding: Any, name: str, record: dict[str, Any]) -> None:
    """Write an embedding and its record to the cells, both or neither."""
    known = dict(adata.uns)
    try:
        adata.uns[name] = record
        adata.obsm[basis] = embedding
    except BaseException:
        adata.uns.pop(name, None)
        adata.uns.update(known)
        raise


def _check_options(options: Mapping[str, Any], *, graph: bool) -> None:
    """Refuse options that would have no effect, or could not be kept with the cells."""
    if "affinity" in options or options.get("metric") == "precomputed":
        raise ValueError(
            "affinity or metric='precomputed' was given; name a graph of neighbours with neighbors_key instead."
        )
    named = [*options, *(options.get("kernel_params") or ())]
    idle = [name for name in named if graph and name in _OF_POINTS]
    if idle:
        raise ValueError(
            f"{', '.join(idle)} was given with neighbors_key; it has no effect on a graph of neighbours, whose weights "
            "are there. Leave it out, or embed a representation (use_rep)."
        )
    functions = [name for name, value in options.items() if callable(value)]
    if functions:
        raise ValueError(
            f"{', '.join(functions)} was given as a function, which cannot be kept with the cells; use the estimator "
            "itself, such as heatsketch.HeatSketch, and assign its embedding to adata.obsm."
        )


def _estimator(method: str, given: Mapping[str, Any]) -> Any:
    """The estimator, with the parameters that it knows."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known; use one of {tuple(METHODS)}.")
    kind = METHODS[method]
    known = signature(kind).parameters
    unknown = [name for name in given if name not in known and name != "random_state"]
    if unknown:
        raise TypeError(
            f"{', '.join(unknown)} was given, which {kind.__name__} does not have; it has {', '.join(known)}."
        )
    return kind(**{name: value for name, value in given.items() if name in known})


def _place(new: Any, reference: Any, record: Mapping[str, Any], embedding: Any) -> FloatArray:
    """New cells by their rows of the kernel of the reference, which is made again as it was."""
    Z = np.asarray(record["coefficients"])
    params = {**record["params"], **record["params"].get("kernel_params", {})}
    asked = {field.name for field in fields(KernelOptions)} & params.keys()
    chosen: dict[str, Any] = {"n_neighbors": _plain(record.get("n_neighbors"))}
    if not np.ndim(record["bandwidth"]):  # each cell has its own by a rule, which gives the same again
        chosen["bandwidth"] = float(record["bandwidth"])
    options = KernelOptions(**{name: _plain(params[name]) for name in asked} | chosen)
    X = check_points(reference, options)
    kernel = build_heat_kernel(X, options, Z.dtype)
    some = _probes(len(Z))
    if _disagree(kernel.at_new_points(X[some], Z), np.asarray(embedding)[some], embedding):
        raise ValueError(
            "the reference is not what was embedded any more: its representation or its embedding has changed since. "
            "Run heat_sketch on it again."
        )
    with explained():
        new = check_array(new, accept_sparse="csr", dtype=X.dtype)
    return kernel.at_new_points(new, Z).astype(embedding.dtype, copy=False)


def _record(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, what was chosen, and what new cells need, as values that h5ad and zarr files hold."""
    record: dict[str, Any] = {
        "params": {name: _plain(value) for name, value in params.items() if value is not None},
        "version": __version__,
        "power": float(model.power_),
        "coefficients": model._coefficients,
    }
    for name in ("bandwidth", "n_neighbors"):
        value = getattr(model, f"{name}_")
        if value is not None:
            record[name] = _plain(value)
    return record


def _examined(model: Any) -> dict[str, Any]:
    """How well distances are kept, and what looks wrong; if that is harmful, it is said."""
    found = model.diagnose()
    for finding in found:
        if finding.harmful:
            warnings.warn(f"{finding.message} {finding.remedy}", UserWarning, stacklevel=3)
    distortion = getattr(model, "distortion_", None) or model.distortion()
    return {
        "distortion": _described(distortion),
        "diagnosis": {finding.name: _described(finding) for finding in found},
    }


def _described(found: Distortion | Finding) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(found).items()}


def _plain(value: Any) -> Any:
    """A value as files hold it: words as keys, sequences as arrays, numpy's scalars as Python's."""
    if isinstance(value, Mapping):
        return {f"{key}": _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return value.item() if isinstance(value, np.generic) else value


def _check_adata(adata: Any, name: str = "adata", *, writes: bool) -> None:
    """Refuse what is no AnnData, and views that something shall be written to."""
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


def _there(mapping: Iterable[str], of: str) -> str:
    """The keys that there are, in words."""
    keys = ", ".join(repr(key) for key in mapping)
    return f"{of} has {keys}" if keys else f"{of} is empty"


def _source_of(adata: Any, use_rep: str | None, n_pcs: int | None, neighbors_key: str | None) -> dict[str, Any]:
    """What is embedded: {"neighbors_key": ...}, or {"use_rep": ...} and possibly {"n_pcs": ...}."""
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
            f"adata.obsm has no {use_rep!r} to embed: {_there(adata.obsm, 'obsm')}. {remedy}name another with use_rep; "
            "use_rep='X' is the data matrix itself."
        )
    columns = adata.obsm[use_rep].shape[1]
    if n_pcs is not None and not 0 < n_pcs <= columns:
        raise ValueError(f"n_pcs={n_pcs} was given, and {use_rep!r} has {columns} columns; use as many at most.")
    return {"use_rep": use_rep} | ({} if n_pcs is None else {"n_pcs": n_pcs})


def _representation(adata: Any, source: Mapping[str, Any]) -> Any:
    """The matrix that is embedded, (n_cells, d)."""
    use_rep = str(source["use_rep"])
    if use_rep != "X":
        if use_rep not in adata.obsm:
            raise ValueError(f"obsm has no {use_rep!r}, which was embedded: {_there(adata.obsm, 'obsm')}.")
        X = adata.obsm[use_rep]
        return (X if sparse.issparse(X) else np.asarray(X))[:, : source.get("n_pcs")]
    if adata.isbacked:
        raise ValueError(
            f"X is in the file {adata.filename}; read it with adata.to_memory(), or embed a representation that is in "
            f"memory: {_there(adata.obsm, 'obsm')}."
        )
    if adata.X is None:
        raise ValueError(f"adata has no X to embed; name a representation with use_rep: {_there(adata.obsm, 'obsm')}.")
    return adata.X


def _neighbor_graph(adata: Any, neighbors_key: str) -> Any:
    """Connectivities of a graph of neighbours, (n_cells, n_cells)."""
    if neighbors_key not in adata.uns:
        graphs = [repr(key) for key, value in adata.uns.items() if key == "neighbors" or _is_graph(value)]
        raise ValueError(
            f"adata.uns has no {neighbors_key!r}; graphs of neighbours there are: {', '.join(graphs) or 'none'}. "
            "Compute one with sc.pp.neighbors(adata), or leave neighbors_key out."
        )
    key = str(adata.uns[neighbors_key].get("connectivities_key", "connectivities"))
    if key not in adata.obsp:
        raise ValueError(
            f"adata.obsp has no {key!r}, which uns[{neighbors_key!r}] names: {_there(adata.obsp, 'obsp')}. Run "
            "sc.pp.neighbors(adata) again."
        )
    return adata.obsp[key]


def _is_graph(value: Any) -> bool:
    return isinstance(value, Mapping) and "connectivities_key" in value


def _new_representation(adata: Any, adata_ref: Any, source: Mapping[str, Any], reference: Any) -> Any:
    """The same coordinates for new cells as the reference has, (m, d)."""
    use_rep = str(source["use_rep"])
    if use_rep == _PCA:
        new = _projected(adata, adata_ref, reference)
    elif use_rep == "X":
        new = _genes_of(adata, adata_ref)
    else:
        if use_rep not in adata.obsm:
            raise ValueError(
                f"the reference was embedded from obsm[{use_rep!r}], but the new cells lack it: "
                f"{_there(adata.obsm, 'obsm')}. Compute it for them with the same model."
            )
        new = _representation(adata, source)
    if new.shape[1] != reference.shape[1]:
        raise ValueError(
            f"the new cells have {new.shape[1]} columns in {use_rep!r}, and the reference has {reference.shape[1]}; "
            "both must come from the same model."
        )
    if sparse.issparse(reference):
        return sparse.csr_array(new)
    return new.toarray() if sparse.issparse(new) else new


def _projected(adata: Any, adata_ref: Any, reference: Any) -> Any:
    """New cells on the principal components of the reference, about its centre."""
    if _LOADINGS not in adata_ref.varm:
        raise ValueError(
            f"adata_ref.varm has no {_LOADINGS!r}, by which new cells would get its principal components: "
            f"{_there(adata_ref.varm, 'varm')}. Run sc.pp.pca and heat_sketch on the reference again."
        )
    loadings = np.asarray(adata_ref.varm[_LOADINGS])[:, : reference.shape[1]]
    some = _probes(len(reference))
    # The centre is the same for every cell: whether there was one, and which, can be seen on a few.
    offsets = _representation(adata_ref, {"use_rep": "X"})[some] @ loadings - reference[some]
    centre = np.asarray(offsets).mean(axis=0)
    if _disagree(offsets, centre, reference):
        raise ValueError(
            f"adata_ref.obsm[{_PCA!r}] is not what adata_ref.X gives with varm[{_LOADINGS!r}]: one of them was changed "
            "since sc.pp.pca, or cells were left out. Run sc.pp.pca and heat_sketch on the reference again."
        )
    return np.asarray(_genes_of(adata, adata_ref) @ loadings) - centre


def _genes_of(adata: Any, adata_ref: Any) -> Any:
    """X of the new cells, its genes in the order of the reference."""
    X = _representation(adata, {"use_rep": "X"})
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


def _probes(n: int) -> Any:
    """A few cells, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(int))


def _disagree(found: Any, expected: Any, scale: Any) -> bool:
    """Whether two arrays differ by more than rounding, in the unit of a third."""
    return not float(np.abs(found - expected).max()) <= _AGREEMENT * float(np.abs(scale).max())
