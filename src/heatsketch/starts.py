"""Where the search for the best sketch begins: with the embeddings that are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._typing import FloatArray
from .optimize import Start
from .sketch import GaussianSketch
from .wide import WideSketch

__all__ = ["STARTS", "make_start", "nearest_start"]


def _spectral(wide: WideSketch, k: int, normals: FloatArray) -> FloatArray:  # noqa: ARG001
    """Diffusion maps: the leading k nontrivial directions."""
    return np.eye(wide.features.shape[1], k, k=-wide.first)


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


# Starts by name; one that is added here can be used as `init`.
STARTS: dict[str, Callable[[WideSketch, int, FloatArray], FloatArray]] = {
    "spectral": _spectral,
    "random": _random,
    "deflated": _deflated,
}


def make_start(name: str, wide: WideSketch, k: int, seed: int, repeat: int = 0) -> Start:
    """A start by name; its `repeat` tells it from others of that name."""
    m = wide.features.shape[1]
    normals = GaussianSketch(seed).matrix(m, k, first_column=repeat * k)
    return Start(name if not repeat else f"{name} {repeat + 1}", STARTS[name](wide, k, normals))


def nearest_start(wide: WideSketch, Y: FloatArray) -> Start:
    """The sketch that is nearest to an embedding Y, (N, k), of any origin: least squares up to a shift."""
    F = wide.features.astype(np.float64)
    W = np.linalg.lstsq(F - F.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
    return Start("given", W)
