"""The paper's charts, extended by HeatSketch, and the same on points that were not seen.

Trials, points and random matrices are those of ``heatsketch reproduce``: what the paper's methods get here is what they
get there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion
from heatsketch.datasets import PAPER
from heatsketch.linalg.diffusion import coefficients
from heatsketch.linalg.rounding import rounding_level
from heatsketch.optimize.features import WideSketch
from heatsketch_paper.catalogue import EXPERIMENTS
from heatsketch_paper.experiment import Experiment, Row, sample
from heatsketch_paper.methods import Scene

__all__ = ["CHARTS", "Chart", "Stage"]

NORMALIZATIONS = {"S": "symmetric", "B": "bistochastic"}


@dataclass
class Stage:
    """One kernel of a scene, and as many points that are not in it."""

    scene: Scene
    unseen: FloatArray
    normalization: str

    def __post_init__(self) -> None:
        (self.power,) = self.scene.powers
        self.kernel = self.scene.kernel(self.normalization)
        self.keep = not self.kernel.trivial_is_constant

    def both(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The embeddings of the points and of those that are not seen, from their coefficients."""
        return self.kernel.place(Z), self.rows(Z)

    def rows(self, Z: FloatArray) -> FloatArray:
        """What the points that are not seen get from coefficients."""
        return self.kernel.at_new_points(self.unseen, np.ascontiguousarray(Z))

    def coefficients(self, M: FloatArray) -> FloatArray:
        """``S^(p-1) M``."""
        return coefficients(self.kernel, M, self.power, trivial=self.keep)

    @cached_property
    def spectral(self) -> tuple[FloatArray, FloatArray]:
        """Diffusion maps in as many dimensions as are wanted at most."""
        pairs = self.scene.eigenpairs(self.normalization)
        return self.both(pairs.coordinates(self.power - 1.0, rounding_level(self.kernel)))

    @cached_property
    def sketched(self) -> tuple[FloatArray, FloatArray]:
        """A Gaussian process embedding times sqrt(k)."""
        return self.both(self.coefficients(self.scene.sketch("gaussian")))

    @property
    def wide(self) -> WideSketch:
        """The wide sketch of HeatSketch."""
        return self.scene.wide(self.normalization, self.power)

    @cached_property
    def wide_unseen(self) -> FloatArray:
        """Its rows at the points that are not seen."""
        return self.rows(self.coefficients(self.wide.M))

    @cached_property
    def distances(self) -> tuple[FloatArray, FloatArray]:
        """Exact diffusion distances, condensed, of either set of points."""
        seen = self.scene.distances("diffusion", self.normalization, self.power)
        return seen, pdist(self.rows(self.coefficients(np.eye(len(self.scene.X)))))

    def optimised(self, k: int, **plan: Any) -> tuple[FloatArray, FloatArray]:
        """HeatSketch, as the estimator computes it."""
        W = self.scene.projection(self.normalization, self.power, k, **plan)
        return self.wide.features @ W, self.wide_unseen @ W

    def measured(self, both: tuple[FloatArray, FloatArray]) -> Row:
        """Log L on points that are seen and on those that are not."""
        seen, unseen = (measure_distortion(Y, d, quantiles=()).log for Y, d in zip(both, self.distances, strict=True))
        return {"log_L": seen, "log_L_unseen": unseen}


@dataclass(frozen=True)
class Chart(Experiment):
    """log L of diffusion maps, Gaussian process embeddings and HeatSketch, for every k, on seen and unseen points.

    ``seconds`` is the time of HeatSketch's optimisation, on one thread.
    """

    data: str = "circle"
    bandwidth: float = 1.0
    power: int = 1
    n_components: tuple[int, ...] = (2,)

    def stage(self, index: int, normalization: str) -> Stage:
        """What the methods of a trial share."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        unseen = sample(self.data, self.n_samples, self.other_seed(index))
        scene = Scene(X, self.bandwidth, (self.power,), max(self.n_components), self.sketch_seed(index))
        return Stage(scene, unseen, normalization)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for letter, normalization in NORMALIZATIONS.items():
            stage = self.stage(index, normalization)
            for k in self.n_components:
                spectral, sketched = (tuple(Y[:, :k] for Y in both) for both in (stage.spectral, stage.sketched))
                stage.wide_unseen, stage.scene.pairs(normalization, self.power)
                start = perf_counter()
                ours = stage.optimised(k)
                seconds = perf_counter() - start
                for name, both in (("DM", spectral), ("GP", sketched), ("HS", ours)):
                    row = {"method": name + letter, "k": k} | stage.measured(both)  # type: ignore[arg-type]
                    rows.append(row | {"seconds": seconds if name == "HS" else 0.0})
        return rows


def _chart(name: str, effort: float) -> Chart:
    setting = PAPER[name]
    low, high = setting.n_components
    return Chart(
        name,
        setting.n_samples,
        setting.n_trials,
        seed=EXPERIMENTS[name].seed,
        effort=effort,
        data=name,
        bandwidth=setting.bandwidth,
        power=setting.power,
        n_components=tuple(range(low, high + 1)),
    )


CHARTS = {
    name: _chart(name, effort)
    for name, effort in (
        ("circle_with_outliers", 1.5),
        ("circle", 4.0),
        ("stretched_torus", 10.0),
        ("gaussian_clouds", 7.0),
        ("klein_bottle", 26.0),
    )
}
