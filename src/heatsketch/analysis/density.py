"""The spectral density of the heat kernel: entropy and dimensions at every diffusion time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.display import Shown
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..kernel.operator import as_heat_kernel
from ..kernel.options import check_count
from ..linalg.lanczos import horizon, spectral_quadrature

__all__ = ["SpectralDensity", "spectral_density"]

# Half the step in log t for the slope of the entropy.
_STEP = 0.1
# Times whose effective dimension is displayed.
_SHOWN = (1.0, 4.0, 16.0, 64.0, 256.0)


@dataclass(frozen=True, repr=False)
class SpectralDensity(Shown):
    r"""Eigenvalues of the heat kernel outside its trivial mode, as a quadrature that estimates every trace.

    The weights of all nodes add up to about the number of nontrivial modes.

    Attributes
    ----------
    nodes, weights : ndarrays of shape (n_columns, n_steps)
        ``tr f(S)`` is ``sum weights f(nodes)``. Up to 512 points the nodes are the eigenvalues, shape (1, n_modes).

    Examples
    --------
    >>> import heatsketch as hs
    >>> density = hs.spectral_density(hs.heat_kernel(hs.datasets.stretched_torus(500, random_state=0)))
    >>> density.count(0.5)  # eigenvalues of at least 1/2
    59.0
    >>> density.effective_dimension([1, 10, 100]).round(1)
    array([94.4, 14.1,  2.1])
    """

    nodes: FloatArray
    weights: FloatArray

    def __str__(self) -> str:
        times = [t for t in _SHOWN if t <= max(1.0, horizon(self.nodes.shape[1]))]
        dimensions = ", ".join(f"{float(self.effective_dimension(t)):.3g} at time {t:g}" for t in times)
        return (
            f"About {self.weights.sum():.0f} nontrivial modes, largest eigenvalue "
            f"{np.abs(self.nodes).max():.4g}; effective dimension {dimensions}."
        )

    def trace(self, power: ArrayLike) -> FloatArray:
        """Estimate of ``tr |S|^t`` over the nontrivial modes, for each t."""
        traces: FloatArray = self._moments(power)[0] * np.abs(self.nodes).max() ** np.asarray(power, dtype=np.float64)
        return traces

    def entropy(self, power: ArrayLike) -> FloatArray:
        """Von Neumann entropy ``-sum rho log rho`` at each time t, with ``rho_l = lambda_l^(2t) / sum lambda^(2t)``.

        rho are the shares of the modes in the mean squared diffusion distance. The entropy falls from the logarithm of
        the number of modes to 0 if one mode is left.
        """
        t = np.asarray(power, dtype=np.float64)
        total, weighted = self._moments(2.0 * t)
        entropy: FloatArray = np.log(total) - 2.0 * t * weighted
        return np.maximum(entropy, 0.0)

    def effective_dimension(self, power: ArrayLike) -> FloatArray:
        """``exp(entropy)``: the number of modes that contribute to diffusion distances at each time."""
        return np.exp(self.entropy(power))

    def spectral_dimension(self, power: ArrayLike) -> FloatArray:
        """-2 times the slope of the entropy against log t: the dimension of a manifold while its kernel is local."""
        t = np.asarray(power, dtype=np.float64)
        fall = self.entropy(t * np.exp(-_STEP)) - self.entropy(t * np.exp(_STEP))
        dimension: FloatArray = fall / _STEP
        return dimension

    def count(self, low: float, high: float = np.inf) -> float:
        """Estimated number of eigenvalues between two bounds."""
        inside = (self.nodes >= low) & (self.nodes < high)
        return float((self.weights * inside).sum())

    def _moments(self, power: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``tr |S|^e`` in units of the largest eigenvalue's power, and the mean of log |lambda| under ``|S|^e``."""
        e = np.asarray(power, dtype=np.float64)[..., None, None]
        sizes = np.abs(self.nodes)
        largest = sizes.max()
        logs = np.log(np.maximum(sizes / largest, np.finfo(np.float64).tiny)) if largest > 0 else np.zeros_like(sizes)
        shares = self.weights * np.exp(e * logs)
        total = shares.sum(axis=(-2, -1))
        mean = (shares * logs).sum(axis=(-2, -1)) / np.maximum(total, np.finfo(np.float64).tiny)
        return total, mean


@quiet_blas()
def spectral_density(A: Any, *, n_columns: int = 16, n_steps: int = 48) -> SpectralDensity:
    """Spectral density of a heat kernel by stochastic Lanczos quadrature.

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
    n_columns : int
        Half of them near the leading eigenvectors, half random. The relative error of the trace of d equal modes, away
        from the leading ones, is about ``2 / sqrt(n_columns d)``.
    n_steps : int
        Products with the kernel. Powers up to about ``n_steps^2 / 7`` are resolved.

    Returns
    -------
    density : SpectralDensity

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.stretched_torus(1000, random_state=0), bandwidth=0.3)
    >>> density = hs.spectral_density(A)
    >>> bool(1.6 < density.spectral_dimension(2.0) < 2.4)
    True
    """
    check_count(n_columns, "n_columns")
    check_count(n_steps, "n_steps")
    return SpectralDensity(*spectral_quadrature(as_heat_kernel(A), n_columns, n_steps))
