"""Section 5's experiments: bi-Lipschitz constants of several methods on the same points, and pictures in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion

from .harness.experiment import Experiment, Row, rows_of
from .methods import METHODS, PAPER_METHODS, Scene, sample

__all__ = ["DistortionChart", "NearCrossing", "PlaneSample", "PlaneShape", "crossings", "distortion_and_rank"]

_RADIUS_OF_OUTLIERS = 1.5  # points of the circle lie within


@dataclass(frozen=True)
class DistortionChart(Experiment):
    """log L of each method, for every dimension k and power p, over independent samples of the data.

    The table has a row for each trial, method, k and p: ``log_L``; ``contracted``, the share of all pairs that are
    closer than the pair which the embedding contracts most.

    Attributes
    ----------
    data : str
        Name of a data set in `heatsketch.datasets`.
    bandwidth : float
    powers, n_components : tuple of int
    distance : {"diffusion", "euclidean"}
        What L is measured against; the diffusion distance is that of the method's own kernel and power.
    methods : tuple of str
    """

    data: str = "circle"
    bandwidth: float = 1.0
    powers: tuple[int, ...] = (1,)
    n_components: tuple[int, ...] = (2,)
    distance: str = "diffusion"
    methods: tuple[str, ...] = PAPER_METHODS

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        scene = Scene(X, self.bandwidth, self.powers, max(self.n_components), self.sketch_seed(index))
        rows: list[Row] = []
        for name, p, k in product(self.methods, self.powers, self.n_components):
            method = METHODS[name]
            d = scene.distances(self.distance, method.normalization, p)
            rows.append({"method": name, "k": k, "p": p} | distortion_and_rank(method.embed(scene, k, p), d))
        return rows


def distortion_and_rank(Y: FloatArray, d: FloatArray) -> Row:
    """Log L, and the share of all pairs that are closer than the most contracted one."""
    distortion = measure_distortion(Y, d, quantiles=())
    i, j = distortion.most_contracted
    n = len(Y)
    contracted = float((d < d[i * (2 * n - i - 1) // 2 + j - i - 1]).mean())
    return {"log_L": distortion.log, "contracted": contracted}


@dataclass(frozen=True)
class PlaneSample(Experiment):
    """Embeddings in the plane, point by point.

    The table has a row for each trial, method and point: its angle on the circle, whether it is an ``outlier``, and
    its place ``x``, ``y``.

    Attributes
    ----------
    data : {"circle", "circle_with_outliers"}
    bandwidth : float
    power : int
    methods : tuple of str
    """

    always_as_declared: ClassVar[bool] = True

    data: str = "circle"
    bandwidth: float = 1.0
    power: int = 1
    methods: tuple[str, ...] = ("GPS",)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        angle, outlier, scene = self._scene(index)
        rows: list[Row] = []
        for name in self.methods:
            Y = METHODS[name].embed(scene, 2, self.power)
            columns = {"point": range(len(Y)), "angle": angle, "outlier": outlier, "x": Y[:, 0], "y": Y[:, 1]}
            rows += rows_of(columns, method=name)
        return rows

    def _scene(self, index: int) -> tuple[FloatArray, Any, Scene]:
        make = getattr(datasets, self.data)
        X, angle = make(self.n_samples, random_state=self.points_seed(index), return_parameters=True)
        outlier = np.linalg.norm(X, axis=1) > _RADIUS_OF_OUTLIERS
        return angle, outlier, Scene(X, self.bandwidth, (self.power,), 2, self.sketch_seed(index))


@dataclass(frozen=True)
class PlaneShape(PlaneSample):
    """What the same embeddings look like, in numbers, over many trials.

    ``log_L`` and ``contracted`` as in `DistortionChart`; ``crossings``, how often the image of the circle crosses
    itself; ``structure``, the rank correlation between distances on the circle and in its image; ``reach``, the
    largest distance of a circle point from the circle's mean, and ``reach_origin``, from the origin;
    ``outlier_distance``, the least distance of an outlier from that mean; ``held_1`` and ``held_2``, the share of
    either coordinate's squared norm that the outliers hold.
    """

    always_as_declared: ClassVar[bool] = False

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        angle, outlier, scene = self._scene(index)
        rows: list[Row] = []
        for name in self.methods:
            method = METHODS[name]
            Y = method.embed(scene, 2, self.power)
            d = scene.distances("diffusion", method.normalization, self.power)
            rows.append({"method": name} | distortion_and_rank(Y, d) | _shape(Y, angle, outlier))
        return rows


@dataclass(frozen=True)
class NearCrossing(Experiment):
    """How closely far points of the circle meet in diffusion maps of the circle with outliers, for several k.

    Crossing does not depend on the scale of either coordinate, so the image of the circle is whitened first.
    ``closest`` is the least distance in it of two points whose chord on the circle exceeds 1/2, as a fraction of its
    diameter.
    """

    bandwidth: float = 0.5
    power: int = 4
    n_components: tuple[int, ...] = (2, 3, 4)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X = datasets.circle_with_outliers(self.n_samples, self.points_seed(index))
        circle = np.linalg.norm(X, axis=1) < _RADIUS_OF_OUTLIERS
        scene = Scene(X, self.bandwidth, (self.power,), max(self.n_components), self.sketch_seed(index))
        far = pdist(X[circle]) > 0.5
        rows: list[Row] = []
        for k in self.n_components:
            Y = scene.coordinates("symmetric", self.power)[circle, :k]
            whitened = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)[0]
            d = pdist(whitened)
            rows.append({"method": "DMS", "k": k, "closest": float(d[far].min() / d.max())})
        return rows


def _shape(Y: FloatArray, angle: FloatArray, outlier: Any) -> Row:
    circle = Y[~outlier]
    mean = circle.mean(axis=0)
    held = np.square(Y[outlier]).sum(axis=0) / np.square(Y).sum(axis=0)
    on_circle = pdist(np.column_stack([np.cos(angle[~outlier]), np.sin(angle[~outlier])]))
    return {
        "structure": spearmanr(on_circle, pdist(circle)).statistic,
        "crossings": crossings(angle[~outlier], circle),
        "reach": np.linalg.norm(circle - mean, axis=1).max(),
        "reach_origin": np.linalg.norm(circle, axis=1).max(),
        "outlier_distance": np.linalg.norm(Y[outlier] - mean, axis=1).min(initial=np.inf),
        "held_1": held[0],
        "held_2": held[1],
    }


def crossings(angle: FloatArray, points: FloatArray) -> int:
    """How often the closed polygon through the points, in the order of their angles, crosses itself.

    Parameters
    ----------
    angle : ndarray of shape (n,)
    points : ndarray of shape (n, 2)

    Returns
    -------
    count : int
    """
    P = points[np.argsort(angle, kind="stable")]
    Q = np.roll(P, -1, axis=0)
    edge = Q - P  # [n, 2]

    def side(R: FloatArray) -> FloatArray:
        """On which side of each edge's line each point lies, [edges, points]."""
        away = R[None, :, :] - P[:, None, :]
        result: FloatArray = np.sign(edge[:, None, 0] * away[..., 1] - edge[:, None, 1] * away[..., 0])
        return result

    parted = side(P) * side(Q) < 0  # the ends of edge j lie on either side of edge i
    return int(np.triu(parted & parted.T, 1).sum())
