"""A clean copy of the working tree, and mutmut at work in it."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .outcomes import mutants

__all__ = ["prepare", "run"]

# All that the mutated modules and their tests need.
_NEEDED = ("src", "tests", "pyproject.toml")
# One thread, so that a mutant takes what it takes and processes do not wait for each other.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "PYTEST_PLUGINS": "benchmarks.mutants.fastest",
}


def prepare(root: Path, copy: Path) -> None:
    """Bring the copy up to date with the working tree.

    Files that are the same stay as old as they are, for mutmut tests only functions again that have changed.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_NEEDED],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        source, target = root / name, copy / name
        if source.exists() and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for old in [path for part in _NEEDED for path in (copy / part).rglob("*.py")]:
        if str(old.relative_to(copy)) not in listed:
            old.unlink()


def run(copy: Path, processes: int, *, survivors: bool = False) -> None:
    """Test the mutants of functions that are new or have changed; or those again that survived."""
    names = [m.name for m in mutants(copy) if m.outcome == "survived"] if survivors else []
    if survivors and not names:
        return
    subprocess.run(
        [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes), *names],
        cwd=copy,
        env={**os.environ, **_ENVIRONMENT},
        check=True,
    )
