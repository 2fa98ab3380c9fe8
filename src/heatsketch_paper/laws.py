"""The paper's theorems as experiments: expansion, unbiasedness, the chi-square law, the worst error, robustness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heatsketch import datasets
from heatsketch._utils.typing import FloatArray
from heatsketch.analysis.distances import diffusion_distances
from heatsketch.analysis.processes import kernel_rows, secant_products
from heatsketch.kernel.build import heat_kernel
from heatsketch.kernel.operator import HeatKernel
from heatsketch.linalg.diffusion import diffuse
from heatsketch.linalg.eigen import eigenpairs
from heatsketch.linalg.metrics import squared_distances
from heatsketch.linalg.sketch import GaussianSketch, make_sketch

from .harness.experiment import Experiment, Row, rows_of
from .methods import sample

__all__ = ["DistanceLaw", "KarhunenLoeve", "Robustness", "WorstError", "covering_radii", "entropy_integral"]


@dataclass(frozen=True)
class KarhunenLoeve(Experiment):
    """Theorem 3.1 for the process ``f = A g``: it is the sum of ``xi_i lambda_i v_i`` with independent normals xi_i.

    The process comes from a product with the kernel, the sum from its eigenvectors: two ways that share no code.
    Rows have a ``quantity``: the ``error`` ``|f - f_m|^2`` of the sum of the first m ``terms`` (the constant mode
    not counted), its ``expected`` value ``sum_(i > m) lambda_i^2``, the ``coefficient`` xi_m, and, in the first trial,
    the ``path`` of f_m along the circle (``terms`` = -1 is f itself) ``at`` each angle.
    """

    bandwidth: float = 0.25
    terms: tuple[int, ...] = (0, 2, 4, 6, 8, 10, 12, 14, 16)
    drawn: tuple[int, ...] = (2, 6, 12)
    coefficients: int = 8

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X, angle = datasets.circle(self.n_samples, self.points_seed(index), return_parameters=True)
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="bistochastic", n_neighbors=None)
        g = GaussianSketch(self.sketch_seed(index)).matrix(len(X), 1)
        f = (kernel @ g)[:, 0]
        pairs = eigenpairs(kernel, len(X) - 1, solver="dense")
        assert kernel.trivial is not None
        constant = kernel.trivial * (kernel.trivial @ g[:, 0])
        # The coefficients are read off the process, not off g: dividing by lambda must give back normals.
        projected = pairs.vectors.T @ f  # xi_i lambda_i
        variances = np.square(pairs.values)
        tail = variances.sum() - np.concatenate([[0.0], np.cumsum(variances)])  # what m terms leave out
        partial = {m: constant + pairs.vectors[:, :m] @ projected[:m] for m in {*self.terms, *self.drawn}}
        rows = []
        for m in self.terms:
            rows.append(_quantity("error", m, float(np.square(f - partial[m]).sum())))
            rows.append(_quantity("expected", m, float(tail[m])))
        xi = projected[: self.coefficients] / pairs.values[: self.coefficients]
        rows += [_quantity("coefficient", i + 1, float(x)) for i, x in enumerate(xi)]
        if index == 0:
            for m, path in {-1: f, **{m: partial[m] for m in self.drawn}}.items():
                rows += rows_of({"at": angle, "value": path}, quantity="path", terms=m)
        return rows


def _quantity(name: str, terms: int, value: float) -> Row:
    return {"quantity": name, "terms": terms, "at": np.nan, "value": value}


@dataclass(frozen=True)
class DistanceLaw(Experiment):
    """Propositions 3.2 and 4.1, and the chi-square law: the same points in every trial, another random matrix.

    For each sketch and each of several pairs, from close to far, ``ratio`` is ``|y_i - y_j|^2 / d_ij^2``; ``secant``
    is ``<y_i - y_j, y_i - y_l>`` for a third point l, less its expectation, as a fraction of ``d_ij d_il``;
    ``variance`` is what the sketch's law predicts for that of ratio: 2/k for Gaussians, ``(2/k) (1 - sum v^4 / |v|^4)``
    for signs with v the difference of the two kernel rows.
    """

    data: str = "stretched_torus"
    bandwidth: float = 0.3
    power: int = 10
    k: int = 8
    n_pairs: int = 9
    sketches: tuple[str, ...] = ("gaussian", "rademacher", "rademacher-hash")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X = sample(self.data, self.n_samples, self.points_seed(0))
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="bistochastic", n_neighbors=None)
        triples = self._triples(kernel)
        i, j, third = triples.T
        exact = {
            name: secant_products(kernel, self.power, np.column_stack(columns))
            for name, columns in {"ij": (i, j, j), "il": (i, third, third), "jil": (i, j, third)}.items()
        }
        v = kernel_rows(kernel, self.power, i) - kernel_rows(kernel, self.power, j)
        concentration = np.sum(v**4, axis=1) / np.square(exact["ij"])  # 1 if one point makes the whole distance
        rows: list[Row] = []
        for sketch in self.sketches:
            G = make_sketch(sketch, self.sketch_seed(index), len(X)).matrix(len(X), self.k)
            Y = diffuse(kernel, G, [self.power], trivial=False)[0] / np.sqrt(self.k)
            first, second = Y[i] - Y[j], Y[i] - Y[third]
            ratio = np.square(first).sum(axis=1) / exact["ij"]
            secant = ((first * second).sum(axis=1) - exact["jil"]) / np.sqrt(exact["ij"] * exact["il"])
            variance = 2.0 / self.k * (1.0 - (0.0 if sketch == "gaussian" else concentration)) * np.ones(self.n_pairs)
            columns = {"pair": range(self.n_pairs), "ratio": ratio, "secant": secant, "variance": variance}
            rows += rows_of(columns, method=sketch, k=self.k)
        return rows

    def _triples(self, kernel: HeatKernel) -> Any:
        """Pairs at evenly spaced ranks of the distance, and a random third point for each."""
        rng = self.other_seed(0)
        n = kernel.shape[0]
        i, j = np.triu_indices(n, 1)
        order = np.argsort(diffusion_distances(kernel, self.power), kind="stable")
        ranks = np.linspace(0, len(order) - 1, self.n_pairs + 2).astype(int)[1:-1]
        chosen = order[ranks]
        third = np.array([rng.choice(np.setdiff1d(np.arange(n), [i[c], j[c]])) for c in chosen])
        return np.column_stack([i[chosen], j[chosen], third])


@dataclass(frozen=True)
class WorstError(Experiment):
    """Theorem 3.3: the expected worst error of squared distances against ``diam / sqrt(k)`` times the entropy integral.

    For each k, ``worst`` is ``max_ij | |y_i - y_j|^2 - d_ij^2 |``, averaged over up to eight disjoint blocks of k
    columns. ``diameter`` and the bounds of the entropy integral, ``entropy_low <= integral of log(N(eps) + 1) <=
    entropy_high``, belong to the trial's points.
    """

    data: str = "circle"
    bandwidth: float = 0.25
    power: int = 8
    n_components: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    width: int = 1024

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        X = sample(self.data, self.n_samples, self.points_seed(index))
        kernel = heat_kernel(X, bandwidth=self.bandwidth, normalization="bistochastic", n_neighbors=None)
        d = diffusion_distances(kernel, self.power)
        G = GaussianSketch(self.sketch_seed(index)).matrix(len(X), self.width)
        Y = diffuse(kernel, G, [self.power], trivial=False)[0]
        upper = np.triu_indices(len(X), 1)
        low, high = entropy_integral(d, len(X))
        shared = {"diameter": float(d.max()), "entropy_low": low, "entropy_high": high}
        rows = []
        for k in self.n_components:
            blocks = [Y[:, start : start + k] for start in range(0, min(8 * k, self.width - k + 1), k)]
            errors = [np.abs(squared_distances(block)[upper] / k - d**2).max() for block in blocks]
            rows.append({"k": k, "worst": float(np.mean(errors))} | shared)
        return rows


def covering_radii(distances: FloatArray, n: int) -> FloatArray:
    """Radii of a farthest-point traversal: the first m points it visits cover all others within ``radii[m - 1]``.

    The m-th point lies at distance ``radii[m - 2]`` from those before it, so the traversal bounds covering numbers
    from both sides: ``N(radii[m - 1]) <= m``, and ``N(eps) >= m`` for ``2 eps < radii[m - 2]``, because no ball of
    radius eps holds two points that are further apart than 2 eps.

    Parameters
    ----------
    distances : ndarray of shape (n (n - 1) / 2,)
    n : int

    Returns
    -------
    radii : ndarray of shape (n,)
        Decreasing, the last one 0.
    """
    square = np.zeros((n, n))
    square[np.triu_indices(n, 1)] = distances
    square += square.T
    # The centre of the smallest ball around all points comes first.
    nearest = square[int(square.max(axis=1).argmin())]
    radii = [float(nearest.max())]
    for _ in range(n - 1):
        nearest = np.minimum(nearest, square[int(nearest.argmax())])
        radii.append(float(nearest.max()))
    return np.array(radii)


def entropy_integral(distances: FloatArray, n: int) -> tuple[float, float]:
    """Bounds of ``int_0^diam log(N(eps) + 1) d eps`` for a finite metric space.

    Parameters
    ----------
    distances : ndarray of shape (n (n - 1) / 2,)
        Condensed.
    n : int

    Returns
    -------
    low, high : float
    """
    radii, diameter = covering_radii(distances, n), float(distances.max())
    # N <= m on [radii[m - 1], radii[m - 2]), and N = 1 from radii[0] to the diameter.
    ends = np.concatenate([[max(diameter, radii[0])], radii])  # decreasing
    high = float((np.log(np.arange(1, n + 1) + 1.0) * (ends[:-1] - ends[1:])).sum())
    # N >= m on [0, radii[m - 2] / 2): at most that many radii there, and N >= 1 everywhere.
    halves = np.concatenate([[diameter], radii[:-1] / 2.0, [0.0]])
    low = float((np.log(np.arange(1, n + 1) + 1.0) * (halves[:-1] - halves[1:])).sum())
    return low, high


# Kernels whose resistance to noise is compared; the paper's two are the first.
NOISY_KERNELS: dict[str, dict[str, Any]] = {
    "symmetric": {"normalization": "symmetric"},
    "bistochastic": {"normalization": "bistochastic"},
    "symmetric, alpha = 0": {"normalization": "symmetric", "alpha": 0.0},
    "bistochastic, zero diagonal": {"normalization": "bistochastic", "diagonal": "zero"},
}


@dataclass(frozen=True)
class Robustness(Experiment):
    """The robustness proposition: one Gaussian matrix sketches the kernels of clean and of noisy points.

    A circle lies in a plane of R^d. ``sigma`` is the root mean square length of the noise vectors; "equal" noise has
    the same variance at each point, "heteroskedastic" one a standard deviation uniform on [0, sqrt(3) sigma].
    ``sketched`` is ``sum_i |y_i - z_i|^2``, ``exact`` its expectation ``|A - B|_F^2 = sum mu_i^2``, ``fourth`` is
    ``sum mu_i^4`` and ``norm`` is ``|A|_F^2``.
    """

    bandwidth: float = 0.25
    n_features: int = 200
    k: int = 16
    sigmas: tuple[float, ...] = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
    noises: tuple[str, ...] = ("equal", "heteroskedastic")

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rng = self.other_seed(index)
        X = np.zeros((self.n_samples, self.n_features))
        X[:, :2] = datasets.circle(self.n_samples, self.points_seed(index))
        G = GaussianSketch(self.sketch_seed(index)).matrix(len(X), self.k)
        direction = rng.normal(size=X.shape) / np.sqrt(self.n_features)
        spread = {"equal": np.ones(len(X)), "heteroskedastic": np.sqrt(3.0) * rng.uniform(size=len(X))}
        rows: list[Row] = []
        for name, options in NOISY_KERNELS.items():
            A = self._matrix(X, options)
            for noise in self.noises:
                for sigma in self.sigmas:
                    B = self._matrix(X + sigma * spread[noise][:, None] * direction, options)
                    labels = {"noise": noise, "kernel": name, "sigma": sigma, "k": self.k}
                    rows.append(labels | _compare(A, B, G))
        return rows

    def _matrix(self, X: FloatArray, options: dict[str, Any]) -> FloatArray:
        return heat_kernel(X, bandwidth=self.bandwidth, n_neighbors=None, **options).toarray()


def _compare(A: FloatArray, B: FloatArray, G: FloatArray) -> Row:
    difference = A - B
    squared = difference @ difference
    return {
        "sketched": float(np.square(difference @ G).sum()) / G.shape[1],
        "exact": float(np.trace(squared)),
        "fourth": float(np.square(squared).sum()),
        "norm": float(np.square(A).sum()),
    }
