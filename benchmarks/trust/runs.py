"""Runs of the tests: many times as hard as usual, traced, or with other versions of what they stand on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

__all__ = ["HUNTED", "cases_of", "coverage", "hunt", "suite", "tally"]

ROOT = Path(__file__).resolve().parents[2]
# The tests that try to break things, and what they try.
HUNTED = {
    "test_hostile_points": "hostile points",
    "test_hostile_arrays": "hostile arrays and tables",
    "test_hostile_graphs": "hostile matrices",
    "test_hostile_networks": "hostile graphs",
    "test_properties": "properties of embeddings and affinities",
    "test_truth": "fifty digits",
    "test_convergence": "scalings",
    "test_determinism": "threads, hashes and backends",
    "test_fuzz": "damaged files",
    "test_faults": "full and closed places, killed writers",
    "test_killed": "killed and starved commands",
    "test_interrupts": "interrupts",
    "test_load": "load",
}
# One process of two for each core, and threads of BLAS that would take the cores from them.
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
# A tracer that is interrupted keeps its lock, or goes round for ever on another thread (Python 3.11).
_INTERRUPTS = (
    "--ignore=tests/slow/test_interrupts.py",
    "--deselect=tests/slow/test_killed.py::test_finished_trials_outlive_every_interrupt",
)
_PYTEST = ("-m", "pytest", "--quiet", "--numprocesses=2", "--dist=worksteal")


def hunt(times: int) -> dict[str, Any]:
    """Run the tests that try to break things with so many times as many cases, others than in an ordinary run."""
    files = [f"tests/{name}.py" for name in HUNTED if (ROOT / "tests" / f"{name}.py").exists()]
    said, root = _run(*_PYTEST, "--hypothesis-show-statistics", *files, HEATSKETCH_HUNT=str(times))
    tried, counted = cases_of(said), tally(root)
    rows = {name: counted[name] | {"cases": counted[name]["cases"] + tried[name]} for name in counted}
    return {"files": rows}


def coverage() -> dict[str, Any]:
    """Statements and branches of the package that its tests reach."""
    with tempfile.TemporaryDirectory() as place:
        data, report = Path(place) / "data", Path(place) / "report.json"
        tool = ("-m", "coverage")
        _, root = _run(*tool, "run", f"--data-file={data}", *_PYTEST, *_INTERRUPTS)
        _run(*tool, "combine", "--quiet", f"--data-file={data}", place)
        _run(*tool, "json", "--quiet", f"--data-file={data}", "-o", str(report))
        found = json.loads(report.read_text(encoding="utf-8"))
    totals, missed = found["totals"], Counter[str]()
    for name, file in found["files"].items():
        missed[name.partition("heatsketch/")[2]] += (
            file["summary"]["missing_lines"] + file["summary"]["missing_branches"]
        )
    kept = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {
        **{name: totals[name] for name in kept},
        "missed": {name: n for name, n in missed.most_common(12) if n},
        **_counts(root),
    }


def suite(arguments: Sequence[str] = ()) -> dict[str, Any]:
    """All tests in this environment, or those that arguments of pytest name."""
    _, root = _run(*_PYTEST, *arguments)
    return {"arguments": list(arguments), **_counts(root)}


def cases_of(said: str) -> Counter[str]:
    """Cases that Hypothesis reports to have tried, by file of tests."""
    found, file = Counter[str](), ""
    for line in said.splitlines():
        if named := re.match(r"tests/(\w+)\.py::", line):
            file = named[1]
        if tried := re.search(r"(\d+) passing", line):
            found[file] += int(tried[1])
    return found


def tally(root: ElementTree.Element) -> dict[str, dict[str, Any]]:
    """Tests, and the cases and faults that they say they tried, by file, in the order of `HUNTED`."""
    rows: dict[str, dict[str, Any]] = {}
    for case in root.iter("testcase"):
        row = rows.setdefault(
            case.get("classname", "").split(".")[1], {"tests": 0, "failed": 0, "cases": 0, "faults": 0, "seconds": 0.0}
        )
        row["tests"] += case.find("skipped") is None
        row["failed"] += case.find("failure") is not None or case.find("error") is not None
        row["seconds"] = round(row["seconds"] + float(case.get("time", 0)), 1)
        for told in case.iter("property"):
            if told.get("name") in ("cases", "faults"):
                row[str(told.get("name"))] += int(told.get("value", 0))
    return {name: rows[name] for name in HUNTED if name in rows}


def _counts(root: ElementTree.Element) -> dict[str, int]:
    cases = list(root.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return {"passed": len(cases) - skipped - failed, "failed": failed, "skipped": skipped}


def _run(*arguments: str, **variables: str) -> tuple[str, ElementTree.Element]:
    """What a run printed, which is shown as well, and its report of tests where there is one.

    Tests that fail are results, told in the report; a tool that fails is an error.
    """
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        tested = "pytest" in arguments
        run = subprocess.run(
            [sys.executable, *arguments, *([f"--junitxml={report}"] if tested else [])],
            cwd=ROOT,
            env={**os.environ, **_QUIET, **variables},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(run.stdout, file=sys.stderr)
        if run.returncode not in ((0, 1) if tested else (0,)):
            msg = f"{' '.join(arguments)} ended with {run.returncode}; see what it printed above"
            raise RuntimeError(msg)
        return run.stdout, ElementTree.parse(report).getroot() if tested else ElementTree.Element("none")
