"""Products with the Gaussian kernel of all pairs without storing it, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._utils.threads import Scratch, n_threads, workers
from ..._utils.typing import FloatArray, IntArray
from ..metrics import EXPONENT_ERROR, central_point, products_in
from .base import Operator

# Points of a tile: a float32 tile of 256 x 256 and the columns that it multiplies stay in the cache.
TILE = 256
_TILES_PER_JOB = 8
# Rows of a tile whose inner products are stored at a time.
_STRIP = 32
# Columns are padded to a multiple of this, the lanes of the compiled product.
_COLUMNS = 8
# Up to this many features differences are computed, which do not cancel and are as fast as a matrix product.
_DIRECT_FEATURES = 6
# Number of features beyond which the rounding of inner products grows in proportion.
_ACCURATE_SUM = 128


@dataclass(frozen=True)
class Arithmetic:
    """How to compute the exponents of a Gaussian kernel accurately enough.

    Attributes
    ----------
    kind : str
        The dtype of the points.
    differences : bool
        Whether to use differences instead of inner products.
    dtype : str
        Of the kernel.
    as_given : bool
        Whether points are not centred: so far apart that centring would round them too much.
    """

    kind: str
    differences: bool
    dtype: str
    as_given: bool = False

    @classmethod
    def choose(cls, norm: float, steepest: float, n_features: int, dtype: np.dtype[Any]) -> Arithmetic:
        """The cheapest that is accurate enough.

        `norm` is the largest squared norm of the centred points in their unit, `steepest` the squared unit over the
        smallest epsilon.
        """
        spread = 4.0 * norm * steepest
        kind = products_in(spread * max(1.0, n_features / _ACCURATE_SUM), dtype)
        differences = n_features <= _DIRECT_FEATURES or kind is None
        if not differences:
            return cls(np.dtype(kind).str, differences, dtype.str)
        # Relative to a difference, rounding is that of the coordinates.
        close = [t for t in (dtype.type, np.float64) if np.finfo(t).eps * spread**0.5 <= EXPONENT_ERROR[dtype]]
        return cls(np.dtype(close[0] if close else np.float64).str, differences, dtype.str, as_given=not close)

    def tiles(self, X: FloatArray, centre: FloatArray, unit: float, scales: FloatArray) -> Tiles:
        """Points prepared for `Tiles.multiply`; `scales`, (n,), are the square roots of each point's epsilon."""
        n, d = X.shape
        if self.as_given:  # a power of two rounds nothing
            centre, unit = np.zeros(d), float(2.0 ** np.round(np.log2(unit)))
        centred = _centred(X, centre, unit)
        columns = np.zeros((d, n + _COLUMNS), dtype=self.kind)  # padded: the last tile reads whole vectors
        columns[:, :n] = centred.T
        return Tiles(
            centred[: 0 if self.differences else n].astype(self.kind, order="C"),
            columns,
            np.einsum("ij,ij->i", centred, centred).astype(self.kind),
            (unit / scales).astype(self.dtype),
        )


@dataclass(frozen=True)
class Tiles:
    """Points prepared for tiles of the kernel.

    Attributes
    ----------
    points : ndarray of shape (N, d), or (0, d) if differences are used
    columns : ndarray of shape (d, N + 8)
        The transpose, padded.
    norms, scale : ndarrays of shape (N,)
        Squared norms, and factors of the exponents.
    """

    points: FloatArray
    columns: FloatArray
    norms: FloatArray
    scale: FloatArray

    def __len__(self) -> int:
        return len(self.norms)

    def joined(self, other: Tiles) -> Tiles:
        """These points followed by others."""
        return Tiles(
            np.concatenate([self.points, other.points]),
            np.hstack([self.columns[:, : len(self)], other.columns]),
            np.concatenate([self.norms, other.norms]),
            np.concatenate([self.scale, other.scale]),
        )

    def multiply(
        self, pairs: IntArray, V: FloatArray, out: FloatArray, scratch: Scratch, *, zero_diagonal: bool = False
    ) -> None:
        """Add the products of tiles and of their transposes with `V` to `out`, both from `padded`.

        The rows of `pairs`, (p, 4), are the top, bottom, left and right of tiles of at most TILE x TILE.
        """
        from ...compiled.products import tile_products  # noqa: PLC0415

        P = scratch.array("products", (_STRIP, TILE + _COLUMNS), self.columns.dtype)
        K = scratch.array("kernel", (TILE, TILE), self.scale.dtype)
        tile_products(pairs, self.points, self.columns, self.norms, self.scale, zero_diagonal, V, out, P, K)


def padded(V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A block with columns padded by zeros to full vectors, and one of zeros of the same shape."""
    k = V.shape[1]
    width = -(-k // _COLUMNS) * _COLUMNS
    V = np.ascontiguousarray(np.pad(V, ((0, 0), (0, width - k))))
    return V, np.zeros(V.shape, dtype=V.dtype)


def largest_norm(X: FloatArray, centre: FloatArray, unit: float) -> float:
    """The largest squared norm of the centred points in their unit."""
    centred = _centred(X, centre, unit)
    return float(np.einsum("ij,ij->i", centred, centred).max(initial=0.0))


def _centred(X: FloatArray, centre: FloatArray, unit: float) -> FloatArray:
    centred: FloatArray = (np.asarray(X, dtype=np.float64) - centre) / unit
    return centred


class TiledGaussianOperator(Operator):
    """Products with ``exp(-|x_i - x_j|^2 / epsilon)`` for all pairs, in memory O(N (d + k)).

    Each tile above the diagonal is computed once (a matrix product for the distances, one pass for the exponential) and
    used for both of its blocks. Tiles are taken in rounds of a tournament, in which no block of rows appears twice:
    threads need no locks, and the order of every sum does not depend on their number.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    epsilon : float, or ndarray of shape (N,)
        A number, or the squared local scale s_i^2 of each point: then epsilon_ij = s_i s_j.
    zero_diagonal : bool
        Whether to set the affinity of a point with itself to zero.
    dtype : dtype of the products

    Notes
    -----
    ``|x|^2 + |y|^2 - 2 x.y`` cancels if points are close for their distance from the centre. The largest norm and the
    smallest epsilon bound the error of the exponents: float32 products are used while it is below 1e-5, then float64
    products, and differences if even these are not accurate enough (1e-10 for float64 kernels) or in few dimensions.
    """

    def __init__(
        self,
        X: FloatArray,
        epsilon: float | FloatArray,
        *,
        zero_diagonal: bool = False,
        dtype: Any = np.float64,
    ) -> None:
        n = X.shape[0]
        self.shape, self.dtype, self.zero_diagonal = (n, n), np.dtype(dtype), zero_diagonal
        scales = np.broadcast_to(np.sqrt(np.asarray(epsilon, dtype=np.float64)), n)
        unit = float(np.median(scales))  # numbers near 1, whatever the unit of X
        centre = central_point(X)
        norm = largest_norm(X, centre, unit)
        steepest = float((unit / scales).max()) ** 2
        self._tiles = Arithmetic.choose(norm, steepest, X.shape[1], self.dtype).tiles(X, centre, unit, scales)

    def matmat(self, V: FloatArray) -> FloatArray:
        """K V, tile by tile."""
        V = self.check_block(V)
        k = V.shape[1]
        V, out = padded(V)
        scratch = Scratch()

        def multiply(pairs: IntArray) -> None:
            self._tiles.multiply(pairs, V, out, scratch, zero_diagonal=self.zero_diagonal)

        threads = n_threads()
        with workers(threads, blas=False) as share:
            for fixture in tournament(self.shape[0], TILE):
                corners = [(a.start, a.stop, b.start, b.stop) for a, b in fixture]
                pairs = np.array(corners, dtype=np.int64).reshape(-1, 4)
                # The same number of tiles for each thread, in jobs large enough to pay for their scheduling.
                n_jobs = threads * -(-len(pairs) // (threads * _TILES_PER_JOB))
                for _ in share(multiply, np.array_split(pairs, n_jobs) if n_jobs else []):
                    pass
        return np.ascontiguousarray(out[:, :k])


def tournament(n: int, tile: int) -> Iterator[list[tuple[slice, slice]]]:
    """All unordered pairs of blocks, in rounds in which each block appears at most once (the circle method).

    Examples
    --------
    >>> from heatsketch.linalg.operators.tiled import tournament
    >>> for fixture in tournament(5, 2):
    ...     print([(a.start, b.start) for a, b in fixture])
    [(0, 0), (2, 2), (4, 4)]
    [(2, 4)]
    [(0, 2)]
    [(0, 4)]
    """
    blocks: list[slice | None] = [slice(start, min(n, start + tile)) for start in range(0, n, tile)]
    yield [(block, block) for block in blocks if block is not None]
    if len(blocks) % 2:
        blocks.append(None)  # its opponent has a bye
    ring = blocks[1:]
    for turn in range(len(ring)):
        circle = [blocks[0], *ring[turn:], *ring[:turn]]
        pairs = zip(circle[: len(circle) // 2], reversed(circle[len(circle) // 2 :]), strict=True)
        yield [(min(a, b, key=_start), max(a, b, key=_start)) for a, b in pairs if a is not None and b is not None]


def _start(block: slice) -> int:
    return int(block.start)
