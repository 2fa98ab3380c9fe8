"""The command line: ``heatsketch``. Commands import what they need when they are called, so that help is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from heatsketch_paper.errors import ReproductionError

from .._version import __version__
from .ask import compare, diagnose, estimate
from .console import FAILED, as_options, ending, err, notes, out, plain, warnings_as_notes
from .datasets import datasets
from .embed import embed, extend, report, transform
from .reproduce import reproduce

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode="rich",
    help="Embed tables, arrays and graphs by their heat kernel, and see how far to believe the result.",
    epilog="Exit codes: 0 success, 1 error, 2 wrong usage, 3 harmful findings (diagnose --strict), 130 interrupted, "
    "143 terminated. HEATSKETCH_TRACEBACK=1 shows the traceback of an error.",
)
for command in (embed, transform, extend, report, compare, diagnose, estimate, datasets, reproduce):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"heatsketch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Embed tables, arrays and graphs by their heat kernel, and see how far to believe the result."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command ``heatsketch``: shows errors without a traceback."""
    notes.quiet = False
    try:
        with warnings_as_notes(), ending():
            app(list(sys.argv[1:] if arguments is None else arguments))
    except (ReproductionError, OSError, ImportError, ValueError, TypeError, MemoryError) as failure:
        if os.environ.get("HEATSKETCH_TRACEBACK"):
            raise
        message = str(failure) or "not enough memory; heatsketch estimate INPUT predicts what an embedding needs."
        err.print(f"[bold red]Error:[/] {plain(as_options(message))}", soft_wrap=True)
        sys.exit(FAILED)
