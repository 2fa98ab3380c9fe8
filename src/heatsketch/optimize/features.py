"""A wide sketch of the heat kernel: the features of which embeddings are projections, and their distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, device, to_numpy
from .._utils.registry import computing
from .._utils.threads import product
from .._utils.typing import FloatArray, IntArray
from ..kernel.operator import HeatKernel
from ..linalg.diffusion import diffuse, matrix_power
from ..linalg.eigen import eigenpairs, prefers_dense
from ..linalg.filters import MultiscaleFilter, Power, filtered
from ..linalg.metrics import magnitude
from ..linalg.range_finder import leading_directions
from ..linalg.rounding import rounding_level
from ..linalg.sketch import GaussianSketch

__all__ = ["WideSketch", "deflated_columns", "deflated_features", "deflated_sketch", "wide_sketch"]

# Directions with a smaller power of the kernel, relative to the largest, are dropped.
_NEGLIGIBLE = 1e-10
# Columns that are multiplied at a time, fewer where memory counts, and the range of numbers whose sums of squares
# neither underflow nor overflow.
_SLICE, _NARROW = 64, 32
_SAFE = 1e-100, 1e100
_STREAM = 0x1DE  # separates the columns from other uses of the seed


@dataclass(frozen=True)
class WideSketch:
    """``F = diag(w) h(S) M`` with many columns.

    Distances between rows of F are diffusion distances: exact if M spans the kernel, otherwise unbiased in their
    squares, as M then consists of leading directions and, orthogonal to them, random columns. Any embedding ``F W`` is
    a sketch of the heat kernel, through ``M W``.

    Attributes
    ----------
    M : array of shape (N, m)
    features : array of shape (N, m)
        F over `unit`, which is 1 unless squares of the entries of F would underflow or overflow.
    unit : float
    weights : ndarray of shape (m,)
        Squared norms of the columns of M.
    first : int
        Column of the first nontrivial direction; the others follow in decreasing order.
    """

    M: Any
    features: Any
    unit: float
    weights: FloatArray
    first: int

    def combined(self, W: FloatArray, dtype: Any) -> Any:
        """``M W``, (N, k), computed in float64 and returned in a dtype of NumPy."""
        with np.errstate(over="ignore"):
            M = astype(astype(self.M, np.float64) @ asarray_like(W, self.M), dtype)
        xp = array_namespace(M)
        if not xp.all(xp.isfinite(M)):  # at large powers of a kernel whose scaling did not converge
            raise ValueError(
                f"the optimised sketch overflows {np.dtype(dtype)}; use a smaller power, or float64 for X, and see the "
                "ConvergenceWarning of the kernel's scaling."
            )
        return M

    def at(self, samples: IntArray) -> WideSketch:
        """The same with the features of some samples only, as a NumPy array."""
        return replace(self, features=to_numpy(self.features[samples]))


def wide_sketch(kernel: HeatKernel, power: Power, width: int, seed: int) -> WideSketch:
    """A sketch of ``width`` columns, or fewer if they span the kernel already.

    Half of the columns are leading directions of the kernel's power, the others a Gaussian sketch of the remainder. If
    all directions fit into the columns, the sketch is exact.
    """
    n, rounding = kernel.shape[0], rounding_level(kernel)
    # Distances do not depend on a constant trivial mode; any other is a direction like the rest.
    known = [] if kernel.trivial is None or kernel.trivial_is_constant else [kernel.trivial[:, None]]
    first = len(known)
    most = n if kernel.trivial is None else n - 1
    width = min(width, most + first)
    if most + first <= width and prefers_dense(kernel):
        pairs = eigenpairs(kernel, most, solver="dense")
        scaled = pairs.coordinates(power, rounding)
        size = np.abs(filtered(power, pairs.values, rounding))
        # Beside a trivial mode that is not constant, of eigenvalue 1, directions below its rounding vanish, too.
        unseen = float(np.finfo(np.float64).eps) if known else 0.0
        kept = np.flatnonzero(size > max(_NEGLIGIBLE * size.max(initial=0.0), unseen))
        kept = kept[np.argsort(-size[kept], kind="stable")]
        M = np.column_stack([*known, pairs.vectors[:, kept]])
        features, unit = _in_range(kernel.weigh_rows(np.column_stack([*known, scaled[:, kept]])))
        M, features = (kernel.asblock(block, np.float64) for block in (M, features))
        return WideSketch(M, features, unit, np.ones(M.shape[1]), first)
    directions = leading_directions(kernel, max(1, min(width // 2, most)), power)
    Q = astype(array_namespace(directions).concat([*known, directions], axis=1), kernel.dtype)
    n_random, seed = max(1, width - Q.shape[1]), seed ^ _STREAM
    dense = kernel.device is None and prefers_dense(kernel) and kernel.graph() is None
    if dense and isinstance(power, MultiscaleFilter):  # eigenvectors take a fraction of the time of a polynomial
        M = deflated_columns(kernel, Q, n_random, seed)
        features = kernel.weigh_rows(product(matrix_power(kernel, power, trivial=False), M).astype(M.dtype))
    else:
        M, features = deflated_sketch(kernel, Q, n_random, power, seed)
    features, unit = _in_range(features)
    weights = np.ones(M.shape[1])
    xp, random = array_namespace(M), M[:, Q.shape[1] :]
    weights[Q.shape[1] :] = to_numpy(xp.sum(random * random, axis=0, dtype=xp.float64))
    return WideSketch(M, features, unit, weights, first)


@computing()
def deflated_columns(kernel: HeatKernel, Q: Any, n_random: int, seed: int) -> Any:
    """``M = [Q, (I - Q Q^T) G / sqrt(n_random)]``, (N, r + n_random): exact along Q, unbiased in squared distances.

    Q, of shape (N, r) and the kernel's dtype, is orthonormal; G is Gaussian with `n_random` columns and the given seed.
    """
    return _joined(Q, n_random, _deflated(kernel, Q, n_random, seed, _SLICE))


@computing()
def deflated_sketch(kernel: HeatKernel, Q: Any, n_random: int, power: Power, seed: int) -> tuple[Any, Any]:
    """The M of `deflated_columns` and its features ``diag(w) h(S) M``."""
    M = deflated_columns(kernel, Q, n_random, seed)
    slices = (M[:, start : start + _SLICE] for start in range(0, M.shape[1], _SLICE))
    return M, _joined(Q, n_random, (_diffused(kernel, some, power) for some in slices))


@computing()
def deflated_features(kernel: HeatKernel, Q: Any, n_random: int, power: Power, seed: int, *, rtol: float) -> Any:
    """The features ``diag(w) h(S) M`` for the M of `deflated_columns`, of which only a slice is held.

    `rtol` as for `diffuse`.
    """
    slices = _deflated(kernel, Q, n_random, seed, _NARROW)
    return _joined(Q, n_random, (_diffused(kernel, some, power, rtol) for some in slices))


def _deflated(kernel: HeatKernel, Q: Any, n_random: int, seed: int, width: int) -> Iterator[Any]:
    """The M of `deflated_columns` in slices of `width` columns."""
    r, G, Q = Q.shape[1], GaussianSketch(seed), kernel.asblock(Q)
    for start in range(0, r + n_random, width):
        stop = min(start + width, r + n_random)
        parts = [Q[:, start:stop]] if start < r else []
        if stop > r:
            first = max(0, start - r)
            random = kernel.sketched(G, stop - r - first, first_column=first, dtype=kernel.dtype)
            parts.append((random - Q @ (Q.T @ random)) / float(np.sqrt(n_random)))
        yield parts[0] if len(parts) == 1 else array_namespace(Q).concat(parts, axis=1)


def _diffused(kernel: HeatKernel, M: Any, power: Power, rtol: float | None = None) -> Any:
    """``diag(w) h(S) M``."""
    [block] = diffuse(kernel, M, [power], trivial=not kernel.trivial_is_constant, rtol=rtol)
    return kernel.weigh_rows(block)


def _joined(Q: Any, n_random: int, slices: Iterator[Any]) -> Any:
    """Slices of columns side by side, as many as Q has and `n_random`."""
    out, start = None, 0
    for some in slices:
        if out is None:
            shape = some.shape[0], Q.shape[1] + n_random
            out = array_namespace(some).empty(shape, dtype=some.dtype, device=device(some))
        out[:, start : start + some.shape[1]] = some
        start += some.shape[1]
    return out


def _in_range(features: Any) -> tuple[Any, float]:
    """The features in a unit in which their squares neither underflow nor overflow, and that unit."""
    size = magnitude(features)
    if _SAFE[0] < size < _SAFE[1]:
        return features, 1.0
    return features / float(size), float(size)
