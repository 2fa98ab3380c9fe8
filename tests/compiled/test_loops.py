"""How loops are compiled: what several processes keep on disk."""

from __future__ import annotations

import importlib.util

import numpy as np

SOURCE = """
from heatsketch.compiled.loops import loop

@loop
def double(x):
    return x + x
"""


def _loaded(path):
    """The function as another process would load it."""
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


def test_processes_that_compile_at_once_keep_different_files(tmp_path):
    """Each reads the index before the other has written it; Numba alone gives both files the number 1."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    first, second = _loaded(path), _loaded(path)
    for function, x in ((first, 1.0), (second, np.float32(1.0))):
        function._cache._cache_file._load_index = dict
        assert function(x) == 2.0
    assert len(list(tmp_path.rglob("*.nbc"))) == 2
    third = _loaded(path)
    assert third(np.float32(1.5)) == 3.0  # from the file of the second
    assert sum(third.stats.cache_hits.values()) == 1
