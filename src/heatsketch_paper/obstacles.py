"""Obstacles to embeddings: section 2.2's challenge, the torus's eigenfunctions, extreme powers, kernel columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import subspace_angles
from scipy.spatial.distance import pdist

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion
from heatsketch.kernel.build import heat_kernel
from heatsketch.linalg.diffusion import diffuse, matrix_power
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.linalg.rounding import rounding_level
from heatsketch.linalg.sketch import GaussianSketch

from .harness.experiment import Experiment, Row, rows_of
from .methods import METHODS, Scene, sample

__all__ = [
    "APART",
    "COLLAPSED",
    "Challenge",
    "ExtremePowers",
    "KernelColumns",
    "LocalCoordinates",
    "Refinement",
    "TorusEigenfunctions",
    "torus_grid",
]


# A separation below the first is rounding: points coincide. Above the second they are well separated.
COLLAPSED, APART = 1e-9, 1e-4


def torus_grid(n: int, radius: float) -> FloatArray:
    """About n points of S^1 x r S^1 on a regular grid whose spacing is the same along both circles."""
    short = max(3, round(np.sqrt(n / radius)))
    long = max(3, round(radius * short))
    u, v = np.meshgrid(np.arange(short) / short, np.arange(long) / long, indexing="ij")
    u, v = 2.0 * np.pi * u.ravel(), 2.0 * np.pi * v.ravel()
    return np.column_stack([np.cos(u), np.sin(u), radius * np.cos(v), radius * np.sin(v)])


@dataclass(frozen=True)
class Challenge(Experiment):
    """Section 2.2: S^1 x r S^1 for growing r, on regular grids, where the eigenvectors are the sines and cosines.

    ``separation`` is ``1 / L``, the smallest dilation over the largest: 0, up to rounding, if two points
    coincide. Diffusion maps are the same in each trial and have rows in the first only.
    """

    radii: tuple[float, ...] = (1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.25, 3.5, 3.75, 4.25, 4.5, 4.75, 5.25, 5.5, 5.75)
    bandwidth: float = 0.3
    power: int = 10
    n_components: tuple[int, ...] = tuple(range(1, 14))

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for r in self.radii:
            X = torus_grid(self.n_samples, r)
            scene = Scene(X, self.bandwidth, (self.power,), max(self.n_components), self.sketch_seed(index))
            for name in ("DMS", "GPS") if index == 0 else ("GPS",):
                d = scene.distances("diffusion", METHODS[name].normalization, self.power)
                for k in self.n_components:
                    L = measure_distortion(METHODS[name].embed(scene, k, self.power), d, quantiles=()).constant
                    rows.append({"r": r, "method": name, "k": k, "separation": 1.0 / L})
        return rows


@dataclass(frozen=True)
class Refinement(Experiment):
    """Injectivity of the limit, seen from samples: log L on the torus as the number of points grows.

    Where the map of the manifold is an embedding, L tends to a finite limit, perhaps a distant one; where it is not,
    larger samples contain closer approximations of pairs with the same image. ``n_samples`` is the largest sample.
    """

    data: str = "stretched_torus"
    bandwidth: float = 0.3
    power: int = 10
    halvings: int = 4
    settings: tuple[tuple[str, int], ...] = (
        ("DMB", 6),
        ("DMB", 8),
        ("GPB", 2),
        ("GPB", 3),
        ("GPB", 4),
        ("GPB", 5),
        ("GPB", 8),
    )

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial; smaller samples are the first points of the larger ones."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        rows: list[Row] = []
        width = max(k for _, k in self.settings)
        for halving in range(self.halvings, -1, -1):
            n = self.n_samples >> halving
            scene = Scene(X[:n], self.bandwidth, (self.power,), width, self.sketch_seed(index))
            for name, k in self.settings:
                d = scene.distances("diffusion", METHODS[name].normalization, self.power)
                log_L = measure_distortion(METHODS[name].embed(scene, k, self.power), d, quantiles=()).log
                rows.append({"points": n, "method": name, "k": k, "log_L": log_L})
        return rows


@dataclass(frozen=True)
class TorusEigenfunctions(Experiment):
    """Which kernel estimates the eigenfunctions of the stretched torus better.

    Its leading 2 floor(r) eigenfunctions are ``cos(m v), sin(m v)``, m = 1, ..., floor(r). For the first ``modes`` = m
    of these pairs, ``error`` is the mean squared sine of the angles between their span and that of as many leading
    eigenvectors of the kernel.
    """

    radius: float = 3.5
    bandwidth: float = 0.3

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, angles = datasets.stretched_torus(
            self.n_samples, self.radius, self.points_seed(index), return_parameters=True
        )
        waves = [angles[:, 1, None] * m for m in range(1, int(self.radius) + 1)]
        modes = np.hstack([part for wave in waves for part in (np.cos(wave), np.sin(wave))])
        rows: list[Row] = []
        for normalization in ("symmetric", "bistochastic"):
            kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization=normalization, n_neighbors=None)
            vectors = eigenpairs(kernel, modes.shape[1]).vectors
            for m in range(1, len(waves) + 1):
                sines = np.sin(subspace_angles(vectors[:, : 2 * m], modes[:, : 2 * m]))
                rows.append({"normalization": normalization, "modes": m, "error": float(np.square(sines).mean())})
        return rows


@dataclass(frozen=True)
class ExtremePowers(Experiment):
    """Section 5.4's two limits of the process ``A^p g``: white noise for small p, the top eigenvector for large p.

    ``near_one`` is the share of the eigenvalues of A^p that exceed 1/2; ``from_white`` is ``|A^(2p) - I|_F / sqrt(N)``,
    how far the covariance is from that of white noise; ``top`` is the share of the variance that the top eigenvector
    carries.
    """

    data: str = "stretched_torus"
    bandwidth: float = 0.3
    exponents: tuple[int, ...] = tuple(range(-12, 13))  # p = 2^exponent

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="symmetric", n_neighbors=None)
        spectrum = np.linalg.eigvalsh(matrix_power(kernel, 1))[::-1].clip(0.0)
        rows: list[Row] = []
        for exponent in self.exponents:
            values = spectrum ** (2.0**exponent)
            variance = values**2
            rows.append(
                {
                    "exponent": exponent,
                    "near_one": float((values > 0.5).mean()),
                    "from_white": float(np.sqrt(np.square(variance - 1.0).mean())),
                    "top": float(variance[0] / variance.sum()),
                }
            )
        return rows


@dataclass(frozen=True)
class KernelColumns(Experiment):
    """Columns of the heat kernel of the circle at several powers: bumps that widen around their point.

    ``value`` is the column's entry at each ``angle``, measured from the column's own point, as a fraction of its
    largest entry.
    """

    always_as_declared: ClassVar[bool] = True

    bandwidth: float = 0.25
    powers: tuple[int, ...] = (1, 8, 64)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, angle = datasets.circle(self.n_samples, self.points_seed(index), return_parameters=True)
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="bistochastic", n_neighbors=None)
        unit = np.eye(len(X), 1)
        away = (angle - angle[0] + np.pi) % (2.0 * np.pi) - np.pi
        rows: list[Row] = []
        for p, block in zip(self.powers, diffuse(kernel, unit, self.powers), strict=True):
            rows += rows_of({"angle": away, "value": block[:, 0] / block.max()}, p=p)
        return rows


@dataclass(frozen=True)
class LocalCoordinates(Experiment):
    """Jones, Maggioni and Schul: d well-chosen columns of the heat kernel are coordinates of a neighbourhood.

    On the stretched torus, d = 2, around a random point: ``log_L`` against the Euclidean distance within the
    neighbourhood, for two eigenvectors, and for the ``best`` and the ``median`` of many pairs of kernel columns, at
    random points from the tenth that is nearest, and of as many sketches with two columns.
    """

    data: str = "stretched_torus"
    bandwidth: float = 0.3
    power: int = 4
    neighbors: int = 12
    candidates: int = 200

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rng = self.other_seed(index)
        X = sample(self.data, self.n_samples, self.points_seed(index))
        order = np.argsort(np.linalg.norm(X - X[0], axis=1), kind="stable")
        near, around = order[: self.neighbors], order[: max(self.neighbors, len(X) // 10)]
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="symmetric", n_neighbors=None)
        d = pdist(X[near])

        def distortion(Y: FloatArray) -> float:
            return measure_distortion(Y[near], d, quantiles=()).log

        A = matrix_power(kernel, self.power)
        pairs = [rng.choice(around, 2, replace=False) for _ in range(self.candidates)]
        columns = [distortion(A[:, pair]) for pair in pairs]
        Y = A @ GaussianSketch(self.sketch_seed(index)).matrix(len(X), 2 * self.candidates)
        sketches = [distortion(Y[:, 2 * c : 2 * c + 2]) for c in range(self.candidates)]
        maps = eigenpairs(kernel, 2).coordinates(self.power, rounding_level(kernel))
        found = {
            "kernel columns, best": min(columns),
            "kernel columns, median": float(np.median(columns)),
            "Gaussian process, best": min(sketches),
            "Gaussian process, median": float(np.median(sketches)),
            "diffusion maps": distortion(maps),
        }
        return [{"method": name, "k": 2, "log_L": value} for name, value in found.items()]
