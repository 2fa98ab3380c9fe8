"""Progress of work that takes its time: shown where it is asked for, and free where it is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["say", "shown", "task", "track"]

T = TypeVar("T")
Advance = Callable[[int, int], None]

# The display of the estimator that is at work, or None: nothing need be handed down through the mathematics.
_display: ContextVar[Any] = ContextVar("display", default=None)


@contextmanager
def shown(show: bool) -> Iterator[None]:
    """Show the progress of all tasks inside, if `show`.

    On a terminal, with rich installed, as bars with the time left; elsewhere as a line every ten seconds and one for
    every task that took a second or more. Both go to standard error. Where progress is shown already, tasks join it.
    """
    if show and _display.get() is not None:
        yield
        return
    if not show:
        token = _display.set(None)
        try:
            yield
        finally:
            _display.reset(token)
        return
    with _bars() as display:
        token = _display.set(display)
        try:
            yield
        finally:
            _display.reset(token)


@contextmanager
def task(name: str) -> Iterator[Advance]:
    """A task that reports ``advance(done, total)``, from any thread; a total of 0 means that nobody knows."""
    display = _display.get()
    if display is None:
        yield _ignore
        return
    with display.task(name) as advance:
        yield advance


def track(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    """The items one after another, counted as they are done."""
    # Where nobody watches, no generator of ours is left behind when an error ends the loop: an interrupt that comes
    # while Python throws one away would be lost.
    return iter(items) if _display.get() is None else _tracked(items, name, total)


def _tracked(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    with task(name) as advance:
        for done, item in enumerate(items):
            advance(done, total)
            yield item
        advance(total, total)


def say(text: str) -> None:
    """Print a line above the bars, if anything is shown."""
    display = _display.get()
    if display is not None:
        display.say(text)


# Seconds between lines.
_EVERY = 10.0


def _ignore(done: int, total: int) -> None:
    """Nobody is watching."""


class _Lines:
    """A line every few seconds, and one when a task that took its time ends."""

    @contextmanager
    def task(self, name: str) -> Iterator[Advance]:
        start = said = time.perf_counter()

        def advance(done: int, total: int) -> None:
            nonlocal said
            now = time.perf_counter()
            if now - said >= _EVERY:
                said = now
                share = f", {done / total:.0%}" if total else ""
                self.say(f"{name}: {now - start:.0f} s{share}")

        yield advance
        seconds = time.perf_counter() - start
        if seconds >= 1.0:
            self.say(f"{name}: done in {seconds:.1f} s")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201


class _Bars:
    """Bars of rich."""

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


@contextmanager
def _bars() -> Iterator[Any]:
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415
    except ModuleNotFoundError:
        yield _Lines()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress)
