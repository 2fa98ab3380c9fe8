"""Arrays with a row for each sample, in row chunks on the workers, by the Array API standard.

Only what the mathematics needs is implemented. Elementwise operations are lazy, and computed by one task for each
chunk: by a reduction, a product with the kernel, or a factorisation. Small results, such as ``V.T @ W``, are NumPy
arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import getitem, methodcaller
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakSet

import dask.array as da
import numpy as np

from ..._utils.typing import FloatArray, IntArray
from ...linalg.metrics import column_distances, magnitude, row_distances
from .layout import Layout
from .tasks import Parts, Plan, gathered, persisted, result

__all__ = ["DistributedArray", "total"]


@dataclass(eq=False)
class _Node:
    """An array, or a function of arrays that has not been computed."""

    like: Any  # an array without rows, of the same dtype and number of columns
    values: Any = None  # Dask array
    function: Any = None
    operands: tuple[Any, ...] = ()  # nodes, numbers and small arrays
    persisted: bool = False


@dataclass(frozen=True)
class _Slot:
    """The result of an earlier step of a program."""

    number: int


class _Program:
    """A function of row chunks that computes several nodes.

    A step is a function and its operands, or None for the next of the given chunks.
    """

    def __init__(self, nodes: list[_Node]) -> None:
        self._steps: list[Any] = []
        self.leaves: list[_Node] = []
        slots: dict[_Node, _Slot] = {}
        self._results = [self._slot(node, slots).number for node in nodes]

    def _slot(self, node: _Node, slots: dict[_Node, _Slot]) -> _Slot:
        if node not in slots:
            if node.values is None:
                operands = [self._slot(one, slots) if isinstance(one, _Node) else one for one in node.operands]
                self._steps.append((node.function, operands))
            else:
                self.leaves.append(node)
                self._steps.append(None)
            slots[node] = _Slot(len(self._steps) - 1)
        return slots[node]

    def __getstate__(self) -> dict[str, Any]:
        return {"_steps": self._steps, "_results": self._results}

    def __call__(self, *chunks: FloatArray) -> Any:
        found: list[Any] = []
        rest = iter(chunks)
        for step in self._steps:
            if step is None:
                found.append(next(rest))
            else:
                function, operands = step
                found.append(function(*(found[one.number] if isinstance(one, _Slot) else one for one in operands)))
        results = [found[number] for number in self._results]
        return results if len(results) > 1 else results[0]


class _Lazy(threading.local):
    """Arrays of this thread that may not have been computed."""

    def __init__(self) -> None:
        self.arrays: WeakSet[DistributedArray] = WeakSet()


_lazy = _Lazy()


def _planned(layout: Layout, *nodes: _Node) -> list[_Node]:
    """Plan the tasks of nodes, together with all lazy arrays in the same layout that are still referenced.

    What they have in common is then computed once. Returns the nodes that have not been persisted.
    """
    others = (array._node for array in _lazy.arrays if array.layout is layout)
    waiting = list(dict.fromkeys(one for one in (*nodes, *others) if not one.persisted))
    planned = [one for one in waiting if one.values is None]
    if planned:
        program = _Program(planned)
        plan = Plan(*(leaf.values for leaf in program.leaves))
        keys = [plan.keys(leaf.values) for leaf in program.leaves]
        for b in range(len(layout.sizes)):
            chunks = [leaf[b] for leaf in keys]
            places = [(b, 0) if one.like.ndim == 2 else b for one in planned]
            if len(planned) == 1:
                plan.add("elementwise-0", places[0], program, *chunks)
                continue
            results = plan.add("elementwise", b, program, *chunks)
            for i, place in enumerate(places):
                plan.add(f"elementwise-{i}", place, getitem, results, i)
        for i, one in enumerate(planned):
            columns = one.like.shape[1] if one.like.ndim == 2 else None
            one.values = plan.array(f"elementwise-{i}", layout.sizes, columns, one.like.dtype)
            one.function, one.operands = None, ()
    return waiting


def _persist(nodes: list[_Node], *parts: Parts) -> Any:
    """Persist nodes that were planned, and lists of parts that depend on them; return these lists."""
    _lazy.arrays.clear()
    collections = [*(one.values for one in nodes), *parts]
    found = persisted(*collections)
    found = found if len(collections) > 1 else [found]
    for one, values in zip(nodes, found, strict=False):
        one.values, one.persisted = values, True
    return found[len(nodes) :]


def _operators(function: Callable[..., Any]) -> tuple[Callable[[Any, Any], Any], ...]:
    """An elementwise operator, its reflected form and its form in place."""

    def forward(self: DistributedArray, other: Any) -> DistributedArray:
        return _elementwise(function, self, other)

    def reflected(self: DistributedArray, other: Any) -> DistributedArray:
        return _elementwise(function, other, self)

    def in_place(self: DistributedArray, other: Any) -> DistributedArray:
        self._become(_elementwise(function, self, other).astype(self.dtype))
        return self

    return forward, reflected, in_place


class DistributedArray:
    """An array of shape (N,) or (N, k) in row chunks.

    Rows are indexed by the numbers of the samples, whatever their order on the workers.

    Parameters
    ----------
    values : Dask array of shape (N,) or (N, k)
        Rows in `layout`, columns in one chunk.
    layout : Layout
    """

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, values: Any, layout: Layout) -> None:
        self.layout = layout
        self._node = _Node(np.empty((0, *values.shape[1:]), dtype=values.dtype), values)
        _lazy.arrays.add(self)

    @classmethod
    def from_dask(cls, values: Any) -> DistributedArray:
        """The rows of a Dask array in its chunks and order."""
        whole = values.rechunk({1: -1}) if values.ndim == 2 else values
        return cls(whole, Layout(values.chunks[0], values.chunks[0]))

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return namespace

    @property
    def values(self) -> Any:
        """The Dask array, persisted on the workers."""
        if not self._node.persisted:
            _persist(_planned(self.layout, self._node))
        return self._node.values

    @property
    def planned(self) -> Any:
        """The Dask array; its tasks may not have been submitted."""
        _planned(self.layout, self._node)
        return self._node.values

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns."""
        return (self.layout.n_samples, *self._node.like.shape[1:])

    @property
    def ndim(self) -> int:
        """1 or 2."""
        return int(self._node.like.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the entries."""
        dtype: np.dtype[Any] = self._node.like.dtype
        return dtype

    @property
    def device(self) -> Layout:
        """Chunks and order of the rows."""
        return self.layout

    @property
    def T(self) -> _Transposed:
        """The transposed array, for products with a small result."""
        return _Transposed(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DistributedArray(shape={self.shape}, dtype={self.dtype}, chunks={len(self.layout.sizes)})"

    def __array__(self, *_: Any, **__: Any) -> FloatArray:
        raise ValueError(
            f"an array of {len(self)} rows on a cluster cannot be converted to NumPy; ask for some of them (give "
            "pairs, for distances)."
        )

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:  # noqa: ARG002
        """The array itself; see `__array__`."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        _ = self.values
        return self.__dict__

    def laid_out(self, layout: Layout) -> DistributedArray:
        """The same rows in another layout."""
        if layout.same_as(self.layout):
            return self
        return DistributedArray(layout.arranged(self.layout.restored(self.values)), layout)

    def astype(self, dtype: Any, *, copy: bool = True) -> DistributedArray:  # noqa: ARG002
        """The same entries in another dtype."""
        return self if self.dtype == dtype else _elementwise(methodcaller("astype", dtype), self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and key[0] == slice(None):
            return _elementwise(partial(_columns, key), self)
        rows = np.asarray(key)
        if rows.dtype.kind not in "iu":
            raise IndexError("rows of an array on a cluster are indexed by the numbers of samples.")
        few, places = np.unique(rows, return_inverse=True)
        return gathered(self.values[self.layout.positions(few)])[places.reshape(rows.shape)]

    def __setitem__(self, key: Any, block: Any) -> None:
        """Replace some consecutive columns."""
        _, columns = key
        start, stop, _ = columns.indices(self.shape[1])
        parts = [self[:, :start], block.astype(self.dtype), self[:, stop:]]
        self._become(_concat([part for part in parts if part.shape[1]], axis=1))
        _ = self.values

    def _become(self, other: DistributedArray) -> None:
        """Take the values of another array."""
        self._node = other._node
        _lazy.arrays.add(self)

    __add__, __radd__, __iadd__ = _operators(np.add)
    __sub__, __rsub__, __isub__ = _operators(np.subtract)
    __mul__, __rmul__, __imul__ = _operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.divide)
    __pow__, __rpow__, __ipow__ = _operators(np.power)
    __gt__ = _operators(np.greater)[0]

    def __neg__(self) -> DistributedArray:
        return _elementwise(np.negative, self)

    def __invert__(self) -> DistributedArray:
        return _elementwise(np.logical_not, self)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, DistributedArray):  # a vector times a vector or a block
            return _small(np.matmul, total, self, other)
        return _elementwise(np.matmul, self, np.asarray(other))


class _Transposed:
    """``V.T`` for a distributed block V."""

    __array_ufunc__ = None

    def __init__(self, block: DistributedArray) -> None:
        self.T = block

    def __matmul__(self, other: DistributedArray) -> FloatArray:
        product: FloatArray = _small(_inner, total, self.T, other)
        return product

    def __rmatmul__(self, other: FloatArray) -> Any:
        return self.T @ other.T


def _inner(V: FloatArray, W: FloatArray) -> FloatArray:
    return V.T @ W


def _columns(key: Any, V: FloatArray) -> FloatArray:
    return np.ascontiguousarray(V[key])


def _sum_of_squares(axis: int | None, V: FloatArray) -> Any:
    return np.square(V).sum(axis=axis)


def _elementwise(function: Callable[..., Any], *operands: Any) -> DistributedArray:
    """A lazy function of the rows of arrays, of numbers and of small arrays.

    It should be a function of a module, or made from one by `partial`: lambdas take long to send to workers.
    """
    layout = next(one.layout for one in operands if isinstance(one, DistributedArray))
    nodes = [one.laid_out(layout)._node if isinstance(one, DistributedArray) else one for one in operands]
    array = DistributedArray.__new__(DistributedArray)
    like = function(*(one.like if isinstance(one, _Node) else one for one in nodes))
    array.layout, array._node = layout, _Node(like, function=function, operands=tuple(nodes))
    _lazy.arrays.add(array)
    return array


def _small(function: Callable[..., Any], combine: Callable[[list[Any]], Any], *blocks: DistributedArray) -> Any:
    """A function of the chunks of blocks, combined over all chunks, with a small result."""
    layout = blocks[0].layout
    nodes = [block.laid_out(layout)._node for block in blocks]
    waiting = _planned(layout, *nodes)
    values = [node.values for node in nodes]
    plan = Plan(*values)
    parts = [
        plan.add("reduce-chunk", b, function, *chunks)
        for b, chunks in enumerate(zip(*map(plan.keys, values), strict=True))
    ]
    plan.add_tree("reduce", 0, combine, parts)
    [[reduced]] = _persist(waiting, plan.parts("reduce", [0]))
    return result(reduced)


def _reduction(function: Callable[..., Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(V: Any, /, *, axis: int | None = None, dtype: Any = None) -> Any:
        options = {} if dtype is None else {"dtype": dtype}
        if not isinstance(V, DistributedArray):
            return function(V, axis=axis, **options)
        if axis == 1:
            return _elementwise(partial(function, axis=1, **options), V)
        return _small(partial(function, axis=axis, **options), partial(combine, axis=0), V)

    return reduced


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    def applied(*operands: Any) -> Any:
        distributed = any(isinstance(one, DistributedArray) for one in operands)
        return _elementwise(function, *operands) if distributed else function(*operands)

    return applied


def _beside(*blocks: FloatArray) -> FloatArray:
    return np.concatenate(blocks, axis=1)


def _concat(blocks: Sequence[Any], /, *, axis: int) -> DistributedArray:
    """Blocks of columns side by side."""
    assert axis == 1, "rows are not joined"
    return _elementwise(_beside, *blocks)


def _stack(vectors: Sequence[DistributedArray]) -> _Transposed:
    """Vectors as the rows of a matrix, (m, N)."""
    return _concat([vector[:, None] for vector in vectors], axis=1).T


def _asarray(values: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:  # noqa: ARG001
    """A distributed array in a dtype; small arrays are those of NumPy."""
    if isinstance(values, DistributedArray):
        return values if dtype is None else values.astype(dtype)
    return np.asarray(values, dtype=dtype)


def _empty(shape: tuple[int, int], /, *, dtype: Any, device: Layout) -> DistributedArray:
    return DistributedArray(da.zeros(shape, chunks=(device.sizes, -1), dtype=dtype), device)


def _nonzero(v: DistributedArray, /) -> tuple[IntArray]:
    """The samples at which a vector is not zero, increasing."""
    return (np.sort(v.layout.samples(np.flatnonzero(gathered(v.values)))),)


def _qr(V: DistributedArray, /) -> tuple[DistributedArray, FloatArray]:
    """Orthonormal columns that span those of a block, and the coefficients."""
    Q, R = da.linalg.tsqr(V.values)
    return DistributedArray(Q.rechunk({0: V.layout.sizes, 1: -1}), V.layout), R


def _vector_norm(V: DistributedArray, /, *, axis: int | None = None) -> Any:
    """Norm of a vector, or of each column."""
    assert axis in (None, 0), "norms of rows are not computed"
    return np.sqrt(_small(partial(_sum_of_squares, axis), total, V))


@column_distances.register
def _(V: DistributedArray, i: IntArray, j: IntArray) -> FloatArray:
    scale, pairs = magnitude(V), np.stack([i, j])
    distances: FloatArray = scale * np.sqrt(_small(partial(_squared, pairs, scale), total, V))
    return distances


def _squared(pairs: IntArray, scale: float, V: FloatArray) -> FloatArray:
    rows = np.ascontiguousarray(V.T, dtype=np.float64) / scale
    squared: FloatArray = np.square(row_distances(rows, *pairs))
    return squared


def total(parts: list[FloatArray]) -> FloatArray:
    """The sum of a few arrays, in their order."""
    if len(parts) == 1:
        return parts[0]
    out = parts[0] + parts[1]
    for part in parts[2:]:
        out += part
    return out


namespace = ModuleType(f"{__name__}.namespace", "The part of the Array API standard that is used.")
vars(namespace).update(
    float32=np.float32,
    float64=np.float64,
    int64=np.int64,
    bool=np.bool_,
    inf=np.inf,
    **{name: _function(getattr(np, name)) for name in ("abs", "exp", "isfinite", "log", "sqrt", "where")},
    **{name: _reduction(getattr(np, name), getattr(np, name)) for name in ("all", "any", "max", "min", "sum")},
    asarray=_asarray,
    astype=lambda V, dtype, /, *, copy=True: V.astype(dtype, copy=copy),
    concat=_concat,
    empty=_empty,
    linalg=SimpleNamespace(qr=_qr, vector_norm=_vector_norm),
    nonzero=_nonzero,
    stack=_stack,
)
