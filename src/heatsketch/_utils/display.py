"""How results show themselves: a line without the numbers in their arrays, and a small table in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Facts", "Shown", "html_table", "in_short"]

# What a result says of itself: names and values, in words.
Facts: TypeAlias = "Sequence[tuple[str, str]]"


class Shown:
    """A dataclass of results that shows itself: declared with ``repr=False``, it owes `_facts`, or its own table."""

    def _facts(self) -> Facts:
        raise NotImplementedError

    def __repr__(self) -> str:
        values = (f"{field.name}={in_short(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(values)})"

    def _repr_html_(self) -> str:
        return html_table(self._facts(), title=type(self).__name__)


def in_short(value: Any) -> str:
    """A value on one line: of an array its kind and shape, of a number four digits.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch._utils.display import in_short
    >>> in_short(np.zeros((300, 2)))
    '<float64 (300, 2)>'
    >>> in_short({"a": 1 / 3, "b": [1, None]})
    "{'a': 0.3333, 'b': [1, None]}"
    """
    if isinstance(value, np.ndarray) and value.ndim:
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_short(key)}: {in_short(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_short, value)) + "]"
    return repr(value)


def html_table(
    rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), title: str = "", marked: Collection[int] = ()
) -> str:
    """A table in HTML, for notebooks; everything in it is text and is escaped.

    Parameters
    ----------
    rows : iterable of sequences of str
        The first of each is its heading.
    header : sequence of str
        Names of the columns.
    title : str
    marked : collection of int
        Numbers of the rows to be set in bold type.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from heatsketch._utils.display import html_table
    >>> html_table([("L", "< 2")])
    '<table class="heatsketch"><tbody><tr><th ...>L</th><td ...>&lt; 2</td></tr></tbody></table>'
    """
    left = ' style="text-align: left"'
    bold = ' style="text-align: left; font-weight: bold"'
    parts = ['<table class="heatsketch">']
    if title:
        parts.append(f"<caption{bold}>{escape(title)}</caption>")
    if header:
        parts.append("<thead><tr>" + "".join(f"<th{left}>{escape(name)}</th>" for name in header) + "</tr></thead>")
    parts.append("<tbody>")
    for number, (first, *others) in enumerate(rows):
        style = bold if number in marked else left
        cells = "".join(f"<td{style}>{escape(one)}</td>" for one in others)
        parts.append(f"<tr><th{left}>{escape(first)}</th>{cells}</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)
