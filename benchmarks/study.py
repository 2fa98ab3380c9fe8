"""Compare HeatSketch with the paper's methods and other packages: ``python -m benchmarks.study``."""

from __future__ import annotations

import importlib.util
import resource
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr
from sklearn.datasets import make_circles, make_swiss_roll
from sklearn.manifold import MDS, Isomap, trustworthiness
from sklearn.neighbors import kneighbors_graph

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion
from heatsketch.datasets import digits
from heatsketch.kernel.plan import wide_columns
from heatsketch.linalg.diffusion import coefficients
from heatsketch.optimize.features import wide_sketch
from heatsketch.optimize.pairs import AllPairs
from heatsketch.optimize.solver import optimize
from heatsketch.optimize.starts import STARTS, make_start
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import run_apart
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, frame_table, main, section
from heatsketch_paper.methods import sample
from heatsketch_paper.pictures import canvas, save
from heatsketch_paper.settings import PAPER

from .data import TUNING_SEED, make, tree


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _sphere(n: int, rng: np.random.Generator) -> FloatArray:
    X = rng.normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _linked_circles(n: int, rng: np.random.Generator) -> FloatArray:
    """Two circles in R^3, each through the centre of the other, with a little noise."""
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    first = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    second = np.column_stack([1.0 + np.cos(angle), np.zeros(n), np.sin(angle)])
    return np.where(rng.integers(0, 2, (n, 1)) == 0, first, second) + 0.02 * rng.normal(size=(n, 3))


def _digits(n: int, rng: np.random.Generator) -> FloatArray:
    X, _ = digits()
    return X[rng.permutation(len(X))[:n]]


SHAPES: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "swiss roll with a hole": lambda n, rng: make_swiss_roll(n, hole=True, random_state=_seed(rng))[0],
    "sphere": _sphere,
    "nested circles": lambda n, rng: make_circles(n, factor=0.5, noise=0.03, random_state=_seed(rng))[0],
    "linked circles": _linked_circles,
    "tree in R^50": lambda n, rng: tree(n, _seed(rng)).astype(np.float64),
    "digits": _digits,
}


def _miserables() -> sparse.csr_array:
    """Co-occurrence network of the 77 characters of Les Misérables (Knuth, 1993), from networkx."""
    return sparse.csr_array(nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float))


def halves(name: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Points to fit, shape (n, d), and as many unseen points of the same sample."""
    X = SHAPES[name](2 * n, rng)
    X = X[rng.permutation(len(X))]
    return X[:n], X[n:]


NEIGHBORS = 15


def measured(Y: FloatArray, d: FloatArray) -> dict[str, float]:
    """Measures of an embedding against condensed distances.

    ``log_L``, ``central`` (log L without the 1% of pairs at either end) and ``stress`` (Kruskal's, with the best scale)
    are 0 at best. ``spearman``, ``trust`` (trustworthiness) and ``kept`` (share of the 15 nearest neighbours that are
    nearest in the embedding) are 1 at best.
    """
    embedded = pdist(Y)
    found = measure_distortion(Y, d, quantiles=(0.01,))
    scale = (embedded @ d) / (embedded @ embedded)
    square = squareform(d)
    k = min(NEIGHBORS, (len(Y) - 1) // 2)
    near, there = (kneighbors_graph(D, k, metric="precomputed") for D in (square, squareform(embedded)))
    return {
        "log_L": found.log,
        "central": float(np.log(found.central[0.01])),
        "stress": float(np.sqrt(np.square(scale * embedded - d).sum() / np.square(d).sum())),
        "spearman": float(spearmanr(embedded, d).statistic),
        "trust": float(trustworthiness(square, Y, n_neighbors=k, metric="precomputed")),
        "kept": float(near.multiply(there).sum() / near.sum()),
    }


def _umap(k: int, seed: int) -> Any:
    from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1)


def _phate(k: int, seed: int) -> Any:
    from phate import PHATE  # noqa: PLC0415

    return PHATE(n_components=k, random_state=seed, n_jobs=1, verbose=0)


# Estimators of heatsketch, with the kernel whose diffusion distances are the reference.
METHODS: dict[str, Callable[[int, int], Any]] = {
    "DM": lambda k, _: hs.DiffusionMaps(k),
    "GP": lambda k, seed: hs.GaussianProcessEmbedding(k, random_state=seed),
    "GP, n_exact auto": lambda k, seed: hs.GaussianProcessEmbedding(k, n_exact="auto", random_state=seed),
    "HS": lambda k, seed: hs.HeatSketch(k, objective="bilipschitz", random_state=seed),
    "HS, log-stress": lambda k, seed: hs.HeatSketch(k, objective="log-stress", random_state=seed),
}
# Other methods with their defaults. MDS, which gets the diffusion distances, is added in `Further`.
PEERS: dict[str, Callable[[int, int], Any]] = {
    "Isomap": lambda k, _: Isomap(n_components=k),
    "UMAP": _umap,
    "PHATE": _phate,
}


def _distances(kernel: hs.HeatKernel, power: float, unseen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Condensed diffusion distances of the fitted and of the unseen points."""
    Z = coefficients(kernel, np.eye(kernel.shape[0]), power, trivial=not kernel.trivial_is_constant)
    return hs.diffusion_distances(kernel, power), pdist(kernel.at_new_points(unseen, Z))


def _log_L(Y: FloatArray, d: FloatArray) -> float:
    return measure_distortion(Y, d, quantiles=()).log


@dataclass(frozen=True)
class Chart(Experiment):
    """log L of diffusion maps, Gaussian process embeddings and HeatSketch, for each k, on fitted and unseen points."""

    data: str = "circle"
    bandwidth: float = 1.0
    power: int = 1
    n_components: tuple[int, ...] = (2,)

    def points(self, index: int) -> tuple[FloatArray, FloatArray]:
        """Fitted and unseen points of a trial."""
        seeds = (self.points_seed(index), self.other_seed(index))
        seen, unseen = (sample(self.data, self.n_samples, rng) for rng in seeds)
        return seen, unseen

    def model(self, method: str, k: int, index: int, normalization: str) -> Any:
        """An estimator with the parameters of the paper."""
        options = {"power": self.power, "bandwidth": self.bandwidth, "normalization": normalization}
        return METHODS[method](k, self.sketch_seed(index)).set_params(n_neighbors=None, **options)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, unseen = self.points(index)
        rows: list[Row] = []
        for normalization in ("symmetric", "bistochastic"):
            kernel = self.model("DM", 1, index, normalization).fit(X).kernel_
            d, d_unseen = _distances(kernel, self.power, unseen)
            for k, method in product(self.n_components, ("DM", "GP", "HS")):
                model = self.model(method, k, index, normalization).fit(X)
                row = {"method": method + normalization[0].upper(), "k": k, "log_L": _log_L(model.embedding_, d)}
                rows.append(row | {"log_L_unseen": _log_L(model.transform(unseen), d_unseen)})
        return rows


def _chart(name: str, effort: float) -> Chart:
    setting, seed = PAPER[name], EXPERIMENTS[name].seed
    low, high = setting.n_components
    options: Row = {"bandwidth": setting.bandwidth, "power": setting.power, "n_components": tuple(range(low, high + 1))}
    return Chart(name, setting.n_samples, setting.n_trials, seed, effort, data=name, **options)


_EFFORTS = {"circle_with_outliers": 1.5, "circle": 4.0, "stretched_torus": 10.0, "gaussian_clouds": 7.0}
CHARTS = {name: _chart(name, effort) for name, effort in (_EFFORTS | {"klein_bottle": 26.0}).items()}

_CELLS = {"stretched_torus": (2, 4, 8), "klein_bottle": (3, 8), "gaussian_clouds": (2, 5, 10)}


@dataclass(frozen=True)
class Gap(Experiment):
    """log L on fitted and unseen points, with the usual fit and with further points in the optimisation.

    "further points" optimises over the sample and as many other points of the same distribution, which are not
    available in practice. It shows how much of the gap more data could close.
    """

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial; its samples are not those of the charts."""
        rows: list[Row] = []
        for data, ks in _CELLS.items():
            chart = replace(CHARTS[data], n_samples=min(CHARTS[data].n_samples, self.n_samples))
            X, unseen = chart.points(1000 + index)
            further = sample(data, len(X), self.other_seed(index))
            for k in ks:
                model = chart.model("HS", k, 1000 + index, "bistochastic").fit(X)
                distances = _distances(model.kernel_, chart.power, unseen)
                found = {
                    "penalty 0.1": (model.embedding_, model.transform(unseen)),
                    "further points": _with_further_points(model, unseen, further),
                }
                for name, both in found.items():
                    seen, new = (_log_L(Y, d) for Y, d in zip(both, distances, strict=True))
                    rows.append({"data": data, "k": k, "method": name, "log_L": seen, "log_L_unseen": new})
        return rows


def _with_further_points(model: Any, unseen: FloatArray, further: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Embeddings of HeatSketch, optimised over the sample and further points."""
    kernel, power, seed = model.kernel_, model.power_, model.random_state
    wide = wide_sketch(kernel, power, wide_columns(kernel.shape[0], 1), seed)
    Z = np.ascontiguousarray(coefficients(kernel, wide.M, power, trivial=not kernel.trivial_is_constant))
    F = np.vstack([wide.features, kernel.at_new_points(further, Z)])
    starts = [make_start(name, wide, model.n_components, seed) for name in STARTS]
    W = optimize(F, AllPairs(pdist(F), len(F)), starts, seed).W
    return wide.features @ W, kernel.at_new_points(unseen, Z) @ W


_TREE = "tree in R^50"


@dataclass(frozen=True)
class Deflation(Experiment):
    """RMS relative error of squared distances with no, half or an automatic number of exact directions."""

    n_components: tuple[int, ...] = (4, 8, 16, 32, 64)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: one sample of each data set, and one sketch of each kind."""
        rows: list[Row] = []
        for data in (*PAPER, _TREE):
            options, power = {}, 8
            if data == _TREE:
                X = SHAPES[_TREE](2 * self.n_samples, self.points_seed(index))
            else:
                setting = PAPER[data]
                X = sample(data, min(setting.n_samples, 2 * self.n_samples), self.points_seed(index))
                options, power = {"bandwidth": setting.bandwidth}, setting.power
            kernel = hs.heat_kernel(X, n_neighbors=None, **options)
            exact = np.square(hs.diffusion_distances(kernel, power))
            options = {"power": power, "bandwidth": kernel.bandwidth, "random_state": self.sketch_seed(index)}
            for k in self.n_components:
                for name, n_exact in (("plain", 0), ("half", k // 2), ("auto", "auto")):
                    model = hs.GaussianProcessEmbedding(k, n_neighbors=None, n_exact=n_exact, **options).fit(X)
                    error = float(np.sqrt(np.mean(np.square(np.square(pdist(model.embedding_)) / exact - 1.0))))
                    rows.append({"data": data, "k": k, "method": name, "n_exact": model.n_exact_, "error": error})
        return rows


@dataclass(frozen=True)
class Further(Experiment):
    """All measures of all methods on one data set, against diffusion distances with the default bandwidth.

    ``log_L_unseen`` and ``spearman_unseen`` are for methods that can embed new points.
    """

    data: str = "sphere"
    n_components: tuple[int, ...] = (2, 5)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rng, seed = self.points_seed(index), self.sketch_seed(index) % 2**31
        X, unseen = halves(self.data, self.n_samples, rng) if self.data in SHAPES else (_miserables(), None)
        given = {} if unseen is not None else {"affinity": "precomputed"}
        kernel = hs.heat_kernel(X, n_neighbors=None, **given)
        if unseen is None:
            d, d_unseen = hs.diffusion_distances(kernel, 8), None
        else:
            d, d_unseen = _distances(kernel, 8, unseen)
        rows: list[Row] = []
        for k in self.n_components:
            for name, method in METHODS.items():
                model = method(k, seed).set_params(n_neighbors=None, **given)
                rows.append(_row(name, k, model, (X, d), (unseen, d_unseen)))
            mds = MDS(k, metric="precomputed", init="classical_mds", n_init=1)
            rows.append(_row("MDS", k, mds, (squareform(d), d), (None, None)))
            for name, method in PEERS.items() if unseen is not None else ():
                if name == "Isomap" or importlib.util.find_spec(name.lower()) is not None:
                    rows.append(_row(name, k, method(k, seed), (X, d), (unseen, d_unseen)))
        return rows


def _row(name: str, k: int, model: Any, seen: tuple[Any, FloatArray], unseen: tuple[Any, Any]) -> Row:
    """Measures of a method, from (points, distances) that are fitted and unseen."""
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = np.asarray(model.fit_transform(seen[0]), dtype=np.float64)
        seconds = perf_counter() - start
        there = None if unseen[0] is None else np.asarray(model.transform(unseen[0]), dtype=np.float64)
    row: Row = {"method": name, "k": k} | measured(Y, seen[1])
    on_unseen = {} if there is None else measured(there, unseen[1])
    return row | {f"{m}_unseen": on_unseen.get(m, np.nan) for m in ("log_L", "spearman")} | {"seconds": seconds}


GAP = Gap("gap", 500, 8, seed=132, effort=40.0)
DEFLATION = Deflation("deflation", 500, 20, seed=131, effort=12.0)
_NAMES = {name.replace(" ", "_").replace("^", ""): name for name in SHAPES} | {"les_miserables": "Les Misérables"}
FURTHER = {
    name: Further(name, 500 if data in SHAPES else 77, 3, seed=101 + number, effort=60.0, data=data)
    for number, (name, data) in enumerate(_NAMES.items())
}


@dataclass(frozen=True)
class Times(Experiment):
    """Seconds, peak memory and log L of a fit of each estimator."""

    alone: ClassVar[bool] = True
    data: tuple[str, ...] = ("swiss roll", "tree")
    n_components: tuple[int, ...] = (4,)
    methods: tuple[str, ...] = ("DiffusionMaps", "GaussianProcessEmbedding", "HeatSketch")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows = []
        for data in self.data:
            for k in self.n_components:
                for method in self.methods:
                    job = {"method": method, "data": data, "n": self.n_samples, "k": k, "seed": index}
                    (found,) = run_apart("benchmarks.study:fit", job, timeout_s=3600.0)
                    rows.append({"method": method, "data": data, "k": k} | found)
        return rows


def fit(method: str, data: str, n: int, k: int, seed: int) -> Iterator[Row]:
    """Fit few points as a warm-up, then measure a fit of all points."""
    model = getattr(hs, method)(k)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    if "objective" in model.get_params():
        model.set_params(objective="bilipschitz")
    model.set_params(n_neighbors=16).fit(make(data, 2500, TUNING_SEED))
    X = make(data, n, seed)
    start = perf_counter()
    model.set_params(n_neighbors="auto").fit(X)
    seconds = perf_counter() - start
    yield {
        "seconds": seconds,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "log_L": model.distortion().log,
    }


TIMES = {
    "times_500": Times("times_500", 500, 3, seed=133, effort=60.0, n_components=(2, 8)),
    "times_20000": Times("times_20000", 20_000, 1, seed=133, effort=200.0),
    # Without DiffusionMaps, whose eigenvectors would take longest.
    "times_100000": Times("times_100000", 100_000, 1, seed=133, effort=900.0, methods=Times.methods[1:]),
}


# Thresholds of the claims: largest shares of the log L of the better of the two other methods, where that exceeds
# `_WORTH`; largest seconds of a fit by number of points; and largest memory with most points.
_WORTH, _SHARE, _SHARE_IN_PLANE = 0.2, 0.4, 0.65
_SECONDS = {500: 5.0, 20_000: 60.0, 100_000: 600.0}
_GIB = 4.0


def cells(tables: Tables, column: str) -> pd.DataFrame:
    """Means over trials by data set, normalisation and k, and the ratio of HS to the better of DM and GP."""
    parts = []
    for data in [name for name in PAPER if name in tables]:
        table = tables[data]
        method, normalization = table["method"].str[:-1], table["method"].str[-1].rename("normalization")
        groups = table.groupby([normalization, "k", method])[column]
        part = groups.mean().unstack().assign(error=groups.sem().unstack()["HS"]).reset_index()
        parts.append(part.sort_values(["normalization", "k"], ascending=[False, True]).assign(data=data))
    found = pd.concat(parts, ignore_index=True)
    better = found[["DM", "GP"]].min(axis=1)
    return found.assign(better=better, share=found["HS"] / better)


def judged(tables: Tables) -> Iterator[Claim]:
    """Claims about the tables that exist."""
    if any(name in tables for name in PAPER):
        yield from _on_the_charts(cells(tables, "log_L"), cells(tables, "log_L_unseen"))
    if "deflation" in tables:
        means = _deflation_errors(tables["deflation"])
        share = means["auto"] / means["plain"]
        worst = share.idxmax()
        yield claim(
            'n_exact="auto": errors of squared distances never exceed those of a random sketch with as many columns.',
            f"{share.min():.1e} to {share.max():.2f} of it in {len(share)} settings (most: {worst[0]}, k = {worst[1]})",
            (share <= 1.0 + 1e-9).all(),
        )
    for n, limit in _SECONDS.items():
        if f"times_{n}" in tables:
            ours = tables[f"times_{n}"].query("method == 'HeatSketch'")
            seconds, gib = ours["seconds"].max(), ours["gib"].max()
            memory = f" and {_GIB:.0f} GiB" if n == max(_SECONDS) else ""
            yield claim(
                f"A fit of {n:,} points takes at most {limit:.0f} s{memory} on two cores.",
                f"at most {seconds:.1f} s, {gib:.2f} GiB",
                seconds <= limit and (not memory or gib <= _GIB),
            )


def _on_the_charts(seen: pd.DataFrame, unseen: pd.DataFrame) -> Iterator[Claim]:
    excess = (seen["HS"] - seen["better"]) / seen["error"]
    yield claim(
        "Fitted points: the mean log L of HS is never above the better of DM and GP by more than its standard error.",
        f"below it in {int((seen['share'] < 1).sum())} of {len(seen)} settings; nearest to it by "
        f"{-excess.max():.1f} standard errors",
        (excess <= 1.0).all(),
    )
    worth = seen[seen["better"] > _WORTH]
    for where, part, bound in (
        ("k at least 3", worth[worth["k"] >= 3], _SHARE),
        ("k = 2", worth[worth["k"] == 2], _SHARE_IN_PLANE),
    ):
        yield claim(
            f"Fitted points, {where}: HS has at most {bound} times the better log L of DM and GP where that exceeds "
            f"{_WORTH}.",
            f"{part['share'].min():.2f} to {part['share'].max():.2f} in {len(part)} settings",
            (part["share"] <= bound).all(),
        )
    by_data = unseen.groupby("data")[["HS", "DM", "GP"]].mean()
    yield claim(
        "Unseen points: HS is below DM and GP on each data set, averaged over trials, kernels and k.",
        "; ".join(f"{row.Index} {row.HS:.2f} (DM {row.DM:.2f}, GP {row.GP:.2f})" for row in by_data.itertuples()),
        (by_data["HS"] < by_data[["DM", "GP"]].min(axis=1)).all(),
    )
    lost = unseen[unseen["share"] >= 1.0]
    settings = [
        f"; not: {row.data}, {row.normalization}, k = {row.k}: {row.HS:.2f} ± {row.error:.2f} (s.e.) against "
        f"{row.better:.2f}"
        for row in lost.itertuples()
    ]
    yield claim(
        "Unseen points: HS is below DM and GP in every setting.",
        f"in {len(unseen) - len(lost)} of {len(unseen)}" + "".join(settings),
        lost.empty,
    )


def _deflation_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Root mean square error over the trials, by data, k and method."""
    squares = table.assign(error=table["error"] ** 2).groupby(["data", "k", "method"], sort=False)["error"].mean()
    return squares.unstack() ** 0.5


_TITLES = {
    "circle": "Circle",
    "stretched_torus": "Stretched torus",
    "klein_bottle": "Klein bottle",
    "circle_with_outliers": "Circle with two outliers",
    "gaussian_clouds": "Gaussian clouds",
}
_COLOURS = {"DM": "#D55E00", "GP": "#0072B2", "HS": "#000000"}
# Title of each measure, and whether the largest value is the best.
_MEASURES = {
    "log_L": ("log L", False),
    "central": ("central 98%", False),
    "stress": ("stress", False),
    "spearman": ("Spearman", True),
    "trust": ("trustworthiness", True),
    "kept": ("neighbours kept", True),
    "log_L_unseen": ("log L, unseen", False),
    "spearman_unseen": ("Spearman, unseen", True),
}

_INTRODUCTION = """
This page measures how much diffusion maps (DM), Gaussian process embeddings (GP) and HeatSketch (HS) distort diffusion
distances: on the paper's data, with the paper's parameters and numbers of trials, and on other data, on fitted and on
unseen points, by several measures. `make study ARGS="--output out/study"` runs everything again in another folder,
which takes hours; `make study` only runs trials that are missing here.

The main measure is log L, the logarithm of the largest over the smallest ratio of embedded to diffusion distance over
all pairs: 0 means no distortion. HeatSketch minimises it (`objective="bilipschitz"`) unless the name of a row or column
says otherwise; its default objective is not measured here. S and B are the symmetric and the bistochastic kernel.

**Losses.** On unseen points of the Gaussian clouds with k = 2 diffusion maps are better. MDS, which gets all diffusion
distances, mostly has a lower stress and a higher rank correlation. In 4 of 14 settings UMAP keeps the most neighbours,
and has the highest trustworthiness. Fits of HeatSketch take longest ([time and memory](#time-and-memory)).

The charts have the points and random matrices of `heatsketch reproduce`. The settings of HeatSketch's search were
chosen on other samples of the paper's data, after a first look at four of these trials. All tables were recorded on 15
November 2026, before versions of the package counted commits: "0.1.0" below is the development version of that day, not
a release.
"""
_CHARTS = """
Means of log L over the trials; smaller is better. "HS / better" is the log L of HS divided by the better one of DM and
GP, so that values below 1 are in favour of HS. Unseen points are as many others of the same distribution. They are
embedded by `transform`, and compared with the diffusion distances between their own kernel rows. In the pictures error
bars are standard deviations, with fitted points on the left and unseen ones on the right.
"""
_GAP = """
log L on fitted / unseen points, for the bistochastic kernel: means over {trials} trials, and smaller is better. The
penalty keeps the entries of M from being much larger than the embedding. Its weight is 0.1; the version of this record
had options for other weights, and for an end after 5 rounds.

"Further points" are as many other points of the same distribution that take part in the optimisation, but not in the
kernel; in practice they are not available. The gap that remains with them is not due to a lack of data. If a shape does
not embed in k dimensions (the torus in the plane, the Klein bottle in space), every method maps some distant points
close together, and some unseen pair comes near such a place.
"""
_FURTHER = """
All measures are against the diffusion distances of the kernel of all pairs with the default bandwidth and diffusion
time 8, and are means over the trials. The best value of each column is bold. For log L, *central 98%* and *stress*
smaller is better, for the others larger. *central 98%* is log L without the 1% of pairs at either end. *stress* is
Kruskal's with the best scale. *neighbours kept* is the share of the 15 nearest neighbours that are nearest in the
embedding.

MDS gets the diffusion distances themselves and cannot embed new points. Isomap, UMAP and PHATE run with their defaults
and do not aim at diffusion distances. Their rows show how well these distances are kept, not how well the methods reach
their own goals.
"""
_DEFLATION = """
Root mean square relative error of squared distances over all pairs and {trials} trials, for sketches of k columns: all
random, half of them exact, and `n_exact="auto"`. Smaller is better. *directions* is the mean number of exact directions
that "auto" chose, and *auto / random* the ratio of the errors.
"""
_TIMES_TEXT = """
Seconds, peak memory and log L of one fit, in a fresh process after a warm-up fit, with the default kernel and float32
data. HeatSketch minimises log L (`objective="bilipschitz"`). Memory is the peak of the whole process. log L is that of
`distortion()`, a lower bound for more than 2000 points.
"""


def _draw(tables: Tables, folder: Path) -> None:
    for name in PAPER:
        if name in tables:
            _draw_chart(tables[name], folder / name)


def _draw_chart(table: pd.DataFrame, path: Path) -> None:
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


@section(PAPER, _CHARTS)
def _charts(tables: Tables) -> str:
    keys, values = ["data", "normalization", "k"], ["DM", "GP", "HS", "share"]
    seen, unseen = (cells(tables, column).set_index(keys)[values] for column in ("log_L", "log_L_unseen"))
    both = seen.join(unseen, rsuffix=", unseen").rename(columns=lambda name: name.replace("share", "HS / better"))
    formats = {name: ".2f" if "/" in name else ".3g" for name in both}
    parts = []
    for data in [name for name in _TITLES if name in tables]:
        table = both.loc[data].reset_index().rename(columns={"normalization": "kernel"})
        parts.append(f"### {_TITLES[data]}\n\n![{_TITLES[data]}](pictures/{data}.png)")
        parts.append(f"{tables[data]['trial'].nunique()} trials:\n\n{frame_table(table, formats)}")
    return "\n\n".join(parts)


@section(["gap"], _GAP)
def _gap(tables: Tables) -> str:
    table = tables["gap"]
    means = table.groupby(["data", "k", "method"])[["log_L", "log_L_unseen"]].mean()
    both = means["log_L"].map("{:.2f}".format) + " / " + means["log_L_unseen"].map("{:.2f}".format)
    return frame_table(both.unstack()[list(table["method"].unique())].rename(index=_TITLES).reset_index())


@section(["deflation"], _DEFLATION)
def _deflation(tables: Tables) -> str:
    found = _deflation_errors(tables["deflation"])
    chosen = tables["deflation"].query("method == 'auto'").groupby(["data", "k"])["n_exact"].mean()
    found = found.assign(directions=chosen, ratio=found["auto"] / found["plain"])
    found = found.rename(index=_TITLES).reset_index()
    found = found.rename(columns={"plain": "all random", "half": "half exact", "ratio": "auto / random"})
    formats = {"all random": ".3f", "directions": ".1f"} | dict.fromkeys(("half exact", "auto", "auto / random"), ".2g")
    return frame_table(found, formats)


@section(FURTHER, _FURTHER)
def _further(tables: Tables) -> str:
    parts, winners = [], []
    for name, table in tables.items():
        experiment = FURTHER[name]
        order = [m for m in (*METHODS, "MDS", *PEERS) if m in set(table["method"])]
        title = f"### {experiment.data[0].upper()}{experiment.data[1:]}"
        parts.append(f"{title}\n\n{experiment.n_samples} points, {table['trial'].nunique()} trials:")
        frames = []
        for k in sorted(table["k"].unique()):
            means = table[table["k"] == k].groupby("method")[[*_MEASURES, "seconds"]].mean().loc[order]
            shown = means.map(lambda value: "" if pd.isna(value) else f"{value:.2f}")
            for measure, (title, largest) in _MEASURES.items():
                if means[measure].notna().any():
                    best = means[measure].idxmax() if largest else means[measure].idxmin()
                    shown.loc[best, measure] = f"**{shown.loc[best, measure]}**"
                    winners.append({"measure": title, "best": best})
            frames.append(shown.reset_index().assign(k=k))
        columns = {measure: title for measure, (title, _) in _MEASURES.items()}
        parts.append(frame_table(pd.concat(frames)[["k", "method", *columns, "seconds"]].rename(columns=columns)))
    won = pd.DataFrame(winners).groupby("measure", sort=False)["best"]
    listed = won.agg(lambda names: ", ".join(f"{name} {n}" for name, n in names.value_counts().items())).reset_index()
    standing = "How often each method is the best, over all data sets and k:"
    return "\n\n".join([standing, frame_table(listed), *parts])


@section(TIMES, _TIMES_TEXT)
def _times(tables: Tables) -> str:
    together = pd.concat(table.assign(points=TIMES[name].n_samples) for name, table in tables.items())
    groups = together.groupby(["points", "data", "k", "method"], sort=False)
    found = groups.agg(seconds=("seconds", "median"), GiB=("gib", "max"), log_L=("log_L", "mean")).reset_index()
    formats = {"points": ",", "seconds": ".1f", "GiB": ".2f", "log L": ".2f"}
    return frame_table(found.rename(columns={"log_L": "log L"}), formats)


def _quick(experiment: Experiment) -> Experiment | None:
    """One trial of few points, for the smallest k only, and times of one size."""
    if experiment in (TIMES["times_20000"], TIMES["times_100000"]):
        return None
    small: Row = {"n_trials": 1, "n_samples": min(experiment.n_samples, 100)}
    if hasattr(experiment, "n_components"):
        small["n_components"] = experiment.n_components[:1]
    return replace(experiment, **small)


STUDY = Study(
    "study",
    "HeatSketch, measured",
    _INTRODUCTION,
    (*CHARTS.values(), DEFLATION, GAP, *FURTHER.values(), *TIMES.values()),
    judged,
    {
        "The paper's charts": _charts,
        "The gap to unseen points": _gap,
        "Exact directions": _deflation,
        "Other data, other measures": _further,
        "Time and memory": _times,
    },
    _draw,
    _quick,
)

if __name__ == "__main__":
    main(STUDY)
