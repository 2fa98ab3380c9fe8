"""Sketches, distances and the optimisation of HeatSketch on a device, compared with the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

import heatsketch as hs
from heatsketch._utils.array import to_numpy
from heatsketch.linalg.metrics import column_distances, magnitude, row_distances
from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.range_finder import leading_directions
from heatsketch.linalg.sketch import SKETCHES, ArraySketch, make_sketch
from heatsketch.optimize.features import WideSketch, wide_sketch
from heatsketch.optimize.pairs import AllPairs, FoundPairs, Pairs, distinct_points, neighbor_pairs
from heatsketch.optimize.solver import optimize
from heatsketch.optimize.starts import make_start, nearest_projection

torch = pytest.importorskip("torch")
from heatsketch.backends.torch.sketches import draw, philox  # noqa: E402

POWER = 4.0
N = 700


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """600 points count as too many to diagonalise a kernel, or to hold all pairs."""
    for place in ("linalg.eigen.DENSE_LIMIT", "analysis.distortion.ALL_PAIRS", "estimators.heat_sketch.ALL_PAIRS"):
        monkeypatch.setattr(f"heatsketch.{place}", 600)


# Known answers that Random123 ships for philox4x32-10 (kat_vectors).
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_known_answers(device, counter, key, expected):
    found = philox(tuple(device.tensor(np.array([c])) for c in counter), key)
    assert tuple(int(w[0]) for w in found) == expected


@pytest.mark.parametrize("name", SKETCHES)
def test_sketches_equal_those_of_the_cpu(name, device, monkeypatch):
    sketch = make_sketch(name, seed=2**63 + 9, n_rows=300)
    for first in (0, 3, 125):
        M = draw(sketch, (300, 10), first, device)
        assert M.dtype == torch.float64
        assert str(M.device) == device.name
        # Logarithm and cosine are rounded differently.
        np.testing.assert_allclose(to_numpy(M), sketch.matrix(300, 10, first_column=first), rtol=1e-14)
    monkeypatch.setattr("heatsketch.backends.torch.sketches._ENTRIES_PER_LAUNCH", 90)
    assert torch.equal(draw(sketch, (300, 10), 125, device, np.float32), M.float())


def test_array_sketch(device):
    array = np.random.default_rng(0).normal(size=(20, 4))
    M = draw(ArraySketch(0, array=array), (20, 3), 1, device)
    np.testing.assert_array_equal(to_numpy(M), array[:, 1:])


def test_distances_and_pairs_of_points(device):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(30, 4))
    v = device.tensor(V)
    assert magnitude(v) == magnitude(V)
    assert magnitude(0 * v) == magnitude(v[:0]) == 1.0
    i, j = rng.integers(0, 30, (2, 50))
    np.testing.assert_allclose(row_distances(v, i, j), row_distances(V, i, j), rtol=1e-14)
    assert torch.is_tensor(row_distances(v, device.tensor(i), device.tensor(j)))
    i, j = rng.integers(0, 4, (2, 50))
    np.testing.assert_allclose(column_distances(v, i, j), column_distances(V, i, j), rtol=1e-14)
    Z = np.vstack([V, V[3:9]])[rng.permutation(36)]
    np.testing.assert_array_equal(to_numpy(distinct_points(device.tensor(Z))), distinct_points(Z))
    assert len(distinct_points(Z)) == 30
    for here, there in zip(neighbor_pairs(v, 3), neighbor_pairs(V, 3), strict=True):
        np.testing.assert_array_equal(to_numpy(here), there)


def test_distances_in_float64_for_any_dtype(device):
    # In float32 the squares of these differences would underflow.
    Z = np.array([[1.0, 1e-20], [1.0, 3e-20], [1.0 + 2**-23, 0.0]], dtype=np.float32)
    i, j = np.triu_indices(3, 1)
    pairs = Pairs(i, j, np.zeros(3))
    np.testing.assert_allclose(pairs.ratios(device.tensor(Z)), np.log(pdist(Z.astype(np.float64))), atol=1e-12)


@pytest.fixture(scope="module")
def kernels(device):
    """A heat kernel without its trivial mode, on the CPU and on the device."""
    kernel = hs.heat_kernel(hs.datasets.stretched_torus(N, random_state=0), bandwidth=1.0, n_neighbors=None)
    matrix = kernel.toarray() - np.outer(kernel.trivial, kernel.trivial)
    return hs.HeatKernel(DenseOperator(matrix)), hs.HeatKernel(device.dense_operator(matrix))


def test_leading_directions(kernels):
    here, there = (leading_directions(kernel, 3, POWER) for kernel in kernels)
    np.testing.assert_allclose(there, here, atol=1e-7)


def test_wide_sketch(kernels):
    here, there = (wide_sketch(kernel, POWER, 24, 0) for kernel in kernels)
    assert torch.is_tensor(there.features)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-6)
    i, j = np.random.default_rng(0).integers(0, N, (2, 100))
    expected = row_distances(here.features, i, j)
    np.testing.assert_allclose(row_distances(there.features, i, j), expected, rtol=1e-5)
    W = np.random.default_rng(0).normal(size=(24, 2))
    combined = there.combined(W, np.float32)
    assert combined.dtype == torch.float32
    np.testing.assert_allclose(to_numpy(combined), here.combined(W, np.float32), atol=1e-4)


@pytest.fixture(scope="module")
def small():
    """A wide sketch of 100 points in few columns: optimised fast."""
    kernel = hs.heat_kernel(hs.datasets.stretched_torus(100, random_state=0), bandwidth=1.0)
    return wide_sketch(kernel, POWER, 24, 0)


def moved(wide, device, dtype=np.float64):
    on_device = (device.tensor(part, dtype) for part in (wide.M, wide.features))
    return WideSketch(*on_device, wide.unit, wide.weights, wide.first)


class TestOptimisation:
    @pytest.mark.parametrize("found", [False, True])
    def test_candidates(self, small, device, found):
        F = np.vstack([small.features, small.features[:5]])  # some coincide
        Y, there = F @ np.random.default_rng(0).normal(size=(F.shape[1], 2)), device.tensor(F)
        sources = [FoundPairs(Z) if found else AllPairs(pdist(F), len(F), Z) for Z in (F, there)]
        pairs, ratios = sources[0].candidates(Y, np.random.default_rng(2))
        on_device, measured = sources[1].candidates(device.tensor(Y), np.random.default_rng(2))
        assert torch.is_tensor(measured)
        np.testing.assert_allclose(to_numpy(measured), ratios, atol=1e-9)
        samples = [source.sample(40, np.random.default_rng(1)) for source in sources]
        for ours, theirs in ((on_device.to_numpy(), pairs), samples):
            np.testing.assert_array_equal(ours.i, theirs.i)
            np.testing.assert_array_equal(ours.j, theirs.j)
            np.testing.assert_allclose(ours.log_d, theirs.log_d, atol=1e-11)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_nearest_projection(self, small, device, dtype):
        Y = small.features @ np.random.default_rng(0).normal(size=(small.features.shape[1], 2))
        expected = small.features @ nearest_projection(small, Y)
        found = small.features @ nearest_projection(moved(small, device, dtype), Y)
        np.testing.assert_allclose(found, expected, atol=(1e-8 if dtype == np.float64 else 1e-4) * np.abs(Y).max())

    @pytest.mark.parametrize("found", [False, True])
    def test_as_good_as_on_the_cpu(self, small, device, found):
        """The first measurements agree; later ones may differ, and end as low."""
        histories = []
        for wide in (small, moved(small, device)):
            source = FoundPairs(wide.features) if found else AllPairs(pdist(small.features), 100, wide.features)
            starts = [make_start(name, wide, 3, 0) for name in ("spectral", "random")]
            result = optimize(wide.features, source, starts, 0, weights=wide.weights, n_rounds=4)
            assert isinstance(result.W, np.ndarray)
            histories.append([r.distortion for r in result.history])
        here, there = histories
        assert there[0] == pytest.approx(here[0], rel=1e-9)
        assert min(there) < 1.05 * min(here)

    def test_repeats(self, small, device):
        F = device.tensor(small.features, np.float32)
        start = make_start("spectral", small, 2, 0)
        runs = [optimize(F, FoundPairs(F), [start], 0, n_rounds=2).W for _ in range(2)]
        np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    "model",
    [
        hs.GaussianProcessEmbedding(6, n_exact=2),
        hs.HeatSketch(3, objective="bilipschitz"),
        hs.HeatSketch(3, objective="log-stress"),
    ],
    ids=["Gaussian process", "worst pairs", "log distances"],
)
def test_estimators_of_many_points(model, device):
    """Directions by products and pairs by a search: embeddings equal to those of the CPU, or as good."""
    X, where = hs.datasets.stretched_torus(N, random_state=0), device.name if device.is_cuda else "torch-cpu"
    model.set_params(power=POWER, bandwidth=1.0, random_state=0)
    here, there = (clone(model).set_params(device=place).fit(X) for place in ("cpu", where))
    assert isinstance(there.embedding_, np.ndarray)
    if isinstance(model, hs.HeatSketch):
        assert there.distortion().log < 1.2 * here.distortion().log
        assert there.distortion().central[0.25] == pytest.approx(here.distortion().central[0.25], rel=0.1)
    else:
        np.testing.assert_allclose(there.embedding_, here.embedding_, atol=1e-6)
