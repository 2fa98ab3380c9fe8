"""Arrays of any library by the Array API standard.

The mathematics is written against the namespace of the arrays that it is given (NumPy, PyTorch, or the distributed
arrays of the Dask backend). Small results, such as Ritz values, are NumPy arrays everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, to_device

from .threads import each, shares

__all__ = [
    "array_namespace",
    "as_array",
    "asarray_like",
    "astype",
    "device",
    "from_order",
    "in_order",
    "is_array_api_obj",
    "to_numpy",
]


def as_array(values: Any) -> Any:
    """`values` if it is an array of any library, otherwise a NumPy array of it."""
    return values if is_array_api_obj(values) else np.asarray(values)


def to_numpy(values: Any) -> Any:
    """A NumPy array of the values, copied from their device if needed."""
    if hasattr(values, "detach"):  # a tensor that records gradients is not converted otherwise
        values = values.detach()
    return np.asarray(to_device(values, "cpu") if is_array_api_obj(values) else values)


def asarray_like(values: Any, like: Any, dtype: Any = None) -> Any:
    """Values as an array of the library and on the device of `like`, in a dtype of NumPy, or their own for None."""
    values, xp = as_array(values), array_namespace(like)
    if array_namespace(values) is not xp:
        values = np.require(to_numpy(values), requirements=["C", "W"])  # what every library accepts
    return xp.asarray(values, dtype=None if dtype is None else _dtype(xp, dtype), device=device(like))


def astype(values: Any, dtype: Any) -> Any:
    """An array in a dtype of NumPy; not copied if it has that dtype."""
    xp = array_namespace(values)
    return xp.astype(values, _dtype(xp, dtype), copy=False)


def from_order(V: Any, order: Any) -> Any:
    """Undo a reordering of rows: row i of `V` becomes row ``order[i]``."""
    if order is None:
        return V
    out = array_namespace(V).empty_like(V)
    if not isinstance(V, np.ndarray):
        out[order] = V
        return out

    def put(rows: slice) -> None:
        out[order[rows]] = V[rows]

    each(put, shares(len(V), V[:1].size), blas=False)
    return out


def in_order(V: Any, order: Any) -> Any:
    """The rows of `V` in an order: row ``order[i]`` becomes row i."""
    if order is None or not isinstance(V, np.ndarray):
        return V if order is None else V[order]
    out = np.empty((len(order), *V.shape[1:]), dtype=V.dtype)

    def take(rows: slice) -> None:
        np.take(V, order[rows], axis=0, out=out[rows], mode="clip")  # otherwise it copies twice

    each(take, shares(len(order), V[:1].size), blas=False)
    return out


def _dtype(xp: Any, dtype: Any) -> Any:
    """A dtype of NumPy as the namespace calls it."""
    return getattr(xp, np.dtype(dtype).name)
