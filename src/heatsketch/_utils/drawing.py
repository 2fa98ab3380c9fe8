"""Drawing with matplotlib, which is imported nowhere else: axes, points, legends and picture files.

The `.plot()` methods of results and `heatsketch.plotting` use it. Many points are drawn as the cells of a grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .colors import Colors, summarize_cells
from .extras import optional
from .files import replacing
from .text import visible
from .typing import FloatArray, IntArray

__all__ = [
    "MAX_POINTS",
    "PALETTE",
    "Palette",
    "check_picture",
    "draw_points",
    "draw_shares",
    "new_axes",
    "point_size",
    "row_of_axes",
    "save_picture",
]

# The largest number of points that are drawn individually, and cells along the longer side of the grid beyond it.
MAX_POINTS, _CELLS = 50_000, 400
# The colours of Okabe and Ito, safe for colour-blind readers, without black; further groups are darker, then lighter.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442")
_SHADES = ((0.0, 0.0), (0.4, 0.0), (0.55, 1.0))  # how much black (0) or white (1) is mixed in
_MISSING, _OTHER = "0.82", "0.5"
# Rows of a legend, and characters of a name in it.
_LEGEND_ROWS, _MAX_NAME = 14, 28

Palette: TypeAlias = Sequence[Any] | Mapping[Any, Any] | None


def _pyplot() -> Any:
    return optional("matplotlib.pyplot", "draw", "plot")


def new_axes(n: int = 1) -> Any:
    """The Axes of a new figure, or several above each other with a common horizontal axis."""
    return _pyplot().subplots(n, 1, sharex=True, figsize=(6.0, 3.0 * n + 0.8), layout="constrained")[1]


def row_of_axes(n: int) -> Any:
    """Several Axes of a new figure, side by side."""
    return _pyplot().subplots(1, n, figsize=(4.0 * n, 4.2), layout="constrained", squeeze=False)[1][0]


def check_picture(path: Path) -> None:
    """Raise ValueError if matplotlib does not know the picture format, before any work."""
    known = optional("matplotlib.backend_bases", "draw", "plot").FigureCanvasBase.filetypes
    if path.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"{path} does not end like a picture file; use one of {', '.join(sorted(known))}.")


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure of some Axes and close it; no partial file is left behind."""
    figure = np.ravel(axes)[0].figure
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
    _pyplot().close(figure)


def point_size(n: int) -> float:
    """Area of each of n points."""
    return float(np.clip(8000.0 / max(n, 1), 1.0, 20.0))


def draw_shares(ax: Any, Y: FloatArray, shares: FloatArray, label: str) -> Any:
    """Draw the first two columns of Y (or the only one), coloured by shares between 0 and 1, the lowest on top."""
    second = Y[:, 1] if Y.shape[1] > 1 else np.zeros(len(Y))
    order = np.argsort(-shares, kind="stable")
    points = np.column_stack([Y[:, 0], second])[order]
    colors = Colors(shares[order], label=label)
    return draw_points(ax, points, colors, cmap=_shares_map(), limits=(0.0, 1.0), shuffle=False)


def _shares_map() -> Any:
    """Colours of shares: grey for all, and the fewer the more striking."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("shares", ["#7a0403", "#d93806", "#f7a13c", "#cfcfcf"])


def draw_points(
    ax: Any,
    P: FloatArray,
    colors: Colors | None,
    *,
    cmap: Any = "viridis",
    limits: tuple[float | None, float | None] = (None, None),
    palette: Palette = None,
    legend: bool = True,
    max_points: int = MAX_POINTS,
    shuffle: bool = True,
    equal: bool = True,
) -> Any:
    """Draw points (N, 2) in the plane or (N, 3) in space; returns the Axes, new ones if `ax` is None.

    `limits` are the numbers at the ends of the colour scale. Beyond `max_points` the plane is drawn as cells, and space
    as a random sample. Points are drawn in random order if `shuffle`; axes have the same unit if `equal`.
    """
    P = P.astype(np.float64)
    deep = P.shape[1] == 3
    ax = _axes_for(colors if legend else None, deep=deep) if ax is None else ax
    paint = None if colors is None or colors.groups is None else _group_colors(colors, palette)
    scale = {"cmap": cmap, "vmin": limits[0], "vmax": limits[1]}
    if len(P) > max_points and not deep:
        mapped = _draw_cells(ax, P, colors, paint, scale, equal=equal)
    else:
        rows = np.arange(len(P))
        if shuffle:  # so that no group is on top
            rows = np.random.default_rng(0).permutation(rows)[:max_points]
        mapped = _draw_each(ax, P, colors, paint, rows=rows, scale=scale)
    if legend and colors is not None:
        _draw_legend(ax, colors, paint)
    if legend and mapped is not None:
        room = {"pad": 0.12, "shrink": 0.7} if deep else {}
        bar = ax.figure.colorbar(mapped, ax=ax, **room)
        bar.ax.yaxis.label.set_parse_math(False)
        bar.set_label(visible(colors.label if colors is not None else "points in a cell"))
    if equal and deep:
        ax.set_aspect("equal")
        ax.locator_params(nbins=5)  # more tick labels would overlap
    elif equal:
        shared = all(len(group.get_siblings(ax)) > 1 for group in (ax.get_shared_x_axes(), ax.get_shared_y_axes()))
        ax.set_aspect("equal", adjustable="box" if shared else "datalim")  # shared limits cannot be adjusted
    return ax


def _axes_for(colors: Colors | None, *, deep: bool) -> Any:
    """The Axes of a new figure, with room for a legend of groups beside them."""
    groups = None if colors is None else colors.groups
    width = 6.4
    if groups is not None:
        longest = max(len(_short(name)) for name in (*groups, "missing"))
        width += -(-(len(groups) + 1) // _LEGEND_ROWS) * (0.4 + 0.085 * longest)
    if not deep:
        return _pyplot().figure(figsize=(width, 5.2), layout="constrained").add_subplot()
    # Layouts of matplotlib do not know the extent of labels in space.
    figure = _pyplot().figure(figsize=(width, 5.2))
    return figure.add_axes((0.0, 0.06, (6.0 if groups is None else 5.2) / width, 0.9), projection="3d")


def _draw_each(
    ax: Any, P: FloatArray, colors: Colors | None, paint: FloatArray | None, *, rows: IntArray, scale: dict[str, Any]
) -> Any:
    """Draw points individually; returns what a colour bar belongs to, if any."""
    # Vector graphics of many points become very large.
    common = {"s": point_size(len(rows)), "linewidths": 0, "rasterized": len(rows) > 5000}
    if colors is None:
        ax.scatter(*P[rows].T, color=PALETTE[0], **common)
        return None
    known = colors.known[rows]
    if not known.all():
        ax.scatter(*P[rows[~known]].T, color=_MISSING, **common)
    rows = rows[known]
    if paint is not None:
        ax.scatter(*P[rows].T, c=paint[colors.values[rows]], **common)
        return None
    return ax.scatter(*P[rows].T, c=colors.values[rows], **scale, **common) if len(rows) else None


def _draw_cells(
    ax: Any, P: FloatArray, colors: Colors | None, paint: FloatArray | None, scale: dict[str, Any], *, equal: bool
) -> Any:
    """Draw a grid of cells as an image; returns what a colour bar belongs to, if any."""
    from matplotlib.colors import LogNorm, to_rgba  # noqa: PLC0415

    low, high = P.min(axis=0), P.max(axis=0)
    extent = high - low
    low, high = np.where(extent > 0, low, low - 0.5), np.where(extent > 0, high, high + 0.5)
    bins = np.full(2, _CELLS)
    if equal and extent.max() > 0:
        bins = np.maximum(1, np.ceil(_CELLS * extent / extent.max() - 1e-9)).astype(int)
    x, y = np.minimum((P - low) / (high - low) * bins, bins - 1).astype(np.int64).T
    cells, shape = y * bins[0] + x, (bins[1], bins[0])
    counts = np.bincount(cells, minlength=bins.prod()).reshape(shape)

    def show(image: Any, **options: Any) -> Any:
        box = (low[0], high[0], low[1], high[1])
        return ax.imshow(image, origin="lower", extent=box, interpolation="nearest", aspect="auto", **options)

    if colors is None:
        image = np.ma.masked_equal(counts, 0)
        return show(image, cmap=scale["cmap"], norm=LogNorm(1, max(2.0, counts.max())))
    found = summarize_cells(colors, cells, counts.size).reshape(shape)
    unknown = np.isnan(found)
    if (only_missing := unknown & (counts > 0)).any():
        show(np.where(only_missing[..., None], to_rgba(_MISSING), 0.0))
    if unknown.all():
        return None
    if paint is None:
        return show(np.ma.masked_array(found, unknown), **scale)
    rgba = paint[np.where(unknown, 0, found).astype(np.int64)]
    rgba[..., 3] = np.where(unknown, 0.0, 0.4 + 0.6 * np.log1p(counts) / np.log1p(counts.max()))  # paler if fewer
    show(rgba)
    return None


def _group_colors(colors: Colors, palette: Palette) -> FloatArray:
    """Colour of each group, (n_groups, 4)."""
    from matplotlib.colors import to_rgba_array  # noqa: PLC0415

    groups = colors.groups or ()
    names = groups[:-1] if colors.n_joined else groups
    if isinstance(palette, Mapping):
        given = {str(name): color for name, color in palette.items()}
        if absent := [name for name in names if name not in given]:
            raise ValueError(f"palette has no colour for the groups {absent[:5]}; it has colours for {[*given]}.")
        paint = to_rgba_array([given[name] for name in names])
    elif palette is not None:
        if len(palette) < len(names):
            raise ValueError(f"palette has {len(palette)} colours for {len(names)} groups; give one for each.")
        paint = to_rgba_array(list(palette[: len(names)]))
    else:
        number = np.arange(len(names))
        paint = to_rgba_array(PALETTE)[number % len(PALETTE)]
        amount, target = np.array(_SHADES)[number // len(PALETTE)].T[..., None]
        paint[:, :3] += amount * (target - paint[:, :3])
    found: FloatArray = np.vstack([paint, to_rgba_array([_OTHER])]) if colors.n_joined else paint
    return found


def _draw_legend(ax: Any, colors: Colors, paint: FloatArray | None) -> None:
    """Name the groups beside the axes, and the colour of missing values."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    entries: list[tuple[str, Any]] = [] if paint is None else [*zip(colors.groups or (), paint, strict=True)]
    if not colors.known.all():
        entries.append(("missing", _MISSING))
    if not entries:
        return
    handles = [Line2D([], [], ls="", marker="o", color=color, mew=0, ms=6) for _, color in entries]
    place: dict[str, Any] = {}
    if paint is not None:
        place = {"loc": "center left", "bbox_to_anchor": (1.2 if hasattr(ax, "get_zlim") else 1.01, 0.5)}
        place |= {"title": visible(colors.label) or None, "ncols": -(-len(handles) // _LEGEND_ROWS), "frameon": False}
    # Names are set afterwards and literally: they may begin with an underscore or look like a formula.
    legend = ax.legend(handles, [""] * len(handles), **place)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(_short(name))
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_parse_math(False)


def _short(name: str) -> str:
    """A name without its middle if it is too long, since names often differ at their ends."""
    name, half = visible(name), _MAX_NAME // 2
    return name if len(name) <= _MAX_NAME else f"{name[: half - 1]}…{name[-half:]}"
