"""A wide sketch of the heat kernel: the space in which an embedding is looked for, and the distances to be kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._typing import FloatArray
from .diffusion import diffuse
from .directions import leading_directions
from .heat import HeatKernel
from .sketch import GaussianSketch
from .spectrum import DENSE_LIMIT, eigenpairs, rounding_level

__all__ = ["WideSketch", "default_width", "wide_sketch"]

# Columns by default: for data whose kernel is diagonalised, and for larger ones.
_WIDTHS = 512, 256
# Directions along which the power of the kernel is smaller than this fraction of the largest are left out.
_NEGLIGIBLE = 1e-10
_STREAM = 0x1DE  # keeps the columns apart from other uses of the seed


@dataclass(frozen=True)
class WideSketch:
    """``F = diag(w) S^t M`` with many columns.

    Distances between rows of F are diffusion distances, exact if `exact`, otherwise unbiased in their squares: M is
    then made of leading directions and, orthogonal to them, of random columns. Any embedding ``F W`` is a sketch of the
    heat kernel, through ``M W``.

    Attributes
    ----------
    M, features : ndarrays of shape (N, m)
    first : int
        Column of the first nontrivial direction; those after it follow in decreasing order.
    n_exact : int
        Directions, the trivial one included; columns after them are random.
    exact : bool
        Whether the directions span all of the kernel.
    """

    M: FloatArray
    features: FloatArray
    first: int
    n_exact: int
    exact: bool


def default_width(n_samples: int) -> int:
    """Columns of the wide sketch where none are asked for."""
    return _WIDTHS[0] if n_samples <= DENSE_LIMIT else _WIDTHS[1]


def wide_sketch(kernel: HeatKernel, power: float, width: int, seed: int) -> WideSketch:
    """A sketch of ``width`` columns, or fewer if they span the kernel already.

    Half of the columns are leading directions of the kernel's power, the others a Gaussian sketch of the remainder. If
    there are no more directions than columns, all are taken and nothing is random.

    Parameters
    ----------
    kernel : HeatKernel
    power : float
    width : int
    seed : int

    Returns
    -------
    wide : WideSketch
    """
    n = kernel.shape[0]
    # A trivial mode that is constant is absent from all distances; any other is a direction like the rest.
    known = np.empty((n, 0)) if kernel.trivial is None or kernel.trivial_is_constant else kernel.trivial[:, None]
    first = known.shape[1]
    most = n if kernel.trivial is None else n - 1
    if most + first <= width and n <= DENSE_LIMIT:
        pairs = eigenpairs(kernel, most, solver="dense")
        scaled = pairs.coordinates(power, rounding_level(kernel))
        size = np.abs(pairs.values) ** power
        kept = np.flatnonzero(size > _NEGLIGIBLE * size.max(initial=0.0))
        kept = kept[np.argsort(-size[kept], kind="stable")]
        M = np.column_stack([known, pairs.vectors[:, kept]])
        features = kernel.weigh_rows(np.column_stack([known, scaled[:, kept]]))
        return WideSketch(M, features, first, M.shape[1], exact=True)
    r = max(1, min(width // 2, most))
    Q = np.column_stack([known, leading_directions(kernel, r, power)]).astype(kernel.dtype)
    rest = max(1, width - Q.shape[1])
    G = GaussianSketch(seed ^ _STREAM).matrix(n, rest).astype(kernel.dtype)
    M = np.column_stack([Q, (G - Q @ (Q.T @ G)) / np.sqrt(rest).astype(kernel.dtype)])
    features = kernel.weigh_rows(diffuse(kernel, M, [power], trivial=bool(first) or kernel.trivial is None)[0])
    return WideSketch(M, features, first, Q.shape[1], exact=False)
