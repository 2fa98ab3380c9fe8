"""Anderson acceleration of an iteration whose vectors lie in bands: each worker keeps the latest steps of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._utils.typing import FloatArray
from ...linalg.anderson import Anderson, combination
from .tasks import Parts, Plan, gathered, started

__all__ = ["BandedAnderson"]


class BandedAnderson:
    """The same as :class:`heatsketch.linalg.anderson.Anderson`, with one task for each band and step.

    Only the inner products of the latest steps, a few numbers for each band, come to the client.
    """

    def __init__(self) -> None:
        self._latest: Parts | None = None
        self._last: tuple[Any, Any] | None = None

    def plain(self) -> Any:
        """The latest x and its own step; all that is known is forgotten."""
        assert self._last is not None
        (x, step), self._last, self._latest = self._last, None, None
        return started(x + step)

    def extrapolate(self, x: Any, step: Any) -> tuple[Any, bool]:
        """The next x: by the combination of the latest steps that is smallest, and whether there were several."""
        self._last = x, step
        plan = Plan(x, step, self._latest or [])
        bands = range(len(x.chunks[0]))
        before = [None for _ in bands] if self._latest is None else plan.keys(self._latest)
        for b, (here, towards) in enumerate(zip(plan.keys(x), plan.keys(step), strict=True)):
            key = plan.add("latest-steps", b, _remembered, before[b], here, towards)
            plan.add("inner-products", b, Anderson.inner_products, key)
        first = self._latest is None
        self._latest = started(plan.parts("latest-steps", bands))
        if first:
            return started(x + step), False
        products = gathered(plan.parts("inner-products", bands))
        gram, right = (np.sum(parts, axis=0) for parts in zip(*products, strict=True))
        plan = Plan(self._latest)
        for b, key in enumerate(plan.keys(self._latest)):
            plan.add("next-scaling", b, Anderson.combined, key, combination(gram, right))
        return started(plan.array("next-scaling", x.chunks[0], None, np.float64)), True


def _remembered(latest: Anderson | None, x: FloatArray, step: FloatArray) -> Anderson:
    """A copy of what is remembered, with one step more: results of tasks must not be changed by others."""
    following = Anderson() if latest is None else latest.copy()
    following.remember(x, step)
    return following
