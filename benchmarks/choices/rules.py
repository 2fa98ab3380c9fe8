"""What each rule chooses for a data set."""

from __future__ import annotations

import numpy as np

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.power import choose_power, tuned_kernel
from heatsketch.kernel.options import KernelOptions

__all__ = ["POWERS", "RULES", "chosen_by_rules"]

# Times of the grid.
POWERS = np.unique(np.round(2.0 ** (np.arange(24) / 2.0)))
RULES = (
    "auto",
    "neighbor, time by paths",
    "neighbor, time by entropy",
    "neighbor, knee of PHATE",
    "neighbor, power 8",
    "neighbor, best time",
    "slope, best time",
    "median, best time",
    "self-tuning, best time",
)


def chosen_by_rules(X: FloatArray) -> dict[str, tuple[float, float | None]]:
    """Bandwidth (the median of those of "self-tuning") and power by each rule; None where all times are tried."""
    auto, power = tuned_kernel(X, KernelOptions(), "auto", X.dtype)
    epsilon = float(hs.estimate_bandwidth(X, "neighbor").epsilon)
    kernel = hs.heat_kernel(X, bandwidth=epsilon)
    _, by_paths = tuned_kernel(X, KernelOptions(bandwidth=epsilon), "paths", X.dtype)
    found: dict[str, tuple[float, float | None]] = {
        "auto": (float(np.asarray(auto.bandwidth)), power.power),
        "neighbor, time by paths": (epsilon, by_paths.power),
        "neighbor, time by entropy": (epsilon, choose_power(kernel, None).power),
        "neighbor, knee of PHATE": (epsilon, knee_of_phate(kernel)),
        "neighbor, power 8": (epsilon, 8.0),
        "neighbor, best time": (epsilon, None),
    }
    for rule in ("slope", "median", "self-tuning"):
        found[f"{rule}, best time"] = (float(np.median(hs.estimate_bandwidth(X, rule).epsilon)), None)
    return found


def knee_of_phate(kernel: hs.HeatKernel) -> float:
    """PHATE's time: two lines fitted to the von Neumann entropy of A^t for t up to 100 (Moon et al., 2019)."""
    values = np.abs(np.linalg.eigvalsh(kernel.symmetric.toarray()))
    times = np.arange(1, 101)
    shares = values[None, :] ** times[:, None]
    shares /= shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1)

    def misfit(stop: int) -> float:
        """Error of a line through the first points and another through the rest."""
        parts = (slice(None, stop), slice(stop, None))
        return sum(
            float(np.square(np.polyval(np.polyfit(times[p], entropy[p], 1), times[p]) - entropy[p]).sum())
            for p in parts
        )

    return float(times[min(range(3, len(times) - 3), key=misfit)])
