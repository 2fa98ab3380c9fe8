"""Automatic choices of bandwidth and diffusion time, and intervals of distances: ``python -m benchmarks.choices``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_s_curve, make_swiss_roll
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch import datasets
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch.analysis.power import choose_power, tuned_kernel
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.diffusion import coefficients
from heatsketch.linalg.sketch import GaussianSketch
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, grid, main
from heatsketch_paper.pictures import canvas, save

from .data import make

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
    # Its geodesics have no closed form; those along a dense sample take their place.
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
RULES = (
    "auto",
    "neighbor, time by paths",
    "neighbor, time by entropy",
    "neighbor, knee of PHATE",
    "neighbor, power 8",
    "neighbor, best time",
    "slope, best time",
    "median, best time",
    "self-tuning, best time",
)


def chosen_by_rules(X: FloatArray) -> dict[str, tuple[float, float | None]]:
    """Bandwidth (the median of those of "self-tuning") and power by each rule; None where all times are tried."""
    auto, power = tuned_kernel(X, KernelOptions(), "auto", X.dtype)
    epsilon = float(hs.estimate_bandwidth(X, "neighbor").epsilon)
    kernel = hs.heat_kernel(X, bandwidth=epsilon)
    _, by_paths = tuned_kernel(X, KernelOptions(bandwidth=epsilon), "paths", X.dtype)
    found: dict[str, tuple[float, float | None]] = {
        "auto": (float(np.asarray(auto.bandwidth)), power.power),
        "neighbor, time by paths": (epsilon, by_paths.power),
        "neighbor, time by entropy": (epsilon, choose_power(kernel, None).power),
        "neighbor, knee of PHATE": (epsilon, knee_of_phate(kernel)),
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
        """Error of a line through the first points and another through the rest."""
        parts = (slice(None, stop), slice(stop, None))
        return sum(
            float(np.square(np.polyval(np.polyfit(times[p], entropy[p], 1), times[p]) - entropy[p]).sum())
            for p in parts
        )

    return float(times[min(range(3, len(times) - 3), key=misfit)])


_BANDWIDTHS = 9
_TAIL = 0.01
_COLUMNS = 32


class Spectrum:
    """All eigenpairs of a heat kernel, and from them its diffusion distances, and a sketch, at any time."""

    def __init__(self, kernel: hs.HeatKernel, seed: int) -> None:
        values, self._vectors = np.linalg.eigh(kernel.symmetric.toarray())
        values[-1] = 0.0  # the trivial mode
        self.values = np.maximum(values, 0.0) / values[-2]
        self._seen = self._vectors.T @ GaussianSketch(seed).matrix(len(values), _COLUMNS)

    def distances(self, power: float) -> FloatArray:
        """Diffusion distances up to a factor, (n, n)."""
        return _between(self._vectors * self.values**power)

    def sketched(self, power: float) -> FloatArray:
        """Distances in a Gaussian process embedding of 32 components."""
        return _between(self._vectors @ (self.values[:, None] ** power * self._seen))


def _between(Y: FloatArray) -> FloatArray:
    gram = Y @ Y.T
    size = np.diagonal(gram)
    return np.sqrt(np.maximum(size[:, None] + size[None, :] - 2.0 * gram, 0.0))


def distortions(spectrum: Spectrum, power: float, geodesic: FloatArray) -> dict[str, float]:
    """Log distortion against geodesics: of all pairs, and without the hundredth at either end."""
    upper = np.triu_indices(len(geodesic), 1)
    true = geodesic[upper]
    apart = true > 1e-9 * true.max()
    row = {}
    for kind, d in (("exact", spectrum.distances(power)), ("sketched", spectrum.sketched(power))):
        ratios = np.log(np.maximum(d[upper][apart], 1e-300) / true[apart])
        row[f"{kind}_log_L"] = float(np.ptp(ratios))
        row[f"{kind}_central"] = float(np.subtract(*np.quantile(ratios, [1.0 - _TAIL, _TAIL])))
    return row


@dataclass(frozen=True)
class AgainstGrid(Experiment):
    """For one shape: the best of a grid of bandwidths and times, and what each rule chooses.

    The grid of bandwidths goes from half of what the tenth neighbour gives to what the median distance gives, beyond
    which a kernel turns into a constant, and diffusion distances into straight-line ones.
    """

    data: str = "circle"

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: one for each rule."""
        X, geodesic = GEOMETRY[self.data](self.n_samples, self.points_seed(index))
        seed = self.sketch_seed(index)
        narrow, wide = (float(hs.estimate_bandwidth(X, rule).epsilon) for rule in ("neighbor", "median"))
        cells = []
        for epsilon in np.geomspace(narrow / 2.0, wide, _BANDWIDTHS):
            spectrum = Spectrum(hs.heat_kernel(X, bandwidth=float(epsilon)), seed)
            cells += [distortions(spectrum, t, geodesic) for t in POWERS]
        best = {measure: min(cell[measure] for cell in cells) for measure in cells[0]}
        rows: list[Row] = [{"rule": "best on the grid", "bandwidth": np.nan, "power": np.nan} | best]
        for rule, (epsilon, power) in chosen_by_rules(X).items():
            kernel = hs.heat_kernel(X, bandwidth="self-tuning" if rule.startswith("self-tuning") else epsilon)
            spectrum = Spectrum(kernel, seed)
            times = POWERS if power is None else [power]
            found = [distortions(spectrum, t, geodesic) for t in times]
            least = {measure: min(one[measure] for one in found) for measure in found[0]}
            rows.append({"rule": rule, "bandwidth": epsilon / narrow, "power": power or np.nan} | least)
        assert len(rows) == 1 + len(RULES)
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


def _table(load: Callable[..., tuple[FloatArray, IntArray]]) -> Callable[..., tuple[FloatArray, IntArray]]:
    def points(n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        X, label = load(return_X_y=True)
        rows = rng.permutation(len(X))[:n]
        return StandardScaler().fit_transform(X)[rows] if load is not load_digits else X[rows], label[rows]

    return points


REAL: dict[str, Callable[..., tuple[FloatArray, IntArray]]] = {
    "digits": _table(load_digits),
    "wine": _table(load_wine),
    "breast cancer": _table(load_breast_cancer),
    "iris": _table(load_iris),
    "unequal clusters": unequal_clusters,
}


@dataclass(frozen=True)
class HeldOut(Experiment):
    """Two thirds of a data set make two kernels; the last third is placed by both, and its distances compared.

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that one step is as far as is good; it is in the table
            tuned = [tuned_kernel(P, KernelOptions(), "auto", P.dtype) for P in (A, B)]
        powers = [chosen.power for _, chosen in tuned]
        row = _agreement([kernel for kernel, _ in tuned], powers, C, seen)
        rows.append({"rule": "auto", "bandwidth": np.nan, "power": powers[0]} | row)
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
_POINTS = 200


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
        common = {"n_neighbors": 12} if kernel == "12 neighbours" else {}
        sketch = hs.GaussianProcessEmbedding
        models = {
            "Gaussian, k = 2": sketch(2, random_state=seed, **common),
            "Gaussian, k = 32": sketch(32, random_state=seed, **common),
            "signs, k = 2": sketch(2, sketch="rademacher", random_state=seed, **common),
            "signs, k = 32": sketch(32, sketch="rademacher", random_state=seed, **common),
            "4 exact + 12 Gaussian": sketch(16, n_exact=4, random_state=seed, **common),
            "time chosen by paths, k = 32": sketch(32, power="paths", random_state=seed, **common),
            "witness (for HeatSketch, DiffusionMaps)": hs.DiffusionMaps(3, **common),
        }
        pairs = self.other_seed(index).integers(0, len(X), (2000, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        rows = []
        for name, model in models.items():
            model.fit(X)
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


COVERAGE = {"coverage": Coverage("coverage", _POINTS, 24, seed=143, effort=8.0)}


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        _fit(auto, X)
    given = auto.__class__(**auto.get_params()).set_params(power=auto.power_, bandwidth=float(auto.bandwidth_))
    _fit(given, X)
    seconds: dict[str, list[float]] = {"automatic": [], "given": []}
    for _ in range(_REPEATS):
        seconds["automatic"].append(_fit(auto, X))
        seconds["given"].append(_fit(given, X))
    automatic, plain = (float(np.median(values)) for values in seconds.values())
    return {"power": auto.power_, "automatic": automatic, "given": plain, "extra": (automatic - plain) / plain}


def _fit(model: Any, X: Any) -> float:
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
# Embeddings whose intervals are exact by a law; those of signs are approximations.
_EXACT = ("Gaussian", "4 exact", "time chosen", "witness")
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
    """Means by real data set: distortion between halves and labels, of "auto", of defaults, and of the grid's best."""
    rows = {}
    for name, experiment in HELD_OUT.items():
        if experiment.name not in tables:
            continue
        table = tables[experiment.name]
        grid = table[table["rule"] == "grid"].groupby("trial")
        auto, default = (table[table["rule"] == rule] for rule in ("auto", "neighbor, power 8"))
        rows[name] = {
            "best": grid["held_out"].min().mean(),
            "auto": auto["held_out"].mean(),
            "default": default["held_out"].mean(),
            "best labels": grid["labels"].max().mean(),
            "auto labels": auto["labels"].mean(),
            "default labels": default["labels"].mean(),
        }
    return pd.DataFrame(rows).T


def judged(tables: Tables) -> list[Claim]:
    """All claims whose tables are there."""
    found: list[Claim] = []
    shapes, real = ratios(tables), held_out(tables)
    if len(shapes):
        found += [_within(f"Known geometry, {title}", shapes[measure]) for measure, title in MEASURES.items()]
        found.append(_never_a_failure(tables))
    if len(real):
        found.append(_within("Real data, two halves of the data on unseen points", real["auto"] / real["best"]))
        lost = real["auto labels"] - real["default labels"]
        found.append(
            claim(
                "Real data: neighbours have the same label no less often than with the default bandwidth and power.",
                "; ".join(
                    f"{name} {row['auto labels']:.3f} ({row['default labels']:.3f})" for name, row in real.iterrows()
                ),
                bool((lost >= 0).all()),
            )
        )
    if "coverage" in tables:
        found.append(_coverage_claim(tables["coverage"]))
    times = [table for name, table in tables.items() if name.startswith("choice_times_")]
    if times:
        found.append(_times_claim(times))
    return found


def _within(what: str, share: pd.Series) -> Claim:
    good = share <= _WITHIN
    beyond = ", ".join(f"{name} {value:.2f}" for name, value in share[~good].items())
    return claim(
        f"{what}: log distortion within {_WITHIN - 1:.0%} of the best on the grid for four sets in five.",
        f"{good.sum()} of {len(share)}" + (f"; beyond: {beyond}" if beyond else ""),
        bool(good.mean() >= _SHARE),
    )


def _never_a_failure(tables: Tables) -> Claim:
    worst = []
    for name, experiment in AGAINST_GRID.items():
        if experiment.name in tables:
            table = tables[experiment.name].set_index(["trial", "rule"])["exact_central"].unstack()
            worst.append(((table["auto"] / table["best on the grid"]).max(), name, len(table)))
    most, name, _ = max(worst)
    return claim(
        f"Never a failure: in no trial more than {_FAILURE:g} times the best log distortion (98% of pairs).",
        f"{sum(n for *_, n in worst)} trials, at most {most:.2f} ({name})",
        bool(most <= _FAILURE),
    )


def _coverage_claim(table: pd.DataFrame) -> Claim:
    by_trial = table.groupby(["method", "trial"])["covered"].mean().groupby("method")
    mean, error = by_trial.mean(), by_trial.sem()
    lawful = [method for method in mean.index if method.startswith(_EXACT)]
    off = ((mean - LEVEL) / error)[lawful]
    listed = "; ".join(f"{method} {mean[method]:.3f} ± {error[method]:.3f}" for method in mean.index)
    return claim(
        f"Intervals at {LEVEL} that follow from a law hold the distance that often: no mean is more than "
        f"{_ERRORS:g} standard errors below.",
        f"over {table['data'].nunique()} data sets and two kernels: {listed}",
        bool((off >= -_ERRORS).all()),
    )


def _times_claim(tables: Iterable[pd.DataFrame]) -> Claim:
    rows = []
    for table in tables:
        n = int(str(table["figure"].iloc[0]).rpartition("_")[2])
        for (method, data), part in table.groupby(["method", "data"], sort=False):
            rows.append((float(part["extra"].median()), f"{method}, {data}, {n:,} points"))
    over = [f"{what} {extra:.2f}" for extra, what in sorted(rows, reverse=True) if extra > _EXTRA]
    return claim(
        "The automatic choices take at most half of the time of the embedding itself.",
        f"in {len(rows) - len(over)} of {len(rows)} settings" + (f"; more: {'; '.join(over)}" if over else ""),
        not over,
    )


_INTRODUCTION = """
What `power="auto"` and `bandwidth="auto"` choose, against the best choice on a grid, and how often confidence intervals
hold what they are of. The rules were made on other samples of the first ten shapes, and revised once after a first
run of this study on other samples of all of them (paths had been too easily broken by gaps, and the widest bandwidth
that does not join folds was missed); {unseen} had been added after they were made.
"""
_GEOMETRY = """
500 points whose geodesic distances are known (300 on the circle, 1,000 on the swiss roll and the S curve). The grid has
nine bandwidths, from half of what the tenth neighbour gives to what the median distance gives, and 24 times from 1 to
2,896. (Beyond the median the kernel turns into a constant and diffusion distances into straight-line distances, which
on shapes that hardly bend are as good as any.) Numbers are log distortions against the geodesics, means over {trials}
trials, as multiples of the best on the grid, which is looked for in each trial by the measure itself; 1 is the best.
*98% of pairs* leaves out the hundredth at either end. *32 components* is a Gaussian process embedding, whose own noise
is in the best of the grid too.
"""
_RULES = """
The same multiple, for diffusion distances and 98% of pairs, for other rules. "Best time" is the best of the grid for
that bandwidth. "Knee of PHATE" is the time at which two lines fitted to the von Neumann entropy meet.
"""
_HELD_OUT = """
Real data have no geometry that is known. A third of the points makes one kernel and another third a second one, each
with its own automatic choices; the last third is placed by both, and the two distances of each pair are compared: the
log of the 99% over the 1% quantile of their ratios, for the best of a grid (six bandwidths, nine times), for "auto" and
for the tenth neighbour with power 8. Agreement is cheap for kernels that see little; so the share of points whose
nearest neighbour has the same label stands beside it, again with the best of the grid. "Unequal clusters" are three
Gaussian clusters of scales 1 : 10 : 30.
"""
_COVERAGE = """
Share of random pairs whose exact diffusion distance lies in the interval at level .95, and the median of its upper over
its lower end; means over data sets ({data}), two kernels (all pairs, 12 neighbours) and {trials} trials. Signs follow
the law approximately only.
"""
_TIMES = """
Seconds of a fit with `power="auto"` (and `bandwidth="auto"`), and of one with the numbers that it chose; medians of
interleaved fits. "Extra" is what the choice costs, as a share of the fit with given numbers.
"""


def _shapes(tables: Tables) -> dict[str, pd.DataFrame]:
    return {name: tables[one.name] for name, one in AGAINST_GRID.items() if one.name in tables}


def _draw(tables: Tables, folder: Path) -> None:
    if not _shapes(tables):
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


def _geometry(tables: Tables) -> str:
    if not _shapes(tables):
        return ""
    trials = max(table["trial"].nunique() for table in _shapes(tables).values())
    text = _GEOMETRY.strip().format(trials=trials)
    picture = "![Rules against the best](pictures/choices.png)"
    return "\n\n".join([text, picture, _against(tables), "### Other rules", _RULES.strip(), _by_rule(tables)])


def _against(tables: Tables) -> str:
    found = ratios(tables)
    rows = []
    for name, table in _shapes(tables).items():
        chosen = table[table["rule"] == "auto"]
        best = table[table["rule"] == "best on the grid"]["exact_central"].mean()
        values = [f"{value:.2f}" if value > 1.1 else f"**{value:.2f}**" for value in found.loc[name]]
        rows.append(
            [name, f"{chosen['bandwidth'].median():.1f}", f"{chosen['power'].median():g}", f"{best:.2f}", *values]
        )
    head = ["shape", "bandwidth", "power", "best log distortion, 98%", *MEASURES.values()]
    note = "Bandwidth (in units of the tenth neighbour's) and power are medians of what was chosen."
    return f"{note}\n\n{grid(head, rows)}"


def _by_rule(tables: Tables) -> str:
    found = {rule: ratios(tables, rule)["exact_central"] for rule in RULES}
    rows = [[name, *(f"{found[rule][name]:.2f}" for rule in RULES)] for name in _shapes(tables)]
    rows.append(["**worst**", *(f"**{found[rule].max():.2f}**" for rule in RULES)])
    return grid(["shape", *RULES], rows)


def _real(tables: Tables) -> str:
    if not len(held_out(tables)):
        return ""
    columns = ("best", "auto", "default", "best labels", "auto labels", "default labels")
    rows = []
    for name, row in held_out(tables).iterrows():
        values = [f"{row[c]:.3f}" if "labels" in c else f"{row[c]:.2f}" for c in columns]
        rows.append([str(name), *values])
    head = ["data", "halves: best", "auto", "default", "labels: best", "auto", "default"]
    return f"{_HELD_OUT.strip()}\n\n{grid(head, rows)}"


def _coverage(tables: Tables) -> str:
    if "coverage" not in tables:
        return ""
    table = tables["coverage"]
    intro = _COVERAGE.strip().format(data=", ".join(table["data"].unique()), trials=table["trial"].nunique())
    means = table.groupby(["method", "kernel"], sort=False)[["covered", "width"]].mean()
    kernels = list(table["kernel"].unique())
    rows = []
    for method in dict.fromkeys(table["method"]):
        cells = [means.loc[(method, kernel)] for kernel in kernels]
        rows.append([method, *(f"{c['covered']:.3f}" for c in cells), *(f"{c['width']:.2f}" for c in cells)])
    head = ["method", *(f"covered, {k}" for k in kernels), *(f"high / low, {k}" for k in kernels)]
    return f"{intro}\n\n{grid(head, rows)}"


def _times(tables: Tables) -> str:
    if not any(name.startswith("choice_times_") for name in tables):
        return ""
    rows = []
    for name in sorted((n for n in tables if n.startswith("choice_times_")), key=lambda n: int(n.rpartition("_")[2])):
        for (method, data), part in tables[name].groupby(["method", "data"], sort=False):
            middle = part[["power", "automatic", "given", "extra"]].median()
            values = [f"{middle['given']:.3f}", f"{middle['automatic']:.3f}", f"{middle['extra']:.2f}"]
            rows.append([f"{int(name.rpartition('_')[2]):,}", str(data), str(method), f"{middle['power']:g}", *values])
    return f"{_TIMES.strip()}\n\n" + grid(
        ["points", "data", "method", "power", "given, s", "automatic, s", "extra"], rows
    )


STUDY = Study(
    "choices",
    "Automatic choices, measured",
    _INTRODUCTION.format(unseen=", ".join(UNSEEN)),
    (*AGAINST_GRID.values(), *HELD_OUT.values(), *COVERAGE.values(), *CHOICE_TIMES.values()),
    judged,
    {"Known geometry": _geometry, "Real data": _real, "Intervals": _coverage, "Time": _times},
    _draw,
)

if __name__ == "__main__":
    main(STUDY)
