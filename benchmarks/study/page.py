"""The page of the study, from its tables alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from heatsketch._utils.files import write_whole
from heatsketch.datasets import PAPER
from heatsketch_paper.pictures import canvas, save
from heatsketch_paper.store import Store

from ..pages import Tables, grid, made_by, promises, provenance
from .further import FURTHER, METHODS, PEERS
from .verdicts import cells, judged

__all__ = ["write_page"]

_TITLES = {
    "circle": "Circle",
    "stretched_torus": "Stretched torus",
    "klein_bottle": "Klein bottle",
    "circle_with_outliers": "Circle with two outliers",
    "gaussian_clouds": "Gaussian clouds",
}
_COLOURS = {"DM": "#D55E00", "GP": "#0072B2", "HS": "#000000"}
_MEASURES = {
    "log_L": ("log L", 0),
    "central": ("central 98%", 0),
    "stress": ("stress", 0),
    "spearman": ("Spearman", 1),
    "trust": ("trustworthiness", 1),
    "kept": ("neighbours kept", 1),
    "log_L_unseen": ("log L, unseen", 0),
    "spearman_unseen": ("Spearman, unseen", 1),
}

_INTRODUCTION = """
Diffusion maps (DM), Gaussian process embeddings (GP) and HeatSketch (HS) on the paper's data with the paper's
parameters and trial counts, on data that HeatSketch was not designed on, on points that were not seen, and by other
measures than the one that it minimises. S and B are the symmetric and the bistochastic kernel. Trials, points and
random matrices of the charts are those of `heatsketch reproduce`; settings of HeatSketch are its defaults except
where the name of a row or column says otherwise. Its defaults were chosen on other samples of the paper's data, after
a first look at four of these trials.
"""
_CHARTS = """
Mean of log L over the trials; error bars are standard deviations. Left on the points that were fitted, right on as
many others of the same law, placed by `transform` and measured against the diffusion distances between their own
kernel rows.
"""
_GAP = """
log L on seen / unseen points, bistochastic kernel. The penalty is `regularization`, whose default is 0.1. "5 rounds"
stops early. "Further points" optimises over as many further points of the same law as were fitted, which no user has:
what is left of the gap then is not for want of data. Where the shape does not embed in k dimensions (the torus in the
plane, the Klein bottle in space) far points must fall together somewhere, and among new points some pair comes close
to such a place, whatever the method.
"""
_FURTHER = """
Default bandwidth and diffusion time (8), all pairs; measures against the diffusion distances of that kernel, means
over the trials. *stress* is Kruskal's with the best scale; *central 98%* is log L without the hundredth of pairs at
either end; *neighbours kept* is the share of the 15 nearest that are nearest in the embedding. The best value of a
column is bold. MDS is given the diffusion distances themselves, has no form that its embedding must keep, and places
no new points. Isomap, UMAP and PHATE run with their defaults and aim at other things than diffusion distances: their
rows say what a user of distances would get, not that they fail at their own goals.
"""
_DEFLATION = """
Root mean square relative error of squared distances over all pairs and trials, with k columns: all random, half of
them exact, and `n_exact="auto"`, with the mean number of exact directions that it took.
"""
_TIMES = """
One fit each, warm, in a process of its own, default settings, float32 data; memory is the peak of the whole process.
log L is measured as `distortion()` does, beyond 2000 points a lower bound.
"""


def write_page(directory: Path) -> Path:
    """Draw the pictures and write the page, for whatever tables are there."""
    store = Store(directory)
    tables = {name: store.read(name) for name in store.names}
    for name in PAPER:
        if name in tables:
            _draw(tables[name], directory / "pictures" / name)
    origins = {name: store.provenance(name) for name in tables}
    parts = [
        "# HeatSketch, measured",
        _INTRODUCTION.strip(),
        made_by(origins, "study"),
        "## Promises",
        promises(judged(tables)),
    ]
    parts += ["## The paper's charts", _CHARTS.strip(), *_charts(tables)]
    sections = {
        "gap": ("## The gap to unseen points", _GAP, _gap),
        "deflation": ("## Exact directions", _DEFLATION, _deflation),
    }
    for name, (title, text, table) in sections.items():
        if name in tables:
            parts += [title, text.strip(), table(tables[name])]
    if any(name in tables for name in FURTHER):
        parts += ["## Other data, other measures", _FURTHER.strip(), _standing(tables), *_further(tables)]
    if any(name.startswith("times_") for name in tables):
        parts += ["## Time and memory", _TIMES.strip(), _times(tables)]
    parts += ["## Provenance", provenance(tables, origins)]
    page = directory / "index.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def _draw(table: pd.DataFrame, path: Path) -> None:
    drawn, axes = canvas(2)
    for ax, column, title in zip(axes, ("log_L", "log_L_unseen"), ("fitted points", "unseen points"), strict=True):
        for name, colour in _COLOURS.items():
            for letter, line in (("S", "-"), ("B", "--")):
                groups = table[table["method"] == name + letter].groupby("k")[column]
                mean = groups.mean()
                style = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3, "capsize": 2}
                face = colour if letter == "S" else "white"
                ax.errorbar(mean.index, mean, groups.std(ddof=0), label=name + letter, markerfacecolor=face, **style)
        ax.set(xlabel="dimension k", ylabel="log L", title=title)
        ax.set_ylim(bottom=0)
        ax.set_xticks(sorted(table["k"].unique()))
    axes[0].legend(ncols=3)
    save(drawn, path, ("png",))


def _charts(tables: Tables) -> list[str]:
    seen, unseen = cells(tables, "log_L"), cells(tables, "log_L_unseen")
    parts = []
    for data in [name for name in _TITLES if name in tables]:
        trials = tables[data]["trial"].nunique()
        parts.append(f"### {_TITLES[data]}\n\n![{_TITLES[data]}](pictures/{data}.png)")
        rows = []
        for (_, a), (_, b) in zip(
            seen[seen["data"] == data].iterrows(), unseen[unseen["data"] == data].iterrows(), strict=True
        ):
            values = [f"{part[name]:.3g}" for part in (a, b) for name in ("DM", "GP", "HS")]
            share = [f"{a['share']:.2f}", f"{b['share']:.2f}"]
            rows.append([a["normalization"], str(a["k"]), *values[:3], share[0], *values[3:], share[1]])
        head = ["kernel", "k", "DM", "GP", "HS", "HS / better", "DM, unseen", "GP, unseen", "HS, unseen", "HS / better"]
        parts.append(f"{trials} trials.\n\n{grid(head, rows)}")
    return parts


def _gap(table: pd.DataFrame) -> str:
    methods = list(dict.fromkeys(table["method"]))
    means = table.groupby(["data", "k", "method"])[["log_L", "log_L_unseen"]].mean()
    rows = []
    for data, k in dict.fromkeys(zip(table["data"], table["k"], strict=True)):
        found = [means.loc[data, k, method] for method in methods]
        rows.append([_TITLES[data], str(k), *(f"{f['log_L']:.2f} / {f['log_L_unseen']:.2f}" for f in found)])
    return f"{table['trial'].nunique()} trials.\n\n{grid(['data', 'k', *methods], rows)}"


def _deflation(table: pd.DataFrame) -> str:
    squares = table.assign(error=table["error"] ** 2).groupby(["data", "k", "method"])["error"].mean() ** 0.5
    exact = table.groupby(["data", "k", "method"])["n_exact"].mean()
    rows = []
    for data, k in dict.fromkeys(zip(table["data"], table["k"], strict=True)):
        plain, half, auto = (squares[data, k, method] for method in ("plain", "half", "auto"))
        taken = f"{exact[data, k, 'auto']:.1f}"
        rows.append(
            [
                _TITLES.get(data, data),
                str(k),
                f"{plain:.3f}",
                f"{half:.2g}",
                f"{auto:.2g}",
                taken,
                f"{auto / plain:.2g}",
            ]
        )
    head = ["data", "k", "all random", "half exact", "auto", "directions", "auto / random"]
    return f"{table['trial'].nunique()} trials.\n\n{grid(head, rows)}"


def _further(tables: Tables) -> list[str]:
    parts = []
    for name, experiment in FURTHER.items():
        if name not in tables:
            continue
        table = tables[name]
        parts.append(f"### {experiment.data[0].upper()}{experiment.data[1:]}")
        parts.append(f"{experiment.n_samples} points, {table['trial'].nunique()} trials.")
        rows = []
        for k in experiment.n_components:
            means = _means(table, k)
            best = {m: means[m].min() if not best else means[m].max() for m, (_, best) in _MEASURES.items()}
            for method, row in means.iterrows():
                values = ["" if pd.isna(row[m]) else f"{row[m]:.2f}" for m in _MEASURES]
                values = [f"**{v}**" if v and row[m] == best[m] else v for v, m in zip(values, _MEASURES, strict=True)]
                rows.append([str(k), str(method), *values, f"{row['seconds']:.2f}"])
        parts.append(grid(["k", "method", *(title for title, _ in _MEASURES.values()), "seconds"], rows))
    return parts


def _means(table: pd.DataFrame, k: int) -> pd.DataFrame:
    """Means over the trials by method, in the order in which methods are declared."""
    order = [m for m in (*METHODS, "MDS", *PEERS) if m in set(table["method"])]
    return table[table["k"] == k].groupby("method")[[*_MEASURES, "seconds"]].mean().loc[order]


def _standing(tables: Tables) -> str:
    """How often each method is the best, by measure."""
    wins: dict[str, dict[str, int]] = {m: {} for m in _MEASURES}
    for name, experiment in FURTHER.items():
        for k in experiment.n_components if name in tables else ():
            means = _means(tables[name], k)
            for m, (_, best) in _MEASURES.items():
                if means[m].notna().any():
                    winner = str(means[m].idxmax() if best else means[m].idxmin())
                    wins[m][winner] = wins[m].get(winner, 0) + 1
    rows = [
        [_MEASURES[m][0], ", ".join(f"{name} {n}" for name, n in sorted(won.items(), key=lambda item: -item[1]))]
        for m, won in wins.items()
    ]
    return "How often each method is the best of all, over data sets and k:\n\n" + grid(["measure", "best"], rows)


def _times(tables: Tables) -> str:
    rows = []
    for name in sorted((n for n in tables if n.startswith("times_")), key=lambda n: int(n.partition("_")[2])):
        table = tables[name]
        for (data, k, method), part in table.groupby(["data", "k", "method"], sort=False):
            points = f"{int(name.partition('_')[2]):,}"
            values = [f"{part['seconds'].median():.1f}", f"{part['gib'].max():.2f}", f"{part['log_L'].mean():.2f}"]
            rows.append([points, str(data), str(k), str(method), *values])
    return grid(["points", "data", "k", "method", "seconds", "GiB", "log L"], rows)
