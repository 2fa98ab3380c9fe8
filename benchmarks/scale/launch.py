"""Run a job in a fresh process, with limits of time and memory that end it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from .memory import resident

__all__ = ["ROOT", "run_job"]

ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.05


def run_job(
    job: dict[str, Any],
    *,
    timeout_s: float = 600.0,
    memory_gib: float = 16.0,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Rows measured by a job, each with `status` "ok", "absent", "failed", "timeout" or "memory".

    Parameters
    ----------
    job : dict
        As `worker` takes it.
    timeout_s : float
        Seconds that each stage (warm-up, measurement, scoring) may take.
    memory_gib : float
        Resident memory, children included, at which the process is ended.
    python : str
        Interpreter, for peers that need an environment of their own.
    environment : dict, optional
        Variables to set.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            process = subprocess.Popen(
                [python, "-m", f"{__package__}.worker", json.dumps(job)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=os.environ | {"PYTHONWARNINGS": "ignore"} | (environment or {}),
                start_new_session=True,
            )
        except OSError as error:
            return [{"status": "absent", "reason": f"the interpreter did not start: {error}"}]
        parts, ended = _watch(process, timeout_s, memory_gib)
        log.seek(0)
        printed = log.read().strip().splitlines()
    return _rows(parts, ended, process.returncode, printed)


def _watch(process: subprocess.Popen[str], timeout_s: float, memory_gib: float) -> tuple[list[Any], str | None]:
    """Parts as they come, and what ended the process, if we did."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    stream = process.stdout
    reader = threading.Thread(target=lambda: [lines.put(line) for line in stream], daemon=True)
    reader.start()
    parts: list[Any] = []
    ended: str | None = None
    deadline = time.monotonic() + timeout_s
    try:
        while process.poll() is None and ended is None:
            with contextlib.suppress(queue.Empty):
                parts.append(json.loads(lines.get(timeout=_POLL_S)))
                deadline = time.monotonic() + timeout_s
            if time.monotonic() > deadline:
                ended = "timeout"
            elif resident(process.pid) > memory_gib * 2**30:
                ended = "memory"
    finally:  # also when we are interrupted
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started for it
        process.wait()
    reader.join(timeout=5)
    stream.close()
    while not lines.empty():
        parts.append(json.loads(lines.get()))
    return parts, ended


def _rows(parts: list[Any], ended: str | None, code: int, printed: list[str]) -> list[dict[str, Any]]:
    """Put stages together, and say what was not reached."""
    rows = [part["row"] for part in parts if "row" in part]
    merged: dict[str, Any] = {}
    for part in parts:
        if "row" not in part:
            # What went wrong after the measurement leaves it standing.
            late = "seconds" in merged and part.get("status", "ok") != "ok"
            merged |= {"unscored": part["reason"]} if late else part
    stage = merged.pop("stage", None)
    died = code != 0 and ended is None and "status" not in merged and not rows
    trouble = ended or ("failed" if died else None)
    if trouble is not None:
        last = printed[-1][:200] if printed else ""
        reason = {"timeout": "over the time limit", "memory": "over the memory limit"}.get(
            trouble, f"the process ended with code {code}: {last}"
        )
        if stage == "measured":
            merged["unscored"] = reason
        else:
            merged |= {"status": trouble, "reason": reason}
    if rows:
        return rows + ([merged] if merged.get("status", "ok") != "ok" else [])
    return [merged or {"status": "failed", "reason": f"nothing was reported (code {code})"}]
