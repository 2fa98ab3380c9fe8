"""Test the tests: more cases, coverage, other versions and mutants: ``python -m benchmarks.trust NAME``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

from heatsketch_paper.harness.experiment import Case, Experiment, Row
from heatsketch_paper.harness.store import machine
from heatsketch_paper.harness.study import Study, Tables, frame_table, main, section

ROOT = Path(__file__).resolve().parents[1]
# One BLAS thread for each of the two test processes.
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
_PYTEST = ("-m", "pytest", "--quiet", "--numprocesses=2", "--dist=worksteal")
_COUNTS = ("passed", "failed", "skipped")
_VERSIONS = ("system", "python", "numpy", "scipy", "scikit-learn", "pandas")


def run_tests(arguments: Sequence[str], **variables: str) -> tuple[str, ElementTree.Element]:
    """Output and JUnit report of a run of pytest. Failing tests are results; other failures raise."""
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


def _failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def by_file(output: str, report: ElementTree.Element) -> list[Row]:
    """Numbers of tests by file, with the cases that Hypothesis tried, and the cases and faults that tests recorded."""
    rows: dict[str, Row] = {}
    for case in report.iter("testcase"):
        name = next((part for part in case.get("classname", "").split(".") if part.startswith("test_")), "")
        row = rows.setdefault(name, {"file": name, "tests": 0, "failed": 0, "cases": 0, "faults": 0})
        row["tests"] += case.find("skipped") is None
        row["failed"] += _failed(case)
        for recorded in case.iter("property"):
            if recorded.get("name") in ("cases", "faults"):
                row[str(recorded.get("name"))] += int(recorded.get("value", 0))
    # The statistics of Hypothesis have the name of a test, followed by its cases.
    for file, tried in re.findall(r"(\w+)\.py::(?:(?!\.py::)[\s\S])*?(\d+) passing", output):
        if file in rows:
            rows[file]["cases"] += int(tried)
    return list(rows.values())


def counts(report: ElementTree.Element) -> Row:
    """Numbers of passed, failed and skipped tests."""
    cases = list(report.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failed = sum(map(_failed, cases))
    return {"passed": len(cases) - skipped - failed, "failed": failed, "skipped": skipped}


@dataclass(frozen=True)
class Hunt(Experiment):
    """Run the tests that try to break the library with more random cases than usual, new ones in each run."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("pandas", "hypothesis", "mutmut", "pytest")
    times: int = 20
    files: tuple[str, ...] = ("tests/slow",)

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """One row for each file of tests."""
        arguments = [*_PYTEST, "--hypothesis-show-statistics", *self.files]
        return by_file(*run_tests(arguments, HEATSKETCH_HUNT=str(self.times)))


@dataclass(frozen=True)
class Coverage(Experiment):
    """Count the statements and branches that the tests reach, by module."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = Hunt.libraries
    files: tuple[str, ...] = ()
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "files")

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """One row for each module."""
        with tempfile.TemporaryDirectory() as place:
            data, report = f"--data-file={place}/data", f"{place}/report.json"
            run_tests(["-m", "coverage", "run", data, *_PYTEST, *self.files])
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
    """Run all tests in the environment of this interpreter; ``--set label=oldest`` gives it a name."""

    keys: ClassVar[tuple[str, ...]] = ("trial", "label")
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "label", "files")
    libraries: ClassVar[tuple[str, ...]] = Hunt.libraries
    label: str = "here"
    files: tuple[str, ...] = ()

    def cases(self) -> list[Case]:
        """One case, for the environment."""
        return [{"trial": 0, "label": self.label}]

    def measure(self, case: Case, done: Sequence[Row] = ()) -> list[Row]:  # noqa: ARG002
        """Numbers of tests, and versions of packages."""
        about = machine(self.libraries)
        return [counts(run_tests([*_PYTEST, *self.files])[1]) | {k: about[k] for k in _VERSIONS if k in about}]


# Exit codes of the tests of a mutant, as mutmut records them; negative codes are signals.
_OUTCOMES = {
    **dict.fromkeys((1, 3, -11), "killed"),
    **dict.fromkeys((24, -24, 36, 152, 255, -9), "timed_out"),
    **dict.fromkeys((0, 33), "survived"),
}


@dataclass(frozen=True)
class Mutants(Experiment):
    """Test whether the tests detect faults that mutmut puts into the core, one at a time.

    The faults are put into a copy of the working tree under ``out/mutants``. ``[tool.mutmut]`` in pyproject.toml lists
    the modules and the tests. `only` restricts a run to mutants that match mutmut's patterns. mutmut keeps its results
    in the copy, and later tests only functions that have changed.
    """

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = Hunt.libraries
    free: ClassVar[tuple[str, ...]] = (*Experiment.free, "only")
    processes: int = 1
    only: tuple[str, ...] = ()

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
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(self.processes), *self.only]
        subprocess.run(command, cwd=copy, env=os.environ | _QUIET | {"OMP_NUM_THREADS": "1"}, check=True)
        return outcomes(copy)


def outcomes(copy: Path) -> list[Row]:
    """Outcomes of the mutants of each module."""
    rows = []
    for path in sorted((copy / "mutants").rglob("*.py.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        found = Counter(_OUTCOMES.get(code, "not_tested") for code in codes)
        kinds = {kind: found[kind] for kind in ("killed", "timed_out", "survived", "not_tested")}
        rows.append({"module": path.name.removesuffix(".py.meta"), "mutants": len(codes)} | kinds)
    return rows


_INTRODUCTION = """
This page is for engineers who run heatsketch unattended, and for reviewers of its code. It says what was tried to break
heatsketch, and what came out. [Unattended jobs](../guide/jobs.md) lists what a job can rely on.

**What was tried:** hostile points, tables, graphs and files; commands that were killed or interrupted while they
computed or wrote; full disks, directories that cannot be written to, limits on memory; two processes that write the
same file; many fits at once, in threads and processes.

**What came out:** all tests passed in the recorded run. Results were finite and agreed with independent ones, or an
error named the problem. Every file was complete, or held what it had held before. An estimator whose fit had failed was
unchanged. Fits side by side gave the same bits as one after another.

**The tables below are from earlier code**, recorded by 17 November 2026, when Numba compiled the loops that are C code
today. Many modules and tests have been moved, merged or removed since, so that some names no longer exist. For example,
most tests of hostile input are now in `tests/slow/test_hostile_input.py`, and the module `draws` is part of `sketch`.
Tests of today's code cover hostile and damaged input, interrupted fits, killed commands and Dask workers, and many fits
at once. They simulate a full disk and too little memory. Most tests of faults at random moments have been removed.

The page also shows how much of the code the tests reach, and whether they detect faults in the code. `make hunt`, `make
coverage` and `make mutants` record its tables again; mutants take about two hours. `make test-slow` runs the tests that
try to break the library.
"""
_HUNT = """
What the tests that try to break the library tried, with 20 times as many cases as usual. A case is an input. It passes
if the result is finite and agrees with an independent one, or if the error names the problem. In the recorded run, a
fault was an interrupt, a kill, a full disk, a memory limit, a damaged file or a second writer. `make test-slow` tries
the same cases in every run; `make hunt` tries 20 times as many, and new ones each time.
"""
_COVERAGE = """
The share of statements and branches that the tests reach, by `make coverage`. Compiled code cannot be traced and is not
counted: the programs for GPUs, and the loops (by Numba in the recorded run, in C today). Tests compare it with plain
NumPy.
"""
_SUITES = """
Results of all tests in other environments. "Oldest versions" are the oldest that `pyproject.toml` allowed
(`make test-oldest`). Skipped tests need something that the environment lacks, mostly a GPU. Arguments of pytest are
listed below the table. The versions of Numba, which was needed then, are in [suite.csv](tables/suite.csv).
"""
_MUTANTS = """
`make mutants` changes one operator, number or comparison of the core at a time, and runs the tests that reach it. A
mutant is detected if a test fails (*killed*) or takes too long (*timed out*). Of the survivors, *equivalent* mutants
compute the same, and *tolerated* ones change something that is not promised, such as speed.
[mutants.json](mutants.json) lists the survivors of the recorded run with reasons. The score is the share of detected
mutants among those that are not equivalent. Messages of errors and compiled code are not mutated.
"""


@section(["hunt"], _HUNT)
def _hunt(tables: Tables) -> str:
    heads = ["tests", "cases", "faults", "failed"]
    table = tables["hunt"].set_index("file")[heads].rename(index="`{}`".format)
    table.loc["**together**"] = table.sum()
    return frame_table(table.reset_index(), dict.fromkeys(heads, ","))


@section(["coverage"], _COVERAGE)
def _coverage(tables: Tables) -> str:
    table = tables["coverage"]
    sums = table.sum(numeric_only=True)
    statements, branches = int(sums["num_statements"]), int(sums["num_branches"])
    covered = sums["covered_lines"] + sums["covered_branches"]
    most = table[table["missed"] > 0].nlargest(12, "missed")
    missed = ", ".join(f"`{row.module}` ({int(row.missed)})" for row in most.itertuples())
    return (
        f"Reached: {sums['covered_lines'] / statements:.1%} of {statements:,} statements and "
        f"{sums['covered_branches'] / branches:.1%} of {branches:,} branches, {covered / (statements + branches):.1%} "
        f"together. Modules with the most statements and branches that are not reached: {missed or 'none'}."
    )


@section(["suite"], _SUITES)
def _suites(tables: Tables) -> str:
    suites = tables["suite"].set_index("label")
    shown = suites[list(_VERSIONS)].fillna("-").join(suites[list(_COUNTS)].map("{:,}".format))
    table = frame_table(shown.T.rename_axis("").reset_index())
    arguments = suites["arguments"].dropna() if "arguments" in suites else {}
    return "\n\n".join([table, *(f"*{label}*: `pytest {given}`." for label, given in arguments.items())])


@section(["mutants"], _MUTANTS)
def _mutants(tables: Tables) -> str:
    heads = ["mutants", "killed", "timed_out", "survived", "equivalent", "tolerated"]
    table = tables["mutants"].fillna(0).set_index("module").rename(index="`{}`".format)
    table = table[[head for head in heads if head in table]].astype(int)
    table.loc["**together**"] = table.sum()
    detected, equivalent = table["killed"] + table["timed_out"], table.get("equivalent", 0)
    shares = {"detected": detected / table["mutants"], "score": detected / (table["mutants"] - equivalent)}
    shown = table.assign(**shares).reset_index().rename(columns={"timed_out": "timed out"})
    return frame_table(shown, dict.fromkeys(shown.columns[1:], ",") | dict.fromkeys(shares, ".1%"))


def _quick(experiment: Experiment) -> Experiment:
    """Only the tests of one file, and the mutants of one function."""
    one_file: Row = {"files": ("tests/linalg/test_sketch.py",)}
    changes = {"hunt": one_file | {"times": 1}, "mutants": {"only": ("heatsketch.linalg.anderson*",)}}
    return replace(experiment, **changes.get(experiment.name, one_file))


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
    quick=_quick,
)

if __name__ == "__main__":
    main(STUDY)
