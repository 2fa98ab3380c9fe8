"""Distances in an embedding against exact diffusion distances, on sampled pairs.

Exact distances come from rows of the t-th power of an operator, found by t products with unit vectors. All pairs are
taken among a few hundred anchor points, so that this can be afforded at 200,000 points.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.stats import spearmanr

__all__ = ["POWER", "Own", "Pairs", "build_reference", "exact_distances", "sample_pairs", "score"]

# Diffusion time of all comparisons.
POWER = 16
# Neighbours of every graph, wherever a method lets one choose.
NEIGHBORS = 30
_PAIRS = 5000
# A near pair is a point and one of this many nearest.
_NEAR = 100
_GROUP = 16
# (points up to which, groups of near points, single points): the anchors are 16 times the groups, plus the singles.
_ANCHORS = ((5_000, 24, 256), (200_000, 8, 128), (10**9, 2, 32))
_COLUMNS = 64  # multiplied at a time
_REORDER_FROM = 20_000

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Own:
    """The diffusion operator that a method uses: its distances are those between rows of ``diag(w) (T^t - u u^T)``.

    Attributes
    ----------
    columns : sparse matrix, or object with ``@``, of shape (n, n)
        The transpose of T (T itself where that is symmetric): the columns of its powers are the rows wanted.
    weight : ndarray of shape (n,), optional
        w; 1 when left out.
    trivial : ndarray of shape (n,), optional
        Unit eigenvector u of eigenvalue 1 that the embedding leaves out.
    heat : bool
        Whether the rows are those of ``exp(-t (1 - T))`` instead of T^t.
    """

    columns: Any
    weight: Any = None
    trivial: Any = None
    heat: bool = False

    @classmethod
    def from_affinity(cls, W: Any, *, weighted: bool) -> Own:
        """Of the Markov matrix of a symmetric affinity: weighted rows, or those of its symmetric form less u."""
        d = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
        root = np.sqrt(np.where(d > 0, d, 1.0))
        inverse = sparse.diags(1.0 / root)
        S = (inverse @ sparse.csr_matrix(W, dtype=np.float64) @ inverse).tocsr()
        if weighted:
            return cls(S, weight=1.0 / root)
        return cls(S, trivial=root / np.linalg.norm(root))


@dataclass(frozen=True)
class Pairs:
    """Sampled pairs of points, shapes (m, 2): any two, and a point with one of its 100 nearest."""

    random: Indices
    near: Indices

    def __iter__(self) -> Any:
        yield from (("random", self.random), ("near", self.near))


def sample_pairs(X: Any, seed: int = 0) -> Pairs:
    """Pairs to compare distances on; the same for the same data, whatever the method."""
    rng = np.random.default_rng([seed, len(X)])
    n_groups, n_single = next((g, s) for most, g, s in _ANCHORS if len(X) <= most)
    group, reach = min(_GROUP, len(X) // 2), min(_NEAR, len(X) - 1)
    centres = rng.choice(len(X), size=min(n_groups, len(X)), replace=False)
    near: set[tuple[int, int]] = set()
    for centre in centres:
        nearest = np.argsort(_squared(X, [centre])[0], kind="stable")[1 : reach // 2 + 1]
        members = np.array([centre, *rng.choice(nearest, size=min(group - 1, len(nearest)), replace=False)])
        D2 = _squared(X, members)
        radius = np.partition(D2, reach, axis=1)[:, reach]
        inside = D2[:, members] <= radius[:, None]
        near.update((int(members[i]), int(members[j])) for i, j in zip(*np.nonzero(np.triu(inside, 1)), strict=True))
    pool = np.union1d(centres, rng.choice(len(X), size=min(n_single, len(X)), replace=False))
    first, second = np.triu_indices(len(pool), 1)
    kept = rng.choice(len(first), size=min(_PAIRS, len(first)), replace=False)
    close = np.array(sorted(near), dtype=np.int64).reshape(-1, 2)
    close = close[rng.permutation(len(close))[:_PAIRS]]
    return Pairs(np.column_stack([pool[first[kept]], pool[second[kept]]]).astype(np.int64), close)


def _squared(X: Any, rows: Any) -> Floats:
    """Squared distances of some rows to all, exact differences, (len(rows), n)."""
    return np.stack([np.square(X - X[i]).sum(axis=1, dtype=np.float64) for i in rows])


def exact_distances(own: Own, pairs: Indices, power: int = POWER) -> Floats:
    """Diffusion distances of pairs by rows of the operator's power, shape (m,)."""
    anchors, where = np.unique(pairs, return_inverse=True)
    T, places = own.columns, anchors
    n = T.shape[0]
    if sparse.issparse(T) and n >= _REORDER_FROM:
        # The order of the points changes no distance and makes the products several times faster.
        order = reverse_cuthill_mckee(sparse.csr_matrix(T), symmetric_mode=False)
        T, places = T.tocsr()[order][:, order], np.argsort(order)[anchors]
    rows = np.empty((len(anchors), n))
    for start in range(0, len(anchors), _COLUMNS):
        some = slice(start, min(len(anchors), start + _COLUMNS))
        V = np.zeros((n, some.stop - start), dtype=getattr(T, "dtype", np.float64))
        V[places[some], np.arange(V.shape[1])] = 1.0
        rows[some] = (_heat(T, V, power) if own.heat else _power(T, V, power)).T
    if own.trivial is not None:
        u = np.asarray(own.trivial, dtype=np.float64)
        along = u if T is own.columns else u[order]
        rows -= u[anchors][:, None] * along[None, :]
    if own.weight is not None:
        rows *= np.asarray(own.weight, dtype=np.float64)[anchors][:, None]
    rows -= rows.mean(axis=0)  # so that little cancels below
    gram = rows @ rows.T
    i, j = where.reshape(-1, 2).T
    return np.sqrt(np.maximum(gram[i, i] + gram[j, j] - 2.0 * gram[i, j], 0.0))


def _power(T: Any, V: Any, t: int) -> Any:
    for _ in range(t):
        V = np.asarray(T @ V)
    return V


def _heat(T: Any, V: Any, t: int) -> Any:
    """``exp(-t) sum_j t^j T^j V / j!``; all terms are positive, so nothing cancels."""
    term = np.exp(-t) * V
    total = term.copy()
    for j in range(1, 4 * t + 20):
        term = np.asarray(T @ term) * (t / j)
        total += term
    return total


def score(Y: Any, pairs: Indices, exact: Floats) -> dict[str, float]:
    """Median relative error after the best common factor, that factor, and Spearman's rank correlation."""
    Y = np.asarray(Y, dtype=np.float64)
    if not np.isfinite(Y).all():
        raise ValueError("the embedding contains NaN or infinity.")
    estimate = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
    seen = exact > 0
    ratio = estimate[seen] / exact[seen]
    positive = ratio[ratio > 0]
    if len(positive) < 2:
        raise ValueError("the embedding sends all sampled pairs to the same place.")
    # Where the median of |c r - 1| is smallest there is no formula; a fine grid of quantiles is enough.
    factors = 1.0 / np.quantile(positive, np.linspace(0.02, 0.98, 193))
    errors = [float(np.median(np.abs(c * ratio - 1.0))) for c in factors]
    best = int(np.argmin(errors))
    return {
        "error": errors[best],
        "factor": float(factors[best]),
        "spearman": float(spearmanr(estimate, exact).statistic),
        "pairs": len(exact),
    }


def build_reference(X: Any, path: Path) -> dict[str, Any]:
    """Pairs and their exact distances in heatsketch's own neighbour kernel, in float64, written to a file."""
    import heatsketch as hs  # noqa: PLC0415  peers' processes may be without it

    pairs = sample_pairs(X)
    A = hs.heat_kernel(np.asarray(X, dtype=np.float64), n_neighbors=NEIGHBORS)
    own = Own(A.symmetric, weight=A.row_weight)
    both = np.vstack([pairs.random, pairs.near])
    exact = exact_distances(own, both)
    path.parent.mkdir(parents=True, exist_ok=True)
    m = len(pairs.random)
    np.savez(path, random=pairs.random, near=pairs.near, exact_random=exact[:m], exact_near=exact[m:])
    return {"random_pairs": m, "near_pairs": len(pairs.near), "anchors": len(np.unique(both))}


def evaluate(Y: Any, own: Own | None, reference: Path | None) -> dict[str, float]:
    """Scores against the reference kernel and against the method's own operator, where there are such."""
    if reference is None or not reference.exists():
        return {}
    stored = np.load(reference)
    found: dict[str, float] = {}
    groups = Pairs(stored["random"], stored["near"])
    for kind, pairs in groups:
        found |= {f"ref_{kind}_{name}": v for name, v in score(Y, pairs, stored[f"exact_{kind}"]).items()}
    if own is not None:
        exact = exact_distances(own, np.vstack([groups.random, groups.near]))
        m = len(groups.random)
        for kind, pairs, distances in (("random", groups.random, exact[:m]), ("near", groups.near, exact[m:])):
            found |= {f"own_{kind}_{name}": v for name, v in score(Y, pairs, distances).items()}
    return found
