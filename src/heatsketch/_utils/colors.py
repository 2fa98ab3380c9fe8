"""What points are coloured by: numbers, or named groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .typing import FloatArray, IntArray

__all__ = ["Groups", "Numbers", "as_vector", "is_missing", "read_colors"]

# Integers with at most this many different values are labels.
_MAX_LABELS = 20
# Groups that can be told apart in a picture; smaller ones are joined.
_MAX_GROUPS = 21


@dataclass(frozen=True)
class Numbers:
    """Values on a colour scale, (N,), NaN where missing."""

    values: FloatArray
    label: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Points with a number, shape (N,)."""
        return np.isfinite(self.values)


@dataclass(frozen=True)
class Groups:
    """A colour for each group.

    Attributes
    ----------
    codes : ndarray of int, shape (N,)
        Group of each point, -1 where missing.
    names : tuple of str
    n_joined : int
        Number of small groups that were joined into the last one.
    label : str
    """

    codes: IntArray
    names: tuple[str, ...]
    n_joined: int = 0
    label: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Points with a group, shape (N,)."""
        return self.codes >= 0


def read_colors(
    color: ArrayLike | Mapping[Any, Any] | None,
    n: int,
    *,
    names: Any = None,
    categorical: bool | None = None,
    label: str | None = None,
    max_groups: int = _MAX_GROUPS,
    what: str = "color",
) -> Numbers | Groups | None:
    """Check values that points are coloured by.

    Parameters
    ----------
    color : array-like of shape (n,), mapping, or None
        Numbers or labels; dates are labels. None and NaN are missing. A mapping goes from sample names to values.
    n : int
        Number of points.
    names : sequence of length n, optional
        Names of the samples.
    categorical : bool, optional
        Whether values are labels. By default numbers are not, except integers with at most 20 different values.
    label : str, optional
        By default the name of a pandas or polars series.
    max_groups : int
        Smaller groups beyond this number are joined.
    what : str
        The name of the values in errors.

    Returns
    -------
    colors : Numbers, Groups or None
    """
    if color is None:
        return None
    if isinstance(color, Mapping):
        color = _by_name(color, names, n)
    label = str(label if label is not None else (getattr(color, "name", None) or ""))
    categories: Any = getattr(getattr(color, "dtype", None), "categories", None)
    order = categories.tolist() if hasattr(categories, "tolist") else None  # polars has categories without an order
    values = as_vector(color if order is None else np.asarray(color, dtype=object), n, what)
    if values.dtype.kind not in "biufUOmM":
        raise ValueError(f"{what} holds {values.dtype}; values must be numbers or labels.")
    missing = is_missing(values)
    if values.dtype.kind in "mM":
        values = np.datetime_as_string(values) if values.dtype.kind == "M" else values.astype(str)
    known = values[~missing].tolist()
    numeric, integer = (
        all(isinstance(x, kind) and not isinstance(x, bool) for x in known) for kind in (Real, Integral)
    )
    grouped = order is not None or not numeric or (integer and len(set(known)) <= _MAX_LABELS)
    if categorical if categorical is not None else grouped:
        return _groups(known, missing, order, label, max_groups)
    if not numeric:
        raise ValueError(f"categorical=False was given with values such as {known[0]!r}; a colour scale needs numbers.")
    numbers = np.full(n, np.nan)
    numbers[~missing] = values[~missing].astype(np.float64)
    numbers[np.isinf(numbers)] = np.nan
    return Numbers(numbers, label)


def _by_name(color: Mapping[Any, Any], names: Any, n: int) -> NDArray[Any]:
    if names is None:
        raise ValueError("color was given as a mapping, but the samples have no names; give an array of values.")
    if absent := [name for name in names if name not in color]:
        raise ValueError(
            f"color has no value for {len(absent)} of {n} samples, such as {absent[0]!r}; give None for missing values."
        )
    return np.fromiter((color[name] for name in names), dtype=object, count=n)


def as_vector(values: Any, n: int, what: str) -> NDArray[Any]:
    """Values of any kind as an array (n,), mixed ones as objects."""
    if isinstance(values, (str, bytes)):
        raise ValueError(f"{what} was given as {values!r}; give a value for each of the {n} points.")
    if isinstance(values, (list, tuple)) and not all(isinstance(one, (Real, np.generic)) for one in values):
        found: NDArray[Any] = np.fromiter(values, dtype=object, count=len(values))
    else:
        found = np.asarray(values)
    if found.shape != (n,):
        raise ValueError(
            f"{what} was given as {type(values).__name__} of shape {found.shape}; give one value for each of the {n} "
            "points."
        )
    return found


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an array holds None, NaN, NaT or pandas' NA."""
    if values.dtype.kind in "fmM":
        missing: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
        return missing
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    # NaN is the only number that differs from itself; pandas' NA and NaT are known by name, as pandas is optional.
    return np.fromiter(
        (
            x is None or type(x).__name__ in ("NAType", "NaTType") or (isinstance(x, Real) and x != x)  # noqa: PLR0124
            for x in values
        ),
        dtype=bool,
        count=len(values),
    )


def _groups(known: list[Any], missing: NDArray[np.bool_], order: list[Any] | None, label: str, most: int) -> Groups:
    counts = Counter(known)
    order = sorted(counts, key=_sort_key) if order is None else [one for one in order if one in counts]
    n_joined = max(0, len(order) - most)
    if n_joined:
        largest = {one for one, _ in counts.most_common(most)}
        order = [one for one in order if one in largest]
    number = {one: code for code, one in enumerate(order)}
    codes = np.full(len(missing), -1)
    codes[~missing] = [number.get(one, len(order)) for one in known]
    names = [*map(str, order)] + ([f"other ({n_joined} groups)"] if n_joined else [])
    return Groups(codes, tuple(names), n_joined, label)


def _sort_key(name: Any) -> tuple[bool, float, list[Any]]:
    """Numbers before text, and numbers within text by value: "cluster 2" before "cluster 10"."""
    if isinstance(name, Real):
        return False, float(name), []
    parts = re.split(r"(\d+)", str(name))
    return True, 0.0, [int(part) if part.isdecimal() else part for part in parts]
