"""What a file of data holds, and which of its columns are what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._utils.chunks import chunks

__all__ = ["SEPARATORS", "Data", "Reading", "as_words", "check_known", "place", "refuse_missing"]

SEPARATORS = {"comma": ",", "tab": "\t", "space": r"\s+", "semicolon": ";"}


@dataclass(frozen=True)
class Reading:
    """How a file is to be read.

    Attributes
    ----------
    format : str or None
        Name of a format, where the ending of the file does not tell it.
    id : str or None
        Column that names the rows.
    labels : sequence of str
        Columns that are kept aside, to colour by, and not embedded.
    drop : sequence of str
        Columns that are left out.
    only : sequence of str
        The columns to embed; all others are kept aside. By default all that hold numbers.
    separator : str or None
        Between the columns of a text file: "comma", "tab", "space", "semicolon" or one character; by default by its
        ending.
    decimal : str or None
        The decimal point of a text file, "." by default.
    encoding : str or None
        Of a text file, UTF-8 by default.
    header : bool or None
        Whether the first line of a text file holds the names of its columns; by default it does unless all of it are
        numbers.
    key : str or None
        Which array of an .npz file, or which entry of ``obsm`` in an .h5ad file ("X" for the matrix itself).
    """

    format: str | None = None
    id: str | None = None
    labels: Sequence[str] = ()
    drop: Sequence[str] = ()
    only: Sequence[str] = ()
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        roles = {"--id": [self.id] if self.id else [], "--label": self.labels, "--drop": self.drop, "--only": self.only}
        taken: dict[str, str] = {}
        for role, names in roles.items():
            for name in names:
                if taken.setdefault(name, role) != role:
                    raise ValueError(f"column {name!r} was given to {taken[name]} and to {role}; it can only be one.")
        if self.separator is not None and self.separator not in SEPARATORS and len(self.separator) != 1:
            raise ValueError(
                f"--separator {self.separator!r} is not known; use one of {', '.join(SEPARATORS)}, or one character."
            )

    @property
    def named(self) -> list[str]:
        """All columns that were given by name."""
        return [*([self.id] if self.id else []), *self.labels, *self.drop, *self.only]


@dataclass(frozen=True)
class Data:
    """What was read.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d), or (n, n) for a graph
    names : ndarray of str, shape (n,), or None
        Ids of the rows.
    features : list of str, or None
        Names of the columns of X, where they have some.
    columns : dict of str to ndarray of shape (n,)
        What was kept aside.
    is_graph : bool
        Whether X is the adjacency matrix of a graph.
    notes : list of str
        What was decided, for the user to know.
    source : object
        The AnnData that was read, if it was one.
    """

    X: Any
    names: Any = None
    features: list[str] | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    is_graph: bool = False
    notes: list[str] = field(default_factory=list)
    source: Any = None

    @property
    def points(self) -> Any:
        """X as estimators take it: a pandas frame where the columns have names."""
        if self.features is None:
            return self.X
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.X, columns=self.features, index=self.names)


def check_known(names: Iterable[str], known: Sequence[str], what: str = "column") -> None:
    """Refuse names that are not there, and say which are."""
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            listed = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            raise ValueError(f"there is no {what} {name!r}; there are: {listed or 'none'}.{hint}")


def as_words(column: Any) -> Any:
    """Ids in words, missing ones too, which pandas leaves missing from 3.0 on."""
    return np.array([str(one) for one in column], dtype=object)


def place(row: int, names: Any = None) -> str:
    """A row in words, counted from 1, with its id."""
    return f"row {row + 1}" + ("" if names is None else f" ({names[row]})")


def refuse_missing(X: Any, features: Sequence[str] | None = None, names: Any = None) -> None:
    """Refuse missing and infinite values; the error names the row and the column of the first.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d), real
    features : sequence of str, optional
    names : ndarray of str, shape (n,), optional
    """
    if issparse(X) and np.isfinite(X.data).all():
        return  # whatever its shape
    count, first = 0, (0, 0)
    for rows in chunks(X.shape[0], X.shape[1]):
        block = X[rows]
        bad = np.argwhere(~np.isfinite(block.data if issparse(block) else block))
        if len(bad) and not count:
            if issparse(block):
                entry = block.tocoo()
                first = (rows.start + int(entry.row[bad[0, 0]]), int(entry.col[bad[0, 0]]))
            else:
                first = (rows.start + int(bad[0, 0]), int(bad[0, 1]))
        count += len(bad)
    if not count:
        return
    i, j = first
    value = X[i, j]
    column = f"column {j + 1}" if features is None else f"column {features[j]!r}"
    what = "a missing value" if np.isnan(value) else f"the value {value}"
    more = "" if count == 1 else f", the first of {count} such values"
    raise ValueError(
        f"{place(i, names)}, {column} holds {what}{more}; every value must be a finite number. Fill it in or leave the "
        "row out, or leave the column out with --drop."
    )
