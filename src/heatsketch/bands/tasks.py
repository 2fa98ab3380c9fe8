"""Work as tasks of Dask: graphs with names that a person can read, what stays on the workers, what comes back.

Everything that is as large as the data stays on the workers, in bands of rows. The engine is the `distributed.Client`
that is current, or threads where there is none. This is the one place that knows of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..extras import optional
from ..progress import task
from ..threads import alone

__all__ = [
    "Parts",
    "Plan",
    "current_client",
    "everywhere",
    "gathered",
    "n_workers",
    "pick",
    "settled",
    "started",
    "waited_for",
]

# Objects on the workers, one for each band.
Parts = list[Any]
Key = tuple[Any, ...]

# Seconds between looks at work that is under way, and without any worker until it is given up.
_LOOK, _ABANDONED = 0.5, 300.0


def _dask(module: str = "dask") -> Any:
    return optional(module, "compute on a cluster", "dask")


class Plan:
    """A graph of tasks in the making.

    Tasks run on one thread each: the tasks are the parallel part.

    Parameters
    ----------
    *sources : Dask arrays in bands of rows, or lists of parts
        What the tasks take; see `keys`.
    """

    def __init__(self, *sources: Any) -> None:
        self._token = uuid4().hex
        self._tasks: dict[Key, Any] = {}
        self._urgency: dict[Key, int] = {}
        self._sources = [part for source in sources for part in (source if isinstance(source, list) else [source])]

    @staticmethod
    def keys(source: Any) -> list[Key]:
        """The keys of a source, one for each band."""
        if isinstance(source, list):
            return [part.key for part in source]
        return [row if source.ndim == 1 else row[0] for row in source.__dask_keys__()]

    def add(self, label: str, index: Any, function: Callable[..., Any], *args: Any, urgency: int = 0) -> Key:
        """Add a task and return its key.

        Parameters
        ----------
        label : str
            What the dashboard calls it.
        index : hashable
            Which of the tasks of this label it is.
        function : callable
            Of a module, so that workers find it.
        *args
            Keys, lists of keys, or values.
        urgency : int
            Tasks with a larger one run first.
        """
        key = (f"{label}-{self._token}", *(index if isinstance(index, tuple) else (index,)))
        self._tasks[key] = (alone, function, *args)
        if urgency:
            self._urgency[key] = urgency
        return key

    def array(self, label: str, sizes: Sequence[int], n_columns: int | None, dtype: Any) -> Any:
        """The tasks of a label, numbered (band, 0), or by band for an array without columns, as a Dask array."""
        name = f"{label}-{self._token}"
        columns = () if n_columns is None else ((n_columns,),)
        array = _dask("dask.array").Array
        return array(self._graph(name), name, (tuple(sizes), *columns), dtype=np.dtype(dtype))

    def parts(self, label: str, indices: Sequence[Any]) -> Parts:
        """Tasks of a label as objects that stay on the workers."""
        name = f"{label}-{self._token}"
        graph, delayed = self._graph(name), _dask("dask.delayed").Delayed
        keys = [(name, *(index if isinstance(index, tuple) else (index,))) for index in indices]
        return [delayed(key, graph, layer=name) for key in keys]

    def _graph(self, name: str) -> Any:
        module = _dask("dask.highlevelgraph")
        notes = {"priority": self._urgency_of} if self._urgency else None
        layer = module.MaterializedLayer(self._tasks, annotations=notes)
        return module.HighLevelGraph.from_collections(name, layer, dependencies=self._sources)

    def _urgency_of(self, key: Key) -> int:
        return self._urgency.get(key, 0)


def current_client() -> Any:
    """The client of `distributed` that is current, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.client.default_client()
    except ValueError:
        return None


def everywhere(value: Any) -> Any:
    """An object that many tasks take, sent to each worker once; itself where there is no cluster."""
    client = current_client()
    return value if client is None else client.scatter(value, broadcast=True, hash=False)


def n_workers() -> int:
    """Threads of all workers, or of this machine where there is no cluster."""
    client = current_client()
    if client is None:
        return int(_dask("dask.system").CPU_COUNT)
    return max(1, int(sum(client.nthreads().values())))


def settled(*collections: Any, name: str = "waiting for the workers") -> Any:
    """Dask arrays and parts, computed and held on the workers; anything else as it is.

    What is not referred to any more is released. One argument gives one result, several a list.
    """
    flat: list[Any] = []
    for collection in collections:
        flat.extend(collection if isinstance(collection, list) else [collection])
    places = [i for i, item in enumerate(flat) if hasattr(item, "__dask_graph__")]
    # Collections of one kind one after the other: Dask mixes up the results of kinds that alternate.
    places.sort(key=lambda i: type(flat[i]).__name__)
    if places:
        # Tasks that are fused lose their names and their urgency, and one key would stand for different tasks in
        # different graphs, which confuses the scheduler.
        with _explained(name):
            done = list(_dask().persist(*(flat[i] for i in places), optimize_graph=False))
            _wait(done, name)
        for i, item in zip(places, done, strict=True):
            flat[i] = item
    results = iter(flat)
    out = [[next(results) for _ in one] if isinstance(one, list) else next(results) for one in collections]
    return out[0] if len(out) == 1 else out


def started(parts: Parts, *, name: str) -> Parts:
    """Parts whose computation has begun; `waited_for` waits for its end."""
    with _explained(name):
        return list(_dask().persist(*parts, optimize_graph=False))


def waited_for(parts: Parts, *, name: str) -> None:
    """Wait for parts that were `started`; a task that failed raises its error."""
    with _explained(name):
        _wait(parts, name)


def gathered(*collections: Any, name: str = "waiting for the workers") -> Any:
    """Small Dask arrays and parts as arrays and objects of this process; anything else as it is."""
    if not any(isinstance(item, list) or hasattr(item, "__dask_graph__") for item in collections):
        return collections[0] if len(collections) == 1 else list(collections)
    with _explained(name):
        out = _dask().compute(*collections, optimize_graph=False)
    return out[0] if len(out) == 1 else list(out)


def pick(V: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a Dask array, in any order, gathered; they must be few."""
    wanted, where = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
    V = V.rechunk({1: -1}) if V.ndim == 2 else V
    starts = np.concatenate([[0], np.cumsum(V.chunks[0])])
    plan = Plan(V)
    bands = np.searchsorted(starts, wanted, side="right") - 1
    touched = np.unique(bands)
    for b in touched:
        plan.add("pick-rows", int(b), np.take, plan.keys(V)[b], wanted[bands == b] - starts[b], 0)
    parts = gathered(*plan.parts("pick-rows", [int(b) for b in touched]))
    return np.concatenate(parts if len(touched) > 1 else [parts])[where.reshape(-1)]


def _wait(collections: list[Any], name: str) -> None:
    """Wait for work on a cluster; a task that failed raises its error."""
    client = current_client()
    if client is None:  # threads have done it already
        return
    distributed = sys.modules["distributed"]
    futures = distributed.futures_of(collections)
    deserted: float | None = None
    with task(name) as advance:
        while True:
            try:
                distributed.wait(futures, timeout=_LOOK)
                break
            except (TimeoutError, distributed.TimeoutError):
                advance(sum(future.done() for future in futures), len(futures))
            deserted = None if client.nthreads() else deserted or time.monotonic()
            if deserted is not None and time.monotonic() - deserted > _ABANDONED:
                raise RuntimeError(
                    f"the cluster has had no worker for {_ABANDONED:.0f} s ({name}); start workers and fit again."
                )
    for future in futures:
        if future.status != "finished":
            future.result()  # raises the error of the task


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Errors of the cluster in words; those of tasks as they are."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            raise RuntimeError(
                f"workers died again and again in the same task ({name}), mostly for want of memory: {error}. Give "
                "each worker more memory or fewer threads, or ask for fewer components."
            ) from error
        if kind in ("FutureCancelledError", "CancelledError", "CommClosedError"):
            raise RuntimeError(
                f"what was held on the cluster is lost ({name}): {error}. The scheduler was stopped or restarted, or "
                "data were scattered to a worker that died; fit again on data that can be read again."
            ) from error
        raise
