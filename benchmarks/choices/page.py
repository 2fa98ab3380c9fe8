"""The page of the study, from its tables alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from heatsketch._utils.files import write_whole
from heatsketch_paper.pictures import canvas, save
from heatsketch_paper.store import Store

from ..pages import Tables, grid, made_by, promises, provenance
from .against_grid import AGAINST_GRID
from .geometry import UNSEEN
from .rules import RULES
from .verdicts import MEASURES, held_out, judged, ratios

__all__ = ["write_page"]

_INTRODUCTION = """
What `power="auto"` and `bandwidth="auto"` choose, against the best choice on a grid, and how often confidence intervals
hold what they are of. The rules were made on other samples of the first ten shapes, and revised once after a first
run of this study on other samples of all of them (paths had been too easily broken by gaps, and the widest bandwidth
that does not join folds was missed); {unseen} had been added after they were made.
"""
_GEOMETRY = """
500 points whose geodesic distances are known (300 on the circle, 1,000 on the swiss roll and the S curve). The grid has
nine bandwidths, from half of what the tenth neighbour gives to what the median distance gives, and 24 times from 1 to
2,896. (Beyond the median the kernel turns into a constant and diffusion distances into straight-line distances, which
on shapes that hardly bend are as good as any.) Numbers are log distortions against the geodesics, means over {trials}
trials, as multiples of the best on the grid, which is looked for in each trial by the measure itself; 1 is the best.
*98% of pairs* leaves out the hundredth at either end. *32 components* is a Gaussian process embedding, whose own noise
is in the best of the grid too.
"""
_RULES = """
The same multiple, for diffusion distances and 98% of pairs, for other rules. "Best time" is the best of the grid for
that bandwidth. "Knee of PHATE" is the time at which two lines fitted to the von Neumann entropy meet.
"""
_HELD_OUT = """
Real data have no geometry that is known. A third of the points makes one kernel and another third a second one, each
with its own automatic choices; the last third is placed by both, and the two distances of each pair are compared: the
log of the 99% over the 1% quantile of their ratios, for the best of a grid (six bandwidths, nine times), for "auto" and
for the tenth neighbour with power 8. Agreement is cheap for kernels that see little; so the share of points whose
nearest neighbour has the same label stands beside it, again with the best of the grid. "Unequal clusters" are three
Gaussian clusters of scales 1 : 10 : 30.
"""
_COVERAGE = """
Share of random pairs whose exact diffusion distance lies in the interval at level .95, and the median of its upper over
its lower end; means over data sets ({data}), two kernels (all pairs, 12 neighbours) and {trials} trials. Signs follow
the law approximately only.
"""
_TIMES = """
Seconds of a fit with `power="auto"` (and `bandwidth="auto"`), and of one with the numbers that it chose; medians of
interleaved fits. "Extra" is what the choice costs, as a share of the fit with given numbers.
"""


def write_page(directory: Path) -> Path:
    """Draw the picture and write the page, for whatever tables are there."""
    store = Store(directory)
    tables = {name: store.read(name) for name in store.names}
    origins = {name: store.provenance(name) for name in tables}
    parts = ["# Automatic choices, measured", _INTRODUCTION.strip().format(unseen=", ".join(UNSEEN))]
    parts += [made_by(origins, "choices"), "## Promises", promises(judged(tables))]
    if len(ratios(tables)):
        _draw(tables, directory / "pictures" / "choices")
        parts += ["## Known geometry", _geometry(tables), "![Rules against the best](pictures/choices.png)"]
        parts += [_against(tables), "### Other rules", _RULES.strip(), _by_rule(tables)]
    if len(held_out(tables)):
        parts += ["## Real data", _HELD_OUT.strip(), _real(tables)]
    if "coverage" in tables:
        parts += ["## Intervals", _coverage(tables["coverage"])]
    if any(name.startswith("choice_times_") for name in tables):
        parts += ["## Time", _TIMES.strip(), _times(tables)]
    parts += ["## Provenance", provenance(tables, origins)]
    page = directory / "index.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def _shapes(tables: Tables) -> dict[str, pd.DataFrame]:
    return {name: tables[one.name] for name, one in AGAINST_GRID.items() if one.name in tables}


def _draw(tables: Tables, path: Path) -> None:
    drawn, (ax,) = canvas(1)
    shown = {"auto": "#000000", "neighbor, time by entropy": "#0072B2", "neighbor, knee of PHATE": "#D55E00"}
    for rule, colour in shown.items():
        values = ratios(tables, rule)["exact_central"]
        ax.plot(values, range(len(values)), "o", ms=4, color=colour, label=rule)
    ax.axvspan(1.0, 1.1, color="0.9", zorder=0)
    ax.set(xscale="log", xlabel="multiple of the best log distortion")
    ax.set_yticks(range(len(values)), values.index)
    ticks = (1, 1.5, 2, 3, 4)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    save(drawn, path, ("png",))


def _geometry(tables: Tables) -> str:
    trials = max(table["trial"].nunique() for table in _shapes(tables).values())
    return _GEOMETRY.strip().format(trials=trials)


def _against(tables: Tables) -> str:
    found = ratios(tables)
    rows = []
    for name, table in _shapes(tables).items():
        chosen = table[table["rule"] == "auto"]
        best = table[table["rule"] == "best on the grid"]["exact_central"].mean()
        values = [f"{value:.2f}" if value > 1.1 else f"**{value:.2f}**" for value in found.loc[name]]
        rows.append(
            [name, f"{chosen['bandwidth'].median():.1f}", f"{chosen['power'].median():g}", f"{best:.2f}", *values]
        )
    head = ["shape", "bandwidth", "power", "best log distortion, 98%", *MEASURES.values()]
    note = "Bandwidth (in units of the tenth neighbour's) and power are medians of what was chosen."
    return f"{note}\n\n{grid(head, rows)}"


def _by_rule(tables: Tables) -> str:
    found = {rule: ratios(tables, rule)["exact_central"] for rule in RULES}
    rows = [[name, *(f"{found[rule][name]:.2f}" for rule in RULES)] for name in _shapes(tables)]
    rows.append(["**worst**", *(f"**{found[rule].max():.2f}**" for rule in RULES)])
    return grid(["shape", *RULES], rows)


def _real(tables: Tables) -> str:
    columns = ("best", "auto", "default", "best labels", "auto labels", "default labels")
    rows = []
    for name, row in held_out(tables).iterrows():
        values = [f"{row[c]:.3f}" if "labels" in c else f"{row[c]:.2f}" for c in columns]
        rows.append([str(name), *values])
    head = ["data", "halves: best", "auto", "default", "labels: best", "auto", "default"]
    return grid(head, rows)


def _coverage(table: pd.DataFrame) -> str:
    intro = _COVERAGE.strip().format(data=", ".join(table["data"].unique()), trials=table["trial"].nunique())
    means = table.groupby(["method", "kernel"], sort=False)[["covered", "width"]].mean()
    kernels = list(table["kernel"].unique())
    rows = []
    for method in dict.fromkeys(table["method"]):
        cells = [means.loc[(method, kernel)] for kernel in kernels]
        rows.append([method, *(f"{c['covered']:.3f}" for c in cells), *(f"{c['width']:.2f}" for c in cells)])
    head = ["method", *(f"covered, {k}" for k in kernels), *(f"high / low, {k}" for k in kernels)]
    return f"{intro}\n\n{grid(head, rows)}"


def _times(tables: Tables) -> str:
    rows = []
    for name in sorted((n for n in tables if n.startswith("choice_times_")), key=lambda n: int(n.rpartition("_")[2])):
        for (method, data), part in tables[name].groupby(["method", "data"], sort=False):
            middle = part[["power", "automatic", "given", "extra"]].median()
            values = [f"{middle['given']:.3f}", f"{middle['automatic']:.3f}", f"{middle['extra']:.2f}"]
            rows.append([f"{int(name.rpartition('_')[2]):,}", str(data), str(method), f"{middle['power']:g}", *values])
    return grid(["points", "data", "method", "power", "given, s", "automatic, s", "extra"], rows)
