"""Starts of the search for the best sketch: known embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._utils.array import array_namespace, asarray_like, astype, to_numpy
from .._utils.chunks import chunks
from .._utils.typing import FloatArray
from ..linalg.sketch import GaussianSketch
from .features import WideSketch
from .solver import Start

# Directions with smaller features, relative to the largest, are not fitted.
_LEAST = 1e-3

__all__ = ["STARTS", "make_start", "nearest_projection"]


def _spectral(wide: WideSketch, k: int, normals: FloatArray) -> FloatArray:  # noqa: ARG001
    """Diffusion maps: the leading k nontrivial directions, or the trivial one if there are no others."""
    m = wide.features.shape[1]
    return np.eye(m, k, k=-min(wide.first, m - 1))


def _random(wide: WideSketch, k: int, normals: FloatArray) -> FloatArray:  # noqa: ARG001
    """A Gaussian process embedding."""
    W: FloatArray = normals / np.sqrt(k)
    return W


def _deflated(wide: WideSketch, k: int, normals: FloatArray) -> FloatArray:
    """Half of the coordinates exact, the remainder sketched."""
    r = k // 2
    exact = slice(wide.first, wide.first + r)
    W: FloatArray = normals / np.sqrt(k - r)
    W[:, :r] = np.eye(len(W), r, k=-wide.first)
    W[exact, r:] = 0.0
    return W


# Starts by name.
STARTS: dict[str, Callable[[WideSketch, int, FloatArray], FloatArray]] = {
    "spectral": _spectral,
    "random": _random,
    "deflated": _deflated,
}


def make_start(name: str, wide: WideSketch, k: int, seed: int) -> Start:
    """A start by name."""
    normals = GaussianSketch(seed).matrix(wide.features.shape[1], k)
    return Start(name, STARTS[name](wide, k, normals))


def nearest_projection(wide: WideSketch, Y: FloatArray) -> FloatArray:
    """The W whose embedding ``F W`` is nearest to any embedding Y, (N, k), by least squares and up to a shift.

    Directions along which the kernel is smaller than a thousandth of its largest are dropped: fitting them takes huge
    entries that cancel.
    """
    gram, right = _normal_equations(wide.features, Y - Y.mean(axis=0))
    W: FloatArray = np.linalg.pinv(gram, rcond=_LEAST**2, hermitian=True) @ right
    return W


def _normal_equations(F: Any, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``C^T C`` and ``C^T T`` in float64 with C the centred rows of F, (N, m), and T the target, (N, k)."""
    xp, m, target = array_namespace(F), F.shape[1], asarray_like(target, F)
    mean = xp.sum(F, axis=0, dtype=xp.float64) / len(F)
    gram = right = 0.0
    for rows in chunks(len(F), m):
        some = astype(F[rows], np.float64) - mean
        gram, right = gram + some.T @ some, right + some.T @ target[rows]
    return to_numpy(gram), to_numpy(right)
