"""Distances between the columns of a distributed array: each chunk of rows adds its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import column_distances, magnitude, row_distances
from .array import DistributedArray
from .tasks import Key, Plan, gathered

__all__ = ["add_up", "total"]

# Sums that are added up at a time: trees keep what waits on the workers, and the rounding, small.
_FAN_IN = 4


@column_distances.register
def _(V: DistributedArray, i: IntArray, j: IntArray) -> FloatArray:
    scale, V = magnitude(V), V.computed().values
    plan = Plan(V)
    pairs = plan.add("pairs", 0, np.stack, [i, j])  # sent once, not with every task
    parts = [plan.add("distances-in-band", b, _squared, key, pairs, scale) for b, key in enumerate(plan.keys(V))]
    add_up(plan, "distances", 0, parts)
    distances: FloatArray = scale * np.sqrt(gathered(*plan.parts("distances", [0]), name="measuring distances"))
    return distances


def _squared(V: FloatArray, pairs: IntArray, scale: float) -> FloatArray:
    rows = np.ascontiguousarray(V.T, dtype=np.float64) / scale
    squared: FloatArray = np.square(row_distances(rows, *pairs))
    return squared


def add_up(
    plan: Plan, label: str, index: Any, parts: list[Key], function: Callable[[list[Any]], Any] | None = None
) -> Key:
    """Tasks that add up parts as a tree, or join them by another function; the last has the label and the index."""
    function, level = function or total, 0
    place = index if isinstance(index, tuple) else (index,)
    while len(parts) > _FAN_IN:
        groups = [parts[at : at + _FAN_IN] for at in range(0, len(parts), _FAN_IN)]
        keys = [(*place, level, g) for g in range(len(groups))]
        added = zip(keys, groups, strict=True)
        parts = [plan.add(f"sum-of-{label}", key, function, group, urgency=1) for key, group in added]
        level += 1
    return plan.add(label, index, function, parts, urgency=1)


def total(parts: list[FloatArray]) -> FloatArray:
    """The sum of a few arrays, in their order."""
    if len(parts) == 1:
        return parts[0]
    out = parts[0] + parts[1]
    for part in parts[2:]:
        out += part
    return out
