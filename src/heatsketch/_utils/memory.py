"""What the machine has to give."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["address_space", "available_memory", "size_in_words"]

# Of a limited address space: what the stacks of threads, their pools of memory and compiled code take beside the data.
_BESIDE = 256 << 20


def available_memory() -> int:
    """Bytes of memory that a computation may take: what is at hand, or less where a limit is set on the process.

    Examples
    --------
    >>> from heatsketch._utils.memory import available_memory
    >>> available_memory() > 0
    True
    """
    limits = [_free_memory(), *_control_groups(), address_space() - _BESIDE]
    return max(1, min(limits))


def size_in_words(size: float) -> str:
    """A size in words, such as '1.5 GB'."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(size, 0) / 1e3:.0f} kB"


def _free_memory() -> int:
    """What is free, where the system tells; else all there is, or no limit."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _control_groups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """What is left of the limits on the groups that the process is in, and on those above them."""
    groups = {}  # a group above several of those listed is asked once
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    for line in [*lines, "0::/", "0:memory:/"]:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base = root / "memory" if controllers else root
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        group = base / path.strip("/")
        for folder in (group, *group.parents):
            if folder != base and base not in folder.parents:
                break
            groups[folder] = names
    return [left for folder, names in groups.items() for left in _left(folder, *names)]


def _left(folder: Path, limit: str, used: str) -> list[int]:
    """What a group may still take; pages of files that were read are given back when they are needed."""
    try:
        most = (folder / limit).read_text().strip()
        if not most.isdigit() or int(most) > sys.maxsize // 2:  # "max", or as many pages as can be counted: no limit
            return []
        now = int((folder / used).read_text())
        pages = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []
    files = int(pages.get("inactive_file", 0)) + int(pages.get("active_file", 0))
    return [max(0, int(most) - now + files)]


def address_space() -> int:
    """Bytes that are left of ``ulimit -v``; very many where there is no limit."""
    try:
        import resource  # noqa: PLC0415

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return sys.maxsize
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, OSError):
        return sys.maxsize
