r"""Normalisations: from an affinity ``K`` to the heat kernel, by scaling rows and columns.

Each is ``S = diag(s) K diag(s)``, symmetric, with a known trivial eigenvector ``S u = u``:

============================  ==========================================================================
``"symmetric"``               Algorithm 1: q = K 1, K~ = K / (q q^T)^alpha, v = K~ 1, s = q^-alpha v^-1/2
``"bistochastic"``            Algorithm 2: s such that the rows of S sum to 1
``"stochastic"``              the Markov matrix diag(1/v) K~, similar to "symmetric": the same S, but embeddings
                              use right eigenvectors, so rows are divided by u
``"bistochastic-weighted"``   bistochastic with respect to the weights w = q^-alpha [1]_: s_i (K (s w))_i = 1,
                              S = diag(s sqrt(w)) K diag(s sqrt(w)), rows divided by u
============================  ==========================================================================

Points may have masses m: then ``K diag(m)`` takes the place of K in these formulas, ``S = diag(s sqrt(m)) K diag(s
sqrt(m))``, and rows are divided by sqrt(m). Integer masses give what repeated points give (`docs/theory/weights.md`).

Only products ``K @ v`` are needed, so every operator can be normalised. Bistochastic scaling is robust to
heteroskedastic noise [2]_; it is found by the damped symmetric iteration of [3]_ with Anderson acceleration [4]_.

References
----------
.. [1] Marshall, Coifman. "Manifold learning with bi-stochastic kernels". IMA J. Applied Mathematics, 2019.
.. [2] Landa, Coifman, Kluger. "Doubly stochastic normalization of the Gaussian kernel is robust to
   heteroskedastic noise". SIAM J. Mathematics of Data Science, 2021.
.. [3] Knight, Ruiz, Ucar. "A symmetry preserving algorithm for matrix scaling". SIMAX, 2014.
.. [4] Walker, Ni. "Anderson acceleration for fixed-point iterations". SIAM J. Numerical Analysis, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.array import array_namespace, astype, from_order, to_numpy
from .._utils.progress import task
from .._utils.typing import FloatArray
from .._utils.warn import warn
from ..linalg.anderson import Anderson
from ..linalg.operators import Operator, ScaledOperator

__all__ = ["NORMALIZATIONS", "LeftFactor", "Scaling", "ScalingOptions", "normalize", "sinkhorn"]

# Rounding in a product limits how exactly row sums are known: the tolerance is at least this many units in the last
# place of the kernel's dtype.
_TOLERANCE_ULPS = 64
# Tolerance, and most products, of the scaling of some points.
_ROUGHLY, _FEW_PRODUCTS = 1e-4, 20
# If no scaling exists, the iteration diverges: it stops beyond this logarithm.
_LARGEST_LOG = 500.0
# Factors are smaller than the largest number by this ratio, so that products do not overflow.
_ROOM = 1e6


@dataclass(frozen=True)
class LeftFactor:
    """The factor of a point's kernel row k(x, .) in the embedding, row weight included.

    It is ``constant * (sum_j k_j)^-degree_exponent * (sum_j k_j reference_j)^-reference_exponent``. Rows are given by
    these two sums, `degrees` and `sums`; the kernel is ``exp(log_scale)`` times the rows that were summed.
    """

    constant: float
    degree_exponent: float
    reference_exponent: float

    def __call__(self, degrees: FloatArray, sums: FloatArray, log_scale: FloatArray) -> FloatArray:
        """Factors of m rows, shape (m,)."""
        homogeneity = 1.0 - self.degree_exponent - self.reference_exponent
        factor: FloatArray = self.constant * np.exp(homogeneity * log_scale)
        left: FloatArray = factor * degrees**-self.degree_exponent * sums**-self.reference_exponent
        return left


@dataclass(frozen=True)
class Scaling:
    """The result of a normalisation.

    Attributes
    ----------
    scale : array of shape (N,)
        ``s``: the symmetric heat kernel is ``S = diag(s) K diag(s)``.
    trivial : array of shape (N,)
        Unit vector u with S u = u.
    row_weight : array of shape (N,), or None
        Rows of embeddings are multiplied by it: 1/u if the kernel is a Markov matrix, otherwise one over the root of
        the masses; None for 1.
    n_iter : int
        Number of products ``K @ v``.
    residual : float
        Measured ``max |row sum - 1|`` of the Markov matrix, for the iterative normalisations; 0 otherwise.
    converged : bool
    left : array of shape (N,)
        The `LeftFactor` of the training points: new points that are training points are placed exactly on them.
    reference : array of shape (N,)
    reference_exponent, degree_exponent, constant : float
        These make the `LeftFactor` of new points.
    masses : array of shape (N,), or None
        The mass of each point; None for 1.
    """

    scale: FloatArray
    trivial: FloatArray
    left: FloatArray
    reference: FloatArray
    reference_exponent: float
    n_iter: int
    degree_exponent: float = 0.0
    constant: float = 1.0
    row_weight: FloatArray | None = None
    residual: float = 0.0
    converged: bool = True
    masses: FloatArray | None = None

    @property
    def left_factor(self) -> LeftFactor:
        """The factor of new points' rows, without arrays of the size of the data."""
        return LeftFactor(self.constant, self.degree_exponent, self.reference_exponent)


@dataclass(frozen=True)
class ScalingOptions:
    """Options of a normalisation."""

    alpha: float = 1.0  # density exponent: 0 keeps the sampling density, 1 removes it
    tol: float = 1e-8  # largest deviation of a row sum from 1 that counts as converged
    max_iter: int = 1000  # products
    masses: Any = None  # of the points, (N,); None for 1

    def total(self, values: Any) -> float:
        """The sum of values over all points, each as often as its mass says."""
        return float(array_namespace(values).sum(values if self.masses is None else self.masses * values))


def symmetric(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """Algorithm 1 of the paper."""
    alpha = options.alpha
    q = degrees**-alpha
    v = q * astype(K @ q, np.float64)  # row sums of K~
    xp = array_namespace(v)
    s = q / xp.sqrt(v)
    return Scaling(
        scale=s,
        trivial=xp.sqrt(v / options.total(v)),
        left=s,
        reference=q,
        reference_exponent=0.5,
        degree_exponent=alpha / 2,
        n_iter=2,
    )


def stochastic(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """The Markov matrix that is similar to Algorithm 1: the same S, rows divided by u."""
    same = symmetric(K, degrees, options)
    u = same.trivial
    # sqrt(sum v), since u s = q / sqrt(sum v)
    constant = float(array_namespace(u).sum(same.reference)) / float(u @ same.scale)
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
    return replace(found, trivial=options.total(ones) ** -0.5 * ones)


def bistochastic_weighted(K: Operator, degrees: FloatArray, options: ScalingOptions) -> Scaling:
    """Bistochastic with respect to the weights q^-alpha (Marshall and Coifman)."""
    w = degrees**-options.alpha
    found = _balanced(K, degrees, w, options)
    xp = array_namespace(w)
    constant = float(np.sqrt(options.total(w)))
    u = xp.sqrt(w) / constant
    return replace(found, trivial=u, row_weight=1.0 / u, left=constant * found.left, constant=constant)


def _balanced(K: Operator, degrees: FloatArray, w: FloatArray, options: ScalingOptions) -> Scaling:
    """``s (K (s w)) = 1``; callers set the trivial vector and the row weight."""
    tol = max(options.tol, _TOLERANCE_ULPS * float(np.finfo(K.dtype).eps))
    s, row_sums, n_iter = sinkhorn(K, w, start=_start(K, degrees, w), tol=tol, max_iter=options.max_iter)
    xp = array_namespace(s)
    residual = float(xp.max(xp.abs(row_sums - 1.0)))
    _require_range(K.dtype, row_sums, s * xp.sqrt(w), s / row_sums)
    if residual > tol:
        warn(
            f"the bistochastic scaling did not converge: row sums are within {residual:.1e} of 1 after {n_iter + 1} "
            f"products, not within tol={tol:.1e}. Raise max_iter or tol. If the residual stays large, the affinity has "
            "no such scaling (without its diagonal it may have none, for example if one point outweighs all others): "
            "use diagonal='auto' or normalization='symmetric'.",
            ConvergenceWarning,
        )
    return Scaling(
        scale=s * xp.sqrt(w),
        trivial=xp.sqrt(w),
        left=s / row_sums,
        reference=s * w,
        reference_exponent=1.0,
        n_iter=n_iter + 1,  # with the product that gave the degrees
        residual=residual,
        converged=residual <= tol,
    )


def _start(K: Operator, degrees: FloatArray, w: FloatArray) -> FloatArray:
    """Where the scaling begins: from the degrees, or for many points from the scaling of some of them.

    With e the sums over these points in place of all, row i is scaled by ``s_i (s_i w_i + e_i) = 1``.
    """
    few = K.thinned()
    if few is None:
        return (w * degrees) ** -0.5
    points, among, products = few
    weights = w[points] * (K.shape[0] / among.shape[0])
    s, _, _ = sinkhorn(among, weights, start=(w * degrees)[points] ** -0.5, tol=_ROUGHLY, max_iter=_FEW_PRODUCTS)
    e, xp = products(s * weights), array_namespace(degrees)
    return 2.0 / (e + xp.sqrt(e * e + 4.0 * w))  # type: ignore[no-any-return]


def _require_range(dtype: np.dtype[Any], *factors: Any) -> None:
    """Raise ValueError if factors are not finite, or too large to multiply by in the kernel's dtype."""
    if not all(_largest(factor) <= float(np.finfo(dtype).max) / _ROOM for factor in factors):  # also for NaN
        raise ValueError(
            f"the affinity cannot be scaled within the range of {dtype}: its entries, or the sums of its rows, are "
            "too far apart in size. Use float64, or leave nearly isolated samples out; for points, a larger bandwidth "
            "also helps."
        )


def _largest(x: Any) -> float:
    xp = array_namespace(x)
    return float(xp.max(xp.abs(x)))


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
    xp = array_namespace(start)
    x = xp.log(start)
    best, best_sums, best_residual = x, np.inf * K.ones(), np.inf
    latest = Anderson()
    extrapolated, last_residual, n_iter = False, np.inf, 0
    with task("balancing the kernel") as advance:
        while n_iter < max_iter:
            if not _largest(x) < _LARGEST_LOG:
                if not extrapolated:
                    break
                x, extrapolated = latest.plain(), False
                continue
            n_iter += 1
            advance(n_iter, 0)
            s = xp.exp(x)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                row_sums = s * astype(K @ (s * weights), np.float64)
            low, high = float(xp.min(row_sums)), float(xp.max(row_sums))
            residual = max(1.0 - low, high - 1.0) if low > 0 else np.inf  # also for NaN
            if residual < best_residual:
                best, best_sums, best_residual = x, row_sums, residual
            if residual <= tol:
                break
            if extrapolated and not residual <= 2.0 * last_residual:
                x, extrapolated = latest.plain(), False  # undo the extrapolation, and forget its history
                continue
            if not residual < np.inf:
                break
            x, extrapolated = latest.extrapolate(x, -0.5 * xp.log(row_sums))
            last_residual = residual
    return xp.exp(best), best_sums, n_iter


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
    masses: Any = None,
    degrees: FloatArray | None = None,
    **options: Any,
) -> Scaling:
    """Scale an affinity to a heat kernel.

    Parameters
    ----------
    K : Operator of shape (N, N)
        Symmetric and non-negative, without empty rows.
    normalization : {"symmetric", "bistochastic", "stochastic", "bistochastic-weighted"}
    masses : array of shape (N,), optional
        Positive masses of the points, of the kind that ``K.ones()`` is; by default 1.
    degrees : ndarray of shape (N,), optional
        ``K @ masses`` if it is known already.
    **options
        Of `ScalingOptions`.

    Returns
    -------
    scaling : Scaling

    Warns
    -----
    ConvergenceWarning
        If row sums are not within `tol` of 1 after `max_iter` products.
    """
    if masses is not None:
        K = ScaledOperator(K, K.ones(), masses)
    if degrees is None:
        degrees = astype(K @ K.ones(), np.float64)
    xp = array_namespace(degrees)
    if not xp.all(degrees > 0):
        empty = xp.nonzero(~(degrees > 0))[0]
        raise ValueError(
            f"{len(empty)} rows of the affinity are zero (the first is row {int(empty[0])}), so they cannot be scaled; "
            "remove those samples, or use diagonal='auto', which keeps their affinity with themselves; for points, "
            "float64 or a larger bandwidth also helps."
        )
    scale, chosen = NORMALIZATIONS[normalization], ScalingOptions(**options, masses=masses)
    if K.order is None:
        found = scale(K, degrees, chosen)
    else:
        ordered = chosen if masses is None else replace(chosen, masses=masses[K.order])
        found = _restored(scale(K.reordered(), degrees[K.order], ordered), K.order)
    found = found if masses is None else _with_masses(found, masses)
    _require_range(K.dtype, found.scale, found.left)
    return _each(found, to_numpy) if K.in_memory else found


def _with_masses(scaling: Scaling, masses: Any) -> Scaling:
    """The scaling of points with masses, from one of ``K diag(masses)``, whose arrays have an entry for each point."""
    root = array_namespace(masses).sqrt(masses)
    return replace(
        scaling,
        scale=scaling.scale * root,
        trivial=scaling.trivial * root,
        row_weight=(1.0 if scaling.row_weight is None else scaling.row_weight) / root,
        reference=scaling.reference * masses,
        masses=masses,
    )


def _restored(scaling: Scaling, order: Any) -> Scaling:
    """A scaling of reordered points with its arrays in the original order."""
    return _each(scaling, lambda values: from_order(values, order))


def _each(scaling: Scaling, change: Callable[[Any], Any]) -> Scaling:
    """A scaling with a function of each of its arrays."""
    names = ("scale", "trivial", "row_weight", "left", "reference", "masses")
    arrays: dict[str, Any] = {name: getattr(scaling, name) for name in names}
    return replace(scaling, **{name: change(values) for name, values in arrays.items() if values is not None})
