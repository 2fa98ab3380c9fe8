"""Anderson acceleration of fixed-point iterations.

References
----------
.. [1] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, device, to_numpy

__all__ = ["Anderson"]

# Number of previous steps used.
_DEPTH = 5


class Anderson:
    """Extrapolation of an iteration ``x <- x + step`` from its latest steps [1]_."""

    def __init__(self) -> None:
        # Differences of successive x + step and of successive steps, [depth, N], of which the latest are kept.
        self._dx: Any = None
        self._df: Any = None
        self._last: tuple[Any, Any] | None = None
        self._gram = np.empty((_DEPTH, _DEPTH))  # inner products of differences of steps
        self._count = 0

    def plain(self) -> Any:
        """The latest x plus its step; the history is discarded."""
        assert self._last is not None
        x, _ = self._last
        self._last, self._count = None, 0
        return x

    def extrapolate(self, x: Any, step: Any) -> tuple[Any, bool]:
        """The next x, from the smallest combination of the latest steps, and whether there were several."""
        x = x + step
        last, self._last = self._last, (x, step)
        if last is None:
            return x, False
        if self._dx is None:
            xp = array_namespace(x)
            self._dx, self._df = (xp.empty((_DEPTH, *x.shape), dtype=x.dtype, device=device(x)) for _ in range(2))
        oldest = self._count % _DEPTH
        self._dx[oldest, :], self._df[oldest, :] = x - last[0], step - last[1]
        self._count += 1
        dx, df = (latest[: self._count, :] for latest in (self._dx, self._df))
        # Normal equations: five unknowns, and an inaccurate extrapolation only costs a step.
        gram = self._gram[: self._count, : self._count]
        gram[oldest, :] = gram[:, oldest] = to_numpy(df @ df[oldest, :])
        gamma = np.linalg.lstsq(gram, to_numpy(df @ step), rcond=None)[0]
        return x - asarray_like(gamma, x) @ dx, True
