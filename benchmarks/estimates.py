"""Compare predictions of ``hs.estimate`` with measured costs: ``python -m benchmarks.estimates``.

This writes the table in docs/scale.md. Each case runs in its own process, after a small fit of the same kind.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import heatsketch as hs
from heatsketch._utils.memory import size_in_words

from .data import DATA, make

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
MARKS = "<!-- costs -->\n", "<!-- end of costs -->"
METHODS = {
    "heatsketch": (hs.HeatSketch, 2),
    "gaussian-process": (hs.GaussianProcessEmbedding, 32),
    "diffusion-maps": (hs.DiffusionMaps, 10),
}
SIZES = (2000, 20_000, 200_000)
HEADER = """| method | data | points | memory predicted | measured | seconds predicted | measured | ratio |
|---|---|---|---|---|---|---|---|
"""


def case(method: str, data: str, n: int, *, page: bool) -> dict[str, float]:
    """Predicted and measured memory and seconds of a fit, or of writing the page of a fitted model."""
    kind, k = METHODS[method]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.html"

        def run(X: Any) -> float:
            model = kind(k).fit(X)
            start = time.perf_counter()
            if page:
                hs.write_report(model, target)
                return time.perf_counter() - start
            kind(k).fit(X)
            return time.perf_counter() - start

        run(make(data, 1000))
        X = make(data, n)
        options: Any = {"method": method, "n_components": k}
        fit, both = hs.estimate(X, **options), hs.estimate(X, page=True, **options)
        before = _peak()
        seconds = run(X)
        return {
            "memory": fit.memory,
            "measured_memory": _peak() - before,
            "seconds": both.seconds - fit.seconds if page else fit.seconds,
            "measured_seconds": seconds,
        }


def _peak() -> int:
    """Peak memory of this process, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def row(method: str, data: str, n: int, *, page: bool) -> str:
    """A line of the table, measured in a new process."""
    call = f"case({method!r}, {data!r}, {n}, page={page})"
    code = f"import json; from benchmarks.estimates import case; print(json.dumps({call}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    found = json.loads(ran.stdout.splitlines()[-1])
    ratio = found["seconds"] / found["measured_seconds"]
    memory = ("", "") if page else (size_in_words(int(found[name])) for name in ("memory", "measured_memory"))
    cells = ["page of heatsketch" if page else method, data, f"{n:,}", *memory]
    return f"| {' | '.join(cells)} | {found['seconds']:.2g} | {found['measured_seconds']:.2g} | {ratio:.2f} |\n"


def main(arguments: list[str] | None = None) -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="only print the table; do not change docs/scale.md")
    only_print = parser.parse_args(arguments).print
    lines = [HEADER]
    for n in SIZES:
        for method, page in [*((name, False) for name in METHODS), ("heatsketch", True)]:
            for data in DATA:
                lines.append(row(method, data, n, page=page))
                print(lines[-1], end="", flush=True)
    if not only_print:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(before + MARKS[0] + "".join(lines) + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
