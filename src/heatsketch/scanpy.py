"""Embeddings of AnnData objects, with the conventions of scanpy.

Neither scanpy nor anndata is imported: any object with ``obsm``, ``obsp``, ``uns`` and ``X`` will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from ._utils.registry import distributed_backend
from ._utils.tables import explained
from ._utils.typing import FloatArray
from ._utils.warn import warn
from ._version import __version__
from .estimators import METHODS
from .kernel.build import build_heat_kernel, heat_kernel
from .kernel.options import KernelOptions, check_choice, check_count, check_masses, check_points
from .linalg.filters import MultiscaleFilter
from .neighbors.search import nearest_neighbors

__all__ = ["heat_sketch", "neighbors", "place_cells", "pseudotime"]

# Up to this many genes scanpy uses X itself, and principal components of more.
_FEW_GENES = 50
# Names that scanpy gives to the components of a PCA and to its loadings.
_PCA, _LOADINGS = "X_pca", "PCs"
# The neighbours that scanpy's tools use, the parameters that sc.pp.neighbors records, and its methods.
_NEIGHBORS = "neighbors"
_PARAMS = {"n_neighbors", "method", "random_state", "metric", "metric_kwds", "use_rep", "n_pcs"}
_SCANPY = ("umap", "gauss", "rapids", "jaccard")
# Cells of a reference that are embedded again, to check that it is unchanged, and the relative error allowed.
_PROBES, _AGREEMENT = 256, 1e-3


def heat_sketch(
    adata: Any,
    n_components: int = 2,
    *,
    method: str = "heatsketch",
    use_rep: str | None = None,
    n_pcs: int | None = None,
    neighbors_key: str | None = None,
    n_neighbors: int | str | None = "auto",
    bandwidth: float | str = "auto",
    power: float | str = "auto",
    weights_key: str | None = None,
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
        It may be backed by a file if the representation is in memory. A view becomes a copy, with a warning. Dask
        arrays are embedded on the current cluster.
    n_components : int, default=2
        2 or 3 for a picture, about 10 for clusters.
    method : {"heatsketch", "gaussian-process", "diffusion-maps"}, default="heatsketch"
        :class:`HeatSketch` keeps neighbours and diffusion distances best; :class:`GaussianProcessEmbedding` estimates
        distances with error bars, and needs many components; :class:`DiffusionMaps` computes eigenvectors.
    use_rep : str or None, default=None
        "X", or a key of ``adata.obsm`` such as "X_pca" or "X_scVI". By default the representation and the metric that
        ``sc.pp.neighbors`` recorded in ``uns["neighbors"]``; if another tool made these neighbours, their graph itself.
        Without neighbours, X if it has up to 50 genes, otherwise "X_pca".
    n_pcs : int or None, default=None
        Use only the first columns of "X_pca" or `use_rep`; 0 uses X, as in scanpy.
    neighbors_key : str or None, default=None
        Embed a neighbour graph instead of a representation: "neighbors", or the `key_added` of ``sc.pp.neighbors``.
        New cells cannot be placed on a graph.
    n_neighbors : int, None or "auto", default="auto"
        Neighbours of each cell in the kernel, 15 by default; None uses all cells. Ignored with `neighbors_key`.
    bandwidth : float or str, default="auto"
        "auto" gives each cell its own scale, since the density of cells varies. Ignored with `neighbors_key`.
    power : float or {"auto", "multiscale"}, default="auto"
        Diffusion time, or all times at once.
    weights_key : str or None, default=None
        Column of ``adata.obs`` with sample weights, such as the number of cells in a metacell.
    key_added : str or None, default=None
        Write to ``adata.obsm[key_added]`` and ``adata.uns[key_added]``; by default "X_heatsketch" and "heatsketch".
    random_state : int or None, default=0
        Diffusion maps do not use it.
    diagnose : bool, default=True
        Whether to measure the distortion and to look for common problems. For tens of thousands of cells this takes
        longer than a Gaussian process embedding itself.
    copy : bool, default=False
        Return a copy instead of writing to `adata`.
    **options
        Further parameters of the estimator, such as ``neighbor_weight=0.5`` or ``verbose=True``.

    Returns
    -------
    adata : AnnData or None
        The copy if `copy` is set. These fields are added:

        ``obsm["X_heatsketch"]`` : ndarray of shape (n_cells, n_components)
            The embedding.
        ``uns["heatsketch"]`` : dict
            ``params`` as given; the chosen ``power``, ``bandwidth`` and ``n_neighbors``; what `place_cells` needs; and
            with `diagnose` the ``distortion`` of diffusion distances and the findings of the ``diagnosis``. All values
            can be written to files.

    Warns
    -----
    UserWarning
        For each harmful finding, with the reason and the remedy.

    See Also
    --------
    place_cells : Place new cells in the embedding.

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
    check_choice(method, "method", tuple(METHODS))
    if random_state is not None:
        check_count(random_state, "random_state", "an integer, which files can hold, or None", least=0)
    _check_writable(adata, options, copy=copy)
    source = _source(adata, use_rep, n_pcs, neighbors_key)
    given: dict[str, Any] = {"n_components": n_components, "power": power, "random_state": random_state}
    X, kernel = _input(adata, source, {"n_neighbors": n_neighbors, "bandwidth": bandwidth})
    given |= kernel | options
    kind = METHODS[method]
    seeded = "random_state" in signature(kind).parameters
    model = kind(**{name: value for name, value in given.items() if seeded or name != "random_state"})
    model.fit(X, sample_weight=_weights(adata, weights_key))
    record = _record(model, {"method": method, "weights_key": weights_key} | source | given)
    if diagnose:
        record |= _examine(model)
    basis, name = _keys(key_added)
    adata = _writable(adata, copy=copy)
    adata.obsm[basis], adata.uns[name] = _in_memory(model.embedding_), record
    return adata if copy else None


def place_cells(adata: Any, adata_ref: Any, *, key: str | None = None, copy: bool = False) -> Any:
    """Place new cells in the embedding of a reference.

    Each new cell is placed by its own row of the heat kernel. The cells of the reference do not move, and the position
    of a new cell does not depend on the other new cells. If principal components were embedded, new cells are projected
    on those of the reference, with its centre.

    Parameters
    ----------
    adata : AnnData
        New cells, with the genes of the reference in any order and the same preprocessing; or with the same
        representation in ``obsm``, unless that is "X_pca".
    adata_ref : AnnData
        With an embedding by `heat_sketch`, and the representation it was made from.
    key : str or None, default=None
        The `key_added` of the embedding.
    copy : bool, default=False
        Return a copy instead of writing to `adata`.

    Returns
    -------
    adata : AnnData or None
        The copy if `copy` is set. ``obsm["X_heatsketch"]``, or ``obsm[key]``, is added.

    Examples
    --------
    >>> from anndata import AnnData
    >>> from heatsketch import datasets
    >>> from heatsketch.scanpy import heat_sketch, place_cells
    >>> reference, new = (AnnData(datasets.stretched_torus(n, random_state=n)) for n in (200, 50))
    >>> heat_sketch(reference, diagnose=False)
    >>> place_cells(new, reference)
    >>> new.obsm["X_heatsketch"].shape
    (50, 2)
    """
    basis, name = _keys(key)
    _check_writable(adata, {}, copy=copy)
    if name not in adata_ref.uns or basis not in adata_ref.obsm:
        raise ValueError(f"adata_ref has no embedding {basis!r}; run heatsketch.scanpy.heat_sketch(adata_ref) first.")
    record = adata_ref.uns[name]
    params, n_cells = record["params"], len(record["coefficients"])
    if "neighbors_key" in params:
        raise ValueError(
            f"{basis!r} was made from the neighbour graph {params['neighbors_key']!r}, which new cells are not in; "
            "embed a representation of the reference instead, such as use_rep='X_pca'."
        )
    if n_cells != adata_ref.n_obs:
        raise ValueError(
            f"adata_ref has {adata_ref.n_obs} cells, and had {n_cells} when it was embedded; run heat_sketch on it "
            "again."
        )
    reference = _in_memory(_representation(adata_ref, params))
    new = _new_representation(adata, adata_ref, params, reference)
    weights = _weights(adata_ref, params.get("weights_key"))
    placed = _place(new, reference, record, adata_ref.obsm[basis], weights)
    adata = _writable(adata, copy=copy)
    adata.obsm[basis] = placed
    return adata if copy else None


def pseudotime(
    adata: Any,
    root: Any = None,
    *,
    kind: str = "auto",
    interval: float | None = None,
    branches: bool = False,
    use_rep: str | None = None,
    n_pcs: int | None = None,
    neighbors_key: str | None = None,
    n_neighbors: int | str | None = "auto",
    bandwidth: float | str = "auto",
    power: float | str = "auto",
    weights_key: str | None = None,
    key_added: str = "heatsketch_pseudotime",
    copy: bool = False,
    **options: Any,
) -> Any:
    """Distance of every cell from root cells along the data, between 0 and 1, with intervals.

    Unlike the times of ``sc.tl.dpt`` these are finite on every component of the neighbour graph, if a representation is
    used (:meth:`heatsketch.GaussianProcessEmbedding.pseudotime`).

    Parameters
    ----------
    adata : AnnData of shape (n_cells, n_genes)
    root : str, int, sequence of either, boolean mask of shape (n_cells,), or None, default=None
        Names or numbers of the root cells; by default ``adata.uns["iroot"]``, as for ``sc.tl.dpt``.
    kind : {"auto", "path", "geodesic", "diffusion"}, default="auto"
        Lengths of shortest paths along the neighbour graph, lengths along the data, or diffusion distances. "auto" is
        "path", or "geodesic" if an interval is asked for.
    interval : float in (0, 1) or None, default=None
        Level of intervals of the distance from the root, such as 0.95.
    branches : bool, default=False
        Whether to find branches, too (:meth:`heatsketch.Pseudotime.branches`). Each takes about as long as the time.
    use_rep, n_pcs, neighbors_key, n_neighbors, bandwidth, power, weights_key
        As for `heat_sketch`.
    key_added : str, default="heatsketch_pseudotime"
    copy : bool, default=False
        Return a copy instead of writing to `adata`.
    **options
        Further parameters of :class:`GaussianProcessEmbedding`, such as ``normalization="symmetric"``.

    Returns
    -------
    adata : AnnData or None
        The copy if `copy` is set. These fields are added:

        ``obs["heatsketch_pseudotime"]`` : float
            The time; NaN for cells that cannot be reached from a root on a graph without a representation.
        ``obs["heatsketch_pseudotime_low"]``, ``obs["heatsketch_pseudotime_high"]`` : float
            The interval.
        ``obs["heatsketch_pseudotime_branch"]`` : categorical
            If `branches` is set.
        ``uns["heatsketch_pseudotime"]`` : dict
            ``params`` as given, numbers of the ``roots``, the ``unit`` that was scaled to 1, and how many cells were
            reached ``across_gaps``.

    Examples
    --------
    >>> from anndata import AnnData
    >>> import numpy as np
    >>> from heatsketch.scanpy import pseudotime
    >>> adata = AnnData(np.linspace(0, 3, 200)[:, None])
    >>> pseudotime(adata, root=0)
    >>> bool(adata.obs["heatsketch_pseudotime"].is_monotonic_increasing)
    True
    """
    _check_writable(adata, options, copy=copy)
    roots = _roots(adata, root)
    source = _source(adata, use_rep, n_pcs, neighbors_key)
    X, given = _input(adata, source, {"n_neighbors": n_neighbors, "bandwidth": bandwidth})
    given |= {"n_components": 1, "random_state": 0, "power": power} | options
    model = METHODS["gaussian-process"](**given).fit(X, sample_weight=_weights(adata, weights_key))
    found = model.pseudotime(roots, kind=kind, interval=interval)
    branch = found.branches() if branches else None
    params = {"kind": kind, "interval": interval, "weights_key": weights_key} | source | given
    adata = _writable(adata, copy=copy)
    adata.obs[key_added] = found.time
    if interval is not None:
        adata.obs[f"{key_added}_low"], adata.obs[f"{key_added}_high"] = found.low, found.high
    if branch is not None:
        name = f"{key_added}_branch"
        adata.obs[name] = branch
        adata.obs[name] = adata.obs[name].astype("category").cat.rename_categories(str)  # in the order of numbers
    adata.uns[key_added] = _plain(
        {
            "params": {name: value for name, value in params.items() if value is not None},
            "version": __version__,
            "roots": np.unique(roots),
            "unit": found.unit,
            "across_gaps": int((found.gaps > 0).sum()),
        }
    )
    return adata if copy else None


def neighbors(
    adata: Any,
    n_neighbors: int = 15,
    *,
    use_rep: str | None = None,
    n_pcs: int | None = None,
    metric: str = "euclidean",
    bandwidth: float | str = "auto",
    key_added: str | None = None,
    copy: bool = False,
) -> Any:
    """Compute a neighbour graph with the search and the kernel of heatsketch, and store it where scanpy expects it.

    The search is exact, or for many cells by clusters with a measured recall. It needs no other package.

    Parameters
    ----------
    adata : AnnData of shape (n_cells, n_genes)
    n_neighbors : int, default=15
        Neighbours of each cell, with the cell itself, as in ``sc.pp.neighbors``.
    use_rep, n_pcs
        As for ``sc.pp.neighbors``.
    metric : str, default="euclidean"
    bandwidth : float or str, default="auto"
        "auto" gives each cell its own scale.
    key_added : str or None, default=None
        As for ``sc.pp.neighbors``.
    copy : bool, default=False
        Return a copy instead of writing to `adata`.

    Returns
    -------
    adata : AnnData or None
        The copy if `copy` is set. These fields are added:

        ``obsp["distances"]`` : csr_matrix of shape (n_cells, n_cells)
            Distances to the nearest cells.
        ``obsp["connectivities"]`` : csr_matrix of shape (n_cells, n_cells)
            The affinities of the heat kernel between neighbours, between 0 and 1 and symmetric.
        ``uns["neighbors"]`` : dict
            Keys and parameters.

    Examples
    --------
    >>> from anndata import AnnData
    >>> from heatsketch import datasets
    >>> from heatsketch.scanpy import neighbors
    >>> adata = AnnData(datasets.stretched_torus(200, random_state=0))
    >>> neighbors(adata)
    >>> sorted(adata.obsp)
    ['connectivities', 'distances']
    """
    _check_writable(adata, {"metric": metric}, copy=copy)
    k = check_count(n_neighbors, "n_neighbors", "at least 2, with the cell itself", least=2) - 1
    source = _source(adata, use_rep, n_pcs, None, follow=False)
    X = _in_memory(_representation(adata, source))
    if k + 2 > X.shape[0]:
        raise ValueError(f"n_neighbors={n_neighbors} was given for {X.shape[0]} cells; give a smaller number.")
    kernel = heat_kernel(X, n_neighbors=k, bandwidth=bandwidth, metric=metric)
    near = nearest_neighbors(check_points(X, KernelOptions(metric=metric)), k, metric)
    n = X.shape[0]
    ends = np.arange(0, n * k + 1, k)
    found = {
        "distances": sparse.csr_matrix((np.sqrt(near.squared).ravel(), near.indices.ravel(), ends), shape=(n, n)),
        "connectivities": sparse.csr_matrix(_affinities(kernel)),
    }
    names = {name: name if key_added is None else f"{key_added}_{name}" for name in found}
    params = {"n_neighbors": n_neighbors, "method": "gauss", "metric": metric, "random_state": 0} | source
    adata = _writable(adata, copy=copy)
    for name, graph in found.items():
        adata.obsp[names[name]] = graph
    adata.uns[key_added or "neighbors"] = {f"{name}_key": key for name, key in names.items()} | {"params": params}
    return adata if copy else None


def _affinities(kernel: Any) -> Any:
    """Affinities of a kernel of neighbours, without those of points with themselves, csr of shape (N, N)."""
    S, places, _ = kernel.graph()
    scale = sparse.diags_array(1.0 / kernel.scaling.scale)
    K = (scale @ S[places][:, places] @ scale).tocsr()
    K.setdiag(0.0)
    K.eliminate_zeros()
    return K.astype(np.float32)


def _in_memory(X: Any) -> Any:
    """A Dask array as a NumPy array; other arrays unchanged."""
    backend = distributed_backend(X)
    return X if backend is None else backend.gathered(X)


def _check_writable(adata: Any, options: Mapping[str, Any], *, copy: bool) -> None:
    """Raise ValueError before any work if the result could not be written to `adata` or its file."""
    if functions := [name for name, value in options.items() if callable(value)]:
        raise ValueError(f"{functions[0]} was given as a function, which files cannot hold; use the estimator itself.")
    if getattr(adata, "isbacked", False) and (copy or adata.is_view):
        raise ValueError("adata is in a file (backed), which cannot be copied; give adata.to_memory().")


def _writable(adata: Any, *, copy: bool) -> Any:
    """The object to write to: a copy on request; a view becomes a copy, with a warning."""
    if copy:
        return adata.copy()
    if getattr(adata, "is_view", False):
        warn("adata is a view of another object; results are written to a copy of its data.")
        adata._init_as_actual(adata.copy())
    return adata


def _roots(adata: Any, root: Any) -> Any:
    """Numbers of root cells from names, numbers, a mask, or ``uns["iroot"]``."""
    if root is None:
        if "iroot" not in adata.uns:
            raise ValueError("root is missing; give the name or the number of a cell, or set adata.uns['iroot'].")
        root = adata.uns["iroot"]
    given = np.atleast_1d(np.asarray(root))
    if given.dtype.kind in "OU":
        numbers = adata.obs_names.get_indexer_for(given)
        if (numbers < 0).any():
            name = str(given[numbers < 0][0])
            raise ValueError(f"root {name!r} is not in obs_names; give names of cells, or numbers, not both.")
        if len(numbers) > len(given):
            raise ValueError(
                f"root names {len(numbers)} cells, because names in obs_names are repeated; call "
                "adata.obs_names_make_unique(), or give numbers."
            )
        return numbers
    return np.flatnonzero(given) if given.dtype == bool and given.shape == (adata.n_obs,) else given


def _keys(key: str | None) -> tuple[str, str]:
    """Keys of the embedding in obsm and of its record in uns."""
    return ("X_heatsketch", "heatsketch") if key is None else (key, key)


def _weights(adata: Any, key: str | None) -> Any:
    """Sample weights in a column of obs, or None."""
    if key is None:
        return None
    if key not in adata.obs:
        raise ValueError(f"weights_key={key!r} is not a column of obs; the columns are {', '.join(adata.obs)}.")
    return adata.obs[key].to_numpy()


def _place(
    new: Any, reference: Any, record: Mapping[str, Any], embedding: Any, sample_weight: Any = None
) -> FloatArray:
    """Embed new cells with the kernel of the reference, which is built again."""
    Z = np.asarray(record["coefficients"])
    params = {**record["params"], **record["params"].get("kernel_params", {})}
    asked = {field.name for field in fields(KernelOptions)} & params.keys()
    chosen: dict[str, Any] = {"n_neighbors": _plain(record.get("n_neighbors"))}
    if not np.ndim(record["bandwidth"]):  # a rule that gives each cell its own gives the same again
        chosen["bandwidth"] = float(record["bandwidth"])
    options = KernelOptions(**{name: _plain(params[name]) for name in asked} | chosen)
    X = check_points(reference, options)
    kernel = build_heat_kernel(X, options, Z.dtype, check_masses(sample_weight, X.shape[0]))
    probes = _probes(len(Z))
    if _differ(kernel.at_new_points(X[probes], Z), np.asarray(embedding)[probes], embedding):
        raise ValueError("the reference has changed since it was embedded; run heat_sketch on it again.")
    with explained():
        new = check_array(new, accept_sparse="csr", dtype=X.dtype)
    return kernel.at_new_points(new, Z).astype(embedding.dtype, copy=False)


def _record(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, chosen values and coefficients, as values that h5ad and zarr files hold."""
    record = {
        "params": {name: value for name, value in params.items() if value is not None},
        "version": __version__,
        "power": asdict(model.power_) if isinstance(model.power_, MultiscaleFilter) else model.power_,
        "coefficients": _in_memory(model._coefficients),
    }
    chosen = {name: _in_memory(getattr(model, f"{name}_")) for name in ("bandwidth", "n_neighbors")}
    found: dict[str, Any] = _plain(record | {name: value for name, value in chosen.items() if value is not None})
    return found


def _examine(model: Any) -> dict[str, Any]:
    """The distortion and the findings; warns about harmful ones."""
    found = model.diagnose()
    for finding in found:
        if finding.harmful:
            warn(f"{finding.message} {finding.remedy}")
    examined = {
        "distortion": asdict(model.distortion()),
        "diagnosis": {finding.name: asdict(finding) for finding in found},
    }
    return {name: _plain(value) for name, value in examined.items()}


def _plain(value: Any) -> Any:
    """A value as files hold it: keys as strings, sequences as arrays, NumPy's scalars as Python's."""
    if isinstance(value, Mapping):
        return {f"{key}": _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return value.item() if isinstance(value, np.generic) else value


def _input(adata: Any, source: dict[str, Any], kernel: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What an estimator is fitted to, and its options of the kernel, which a graph has already."""
    if "neighbors_key" in source:
        return _neighbor_graph(adata, source["neighbors_key"]), {"affinity": "precomputed"}
    metric = {"metric": source["metric"]} if "metric" in source else {}
    return _representation(adata, source), kernel | metric


def _followed(adata: Any) -> dict[str, Any]:
    """What ``uns["neighbors"]`` was computed from, as options of `_source`; its graph if that is not known."""
    recorded = adata.uns.get(_NEIGHBORS)
    if recorded is None:
        return {}
    params = {name: _single(value) for name, value in recorded.get("params", {}).items()}
    if set(params) <= _PARAMS and params.get("method") in _SCANPY:
        return {name: params[name] for name in ("use_rep", "n_pcs", "metric") if params.get(name) is not None}
    return {"neighbors_key": _NEIGHBORS}


def _single(value: Any) -> Any:
    """A parameter as scanpy gives it, though files may hold it as an array of one value."""
    return value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value


def _source(
    adata: Any, use_rep: str | None, n_pcs: int | None, neighbors_key: str | None, *, follow: bool = True
) -> dict[str, Any]:
    """What is embedded: {"neighbors_key": ...}, or {"use_rep": ...} and possibly {"n_pcs": ...} and {"metric": ...}.

    If nothing is given, `follow` looks for what the neighbours in ``uns`` were computed from.
    """
    metric: dict[str, Any] = {}
    if follow and use_rep is None and n_pcs is None and neighbors_key is None:
        found = _followed(adata)
        use_rep, n_pcs, neighbors_key = (found.get(name) for name in ("use_rep", "n_pcs", "neighbors_key"))
        if found.get("metric", "euclidean") != "euclidean":
            metric = {"metric": found["metric"]}
    if neighbors_key is not None:
        if use_rep is not None or n_pcs is not None:
            raise ValueError(
                "neighbors_key was given with use_rep or n_pcs; a neighbour graph needs no representation."
            )
        return {"neighbors_key": neighbors_key}
    if n_pcs is not None:
        check_count(n_pcs, "n_pcs", "a number of columns, 0 for X, or None", least=0)
    if use_rep is None:
        use_rep = "X" if n_pcs == 0 or (adata.n_vars <= _FEW_GENES and n_pcs is None) else _PCA
    if use_rep == "X":
        if n_pcs:
            raise ValueError(f"n_pcs={n_pcs} was given with use_rep='X', whose columns are genes; leave one out.")
        return {"use_rep": "X"} | metric
    columns = _representation(adata, {"use_rep": use_rep}).shape[1]
    if n_pcs is not None and not 0 < n_pcs <= columns:
        raise ValueError(f"n_pcs={n_pcs} was given, and {use_rep!r} has {columns} columns; give at most as many.")
    return {"use_rep": use_rep} | ({} if n_pcs is None else {"n_pcs": n_pcs}) | metric


def _representation(adata: Any, source: Mapping[str, Any]) -> Any:
    """The matrix that is embedded, (n_cells, d)."""
    use_rep = str(source["use_rep"])
    if use_rep != "X":
        if use_rep not in adata.obsm:
            hint = "compute it with sc.pp.pca(adata)" if use_rep == _PCA else "compute it first"
            raise ValueError(
                f"obsm has no {use_rep!r}; {hint}, or name another with use_rep: {', '.join([*adata.obsm, 'X'])}."
            )
        X = adata.obsm[use_rep]
        return (X if sparse.issparse(X) or distributed_backend(X) else np.asarray(X))[:, : source.get("n_pcs")]
    if adata.X is None or adata.isbacked:
        raise ValueError("X is missing or not in memory; use adata.to_memory(), or name a representation with use_rep.")
    return adata.X


def _neighbor_graph(adata: Any, neighbors_key: str) -> Any:
    """Connectivities of a neighbour graph, (n_cells, n_cells)."""
    key = str(adata.uns.get(neighbors_key, {}).get("connectivities_key", "connectivities"))
    if neighbors_key not in adata.uns or key not in adata.obsp:
        raise ValueError(
            f"there is no neighbour graph {neighbors_key!r} in uns and obsp; compute one with sc.pp.neighbors(adata), "
            "or leave neighbors_key out."
        )
    return adata.obsp[key]


def _new_representation(adata: Any, adata_ref: Any, source: Mapping[str, Any], reference: Any) -> Any:
    """The coordinates of new cells that the reference has, (m, d)."""
    use_rep = str(source["use_rep"])
    if use_rep == _PCA:
        new = _project(adata, adata_ref, reference)
    else:
        new = _genes(adata, adata_ref) if use_rep == "X" else _representation(adata, source)
    if new.shape[1] != reference.shape[1]:
        raise ValueError(
            f"the new cells have {new.shape[1]} columns in {use_rep!r}, and the reference has {reference.shape[1]}; "
            "both must come from the same model."
        )
    if sparse.issparse(reference):
        return sparse.csr_array(new)
    return new.toarray() if sparse.issparse(new) else new


def _project(adata: Any, adata_ref: Any, reference: Any) -> Any:
    """New cells on the principal components of the reference, about its centre."""
    if _LOADINGS not in adata_ref.varm:
        raise ValueError(f"adata_ref.varm has no {_LOADINGS!r}; run sc.pp.pca and heat_sketch on the reference again.")
    loadings = np.asarray(adata_ref.varm[_LOADINGS])[:, : reference.shape[1]]
    probes = _probes(len(reference))
    # scanpy does not keep the centre of a PCA; it follows from any cell, and is zero if the PCA was not centred.
    offsets = _representation(adata_ref, {"use_rep": "X"})[probes] @ loadings - reference[probes]
    centre = np.asarray(offsets).mean(axis=0)
    if _differ(offsets, centre, reference):
        raise ValueError(
            f"adata_ref.obsm[{_PCA!r}] is not X times varm[{_LOADINGS!r}]: X has changed since sc.pp.pca, or cells "
            "were left out. Run sc.pp.pca and heat_sketch on the reference again."
        )
    return np.asarray(_genes(adata, adata_ref) @ loadings) - centre


def _genes(adata: Any, adata_ref: Any) -> Any:
    """X of the new cells, with genes in the order of the reference."""
    X = _representation(adata, {"use_rep": "X"})
    if adata.var_names.equals(adata_ref.var_names):
        return X
    missing = adata_ref.var_names.difference(adata.var_names)
    if len(missing) or not adata.var_names.is_unique:
        raise ValueError(
            f"the new cells lack {len(missing)} of the {adata_ref.n_vars} genes of the reference, or have some twice; "
            "give them the same genes (var_names), preprocessed in the same way."
        )
    return X[:, adata.var_names.get_indexer_for(adata_ref.var_names)]


def _probes(n: int) -> Any:
    """A few cells, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(int))


def _differ(found: Any, expected: Any, scale: Any) -> bool:
    """Whether two arrays differ by more than rounding, relative to a third."""
    return not float(np.abs(found - expected).max()) <= _AGREEMENT * float(np.abs(scale).max())
