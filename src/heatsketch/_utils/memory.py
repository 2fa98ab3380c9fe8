"""Available memory, and sizes for messages."""

from __future__ import annotations

from pathlib import Path

import psutil

__all__ = ["available_memory", "size_in_words"]

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available_memory() -> int:
    """Available memory in bytes, within the limits of a container or a batch system (control groups, version 2)."""
    free = int(psutil.virtual_memory().available)
    return max(1, min([free, *(left for group in _control_groups() if (left := _left(group)) is not None)]))


def _control_groups() -> list[Path]:
    """The control group of this process, and those that contain it."""
    try:
        own = next((line[3:] for line in _OWN.read_text().splitlines() if line.startswith("0::")), "/")
    except OSError:  # not on Linux
        return []
    inside = [part for part in own.split("/") if part not in ("", "..")]
    return [_CGROUPS.joinpath(*inside[:depth]) for depth in range(len(inside) + 1)]


def _left(group: Path) -> int | None:
    """Bytes that a control group may still use, None without a limit; to exceed it kills the process."""
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or no limit ("max")
        return None
    return limit - used + int(statistics["file"])  # the page cache is reclaimed when needed


def size_in_words(size: float) -> str:
    """A size with its unit, such as '1.5 GB'."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(size, 0) / 1e3:.0f} kB"
