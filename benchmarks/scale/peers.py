"""The peers' embeddings, each by its own public interface, with 30 neighbours where that can be chosen.

Nothing here is imported before a method runs: a peer that is absent, or fails, is reported as such.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from .accuracy import NEIGHBORS, POWER, Own
from .methods import Embedded, Method

__all__ = ["PEERS"]

# Dimension above which a space-partitioning tree is slower than brute force.
_TREE_DIMENSION = 10


def _markov(W: Any, right: Any, values: Any) -> Embedded:
    """For right eigenvectors of the Markov matrix of a symmetric affinity.

    Packages scale these vectors as they like; diffusion distances need unit norm under the stationary law, and the
    eigenvalues' powers. Both are given to them here.
    """

    def coordinates() -> Any:
        degrees = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        norms = np.sqrt((degrees[:, None] * np.square(right, dtype=np.float64)).sum(axis=0))
        return right / norms * np.asarray(values) ** POWER

    return Embedded(coordinates, lambda: Own.from_affinity(W, weighted=True))


def _sklearn(solver: str) -> Any:
    def run(X: Any, k: int) -> Embedded:
        from sklearn.manifold import SpectralEmbedding  # noqa: PLC0415

        model = SpectralEmbedding(
            k, affinity="nearest_neighbors", n_neighbors=NEIGHBORS, eigen_solver=solver, random_state=0, n_jobs=-1
        )
        Y = model.fit_transform(X)

        def coordinates() -> Any:
            # It gives no eigenvalues; Rayleigh quotients of its vectors are them.
            W = model.affinity_matrix_.tocsr().astype(np.float64)
            degrees = np.asarray(W.sum(axis=1)).ravel()
            norms = (degrees[:, None] * np.square(Y, dtype=np.float64)).sum(axis=0)
            values = np.einsum("ij,ij->j", Y, W @ Y) / norms
            return Y / np.sqrt(norms) * values**POWER

        return Embedded(coordinates, lambda: Own.from_affinity(model.affinity_matrix_, weighted=True))

    return run


def _pydiffmap(X: Any, k: int) -> Embedded:
    from pydiffmap import diffusion_map  # noqa: PLC0415

    tree = "kd_tree" if X.shape[1] <= _TREE_DIMENSION else "brute"
    model = diffusion_map.DiffusionMap.from_sklearn(
        alpha=1.0, k=NEIGHBORS, epsilon="bgh", n_evecs=k, neighbor_params={"n_jobs": -1, "algorithm": tree}
    )
    model.fit(X)
    scale = sparse.diags(model.right_norm_vec)
    W = scale @ model.kernel_matrix @ scale
    # It solves for the generator (P - 1) / epsilon.
    return _markov(W, model.evecs, 1.0 + model.epsilon_fitted * model.evals)


def _topometry(X: Any, k: int) -> Embedded:
    from topo.spectral.eigen import EigenDecomposition  # noqa: PLC0415
    from topo.tpgraph.kernels import Kernel  # noqa: PLC0415

    kernel = Kernel(metric="euclidean", n_neighbors=NEIGHBORS, n_jobs=-1, backend="hnswlib").fit(X)
    model = EigenDecomposition(n_components=k, method="DM", t=POWER, estimate_eigengap=False, random_state=0)
    model.fit_transform(kernel)
    values, vectors = model.eigenvalues, model.eigenvectors  # without the first
    inverse = np.asarray(kernel.D_inv_sqrt_.diagonal(), dtype=np.float64)

    def coordinates() -> Any:
        norms = np.linalg.norm(vectors / inverse[:, None], axis=0)
        return vectors / norms * values**POWER

    return Embedded(coordinates, lambda: Own(kernel.P.tocsr().astype(np.float64), weight=inverse))


def _pygsp_graph(X: Any) -> Any:
    from pygsp import graphs  # noqa: PLC0415

    # Its search by SciPy's tree on one core, or in many dimensions by scikit-learn, which `use_flann` falls back to.
    points = np.asarray(X, dtype=np.float64)
    return graphs.NNGraph(points, k=NEIGHBORS, use_flann=X.shape[1] > _TREE_DIMENSION, lap_type="normalized")


def _pygsp(X: Any, k: int) -> Embedded:
    graph = _pygsp_graph(X)
    graph.compute_fourier_basis(n_eigenvectors=k + 1)
    vectors, values = graph.U[:, 1:], 1.0 - graph.e[1:]
    return Embedded(lambda: vectors * values**POWER, lambda: Own.from_affinity(graph.W, weighted=False))


def _pygsp_heat(X: Any, k: int) -> Embedded:
    from pygsp import filters  # noqa: PLC0415

    graph = _pygsp_graph(X)
    graph.estimate_lmax()
    # exp(-16 L); it divides the scale by the largest eigenvalue itself.
    heat = filters.Heat(graph, scale=POWER * graph.lmax)
    signals = np.random.default_rng(0).standard_normal((len(X), k)) / np.sqrt(k)
    Y = heat.filter(signals, method="chebyshev", order=30)

    def own() -> Own:
        markov = Own.from_affinity(graph.W, weighted=False)
        return Own(markov.columns, heat=True)

    return Embedded(lambda: Y, own)


def _phate(X: Any, k: int) -> Embedded:
    import phate  # noqa: PLC0415

    model = phate.PHATE(n_components=k, knn=NEIGHBORS, t=POWER, n_jobs=-1, random_state=0, verbose=0)
    Y = model.fit_transform(X)
    return Embedded(lambda: Y, lambda: Own(sparse.csr_matrix(model.graph.diff_op).T.tocsr()))


def _umap(X: Any, k: int) -> Embedded:
    import umap  # noqa: PLC0415

    # No random_state: it would take the threads away.
    Y = umap.UMAP(n_components=k, n_neighbors=NEIGHBORS, n_jobs=-1).fit_transform(X)
    return Embedded(lambda: Y)


def _scanpy(X: Any, k: int) -> Embedded:
    import anndata  # noqa: PLC0415
    import scanpy  # noqa: PLC0415

    cells = anndata.AnnData(X)
    scanpy.pp.neighbors(cells, n_neighbors=NEIGHBORS, use_rep="X")
    scanpy.tl.diffmap(cells, n_comps=k + 1)
    vectors, values = cells.obsm["X_diffmap"][:, 1:], cells.uns["diffmap_evals"][1:]

    def own() -> Own:
        W = cells.obsp["connectivities"].astype(np.float64)
        density = sparse.diags(1.0 / np.asarray(W.sum(axis=0)).ravel())
        return Own.from_affinity(density @ W @ density, weighted=False)

    return Embedded(lambda: vectors * values**POWER, own)


def _palantir(X: Any, k: int) -> Embedded:
    import pandas as pd  # noqa: PLC0415
    from palantir.utils import run_diffusion_maps  # noqa: PLC0415

    found = run_diffusion_maps(pd.DataFrame(X), n_components=k + 1, knn=NEIGHBORS, seed=0)
    right, values = found["EigenVectors"].to_numpy()[:, 1:], found["EigenValues"].to_numpy()[1:]
    return _markov(found["kernel"], right, values)


def _datafold(X: Any, k: int) -> Embedded:
    import datafold.dynfold as dfold  # noqa: PLC0415
    import datafold.pcfold as pfold  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manifold = pfold.PCManifold(np.asarray(X, dtype=np.float64))
        manifold.optimize_parameters(k=NEIGHBORS)
        kernel = pfold.GaussianKernel(epsilon=manifold.kernel.epsilon, distance={"cut_off": manifold.cut_off})
        model = dfold.DiffusionMaps(kernel, n_eigenpairs=k + 1).fit(manifold)
    vectors = np.asarray(model.eigenvectors_)[:, 1:]
    values = np.asarray(model.eigenvalues_)[1:]
    return Embedded(lambda: vectors * values**POWER)


_SPECTRAL = 'affinity="nearest_neighbors", n_neighbors=30, n_jobs=-1, random_state=0, eigen_solver='
# Points of the warm-up for those that do the same whatever the number of points.
_FEW = 500
_SCALED = "; distances of its eigenvectors at time 16"

PEERS = [
    Method(
        "sklearn",
        "scikit-learn SpectralEmbedding",
        "peer",
        _sklearn("arpack"),
        f'{_SPECTRAL}"arpack" (its default){_SCALED}, eigenvalues by Rayleigh quotients of its affinity',
        "scikit-learn",
        _FEW,
    ),
    Method(
        "sklearn-amg",
        "scikit-learn SpectralEmbedding, AMG",
        "peer",
        _sklearn("amg"),
        f'{_SPECTRAL}"amg" (pyamg){_SCALED}, likewise',
        "scikit-learn",
        _FEW,
    ),
    Method(
        "palantir",
        "Palantir",
        "peer",
        _palantir,
        f"palantir.utils.run_diffusion_maps(n_components=11, knn=30, seed=0){_SCALED}",
        "palantir",
    ),
    Method(
        "topometry",
        "TopOMetry",
        "peer",
        _topometry,
        'Kernel(metric="euclidean", n_neighbors=30, n_jobs=-1, backend="hnswlib"), '
        f'EigenDecomposition(n_components=10, method="DM", t=16): its parts, without the layouts of TopOGraph{_SCALED}',
        "topometry",
        _FEW,
    ),
    Method(
        "scanpy",
        "scanpy diffmap",
        "peer",
        _scanpy,
        f'scanpy.pp.neighbors(n_neighbors=30, use_rep="X"), scanpy.tl.diffmap(n_comps=11){_SCALED}',
        "scanpy",
    ),
    Method(
        "pygsp",
        "PyGSP, eigenbasis",
        "peer",
        _pygsp,
        'graphs.NNGraph(k=30, lap_type="normalized", use_flann where d > 10, which falls back to scikit-learn), '
        f"compute_fourier_basis(11){_SCALED}",
        "pygsp",
        _FEW,
    ),
    Method(
        "pygsp-heat",
        "PyGSP, heat filter",
        "peer",
        _pygsp_heat,
        "the same graph; filters.Heat for exp(-16 L), Chebyshev of order 30, on 10 random signals",
        "pygsp",
        _FEW,
    ),
    Method(
        "pydiffmap",
        "pydiffmap",
        "peer",
        _pydiffmap,
        'DiffusionMap.from_sklearn(alpha=1, k=30, epsilon="bgh", n_evecs=10), neighbours with n_jobs=-1 by kd_tree, or '
        f"brute force where d > 10{_SCALED}",
        "pydiffmap",
        _FEW,
    ),
    Method(
        "phate",
        "PHATE",
        "peer",
        _phate,
        "PHATE(n_components=10, knn=30, t=16, n_jobs=-1, random_state=0); it keeps potential, not diffusion, distances",
        "phate",
        _FEW,
    ),
    Method(
        "umap",
        "UMAP",
        "peer",
        _umap,
        "UMAP(n_components=10, n_neighbors=30, n_jobs=-1), no seed, which would cost its threads; it does not aim at "
        "distances",
        "umap-learn",
    ),
    Method(
        "datafold",
        "datafold",
        "peer",
        _datafold,
        f"PCManifold.optimize_parameters(k=30), DiffusionMaps(n_eigenpairs=11){_SCALED}",
        "datafold",
        _FEW,
    ),
]
