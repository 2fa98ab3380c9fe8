"""Single-cell data: embeddings of AnnData objects, in scanpy's manner.

scanpy and anndata need not be installed for what is here, and are not imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields
from inspect import signature
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ._utils.tables import explained
from ._utils.typing import FloatArray
from ._version import __version__
from .analysis.diagnosis import Finding
from .analysis.distortion import Distortion
from .estimators import METHODS
from .io.anndata import (
    check_adata,
    disagree,
    neighbor_graph,
    new_representation,
    probes,
    representation,
    source_of,
    there,
)
from .kernel.build import build_heat_kernel
from .kernel.options import KernelOptions, check_count, check_points

__all__ = ["heat_sketch", "place_cells"]

# Where the defaults for cells are not those of the estimators, beside what the signature says.
_FOR_CELLS = {"heatsketch": {"objective": "log-stress"}}
_FEWEST_CELLS = 3
# Parameters that say how affinities are made of points; a graph of neighbours has affinities.
_OF_POINTS = ("bandwidth_neighbor", "cutoff", "metric", "metric_params")


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
    check_adata(adata, writes=not copy)
    if copy and adata.isbacked:
        raise ValueError("copy=True was given for an AnnData that is backed by a file; use adata.to_memory() instead.")
    check_count(n_components, "n_components")
    if random_state is not None:
        check_count(random_state, "random_state", "a whole number, which can be kept with the cells, or None", least=0)
    if adata.n_obs < _FEWEST_CELLS:
        raise ValueError(f"adata has {adata.n_obs} cells; give at least {_FEWEST_CELLS}, and for a map of use dozens.")
    source = source_of(adata, use_rep, n_pcs, neighbors_key)
    _check_options(options, graph=neighbors_key is not None)
    given: dict[str, Any] = {"n_components": n_components, "power": power, "random_state": random_state}
    given |= _FOR_CELLS.get(method, {})
    if neighbors_key is None:
        X = representation(adata, source)
        given |= {"n_neighbors": n_neighbors, "bandwidth": bandwidth}
    else:
        X = neighbor_graph(adata, neighbors_key)
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
    check_adata(adata, writes=not copy)
    check_adata(adata_ref, "adata_ref", writes=False)
    basis, name = ("X_heatsketch", "heatsketch") if key is None else (key, key)
    if name not in adata_ref.uns or basis not in adata_ref.obsm:
        raise ValueError(
            f"adata_ref has no embedding {basis!r}: {there(adata_ref.obsm, 'obsm')}. Embed it first with "
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
    reference = representation(adata_ref, params)
    new = new_representation(adata, adata_ref, params, reference)
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
    some = probes(len(Z))
    if disagree(kernel.at_new_points(X[some], Z), np.asarray(embedding)[some], embedding):
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
