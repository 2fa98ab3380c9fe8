"""Texts that came from files, and may hold anything."""

from __future__ import annotations

__all__ = ["visible"]

# What a terminal or a picture would obey rather than show: control characters other than line ends and tabs, marks that
# turn the direction of writing, and halves of characters.
_UNSEEN = [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: ascii(chr(code))[1:-1] for code in [*_UNSEEN, *range(0xD800, 0xE000)] if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    r"""A text that came from a file, with what cannot be seen written out.

    Examples
    --------
    >>> from heatsketch._utils.text import visible
    >>> print(visible("red: \x1b[31m"))
    red: \x1b[31m
    """
    return text.translate(_VISIBLE)
