"""Mutants as mutmut leaves them on disk: what was changed, and what the tests made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "change", "mutants"]

_SOURCE = Path("src") / "heatsketch"


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
    for path in sorted((copy / "mutants" / _SOURCE).glob("*.py.meta")):
        for name, code in json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].items():
            module, _, function = name.partition("__mutmut_")[0].rpartition(".")
            yield Mutant(name, module.rpartition(".")[2], _readable(function), _outcome(code))


def _readable(function: str) -> str:
    """``f`` from ``x_f``, ``C.f`` from ``xǁCǁf``."""
    return function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def _outcome(code: int | None) -> str:
    """From the exit code of the tests; those that no test runs survive."""
    from mutmut.stats import status_by_exit_code  # noqa: PLC0415

    status = status_by_exit_code[code]
    named = {"timeout": "timed out", "no tests": "survived", "segfault": "killed", "survived": "survived"}
    return "killed" if status == "killed" else named.get(status, "not tested")


def change(copy: Path, mutant: Mutant) -> tuple[list[str], list[str]]:
    """Lines that went and lines that came, without their indentation."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant  # noqa: PLC0415

    with chdir(copy):
        lines = get_diff_for_mutant(mutant.name, path=_SOURCE / f"{mutant.module}.py").splitlines()[2:]
    went, came = ([line[1:].strip() for line in lines if line.startswith(sign)] for sign in "-+")
    return went, came
