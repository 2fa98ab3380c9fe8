"""Neighbour search by itself: seconds, and recall on 1,000 points against brute force."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import data
from .accuracy import NEIGHBORS

__all__ = ["SEARCHES", "Truth", "measured"]

_SAMPLE = 1000
_BLOCK = 16
_LEAST_WARM_POINTS, _WARM_POINTS = 500, 12_000
# Rounding of squared distances in float32 must not decide who is a neighbour.
_EDGE = 1.0 + 1e-5

# A search yields its variants: (setting, seconds, indices, what it says of itself).
Variants = Iterator[tuple[str, float, Any, dict[str, Any]]]


class Truth:
    """The true neighbours of sampled points.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    most : int
        Neighbours that a search will return at most, the point itself not counted.
    """

    def __init__(self, X: Any, most: int = NEIGHBORS, seed: int = 0) -> None:
        self.X = X
        self.chosen = np.random.default_rng(seed).choice(len(X), min(_SAMPLE, len(X)), replace=False)
        most = min(most, len(X) - 1)
        # A product in float32 finds candidates, with room to spare; their exact distances decide.
        centred = X - X.mean(axis=0)
        norms = np.square(centred).sum(axis=1)
        wanted = min(3 * most + 1, len(X))
        self.nearest = np.empty((len(self.chosen), most))  # squared distances, in increasing order
        for start in range(0, len(self.chosen), _BLOCK):
            some = self.chosen[start : start + _BLOCK]
            rough = norms[None, :] - 2.0 * (centred[some] @ centred.T)
            candidates = np.argpartition(rough, wanted - 1, axis=1)[:, :wanted]
            for place, i in enumerate(some):
                others = candidates[place][candidates[place] != i]
                self.nearest[start + place] = np.sort(self._squared(i, others))[:most]

    def _squared(self, i: int, others: Any) -> Any:
        return np.square(self.X[others].astype(np.float64) - self.X[i]).sum(axis=1)

    def recall(self, indices: Any) -> tuple[float, int]:
        """Share of the true nearest others that were found, and how many others each point was given.

        A found point counts when it is no farther than the true k-th; a point itself does not count, whether the
        search returns it or not.
        """
        itself = (indices[self.chosen] == self.chosen[:, None]).any(axis=1).mean()
        others = min(indices.shape[1] - int(itself > 0.5), self.nearest.shape[1])
        hits = 0
        for i, nearest in zip(self.chosen, self.nearest, strict=True):
            found = np.unique(indices[i])
            found = found[(found >= 0) & (found != i)]  # -1 fills what an index did not find
            hits += min(others, int((self._squared(i, found) <= nearest[others - 1] * _EDGE).sum()))
        return hits / (others * len(self.chosen)), others


def measured(search: str, name: str, n: int) -> Iterator[dict[str, Any]]:
    """One row for each variant of a search."""
    X = data.make(name, n)
    # Imports and compiles, on enough points for what large data will use.
    next(SEARCHES[search](data.tuning(max(_LEAST_WARM_POINTS, min(n, _WARM_POINTS)), X.shape[1])))
    truth: Truth | None = None
    for setting, seconds, indices, said in SEARCHES[search](X):
        truth = truth or Truth(X)
        share, others = truth.recall(np.asarray(indices))
        yield {"setting": setting, "seconds": seconds, "recall": share, "others": others, "status": "ok", **said}


def _heatsketch(X: Any) -> Variants:
    from heatsketch.neighbors.search import nearest_neighbors  # noqa: PLC0415

    start = time.perf_counter()
    found = nearest_neighbors(X, NEIGHBORS)
    seconds = time.perf_counter() - start
    yield "default", seconds, found.indices, {"said_recall": float(found.recall), "said_method": str(found.method)}


def _ckdtree(X: Any) -> Variants:
    from scipy.spatial import cKDTree  # noqa: PLC0415

    start = time.perf_counter()
    indices = cKDTree(X).query(X, NEIGHBORS + 1, workers=-1)[1]
    yield "workers=-1", time.perf_counter() - start, indices, {}


def _sklearn(X: Any) -> Variants:
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    start = time.perf_counter()
    indices = NearestNeighbors(n_neighbors=NEIGHBORS + 1, n_jobs=-1).fit(X).kneighbors(X, return_distance=False)
    yield "algorithm='auto', n_jobs=-1", time.perf_counter() - start, indices, {}


def _pynndescent(X: Any) -> Variants:
    from pynndescent import NNDescent  # noqa: PLC0415

    start = time.perf_counter()
    indices = NNDescent(X, n_neighbors=NEIGHBORS + 1, random_state=0, n_jobs=-1).neighbor_graph[0]
    yield "default, n_jobs=-1", time.perf_counter() - start, indices, {}


def _faiss() -> Any:
    import faiss  # noqa: PLC0415

    faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
    return faiss


def _faiss_flat(X: Any) -> Variants:
    faiss = _faiss()
    start = time.perf_counter()
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    indices = index.search(X, NEIGHBORS + 1)[1]
    yield "exact", time.perf_counter() - start, indices, {}


def _faiss_ivf(X: Any) -> Variants:
    """One index, searched with more and more probes: the whole curve is shown instead of one choice."""
    faiss = _faiss()
    lists = max(1, int(4 * np.sqrt(len(X))))
    start = time.perf_counter()
    quantizer = faiss.IndexFlatL2(X.shape[1])
    index = faiss.IndexIVFFlat(quantizer, X.shape[1], min(lists, max(1, len(X) // 40)))
    index.cp.min_points_per_centroid = 1
    index.train(X[: 40 * lists])
    index.add(X)
    built = time.perf_counter() - start
    for probes in (8, 16, 32, 64):
        index.nprobe = probes
        start = time.perf_counter()
        indices = index.search(X, NEIGHBORS + 1)[1]
        yield f"nlist={index.nlist}, nprobe={probes}", built + time.perf_counter() - start, indices, {}


def _faiss_hnsw(X: Any) -> Variants:
    faiss = _faiss()
    start = time.perf_counter()
    index = faiss.IndexHNSWFlat(X.shape[1], 24)
    index.hnsw.efConstruction = 64
    index.add(X)
    built = time.perf_counter() - start
    for breadth in (64, 128):
        index.hnsw.efSearch = breadth
        start = time.perf_counter()
        indices = index.search(X, NEIGHBORS + 1)[1]
        yield f"M=24, efConstruction=64, efSearch={breadth}", built + time.perf_counter() - start, indices, {}


SEARCHES: dict[str, Callable[[Any], Variants]] = {
    "heatsketch": _heatsketch,
    "ckdtree": _ckdtree,
    "sklearn": _sklearn,
    "pynndescent": _pynndescent,
    "faiss-flat": _faiss_flat,
    "faiss-ivf": _faiss_ivf,
    "faiss-hnsw": _faiss_hnsw,
}
