"""Forces between the points of an embedding, for :mod:`heatsketch.layout`, in float32."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = ["attract", "bin_points", "divergence", "place", "repel", "repel_by_grid", "spread", "stretch"]

_attract = Function(
    "attract",
    "I indptr[n+1], I indices[entries], f P[entries], f Y[n, k], f scales[n], f* out[n, k]",
    "l k, l start<=n, l stop<=n",
    I="il",
)
_divergence = Function(
    "divergence",
    "I indptr[n+1], I indices[entries], f P[entries], f Y[n, k], f scales[n], d* totals[n]",
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
    "f Y[n, k], f others[k, m], f logs[n, m], f* out[n, k], d* totals[n], d* squares[n]",
    "l k, l m, d least, d mean, l start<=n, l stop<=n",
)
_bin_points = Function(
    "bin_points",
    "f Y[n, k], d origin[3], l cells[3], i* cell_of[n], i* starts[n_starts], i* order[n]",
    "l k, l n, l n_starts, d spacing",
)
_spread = Function(
    "spread",
    "f Y[n, k], f basis[n, m], d origin[3], l cells[3], l sizes[3], f* grid[m, nodes]",
    "l k, l m, l nodes, d spacing, l start<=n, l stop<=n",
)
# All points, and the potentials on a grid; without cells, only the points.
_FIELD = "f others[k, n], f theirs[n], i starts[n_starts], d origin[3], l cells[3], l sizes[3], f grid[m, nodes], "
_repel_by_grid = Function(
    "repel_by_grid",
    _FIELD + "f Y[rows, k], f scales[rows], f basis[rows, m], f* out[rows, k], d* totals[rows]",
    "l k, l n, l m, l n_starts, d spacing, d reach, l start<=rows, l stop<=rows",
)
_place = Function(
    "place",
    _FIELD + "f Y[points, k], f scales[points], l indptr[rows+1], i indices[entries], f p[entries], f own[rows], "
    "f basis[rows, m], f* out[rows, k], f* work[rows, three, k]",
    "l k, l n, l m, l n_starts, d spacing, d reach, d factor, d tol, l start<=rows, l stop<=rows",
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


def divergence(
    indptr: IntArray,
    indices: IntArray,
    P: FloatArray,
    Y: FloatArray,
    scales: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``sum_j P_ij log(1 + |y_i - y_j|^2 / (s_i s_j))`` with the scales s, into `totals`, in float64."""
    _divergence((indptr, indices, P, Y, scales, totals), start, stop)


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


def bin_points(
    Y: FloatArray,
    origin: FloatArray,
    cells: IntArray,
    cell_of: IntArray,
    starts: IntArray,
    order: IntArray,
    spacing: float,
) -> None:
    """Sort points by cells of a grid: the cell of each point, the first point of each cell, and the order."""
    _bin_points((Y, origin, cells, cell_of, starts, order), spacing)


def spread(
    Y: FloatArray,
    basis: FloatArray,
    origin: FloatArray,
    cells: IntArray,
    sizes: IntArray,
    grid: FloatArray,
    spacing: float,
    start: int,
    stop: int,
) -> None:
    """Add cubic B-splines around rows start to stop of Y, with the weights `basis`, (n, m), to m grids."""
    _spread((Y, basis, origin, cells, sizes, grid), spacing, start, stop)


def repel_by_grid(
    field: tuple[FloatArray, ...],
    Y: FloatArray,
    scales: FloatArray,
    basis: FloatArray,
    out: FloatArray,
    totals: FloatArray,
    spacing: float,
    reach: float,
    start: int,
    stop: int,
) -> None:
    """The sums of `repel` over all points of a field (:class:`heatsketch.layout.grid.Field`)."""
    _repel_by_grid((*field, Y, scales, basis, out, totals), spacing, reach, start, stop)


def place(
    field: tuple[FloatArray, ...],
    points: tuple[FloatArray, FloatArray],
    rows: tuple[IntArray, IntArray, FloatArray],
    own: tuple[FloatArray, FloatArray],
    out: FloatArray,
    work: FloatArray,
    numbers: tuple[float, float, float, float],
    start: int,
    stop: int,
) -> None:
    """Place new points where ``sum_j p_j log(s s_j + |y - y_j|^2) + factor sum_j q`` has a minimum, into `out`.

    Each starts from the best of the mean of its neighbours and the five nearest, and takes at most 20 damped steps.

    Parameters
    ----------
    field : tuple
        Of all points, as for `repel_by_grid`.
    points : tuple
        Y, (points, k), and scales.
    rows : tuple
        The neighbours of new points in compressed rows: indptr, indices and weights p, each row with the sum 1.
    own : tuple
        Scales of new points, and their weights in the basis of the field.
    out, work : ndarrays of shape (rows, k) and (rows, 3, k)
    numbers : tuple
        The spacing and the reach of the field, the factor, and the length of a step that ends the search.
    """
    _place((*field, *points, *rows, *own, out, work), *numbers, start, stop)


def stretch(
    Y: FloatArray,
    others: FloatArray,
    logs: FloatArray,
    least: float,
    mean: float,
    out: FloatArray,
    totals: FloatArray,
    squares: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``sum_j (l_ij - mean) (y_i - y_j) / s_ij`` into `out`; sums of l_ij and of its squares, in float64.

    ``l_ij = log(s_ij / d_ij^2) / 2`` with ``s_ij = |y_i - y_j|^2 + least`` for the columns j of `others`, (k, m), and
    the logarithms of d_ij^2 in `logs`, (n, m). Pairs whose logarithm is below -80 are left out.
    """
    _stretch((Y, others, logs, out, totals, squares), least, mean, start, stop)
