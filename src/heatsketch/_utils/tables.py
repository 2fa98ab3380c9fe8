"""Tables of numbers: arrays, lists, frames and tensors, checked by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .registry import backend_of

__all__ = ["checked", "explained", "table"]


def table(X: Any) -> Any:
    """`X` in a form that scikit-learn checks: tensors as arrays.

    Masked entries and dates raise ValueError, because scikit-learn would silently use their values.
    """
    backend = backend_of(X)
    if backend is not None:
        return backend.table(X)
    if np.ma.is_masked(X):
        raise ValueError(
            f"{np.count_nonzero(X.mask)} entries of X are masked; fill them, for example with "
            "sklearn.impute.SimpleImputer, or leave their rows out."
        )
    dtypes = [X.dtype] if hasattr(X, "dtype") else getattr(X, "dtypes", [])  # of an array, of the columns of a frame
    if any(_is_temporal(dtype) for dtype in dtypes):
        raise ValueError("X contains dates or times; turn dates into numbers in a unit of your choice first.")
    return X


def _is_temporal(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas or polars is one of dates or times."""
    return getattr(dtype, "kind", "") in ("m", "M") or (hasattr(dtype, "is_temporal") and dtype.is_temporal())


@contextmanager
def explained() -> Iterator[None]:
    """Add the next step to errors about entries that are not numbers; no warnings about sums that overflow."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"{error}. X must contain numbers: encode categories (for example with "
            "sklearn.preprocessing.OneHotEncoder) or leave such columns out."
        ) from error


def checked(X: Any, asker: str) -> Any:
    """A table as scikit-learn checks it for the function `asker`: at least two rows of finite numbers."""
    with explained():
        return check_array(
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=asker,
            input_name="X",
        )
