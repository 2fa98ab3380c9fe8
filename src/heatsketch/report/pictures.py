"""What a picture is made of: coordinates in 16 bits, and cells that stand for more points than can be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._utils.typing import FloatArray, IntArray
from .columns import MOST_COLOURS, Column

__all__ = ["Coordinates", "Raster", "quantise", "rasterise"]

# Whole numbers on either side of the centre.
_STEPS = 32767
# Levels of a mean within a cell; 0 is an empty cell, and 255 one whose values are all missing.
_LEVELS, _NO_VALUE = 254, 255


@dataclass(frozen=True)
class Coordinates:
    """Points in a box, in whole numbers.

    Attributes
    ----------
    numbers : ndarray of uint16, shape (m, d)
        ``centre + radius * (numbers - 32768) / 32767`` are the coordinates, within ``radius / 65534``.
    centre : ndarray of shape (d,)
    radius : float
        Half the longest side of the box.
    """

    numbers: NDArray[np.uint16]
    centre: FloatArray
    radius: float

    def restored(self) -> FloatArray:
        """The coordinates, (m, d)."""
        found: FloatArray = self.centre + self.radius * (self.numbers.astype(np.float64) - _STEPS - 1) / _STEPS
        return found


def box(Y: FloatArray) -> tuple[FloatArray, float]:
    """The centre of the box around the points, and half its longest side."""
    low, high = Y.min(axis=0).astype(np.float64), Y.max(axis=0).astype(np.float64)
    return low / 2 + high / 2, float((high / 2 - low / 2).max())


def quantise(Y: FloatArray, rows: IntArray, d: int) -> Coordinates:
    """Some rows of an embedding as whole numbers, in the box of all rows, with zeros for axes that it lacks."""
    centre, radius = box(Y)
    shifted = (Y[rows].astype(np.float64) - centre) / (radius if radius > 0 else 1.0)
    numbers = np.full((len(rows), d), _STEPS + 1, dtype=np.uint16)
    numbers[:, : Y.shape[1]] = np.rint(shifted * _STEPS) + _STEPS + 1
    return Coordinates(numbers, np.append(centre, np.zeros(d - Y.shape[1])), radius)


@dataclass(frozen=True)
class Raster:
    """All points of a picture, counted in the cells of a grid over its box.

    Attributes
    ----------
    counts : ndarray of uint32, shape (size, size)
        By the second coordinate, then the first.
    colours : list of ndarray of uint8, shape (size, size)
        For each column the mean in each cell, from 1 to 254 between its `ranges`, or the commonest group, from 1; 0
        where there is no point, and 255 where all values are missing.
    """

    counts: NDArray[np.uint32]
    colours: list[NDArray[np.uint8]]


def rasterise(Y: FloatArray, columns: Sequence[Column], ranges: Sequence[tuple[float, float]], size: int) -> Raster:
    """Count points in cells, with the mean or the commonest value of each column.

    Parameters
    ----------
    Y : ndarray of shape (n, 2)
    columns : sequence of Column
        Of all n points.
    ranges : sequence of (float, float)
        Least and largest value of each column of numbers; not used for groups.
    size : int
        Cells along a side.
    """
    centre, radius = box(Y)
    places = ((Y.astype(np.float64) - centre) / (radius if radius > 0 else 1.0) + 1.0) * (size / 2.0)
    first, second = np.clip(places.astype(np.int64), 0, size - 1).T
    cells, n_cells = second * size + first, size * size
    counts = np.bincount(cells, minlength=n_cells)
    colours = [_colours(cells, column, span, n_cells) for column, span in zip(columns, ranges, strict=True)]
    shape = (size, size)
    return Raster(counts.astype(np.uint32).reshape(shape), [colour.reshape(shape) for colour in colours])


def _colours(cells: IntArray, column: Column, span: tuple[float, float], n_cells: int) -> NDArray[np.uint8]:
    if column.labels is None:
        return _means(cells, column.values.astype(np.float64), span, n_cells)
    return _majority(cells, column, n_cells)


def _means(cells: IntArray, values: FloatArray, span: tuple[float, float], n_cells: int) -> NDArray[np.uint8]:
    known = np.isfinite(values)
    counts = np.bincount(cells[known], minlength=n_cells)
    sums = np.bincount(cells[known], weights=values[known], minlength=n_cells)
    low, high = span
    shares = (sums / np.maximum(counts, 1) - low) / (high - low if high > low else 1.0)
    levels = np.rint(np.clip(shares, 0.0, 1.0) * (_LEVELS - 1)) + 1
    levels[counts == 0] = 0
    levels[(counts == 0) & (np.bincount(cells, minlength=n_cells) > 0)] = _NO_VALUE
    return levels.astype(np.uint8)


def _majority(cells: IntArray, column: Column, n_cells: int) -> NDArray[np.uint8]:
    """The commonest group in each cell; groups beyond those that have a colour count as one."""
    assert column.labels is not None
    kinds = min(len(column.labels), MOST_COLOURS) + 2  # those with a colour, the others, and missing
    codes = np.where(column.values < 0, kinds - 1, np.minimum(column.values, kinds - 2))
    votes = np.bincount(cells * kinds + codes, minlength=n_cells * kinds).reshape(n_cells, kinds)
    winners = votes.argmax(axis=1) + 1
    winners[winners == kinds] = _NO_VALUE
    winners[votes.sum(axis=1) == 0] = 0
    found: NDArray[np.uint8] = winners.astype(np.uint8)
    return found
