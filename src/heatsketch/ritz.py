"""The ends of the spectrum of an operator, by a short Lanczos run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ._typing import FloatArray
from .blocks import double, gathered, settled
from .operators import Operator
from .sketch import GaussianSketch

__all__ = ["ExtremeRitz", "extreme_ritz"]

_LANCZOS_STEPS = 200
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


def extreme_ritz(S: Operator, accuracy: float, *, both: bool = False) -> ExtremeRitz:
    """Ends of the spectrum of S by a short Lanczos run.

    Parameters
    ----------
    S : Operator
    accuracy : float
        Residual wanted of the largest Ritz value (and of the smallest, with `both`), as a fraction of the largest in
        size. After 200 products the best is taken.
    """
    n = S.shape[0]
    start: FloatArray = S.sketched(_START, 1)[:, 0]
    v = settled(start / np.linalg.norm(start))
    previous = 0.0 * v
    diagonal: list[float] = []
    off: list[float] = []
    while True:
        w = double(S @ v) - (off[-1] if off else 0.0) * previous
        diagonal.append(float(gathered(v @ w)))
        w -= diagonal[-1] * v
        w = settled(w)
        off.append(float(gathered(np.linalg.norm(w))))
        ritz, vectors = eigh_tridiagonal(diagonal, off[:-1])
        residuals = off[-1] * np.abs(vectors[-1])
        found = ExtremeRitz(float(ritz[0]), float(residuals[0]), float(ritz[-1]), float(residuals[-1]))
        worst = max(found.high_residual, found.low_residual if both else 0.0)
        exhausted = off[-1] <= 1e-14 * found.size or len(off) >= min(n, _LANCZOS_STEPS)
        if exhausted or worst <= accuracy * found.size:
            return found
        previous, v = v, settled(w / off[-1])
