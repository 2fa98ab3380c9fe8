"""Data sets of the studies: noisy shapes of any size, and small tables with labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

__all__ = ["DATA", "LABELLED", "SEED", "TUNING_SEED", "make", "swiss_roll", "tree", "tuning"]

Points = NDArray[np.float32]

# The measured points, and points for settings and warm-ups: never from the same seed.
SEED = 0
TUNING_SEED = 1001

_BRANCHES = 10
_TREE_DIMENSION = 50
# Standard deviation in each of the 50 coordinates; branches have length 1.
_TREE_NOISE = 0.042
# The sheets of the roll are about 6 apart.
_ROLL_NOISE = 0.1


def swiss_roll(n: int, seed: int = SEED) -> Points:
    """Noisy swiss roll in R^3, shape (n, 3)."""
    rng = np.random.default_rng(seed)
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    X = np.column_stack([angle * np.cos(angle), 21.0 * rng.uniform(size=n), angle * np.sin(angle)])
    return (X + _ROLL_NOISE * rng.standard_normal((n, 3))).astype(np.float32)


def tree(n: int, seed: int = SEED) -> Points:
    """Noisy branching tree in R^50, shape (n, 50).

    Ten branches of length 1 in random directions, each from a random place of an earlier one, with Gaussian noise in
    every coordinate.
    """
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((_BRANCHES, _TREE_DIMENSION))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    starts = np.zeros_like(directions)
    for branch in range(1, _BRANCHES):
        parent = rng.integers(branch)
        starts[branch] = starts[parent] + rng.uniform(0.3, 1.0) * directions[parent]
    branch_of = rng.integers(_BRANCHES, size=n)
    along = rng.uniform(size=n).astype(np.float32)
    X = rng.standard_normal((n, _TREE_DIMENSION), dtype=np.float32)
    X *= np.float32(_TREE_NOISE)
    X += starts.astype(np.float32)[branch_of]
    X += along[:, None] * directions.astype(np.float32)[branch_of]
    return X


def tuning(n: int, d: int = 20, seed: int = TUNING_SEED) -> Points:
    """Noisy torus, turned into R^d, shape (n, d): for settings and warm-ups only."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0.0, 2.0 * np.pi, size=(n, 2))
    circles = np.column_stack([np.cos(angles[:, 0]), np.sin(angles[:, 0]), np.cos(angles[:, 1]), np.sin(angles[:, 1])])
    into = np.linalg.qr(rng.standard_normal((max(d, 4), 4)))[0][:d]  # [d, 4]
    return (circles @ into.T + 0.05 * rng.standard_normal((n, d))).astype(np.float32)


DATA: dict[str, Callable[[int, int], Points]] = {"swiss roll": swiss_roll, "tree": tree}
TITLES = {"swiss roll": "noisy swiss roll in R^3", "tree": "branching tree in R^50"}


def make(name: str, n: int, seed: int = SEED) -> Points:
    """Data set by name."""
    return DATA[name](n, seed)


Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]


def _standardised(load: Callable[..., Labelled]) -> Callable[[], Labelled]:
    def points() -> Labelled:
        X, label = load(return_X_y=True)
        return StandardScaler().fit_transform(X), label

    return points


# Pixels have a common unit; measurements of different kinds are standardised.
LABELLED: dict[str, Callable[[], Labelled]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "wine": _standardised(load_wine),
    "breast cancer": _standardised(load_breast_cancer),
    "iris": _standardised(load_iris),
}
