"""Loops over pairs of points: their distances, and what moves them."""

from __future__ import annotations

import numpy as np

from .loops import loop

__all__ = ["distances", "log_ratios", "pull"]

# Added to squared distances, so that their logarithms are finite.
_LEAST = 1e-290


@loop
def distances(F, i, j, out, start, stop):  # type: ignore[no-untyped-def]
    """Distances of the pairs from `start` to `stop` between rows of F, (N, m), into `out`."""
    for p in range(start, stop):
        x, y, squared = F[i[p]], F[j[p]], 0.0
        for c in range(F.shape[1]):
            difference = np.float64(x[c]) - y[c]
            squared += difference * difference
        out[p] = np.sqrt(squared)


@loop
def log_ratios(Y, i, j, log_d, ratios, inverse):  # type: ignore[no-untyped-def]
    """``log(|y_i - y_j| / d_ij)`` of each pair into `ratios`, and ``1 / |y_i - y_j|^2`` into `inverse`."""
    k = Y.shape[1]
    for p in range(len(i)):
        a, b = i[p], j[p]
        squared = _LEAST
        for c in range(k):
            difference = Y[a, c] - Y[b, c]
            squared += difference * difference
        ratios[p] = 0.5 * np.log(squared) - log_d[p]
        inverse[p] = 1.0 / squared


@loop
def pull(Y, i, j, weights, out):  # type: ignore[no-untyped-def]
    """Add ``w_p (y_i - y_j)`` to row i of `out` and take it from row j, for each pair p."""
    k = Y.shape[1]
    for p in range(len(i)):
        a, b = i[p], j[p]
        for c in range(k):
            force = weights[p] * (Y[a, c] - Y[b, c])
            out[a, c] += force
            out[b, c] -= force
