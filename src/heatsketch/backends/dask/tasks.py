"""Graphs of Dask tasks with readable names: what is persisted on the workers, and what is gathered.

Arrays as large as the data stay on the workers, in row chunks. Tasks run on the current `distributed.Client`, or on
threads without one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.base import get_scheduler
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.system import CPU_COUNT

from ..._utils.progress import task
from ..._utils.threads import alone

__all__ = [
    "Key",
    "Parts",
    "Plan",
    "current_client",
    "gathered",
    "n_workers",
    "on_every_worker",
    "persisted",
    "result",
    "same",
    "wait",
]

# Objects on the workers, one for each row chunk.
Parts = list[Any]
Key = tuple[Any, ...]
# Parts that are added up at a time: trees limit the memory of workers and the rounding.
_FAN_IN = 4


class Plan:
    """A task graph under construction. Tasks run on one thread each.

    Parameters
    ----------
    *sources : Dask arrays in row chunks, or lists of parts
        Inputs of the tasks; see `keys`.
    """

    def __init__(self, *sources: Any) -> None:
        self._token = uuid4().hex
        self._tasks: dict[Key, Any] = {}
        self._sources = [part for source in sources for part in (source if isinstance(source, list) else [source])]

    @staticmethod
    def keys(source: Any) -> list[Key]:
        """The keys of a source, one for each row chunk."""
        if isinstance(source, list):
            return [part.key for part in source]
        assert source.ndim == 1 or source.numblocks[1] == 1, "columns must be in one chunk"
        return [row if source.ndim == 1 else row[0] for row in source.__dask_keys__()]

    def add(self, label: str, index: Any, function: Callable[..., Any], *args: Any) -> Key:
        """Add the task with this number among those with this label on the dashboard, and return its key.

        Arguments of the function are keys, lists of keys, or values.
        """
        key = (f"{label}-{self._token}", *(index if isinstance(index, tuple) else (index,)))
        self._tasks[key] = (alone, function, *args)
        return key

    def share(self, value: Any) -> Key:
        """Add a task that holds a value which many tasks take, and return its key.

        A task is computed again if its worker dies; scattered data would be lost.
        """
        return self.add("shared", len(self._tasks), partial(same, value))

    def add_tree(self, label: str, index: Any, function: Callable[[list[Any]], Any], parts: list[Key]) -> Key:
        """Add tasks that combine parts as a tree; the last one has the label and the index."""
        level = 0
        while len(parts) > _FAN_IN:
            groups = [parts[at : at + _FAN_IN] for at in range(0, len(parts), _FAN_IN)]
            parts = [self.add(f"part-of-{label}", (index, level, g), function, group) for g, group in enumerate(groups)]
            level += 1
        return self.add(label, index, function, parts)

    def array(self, label: str, sizes: Sequence[int], n_columns: int | None, dtype: Any) -> Any:
        """The tasks of a label, numbered (chunk, 0), or by chunk for an array without columns, as a Dask array."""
        name = f"{label}-{self._token}"
        columns = () if n_columns is None else ((n_columns,),)
        return da.Array(self._graph(name), name, (tuple(sizes), *columns), dtype=np.dtype(dtype))

    def parts(self, label: str, indices: Sequence[int]) -> Parts:
        """Tasks of a label as objects on the workers."""
        name = f"{label}-{self._token}"
        graph = self._graph(name)
        return [Delayed((name, index), graph, layer=name) for index in indices]

    def _graph(self, name: str) -> Any:
        return HighLevelGraph.from_collections(name, self._tasks, dependencies=self._sources)


def same(value: Any) -> Any:
    """The value itself: a task that holds it, or gives it another name."""
    return value


def current_client() -> Any:
    """The current client of `distributed`; None for other schedulers."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scatter") else None


def on_every_worker(function: Callable[[], Any]) -> list[Any]:
    """What a function returns on each worker, or here without a cluster."""
    client = current_client()
    return [function()] if client is None else list(client.run(function).values())


def n_workers() -> int:
    """Threads of all workers, or of this machine without a cluster."""
    client = current_client()
    return int(CPU_COUNT) if client is None else max(1, sum(client.nthreads().values()))


def persisted(*collections: Any, name: str | None = None) -> Any:
    """Dask arrays, then lists of parts, computed on the workers and kept there while they are referenced.

    Arrays must come before lists: Dask mixes up the results of alternating kinds. With a name, which the progress
    display shows, wait for the results.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # it has 8 bytes for each row
        # Fused tasks lose their names, and one key would stand for different tasks in different graphs.
        done = dask.persist(*collections, optimize_graph=False)
    if name is not None:
        wait(done, name)
    return done[0] if len(collections) == 1 else done


def wait(collections: Any, name: str) -> None:
    """Wait for persisted collections; raise the error of a task that failed."""
    if current_client() is None:  # threads have finished
        return
    import distributed  # noqa: PLC0415 - installed where there is a client

    futures = distributed.futures_of(collections)
    with task(name) as advance:
        for done, future in enumerate(distributed.as_completed(futures), 1):
            advance(done, len(futures))
            if future.status != "finished":
                future.result()


def result(part: Any) -> Any:
    """The object of one persisted part, in this process."""
    if current_client() is None:
        return part.compute()
    import distributed  # noqa: PLC0415 - installed where there is a client

    [future] = distributed.futures_of(part)
    return future.result()


def gathered(*collections: Any) -> Any:
    """Small Dask arrays and lists of parts as arrays and objects in this process."""
    found = dask.compute(*collections, optimize_graph=False)
    return found[0] if len(collections) == 1 else found
