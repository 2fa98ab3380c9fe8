"""The ends of the spectrum of an operator, by a short Lanczos run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._utils.array import array_namespace, astype
from .operators import Operator
from .sketch import GaussianSketch

__all__ = ["ExtremeRitz", "extreme_ritz"]

# Steps after which the best is taken unless more are allowed, and from which on the ends are looked at less often.
_LANCZOS_STEPS = 200
_SELDOM = 1.1
_START = GaussianSketch(0x5EED)  # starting vector: fixed, so that results repeat


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
        """The residual of the upper end, or the worse of the two where both count or the lower may be the larger."""
        lower = both or self.low_residual - self.low > self.high
        return max(self.high_residual, self.low_residual) if lower else self.high_residual


def extreme_ritz(S: Operator, accuracy: float, *, both: bool = False, most_steps: int = _LANCZOS_STEPS) -> ExtremeRitz:
    """Ends of the spectrum of S by a short Lanczos run.

    Parameters
    ----------
    S : Operator
    accuracy : float
        Residual wanted of the end that is larger in size (and of the other, with `both`), as a fraction of its size.
    both : bool
    most_steps : int
        Products after which the best is taken; at least 200, or as many as S has rows.
    """
    n = S.shape[0]
    start = S.sketched(_START, 1)[:, 0]
    norm = array_namespace(start).linalg.vector_norm
    v = start / float(norm(start))
    previous = 0.0 * v
    diagonal: list[float] = []
    off: list[float] = []
    most = most_steps if most_steps > _LANCZOS_STEPS else min(n, _LANCZOS_STEPS)
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
            look = steps + 1 if steps < _LANCZOS_STEPS else int(_SELDOM * steps)
        previous, v = v, w / off[-1]


def _ends(diagonal: list[float], off: list[float]) -> ExtremeRitz:
    """Extreme eigenvalues of a tridiagonal matrix, and the residuals of what they stand for."""
    last = len(diagonal) - 1
    if last < _LANCZOS_STEPS:
        ritz, vectors = eigh_tridiagonal(diagonal, off[:-1])
    else:  # of long ones the ends alone, which takes no longer than a product
        ends = (eigh_tridiagonal(diagonal, off[:-1], select="i", select_range=(at, at)) for at in (0, last))
        ritz, vectors = (np.concatenate(part, axis=-1) for part in zip(*ends, strict=True))
    residuals = off[-1] * np.abs(vectors[-1])
    return ExtremeRitz(float(ritz[0]), float(residuals[0]), float(ritz[-1]), float(residuals[-1]))
