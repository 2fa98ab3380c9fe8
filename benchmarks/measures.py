"""Measures of the study of the defaults: agreement with geodesics, use of labels, detection of holes."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score

from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.harness.experiment import Row

__all__ = ["agreement", "detected", "drawn", "scores"]

# Share of the pairs at either end that log distortion leaves out.
_TAIL = 0.01
_NEAREST = 10
# A loop or void counts if it dies this many times later than it is born.
_LEAST_RATIO = 1.25


def agreement(found: FloatArray, true: FloatArray) -> Row:
    """Mean over rows of Spearman's correlation, and log distortion over 98% of the pairs; (rows, n) both."""
    found = np.where(np.isfinite(found), found, 2.0 * found[np.isfinite(found)].max())  # other components
    first, second = (rankdata(d, axis=1) - (d.shape[1] + 1) / 2 for d in (found, true))
    norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    correlation = (first * second).sum(axis=1) / np.maximum(norms, 1e-300)
    apart = true > 1e-9 * true.max()
    low, high = np.quantile(found[apart] / true[apart], [_TAIL, 1.0 - _TAIL])
    return {"spearman": float(correlation.mean()), "distortion": float(np.log(high / max(low, 1e-300)))}


def drawn(label: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Points that get their labels: n of each class."""
    return np.concatenate([rng.permutation(np.flatnonzero(label == c))[:n] for c in np.unique(label)])


def scores(Y: FloatArray, label: IntArray, draws: list[IntArray], seed: int) -> Row:
    """Scores of an embedding by labels: of the nearest drawn point, of neighbours, and of k-means."""
    distances = cdist(Y, Y)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argpartition(distances, _NEAREST, axis=1)[:, :_NEAREST]
    found = []
    for given in draws:
        rest = np.setdiff1d(np.arange(len(Y)), given)
        guessed = label[given][distances[np.ix_(rest, given)].argmin(axis=1)]
        found.append(balanced_accuracy_score(label[rest], guessed))
    clusters = KMeans(len(np.unique(label)), n_init=10, random_state=seed).fit_predict(Y)
    return {
        "labels": float(np.mean(found)),
        "neighbours": float(np.mean(label[nearest] == label[:, None])),
        "kmeans": float(adjusted_mutual_info_score(label, clusters)),
    }


def detected(distances: FloatArray, dimension: int, number: int) -> float:
    """``(p_m - p_(m+1)) / p_m``, with the persistences p of holes of a dimension and the true number m of holes."""
    from ripser import ripser  # noqa: PLC0415

    born, dead = ripser(distances / distances.max(), distance_matrix=True, maxdim=dimension)["dgms"][dimension].T
    persistence = np.sort((dead - born)[dead > _LEAST_RATIO * born])[::-1]
    first, second = np.append(persistence, np.zeros(number + 1))[number - 1 : number + 1]
    return float((first - second) / first) if first else 0.0
