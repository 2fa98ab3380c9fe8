"""Leading eigenpairs of the heat kernel, with their measured residuals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, aslinearoperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from ._typing import FloatArray
from .heat import HeatKernel
from .operators import DeflatedOperator, Operator
from .sketch import GaussianSketch

__all__ = ["SOLVERS", "Eigenpairs", "deflated", "eigenpairs", "lowest_eigenvalue", "spectral_interval"]

SOLVERS = ("auto", "dense", "lanczos", "randomized")

# Up to this many points the whole matrix is diagonalised, which is exact and soon done.
_DENSE_LIMIT = 2000
_OVERSAMPLING = 10
_FILTER_DEGREE = 10
_RITZ_RESTARTS = 1000
_START = GaussianSketch(0x5EED)  # starting vectors: fixed, so that results repeat


@dataclass(frozen=True)
class Eigenpairs:
    """Leading nontrivial eigenpairs of a symmetric heat kernel.

    Attributes
    ----------
    values : ndarray of shape (k,)
        In decreasing order.
    vectors : ndarray of shape (N, k)
        Orthonormal columns; the sign makes the product with a fixed random vector positive.
    residuals : ndarray of shape (k,)
        ``|S v - lambda v|``, measured: each value is within its residual of an eigenvalue.
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray


def deflated(kernel: HeatKernel) -> Operator:
    """S without its trivial mode, where one is known."""
    return kernel.symmetric if kernel.trivial is None else DeflatedOperator(kernel.symmetric, kernel.trivial)


def eigenpairs(
    kernel: HeatKernel, n_pairs: int, *, solver: str = "auto", tol: float = 1e-8, max_iter: int = 1000
) -> Eigenpairs:
    """Largest nontrivial eigenvalues of the symmetric heat kernel, and their eigenvectors.

    Parameters
    ----------
    kernel : HeatKernel
    n_pairs : int
        At most N - 1 where the trivial mode is known, N otherwise.
    solver : {"auto", "dense", "lanczos", "randomized"}
        "dense" diagonalises the whole matrix; "lanczos" is ARPACK; "randomized" is subspace iteration with a
        Chebyshev filter from a random start, which cannot miss repeated eigenvalues. "auto" takes "dense" up to
        2000 points or when a fifth of all pairs is wanted, "lanczos" otherwise.
    tol : float
        Residual wanted.
    max_iter : int

    Returns
    -------
    pairs : Eigenpairs

    Warns
    -----
    ConvergenceWarning
        If a measured residual exceeds 10 `tol` (and rounding).
    """
    n = kernel.shape[0]
    most = n if kernel.trivial is None else n - 1
    if not 1 <= n_pairs <= most:
        raise ValueError(
            f"n_components={n_pairs} eigenvectors were asked for, but {n} samples have {most}; use n_components "
            f"between 1 and {most}."
        )
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is not known; use one of {SOLVERS}.")
    if solver == "auto":
        solver = "dense" if n <= _DENSE_LIMIT or 5 * n_pairs > n else "lanczos"
    if solver == "lanczos" and n_pairs >= most:
        raise ValueError(f"solver='lanczos' finds fewer than {most} eigenvectors of {n} samples; use 'dense'.")
    solve = {"dense": _dense, "lanczos": _lanczos, "randomized": _subspace}[solver]
    values, vectors = solve(kernel, n_pairs, tol, max_iter)
    vectors = vectors * np.where(_START.matrix(n, 1)[:, 0] @ vectors < 0, -1.0, 1.0)
    residuals = np.linalg.norm((kernel.symmetric @ vectors) - values * vectors, axis=0)
    allowed = max(10.0 * tol, 100.0 * float(np.finfo(kernel.dtype).eps))
    if (residuals > allowed).any():
        warnings.warn(
            f"eigenvectors were found with residuals up to {residuals.max():.1e} (solver={solver!r}, tol={tol:.1e}); "
            "raise max_iter, or use solver='dense'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Eigenpairs(values, vectors, residuals)


def _dense(kernel: HeatKernel, k: int, _tol: float, _max_iter: int) -> tuple[FloatArray, FloatArray]:
    S = kernel.symmetric.toarray().astype(np.float64)
    n = len(S)
    if kernel.trivial is not None:
        # The trivial eigenvalue 1 becomes -2: out of the way of indefinite kernels too.
        S -= 3.0 * np.outer(kernel.trivial, kernel.trivial)
    values, vectors = eigh(S, subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False)
    return values[::-1], vectors[:, ::-1]


def _lanczos(kernel: HeatKernel, k: int, tol: float, max_iter: int) -> tuple[FloatArray, FloatArray]:
    n = kernel.shape[0]
    operator = deflated(kernel)
    start = _START.matrix(n, 1)[:, 0].astype(kernel.dtype)
    try:
        values, vectors = eigsh(
            aslinearoperator(operator),
            k=k,
            which="LA",
            v0=start,
            tol=tol,
            maxiter=max_iter,
            ncv=min(n, 2 * k + 20),
        )
    except ArpackNoConvergence as failure:
        raise RuntimeError(
            f"Lanczos found {len(failure.eigenvalues)} of {k} eigenvectors in {max_iter} restarts; raise max_iter or "
            "tol, or use solver='randomized' or 'dense'."
        ) from failure
    order = np.argsort(-values)
    return values[order].astype(np.float64), vectors[:, order].astype(np.float64)


def _subspace(kernel: HeatKernel, k: int, tol: float, max_iter: int) -> tuple[FloatArray, FloatArray]:
    """Chebyshev-filtered subspace iteration (Zhou and Saad, 2007) from a Gaussian start."""
    S, n = deflated(kernel), kernel.shape[0]
    lower = 0.0 if kernel.definite else -1.0
    Q = np.linalg.qr(S @ _START.matrix(n, min(n, k + _OVERSAMPLING)))[0]
    for _ in range(max(1, max_iter // _FILTER_DEGREE)):
        SQ = S @ Q
        ritz, W = np.linalg.eigh(Q.T @ SQ)
        Q, SQ = Q @ W, SQ @ W
        residuals = np.linalg.norm(SQ - ritz * Q, axis=0)[-k:]
        if residuals.max() <= max(tol, 10.0 * float(np.finfo(kernel.dtype).eps)):
            break
        Q = np.linalg.qr(_filter(S, Q, lower, max(float(ritz[0]), lower + 1e-3)))[0]
    return ritz[::-1][:k].astype(np.float64), Q[:, ::-1][:, :k].astype(np.float64)


def _filter(S: Operator, V: FloatArray, low: float, high: float) -> FloatArray:
    """T_m of S mapped from [low, high] to [-1, 1]: small there, large above."""
    half, centre = (high - low) / 2.0, (high + low) / 2.0
    previous, current = V, ((S @ V) - centre * V) / half
    for _ in range(_FILTER_DEGREE - 1):
        previous, current = current, (2.0 / half) * ((S @ current) - centre * current) - previous
        scale = np.abs(current).max()
        previous, current = previous / scale, current / scale
    return current


def spectral_interval(S: Operator, *, definite: bool, margin: float) -> tuple[float, float]:
    """An interval that holds the spectrum of S: Ritz values, pushed outwards by their residuals and a margin.

    Polynomials that are small on an interval explode outside of it, so the ends must not be short of the spectrum.

    Parameters
    ----------
    S : Operator
    definite : bool
        Whether the spectrum is known to be non-negative: the interval then begins at 0.
    margin : float
        Widening, as a fraction of the largest eigenvalue; the Ritz values are computed ten times as accurately.
    """
    high, residual = _ritz(S, "LA", 0.1 * margin)
    high = max(0.0, high + residual)
    if definite:
        return 0.0, high * (1.0 + margin)
    low, residual = _ritz(S, "SA", 0.1 * margin)
    room = margin * max(high, -low)
    return min(0.0, low - residual - room), high + room


def lowest_eigenvalue(S: Operator) -> float:
    """The smallest eigenvalue of S, to about three digits."""
    return _ritz(S, "SA", 1e-3)[0]


def _ritz(S: Operator, which: Any, tol: float) -> tuple[float, float]:
    """Extreme Ritz value of S and the residual of its vector."""
    if S.shape[0] <= 64:
        values = np.linalg.eigvalsh(S.toarray().astype(np.float64))
        return float(values[-1] if which == "LA" else values[0]), 0.0
    start = _START.matrix(S.shape[0], 1)[:, 0].astype(S.dtype)
    values, vectors = eigsh(aslinearoperator(S), k=1, which=which, v0=start, tol=tol, maxiter=_RITZ_RESTARTS, ncv=20)
    return float(values[0]), float(np.linalg.norm((S @ vectors) - values * vectors))
