"""Test the rule that decides whether to standardise a table, against raw and standardised columns.

    python -m benchmarks.units          # both groups
    python -m benchmarks.units choosing

The score of a table is the leave-one-out accuracy of its 10 nearest neighbours, on up to 2,000 rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from heatsketch._utils.units import units_of

from .data import Floats, Labelled, _blood, _keel, _mnist, _r

__all__ = ["CHOOSING", "JUDGING", "accuracy", "main"]

_NEIGHBORS, _ROWS = 10, 2000

# The rule was chosen on this group.
CHOOSING: dict[str, Callable[[], Labelled]] = {
    "digits": partial(load_digits, return_X_y=True),
    "blood cells": _blood,
    "wine": partial(load_wine, return_X_y=True),
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    "iris": partial(load_iris, return_X_y=True),
    "MNIST": _mnist,
    "crabs": partial(_r, "MASS", "crabs", "sp", "index"),
    "bodies": partial(_r, "openintro", "bdims", "sex"),
    "tissues": partial(_r, "dslabs", "tissue_gene_expression", "y"),
    "computing jobs": partial(_r, "modeldata", "hpc_data", "class"),
    **{
        name: partial(_keel, name)
        for name in ("sonar", "segment", "vehicle", "phoneme", "bupa", "heart", "banana", "twonorm", "optdigits")
    },
}
# Chosen by name after the results on the first group, before those on this one. The rule was not changed afterwards.
# Tables with text columns are left out. The rule takes no table of either group as counts or principal components.
JUDGING: dict[str, Callable[[], Labelled]] = {
    "penguins": partial(_r, "palmerpenguins", "penguins", "species", "year"),
    "glass": partial(_r, "MASS", "fgl", "type"),
    "olive oils": partial(_r, "dslabs", "olive", "area"),
    "leaves": partial(_r, "modeldata", "leaf_id_flavia", "species"),
    "cell images": partial(_r, "modeldata", "cells", "class"),
    "speech": partial(_r, "modeldata", "pd_speech", "class"),
    "blood proteins": partial(_r, "modeldata", "ad_data", "Class"),
    **{
        name: partial(_keel, name)
        for name in (
            "letter", "penbased", "satimage", "texture", "vowel", "spambase", "ionosphere", "movement_libras",
            "magic", "wisconsin", "pima", "ring", "mammographic", "contraceptive", "hayes-roth", "led7digit",
            "tae", "bands", "monk-2", "marketing",
        )
    },
}  # fmt: skip


def accuracy(X: Floats, label: NDArray[np.int64]) -> float:
    """Share of rows whose label is the most frequent one among its nearest neighbours."""
    search = NearestNeighbors(n_neighbors=_NEIGHBORS).fit(X)
    near = label[search.kneighbors(return_distance=False)]  # [n, neighbours]
    classes = np.unique(label)
    votes = np.stack([(near == one).sum(axis=1) for one in classes], axis=1)
    return float((classes[votes.argmax(axis=1)] == label).mean())


def _judge(group: dict[str, Callable[[], Labelled]]) -> None:
    losses, always, never, better = [], [], [], 0
    for name, load in group.items():
        X, label = load()
        rows = np.random.default_rng(0).permutation(len(X))[:_ROWS]
        X, label = np.asarray(X, dtype=np.float64)[rows], np.asarray(label)[rows]
        raw, scaled = accuracy(X, label), accuracy(StandardScaler().fit_transform(X), label)
        units = units_of(X)
        best, chosen = max(raw, scaled), scaled if units.mixed else raw
        better += chosen == best
        losses.append(best - chosen)
        always.append(best - scaled)
        never.append(best - raw)
        print(
            f"{name:16} raw {raw:.3f}  standardised {scaled:.3f}  loss {best - chosen:.3f}  {units.reason}", flush=True
        )
    print(
        f"{better} of {len(group)}; mean loss {np.mean(losses):.4f}, worst {max(losses):.3f}; always "
        f"{np.mean(always):.4f}, worst {max(always):.3f}; never {np.mean(never):.4f}, worst {max(never):.3f}"
    )


def main(groups: list[str]) -> None:
    """Print a line for each table of the groups, "choosing" or "judging", and a summary."""
    for group in groups or ["choosing", "judging"]:
        print(f"\n{group}")
        _judge({"choosing": CHOOSING, "judging": JUDGING}[group])


if __name__ == "__main__":
    main(sys.argv[1:])
