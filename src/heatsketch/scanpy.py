"""Embeddings of AnnData objects, with the conventions of scanpy.

Neither scanpy nor anndata is imported: any object with ``obsm``, ``obsp``, ``uns`` and ``X`` will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from ._utils.tables import explained
from ._utils.text import did_you_mean
from ._utils.typing import FloatArray
from ._utils.warn import warn
from ._version import __version__
from .estimators import METHODS
from .io.cells import (
    PCA,
    add_embedding,
    embedded,
    in_memory,
    keys,
    plain,
    probes,
    record_of,
    representation,
    set_columns,
    source_of,
)
from .kernel.build import build_heat_kernel, heat_kernel
from .kernel.options import KernelOptions, check_choice, check_count, check_masses, check_points
from .layout.placement import Placement
from .neighbors.search import nearest_neighbors

__all__ = ["heat_sketch", "model", "neighbors", "place_cells", "pseudotime"]

# The loadings of a PCA by scanpy.
_LOADINGS = "PCs"
# Cells of a reference that are embedded again, to check that it is unchanged, and the relative error allowed.
_AGREEMENT = 1e-3


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
        :class:`HeatSketch` keeps neighbours and diffusion distances best; :class:`GaussianProcessEmbedding` is a random
        sketch, whose distances need many components; :class:`DiffusionMaps` computes eigenvectors.
    use_rep : str or None, default=None
        "X", or a key of ``adata.obsm`` such as "X_pca" or "X_scVI". By default the representation and the metric that
        ``sc.pp.neighbors`` recorded in ``uns["neighbors"]``; if another tool made these neighbours, their graph itself;
        if they were computed from an embedding by heatsketch, what that was computed from. Without neighbours, X if it
        has up to 50 genes, otherwise "X_pca".
    n_pcs : int or None, default=None
        Use only the first columns of `use_rep`, by default of what ``sc.pp.neighbors`` recorded, or of "X_pca" if it
        recorded X; 0 uses X, as in scanpy.
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
        Write to ``obsm[key_added]``, ``uns[key_added]`` and ``obs[f"{key_added}_trust"]``; by default "X_heatsketch",
        "heatsketch" and "heatsketch_trust".
    random_state : int or None, default=0
        Diffusion maps do not use it.
    diagnose : bool, default=True
        Whether to test the neighbours of each cell in the embedding, to measure the distortion and to look for common
        problems. This takes about as long as the embedding, and longer than a Gaussian process embedding.
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
        ``obs["heatsketch_trust"]`` : float
            With `diagnose`, the share of each cell's 15 nearest neighbours in the embedding that are near in the data,
            too (:meth:`HeatSketch.unsupported_neighbors`). Of more than 5,000 cells a random sample of that size is
            tested, and the others are NaN. Dask arrays are not tested.
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
    model : The estimator of the embedding, for reports and intervals.

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
    _check_options(heat_sketch, method, options)
    source = source_of(adata, use_rep, n_pcs, neighbors_key, metric=options.get("metric"))
    params = {"method": method, "weights_key": weights_key, "n_components": n_components, "power": power}
    params |= {"random_state": random_state} | source | _kernel(source, n_neighbors, bandwidth) | options
    fitted = _fitted(adata, method, params)
    record, trust = record_of(fitted, params, diagnose=diagnose)
    adata = _writable(adata, copy=copy)
    add_embedding(adata, fitted.embedding_, record, trust, key=key_added)
    return adata if copy else None


def place_cells(adata: Any, adata_ref: Any, *, key: str | None = None, copy: bool = False) -> Any:
    """Place new cells in the embedding of a reference.

    Each new cell is placed by its own row of the heat kernel, as by `transform`. The cells of the reference do not
    move, and the position of a new cell does not depend on the other new cells. If principal components were embedded,
    new cells are projected on those of the reference, with its centre.

    Parameters
    ----------
    adata : AnnData
        New cells, with the genes of the reference in any order and the same preprocessing, which is not checked. If
        the reference was embedded from another key of ``obsm`` than "X_pca", the new cells need that key, from the same
        fitted model or computed for all cells together: a separate run of Harmony gives another space.
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
    _check_writable(adata, {}, copy=copy)
    basis, record = _recorded(adata_ref, key)
    params = record["params"]
    if "neighbors_key" in params:
        raise ValueError(
            f"{basis!r} was made from the neighbour graph {params['neighbors_key']!r}, which new cells are not in; "
            "embed a representation of the reference instead, such as use_rep='X_pca'."
        )
    reference = in_memory(representation(adata_ref, params))
    new = _new_representation(adata, adata_ref, params, reference)
    weights = _weights(adata_ref, params.get("weights_key"))
    placed = _place(new, reference, record, adata_ref.obsm[basis], weights)
    same = adata is adata_ref
    adata = _writable(adata, copy=copy)
    if same:
        adata.obsm[basis] = placed
    else:  # a record of the new cells is that of an earlier embedding
        add_embedding(adata, placed, key=key)
    return adata if copy else None


def model(adata: Any, *, key: str | None = None) -> Any:
    """Return the fitted estimator of an embedding, for reports, intervals of distances and other diffusion times.

    It is fitted again with the parameters in ``uns``, which takes as long as `heat_sketch` without the diagnosis. Its
    samples have the names in ``obs_names``.

    Parameters
    ----------
    adata : AnnData
        With an embedding by `heat_sketch`, and the representation it was made from.
    key : str or None, default=None
        The `key_added` of the embedding.

    Returns
    -------
    model : HeatSketch, GaussianProcessEmbedding or DiffusionMaps
        Its ``embedding_`` is that in ``obsm``. If the fit gives another one, because cells were changed or
        `random_state` was None, ValueError is raised.

    Examples
    --------
    >>> from anndata import AnnData
    >>> from heatsketch import datasets
    >>> from heatsketch.scanpy import heat_sketch, model
    >>> adata = AnnData(datasets.stretched_torus(200, random_state=0))
    >>> heat_sketch(adata, diagnose=False)
    >>> drawn, low, high = model(adata).diffusion_distances([["0", "1"]], interval=0.95)
    """
    basis, record = _recorded(adata, key)
    if "classes_key" in record["params"]:
        raise ValueError(
            f"{basis!r} was made on the command line with --classes, which is not repeated here; give --save there, "
            "and load the model with heatsketch.load_model."
        )
    # Records hold no None, which n_neighbors may be.
    params = ({} if "neighbors_key" in record["params"] else {"n_neighbors": None}) | plain(record["params"])
    fitted = _fitted(adata, params["method"], params)
    some, embedding = probes(adata.n_obs), np.asarray(adata.obsm[basis])
    if _differ(in_memory(fitted.embedding_)[some], embedding[some], embedding):
        raise ValueError(
            f"the parameters of {basis!r} give another embedding: the cells have changed, or random_state was None, or "
            "another version or machine computed it. Run heat_sketch again."
        )
    fitted._sample_names = adata.obs_names
    return fitted


def pseudotime(
    adata: Any,
    root: Any = None,
    *,
    kind: str = "auto",
    interval: float | None = None,
    branches: bool = False,
    min_length: float = 0.2,
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
    """Distance of every cell from root cells along the data, between 0 and 1, on request with intervals.

    Unlike the times of ``sc.tl.dpt`` these are finite on every component of the neighbour graph, if a representation is
    used (:meth:`heatsketch.GaussianProcessEmbedding.pseudotime`).

    Parameters
    ----------
    adata : AnnData of shape (n_cells, n_genes)
    root : str, int, sequence of either, boolean mask of shape (n_cells,), or None, default=None
        Names or numbers of the root cells, or a group such as ``adata.obs["kind"] == "stem"``; by default
        ``adata.uns["iroot"]``, as for ``sc.tl.dpt``.
    kind : {"auto", "path", "geodesic", "diffusion"}, default="auto"
        Lengths of shortest paths along the neighbour graph, lengths along the data, or diffusion distances. "auto" is
        "path", or "geodesic" if there is an interval or no neighbour graph.
    interval : float in (0, 1) or None, default=None
        Level of intervals, such as 0.95. Paths have none, so that an interval changes ``kind="auto"`` from "path" to
        "geodesic", and with it the times. Give another `key_added` to keep both. The interval covers the numerical
        error of the sketch only. It does not cover noise, sampling or biology.
    branches : bool, default=False
        Whether to find branches, too (:meth:`heatsketch.Pseudotime.branches`). With paths this takes next to no time,
        with geodesic distances each branch takes about as long as the time.
    min_length : float in (0, 1), default=0.2
        Length of the shortest branch, in units of the time.
    use_rep, n_pcs, neighbors_key, n_neighbors, bandwidth, power, weights_key
        As for `heat_sketch`.
    key_added : str, default="heatsketch_pseudotime"
        Fields of an earlier call with this key are replaced or removed.
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
            The interval, if `interval` is given.
        ``obs["heatsketch_pseudotime_branch"]`` : categorical
            If `branches` is set. Numbered by the earliest cell, so that the branch of a root is "0".
        ``obs["heatsketch_pseudotime_gaps"]`` : int
            How many gaps between components were crossed on the way to each cell, if there are components without a
            root.
        ``uns["heatsketch_pseudotime"]`` : dict
            ``params`` as given, the ``kind`` that was computed, numbers of the ``roots``, the ``unit`` that was scaled
            to 1, and how many cells were reached ``across_gaps``.

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
    method = "gaussian-process"
    _check_options(pseudotime, method, options)
    roots = _roots(adata, root)
    source = source_of(adata, use_rep, n_pcs, neighbors_key, metric=options.get("metric"))
    params = {"kind": kind, "interval": interval, "weights_key": weights_key} | source
    params |= _kernel(source, n_neighbors, bandwidth) | {"n_components": 1, "random_state": 0, "power": power} | options
    found = _fitted(adata, method, params).pseudotime(roots, kind=kind, interval=interval)
    branch = found.branches(min_length) if branches else None
    adata = _writable(adata, copy=copy)
    columns = {"": found.time, "_low": found.low, "_high": found.high, "_branch": branch}
    columns["_gaps"] = found.gaps if found.gaps.any() else None
    set_columns(adata, {f"{key_added}{end}": values for end, values in columns.items()})
    if branch is not None:
        name = f"{key_added}_branch"
        adata.obs[name] = adata.obs[name].astype("category").cat.rename_categories(str)  # in the order of numbers
    adata.uns[key_added] = plain(
        {
            "params": {name: value for name, value in params.items() if value is not None},
            "version": __version__,
            "kind": found.kind,
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
    metric: str | None = None,
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
        As for `heat_sketch`: by default what ``sc.pp.neighbors`` recorded in ``uns["neighbors"]``, otherwise X or
        "X_pca".
    metric : str or None, default=None
        By default the metric that was recorded with the representation, with its parameters, otherwise "euclidean".
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
    source = source_of(adata, use_rep, n_pcs, metric=metric)
    if "neighbors_key" in source:
        raise ValueError(
            f"uns[{source['neighbors_key']!r}] was written by another tool, which does not say what it was computed "
            "from; name a representation with use_rep, and give key_added to keep that graph."
        )
    X, metric = in_memory(representation(adata, source)), metric or source.pop("metric", "euclidean")
    metric_params = source.pop("metric_params", None)
    if k + 2 > X.shape[0]:
        raise ValueError(f"n_neighbors={n_neighbors} was given for {X.shape[0]} cells; give a smaller number.")
    kernel = heat_kernel(X, n_neighbors=k, bandwidth=bandwidth, metric=metric, metric_params=metric_params)
    options = KernelOptions(metric=metric, metric_params=metric_params)
    near = nearest_neighbors(check_points(X, options), k, options.measure)
    n = X.shape[0]
    ends = np.arange(0, n * k + 1, k)
    found = {
        "distances": sparse.csr_matrix((np.sqrt(near.squared).ravel(), near.indices.ravel(), ends), shape=(n, n)),
        "connectivities": sparse.csr_matrix(_affinities(kernel)),
    }
    names = {name: name if key_added is None else f"{key_added}_{name}" for name in found}
    params = {"n_neighbors": n_neighbors, "method": "gauss", "random_state": 0} | source | {"metric": metric}
    if metric_params:
        params["metric_kwds"] = metric_params
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


def _check_anndata(adata: Any) -> None:
    """Raise TypeError for anything else."""
    if not (hasattr(adata, "obsm") and hasattr(adata, "uns")):
        raise TypeError(
            f"{type(adata).__name__} was given where AnnData is needed; give the AnnData object itself, and name a "
            "representation with use_rep. For arrays use heatsketch.HeatSketch."
        )


def _check_options(tool: Callable[..., Any], method: str, options: Mapping[str, Any]) -> None:
    """Raise TypeError for an option that neither the function nor its estimator has."""
    known = dict.fromkeys([*signature(tool).parameters, *signature(METHODS[method]).parameters])
    listed = [name for name in known if name not in ("adata", "options", "use_labels")]  # there is no y
    for name in options:
        if name not in listed:
            hint = did_you_mean(name, listed)
            raise TypeError(f"{tool.__name__}() has no parameter {name!r}.{hint} It accepts {', '.join(listed)}.")


def _check_writable(adata: Any, options: Mapping[str, Any], *, copy: bool) -> None:
    """Raise an error before any work if the result could not be written to `adata` or its file."""
    _check_anndata(adata)
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
    what, n = "root", adata.n_obs
    if root is None:
        if "iroot" not in adata.uns:
            raise ValueError("root is missing; give the name or the number of a cell, or set adata.uns['iroot'].")
        root, what = adata.uns["iroot"], "uns['iroot']"
    given = np.atleast_1d(np.asarray(root))
    if given.dtype == bool and given.shape == (n,):
        if not given.any():
            raise ValueError(f"the mask {what} has no True among {n} cells; is the name of the group spelled right?")
        return np.flatnonzero(given)
    if given.dtype.kind in "OU":
        return _named(adata, given, what)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(
            f"{what} of shape {given.shape} and dtype {given.dtype} was given; give names or numbers of cells, or a "
            f"boolean mask of shape ({n},)."
        )
    if given.min() < 0 or given.max() >= n:
        wrong = given[(given < 0) | (given >= n)][0]
        raise ValueError(f"{what} has {wrong}; the numbers of {n} cells lie between 0 and {n - 1}.")
    return given


def _named(adata: Any, names: Any, what: str) -> Any:
    """Numbers of cells by their names in obs_names."""
    numbers = adata.obs_names.get_indexer_for(names)
    if (numbers < 0).any():
        name = str(names[numbers < 0][0])
        raise ValueError(
            f"{what} {name!r} is not in obs_names, which are like {str(adata.obs_names[0])!r}. To start from a group, "
            f"give a mask, such as root=adata.obs['kind'] == {name!r}."
        )
    if len(numbers) > len(names):
        raise ValueError(
            f"{what} names {len(numbers)} cells, because names in obs_names are repeated; call "
            "adata.obs_names_make_unique(), or give numbers."
        )
    return numbers


def _recorded(adata: Any, key: str | None) -> tuple[str, Any]:
    """The key of an embedding by `heat_sketch`, and its record."""
    _check_anndata(adata)
    basis, name = keys(key)
    if basis not in adata.obsm:
        raise ValueError(f"adata has no embedding {basis!r}; run heatsketch.scanpy.heat_sketch on it first.")
    if name not in adata.uns:
        raise ValueError(
            f"obsm[{basis!r}] has no record in uns[{name!r}] of how it was made, as after place_cells; run "
            "heatsketch.scanpy.heat_sketch on adata first."
        )
    record = adata.uns[name]
    n_cells, n_components = map(int, record["layout"]["shape"] if "layout" in record else record["coefficients"].shape)
    if n_cells != adata.n_obs:
        raise ValueError(
            f"adata has {adata.n_obs} cells, and had {n_cells} when it was embedded; run heat_sketch on it again."
        )
    if (found := adata.obsm[basis].shape[1]) != n_components:
        raise ValueError(
            f"obsm[{basis!r}] has {found} components, and uns[{name!r}] describes an embedding with {n_components}; "
            "run heat_sketch on adata again."
        )
    return basis, record


def _weights(adata: Any, key: str | None) -> Any:
    """Sample weights in a column of obs, or None."""
    if key is None:
        return None
    if key not in adata.obs:
        columns = f"the columns are {', '.join(adata.obs)}" if len(adata.obs.columns) else "obs has no columns"
        raise ValueError(f"weights_key={key!r} is not a column of obs; {columns}.")
    weights = adata.obs[key].to_numpy()
    if (weights == 0).any():
        raise ValueError(
            f"{(weights == 0).sum()} of {len(weights)} values of obs[{key!r}] are zero. Leave these cells out, and "
            "place them with heatsketch.scanpy.place_cells."
        )
    return weights


def _place(
    new: Any, reference: Any, record: Mapping[str, Any], embedding: Any, sample_weight: Any = None
) -> FloatArray:
    """Embed new cells with the kernel of the reference, which is built again."""
    params = {**record["params"], **record["params"].get("kernel_params", {})}
    asked = {field.name for field in fields(KernelOptions)} & params.keys()
    chosen: dict[str, Any] = {"n_neighbors": plain(record.get("n_neighbors"))}
    if not np.ndim(record["bandwidth"]):  # a rule that gives each cell its own gives the same again
        chosen["bandwidth"] = float(record["bandwidth"])
    options = KernelOptions(**{name: plain(params[name]) for name in asked} | chosen)
    X = check_points(reference, options)
    dtype = X.dtype if "layout" in record else record["coefficients"].dtype
    kernel = build_heat_kernel(X, options, dtype, check_masses(sample_weight, X.shape[0]))
    some, embedding = probes(X.shape[0]), np.asarray(embedding)
    if "layout" in record:
        layout = record["layout"]
        if "unit" not in layout:
            raise ValueError(
                "the reference was embedded on a cluster, by a sample of its cells; new cells are placed by "
                "HeatSketch().fit(...) and transform, or fit to the reference in memory."
            )
        place = Placement(kernel, embedding, float(layout["unit"]), bool(layout["repelled"])).place
        changed = _differ(kernel.scaling.scale[some], layout["scales"], layout["scales"])  # type: ignore[union-attr]
        changed = changed or _differ(embedding[some], layout["places"], embedding)
    else:
        place = partial(kernel.at_new_points, Z=np.asarray(record["coefficients"]))
        changed = _differ(place(X[some]), embedding[some], embedding)
    if changed:
        raise ValueError("the reference has changed since it was embedded; run heat_sketch on it again.")
    with explained():
        new = check_array(new, accept_sparse="csr", dtype=X.dtype)
    return place(new).astype(embedding.dtype, copy=False)


def _kernel(source: Mapping[str, Any], n_neighbors: Any, bandwidth: Any) -> dict[str, Any]:
    """Options of the kernel, which a graph has already."""
    if "neighbors_key" in source:
        return {"affinity": "precomputed"}
    return {"n_neighbors": n_neighbors, "bandwidth": bandwidth}


def _fitted(adata: Any, method: str, params: Mapping[str, Any]) -> Any:
    """The estimator with those of the parameters that it has, fitted to the representation or graph that they name."""
    kind = METHODS[method]
    options = {name: value for name, value in params.items() if name in signature(kind).parameters}
    return kind(**options).fit(embedded(adata, params), sample_weight=_weights(adata, params.get("weights_key")))


def _new_representation(adata: Any, adata_ref: Any, source: Mapping[str, Any], reference: Any) -> Any:
    """The coordinates of new cells that the reference has, (m, d)."""
    use_rep = str(source["use_rep"])
    if use_rep == PCA:
        new = _project(adata, adata_ref, reference)
    elif use_rep == "X":
        new = _genes(adata, adata_ref)
    else:
        if use_rep not in adata.obsm:
            raise ValueError(
                f"the new cells have no obsm[{use_rep!r}], from which the reference was embedded. It must be in the "
                "same space: from the same fitted model, or computed for all cells together. A separate run, such as "
                "Harmony on the new cells, gives another space. Otherwise embed the reference from 'X_pca'."
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


def _project(adata: Any, adata_ref: Any, reference: Any) -> Any:
    """New cells on the principal components of the reference, about its centre."""
    if _LOADINGS not in adata_ref.varm:
        raise ValueError(f"adata_ref.varm has no {_LOADINGS!r}; run sc.pp.pca and heat_sketch on the reference again.")
    loadings = np.asarray(adata_ref.varm[_LOADINGS])[:, : reference.shape[1]]
    some = probes(len(reference))
    # scanpy does not keep the centre of a PCA; it follows from any cell, and is zero if the PCA was not centred.
    offsets = representation(adata_ref, {"use_rep": "X"})[some] @ loadings - reference[some]
    centre = np.asarray(offsets).mean(axis=0)
    if _differ(offsets, centre, reference):
        raise ValueError(
            f"adata_ref.obsm[{PCA!r}] is not X times varm[{_LOADINGS!r}]: X has changed since sc.pp.pca, or cells "
            "were left out. Run sc.pp.pca and heat_sketch on the reference again."
        )
    return np.asarray(_genes(adata, adata_ref) @ loadings) - centre


def _genes(adata: Any, adata_ref: Any) -> Any:
    """X of the new cells, with genes in the order of the reference."""
    X = representation(adata, {"use_rep": "X"})
    if adata.var_names.equals(adata_ref.var_names):
        return X
    missing = adata_ref.var_names.difference(adata.var_names)
    if len(missing) or not adata.var_names.is_unique:
        raise ValueError(
            f"the new cells lack {len(missing)} of the {adata_ref.n_vars} genes of the reference, or have some twice; "
            "give them the same genes (var_names), preprocessed in the same way."
        )
    return X[:, adata.var_names.get_indexer_for(adata_ref.var_names)]


def _differ(found: Any, expected: Any, scale: Any) -> bool:
    """Whether two arrays differ by more than rounding, relative to a third."""
    return not float(np.abs(found - expected).max()) <= _AGREEMENT * float(np.abs(scale).max())
