"""Work shared among threads: NumPy, BLAS and compiled loops release the GIL while they run.

Results do not depend on the number of threads, to the last bit: BLAS is limited to one thread while heatsketch
computes, and work is divided into pieces that are the same for any number of threads.
"""

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

from .chunks import chunks
from .typing import FloatArray

__all__ = ["Scratch", "alone", "each", "n_threads", "product", "quiet_blas", "shares", "workers"]

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]

# The variable by which users and joblib's workers limit the threads of numerical code.
_LIMIT = "OMP_NUM_THREADS"
# Multiplications from which on a second thread pays off, and those of one piece of work.
_WORTHWHILE = 1 << 20
_SHARE = 1 << 24
# Rows of a band of a matrix product at least, so that BLAS does not copy the other matrix for a few rows; entries of a
# band, and the number of columns beyond which bands are smaller.
_BAND_ROWS, _BAND_ENTRIES, _BAND_COLUMNS = 128, 1 << 20, 64


def n_threads() -> int:
    """Threads to use: the available cores, or fewer if ``OMP_NUM_THREADS`` is set.

    Examples
    --------
    >>> from heatsketch._utils.threads import n_threads
    >>> n_threads() >= 1
    True
    """
    limit = os.environ.get(_LIMIT, "").split(",")[0].strip()
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Cores that this process may use."""
    return max(1, int(cpu_count()))


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> tuple[list[Any], list[Any]]:  # noqa: ARG001
    """BLAS libraries with one setting per process, and those with one per thread (OpenMP).

    They are looked up again only after further modules, which may load another library, have been imported.
    """
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    by_thread = [one for one in libraries if getattr(one, "threading_layer", "") == "openmp"]
    return [one for one in libraries if one not in by_thread], by_thread


class _State(local):
    """What is known of the current thread."""

    is_quiet = False  # BLAS is limited to one thread already
    is_worker = False  # many such threads are the parallel part


_here = _State()
# Callers that want a single-threaded BLAS, and the numbers of threads to restore after the last of them.
_lock = Lock()
_n_quiet = 0
_before: list[tuple[Any, int]] = []


@contextmanager
def quiet_blas() -> Iterator[None]:
    """Limit BLAS to one thread; its setting is restored when the last of several concurrent callers leaves.

    How BLAS divides a sum among its threads decides how it is rounded, and its threads spin for a while after a call,
    on cores that ours need. Public functions and methods run inside this limit; nested uses cost nothing. It is also
    a decorator.
    """
    if _here.is_quiet:
        yield
        return
    shared, by_thread = _blas(len(sys.modules))
    own = [(library, library.num_threads) for library in by_thread]
    _here.is_quiet = True
    _enter(shared)
    try:
        for library, _ in own:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in own:
            library.set_num_threads(threads)
        _leave()
        _here.is_quiet = False


def _enter(libraries: list[Any]) -> None:
    global _n_quiet  # noqa: PLW0603
    with _lock:
        _n_quiet += 1
        if _n_quiet == 1:
            _before.extend((library, library.num_threads) for library in libraries)
            for library in libraries:
                _set_threads(library, 1)


def _leave() -> None:
    global _n_quiet  # noqa: PLW0603
    with _lock:
        _n_quiet -= 1
        while _before and _n_quiet == 0:
            _set_threads(*_before.pop())


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads of a library.

    Recent versions of threadpoolctl ignore all threads but the one that set a limit first, and the last to leave may
    be another.
    """
    shared = hasattr(library, "clear_controlling_thread")
    if shared:
        library.clear_controlling_thread(force=True)
    library.set_num_threads(threads)
    if shared:
        library.clear_controlling_thread(force=True)


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "heatsketch", _start_worker)


def _start_worker() -> None:
    _here.is_worker = _here.is_quiet = True
    for library in _blas(len(sys.modules))[1]:
        library.set_num_threads(1)


def _after_fork() -> None:
    """Forget the parent's other threads, which do not exist in the child."""
    global _lock, _n_quiet
    _executor.cache_clear()
    _lock, _n_quiet = Lock(), 1
    if not _here.is_quiet:
        _leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def alone(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` on this thread only, where many such calls run in parallel, as the tasks of Dask do."""
    was, _here.is_worker = _here.is_worker, True
    try:
        with quiet_blas():
            return function(*args)
    finally:
        _here.is_worker = was


@contextmanager
def workers(threads: int | None = None, *, blas: bool = True) -> Iterator[Map]:
    """Threads for several rounds of work.

    Parameters
    ----------
    threads : int, optional
        `n_threads` by default.
    blas : bool
        Whether the work calls BLAS, which is limited to one thread then.

    Yields
    ------
    map : callable
        ``map(function, items)``, an iterator over the results in the order of the items. Items are taken as they are
        needed, a few ahead of the results. An error cancels what has not begun.
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
        wait(pending)  # what has begun may write to arrays that the caller is about to use


def each(function: Callable[..., Any], items: Iterable[Any], *, threads: int | None = None, blas: bool = True) -> None:
    """Call ``function(item)`` for every item, on several threads; see `workers`. A single item stays on this thread."""
    items = iter(items)
    first = list(islice(items, 2))
    with workers(1 if len(first) == 1 else threads, blas=blas) as share:
        deque(share(function, chain(first, items)), maxlen=0)


def product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` for matrices (m, n) and (n, k), on several threads, in bands that do not depend on their number.

    Examples
    --------
    >>> import numpy as np
    >>> from heatsketch._utils.threads import product
    >>> product(np.ones((2, 3)), np.eye(3)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    (m, n), k = A.shape, B.shape[1]
    out = np.empty((m, k), dtype=np.result_type(A, B))
    rows = max(_BAND_ROWS, _BAND_ENTRIES // max(1, n * (1 + k // _BAND_COLUMNS)))
    each(lambda band: np.matmul(A[band], B, out=out[band]), chunks(m, 1, rows))
    return out


def shares(n_items: int, work_per_item: int = 1, *, threads: int | None = None) -> Iterator[slice]:
    """Slices of equal size that cover ``range(n_items)``: a few for each thread, so that all finish together.

    Parameters
    ----------
    n_items : int
    work_per_item : int
        Multiplications, or what takes as long. Little work stays in one piece.
    threads : int, optional
        `n_threads` by default.

    Examples
    --------
    >>> from heatsketch._utils.threads import shares
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
    """Buffers that each thread reuses: allocating memory for every tile would cost more than its arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, FloatArray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> FloatArray:
        """An uninitialised array; what it held before is lost."""
        size, key = shape[0] * shape[1], f"{name} {np.dtype(dtype)}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype=dtype)
        return self._buffers[key][:size].reshape(shape)
