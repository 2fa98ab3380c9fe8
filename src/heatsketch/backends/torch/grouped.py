r"""Search for nearest neighbours by fused Triton programs: tensor cores compare all pairs, minima stay in registers.

Points are sorted so that close points have close numbers, and each run of 32 is a group. A first program multiplies
all pairs and writes only the smallest ``|y|^2 / 2 - x.y`` of each group. The k nearest points are in the k groups with
the smallest minima. A second program computes the distances to all points of these groups, and somewhat more groups,
by differences. :mod:`heatsketch.backends.torch.nearest` measures the nearest of them in float64, and proves that no
neighbour was missed.

Tensor cores multiply float16 numbers (11 bits) and add in float32. Each coordinate is a sum of two of them,
``x = x' + x''``, and ``x.y = x'.y' + x'.y'' + x''.y'``; the norm is a sum of three. The factors have these as columns:

    L = (-x', -x', -x'', 1, 1, 1),    R = (y', y'', y', n', n'', n'''),    n = |y|^2 / 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..._utils.chunks import chunks
from .gaussian import locality_order
from .halves import CONVERTED, DEEP, PIECE, factor_width, fill, leading, pieces
from .products import Tile, fitted, shared
from .search_programs import COLUMNS, RUN, candidates_kernel, minima_kernel
from .tensors import on

__all__ = ["LARGEST_NORM", "RUN", "Groups", "depth", "held_bytes", "rounding"]

# Norms are at most this, so that their squares are within float16.
LARGEST_NORM = 128.0
# What is smaller than this is lost when a coordinate is split into two float16 numbers.
_LOST = 2.0**-25
# Half the squared norm of points that only fill up a group: farther than any other.
_ELSEWHERE = 6e4
# Tiles, the fastest on an H200 first; the others for chips with less memory.
_TILES = Tile(128, COLUMNS, 4, 3), Tile(128, COLUMNS, 4, 2), Tile(64, COLUMNS, 4, 2), Tile(32, COLUMNS, 4, 1)
# Rows of a left factor are padded to a multiple of this.
_ROWS = 128
# Least number of programs that share the columns of a block of rows.
_SHARES = 8


def depth(d: int) -> int:
    """Columns of the factors of points with d features."""
    return factor_width(3 * d + 3)


def held_bytes(n: int, d: int) -> int:
    """Bytes on the device that groups of n points take: both factors of the points, in float16 and float32."""
    return n * (2 * depth(d) + 4 * (d + 4))


def rounding(d: int) -> tuple[float, float]:
    """Bounds of the error of a squared distance: relative to ``|x|^2 + |y|^2``, and absolute.

    Tensor cores add up to 16 products and a sum at a time, each truncated to 23 bits of the largest. Twice that covers
    the rounding of coordinates, norms and differences.
    """
    return 2.0 * (depth(d) + 16) * 2.0**-23, 2.0 * (2.0 * d**0.5 + 1.0) * LARGEST_NORM * _LOST


def _tiles(position: Any) -> tuple[Any, Any, Any]:
    """Sheet, tile and column of the points at some positions."""
    return position // (RUN * COLUMNS), position % RUN, position // RUN % COLUMNS


class Groups:
    """Points on a device in groups, for searches.

    Parameters
    ----------
    points : callable
        Gives the points of some rows, an index, in float64, centred and with norms of at most `LARGEST_NORM`, (m, d).
    n, d : int
        Number of points and features.
    device : torch.device

    Attributes
    ----------
    order : tensor of int64, shape (n,)
        Position i is point ``order[i]``; groups are runs of positions.
    n_groups : int
        Including those that only fill up the last tiles.
    """

    def __init__(self, points: Callable[[Any], Any], n: int, d: int, device: Any) -> None:
        self.n, self.d, self._device = n, d, device
        self._width = -(-d // 4) * 4
        sheet = RUN * COLUMNS
        full = -(-n // sheet) * sheet
        self.n_groups = full // RUN
        rough = torch.empty((n, d), dtype=torch.float32, device=device)
        for some in chunks(n, d, CONVERTED):
            rough[some] = points(some).float()
        self.order = locality_order(rough)
        del rough
        self._x = torch.zeros((full, self._width), dtype=torch.float32, device=device)
        # Tile t of a sheet has the t-th points of its groups.
        self._right = torch.zeros((full, depth(d)), dtype=torch.float16, device=device)
        tiled = self._right.view(-1, RUN, COLUMNS, depth(d))
        for some in chunks(n, d, CONVERTED):
            x = points(self.order[some])
            self._x[some, :d] = x.float()
            norms = 0.5 * x.square().sum(1, keepdim=True)
            first, second = pieces(x, 2)
            block = torch.zeros((len(x), depth(d)), dtype=torch.float16, device=device)
            fill(block, [first, second, first, *pieces(norms, 3)])
            tiled[_tiles(torch.arange(some.start, some.stop, device=device))] = block
        tiled[(*_tiles(torch.arange(n, full, device=device)), 3 * d)] = _ELSEWHERE

    def minima(self, x: Any) -> Any:
        """The smallest ``|y|^2 / 2 - x.y`` of each group, for queries x in float64, (m, d): (m, n_groups)."""
        m, d = x.shape
        left = torch.zeros((-(-m // _ROWS) * _ROWS, depth(d)), dtype=torch.float16, device=self._device)
        first, second = pieces(x, 2)
        one = torch.ones((m, 3), dtype=torch.float16, device=self._device)
        fill(left[:m], [-first, -first, -second, one])
        out = torch.empty((m, self.n_groups), dtype=torch.float32, device=self._device)
        self._launch(left, out)
        return out

    def _launch(self, left: Any, out: Any) -> None:
        """Run the first program with the first tile for which the device has the resources."""
        K, n_sheets = left.shape[1], self.n_groups // COLUMNS

        def launch(tile: Tile) -> None:
            blocks = -(-len(out) // tile.rows)
            shares = max(min(_SHARES, n_sheets), shared(n_sheets, blocks, self._device))
            minima_kernel[blocks, shares](
                left, self._right, out, len(out), n_sheets, self.n_groups,
                K=K, K1=leading(K), PIECE=PIECE if K > DEEP else 0, BM=tile.rows, STAGES=tile.stages,
                num_warps=tile.warps, num_stages=tile.stages,
            )  # fmt: skip

        fitted(left, (minima_kernel.fn.__name__, K), _TILES, launch)

    def distances(self, x: Any, groups: Any, own: Any) -> Any:
        """Squared distances of queries, (m, d), to all points of some groups, (m, c), in float32: (m, 32 c).

        They are infinite for padding, and for the position `own` of each query, (m,), or -1.
        """
        m, c = groups.shape
        q = torch.zeros((m, self._width), dtype=torch.float32, device=self._device)
        q[:, : self.d] = x
        out = torch.empty((m, c * RUN), dtype=torch.float32, device=self._device)
        wide = min(64, 1 << (self._width - 1).bit_length())
        with on(q):
            candidates_kernel[(m,)](
                q, self._x, groups.int().contiguous(), own, out, self.n, c, self._width, D=wide, num_warps=1
            )
        return out
