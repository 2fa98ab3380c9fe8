"""How the rows of a data set lie on the workers: in bands, as they came or sorted by place, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import getitem
from typing import Any

import numpy as np

from ..._utils.extras import optional
from ..._utils.typing import FloatArray, IntArray
from ...linalg.sketch import ColumnSketch, Sketch, UnitSketch
from .tasks import Plan, gathered, pick, same, settled

__all__ = ["BAND", "Layout", "band_sizes", "divided", "moved"]

# Rows of a band: at least so many, so that a task is worth its handling; so many bands as keep hundreds of workers
# busy, then larger ones up to so many rows, and never more bands than the scheduler can handle the pairs of. They
# follow from the number of rows alone: results do not depend on who computes them. Only GPUs, which are done with such
# a task in no time, get the largest.
BAND = 4096
_MOST_ROWS, _BANDS, _MOST_BANDS = 65_536, 64, 512


def band_sizes(n_samples: int, *, largest: bool = False) -> tuple[int, ...]:
    """Rows of each band, of equal size but for one row."""
    rows = _MOST_ROWS if largest else min(max(BAND, -(-n_samples // _BANDS)), _MOST_ROWS)
    rows = max(rows, -(-n_samples // _MOST_BANDS))
    n_bands = max(1, -(-n_samples // rows))
    return tuple(n_samples * (b + 1) // n_bands - n_samples * b // n_bands for b in range(n_bands))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the rows of a data set are.

    Attributes
    ----------
    sizes : tuple of int
        Rows of each band.
    given : tuple of int
        Chunks of the rows as the user gave them.
    numbers : Dask array of int64, shape (N,), in bands, or None
        Which row of the data each row is, increasing within a band; None where they come in their own order.
    """

    sizes: tuple[int, ...]
    given: tuple[int, ...]
    numbers: Any = None

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> list[int]:
        """The first row of each band, and the end."""
        return [0, *accumulate(self.sizes)]

    def arranged(self, V: Any) -> Any:
        """Rows in the order and the chunks of the data as rows in bands."""
        if self.numbers is None:
            return V.rechunk({0: self.sizes, **({1: -1} if V.ndim == 2 else {})})
        V = V.rechunk({0: self._portions, **({1: -1} if V.ndim == 2 else {})})
        return moved(V, self.sizes, self._destinations_of_data(), "to-bands")

    def restored(self, V: Any) -> Any:
        """Rows in bands as rows in the order and the chunks of the data."""
        if self.numbers is None:
            return V.rechunk({0: self.given})
        return moved(V, self._portions, self.numbers, "to-rows").rechunk({0: self.given})

    @property
    def _portions(self) -> tuple[int, ...]:
        """Chunks of the rows in the order of the data as they are moved: not many more than there are bands."""
        return self.given if len(self.given) <= 2 * len(self.sizes) else band_sizes(self.n_samples)

    def _destinations_of_data(self) -> Any:
        """Where in the bands each row of the data is, (N,), in the order of the data."""
        if "_destinations" not in self.__dict__:
            positions = self.constant(1, np.int64).cumsum(axis=0) - 1
            self.__dict__["_destinations"] = settled(moved(positions, self._portions, self.numbers, "to-rows"))
        return self.__dict__["_destinations"]

    def constant(self, value: float, dtype: Any = np.float64) -> Any:
        """A vector of equal entries, (N,), in bands."""
        return optional("dask.array", "compute on a cluster", "dask").full(
            self.n_samples, value, chunks=(self.sizes,), dtype=dtype
        )

    def same_as(self, other: Layout) -> bool:
        """Whether rows lie in the same chunks and order."""
        return self is other or (self.sizes == other.sizes and self.numbers is other.numbers)

    def sketched(self, sketch: Sketch, n_columns: int, *, first_column: int = 0, dtype: Any = np.float64) -> Any:
        """Columns of a sketch at the rows of the data, (N, n_columns): each worker makes its own rows."""
        last = first_column + n_columns
        sketch.require(last)
        if isinstance(sketch, ColumnSketch):  # its points are found once, not for every chunk
            scale = np.full(last, np.sqrt(self.n_samples))
            sketch = UnitSketch.at(sketch.taken(last), scale)
        plan = Plan() if self.numbers is None else Plan(self.numbers)
        for b, size in enumerate(self.sizes):
            rows: Any = range(self.starts[b], self.starts[b] + size) if self.numbers is None else None
            rows = plan.keys(self.numbers)[b] if rows is None else rows
            plan.add("sketch", (b, 0), _sketch_rows, sketch, rows, (first_column, n_columns), np.dtype(dtype).str)
        return plan.array("sketch", self.sizes, n_columns, dtype)

    def numbers_at(self, positions: IntArray) -> IntArray:
        """The numbers of the samples at the given rows, shape (m,)."""
        if self.numbers is None or not len(positions):
            return positions
        return np.asarray(pick(self.numbers, positions))

    def positions(self, numbers: IntArray) -> IntArray:
        """Where in the bands the given rows of the data are, shape (m,)."""
        numbers = np.asarray(numbers, dtype=np.int64)
        if self.numbers is None:
            return numbers
        wanted, where = np.unique(numbers, return_inverse=True)
        plan = Plan(self.numbers)
        sought = plan.add("rows-sought", 0, same, wanted)  # sent once, not with every task
        for b, key in enumerate(plan.keys(self.numbers)):
            plan.add("find-rows", b, _find, key, sought, self.starts[b])
        found = gathered(*plan.parts("find-rows", range(len(self.sizes))))
        out = np.empty(len(wanted), dtype=np.int64)
        for which, position in found if len(self.sizes) > 1 else [found]:
            out[which] = position
        return out[where.reshape(numbers.shape)]


def moved(V: Any, sizes: tuple[int, ...], destinations: Any, label: str) -> Any:
    """Rows of a Dask array put elsewhere: row i goes to row ``destinations[i]`` of an array with chunks `sizes`.

    Each chunk is split by where its rows go, and only these pieces travel.
    """
    plan = Plan(V, destinations)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    split = [
        plan.add(f"split-{label}", c, _split, rows, where, starts)
        for c, (rows, where) in enumerate(zip(plan.keys(V), plan.keys(destinations), strict=True))
    ]
    trailing = tuple(V.shape[1:])
    for b, size in enumerate(sizes):
        pieces = [plan.add(f"send-{label}", (c, b), getitem, key, b) for c, key in enumerate(split)]
        index = (b, 0) if V.ndim == 2 else b
        plan.add(f"rows-{label}", index, _assemble, pieces, (size, *trailing), np.dtype(V.dtype).str)
    return plan.array(f"rows-{label}", sizes, V.shape[1] if V.ndim == 2 else None, V.dtype)


def _split(rows: FloatArray, destinations: IntArray, starts: IntArray) -> list[tuple[IntArray, FloatArray]]:
    """Rows by the chunk they go to, each with their places in it."""
    chunk = np.searchsorted(starts, destinations, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    ends = np.searchsorted(chunk[order], np.arange(len(starts)))
    return [
        (destinations[some] - starts[c], rows[some]) for c, some in enumerate(order[a:b] for a, b in pairwise(ends))
    ]


def _assemble(pieces: list[tuple[IntArray, FloatArray]], shape: tuple[int, ...], dtype: str) -> FloatArray:
    out = np.empty(shape, dtype=dtype)
    for places, rows in pieces:
        out[places] = rows
    return out


def _sketch_rows(sketch: Sketch, rows: Any, columns: tuple[int, int], dtype: str) -> FloatArray:
    first, count = columns
    return sketch.block(np.asarray(rows, dtype=np.int64), np.arange(first, first + count)).astype(dtype, copy=False)


def divided(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Chunks divided into such of at most so many rows."""
    return tuple(min(most, size - start) for size in sizes for start in range(0, max(size, 1), most))


def _find(numbers: IntArray, wanted: IntArray, start: int) -> tuple[IntArray, IntArray]:
    """Which of the wanted numbers are here, and where."""
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    here = np.flatnonzero(numbers[places] == wanted)
    return here, start + places[here]
