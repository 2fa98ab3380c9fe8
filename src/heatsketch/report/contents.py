"""What a report says of a fitted embedding: pictures at every scale, distances, curves and findings, as numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._utils.array import to_numpy
from .._utils.progress import shown, track
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, IntArray
from ..analysis.density import SpectralDensity, spectral_density
from ..analysis.diagnosis import Diagnosis
from ..analysis.distances import distances_among, embedded_distances
from ..analysis.distortion import measure_distortion
from ..analysis.scales import default_powers
from ..compare import TAIL, EmbeddingComparison, MeasuredEmbedding, alike, yardstick
from ..estimators import ESTIMATORS, GaussianProcessEmbedding, HeatSketch
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel
from ..linalg.range_finder import leading_directions
from ..linalg.sketch import sample
from ..neighbors.search import nearest_neighbors
from .columns import Column, feature_columns
from .pictures import Coordinates, Raster, quantise, rasterise

__all__ = ["Contents", "Curves", "Pairs", "Request", "Shown", "gather"]

# Points drawn in three dimensions, and over cells.
_SOLID_POINTS = 6000
# Cells along a side of the large picture, and of those side by side.
_LARGE_CELLS, _SMALL_CELLS = 192, 128
# Random points between all pairs of which distances are exact, and entries of kernel rows held for them (128 MB).
_ANCHORS, _FEWEST_ANCHORS, _ROW_ENTRIES = 64, 16, 1 << 24
_LEVEL = 0.95
# Neighbours in the plane whose intervals are kept.
_NEIGHBOURS = 5
# Up to so many points HeatSketch is optimised in full for pictures, and the worst pairs are looked for; up to so many
# HeatSketch is optimised in a few rounds. Beyond, nothing is optimised and no eigenvectors are looked for, and
# distortion is measured at the chosen time only.
_FULL_SEARCH, _MANY = 3000, 100_000
_SHORT = {"n_rounds": 6, "init": "spectral"}
# Up to so many points it is asked which neighbours are supported.
_SUPPORT = 50_000
# Leading eigenvalues that are shown one by one.
_EIGENVALUES = 12


@dataclass(frozen=True)
class Request:
    """What is to be reported, checked: names (None for row numbers), columns, and how much."""

    title: str
    call: str
    names: list[str] | None
    columns: list[Column]
    methods: bool
    powers: FloatArray | None
    max_points: int


@dataclass(frozen=True)
class Shown:
    """An embedding as it is drawn, one entry of each list for each power.

    Attributes
    ----------
    name : str
    flat : list of Coordinates
        Of the points drawn, in the plane.
    solid : list of Coordinates, or None
        In space, of fewer points.
    rasters : list of Raster, or None
        Of all points, where not all are drawn.
    distortion : ndarray of shape (n_powers,)
        Central log L in the plane against the diffusion distance at each power; NaN where it was not measured.
    """

    name: str
    flat: list[Coordinates]
    solid: list[Coordinates] | None
    rasters: list[Raster] | None
    distortion: FloatArray


@dataclass(frozen=True)
class Pairs:
    """Pairs of random points: exact diffusion distance, distance in the embedding and in the plane, and interval."""

    points: IntArray
    exact: FloatArray
    embedded: FloatArray
    flat: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Curves:
    """What each diffusion time keeps, (n_powers,), and how many eigenvalues lie above each value."""

    powers: FloatArray
    entropy: FloatArray
    effective_dimension: FloatArray
    spectral_dimension: FloatArray
    eigenvalues: FloatArray
    values: FloatArray
    counts: FloatArray


@dataclass(frozen=True)
class Contents:
    """All that a report shows.

    Attributes
    ----------
    request : Request
    n_samples : int
    drawn, solid : ndarrays of int
        Rows that are drawn in the plane, and which of these are drawn in space.
    columns : list of Column
        Of all samples.
    ranges : list of (float, float)
        Least and largest value of each column of numbers.
    shown : list of Shown
        The embedding in question first.
    comparison : EmbeddingComparison
        Of the pictures in the plane.
    neighbours, near_low, near_high : ndarrays of shape (n_drawn, k)
        Nearest among the points drawn, in the plane at the chosen power, with the ends of their intervals.
    """

    request: Request
    n_samples: int
    n_components: int
    power: float
    drawn: IntArray
    solid: IntArray
    columns: list[Column]
    ranges: list[tuple[float, float]]
    shown: list[Shown]
    comparison: EmbeddingComparison
    pairs: Pairs
    curves: Curves
    neighbours: IntArray
    near_low: FloatArray
    near_high: FloatArray
    diagnosis: Diagnosis
    support: str | None
    notes: list[str]

    @property
    def chosen(self) -> int:
        """Where the chosen power stands among all."""
        return int(np.flatnonzero(self.curves.powers == self.power)[0])

    def name(self, row: int) -> str:
        """What a sample is called."""
        return str(row) if self.request.names is None else self.request.names[row]


@dataclass(frozen=True)
class _Placed:
    """An embedding at all powers: (n_powers, n, 2), and (n_powers, n, up to 3) or None."""

    name: str
    model: Any
    flat: FloatArray
    solid: FloatArray | None
    seconds: float | None


def gather(model: Any, request: Request) -> Contents:
    """Ask a fitted embedding everything that a report shows.

    Parameters
    ----------
    model : fitted estimator
    request : Request

    Returns
    -------
    contents : Contents
    """
    with shown(bool(model.verbose)), quiet_blas():
        return _gather(model, request)


def _gather(model: Any, request: Request) -> Contents:
    kernel, power, n = model.kernel_, model.power_, model.kernel_.shape[0]
    drawn = sample(n, request.max_points)
    solid = sample(len(drawn), _SOLID_POINTS)
    density = spectral_density(kernel)
    powers = _powers(model, density, request.powers)
    columns, support = _columns(model, request)
    ranges = [_range(column) for column in columns]
    distortions = _distortions(model, powers)
    measure, measured = yardstick(kernel, power, searched_up_to=_FULL_SEARCH)
    pictures: list[Shown] = []
    figures: list[MeasuredEmbedding] = []
    at = int(np.flatnonzero(powers == power)[0])
    kinds = [type(model), *(kind for kind in ESTIMATORS.values() if request.methods and kind is not type(model))]
    own_plane = to_numpy(model.embedding_)
    for placed in track(_placed(model, kinds, powers), "embedding for the pictures", len(kinds)):
        rasters = None
        if len(drawn) < n:
            size = _SMALL_CELLS if pictures else _LARGE_CELLS
            rasters = [rasterise(Y, columns, ranges, size) for Y in placed.flat]
        pictures.append(
            Shown(
                placed.name,
                [quantise(Y, drawn, 2) for Y in placed.flat],
                None if placed.solid is None else [quantise(Y, drawn[solid], 3) for Y in placed.solid],
                rasters,
                distortions(placed.flat),
            )
        )
        figures.append(MeasuredEmbedding(placed.name, placed.model, *measure(placed.flat[at]), placed.seconds))
        if len(pictures) == 1:
            own_plane = placed.flat[at]
    near = nearest_neighbors(_in_unit(own_plane[drawn]), min(_NEIGHBOURS, len(drawn) - 1)).indices.astype(np.int64)
    near_low, near_high = _intervals(model, drawn, near)
    return Contents(
        request=request,
        n_samples=n,
        n_components=model.n_components_,
        power=power,
        drawn=drawn,
        solid=solid,
        columns=columns,
        ranges=ranges,
        shown=pictures,
        comparison=EmbeddingComparison(tuple(figures), n, 2, power, measured),
        pairs=_pairs(model, own_plane),
        curves=_curves(kernel, power, density, powers),
        neighbours=near,
        near_low=near_low,
        near_high=near_high,
        diagnosis=model.diagnose(),
        support=support,
        notes=_notes(n, drawn, solid, kinds),
    )


def _powers(model: Any, density: SpectralDensity, wanted: FloatArray | None) -> FloatArray:
    """The times of the slider in increasing order; the one of the embedding is always among them."""
    if wanted is not None:
        return np.unique(np.append(wanted, model.power_))
    return default_powers(float(np.abs(density.nodes).max()), model.power_, model.kernel_.dtype)


def _columns(model: Any, request: Request) -> tuple[list[Column], str | None]:
    """What points can be coloured by: columns given, features, and how many of their neighbours are supported."""
    columns = list(request.columns)
    affinity = model.kernel_.affinity
    if isinstance(affinity, GaussianAffinity) and not affinity.metric.precomputed:
        taken = {column.name for column in columns}
        features = feature_columns(affinity.X, getattr(model, "feature_names_in_", None))
        columns += [column for column in features if column.name not in taken]
    if model.kernel_.shape[0] > _SUPPORT:
        return columns, None
    found = model.unsupported_neighbors()
    return [*columns, Column("share of supported neighbours", found.share)], str(found)


def _range(column: Column) -> tuple[float, float]:
    known = column.values[np.isfinite(column.values)] if column.labels is None else np.zeros(1)
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _affordable(entries_for_one: int) -> int:
    """Random points between which exact distances can be had."""
    return min(_ANCHORS, max(_FEWEST_ANCHORS, _ROW_ENTRIES // entries_for_one))


def _placed(model: Any, kinds: Sequence[Any], powers: FloatArray) -> Iterator[_Placed]:
    """Each method's embedding in the plane and in space, at all powers."""
    n = model.kernel_.shape[0]
    for kind in kinds:
        own = type(model) is kind
        search = {} if kind is not HeatSketch or n <= _FULL_SEARCH else _SHORT
        if kind is not GaussianProcessEmbedding and n > _MANY:
            if own:
                Y = model.at_powers(powers)
                yield _Placed(kind.__name__, model, _plane(Y), Y[:, :, :3] if Y.shape[2] > 2 else None, None)
            continue
        start = time.perf_counter()
        given = own and model.n_components_ == 2
        flat = model if given else alike(model, kind, min(2, n - 1), **search)
        seconds = None if given else time.perf_counter() - start
        solid = model if own and model.n_components_ == 3 else alike(model, kind, min(3, n - 1), **search)
        yield _Placed(kind.__name__, flat, _plane(flat.at_powers(powers)), solid.at_powers(powers), seconds)


def _plane(Y: FloatArray) -> FloatArray:
    """The first two coordinates, (n_powers, n, 2); zero where there is no second."""
    return Y[:, :, :2] if Y.shape[2] > 1 else np.concatenate([Y, np.zeros_like(Y)], axis=2)


def _distortions(model: Any, powers: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """From an embedding at all powers to its central log L at each; only at the chosen one where points are many."""
    kernel, n = model.kernel_, model.kernel_.shape[0]
    measured = powers if n <= _MANY else powers[powers == model.power_]
    most = _ANCHORS if n <= _FULL_SEARCH else _ANCHORS // 2
    anchors = sample(n, min(_affordable(n * len(measured)), most))
    true = distances_among(kernel, anchors, measured.tolist(), trivial=model._measures_trivial)

    def distortions(embeddings: FloatArray) -> FloatArray:
        found = np.full(len(powers), np.nan)
        for at, d in zip(np.flatnonzero(np.isin(powers, measured)), true, strict=True):
            one = measure_distortion(_in_unit(embeddings[at][anchors]), d, quantiles=(TAIL,))
            found[at] = np.log(one.central[TAIL])
        return found

    return distortions


def _in_unit(Y: FloatArray) -> FloatArray:
    """The same points in units of their extent, in memory as searches want them."""
    scaled: FloatArray = np.ascontiguousarray(Y / np.abs(Y).max(), dtype=np.float64)
    return scaled


def _intervals(model: Any, drawn: IntArray, near: IntArray) -> tuple[FloatArray, FloatArray]:
    """Ends of the intervals of the distances between neighbours, of the shape of `near`."""
    pairs = np.column_stack([np.repeat(drawn, near.shape[1]), drawn[near].ravel()])
    _, low, high = model.diffusion_distances(pairs, interval=_LEVEL)
    return low.reshape(near.shape), high.reshape(near.shape)


def _pairs(model: Any, plane: FloatArray) -> Pairs:
    kernel, n = model.kernel_, model.kernel_.shape[0]
    anchors = sample(n, _affordable(n))
    i, j = np.triu_indices(len(anchors), 1)
    points = np.column_stack([anchors[i], anchors[j]])
    exact = distances_among(kernel, anchors, [model.power_], trivial=model._measures_trivial)[0]
    embedded, low, high = model.diffusion_distances(points, interval=_LEVEL)
    return Pairs(points, exact, embedded, embedded_distances(plane, points), low, high)


def _curves(kernel: HeatKernel, power: float, density: SpectralDensity, powers: FloatArray) -> Curves:
    values = np.geomspace(1e-3, 1.0, 61)[:-1]
    n_modes = kernel.shape[0] - (kernel.trivial is not None)
    Q = leading_directions(kernel, min(_EIGENVALUES, n_modes), power).astype(np.float64)
    ritz = np.einsum("ij,ij->j", Q, np.asarray(kernel.deflated @ Q, dtype=np.float64))
    return Curves(
        powers,
        density.entropy(powers),
        density.effective_dimension(powers),
        density.spectral_dimension(powers),
        np.sort(ritz)[::-1],
        values,
        np.array([density.count(value) for value in values]),
    )


def _notes(n: int, drawn: IntArray, solid: IntArray, kinds: Sequence[Any]) -> list[str]:
    """In words, what is drawn of all there is."""
    notes = []
    if len(drawn) < n:
        notes.append(
            f"All {n:,} points are drawn as the cells of a grid: how many there are in each, and the mean or the "
            f"commonest value of the column that colours them. Single points, their ids and their neighbours are those "
            f"of a random sample of {len(drawn):,}."
        )
    if len(solid) < len(drawn):
        notes.append(f"In three dimensions a random sample of {len(solid):,} points is drawn.")
    if n > _MANY:
        again = "" if kinds[0] is GaussianProcessEmbedding else " The first axes of the embedding are drawn as fitted."
        notes.append(
            f"Beyond {_MANY:,} points diffusion maps and HeatSketch are not fitted for comparison, and distortion is "
            f"measured at the chosen diffusion time only.{again}"
        )
    elif HeatSketch in kinds and n > _FULL_SEARCH:
        notes.append(
            f"Beyond {_FULL_SEARCH:,} points HeatSketch is optimised for pictures in {_SHORT['n_rounds']} rounds from "
            "diffusion maps; a fit of its own does more rounds from several starts, and better."
        )
    if n > _SUPPORT:
        notes.append(
            f"Beyond {_SUPPORT:,} points it is not looked at which neighbours in the picture are supported; "
            "model.unsupported_neighbors() does."
        )
    return notes
