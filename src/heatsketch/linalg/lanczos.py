"""Lanczos iterations: the ends of a spectrum, and a quadrature for all its traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._utils.array import array_namespace, asarray_like, astype
from .._utils.progress import track
from .._utils.registry import computing
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from .operators import HeatOperator, Operator
from .recurrences import chebyshev_step, column_products, without
from .sketch import GaussianSketch, RademacherSketch

__all__ = ["ExtremeRitz", "extreme_ritz", "horizon", "spectral_quadrature"]

# Error, relative to the largest eigenvalue's power, up to which a power counts as known.
_ERROR = 0.05
# Up to this many points the trace of a function is computed from all eigenvalues; it takes 20 ms.
_DENSE = 512
# Products that turn random columns towards the leading eigenvectors, and the largest eigenvalue that they suppress.
_RANGE_PRODUCTS, _REST = 32, 0.98
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


@computing()
@quiet_blas()
def spectral_quadrature(kernel: HeatOperator, n_columns: int, n_steps: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of shape (q, s): ``sum weights f(nodes)`` estimates ``tr f(S)`` over the nontrivial modes.

    Up to 512 points they are the eigenvalues. For more points, half of the columns are orthonormal directions Q near
    the leading eigenvectors, and the others random signs P. The trace along Q and an average over the part of P
    orthogonal to Q add up to an unbiased estimate [1]_, which is exact for powers that only the leading modes survive.
    Each column has its own Lanczos recurrence: the eigenvalues of its tridiagonal matrix, with the squared first
    entries of the eigenvectors, are a Gauss quadrature of the spectral density that the column sees [2]_.

    References
    ----------
    .. [1] Meyer, Musco, Musco, Woodruff. "Hutch++: optimal stochastic trace estimation". SOSA, 2021.
    .. [2] Ubaru, Chen, Saad. "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature". SIAM J. Matrix Anal.
       Appl., 2017.
    """
    n_modes = kernel.shape[0] - (kernel.trivial is not None)
    if kernel.in_memory and kernel.shape[0] <= _DENSE:
        values = np.linalg.eigvalsh(kernel.deflated.toarray().astype(np.float64))
        if kernel.trivial is not None:  # the deflated mode is the zero nearest to zero
            values = np.delete(values, np.argmin(np.abs(values)))
        return values[None, :], np.ones((1, len(values)))
    # The starting columns are orthogonal to the trivial mode; what rounding brings back of it has no weight.
    S = kernel.symmetric.reordered()
    V, counts = _starts(kernel, S, n_columns, min(n_columns // 2, n_modes))
    diagonal, off = _recurrences(S, V, min(n_steps, n_modes))
    found = [eigh_tridiagonal(d, o[:-1]) for d, o in zip(np.array(diagonal).T, np.array(off).T, strict=True)]
    nodes = np.array([values for values, _ in found])
    return nodes, counts[:, None] * np.square(np.array([vectors[0] for _, vectors in found]))


def _starts(kernel: HeatOperator, S: Operator, n_columns: int, r: int) -> tuple[Any, FloatArray]:
    """Columns of norm 1 to start from, in the order of S, and how many modes each stands for, (q,)."""
    order, G = kernel.symmetric.order, kernel.sketched(RademacherSketch(_SEED), n_columns)
    if kernel.trivial is not None:
        u = asarray_like(kernel.trivial, G)
        G -= u[:, None] * (u @ G)[None, :]
    V = S.asblock(G if order is None else G[order])
    Q, P = V[:, :r], V[:, r:]
    xp = array_namespace(V)
    if r:
        Q = xp.linalg.qr(_leading(S, Q))[0]
        P = P - Q @ (Q.T @ P)
    sizes = np.sqrt(column_products(P, P))
    P = P / asarray_like(np.maximum(sizes, np.finfo(np.float32).tiny), P, S.dtype)
    return xp.concat([Q, P], axis=1), np.concatenate([np.ones(r), np.square(sizes) / (n_columns - r)])


def _leading(S: Operator, V: Any) -> Any:
    """Columns turned towards the eigenvalues near 1: a Chebyshev polynomial that is small on the rest of [-1, 1]."""
    half, centre = (_REST + 1.0) / 2.0, (_REST - 1.0) / 2.0
    previous, current = V, (S.matmat(V) - centre * V) / half
    for _ in range(_RANGE_PRODUCTS - 1):
        previous, current = current, chebyshev_step(S, previous, current, centre, half)
    return current


def _recurrences(S: Operator, v: Any, n_steps: int) -> tuple[list[FloatArray], list[FloatArray]]:
    """Diagonals and off-diagonals of the tridiagonal matrices of all columns, a list of (q,) for each step."""
    previous, beta = v, np.zeros(v.shape[1])
    diagonal: list[FloatArray] = []
    off: list[FloatArray] = []
    for _ in track(range(n_steps), "measuring the kernel's scales", n_steps):
        w = without(S.matmat(v), beta, previous)
        along = column_products(v, w)
        w = without(w, along, v)
        size = np.sqrt(column_products(w, w))
        diagonal.append(along)
        first = off[0] if off else size
        beta = np.where(size > _EXHAUSTED * (first + np.abs(diagonal[0])), size, 0.0)
        off.append(beta)
        inverse = np.divide(1.0, beta, out=np.zeros_like(beta), where=beta > 0)
        w *= asarray_like(inverse, w, S.dtype)
        previous, v = v, w
    return diagonal, off
