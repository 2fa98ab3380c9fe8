"""What became of the mutants: counts for each module, and every survivor with its explanation."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..scale.machine import described
from .outcomes import Mutant, change, mutants

__all__ = ["explanations", "report"]

EXPLAINED = Path(__file__).with_name("explained.toml")
_LIBRARIES = ("mutmut", "pytest", "hypothesis", "numpy", "scipy", "scikit-learn", "numba")
_HOW = (
    "A mutant was tested with the tests that reach its function, until one failed. It was tested again where its "
    "function changed, or where it had survived and tests were added."
)
_LEFT_OUT = [
    "Constants of modules, properties and most decorated functions: mutmut changes what plain functions and methods do.",
    "Words: texts of errors and warnings, by the patterns in pyproject.toml.",
    "heatsketch.compiled: Numba compiles these functions and would not see mutants of them.",
]

Key = tuple[str, tuple[str, ...], tuple[str, ...]]


def explanations() -> dict[Key, dict[str, str]]:
    """Mutants that are let live, by function, lines that went and lines that came."""
    found = {}
    for entry in tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["explained"]:
        for came in entry["to"]:
            key = entry["function"], _lines(entry["from"]), _lines(came)
            found[key] = {"kind": entry["kind"], "why": entry["why"]}
    return found


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


def report(copy: Path) -> dict[str, Any]:
    """All that is written down."""
    known = explanations()
    all_mutants = list(mutants(copy))
    survivors = [_survivor(copy, m, known) for m in all_mutants if m.outcome == "survived"]
    modules = sorted({m.module for m in all_mutants})
    config = tomllib.loads((copy / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    return {
        "command": "python -m benchmarks.mutants",
        "machine": described(_LIBRARIES),
        "how": _HOW,
        "tests": config["pytest_add_cli_args_test_selection"],
        "left_out": _LEFT_OUT,
        "total": _counts(all_mutants, survivors),
        "modules": {
            name: _counts([m for m in all_mutants if m.module == name], [s for s in survivors if s["module"] == name])
            for name in modules
        },
        "survivors": survivors,
    }


def _survivor(copy: Path, mutant: Mutant, known: dict[Key, dict[str, str]]) -> dict[str, Any]:
    went, came = change(copy, mutant)
    why = known.get((f"{mutant.module}.{mutant.function}", tuple(went), tuple(came)), {"kind": "unexplained"})
    return {"module": mutant.module, "function": mutant.function, "went": went, "came": came, **why}


def _counts(all_mutants: Iterable[Mutant], survivors: list[dict[str, Any]]) -> dict[str, Any]:
    """Killed and timed out mutants are noticed; the score is their share of those that are not equivalent."""
    outcomes = Counter(m.outcome for m in all_mutants)
    kinds = Counter(s["kind"] for s in survivors)
    noticed = outcomes["killed"] + outcomes["timed out"]
    tested = noticed + outcomes["survived"]
    return {
        "mutants": outcomes.total(),
        "noticed": noticed,
        **{
            outcome.replace(" ", "_"): outcomes[outcome]
            for outcome in ("killed", "timed out", "survived", "not tested")
        },
        "explained": outcomes["survived"] - kinds["unexplained"],
        "equivalent": kinds["equivalent"],
        "tolerated": kinds["tolerated"],
        "unexplained": kinds["unexplained"],
        "score": round(noticed / max(1, tested), 4),
        "score_without_equivalent": round(noticed / max(1, tested - kinds["equivalent"]), 4),
    }
