"""Options of kernels as estimators take them."""

from __future__ import annotations

from typing import Any

KERNEL = ("bandwidth_neighbor", "cutoff", "diagonal", "max_iter", "precision", "tol")


def folded(options: dict[str, Any]) -> dict[str, Any]:
    """Options with the expert ones moved to `kernel_params`."""
    kept = {name: value for name, value in options.items() if name not in KERNEL}
    if inside := {name: options[name] for name in KERNEL if name in options}:
        kept["kernel_params"] = inside | kept.get("kernel_params", {})
    return kept
