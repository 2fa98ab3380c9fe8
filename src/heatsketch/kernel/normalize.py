r"""Normalisations: from an affinity ``K`` to the heat kernel, by scaling rows and columns.

Each is ``S = diag(s) K diag(s)``, symmetric, with a known trivial eigenvector ``S u = u``:

============================  ==========================================================================
``"symmetric"``               Algorithm 1: q = K 1, K~ = K / (q q^T)^alpha, v = K~ 1, s = q^-alpha v^-1/2
``"bistochastic"``            Algorithm 2: s such that the rows of S sum to 1
``"stochastic"``              the Markov matrix diag(1/v) K~, similar to "symmetric": same S, but functions
                              are read off as right eigenvectors, i.e. rows are divided by u
``"bistochastic-weighted"``   bistochastic with respect to the weights w = q^-alpha [1]_: s_i (K (s w))_i = 1,
                              S = diag(s sqrt(w)) K diag(s sqrt(w)), rows divided by u
============================  ==========================================================================

Only products ``K @ v`` are needed, so every operator can be normalised. Bistochastic scaling withstands heteroskedastic
noise [2]_; it is found by the damped symmetric iteration of [3]_ with Anderson acceleration [4]_.

References
----------
.. [1] Marshall, Coifman. "Manifold learning with bi-stochastic kernels". IMA J. Applied Mathematics, 2019.
.. [2] Landa, Coifman, Kluger. "Doubly stochastic normalization of the Gaussian kernel is robust to
   heteroskedastic noise". SIAM J. Mathematics of Data Science, 2021.
.. [3] Knight, Ruiz, Ucar. "A symmetry preserving algorithm for matrix scaling". SIMAX, 2014.
.. [4] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.array import array_namespace, astype, from_order
from .._utils.progress import task
from .._utils.typing import FloatArray, IntArray
from ..linalg.anderson import Anderson
from ..linalg.operators import Operator

__all__ = ["NORMALIZATIONS", "Scaling", "ScalingOptions", "normalize", "sinkhorn"]

# Rounding in a product limits how closely row sums can be known: no smaller tolerance is asked for than this
# many units in the last place of the kernel's dtype.
_TOLERANCE_ULPS = 64
# Where no scaling exists the iteration runs off to infinity: beyond this logarithm it is given up.
_LARGEST_LOG = 500.0
# What a factor is multiplied by, at most, on its way through a product.
_ROOM = 1e6


@dataclass(frozen=True)
class LeftFactor:
    """The factor of a point's kernel row k(x, .) on its way to the embedding, row weight included.

    It is ``constant * (sum_j k_j)^-degree_exponent * (sum_j k_j reference_j)^-reference_exponent``.
    """

    constant: float
    degree_exponent: float
    reference_exponent: float

    def __call__(self, degrees: FloatArray, sums: FloatArray, log_scale: FloatArray) -> FloatArray:
        """The factors of rows, shape (m,), from their sums; see `Scaling.extend`."""
        homogeneity = 1.0 - self.degree_exponent - self.reference_exponent
        factor: FloatArray = self.constant * np.exp(homogeneity * log_scale)
        left: FloatArray = factor * degrees**-self.degree_exponent * sums**-self.reference_exponent
        return left


@dataclass(frozen=True)
class Scaling:
    """What a normalisation found.

    Attributes
    ----------
    scale : array of shape (N,)
        ``s``: the symmetric heat kernel is ``S = diag(s) K diag(s)``.
    trivial : array of shape (N,)
        Unit vector u with S u = u.
    row_weight : array of shape (N,), or None
        Rows of embeddings are multiplied by it: 1/u where functions are to be read off as right eigenvectors of
        a Markov matrix, None (that is, 1) otherwise.
    n_iter : int
        Number of products ``K @ v`` spent.
    residual : float
        Measured ``max |row sum - 1|`` of the Markov matrix, for the iterative normalisations; 0 otherwise.
    converged : bool
    """

    scale: FloatArray
    trivial: FloatArray
    row_weight: FloatArray | None
    n_iter: int
    residual: float
    converged: bool
    # `left` holds the `LeftFactor` of the training points, so that new points which are training points land on them
    # exactly; the others make it for new ones.
    left: FloatArray
    reference: FloatArray
    reference_exponent: float
    degree_exponent: float
    constant: float

    def in_place_of(self, order: IntArray) -> Scaling:
        """The scaling of the points themselves, from that of the points in an order."""
        arrays = ("scale", "trivial", "row_weight", "left", "reference")
        given: dict[str, Any] = {name: getattr(self, name) for name in arrays}
        given |= {name: from_order(values, order) for name, values in given.items() if values is not None}
        return replace(self, **given)

    def extend(self, degrees: FloatArray, sums: FloatArray, log_scale: FloatArray) -> FloatArray:
        """Left factor of the kernel rows of new points, row weight included, shape (m,).

        Parameters
        ----------
        degrees, sums : ndarrays of shape (m,)
            Of the rows k(x, .): ``sum_j k_j`` and ``sum_j k_j reference_j``.
        log_scale : ndarray of shape (m,)
            The kernel is ``exp(log_scale)`` times the rows that were summed.
        """
        return self.left_factor(degrees, sums, log_scale)

    @property
    def left_factor(self) -> LeftFactor:
        """The factor of new points' rows, without anything that is as large as the data."""
        return LeftFactor(self.constant, self.degree_exponent, self.reference_exponent)


@dataclass(frozen=True)
class ScalingOptions:
    """What a normalisation may be told: the density exponent, the tolerance and the most products to spend."""

    alpha: float = 1.0
    tol: float = 1e-8
    max_iter: int = 1000


def symmetric(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """Algorithm 1 of the paper."""
    alpha = options.alpha
    q = degrees**-alpha
    v = q * astype(K @ q, np.float64)  # row sums of K~
    xp = array_namespace(v)
    s = q / xp.sqrt(v)
    return Scaling(
        scale=s,
        trivial=xp.sqrt(v / float(xp.sum(v))),
        row_weight=None,
        n_iter=2,
        residual=0.0,
        converged=True,
        left=s,
        reference=q,
        reference_exponent=0.5,
        degree_exponent=alpha / 2,
        constant=1.0,
    )


def stochastic(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """The Markov matrix that is similar to Algorithm 1: the same S, rows divided by u."""
    same = symmetric(K, degrees, options)
    u = same.trivial
    constant = float(array_namespace(u).sum(same.reference)) / float(
        u @ same.scale
    )  # sqrt(sum v), since u s = q / sqrt(sum v)
    return replace(
        same,
        row_weight=1.0 / u,
        left=same.scale / u,
        reference_exponent=1.0,
        degree_exponent=0.0,
        constant=constant,
    )


def bistochastic(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """Algorithm 2 of the paper."""
    ones = K.ones()
    found = _balanced(K, degrees, ones, options)
    return replace(found, trivial=len(degrees) ** -0.5 * ones)


def bistochastic_weighted(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """Bistochastic with respect to the weights q^-alpha (Marshall and Coifman)."""
    w = degrees**-options.alpha
    found = _balanced(K, degrees, w, options)
    xp = array_namespace(w)
    constant = float(np.sqrt(float(xp.sum(w))))
    u = xp.sqrt(w) / constant
    return replace(found, trivial=u, row_weight=1.0 / u, left=constant * found.left, constant=constant)


def _balanced(K: Operator, degrees: FloatArray, w: FloatArray, options: ScalingOptions) -> Scaling:
    """``s (K (s w)) = 1``; the trivial vector and the row weight are left to the caller."""
    tol = max(options.tol, _TOLERANCE_ULPS * float(np.finfo(K.dtype).eps))
    s, row_sums, n_iter = sinkhorn(K, w, start=(w * degrees) ** -0.5, tol=tol, max_iter=options.max_iter)
    xp = array_namespace(s)
    residual = float(xp.max(xp.abs(row_sums - 1.0)))
    _require_range(K.dtype, row_sums, s * xp.sqrt(w), s / row_sums)
    if residual > tol:
        warnings.warn(
            f"the bistochastic scaling reached row sums within {residual:.1e} of 1 after {n_iter + 1} products, not "
            f"within tol={tol:.1e}. Raise max_iter or tol; if the residual stays large, the affinity has no such "
            "scaling (without its diagonal it may have none, as when one point outweighs all others): use "
            "diagonal='auto' or normalization='symmetric'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Scaling(
        scale=s * xp.sqrt(w),
        trivial=xp.sqrt(w),
        row_weight=None,
        n_iter=n_iter + 1,  # with the product that gave the degrees
        residual=residual,
        converged=residual <= tol,
        left=s / row_sums,
        reference=s * w,
        reference_exponent=1.0,
        degree_exponent=0.0,
        constant=1.0,
    )


def _require_range(dtype: np.dtype[Any], *factors: Any) -> None:
    """Refuse a scaling with factors that are no numbers of the kernel's dtype, or too large to multiply by."""
    largest = [_largest(factor) for factor in factors]
    if not all(size <= float(np.finfo(dtype).max) / _ROOM for size in largest):  # nor is NaN
        raise ValueError(
            f"the affinity cannot be scaled within the range of {dtype}: its entries, or the sums of its rows, are "
            "too far apart in size. Use float64, a larger bandwidth, or leave nearly isolated samples out."
        )


def sinkhorn(
    K: Operator, weights: FloatArray, *, start: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Symmetric Sinkhorn scaling: s > 0 with ``s * (K @ (s * weights)) = 1``.

    The paper's Algorithm 2 iterates ``d <- K(1/d)``, which settles into a two-cycle and takes up to tens of
    thousands of steps. The damped iteration ``d <- sqrt(d K(1/d))`` of Knight, Ruiz and Ucar has the same limit and
    contracts by (1 - lambda)/2 along an eigenvector of eigenvalue lambda: by 1/2 or better for every positive
    semidefinite kernel. Anderson acceleration on log s halves the number of steps again.

    Parameters
    ----------
    K : Operator of shape (N, N), symmetric and non-negative
    weights, start : ndarray of shape (N,), positive
    tol : float
        The largest ``|row sum - 1|`` that counts as converged.
    max_iter : int

    Returns
    -------
    s : ndarray of shape (N,)
        The iterate with the smallest residual.
    row_sums : ndarray of shape (N,)
        ``s * (K @ (s * weights))``, measured for the `s` returned.
    n_iter : int
        Products with K.
    """
    with task("balancing the kernel") as advance:
        return _sinkhorn(K, weights, array_namespace(start).log(start), tol=tol, max_iter=max_iter, advance=advance)


def _sinkhorn(
    K: Operator, weights: FloatArray, x: FloatArray, *, tol: float, max_iter: int, advance: Callable[[int, int], None]
) -> tuple[FloatArray, FloatArray, int]:
    xp = array_namespace(x)
    best, best_sums, best_residual = x, np.inf * K.ones(), np.inf
    latest = Anderson()
    extrapolated, last_residual = False, np.inf
    n_iter = 0
    size = _largest(x)
    while n_iter < max_iter and size < _LARGEST_LOG:
        n_iter += 1
        advance(n_iter, 0)
        s = xp.exp(x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            row_sums = s * astype(K @ (s * weights), np.float64)
        residual = _residual(row_sums)
        usable = residual < np.inf  # else the numbers' range was left
        if residual < best_residual:
            best, best_sums, best_residual = x, row_sums, residual
        if residual <= tol:
            break
        if extrapolated and not residual <= 2.0 * last_residual:
            # The extrapolation went astray: take the plain step instead, and forget what misled it.
            x, extrapolated = latest.plain(), False
            size = _largest(x)
            continue
        if not usable:
            break
        x, extrapolated = latest.extrapolate(x, -0.5 * xp.log(row_sums))
        size, last_residual = _largest(x), residual
        if extrapolated and size >= _LARGEST_LOG:
            x, extrapolated = latest.plain(), False
            size = _largest(x)
    return xp.exp(best), best_sums, n_iter


def _residual(row_sums: Any) -> float:
    """How far row sums are from 1; infinity where one is not a positive number."""
    xp = array_namespace(row_sums)
    return float(xp.max(xp.where(row_sums > 0, xp.abs(row_sums - 1.0), np.inf)))


def _largest(x: Any) -> float:
    xp = array_namespace(x)
    return float(xp.max(xp.abs(x)))


# Normalisations by name; one that is added here can be used in every estimator.
NORMALIZATIONS: dict[str, Callable[[Operator, FloatArray, ScalingOptions], Scaling]] = {
    "symmetric": symmetric,
    "bistochastic": bistochastic,
    "stochastic": stochastic,
    "bistochastic-weighted": bistochastic_weighted,
}


def normalize(
    K: Operator,
    normalization: str = "bistochastic",
    *,
    alpha: float = 1.0,
    tol: float = 1e-8,
    max_iter: int = 1000,
    degrees: FloatArray | None = None,
) -> Scaling:
    """Scale an affinity to a heat kernel.

    Parameters
    ----------
    K : Operator of shape (N, N)
        Symmetric and non-negative, with no empty row.
    normalization : {"symmetric", "bistochastic", "stochastic", "bistochastic-weighted"}
    alpha : float
        Density exponent: of "symmetric" and "stochastic" as in the table above (0 leaves the sampling density
        in, 1 takes it out), and of the weights of "bistochastic-weighted". Plain "bistochastic" has none.
    tol : float
        Largest deviation of a row sum from 1 that counts as converged; not below 64 units in the last place of
        the kernel's dtype (1.4e-14 for float64, 7.6e-6 for float32).
    max_iter : int
        Most products spent on the iteration.
    degrees : ndarray of shape (N,), optional
        ``K @ 1`` where it is known already.

    Returns
    -------
    scaling : Scaling

    Warns
    -----
    ConvergenceWarning
        If row sums are not within `tol` of 1 after `max_iter` products.
    """
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"normalization={normalization!r} is not known; use one of {tuple(NORMALIZATIONS)}.")
    if degrees is None:
        degrees = astype(K @ K.ones(), np.float64)
    xp = array_namespace(degrees)
    if not xp.all(degrees > 0):
        empty = xp.nonzero(~(degrees > 0))[0]
        count, first = len(empty), int(empty[0])
        raise ValueError(
            f"{count} rows of the affinity are zero (the first is row {first}), so they cannot be scaled; "
            "remove those samples, use float64 or a larger bandwidth, or leave diagonal='auto' so that they keep "
            "themselves."
        )
    options = ScalingOptions(alpha=alpha, tol=tol, max_iter=max_iter)
    if K.order is None:
        found = NORMALIZATIONS[normalization](K, degrees, options)
    else:
        found = NORMALIZATIONS[normalization](K.reordered(), degrees[K.order], options).in_place_of(K.order)
    _require_range(K.dtype, found.scale, found.left)
    return found
