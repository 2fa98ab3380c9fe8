"""Work on several threads: NumPy, BLAS and compiled loops release the GIL while they run.

Results do not depend on the number of threads, to the last bit: BLAS is limited to one thread while heatsketch
computes, and sums are divided into pieces that are the same for any number of threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import Context
from functools import cache, lru_cache, partial
from itertools import chain, islice
from threading import Lock, local
from typing import Any

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from .chunks import chunks
from .typing import FloatArray

__all__ = ["Scratch", "alone", "each", "n_threads", "product", "quiet_blas", "shares", "workers"]

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]

# Multiplications above which a second thread pays off, and those of one piece of work.
_WORTHWHILE = 1 << 20
_SHARE = 1 << 24
# Row chunks of a matrix product: least number of rows (BLAS copies the other matrix for each), entries, and the number
# of columns beyond which chunks are smaller.
_CHUNK_ROWS, _CHUNK_ENTRIES, _CHUNK_COLUMNS = 128, 1 << 20, 64


def n_threads() -> int:
    """Threads to use: the available cores, or fewer if ``OMP_NUM_THREADS`` is set."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Cores that this process may use."""
    return max(1, int(cpu_count()))


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> list[Any]:  # noqa: ARG001
    """The BLAS libraries; looked up again after further modules, which may load another one, have been imported."""
    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


class _State(local):
    """State of the current thread."""

    is_quiet = False  # BLAS is limited to one thread already
    is_worker = False  # this thread is one of many that run in parallel


_here = _State()
# Threads that want a single-threaded BLAS, and the settings to restore after the last of them.
_lock = Lock()
_n_quiet = 0
_before: list[tuple[Any, int]] = []


@contextmanager
def quiet_blas() -> Iterator[None]:
    """Limit BLAS to one thread; its setting is restored when the last of several concurrent callers leaves.

    How BLAS divides a sum among its threads decides how it is rounded, and its threads spin for a while after a call,
    on cores that ours need. Public functions and methods run inside this limit; nested uses cost nothing. It is also
    a decorator. (``threadpool_limits`` alone would restore the wrong setting after overlapping calls.)
    """
    global _n_quiet  # noqa: PLW0603
    if _here.is_quiet:
        yield
        return
    with _lock:
        if not _n_quiet:
            _before[:] = [(library, library.num_threads) for library in _blas(len(sys.modules))]
        _n_quiet += 1
        for library, _ in _before:  # by every caller: OpenMP has one setting per thread
            _set_threads(library, 1)
    _here.is_quiet = True
    try:
        yield
    finally:
        _here.is_quiet = False
        with _lock:
            _n_quiet -= 1
            while _before and not _n_quiet:
                _set_threads(*_before.pop())


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads; recent versions of threadpoolctl let only the thread that set it first change it."""
    release = getattr(library, "clear_controlling_thread", lambda **_: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "heatsketch", _start_worker)


def _start_worker() -> None:
    _here.is_worker = _here.is_quiet = True
    for library in _blas(len(sys.modules)):
        if getattr(library, "threading_layer", "") == "openmp":  # one setting per thread
            library.set_num_threads(1)


def _after_fork() -> None:
    """Forget the parent's other threads, which do not exist in the child."""
    global _lock, _n_quiet
    _executor.cache_clear()
    _lock, _n_quiet = Lock(), int(_here.is_quiet)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def alone(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` on this thread only, for callers that run in parallel themselves, such as Dask's tasks."""
    was, _here.is_worker = _here.is_worker, True
    try:
        with quiet_blas():
            return function(*args)
    finally:
        _here.is_worker = was


@contextmanager
def workers(threads: int | None = None, *, blas: bool = True) -> Iterator[Map]:
    """A ``map(function, items)`` on several threads, `n_threads` by default.

    It yields the results in the order of the items, which are taken as needed, a few ahead of the results. An error
    cancels what has not begun. `blas` says whether the work calls BLAS, which is then limited to one thread.
    """
    threads = n_threads() if threads is None else threads
    with quiet_blas() if blas else nullcontext():
        # Nested work stays on its thread: a worker that waited for other workers could wait forever.
        yield map if threads == 1 or _here.is_worker else partial(_map_ahead, threads)


def _map_ahead(threads: int, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
    executor, waiting = _executor(threads), iter(items)
    pending: deque[Future[Any]] = deque()
    try:
        pending.extend(executor.submit(function, item) for item in islice(waiting, 2 * threads))
        while pending:
            result = pending[0].result()
            pending.popleft()
            pending.extend(executor.submit(function, item) for item in islice(waiting, 1))
            yield result
    finally:
        for future in pending:
            future.cancel()
        wait(pending)  # calls that have begun may write to arrays that the caller is about to use


def each(function: Callable[..., Any], items: Iterable[Any], *, threads: int | None = None, blas: bool = True) -> None:
    """Call ``function(item)`` for every item, on several threads; see `workers`. A single item stays on this thread."""
    items = iter(items)
    first = list(islice(items, 2))
    items = chain(first, items)
    with quiet_blas() if blas else nullcontext():
        if len(first) < 2 or _here.is_worker or (n := threads or n_threads()) == 1:
            deque(map(function, items), maxlen=0)
        else:
            _share(n, function, items)


def _share(threads: int, function: Callable[..., Any], items: Iterator[Any]) -> None:
    """Call a function for every item, on this thread and others; little work is done before others have begun."""
    lock, end, stopped = Lock(), object(), False

    def work() -> None:
        nonlocal stopped
        try:
            while True:
                with lock:
                    item = end if stopped else next(items, end)
                if item is end:
                    return
                function(item)
        except BaseException:
            stopped = True
            raise

    def work_here() -> None:
        _here.is_worker = True
        try:
            work()
        finally:
            _here.is_worker = False

    executor = _executor(threads)
    others = [executor.submit(work) for _ in range(threads - 1)]
    try:
        Context().run(work_here)  # without the display of progress, as on other threads
        for other in others:
            if not other.cancel():
                other.result()
    finally:  # calls that have begun may write to arrays that the caller is about to use
        stopped = True
        for other in others:
            other.cancel()
        wait(others)


def product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` for matrices (m, n) and (n, k), on several threads, in row chunks independent of their number."""
    (m, n), k = A.shape, B.shape[1]
    out = np.empty((m, k), dtype=np.result_type(A, B))
    size = max(_CHUNK_ROWS, _CHUNK_ENTRIES // max(1, n * (1 + k // _CHUNK_COLUMNS)))
    each(lambda rows: np.matmul(A[rows], B, out=out[rows]), chunks(m, 1, size))
    return out


def shares(n_items: int, work_per_item: int = 1, *, threads: int | None = None) -> Iterator[slice]:
    """Slices of equal size that cover ``range(n_items)``: a few for each thread, so that all finish together.

    The work per item is in multiplications; little work stays in one piece.

    Examples
    --------
    >>> from heatsketch._utils.threads import shares
    >>> list(shares(10, 1 << 20, threads=2))
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None), slice(9, 10, None)]
    """
    work, pieces = n_items * work_per_item, 1
    if work > _WORTHWHILE and (n := threads or n_threads()) > 1:
        pieces = max(2 * n, work // _SHARE)
    return chunks(n_items, 1, max(1, -(-n_items // pieces)))


class Scratch(local):
    """Buffers that each thread reuses: allocating memory for every tile would cost more than its arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, FloatArray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> FloatArray:
        """An uninitialised array."""
        size, key = shape[0] * shape[1], f"{name} {np.dtype(dtype)}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype=dtype)
        return self._buffers[key][:size].reshape(shape)
