"""Selection of nearest neighbours from tiles of distances, and the neighbour graph."""

from __future__ import annotations

from .._utils.typing import FloatArray, IntArray
from .library import Function

__all__ = [
    "gaussian_entries",
    "list_kept",
    "list_lonely",
    "measure",
    "mirror",
    "offer",
    "offer_codes",
    "shrink",
    "smallest",
]

_shrink = Function("shrink", "f*i*i*f*", "llll")
_offer = Function("offer", "ffff*i*f*i*", 9 * "l")
_offer_codes = Function("offer_codes", "TTfff*i*f*i*", 4 * "l" + "d" + 4 * "l", T="if")
_smallest = Function("smallest", "di*d*", "lll")
_measure = Function("measure", "XYi*d*", "llll", X="fd", Y="fd")
_mirror = Function("mirror", "iib*", "lll")
_list_kept = Function("list_kept", "iTili*T*", "lll", T="fd")
_list_lonely = Function("list_lonely", "iTibl*i*T*", "ll", T="fd")
_gaussian_entries = Function("gaussian_entries", "IJSdT*", "ll", I="il", J="il", S="fd", T="fd")


def shrink(
    squared: FloatArray, ids: IntArray, count: IntArray, worst: FloatArray, k: int, start: int, stop: int
) -> None:
    """Move the k nearest candidates of the rows start to stop to the front; rows with no more are unchanged.

    The k-th distance is found by bisection, sixteen comparisons at a time. Among equal distances the smallest numbers
    are kept. For the arrays see `offer`.
    """
    _shrink((squared, ids, count, worst), squared.shape[1], k, start, stop)


def offer(
    P: FloatArray,
    left: FloatArray,
    right: FloatArray,
    start: int,
    stop: int,
    row: int,
    column: int,
    mode: int,
    k: int,
    worst: FloatArray,
    count: IntArray,
    squared: FloatArray,
    ids: IntArray,
) -> None:
    """Offer the points of the rows and columns of a tile to each other as neighbours.

    Parameters
    ----------
    P : ndarray of float32, shape (m, n)
        Twice the inner products of the points.
    left, right : ndarrays of float32, shape (m,), (n,)
        Their squared norms; NaN, which is within no limit, for padding.
    start, stop : int
        The columns that take part, a multiple of 16 of them.
    row, column : int
        Number of the first row's point, and of the point of column `start`.
    mode : {TO_ROWS, SAME_POINTS, BOTH_WAYS}
        Which points get candidates; a point is not its own neighbour.
    k : int
        Number of neighbours.
    worst : ndarray of float32, shape (N + 16,)
        Squared distance beyond which a point takes no more neighbours: that of its k-th once there are k; changed.
    count : ndarray of int32, shape (N,)
        Number of candidates of a point; changed.
    squared, ids : ndarrays of float32 and int32, shape (N, room)
        Candidates, unsorted; changed. The room is more than k, and a multiple of 16.
    """
    arrays = P, left, right, worst, count, squared, ids
    _offer(arrays, *P.shape, squared.shape[1], start, stop, row, column, mode, k)


def offer_codes(
    rows: IntArray | FloatArray,
    columns: IntArray | FloatArray,
    left: FloatArray,
    right: FloatArray,
    factor: float,
    row: int,
    column: int,
    mode: int,
    k: int,
    worst: FloatArray,
    count: IntArray,
    squared: FloatArray,
    ids: IntArray,
) -> None:
    """As `offer`, for points in blocks of codes: ``left_i + right_j - factor x_i.y_j`` are their distances.

    Products are compared where they are formed, in registers.

    Parameters
    ----------
    rows, columns : ndarrays of int32, shape (blocks, ceil(d / 4), 16), or of float32, shape (blocks, d, 16)
        Coordinates of 16 points in each block, four signed bytes in one number, or themselves.
    left, right : ndarrays of float32, shape (m,), (n,)
        NaN for padding to multiples of 16.
    factor : float
        Rounded to float32.
    row, column, mode, k, worst, count, squared, ids
        As for `offer`.
    """
    arrays = rows, columns, left, right, worst, count, squared, ids
    _offer_codes(arrays, rows.shape[1], len(left), len(right), squared.shape[1], factor, row, column, mode, k)


def smallest(D: FloatArray, ids: IntArray, values: FloatArray) -> None:
    """The k smallest entries of each row of `D`, (m, n), into `values`, and their columns into `ids`, both (m, k).

    They are sorted by size, then column. For few of them this is three times as fast as NumPy's partition. There must
    be k finite ones.
    """
    _smallest((D, ids, values), *D.shape, ids.shape[1])


def measure(X: FloatArray, Y: FloatArray, ids: IntArray, start: int, stop: int, squared: FloatArray) -> None:
    """Squared distances, by differences, from rows start to stop of `X` to the rows `ids`, (m, k), of `Y`.

    Both `ids` and `squared` are sorted by distance, then number.
    """
    _measure((X, Y, ids, squared), X.shape[1], ids.shape[1], start, stop)


def mirror(ids: IntArray, kept: IntArray, lonely: IntArray, start: int, stop: int) -> None:
    """Find the edges that only one of their ends lists, for the points start to stop.

    Of its neighbours `ids`, (N, k), a point keeps the first ``kept``; `lonely`, (N, k), is set to whether one is kept
    that does not keep the point.
    """
    _mirror((ids, kept, lonely), ids.shape[1], start, stop)


def list_kept(
    ids: IntArray,
    squared: FloatArray,
    kept: IntArray,
    indptr: IntArray,
    columns: IntArray,
    values: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write rows start to stop of a neighbour graph in CSR format: the diagonal, then the neighbours kept."""
    _list_kept((ids, squared, kept, indptr, columns, values), ids.shape[1], start, stop)


def list_lonely(
    ids: IntArray,
    squared: FloatArray,
    kept: IntArray,
    lonely: IntArray,
    indptr: IntArray,
    columns: IntArray,
    values: FloatArray,
) -> None:
    """Write the edges that `mirror` found after what `list_kept` wrote, in the rows of the other ends."""
    place = indptr[:-1] + 1 + kept
    _list_lonely((ids, squared, kept, lonely, place, columns, values), *ids.shape)


def gaussian_entries(
    indptr: IntArray,
    columns: IntArray,
    squared: FloatArray,
    scale: FloatArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """``exp(-squared_ij scale_i scale_j)`` for the entries of rows start to stop of a matrix in CSR format."""
    _gaussian_entries((indptr, columns, squared, scale, out), start, stop)
