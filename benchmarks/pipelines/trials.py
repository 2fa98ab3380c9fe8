"""One trial: a data set split anew, embedded by every method, and given to classifiers and clusterings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.experiment import Experiment, Row

from .data import DATA
from .methods import METHODS, RAW

__all__ = ["LABELS", "MOST_POINTS", "PIPELINES", "Pipelines"]

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
