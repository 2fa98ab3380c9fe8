"""Values that are kept from release to release; `golden.py` defines them and their tolerances."""

from __future__ import annotations

import json

import numpy as np
import pytest

import golden

KEPT = json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("kind", golden.TOLERANCES)
def test_values_match_the_last_release(kind):
    found = {name: golden.plain(value) for name, value in getattr(golden, kind)().items()}
    assert found.keys() == KEPT[kind].keys()
    changes = {name: relative_change(found[name], kept) for name, kept in KEPT[kind].items()}
    changes = {name: change for name, change in changes.items() if not change <= golden.TOLERANCES[kind]}
    assert not changes, (
        f"values of tests/golden.json changed, relative to the largest entry: {changes}. If this is intended, run "
        "`python tests/golden.py` and say under Changed in CHANGELOG.md that embeddings differ, and why."
    )


def relative_change(found, kept):
    """Largest difference divided by the largest entry."""
    found, kept = np.array(found), np.array(kept)
    if found.shape != kept.shape:
        return np.inf
    return float(np.abs(found - kept).max() / np.abs(kept).max())
