"""The study of a GPU, run small on the CPU."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import gpu
from heatsketch_paper.harness.store import Store

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def rows():
    names = [experiment.name for experiment in gpu.STUDY.experiments]
    return {name: list(getattr(gpu, name)("torch-cpu", True)) for name in names}


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


def test_a_failing_case_is_a_row():
    row = gpu.Bench("torch-cpu").case(lambda: {"inverse": 1 / 0}, n=3)
    assert row == {"n": 3, "status": "failed", "reason": "ZeroDivisionError: division by zero"}


def test_worse_figures_refute_claims():
    products = Store(Path(__file__).parents[2] / "docs" / "gpu").read("products")
    for table, expected in ((products, True), (products.assign(error=1.0), False)):
        ((_, verdict),) = gpu.judged({"products": table})
        assert verdict.holds is expected
