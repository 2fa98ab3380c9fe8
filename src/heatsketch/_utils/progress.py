"""Progress of long computations, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["say", "shown", "task", "track"]

T = TypeVar("T")
Advance = Callable[[float, float], None]

# The current display, or None; a context variable, so that it need not be passed through the mathematics.
_display: ContextVar[Any] = ContextVar("display", default=None)
# Seconds between lines of a log.
_EVERY = 10.0


@contextmanager
def shown(show: bool) -> Iterator[None]:
    """Show the progress of all tasks inside, if `show`; within another display, tasks join it.

    On a terminal as bars with the time left; elsewhere as a line every ten seconds and one for every task that took a
    second or more.
    """
    current = _display.get()
    opened: AbstractContextManager[Any] = _open() if show and current is None else nullcontext(current)
    with opened as display:
        token = _display.set(display if show else None)
        try:
            yield
        finally:
            _display.reset(token)


@contextmanager
def task(name: str) -> Iterator[Advance]:
    """A task that reports progress by ``advance(done, total)``, from any thread; a total of 0 means unknown."""
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
    """Print a line above the bars, if progress is shown."""
    display = _display.get()
    if display is not None:
        display.say(text)


@contextmanager
def _open() -> Iterator[Any]:
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress)


class _Lines:
    """Lines on standard error: one every few seconds, and one at the end of a long task."""

    @contextmanager
    def task(self, name: str) -> Iterator[Advance]:
        start = last = time.perf_counter()

        def advance(done: float, total: float) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last >= _EVERY:
                last = now
                share = f", {done / total:.0%}" if total else ""
                self.say(f"{name}: {now - start:.0f} s{share}")

        yield advance
        seconds = time.perf_counter() - start
        if seconds >= 1.0:
            self.say(f"{name}: done in {seconds:.1f} s")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


class _Bars:
    """Progress bars by rich."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress

    @contextmanager
    def task(self, name: str) -> Iterator[Advance]:
        bar = self._progress.add_task(name, total=None)
        try:
            yield lambda done, total: self._progress.update(bar, completed=done, total=total or None)
        finally:
            self._progress.remove_task(bar)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)
