"""Section 4.5: the cost of each step against N, k and p, beside the orders that the paper derives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.diffusion import diffuse
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.linalg.sketch import GaussianSketch

from .harness.experiment import Experiment, Row
from .methods import formed_kernel

__all__ = ["ORDERS", "Cost"]

# The exponents of section 4.5: step, what grows -> order.
ORDERS = {
    ("symmetric", "N"): 2,
    ("bistochastic", "N"): 2,
    ("sketch", "N"): 2,
    ("sketch", "k"): 1,
    ("sketch", "p"): 1,
    ("eigenvectors, classical", "N"): 3,
    ("eigenvectors, randomised", "N"): 2,
}


@dataclass(frozen=True)
class Cost(Experiment):
    """Seconds of each step on one core, for growing N, k and p; one trial is one repetition of all of them.

    ``step`` is the normalisation with its affinity, the products ``A^p G``, or the eigenvectors; ``against`` names
    what grows. k and p are empty where a step has none.
    """

    alone: ClassVar[bool] = True

    bandwidth: float = 0.3
    k: int = 8
    power: int = 8
    halvings: int = 3
    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    powers: tuple[int, ...] = (4, 8, 16, 32, 64)

    def trial(self, index: int) -> list[Row]:
        """Rows of one repetition."""
        X = datasets.stretched_torus(self.n_samples, random_state=self.points_seed(index))
        G = GaussianSketch(self.sketch_seed(index)).matrix(len(X), max(self.widths))
        rows: list[Row] = []
        for halving in range(self.halvings, -1, -1):
            rows += self._growing_sample(X[: self.n_samples >> halving], G)
        kernel = formed_kernel(X[: self.n_samples >> 1], self.bandwidth, "symmetric")
        for k in self.widths:
            rows.append(self._sketch(kernel, G[:, :k], self.power) | {"against": "k"})
        for p in self.powers:
            rows.append(self._sketch(kernel, G[:, : self.k], p) | {"against": "p"})
        return rows

    def _growing_sample(self, X: FloatArray, G: FloatArray) -> list[Row]:
        rows: list[Row] = []
        for normalization in ("bistochastic", "symmetric"):
            seconds, kernel = _timed(partial(formed_kernel, X, self.bandwidth, normalization))
            rows.append({"step": normalization, "N": len(X), "seconds": seconds})
        rows.append(self._sketch(kernel, G[:, : self.k], self.power))
        for step, solver in (("eigenvectors, classical", "dense"), ("eigenvectors, randomised", "randomized")):
            # Four digits, more than an embedding shows: the iterative solver stops there.
            seconds, _ = _timed(partial(eigenpairs, kernel, self.k, solver=solver, tol=1e-4))
            rows.append({"step": step, "N": len(X), "k": self.k, "seconds": seconds})
        return [row | {"against": "N"} for row in rows]

    def _sketch(self, kernel: HeatKernel, G: FloatArray, p: int) -> Row:
        n, k = kernel.shape[0], G.shape[1]
        # The paper's steps: polynomials would need about sqrt(p) products.
        seconds, _ = _timed(partial(diffuse, kernel, np.ascontiguousarray(G[:n]), [p], method="steps"))
        return {"step": "sketch", "N": n, "k": k, "p": p, "seconds": seconds}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = work()
    return perf_counter() - start, result
