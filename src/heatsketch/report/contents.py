"""What a report shows of a fitted embedding: pictures at every diffusion time, distances, curves and findings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.colors import Colors
from .._utils.progress import shown, track
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from ..analysis.density import SpectralDensity, spectral_density
from ..analysis.diagnosis import Diagnosis
from ..analysis.distances import distances_in_sample, embedded_distances
from ..analysis.scales import default_powers
from ..compare import EmbeddingComparison, MeasuredEmbedding, refit, sample_measure
from ..estimators import ESTIMATORS, DiffusionMaps, GaussianProcessEmbedding, HeatSketch
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.sketch import sample
from ..neighbors.search import nearest_neighbors
from .points import (
    MAX_COLORS,
    MISSING,
    encode_cells,
    encode_column,
    encode_fine_cells,
    encode_points,
    feature_columns,
    rounded,
    scaled,
    to_binary,
)

__all__ = ["Contents", "gather"]

# Points drawn in three dimensions, and points up to which HeatSketch is fitted in three dimensions for that.
_SOLID_POINTS, _SOLID_FITTED = 6000, 20_000
# Cells along a side of a picture, and of the large one for very many points: powers of two, which finer cells divide.
_GRID, _LARGE_GRID, _VERY_MANY = 128, 256, 200_000
# Entries of a block of columns that the kernel multiplies, and the least and the most columns: of the spectral density,
# whose error falls with the number of points, and of random points between which distances are exact.
_ENTRIES, _COLUMNS, _ANCHORS = 1 << 21, (4, 16), (16, 64)
_LEVEL = 0.95
# Neighbours in the plane whose intervals are stored.
_NEIGHBORS = 5
# Beyond this many points no eigenvectors are computed, nothing is optimised, false neighbours are not looked for, and
# the distortion is measured at the chosen time only.
_MANY = 50_000
# Leading eigenvalues that are shown individually.
_EIGENVALUES = 12


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows."""

    comparison: EmbeddingComparison  # of the pictures in the plane
    diagnosis: Diagnosis
    support: str | None  # summary of the false neighbours, if they were looked for
    outside: NDArray[np.bool_]  # which pairs of random points have a distance outside its interval
    notes: list[str]  # what was left out or sampled
    data: dict[str, Any]  # data of the pictures, as the script of the page reads them


@quiet_blas()
def gather(
    model: Any,
    *,
    names: list[str] | None = None,
    columns: Sequence[Colors] = (),
    methods: bool = True,
    max_points: int = 20_000,
) -> Contents:
    """Compute everything that a report shows of a fitted estimator; options as for `write_report`, checked."""
    kernel, power, n = model.kernel_, model.power_, model.kernel_.shape[0]
    with shown(bool(model.verbose)):
        density = spectral_density(kernel, n_columns=int(np.clip(_ENTRIES // n, *_COLUMNS)))
        powers = default_powers(density, power, kernel.dtype)
        # A picture for each time, and one for all times at once if the embedding keeps them.
        filters: list[Power] = [*powers.tolist(), *([power] if isinstance(power, MultiscaleFilter) else [])]
        chosen = filters.index(power)
        drawn = sample(n, max_points)
        solid = sample(len(drawn), _SOLID_POINTS)
        columns, support = _columns(model, columns)
        measured_at = [at for at in range(len(filters)) if n <= _MANY or at == chosen]
        anchors, exact = _exact_distances(kernel, [filters[at] for at in measured_at])
        kinds = [type(model), *(kind for kind in ESTIMATORS.values() if methods and kind is not type(model))]
        pictures: list[dict[str, Any]] = []
        measurements: list[MeasuredEmbedding] = []
        plane: FloatArray = np.empty(0)
        for other, flat, deep, seconds in track(
            _embeddings(model, kinds, filters), "embedding for the pictures", len(kinds)
        ):
            if not pictures:
                plane = flat[chosen]
            size = _LARGE_GRID if n > _VERY_MANY and not pictures else _GRID
            name = type(other).__name__
            found = {at: sample_measure(anchors, d)(flat[at]) for at, d in zip(measured_at, exact, strict=True)}
            cells = None
            if len(drawn) < n:
                cells = [encode_cells(Y, columns, size) for Y in flat]
                cells[chosen]["fine"] = encode_fine_cells(flat[chosen], columns)
            picture = {
                "name": name,
                "flat": [encode_points(Y, drawn, 2) for Y in flat],
                "solid": None if deep is None else [encode_points(Y, drawn[solid], 3) for Y in deep],
                "cells": cells,
                "distortion": rounded(np.array([found.get(at, (np.nan,) * 3)[1] for at in range(len(filters))])),
            }
            pictures.append(picture)
            measurements.append(MeasuredEmbedding(name, other, *found[chosen], seconds))
        measured = f"all pairs of {len(anchors)} random points" if len(anchors) < n else f"all {len(exact[0]):,} pairs"
        comparison = EmbeddingComparison(tuple(measurements), n, 2, power, measured)
        fitted = {type(one.model): one.model for one in measurements}
        sketch = _sketch_of_distances(model, fitted.get(GaussianProcessEmbedding), len(anchors))
        outside, pairs = _pairs(model, sketch, plane, anchors, exact[measured_at.index(chosen)], names=names)
        data = {
            "n": n,
            "components": model.n_components_,
            "missing": MISSING,
            "mostColours": MAX_COLORS,
            "chosen": chosen,
            "powers": powers.tolist(),
            "filters": [f"{h:.4g}" if isinstance(h, float) else "all at once" for h in filters],
            "ids": None if names is None else [names[row] for row in drawn],
            "drawn": to_binary(drawn.astype(np.uint32)),
            "solid": to_binary(solid.astype(np.uint32)),
            "columns": [encode_column(column, drawn) for column in columns],
            "methods": pictures,
            "figures": [dict(zip(("log", "central"), row[1:3], strict=True)) for row in comparison.rows()],
            "pairs": pairs,
            "curves": _curves(density, powers, fitted.get(DiffusionMaps)),
            "near": _neighbors(sketch, plane, drawn),
        }
        return Contents(comparison, model.diagnose(), support, outside, _notes(n, len(drawn), len(solid)), data)


def _columns(model: Any, given: Sequence[Colors]) -> tuple[list[Colors], str | None]:
    """What points can be coloured by: given columns, features, and the share of supported neighbours."""
    columns = list(given)
    affinity = model.kernel_.affinity
    if isinstance(affinity, GaussianAffinity) and not affinity.metric.precomputed:
        taken = {column.label for column in columns}
        features = feature_columns(affinity.X, getattr(model, "feature_names_in_", None))
        columns += [column for column in features if column.label not in taken]
    if model.kernel_.shape[0] > _MANY:
        return columns, None
    found = model.unsupported_neighbors(n_points=None)
    return [*columns, Colors(found.share, label="share of supported neighbours")], str(found)


def _exact_distances(kernel: HeatKernel, filters: list[Power]) -> tuple[IntArray, list[FloatArray]]:
    """Random points, and the exact diffusion distances between them for each filter, from one pass over the kernel.

    Squared distances at all times at once are sums of those at each time: ``h(x)^2 = sum_t w_t x^(2t)``.
    """
    size = int(np.clip(_ENTRIES // kernel.shape[0], *_ANCHORS))
    times = [t for t in filters if not isinstance(t, MultiscaleFilter)]
    anchors, found = distances_in_sample(kernel, times or filters, size)
    if times and isinstance(h := filters[-1], MultiscaleFilter):  # its times are those of the other filters
        found.append(np.sqrt(sum(w * np.square(d) for w, d in zip(h.weights, found, strict=True))))
    return anchors, found


def _embeddings(
    model: Any, kinds: Sequence[Any], filters: list[Power]
) -> Iterator[tuple[Any, FloatArray, FloatArray | None, float | None]]:
    """For each method its model, its embeddings in the plane and in space for each filter, and the seconds it took.

    The given model is drawn as it is. Diffusion maps and random sketches in the plane are part of those in space.
    """
    n = model.kernel_.shape[0]
    fitted_with = {DiffusionMaps: _EIGENVALUES, GaussianProcessEmbedding: 3, HeatSketch: 2}
    for kind in kinds:
        own = type(model) is kind
        if kind is not GaussianProcessEmbedding and n > _MANY and not own:
            continue
        start = time.perf_counter()
        given = own and (model.n_components_ > 1 or n > _MANY)
        shown_by = model if given else refit(model, kind, min(fitted_with[kind], n - 1))
        seconds = None if given else time.perf_counter() - start
        Y = _at(shown_by, filters)
        deep = None
        if Y.shape[2] >= min(3, n - 1):
            deep = Y @ _axes(shown_by, 3)
        elif n <= (_SOLID_FITTED if kind is HeatSketch else _MANY):
            in_space = refit(model, kind, min(3, n - 1))
            deep = _at(in_space, filters) @ _axes(in_space, 3)
        yield shown_by, Y @ _axes(shown_by, 2), deep, seconds


def _at(model: Any, filters: list[Power]) -> FloatArray:
    """Embeddings of a model for each filter, (n_filters, n, k): its own for the multiscale filter, which comes last."""
    times = [t for t in filters if not isinstance(t, MultiscaleFilter)]
    own = [] if len(times) == len(filters) else [model._Y]
    return np.stack([*model.at_powers(times), *own])


def _axes(model: Any, d: int) -> FloatArray:
    """The d axes in which an embedding is drawn, (k, d), zero for those that it lacks.

    They are its first components; d columns of a random sketch, which has the same law with d columns as with k; or the
    principal axes of HeatSketch, whose components have equal variances.
    """
    k = model.n_components_
    axes: FloatArray = np.eye(k, d)
    if isinstance(model, HeatSketch) and k > d:
        axes = np.linalg.eigh(np.cov(model._Y.T, dtype=np.float64))[1][:, ::-1][:, :d]
    elif isinstance(model, GaussianProcessEmbedding) and k > d and not model.n_exact_:
        axes *= np.sqrt(k / d)
    return axes.astype(model._Y.dtype)


def _sketch_of_distances(model: Any, sketch: Any, size: int) -> Any:
    """An embedding whose law gives intervals of diffusion distances; for many points a narrow sketch.

    Columns are added to the sketch that was fitted for its picture.
    """
    if model.kernel_.shape[0] <= _MANY or isinstance(model, GaussianProcessEmbedding):
        return model
    return refit(model, GaussianProcessEmbedding, size) if sketch is None else sketch.add_components(size - 3)


def _pairs(
    model: Any, sketch: Any, plane: FloatArray, anchors: IntArray, exact: FloatArray, *, names: list[str] | None
) -> tuple[NDArray[np.bool_], dict[str, list[Any]]]:
    """Which pairs of random points have a distance outside its interval, and distances and intervals of all."""
    i, j = np.triu_indices(len(anchors), 1)
    indices = np.column_stack([anchors[i], anchors[j]])
    embedded = model.diffusion_distances(indices)
    _, low, high = sketch.diffusion_distances(indices, interval=_LEVEL)
    flat = embedded_distances(plane, indices)
    found = {"exact": exact, "embedded": embedded, "flat": flat, "low": low, "high": high}
    pairs: dict[str, list[Any]] = {name: rounded(values) for name, values in found.items()}
    pairs["names"] = [[str(row) if names is None else names[row] for row in pair] for pair in indices.tolist()]
    return (embedded < low) | (embedded > high), pairs


def _neighbors(sketch: Any, plane: FloatArray, drawn: IntArray) -> dict[str, Any]:
    """The nearest of the points drawn, in the plane at the chosen power, with the ends of their intervals."""
    k = min(_NEIGHBORS, len(drawn) - 1)
    Y = plane[drawn].astype(np.float64)
    near = nearest_neighbors(Y / np.abs(Y).max(), k).indices
    pairs = np.column_stack([np.repeat(drawn, k), drawn[near].ravel()])
    _, low, high = sketch.diffusion_distances(pairs, interval=_LEVEL)
    points = near.astype(np.uint32 if len(drawn) > 1 << 16 else np.uint16)
    return {"k": k, "points": to_binary(points), "low": scaled(low), "high": scaled(high)}


def _curves(density: SpectralDensity, powers: FloatArray, maps: DiffusionMaps | None) -> dict[str, list[Any]]:
    values = np.geomspace(1e-3, 1.0, 61)[:-1]
    found = {
        "entropy": density.entropy(powers),
        "effective_dimension": density.effective_dimension(powers),
        "spectral_dimension": density.spectral_dimension(powers),
        "eigenvalues": np.empty(0) if maps is None else maps.eigenvalues_[:_EIGENVALUES],
        "values": values,
        "counts": np.array([density.count(value) for value in values]),
    }
    return {name: rounded(curve) for name, curve in found.items()}


def _notes(n: int, n_drawn: int, n_solid: int) -> list[str]:
    """What was sampled or left out."""
    notes = []
    if n_drawn < n:
        notes.append(
            f"All {n:,} points are drawn as cells, by their number and by the mean or the most common value of the "
            "colour column. Zoom in for finer cells at the chosen diffusion time. Individual points, ids and "
            f"neighbours are those of a random sample of {n_drawn:,}."
        )
    if n_solid < n_drawn:
        notes.append(f"In three dimensions a random sample of {n_solid:,} points is drawn.")
    if n > _MANY:
        notes.append(
            f"Beyond {_MANY:,} points diffusion maps and HeatSketch are not fitted for comparison, the distortion is "
            "measured at the chosen diffusion time only, and false neighbours are not looked for; use "
            "hs.compare_embeddings(model), model.scales() and model.unsupported_neighbors()."
        )
    return notes
