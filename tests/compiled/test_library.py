"""How compiled functions are called: the instance for the types of the arrays, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from heatsketch.compiled.blocks import add, subtract


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
