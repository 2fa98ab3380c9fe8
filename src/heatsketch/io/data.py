"""What a file of data holds, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tables import TableEncoder

__all__ = ["SEPARATORS", "Data", "Reading"]

SEPARATORS = {"comma": ",", "tab": "\t", "space": r"\s+", "semicolon": ";"}


@dataclass(frozen=True)
class Reading:
    """How to read a file; the fields are the options of ``heatsketch embed``."""

    format: str | None = None  # by default that of the suffix
    id: str | None = None  # column that names the rows
    label: Sequence[str] = ()  # columns that are not embedded but kept, to colour by
    drop: Sequence[str] = ()
    only: Sequence[str] = ()  # columns to embed, by default all numeric ones; all others are kept aside
    separator: str | None = None  # a key of SEPARATORS, or one character; by default that of the format
    decimal: str | None = None  # "." by default
    encoding: str | None = None  # UTF-8 by default
    header: bool | None = None  # by default the first line has column names unless it is all numbers
    key: str | None = None  # array of an .npz file, or entry of obsm in an .h5ad file ("X" for the matrix)
    standardize: bool | None = None  # by default if columns have different units
    categorical: Sequence[str] = ()  # columns to embed as categories; "all" for every text column
    dates: str | None = None  # "number" to embed dates
    impute: str | None = None  # "median" to replace missing values
    drop_missing: bool | None = None  # whether to drop rows with missing values
    encoder: TableEncoder | None = None  # that of a model, which is repeated
    kept: bool = True  # whether columns that are not embedded are written beside the embedding
    id_of_fit: str | None = None  # column that named the rows of a model; new rows are named by it if they have it

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for option, name in self._roles:
            if name in roles:
                how = f"given twice by {option}" if roles[name] == option else f"both {roles[name]} and {option}"
                raise ValueError(f"column {name!r} is {how}; give it once.")
            roles[name] = option
        if twice := ({*self.named} - {*self.only}) & {*self.categorical}:
            raise ValueError(
                f"--categorical {min(twice)} embeds a column that --id, --label or --drop also names; choose one."
            )
        if self.impute and self.drop_missing:
            raise ValueError("--impute and --drop-missing were given; choose one.")
        if self.separator is not None and self.separator not in SEPARATORS and len(self.separator) != 1:
            raise ValueError(
                f"--separator {self.separator!r} is not known; use one of {', '.join(SEPARATORS)}, or one character."
            )

    @property
    def named(self) -> list[str]:
        """All columns that were given by name."""
        return [name for _, name in self._roles]

    @property
    def _roles(self) -> list[tuple[str, str]]:
        """Options and the columns that they name."""
        chosen = {"--id": [self.id] if self.id else [], "--label": self.label, "--drop": self.drop, "--only": self.only}
        return [(option, name) for option, names in chosen.items() for name in names]


@dataclass(frozen=True)
class Data:
    """Points or a graph from a file."""

    X: Any  # ndarray or csr_array (n, d), or (n, n) for a graph
    names: Any = None  # ids of the rows: ndarray of str (n,), or None
    features: list[str] | None = None  # names of the columns of X, if the file has them
    columns: dict[str, Any] = field(default_factory=dict)  # columns (n,) that are not embedded
    is_graph: bool = False
    notes: list[str] = field(default_factory=list)  # how the file was interpreted, for the user
    source: Any = None  # the AnnData object, for an .h5ad file
    encoder: TableEncoder | None = None  # which made X from a table
    embedded: dict[str, Any] = field(default_factory=dict)  # what X is of an AnnData, as `source_of` gives it
    id_name: str | None = None  # the column that `names` were read from, if it has a name

    @property
    def points(self) -> Any:
        """X for an estimator: a pandas DataFrame if the columns have names."""
        if self.features is None:
            return self.X
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.X, columns=self.features, index=self.names)
