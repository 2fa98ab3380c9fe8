"""Processes to do things to: started from one that has everything imported, so that a fault costs little.

Each is a process of its own, with its own memory, signals and limits, forked from a server without threads.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

_PRELOADED = [
    *("heatsketch.cli", "heatsketch.io.models", "heatsketch.io.writers", "heatsketch.io", "pandas", "processes"),
    "pydantic.type_adapter",  # which newer versions of Typer import when a command is called
    *("anndata", "hypothesis", "matplotlib.pyplot", "sklearn.neighbors", "pytest"),  # of the tests' own modules
]


def start(function: Any, *args: Any, log: Path | None = None) -> Any:
    """Start ``function(*args)`` in a process of its own; what it says goes to a file."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=_carry_out, args=(function, args, log), daemon=True)
    process.start()
    process.log = log
    return process


def finish(process: Any, seconds: float = 120.0) -> int:
    """The exit code of a process, negative for a signal; one that hangs is killed, and fails the test."""
    process.join(seconds)
    hung = process.exitcode is None
    if hung:
        os.kill(process.pid, signal.SIGUSR1)  # it writes down where its threads are
        time.sleep(1)
        process.kill()
        process.join()
    assert not hung, f"the process hangs: {process.log and process.log.read_text()}"
    code: int = process.exitcode
    process.close()
    return code


def _carry_out(function: Any, args: tuple[Any, ...], log: Path | None) -> None:
    # As a shell starts a command in the foreground.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    if log is not None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(target, number)
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
        function(*args)
    except Exception:
        traceback.print_exc()
        sys.exit(70)
    finally:
        # What Python calls at the end of a process, but not of those that multiprocessing forks.
        from heatsketch._utils.files import _clear_away  # noqa: PLC0415

        _clear_away()


def command(folder: Path, *arguments: Any) -> None:
    """The command ``heatsketch`` in a folder."""
    from heatsketch.cli import main  # noqa: PLC0415

    os.chdir(folder)
    sys.argv = ["heatsketch", *map(str, arguments)]
    with suppress(PermissionError):
        Path(folder, ".begun").touch()
    main()


def until_begun(folder: Path, seconds: float = 60.0) -> None:
    """Wait until a command that was started in a folder is at work."""
    until = time.monotonic() + seconds
    while not (folder / ".begun").exists():
        assert time.monotonic() < until, "the process does not begin"
        time.sleep(0.005)
    (folder / ".begun").unlink()
