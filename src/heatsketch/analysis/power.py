"""The power of an embedding: a diffusion time, or the multiscale filter, whose times follow from the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.threads import quiet_blas
from ..kernel.operator import HeatKernel, as_heat_kernel
from ..kernel.options import is_number
from ..linalg.filters import FEW, TRACE_COLUMNS, TRACE_STEPS, MultiscaleFilter, Power, check_power_option
from ..linalg.lanczos import spectral_quadrature
from ..linalg.rounding import noise_level

__all__ = ["EXPONENT", "LONGEST", "multiscale", "power_of"]

# The exponent a by default; `docs/defaults` has the comparison.
EXPONENT = 0.5
# Times end where the trace is below the first number, or where doubling the time changes it by less than the second.
_DECAYED, _UNCHANGED = 1e-3, 0.01
# The last time at most, up to `FEW` points and for more.
LONGEST = 4096, 512


@quiet_blas()
def multiscale(A: Any, *, exponent: float = EXPONENT) -> MultiscaleFilter:
    """The filter of all diffusion times at once, ``h(x)^2 = sum_t t^a x^(2t) / tau_t`` over t = 1, 2, 4, ..., T.

    ``tau_t = tr S^(2t)`` over the nontrivial modes, so that every time has the same total variance before it is
    weighted by ``t^a``. Distances of an embedding ``h(A) M`` grow like the a-th power of geodesic distances, whatever
    the dimension of the data (`docs/theory/multiscale.md`). T is the last time before ``tau_t`` falls below 0.001, or
    before doubling the time changes it by less than 1% (as between parts of the data that exchange no heat), at most
    4096 up to 20,000 points and 512 for more.

    The traces are estimated from columns with a fixed seed: the filter is a function of the kernel alone, and a random
    sketch is independent of it.

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of norm 1, shape (N, N)
    exponent : float in [0, 1]
        a. Larger values weigh large scales more.

    Returns
    -------
    h : MultiscaleFilter
        With ``h.times`` and ``h.weights``; pass it as `power`. The name ``power="multiscale"`` stands for the default
        exponent.

    References
    ----------
    .. [1] Leeb, Coifman. "Hölder-Lipschitz norms and their duals on spaces with semigroups, with applications to earth
       mover's distance". Journal of Fourier Analysis and Applications, 2016.

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(300, random_state=0))
    >>> h = hs.multiscale(A)
    >>> d = hs.diffusion_distances(A, power=h)
    >>> d.shape
    (44850,)
    """
    if not is_number(exponent) or not 0 <= exponent <= 1:
        raise ValueError(f"exponent={exponent!r} was given; it must be a number between 0 and 1.")
    return _multiscale(as_heat_kernel(A), float(exponent))


def power_of(kernel: HeatKernel, power: Power | str) -> Power:
    """The filter that a user's `power` stands for: a diffusion time, or all of them."""
    check_power_option(power)
    if isinstance(power, str):
        return _multiscale(kernel, EXPONENT)
    return power if isinstance(power, MultiscaleFilter) else float(power)


def _multiscale(kernel: HeatKernel, exponent: float) -> MultiscaleFilter:
    """`multiscale` for a kernel and an exponent that have been checked."""
    kernel = kernel.folded()
    many = kernel.shape[0] > FEW
    nodes, weights = spectral_quadrature(kernel, TRACE_COLUMNS[many], TRACE_STEPS[many])
    sizes = np.abs(nodes)
    times = 2 ** np.arange(int(np.log2(LONGEST[many])) + 1)
    with np.errstate(over="ignore"):
        traces = np.array([(weights * sizes ** (2.0 * t)).sum() for t in times])
    if not np.isfinite(traces).all():
        raise ValueError(
            f"a matrix with an eigenvalue of {sizes.max():.3g} was given; powers of it overflow. Divide it by its "
            "largest eigenvalue, or make a kernel of it by heat_kernel(matrix, affinity='precomputed')."
        )
    if sizes.max(initial=0.0) <= noise_level(kernel) or traces[0] < np.finfo(np.float64).tiny:
        return MultiscaleFilter((1,), (1.0,))  # nothing is left of the kernel but its trivial mode
    # A slow start is no end: at least half must have decayed.
    unchanged = (traces[1:] > (1.0 - _UNCHANGED) * traces[:-1]) & (traces[1:] < 0.5 * traces[0])
    ended = (traces[1:] < _DECAYED) | unchanged
    n = int(np.argmax(ended)) + 1 if ended.any() else len(times)
    return MultiscaleFilter(tuple(times[:n].tolist()), tuple((times[:n] ** exponent / traces[:n]).tolist()))
