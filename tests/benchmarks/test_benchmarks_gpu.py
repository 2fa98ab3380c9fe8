"""The benchmark of the GPU, run small on the CPU: every section gives rows, failures are told, the page is whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu import __main__ as command  # noqa: E402
from benchmarks.gpu import sections  # noqa: E402
from benchmarks.gpu.bench import QUICK, Bench  # noqa: E402
from benchmarks.gpu.page import page  # noqa: E402

from heatsketch.backends.torch.device import Device  # noqa: E402

ABSENT = "pykeops is not installed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("gpu")
    assert command.main(["--quick", "--device", "torch-cpu", "-o", str(found)]) == 0
    return found


@pytest.fixture
def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_every_section_gives_rows(results):
    assert {row["section"] for row in results["rows"]} == set(sections.SECTIONS)
    assert {row["failed"] for row in results["rows"] if "failed" in row} <= {ABSENT}


def test_figures_are_those_of_the_same_kernel(results):
    rows = results["rows"]
    assert all(row["error"] < 1e-5 for row in rows if "error" in row)
    assert all(row["recall"] == 1.0 for row in rows if "recall" in row)
    assert all(row["row_sums"] < 1e-4 for row in rows if "row_sums" in row)
    assert all(1e-4 < row["rounded"] < 1e-3 for row in rows if row["section"] == "growth")
    bounds = {"float32": 1e-4, "float64": 1e-10}
    assert all(row["difference"] < bounds[row["dtype"]] for row in rows if row["section"] == "same")


def test_parts_of_a_fit_are_all_found(results):
    for row in results["rows"]:
        if row["section"].startswith("fit") and row["run"] == "again":
            wanted = {"checks", "factors", "scaling", "sketch", "powers", "placing", "other"}
            assert set(row["parts"]) - {"bandwidth"} == wanted
            assert row["products"]["one column"]["count"] >= row["scaling_products"]
            assert row["products"]["several"]["count"] == QUICK.power


def test_the_page_has_all_tables_and_is_written_again(folder, results, capsys):
    text = (folder / "index.md").read_text()
    assert text.count("\n## ") == 10
    assert "Not measured" not in text
    (folder / "index.md").unlink()
    assert command.main(["--page", "-o", str(folder)]) == 0
    assert (folder / "index.md").read_text() == text == page(results)
    assert "rows" in capsys.readouterr().out


def test_one_section_is_put_beside_the_others(folder, results):
    arguments = ["--quick", "--device", "torch-cpu", "-o", str(folder), "--only", "ceilings"]
    assert command.main(arguments) == 0
    after = json.loads((folder / "results.json").read_text())
    assert [row for row in after["rows"] if row["section"] != "ceilings"] == [
        row for row in results["rows"] if row["section"] != "ceilings"
    ]


def test_a_case_that_fails_is_recorded_and_the_others_go_on():
    rows = []
    bench = Bench(Device("cpu"), QUICK, "products", rows.append)
    for n in (0, 1):
        with bench.case(n=n) as row:
            row["inverse"] = 1 / n
    assert rows[0] == {"section": "products", "n": 0, "failed": "ZeroDivisionError: division by zero"}
    assert rows[1]["inverse"] == 1
    assert "n 0: ZeroDivisionError" in page({"machine": MACHINE, "command": "it", "rows": rows[:1]})


def test_a_section_that_fails_as_a_whole_is_recorded(monkeypatch):
    monkeypatch.setitem(sections.SECTIONS, "same", (lambda bench: 1 / 0, 1.0))
    assert sections.here("same", lambda write: None) == [
        {"section": "same", "failed": "ZeroDivisionError: division by zero"}
    ]
    assert "left out" in sections.apart("same", "torch-cpu", 0.0)[0]["failed"]


def test_a_process_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setitem(sections.SECTIONS, "ceilings", (None, 0.1))
    (row,) = sections.apart("ceilings", "torch-cpu", 10.0, quick=True)
    assert row["failed"].startswith("ended after")


MACHINE = {
    "chip": "a chip",
    "processor": "a processor",
    "cores": 1,
    "memory_gib": 1.0,
    "system": "Linux",
    "versions": {"numpy": "2"},
}
