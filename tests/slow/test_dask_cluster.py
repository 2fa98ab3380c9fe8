"""Fits on a cluster of processes: the same result if workers die or spill, and errors of tasks."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import heatsketch as hs

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
from heatsketch.backends.dask import layout  # noqa: E402

N, NEW = 1500, 150
OPTIONS = {"n_components": 5, "power": 4, "random_state": 3}
PAIRS = {"n_neighbors": None, "normalization": "symmetric"}
NEIGHBORS = {"n_neighbors": 12, "normalization": "symmetric"}
# Rounding of a dozen products in float64.
TOLERANCE = 1e-12

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*Sending large graph.*:UserWarning")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Four row chunks."""
    monkeypatch.setattr(layout, "CHUNK_ROWS", 400)


@pytest.fixture(scope="module")
def points():
    return hs.datasets.stretched_torus(N, random_state=0)


@contextlib.contextmanager
def started_cluster(**options):
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50} | options
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield cluster, client


@pytest.fixture(scope="module")
def cluster():
    with started_cluster() as (cluster, _):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def in_memory(points, kind):
    fitted = hs.GaussianProcessEmbedding(**OPTIONS, **kind).fit(points)
    return np.vstack([fitted.embedding_, fitted.transform(points[:NEW] + 0.01)])


def on_cluster(points, kind):
    """The embedding of the points, and where those of them that are moved a little are placed."""
    fitted = hs.GaussianProcessEmbedding(**OPTIONS, **kind).fit(da.from_array(points, chunks=(400, 2)))
    new = fitted.transform(da.from_array(points[:NEW] + 0.01, chunks=(100, -1)))
    return np.vstack([fitted.embedding_.compute(), new.compute()])


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("kind", [PAIRS, {"n_neighbors": 12}], ids=["pairs", "neighbors"])
def test_cluster_equals_memory(client, points, kind):
    found, expected = on_cluster(points, kind), in_memory(points, kind)
    assert_same(found, expected)
    with dask.config.set(scheduler="threads"):
        np.testing.assert_allclose(on_cluster(points, kind), found, rtol=0, atol=1e-12)
    names = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    wanted = {"sketch", "kernel-tile", "kernel-product"} if kind is PAIRS else {"sketch", "halo", "graph-product"}
    assert wanted <= names


@pytest.mark.parametrize("kind", [PAIRS, NEIGHBORS], ids=["pairs", "neighbors"])
def test_killed_worker(client, points, kind):
    expected = in_memory(points, kind)
    moment = random.Random(0)
    victim = moment.choice(processes(client))
    timer = threading.Timer(moment.uniform(0.0, 2.0), os.kill, (victim, signal.SIGKILL))  # a fit takes longer
    timer.start()
    assert_same(on_cluster(points, kind), expected)
    timer.join()
    until = time.monotonic() + 60
    while victim in processes(client) and time.monotonic() < until:  # it may have died only now, after the work
        time.sleep(0.1)
    client.wait_for_workers(2, timeout=60)
    assert victim not in processes(client)


def processes(client):
    """Processes of workers, but for those that do not answer any more."""
    return sorted(client.run(os.getpid, on_error="ignore").values())


def test_workers_come_and_go(points):
    with started_cluster(n_workers=1) as (cluster, client):
        timers = [threading.Timer(0.5, cluster.scale, (2,)), threading.Timer(3.0, cluster.scale, (1,))]
        for timer in timers:
            timer.start()
        expected = in_memory(points, PAIRS)
        seen = 0
        while any(timer.is_alive() for timer in timers) or not seen:
            assert_same(on_cluster(points, PAIRS), expected)
            seen = max(seen, len(client.nthreads()))
        assert_same(on_cluster(points, PAIRS), expected)


def test_spilling_worker(points):
    # From 1% of its memory on a worker writes what it holds to disk.
    limits = {"target": 0.01, "spill": 0.011, "pause": False, "terminate": False}
    with (
        dask.config.set({f"distributed.worker.memory.{name}": share for name, share in limits.items()}),
        started_cluster(n_workers=1, memory_limit="1GiB") as (_, client),
    ):
        fitted = hs.GaussianProcessEmbedding(**OPTIONS, **PAIRS).fit(da.from_array(points, chunks=(400, -1)))
        written = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
        assert sum(written.values()) > 0
        assert_same(fitted.embedding_.compute(), in_memory(points, PAIRS)[:N])


def test_frames_outlive_the_model(client, points):
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    given = frames.from_pandas(pandas.DataFrame(points, columns=list("abcd")), npartitions=3)
    model = hs.GaussianProcessEmbedding(**OPTIONS, **PAIRS).set_output(transform="pandas")
    framed = model.fit_transform(given)
    placed = model.transform(given)
    del model
    assert_same(framed.compute().to_numpy(), in_memory(points, PAIRS)[:N])
    assert_same(placed.compute().to_numpy(), in_memory(points, PAIRS)[:N])


def test_error_in_a_task_is_raised(client, points):
    def fail(block):
        raise ZeroDivisionError("the disk of chunk 7")

    X = da.from_array(points, chunks=(400, -1)).map_blocks(fail, dtype=float, meta=np.empty((0, 3)))
    with pytest.raises(ZeroDivisionError, match="the disk of chunk 7"):
        hs.GaussianProcessEmbedding(**OPTIONS, **PAIRS).fit(X)
    fitted = hs.GaussianProcessEmbedding(**OPTIONS, **PAIRS).fit(da.from_array(points, chunks=(400, -1)))
    holed = points.copy()
    holed[777] = np.nan
    placed = fitted.transform(da.from_array(holed, chunks=(400, -1)))
    with pytest.raises(ValueError, match="NaN or infinity, for example in row 777"):
        placed.compute()
