"""One runner for all experiments: trials in parallel, each kept as soon as it is finished."""

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

from .errors import ReproductionError
from .experiment import Experiment, Row
from .store import Store, machine

__all__ = ["Progress", "available_cores", "run"]

# Rows are written after so many seconds at the latest; an interrupt loses none, because it writes first.
_WRITE_EVERY = 5.0
_MOST_PROCESSES = 60 if sys.platform == "win32" else 10_000  # Windows waits for no more


@dataclass(frozen=True)
class Progress:
    """How far an experiment is: `done` of `total` trials."""

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
    """Carry out the trials that are not on disk yet.

    Trials depend on their number alone, and BLAS runs on one thread, so the results do not depend on `jobs` or on
    interruptions.

    Parameters
    ----------
    experiments : sequence of Experiment
    store : Store
        Where tables are kept.
    jobs : int
        Processes.
    fresh : bool
        Whether to throw away what is there.
    command : str
        What the record says the trials were made by.
    report : callable
        Called with a `Progress` at the start of each experiment and after each trial.
    """
    if jobs < 1:
        raise ReproductionError(f"jobs={jobs} was given; give a number of processes of at least 1.")
    jobs = min(jobs, _MOST_PROCESSES)
    with store.claimed():
        # Whatever stands in the way is said before any work is done.
        missing = {e.name: sorted(set(range(e.n_trials)) - store.open(e, fresh=fresh)) for e in experiments}
        session = _Session(store, command, report)
        together = [e for e in experiments if not e.alone]
        busy = any(missing[e.name] for e in together)
        with _pool(jobs if busy else 1) as pool:
            for experiment in together:
                session.carry_out(experiment, missing[experiment.name], pool, jobs)
        for experiment in experiments:
            if experiment.alone:
                session.carry_out(experiment, missing[experiment.name], None, 1)


@dataclass(frozen=True)
class _Session:
    store: Store
    command: str
    report: Callable[[Progress], None]

    def carry_out(
        self, experiment: Experiment, missing: list[int], pool: ProcessPoolExecutor | None, jobs: int
    ) -> None:
        """Run the missing trials of an experiment; whatever happens, those that finish are written."""
        total = experiment.n_trials
        done = total - len(missing)
        self.report(Progress(experiment, done, total))
        if not missing:
            return
        start = written = perf_counter()
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        session: dict[str, Any] = {"started": stamp, "command": self.command, "jobs": jobs}
        unwritten: dict[int, list[Row]] = {}
        finished: set[int] = set()

        def write() -> None:
            nonlocal written
            written = perf_counter()
            self.store.add(
                experiment.name,
                unwritten,
                session | {"trials": len(finished), "seconds": round(written - start, 2), "machine": machine()},
            )
            unwritten.clear()  # only now: what an interrupt keeps from being written is written after it

        trials = _in_turn(experiment, missing) if pool is None else _in_parallel(experiment, missing, pool, jobs)
        try:
            for index, rows in trials:
                unwritten[index] = rows
                finished.add(index)
                if perf_counter() - written > _WRITE_EVERY:
                    write()
                self.report(Progress(experiment, done + len(finished), total))
        finally:
            if unwritten:
                try:
                    write()
                except KeyboardInterrupt:  # between the table and what is told of it
                    write()
                    raise
        self.store.put_in_order(experiment.name)


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
    except (Exception, KeyboardInterrupt) as failure:
        # The trials at work are soon done and would be waited for anyway: they shall be kept too.
        at_work = [future for future in running if not future.cancel()]
        wait(at_work)
        for future in at_work:
            if future.exception() is None:
                yield running[future], future.result()
        if isinstance(failure, BrokenProcessPool):
            raise ReproductionError(
                f"a process died during {experiment.name}, perhaps for lack of memory. Finished trials are kept: run "
                "the same again, with fewer processes (--jobs). In a script, the call belongs under "
                "`if __name__ == '__main__':`, because every process reads the script."
            ) from failure
        raise


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes for the trials; None means this one."""
    if jobs == 1:
        yield None
        return
    # Started afresh, not forked: forking a process whose BLAS has threads can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_follow_parent)
    try:
        with _interrupts_held():  # as the processes inherit: Ctrl-C is left to this one, which writes first
            started = [pool.submit(os.getpid) for _ in range(jobs)]
        wait(started)
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold interrupts back: processes started inside never get them, and one that comes meanwhile is raised after."""
    if sys.platform == "win32":  # which has no masks, and sends interrupts by other ways
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """End this process when the main one does, however that ends."""

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
