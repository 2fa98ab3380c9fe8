"""Automatic choices of bandwidth and diffusion time, and intervals of distances: ``python -m benchmarks.choices``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.base import clone
from sklearn.datasets import make_s_curve, make_swiss_roll
from sklearn.neighbors import kneighbors_graph

import heatsketch as hs
from heatsketch import datasets
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch.linalg.diffusion import coefficients
from heatsketch.linalg.metrics import squared_distances
from heatsketch.linalg.sketch import GaussianSketch
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, frame_table, main, section
from heatsketch_paper.pictures import canvas, save

from .data import LABELLED, make

Sample = tuple[FloatArray, FloatArray]


def on_circle(angles: FloatArray) -> FloatArray:
    """Geodesic distances between angles, (n, n)."""
    apart = np.abs(angles[:, None] - angles[None, :])
    return np.minimum(apart, 2.0 * np.pi - apart)


def _circle(n: int, rng: np.random.Generator) -> Sample:
    X, angles = datasets.circle(n, rng, return_parameters=True)
    return X, on_circle(angles)


def _sphere(n: int, rng: np.random.Generator) -> Sample:
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.arccos(np.clip(X @ X.T, -1.0, 1.0))


def _torus(radius: float) -> Callable[[int, np.random.Generator], Sample]:
    def points(n: int, rng: np.random.Generator) -> Sample:
        X, angles = datasets.stretched_torus(n, radius, random_state=rng, return_parameters=True)
        return X, np.hypot(on_circle(angles[:, 0]), radius * on_circle(angles[:, 1]))

    return points


def _klein_bottle(n: int, rng: np.random.Generator) -> Sample:
    X = datasets.klein_bottle(n, random_state=rng)
    # Geodesics have no closed form; shortest paths in a dense sample approximate them.
    dense = np.vstack([X, datasets.klein_bottle(6000, random_state=rng)])
    graph = kneighbors_graph(dense, 10, mode="distance")
    return X, shortest_path(graph, directed=False, indices=range(n))[:, :n]


def _arc_length(angle: FloatArray) -> FloatArray:
    """Along Archimedes' spiral r = angle."""
    return 0.5 * (angle * np.sqrt(1.0 + angle**2) + np.arcsinh(angle))


def _swiss_roll(n: int, rng: np.random.Generator) -> Sample:
    X, angle = make_swiss_roll(2 * n, random_state=int(rng.integers(2**31)))
    flat = np.column_stack([_arc_length(angle), X[:, 1]])
    return X, cdist(flat, flat)


def _s_curve(n: int, rng: np.random.Generator) -> Sample:
    X, along = make_s_curve(2 * n, random_state=int(rng.integers(2**31)))
    flat = np.column_stack([along, X[:, 1]])  # two arcs of unit circles
    return X, cdist(flat, flat)


def _tree(n: int, rng: np.random.Generator) -> Sample:
    """A metric tree in R^10: three branches of length 1, each splitting in two, twice."""
    ends, edges = [np.zeros(10)], []

    def grow(start: int, children: int, levels: int) -> None:
        for _ in range(children if levels else 0):
            step = rng.normal(size=10)
            ends.append(ends[start] + step / np.linalg.norm(step))
            edges.append((start, len(ends) - 1))
            grow(len(ends) - 1, 2, levels - 1)

    grow(0, 3, 3)
    graph = np.zeros((len(ends), len(ends)))
    graph[tuple(np.transpose(edges))] = 1.0
    between = shortest_path(graph, directed=False)
    edge, along = rng.integers(len(edges), size=n), rng.uniform(size=n)
    start, stop = np.array(edges)[edge].T
    places = np.array(ends)
    X = places[start] + along[:, None] * (places[stop] - places[start])
    sides = ((start, along), (stop, 1.0 - along))
    through = [between[np.ix_(a, b)] + da[:, None] + db[None, :] for a, da in sides for b, db in sides]
    same = edge[:, None] == edge[None, :]
    return X, np.where(same, np.abs(along[:, None] - along[None, :]), np.minimum.reduce(through))


def _uneven_circle(n: int, rng: np.random.Generator) -> Sample:
    angles = 2.0 * np.pi * rng.beta(1.0, 4.0, size=n)
    return np.column_stack([np.cos(angles), np.sin(angles)]), on_circle(angles)


def _noisy_circle(n: int, rng: np.random.Generator) -> Sample:
    """A circle in R^10 with noise in all coordinates."""
    X, geodesic = _circle(n, rng)
    return np.hstack([X, np.zeros((n, 8))]) + 0.1 * rng.normal(size=(n, 10)), geodesic


def _outliers(n: int, rng: np.random.Generator) -> Sample:
    X, angles = datasets.circle_with_outliers(n, rng, return_parameters=True)
    geodesic, straight = on_circle(angles), cdist(X, X)
    geodesic[-2:], geodesic[:, -2:] = straight[-2:], straight[:, -2:]
    return X, geodesic


def _trefoil(n: int, rng: np.random.Generator) -> Sample:
    """The trefoil knot, uniform in arc length."""
    t = np.linspace(0.0, 2.0 * np.pi, 20_001)
    curve = np.column_stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)])
    length = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1)))
    along = rng.uniform(0.0, length[-1], n)
    X = np.column_stack([np.interp(along, length, coordinate) for coordinate in curve.T])
    return X, on_circle(2.0 * np.pi * along / length[-1])


def _square(n: int, rng: np.random.Generator) -> Sample:
    X = rng.uniform(size=(n, 2))
    return X, cdist(X, X)


GEOMETRY: dict[str, Callable[[int, np.random.Generator], Sample]] = {
    "circle": _circle,
    "sphere": _sphere,
    "flat torus": _torus(1.0),
    "stretched torus": _torus(3.5),
    "Klein bottle": _klein_bottle,
    "swiss roll": _swiss_roll,
    "tree": _tree,
    "uneven circle": _uneven_circle,
    "noisy circle": _noisy_circle,
    "circle with outliers": _outliers,
    "S curve": _s_curve,
    "trefoil knot": _trefoil,
    "square": _square,
}
# Shapes that were not looked at when the rules were made.
UNSEEN = ("S curve", "trefoil knot", "square")


# Times of the grid.
POWERS = np.unique(np.round(2.0 ** (np.arange(24) / 2.0)))


def chosen_by_rules(X: FloatArray) -> dict[str, tuple[float, float | None]]:
    """Bandwidth (the median of those of "self-tuning") and power by each rule; None where all times are tried."""
    auto = hs.GaussianProcessEmbedding(1, power="auto", random_state=0).fit(X)
    epsilon = float(hs.estimate_bandwidth(X, "neighbor").epsilon)
    by_paths, by_entropy = (
        hs.GaussianProcessEmbedding(1, bandwidth=epsilon, power=rule, random_state=0).fit(X)
        for rule in ("paths", "entropy")
    )
    found: dict[str, tuple[float, float | None]] = {
        "auto": (float(auto.bandwidth_), auto.power_),
        "neighbor, time by paths": (epsilon, by_paths.power_),
        "neighbor, time by entropy": (epsilon, by_entropy.power_),
        "neighbor, knee of PHATE": (epsilon, knee_of_phate(by_paths.kernel_)),
        "neighbor, power 8": (epsilon, 8.0),
        "neighbor, best time": (epsilon, None),
    }
    for rule in ("slope", "median", "self-tuning"):
        found[f"{rule}, best time"] = (float(np.median(hs.estimate_bandwidth(X, rule).epsilon)), None)
    return found


def knee_of_phate(kernel: hs.HeatKernel) -> float:
    """PHATE's time: two lines fitted to the von Neumann entropy of A^t for t up to 100 (Moon et al., 2019)."""
    values = np.abs(np.linalg.eigvalsh(kernel.symmetric.toarray()))
    times = np.arange(1, 101)
    shares = values[None, :] ** times[:, None]
    shares /= shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1)

    def misfit(stop: int) -> float:
        """Squared error of a line through the first points and another through the rest."""
        parts = (slice(None, stop), slice(stop, None))
        return sum(float(np.polynomial.Polynomial.fit(times[p], entropy[p], 1, full=True)[1][0].sum()) for p in parts)

    return float(times[min(range(3, len(times) - 3), key=misfit)])


_BANDWIDTHS = 9
_TAIL = 0.01
_COLUMNS = 32


def least_distortions(kernel: hs.HeatKernel, times: Iterable[float], geodesic: FloatArray, seed: int) -> Row:
    """Least log distortion over some times, against geodesics: of all pairs, and without the 1% at either end.

    Of diffusion distances, and of a Gaussian process embedding with 32 components.
    """
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values[-1] = 0.0  # the trivial mode
    values = np.maximum(values, 0.0) / values[-2]
    sketch = vectors.T @ GaussianSketch(seed).matrix(len(values), _COLUMNS)
    upper = np.triu_indices(len(geodesic), 1)
    true = geodesic[upper]
    apart = true > 1e-9 * true.max()
    rows = []
    for t in times:
        row = {}
        for kind, Y in (("exact", vectors * values**t), ("sketched", vectors @ (values[:, None] ** t * sketch))):
            d = np.sqrt(squared_distances(Y)[upper][apart])
            ratios = np.log(np.maximum(d, 1e-300) / true[apart])
            row[f"{kind}_log_L"] = np.ptp(ratios)
            row[f"{kind}_central"] = np.subtract(*np.quantile(ratios, [1.0 - _TAIL, _TAIL]))
        rows.append(row)
    return pd.DataFrame(rows).min().to_dict()


@dataclass(frozen=True)
class AgainstGrid(Experiment):
    """For one shape: the best of a grid of bandwidths and times, and what each rule chooses.

    The grid of bandwidths goes from half of that by the tenth neighbour to that by the median distance, beyond which a
    kernel becomes constant and diffusion distances become straight-line distances.
    """

    data: str = "circle"

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: one for each rule."""
        X, geodesic = GEOMETRY[self.data](self.n_samples, self.points_seed(index))
        seed = self.sketch_seed(index)
        narrow, wide = (float(hs.estimate_bandwidth(X, rule).epsilon) for rule in ("neighbor", "median"))
        grid = [hs.heat_kernel(X, bandwidth=float(e)) for e in np.geomspace(narrow / 2.0, wide, _BANDWIDTHS)]
        best = pd.DataFrame([least_distortions(kernel, POWERS, geodesic, seed) for kernel in grid]).min().to_dict()
        rows: list[Row] = [{"rule": "best on the grid", "bandwidth": np.nan, "power": np.nan} | best]
        for rule, (epsilon, power) in chosen_by_rules(X).items():
            kernel = hs.heat_kernel(X, bandwidth="self-tuning" if rule.startswith("self-tuning") else epsilon)
            least = least_distortions(kernel, POWERS if power is None else [power], geodesic, seed)
            rows.append({"rule": rule, "bandwidth": epsilon / narrow, "power": power or np.nan} | least)
        return [{"data": self.data} | row for row in rows]


AGAINST_GRID = {
    name: AgainstGrid(name.replace(" ", "_").lower(), 300 if name == "circle" else 500, 8, 151, 20.0, data=name)
    for name in GEOMETRY
}


_WIDTHS_OF_HALVES = 6
_POWERS_OF_HALVES = 2.0 ** np.arange(9)


def unequal_clusters(n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Three Gaussian clusters in the plane whose scales are 1 : 10 : 30."""
    label = rng.integers(0, 3, n)
    spread, centre = np.array([0.1, 1.0, 3.0])[label], np.array([(0, 0), (6, 0), (0, 20)])[label]
    return centre + spread[:, None] * rng.normal(size=(n, 2)), label


def _drawn(n: int, rng: np.random.Generator, *, name: str) -> tuple[FloatArray, IntArray]:
    X, label = LABELLED[name]()
    rows = rng.permutation(len(X))[:n]
    return X[rows], label[rows]


REAL: dict[str, Callable[..., tuple[FloatArray, IntArray]]] = {
    **{name: partial(_drawn, name=name) for name in ("digits", "wine", "breast cancer", "iris")},
    "unequal clusters": unequal_clusters,
}


@dataclass(frozen=True)
class HeldOut(Experiment):
    """Two thirds of a data set make two kernels; both embed the last third, and its distances are compared.

    ``held_out`` is the log of the 99% over the 1% quantile of the ratios of the two distances; ``labels`` the share of
    points whose nearest neighbour, by diffusion distance, has the same label.
    """

    data: str = "digits"

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, labels = REAL[self.data](self.n_samples, self.points_seed(index))
        parts = np.array_split(np.arange(len(X)), 3)
        A, B, C = (X[part] for part in parts)
        seen = labels[parts[2]]
        rows: list[Row] = []
        widths = [_bandwidths(part) for part in (A, B)]
        for number in range(_WIDTHS_OF_HALVES):
            kernels = [hs.heat_kernel(P, bandwidth=w[number]) for P, w in zip((A, B), widths, strict=True)]
            rows += [
                {"rule": "grid", "bandwidth": number, "power": power} | _agreement(kernels, power, C, seen)
                for power in _POWERS_OF_HALVES
            ]
        kernels = [hs.heat_kernel(P, bandwidth=w[0]) for P, w in zip((A, B), widths, strict=True)]
        rows.append({"rule": "neighbor, power 8", "bandwidth": 0, "power": 8} | _agreement(kernels, 8.0, C, seen))
        tuned = [hs.GaussianProcessEmbedding(1, power="auto", random_state=0) for _ in range(2)]
        for model, part in zip(tuned, (A, B), strict=True):
            _fit(model, part)
        row = _agreement([model.kernel_ for model in tuned], [model.power_ for model in tuned], C, seen)
        rows.append({"rule": "auto", "bandwidth": np.nan, "power": tuned[0].power_} | row)
        return [{"data": self.data} | row for row in rows]


def _bandwidths(X: FloatArray) -> list[float]:
    narrow, wide = (float(hs.estimate_bandwidth(X, rule).epsilon) for rule in ("neighbor", "median"))
    return np.geomspace(narrow, wide, _WIDTHS_OF_HALVES).tolist()


def _agreement(
    kernels: list[hs.HeatKernel], power: float | list[float], C: FloatArray, labels: IntArray
) -> dict[str, float]:
    powers = power if isinstance(power, list) else [power, power]
    first, second = (_distances(kernel, t, C) for kernel, t in zip(kernels, powers, strict=True))
    ratios = np.log(np.maximum(first, 1e-300) / np.maximum(second, 1e-300))
    nearest = [(squareform(d) + np.diag(np.full(len(C), np.inf))).argmin(axis=1) for d in (first, second)]
    return {
        "held_out": float(np.subtract(*np.quantile(ratios, [1.0 - _TAIL, _TAIL]))),
        "labels": float(np.mean([np.mean(labels[near] == labels) for near in nearest])),
    }


def _distances(kernel: hs.HeatKernel, power: float, C: FloatArray) -> FloatArray:
    """Diffusion distances between new points: of their rows ``a(x) S^(t-1)``, in units of the largest."""
    columns = kernel.asblock(kernel.rows_at_new_points(C).T)
    rows = coefficients(kernel, columns, power, trivial=not kernel.trivial_is_constant).T
    d = pdist(rows / np.abs(rows).max())
    return d / d.max()


HELD_OUT = {name: HeldOut(f"held_out_{name.replace(' ', '_')}", 600, 10, 152, 15.0, data=name) for name in REAL}
LEVEL = 0.95


@dataclass(frozen=True)
class Coverage(Experiment):
    """Share of pairs whose exact diffusion distance lies in the interval, by embedding and data."""

    data: tuple[str, ...] = ("stretched torus", "Klein bottle", "circle with outliers", "tree", "digits")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for data in self.data:
            source = GEOMETRY.get(data) or REAL[data]
            X = source(self.n_samples, self.points_seed(index))[0]
            for kernel in ("all pairs", "12 neighbours"):
                rows += [{"data": data, "kernel": kernel} | row for row in self._covered(X, kernel, index)]
        return rows

    def _covered(self, X: np.ndarray, kernel: str, index: int) -> list[Row]:
        seed = self.sketch_seed(index)
        sketch = partial(hs.GaussianProcessEmbedding, random_state=seed)
        models = {
            "Gaussian, k = 2": sketch(2),
            "Gaussian, k = 32": sketch(32),
            "signs, k = 2": sketch(2, sketch="rademacher"),
            "signs, k = 32": sketch(32, sketch="rademacher"),
            "4 exact + 12 Gaussian": sketch(16, n_exact=4),
            "time chosen by paths, k = 32": sketch(32, power="paths"),
            "reference sketch (for HeatSketch, DiffusionMaps)": hs.DiffusionMaps(3),
        }
        pairs = self.other_seed(index).integers(0, len(X), (2000, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        rows = []
        for name, model in models.items():
            _fit(model.set_params(n_neighbors=12 if kernel == "12 neighbours" else "auto"), X)
            true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
            _, low, high = model.diffusion_distances(pairs, interval=LEVEL)
            slack = 1e-9 * true.max()  # where a distance is exact the interval is a point
            rows.append(
                {
                    "method": name,
                    "covered": float(np.mean((low - slack <= true) & (true <= high + slack))),
                    "width": float(np.median(high / np.maximum(low, 1e-300))),
                }
            )
        return rows


COVERAGE = Coverage("coverage", 200, 24, seed=143, effort=8.0)
_REPEATS = 3


@dataclass(frozen=True)
class ChoiceTimes(Experiment):
    """Seconds of a fit with power="auto", and of one with the numbers that it chose, one after the other."""

    alone: ClassVar[bool] = True
    data: tuple[str, ...] = ("swiss roll", "tree", "torus")
    methods: tuple[str, ...] = ("GaussianProcessEmbedding", "DiffusionMaps", "HeatSketch")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for data in self.data:
            X = hs.datasets.stretched_torus(self.n_samples, random_state=index) if data == "torus" else None
            X = make(data, self.n_samples, index) if X is None else X.astype(np.float32)
            rows += [{"data": data, "method": method} | _measured(X, method) for method in self.methods]
        return rows


def _measured(X: Any, method: str) -> Row:
    seeded = {} if method == "DiffusionMaps" else {"random_state": 0}
    auto = getattr(hs, method)(10 if method != "HeatSketch" else 3, power="auto", **seeded)
    _fit(auto, X)
    given = clone(auto).set_params(power=auto.power_, bandwidth=float(auto.bandwidth_))
    _fit(given, X)
    times = np.array([(_fit(auto, X), _fit(given, X)) for _ in range(_REPEATS)])
    automatic, plain = np.median(times, axis=0).tolist()
    return {"power": auto.power_, "automatic": automatic, "given": plain, "extra": (automatic - plain) / plain}


def _fit(model: Any, X: Any) -> float:
    """Seconds of a fit; it warns if the data allow one step only, which the tables show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        start = perf_counter()
        model.fit(X)
        return perf_counter() - start


CHOICE_TIMES = {
    f"choice_times_{n}": ChoiceTimes(f"choice_times_{n}", n, trials, 144, 30.0, methods=ChoiceTimes.methods[:methods])
    for n, trials, methods in ((500, 3, 3), (2000, 2, 3), (10_000, 1, 1), (50_000, 1, 1))
}


MEASURES = {
    "exact_central": "diffusion distances, 98% of pairs",
    "exact_log_L": "diffusion distances, all pairs",
    "sketched_central": "32 components, 98% of pairs",
    "sketched_log_L": "32 components, all pairs",
}
_WITHIN, _SHARE = 1.1, 0.8
_FAILURE = 2.0
_EXTRA = 0.5
# Embeddings whose intervals follow exactly from a law; those of signs are approximations.
_EXACT = ("Gaussian", "4 exact", "time chosen", "reference sketch")
_ERRORS = 3.0


def ratios(tables: Tables, rule: str = "auto") -> pd.DataFrame:
    """Mean distortion by a rule over the mean of the best on the grid: a row for each shape, a column per measure."""
    rows = {}
    for name, experiment in AGAINST_GRID.items():
        if experiment.name in tables:
            means = tables[experiment.name].groupby("rule")[list(MEASURES)].mean()
            rows[name] = means.loc[rule] / means.loc["best on the grid"]
    return pd.DataFrame(rows).T


def held_out(tables: Tables) -> pd.DataFrame:
    """Means by real data set: distortion between halves and labels, of the grid's best, of "auto" and of defaults."""
    rows = {}
    for name, experiment in HELD_OUT.items():
        if experiment.name in tables:
            table = tables[experiment.name]
            best = table[table["rule"] == "grid"].groupby("trial").agg({"held_out": "min", "labels": "max"}).mean()
            mean = table.groupby("rule")[["held_out", "labels"]].mean()
            parts = {"best": best, "auto": mean.loc["auto"], "default": mean.loc["neighbor, power 8"]}
            rows[name] = {f"{measure}: {rule}": part[measure] for measure in best.index for rule, part in parts.items()}
    return pd.DataFrame(rows).T


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims whose tables are there."""
    shapes, real = ratios(tables), held_out(tables)
    if len(shapes):
        for measure, title in MEASURES.items():
            yield _within(f"Known geometry, {title}", shapes[measure])
        yield _never_a_failure(tables)
    if len(real):
        yield _within(
            "Real data, two halves of the data on unseen points", real["held_out: auto"] / real["held_out: best"]
        )
        auto, default = real["labels: auto"], real["labels: default"]
        yield claim(
            "Real data: neighbours have the same label no less often than with the default bandwidth and power.",
            "; ".join(f"{name} {auto[name]:.3f} ({default[name]:.3f})" for name in real.index),
            (auto >= default).all(),
        )
    if "coverage" in tables:
        yield _coverage_claim(tables["coverage"])
    times = choice_times(tables)
    if len(times):
        over = times[times["extra"] > _EXTRA].sort_values("extra", ascending=False)
        more = "; ".join(f"{r.method}, {r.data}, {r.points:,} points {r.extra:.2f}" for r in over.itertuples())
        yield claim(
            "The automatic choices take at most half of the time of the embedding itself.",
            f"in {len(times) - len(over)} of {len(times)} settings" + (f"; more: {more}" if more else ""),
            over.empty,
        )


def _within(what: str, share: pd.Series) -> Claim:
    good = share <= _WITHIN
    beyond = ", ".join(f"{name} {value:.2f}" for name, value in share[~good].items())
    return claim(
        f"{what}: log distortion within {_WITHIN - 1:.0%} of the best on the grid for four sets in five.",
        f"{good.sum()} of {len(share)}" + (f"; beyond: {beyond}" if beyond else ""),
        good.mean() >= _SHARE,
    )


def _never_a_failure(tables: Tables) -> Claim:
    shapes = {name: tables[one.name] for name, one in AGAINST_GRID.items() if one.name in tables}
    wide = {name: table.pivot(index="trial", columns="rule", values="exact_central") for name, table in shapes.items()}
    worst = {name: (one["auto"] / one["best on the grid"]).max() for name, one in wide.items()}
    name = max(worst, key=worst.__getitem__)
    return claim(
        f"Never a failure: in no trial more than {_FAILURE:g} times the best log distortion (98% of pairs).",
        f"{sum(map(len, wide.values()))} trials, at most {worst[name]:.2f} ({name})",
        worst[name] <= _FAILURE,
    )


def _coverage_claim(table: pd.DataFrame) -> Claim:
    by_trial = table.groupby(["method", "trial"])["covered"].mean().groupby("method")
    mean, error = by_trial.mean(), by_trial.sem()
    lawful = [method for method in mean.index if method.startswith(_EXACT)]
    off = ((mean - LEVEL) / error)[lawful]
    listed = "; ".join(f"{method} {mean[method]:.3f} ± {error[method]:.3f}" for method in mean.index)
    return claim(
        f"Intervals at {LEVEL} that follow from a law contain the distance that often: no mean is more than "
        f"{_ERRORS:g} standard errors below.",
        f"over {table['data'].nunique()} data sets and two kernels: {listed}",
        (off >= -_ERRORS).all(),
    )


def choice_times(tables: Tables) -> pd.DataFrame:
    """Medians over the trials by points, data and method."""
    there = {name: one.n_samples for name, one in CHOICE_TIMES.items() if name in tables}
    parts = [tables[name].assign(points=n) for name, n in there.items()]
    if not parts:
        return pd.DataFrame()
    columns = ["power", "given", "automatic", "extra"]
    return pd.concat(parts).groupby(["points", "data", "method"], sort=False)[columns].median().reset_index()


_INTRODUCTION = """
How good the choices of `power="auto"` and `bandwidth="auto"` are, compared with the best on a grid, and how often
confidence intervals contain the exact distance. The rules were developed on other samples of the first ten shapes, and
revised once after a first run of this study on other samples of all shapes: gaps had disconnected the paths too easily,
and the widest bandwidth that does not join folds was missed. {unseen} were added after the rules were developed.
"""
_GEOMETRY = """
500 points with known geodesic distances (300 on the circle, 1,000 on the swiss roll and the S curve). The grid has nine
bandwidths, from half of the bandwidth by the tenth neighbour to that by the median distance, and 24 times from 1 to
2,896. (Beyond the median distance the kernel becomes constant and diffusion distances become straight-line distances,
which are good on shapes with little curvature.) The tables list log distortions against the geodesics, means over
{trials} trials, divided by the best on the grid, which is found in each trial by the same measure; 1 is the best.
*98% of pairs* omits the 1% at either end. *32 components* is a Gaussian process embedding; the best on the grid
contains the same sampling noise.
"""
_RULES = """
The same ratio, for diffusion distances and 98% of pairs, for other rules. "Best time" is the best of the grid for that
bandwidth. "Knee of PHATE" is the time at which two lines fitted to the von Neumann entropy meet.
"""
_HELD_OUT = """
The geometry of real data is unknown. One third of the points makes one kernel and another third a second one, each with
its own automatic choices. Both embed the last third, and the two distances of each pair are compared: *halves* is the
log of the 99% over the 1% quantile of their ratios, for the best of a grid (six bandwidths, nine times), for "auto" and
for the tenth neighbour with power 8. Kernels that resolve little agree easily; therefore *labels* shows the share of
points whose nearest neighbour has the same label. "Unequal clusters" are three Gaussian clusters of scales 1 : 10 : 30.
"""
_COVERAGE = """
Share of random pairs whose exact diffusion distance lies in the interval at level .95, and the median ratio of its
upper to its lower end; means over data sets (stretched torus, Klein bottle, circle with outliers, tree, digits), two
kernels (all pairs, 12 neighbours) and {trials} trials. For signs the law is an approximation.
"""
_TIMES = """
Seconds of a fit with `power="auto"` (and `bandwidth="auto"`), and of a fit with the chosen numbers; medians of
interleaved fits. "Extra" is the cost of the choice as a share of the fit with given numbers.
"""
_SHAPES = [experiment.name for experiment in AGAINST_GRID.values()]


def _draw(tables: Tables, folder: Path) -> None:
    if not set(_SHAPES) & set(tables):
        return
    drawn, (ax,) = canvas(1)
    shown = {"auto": "#000000", "neighbor, time by entropy": "#0072B2", "neighbor, knee of PHATE": "#D55E00"}
    for rule, colour in shown.items():
        values = ratios(tables, rule)["exact_central"]
        ax.plot(values, range(len(values)), "o", ms=4, color=colour, label=rule)
    ax.axvspan(1.0, 1.1, color="0.9", zorder=0)
    ax.set(xscale="log", xlabel="multiple of the best log distortion")
    ax.set_yticks(range(len(values)), values.index)
    ticks = (1, 1.5, 2, 3, 4)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    save(drawn, folder / "choices", ("png",))


@section(_SHAPES, _GEOMETRY)
def _geometry(tables: Tables) -> str:
    together = pd.concat(tables.values())
    chosen = together[together["rule"] == "auto"].groupby("data")[["bandwidth", "power"]].median()
    best = together[together["rule"] == "best on the grid"].groupby("data")["exact_central"].mean()
    found = ratios(tables).map(lambda value: f"{value:.2f}" if value > _WITHIN else f"**{value:.2f}**")
    found = found.rename(columns=MEASURES).rename_axis("shape")
    found.insert(0, "bandwidth", chosen["bandwidth"])
    found.insert(1, "power", chosen["power"])
    found.insert(2, "best log distortion, 98%", best)
    formats = {"bandwidth": ".1f", "power": "g", "best log distortion, 98%": ".2f"}
    _, *names = together["rule"].unique()
    rules = pd.DataFrame({rule: ratios(tables, rule)["exact_central"] for rule in names}).rename_axis("shape")
    rules.loc["**worst**"] = rules.max()
    return "\n\n".join(
        [
            "![Rules against the best](pictures/choices.png)",
            "Bandwidth (in units of the tenth neighbour's) and power are medians over the trials.",
            frame_table(found.reset_index(), formats),
            "### Other rules",
            _RULES.strip(),
            frame_table(rules.reset_index(), dict.fromkeys(names, ".2f")),
        ]
    )


@section([experiment.name for experiment in HELD_OUT.values()], _HELD_OUT)
def _real(tables: Tables) -> str:
    found = held_out(tables).rename(columns=lambda name: name.replace("held_out", "halves")).rename_axis("data")
    return frame_table(found.reset_index(), {name: ".3f" if "labels" in name else ".2f" for name in found})


@section(["coverage"], _COVERAGE)
def _coverage(tables: Tables) -> str:
    table = tables["coverage"]
    means = table.groupby(["method", "kernel"])[["covered", "width"]].mean().unstack()
    means = means.loc[table["method"].unique()].reindex(columns=table["kernel"].unique(), level="kernel")
    means.columns = [f"{'high / low' if name == 'width' else name}, {kernel}" for name, kernel in means.columns]
    return frame_table(means.reset_index(), {name: ".2f" if "low" in name else ".3f" for name in means})


@section(CHOICE_TIMES, _TIMES)
def _times(tables: Tables) -> str:
    names = {"given": "given, s", "automatic": "automatic, s"}
    formats = {"points": ",", "power": "g", "given, s": ".3f", "automatic, s": ".3f", "extra": ".2f"}
    return frame_table(choice_times(tables).rename(columns=names), formats)


STUDY = Study(
    "choices",
    "Automatic choices, measured",
    _INTRODUCTION.format(unseen=", ".join(UNSEEN)),
    (*AGAINST_GRID.values(), *HELD_OUT.values(), COVERAGE, *CHOICE_TIMES.values()),
    judged,
    {"Known geometry": _geometry, "Real data": _real, "Intervals": _coverage, "Time": _times},
    _draw,
)

if __name__ == "__main__":
    main(STUDY)
