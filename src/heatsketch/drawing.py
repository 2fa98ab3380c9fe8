"""Where matplotlib is met: new axes, and colours of points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ._typing import FloatArray
from .outputs import whole

__all__ = ["check_picture", "new_axes", "save_picture", "scatter"]


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


def check_picture(path: Path) -> None:
    """Refuse a picture in a format that cannot be drawn, before any work."""
    known = _pyplot().figure().canvas.get_supported_filetypes()
    _pyplot().close()
    if path.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"the ending of {path} is none of a picture; use one of {', '.join(sorted(known))}.")


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure that some Axes belong to, whole or not at all, and close it."""
    figure = np.ravel(axes)[0].figure
    with whole(path) as target:
        figure.savefig(target, dpi=150)
    _pyplot().close(figure)
