"""What users pass in: checked before any work, with errors that name what came, what is accepted and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from ._typing import FloatArray
from .affinity import zero_rounding
from .bandwidth import BANDWIDTH_RULES
from .graphs import adjacency, check_affinity, is_graph
from .normalize import NORMALIZATIONS

__all__ = ["KernelOptions", "check_count", "check_distances", "check_points", "from_graph", "is_number", "tidy"]


@dataclass(frozen=True)
class KernelOptions:
    """How the heat kernel is made from data; the parameters of :func:`heatsketch.heat_kernel`, checked."""

    bandwidth: float | str = "auto"
    normalization: str = "bistochastic"
    alpha: float = 1.0
    affinity: str = "gaussian"
    metric: str = "euclidean"
    n_neighbors: int | str | None = "auto"
    diagonal: str = "auto"
    tol: float = 1e-8
    max_iter: int = 1000

    def __post_init__(self) -> None:
        for name, known in (
            ("affinity", ("gaussian", "precomputed")),
            ("diagonal", ("auto", "keep", "zero")),
            ("normalization", tuple(NORMALIZATIONS)),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name}={value!r} is not known; use one of {known}.")
        if self.affinity == "precomputed" and self.metric == "precomputed":
            raise ValueError(
                "affinity and metric are both 'precomputed'; say which of the two X holds: affinities "
                "(affinity='precomputed') or distances (metric='precomputed')."
            )
        if not is_number(self.alpha) or not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha!r} was given; the density exponent must be a number between 0 and 1.")
        if not is_number(self.tol) or not 0 < self.tol < np.inf:
            raise ValueError(f"tol={self.tol!r} was given; it must be a positive number.")
        check_count(self.max_iter, "max_iter")
        if self.n_neighbors not in (None, "auto"):
            check_count(self.n_neighbors, "n_neighbors", "None for every pair, a positive integer, or 'auto'")
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in BANDWIDTH_RULES:
                raise ValueError(
                    f"bandwidth={self.bandwidth!r} is not the name of a rule; use a positive number or one of "
                    f"{BANDWIDTH_RULES}."
                )
        elif not is_number(self.bandwidth) or not 0 < self.bandwidth < np.inf:
            raise ValueError(
                f"bandwidth={self.bandwidth!r} was given; epsilon must be a positive, finite number, in the unit of "
                f"squared distances, or one of {BANDWIDTH_RULES}."
            )


def is_number(value: Any, kind: type = Real) -> bool:
    """Whether `value` is a number of the given kind; booleans are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_count(value: Any, name: str, accepted: str = "a positive integer", least: int = 1) -> int:
    """Refuse what is not a whole number of at least `least`."""
    if not is_number(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} was given; it must be {accepted}.")
    return int(value)


def check_points(X: Any, affinity: str, metric: str) -> Any:
    """Validate the input of a kernel: points, distances, affinities or a graph."""
    X = from_graph(X, affinity)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
    return tidy(X, metric)


def from_graph(X: Any, affinity: str) -> Any:
    """The adjacency matrix if `X` is a graph, `X` itself otherwise."""
    if not is_graph(X):
        return X
    if affinity != "precomputed":
        raise ValueError(f"a graph was given with affinity={affinity!r}; pass affinity='precomputed'.")
    return adjacency(X)


def tidy(X: Any, metric: str) -> Any:
    """Bring checked input into the form that kernels are made from: sparse input canonical, with small indices."""
    if not sparse.issparse(X):
        if metric == "precomputed" and X.size and X.min() < 0:
            raise ValueError(
                f"Negative values in data: the smallest entry of X is {X.min():.3g}; with metric='precomputed' it must "
                "hold distances, which are non-negative."
            )
        return X
    if metric == "precomputed":
        raise ValueError(
            "sparse X was given with metric='precomputed'; an entry that is not stored would be a distance of zero. "
            "Give dense distances, or affinities with affinity='precomputed'."
        )
    X = sparse.csr_array(X, copy=not X.has_canonical_format)
    X.sum_duplicates()
    if max(*X.shape, X.nnz) <= np.iinfo(np.int32).max:
        X.indices, X.indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return X


def check_distances(D: FloatArray) -> FloatArray:
    """Check square precomputed distances; return them symmetric, with zeros where they are rounding."""
    D = check_affinity(D, name="X (precomputed distances)")
    worst = np.abs(np.diagonal(D)).max()
    if worst > 1e-8 * D.max():
        raise ValueError(
            f"X holds precomputed distances, but its diagonal is not zero (up to {worst:.3g}); if these are "
            "affinities, pass affinity='precomputed' and leave metric at its default."
        )
    return zero_rounding(D, D.max())
