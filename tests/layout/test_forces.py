"""Forces between the points of an embedding: against sums pair by pair, on the CPU, by a grid and on a device."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from heatsketch._utils.array import to_numpy
from heatsketch.layout import forces as module
from heatsketch.layout.descent import Mixture
from heatsketch.layout.forces import forces, log_distances
from heatsketch.layout.grid import Field, Grid, Scales
from heatsketch.layout.similarities import Similarities, neighbor_graph

N, K = 30, 3
LANDMARKS = np.array([0, 1, 7, 8, 22])
SOFTENED = 0.01


@pytest.fixture(scope="module")
def scene():
    """Features of which two rows coincide, a graph of neighbours, scales, and an embedding."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(N, 5)).astype(np.float32)
    F[1] = F[0]
    S = sparse.csr_array(rng.uniform(size=(N, N)) * (rng.uniform(size=(N, N)) < 0.3))
    graph, scales = neighbor_graph(S + S.T + sparse.eye_array(N)), rng.uniform(0.5, 2, N).astype(np.float32)
    return F, graph, scales, rng.normal(size=(N, 5)).astype(np.float32)


def naive(scene, Y, mean):
    """All sums pair by pair, in float64."""
    F, P, scales, _ = scene
    F, P, Y = (np.asarray(part, dtype=np.float64) for part in (F, P.toarray(), Y))
    F = F / np.sqrt(np.square(F).sum(axis=1).mean())  # the unit of distances
    attraction, repulsion, stretching = np.zeros((3, *Y.shape))
    total, divergence, logs = 0.0, 0.0, []
    for i in range(N):
        for j in range(N):
            between, d = Y[i] - Y[j], np.linalg.norm(F[i] - F[j])
            area = float(scales[i]) * float(scales[j])
            q = area / (area + between @ between)
            attraction[i] += P[i, j] * q * between / area
            divergence -= P[i, j] * np.log(q)
            if i != j:
                repulsion[i] += q**2 * between / area
                total += q
            if j in LANDMARKS and d > 0:
                softened = between @ between + SOFTENED
                logs.append(0.5 * np.log(softened / d**2))
                stretching[i] += (logs[-1] - mean) * between / softened
    return attraction, divergence, (repulsion, total), (stretching, np.mean(logs), np.var(logs))


def assert_sums(between, scene, Y):
    expected = naive(scene, to_numpy(Y), 0.3)
    np.testing.assert_allclose(to_numpy(between.attraction(Y)), expected[0], rtol=1e-4, atol=1e-5)
    assert between.divergence(Y) == pytest.approx(expected[1], rel=1e-5)
    found = between.repulsion(Y)
    np.testing.assert_allclose(to_numpy(found[0]), expected[2][0], rtol=1e-4, atol=1e-5)
    assert found[1] == pytest.approx(expected[2][1], rel=1e-5)
    found = between.stretching(Y, SOFTENED, 0.3)
    np.testing.assert_allclose(to_numpy(found[0]), expected[3][0], rtol=1e-3, atol=1e-4)
    assert found[1:] == pytest.approx(expected[3][1:], rel=1e-4)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_compiled_forces(scene, k):
    Y = np.ascontiguousarray(scene[3][:, :k])
    assert_sums(forces(*scene[:3], LANDMARKS, 0), scene, Y)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_forces_on_a_device(scene, device, k, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("heatsketch.backends.torch.forces._BLOCK", 100)
    between = forces(device.tensor(scene[0]), *scene[1:3], LANDMARKS, 0)
    assert_sums(between, scene, device.tensor(np.ascontiguousarray(scene[3][:, :k])))


def points(n, k, rng):
    """Groups of very different density and strays, with scales over the whole range."""
    Y = np.concatenate([rng.normal(size=(n // 2, k)), rng.normal(size=(n - n // 2, k)) * 12.0 + 5.0])
    Y[:20] += 60.0 * rng.normal(size=(20, k))
    return Y.astype(np.float32), np.exp(rng.uniform(np.log(0.25), np.log(4.0), n)).astype(np.float32)


class TestGrid:
    @pytest.mark.parametrize("k", [1, 2, 3])
    @pytest.mark.parametrize("width", [1.0, 10.0])
    def test_error_of_the_repulsion(self, k, width):
        """At most 1e-3 of the exact sums."""
        Y, values = points(4000, k, np.random.default_rng(k))
        Y, scales = (width * Y).astype(np.float32), Scales.of(values)
        found, total = Field.on_grid(Grid.around(Y, scales), Y, scales).forces()
        exact, exact_total = Field.of_points(Y, scales).between(Y, scales)
        assert np.linalg.norm(found - exact) < 1e-3 * np.linalg.norm(exact)
        assert total == pytest.approx(exact_total, rel=1e-3)

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_field_at_other_places(self, k):
        rng = np.random.default_rng(k)
        Y, values = points(3000, k, rng)
        scales = Scales.of(values)
        others = (Y[:200] + rng.normal(size=(200, k))).astype(np.float32)
        own = scales.of_others(rng.uniform(0.1, 9.0, 200))
        assert own.values.min() >= values.min()
        assert own.values.max() <= values.max()
        found = Field.on_grid(Grid.around(Y, scales), Y, scales).between(others, own)
        exact = Field.of_points(Y, scales).between(others, own)
        assert np.linalg.norm(found[0] - exact[0]) < 2e-3 * np.linalg.norm(exact[0])
        assert found[1] == pytest.approx(exact[1], rel=1e-3)

    def test_grid_is_made_again_when_points_leave_it(self, monkeypatch):
        monkeypatch.setattr(module, "FEW_POINTS", 100)
        Y, values = points(1000, 2, np.random.default_rng(0))
        between = forces(Y, neighbor_graph(sparse.eye_array(1000)), values, LANDMARKS, 0)
        for factor in (1.0, 1.01, 3.0, 0.2):
            Z = np.float32(factor) * Y
            exact = Field.of_points(Z, Scales.of(values)).between(Z, Scales.of(values))
            assert np.linalg.norm(between.repulsion(Z)[0] - exact[0]) < 1e-3 * np.linalg.norm(exact[0])

    def test_one_scale_and_equal_places(self):
        Y = np.zeros((50, 2), dtype=np.float32)
        scales = Scales.of(np.ones(50, dtype=np.float32))
        found, total = Field.on_grid(Grid.around(Y, scales), Y, scales).forces()
        np.testing.assert_allclose(found, 0.0, atol=1e-3 * 49)
        assert total == pytest.approx(50 * 49, rel=1e-3)


def test_drawn_points_are_unbiased(monkeypatch):
    monkeypatch.setattr(module, "DRAWN", 40)
    rng = np.random.default_rng(0)
    Y, values = rng.normal(size=(400, 6)).astype(np.float32), rng.uniform(0.5, 2.0, 400).astype(np.float32)
    between = forces(Y, neighbor_graph(sparse.eye_array(400)), values, LANDMARKS, 0)
    exact = Field.of_points(Y, Scales.of(values)).between(Y, Scales.of(values))
    sums, totals = zip(*(between.repulsion(Y) for _ in range(400)), strict=True)
    error = np.std(sums, axis=0) / 20.0
    assert np.square((np.mean(sums, axis=0) - exact[0]) / error).mean() == pytest.approx(1.0, abs=0.2)
    assert np.mean(totals) == pytest.approx(exact[1], rel=0.01)


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_gradient_is_that_of_the_loss(scene, weight):
    F, graph, scales, Y = scene
    Y = np.ascontiguousarray(Y[:, :K])
    mixture = Mixture(Similarities(graph, F, scales, np.arange(N)), weight, K, 0)
    least = (1e-4 + 0.14 * weight) * float(np.mean(Y * Y))

    def value(flat):
        """By matrices; the constant under the logarithms does not move with Y."""
        Z = flat.reshape(N, K)
        squared = np.square(Z[:, None] - Z).sum(axis=2)
        area = np.outer(scales, scales)
        q = area / (area + squared)
        P = graph.toarray() / graph.sum()
        kl = float((P[P > 0] * np.log(P[P > 0])).sum() - (P * np.log(q)).sum() + np.log(q.sum() - N))
        logs = 0.5 * (np.log(squared + least) - log_distances(F, np.arange(N)))
        return weight * kl + (1 - weight) * float(logs[log_distances(F, np.arange(N)) > -100].var())

    mixture.gradient(Y)
    slope = 4.0 * mixture.gradient(Y) / N
    np.testing.assert_allclose(slope.ravel(), approx_fprime(Y.ravel().astype(float), value, 1e-6), atol=2e-3)
    assert mixture.loss(Y) == pytest.approx(value(Y.ravel()), rel=1e-3)


def test_one_outlier_keeps_its_neighbours():
    S = sparse.csr_array(np.array([[1.0, 0.2, 1e-30], [0.2, 1.0, 1e-30], [1e-30, 1e-30, 1.0]]))
    graph = neighbor_graph(S).toarray()
    assert graph[2, :2].sum() == pytest.approx(2 * graph[2, 0])
    assert graph[2, 0] > 0.2 * graph[0, 1]
    assert graph.sum() == pytest.approx(3.0)


def test_log_distances_do_not_depend_on_the_unit(scene):
    F, some = scene[0], np.array([0, 3, 9])
    expected = log_distances(F, some)
    for unit in (1e-25, 1e15):
        found = log_distances((F * unit).astype(np.float32), some)
        apart = expected > -100.0
        np.testing.assert_array_equal(found > -100.0, apart)
        np.testing.assert_allclose(found[apart] - expected[apart], (found - expected)[apart].mean(), atol=1e-3)


def test_neighbor_graph_is_symmetric_with_rows_of_about_one():
    rng = np.random.default_rng(0)
    S = sparse.csr_array(rng.random((50, 50)) * (rng.random((50, 50)) < 0.2)) + sparse.eye_array(50)
    graph = neighbor_graph(sparse.csr_array(S + S.T))
    dense = graph.toarray()
    np.testing.assert_allclose(dense, dense.T, rtol=1e-6)
    assert not dense.diagonal().any()
    assert dense.sum() == pytest.approx(50.0)
