"""Compare weights, added samples, aligned data sets and inverse_transform with plain fits.

    python -m benchmarks.requests weights     # counted rows against all rows
    python -m benchmarks.requests extend      # added samples against a new fit
    python -m benchmarks.requests aligned     # fit_aligned against separate fits
    python -m benchmarks.requests inverse     # inverse_transform against fit and transform

Each command prints a table; recorded ones are in `docs/requests`. Times are ratios within one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone
from sklearn.manifold import trustworthiness
from sklearn.metrics import silhouette_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import heatsketch as hs

from .data import LABELLED, Floats

__all__ = ["aligned", "extend", "inverse", "main", "weights"]

Ints = NDArray[np.int64]
_MOST, _SHARE, _NEIGHBORS = 2500, 0.7, 15


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


def _rows(name: str) -> tuple[Floats, Ints]:
    """At most `_MOST` rows of a data set, in random order."""
    X, label = LABELLED[name]()
    some = np.random.default_rng(1).permutation(len(X))[:_MOST]
    return np.asarray(X)[some], np.asarray(label)[some]


def _quality(sets: list[Floats], places: list[Floats], label: Ints) -> str:
    """Mean scores over data sets, each compared with its own embedding."""
    trust = np.mean([trustworthiness(X, Y, n_neighbors=_NEIGHBORS) for X, Y in zip(sets, places, strict=True)])
    labels = np.mean([cross_val_score(KNeighborsClassifier(10), Y, label, cv=5).mean() for Y in places])
    return f"trustworthiness {trust:.3f}, 10 neighbours {labels:.3f}"


def _moved(before: Floats, after: Floats, *, rotate: bool) -> float:
    """Median distance between two embeddings of each item, relative to the radius of the first embedding."""
    here, there = before - before.mean(axis=0), after - after.mean(axis=0)
    if rotate:
        there = there @ orthogonal_procrustes(there, here)[0]
    there = there * (np.vdot(here, there) / np.vdot(there, there))
    return float(np.median(np.linalg.norm(here - there, axis=1)) / np.sqrt(np.square(here).sum(axis=1).mean()))


def weights() -> Iterator[str]:
    """Rows rounded to a grid: all of them, and different rows with counts as weights."""
    rng = np.random.default_rng(0)
    groups = rng.normal((-2.0, 0.0), 0.6, (75_000, 2)), rng.normal((2.0, 0.0), 0.6, (25_000, 2))
    rows = np.round(np.vstack(groups), 1)
    X, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    yield f"{len(rows)} rows, {len(X)} of them different"
    for estimator in (hs.DiffusionMaps(2, power=8), hs.GaussianProcessEmbedding(32, power=8), hs.HeatSketch()):
        estimator.fit(X[:500])  # loads compiled code
        plain, alone = _timed(lambda model=estimator: model.fit(X).embedding_)
        weighted, counted = _timed(lambda model=estimator: model.fit(X, sample_weight=counts).embedding_)
        every, whole = _timed(lambda model=estimator: model.fit(rows).embedding_)
        line = f"{type(estimator).__name__:26} all rows / counted {whole / counted:5.1f}, counted / unweighted "
        line += f"{counted / alone:.2f} times as long"
        if isinstance(estimator, hs.DiffusionMaps):
            error = np.abs(np.abs(weighted) - np.abs(every[first])).max() / np.abs(weighted).max()
            line += f"; largest difference of all and counted {error:.0e}, relative"
        yield line
        del plain


def extend() -> Iterator[str]:
    """Add 30% of the samples to a fit of the others."""
    for name in ("digits", "wine", "image segments", "MNIST", "letters"):
        X, label = _rows(name)
        n = int(_SHARE * len(X))
        model = hs.HeatSketch(random_state=0).fit(X[:n])
        before = model.embedding_.copy()
        placed = np.vstack([before, model.transform(X[n:])])
        fitted, fresh = _timed(lambda X=X: hs.HeatSketch(random_state=0).fit(X).embedding_)
        extended, added = _timed(lambda model=model, X=X, n=n: model.extend(X[n:]).embedding_)
        yield f"{name}, {n} samples and {len(X) - n} more: extend takes {added / fresh:.2f} of the time of a fit"
        for title, Y in (("placed by transform", placed), ("extended", extended), ("fitted again", fitted)):
            moved = _moved(before, Y[:n], rotate=True)
            yield f"    {title:20} {_quality([X], [Y], label)}, moved {moved:.3f}"


def aligned() -> Iterator[str]:
    """Align a data set with two noisy versions of it, and networks in which two communities become one."""
    for name in ("digits", "image segments", "letters"):
        X, label = _rows(name)
        rng, spread = np.random.default_rng(0), X.std()
        for noise in (0.08, 0.3):
            sets = [X] + [X + noise * spread * rng.normal(size=X.shape) for _ in range(2)]
            separate, apart = _timed(lambda sets=sets: [hs.HeatSketch(random_state=0).fit(one) for one in sets])
            together, once = _timed(lambda sets=sets: hs.fit_aligned(hs.HeatSketch(random_state=0), sets))
            yield f"{name}, noise {noise} of the standard deviation: aligned takes {once / apart:.2f} of the time"
            for title, models in (("separate", separate), ("aligned", together)):
                Y = [model.embedding_ for model in models]
                moved = np.mean([_moved(Y[0], other, rotate=title == "separate") for other in Y[1:]])
                yield f"    {title:10} {_quality(sets, Y, label)}, moved {moved:.3f}"
    rng, title = np.random.default_rng(0), ("separate", "aligned")
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in title}
    for _ in range(10):
        graphs = [_communities(np.maximum(np.arange(300) // 60, least), rng) for least in (0, 1)]
        model = hs.HeatSketch(affinity="precomputed", random_state=0)
        fits = [clone(model).fit(graph) for graph in graphs], hs.fit_aligned(model, graphs)
        for name, models in zip(title, fits, strict=True):
            Y = [one.embedding_ for one in models]
            apart, merged = (silhouette_score(places[:120], np.arange(120) < 60) for places in Y)
            moved = _moved(Y[0][120:], Y[1][120:], rotate=name == "separate")
            found[name].append((apart, merged, moved))
    yield "networks in which two of five communities become one: silhouette of the two"
    for name, rows in found.items():
        apart, merged, moved = np.transpose(rows)
        line = f"before {apart.mean():.3f}, after {merged.mean():.3f} (largest {merged.max():.3f})"
        yield f"    {name:10} {line}, others moved {moved.mean():.3f}"


def _communities(group: Ints, rng: np.random.Generator) -> sparse.csr_array:
    """A random graph with more edges within groups than between them."""
    edges = np.triu(rng.random((len(group), len(group))) < np.where(group[:, None] == group, 0.2, 0.004), 1)
    return sparse.csr_array((edges | edges.T).astype(float))


def inverse() -> Iterator[str]:
    """Time inverse_transform for as many points as were fitted."""
    for n in (2_000, 20_000, 100_000):
        X = np.random.default_rng(0).normal(size=(n, 50)) @ np.diag(0.9 ** np.arange(50))
        for k in (2, 10):
            model = hs.HeatSketch(k, random_state=0).fit(X[:500])  # loads compiled code
            model.inverse_transform(model.embedding_[:50] + 1e-3)
            _, fitted = _timed(lambda model=model, X=X: model.fit(X))
            places, there = _timed(lambda model=model, X=X: model.transform(X + 1e-3))
            _, back = _timed(lambda model=model, places=places: model.inverse_transform(places))
            yield f"{n:6} samples in R^50, k = {k:2}: transform {there / fitted:.2f}, back {back / fitted:.2f} of a fit"


_SECTIONS = {"weights": weights, "extend": extend, "aligned": aligned, "inverse": inverse}


def main(sections: list[str]) -> None:
    """Print the tables of some sections."""
    for section in sections or _SECTIONS:
        for line in _SECTIONS[section]():
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
