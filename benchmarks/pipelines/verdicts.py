"""Differences between methods, trial by trial, and what is promised of them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from scipy.stats import t as student

from ..pages import Tables, Verdict
from .methods import OURS, RAW, RIVALS
from .trials import PIPELINES

__all__ = ["LEVEL", "TASKS", "Difference", "by_data", "differences", "judged", "scored"]

LEVEL = 0.95
TASKS = {
    "labels": "few labels",
    "unseen": "few labels, unseen points",
    "kmeans": "clusters, k-means",
    "hdbscan": "clusters, HDBSCAN",
}
# What is promised, by rival: made before the trials on this page, from development on other draws.
_PROMISED = {
    "labels": ("PCA", "SpectralEmbedding", "DiffusionMaps, 15 neighbours", "HeatSketch, auto", "UMAP"),
    "unseen": ("PCA", "DiffusionMaps, 15 neighbours", "HeatSketch, auto", "UMAP"),
    "kmeans": ("PCA", "SpectralEmbedding", "DiffusionMaps, 15 neighbours", "UMAP"),
}


@dataclass(frozen=True)
class Difference:
    """Ours minus a rival's, over the trials of one data set and one k."""

    mean: float
    half_width: float

    @property
    def better(self) -> bool:
        """Whether the interval is above 0."""
        return self.mean > self.half_width

    @property
    def worse(self) -> bool:
        """Whether the interval is below 0."""
        return self.mean < -self.half_width


def by_data(tables: Tables) -> dict[str, pd.DataFrame]:
    """Scores of every data set that is there."""
    return {name: scored(tables[one.name]) for name, one in PIPELINES.items() if one.name in tables}


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """One number for each task, by (k, method) and trial: labels are means over their numbers and both classifiers."""
    told = [c for c in table if c.startswith(("nearest_", "logistic_"))]
    unseen = [c for c in told if c.endswith("_unseen")]
    seen = [c for c in told if c not in unseen]
    scores = table[["trial", "method", "k", "kmeans", "hdbscan"]].copy()
    scores["labels"], scores["unseen"] = table[seen].mean(axis=1), table[unseen].mean(axis=1, skipna=False)
    return scores.set_index(["k", "method", "trial"])[list(TASKS)].sort_index()


def differences(scores: pd.DataFrame, rival: str, task: str) -> dict[int, Difference]:
    """By k: ours minus a rival's with as many components, where it has them."""
    found = {}
    for k in sorted({k for k, method, _ in scores.index if method == OURS}):
        other = 0 if rival == RAW else k
        if (other, rival) not in scores.index.droplevel("trial"):
            continue
        apart = (scores.loc[(k, OURS), task] - scores.loc[(other, rival), task]).dropna()
        if len(apart) > 1:
            reach = float(student.ppf(0.5 + LEVEL / 2.0, len(apart) - 1))
            found[k] = Difference(float(apart.mean()), reach * float(apart.sem()))
    return found


def judged(tables: Tables) -> list[Verdict]:
    """All promises, over all data sets and numbers of components."""
    data = by_data(tables)
    verdicts = []
    for task, rivals in _PROMISED.items():
        for rival in rivals:
            assert rival in RIVALS
            found = [one for scores in data.values() for one in differences(scores, rival, task).values()]
            if not found:
                continue
            mean = sum(one.mean for one in found) / len(found)
            better, worse = sum(one.better for one in found), sum(one.worse for one in found)
            verdicts.append(
                Verdict(
                    f"{TASKS[task].capitalize()}: no worse than {rival} on average, nor more often worse than better.",
                    f"{mean:+.3f} on average; better in {better} of {len(found)} settings, worse in {worse}",
                    bool(mean >= 0 and better >= worse),
                )
            )
    return verdicts
