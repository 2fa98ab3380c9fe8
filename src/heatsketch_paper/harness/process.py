"""Measure time and memory in a fresh process, with limits that end it.

``run_apart("package.module:function", job)`` calls the function, a generator of rows, in a new interpreter. Rows
yielded before a failure or a limit are kept; a last row then has a ``status`` other than "ok" and a ``reason``. This
module imports the standard library only, so that the interpreter may belong to another environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["failure_row", "peak_memory", "run_apart"]

_POLL_S, _SAMPLE_S = 0.05, 0.01
_LONGEST = 300
_OWN = ("heatsketch", "heatsketch_paper", "benchmarks")
_SOURCE = Path(__file__).resolve().parents[2]

Row = dict[str, Any]


def failure_row(error: BaseException) -> Row:
    """Status and first line of an error: "memory", "absent" for a missing package of others, otherwise "failed"."""
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0] if lines else ''}".replace(str(Path.home()), "~")[:_LONGEST]
    if isinstance(error, MemoryError):
        return {"status": "memory", "reason": reason}
    missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in _OWN
    return {"status": "absent" if missing else "failed", "reason": reason}


def run_apart(
    function: str,
    job: Row,
    *,
    timeout_s: float = 600.0,
    memory_gib: float = 16.0,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
) -> list[Row]:
    """Rows of a function in a fresh process.

    Parameters
    ----------
    function : str
        "package.module:name" of a generator function.
    job : dict
        Its keyword arguments, as JSON can hold them.
    timeout_s : float
        Seconds until the next row, or the end.
    memory_gib : float
        Resident memory, children included, at which the process is ended.
    python : str
        Interpreter, for peers that need their own environment.
    environment : dict, optional
        Variables to set.
    """
    paths = [os.environ.get("PYTHONPATH", ""), str(_SOURCE), str(Path.cwd())]
    variables = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            process = subprocess.Popen(
                [python, "-m", __name__, function, json.dumps(job)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | variables | (environment or {}),
                start_new_session=True,
            )
        except OSError as error:
            return [{"status": "absent", "reason": f"the interpreter did not start: {error}"}]
        rows, trouble = _watch(process, timeout_s, memory_gib)
        log.seek(0)
        printed = log.read().strip().splitlines()
    if trouble is not None:
        rows.append({"status": trouble, "reason": f"over the {trouble.replace('timeout', 'time')} limit"})
    elif process.returncode:
        last = printed[-1][:200] if printed else ""
        rows.append({"status": "failed", "reason": f"the process ended with code {process.returncode}: {last}"})
    return rows


def _watch(process: subprocess.Popen[str], timeout_s: float, memory_gib: float) -> tuple[list[Row], str | None]:
    """Rows as they come, and the limit that ended the process, if one did."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    stream = process.stdout
    reader = threading.Thread(target=lambda: deque(map(lines.put, stream), maxlen=0), daemon=True)
    reader.start()
    rows: list[Row] = []
    trouble: str | None = None
    deadline = time.monotonic() + timeout_s
    try:
        while process.poll() is None and trouble is None:
            with contextlib.suppress(queue.Empty):
                rows.append(json.loads(lines.get(timeout=_POLL_S)))
                deadline = time.monotonic() + timeout_s
            if time.monotonic() > deadline:
                trouble = "timeout"
            elif _resident(process.pid) > memory_gib * 2**30:
                trouble = "memory"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: children end with it
        process.wait()
    reader.join(timeout=5)
    stream.close()
    while not lines.empty():
        rows.append(json.loads(lines.get()))
    return rows, trouble


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process and its children; 0 for a process that has ended."""
    try:
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        children = [c for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()]
    except (OSError, IndexError, ValueError):
        return 0
    return total + sum(_resident(int(child)) for child in children)


@contextlib.contextmanager
def peak_memory() -> Iterator[dict[str, int]]:
    """Peak of resident memory above the ``baseline`` at the start, in bytes; ``peak`` is known after the block.

    The kernel's high-water mark catches even short peaks but no child processes; sampling includes those. The larger
    of the two counts.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # memory freed by a warm-up, which only the GNU library returns
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the mark
        marked = True
    except OSError:
        marked = False
    pid = os.getpid()
    found = {"baseline": _resident(pid)}
    highest, stop = [found["baseline"]], threading.Event()

    def sample() -> None:
        while not stop.wait(_SAMPLE_S):
            highest[0] = max(highest[0], _resident(pid))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield found
    finally:
        stop.set()
        sampler.join()
        status = Path("/proc/self/status").read_text().splitlines() if marked else []
        mark = [int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")]
        found["peak"] = max(highest[0], _resident(pid), *mark) - found["baseline"]


def _main(function: str, job: str) -> None:
    """Run a function in this process; its rows go to standard output, everything printed to standard error."""
    rows = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, name = function.partition(":")
    try:
        for row in getattr(import_module(module), name)(**json.loads(job)):
            print(json.dumps(row), file=rows, flush=True)
    except Exception as error:
        print(json.dumps(failure_row(error)), file=rows, flush=True)
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)  # some libraries hang or crash when they are unloaded


if __name__ == "__main__":
    _main(*sys.argv[1:])
