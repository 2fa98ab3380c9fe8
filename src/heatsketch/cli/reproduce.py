"""``heatsketch reproduce``: the paper's figures and claims."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from .._utils.progress import say, shown, task
from .console import INTERRUPTED, err, notes, out, plain

if TYPE_CHECKING:
    from heatsketch_paper.figures import Figure
    from heatsketch_paper.harness.experiment import Experiment
    from heatsketch_paper.harness.runner import Progress as Step

__all__ = ["reproduce"]

_VERDICT_STYLES = {"holds": "green", "consistent": "green", "does not hold": "red", "undecided": "yellow"}


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
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete earlier results of these figures in DIR.")] = False,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="Format of pictures: svg, png, pdf; repeatable.")
    ] = None,
    list_figures: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Reproduce the paper: its figures, the tables behind them, and its claims, on one page.

    Finished trials are kept: after an interruption the same command continues where it stopped.

    [bold]Everything, as in the paper:[/] heatsketch reproduce -o results

    [bold]A quick look at its experiments:[/] heatsketch reproduce section5 --trials 10 -o quick

    [bold]One chart, with our own methods:[/] heatsketch reproduce stretched_torus --beyond -o ours
    """
    from heatsketch_paper.figures import find_figures, plan  # noqa: PLC0415

    notes.quiet = quiet
    chosen = find_figures(figures or ())
    if list_figures:
        _list_figures(chosen)
        return
    import heatsketch_paper as experiments  # noqa: PLC0415

    run = experiments.reproduce  # raises ImportError before any work
    planned = plan(chosen, n_trials=trials, beyond=beyond)
    try:
        with _progress(planned, quiet) as report:
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
        err.print(f"Interrupted. Finished trials are kept in {plain(output)}; {again} continues from there.")
        raise typer.Exit(INTERRUPTED) from None
    if not quiet:
        _show_claims(made.claims)
        count = "one figure" if len(chosen) == 1 else f"{len(chosen)} figures"
        out.print(f"Wrote {plain(made.page)}, pictures and tables of {count}.")


def _list_figures(figures: Sequence[Figure]) -> None:
    from heatsketch_paper.catalogue import EXPERIMENTS  # noqa: PLC0415

    for figure in figures:
        trials = max(EXPERIMENTS[name].n_trials for name in figure.experiments)
        words = f"{figure.place}. {figure.title} ({trials} {'trial' if trials == 1 else 'trials'})"
        out.print(f"{figure.name:26}{figure.group:10}{words}", markup=False, soft_wrap=True)


def _show_claims(claims: Any) -> None:
    table = Table(box=None, header_style="bold", title="Claims", title_justify="left")
    for column in ("where", "statement", "verdict"):
        table.add_column(column)
    for claim in claims.itertuples():
        style = _VERDICT_STYLES[claim.verdict]
        table.add_row(plain(claim.place), plain(claim.statement), f"[{style}]{claim.verdict}[/]")
    if table.row_count:
        out.print(table)


@contextmanager
def _progress(planned: Sequence[Experiment], quiet: bool) -> Iterator[Callable[[Step], None]]:
    """Report progress, with trials counted by the seconds that they are expected to take."""
    total = sum(experiment.n_trials * experiment.effort for experiment in planned)
    finished: dict[str, float] = {}
    with shown(not quiet), task("trials") as advance:

        def report(step: Step) -> None:
            experiment = step.experiment
            finished[experiment.name] = step.done * experiment.effort
            advance(sum(finished.values()), total)
            if step.done == step.total:
                say(f"{experiment.name}: {step.total} trials")

        yield report
