"""The study of a GPU, run small on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import gpu  # noqa: E402
from heatsketch_paper.harness.store import Store  # noqa: E402

SECTIONS = {experiment.name: experiment for experiment in gpu.STUDY.experiments}


@pytest.fixture(scope="module")
def rows():
    return {name: list(getattr(gpu, name)("torch-cpu", True)) for name in SECTIONS}


def test_every_section_gives_rows_of_the_same_kernel(rows):
    every = [row for found in rows.values() for row in found]
    assert all(rows.values())
    assert {row.get("status", "ok") for row in every if row.get("method") != "KeOps"} == {"ok"}
    assert all(row["error"] < 1e-5 for row in every if "error" in row)
    assert all(row["recall"] == 1.0 for row in rows["neighbours"])
    assert all(row["row_sums"] < 1e-4 for row in rows["fit_3"] + rows["fit_50"] if "row_sums" in row)
    assert all(1e-4 < row["rounded"] < 1e-3 for row in rows["growth"])
    bounds = {"float32": 1e-4, "float64": 1e-10}
    assert all(row["difference"] < bounds[row["dtype"]] for row in rows["same"])


def test_every_section_of_the_page_is_written(rows):
    tables = {name: pd.DataFrame([{"figure": name, "trial": 0} | row for row in found]) for name, found in rows.items()}
    texts = {title: write(tables) for title, write in gpu.STUDY.sections.items()}
    assert all(text for title, text in texts.items() if title != "Absent or failed")
    assert all(write({}) == "" for write in gpu.STUDY.sections.values())


def test_a_failing_case_is_a_row():
    row = gpu.Bench("torch-cpu").case(lambda: {"inverse": 1 / 0}, n=3)
    assert row == {"n": 3, "status": "failed", "reason": "ZeroDivisionError: division by zero"}


def test_committed_results_are_those_of_the_declaration():
    store = Store(ROOT / "docs" / "gpu")
    assert all(store.open(experiment) for experiment in SECTIONS.values())
    tables = {name: store.read(name) for name in store.names}
    assert [verdict.holds for _, verdict in gpu.judged(tables)] == [True] * 3
    worse = {"products": tables["products"].assign(error=1.0)}
    assert [verdict.holds for _, verdict in gpu.judged(worse)] == [False]
