"""Plots of a fitted embedding: points, distortion, confidence intervals and the spectrum of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._utils.array import to_numpy
from ._utils.colors import read_colors
from ._utils.drawing import MAX_POINTS, PALETTE, Palette, draw_points, new_axes, point_size
from ._utils.tables import table
from ._utils.typing import FloatArray
from .analysis.density import SpectralDensity, spectral_density
from .analysis.distances import distances_in_sample
from .analysis.distortion import TAIL
from .estimators._base import HeatEmbedding, require_positive_weights
from .kernel.options import check_count
from .linalg.filters import MultiscaleFilter, Power, filtered
from .optimize.pairs import COINCIDENT

__all__ = ["check_embedding", "plot_distortion", "plot_embedding", "plot_intervals", "plot_spectrum"]

# The largest number of pairs that are drawn individually.
_MAX_PAIRS = 3000


def plot_embedding(
    model_or_Y: Any,
    color: ArrayLike | Mapping[Any, Any] | None = None,
    *,
    dims: Sequence[int] | None = None,
    categorical: bool | None = None,
    label: str | None = None,
    cmap: Any = "viridis",
    palette: Palette = None,
    legend: bool = True,
    max_points: int = MAX_POINTS,
    ax: Any = None,
) -> Any:
    """Draw an embedding in the plane or in space.

    Beyond `max_points` the plane is drawn as the cells of a grid, coloured by the logarithm of the number of points,
    the mean of their values, or the most common group (paler where there are fewer points). In space a random sample of
    `max_points` points is drawn.

    Parameters
    ----------
    model_or_Y : fitted estimator with `embedding_`, or array-like of shape (N, k)
    color : array-like of shape (N,), or mapping, optional
        Numbers, drawn along `cmap`, or labels of groups, drawn in the colours of Okabe and Ito. Missing values (None,
        NaN) are grey. The index of a series is ignored; a mapping goes from sample names, such as the nodes of a graph,
        to values. Beyond seven groups darker and lighter shades are used; beyond 21 the smallest groups are joined.
    dims : sequence of one to three int, optional
        Columns to draw. By default three if there are three, otherwise the first two; a single column is drawn against
        the row number.
    categorical : bool, optional
        Whether values are labels. By default numbers are not, except integers with at most 20 different values.
    label : str, optional
        Title of the legend or colour bar; by default the name of a pandas or polars series.
    cmap : str or matplotlib Colormap
        For numbers.
    palette : sequence of colours, or mapping from group names, optional
    legend : bool
        Whether to draw the legend or colour bar.
    max_points : int
        Largest number of points that are drawn individually.
    ax : matplotlib Axes, optional
        By default a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(200, random_state=0)
    >>> ax = hs.plot_embedding(hs.DiffusionMaps(2).fit(X), color=X[:, 0], label="first feature")
    >>> ax.get_xlabel()
    'component 0'
    """
    Y = _coordinates(model_or_Y)
    if dims is None:
        dims = range(Y.shape[1] if Y.shape[1] <= 3 else 2)
    chosen = [dims] if isinstance(dims, Integral) else list(dims)
    if not 1 <= len(chosen) <= 3:
        raise ValueError(f"dims={dims!r} was given; give one to three columns of the {Y.shape[1]}.")
    check_count(max_points, "max_points")
    if ax is not None and hasattr(ax, "get_zlim") != (len(chosen) == 3):
        raise ValueError(
            f"ax and dims={chosen} do not match: three columns need axes with projection='3d', fewer need plain axes."
        )
    names = model_or_Y.sample_names_ if isinstance(model_or_Y, HeatEmbedding) else None
    P = Y[:, chosen] if len(chosen) > 1 else np.column_stack([Y[:, chosen[0]], np.arange(len(Y))])
    ax = draw_points(
        ax,
        P,
        read_colors(color, len(Y), names=names, categorical=categorical, label=label),
        cmap=cmap,
        palette=palette,
        legend=legend,
        max_points=max_points,
        equal=len(chosen) > 1,
    )
    titles = [f"component {d}" for d in chosen] + ["row"]
    ax.set(**dict(zip(("xlabel", "ylabel", "zlabel")[: P.shape[1]], titles, strict=False)))
    return ax


def plot_distortion(model: Any, *, n_points: int = 256, ax: Any = None) -> Any:
    """Draw the ratio of embedded to diffusion distance against the diffusion distance.

    Diffusion distances are exact, between all pairs of a sample of points. An embedding without distortion gives a
    horizontal line. Dashed lines enclose 98% of the pairs: their quotient estimates ``distortion().central[0.01]``.

    Parameters
    ----------
    model : fitted embedding
    n_points : int
        Size of the sample; reduced beyond 130,000 points, to limit memory.
    ax : matplotlib Axes, optional
        By default a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(200, random_state=0)
    >>> model = hs.GaussianProcessEmbedding(n_components=32, power=8, random_state=0).fit(X)
    >>> ax = hs.plot_distortion(model)
    >>> ax.get_legend().get_texts()[0].get_text()
    '98% of pairs within a factor of 1.54'
    """
    check_embedding(model)
    check_count(n_points, "n_points", "an integer of at least 2", least=2)
    require_positive_weights(model, "plot_distortion()")
    points, [d] = distances_in_sample(model.kernel_, [model.power_], n_points)
    i, j = np.triu_indices(len(points), 1)
    embedded = model.diffusion_distances(np.column_stack([points[i], points[j]]))
    apart = (d > COINCIDENT * d.max()) & (embedded > 0)
    d, ratio = d[apart], embedded[apart] / d[apart]
    ax = new_axes() if ax is None else ax
    if len(d) <= _MAX_PAIRS:
        ax.scatter(d, ratio, s=point_size(len(d)), color=PALETTE[0], linewidths=0)
        ax.set(xscale="log", yscale="log")
    else:
        scale = {"xscale": "log", "yscale": "log", "bins": "log"}
        drawn = ax.hexbin(d, ratio, gridsize=60, mincnt=1, cmap="viridis", linewidths=0.2, **scale)
        ax.figure.colorbar(drawn, ax=ax, label="pairs")
    low, high = np.quantile(ratio, [TAIL, 1.0 - TAIL])
    for end, name in ((low, f"98% of pairs within a factor of {high / low:.3g}"), (high, None)):
        ax.axhline(end, color=PALETTE[1], lw=1, ls="--", label=name)
    ax.set(xlabel="diffusion distance", ylabel="embedded / diffusion distance")
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    return ax


def plot_intervals(
    model: Any,
    pairs: ArrayLike | None = None,
    *,
    interval: float = 0.95,
    n_pairs: int = 200,
    ax: Any = None,
) -> Any:
    """Draw distances of the embedding, sorted, with the confidence intervals of the diffusion distances.

    Distances outside their interval are marked. They are wrong if the intervals come from an independent reference
    sketch, as for `HeatSketch` and `DiffusionMaps` (see `diffusion_distances` of an embedding).

    Parameters
    ----------
    model : fitted embedding
    pairs : array-like of int, shape (m, 2), optional
        By default random ones, always the same.
    interval : float in (0, 1)
        Level of the intervals.
    n_pairs : int
        Number of random pairs.
    ax : matplotlib Axes, optional
        By default a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(200, random_state=0)
    >>> model = hs.GaussianProcessEmbedding(n_components=32, power=8, random_state=0).fit(X)
    >>> ax = hs.plot_intervals(model, interval=0.9, n_pairs=100)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['interval at 90%', 'embedding']
    """
    check_embedding(model)
    if pairs is None:
        n, rng = len(model.embedding_), np.random.default_rng(0)
        i = rng.integers(n, size=check_count(n_pairs, "n_pairs"))
        pairs = np.column_stack([i, (i + rng.integers(1, n, size=n_pairs)) % n])
    distance, low, high = model.diffusion_distances(pairs, interval=interval)
    order = np.argsort(distance, kind="stable")
    distance, low, high = distance[order], low[order], high[order]
    outside = (distance < low) | (distance > high)
    at = np.arange(len(order))
    ax = new_axes() if ax is None else ax
    width = float(np.clip(400.0 / len(order), 1.0, 5.0))
    ax.vlines(at, low, high, color=PALETTE[4], lw=width, zorder=1, label=f"interval at {100.0 * interval:.3g}%")
    sizes = {"s": float(np.clip(2000.0 / len(order), 4.0, 20.0)), "linewidths": 0}
    # A marker shows intervals that are too narrow to be seen.
    ax.scatter(at, 0.5 * (low + high), color=PALETTE[4], zorder=2, **sizes)
    wrong = f"embedding, outside ({outside.sum()} of {len(order)})"
    for those, color, name in ((~outside, PALETTE[0], "embedding"), (outside, PALETTE[1], wrong)):
        if those.any():
            ax.scatter(at[those], distance[those], color=color, label=name, zorder=3, **sizes)
    ax.set(xlabel="pairs, sorted by their distance in the embedding", ylabel="distance")
    ax.set_ylim(bottom=0.0)
    ax.legend()
    return ax


def plot_spectrum(model_or_kernel: Any, *, power: Power | None = None, ax: Any = None) -> Any:
    """Draw the eigenvalues of the heat kernel in decreasing order, and their values after the filter of an embedding.

    The curve is estimated from the spectral density, without an eigensolver, and is rough for the first few
    eigenvalues. Eigenvalues computed by diffusion maps are drawn as points.

    Parameters
    ----------
    model_or_kernel : fitted embedding, HeatKernel, SpectralDensity, or symmetric matrix of shape (N, N)
    power : float or MultiscaleFilter, optional
        Diffusion time or filter; by default that of the embedding, or none.
    ax : matplotlib Axes, optional
        By default a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(200, random_state=0)
    >>> ax = hs.plot_spectrum(hs.DiffusionMaps(n_components=3, power=8).fit(X))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['eigenvalues, estimated', 'eigenvalues of the diffusion maps', 'to the power of 8']
    """
    exact: FloatArray = np.empty(0)
    density = model_or_kernel
    if isinstance(model_or_kernel, BaseEstimator):
        check_embedding(model_or_kernel)
        power = model_or_kernel.power_ if power is None else power
        density, exact = model_or_kernel.kernel_, getattr(model_or_kernel, "eigenvalues_", exact)
    if not isinstance(density, SpectralDensity):
        density = spectral_density(density)
    order = np.argsort(-np.abs(density.nodes), axis=None, kind="stable")
    sizes = np.abs(density.nodes).ravel()[order]
    weights = density.weights.ravel()[order]
    number = np.cumsum(weights) - 0.5 * weights + 0.5  # centres the first eigenvalue at 1
    ax = new_axes() if ax is None else ax
    ax.plot(number, sizes, color=PALETTE[0], label="eigenvalues, estimated")
    if len(exact):
        at = np.arange(1, len(exact) + 1)
        ax.scatter(at, np.abs(exact), s=14, color=PALETTE[0], label="eigenvalues of the diffusion maps", zorder=3)
    if power is not None:
        kept = np.abs(filtered(power, sizes, 0.0))
        if isinstance(power, MultiscaleFilter):  # its unit is arbitrary
            kept, label = kept / kept.max(), "all times at once, relative to the largest"
        else:
            label = f"to the power of {power:g}"
        ax.plot(number, kept, color=PALETTE[1], ls="--", label=label)
    ax.set(xscale="log", xlabel="number of the eigenvalue", ylabel="size", ylim=(0.0, 1.02 * max(1.0, sizes[0])))
    ax.legend()
    return ax


def _coordinates(model_or_Y: Any) -> FloatArray:
    """The embedding to draw, (N, k)."""
    if isinstance(model_or_Y, BaseEstimator):
        check_is_fitted(model_or_Y)
    Y = np.asarray(to_numpy(table(getattr(model_or_Y, "embedding_", model_or_Y))))
    if Y.ndim != 2 or not Y.size or Y.dtype.kind not in "iuf" or not np.isfinite(Y).all():
        raise ValueError(
            f"{type(model_or_Y).__name__} of shape {Y.shape} and dtype {Y.dtype} was given; give a fitted embedding, "
            "such as the last step of a pipeline, pipeline[-1], or finite numbers of shape (N, k)."
        )
    return Y


def check_embedding(model: Any) -> None:
    """Raise TypeError or NotFittedError unless `model` is a fitted embedding."""
    if not isinstance(model, HeatEmbedding):
        raise TypeError(
            f"{type(model).__name__} was given; give a fitted GaussianProcessEmbedding, DiffusionMaps or HeatSketch, "
            "such as the last step of a pipeline, pipeline[-1]."
        )
    check_is_fitted(model)
