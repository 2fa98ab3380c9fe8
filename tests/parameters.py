"""Options of kernels as estimators take them."""

from __future__ import annotations

from typing import Any

KERNEL = ("bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision", "tol")
SOLVER = ("n_rounds", "regularization", "width")


def folded(options: dict[str, Any]) -> dict[str, Any]:
    """Options with the expert ones moved to `kernel_params` and `solver_params`."""
    kept = {name: value for name, value in options.items() if name not in (*KERNEL, *SOLVER)}
    for key, names in (("kernel_params", KERNEL), ("solver_params", SOLVER)):
        if inside := {name: options[name] for name in names if name in options}:
            kept[key] = inside | kept.get(key, {})
    return kept
