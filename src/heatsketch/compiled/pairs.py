"""Loops over pairs of points: their distances, and what moves them. Numbers of points are int64."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["distances", "log_ratios", "pull"]

_distances = Function("distances", "Tlld*", "lll", T="fd")
_log_ratios = Function("log_ratios", "dlldd*d*", "ll")
_pull = Function("pull", "dlldd*", "ll")


def distances(F: FloatArray, i: IntArray, j: IntArray, out: FloatArray, start: int, stop: int) -> None:
    """Distances of the pairs from `start` to `stop` between rows of F, (N, m), into `out`."""
    _distances((F, i, j, out), F.shape[1], start, stop)


def log_ratios(
    Y: FloatArray, i: IntArray, j: IntArray, log_d: FloatArray, ratios: FloatArray, inverse: FloatArray
) -> None:
    """``log(|y_i - y_j| / d_ij)`` of each pair into `ratios`, and ``1 / |y_i - y_j|^2`` into `inverse`."""
    _log_ratios((Y, i, j, log_d, ratios, inverse), Y.shape[1], len(i))


def pull(Y: FloatArray, i: IntArray, j: IntArray, weights: FloatArray, out: FloatArray) -> None:
    """Add ``w_p (y_i - y_j)`` to row i of `out` and take it from row j, for each pair p."""
    _pull((Y, i, j, weights, out), Y.shape[1], len(i))
