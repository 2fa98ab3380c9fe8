"""Forces between the points of an embedding, for :mod:`heatsketch.optimize.mixture`, in float32."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["attract", "repel", "stretch"]

_attract = Function(
    "attract",
    "I indptr[n+1], I indices[entries], f P[entries], f Y[n, k], f scales[n], f* out[n, k]",
    "l k, l start<=n, l stop<=n",
    I="il",
)
_repel = Function(
    "repel",
    "f Y[n, k], f others[k, m], f scales[n], f theirs[m], f* out[n, k], d* totals[n]",
    "l k, l m, l start<=n, l stop<=n",
)
_stretch = Function(
    "stretch",
    "f Y[n, k], f others[k, m], f logs[n, m], f* out[n, k], d* totals[n]",
    "l k, l m, d least, d mean, l start<=n, l stop<=n",
)


def attract(
    indptr: IntArray,
    indices: IntArray,
    P: FloatArray,
    Y: FloatArray,
    scales: FloatArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``sum_j P_ij (y_i - y_j) / (s_i s_j + |y_i - y_j|^2)`` with the scales s, into rows start to stop of `out`."""
    _attract((indptr, indices, P, Y, scales, out), start, stop)


def repel(
    Y: FloatArray,
    others: FloatArray,
    scales: FloatArray,
    theirs: FloatArray,
    out: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``sum_j q_ij^2 (y_i - y_j) / (s_i s_j)`` into `out`, ``sum_j q_ij`` into `totals`, in float64.

    The sums are over the columns j of `others`, (k, m), with the scales `theirs`, (m,).
    """
    _repel((Y, others, scales, theirs, out, totals), start, stop)


def stretch(
    Y: FloatArray,
    others: FloatArray,
    logs: FloatArray,
    least: float,
    mean: float,
    out: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` into `out`, ``sum_j l_ij`` into `totals`, in float64.

    ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least`` for the columns j of `others`, (k, m), and
    the logarithms of d_ij^2 in `logs`, (n, m). Pairs whose logarithm is below -80 are left out.
    """
    _stretch((Y, others, logs, out, totals), least, mean, start, stop)
