"""Text for terminals and pictures, some of which comes from files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["did_you_mean", "duration", "listed", "visible"]


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


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """A question after a message if one of the known names is close to `name`; otherwise an empty string.

    Examples
    --------
    >>> from heatsketch._utils.text import did_you_mean
    >>> did_you_mean("euclidian", ["cosine", "euclidean"])
    " Did you mean 'euclidean'?"
    """
    close = difflib.get_close_matches(str(name), [str(one) for one in known], n=1, cutoff=0.7)
    return f" Did you mean {close[0]!r}?" if close else ""


def duration(seconds: float) -> str:
    """A time with its unit.

    Examples
    --------
    >>> from heatsketch._utils.text import duration
    >>> print(duration(0.84), duration(40), duration(100), duration(7000), sep=", ")
    0.8 s, 40 s, 1.7 min, 1.9 hours
    """
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
