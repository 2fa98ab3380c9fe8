"""Available memory, and sizes for messages."""

from __future__ import annotations

from pathlib import Path

import psutil

__all__ = ["available_memory", "size_in_words"]

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Available memory in bytes, within the memory limit of a container."""
    free = int(psutil.virtual_memory().available)
    try:  # psutil reports the memory of the host, and exceeding a container's limit kills the process
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        statistics = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or no limit ("max")
        return free
    return max(1, min(free, limit - used + int(statistics["file"])))  # the page cache is reclaimed when needed


def size_in_words(size: float) -> str:
    """A size with its unit, such as '1.5 GB'."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(size, 0) / 1e3:.0f} kB"
