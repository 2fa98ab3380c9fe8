"""Forces between the points of an embedding, for :mod:`heatsketch.optimize.mixture`, in float32.

Loops over the points that are drawn in a step come last, so that they are vectorised. The plane has a branch of its
own: without loops over coordinates it is twice as fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .loops import MATH, reordered_loop
from .vectors import bits_of, float_of

__all__ = ["attract", "repel", "stretch"]


@njit(inline="always", fastmath=MATH)
def _log(x):  # type: ignore[no-untyped-def]
    """log(x) for normal numbers x > 0, to 1e-6; branch-free."""
    bits = np.int32(bits_of(x))
    exponent = np.float32((bits >> 23) - 127)
    mantissa = float_of(np.int32((bits & 0x7FFFFF) | 0x3F800000))  # in [1, 2)
    t = (mantissa - np.float32(1.0)) / (mantissa + np.float32(1.0))
    u = t * t
    p = np.float32(2.0 / 9.0)
    p = p * u + np.float32(2.0 / 7.0)
    p = p * u + np.float32(2.0 / 5.0)
    p = p * u + np.float32(2.0 / 3.0)
    p = p * u + np.float32(2.0)
    return p * t + exponent * np.float32(0.6931471805599453)


@reordered_loop
def attract(indptr, indices, P, Y, scales, out, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)`` with the scales s, into rows start to stop of `out`."""
    k = Y.shape[1]
    for i in range(start, stop):
        if k == 2:
            x, y, along, across = Y[i, 0], Y[i, 1], np.float32(0), np.float32(0)
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                dx, dy = x - Y[j, 0], y - Y[j, 1]
                q = P[p] / (scales[i] * scales[j] + dx * dx + dy * dy)
                along += q * dx
                across += q * dy
            out[i, 0], out[i, 1] = along, across
            continue
        for c in range(k):
            out[i, c] = 0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            squared = scales[i] * scales[j]
            for c in range(k):
                difference = Y[i, c] - Y[j, c]
                squared += difference * difference
            q = P[p] / squared
            for c in range(k):
                out[i, c] += q * (Y[i, c] - Y[j, c])


@reordered_loop
def repel(Y, others, scales, theirs, out, totals, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)`` into `out`, ``sum_j q_ij`` into `totals`.

    The sums are over the columns j of `others`, (k, m), with the scales `theirs`, (m,).
    """
    (k, m), one = others.shape, np.float32(1)
    q = np.empty(m, dtype=np.float32)
    for i in range(start, stop):
        own = scales[i]
        if k == 2:
            x, y, along, across, total = Y[i, 0], Y[i, 1], np.float32(0), np.float32(0), np.float32(0)
            for j in range(m):
                dx, dy = x - others[0, j], y - others[1, j]
                falling = one / (own * theirs[j] + dx * dx + dy * dy)
                similarity = own * theirs[j] * falling
                total += similarity
                along += similarity * falling * dx
                across += similarity * falling * dy
            out[i, 0], out[i, 1], totals[i] = along, across, total
            continue
        for j in range(m):
            q[j] = own * theirs[j]
        for c in range(k):
            y, row = Y[i, c], others[c]
            for j in range(m):
                q[j] += (y - row[j]) * (y - row[j])
        total = np.float32(0)
        for j in range(m):
            falling = one / q[j]
            q[j] = own * theirs[j] * falling
            total += q[j]
            q[j] *= falling
        totals[i] = total
        for c in range(k):
            y, row, force = Y[i, c], others[c], np.float32(0)
            for j in range(m):
                force += q[j] * (y - row[j])
            out[i, c] = force


@njit(inline="always", fastmath=MATH)
def _log_ratio(squared, log):  # type: ignore[no-untyped-def]
    """Half of log(squared) - log, and 1; both are 0 if `log` is that of a pair that coincides."""
    apart = np.float32(1) if log > np.float32(-80) else np.float32(0)
    return apart * np.float32(0.5) * (_log(squared) - max(log, np.float32(-80))), apart


@reordered_loop
def stretch(Y, others, logs, least, mean, out, totals, start, stop):  # type: ignore[no-untyped-def]
    """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` into `out`, ``sum_j l_ij`` into `totals`.

    ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least`` for the columns j of `others`, (k, m), and
    the logarithms of d_ij^2 in `logs`, (n, m). Pairs whose logarithm is below -80 are left out.
    """
    k, m = others.shape
    s = np.empty(m, dtype=np.float32)
    for i in range(start, stop):
        if k == 2:
            x, y, along, across, total = Y[i, 0], Y[i, 1], np.float32(0), np.float32(0), np.float32(0)
            for j in range(m):
                dx, dy = x - others[0, j], y - others[1, j]
                squared = least + dx * dx + dy * dy
                ratio, apart = _log_ratio(squared, logs[i, j])
                total += ratio
                force = (ratio - apart * mean) / squared
                along += force * dx
                across += force * dy
            out[i, 0], out[i, 1], totals[i] = along, across, total
            continue
        for j in range(m):
            s[j] = least
        for c in range(k):
            y, row = Y[i, c], others[c]
            for j in range(m):
                s[j] += (y - row[j]) * (y - row[j])
        total, row = np.float32(0), logs[i]
        for j in range(m):
            ratio, apart = _log_ratio(s[j], row[j])
            total += ratio
            s[j] = (ratio - apart * mean) / s[j]
        totals[i] = total
        for c in range(k):
            y, row, force = Y[i, c], others[c], np.float32(0)
            for j in range(m):
                force += s[j] * (y - row[j])
            out[i, c] = force
