"""The command line: ``heatsketch reproduce``."""

from __future__ import annotations

import io
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ._version import __version__
from .experiments.errors import ReproductionError

if TYPE_CHECKING:
    from .experiments.experiment import Experiment
    from .experiments.figures import Figure
    from .experiments.runner import Progress as Step

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode="rich",
    help="Embeddings that are sketches of the heat kernel.",
)
# Results go to stdout; progress, advice and errors to stderr.
_out, _err = Console(), Console(stderr=True)

_INTERRUPTED = 130
_VERDICT_STYLES = {"holds": "green", "consistent": "green", "does not hold": "red", "undecided": "yellow"}


def main() -> None:
    """Entry point of the command ``heatsketch``: errors that a user can mend are told without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # rather a question mark than no report
    try:
        app()
    except (ReproductionError, OSError, ModuleNotFoundError) as failure:
        _err.print(f"[bold red]Error:[/] {escape(str(failure))}", soft_wrap=True)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        _out.print(f"heatsketch {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Embeddings that are sketches of the heat kernel."""


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Figures or groups of figures; all by default.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where results are written.")] = Path(
        "reproduction"
    ),
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials of each experiment; the paper's numbers by default.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; one for each core by default.")
    ] = None,
    beyond: Annotated[bool, typer.Option("--beyond", help="Add this project's own methods to the charts.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away results of these figures that DIR holds.")] = False,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="Format of pictures: svg, png, pdf; repeat for several.")
    ] = None,
    list_figures: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Reproduce the paper: its figures, the tables behind them, and its claims, on one page.

    Finished trials are kept: after an interruption the same command goes on where it stopped.

    [bold]Everything, as in the paper:[/] heatsketch reproduce -o results

    [bold]A quick look at its experiments:[/] heatsketch reproduce section5 --trials 10 -o quick

    [bold]One chart, with our own methods:[/] heatsketch reproduce stretched_torus --beyond -o ours
    """
    from .experiments.figures import find_figures, plan  # noqa: PLC0415

    chosen = find_figures(figures or ())
    if list_figures:
        _list_figures(chosen)
        return
    from . import experiments  # noqa: PLC0415

    run = experiments.reproduce  # says what is missing before any work
    planned = plan(chosen, n_trials=trials, beyond=beyond)
    try:
        with _interruptible(), _progress(planned, quiet) as report:
            made = run(
                figures or (),
                output,
                n_trials=trials,
                jobs=jobs,
                beyond=beyond,
                fresh=fresh,
                formats=formats or experiments.DEFAULT_FORMATS,
                command=shlex.join(["heatsketch", *sys.argv[1:]]),
                report=report,
            )
    except KeyboardInterrupt:
        again = "the same command without --fresh" if fresh else "the same command"
        _err.print(f"Interrupted. Finished trials are kept in {escape(str(output))}; {again} goes on from there.")
        raise typer.Exit(_INTERRUPTED) from None
    if not quiet:
        _show_claims(made.claims)
        count = "one figure" if len(chosen) == 1 else f"{len(chosen)} figures"
        _out.print(f"Wrote {escape(str(made.page))}, pictures and tables of {count}.", highlight=False)


def _list_figures(figures: Sequence[Figure]) -> None:
    from .experiments.catalogue import EXPERIMENTS  # noqa: PLC0415

    for figure in figures:
        trials = max(EXPERIMENTS[name].n_trials for name in figure.experiments)
        words = f"{figure.place}. {figure.title} ({trials} {'trial' if trials == 1 else 'trials'})"
        _out.print(f"{figure.name:26}{figure.group:10}{words}", highlight=False, markup=False, soft_wrap=True)


def _show_claims(claims: Any) -> None:
    table = Table(box=None, header_style="bold", title="Claims", title_justify="left")
    for column in ("where", "statement", "verdict"):
        table.add_column(column)
    for claim in claims.itertuples():
        style = _VERDICT_STYLES[claim.verdict]
        table.add_row(escape(claim.place), escape(claim.statement), f"[{style}]{claim.verdict}[/]")
    if table.row_count:
        _out.print(table)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a job that is ended keeps its finished trials too."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(planned: Sequence[Experiment], quiet: bool) -> Iterator[Callable[[Step], None]]:
    """A bar for the experiment at work and one for all of them, with the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    # Trials differ in length: the bar for all counts them by the seconds that they are expected to take.
    whole = sum(e.n_trials * e.effort for e in planned)
    with Progress(*columns, console=_err, disable=quiet, transient=True) as bars:
        everything = bars.add_task("all, per cent", total=100)
        current = bars.add_task("", total=None)
        finished: dict[str, float] = {}

        def report(step: Step) -> None:
            experiment = step.experiment
            if experiment.name not in finished:
                bars.reset(current, description=experiment.name, total=step.total)
            bars.update(current, completed=step.done)
            finished[experiment.name] = step.done * experiment.effort
            if step.done == step.total and not (quiet or _err.is_terminal):  # a log has no bars
                _err.print(f"{experiment.name}: {step.total} trials", highlight=False)
            bars.update(everything, completed=round(100.0 * sum(finished.values()) / whole))

        yield report
