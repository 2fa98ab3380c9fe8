"""One runner for all experiments: trials in parallel, each kept as soon as it is finished."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from threadpoolctl import threadpool_limits

from .experiment import Experiment, Row
from .store import Store

__all__ = ["Progress", "run"]

# Rows are written after so many seconds at the latest; an interrupt loses none, because it writes first.
_WRITE_EVERY = 5.0


@dataclass(frozen=True)
class Progress:
    """How far an experiment is: `done` of `total` trials, of which this run found `kept` on disk."""

    experiment: Experiment
    done: int
    total: int
    kept: int


def run(
    experiments: Sequence[Experiment],
    directory: str | Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Store:
    """Carry out the trials that are not on disk yet.

    Trials depend on their number alone, and BLAS runs on one thread, so the results do not depend on `jobs` or on
    interruptions.

    Parameters
    ----------
    experiments : sequence of Experiment
    directory : path
        Tables are written to its folder ``tables``.
    jobs : int
        Processes.
    fresh : bool
        Whether to throw away what is there.
    report : callable
        Called with a `Progress` at the start of each experiment and after each trial.

    Returns
    -------
    store : Store
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs} was given; give a number of processes of at least 1.")
    store = Store(directory)
    # Whatever stands in the way is said before any work is done.
    missing = {e.name: sorted(set(range(e.n_trials)) - store.open(e, fresh=fresh)) for e in experiments}
    session = _Session(store, report)
    together = [e for e in experiments if not e.alone]
    busy = any(missing[e.name] for e in together)
    with _pool(jobs if busy else 1) as pool:
        for experiment in together:
            session.carry_out(experiment, missing[experiment.name], pool, jobs)
    for experiment in experiments:
        if experiment.alone:
            session.carry_out(experiment, missing[experiment.name], None, 1)
    return store


@dataclass(frozen=True)
class _Session:
    store: Store
    report: Callable[[Progress], None]

    def carry_out(
        self, experiment: Experiment, missing: list[int], pool: ProcessPoolExecutor | None, jobs: int
    ) -> None:
        """Run the missing trials of an experiment; whatever happens, those that finish are written."""
        total = experiment.n_trials
        kept = total - len(missing)
        self.report(Progress(experiment, kept, total, kept))
        start = written = perf_counter()
        unwritten: dict[int, list[Row]] = {}
        finished = 0
        trials = _in_turn(experiment, missing) if pool is None else _in_parallel(experiment, missing, pool, jobs)
        try:
            for index, rows in trials:
                unwritten[index] = rows
                finished += 1
                if perf_counter() - written > _WRITE_EVERY:
                    self.store.add(experiment.name, unwritten)
                    unwritten, written = {}, perf_counter()
                self.report(Progress(experiment, kept + finished, total, kept))
        finally:
            if unwritten:
                self.store.add(experiment.name, unwritten)
            if finished:
                seconds = round(perf_counter() - start, 2)
                self.store.finish(experiment.name, {"trials": finished, "jobs": jobs, "seconds": seconds})


def _trial(experiment: Experiment, index: int) -> list[Row]:
    try:
        with threadpool_limits(limits=1):
            return experiment.trial(index)
    except Exception as failure:
        failure.add_note(f"in trial {index} of {experiment.name}")
        raise


def _in_turn(experiment: Experiment, missing: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
    for index in missing:
        yield index, _trial(experiment, index)


def _in_parallel(
    experiment: Experiment, missing: Sequence[int], pool: ProcessPoolExecutor, jobs: int
) -> Iterator[tuple[int, list[Row]]]:
    """Results as they come; only a few trials wait in the queue, so that stopping is quick."""
    waiting = list(reversed(missing))
    running: dict[Future[list[Row]], int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < 2 * jobs:
                index = waiting.pop()
                running[pool.submit(_trial, experiment, index)] = index
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                rows = future.result()
                yield running.pop(future), rows
    except BrokenProcessPool as failure:
        raise RuntimeError(
            f"a process died during {experiment.name}, perhaps for lack of memory. Finished trials are kept: run "
            "the same command again, with fewer --jobs."
        ) from failure
    except (Exception, KeyboardInterrupt):
        # The trials at work are soon done and would be waited for anyway: they shall be kept too.
        for future in running:
            future.cancel()
        wait(running)
        for future, index in running.items():
            if not future.cancelled() and future.exception() is None:
                yield index, future.result()
        raise


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes for the trials; None means this one."""
    if jobs == 1:
        yield None
        return
    # Started afresh, not forked: forking a process whose BLAS has threads can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_process)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare_process() -> None:
    """Leave Ctrl-C to the main process, which writes what is finished; and end when the main process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
