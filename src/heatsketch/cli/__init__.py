"""The command line: ``heatsketch``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .._version import __version__
from ..experiments.errors import ReproductionError
from .ask import compare, diagnose, estimate
from .console import FAILED, err, interruptible, notes, out, plain, warnings_as_notes
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


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Embeddings that are sketches of the heat kernel."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command ``heatsketch``: errors that a user can mend are told without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # rather a question mark than no report
    try:
        notes.quiet = False
        with interruptible(), warnings_as_notes():
            app(list(arguments))
    except (ReproductionError, OSError, ImportError, ValueError, TypeError, MemoryError) as failure:
        if os.environ.get("HEATSKETCH_TRACEBACK"):
            raise
        err.print(f"[bold red]Error:[/] {plain(failure)}", soft_wrap=True)
        sys.exit(FAILED)
