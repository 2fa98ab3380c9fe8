"""Embeddings in pipelines with classifiers and clusterings, beside PCA and UMAP: ``python -m benchmarks.pipelines``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, grid, main
from heatsketch_paper.pictures import canvas, save

Labelled = tuple[FloatArray, IntArray]
# Classes of cells with fewer members are left out: ten labels are taken of two thirds of them.
_FEWEST = 30


def _blood() -> Labelled:
    import scanpy  # noqa: PLC0415

    cells = scanpy.datasets.pbmc68k_reduced()
    kind = cells.obs["bulk_labels"].cat.codes.to_numpy()
    large = np.flatnonzero(np.bincount(kind)[kind] >= _FEWEST)
    return cells.obsm["X_pca"][large].astype(np.float64), kind[large]


def _standardised(load: Callable[..., Labelled]) -> Callable[[], Labelled]:
    def points() -> Labelled:
        X, label = load(return_X_y=True)
        return StandardScaler().fit_transform(X), label

    return points


# Pixels and principal components have a common unit; measurements of different kinds are standardised.
DATA: dict[str, Callable[[], Labelled]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "blood cells": _blood,
    "wine": _standardised(load_wine),
    "breast cancer": _standardised(load_breast_cancer),
    "iris": _standardised(load_iris),
}


# What UMAP looks at by default: fifteen neighbours, and a scale for each point.
_GRAPH: dict[str, Any] = {"n_neighbors": 15, "bandwidth": "self-tuning", "power": "entropy"}


def _umap(k: int, seed: int, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # that TensorFlow is not there
        from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1, **settings)


def _heat_sketch(k: int, seed: int) -> Any:
    return hs.HeatSketch(k, objective="log-stress", random_state=seed, **_GRAPH)


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
    OURS: _heat_sketch,
}
RIVALS = tuple(name for name in METHODS if name != OURS)


LABELS = (2, 5, 10)
_DRAWS = 4
MOST_POINTS = 600
_DECIMALS = 4


@dataclass(frozen=True)
class Pipelines(Experiment):
    """Rows of one data set: a method, a number of components, and what became of them.

    ``nearest_5`` and ``logistic_5`` are balanced accuracies with five labels of each class, by the nearest labelled
    neighbour and by logistic regression, on the points that were embedded without labels; with ``_unseen`` on a third
    of the points that were not. ``kmeans`` and ``hdbscan`` are adjusted mutual informations.
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
        judge = _Judge(label[seen], label[unseen], draws, seed)
        rows = [{"method": RAW, "k": 0} | judge(X[seen], X[unseen])]
        for k in self.n_components:
            for name in self.methods:
                if name == "PCA" and k > X.shape[1]:
                    continue  # there are no more components than features
                rows.append({"method": name, "k": k} | judge(*_embedded(METHODS[name](k, seed), X[seen], X[unseen])))
        return rows


def _embedded(model: Any, X: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Points, and new points where the method can place them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that graphs fall into parts, that seeds need one thread
        Y = np.asarray(model.fit_transform(X), dtype=np.float64)
        placed = np.asarray(model.transform(new), dtype=np.float64) if hasattr(model, "transform") else None
    return Y, placed


def _drawn(label: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Points whose label is told: n of each class."""
    return np.concatenate([rng.permutation(np.flatnonzero(label == c))[:n] for c in np.unique(label)])


@dataclass(frozen=True)
class _Judge:
    """What classifiers and clusterings make of coordinates; labels are told to the first only, and only those drawn."""

    seen: IntArray
    unseen: IntArray
    draws: list[tuple[int, IntArray]]
    seed: int

    def __call__(self, Y: FloatArray, new: FloatArray | None) -> Row:
        # Neighbours and clusters need no unit. Logistic regression does, and points without labels tell it.
        scaler = StandardScaler().fit(Y)
        views = {
            "nearest": (KNeighborsClassifier(1), Y, new),
            "logistic": (
                LogisticRegression(max_iter=2000),
                scaler.transform(Y),
                None if new is None else scaler.transform(new),
            ),
        }
        found: dict[str, list[float]] = {}
        for n, told in self.draws:
            rest = np.setdiff1d(np.arange(len(Y)), told)
            for name, (model, points, others) in views.items():
                model.fit(points[told], self.seen[told])
                guess = model.predict(points[rest])
                found.setdefault(f"{name}_{n}", []).append(balanced_accuracy_score(self.seen[rest], guess))
                there = np.nan if others is None else balanced_accuracy_score(self.unseen, model.predict(others))
                found.setdefault(f"{name}_{n}_unseen", []).append(there)
        row = {name: float(np.mean(values)) for name, values in found.items()}
        return {name: round(value, _DECIMALS) for name, value in (row | self._clusters(Y)).items()}

    def _clusters(self, Y: FloatArray) -> dict[str, float]:
        """Adjusted mutual information of the classes with clusters; what HDBSCAN leaves out is one of its own."""
        kmeans = KMeans(len(np.unique(self.seen)), n_init=10, random_state=self.seed)
        models = {"kmeans": kmeans, "hdbscan": HDBSCAN(copy=True)}
        return {name: float(adjusted_mutual_info_score(self.seen, m.fit_predict(Y))) for name, m in models.items()}


def _experiment(number: int, data: str, trials: int) -> Pipelines:
    return Pipelines(f"pipelines_{data.replace(' ', '_')}", MOST_POINTS, trials, 231 + number, 25.0, data=data)


PIPELINES = {data: _experiment(number, data, 12) for number, data in enumerate(DATA)}


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


def judged(tables: Tables) -> list[Claim]:
    """All claims, over all data sets and numbers of components."""
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
                claim(
                    f"{TASKS[task].capitalize()}: no worse than {rival} on average, nor more often worse than better.",
                    f"{mean:+.3f} on average; better in {better} of {len(found)} settings, worse in {worse}",
                    bool(mean >= 0 and better >= worse),
                )
            )
    return verdicts


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


def _draw(tables: Tables, folder: Path) -> None:
    data = by_data(tables)
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
    save(drawn, folder / "differences", ("png",))


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


def _differences(tables: Tables) -> str:
    picture = "![Differences by data set and k](pictures/differences.png)"
    parts = [_DIFFERENCES.strip().format(ours=OURS), _against(by_data(tables)), picture]
    return "\n\n".join([*parts, _CLASSIFIERS.strip(), _by_classifier(tables)])


def _everything(tables: Tables) -> str:
    parts = [f"### {name.capitalize()}\n\n{_scores(scores)}" for name, scores in by_data(tables).items()]
    return "\n\n".join([_TABLES.strip(), *parts])


STUDY = Study(
    "pipelines",
    "Embeddings in pipelines, measured",
    _INTRODUCTION,
    tuple(PIPELINES.values()),
    judged,
    {
        "Protocol": _protocol,
        "Differences": _differences,
        "Where it is ahead of all, and where behind": lambda tables: f"{_OUTRIGHT}\n{_outright(by_data(tables))}",
        "Everything": _everything,
    },
    _draw,
)

if __name__ == "__main__":
    main(STUDY)
