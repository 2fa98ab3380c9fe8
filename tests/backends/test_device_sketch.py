"""Sketches and the optimisation of HeatSketch on a device, against the same on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

import heatsketch as hs
from heatsketch._utils.array import to_numpy
from heatsketch.analysis.reference_sketch import reference_sketch
from heatsketch.estimators.gaussian_process import _matrix
from heatsketch.linalg.eigen import canonical
from heatsketch.linalg.lanczos import KrylovSketch
from heatsketch.linalg.metrics import column_distances, magnitude, row_distances
from heatsketch.linalg.operators import DenseOperator
from heatsketch.linalg.range_finder import leading_directions
from heatsketch.linalg.sketch import SKETCHES, ArraySketch, make_sketch, philox
from heatsketch.optimize.deflation import best_split
from heatsketch.optimize.features import WideSketch, deflated_sketch, wide_sketch
from heatsketch.optimize.objectives import OBJECTIVES, Bilipschitz, LogStress
from heatsketch.optimize.pairs import AllPairs, FoundPairs, Pairs, distinct_points, neighbor_pairs
from heatsketch.optimize.solver import Plan, _Descent, _extremes, optimize
from heatsketch.optimize.starts import make_start, nearest_start

torch = pytest.importorskip("torch")
words = pytest.importorskip("heatsketch.backends.torch.words")
draw = pytest.importorskip("heatsketch.backends.torch.sketches").draw

POWER = 4.0
N = 700


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """As many as 600 points are too many to diagonalise a kernel, or to hold all pairs."""
    for place in ("linalg.eigen.DENSE_LIMIT", "analysis.distortion.ALL_PAIRS", "estimators.heat_sketch.ALL_PAIRS"):
        monkeypatch.setattr(f"heatsketch.{place}", 600)


class TestWords:
    # Known answers that Random123 ships for philox4x32-10 (kat_vectors).
    @pytest.mark.parametrize(
        ("counter", "key", "expected"),
        [
            ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
            ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        ],
    )
    def test_known_answers(self, device, counter, key, expected):
        found = words.philox(tuple(device.tensor(np.array([c])) for c in counter), key)
        assert tuple(int(w[0]) for w in found) == expected

    def test_the_words_of_the_cpu(self, device):
        counter = np.random.default_rng(0).integers(0, 2**32, (4, 500))
        for seed in (0, 5, 2**64 - 1):
            here = words.philox(tuple(device.tensor(c) for c in counter), seed)
            np.testing.assert_array_equal(np.array([to_numpy(w) for w in here]), np.array(philox(tuple(counter), seed)))


@pytest.mark.parametrize("name", SKETCHES)
class TestSketches:
    def test_entries_are_those_of_the_cpu(self, name, device):
        sketch = make_sketch(name, seed=2**63 + 9, n_rows=300)
        for first in (0, 3, 125):
            M = draw(sketch, (300, 10), first, device)
            assert M.dtype == torch.float64
            assert str(M.device) == device.name
            # Logarithm and cosine are rounded by one library or another.
            np.testing.assert_allclose(to_numpy(M), sketch.matrix(300, 10, first_column=first), rtol=1e-14)

    def test_chunks_and_dtype(self, name, device, monkeypatch):
        sketch = make_sketch(name, seed=1, n_rows=50)
        whole = draw(sketch, (50, 6), 0, device)
        monkeypatch.setattr("heatsketch.backends.torch.sketches._ENTRIES_PER_LAUNCH", 90)
        single = draw(sketch, (50, 6), 0, device, np.float32)
        assert single.dtype == torch.float32
        assert torch.equal(single, whole.float())
        np.testing.assert_array_equal(sketch.matrix(50, 6, dtype=np.float32), sketch.matrix(50, 6).astype(np.float32))


def test_rows_of_hashed_signs_beyond_32_bits(device):
    # The products of large rows reach the highest bits that int64 has beside its sign.
    sketch = make_sketch("rademacher-hash", 3, 1)
    rows, columns = np.array([5, 2**32 + 5, 2**37 - 1, 2**36 + 12345]), np.arange(2**24 - 200, 2**24)
    coefficients = tuple(int(c) for c in sketch.coefficients)
    found = words.hashed_signs(device.tensor(rows), columns, coefficients)
    np.testing.assert_array_equal(to_numpy(found), sketch.block(rows, columns))
    gaussian = words.gaussian(device.tensor(rows), columns, 0, 3)
    np.testing.assert_allclose(to_numpy(gaussian), make_sketch("gaussian", 3, 1).block(rows, columns), rtol=1e-14)


def test_products_modulo_the_mersenne_prime_never_overflow(device):
    p = 2**61 - 1
    numbers = [0, 1, 2**31 - 1, 2**31, 2**60, p - 1, p, 2**61 - 2**31, 0x123456789ABCDEF]
    a, b = (device.tensor(np.array(part)) for part in zip(*((x, y) for x in numbers for y in numbers), strict=True))
    expected = [x * y % p for x in numbers for y in numbers]
    assert to_numpy(words._multiply61(a, b)).tolist() == expected


def test_a_given_array_is_moved(device):
    array = np.random.default_rng(0).normal(size=(20, 4))
    M = draw(ArraySketch(0, array=array), (20, 3), 1, device)
    np.testing.assert_array_equal(to_numpy(M), array[:, 1:])


def test_points_are_compared_alike(device):
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
    np.testing.assert_array_equal(to_numpy(distinct_points(0 * v)), [0])
    for here, there in zip(neighbor_pairs(v, 3), neighbor_pairs(V, 3), strict=True):
        np.testing.assert_array_equal(to_numpy(here), there)


@pytest.fixture(scope="module")
def matrix():
    """A heat kernel of so many points that directions are found by products, without its trivial mode."""
    kernel = hs.heat_kernel(hs.datasets.stretched_torus(N, random_state=0), bandwidth=1.0, n_neighbors=None)
    return kernel.toarray() - np.outer(kernel.trivial, kernel.trivial)


@pytest.fixture(scope="module")
def kernels(matrix, device):
    return hs.HeatKernel(DenseOperator(matrix)), hs.HeatKernel(device.dense_operator(matrix))


class TestBlocks:
    def test_leading_directions(self, kernels):
        here, there = (leading_directions(kernel, 3, POWER) for kernel in kernels)
        np.testing.assert_allclose(there, here, atol=1e-7)

    def test_canonical_bases(self, kernels, device):
        vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(N, 3)))[0]
        values = np.array([0.9, 0.5, 0.5])
        expected = canonical(values, vectors, kernels[0])
        assert np.abs(expected.T @ expected - np.eye(3)).max() < 1e-13
        np.testing.assert_allclose(
            to_numpy(canonical(values, device.tensor(vectors), kernels[1])), expected, atol=1e-13
        )
        single = canonical(values, device.tensor(vectors, np.float32), kernels[1])
        assert single.dtype == torch.float32
        np.testing.assert_allclose(to_numpy(single), expected, atol=1e-5)

    def test_krylov(self, kernels):
        here, there = (KrylovSketch(kernel, np.arange(0, N, 7), 2, 6) for kernel in kernels)
        np.testing.assert_allclose(there.features(2.0), here.features(2.0), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(there.quadrature(), here.quadrature(), rtol=1e-8)

    def test_deflated_sketch(self, kernels):
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(N, 3)))[0]
        here, there = (deflated_sketch(kernel, Q, 70, POWER, 5) for kernel in kernels)
        for ours, theirs in zip(there, here, strict=True):
            assert torch.is_tensor(ours)
            np.testing.assert_allclose(to_numpy(ours), theirs, atol=1e-12)

    def test_what_is_kept_is_an_array(self, kernels, monkeypatch):
        monkeypatch.setattr("heatsketch.optimize.deflation._FURTHER", 4)  # few directions are soon found
        monkeypatch.setattr("heatsketch.analysis.reference_sketch._EXACT", 4)
        here, there = (best_split(kernel, 4, POWER, 0) for kernel in kernels)
        np.testing.assert_allclose(there.errors, here.errors, rtol=1e-5)
        assert isinstance(reference_sketch(kernels[1], POWER).features, np.ndarray)

    def test_the_block_of_a_gaussian_process(self, kernels):
        sketch = make_sketch("gaussian", 0, N)
        exact = np.linalg.qr(np.random.default_rng(0).normal(size=(N, 3)))[0]
        for directions in (None, exact, exact.astype(np.float32)):
            here, there = (_matrix(kernel, sketch, directions, 4) for kernel in kernels)
            assert torch.is_tensor(there)
            np.testing.assert_allclose(to_numpy(there), here, atol=1e-6 if here.shape[1] > 4 else 1e-14)

    def test_wide_sketch(self, kernels):
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
def wide():
    """An exact wide sketch of 300 points, and their diffusion distances."""
    kernel = hs.heat_kernel(hs.datasets.stretched_torus(300, random_state=0), bandwidth=1.0)
    return wide_sketch(kernel, POWER, 512, 0), hs.diffusion_distances(kernel, POWER)


@pytest.fixture(scope="module")
def small():
    """The like for 100 points, and in few columns: soon optimised."""
    kernel = hs.heat_kernel(hs.datasets.stretched_torus(100, random_state=0), bandwidth=1.0)
    wide = wide_sketch(kernel, POWER, 24, 0)
    return wide, pdist(wide.features)


def moved(wide, device, dtype=np.float64):
    on_device = (device.tensor(part, dtype) for part in (wide.M, wide.features))
    return WideSketch(*on_device, wide.unit, wide.weights, wide.first, wide.exact)


class TestOptimisation:
    @pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
    @pytest.mark.parametrize("penalty", [0.0, 0.7])
    def test_value_and_gradient(self, objective, penalty, wide, device):
        F, rng = wide[0].features, np.random.default_rng(0)
        pairs = AllPairs(wide[1], 300).sample(2000, rng)
        weights, W = rng.uniform(1, 9, F.shape[1]), rng.normal(size=3 * F.shape[1])
        here, there = (
            _Descent(features, pairs, lambda r: objective.smooth(r, 6.0), penalty, weights)(W)
            for features in (F, device.tensor(F))
        )
        assert there[0] == pytest.approx(here[0], rel=1e-10)
        np.testing.assert_allclose(there[1], here[1], rtol=1e-10, atol=1e-10 * np.abs(here[1]).max())

    @pytest.mark.parametrize("coincident", [False, True])
    def test_all_pairs(self, wide, device, coincident):
        F, d = wide[0].features, wide[1].copy()
        d[[3, 500]] *= 1.0 - coincident
        Y, rng = F @ np.random.default_rng(0).normal(size=(F.shape[1], 2)), None
        here, there = AllPairs(d, 300), AllPairs(d, 300, device.tensor(F))
        (pairs, ratios), (on_device, measured) = here.candidates(Y, rng), there.candidates(device.tensor(Y), rng)
        assert len(pairs) == len(d) - 2 * coincident
        np.testing.assert_allclose(to_numpy(measured), ratios, atol=1e-11)
        self.assert_same(on_device.to_numpy(), pairs)
        worst = [_extremes(found, ratios) for found in (on_device, pairs)]
        assert len(worst[0]) == 4000
        assert isinstance(worst[0].i, np.ndarray)
        self.assert_same(*(some.joined(some, 300) for some in worst))  # in the order of their indices
        self.assert_same(*(source.sample(40, np.random.default_rng(1)) for source in (there, here)))

    def assert_same(self, ours, theirs):
        np.testing.assert_array_equal(ours.i, theirs.i)
        np.testing.assert_array_equal(ours.j, theirs.j)
        np.testing.assert_allclose(ours.log_d, theirs.log_d, atol=1e-11)

    def test_found_pairs(self, wide, device):
        F = np.vstack([wide[0].features, wide[0].features[:5]])  # some coincide
        Y = F @ np.random.default_rng(0).normal(size=(F.shape[1], 2))
        here, there = FoundPairs(F), FoundPairs(device.tensor(F))
        pairs, ratios = here.candidates(Y, np.random.default_rng(2))
        on_device, measured = there.candidates(device.tensor(Y), np.random.default_rng(2))
        assert torch.is_tensor(measured)
        self.assert_same(on_device.to_numpy(), pairs)
        np.testing.assert_allclose(to_numpy(measured), ratios, atol=1e-9)
        self.assert_same(*(source.sample(40, np.random.default_rng(1)) for source in (there, here)))

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_nearest_start(self, wide, device, dtype):
        W = np.random.default_rng(0).normal(size=(wide[0].features.shape[1], 2))
        Y = wide[0].features @ W
        expected = wide[0].features @ nearest_start(wide[0], Y).W
        found = wide[0].features @ nearest_start(moved(wide[0], device, dtype), Y).W
        np.testing.assert_allclose(found, expected, atol=(1e-8 if dtype == np.float64 else 1e-4) * np.abs(Y).max())

    @pytest.mark.parametrize(("objective", "found"), [(Bilipschitz, False), (Bilipschitz, True), (LogStress, True)])
    def test_as_good_as_on_the_cpu(self, small, device, objective, found):
        """The first measurements agree; later ones may part, and end as low."""
        histories = []
        for wide in (small[0], moved(small[0], device)):
            source = FoundPairs(wide.features) if found else AllPairs(small[1], 100, wide.features)
            starts = [make_start(name, wide, 3, 0) for name in ("spectral", "random")]
            result = optimize(wide.features, source, starts, Plan(objective, n_rounds=4), 0, weights=wide.weights)
            assert isinstance(result.W, np.ndarray)
            histories.append([r.distortion for r in result.history])
        here, there = histories
        assert there[0] == pytest.approx(here[0], rel=1e-9)
        assert min(there) < 1.05 * min(here)

    def test_it_repeats(self, small, device):
        F = device.tensor(small[0].features, np.float32)
        start = make_start("spectral", small[0], 2, 0)
        runs = [optimize(F, FoundPairs(F), [start], Plan(Bilipschitz, n_rounds=2), 0).W for _ in range(2)]
        np.testing.assert_array_equal(*runs)


def test_pairs_are_measured_in_float64_whatever_the_dtype(device):
    # In float32 the squares of these differences would lose their digits.
    Z = np.array([[1.0, 1e-20], [1.0, 3e-20], [1.0 + 2**-23, 0.0]], dtype=np.float32)
    i, j = np.triu_indices(3, 1)
    pairs = Pairs(i, j, np.zeros(3))
    np.testing.assert_allclose(pairs.ratios(device.tensor(Z)), np.log(pdist(Z.astype(np.float64))), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        hs.GaussianProcessEmbedding(6, n_exact=2),
        hs.HeatSketch(3, init="spectral", solver_params={"width": 12, "n_rounds": 1}),
    ],
    ids=["Gaussian process", "HeatSketch"],
)
def test_estimators_beyond_the_limits(model, device):
    """Directions found by products, and pairs by a search: embeddings as those of the CPU, or as good."""
    X, where = hs.datasets.stretched_torus(N, random_state=0), device.name if device.is_cuda else "torch-cpu"
    model.set_params(power=POWER, bandwidth=1.0, random_state=0)
    here, there = (clone(model).set_params(device=place).fit(X) for place in ("cpu", where))
    assert isinstance(there.embedding_, np.ndarray)
    assert isinstance(there._coefficients, np.ndarray)
    if isinstance(model, hs.HeatSketch):
        assert there.history_[0].distortion == pytest.approx(here.history_[0].distortion, rel=1e-3)
        assert there.distortion_.log < 1.05 * here.distortion_.log
    else:
        np.testing.assert_allclose(there.embedding_, here.embedding_, atol=1e-6)
