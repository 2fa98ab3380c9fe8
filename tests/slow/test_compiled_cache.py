"""Compiled code that several processes have cached on disk."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

PROGRAM = """
import sys
import numpy as np
from heatsketch.compiled import products

rng = np.random.default_rng(0)
K, V, out = rng.normal(size=(12, 12)), rng.normal(size=(12, 40)), np.zeros((12, 40))
if sys.argv[1] == "all":
    products._add_product(K, 0, 12, 1, 12, 12, V, 0, 40, out)
    np.testing.assert_allclose(out, K @ V, atol=1e-12)
else:
    getattr(products, sys.argv[1])(K, 0, 12, 1, 12, V, 0, out, 0)
"""


def test_functions_of_a_factory_are_not_confused(tmp_path):
    """Two processes compile one function each. Numba gives both the same number, and a third process links them."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONHASHSEED": "0"}
    for name in ("_four_rows_8", "_four_rows_32", "all"):
        assert subprocess.run([sys.executable, "-c", PROGRAM, name], env=environment, check=False).returncode == 0
