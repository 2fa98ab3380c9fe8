"""The gap between points that are seen and points that are not, and what does and does not close it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

from heatsketch.optimize.objectives import Bilipschitz
from heatsketch.optimize.pairs import AllPairs
from heatsketch.optimize.solver import Plan, optimize
from heatsketch.optimize.starts import DEFAULT_STARTS, make_start
from heatsketch_paper.experiment import Experiment, Row, sample

from .charts import CHARTS, Stage

__all__ = ["GAP"]

_CELLS = {"stretched_torus": (2, 4, 8), "klein_bottle": (3, 8), "gaussian_clouds": (2, 5, 10)}
_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
_SHORT = 5


@dataclass(frozen=True)
class Gap(Experiment):
    """log L on seen and unseen points: by the weight of the penalty, after few rounds, and with further points seen.

    "further points" optimises over pairs of the sample and of as many other points of the same law, which no user
    has: it tells how much of the gap more data could close.
    """

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial; its number is beyond those of the charts."""
        rows: list[Row] = []
        for data, ks in _CELLS.items():
            chart = CHARTS[data]
            stage = chart.stage(1000 + index, "bistochastic")
            for k in ks:
                for weight in _WEIGHTS:
                    row = stage.measured(stage.optimised(k, regularization=weight))
                    rows.append({"data": data, "k": k, "method": f"penalty {weight}"} | row)
                row = stage.measured(stage.optimised(k, n_rounds=_SHORT))
                rows.append({"data": data, "k": k, "method": f"{_SHORT} rounds"} | row)
                row = stage.measured(_with_further_points(stage, data, k, self.other_seed(index)))
                rows.append({"data": data, "k": k, "method": "further points"} | row)
        return rows


def _with_further_points(stage: Stage, data: str, k: int, rng: np.random.Generator) -> tuple:
    """HeatSketch optimised over the sample and as many further points."""
    scene = stage.scene
    Z = np.ascontiguousarray(stage.coefficients(stage.wide.M))
    further = stage.kernel.at_new_points(sample(data, len(scene.X), rng), Z)
    F = np.vstack([stage.wide.features, further])
    starts = [make_start(name, stage.wide, k, scene.seed) for name in DEFAULT_STARTS]
    found = optimize(F, AllPairs(pdist(F), len(F)), starts, Plan(Bilipschitz), scene.seed)
    return stage.wide.features @ found.W, stage.wide_unseen @ found.W


GAP = {"gap": Gap("gap", 500, 8, seed=132, effort=40.0)}
