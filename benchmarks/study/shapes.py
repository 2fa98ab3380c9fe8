"""Data that HeatSketch was not designed on: points to fit and as many that are not seen."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
from scipy import sparse
from sklearn.datasets import make_circles, make_swiss_roll

from heatsketch._utils.typing import FloatArray
from heatsketch.datasets import digits

from ..scale.data import tree

__all__ = ["SHAPES", "halves", "miserables"]


def _swiss_roll_with_hole(n: int, rng: np.random.Generator) -> FloatArray:
    return make_swiss_roll(n, hole=True, random_state=int(rng.integers(2**31)))[0]


def _sphere(n: int, rng: np.random.Generator) -> FloatArray:
    X = rng.normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _nested_circles(n: int, rng: np.random.Generator) -> FloatArray:
    return make_circles(n, factor=0.5, noise=0.03, random_state=int(rng.integers(2**31)))[0]


def _linked_circles(n: int, rng: np.random.Generator) -> FloatArray:
    """Two circles in R^3, each through the middle of the other, with a little noise."""
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    first = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n)])
    second = np.column_stack([1.0 + np.cos(angle), np.zeros(n), np.sin(angle)])
    return np.where(rng.integers(0, 2, (n, 1)) == 0, first, second) + 0.02 * rng.normal(size=(n, 3))


def _tree(n: int, rng: np.random.Generator) -> FloatArray:
    return tree(n, int(rng.integers(2**31))).astype(np.float64)


def _digits(n: int, rng: np.random.Generator) -> FloatArray:
    X, _ = digits()
    return X[rng.permutation(len(X))[:n]]


SHAPES: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "swiss roll with a hole": _swiss_roll_with_hole,
    "sphere": _sphere,
    "nested circles": _nested_circles,
    "linked circles": _linked_circles,
    "tree in R^50": _tree,
    "digits": _digits,
}


def halves(name: str, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Points to fit, shape (n, d), and as many others of the same sample."""
    X = SHAPES[name](2 * n, rng)
    X = X[rng.permutation(len(X))]
    return X[:n], X[n:]


def miserables() -> sparse.csr_array:
    """Who meets whom, and how often, in Les Misérables (Knuth, 1993): 77 vertices, shipped with networkx."""
    return sparse.csr_array(nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float))
