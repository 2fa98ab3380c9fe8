"""The page of the study, from its tables alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from heatsketch_paper.pictures import canvas, save
from heatsketch_paper.store import Store, write_whole

from ..pages import Tables, grid, made_by, promises, provenance
from .methods import METHODS, OURS, RAW, RIVALS
from .trials import LABELS, MOST_POINTS, PIPELINES
from .verdicts import LEVEL, TASKS, by_data, differences, judged

__all__ = ["write_page"]

_INTRODUCTION = """
What an embedding is worth to what comes after it in a pipeline: a classifier that has few labels, points that were
not there when it was fitted, and a clustering. Measured on real data that need no download, beside PCA,
scikit-learn's `SpectralEmbedding` and UMAP.
"""
_PROTOCOL = """
**Data.** {data}. Pixels and principal components are taken as they are, other features standardised, over all points.
Of blood cells (those that scanpy ships, by 50 principal components) kinds with fewer than 30 members are left out.

**A trial.** At most {most} points are drawn. Two thirds are embedded, without labels; the last third is *unseen*.
Then 2, 5 and 10 points of each class are given their labels, four times each, and two classifiers are trained on these
alone: the nearest labelled neighbour, and logistic regression on standardised coordinates. Both name the other embedded
points (*few labels*) and the unseen ones, placed by `transform` (*unseen points*); the score is the balanced accuracy,
averaged over numbers of labels, draws and both classifiers (the tables have each by itself). The embedded points are
also clustered, by k-means with the true number of classes and ten starts, and by HDBSCAN with scikit-learn's defaults;
the score is the adjusted mutual information with the classes, and what HDBSCAN leaves out counts as a cluster.

**Methods**, all with the same numbers of components k (PCA as far as there are features), and nothing tuned on labels.
There are two settings for most: the plain one, and one that fits the purpose. For UMAP that is what its documentation
advises for clustering (`n_neighbors=30, min_dist=0`), for `SpectralEmbedding` 15 neighbours instead of a tenth of the
points. For ours "auto" is `power="auto"`, and "15 neighbours" is what UMAP looks at by default, fifteen neighbours and
a scale for each point: `n_neighbors=15, bandwidth="self-tuning", power="entropy"`; HeatSketch has
`objective="log-stress"` there. "All features" is no embedding.

**Development.** The settings of ours were chosen after looking at single draws of these same data sets, with other
seeds; what is reported are other draws, made once. Intervals are Student's at level {level} for the mean paired
difference over {trials} trials: they tell of other draws from the same data, not of other data, and are not corrected
for their number.
"""
_DIFFERENCES = """
{ours} against each other method, over all data sets and k: the mean difference of the scores, and in how many
settings (a data set, a k) its interval is above 0 : holds 0 : is below 0. Bold where ours is better more often than
worse.
"""
_CLASSIFIERS = """
The same difference to UMAP by classifier, a mean over the numbers of labels and all data sets. Standardising, which
logistic regression needs, gives the last directions as much say as the first; the nearest neighbour sees distances as
they are.
"""
_TABLES = """
Means over the trials; the best of each column is bold.
"""
# What people use now: a setting in which all three are beaten is one in which ours is the choice.
_USUAL = ("PCA", "DiffusionMaps, 15 neighbours", "UMAP")
_OUTRIGHT = """
Settings in which ours is better than PCA, diffusion maps and UMAP at once, or worse than all three, each beyond its 95%
interval over the trials. The trials of a setting share their data set, and there are many settings: a single row is a
lead, several of a kind are more.
"""
_COLOURS = {
    "PCA": "#009E73",
    "SpectralEmbedding": "#CC79A7",
    "UMAP": "#D55E00",
    "DiffusionMaps, 15 neighbours": "#0072B2",
}


def write_page(directory: Path) -> Path:
    """Draw the picture and write the page, for whatever tables are there."""
    store = Store(directory)
    tables = {name: store.read(name) for name in store.names}
    origins = {name: store.provenance(name) for name in tables}
    data = by_data(tables)
    _draw(data, directory / "pictures" / "differences")
    parts = ["# Embeddings in pipelines, measured", _INTRODUCTION.strip(), made_by(origins, "pipelines")]
    parts += ["## Protocol", _protocol(tables), "## Promises", promises(judged(tables))]
    parts += ["## Differences", _DIFFERENCES.strip().format(ours=OURS), _against(data)]
    parts += ["![Differences by data set and k](pictures/differences.png)"]
    parts += [_CLASSIFIERS.strip(), _by_classifier(tables)]
    parts += ["## Where it is ahead of all, and where behind", _OUTRIGHT.strip(), _outright(data)]
    parts += ["## Everything", _TABLES.strip()]
    for name, scores in data.items():
        parts += [f"### {name.capitalize()}", _scores(scores)]
    parts += ["## Provenance", provenance(tables, origins)]
    page = directory / "index.md"
    write_whole(page, "\n\n".join(parts) + "\n")
    return page


def _protocol(tables: Tables) -> str:
    trials = max(table["trial"].nunique() for table in tables.values())
    listed = ", ".join(name for name, one in PIPELINES.items() if one.name in tables).capitalize()
    return _PROTOCOL.strip().format(data=listed, most=MOST_POINTS, level=LEVEL, trials=trials)


def _against(data: dict[str, pd.DataFrame]) -> str:
    rows = []
    for rival in (RAW, *RIVALS):
        row = [rival]
        for task in TASKS:
            found = [one for scores in data.values() for one in differences(scores, rival, task).values()]
            if not found:
                row.append("-")
                continue
            better, worse = sum(one.better for one in found), sum(one.worse for one in found)
            mean = sum(one.mean for one in found) / len(found)
            cell = f"{mean:+.3f} ({better} : {len(found) - better - worse} : {worse})"
            row.append(f"**{cell}**" if better > worse else cell)
        rows.append(row)
    return grid(["ours minus", *TASKS.values()], rows)


def _outright(data: dict[str, pd.DataFrame]) -> str:
    """Settings in which ours is better, or worse, than each of the usual choices, beyond its interval."""
    rows = []
    for name, scores in data.items():
        for task, words in TASKS.items():
            apart = {rival: differences(scores, rival, task) for rival in _USUAL}
            for k in sorted(set.intersection(*(set(found) for found in apart.values()))):
                found = [apart[rival][k] for rival in _USUAL]
                if all(one.better for one in found) or all(one.worse for one in found):
                    cells = [f"{one.mean:+.3f} ± {one.half_width:.3f}" for one in found]
                    rows.append([name, words, str(k), *cells])
    return grid(["data", "task", "k", *(f"minus {rival}" for rival in _USUAL)], rows)


def _by_classifier(tables: Tables) -> str:
    together = pd.concat(tables.values()).groupby(["method", "k"]).mean(numeric_only=True)
    ours, rival = together.loc[OURS], together.loc["UMAP"]
    rows = []
    for ending, where in (("", TASKS["labels"]), ("_unseen", TASKS["unseen"])):
        for name, title in (("nearest", "nearest neighbour"), ("logistic", "logistic regression")):
            columns = [f"{name}_{n}{ending}" for n in LABELS]
            apart = (ours[columns] - rival[columns]).mean(axis=1)
            rows.append([f"{where}, {title}", *(f"{value:+.3f}" for value in apart)])
    return grid(["ours minus UMAP", *(f"k = {k}" for k in ours.index)], rows)


def _draw(data: dict[str, pd.DataFrame], path: Path) -> None:
    drawn, axes = canvas(2, width=4.6, height=4.4)
    for ax, task in zip(axes, ("labels", "unseen"), strict=True):
        position, ticks = 0.0, {}
        for name, scores in data.items():
            by_rival = {rival: differences(scores, rival, task) for rival in _COLOURS}
            for k in sorted({k for found in by_rival.values() for k in found}):
                ticks[position] = f"{name}, k = {k}"
                for shift, (rival, found) in enumerate(by_rival.items()):
                    if k in found:
                        where = position + 0.18 * (shift - 1.5)
                        style = {"fmt": "o", "ms": 2.5, "lw": 1, "color": _COLOURS[rival]}
                        ax.errorbar(found[k].mean, where, xerr=found[k].half_width, **style)
                position += 1.0
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_yticks(list(ticks), list(ticks.values()), fontsize=6)
        ax.invert_yaxis()
        ax.set(xlabel="difference of balanced accuracy", title=TASKS[task])
    for rival, colour in _COLOURS.items():
        axes[0].plot([], [], "o", ms=3, color=colour, label=f"minus {rival}")
    drawn.legend(loc="outside lower center", ncols=len(_COLOURS), fontsize=6, frameon=False)
    save(drawn, path, ("png",))


def _scores(scores: pd.DataFrame) -> str:
    means = scores.groupby(level=["k", "method"]).mean().round(3)
    ks = [k for k in means.index.get_level_values("k").unique() if k]
    columns = [(task, k) for task in TASKS for k in ks]
    best = {(task, k): max(means.loc[k, task].max(), means.loc[(0, RAW), task]) for task, k in columns}
    rows = []
    for method in (RAW, *METHODS):
        row = [method]
        for task, k in columns:
            at = (0 if method == RAW else k, method)
            value = means[task].get(at, float("nan"))
            cell = "-" if pd.isna(value) else f"{value:.3f}".removeprefix("0")
            row.append(f"**{cell}**" if value == best[task, k] else cell)
        rows.append(row)
    return grid(["method", *(f"{TASKS[task]}, k = {k}" if k == ks[0] else f"{k}" for task, k in columns)], rows)
