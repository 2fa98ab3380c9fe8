"""Operators, matrices and comparisons that several test files use."""

from __future__ import annotations

import numpy as np

from heatsketch.linalg.operators import DenseOperator, Operator


class Recorded(DenseOperator):
    """A matrix that records what it is multiplied by, and the products (first columns)."""

    def __init__(self, array):
        super().__init__(array)
        self.seen, self.products = [], []

    def matmat(self, V):
        product = super().matmat(V)
        self.seen.append(V[:, 0].copy())
        self.products.append(product[:, 0].copy())
        return product


class Permuted(Operator):
    """A matrix with another internal order of its rows."""

    def __init__(self, array, order):
        self.array, self.order = array, order
        self.shape, self.dtype = array.shape, array.dtype

    def matmat(self, V):
        return self.array @ V

    def reordered(self):
        return DenseOperator(self.array[np.ix_(self.order, self.order)])


def symmetric(values, seed=0):
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return (Q * values) @ Q.T, Q


def assert_close(found, expected, tolerance=1e-9):
    """Compare up to a fraction of the largest entry."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
