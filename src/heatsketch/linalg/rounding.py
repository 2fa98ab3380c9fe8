"""What rounding leaves of the spectrum of a heat kernel, and what powers of it cannot be told."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .operators import HeatOperator

__all__ = ["ROUNDING_ULPS", "noise_level", "refuse_negative", "rounding_level", "warn_inexact", "warn_lost"]

# Eigenvalues of a kernel of norm 1 are known to about this many units in the last place.
ROUNDING_ULPS = 100.0
# ... or, where products are less exact than the dtype, to so many times their error.
_ROUNDINGS = 10.0
# Share of the largest nontrivial eigenvalue's power that may be lost in eigenvalues below rounding without a word.
_LOST = 1e-3


def refuse_negative(lowest: float, rounding: float = 0.0) -> None:
    """Refuse a power that is not whole of a kernel with negative eigenvalues."""
    if lowest < -rounding:
        raise ValueError(
            f"a power that is not a whole number was asked for, but the kernel has negative eigenvalues (down to "
            f"{lowest:.2g}), which have none; use a whole power, or a kernel that is positive semidefinite (Gaussian "
            "with a Euclidean metric, all pairs, one bandwidth, diagonal kept)."
        )


def warn_inexact(error: float, wanted: float) -> None:
    """Say that a power of the kernel is less accurate than wanted, both relative to its largest eigenvalue."""
    warnings.warn(
        f"the power of the kernel is known to {error:.1e} of its largest nontrivial eigenvalue, not to {wanted:.1e}: "
        "small powers that are not whole reach eigenvalues near zero, and very large ones differences between the "
        "largest, which are costly and finally rounding. Use a power of 1 or more, or a smaller one if it is large, "
        "or method='eigen'.",
        ConvergenceWarning,
        stacklevel=2,
    )


def warn_lost(any_zero: bool, rounding: float, power: float) -> None:
    """Say so where eigenvalues that are zero up to `rounding` could matter in a power of the kernel."""
    if any_zero and rounding**power > _LOST:
        warn_inexact(rounding**power, _LOST)


def rounding_level(kernel: HeatOperator) -> float:
    """Size below which an eigenvalue of the kernel is rounding."""
    return max(ROUNDING_ULPS * float(np.finfo(kernel.dtype).eps), _ROUNDINGS * kernel.rounding)


def noise_level(kernel: HeatOperator) -> float:
    """Size of eigenvalues that rounding makes up: a kernel with a trivial mode has norm 1, whatever is left without."""
    return 0.0 if kernel.trivial is None else ROUNDING_ULPS * kernel.rounding
