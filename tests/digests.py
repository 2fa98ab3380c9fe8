"""Digests of many results, to the last bit: ``python digests.py [THREADS [CALLERS]]`` prints them as JSON.

THREADS is the number of cores that heatsketch uses, CALLERS the number of joblib threads that compute results at once.
`slow/test_environments.py` compares the digests of several environments.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
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
    if isinstance(value, dict):
        value = list(value.items())
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
    return [
        model.embedding_,
        model.transform(X[:200] + X.dtype.type(0.01)),
        *(getattr(model, name) for name in attributes),
    ]


def every_kind(dtype: Any, d: int) -> Results:
    """Kernels, sketches and eigenvectors of points of a dtype and dimension."""
    X = points(N, d, dtype)

    def kernel() -> list[Any]:
        A = hs.heat_kernel(X, bandwidth=1.0, n_neighbors=None)
        return [A @ X, A @ X[:, 0], A.scaling.scale, A.toarray()]

    def sketch() -> list[Any]:
        model = hs.GaussianProcessEmbedding(5, bandwidth=1.0, random_state=0)
        return [*_fitted(model, X), model.at_powers([1, 3, 300]), model.distortion(), model.diffusion_distances(PAIRS)]

    return {
        "kernel": kernel,
        "sketch": sketch,
        "maps": lambda: _fitted(hs.DiffusionMaps(3, bandwidth=1.0), X, "eigenvalues_", "eigenvectors_"),
        "neighbours": lambda: _fitted(hs.DiffusionMaps(3, n_neighbors=12), X, "eigenvalues_"),
    }


def kernels(X: np.ndarray) -> Results:
    """Bandwidth rules, normalisations and affinities."""
    D = np.sqrt(np.square(X[:300, None] - X[None, :300]).sum(axis=2))

    def embed(Z: Any = X, **options: Any) -> Any:
        return _fitted(hs.GaussianProcessEmbedding(3, random_state=0, **options), Z)

    found: Results = {}
    for rule in ("median", "slope", "self-tuning"):
        found[f"bandwidth {rule}"] = lambda rule=rule: hs.heat_kernel(X, bandwidth=rule).bandwidth
    for name in ("symmetric", "bistochastic-weighted"):
        found[name] = lambda name=name: embed(normalization=name, bandwidth=1.0)
    return found | {
        "power auto": lambda: embed(power="auto"),
        "power 1.5": lambda: embed(power=1.5, bandwidth=2.0),
        "cutoff": lambda: embed(kernel_params={"cutoff": 1e-3}),
        "given distances": lambda: hs.DiffusionMaps(3, metric="precomputed").fit_transform(D),
        "networkx graph": lambda: hs.DiffusionMaps(3, affinity="precomputed").fit_transform(_graph()),
        "clusters": lambda: nearest_neighbors(points(4500, 12, np.float32), 8),
    }


def _graph() -> Any:
    import networkx as nx  # noqa: PLC0415

    graph = nx.random_geometric_graph(150, 0.2, seed=1)
    graph.add_edges_from(nx.utils.pairwise(range(150)))
    return nx.relabel_nodes(graph, {i: f"vertex {i}" for i in graph})


def answers(X: np.ndarray) -> Results:
    """Solvers, and questions to kernels and embeddings."""
    A, B = hs.heat_kernel(X, bandwidth=1.0), hs.heat_kernel(X, bandwidth=1.2)
    model = hs.GaussianProcessEmbedding(4, bandwidth=1.0, random_state=0).fit(X)
    maps = hs.DiffusionMaps(3, bandwidth=1.0).fit(X)
    drawn = {"random_state": 0}

    def solved(solver: str) -> list[Any]:
        return _fitted(hs.DiffusionMaps(3, bandwidth=1.0, solver=solver), X, "eigenvalues_")

    def exact(**options: Any) -> Any:
        return hs.GaussianProcessEmbedding(6, n_exact=2, random_state=0, **options).fit_transform(X)

    return {
        "lanczos": lambda: solved("lanczos"),
        "randomized": lambda: solved("randomized"),
        "exact directions": lambda: exact(bandwidth=1.0),
        "distances": lambda: [hs.diffusion_distances(A, 1.5), hs.diffusion_distances(A, 4, PAIRS)],
        "kernels apart": lambda: hs.global_diffusion_distance(A, B, **drawn),
        "interval": lambda: maps.diffusion_distances(PAIRS, interval=0.9),
        "scales": lambda: model.scales([1, 4]),
        "diagnosis": lambda: str(model.diagnose()),
        "support": model.unsupported_neighbors,
        "more": lambda: hs.DiffusionMaps(2, bandwidth=1.0).fit(X).add_components(2).embedding_,
        "HeatSketch": lambda: _fitted(hs.HeatSketch(2, bandwidth=1.0, solver_params={"n_rounds": 1}, **drawn), X[:300]),
    }


def command(X: np.ndarray) -> bytes:
    """The output of ``heatsketch embed``."""
    from heatsketch.cli import main  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "x.csv"), Path(folder, "y.csv")
        np.savetxt(data, X, delimiter=",", header="a,b,c,d", comments="")
        sys.argv = ["heatsketch", "embed", str(data), "-o", str(out), "-q", "--method", "diffusion-maps"]
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
            main()
        assert out.exists(), said.getvalue()
        return out.read_bytes()


def results() -> Results:
    """All results by name."""
    X = points(N, 4, np.float64)
    found = kernels(X) | answers(X)
    for dtype, d in ((np.float64, 4), (np.float32, 40)):
        kind = f"{np.dtype(dtype)} R^{d}"
        found |= {f"{kind} {name}": result for name, result in every_kind(dtype, d).items()}
    return found


def main(threads: int | None = None, callers: int = 1) -> dict[str, str]:
    """Digests of all results, for a number of threads and of concurrent callers."""
    if threads is not None:
        import heatsketch._utils.threads  # noqa: PLC0415

        heatsketch._utils.threads._cores = lambda: threads
    warnings.simplefilter("ignore")  # a scaling may not converge in float32
    found = results()
    jobs = (delayed(lambda result: digest(result()))(result) for result in found.values())
    digests = dict(zip(found, Parallel(n_jobs=callers, backend="threading")(jobs), strict=True))
    return digests | {"command": digest(command(points(N, 4, np.float64)))}


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))  # noqa: T201
