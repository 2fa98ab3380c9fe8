"""Forces between the points of an embedding, graphs and their products on a device, compared with the CPU.

`TestFused...` run where Triton compiles for a GPU; `tests/slow/test_triton.py` runs them with Triton's interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from heatsketch._utils.array import to_numpy
from heatsketch.layout.forces import forces
from heatsketch.layout.similarities import neighbor_graph

torch = pytest.importorskip("torch")
from heatsketch.backends.torch.forces import DeviceForces, FusedForces  # noqa: E402
from heatsketch.backends.torch.operators import DeviceSparseOperator, fused_kernels, sparse_product  # noqa: E402

N = 150


def scattered(shape, density, rng):
    """A matrix with a share of random entries, and zeros."""
    return rng.random(shape) * (rng.random(shape) < density)


def case(k, seed=0):
    """Forces of the CPU, their arguments, and an embedding."""
    rng = np.random.default_rng(seed)
    S = sparse.csr_array(scattered((N, N), 0.1, rng).astype(np.float32))
    features = rng.normal(size=(N, 5)).astype(np.float32)
    features[7] = features[3]  # a pair that coincides
    graph = neighbor_graph(S + S.T + sparse.eye_array(N, dtype=np.float32))
    scales = rng.uniform(0.5, 2, N).astype(np.float32)
    return features, graph, scales, np.array([3, 50, 149, 20]), rng.normal(size=(N, k)).astype(np.float32)


def compare(kind, device, k):
    features, graph, scales, landmarks, Y = case(k)
    here = forces(features, graph, scales, landmarks, 0)
    there = kind(device.tensor(features), graph, scales, landmarks, 0)
    Z = device.tensor(Y)
    np.testing.assert_allclose(to_numpy(there.attraction(Z)), here.attraction(Y), rtol=1e-4, atol=1e-6)
    assert there.divergence(Z) == pytest.approx(here.divergence(Y), rel=1e-5)
    for found, expected in (
        (there.repulsion(Z), here.repulsion(Y)),
        (there.stretching(Z, 1e-3, 0.2), here.stretching(Y, 1e-3, 0.2)),
    ):
        np.testing.assert_allclose(to_numpy(found[0]), expected[0], rtol=1e-4, atol=1e-5)
        assert found[1:] == pytest.approx(expected[1:], rel=1e-4)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_forces_equal_those_of_the_cpu(k, device):
    compare(DeviceForces, device, k)


@pytest.mark.parametrize("k", [2, 5])
def test_many_points(k, device, monkeypatch):
    """By a grid, and by points that are drawn, the same as on the CPU."""
    monkeypatch.setattr("heatsketch.layout.forces.FEW_POINTS", 100)
    monkeypatch.setattr(DeviceForces, "_all_pairs", 100)
    for module in ("layout.forces", "backends.torch.forces"):
        monkeypatch.setattr(f"heatsketch.{module}.DRAWN", 40)
    features, graph, scales, landmarks, Y = case(k)
    here = forces(features, graph, scales, landmarks, 7)
    there = DeviceForces(device.tensor(features), graph, scales, landmarks, 7)
    for _ in range(2):
        (found, total), (expected, sums) = there.repulsion(device.tensor(Y)), here.repulsion(Y)
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=1e-4)
        assert total == pytest.approx(sums, rel=1e-5)


class TestFusedProducts:
    """Products of sparse matrices."""

    @pytest.mark.parametrize("width", [0, 1, 3, 17, 70])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_equal_those_of_the_cpu(self, width, dtype, device):
        if not fused_kernels(device):
            pytest.skip("Triton does not compile for this device")
        rng = np.random.default_rng(width)
        dense = scattered((40, 30), 0.3, rng).astype(dtype)
        dense[5] = 0.0
        S = sparse.csr_array(dense)
        V = rng.normal(size=(30, width)).astype(dtype)
        parts = tuple(device.tensor(part) for part in (S.indptr, S.indices, S.data))
        found = to_numpy(sparse_product(parts, device.tensor(V)))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, S @ V, atol=50 * np.finfo(dtype).eps)


class TestFusedForces:
    @pytest.mark.parametrize("k", [1, 2, 5, 17])
    def test_equal_those_of_the_cpu(self, k, device):
        if not fused_kernels(device):
            pytest.skip("Triton does not compile for this device")
        compare(FusedForces, device, k)


def test_neighbor_graph_equals_that_of_the_cpu(device):
    rng = np.random.default_rng(1)
    S = sparse.csr_array(scattered((N, N), 0.05, rng).astype(np.float32))
    S = sparse.csr_array(S + sparse.eye_array(N, dtype=np.float32))  # neither symmetric nor without empty rows
    found = neighbor_graph(DeviceSparseOperator(S, device))
    np.testing.assert_allclose(found.toarray(), neighbor_graph(S).toarray(), rtol=1e-5, atol=1e-9)
    alone = neighbor_graph(DeviceSparseOperator(sparse.eye_array(4, dtype=np.float32, format="csr"), device))
    assert not alone.toarray().any()
