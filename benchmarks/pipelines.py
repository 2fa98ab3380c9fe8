"""HeatSketch beside other embeddings, for labels, clusters and pictures: ``python -m benchmarks.pipelines``."""

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

# Claims, with the thresholds that were set before the study.

_LEAST = {"labels": 0.0, "unseen": 0.0, "kmeans": -0.01, "hdbscan": -0.03, "trustworthiness": -0.01, "data_rank": 0.0}
_LEAST_NEIGHBORS = -0.005
_LEAST_MULTISCALE, _AT = 0.85, 10
_UNSEEN = 0.02
_FASTER = 2.0


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """One number for each measure, by data, k and method: a mean over trials.

    Labels are means over their numbers and both classifiers; logistic regression counts with the given axes or the
    rotated ones, whichever is better.
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
    """Mean of our score minus that of each rival, and the half-width of its interval over data sets, by measure."""
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
    """All claims whose tables are there."""
    for name, group in GROUPS.items():
        if name in tables:
            yield from _judged_embeddings(tables[name], group)
    if "seeds" in tables:
        means = tables["seeds"].groupby("method")["procrustes"].mean()
        statement = "Pictures by other seeds are closer to each other than those of UMAP."
        yield claim(statement, f"{means[OURS]:.2f} against {means[RIVAL]:.2f}", means[OURS] < means[RIVAL])
    if "cells" in tables:
        for reference, table in tables["cells"].groupby("reference"):
            ranks = mean_ranks(table)
            shown = ", ".join(f"{name} {ranks[name]:.1f}" for name in dict.fromkeys([*ranks.index[:3], OURS]))
            statement = f"Cells, measures of Open Problems against the {reference}: first by the mean rank."
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
            statement = f"{group.capitalize()}, {MEASURES[measure]}: at least {least:+g} against UMAP."
            yield claim(statement, f"{mean:+.3f} ± {half:.3f}", mean >= least)
    scores = scored(table)
    if NEIGHBORS in scores.index.unique("method"):
        other = differences(table, NEIGHBORS).set_index(["measure", "rival"])
        mean, half = other.loc[("trustworthiness", RIVAL), ["mean", "half"]]
        statement = (
            f"{group.capitalize()}, trustworthiness, neighbours alone: at least {_LEAST_NEIGHBORS} against UMAP."
        )
        yield claim(statement, f"{mean:+.3f} ± {half:.3f}", mean >= _LEAST_NEIGHBORS)
    ours = scores.xs(OURS, level="method")
    if _AT in ours.index.unique("k"):
        mean = ours.xs(_AT, level="k")["multiscale_rank"].mean()
        statement = f"{group.capitalize()}: rank correlation with the multiscale distance at least {_LEAST_MULTISCALE}"
        yield claim(f"{statement} at k = {_AT}.", f"{mean:.3f}", mean >= _LEAST_MULTISCALE)
    gap = (ours["labels"] - ours["unseen"]).mean()
    statement = f"{group.capitalize()}: labels of unseen points are predicted as well as those of seen ones"
    yield claim(f"{statement}, within {_UNSEEN}.", f"{gap:.3f} lower", gap <= _UNSEEN)


def mean_ranks(table: pd.DataFrame) -> pd.Series:
    """Mean over measures of the rank of each method, from the best; our own variant is no rival."""
    means = table.groupby("method")[list(OPEN_PROBLEMS)].mean().drop(NEIGHBORS, errors="ignore")
    return means.rank(ascending=False).mean(axis=1).sort_values()


def _ratios(times: pd.DataFrame) -> pd.Series:
    wide = times.pivot_table("seconds", ["n", "data"], "method")
    return wide[RIVAL] / wide[OURS]


_INTRODUCTION = """
What an embedding is worth for the steps that follow it, a classifier with few labels, predictions for unseen points, a
clustering, and for a picture. `HeatSketch` with its defaults beside UMAP, densMAP, PHATE, t-SNE (openTSNE),
`SpectralEmbedding` and PCA with theirs, on real data that need no download.
"""
_PROTOCOL = """
**Data.** The developing sets were looked at while `HeatSketch` was made, in other draws. The new sets were chosen by
name when it seemed finished. Measured once, they showed that HDBSCAN found their classes less well than with UMAP
(-0.043 ± 0.066). Then the similarities of the embedding got the scales of the data, which keeps densities; this was
chosen by the developing sets. The last sets were chosen by name after that, and measured once. Pixels and principal
components keep their unit; other measurements are standardised. The blood cells are those shipped with scanpy, by 50
principal components, without kinds of fewer than 30 members.

**A trial.** At most 600 points are drawn. Two thirds are embedded without labels; the last third is *unseen*. Then 2, 5
and 10 points of each class get their labels, three times each, and two classifiers are trained on these: the nearest
labelled neighbour, and logistic regression on standardised coordinates. Both predict the other embedded points (*few
labels*) and the unseen ones, embedded by `transform` (*unseen points*). The score is the balanced accuracy, a mean over
numbers of labels, draws and both classifiers. Logistic regression depends on the axes; it is run on those that a method
gives and on axes of equal variance, and the better of both counts. The embedded points are also clustered, by k-means
with the true number of classes and ten starts, and by HDBSCAN with scikit-learn's defaults; the score is the adjusted
mutual information with the classes, where HDBSCAN's noise counts as a cluster. Trustworthiness has 15 neighbours. The
rank correlations are Spearman's, of the distances of all pairs with those of the data and with the multiscale distance.

**Methods** have the same numbers of components k: 2, 5, 10 and 20 (PCA up to the number of features; t-SNE 2; PHATE,
which takes longest, 2 and 10 in most trials). "UMAP, for clusters" is what its documentation recommends,
`n_neighbors=30, min_dist=0`; "HeatSketch, neighbours alone" is `neighbor_weight=1`. Both rows of `HeatSketch` were
measured again when densities were kept; those of other methods, on the same draws, were not.
"""
_DIFFERENCES = """
`HeatSketch` minus each other method: the mean over data sets of the difference, itself a mean over k and trials, and
its 95% interval, Student's over data sets.
"""
_SCORES = """
Means over data sets and trials, by the number of components.
"""
_OTHER_SEEDS = """
Procrustes distance between pictures of the same 600 points by two seeds, a mean over all data sets: 0 if they are the
same, 1 if they have nothing in common.
"""
_OPEN_PROBLEMS = """
The measures of Open Problems' task of dimensionality reduction (openproblems.bio), computed anew on scanpy's 700 blood
cells: embeddings of 50 principal components in the plane, compared with these components and with the 765 genes, most
of whose variance is noise. Means over {trials} seeds, and the mean of the ranks.
"""
_SECONDS = """
Seconds of a fit on two cores, neighbours included, each in a process of its own after smaller fits: `HeatSketch()` and
`UMAP()`, without a seed, which would keep UMAP to one thread. The median of three up to 12,000 points.
"""
_SIDE_BY_SIDE = """
Every method with its defaults on at most 2,000 points, by one seed: digits, MNIST and blood cells by their classes, a
tree of ten branches in R^50 by branch, a swiss roll by its angle.

![Digits, MNIST, blood cells, a tree and a swiss roll by every method](pictures/methods.png)
"""


@section(GROUPS, _PROTOCOL)
def _protocol(tables: Tables) -> str:
    failed = [text for table in tables.values() for text in _failed(table)]
    return f"**Errors.** {', '.join(failed)}; left out." if failed else ""


def _failed(table: pd.DataFrame) -> Iterator[str]:
    """Methods that raised errors, with the data and the number of trials: they have no row in the plane."""
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
        text = f"{names[0].upper()}{names[1:]}; at least {trials.min()} trials of each."
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
