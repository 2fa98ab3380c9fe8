"""Tables as points: numbers, categories and dates as columns that distances can be measured in."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ._utils.extras import optional
from ._utils.registry import distributed_backend
from ._utils.tables import collected
from ._utils.text import listed
from ._utils.typing import FloatArray
from ._utils.units import units_of
from ._utils.warn import warn

__all__ = ["Column", "Contents", "TableEncoder", "TableError", "read_columns"]

# A text column of which more than this share are numbers is numeric, with something wrong in it.
_MOSTLY_NUMBERS = 0.5
# A text column with more levels is a name or a comment, not a category; neither is one that hardly repeats them.
_MOST_LEVELS = 20
# Larger numbers are not standardised: their squares, and sums of these, overflow.
_LARGEST = 1e150
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$"
_DAY = np.timedelta64(1, "D")
_KINDS = ("number", "date", "category")


class TableError(ValueError):
    """A table that cannot be encoded, with the next step in Python, on the command line, and there for new rows."""

    def __init__(self, problem: str, remedy: str, *, option: str, new_rows: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.for_command = f"{problem} {option}"
        self.for_new_rows = f"{problem} {new_rows}"


@dataclass(frozen=True)
class Column:
    """How a column of a table is encoded.

    Attributes
    ----------
    name : str
    kind : str
        "number", "date" (days since 1970) or "category".
    center, scale : float
        A number or date x becomes ``(x - center) / scale``; indicators of levels are divided by `scale`.
    fill : float, str or None
        What replaces missing values; None if they were not imputed.
    levels : tuple of str
        Of a category, one indicator column each; None stands for missing values.
    """

    name: str
    kind: str
    center: float = 0.0
    scale: float = 1.0
    fill: float | str | None = None
    levels: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:  # a record may come from a file
        levels = isinstance(self.levels, tuple) and all(one is None or isinstance(one, str) for one in self.levels)
        known = levels and len({*self.levels}) == len(self.levels) and bool(self.levels) == (self.kind == "category")
        if self.kind not in _KINDS or not known or not np.isfinite(self.center) or not 0 < self.scale < np.inf:
            raise ValueError(
                f"column {self.name!r} has kind {self.kind!r}, center {self.center}, scale {self.scale} and "
                f"{len(self.levels)} levels"
            )

    @property
    def outputs(self) -> list[str]:
        """Names of the encoded columns."""
        if self.kind != "category":
            return [self.name]
        return [f"{self.name} is missing" if level is None else f"{self.name}={level}" for level in self.levels]


@dataclass(frozen=True)
class Contents:
    """The columns of a frame, by what they hold."""

    numbers: dict[str, FloatArray] = field(default_factory=dict)  # (n,), NaN for missing values
    dates: dict[str, FloatArray] = field(default_factory=dict)  # (n,), days since 1970, NaN for missing values
    categories: dict[str, NDArray[Any]] = field(default_factory=dict)  # (n,), strings, None for missing values
    left_out: dict[str, str] = field(default_factory=dict)  # why
    converted: dict[str, str] = field(default_factory=dict)  # text that was read as numbers, with an example

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Rows that lack a value of a column that is embedded, shape (n,)."""
        lacking = [np.isnan(values) for values in (self.numbers | self.dates).values()]
        lacking += [np.array([one is None for one in values]) for values in self.categories.values()]
        rows: NDArray[np.bool_] = np.logical_or.reduce(lacking)
        return rows


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table of numbers, categories and dates as points for an embedding.

    Columns with different units get the same weight: numbers are standardised, and a category becomes indicator columns
    whose squared distances are, on average, those of one standardised column.

    Parameters
    ----------
    standardize : bool or "auto", default="auto"
        Whether numbers get mean 0 and variance 1. "auto" does so if there are categories or dates, or if the ranges of
        columns differ by more than a factor of 10. Pixels, counts and principal components have one unit and are left
        unchanged.
    categorical : "auto" or list of str, default="auto"
        Columns that are categories. "auto": columns of a categorical dtype, and text with at most 20 different values.
        If a list is given, only these columns are categories, and other text is left out. Integer codes are numbers
        unless they are listed.
    dates : {"drop", "number"}, default="drop"
        Whether dates are left out or embedded as numbers of days. Text is recognised as dates in ISO 8601 format, such
        as 2026-01-31.
    impute : {None, "median"}, default=None
        "median" replaces missing numbers by the median of their column in the training data, and missing categories by
        the most frequent one. With None missing numbers raise ValueError, and missing categories are a level of their
        own.

    Attributes
    ----------
    columns_ : tuple of Column
        How each column is encoded.
    left_out_ : dict
        Names of columns that are not encoded, and why.
    standardized_ : bool
    notes_ : list of str
        What was done, in words.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the table has column names.

    See Also
    --------
    save_model : Save a pipeline of an encoder and an embedding.

    Notes
    -----
    A categorical column with levels of frequencies p_1, p_2, ... becomes indicators divided by
    ``sqrt(1 - sum p_i^2)``. Two random rows then have the mean squared difference 2 in it, as in a standardised column.
    Levels that were not in the training data have no indicator and give a warning.

    In new tables columns are found by name, in any order; further columns are ignored.

    Examples
    --------
    >>> import pandas as pd
    >>> import heatsketch as hs
    >>> frame = pd.DataFrame({"height": [1.6, 1.7, 1.8, 1.9], "income": [30e3, 45e3, 28e3, 61e3], "pet": list("ccdd")})
    >>> encoder = hs.TableEncoder().fit(frame)
    >>> print(*encoder.get_feature_names_out())
    height income pet=c pet=d
    >>> print(*encoder.notes_, sep="; ")
    embedding 3 columns: height, income, pet (standardised, as there are categories); 1 categorical column as 2
    indicator columns: pet (2)
    """

    columns_: tuple[Column, ...]
    left_out_: dict[str, str]
    standardized_: bool
    notes_: list[str]

    def __init__(
        self,
        *,
        standardize: bool | str = "auto",
        categorical: str | Sequence[str] = "auto",
        dates: str = "drop",
        impute: str | None = None,
    ) -> None:
        self.standardize = standardize
        self.categorical = categorical
        self.dates = dates
        self.impute = impute

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Decide how each column is encoded.

        Parameters
        ----------
        X : pandas or polars frame, Arrow table or array-like of shape (n_samples, n_features)
            A lazy frame of polars is collected.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._check_parameters()
        given = _as_frame(X, self)
        frame = _named(given)
        _check_unique(frame.columns)
        validate_data(self, given, skip_check_array=True)
        contents = read_columns(frame, self.categorical, dates=self.dates == "number")
        numeric = contents.numbers | contents.dates
        if not numeric and not contents.categories:
            raise ValueError(
                f"no column is numeric, so there is nothing to embed; the columns are {_reasons(contents.left_out)}. "
                "Name columns in categorical=, or use dates='number'."
            )
        filled = numeric if self.impute is None else {name: _filled(values) for name, values in numeric.items()}
        _check_present(filled, frame.index)
        if self.standardize is not False:
            _check_size(filled, frame.index)
        table = np.column_stack([*filled.values()]) if filled else np.empty((len(frame), 0))  # [n, numeric columns]
        self.standardized_, why = self._choose_scaling(table, contents)
        scaler = StandardScaler().fit(table) if self.standardized_ and filled else None
        columns = {}
        for j, (name, values) in enumerate(filled.items()):
            kind = "date" if name in contents.dates else "number"
            center = values.min() if kind == "date" else 0.0
            scale = 1.0
            if scaler is not None:
                center, scale = scaler.mean_[j], scaler.scale_[j]
            fill = None if self.impute is None else float(np.nanmedian(numeric[name]))
            columns[name] = Column(name, kind, float(center), float(scale), fill)
        for name, labels in contents.categories.items():
            columns[name] = _category(name, labels, impute=self.impute is not None)
        encoded = tuple(columns[name] for name in frame.columns if name in columns)
        _check_unique(name for column in encoded for name in column.outputs)
        self.columns_ = encoded
        self.left_out_ = dict(contents.left_out)
        self.notes_ = self._notes(contents, why)
        return self

    def _check_parameters(self) -> None:
        if self.standardize not in (True, False, "auto"):
            raise ValueError(f"standardize={self.standardize!r} was given; use True, False or 'auto'.")
        if isinstance(self.categorical, str) and self.categorical != "auto":
            raise ValueError(f"categorical={self.categorical!r} was given; use 'auto' or a list of column names.")
        if self.dates not in ("drop", "number"):
            raise ValueError(f"dates={self.dates!r} was given; use 'drop' or 'number'.")
        if self.impute not in (None, "median"):
            raise ValueError(f"impute={self.impute!r} was given; use None or 'median'.")

    def _choose_scaling(self, table: FloatArray, contents: Contents) -> tuple[bool, str]:
        """Whether numbers are standardised, and why."""
        if self.standardize != "auto":
            return bool(self.standardize), "as asked"
        if contents.categories:
            return True, "as there are categories"
        if contents.dates:
            return True, "as there are dates"
        units = units_of(table)
        return units.mixed, units.reason

    def _notes(self, contents: Contents, why: str) -> list[str]:
        names = [column.name for column in self.columns_]
        notes = [f"embedding {_count(len(names), 'column')}: {listed(names)}"]
        if contents.numbers or contents.dates:
            notes[0] += f" ({'standardised' if self.standardized_ else 'not standardised'}, {why})"
        if categories := [column for column in self.columns_ if column.kind == "category"]:
            outputs = sum(len(column.levels) for column in categories)
            levels = listed([f"{column.name} ({len(column.levels)})" for column in categories])
            notes.append(
                f"{_count(len(categories), 'categorical column')} as {_count(outputs, 'indicator column')}: {levels}"
            )
        if contents.converted:
            shown = listed([f"{name} ({example})" for name, example in contents.converted.items()])
            notes.append(f"text read as numbers: {shown}")
        if self.impute is not None:
            lacking = {
                name: int(np.isnan(values).sum()) for name, values in (contents.numbers | contents.dates).items()
            }
            lacking |= {name: values.tolist().count(None) for name, values in contents.categories.items()}
            if filled := [f"{name} ({count})" for name, count in lacking.items() if count]:
                notes.append(f"missing values filled in: {listed(filled)}")
        if self.left_out_:
            notes.append(f"left out: {_reasons(self.left_out_)}")
        return notes

    def transform(self, X: Any) -> Any:
        """Encode a table.

        Parameters
        ----------
        X : pandas or polars frame, Arrow table or array-like of shape (m, n_features)
            Columns are found by name if the encoder was fitted to a table with names.

        Returns
        -------
        encoded : ndarray of shape (m, n_features_out)
        """
        check_is_fitted(self)
        frame = self._matched(_as_frame(X, self))
        encoded = np.empty((len(frame), sum(len(column.outputs) for column in self.columns_)))
        unknown: dict[str, list[str]] = {}
        start = 0
        for column in self.columns_:
            stop = start + len(column.outputs)
            if column.kind == "category":
                labels = _labels(frame[column.name])
                if column.fill is not None:
                    labels[[one is None for one in labels]] = column.fill
                encoded[:, start:stop] = _indicators(labels, column, unknown)
            else:
                values = _wanted(frame[column.name], column, frame.index)
                if column.fill is not None:
                    values = np.where(np.isnan(values), column.fill, values)
                _check_present({column.name: values}, frame.index)
                encoded[:, start] = (values - column.center) / column.scale
            start = stop
        if unknown:
            held = "; ".join(f"column {name!r} holds {listed(found)}" for name, found in unknown.items())
            warn(f"{held}: not in the training data, so the indicators of these rows are 0 there.")
        return encoded

    def _matched(self, frame: Any) -> Any:
        """A new table with the columns that are encoded, by name if the encoder knows names."""
        import pandas as pd  # noqa: PLC0415

        if isinstance(frame.columns, pd.RangeIndex):  # an array, or a frame without names: columns are in order
            validate_data(self, frame, reset=False, skip_check_array=True)
            frame = frame.set_axis(getattr(self, "feature_names_in_", frame.columns), axis=1)
        frame = _named(frame)
        _check_unique(frame.columns)
        wanted = [column.name for column in self.columns_]
        if absent := [name for name in wanted if name not in frame.columns]:
            raise ValueError(
                f"the table lacks {_count(len(absent), 'column')} of the training data: {listed(map(repr, absent))}; "
                f"its columns are {listed(frame.columns)}. The encoder needs {listed(wanted)}, in any order."
            )
        return frame[wanted]

    def inverse_transform(self, X: Any) -> Any:
        """The table that encoded rows stand for.

        Parameters
        ----------
        X : array-like of shape (m, n_features_out)
            Encoded rows, or points between them.

        Returns
        -------
        frame : pandas.DataFrame of shape (m, n_columns)
            Numbers in the units of the table, dates as days since 1970, and of a category the level whose indicator is
            largest, None if all are zero.
        """
        import pandas as pd  # noqa: PLC0415

        check_is_fitted(self)
        encoded = check_array(X, ensure_min_samples=0, estimator=self, input_name="X")
        stops = np.cumsum([len(column.outputs) for column in self.columns_])
        if encoded.shape[1] != stops[-1]:
            raise ValueError(
                f"X has {encoded.shape[1]} columns; the encoder makes {stops[-1]}, and needs as many back."
            )
        blocks = np.split(encoded, stops[:-1], axis=1)  # [m, levels of a category, or 1]
        return pd.DataFrame({c.name: _decoded(block, c) for c, block in zip(self.columns_, blocks, strict=True)})

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Names of the encoded columns: those of the table, and ``column=level`` for indicators.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.outputs], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.impute is not None
        return tags


def read_columns(frame: Any, categorical: str | Sequence[str] = "auto", *, dates: bool = False) -> Contents:
    """Read the columns of a pandas frame as numbers, dates and categories, as `TableEncoder` does.

    Raises
    ------
    ValueError
        If a column that is mostly numeric holds text, or `categorical` has an unknown name.
    """
    chosen = [] if isinstance(categorical, str) else list(categorical)
    if unknown := [name for name in chosen if name not in frame.columns]:
        raise ValueError(f"there is no column {unknown[0]!r} for categorical; the columns are {listed(frame.columns)}.")
    contents = Contents()
    for name, column in frame.items():
        if _is_empty(column):
            contents.left_out[name] = "empty"
        elif name in chosen:
            _add_category(contents, name, column)
        elif (found := _dates(column)) is not None:
            if dates:
                contents.dates[name] = found
            else:
                contents.left_out[name] = "dates"
        elif not _is_category(column) and (numbers := _numbers(column, frame.index)) is not None:
            _add_numbers(contents, name, *numbers)
        else:
            levels = column[column.notna()].astype(str).nunique()
            few = levels <= min(_MOST_LEVELS, max(2, len(column) // 2))
            if categorical == "auto" and (few or _is_category(column)):
                _add_category(contents, name, column)
            else:
                contents.left_out[name] = "text" if few else f"text with {levels} different values"
    return contents


def _as_frame(X: Any, asker: Any) -> Any:
    """A table as a pandas frame."""
    import pandas as pd  # noqa: PLC0415

    if distributed_backend(X) is not None:
        raise TypeError(f"a {type(X).__name__} of Dask was given where a table in memory is needed; give X.compute().")
    X = collected(X)
    if not isinstance(X, pd.DataFrame) and (hasattr(X, "to_pandas") or hasattr(X, "__arrow_c_stream__")):
        arrow = optional("pyarrow", "read frames of polars and Arrow", "parquet")
        X = (X if hasattr(X, "to_pandas") else arrow.table(X)).to_pandas(date_as_object=False)
    if not isinstance(X, pd.DataFrame):
        given = check_array(X, dtype=None, ensure_all_finite=False, estimator=asker, input_name="X")
        X = pd.DataFrame(given)
        X = X.infer_objects() if given.dtype == object else X
    if 0 in X.shape:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={X.shape}) while a minimum of "
            f"1 is required by {type(asker).__name__}."
        )
    return X


def _named(frame: Any) -> Any:
    """A frame whose columns have strings as names: x0 for the number 0, "a b" for the levels a and b."""
    names = [
        name if isinstance(name, str) else f"x{name}" if isinstance(name, int) else " ".join(map(str, np.ravel(name)))
        for name in frame.columns
    ]
    return frame.set_axis(names, axis=1)


def _check_unique(names: Iterable[str]) -> None:
    """Raise ValueError if a column name occurs more than once."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"column names occur more than once: {listed(repeated)}; rename or leave out columns.")


def _is_category(column: Any) -> bool:
    return hasattr(column, "cat")


def _is_empty(column: Any) -> bool:
    return bool(column.isna().all()) if column.dtype.kind != "f" else bool(np.isnan(_floats(column)).all())


def _floats(column: Any) -> FloatArray:
    """A numeric column as float64, NaN for missing values."""
    values: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _numbers(column: Any, index: Any) -> tuple[FloatArray, str] | None:
    """A column as float64, and an example if its text was changed; None for a text column."""
    values, strays, example = _parsed(column)
    if len(strays) and np.isnan(values).mean() >= 1.0 - _MOSTLY_NUMBERS:
        return None
    if len(strays):
        raise _not_a_number(column, int(strays[0]), index)
    return values, example


def _parsed(column: Any) -> tuple[FloatArray, NDArray[np.intp], str]:
    """A column as float64, the rows that are not numbers, and an example of text that was changed.

    Spaces, percent signs and commas between thousands are removed.
    """
    import pandas as pd  # noqa: PLC0415

    if column.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {column.name!r}; give real and imaginary parts.")
    if column.dtype.kind in "biuf":
        return _floats(column), np.array([], dtype=np.intp), ""
    # As text, since pandas would turn dates into numbers.
    found = pd.to_numeric(column.astype(str if column.dtype.kind in "mM" else object), errors="coerce")
    strays, example = np.flatnonzero(found.isna() & column.notna()), ""
    if found.notna().any() and isinstance(first := column[found.notna()].iloc[0], str):
        example = f"{first!r} as {found[found.notna()].iloc[0]:g}"
    if len(strays):
        words = column.astype(str).str.strip()
        plain = words.str.removesuffix("%").str.strip()
        plain = plain.where(~plain.str.match(_THOUSANDS), plain.str.replace(",", ""))
        found = pd.to_numeric(plain, errors="coerce").where(column.notna())
        example = f"{column.iloc[strays[0]]!r} as {found.iloc[strays[0]]:g}"
        strays = np.flatnonzero(found.isna() & column.notna() & (words != ""))
    return found.to_numpy(dtype=np.float64, na_value=np.nan), strays, example


def _not_a_number(column: Any, at: int, index: Any) -> TableError:
    return TableError(
        f"{_row(at, index)}, column {column.name!r} holds {str(column.iloc[at])!r}, which is not a number;",
        f"correct it, make the column a category (frame.astype({{{column.name!r}: 'category'}})), or leave it out.",
        option=f"correct it, embed the column with --categorical {column.name!r}, or keep it aside with --label "
        f"{column.name!r}.",
        new_rows="correct it, or remove the row.",
    )


def _dates(column: Any) -> FloatArray | None:
    """A column of dates or durations as days, NaN for missing values; None for others."""
    import pandas as pd  # noqa: PLC0415

    kind = column.dtype.kind
    if kind not in "mM":
        if kind in "biufc" or _is_category(column):
            return None
        first = column[column.notna()].iloc[0]
        if not isinstance(first, datetime.date) and not (isinstance(first, str) and first[:4].isdigit()):
            return None
        if isinstance(first, str) and first.strip().replace(".", "").isdigit():  # 2026 and 20260131 are numbers
            return None
        dates = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
        if (dates.isna() & column.notna()).any():  # pandas 2 ends in 2262
            return _far_dates(column)
        column = dates
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = column.to_numpy()  # in the unit of the column: nanoseconds end in 2262
    origin: Any = moments.dtype.type(0, np.datetime_data(moments.dtype))
    return np.asarray((moments - origin) / _DAY, dtype=np.float64)


def _far_dates(column: Any) -> FloatArray | None:
    """A column of dates of any year as days, NaN for missing values; None for others."""
    try:
        return np.array([np.nan if gone else _days(one) for one, gone in zip(column, column.isna(), strict=True)])
    except (ValueError, TypeError):
        return None


def _days(moment: str | datetime.date) -> float:
    """Days since 1970 of a date, a moment, or one of them in ISO format; TypeError or ValueError for others."""
    if isinstance(moment, str):
        if not re.match(r"\s*\d{4}-\d\d-\d\d", moment):
            raise ValueError
        moment = datetime.datetime.fromisoformat(moment.strip())
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime.combine(moment, datetime.time())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) / datetime.timedelta(days=1)


def _wanted(column: Any, encoding: Column, index: Any) -> FloatArray:
    """A column of a new table as the numbers or dates that it held in the training data."""
    if _is_empty(column):
        return np.full(len(column), np.nan)
    if encoding.kind == "date":
        found = _dates(column)
        if found is None:
            raise ValueError(
                f"column {column.name!r} held dates in the training data, and now does not; give dates, or text such "
                "as 2026-01-31."
            )
        return found
    values, strays, _ = _parsed(column)
    if len(strays):
        raise _not_a_number(column, int(strays[0]), index)
    return values


def _labels(column: Any) -> NDArray[Any]:
    """The levels of a categorical column as strings, None for missing values; 3.0 is 3, as in a column of integers."""
    found = [
        None if missing else str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)
        for one, missing in zip(column.astype(object), column.isna(), strict=True)
    ]
    return np.array(found, dtype=object)


def _add_numbers(contents: Contents, name: str, values: FloatArray, example: str) -> None:
    if np.isnan(values).all():  # cells of spaces
        contents.left_out[name] = "empty"
        return
    contents.numbers[name] = values
    if example:
        contents.converted[name] = example


def _add_category(contents: Contents, name: str, column: Any) -> None:
    labels = _labels(column)
    if len(set(labels)) > 1:
        contents.categories[name] = labels
    else:
        contents.left_out[name] = "constant"


def _category(name: str, labels: NDArray[Any], *, impute: bool) -> Column:
    """The encoding of a category: a block of indicators with the weight of one standardised column."""
    counts = Counter(labels.tolist())
    missing = counts.pop(None, 0)
    fill = max(sorted(counts), key=counts.__getitem__) if impute else None
    levels: list[str | None] = [*sorted(counts)]
    if fill is not None:
        counts[fill] += missing
    elif missing:
        levels.append(None)
        counts[None] = missing
    shares = np.array([counts[level] for level in levels]) / len(labels)
    # A single level is left if all others were missing; its indicator is constant.
    scale = float(np.sqrt(1.0 - (shares**2).sum())) if len(levels) > 1 else 1.0
    return Column(name, "category", scale=scale, fill=fill, levels=tuple(levels))


def _indicators(labels: NDArray[Any], column: Column, unknown: dict[str, list[str]]) -> FloatArray:
    """Indicators (n, levels) of a category; adds levels without one to `unknown`."""
    places = {level: j for j, level in enumerate(column.levels)}
    at = np.array([places.get(one, -1) for one in labels])
    block = np.zeros((len(labels), len(places)))
    known = np.flatnonzero(at >= 0)
    block[known, at[known]] = 1.0 / column.scale
    if len(known) < len(labels):
        strange = dict.fromkeys("missing values" if one is None else repr(one) for one in labels[at < 0])
        unknown[column.name] = list(strange)
    return block


def _decoded(block: FloatArray, column: Column) -> NDArray[Any]:
    """The values of a column from its encoding, (n, levels) or (n, 1)."""
    if column.kind != "category":
        return np.asarray(block[:, 0] * column.scale + column.center)
    found: NDArray[Any] = np.array(column.levels, dtype=object)[block.argmax(axis=1)]
    found[block.max(axis=1) <= 0.0] = None  # a level that was not in the training data
    return found


def _filled(values: FloatArray) -> FloatArray:
    """Numbers with the median in place of missing values."""
    return np.where(np.isnan(values), np.nanmedian(values), values) if np.isnan(values).any() else values


def _check_present(columns: dict[str, FloatArray], index: Any) -> None:
    """Raise ValueError if a value is missing or infinite; the message names the first, and counts."""
    missing = {name: int(np.isnan(values).sum()) for name, values in columns.items()}
    missing = {name: count for name, count in missing.items() if count}
    if missing:
        name, total = next(iter(missing)), sum(missing.values())
        at = int(np.flatnonzero(np.isnan(columns[name]))[0])
        more = f" ({total} in all: {listed([f'{one} {count}' for one, count in missing.items()])})" if total > 1 else ""
        raise TableError(
            f"{_row(at, index)}, column {name!r} holds a missing value (NaN){more}.",
            "Fit with heatsketch.TableEncoder(impute='median'), which fills missing values in, or leave the rows out, "
            "for example with frame.dropna().",
            option="Embed with --impute median, which fills missing values in, or leave the rows out with "
            "--drop-missing.",
            new_rows="Correct the values, or leave the rows out with --drop-missing.",
        )
    for name, values in columns.items():
        if np.isinf(values).any():
            at = int(np.flatnonzero(np.isinf(values))[0])
            raise ValueError(
                f"{_row(at, index)}, column {name!r} holds the value {values[at]} (infinity); every value must be "
                "finite. Correct it, or leave the row out."
            )


def _check_size(columns: dict[str, FloatArray], index: Any) -> None:
    """Raise ValueError if a value is too large to standardise."""
    for name, values in columns.items():
        if np.abs(values).max() > _LARGEST:
            at = int(np.abs(values).argmax())
            raise ValueError(
                f"{_row(at, index)}, column {name!r} holds {values[at]:g}, which is too large to standardise; the "
                f"limit is {_LARGEST:g}. Correct it, or divide the column by a power of ten."
            )


def _row(at: int, index: Any) -> str:
    """A row for a message: its number, counted from 0, and its name in the index if it has one."""
    import pandas as pd  # noqa: PLC0415

    return f"row {at}" + ("" if isinstance(index, pd.RangeIndex) else f" ({index[at]})")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _reasons(left_out: dict[str, str]) -> str:
    return listed([f"{name} ({why})" for name, why in left_out.items()])
