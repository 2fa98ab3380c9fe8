"""Text from files, for terminals and pictures."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str) -> str:
    r"""`text` with escape sequences, text direction marks and other non-printable characters written out.

    Examples
    --------
    >>> from heatsketch._utils.text import visible
    >>> print(visible("red: \x1b[31m"))
    red: \x1b[31m
    """
    return "".join(c if c.isprintable() or c in "\n\t\xa0" else ascii(c)[1:-1] for c in text)
