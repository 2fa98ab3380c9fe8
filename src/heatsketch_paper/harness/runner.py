"""Run the cases of experiments that are not on disk yet, in parallel unless time is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from ..errors import ReproductionError
from .experiment import Case, Experiment, Row
from .store import Store, machine

__all__ = ["Progress", "available_cores", "run"]

# Seconds between two writes of a table; an interrupt writes what is finished.
_WRITE_EVERY = 5.0


@dataclass(frozen=True)
class Progress:
    """How far an experiment is: `done` of `total` cases."""

    experiment: Experiment
    done: int
    total: int


def available_cores() -> int:
    """Cores that this process may use."""
    return int(joblib.cpu_count())


def run(
    experiments: Sequence[Experiment],
    store: Store,
    *,
    jobs: int = 1,
    fresh: bool = False,
    command: str = "",
    report: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Run the cases that are not on disk yet.

    Cases depend on their keys only, and BLAS runs on one thread, so results do not depend on `jobs` or on
    interruptions.

    Parameters
    ----------
    experiments : sequence of Experiment
    store : Store
    jobs : int
        Processes.
    fresh : bool
        Whether to remove earlier results.
    command : str
        Recorded with the results.
    report : callable
        Called with a `Progress` at the start of each experiment and after each case.
    """
    if jobs < 1:
        raise ReproductionError(f"jobs={jobs} was given; give a number of processes of at least 1.")
    store.prepare()
    # Problems with earlier results are raised before any work.
    earlier = {e.name: store.open(e, fresh=fresh) for e in experiments}
    missing = {e.name: _missing(e, earlier[e.name]) for e in experiments}
    for experiment in experiments:
        if experiment.alone and missing[experiment.name]:
            store.require_same_machine(experiment)
    for experiment in sorted(experiments, key=lambda e: e.alone):
        about = {
            "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "command": command,
            "jobs": 1 if experiment.alone else jobs,
            "machine": machine(experiment.libraries),
        }
        cases = (missing[experiment.name], earlier[experiment.name])
        _run_cases(experiment, *cases, store=store, about=about, report=report)


def _missing(experiment: Experiment, rows: Sequence[Row]) -> list[Case]:
    """Cases without rows."""
    there = {tuple(row.get(key) for key in experiment.keys) for row in rows}
    return [case for case in experiment.cases() if tuple(case.get(key) for key in experiment.keys) not in there]


def _run_cases(
    experiment: Experiment,
    missing: list[Case],
    rows: list[Row],
    *,
    store: Store,
    about: dict[str, Any],
    report: Callable[[Progress], None],
) -> None:
    """Run the missing cases of an experiment; the finished ones are written whatever happens."""
    total = len(experiment.cases())
    done = total - len(missing)
    report(Progress(experiment, done, total))
    start = written = perf_counter()
    unwritten: list[Row] = []
    finished = 0

    def write() -> None:
        nonlocal written
        written = perf_counter()
        if unwritten:
            store.add(experiment.name, unwritten, about | {"trials": finished, "seconds": round(written - start, 2)})
            unwritten.clear()

    try:
        for case, found in zip(missing, _results(experiment, missing, rows, about["jobs"]), strict=True):
            new = [case | row for row in found]
            unwritten += new
            rows += new
            finished += 1
            if perf_counter() - written > _WRITE_EVERY:
                write()
            report(Progress(experiment, done + finished, total))
    except BrokenProcessPool as failure:
        raise ReproductionError(
            f"a process died during {experiment.name}, perhaps for lack of memory. Finished trials are kept: run the "
            "same again, with fewer processes (--jobs)."
        ) from failure
    finally:
        write()


def _results(experiment: Experiment, missing: list[Case], rows: list[Row], jobs: int) -> Iterator[list[Row]]:
    """Rows of each case, in order; `rows` grows while experiments that run alone are under way."""
    if jobs == 1 or not missing:
        return (_measure(experiment, case, rows) for case in missing)
    # One case at a time for each process, so that stopping is quick.
    workers = joblib.Parallel(n_jobs=jobs, batch_size=1, return_as="generator")
    found: Iterator[list[Row]] = workers(joblib.delayed(_measure)(experiment, case) for case in missing)
    return found


def _measure(experiment: Experiment, case: Case, done: Sequence[Row] = ()) -> list[Row]:
    try:
        with threadpool_limits(limits=1):
            return experiment.measure(case, done)
    except Exception as failure:
        failure.add_note("in " + ", ".join(f"{key} {value}" for key, value in case.items()) + f" of {experiment.name}")
        raise
