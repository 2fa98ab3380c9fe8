"""Where matplotlib is met: axes, and points that are drawn one by one or, where they are many, counted in cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from .colors import Groups, Numbers
from .extras import optional
from .files import replacing
from .text import visible
from .typing import FloatArray, IntArray

__all__ = [
    "LARGEST",
    "MISSING",
    "PALETTE",
    "Style",
    "check_picture",
    "draw_points",
    "draw_shares",
    "new_axes",
    "point_size",
    "row_of_axes",
    "save_picture",
]

# Beyond so many points cells are drawn instead of points.
LARGEST = 50_000
# Cells along the longer side of a plane, and of a space, where most are empty.
_CELLS, _VOXELS = 400, 56
# The colours of Okabe and Ito, which colour-blind readers can tell apart; without black, and yellow last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442")
# Further groups have other shapes, and darker and lighter colours.
_MARKERS = ("o", "^", "s")
_SHADES = (0.0, -0.4, 0.55)
MISSING, _OTHER = "0.82", "0.5"
# Rows of a legend, and letters of a name in it.
_LEGEND_ROWS, _LONGEST_NAME = 14, 28


@dataclass(frozen=True)
class Style:
    """How points are drawn.

    Attributes
    ----------
    size : float or None
        Area of a point, in points squared; by default the more points, the smaller.
    cmap : str or matplotlib Colormap
        For numbers.
    limits : tuple of float or None
        Numbers at the ends of the scale of colours; by default the smallest and the largest.
    palette : sequence or mapping of colours, or None
        For groups: in their order, or by their names.
    legend : bool
        Whether to draw the legend or the colour bar.
    largest : int
        Beyond so many points cells are drawn.
    low_on_top : bool
        Whether small numbers are drawn over large ones; by default points come in no particular order.
    equal : bool
        Whether a unit is as long along all axes.
    """

    size: float | None = None
    cmap: Any = "viridis"
    limits: tuple[float | None, float | None] = (None, None)
    palette: Sequence[Any] | Mapping[str, Any] | None = None
    legend: bool = True
    largest: int = LARGEST
    low_on_top: bool = False
    equal: bool = True


def _pyplot() -> Any:
    return optional("matplotlib.pyplot", "draw", "plot")


def new_axes(n: int = 1) -> Any:
    """One Axes of a new figure, or several above each other with a common horizontal axis."""
    _, axes = _pyplot().subplots(n, 1, sharex=True, figsize=(6.0, 3.0 * n + 0.8), layout="constrained")
    return axes


def draw_shares(ax: Any, Y: FloatArray, shares: FloatArray, label: str) -> Any:
    """Points at the first two columns of Y (or along one), coloured by shares between 0 and 1, the lowest on top."""
    second = Y[:, 1] if Y.shape[1] > 1 else np.zeros(len(Y))
    style = Style(limits=(0.0, 1.0), low_on_top=True)
    return draw_points(ax, np.column_stack([Y[:, 0], second]), Numbers(shares, label), style)


def point_size(n: int) -> float:
    """Area of a point that suits so many."""
    return float(np.clip(8000.0 / max(n, 1), 1.0, 20.0))


def draw_points(ax: Any, P: FloatArray, colors: Numbers | Groups | None, style: Style) -> Any:
    """Draw points of the plane or of space.

    Parameters
    ----------
    ax : matplotlib Axes or None
        None for a new figure; in space if the points are.
    P : ndarray of shape (N, 2) or (N, 3)
    colors : Numbers, Groups or None
    style : Style

    Returns
    -------
    ax : matplotlib Axes
    """
    P = P.astype(np.float64)
    deep = P.shape[1] == 3
    ax = _roomy_axes(colors if style.legend else None, deep) if ax is None else ax
    draw = _draw_cells if len(P) > style.largest else _draw_each
    shown = draw(ax, P, colors, style)
    if style.legend and colors is not None:
        _legend(ax, colors, style)
    if style.legend and shown is not None:
        label = colors.label if isinstance(colors, Numbers) else "points in a cell"
        bar = ax.figure.colorbar(shown, ax=ax, label=visible(label), **({"pad": 0.12, "shrink": 0.7} if deep else {}))
        _as_written(bar.ax.yaxis.label)
    if style.equal:
        _equalise(ax, deep)
    return ax


def row_of_axes(n: int) -> Any:
    """Several Axes of a new figure, side by side."""
    return _pyplot().subplots(1, n, figsize=(4.0 * n, 4.2), layout="constrained", squeeze=False)[1][0]


def check_picture(path: Path) -> None:
    """Refuse a picture in a format that cannot be drawn, before any work."""
    known = _pyplot().figure().canvas.get_supported_filetypes()
    _pyplot().close()
    if path.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"the ending of {path} is none of a picture; use one of {', '.join(sorted(known))}.")


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure that some Axes belong to, completely or not at all, and close it."""
    figure = np.ravel(axes)[0].figure
    content = BytesIO()  # matplotlib does not close files that it fails to write
    try:
        figure.savefig(content, format=path.suffix.lstrip(".").lower(), dpi=150)
    finally:
        _pyplot().close(figure)
    with replacing(path) as target:
        target.write_bytes(content.getvalue())


def _roomy_axes(colors: Numbers | Groups | None, deep: bool) -> Any:
    """Axes of a new figure in the plane or in space, with room for a legend beside them."""
    width = 6.4
    if isinstance(colors, Groups):
        longest = max(len(_shortened(visible(name))) for name in (*colors.names, "missing"))
        width += _legend_columns(len(colors.names) + 1) * (0.4 + 0.085 * longest)
    if not deep:
        return _pyplot().figure(figsize=(width, 5.2), layout="constrained").add_subplot()
    # Layouts of matplotlib do not know how far labels in space reach.
    figure = _pyplot().figure(figsize=(width, 5.2))
    return figure.add_axes((0.0, 0.06, (5.2 if isinstance(colors, Groups) else 6.0) / width, 0.9), projection="3d")


def _equalise(ax: Any, deep: bool) -> None:
    if deep:
        ax.set_aspect("equal")
        ax.locator_params(nbins=5)  # more would write over each other
        return
    shared = all(len(group.get_siblings(ax)) > 1 for group in (ax.get_shared_x_axes(), ax.get_shared_y_axes()))
    # Limits that other axes share cannot give way.
    ax.set_aspect("equal", adjustable="box" if shared else "datalim")


def _draw_each(ax: Any, P: FloatArray, colors: Numbers | Groups | None, style: Style) -> Any:
    """Points one by one; what a colour bar belongs to, if any."""
    common = {"s": point_size(len(P)) if style.size is None else style.size, "linewidths": 0}
    if len(P) > LARGEST // 10:
        common["rasterized"] = True  # or files of vector graphics become very large
    if colors is None:
        ax.scatter(*P.T, color=PALETTE[0], **common)
        return None
    known = colors.known
    if not known.all():
        ax.scatter(*P[~known].T, color=MISSING, **common)
    order = np.random.default_rng(0).permutation(np.flatnonzero(known))  # so that none is always on top
    if isinstance(colors, Numbers):
        if style.low_on_top:
            order = order[np.argsort(-colors.values[order], kind="stable")]
        if not len(order):
            return None
        low, high = style.limits
        return ax.scatter(*P[order].T, c=colors.values[order], cmap=style.cmap, vmin=low, vmax=high, **common)
    paint = _paint(colors, style)
    shapes = _shapes(colors)[colors.codes[order]]
    for number, marker in enumerate(_MARKERS):
        some = order[shapes == number]
        if len(some):
            ax.scatter(*P[some].T, color=paint[colors.codes[some]], marker=marker, **common)
    return None


def _draw_cells(ax: Any, P: FloatArray, colors: Numbers | Groups | None, style: Style) -> Any:
    """Cells coloured by how many points are in them, by their mean number or by the group that most belong to."""
    from matplotlib.colors import LogNorm, to_rgba  # noqa: PLC0415

    cells = _Cells(P, equal=style.equal)
    low, high = style.limits
    if colors is None:
        counts = cells.count(np.arange(len(P)))
        return cells.draw(ax, counts, counts, cmap=style.cmap, norm=LogNorm(1, max(2.0, counts.max())))
    known = np.flatnonzero(colors.known)
    counts = cells.count(known)
    alone = np.where(counts == 0, cells.count(np.flatnonzero(~colors.known)), 0.0)
    if alone.any():
        cells.draw(ax, np.tile(to_rgba(MISSING), (cells.n, 1)), alone)
    if not len(known):
        return None
    if isinstance(colors, Numbers):
        means = cells.count(known, colors.values[known]) / np.maximum(counts, 1)
        return cells.draw(ax, means, counts, cmap=style.cmap, vmin=low, vmax=high)
    m = len(colors.names)
    each = np.bincount(cells.which[known] * m + colors.codes[known], minlength=cells.n * m).reshape(-1, m)
    rgba = _paint(colors, style)[each.argmax(axis=1)]
    rgba[:, 3] = 0.4 + 0.6 * np.log1p(counts) / np.log1p(counts.max())  # where there are few points it is paler
    cells.draw(ax, rgba, counts)
    return None


class _Cells:
    """A grid over points of the plane or of space.

    Parameters
    ----------
    P : ndarray of shape (N, 2) or (N, 3)
    equal : bool
        Whether cells are as long along all axes; else there are as many along each.
    """

    def __init__(self, P: FloatArray, *, equal: bool) -> None:
        low = P.min(axis=0)
        extent = P.max(axis=0) - low
        along = _CELLS if P.shape[1] == 2 else _VOXELS
        sides = (np.full_like(extent, extent.max()) if equal else extent) / along
        self.side = np.where(sides > 0, sides, 1.0)
        self.low = np.where(extent > 0, low, low - self.side / 2.0)  # around points that have no extent
        self.shape = np.maximum(1, np.ceil(extent / self.side - 1e-9)).astype(int)
        at = np.minimum(((P - self.low) / self.side).astype(int), self.shape - 1)
        self.which: IntArray = np.ravel_multi_index(tuple(at.T), self.shape)
        self.n = int(self.shape.prod())

    def count(self, points: IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Number of the points in each cell, or the sum of their weights, shape (n,)."""
        counts: FloatArray = np.bincount(self.which[points], weights, minlength=self.n).astype(np.float64)
        return counts

    def draw(self, ax: Any, colors: FloatArray, counts: FloatArray, **scale: Any) -> Any:
        """Draw the cells that are not empty by numbers (n,) or colours (n, 4): an image, or points in space."""
        shown = counts > 0
        if len(self.shape) == 2:
            if colors.ndim == 2:
                image: Any = np.where(shown[:, None], colors, 0.0).reshape(*self.shape, 4).transpose(1, 0, 2)
            else:
                image = np.ma.masked_array(colors, ~shown).reshape(self.shape).T
            ends = self.low + self.shape * self.side
            extent = (self.low[0], ends[0], self.low[1], ends[1])
            return ax.imshow(image, origin="lower", extent=extent, interpolation="nearest", aspect="auto", **scale)
        centres = self.low + (np.argwhere(shown.reshape(self.shape)) + 0.5) * self.side
        # Small where there are few points, so that these do not hide the many behind them.
        sizes = 0.2 + 8.0 * (np.log1p(counts[shown]) / np.log1p(counts.max())) ** 2
        return ax.scatter(*centres.T, c=colors[shown], s=sizes, linewidths=0, rasterized=True, **scale)


def _shapes(groups: Groups) -> IntArray:
    """Number of the marker of each group."""
    shapes = np.arange(len(groups.names)) // len(PALETTE)
    if groups.n_joined:
        shapes[-1] = 0
    return shapes


def _paint(groups: Groups, style: Style) -> FloatArray:
    """Colour of each group, (n_groups, 4)."""
    from matplotlib.colors import to_rgba, to_rgba_array  # noqa: PLC0415

    names = groups.names[:-1] if groups.n_joined else groups.names
    if isinstance(style.palette, Mapping):
        given = {str(name): color for name, color in style.palette.items()}
        absent = [name for name in names if name not in given]
        if absent:
            raise ValueError(f"palette has no colour for the groups {absent[:5]}; it has them for {[*given]}.")
        chosen = [given[name] for name in names]
    elif style.palette is not None:
        if len(style.palette) < len(names):
            raise ValueError(f"palette has {len(style.palette)} colours; {len(names)} groups are to be drawn.")
        chosen = list(style.palette[: len(names)])
    else:
        chosen = [_shaded(to_rgba(PALETTE[g % len(PALETTE)]), _SHADES[g // len(PALETTE)]) for g in range(len(names))]
    paint: FloatArray = np.asarray(to_rgba_array([*chosen, _OTHER]))
    return paint if groups.n_joined else paint[:-1]


def _shaded(rgba: tuple[float, ...], shade: float) -> tuple[float, ...]:
    """A colour with some white in it, or with some black where `shade` is negative."""
    target = 1.0 if shade > 0 else 0.0
    return (*(c + abs(shade) * (target - c) for c in rgba[:3]), 1.0)


def _legend(ax: Any, colors: Numbers | Groups, style: Style) -> None:
    """Name the groups beside the axes, and what has no colour."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    entries: list[tuple[str, Any, int]] = []
    if isinstance(colors, Groups):
        entries = [*zip(colors.names, _paint(colors, style), _shapes(colors), strict=True)]
    if not colors.known.all():
        entries.append(("missing", MISSING, 0))
    if not entries:
        return
    handles = [
        Line2D([], [], ls="", marker=_MARKERS[shape], color=color, mew=0, ms=6, label=_shortened(visible(name)))
        for name, color, shape in entries
    ]
    if isinstance(colors, Numbers):
        ax.legend(handles=handles)
        return
    place = {"loc": "center left", "bbox_to_anchor": (1.2 if hasattr(ax, "get_zlim") else 1.01, 0.5)}
    title = visible(colors.label) or None
    # Names come only afterwards: before 3.10, Matplotlib leaves out those that begin with an underscore.
    unnamed = ["" for _ in handles]
    legend = ax.legend(handles, unnamed, title=title, ncols=_legend_columns(len(handles)), frameon=False, **place)
    for text, handle in zip(legend.get_texts(), handles, strict=True):
        text.set_text(handle.get_label())
    _as_written(legend.get_title(), *legend.get_texts())


def _as_written(*texts: Any) -> None:
    """Have names between dollars drawn as formulas only where they are some."""
    from matplotlib.cbook import is_math_text  # noqa: PLC0415
    from matplotlib.mathtext import MathTextParser  # noqa: PLC0415

    for text in texts:
        try:
            if is_math_text(text.get_text()):
                MathTextParser("path").parse(text.get_text())
        except Exception:  # whatever a parser makes of a name that is no formula
            text.set_parse_math(False)


def _legend_columns(n: int) -> int:
    return -(-n // _LEGEND_ROWS)


def _shortened(name: str) -> str:
    """A name without its middle where it is too long; names often differ at their ends."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"
