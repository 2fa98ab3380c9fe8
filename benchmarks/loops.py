"""Time the inner loops: products with the exact kernel and with a graph, and searches for neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial import cKDTree

from heatsketch_paper.harness.process import failure_row

from . import data as points
from .embedders import OURS
from .exactness import NEIGHBORS, Row, squared

__all__ = ["EXACT", "GRAPH", "SEARCHES", "exact_product", "graph_product", "limits", "neighbours", "recall"]

COLUMNS = 32
_FEWEST = 500  # points of a warm-up

Product = Callable[[Any], Any]


def multiply_rate() -> float:
    """Operations per second of a matrix product in float32, the best of several runs."""
    A = np.random.default_rng(0).standard_normal((1536, 1536), dtype=np.float32)
    return 2.0 * len(A) ** 3 / min(_repeated(lambda: A @ A, 0.5))


def limits(method: str, data: str, n: int) -> Iterator[Row]:  # noqa: ARG001
    """Best rates of the machine: matrix products, copies, and reading rows of 128 bytes in random order."""
    yield {"what": "matrix product, float32", "best": multiply_rate() / 1e9, "unit": "GFLOP/s"}
    source = np.ones(2**27, dtype=np.uint8)
    target = np.empty_like(source)
    halves = [slice(0, 2**26), slice(2**26, 2**27)]
    with ThreadPoolExecutor(2) as pool:
        copying = min(_repeated(lambda: list(pool.map(lambda h: np.copyto(target[h], source[h]), halves)), 1.0))
        yield {"what": "copy, bytes read and written", "best": 2.0 * source.size / copying / 1e9, "unit": "GB/s"}
        rows = source.reshape(-1, 128).view(np.float32)
        order = np.random.default_rng(0).permutation(len(rows)).reshape(2, -1)
        found = np.empty((2, order.shape[1], 32), dtype=np.float32)
        gather = lambda i: np.take(rows, order[i], axis=0, out=found[i], mode="clip")  # noqa: E731
        gathering = min(_repeated(lambda: list(pool.map(gather, range(2))), 1.0))
    yield {
        "what": "rows of 128 bytes in random order, of 128 MiB",
        "best": source.size / gathering / 1e9,
        "unit": "GB/s",
    }


def _timed(make: Callable[[], Product], V: Any, checked: Any, exact: Any) -> Row:
    """Set-up time, median time of 3 to 15 products, and error on some rows."""
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
    """Product K V with the Gaussian kernel of all pairs, without storing K."""
    X, rng = points.make(data, n), np.random.default_rng(1)
    V = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    some = X[rng.choice(n, min(n, 500), replace=False)].astype(np.float64)
    epsilon = 0.1 * float(np.median(np.square(some[:, None, :] - some[None, :, :]).sum(-1)))
    checked = rng.choice(n, 64, replace=False)
    exact = np.exp(-squared(X.astype(np.float64), checked) / epsilon) @ V.astype(np.float64)
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
    """Chunked product in PyTorch; by default with the chunk size that is fastest on other points."""
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
    """Product of a symmetric graph of 30 neighbours with some columns, in two orders of the points."""
    from heatsketch.neighbors.search import nearest_neighbors  # noqa: PLC0415

    found = nearest_neighbors(points.make(data, n), NEIGHBORS)
    weights = np.exp(-found.squared / np.median(found.squared)).astype(np.float32).ravel()
    starts = np.arange(0, len(weights) + 1, NEIGHBORS, dtype=np.int32)
    W = sparse.csr_matrix((weights, np.asarray(found.indices, dtype=np.int32).ravel(), starts), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    V = np.random.default_rng(1).standard_normal((n, COLUMNS), dtype=np.float32)
    rate = multiply_rate()
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    for name, matrix in (("as given", W), ("reordered", W[order][:, order].tocsr())):
        matrix.sort_indices()
        exact = matrix[:64].astype(np.float64) @ V.astype(np.float64)
        row = _timed(partial(GRAPH[method], matrix, reorder=name == "as given"), V, slice(64), exact)
        if "seconds" in row:
            row["of_limit"] = row["seconds"] * rate / (2.0 * matrix.nnz * COLUMNS)
        yield {"order": name} | row


def _sparse_operator(matrix: Any, *, reorder: bool) -> Product:
    """The operator of heatsketch, which may reorder points before a product and restores their order after it."""
    from heatsketch.linalg.operators import SparseOperator  # noqa: PLC0415

    return SparseOperator(matrix, reorder=reorder).matmat


def _torch_sparse(matrix: Any, **_: bool) -> Product:
    import torch  # noqa: PLC0415

    parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    held = torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=False)
    return lambda V: (held @ torch.from_numpy(V)).numpy()


GRAPH: dict[str, Callable[..., Product]] = {
    OURS: _sparse_operator,
    "SciPy": lambda matrix, **_: lambda V: matrix @ V,
    "PyTorch": _torch_sparse,
}


def neighbours(method: str, data: str, n: int) -> Iterator[Row]:
    """Seconds and recall of a search for neighbours."""
    X, search = points.make(data, n), SEARCHES[method]
    search(points.tuning(max(_FEWEST, min(n, 12_000)), X.shape[1]))
    all_products = 2.0 * X.shape[1] * float(n) ** 2 / multiply_rate()
    start = time.perf_counter()
    indices = search(X)
    seconds = time.perf_counter() - start
    found = {"status": "ok", "seconds": seconds, "of_limit": seconds / all_products}
    yield found | {"recall": recall(X, np.asarray(indices))}


def recall(X: Any, indices: Any, k: int = NEIGHBORS) -> float:
    """Share of the k nearest neighbours of 1,000 sampled points that were found, without the points themselves."""
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    chosen = np.random.default_rng(0).choice(len(X), min(1000, len(X)), replace=False)
    exact = NearestNeighbors(n_neighbors=k + 1, algorithm="brute", n_jobs=-1).fit(X).kneighbors(X[chosen])[0]
    found = indices[chosen]
    apart = np.linalg.norm(X[found].astype(np.float64) - X[chosen, None], axis=2)
    # Indexes return -1 for missing neighbours. The tolerance allows for float32 rounding of the k-th distance.
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
