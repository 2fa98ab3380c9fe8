"""Mutants as mutmut leaves them on disk: what was changed, and what the tests made of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from pathlib import Path

__all__ = ["Mutant", "change", "mutants"]

_SOURCE = Path("mutants") / "src" / "heatsketch"
# By the exit codes of the tests, negative ones of signals; a mutant that no test runs (33) survives.
_OUTCOMES = {
    **dict.fromkeys((1, 3, -11), "killed"),
    **dict.fromkeys((24, -24, 36, 152, 255, -9), "timed out"),
    **dict.fromkeys((0, 33), "survived"),
}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes
    ----------
    name : str
        As mutmut calls it: the module, the function and a number.
    module : str
    function : str
        With its class, if it is a method.
    outcome : {"killed", "timed out", "survived", "not tested"}
    """

    name: str
    module: str
    function: str
    outcome: str


def mutants(copy: Path) -> Iterator[Mutant]:
    """All that were made in a copy of the working tree."""
    for path in sorted((copy / _SOURCE).glob("*.py.meta")):
        for name, code in json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].items():
            module, _, function = name.partition("__mutmut_")[0].rpartition(".")
            yield Mutant(name, module.rpartition(".")[2], _readable(function), _OUTCOMES.get(code, "not tested"))


def _readable(function: str) -> str:
    """``f`` from ``x_f``, ``C.f`` from ``xǁCǁf``."""
    return function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def change(copy: Path, mutant: Mutant) -> tuple[list[str], list[str]]:
    """Lines that went and lines that came, without their indentation."""
    functions = _functions(copy / _SOURCE / f"{mutant.module}.py")
    name = mutant.name.rpartition(".")[2]
    original = name.partition("__mutmut_")[0] + "__mutmut_orig"
    before, after = functions[original], functions[name]
    lines = list(unified_diff(before, [line.replace(name, original) for line in after], n=0, lineterm=""))[2:]
    went, came = ([line[1:] for line in lines if line.startswith(sign)] for sign in "-+")
    return went, came


@cache
def _functions(path: Path) -> dict[str, list[str]]:
    """The lines of every function that mutmut made."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    return {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }
