"""Measure speed, memory, traffic and killed workers on a Dask cluster: ``python -m benchmarks.cluster``.

Workers are processes of one machine (``distributed.LocalCluster``) with one thread each.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, ClassVar

import dask.array as da
import distributed
import numpy as np
import pandas as pd

import heatsketch as hs
from heatsketch.linalg.sketch import GaussianSketch
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import peak_memory, run_apart
from heatsketch_paper.harness.study import Study, Tables, frame_table, main, section

# Peak memory of a worker, measured from `begin` to `end`.
_watch = contextlib.ExitStack()
_found: dict[str, int] = {}


def warm_up() -> None:
    """Import and run heatsketch on a worker, before anything is measured."""
    from heatsketch import GaussianProcessEmbedding, datasets  # noqa: PLC0415

    for X in (datasets.circle(600, random_state=0), np.random.default_rng(0).normal(size=(600, 10))):
        for n_neighbors in (None, 8):
            GaussianProcessEmbedding(power=2, n_neighbors=n_neighbors, random_state=0).fit(X)


def begin() -> None:
    """Start measuring the memory of a worker."""
    global _found  # noqa: PLW0603  one worker, one measurement
    _found = _watch.enter_context(peak_memory())


def end() -> int:
    """Peak memory of the worker since `begin`, above what it had then, in bytes."""
    _watch.close()
    return _found["peak"]


def bytes_sent(dask_worker: Any) -> int:
    """Bytes that a worker has sent to other workers."""
    return int(dask_worker.transfer_outgoing_bytes_total)


@contextlib.contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**options, memory_limit=0) as cluster, distributed.Client(cluster) as client:
        client.run(warm_up)
        yield client


def _kernel(n: int, d: int, n_neighbors: int | None) -> hs.HeatKernel:
    """Kernel of points near a circle in the first two coordinates, with noise in the others."""
    rng = np.random.default_rng(n + d)
    X = 0.1 * rng.normal(size=(n, d))
    angle = 2 * np.pi * rng.random(n)
    X[:, :2] += np.column_stack([np.cos(angle), np.sin(angle)])
    points = da.from_array(X, chunks=(10_000, -1))
    return hs.heat_kernel(points, bandwidth=0.05 * d, n_neighbors=n_neighbors, normalization="symmetric")


def _block(kernel: hs.HeatKernel, k: int) -> Any:
    """A block of k columns on the workers, in the layout of the kernel, after a first product."""
    affinity: Any = kernel.affinity
    return affinity.operator.multiply(affinity.operator.sketched(GaussianSketch(0), k).values)


def _product(kernel: hs.HeatKernel, k: int) -> float:
    """Seconds of a product with k columns."""
    V, operator = _block(kernel, k), kernel.affinity.operator
    start = time.perf_counter()
    operator.multiply(V)
    return time.perf_counter() - start


def speed(quick: bool) -> Iterator[Row]:
    """The same product with one worker and with two, in turns."""
    n, d, k = (6_000 if quick else 50_000), 10, 8
    for turn in range(1 if quick else 3):
        for workers in (1, 2):
            with _cluster(workers):
                seconds = _product(_kernel(n, d, None), k)
                yield {"turn": turn, "n": n, "d": d, "k": k, "workers": workers, "seconds": seconds}


def memory(quick: bool) -> Iterator[Row]:
    """Peak memory of a worker above its baseline, for N and 4 N points."""
    for n in (5_000,) if quick else (20_000, 80_000):
        for d, k in ((10, 8),) if quick else ((10, 8), (30, 16)):
            with _cluster(2) as client:
                _product(_kernel(5_000, d, None), k)
                client.run(begin)
                _product(_kernel(n, d, None), k)
                yield {"n": n, "d": d, "k": k, "workers": 2, "bytes": max(client.run(end).values())}


def moved(quick: bool) -> Iterator[Row]:
    """Bytes that workers send each other in a product, and the predicted number."""
    k = 8
    for n in (5_000,) if quick else (20_000, 80_000):
        for d, n_neighbors in ((3, 32), (10, None)) if quick else ((3, 32), (10, 32), (10, None)):
            with _cluster(2) as client:
                kernel = _kernel(n, d, n_neighbors)
                V, operator = _block(kernel, k), kernel.affinity.operator
                before = sum(client.run(bytes_sent).values())
                operator.multiply(V)
                row = {"n": n, "d": d, "k": k, "workers": 2, "neighbors": n_neighbors}
                row["bytes"] = sum(client.run(bytes_sent).values()) - before
                if n_neighbors is not None:
                    row |= {"halo": operator.halo_rows, "predicted": operator.halo_rows * k * operator.dtype.itemsize}
                    row["recall"] = kernel.affinity.recall
                yield row


def _difference(Y: Any, expected: Any) -> float:
    return float(np.linalg.norm(Y.compute() - expected) / np.linalg.norm(expected))


def same(quick: bool) -> Iterator[Row]:
    """Differences between fits on a cluster and in memory, for every estimator."""
    X = hs.datasets.stretched_torus(4_200 if quick else 5_000, random_state=0)
    every, near = ({"n_components": 4, "power": 8, "n_neighbors": pairs} for pairs in (None, 20))
    cases: list[Callable[[], Any]] = [
        lambda: hs.GaussianProcessEmbedding(**every, random_state=0),
        lambda: hs.GaussianProcessEmbedding(**near, random_state=0),
        lambda: hs.DiffusionMaps(**near, solver="randomized"),
        lambda: hs.HeatSketch(**near, objective="bilipschitz", random_state=0),
    ]
    with _cluster(2):
        for make in cases[:2] if quick else cases:
            start = time.perf_counter()
            there = make().fit(da.from_array(X, chunks=(3_000, -1)))
            row = {"seconds": time.perf_counter() - start}
            here = make().fit(X)
            row |= {"estimator": type(here).__name__, "n": len(X), "neighbors": here.n_neighbors_}
            row["difference"] = _difference(there.embedding_, here.embedding_)
            yield row | {"log_there": there.distortion().log, "log_here": here.distortion().log}


def faults(quick: bool) -> Iterator[Row]:
    """Fits during each of which a worker is killed at a random moment."""
    X = hs.datasets.stretched_torus(5_000 if quick else 9_000, random_state=0)
    there, moment = da.from_array(X, chunks=(3_000, -1)), random.Random(0)
    for pairs in (None, 20):
        options: Row = {"n_components": 4, "power": 8, "n_neighbors": pairs, "random_state": 0}
        expected = hs.GaussianProcessEmbedding(**options).fit(X).embedding_
        with _cluster(2) as client:
            hs.GaussianProcessEmbedding(**options).fit(there)
            start = time.perf_counter()
            hs.GaussianProcessEmbedding(**options).fit(there)  # undisturbed
            plain = time.perf_counter() - start
            for run in range(1 if quick else 10):
                when = moment.random() * plain
                killed: dict[int, float] = {}
                killer = threading.Timer(when, _kill, (client, moment, killed))
                killer.start()
                start = time.perf_counter()
                Y = hs.GaussianProcessEmbedding(**options).fit(there).embedding_
                row = {"run": run, "n": len(X), "neighbors": pairs, "moment": when, "plain": plain}
                row["difference"] = _difference(Y, expected)
                end = time.perf_counter()
                killer.join()
                while len(_pids(client) - set(killed)) < 2:  # another worker is being started
                    time.sleep(0.1)
                client.wait_for_workers(2, timeout=120)
                yield row | {"seconds": end - start, "killed": any(at < end for at in killed.values())}


def _pids(client: Any) -> set[int]:
    """Process ids of the workers, as the cluster knows them, since a killed worker cannot answer."""
    return {nanny.pid for nanny in client.cluster.workers.values() if nanny.pid is not None}


def _kill(client: Any, moment: random.Random, killed: dict[int, float]) -> None:
    """Kill a worker and record the time."""
    victim = moment.choice(sorted(_pids(client)))
    os.kill(victim, signal.SIGKILL)
    killed[victim] = time.perf_counter()


def exact_model(quick: bool) -> Iterator[Row]:
    """Times of products with the kernel of all pairs at several sizes."""
    sizes = [(20_000, 3, 8, 2), (20_000, 30, 8, 2), (20_000, 10, 32, 2), (40_000, 10, 8, 2), (9_000, 10, 8, 2)]
    sizes += [(60_000, 10, 16, 2), (30_000, 20, 24, 1)]
    for n, d, k, workers in [(5_000, 3, 8, 2)] if quick else sizes:
        with _cluster(workers):
            kernel = _kernel(n, d, None)
            seconds = median(_product(kernel, k) for _ in range(2))
        yield {"n": n, "d": d, "k": k, "workers": workers, "seconds": seconds}


def sparse_model(quick: bool) -> Iterator[Row]:
    """Times of neighbour graphs, and of products with them, at several sizes."""
    sizes = [(20_000, 8), (60_000, 8), (60_000, 64), (120_000, 32), (240_000, 16)]
    for n, k in [(5_000, 8)] if quick else sizes:
        with _cluster(2):
            _kernel(5_000, 3, 32)
            start = time.perf_counter()
            kernel = _kernel(n, 3, 32)
            row = {"n": n, "d": 3, "k": k, "workers": 2, "graph_seconds": time.perf_counter() - start}
            row["seconds"] = median(_product(kernel, k) for _ in range(3))
        yield row


_INTRODUCTION = """
This page measures the estimators on [Dask](../guide/cluster.md): how much faster two workers are than one, whether the
embedding is the same, what happens when workers are killed, and how much memory and network traffic a worker needs.
`make bench-cluster ARGS="--output out/cluster"` runs everything again in another folder, in half an hour. Workers are
processes of one machine with one thread each, so that the speed of a network is not included.

All tables were recorded with the version below, whose loops were compiled by Numba. Today they are C code, and times
may differ.
"""


def _pairs(table: pd.DataFrame) -> pd.Series:
    return table["neighbors"].map(lambda n: "every pair" if pd.isna(n) else f"{n:.0f} neighbours")


_SPEED = """
Seconds of a product of the kernel of all pairs of n points in R^d with k columns, with one worker and with two, in
turns. A last column of 2 would be perfect.
"""


@section(["speed"], _SPEED)
def _speed(tables: Tables) -> str:
    sizes = ["n", "d", "k"]
    wide = tables["speed"].pivot_table(index=["turn", *sizes], columns="workers", values="seconds").reset_index()
    found = wide[sizes].assign(**{"1 worker": wide[1], "2 workers": wide[2], "times as fast": wide[1] / wide[2]})
    return frame_table(found, {"n": ",", "1 worker": ".2f", "2 workers": ".2f", "times as fast": ".2f"})


_SAME = """
Every estimator, fitted to points of a torus on two workers and in memory. *Difference* is the norm of the difference of
the embeddings, divided by the norm of the embedding. It should be of the order of rounding errors, except for
HeatSketch, whose optimisation amplifies them: compare the distortion log L instead. *Seconds* is the time of the fit on
the cluster.
"""


@section(["same"], _SAME)
def _same(tables: Tables) -> str:
    found = tables["same"].assign(pairs=_pairs(tables["same"]))
    names = {"log_there": "log L, cluster", "log_here": "log L, memory"}
    found = found[["estimator", "n", "pairs", "difference", *names, "seconds"]].rename(columns=names)
    formats = dict.fromkeys(names.values(), ".3f") | {"n": ",", "difference": ".1e", "seconds": ".0f"}
    return frame_table(found, formats)


_FAULTS = """
During each fit one of two workers was killed (SIGKILL) at a random moment. All fits finished. Dask computes lost
results again, so that these fits take longer. *Killed after* and *undisturbed fit* are in seconds. *Seconds* is the
time of the fit with the killed worker, including the start of another one. *Difference* is that from the embedding in
memory.
"""


@section(["faults"], _FAULTS)
def _faults(tables: Tables) -> str:
    table = tables["faults"]
    names = {"moment": "killed after", "plain": "undisturbed fit"}
    found = table.assign(pairs=_pairs(table))[["n", "pairs", *names, "seconds", "difference"]].rename(columns=names)
    formats = dict.fromkeys([*names.values(), "seconds"], ".1f") | {"n": ",", "difference": ".1e"}
    killed = f"In {int(table['killed'].sum())} of {len(table)} runs the worker was killed before the fit ended."
    return f"{killed}\n\n{frame_table(found, formats)}"


_MEMORY = """
Peak memory of a worker while two workers build the kernel of all pairs and multiply by it, in MiB above its baseline
(the interpreter takes about 200 MiB). The last column is the size that the kernel would have as a matrix, which is
never formed.
"""


@section(["memory"], _MEMORY)
def _memory(tables: Tables) -> str:
    table = tables["memory"]
    found = table[["n", "d", "k"]].assign(**{"MiB": table["bytes"] / 2**20, "kernel, GiB": table["n"] ** 2 / 2**27})
    return frame_table(found, {"n": ",", "MiB": ".0f", "kernel, GiB": ".0f"})


_MOVED = """
Megabytes that two workers sent each other in one product, by their own counters. With a neighbour graph only the *halo*
of each chunk is sent: the rows of those neighbours that lie in other chunks. On two workers about half of the halo is
already on the right worker, so that the prediction is an upper bound. In few dimensions chunks are regions of space and
have small halos. In many dimensions nearly every point has neighbours in other chunks.
"""


@section(["moved"], _MOVED)
def _moved(tables: Tables) -> str:
    table = tables["moved"]
    found = table.assign(pairs=_pairs(table))[["n", "d", "k", "pairs", "recall"]]
    found["halo / N"] = table["halo"] / table["n"]
    found["sent, MB"], found["predicted, MB"] = table["bytes"] / 1e6, table["predicted"] / 1e6
    return frame_table(found, {"n": ",", "recall": ".3f", "halo / N": ".0%", "sent, MB": ".2f", "predicted, MB": ".2f"})


@section(["exact_model"], "Seconds of a product of the kernel of all pairs of n points in R^d with k columns.")
def _every_pair(tables: Tables) -> str:
    return frame_table(tables["exact_model"][["n", "d", "k", "workers", "seconds"]], {"n": ",", "seconds": ".2f"})


@section(["sparse_model"], "Seconds to find 32 neighbours in R^3, and of a product of their graph with k columns.")
def _graphs(tables: Tables) -> str:
    found = tables["sparse_model"][["n", "k", "workers", "graph_seconds", "seconds"]]
    names = {"graph_seconds": "search and graph", "seconds": "product"}
    return frame_table(found.rename(columns=names), {"n": ",", "search and graph": ".1f", "product": ".3f"})


@dataclass(frozen=True)
class Section(Experiment):
    """One table: the rows of the function of this module with its name, in a fresh process."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("heatsketch", "dask", "distributed")
    small: int = 0

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """All rows."""
        rows = run_apart(f"benchmarks.cluster:{self.name}", {"quick": bool(self.small)}, timeout_s=3600.0)
        if any(row.get("status", "ok") != "ok" for row in rows):
            raise ReproductionError(f"{self.name}: {rows[-1]['reason']}")
        return rows


STUDY = Study(
    "cluster",
    "On a cluster, measured",
    _INTRODUCTION,
    tuple(map(Section, ("speed", "memory", "moved", "same", "faults", "exact_model", "sparse_model"))),
    sections={
        "Two workers and one": _speed,
        "The same embedding": _same,
        "Killed workers": _faults,
        "Memory of a worker": _memory,
        "Network traffic": _moved,
        "Every pair, by size": _every_pair,
        "Neighbours, by size": _graphs,
    },
    quick=lambda experiment: replace(experiment, small=1),  # type: ignore[call-arg]
)

if __name__ == "__main__":
    main(STUDY)
