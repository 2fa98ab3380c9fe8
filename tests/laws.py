"""What the tests of laws share: operators that watch, matrices with given eigenvalues, and who is told of progress."""

from __future__ import annotations

import numpy as np

from heatsketch.linalg.operators import DenseOperator, Operator


class Watched(DenseOperator):
    """A matrix that writes down what it is multiplied with."""

    def __init__(self, array):
        super().__init__(array)
        self.seen = []

    def matmat(self, V):
        self.seen.append(V[:, 0].copy())
        return super().matmat(V)


class Shuffled(Operator):
    """A matrix that would rather have its rows in another order."""

    def __init__(self, array, order):
        self.array, self.order = array, order
        self.shape, self.dtype = array.shape, array.dtype

    def matmat(self, V):
        return self.array @ V

    def reordered(self):
        return DenseOperator(self.array[np.ix_(self.order, self.order)])


def placing(fit):
    """How far rounding takes training points from their places: rows of the kernel, some units, times coefficients."""
    coefficients = fit._coefficients
    return len(coefficients) * np.finfo(coefficients.dtype).eps * float(np.abs(coefficients).max())


def symmetric(values, seed=0):
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return (Q * values) @ Q.T, Q


def assert_close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


class Display:
    """Writes down what is reported."""

    def __init__(self):
        self.reports = []

    def task(self, name):
        display = self

        class Task:
            def __enter__(self):
                return lambda done, total: display.reports.append((name, done, total))

            def __exit__(self, *_):
                return None

        return Task()
