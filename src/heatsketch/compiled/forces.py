"""Forces between the points of an embedding, for :mod:`heatsketch.optimize.mixture`."""

from __future__ import annotations

import numpy as np

from .loops import reordered_loop

__all__ = ["attract", "repel", "stretch"]


@reordered_loop
def attract(indptr, indices, P, Y, out, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j P_ij q_ij (y_i - y_j)`` with ``q_ij = 1 / (1 + |y_i - y_j|^2)`` into rows start to stop of `out`."""
    k = Y.shape[1]
    for i in range(start, stop):
        for c in range(k):
            out[i, c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            j, squared = indices[p], np.float32(1)
            for c in range(k):
                difference = Y[i, c] - Y[j, c]
                squared += difference * difference
            q = P[p] / squared
            for c in range(k):
                out[i, c] += q * (Y[i, c] - Y[j, c])


@reordered_loop
def repel(Y, others, out, totals, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j q_ij^2 (y_i - y_j)`` into `out`, ``sum_j q_ij`` into `totals`, over the columns of `others`, (k, m)."""
    k, m = others.shape
    q = np.empty(m, dtype=np.float32)
    for i in range(start, stop):
        for j in range(m):
            q[j] = 1
        for c in range(k):
            y, row = Y[i, c], others[c]
            for j in range(m):
                q[j] += (y - row[j]) * (y - row[j])
        total = np.float32(0)
        for j in range(m):
            q[j] = 1 / q[j]
            total += q[j]
            q[j] *= q[j]
        totals[i] = total
        for c in range(k):
            y, row, force = Y[i, c], others[c], np.float32(0)
            for j in range(m):
                force += q[j] * (y - row[j])
            out[i, c] = force


@reordered_loop
def stretch(Y, others, squared_distances, least, mean, out, totals, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` into `out` and ``sum_j l_ij`` into `totals`.

    ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least`` for the columns j of `others`, (k, m); row i
    of `squared_distances`, which begins with row `start`, holds d_ij^2, or 0 for a pair that is left out.
    """
    k, m = others.shape
    for i in range(start, stop):
        for c in range(k):
            out[i, c] = 0
        total = np.float32(0)
        for j in range(m):
            d = squared_distances[i - start, j]
            if d == 0:
                continue
            squared = least
            for c in range(k):
                squared += (Y[i, c] - others[c, j]) * (Y[i, c] - others[c, j])
            ratio = np.float32(0.5) * np.log(squared / d)
            total += ratio
            force = (ratio - mean) / squared
            for c in range(k):
                out[i, c] += force * (Y[i, c] - others[c, j])
        totals[i] = total
