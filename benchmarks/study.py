"""HeatSketch beside the paper's methods and other packages: ``python -m benchmarks.study``."""

from __future__ import annotations

import importlib.util
import resource
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.datasets import make_circles, make_swiss_roll
from sklearn.manifold import MDS, Isomap, trustworthiness

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion
from heatsketch.datasets import PAPER, digits
from heatsketch.linalg.diffusion import coefficients
from heatsketch.linalg.rounding import rounding_level
from heatsketch.optimize.features import WideSketch
from heatsketch.optimize.objectives import Bilipschitz
from heatsketch.optimize.pairs import AllPairs
from heatsketch.optimize.solver import Plan, optimize
from heatsketch.optimize.starts import DEFAULT_STARTS, make_start
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import run_apart
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, grid, main
from heatsketch_paper.methods import Scene, sample
from heatsketch_paper.pictures import canvas, save

from .data import make, tree


def _swiss_roll_with_hole(n: int, rng: np.random.Generator) -> FloatArray:
    return make_swiss_roll(n, hole=True, random_state=int(rng.integers(2**31)))[0]


def _sphere(n: int, rng: np.random.Generator) -> FloatArray:
    X = rng.normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _nested_circles(n: int, rng: np.random.Generator) -> FloatArray:
    return make_circles(n, factor=0.5, noise=0.03, random_state=int(rng.integers(2**31)))[0]


def _linked_circles(n: int, rng: np.random.Generator) -> FloatArray:
    """Two circles in R^3, each through the middle of the other, with a little noise."""
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    first = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    second = np.column_stack([1.0 + np.cos(angle), np.zeros(n), np.sin(angle)])
    return np.where(rng.integers(0, 2, (n, 1)) == 0, first, second) + 0.02 * rng.normal(size=(n, 3))


def _tree(n: int, rng: np.random.Generator) -> FloatArray:
    return tree(n, int(rng.integers(2**31))).astype(np.float64)


def _digits(n: int, rng: np.random.Generator) -> FloatArray:
    X, _ = digits()
    return X[rng.permutation(len(X))[:n]]


SHAPES: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "swiss roll with a hole": _swiss_roll_with_hole,
    "sphere": _sphere,
    "nested circles": _nested_circles,
    "linked circles": _linked_circles,
    "tree in R^50": _tree,
    "digits": _digits,
}


def halves(name: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Points to fit, shape (n, d), and as many others of the same sample."""
    X = SHAPES[name](2 * n, rng)
    X = X[rng.permutation(len(X))]
    return X[:n], X[n:]


def miserables() -> sparse.csr_array:
    """Who meets whom, and how often, in Les Misérables (Knuth, 1993): 77 vertices, shipped with networkx."""
    return sparse.csr_array(nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float))


NEIGHBORS = 15


def measured(Y: FloatArray, d: FloatArray) -> dict[str, float]:
    """Measures of an embedding against condensed distances.

    ``log_L`` and ``central`` (log L without the hundredth of pairs at either end) are 0 at best; ``stress`` is
    Kruskal's with the best scale, 0 at best; ``spearman``, ``trust`` (trustworthiness) and ``kept`` (share of the
    nearest 15 that are nearest in the embedding) are 1 at best.
    """
    embedded = pdist(Y)
    found = measure_distortion(Y, d, quantiles=(0.01,))
    scale = (embedded @ d) / (embedded @ embedded)
    square = squareform(d)
    k = min(NEIGHBORS, (len(Y) - 1) // 2)
    return {
        "log_L": found.log,
        "central": float(np.log(found.central[0.01])),
        "stress": float(np.sqrt(np.square(scale * embedded - d).sum() / np.square(d).sum())),
        "spearman": float(np.corrcoef(rankdata(embedded), rankdata(d))[0, 1]),
        "trust": float(trustworthiness(square, Y, n_neighbors=k, metric="precomputed")),
        "kept": _kept(square, squareform(embedded), k),
    }


def _kept(true: FloatArray, embedded: FloatArray, k: int) -> float:
    """Share of each point's k nearest that are among its k nearest in the embedding."""
    near, there = (np.argsort(D + np.diag(np.full(len(D), np.inf)), axis=1)[:, :k] for D in (true, embedded))
    return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, there, strict=True)]))


NORMALIZATIONS = {"S": "symmetric", "B": "bistochastic"}


@dataclass
class Stage:
    """One kernel of a scene, and as many points that are not in it."""

    scene: Scene
    unseen: FloatArray
    normalization: str

    def __post_init__(self) -> None:
        (self.power,) = self.scene.powers
        self.kernel = self.scene.kernel(self.normalization)
        self.keep = not self.kernel.trivial_is_constant

    def both(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The embeddings of the points and of those that are not seen, from their coefficients."""
        return self.kernel.place(Z), self.rows(Z)

    def rows(self, Z: FloatArray) -> FloatArray:
        """What the points that are not seen get from coefficients."""
        return self.kernel.at_new_points(self.unseen, np.ascontiguousarray(Z))

    def coefficients(self, M: FloatArray) -> FloatArray:
        """``S^(p-1) M``."""
        return coefficients(self.kernel, M, self.power, trivial=self.keep)

    @cached_property
    def spectral(self) -> tuple[FloatArray, FloatArray]:
        """Diffusion maps in as many dimensions as are wanted at most."""
        pairs = self.scene.eigenpairs(self.normalization)
        return self.both(pairs.coordinates(self.power - 1.0, rounding_level(self.kernel)))

    @cached_property
    def sketched(self) -> tuple[FloatArray, FloatArray]:
        """A Gaussian process embedding times sqrt(k)."""
        return self.both(self.coefficients(self.scene.sketch("gaussian")))

    @property
    def wide(self) -> WideSketch:
        """The wide sketch of HeatSketch."""
        return self.scene.wide(self.normalization, self.power)

    @cached_property
    def wide_unseen(self) -> FloatArray:
        """Its rows at the points that are not seen."""
        return self.rows(self.coefficients(self.wide.M))

    @cached_property
    def distances(self) -> tuple[FloatArray, FloatArray]:
        """Exact diffusion distances, condensed, of either set of points."""
        seen = self.scene.distances("diffusion", self.normalization, self.power)
        return seen, pdist(self.rows(self.coefficients(np.eye(len(self.scene.X)))))

    def optimised(self, k: int, **plan: Any) -> tuple[FloatArray, FloatArray]:
        """HeatSketch, as the estimator computes it."""
        W = self.scene.projection(self.normalization, self.power, k, **plan)
        return self.wide.features @ W, self.wide_unseen @ W

    def measured(self, both: tuple[FloatArray, FloatArray]) -> Row:
        """Log L on points that are seen and on those that are not."""
        seen, unseen = (measure_distortion(Y, d, quantiles=()).log for Y, d in zip(both, self.distances, strict=True))
        return {"log_L": seen, "log_L_unseen": unseen}


@dataclass(frozen=True)
class Chart(Experiment):
    """log L of diffusion maps, Gaussian process embeddings and HeatSketch, for every k, on seen and unseen points.

    ``seconds`` is the time of HeatSketch's optimisation, on one thread.
    """

    data: str = "circle"
    bandwidth: float = 1.0
    power: int = 1
    n_components: tuple[int, ...] = (2,)

    def stage(self, index: int, normalization: str) -> Stage:
        """What the methods of a trial share."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        unseen = sample(self.data, self.n_samples, self.other_seed(index))
        scene = Scene(X, self.bandwidth, (self.power,), max(self.n_components), self.sketch_seed(index))
        return Stage(scene, unseen, normalization)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for letter, normalization in NORMALIZATIONS.items():
            stage = self.stage(index, normalization)
            for k in self.n_components:
                spectral, sketched = (tuple(Y[:, :k] for Y in both) for both in (stage.spectral, stage.sketched))
                stage.wide_unseen, stage.scene.pairs(normalization, self.power)
                start = perf_counter()
                ours = stage.optimised(k)
                seconds = perf_counter() - start
                for name, both in (("DM", spectral), ("GP", sketched), ("HS", ours)):
                    row = {"method": name + letter, "k": k} | stage.measured(both)  # type: ignore[arg-type]
                    rows.append(row | {"seconds": seconds if name == "HS" else 0.0})
        return rows


def _chart(name: str, effort: float) -> Chart:
    setting = PAPER[name]
    low, high = setting.n_components
    return Chart(
        name,
        setting.n_samples,
        setting.n_trials,
        seed=EXPERIMENTS[name].seed,
        effort=effort,
        data=name,
        bandwidth=setting.bandwidth,
        power=setting.power,
        n_components=tuple(range(low, high + 1)),
    )


CHARTS = {
    name: _chart(name, effort)
    for name, effort in (
        ("circle_with_outliers", 1.5),
        ("circle", 4.0),
        ("stretched_torus", 10.0),
        ("gaussian_clouds", 7.0),
        ("klein_bottle", 26.0),
    )
}


_CELLS = {"stretched_torus": (2, 4, 8), "klein_bottle": (3, 8), "gaussian_clouds": (2, 5, 10)}
_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
_SHORT = 5


@dataclass(frozen=True)
class Gap(Experiment):
    """log L on seen and unseen points: by the weight of the penalty, after few rounds, and with further points seen.

    "further points" optimises over pairs of the sample and of as many other points of the same law, which no user
    has: it tells how much of the gap more data could close.
    """

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial; its number is beyond those of the charts."""
        rows: list[Row] = []
        for data, ks in _CELLS.items():
            chart = CHARTS[data]
            stage = chart.stage(1000 + index, "bistochastic")
            for k in ks:
                for weight in _WEIGHTS:
                    row = stage.measured(stage.optimised(k, regularization=weight))
                    rows.append({"data": data, "k": k, "method": f"penalty {weight}"} | row)
                row = stage.measured(stage.optimised(k, n_rounds=_SHORT))
                rows.append({"data": data, "k": k, "method": f"{_SHORT} rounds"} | row)
                row = stage.measured(_with_further_points(stage, data, k, self.other_seed(index)))
                rows.append({"data": data, "k": k, "method": "further points"} | row)
        return rows


def _with_further_points(stage: Stage, data: str, k: int, rng: np.random.Generator) -> tuple:
    """HeatSketch optimised over the sample and as many further points."""
    scene = stage.scene
    Z = np.ascontiguousarray(stage.coefficients(stage.wide.M))
    further = stage.kernel.at_new_points(sample(data, len(scene.X), rng), Z)
    F = np.vstack([stage.wide.features, further])
    starts = [make_start(name, stage.wide, k, scene.seed) for name in DEFAULT_STARTS]
    found = optimize(F, AllPairs(pdist(F), len(F)), starts, Plan(Bilipschitz), scene.seed)
    return stage.wide.features @ found.W, stage.wide_unseen @ found.W


GAP = {"gap": Gap("gap", 500, 8, seed=132, effort=40.0)}


_TREE = "tree in R^50"


@dataclass(frozen=True)
class Deflation(Experiment):
    """Root mean square relative error of squared distances, plain, with half of the columns exact, and with "auto"."""

    n_components: tuple[int, ...] = (4, 8, 16, 32, 64)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: a sample of each data set and a sketch of each kind."""
        rows: list[Row] = []
        for data in (*PAPER, _TREE):
            options, power = {}, 8
            if data == _TREE:
                X = tree(1000, int(self.points_seed(index).integers(2**31))).astype(np.float64)
            else:
                setting = PAPER[data]
                X = sample(data, setting.n_samples, self.points_seed(index))
                options, power = {"bandwidth": setting.bandwidth}, setting.power
            kernel = hs.heat_kernel(X, n_neighbors=None, **options)
            exact = np.square(hs.diffusion_distances(kernel, power))
            for k in self.n_components:
                for name, n_exact in (("plain", 0), ("half", k // 2), ("auto", "auto")):
                    model = hs.GaussianProcessEmbedding(
                        k,
                        power=power,
                        bandwidth=kernel.bandwidth,
                        n_neighbors=None,
                        n_exact=n_exact,
                        random_state=self.sketch_seed(index),
                    ).fit(X)
                    error = float(np.sqrt(np.mean(np.square(np.square(pdist(model.embedding_)) / exact - 1.0))))
                    rows.append({"data": data, "k": k, "method": name, "n_exact": model.n_exact_, "error": error})
        return rows


DEFLATION = {"deflation": Deflation("deflation", 500, 20, seed=131, effort=12.0)}


def _umap(k: int, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # that TensorFlow is not there
        from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1)


def _phate(k: int, seed: int) -> Any:
    from phate import PHATE  # noqa: PLC0415

    return PHATE(n_components=k, random_state=seed, n_jobs=1, verbose=0)


# Ours, on the kernel that the distances are measured by. Diffusion time and bandwidth are the defaults.
METHODS: dict[str, Callable[[int, int], Any]] = {
    "DM": lambda k, _: hs.DiffusionMaps(k),
    "GP": lambda k, seed: hs.GaussianProcessEmbedding(k, random_state=seed),
    "GP, n_exact auto": lambda k, seed: hs.GaussianProcessEmbedding(k, n_exact="auto", random_state=seed),
    "HS": lambda k, seed: hs.HeatSketch(k, random_state=seed),
    "HS, log-stress": lambda k, seed: hs.HeatSketch(k, objective="log-stress", random_state=seed),
}
# Others, with their defaults; MDS is given the diffusion distances themselves.
PEERS: dict[str, Callable[[int, int], Any]] = {
    "Isomap": lambda k, _: Isomap(n_components=k),
    "UMAP": _umap,
    "PHATE": _phate,
}


@dataclass(frozen=True)
class Further(Experiment):
    """All measures of all methods on one data set, against the diffusion distance of the default kernel.

    ``log_L_unseen`` and ``spearman_unseen`` are of points that were not seen, for methods that can place them.
    """

    data: str = "sphere"
    n_components: tuple[int, ...] = (2, 5)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rng, seed = self.points_seed(index), self.sketch_seed(index) % 2**31
        X, unseen = halves(self.data, self.n_samples, rng) if self.data in SHAPES else (miserables(), None)
        given = {} if unseen is not None else {"affinity": "precomputed"}
        kernel = hs.heat_kernel(X, n_neighbors=None, **given)
        d = hs.diffusion_distances(kernel, 8)
        d_unseen = None
        if unseen is not None:
            Z = coefficients(kernel, np.eye(len(X)), 8, trivial=False)
            d_unseen = pdist(kernel.at_new_points(unseen, Z))
        rows: list[Row] = []
        for k in self.n_components:
            for name, method in METHODS.items():
                rows.append(
                    _row(name, k, method(k, seed).set_params(n_neighbors=None, **given), (X, d), (unseen, d_unseen))
                )
            mds = MDS(k, metric="precomputed", init="classical_mds", n_init=1)  # the best start that it has
            rows.append(_row("MDS", k, mds, (squareform(d), d), (None, None)))
            for name, method in PEERS.items():
                there = name == "Isomap" or importlib.util.find_spec(name.lower()) is not None
                if there and unseen is not None:
                    rows.append(_row(name, k, method(k, seed), (X, d), (unseen, d_unseen)))
        return rows


def _row(name: str, k: int, model: Any, seen: tuple[Any, FloatArray], unseen: tuple[Any, Any]) -> Row:
    """What a method makes of points and their distances, seen and unseen."""
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = np.asarray(model.fit_transform(seen[0]), dtype=np.float64)
        seconds = perf_counter() - start
        there = None if unseen[0] is None else np.asarray(model.transform(unseen[0]), dtype=np.float64)
    row: Row = {"method": name, "k": k} | measured(Y, seen[1])
    on_unseen = {} if there is None else measured(there, unseen[1])
    return row | {f"{m}_unseen": on_unseen.get(m, np.nan) for m in ("log_L", "spearman")} | {"seconds": seconds}


_NAMES = {name.replace(" ", "_").replace("^", ""): name for name in SHAPES} | {"les_miserables": "Les Misérables"}
FURTHER = {
    name: Further(name, 500 if data in SHAPES else 77, 3, seed=101 + number, effort=60.0, data=data)
    for number, (name, data) in enumerate(_NAMES.items())
}


@dataclass(frozen=True)
class Times(Experiment):
    """Seconds and peak memory of HeatSketch with its defaults, and log L beside the other methods'."""

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
    """Fit once on little data, so that everything is compiled, then on all, and measure that."""
    model = getattr(hs, method)(k)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    model.set_params(n_neighbors=16).fit(make(data, 2500, seed=1001)[:2500])
    X = make(data, n, seed)
    start = perf_counter()
    model.set_params(n_neighbors="auto").fit(X)
    seconds = perf_counter() - start
    found = model.distortion_ if method == "HeatSketch" else model.distortion()
    yield {
        "seconds": seconds,
        "optimising": model.history_[-1].seconds if method == "HeatSketch" else 0.0,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "log_L": found.log,
    }


TIMES = {
    "times_500": Times("times_500", 500, 3, seed=133, effort=60.0, n_components=(2, 8)),
    "times_20000": Times("times_20000", 20_000, 1, seed=133, effort=200.0),
    # Eigenvectors of so many points take longer than all the rest.
    "times_100000": Times("times_100000", 100_000, 1, seed=133, effort=900.0, methods=Times.methods[1:]),
}


# Where the better of the two others has less than this there is little to win.
_WORTH = 0.2
_SHARE, _SHARE_IN_PLANE = 0.4, 0.65
# Seconds that a fit may take, by number of points, and memory at the largest.
_SECONDS = {500: 5.0, 20_000: 60.0, 100_000: 600.0}
_GIB = 4.0


def cells(tables: Tables, column: str) -> pd.DataFrame:
    """Means over the trials for each of the paper's data sets, normalisation and k, and ours over the better."""
    rows = []
    for data in PAPER:
        if data not in tables:
            continue
        groups = tables[data].groupby(["method", "k"])[column]
        mean, error = groups.mean(), groups.sem()
        for letter in "SB":
            for k in sorted(tables[data]["k"].unique()):
                maps, sketch, ours = (float(mean[name + letter, k]) for name in ("DM", "GP", "HS"))
                rows.append(
                    {
                        "data": data,
                        "normalization": letter,
                        "k": int(k),
                        "DM": maps,
                        "GP": sketch,
                        "HS": ours,
                        "error": float(error["HS" + letter, k]),
                        "better": min(maps, sketch),
                        "share": ours / min(maps, sketch),
                    }
                )
    return pd.DataFrame(rows)


def judged(tables: Tables) -> list[Claim]:
    """All claims whose tables are there."""
    found: list[Claim] = []
    if any(name in tables for name in PAPER):
        found += _on_the_charts(cells(tables, "log_L"), cells(tables, "log_L_unseen"))
    if "deflation" in tables:
        found.append(_deflation_claim(tables["deflation"]))
    found += [_times_claim(tables[f"times_{n}"], n) for n in _SECONDS if f"times_{n}" in tables]
    return found


def _on_the_charts(seen: pd.DataFrame, unseen: pd.DataFrame) -> list[Claim]:
    excess = (seen["HS"] - seen["better"]) / seen["error"]
    worth = seen[seen["better"] > _WORTH]
    above, plane = worth[worth["k"] >= 3], worth[worth["k"] == 2]
    lost = unseen[unseen["share"] >= 1.0]
    by_data = unseen.groupby("data")[["HS", "DM", "GP"]].mean()
    return [
        claim(
            "Mean log L never above the better of diffusion maps and Gaussian process embeddings by more than the "
            "standard error.",
            f"below it in {int((seen['share'] < 1).sum())} of {len(seen)} settings; nearest to it by "
            f"{-excess.max():.1f} standard errors",
            bool((excess <= 1.0).all()),
        ),
        claim(
            f"At most {_SHARE} of it for every k of 3 and more where it exceeds {_WORTH}.",
            f"{above['share'].min():.2f} to {above['share'].max():.2f} in {len(above)} settings",
            bool((above["share"] <= _SHARE).all()),
        ),
        claim(
            f"At most {_SHARE_IN_PLANE} of it for k = 2 where it exceeds {_WORTH}.",
            f"{plane['share'].min():.2f} to {plane['share'].max():.2f} in {len(plane)} settings",
            bool((plane["share"] <= _SHARE_IN_PLANE).all()),
        ),
        claim(
            "On unseen points below both, on each data set, averaged over trials, normalisations and k.",
            "; ".join(
                f"{data} {row['HS']:.2f} (DM {row['DM']:.2f}, GP {row['GP']:.2f})" for data, row in by_data.iterrows()
            ),
            bool((by_data["HS"] < by_data[["DM", "GP"]].min(axis=1)).all()),
        ),
        claim(
            "On unseen points below both, in every single setting.",
            f"in {len(unseen) - len(lost)} of {len(unseen)}"
            + "".join(
                f"; not: {row.data}, {row.normalization}, k = {row.k}: {row.HS:.2f} ± {row.error:.2f} (s.e.) against "
                f"{row.better:.2f}"
                for row in lost.itertuples()
            ),
            not len(lost),
        ),
    ]


def _deflation_claim(table: pd.DataFrame) -> Claim:
    means = table.pivot_table(index=["data", "k"], columns="method", values="error", aggfunc=_rms)
    share = means["auto"] / means["plain"]
    worst = share.idxmax()
    return claim(
        'n_exact="auto": error of squared distances never above that of a plain sketch with as many columns.',
        f"{share.min():.1e} to {share.max():.2f} of it in {len(share)} settings (most: {worst[0]}, k = {worst[1]})",
        bool((share <= 1.0 + 1e-9).all()),
    )


def _rms(errors: pd.Series) -> float:
    """Root mean square over trials: the expectation is of squares."""
    return float((errors**2).mean() ** 0.5)


def _times_claim(table: pd.DataFrame, n: int) -> Claim:
    ours = table[table["method"] == "HeatSketch"]
    seconds, gib = ours["seconds"].max(), ours["gib"].max()
    memory = f" and {_GIB:.0f} GiB" if n == max(_SECONDS) else ""
    kept = seconds <= _SECONDS[n] and (not memory or gib <= _GIB)
    return claim(
        f"A fit of {n:,} points within {_SECONDS[n]:.0f} s{memory} on two cores.",
        f"at most {seconds:.1f} s, {gib:.2f} GiB",
        bool(kept),
    )


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
_TIMES_TEXT = """
One fit each, warm, in a process of its own, default settings, float32 data; memory is the peak of the whole process.
log L is measured as `distortion()` does, beyond 2000 points a lower bound.
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


def _charts(tables: Tables) -> str:
    if not any(name in tables for name in PAPER):
        return ""
    seen, unseen = cells(tables, "log_L"), cells(tables, "log_L_unseen")
    parts = [_CHARTS.strip()]
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
    return "\n\n".join(parts)


def _gap(tables: Tables) -> str:
    if "gap" not in tables:
        return ""
    table = tables["gap"]
    methods = list(dict.fromkeys(table["method"]))
    means = table.groupby(["data", "k", "method"])[["log_L", "log_L_unseen"]].mean()
    rows = []
    for data, k in dict.fromkeys(zip(table["data"], table["k"], strict=True)):
        found = [means.loc[data, k, method] for method in methods]
        rows.append([_TITLES[data], str(k), *(f"{f['log_L']:.2f} / {f['log_L_unseen']:.2f}" for f in found)])
    return f"{_GAP.strip()}\n\n{table['trial'].nunique()} trials.\n\n{grid(['data', 'k', *methods], rows)}"


def _deflation(tables: Tables) -> str:
    if "deflation" not in tables:
        return ""
    table = tables["deflation"]
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
    return f"{_DEFLATION.strip()}\n\n{table['trial'].nunique()} trials.\n\n{grid(head, rows)}"


def _further(tables: Tables) -> str:
    if not any(name in tables for name in FURTHER):
        return ""
    parts = [_FURTHER.strip(), _standing(tables)]
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
    return "\n\n".join(parts)


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
    if not any(name.startswith("times_") for name in tables):
        return ""
    rows = []
    for name in sorted((n for n in tables if n.startswith("times_")), key=lambda n: int(n.partition("_")[2])):
        table = tables[name]
        for (data, k, method), part in table.groupby(["data", "k", "method"], sort=False):
            points = f"{int(name.partition('_')[2]):,}"
            values = [f"{part['seconds'].median():.1f}", f"{part['gib'].max():.2f}", f"{part['log_L'].mean():.2f}"]
            rows.append([points, str(data), str(k), str(method), *values])
    return f"{_TIMES_TEXT.strip()}\n\n" + grid(["points", "data", "k", "method", "seconds", "GiB", "log L"], rows)


STUDY = Study(
    "study",
    "HeatSketch, measured",
    _INTRODUCTION,
    (*CHARTS.values(), *DEFLATION.values(), *GAP.values(), *FURTHER.values(), *TIMES.values()),
    judged,
    {
        "The paper's charts": _charts,
        "The gap to unseen points": _gap,
        "Exact directions": _deflation,
        "Other data, other measures": _further,
        "Time and memory": _times,
    },
    _draw,
)

if __name__ == "__main__":
    main(STUDY)
