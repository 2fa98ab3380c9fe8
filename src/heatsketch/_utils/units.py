"""Whether the columns of a table are measured in different units, judged by their ranges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .typing import FloatArray

__all__ = ["Units", "units_of"]

# Columns have different units if the largest range exceeds the lower quartile of all ranges by this factor. The
# quartile, since pixels at the border of images hardly vary; chosen in `benchmarks/units.py`.
_FACTOR = 10.0
# Numbers whose squares can be added.
_SMALL, _LARGE = 1e-100, 1e100
# Means of principal components are at most this many standard deviations from zero, also in a part of the rows.
_CENTERED = 0.5


class Units(NamedTuple):
    """How the scales of columns compare."""

    mixed: bool  # whether the columns have different units
    reason: str  # in words


def units_of(X: FloatArray) -> Units:
    """Compare the ranges of the columns of `X`, (n, d), dense, with NaN for missing values.

    Columns have one unit if their ranges are alike (pixels, coordinates), if they are counts, or if they are principal
    components, whose ranges differ by much and must be kept.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch._utils.units import units_of
    >>> X = np.random.default_rng(0).uniform(size=(50, 3))
    >>> units_of(X).mixed, units_of(X * [1, 1, 1000]).mixed
    (False, True)
    """
    X = X.astype(np.float64)
    largest = float(np.nanmax(np.abs(X), initial=0.0))
    varying = np.nanmax(X, axis=0) > np.nanmin(X, axis=0)
    if not _SMALL < largest < _LARGE:  # squares would underflow or overflow
        X = X / (largest or 1.0)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    ranges = np.sort((high - low)[varying])
    if len(ranges) < 2:
        return Units(mixed=False, reason="as only one column varies" if len(ranges) else "as no column varies")
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # NaN if all ranges underflow
        ratio = float(ranges[-1] / ranges[(len(ranges) - 1) // 4])
    if ratio <= _FACTOR:
        return Units(mixed=False, reason="as their scales are alike")
    if ranges[-1] <= _FACTOR * ranges[-2] and _are_counts(X, low):
        return Units(mixed=False, reason="as they are counts")
    if _are_components(X[:, varying]):
        return Units(mixed=False, reason="as they look like principal components")
    factor = f"{ratio:,.0f}" if ratio < 1e6 else "more than a million"
    return Units(mixed=True, reason=f"as their scales differ by a factor of {factor}")


def _are_counts(X: FloatArray, low: FloatArray) -> bool:
    """Whether all columns are integers from 0, and at least half of all entries are 0."""
    present = X[~np.isnan(X)]
    return bool((low == 0).all() and 2 * np.count_nonzero(present) <= present.size and (present % 1 == 0).all())


def _are_components(X: FloatArray) -> bool:
    """Whether columns are centred, in decreasing order of their variance."""
    spread = np.nanstd(X, axis=0)
    return bool((np.abs(np.nanmean(X, axis=0)) < _CENTERED * spread).all() and (np.diff(spread) <= 0).all())
