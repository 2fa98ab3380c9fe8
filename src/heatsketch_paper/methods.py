"""The paper's six methods, and ours, on one set of points: what they share is computed once.

=======  ==================================================================================
DMS      diffusion maps (Algorithm 3), symmetric normalisation (Algorithm 1)
DMB      the same, bistochastic normalisation (Algorithm 2)
GPS      Gaussian process embedding (Algorithm 4), symmetric
GPB      the same, bistochastic
GPSBS    sketch with symmetric Bernoulli signs (Algorithm 5), symmetric
GPSBB    the same, bistochastic
=======  ==================================================================================

Beyond the paper: GPXS and GPXB take half of the k coordinates exactly, from eigenvectors, and sketch the remainder
(``n_exact`` of :class:`heatsketch.GaussianProcessEmbedding`); HSS and HSB are :class:`heatsketch.HeatSketch`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distances import diffusion_distances
from heatsketch.kernel.build import heat_kernel
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.diffusion import diffuse
from heatsketch.linalg.eigen import Eigenpairs, eigenpairs
from heatsketch.linalg.rounding import rounding_level
from heatsketch.linalg.sketch import make_sketch
from heatsketch.optimize.features import WideSketch, default_width, wide_sketch
from heatsketch.optimize.objectives import Bilipschitz
from heatsketch.optimize.pairs import AllPairs
from heatsketch.optimize.solver import Plan, optimize
from heatsketch.optimize.starts import DEFAULT_STARTS, make_start

__all__ = ["BEYOND", "METHODS", "PAPER_METHODS", "Method", "Scene", "formed_kernel", "sample"]


def sample(data: str, n: int, random_state: np.random.Generator) -> FloatArray:
    """Points of one of the paper's data sets, by its name in `heatsketch.datasets`."""
    points: FloatArray = getattr(datasets, data)(n, random_state=random_state)
    return points


def formed_kernel(X: FloatArray, bandwidth: float, normalization: str) -> HeatKernel:
    """Heat kernel of all pairs, its matrix formed, which else happens on first use: that is part of its cost."""
    kernel = heat_kernel(X, bandwidth=bandwidth, normalization=normalization, n_neighbors=None)
    kernel @ np.zeros(len(X))
    return kernel


@dataclass(frozen=True)
class Scene:
    """One trial: its points, and everything that methods share, computed when first asked for.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    bandwidth : float
    powers : tuple of int
    width : int
        The largest k.
    seed : int
        Of the random matrices. The first k columns serve dimension k, and the same matrix both normalisations.
    """

    X: FloatArray
    bandwidth: float
    powers: tuple[int, ...]
    width: int
    seed: int
    _known: dict[tuple[str, ...], tuple[Any, float]] = field(default_factory=dict)

    def _once(self, key: tuple[str, ...], compute: Callable[[], Any]) -> Any:
        if key not in self._known:
            start = perf_counter()
            value = compute()
            self._known[key] = value, perf_counter() - start
        return self._known[key][0]

    def seconds(self, *keys: tuple[str, ...]) -> float:
        """Time that was spent on what the keys, or keys that begin with them, name."""
        return sum(spent for known, (_, spent) in self._known.items() if any(known[: len(key)] == key for key in keys))

    def kernel(self, normalization: str) -> HeatKernel:
        """Heat kernel of the points, every pair kept."""
        build = partial(formed_kernel, self.X, self.bandwidth, normalization)
        kernel: HeatKernel = self._once(("kernel", normalization), build)
        return kernel

    def eigenpairs(self, normalization: str) -> Eigenpairs:
        """Leading eigenpairs without the trivial one."""
        kernel = self.kernel(normalization)
        pairs: Eigenpairs = self._once(("eigenpairs", normalization), lambda: eigenpairs(kernel, self.width))
        return pairs

    def coordinates(self, normalization: str, power: int) -> FloatArray:
        """Diffusion coordinates ``lambda^p v``, (N, width)."""
        return self.eigenpairs(normalization).coordinates(power, rounding_level(self.kernel(normalization)))

    def sketch(self, law: str) -> FloatArray:
        """Random matrix M, (N, width)."""
        n = len(self.X)
        M: FloatArray = self._once(("sketch", law), lambda: make_sketch(law, self.seed, n).matrix(n, self.width))
        return M

    def sketched(self, normalization: str, law: str) -> dict[int, FloatArray]:
        """``A^p M`` for every power, from one pass; the constant mode, absent from all distances, is left out."""
        kernel, M = self.kernel(normalization), self.sketch(law)

        def compute() -> dict[int, FloatArray]:
            blocks = diffuse(kernel, M, self.powers, trivial=not kernel.trivial_is_constant)
            return dict(zip(self.powers, blocks, strict=True))

        blocks: dict[int, FloatArray] = self._once(("sketched", normalization, law), compute)
        return blocks

    def wide(self, normalization: str, power: int) -> WideSketch:
        """The wide sketch that HeatSketch chooses from."""
        kernel, width = self.kernel(normalization), default_width(len(self.X))
        compute = partial(wide_sketch, kernel, float(power), width, self.seed)
        wide: WideSketch = self._once(("wide", normalization, str(power)), compute)
        return wide

    def pairs(self, normalization: str, power: int) -> AllPairs:
        """All pairs with the diffusion distances of the kernel."""
        d = self.distances("diffusion", normalization, power) / self.wide(normalization, power).unit
        pairs: AllPairs = self._once(("pairs", normalization, str(power)), lambda: AllPairs(d, len(self.X)))
        return pairs

    def projection(self, normalization: str, power: int, k: int, **plan: Any) -> FloatArray:
        """What HeatSketch multiplies the wide sketch by, (m, k); with its defaults unless `plan` says otherwise."""
        wide, pairs = self.wide(normalization, power), self.pairs(normalization, power)
        starts = [make_start(name, wide, k, self.seed) for name in DEFAULT_STARTS]

        def compute() -> FloatArray:
            return optimize(wide.features, pairs, starts, Plan(Bilipschitz, **plan), self.seed).W

        W: FloatArray = self._once(("projection", normalization, str(power), str(k), str(plan)), compute)
        return W

    def distances(self, kind: str, normalization: str, power: int) -> FloatArray:
        """Condensed distances to compare with: Euclidean, or the diffusion distance of the method's own kernel."""
        if kind == "euclidean":
            key: tuple[str, ...] = ("distances", kind)
            compute = partial(pdist, self.X)
        else:
            key = ("distances", normalization, str(power))
            compute = partial(diffusion_distances, self.kernel(normalization), power)
        d: FloatArray = self._once(key, compute)
        return d


@dataclass(frozen=True)
class Method(ABC):
    """A way to embed the points of a scene in any number of dimensions up to its width."""

    name: str
    label: str
    normalization: str

    @abstractmethod
    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        """The embedding, (N, k)."""

    @property
    @abstractmethod
    def uses(self) -> tuple[tuple[str, ...], ...]:
        """Names of the shared computations that the method rests on."""

    def seconds(self, scene: Scene) -> float:
        """Time of the method's embeddings, once made: kernel, and eigenvectors or products, for all k and powers."""
        return scene.seconds(("kernel", self.normalization), *self.uses)

    def iterations(self, scene: Scene) -> int:
        """Products spent on the normalisation."""
        scaling = scene.kernel(self.normalization).scaling
        return 0 if scaling is None else scaling.n_iter


@dataclass(frozen=True)
class Spectral(Method):
    """Diffusion maps."""

    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        return scene.coordinates(self.normalization, power)[:, :k]

    @property
    def uses(self) -> tuple[tuple[str, ...], ...]:
        return (("eigenpairs", self.normalization),)


@dataclass(frozen=True)
class Sketched(Method):
    """``A^p M / sqrt(k)``."""

    law: str

    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        Y: FloatArray = scene.sketched(self.normalization, self.law)[power][:, :k] / np.sqrt(k)
        return Y

    @property
    def uses(self) -> tuple[tuple[str, ...], ...]:
        return ("sketch", self.law), ("sketched", self.normalization, self.law)


@dataclass(frozen=True)
class HalfExact(Sketched):
    """Half of the coordinates exact, the remainder of the kernel sketched: ``A^p (I - V V^T) M / sqrt(k - r)``."""

    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        r = k // 2
        exact = scene.coordinates(self.normalization, power)[:, :r]
        V = scene.eigenpairs(self.normalization).vectors[:, :r]
        M = scene.sketch(self.law)[:, : k - r]
        rest = scene.sketched(self.normalization, self.law)[power][:, : k - r] - exact @ (V.T @ M)
        return np.column_stack([exact, rest / np.sqrt(k - r)])

    @property
    def uses(self) -> tuple[tuple[str, ...], ...]:
        return ("eigenpairs", self.normalization), *super().uses


@dataclass(frozen=True)
class Optimised(Method):
    """HeatSketch."""

    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        Y: FloatArray = scene.wide(self.normalization, power).features @ scene.projection(self.normalization, power, k)
        return Y

    @property
    def uses(self) -> tuple[tuple[str, ...], ...]:
        return (("wide", self.normalization), ("pairs", self.normalization), ("projection", self.normalization))


def _both(kind: type[Method], name: str, label: str, **law: str) -> dict[str, Method]:
    """The method with either normalisation; S and B end their names as in the paper."""
    return {
        name + normalization[0].upper(): kind(
            name=name + normalization[0].upper(), label=f"{label}, {normalization}", normalization=normalization, **law
        )
        for normalization in ("symmetric", "bistochastic")
    }


_PAPER = {
    **_both(Spectral, "DM", "diffusion maps"),
    **_both(Sketched, "GP", "Gaussian process", law="gaussian"),
    **_both(Sketched, "GPSB", "Bernoulli signs", law="rademacher"),
}
_OURS = {
    **_both(HalfExact, "GPX", "half exact, half sketched", law="gaussian"),
    **_both(Optimised, "HS", "HeatSketch"),
}
METHODS: dict[str, Method] = _PAPER | _OURS
PAPER_METHODS, BEYOND = tuple(_PAPER), tuple(_OURS)
