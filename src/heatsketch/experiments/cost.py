"""Section 4.5: the cost of each step against N, k and p, beside the orders that the paper derives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from .. import datasets
from ..diffusion import diffuse
from ..heat import HeatKernel, heat_kernel
from ..sketch import GaussianSketch
from ..spectrum import eigenpairs
from .experiment import Experiment, Row

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
    what grows. ``products`` counts the columns that were multiplied by the kernel or affinity; k, p and products are
    empty where a step has none.
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
        rows: list[Row] = []
        for halving in range(self.halvings, -1, -1):
            rows += self._growing_sample(X[: self.n_samples >> halving], index)
        kernel = self._kernel(X[: self.n_samples >> 1], "symmetric")
        for k in self.widths:
            rows.append(self._sketch(kernel, k, self.power, index) | {"against": "k"})
        for p in self.powers:
            rows.append(self._sketch(kernel, self.k, p, index) | {"against": "p"})
        return rows

    def _growing_sample(self, X: Any, index: int) -> list[Row]:
        rows: list[Row] = []
        n = len(X)
        for normalization in ("symmetric", "bistochastic"):
            seconds, kernel = _timed(partial(self._kernel, X, normalization))
            assert kernel.scaling is not None
            rows.append({"step": normalization, "N": n, "products": kernel.scaling.n_iter, "seconds": seconds})
        rows.append(self._sketch(kernel, self.k, self.power, index))
        for step, solver in (("eigenvectors, classical", "dense"), ("eigenvectors, randomised", "randomized")):
            seconds, _ = _timed(partial(eigenpairs, kernel, self.k, solver=solver, tol=1e-4))
            rows.append({"step": step, "N": n, "k": self.k, "seconds": seconds})
        return [row | {"against": "N"} for row in rows]

    def _kernel(self, X: Any, normalization: str) -> HeatKernel:
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization=normalization, n_neighbors=None)
        kernel @ np.zeros(len(X))  # the matrix is formed on first use
        return kernel

    def _sketch(self, kernel: HeatKernel, k: int, p: int, index: int) -> Row:
        G = GaussianSketch(self.sketch_seed(index)).matrix(kernel.shape[0], k)
        # The paper's steps: polynomials would need about sqrt(p) products.
        seconds, _ = _timed(partial(diffuse, kernel, G, [p], method="steps"))
        return {"step": "sketch", "N": kernel.shape[0], "k": k, "p": p, "products": k * p, "seconds": seconds}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = work()
    return perf_counter() - start, result
