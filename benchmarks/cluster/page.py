"""The page, from the results and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from heatsketch.backends.dask.layout import band_sizes

from .model import Exact, Sparse, bytes_of_product, memory_of_product, n_tasks

__all__ = ["page"]

Row = dict[str, Any]
# What the last table assumes: columns, products of the scaling, diffusion time, neighbours.
_K, _SCALING, _POWER = 32, 13, 8
# Pairs a second that a GPU forms and multiplies (docs/gpu, 10 features by its model), and bytes a second of a network.
_GPU_PAIRS, _NETWORK = 1.9e12, 1.25e9


def page(results: Row) -> str:
    """The whole page in Markdown."""
    sections, machine = results.get("sections", {}), results.get("machine", {})
    parts = [_HEAD.format(command=results.get("command", ""), machine=_machine(machine))]
    writers = {
        "speed": _speed,
        "same": _same,
        "faults": _faults,
        "memory": _memory,
        "moved": _moved,
    }
    parts += [write(sections[name]) for name, write in writers.items() if name in sections]
    if "exact_model" in sections and "sparse_model" in sections:
        parts.append(_model(sections["exact_model"], sections["sparse_model"]))
    return "\n".join(parts)


_HEAD = """# On a cluster, measured

What the estimators do on [Dask](../guide/cluster.md): how much faster two workers are than one, whether the embedding
is the same, what happens when workers are killed, how much memory and traffic a worker has, and what that means for
data that no machine here could hold. Workers are processes of one machine, with one thread each; `{command}` measures
all of it and writes this page from `results.json`.

{machine}
"""


def _machine(machine: Row) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.get("versions", {}).items())
    about = f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('memory_gib')} GiB"
    return f"Machine: {about}, {machine.get('system')}. {versions}."


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


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
    table = _table(["workers", "seconds (median)"], [["1", f"{one:.2f}"], ["2", f"{two:.2f}"]])
    return (
        f"## Two workers and one\n\nA product of the kernel of every pair of {n:,} points of R^{d} with {k} columns, "
        f"one worker and two by turns. Two workers are {median(ratios):.2f} times as fast ({listed}).\n\n{table}"
    )


def _same(rows: list[Row]) -> str:
    table = _table(
        ["estimator", "pairs", "difference of embeddings", "log L, cluster", "log L, memory", "seconds"],
        [
            [
                r["estimator"],
                "every pair" if r["neighbors"] is None else f"{r['neighbors']} neighbours",
                f"{r['difference']:.1e}",
                f"{r['log_there']:.3f}",
                f"{r['log_here']:.3f}",
                f"{r['seconds']:.0f}",
            ]
            for r in rows
        ],
    )
    return (
        f"## The same embedding\n\nEvery estimator fitted to {rows[0]['n']:,} points of a torus, on two workers and in "
        "memory: the norm of the difference over that of the embedding. HeatSketch (64 columns, 8 rounds) ends "
        "where rounding leads its optimisation, so that its measured distortion is what to compare.\n\n" + table
    )


def _faults(rows: list[Row]) -> str:
    worst = max(r["difference"] for r in rows)
    killed = sum(r["killed"] for r in rows)
    table = _table(
        ["pairs", "killed after", "of", "then took", "difference"],
        [
            [
                "every pair" if r["neighbors"] is None else f"{r['neighbors']} neighbours",
                f"{r['moment']:.1f} s",
                f"{r['plain']:.1f} s",
                f"{r['seconds']:.1f} s",
                f"{r['difference']:.1e}",
            ]
            for r in rows
        ],
    )
    return (
        f"## Workers that are killed\n\nIn each of {len(rows)} fits to {rows[0]['n']:,} points a worker of two was "
        f"killed (SIGKILL) at a random moment; {killed} of them died. All {len(rows)} fits ended, with embeddings that "
        f"differ from those in memory by {worst:.1e} at most. What was lost is computed again: a fit takes up to "
        f"{max(r['seconds'] / r['plain'] for r in rows):.1f} times as long, the start of another worker included.\n\n"
        + table
    )


def _memory(rows: list[Row]) -> str:
    table = _table(
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
        "## Memory of a worker\n\nThe most that either of two workers held beyond what it held before, over making the "
        "kernel of every pair and multiplying by it, and the bound of the model below (its share of the points and "
        "columns, a few squares of bands under way, and the tile in hand). The kernel itself would take "
        f"{rows[-1]['n'] ** 2 * 8 / 2**30:.0f} GiB. {within} of {len(rows)} are within the bound; the "
        "interpreter's own memory, some 200 MiB, is not counted.\n\n" + table
    )


def _moved(rows: list[Row]) -> str:
    table = _table(
        ["N", "d", "pairs", "halo", "recall", "sent", "predicted at most"],
        [
            [
                f"{r['n']:,}",
                str(r["d"]),
                "every pair" if r["neighbors"] is None else f"{r['neighbors']} neighbours",
                "" if r["neighbors"] is None else f"{100 * r['halo'] / r['n']:.0f}% of N",
                "" if r["neighbors"] is None else f"{r['recall']:.3f}",
                f"{r['bytes'] / 1e6:.2f} MB",
                f"{r.get('predicted', bytes_of_product(r['n'], r['d'], r['k'], r['workers'])) / 1e6:.2f} MB",
            ]
            for r in rows
        ],
    )
    return (
        "## Bytes that travel\n\nWhat two workers sent each other in one product with "
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
        table=_table(["", "every pair", "neighbours"], _costs(exact, sparse)), off=f"{100 * max(off):.0f}"
    )
    runs = _table(["run", "used to", "seconds", "by the model"], checked)
    return text + runs + _scaled_up(exact, sparse, sparse_rows)


_MODEL = """## What it costs, as a model

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
        bands = len(band_sizes(n))
        halo = last["halo"] / last["n"] * (bands / last["bands"]) ** (1 / 3) * (last["n"] / n) ** (1 / 3) * n
        row = {"n": n, "nnz": per_point * n, "halo": halo, "workers": workers, "tasks": 14.0 * bands, "bands": bands}
        parts = [sparse.seconds(row | {"k": k}) for k in (1, _K)]
        seconds = sparse.graph_seconds(row) + products[0] * parts[0] + products[1] * parts[1]
        moved = halo * 8 * (products[0] + products[1] * _K)
        scheduler = sum(products) * sparse.task * row["tasks"]
        name = f"32 neighbours, R^3, {workers:,} cores"
        lines.append(_line(name, (n, workers), seconds, moved, scheduler))
    table = _table(["fit", "N", "time", "bytes moved", "at 10 Gbit/s each", "bound by"], lines)
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
        f"{14 * len(band_sizes(10**9)):,} tasks for one.\n"
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
