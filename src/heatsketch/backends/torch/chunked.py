"""Products with the Gaussian kernel by PyTorch alone, some rows at a time: on any device, in float32 or float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...linalg.metrics import products_in
from .precision import full_precision

__all__ = ["ChunkedGaussian"]

# Entries of the kernel that are held at a time.
_ENTRIES = 1 << 26


class ChunkedGaussian:
    """``exp(-a_i a_j |x_i - x_j|^2)`` for all pairs.

    Parameters
    ----------
    X : tensor of shape (n, d)
    centre : tensor of float64, shape (d,)
    unit : float
        The points are x = (X - centre) / unit.
    scale : tensor of float64, shape (n,)
        a.
    dtype : torch dtype of the products
    zero_diagonal : bool
        Whether points have no affinity with themselves. No two may coincide then.
    """

    rounding: float | None = None  # that of the dtype

    def __init__(
        self, X: Any, centre: Any, unit: float, scale: Any, dtype: Any, *, zero_diagonal: bool = False
    ) -> None:
        self._centre, self._unit, self._zero = centre, unit, zero_diagonal
        self._x, self._scale, self.dtype = self._centred(X), scale, dtype
        spread = 4.0 * float(self._x.square().sum(1).max()) * float(scale.max()) ** 2
        name = str(dtype).removeprefix("torch.")
        chosen = products_in(spread, np.dtype(name))
        # Differences are taken of the coordinates as they are, in float64.
        self._products = None if chosen is None else getattr(torch, np.dtype(chosen).name)
        self.arithmetic = "differences" if chosen is None else np.dtype(chosen).name
        self._held = self._x if chosen is None else self._x.to(self._products)
        self._norms = self._held.square().sum(1)
        self._entries = _ENTRIES

    def product(self, V: Any) -> Any:
        """K V, (n, k) -> (n, k)."""
        out = torch.empty(V.shape, dtype=self.dtype, device=V.device)

        def put(rows: slice, K: Any) -> None:
            if self._zero:
                K[torch.arange(len(K)), torch.arange(rows.start, rows.stop)] = 0.0
            out[rows] = K @ V

        self._each(self._x, self._scale, put)
        return out

    def rows(self, X: Any, scale: Any, V: Any) -> tuple[Any, Any]:
        """Rows of other points times V, each in units of its largest entry, and the logarithms of these, (m, k), (m,).

        Without a diagonal, points at no distance have no affinity.
        """
        x = self._centred(X)
        out = torch.empty((len(x), V.shape[1]), dtype=self.dtype, device=V.device)
        largest = torch.empty(len(x), dtype=torch.float64, device=V.device)

        def put(rows: slice, exponents: Any) -> None:
            if self._zero:
                exponents[exponents == 0] = -torch.inf
            top = exponents.amax(1, keepdim=True)
            top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
            largest[rows] = top[:, 0].double()
            out[rows] = (exponents - top).exp_().to(self.dtype) @ V

        # New points may lie anywhere, and a distance of zero must be one: differences.
        self._each(x, scale, put, exponentials=False)
        return out, largest

    def _centred(self, X: Any) -> Any:
        return (X.double() - self._centre) / self._unit

    def _each(self, x: Any, scale: Any, put: Any, *, exponentials: bool = True) -> None:
        """Call `put` with some rows after the others; with fewer at a time where memory does not hold them."""
        start = 0
        while start < len(x):
            stop = min(len(x), start + max(1, self._entries // len(self._x)))
            rows = slice(start, stop)
            try:
                with full_precision():
                    exponents = self._exponents(x[rows], scale[rows], differences=not exponentials)
                    put(rows, self._exponentials(exponents) if exponentials else exponents)
            except torch.OutOfMemoryError as error:
                if stop - start == 1:
                    raise MemoryError(
                        f"a row of {len(self._x)} kernel entries does not fit into the memory that is left on "
                        f"{x.device}; free some, or keep neighbours only (n_neighbors=32)."
                    ) from error
                self._entries = max(len(self._x), (stop - start) // 2 * len(self._x))
                continue
            start = stop

    def _exponentials(self, exponents: Any) -> Any:
        """Entries of the kernel; in float64 where these are, though small exponents are accurate in float32."""
        return exponents.to(torch.promote_types(exponents.dtype, self.dtype)).exp_().to(self.dtype)

    def _exponents(self, x: Any, scale: Any, *, differences: bool) -> Any:
        """-a_i a_j |x_i - x_j|^2, (m, n)."""
        if differences or self._products is None:
            squared = torch.cdist(x, self._x, compute_mode="donot_use_mm_for_euclid_dist").square_()
        else:
            y = x.to(self._products)
            squared = torch.addmm(self._norms[None, :], y, self._held.T, alpha=-2.0).add_(y.square().sum(1)[:, None])
            squared.clamp_(min=0.0)
        squared *= -scale[:, None].to(squared.dtype)
        squared *= self._scale[None, :].to(squared.dtype)
        return squared
