r"""Filters h of an embedding ``Y = h(A) M``: the diffusion times that it keeps.

A number t stands for ``h(x) = x^t``, the paper's filter, and :class:`MultiscaleFilter` for all times at once:

    h(x)^2 = sum_t w_t x^(2t),    w_t = t^a / tau_t,    t = 1, 2, 4, ..., T,

where ``tau_t = tr S^(2t)`` over the nontrivial modes is N/2 times the mean squared diffusion distance at time t. On a
manifold ``D_t^2 / tau_t`` is about ``(2 / N) (1 - exp(-d^2 / 8 t))`` at geodesic distance d, in units of a step of the
kernel: numerator and denominator fall by the same power of t, whatever the dimension. The sum over dyadic times of
``t^a (1 - exp(-d^2 / 8 t))`` grows like ``d^(2 a)`` for 0 < a < 1, so multiscale distances grow like the a-th power of
geodesic distances (`docs/theory/multiscale.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._utils.typing import FloatArray
from .rounding import require_nonnegative, warn_lost

__all__ = [
    "FEW",
    "POWER_NAMES",
    "TRACE_COLUMNS",
    "TRACE_STEPS",
    "MultiscaleFilter",
    "Power",
    "check_power",
    "check_power_option",
    "check_powers",
    "check_time",
    "filtered",
    "in_words",
    "longest",
]

POWER_NAMES = ("auto", "multiscale")
# Columns and products that estimate the weights of the multiscale filter, up to `FEW` points and for more.
FEW = 20_000
TRACE_COLUMNS, TRACE_STEPS = (16, 8), (64, 40)


@dataclass(frozen=True)
class MultiscaleFilter:
    """The filter of all diffusion times at once, ``h(x)^2 = sum_t w_t x^(2t)``.

    Made by :func:`heatsketch.multiscale`, and accepted wherever a power is.

    Attributes
    ----------
    times : tuple of int
        1, 2, 4, ...
    weights : tuple of float
        w_t > 0.

    Examples
    --------
    >>> import heatsketch as hs
    >>> before, after = (hs.datasets.circle(200, random_state=seed) for seed in (0, 1))
    >>> h = hs.multiscale(hs.heat_kernel(before, bandwidth=0.25))
    >>> print(h)
    multiscale, times 1 to 64
    >>> model = hs.DiffusionMaps(bandwidth=0.25, power=h).fit(after)  # with the same weights
    >>> (h([0.9, 0.99]) / h(0.5)).round(1)  # eigenvalues near 1 count more
    array([  4.9, 136.7])
    """

    times: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        dyadic = tuple(2**n for n in range(len(self.weights)))
        if not dyadic or self.times != dyadic or not all(0 < w < np.inf for w in self.weights):
            raise ValueError(
                f"times={self.times!r} and weights={self.weights!r} were given; the times must be 1, 2, 4, ..., with a "
                "positive weight for each. Use heatsketch.multiscale(A)."
            )

    def __str__(self) -> str:
        return f"multiscale, times 1 to {self.times[-1]}" if len(self.times) > 1 else "multiscale, time 1"

    def over_x(self, x: ArrayLike) -> FloatArray:
        """``h(x) / x = sqrt(sum_t w_t x^(2t-2))``: positive and smooth, also where x is zero or negative."""
        logs = np.log(np.maximum(np.abs(np.asarray(x, dtype=np.float64)), np.finfo(np.float64).tiny))
        t = np.array(self.times, dtype=np.float64)
        terms = np.exp(np.log(self.weights) + (2.0 * t - 2.0) * logs[..., None])
        found: FloatArray = np.sqrt(terms.sum(axis=-1))
        return found

    def __call__(self, x: ArrayLike) -> FloatArray:
        """h(x), with the sign of x: for distances only its square matters."""
        found: FloatArray = np.asarray(x, dtype=np.float64) * self.over_x(x)
        return found


# What estimators call their power: a diffusion time, or all of them.
Power: TypeAlias = float | MultiscaleFilter


def filtered(power: Power, values: FloatArray, rounding: float, *, over_x: bool = False) -> FloatArray:
    """The filter at eigenvalues, or ``h(x) / x`` with `over_x`, shape (k,).

    It is 0 for eigenvalues that are zero up to `rounding`; warns if what is lost of a power in this way could matter.
    """
    nonzero = np.abs(values) > rounding
    base = np.where(nonzero, values, 1.0)
    if isinstance(power, MultiscaleFilter):
        found = power.over_x(base) if over_x else power(base)
    else:
        warn_lost(not nonzero.all(), rounding, power)
        if not float(power).is_integer():
            require_nonnegative(float(base.min(initial=1.0)))
        found = base ** (power - 1.0 if over_x else power)
    return np.where(nonzero, found, 0.0)


def longest(power: Power) -> float:
    """The longest diffusion time of a filter."""
    return float(power.times[-1]) if isinstance(power, MultiscaleFilter) else float(power)


def in_words(power: Power) -> str:
    """A filter as users read it."""
    return str(power) if isinstance(power, MultiscaleFilter) else f"{power:g}"


def check_time(power: float) -> None:
    """Raise unless the power is a diffusion time: a positive, finite number."""
    if not _is_time(power):
        raise ValueError(f"power={power!r} was given; the diffusion time must be a positive, finite number.")


def _is_time(power: Any) -> bool:
    return isinstance(power, Real) and not isinstance(power, bool) and 0 < float(power) < np.inf


def check_power(power: Power) -> None:
    """Raise unless the power is a diffusion time or a filter."""
    if not isinstance(power, MultiscaleFilter):
        check_time(power)


def check_power_option(power: Power | str) -> None:
    """Raise unless a user's `power` is a positive number, a filter or the name of one."""
    named = isinstance(power, str) and power in POWER_NAMES
    if not (named or isinstance(power, MultiscaleFilter) or _is_time(power)):
        raise ValueError(f"power={power!r} was given; use a positive, finite number or one of {POWER_NAMES}.")


def check_powers(powers: Sequence[float] | ArrayLike) -> FloatArray:
    """Checked diffusion times as an array."""
    try:
        times = np.asarray(powers, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"powers={powers!r} were given; give numbers. The embedding of all times at once is embedding_."
        ) from None
    if times.ndim != 1 or not len(times):
        raise ValueError(f"powers of shape {times.shape} were given; give a list of one or more diffusion times.")
    for t in times:
        check_time(t)
    return times
