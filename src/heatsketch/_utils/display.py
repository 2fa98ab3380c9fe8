"""How results are displayed: one line that names arrays by their shape, and a small table in notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Facts", "Shown", "html_table", "in_short"]

# Names and values of a result, as text.
Facts: TypeAlias = "Sequence[tuple[str, str]]"


class Shown:
    """Base of result dataclasses, declared with ``repr=False``: a short repr, and a table in notebooks."""

    def _facts(self) -> Facts:
        shown = [field.name for field in fields(self) if field.repr]  # type: ignore[arg-type]
        return [(name, in_short(getattr(self, name))) for name in shown]

    def __repr__(self) -> str:
        names = [field.name for field in fields(self) if field.repr]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={in_short(getattr(self, name))}' for name in names)})"

    def _repr_html_(self) -> str:
        return html_table(self._facts(), title=f"{type(self).__name__}: {self}")


def in_short(value: Any) -> str:
    """A value on one line: the dtype and shape of an array, four digits of a number.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch._utils.display import in_short
    >>> in_short(np.zeros((300, 2)))
    '<float64 (300, 2)>'
    >>> in_short({"a": 1 / 3, "b": None})
    "{'a': 0.3333, 'b': None}"
    """
    if isinstance(value, np.ndarray) and value.ndim:
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{in_short(key)}: {in_short(one)}" for key, one in value.items()) + "}"
    return repr(value)


def html_table(
    rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), title: str = "", marked: Collection[int] = ()
) -> str:
    """An HTML table for notebooks, with escaped cells; the first of a row is its heading, `marked` rows are bold."""

    def cells(tag: str, texts: Iterable[str], style: str = "") -> str:
        return "".join(f'<{tag} style="text-align: left{style}">{escape(text)}</{tag}>' for text in texts)

    bold = "; font-weight: bold"
    caption = cells("caption", [title], bold) if title else ""
    head = f"<thead><tr>{cells('th', header)}</tr></thead>" if header else ""
    body = "".join(
        f"<tr>{cells('th', row[:1])}{cells('td', row[1:], bold if number in marked else '')}</tr>"
        for number, row in enumerate(rows)
    )
    return f'<table class="heatsketch">{caption}{head}<tbody>{body}</tbody></table>'
