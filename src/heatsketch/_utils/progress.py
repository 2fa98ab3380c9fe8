"""Progress of long computations, on standard error: one bar for a whole job, whose steps are planned beforehand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from .text import duration

__all__ = ["Job", "Step", "is_shown", "say", "shown", "task", "track"]

T = TypeVar("T")
Advance = Callable[[float, float], None]
# The name of a task, and the seconds that it is expected to take.
Step = tuple[str, float]

# The current display, or None; a context variable, so that it need not be passed through the mathematics.
_display: ContextVar[Any] = ContextVar("display", default=None)
# Seconds between lines of a log.
_EVERY = 10.0
# Seconds after which the time taken counts as much as the predicted one for the time that is left.
_TRUSTED = 5.0
# A step whose end is not known is shown as done up to here, at most.
_NEARLY = 0.95
_WIDTH = 24


@contextmanager
def shown(show: bool, steps: Sequence[Step] = (), later: Sequence[Step] = ()) -> Iterator[None]:
    """Show the progress of the job inside, if `show`, as one bar for all of its steps.

    On a terminal the display is a bar with the time left; elsewhere a line every ten seconds, and one for every task
    that took a second or more. Inside of another job, tasks are steps of that one, whose plan comes from the first who
    knows it.

    Parameters
    ----------
    steps : sequence of (str, float)
        The tasks of the job in their order, and the seconds that they are expected to take.
    later : sequence of (str, float)
        Tasks that follow those that are planned inside.
    """
    current = _display.get()
    if current is not None or not show:
        if current is not None:
            current.job.plan(steps, later)
        yield
        return
    with _open() as display:
        display.job.plan(steps, later)
        token = _display.set(display)
        try:
            yield
        finally:
            _display.reset(token)


def is_shown() -> bool:
    """Whether the progress of the current job is shown."""
    return _display.get() is not None


@contextmanager
def task(name: str) -> Iterator[Advance]:
    """A task that reports progress by ``advance(done, total)``, from any thread; a total of 0 means unknown.

    It is a step of the current job, unless it is a part of another task.
    """
    display = _display.get()
    with nullcontext(lambda *_: None) if display is None else display.task(name) as advance:
        yield advance


def track(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    """Iterate over items, and report how many are done."""
    with task(name) as advance:
        for done, item in enumerate(items):
            advance(done, total)
            yield item
        advance(total, total)


def say(text: str) -> None:
    """Print a line above the bar, if progress is shown."""
    display = _display.get()
    if display is not None:
        display.say(text)


class Job:
    """The steps of a job, how much of it is done, and how long the rest will take.

    Parameters
    ----------
    clock : callable
        The time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps: list[Step] = []
        self._later: list[Step] = []
        self._planned = False
        self._at = -1  # index of the present step
        self._name, self._total, self._share = "", 0.0, 0.0  # of the present task
        self._start = self._begun = clock()  # of the planned steps, and of the present one
        self._before = 0  # steps before the planned ones

    def plan(self, steps: Sequence[Step], later: Sequence[Step] = ()) -> None:
        """Set the steps from here on, if there are any, and what follows them; the first plan holds."""
        if self._planned:
            return
        self._later = [*later, *self._later]
        if steps:
            self._planned, self._before, self._start = True, self._at + 1, self._clock()
            self._steps = [*self._steps[: self._before], *steps, *self._later]

    def begin(self, name: str) -> None:
        """Begin the next step of this name; steps between are left out. A task that was not planned is no step."""
        self._name, self._total = name, 0.0
        ahead = next((i for i in range(self._at + 1, len(self._steps)) if self._steps[i][0] == name), None)
        if ahead is None and not self._planned:
            ahead = len(self._steps)
            self._steps.append((name, 0.0))
        if ahead is not None:
            self._at, self._share, self._begun = ahead, 0.0, self._clock()

    def advance(self, done: float, total: float) -> None:
        """Report how much of the present task is done."""
        self._total = total
        if total:
            self._share = max(self._share, done / total)  # the bar does not go back

    def end(self) -> None:
        """End the present task."""
        self._total, self._share = 1.0, 1.0

    @property
    def share(self) -> float | None:
        """Share of the planned time that is done; None without a plan."""
        if not self._planned:
            return None
        spent, all_seconds = self._predicted()
        return spent / all_seconds if all_seconds else None

    @property
    def left(self) -> float | None:
        """Seconds until the end, None without a plan: as predicted, corrected by the time that has been taken."""
        if not self._planned:
            return None
        spent, all_seconds = self._predicted()
        slowness = (self._clock() - self._start + _TRUSTED) / (spent + _TRUSTED)
        return slowness * (all_seconds - spent)

    def _predicted(self) -> tuple[float, float]:
        """Predicted seconds of what is done of the plan, and of all of it."""
        seconds = [seconds for _, seconds in self._steps[self._before :]]
        at = self._at - self._before
        if at < 0:
            return 0.0, sum(seconds)
        if not self._total:  # of unknown length: as predicted
            self._share = max(self._share, min(_NEARLY, (self._clock() - self._begun) / max(seconds[at], 1e-9)))
        return sum(seconds[:at]) + self._share * seconds[at], sum(seconds)

    def __str__(self) -> str:
        """For example "step 3 of 7, 40 s left: finding neighbours"."""
        if not self._planned or not self._name:
            return self._name + (f", {self._share:.0%}" if self._total else "")
        left = self.left or 0.0
        soon = "nearly done" if left < 1.0 else f"{duration(left)} left"
        number = f"step {max(self._at, 0) + 1} of {len(self._steps)}, " if len(self._steps) > 1 else ""
        return f"{number}{soon}: {self._name}"


class _Display:
    """Shows a job; tasks inside of others are not shown."""

    def __init__(self) -> None:
        self.job, self._busy = Job(), False

    @contextmanager
    def task(self, name: str) -> Iterator[Advance]:
        if self._busy:
            yield lambda *_: None
            return
        self._busy = True
        self.job.begin(name)
        try:
            yield self._advance
        finally:
            self.job.end()
            self._busy = False

    def _advance(self, done: float, total: float) -> None:
        self.job.advance(done, total)


class _Lines(_Display):
    """Lines on standard error: one every few seconds, and one at the end of a long task."""

    def __init__(self) -> None:
        super().__init__()
        self._last = time.perf_counter()

    @contextmanager
    def task(self, name: str) -> Iterator[Advance]:
        start, nested = time.perf_counter(), self._busy
        with super().task(name) as advance:
            yield advance
        seconds = time.perf_counter() - start
        if seconds >= 1.0 and not nested:
            self.say(f"{name}: done in {seconds:.1f} s")

    def _advance(self, done: float, total: float) -> None:
        super()._advance(done, total)
        now = time.perf_counter()
        if now - self._last >= _EVERY:
            self._last = now
            self.say(str(self.job))

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


class _Bar(_Display):
    """One bar by rich, with the step, the time left and the time taken."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        self._console, self._start = console, time.perf_counter()

    def drawn(self) -> Any:
        """What is on the terminal now."""
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        if not str(self.job):  # nothing has begun
            return ""
        share = self.job.share
        bar = ProgressBar(total=1.0, completed=share or 0.0, width=_WIDTH, pulse=share is None)
        row = Table.grid(padding=(0, 1))
        for _ in range(3):
            row.add_column(no_wrap=True)
        row.add_row(bar, f"{time.perf_counter() - self._start:.0f} s", str(self.job))
        return row

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)


@contextmanager
def _open() -> Iterator[_Display]:
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    bar = _Bar(console)
    with Live(get_renderable=bar.drawn, console=console, refresh_per_second=5, transient=True, redirect_stdout=False):
        yield bar
