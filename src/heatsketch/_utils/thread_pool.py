"""Threads that stay, and that an interrupt at any moment leaves fit for the next job.

Pools and futures of the standard library hold locks in Python code. An interrupt that comes just then leaves them
locked, and all who come after wait for ever. Here nothing is shared but what Python does in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

__all__ = ["Crew", "Job"]

_BEGUN, _DROPPED = "begun", "dropped"


class Job:
    """A call of a function that a thread of the crew makes, and what came of it."""

    def __init__(self, function: Callable[[Any], Any], argument: Any) -> None:
        self._call = function, argument
        self._fate: dict[str, str] = {}  # one entry, which whoever is first makes
        self._done = Lock()
        self._done.acquire()
        self._outcome: tuple[Any, BaseException | None] | None = None

    def run(self) -> None:
        """Make the call, unless it was dropped; for a thread of the crew."""
        if self._fate.setdefault("is", _BEGUN) == _DROPPED:
            return
        function, argument = self._call
        try:
            self._outcome = function(argument), None
        except BaseException as error:  # it is raised where the result is asked for
            self._outcome = None, error
        self._done.release()

    def drop(self) -> None:
        """See that the call is not begun any more, or wait for its end."""
        if self._fate.setdefault("is", _DROPPED) == _BEGUN:
            self._wait()

    def result(self) -> Any:
        """What the function returned; what it raised is raised."""
        self._wait()
        assert self._outcome is not None
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def _wait(self) -> None:
        # An interrupt may come when the lock has just been taken; whoever waits again then finds the outcome.
        if self._outcome is None:
            self._done.acquire()


class Crew:
    """Some threads that take jobs in turn, for as long as the process lives.

    Parameters
    ----------
    name : str
        Of the threads, with a number.
    threads : int
    begin : callable
        Called first by each of them.

    Raises
    ------
    RuntimeError
        If the system refuses a thread.
    """

    def __init__(self, name: str, threads: int, begin: Callable[[], None]) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.members = [
            Thread(target=self._work, args=(begin,), name=f"heatsketch {name}, {n}", daemon=True)
            for n in range(threads)
        ]
        try:
            for member in self.members:
                member.start()
        except BaseException:
            self.dismiss()
            raise

    def dismiss(self) -> None:
        """Have every thread end when it has done what was asked of it before."""
        for _ in self.members:
            self.jobs.put(None)

    def _work(self, begin: Callable[[], None]) -> None:
        begin()
        while (job := self.jobs.get()) is not None:
            job.run()
            del job  # and with it the arrays that it holds
