"""An order in which points that are close have numbers that are close, and what may then be skipped."""

from __future__ import annotations

from typing import Any

import torch

from .products import GROUP, ROWS, Lists

__all__ = ["active_lists", "locality_order"]

# Directions that the order goes by, and bits that a key has for all of them.
_DIRECTIONS, _BITS = 3, 30
_MANY = 64  # features beyond which fewer are looked at
_SAMPLE = 1 << 16  # points that tell the principal directions
# Tiles all of whose entries are below 2^-46, one part in 10^14 of a row's largest, are left out; where fewer than this
# share of them are, the lists are not worth reading.
_NEGLIGIBLE = -46.0
_WORTHWHILE = 0.9
_ENTRIES = 1 << 25


def locality_order(x: Any) -> Any:
    """Numbers of the points along Morton's curve through their leading principal directions, int64 of shape (n,)."""
    n, d = x.shape
    if d > _MANY:  # a random projection keeps what is needed of it
        generator = torch.Generator(device=x.device).manual_seed(0)
        x = x @ torch.randn((d, _MANY), dtype=x.dtype, device=x.device, generator=generator)
    if d > _DIRECTIONS:
        some = x[:: max(1, n // _SAMPLE)].double()
        some = some - some.mean(0)
        axes = torch.linalg.eigh(some.T @ some)[1][:, -_DIRECTIONS:]
        x = x.double() @ axes
    low, high = x.amin(0), x.amax(0)
    bits = _BITS // x.shape[1]
    span = torch.where(high > low, high - low, torch.ones_like(low))
    cells = ((x - low) / span * (2**bits - 1)).to(torch.int64)
    keys = torch.zeros(n, dtype=torch.int64, device=x.device)
    for bit in range(bits):
        for c in range(x.shape[1]):
            keys |= ((cells[:, c] >> bit) & 1) << (bit * x.shape[1] + c)
    return torch.sort(keys, stable=True).indices


def active_lists(x: Any, scale: Any, shift: Any) -> Lists | None:
    """For blocks of rows the groups of columns whose entries are not all negligible; None where nearly all are wanted.

    Parameters
    ----------
    x : tensor of shape (n, d)
        In an order in which close points are close; the kernel is ``2^(shift_i - s_i s_j |x_i - x_j|^2 / 2)``.
    scale, shift : tensors of shape (n,)
    """
    rows, columns = _boxes(x, scale, shift, ROWS), _boxes(x, scale, shift, GROUP)
    n_blocks, n_groups = len(rows[0]), len(columns[0])
    counts, kept = [], []
    for start in range(0, n_blocks, max(1, _ENTRIES // n_groups)):
        some = slice(start, start + max(1, _ENTRIES // n_groups))
        gap = torch.zeros((len(rows[0][some]), n_groups), dtype=torch.float32, device=x.device)
        for c in range(x.shape[1]):
            apart = torch.maximum(
                rows[0][some, c, None] - columns[1][None, :, c], columns[0][None, :, c] - rows[1][some, c, None]
            )
            gap += apart.clamp_(min=0.0).square_()
        largest = rows[3][some, None] - 0.5 * gap * rows[2][some, None] * columns[2][None, :]
        active = largest >= _NEGLIGIBLE
        counts.append(active.sum(1))
        kept.append(active.nonzero()[:, 1].to(torch.int32))
    totals = torch.cat(counts)
    if float(totals.sum()) > _WORTHWHILE * n_blocks * n_groups:
        return None
    starts = torch.zeros(n_blocks + 1, dtype=torch.int32, device=x.device)
    starts[1:] = torch.cumsum(totals, 0)
    return Lists(starts, torch.cat(kept))


def _boxes(x: Any, scale: Any, shift: Any, size: int) -> tuple[Any, Any, Any, Any]:
    """Of each run of `size` points: lower and upper corner, smallest scale, largest shift."""
    n = len(x)
    runs = -(-n // size)

    def reduced(values: Any, fill: float, how: str) -> Any:
        full = torch.full((runs * size, *values.shape[1:]), fill, dtype=torch.float32, device=x.device)
        full[:n] = values
        return getattr(full.view(runs, size, *values.shape[1:]), how)(1)

    inf = float("inf")
    return (
        reduced(x, inf, "amin"),
        reduced(x, -inf, "amax"),
        reduced(scale, inf, "amin"),
        reduced(shift, -inf, "amax"),
    )
