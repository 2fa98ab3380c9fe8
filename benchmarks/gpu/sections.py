"""What runs, in which order, and each section in a process of its own that a failure cannot leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .bench import ROOT, Bench, in_words

__all__ = ["SECTIONS", "apart", "here"]

Row = dict[str, Any]
_LAST_LINES = 3


def _by_name(module: str, name: str, **options: Any) -> Callable[[Bench], None]:
    """A section that is imported when it runs: time until the first fit is counted from the start of the process."""

    def run(bench: Bench) -> None:
        from importlib import import_module  # noqa: PLC0415

        partial(getattr(import_module(f"{__package__}.{module}"), name), **options)(bench)

    return run


# What is measured first is what matters most; a section is ended after so many seconds.
SECTIONS: dict[str, tuple[Callable[[Bench], None], float]] = {
    "ceilings": (_by_name("ceilings", "ceilings"), 60.0),
    "products": (_by_name("products", "products"), 200.0),
    "fit_50": (_by_name("fits", "fit", d=50), 160.0),
    "fit_3": (_by_name("fits", "fit", d=3), 100.0),
    "growth": (_by_name("products", "growth"), 60.0),
    "plain": (_by_name("plain", "plain"), 100.0),
    "same": (_by_name("fits", "same"), 60.0),
    "cpu": (_by_name("fits", "side_by_side"), 90.0),
    "neighbours": (_by_name("fits", "neighbours"), 120.0),
    "diffusion_maps": (_by_name("fits", "diffusion_maps"), 60.0),
    "heat_sketch": (_by_name("fits", "heat_sketch"), 120.0),
}
# Sections whose first fit is to find no code that was compiled before.
_COLD = ("fit_50", "fit_3")


def here(name: str, make: Callable[[Callable[[Row], None]], Bench]) -> list[Row]:
    """Rows of a section, measured in this process."""
    rows: list[Row] = []
    try:
        SECTIONS[name][0](make(rows.append))
    except Exception as error:  # the other sections go on
        rows.append({"section": name, "failed": in_words(error)})
    return rows


def apart(name: str, device: str, left: float, *, quick: bool = False) -> list[Row]:
    """Rows of a section, measured in a fresh process; those that were there when it failed or was ended, too."""
    limit = min(SECTIONS[name][1], left)
    if limit <= 0:
        return [{"section": name, "failed": "left out: the time for the whole run was over"}]
    with tempfile.TemporaryDirectory() as folder:
        kept, log = Path(folder) / "rows.jsonl", Path(folder) / "log"
        kept.touch()
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        if name in _COLD:
            environment |= {f"{tool}_CACHE_DIR": f"{folder}/{tool}" for tool in ("TRITON", "NUMBA")}
        command = [sys.executable, "-m", f"{__package__}", "--section", name, "--rows", str(kept)]
        command += ["--device", device, "--started", repr(time.time()), *["--quick"] * quick]
        with log.open("wb") as told:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=told, stderr=subprocess.STDOUT)
            try:
                code, failed = process.wait(limit), ""
            except subprocess.TimeoutExpired:
                process.kill()
                code, failed = process.wait(), f"ended after {limit:.0f} s"
            except BaseException:
                process.kill()
                raise
        rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        if code:
            rows.append({"section": name, "failed": failed or _last_words(log, code)})
        return rows


def _last_words(log: Path, code: int) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return in_words(RuntimeError(f"exit code {code}: " + " / ".join(lines[-_LAST_LINES:])))
