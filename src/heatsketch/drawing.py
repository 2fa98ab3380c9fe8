"""Where matplotlib is met: new axes, and colours of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._typing import FloatArray

__all__ = ["new_axes", "row_of_axes", "scatter"]


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "matplotlib is needed to draw; install it with: pip install 'heatsketch[plot]'", name=missing.name
        ) from missing
    return pyplot


def new_axes(n: int = 1) -> Any:
    """One Axes of a new figure, or several above each other with a common horizontal axis."""
    _, axes = _pyplot().subplots(n, 1, sharex=True, figsize=(6.0, 3.0 * n + 0.8), layout="constrained")
    return axes


def scatter(ax: Any, Y: FloatArray, values: FloatArray, label: str) -> Any:
    """Points at the first two columns of Y (or along one), coloured by values, with a colour bar."""
    ax = new_axes() if ax is None else ax
    second = Y[:, 1] if Y.shape[1] > 1 else np.zeros(len(Y))
    size = float(np.clip(4000.0 / len(Y), 0.5, 20.0))
    order = np.argsort(-values, kind="stable")  # what is bad is drawn last, on top
    points = ax.scatter(Y[order, 0], second[order], c=values[order], s=size, cmap="viridis", linewidths=0)
    ax.figure.colorbar(points, ax=ax, label=label)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def row_of_axes(n: int) -> Any:
    """Several Axes of a new figure, side by side."""
    return _pyplot().subplots(1, n, figsize=(4.0 * n, 4.2), layout="constrained", squeeze=False)[1][0]
