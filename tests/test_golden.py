"""Values that stay as they are from release to release; `golden.py` says how closely, and when they may change."""

from __future__ import annotations

import json

import numpy as np
import pytest

import golden

KEPT = json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("kind", golden.TOLERANCES)
def test_values_are_those_of_the_last_release(kind):
    found = {name: golden.plain(value) for name, value in getattr(golden, kind)().items()}
    assert found.keys() == KEPT[kind].keys()
    moved = {name: moved_by(found[name], kept) for name, kept in KEPT[kind].items()}
    moved = {name: by for name, by in moved.items() if not by <= golden.TOLERANCES[kind]}
    assert not moved, (
        f"values of tests/golden.json have changed, by these shares of the largest entry: {moved}. If you did not mean "
        "to change results, mend what you did. If you did, run `python tests/golden.py` and say under Changed in "
        "CHANGELOG.md that embeddings differ from those of the last release, and why."
    )


def moved_by(found, kept):
    """The largest difference, as a share of the largest entry."""
    found, kept = np.array(found), np.array(kept)
    if found.shape != kept.shape:
        return np.inf
    return float(np.abs(found - kept).max() / np.abs(kept).max())


def test_a_change_is_seen():
    assert moved_by([1.0, 2.0], [1.0, 2.0]) == 0
    assert moved_by([1.0, 2.0], [1.0, 2.0 + 4e-9]) > golden.TOLERANCES["computed"]
    assert moved_by([[1]], [1]) == np.inf
    assert not moved_by([np.nan], [1.0]) <= 0.1
    assert KEPT["when"] == golden.WHEN
