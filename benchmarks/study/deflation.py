"""Exact directions beside random ones: errors of squared distances at the same number of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist

import heatsketch as hs
from heatsketch.datasets import PAPER
from heatsketch_paper.experiment import Experiment, Row, sample

from ..scale.data import tree

__all__ = ["DEFLATION"]

_TREE = "tree in R^50"


@dataclass(frozen=True)
class Deflation(Experiment):
    """Root mean square relative error of squared distances, plain, with half of the columns exact, and with "auto"."""

    n_components: tuple[int, ...] = (4, 8, 16, 32, 64)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial: a sample of each data set and a sketch of each kind."""
        rows: list[Row] = []
        for data in (*PAPER, _TREE):
            options, power = {}, 8
            if data == _TREE:
                X = tree(1000, int(self.points_seed(index).integers(2**31))).astype(np.float64)
            else:
                setting = PAPER[data]
                X = sample(data, setting.n_samples, self.points_seed(index))
                options, power = {"bandwidth": setting.bandwidth}, setting.power
            kernel = hs.heat_kernel(X, n_neighbors=None, **options)
            exact = np.square(hs.diffusion_distances(kernel, power))
            for k in self.n_components:
                for name, n_exact in (("plain", 0), ("half", k // 2), ("auto", "auto")):
                    model = hs.GaussianProcessEmbedding(
                        k,
                        power=power,
                        bandwidth=kernel.bandwidth,
                        n_neighbors=None,
                        n_exact=n_exact,
                        random_state=self.sketch_seed(index),
                    ).fit(X)
                    error = float(np.sqrt(np.mean(np.square(np.square(pdist(model.embedding_)) / exact - 1.0))))
                    rows.append({"data": data, "k": k, "method": name, "n_exact": model.n_exact_, "error": error})
        return rows


DEFLATION = {"deflation": Deflation("deflation", 500, 20, seed=131, effort=12.0)}
