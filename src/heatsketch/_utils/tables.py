"""Tables of numbers: arrays, lists, frames and tensors, checked by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .indices import check_indices
from .registry import backend_of

__all__ = ["checked", "collected", "explained", "table"]


def collected(X: Any) -> Any:
    """A lazy frame of polars as a frame; everything else unchanged."""
    return X.collect() if hasattr(X, "collect_schema") and hasattr(X, "collect") else X


def table(X: Any, name: str = "X") -> Any:
    """`X` in a form that scikit-learn checks: tensors as arrays, lazy frames collected, float16 as float32.

    Masked entries and dates raise ValueError, because scikit-learn would silently use their values; invalid indices of
    a sparse matrix do, because scikit-learn and SciPy would read beyond its end. `name` is for that message.
    """
    check_indices(X, name)
    backend = backend_of(X)
    if backend is not None:
        return backend.table(X)
    if hasattr(X, "obsm") and hasattr(X, "obs_names"):
        raise TypeError(
            "AnnData was given where an array is needed; call heatsketch.scanpy.heat_sketch(adata), or give a "
            "representation such as adata.obsm['X_pca']."
        )
    X = collected(X)
    if hasattr(type(X), "__dlpack__") and not hasattr(type(X), "__array__"):
        X = np.from_dlpack(X)
    if np.ma.is_masked(X):
        raise ValueError(
            f"{np.count_nonzero(X.mask)} entries of X are masked; fill them, for example with X.filled(np.nan) and "
            "heatsketch.TableEncoder(impute='median'), or leave their rows out."
        )
    dtypes = [X.dtype] if hasattr(X, "dtype") else getattr(X, "dtypes", [])  # of an array, of the columns of a frame
    if any(_is_temporal(dtype) for dtype in dtypes):
        raise ValueError(
            "X contains dates or times; leave them out, or turn them into numbers with "
            "heatsketch.TableEncoder(dates='number') in a pipeline before the embedding."
        )
    # scikit-learn would make it float64, which takes four times the memory.
    return X.astype(np.float32) if len(dtypes) and all(dtype == np.float16 for dtype in dtypes) else X


def _is_temporal(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas or polars is one of dates or times."""
    return getattr(dtype, "kind", "") in ("m", "M") or (hasattr(dtype, "is_temporal") and dtype.is_temporal())


@contextmanager
def explained(*, precomputed: bool = False) -> Iterator[None]:
    """Add the next step to errors about text and missing values; no warnings about sums that overflow."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ValueError as error:
        if "contains NaN" in str(error) and precomputed:
            raise ValueError(
                f"{str(error).splitlines()[0]} Correct these affinities or distances, or leave their samples out."
            ) from error
        if "contains NaN" in str(error):
            raise ValueError(
                f"{str(error).splitlines()[0]} Fill missing values in with heatsketch.TableEncoder(impute='median') in "
                "a pipeline before the embedding, or leave such rows out, for example with frame.dropna()."
            ) from error
        if "could not convert string" in str(error):
            raise ValueError(
                f"{error}. X must contain numbers: encode categories with heatsketch.TableEncoder() in a pipeline "
                "before the embedding, or leave such columns out."
            ) from error
        raise


def checked(X: Any, asker: str, *, precomputed: bool = False) -> Any:
    """A table as scikit-learn checks it for the function `asker`: at least two rows of finite numbers."""
    with explained(precomputed=precomputed):
        return check_array(
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            estimator=asker,
            input_name="X",
        )
