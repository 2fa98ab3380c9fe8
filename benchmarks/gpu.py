"""All pairs on a GPU, beside its ceilings, plain PyTorch and the CPU: ``python -m benchmarks.gpu``.

``--set device=cuda:1`` names another GPU, and ``--quick --set device=torch-cpu`` tries everything on the CPU.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, ClassVar

import numpy as np
import psutil

import heatsketch as hs
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import failure_row, run_apart
from heatsketch_paper.harness.store import records
from heatsketch_paper.harness.study import Claim, Study, Tables, claim, main, number, rows_table, section

from .data import make

COLUMNS, POWER, COMPONENTS, NEIGHBORS = 32, 16, 10, 32
FEATURES = (3, 50)
SAMPLED = 64  # rows that errors are measured on
STRIP = 4096  # rows that plain PyTorch takes at a time


class Bench:
    """A device of PyTorch, named as estimators take it, with a clock and exact products."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415

        self.torch, self.device = torch, device
        self.where = "cpu" if device == "torch-cpu" else device
        self.is_cuda = self.where.startswith("cuda")

    def case(self, work: Callable[[], Row], **about: Any) -> Row:
        """A row; a failure is one as well, and the next case goes on."""
        if self.is_cuda:
            gc.collect()
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats(self.where)
        try:
            return about | {"status": "ok"} | work()
        except Exception as failure:
            return about | failure_row(failure)

    def wall(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds until the device is done, and the result."""
        wait = partial(self.torch.cuda.synchronize, self.where) if self.is_cuda else lambda: None
        wait()
        start = time.perf_counter()
        found = work()
        wait()
        return time.perf_counter() - start, found

    def seconds(self, work: Callable[[], Any], repeats: int = 5) -> list[float]:
        """Seconds of some runs, after one that is not counted."""
        work()
        return [self.wall(work)[0] for _ in range(repeats)]

    def memory(self) -> Row:
        """Peaks of memory in GB: on the device since the case began, of the process since its start."""
        found: Row = {"host_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}
        if self.is_cuda:
            found["device_gb"] = self.torch.cuda.max_memory_allocated(self.where) / 1e9
        return found

    def tensor(self, values: Any) -> Any:
        """An array on the device."""
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.where)

    def columns(self, n: int, k: int = COLUMNS) -> Any:
        """Standard normal columns of float32, on the device, shape (n, k)."""
        return self.tensor(np.random.default_rng(1).standard_normal((n, k), dtype=np.float32))

    def sampled(self, n: int) -> Any:
        """Indices of the rows that errors are measured on."""
        return self.tensor(np.sort(np.random.default_rng(2).choice(n, min(n, SAMPLED), replace=False)))

    def exact_rows(self, X: Any, epsilon: float, rows: Any, V: Any, *, as_halves: bool = False) -> Any:
        """Rows of K V in float64, from differences; with K in float64, or rounded to halves."""
        x = X.double()
        apart = self.torch.cdist(x[rows], x, compute_mode="donot_use_mm_for_euclid_dist")
        K = apart.square_().mul_(-1.0 / epsilon).exp_()
        return (K.half().double() if as_halves else K) @ V.double()

    def error(self, X: Any, epsilon: float, found: Any, V: Any) -> float:
        """Frobenius norm of the error on sampled rows, over that of these rows in float64."""
        rows = self.sampled(len(found))
        exact = self.exact_rows(X, epsilon, rows, V)
        return float((found[rows].double() - exact).norm() / exact.norm())


def points(n: int, d: int) -> Any:
    """Standard normal points of float32, shape (n, d)."""
    return np.random.default_rng(d).standard_normal((n, d), dtype=np.float32)


def bandwidth_of(d: int) -> float:
    """A bandwidth at which no pair of standard normal points of R^d is negligible."""
    return 0.5 if d <= 3 else float(d)


def ceilings(device: str, small: bool) -> Iterator[Row]:
    """What the chip does at best: products of matrices, and exponentials."""
    bench = Bench(device)
    torch, where = bench.torch, bench.where
    yield {"what": "chip", "way": _chip(bench)}
    n = 128 if small else 8192
    for kind in ("float16", "bfloat16", "float32"):
        A = torch.randn(n, n, device=where).to(getattr(torch, kind))
        C = torch.empty_like(A)
        best = 2.0 * n**3 / min(bench.seconds(partial(torch.mm, A, A, out=C))) / 1e12
        way = f"{n} x {n} matrices of random normals" + (", without TF32" if kind == "float32" else "")
        yield {"what": f"matrix product, {kind}", "way": way, "best": best, "unit": "TFLOP/s"}
    x = torch.rand(1 << (10 if small else 24), device=where)
    chain = torch.compile(_exponentials) if bench.is_cuda else _exponentials
    best = _CHAIN * len(x) / min(bench.seconds(lambda: chain(x))) / 1e12
    way = f"chains of {_CHAIN}, compiled into one kernel"
    yield {"what": "exponentials", "way": way, "best": best, "unit": "10^12/s"}


_CHAIN = 256


def _exponentials(x: Any) -> Any:
    for _ in range(_CHAIN):
        x = (-x).exp2()
    return x


def _chip(bench: Bench) -> str:
    if not bench.is_cuda:
        return "CPU"
    about = bench.torch.cuda.get_device_properties(bench.where)
    memory = f"{about.total_memory / 2**30:.1f} GiB"
    return f"{about.name}, {about.multi_processor_count} multiprocessors, {memory}, CUDA {bench.torch.version.cuda}"


def operator(bench: Bench, X: Any, bandwidth: float | str, precision: str = "auto") -> tuple[Any, float]:
    """The affinity of all pairs on the device, and its bandwidth."""
    kernel = hs.heat_kernel(
        X, bandwidth=bandwidth, n_neighbors=None, normalization="symmetric", device=bench.device, precision=precision
    )
    return kernel.affinity.operator, float(kernel.bandwidth)


def products(device: str, small: bool) -> Iterator[Row]:
    """K V for all numbers of points and features by the arithmetic that is chosen, and at one size by every other."""
    bench = Bench(device)
    for n in (400,) if small else (100_000, 1_000_000):
        for d in (3, 10, 50, 200):
            X = bench.tensor(points(n, d))
            cases = [(COLUMNS, "auto", "given")]
            if d in FEATURES:
                cases.append((1, "auto", "given"))
                if n == 100_000:
                    cases += [(COLUMNS, precision, "given") for precision in ("halves", "mixed", "split", "float32")]
            if d == 3:
                cases.append((COLUMNS, "auto", "neighbor"))
            for k, precision, rule in cases:
                about = {"n": n, "d": d, "columns": k, "precision": precision, "rule": rule}
                yield bench.case(partial(_product, bench, X, k, precision, rule), **about)


def _product(bench: Bench, X: Any, k: int, precision: str, rule: str) -> Row:
    n, d = X.shape
    op, epsilon = operator(bench, X, bandwidth_of(d) if rule == "given" else rule, precision)
    V = bench.columns(n, k)
    seconds = median(bench.seconds(lambda: op.matmat(V)))
    found = {"epsilon": epsilon, "seconds": seconds, "pairs_per_s": n * float(n) / seconds}
    return found | bench.memory() | _work(op, k) | {"error": bench.error(X, epsilon, op.matmat(V), V)}


def _work(op: Any, k: int) -> Row:
    """How exponents are formed, the share of tiles that is looked at, and matrix flops for each pair."""
    kernel = getattr(op, "_kernel", None)
    found: Row = {"arithmetic": getattr(op, "arithmetic", None), "share": getattr(kernel, "share", 1.0)}
    left = getattr(kernel, "_left", None)
    if left is None:  # PyTorch, some rows at a time
        return found
    width = 0 if k == 1 else max(16, 1 << (k - 1).bit_length())
    depth = 0.0
    if hasattr(left, "columns"):  # eight bits are multiplied twice as fast, and so count half
        depth = left.columns.shape[1] + (0 if left.eighths is None else left.eighths.shape[1] / 2)
    return found | {"flops_per_pair": 2.0 * (depth + 3 * width)}  # two halves each, in three terms


def growth(device: str, small: bool) -> Iterator[Row]:
    """The error for more and more points: columns that average out, and columns that do not."""
    bench = Bench(device)
    for d in FEATURES:
        for n in (100, 300) if small else (1_000, 10_000, 100_000, 1_000_000):
            yield bench.case(partial(_errors, bench, n, d), n=n, d=d)


def _errors(bench: Bench, n: int, d: int) -> Row:
    X = bench.tensor(points(n, d))
    op, epsilon = operator(bench, X, bandwidth_of(d))
    normal, rows = bench.columns(n), bench.sampled(n)
    ones = bench.torch.ones_like(normal)
    found: Row = {"arithmetic": getattr(op, "arithmetic", None)}
    for name, V in (("normal", normal), ("ones", ones), ("one", ones[:, :1].contiguous())):
        found[name] = bench.error(X, epsilon, op.matmat(V), V)
    exact = bench.exact_rows(X, epsilon, rows, normal)
    rounded = bench.exact_rows(X, epsilon, rows, normal.half(), as_halves=True)
    return found | {"rounded": float((rounded - exact).norm() / exact.norm())}


def plain(device: str, small: bool) -> Iterator[Row]:
    """The same product by plain PyTorch in strips of rows, by the same compiled, and by KeOps; in turns."""
    bench = Bench(device)
    for n, d in ((300, 3),) if small else ((100_000, 3), (100_000, 50), (1_000_000, 50)):
        X, V, epsilon = bench.tensor(points(n, d)), bench.columns(n), bandwidth_of(d)
        few = n if n <= 100_000 else 2 * STRIP  # rows that the others are timed on
        makers: dict[str, Callable[[], Callable[[], Any]]] = {
            "heatsketch": lambda X=X, V=V, epsilon=epsilon: partial(operator(bench, X, epsilon)[0].matmat, V),
            "PyTorch": partial(_strips, bench, X, V, epsilon, few),
            "KeOps": partial(_keops, X, V, epsilon, few),
        }
        if bench.is_cuda:
            makers["PyTorch, compiled"] = partial(_strips, bench, X, V, epsilon, few, compiled=True)
        rows = {
            name: bench.case(partial(_checked, bench, make, X, V, epsilon), n=n, d=d, method=name)
            for name, make in makers.items()
        }
        ready = {name: row.pop("work") for name, row in rows.items() if "work" in row}
        turns = [{name: bench.wall(work)[0] for name, work in ready.items()} for _ in range(5)]
        for name, row in rows.items():
            if name in ready:
                row["timed_rows"] = n if name == "heatsketch" else few
                row["seconds"] = median(turn[name] for turn in turns) * n / row["timed_rows"]
                row["ratio"] = row["seconds"] / rows["heatsketch"].get("seconds", np.nan)
            yield row


def _checked(bench: Bench, make: Callable[[], Callable[[], Any]], X: Any, V: Any, epsilon: float) -> Row:
    work = make()
    return {"error": bench.error(X, epsilon, work(), V), "work": work}


def _strip(some: Any, X: Any, norms: Any, V: Any, epsilon: float) -> Any:
    """Rows of K V: squared distances from norms and a product, exponentials, and a product."""
    here = some.square().sum(1)
    squared = (some @ X.T).mul_(-2.0).add_(norms[None, :]).add_(here[:, None]).clamp_(min=0.0)
    return squared.mul_(-1.0 / epsilon).exp_() @ V


def _strips(bench: Bench, X: Any, V: Any, epsilon: float, timed: int, *, compiled: bool = False) -> Callable[[], Any]:
    torch, size = bench.torch, min(STRIP, timed)
    norms = X.square().sum(1)
    strip = torch.compile(_strip, dynamic=False) if compiled else _strip

    def work() -> Any:
        out = torch.empty((timed, V.shape[1]), device=X.device)
        for start in range(0, timed, size):
            rows = slice(min(start, timed - size), min(start, timed - size) + size)  # one shape, compiled once
            out[rows] = strip(X[rows], X, norms, V, epsilon)
        return out

    return work


def _keops(X: Any, V: Any, epsilon: float, timed: int) -> Callable[[], Any]:
    from pykeops.torch import LazyTensor  # noqa: PLC0415

    x, y = LazyTensor(X[:timed, None, :].contiguous()), LazyTensor(X[None, :, :].contiguous())
    kernel = (-((x - y) ** 2).sum(-1) / epsilon).exp()
    return lambda: kernel @ V


def estimator(device: str, k: int = COLUMNS, **options: Any) -> Any:
    """A Gaussian process embedding, of all pairs unless `options` say otherwise."""
    return hs.GaussianProcessEmbedding(k, power=POWER, **{"n_neighbors": None} | options, device=device, random_state=0)


def _fit(d: int, device: str, small: bool) -> Iterator[Row]:
    """An embedding of all pairs: first in a fresh process, then again, then with the bandwidth of a rule."""
    n = 400 if small else 1_000_000
    start = time.time()
    X = points(n, d)
    began = psutil.Process().create_time() + time.time() - start  # without the time that the points take
    bench = Bench(device)

    def first() -> Row:
        estimator(device, bandwidth=bandwidth_of(d)).fit(X)
        return {"seconds": time.time() - began} | bench.memory()

    def again(bandwidth: float | str) -> Row:
        model = estimator(device, bandwidth=bandwidth)
        seconds, _ = bench.wall(lambda: model.fit(X))
        found = {"seconds": seconds, "epsilon": float(model.bandwidth_), "scaling_products": int(model.n_iter_)}
        return found | bench.memory() | {"row_sums": _row_sums(bench, model, X)}

    yield bench.case(first, n=n, d=d, rule="given", run="first")
    yield bench.case(partial(again, bandwidth_of(d)), n=n, d=d, rule="given", run="again")
    yield bench.case(partial(again, "neighbor"), n=n, d=d, rule="neighbor", run="again")


fit_50, fit_3 = partial(_fit, 50), partial(_fit, 3)


def _row_sums(bench: Bench, model: Any, X: Any) -> float:
    """Largest deviation from 1 of sampled row sums of the fitted kernel, in float64."""
    scale = bench.torch.as_tensor(model.kernel_.scaling.scale).to(bench.where).double()
    rows = bench.sampled(len(X))
    sums = scale[rows] * bench.exact_rows(bench.tensor(X), float(model.bandwidth_), rows, scale[:, None])[:, 0]
    return float((sums - 1.0).abs().max())


def _warm_fit(bench: Bench, make: Callable[[], Any], X: Any) -> tuple[Row, Any]:
    """A fit after one of a twentieth of the points."""
    make().fit(X[: max(len(X) // 20, 60)])
    seconds, model = bench.wall(lambda: make().fit(X))
    return {"seconds": seconds} | bench.memory(), model


def others(device: str, small: bool) -> Iterator[Row]:
    """DiffusionMaps and HeatSketch of all pairs."""
    bench, n = Bench(device), 100 if small else 50_000
    options = {"power": POWER, "bandwidth": bandwidth_of(3), "n_neighbors": None, "device": device}
    for kind, k, more in (
        (hs.DiffusionMaps, COMPONENTS, {}),
        (hs.HeatSketch, 4, {"objective": "bilipschitz", "random_state": 0}),
    ):
        make = partial(kind, k, **options, **more)

        def work(make: Any = make) -> Row:
            row, model = _warm_fit(bench, make, points(n, 3))
            return row | ({"log_distortion": model.distortion().log} if isinstance(model, hs.HeatSketch) else {})

        yield bench.case(work, method=kind.__name__, n=n, d=3, components=k)


def neighbours(device: str, small: bool) -> Iterator[Row]:
    """Fits with a graph of neighbours."""
    bench, n = Bench(device), 400 if small else 1_000_000
    for d in FEATURES:

        def work(d: int = d) -> Row:
            make = partial(estimator, device, COMPONENTS, n_neighbors=NEIGHBORS)
            row, model = _warm_fit(bench, make, points(n, d))
            return row | {"recall": float(model.kernel_.affinity.recall)}

        yield bench.case(work, n=n, d=d)


def optimised(device: str, small: bool) -> Iterator[Row]:
    """HeatSketch with its defaults, in the plane."""
    bench, n = Bench(device), 400 if small else 1_000_000
    for data in ("swiss roll", "tree"):
        X = make(data, n)
        yield bench.case(
            lambda X=X: _warm_fit(bench, lambda: hs.HeatSketch(device=device, random_state=0), X)[0],
            data=data,
            n=n,
            d=X.shape[1],
        )


def cpu(device: str, small: bool) -> Iterator[Row]:
    """The CPU and the device in turns, on points of which both can take all pairs."""
    bench, n = Bench(device), 300 if small else 20_000
    for d in FEATURES:
        X = points(n, d)

        def work(X: Any = X, d: int = d) -> Row:
            times: dict[str, list[float]] = {"cpu": [], device: []}
            for turn in range(4):
                few = X if turn else X[: max(n // 10, 60)]  # the first turn compiles
                for name, found in times.items():
                    model = estimator(name, bandwidth=bandwidth_of(d))
                    found.append(bench.wall(partial(model.fit, few))[0])
            there, here = (median(found[1:]) for found in times.values())
            return {"cpu_s": there, "device_s": here, "ratio": there / here}

        yield bench.case(work, n=n, d=d)


def same(device: str, small: bool) -> Iterator[Row]:
    """Embeddings by the CPU and by the device: how far apart they are."""
    bench, n = Bench(device), 200 if small else 10_000
    for d in FEATURES:
        for dtype in ("float32", "float64"):
            for kept in (None, NEIGHBORS):
                X, options = points(n, d).astype(dtype), {"bandwidth": bandwidth_of(d), "n_neighbors": kept}

                def work(X: Any = X, options: Row = options) -> Row:
                    models = [estimator(name, COMPONENTS, **options).fit(X) for name in ("cpu", device)]
                    here, there = (model.embedding_.astype(np.float64) for model in models)
                    recalls = [float(getattr(model.kernel_.affinity, "recall", 1.0)) for model in models]
                    difference = float(np.linalg.norm(here - there) / np.linalg.norm(here))
                    return {"recall_cpu": recalls[0], "recall_device": recalls[1], "difference": difference}

                kernel = f"{kept} neighbours" if kept else "every pair"
                yield bench.case(work, n=n, d=d, dtype=dtype, kernel=kernel)


@dataclass(frozen=True)
class Section(Experiment):
    """One kind of measurement: a function of this module with the name of the table, in a fresh process."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("heatsketch", "torch", "triton", "pykeops")
    device: str = "cuda"
    small: int = 0

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """All rows; caches of compiled code are empty, for the times of a first fit."""
        job = {"device": self.device, "small": bool(self.small)}
        with tempfile.TemporaryDirectory() as empty:
            caches = {"TRITON_CACHE_DIR": empty}
            rows = run_apart(f"benchmarks.gpu:{self.name}", job, timeout_s=200.0, memory_gib=100.0, environment=caches)
        if all(row.get("status", "ok") != "ok" for row in rows):
            raise ReproductionError(f"{self.name}: {rows[-1]['reason']}")
        return rows


def judged(tables: Tables) -> Iterator[Claim]:
    """All claims whose tables are there."""
    fits = [row for name in ("fit_50", "fit_3") for row in _good(tables, name) if "row_sums" in row]
    if fits:
        worst = max(row["row_sums"] for row in fits)
        yield claim("Row sums of fitted kernels are within 1e-4 of 1.", f"{worst:.1e} at most", worst <= 1e-4)
    chosen = [row["error"] for row in _good(tables, "products") if row["precision"] == "auto"]
    if chosen:
        statement = "Every product is within 1e-4 of the exact one, by the arithmetic that is chosen."
        yield claim(statement, f"{max(chosen):.1e} at most", max(chosen) <= 1e-4)
    ratios = [row["ratio"] for row in _good(tables, "plain") if row["method"].startswith("PyTorch")]
    if ratios:
        measured = f"{number(min(ratios))} to {number(max(ratios))} times as long"
        yield claim("Plain and compiled PyTorch take longer for a product.", measured, min(ratios) > 1.0)


def _good(tables: Tables, name: str) -> list[Row]:
    return [row for row in records(tables[name]) if row.get("status", "ok") == "ok"] if name in tables else []


_INTRODUCTION = """
Points are standard normal, in float32. The bandwidth is 0.5 in R^3 and d in R^d, so that every pair counts and nothing
can be skipped, unless a rule is named. Times of products are medians, after one product that is not counted. The error
of a product is that of sampled rows against float64 by differences, relative, in the Frobenius norm, with random normal
columns, for which nothing averages out. Every section runs in a fresh process. GB are 10^9 bytes.
"""
_PRODUCTS = """
*Matrix units*: the share of the float16 ceiling, at 2 (K + 3 C) operations for each pair that is looked at: K columns
make its exponent (those of eight bits count half), and C columns are multiplied in three terms. *Exponentials*: the
share of their ceiling, one for each pair. Both kinds of units work at the same time. *Tiles*: the share of the kernel
that is looked at; all other entries are below 2^-46.
"""
_PLAIN = f"""
The plain way takes strips of {STRIP:,} rows: squared distances from norms and a product, exponentials in place, and a
product, in float32 without TF32; *compiled* is the same by `torch.compile`. Contenders take turns; *of ours* is the
ratio of medians. Where fewer rows than points were timed, the seconds are scaled up to all of them.
"""
_GROWTH = """
*Normal*: 32 random normal columns. *Ones*: 32 columns of ones, and a single one: sums of positive numbers would drift
with the number of points if they were added up in halves, or cut off. *One half each*: the error of the normal columns
if entries and columns were rounded to halves, once, and nothing else.
"""
_FITS = f"""
`GaussianProcessEmbedding(n_components={COLUMNS}, power={POWER}, n_neighbors=None)`, bistochastic. *First*: from the
start of a Python process to the end of its first fit, imports, compilation by Triton into an empty cache and the
transfer to the device included (making the points is not). *Again*: a later fit in the same process. *Row sums*:
largest deviation from 1 of sampled row sums of the fitted kernel, in float64.
"""
_NEIGHBOURS = f"""
`GaussianProcessEmbedding(n_components={COMPONENTS}, power={POWER}, n_neighbors={NEIGHBORS})`. Neighbours are searched
by all distances on the device, or in few dimensions by a tree on the CPU; the graph is built on the CPU.
"""
_SAME = """
Embeddings by the CPU and on the device with the same seed: Frobenius norm of the difference over that of the embedding.
*Recall*: share of the true neighbours that each found. In many dimensions the CPU searches by clusters and misses some,
so that the graphs differ, and the embeddings with them.
"""
_OPTIMISED = "`HeatSketch()`, neighbours included, after a first fit of a twentieth of the points."
_OTHERS = f"All pairs, power={POWER}, after a first fit of a twentieth of the points."
_CPU = 'The same fit of every pair by `device="cpu"` and on the device, in turns.'
_SIZE = {"points": "n", "d": "d"}
_MEMORY = {"device GB": "device_gb", "process GB": "host_gb"}
_PLAIN_COLUMNS = _SIZE | {
    "method": "method", "s": "seconds", "of ours": "ratio", "error": "error:.1e", "rows timed": "timed_rows",
}  # fmt: skip
_GROWTH_COLUMNS = _SIZE | {
    "arithmetic": "arithmetic", "normal": "normal:.1e", "ones": "ones:.1e", "a single column": "one:.1e",
    "one half each": "rounded:.1e",
}  # fmt: skip
_FIT_COLUMNS = _SIZE | {
    "bandwidth": "epsilon", "rule": "rule", "run": "run", "s": "seconds", "row sums": "row_sums:.1e", **_MEMORY,
}  # fmt: skip
_OTHER_COLUMNS = {
    "estimator": "method", "components": "components", **_SIZE, "s": "seconds", "log L": "log_distortion", **_MEMORY,
}  # fmt: skip
_NEIGHBOUR_COLUMNS = {**_SIZE, "s": "seconds", "recall": "recall:.4f", **_MEMORY}
_OPTIMISED_COLUMNS = {"data": "data", **_SIZE, "s": "seconds", **_MEMORY}
_CPU_COLUMNS = {**_SIZE, "CPU s": "cpu_s", "device s": "device_s", "times faster": "ratio"}
_SAME_COLUMNS = _SIZE | {
    "dtype": "dtype", "kernel": "kernel", "recall, CPU": "recall_cpu:.4f", "recall, device": "recall_device:.4f",
    "difference": "difference:.1e",
}  # fmt: skip


def _rows(names: Sequence[str], text: str, columns: dict[str, str]) -> Callable[[Tables], str]:
    """A section with the rows of some tables."""
    return section(names, text)(
        lambda tables: rows_table([row for name in tables for row in _good(tables, name)], columns)
    )


@section(["ceilings"])
def _ceilings(tables: Tables) -> str:
    chip, *rows = _good(tables, "ceilings")
    columns = {"ceiling": "what", "measured on": "way", "best": "best", "unit": "unit"}
    return f"{chip['way']}.\n\n{rows_table(rows, columns)}"


def _shares(tables: Tables) -> str:
    """Products, with the shares of the ceilings that they reach."""
    if "products" not in tables:
        return ""
    best = {row["what"]: row.get("best") for row in _good(tables, "ceilings")}
    rows = _good(tables, "products")
    for row in rows:
        looked_at = row["pairs_per_s"] * row["share"] / 1e12
        row["trillions"] = row["pairs_per_s"] / 1e12
        if best:
            row["exponentials"] = looked_at / best["exponentials"]
            if "flops_per_pair" in row:
                row["units"] = row["flops_per_pair"] * looked_at / best["matrix product, float16"]
    columns = _SIZE | {
        "columns": "columns", "bandwidth": "epsilon", "rule": "rule", "precision": "precision",
        "arithmetic": "arithmetic", "s": "seconds", "10^12 pairs/s": "trillions", "error": "error:.1e",
        "tiles": "share:.3g", "matrix units": "units:.0%", "exponentials": "exponentials:.0%", "peak GB": "device_gb",
    }  # fmt: skip
    return f"{_PRODUCTS.strip()}\n\n{rows_table(rows, columns)}"


def _failed(tables: Tables) -> str:
    rows = [row for table in tables.values() for row in records(table) if row.get("status", "ok") != "ok"]
    columns = {"table": "figure", "method": "method", **_SIZE, "precision": "precision", "reason": "reason"}
    return rows_table(rows, columns) if rows else ""


_NAMES = (
    "ceilings",
    "products",
    "fit_50",
    "fit_3",
    "growth",
    "plain",
    "same",
    "cpu",
    "neighbours",
    "optimised",
    "others",
)
STUDY = Study(
    "gpu",
    "On a GPU, measured",
    _INTRODUCTION,
    tuple(map(Section, _NAMES)),
    judged,
    {
        "The chip and its ceilings": _ceilings,
        "Products with the kernel": _shares,
        "Beside plain PyTorch and KeOps": _rows(["plain"], _PLAIN, _PLAIN_COLUMNS),
        "The error as the number of points grows": _rows(["growth"], _GROWTH, _GROWTH_COLUMNS),
        "From points to coordinates": _rows(["fit_50", "fit_3"], _FITS, _FIT_COLUMNS),
        "HeatSketch": _rows(["optimised"], _OPTIMISED, _OPTIMISED_COLUMNS),
        "Other estimators": _rows(["others"], _OTHERS, _OTHER_COLUMNS),
        "Neighbours": _rows(["neighbours"], _NEIGHBOURS, _NEIGHBOUR_COLUMNS),
        "Beside the CPU": _rows(["cpu"], _CPU, _CPU_COLUMNS),
        "The same results": _rows(["same"], _SAME, _SAME_COLUMNS),
        "Absent or failed": _failed,
    },
    quick=lambda experiment: replace(experiment, small=1),  # type: ignore[call-arg]
)

if __name__ == "__main__":
    main(STUDY)
