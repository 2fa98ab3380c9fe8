"""What points are coloured by: numbers, or named groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .typing import FloatArray, IntArray

__all__ = ["Colors", "as_series", "read_colors", "summarize_cells"]

# Integers with at most this many different values are labels.
_MAX_LABELS = 20
# Groups that can be distinguished in a picture; smaller ones are joined.
_MAX_GROUPS = 21
_NUMERIC = ("integer", "floating", "mixed-integer-float")


@dataclass(frozen=True)
class Colors:
    """A number or a group for each point."""

    values: NDArray[Any]  # numbers (N,), NaN where missing; or group indices (N,), -1 where missing
    groups: tuple[str, ...] | None = None  # their names; None for numbers
    label: str = ""
    n_joined: int = 0  # small groups that were joined into the last one

    @property
    def known(self) -> NDArray[np.bool_]:
        """Points whose value is not missing, shape (N,)."""
        return np.isfinite(self.values) if self.groups is None else self.values >= 0


def read_colors(
    color: Any,
    n: int,
    *,
    names: Any = None,
    categorical: bool | None = None,
    label: str | None = None,
    max_groups: int = _MAX_GROUPS,
    what: str = "color",
) -> Colors | None:
    """Check values that n points are coloured by: numbers, labels, or a mapping from sample names to these.

    Numbers are labels if `categorical`, by default if they are integers with at most 20 different values; dates are
    labels. None, NaN and names without a value are missing. Smaller groups beyond `max_groups` are joined. Errors call
    the values `what`.
    """
    import pandas as pd  # noqa: PLC0415

    if color is None:
        return None
    if isinstance(color, Mapping):
        if names is None:
            raise ValueError("color was given as a mapping, but the samples have no names; give an array of values.")
        color = [color.get(name) for name in names]
    label = str(label if label is not None else (getattr(color, "name", None) or ""))
    values = as_series(color, n, what)
    kind = pd.api.types.infer_dtype(values, skipna=True)
    labels = kind not in _NUMERIC or (kind == "integer" and values.nunique() <= _MAX_LABELS)
    if labels if categorical is None else categorical:
        return _groups(values, label, max_groups)
    if kind not in _NUMERIC:
        raise ValueError(f"categorical=False was given with {kind} values; a colour scale needs numbers.")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    numbers[np.isinf(numbers)] = np.nan
    return Colors(numbers, label=label)


def as_series(values: Any, n: int, what: str) -> Any:
    """Values of any kind as a pandas series of length n with the default index."""
    import pandas as pd  # noqa: PLC0415

    if not isinstance(values, (list, tuple, pd.Series, pd.api.extensions.ExtensionArray)):
        values = np.asarray(values)
    shape = values.shape if isinstance(values, np.ndarray) else (len(values),)
    if shape != (n,):
        raise ValueError(f"{what} has shape {shape}; give one value for each of the {n} points.")
    mixed = isinstance(values, (list, tuple))  # elements keep their types
    return pd.Series(values, dtype=object if mixed else None).reset_index(drop=True)


def _groups(values: Any, label: str, most: int) -> Colors:
    import pandas as pd  # noqa: PLC0415

    counts = values.value_counts()
    if isinstance(values.dtype, pd.CategoricalDtype):
        order = [one for one in values.cat.categories if counts[one]]
    else:
        order = sorted(counts.index, key=_sort_key)
    n_joined = max(0, len(order) - most)
    if n_joined:
        largest = set(counts.index[:most])
        order = [one for one in order if one in largest]
    number = {one: code for code, one in enumerate(order)}
    codes = np.array([number.get(one, len(order)) for one in values.tolist()], dtype=np.int64)
    codes[values.isna().to_numpy()] = -1
    names = [*map(str, order)] + ([f"other ({n_joined} groups)"] if n_joined else [])
    return Colors(codes, tuple(names), label, n_joined)


def _sort_key(name: Any) -> tuple[bool, float, list[Any]]:
    """Numbers before text, and numbers within text by value: "cluster 2" before "cluster 10"."""
    if isinstance(name, Real):
        return False, float(name), []
    parts = re.split(r"(\d+)", str(name))
    return True, 0.0, [int(part) if part.isdecimal() else part for part in parts]


def summarize_cells(colors: Colors, cells: IntArray, n_cells: int) -> FloatArray:
    """Mean number, or index of the most common group, in each cell; NaN without a known value, shape (n_cells,).

    `cells` holds the cell of each point.
    """
    cells, values = cells[colors.known], colors.values[colors.known]
    counts = np.bincount(cells, minlength=n_cells)
    if colors.groups is None:
        found = np.bincount(cells, weights=values, minlength=n_cells) / np.maximum(counts, 1)
    else:
        k = max(1, len(colors.groups))
        found = np.bincount(cells * k + values, minlength=n_cells * k).reshape(n_cells, k).argmax(axis=1)
    summary: FloatArray = np.where(counts > 0, found, np.nan)
    return summary
