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

_CANDIDATES = "f* worst[points+16], i* count[points], f* squared[points, room], i* ids[points, room]"
_shrink = Function(
    "shrink",
    "f* squared[points, room], i* ids[points, room], i* count[points], f* worst[points+16]",
    "l room, l k<room, l start<=points, l stop<=points",
)
_offer = Function(
    "offer",
    f"f P[m, n], f left[m], f right[n], {_CANDIDATES}",
    "l m, l n, l room, l start<=n, l stop<=n, l row<=points, l column, l column_stop, l mode<3, l k<room",
)
_offer_codes = Function(
    "offer_codes",
    "T rows[row_blocks, depth, 16], T columns[column_blocks, depth, 16], f left[row_blocks, 16], "
    f"f right[column_blocks, 16], {_CANDIDATES}",
    "l row_blocks, l column_blocks, l depth, l room, d factor, l row<=points, l row_stop<=points, l column<=points, "
    "l column_stop<=points, l same_points<=1, l k<room",
    T="if",
)
_smallest = Function("smallest", "d D[m, n], i* ids[m, k], d* values[m, k]", "l m, l n, l k")
_measure = Function(
    "measure",
    "X points[n, d], Y others[m, d], i* ids[n, k], d* squared[n, k]",
    "l d, l k, l start<=n, l stop<=n",
    X="fd",
    Y="fd",
)
_mirror = Function("mirror", "i ids[n, k], i kept[n], b* lonely[n, k]", "l k, l start<=n, l stop<=n")
_list_kept = Function(
    "list_kept",
    "i ids[n, k], T squared[n, k], i kept[n], l indptr[n+1], i* columns[edges], T* values[edges]",
    "l k, l start<=n, l stop<=n",
    T="fd",
)
_list_lonely = Function(
    "list_lonely",
    "i ids[n, k], T squared[n, k], i kept[n], b lonely[n, k], l* place[n], i* columns[edges], T* values[edges]",
    "l n, l k",
    T="fd",
)
_gaussian_entries = Function(
    "gaussian_entries",
    "I indptr[n+1], J columns[entries], S squared[entries], d scale[m], T* out[entries]",
    "l start<=n, l stop<=n",
    I="il",
    J="il",
    S="fd",
    T="fd",
)


def shrink(
    squared: FloatArray, ids: IntArray, count: IntArray, worst: FloatArray, k: int, start: int, stop: int
) -> None:
    """Move the k nearest candidates of the rows start to stop to the front; rows with no more are unchanged.

    The k-th distance is found by bisection, sixteen comparisons at a time. Among equal distances the smallest numbers
    are kept. For the arrays see `offer`.
    """
    _shrink((squared, ids, count, worst), k, start, stop)


def offer(
    P: FloatArray,
    left: FloatArray,
    right: FloatArray,
    start: int,
    stop: int,
    row: int,
    column: int,
    column_stop: int,
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
    row, column, column_stop : int
        Number of the first row's point, of the point of column `start`, and of the one after the last; further columns
        are padding.
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
    _offer(arrays, start, stop, row, column, column_stop, mode, k)


def offer_codes(
    rows: IntArray | FloatArray,
    columns: IntArray | FloatArray,
    left: FloatArray,
    right: FloatArray,
    factor: float,
    row: int,
    row_stop: int,
    column: int,
    column_stop: int,
    same_points: bool,
    k: int,
    worst: FloatArray,
    count: IntArray,
    squared: FloatArray,
    ids: IntArray,
) -> None:
    """As `offer` both ways, for points in blocks of codes: ``left_i + right_j - factor x_i.y_j`` are their distances.

    Products are compared where they are formed, in registers.

    Parameters
    ----------
    rows, columns : ndarrays of int32, shape (blocks, ceil(d / 4), 16), or of float32, shape (blocks, d, 16)
        Coordinates of 16 points in each block, four signed bytes in one number, or themselves.
    left, right : ndarrays of float32, shape (blocks, 16)
        Terms of the distances that depend on one point; NaN for padding.
    factor : float
        Rounded to float32.
    row, row_stop, column, column_stop : int
        Numbers of the points. Further points of the blocks are padding.
    same_points : bool
        Whether the columns are the same points as the rows.
    k, worst, count, squared, ids
        As for `offer`.
    """
    arrays = rows, columns, left, right, worst, count, squared, ids
    _offer_codes(arrays, factor, row, row_stop, column, column_stop, same_points, k)


def smallest(D: FloatArray, ids: IntArray, values: FloatArray) -> None:
    """The k smallest entries of each row of `D`, (m, n), into `values`, and their columns into `ids`, both (m, k).

    They are sorted by size, then column. For few of them this is three times as fast as NumPy's partition. There must
    be k finite ones.
    """
    _smallest((D, ids, values))


def measure(X: FloatArray, Y: FloatArray, ids: IntArray, start: int, stop: int, squared: FloatArray) -> None:
    """Squared distances, by differences, from rows start to stop of `X` to the rows `ids`, (m, k), of `Y`.

    Both `ids` and `squared` are sorted by distance, then number.
    """
    _measure((X, Y, ids, squared), start, stop)


def mirror(ids: IntArray, kept: IntArray, lonely: IntArray, start: int, stop: int) -> None:
    """Find the edges that only one of their ends lists, for the points start to stop.

    Of its neighbours `ids`, (N, k), a point keeps the first ``kept``; `lonely`, (N, k), is set to whether one is kept
    that does not keep the point.
    """
    _mirror((ids, kept, lonely), start, stop)


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
    _list_kept((ids, squared, kept, indptr, columns, values), start, stop)


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
    _list_lonely((ids, squared, kept, lonely, place, columns, values))


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
