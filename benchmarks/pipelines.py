"""Embeddings in pipelines with classifiers and clusterings, beside PCA and UMAP: ``python -m benchmarks.pipelines``."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, frame_table, main, section
from heatsketch_paper.pictures import canvas, save

from .data import LABELLED

DATA = {name: LABELLED[name] for name in ("digits", "blood cells", "wine", "breast cancer", "iris")}


# UMAP's default view of the data: fifteen neighbours, and a scale for each point.
_GRAPH: dict[str, Any] = {"n_neighbors": 15, "bandwidth": "self-tuning", "power": "multiscale"}


def _umap(k: int, seed: int, **settings: Any) -> Any:
    from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1, **settings)


RAW = "all features"
OURS = "HeatSketch, 15 neighbours"
METHODS: dict[str, Callable[[int, int], Any]] = {
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "SpectralEmbedding": lambda k, seed: SpectralEmbedding(k, random_state=seed),
    "SpectralEmbedding, 15 neighbours": lambda k, seed: SpectralEmbedding(k, n_neighbors=15, random_state=seed),
    "UMAP": _umap,
    "UMAP, for clusters": lambda k, seed: _umap(k, seed, n_neighbors=30, min_dist=0.0),
    "DiffusionMaps, auto": lambda k, _: hs.DiffusionMaps(k, power="auto"),
    "DiffusionMaps, 15 neighbours": lambda k, _: hs.DiffusionMaps(k, **_GRAPH),
    "GaussianProcessEmbedding, 15 neighbours": lambda k, seed: hs.GaussianProcessEmbedding(
        k, random_state=seed, **_GRAPH
    ),
    "HeatSketch, auto": lambda k, seed: hs.HeatSketch(k, power="auto", random_state=seed),
    OURS: lambda k, seed: hs.HeatSketch(k, objective="log-stress", random_state=seed, **_GRAPH),
}
RIVALS = tuple(name for name in METHODS if name != OURS)


LABELS = (2, 5, 10)
_DRAWS = 4
MOST_POINTS = 600
_DECIMALS = 4


@dataclass(frozen=True)
class Pipelines(Experiment):
    """Scores of classifiers and clusterings on embeddings of one data set, by method and number of components.

    ``nearest_5`` and ``logistic_5`` are balanced accuracies with five labels of each class, by the nearest labelled
    neighbour and by logistic regression, on the embedded points without labels; with ``_unseen`` on the third of the
    points that was not embedded. ``kmeans`` and ``hdbscan`` are adjusted mutual informations.
    """

    data: str = "digits"
    n_components: tuple[int, ...] = (2, 5, 10, 20)
    methods: tuple[str, ...] = tuple(METHODS)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, label = DATA[self.data]()
        rng, seed = self.points_seed(index), self.sketch_seed(index) % 2**31
        order = rng.permutation(len(X))[: self.n_samples]
        seen, unseen = np.split(order, [2 * len(order) // 3])
        draws = [(n, _drawn(label[seen], n, rng)) for n in LABELS for _ in range(_DRAWS)]
        score = partial(_scores, labels=[label[seen], label[unseen]], draws=draws, seed=seed)
        rows = [{"method": RAW, "k": 0} | score(X[seen], X[unseen])]
        for k in self.n_components:
            for name in self.methods:
                if name == "PCA" and k > X.shape[1]:
                    continue
                rows.append({"method": name, "k": k} | score(*_embedded(METHODS[name](k, seed), X[seen], X[unseen])))
        return rows


def _embedded(model: Any, X: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Embeddings of points, and of new points where the method has `transform`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about disconnected graphs, and that seeds need one thread
        Y = np.asarray(model.fit_transform(X), dtype=np.float64)
        placed = np.asarray(model.transform(new), dtype=np.float64) if hasattr(model, "transform") else None
    return Y, placed


def _drawn(label: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Points that get their labels: n of each class."""
    return np.concatenate([rng.permutation(np.flatnonzero(label == c))[:n] for c in np.unique(label)])


def _scores(Y: FloatArray, new: FloatArray | None, *, labels: list[IntArray], draws: list[Any], seed: int) -> Row:
    """Scores of classifiers, which get the drawn labels, and of clusterings on an embedding."""
    seen, unseen = labels
    # Logistic regression depends on the scale of each coordinate; all embedded points determine it.
    scaler = StandardScaler().fit(Y)
    scaled = None if new is None else scaler.transform(new)
    views = {
        "nearest": (KNeighborsClassifier(1), Y, new),
        "logistic": (LogisticRegression(max_iter=2000), scaler.transform(Y), scaled),
    }
    found: dict[str, list[float]] = defaultdict(list)
    for n, labelled in draws:
        rest = np.setdiff1d(np.arange(len(Y)), labelled)
        for name, (model, points, others) in views.items():
            model.fit(points[labelled], seen[labelled])
            found[f"{name}_{n}"].append(balanced_accuracy_score(seen[rest], model.predict(points[rest])))
            there = np.nan if others is None else balanced_accuracy_score(unseen, model.predict(others))
            found[f"{name}_{n}_unseen"].append(there)
    # HDBSCAN's noise counts as a cluster.
    kmeans = KMeans(len(np.unique(seen)), n_init=10, random_state=seed)
    for name, clustering in (("kmeans", kmeans), ("hdbscan", HDBSCAN(copy=True))):
        found[name].append(adjusted_mutual_info_score(seen, clustering.fit_predict(Y)))
    return {name: round(float(np.mean(values)), _DECIMALS) for name, values in found.items()}


PIPELINES = {
    data: Pipelines(f"pipelines_{data.replace(' ', '_')}", MOST_POINTS, 12, 231 + number, 25.0, data=data)
    for number, data in enumerate(DATA)
}


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


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """One number for each task, by k, method and trial: labels are means over their numbers and both classifiers."""
    labels = [c for c in table if c.startswith(("nearest_", "logistic_"))]
    unseen = [c for c in labels if c.endswith("_unseen")]
    seen = [c for c in labels if c not in unseen]
    scores = table[["trial", "method", "k", "kmeans", "hdbscan"]].copy()
    scores["labels"], scores["unseen"] = table[seen].mean(axis=1), table[unseen].mean(axis=1, skipna=False)
    return scores.set_index(["k", "method", "trial"])[list(TASKS)].sort_index()


def differences(tables: Tables) -> pd.DataFrame:
    """Mean of ours minus a rival's score, and the half-width of its interval, by rival, task, data and k.

    ``better`` and ``worse`` tell whether the interval excludes 0.
    """
    parts = []
    for data, experiment in PIPELINES.items():
        if experiment.name in tables:
            wide = scored(tables[experiment.name]).unstack("method")
            for task in TASKS:
                scores = wide[task]
                raw = scores.xs(0, level="k")[RAW]  # the same for every k
                scores = scores.drop(index=0, level="k").drop(columns=RAW)
                scores[RAW] = raw.reindex(scores.index, level="trial")
                apart = (-scores.drop(columns=OURS)).add(scores[OURS], axis=0).stack()
                apart = apart.rename_axis(["k", "trial", "rival"])
                parts.append(apart.rename("difference").reset_index().assign(data=data, task=task))
    if not parts:
        return pd.DataFrame()
    groups = pd.concat(parts).groupby(["rival", "task", "data", "k"], sort=False)["difference"]
    found = groups.agg(["mean", "sem", "count"]).query("count > 1").reset_index()
    half = student.ppf(0.5 + LEVEL / 2.0, found["count"] - 1) * found["sem"]
    return found.assign(half=half, better=found["mean"] > half, worse=found["mean"] < -half)


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims, over all data sets and numbers of components."""
    every = differences(tables)
    for task, rivals in _PROMISED.items():
        for rival in rivals if len(every) else ():
            found = every[(every["task"] == task) & (every["rival"] == rival)]
            mean, better, worse = found["mean"].mean(), found["better"].sum(), found["worse"].sum()
            yield claim(
                f"{TASKS[task].capitalize()}: no worse than {rival} on average, nor more often worse than better.",
                f"{mean:+.3f} on average; better in {better} of {len(found)} settings, worse in {worse}",
                mean >= 0 and better >= worse,
            )


_INTRODUCTION = """
How much an embedding helps the steps that follow it in a pipeline: a classifier with few labels, predictions for unseen
points, and a clustering. Measured on real data that need no download, beside PCA, scikit-learn's `SpectralEmbedding`
and UMAP.
"""
_PROTOCOL = """
**Data.** Digits, blood cells, wine, breast cancer, iris. Features of wine, breast cancer and iris are standardised. The
blood cells are those shipped with scanpy, by 50 principal components, without kinds of fewer than 30 members.

**A trial.** At most 600 points are drawn. Two thirds are embedded without labels; the last third is *unseen*. Then 2, 5
and 10 points of each class get their labels, four times each, and two classifiers are trained on these: the nearest
labelled neighbour, and logistic regression on standardised coordinates. Both predict the other embedded points (*few
labels*) and the unseen ones, embedded by `transform` (*unseen points*). The score is the balanced accuracy, averaged
over numbers of labels, draws and both classifiers (the CSV files have each separately). The embedded points are also
clustered, by k-means with the true number of classes and ten starts, and by HDBSCAN with scikit-learn's defaults; the
score is the adjusted mutual information with the classes, where HDBSCAN's noise counts as a cluster.

**Methods** have the same numbers of components k (PCA up to the number of features), and nothing is tuned on labels.
Most have two settings: the plain one, and one for the purpose. For UMAP that is what its documentation recommends for
clustering (`n_neighbors=30, min_dist=0`), for `SpectralEmbedding` 15 neighbours instead of a tenth of the points. For
ours, "auto" is `power="auto"`, and "15 neighbours" is UMAP's default view of the data, fifteen neighbours and a scale
for each point: `n_neighbors=15, bandwidth="self-tuning", power="multiscale"`; HeatSketch then has
`objective="log-stress"`. "All features" is no embedding.

**Development.** Our settings were chosen on single draws of the same data sets, with other seeds; the results are from
other draws, made once. Intervals are Student's at level 0.95 for the mean paired difference over {trials} trials. They
cover other draws from the same data, not other data, and are not corrected for their number.
"""
_DIFFERENCES = f"""
{OURS} against each other method, over all data sets and k: the mean difference of the scores, and in how many settings
(a data set, a k) its interval is above 0 : contains 0 : is below 0. Bold where ours is better more often than worse.
"""
_CLASSIFIERS = """
The same difference to UMAP by classifier, a mean over the numbers of labels and all data sets. Logistic regression uses
standardised coordinates, which gives the last directions the same weight as the first; the nearest neighbour uses the
distances of the embedding.
"""
# What people use now.
_USUAL = ("PCA", "DiffusionMaps, 15 neighbours", "UMAP")
_OUTRIGHT = """
Settings in which ours is better than PCA, diffusion maps and UMAP at once, or worse than all three, each beyond its 95%
interval over the trials. The trials of a setting share their data set, and there are many settings: a single row is
weak evidence, several similar ones are stronger.
"""
_COLOURS = {
    "PCA": "#009E73",
    "SpectralEmbedding": "#CC79A7",
    "UMAP": "#D55E00",
    "DiffusionMaps, 15 neighbours": "#0072B2",
}
_NAMES = [experiment.name for experiment in PIPELINES.values()]


def _draw(tables: Tables, folder: Path) -> None:
    found = differences(tables)
    if found.empty:
        return
    drawn, axes = canvas(2, width=4.6, height=4.4)
    for ax, task in zip(axes, ("labels", "unseen"), strict=True):
        shown = found[(found["task"] == task) & found["rival"].isin(_COLOURS)]
        order = shown.assign(order=shown["data"].map(list(DATA).index)).sort_values(["order", "k"])
        places = {setting: i for i, setting in enumerate(dict.fromkeys(zip(order["data"], order["k"], strict=True)))}
        for shift, (rival, colour) in enumerate(_COLOURS.items()):
            part = shown[shown["rival"] == rival]
            at = [places[setting] + 0.18 * (shift - 1.5) for setting in zip(part["data"], part["k"], strict=True)]
            ax.errorbar(part["mean"], at, xerr=part["half"], fmt="o", ms=2.5, lw=1, color=colour)
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_yticks(list(places.values()), [f"{data}, k = {k}" for data, k in places], fontsize=6)
        ax.invert_yaxis()
        ax.set(xlabel="difference of balanced accuracy", title=TASKS[task])
    for rival, colour in _COLOURS.items():
        axes[0].plot([], [], "o", ms=3, color=colour, label=f"minus {rival}")
    drawn.legend(loc="outside lower center", ncols=len(_COLOURS), fontsize=6, frameon=False)
    save(drawn, folder / "differences", ("png",))


@section(_NAMES, _PROTOCOL)
def _protocol(_: Tables) -> str:
    return ""


@section(_NAMES, _DIFFERENCES)
def _differences(tables: Tables) -> str:
    found = differences(tables)
    if found.empty:
        return ""
    groups = found.groupby(["rival", "task"])
    mean, better, worse = groups["mean"].mean(), groups["better"].sum(), groups["worse"].sum()
    same = groups.size() - better - worse
    cells = pd.Series({at: f"{mean[at]:+.3f} ({better[at]} : {same[at]} : {worse[at]})" for at in mean.index})
    cells = cells.where(better <= worse, "**" + cells + "**")
    order = [rival for rival in (RAW, *RIVALS) if rival in set(mean.index.get_level_values("rival"))]
    against = cells.unstack().loc[order, list(TASKS)].rename(columns=TASKS).rename_axis("ours minus").reset_index()
    picture = "![Differences by data set and k](pictures/differences.png)"
    parts = [frame_table(against), picture, _CLASSIFIERS.strip(), _by_classifier(tables)]
    return "\n\n".join(parts)


def _by_classifier(tables: Tables) -> str:
    together = pd.concat(tables.values()).groupby(["method", "k"]).mean(numeric_only=True)
    if "UMAP" not in together.index:
        return ""
    apart = together.loc[OURS] - together.loc["UMAP"]
    rows = {}
    for ending, where in (("", TASKS["labels"]), ("_unseen", TASKS["unseen"])):
        for name, title in (("nearest", "nearest neighbour"), ("logistic", "logistic regression")):
            rows[f"{where}, {title}"] = apart[[f"{name}_{n}{ending}" for n in LABELS]].mean(axis=1)
    found = pd.DataFrame(rows).T.rename(columns=lambda k: f"k = {k}").rename_axis("ours minus UMAP")
    return frame_table(found.reset_index(), dict.fromkeys(found, "+.3f"))


@section(_NAMES, _OUTRIGHT)
def _outright(tables: Tables) -> str:
    found = differences(tables)
    if found.empty:
        return ""
    found = found[found["rival"].isin(_USUAL)].assign(
        cell=lambda f: f["mean"].map("{:+.3f}".format) + " ± " + f["half"].map("{:.3f}".format)
    )
    wide = found.pivot(index=["data", "task", "k"], columns="rival", values=["better", "worse", "cell"]).dropna()
    outright = wide[wide["better"].all(axis=1) | wide["worse"].all(axis=1)]["cell"][list(_USUAL)]
    return frame_table(outright.add_prefix("minus ").rename(index=TASKS).reset_index())


@section(_NAMES, "Means over the trials; the best of each column is bold.")
def _everything(tables: Tables) -> str:
    parts = []
    for data, experiment in PIPELINES.items():
        if experiment.name in tables:
            means = scored(tables[experiment.name]).groupby(level=["k", "method"]).mean().round(3)
            wide = means.drop(index=0, level="k").unstack("k")
            wide.loc[RAW] = [means.loc[(0, RAW), task] for task, _ in wide.columns]
            shown = wide.map(lambda value: "-" if pd.isna(value) else f"{value:.3f}".removeprefix("0"))
            shown = shown.where(wide != wide.max(), "**" + shown + "**")
            shown = shown.loc[[method for method in (RAW, *METHODS) if method in wide.index]]
            first = wide.columns[0][1]
            shown.columns = [f"{TASKS[task]}, k = {k}" if k == first else str(k) for task, k in wide.columns]
            parts.append(f"### {data.capitalize()}\n\n{frame_table(shown.rename_axis('method').reset_index())}")
    return "\n\n".join(parts)


STUDY = Study(
    "pipelines",
    "Embeddings in pipelines, measured",
    _INTRODUCTION,
    tuple(PIPELINES.values()),
    judged,
    {
        "Protocol": _protocol,
        "Differences": _differences,
        "Where it is ahead of all, and where behind": _outright,
        "Everything": _everything,
    },
    _draw,
    # Fewer points would leave none without a label.
    quick=lambda experiment: replace(experiment, n_trials=1, n_components=(2,)),  # type: ignore[call-arg]
)

if __name__ == "__main__":
    main(STUDY)
