"""Work on several threads: the same results in the same order, and nothing left behind when a job fails."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_info, threadpool_limits

from conftest import run_code
from heatsketch._utils.threads import Scratch, _cores, each, n_threads, quiet_blas, shares, workers
from heatsketch.compiled.loops import loop


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_jobs(threads):
    def slow_first(job):
        time.sleep(0.02 if job == 0 else 0)
        return job**2

    with workers(threads) as share:
        assert list(share(slow_first, range(20))) == [job**2 for job in range(20)]
        assert list(share(slow_first, [])) == []


def test_several_threads_are_used():
    meeting, met = threading.Barrier(2, timeout=20), []
    each(lambda _: met.append(meeting.wait()), range(2), threads=2)  # one thread alone would wait in vain
    assert sorted(met) == [0, 1]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_that_fails_stops_the_rest(threads):
    done = []

    def work(job):
        if job == 3:
            raise ValueError("job 3")
        done.append(job)

    with pytest.raises(ValueError, match="job 3"):
        each(work, range(10_000), threads=threads)
    assert len(done) < 100


def test_work_inside_work_does_not_wait_for_itself():
    total = []
    each(lambda i: each(lambda j: total.append((i, j)), range(3), threads=2), range(4), threads=2)
    assert sorted(total) == [(i, j) for i in range(4) for j in range(3)]


def blas():
    """Threads of all BLAS libraries but those by OpenMP (PyTorch's on ARM), which have a number in each thread."""
    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return {info["num_threads"] for info in found if info.get("threading_layer") != "openmp"}


@pytest.fixture
def two():
    """BLAS on two threads; the tests as a whole hold it to one."""
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.usefixtures("two")
def test_blas_keeps_to_one_thread_meanwhile():
    with workers(2):
        assert blas() == {1}
    assert blas() == {2}


@pytest.mark.usefixtures("two")
def test_overlapping_uses_give_blas_its_threads_back():
    """Whoever leaves first must not restore them while another is at work."""

    def other():
        with workers(2):
            assert blas() == {1}

    with workers(2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert blas() == {1}
    assert blas() == {2}


@pytest.mark.usefixtures("two")
def test_blas_keeps_to_one_thread_whichever_thread_asks():
    """Also after another thread has, and when the first to ask is not the last to be done."""
    seen, first_is_in, second_is_in = [], threading.Event(), threading.Event()

    def first():
        with quiet_blas():
            first_is_in.set()
            second_is_in.wait(20)

    def second():
        first_is_in.wait(20)
        with quiet_blas():
            second_is_in.set()
            one.join()
            seen.append(blas())

    with quiet_blas():
        pass
    one, two = (threading.Thread(target=work) for work in (first, second))
    one.start()
    two.start()
    two.join()
    assert seen == [{1}]
    assert blas() == {2}
    with threadpool_limits(3, "blas"):  # who asks by other means is not shut out
        assert blas() == {3}
    assert blas() == {2}


def test_blas_by_openmp_keeps_to_one_thread_in_every_thread():
    """There each thread has a number of its own, which nobody else can set: PyTorch on ARM brings such a library."""
    pytest.importorskip("torch")

    def of_openmp(_=None):
        found = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
        layers = [info.get("threading_layer") for info in threadpool_info() if info["user_api"] == "blas"]
        return {n for n, layer in zip(found, layers, strict=True) if layer == "openmp"}

    def asking(meeting):
        with threadpool_limits(2):
            before = of_openmp()
            with quiet_blas():
                meeting.wait()  # both at once
                during = of_openmp()
            return before, during, of_openmp()

    if not of_openmp():
        pytest.skip("no BLAS by OpenMP here")
    with workers(3) as share:
        assert list(share(of_openmp, range(6))) == [{1}] * 6
    with ThreadPoolExecutor(2) as pool:
        meeting = threading.Barrier(2, timeout=20)
        assert list(pool.map(asking, [meeting] * 2)) == [({2}, {1}, {2})] * 2


@pytest.mark.parametrize(("left", "threads"), [(sys.maxsize, 16), (700 << 20, 5), (10 << 20, 1)])
def test_threads_are_no_more_than_a_limited_address_space_holds(monkeypatch, left, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("heatsketch._utils.threads.cpu_count", lambda: 16)
    monkeypatch.setattr("heatsketch._utils.threads.address_space", lambda: left)
    monkeypatch.setattr("heatsketch._utils.threads._cores", _cores.__wrapped__)
    assert n_threads() == threads


def test_loops_are_compiled_where_no_interrupt_comes(monkeypatch):
    """An interrupt that comes while Numba's lock is being taken leaves it locked for all other threads."""
    takers = []

    class Watched:
        def __init__(self, lock):
            self.lock = lock

        def __getattr__(self, name):
            takers.append(threading.current_thread())
            return getattr(self.lock, name)

    monkeypatch.setattr(global_compiler_lock, "_lock", Watched(global_compiler_lock._lock))
    assert loop(lambda x: x + 1)(3) == 4
    assert takers
    assert threading.main_thread() not in takers
    with pytest.raises(numba.TypingError, match="thrown"):  # what is raised there is raised here
        loop(lambda x: x.thrown)(3)


def test_the_number_of_threads_can_be_limited(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_threads() == 1
    for nonsense in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert n_threads() >= 1


def _sum_in_child(queue):
    total = []
    each(total.append, range(10), threads=2)
    queue.put(sum(total))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_are_made_anew_after_a_fork():
    each(lambda _: None, range(4), threads=2)  # the parent has its threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_sum_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=30) == 45
    child.join()


def test_scratch_is_each_threads_own():
    scratch, seen = Scratch(), {}
    meeting = threading.Barrier(2, timeout=20)

    def work(job):
        array = scratch.array("a", (2, 3), np.float64)
        array[:] = job
        meeting.wait()
        seen[job] = array.copy()

    each(work, range(2), threads=2)
    assert all((seen[job] == job).all() for job in range(2))
    first = scratch.array("b", (4, 4), np.float32)
    assert np.shares_memory(first, scratch.array("b", (2, 5), np.float32))
    assert scratch.array("b", (20, 5), np.float32).shape == (20, 5)
    assert scratch.array("b", (2, 2), np.float64).dtype == np.float64


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
@pytest.mark.parametrize("work", [1, 1 << 12, 1 << 30])
@pytest.mark.parametrize("threads", [1, 3])
def test_shares_cover_everything_once_and_are_even(n, work, threads):
    slices = list(shares(n, work, threads=threads))
    assert [i for some in slices for i in range(n)[some]] == list(range(n))
    sizes = [some.stop - some.start for some in slices]
    assert len(set(sizes[:-1])) <= 1
    assert threads > 1 or len(slices) <= 1
    assert n * work <= 1 << 20 or threads == 1 or n < 2 * threads or len(slices) >= threads


def test_a_single_job_stays_on_this_thread():
    where = []
    each(lambda _: where.append(threading.current_thread()), range(1), threads=3)
    assert where == [threading.current_thread()]


_AT_ONCE = """
import threading
from heatsketch._utils.threads import quiet_blas, workers
start = threading.Barrier(8)
def first():
    start.wait()
    with quiet_blas(), workers(2) as share:
        assert sorted(share(abs, range(4))) == [0, 1, 2, 3]
asking = [threading.Thread(target=first) for _ in range(8)]
for one in asking: one.start()
for one in asking: one.join()
for _ in range(200):
    staying = sorted(one.name for one in threading.enumerate() if one.name.startswith("heatsketch"))
    if len(staying) == 3: break
    threading.Event().wait(0.05)
print(staying)
"""


def test_threads_that_stay_are_made_once_even_where_many_ask_at_once():
    said = run_code(_AT_ONCE).stdout.strip()
    assert said == "['heatsketch 2 workers, 0', 'heatsketch 2 workers, 1', 'heatsketch keeper, 0']"
