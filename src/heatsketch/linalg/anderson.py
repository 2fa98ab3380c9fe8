"""Anderson acceleration of fixed-point iterations.

References
----------
.. [1] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.typing import FloatArray

__all__ = ["Anderson", "combination"]

# Steps that are looked back at.
_DEPTH = 5


class Anderson:
    """Extrapolation of an iteration ``x <- x + step`` from its latest steps [1]_."""

    def __init__(self) -> None:
        # Differences of successive x and steps, the latest in the place of the oldest.
        self._dx: Any = None
        self._df: Any = None
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._count = 0

    def copy(self) -> Anderson:
        """The same, to go on from."""
        other = Anderson()
        other.__dict__ |= self.__dict__
        if self._dx is not None:
            other._dx, other._df = self._dx.copy(), self._df.copy()
        return other

    def plain(self) -> FloatArray:
        """The latest x and its own step; all that is known is forgotten."""
        assert self._last is not None
        (x, step), self._last, self._count = self._last, None, 0
        return x + step

    def extrapolate(self, x: FloatArray, step: FloatArray) -> tuple[FloatArray, bool]:
        """The next x: by the combination of the latest steps that is smallest, and whether there were several."""
        self.remember(x, step)
        if not self._count:
            return x + step, False
        return self.combined(combination(*self.inner_products())), True

    def remember(self, x: FloatArray, step: FloatArray) -> None:
        """Take in the latest x and step."""
        last, self._last = self._last, (x, step)
        if last is None:
            return
        if self._dx is None:
            self._dx, self._df = np.empty((_DEPTH, len(x))), np.empty((_DEPTH, len(x)))
        place = self._count % _DEPTH
        np.subtract(x, last[0], out=self._dx[place])
        np.subtract(step, last[1], out=self._df[place])
        self._count += 1

    def _known(self) -> tuple[FloatArray, FloatArray]:
        known = min(self._count, _DEPTH)
        return self._dx[:known], self._df[:known]

    def inner_products(self) -> tuple[FloatArray, FloatArray]:
        """Of the differences of steps with each other, (m, m), and with the latest step, (m,)."""
        assert self._last is not None
        if not self._count:
            return np.empty((0, 0)), np.empty(0)
        _, df = self._known()
        return df @ df.T, df @ self._last[1]

    def combined(self, gamma: FloatArray) -> FloatArray:
        """The next x by a combination of the latest steps, (m,)."""
        assert self._last is not None
        (x, step), (dx, df) = self._last, self._known()
        following: FloatArray = x + step - gamma @ dx - gamma @ df
        return following


def combination(gram: FloatArray, right: FloatArray) -> FloatArray:
    """The combination of the latest steps that is smallest, (m,), from their inner products.

    By the normal equations: with five unknowns they are soon solved, and an inaccurate extrapolation only costs a step.
    """
    found: FloatArray = np.linalg.lstsq(gram, right, rcond=None)[0]
    return found
