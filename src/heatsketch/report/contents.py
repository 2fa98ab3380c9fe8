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
from ..analysis.scales import default_powers, sample_distortions
from ..compare import EmbeddingComparison, MeasuredEmbedding, distance_measure, refit
from ..estimators import ESTIMATORS, GaussianProcessEmbedding
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.range_finder import leading_directions
from ..linalg.sketch import sample
from ..neighbors.search import nearest_neighbors
from .points import (
    MAX_COLORS,
    MISSING,
    encode_cells,
    encode_column,
    encode_points,
    feature_columns,
    rounded,
    scaled,
    to_binary,
)

__all__ = ["Contents", "gather"]

# Points drawn in three dimensions.
_SOLID_POINTS = 6000
# Cells along a side of the large picture, and of those side by side.
_LARGE_GRID, _SMALL_GRID = 192, 128
# Random points between which distances are exact.
_ANCHORS = 64
_LEVEL = 0.95
# Neighbours in the plane whose intervals are stored.
_NEIGHBORS = 5
# Up to _FULL_SEARCH points the worst pairs are searched for. Beyond _MANY points no eigenvectors are computed, nothing
# is optimised, and the distortion is measured at the chosen time only.
_FULL_SEARCH, _MANY = 3000, 100_000
# Up to this many points false neighbours are looked for.
_SUPPORT = 50_000
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
        density = spectral_density(kernel)
        powers = default_powers(density, power, kernel.dtype)
        # A picture for each time, and one for all times at once if the embedding keeps them.
        filters: list[Power] = [*powers.tolist(), *([power] if isinstance(power, MultiscaleFilter) else [])]
        chosen = filters.index(power)
        drawn = sample(n, max_points)
        solid = sample(len(drawn), _SOLID_POINTS)
        columns, support = _columns(model, columns)
        measured_at = [at for at in range(len(filters)) if n <= _MANY or at == chosen]
        n_anchors = _ANCHORS if n <= _FULL_SEARCH else _ANCHORS // 2
        distortions = sample_distortions(kernel, [filters[at] for at in measured_at], n_anchors)
        measure, measured = distance_measure(kernel, power, max_searched=_FULL_SEARCH)
        kinds = [type(model), *(kind for kind in ESTIMATORS.values() if methods and kind is not type(model))]
        pictures: list[dict[str, Any]] = []
        measurements: list[MeasuredEmbedding] = []
        plane: FloatArray = np.empty(0)
        for other, flat, deep, seconds in track(
            _embeddings(model, kinds, filters), "embedding for the pictures", len(kinds)
        ):
            if not pictures:
                plane = flat[chosen]
            size = _SMALL_GRID if pictures else _LARGE_GRID
            name = type(other).__name__
            logs = np.full(len(filters), np.nan)
            logs[measured_at] = distortions(flat[measured_at])
            picture = {
                "name": name,
                "flat": [encode_points(Y, drawn, 2) for Y in flat],
                "solid": None if deep is None else [encode_points(Y, drawn[solid], 3) for Y in deep],
                "cells": [encode_cells(Y, columns, size) for Y in flat] if len(drawn) < n else None,
                "distortion": rounded(logs),
            }
            pictures.append(picture)
            measurements.append(MeasuredEmbedding(name, other, *measure(flat[chosen]), seconds))
        comparison = EmbeddingComparison(tuple(measurements), n, 2, power, measured)
        outside, pairs = _pairs(model, plane, names)
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
            "curves": _curves(kernel, power, density, powers),
            "near": _neighbors(model, plane, drawn),
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
    if model.kernel_.shape[0] > _SUPPORT:
        return columns, None
    found = model.unsupported_neighbors(n_points=None)
    return [*columns, Colors(found.share, label="share of supported neighbours")], str(found)


def _embeddings(
    model: Any, kinds: Sequence[Any], filters: list[Power]
) -> Iterator[tuple[Any, FloatArray, FloatArray | None, float | None]]:
    """For each method its model, its embeddings in the plane and in space for each filter, and the seconds it took."""
    n = model.kernel_.shape[0]
    for kind in kinds:
        own = type(model) is kind
        if kind is not GaussianProcessEmbedding and n > _MANY:
            if own:
                Y = _at(model, filters)
                yield model, _plane(Y), Y[:, :, :3] if Y.shape[2] > 2 else None, None
            continue
        start = time.perf_counter()
        given = own and model.n_components_ == 2
        flat = model if given else refit(model, kind, min(2, n - 1))
        seconds = None if given else time.perf_counter() - start
        solid = model if own and model.n_components_ == 3 else refit(model, kind, min(3, n - 1))
        yield flat, _plane(_at(flat, filters)), _at(solid, filters), seconds


def _at(model: Any, filters: list[Power]) -> FloatArray:
    """Embeddings of a model for each filter, (n_filters, n, k): its own for the multiscale filter, which comes last."""
    times = [t for t in filters if not isinstance(t, MultiscaleFilter)]
    own = [] if len(times) == len(filters) else [model._Y]
    return np.stack([*model.at_powers(times), *own])


def _plane(Y: FloatArray) -> FloatArray:
    """The first two coordinates, (n_filters, n, 2); zero if there is no second."""
    return Y[:, :, :2] if Y.shape[2] > 1 else np.concatenate([Y, np.zeros_like(Y)], axis=2)


def _pairs(model: Any, plane: FloatArray, names: list[str] | None) -> tuple[NDArray[np.bool_], dict[str, list[Any]]]:
    """Which pairs of random points have a distance outside its interval, and distances and intervals of all."""
    anchors, [exact] = distances_in_sample(model.kernel_, [model.power_], _ANCHORS)
    i, j = np.triu_indices(len(anchors), 1)
    indices = np.column_stack([anchors[i], anchors[j]])
    embedded, low, high = model.diffusion_distances(indices, interval=_LEVEL)
    flat = embedded_distances(plane, indices)
    found = {"exact": exact, "embedded": embedded, "flat": flat, "low": low, "high": high}
    pairs: dict[str, list[Any]] = {name: rounded(values) for name, values in found.items()}
    pairs["names"] = [[str(row) if names is None else names[row] for row in pair] for pair in indices.tolist()]
    return (embedded < low) | (embedded > high), pairs


def _neighbors(model: Any, plane: FloatArray, drawn: IntArray) -> dict[str, Any]:
    """The nearest of the points drawn, in the plane at the chosen power, with the ends of their intervals."""
    k = min(_NEIGHBORS, len(drawn) - 1)
    Y = plane[drawn].astype(np.float64)
    near = nearest_neighbors(Y / np.abs(Y).max(), k).indices
    pairs = np.column_stack([np.repeat(drawn, k), drawn[near].ravel()])
    _, low, high = model.diffusion_distances(pairs, interval=_LEVEL)
    points = near.astype(np.uint32 if len(drawn) > 1 << 16 else np.uint16)
    return {"k": k, "points": to_binary(points), "low": scaled(low), "high": scaled(high)}


def _curves(kernel: HeatKernel, power: Power, density: SpectralDensity, powers: FloatArray) -> dict[str, list[Any]]:
    values = np.geomspace(1e-3, 1.0, 61)[:-1]
    n_modes = kernel.shape[0] - (kernel.trivial is not None)
    Q = leading_directions(kernel, min(_EIGENVALUES, n_modes), power).astype(np.float64)
    ritz = np.einsum("ij,ij->j", Q, np.asarray(kernel.deflated @ Q, dtype=np.float64))
    found = {
        "entropy": density.entropy(powers),
        "effective_dimension": density.effective_dimension(powers),
        "spectral_dimension": density.spectral_dimension(powers),
        "eigenvalues": np.sort(ritz)[::-1],
        "values": values,
        "counts": np.array([density.count(value) for value in values]),
    }
    return {name: rounded(curve) for name, curve in found.items()}


def _notes(n: int, n_drawn: int, n_solid: int) -> list[str]:
    """What was sampled or left out."""
    notes = []
    if n_drawn < n:
        notes.append(
            f"All {n:,} points are drawn as the cells of a grid, by their number and by the mean or the most common "
            f"value of the colour column. Individual points, ids and neighbours are those of a random sample of "
            f"{n_drawn:,}."
        )
    if n_solid < n_drawn:
        notes.append(f"In three dimensions a random sample of {n_solid:,} points is drawn.")
    if n > _MANY:
        notes.append(
            f"Beyond {_MANY:,} points diffusion maps and HeatSketch are not fitted for the pictures, which show their "
            "first axes, and the distortion is measured for the picture shown first only."
        )
    if n > _SUPPORT:
        notes.append(
            f"Beyond {_SUPPORT:,} points false neighbours are not looked for; use model.unsupported_neighbors()."
        )
    return notes
