"""Test matrices ``M`` as pure functions of (seed, row, column).

Entry (i, j) of a sketch depends on its seed, i and j only. A sketch is therefore the same in any chunking, order or
number of threads, its first k columns do not change when more are drawn, and any block of it can be made without the
rest. The words come from Philox4x32-10, a counter-based generator that also exists on GPUs [1]_.

References
----------
.. [1] Salmon, Moraes, Dror, Shaw. "Parallel random numbers: as easy as 1, 2, 3". SC 2011.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._utils.array import array_namespace, as_array
from .._utils.chunks import chunks
from .._utils.threads import each
from .._utils.typing import FloatArray, IntArray, RandomState

__all__ = [
    "SKETCHES",
    "ArraySketch",
    "ColumnSketch",
    "GaussianSketch",
    "HashedRademacherSketch",
    "RademacherSketch",
    "Sketch",
    "UnitSketch",
    "first_by_key",
    "make_sketch",
    "philox",
    "resolve_seed",
    "sample",
]

Words = NDArray[np.uint64]

_MASK32 = np.uint64(0xFFFFFFFF)
_MERSENNE61 = np.uint64(2**61 - 1)
# Streams separate uses of one seed: they are the last word of the Philox counter.
GAUSSIAN, RADEMACHER, _HASH, _COLUMNS = range(4)
_SAMPLE = 0xB
# Entries at a time, so that the temporaries of ten Philox rounds stay in cache.
_ENTRIES_PER_CHUNK = 1 << 16


def philox(counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], seed: int) -> tuple[Words, ...]:
    """Philox4x32-10: four 32-bit counter words and a 64-bit key to four random 32-bit words.

    Parameters
    ----------
    counter : four array-likes of integers in [0, 2**32), broadcast against each other
    seed : int
        The key; only its lowest 64 bits count.

    Returns
    -------
    words : four arrays of uint64 with values in [0, 2**32)
    """
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, dtype=np.uint64) for c in counter))
    key0, key1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(key0), (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(key1)
        c1, c3 = p1 & _MASK32, p0 & _MASK32
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def sample(n: int, size: int) -> IntArray:
    """At most `size` of the numbers below n in increasing order, pseudo-random but always the same."""
    if n <= size:
        return np.arange(n)
    return np.sort(first_by_key(n, size, lambda i: philox((i & _MASK32, i >> np.uint64(32), 0, _SAMPLE), seed=0)[0]))


def first_by_key(n: int, size: int, key: Callable[[Words], Words]) -> IntArray:
    """The numbers below n with the smallest keys, at most `size`, sorted by key, then number; in little memory.

    `key` maps an array of numbers to keys, both of uint64.
    """
    kept = smallest = np.empty(0, dtype=np.uint64)
    for some in chunks(n, 1):
        numbers = np.arange(some.start, some.stop, dtype=np.uint64)
        numbers, keys = np.concatenate([kept, numbers]), np.concatenate([smallest, key(numbers)])
        if len(keys) > size:
            few = np.flatnonzero(keys <= np.partition(keys, size - 1)[size - 1])
            numbers, keys = numbers[few], keys[few]
        first = np.argsort(keys, kind="stable")[:size]
        kept, smallest = numbers[first], keys[first]
    return kept.astype(np.int64)


def resolve_seed(random_state: RandomState) -> int:
    """Turn scikit-learn's ``random_state`` into the 64-bit seed of a sketch.

    An integer is the seed itself; a generator, or None for NumPy's global one, draws one.
    """
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**64:
            raise ValueError(
                f"random_state={random_state} was given; a seed must be a non-negative integer of at most 64 bits."
            )
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    high, low = check_random_state(random_state).randint(2**31, size=2)
    return int(high) << 31 | int(low)


@dataclass(frozen=True)
class Sketch(ABC):
    """The law of a random matrix together with its seed.

    Random sketches satisfy ``E[M M^T] = k I`` for k columns, so that squared distances in ``A M / sqrt(k)`` are
    unbiased. A subclass implements `_block` for index arrays.
    """

    seed: int

    # Law of k |y_i - y_j|^2 / d_ij^2: chi-square with k degrees of freedom ("exact"), of the same mean and no larger
    # variance ("approximate"), or neither (None).
    distance_law: ClassVar[Literal["exact", "approximate"] | None] = None

    @classmethod
    def make(cls, seed: int, n_rows: int) -> Sketch:  # noqa: ARG003
        """The sketch for `n_rows` points; most laws do not depend on their number."""
        return cls(seed)

    def require(self, n_columns: int) -> None:  # noqa: B027 - most laws have any number of columns
        """Raise if the sketch has fewer columns."""

    def block(self, rows: ArrayLike, columns: ArrayLike, dtype: Any = np.float64) -> FloatArray:
        """Entries at rows and columns given as non-negative integers, in any order: (len(rows), len(columns))."""
        i, j = (np.atleast_1d(np.asarray(index)).astype(np.int64) for index in (rows, columns))
        out = np.empty((len(i), len(j)), dtype=dtype)

        def fill(chunk: slice) -> None:
            out[chunk] = self._block(i[chunk], j)

        each(fill, chunks(len(i), len(j), _ENTRIES_PER_CHUNK))
        return out

    def matrix(self, n_rows: int, n_columns: int, *, first_column: int = 0, dtype: Any = np.float64) -> FloatArray:
        """Columns of the first rows, (n_rows, n_columns), from `first_column` on; computed in float64."""
        columns = np.arange(first_column, first_column + n_columns)
        return self.block(np.arange(n_rows), columns, dtype)

    @abstractmethod
    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray: ...


def _words(rows: IntArray, groups: IntArray, stream: int, seed: int) -> tuple[Words, ...]:
    """Four Philox words for each row and group of columns, each of shape (rows, groups)."""
    i = rows[:, None].astype(np.uint64)
    return philox((i & _MASK32, i >> np.uint64(32), groups[None, :], stream), seed)


@dataclass(frozen=True)
class GaussianSketch(Sketch):
    """Independent N(0, 1) entries: the paper's Algorithm 4.

    Two Philox words give two normals by the Box-Muller transform. Words have 32 bits, hence entries lie within 6.8
    standard deviations (a normal leaves that range once in 10^11).
    """

    distance_law = "exact"

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        groups, where = np.unique(columns // 4, return_inverse=True)
        words = _words(rows, groups, GAUSSIAN, self.seed)
        normals = np.empty((len(rows), len(groups), 4))
        for at in (0, 2):
            first, second = ((word + 0.5) * 2.0**-32 for word in words[at : at + 2])  # in (0, 1): log is finite
            radius, angle = np.sqrt(-2.0 * np.log(first)), 2.0 * np.pi * second  # [rows, groups]
            normals[..., at], normals[..., at + 1] = radius * np.cos(angle), radius * np.sin(angle)
        return normals.reshape(len(rows), -1).take(4 * where + columns % 4, axis=1)


@dataclass(frozen=True)
class RademacherSketch(Sketch):
    """Independent signs +1 and -1: the paper's Algorithm 5 (symmetric Bernoulli).

    One Philox call of 128 bits serves 128 columns.
    """

    distance_law = "approximate"

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        groups, where = np.unique(columns // 128, return_inverse=True)
        words = np.stack(_words(rows, groups, RADEMACHER, self.seed), axis=-1)
        word, bit = (columns % 128) // 32, (columns % 32).astype(np.uint64)
        bits = (words[:, where, word] >> bit) & np.uint64(1)  # [rows, columns]
        return 2.0 * bits - 1.0


@dataclass(frozen=True)
class HashedRademacherSketch(Sketch):
    """Signs from a hash of (row, column): 244 random bits for a matrix of any size.

    The paper remarks that pairwise independence of the entries suffices for unbiased distances, and saves memory. Here
    the sign is the parity of a random cubic polynomial over the integers modulo 2^61 - 1, so any *four* entries are
    independent (up to a bias of 2^-62). Estimated squared distances then have the variance of independent signs, too.
    """

    distance_law = "approximate"

    @property
    def coefficients(self) -> Words:
        """The four coefficients in [0, 2^61 - 1) that determine every entry, constant term first."""
        a, b, _, _ = philox((np.arange(4), 0, 0, _HASH), self.seed)
        return (((a << np.uint64(32)) | b) >> np.uint64(3)) % _MERSENNE61

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        # A point of the field for each entry: 37 bits of row, 24 bits of column.
        x = (rows[:, None].astype(np.uint64) << np.uint64(24)) | columns[None, :].astype(np.uint64)
        *lower, value = self.coefficients
        for c in reversed(lower):  # Horner's rule
            value = _reduce61(_multiply61(value, x) + c)
        signs: FloatArray = 1.0 - 2.0 * (value & np.uint64(1))
        return signs


def _reduce61(x: Words) -> Words:
    """X modulo 2^61 - 1 for x < 2^64, using 2^61 = 1."""
    x = (x & _MERSENNE61) + (x >> np.uint64(61))
    return np.where(x >= _MERSENNE61, x - _MERSENNE61, x)


def _multiply61(a: Words, b: Words) -> Words:
    """Product modulo 2^61 - 1 of numbers below 2^61, by 31-bit halves so that nothing exceeds 64 bits."""
    low = np.uint64(2**31 - 1)
    a0, a1, b0, b1 = a & low, a >> np.uint64(31), b & low, b >> np.uint64(31)
    middle = a1 * b0 + a0 * b1  # times 2^31 in the product; 2^62 = 2 modulo 2^61 - 1
    shifted = (middle >> np.uint64(30)) + ((middle & np.uint64(2**30 - 1)) << np.uint64(31))
    return _reduce61(np.uint64(2) * a1 * b1 + shifted + a0 * b0)


@dataclass(frozen=True)
class ColumnSketch(Sketch):
    """Distinct unit vectors times sqrt(N): heat kernel columns at sampled points [1]_.

    Column j picks the point whose Philox key is the j-th smallest, so that all N! orders are equally likely.

    References
    ----------
    .. [1] Jones, Maggioni, Schul. "Manifold parametrizations by eigenfunctions of the Laplacian and heat
       kernels". PNAS, 2008.
    """

    n_rows: int = field(kw_only=True)

    @classmethod
    def make(cls, seed: int, n_rows: int) -> Sketch:
        """The sketch that samples among `n_rows` points."""
        return cls(seed, n_rows=n_rows)

    def taken(self, n_columns: int) -> IntArray:
        """The points of the first columns, shape (n_columns,)."""
        self.require(n_columns)
        return first_by_key(self.n_rows, n_columns, self._keys)

    def _keys(self, rows: Words) -> Words:
        a, b, _, _ = philox((rows & _MASK32, rows >> np.uint64(32), 0, _COLUMNS), self.seed)
        return (a << np.uint64(32)) | b

    def require(self, n_columns: int) -> None:
        """Raise if there are fewer points."""
        if n_columns > self.n_rows:
            raise ValueError(
                f"sketch='columns' has {self.n_rows} columns, one for each point, and {n_columns} are needed; use "
                "fewer components or a Gaussian sketch."
            )

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        picked = rows[:, None] == self.taken(int(columns.max(initial=-1)) + 1)[columns][None, :]
        return np.where(picked, np.sqrt(self.n_rows), 0.0)


@dataclass(frozen=True, eq=False)
class UnitSketch(Sketch):
    """Given multiples of unit vectors: column c has ``values[c]`` in row ``points[c]``, and zeros elsewhere."""

    points: IntArray = field(kw_only=True)
    values: FloatArray = field(kw_only=True)

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        return np.where(rows[:, None] == self.points[columns][None, :], self.values[columns][None, :], 0.0)


@dataclass(frozen=True, eq=False)
class ArraySketch(Sketch):
    """A given array of any library used as ``M`` before the division by sqrt(k)."""

    array: Any = field(kw_only=True)

    def require(self, n_columns: int) -> None:
        """Raise if the array has fewer columns."""
        if n_columns > self.array.shape[1]:
            raise ValueError(
                f"the sketch given as an array has {self.array.shape[1]} columns, and {n_columns} are needed; give an "
                "array with at least that many columns."
            )

    def _block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        self.require(int(columns.max(initial=-1)) + 1)
        entries: FloatArray = self.array[np.ix_(rows, columns)]
        return entries


# Sketches by name; one that is added here can be used in every estimator.
SKETCHES: dict[str, type[Sketch]] = {
    "gaussian": GaussianSketch,
    "rademacher": RademacherSketch,
    "rademacher-hash": HashedRademacherSketch,
    "columns": ColumnSketch,
}


def make_sketch(sketch: str | ArrayLike, seed: int, n_rows: int) -> Sketch:
    """Sketch by name, or around an array of shape (n_rows, k).

    Examples
    --------
    >>> from heatsketch.linalg.sketch import make_sketch
    >>> make_sketch("rademacher", seed=0, n_rows=4).matrix(4, 3)
    array([[ 1., -1.,  1.],
           [ 1.,  1., -1.],
           [ 1.,  1.,  1.],
           [ 1., -1., -1.]])
    """
    if isinstance(sketch, str):
        if sketch not in SKETCHES:
            raise ValueError(
                f"sketch={sketch!r} is not known; use one of {sorted(SKETCHES)} or an array of shape "
                "(n_samples, n_components)."
            )
        return SKETCHES[sketch].make(seed, n_rows)
    array = as_array(sketch)
    if array.ndim != 2 or array.shape[0] != n_rows or array.dtype.kind not in "biuf":
        raise ValueError(
            f"sketch was given as an array of shape {array.shape} and dtype {array.dtype}; it must be real "
            f"with shape ({n_rows}, n_components), one row for each sample."
        )
    xp = array_namespace(array)
    if not xp.all(xp.isfinite(array)):
        raise ValueError("sketch was given as an array with NaN or infinite entries; they must be finite.")
    return ArraySketch(seed, array=array)
