"""What points are coloured by: numbers, or groups that have names."""

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

# Whole numbers of at most so many different values are taken for labels.
_FEW_VALUES = 20
# Groups that can be told apart in a picture; smaller ones beyond are drawn as one.
_MOST_GROUPS = 21


@dataclass(frozen=True)
class Numbers:
    """Colours along a scale.

    Attributes
    ----------
    values : ndarray of shape (N,)
        NaN where there is none.
    label : str
    """

    values: FloatArray
    label: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a number, shape (N,)."""
        return np.isfinite(self.values)


@dataclass(frozen=True)
class Groups:
    """A colour for each group.

    Attributes
    ----------
    codes : ndarray of int, shape (N,)
        Number of the group of each point, -1 for none.
    names : tuple of str
    n_joined : int
        How many small groups were joined to the last one; 0 if all are there.
    label : str
    """

    codes: IntArray
    names: tuple[str, ...]
    n_joined: int = 0
    label: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which points have a group, shape (N,)."""
        return self.codes >= 0


def read_colors(
    color: ArrayLike | Mapping[Any, Any] | None,
    n: int,
    *,
    names: Any = None,
    categorical: bool | None = None,
    label: str | None = None,
    most_groups: int = _MOST_GROUPS,
    what: str = "color",
) -> Numbers | Groups | None:
    """Find out what is to be shown by colour.

    Parameters
    ----------
    color : array-like of shape (n,), mapping, or None
        Numbers, or names of groups; dates are names. None and NaN are missing. A mapping goes from the names of samples
        to values.
    n : int
        Number of points.
    names : sequence of length n, optional
        Names of the samples.
    categorical : bool, optional
        Whether values are names of groups. By default numbers are none, except whole numbers of at most 20 different
        values.
    label : str, optional
        By default the name of a pandas or polars series.
    most_groups : int
        Smaller groups beyond so many are joined.
    what : str
        What errors call the values.

    Returns
    -------
    colors : Numbers, Groups or None
    """
    if color is None:
        return None
    values, order = _values(color, n, names, what)
    label = str(label if label is not None else (getattr(color, "name", None) or ""))
    missing = is_missing(values)
    if values.dtype.kind in "mM":
        values = np.datetime_as_string(values) if values.dtype.kind == "M" else values.astype(str)
    numeric, whole = (_all_are(kind, values, missing) for kind in (Real, Integral))
    few = whole and len(set(values[~missing].tolist())) <= _FEW_VALUES
    grouped = order is not None or few or not numeric
    if categorical if categorical is not None else grouped:
        return _groups(values, missing, order, label, most_groups)
    if not numeric:
        raise ValueError(
            f"categorical=False was given with colours such as {values[~missing].tolist()[0]!r}; a scale of colours "
            "needs numbers."
        )
    numbers = np.full(n, np.nan)
    numbers[~missing] = values[~missing].astype(np.float64)
    numbers[np.isinf(numbers)] = np.nan
    return Numbers(numbers, label)


def as_vector(values: Any, n: int, what: str) -> NDArray[Any]:
    """Values of any kind as an array (n,): of a mixture, each as it is."""
    if isinstance(values, (str, bytes)):
        raise ValueError(f"{what} was given as {values!r}; give a value for each of the {n} points.")
    if isinstance(values, (list, tuple)) and not all(isinstance(one, (Real, np.generic)) for one in values):
        found: NDArray[Any] = np.fromiter(values, dtype=object, count=len(values))
    else:
        found = np.asarray(values)
    if found.shape != (n,):
        raise ValueError(
            f"{what} was given as {type(values).__name__} of shape {found.shape}; it must have one value for each of "
            f"the {n} points."
        )
    return found


def _values(color: Any, n: int, names: Any, what: str) -> tuple[NDArray[Any], list[Any] | None]:
    """Colours as an array (n,), and the order of categories where pandas knows one."""
    if isinstance(color, Mapping):
        if names is None:
            raise ValueError(
                "color was given as a mapping, and the samples have no names; give an array with a value for each."
            )
        absent = [name for name in names if name not in color]
        if absent:
            raise ValueError(
                f"color has no value for {len(absent)} of {n} samples, such as {absent[0]!r}; give None for those that "
                "have none."
            )
        color = np.fromiter((color[name] for name in names), dtype=object, count=n)
    categories: Any = getattr(getattr(color, "dtype", None), "categories", None)
    order = categories.tolist() if hasattr(categories, "tolist") else None  # polars has categories without an order
    values = as_vector(color if order is None else np.asarray(color, dtype=object), n, what)
    if values.dtype.kind not in "biufUOmM":
        raise ValueError(f"{what} holds {values.dtype}; values must be numbers, or the names of groups.")
    return values, order


def _all_are(kind: type, values: NDArray[Any], missing: NDArray[np.bool_]) -> bool:
    """Whether all values that are there are numbers of a kind; truth values are none."""
    if values.dtype.kind == "O":
        return all(isinstance(x, kind) and not isinstance(x, bool) for x in values[~missing])
    return values.dtype.kind in ("iu" if kind is Integral else "iuf")


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an array holds nothing: None, NaN, NaT or the NA of pandas."""
    if values.dtype.kind in "fmM":
        missing: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
        return missing
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter((_is_nothing(x) for x in values), dtype=bool, count=len(values))


def _is_nothing(x: Any) -> bool:
    return (
        x is None or type(x).__name__ in ("NAType", "NaTType") or (isinstance(x, (float, np.floating)) and np.isnan(x))
    )


def _groups(values: NDArray[Any], missing: NDArray[np.bool_], order: list[Any] | None, label: str, most: int) -> Groups:
    counts = Counter(values[~missing].tolist())
    order = sorted(counts, key=_rank) if order is None else [one for one in order if one in counts]
    n_joined = 0
    if len(order) > most:
        largest = {one for one, _ in counts.most_common(most)}
        n_joined = len(order) - most
        order = [one for one in order if one in largest]
    number = {one: code for code, one in enumerate(order)}
    codes = np.full(len(values), -1)
    codes[~missing] = [number.get(one, len(order)) for one in values[~missing].tolist()]
    names = [*map(str, order)] + ([f"other ({n_joined} groups)"] if n_joined else [])
    return Groups(codes, tuple(names), n_joined, label)


def _rank(name: Any) -> tuple[bool, float, list[Any]]:
    """Numbers before words, and words with the numbers in them as numbers: "cluster 2" before "cluster 10"."""
    if isinstance(name, Real):
        return False, float(name), []
    parts = re.split(r"(\d+)", str(name))
    return True, 0.0, [int(part) if part.isdecimal() else part for part in parts]
