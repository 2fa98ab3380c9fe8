"""Many fits, concurrent in threads and processes and in sequence: the same results, and no leaks."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_info, threadpool_limits

import heatsketch as hs
from budget import rounds
from conftest import run_code
from heatsketch._utils.threads import n_threads
from heatsketch.backends.dask import layout

da = pytest.importorskip("dask.array")
CORES = n_threads()
# Dense products by BLAS, sparse products on our own threads, eigenvectors, optimisation.
FITS = {
    "every pair": lambda seed: hs.GaussianProcessEmbedding(4, random_state=seed),
    "neighbours": lambda seed: hs.GaussianProcessEmbedding(4, n_neighbors=8, random_state=seed),
    "eigenvectors": lambda seed: hs.DiffusionMaps(3 + seed % 2, n_neighbors=9, solver="randomized"),
    "optimised": lambda seed: hs.HeatSketch(2, random_state=seed),
    "worst pairs": lambda seed: hs.HeatSketch(2, objective="bilipschitz", n_neighbors=None, random_state=seed),
}


def points(seed, n=250):
    return hs.datasets.stretched_torus(n, random_state=seed)


def fit(name, seed, n=250):
    """An embedding as bytes."""
    return FITS[name](seed).fit_transform(points(seed, n)).tobytes()


def blas():
    """Numbers of threads of the BLAS libraries, except those by OpenMP, which have a number in each thread."""
    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return {info["num_threads"] for info in found if info.get("threading_layer") != "openmp"}


def test_fits_in_threads_equal_sequential_ones(record_property):
    jobs = [(name, seed) for seed in range(rounds(2)) for name in FITS]
    alone = [fit(*job) for job in jobs]
    with threadpool_limits(2, "blas"), ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda job: fit(*job), jobs)) == alone
        assert blas() == {2}  # the last one gives them back
    record_property("cases", len(jobs))


def _fit_all(queue, seed):
    queue.put([fit(name, seed) for name in FITS])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fits_in_processes_equal_sequential_ones(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    alone = [fit(name, 5) for name in FITS]  # which starts the threads that a fork loses
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_fit_all, args=(queue, 5), daemon=True)
    child.start()
    assert queue.get(timeout=200) == alone
    child.join(60)
    assert child.exitcode == 0


def _workers():
    """Threads of the executors."""
    return sum(thread.name.startswith("heatsketch") for thread in threading.enumerate())


def _fit_and_count(seed):
    """Embeddings, the threads allowed, and those of ours and of BLAS that exist afterwards."""
    made = fit("every pair", seed, 900), fit("neighbours", seed, 900)
    return os.getpid(), made, n_threads(), _workers(), max(blas(), default=1)


def test_workers_of_joblib_share_the_cores(record_property):
    """Processes each use a part of the cores; threads share those of one process."""
    alone = [(fit("every pair", seed, 900), fit("neighbours", seed, 900)) for seed in range(3)]
    for inner in (None, 1):
        with parallel_config("loky", n_jobs=2, inner_max_num_threads=inner):
            found = Parallel()(delayed(_fit_and_count)(seed) for seed in range(3))
        assert [made for _, made, *_ in found] == alone
        workers = {process: (allowed, ours, there) for process, _, allowed, ours, there in found}
        assert os.getpid() not in workers
        for which in range(3):
            assert sum(counts[which] for counts in workers.values()) <= max(CORES, len(workers))
    already = _workers()  # other tests asked for them
    found = Parallel(4, backend="threading")(delayed(_fit_and_count)(seed) for seed in range(3))
    assert [made for _, made, *_ in found] == alone
    assert all(ours <= max(CORES, already) for *_, ours, _ in found)
    record_property("cases", 9)


_FIT_REPEATEDLY = """
import gc, sys, threading
from pathlib import Path
import heatsketch as hs
X = hs.datasets.stretched_torus(60, random_state=0)
times, seen = int(sys.argv[1]), []
for number in range(times + 20):
    hs.GaussianProcessEmbedding(4, random_state=0).fit(X).transform(X[:5])
    hs.GaussianProcessEmbedding(4, n_neighbors=8, random_state=0).fit(X).transform(X[:5])
    hs.DiffusionMaps(3, n_neighbors=9, solver="randomized").fit(X)
    if number in (20, times + 19):
        gc.collect()
        resident = 4096 * int(Path("/proc/self/statm").read_text().split()[1])
        files = len(list(Path("/proc/self/fd").iterdir()))
        seen.append((resident, files, threading.active_count(), len(gc.get_objects())))
print([after - before for before, after in zip(*seen)])
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_repeated_fits_do_not_leak():
    times = rounds(60)
    memory, files, threads, objects = json.loads(run_code(_FIT_REPEATEDLY, times).stdout)
    assert (files, threads) == (0, 0)
    assert memory < 4_000_000 + 3000 * times
    assert objects < 2000


def _fit_on_dask():
    """A fit to a Dask array, on the cluster that is current."""
    X = da.from_array(points(0, 300), chunks=(100, 4))
    return hs.GaussianProcessEmbedding(2, bandwidth=1.0, n_neighbors=None, random_state=0).fit(X)


def _fit_within_a_task():
    """`worker_client` lets other tasks run on the thread that waits."""
    with pytest.importorskip("distributed").worker_client():
        return np.asarray(_fit_on_dask().embedding_)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*Sending large graph.*:UserWarning")
def test_dask_task_fits_on_its_own_cluster(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(layout, "CHUNK_ROWS", 120)
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": None,
        "silence_logs": 50,
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        inside = client.submit(_fit_within_a_task).result(timeout=120)
        model = _fit_on_dask()
        assert not model.kernel_.in_memory
        assert np.array_equal(inside, np.asarray(model.embedding_))
        stored = pickle.dumps(model)
        assert np.array_equal(np.asarray(pickle.loads(stored).embedding_), inside)
