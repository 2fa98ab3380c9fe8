"""Pictures of section 5, drawn from the tables alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from heatsketch._utils.files import write_whole

from .figures import Figure
from .methods import BEYOND, METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DEFAULT_FORMATS",
    "FORMATS",
    "PALETTE",
    "STYLE",
    "Drawing",
    "Tables",
    "canvas",
    "draw_chart",
    "draw_plane",
    "save",
]

FORMATS = ("svg", "png", "pdf")
DEFAULT_FORMATS = ("svg", "png")
Tables = Mapping[str, pd.DataFrame]
Drawing = Callable[[Figure, Tables], Canvas]

# Okabe and Ito's colours, which the colour-blind can tell apart; markers and dashes tell the methods apart in grey.
_COLOURS = {
    "DMS": "#D55E00",
    "DMB": "#E69F00",
    "GPS": "#0072B2",
    "GPB": "#56B4E9",
    "GPSBS": "#009E73",
    "GPSBB": "#CC79A7",
    "GPXS": "#000000",
    "GPXB": "#7F7F7F",
    "HSS": "#8B1E8B",
    "HSB": "#B86FB8",
}
_MARKERS = dict(zip(_COLOURS, "oosshhDD^^", strict=True))
PALETTE = tuple(_COLOURS.values())[:8]  # four pairs, for pictures of other things than methods

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "heatsketch",  # so that the same table gives the same file
    "pdf.fonttype": 42,
}


def canvas(columns: int = 1, *, width: float = 4.2, height: float = 3.2) -> tuple[Canvas, list[Axes]]:
    """An empty picture with one row of axes."""
    figure = Canvas(figsize=(width * columns, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def save(drawn: Canvas, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a picture in several formats, whole or not at all; `path` has no suffix."""
    written = []
    for suffix in formats:
        target = path.with_name(f"{path.name}.{suffix}")
        # No dates inside: the same table gives the same file.
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix, {})
        content = BytesIO()
        with mpl.rc_context(STYLE):
            drawn.savefig(content, format=suffix, metadata=undated)
        write_whole(target, content.getvalue())
        written.append(target)
    return written


def draw_chart(axis: str) -> Drawing:
    """Mean of log L against k (or p), with the standard deviation as error bar, as in the paper."""

    def draw(figure: Figure, tables: Tables) -> Canvas:
        table = tables[figure.experiments[0]]
        drawn, (axes,) = canvas()
        there = set(table["method"])
        methods = [m for m in (*figure.methods, *BEYOND) if m in there]
        values = sorted(table[axis].unique())
        for rank, name in enumerate(methods):
            groups = table[table["method"] == name].groupby(axis)["log_L"]
            mean, spread = groups.mean(), groups.std(ddof=0)
            # Side by side by a little, so that error bars can be told apart.
            aside = 0.06 * (rank - (len(methods) - 1) / 2)
            at = mean.index + aside if axis == "k" else mean.index * 2.0**aside
            axes.errorbar(
                at,
                mean,
                yerr=spread,
                color=_COLOURS[name],
                marker=_MARKERS[name],
                linestyle="-" if METHODS[name].normalization == "symmetric" else "--",
                markerfacecolor=_COLOURS[name] if METHODS[name].normalization == "symmetric" else "white",
                elinewidth=0.8,
                capsize=2,
                label=name,
            )
        if axis == "k":
            axes.set_xticks(values)
        else:
            axes.set_xscale("log", base=2)
        axes.set_xlabel("dimension k" if axis == "k" else "power p")
        axes.set_ylabel("log L")
        axes.set_ylim(bottom=0)
        axes.legend(ncols=2)
        return drawn

    return draw


def draw_plane(*, outliers: bool) -> Drawing:
    """Embeddings in the plane, coloured by the angle of the point; outliers are triangles."""

    def draw(figure: Figure, tables: Tables) -> Canvas:
        table = tables[figure.experiments[0]]
        drawn, row = canvas(len(figure.trials), width=3.4, height=3.2)
        for axes, trial in zip(row, figure.trials, strict=True):
            points = table[(table["method"] == figure.methods[0]) & (table["trial"] == trial)]
            circle, others = points[~points["outlier"]], points[points["outlier"]]
            shown = axes.scatter(
                circle["x"],
                circle["y"],
                c=circle["angle"],
                cmap="twilight",
                vmin=0,
                vmax=2 * np.pi,
                s=9,
                linewidths=0.3,
                edgecolors="#555555",
            )
            if outliers:
                axes.scatter(
                    others["x"], others["y"], marker="^", c="#D55E00", edgecolors="black", linewidths=0.5, s=45
                )
            axes.set_aspect("equal", adjustable="datalim")
            axes.locator_params(nbins=4)
            axes.ticklabel_format(style="sci", scilimits=(-2, 3))
            axes.set_xlabel("y₁")
            axes.set_ylabel("y₂")
        bar = drawn.colorbar(shown, ax=row, shrink=0.8, ticks=[0, np.pi, 2 * np.pi])
        bar.ax.set_yticklabels(["0", "π", "2π"])
        bar.set_label("angle")
        return drawn

    return draw
