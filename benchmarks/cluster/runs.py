"""The sections: what is measured, each on clusters of its own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import dask.array as da
import distributed
import numpy as np

import heatsketch as hs
from heatsketch.backends.dask.heat import build_banded_affinity
from heatsketch.backends.dask.tasks import settled
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.sketch import GaussianSketch

from .watch import begin, bytes_sent, end, warm_up

__all__ = ["SECTIONS"]

Row = dict[str, Any]


@contextlib.contextmanager
def _cluster(workers: int) -> Iterator[tuple[Any, Any]]:
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**options, memory_limit=0) as cluster, distributed.Client(cluster) as client:
        client.run(warm_up)
        yield cluster, client


def _points(n: int, d: int) -> Any:
    """Points near a circle in the first two coordinates, with noise in the others."""
    rng = np.random.default_rng(n + d)
    X = 0.1 * rng.normal(size=(n, d))
    angle = 2 * np.pi * rng.random(n)
    X[:, :2] += np.column_stack([np.cos(angle), np.sin(angle)])
    return da.from_array(X, chunks=(10_000, -1))


def _affinity(n: int, d: int, n_neighbors: int | None) -> Any:
    options = KernelOptions(bandwidth=0.05 * d, n_neighbors=n_neighbors)
    return build_banded_affinity(_points(n, d), options, np.float64)[0]


def _products(affinity: Any, k: int, repeats: int) -> list[float]:
    V = settled(affinity.layout.sketched(GaussianSketch(0), k))
    affinity.operator.matmat(V)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        affinity.operator.matmat(V)
        seconds.append(time.perf_counter() - start)
    return seconds


def speed(quick: bool) -> list[Row]:
    """One worker and two, by turns, on the same product; and what one process does with its threads."""
    n, d, k = (6_000 if quick else 50_000), 10, 8
    rows = []
    for turn in range(1 if quick else 3):
        for workers in (1, 2):
            with _cluster(workers):
                rows += [
                    {"turn": turn, "n": n, "d": d, "k": k, "workers": workers, "seconds": seconds}
                    for seconds in _products(_affinity(n, d, None), k, 1)
                ]
    return rows


def memory(quick: bool) -> list[Row]:
    """The most that a worker holds beyond what it held before, for N and four times N."""
    rows = []
    for n in (5_000, 20_000) if quick else (20_000, 80_000):
        for d, k in ((10, 8), (30, 16)):
            with _cluster(2) as (_, client):
                _products(_affinity(5_000, d, None), k, 1)
                before = client.run(begin)
                _products(_affinity(n, d, None), k, 1)
                peak = client.run(end)
                held = max(peak[worker] - before[worker] for worker in before)
                rows.append({"n": n, "d": d, "k": k, "workers": 2, "bytes": held})
    return rows


def moved(quick: bool) -> list[Row]:
    """Bytes that workers send each other in a product, beside what is predicted."""
    rows = []
    sizes = (5_000,) if quick else (20_000, 80_000)
    for n in sizes:
        for d, n_neighbors in ((3, 32), (10, 32), (10, None)):
            k = 8
            with _cluster(2) as (_, client):
                affinity = _affinity(n, d, n_neighbors)
                V = settled(affinity.layout.sketched(GaussianSketch(0), k))
                affinity.operator.matmat(V)
                before = sum(client.run(bytes_sent).values())
                affinity.operator.matmat(V)
                row = {"n": n, "d": d, "k": k, "workers": 2, "neighbors": n_neighbors}
                row["bytes"] = sum(client.run(bytes_sent).values()) - before
                if n_neighbors is not None:
                    row |= {"halo": affinity.operator.halo_rows, "predicted": affinity.operator.bytes_moved(k)}
                    row["recall"] = affinity.recall
                rows.append(row)
    return rows


def same(quick: bool) -> list[Row]:
    """Every estimator on a cluster and in memory."""
    n = 4_200 if quick else 5_000
    X = hs.datasets.stretched_torus(n, random_state=0)
    every, near = ({"n_components": 4, "power": 8, "n_neighbors": pairs} for pairs in (None, 20))
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("GaussianProcessEmbedding", lambda: hs.GaussianProcessEmbedding(**every, random_state=0)),
        ("GaussianProcessEmbedding", lambda: hs.GaussianProcessEmbedding(**near, random_state=0)),
        ("DiffusionMaps", lambda: hs.DiffusionMaps(**near, solver="randomized")),
        ("HeatSketch", lambda: hs.HeatSketch(**near, solver_params={"width": 64, "n_rounds": 8}, random_state=0)),
    ]
    rows = []
    with _cluster(2):
        for name, make in cases:
            start = time.perf_counter()
            there = make().fit(da.from_array(X, chunks=(3_000, -1)))
            seconds = time.perf_counter() - start
            here = make().fit(X)
            Y, expected = there.embedding_.compute(), here.embedding_
            row = {"estimator": name, "n": n, "neighbors": here.n_neighbors_, "seconds": seconds}
            row["difference"] = float(np.linalg.norm(Y - expected) / np.linalg.norm(expected))
            row |= {"log_there": there.distortion().log, "log_here": here.distortion().log}
            rows.append(row)
    return rows


def faults(quick: bool) -> list[Row]:
    """A worker is killed at a random moment of each fit."""
    n = 5_000 if quick else 9_000
    X = hs.datasets.stretched_torus(n, random_state=0)
    there = da.from_array(X, chunks=(3_000, -1))
    moment, rows = random.Random(0), []
    for pairs in (None, 20):
        options: Row = {"n_components": 4, "power": 8, "n_neighbors": pairs, "random_state": 0}
        expected = hs.GaussianProcessEmbedding(**options).fit(X).embedding_
        with _cluster(2) as (_, client):
            hs.GaussianProcessEmbedding(**options).fit(there)
            start = time.perf_counter()
            hs.GaussianProcessEmbedding(**options).fit(there)  # as long as it takes undisturbed
            plain = time.perf_counter() - start
            for run in range(1 if quick else 10):
                when = moment.random() * plain
                killed: list[int] = []
                killer = threading.Timer(when, _kill, (client, moment, killed))
                killer.start()
                start = time.perf_counter()
                Y = hs.GaussianProcessEmbedding(**options).fit(there).embedding_.compute()
                row = {"run": run, "n": n, "neighbors": pairs, "moment": when, "plain": plain}
                row["seconds"] = time.perf_counter() - start
                row["difference"] = float(np.linalg.norm(Y - expected) / np.linalg.norm(expected))
                killer.join()
                client.wait_for_workers(2, timeout=120)
                row["killed"] = bool(killed) and killed[0] not in client.run(os.getpid).values()
                rows.append(row)
    return rows


def _kill(client: Any, moment: random.Random, killed: list[int]) -> None:
    """Kill one of the workers that are there."""
    victim = moment.choice(sorted(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)


def exact_model(quick: bool) -> list[Row]:
    """Products with every pair, at sizes for fitting and others for checking."""
    fitting = [(20_000, 3, 8, 2), (20_000, 30, 8, 2), (20_000, 10, 32, 2), (40_000, 10, 8, 2), (9_000, 10, 8, 2)]
    checking = [(60_000, 10, 16, 2), (30_000, 20, 24, 1)]
    if quick:
        fitting, checking = [(5_000, d, k, 2) for d, k in ((3, 8), (30, 8), (10, 32), (20, 16))], [(6_000, 10, 8, 2)]
    rows = []
    for use, cases in (("fit", fitting), ("check", checking)):
        for n, d, k, workers in cases:
            with _cluster(workers):
                seconds = median(_products(_affinity(n, d, None), k, 2))
            rows.append({"use": use, "n": n, "d": d, "k": k, "workers": workers, "seconds": seconds})
    return rows


def sparse_model(quick: bool) -> list[Row]:
    """Graphs of neighbours and products with them, likewise."""
    fitting = [(20_000, 8), (60_000, 8), (60_000, 64), (120_000, 32)]
    checking = [(240_000, 16)]
    if quick:
        fitting, checking = [(5_000, 8), (6_000, 8), (6_000, 32)], [(7_000, 16)]
    rows = []
    for use, cases in (("fit", fitting), ("check", checking)):
        for n, k in cases:
            with _cluster(2):
                _affinity(5_000, 3, 32)
                start = time.perf_counter()
                affinity = _affinity(n, 3, 32)
                row = {"use": use, "n": n, "d": 3, "k": k, "workers": 2, "graph_seconds": time.perf_counter() - start}
                row["seconds"] = median(_products(affinity, k, 3))
                operator = affinity.operator
                n_bands = len(affinity.layout.sizes)
                row |= {"nnz": operator.nnz, "halo": operator.halo_rows, "tasks": operator.n_tasks, "bands": n_bands}
            rows.append(row)
    return rows


SECTIONS: dict[str, Callable[[bool], list[Row]]] = {
    "speed": speed,
    "memory": memory,
    "moved": moved,
    "same": same,
    "faults": faults,
    "exact_model": exact_model,
    "sparse_model": sparse_model,
}
