"""Work in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["chunks"]

# Entries that a piece of work may hold: 32 MB in float64.
CHUNK_ENTRIES = 1 << 22


def chunks(n_items: int, entries_per_item: int, budget: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n_items)`` in order, each holding at most `budget` entries (but at least one item).

    Examples
    --------
    >>> from heatsketch._utils.chunks import chunks
    >>> list(chunks(5, entries_per_item=3, budget=6))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, (CHUNK_ENTRIES if budget is None else budget) // max(1, entries_per_item))
    for start in range(0, n_items, step):
        yield slice(start, min(n_items, start + step))
