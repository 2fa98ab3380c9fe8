"""Arrays with a row for each sample, in chunks of rows on the workers of Dask, by the Array API standard.

Only what the mathematics needs is there. Elementwise work is planned and computed when it is needed: by a reduction, a
product with the kernel, a factorisation, or an operation in place with another array. What was computed on the way is
kept as long as something refers to it, as with NumPy. Small results, such as ``V.T @ W``, are NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from ..._utils.extras import optional
from ..._utils.typing import FloatArray, IntArray
from .layout import Layout
from .tasks import gathered, on_chunks, pick, started

__all__ = ["DistributedArray"]


class DistributedArray:
    """An array of shape (N,) or (N, k) in chunks of rows.

    Rows are indexed by the numbers of the samples, whatever the order in which they lie on the workers.

    Parameters
    ----------
    values : Dask array of shape (N,) or (N, k)
        Its rows as `layout` has them, its columns in one chunk.
    layout : Layout
    sources : list of weak references, optional
        To arrays that `values` is planned from and that are not computed yet; None if the values are computed.
    """

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, values: Any, layout: Layout, sources: list[Any] | None = None) -> None:
        self._values, self.layout, self._sources = values, layout, sources

    @classmethod
    def from_dask(cls, values: Any) -> DistributedArray:
        """The rows of a Dask array in its own chunks and order."""
        return cls(values, Layout(values.chunks[0], values.chunks[0]), [])

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return namespace

    @property
    def values(self) -> Any:
        """The Dask array, perhaps not computed yet."""
        return self._values

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return tuple(self._values.shape)

    @property
    def ndim(self) -> int:
        """1 or 2."""
        return int(self._values.ndim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the entries."""
        dtype: np.dtype[Any] = np.dtype(self._values.dtype)
        return dtype

    @property
    def device(self) -> Layout:
        """How the rows lie on the workers."""
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
            f"all {len(self)} rows of an array on a cluster were asked for in one place; ask for some of them (give "
            "pairs, where distances are asked for)."
        )

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:  # noqa: ARG002
        """Stays where it is; see `__array__`."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        self.computed()
        return {"_values": self._values, "layout": self.layout, "_sources": None}

    def computed(self) -> DistributedArray:
        """The same array, whose values are computed, or being computed, on the workers."""
        if self._sources is not None:
            alive = {id(one): one for source in self._sources if (one := source()) is not None}
            planned = [self, *(one for one in alive.values() if one is not self and one._sources is not None)]
            done = started(*(one._values for one in planned), name="computing on the workers")
            for one, values in zip(planned, done if len(planned) > 1 else [done], strict=True):
                one._values, one._sources = values, None
        return self

    def laid_out(self, layout: Layout) -> DistributedArray:
        """The same rows in another layout."""
        if layout.same_as(self.layout):
            return self
        return DistributedArray(layout.arranged(self.layout.restored(self._values)), layout, self._lineage())

    def _lineage(self) -> list[Any]:
        """References to what must be computed for this array."""
        return [] if self._sources is None else [*self._sources, ref(self)]

    def astype(self, dtype: Any, *, copy: bool = True) -> DistributedArray:  # noqa: ARG002
        """The same entries in another dtype."""
        return self if self.dtype == dtype else _elementwise(lambda V: V.astype(dtype), self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and key[0] == slice(None):
            return _elementwise(lambda V: _whole_rows(V[key]), self)
        if isinstance(key, slice) and key == slice(None):
            return self
        rows = np.asarray(key)
        if rows.dtype.kind not in "iu":
            raise IndexError("rows of an array on a cluster are taken by the numbers of samples.")
        return pick(self.computed()._values, self.layout.positions(rows))

    def __setitem__(self, key: Any, block: Any) -> None:
        """Replace some consecutive columns."""
        _, columns = key
        start, stop, _ = columns.indices(self.shape[1])
        parts = [self[:, :start], block.astype(self.dtype), self[:, stop:]]
        new = _concat([part for part in parts if part.shape[1]], axis=1)
        self._become(new)
        self.computed()

    def _become(self, other: DistributedArray) -> None:
        """Take the values of another array."""
        sources = other._sources
        self._values = other._values
        self._sources = None if sources is None else [source for source in sources if source() is not self]

    def _in_place(self, function: Callable[..., Any], other: Any) -> DistributedArray:
        self._become(_elementwise(function, self, other).astype(self.dtype))
        # At once, so that sums over a loop do not hold on to all that was added.
        return self.computed() if isinstance(other, DistributedArray) else self

    def __iadd__(self, other: Any) -> DistributedArray:
        return self._in_place(np.add, other)

    def __isub__(self, other: Any) -> DistributedArray:
        return self._in_place(np.subtract, other)

    def __imul__(self, other: Any) -> DistributedArray:
        return self._in_place(np.multiply, other)

    def __itruediv__(self, other: Any) -> DistributedArray:
        return self._in_place(np.divide, other)

    def __add__(self, other: Any) -> DistributedArray:
        return _elementwise(np.add, self, other)

    def __radd__(self, other: Any) -> DistributedArray:
        return _elementwise(np.add, other, self)

    def __sub__(self, other: Any) -> DistributedArray:
        return _elementwise(np.subtract, self, other)

    def __rsub__(self, other: Any) -> DistributedArray:
        return _elementwise(np.subtract, other, self)

    def __mul__(self, other: Any) -> DistributedArray:
        return _elementwise(np.multiply, self, other)

    def __rmul__(self, other: Any) -> DistributedArray:
        return _elementwise(np.multiply, other, self)

    def __truediv__(self, other: Any) -> DistributedArray:
        return _elementwise(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> DistributedArray:
        return _elementwise(np.divide, other, self)

    def __pow__(self, other: Any) -> DistributedArray:
        return _elementwise(np.power, self, other)

    def __neg__(self) -> DistributedArray:
        return _elementwise(np.negative, self)

    def __invert__(self) -> DistributedArray:
        return _elementwise(np.logical_not, self)

    def __gt__(self, other: Any) -> DistributedArray:
        return _elementwise(np.greater, self, other)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, DistributedArray):  # a vector times a vector or a block
            return _small(np.matmul, self, other)
        return _elementwise(lambda V: V @ np.asarray(other), self)


class _Transposed:
    """``V.T`` for a distributed block V."""

    __array_ufunc__ = None

    def __init__(self, block: DistributedArray) -> None:
        self.T = block

    def __matmul__(self, other: DistributedArray) -> FloatArray:
        product: FloatArray = _small(lambda V, W: V.T @ W, self.T, other)
        return product

    def __rmatmul__(self, other: FloatArray) -> Any:
        return self.T @ other.T


def _elementwise(function: Callable[..., Any], *operands: Any) -> DistributedArray:
    """What a function of NumPy makes of arrays in the same rows, and of numbers and small arrays; planned."""
    layout = next(one.layout for one in operands if isinstance(one, DistributedArray))
    placed = [one.laid_out(layout) if isinstance(one, DistributedArray) else one for one in operands]
    sources = [source for one in placed if isinstance(one, DistributedArray) for source in one._lineage()]
    values = function(*(one._values if isinstance(one, DistributedArray) else one for one in placed))
    return DistributedArray(values, layout, sources)


def _whole_rows(V: Any) -> Any:
    """A Dask array with its columns in one chunk."""
    return V.rechunk({1: -1}) if V.ndim == 2 and V.numblocks[1] > 1 else V


def _small(function: Callable[..., Any], *blocks: DistributedArray) -> Any:
    """What a function makes of blocks that is small: gathered."""
    placed = [block.laid_out(blocks[0].layout).computed()._values for block in blocks]
    return gathered(function(*placed))


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(V: Any, /, *, axis: int | None = None, dtype: Any = None) -> Any:
        options = {} if dtype is None else {"dtype": dtype}
        if not isinstance(V, DistributedArray):
            return function(V, axis=axis, **options)
        if axis == 1:
            return _elementwise(lambda values: function(values, axis=1, **options), V)
        return _small(lambda values: function(values, axis=axis, **options), V)

    return reduced


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    def applied(*operands: Any) -> Any:
        distributed = any(isinstance(one, DistributedArray) for one in operands)
        return _elementwise(function, *operands) if distributed else function(*operands)

    return applied


def _concat(blocks: Sequence[Any], /, *, axis: int) -> DistributedArray:
    """Blocks of columns side by side."""
    assert axis == 1, "rows are not joined"
    dask = optional("dask.array", "compute on a cluster", "dask")
    layout = blocks[0].layout
    placed = [block.laid_out(layout) for block in blocks]
    values = dask.concatenate([block._values for block in placed], axis=1).rechunk({1: -1})
    return DistributedArray(values, layout, [source for block in placed for source in block._lineage()])


def _stack(vectors: Sequence[DistributedArray]) -> _Transposed:
    """Vectors as the rows of a matrix, (m, N)."""
    return _concat([vector[:, None] for vector in vectors], axis=1).T


def _asarray(values: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:  # noqa: ARG001
    """A distributed array in a dtype; small arrays are those of NumPy."""
    if isinstance(values, DistributedArray):
        return values if dtype is None else values.astype(dtype)
    return np.asarray(values, dtype=dtype)


def _empty(shape: tuple[int, int], /, *, dtype: Any, device: Layout) -> DistributedArray:
    dask = optional("dask.array", "compute on a cluster", "dask")
    return DistributedArray(dask.zeros(shape, chunks=(device.sizes, -1), dtype=dtype), device, [])


def _argmin(v: DistributedArray, /) -> int:
    """The sample at which a vector is smallest."""
    return int(v.layout.numbers_at(np.array([_small(lambda values: values.argmin(), v)]))[0])


def _nonzero(v: DistributedArray, /) -> tuple[IntArray]:
    """The samples at which a vector is not zero, increasing; they must be few."""
    found = on_chunks(np.flatnonzero, v.computed()._values)
    positions = np.concatenate([start + some for start, some in zip(v.layout.starts, found, strict=False)])
    return (np.sort(v.layout.numbers_at(positions)),)


def _qr(V: DistributedArray, /) -> tuple[DistributedArray, FloatArray]:
    """Orthonormal columns that span those of a block, and the coefficients."""
    dask = optional("dask.array", "compute on a cluster", "dask")
    Q, R = dask.linalg.tsqr(V.computed()._values)
    return DistributedArray(Q.rechunk({0: V.layout.sizes, 1: -1}), V.layout, []).computed(), R


def _vector_norm(V: DistributedArray, /, *, axis: int | None = None) -> Any:
    """Norm of a vector, or of each column."""
    assert axis in (None, 0), "rows are not measured"
    return np.sqrt(_small(lambda values: (values * values).sum(axis=axis), V))


namespace = ModuleType(f"{__name__}.namespace", "What the Array API standard asks for, as far as it is used.")
vars(namespace).update(
    float32=np.float32,
    float64=np.float64,
    int64=np.int64,
    bool=np.bool_,
    inf=np.inf,
    **{name: _function(getattr(np, name)) for name in ("abs", "exp", "isfinite", "log", "sqrt", "where")},
    **{name: _reduction(getattr(np, name)) for name in ("all", "any", "max", "min", "sum")},
    argmin=_argmin,
    asarray=_asarray,
    astype=lambda V, dtype, /, *, copy=True: V.astype(dtype, copy=copy),
    concat=_concat,
    empty=_empty,
    linalg=SimpleNamespace(qr=_qr, vector_norm=_vector_norm),
    nonzero=_nonzero,
    stack=_stack,
)
