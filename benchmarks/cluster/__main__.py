"""Command line: measure, and write the results and the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cluster"
_LIBRARIES = ("heatsketch", "numpy", "scipy", "scikit-learn", "numba", "dask", "distributed")


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    from ..scale.machine import described  # noqa: PLC0415
    from .page import page  # noqa: PLC0415
    from .runs import SECTIONS  # noqa: PLC0415

    found = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    found.add_argument("-o", "--output", type=Path, default=DOCS, metavar="DIR")
    found.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    options = found.parse_args(arguments)
    path = options.output / "results.json"
    options.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not options.page:
        for name in options.only or SECTIONS:
            start = time.perf_counter()
            rows = SECTIONS[name](options.quick)
            results.setdefault("sections", {})[name] = rows
            results |= {
                "command": "python -m benchmarks.cluster" + " --quick" * options.quick,
                "machine": described(_LIBRARIES),
            }
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {len(rows)} rows, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    (options.output / "index.md").write_text(page(results), encoding="utf-8")
    print(f"Wrote {options.output / 'index.md'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
