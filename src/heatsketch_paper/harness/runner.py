"""Run the cases of experiments that are not on disk yet, in parallel unless time is measured."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

from ..errors import ReproductionError
from .experiment import Case, Experiment, Row
from .store import Store, machine

__all__ = ["Progress", "available_cores", "run"]

# Seconds between two writes of a table; an interrupt writes what is finished.
_WRITE_EVERY = 5.0
_MOST_PROCESSES = 60 if sys.platform == "win32" else 10_000  # Windows waits for no more


@dataclass(frozen=True)
class Progress:
    """How far an experiment is: `done` of `total` cases."""

    experiment: Experiment
    done: int
    total: int


def available_cores() -> int:
    """Cores that this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


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
    jobs = min(jobs, _MOST_PROCESSES)
    store.prepare()
    # Problems with earlier results are raised before any work.
    earlier = {e.name: store.open(e, fresh=fresh) for e in experiments}
    missing = {e.name: _missing(e, earlier[e.name]) for e in experiments}
    for experiment in experiments:
        if experiment.alone and missing[experiment.name]:
            store.require_same_machine(experiment)
    together = [e for e in experiments if not e.alone]
    busy = any(missing[e.name] for e in together)
    shared: dict[str, Any] = {"store": store, "earlier": earlier, "report": report}
    with _pool(jobs if busy else 1) as pool:
        for experiment in together:
            results = _parallel(experiment, missing[experiment.name], pool, jobs) if pool else None
            _carry_out(experiment, missing[experiment.name], results, **shared, session=(command, jobs))
    for experiment in experiments:
        if experiment.alone:
            _carry_out(experiment, missing[experiment.name], None, **shared, session=(command, 1))


def _missing(experiment: Experiment, rows: Sequence[Row]) -> list[Case]:
    """Cases without rows."""
    there = {tuple(row.get(key) for key in experiment.keys) for row in rows}
    return [case for case in experiment.cases() if tuple(case.get(key) for key in experiment.keys) not in there]


def _carry_out(
    experiment: Experiment,
    missing: list[Case],
    results: Iterator[tuple[Case, list[Row]]] | None,
    *,
    store: Store,
    earlier: dict[str, list[Row]],
    session: tuple[str, int],
    report: Callable[[Progress], None],
) -> None:
    """Run the missing cases of an experiment; the finished ones are written whatever happens."""
    rows, (command, jobs) = earlier[experiment.name], session
    total = max(len(experiment.cases()), len(missing))
    done = total - len(missing)
    report(Progress(experiment, done, total))
    start = written = perf_counter()
    about: dict[str, Any] = {
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "command": command,
        "jobs": jobs,
        "machine": machine(experiment.libraries),
    }
    unwritten: list[Row] = []
    finished = 0

    def write() -> None:
        nonlocal written
        written = perf_counter()
        if unwritten:
            store.add(experiment.name, unwritten, about | {"trials": finished, "seconds": round(written - start, 2)})
            unwritten.clear()

    try:
        for case, found in results or ((case, _measure(experiment, case, rows)) for case in missing):
            new = [case | row for row in found]
            unwritten += new
            rows += new
            finished += 1
            if perf_counter() - written > _WRITE_EVERY:
                write()
            report(Progress(experiment, done + finished, total))
    finally:
        write()


def _measure(experiment: Experiment, case: Case, done: Sequence[Row] = ()) -> list[Row]:
    try:
        with threadpool_limits(limits=1):
            return experiment.measure(case, done)
    except Exception as failure:
        failure.add_note("in " + ", ".join(f"{key} {value}" for key, value in case.items()) + f" of {experiment.name}")
        raise


def _parallel(
    experiment: Experiment, missing: Sequence[Case], pool: ProcessPoolExecutor, jobs: int
) -> Iterator[tuple[Case, list[Row]]]:
    """Results as they come; few cases wait in the queue, so that stopping is quick."""
    waiting = list(reversed(missing))
    running: dict[Future[list[Row]], Case] = {}
    try:
        while waiting or running:
            while waiting and len(running) < 2 * jobs:
                case = waiting.pop()
                running[pool.submit(_measure, experiment, case)] = case
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                rows = future.result()
                yield running.pop(future), rows
    except BrokenProcessPool as failure:
        raise ReproductionError(
            f"a process died during {experiment.name}, perhaps for lack of memory. Finished trials are kept: run the "
            "same again, with fewer processes (--jobs). In a script, the call belongs under "
            "`if __name__ == '__main__':`, because every process reads the script."
        ) from failure


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes for the cases; None means this one."""
    if jobs == 1:
        yield None
        return
    # Spawned, not forked: forking a process whose BLAS has threads can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Leave Ctrl-C to the main process, and end when that ends for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
