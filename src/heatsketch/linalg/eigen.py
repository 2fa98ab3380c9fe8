"""Leading eigenpairs of the heat kernel, with their measured residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from itertools import count, pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from .._utils.array import array_namespace, asarray_like, astype, from_order, to_numpy
from .._utils.progress import task
from .._utils.registry import computing
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from .._utils.warn import warn
from ..compiled.products import sparse_product
from .filters import Power, filtered
from .operators import HeatOperator, Operator, SparseOperator
from .recurrences import chebyshev_step
from .rounding import rounding_level
from .sketch import GaussianSketch

__all__ = ["DENSE_LIMIT", "SOLVERS", "Eigenpairs", "canonical", "check_pairs", "eigenpairs", "prefers_dense"]

SOLVERS = ("auto", "dense", "arpack", "randomized")

# Up to this many points the whole matrix is diagonalised, which is exact; for a few eigenvectors of a sparse matrix
# that is slower than ARPACK from far fewer points on.
DENSE_LIMIT = 2000
_SPARSE_DENSE_LIMIT = 200
# Beyond this many points, products with one column at a time take longer than those with blocks.
_ARPACK_LIMIT = 5000
# Accuracy, relative, of the search for an eigenvalue that ARPACK missed: this, or a tenth of the distance to 1.
_MISSED = 1e-2
_OVERSAMPLING = 10
# ARPACK multiplies by a Chebyshev polynomial of this degree. It is odd, so that eigenvalues below the damped interval
# are not taken for the largest. The interval begins here, and ends below the wanted eigenvalues by this share of their
# distance to 1, or to the largest. A polynomial of the last degree, on a smaller interval, helps to find where it ends.
_ARPACK_DEGREE, _LOWEST, _MARGIN, _START_DEGREE = 5, -0.25, 0.5, 8
# Columns beyond k for that, and vectors that the search for a single eigenvalue keeps.
_FEW_MORE, _FEW_VECTORS = 2, 8
_FILTER_DEGREE = 100
# Steps with one power of the filter, and beyond them, for eigenvalues that lie close together, the powers that are
# kept and the degree of the filter.
_EASY_STEPS = 3
_KRYLOV_BLOCKS, _KRYLOV_DEGREE = 3, 20
_MOST_GROWTH = 1e8
# Eigenvalues this close, relative to their size, are equal. To find where an eigenspace ends, this many more are
# computed at first, and at most this many by the iterative solver.
_REPEATED = 1e-8
_LOOK_AHEAD = 2
_LARGEST_SPACE = 64
# Known eigenvectors are shifted from their eigenvalues, at most 1, to below the spectrum.
_SHIFT = 3.0
# Inner products of orthogonal eigenvectors, in units of rounding for each point.
_ORTHOGONAL = 100.0
_START = GaussianSketch(0x5EED)  # starting vectors: fixed, so that results repeat
# ARPACK draws new vectors where it meets an invariant subspace; SciPy from 1.17 on asks for a seed.
_SEED = {"rng": 0} if "rng" in signature(eigsh).parameters else {}


@dataclass(frozen=True)
class Eigenpairs:
    """Leading nontrivial eigenpairs of a symmetric heat kernel.

    Attributes
    ----------
    values : ndarray of shape (k,)
        In decreasing order.
    vectors : array of shape (N, k)
        Orthonormal columns. The sign, and the basis of a repeated eigenvalue's space, depend on the space alone.
    residuals : ndarray of shape (k,)
        ``|S v - lambda v|``, measured: each value is within its residual of an eigenvalue.
    """

    values: FloatArray
    vectors: Any
    residuals: FloatArray

    def coordinates(self, power: Power, rounding: float, *, over_x: bool = False) -> Any:
        """``h(lambda) v``, or ``h(lambda) / lambda v`` with `over_x`, shape (N, k)."""
        return self.vectors * filtered(power, self.values, rounding, over_x=over_x)

    def join(self, others: Eigenpairs) -> Eigenpairs:
        """These pairs followed by others."""
        return Eigenpairs(
            np.append(self.values, others.values),
            array_namespace(self.vectors).concat([self.vectors, others.vectors], axis=1),
            np.append(self.residuals, others.residuals),
        )


def prefers_dense(kernel: HeatOperator, n_pairs: int = 1, most: int | None = None) -> bool:
    """Whether to diagonalise the whole matrix: for few points, or at most so many, or many pairs; only in memory."""
    n = kernel.shape[0]
    few = DENSE_LIMIT if most is None else min(most, DENSE_LIMIT)
    return kernel.in_memory and (n <= few or 5 * n_pairs > n)


def check_pairs(n_pairs: int, most: int, n_samples: int, more: str = "") -> None:
    """Raise ValueError unless there are as many eigenvectors as were asked for."""
    if not 1 <= n_pairs <= most:
        raise ValueError(
            f"{n_pairs} {more}eigenvectors (n_components) were asked for, but {n_samples} samples have only {most}; "
            f"ask for between 1 and {most}."
        )


@computing()
@quiet_blas()
def eigenpairs(
    kernel: HeatOperator,
    n_pairs: int,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    after: Eigenpairs | None = None,
) -> Eigenpairs:
    """Largest nontrivial eigenvalues of the symmetric heat kernel, and their eigenvectors.

    Parameters
    ----------
    kernel : HeatOperator
    n_pairs : int
        At most N - 1 where the trivial mode is known, N otherwise.
    solver : {"auto", "dense", "arpack", "randomized"}
        "dense" diagonalises the whole matrix. "arpack" is SciPy's implicitly restarted Lanczos iteration, with one
        vector at a time; if it missed a repeated eigenvalue, "randomized" takes over. "randomized" is subspace
        iteration with a Chebyshev filter from a random start, which finds repeated eigenvalues. "auto" takes "dense"
        up to 2000 points (200 for a sparse matrix) or when a fifth of all pairs is wanted, "arpack" for sparse
        matrices up to 5000 points, and "randomized" otherwise, on a device, and on a cluster.
    tol : float
        Residual wanted.
    max_iter : int
        Most products with blocks ("randomized").
    after : Eigenpairs, optional
        Known pairs: the next ones are found.

    Returns
    -------
    pairs : Eigenpairs

    Warns
    -----
    ConvergenceWarning
        If a measured residual exceeds 10 `tol`, beyond rounding and the spread of eigenvalues that count as equal.
    """
    n = kernel.shape[0]
    known = np.empty((n, 0)) if kernel.trivial is None else kernel.trivial[:, None]
    if after is not None:
        known = array_namespace(known).concat([known, after.vectors], axis=1)
    most = n - known.shape[1]
    check_pairs(n_pairs, most, n, "" if after is None else "more ")
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is not known; use one of {SOLVERS}.")
    if solver == "auto":
        solver = _fastest(kernel, n_pairs)
    if not kernel.in_memory and solver != "randomized":
        raise ValueError(
            f"solver={solver!r} was given for data on a cluster, where the kernel is never formed; use "
            "solver='randomized' or 'auto', or fit to data in memory."
        )
    solve = {"dense": _dense, "arpack": _arpack, "randomized": _subspace}[solver]
    limit = most if solver == "dense" else min(most - 1, n_pairs + _LARGEST_SPACE)
    wanted = max(n_pairs, min(n_pairs + _LOOK_AHEAD, limit))
    with task("finding eigenvectors"):
        values, vectors = solve(kernel, wanted, known, tol, int(max_iter))
        # Find the whole eigenspace of the last value, so that its basis is canonical, if the iteration converges.
        last, rounding, epsilon = values[n_pairs - 1], rounding_level(kernel), kernel.rounding
        accuracy = max(10.0 * tol, rounding)
        while (
            wanted < limit
            and abs(last) > rounding
            and _alike(last, values[-1], epsilon)
            and _residuals(kernel, values, vectors)[:n_pairs].max() <= accuracy
        ):
            wanted = min(2 * wanted, limit)
            values, vectors = solve(kernel, wanted, known, tol, int(max_iter))
        vectors = canonical(values, vectors, kernel)[:, :n_pairs]
    # A vector of a canonical basis has all the eigenvalues of its space, which are equal up to the kernel's rounding.
    spread = np.empty_like(values)
    for space in _spaces(values, epsilon):
        spread[space] = np.ptp(values[space])
    values = values[:n_pairs]
    residuals = _residuals(kernel, values, vectors)
    if (residuals > accuracy + spread[:n_pairs]).any():
        warn(
            f"eigenvectors were found with residuals up to {residuals.max():.1e} (solver={solver!r}, tol={tol:.1e}); "
            "raise max_iter, or use solver='dense'.",
            ConvergenceWarning,
        )
    return Eigenpairs(values, kernel.collect(vectors), residuals)


def _fastest(kernel: HeatOperator, n_pairs: int) -> str:
    """The fastest solver for some pairs of a kernel."""
    few = kernel.in_memory and kernel.shape[0] <= _ARPACK_LIMIT
    cheap = few and isinstance(kernel.symmetric.reordered(), SparseOperator)
    if prefers_dense(kernel, n_pairs, _SPARSE_DENSE_LIMIT if cheap else None):
        return "dense"
    return "arpack" if cheap else "randomized"


def _residuals(kernel: HeatOperator, values: FloatArray, vectors: FloatArray) -> FloatArray:
    """``|S v - lambda v|`` of each pair, shape (k,)."""
    norm = array_namespace(vectors).linalg.vector_norm
    norms: FloatArray = to_numpy(norm((kernel.symmetric @ vectors) - asarray_like(values, vectors) * vectors, axis=0))
    return norms


def _alike(a: float, b: float, epsilon: float) -> bool:
    """Whether two eigenvalues are equal, up to the accuracy at which their eigenvectors can be separated."""
    return abs(a - b) <= max(_REPEATED, 100.0 * epsilon) * max(abs(a), abs(b)) + 10.0 * epsilon


def canonical(values: FloatArray, vectors: Any, kernel: HeatOperator) -> Any:
    """Eigenvectors (N, k) of decreasing eigenvalues in bases that depend on the eigenspaces only.

    Solvers return any basis of a repeated eigenvalue's space. This one orthonormalises the projections of fixed random
    vectors in turn; for a simple eigenvalue it fixes the sign.
    """
    spaces = _spaces(values, kernel.rounding)
    widest = max(space.stop - space.start for space in spaces)
    fixed = asarray_like(kernel.sketched(_START, widest, first_column=1), vectors)
    seen = to_numpy(astype(vectors, np.float64).T @ fixed)  # [k, widest]
    turns = [_turn(seen[some, : some.stop - some.start]) for some in spaces]
    signs = np.concatenate([np.ones(len(turn)) if len(turn) > 1 else turn[0] for turn in turns])
    xp = array_namespace(vectors)
    vectors = vectors * xp.astype(asarray_like(signs, vectors), vectors.dtype)
    for some, turn in zip(spaces, turns, strict=True):
        if len(turn) > 1:
            turned = astype(vectors[:, some], np.float64) @ asarray_like(turn, vectors)
            vectors[:, some] = xp.astype(turned, vectors.dtype)
    return vectors


def _spaces(values: FloatArray, epsilon: float) -> list[slice]:
    """Ranges of decreasing eigenvalues that are equal up to rounding."""
    ends = [end for end in range(1, len(values)) if not _alike(values[end - 1], values[end], epsilon)]
    return [slice(start, stop) for start, stop in pairwise([0, *ends, len(values)])]


def _turn(seen: FloatArray) -> FloatArray:
    """The rotation to the canonical basis, from the components `seen` of the fixed vectors, (k, k)."""
    if len(seen) == 1:
        return np.where(seen < 0, -1.0, 1.0)
    Q, R = np.linalg.qr(seen)
    turn: FloatArray = Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)
    return turn


def _dense(
    kernel: HeatOperator, k: int, known: FloatArray, _tol: float, _max_iter: int
) -> tuple[FloatArray, FloatArray]:
    n = kernel.shape[0]
    S = kernel.symmetric.toarray().astype(np.float64) - _SHIFT * (known @ known.T)
    values, vectors = eigh(S, subset_by_index=(n - k, n - 1), check_finite=False)
    # For a subset of the eigenvectors LAPACK iterates. It may return too few vectors of a repeated eigenvalue, or some
    # that are not orthogonal.
    products = vectors.T @ vectors
    if len(products) < k or np.abs(products - np.eye(k)).max() > _ORTHOGONAL * n * np.finfo(np.float64).eps:
        values, vectors = (found[..., n - k :] for found in np.linalg.eigh(S))
    return values[::-1], vectors[:, ::-1]


def _arpack(
    kernel: HeatOperator, k: int, known: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray]:
    """Implicitly restarted Lanczos iteration on a polynomial of S, and a search for eigenvalues that it missed.

    Orthogonalising takes longer than a product with a sparse matrix. The polynomial spreads the largest eigenvalues, so
    that fewer vectors are orthogonalised.

    A single starting vector has one component in each eigenspace, so copies of a repeated eigenvalue enter by rounding
    alone, and may come too late. Whatever is orthogonal to all the vectors found has a Rayleigh quotient of at most
    the last eigenvalue, unless one is missing.
    """
    if k + known.shape[1] + _FEW_MORE >= kernel.shape[0]:  # ARPACK never finds all
        return _subspace(kernel, k, known, tol, max_iter)
    order, S = kernel.symmetric.order, kernel.symmetric.reordered()
    starts, known = to_numpy(kernel.sketched(_START, k + _FEW_MORE)), to_numpy(known)
    starts, U = (starts, known) if order is None else (starts[order], known[order])
    high, start = _below(S, k, U, starts)
    # Without much to damp, of small eigenvalues, the polynomial is S itself.
    low, high, degree = (_LOWEST, high, _ARPACK_DEGREE) if high > -_LOWEST else (-1.0, 1.0, 1)
    mapped = _mapped(S, (high - low) / 2.0, (high + low) / 2.0)

    def largest(
        k: int, U: FloatArray, start: FloatArray, tol: float, ncv: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        def filtered(v: Any) -> Any:  # T_m(L) v
            previous = v - U @ (U.T @ v)
            current = mapped(previous)
            for _ in range(degree - 1):
                step = mapped(current)
                step += step
                step -= previous
                previous, current = current, step
            return current - U @ (U.T @ current)

        T = LinearOperator(S.shape, matvec=filtered, dtype=np.float64)
        _, vectors = eigsh(T, k, which="LA", v0=start, tol=tol, ncv=ncv, maxiter=max_iter, **_SEED)
        ritz = np.einsum("ij,ij->j", vectors, mapped(vectors))
        return (high + low + (high - low) * ritz) / 2.0, vectors

    try:
        values, vectors = largest(k, U, start, degree * max(tol, 10.0 * kernel.rounding))
        # From another start: a copy that was missed is orthogonal to the first one. A relative error of the polynomial
        # is at least as many times that of an eigenvalue as its degree.
        accuracy = degree * min(_MISSED, 0.1 * abs(1.0 - values[0]) + tol)
        next_value = largest(1, np.hstack([U, vectors]), starts[:, 0], accuracy, _FEW_VECTORS)[0][0]
    except ArpackError:
        return _subspace(kernel, k, known, tol, max_iter)
    if next_value > values[0] + max(10.0 * tol, rounding_level(kernel)):
        return _subspace(kernel, k, known, tol, max_iter)
    return values[::-1], from_order(vectors[:, ::-1], order)


def _mapped(S: Operator, half: float, centre: float) -> Callable[[FloatArray], FloatArray]:
    """Products with ``(S - centre) / half`` in float64."""
    if not isinstance(S, SparseOperator):
        return lambda V: (S @ V - centre * V) / half
    L = (S.held.astype(np.float64) - centre * sparse.eye_array(S.shape[0], format="csr")) / half

    def product(V: FloatArray) -> FloatArray:
        # Without the checks of an operator, which take as long as the product of one column.
        block = np.ascontiguousarray(V)
        out = np.empty_like(block)
        sparse_product(L.indptr, L.indices, L.data, block.reshape(len(V), -1), out.reshape(len(V), -1), 0, len(V))
        return out

    return product


def _below(S: Operator, k: int, U: FloatArray, G: FloatArray) -> tuple[float, FloatArray]:
    """A number below the k largest eigenvalues of S outside of U, and a vector towards their eigenvectors.

    The k-th Ritz value of any space is at most the k-th eigenvalue.
    """
    V = to_numpy(_filter(S, S.asblock(G - U @ (U.T @ G)), (_LOWEST, -_LOWEST), 1.0, _START_DEGREE)[0])
    V = np.linalg.qr(V - U @ (U.T @ V))[0]
    ritz, W = np.linalg.eigh(V.T @ astype(S @ V, np.float64))
    least, most = float(ritz[-k]), max(1.0, float(ritz[-1]))
    return least - _MARGIN * (most - least), V @ W[:, -k:].sum(axis=1)


def _subspace(
    kernel: HeatOperator, k: int, known: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray]:
    """Chebyshev-filtered subspace iteration (Zhou and Saad, 2007) from a Gaussian start."""
    n, order, S = kernel.shape[0], kernel.symmetric.order, kernel.symmetric.reordered()
    width = min(n - known.shape[1], k + _OVERSAMPLING)
    start = kernel.sketched(_START, width)
    known = asarray_like(known if order is None else known[order], start)
    start = start if order is None else start[order]
    linalg = array_namespace(start).linalg

    def outside(V: Any) -> Any:
        V = astype(V, np.float64)
        return V - known @ (known.T @ V)

    lower = 0.0 if kernel.definite else -1.0
    wanted = max(tol, 10.0 * kernel.rounding)
    V = outside(S @ start)
    products = 0
    for step in count():
        # Twice: if the block has lost rank, the first fills it up from rounding, with parts along known vectors.
        V = linalg.qr(outside(linalg.qr(V)[0]))[0]
        SV = astype(S @ V, np.float64)
        ritz, W = np.linalg.eigh(to_numpy(V.T @ SV))
        ritz, W = ritz[-width:], W[:, -width:]
        Q, SQ = (block @ asarray_like(W, block) for block in (V, SV))
        worst = to_numpy(linalg.vector_norm(SQ - asarray_like(ritz, Q) * Q, axis=0))[-k:].max()
        if worst <= wanted or products >= max_iter:
            vectors = from_order(Q[:, list(range(width - 1, width - 1 - k, -1))], order)
            return ritz[::-1][:k].astype(np.float64), vectors
        damped = lower, max(float(ritz[0]), lower + 1e-3)
        if step < _EASY_STEPS or _KRYLOV_BLOCKS * width > n // 2:
            V, degree = _filter(S, Q, damped, float(ritz[-1]), _FILTER_DEGREE)
            V, products = outside(V), products + degree
            continue
        # The eigenvalues lie close together. The best vectors of a Krylov space, of all powers of the filter, converge
        # like the square root of the gap, where those of one power converge like the gap.
        blocks = [Q]
        while len(blocks) < _KRYLOV_BLOCKS:
            V, degree = _filter(S, blocks[-1], damped, float(ritz[-1]), _KRYLOV_DEGREE)
            V, products = outside(V), products + degree
            blocks.append(V / (linalg.vector_norm(V, axis=0) + np.finfo(np.float64).tiny))
        V = array_namespace(Q).concat(blocks, axis=1)
    raise AssertionError("unreachable")


def _filter(S: Operator, V: Any, damped: tuple[float, float], largest: float, most: int) -> tuple[Any, int]:
    """``T_m(L) V`` with L = S mapped from the damped interval to [-1, 1], and its degree m, which is at most `most`.

    The polynomial is small on the interval and large above. Its degree limits the growth, so that the largest
    eigenvalue does not drown the others.
    """
    half, centre = (damped[1] - damped[0]) / 2.0, (damped[1] + damped[0]) / 2.0
    growth = np.arccosh(max((largest - centre) / half, 1.0 + 1e-12))
    degree = int(np.clip(np.arccosh(_MOST_GROWTH) / growth, 1, most))
    # Rounding brings back known vectors, up to the eigenvalue 1, which grows most: it must not drown the others either.
    harmless = np.arccosh(_MOST_GROWTH / S.rounding) / np.arccosh(max((1.0 - centre) / half, 1.0 + 1e-12))
    degree = max(1, min(degree, int(harmless)))
    previous, current = V, ((S @ V) - centre * V) / half
    for _ in range(degree - 1):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
    return current, degree
