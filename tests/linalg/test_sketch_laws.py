"""Sketches entry by entry: each against its definition in whole numbers, so that no digit of it may change."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from heatsketch.linalg import sketch as sketches
from heatsketch.linalg.philox import first_by_key, philox, sample
from heatsketch.linalg.sketch import (
    SKETCHES,
    ArraySketch,
    ColumnSketch,
    GaussianSketch,
    HashedRademacherSketch,
    RademacherSketch,
    _multiply61,
    _reduce61,
    make_sketch,
    resolve_seed,
)

M32, P61 = 2**32 - 1, 2**61 - 1
SEED = 0x0123456789ABCDEF
ROWS = np.array([0, 1, 77, 2**32 - 1, 2**32, 2**36 + 5])


def _philox(counter, seed):
    """Philox4x32-10 of Salmon et al. in Python's integers."""
    c, key = list(counter), [seed & M32, seed >> 32 & M32]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) & M32, (key[1] + 0xBB67AE85) & M32]
    return c


def _normal(i, j, seed):
    """Words 0 and 1 make columns 0 and 1 by radius and angle, words 2 and 3 the next two; the stream is 0."""
    words = _philox((i & M32, i >> 32, j // 4, 0), seed)
    pair = 2 * (j % 4 // 2)
    radius = math.sqrt(-2 * math.log((words[pair] + 0.5) / 2**32))
    angle = 2 * math.pi * (words[pair + 1] + 0.5) / 2**32
    return radius * (math.sin(angle) if j % 2 else math.cos(angle))


def _sign(i, j, seed):
    """One bit for each of 128 columns, from the lowest of the first word on; the stream is 1."""
    words = _philox((i & M32, i >> 32, j // 128, 1), seed)
    return 2 * (words[j % 128 // 32] >> j % 32 & 1) - 1


def _hashed(i, j, seed):
    """Parity of a cubic polynomial modulo 2^61 - 1, whose coefficients are 61 bits of two words each; stream 2."""
    total = 0
    for e in range(4):
        a, b, _, _ = _philox((e, 0, 0, 2), seed)
        total += ((a << 32 | b) >> 3) % P61 * (i << 24 | j) ** e
    return 1 - 2 * (total % P61 % 2)


def test_words_of_arrays_are_those_of_the_definition():
    counters = np.random.default_rng(0).integers(0, 2**32, (4, 20))
    found = np.transpose(philox(tuple(counters), SEED))
    assert found.tolist() == [_philox([int(c) for c in column], SEED) for column in counters.T]
    # Counters are broadcast; of the seed 64 bits count.
    wide = philox((np.arange(3)[:, None], 0, np.arange(2)[None, :], 5), SEED + 2**64)
    assert [w.shape for w in wide] == [(3, 2)] * 4
    assert [int(w[2, 1]) for w in wide] == _philox((2, 0, 1, 5), SEED)
    assert all(w.dtype == np.uint64 for w in wide)


@pytest.mark.parametrize(
    ("law", "entry", "columns"),
    [
        (GaussianSketch, _normal, [0, 1, 2, 3, 4, 7, 129, 6]),
        (RademacherSketch, _sign, [0, 1, 31, 32, 63, 64, 95, 96, 127, 128, 300, 5, 37, 70, 101, 255]),
        (HashedRademacherSketch, _hashed, [0, 1, 5, 1000, 2**24 - 1]),
    ],
)
def test_entries_are_those_of_the_definition(law, entry, columns):
    found = law(SEED).block(ROWS, columns)
    expected = [[entry(int(i), j, SEED) for j in columns] for i in ROWS]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert found.shape == (len(ROWS), len(columns))


def test_a_word_serves_all_its_columns(monkeypatch):
    made, plain = [], sketches._words
    monkeypatch.setattr(sketches, "_words", lambda *args: made.append(len(args[1])) or plain(*args))
    GaussianSketch(0).block([0], range(9))
    RademacherSketch(0).block([0], range(300))
    assert made == [3, 3]


def test_what_is_made_is_not_copied(monkeypatch):
    given = np.ones((3, 2))
    monkeypatch.setattr(GaussianSketch, "block", lambda *_: given)
    assert GaussianSketch(0).matrix(3, 2) is given
    assert GaussianSketch(0).matrix(3, 2, dtype=np.float64) is given


def test_columns_take_points_in_the_order_of_their_keys():
    keys = {i: _philox((i, 0, 0, 3), SEED) for i in range(12)}
    order = sorted(range(12), key=lambda i: keys[i][0] << 32 | keys[i][1])
    law = ColumnSketch(SEED, n_rows=12)
    assert law.points.tolist() == order
    assert law.taken(5).tolist() == order[:5]
    expected = np.zeros((12, 12))
    expected[order, range(12)] = math.sqrt(12)
    np.testing.assert_array_equal(law.block(range(12), range(12)), expected)
    np.testing.assert_array_equal(law.block([order[3], 0], [3]), expected[[order[3], 0], 3:4])
    # Points beyond 32 bits have keys of their own.
    far = np.array([7, 7 + 2**32], dtype=np.uint64)
    assert [int(k) for k in law._keys(far)] == [
        w[0] << 32 | w[1] for w in (_philox((7, high, 0, 3), SEED) for high in (0, 1))
    ]


@pytest.mark.parametrize("name", SKETCHES)
def test_blocks_are_whole_whatever_they_are_asked_for(name, monkeypatch):
    law = make_sketch(name, SEED, 40)
    assert type(law) is SKETCHES[name]
    assert law.seed == SEED
    whole = law.matrix(40, 30)
    made, plain = [], type(law)._block
    monkeypatch.setattr(type(law), "_block", lambda *args: made.append(len(args[1])) or plain(*args))
    for entries, rows in ((1, 1), (60, 2), (1 << 20, 40)):
        monkeypatch.setattr(sketches, "_ENTRIES_PER_CHUNK", entries)
        np.testing.assert_array_equal(law.matrix(40, 30), whole)
        assert made == [rows] * (40 // rows)
        made.clear()
    np.testing.assert_array_equal(law.matrix(9, 4, first_column=7), whole[:9, 7:11])
    assert law.block(3, 5) == whole[3, 5]
    assert law.block([], [0, 1]).shape == (0, 2)
    assert law.block([0, 1], []).shape == (2, 0)
    single = law.matrix(40, 30, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, whole.astype(np.float32))
    law.require(40)


@pytest.mark.parametrize("name", SKETCHES)
def test_devices_make_the_same(name, monkeypatch):
    torch = pytest.importorskip("torch")
    from heatsketch._utils.registry import find_device  # noqa: PLC0415

    law = make_sketch(name, SEED, 20)
    from heatsketch.backends.torch.sketches import draw  # noqa: PLC0415

    monkeypatch.setattr("heatsketch.backends.torch.sketches._ENTRIES_PER_LAUNCH", 6 * (5 + 8))  # some rows at a time
    M = draw(law, (20, 5), 2, find_device("torch-cpu"))
    assert M.dtype == torch.float64
    np.testing.assert_allclose(M.numpy(), law.matrix(20, 5, first_column=2), rtol=1e-14)
    single = draw(law, (20, 5), 0, find_device("torch-cpu"), np.float32)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), law.matrix(20, 5), rtol=1e-6)


def test_rows_are_numbered_where_they_are_made():
    device = SimpleNamespace(torch=SimpleNamespace(arange=lambda *args, **options: (args, options)), name="cuda:1")
    assert sketches._numbers(slice(2, 5), device) == ((2, 5), {"device": "cuda:1"})


def test_arithmetic_modulo_the_mersenne_prime():
    edges = [0, 1, 2, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**60, P61 - 1, P61 // 3, 0x123456789ABCDEF]
    a, b = (np.array(part, dtype=np.uint64) for part in zip(*((x, y) for x in edges for y in edges), strict=True))
    assert _multiply61(a, b).tolist() == [x * y % P61 for x in edges for y in edges]
    numbers = [0, 1, P61 - 1, P61, P61 + 1, 2 * P61 - 1, 2 * P61, 2**62, 2**63 + 12345, 2**64 - 1]
    assert _reduce61(np.array(numbers, dtype=np.uint64)).tolist() == [x % P61 for x in numbers]


class TestSmallestKeys:
    KEYS = np.random.default_rng(0).integers(0, 40, 100).astype(np.uint64)  # with many ties

    def test_no_bit_of_a_key_is_lost(self):
        keys = np.array([2**63 + 2, 2**63 + 1, 2**64 - 1, 2**63], dtype=np.uint64)
        assert first_by_key(4, 3, lambda i: keys[i.astype(np.int64)]).tolist() == [3, 1, 0]

    @pytest.mark.parametrize("entries", [1, 7, 1000])
    @pytest.mark.parametrize("size", [1, 2, 13, 99, 100, 300])
    def test_of_equal_keys_the_smaller_number_comes_first(self, size, entries, monkeypatch):
        monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", entries)
        found = first_by_key(100, size, lambda i: self.KEYS[i.astype(np.int64)])
        assert found.dtype == np.int64
        assert found.tolist() == sorted(range(100), key=lambda i: (self.KEYS[i], i))[:size]

    def test_little_is_held(self, monkeypatch):
        monkeypatch.setattr("heatsketch._utils.chunks.CHUNK_ENTRIES", 10)
        asked = []
        first_by_key(100, 3, lambda i: asked.append(i.tolist()) or self.KEYS[i.astype(np.int64)])
        assert asked == [list(range(start, start + 10)) for start in range(0, 100, 10)]  # each number once

    def test_a_sample_is_always_the_same(self):
        assert sample(5, 5).tolist() == sample(5, 9).tolist() == [0, 1, 2, 3, 4]
        first = sorted(range(50), key=lambda i: _philox((i, 0, 0, 0xB), 0)[0])[:8]
        assert sample(50, 8).tolist() == sorted(first)

    def test_a_sample_of_very_many(self, monkeypatch):
        many = np.array([2**32 + 5, 7], dtype=np.uint64)
        monkeypatch.setattr("heatsketch.linalg.philox.first_by_key", lambda n, size, key: key(many))
        assert sample(2**40, 2).tolist() == sorted(_philox((i, high, 0, 0xB), 0)[0] for i, high in ((5, 1), (7, 0)))


class TestSeeds:
    @pytest.mark.parametrize("seed", [0, 1, 2**64 - 1, np.uint64(2**63), np.int8(3)])
    def test_whole_numbers_are_seeds(self, seed):
        found = resolve_seed(seed)
        assert found == int(seed)
        assert type(found) is int

    @pytest.mark.parametrize("seed", [-1, 2**64, np.int64(-5)])
    def test_others_are_refused(self, seed):
        with pytest.raises(ValueError, match="non-negative integer of at most 64 bits"):
            resolve_seed(seed)

    def test_truth_is_no_number_but_what_scikit_learn_takes_it_for(self):
        assert resolve_seed(True) == resolve_seed(np.random.RandomState(1)) != 1

    @pytest.mark.parametrize("bad", ["7", 1.5])
    def test_what_is_no_generator_is_refused(self, bad):
        with pytest.raises(ValueError, match="cannot be used to seed"):
            resolve_seed(bad)

    def test_generators_draw_all_their_bits(self):
        high, low = np.random.RandomState(3).randint(2**31, size=2)
        assert resolve_seed(np.random.RandomState(3)) == int(high) * 2**31 + int(low)
        assert resolve_seed(np.random.default_rng(3)) == np.random.default_rng(3).integers(2**63)


class TestGivenArrays:
    @pytest.mark.parametrize("dtype", [bool, np.int16, np.uint8, np.float32, np.float64])
    def test_real_numbers_of_any_kind(self, dtype):
        array = (np.arange(12).reshape(4, 3) % 5).astype(dtype)
        law = make_sketch(array, 9, 4)
        assert isinstance(law, ArraySketch)
        assert law.seed == 9
        M = law.matrix(4, 3)
        assert M.dtype == np.float64
        np.testing.assert_array_equal(M, array)
        np.testing.assert_array_equal(law.block([2, 0], [2, 1]), array[[2, 0]][:, [2, 1]])
        assert law.block([2, 0], []).shape == (2, 0)
        law.require(3)
        with pytest.raises(ValueError, match="has 3 columns, and column 4 was asked for"):
            law.require(4)
        with pytest.raises(ValueError, match="has 3 columns, and column 4"):
            law.block([0], [1, 3])

    def test_one_column_of_one_point(self):
        assert make_sketch(np.full((1, 1), 7.0), 0, 1).block([0], [0]) == 7.0
        assert make_sketch("columns", 0, 1).block([0], [0]) == 1.0

    def test_on_a_cluster_it_stays_there(self, one_thread):
        da = one_thread
        array = da.from_array(np.ones((4, 2)), chunks=2)
        assert make_sketch(array, 0, 4).array is array
        with pytest.raises(ValueError, match="NaN or infinite"):
            make_sketch(array * np.nan, 0, 4)

    def test_lists_will_do(self):
        np.testing.assert_array_equal(make_sketch([[1, 2], [3, 4]], 0, 2).matrix(2, 2), [[1, 2], [3, 4]])

    @pytest.mark.parametrize(
        "array", [np.ones(4), np.ones((3, 2)), np.ones((4, 2, 1)), np.ones((4, 2), dtype=complex), [["a"], ["b"]] * 2]
    )
    def test_others_are_refused(self, array):
        with pytest.raises(ValueError, match=r"must be real with shape \(4, n_components\)"):
            make_sketch(array, 0, 4)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_one_that_is_not_finite_is_enough(self, bad):
        array = np.ones((4, 2))
        array[2, 1] = bad
        with pytest.raises(ValueError, match="NaN or infinite"):
            make_sketch(array, 0, 4)


def test_columns_beyond_the_points_are_refused():
    law = ColumnSketch(0, n_rows=5)
    assert law.taken(5).shape == (5,)
    for ask in (lambda: law.require(6), lambda: law.taken(6), lambda: law.block([0], [5])):
        with pytest.raises(ValueError, match="asked for column 6, but there are only 5 points"):
            ask()
