"""The heat kernel with fifty digits, by the plain formulas, for a handful of points.

Arrays hold mpmath numbers, which NumPy adds, multiplies and indexes. Floats are converted exactly, so a difference from
these results is the rounding error of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp
mp.dps = 50

EPS = float(np.finfo(np.float64).eps)
_exp, _sqrt = (np.frompyfunc(f, 1, 1) for f in (mp.exp, mp.sqrt))


def exactly(values: Any) -> Any:
    """Floats as mpmath numbers."""
    return np.frompyfunc(lambda value: mp.mpf(float(value)), 1, 1)(np.asarray(values, dtype=np.float64))


def power(values: Any, exponent: float) -> Any:
    """Non-negative numbers to a real power."""
    e = mp.mpf(float(exponent))
    return np.frompyfunc(lambda value: mp.power(value, e) if value > 0 else mp.mpf(0), 1, 1)(values)


def squared_distances(X: Any, Y: Any = None) -> Any:
    """|x - y|^2 between rows, (m, N)."""
    X = exactly(X)
    Y = X if Y is None else exactly(Y)
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


def gaussian(D2: Any, epsilon: Any) -> Any:
    """exp(-D2 / epsilon)."""
    return _exp(-D2 / (exactly(epsilon) if np.ndim(epsilon) == 0 else epsilon))


def local_epsilon(D2: Any, k: int) -> Any:
    """s_i s_j with s_i the distance from i to its k-th neighbour, for distinct points."""
    scales = _sqrt(np.sort(D2, axis=1)[:, k])  # the first is the point itself
    return scales[:, None] * scales[None, :]


def neighbors_only(K: Any, D2: Any, k: int) -> Any:
    """K where a pair lies within the larger of its two k-th neighbour radii, 0 elsewhere."""
    radii = np.sort(D2, axis=1)[:, k]
    return np.where(D2 <= np.maximum(radii[:, None], radii[None, :]), K, mp.mpf(0))


def sinkhorn(K: Any, w: Any) -> Any:
    """Vector s with s (K (s w)) = 1 to 40 digits, by the damped iteration."""
    s = 1 / _sqrt(w * (K @ w))
    for _ in range(5000):
        rows = s * (K @ (s * w))
        if max(abs(rows - 1)) < mp.mpf(10) ** -40:
            return s
        s = s / _sqrt(rows)
    raise AssertionError("the reference did not converge")


class Heat:
    """The symmetric heat kernel S, its row weights w, its trivial vector u and its spectrum."""

    def __init__(self, K: Any, normalization: str, alpha: float = 1.0) -> None:
        n, q = len(K), power(K.sum(axis=1), -alpha)
        self.w = np.full(n, mp.mpf(1))
        if normalization in ("symmetric", "stochastic"):
            v = q * (K @ q)
            self.s, self.u = q / _sqrt(v), _sqrt(v / v.sum())
        else:
            weights = q if normalization == "bistochastic-weighted" else self.w
            self.s = sinkhorn(K, weights) * _sqrt(weights)
            self.u = _sqrt(weights / weights.sum())
        if normalization in ("stochastic", "bistochastic-weighted"):
            self.w = 1 / self.u
        self.S = self.s[:, None] * K * self.s[None, :]
        values, vectors = mp.eigsy(mp.matrix(self.S.tolist()))
        self.values = np.array(list(values), dtype=object)[::-1]
        self.vectors = np.array(vectors.tolist(), dtype=object).reshape(n, n)[:, ::-1]

    def power(self, t: float, *, trivial: bool = True) -> Any:
        """S^t, with or without u u^T; for integer t eigenvalues may be negative."""
        lifted = self.values ** int(t) if float(t).is_integer() else power(self.values, t)
        S = (self.vectors * lifted[None, :]) @ self.vectors.T
        return S if trivial else S - self.u[:, None] * self.u[None, :]

    def distances(self, t: float) -> Any:
        """Between the rows of diag(w) S^t, (N, N)."""
        rows = self.w[:, None] * self.power(t)
        return _sqrt(((rows[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2))


def off(found: Any, expected: Any) -> float:
    """Frobenius norm of the difference."""
    difference = exactly(found) - expected
    return float(mp.sqrt((difference**2).sum()))


def worst(found: Any, expected: Any) -> float:
    """Largest relative difference of entries; expected ones are not zero."""
    return float(max(abs((exactly(found) - expected) / expected).ravel()))
