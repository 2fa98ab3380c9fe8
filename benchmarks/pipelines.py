"""Compare embeddings for few labels, clusters and pictures: ``python -m benchmarks.pipelines``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from heatsketch_paper.harness.experiment import Experiment
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, frame_table, main, section
from heatsketch_paper.pictures import canvas, save

from .pipelines_trials import (
    CELLS,
    DRAWN,
    EMBEDDINGS,
    METHODS,
    NEIGHBORS,
    OURS,
    PICTURES,
    RAW,
    RIVAL,
    SEEDS,
    TIMES,
    Cells,
    Embeddings,
    Pictures,
    Seeds,
    Times,
)

LEVEL = 0.95
MEASURES = {
    "labels": "few labels",
    "unseen": "few labels, unseen points",
    "kmeans": "k-means",
    "hdbscan": "HDBSCAN",
    "trustworthiness": "trustworthiness",
    "data_rank": "rank correlation with the data",
    "multiscale_rank": "with the multiscale distance",
}
GROUPS = {"developing": "developing sets", "new": "new sets", "last": "last sets"}
OPEN_PROBLEMS = (
    "distance correlation",
    "trustworthiness",
    "continuity",
    "common neighbours",
    "common neighbours, mean",
    "common neighbours, local",
    "common neighbours, global",
    "density",
)

# Thresholds of the claims, set before the study.

_LEAST = {"labels": 0.0, "unseen": 0.0, "kmeans": -0.01, "hdbscan": -0.03, "trustworthiness": -0.01, "data_rank": 0.0}
_LEAST_NEIGHBORS = -0.005
_LEAST_MULTISCALE, _AT = 0.85, 10
_UNSEEN = 0.02
_FASTER = 2.0


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """Mean over trials of each measure, by data set, k and method.

    The scores with few labels are means over the numbers of labels and both classifiers. For logistic regression, the
    better of the original and the rotated axes counts.
    """
    means = table.groupby(["data", "k", "method"], sort=False).mean(numeric_only=True)
    parts = {}
    for name, suffix in (("labels", ""), ("unseen", "_unseen")):
        nearest = means.filter(regex=rf"^nearest_\d+{suffix}$").mean(axis=1, skipna=False)
        given = means.filter(regex=rf"^logistic_\d+{suffix}$").mean(axis=1, skipna=False)
        rotated = means.filter(regex=rf"^logistic_\d+_rotated{suffix}$").mean(axis=1, skipna=False)
        parts[name] = (nearest + given.combine(rotated, np.maximum)) / 2.0
    return means.assign(**parts)[list(MEASURES)]


def differences(table: pd.DataFrame, ours: str = OURS) -> pd.DataFrame:
    """Mean difference between `ours` and each other method, and half-width of its interval over data sets."""
    wide = scored(table).unstack("method")
    rows = []
    for measure in MEASURES:
        scores = wide[measure]
        for rival in scores.columns.drop([name for name in (ours, RAW) if name in scores]):
            apart = (scores[ours] - scores[rival]).groupby("data").mean().dropna()
            if len(apart) > 1:
                half = student.ppf(0.5 + LEVEL / 2.0, len(apart) - 1) * apart.sem()
                rows.append({"measure": measure, "rival": rival, "mean": apart.mean(), "half": half})
    return pd.DataFrame(rows, columns=["measure", "rival", "mean", "half"])


def judged(tables: Tables) -> Iterator[Claim]:
    """Claims about the tables that exist."""
    for name, group in GROUPS.items():
        if name in tables:
            yield from _judged_embeddings(tables[name], group)
    if "seeds" in tables:
        means = tables["seeds"].groupby("method")["procrustes"].mean()
        statement = "Pictures from two seeds are closer to each other than UMAP's."
        yield claim(statement, f"{means[OURS]:.2f} against {means[RIVAL]:.2f}", means[OURS] < means[RIVAL])
    if "cells" in tables:
        for reference, table in tables["cells"].groupby("reference"):
            ranks = mean_ranks(table)
            shown = ", ".join(f"{name} {ranks[name]:.1f}" for name in dict.fromkeys([*ranks.index[:3], OURS]))
            statement = f"Blood cells, against the {reference}: HeatSketch has the best mean rank by Open Problems."
            yield claim(statement, shown, ranks.index[0] == OURS)
    if "times" in tables:
        ratio = _ratios(tables["times"])
        statement = f"At least {_FASTER:g} times as fast as UMAP at every size."
        yield claim(statement, f"{ratio.min():.1f} to {ratio.max():.1f} times", ratio.min() >= _FASTER)


def _judged_embeddings(table: pd.DataFrame, group: str) -> Iterator[Claim]:
    found = differences(table).set_index(["measure", "rival"])
    for measure, least in _LEAST.items():
        if (measure, RIVAL) in found.index:
            mean, half = found.loc[(measure, RIVAL), ["mean", "half"]]
            statement = f"{group.capitalize()}, {MEASURES[measure]}: mean difference against UMAP at least {least:+g}."
            yield claim(statement, f"{mean:+.3f} ± {half:.3f}", mean >= least)
    scores = scored(table)
    if NEIGHBORS in scores.index.unique("method"):
        other = differences(table, NEIGHBORS).set_index(["measure", "rival"])
        mean, half = other.loc[("trustworthiness", RIVAL), ["mean", "half"]]
        statement = (
            f"{group.capitalize()}, trustworthiness, neighbours alone: mean difference against UMAP at least "
            f"{_LEAST_NEIGHBORS}."
        )
        yield claim(statement, f"{mean:+.3f} ± {half:.3f}", mean >= _LEAST_NEIGHBORS)
    ours = scores.xs(OURS, level="method")
    if _AT in ours.index.unique("k"):
        mean = ours.xs(_AT, level="k")["multiscale_rank"].mean()
        statement = f"{group.capitalize()}: rank correlation with the multiscale distance at least {_LEAST_MULTISCALE}"
        yield claim(f"{statement} at k = {_AT}.", f"{mean:.3f}", mean >= _LEAST_MULTISCALE)
    gap = (ours["labels"] - ours["unseen"]).mean()
    statement = f"{group.capitalize()}, few labels: scores of unseen points are at most {_UNSEEN} below those of fitted"
    yield claim(f"{statement} ones.", f"{gap:.3f} lower", gap <= _UNSEEN)


def mean_ranks(table: pd.DataFrame) -> pd.Series:
    """Mean rank of each method over the measures, best first, without our variant `NEIGHBORS`."""
    means = table.groupby("method")[list(OPEN_PROBLEMS)].mean().drop(NEIGHBORS, errors="ignore")
    return means.rank(ascending=False).mean(axis=1).sort_values()


def _ratios(times: pd.DataFrame) -> pd.Series:
    wide = times.pivot_table("seconds", ["n", "data"], "method")
    return wide[RIVAL] / wide[OURS]


_INTRODUCTION = """
This page compares `HeatSketch` with UMAP, densMAP, PHATE, t-SNE (openTSNE), `SpectralEmbedding` and PCA, each with its
default settings, on 32 labelled data sets: how well classifiers with few labels, clusterings and pictures work on each
embedding, and how long a fit takes. `make pipelines ARGS="--output out/pipelines"` runs everything again in another
folder; the data sets come with Python packages and need no download. `make pipelines` only runs trials that are missing
here.

**Losses.** t-SNE has a higher trustworthiness in all three groups of data sets, and classifiers on it predict unseen
points slightly better. HDBSCAN finds the classes better with UMAP and t-SNE in all three groups. So does k-means on the
last sets. PCA keeps straight-line distances better, and densMAP densities. These differences in classification and
clustering are within their 95% intervals ([differences](#differences)).

**Claims.** The thresholds below were set before the study. A mean difference is the score of `HeatSketch` minus that of
the other method, so that positive values are in favour of `HeatSketch`.
"""
_PROTOCOL = """
**Data.** `HeatSketch` was developed on the *developing sets*, with other random samples of them. The *new sets* were
chosen by name when the method seemed finished, and measured once. On these HDBSCAN found the classes less well than
with UMAP (-0.043 ± 0.066). The similarities in the embedding were therefore given the scales of the data, which keeps
densities. This change was chosen on the developing sets. Only then were the *last sets* chosen, by name, and measured
once. Pixels and principal components are used as they are. Other features are standardised. The blood cells are those
shipped with scanpy, as 50 principal components, without cell types of fewer than 30 cells.

**A trial** draws at most 600 points of a data set. Each method is fitted to two thirds of them, without labels. The
last third is *unseen*, and is embedded by `transform`. Then 2, 5 or 10 points of each class get their labels, in three
random draws for each number. Two classifiers are trained on the labelled points: the nearest labelled neighbour, and
logistic regression on standardised coordinates. They predict the other fitted points (*few labels*) and the unseen
points (*few labels, unseen points*). The score is the balanced accuracy, a mean over the numbers of labels, the draws
and both classifiers. Logistic regression depends on the axes of the embedding. It is run on the axes of the method and
on rotated axes of equal variance, and the better result counts.

The fitted points are also clustered, by *k-means* with the true number of classes and ten starts, and by *HDBSCAN* with
scikit-learn's defaults. The score is the adjusted mutual information with the classes; HDBSCAN's noise counts as one
cluster. *Trustworthiness* uses 15 neighbours. The two rank correlations are Spearman's, over all pairs: of distances in
the embedding with distances in the data, and with multiscale diffusion distances.

**Methods.** All have the same numbers of components k, 2, 5, 10 and 20, with these exceptions: PCA has at most as many
as there are features, t-SNE has 2, and PHATE, which takes longest, has 2 and 10 in most trials. "UMAP, for clusters"
has the settings that its documentation recommends, `n_neighbors=30, min_dist=0`. "HeatSketch, neighbours alone" is
`neighbor_weight=1`. Both rows of `HeatSketch` were measured again after the change that keeps densities, on the same
draws. The rows of other methods are from the first run.
"""
_DIFFERENCES = """
Each entry is the score of `HeatSketch` minus that of the method in the row: positive means that `HeatSketch` is better.
It is the mean over data sets, ± the half-width of its 95% interval (Student's t over data sets). Before that, the
difference on each data set is averaged over trials and over the numbers of components that both methods have. An empty
entry means that the method cannot embed new points.

The picture below the tables shows the differences to UMAP for each data set: the mean over k, and the range.
"""
_SCORES = """
Means over data sets and trials, for each number of components k; larger is better. The row "all features" uses the data
without an embedding. An entry is empty if it was not measured.

PCA has k components only where a data set has at least k features. Its means for k = 5, 10 and 20 therefore cover only
those data sets, and are not comparable with the means of other rows; the [differences](#differences) are. PHATE's means
for k = 5 and 20 are from the first two trials at most.
"""
_OTHER_SEEDS = """
Procrustes distance between pictures of the same 600 points with two seeds: 0 means that they are the same, 1 that they
have nothing in common. Mean, median and maximum are over the developing and the new sets.
"""
_OPEN_PROBLEMS = """
The measures of the dimensionality reduction task of Open Problems (openproblems.bio), computed here on scanpy's 700
blood cells. Embeddings of 50 principal components in the plane are compared with these components, and with the 765
genes, most of whose variance is noise. Entries are means over {trials} seeds; larger is better. The last column is the
mean of the ranks over all measures, where 1 is the best; rows are in its order.
"""
_SECONDS = """
Seconds of a fit on two cores, including the search for neighbours: `HeatSketch()` and `UMAP()`, without a seed, since a
seed restricts UMAP to one thread. Each case runs in its own process, after a fit of at most 5,000 other points. Entries
are the median of three fits for up to 12,000 points, and one fit for more. The last column is the time of UMAP divided
by that of `HeatSketch`. UMAP was not run on a million points.
"""
_SIDE_BY_SIDE = """
Every method with its defaults on at most 2,000 points, with one seed. Colours show the classes of digits, MNIST and
blood cells, the branches of a tree of ten branches in R^50, and the angle along a swiss roll.

![Digits, MNIST, blood cells, a tree and a swiss roll by every method](pictures/methods.png)
"""


@section(GROUPS, _PROTOCOL)
def _protocol(tables: Tables) -> str:
    failed = [text for table in tables.values() for text in _failed(table)]
    return f"**Errors.** Trials in which a method raised an error are left out: {', '.join(failed)}." if failed else ""


def _failed(table: pd.DataFrame) -> Iterator[str]:
    """Methods that raised errors, which lack rows for k = 2, with the data set and the number of trials."""
    trials = table[table["k"] == 2].groupby(["method", "data"])["trial"].nunique().unstack("method").fillna(0)
    for method in trials:
        for data, missing in (trials[OURS] - trials[method]).items():
            if missing > 0:
                yield f"{method} on {data} in {missing:.0f} of {trials[OURS][data]:.0f} trials"


@section(GROUPS, _DIFFERENCES)
def _differences(tables: Tables) -> str:
    parts = []
    for name, table in tables.items():
        found = differences(table)
        text = [f"{mean:+.3f} ± {half:.3f}" for mean, half in zip(found["mean"], found["half"], strict=True)]
        wide = found.assign(text=text).pivot_table("text", "rival", "measure", aggfunc="first")
        wide = wide.reindex(index=[m for m in METHODS if m in wide.index], columns=list(MEASURES)).fillna("")
        shown = frame_table(wide.rename(columns=MEASURES).rename_axis("HeatSketch minus").reset_index())
        trials = table.groupby("data")["trial"].nunique()
        names = ", ".join(sorted(trials.index, key=str.lower))
        text = f"Data sets, with at least {trials.min()} trials of each: {names}."
        parts.append(f"### {GROUPS[name].capitalize()}\n\n{text}\n\n{shown}")
    return "\n\n".join([*parts, "![Differences to UMAP by data set](pictures/differences.png)"])


@section(GROUPS, _SCORES)
def _scores(tables: Tables) -> str:
    parts = []
    for name, table in tables.items():
        scores = scored(table)
        for measure, title in MEASURES.items():
            wide = scores[measure].groupby(["method", "k"]).mean().unstack("k")
            wide = wide.reindex([m for m in (RAW, *METHODS) if m in wide.index])
            wide.columns = [f"k = {k}" if k else "all" for k in wide.columns]
            shown = frame_table(wide.reset_index(), dict.fromkeys(wide, ".3f"))
            parts.append(f"### {GROUPS[name].capitalize()}: {title}\n\n{shown}")
    return "\n\n".join(parts)


@section(["seeds"], _OTHER_SEEDS)
def _seeds(tables: Tables) -> str:
    means = tables["seeds"].groupby("method", sort=False)["procrustes"].agg(["mean", "median", "max"])
    return frame_table(means.reset_index(), dict.fromkeys(means, ".2f"))


@section(["cells"], _OPEN_PROBLEMS)
def _cells(tables: Tables) -> str:
    parts = []
    for reference, table in tables["cells"].groupby("reference"):
        ranks = mean_ranks(table)
        means = table.groupby("method")[list(OPEN_PROBLEMS)].mean().loc[ranks.index]
        formats = dict.fromkeys(means, ".3f") | {"rank": ".1f"}
        shown = frame_table(means.assign(rank=ranks).reset_index(), formats)
        parts.append(f"### Against the {reference}\n\n{shown}")
    return "\n\n".join(parts)


@section(["times", "times_of_a_million"], _SECONDS)
def _times(tables: Tables) -> str:
    wide = pd.concat(tables.values()).pivot_table("seconds", ["data", "n"], "method")[[OURS, RIVAL]]
    wide["times as fast"] = wide[RIVAL] / wide[OURS]
    return frame_table(wide.reset_index(), {"n": ",", OURS: ".2f", RIVAL: ".2f", "times as fast": ".1f"})


@section(["pictures"], _SIDE_BY_SIDE)
def _pictures(_: Tables) -> str:
    return ""


def _draw(tables: Tables, folder: Path) -> None:
    if groups := [name for name in GROUPS if name in tables]:
        _draw_differences({name: tables[name] for name in groups}, folder)
    if "pictures" in tables:
        _draw_pictures(tables["pictures"], folder)


def _draw_differences(tables: Tables, folder: Path) -> None:
    shown = ("labels", "unseen", "kmeans", "hdbscan")
    drawn, axes = canvas(len(shown), width=2.4, height=4.6)
    for ax, measure in zip(axes, shown, strict=True):
        names: list[str] = []
        for table, colour in zip(tables.values(), ("#0072B2", "#D55E00", "#009E73"), strict=False):
            wide = scored(table)[measure].unstack("method")
            apart = (wide[OURS] - wide[RIVAL]).groupby("data").agg(["mean", "min", "max"]).sort_values("mean")
            at = range(len(names), len(names) + len(apart))
            reach = np.array([apart["mean"] - apart["min"], apart["max"] - apart["mean"]])
            ax.errorbar(apart["mean"], at, xerr=reach, fmt="o", ms=2.5, lw=1, color=colour)
            names += list(apart.index)
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_yticks(range(len(names)), names, fontsize=5)
        ax.set_title(MEASURES[measure], fontsize=7)
        ax.tick_params(axis="x", labelsize=6)
    drawn.supxlabel("HeatSketch minus UMAP: mean over k and range; new sets orange, last sets green", fontsize=7)
    save(drawn, folder / "differences", ("png",))


def _draw_pictures(table: pd.DataFrame, folder: Path) -> None:
    names = list(dict.fromkeys(table["data"]))
    drawn, axes = canvas(len(DRAWN), len(names), width=1.5, height=1.5)
    for place, ax in enumerate(axes):
        data, method = names[place // len(DRAWN)], DRAWN[place % len(DRAWN)]
        part = table[table["data"] == data]
        colours = "tab10" if part["colour"].nunique() <= 10 else "viridis"
        ax.scatter(part[f"{method} x"], part[f"{method} y"], c=part["colour"], cmap=colours, s=1.0, linewidths=0)
        ax.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim", box_aspect=1.0)
        ax.set_title(method if place < len(DRAWN) else "", fontsize=6)
        ax.set_ylabel(data if place % len(DRAWN) == 0 else "", fontsize=7)
    save(drawn, folder / "methods", ("png",))


def _quick(experiment: Experiment) -> Experiment | None:
    small = replace(experiment, n_trials=1, n_samples=min(experiment.n_samples, 150))
    fast = (OURS, NEIGHBORS, "PCA")
    if isinstance(small, Embeddings):
        return replace(small, data=small.data[:2], n_components=(2,), methods=(*fast, RIVAL))
    if isinstance(small, Seeds):
        return replace(small, data=small.data[:1], methods=(OURS, RIVAL))
    if isinstance(small, Cells):
        return replace(small, methods=(*fast, RIVAL))
    if isinstance(small, Times):
        return replace(small, sizes=(500,))
    return replace(small, data=("swiss roll",)) if isinstance(small, Pictures) else small


STUDY = Study(
    "pipelines",
    "HeatSketch beside UMAP and others, measured",
    _INTRODUCTION,
    (*EMBEDDINGS, SEEDS, CELLS, *TIMES, PICTURES),
    judged,
    {
        "Pictures": _pictures,
        "Protocol": _protocol,
        "Differences": _differences,
        "Times": _times,
        "Other seeds": _seeds,
        "Cells by the measures of Open Problems": _cells,
        "Scores": _scores,
    },
    _draw,
    _quick,
)

if __name__ == "__main__":
    main(STUDY)
