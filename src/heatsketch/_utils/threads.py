"""Work shared among threads: NumPy, BLAS and compiled loops all let go of the interpreter while they run."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache, partial
from itertools import chain, islice
from threading import current_thread, get_ident, local, main_thread
from typing import Any

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from .chunks import chunks
from .thread_pool import Crew, Job
from .typing import FloatArray

__all__ = ["Map", "Scratch", "alone", "each", "n_threads", "product", "quiet_blas", "shares", "sheltered", "workers"]

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
    >>> from heatsketch._utils.threads import n_threads
    >>> n_threads() >= 1
    True
    """
    limit = os.environ.get(_LIMIT, "").split(",")[0].strip()
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Cores that this process may use. Asking takes as long as many a product."""
    return int(cpu_count())


def _staying(name: str, threads: int, begin: Callable[[], None]) -> Crew:
    """The crew of that name. Whoever asks first makes it; who made one meanwhile sends that home."""
    crew = _crews.get(name)
    if crew is None:
        made = Crew(name, threads, begin)
        crew = _crews.setdefault(name, made)
        if crew is not made:
            made.dismiss()
    return crew


_crews: dict[str, Crew] = {}


def _crew(threads: int) -> Crew:
    """Threads that stay: starting them would cost more than many a product."""
    try:
        return _staying(f"{threads} workers", threads, _mark_worker)
    except RuntimeError as error:  # in the words of Python: can't start new thread
        raise OSError(
            f"the system refuses threads to this process ({error}); allow it more of them, or more memory (ulimit -u, "
            f"ulimit -v), or set the environment variable {_LIMIT}=1 for a single one."
        ) from error


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

    The setting belongs to the whole process: fits that overlap in time must not restore each other's, and one that is
    interrupted at any moment, this one included, must leave it as it was.
    """
    silence = _Silence()
    try:
        silence.begin()
        yield
    finally:
        try:  # an interrupt may come with any call; there is none before this one
            silence.end()
        except BaseException:
            silence.end()
            raise


class _Silence:
    """A wish for a quiet BLAS, whose end can be repeated where an interrupt came in between."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self._here: list[tuple[Any, int]] = []  # libraries of which every thread has its own, and what this one had
        self._began_here = False

    def begin(self) -> None:
        if not getattr(_here, "is_quiet", False):
            own = _kept(lambda: _blas_by_openmp(len(sys.modules))).lib_controllers
            self._here.extend((one, one.num_threads) for one in own)
            self._began_here = _here.is_quiet = True
            for library, _ in self._here:
                library.set_num_threads(1)
        _kept(partial(_join, id(self), self.thread))

    def end(self) -> None:
        _kept(partial(_leave, id(self)))
        if self._began_here and self.thread == get_ident():
            while self._here:
                library, threads = self._here[-1]
                library.set_num_threads(threads)
                self._here.pop()
            _here.is_quiet = self._began_here = False


def _keeper() -> Crew:
    """The one thread that changes BLAS's settings, one change after another.

    Interrupts come to the first thread of a process alone. There, one that comes at a bad moment leaves a lock locked
    for ever (in Python 3.14 any ``with`` statement may), ours as well as those of threadpoolctl; here none comes.
    """
    return _staying("keeper", 1, _mark_keeper)


def _mark_keeper() -> None:
    _here.is_keeper = True


def _kept(change: Callable[[], Any]) -> Any:
    """Have the keeper make a change, and wait for it; an interrupt ends the waiting, not the change."""
    if getattr(_here, "is_keeper", False) or sys.is_finalizing():
        return change()  # a generator was thrown away, in the middle of another change or at the very end
    return _elsewhere(_keeper, change)


def sheltered(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)`` on a thread that no interrupt reaches, while this one waits for it.

    For work of others that takes locks in Python code, as Numba's compiler does: an interrupt that comes just then
    leaves them locked, and the next who compiles waits for ever.
    """
    if current_thread() is not main_thread() or sys.is_finalizing():
        return function(*args, **kwargs)
    return _elsewhere(partial(_staying, "compiler", 1, lambda: None), partial(function, *args, **kwargs))


def _elsewhere(crew: Callable[[], Crew], call: Callable[[], Any]) -> Any:
    """What a call returns that a crew of one makes, or this thread where the system refuses another."""
    try:
        jobs = crew().jobs
    except RuntimeError:
        return call()
    job = Job(lambda _: call(), None)
    jobs.put(job)
    return job.result()


def _join(one: int, thread: int) -> None:
    """Ask for silence; the first to do so notes what threads BLAS has."""
    first = not _asking
    _asking[one] = thread
    if first:
        _before.extend((library, library.num_threads) for library in _blas(len(sys.modules)).lib_controllers)
        for library, _ in _before:
            _set(library, 1)


def _leave(one: int) -> None:
    """Ask for silence no more; BLAS gets its threads back if nobody else does."""
    _asking.pop(one, None)
    while _before and not _asking:
        _set(*_before[-1])
        _before.pop()


def _set(library: Any, threads: int) -> None:
    """Set the number of BLAS's threads, whichever thread did before.

    In newer versions of threadpoolctl one thread alone may, the first that did; what others set has no effect.
    """
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(threads)
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


# Changed by the keeper, and by others only where there is none (any more).
_asking: dict[int, int] = {}  # who asks, and on which thread
_before: list[tuple[Any, int]] = []  # libraries that are held back, and the threads that they had


def _forget_threads() -> None:
    """Threads do not survive a fork, and what they were doing never ends: what they asked for is void in the child."""
    _crews.clear()
    for one in [one for one, thread in _asking.items() if thread != get_ident()]:
        _leave(one)
    _leave(0)  # which is nobody: the keeper may have been giving BLAS its threads back


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


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
            yield partial(_ahead, _crew(threads), threads)


def _ahead(crew: Crew, threads: int, function: Callable[..., Any], arguments: Iterable[Any]) -> Iterator[Any]:
    waiting = iter(arguments)
    pending: deque[Job] = deque()

    def hand_over(some: int) -> None:
        for argument in islice(waiting, some):
            pending.append(Job(function, argument))  # first, so that an interrupt finds it
            crew.jobs.put(pending[-1])

    try:
        hand_over(2 * threads)
        while pending:
            result = pending[0].result()
            pending.popleft()  # only now: until it is done, an interrupt must wait for it
            hand_over(1)
            yield result
    finally:
        # What has begun may hold on to arrays that the caller is about to use.
        for job in pending:
            job.drop()


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
    """Arrays that each thread uses again and again: fresh memory for every tile would cost more than its arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, FloatArray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> FloatArray:
        """An uninitialised array; what it held before is lost."""
        size, key = shape[0] * shape[1], f"{name} {np.dtype(dtype)}"
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype=dtype)
        return self._buffers[key][:size].reshape(shape)
