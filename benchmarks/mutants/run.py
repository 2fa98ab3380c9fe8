"""A clean copy of the working tree, and mutmut at work in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from .outcomes import mutants

__all__ = ["prepare", "run"]

# All that the mutated modules and their tests need.
_NEEDED = ("src", "tests", "pyproject.toml")
# mutmut leaves decorated functions alone. These decorators only say which threads and devices do the work.
_DECORATORS = ("@quiet_blas()\n", "@on_device()\n")
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
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    mutated = set(config["tool"]["mutmut"]["only_mutate"])
    for name in listed:
        source, target = root / name, copy / name
        if not source.exists():
            continue
        content = source.read_bytes()
        if name in mutated:
            content = _undecorated(content)
        if not (target.exists() and target.read_bytes() == content):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for old in [path for part in _NEEDED for path in (copy / part).rglob("*.py")]:
        if str(old.relative_to(copy)) not in listed:
            old.unlink()


def _undecorated(content: bytes) -> bytes:
    lines = content.decode().splitlines(keepends=True)
    return "".join(line for line in lines if line not in _DECORATORS).encode()


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
