"""An embedding at many diffusion times: entropy, dimensions and distortion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.array import array_namespace, to_numpy
from .._utils.display import Shown, html_table
from .._utils.typing import FloatArray
from ..kernel.operator import HeatKernel
from ..linalg.diffusion import require_definite, rows_of_powers
from ..linalg.filters import FEW, MultiscaleFilter, Power, longest
from ..linalg.lanczos import horizon
from ..linalg.sketch import sample
from .density import SpectralDensity, spectral_density
from .distances import distances_in_sample
from .distortion import TAIL, measure_distortion

__all__ = ["Scales", "default_powers", "measure_scales", "sample_distortions"]

# Columns of the spectral density, up to `FEW` points and for more, and most products: a trace of d equal modes is known
# to within 2 / sqrt(columns d).
_COLUMNS, _MOST_STEPS = (16, 8), 96
_LONGEST = 1024.0
# Points whose pairs are measured, of up to so many points; of more, as many as one pass of products takes with the
# components, and at least so many.
_FEW, _ANCHORS, _PASS, _FEWEST = 2000, 128, 32, 24
# Error of inner products of rows of S^t, and squared distances that it does not resolve, both relative to the largest.
_ERROR, _RESOLVED = 1e-4, 1e-3
# Default powers stop where the power of the largest eigenvalue is below this.
_LEAST_LEFT = {np.dtype(np.float64): 1e-100, np.dtype(np.float32): 1e-12}


@dataclass(frozen=True, repr=False)
class Scales(Shown):
    """Entropy, dimensions and distortion of an embedding, one entry for each power.

    Attributes
    ----------
    powers : ndarray of shape (n_powers,)
    entropy : ndarray of shape (n_powers,)
        Von Neumann entropy (:meth:`heatsketch.analysis.density.SpectralDensity.entropy`).
    effective_dimension : ndarray of shape (n_powers,)
        ``exp(entropy)``: the number of modes that matter.
    spectral_dimension : ndarray of shape (n_powers,)
        -2 times the slope of the entropy against log t: the dimension of the data at this scale.
    distortion : ndarray of shape (n_powers,)
        log L of the embedding against the diffusion distance at this time, for all pairs of 24 to 32 random points (128
        of up to 2000), without 1% of the pairs at either end.
    chosen : float or None
        The power of the embedding; None if it keeps all times.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(500, random_state=0)
    >>> scales = hs.DiffusionMaps(power=16).fit(X).scales([1, 16, 64])
    >>> print(scales)
    power  entropy  effective dim.  spectral dim.  distortion
        1     4.55            94.4           1.68        3.78
       16     2.06             7.9           2.53        2.59  <- chosen
       64     0.90             2.5           0.89        0.23
    """

    powers: FloatArray
    entropy: FloatArray
    effective_dimension: FloatArray
    spectral_dimension: FloatArray
    distortion: FloatArray
    chosen: float | None

    def _table(self) -> list[tuple[str, ...]]:
        """Header and rows, as text."""
        columns = {
            "power": (self.powers, "g"),
            "entropy": (self.entropy, ".2f"),
            "effective dim.": (self.effective_dimension, ".1f"),
            "spectral dim.": (self.spectral_dimension, ".2f"),
            "distortion": (self.distortion, ".2f"),
        }
        rows = (tuple(f"{values[n]:{digits}}" for values, digits in columns.values()) for n in range(len(self.powers)))
        return [tuple(columns), *rows]

    def __str__(self) -> str:
        header, *rows = self._table()
        lines = ["  ".join(cell.rjust(len(name)) for cell, name in zip(row, header, strict=True)) for row in rows]
        marks = ("  <- chosen" if t == self.chosen else "" for t in self.powers)
        return "\n".join(["  ".join(header), *(line + mark for line, mark in zip(lines, marks, strict=True))])

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        marked = np.flatnonzero(self.powers == self.chosen).tolist()
        return html_table(rows, header=header, title="Scales", marked=marked)

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Draw dimensions and distortions against the diffusion time, on two matplotlib Axes; returns them."""
        from .._utils.drawing import new_axes  # noqa: PLC0415

        above, below = new_axes(2) if axes is None else axes
        above.plot(self.powers, self.effective_dimension, marker="o", ms=3, label="effective dimension")
        above.plot(self.powers, self.spectral_dimension, marker="s", ms=3, label="spectral dimension")
        above.set(xscale="log", yscale="log", ylabel="dimension")
        above.set_ylim(bottom=0.1)
        below.plot(self.powers, self.distortion, marker="o", ms=3, label="embedding against diffusion distance")
        below.set(xscale="log", xlabel="diffusion time", ylabel="log distortion")
        below.set_ylim(bottom=0.0)
        for ax in (above, below):
            if self.chosen is not None:
                ax.axvline(self.chosen, color="0.6", lw=1, ls="--", zorder=0)
            ax.legend(frameon=False)
        return above, below


def measure_scales(
    kernel: HeatKernel,
    power: Power,
    M: Any,
    embed: Callable[[list[float]], list[FloatArray]],
    powers: FloatArray | None = None,
) -> Scales:
    """Measure an embedding at many diffusion times.

    The embeddings are ``diag(w) S^t M``, M of shape (N, k); or, if M is None, `embed` maps the powers to them.
    """
    if powers is not None:
        last = float(np.max(powers))
    else:
        last = longest(power) if isinstance(power, MultiscaleFilter) else max(_LONGEST, power)
    steps = int(np.clip(np.ceil(np.sqrt(last / horizon(1))), 16, _MOST_STEPS))
    density = spectral_density(kernel, n_columns=_COLUMNS[kernel.shape[0] > FEW], n_steps=steps)
    largest = float(np.abs(density.nodes).max())
    if powers is None:
        powers = default_powers(density, power, kernel.dtype)
    elif not _is_left(largest, powers.max(), float(np.finfo(kernel.dtype).tiny)):
        raise ValueError(
            f"at power={powers.max():g} nothing but the constant is left of the heat kernel in {kernel.dtype}; ask for "
            "smaller powers."
        )
    if kernel.in_memory and kernel.shape[0] > _FEW:
        distortion = _distortions(kernel, powers, M, embed, largest)
    else:
        embeddings = (kernel.collect(Y) for Y in embed(powers.tolist()))
        distortion = sample_distortions(kernel, powers.tolist(), _ANCHORS)(embeddings)
    return Scales(
        powers=powers,
        entropy=density.entropy(powers),
        effective_dimension=density.effective_dimension(powers),
        spectral_dimension=density.spectral_dimension(powers),
        distortion=distortion,
        chosen=None if isinstance(power, MultiscaleFilter) else power,
    )


def _distortions(
    kernel: HeatKernel,
    powers: FloatArray,
    M: Any,
    embed: Callable[[list[float]], list[FloatArray]],
    size: float,
) -> FloatArray:
    """Central log L between sampled points at each power, (n_powers,); arguments as for `measure_scales`.

    `size` is about that of the largest nontrivial eigenvalue.

    One pass over the kernel gives both the embeddings and the distances: the inner products of rows of ``S^t`` are
    entries of ``S^(2t)``.
    """
    require_definite(kernel, powers.tolist())
    points = sample(kernel.shape[0], max(_FEWEST, _PASS - (0 if M is None else M.shape[1])))
    V, m = kernel.asblock(kernel.units(points)), len(points)
    if M is not None:
        V = array_namespace(V).concat([V, kernel.asblock(M)], axis=1)
    times, places = np.unique(np.concatenate([powers, 2.0 * powers]), return_inverse=True)
    blocks = rows_of_powers(kernel, V, points, times.tolist(), rtol=_ERROR, size=size)
    products = blocks[places[len(powers) :], :, :m]
    w = np.ones(m) if kernel.row_weight is None else to_numpy(kernel.row_weight)[points]
    embeddings = w[:, None] * blocks[places[: len(powers)], :, m:]
    if kernel.trivial is not None and not kernel.trivial_is_constant:
        u = to_numpy(kernel.trivial).astype(np.float64)
        products = products + np.outer(u[points], u[points])
        if M is not None:
            embeddings = embeddings + (w * u[points])[:, None] * (u @ to_numpy(M))
    if M is None:
        embeddings = np.array([to_numpy(Y[points]) for Y in embed(powers.tolist())], dtype=np.float64)
    products = w[:, None] * products * w
    norms = np.einsum("tii->ti", products)
    squared = norms[:, :, None] + norms[:, None, :] - 2.0 * products
    # Points too near for rounding coincide.
    squared[squared <= _RESOLVED * (norms[:, :, None] + norms[:, None, :])] = 0.0
    pairs = np.triu_indices(m, 1)
    measured = (
        measure_distortion(Y, np.sqrt(D2[pairs]), quantiles=(TAIL,)) for Y, D2 in zip(embeddings, squared, strict=True)
    )
    return np.log([found.central[TAIL] for found in measured])


def default_powers(density: SpectralDensity, power: Power, dtype: Any) -> FloatArray:
    """The times of a multiscale filter; otherwise the power, and 1, 2, 4, ... while anything is left of the kernel."""
    if isinstance(power, MultiscaleFilter):
        return np.array(power.times, dtype=np.float64)
    largest = float(np.abs(density.nodes).max())
    powers = 2.0 ** np.arange(np.log2(_LONGEST) + 1.0)
    return np.unique(np.append(powers[_is_left(largest, powers, _LEAST_LEFT[np.dtype(dtype)])], power))


def _is_left(largest: float, powers: Any, least: float) -> Any:
    """Whether powers of the largest nontrivial eigenvalue are above the least number that counts."""
    return powers * np.log(largest) > np.log(least) if largest > 0 else powers <= 1


def sample_distortions(
    kernel: HeatKernel, powers: Sequence[Power], n_points: int
) -> Callable[[Iterable[FloatArray]], FloatArray]:
    """A function from embeddings, one for each power, to their central log L between sampled points, (n_powers,)."""
    points, exact = distances_in_sample(kernel, powers, n_points)

    def central_logs(embeddings: Iterable[FloatArray]) -> FloatArray:
        rows = (to_numpy(Y[points]) for Y in embeddings)
        measured = (measure_distortion(Y, d, quantiles=(TAIL,)) for Y, d in zip(rows, exact, strict=True))
        return np.log([found.central[TAIL] for found in measured])

    return central_logs
