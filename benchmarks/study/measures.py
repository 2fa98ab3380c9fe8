"""How well an embedding keeps given distances: the worst case, the mean, the order, and the neighbours."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.manifold import trustworthiness

from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion

__all__ = ["NEIGHBORS", "measured"]

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
