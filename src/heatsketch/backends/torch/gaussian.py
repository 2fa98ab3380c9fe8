"""The Gaussian kernel of all pairs on a GPU: points prepared once, products by the fused kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .chunked import ChunkedGaussian
from .halves import as_halves, choose_arithmetic, far_away, fourth_powers
from .locality import active_lists, locality_order
from .products import COLUMNS, GROUP, ROWS, SHIFT, Lists, Task, by_differences, by_halves

__all__ = ["FusedGaussian"]

# Points far away are left to differences in float64, while they are no larger a share than this.
_MOST_FAR = 0.005
# |x - y|^2 a b in natural logarithms is |x - y|^2 a b / 2 in powers of two, for coordinates multiplied by this.
_UNIT = 1.6986436005760381  # sqrt(2 log2(e))
_LN2 = 0.6931471805599453
# ... and new points farther out than the others, by this factor to the fourth power: for them it is not accurate.
_FARTHER = 4.0
# Rows whose largest entry is below two to minus this are left to float64 as well.
_FAINT = 128.0
# Where points that only fill up a tile are: so far away that their entries are zero.
_ELSEWHERE = 1e18
# The largest entry of a column, as a power of two, when it is made of halves.
_TOP = 14
# Columns at a time where memory does not hold more; the matrix units take no fewer.
_FEWEST = 16


class FusedGaussian:
    """``exp(-a_i a_j |x_i - x_j|^2)`` for all pairs, in float32.

    Parameters
    ----------
    X : tensor of shape (n, d)
        The points as they were given: of these differences are taken where nothing else is accurate enough.
    centre : tensor of float64, shape (d,)
    unit : float
        The points are x = (X - centre) / unit.
    scale : tensor of float64, shape (n,)
        a.
    zero_diagonal : bool
        Whether points have no affinity with themselves. No two may coincide then.
    precision : {"auto", "halves", "mixed", "split", "float32"}
        The arithmetic of exponents; "auto" takes the cheapest that is accurate enough for the data.

    Attributes
    ----------
    arithmetic : str
        What was chosen.
    share : float
        Share of the kernel's tiles that products look at.
    rounding : float
        Relative error of products, as measured for random columns (benchmarks/gpu).
    """

    rounding = 5e-6

    def __init__(
        self,
        X: Any,
        centre: Any,
        unit: float,
        scale: Any,
        *,
        zero_diagonal: bool = False,
        precision: str = "auto",
    ) -> None:
        self._centre, self._unit, self._zero, self._n = centre, unit, zero_diagonal, len(X)
        x = self._centred(X)
        order = locality_order(x)
        self._uniform = bool((scale == 1.0).all())
        far = far_away(x, scale)[order]
        self.arithmetic = self._arithmetic(x, scale, far, order, precision)
        exact = self.arithmetic == "float32"
        # Points that are far away come last: they have no part in the fused products.
        self._order = order if exact or not bool(far.any()) else torch.cat([order[~far], order[far]])
        self._near = self._n if exact else self._n - int(far.sum())
        self._x, self._scale = x[self._order], scale[self._order]
        del x  # on the device memory is scarce
        near, own = (X[self._order] if exact else self._x)[: self._near], self._scale[: self._near]
        self._reach = float(fourth_powers(self._x[: self._near], own).max())
        none = torch.zeros(self._near, dtype=torch.float64, device=X.device)
        self._right = self._factor(near, own, none, left=False)
        # Brings the largest exponent of each row to 0: rows of small entries keep their digits then.
        self._shift = SHIFT - self._largest(near, own, zero=True) if zero_diagonal else none
        self._left = self._factor(near, own, self._shift)
        self._lists = active_lists(self._x[: self._near], own, self._shift)
        self._columns = COLUMNS
        blocks, groups = -(-self._near // ROWS), -(-self._near // GROUP)
        self.share = 1.0 if self._lists is None else len(self._lists.groups) / (blocks * groups)

    def _arithmetic(self, x: Any, scale: Any, far: Any, order: Any, precision: str) -> str:
        """The arithmetic that is asked for, if it can be had, or the one that suits the points."""
        many, eight_bits = float(far.double().mean()) > _MOST_FAR, has_eight_bits(x.device)
        if precision in ("auto", "float32"):
            if many or precision == "float32":
                return "float32"
            near = order[~far]
            return choose_arithmetic(x[near], scale[near], eight_bits=eight_bits)
        if many:
            raise ValueError(
                f"precision={precision!r} was given, but {int(far.sum())} of {self._n} points lie so far out, in units "
                "of the bandwidth, that their norms would cancel; use 'auto' or 'float32'."
            )
        if precision == "mixed" and x.is_cuda and not eight_bits:
            raise ValueError("precision='mixed' was given, and this chip does not multiply eight bits; use 'split'.")
        return precision

    def product(self, V: Any) -> Any:
        """K V, (n, k) -> (n, k), tensors of float32.

        Raises
        ------
        MemoryError
            If even a few columns at a time do not fit into what is left of the device's memory.
        """
        with self._memory_in_words(V):
            return self._product(V)

    def _product(self, V: Any) -> Any:
        m, inside = self._near, V[self._order]
        out = self._multiply(self._left, m, inside[:m], zero=self._zero, lists=self._lists)
        out *= torch.exp2(-self._shift).float()[:, None]
        if m < self._n:
            near, far = slice(0, m), slice(m, self._n)
            out += self._by_differences(near, far, inside)
            out = torch.cat([out, self._by_differences(far, slice(0, self._n), inside)])
        placed = torch.empty_like(out)
        placed[self._order] = out
        return placed

    def _by_differences(self, rows: Any, columns: Any, inside: Any) -> Any:
        """Rows of the product, of some columns of the kernel, in float64."""
        some = self._chunked(columns)
        found, logs = some.rows(self._x[rows], self._scale[rows], inside[columns])
        return found * torch.exp(logs).float()[:, None]

    def _chunked(self, columns: Any) -> ChunkedGaussian:
        points = self._x[columns], torch.zeros_like(self._centre), _UNIT, self._scale[columns]
        return ChunkedGaussian(*points, torch.float32, zero_diagonal=self._zero)

    def rows(self, X: Any, scale: Any, V: Any) -> tuple[Any, Any]:
        """Rows of other points times V, each in units of its largest entry, and the logarithms of these, (m, k), (m,).

        Without a diagonal, points at no distance have no affinity.
        """
        with self._memory_in_words(V):
            return self._rows(X, scale, V)

    def _rows(self, X: Any, scale: Any, V: Any) -> tuple[Any, Any]:
        inside, x = V[self._order], self._centred(X)
        exact = self.arithmetic == "float32"
        if self._zero or self._near < self._n:
            far = torch.ones(len(x), dtype=torch.bool, device=V.device)
        elif exact:
            far = SHIFT - self._largest(X, scale) > _FAINT
        else:
            far = far_away(torch.cat([x, x[:1]]), torch.cat([scale, self._scale.max()[None]]))[:-1]
            far |= fourth_powers(x, scale) > _FARTHER * self._reach
        points = X if exact else x
        out = torch.empty((len(x), V.shape[1]), dtype=torch.float32, device=V.device)
        logs = torch.empty(len(x), dtype=torch.float64, device=V.device)
        here = (~far).nonzero()[:, 0]
        if len(here):
            shift = SHIFT - self._largest(points[here], scale[here])
            left = self._factor(points[here], scale[here], shift)
            out[here], logs[here] = self._multiply(left, len(here), inside), -_LN2 * shift
        if len(here) < len(x):
            whole = self._chunked(slice(None))  # which takes points wherever they are
            out[far], logs[far] = whole.rows(x[far], scale[far], inside)
        return out, logs

    def _centred(self, X: Any) -> Any:
        """Points in the unit in which exponents are powers of two."""
        return (X.double() - self._centre) * (_UNIT / self._unit)

    def _largest(self, x: Any, scale: Any, *, zero: bool = False) -> Any:
        """The largest exponent of each row, and 15."""
        none = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        task = Task(len(x), self._near, None, zero)
        return self._run(self._factor(x, scale, none), task)[:, 0].double()

    def _multiply(self, left: Any, n_rows: int, V: Any, *, zero: bool = False, lists: Lists | None = None) -> Any:
        """2^e V for a factor, a few columns at a time; with fewer where memory does not hold them."""
        out = torch.empty((n_rows, V.shape[1]), dtype=torch.float32, device=V.device)
        top = V.abs().amax(0).double()
        top = torch.where(top > 0, top, torch.ones_like(top))
        unit = torch.exp2(_TOP - torch.ceil(torch.log2(top)))  # powers of two, so that nothing is rounded
        start = 0
        while start < V.shape[1]:
            some = slice(start, min(V.shape[1], start + self._columns))
            try:
                out[:, some] = self._multiply_few(left, n_rows, V[:, some], unit[some], zero=zero, lists=lists)
            except torch.OutOfMemoryError:
                if some.stop - some.start <= _FEWEST:
                    raise
                self._columns = max(_FEWEST, self._columns // 2)
                continue
            start = some.stop
        return out

    def _multiply_few(self, left: Any, n_rows: int, V: Any, unit: Any, *, zero: bool, lists: Lists | None) -> Any:
        """The same for as few columns as are multiplied at a time; what is held on the way is gone when it returns."""
        scaled = (V.double() * unit).float()
        found = self._run(left, Task(n_rows, self._near, _values(scaled), zero, lists))[:, : V.shape[1]]
        return (found.double() / (unit * 2.0**SHIFT)).float()

    @contextmanager
    def _memory_in_words(self, V: Any) -> Iterator[None]:
        """Say what did not fit into memory, and what would."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"a product of the kernel of {self._n} points with {V.shape[1]} columns does not fit into the memory "
                f"that is left on {V.device}; free some, ask for fewer components, or keep neighbours only "
                "(n_neighbors=32)."
            ) from error

    def _run(self, left: Any, task: Task) -> Any:
        if self.arithmetic == "float32":
            x, scale, shift = left
            y, y_scale, _ = self._right
            return by_differences(x, y, (scale, y_scale, shift), task)
        return by_halves(left, self._right, task)

    def _factor(self, x: Any, scale: Any, shift: Any, *, left: bool = True) -> Any:
        """Rows as the arithmetic wants them, for the left or the right side."""
        pad = ROWS if left else GROUP
        if self.arithmetic == "float32":
            return self._features(x, scale, shift + SHIFT, pad)
        own = None if self._uniform else scale
        return as_halves(x, own, shift + SHIFT, arithmetic=self.arithmetic, left=left, pad=pad)

    def _features(self, X: Any, scale: Any, shift: Any, pad: int) -> tuple[Any, Any, Any]:
        """Coordinates feature by feature, scales and shifts, filled up.

        Coordinates are those that were given, times a power of two: then only their differences are rounded.
        """
        n, d = X.shape
        power = 2.0 ** -round(math.log2(self._unit))
        held = torch.zeros((d + 2, -(-n // pad) * pad), dtype=torch.float32, device=X.device)
        held[0, n:] = _ELSEWHERE
        held[:d, :n] = X.T * power
        held[d] = 1.0
        held[d, :n] = scale * (_UNIT * 2.0**-0.5 / (self._unit * power))
        held[d + 1, :n] = shift
        return held[:d], held[d], held[d + 1]


def has_eight_bits(device: Any) -> bool:
    """Whether the matrix units of a chip multiply numbers of eight bits: NVIDIA's since Ada and Hopper."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return bool(torch.cuda.get_device_capability(device) >= (8, 9))


def _values(V: Any) -> Any:
    """Columns as the fused kernels multiply them: one in float32, several as first and second halves side by side."""
    n, k = V.shape
    full = -(-n // GROUP) * GROUP
    if k == 1:
        single = torch.zeros(full, dtype=torch.float32, device=V.device)
        single[:n] = V[:, 0]
        return single
    width = max(16, 1 << (k - 1).bit_length())
    held = torch.zeros((full, 2 * width), dtype=torch.float16, device=V.device)
    held[:n, :k] = V
    held[:n, width : width + k] = V - held[:n, :k].float()
    return held
