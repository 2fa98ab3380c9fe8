"""Factors of inner products for tensor cores: numbers as sums of float16 numbers, in columns side by side."""

from __future__ import annotations

from typing import Any

__all__ = ["CONVERTED", "DEEP", "PIECE", "factor_width", "fill", "leading", "pieces", "two_powers"]

# Factors with more columns than this do not fit on the chip: they are read again for every tile, in pieces.
DEEP, PIECE = 256, 64
# Widths of factors are multiples of the depth of the tensor cores in float16.
_DEPTH = 16
# Entries that are converted at a time.
CONVERTED = 1 << 23


def pieces(values: Any, count: int) -> list[Any]:
    """Float16 numbers that add up to the values."""
    found = []
    for _ in range(count):
        found.append(values.half())
        values = values - found[-1].double()
    return found


def fill(out: Any, parts: list[Any]) -> None:
    """Write parts side by side, in the dtype of `out`."""
    start = 0
    for part in parts:
        out[:, start : start + part.shape[1]] = part.to(out.dtype)
        start += part.shape[1]


def factor_width(width: int) -> int:
    """Columns of a factor that holds `width` of them: one or two powers of two, or a multiple of a piece."""
    return two_powers(width, _DEPTH) if width <= DEEP else -(-width // PIECE) * PIECE


def two_powers(width: int, least: int) -> int:
    """The smallest sum of one or two powers of two, each at least `least`, that is not below the width."""
    top = max(least, leading(width))
    rest = 0 if width <= top else least
    while rest and top + rest < width:
        rest *= 2
    return top + rest


def leading(width: int) -> int:
    """The largest power of two up to a width."""
    return 1 << (width.bit_length() - 1) if width else 0
