r"""Points as halves, so that one matrix product of halves gives the exponents of the Gaussian kernel.

With points centred and in units of the bandwidth, ``x = (X - c) sqrt(2 log2(e) / epsilon)``, the kernel is ``2^e`` with

    e_ij = x_i . x_j - |x_i|^2 / 2 - |x_j|^2 / 2,

a sum of products of something of i with something of j. Matrix units multiply halves (11 bits) and add in float32, so
each factor is written as a sum of halves, ``u = u' + u'' + ...``, and ``u v = u' v' + u' v'' + u'' v' + ...`` takes a
column for each term: rows of a left and a right factor whose inner product is ``e_ij``. Local scales come in for
little: with ``epsilon_ij = s_i s_j`` every factor is multiplied by ``1 / s``.

How many terms the coordinates need is a question of the data (`choose_arithmetic`):

==============  ===========================================================  =======================================
arithmetic      terms of a coordinate                                        error of an exponent
==============  ===========================================================  =======================================
``"halves"``    ``x' y'``                                                    2^-12 |x||y| / sqrt(d), at random
``"mixed"``     ``x' y'`` in halves, ``x' y'' + x'' y'`` in eight bits       a tenth of that
``"split"``     ``x' y' + x' y'' + x'' y'`` in halves                        that of adding in float32
``"float32"``   differences, one by one (:mod:`heatsketch.backends.torch.products`)   that of the coordinates themselves
==============  ===========================================================  =======================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

__all__ = [
    "DEEP",
    "EIGHTH",
    "PIECE",
    "Halves",
    "as_halves",
    "choose_arithmetic",
    "far_away",
    "fourth_powers",
]

# Root mean square of the relative rounding error of a number as a half, and of a product in eight bits in units of it.
_HALF = 2.07e-4
_EIGHT_BITS = 0.04
# Error of the exponent (a natural logarithm) of the worst pair up to which an arithmetic is taken.
_EXPONENT_ERROR = 4e-5
# Beyond this |x|^2 / 2 the sum of large numbers that cancel, in float32 and cut off, is off by more than that.
_FARTHEST = 384.0
# Inner products of eight bits count as much: the second halves are multiplied by the reciprocal.
EIGHTH = 2.0**-12
# Features for which that pays, and for which the chip can hold the factors.
_MIXED = 16, 128
# Columns come to a multiple of the depth of the matrix units. Deeper factors than so many columns do not stay on the
# chip: they are read again for every tile, in pieces.
_DEPTH, _DEPTH8 = 16, 32
DEEP, PIECE = 256, 64
_ENTRIES = 1 << 23  # that are converted at a time
_LN2 = 0.6931471805599453


@dataclass(frozen=True)
class Halves:
    """Rows whose inner products are exponents.

    Attributes
    ----------
    columns : tensor of float16, shape (n_padded, K)
        Rows beyond the points are zero.
    eighths : tensor of float8, shape (n_padded, K8), or None
        Inner products of these count 2^-12.
    """

    columns: Any
    eighths: Any


def far_away(x: Any, scale: Any) -> Any:
    """Which points are so far from the centre that their exponents would drown in cancellation, bool of shape (n,)."""
    return 0.5 * x.double().square().sum(1) * (scale * scale.max()).double() > _FARTHEST


def choose_arithmetic(x: Any, scale: Any, *, eight_bits: bool) -> str:
    """The cheapest arithmetic whose exponents are accurate enough for these points, none of them far away.

    Parameters
    ----------
    x : tensor of shape (n, d)
        Centred, in units of the bandwidth.
    scale : tensor of shape (n,)
        Reciprocal local scales, 1 where there are none.
    eight_bits : bool
        Whether the chip multiplies numbers of eight bits.
    """
    d = x.shape[1]
    # The root of sum_c (x_ic x_jc)^2 for the pair of points for which it is largest, by Cauchy and Schwarz.
    error = _LN2 * _HALF * (2.0 * float(fourth_powers(x, scale).max())) ** 0.5
    if error <= _EXPONENT_ERROR:
        return "halves"
    eight_bits = eight_bits and _MIXED[0] <= d <= _MIXED[1]
    return "mixed" if eight_bits and _EIGHT_BITS * error <= _EXPONENT_ERROR else "split"


def fourth_powers(x: Any, scale: Any) -> Any:
    """``sum_c (s x_c)^4`` of each point, (n,), on which the error of rounded coordinates depends."""
    sums = [(x[rows] * scale[rows, None]).square().square().sum(1) for rows in _rows(x)]
    return torch.cat(sums)


def as_halves(x: Any, scale: Any, shift: Any, *, arithmetic: str, left: bool, pad: int) -> Halves:
    """Rows of the left or the right factor for points.

    Parameters
    ----------
    x : tensor of shape (n, d)
        Centred, in units of the bandwidth.
    scale : tensor of shape (n,), or None
        Reciprocal local scales; None for 1.
    shift : tensor of shape (n,)
        Added to the exponents of a row (left).
    arithmetic : {"halves", "mixed", "split"}
    left : bool
    pad : int
        Rows are filled up to a multiple of this.

    Returns
    -------
    halves : Halves
    """
    n, d = x.shape
    full = -(-n // pad) * pad
    columns, eighths = None, None
    for rows in _rows(x):
        some = None if scale is None else scale[rows, None].double()
        y, norms = x[rows].double(), -0.5 * x[rows].double().square().sum(1, keepdim=True)
        parts = _norm_columns(norms, some, shift[rows, None].double(), left)
        first, second = _pieces(y if some is None else y * some, 2)
        if arithmetic == "split":
            parts += [first, first, second] if left else [first, second, first]
        else:
            parts.append(first)
        if columns is None:
            width = sum(part.shape[1] for part in parts)
            width = two_powers(width, _DEPTH) if width <= DEEP else -(-width // PIECE) * PIECE
            columns = torch.zeros((full, width), dtype=torch.float16, device=x.device)
        _fill(columns[rows], parts)
        if arithmetic == "mixed":
            if eighths is None:
                width = two_powers(2 * d, _DEPTH8)
                eighths = torch.zeros((full, width), dtype=torch.float8_e4m3fn, device=x.device)
            scaled = second.double() / EIGHTH
            _fill(eighths[rows], [first, scaled] if left else [scaled, first])
    return Halves(columns, eighths)


def two_powers(width: int, least: int) -> int:
    """The smallest sum of two powers of two, or one, that is not below the width; each is at least `least`."""
    top = least
    while 2 * top <= width:
        top *= 2
    rest = 0 if width <= top else least
    while rest and top + rest < width:
        rest *= 2
    return top + rest


# Products of pieces, largest first, that make a product of numbers of 33 bits.
_TERMS = ((0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (1, 1))


def _norm_columns(norms: Any, scale: Any, shift: Any, left: bool) -> list[Any]:
    """Columns of ``-|x_i|^2/2 - |x_j|^2/2 + shift_i``, to 33 bits; where there are scales, times ``s_i s_j``."""
    one = torch.ones_like(norms).half()
    if scale is None:
        own = _pieces(norms + shift if left else norms, 3)
        return [*own, one, one, one] if left else [one, one, one, *own]
    lengths, scales = _pieces(norms * scale, 3), _pieces(scale, 3)
    if left:
        terms = [lengths[i] for i, _ in _TERMS] + [scales[i] for i, _ in _TERMS]
        return [*terms, *_pieces(shift, 2)]
    return [scales[j] for _, j in _TERMS] + [lengths[j] for _, j in _TERMS] + [one, one]


def _pieces(values: Any, count: int) -> list[Any]:
    """Halves that add up to the values."""
    pieces = []
    for _ in range(count):
        pieces.append(values.half())
        values = values - pieces[-1].double()
    return pieces


def _fill(out: Any, parts: list[Any]) -> None:
    """Write parts side by side, in the dtype of `out`."""
    start = 0
    for part in parts:
        out[:, start : start + part.shape[1]] = part.to(out.dtype)
        start += part.shape[1]


def _rows(x: Any) -> Iterator[slice]:
    n, size = len(x), max(1, _ENTRIES // x.shape[1])
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
