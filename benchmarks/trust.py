"""How the tests were tried: hunts, coverage, other versions and mutants: ``python -m benchmarks.trust NAME``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from heatsketch_paper.harness.experiment import Case, Experiment, Row
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Study, Tables, grid, main

ROOT = Path(__file__).resolve().parents[1]
# One thread of BLAS for each of two test processes.
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
_PYTEST = ("-m", "pytest", "--quiet", "--numprocesses=2", "--dist=worksteal")
# The tracer does not survive the interrupts of these tests.
_INTERRUPTS = "--ignore=tests/slow/test_interrupts.py"
_COUNTS = ("passed", "failed", "skipped")
_LIBRARIES = ("numba", "pandas", "hypothesis", "mutmut", "pytest")


def tests_of(arguments: Sequence[str], **variables: str) -> tuple[str, ElementTree.Element]:
    """Output and JUnit report of a run of pytest; failing tests are results, a failing tool is an error."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        run = subprocess.run(
            [sys.executable, *arguments, f"--junitxml={report}"],
            cwd=ROOT,
            env=os.environ | _QUIET | variables,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(arguments)} ended with {run.returncode}: {run.stdout[-500:]}")
        return run.stdout, ElementTree.parse(report).getroot()


def by_file(output: str, report: ElementTree.Element) -> list[Row]:
    """Tests by file, with the cases that Hypothesis tried and the cases and faults that tests recorded."""
    rows: dict[str, Row] = {}
    for case in report.iter("testcase"):
        name = case.get("classname", "").split(".")[-1]
        row = rows.setdefault(name, {"file": name, "tests": 0, "failed": 0, "cases": 0, "faults": 0})
        row["tests"] += case.find("skipped") is None
        row["failed"] += case.find("failure") is not None or case.find("error") is not None
        for recorded in case.iter("property"):
            if recorded.get("name") in ("cases", "faults"):
                row[str(recorded.get("name"))] += int(recorded.get("value", 0))
    file = ""
    for line in output.splitlines():
        named = re.match(r"\S*?(\w+)\.py::", line)
        file = named[1] if named else file
        tried = re.search(r"(\d+) passing", line)
        if tried and file in rows:
            rows[file]["cases"] += int(tried[1])
    return list(rows.values())


def counts(report: ElementTree.Element) -> Row:
    """Passed, failed and skipped tests."""
    cases = list(report.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return {"passed": len(cases) - skipped - failed, "failed": failed, "skipped": skipped}


@dataclass(frozen=True)
class Hunt(Experiment):
    """The tests that try to break the library, with more cases than usual, and others each time."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES
    times: int = 20
    files: tuple[str, ...] = ("tests/slow",)

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """One row for each file of tests."""
        arguments = [*_PYTEST, "--hypothesis-show-statistics", *self.files]
        return by_file(*tests_of(arguments, HEATSKETCH_HUNT=str(self.times)))


@dataclass(frozen=True)
class Coverage(Experiment):
    """Statements and branches that the tests reach, by module."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """One row for each module."""
        with tempfile.TemporaryDirectory() as place:
            data, report = f"--data-file={place}/data", f"{place}/report.json"
            tests_of(["-m", "coverage", "run", data, *_PYTEST, _INTERRUPTS])
            for command in (["combine", "--quiet", data, place], ["json", "--quiet", data, "-o", report]):
                subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, check=True)
            found = json.loads(Path(report).read_text(encoding="utf-8"))
        kept = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        rows = []
        for name, file in found["files"].items():
            about = file["summary"]
            missed = about["missing_lines"] + about["missing_branches"]
            rows.append({"module": name.partition("src/")[2], "missed": missed} | {key: about[key] for key in kept})
        return rows


@dataclass(frozen=True)
class Suite(Experiment):
    """All tests in the environment of this interpreter; ``--set label=oldest`` names it."""

    keys: ClassVar[tuple[str, ...]] = ("trial", "label")
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "label")
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES
    label: str = "here"

    def cases(self) -> list[Case]:
        """One for the environment."""
        return [{"trial": 0, "label": self.label}]

    def measure(self, case: Case, done: Sequence[Row] = ()) -> list[Row]:  # noqa: ARG002
        """Counts of tests, and the versions."""
        from heatsketch_paper.harness.store import machine  # noqa: PLC0415

        about = machine(self.libraries)
        kept = ("system", "python", "numpy", "scipy", "scikit-learn", "numba", "pandas")
        return [counts(tests_of(_PYTEST)[1]) | {key: about[key] for key in kept if key in about}]


# Exit codes of the tests of a mutant as mutmut records them; negative ones are signals.
_OUTCOMES = {
    **dict.fromkeys((1, 3, -11), "killed"),
    **dict.fromkeys((24, -24, 36, 152, 255, -9), "timed_out"),
    **dict.fromkeys((0, 33), "survived"),
}


@dataclass(frozen=True)
class Mutants(Experiment):
    """Faults put into the core by mutmut, one at a time, in a copy of the working tree under ``out/mutants``.

    ``[tool.mutmut]`` of pyproject.toml names the modules and the tests. mutmut keeps its results in the copy and tests
    only functions that changed since.
    """

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = _LIBRARIES
    processes: int = 1

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """One row for each module."""
        copy = ROOT / "out" / "mutants"
        needed = ("src", "tests", "pyproject.toml")
        listed = subprocess.run(["git", "ls-files", *needed], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            source, target = ROOT / name, copy / name
            if source.exists() and not (target.exists() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(self.processes)]
        subprocess.run(command, cwd=copy, env=os.environ | _QUIET | {"OMP_NUM_THREADS": "1"}, check=True)
        return outcomes(copy)


def outcomes(copy: Path) -> list[Row]:
    """What became of the mutants of each module."""
    rows = []
    for path in sorted((copy / "mutants").rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        found = Counter(_OUTCOMES.get(code, "not_tested") for code in codes)
        kinds = {kind: found[kind] for kind in ("killed", "timed_out", "survived", "not_tested")}
        rows.append({"module": path.name.removesuffix(".py.meta"), "mutants": len(codes)} | kinds)
    return rows


def _hunt(tables: Tables) -> str:
    if "hunt" not in tables:
        return ""
    heads = ["tests", "cases", "faults", "failed"]
    table = tables["hunt"]
    rows = [[f"`{r['file']}`", *(f"{int(r[h]):,}" for h in heads)] for r in records(table)]
    rows.append(["**together**", *(f"**{int(table[h].sum()):,}**" for h in heads)])
    return f"{_HUNT}\n\n{grid(['file', *heads], rows)}"


def _coverage(tables: Tables) -> str:
    if "coverage" not in tables:
        return ""
    table = tables["coverage"]
    sums = table.sum(numeric_only=True)
    lines = sums["covered_lines"] / sums["num_statements"]
    branches = sums["covered_branches"] / sums["num_branches"]
    together = (sums["covered_lines"] + sums["covered_branches"]) / (sums["num_statements"] + sums["num_branches"])
    most = table.nlargest(12, "missed") if "missed" in table else table[:0]
    missed = ", ".join(f"`{row['module']}` ({int(row['missed'])})" for _, row in most.iterrows() if row["missed"] > 0)
    return _COVERAGE.format(
        lines=lines, statements=int(sums["num_statements"]), branches=branches, n_branches=int(sums["num_branches"]),
        together=together, missed=missed or "nothing",
    )  # fmt: skip


def _suites(tables: Tables) -> str:
    if "suite" not in tables:
        return ""
    suites = records(tables["suite"])
    versions = ("system", "python", "numpy", "scipy", "scikit-learn", "numba", "pandas")
    rows = [[name, *(str(suite.get(name, "-")) for suite in suites)] for name in versions]
    rows += [[name, *(f"{int(suite[name]):,}" for suite in suites)] for name in _COUNTS]
    given = [f"*{suite['label']}*: `pytest {suite['arguments']}`." for suite in suites if "arguments" in suite]
    return "\n\n".join([_SUITES, grid(["", *(suite["label"] for suite in suites)], rows), *given])


def _mutants(tables: Tables) -> str:
    if "mutants" not in tables:
        return ""
    table = tables["mutants"].fillna(0)
    heads = [h for h in ("mutants", "killed", "timed_out", "survived", "equivalent", "tolerated") if h in table]

    def line(name: str, row: Any) -> list[str]:
        noticed, equivalent = row["killed"] + row["timed_out"], row.get("equivalent", 0)
        score = noticed / max(1, row["mutants"] - equivalent)
        return [name, *(f"{int(row[h]):,}" for h in heads), f"{noticed / max(1, row['mutants']):.1%}", f"{score:.1%}"]

    rows = [line(f"`{row['module']}`", row) for _, row in table.iterrows()]
    rows.append(line("**together**", table.sum(numeric_only=True)))
    titles = [head.replace("_", " ") for head in heads]
    return f"{_MUTANTS}\n\n{grid(['module', *titles, 'noticed', 'score'], rows)}"


_INTRODUCTION = """
What was done to break heatsketch, what the tests reach, and whether they notice faults. `make test-slow` runs the tests
that try to break it; `make hunt` runs them with more cases.
"""
_HUNT = """
Every run of these tests tries some cases, the same each time. A hunt tries 20 times as many, others each time. A case
is an input; it passes if the result is finite and agrees with an independent one, or if the error names the problem. A
fault is an interrupt, a kill, a full disk, a memory limit, a damaged file or a second writer.
""".strip()
_COVERAGE = """
{lines:.1%} of {statements:,} statements and {branches:.1%} of {n_branches:,} branches, {together:.1%} together
(`make coverage`). Code compiled by Numba and Triton cannot be traced and is not counted; its tests compare it with
plain NumPy. Most of what is not reached: {missed}.
""".strip()
_SUITES = """
All tests in other environments; "oldest versions" are the oldest that `pyproject.toml` allows. Skipped
tests need something that an environment lacks, mostly a GPU. Arguments of pytest are listed where there were any.
""".strip()
_MUTANTS = """
`make mutants` changes one operator, number or comparison of the core at a time and runs the tests that reach it. Of the
survivors, *equivalent* mutants compute the same and *tolerated* ones differ in something that is not promised, such as
speed; [mutants.json](mutants.json) lists the survivors of the recorded run with the reasons. The score is the share
noticed of those that are not equivalent. Texts of errors and compiled functions are not mutated.
""".strip()

STUDY = Study(
    "trust",
    "Hard to break",
    _INTRODUCTION,
    (Hunt("hunt"), Coverage("coverage"), Suite("suite"), Mutants("mutants")),
    sections={
        "Cases tried and faults injected": _hunt,
        "What the tests reach": _coverage,
        "Versions": _suites,
        "Mutants": _mutants,
    },
)

if __name__ == "__main__":
    main(STUDY)
