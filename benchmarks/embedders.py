"""Embeddings with 10 components at diffusion time 16, by heatsketch and by other packages.

Each method returns two functions that are called after the timing: one for its coordinates (eigenvectors times powers
of eigenvalues), and one for the diffusion operator that it built.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh, lobpcg

import heatsketch as hs
from heatsketch_paper.harness.process import peak_memory

from . import data as points
from .exactness import NEIGHBORS, POWER, Own, Row, evaluate, own_of

__all__ = ["COMPONENTS", "MAPS", "METHODS", "OURS", "embeddings"]

COMPONENTS = 10
_TREE_FEATURES = 10  # with more features brute force is faster than space-partitioning trees

Embedded = tuple[Callable[[], Any], Callable[[], Own] | None]
Run = Callable[[Any], Embedded]


class Method(NamedTuple):
    """A method: its function, the package whose version is recorded, and the number of points of the warm-up."""

    run: Run
    package: str
    warm_points: int


METHODS: dict[str, Method] = {}
OURS, MAPS = "heatsketch", "heatsketch DiffusionMaps"
_FEW, _MANY = 500, 20_000  # points of a warm-up: many if large data run other compiled code than small data


def _method(name: str, package: str = OURS, warm_points: int = _MANY) -> Callable[[Run], Run]:
    """Register a function as a method."""

    def declare(run: Run) -> Run:
        METHODS[name] = Method(run, package, warm_points)
        return run

    return declare


def _ours(options: Row, X: Any) -> Embedded:
    estimator = getattr(hs, options.get("estimator", "GaussianProcessEmbedding"))
    defaults = {"n_components": COMPONENTS, "power": POWER}
    model = estimator(**defaults | {key: value for key, value in options.items() if key != "estimator"})
    Y = model.fit_transform(X)
    return lambda: Y, lambda: own_of(model.kernel_)


for _name, _options in {
    OURS: {"random_state": 0},
    "heatsketch symmetric": {"normalization": "symmetric", "n_neighbors": NEIGHBORS, "random_state": 0},
    "heatsketch k=32": {"n_components": 32, "random_state": 0},
    "heatsketch 10 exact + 10": {"n_components": 20, "n_exact": 10, "random_state": 0},
    "heatsketch 16 exact + 16": {"n_components": 32, "n_exact": 16, "random_state": 0},
    MAPS: {"estimator": "DiffusionMaps"},
    f"{MAPS} 30 neighbours": {"estimator": "DiffusionMaps", "n_neighbors": NEIGHBORS},
    f"{MAPS} k=32": {"estimator": "DiffusionMaps", "n_components": 32},
}.items():
    _method(_name)(partial(_ours, _options))


def _solved(solve: Callable[[Any, int], tuple[Any, Any]], X: Any) -> Embedded:
    """Eigenvectors of the kernel of heatsketch by a solver of SciPy."""
    A = hs.heat_kernel(X, n_neighbors=NEIGHBORS)

    def product(V: Any) -> Any:
        return A.symmetric @ V

    values, vectors = solve(LinearOperator(A.shape, matvec=product, matmat=product, dtype=A.dtype), COMPONENTS + 1)
    order = np.argsort(values)[::-1][1:]
    Y = A.weigh_rows(vectors[:, order] * values[order] ** POWER)
    return lambda: Y, lambda: own_of(A)


def _arpack(A: Any, k: int) -> tuple[Any, Any]:
    v0 = np.random.default_rng(0).standard_normal(A.shape[0]).astype(A.dtype)
    return eigsh(A, k=k, which="LA", tol=1e-3, v0=v0)


def _lobpcg(A: Any, k: int) -> tuple[Any, Any]:
    guess = np.random.default_rng(0).standard_normal((A.shape[0], k)).astype(A.dtype)
    guess[:, 0] = 1.0  # the trivial eigenvector is known
    return lobpcg(A, guess, tol=1e-3, maxiter=200, largest=True)


_method("eigsh on our kernel")(partial(_solved, _arpack))
_method("LOBPCG on our kernel")(partial(_solved, _lobpcg))


def _markov(W: Any, right: Any, values: Any = None) -> Embedded:
    """Coordinates from right eigenvectors of the Markov matrix of a symmetric affinity, in any scaling.

    Diffusion distances need eigenvectors of unit norm under the stationary distribution, times powers of the
    eigenvalues. By default the eigenvalues are Rayleigh quotients.
    """

    def coordinates() -> Any:
        degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        norms = (degrees[:, None] * np.square(right, dtype=np.float64)).sum(axis=0)
        eigenvalues = np.einsum("ij,ij->j", right, W @ right) / norms if values is None else np.asarray(values)
        return right / np.sqrt(norms) * eigenvalues**POWER

    return coordinates, lambda: Own.from_affinity(W, weighted=True)


def _sklearn(solver: str, X: Any) -> Embedded:
    from sklearn.manifold import SpectralEmbedding  # noqa: PLC0415

    options: Row = {"affinity": "nearest_neighbors", "n_neighbors": NEIGHBORS, "random_state": 0, "n_jobs": -1}
    model = SpectralEmbedding(COMPONENTS, eigen_solver=solver, **options)
    Y = model.fit_transform(X)
    return _markov(model.affinity_matrix_.tocsr().astype(np.float64), Y)


_method("SpectralEmbedding", "scikit-learn", _FEW)(partial(_sklearn, "arpack"))
_method("SpectralEmbedding AMG", "scikit-learn", _FEW)(partial(_sklearn, "amg"))


@_method("Palantir", "palantir")
def _palantir(X: Any) -> Embedded:
    from palantir.utils import run_diffusion_maps  # noqa: PLC0415

    found = run_diffusion_maps(pd.DataFrame(X), n_components=COMPONENTS + 1, knn=NEIGHBORS, seed=0)
    right, values = found["EigenVectors"].to_numpy()[:, 1:], found["EigenValues"].to_numpy()[1:]
    return _markov(found["kernel"], right, values)


@_method("TopOMetry", "topometry", _FEW)
def _topometry(X: Any) -> Embedded:
    """TopOMetry's kernel and eigenvectors, without the layouts of TopOGraph."""
    from topo.spectral.eigen import EigenDecomposition  # noqa: PLC0415
    from topo.tpgraph.kernels import Kernel  # noqa: PLC0415

    kernel = Kernel(metric="euclidean", n_neighbors=NEIGHBORS, n_jobs=-1, backend="hnswlib").fit(X)
    model = EigenDecomposition(n_components=COMPONENTS, method="DM", t=POWER, estimate_eigengap=False, random_state=0)
    model.fit_transform(kernel)
    values, vectors = model.eigenvalues, model.eigenvectors  # the trivial ones are not included
    inverse = np.asarray(kernel.D_inv_sqrt_.diagonal(), dtype=np.float64)
    return (
        lambda: vectors / np.linalg.norm(vectors / inverse[:, None], axis=0) * values**POWER,
        lambda: Own(kernel.P.tocsr().astype(np.float64), weight=inverse),
    )


@_method("scanpy diffmap", "scanpy")
def _scanpy(X: Any) -> Embedded:
    import anndata  # noqa: PLC0415
    import scanpy  # noqa: PLC0415

    cells = anndata.AnnData(X)
    scanpy.pp.neighbors(cells, n_neighbors=NEIGHBORS, use_rep="X")
    scanpy.tl.diffmap(cells, n_comps=COMPONENTS + 1)
    vectors, values = cells.obsm["X_diffmap"][:, 1:], cells.uns["diffmap_evals"][1:]

    def own() -> Own:
        W = cells.obsp["connectivities"].astype(np.float64)
        density = sparse.diags(1.0 / np.asarray(W.sum(axis=0)).ravel())
        return Own.from_affinity(density @ W @ density, weighted=False)

    return lambda: vectors * values**POWER, own


@_method("PyGSP heat filter", "pygsp", _FEW)
def _pygsp(X: Any) -> Embedded:
    """Random signals, filtered by a Chebyshev approximation of exp(-16 L).

    `use_flann` falls back to scikit-learn's search.
    """
    from pygsp import filters, graphs  # noqa: PLC0415

    many = X.shape[1] > _TREE_FEATURES
    graph = graphs.NNGraph(X.astype(np.float64), k=NEIGHBORS, use_flann=many, lap_type="normalized")
    graph.estimate_lmax()
    heat = filters.Heat(graph, scale=POWER * graph.lmax)  # PyGSP divides the scale by the largest eigenvalue
    signals = np.random.default_rng(0).standard_normal((len(X), COMPONENTS)) / np.sqrt(COMPONENTS)
    Y = heat.filter(signals, method="chebyshev", order=30)
    return lambda: Y, lambda: Own(Own.from_affinity(graph.W, weighted=False).T, heat=True)


@_method("pydiffmap", "pydiffmap", _FEW)
def _pydiffmap(X: Any) -> Embedded:
    from pydiffmap import diffusion_map  # noqa: PLC0415

    search = {"n_jobs": -1, "algorithm": "kd_tree" if X.shape[1] <= _TREE_FEATURES else "brute"}
    model = diffusion_map.DiffusionMap.from_sklearn(
        alpha=1.0, k=NEIGHBORS, epsilon="bgh", n_evecs=COMPONENTS, neighbor_params=search
    )
    model.fit(X)
    scale = sparse.diags(model.right_norm_vec)
    # pydiffmap returns eigenvalues of the generator (P - 1) / epsilon.
    return _markov(scale @ model.kernel_matrix @ scale, model.evecs, 1.0 + model.epsilon_fitted * model.evals)


@_method("PHATE", "phate", _FEW)
def _phate(X: Any) -> Embedded:
    from phate import PHATE  # noqa: PLC0415

    model = PHATE(n_components=COMPONENTS, knn=NEIGHBORS, t=POWER, n_jobs=-1, random_state=0, verbose=0)
    Y = model.fit_transform(X)
    return lambda: Y, lambda: Own(sparse.csr_matrix(model.graph.diff_op).T.tocsr())


@_method("UMAP", "umap-learn")
def _umap(X: Any) -> Embedded:
    from umap import UMAP  # noqa: PLC0415

    # Without a seed, which would restrict UMAP to one thread.
    Y = UMAP(n_components=COMPONENTS, n_neighbors=NEIGHBORS, n_jobs=-1).fit_transform(X)
    return lambda: Y, None


def embeddings(method: str, data: str, n: int, path: str = "") -> Iterator[Row]:
    """Time of the warm-up, time and memory of an embedding, and its scores."""
    contender, X = METHODS[method], points.make(data, n)
    start = time.perf_counter()
    contender.run(points.tuning(max(_FEW, min(contender.warm_points, n)), X.shape[1]))[0]()
    yield {"cold_s": time.perf_counter() - start}
    with peak_memory() as memory:
        start = time.perf_counter()
        coordinates, own = contender.run(X)
        seconds = time.perf_counter() - start
    version = importlib.metadata.version(contender.package)
    yield {"status": "ok", "seconds": seconds, "peak_mb": memory["peak"] / 1e6, "version": version}
    if path:
        yield evaluate(coordinates(), own and own(), path)
