"""Work as tasks of Dask: graphs with names that a person can read, what stays on the workers, what comes back.

Everything that is as large as the data stays on the workers, in bands of rows. The engine is the `distributed.Client`
that is current, or threads where there is none. This is the one place that knows of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from ..._utils.extras import optional
from ..._utils.progress import task
from ..._utils.threads import alone
from ..._utils.typing import IntArray

__all__ = [
    "Parts",
    "Plan",
    "at_hand",
    "cluster",
    "current_client",
    "everywhere",
    "gathered",
    "mapped",
    "n_workers",
    "on_chunks",
    "on_every_worker",
    "pick",
    "same",
    "settled",
    "started",
    "summed",
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
        assert source.ndim == 1 or source.numblocks[1] == 1, "blocks are in bands of whole rows"
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
        notes = {"priority": partial(_urgency_of, self._urgency)} if self._urgency else None
        layer = module.MaterializedLayer(self._tasks, annotations=notes)
        return module.HighLevelGraph.from_collections(name, layer, dependencies=self._sources)


def same(value: Any) -> Any:
    """A value as it is: the task of what many others take, so that it is sent once, or of what gets another name."""
    return value


def _urgency_of(urgency: dict[Key, int], key: Key) -> int:
    return urgency.get(key, 0)


def current_client() -> Any:
    """The client of `distributed` that is current, or None, also where another scheduler was asked for."""
    distributed = sys.modules.get("distributed")
    asked = _dask().config.get("scheduler", None)
    if distributed is not None and isinstance(asked, distributed.Client):
        return asked
    if distributed is None or asked not in (None, "distributed", "dask.distributed"):
        return None
    try:
        return distributed.client.default_client()
    except ValueError:
        return None


def cluster() -> str | None:
    """The address of the scheduler that is current; None where there is no cluster."""
    client = current_client()
    return None if client is None or client.scheduler is None else str(client.scheduler.address)


def at_hand(address: str) -> bool:
    """Whether what lies on a cluster is within reach: for its clients, and on its workers."""
    distributed = sys.modules.get("distributed")
    workers = () if distributed is None else distributed.Worker._instances
    running = [worker for worker in workers if worker.status.name == "running"]
    return address == cluster() or any(address == worker.scheduler.address for worker in running)


def everywhere(value: Any) -> Any:
    """An object that many tasks take, sent to each worker once; itself where there is no cluster."""
    client = current_client()
    return value if client is None else client.scatter(value, broadcast=True, hash=False)


def on_every_worker(function: Callable[[], Any]) -> list[Any]:
    """What a function returns on each worker, or here where there is no cluster."""
    client = current_client()
    return [function()] if client is None else list(client.run(function).values())


def n_workers() -> int:
    """Threads of all workers, or of this machine where there is no cluster."""
    client = current_client()
    if client is None:
        return int(_dask("dask.system").CPU_COUNT)
    return max(1, int(sum(client.nthreads().values())))


def settled(*collections: Any, name: str = "computing on the workers") -> Any:
    """Dask arrays, and lists of parts, computed and held on the workers; anything else as it is.

    What is not referred to any more is released. One argument gives one result, several a list.
    """
    return _held(collections, name, wait=True)


def _held(collections: tuple[Any, ...], name: str, *, wait: bool) -> Any:
    flat, shape = _flattened(collections)
    places = [i for i, item in enumerate(flat) if hasattr(item, "__dask_graph__")]
    # Collections of one kind one after the other: Dask mixes up the results of kinds that alternate.
    places.sort(key=lambda i: type(flat[i]).__name__)
    if places:
        # Tasks that are fused lose their names and their urgency, and one key would stand for different tasks in
        # different graphs, which confuses the scheduler.
        with _explained(name):
            done = list(_dask().persist(*(flat[i] for i in places), optimize_graph=False))
            if wait:
                _wait(_futures(done), name)
        for i, item in zip(places, done, strict=True):
            flat[i] = item
    return _restored(flat, shape)


def _flattened(collections: tuple[Any, ...]) -> tuple[list[Any], list[int | None]]:
    """Collections with lists of parts laid out, and how many parts each list has; None for what is no list."""
    shape = [len(one) if isinstance(one, list) else None for one in collections]
    return [item for one in collections for item in (one if isinstance(one, list) else [one])], shape


def _restored(flat: list[Any], shape: list[int | None]) -> Any:
    """The inverse of `_flattened`; a single collection comes without a list around it."""
    items = iter(flat)
    out = [next(items) if count is None else [next(items) for _ in range(count)] for count in shape]
    return out[0] if len(out) == 1 else out


def _futures(collections: list[Any]) -> list[Any]:
    distributed = sys.modules.get("distributed")
    return [] if distributed is None else list(distributed.futures_of(collections))


def started(*collections: Any, name: str = "computing on the workers") -> Any:
    """The same without waiting: what is computed next may need it, and waits for it where it runs.

    Where there is no cluster, there is nothing but waiting.
    """
    return _held(collections, name, wait=False)


def waited_for(parts: Parts, *, name: str) -> None:
    """Wait for parts that were `started`; a task that failed raises its error."""
    with _explained(name):
        _wait(_futures(parts), name)


def gathered(*collections: Any, name: str = "computing on the workers") -> Any:
    """Small Dask arrays, and lists of parts, as arrays and objects of this process; anything else as it is."""
    flat, shape = _flattened(collections)
    lazy = [item for item in flat if hasattr(item, "__dask_graph__")]
    if not lazy:
        return collections[0] if len(collections) == 1 else list(collections)
    with _explained(name):
        client = current_client()
        if client is None:
            found = iter(_dask().compute(*lazy, optimize_graph=False))
        else:
            futures = client.compute(lazy, optimize_graph=False)
            _wait(futures, name)  # to fetch results would wait forever where there are no workers
            found = iter(client.gather(futures))
    return _restored([next(found) if hasattr(item, "__dask_graph__") else item for item in flat], shape)


def on_chunks(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """``function(*chunks)`` for each band of arrays, gathered; what it returns must be small."""
    label, plan = function.__name__.strip("_").replace("_", "-"), Plan(*arrays)
    for b, chunks in enumerate(zip(*map(plan.keys, arrays), strict=True)):
        plan.add(label, b, function, *chunks)
    return list(gathered(plan.parts(label, range(len(arrays[0].chunks[0])))))


def mapped(label: str, function: Callable[..., Any], V: Any, *others: Any) -> Any:
    """``function(chunk, *other chunks)`` for each band, planned: an array like V, one task for each band.

    Others are arrays in the same bands, or a part that all tasks take.
    """
    plan, part, n_bands = Plan(V, *others), _dask("dask.delayed").Delayed, len(V.chunks[0])
    lists = [[other.key] * n_bands if isinstance(other, part) else plan.keys(other) for other in others]
    for b, keys in enumerate(zip(plan.keys(V), *lists, strict=True)):
        plan.add(label, b if V.ndim == 1 else (b, 0), function, *keys)
    return plan.array(label, V.chunks[0], None if V.ndim == 1 else V.shape[1], V.dtype)


def summed(label: str, function: Callable[..., Any], *arrays: Any) -> Any:
    """The sum over all bands of ``function(*chunks)``, a small array, planned."""
    plan = Plan(*arrays)
    parts = [
        plan.add(label, b, function, *chunks) for b, chunks in enumerate(zip(*map(plan.keys, arrays), strict=True))
    ]
    plan.add(f"sum-of-{label}", 0, _sum, parts)
    return plan.parts(f"sum-of-{label}", [0])[0]


def _sum(parts: list[Any]) -> Any:
    return np.sum(parts, axis=0)


def pick(V: Any, rows: IntArray) -> Any:
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


def _wait(futures: list[Any], name: str) -> None:
    """Wait for work on a cluster; a task that failed raises its error."""
    client = current_client()
    if client is None or not futures:  # threads have done it already
        return
    distributed = sys.modules["distributed"]
    deserted: float | None = None
    _give_way()
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
        if future.status in ("error", "cancelled"):
            future.result()  # raises the error of the task


def _give_way() -> None:
    """Where this is itself a task on a worker, leave its thread to others: what is waited for may need it.

    The task goes on beside them until it ends, as tasks do that start others; to get a thread back takes a second each
    time, and there is much to wait for.
    """
    distributed = sys.modules["distributed"]
    # False for a task that has done so already, and absent where there is no task.
    if getattr(distributed.threadpoolexecutor.thread_state, "proceed", False):
        distributed.secede()


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
