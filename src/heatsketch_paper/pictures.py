"""Pictures of all figures, drawn from the tables only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from pandas import DataFrame
from scipy import stats

from heatsketch._utils.files import write_whole

from .cost import ORDERS
from .figures import Figure
from .laws import NOISY_KERNELS
from .methods import BEYOND, METHODS
from .obstacles import APART

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DEFAULT_FORMATS", "DRAWINGS", "FORMATS", "PALETTE", "STYLE", "canvas", "draw", "save"]

FORMATS = ("svg", "png", "pdf")
DEFAULT_FORMATS = ("svg", "png")
Drawing = Callable[..., Canvas]

# Okabe and Ito's colours, for colour-blind readers; markers and dashes serve prints in grey.
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


def canvas(columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.2) -> tuple[Canvas, list[Axes]]:
    """An empty picture with axes of a width and height, row after row."""
    figure = Canvas(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(np.ravel(figure.subplots(rows, columns)))


def save(drawn: Canvas, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a picture in several formats, atomically; `path` has no suffix."""
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


def _errorbars(axes: Axes, groups: Any, at: Any = None, **style: Any) -> None:
    """Means of groups with standard deviations."""
    mean = groups.mean()
    axes.errorbar(mean.index if at is None else at, mean, yerr=groups.std(ddof=0), capsize=2, **style)


def _chart(figure: Figure, table: DataFrame, *_: DataFrame, axis: str) -> Canvas:
    """Mean of log L against k (or p), with the standard deviation as error bar, as in the paper."""
    drawn, (axes,) = canvas()
    methods = [m for m in (*figure.methods, *BEYOND) if m in set(table["method"])]
    for rank, name in enumerate(methods):
        groups = table[table["method"] == name].groupby(axis)["log_L"]
        at = groups.mean().index
        # Shifted a little, so that error bars do not overlap.
        aside = 0.06 * (rank - (len(methods) - 1) / 2)
        symmetric = METHODS[name].normalization == "symmetric"
        _errorbars(
            axes,
            groups,
            at + aside if axis == "k" else at * 2.0**aside,
            color=_COLOURS[name],
            marker=_MARKERS[name],
            linestyle="-" if symmetric else "--",
            markerfacecolor=_COLOURS[name] if symmetric else "white",
            elinewidth=0.8,
            label=name,
        )
    if axis == "k":
        axes.set_xticks(sorted(table["k"].unique()))
    else:
        axes.set_xscale("log", base=2)
    axes.set(xlabel="dimension k" if axis == "k" else "power p", ylabel="log L")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=2)
    return drawn


def _plane(figure: Figure, table: DataFrame, *_: DataFrame, outliers: bool) -> Canvas:
    """Embeddings in the plane, coloured by the angle of the point; outliers are triangles."""
    drawn, row = canvas(len(figure.trials), width=3.4, height=3.2)
    for axes, trial in zip(row, figure.trials, strict=True):
        points = table[(table["method"] == figure.methods[0]) & (table["trial"] == trial)]
        circle, far = points[~points["outlier"]], points[points["outlier"]]
        colours: Any = {"c": circle["angle"], "cmap": "twilight", "vmin": 0, "vmax": 2 * np.pi}
        shown = axes.scatter(circle["x"], circle["y"], s=9, linewidths=0.3, edgecolors="#555555", **colours)
        if outliers:
            axes.scatter(far["x"], far["y"], marker="^", c="#D55E00", edgecolors="black", linewidths=0.5, s=45)
        axes.set_aspect("equal", adjustable="datalim")
        axes.locator_params(nbins=4)
        axes.ticklabel_format(style="sci", scilimits=(-2, 3))
        axes.set(xlabel="y₁", ylabel="y₂")
    bar = drawn.colorbar(shown, ax=row, shrink=0.8, ticks=[0, np.pi, 2 * np.pi])
    bar.ax.set_yticklabels(["0", "π", "2π"])
    bar.set_label("angle")
    return drawn


def _karhunen_loeve(_: Figure, table: DataFrame) -> Canvas:
    drawn, (left, right) = canvas(2)
    paths = table[table["quantity"] == "path"]
    looks = zip(PALETTE[::2], ("--", "-.", "-"), strict=False)
    for terms, path in paths.sort_values("at").groupby("terms"):
        if terms < 0:
            left.plot(path["at"], path["value"], color="black", lw=2.2, label="the process A g")
        else:
            colour, dashes = next(looks)
            left.plot(path["at"], path["value"], dashes, color=colour, label=f"{terms} terms")
    left.set(xlabel="angle", ylabel="f")
    left.legend(ncols=2)
    means = table[table["quantity"] != "path"].groupby(["quantity", "terms"])["value"]
    error, error_bar = means.mean()["error"], means.sem()["error"]
    right.plot(means.mean()["expected"], "--", color=PALETTE[0], label="sum of λ² left out")
    right.errorbar(error.index, error, yerr=error_bar, fmt="o", color=PALETTE[2], capsize=2, label="mean |f - f_m|²")
    right.set(yscale="log", xlabel="terms m")
    right.legend()
    return drawn


def _distance_law(_: Figure, table: DataFrame) -> Canvas:
    drawn, (left, right) = canvas(2)
    for rank, (colour, (sketch, rows)) in enumerate(zip(PALETTE[2:], table.groupby("method"), strict=False)):
        ratio = rows.groupby("pair")["ratio"]
        half = ratio.sem() * stats.t.ppf(0.995, ratio.count().min() - 1)
        at = ratio.mean().index + 0.15 * (rank - 1)
        left.errorbar(at, ratio.mean(), yerr=half, fmt="o", color=colour, capsize=2, label=sketch)
    left.axhline(1.0, color="black", lw=0.8)
    left.set(xlabel="pair, from close to far", ylabel="mean of |y_i - y_j|² / d²")
    left.legend()
    gaussian = table[table["method"] == "gaussian"]
    k = int(gaussian["k"].iloc[0])
    scaled = k * gaussian["ratio"]
    right.hist(scaled, bins=40, density=True, color=PALETTE[3], edgecolor="white", label="all pairs and trials")
    at = np.linspace(0.0, scaled.max(), 200)
    right.plot(at, stats.chi2.pdf(at, k), color="black", label=f"chi-square, {k} degrees of freedom")
    right.set(xlabel="k |y_i - y_j|² / d²", ylabel="density")
    right.legend()
    return drawn


def _worst_error(figure: Figure, *tables: DataFrame) -> Canvas:
    drawn, (axes,) = canvas(width=5.2, height=3.8)
    for colour, marker, name, table in zip(PALETTE[::2], "osD", figure.experiments, tables, strict=False):
        label = name.removeprefix("worst_error_")
        _errorbars(axes, table.groupby("k")["worst"], color=colour, marker=marker, label=label)
        k = np.array(sorted(table["k"].unique()), dtype=float)
        low, high = ((table["diameter"] * table[f"entropy_{end}"]).mean() / np.sqrt(k) for end in ("low", "high"))
        axes.fill_between(k, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(k, low, "--", color=colour, lw=0.8)
    axes.plot([], [], "--", color="black", lw=0.8, label="diam / √k · entropy integral")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="dimension k", ylabel="worst error of squared distances")
    axes.legend()
    return drawn


def _robustness(_: Figure, table: DataFrame) -> Canvas:
    table = table.assign(law=np.sqrt(table["exact"] / table["norm"]), seen=np.sqrt(table["sketched"] / table["norm"]))
    drawn, row = canvas(2)
    sigmas = sorted(table["sigma"].unique())
    for axes, (noise, rows) in zip(row, table.groupby("noise"), strict=True):
        for colour, look, kernel in zip(PALETTE[::2], ("-o", "--s", ":^", "-.D"), NOISY_KERNELS, strict=True):
            means = rows[rows["kernel"] == kernel].groupby("sigma")[["law", "seen"]].mean()
            axes.plot(means["law"], look[:-1], color=colour)
            axes.plot(means["seen"], look[-1], color=colour, markerfacecolor="none")
            axes.plot([], [], look, color=colour, markerfacecolor="none", label=kernel)
        axes.set(xscale="log", yscale="log", title=f"{noise} noise")
        axes.set_xticks(sigmas, [f"{sigma:g}" for sigma in sigmas])
        axes.minorticks_off()
        axes.set(xlabel="length of the noise, root mean square", ylabel="relative change of the embedding")
    row[0].legend()
    return drawn


def _kernel_columns(_: Figure, columns: DataFrame, local: DataFrame) -> Canvas:
    drawn, (left, right) = canvas(2)
    curves = columns[columns["trial"] == 0].sort_values("angle").groupby("p")
    for colour, dashes, (p, rows) in zip(PALETTE[::2], ("-", "--", ":"), curves, strict=False):
        left.plot(rows["angle"], rows["value"], dashes, color=colour, label=f"p = {p}")
    left.set(xlabel="angle from the column's point", ylabel="entry / largest entry")
    left.legend()
    names = list(dict.fromkeys(local["method"]))[::-1]
    for height, name in enumerate(names):
        values = local.loc[local["method"] == name, "log_L"]
        right.plot(values, [height] * len(values), "o", color=PALETTE[2], alpha=0.3)
        right.plot(values.mean(), height, "D", color="black", markersize=6, markerfacecolor="white")
    right.set_yticks(range(len(names)), names)
    right.set_xlabel("log L within a neighbourhood")
    return drawn


def _challenge(_: Figure, swept: DataFrame, refined: DataFrame) -> Canvas:
    drawn, (left, right) = canvas(2)
    r = np.linspace(1.0, 6.0, 500, endpoint=False)
    left.plot(r, 2 * np.floor(r), color=PALETTE[0], lw=0.8, label="2⌊r⌋: no embedding up to here")
    left.axhline(5, color=PALETTE[2], lw=0.8, ls="--", label="2d + 1 = 5")
    for method, colour, marker in (("DMS", PALETTE[0], "o"), ("GPS", PALETTE[2], "s")):
        worst = swept[swept["method"] == method].groupby(["r", "k"])["separation"].min().reset_index()
        first = worst[worst["separation"] > APART].groupby("r")["k"].min()
        left.plot(first, marker, color=colour, label=f"{method}: first k that keeps points apart")
    left.set(xlabel="radius r", ylabel="dimension k")
    left.legend(fontsize=7)
    for (method, k), rows in refined.groupby(["method", "k"]):
        groups = rows.groupby("points")["log_L"]
        mean = groups.mean()
        style: Any = {"color": PALETTE[0], "marker": "o"} if method == "DMB" else {"color": PALETTE[2], "marker": "s"}
        right.errorbar(mean.index, mean, yerr=groups.sem(), capsize=2, **style)
        place: Any = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}
        right.annotate(f"{method}, k = {k}", (mean.index[-1], mean.iloc[-1]), **place)
    right.set_xscale("log", base=2)
    right.set_xlim(right=2.4 * refined["points"].max())
    right.set(xlabel="points N", ylabel="log L")
    return drawn


def _eigenfunctions(_: Figure, table: DataFrame) -> Canvas:
    drawn, row = canvas(table["modes"].nunique(), width=3.2)
    for axes, (m, rows) in zip(row, table.groupby("modes"), strict=True):
        wide = rows.pivot_table(index="trial", columns="normalization", values="error")
        axes.plot(wide["symmetric"], wide["bistochastic"], "o", color=PALETTE[2], alpha=0.7)
        limits = [0.0, 1.05 * float(wide.to_numpy().max())]
        axes.plot(limits, limits, color="black", lw=0.8)
        axes.annotate("bistochastic worse", (0.05, 0.9), xycoords="axes fraction")
        axes.set(title=f"leading {2 * m}", xlabel="symmetric: mean squared sine", ylabel="bistochastic", aspect="equal")
    return drawn


def _extreme_powers(_: Figure, table: DataFrame) -> Canvas:
    drawn, (axes,) = canvas(width=4.8)
    means = table.groupby("exponent")[["near_one", "from_white", "top"]].mean()
    labels = {
        "near_one": "share of eigenvalues of Aᵖ above 1/2",
        "from_white": "|A²ᵖ - I| / √N",
        "top": "variance along the top eigenvector",
    }
    for colour, dashes, (column, label) in zip(PALETTE[::2], ("-", "--", ":"), labels.items(), strict=False):
        axes.plot(2.0**means.index, means[column], dashes, color=colour, label=label)
    axes.axvspan(2, 1024, color="#EEEEEE", zorder=0, label="powers that the paper draws")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("power p")
    axes.legend(fontsize=7, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return drawn


def _cost(_: Figure, table: DataFrame) -> Canvas:
    drawn, row = canvas(3, width=3.6, height=3.8)
    looks = dict(zip(dict.fromkeys(step for step, _ in ORDERS), zip(PALETTE, "oosDh", strict=False), strict=True))
    for axes, against in zip(row, ("N", "k", "p"), strict=True):
        rows = table[table["against"] == against]
        for step, (colour, marker) in looks.items():
            seconds = rows[rows["step"] == step].groupby(against)["seconds"].median()
            if seconds.empty:
                continue
            order = ORDERS[step, against]
            power = against + {1: "", 2: "²", 3: "³"}[order]
            axes.plot(seconds, marker=marker, color=colour, label=f"{step}: O({power})")
            last = float(seconds.index[-1])
            axes.plot(seconds.index, seconds.iloc[-1] * (seconds.index / last) ** order, "--", color=colour, lw=0.7)
        axes.set_xscale("log", base=2)
        axes.set(yscale="log", xlabel=against, ylabel="seconds")
        axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return drawn


DRAWINGS: dict[str, Drawing] = {
    "dimensions": partial(_chart, axis="k"),
    "powers": partial(_chart, axis="p"),
    "plane": partial(_plane, outliers=True),
    "plane_without_outliers": partial(_plane, outliers=False),
    "karhunen_loeve": _karhunen_loeve,
    "distance_law": _distance_law,
    "worst_error": _worst_error,
    "robustness": _robustness,
    "kernel_columns": _kernel_columns,
    "challenge": _challenge,
    "eigenfunctions": _eigenfunctions,
    "extreme_powers": _extreme_powers,
    "cost": _cost,
}


def draw(figure: Figure, tables: Mapping[str, DataFrame]) -> Canvas:
    """Draw a figure from its tables."""
    with mpl.rc_context(STYLE):
        return DRAWINGS[figure.drawing](figure, *(tables[name] for name in figure.experiments))
