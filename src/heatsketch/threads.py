"""Work shared among threads: NumPy, BLAS and compiled loops all let go of the interpreter while they run."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache, partial
from itertools import chain, islice
from threading import Lock, local
from typing import Any

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from ._typing import FloatArray
from .chunks import chunks

__all__ = ["Map", "Scratch", "alone", "each", "n_threads", "product", "quiet_blas", "shares", "workers"]

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]

# The variable by which users and joblib's workers say how many threads numerical code may use.
_LIMIT = "OMP_NUM_THREADS"
# Multiplications that are worth handing to another thread, and those that it does at a time.
_WORTHWHILE = 1 << 20
_SHARE = 1 << 24
# A matrix is multiplied in bands of at least so many rows, so that BLAS does not copy the other one for a few, and of
# about so many entries, or fewer where there are more columns than these.
_BAND_ROWS, _BAND_ENTRIES, _BAND_COLUMNS = 128, 1 << 20, 64


def n_threads() -> int:
    """Threads to use: the cores at hand, or fewer where ``OMP_NUM_THREADS`` says so.

    Examples
    --------
    >>> from heatsketch.threads import n_threads
    >>> n_threads() >= 1
    True
    """
    limit = os.environ.get(_LIMIT, "").split(",")[0].strip()
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Cores that this process may use. Asking the system takes as long as many a product."""
    return max(1, int(cpu_count()))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them would cost more than many a product."""
    return ThreadPoolExecutor(threads, thread_name_prefix="heatsketch", initializer=_mark_worker)


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """The BLAS libraries at hand, looked up again only when modules, which may bring one, have been imported since."""
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=1)
def _blas_by_openmp(n_modules: int) -> ThreadpoolController:
    """Those of which every thread has a number of its own."""
    return _blas(n_modules).select(threading_layer="openmp")


@contextmanager
def quiet_blas() -> Iterator[None]:
    """Hold BLAS to one thread, and give it back its threads when the last of those who asked for it is done.

    How BLAS divides a sum among its threads decides how it is rounded. Whatever users call does its work in here, and
    is parallel by jobs that are the same for every number of threads: so results are the same to the last bit. Besides,
    after a call BLAS's threads go on spinning for a while, on cores that ours need.

    The setting belongs to the whole process: fits that overlap in time must not restore each other's.
    """
    with _quiet_here(), _quiet_everywhere():
        yield


@contextmanager
def _quiet_here() -> Iterator[None]:
    """Hold BLAS by OpenMP to one thread where this thread calls it."""
    if getattr(_here, "is_quiet", False):
        yield
        return
    limit = _blas_by_openmp(len(sys.modules)).limit(limits=1)
    _here.is_quiet = True
    try:
        yield
    finally:
        _here.is_quiet = False
        limit.restore_original_limits()


@contextmanager
def _quiet_everywhere() -> Iterator[None]:
    with _lock:
        if _asking["now"] == 0:
            libraries = _blas(len(sys.modules))
            _take_over(libraries)
            _asking["limit"] = libraries, libraries.limit(limits=1)
        _asking["now"] += 1
    try:
        yield
    finally:
        with _lock:
            _asking["now"] -= 1
            if _asking["now"] == 0:
                libraries, limit = _asking.pop("limit")
                _take_over(libraries)  # whoever asked first may have been another thread
                limit.restore_original_limits()
                _take_over(libraries)


def _take_over(libraries: ThreadpoolController) -> None:
    """Let this thread set the number of BLAS's threads.

    In newer versions of threadpoolctl one thread alone may, the first that did; what others set has no effect.
    """
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_lock = Lock()
_asking: dict[str, Any] = {"now": 0}


def alone(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` on this thread alone, where many such calls are the parallel part, as in a task of Dask."""
    was = getattr(_here, "is_worker", False)
    _here.is_worker = True
    try:
        with quiet_blas():
            return function(*args)
    finally:
        _here.is_worker = was


def _mark_worker() -> None:
    _here.is_worker = _here.is_quiet = True
    _blas_by_openmp(len(sys.modules)).limit(limits=1)


_here = local()
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def workers(threads: int | None = None, *, blas: bool = True) -> Iterator[Map]:
    """Threads for several rounds of work.

    BLAS is held to one thread meanwhile: the jobs are the parallel part, and a sum whose order does not depend on the
    number of threads is the same everywhere.

    Parameters
    ----------
    threads : int, optional
        `n_threads` by default.
    blas : bool
        Whether jobs may call BLAS; if not, it need not be told.

    Yields
    ------
    map : callable
        ``map(function, jobs)``, an iterator over the results in the order of the jobs. Jobs are taken as they are
        needed, a few ahead of the results. One that raises stops the rest; so does an interrupt.
    """
    threads = n_threads() if threads is None else threads
    with quiet_blas() if blas else nullcontext():
        if threads == 1 or getattr(_here, "is_worker", False):  # a worker that waited for workers might wait forever
            yield map
        else:
            yield partial(_ahead, _pool(threads), threads)


def _ahead(pool: ThreadPoolExecutor, threads: int, function: Callable[..., Any], jobs: Iterable[Any]) -> Iterator[Any]:
    waiting = iter(jobs)
    pending: deque[Future[Any]] = deque(pool.submit(function, job) for job in islice(waiting, 2 * threads))
    try:
        while pending:
            result = pending[0].result()
            pending.popleft()  # only now: until it is done, an interrupt must wait for it
            pending.extend(pool.submit(function, job) for job in islice(waiting, 1))
            yield result
    finally:
        for future in pending:
            future.cancel()
        wait(pending)  # what has begun may hold on to arrays that the caller is about to use


def each(function: Callable[..., Any], jobs: Iterable[Any], *, threads: int | None = None, blas: bool = True) -> None:
    """Call ``function(job)`` for every job, on several threads; see `workers`. A single job stays on this one."""
    jobs = iter(jobs)
    first = list(islice(jobs, 2))
    with workers(1 if len(first) == 1 else threads, blas=blas) as share:
        for _ in share(function, chain(first, jobs)):
            pass


def product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` for matrices (m, n) and (n, k), on several threads, in bands that do not depend on their number.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch.threads import product
    >>> product(np.ones((2, 3)), np.eye(3)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    (m, n), k = A.shape, B.shape[1]
    out = np.empty((m, k), dtype=np.result_type(A, B))
    rows = max(_BAND_ROWS, _BAND_ENTRIES // max(1, n * (1 + k // _BAND_COLUMNS)))
    each(lambda band: np.matmul(A[band], B, out=out[band]), chunks(m, 1, rows))
    return out


def shares(n_items: int, work_per_item: int = 1, *, threads: int | None = None) -> Iterator[slice]:
    """Slices of equal size that cover ``range(n_items)``: a few for each thread, so that all end at the same time.

    Parameters
    ----------
    n_items : int
    work_per_item : int
        Multiplications, or what takes as long. Work that is done sooner than handed over stays in one piece.
    threads : int, optional
        `n_threads` by default.

    Examples
    --------
    >>> from heatsketch.threads import shares
    >>> list(shares(10, 1 << 20, threads=2))
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None), slice(9, 10, None)]
    """
    threads = n_threads() if threads is None else threads
    work = n_items * work_per_item
    pieces = 1 if threads == 1 or work <= _WORTHWHILE else max(2 * threads, work // _SHARE)
    step = max(1, -(-n_items // pieces))
    for start in range(0, n_items, step):
        yield slice(start, min(n_items, start + step))


class Scratch(local):
    """Arrays that each thread uses again and again: fresh memory for every tile would cost more than its arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, FloatArray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> FloatArray:
        """An uninitialised array; what it held before is lost."""
        size, key = shape[0] * shape[1], f"{name} {np.dtype(dtype)}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype=dtype)
        return self._buffers[key][:size].reshape(shape)
