"""Products with the Gaussian kernel by PyTorch, row chunk by row chunk: on any device, in float32 or float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._utils.chunks import chunks
from ...linalg.metrics import products_in

__all__ = ["ChunkedGaussian"]

# Kernel entries that are held at a time.
_ENTRIES = 1 << 26


class ChunkedGaussian:
    """``exp(-a_i a_j |x_i - x_j|^2)`` for all pairs of points ``x = (X - centre) / unit``, (n, d); `scale` is a, (n,).

    `dtype` is the torch dtype of the products. With a zero diagonal, no two points may coincide.
    """

    rounding: float | None = None  # that of the dtype

    def __init__(
        self, X: Any, centre: Any, unit: float, scale: Any, dtype: Any, *, zero_diagonal: bool = False
    ) -> None:
        self._centre, self._unit, self._zero = centre, unit, zero_diagonal
        self._x, self._scale, self.dtype = self._centred(X), scale, dtype
        spread = 4.0 * float(self._x.square().sum(1).max()) * float(scale.max()) ** 2
        chosen = products_in(spread, np.dtype(str(dtype).removeprefix("torch.")))
        # Differences are always formed in float64.
        self._products = None if chosen is None else getattr(torch, np.dtype(chosen).name)
        self.arithmetic = "differences" if chosen is None else np.dtype(chosen).name
        self._held = self._x if chosen is None else self._x.to(self._products)
        self._norms = self._held.square().sum(1)

    def product(self, V: Any) -> Any:
        """K V, (n, k) -> (n, k)."""
        out = torch.empty(V.shape, dtype=self.dtype, device=V.device)
        for rows in chunks(len(self._x), len(self._x), _ENTRIES):
            out[rows] = self._entries(rows) @ V
        return out

    def _entries(self, rows: slice) -> Any:
        """Rows of the kernel, (m, n)."""
        exponents = self._exponents(self._x[rows], self._scale[rows], differences=self._products is None)
        # In float64 for products in float64, even if float32 exponents are accurate enough.
        K = exponents.to(torch.promote_types(exponents.dtype, self.dtype)).exp_().to(self.dtype)
        if self._zero:
            K[torch.arange(len(K)), torch.arange(rows.start, rows.stop)] = 0.0
        return K

    def rows(self, X: Any, scale: Any, V: Any) -> tuple[Any, Any]:
        """Rows of new points times V, each divided by its largest entry, and the logarithms of these, (m, k), (m,).

        With a zero diagonal, points at distance zero have no affinity.
        """
        x = self._centred(X)
        out = torch.empty((len(x), V.shape[1]), dtype=self.dtype, device=V.device)
        largest = torch.empty(len(x), dtype=torch.float64, device=V.device)
        for rows in chunks(len(x), len(self._x), _ENTRIES):
            # By differences: new points may be anywhere, and equal points must have distance zero.
            exponents = self._exponents(x[rows], scale[rows], differences=True)
            if self._zero:
                exponents[exponents == 0] = -torch.inf
            top = exponents.amax(1, keepdim=True)
            top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
            largest[rows] = top[:, 0].double()
            out[rows] = exponents.sub_(top).exp_().to(self.dtype) @ V
        return out, largest

    def _centred(self, X: Any) -> Any:
        return (X.double() - self._centre) / self._unit

    def _exponents(self, x: Any, scale: Any, *, differences: bool) -> Any:
        """-a_i a_j |x_i - x_j|^2, (m, n)."""
        if differences:
            squared = torch.cdist(x, self._x, compute_mode="donot_use_mm_for_euclid_dist").square_()
        else:
            y = x.to(self._products)
            squared = torch.addmm(self._norms[None, :], y, self._held.T, alpha=-2.0).add_(y.square().sum(1)[:, None])
            squared.clamp_(min=0.0)
        squared *= -scale[:, None].to(squared.dtype)
        squared *= self._scale[None, :].to(squared.dtype)
        return squared
