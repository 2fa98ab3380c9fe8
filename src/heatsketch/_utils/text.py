"""Text from files, for terminals and pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["listed", "visible"]


def visible(text: str) -> str:
    r"""`text` with escape sequences, text direction marks and other non-printable characters written out.

    Examples
    --------
    >>> from heatsketch._utils.text import visible
    >>> print(visible("red: \x1b[31m"))
    red: \x1b[31m
    """
    return "".join(c if c.isprintable() or c in "\n\t\xa0" else ascii(c)[1:-1] for c in text)


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Names for a message, at most so many.

    Examples
    --------
    >>> from heatsketch._utils.text import listed
    >>> listed("abcdef", most=3)
    'a, b, c and 3 more'
    """
    known = [str(name) for name in names]
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")
