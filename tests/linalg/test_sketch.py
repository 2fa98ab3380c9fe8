"""Sketches: the generator, purity, and the laws of their entries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heatsketch.linalg.sketch import (
    SKETCHES,
    ColumnSketch,
    GaussianSketch,
    HashedRademacherSketch,
    RademacherSketch,
    _multiply61,
    make_sketch,
    philox,
    resolve_seed,
)

P61 = 2**61 - 1


# Known answers that Random123 ships for philox4x32-10 (kat_vectors).
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, words):
    assert tuple(int(w) for w in philox(counter, key)) == words


@pytest.mark.parametrize("name", SKETCHES)
class TestPurity:
    def test_any_block_equals_the_whole(self, name):
        sketch = make_sketch(name, seed=3, n_rows=50)
        whole = sketch.matrix(50, 20)
        rows, columns = np.array([49, 3, 3, 17]), np.array([19, 0, 7])
        np.testing.assert_array_equal(sketch.block(rows, columns), whole[np.ix_(rows, columns)])

    def test_chunking_changes_nothing(self, name):
        sketch = make_sketch(name, seed=3, n_rows=50)
        pieces = [sketch.block(np.arange(i, min(i + 7, 50)), np.arange(20)) for i in range(0, 50, 7)]
        np.testing.assert_array_equal(np.vstack(pieces), sketch.matrix(50, 20))

    def test_first_columns_do_not_change(self, name):
        sketch = make_sketch(name, seed=3, n_rows=50)
        np.testing.assert_array_equal(sketch.matrix(50, 5), sketch.matrix(50, 40)[:, :5])
        np.testing.assert_array_equal(sketch.matrix(50, 5, first_column=3), sketch.matrix(50, 8)[:, 3:])

    def test_seed_decides(self, name):
        a, b, c = (make_sketch(name, seed=s, n_rows=50).matrix(50, 10) for s in (3, 3, 4))
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()

    def test_second_moment_is_k_times_the_identity(self, name):
        # E[M M^T] = k I: over 400 seeds the mean of each entry has a standard error of at most sqrt(N / 400).
        n, k, seeds = 6, 4, 400
        total = sum(M @ M.T / k for M in (make_sketch(name, s, n).matrix(n, k) for s in range(seeds)))
        error = np.abs(total / seeds - np.eye(n))
        assert error.max() < 5 * np.sqrt(n / seeds / k)


def test_rows_beyond_32_bits_are_distinct():
    rows = np.array([5, 5 + 2**32, 5 + 2**33])
    for sketch in (GaussianSketch(0), RademacherSketch(0), HashedRademacherSketch(0)):
        block = sketch.block(rows, np.arange(64))
        assert not np.array_equal(block[0], block[1])
        assert not np.array_equal(block[1], block[2])


class TestGaussianLaw:
    M = GaussianSketch(11).matrix(2000, 50)

    def test_kolmogorov_smirnov(self):
        assert stats.kstest(self.M.ravel(), "norm").pvalue > 1e-3

    def test_moments(self):
        n = self.M.size
        for order, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs((self.M**order).mean() - expected) < 4 * np.sqrt(variance / n)

    def test_tails(self):
        beyond = (np.abs(self.M) > 4).sum()
        assert stats.poisson(2 * stats.norm.sf(4) * self.M.size).cdf(beyond) > 1e-3
        assert np.abs(GaussianSketch(0).matrix(200_000, 20)).max() > 4.8  # a normal of 4e6 draws reaches 5.1

    def test_columns_and_rows_are_uncorrelated(self):
        for block in (self.M, self.M[:50].T):
            C = np.corrcoef(block, rowvar=False)
            off = C[np.triu_indices(len(C), 1)] * np.sqrt(len(block))
            assert stats.kstest(off, "norm").pvalue > 1e-3

    def test_squares_are_uncorrelated_too(self):
        # Cosine and sine of one Box-Muller pair share their radius: independence shows in the squares.
        C = np.corrcoef(self.M**2, rowvar=False)
        off = C[np.triu_indices(len(C), 1)] * np.sqrt(len(self.M))
        assert np.abs(off).max() < 5

    def test_uniform_over_lags(self):
        v = self.M[:, 0]
        for lag in (1, 2, 4, 32, 256):
            r = np.corrcoef(v[:-lag], v[lag:])[0, 1]
            assert abs(r) * np.sqrt(len(v)) < 4


@pytest.mark.parametrize("law", [RademacherSketch, HashedRademacherSketch])
class TestRademacherLaw:
    def test_only_signs_equally_often(self, law):
        M = law(5).matrix(1000, 200)
        np.testing.assert_array_equal(np.unique(M), [-1, 1])
        assert abs(M.mean()) * np.sqrt(M.size) < 4

    def test_rows_and_columns_are_uncorrelated(self, law):
        M = law(6).matrix(1000, 60)
        for block in (M, M[:60].T):
            C = block.T @ block / np.sqrt(len(block))
            assert np.abs(C[np.triu_indices(len(C), 1)]).max() < 5

    def test_four_entries_are_independent(self, law):
        # Over seeds: products of two, three and four distinct entries have mean zero.
        M = np.stack([law(s).block([0, 1, 5], [0, 3]).ravel() for s in range(4000)])
        for chosen in ((0, 1), (0, 2), (1, 5), (0, 1, 2), (0, 1, 2, 3), (0, 1, 4, 5), (0, 2, 3, 5)):
            assert abs(M[:, chosen].prod(axis=1).mean()) * np.sqrt(len(M)) < 4


def test_hash_is_a_polynomial_over_the_field():
    sketch = HashedRademacherSketch(123)
    c = [int(x) for x in sketch.coefficients]
    assert len(c) == 4
    assert all(0 <= x < P61 for x in c)
    rows, columns = [0, 1, 977, 2**30 + 1], [0, 5, 1000]
    expected = [
        [1 - 2 * (sum(a * (i << 24 | j) ** e for e, a in enumerate(c)) % P61 % 2) for j in columns] for i in rows
    ]
    np.testing.assert_array_equal(sketch.block(rows, columns), expected)


def test_multiplication_modulo_the_mersenne_prime():
    rng = np.random.default_rng(0)
    a = np.append(rng.integers(0, P61, 200, dtype=np.uint64), [P61 - 1, 0, 1]).astype(np.uint64)
    b = np.append(rng.integers(0, P61, 200, dtype=np.uint64), [P61 - 1, P61 - 1, P61 - 1]).astype(np.uint64)
    assert [int(x) for x in _multiply61(a, b)] == [int(x) * int(y) % P61 for x, y in zip(a, b, strict=True)]


def test_columns_are_distinct_points_in_uniform_order():
    sketch = ColumnSketch(1, n_rows=30)
    M = sketch.matrix(30, 30)
    np.testing.assert_allclose(M @ M.T, 30 * np.eye(30))
    first = [int(ColumnSketch(s, n_rows=5).points[0]) for s in range(2000)]
    assert stats.chisquare(np.bincount(first, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize("name", ["gaussian", "rademacher", "rademacher-hash"])
def test_neighbouring_seeds_are_uncorrelated(name):
    M = np.stack([make_sketch(name, s, 500).matrix(500, 4).ravel() for s in range(40)])
    C = M @ M.T / np.sqrt(M.shape[1])
    off = C[np.triu_indices(40, 1)]
    assert stats.kstest(off, "norm").pvalue > 1e-3


def test_gaussian_and_rademacher_of_one_seed_are_uncorrelated():
    a, b = (make_sketch(name, 7, 2000).matrix(2000, 8).ravel() for name in ("gaussian", "rademacher"))
    assert abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) < 4


class TestSeeds:
    def test_integer_is_the_seed(self):
        assert resolve_seed(42) == 42
        assert resolve_seed(np.int64(42)) == 42

    def test_generators_draw(self):
        assert resolve_seed(np.random.RandomState(0)) == resolve_seed(np.random.RandomState(0))
        assert resolve_seed(np.random.default_rng(0)) == resolve_seed(np.random.default_rng(0))
        generator = np.random.RandomState(0)
        assert resolve_seed(generator) != resolve_seed(generator)

    def test_none_follows_the_global_generator(self):
        state = np.random.get_state()
        try:
            np.random.seed(5)
            a = resolve_seed(None)
            np.random.seed(5)
            assert resolve_seed(None) == a
            assert resolve_seed(None) != a
        finally:
            np.random.set_state(state)

    def test_negative_is_refused(self):
        with pytest.raises(ValueError, match="non-negative"):
            resolve_seed(-1)


class TestBadSketches:
    def test_unknown_name(self):
        with pytest.raises(ValueError, match=r"'cauchy' is not known; use one of .*gaussian"):
            make_sketch("cauchy", 0, 5)

    def test_wrong_shape(self):
        with pytest.raises(ValueError, match=r"shape \(4, 2\).*\(5, n_components\)"):
            make_sketch(np.ones((4, 2)), 0, 5)

    def test_not_finite(self):
        with pytest.raises(ValueError, match="NaN or infinite"):
            make_sketch(np.full((5, 2), np.nan), 0, 5)

    def test_too_many_columns(self):
        with pytest.raises(ValueError, match="only 5 points"):
            make_sketch("columns", 0, 5).matrix(5, 6)
        with pytest.raises(ValueError, match="has 2 columns"):
            make_sketch(np.ones((5, 2)), 0, 5).matrix(5, 3)
