"""Labelled data that need no download."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from heatsketch._utils.typing import FloatArray, IntArray

__all__ = ["DATA"]

Labelled = tuple[FloatArray, IntArray]
# Classes of cells with fewer members are left out: ten labels are taken of two thirds of them.
_FEWEST = 30


def _blood() -> Labelled:
    import scanpy  # noqa: PLC0415

    cells = scanpy.datasets.pbmc68k_reduced()
    kind = cells.obs["bulk_labels"].cat.codes.to_numpy()
    large = np.flatnonzero(np.bincount(kind)[kind] >= _FEWEST)
    return cells.obsm["X_pca"][large].astype(np.float64), kind[large]


def _standardised(load: Callable[..., Labelled]) -> Callable[[], Labelled]:
    def points() -> Labelled:
        X, label = load(return_X_y=True)
        return StandardScaler().fit_transform(X), label

    return points


# Pixels and principal components have a common unit; measurements of different kinds are standardised.
DATA: dict[str, Callable[[], Labelled]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "blood cells": _blood,
    "wine": _standardised(load_wine),
    "breast cancer": _standardised(load_breast_cancer),
    "iris": _standardised(load_iris),
}
