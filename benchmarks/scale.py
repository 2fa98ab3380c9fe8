"""Speed, memory and accuracy beside other packages, up to a million points: ``python -m benchmarks.scale``.

Packages that are absent are reported as such. One that needs its own environment (beside the dependencies of
heatsketch) runs in the interpreter that a variable names, as in ``PYTHON_PALANTIR=/path/to/python``. Exact distances
are cached under ``out/scale``.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import psutil
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, eigsh, expm_multiply, lobpcg
from scipy.spatial import cKDTree
from scipy.stats import spearmanr

import heatsketch as hs
from heatsketch_paper.harness.evidence import Verdict
from heatsketch_paper.harness.experiment import Case, Experiment, Row
from heatsketch_paper.harness.process import failure_row, peak_memory, run_apart
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, main, number, rows_table, section

from . import data as points
from .data import DATA, TITLES

ROLL, TREE = DATA
COMPONENTS, POWER, NEIGHBORS = 10, 16, 30
COLUMNS = 32  # of the products that are timed by themselves
_TREE_FEATURES = 10  # above it a space-partitioning tree is slower than brute force

# Accuracy: distances in an embedding against exact diffusion distances, on sampled pairs.

_PAIRS, _NEAR, _GROUP = 5000, 100, 16
# (points up to which, groups of near points, single points). All pairs are among 16 points of each group and the single
# points: few rows of a power of the operator give their exact distances.
_ANCHORS = ((5_000, 24, 256), (200_000, 8, 128), (10**9, 2, 32))


@dataclass(frozen=True)
class Own:
    """Diffusion operator of a method: its distances are those between rows of ``diag(weight) (T^t - u u^T)``.

    T is transposed, unless it is symmetric: the columns of its powers are the rows. u is the `trivial` eigenvector that
    the embedding leaves out. With `heat`, ``exp(-t (1 - T))`` takes the place of T^t.
    """

    T: Any
    weight: Any = None
    trivial: Any = None
    heat: bool = False

    @classmethod
    def from_affinity(cls, W: Any, *, weighted: bool) -> Own:
        """Markov operator of a symmetric affinity: rows with weights, or of its symmetric form without u."""
        d = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        root = np.sqrt(np.where(d > 0, d, 1.0))
        inverse = sparse.diags(1.0 / root)
        S = (inverse @ sparse.csr_matrix(W, dtype=np.float64) @ inverse).tocsr()
        return cls(S, weight=1.0 / root) if weighted else cls(S, trivial=root / np.linalg.norm(root))


def sample_pairs(X: Any) -> tuple[Any, Any]:
    """Pairs of any two points and pairs of near points (one of the 100 nearest), each of shape (m, 2)."""
    rng = np.random.default_rng([0, len(X)])
    n_groups, n_single = next((g, s) for most, g, s in _ANCHORS if len(X) <= most)
    group, reach = min(_GROUP, len(X) // 2), min(_NEAR, len(X) - 1)
    centres = rng.choice(len(X), size=min(n_groups, len(X)), replace=False)
    near: set[tuple[int, int]] = set()
    for centre in centres:
        nearest = np.argsort(_squared(X, [centre])[0], kind="stable")[1 : reach // 2 + 1]
        members = np.array([centre, *rng.choice(nearest, size=min(group - 1, len(nearest)), replace=False)])
        D2 = _squared(X, members)
        inside = D2[:, members] <= np.partition(D2, reach, axis=1)[:, [reach]]
        near.update((int(members[i]), int(members[j])) for i, j in zip(*np.nonzero(np.triu(inside, 1)), strict=True))
    pool = np.union1d(centres, rng.choice(len(X), size=min(n_single, len(X)), replace=False))
    first, second = np.triu_indices(len(pool), 1)
    kept = rng.choice(len(first), size=min(_PAIRS, len(first)), replace=False)
    close = np.array(sorted(near), dtype=np.int64).reshape(-1, 2)
    return np.column_stack([pool[first[kept]], pool[second[kept]]]), close[rng.permutation(len(close))[:_PAIRS]]


def _squared(X: Any, rows: Any) -> Any:
    """Squared distances of some rows to all points, from differences."""
    return np.stack([np.square(X - X[i]).sum(axis=1, dtype=np.float64) for i in rows])


def exact_distances(own: Own, pairs: Any, power: int = POWER) -> Any:
    """Diffusion distances of pairs, from rows of the operator's power, shape (m,)."""
    anchors, where = np.unique(pairs, return_inverse=True)
    n = own.T.shape[0]
    V = np.zeros((n, len(anchors)), dtype=own.T.dtype)
    V[anchors, np.arange(len(anchors))] = 1.0
    if own.heat:
        V = expm_multiply(power * (own.T - sparse.identity(n)), V)
    else:
        for _ in range(power):
            V = np.asarray(own.T @ V)
    rows = V.T.astype(np.float64)
    if own.trivial is not None:
        rows -= own.trivial[anchors][:, None] * own.trivial
    if own.weight is not None:
        rows *= np.asarray(own.weight, dtype=np.float64)[anchors][:, None]
    rows -= rows.mean(axis=0)  # so that little cancels below
    gram = rows @ rows.T
    i, j = where.reshape(-1, 2).T
    return np.sqrt(np.maximum(gram[i, i] + gram[j, j] - 2.0 * gram[i, j], 0.0))


def score(Y: Any, pairs: Any, exact: Any) -> dict[str, float]:
    """Median relative error after the best common factor, and Spearman's rank correlation."""
    Y = np.asarray(Y, dtype=np.float64)
    if not np.isfinite(Y).all():
        raise ValueError("the embedding contains NaN or infinity.")
    estimate = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
    ratio = estimate[exact > 0] / exact[exact > 0]
    # No formula gives the factor c with the smallest median of |c r - 1|; a grid of quantiles is fine enough.
    factors = 1.0 / np.quantile(ratio[ratio > 0], np.linspace(0.02, 0.98, 193))
    error = min(float(np.median(np.abs(c * ratio - 1.0))) for c in factors)
    return {"error": error, "spearman": float(spearmanr(estimate, exact).statistic)}


def reference(method: str, data: str, n: int, path: str) -> Iterator[Row]:  # noqa: ARG001
    """Write sampled pairs and their exact distances in heatsketch's kernel of 30 neighbours, in float64."""
    X = points.make(data, n)
    random, near = sample_pairs(X)
    kernel = hs.heat_kernel(X.astype(np.float64), n_neighbors=NEIGHBORS)
    exact = exact_distances(_own(kernel), np.vstack([random, near]))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, random=random, near=near, exact_random=exact[: len(random)], exact_near=exact[len(random) :])
    yield {"status": "ok"}


def evaluate(Y: Any, own: Own | None, path: str) -> Row:
    """Scores against the reference kernel, and against the operator of the method where it has one."""
    stored = np.load(path)
    found: Row = {}
    for kind in ("random", "near"):
        pairs = stored[kind]
        found |= {f"ref_{kind}_{name}": value for name, value in score(Y, pairs, stored[f"exact_{kind}"]).items()}
        if own is not None:
            scores = score(Y, pairs, exact_distances(own, pairs))
            found |= {f"own_{kind}_{name}": value for name, value in scores.items()}
    return found


# Embeddings from points to coordinates. What only the comparison needs is returned as functions, outside the time:
# coordinates at diffusion time 16 (eigenvectors times powers of eigenvalues), and the operator of the method.

Embedded = tuple[Callable[[], Any], Callable[[], Own] | None]
Run = Callable[[Any], Embedded]


class Method(NamedTuple):
    """A contender: what runs, the package whose version is recorded, and the points of the warm-up."""

    run: Run
    package: str
    warm_points: int


METHODS: dict[str, Method] = {}
OURS = "heatsketch"
_FEW, _MANY = 500, 20_000  # points of a warm-up: many where large data runs other compiled code than small data


def _method(name: str, package: str = OURS, warm_points: int = _MANY) -> Callable[[Run], Run]:
    """Declare a contender by the function that runs it."""

    def declare(run: Run) -> Run:
        METHODS[name] = Method(run, package, warm_points)
        return run

    return declare


def _own(kernel: Any) -> Own:
    return Own(kernel.symmetric, weight=kernel.row_weight)


def _ours(options: Row, X: Any) -> Embedded:
    estimator = getattr(hs, options.get("estimator", "GaussianProcessEmbedding"))
    defaults = {"n_components": COMPONENTS, "power": POWER}
    model = estimator(**defaults | {key: value for key, value in options.items() if key != "estimator"})
    Y = model.fit_transform(X)
    return lambda: Y, lambda: _own(model.kernel_)


for _name, _options in {
    OURS: {"random_state": 0},
    "heatsketch symmetric": {"normalization": "symmetric", "n_neighbors": NEIGHBORS, "random_state": 0},
    "heatsketch k=32": {"n_components": 32, "random_state": 0},
    "heatsketch 10 exact + 10": {"n_components": 20, "n_exact": 10, "random_state": 0},
    "heatsketch 16 exact + 16": {"n_components": 32, "n_exact": 16, "random_state": 0},
    "heatsketch DiffusionMaps": {"estimator": "DiffusionMaps"},
}.items():
    _method(_name)(partial(_ours, _options))


def _solved(solve: Callable[[Any, int], tuple[Any, Any]], X: Any) -> Embedded:
    """Eigenvectors of our kernel by a solver of SciPy."""
    A = hs.heat_kernel(X, n_neighbors=NEIGHBORS)

    def product(V: Any) -> Any:
        return A.symmetric @ V

    values, vectors = solve(LinearOperator(A.shape, matvec=product, matmat=product, dtype=A.dtype), COMPONENTS + 1)
    order = np.argsort(values)[::-1][1:]
    Y = A.weigh_rows(vectors[:, order] * values[order] ** POWER)
    return lambda: Y, lambda: _own(A)


def _arpack(A: Any, k: int) -> tuple[Any, Any]:
    v0 = np.random.default_rng(0).standard_normal(A.shape[0]).astype(A.dtype)
    return eigsh(A, k=k, which="LA", tol=1e-3, v0=v0)


def _lobpcg(A: Any, k: int) -> tuple[Any, Any]:
    guess = np.random.default_rng(0).standard_normal((A.shape[0], k)).astype(A.dtype)
    guess[:, 0] = 1.0  # the trivial mode is known
    return lobpcg(A, guess, tol=1e-3, maxiter=200, largest=True)


_method("eigsh on our kernel")(partial(_solved, _arpack))
_method("LOBPCG on our kernel")(partial(_solved, _lobpcg))


def _markov(W: Any, right: Any, values: Any = None) -> Embedded:
    """For right eigenvectors of the Markov matrix of a symmetric affinity, scaled as the package likes.

    Diffusion distances need unit norm under the stationary law, and powers of the eigenvalues, which default to
    Rayleigh quotients.
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
    """Its kernel and eigenvectors, without the layouts of TopOGraph."""
    from topo.spectral.eigen import EigenDecomposition  # noqa: PLC0415
    from topo.tpgraph.kernels import Kernel  # noqa: PLC0415

    kernel = Kernel(metric="euclidean", n_neighbors=NEIGHBORS, n_jobs=-1, backend="hnswlib").fit(X)
    model = EigenDecomposition(n_components=COMPONENTS, method="DM", t=POWER, estimate_eigengap=False, random_state=0)
    model.fit_transform(kernel)
    values, vectors = model.eigenvalues, model.eigenvectors  # without the first
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
    """Chebyshev polynomial of exp(-16 L) times random signals; `use_flann` falls back to scikit-learn's search."""
    from pygsp import filters, graphs  # noqa: PLC0415

    many = X.shape[1] > _TREE_FEATURES
    graph = graphs.NNGraph(X.astype(np.float64), k=NEIGHBORS, use_flann=many, lap_type="normalized")
    graph.estimate_lmax()
    heat = filters.Heat(graph, scale=POWER * graph.lmax)  # it divides the scale by the largest eigenvalue
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
    # It solves for the generator (P - 1) / epsilon.
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

    # A seed would cost it its threads.
    Y = UMAP(n_components=COMPONENTS, n_neighbors=NEIGHBORS, n_jobs=-1).fit_transform(X)
    return lambda: Y, None


def embeddings(method: str, data: str, n: int, path: str = "") -> Iterator[Row]:
    """One embedding: the warm-up, then time and memory, then scores."""
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


# The inner loops: products with the exact kernel and with a graph, and the search for neighbours.

Product = Callable[[Any], Any]


def _timed(make: Callable[[], Product], V: Any, checked: Any, exact: Any) -> Row:
    """Set-up, 3 to 15 timed products, and the error of some rows."""
    try:
        start = time.perf_counter()
        product = make()
        setup = time.perf_counter() - start
        error = float(np.linalg.norm(np.asarray(product(V))[checked] - exact) / np.linalg.norm(exact))
        times = _repeated(lambda: product(V), 4.0)
    except Exception as failure:
        return failure_row(failure)
    return {"status": "ok", "setup_s": setup, "error": error, "seconds": float(np.median(times))}


def _repeated(work: Callable[[], Any], limit: float) -> list[float]:
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or (len(times) < 15 and time.perf_counter() - began < limit):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def exact_product(method: str, data: str, n: int) -> Iterator[Row]:
    """The product K V with the Gaussian kernel of all pairs, which is not stored."""
    X, rng = points.make(data, n), np.random.default_rng(1)
    V = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    some = X[rng.choice(n, min(n, 500), replace=False)].astype(np.float64)
    epsilon = 0.1 * float(np.median(np.square(some[:, None, :] - some[None, :, :]).sum(-1)))
    checked = rng.choice(n, 64, replace=False)
    exact = np.exp(-_squared(X.astype(np.float64), checked) / epsilon) @ V.astype(np.float64)
    yield _timed(lambda: EXACT[method](X, epsilon), V, checked, exact)


def _tiled(X: Any, epsilon: float) -> Product:
    from heatsketch.linalg.operators import TiledGaussianOperator  # noqa: PLC0415

    return TiledGaussianOperator(X, epsilon, dtype=np.float32).matmat  # type: ignore[no-any-return]


def _numpy_blocks(X: Any, epsilon: float) -> Product:
    scaled = X * np.float32(epsilon**-0.5)
    norms = np.square(scaled).sum(axis=1)

    def product(V: Any) -> Any:
        out = np.empty_like(V)
        for start in range(0, len(X), 512):
            rows = slice(start, start + 512)
            K = scaled[rows] @ scaled.T
            K *= 2.0
            K -= norms[rows, None]
            K -= norms[None, :]
            np.matmul(np.exp(K, out=K), V, out=out[rows])
        return out

    return product


def _keops(X: Any, epsilon: float) -> Product:
    from pykeops.numpy import LazyTensor  # noqa: PLC0415

    scaled = np.ascontiguousarray(X * np.float32(epsilon**-0.5))
    K = (-((LazyTensor(scaled[:, None, :]) - LazyTensor(scaled[None, :, :])) ** 2).sum(-1)).exp()
    return lambda V: K @ V


def _torch_chunks(X: Any, epsilon: float, chunk: int = 0) -> Product:
    """With the chunk that is fastest on other points, unless one is given."""
    import torch  # noqa: PLC0415

    chunk = chunk or _tuned_chunk(X.shape[1])
    scaled = torch.from_numpy(X * np.float32(epsilon**-0.5))
    norms = scaled.square().sum(1)

    def product(V: Any) -> Any:
        block = torch.from_numpy(V)
        out = torch.empty_like(block)
        with torch.inference_mode():
            for start in range(0, len(scaled), chunk):
                rows = slice(start, start + chunk)
                K = torch.addmm(norms[None, :], scaled[rows], scaled.T, beta=-1.0, alpha=2.0)
                torch.mm(K.sub_(norms[rows, None]).exp_(), block, out=out[rows])
        return out.numpy()

    return product


def _tuned_chunk(d: int) -> int:
    X = points.tuning(4000, d)
    V = np.ones((len(X), COLUMNS), dtype=np.float32)
    products = {chunk: _torch_chunks(X, 1.0, chunk) for chunk in (128, 256, 512, 1024, 2048, 4096)}
    return min(products, key=lambda chunk: min(_repeated(partial(products[chunk], V), 0.3)))


EXACT = {OURS: _tiled, "NumPy": _numpy_blocks, "KeOps": _keops, "PyTorch": _torch_chunks}


def graph_product(method: str, data: str, n: int) -> Iterator[Row]:
    """The product of a symmetric graph of 30 neighbours with some columns, in both orders of the points."""
    from heatsketch.neighbors.search import nearest_neighbors  # noqa: PLC0415

    found = nearest_neighbors(points.make(data, n), NEIGHBORS)
    weights = np.exp(-found.squared / np.median(found.squared)).astype(np.float32).ravel()
    starts = np.arange(0, len(weights) + 1, NEIGHBORS, dtype=np.int32)
    W = sparse.csr_matrix((weights, np.asarray(found.indices, dtype=np.int32).ravel(), starts), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    V = np.random.default_rng(1).standard_normal((n, COLUMNS), dtype=np.float32)
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    for name, matrix in (("as given", W), ("reordered", W[order][:, order].tocsr())):
        matrix.sort_indices()
        exact = matrix[:64].astype(np.float64) @ V.astype(np.float64)
        yield {"order": name} | _timed(partial(GRAPH[method], matrix), V, slice(64), exact)


def _sparse_operator(matrix: Any) -> Product:
    from heatsketch.linalg.operators import SparseOperator  # noqa: PLC0415

    return SparseOperator(matrix).matmat


def _torch_sparse(matrix: Any) -> Product:
    import torch  # noqa: PLC0415

    parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    held = torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=False)
    return lambda V: (held @ torch.from_numpy(V)).numpy()


GRAPH: dict[str, Callable[[Any], Product]] = {
    OURS: _sparse_operator,
    "SciPy": lambda matrix: lambda V: matrix @ V,
    "PyTorch": _torch_sparse,
}


def neighbours(method: str, data: str, n: int) -> Iterator[Row]:
    """A search for neighbours: seconds and recall."""
    X, search = points.make(data, n), SEARCHES[method]
    search(points.tuning(max(_FEW, min(n, 12_000)), X.shape[1]))
    start = time.perf_counter()
    indices = search(X)
    yield {"status": "ok", "seconds": time.perf_counter() - start, "recall": recall(X, np.asarray(indices))}


def recall(X: Any, indices: Any, k: int = NEIGHBORS) -> float:
    """Share of the k nearest others of 1,000 sampled points that were found; the point itself does not count."""
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    chosen = np.random.default_rng(0).choice(len(X), min(1000, len(X)), replace=False)
    exact = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", n_jobs=-1).fit(X).kneighbors(X[chosen])[0]
    found = indices[chosen]
    apart = np.linalg.norm(X[found].astype(np.float64) - X[chosen, None], axis=2)
    # -1 fills what an index did not find; rounding in float32 must not decide which point is the k-th nearest.
    hits = (apart <= exact[:, [k]] * (1.0 + 1e-5)) & (found >= 0) & (found != chosen[:, None])
    return float(np.minimum(hits.sum(axis=1), k).mean() / k)


def _our_search(X: Any) -> Any:
    from heatsketch.neighbors.search import nearest_neighbors  # noqa: PLC0415

    return nearest_neighbors(X, NEIGHBORS).indices


def _pynndescent(X: Any) -> Any:
    from pynndescent import NNDescent  # noqa: PLC0415

    return NNDescent(X, n_neighbors=NEIGHBORS + 1, random_state=0, n_jobs=-1).neighbor_graph[0]


def _faiss(probes: int, X: Any) -> Any:
    import faiss  # noqa: PLC0415

    lists = max(1, int(4 * np.sqrt(len(X))))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(X.shape[1]), X.shape[1], min(lists, max(1, len(X) // 40)))
    index.cp.min_points_per_centroid = 1
    index.train(X[: 40 * lists])
    index.add(X)
    index.nprobe = probes
    return index.search(X, NEIGHBORS + 1)[1]


SEARCHES: dict[str, Callable[[Any], Any]] = {
    OURS: _our_search,
    "SciPy cKDTree": lambda X: cKDTree(X).query(X, NEIGHBORS + 1, workers=-1)[1],
    "PyNNDescent": _pynndescent,
    **{f"Faiss IVF {probes} probes": partial(_faiss, probes) for probes in (8, 16, 32, 64)},
}

# Experiments.

_LIBRARIES = (
    "heatsketch", "faiss-cpu", "hnswlib", "phate", "pyamg", "pydiffmap", "pygsp", "pykeops", "pynndescent",
    "topometry", "torch", "umap-learn",
)  # fmt: skip


@dataclass(frozen=True)
class Race(Experiment):
    """Contenders by data set and number of points, in fresh processes and in turns.

    The function with the name of the table measures a case. A contender that was over a limit is not tried with more
    points; one that takes more than a minute, or fails, is not repeated.
    """

    alone: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("trial", "method", "data", "n")
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "methods", "sizes", "timeout")
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    timeout: float = 600.0

    def cases(self) -> list[Case]:
        """Repeats outside, contenders inside: a disturbance meets all of them alike."""
        turns = [(n, data, trial) for n in self.sizes for data in DATA for trial in range(self.n_trials)]
        return [{"trial": t, "method": m, "data": data, "n": n} for n, data, t in turns for m in self.methods]

    def measure(self, case: Case, done: Sequence[Row] = ()) -> list[Row]:
        """Rows of a contender, or why there are none."""
        earlier = [r for r in done if (r["method"], r["data"]) == (case["method"], case["data"])]
        same = [r for r in earlier if r["n"] == case["n"]]
        if any(r.get("status", "ok") != "ok" or r.get("seconds", 0.0) > 60.0 for r in same):
            return []
        over = [r["n"] for r in earlier if r.get("status") in ("timeout", "memory", "skipped") and r["n"] < case["n"]]
        if over:
            return [{"status": "skipped", "reason": f"over a limit at {min(over):,} points"}]
        return self.race(case)

    def race(self, case: Case) -> list[Row]:
        """Rows of a contender."""
        return self.apart(self.name, case)

    def apart(self, function: str, case: Case, python: str = sys.executable, **options: Any) -> list[Row]:
        """Rows of a function of this module; a fifth of the memory is left to the system."""
        memory = 0.8 * psutil.virtual_memory().total / 2**30
        job = {"method": case["method"], "data": case["data"], "n": case["n"]} | options
        return run_apart(f"benchmarks.scale:{function}", job, timeout_s=self.timeout, memory_gib=memory, python=python)


class Embeddings(Race):
    """Embeddings end to end; those of the first trial are scored."""

    def race(self, case: Case) -> list[Row]:
        """One row: what goes wrong after the measurement leaves it standing."""
        options: Row = {}
        if case["trial"] == 0:
            path = Path("out/scale") / f"{case['data'].replace(' ', '-')}-{case['n']}-{hs.__version__}.npz"
            options = {"path": str(path)}
            if not path.exists():
                self.apart("reference", case, **options)
        row: Row = {}
        python = os.environ.get(f"PYTHON_{case['method'].split()[0].upper()}", sys.executable)
        for part in self.apart("embeddings", case, python, **options):
            late = "seconds" in row and part.get("status", "ok") != "ok"
            row |= {"unscored": part["reason"]} if late else part
        return [row]


_FIRST_USE = """
import sys
import heatsketch as hs
from benchmarks.data import make
hs.GaussianProcessEmbedding(10, power=16, random_state=0).fit(make(sys.argv[1], int(sys.argv[2])))
"""


class FirstUse(Race):
    """Seconds of a process that fits once, with empty caches of compiled code, and of a second one."""

    def race(self, case: Case) -> list[Row]:
        """Seconds of both."""
        taken = []
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | {"XDG_CACHE_HOME": empty}
            for _ in range(2):
                start = time.perf_counter()
                command = [sys.executable, "-c", _FIRST_USE, case["data"], str(case["n"])]
                subprocess.run(command, env=environment, timeout=self.timeout, check=True)
                taken.append(time.perf_counter() - start)
        return [{"seconds": taken[0], "second_s": taken[1]}]


_SIZES = (2_000, 10_000, 50_000, 200_000, 1_000_000)
EXPERIMENTS = (
    FirstUse("first_use", methods=(OURS,), sizes=(10_000, 20_000)),
    Race("exact_product", n_trials=3, methods=tuple(EXACT), sizes=(5_000, 20_000)),
    Race("graph_product", n_trials=3, methods=tuple(GRAPH), sizes=_SIZES[2:]),
    Race("neighbours", methods=tuple(SEARCHES), sizes=_SIZES[2:]),
    Embeddings("embeddings", n_trials=3, methods=tuple(METHODS), sizes=_SIZES),
)
_QUICK_METHODS = (OURS, "heatsketch k=32", "heatsketch 10 exact + 10", "eigsh on our kernel", "SpectralEmbedding")


def _quick(experiment: Experiment) -> Experiment:
    """One trial of up to 50,000 points."""
    assert isinstance(experiment, Race)
    small = replace(experiment, n_trials=1, timeout=120.0, sizes=tuple(n for n in experiment.sizes if n <= 50_000))
    return replace(small, methods=_QUICK_METHODS) if experiment.name == "embeddings" else small


# Claims.


def over_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each case, with medians over the repeats and their number; the fastest contender first."""
    keys = [key for key in ("n", "data", "order", "method") if key in table]
    groups = table.assign(repeats=table["seconds"]).groupby(keys)
    numbers = groups.median(numeric_only=True).assign(repeats=groups["repeats"].count())
    words = groups.first().drop(columns=numbers.columns)
    return numbers.join(words).reset_index().sort_values([*keys[:-1], "seconds"], ignore_index=True)


def is_ours(methods: pd.Series) -> pd.Series:
    """Which methods are estimators of heatsketch."""
    return methods.str.startswith(OURS)


def at_par(cases: pd.DataFrame) -> pd.DataFrame:
    """Peers, each with the fastest of our variants whose distances are no worse, each by its own operator."""
    rows = []
    for peer in cases[~is_ours(cases["method"])].dropna(subset=["seconds", "own_random_error"]).itertuples():
        ours = cases[is_ours(cases["method"]) & (cases["data"] == peer.data) & (cases["n"] == peer.n)]
        good = ours["seconds"].notna() & (ours["own_random_error"] <= peer.own_random_error)
        good &= ours["own_random_spearman"] >= peer.own_random_spearman
        row = peer._asdict()
        for best in ours[good].head(1).itertuples():
            near = best.own_near_error <= peer.own_near_error and best.own_near_spearman >= peer.own_near_spearman
            row |= {f"our_{key}": value for key, value in best._asdict().items()}
            row |= {"times": peer.seconds / best.seconds, "near": "yes" if near else "no"}
        rows.append(row)
    return pd.DataFrame(rows, columns=[*PEER_COLUMNS.values()])


PEER_COLUMNS = {
    "peer": "method", "data": "data", "points": "n", "its s": "seconds", "its error": "own_random_error",
    "its rank": "own_random_spearman", "ours, no worse": "our_method", "s": "our_seconds",
    "error": "our_own_random_error", "rank": "our_own_random_spearman", "times faster": "times",
    "no worse for near pairs too": "near",
}  # fmt: skip


def _faster(statement: str, cases: pd.DataFrame, peers: Sequence[str], bounds: dict[str, float], *where: int) -> Claim:
    """Claim by how many times ours is faster than the fastest of some peers, on each data set and at each size."""
    times = cases.pivot_table(index=["data", "n"], columns="method", values="seconds").reindex(columns=[OURS, *peers])
    ratios = (times[list(peers)].min(axis=1) / times[OURS]).reindex([(data, n) for data in bounds for n in where])
    if ratios.isna().any():
        return statement, Verdict(None, "not measured")
    measured = ", ".join(f"{number(ratio)} ({data}, {n:,})" for (data, n), ratio in ratios.items())
    return claim(statement, measured, all(ratio >= bounds[data] for (data, _), ratio in ratios.items()))


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims whose tables are there."""
    if "embeddings" in tables:
        yield from _end_to_end_claims(over_repeats(tables["embeddings"]))
    if "graph_product" in tables:
        for order, bound in (("as given", 5), ("reordered", 2)):
            statement = f"A product with a graph, points {order}, is at least {bound} times faster than SciPy's."
            cases = over_repeats(tables["graph_product"].query("order == @order"))
            yield _faster(statement, cases, ["SciPy"], dict.fromkeys(DATA, bound), 50_000, 200_000)
    if "exact_product" in tables:
        cases = over_repeats(tables["exact_product"])
        for peer, bound in (("KeOps", 3), ("PyTorch", 1.5)):
            statement = f"A product with all pairs is at least {bound} times faster than {peer}'s."
            yield _faster(statement, cases, [peer], dict.fromkeys(DATA, bound), 20_000)
    if "neighbours" in tables:
        worst = tables["neighbours"].query("method == @OURS").sort_values("recall").iloc[0]
        measured = f"{worst['recall']:.4f} ({worst['data']}, {worst['n']:,})"
        yield claim("Recall of neighbours is at least 0.99 at every size.", measured, worst["recall"] >= 0.99)
    if "first_use" in tables:
        worst = tables["first_use"].sort_values("seconds").iloc[-1]
        measured = f"{number(worst['seconds'])} s ({worst['data']}, {worst['n']:,})"
        yield claim("The first use, compilation included, takes at most 20 s.", measured, worst["seconds"] <= 20.0)


def _end_to_end_claims(cases: pd.DataFrame) -> Iterator[Claim]:
    fast = ["Palantir", "TopOMetry"]
    statement = "End to end at least 25 (roll) and 12 (tree) times faster than SpectralEmbedding."
    yield _faster(statement, cases, ["SpectralEmbedding"], {ROLL: 25, TREE: 12}, 50_000)
    statement = "End to end at least 10 (roll) and 3 (tree) times faster than Palantir and TopOMetry."
    yield _faster(statement, cases, fast, {ROLL: 10, TREE: 3}, 50_000, 200_000)
    best = at_par(cases).query("data == @TREE and n >= 50_000 and method in @fast").sort_values("seconds")
    times = best.groupby("n")["times"].first().fillna(0.0)
    if len(times):
        measured = ", ".join(f"{number(value)} (tree, {n:,})" for n, value in times.items())
        yield claim("At least 2 times faster than these at matched quality.", measured, (times >= 2).all())
    for data, seconds in ((ROLL, 25), (TREE, 150)):
        for row in cases.query("method == @OURS and data == @data and n == 1_000_000").itertuples():
            measured = f"{number(row.seconds)} s, {number(row.peak_mb * 1e6 / 2**30)} GiB"
            statement = f"1,000,000 points of the {data} take at most {seconds} s and 3 GiB, end to end."
            yield claim(statement, measured, row.seconds <= seconds and row.peak_mb * 1e6 <= 3 * 2**30)


# The page.

_INTRODUCTION = """
heatsketch from points to 10 dimensions at diffusion time 16, beside other packages, on a noisy swiss roll in R^3 and a
branching tree in R^50. Every method runs in fresh processes, in turns. A process makes the data, then imports and runs
the method on other points, so that imports and compilation are not in the times (*cold* is what they take). Times are
medians. *Peak* is resident memory above that of libraries and points. Peers use 30 neighbours where that can be chosen,
all cores, and their defaults otherwise; `benchmarks/scale.py` has every call.

*Error* and *rank* compare distances in the embedding with exact diffusion distances on sampled pairs (any two points,
and near ones: a point and one of its 100 nearest): the median relative error after the best common factor, and
Spearman's correlation. *Own* is against the diffusion operator that the method itself built. *Reference* is against the
bistochastic kernel of heatsketch with 30 neighbours, in float64, which favours ours. Eigenvectors of peers are
multiplied by the powers of eigenvalues that diffusion distances need, outside the time. UMAP does not aim at distances,
and PHATE aims at others.

The committed figures were measured in several runs with time limits of 60 to 300 s; the records beside the tables have
their options.
"""

# Whether higher (1) or lower (-1) is better.
_BETTER = dict.fromkeys(("own_random_spearman", "own_near_spearman", "ref_random_spearman", "recall"), 1)
_BETTER |= dict.fromkeys(("own_random_error", "own_near_error", "ref_random_error", "seconds", "peak_mb", "error"), -1)


def _marked(table: pd.DataFrame) -> list[Row]:
    """Rows of one case; others' figures that are better than those of heatsketch at its defaults are bold."""
    rows = records(table)
    ours = next((row for row in rows if row["method"] == OURS), {})
    for row in rows:
        for key in () if row["method"].startswith(OURS) else _BETTER.keys() & row.keys() & ours.keys():
            if _BETTER[key] * row[key] > _BETTER[key] * ours[key]:
                row[key] = f"**{number(row[key])}**"
        row.setdefault("seconds", row.get("status"))
    return rows


@section(["embeddings"], "Figures that are better than those of heatsketch at its defaults are **bold** in all tables.")
def _losses(tables: Tables) -> str:
    lost = at_par(over_repeats(tables["embeddings"])).fillna({"times": 0.0}).query("times < 1")
    lines = ["At matched quality these are faster, or unmatched:\n"] if len(lost) else []
    for row in lost.itertuples():
        ours = (
            f"{row.our_method} takes {number(row.our_seconds)} s" if row.times else "no variant of ours is as accurate"
        )
        lines.append(f"- {row.method}, {row.data}, {row.n:,} points, {number(row.seconds)} s: {ours}.")
    return "\n".join(lines)


@section(["embeddings"])
def _end_to_end(tables: Tables) -> str:
    columns = {
        "method": "method", "s": "seconds", "runs": "repeats", "peak MB": "peak_mb", "cold s": "cold_s",
        "own error": "own_random_error", "own rank": "own_random_spearman", "own error, near": "own_near_error",
        "own rank, near": "own_near_spearman", "reference error": "ref_random_error",
        "reference rank": "ref_random_spearman", "version": "version",
    }  # fmt: skip
    groups = over_repeats(tables["embeddings"]).groupby(["data", "n"])
    tried = (f"### {TITLES[data]}, {n:,} points\n\n{rows_table(_marked(part), columns)}" for (data, n), part in groups)
    return "\n\n".join(tried)


_MATCHED = """
For each peer the fastest variant of ours whose median error is no larger and whose rank correlation is no smaller, on
random pairs, each by its own operator.
"""


@section(["embeddings"], _MATCHED)
def _matched(tables: Tables) -> str:
    return rows_table(records(at_par(over_repeats(tables["embeddings"]))), PEER_COLUMNS)


_LOOP_COLUMNS = {
    "points": "n", "data": "data", "order": "order", "method": "method", "s": "seconds", "repeats": "repeats",
    "set-up s": "setup_s", "error": "error", "recall": "recall", "second use, s": "second_s",
}  # fmt: skip


def _contenders(tables: Tables) -> str:
    """Contenders of an inner loop, case by case."""
    (cases,) = map(over_repeats, tables.values())
    groups = cases.groupby([key for key in ("n", "data", "order") if key in cases])
    rows = [row for _, part in groups for row in _marked(part)]
    return rows_table(rows, {title: key for title, key in _LOOP_COLUMNS.items() if key in cases})


_EXACT = """
K V for the Gaussian kernel of all pairs, 32 columns, float32, without storing K. The error is that of 64 rows against
float64. The chunk of PyTorch was chosen on other points.
"""
_GRAPH = """
The symmetric graph of 30 neighbours with Gaussian weights times 32 columns, float32, with the points in random order
and reordered by reverse Cuthill-McKee for all. Set-up is what an operator does once, its own reordering included.
"""
_NEIGHBOURS = """
The 30 nearest others, with recall on 1,000 sampled points against brute force. Of an index with a choice of effort
several choices are shown; the time to build it is included.
"""
_FIRST = "Seconds from the start of a process that fits once to its end, with no compiled code."


def _absent(tables: Tables) -> str:
    rows = [row for table in tables.values() for row in records(table)]
    wrong = [row for row in rows if row.get("status", "ok") != "ok" or "unscored" in row]
    columns = {"table": "figure", "method": "method", "data": "data", "points": "n", "status": "status"}
    return rows_table(wrong, columns | {"reason": "reason", "not scored": "unscored"}) if wrong else ""


STUDY = Study(
    "scale",
    "heatsketch at scale",
    _INTRODUCTION,
    EXPERIMENTS,
    judged,
    {
        "Where we lose": _losses,
        "End to end": _end_to_end,
        "At matched quality": _matched,
        "Exact product without the matrix": section(["exact_product"], _EXACT)(_contenders),
        "Product with a graph": section(["graph_product"], _GRAPH)(_contenders),
        "Neighbours": section(["neighbours"], _NEIGHBOURS)(_contenders),
        "First use": section(["first_use"], _FIRST)(_contenders),
        "Absent, failed, or over a limit": _absent,
    },
    quick=_quick,
    folder="benchmarks",
)

if __name__ == "__main__":
    main(STUDY)
