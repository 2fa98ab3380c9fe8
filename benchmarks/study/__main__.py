"""Command line: carry out the trials that are not there yet, and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from heatsketch.experiments.errors import ReproductionError
from heatsketch.experiments.runner import Progress, available_cores, run
from heatsketch.experiments.store import Store

from .charts import CHARTS
from .deflation import DEFLATION
from .further import FURTHER
from .gap import GAP
from .page import write_page
from .times import TIMES

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "docs" / "study"
PARTS = {"charts": CHARTS, "deflation": DEFLATION, "gap": GAP, "further": FURTHER, "times": TIMES}


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.study", description=__doc__)
    names = [name for part in PARTS.values() for name in part]
    found.add_argument("only", nargs="*", metavar="NAME", help=f"parts or tables, of {', '.join([*PARTS, *names])}")
    found.add_argument("--trials", type=int, metavar="N", help="trials of each; the paper's numbers by default")
    found.add_argument("-j", "--jobs", type=int, default=available_cores(), help="processes")
    found.add_argument("-o", "--output", type=Path, default=COMMITTED, metavar="DIR")
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--fresh", action="store_true", help="start over")
    return found


def main() -> None:
    """Carry out the trials and write the page."""
    options = parser().parse_args()
    chosen = [
        experiment
        for part, experiments in PARTS.items()
        for name, experiment in experiments.items()
        if not options.only or part in options.only or name in options.only
    ]
    if options.trials is not None:
        chosen = [replace(experiment, n_trials=options.trials) for experiment in chosen]
    command = shlex.join(["python", "-m", "benchmarks.study", *sys.argv[1:]])
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


def _tell(step: Progress) -> None:
    end = "\n" if step.done == step.total else "\r"
    print(f"{step.experiment.name}: {step.done} of {step.total} trials ", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
