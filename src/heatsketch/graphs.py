"""Graphs and affinity matrices that users bring: converting, checking and completing them."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._typing import FloatArray, IntArray
from .sketch import GaussianSketch

__all__ = ["KnownRows", "adjacency", "check_affinity", "is_graph"]

# Entries of an affinity may differ from their mirror images by this fraction of the largest entry.
SYMMETRY_TOLERANCE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}


def _library(X: Any) -> Literal["networkx", "igraph"] | None:
    """Which graph library's object this is; only libraries that are already imported can have made one."""
    networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")
    if networkx is not None and isinstance(X, networkx.Graph):
        return "networkx"
    if igraph is not None and isinstance(X, igraph.Graph):
        return "igraph"
    return None


def is_graph(X: Any) -> bool:
    """Whether `X` is a networkx or igraph graph."""
    return _library(X) is not None


def adjacency(graph: Any) -> sparse.csr_array:
    """Weighted adjacency matrix of a networkx or igraph graph, vertices in the graph's own order.

    The edge attribute ``weight`` is used where present, 1 elsewhere; parallel edges add up.
    """
    if _library(graph) == "networkx":
        if graph.is_directed():
            raise _directed("networkx DiGraph", "graph.to_undirected()")
        import networkx  # noqa: PLC0415

        return sparse.csr_array(networkx.to_scipy_sparse_array(graph, dtype=np.float64, format="csr"))
    if graph.is_directed():
        raise _directed("directed igraph Graph", "graph.as_undirected()")
    n = graph.vcount()
    ends = np.asarray(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weights = np.asarray(graph.es["weight"] if "weight" in graph.es.attributes() else np.ones(len(ends)), dtype=float)
    loops = ends[:, 0] == ends[:, 1]
    i = np.concatenate([ends[:, 0], ends[~loops, 1]])
    j = np.concatenate([ends[:, 1], ends[~loops, 0]])
    w = np.concatenate([weights, weights[~loops]])
    return sparse.csr_array((w, (i, j)), shape=(n, n))


def _directed(what: str, remedy: str) -> ValueError:
    return ValueError(f"a {what} was given; the heat kernel needs an undirected graph: pass {remedy}.")


def check_affinity(W: Any, name: str = "X") -> Any:
    """Check that `W` is square, non-negative and symmetric; return it exactly symmetric.

    Parameters
    ----------
    W : ndarray or sparse array of shape (N, N), finite

    Returns
    -------
    W : ndarray or csr_array of shape (N, N)
    """
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"{name} has shape {W.shape}; a precomputed matrix must be square, one row and column for each sample."
        )
    if W.min() < 0:
        raise ValueError(
            f"Negative values in data: the smallest entry of {name} is {W.min():.3g}; a precomputed matrix must be "
            "non-negative: shift or clip it, or use a kernel that is non-negative."
        )
    worst, largest = abs(W - W.T).max(), W.max()
    if worst > SYMMETRY_TOLERANCE[W.dtype] * largest:
        raise ValueError(
            f"{name} is not symmetric: entries differ from their mirror images by up to {worst:.3g}; a precomputed "
            "matrix must be symmetric: pass (W + W.T) / 2, or the maximum of the two."
        )
    if worst > 0:
        W = ((W + W.T) * 0.5).astype(W.dtype)
    return W


class KnownRows:
    """Tells whether a row is one of a matrix's own rows, and which rows are alike.

    Rows are compared through their product with one random vector and then entry by entry, so the cost is one
    product, and rounding in the input does no harm.

    Parameters
    ----------
    W : ndarray or csr_array of shape (N, N)
    """

    def __init__(self, W: Any) -> None:
        self._W = W
        self._probe = GaussianSketch(0).matrix(W.shape[0], 1)[:, 0]
        self._keys = np.asarray(W @ self._probe, dtype=np.float64)
        self._order = np.argsort(self._keys, kind="stable")
        self._tolerance = SYMMETRY_TOLERANCE[W.dtype] * max(float(W.max()), np.finfo(np.float64).tiny)

    def twins(self) -> IntArray:
        """Label of each row, shape (N,); equal rows have equal labels, numbered from 0."""
        # Equal rows have equal keys up to rounding, and so follow each other in the order of the keys.
        same = self._alike(self._W, self._order[1:], self._keys[self._order[1:]], self._order[:-1])
        labels = np.empty(len(self._order), dtype=np.int64)
        labels[self._order] = np.concatenate([[0], np.cumsum(~same)])
        return labels

    def match(self, rows: Any) -> IntArray:
        """Index of a row equal to each of the given ones, or -1, shape (m,)."""
        keys = np.asarray(rows @ self._probe, dtype=np.float64)
        ordered = self._keys[self._order]
        right = np.clip(np.searchsorted(ordered, keys), 1, len(ordered) - 1)
        nearest = self._order[np.where(keys - ordered[right - 1] < ordered[right] - keys, right - 1, right)]
        return np.where(self._alike(rows, np.arange(len(keys)), keys, nearest), nearest, -1)

    def _alike(self, rows: Any, which: IntArray, keys: FloatArray, candidates: IntArray) -> NDArray[np.bool_]:
        """Whether rows `which` of `rows`, with the keys given, equal rows `candidates` of the matrix."""
        alike: NDArray[np.bool_] = np.abs(keys - self._keys[candidates]) <= self._tolerance * np.abs(self._probe).sum()
        suspects = np.flatnonzero(alike)
        if len(suspects):
            worst = abs(rows[which[suspects]] - self._W[candidates[suspects]]).max(axis=1)
            worst = worst.toarray() if sparse.issparse(worst) else worst
            alike[suspects] = np.ravel(worst) <= self._tolerance
        return alike
