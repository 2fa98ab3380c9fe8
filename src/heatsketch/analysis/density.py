"""The spectral density of the heat kernel, and what it says of every diffusion time: entropy and dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.display import Facts, Shown
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray
from ..kernel.operator import as_heat_kernel
from ..kernel.options import check_count
from ..linalg.lanczos import KrylovSketch, horizon

__all__ = ["SpectralDensity", "density_of", "spectral_density"]

# Half the step, in log t, over which the fall of the entropy is measured.
_STEP = 0.1
# Times at which a density tells its effective dimension when it is shown.
_SHOWN = (1.0, 4.0, 16.0, 64.0, 256.0)


@dataclass(frozen=True, repr=False)
class SpectralDensity(Shown):
    r"""Eigenvalues of the heat kernel outside its trivial mode, as a quadrature that estimates every trace.

    The weights of all nodes add up to the number of nontrivial modes. Each random column has its own nodes, so that
    their scatter tells the error of a mean.

    Attributes
    ----------
    nodes, weights : ndarrays of shape (n_columns, n_steps)
        ``tr f(S)`` is the mean over columns of ``sum weights f(nodes)``.
    """

    nodes: FloatArray
    weights: FloatArray

    def __str__(self) -> str:
        dimensions = ", ".join(f"{dimension} at time {t:g}" for t, dimension in self._dimensions())
        return (
            f"About {self._n_modes:.0f} nontrivial modes, the largest eigenvalue {np.abs(self.nodes).max():.4g}; those "
            f"that matter: {dimensions}."
        )

    @property
    def _n_modes(self) -> float:
        return float(self.weights.sum(axis=1).mean())

    def _dimensions(self) -> list[tuple[float, str]]:
        """Effective dimensions at a few of the times that so many steps resolve."""
        times = [t for t in _SHOWN if t <= max(1.0, horizon(self.nodes.shape[1]))]
        return [(t, f"{float(self.effective_dimension(t)):.3g}") for t in times]

    def _facts(self) -> Facts:
        return [
            ("nontrivial modes", f"about {self._n_modes:.0f}"),
            ("largest eigenvalue", f"{np.abs(self.nodes).max():.4g}"),
            *((f"effective dimension at time {t:g}", dimension) for t, dimension in self._dimensions()),
        ]

    def trace(self, power: ArrayLike) -> FloatArray:
        """Estimate of ``tr |S|^t`` over the nontrivial modes, for each t."""
        traces: FloatArray = self._moments(power)[0] * np.abs(self.nodes).max() ** np.asarray(power, dtype=np.float64)
        return traces

    def entropy(self, power: ArrayLike) -> FloatArray:
        r"""Von Neumann entropy at each time t: of the modes' shares in the mean squared diffusion distance.

        With ``rho_l = lambda_l^(2t) / sum lambda^(2t)`` it is ``-sum rho log rho``: between 0, where one mode is left,
        and the logarithm of the number of modes.
        """
        t = np.asarray(power, dtype=np.float64)
        total, weighted = self._moments(2.0 * t)
        entropy: FloatArray = np.log(total) - 2.0 * t * weighted
        return np.maximum(entropy, 0.0)

    def effective_dimension(self, power: ArrayLike) -> FloatArray:
        """``exp(entropy)``: how many modes share in the squared diffusion distances at each time."""
        return np.exp(self.entropy(power))

    def spectral_dimension(self, power: ArrayLike) -> FloatArray:
        """Fall of the entropy with log t, times -2: the dimension of a manifold while its heat kernel is local."""
        t = np.asarray(power, dtype=np.float64)
        fall = self.entropy(t * np.exp(-_STEP)) - self.entropy(t * np.exp(_STEP))
        dimension: FloatArray = fall / _STEP
        return dimension

    def count(self, low: float, high: float = np.inf) -> float:
        """Estimated number of eigenvalues between two bounds."""
        inside = (self.nodes >= low) & (self.nodes < high)
        return float((self.weights * inside).sum(axis=1).mean())

    def _moments(self, power: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``tr |S|^e`` in units of the largest eigenvalue's power, and the mean of log |lambda| under ``|S|^e``."""
        e = np.asarray(power, dtype=np.float64)[..., None, None]
        sizes = np.abs(self.nodes)
        largest = sizes.max()
        logs = np.log(np.maximum(sizes / largest, np.finfo(np.float64).tiny)) if largest > 0 else np.zeros_like(sizes)
        shares = self.weights * np.exp(e * logs)
        total = shares.sum(axis=(-2, -1)) / len(self.nodes)
        mean = (shares * logs).sum(axis=(-2, -1)) / len(self.nodes) / np.maximum(total, np.finfo(np.float64).tiny)
        return total, mean


@quiet_blas()
def spectral_density(A: Any, *, n_columns: int = 16, n_steps: int = 48) -> SpectralDensity:
    """Spectral density of a heat kernel by stochastic Lanczos quadrature, without an eigensolver.

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
    n_columns : int
        Random columns: the relative error of a trace of d equal modes is about ``sqrt(2 / (n_columns d))``.
    n_steps : int
        Products with the kernel. Powers up to about ``n_steps^2 / 7`` are resolved.

    Returns
    -------
    density : SpectralDensity

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.stretched_torus(1000, random_state=0))
    >>> density = hs.spectral_density(A)
    >>> bool(1.6 < density.spectral_dimension(2.0) < 2.4)
    True
    """
    check_count(n_columns, "n_columns")
    check_count(n_steps, "n_steps")
    return density_of(KrylovSketch(as_heat_kernel(A), np.arange(1), n_columns, n_steps))


def density_of(sketch: KrylovSketch) -> SpectralDensity:
    """The density that a sketch has seen."""
    return SpectralDensity(*sketch.quadrature())
