"""Automatic bandwidth and time against the best on a grid, by distortion against known geodesic distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch.linalg.sketch import GaussianSketch
from heatsketch_paper.experiment import Experiment, Row

from .geometry import GEOMETRY
from .rules import POWERS, RULES, chosen_by_rules

__all__ = ["AGAINST_GRID"]

_BANDWIDTHS = 9
_TAIL = 0.01
_COLUMNS = 32


class Spectrum:
    """All eigenpairs of a heat kernel, and from them its diffusion distances, and a sketch, at any time."""

    def __init__(self, kernel: hs.HeatKernel, seed: int) -> None:
        values, self._vectors = np.linalg.eigh(kernel.symmetric.toarray())
        values[-1] = 0.0  # the trivial mode
        self.values = np.maximum(values, 0.0) / values[-2]
        self._seen = self._vectors.T @ GaussianSketch(seed).matrix(len(values), _COLUMNS)

    def distances(self, power: float) -> FloatArray:
        """Diffusion distances up to a factor, (n, n)."""
        return _between(self._vectors * self.values**power)

    def sketched(self, power: float) -> FloatArray:
        """Distances in a Gaussian process embedding of 32 components."""
        return _between(self._vectors @ (self.values[:, None] ** power * self._seen))


def _between(Y: FloatArray) -> FloatArray:
    gram = Y @ Y.T
    size = np.diagonal(gram)
    return np.sqrt(np.maximum(size[:, None] + size[None, :] - 2.0 * gram, 0.0))


def distortions(spectrum: Spectrum, power: float, geodesic: FloatArray) -> dict[str, float]:
    """Log distortion against geodesics: of all pairs, and without the hundredth at either end."""
    upper = np.triu_indices(len(geodesic), 1)
    true = geodesic[upper]
    apart = true > 1e-9 * true.max()
    row = {}
    for kind, d in (("exact", spectrum.distances(power)), ("sketched", spectrum.sketched(power))):
        ratios = np.log(np.maximum(d[upper][apart], 1e-300) / true[apart])
        row[f"{kind}_log_L"] = float(np.ptp(ratios))
        row[f"{kind}_central"] = float(np.subtract(*np.quantile(ratios, [1.0 - _TAIL, _TAIL])))
    return row


@dataclass(frozen=True)
class AgainstGrid(Experiment):
    """For one shape: the best of a grid of bandwidths and times, and what each rule chooses.

    The grid of bandwidths goes from half of what the tenth neighbour gives to what the median distance gives, beyond
    which a kernel turns into a constant, and diffusion distances into straight-line ones.
    """

    data: str = "circle"

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: one for each rule."""
        X, geodesic = GEOMETRY[self.data](self.n_samples, self.points_seed(index))
        seed = self.sketch_seed(index)
        narrow, wide = (float(hs.estimate_bandwidth(X, rule).epsilon) for rule in ("neighbor", "median"))
        cells = []
        for epsilon in np.geomspace(narrow / 2.0, wide, _BANDWIDTHS):
            spectrum = Spectrum(hs.heat_kernel(X, bandwidth=float(epsilon)), seed)
            cells += [distortions(spectrum, t, geodesic) for t in POWERS]
        best = {measure: min(cell[measure] for cell in cells) for measure in cells[0]}
        rows: list[Row] = [{"rule": "best on the grid", "bandwidth": np.nan, "power": np.nan} | best]
        for rule, (epsilon, power) in chosen_by_rules(X).items():
            kernel = hs.heat_kernel(X, bandwidth="self-tuning" if rule.startswith("self-tuning") else epsilon)
            spectrum = Spectrum(kernel, seed)
            times = POWERS if power is None else [power]
            found = [distortions(spectrum, t, geodesic) for t in times]
            least = {measure: min(one[measure] for one in found) for measure in found[0]}
            rows.append({"rule": rule, "bandwidth": epsilon / narrow, "power": power or np.nan} | least)
        assert len(rows) == 1 + len(RULES)
        return [{"data": self.data} | row for row in rows]


AGAINST_GRID = {
    name: AgainstGrid(name.replace(" ", "_").lower(), 300 if name == "circle" else 500, 8, 151, 20.0, data=name)
    for name in GEOMETRY
}
