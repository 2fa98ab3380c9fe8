"""The two products by themselves: the exact Gaussian kernel without storing it, and a neighbour graph.

All contenders of a case run in one process, one after another and again from the start, so that whatever else the
machine does meets them alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from . import data
from .accuracy import NEIGHBORS
from .failures import as_row

__all__ = ["dense_rows", "flop_limit", "gemm_exp_limit", "sparse_rows"]

COLUMNS = 32
_DENSE_DATA = {3: "swiss roll", 50: "tree"}
_CHECKED_ROWS = 64
_BLOCK = 512
_CHUNKS = (128, 256, 512, 1024, 2048, 4096)
_TUNING_POINTS = 4000
# Repeats of a case: at least 3, then as many as the time for it allows, at most 15.
_LEAST, _MOST = 3, 15
# Threads of OpenMP spin for up to 0.2 s after their work, on cores that the next contender needs.
_PAUSE_S = 0.25

Product = Callable[[Any], Any]


def gemm_exp_limit(n: int, d: int, limits: dict[str, float]) -> float:
    """Seconds that the exact product takes at least: GEMM and exp at full speed, each distance and exp used twice."""
    flops = n * n * d + 2.0 * n * n * COLUMNS
    return flops / (limits["gemm_gflops"] * 1e9) + 0.5 * n * n / (limits["exp_best"] * 1e9)


def flop_limit(stored: int, limits: dict[str, float]) -> float:
    """Seconds of a sparse product at the speed of GEMM."""
    return 2.0 * stored * COLUMNS / (limits["gemm_gflops"] * 1e9)


def interleaved(
    contenders: dict[str, Callable[[], Any]], seconds: float, pause_s: float = _PAUSE_S
) -> dict[str, list[float]]:
    """Seconds of each contender, ABCABC...; all of them have run once before."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    began = time.perf_counter()
    while contenders and len(next(iter(times.values()))) < _MOST:
        for name, run in contenders.items():
            time.sleep(pause_s)
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        if len(times[name]) >= _LEAST and time.perf_counter() - began > seconds:
            break
    return times


def _collect(
    makers: dict[str, Callable[[], Product]], V: Any, check: Callable[[Any], float]
) -> tuple[dict[str, Callable[[], Any]], dict[str, dict[str, Any]]]:
    """Make and warm each contender; those that cannot be made or fail are reported, not hidden."""
    ready: dict[str, Callable[[], Any]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for name, maker in makers.items():
        start = time.perf_counter()
        try:
            product = maker()
            setup = time.perf_counter() - start
            first = np.asarray(product(V))
            rows[name] = {
                "status": "ok",
                "setup_s": setup,
                "first_s": time.perf_counter() - start,
                "error": check(first),
            }
            ready[name] = lambda product=product: product(V)
        except Exception as error:
            rows[name] = as_row(error)
    return ready, rows


def _with_times(rows: dict[str, dict[str, Any]], times: dict[str, list[float]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, row in rows.items():
        found = times.get(name, [])
        if found:
            row |= {"seconds": float(np.median(found)), "fastest_s": min(found), "repeats": len(found)}
        yield name, row


def dense_rows(n: int, d: int, case_s: float) -> Iterator[dict[str, Any]]:
    """One row for each contender of the exact product ``K V`` with 32 columns in float32."""
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
    ready, rows = _collect(makers, V, check)
    for name, row in _with_times(rows, interleaved(ready, case_s)):
        if "seconds" in row:
            # Counted for all as if nothing were used twice, so that the figures compare.
            row["gflops"] = 2.0 * n * n * (d + COLUMNS) / row["seconds"] / 1e9
        yield {"method": name, "n": n, "d": d, **row}


def _exact_rows(X: Any, V: Any, epsilon: float, rows: Any) -> Any:
    X = X.astype(np.float64)
    squared = np.stack([np.square(X - X[i]).sum(axis=1) for i in rows])
    return np.exp(-squared / epsilon) @ V.astype(np.float64)


def _tiled(X: Any, epsilon: float) -> Product:
    from heatsketch.operators import TiledGaussianOperator  # noqa: PLC0415

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
    products = {str(chunk): _torch_chunks(X, 1.0, chunk) for chunk in _CHUNKS}
    for product in products.values():
        product(V)
    times = interleaved({name: lambda product=product: product(V) for name, product in products.items()}, 2.0, 0.0)
    return int(min(times, key=lambda name: min(times[name])))


def sparse_rows(name: str, n: int, case_s: float) -> Iterator[dict[str, Any]]:
    """One row for each contender and order of the product of a neighbour graph with 32 columns in float32."""
    W, searched_by = neighbour_graph(data.make(name, n))
    V = np.random.default_rng(1).standard_normal((n, COLUMNS), dtype=np.float32)
    start = time.perf_counter()
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    reorder_s = time.perf_counter() - start
    for label, matrix in (("as given", W), ("reordered", W[order][:, order].tocsr())):
        exact = matrix[:_CHECKED_ROWS].astype(np.float64) @ V.astype(np.float64)

        def check(out: Any, exact: Any = exact) -> float:
            return float(np.linalg.norm(out[:_CHECKED_ROWS] - exact) / np.linalg.norm(exact))

        makers: dict[str, Callable[[], Product]] = {
            "heatsketch": lambda matrix=matrix: _our_sparse(matrix),
            "scipy": lambda matrix=matrix: lambda V: matrix @ V,
            "torch": lambda matrix=matrix: _torch_sparse(matrix),
        }
        ready, rows = _collect(makers, V, check)
        about = {"data": name, "n": n, "order": label, "stored": int(W.nnz), "graph_by": searched_by}
        for method, row in _with_times(rows, interleaved(ready, case_s)):
            yield {"method": method, **about, "reorder_s": reorder_s, **row}


def _our_sparse(matrix: Any) -> Product:
    from heatsketch.operators import SparseOperator  # noqa: PLC0415

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
        from heatsketch.neighbors import nearest_neighbors  # noqa: PLC0415

        found = nearest_neighbors(X, NEIGHBORS)
        return np.asarray(found.indices), np.asarray(found.squared), "heatsketch"
    except ImportError:
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

        distances, indices = NearestNeighbors(n_neighbors=NEIGHBORS, n_jobs=-1).fit(X).kneighbors(X)
        return indices, np.square(distances), "scikit-learn"
