"""Anderson acceleration of fixed-point iterations.

References
----------
.. [1] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._typing import FloatArray
from .blocks import gathered, is_banded, stacked

__all__ = ["Anderson"]

# Steps that are looked back at.
_DEPTH = 5


class Anderson:
    """Extrapolation of an iteration ``x <- x + step`` from its latest steps [1]_."""

    def __init__(self, x: FloatArray) -> None:
        # Differences of successive x and steps, the latest in the place of the oldest.
        self._dx, self._df = (_rows(x) for _ in range(2))
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._count = 0

    def plain(self) -> FloatArray:
        """The latest x and its own step; all that is known is forgotten."""
        assert self._last is not None
        (x, step), self._last, self._count = self._last, None, 0
        return x + step

    def extrapolate(self, x: FloatArray, step: FloatArray) -> tuple[FloatArray, bool]:
        """The next x: by the combination of the latest steps that is smallest, and whether there were several."""
        last, self._last = self._last, (x, step)
        if last is None:
            return x + step, False
        place = self._count % _DEPTH
        self._dx[place], self._df[place] = x - last[0], step - last[1]
        self._count += 1
        known = min(self._count, _DEPTH)
        dx, df = self._dx[:known], self._df[:known]
        if is_banded(x):
            dx, df = stacked(dx), stacked(df)
        # The normal equations: with five unknowns they are soon solved, and an inaccurate extrapolation only costs a
        # step.
        gamma = np.linalg.lstsq(*gathered(df @ df.T, df @ step), rcond=None)[0]
        return x + step - gamma @ dx - gamma @ df, True


def _rows(x: FloatArray) -> Any:
    """Room for a few vectors like x."""
    return [None] * _DEPTH if is_banded(x) else np.empty((_DEPTH, len(x)))
