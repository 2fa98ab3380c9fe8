"""Graphs and affinity matrices that users bring: converting, checking and completing them."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from scipy import sparse

from .._utils.chunks import chunks
from .._utils.typing import FloatArray, IntArray
from ..linalg.sketch import GaussianSketch

__all__ = ["KnownRows", "adjacency", "check_affinity", "divided", "is_graph", "node_names", "row_maximum"]

# Entries of an affinity may differ from their mirror images by this fraction.
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
    networkx = _library(graph) == "networkx"
    if graph.is_directed():
        if networkx:
            raise _directed("networkx DiGraph", "graph.to_undirected()")
        raise _directed("directed igraph Graph", "graph.as_undirected()")
    i, j, weights = (_networkx_edges if networkx else _igraph_edges)(graph)
    n = len(node_names(graph))
    upper = sparse.csr_array((weights, (np.minimum(i, j), np.maximum(i, j))), shape=(n, n))
    if not np.isfinite(upper.data).all():
        raise ValueError(
            f"parallel edges have weights up to {weights.max():.3g}, which add up to more than the largest number; "
            "divide all weights by it, which leaves the heat kernel as it is."
        )
    return sparse.csr_array(upper + sparse.triu(upper, 1).T)


def _networkx_edges(graph: Any) -> tuple[IntArray, IntArray, FloatArray]:
    number = {node: row for row, node in enumerate(graph)}
    edges = list(graph.edges(data="weight", default=1.0))
    ends = np.array([(number[a], number[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
    return *ends.T, _weights(edges)


def _igraph_edges(graph: Any) -> tuple[IntArray, IntArray, FloatArray]:
    ends = np.asarray(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    if "weight" not in graph.es.attributes():
        return *ends.T, np.ones(len(ends))
    # An edge that was given none has the weight None there.
    weights = (1.0 if weight is None else weight for weight in graph.es["weight"])
    return *ends.T, _weights([(a, b, weight) for (a, b), weight in zip(ends.tolist(), weights, strict=True)])


def _weights(edges: list[tuple[Any, Any, Any]]) -> FloatArray:
    """Weights of edges (from, to, weight) as numbers; those that cannot be weights are refused."""
    weights = np.fromiter((_number(weight) for _, _, weight in edges), np.float64, len(edges))
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        a, b, weight = edges[bad[0]]
        raise ValueError(
            f"the edge from {a!r:.60} to {b!r:.60} has the weight {weight!r:.60}; weights must be finite numbers that "
            "are not negative. Mend it, or leave the edge out; an edge without the attribute counts as 1."
        )
    return weights


def _number(value: Any) -> float:
    """A weight as a number, NaN where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def node_names(graph: Any) -> list[Any]:
    """Names of the vertices, in the order of `adjacency`.

    The nodes themselves of a networkx graph; of an igraph graph the vertex attribute ``name``, or numbers where it has
    none.
    """
    if _library(graph) == "networkx":
        return list(graph.nodes)
    return list(graph.vs["name"] if "name" in graph.vs.attributes() else range(graph.vcount()))


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
    largest = float(W.max())
    difference, larger = abs(W - W.T), W.maximum(W.T) if sparse.issparse(W) else np.maximum(W, W.T)
    worst = float(difference.max())
    # Each entry against its own mirror image; where both are tiny, against the rounding of the largest.
    excess = float((difference - larger * SYMMETRY_TOLERANCE[W.dtype]).max())
    if excess > 100.0 * float(np.finfo(W.dtype).eps) * largest:
        raise ValueError(
            f"{name} is not symmetric: entries differ from their mirror images by up to {worst:.3g}; a precomputed "
            "matrix must be symmetric: pass (W + W.T) / 2, or the maximum of the two."
        )
    if worst > 0:
        W = (W * 0.5 + W.T * 0.5).astype(W.dtype)
    return W


class KnownRows:
    """Tells which of a matrix's own rows a given row equals.

    Rows are compared through their product with one random vector and then entry by entry, so the cost is one
    product, and rounding in the input does no harm.

    Parameters
    ----------
    W : ndarray or csr_array of shape (N, N)
    """

    def __init__(self, W: Any) -> None:
        self._W = W
        self._probe = GaussianSketch(0).matrix(W.shape[0], 1)[:, 0]
        keys = np.asarray(W @ self._probe, dtype=np.float64)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._largest = row_maximum(W)

    def is_the_matrix(self, X: Any) -> bool:
        """Whether `X` is the matrix itself, up to rounding."""
        if X.shape != self._W.shape:
            return False
        return bool((row_maximum(abs(X - self._W)) <= self._tolerance(X) * self._largest).all())

    def match(self, rows: Any) -> tuple[IntArray, IntArray, FloatArray]:
        """All pairs of a given row and a row of the matrix that are equal up to rounding.

        Rows of zeros equal none.

        Returns
        -------
        i, j : ndarrays of int, shape (m,)
            Row i of `rows` equals row j of the matrix.
        share : ndarray of shape (m,)
            One over the number of rows that row i equals.
        """
        keys = np.asarray(rows @ self._probe, dtype=np.float64)
        largest = row_maximum(rows)
        reach = self._tolerance(rows) * largest * np.abs(self._probe).sum()
        first = np.searchsorted(self._keys, keys - reach, side="left")
        counts = np.searchsorted(self._keys, keys + reach, side="right") - first
        counts[largest == 0] = 0
        i = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
        j = self._order[np.repeat(first, counts) + within]
        equal = np.zeros(len(i), dtype=bool)
        for chunk in chunks(len(i), self._W.shape[1]):
            worst = row_maximum(abs(rows[i[chunk]] - self._W[j[chunk]]))
            equal[chunk] = worst <= self._tolerance(rows) * self._largest[j[chunk]]
        i, j = i[equal], j[equal]
        return i, j, 1.0 / np.bincount(i, minlength=len(keys))[i]

    def _tolerance(self, rows: Any) -> float:
        return max(SYMMETRY_TOLERANCE[self._W.dtype], SYMMETRY_TOLERANCE[rows.dtype])


def divided(W: Any, unit: Any) -> Any:
    """``W / unit``, entry by entry: SciPy multiplies sparse arrays by 1 / unit, which may be beyond all numbers."""
    with np.errstate(over="ignore", under="ignore"):
        if not sparse.issparse(W):
            return W / unit
        return sparse.csr_array((W.data / unit, W.indices, W.indptr), shape=W.shape)


def row_maximum(W: Any) -> FloatArray:
    """Largest entry of each row, shape (m,)."""
    largest = W.max(axis=1)
    return np.ravel(largest.toarray() if sparse.issparse(largest) else largest)
