"""Real data, where no geometry is known: whether two halves of the data agree on points that neither has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch._utils.typing import FloatArray, IntArray
from heatsketch.analysis.power import tuned_kernel
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.diffusion import coefficients
from heatsketch_paper.experiment import Experiment, Row

__all__ = ["HELD_OUT", "REAL", "unequal_clusters"]

_BANDWIDTHS = 6
_POWERS = 2.0 ** np.arange(9)
_TAIL = 0.01


def unequal_clusters(n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Three Gaussian clusters in the plane whose scales are 1 : 10 : 30."""
    label = rng.integers(0, 3, n)
    spread, centre = np.array([0.1, 1.0, 3.0])[label], np.array([(0, 0), (6, 0), (0, 20)])[label]
    return centre + spread[:, None] * rng.normal(size=(n, 2)), label


def _table(load: Callable[..., tuple[FloatArray, IntArray]]) -> Callable[..., tuple[FloatArray, IntArray]]:
    def points(n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        X, label = load(return_X_y=True)
        rows = rng.permutation(len(X))[:n]
        return StandardScaler().fit_transform(X)[rows] if load is not load_digits else X[rows], label[rows]

    return points


REAL: dict[str, Callable[..., tuple[FloatArray, IntArray]]] = {
    "digits": _table(load_digits),
    "wine": _table(load_wine),
    "breast cancer": _table(load_breast_cancer),
    "iris": _table(load_iris),
    "unequal clusters": unequal_clusters,
}


@dataclass(frozen=True)
class HeldOut(Experiment):
    """Two thirds of a data set make two kernels; the last third is placed by both, and its distances compared.

    ``held_out`` is the log of the 99% over the 1% quantile of the ratios of the two distances; ``labels`` the share of
    points whose nearest neighbour, by diffusion distance, has the same label.
    """

    data: str = "digits"

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, labels = REAL[self.data](self.n_samples, self.points_seed(index))
        parts = np.array_split(np.arange(len(X)), 3)
        A, B, C = (X[part] for part in parts)
        seen = labels[parts[2]]
        rows: list[Row] = []
        widths = [_bandwidths(part) for part in (A, B)]
        for number in range(_BANDWIDTHS):
            kernels = [hs.heat_kernel(P, bandwidth=w[number]) for P, w in zip((A, B), widths, strict=True)]
            rows += [
                {"rule": "grid", "bandwidth": number, "power": power} | _agreement(kernels, power, C, seen)
                for power in _POWERS
            ]
        kernels = [hs.heat_kernel(P, bandwidth=w[0]) for P, w in zip((A, B), widths, strict=True)]
        rows.append({"rule": "neighbor, power 8", "bandwidth": 0, "power": 8} | _agreement(kernels, 8.0, C, seen))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that one step is as far as is good; it is in the table
            tuned = [tuned_kernel(P, KernelOptions(), "auto", P.dtype) for P in (A, B)]
        powers = [chosen.power for _, chosen in tuned]
        row = _agreement([kernel for kernel, _ in tuned], powers, C, seen)
        rows.append({"rule": "auto", "bandwidth": np.nan, "power": powers[0]} | row)
        return [{"data": self.data} | row for row in rows]


def _bandwidths(X: FloatArray) -> list[float]:
    narrow, wide = (float(hs.estimate_bandwidth(X, rule).epsilon) for rule in ("neighbor", "median"))
    return np.geomspace(narrow, wide, _BANDWIDTHS).tolist()


def _agreement(
    kernels: list[hs.HeatKernel], power: float | list[float], C: FloatArray, labels: IntArray
) -> dict[str, float]:
    powers = power if isinstance(power, list) else [power, power]
    first, second = (_distances(kernel, t, C) for kernel, t in zip(kernels, powers, strict=True))
    ratios = np.log(np.maximum(first, 1e-300) / np.maximum(second, 1e-300))
    nearest = [(squareform(d) + np.diag(np.full(len(C), np.inf))).argmin(axis=1) for d in (first, second)]
    return {
        "held_out": float(np.subtract(*np.quantile(ratios, [1.0 - _TAIL, _TAIL]))),
        "labels": float(np.mean([np.mean(labels[near] == labels) for near in nearest])),
    }


def _distances(kernel: hs.HeatKernel, power: float, C: FloatArray) -> FloatArray:
    """Diffusion distances between new points: of their rows ``a(x) S^(t-1)``, in units of the largest."""
    columns = kernel.asblock(kernel.rows_at_new_points(C).T)
    rows = coefficients(kernel, columns, power, trivial=not kernel.trivial_is_constant).T
    d = pdist(rows / np.abs(rows).max())
    return d / d.max()


HELD_OUT = {name: HeldOut(f"held_out_{name.replace(' ', '_')}", 600, 10, 152, 15.0, data=name) for name in REAL}
