"""Neighbour graphs on a device.

Importing this module registers the functions for tensors: `distinct` and `joined` of
:mod:`heatsketch.neighbors.neighborhoods`, `weighted_graph` of :mod:`heatsketch.kernel.affinity` and `neighbor_graph` of
:mod:`heatsketch.layout.similarities`. Entries are sorted, and sums have one order, so results repeat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._utils.array import to_numpy
from ..._utils.chunks import chunks
from ..._utils.typing import FloatArray, IntArray
from ...kernel.affinity import weighted_graph
from ...layout.similarities import neighbor_graph
from ...neighbors.neighborhoods import MIXED, distinct, joined, key_factors
from .operators import DeviceSparseOperator
from .tensors import computing, device_of

__all__: list[str] = []

# Entries that are hashed at a time.
_HASHED = 1 << 25


@distinct.register
@computing()
def _(X: torch.Tensor) -> tuple[IntArray, IntArray] | None:
    # The same hash as in memory; int64 products wrap around like those of unsigned integers.
    factors = torch.from_numpy(key_factors(X.shape[1]).view(np.int64)).to(X.device)
    keys = torch.empty(len(X), dtype=torch.int64, device=X.device)
    bits = torch.int64 if X.dtype == torch.float64 else torch.int32
    for rows in chunks(len(X), X.shape[1], _HASHED):
        words = (X[rows] + 0.0).view(bits).long().bitwise_and_(-1 if bits == torch.int64 else 0xFFFFFFFF)
        words *= int(MIXED.view(np.int64))
        words ^= (words >> 32) & 0xFFFFFFFF
        keys[rows] = (words * factors).sum(1)
    keys = keys.sort().values
    # Duplicates are rare: they are sorted out in memory.
    return distinct(to_numpy(X)) if bool((keys[1:] == keys[:-1]).any()) else None


def _starts(rows: Any, n: int) -> Any:
    """Row pointers of entries that are sorted by row, int64 (n + 1,)."""
    starts = torch.zeros(n + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=n), 0, out=starts[1:])
    return starts


def _rows(starts: Any) -> Any:
    """The row of each entry."""
    return torch.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())


@joined.register
@computing()
def _(ids: torch.Tensor, squared: Any, kept: IntArray) -> tuple[Any, Any, Any]:
    n, k = ids.shape
    points = torch.arange(n, device=ids.device)
    counts = torch.from_numpy(kept).to(ids.device)
    own = points.repeat_interleave(counts)
    among = torch.arange(k, device=ids.device) < counts[:, None]
    others, distances = ids[among].long(), squared[among]
    del among
    # An edge is listed by both ends if its reverse is among the edges.
    edges, reverse = (own * n + others).sort().values, others * n + own
    place = torch.searchsorted(edges, reverse).clamp_(max=len(edges) - 1)
    lonely = edges[place] != reverse
    del edges, reverse, place
    rows = torch.cat([points, own, others[lonely]])
    columns = torch.cat([points, others, own[lonely]]).int()
    values = torch.cat([torch.zeros(n, dtype=squared.dtype, device=ids.device), distances, distances[lonely]])
    rows, order = rows.sort(stable=True)
    return _starts(rows, n), columns[order], values[order]


@weighted_graph.register
@computing()
def _(
    squared: torch.Tensor, columns: Any, indptr: Any, scale: FloatArray, dtype: Any, *, zero_diagonal: bool
) -> DeviceSparseOperator:
    here = device_of(squared)
    n, scales, rows = len(scale), here.tensor(scale), _rows(indptr)
    values = (squared * scales[rows]).mul_(scales[columns]).neg_().exp_().to(here.dtype(dtype))
    if zero_diagonal:
        values[squared == 0] = 0.0
    kept = values != 0  # an affinity that underflows is no edge
    if not bool(kept.all()):
        rows, columns, values = rows[kept], columns[kept], values[kept]
        indptr = _starts(rows, n)
    return DeviceSparseOperator.of_parts(indptr, columns, values, here)


@neighbor_graph.register
@computing()
def _(S: DeviceSparseOperator) -> DeviceSparseOperator:
    starts, columns, values = S.parts
    n, rows, columns = S.shape[0], _rows(starts), columns.long()
    kept = (columns != rows) & (values != 0)
    rows, columns, values = rows[kept], columns[kept], values[kept].float()
    if len(values):
        counts = torch.bincount(rows, minlength=n)
        values = values / torch.segment_reduce(values, "max", lengths=counts, initial=0.0)[rows]
        values = values / torch.segment_reduce(values, "sum", lengths=counts, initial=0.0)[rows]
        # P + P^T: equal keys come in pairs at most.
        keys, order = torch.cat([rows * n + columns, columns * n + rows]).sort(stable=True)
        values = torch.cat([values, values])[order]
        first = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
        first[1:] = keys[1:] != keys[:-1]
        following = torch.zeros_like(values)
        following[:-1] = torch.where(first[1:], 0.0, values[1:])
        keys, values = keys[first], (values + following)[first]
        values *= n / float(values.sum(dtype=torch.float64))
        rows, columns = keys // n, keys % n
    return DeviceSparseOperator.of_parts(_starts(rows, n), columns, values, S.device)
