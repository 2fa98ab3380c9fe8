"""How compiled functions are called: the instance for the types of the arrays, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from heatsketch.compiled import LANES
from heatsketch.compiled.blocks import add, subtract
from heatsketch.compiled.library import Function
from heatsketch.compiled.products import sparse_product
from heatsketch.compiled.search import offer_codes, shrink
from heatsketch.neighbors.clusters import Candidates


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_instance_is_chosen_by_the_types(dtype):
    total, term = np.ones(5), np.arange(5, dtype=dtype)
    add(total, 0.5, term, 1, 4)
    np.testing.assert_array_equal(total, [1.0, 1.5, 2.0, 2.5, 1.0])


def test_other_types_are_refused():
    with pytest.raises(TypeError, match=r"add takes arrays of .*float64.*got .*int64"):
        add(np.ones(3), 1.0, np.arange(3), 0, 3)
    with pytest.raises(TypeError, match="got"):
        add(np.ones(3), 1.0, np.ones(3, dtype=">f8" if np.little_endian else "<f8"), 0, 3)


def test_other_layouts_are_refused():
    W = np.asfortranarray(np.ones((4, 3)))
    with pytest.raises(TypeError, match="not C-contiguous"):
        subtract(W, np.ones(3), np.ones((4, 3)), 0, 4)
    with pytest.raises(TypeError, match="not C-contiguous"):
        add(np.ones(3), 1.0, np.ones(6)[::2], 0, 3)


def test_read_only_and_empty_arrays():
    total, term = np.zeros(3), np.arange(3.0)
    term.flags.writeable = False
    add(total, 2.0, term, 0, 3)
    np.testing.assert_array_equal(total, [0.0, 2.0, 4.0])
    add(np.empty(0), 2.0, np.empty(0), 0, 0)
    with pytest.raises(TypeError, match="read-only"):
        add(term, 2.0, total, 0, 3)
    np.testing.assert_array_equal(term, np.arange(3.0))


def test_unaligned_arrays_are_read_but_not_written():
    apart = np.zeros(25, dtype=np.uint8)[1:].view(np.float64)
    apart[:] = np.arange(3.0)
    total = np.ones(3)
    add(total, 2.0, apart, 0, 3)
    np.testing.assert_array_equal(total, [1.0, 3.0, 5.0])
    with pytest.raises(TypeError, match="not aligned"):
        add(apart, 2.0, total, 0, 3)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"add takes arrays of shapes .*total.*got .*\(3,\).*\(4,\)"):
        add(np.ones(3), 1.0, np.ones(4), 0, 3)
    with pytest.raises(ValueError, match="shapes"):
        add(np.ones((3, 1)), 1.0, np.ones((3, 1)), 0, 3)
    W = np.ones((4, 3))
    for factors, V in (
        (np.ones(2), W),
        (np.ones(3), np.ones((4, 2))),
        (np.ones(3), np.ones((3, 3))),
        (np.ones(3), W[0]),
    ):
        with pytest.raises(ValueError, match="shapes"):
            subtract(W, factors, V, 0, 3)
    np.testing.assert_array_equal(W, 1.0)


def test_sums_of_dimensions_must_agree():
    indptr, ones = np.array([0, 1, 2]), np.ones(2)
    columns, V, out = np.array([0, 1]), np.array([[3.0], [4.0]]), np.zeros((2, 1))
    sparse_product(indptr, columns, ones, V, out, 0, 2)
    np.testing.assert_array_equal(out, V)
    with pytest.raises(ValueError, match="shapes"):
        sparse_product(indptr[:2], columns, ones, V, out, 0, 2)
    with pytest.raises(ValueError, match="shapes"):
        sparse_product(np.append(indptr, 2), columns, ones, V, out, 0, 2)


def test_integers_must_agree():
    codes, sides = np.zeros((1, 2, LANES), np.float32), np.full((1, LANES), np.nan, np.float32)
    found = Candidates(LANES, 3)
    state = found.worst, found.count, found.squared, found.ids
    offer_codes(codes, codes, sides, sides, 2.0, 0, LANES, 0, LANES, True, 3, *state)
    assert not found.count.any()
    with pytest.raises(ValueError, match="shapes"):
        offer_codes(codes, codes, sides[:, :8].copy(), sides, 2.0, 0, LANES, 0, LANES, True, 3, *state)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (0, 4), (4, 5), (2, -1)])
def test_rows_must_exist(start, stop):
    total = np.zeros(3)
    with pytest.raises(ValueError, match=r"add takes (start|stop) from 0 to 3, got"):
        add(total, 1.0, np.ones(3), start, stop)
    np.testing.assert_array_equal(total, 0.0)


def test_limits_may_be_exclusive():
    found = Candidates(4, 3)
    state = found.squared, found.ids, found.count, found.worst
    room = found.squared.shape[1]
    shrink(*state, room - 1, 0, 4)
    with pytest.raises(ValueError, match=f"shrink takes k from 0 to {room - 1}, got {room}"):
        shrink(*state, room, 0, 4)


def test_arrays_and_numbers_are_counted():
    add = Function("add", "d* total[n], T term[n]", "d factor, l start<=n, l stop<=n", T="fd")
    with pytest.raises(TypeError, match="arrays"):
        add((np.ones(3),), 1.0, 0, 3)
    with pytest.raises(TypeError, match="3 numbers, got 2"):
        add((np.ones(3), np.ones(3)), 1.0, 0)
