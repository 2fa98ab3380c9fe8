r"""The repulsion of all points, as a function of place and scale, by near pairs and a grid.

A point at y with the scale s has the similarity ``q_j = s s_j / (s s_j + |y - y_j|^2)`` to point j. The sum over all
points is divided, as in particle-mesh methods [1]_. With ``r = |y - y_j|``, a radius R and
``z = (R^2 - r^2)_+ / (R^2 + s s_j)`` it is::

    q = q z^4 + q (1 - z^4).

The first part is 0 beyond R, and is summed over the points in neighbouring cells. The second is smooth: within R it is
the Taylor polynomial of q in r^2 around R^2. It is interpolated by cubic splines on a grid, where the sum is a
convolution [2]_, and by polynomials in the square roots of both scales. The force is half the negative gradient of the
sum, with the gradient of the splines.

References
----------
.. [1] Hockney, Eastwood. "Computer simulation using particles". 1988.
.. [2] Linderman, Rachh, Hoskins, Steinerberger, Kluger. "Fast interpolation-based t-SNE for improved visualization of
   single-cell RNA-seq data". Nature Methods, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.fft import dctn, irfftn, next_fast_len, rfftn

from .._utils.threads import each, n_threads, shares
from .._utils.typing import FloatArray, IntArray
from ..compiled import forces as loops

__all__ = ["Field", "Grid", "Scales"]

# Nodes of the grid in a cell along each axis; the near part reaches one cell. The compiled loops have the same number.
_CELL = 5
# Nodes around the points, and between a grid and its periodic image, where splines of the kernel ring.
_MARGIN, _GAP = 3, 8
# Error of the polynomials in the scales, relative.
_SCALE_ERROR = 2e-4
# A node of the grid takes as long as so many near pairs.
_NODE_PAIRS = 60.0
# Cells along the longest axis: the numbers that are tried.
_FEWEST_CELLS, _MOST_CELLS = 4, 512
# A grid is made again if points leave it, or fill less than this share of an axis.
_FILLED = 0.6
# Pieces in which points are spread on the grid: neighbouring pieces one after another.
_PIECES = 16


@dataclass(frozen=True)
class Scales:
    """Scales of points, and their weights in a basis of polynomials of the square root.

    Attributes
    ----------
    values : ndarray of shape (n,)
    nodes : ndarray of shape (m,)
        The scales between which the basis interpolates.
    basis : ndarray of shape (n, m)
    """

    values: FloatArray
    nodes: FloatArray
    basis: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Scales:
        """The smallest basis, by Chebyshev nodes, that is accurate enough for the range of the scales."""
        roots = np.sqrt(values.astype(np.float64))
        middle, radius, m = 0.5 * (roots.max() + roots.min()), 0.5 * float(np.ptp(roots)), 1
        while True:
            nodes = middle + radius * np.cos(np.pi * (np.arange(m) + 0.5) / m)
            if _scale_error(roots, nodes) <= _SCALE_ERROR:
                return cls(values, nodes**2, _lagrange(roots, nodes))
            m += 1

    def of_others(self, values: FloatArray) -> Scales:
        """Scales of other points, within the range of these, in the same basis."""
        values = np.clip(values, self.values.min(), self.values.max()).astype(np.float32)
        return Scales(values, self.nodes, _lagrange(np.sqrt(values.astype(np.float64)), np.sqrt(self.nodes)))

    def at(self, points: Any) -> Scales:
        """Scales of some of the points."""
        return Scales(self.values[points], self.nodes, self.basis[points])


def _scale_error(roots: FloatArray, nodes: FloatArray) -> float:
    """The largest error of the interpolation of ``q(s, r)`` in s by nodes of sqrt(s), relative to q, at all r.

    The far sums, which the grid gives, are over all distances: q counts as its mean over the plane does, with the
    weight r up to a distance at which it is small.
    """
    x = np.linspace(roots.min(), roots.max(), 33)
    s, r = np.square(x)[:, None], np.geomspace(0.1, 30.0, 60) * float(np.median(roots)) ** 2
    weight = np.square(r)  # r dr on a geometric grid
    typical = float(np.median(roots)) ** 2
    exact = s * typical / (s * typical + r * r)
    at = np.square(nodes)[:, None] * typical
    found = _lagrange(x, nodes).astype(np.float64) @ (at / (at + r * r))
    return float((np.abs((found - exact) @ weight) / (exact @ weight)).max())


def _lagrange(x: FloatArray, nodes: FloatArray) -> FloatArray:
    """Lagrange polynomials of the nodes, (m,), at x, (n,): an array of shape (n, m) in float32."""
    apart = x[:, None] - nodes
    found = np.ones_like(apart)
    for a in range(len(nodes)):
        for b in range(len(nodes)):
            if a != b:
                found[:, a] *= apart[:, b] / (nodes[a] - nodes[b])
    return found.astype(np.float32)


@dataclass(frozen=True)
class Grid:
    """A grid around points in one to three dimensions, axes of which are counted from the last of three.

    Attributes
    ----------
    origin : ndarray of shape (3,)
    cells, sizes : ndarrays of int, shape (3,)
        Numbers of cells, and of nodes with those that are padding.
    spacing : float
    transform : ndarray of shape (m, m, nodes)
        Of the smooth part of q between points with two of the m scales, divided by those of the splines.
    """

    origin: FloatArray
    cells: IntArray
    sizes: IntArray
    spacing: float
    transform: FloatArray

    @property
    def reach(self) -> float:
        """The squared radius of the near part."""
        return (_CELL * self.spacing) ** 2

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes along each axis."""
        return tuple(self.sizes.tolist())

    @classmethod
    def around(cls, Y: FloatArray, scales: Scales) -> Grid:
        """The grid that takes the least time for points Y, (n, k), and others nearby."""
        k, low, width = Y.shape[1], Y.min(axis=0).astype(np.float64), np.ptp(Y, axis=0).astype(np.float64)
        low, width = low - 0.1 * width, 1.2 * np.maximum(width, 1e-3)
        spacing = _best_spacing(Y, low, width)
        inner = np.ceil(width / spacing).astype(np.int64) + 2 * _MARGIN
        origin, cells, sizes = np.zeros(3), np.ones(3, dtype=np.int64), np.ones(3, dtype=np.int64)
        origin[3 - k :], cells[3 - k :] = low - _MARGIN * spacing, -(-inner // _CELL)
        sizes[3 - k :] = [2 * next_fast_len(int(_CELL * c + _GAP // 2)) for c in cells[3 - k :]]  # even
        return cls(origin, cells, sizes, spacing, _transform(sizes, spacing, scales.nodes))

    def suits(self, Y: FloatArray) -> bool:
        """Whether points Y, (n, k), are on the grid and fill it."""
        k = Y.shape[1]
        width = (_CELL * self.cells[3 - k :] - 2 * _MARGIN) * self.spacing
        low = self.origin[3 - k :] + _MARGIN * self.spacing
        inside = (Y.min(axis=0) >= low).all() and (Y.max(axis=0) <= low + width).all()
        return bool(inside and np.ptp(Y, axis=0).max() >= _FILLED * width.max())


def _best_spacing(Y: FloatArray, low: FloatArray, width: FloatArray) -> float:
    """The spacing for which near pairs and nodes of the grid together take the least time."""
    k = Y.shape[1]
    best = np.inf, 0.0
    number = _FEWEST_CELLS
    while number <= _MOST_CELLS:
        side = float(width.max()) / number
        cells = np.maximum(1, np.ceil(width / side)).astype(np.int64)
        place = np.ravel_multi_index(tuple(((Y - low) / side).astype(np.int64).T), cells.tolist(), mode="clip")
        pairs = 3.0**k * float(np.square(np.bincount(place).astype(np.float64)).sum())
        cost = pairs + _NODE_PAIRS * float(np.prod(2.0 * _CELL * cells))
        best = min(best, (cost, side / _CELL))
        number += max(1, number // 4)
    return best[1]


def _transform(sizes: IntArray, spacing: float, scales: FloatArray) -> FloatArray:
    """The transform of a grid, in float32: real, as its functions are symmetric, and computed on one of their parts."""
    squared, splines, axes = np.zeros((1, 1, 1)), np.ones((1, 1, 1)), []
    for axis, size in enumerate(sizes.tolist()):
        if size == 1:
            continue
        axes.append(axis)
        along = np.arange(size // 2 + 1)
        shape = [-1 if other == axis else 1 for other in range(3)]
        squared = squared + np.square(along * spacing).reshape(shape)
        # Of 1/6, 2/3, 1/6 at the nodes.
        splines = splines * ((2.0 + np.cos(2.0 * np.pi * along / size)) / 3.0).reshape(shape)
    reach, m = (_CELL * spacing) ** 2, len(scales)
    # Negative frequencies of all axes but the last, which a real transform has once.
    mirrored = [np.minimum(np.arange(size), size - np.arange(size)) for size in sizes[:-1].tolist()]
    found = np.empty((m, m, *sizes[:-1].tolist(), splines.shape[2]), dtype=np.float32)
    for a in range(m):
        for b in range(a + 1):
            both = scales[a] * scales[b]
            z = np.maximum(reach - squared, 0.0) / (reach + both)
            smooth = both / (both + squared) * (1.0 - z**4)
            part = (dctn(smooth, type=1, axes=axes, workers=n_threads()) / splines**2).astype(np.float32)
            found[a, b] = found[b, a] = part[np.ix_(*mirrored, np.arange(part.shape[2]))]
    return found


@dataclass(frozen=True)
class Field:
    """The repulsion of points Y, (n, k), with scales, at any place.

    Attributes
    ----------
    arrays : tuple of ndarrays
        For the compiled loops: the points, (k, n), and their scales, sorted by cells; the first point of each cell;
        the origin, cells and sizes of the grid, and the potentials on it, (m, nodes). There are no cells if all points
        are summed directly.
    order : ndarray of int, shape (n,), or None
        The number of each point in the order of the cells.
    spacing, reach : float
    """

    arrays: tuple[Any, ...]
    order: IntArray | None
    spacing: float
    reach: float
    scales: Scales

    @classmethod
    def of_points(cls, Y: FloatArray, scales: Scales) -> Field:
        """The field of points that are summed directly."""
        nothing = np.zeros(3), np.ones(3, dtype=np.int64), np.ones(3, dtype=np.int64)
        empty = np.zeros((len(scales.nodes), 1), dtype=np.float32)
        arrays = np.ascontiguousarray(Y.T), scales.values, np.zeros(1, dtype=np.int32), *nothing, empty
        return cls(arrays, None, 1.0, 1.0, scales)

    @classmethod
    def on_grid(cls, grid: Grid, Y: FloatArray, scales: Scales) -> Field:
        """The field of points by a grid."""
        n, n_cells = len(Y), int(np.prod(grid.cells))
        cell_of, order, starts = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n_cells + 1, np.int32)
        loops.bin_points(Y, grid.origin, grid.cells, cell_of, starts, order, grid.spacing)
        Y, scales = Y[order], scales.at(order)
        shape = grid.origin, grid.cells, grid.sizes
        arrays = np.ascontiguousarray(Y.T), scales.values, starts, *shape, _potentials(grid, Y, scales, starts)
        return cls(arrays, order, grid.spacing, grid.reach, scales)

    def between(self, Y: FloatArray, scales: Scales) -> tuple[FloatArray, float]:
        """Forces on points Y, (n, k), among which those of the field are, and the sum of similarities to others."""
        out, totals, n = np.empty_like(Y), np.empty(len(Y)), self.arrays[0].shape[1]

        def repel(rows: slice) -> None:
            numbers = self.spacing, self.reach, rows.start, rows.stop
            loops.repel_by_grid(self.arrays, Y, scales.values, scales.basis, out, totals, *numbers)

        each(repel, shares(len(Y), Y.shape[1] * (n if self.order is None else 512)), blas=False)
        return out, float(totals.sum()) - n

    def forces(self) -> tuple[FloatArray, float]:
        """Forces on the points of the field themselves, in their own order, and the sum of similarities."""
        assert self.order is not None
        found, total = self.between(np.ascontiguousarray(self.arrays[0].T), self.scales)
        out = np.empty_like(found)
        out[self.order] = found
        return out, total


def _potentials(grid: Grid, Y: FloatArray, scales: Scales, starts: IntArray) -> FloatArray:
    """The smooth parts of the sums over all points, sorted by cells, on the grid, (m, nodes)."""
    charges = np.zeros((len(scales.nodes), int(np.prod(grid.sizes))), dtype=np.float32)
    shape = grid.origin, grid.cells, grid.sizes

    def spread(rows: tuple[int, int]) -> None:
        loops.spread(Y, scales.basis, *shape, charges, grid.spacing, *rows)

    # Splines reach into the next row of cells: pieces of at least two rows, every other one at a time.
    axis = 3 - Y.shape[1]
    rows_of_cells, row = int(grid.cells[axis]), int(np.prod(grid.cells[axis + 1 :]))
    ends = np.unique(np.linspace(0, rows_of_cells // 2, _PIECES + 1).astype(np.int64)) * 2
    ends[-1] = rows_of_cells
    pieces = [(int(starts[a * row]), int(starts[b * row])) for a, b in pairwise(ends)]
    for parity in (0, 1):
        each(spread, pieces[parity::2], blas=False)
    axes, workers = (1, 2, 3), n_threads()
    spectra = rfftn(charges.reshape(-1, *grid.shape), axes=axes, workers=workers)
    mixed = np.empty_like(spectra)

    def mix(rows: slice) -> None:
        for a, row in enumerate(grid.transform):
            mixed[a, :, rows] = sum(one[:, rows] * spectra[b, :, rows] for b, one in enumerate(row))

    each(mix, shares(spectra.shape[2], 4 * spectra[:, :, 0].size * len(spectra)), blas=False)
    potentials = irfftn(mixed, s=grid.shape, axes=axes, workers=workers).reshape(charges.shape)
    return np.ascontiguousarray(potentials)
