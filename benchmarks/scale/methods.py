"""Embeddings end to end, from points to coordinates: heatsketch's, eigensolvers on its kernel, and the registry.

Each function takes the points and the number of dimensions and does all of the work that is timed. What only the
comparison needs (coordinates at time 16, the operator) is left to be called later, outside the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .accuracy import NEIGHBORS, POWER, Own

__all__ = ["Embedded", "Method", "registry"]

COMPONENTS = 10
_SOLVER_TOL = 1e-3


@dataclass(frozen=True)
class Embedded:
    """What a method returns.

    Attributes
    ----------
    coordinates : callable
        Gives the embedding at diffusion time 16, shape (n, k); for methods that return plain eigenvectors these are
        multiplied by powers of the eigenvalues here, outside the time, so that nobody is judged by a convention.
    own : callable, optional
        Gives the method's own diffusion operator, where it has one.
    parts : dict
        Seconds of parts of the work, where they are known.
    """

    coordinates: Callable[[], Any]
    own: Callable[[], Own] | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """An entry of the registry.

    Attributes
    ----------
    name, title : str
        For the command line, and for the page.
    family : {"ours", "solver", "peer"}
    run : callable
        ``run(X, k) -> Embedded``.
    settings : str
        All that differs from the package's defaults, for the page.
    package : str
        Distribution whose version is reported.
    warm_points : int
        Points of the warm-up; as many as it takes to reach, and compile, what large data will use.
    """

    name: str
    title: str
    family: str
    run: Callable[[Any, int], Embedded]
    settings: str
    package: str = "heatsketch"
    warm_points: int = 20_000


def _sketch(**options: Any) -> Callable[[Any, int], Embedded]:
    def run(X: Any, k: int) -> Embedded:
        import heatsketch as hs  # noqa: PLC0415  imports count towards the cold start only

        chosen = {"n_components": k, "power": POWER, "random_state": 0} | options
        model = hs.GaussianProcessEmbedding(**chosen)
        Y = model.fit_transform(X)
        return Embedded(lambda: Y, lambda: kernel_operator(model.kernel_))

    return run


def _maps(X: Any, k: int) -> Embedded:
    import heatsketch as hs  # noqa: PLC0415

    model = hs.DiffusionMaps(n_components=k, power=POWER)
    Y = model.fit_transform(X)
    return Embedded(lambda: Y, lambda: kernel_operator(model.kernel_))


def kernel_operator(A: Any) -> Own:
    """The operator of a heat kernel of ours."""
    return Own(A.symmetric, weight=A.row_weight)


def _eigsh(X: Any, k: int) -> Embedded:
    from scipy.sparse.linalg import eigsh  # noqa: PLC0415

    A, operator, kernel_s = _our_kernel(X)
    start = time.perf_counter()
    v0 = np.random.default_rng(0).standard_normal(len(X)).astype(A.dtype)
    values, vectors = eigsh(operator, k=k + 1, which="LA", tol=_SOLVER_TOL, v0=v0)
    return _solved(A, values, vectors, kernel_s, time.perf_counter() - start)


def _lobpcg(X: Any, k: int) -> Embedded:
    from scipy.sparse.linalg import lobpcg  # noqa: PLC0415

    A, operator, kernel_s = _our_kernel(X)
    start = time.perf_counter()
    guess = np.random.default_rng(0).standard_normal((len(X), k + 1)).astype(A.dtype)
    guess[:, 0] = 1.0  # the trivial mode is known
    values, vectors = lobpcg(operator, guess, tol=_SOLVER_TOL, maxiter=200, largest=True)
    return _solved(A, values, vectors, kernel_s, time.perf_counter() - start)


def _our_kernel(X: Any) -> tuple[Any, Any, float]:
    from scipy.sparse.linalg import LinearOperator  # noqa: PLC0415

    import heatsketch as hs  # noqa: PLC0415

    start = time.perf_counter()
    A = hs.heat_kernel(X, n_neighbors=NEIGHBORS)
    S = A.symmetric

    def product(V: Any) -> Any:
        return S @ V

    operator = LinearOperator(A.shape, matvec=product, matmat=product, dtype=A.dtype)
    return A, operator, time.perf_counter() - start


def _solved(A: Any, values: Any, vectors: Any, kernel_s: float, solve_s: float) -> Embedded:
    order = np.argsort(values)[::-1][1:]
    Y = A.weigh_rows(vectors[:, order] * values[order] ** POWER)
    return Embedded(lambda: Y, lambda: kernel_operator(A), {"kernel_s": kernel_s, "solve_s": solve_s})


def _ours() -> list[Method]:
    symmetric: dict[str, Any] = {"normalization": "symmetric", "n_neighbors": NEIGHBORS}
    say = 'normalization="symmetric", n_neighbors=30, '
    name, title = "heatsketch", "heatsketch"
    exact: dict[str, Any] = {"n_components": 2 * COMPONENTS, "n_exact": COMPONENTS}
    spoken = "n_components=20, n_exact=10, "
    tail = "power=16, random_state=0; all else by default"
    return [
        Method(name, title, "ours", _sketch(), f"n_components=10, {tail}"),
        Method(
            f"{name}-symmetric", f"{title}, symmetric", "ours", _sketch(**symmetric), f"n_components=10, {say}{tail}"
        ),
        Method(f"{name}-32", f"{title}, k = 32", "ours", _sketch(n_components=32), f"n_components=32, {tail}"),
        Method(
            f"{name}-symmetric-32",
            f"{title}, symmetric, k = 32",
            "ours",
            _sketch(**symmetric, n_components=32),
            f"n_components=32, {say}{tail}",
        ),
        Method(f"{name}-deflated", f"{title}, 10 exact + 10", "ours", _sketch(**exact), f"{spoken}{tail}"),
        Method(
            f"{name}-deflated-32",
            f"{title}, 16 exact + 16",
            "ours",
            _sketch(n_components=32, n_exact=16),
            f"n_components=32, n_exact=16, {tail}",
        ),
        Method(
            f"{name}-symmetric-deflated",
            f"{title}, symmetric, 10 exact + 10",
            "ours",
            _sketch(**symmetric, **exact),
            f"{spoken}{say}{tail}",
        ),
        Method(f"{name}-maps", f"{title}, diffusion maps", "ours", _maps, "DiffusionMaps(n_components=10, power=16)"),
    ]


def _solvers() -> list[Method]:
    kernel = "on hs.heat_kernel(X, n_neighbors=30): 11 eigenvectors, tol=1e-3"
    return [
        Method("eigsh", "eigsh on our kernel", "solver", _eigsh, f"scipy.sparse.linalg.eigsh {kernel}, which='LA'"),
        Method(
            "lobpcg",
            "LOBPCG on our kernel",
            "solver",
            _lobpcg,
            f"scipy.sparse.linalg.lobpcg {kernel}, random start with the constant, at most 200 iterations",
        ),
    ]


def registry() -> dict[str, Method]:
    """All methods by name, in the order of the page."""
    from .peers import PEERS  # noqa: PLC0415  which needs the classes above

    return {method.name: method for method in [*_ours(), *_solvers(), *PEERS]}
