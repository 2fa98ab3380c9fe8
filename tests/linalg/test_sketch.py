"""Sketches: the generator, entries by their definition, independence of chunks, and the laws of the entries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from heatsketch.linalg import sketch as module
from heatsketch.linalg.sketch import (
    SKETCHES,
    ColumnSketch,
    GaussianSketch,
    HashedRademacherSketch,
    RademacherSketch,
    first_by_key,
    make_sketch,
    philox,
    resolve_seed,
    sample,
)

M32, P61 = 2**32 - 1, 2**61 - 1
SEED = 0x0123456789ABCDEF
ROWS = np.array([0, 1, 77, 2**32 - 1, 2**32, 2**36 + 5])


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


def words_at(*counter):
    return [int(w) for w in philox(counter, SEED)]


def normal_entry(i, j):
    """Box-Muller: words 0 and 1 make columns 0 and 1, words 2 and 3 the next two; stream 0."""
    words = words_at(i & M32, i >> 32, j // 4, 0)
    pair = 2 * (j % 4 // 2)
    radius = math.sqrt(-2 * math.log((words[pair] + 0.5) / 2**32))
    angle = 2 * math.pi * (words[pair + 1] + 0.5) / 2**32
    return radius * (math.sin(angle) if j % 2 else math.cos(angle))


def sign_entry(i, j):
    """One bit for each of 128 columns, lowest bit of the first word first; stream 1."""
    return 2 * (words_at(i & M32, i >> 32, j // 128, 1)[j % 128 // 32] >> j % 32 & 1) - 1


def hashed_entry(i, j):
    """Parity of a cubic polynomial modulo 2^61 - 1 with random coefficients; stream 2."""
    total = 0
    for e in range(4):
        a, b, _, _ = words_at(e, 0, 0, 2)
        total += ((a << 32 | b) >> 3) % P61 * (i << 24 | j) ** e
    return 1 - 2 * (total % P61 % 2)


@pytest.mark.parametrize(
    ("law", "entry", "columns"),
    [
        (GaussianSketch, normal_entry, [0, 1, 2, 3, 4, 7, 129, 6]),
        (RademacherSketch, sign_entry, [0, 31, 32, 64, 96, 127, 128, 300]),
        (HashedRademacherSketch, hashed_entry, [0, 1, 5, 1000, 2**24 - 1]),
    ],
)
def test_entries_match_definition(law, entry, columns):
    expected = [[entry(int(i), j) for j in columns] for i in ROWS]
    np.testing.assert_allclose(law(SEED).block(ROWS, columns), expected, rtol=1e-14)


@pytest.mark.parametrize("name", SKETCHES)
class TestPurity:
    def test_blocks_do_not_depend_on_chunks(self, name, monkeypatch):
        sketch = make_sketch(name, SEED, 50)
        whole = sketch.matrix(50, 20)
        rows, columns = np.array([49, 3, 3, 17]), np.array([19, 0, 7])
        np.testing.assert_array_equal(sketch.block(rows, columns), whole[np.ix_(rows, columns)])
        np.testing.assert_array_equal(sketch.matrix(50, 5, first_column=3), whole[:, 3:8])
        np.testing.assert_array_equal(sketch.matrix(50, 20, dtype=np.float32), whole.astype(np.float32))
        assert sketch.block([], [0, 1]).shape == (0, 2)
        monkeypatch.setattr(module, "_ENTRIES_PER_CHUNK", 60)
        np.testing.assert_array_equal(sketch.matrix(50, 20), whole)

    def test_seed_decides(self, name):
        a, b, c = (make_sketch(name, seed=s, n_rows=50).matrix(50, 10) for s in (3, 3, 4))
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()

    def test_second_moment_is_k_times_identity(self, name):
        # E[M M^T] = k I: over 400 seeds the mean of each entry has a standard error of at most sqrt(N / 400).
        n, k, seeds = 6, 4, 400
        total = sum(M @ M.T / k for M in (make_sketch(name, s, n).matrix(n, k) for s in range(seeds)))
        assert np.abs(total / seeds - np.eye(n)).max() < 5 * np.sqrt(n / seeds / k)


class TestGaussianLaw:
    M = GaussianSketch(11).matrix(2000, 50)

    def test_distribution(self):
        assert stats.kstest(self.M.ravel(), "norm").pvalue > 1e-3
        for order, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs((self.M**order).mean() - expected) < 4 * np.sqrt(variance / self.M.size)
        assert np.abs(GaussianSketch(0).matrix(200_000, 5)).max() > 4.4  # 1e6 normals reach 4.9

    def test_columns_and_rows_are_uncorrelated(self):
        for block in (self.M, self.M[:50].T):
            C = np.corrcoef(block, rowvar=False)
            off = C[np.triu_indices(len(C), 1)] * np.sqrt(len(block))
            assert stats.kstest(off, "norm").pvalue > 1e-3


@pytest.mark.parametrize("law", [RademacherSketch, HashedRademacherSketch])
class TestRademacherLaw:
    def test_signs_are_balanced_and_uncorrelated(self, law):
        M = law(5).matrix(1000, 60)
        np.testing.assert_array_equal(np.unique(M), [-1, 1])
        assert abs(M.mean()) * np.sqrt(M.size) < 4
        for block in (M, M[:60].T):
            C = block.T @ block / np.sqrt(len(block))
            assert np.abs(C[np.triu_indices(len(C), 1)]).max() < 5

    def test_four_entries_are_independent(self, law):
        # Over seeds: products of two, three and four distinct entries have mean zero.
        M = np.stack([law(s).block([0, 1, 5], [0, 3]).ravel() for s in range(1000)])
        for chosen in ((0, 1), (0, 2), (0, 1, 2), (0, 1, 2, 3), (0, 2, 3, 5)):
            assert abs(M[:, chosen].prod(axis=1).mean()) * np.sqrt(len(M)) < 4


@pytest.mark.parametrize("name", ["gaussian", "rademacher", "rademacher-hash"])
def test_neighbouring_seeds_are_uncorrelated(name):
    M = np.stack([make_sketch(name, s, 500).matrix(500, 4).ravel() for s in range(40)])
    C = M @ M.T / np.sqrt(M.shape[1])
    assert stats.kstest(C[np.triu_indices(40, 1)], "norm").pvalue > 1e-3


def test_columns_are_distinct_points_in_uniform_order():
    M = ColumnSketch(1, n_rows=30).matrix(30, 30)
    np.testing.assert_allclose(M @ M.T, 30 * np.eye(30))
    first = [int(ColumnSketch(s, n_rows=5).taken(1)[0]) for s in range(2000)]
    assert stats.chisquare(np.bincount(first, minlength=5)).pvalue > 1e-3


def test_smallest_keys_with_ties(monkeypatch):
    keys = np.random.default_rng(0).integers(0, 40, 100).astype(np.uint64) + np.uint64(2**63)
    for entries in (7, 1000):
        monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", entries)
        for size in (1, 13, 100, 300):
            found = first_by_key(100, size, lambda i: keys[i.astype(np.int64)])
            assert found.tolist() == sorted(range(100), key=lambda i: (keys[i], i))[:size]


def test_sample_of_more_than_all_is_all():
    assert sample(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert len(set(sample(50, 8).tolist())) == 8


class TestSeeds:
    @pytest.mark.parametrize("seed", [0, 42, 2**64 - 1, np.int64(42), np.uint64(2**63)])
    def test_integers_are_seeds(self, seed):
        assert resolve_seed(seed) == int(seed)

    @pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
    def test_generators_draw(self, make):
        generator = make(0)
        assert resolve_seed(generator) == resolve_seed(make(0)) != resolve_seed(generator)

    def test_none_follows_the_global_generator(self):
        state = np.random.get_state()
        try:
            np.random.seed(5)
            a = resolve_seed(None)
            np.random.seed(5)
            assert resolve_seed(None) == a != resolve_seed(None)
        finally:
            np.random.set_state(state)

    @pytest.mark.parametrize(("seed", "word"), [(-1, "non-negative"), (2**64, "64 bits"), ("7", "seed"), (1.5, "seed")])
    def test_invalid_seed(self, seed, word):
        with pytest.raises(ValueError, match=word):
            resolve_seed(seed)


class TestGivenArray:
    @pytest.mark.parametrize("dtype", [bool, np.int16, np.float32])
    def test_any_real_dtype(self, dtype):
        array = (np.arange(12).reshape(4, 3) % 5).astype(dtype)
        M = make_sketch(array, 9, 4).matrix(4, 3)
        assert M.dtype == np.float64
        np.testing.assert_array_equal(M, array)

    @pytest.mark.parametrize(
        ("array", "word"),
        [
            ("cauchy", "gaussian"),
            (np.ones(4), "shape"),
            (np.ones((3, 2)), "shape"),
            (np.ones((4, 2), dtype=complex), "real"),
            ([["a"], ["b"]] * 2, "real"),
            (np.full((4, 2), np.nan), "NaN"),
            (np.full((4, 2), -np.inf), "infinite"),
        ],
    )
    def test_invalid_sketch(self, array, word):
        with pytest.raises(ValueError, match=word):
            make_sketch(array, 0, 4)

    def test_too_many_columns(self):
        with pytest.raises(ValueError, match="5 columns"):
            make_sketch("columns", 0, 5).matrix(5, 6)
        with pytest.raises(ValueError, match="2 columns"):
            make_sketch(np.ones((5, 2)), 0, 5).matrix(5, 3)
