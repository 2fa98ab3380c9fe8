"""The command line: ``heatsketch``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from heatsketch_paper.errors import ReproductionError

from .._utils.memory import address_space, size_in_words
from .._version import __version__
from .ask import compare, diagnose, estimate
from .console import (
    FAILED,
    INTERRUPTED,
    delivered,
    err,
    interruptible,
    notes,
    out,
    plain,
    replace_closed_streams,
    warnings_as_notes,
)
from .datasets import datasets
from .embed import embed, report, transform
from .reproduce import reproduce

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode="rich",
    help="Embeddings that are sketches of the heat kernel.",
    epilog="Exit codes: 0 done, 1 an error told in words, 2 a command not understood, 3 harmful findings "
    "(diagnose --strict), 130 interrupted. HEATSKETCH_TRACEBACK=1 shows where an error comes from.",
)
for command in (embed, transform, report, compare, diagnose, estimate, datasets, reproduce):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"heatsketch {__version__}")
        raise typer.Exit


# Address space that the libraries take before any work is done; some of them end the process where they lack it.
_LEAST = 600 << 20


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Embeddings that are sketches of the heat kernel."""
    if address_space() < _LEAST:
        raise MemoryError(
            f"{size_in_words(address_space())} of memory are left to this process, and the libraries alone take "
            f"{size_in_words(_LEAST)}; raise its limit (ulimit -v)."
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command ``heatsketch``: errors that a user can mend are told without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # rather a question mark than no report
    try:
        notes.quiet = False
        with interruptible(), warnings_as_notes(), delivered():
            app(list(arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ReproductionError, OSError, ImportError, ValueError, TypeError, MemoryError) as failure:
        if os.environ.get("HEATSKETCH_TRACEBACK"):
            raise
        words = _in_words(failure)
    # Only here is the memory free again that the work had taken.
    with suppress(OSError):  # where nobody listens any more
        err.print(f"[bold red]Error:[/] {plain(words)}", soft_wrap=True)
    sys.exit(FAILED)


def _in_words(failure: Exception) -> str:
    """What happened and what to do, where Python and NumPy only say what was lacking."""
    if isinstance(failure, MemoryError) and not (type(failure) is MemoryError and failure.args):
        lacking = f" ({failure})" if failure.args else ""
        return (
            f"memory ran out{lacking}; heatsketch estimate INPUT tells what an embedding takes. Keep fewer neighbours "
            "(--n-neighbors 15), close other programs, or raise the limit on this process (ulimit -v)."
        )
    return str(failure)
