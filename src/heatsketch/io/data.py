"""What a file of data holds, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SEPARATORS", "Data", "Reading"]

SEPARATORS = {"comma": ",", "tab": "\t", "space": r"\s+", "semicolon": ";"}


@dataclass(frozen=True)
class Reading:
    """How to read a file.

    Attributes
    ----------
    format : str or None
        Name of a format; by default determined by the suffix of the file.
    id : str or None
        Column that names the rows.
    label : sequence of str
        Columns that are not embedded but kept, to colour by.
    drop : sequence of str
        Columns to ignore.
    only : sequence of str
        The columns to embed; all others are kept aside. By default all numeric columns.
    separator : str or None
        Column separator of a text file: "comma", "tab", "space", "semicolon" or one character; by default that of the
        format.
    decimal : str or None
        Decimal point of a text file, "." by default.
    encoding : str or None
        Encoding of a text file, UTF-8 by default.
    header : bool or None
        Whether the first line of a text file holds column names; by default it does unless it is all numbers.
    key : str or None
        Array of an .npz file, or entry of ``obsm`` in an .h5ad file ("X" for the matrix itself).
    """

    format: str | None = None
    id: str | None = None
    label: Sequence[str] = ()
    drop: Sequence[str] = ()
    only: Sequence[str] = ()
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        roles = {"--id": [self.id] if self.id else [], "--label": self.label, "--drop": self.drop, "--only": self.only}
        taken: dict[str, str] = {}
        for role, names in roles.items():
            for name in names:
                if taken.setdefault(name, role) != role:
                    raise ValueError(f"column {name!r} was given to {taken[name]} and to {role}; choose one.")
        if self.separator is not None and self.separator not in SEPARATORS and len(self.separator) != 1:
            raise ValueError(
                f"--separator {self.separator!r} is not known; use one of {', '.join(SEPARATORS)}, or one character."
            )

    @property
    def named(self) -> list[str]:
        """All columns that were given by name."""
        return [*([self.id] if self.id else []), *self.label, *self.drop, *self.only]


@dataclass(frozen=True)
class Data:
    """Points or a graph from a file.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d), or (n, n) for a graph
    names : ndarray of str, shape (n,), or None
        Ids of the rows.
    features : list of str, or None
        Names of the columns of X, if the file has them.
    columns : dict of str to array-like of shape (n,)
        Columns that are not embedded.
    is_graph : bool
        Whether X is the adjacency matrix of a graph.
    notes : list of str
        How the file was interpreted, for the user.
    source : object
        The AnnData object, for an .h5ad file.
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
        """X for an estimator: a pandas DataFrame if the columns have names."""
        if self.features is None:
            return self.X
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.X, columns=self.features, index=self.names)
