"""What is measured on the workers themselves: memory while something runs, and bytes that left them."""

from __future__ import annotations

import threading
import time
from typing import Any

__all__ = ["begin", "bytes_sent", "end"]

_EVERY = 0.02
_samplers: dict[str, Any] = {}


def begin() -> int:
    """Start to look at this process's memory; returns what it holds now, in bytes."""
    import psutil  # noqa: PLC0415

    process, stop = psutil.Process(), threading.Event()
    _samplers["peak"] = process.memory_info().rss
    before = _samplers["peak"]

    def look() -> None:
        while not stop.is_set():
            _samplers["peak"] = max(_samplers["peak"], process.memory_info().rss)
            time.sleep(_EVERY)

    thread = threading.Thread(target=look, daemon=True)
    _samplers["stop"] = stop
    thread.start()
    return int(before)


def end() -> int:
    """Stop looking; the most that this process held meanwhile, in bytes."""
    _samplers["stop"].set()
    return int(_samplers["peak"])


def bytes_sent(dask_worker: Any) -> int:
    """Bytes that a worker has sent to others."""
    return int(dask_worker.transfer_outgoing_bytes_total)
