"""Graphs and square matrices that users pass as kernels: conversion and checks."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from scipy import sparse

__all__ = ["adjacency", "check_affinity", "compact", "is_graph", "node_names", "precomputed_kind"]

# Entries of an affinity may differ from their mirror images by this fraction.
SYMMETRY_TOLERANCE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
# A dense affinity is made sparse if less than this share of its entries is nonzero.
_SPARSE_SHARE = 0.25
# Smaller square matrices are not examined: points may look like distances by chance.
_FEWEST_SAMPLES = 10


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
    if graph.is_directed():
        remedy = "to_undirected" if _library(graph) == "networkx" else "as_undirected"
        raise ValueError(f"a directed graph was given; the heat kernel needs an undirected one: graph.{remedy}().")
    n = len(node_names(graph))
    if _library(graph) == "networkx":
        number = {node: row for row, node in enumerate(graph)}
        edges = [(number[a], number[b], weight) for a, b, weight in graph.edges(data="weight", default=1.0)]
    else:
        weights = graph.es["weight"] if "weight" in graph.es.attributes() else [None] * graph.ecount()
        edges = [
            (a, b, 1.0 if weight is None else weight)
            for (a, b), weight in zip(graph.get_edgelist(), weights, strict=True)
        ]
    try:
        table = np.array(edges, dtype=np.float64).reshape(-1, 3)
    except OverflowError:
        raise ValueError(
            "a weight of the graph is an integer beyond 1e308; divide all weights by a common number."
        ) from None
    wrong = np.flatnonzero(~np.isfinite(table[:, 2]))
    if len(wrong):
        first, names = edges[wrong[0]], node_names(graph)
        raise ValueError(
            f"the edge from {names[first[0]]!r} to {names[first[1]]!r} has the weight {first[2]}; weights must be "
            "finite numbers: correct it, or remove the edge."
        )
    ends = np.sort(table[:, :2].astype(np.int64), axis=1)
    upper = sparse.csr_array((table[:, 2], ends.T), shape=(n, n))
    return sparse.csr_array(upper + sparse.triu(upper, 1).T)


def node_names(graph: Any) -> list[Any]:
    """Names of the vertices, in the order of `adjacency`.

    The nodes of a networkx graph; the vertex attribute ``name`` of an igraph graph, or numbers if it has none.
    """
    if _library(graph) == "networkx":
        return list(graph.nodes)
    return list(graph.vs["name"] if "name" in graph.vs.attributes() else range(graph.vcount()))


def check_affinity(W: Any, name: str = "X") -> Any:
    """Check that a matrix, dense or sparse, is square and symmetric up to rounding; return it exactly symmetric."""
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"{name} has shape {W.shape}; a precomputed matrix must be square, one row and column for each sample."
        )
    difference, larger = abs(W - W.T), W.maximum(W.T) if sparse.issparse(W) else np.maximum(W, W.T)
    worst = float(difference.max())
    # Each entry against its own mirror image; where both are tiny, against the rounding of the largest.
    excess = float((difference - larger * SYMMETRY_TOLERANCE[W.dtype]).max())
    if excess > 100.0 * float(np.finfo(W.dtype).eps) * float(W.max()):
        raise ValueError(
            f"{name} is not symmetric: entries differ from their mirror images by up to {worst:.3g}; a precomputed "
            "matrix must be symmetric: pass (W + W.T) / 2, or the maximum of the two."
        )
    return W if worst == 0 else (W * 0.5 + W.T * 0.5).astype(W.dtype)


def compact(W: Any) -> Any:
    """An affinity in the form in which its kernel is kept, so that a graph and its dense matrix embed alike."""
    if sparse.issparse(W) or np.count_nonzero(W) >= _SPARSE_SHARE * W.size:
        return W
    return sparse.csr_array(W)


def precomputed_kind(X: Any) -> Literal["affinities", "distances"] | None:
    """What points look like that are probably a precomputed matrix: square, symmetric and nonnegative."""
    n = X.shape[0]
    if X.shape[1] != n or n < _FEWEST_SAMPLES:
        return None
    largest = float(X.max())
    rounding = largest * SYMMETRY_TOLERANCE[X.dtype]
    if largest <= 0 or X.min() < -rounding or abs(X - X.T).max() > rounding:
        return None
    if X.sum() - X.diagonal().sum() <= rounding:  # one-hot points
        return None
    is_far = abs(X.diagonal()).max() <= rounding and not sparse.issparse(X) and np.count_nonzero(X) >= X.size / 2
    return "distances" if is_far else "affinities"
