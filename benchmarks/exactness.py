"""Compare distances in an embedding with exact diffusion distances, on sampled pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import expm_multiply
from scipy.stats import spearmanr

import heatsketch as hs

from . import data as points

__all__ = [
    "NEIGHBORS",
    "POWER",
    "Own",
    "evaluate",
    "exact_distances",
    "own_of",
    "reference",
    "sample_pairs",
    "score",
    "squared",
]

Row = dict[str, Any]
POWER, NEIGHBORS = 16, 30

_PAIRS, _NEAR, _GROUP = 5000, 100, 16
# (largest number of points, groups of near points, single points). All pairs are between the 16 points of each group
# and the single points, so that few rows of a power of the operator give their exact distances.
_ANCHORS = ((5_000, 24, 256), (200_000, 8, 128), (10**9, 2, 32))


@dataclass(frozen=True)
class Own:
    """Diffusion operator of a method, whose distances are those between rows of ``diag(weight) (T^t - u u^T)``.

    T is stored transposed, so that columns of its powers are the rows that are needed. u is the `trivial` eigenvector,
    which the embedding leaves out. With `heat`, ``exp(-t (1 - T))`` replaces T^t.
    """

    T: Any
    weight: Any = None
    trivial: Any = None
    heat: bool = False

    @classmethod
    def from_affinity(cls, W: Any, *, weighted: bool) -> Own:
        """Operator of a symmetric affinity: its Markov matrix with weights, or its symmetric form without u."""
        d = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        root = np.sqrt(np.where(d > 0, d, 1.0))
        inverse = sparse.diags(1.0 / root)
        S = (inverse @ sparse.csr_matrix(W, dtype=np.float64) @ inverse).tocsr()
        return cls(S, weight=1.0 / root) if weighted else cls(S, trivial=root / np.linalg.norm(root))


def sample_pairs(X: Any) -> tuple[Any, Any]:
    """Random pairs, and near pairs (a point and one of its 100 nearest), each of shape (m, 2)."""
    rng = np.random.default_rng([0, len(X)])
    n_groups, n_single = next((g, s) for most, g, s in _ANCHORS if len(X) <= most)
    group, reach = min(_GROUP, len(X) // 2), min(_NEAR, len(X) - 1)
    centres = rng.choice(len(X), size=min(n_groups, len(X)), replace=False)
    near: set[tuple[int, int]] = set()
    for centre in centres:
        nearest = np.argsort(squared(X, [centre])[0], kind="stable")[1 : reach // 2 + 1]
        members = np.array([centre, *rng.choice(nearest, size=min(group - 1, len(nearest)), replace=False)])
        D2 = squared(X, members)
        inside = D2[:, members] <= np.partition(D2, reach, axis=1)[:, [reach]]
        near.update((int(members[i]), int(members[j])) for i, j in zip(*np.nonzero(np.triu(inside, 1)), strict=True))
    pool = np.union1d(centres, rng.choice(len(X), size=min(n_single, len(X)), replace=False))
    first, second = np.triu_indices(len(pool), 1)
    kept = rng.choice(len(first), size=min(_PAIRS, len(first)), replace=False)
    close = np.array(sorted(near), dtype=np.int64).reshape(-1, 2)
    return np.column_stack([pool[first[kept]], pool[second[kept]]]), close[rng.permutation(len(close))[:_PAIRS]]


def squared(X: Any, rows: Any) -> Any:
    """Squared distances from some points to all points, computed from differences."""
    return np.stack([np.square(X - X[i]).sum(axis=1, dtype=np.float64) for i in rows])


def exact_distances(own: Own, pairs: Any, power: int = POWER) -> Any:
    """Exact diffusion distances of pairs, shape (m,)."""
    anchors, where = np.unique(pairs, return_inverse=True)
    n = own.T.shape[0]
    V = np.zeros((n, len(anchors)), dtype=own.T.dtype)
    V[anchors, np.arange(len(anchors))] = 1.0
    if own.heat:
        V = expm_multiply(power * (own.T - sparse.identity(n)), V)
    else:
        for _ in range(power):
            V = np.asarray(own.T @ V)
    rows = V.T.astype(np.float64)
    if own.trivial is not None:
        rows -= own.trivial[anchors][:, None] * own.trivial
    if own.weight is not None:
        rows *= np.asarray(own.weight, dtype=np.float64)[anchors][:, None]
    rows -= rows.mean(axis=0)  # reduces cancellation below
    gram = rows @ rows.T
    i, j = where.reshape(-1, 2).T
    return np.sqrt(np.maximum(gram[i, i] + gram[j, j] - 2.0 * gram[i, j], 0.0))


def score(Y: Any, pairs: Any, exact: Any) -> dict[str, float]:
    """Median relative error after the best common factor, and Spearman's rank correlation."""
    Y = np.asarray(Y, dtype=np.float64)
    if not np.isfinite(Y).all():
        raise ValueError("the embedding contains NaN or infinity.")
    estimate = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
    ratio = estimate[exact > 0] / exact[exact > 0]
    # There is no formula for the c with the smallest median of |c r - 1|, so that a grid of quantiles is searched.
    factors = 1.0 / np.quantile(ratio[ratio > 0], np.linspace(0.02, 0.98, 193))
    error = min(float(np.median(np.abs(c * ratio - 1.0))) for c in factors)
    return {"error": error, "spearman": float(spearmanr(estimate, exact).statistic)}


def own_of(kernel: Any) -> Own:
    """Diffusion operator of a kernel of heatsketch."""
    return Own(kernel.symmetric, weight=kernel.row_weight)


def reference(method: str, data: str, n: int, path: str) -> Iterator[Row]:  # noqa: ARG001
    """Write sampled pairs and their exact distances for heatsketch's kernel of 30 neighbours, in float64."""
    X = points.make(data, n)
    random, near = sample_pairs(X)
    kernel = hs.heat_kernel(X.astype(np.float64), n_neighbors=NEIGHBORS)
    exact = exact_distances(own_of(kernel), np.vstack([random, near]))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, random=random, near=near, exact_random=exact[: len(random)], exact_near=exact[len(random) :])
    yield {"status": "ok"}


def evaluate(Y: Any, own: Own | None, path: str) -> Row:
    """Scores against the reference kernel, and against the operator of the method if it has one."""
    stored = np.load(path)
    found: Row = {}
    for kind in ("random", "near"):
        pairs = stored[kind]
        found |= {f"ref_{kind}_{name}": value for name, value in score(Y, pairs, stored[f"exact_{kind}"]).items()}
        if own is not None:
            scores = score(Y, pairs, exact_distances(own, pairs))
            found |= {f"own_{kind}_{name}": value for name, value in scores.items()}
    return found
