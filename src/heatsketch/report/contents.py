"""What a report shows of a fitted embedding: pictures at every diffusion time, distances, curves and findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.array import to_numpy
from .._utils.colors import Colors
from .._utils.progress import shown, track
from .._utils.threads import quiet_blas, workers
from .._utils.typing import FloatArray, IntArray
from ..analysis.density import SpectralDensity, spectral_density
from ..analysis.diagnosis import Diagnosis, Subject, diagnose
from ..analysis.distances import distances_in_sample, embedded_distances
from ..analysis.reference_sketch import reference_sketch
from ..analysis.scales import default_powers
from ..compare import EmbeddingComparison, MeasuredEmbedding, refit, sample_measure
from ..estimators import ESTIMATORS, DiffusionMaps, GaussianProcessEmbedding, HeatSketch
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel
from ..linalg.diffusion import diffuse
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.operators import SparseOperator
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

# Points drawn in three dimensions.
_SOLID_POINTS = 6000
# Cells along a side of a picture, and of the large one for very many points: powers of two, which finer cells divide.
_GRID, _LARGE_GRID = 128, 256
# Entries of a block of columns that the kernel multiplies, and the least and the most columns: of the spectral density,
# whose error falls with the number of points, and of random points between which distances are exact.
_ENTRIES, _COLUMNS, _ANCHORS = 1 << 21, (4, 16), (16, 64)
_LEVEL = 0.95
# Neighbours in the plane whose intervals are stored.
_NEIGHBORS = 5
# Up to this many points a product with the kernel is too little work for several threads, and each has a task instead.
_FEW = 10_000
# Beyond this many points no eigenvectors are computed, nothing is optimised, false neighbours are not looked for, and
# the kernel is multiplied in float32; beyond very many the distortion is measured at the chosen time only.
_MANY, _VERY_MANY = 50_000, 200_000
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
    kernel, power, n = _fast(model.kernel_), model.power_, model.kernel_.shape[0]
    with shown(bool(model.verbose)):
        density = spectral_density(kernel, n_columns=int(np.clip(_ENTRIES // n, *_COLUMNS)))
        powers = default_powers(density, power, kernel.dtype)
        # A picture for each time, and one for all times at once if the embedding keeps them.
        filters: list[Power] = [*powers.tolist(), *([power] if isinstance(power, MultiscaleFilter) else [])]
        chosen = filters.index(power)
        measured_at = [at for at in range(len(filters)) if n <= _VERY_MANY or at == chosen]
        kinds = [type(model), *(kind for kind in ESTIMATORS.values() if methods and kind is not type(model))]
        kinds = [kind for kind in kinds if n <= _MANY or kind in (type(model), GaussianProcessEmbedding)]
        (columns, support), (anchors, exact), diagnosis, *embeddings = _done(
            [
                partial(_columns, model, columns),
                partial(_exact_distances, kernel, [filters[at] for at in measured_at]),
                partial(_diagnosis, model, density, kernel),
                *(partial(_embedding, model, kind, kernel) for kind in kinds),
            ],
            together=n <= _FEW and kernel.device is None,
        )
        drawn = sample(n, max_points)
        solid = sample(len(drawn), _SOLID_POINTS)
        pictures: list[dict[str, Any]] = []
        measurements: list[MeasuredEmbedding] = []
        plane: FloatArray = np.empty(0)
        for (other, _, seconds), (flat, deep) in zip(embeddings, _drawn(embeddings, filters, kernel), strict=True):
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
        interval = _intervals(model, kernel, len(anchors))
        outside, pairs = _pairs(model, interval, plane, anchors, exact[measured_at.index(chosen)], names=names)
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
            "near": _neighbors(interval, plane, drawn),
        }
        return Contents(comparison, diagnosis, support, outside, _notes(n, len(drawn), len(solid)), data)


def _done(tasks: Sequence[Callable[[], Any]], *, together: bool) -> list[Any]:
    """Results of tasks, one after another or each on a thread of its own."""
    with workers(None if together else 1) as share:
        return list(track(share(lambda task: task(), tasks), "measuring and embedding", len(tasks)))


def _fast(kernel: HeatKernel) -> HeatKernel:
    """The kernel that the page multiplies by: of many points in float32, which takes half the time."""
    if kernel.shape[0] <= _MANY or kernel.device is not None or kernel.dtype == np.float32:
        return kernel
    graph = kernel.graph()
    if graph is None or len(graph.masses) < kernel.shape[0] or (graph.masses != 1).any():
        return kernel
    S = SparseOperator(graph.S, order=graph.points)
    options: dict[str, Any] = {name: getattr(kernel, name) for name in ("trivial", "row_weight", "definite", "scaling")}
    return HeatKernel(S, **options)


def _diagnosis(model: Any, density: SpectralDensity, fast: HeatKernel) -> Diagnosis:
    """What looks wrong; of many points the density is not measured a second time."""
    if model.kernel_.shape[0] <= _MANY:
        found: Diagnosis = model.diagnose()
        return found
    features = getattr(model, "feature_names_in_", None)
    return diagnose(Subject(model.kernel_, model.power_, model.n_components_, features, density, fast))


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
    # The multiscale filter leaves out the trivial mode, and powers do not, unless it is constant.
    if not times or len(times) == len(filters) or not (kernel.trivial is None or kernel.trivial_is_constant):
        return distances_in_sample(kernel, filters, size)
    anchors, found = distances_in_sample(kernel, times, size)
    h: Any = filters[-1]  # its times are those of the other filters
    found.append(np.sqrt(sum(w * np.square(d) for w, d in zip(h.weights, found, strict=True))))
    return anchors, found


def _embedding(model: Any, kind: Any, kernel: HeatKernel) -> tuple[Any, Any, float | None]:
    """The model that a method is drawn by in the plane, that in space or None, and the seconds that the first took.

    The given model is drawn as it is. Diffusion maps and random sketches in the plane are part of those in space, and
    HeatSketch in space goes on from the plane, except for "bilipschitz".
    """
    n, own = kernel.shape[0], type(model) is kind
    fitted_with = {DiffusionMaps: _EIGENVALUES, GaussianProcessEmbedding: 3, HeatSketch: 2}
    start = time.perf_counter()
    given = own and (model.n_components_ > 1 or n > _MANY)
    flat = model if given else refit(model, kind, min(fitted_with[kind], n - 1), kernel=kernel)
    seconds = None if given else time.perf_counter() - start
    if flat.n_components_ >= min(3, n - 1):
        return flat, flat, seconds
    if n > _MANY:
        return flat, None, seconds
    if kind is HeatSketch:
        return flat, flat._widened(), seconds
    return flat, refit(model, kind, 3), seconds


def _drawn(
    embeddings: Sequence[tuple[Any, Any, float | None]], filters: list[Power], kernel: HeatKernel
) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """For each method its embeddings in the plane, (n_filters, n, 2), and in space, for each filter."""
    models = list({id(one): one for flat, deep, _ in embeddings for one in (flat, deep) if one is not None}.values())
    found = dict(zip(map(id, models), _at(models, filters, kernel), strict=True))
    for flat, deep, _ in embeddings:
        space = None if deep is None else found[id(deep)] @ _axes(deep, 3)
        yield found[id(flat)] @ _axes(flat, 2), space


def _at(models: Sequence[Any], filters: list[Power], kernel: HeatKernel) -> list[FloatArray]:
    """Embeddings of each model for each filter, (n_filters, n, k), from one pass over the kernel.

    The embedding for the multiscale filter, which comes last, is the model's own.
    """
    times = [t for t in filters if not isinstance(t, MultiscaleFilter)]
    matrices = [model._powered_matrix() for model in models]  # None if it needs no products
    blocks: Any = [[] for _ in times]
    if multiplied := [to_numpy(M) for M in matrices if M is not None]:
        ends = np.cumsum([M.shape[1] for M in multiplied])[:-1]
        every = diffuse(kernel, np.hstack(multiplied), times, trivial=not kernel.trivial_is_constant)
        blocks = [np.split(to_numpy(kernel.weigh_rows(block)), ends, axis=1) for block in every]
    parts = iter(zip(*blocks, strict=True))
    found = []
    for model, M in zip(models, matrices, strict=True):
        at_times = model.at_powers(times) if M is None else next(parts)
        own = [] if len(times) == len(filters) else [model._Y]
        found.append(np.stack([*at_times, *own]))
    return found


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


def _intervals(model: Any, kernel: HeatKernel, n_random: int) -> Callable[[IntArray, float], Any]:
    """From pairs of points to intervals of their diffusion distances; for many points from a narrow sketch."""
    if kernel.shape[0] <= _MANY or isinstance(model, GaussianProcessEmbedding):
        interval: Callable[[IntArray, float], Any] = model._interval
        return interval
    return reference_sketch(kernel, model.power_, n_random=n_random).interval


def _pairs(
    model: Any, interval: Any, plane: FloatArray, anchors: IntArray, exact: FloatArray, *, names: list[str] | None
) -> tuple[NDArray[np.bool_], dict[str, list[Any]]]:
    """Which pairs of random points have a distance outside its interval, and distances and intervals of all."""
    i, j = np.triu_indices(len(anchors), 1)
    indices = np.column_stack([anchors[i], anchors[j]])
    embedded = model.diffusion_distances(indices)
    low, high = interval(indices, _LEVEL)
    flat = embedded_distances(plane, indices)
    found = {"exact": exact, "embedded": embedded, "flat": flat, "low": low, "high": high}
    pairs: dict[str, list[Any]] = {name: rounded(values) for name, values in found.items()}
    pairs["names"] = [[str(row) if names is None else names[row] for row in pair] for pair in indices.tolist()]
    return (embedded < low) | (embedded > high), pairs


def _neighbors(interval: Any, plane: FloatArray, drawn: IntArray) -> dict[str, Any]:
    """The nearest of the points drawn, in the plane at the chosen power, with the ends of their intervals."""
    k = min(_NEIGHBORS, len(drawn) - 1)
    Y = plane[drawn].astype(np.float64)
    near = nearest_neighbors(Y / np.abs(Y).max(), k).indices
    pairs = np.column_stack([np.repeat(drawn, k), drawn[near].ravel()])
    low, high = interval(pairs, _LEVEL)
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
            f"Beyond {_MANY:,} points diffusion maps and HeatSketch are not fitted for comparison, and false "
            "neighbours are not looked for; use hs.compare_embeddings(model) and model.unsupported_neighbors()."
        )
    if n > _VERY_MANY:
        notes.append(
            f"Beyond {_VERY_MANY:,} points the distortion is measured at the chosen diffusion time only; use "
            "model.scales()."
        )
    return notes
