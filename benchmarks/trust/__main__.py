"""Command line: hunt for what breaks, measure what the tests reach, and write the results and the page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..scale.machine import described
from .page import page
from .runs import coverage, hunt, suite

DOCS = Path(__file__).resolve().parents[2] / "docs" / "trust"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "hypothesis")


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=DOCS, metavar="DIR")
    parser.add_argument("--hunt", type=int, metavar="TIMES", help="try so many times as many cases as an ordinary run")
    parser.add_argument("--coverage", action="store_true", help="trace all tests")
    parser.add_argument("--suite", metavar="NAME", help="run all tests here, and record that as NAME, such as 'oldest'")
    parser.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="after --: arguments of pytest, for --suite")
    options = parser.parse_args(arguments)
    path = options.output / "results.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    machine = described(_LIBRARIES)
    if options.hunt:
        results["hunt"] = hunt(options.hunt) | {"times": options.hunt, "machine": machine}
    if options.coverage:
        results["coverage"] = coverage() | {"machine": machine}
    if options.suite:
        results.setdefault("suites", {})[options.suite] = suite(options.pytest) | {"machine": machine}
    options.output.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.output / "index.md").write_text(page(results), encoding="utf-8")
    print(f"Wrote {options.output / 'index.md'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
