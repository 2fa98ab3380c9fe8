"""Command line: mutate a copy of the working tree, and write what became of the mutants."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .results import report
from .run import prepare, run

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "out" / "mutants"
RESULTS = ROOT / "docs" / "trust" / "mutants.json"


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code, which is 1 where a mutant was not tested, or survives without an explanation."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    found.add_argument("-o", "--output", type=Path, default=RESULTS, metavar="FILE")
    found.add_argument("--copy", type=Path, default=COPY, metavar="DIR", help="where the copy is, kept between runs")
    found.add_argument("--processes", type=int, default=1)
    found.add_argument("--survivors", action="store_true", help="test only mutants again that survived the last run")
    found.add_argument("--results", action="store_true", help="test nothing, only write the results again")
    options = found.parse_args(arguments)
    prepare(ROOT, options.copy)
    if not options.results:
        run(options.copy, options.processes)
        if options.survivors:
            run(options.copy, options.processes, survivors=True)
    results = report(options.copy)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    total = results["total"]
    print(f"{total['mutants']} mutants: {total['noticed']} noticed, {total['explained']} explained, ", end="")
    print(f"{total['unexplained']} neither, {total['not_tested']} not tested. Wrote {options.output}.")
    return 1 if total["unexplained"] or total["not_tested"] else 0


if __name__ == "__main__":
    sys.exit(main())
