"""Estimators on a Dask cluster: speed, memory, traffic, killed workers, a cost model: ``python -m benchmarks.cluster``.

Clusters are processes of one machine (``distributed.LocalCluster``) with one thread each.
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
from math import ceil
from statistics import median
from typing import Any, ClassVar

import dask.array as da
import distributed
import numpy as np
from scipy.optimize import nnls

import heatsketch as hs
from heatsketch.backends.dask.array import DistributedArray
from heatsketch.backends.dask.kernel import build_chunked_affinity
from heatsketch.backends.dask.layout import chunk_sizes
from heatsketch.backends.dask.pairs import SQUARE, TASKS
from heatsketch.backends.dask.tasks import persisted
from heatsketch.kernel.options import KernelOptions
from heatsketch.linalg.sketch import GaussianSketch
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import run_apart
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Study, Tables, grid, main

_EVERY = 0.02
_samplers: dict[str, Any] = {}


def warm_up() -> int:
    """Import and compile what a product takes, so that it is there before anything is measured."""
    from heatsketch import GaussianProcessEmbedding, datasets  # noqa: PLC0415
    from heatsketch.linalg.operators import TiledGaussianOperator  # noqa: PLC0415

    X = datasets.circle(600, random_state=0)
    for n_neighbors in (None, 8):
        GaussianProcessEmbedding(power=2, n_neighbors=n_neighbors, random_state=0).fit(X)
    for columns in (8, 32):
        TiledGaussianOperator(X, 0.1, threads=1).matmat(X[:, :1].repeat(columns, axis=1))
    wide = np.random.default_rng(0).normal(size=(600, 10))
    TiledGaussianOperator(wide, 1.0, threads=1).matmat(wide)
    return len(X)


def begin() -> int:
    """Start to look at this process's memory; returns what it holds now, in bytes."""
    import psutil  # noqa: PLC0415

    process, stop = psutil.Process(), threading.Event()
    _samplers["peak"] = process.memory_info().rss
    before = _samplers["peak"]

    def look() -> None:
        while not stop.is_set():
            _samplers["peak"] = max(_samplers["peak"], process.memory_info().rss)
            time.sleep(_EVERY)

    thread = threading.Thread(target=look, daemon=True)
    _samplers["stop"] = stop
    thread.start()
    return int(before)


def end() -> int:
    """Stop looking; the most that this process held meanwhile, in bytes."""
    _samplers["stop"].set()
    return int(_samplers["peak"])


def bytes_sent(dask_worker: Any) -> int:
    """Bytes that a worker has sent to others."""
    return int(dask_worker.transfer_outgoing_bytes_total)


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
    return build_chunked_affinity(DistributedArray.from_dask(_points(n, d)), options, np.float64)[0]


def _products(affinity: Any, k: int, repeats: int) -> list[float]:
    V = persisted(affinity.layout.sketched(GaussianSketch(0), k))
    affinity.operator.multiply(V)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        affinity.operator.multiply(V)
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
                V = persisted(affinity.layout.sketched(GaussianSketch(0), k))
                affinity.operator.multiply(V)
                before = sum(client.run(bytes_sent).values())
                affinity.operator.multiply(V)
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
    few = {"width": 64, "n_rounds": 8}
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("GaussianProcessEmbedding", lambda: hs.GaussianProcessEmbedding(**every, random_state=0)),
        ("GaussianProcessEmbedding", lambda: hs.GaussianProcessEmbedding(**near, random_state=0)),
        ("DiffusionMaps", lambda: hs.DiffusionMaps(**near, solver="randomized")),
        ("HeatSketch", lambda: hs.HeatSketch(**near, solver_params=few, random_state=0)),
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


_PADDED = 8  # columns are filled up to a multiple of this
_ITEM = 8  # bytes of float64


def _columns(k: int) -> int:
    return ceil(k / _PADDED) * _PADDED


def n_tasks(n: int) -> int:
    """Tasks of a product with every pair: a tile and its halves, and sums as trees."""
    n_bands = len(chunk_sizes(n))
    tiles = n_bands * (n_bands + 1) // 2
    return 3 * tiles + tiles // 2 + 2 * n_bands * ceil(n_bands / SQUARE)


def memory_of_product(n: int, d: int, k: int, workers: int) -> float:
    """Bytes that a worker needs at most for a product with every pair, beside the interpreter.

    Its share of the points, of the columns, and of the product with the sums it is made of; points and columns of the
    bands of the squares that are under way, with the halves of their tiles; and a tile's own copy of two bands.
    """
    rows, share = max(chunk_sizes(n)), n / workers
    under_way = 1 + ceil(TASKS * workers / SQUARE**2)
    bands = min(2 * SQUARE * (under_way + 1), len(chunk_sizes(n)))
    parts = 2 * min(SQUARE**2 * (under_way + 1), len(chunk_sizes(n)) ** 2 / 2) / workers * rows * k
    tile = 2 * rows * (3 * d + 4 * _columns(k))
    return float(_ITEM * (share * (2 * d + 3 * k) + bands * rows * (d + k) + parts + tile))


def bytes_of_product(n: int, d: int, k: int, workers: int) -> float:
    """Bytes that travel in a product with every pair, at most.

    For each square every worker fetches the points and columns of its bands that it does not hold; half of a tile's
    products are added up elsewhere.
    """
    if workers == 1:
        return 0.0
    n_bands, rows = len(chunk_sizes(n)), max(chunk_sizes(n))
    away = 1.0 - 1.0 / workers
    along = ceil(n_bands / SQUARE)
    touched = min(SQUARE, n_bands) * along**2  # 8 bands of a square on the diagonal, 16 of others
    fetched = touched * rows * (d + k) * min(workers, SQUARE**2)
    summed = n_bands**2 * rows * k
    return float(_ITEM * away * (fetched + summed))


@dataclass(frozen=True)
class Exact:
    """Seconds of a product with every pair: per pair, per pair and feature, per pair and column, per task."""

    pair: float
    feature: float
    column: float
    task: float

    @classmethod
    def fit(cls, rows: list[Row]) -> Exact:
        """The constants by runs."""
        return cls(*_fitted([cls._terms(r["n"], r["d"], r["k"], r["workers"]) for r in rows], rows))

    @staticmethod
    def _terms(n: int, d: int, k: int, workers: int) -> list[float]:
        pairs = n * float(n) / 2.0 / workers
        return [pairs, pairs * d, pairs * _columns(k), float(n_tasks(n))]

    def seconds(self, n: int, d: int, k: int, workers: int) -> float:
        """Of one product."""
        return float(np.dot(self._terms(n, d, k, workers), [self.pair, self.feature, self.column, self.task]))


@dataclass(frozen=True)
class Sparse:
    """Seconds of a product with a graph: per entry and column, per byte moved, per task; and of making the graph.

    For the graph each row of a band is looked up in every band that touches its own. No more workers than bands have
    something to do.
    """

    entry: float
    byte: float
    task: float
    asked: float

    @classmethod
    def fit(cls, rows: list[Row]) -> Sparse:
        """The constants by runs."""
        products = _fitted([cls._terms(r) for r in rows], rows)
        making = _fitted([[cls._asked(r)] for r in rows], rows, "graph_seconds")
        return cls(*products, *making)

    @staticmethod
    def _terms(r: Row) -> list[float]:
        busy = min(r["workers"], r["bands"])
        return [r["nnz"] * _columns(r["k"]) / busy, r["halo"] * r["k"] * _ITEM / busy, r["tasks"]]

    @staticmethod
    def _asked(r: Row) -> float:
        """Rows that a worker looks up in bands."""
        return float(r["tasks"] * r["n"] / r["bands"] / min(r["workers"], r["bands"]))

    def seconds(self, row: Row) -> float:
        """Of one product."""
        return float(np.dot(self._terms(row), [self.entry, self.byte, self.task]))

    def graph_seconds(self, row: Row) -> float:
        """Of search and graph."""
        return self.asked * self._asked(row)


def _fitted(terms: list[list[float]], rows: list[Row], name: str = "seconds") -> list[float]:
    """Non-negative constants whose sums are closest to the seconds, by relative error."""
    seconds = np.array([row[name] for row in rows])
    matrix = np.array(terms) / seconds[:, None]
    size = np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
    found = nnls(matrix / size, np.ones(len(rows)))[0] / size
    return [float(constant) for constant in found]


# What the last table assumes: columns, products of the scaling, diffusion time, neighbours.
_K, _SCALING, _POWER = 32, 13, 8
# Pairs a second that a GPU forms and multiplies (docs/gpu, 10 features by its model), and bytes a second of a network.
_GPU_PAIRS, _NETWORK = 1.9e12, 1.25e9


def _speed(rows: list[Row]) -> str:
    one, two = (median(r["seconds"] for r in rows if r["workers"] == w) for w in (1, 2))
    turns = sorted({r["turn"] for r in rows})
    ratios = []
    for turn in turns:
        here = [r for r in rows if r["turn"] == turn]
        ratios.append(
            median(r["seconds"] for r in here if r["workers"] == 1)
            / median(r["seconds"] for r in here if r["workers"] == 2)
        )
    n, d, k = (rows[0][name] for name in "ndk")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    table = grid(["workers", "seconds (median)"], [["1", f"{one:.2f}"], ["2", f"{two:.2f}"]])
    return (
        f"A product of the kernel of every pair of {n:,} points of R^{d} with {k} columns, "
        f"one worker and two by turns. Two workers are {median(ratios):.2f} times as fast ({listed}).\n\n{table}"
    )


def _same(rows: list[Row]) -> str:
    table = grid(
        ["estimator", "pairs", "difference of embeddings", "log L, cluster", "log L, memory", "seconds"],
        [
            [
                r["estimator"],
                "every pair" if "neighbors" not in r else f"{r['neighbors']:.0f} neighbours",
                f"{r['difference']:.1e}",
                f"{r['log_there']:.3f}",
                f"{r['log_here']:.3f}",
                f"{r['seconds']:.0f}",
            ]
            for r in rows
        ],
    )
    return (
        f"Every estimator fitted to {rows[0]['n']:,} points of a torus, on two workers and in "
        "memory: the norm of the difference over that of the embedding. HeatSketch (64 columns, 8 rounds) ends "
        "where rounding leads its optimisation, so that its measured distortion is what to compare.\n\n" + table
    )


def _faults(rows: list[Row]) -> str:
    worst = max(r["difference"] for r in rows)
    killed = sum(r["killed"] for r in rows)
    table = grid(
        ["pairs", "killed after", "of", "then took", "difference"],
        [
            [
                "every pair" if "neighbors" not in r else f"{r['neighbors']:.0f} neighbours",
                f"{r['moment']:.1f} s",
                f"{r['plain']:.1f} s",
                f"{r['seconds']:.1f} s",
                f"{r['difference']:.1e}",
            ]
            for r in rows
        ],
    )
    return (
        f"In each of {len(rows)} fits to {rows[0]['n']:,} points a worker of two was "
        f"killed (SIGKILL) at a random moment; {killed} of them died. All {len(rows)} fits ended, with embeddings that "
        f"differ from those in memory by {worst:.1e} at most. What was lost is computed again: a fit takes up to "
        f"{max(r['seconds'] / r['plain'] for r in rows):.1f} times as long, the start of another worker included.\n\n"
        + table
    )


def _memory(rows: list[Row]) -> str:
    table = grid(
        ["N", "d", "k", "measured", "predicted at most"],
        [
            [
                f"{r['n']:,}",
                str(r["d"]),
                str(r["k"]),
                f"{r['bytes'] / 2**20:.0f} MiB",
                f"{memory_of_product(r['n'], r['d'], r['k'], r['workers']) / 2**20:.0f} MiB",
            ]
            for r in rows
        ],
    )
    within = sum(r["bytes"] <= memory_of_product(r["n"], r["d"], r["k"], r["workers"]) for r in rows)
    return (
        "The most that either of two workers held beyond what it held before, over making the "
        "kernel of every pair and multiplying by it, and the bound of the model below (its share of the points and "
        "columns, a few squares of bands under way, and the tile in hand). The kernel itself would take "
        f"{rows[-1]['n'] ** 2 * 8 / 2**30:.0f} GiB. {within} of {len(rows)} are within the bound; the "
        "interpreter's own memory, some 200 MiB, is not counted.\n\n" + table
    )


def _moved(rows: list[Row]) -> str:
    table = grid(
        ["N", "d", "pairs", "halo", "recall", "sent", "predicted at most"],
        [
            [
                f"{r['n']:,}",
                str(r["d"]),
                "every pair" if "neighbors" not in r else f"{r['neighbors']:.0f} neighbours",
                "" if "neighbors" not in r else f"{100 * r['halo'] / r['n']:.0f}% of N",
                "" if "neighbors" not in r else f"{r['recall']:.3f}",
                f"{r['bytes'] / 1e6:.2f} MB",
                f"{r.get('predicted', bytes_of_product(r['n'], r['d'], r['k'], r['workers'])) / 1e6:.2f} MB",
            ]
            for r in rows
        ],
    )
    return (
        "What two workers sent each other in one product with "
        f"{rows[0]['k']} columns, by their own counters. With a graph only the rows of the halo travel, the neighbours "
        "of a band that lie in others, and half of these lie on the same worker here. In few dimensions bands that "
        "were placed by locality have small halos; in many dimensions nearly every point has neighbours elsewhere.\n\n"
        + table
    )


def _model(exact_rows: list[Row], sparse_rows: list[Row]) -> str:
    exact = Exact.fit([r for r in exact_rows if r["use"] == "fit"])
    sparse = Sparse.fit([r for r in sparse_rows if r["use"] == "fit"])
    checked = [
        [
            f"every pair, N = {r['n']:,}, d = {r['d']}, k = {r['k']}, {r['workers']} worker(s)",
            r["use"],
            f"{r['seconds']:.2f}",
            f"{exact.seconds(r['n'], r['d'], r['k'], r['workers']):.2f}",
        ]
        for r in exact_rows
    ]
    for r in sparse_rows:
        name = f"32 neighbours, N = {r['n']:,}, d = 3, k = {r['k']}, 2 workers"
        checked.append([name, r["use"], f"{r['seconds']:.3f}", f"{sparse.seconds(r):.3f}"])
        name = f"its graph, N = {r['n']:,}"
        checked.append([name, r["use"], f"{r['graph_seconds']:.1f}", f"{sparse.graph_seconds(r):.1f}"])
    off = [abs(float(row[3]) / float(row[2]) - 1.0) for row in checked if row[1] == "check"]
    text = _MODEL.format(
        table=grid(["", "every pair", "neighbours"], _costs(exact, sparse)), off=f"{100 * max(off):.0f}"
    )
    runs = grid(["run", "used to", "seconds", "by the model"], checked)
    return text + runs + _scaled_up(exact, sparse, sparse_rows)


_MODEL = """
With N points of R^d, k columns (filled up to a multiple of 8), W workers of one thread, bands of n rows, B = N / n of
them (n = 4,096 up to 262,144 points, then N / 64 up to 65,536, and N / 512 beyond 33 million points):

{table}
A fit takes one product with ones, a dozen with one column each to balance the kernel, and p with k columns. The
constants were fitted to the runs marked "fit", by least squares of relative errors; those marked "check", at other
sizes, were not used, and are off by up to {off}%. Tasks are bound by the scheduler, which is one process: its part does
not shrink with W.

"""


def _costs(exact: Exact, sparse: Sparse) -> list[list[str]]:
    pair, feature, column = 1e9 * exact.pair, 1e12 * exact.feature, 1e12 * exact.column
    entry, byte = 1e9 * sparse.entry, 1e9 * sparse.byte
    return [
        [
            "seconds of a product",
            f"N²/2 ({pair:.2f} ns + {feature:.1f} ps d + {column:.1f} ps k) / W, and {1e3 * exact.task:.2f} ms for "
            "each of about 2 B² tasks",
            f"({entry:.2f} ns k for each entry + {byte:.2f} ns for each byte moved) / W, and {1e3 * sparse.task:.2f} "
            "ms for each task: a band, or a pair of bands that touch",
        ],
        ["flops of a product", "N²/2 (2 d + 4 k + 20)", "2 k for each entry"],
        [
            "bytes moved",
            "8 (d + k) n for each worker and each band of each square of 8 by 8 bands, and the halves of tiles",
            "8 k for each row of the halo",
        ],
        [
            "memory of a worker",
            "8 (2 d + 3 k) N / W, 8 (d + k) n for each band of the squares under way, and two bands in hand",
            "8 (d + 3 k) N / W, and 12 bytes for each entry of its bands",
        ],
        [
            "once",
            "a pass over the points",
            f"search and graph: {1e6 * sparse.asked:.0f} µs for each row and band that touches its own / W, in R^3",
        ],
    ]


def _scaled_up(exact: Exact, sparse: Sparse, rows: list[Row]) -> str:
    last = max(rows, key=lambda r: r["n"])
    per_point = last["nnz"] / last["n"]
    lines = []
    for n, workers in ((10**6, 64), (10**8, 1024), (10**9, 8192)):
        products = 1 + _SCALING, _POWER
        seconds = products[0] * exact.seconds(n, 10, 1, workers) + products[1] * exact.seconds(n, 10, _K, workers)
        moved = sum(m * bytes_of_product(n, 10, k, workers) for m, k in zip(products, (1, _K), strict=True))
        gpus = sum(products) * float(n) * n / _GPU_PAIRS / (workers // 64)
        scheduler = sum(products) * exact.task * n_tasks(n)
        lines.append(_line(f"every pair, R^10, {workers:,} cores", (n, workers), seconds, moved, scheduler))
        lines.append([f"every pair, R^10, {workers // 64} GPUs", f"{n:.0e}", _duration(gpus), "", "", "exponentials"])
        bands = len(chunk_sizes(n))
        halo = last["halo"] / last["n"] * (bands / last["bands"]) ** (1 / 3) * (last["n"] / n) ** (1 / 3) * n
        row = {"n": n, "nnz": per_point * n, "halo": halo, "workers": workers, "tasks": 14.0 * bands, "bands": bands}
        parts = [sparse.seconds(row | {"k": k}) for k in (1, _K)]
        seconds = sparse.graph_seconds(row) + products[0] * parts[0] + products[1] * parts[1]
        moved = halo * 8 * (products[0] + products[1] * _K)
        scheduler = sum(products) * sparse.task * row["tasks"]
        name = f"32 neighbours, R^3, {workers:,} cores"
        lines.append(_line(name, (n, workers), seconds, moved, scheduler))
    table = grid(["fit", "N", "time", "bytes moved", "at 10 Gbit/s each", "bound by"], lines)
    return (
        f"\n### A hundred million and a billion points\n\nThe model for a fit with k = {_K} and p = {_POWER}, beyond "
        "anything that was run here: an extrapolation, not a measurement. GPUs are one for 64 cores, at the rate that "
        "[one was measured at](../gpu/index.md). A halo is a surface: it grows with the bands by the power 2/3 of "
        f"their points in R^3.\n\n{table}\n"
        "Every pair of a hundred million points is a matter of exponentials, half of 10^16 of them in every product: "
        "that is for GPUs, or for nobody. With neighbours the same points take some "
        f"{12 * per_point * 1e8 / 1e9:.0f} GB of memory in all for the graph, and fit on a cluster that many have. "
        "What bounds it there is in the last column. Bands are never more than 512, which is also the number of "
        "workers that a product with a graph can use; the scheduler, one process, hands out "
        f"{14 * len(chunk_sizes(10**9)):,} tasks for one.\n"
    )


def _line(name: str, size: tuple[int, int], seconds: float, moved: float, scheduler: float) -> list[str]:
    n, workers = size
    network = moved / workers / _NETWORK
    bound = max((("cores", seconds - scheduler), ("scheduler", scheduler), ("network", network)), key=lambda b: b[1])[0]
    return [name, f"{n:.0e}", _duration(seconds), f"{moved / 1e12:.2g} TB", _duration(network), bound]


def _duration(seconds: float) -> str:
    for unit, size in (("years", 365 * 86_400.0), ("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.1f} s"


@dataclass(frozen=True)
class Section(Experiment):
    """One kind of measurement: a function of this module with the name of the table, in a fresh process."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("heatsketch", "numba", "dask", "distributed")
    small: int = 0

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """All rows of the section."""
        rows = run_apart(f"benchmarks.cluster:{self.name}", {"quick": bool(self.small)}, timeout_s=3600.0)
        if any(row.get("status", "ok") != "ok" for row in rows):
            raise RuntimeError(str(rows[-1]["reason"]))
        return rows


def _section(name: str, write: Callable[[list[Row]], str]) -> Callable[[Tables], str]:
    return lambda tables: write(records(tables[name])) if name in tables else ""


def _both_models(tables: Tables) -> str:
    if not {"exact_model", "sparse_model"} <= set(tables):
        return ""
    return _model(records(tables["exact_model"]), records(tables["sparse_model"]))


_INTRODUCTION = """
What the estimators do on [Dask](../guide/cluster.md): how much faster two workers are than one, whether the embedding
is the same, what happens when workers are killed, how much memory and traffic a worker has, and what that means for
data that no machine here could hold. Workers are processes of one machine, with one thread each.
"""

STUDY = Study(
    "cluster",
    "On a cluster, measured",
    _INTRODUCTION,
    tuple(map(Section, ("speed", "memory", "moved", "same", "faults", "exact_model", "sparse_model"))),
    sections={
        "Two workers and one": _section("speed", _speed),
        "The same embedding": _section("same", _same),
        "Workers that are killed": _section("faults", _faults),
        "Memory of a worker": _section("memory", _memory),
        "Bytes that travel": _section("moved", _moved),
        "What it costs, as a model": _both_models,
    },
    quick=lambda experiment: replace(experiment, small=1),  # type: ignore[call-arg]
)

if __name__ == "__main__":
    main(STUDY)
