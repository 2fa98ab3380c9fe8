"""Blocks of columns, as arrays of NumPy, tensors of PyTorch or arrays of Dask: what is done to them in any form.

A Dask array is in bands of rows that lie on workers (:mod:`heatsketch.bands`); what is done to it is planned, and
computed where it is `settled` or a number of it is asked for.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._typing import FloatArray
from .devices import Device, is_tensor

__all__ = [
    "all_finite",
    "as_numpy",
    "beside",
    "cast",
    "column_norms",
    "column_products",
    "column_ranges",
    "doubled",
    "empty",
    "in_order",
    "is_banded",
    "like",
    "matching",
    "orthonormal",
    "weighted",
]


def _torch() -> Any:
    """The library, which is there where a tensor is."""
    return sys.modules["torch"]


def is_banded(values: Any) -> bool:
    """Whether something is an array of Dask; who has one has imported the library."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(values, dask.Array)


def as_numpy(values: Any) -> Any:
    """A tensor from wherever it lies as an array; anything else as it is."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def like(values: Any, given: Any) -> Any:
    """Values as an array or as a tensor, whichever `given` is, and where it is."""
    if not is_tensor(given):
        return as_numpy(values)
    return values.to(given.device) if is_tensor(values) else Device(str(given.device)).tensor(values)


def matching(values: Any, given: Any) -> Any:
    """Values as `like` gives them, and in the dtype of `given`, so that both can be multiplied as they are."""
    if is_tensor(given):
        return like(values, given).to(given.dtype)
    return np.asarray(as_numpy(values)).astype(given.dtype, copy=False)


def cast(V: Any, dtype: Any) -> Any:
    """A block in a dtype of NumPy's."""
    return V.to(getattr(_torch(), np.dtype(dtype).name)) if is_tensor(V) else V.astype(dtype, copy=False)


def doubled(V: Any) -> Any:
    """A tensor in float64, as NumPy makes of an array by itself when it meets one; an array as it is."""
    return V.double() if is_tensor(V) else V


def weighted(c: Any, V: Any) -> Any:
    """A number times a block, in float64."""
    return float(c) * V.double() if is_tensor(V) else np.float64(c) * V


def in_order(V: Any, order: Any) -> Any:
    """A block from one whose rows are in an order: row i goes to ``order[i]``."""
    out = V.clone() if is_tensor(V) else np.empty_like(V)
    out[order] = V
    return out


def empty(shape: tuple[int, ...], dtype: Any, device: Device | None) -> Any:
    """An array of a dtype of NumPy that is yet to be filled, or a tensor on a device."""
    if device is None:
        return np.empty(shape, dtype=dtype)
    return device.torch.empty(shape, dtype=device.dtype(dtype), device=device.name)


def beside(*blocks: Any) -> Any:
    """Blocks of columns side by side; as the last one is: an array, or a tensor of its dtype."""
    last = blocks[-1]
    if not is_tensor(last):
        return np.column_stack([as_numpy(block) for block in blocks])
    return _torch().cat([matching(block, last) for block in blocks], 1)


def orthonormal(V: Any) -> Any:
    """Orthonormal columns that span those of a block, (N, k) -> (N, k)."""
    return _torch().linalg.qr(V)[0] if is_tensor(V) else np.linalg.qr(V)[0]


def column_norms(V: Any) -> FloatArray:
    """Euclidean norm of each column of a block, (N, k) -> (k,), as an array."""
    if is_tensor(V):
        return np.asarray(as_numpy((V * V).sum(0).sqrt()))
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", V, V)))


def column_products(V: Any, W: Any) -> FloatArray:
    """Inner products of the columns of two blocks, (N, k) -> (k,), in float64, as an array."""
    if is_tensor(V):
        return np.asarray(as_numpy((V.double() * W.double()).sum(0)))
    return np.asarray(np.einsum("ij,ij->j", V, W, dtype=np.float64))


def column_ranges(V: Any) -> FloatArray:
    """Largest minus smallest entry of each column, (N, k) -> (k,), as an array."""
    if is_tensor(V):
        low, high = _torch().aminmax(V, dim=0)
        return np.asarray(as_numpy(high - low))
    return np.asarray(np.ptp(V, axis=0))


def all_finite(V: Any) -> bool:
    """Whether all entries are numbers, and finite."""
    return bool((_torch() if is_tensor(V) else np).isfinite(V).all())
