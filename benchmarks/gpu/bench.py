"""What is measured, the clock, and how a case is recorded."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from heatsketch.backends.torch.device import Device

__all__ = ["FULL", "QUICK", "ROOT", "Bench", "Plan", "bandwidth_of", "in_words", "timing"]

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]
_MOST_WORDS = 300


@dataclass(frozen=True)
class Plan:
    """Sizes of what is measured.

    Attributes
    ----------
    sizes, features : tuple of int
        Of the products; `overrides` is the size at which every arithmetic is tried.
    both : tuple of int
        Numbers of features that are looked at more closely.
    growth, plain : tuple
        Numbers of points; numbers of points and features.
    strip, slice : int
        Rows that plain PyTorch takes at a time, and rows of the product that it is timed on.
    fit, estimators, neighbours, cpu, same : int
        Numbers of points.
    columns, power, repeats, sampled : int
    matrix, copied, exponentials : int
        Side of the matrices, bytes, and rounds of the ceilings.
    """

    sizes: tuple[int, ...]
    features: tuple[int, ...]
    overrides: int
    growth: tuple[int, ...]
    plain: tuple[tuple[int, int], ...]
    strip: int
    slice: int
    fit: int
    estimators: int
    neighbours: int
    cpu: int
    same: int
    matrix: int
    copied: int
    exponentials: int
    both: tuple[int, ...] = (3, 50)
    columns: int = 32
    power: int = 16
    repeats: int = 5
    sampled: int = 64


FULL = Plan(
    sizes=(100_000, 1_000_000),
    features=(3, 10, 50, 200),
    overrides=100_000,
    growth=(1_000, 10_000, 100_000, 1_000_000),
    plain=((100_000, 3), (100_000, 50), (1_000_000, 50)),
    strip=4096,
    slice=8192,
    fit=1_000_000,
    estimators=50_000,
    neighbours=1_000_000,
    cpu=20_000,
    same=10_000,
    matrix=8192,
    copied=1 << 31,
    exponentials=1 << 14,
)
QUICK = Plan(
    sizes=(400,),
    features=(3, 50),
    overrides=400,
    growth=(100, 300),
    plain=((300, 3),),
    strip=128,
    slice=256,
    fit=400,
    estimators=100,
    neighbours=400,
    cpu=300,
    same=200,
    matrix=128,
    copied=1 << 20,
    exponentials=4,
    columns=8,
    power=4,
    repeats=2,
    sampled=16,
)


class Bench:
    """A device with its clock, and the rows measured on it.

    Parameters
    ----------
    device : Device
    plan : Plan
    section : str
    write : callable
        Takes each row when it is there.
    started : float, optional
        When the process was started, as `time.time` has it.
    """

    def __init__(
        self, device: Device, plan: Plan, section: str, write: Callable[[Row], None], started: float | None = None
    ) -> None:
        self.device, self.plan, self._section, self._write = device, plan, section, write
        self.started = time.time() if started is None else started

    @property
    def name(self) -> str:
        """The device as estimators are told of it."""
        return self.device.name if self.device.is_cuda else "torch-cpu"

    @contextmanager
    def case(self, **about: Any) -> Iterator[Row]:
        """A row to be filled; where that fails, it says why, and the next case goes on."""
        row: Row = {"section": self._section, **about}
        self.forget()
        try:
            yield row
        except Exception as error:  # whatever went wrong is the result
            row["failed"] = in_words(error)
        self._write(row)

    def forget(self) -> None:
        """Give back what is no longer held, and measure peaks from here."""
        if self.device.is_cuda:
            gc.collect()
            cuda = self.device.torch.cuda
            cuda.empty_cache()
            cuda.reset_peak_memory_stats(self.device.name)

    def wait(self) -> None:
        """Wait until the device has done all that it was told to do."""
        if self.device.is_cuda:
            self.device.torch.cuda.synchronize(self.device.name)

    def once(self, work: Callable[[], Any]) -> float:
        """Seconds of one run; on a GPU by its own clock."""
        if not self.device.is_cuda:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        cuda = self.device.torch.cuda
        first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        self.wait()
        first.record()
        work()
        last.record()
        self.wait()
        return float(first.elapsed_time(last)) / 1e3

    def seconds(self, work: Callable[[], Any], repeats: int | None = None) -> list[float]:
        """Seconds of some runs, after one that compiles and is not counted."""
        work()
        return [self.once(work) for _ in range(repeats or self.plan.repeats)]

    def wall(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds on the wall until the device is done, and what came of it."""
        self.wait()
        start = time.perf_counter()
        found = work()
        self.wait()
        return time.perf_counter() - start, found

    def memory(self) -> Row:
        """Peaks of memory in GB: on the device since the case began, of the process since its own beginning."""
        found: Row = {"host_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}
        if self.device.is_cuda:
            found["device_gb"] = self.device.torch.cuda.max_memory_allocated(self.device.name) / 1e9
        return found

    def points(self, n: int, d: int) -> Any:
        """Standard normal points of float32, as an array, shape (n, d)."""
        return np.random.default_rng(d).standard_normal((n, d), dtype=np.float32)

    def columns(self, n: int, k: int) -> Any:
        """Standard normal columns of float32, on the device, shape (n, k)."""
        return self.device.tensor(np.random.default_rng(1).standard_normal((n, k), dtype=np.float32))

    def sampled(self, n: int, count: int | None = None) -> Any:
        """Numbers of the rows that errors are measured on."""
        rows = np.random.default_rng(2).choice(n, min(n, count or self.plan.sampled), replace=False)
        return self.device.tensor(np.sort(rows))


def bandwidth_of(d: int) -> float:
    """A bandwidth at which all standard normal points of R^d have something to do with each other."""
    return 0.5 if d <= 3 else float(d)


def timing(times: list[float]) -> Row:
    """The median of some runs, their extremes, and their number."""
    return {"seconds": median(times), "fastest_s": min(times), "slowest_s": max(times), "runs": len(times)}


def in_words(error: BaseException) -> str:
    """What went wrong, without the places of files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}".replace(f"{ROOT}/", "").replace(str(Path.home()), "~")[:_MOST_WORDS]
