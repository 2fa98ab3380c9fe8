"""What a report shows of a fitted embedding: pictures at every diffusion time, distances, curves and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from .._utils.array import to_numpy
from .._utils.colors import Colors
from .._utils.progress import shown, task, track
from .._utils.threads import quiet_blas, workers
from .._utils.typing import FloatArray, IntArray
from ..analysis.density import SpectralDensity, spectral_density
from ..analysis.diagnosis import Diagnosis, Subject, diagnose
from ..analysis.distances import distances_in_sample, embedded_distances
from ..analysis.neighborhoods import NeighborSupport, neighbor_support
from ..analysis.reference_sketch import ReferenceSketch, reference_sketch
from ..analysis.scales import default_powers
from ..compare import refit, sample_measure
from ..estimators import ESTIMATORS, DiffusionMaps, GaussianProcessEmbedding, HeatSketch
from ..kernel.affinity import GaussianAffinity
from ..kernel.cost import page_steps
from ..kernel.operator import HeatKernel
from ..linalg.diffusion import diffuse
from ..linalg.filters import MultiscaleFilter, Power
from ..linalg.operators import SparseOperator
from ..linalg.sketch import sample
from ..neighbors.search import nearest_neighbors
from .points import (
    COARSE_STEPS,
    MAX_COLORS,
    MAX_FEATURES,
    MISSING,
    PALETTE,
    encode_cells,
    encode_column,
    encode_fine_cells,
    encode_intervals,
    encode_points,
    feature_columns,
    rounded,
    to_binary,
)

__all__ = ["Contents", "Figures", "gather"]

# Points drawn in three dimensions and at other diffusion times.
_FEW_POINTS = 4000
# Cells along a side of a picture, and of the large one for very many points: powers of two, which finer cells divide.
_GRID, _LARGE_GRID = 128, 256
# Entries of a block of columns that the kernel multiplies, and the least and the most columns: of the spectral density,
# whose error falls with the number of points, and of random points between which distances are exact.
_ENTRIES, _COLUMNS, _ANCHORS = 1 << 21, (4, 16), (16, 64)
_LEVEL = 0.95
# Neighbours in the plane whose intervals are stored.
_NEIGHBORS = 5
# Neighbours in a picture that are looked up in the data: of all points up to _FEW, and of a sample; of another method's
# picture; and of a picture with random places, which says how many are near by chance.
_NEAR, _NEAR_OTHERS, _NEAR_RANDOM = 15, 500, 200
# Up to this many points a product with the kernel is too little work for several threads, and each has a task instead.
_FEW = 10_000
# Beyond this many points no eigenvectors are computed, nothing is optimised, distances are sketched with _RANDOM
# columns, and the kernel is multiplied in float32; beyond very many the distortion is measured at the chosen time only.
_MANY, _VERY_MANY = 50_000, 200_000
_RANDOM = 32
# Leading eigenvalues that are shown individually.
_EIGENVALUES = 12


@dataclass(frozen=True)
class Figures:
    """How well a picture in the plane keeps neighbours and distances at the chosen diffusion time."""

    name: str  # of the method
    near: float  # share of the nearest neighbours in the picture that are near in the data
    in_order: float  # share of the pairs of distances whose order is that of the diffusion distances; may be NaN
    median_error: float  # of a distance, relative to the exact one
    distortion: float  # central log L


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows."""

    figures: tuple[Figures, ...]  # of the methods, that of the embedding first
    n_neighbors: int  # nearest neighbours in the picture that were looked up in the data
    near_by_chance: float  # share of random points that are as near in the data as neighbours have to be
    measured: str  # between which points distances were measured
    diagnosis: Diagnosis
    n_columns: int  # of the data, before the earlier steps of a pipeline
    notes: list[str]  # what was left out or sampled
    data: dict[str, Any]  # data of the pictures, as the script of the page reads them


@dataclass(frozen=True)
class _Times:
    """Diffusion times of the pictures; the last filter may be all of them at once."""

    powers: FloatArray
    filters: list[Power]
    chosen: int  # index of that of the embedding
    measured_at: list[int]  # indices of those at which distances are measured

    @property
    def measured(self) -> list[Power]:
        """Those at which distances are measured."""
        return [self.filters[at] for at in self.measured_at]


@dataclass(frozen=True)
class _Known:
    """What is known before pictures are drawn."""

    times: _Times
    reference: ReferenceSketch  # of the diffusion distances
    anchors: IntArray  # random points
    exact: list[FloatArray]  # diffusion distances between them at the measured times, condensed
    drawn: IntArray  # points that are drawn
    few: IntArray  # which of these are drawn in space and at other times
    columns: Sequence[Colors]


@quiet_blas()
def gather(
    model: Any,
    *,
    names: list[str] | None = None,
    columns: Sequence[Colors] = (),
    earlier: Any = None,
    methods: bool = True,
    max_points: int = 20_000,
) -> Contents:
    """Compute everything that a report shows of a fitted estimator; options as for `write_report`, checked.

    `earlier` are the steps of a pipeline before it, whose input is offered as colours if they can be inverted.
    """
    model._require_memory("a report")
    kernel, n = _fast(model.kernel_), model.kernel_.shape[0]
    with shown(bool(model.verbose), page_steps(n)):
        density = spectral_density(kernel, n_columns=int(np.clip(_ENTRIES // n, *_COLUMNS)))
        times = _times(density, model.power_, kernel)
        kinds = [type(model), *(kind for kind in ESTIMATORS.values() if methods and kind is not type(model))]
        kinds = [kind for kind in kinds if n <= _MANY or kind in (type(model), GaussianProcessEmbedding)]
        (reference, support, chance), (anchors, exact), diagnosis, *embeddings = _done(
            {
                "looking for false neighbours": partial(_support, model, kernel),
                "measuring distances": partial(_exact_distances, kernel, times.measured),
                "examining the embedding": partial(_diagnosis, model, density, kernel),
                **{f"embedding by {kind.__name__}": partial(_embedding, model, kind, kernel) for kind in kinds},
            },
            together=n <= _FEW and kernel.device is None,
        )
        drawn = sample(n, max_points)
        # Smaller samples are parts of larger ones.
        few = np.searchsorted(drawn, sample(n, min(_FEW_POINTS, max_points)))
        table = _table(model, earlier)
        columns = [*columns, *_features(model, table, columns, len(drawn))]
        known = _Known(times, reference, anchors, exact, drawn, few, columns)
        pictures: list[dict[str, Any]] = []
        figures: list[Figures] = []
        every = zip(embeddings, _drawn(embeddings, times.filters, kernel), strict=True)
        for (other, _), (flat, deep) in track(every, "drawing the pictures", len(embeddings)):
            if not pictures:
                plane = flat[times.chosen]
                near = support = support or _neighbor_support(plane, reference)
            else:
                near = neighbor_support(flat[times.chosen], reference, _NEAR, _LEVEL, _NEAR_OTHERS)
            central, figure = _figures(type(other).__name__, flat, known, near)
            figures.append(figure)
            picture = _picture(flat, deep, known, own=not pictures)
            pictures.append({"name": figure.name, **picture, "distortion": rounded(central)})
        assert support is not None
        maps = next((one for one, _ in embeddings if isinstance(one, DiffusionMaps)), None)
        data = {
            **_points(known, n, names),
            "components": model.n_components_,
            "methods": pictures,
            "trust": _trust(support, known),
            "pairs": _pairs(model, known, plane, names),
            "curves": _curves(density, times.powers, maps),
            "near": _neighbors(model, known, plane),
        }
        measured = f"all pairs of {len(anchors)} random points" if len(anchors) < n else f"all {len(exact[0]):,} pairs"
        n_columns = getattr(earlier, "n_features_in_", model.n_features_in_) if table is None else table.shape[1]
        notes = _notes(n, len(drawn), len(few), methods=methods, line=model.n_components_ == 1)
        return Contents(tuple(figures), support.indices.shape[1], chance, measured, diagnosis, n_columns, notes, data)


def _times(density: SpectralDensity, power: Power, kernel: HeatKernel) -> _Times:
    """A picture for each time, and one for all times at once if the embedding keeps them."""
    powers = default_powers(density, power, kernel.dtype)
    filters: list[Power] = [*powers.tolist(), *([power] if isinstance(power, MultiscaleFilter) else [])]
    chosen = filters.index(power)
    measured_at = [at for at in range(len(filters)) if kernel.shape[0] <= _VERY_MANY or at == chosen]
    return _Times(powers, filters, chosen, measured_at)


def _done(tasks: Mapping[str, Callable[[], Any]], *, together: bool) -> list[Any]:
    """Results of named tasks, one after another or each on a thread of its own."""
    if together:
        with workers(None) as share:
            return list(track(share(lambda part: part(), list(tasks.values())), "preparing the page", len(tasks)))
    done = []
    for name, part in tasks.items():
        with task(name):
            done.append(part())
    return done


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


def _points(known: _Known, n: int, names: list[str] | None) -> dict[str, Any]:
    """The points that are drawn, their colours and the diffusion times, for the script of the page."""
    drawn, times = known.drawn, known.times
    return {
        "n": n,
        "missing": MISSING,
        "mostColours": MAX_COLORS,
        "palette": PALETTE,
        "chosen": times.chosen,
        "powers": times.powers.tolist(),
        "filters": [f"{h:.4g}" if isinstance(h, float) else "all at once" for h in times.filters],
        "ids": None if names is None else [names[row] for row in drawn],
        "drawn": to_binary(drawn.astype(np.uint32)),
        "few": to_binary(known.few.astype(np.uint32)),
        "columns": [encode_column(column, drawn) for column in known.columns],
    }


def _table(model: Any, earlier: Any) -> Any:
    """The points before the earlier steps of a pipeline, None if these cannot be inverted or had many columns."""
    X = _given_points(model)
    if X is None or not hasattr(earlier, "inverse_transform") or earlier.n_features_in_ > MAX_FEATURES:
        return None
    return earlier.inverse_transform(X)


def _features(model: Any, table: Any, given: Sequence[Colors], n_drawn: int) -> list[Colors]:
    """Features of the points that are offered as colours beside given columns."""
    X, named = (_given_points(model), model) if table is None else (table, None)
    if X is None:
        return []
    taken = {column.label for column in given}
    features = feature_columns(X, getattr(named, "feature_names_in_", None), n_drawn)
    return [column for column in features if column.label not in taken]


def _given_points(model: Any) -> Any:
    """The points of an embedding; None of a graph, or of distances."""
    affinity = model.kernel_.affinity
    return affinity.X if isinstance(affinity, GaussianAffinity) and not affinity.metric.precomputed else None


def _support(model: Any, kernel: HeatKernel) -> tuple[ReferenceSketch, NeighborSupport | None, float]:
    """A sketch of the distances, whether neighbours in the picture are near in the data, and how many are by chance.

    The picture of a single component is drawn by another model, which is not known here.
    """
    n = kernel.shape[0]
    few = n <= _MANY
    reference = model._reference_sketch() if few else reference_sketch(kernel, model.power_, n_random=_RANDOM)
    known = model.n_components_ > 1 or n > _MANY
    support = _neighbor_support(model._Y @ _axes(model, 2), reference) if known else None
    places = np.random.default_rng(0).normal(size=(n, 2))
    chance = float(neighbor_support(places, reference, _NEAR, _LEVEL, _NEAR_RANDOM).share.mean())
    return reference, support, chance


def _neighbor_support(plane: FloatArray, reference: ReferenceSketch) -> NeighborSupport:
    return neighbor_support(plane, reference, _NEAR, _LEVEL, None if len(plane) <= _FEW else _FEW_POINTS)


def _trust(support: NeighborSupport, known: _Known) -> dict[str, Any]:
    """Of the points drawn, or of few of them, the number of neighbours in the plane that are near in the data."""
    counts = support.supported.sum(axis=1).astype(np.uint8)
    every = len(support.points) >= len(known.drawn)
    rows = np.searchsorted(support.points, known.drawn if every else known.drawn[known.few])
    return {"k": support.indices.shape[1], "every": every, "counts": to_binary(counts[rows])}


def _figures(name: str, flat: FloatArray, known: _Known, near: NeighborSupport) -> tuple[FloatArray, Figures]:
    """The distortion of pictures (n_filters, n, 2), NaN where it is not measured, and all figures of the chosen one."""
    times = known.times
    central = np.full(len(times.filters), np.nan)
    for at, d in zip(times.measured_at, known.exact, strict=True):
        _, central[at], error = sample_measure(known.anchors, d)(flat[at])
        if at == times.chosen:
            order = kendalltau(d, embedded_distances(flat[at][known.anchors], None)).statistic
            figures = Figures(name, float(near.share.mean()), 0.5 + 0.5 * float(order), error, float(central[at]))
    return central, figures


def _picture(flat: FloatArray, deep: FloatArray | None, known: _Known, *, own: bool) -> dict[str, Any]:
    """Points of a method in the plane, and in space; at other times than the chosen one those of the embedding only."""
    n, drawn, few = flat.shape[1], known.drawn, known.few
    chosen = known.times.chosen
    size = _LARGE_GRID if n > _VERY_MANY and own else _GRID
    points: list[Any] = [None] * len(flat)
    cells: list[Any] = [None] * len(flat)
    for at, Y in enumerate(flat):
        if at == chosen:
            points[at] = encode_points(Y, drawn, 2)
        elif own:
            points[at] = encode_points(Y, drawn[few], 2, COARSE_STEPS)
        if len(drawn) < n and points[at] is not None:
            cells[at] = encode_cells(Y, known.columns, size)
    if len(drawn) < n and own:
        cells[chosen]["fine"] = encode_fine_cells(flat[chosen], known.columns)
    solid = None if deep is None else encode_points(deep, drawn[few], 3, COARSE_STEPS)
    return {"flat": points, "solid": solid, "cells": cells if len(drawn) < n else None}


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


def _embedding(model: Any, kind: Any, kernel: HeatKernel) -> tuple[Any, Any]:
    """The model that a method is drawn by in the plane, and that in space or None.

    The given model is drawn as it is. Diffusion maps and random sketches in the plane are part of those in space, and
    HeatSketch in space goes on from the plane, except for "bilipschitz".
    """
    n, own = kernel.shape[0], type(model) is kind
    fitted_with = {DiffusionMaps: _EIGENVALUES, GaussianProcessEmbedding: 3, HeatSketch: 2}
    given = own and (model.n_components_ > 1 or n > _MANY)
    flat = model if given else refit(model, kind, min(fitted_with[kind], n - 1), kernel=kernel)
    if flat.n_components_ >= min(3, n - 1):
        return flat, flat
    if n > _MANY:
        return flat, None
    if kind is HeatSketch:
        return flat, flat._widened()
    return flat, refit(model, kind, 3)


def _drawn(
    embeddings: Sequence[tuple[Any, Any]], filters: list[Power], kernel: HeatKernel
) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """For each method its embeddings in the plane, (n_filters, n, 2), and in space at the chosen time, (n, 3)."""
    found = _at([flat for flat, _ in embeddings], filters, kernel)
    for (flat, deep), every in zip(embeddings, found, strict=True):
        yield every @ _axes(flat, 2), None if deep is None else deep._Y @ _axes(deep, 3)


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
        earliest = model._earliest  # a layout stays as it is at times before
        at_times = model.at_powers([max(t, earliest) for t in times]) if M is None else next(parts)
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


def _interval(model: Any, known: _Known) -> Callable[[IntArray, float], Any]:
    """From pairs of points to intervals of their diffusion distances; for many points from the sketch at hand."""
    own = model.kernel_.shape[0] <= _MANY or isinstance(model, GaussianProcessEmbedding)
    interval: Callable[[IntArray, float], Any] = model._interval if own else known.reference.interval
    return interval


def _pairs(model: Any, known: _Known, plane: FloatArray, names: list[str] | None) -> dict[str, list[Any]]:
    """Distances between all pairs of some points at the chosen time, and their intervals from a sketch."""
    anchors = known.anchors
    indices = np.column_stack([anchors[part] for part in np.triu_indices(len(anchors), 1)])
    low, high = _interval(model, known)(indices, _LEVEL)
    exact = known.exact[known.times.measured_at.index(known.times.chosen)]
    embedded, flat = model.diffusion_distances(indices), embedded_distances(plane, indices)
    found = {"exact": exact, "embedded": embedded, "flat": flat, "low": low, "high": high}
    pairs: dict[str, list[Any]] = {name: rounded(values) for name, values in found.items()}
    return pairs | {"names": [str(row) if names is None else names[row] for row in anchors.tolist()]}


def _neighbors(model: Any, known: _Known, plane: FloatArray) -> dict[str, Any]:
    """The nearest of the points drawn, in the plane at the chosen time, with the intervals of their distances."""
    k = min(_NEIGHBORS, len(known.drawn) - 1)
    Y = plane[known.drawn].astype(np.float64)
    near = nearest_neighbors(Y / np.abs(Y).max(), k).indices
    pairs = np.column_stack([np.repeat(known.drawn, k), known.drawn[near].ravel()])
    low, high = _interval(model, known)(pairs, _LEVEL)
    points = near.astype(np.uint32 if len(known.drawn) > 1 << 16 else np.uint16)
    return {"k": k, "points": to_binary(points), **encode_intervals(low, high)}


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


def _notes(n: int, n_drawn: int, n_few: int, *, methods: bool, line: bool) -> list[str]:
    """What was sampled or left out; `line` says that the embedding has a single component."""
    notes = []
    if line and n <= _MANY:
        notes.append("The embedding has one component; the picture is drawn by the same method with two.")
    if n_drawn < n:
        notes.append(
            f"All {n:,} points are drawn as small squares, with the most common group or the mean value of their "
            "points. Zoom in for finer squares. Single points, their names and their neighbours are those of a random "
            f"sample of {n_drawn:,}."
        )
    if n_few < n_drawn:
        notes.append(f"At other diffusion times and in 3-D a random sample of {n_few:,} points is drawn.")
    if n > _MANY and methods:
        notes.append(
            f"Beyond {_MANY:,} points some of the other methods are left out; hs.compare_embeddings(model) computes "
            "them."
        )
    if n > _VERY_MANY:
        notes.append(
            f"Beyond {_VERY_MANY:,} points the distortion is measured at the chosen diffusion time only; "
            "model.scales() measures it at all."
        )
    return notes
