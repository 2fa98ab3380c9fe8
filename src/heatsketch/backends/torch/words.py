"""The random words of :mod:`heatsketch.linalg.sketch` and the entries made of them, on a device.

PyTorch has no unsigned arithmetic to speak of, so 32-bit words are held in int64. Products of two words wrap around
modulo 2^64, and a shift brings copies of the sign along; a mask takes these away, and the bits are right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._utils.typing import IntArray

__all__ = ["gaussian", "hashed_signs", "philox", "signs"]

_MASK32 = 0xFFFFFFFF
_MERSENNE61 = 2**61 - 1


def philox(counter: tuple[Any, Any, Any, Any], seed: int) -> tuple[Any, ...]:
    """Philox4x32-10, word for word that of :func:`heatsketch.linalg.sketch.philox`.

    Parameters
    ----------
    counter : four tensors of int64 with values in [0, 2**32), broadcast against each other
    seed : int
        The key; only its lowest 64 bits count.

    Returns
    -------
    words : four tensors of int64 with values in [0, 2**32)
    """
    shape = np.broadcast_shapes(*(c.shape for c in counter))
    c0, c1, c2, c3 = (c.expand(shape) for c in counter)
    key0, key1 = seed & _MASK32, (seed >> 32) & _MASK32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c2 = _high(p1).bitwise_xor_(c1).bitwise_xor_(key0), _high(p0).bitwise_xor_(c3).bitwise_xor_(key1)
        c1, c3 = p1.bitwise_and_(_MASK32), p0.bitwise_and_(_MASK32)
        key0, key1 = (key0 + 0x9E3779B9) & _MASK32, (key1 + 0xBB67AE85) & _MASK32
    return c0, c1, c2, c3


def _high(product: Any) -> Any:
    """The upper 32 of 64 bits."""
    return (product >> 32).bitwise_and_(_MASK32)


def _words(rows: Any, groups: IntArray, stream: int, seed: int) -> Any:
    """Four Philox words for each row and each group of columns, shape (rows, groups, 4)."""
    i = rows[:, None]
    group = torch.from_numpy(groups).to(rows.device)[None, :]
    last = torch.full_like(group, stream)
    return torch.stack(philox((i & _MASK32, i >> 32, group, last), seed), dim=-1)


def _picked(values: Any, group: IntArray, member: IntArray) -> Any:
    """Of each row the values at (group, member), (rows, groups, size) -> (rows, columns)."""
    flat = torch.from_numpy(group * values.shape[2] + member).to(values.device)
    return values.flatten(1).index_select(1, flat)


def gaussian(rows: Any, columns: IntArray, stream: int, seed: int) -> Any:
    """Entries of a `GaussianSketch`, to the rounding of logarithm and cosine.

    Parameters
    ----------
    rows : tensor of int64, shape (m,)
    columns : ndarray of int64, shape (k,)
    stream, seed : int

    Returns
    -------
    block : tensor of float64, shape (m, k)
    """
    groups, where = np.unique(columns // 4, return_inverse=True)
    uniform = _words(rows, groups, stream, seed).to(torch.float64).add_(0.5).mul_(2.0**-32)
    radius = uniform[..., 0::2].log().mul_(-2.0).sqrt_()  # [rows, groups, 2]
    angle = uniform[..., 1::2] * (2.0 * np.pi)
    normals = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return _picked(normals.flatten(2), where, columns % 4)


def signs(rows: Any, columns: IntArray, stream: int, seed: int) -> Any:
    """Entries of a `RademacherSketch`; parameters and result are those of `gaussian`."""
    groups, where = np.unique(columns // 128, return_inverse=True)
    words = _picked(_words(rows, groups, stream, seed), where, (columns % 128) // 32)
    bit = torch.from_numpy(columns % 32).to(rows.device)
    return (words >> bit).bitwise_and_(1).to(torch.float64).mul_(2.0).sub_(1.0)


def hashed_signs(rows: Any, columns: IntArray, coefficients: tuple[int, ...]) -> Any:
    """Entries of a `HashedRademacherSketch`.

    Parameters
    ----------
    rows : tensor of int64, shape (m,)
    columns : ndarray of int64, shape (k,)
    coefficients : four ints in [0, 2^61 - 1)
        Of the cubic polynomial, constant term first.

    Returns
    -------
    block : tensor of float64, shape (m, k)
    """
    x = (rows[:, None] << 24) | torch.from_numpy(columns).to(rows.device)[None, :]
    c0, c1, c2, c3 = coefficients
    value = torch.full_like(x, c3)
    for c in (c2, c1, c0):  # Horner's rule
        value = _reduce61(_multiply61(value, x).add_(c))
    return value.bitwise_and_(1).to(torch.float64).mul_(-2.0).add_(1.0)


def _reduce61(x: Any) -> Any:
    """X modulo 2^61 - 1 for 0 <= x < 2^63, using 2^61 = 1."""
    x = (x & _MERSENNE61).add_(x >> 61)
    return torch.where(x >= _MERSENNE61, x - _MERSENNE61, x)


def _multiply61(a: Any, b: Any) -> Any:
    """Product modulo 2^61 - 1 of numbers below 2^61, by halves of 31 and 30 bits: no sum reaches 2^63, nor the sign.

    The last sum is the largest: 2 (2^30 - 1)^2 + (2^32 + 2^61 - 2^31) + (2^31 - 1)^2 < 2^63 - 2^32.
    """
    low = 2**31 - 1
    a0, a1, b0, b1 = a & low, a >> 31, b & low, b >> 31
    middle = (a1 * b0).add_(a0 * b1)  # times 2^31 in the product; 2^62 = 2 modulo 2^61 - 1
    shifted = ((middle & (2**30 - 1)) << 31).add_(middle >> 30)
    return _reduce61(shifted.add_(a1.mul_(b1), alpha=2).add_(a0.mul_(b0)))
