"""What a product and a fit cost on a cluster, as functions of the data and the workers.

Constants are fitted by least squares of relative errors, with none below zero, to the runs that are for fitting; the
others tell how far off it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import nnls

from heatsketch.backends.dask.gaussian import SQUARE, TASKS
from heatsketch.backends.dask.layout import band_sizes

__all__ = ["Exact", "Sparse", "bytes_of_product", "memory_of_product", "n_tasks"]

Row = dict[str, Any]
_PADDED = 8  # columns are filled up to a multiple of this
_ITEM = 8  # bytes of float64


def _columns(k: int) -> int:
    return ceil(k / _PADDED) * _PADDED


def n_tasks(n: int) -> int:
    """Tasks of a product with every pair: a tile and its halves, and sums as trees."""
    n_bands = len(band_sizes(n))
    tiles = n_bands * (n_bands + 1) // 2
    return 3 * tiles + tiles // 2 + 2 * n_bands * ceil(n_bands / SQUARE)


def memory_of_product(n: int, d: int, k: int, workers: int) -> float:
    """Bytes that a worker needs at most for a product with every pair, beside the interpreter.

    Its share of the points, of the columns, and of the product with the sums it is made of; points and columns of the
    bands of the squares that are under way, with the halves of their tiles; and a tile's own copy of two bands.
    """
    rows, share = max(band_sizes(n)), n / workers
    under_way = 1 + ceil(TASKS * workers / SQUARE**2)
    bands = min(2 * SQUARE * (under_way + 1), len(band_sizes(n)))
    parts = 2 * min(SQUARE**2 * (under_way + 1), len(band_sizes(n)) ** 2 / 2) / workers * rows * k
    tile = 2 * rows * (3 * d + 4 * _columns(k))
    return float(_ITEM * (share * (2 * d + 3 * k) + bands * rows * (d + k) + parts + tile))


def bytes_of_product(n: int, d: int, k: int, workers: int) -> float:
    """Bytes that travel in a product with every pair, at most.

    For each square every worker fetches the points and columns of its bands that it does not hold; half of a tile's
    products are added up elsewhere.
    """
    if workers == 1:
        return 0.0
    n_bands, rows = len(band_sizes(n)), max(band_sizes(n))
    away = 1.0 - 1.0 / workers
    along = ceil(n_bands / SQUARE)
    touched = min(SQUARE, n_bands) * along**2  # 8 bands of a square on the diagonal, 16 of others
    fetched = touched * rows * (d + k) * min(workers, SQUARE**2)
    summed = n_bands**2 * rows * k
    return float(_ITEM * away * (fetched + summed))


@dataclass(frozen=True)
class Exact:
    """Seconds of a product with every pair: per pair, per pair and feature, per pair and column, per task."""

    pair: float
    feature: float
    column: float
    task: float

    @classmethod
    def fit(cls, rows: list[Row]) -> Exact:
        """The constants by runs."""
        return cls(*_fitted([cls._terms(r["n"], r["d"], r["k"], r["workers"]) for r in rows], rows))

    @staticmethod
    def _terms(n: int, d: int, k: int, workers: int) -> list[float]:
        pairs = n * float(n) / 2.0 / workers
        return [pairs, pairs * d, pairs * _columns(k), float(n_tasks(n))]

    def seconds(self, n: int, d: int, k: int, workers: int) -> float:
        """Of one product."""
        return float(np.dot(self._terms(n, d, k, workers), [self.pair, self.feature, self.column, self.task]))


@dataclass(frozen=True)
class Sparse:
    """Seconds of a product with a graph: per entry and column, per byte moved, per task; and of making the graph.

    For the graph each row of a band is looked up in every band that touches its own. No more workers than bands have
    something to do.
    """

    entry: float
    byte: float
    task: float
    asked: float

    @classmethod
    def fit(cls, rows: list[Row]) -> Sparse:
        """The constants by runs."""
        products = _fitted([cls._terms(r) for r in rows], rows)
        making = _fitted([[cls._asked(r)] for r in rows], rows, "graph_seconds")
        return cls(*products, *making)

    @staticmethod
    def _terms(r: Row) -> list[float]:
        busy = min(r["workers"], r["bands"])
        return [r["nnz"] * _columns(r["k"]) / busy, r["halo"] * r["k"] * _ITEM / busy, r["tasks"]]

    @staticmethod
    def _asked(r: Row) -> float:
        """Rows that a worker looks up in bands."""
        return float(r["tasks"] * r["n"] / r["bands"] / min(r["workers"], r["bands"]))

    def seconds(self, row: Row) -> float:
        """Of one product."""
        return float(np.dot(self._terms(row), [self.entry, self.byte, self.task]))

    def graph_seconds(self, row: Row) -> float:
        """Of search and graph."""
        return self.asked * self._asked(row)


def _fitted(terms: list[list[float]], rows: list[Row], name: str = "seconds") -> list[float]:
    """Non-negative constants whose sums are closest to the seconds, by relative error."""
    seconds = np.array([row[name] for row in rows])
    matrix = np.array(terms) / seconds[:, None]
    size = np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
    found = nnls(matrix / size, np.ones(len(rows)))[0] / size
    return [float(constant) for constant in found]
