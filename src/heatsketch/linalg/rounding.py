"""Rounding in the spectrum of a heat kernel, and errors and warnings about powers that it makes inaccurate."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.warn import warn
from .operators import HeatOperator

__all__ = ["ROUNDING_ULPS", "noise_level", "require_nonnegative", "rounding_level", "warn_inexact", "warn_lost"]

# Eigenvalues of a kernel of norm 1 are known to about this many units in the last place.
ROUNDING_ULPS = 100.0
# The same if products are less accurate than the dtype, as a multiple of their error.
_ROUNDINGS = 10.0
# Largest power of an eigenvalue below rounding that may be lost without a warning, relative to the largest power.
_LOST = 1e-3


def require_nonnegative(lowest: float, rounding: float = 0.0) -> None:
    """Raise if the lowest eigenvalue is negative, for a power that is not whole."""
    if lowest < -rounding:
        raise ValueError(
            f"only whole powers are defined for a kernel with negative eigenvalues (down to {lowest:.2g}); use a whole "
            "power, or a positive semidefinite kernel (Gaussian with a Euclidean metric, all pairs, one bandwidth, "
            "diagonal kept)."
        )


def warn_inexact(error: float, wanted: float) -> None:
    """Warn that a power of the kernel is less accurate than wanted, both relative to its largest eigenvalue."""
    warn(
        f"the power of the kernel is known to {error:.1e} of its largest nontrivial eigenvalue, not to {wanted:.1e}: "
        "small real powers depend on eigenvalues near zero, and very large powers on small differences between the "
        "largest eigenvalues. Use a power of 1 or more, or a smaller one if it is large.",
        ConvergenceWarning,
    )


def warn_inexact_filter(error: float, wanted: float) -> None:
    """Warn that the multiscale filter is less accurate than wanted, relative to its value at every eigenvalue."""
    warn(
        f"the multiscale filter is known to {error:.1e}, not to {wanted:.1e}: its last time needs a polynomial of a "
        "higher degree than is used. End the times earlier.",
        ConvergenceWarning,
    )


def warn_lost(any_zero: bool, rounding: float, power: float) -> None:
    """Warn if eigenvalues that are zero up to `rounding` could matter in a power of the kernel."""
    if any_zero and rounding**power > _LOST:
        warn_inexact(rounding**power, _LOST)


def rounding_level(kernel: HeatOperator) -> float:
    """Size below which an eigenvalue of the kernel is rounding."""
    return max(ROUNDING_ULPS * float(np.finfo(kernel.dtype).eps), _ROUNDINGS * kernel.rounding)


def noise_level(kernel: HeatOperator) -> float:
    """Size of nontrivial eigenvalues that are all rounding, for a kernel of norm 1 with a trivial mode."""
    return 0.0 if kernel.trivial is None else ROUNDING_ULPS * kernel.rounding
