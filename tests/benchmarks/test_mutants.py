"""Mutation testing: mutants are read and explained as they should be, and what is written down is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.mutants import results  # noqa: E402
from benchmarks.mutants.outcomes import change, mutants  # noqa: E402
from benchmarks.mutants.run import prepare  # noqa: E402

MUTATED = """
def x_f__mutmut_orig(a, b=1):
    return a + b
def x_f__mutmut_1(a, b=2):
    return a + b
def x_f__mutmut_2(a, b=1):
    return a - b
class C:
    def xǁCǁg__mutmut_orig(self):
        return True
    def xǁCǁg__mutmut_1(self):
        return False
    def xǁCǁg__mutmut_2(self):
        return None
"""
EXPLAINED = """
[[explained]]
function = "toy.f"
kind = "equivalent"
from = "return a + b"
to = ["return a - b", "return a * b"]
why = "b is 0."
"""


@pytest.fixture
def copy(tmp_path, monkeypatch):
    place = tmp_path / "mutants" / "src" / "heatsketch"
    place.mkdir(parents=True)
    (place / "toy.py").write_text(MUTATED)
    codes = {"x_f__mutmut_1": 1, "x_f__mutmut_2": 0, "xǁCǁg__mutmut_1": -24, "xǁCǁg__mutmut_2": 33}
    meta = {"exit_code_by_key": {f"heatsketch.toy.{name}": code for name, code in codes.items()}}
    (place / "toy.py.meta").write_text(json.dumps(meta))
    (tmp_path / "explained.toml").write_text(EXPLAINED)
    (tmp_path / "pyproject.toml").write_text('[tool.mutmut]\npytest_add_cli_args_test_selection = ["tests/t.py"]\n')
    monkeypatch.setattr(results, "EXPLAINED", tmp_path / "explained.toml")
    return tmp_path


def test_mutants_are_read_with_what_they_change(copy):
    found = list(mutants(copy))
    assert [(m.module, m.function, m.outcome) for m in found] == [
        ("toy", "f", "killed"),
        ("toy", "f", "survived"),
        ("toy", "C.g", "timed out"),
        ("toy", "C.g", "survived"),
    ]
    assert change(copy, found[0]) == (
        ["def x_f__mutmut_orig(a, b=1):"],
        ["def x_f__mutmut_orig(a, b=2):"],
    )
    assert change(copy, found[2]) == (["return True"], ["return False"])


def test_survivors_are_explained_or_said_to_be_not(copy):
    report = results.report(copy)
    assert report["tests"] == ["tests/t.py"]
    assert report["survivors"] == [
        {
            "module": "toy",
            "function": "f",
            "went": ["return a + b"],
            "came": ["return a - b"],
            "kind": "equivalent",
            "why": "b is 0.",
        },
        {"module": "toy", "function": "C.g", "went": ["return True"], "came": ["return None"], "kind": "unexplained"},
    ]
    counts = {"mutants": 4, "noticed": 2, "killed": 1, "timed_out": 1, "survived": 2, "not_tested": 0}
    kinds = {"explained": 1, "equivalent": 1, "tolerated": 0, "unexplained": 1}
    assert (
        report["total"]
        == report["modules"]["toy"]
        == counts
        | kinds
        | {
            "score": 0.5,
            "score_without_equivalent": 0.6667,
        }
    )


def test_only_what_has_changed_is_copied(tmp_path):
    root, there = tmp_path / "root", tmp_path / "copy"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    (root / "pyproject.toml").write_text('[tool.mutmut]\nonly_mutate = ["src/a.py"]\n')
    for name in ("a", "b"):
        (root / "src" / f"{name}.py").write_text("@quiet_blas()\n1\n")
    prepare(root, there)
    assert (there / "src" / "a.py").read_text() == "1\n"  # mutmut would leave a decorated function alone
    assert (there / "src" / "b.py").read_text() == "@quiet_blas()\n1\n"
    for name in ("a", "b"):
        os.utime(there / "src" / f"{name}.py", (1, 1))
    (root / "src" / "a.py").write_text("2")
    (there / "src" / "gone.py").write_text("")
    (root / "notes.md").write_text("not needed")
    prepare(root, there)
    assert (there / "src" / "a.py").read_text() == "2"
    assert (there / "src" / "b.py").stat().st_mtime == 1
    assert sorted(path.name for path in there.rglob("*.*")) == ["a.py", "b.py", "pyproject.toml"]


def test_explanations_are_of_lines_that_are_there():
    for function, went, came in results.explanations():
        source = (ROOT / "src" / "heatsketch" / f"{function.partition('.')[0]}.py").read_text()
        lines = [line.strip() for line in source.splitlines()]
        assert all(line in lines for line in went), f"{function} has no line {went}"
        assert came != went


def test_what_is_written_down_is_whole():
    found = json.loads((ROOT / "docs" / "trust" / "mutants.json").read_text())
    total, modules = found["total"], found["modules"].values()
    for name in ("mutants", "noticed", "killed", "timed_out", "survived", "explained", "equivalent", "unexplained"):
        assert total[name] == sum(module[name] for module in modules)
    assert total["mutants"] == sum(total[name] for name in ("killed", "timed_out", "survived", "not_tested"))
    assert len(found["survivors"]) == total["survived"]
    # Every survivor is explained, and every explanation is of one.
    told = {(f"{s['module']}.{s['function']}", tuple(s["went"]), tuple(s["came"])): s for s in found["survivors"]}
    known = results.explanations()
    assert told.keys() == known.keys()
    assert all(told[key]["why"] == known[key]["why"] for key in known)
    assert total["score_without_equivalent"] > 0.99
