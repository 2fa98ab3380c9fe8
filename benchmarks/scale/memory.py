"""Resident memory of a process and its children, and its peak over a stretch of code."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["PeakMemory", "resident"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_INTERVAL_S = 0.01


def resident(pid: int | None = None) -> int:
    """Bytes of memory that a process and its children hold now; 0 for a process that is gone."""
    pid = os.getpid() if pid is None else pid
    try:
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        children = [c for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()]
    except (OSError, IndexError, ValueError):
        return 0
    return total + sum(resident(int(child)) for child in children)


def _high_water() -> int:
    """Bytes at the peak of this process alone since `_reset`, exactly, from the kernel's own count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def give_back() -> None:
    """Return freed memory to the system, so that what a warm-up used is not in hand, unseen, for what is measured."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU library has it
        ctypes.CDLL(None).malloc_trim(0)


def _reset() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


class PeakMemory:
    """Context manager: the peak of resident memory above what was held at the start, in bytes.

    The kernel's high-water mark catches even the shortest peak but not child processes; sampling every 10 ms
    includes these. The larger of the two is reported.

    Attributes
    ----------
    baseline, peak : int
        Bytes held at the start, and at the peak less `baseline`.
    """

    def __enter__(self) -> Self:
        give_back()
        self._marked = _reset()
        self.baseline = resident()
        self._highest = self.baseline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._highest = max(self._highest, resident())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._highest = max(self._highest, resident(), _high_water() if self._marked else 0)
        self.peak = self._highest - self.baseline
