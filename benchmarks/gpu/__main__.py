"""Command line: measure, and write the results and the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .sections import SECTIONS, apart, here

DOCS = Path(__file__).resolve().parents[2] / "docs" / "gpu"
Row = dict[str, Any]
# Seconds for the whole run: sections that are not begun by then are left out, and recorded as such.
_LIMIT = 465.0


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    found.add_argument("-o", "--output", type=Path, default=DOCS, metavar="DIR")
    found.add_argument("--device", default="cuda", help="cuda, cuda:1, or torch-cpu")
    found.add_argument("--quick", action="store_true", help="small sizes, all in this process")
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    found.add_argument("--limit", type=float, default=_LIMIT, metavar="S", help="seconds for the whole run")
    for name in ("section", "rows", "started"):  # what a process is told that runs a section
        found.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = parser().parse_args(arguments)
    if options.section:
        return _section(options)
    path = options.output / "results.json"
    if not options.page:
        _measure(options, path)
    results = json.loads(path.read_text(encoding="utf-8"))
    from .page import page  # noqa: PLC0415

    _write(options.output / "index.md", page(results))
    failed = [row for row in results["rows"] if "failed" in row]
    print(f"Wrote {options.output / 'index.md'}: {len(results['rows'])} rows, {len(failed)} of them failed.")
    return 0


def _measure(options: argparse.Namespace, path: Path) -> None:
    """Section after section, written as soon as it is there."""
    from heatsketch._utils.registry import find_device  # noqa: PLC0415

    from .machine import describe  # noqa: PLC0415

    device = find_device(options.device)
    if device is None:
        sys.exit("--device cpu is NumPy, which is not what is measured here; use cuda or torch-cpu.")
    machine = describe(device)
    before: Row = {}
    if options.only and path.exists():  # the other sections stay as they were, if they are of the same chip
        before = json.loads(path.read_text(encoding="utf-8"))
        before = before if before["machine"]["chip"] == machine["chip"] else {}
    rows = {name: [row for row in before.get("rows", []) if row["section"] == name] for name in SECTIONS}
    took = dict(before.get("seconds", {}))
    end = time.monotonic() + options.limit
    for name in options.only or SECTIONS:
        start = time.monotonic()
        if options.quick:
            rows[name] = here(name, _maker(options, name))
        else:
            rows[name] = apart(name, options.device, end - start)
        took[name] = round(time.monotonic() - start, 1)
        failed = sum("failed" in row for row in rows[name])
        print(f"{name}: {len(rows[name])} rows, {failed} failed, {took[name]} s", file=sys.stderr, flush=True)
        command = "python -m benchmarks.gpu" + " --quick" * options.quick
        found = {"command": command, "machine": machine, "seconds": took, "rows": [r for s in rows.values() for r in s]}
        _write(path, json.dumps(found, indent=1) + "\n")


def _maker(options: argparse.Namespace, section: str) -> Callable[[Callable[[Row], None]], Any]:
    """What makes the bench of a section, given where its rows go."""

    def make(write: Callable[[Row], None]) -> Any:
        from heatsketch._utils.registry import find_device  # noqa: PLC0415

        from .bench import FULL, QUICK, Bench  # noqa: PLC0415

        device = find_device(options.device)
        assert device is not None
        started = float(options.started) if options.started else None
        return Bench(device, QUICK if options.quick else FULL, section, write, started)

    return make


def _section(options: argparse.Namespace) -> int:
    """One section, in the process that was made for it."""
    with Path(options.rows).open("a", encoding="utf-8") as out:

        def write(row: Row) -> None:
            out.write(json.dumps(row) + "\n")
            out.flush()

        SECTIONS[options.section][0](_maker(options, options.section)(write))
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
