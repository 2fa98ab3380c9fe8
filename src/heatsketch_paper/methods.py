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
(``n_exact`` of :class:`heatsketch.GaussianProcessEmbedding`); HSS and HSB are :class:`heatsketch.HeatSketch`
with the objective "bilipschitz".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from scipy.spatial.distance import pdist

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distances import diffusion_distances
from heatsketch.estimators.heat_sketch import HeatSketch
from heatsketch.kernel.build import heat_kernel
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.diffusion import diffuse
from heatsketch.linalg.eigen import Eigenpairs, eigenpairs
from heatsketch.linalg.rounding import rounding_level
from heatsketch.linalg.sketch import make_sketch

__all__ = ["BEYOND", "METHODS", "PAPER_METHODS", "Method", "Scene", "formed_kernel", "sample"]

F = TypeVar("F", bound=Callable[..., Any])


def sample(data: str, n: int, random_state: np.random.Generator) -> FloatArray:
    """Points of one of the paper's data sets, by its name in `heatsketch.datasets`."""
    points: FloatArray = getattr(datasets, data)(n, random_state=random_state)
    return points


def formed_kernel(X: FloatArray, bandwidth: float, normalization: str) -> HeatKernel:
    """Heat kernel of all pairs with its matrix, which is otherwise formed on first use."""
    kernel = heat_kernel(X, bandwidth=bandwidth, normalization=normalization, n_neighbors=None)
    kernel @ np.zeros(len(X))
    return kernel


def _cached(method: F) -> F:
    """Cache the results of a method of a scene by its arguments."""

    @wraps(method)
    def call(self: Scene, *args: Any, **kwargs: Any) -> Any:
        key = (method.__name__, args, tuple(kwargs.items()))
        if key not in self._cache:
            self._cache[key] = method(self, *args, **kwargs)
        return self._cache[key]

    return cast(F, call)


@dataclass(frozen=True)
class Scene:
    """One trial: its points, and everything that methods share, computed when first needed.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    bandwidth : float
    powers : tuple of int
    width : int
        The largest k.
    seed : int
        Of the random matrices. Dimension k uses the first k columns; both normalisations use the same matrix.
    """

    X: FloatArray
    bandwidth: float
    powers: tuple[int, ...]
    width: int
    seed: int
    _cache: dict[Any, Any] = field(default_factory=dict)

    @_cached
    def kernel(self, normalization: str) -> HeatKernel:
        """Heat kernel of all pairs."""
        return formed_kernel(self.X, self.bandwidth, normalization)

    @_cached
    def eigenpairs(self, normalization: str) -> Eigenpairs:
        """Leading eigenpairs without the trivial one."""
        return eigenpairs(self.kernel(normalization), self.width)

    def coordinates(self, normalization: str, power: int) -> FloatArray:
        """Diffusion coordinates ``lambda^p v``, (N, width)."""
        level = rounding_level(self.kernel(normalization))
        coordinates: FloatArray = self.eigenpairs(normalization).coordinates(power, level)
        return coordinates

    @_cached
    def sketch(self, law: str) -> FloatArray:
        """Random matrix M, (N, width)."""
        M: FloatArray = make_sketch(law, self.seed, len(self.X)).matrix(len(self.X), self.width)
        return M

    @_cached
    def sketched(self, normalization: str, law: str) -> dict[int, FloatArray]:
        """``A^p M`` for every power, from one pass, without a constant mode, which cancels in distances."""
        kernel = self.kernel(normalization)
        blocks = diffuse(kernel, self.sketch(law), self.powers, trivial=not kernel.trivial_is_constant)
        return dict(zip(self.powers, blocks, strict=True))

    @_cached
    def distances(self, kind: str, normalization: str, power: int) -> FloatArray:
        """Condensed reference distances: Euclidean, or the diffusion distance of the method's own kernel."""
        if kind == "euclidean":
            d: FloatArray = pdist(self.X)
            return d
        return diffusion_distances(self.kernel(normalization), power)


def _diffusion_map(scene: Scene, normalization: str, k: int, power: int) -> FloatArray:
    return scene.coordinates(normalization, power)[:, :k]


def _sketch(scene: Scene, normalization: str, k: int, power: int, *, law: str) -> FloatArray:
    """``A^p M / sqrt(k)``."""
    Y: FloatArray = scene.sketched(normalization, law)[power][:, :k] / np.sqrt(k)
    return Y


def _half_exact(scene: Scene, normalization: str, k: int, power: int) -> FloatArray:
    """Half of the coordinates exact, the remainder of the kernel sketched: ``A^p (I - V V^T) M / sqrt(k - r)``."""
    r = k // 2
    exact = scene.coordinates(normalization, power)[:, :r]
    V = scene.eigenpairs(normalization).vectors[:, :r]
    M = scene.sketch("gaussian")[:, : k - r]
    rest = scene.sketched(normalization, "gaussian")[power][:, : k - r] - exact @ (V.T @ M)
    return np.column_stack([exact, rest / np.sqrt(k - r)])


def _optimised(scene: Scene, normalization: str, k: int, power: int) -> FloatArray:
    model = HeatSketch(
        k,
        power=power,
        bandwidth=scene.bandwidth,
        n_neighbors=None,
        normalization=normalization,
        objective="bilipschitz",
        random_state=scene.seed,
    )
    Y: FloatArray = model.fit_transform(scene.X)
    return Y


@dataclass(frozen=True)
class Method:
    """A way to embed the points of a scene in any number of dimensions up to its width."""

    label: str
    normalization: str
    compute: Callable[[Scene, str, int, int], FloatArray]

    def embed(self, scene: Scene, k: int, power: int) -> FloatArray:
        """The embedding, (N, k)."""
        return self.compute(scene, self.normalization, k, power)


def _both(name: str, label: str, compute: Callable[..., FloatArray]) -> dict[str, Method]:
    """The method with either normalisation; S and B end their names as in the paper."""
    kinds = ("symmetric", "bistochastic")
    return {name + kind[0].upper(): Method(f"{label}, {kind}", kind, compute) for kind in kinds}


_PAPER = {
    **_both("DM", "diffusion maps", _diffusion_map),
    **_both("GP", "Gaussian process", partial(_sketch, law="gaussian")),
    **_both("GPSB", "Bernoulli signs", partial(_sketch, law="rademacher")),
}
_OURS = {**_both("GPX", "half exact, half sketched", _half_exact), **_both("HS", "HeatSketch", _optimised)}
METHODS: dict[str, Method] = _PAPER | _OURS
PAPER_METHODS, BEYOND = tuple(_PAPER), tuple(_OURS)
