"""The study of a GPU, run small on the CPU."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import gpu, gpu_page
from heatsketch_paper.harness.store import Store

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def rows():
    names = [experiment.name for experiment in gpu.STUDY.experiments]
    return {name: list(getattr(gpu, name)("torch-cpu", True)) for name in names}


def test_every_section_gives_rows_of_the_same_kernel(rows):
    every = [row for found in rows.values() for row in found]
    assert all(rows.values())
    others = ("KeOps", "FAISS", "cuVS", "cuML")
    assert {row.get("status", "ok") for row in every if not str(row.get("method")).startswith(others)} == {"ok"}
    assert all(row["error"] < 1e-5 for row in every if "error" in row)
    assert all(row["recall"] == 1.0 for name in ("search", "fits") for row in rows[name] if "recall" in row)
    assert all(row["row_sums"] < 1e-4 for row in rows["pairs"])
    assert all(row["largest_difference"] < 1e-6 for row in rows["arrays"])
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
    statement = "Every product is within 1e-4"
    for table, expected in ((products, True), (products.assign(error=1.0), False)):
        found = [verdict for text, verdict in gpu_page.judged({"products": table}) if text.startswith(statement)]
        assert [verdict.holds for verdict in found] == [expected]


def test_an_earlier_version_stands_beside_this_one():
    rows = [
        {"data": "tree", "n": 9, "d": 3, "method": "sketch", "status": "ok", "version": v} for v in ("now", "before")
    ]
    table = pd.DataFrame(
        [row | {"figure": "fits", "trial": 0, "seconds": s} for row, s in zip(rows, (2.0, 6.0), strict=True)]
    )
    [row] = gpu_page.with_before({"fits": table}, "fits")
    assert (row["seconds"], row["before"], row["faster"]) == (2.0, 6.0, 3.0)
    assert "Slower" not in gpu_page.SECTIONS["Where we lose or miss"]({"fits": table})
