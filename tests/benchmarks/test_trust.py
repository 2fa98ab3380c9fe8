"""The tests themselves: none only executes, and the page that tells of them is true to what was recorded."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.trust import page, runs  # noqa: E402

DOCS = ROOT / "docs" / "trust"
# What fails by itself where something is wrong: scikit-learn's checks, and a browser that waits in vain.
_CHECKS = {"raises", "warns", "fail", "check_estimator", "wait_for_function"}


def _functions():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield path.stem, node


def _is_test(function: ast.FunctionDef) -> bool:
    return function.name.startswith("test_")


def _checks(function: ast.FunctionDef, checking: set[str]) -> bool:
    """Whether a function asserts, or calls what does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name.startswith("assert_") or name in checking:
                return True
    return False


def _imported(file: str) -> set[str]:
    """Names of the modules that a file of tests imports from."""
    (path,) = (ROOT / "tests").rglob(f"{file}.py")
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    whole = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return whole | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_test_only_executes():
    functions = list(_functions())
    files = {file for file, _ in functions}
    seen = {file: {file} | _imported(file) for file in files}  # helpers of other files may have the name of anything
    checking, before = set(), -1
    while len(checking) > before:  # helpers that call helpers that assert
        before = len(checking)
        known = {file: _CHECKS | {name for home, name in checking if home in seen[file]} for file in seen}
        checking |= {(file, f.name) for file, f in functions if not _is_test(f) and _checks(f, known[file])}
    tests = [(file, f) for file, f in functions if _is_test(f)]
    assert len(tests) > 1000
    assert [f"{file}::{f.name}" for file, f in tests if not _checks(f, known[file])] == []


def test_a_test_that_only_executes_would_be_seen():
    idle, busy = ast.parse("def test_a(): f(1)\ndef test_b(): f(2); assert g").body
    assert not _checks(idle, set(_CHECKS))
    assert _checks(idle, {"f"})
    assert _checks(busy, set(_CHECKS))


def test_what_tests_a_promise_is_there():
    named = {f"{file}::{function.name}" for file, function in _functions()} | {file for file, _ in _functions()}
    promises = tomllib.loads(page.PROMISES.read_text(encoding="utf-8"))["promise"]
    assert all(one["tests"] for one in promises)
    assert [test for one in promises for test in one["tests"] if test not in named] == []


@pytest.fixture(scope="module")
def results():
    return json.loads((DOCS / "results.json").read_text(encoding="utf-8"))


def test_the_page_is_of_the_committed_results(results):
    assert page.page(results) == (DOCS / "index.md").read_text(encoding="utf-8")


def test_the_readme_tells_of_the_committed_hunt(results):
    told = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    files = results["hunt"]["files"].values()
    cases, faults = (sum(row[name] for row in files) for name in ("cases", "faults"))
    assert f"A hunt through {cases:,} hostile inputs and {faults:,} faults" in told


def test_what_was_recorded_keeps_what_is_promised(results):
    reached, hunted, suites = results["coverage"], results["hunt"], results["suites"]
    assert reached["covered_lines"] >= 0.95 * reached["num_statements"]
    assert reached["covered_branches"] >= 0.95 * reached["num_branches"]
    assert hunted["times"] >= 20
    assert set(hunted["files"]) == set(runs.HUNTED)
    assert suites.keys() >= {"oldest versions", "Python 3.14", "with a GPU"}
    recorded = {"traced": reached} | hunted["files"] | suites
    assert [name for name, run in recorded.items() if run["failed"]] == []


def test_cases_and_faults_are_counted():
    said = (
        "tests/test_fuzz.py::test_a:\n  - reuse\n    - 3 passing, 0 failing, and 1 invalid test cases\n"
        "    - 40 passing, 0 failing, and 0 invalid test cases\ntests/test_fuzz.py::test_b:\n"
        "    - 5 passing examples, 0 failing examples\ntests/test_properties.py::test_c:\n    - 7 passing examples\n"
    )
    assert runs.cases_of(said) == {"test_fuzz": 48, "test_properties": 7}
    report = ElementTree.fromstring(
        '<s><testcase classname="tests.test_faults" time="1.25"><properties><property name="faults" value="20"/>'
        '</properties></testcase><testcase classname="tests.test_faults.TestA" time="2"><failure/></testcase>'
        '<testcase classname="tests.test_faults" time="0"><skipped/></testcase></s>'
    )
    expected = {"tests": 2, "failed": 1, "cases": 0, "faults": 20, "seconds": 3.2}
    assert runs.tally(report) == {"test_faults": expected}
