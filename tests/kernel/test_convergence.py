"""How the bistochastic scaling converges: the laws of its plain step, and what acceleration keeps of them.

With row sums ``r = s (K (s w))`` the plain step is ``log s <- log s - log(r) / 2``. Two laws hold for it:

- The convex function ``F(x) = sum_ij w_i e^x_i K_ij e^x_j w_j / 2 - sum_i w_i x_i``, of which the scaling is the
  minimum, falls by at least ``sum_i w_i (r_i - 1 - log r_i) / 2``: after the step, entries are divided by the geometric
  mean of the row sums of their row and column, which is no smaller than the harmonic mean.
- Its distance to the limit in Hilbert's metric, the range of ``x - x*``, shrinks by ``(1 + tanh(D / 4)) / 2`` at least,
  D the diameter of the image of K (Birkhoff): half of x stays, the other half is taken through K.

Acceleration extrapolates from such steps. Its residuals need not fall; they may double, beyond which the plain step is
taken instead. What is returned is the best that was seen.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import heatsketch as hs
from budget import rounds
from heatsketch.kernel import normalize as module
from heatsketch.kernel.normalize import normalize, sinkhorn
from heatsketch.linalg.anderson import Anderson
from heatsketch.linalg.operators import DenseOperator

EPS = float(np.finfo(np.float64).eps)


class Plain:
    """No acceleration."""

    def extrapolate(self, x, step):
        return x + step, False


class Recorded(DenseOperator):
    """A matrix that keeps what it is multiplied by, and the products."""

    def __init__(self, K):
        super().__init__(K)
        self.inputs, self.outputs = [], []

    def matmat(self, V):
        product = super().matmat(V)
        self.inputs.append(V[:, 0].copy())
        self.outputs.append(product[:, 0].copy())
        return product

    def history(self, w):
        """log s and row sums of every iterate."""
        s = [v / w for v in self.inputs]
        with np.errstate(over="ignore"):  # an extrapolation may go anywhere
            return [np.log(x) for x in s], [x * y for x, y in zip(s, self.outputs, strict=True)]


def _spread(rng, n):
    c = 10.0 ** rng.uniform(-50, 50, n)
    c /= c.max()
    return np.outer(c, c) * (1 + rng.random((n, n)))


def _sparse(rng, n):
    return rng.random((n, n)) * (rng.random((n, n)) < 0.3) + np.diag(10.0 ** rng.uniform(-6, 0, n))


def _blocks(rng, n):
    return (np.kron(np.eye(2), np.ones((n, n))) + 1e-12) * (1 + rng.random((2 * n, 2 * n)))


def _bipartite(rng, n):
    W = np.diag(10.0 ** rng.uniform(-8, -2, 2 * n))
    W[:n, n:] = rng.random((n, n))
    return W


def _path(rng, n):
    return np.diag(10.0 ** rng.uniform(-5, 5, n)) + np.diag(10.0 ** rng.uniform(-5, 5, n - 1), 1)


def _wild(rng, n):
    return np.exp(10 * rng.normal(size=(n, n)))


HARD = {
    "weights over a hundred orders of magnitude": _spread,
    "sparse support": _sparse,
    "nearly two blocks": _blocks,
    "nearly bipartite": _bipartite,
    "a path": _path,
    "entries of any size": _wild,
}


def hard(name, rng):
    W = HARD[name](rng, int(rng.integers(2, 14)))
    W = W + W.T
    return W / W.max()


def scale(K, w, tol, max_iter=1000):
    return sinkhorn(K, w, start=(w * (K.array @ w)) ** -0.5, tol=tol, max_iter=max_iter)


@pytest.mark.parametrize("name", HARD)
def test_plain_steps_lower_the_potential_by_what_the_law_says(name, monkeypatch, record_property):
    monkeypatch.setattr(module, "Anderson", Plain)
    rng, trials, lowered = np.random.default_rng(0), rounds(6), 0
    for _ in range(trials):
        W = hard(name, rng)
        w = np.ones(len(W)) if rng.random() < 0.5 else 0.1 + rng.random(len(W))
        K = Recorded(W)
        scale(K, w, 1e-10, max_iter=100)
        x, rows = K.history(w)
        F = np.array([0.5 * w @ r - w @ y for y, r in zip(x, rows, strict=True)])
        promised = np.array([0.5 * w @ (r - 1 - np.log(r)) for r in rows[:-1]])
        # F is a sum of n numbers of about the size of w x and w r.
        rounding = len(W) * EPS * max(np.abs(w @ np.abs(y)) + w @ r for y, r in zip(x, rows, strict=True))
        assert (F[:-1] - F[1:] >= promised - 4 * rounding).all()
        lowered += promised.sum() > 4 * rounding  # else there was nothing to do, as for a diagonal matrix
    assert lowered > 0.8 * trials
    record_property("cases", trials)


def test_plain_steps_contract_in_hilberts_metric(monkeypatch, record_property):
    monkeypatch.setattr(module, "Anderson", Plain)
    rng, trials = np.random.default_rng(1), rounds(10)
    for _ in range(trials):
        n = int(rng.integers(3, 12))
        W = np.exp(rng.uniform(0, 1.5, (n, n)))
        W = W + W.T
        logs = np.log(W)
        cross = logs[:, None, :, None] + logs[None, :, None, :] - logs[:, None, None, :] - logs[None, :, :, None]
        factor = 0.5 * (1 + np.tanh(cross.max() / 4))
        K = Recorded(W)
        s, _, _ = scale(DenseOperator(W), np.ones(n), 1e-15, max_iter=300)
        sinkhorn(K, np.ones(n), start=np.exp(rng.normal(size=n)), tol=1e-9, max_iter=300)
        away = np.array([np.ptp(x - np.log(s)) for x in K.history(np.ones(n))[0]])
        assert len(away) > 5
        assert (away[1:] <= factor * away[:-1] + 1e-13).all()
        assert factor < 0.9
    record_property("cases", trials)


@pytest.mark.parametrize("name", HARD)
def test_acceleration_reaches_the_tolerance_on_hard_cases(name, record_property):
    rng, trials, tol, reached = np.random.default_rng(2), rounds(15), 1e-10, []
    for _ in range(trials):
        K = Recorded(hard(name, rng))
        w = np.ones(K.shape[0])
        s, sums, n_iter = scale(K, w, tol)
        x, rows = K.history(w)
        residuals = np.array([np.abs(r - 1).max() for r in rows])
        assert n_iter == len(residuals)
        # What is returned is the best, and it is what it is said to be, by a product of its own.
        assert np.abs(sums - 1).max() == residuals.min()
        reached.append(residuals.min() <= tol)
        again = s * (K.array @ s)
        assert np.abs(again - 1).max() <= residuals.min() + 4 * len(s) * EPS
        # A residual more than twice the last is that of an extrapolation, which is taken back: the plain step follows.
        last = 0
        for i in range(1, len(residuals) - 1):
            if residuals[i] <= 2 * residuals[last]:
                last = i
                continue
            plain = x[last] - 0.5 * np.log(rows[last])
            stepped, returned = (np.abs(y - plain).max() <= 1e-9 * (1 + np.abs(plain).max()) for y in (x[i], x[i + 1]))
            assert stepped or returned
            last = i if stepped else last
    assert np.mean(reached) > 0.99
    record_property("cases", trials)


def test_acceleration_takes_far_fewer_products_than_plain_steps(monkeypatch):
    X = np.random.default_rng(0).normal(size=(200, 3))
    K = DenseOperator(np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / 0.5))
    counts = []
    for kind in (Anderson, Plain):
        monkeypatch.setattr(module, "Anderson", kind)
        counts.append(normalize(K, tol=1e-12).n_iter)
    # Plain steps of a definite kernel halve the error: 40 for twelve digits.
    assert counts[0] < 0.6 * counts[1]
    assert counts[1] <= 45


@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
def test_a_smaller_tolerance_goes_further_on_the_same_way(tol):
    X = np.random.default_rng(0).normal(size=(60, 3))
    loose, tight = (hs.heat_kernel(X, bandwidth=0.5, tol=t).scaling for t in (tol, 1e-14))
    assert loose.residual <= tol
    assert loose.n_iter <= tight.n_iter
    # 1 / (1 + S) is no larger than 1 for a definite kernel, in the 2-norm: logarithms are off by the residual, once.
    assert np.linalg.norm(np.log(loose.scale / tight.scale)) <= np.sqrt(60) * (loose.residual + 1e-13)


def test_no_scaling_is_said_and_the_best_is_returned():
    # A star has support but no total support: row sums come near to 1 for ever, as the scaling runs off.
    star = np.zeros((6, 6))
    star[0, 1:] = star[1:, 0] = 1.0
    for max_iter in (10, 100):
        K = Recorded(star)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = normalize(K, max_iter=max_iter)
        assert [w.category for w in said] == [ConvergenceWarning]
        residuals = [np.abs(r - 1).max() for r in K.history(np.ones(6))[1][1:]]  # the first product gives the degrees
        assert found.residual == min(residuals)
        assert not found.converged
