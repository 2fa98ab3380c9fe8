"""The two products by themselves: the exact Gaussian kernel without storing it, and a neighbour graph.

Every contender has a process of its own, because threads that one library leaves waiting take time from the next; the
processes take turns, and each is repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .. import data
from .accuracy import NEIGHBORS
from .failures import as_row

__all__ = ["DENSE", "SPARSE", "dense_row", "flop_limit", "gemm_exp_limit", "sparse_rows"]

COLUMNS = 32
# Contenders.
DENSE = ("heatsketch", "numpy", "keops", "torch")
SPARSE = ("heatsketch", "scipy", "torch")
_DENSE_DATA = {3: "swiss roll", 50: "tree"}
_CHECKED_ROWS = 64
_BLOCK = 512
_CHUNKS = (128, 256, 512, 1024, 2048, 4096)
_TUNING_POINTS, _TUNING_S = 4000, 0.3
# Products that are timed: at least 3, then as many as the time allows, at most 15.
_LEAST, _MOST = 3, 15

Product = Callable[[Any], Any]


def gemm_exp_limit(n: int, d: int, limits: dict[str, float]) -> float:
    """Seconds that the exact product takes at least: GEMM and exp at full speed, each distance and exp used twice."""
    flops = n * n * d + 2.0 * n * n * COLUMNS
    return flops / (limits["gemm_gflops"] * 1e9) + 0.5 * n * n / (limits["exp_best"] * 1e9)


def flop_limit(stored: int, limits: dict[str, float]) -> float:
    """Seconds of a sparse product at the speed of GEMM."""
    return 2.0 * stored * COLUMNS / (limits["gemm_gflops"] * 1e9)


def timed(run: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of repeated runs, for about so long; it has run once before."""
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _LEAST or (len(times) < _MOST and time.perf_counter() - began < seconds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def _measured(maker: Callable[[], Product], V: Any, check: Callable[[Any], float], case_s: float) -> dict[str, Any]:
    """Make and warm a contender, and time it; one that cannot be made or fails is reported, not hidden."""
    start = time.perf_counter()
    try:
        product = maker()
        setup = time.perf_counter() - start
        first = np.asarray(product(V))
        row = {"status": "ok", "setup_s": setup, "first_s": time.perf_counter() - start, "error": check(first)}
        times = timed(lambda: product(V), case_s)
    except Exception as error:
        return as_row(error)
    return row | {"seconds": float(np.median(times)), "fastest_s": min(times), "repeats": len(times)}


def dense_row(method: str, n: int, d: int, case_s: float) -> dict[str, Any]:
    """The exact product ``K V`` with 32 columns in float32 by one contender."""
    X = data.make(_DENSE_DATA[d], n)
    rng = np.random.default_rng(1)
    V = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    sample = X[rng.choice(n, 500, replace=False)].astype(np.float64)
    squared = np.square(sample[:, None, :] - sample[None, :, :]).sum(-1)
    epsilon = 0.1 * float(np.median(squared))
    checked = rng.choice(n, _CHECKED_ROWS, replace=False)
    exact = _exact_rows(X, V, epsilon, checked)

    def check(out: Any) -> float:
        return float(np.linalg.norm(out[checked] - exact) / np.linalg.norm(exact))

    makers: dict[str, Callable[[], Product]] = {
        "heatsketch": lambda: _tiled(X, epsilon),
        "numpy": lambda: _numpy_blocks(X, epsilon),
        "keops": lambda: _keops(X, epsilon),
        "torch": lambda: _torch_chunks(X, epsilon, _tuned_chunk(d)),
    }
    row = _measured(makers[method], V, check, case_s)
    if "seconds" in row:
        # Counted for all as if nothing were used twice, so that the figures compare.
        row["gflops"] = 2.0 * n * n * (d + COLUMNS) / row["seconds"] / 1e9
    return row


def _exact_rows(X: Any, V: Any, epsilon: float, rows: Any) -> Any:
    X = X.astype(np.float64)
    squared = np.stack([np.square(X - X[i]).sum(axis=1) for i in rows])
    return np.exp(-squared / epsilon) @ V.astype(np.float64)


def _tiled(X: Any, epsilon: float) -> Product:
    from heatsketch.linalg.operators import TiledGaussianOperator  # noqa: PLC0415

    return TiledGaussianOperator(X, epsilon, dtype=np.float32).matmat  # type: ignore[no-any-return]


def _numpy_blocks(X: Any, epsilon: float) -> Product:
    scaled = X * np.float32(epsilon**-0.5)
    norms = np.square(scaled).sum(axis=1)

    def product(V: Any) -> Any:
        out = np.empty_like(V)
        for start in range(0, len(X), _BLOCK):
            rows = slice(start, start + _BLOCK)
            K = scaled[rows] @ scaled.T
            K *= 2.0
            K -= norms[rows, None]
            K -= norms[None, :]
            np.exp(K, out=K)
            np.matmul(K, V, out=out[rows])
        return out

    return product


def _keops(X: Any, epsilon: float) -> Product:
    from pykeops.numpy import LazyTensor  # noqa: PLC0415

    scaled = np.ascontiguousarray(X * np.float32(epsilon**-0.5))
    K = (-((LazyTensor(scaled[:, None, :]) - LazyTensor(scaled[None, :, :])) ** 2).sum(-1)).exp()
    return lambda V: K @ V


def _torch_chunks(X: Any, epsilon: float, chunk: int) -> Product:
    import torch  # noqa: PLC0415

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    scaled = torch.from_numpy(X * np.float32(epsilon**-0.5))
    norms = scaled.square().sum(1)

    def product(V: Any) -> Any:
        block = torch.from_numpy(V)
        out = torch.empty_like(block)
        with torch.inference_mode():
            for start in range(0, len(scaled), chunk):
                rows = slice(start, start + chunk)
                K = torch.addmm(norms[None, :], scaled[rows], scaled.T, beta=-1.0, alpha=2.0)
                K.sub_(norms[rows, None]).exp_()
                torch.mm(K, block, out=out[rows])
        return out.numpy()

    return product


def _tuned_chunk(d: int) -> int:
    """The chunk that is fastest for PyTorch on other points and another number of them."""
    X = data.tuning(_TUNING_POINTS, d)
    V = np.ones((len(X), COLUMNS), dtype=np.float32)
    best = {}
    for chunk in _CHUNKS:
        product = _torch_chunks(X, 1.0, chunk)
        product(V)
        best[chunk] = min(timed(lambda product=product: product(V), _TUNING_S))
    return min(best, key=lambda chunk: best[chunk])


def sparse_rows(method: str, name: str, n: int, case_s: float) -> Iterator[dict[str, Any]]:
    """The product of a neighbour graph with 32 columns in float32 by one contender, in both orders of the points."""
    W, searched_by = neighbour_graph(data.make(name, n))
    V = np.random.default_rng(1).standard_normal((n, COLUMNS), dtype=np.float32)
    start = time.perf_counter()
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    reorder_s = time.perf_counter() - start
    makers: dict[str, Callable[[Any], Product]] = {
        "heatsketch": _our_sparse,
        "scipy": lambda matrix: lambda V: matrix @ V,
        "torch": _torch_sparse,
    }
    for label, matrix in (("as given", W), ("reordered", W[order][:, order].tocsr())):
        exact = matrix[:_CHECKED_ROWS].astype(np.float64) @ V.astype(np.float64)

        def check(out: Any, exact: Any = exact) -> float:
            return float(np.linalg.norm(out[:_CHECKED_ROWS] - exact) / np.linalg.norm(exact))

        row = _measured(lambda matrix=matrix: makers[method](matrix), V, check, case_s)
        about = {"order": label, "stored": int(W.nnz), "graph_by": searched_by, "reorder_s": reorder_s}
        yield about | row


def _our_sparse(matrix: Any) -> Product:
    from heatsketch.linalg.operators import SparseOperator  # noqa: PLC0415

    return SparseOperator(matrix).matmat


def _torch_sparse(matrix: Any) -> Product:
    import torch  # noqa: PLC0415

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    held = torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=False)
    return lambda V: (held @ torch.from_numpy(V)).numpy()


def neighbour_graph(X: Any) -> tuple[Any, str]:
    """Symmetric graph of 30 neighbours with Gaussian weights, float32 CSR, points in their (random) order."""
    indices, squared, searched_by = _neighbours(X)
    n, k = indices.shape
    weights = np.exp(-squared / np.median(squared)).astype(np.float32).ravel()
    starts = np.arange(0, n * k + 1, k, dtype=np.int32)
    W = sparse.csr_matrix((weights, indices.astype(np.int32).ravel(), starts), shape=(n, n))
    W = W.maximum(W.T).tocsr()
    W.sort_indices()
    return W, searched_by


def _neighbours(X: Any) -> tuple[Any, Any, str]:
    try:
        from heatsketch.neighbors.search import nearest_neighbors  # noqa: PLC0415

        found = nearest_neighbors(X, NEIGHBORS)
        return np.asarray(found.indices), np.asarray(found.squared), "heatsketch"
    except ImportError:
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

        distances, indices = NearestNeighbors(n_neighbors=NEIGHBORS, n_jobs=-1).fit(X).kneighbors(X)
        return indices, np.square(distances), "scikit-learn"
