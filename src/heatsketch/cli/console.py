"""How commands speak: results on standard output; progress, notes and errors on standard error."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._utils.text import visible

__all__ = [
    "FAILED",
    "FINDINGS",
    "INTERRUPTED",
    "delivered",
    "err",
    "interruptible",
    "note",
    "notes",
    "out",
    "plain",
    "print_json",
    "replace_closed_streams",
    "say",
    "table",
    "warnings_as_notes",
]

# Names of files and columns may look like anything: nothing in them is made out to be an emoji or a number.
_AS_IT_IS: dict[str, Any] = {"highlight": False, "emoji": False}
out, err = Console(**_AS_IT_IS), Console(stderr=True, **_AS_IT_IS)
# Notes and warnings, which --quiet leaves out.
notes = Console(stderr=True, **_AS_IT_IS)

# Exit codes beside 0: something the user can mend; what `diagnose --strict` found; an interrupt, as shells have it.
# (2, a command that is not understood, is typer's.)
FAILED, FINDINGS, INTERRUPTED = 1, 3, 130


def plain(text: Any) -> str:
    """A text that may come from a file, for a console: neither markup nor codes for the terminal."""
    return escape(visible(str(text)))


def note(text: str) -> None:
    """Tell something that is worth knowing."""
    notes.print(plain(text), soft_wrap=True)


def say(text: Any) -> None:
    """Print a result for people, on standard output."""
    out.print(plain(text), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a result for programs, on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table without lines, whose cells are shown as they are."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        made.add_column(plain(name), overflow="fold")
    for row in rows:
        made.add_row(*map(plain, row))
    return made


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings as sentences rather than as places in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        notes.print(f"[yellow]Warning:[/] {plain(message)}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for chatter in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning):
            warnings.simplefilter("ignore", chatter)  # nothing that a user of the command can act on
        warnings.showwarning = show
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM, and a terminal that goes away, as Ctrl-C, so that a job that is ended cleans up too.

    Libraries that call back from C may turn the interrupt into an error of theirs (pandas: a table that cannot be
    read), and Python loses one that comes while it throws something away; then it is raised again, and what Python
    prints of the loss is kept back.
    """
    came, told = False, sys.unraisablehook

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def tell(lost: Any) -> None:
        if not (came and issubclass(lost.exc_type, KeyboardInterrupt)):
            told(lost)

    ends = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What is ignored, as nohup has it, stays ignored.
    before = {end: signal.signal(end, interrupt) for end in ends if signal.getsignal(end) != signal.SIG_IGN}
    sys.unraisablehook = tell
    try:
        yield
    except (Exception, SystemExit) as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    else:
        if came:
            raise KeyboardInterrupt
    finally:
        sys.unraisablehook = told
        for end, handler in before.items():
            signal.signal(end, handler)


def replace_closed_streams() -> None:
    """Put something in the place of standard streams that are closed, whose numbers files would get otherwise.

    What is written to a closed standard output fails, as it should; what is told on standard error is told nobody.
    """
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


@contextmanager
def delivered() -> Iterator[None]:
    """See that all of standard output has been taken, while there is still somebody to tell.

    A reader that has seen enough and closed it is no error that anybody must be told of.

    Raises
    ------
    OSError
        If it could not be written, to a disk that is full for example.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Files are written under a name, and fail with words: what has neither is standard output.
        if error.filename is not None or error.errno not in _NOT_TAKEN or len(error.args) < 2:
            raise
        # The interpreter would try again when it ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if error.errno == errno.EPIPE:
            sys.exit(FAILED)
        raise OSError(f"standard output cannot be written ({error.strerror}); name a file with -o.") from error


_NOT_TAKEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
