"""Pictures of all figures, drawn from the tables only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from scipy import stats

from heatsketch._utils.files import write_whole

from .cost import ORDERS, power_of
from .figures import Figure
from .laws import NOISY_KERNELS
from .methods import BEYOND, METHODS
from .obstacles import APART

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DEFAULT_FORMATS", "DRAWINGS", "FORMATS", "PALETTE", "STYLE", "canvas", "draw", "save"]

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


def _chart(axis: str) -> Drawing:
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


def _plane(*, outliers: bool) -> Drawing:
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


def _karhunen_loeve(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
    drawn, (left, right) = canvas(2)
    paths = table[table["quantity"] == "path"]
    looks = zip(PALETTE[::2], ("--", "-.", "-"), strict=False)
    for terms, path in paths.sort_values("at").groupby("terms"):
        if terms < 0:
            left.plot(path["at"], path["value"], color="black", lw=2.2, label="the process A g")
        else:
            colour, dashes = next(looks)
            left.plot(path["at"], path["value"], dashes, color=colour, label=f"{terms} terms")
    left.set_xlabel("angle")
    left.set_ylabel("f")
    left.legend(ncols=2)
    means = table[table["quantity"] != "path"].groupby(["quantity", "terms"])["value"]
    error, error_bar = means.mean()["error"], means.sem()["error"]
    right.plot(means.mean()["expected"], "--", color=PALETTE[0], label="sum of λ² left out")
    right.errorbar(error.index, error, yerr=error_bar, fmt="o", color=PALETTE[2], capsize=2, label="mean |f - f_m|²")
    right.set_yscale("log")
    right.set_xlabel("terms m")
    right.legend()
    return drawn


def _distance_law(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
    drawn, (left, right) = canvas(2)
    for rank, (colour, (sketch, rows)) in enumerate(zip(PALETTE[2:], table.groupby("method"), strict=False)):
        ratio = rows.groupby("pair")["ratio"]
        half = ratio.sem() * stats.t.ppf(0.995, ratio.count().min() - 1)
        left.errorbar(
            ratio.mean().index + 0.15 * (rank - 1),
            ratio.mean(),
            yerr=half,
            fmt="o",
            color=colour,
            capsize=2,
            label=sketch,
        )
    left.axhline(1.0, color="black", lw=0.8)
    left.set_xlabel("pair, from close to far")
    left.set_ylabel("mean of |y_i - y_j|² / d²")
    left.legend()
    gaussian = table[table["method"] == "gaussian"]
    k = int(gaussian["k"].iloc[0])
    right.hist(
        k * gaussian["ratio"], bins=40, density=True, color=PALETTE[3], edgecolor="white", label="all pairs and trials"
    )
    at = np.linspace(0.0, k * gaussian["ratio"].max(), 200)
    right.plot(at, stats.chi2.pdf(at, k), color="black", label=f"chi-square, {k} degrees of freedom")
    right.set_xlabel("k |y_i - y_j|² / d²")
    right.set_ylabel("density")
    right.legend()
    return drawn


def _worst_error(figure: Figure, tables: Tables) -> Canvas:
    drawn, (axes,) = canvas(width=5.2, height=3.8)
    for colour, marker, name in zip(PALETTE[::2], "osD", figure.experiments, strict=False):
        table = tables[name]
        groups = table.groupby("k")["worst"]
        label = name.removeprefix("worst_error_")
        axes.errorbar(
            groups.mean().index,
            groups.mean(),
            yerr=groups.std(ddof=0),
            color=colour,
            marker=marker,
            capsize=2,
            label=label,
        )
        k = np.array(sorted(table["k"].unique()), dtype=float)
        low, high = ((table["diameter"] * table[f"entropy_{end}"]).mean() / np.sqrt(k) for end in ("low", "high"))
        axes.fill_between(k, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(k, low, "--", color=colour, lw=0.8)
    axes.plot([], [], "--", color="black", lw=0.8, label="diam / √k · entropy integral")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("dimension k")
    axes.set_ylabel("worst error of squared distances")
    axes.legend()
    return drawn


def _robustness(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
    table = table.assign(law=np.sqrt(table["exact"] / table["norm"]), seen=np.sqrt(table["sketched"] / table["norm"]))
    drawn, row = canvas(2)
    sigmas = sorted(table["sigma"].unique())
    for axes, (noise, rows) in zip(row, table.groupby("noise"), strict=True):
        for colour, look, kernel in zip(PALETTE[::2], ("-o", "--s", ":^", "-.D"), NOISY_KERNELS, strict=True):
            means = rows[rows["kernel"] == kernel].groupby("sigma")[["law", "seen"]].mean()
            axes.plot(means["law"], look[:-1], color=colour)
            axes.plot(means["seen"], look[-1], color=colour, markerfacecolor="none")
            axes.plot([], [], look, color=colour, markerfacecolor="none", label=kernel)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sigmas, [f"{sigma:g}" for sigma in sigmas])
        axes.minorticks_off()
        axes.set_title(f"{noise} noise")
        axes.set_xlabel("length of the noise, root mean square")
        axes.set_ylabel("relative change of the embedding")
    row[0].legend()
    return drawn


def _kernel_columns(figure: Figure, tables: Tables) -> Canvas:
    columns, local = (tables[name] for name in figure.experiments)
    drawn, (left, right) = canvas(2)
    for colour, dashes, (p, rows) in zip(
        PALETTE[::2], ("-", "--", ":"), columns[columns["trial"] == 0].groupby("p"), strict=False
    ):
        ordered = rows.sort_values("angle")
        left.plot(ordered["angle"], ordered["value"], dashes, color=colour, label=f"p = {p}")
    left.set_xlabel("angle from the column's point")
    left.set_ylabel("entry / largest entry")
    left.legend()
    names = list(dict.fromkeys(local["method"]))[::-1]
    for height, name in enumerate(names):
        values = local.loc[local["method"] == name, "log_L"]
        right.plot(values, [height] * len(values), "o", color=PALETTE[2], alpha=0.3)
        right.plot(values.mean(), height, "D", color="black", markersize=6, markerfacecolor="white")
    right.set_yticks(range(len(names)), names)
    right.set_xlabel("log L within a neighbourhood")
    return drawn


def _challenge(figure: Figure, tables: Tables) -> Canvas:
    swept, refined = (tables[name] for name in figure.experiments)
    drawn, (left, right) = canvas(2)
    r = np.linspace(1.0, 6.0, 500, endpoint=False)
    left.plot(r, 2 * np.floor(r), color=PALETTE[0], lw=0.8, label="2⌊r⌋: no embedding up to here")
    left.axhline(5, color=PALETTE[2], lw=0.8, ls="--", label="2d + 1 = 5")
    for method, colour, marker in (("DMS", PALETTE[0], "o"), ("GPS", PALETTE[2], "s")):
        worst = swept[swept["method"] == method].groupby(["r", "k"])["separation"].min().reset_index()
        first = worst[worst["separation"] > APART].groupby("r")["k"].min()
        left.plot(first, marker, color=colour, label=f"{method}: first k that keeps points apart")
    left.set_xlabel("radius r")
    left.set_ylabel("dimension k")
    left.legend(fontsize=7)
    for (method, k), rows in refined.groupby(["method", "k"]):
        means = rows.groupby("points")["log_L"]
        colour = PALETTE[0] if method == "DMB" else PALETTE[2]
        right.errorbar(
            means.mean().index,
            means.mean(),
            yerr=means.sem(),
            color=colour,
            marker="o" if method == "DMB" else "s",
            capsize=2,
        )
        right.annotate(
            f"{method}, k = {k}",
            (means.mean().index[-1], means.mean().iloc[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    right.set_xscale("log", base=2)
    right.set_xlim(right=2.4 * refined["points"].max())
    right.set_xlabel("points N")
    right.set_ylabel("log L")
    return drawn


def _eigenfunctions(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
    drawn, row = canvas(table["modes"].nunique(), width=3.2)
    for axes, (m, rows) in zip(row, table.groupby("modes"), strict=True):
        wide = rows.pivot_table(index="trial", columns="normalization", values="error")
        axes.plot(wide["symmetric"], wide["bistochastic"], "o", color=PALETTE[2], alpha=0.7)
        limits = [0.0, 1.05 * float(wide.to_numpy().max())]
        axes.plot(limits, limits, color="black", lw=0.8)
        axes.annotate("bistochastic worse", (0.05, 0.9), xycoords="axes fraction")
        axes.set_title(f"leading {2 * m}")
        axes.set_xlabel("symmetric: mean squared sine")
        axes.set_ylabel("bistochastic")
        axes.set_aspect("equal")
    return drawn


def _extreme_powers(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
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


def _cost(figure: Figure, tables: Tables) -> Canvas:
    table = tables[figure.experiments[0]]
    drawn, row = canvas(3, width=3.6, height=3.8)
    steps = list(dict.fromkeys(step for step, _ in ORDERS))
    for axes, against in zip(row, ("N", "k", "p"), strict=True):
        rows = table[table["against"] == against]
        for colour, marker, step in zip(PALETTE, "oosDhhD", steps, strict=False):
            seconds = rows[rows["step"] == step].groupby(against)["seconds"].median()
            if seconds.empty:
                continue
            order = ORDERS[step, against]
            axes.plot(seconds, marker=marker, color=colour, label=f"{step}: O({power_of(against, order)})")
            last = float(seconds.index[-1])
            axes.plot(seconds.index, seconds.iloc[-1] * (seconds.index / last) ** order, "--", color=colour, lw=0.7)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(against)
        axes.set_ylabel("seconds")
        axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return drawn


DRAWINGS: dict[str, Drawing] = {
    "dimensions": _chart("k"),
    "powers": _chart("p"),
    "plane": _plane(outliers=True),
    "plane without outliers": _plane(outliers=False),
    "karhunen-loeve": _karhunen_loeve,
    "distance law": _distance_law,
    "worst error": _worst_error,
    "robustness": _robustness,
    "kernel columns": _kernel_columns,
    "challenge": _challenge,
    "eigenfunctions": _eigenfunctions,
    "extreme powers": _extreme_powers,
    "cost": _cost,
}


def draw(figure: Figure, tables: Tables) -> Canvas:
    """Draw a figure from its tables."""
    with mpl.rc_context(STYLE):
        return DRAWINGS[figure.kind](figure, tables)
