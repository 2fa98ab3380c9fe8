"""Random words as pure functions of counters, and samples drawn by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.chunks import chunks
from .._utils.typing import IntArray

__all__ = ["MASK32", "Words", "first_by_key", "philox", "sample"]

Words = NDArray[np.uint64]

MASK32 = np.uint64(0xFFFFFFFF)


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
        c1, c3 = p1 & MASK32, p0 & MASK32
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def sample(n: int, size: int) -> IntArray:
    """At most `size` of the numbers below n in increasing order, pseudo-random but always the same."""
    if n <= size:
        return np.arange(n)
    return np.sort(first_by_key(n, size, lambda i: philox((i & MASK32, i >> np.uint64(32), 0, 0xB), seed=0)[0]))


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
