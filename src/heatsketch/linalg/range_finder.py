"""Directions that carry most of a power of the heat kernel, without an eigensolver."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, from_order, to_numpy
from .._utils.progress import track
from .._utils.registry import computing
from .eigen import canonical, eigenpairs, prefers_dense
from .filters import Power, longest
from .lanczos import extreme_ritz
from .operators import HeatOperator
from .sketch import RademacherSketch

__all__ = ["leading_directions"]

# Random columns for each direction and in addition, and the least and the most products.
_WIDER, _ADDED = 2, 12
_RANGE_PRODUCTS = 16, 32
# Products between checks of whether columns have become parallel, by the condition number of their inner products.
_CHECKED = 2
_MOST_CONDITION = 1e4
# Accuracy of the lower end of the spectrum, relative to the largest eigenvalue.
_LOWER_END = 0.01
_SEED = 0x5EED  # fixed, so that results repeat


@computing()
def leading_directions(kernel: HeatOperator, r: int, power: Power, *, most_dense: int | None = None) -> Any:
    """Orthonormal directions that carry most of ``h(S)`` outside its trivial mode, shape (N, r).

    Up to 2000 points, or `most_dense`, they are the eigenvectors whose eigenvalues are largest in size. For more a
    randomised range finder [1]_ takes the image of ``2 r + 12`` random columns under the power itself (16 to 32
    products), and the best r directions in it (Rayleigh-Ritz). That is as cheap as the embedding.

    References
    ----------
    .. [1] Halko, Martinsson, Tropp. "Finding structure with randomness". SIAM Review, 2011.
    """
    width = _WIDER * r + _ADDED
    if prefers_dense(kernel, width, most_dense):
        return _largest(kernel, r).astype(kernel.dtype)
    deflated: Any = kernel.deflated
    order, deflated = deflated.order, deflated.reordered()
    S, u = (deflated, None) if kernel.trivial is None else (deflated.operator, deflated.vector)
    signs = kernel.sketched(RademacherSketch(_SEED), width, dtype=kernel.dtype)
    Q = S.asblock(signs if order is None else signs[order])
    products = int(np.clip(np.ceil(longest(power)), *_RANGE_PRODUCTS))
    for done in track(range(products), "finding leading directions", products):
        if done % _CHECKED == 0:
            # What rounding brings back of the trivial mode; and if the spectrum decays fast, small components would
            # drown in the rounding of large ones.
            Q = Q if u is None else S.project(Q, u)
            Q = Q if np.linalg.cond(to_numpy(Q.T @ Q)) <= _MOST_CONDITION else _orthonormal(Q, kernel.dtype)
        Q = S.matmat(Q)
    Q = _orthonormal(Q if u is None else S.project(Q, u), kernel.dtype)
    ritz, W = np.linalg.eigh(to_numpy(Q.T @ S.matmat(Q)))
    leading = np.argsort(-np.abs(ritz), kind="stable")[:r]
    vectors = from_order(Q @ asarray_like(W[:, leading], Q, kernel.dtype), order)
    return kernel.collect(canonical(ritz[leading], vectors, kernel))


def _orthonormal(Q: Any, dtype: Any) -> Any:
    """An orthonormal basis of the columns of Q, (N, q).

    By the Cholesky factor of their inner products, which takes a fraction of the time of a QR decomposition, unless
    they are nearly parallel.
    """
    wide = astype(Q, np.float64)
    gram = to_numpy(wide.T @ wide)
    if not np.linalg.cond(gram) <= _MOST_CONDITION:
        return array_namespace(Q).linalg.qr(Q)[0]
    return Q @ asarray_like(np.linalg.inv(np.linalg.cholesky(gram)).T, Q, dtype)


def _largest(kernel: HeatOperator, r: int) -> Any:
    """Eigenvectors of the r eigenvalues that are largest in size."""
    found = eigenpairs(kernel, r)
    if kernel.definite:
        return found.vectors
    ritz = extreme_ritz(kernel.deflated, _LOWER_END, both=True)
    if ritz.low - ritz.low_residual > -found.values[-1]:  # no negative eigenvalue is as large
        return found.vectors
    n = kernel.shape[0]
    found = eigenpairs(kernel, n if kernel.trivial is None else n - 1, solver="dense")
    return found.vectors[:, np.argsort(-np.abs(found.values), kind="stable")[:r]]
