"""Lanczos iterations: the ends of a spectrum, and every power of a kernel applied to a few random columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.progress import track
from .._utils.typing import FloatArray, IntArray
from .operators import HeatOperator, Operator
from .sketch import GaussianSketch, RademacherSketch

__all__ = ["ExtremeRitz", "KrylovSketch", "extreme_ritz", "horizon"]

# Error, relative to the largest eigenvalue's power, up to which a power counts as known.
_ERROR = 0.05
# A column whose next direction is smaller than this, relative to the first product, is exhausted.
_EXHAUSTED = 1e-10
_SEED = 0x5EED  # fixed, so that results repeat
# Most steps of `extreme_ritz` unless more are allowed; from there on the ends are computed less often, by this factor.
_MOST_STEPS = 200
_SELDOM = 1.1


@dataclass(frozen=True)
class ExtremeRitz:
    """Extreme Ritz values of an operator, which lie within its spectrum, and the residuals of their vectors."""

    low: float
    low_residual: float
    high: float
    high_residual: float

    @property
    def size(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def worst(self, *, both: bool) -> float:
        """The residual of the upper end, or the worse of the two if both count or the lower may be larger in size."""
        lower = both or self.low_residual - self.low > self.high
        return max(self.high_residual, self.low_residual) if lower else self.high_residual


def extreme_ritz(S: Operator, accuracy: float, *, both: bool = False, most_steps: int = _MOST_STEPS) -> ExtremeRitz:
    """Ends of the spectrum of S by the Lanczos iteration from a random vector.

    It stops when the residual of the end that is larger in size (of both ends, with `both`) is at most `accuracy`
    times that size, or after `most_steps` products. Limits up to 200 mean 200, or the number of rows if that is less.
    """
    n = S.shape[0]
    start = S.sketched(GaussianSketch(_SEED), 1)[:, 0]
    norm = array_namespace(start).linalg.vector_norm
    v = start / float(norm(start))
    previous = 0.0 * v
    diagonal: list[float] = []
    off: list[float] = []
    most = most_steps if most_steps > _MOST_STEPS else min(n, _MOST_STEPS)
    look = 1
    while True:
        w = astype(S @ v, np.float64) - (off[-1] if off else 0.0) * previous
        diagonal.append(float(v @ w))
        w -= diagonal[-1] * v
        off.append(float(norm(w)))
        steps = len(off)
        if steps >= look or steps >= most or off[-1] == 0.0:
            found = _ends(diagonal, off)
            exhausted = off[-1] <= 1e-14 * found.size or steps >= most
            if exhausted or found.worst(both=both) <= accuracy * found.size:
                return found
            look = steps + 1 if steps < _MOST_STEPS else int(_SELDOM * steps)
        previous, v = v, w / off[-1]


def _ends(diagonal: list[float], off: list[float]) -> ExtremeRitz:
    """Extreme Ritz values and residuals from the tridiagonal matrix."""
    last = len(diagonal) - 1
    if last < _MOST_STEPS:
        ritz, vectors = eigh_tridiagonal(diagonal, off[:-1])
    else:  # only the ends, which takes no longer than a product
        ends = (eigh_tridiagonal(diagonal, off[:-1], select="i", select_range=(at, at)) for at in (0, last))
        ritz, vectors = (np.concatenate(part, axis=-1) for part in zip(*ends, strict=True))
    residuals = off[-1] * np.abs(vectors[-1])
    return ExtremeRitz(float(ritz[0]), float(residuals[0]), float(ritz[-1]), float(residuals[-1]))


def horizon(n_steps: int) -> float:
    """Largest power known after `n_steps` products: x^t takes a polynomial of degree sqrt(2 t log(2 / error))."""
    return float(n_steps**2 / (2.0 * np.log(2.0 / _ERROR)))


class KrylovSketch:
    """Random signs G multiplied by the nontrivial part of S, so that ``|S|^t G`` is known for every t at once.

    Each column g has its own Lanczos recurrence [1]_, ``S V = V T + ...`` with T tridiagonal. Then
    ``|S|^t g = |g| V |T|^t e_1`` up to the error of the best polynomial of that degree, and the eigenvalues of T with
    the squared first entries of its eigenvectors are a Gauss quadrature for the spectral density seen by g. Only some
    rows of V are kept.

    Parameters
    ----------
    kernel : HeatOperator
    rows : ndarray of int, shape (m,)
        Rows at which powers are wanted.
    n_columns : int
    n_steps : int
        Products at first; `extend` adds more.

    References
    ----------
    .. [1] Ubaru, Chen, Saad. "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature". SIAM J. Matrix Anal.
       Appl., 2017.
    """

    def __init__(self, kernel: HeatOperator, rows: IntArray, n_columns: int, n_steps: int) -> None:
        S = kernel.deflated
        self._S = S.reordered()
        self._rows = rows if S.order is None else np.argsort(S.order)[rows]
        G = kernel.sketched(RademacherSketch(_SEED), n_columns)
        if kernel.trivial is not None:
            u = asarray_like(kernel.trivial, G)
            G -= u[:, None] * (u @ G)[None, :]
        self._weight = np.ones((len(rows), 1)) if kernel.row_weight is None else kernel.row_weight[rows][:, None]
        self._norms = _sizes(G)  # [q]
        start = G if S.order is None else G[S.order]
        self._v = self._S.asblock(start / asarray_like(np.maximum(self._norms, np.finfo(float).tiny), G))
        self._previous = self._v  # unused in the first step
        self._diagonal: list[FloatArray] = []
        self._off: list[FloatArray] = []
        self._kept: list[FloatArray] = []
        self.extend(n_steps)

    @property
    def n_steps(self) -> int:
        """Products so far."""
        return len(self._diagonal)

    def extend(self, n_steps: int) -> None:
        """Continue to `n_steps` products in total, at most the number of rows."""
        wanted = min(n_steps, self._v.shape[0])
        for _ in track(range(self.n_steps, wanted), "measuring the kernel's scales", max(0, wanted - self.n_steps)):
            v = self._v
            self._kept.append(to_numpy(v[self._rows]).astype(np.float64))
            w = self._S.matmat(v)
            if self._off:
                w -= asarray_like(self._off[-1], w, self._S.dtype) * self._previous
            along = _column_sums(astype(v, np.float64) * astype(w, np.float64))
            w -= asarray_like(along, w, self._S.dtype) * v
            size = _sizes(w)
            self._diagonal.append(along)
            first = self._off[0] if self._off else size
            size = np.where(size > _EXHAUSTED * (first + np.abs(self._diagonal[0])), size, 0.0)
            self._off.append(size)
            inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
            self._previous, self._v = v, w * asarray_like(inverse, w, self._S.dtype)
        if not self.n_steps:
            return
        self._nodes, self._vectors = self._eigensystem()
        self._at_rows = np.array(self._kept).transpose(2, 1, 0).copy()  # [q, m, s]

    def _eigensystem(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues [q, s] and eigenvectors [q, s, s] of the tridiagonal matrices of the columns."""
        s, q = self.n_steps, len(self._norms)
        T = np.zeros((q, s, s))
        at = np.arange(s)
        T[:, at, at] = np.array(self._diagonal).T
        off = np.array(self._off[:-1]).reshape(s - 1, q).T
        T[:, at[1:], at[:-1]] = T[:, at[:-1], at[1:]] = off
        values, vectors = np.linalg.eigh(T)
        return values, vectors

    @property
    def largest(self) -> float:
        """The largest Ritz value in size."""
        return float(np.abs(self._nodes).max())

    def quadrature(self) -> tuple[FloatArray, FloatArray]:
        """Nodes and weights [q, s]: ``sum_s weight f(node)`` estimates ``tr f(S)`` over the nontrivial modes."""
        weights: FloatArray = np.square(self._vectors[:, 0, :]) * np.square(self._norms)[:, None]
        return self._nodes, weights

    def features(self, power: float) -> FloatArray:
        """``diag(w) |S|^t G / sqrt(q)`` at the rows, up to a common factor that keeps it in range, shape (m, q)."""
        relative = np.abs(self._nodes) / (self.largest or 1.0)
        sizes = (self._norms / np.sqrt(len(self._norms)))[:, None] * self._vectors[:, 0, :] * relative**power  # [q, s]
        found: FloatArray = self._at_rows @ (self._vectors @ sizes[:, :, None])  # [q, m, 1]
        return self._weight * found[:, :, 0].T


def _sizes(V: Any) -> FloatArray:
    """Norm of each column of a block, in float64, shape (k,)."""
    V = astype(V, np.float64)
    return np.sqrt(_column_sums(V * V))


def _column_sums(V: Any) -> FloatArray:
    sums: FloatArray = to_numpy(array_namespace(V).sum(V, axis=0))
    return sums
