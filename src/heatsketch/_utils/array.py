"""Arrays of any library by the Array API standard.

The mathematics is written against the namespace of the arrays that it is given (NumPy, PyTorch, or the distributed
arrays of the Dask backend). Small results, such as Ritz values, are NumPy arrays everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, to_device

__all__ = ["array_namespace", "as_array", "asarray_like", "astype", "from_order", "to_numpy"]


def as_array(values: Any) -> Any:
    """An array of any library as it is; anything else as a NumPy array."""
    return values if is_array_api_obj(values) else np.asarray(values)


def to_numpy(values: Any) -> Any:
    """A NumPy array of the values, from whatever device they are on."""
    if hasattr(values, "detach"):  # a tensor that records gradients is not converted otherwise
        values = values.detach()
    return np.asarray(to_device(values, "cpu") if is_array_api_obj(values) else values)


def asarray_like(values: Any, like: Any, dtype: Any = None) -> Any:
    """Values as an array of the library and on the device of `like`, in a dtype of NumPy, or their own for None."""
    values, xp = as_array(values), array_namespace(like)
    if array_namespace(values) is not xp:
        values = np.require(to_numpy(values), requirements=["C", "W"])  # as every library takes it
    return xp.asarray(values, dtype=None if dtype is None else _dtype(xp, dtype), device=device(like))


def astype(values: Any, dtype: Any) -> Any:
    """An array in a dtype of NumPy; not copied if it has that dtype."""
    xp = array_namespace(values)
    return xp.astype(values, _dtype(xp, dtype), copy=False)


def from_order(V: Any, order: Any) -> Any:
    """A block whose rows are in an order as one in the original order: row i goes to row ``order[i]``."""
    if order is None:
        return V
    out = array_namespace(V).empty_like(V)
    out[order] = V
    return out


def _dtype(xp: Any, dtype: Any) -> Any:
    """A dtype of NumPy as the namespace calls it."""
    return getattr(xp, np.dtype(dtype).name)
