"""Measures of the studies: agreement with geodesics, scores by labels, detection of holes, ranks of neighbours."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, squareform
from scipy.stats import pearsonr, rankdata, spearmanr
from sklearn.cluster import KMeans
from sklearn.manifold import trustworthiness
from sklearn.metrics import adjusted_mutual_info_score, balanced_accuracy_score

from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch_paper.harness.experiment import Row

__all__ = ["agreement", "detected", "drawn", "open_problems", "preserved", "scores"]

# Share of the pairs at either end that is left out of the log distortion.
_TAIL = 0.01
_NEAREST = 10
# A loop or void counts if it dies this many times later than it is born.
_LEAST_RATIO = 1.25


def agreement(found: FloatArray, true: FloatArray) -> Row:
    """Mean over rows of Spearman's correlation, and log distortion of 98% of the pairs; both arrays (rows, n)."""
    found = np.where(np.isfinite(found), found, 2.0 * found[np.isfinite(found)].max())  # pairs in different components
    first, second = (rankdata(d, axis=1) - (d.shape[1] + 1) / 2 for d in (found, true))
    norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    correlation = (first * second).sum(axis=1) / np.maximum(norms, 1e-300)
    apart = true > 1e-9 * true.max()
    low, high = np.quantile(found[apart] / true[apart], [_TAIL, 1.0 - _TAIL])
    return {"spearman": float(correlation.mean()), "distortion": float(np.log(high / max(low, 1e-300)))}


def drawn(label: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Indices of n random points of each class, whose labels are given to classifiers."""
    return np.concatenate([rng.permutation(np.flatnonzero(label == c))[:n] for c in np.unique(label)])


def scores(Y: FloatArray, label: IntArray, draws: list[IntArray], seed: int) -> Row:
    """Scores by labels: accuracy of the nearest labelled point, labels of neighbours, and k-means."""
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
    """``(p_m - p_(m+1)) / p_m`` for the sorted persistences p of holes of a dimension, with m true holes."""
    from ripser import ripser  # noqa: PLC0415

    born, dead = ripser(distances / distances.max(), distance_matrix=True, maxdim=dimension)["dgms"][dimension].T
    persistence = np.sort((dead - born)[dead > _LEAST_RATIO * born])[::-1]
    first, second = np.append(persistence, np.zeros(number + 1))[number - 1 : number + 1]
    return float((first - second) / first) if first else 0.0


# Numbers of neighbours, as in Open Problems.
_TRUSTED, _RANKED, _DENSE = 15, 30, 30


def open_problems(X: FloatArray, Y: FloatArray) -> Row:
    """Measures of Open Problems' dimensionality reduction task (openproblems.bio); larger is better for all."""
    return preserved(X, Y) | {"density": float(pearsonr(_log_radii(X), _log_radii(Y)).statistic)}


def preserved(X: FloatArray, Y: FloatArray) -> Row:
    """Distance correlation, trustworthiness, and measures from the co-ranking matrix [1]_.

    The latter are continuity, the share Q of common neighbours, its mean over all numbers of neighbours, and its local
    and global means.

    References
    ----------
    .. [1] Lee, Verleysen. "Quality assessment of dimensionality reduction: rank-based criteria". Neurocomputing, 2009.
    """
    D, d, n = cdist(X, X), cdist(Y, Y), len(X)
    first, second = _ranks(D), _ranks(d)
    both = np.bincount(((first - 1) * (n - 1) + second - 1)[~np.eye(n, dtype=bool)], minlength=(n - 1) ** 2)
    common = both.reshape(n - 1, n - 1).cumsum(axis=0).cumsum(axis=1).diagonal()[:-1]
    number = np.arange(1, n - 1)
    Q = common / (n * number)
    local = int(np.argmax(Q - number / (n - 1))) + 1
    lost = (first <= _RANKED) & (second > _RANKED)
    most = n * _RANKED * (2 * n - 3 * _RANKED - 1) / 2
    return {
        "distance correlation": float(spearmanr(squareform(D, checks=False), squareform(d, checks=False)).statistic),
        "trustworthiness": float(trustworthiness(X, Y, n_neighbors=_TRUSTED)),
        "continuity": float(1.0 - (second - _RANKED)[lost].sum() / most),
        "common neighbours": float(Q[_RANKED - 1]),
        "common neighbours, mean": float(Q.mean()),
        "common neighbours, local": float(Q[:local].mean()),
        "common neighbours, global": float(Q[local:].mean()),
    }


def _ranks(distances: FloatArray) -> IntArray:
    """Ranks of all points among the neighbours of each point, 0 for itself, shape (n, n)."""
    own = distances.copy()
    np.fill_diagonal(own, -1.0)
    return own.argsort(axis=1, kind="stable").argsort(axis=1)


def _log_radii(X: FloatArray) -> FloatArray:
    """Log of the mean squared distance to the neighbours, with the weights of UMAP's graph."""
    from umap.umap_ import fuzzy_simplicial_set  # noqa: PLC0415

    state = np.random.RandomState(0)
    graph, _, _, lengths = fuzzy_simplicial_set(X, _DENSE, state, "euclidean", return_dists=True)
    squared = graph.multiply(lengths.maximum(lengths.T).power(2))
    return np.log(1e-8 + np.asarray(squared.sum(axis=1)).ravel() / np.asarray(graph.sum(axis=1)).ravel())
