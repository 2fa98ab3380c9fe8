"""Section 5's experiment: the bi-Lipschitz constant of several methods on the same points."""

from __future__ import annotations

from dataclasses import dataclass

from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distortion import measure_distortion

from .experiment import Experiment, Row, sample
from .methods import METHODS, PAPER_METHODS, Scene

__all__ = ["DistortionChart", "distortion_and_rank"]


@dataclass(frozen=True)
class DistortionChart(Experiment):
    """log L of each method, for every dimension k and power p, over independent samples of the data.

    The table has a row for each trial, method, k and p: ``log_L``; ``contracted``, the share of all pairs that are
    closer than the pair which the embedding contracts most; ``iterations``, the products spent on the normalisation;
    ``seconds``, the time of the method's kernel and eigenvectors or products, which serve all its rows of the trial (L
    itself is not counted).

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
        for name in self.methods:
            method = METHODS[name]
            measured = [
                {"k": k, "p": p} | self._measure(scene, method.embed(scene, k, p), method.normalization, p)
                for p in self.powers
                for k in self.n_components
            ]
            cost = {"iterations": method.iterations(scene), "seconds": method.seconds(scene)}
            rows += [{"method": name} | row | cost for row in measured]
        return rows

    def _measure(self, scene: Scene, Y: FloatArray, normalization: str, power: int) -> Row:
        d = scene.distances(self.distance, normalization, power)
        log_L, contracted = distortion_and_rank(Y, d)
        return {"log_L": log_L, "contracted": contracted}


def distortion_and_rank(Y: FloatArray, d: FloatArray) -> tuple[float, float]:
    """Log L, and the share of all pairs that are closer than the most contracted one."""
    distortion = measure_distortion(Y, d, quantiles=())
    i, j = distortion.most_contracted
    n = len(Y)
    return distortion.log, float((d < d[i * (2 * n - i - 1) // 2 + j - i - 1]).mean())
