"""Methods that the study of the defaults compares: distances and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist, squareform
from sklearn.neighbors import kneighbors_graph

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray

from .fits import fits

__all__ = [
    "BEFORE",
    "COLUMNS",
    "EARLIER",
    "EMBEDDINGS",
    "METHODS",
    "METRICS",
    "OURS",
    "OUR_GEODESICS",
    "PUBLISHED_DIFFUSION",
    "RAW",
    "UMAP",
]

_GPE = "GaussianProcessEmbedding"
_COLUMNS = 64
# Settings of the earlier version: its defaults, power 8 and one bandwidth; its automatic choice of both; and its rule
# for the diffusion time with the kernel that is the default now.
BEFORE: dict[str, dict[str, Any]] = {
    "defaults": {},
    "auto": {"power": "auto"},
    "15 neighbours, entropy": {"n_neighbors": 15, "bandwidth": "self-tuning", "power": "entropy"},
}


# Each method takes points, the indices of some rows and a seed. It yields the name of each setting and the distances of
# these rows to all points. The first setting is the default, or the one that the authors use.
Found = Iterator[tuple[str, FloatArray]]


def _multiscale(X: FloatArray, rows: IntArray, seed: int) -> Found:
    model = hs.GaussianProcessEmbedding(_COLUMNS, random_state=seed).fit(X)
    yield "exact", squareform(hs.diffusion_distances(model.kernel_, model.power_))[rows]
    yield "64 columns", cdist(model.embedding_[rows], model.embedding_)


def _geodesic_distances(X: FloatArray, rows: IntArray, seed: int) -> Found:
    model = hs.GaussianProcessEmbedding(_COLUMNS, random_state=seed).fit(X)
    yield "exact", squareform(hs.geodesic_distances(model.kernel_, model.power_))[rows]
    yield "128 columns", squareform(model.geodesic_distances())[rows]


def _before(X: FloatArray, rows: IntArray, seed: int) -> Found:
    wanted = [_fit("distances", 1, seed, options) for options in BEFORE.values()]
    for name, distances in zip(BEFORE, fits(X, wanted, before=True), strict=True):
        yield name, squareform(distances)[rows]


def _fit(returns: str, k: int, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    given = {"n_components": k, "random_state": seed} | options
    return {"estimator": _GPE, "options": given, "returns": returns}


def _shortest_paths(X: FloatArray, rows: IntArray, _: int) -> Found:
    for k in (10, 5, 15, 30):
        graph = kneighbors_graph(X, k, mode="distance")
        yield f"{k} neighbours", shortest_path(graph, directed=False, indices=rows)


def _phate(X: FloatArray, rows: IntArray, seed: int) -> Found:
    import phate  # noqa: PLC0415

    for k, t in ((5, "auto"), (5, 20), (15, 20), (15, 80)):
        model = phate.PHATE(knn=k, t=t, n_landmark=None, random_state=seed, n_jobs=1, verbose=False).fit(X)
        model._calculate_potential()  # without the layout in the plane
        yield f"{k} neighbours, t = {t}", cdist(model.diff_potential[rows], model.diff_potential)


def _scanpy(X: FloatArray, rows: IntArray, seed: int) -> Found:
    import anndata  # noqa: PLC0415
    import scanpy  # noqa: PLC0415

    for k in (15, 30):
        cells = anndata.AnnData(X)
        scanpy.pp.neighbors(cells, n_neighbors=k, use_rep="X", random_state=seed)
        scanpy.tl.diffmap(cells, random_state=seed)
        Y = cells.obsm["X_diffmap"][:, 1:]  # eigenvectors without weights, and without the trivial one
        yield f"{k} neighbours", cdist(Y[rows], Y)


def _heat_geodesics(X: FloatArray, rows: IntArray, _: int) -> Found:
    """``sqrt(-4 t log H_t)``, where H_t is the heat kernel of the neighbour graph (Huguet et al., 2023)."""
    for k in (10, 5):
        W = _symmetric_graph(X, k)
        root = np.sqrt(W.sum(axis=1))
        values, U = np.linalg.eigh(np.eye(len(X)) - W / np.outer(root, root))
        for t in (50, 5, 20, 200):
            H = (U[rows] * np.exp(-t * values)) @ U.T
            yield f"{k} neighbours, t = {t}", np.sqrt(np.maximum(-4.0 * t * np.log(np.maximum(H, 1e-300)), 0.0))


def _symmetric_graph(X: FloatArray, n_neighbors: int) -> FloatArray:
    """Adjacency matrix of the symmetric, unweighted neighbour graph, shape (n, n)."""
    W = kneighbors_graph(X, n_neighbors).toarray()
    return np.maximum(W, W.T)


OURS, OUR_GEODESICS, EARLIER = "multiscale", "geodesic_distances", "before"
METHODS: dict[str, Callable[[FloatArray, IntArray, int], Found]] = {
    OURS: _multiscale,
    OUR_GEODESICS: _geodesic_distances,
    EARLIER: _before,
    "shortest paths": _shortest_paths,
    "PHATE's potential": _phate,
    "scanpy's diffusion map": _scanpy,
    "heat geodesics": _heat_geodesics,
}


RAW, UMAP = "all features", "UMAP, 20 dimensions"
COLUMNS = f"{_GPE}({_COLUMNS})"


# Each package takes points and a seed. It yields the names of its methods and their embeddings.
Embedded = Iterator[tuple[str, FloatArray]]


def _present(X: FloatArray, seed: int) -> Embedded:
    yield COLUMNS, hs.GaussianProcessEmbedding(_COLUMNS, random_state=seed).fit_transform(X)
    yield f"DiffusionMaps({_COLUMNS})", hs.DiffusionMaps(_COLUMNS).fit_transform(X)


def _umap(X: FloatArray, seed: int) -> Embedded:
    from umap import UMAP as Peer  # noqa: N811, PLC0415

    for name, options in ((UMAP, {}), (f"{UMAP}, for clusters", {"n_neighbors": 30, "min_dist": 0.0})):
        yield name, Peer(n_components=20, random_state=seed, n_jobs=1, **options).fit_transform(X)


def _embedded_before(X: FloatArray, seed: int) -> Embedded:
    wanted = [_fit("embedding", _COLUMNS, seed, options) for options in BEFORE.values()]
    for name, Y in zip(BEFORE, fits(X, wanted, before=True), strict=True):
        yield f"{EARLIER}: {name}", Y


EMBEDDINGS: dict[str, Callable[[FloatArray, int], Embedded]] = {
    "heatsketch": _present,
    "umap-learn": _umap,
    EARLIER: _embedded_before,
    "none": lambda X, _: iter([(RAW, X)]),
}


def _published_diffusion(X: FloatArray) -> FloatArray:
    """Diffusion distances at t = 8 on the unweighted graph of 15 neighbours (Damrich, Berens and Kobak, 2024)."""
    W = _symmetric_graph(X, 15)
    root = np.sqrt(W.sum(axis=1))
    values, U = np.linalg.eigh(W / np.outer(root, root))
    Y = U / root[:, None] * values**8
    return cdist(Y, Y)


def _resistance(X: FloatArray) -> FloatArray:
    """Effective resistances on the same graph, corrected for degrees."""
    W = _symmetric_graph(X, 15)
    degree = W.sum(axis=1)
    inverse = np.linalg.pinv(np.diag(degree) - W, hermitian=True)
    R = np.add.outer(np.diag(inverse), np.diag(inverse)) - 2.0 * inverse
    R += 2.0 * W / np.outer(degree, degree) - np.add.outer(1.0 / degree, 1.0 / degree)
    np.fill_diagonal(R, 0.0)
    return np.maximum(R, 0.0)


PUBLISHED_DIFFUSION = "kNN diffusion distances, t = 8"
METRICS: dict[str, Callable[[FloatArray], FloatArray]] = {
    OURS: lambda X: squareform(hs.diffusion_distances(hs.heat_kernel(X), "auto")),
    PUBLISHED_DIFFUSION: _published_diffusion,
    "effective resistance": _resistance,
    "Euclidean distances": lambda X: cdist(X, X),
}
