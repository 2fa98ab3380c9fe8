"""Digests of results to the last bit: ``python digests.py [THREADS [CALLERS]]`` prints them as JSON.

THREADS is the number of cores that heatsketch uses, CALLERS the number of joblib threads that compute results at once.
`slow/test_environments.py` compares the digests of several environments.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse

import heatsketch as hs
from heatsketch.neighbors.search import nearest_neighbors

# Enough points for BLAS to use several threads.
N = 500
PAIRS = [[0, 1], [2, 400], [17, 333]]

Results = dict[str, Callable[[], Any]]


def digest(result: Any) -> str:
    """A digest of all numbers and texts in a result."""
    state = hashlib.sha256()
    for part in _parts(result):
        state.update(part)
    return state.hexdigest()[:16]


def _parts(value: Any) -> Iterator[bytes]:
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, (np.ndarray, np.generic, float)):
        array = np.ascontiguousarray(value)
        yield f"{array.dtype} {array.shape}".encode()
        yield array.tobytes()
    else:
        yield repr(value).encode()


def points(n: int, d: int, dtype: Any) -> np.ndarray:
    """A torus in R^4, and noise in further dimensions."""
    X = hs.datasets.stretched_torus(n, random_state=0)
    further = 0.05 * np.random.default_rng(0).normal(size=(n, d - 4))
    return np.hstack([X, further]).astype(dtype)


def _fitted(model: Any, X: np.ndarray, *attributes: str) -> list[Any]:
    """The embedding, that of new points, and attributes of a fitted model."""
    model.fit(X)
    new = model.transform(X[:200] + X.dtype.type(0.01))
    return [model.embedding_, new, *(getattr(model, name) for name in attributes)]


def estimators(dtype: Any, d: int) -> Results:
    """Kernels, sketches and eigenvectors of points of a dtype and dimension."""
    X = points(N, d, dtype)

    def kernel() -> list[Any]:
        A = hs.heat_kernel(X, bandwidth=1.0, n_neighbors=None)
        return [A @ X, A @ X[:, 0], A.scaling.scale, A.toarray()]

    def sketch() -> list[Any]:
        model = hs.GaussianProcessEmbedding(5, bandwidth=1.0, random_state=0)
        return [*_fitted(model, X), model.at_powers([1, 3, 300]), model.distortion(), model.diffusion_distances(PAIRS)]

    return {
        f"{np.dtype(dtype)} kernel": kernel,
        f"{np.dtype(dtype)} sketch": sketch,
        f"{np.dtype(dtype)} maps": lambda: _fitted(hs.DiffusionMaps(3, bandwidth=1.0), X, "eigenvectors_"),
        f"{np.dtype(dtype)} neighbours": lambda: _fitted(hs.DiffusionMaps(3, n_neighbors=12), X, "eigenvalues_"),
    }


def options(X: np.ndarray) -> Results:
    """Bandwidth rules, normalisations, metrics, solvers, and neighbours by clusters."""

    def embed(**chosen: Any) -> Any:
        return _fitted(hs.GaussianProcessEmbedding(3, random_state=0, **chosen), X)

    found: Results = {"clusters": lambda: nearest_neighbors(points(4500, 12, np.float32), 8)}
    for rule in ("median", "neighbor", "slope", "self-tuning"):
        found[f"bandwidth {rule}"] = lambda rule=rule: hs.heat_kernel(X, bandwidth=rule).bandwidth
    for name in ("symmetric", "bistochastic-weighted"):
        found[name] = lambda name=name: embed(normalization=name, bandwidth=1.0)
    for power in ("multiscale", 1.5):
        found[f"power {power}"] = lambda power=power: embed(power=power, bandwidth=2.0)
    return found | {
        "randomized": lambda: _fitted(hs.DiffusionMaps(3, bandwidth=1.0, solver="randomized"), X),
        "cutoff": lambda: embed(kernel_params={"cutoff": 1e-3}),
        "manhattan": lambda: embed(metric="manhattan"),
        "exact directions": lambda: embed(n_exact=2, bandwidth=1.0),
        "defaults": embed,
        "geodesics": lambda: hs.geodesic_distances(hs.heat_kernel(X), "multiscale", PAIRS),
    }


def answers(X: np.ndarray) -> Results:
    """Functions of kernels and of fitted models."""
    A, B = hs.heat_kernel(X, bandwidth=1.0), hs.heat_kernel(X, bandwidth=1.2)
    model = hs.GaussianProcessEmbedding(4, bandwidth=1.0, random_state=0).fit(X)
    maps = hs.DiffusionMaps(3, bandwidth=1.0).fit(X)
    drawn = {"random_state": 0}
    return {
        "distances": lambda: [hs.diffusion_distances(A, t) for t in (3, 1.5)],
        "distances of pairs": lambda: hs.diffusion_distances(A, 4, PAIRS),
        "kernels apart": lambda: hs.global_diffusion_distance(A, B, **drawn),
        "interval": lambda: maps.diffusion_distances(PAIRS, interval=0.9),
        "scales": lambda: model.scales([1, 4]),
        "diagnosis": lambda: str(model.diagnose()),
        "support": model.unsupported_neighbors,
        "more": lambda: hs.DiffusionMaps(2, bandwidth=1.0).fit(X).add_components(2).embedding_,
        "HeatSketch": lambda: _fitted(hs.HeatSketch(2, **drawn), X),
        "HeatSketch of a wide sketch": lambda: _fitted(hs.HeatSketch(3, bandwidth=1.0, **drawn), X[:300]),
        "HeatSketch, bilipschitz": lambda: _fitted(
            hs.HeatSketch(2, bandwidth=1.0, power=8, objective="bilipschitz", **drawn), X[:300]
        ),
    }


def main(threads: int | None = None, callers: int = 1) -> dict[str, str]:
    """Digests of all results, for a number of threads and of concurrent callers."""
    if threads is not None:
        import heatsketch._utils.threads  # noqa: PLC0415

        heatsketch._utils.threads._cores = lambda: threads
    warnings.simplefilter("ignore")  # a scaling may not converge in float32
    X = points(N, 4, np.float64)
    found = options(X) | answers(X) | estimators(np.float64, 4) | estimators(np.float32, 40)
    jobs = (delayed(lambda result: digest(result()))(result) for result in found.values())
    return dict(zip(found, Parallel(n_jobs=callers, backend="threading")(jobs), strict=True))


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))  # noqa: T201
