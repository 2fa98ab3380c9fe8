"""Anderson acceleration of fixed-point iterations.

References
----------
.. [1] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.array import array_namespace, to_numpy

__all__ = ["Anderson"]

# Number of previous steps used.
_DEPTH = 5


class Anderson:
    """Extrapolation of an iteration ``x <- x + step`` from its latest steps [1]_."""

    def __init__(self) -> None:
        # Differences of successive x + step and of successive steps, in ring buffers.
        self._dx: list[Any] = []
        self._df: list[Any] = []
        self._gram = np.empty((_DEPTH, _DEPTH))  # inner products of the latter
        self._last: tuple[Any, Any] | None = None
        self._count = 0

    def plain(self) -> Any:
        """The latest x plus its step; the history is discarded."""
        assert self._last is not None
        x, _ = self._last
        self._dx, self._df, self._last, self._count = [], [], None, 0
        return x

    def extrapolate(self, x: Any, step: Any) -> tuple[Any, bool]:
        """The next x, from the smallest combination of the latest steps, and whether there were several."""
        x = x + step
        last, self._last = self._last, (x, step)
        if last is None:
            return x, False
        oldest = self._count % _DEPTH
        self._dx[oldest : oldest + 1] = [x - last[0]]  # or appended, while there are fewer
        self._df[oldest : oldest + 1] = [step - last[1]]
        self._count += 1
        df = array_namespace(x).stack(self._df)  # [m, N]
        # Normal equations: five unknowns, and an inaccurate extrapolation only costs a step.
        gram = self._gram[: len(self._df), : len(self._df)]
        gram[oldest, :] = gram[:, oldest] = to_numpy(df @ self._df[oldest])
        gamma = np.linalg.lstsq(gram, to_numpy(df @ step), rcond=None)[0]
        for weight, dx in zip(gamma.tolist(), self._dx, strict=True):
            x = x - weight * dx
        return x, True
