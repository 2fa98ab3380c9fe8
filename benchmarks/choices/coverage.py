"""How often confidence intervals hold the diffusion distance that they are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import heatsketch as hs
from heatsketch_paper.experiment import Experiment, Row

from .geometry import GEOMETRY
from .held_out import REAL

__all__ = ["COVERAGE", "LEVEL"]

LEVEL = 0.95
_POINTS = 200


@dataclass(frozen=True)
class Coverage(Experiment):
    """Share of pairs whose exact diffusion distance lies in the interval, by embedding and data."""

    data: tuple[str, ...] = ("stretched torus", "Klein bottle", "circle with outliers", "tree", "digits")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rows: list[Row] = []
        for data in self.data:
            source = GEOMETRY.get(data) or REAL[data]
            X = source(self.n_samples, self.points_seed(index))[0]
            for kernel in ("all pairs", "12 neighbours"):
                rows += [{"data": data, "kernel": kernel} | row for row in self._covered(X, kernel, index)]
        return rows

    def _covered(self, X: np.ndarray, kernel: str, index: int) -> list[Row]:
        seed = self.sketch_seed(index)
        common = {"n_neighbors": 12} if kernel == "12 neighbours" else {}
        sketch = hs.GaussianProcessEmbedding
        models = {
            "Gaussian, k = 2": sketch(2, random_state=seed, **common),
            "Gaussian, k = 32": sketch(32, random_state=seed, **common),
            "signs, k = 2": sketch(2, sketch="rademacher", random_state=seed, **common),
            "signs, k = 32": sketch(32, sketch="rademacher", random_state=seed, **common),
            "4 exact + 12 Gaussian": sketch(16, n_exact=4, random_state=seed, **common),
            "time chosen by paths, k = 32": sketch(32, power="paths", random_state=seed, **common),
            "witness (for HeatSketch, DiffusionMaps)": hs.DiffusionMaps(3, **common),
        }
        pairs = self.other_seed(index).integers(0, len(X), (2000, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        rows = []
        for name, model in models.items():
            model.fit(X)
            true = hs.diffusion_distances(model.kernel_, model.power_, pairs)
            _, low, high = model.diffusion_distances(pairs, interval=LEVEL)
            slack = 1e-9 * true.max()  # where a distance is exact the interval is a point
            rows.append(
                {
                    "method": name,
                    "covered": float(np.mean((low - slack <= true) & (true <= high + slack))),
                    "width": float(np.median(high / np.maximum(low, 1e-300))),
                }
            )
        return rows


COVERAGE = {"coverage": Coverage("coverage", _POINTS, 24, seed=143, effort=8.0)}
