"""Gaussian processes whose covariance is the heat kernel, and the geometry of their law.

Section 3 of the paper: ``f = S^t g`` with g ~ N(0, I) is a Gaussian process on the data with covariance ``S^(2t)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from .._utils.array import to_numpy
from .._utils.chunks import chunks
from .._utils.threads import quiet_blas
from .._utils.typing import FloatArray, RandomState
from ..kernel.operator import as_heat_kernel
from ..kernel.options import check_count
from ..linalg.diffusion import diffuse
from ..linalg.eigen import eigenpairs
from ..linalg.filters import check_time
from ..linalg.operators import Operator
from ..linalg.rounding import rounding_level
from ..linalg.sketch import GaussianSketch, resolve_seed
from .distances import check_pairs

__all__ = [
    "canonical_metric",
    "gaussian_process",
    "kernel_rows",
    "secant_products",
]


def kernel_rows(A: Any, power: float, indices: ArrayLike) -> FloatArray:
    """Rows of ``diag(w) S^t`` at the given samples, (m, N), whose distances are diffusion distances.

    A constant trivial mode is left out, which keeps distances accurate at large t.
    """
    kernel, indices = as_heat_kernel(A), np.asarray(indices)
    if not kernel.in_memory:
        raise ValueError(
            f"rows of the kernel of {kernel.shape[0]} points on a cluster were asked for, which are as long as the "
            "data; ask for diffusion_distances of pairs, or make the kernel of a part of the data in memory."
        )
    columns = diffuse(kernel, kernel.units(indices), [power], trivial=not kernel.trivial_is_constant)[0]
    rows = np.ascontiguousarray(to_numpy(columns).T, dtype=np.float64)
    return rows if kernel.row_weight is None else kernel.row_weight[indices, None] * rows


@quiet_blas()
def secant_products(A: Any, power: float, triples: ArrayLike) -> FloatArray:
    """Inner products of secants, the paper's discrete Riemannian metric.

    For a triple (i, j, l) this is ``(a_i - a_j) . (a_i - a_l)`` with a_i the rows of A^t, which equals
    ``E <y_i - y_j, y_i - y_l>`` for every sketch (Propositions 3.2 and 4.1), and ``D^2`` for j = l.

    Parameters
    ----------
    A : HeatKernel, or symmetric matrix of shape (N, N)
    power : float
        t; the process has covariance A^(2t).
    triples : array-like of int, shape (m, 3)

    Returns
    -------
    products : ndarray of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> X = np.indices((15, 15)).reshape(2, -1).T  # a grid; 112 is its centre, 113 and 127 are neighbours of it
    >>> A = hs.heat_kernel(X)
    >>> across, up, both = hs.secant_products(A, 4, [[112, 113, 113], [112, 127, 127], [112, 113, 127]])
    >>> print(f"cosine {both / np.sqrt(across * up):.2f}")
    cosine 0.03
    >>> bool(np.isclose(across, hs.diffusion_distances(A, 4, pairs=[[112, 113]])[0] ** 2))
    True
    """
    kernel = as_heat_kernel(A)
    triples = check_pairs(triples, kernel.shape[0], width=3)
    indices, where = np.unique(triples, return_inverse=True)
    rows = kernel_rows(kernel, power, indices)
    i, j, k = where.reshape(triples.shape).T
    products = np.empty(len(triples))
    for chunk in chunks(len(triples), kernel.shape[0]):
        at = rows[i[chunk]]
        products[chunk] = np.einsum("mn,mn->m", at - rows[j[chunk]], at - rows[k[chunk]])
    return products


@quiet_blas()
def canonical_metric(covariance: ArrayLike | Operator) -> FloatArray:
    """Canonical metric ``D_C(i, j) = E[(f_i - f_j)^2]^(1/2)`` of a process with the given covariance matrix.

    Parameters
    ----------
    covariance : array-like or Operator of shape (N, N)

    Returns
    -------
    distances : ndarray of shape (N (N - 1) / 2,)
        Condensed, as :func:`scipy.spatial.distance.pdist` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> times = np.array([1.0, 2.0, 4.0])
    >>> hs.canonical_metric(np.minimum.outer(times, times)).round(3)  # Brownian motion: sqrt(|s - t|)
    array([1.   , 1.732, 1.414])
    >>> A = hs.heat_kernel(hs.datasets.circle(100, random_state=0), bandwidth=0.25)
    >>> C = np.linalg.matrix_power(A.toarray(), 8)
    >>> bool(np.allclose(hs.canonical_metric(C), hs.diffusion_distances(A, power=4)))
    True
    """
    if isinstance(covariance, Operator):
        covariance = covariance.toarray()
    C = np.asarray(covariance, dtype=np.float64)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or not np.isfinite(C).all() or not np.allclose(C, C.T):
        raise ValueError(f"a covariance of shape {C.shape} was given; it must be square, symmetric and finite.")
    variance = np.diagonal(C)
    squared = variance[:, None] + variance[None, :] - 2.0 * C
    distances: FloatArray = squareform(np.sqrt(np.maximum(squared, 0.0)), checks=False)
    return distances


@quiet_blas()
def gaussian_process(
    A: Any,
    n_draws: int = 1,
    *,
    power: float = 0.5,
    method: str = "sketch",
    n_terms: int | None = None,
    random_state: RandomState = None,
) -> FloatArray:
    """Draw realisations of the Gaussian process on the data with covariance ``A^(2 power)``.

    Parameters
    ----------
    A : HeatKernel, or symmetric positive semidefinite matrix of shape (N, N)
    n_draws : int
    power : float
        1/2 gives covariance A itself (section 3 of the paper); p the process of the embedding with power p.
    method : {"sketch", "karhunen-loeve"}
        "sketch" computes ``S^power g``; "karhunen-loeve" sums ``xi_i lambda_i^power v_i`` over the eigenpairs of S.
        For a kernel with row weights w the rows are multiplied by w: the covariance is diag(w) S^(2 power) diag(w).
    n_terms : int, optional
        Nontrivial terms of the Karhunen-Loève sum; all by default.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    f : ndarray of shape (N, n_draws), or a Dask array for a kernel on a cluster

    Examples
    --------
    >>> import heatsketch as hs
    >>> A = hs.heat_kernel(hs.datasets.circle(200, random_state=0), bandwidth=0.25)
    >>> hs.gaussian_process(A, 3, random_state=0).shape
    (200, 3)
    """
    check_time(power)
    check_count(n_draws, "n_draws")
    kernel = as_heat_kernel(A)
    n = kernel.shape[0]
    sketch = GaussianSketch(resolve_seed(random_state))
    if method == "sketch":
        blocks = diffuse(kernel, kernel.sketched(sketch, n_draws), [power])
        drawn: FloatArray = kernel.hand_out(kernel.weigh_rows(blocks[0]))
        return drawn
    if method != "karhunen-loeve":
        raise ValueError(f"method={method!r} is not known; use 'sketch' or 'karhunen-loeve'.")
    most = n if kernel.trivial is None else n - 1
    pairs = eigenpairs(kernel, most if n_terms is None else n_terms, solver="dense")
    terms = pairs.coordinates(power, rounding_level(kernel))  # lambda_i^power v_i
    if kernel.trivial is not None:
        terms = np.column_stack([kernel.trivial, terms])
    xi = sketch.matrix(terms.shape[1], n_draws)  # one standard normal for each term and draw
    return np.asarray(kernel.weigh_rows(terms @ xi), dtype=kernel.dtype)
