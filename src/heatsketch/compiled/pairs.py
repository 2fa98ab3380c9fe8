"""Loops over pairs of points: their distances, and what moves them."""

from __future__ import annotations

import numpy as np

from .loops import loop

__all__ = ["distances", "log_ratios", "pull"]

# Squared distances below this are taken for it: the logarithm of zero has no slope.
_LEAST = 1e-290


@loop
def distances(F, i, j, out, start, stop):  # type: ignore[no-untyped-def]
    """Distances of the pairs from `start` to `stop` between rows of F, (N, m), into `out`."""
    m = F.shape[1]
    for p in range(start, stop):
        a, b = i[p], j[p]
        # Eight sums that do not wait for each other.
        sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for c in range(0, m - m % 8, 8):
            d0, d1 = np.float64(F[a, c]) - F[b, c], np.float64(F[a, c + 1]) - F[b, c + 1]
            d2, d3 = np.float64(F[a, c + 2]) - F[b, c + 2], np.float64(F[a, c + 3]) - F[b, c + 3]
            d4, d5 = np.float64(F[a, c + 4]) - F[b, c + 4], np.float64(F[a, c + 5]) - F[b, c + 5]
            d6, d7 = np.float64(F[a, c + 6]) - F[b, c + 6], np.float64(F[a, c + 7]) - F[b, c + 7]
            s0, s1, s2, s3, s4, s5, s6, s7 = sums
            sums = (
                s0 + d0 * d0,
                s1 + d1 * d1,
                s2 + d2 * d2,
                s3 + d3 * d3,
                s4 + d4 * d4,
                s5 + d5 * d5,
                s6 + d6 * d6,
                s7 + d7 * d7,
            )
        s0, s1, s2, s3, s4, s5, s6, s7 = sums
        total = ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))
        for c in range(m - m % 8, m):
            difference = np.float64(F[a, c]) - F[b, c]
            total += difference * difference
        out[p] = np.sqrt(total)


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
