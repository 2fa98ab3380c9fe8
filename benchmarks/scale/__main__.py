"""Command line: measure what is not yet there, and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .headline import put_headline
from .launch import ROOT
from .machine import fingerprint, memory_gib, source_digest
from .methods import registry
from .neighbours import SEARCHES
from .page import write_page
from .plan import FULL, PARTS, QUICK, Plan, carry_out
from .results import Results, ResultsError, read
from .tables import Gathered

COMMITTED = ROOT / "docs" / "benchmarks"


def parser() -> argparse.ArgumentParser:
    """The options."""
    names = ", ".join(registry())
    found = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    mode = found.add_mutually_exclusive_group(required=True)
    mode.add_argument("--quick", action="store_true", help="some five minutes on two cores")
    mode.add_argument("--full", action="store_true", help="up to a million points, all peers; hours")
    mode.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--only", action="append", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    found.add_argument("--methods", nargs="+", metavar="NAME", choices=list(registry()), help=f"of {names}")
    found.add_argument(
        "--searches", nargs="+", metavar="NAME", choices=list(SEARCHES), help=f"of {', '.join(SEARCHES)}"
    )
    found.add_argument("--sizes", nargs="+", type=int, metavar="N", help="numbers of points, for every part")
    found.add_argument("--repeats", type=int, help="runs of each embedding that takes less than a minute")
    found.add_argument("--timeout", type=float, metavar="S", help="seconds that each stage of a process may take")
    found.add_argument("--memory", type=float, metavar="GIB", help="memory at which a process is ended")
    found.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="interpreter for a method that needs an environment of its own",
    )
    found.add_argument("-o", "--output", type=Path, default=COMMITTED, metavar="DIR")
    found.add_argument("--cache", type=Path, metavar="DIR", help="for exact distances, by default out/benchmark-cache")
    found.add_argument("--fresh", action="store_true", help="start over")
    found.add_argument("--retry", action="store_true", help="try again what was absent, failed or over a limit")
    return found


def chosen_plan(options: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    plan = QUICK if options.quick else FULL
    pythons = {}
    for pair in options.python:
        name, _, path = pair.partition("=")
        if name not in registry() or not path:
            raise ResultsError(
                f"--python {pair} was given; it takes NAME=PATH with NAME one of {', '.join(registry())}."
            )
        pythons[name] = path
    sizes = tuple(options.sizes or ())
    return replace(
        plan,
        parts=tuple(part for part in PARTS if part in (options.only or plan.parts)),
        methods=tuple(options.methods or plan.methods),
        searches=tuple(options.searches or plan.searches),
        sizes=sizes or plan.sizes,
        dense_sizes=sizes or plan.dense_sizes,
        graph_sizes=sizes or plan.graph_sizes,
        repeats=options.repeats or plan.repeats,
        timeout_s=options.timeout or plan.timeout_s,
        # A fifth is left to the system and to this process.
        memory_gib=options.memory or 0.8 * memory_gib(),
        pythons=pythons,
        cache=options.cache or plan.cache,
        source=source_digest,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = parser().parse_args(arguments)
    path = options.output / "results.jsonl"
    if options.page:
        _write(read(path), options.output)
        return 0
    try:
        plan = chosen_plan(options)
        results = Results(path, fingerprint(), source_digest(), fresh=options.fresh, retry=options.retry)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 2
    if results.dropped:
        print(f"{results.dropped} earlier rows are measured again.", file=sys.stderr)
    command = "python -m benchmarks.scale " + _shown(sys.argv[1:] if arguments is None else arguments)
    limits = {"timeout_s": plan.timeout_s, "memory_gib": plan.memory_gib}
    results.append([{"kind": "run", "command": command, "started": time.strftime("%Y-%m-%d %H:%M %Z"), **limits}])
    try:
        carry_out(plan, results)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        _write(results.rows, options.output)
    return 0


def _write(rows: list[dict[str, Any]], output: Path) -> None:
    """The page, and the figures of the README where the results are those that it speaks of."""
    write_page(rows, output / "index.md")
    if output.resolve() == COMMITTED:
        put_headline(Gathered(rows), ROOT / "README.md")


def _shown(arguments: list[str]) -> str:
    """The options, without the places of files: where these lie says nothing to others."""
    places = {"-o": "DIR", "--output": "DIR", "--cache": "DIR"}
    shown = [places.get(before, a) for before, a in zip(["", *arguments], arguments, strict=False)]
    return shlex.join(f"{a.partition('=')[0]}=PYTHON" if "=" in a and not a.startswith("-") else a for a in shown)


if __name__ == "__main__":
    sys.exit(main())
