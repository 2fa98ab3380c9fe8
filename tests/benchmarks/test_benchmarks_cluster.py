"""The cost model of the cluster study, and one section on threads."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.cluster import (  # noqa: E402
    Exact,
    Sparse,
    bytes_of_product,
    memory_of_product,
    n_tasks,
)

from benchmarks import cluster  # noqa: E402


def test_constants_of_products_are_found_again():
    true = Exact(2e-9, 3e-11, 5e-11, 2e-3)
    sizes = [(20_000, 3, 8, 2), (20_000, 30, 8, 2), (20_000, 10, 32, 2), (40_000, 10, 8, 2), (9_000, 10, 8, 2)]
    rows = [
        dict(zip(("n", "d", "k", "workers"), size, strict=True)) | {"seconds": true.seconds(*size)} for size in sizes
    ]
    found = Exact.fit(rows)
    assert np.allclose([found.pair, found.feature, found.column, found.task], [2e-9, 3e-11, 5e-11, 2e-3])
    true = Sparse(1e-9, 2e-9, 1e-3, 2e-5)
    rows = []
    for n, k, halo, tasks in (
        (10_000, 8, 900, 20),
        (50_000, 8, 2_000, 60),
        (50_000, 64, 2_000, 90),
        (90_000, 32, 9_000, 99),
    ):
        row = {"n": n, "k": k, "workers": 2, "nnz": 40 * n, "halo": halo, "tasks": tasks, "bands": 12}
        rows.append(row | {"seconds": true.seconds(row), "graph_seconds": true.graph_seconds(row)})
    found = Sparse.fit(rows)
    assert np.allclose([found.entry, found.byte, found.task], [1e-9, 2e-9, 1e-3])
    assert np.isclose(found.asked, 2e-5)


def test_bounds_grow_as_they_should():
    assert bytes_of_product(50_000, 10, 8, workers=1) == 0.0
    assert bytes_of_product(50_000, 10, 8, workers=4) > bytes_of_product(50_000, 10, 8, workers=2)
    small, large = (memory_of_product(n, 10, 8, workers=100) for n in (10**7, 4 * 10**7))
    assert small < large < 5 * small  # not by the square
    assert n_tasks(50_000) == 3 * 91 + 91 // 2 + 2 * 13 * 2


def test_a_section_runs(monkeypatch):
    """On threads in place of processes, which other tests start."""
    from contextlib import nullcontext  # noqa: PLC0415

    monkeypatch.setattr(cluster, "_cluster", lambda workers: nullcontext((None, None)))
    rows = cluster.speed(quick=True)
    assert [row["workers"] for row in rows] == [1, 2]
    assert all(row["seconds"] > 0 for row in rows)
