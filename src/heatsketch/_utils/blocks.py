"""Blocks of columns, as arrays of NumPy, tensors of PyTorch or arrays of Dask: what is done to them in any form.

A Dask array is in bands of rows that lie on workers (:mod:`heatsketch.backends.dask`); what is done to it is planned,
and computed where it is `settled` or a number of it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.dask.tasks import gathered, mapped, on_bands, pick, settled, summed
from .devices import Device, is_tensor
from .typing import FloatArray, IntArray

__all__ = [
    "Columns",
    "all_finite",
    "as_numpy",
    "beside",
    "cast",
    "column_norms",
    "column_products",
    "column_ranges",
    "double",
    "doubled",
    "each_band",
    "empty",
    "fetched",
    "flat_nonzero",
    "gathered",
    "in_order",
    "is_banded",
    "is_remote",
    "like",
    "matching",
    "orthonormal",
    "rows_of",
    "rows_scaled",
    "settled",
    "weighted",
    "without",
]


def _torch() -> Any:
    """The library, which is there where a tensor is."""
    return sys.modules["torch"]


def _dask() -> Any:
    """The arrays of Dask, which are there where one is."""
    return sys.modules["dask.array"]


def is_banded(values: Any) -> bool:
    """Whether something is an array of Dask; who has one has imported the library."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(values, dask.Array)


def is_remote(values: Any) -> bool:
    """Whether rows of something must be fetched: an array of Dask, or points that are looked up by their numbers."""
    return is_banded(values) or hasattr(values, "rows_of")


def fetched(values: Any) -> Any:
    """Something small as an array of this process, from workers or a device; an array as it is."""
    return as_numpy(gathered(values))


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
    values = values if is_banded(values) else np.asarray(as_numpy(values))
    return values.astype(given.dtype, copy=False)


def cast(V: Any, dtype: Any) -> Any:
    """A block in a dtype of NumPy's."""
    return V.to(getattr(_torch(), np.dtype(dtype).name)) if is_tensor(V) else V.astype(dtype, copy=False)


def double(V: Any) -> Any:
    """What is no tensor in float64."""
    return V.astype(np.float64) if is_banded(V) else np.asarray(V, dtype=np.float64)


def doubled(V: Any) -> Any:
    """A tensor in float64, as NumPy makes of an array by itself when it meets one; an array as it is."""
    return V.double() if is_tensor(V) else V


def weighted(c: Any, V: Any) -> Any:
    """A number times a block, in float64."""
    return float(c) * V.double() if is_tensor(V) else np.float64(c) * V


def in_order(V: Any, order: Any) -> Any:
    """A block from one whose rows are in an order: row i goes to ``order[i]``; as it is, if the order is None."""
    if order is None:
        return V
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
    if is_banded(last):
        return _dask().concatenate(blocks, axis=1).rechunk({1: -1})
    if not is_tensor(last):
        return np.column_stack([as_numpy(block) for block in blocks])
    return _torch().cat([matching(block, last) for block in blocks], 1)


class Columns:
    """A block that is made some columns at a time: filled in where there is room for it, else joined from its parts.

    Parameters
    ----------
    room : ndarray or tensor of shape (N, k), or None for parts that are Dask arrays
    """

    def __init__(self, room: Any) -> None:
        self._room, self._parts, self._filled = room, [], 0  # type: ignore[var-annotated]

    def add(self, block: Any) -> None:
        """The next columns."""
        start, self._filled = self._filled, self._filled + block.shape[1]
        if self._room is None:
            self._parts.append(settled(block))
        else:
            self._room[:, start : self._filled] = like(block, self._room)

    def joined(self) -> Any:
        """All of them, (N, k)."""
        return settled(beside(*self._parts)) if self._room is None else self._room


def orthonormal(V: Any) -> Any:
    """Orthonormal columns that span those of a block, (N, k) -> (N, k)."""
    if is_banded(V):
        return _dask().linalg.tsqr(V)[0].rechunk({0: V.chunks[0], 1: -1})
    return _torch().linalg.qr(V)[0] if is_tensor(V) else np.linalg.qr(V)[0]


def rows_of(V: Any, rows: IntArray) -> Any:
    """Some rows of a block; those that lie on workers, which must be few, gathered."""
    if hasattr(V, "rows_of"):
        return V.rows_of(rows)
    return pick(V, rows) if is_banded(V) else V[rows]


def rows_scaled(V: Any, factors: Any, *, over: bool = False) -> Any:
    """``diag(factors) V``; `over` allows to write it over V."""
    if is_banded(V):
        return mapped("scale-rows", _rows_scaled, V, factors)
    if not over:
        return factors[:, None] * V
    V *= factors[:, None]
    return V


def _rows_scaled(V: FloatArray, factors: FloatArray) -> FloatArray:
    scaled: FloatArray = factors[:, None] * V
    return scaled


def without(V: Any, u: Any) -> Any:
    """``(I - u u^T) V`` for a unit vector u: a block without its part along u."""
    if is_banded(V):
        return mapped("project", _without, V, u, summed("parts-along", _along, u, V))
    out = u[:, None] * -(u @ V)[None, :]
    out += V
    return out


def _along(u: FloatArray, V: FloatArray) -> FloatArray:
    return u @ V


def _without(V: FloatArray, u: FloatArray, along: FloatArray) -> FloatArray:
    out = u[:, None] * -along[None, :]
    out += V
    return out


def each_band(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """``function(*arrays)`` for each band of Dask arrays, gathered; a list of one for other arrays."""
    return on_bands(function, *arrays) if is_banded(arrays[0]) else [function(*arrays)]


def column_norms(V: Any) -> FloatArray:
    """Euclidean norm of each column of a block, (N, k) -> (k,), as an array."""
    if is_banded(V):
        return np.asarray(gathered(np.sqrt((V * V).sum(axis=0))))
    if is_tensor(V):
        return np.asarray(as_numpy((V * V).sum(0).sqrt()))
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", V, V)))


def column_products(V: Any, W: Any) -> FloatArray:
    """Inner products of the columns of two blocks, (N, k) -> (k,), in float64, as an array."""
    if is_banded(V):
        return np.asarray(gathered((V.astype(np.float64) * W).sum(axis=0)))
    if is_tensor(V):
        return np.asarray(as_numpy((V.double() * W.double()).sum(0)))
    return np.asarray(np.einsum("ij,ij->j", V, W, dtype=np.float64))


def column_ranges(V: Any) -> FloatArray:
    """Largest minus smallest entry of each column, (N, k) -> (k,), as an array."""
    if is_tensor(V):
        low, high = _torch().aminmax(V, dim=0)
        return np.asarray(as_numpy(high - low))
    return np.asarray(gathered(V.max(axis=0) - V.min(axis=0)) if is_banded(V) else np.ptp(V, axis=0))


def all_finite(V: Any) -> bool:
    """Whether all entries are numbers, and finite."""
    return bool(gathered((_torch() if is_tensor(V) else np).isfinite(V).all()))


def flat_nonzero(mask: Any) -> IntArray:
    """Where a vector is true, increasing, as an array; on workers these must be few places."""
    if not is_banded(mask):
        return np.flatnonzero(mask)
    found = on_bands(np.flatnonzero, mask)
    starts = np.cumsum([0, *mask.chunks[0][:-1]])
    return np.concatenate([start + some for start, some in zip(starts, found, strict=True)])
