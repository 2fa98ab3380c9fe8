"""Work on several threads: order, errors, nesting, and BLAS limited to one thread meanwhile."""

from __future__ import annotations

import multiprocessing
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from heatsketch._utils.threads import Scratch, each, n_threads, quiet_blas, shares, workers


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_keep_the_order_of_the_items(threads):
    def slow_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item**2

    with workers(threads) as share:
        assert list(share(slow_first, range(20))) == [item**2 for item in range(20)]
        assert list(share(slow_first, [])) == []


def test_several_threads_are_used():
    meeting, met = threading.Barrier(2, timeout=20), set()

    def meet(_item):
        meeting.wait()  # a single thread would time out
        met.add(threading.current_thread())

    each(meet, range(2), threads=2)
    assert len(met) == 2
    assert threading.current_thread() in met


def test_context_of_the_caller_is_not_seen():
    setting, seen = ContextVar("setting", default="default"), []
    setting.set("caller")
    each(lambda _: seen.append(setting.get()), range(20), threads=2)
    assert seen == 20 * ["default"]  # on every thread alike


@pytest.mark.parametrize("threads", [1, 2])
def test_error_stops_the_rest(threads):
    done = []

    def work(item):
        if item == 3:
            raise ValueError("item 3")
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        each(work, range(10_000), threads=threads)
    assert len(done) < 100


def test_nested_work_stays_on_its_thread():
    threads, pairs = set(), []

    def inner(i):
        each(lambda j: (pairs.append((i, j)), threads.add(threading.current_thread())), range(3), threads=2)

    each(inner, range(4), threads=2)
    assert sorted(pairs) == [(i, j) for i in range(4) for j in range(3)]
    assert len(threads) <= 2


def blas():
    """Threads of all BLAS libraries but those by OpenMP, which have one setting per thread."""
    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return {info["num_threads"] for info in found if info.get("threading_layer") != "openmp"}


@pytest.fixture
def two():
    """BLAS on two threads; the test suite limits it to one."""
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.usefixtures("two")
def test_blas_is_limited_and_restored_even_after_an_error():
    with workers(2):
        assert blas() == {1}
        with quiet_blas():
            assert blas() == {1}
        assert blas() == {1}
    assert blas() == {2}
    with pytest.raises(ZeroDivisionError):
        each(lambda item: 1 / item, [1, 0])
    assert blas() == {2}
    with threadpool_limits(3, "blas"):  # other users of threadpoolctl are not shut out
        assert blas() == {3}
    assert blas() == {2}


@pytest.mark.usefixtures("two")
def test_blas_is_restored_by_the_last_of_overlapping_threads():
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

    one, other = (threading.Thread(target=work) for work in (first, second))
    one.start()
    other.start()
    other.join()
    assert seen == [{1}]
    assert blas() == {2}


def test_environment_limits_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_threads() == 1
    for invalid in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", invalid)
        assert n_threads() >= 1


def _sum_in_child(queue):
    total = []
    with quiet_blas():
        each(total.append, range(10), threads=2)
    queue.put(sum(total))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_work_after_a_fork():
    each(lambda _: None, range(4), threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with quiet_blas():
        child = context.Process(target=_sum_in_child, args=(queue,))
        child.start()
        assert queue.get(timeout=30) == 45
        child.join()


def test_each_thread_has_its_scratch_memory():
    scratch, seen, meeting = Scratch(), {}, threading.Barrier(2, timeout=20)

    def work(item):
        array = scratch.array("a", (2, 3), np.float64)
        array[:] = item
        meeting.wait()
        seen[item] = array.copy()

    each(work, range(2), threads=2)
    assert all((seen[item] == item).all() for item in range(2))
    first = scratch.array("b", (4, 4), np.float32)
    assert np.shares_memory(first, scratch.array("b", (2, 5), np.float32))
    assert scratch.array("b", (2, 2), np.float64).dtype == np.float64


@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize("work", [1, 1 << 30])
@pytest.mark.parametrize("threads", [1, 3])
def test_shares_cover_everything_once(n, work, threads):
    slices = list(shares(n, work, threads=threads))
    assert [i for some in slices for i in range(n)[some]] == list(range(n))
    assert threads > 1 or len(slices) <= 1
    assert n * work <= 1 << 20 or threads == 1 or n < 2 * threads or len(slices) >= threads
