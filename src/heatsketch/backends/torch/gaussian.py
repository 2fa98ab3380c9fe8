r"""The Gaussian kernel of all pairs on a GPU in float32: points are prepared once, fused programs multiply.

With points centred and in units of the bandwidth, ``x = (X - c) sqrt(2 log2(e) / epsilon)``, the kernel is ``2^e`` with

    e_ij = x_i . x_j - |x_i|^2 / 2 - |x_j|^2 / 2,

a sum of products of something of i with something of j. Tensor cores multiply float16 numbers (11 bits) and add in
float32, so each factor is a sum of such halves, ``u = u' + u'' + ...``, and ``u v = u' v' + u' v'' + u'' v' + ...`` has
one column per term: ``e_ij`` is the inner product of a row of a left factor and a row of a right factor. With local
scales, ``epsilon_ij = s_i s_j``, every factor is multiplied by ``1 / s``.

The data decide how many terms the coordinates need (`choose_arithmetic`):

==============  ===========================================================  =======================================
arithmetic      terms of a coordinate                                        error of an exponent
==============  ===========================================================  =======================================
``"halves"``    ``x' y'``                                                    2^-12 |x||y| / sqrt(d), at random
``"mixed"``     ``x' y'`` in float16, ``x' y'' + x'' y'`` in float8          a twenty-fifth of that
``"split"``     ``x' y' + x' y'' + x'' y'`` in float16                       that of float32 sums
``"float32"``   differences, one by one                                      that of the coordinates themselves
==============  ===========================================================  =======================================

Distances do not change if the points are rotated. For ``"mixed"`` the coordinates are along principal axes: the leading
ones, which are the largest, have all their terms in float16, so that few points need ``"split"``.

Points are sorted so that close points have close numbers. Tiles whose entries are all negligible are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..._utils.chunks import chunks
from .chunked import ChunkedGaussian
from .halves import CONVERTED, DEEP, factor_width, fill, pieces
from .products import (
    COLUMNS,
    GROUP,
    ROWS,
    SHIFT,
    Halves,
    Lists,
    Task,
    by_differences,
    by_halves,
    by_symmetry,
    worth_symmetry,
)
from .programs import EIGHTH

__all__ = ["FusedGaussian", "active_lists", "as_halves", "choose_arithmetic", "locality_order"]

# |x - y|^2 a b in natural logarithms is |x - y|^2 a b / 2 in powers of two, for coordinates multiplied by this.
_UNIT = 1.6986436005760381  # sqrt(2 log2(e))
_LN2 = 0.6931471805599453
# Far points are multiplied by differences in float64, if they are at most this share of all points.
_MOST_FAR = 0.005
# A point is far beyond this |x|^2 / 2: the cancellation of norms in float32 costs more than _EXPONENT_ERROR.
_FARTHEST = 384.0
# A new point is also far if the sum of its fourth powers exceeds that of all training points by this factor, or, with
# the arithmetic "float32", if the largest entry of its row is below two to minus this.
_FARTHER, _FAINT = 4.0, 128.0
# Coordinate of points that only pad a tile: so far away that their entries are zero.
_ELSEWHERE = 1e18
# One of so many points is taken for a first approximation of the scaling.
_THINNED = 16
# For this many points or more, rough products are compared with accurate ones on some rows, and taken for all rows if
# they differ by at most this, relative, in each column.
_MANY, _COMPARED, _ROUGH_ERROR = 1 << 17, 1024, 2e-5
# Columns are scaled so that their largest entry is about two to this power.
_TOP = 14

# Root mean square of the relative rounding error of a float16 number, and of a float8 product in units of it.
_HALF = 2.07e-4
_EIGHT_BITS = 0.04
# An arithmetic is accurate enough if the exponent (a natural logarithm) of the worst pair is off by at most this.
_EXPONENT_ERROR = 4e-5
# Range of features for which "mixed" is faster and its factors fit on the chip.
_MIXED = 16, 128
# Widths of factors are multiples of the depth of the tensor cores, in float16 and float8.
_DEPTH8 = 32

# Principal directions that the order of the points follows, and bits of a key.
_DIRECTIONS, _BITS = 3, 30
_PROJECTED = 64  # features to which points are projected first
_SAMPLE = 1 << 16  # points that determine the principal directions
# Tiles with all entries below 2^-46, one part in 10^14 of a row's largest, are skipped if they are a tenth of all.
_NEGLIGIBLE = -46.0
_WORTHWHILE = 0.9
_BOX_PAIRS = 1 << 25


class FusedGaussian:
    """``exp(-a_i a_j |x_i - x_j|^2)`` for all pairs of points ``x = (X - centre) / unit``, (n, d); `scale` is a, (n,).

    `precision` is the arithmetic of exponents; "auto" is the cheapest that is accurate enough for the data. With a zero
    diagonal, no two points may coincide.

    Attributes
    ----------
    arithmetic : str
        The chosen arithmetic.
    share : float
        Share of the kernel's tiles that products compute.
    rounding : float
        Relative error of products, as measured for random columns (benchmarks/gpu).
    """

    rounding = 5e-6

    def __init__(
        self, X: Any, centre: Any, unit: float, scale: Any, *, zero_diagonal: bool = False, precision: str = "auto"
    ) -> None:
        self._centre, self._unit, self._zero, self._n = centre, unit, zero_diagonal, len(X)
        self._axes: Any = None
        x = self._centred(X)
        order = locality_order(x)
        self._uniform = bool((scale == 1.0).all())
        far = _far_away(x, scale)[order]
        self.arithmetic = self._arithmetic(x, scale, far, order, precision)
        exact = self.arithmetic == "float32"
        self._split = x.shape[1] if self.arithmetic == "split" else 0
        if self.arithmetic == "mixed":
            # With a zero diagonal, new points that equal another must be recognised: turning would round them.
            if not zero_diagonal:
                self._axes = _principal_axes(x)
                x = x @ self._axes
            near = order[~far]
            self._split = _split_coordinates(x[near], scale[near])
        # Far points come last, where the fused products do not see them.
        self._order = order if exact or not bool(far.any()) else torch.cat([order[~far], order[far]])
        self._near = self._n if exact else self._n - int(far.sum())
        self._x, self._scale = x[self._order], scale[self._order]
        del x  # free its memory on the device
        near, own = (X[self._order] if exact else self._x)[: self._near], self._scale[: self._near]
        self._reach = float(self._fourth_powers(self._x[: self._near], own).max())
        none = torch.zeros(self._near, dtype=torch.float64, device=X.device)
        self._right = self._factor(near, own, none, left=False)
        # Brings the largest exponent of each row to 0, so that rows of small entries keep their digits.
        self._shift = SHIFT - self._largest(near, own, zero=True) if zero_diagonal else none
        self._left = self._factor(near, own, self._shift)
        self._lists = active_lists(self._x[: self._near], own, self._shift)
        blocks, groups = -(-self._near // ROWS), -(-self._near // GROUP)
        self.share = 1.0 if self._lists is None else len(self._lists.groups) / (blocks * groups)
        # Every entry serves a row and a column, unless rows are shifted or tiles are skipped.
        self._symmetric = not (exact or zero_diagonal) and self._lists is None and worth_symmetry(self._left)
        # Rows on which rough products are compared with accurate ones.
        self._sampled: Any = None
        if self._near >= _MANY and not (exact or zero_diagonal):
            self._sampled = torch.arange(_COMPARED, device=X.device) * self._near // _COMPARED

    def _arithmetic(self, x: Any, scale: Any, far: Any, order: Any, precision: str) -> str:
        """The requested arithmetic if the points and the chip allow it, or the cheapest accurate one."""
        many, eight_bits = float(far.double().mean()) > _MOST_FAR, _has_float8(x.device)
        if precision in ("auto", "float32"):
            if many or precision == "float32":
                return "float32"
            near = order[~far]
            return choose_arithmetic(x[near], scale[near], eight_bits=eight_bits)
        if many:
            raise ValueError(
                f"precision={precision!r} was given, but {int(far.sum())} of {self._n} points are so far out, in units "
                "of the bandwidth, that their norms would cancel; use 'auto' or 'float32'."
            )
        if precision == "mixed" and x.is_cuda and not eight_bits:
            raise ValueError("precision='mixed' was given, and this GPU does not multiply float8; use 'split'.")
        return precision

    def product(self, V: Any) -> Any:
        """K V, (n, k) -> (n, k), tensors of float32."""
        m, inside = self._near, V[self._order]
        out = self._multiply(self._left, m, inside[:m], own=True)
        out *= torch.exp2(-self._shift).float()[:, None]
        if m < self._n:
            near, far = slice(0, m), slice(m, self._n)
            out += self._far_part(near, far, inside)
            out = torch.cat([out, self._far_part(far, slice(0, self._n), inside)])
        placed = torch.empty_like(out)
        placed[self._order] = out
        return placed

    def thinned(self) -> tuple[Any, FusedGaussian, Callable[[Any], Any]] | None:
        """Some of many points, the kernel between them, and products of all rows with them: (m,) -> (n,).

        None if products are fast: for fewer points, or if tiles are skipped.
        """
        if not self._symmetric or self._near < self._n:
            return None
        some = slice(0, None, _THINNED)
        few = FusedGaussian(self._x[some], torch.zeros_like(self._centre), _UNIT, self._scale[some])
        if few._near < few._n:
            return None

        def products(v: Any) -> Any:
            out = torch.empty(self._n, dtype=torch.float64, device=v.device)
            for rows in chunks(self._n, self._x.shape[1], CONVERTED):
                found, logs = few.rows(self._x[rows], self._scale[rows], v.float()[:, None])
                out[self._order[rows]] = found[:, 0].double() * torch.exp(logs)
            return out

        return self._order[some], few, products

    def _far_part(self, rows: slice, columns: slice, inside: Any) -> Any:
        """Part of the product from some rows and columns of the kernel, by differences in float64."""
        found, logs = self._chunked(columns).rows(self._x[rows], self._scale[rows], inside[columns])
        return found * torch.exp(logs).float()[:, None]

    def _chunked(self, columns: slice) -> ChunkedGaussian:
        points = self._x[columns], torch.zeros_like(self._centre), _UNIT, self._scale[columns]
        return ChunkedGaussian(*points, torch.float32, zero_diagonal=self._zero)

    def rows(self, X: Any, scale: Any, V: Any) -> tuple[Any, Any]:
        """Rows of new points times V, each divided by its largest entry, and the logarithms of these, (m, k), (m,).

        With a zero diagonal, points at distance zero have no affinity.
        """
        inside, x = V[self._order], self._centred(X)
        exact = self.arithmetic == "float32"
        if self._zero or self._near < self._n:
            far = torch.ones(len(x), dtype=torch.bool, device=V.device)
        elif exact:
            far = SHIFT - self._largest(X, scale) > _FAINT
        else:
            far = _far_away(torch.cat([x, x[:1]]), torch.cat([scale, self._scale.max()[None]]))[:-1]
            far |= self._fourth_powers(x, scale) > _FARTHER * self._reach
        points = X if exact else x
        out = torch.empty((len(x), V.shape[1]), dtype=torch.float32, device=V.device)
        logs = torch.empty(len(x), dtype=torch.float64, device=V.device)
        near = (~far).nonzero()[:, 0]
        if len(near):
            shift = SHIFT - self._largest(points[near], scale[near])
            left = self._factor(points[near], scale[near], shift)
            out[near], logs[near] = self._multiply(left, len(near), inside), -_LN2 * shift
        if len(near) < len(x):
            out[far], logs[far] = self._chunked(slice(None)).rows(x[far], scale[far], inside)
        return out, logs

    def _centred(self, X: Any) -> Any:
        """Points in the unit in which exponents are powers of two, along the axes of the arithmetic."""
        x = (X.double() - self._centre) * (_UNIT / self._unit)
        return x if self._axes is None else x @ self._axes

    def _fourth_powers(self, x: Any, scale: Any) -> Any:
        """Sums of fourth powers over the coordinates that are rounded, (n,)."""
        return _fourth_powers(x[:, self._split :] if self.arithmetic == "mixed" else x, scale)

    def _largest(self, x: Any, scale: Any, *, zero: bool = False) -> Any:
        """The largest exponent of each row, plus `SHIFT`."""
        none = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        task = Task(len(x), self._near, None, zero)
        return self._run(self._factor(x, scale, none), task)[:, 0].double()

    def _multiply(self, left: Any, n_rows: int, V: Any, *, own: bool = False) -> Any:
        """2^e V for a left factor, that of the training points if `own`, some columns at a time."""
        zero, lists = own and self._zero, self._lists if own else None
        out = torch.empty((n_rows, V.shape[1]), dtype=torch.float32, device=V.device)
        top = V.abs().amax(0).double()
        top = torch.where(top > 0, top, torch.ones_like(top))
        unit = torch.exp2(_TOP - torch.ceil(torch.log2(top)))  # powers of two, so that scaling does not round
        for some in chunks(V.shape[1], 1, COLUMNS):
            values = _values((V[:, some].double() * unit[some]).float())
            if own and self._symmetric and values.ndim == 1:
                found = by_symmetry(left, self._right, values)[:n_rows]
            elif own and self._averages_out(values):
                found = self._rough(left, slice(0, n_rows), values, lists)
            else:
                found = self._run(left, Task(n_rows, self._near, values, zero, lists))
            out[:, some] = (found[:, : some.stop - some.start].double() / (unit[some] * 2.0**SHIFT)).float()
        return out

    def _averages_out(self, values: Any) -> bool:
        """Whether rough products with these columns are as accurate as others, by some rows of both."""
        if self._sampled is None or values.ndim == 1:
            return False
        left = Halves(*(None if part is None else part[self._sampled] for part in self._left))
        exact = self._run(left, Task(_COMPARED, self._near, values))
        error = (self._rough(left, self._sampled, values) - exact).norm(dim=0)
        return bool((error <= _ROUGH_ERROR * exact.norm(dim=0)).all())

    def _rough(self, left: Any, rows: Any, values: Any, lists: Lists | None = None) -> Any:
        """2^e V for some rows, with entries and columns rounded to float16; the diagonal is exact."""
        width = values.shape[1] // 2
        second = values[rows, width:].float()
        task = Task(len(second), self._near, values[:, :width].contiguous(), lists=lists, rough=True)
        return self._run(left, task).add_(second, alpha=2.0**SHIFT)

    def _run(self, left: Any, task: Task) -> Any:
        if self.arithmetic == "float32":
            x, scale, shift = left
            y, y_scale, _ = self._right
            return by_differences(x, y, (scale, y_scale, shift), task)
        return by_halves(left, self._right, task)

    def _factor(self, x: Any, scale: Any, shift: Any, *, left: bool = True) -> Any:
        """The left or the right factor of some points, for the chosen arithmetic."""
        if self.arithmetic == "float32":
            return self._features(x, scale, shift + SHIFT)
        own = None if self._uniform else scale
        mixed = self.arithmetic == "mixed" and self._split < x.shape[1]
        return as_halves(x, own, shift + SHIFT, split=self._split, mixed=mixed, left=left)

    def _features(self, X: Any, scale: Any, shift: Any) -> tuple[Any, Any, Any]:
        """Coordinates feature by feature, scales and shifts, padded.

        Coordinates are the given ones times a power of two, so that only their differences are rounded.
        """
        n, d = X.shape
        power = 2.0 ** -round(math.log2(self._unit))
        held = torch.zeros((d + 2, _padded(n)), dtype=torch.float32, device=X.device)
        held[0, n:] = _ELSEWHERE
        held[:d, :n] = X.T * power
        held[d] = 1.0
        held[d, :n] = scale * (_UNIT * 2.0**-0.5 / (self._unit * power))
        held[d + 1, :n] = shift
        return held[:d], held[d], held[d + 1]


def _has_float8(device: Any) -> bool:
    """Whether the tensor cores of a GPU multiply float8: NVIDIA's since Ada and Hopper."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return bool(torch.cuda.get_device_capability(device) >= (8, 9))


def _padded(n: int) -> int:
    """Points are padded to full groups."""
    return -(-n // GROUP) * GROUP


def _values(V: Any) -> Any:
    """Columns as the fused programs multiply them: one in float32; several as first and second halves side by side."""
    n, k = V.shape
    full = _padded(n)
    if k == 1:
        single = torch.zeros(full, dtype=torch.float32, device=V.device)
        single[:n] = V[:, 0]
        return single
    width = max(16, 1 << (k - 1).bit_length())
    held = torch.zeros((full, 2 * width), dtype=torch.float16, device=V.device)
    held[:n, :k] = V
    held[:n, width : width + k] = V - held[:n, :k].float()
    return held


# Factors in float16


def _far_away(x: Any, scale: Any) -> Any:
    """Which points are so far from the centre that the cancellation of norms spoils their exponents, bool (n,)."""
    return 0.5 * x.double().square().sum(1) * (scale * scale.max()).double() > _FARTHEST


def choose_arithmetic(x: Any, scale: Any, *, eight_bits: bool) -> str:
    """The cheapest arithmetic whose exponents are accurate enough for points x, (n, d), none of them far away.

    `scale` has the reciprocal local scales, (n,); `eight_bits` says whether the GPU multiplies float8.
    """
    if float(_exponent_errors(x, scale)[0]) <= _EXPONENT_ERROR:
        return "halves"
    if eight_bits and _MIXED[0] <= x.shape[1] <= _MIXED[1]:
        return "mixed" if _split_coordinates(x @ _principal_axes(x), scale) < x.shape[1] else "split"
    return "split"


def _exponent_errors(x: Any, scale: Any) -> Any:
    """Error of the exponent of the worst pair of points if all coordinates from the c-th on are halves, (d + 1,)."""
    worst = torch.zeros(x.shape[1] + 1, dtype=torch.float64, device=x.device)
    for rows in chunks(len(x), x.shape[1], CONVERTED):
        powers = (x[rows] * scale[rows, None]).square().square()
        worst[:-1] = torch.maximum(worst[:-1], powers.flip(1).cumsum(1).amax(0).flip(0))
    # By Cauchy-Schwarz, the square root of sum_c (x_ic x_jc)^2 for the worst pair of points.
    return _LN2 * _HALF * (2.0 * worst).sqrt()


def _fourth_powers(x: Any, scale: Any) -> Any:
    """``sum_c (s x_c)^4`` of each point, (n,), on which the error of rounded coordinates depends."""
    sums = [(x[rows] * scale[rows, None]).square().square().sum(1) for rows in chunks(len(x), x.shape[1], CONVERTED)]
    return torch.cat(sums)


def _split_coordinates(x: Any, scale: Any) -> int:
    """How many leading coordinates to split in float16 in "mixed": all, if that costs least.

    Products cost as much as factors have columns; those of eight bits count half. The fewest coordinates are split at
    the least cost for which exponents are accurate enough, and as many more as cost nothing.
    """
    d, norms = x.shape[1], 6 if bool((scale == 1.0).all()) else 2 * len(_TERMS) + 2
    accurate = (_EIGHT_BITS * _exponent_errors(x, scale) <= _EXPONENT_ERROR).tolist()
    widths = [
        (factor_width(norms + d + 2 * split), _power_of_two(2 * (d - split)) if split < d else 0)
        for split in range(d + 1)
    ]
    allowed = [split for split in range(d + 1) if split == d or (accurate[split] and widths[split][0] <= DEEP)]
    fewest = min(allowed, key=lambda split: widths[split][0] + 0.5 * widths[split][1])
    return max(split for split in allowed if widths[split] == widths[fewest])


def _principal_axes(x: Any) -> Any:
    """Principal axes of a sample of the points, the largest variance first, (d, d)."""
    some = x[:: max(1, len(x) // _SAMPLE)].double()
    some = some - some.mean(0)
    return torch.linalg.eigh(some.T @ some)[1].flip(1)


def as_halves(x: Any, scale: Any, shift: Any, *, split: int, mixed: bool, left: bool) -> Halves:
    """The left or the right factor of points x, (n, d), with rows padded to full groups.

    `scale` has the reciprocal local scales, (n,), or is None; `shift`, (n,), is added to the exponents of a row (left).
    The leading `split` coordinates have all terms in float16, the others only one, or if `mixed` two more in float8.
    """
    n, d = x.shape
    full = _padded(n)
    columns, eighths = None, None
    for rows in chunks(n, d, CONVERTED):
        some = None if scale is None else scale[rows, None].double()
        y, norms = x[rows].double(), -0.5 * x[rows].double().square().sum(1, keepdim=True)
        parts = _norm_columns(norms, some, shift[rows, None].double(), left)
        first, second = pieces(y if some is None else y * some, 2)
        more = [first[:, :split], second[:, :split]]
        parts += [first, *(more if left else more[::-1])]
        if columns is None:
            width = sum(part.shape[1] for part in parts)
            width = factor_width(width)
            columns = torch.zeros((full, width), dtype=torch.float16, device=x.device)
        fill(columns[rows], parts)
        if mixed:
            if eighths is None:
                width = _power_of_two(2 * (d - split))
                eighths = torch.zeros((full, width), dtype=torch.float8_e4m3fn, device=x.device)
            rest = [first[:, split:], second[:, split:].double() / EIGHTH]
            fill(eighths[rows], rest if left else rest[::-1])
    return Halves(columns, eighths)


def _power_of_two(width: int) -> int:
    """Width of a factor in float8."""
    return max(_DEPTH8, 1 << (width - 1).bit_length())


# Products of pieces, largest first, that make a product of numbers of 33 bits.
_TERMS = ((0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (1, 1))


def _norm_columns(norms: Any, scale: Any, shift: Any, left: bool) -> list[Any]:
    """Columns of ``-|x_i|^2/2 - |x_j|^2/2 + shift_i``, to 33 bits; with local scales, times ``s_i s_j``."""
    one = torch.ones_like(norms).half()
    if scale is None:
        own = pieces(norms + shift if left else norms, 3)
        return [*own, one, one, one] if left else [one, one, one, *own]
    lengths, scales = pieces(norms * scale, 3), pieces(scale, 3)
    if left:
        terms = [lengths[i] for i, _ in _TERMS] + [scales[i] for i, _ in _TERMS]
        return [*terms, *pieces(shift, 2)]
    return [scales[j] for _, j in _TERMS] + [lengths[j] for _, j in _TERMS] + [one, one]


# Order of the points, and tiles that are skipped


def locality_order(x: Any) -> Any:
    """Order of the points along a Morton curve through their leading principal directions, int64 of shape (n,)."""
    n, d = x.shape
    if d > _PROJECTED:  # a random projection is enough for the leading directions
        generator = torch.Generator(device=x.device).manual_seed(0)
        x = x @ torch.randn((d, _PROJECTED), dtype=x.dtype, device=x.device, generator=generator)
    if d > _DIRECTIONS:
        some = x[:: max(1, n // _SAMPLE)].double()
        some = some - some.mean(0)
        axes = torch.linalg.eigh(some.T @ some)[1][:, -_DIRECTIONS:]
        x = x.double() @ axes
    low, high = x.amin(0), x.amax(0)
    bits = _BITS // x.shape[1]
    span = torch.where(high > low, high - low, torch.ones_like(low))
    cells = ((x - low) / span * (2**bits - 1)).to(torch.int64)
    keys = torch.zeros(n, dtype=torch.int64, device=x.device)
    for bit in range(bits):
        for c in range(x.shape[1]):
            keys |= ((cells[:, c] >> bit) & 1) << (bit * x.shape[1] + c)
    return torch.sort(keys, stable=True).indices


def active_lists(x: Any, scale: Any, shift: Any) -> Lists | None:
    """For blocks of rows the groups of columns whose entries are not all negligible; None if nearly all are active.

    Points are in the order of `locality_order`; the kernel is ``2^(shift_i - s_i s_j |x_i - x_j|^2 / 2)``.
    """
    rows, columns = _boxes(x, scale, shift, ROWS), _boxes(x, scale, shift, GROUP)
    n_blocks, n_groups = len(rows[0]), len(columns[0])
    counts, kept = [], []
    for some in chunks(n_blocks, n_groups, _BOX_PAIRS):
        gap = torch.zeros((len(rows[0][some]), n_groups), dtype=torch.float32, device=x.device)
        for c in range(x.shape[1]):
            apart = torch.maximum(
                rows[0][some, c, None] - columns[1][None, :, c], columns[0][None, :, c] - rows[1][some, c, None]
            )
            gap += apart.clamp_(min=0.0).square_()
        largest = rows[3][some, None] - 0.5 * gap * rows[2][some, None] * columns[2][None, :]
        active = largest >= _NEGLIGIBLE
        counts.append(active.sum(1))
        kept.append(active.nonzero()[:, 1].to(torch.int32))
    totals = torch.cat(counts)
    if float(totals.sum()) > _WORTHWHILE * n_blocks * n_groups:
        return None
    starts = torch.zeros(n_blocks + 1, dtype=torch.int64, device=x.device)
    starts[1:] = torch.cumsum(totals, 0)
    return Lists(starts, torch.cat(kept))


def _boxes(x: Any, scale: Any, shift: Any, size: int) -> tuple[Any, Any, Any, Any]:
    """Lower and upper corner, smallest scale and largest shift of each run of `size` points."""
    n = len(x)
    runs = -(-n // size)

    def reduced(values: Any, fill: float, how: str) -> Any:
        full = torch.full((runs * size, *values.shape[1:]), fill, dtype=torch.float32, device=x.device)
        full[:n] = values
        return getattr(full.view(runs, size, *values.shape[1:]), how)(1)

    return (
        reduced(x, torch.inf, "amin"),
        reduced(x, -torch.inf, "amax"),
        reduced(scale, torch.inf, "amin"),
        reduced(shift, -torch.inf, "amax"),
    )
