"""From data and options to the heat kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ._typing import FloatArray
from .affinity import Affinity, GaussianAffinity, NeighborAffinity, PrecomputedAffinity
from .bandwidth import NEIGHBOR, SELF_TUNING_NEIGHBOR, bandwidth_by_rule, median_scale
from .choice import choose
from .chunks import chunks
from .devices import Device, matching
from .inputs import KernelOptions, check_distances, check_points
from .neighborhoods import Neighborhoods
from .normalize import Scaling, normalize
from .operators import DenseOperator, Operator, ScaledOperator, SparseOperator
from .progress import track
from .radius import RadiusAffinity

__all__ = ["HeatKernel", "as_heat_kernel", "build_affinity", "build_heat_kernel", "heat_kernel"]

# A kernel whose points all keep more than this share of their heat to themselves is the identity for every
# purpose; one whose row sums all come this close to N, in units of the dtype's precision, is constant.
_ALONE = 1e-6
_CONSTANT_ULPS = 1e5
# Rows whose sum is a smaller fraction of the largest cannot be scaled without leaving the range of numbers.
_SMALLEST_DEGREE = {np.dtype(np.float64): 1e-150, np.dtype(np.float32): 1e-18}


class HeatKernel(Operator):
    """The heat kernel A of a data set: an operator that also knows its trivial mode and its rows at new points.

    ``A = diag(w) S diag(1/w)`` with S symmetric; ``w = 1`` for the normalisations of the paper, and A is a Markov
    matrix where ``w = 1/u`` ("stochastic" and "bistochastic-weighted").

    Attributes
    ----------
    symmetric : Operator
        S.
    trivial : ndarray of shape (N,), or None
        Unit eigenvector u of S with eigenvalue 1; None where none is known.
    row_weight : ndarray of shape (N,), or None
        w, or None for 1. Diffusion distances are distances between the rows of ``diag(w) S^t``.
    definite : bool
        Whether S is known to be positive semidefinite.
    affinity, scaling, bandwidth_rule
        Where the kernel comes from; None for a kernel that was given as a matrix.
    """

    def __init__(
        self,
        symmetric: Operator | None = None,
        *,
        trivial: FloatArray | None = None,
        row_weight: FloatArray | None = None,
        definite: bool = False,
        affinity: Affinity | None = None,
        scaling: Scaling | None = None,
        bandwidth_rule: str | None = None,
    ) -> None:
        self.trivial, self.row_weight = trivial, row_weight
        self.definite, self.affinity, self.scaling, self.bandwidth_rule = definite, affinity, scaling, bandwidth_rule
        self._given = symmetric
        if affinity is not None:
            self.shape, self.dtype = (affinity.n_samples, affinity.n_samples), affinity.dtype
        elif symmetric is not None:
            self.shape, self.dtype = symmetric.shape, symmetric.dtype
        else:
            raise ValueError(
                "a heat kernel needs an operator, or an affinity and its scaling; use heat_kernel(X, ...)."
            )

    @classmethod
    def from_affinity(cls, affinity: Affinity, scaling: Scaling, bandwidth_rule: str | None = None) -> HeatKernel:
        """Compose the kernel ``diag(s) K diag(s)``."""
        return cls(
            trivial=scaling.trivial,
            row_weight=scaling.row_weight,
            definite=affinity.definite,
            affinity=affinity,
            scaling=scaling,
            bandwidth_rule=bandwidth_rule,
        )

    @cached_property
    def symmetric(self) -> Operator:
        """S; composed on first use, so that a kernel loaded from a file forms its matrix only if that is needed."""
        if self._given is not None:
            return self._given
        assert self.affinity is not None
        assert self.scaling is not None
        return ScaledOperator(self.affinity.operator, self.scaling.scale, self.scaling.scale)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "symmetric"}

    def __repr__(self) -> str:
        held = "" if self.affinity is None else f", {self.affinity.description}"
        return f"HeatKernel(shape={self.shape}, dtype={self.dtype}{held})"

    def asblock(self, V: ArrayLike) -> FloatArray:
        """`V` as the kernel's operator wants it."""
        return self.symmetric.asblock(V)

    @property
    def device(self) -> Device | None:
        """Where products are computed; None for NumPy on the CPU."""
        return getattr(self.affinity, "device", None)

    @property
    def bandwidth(self) -> float | FloatArray | None:
        """Epsilon, or each point's squared local scale; None where the affinity was given."""
        return self.affinity.epsilon if isinstance(self.affinity, GaussianAffinity) else None

    @property
    def trivial_is_constant(self) -> bool:
        """Whether the trivial mode takes the same value in every row, and so is absent from all distances."""
        if self.trivial is None:
            return False
        return self.row_weight is not None or bool(np.ptp(self.trivial) <= 1e-12 * np.abs(self.trivial).max())

    def weigh_rows(self, Y: Any) -> Any:
        """``diag(w) Y`` in the dtype of Y, (N, k), an array or a tensor."""
        return Y if self.row_weight is None else matching(self.row_weight[:, None], Y) * Y

    def matmat(self, V: FloatArray) -> FloatArray:
        """A V."""
        if self.row_weight is None:
            return self.symmetric.matmat(V)
        w = self.row_weight.astype(self.dtype)[:, None]
        return w * self.symmetric.matmat(V / w)

    def toarray(self) -> FloatArray:
        """A as an array of shape (N, N)."""
        A = self.symmetric.toarray()
        if self.row_weight is not None:
            w = self.row_weight.astype(self.dtype)
            A *= w[:, None]
            A /= w[None, :]
        return A

    def place(self, Z: Any) -> Any:
        """``diag(w) S Z`` for the training points, computed as `at_new_points` does, (N, k) -> (N, k)."""
        if self.affinity is None or self.scaling is None:
            return self.weigh_rows(self.symmetric.matmat(Z))
        scaling = self.scaling
        return ScaledOperator(self.affinity.operator, scaling.left, scaling.scale).matmat(Z)

    def at_new_points(self, X: Any, Z: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """``a(x) Z`` for new points: each point's own row of ``diag(w) S``, times coefficients.

        Parameters
        ----------
        X : ndarray or csr_array of shape (m, d), or (m, N) for precomputed input
        Z : ndarray of shape (N, k)
        out : ndarray of shape (m, k), optional
            Where to write the result.

        Returns
        -------
        Y : ndarray of shape (m, k)
        """
        self._require_data()
        assert self.affinity is not None
        m = X.shape[0]
        out = np.empty((m, Z.shape[1]), dtype=Z.dtype) if out is None else out
        if self.affinity.is_training_input(X):
            out[:] = self.place(Z)
            return out
        weighted = self._weighted(Z)
        batches = list(chunks(m, self.affinity.row_entries))
        for batch in track(batches, "placing new points", len(batches)):
            left, rows = self._scaled_rows(X[batch], batch.start)
            out[batch] = left[:, None] * (rows @ weighted)
        return out

    def rows_at_new_points(self, X: Any) -> FloatArray:
        """Rows of ``diag(w) S`` at new points, (m, N); those of `at_new_points` before the product."""
        self._require_data()
        assert self.affinity is not None
        if self.affinity.is_training_input(X):
            return np.asarray(self.place(np.eye(self.shape[0], dtype=self.dtype)))
        left, rows = self._scaled_rows(X, 0)
        dense = rows.toarray() if sparse.issparse(rows) else rows
        return self._weighted((left[:, None] * dense).T).T

    def _weighted(self, Z: FloatArray) -> FloatArray:
        assert self.scaling is not None
        return self.scaling.scale[:, None].astype(Z.dtype) * Z

    def _require_data(self) -> None:
        if self.affinity is None or self.scaling is None:
            raise ValueError("this kernel was given as a matrix and has no rows at new points; build it from data.")

    def _scaled_rows(self, X: Any, first: int) -> tuple[FloatArray, Any]:
        """Affinities of new points to the training points, (m, N), and the left factors of their kernel rows, (m,)."""
        assert self.affinity is not None
        assert self.scaling is not None
        rows, log_scale = self.affinity.rows(X)
        empty = np.flatnonzero(np.asarray(rows.sum(axis=1)).ravel() <= 0)
        if len(empty):
            raise ValueError(
                f"row {first + empty[0]} of X has no affinity to any training point, so it cannot be placed; leave "
                "such rows out (an isolated training vertex has its place in embedding_)."
            )
        return self.scaling.extend(rows, log_scale), rows


def as_heat_kernel(A: Any) -> HeatKernel:
    """Return a `HeatKernel` as it is, and wrap a symmetric matrix or operator as one.

    A matrix brings no knowledge of a trivial mode; products and distances take all of its spectrum in.
    """
    if isinstance(A, HeatKernel):
        return A
    if isinstance(A, Operator):
        return HeatKernel(A)
    if isinstance(A, BaseEstimator):
        raise ValueError(
            f"{type(A).__name__} was given as kernel; pass the kernel of the fitted estimator, its kernel_."
        )
    A = check_array(A, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="A", ensure_min_samples=2)
    if A.shape[0] != A.shape[1] or abs(A - A.T).max() > 1e-6 * abs(A).max():
        raise ValueError(
            f"A was given as a matrix of shape {A.shape}; it must be square and symmetric. Build a heat kernel from "
            "data with heat_kernel(X, ...)."
        )
    return HeatKernel(SparseOperator(A) if sparse.issparse(A) else DenseOperator(A))


def heat_kernel(
    X: Any,
    *,
    bandwidth: float | str = "auto",
    normalization: str = "bistochastic",
    alpha: float = 1.0,
    affinity: str = "gaussian",
    metric: str | Callable[..., float] = "euclidean",
    metric_params: dict[str, Any] | None = None,
    bandwidth_neighbor: int | None = None,
    n_neighbors: int | str | None = "auto",
    cutoff: float | None = None,
    diagonal: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> HeatKernel:
    """Heat kernel of a data set, as an operator.

    Parameters
    ----------
    X : array-like, sparse matrix, or networkx or igraph graph
        Points (n_samples, n_features); square distances or affinities if metric or affinity is "precomputed".
    bandwidth : float or {"auto", "median", "neighbor", "slope", "self-tuning"}
        Epsilon in ``exp(-|x - y|^2 / epsilon)``, or the rule that chooses it.
    normalization : {"bistochastic", "symmetric", "stochastic", "bistochastic-weighted"}
        See :mod:`heatsketch.normalize`.
    alpha : float
        Density exponent of the normalisations that have one.
    affinity : {"gaussian", "precomputed"}
    metric : str or callable
        A metric of :func:`sklearn.metrics.pairwise_distances`, or "precomputed": X holds distances.
    metric_params : dict, optional
        Further parameters of the metric.
    bandwidth_neighbor : int, optional
        The k of the rules "neighbor" (default: 10) and "self-tuning" (default: 7).
    n_neighbors : int, None or "auto"
        None uses every pair; an integer keeps the pairs within the larger of their two k-th neighbour radii;
        "auto" uses every pair while that is soon done (up to 10,000 points and somewhat beyond, by the cores and memory
        at hand) and 32 neighbours for more; ``affinity.description`` tells what was chosen.
    cutoff : float, optional
        Leave out pairs whose affinity is below this, such as 1e-6: the kernel is sparse, and exact to this tolerance.
    diagonal : {"auto", "keep", "zero"}
        "zero" sets the affinity of points with themselves to zero, which withstands heteroskedastic noise;
        "auto" keeps it, and completes self-loops that a precomputed affinity lacks.
    tol : float
        Largest deviation of row sums from 1 (bistochastic).
    max_iter : int
        Most products spent on the bistochastic scaling.

    Returns
    -------
    A : HeatKernel
        With ``A.shape``, ``A.dtype``, ``A @ V`` and ``A.toarray()``.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(300, random_state=0), bandwidth=0.25)
    >>> row_sums = A @ np.ones(300)
    >>> bool(np.abs(row_sums - 1).max() < 1e-8)
    True
    """
    options = KernelOptions(
        bandwidth=bandwidth,
        normalization=normalization,
        alpha=alpha,
        affinity=affinity,
        metric=metric,
        metric_params=metric_params,
        bandwidth_neighbor=bandwidth_neighbor,
        n_neighbors=n_neighbors,
        cutoff=cutoff,
        diagonal=diagonal,
        tol=tol,
        max_iter=max_iter,
    )
    return build_heat_kernel(check_points(X, options), options)


def build_heat_kernel(X: Any, options: KernelOptions, dtype: Any = None) -> HeatKernel:
    """`heat_kernel` for input that has been checked; computed in `dtype`, by default that of X."""
    kernel, rule = build_affinity(X, options, dtype)
    degrees = np.asarray(kernel.operator @ np.ones(X.shape[0]), dtype=np.float64)
    if isinstance(kernel, GaussianAffinity):
        _check_reach(kernel, degrees)
    if 0 < degrees.min() < _SMALLEST_DEGREE[kernel.dtype] * degrees.max():
        raise ValueError(
            f"the affinities of row {degrees.argmin()} add up to {degrees.min():.1e}, those of others to "
            f"{degrees.max():.1e}, more than scaling can bridge in {kernel.dtype}. Use float64, a larger bandwidth, or "
            "leave that sample out."
        )
    scaling = normalize(
        kernel.operator,
        options.normalization,
        alpha=options.alpha,
        tol=options.tol,
        max_iter=options.max_iter,
        degrees=degrees,
    )
    return HeatKernel.from_affinity(kernel, scaling, rule)


def build_affinity(X: Any, options: KernelOptions, dtype: Any = None) -> tuple[Affinity, str | None]:
    """The affinity of input that has been checked, and the rule by which its bandwidth was chosen, if it has one."""
    if options.affinity == "precomputed":
        return PrecomputedAffinity(X, diagonal=options.diagonal, dtype=dtype), None
    metric = options.measure
    if metric.precomputed:
        X = check_distances(X)
    choice = choose(X.shape, X.dtype if dtype is None else dtype, options, sparse.issparse(X))
    rule = options.bandwidth if isinstance(options.bandwidth, str) else "given"
    rule = "neighbor" if rule == "auto" else rule
    scale_neighbor = options.bandwidth_neighbor or SELF_TUNING_NEIGHBOR
    common = {
        "metric": metric,
        "scale_neighbor": scale_neighbor,
        "zero_diagonal": options.diagonal == "zero",
        "dtype": X.dtype if dtype is None else dtype,
    }
    epsilon: Any = options.bandwidth
    if choice.n_neighbors is None:
        if rule != "given":
            epsilon, _ = bandwidth_by_rule(X, rule, metric, options.bandwidth_neighbor)
        if options.cutoff is not None:
            return RadiusAffinity(X, epsilon, float(options.cutoff), **common), rule
        return GaussianAffinity(X, epsilon, tiled=choice.tiled, **common), rule
    at_scale = options.bandwidth_neighbor or NEIGHBOR
    needed = {"self-tuning": scale_neighbor, "neighbor": at_scale}.get(rule, 0)
    neighborhoods = Neighborhoods(X, choice.n_neighbors, metric, at_least=needed)
    if rule == "neighbor":
        epsilon = median_scale(neighborhoods.at_points(neighborhoods.scales(at_scale)))
        if epsilon == 0:
            raise ValueError(
                f"more than half of the points coincide with {at_scale} or more others, so the rule 'neighbor' gives "
                "no bandwidth; give a number, or leave repeated points out."
            )
    elif rule not in ("given", "self-tuning"):
        epsilon, _ = bandwidth_by_rule(X, rule, metric)
    return NeighborAffinity(X, epsilon, neighborhoods, **common), rule


def _check_reach(kernel: GaussianAffinity, degrees: FloatArray) -> None:
    """Refuse a bandwidth at which the kernel is the identity or constant; say which would do."""
    n = kernel.n_samples
    own = 0.0 if kernel.zero_diagonal else 1.0
    ulps = _CONSTANT_ULPS * float(np.finfo(kernel.dtype).eps) / n
    if (degrees - own).max() < _ALONE:
        trouble, verb = "so small that every point stands alone", "larger"
    elif kernel.n_neighbors is None and degrees.min() > (n - 1 + own) * (1.0 - max(ulps, 1e-12)):
        trouble, verb = "so large that all affinities are equal", "smaller"
    else:
        return
    remedy, _ = bandwidth_by_rule(kernel.X, "auto", kernel.metric)
    raise ValueError(
        f"bandwidth={np.median(np.asarray(kernel.epsilon)):.3g} is {trouble}; use a {verb} one (the rule "
        f"bandwidth='auto' gives {remedy:.3g} here)."
    )
