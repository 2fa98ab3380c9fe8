"""The page, from the committed results, findings and promises and nothing else."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ..pages import grid
from .runs import HUNTED

__all__ = ["FOUND", "MUTANTS", "PROMISES", "page"]

_HERE = Path(__file__).resolve().parent
PROMISES, FOUND = _HERE / "promises.toml", _HERE / "found.toml"
MUTANTS = _HERE.parents[1] / "docs" / "trust" / "mutants.json"

Row = dict[str, Any]

_HEAD = """# Hard to break

What heatsketch promises to those who run it unattended on data that nobody has looked at, how each promise is tested,
what was tried to break it, and what broke. Everything here is written by `python -m benchmarks.trust` from
[results.json](results.json), [mutants.json](mutants.json) and the lists beside its code.
"""

_CASES = """## Cases tried and faults injected

Every run of the tests tries some cases, the same each time. A hunt, `make hunt`, tries {times} times as many, others
each time. A case is an input, often of several estimators; it passes where the result is finite and agrees with an
independent one, or the refusal is one sentence that says what to do. A fault is an interrupt, a kill, a full disk, a
limit of memory, a damaged file or another writer.
"""

_COVERAGE = """## What the tests reach

`make coverage` traces all tests, those in processes of their own too, but the interrupts, which the tracer itself does
not survive: {lines:.1%} of {statements:,} statements and {branches:.1%} of {n_branches:,} branches of the package,
{together:.1%} together. Code that Numba and Triton compile cannot be traced, and is not counted; its tests compare it
with plain NumPy. `tests/benchmarks/test_trust.py` sees to it that no test only executes: each asserts, or calls what
does.

Most of what is not reached: {missed}.

{machine}
"""

_SUITES = """## Versions and machines

All tests, in environments of their own; `make test-oldest` installs the oldest versions that `pyproject.toml` allows.
Skipped are tests of what an environment lacks, a GPU first of all. [What is assumed of a machine](../install.md) stands
with the installation. Where pytest was given arguments, they are told.
"""

_MUTANTS = """## Mutants

`make mutants` changes the code of normalisation, sketches, diffusion and distances in one place at a time, an operator,
a number, a comparison, and runs the tests that reach it: a change that no test notices is a promise that no test holds.
Those that survive are listed in [mutants.json](mutants.json): *equivalent* ones compute the same, *tolerated* ones
differ in what is not promised, such as speed; each with the reason. Others would be open. The score is the share that
was noticed of those that are not equivalent.
"""


def page(results: Row) -> str:
    """The whole page in Markdown."""
    parts = [_HEAD, _promises(tomllib.loads(PROMISES.read_text(encoding="utf-8"))["promise"])]
    if "hunt" in results:
        parts.append(_hunt(results["hunt"]))
    parts.append(_found(tomllib.loads(FOUND.read_text(encoding="utf-8"))["found"]))
    if MUTANTS.exists():
        parts.append(_mutants(json.loads(MUTANTS.read_text(encoding="utf-8"))))
    if "coverage" in results:
        parts.append(_coverage(results["coverage"]))
    if "suites" in results:
        parts.append(_suites(results["suites"]))
    return "\n".join(parts)


def _promises(promises: list[Row]) -> str:
    told = []
    for one in promises:
        tests = ", ".join(f"`{test}`" for test in one["tests"])
        told += [f"- **{one['said']}** {one.get('but', '')}".rstrip(), f"  Tests: {tests}."]
    return "\n".join(["## Promises", "", *told, ""])


def _hunt(found: Row) -> str:
    rows = [
        [what, f"{row['tests']:,}", f"{row['cases']:,}", f"{row['faults']:,}", f"{row['failed']:,}"]
        for what, row in ((HUNTED[name], row) for name, row in found["files"].items())
    ]
    sums = [sum(row[name] for row in found["files"].values()) for name in ("tests", "cases", "faults", "failed")]
    rows.append(["**together**", *(f"**{n:,}**" for n in sums)])
    table = grid(["what", "tests", "cases", "faults", "broke"], rows)
    return f"{_CASES.format(times=found['times'])}\n{table}\n\n{_machine(found['machine'])}\n"


def _found(found: list[Row]) -> str:
    rows = [[one["what"], one["mended"]] for one in found]
    return f"## What was found, and mended\n\n{grid(['what broke', 'what it does now'], rows)}\n"


def _mutants(found: Row) -> str:
    heads = ("mutants", "killed", "timed_out", "equivalent", "tolerated", "unexplained")
    counts = {f"`{name}`": row for name, row in found["modules"].items()} | {"**together**": found["total"]}
    rows = [
        [name, *(f"{row[head]:,}" for head in heads), f"{row['score']:.1%}", f"{row['score_without_equivalent']:.1%}"]
        for name, row in counts.items()
    ]
    titles = [head.replace("_", " ") for head in heads[:-1]]
    table = grid(["module", *titles, "open", "noticed", "score"], rows)
    left = "\n".join(f"- {line}" for line in found["left_out"])
    return f"{_MUTANTS}\n{table}\n\n{found['how']} Left out:\n\n{left}\n"


def _coverage(found: Row) -> str:
    reached = found["covered_lines"] + found["covered_branches"]
    missed = ", ".join(f"`{name}` ({n})" for name, n in found["missed"].items())
    return _COVERAGE.format(
        lines=found["covered_lines"] / found["num_statements"],
        statements=found["num_statements"],
        branches=found["covered_branches"] / found["num_branches"],
        n_branches=found["num_branches"],
        together=reached / (found["num_statements"] + found["num_branches"]),
        missed=missed or "nothing",
        machine=_machine(found["machine"]),
    )


def _suites(suites: dict[str, Row]) -> str:
    names = ("python", "numpy", "scipy", "scikit-learn", "numba", "pandas")
    rows = [["system", *(row["machine"]["system"] for row in suites.values())]]
    rows += [[library, *(row["machine"]["versions"].get(library, "-") for row in suites.values())] for library in names]
    rows += [[count, *(f"{row[count]:,}" for row in suites.values())] for count in ("passed", "failed", "skipped")]
    given = {name: " ".join(row["arguments"]).replace("\n", r"\n") for name, row in suites.items() if row["arguments"]}
    part = [f"*{name}*: `pytest {arguments}`." for name, arguments in given.items()]
    table = grid(["", *suites], rows)
    return "\n\n".join([f"{_SUITES}\n{table}", *part]) + "\n"


def _machine(machine: Row) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['system']}. {versions}."
