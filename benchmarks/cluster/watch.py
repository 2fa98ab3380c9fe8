"""What is measured on the workers themselves: memory while something runs, and bytes that left them."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

__all__ = ["begin", "bytes_sent", "end", "warm_up"]

_EVERY = 0.02
_samplers: dict[str, Any] = {}


def warm_up() -> int:
    """Import and compile what a product takes, so that it is there before anything is measured."""
    from heatsketch import GaussianProcessEmbedding, datasets  # noqa: PLC0415
    from heatsketch.linalg.operators import TiledGaussianOperator  # noqa: PLC0415

    X = datasets.circle(600, random_state=0)
    for n_neighbors in (None, 8):
        GaussianProcessEmbedding(power=2, n_neighbors=n_neighbors, random_state=0).fit(X)
    for columns in (8, 32):
        TiledGaussianOperator(X, 0.1, threads=1).matmat(X[:, :1].repeat(columns, axis=1))
    wide = np.random.default_rng(0).normal(size=(600, 10))
    TiledGaussianOperator(wide, 1.0, threads=1).matmat(wide)
    return len(X)


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
