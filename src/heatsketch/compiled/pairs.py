"""Loops over pairs of points: their distances, and what moves them. Numbers of points are int64."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["distances", "log_ratios", "pull"]

_distances = Function(
    "distances", "T F[n, m], l i[pairs], l j[pairs], d* out[pairs]", "l m, l start<=pairs, l stop<=pairs", T="fd"
)
_log_ratios = Function(
    "log_ratios",
    "d Y[n, k], l i[pairs], l j[pairs], d log_d[pairs], d* ratios[pairs], d* inverse[pairs]",
    "l k, l pairs",
)
_pull = Function("pull", "d Y[n, k], l i[pairs], l j[pairs], d weights[pairs], d* out[n, k]", "l k, l pairs")


def distances(F: FloatArray, i: IntArray, j: IntArray, out: FloatArray, start: int, stop: int) -> None:
    """Distances of the pairs from `start` to `stop` between rows of F, (N, m), into `out`."""
    _distances((F, i, j, out), start, stop)


def log_ratios(
    Y: FloatArray, i: IntArray, j: IntArray, log_d: FloatArray, ratios: FloatArray, inverse: FloatArray
) -> None:
    """``log(|y_i - y_j| / d_ij)`` of each pair into `ratios`, and ``1 / |y_i - y_j|^2`` into `inverse`."""
    _log_ratios((Y, i, j, log_d, ratios, inverse))


def pull(Y: FloatArray, i: IntArray, j: IntArray, weights: FloatArray, out: FloatArray) -> None:
    """Add ``w_p (y_i - y_j)`` to row i of `out` and take it from row j, for each pair p."""
    _pull((Y, i, j, weights, out))
