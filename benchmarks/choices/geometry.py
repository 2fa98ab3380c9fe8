"""Points whose geodesic distances are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import make_s_curve, make_swiss_roll
from sklearn.neighbors import kneighbors_graph

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray

__all__ = ["GEOMETRY", "UNSEEN", "on_circle"]

Sample = tuple[FloatArray, FloatArray]


def on_circle(angles: FloatArray) -> FloatArray:
    """Geodesic distances between angles, (n, n)."""
    apart = np.abs(angles[:, None] - angles[None, :])
    return np.minimum(apart, 2.0 * np.pi - apart)


def _circle(n: int, rng: np.random.Generator) -> Sample:
    X, angles = datasets.circle(n, rng, return_parameters=True)
    return X, on_circle(angles)


def _sphere(n: int, rng: np.random.Generator) -> Sample:
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.arccos(np.clip(X @ X.T, -1.0, 1.0))


def _torus(radius: float) -> Callable[[int, np.random.Generator], Sample]:
    def points(n: int, rng: np.random.Generator) -> Sample:
        X, angles = datasets.stretched_torus(n, radius, random_state=rng, return_parameters=True)
        return X, np.hypot(on_circle(angles[:, 0]), radius * on_circle(angles[:, 1]))

    return points


def _klein_bottle(n: int, rng: np.random.Generator) -> Sample:
    X = datasets.klein_bottle(n, random_state=rng)
    # Its geodesics have no closed form; those along a dense sample take their place.
    dense = np.vstack([X, datasets.klein_bottle(6000, random_state=rng)])
    graph = kneighbors_graph(dense, 10, mode="distance")
    return X, shortest_path(graph, directed=False, indices=range(n))[:, :n]


def _arc_length(angle: FloatArray) -> FloatArray:
    """Along Archimedes' spiral r = angle."""
    return 0.5 * (angle * np.sqrt(1.0 + angle**2) + np.arcsinh(angle))


def _swiss_roll(n: int, rng: np.random.Generator) -> Sample:
    X, angle = make_swiss_roll(2 * n, random_state=int(rng.integers(2**31)))
    flat = np.column_stack([_arc_length(angle), X[:, 1]])
    return X, cdist(flat, flat)


def _s_curve(n: int, rng: np.random.Generator) -> Sample:
    X, along = make_s_curve(2 * n, random_state=int(rng.integers(2**31)))
    flat = np.column_stack([along, X[:, 1]])  # two arcs of unit circles
    return X, cdist(flat, flat)


def _tree(n: int, rng: np.random.Generator) -> Sample:
    """A metric tree in R^10: three branches of length 1, each splitting in two, twice."""
    ends, edges = [np.zeros(10)], []

    def grow(start: int, children: int, levels: int) -> None:
        for _ in range(children if levels else 0):
            step = rng.normal(size=10)
            ends.append(ends[start] + step / np.linalg.norm(step))
            edges.append((start, len(ends) - 1))
            grow(len(ends) - 1, 2, levels - 1)

    grow(0, 3, 3)
    graph = np.zeros((len(ends), len(ends)))
    graph[tuple(np.transpose(edges))] = 1.0
    between = shortest_path(graph, directed=False)
    edge, along = rng.integers(len(edges), size=n), rng.uniform(size=n)
    start, stop = np.array(edges)[edge].T
    places = np.array(ends)
    X = places[start] + along[:, None] * (places[stop] - places[start])
    sides = ((start, along), (stop, 1.0 - along))
    through = [between[np.ix_(a, b)] + da[:, None] + db[None, :] for a, da in sides for b, db in sides]
    same = edge[:, None] == edge[None, :]
    return X, np.where(same, np.abs(along[:, None] - along[None, :]), np.minimum.reduce(through))


def _uneven_circle(n: int, rng: np.random.Generator) -> Sample:
    angles = 2.0 * np.pi * rng.beta(1.0, 4.0, size=n)
    return np.column_stack([np.cos(angles), np.sin(angles)]), on_circle(angles)


def _noisy_circle(n: int, rng: np.random.Generator) -> Sample:
    X, geodesic = _circle(n, rng)
    return np.hstack([X, np.zeros((n, 8))]) + 0.1 * rng.normal(size=(n, 10)), geodesic


def _outliers(n: int, rng: np.random.Generator) -> Sample:
    X, angles = datasets.circle_with_outliers(n, rng, return_parameters=True)
    geodesic, straight = on_circle(angles), cdist(X, X)
    geodesic[-2:], geodesic[:, -2:] = straight[-2:], straight[:, -2:]
    return X, geodesic


def _trefoil(n: int, rng: np.random.Generator) -> Sample:
    """The trefoil knot, uniform in arc length."""
    t = np.linspace(0.0, 2.0 * np.pi, 20_001)
    curve = np.column_stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)])
    length = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1)))
    along = rng.uniform(0.0, length[-1], n)
    X = np.column_stack([np.interp(along, length, coordinate) for coordinate in curve.T])
    return X, on_circle(2.0 * np.pi * along / length[-1])


def _square(n: int, rng: np.random.Generator) -> Sample:
    X = rng.uniform(size=(n, 2))
    return X, cdist(X, X)


GEOMETRY: dict[str, Callable[[int, np.random.Generator], Sample]] = {
    "circle": _circle,
    "sphere": _sphere,
    "flat torus": _torus(1.0),
    "stretched torus": _torus(3.5),
    "Klein bottle": _klein_bottle,
    "swiss roll": _swiss_roll,
    "tree": _tree,
    "uneven circle": _uneven_circle,
    "noisy circle": _noisy_circle,
    "circle with outliers": _outliers,
    "S curve": _s_curve,
    "trefoil knot": _trefoil,
    "square": _square,
}
# Shapes that were not looked at when the rules were made.
UNSEEN = ("S curve", "trefoil knot", "square")
