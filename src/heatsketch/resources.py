"""What the machine has to give."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "gigabytes"]


def available_memory() -> int:
    """Bytes of memory that a computation may take: what is free, or less where a limit is set on the process.

    Examples
    --------
    >>> from heatsketch.resources import available_memory
    >>> available_memory() > 0
    True
    """
    limits = [_free_memory(), *_control_groups(), *_address_space()]
    return max(1, min(limits))


def gigabytes(size: float) -> str:
    """A size in words, such as '1.5 GB'."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(size, 0) / 1e3:.0f} kB"


def _free_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _control_groups() -> list[int]:
    """What is left of the limits that a container sets."""
    found = []
    for root, limit, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, now = ((Path(root) / name).read_text().strip() for name in (limit, used))
        except OSError:
            continue
        if most.isdigit():
            found.append(max(0, int(most) - int(now)))
    return found


def _address_space() -> list[int]:
    """What is left of ``ulimit -v``."""
    try:
        import resource  # noqa: PLC0415

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return [max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))]
    except (ImportError, OSError):
        return []
