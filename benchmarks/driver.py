"""The command line of a study: carry out the trials that are not there yet, and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.experiment import Experiment
from heatsketch_paper.runner import Progress, available_cores, run
from heatsketch_paper.store import Store

__all__ = ["main"]

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main(package: str, parts: Mapping[str, Mapping[str, Experiment]], write_page: Callable[[Path], Path]) -> None:
    """Carry out the trials of a study and write its page; results lie under docs, in the folder of that name."""
    options = _parser(package, parts).parse_args()
    chosen = [
        experiment
        for part, experiments in parts.items()
        for name, experiment in experiments.items()
        if not options.only or part in options.only or name in options.only
    ]
    if options.trials is not None:
        chosen = [replace(experiment, n_trials=options.trials) for experiment in chosen]
    command = shlex.join(["python", "-m", f"benchmarks.{package}", *sys.argv[1:]])
    try:
        run(
            [] if options.page else chosen,
            Store(options.output),
            jobs=options.jobs,
            fresh=options.fresh,
            command=command,
            report=_tell,
        )
    except ReproductionError as failure:
        sys.exit(f"Error: {failure}")
    print(f"Wrote {write_page(options.output)}.")


def _parser(package: str, parts: Mapping[str, Mapping[str, Experiment]]) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog=f"python -m benchmarks.{package}", description=__doc__)
    names = [name for part in parts.values() for name in part]
    found.add_argument("only", nargs="*", metavar="NAME", help=f"parts or tables, of {', '.join([*parts, *names])}")
    found.add_argument("--trials", type=int, metavar="N", help="trials of each, instead of the numbers declared")
    found.add_argument("-j", "--jobs", type=int, default=available_cores(), help="processes")
    found.add_argument("-o", "--output", type=Path, default=DOCS / package, metavar="DIR")
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--fresh", action="store_true", help="start over")
    return found


def _tell(step: Progress) -> None:
    end = "\n" if step.done == step.total else "\r"
    print(f"{step.experiment.name}: {step.done} of {step.total} trials ", end=end, file=sys.stderr, flush=True)
