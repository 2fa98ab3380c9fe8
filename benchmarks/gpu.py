"""Measure speed and errors on a GPU, beside its limits, other libraries and the CPU: ``python -m benchmarks.gpu``.

``--set device=cuda:1`` chooses another GPU. ``--quick --set device=torch-cpu`` runs everything small on the CPU.
``--set older=DIR`` also measures a checkout of an earlier version. :mod:`benchmarks.gpu_page` writes the page.
"""

from __future__ import annotations

import gc
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import psutil

import heatsketch as hs
from heatsketch._utils.registry import find_device
from heatsketch.neighbors.search import nearest_neighbors
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.experiment import Experiment, Row
from heatsketch_paper.harness.process import failure_row, run_apart
from heatsketch_paper.harness.study import Study, main

from . import gpu_page as page
from .data import make
from .gpu_page import COLUMNS, COMPONENTS, NEIGHBORS, POWER, STRIP

FEATURES = (3, 50)
SAMPLED = 64  # rows on which errors are measured
PEERS = ("pykeops", "cuml", "cuvs", "faiss")


class Bench:
    """A device of PyTorch, named as for estimators, with timers and exact products."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415

        self.torch, self.device = torch, device
        self.where = "cpu" if device == "torch-cpu" else device
        self.is_cuda = self.where.startswith("cuda")

    def case(self, work: Callable[[], Row], **about: Any) -> Row:
        """A row of a case, which has the reason if the case fails."""
        if self.is_cuda:
            gc.collect()
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats(self.where)
        try:
            return about | {"status": "ok"} | work()
        except Exception as failure:
            return about | failure_row(failure)

    def wall(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds until the device has finished, and the result."""
        wait = partial(self.torch.cuda.synchronize, self.where) if self.is_cuda else lambda: None
        wait()
        start = time.perf_counter()
        found = work()
        wait()
        return time.perf_counter() - start, found

    def seconds(self, work: Callable[[], Any], repeats: int = 5) -> list[float]:
        """Seconds of several runs, after a warm-up."""
        work()
        return [self.wall(work)[0] for _ in range(repeats)]

    def memory(self) -> Row:
        """Peak memory in GB: of the device since the case began, and of the process since its start."""
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
        """Indices of the rows on which errors are measured."""
        return self.tensor(np.sort(np.random.default_rng(2).choice(n, min(n, SAMPLED), replace=False)))

    def exact_rows(self, X: Any, epsilon: float, rows: Any, V: Any, *, as_halves: bool = False) -> Any:
        """Rows of K V in float64, from differences, with K in float64 or rounded to float16."""
        x = X.double()
        apart = self.torch.cdist(x[rows], x, compute_mode="donot_use_mm_for_euclid_dist")
        K = apart.square_().mul_(-1.0 / epsilon).exp_()
        return (K.half().double() if as_halves else K) @ V.double()

    def error(self, X: Any, epsilon: float, found: Any, V: Any) -> float:
        """Relative error on sampled rows against float64, in the Frobenius norm."""
        rows = self.sampled(len(found))
        exact = self.exact_rows(X, epsilon, rows, V)
        return float((found[rows].double() - exact).norm() / exact.norm())


def points(n: int, d: int) -> Any:
    """Standard normal points of float32, shape (n, d)."""
    return np.random.default_rng(d).standard_normal((n, d), dtype=np.float32)


def sample(data: str, n: int, d: int) -> Any:
    """Points of a data set, shape (n, d)."""
    return points(n, d) if data == "normals" else make(data, n)


def bandwidth_of(d: int) -> float:
    """A bandwidth at which no pair of standard normal points of R^d is negligible."""
    return 0.5 if d <= 3 else float(d)


def ceilings(device: str, small: bool) -> Iterator[Row]:
    """Best rates of the chip: matrix products and exponentials."""
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
    """K V by the automatic precision for all numbers of points and features, and by each precision at one size."""
    bench = Bench(device)
    for n in (400,) if small else (100_000, 1_000_000):
        for d in (3, 10, 50, 200):
            X = bench.tensor(points(n, d))
            cases = [(COLUMNS, "auto", "given", "random")]
            if d in FEATURES:
                cases.append((1, "auto", "given", "random"))
                if n == 100_000:
                    names = ("halves", "mixed", "split", "float32")
                    cases += [(COLUMNS, precision, "given", "random") for precision in names]
                else:
                    cases.append((COLUMNS, "auto", "given", "diffused"))
            if d == 3:
                cases.append((COLUMNS, "auto", "neighbor", "random"))
            for case in cases:
                about = dict(zip(("columns", "precision", "rule", "kind"), case, strict=True))
                yield bench.case(partial(_product, bench, X, case), n=n, d=d, **about)


def _product(bench: Bench, X: Any, case: tuple[int, str, str, str]) -> Row:
    (n, d), (k, precision, rule, kind) = X.shape, case
    op, epsilon = operator(bench, X, bandwidth_of(d) if rule == "given" else rule, precision)
    V = bench.columns(n, k)
    if kind == "diffused":  # as in the later steps of a fit
        degrees = op.matmat(bench.torch.ones_like(V[:, :1]))
        for _ in range(2):
            V = op.matmat(V) / degrees
            V = V - V.mean(0)
    seconds = median(bench.seconds(lambda: op.matmat(V)))
    found = {"epsilon": epsilon, "seconds": seconds, "pairs_per_s": n * float(n) / seconds}
    return found | bench.memory() | _work(op, k, kind) | {"error": bench.error(X, epsilon, op.matmat(V), V)}


def _work(op: Any, k: int, kind: str) -> Row:
    """Arithmetic of the exponents, share of tiles that is computed, and matrix flops per pair."""
    kernel = getattr(op, "_kernel", None)
    found: Row = {"arithmetic": getattr(op, "arithmetic", None), "share": getattr(kernel, "share", 1.0)}
    left = getattr(kernel, "_left", None)
    if left is None:  # plain PyTorch, in chunks of rows
        return found
    width = 0 if k == 1 else max(16, 1 << (k - 1).bit_length())
    depth = 0.0
    if hasattr(left, "columns"):  # columns of eight bits count half, as they are multiplied twice as fast
        depth = left.columns.shape[1] + (0 if left.eighths is None else left.eighths.shape[1] / 2)
    terms = 1 if kind == "diffused" else 3  # three products of first and second halves; one if rounding averages out
    return found | {"flops_per_pair": 2.0 * (depth + terms * width)}


def growth(device: str, small: bool) -> Iterator[Row]:
    """Errors as the number of points grows, for random columns and for columns of ones."""
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
    """The same product by plain and compiled PyTorch in strips of rows and by KeOps, in turns."""
    bench = Bench(device)
    for n, d in ((300, 3),) if small else ((100_000, 3), (100_000, 50), (1_000_000, 50)):
        X, V, epsilon = bench.tensor(points(n, d)), bench.columns(n), bandwidth_of(d)
        few = n if n <= 100_000 else 2 * STRIP  # rows on which the others are timed
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
            rows = slice(min(start, timed - size), min(start, timed - size) + size)  # one shape, one compilation
            out[rows] = strip(X[rows], X, norms, V, epsilon)
        return out

    return work


def _keops(X: Any, V: Any, epsilon: float, timed: int) -> Callable[[], Any]:
    from pykeops.torch import LazyTensor  # noqa: PLC0415

    x, y = LazyTensor(X[:timed, None, :].contiguous()), LazyTensor(X[None, :, :].contiguous())
    kernel = (-((x - y) ** 2).sum(-1) / epsilon).exp()
    return lambda: kernel @ V


def estimator(device: str, k: int = COLUMNS, **options: Any) -> Any:
    """A `GaussianProcessEmbedding` of all pairs, unless `options` change that."""
    return hs.GaussianProcessEmbedding(k, power=POWER, **{"n_neighbors": None} | options, device=device, random_state=0)


def first(device: str, small: bool) -> Iterator[Row]:
    """The first fit of all pairs in a process, including imports and compilation."""
    n, start = 400 if small else 1_000_000, time.time()
    X = points(n, 50)
    began = psutil.Process().create_time() + time.time() - start  # without the time to make the points
    bench = Bench(device)

    def work() -> Row:
        estimator(device, bandwidth=bandwidth_of(50)).fit(X)
        return {"seconds": time.time() - began} | bench.memory()

    yield bench.case(work, data="normals", n=n, d=50, rule="given")


def pairs(device: str, small: bool) -> Iterator[Row]:
    """Fits of all pairs, with a given bandwidth and with one chosen by a rule."""
    bench, n = Bench(device), 400 if small else 1_000_000
    for data, d, rules in (
        ("normals", 50, ("given", "neighbor")),
        ("tree", 50, ("neighbor",)),
        ("normals", 3, ("given", "neighbor")),
    ):
        X = sample(data, n, d)
        for rule in rules:
            make = partial(estimator, device, bandwidth=bandwidth_of(d) if rule == "given" else rule)

            def work(X: Any = X, make: Any = make) -> Row:
                # Enough points to compile all programs of the large fit.
                row, model = _warm_fit(bench, make, X, warm=300_000)
                found = {"epsilon": float(model.bandwidth_), "scaling_products": int(model.n_iter_)}
                return row | found | {"row_sums": _row_sums(bench, model, X)}

            yield bench.case(work, data=data, n=n, d=d, rule=rule)


def _row_sums(bench: Bench, model: Any, X: Any) -> float:
    """Largest deviation from 1 among sampled row sums of the fitted kernel, in float64."""
    scale = bench.torch.as_tensor(model.kernel_.scaling.scale).to(bench.where).double()
    rows = bench.sampled(len(X))
    sums = scale[rows] * bench.exact_rows(bench.tensor(X), float(model.bandwidth_), rows, scale[:, None])[:, 0]
    return float((sums - 1.0).abs().max())


def _warm_fit(bench: Bench, make: Callable[[], Any], X: Any, warm: int = 50_000) -> tuple[Row, Any]:
    """Time and memory of a fit, after one of fewer points, and the model."""
    make().fit(X[: min(len(X), warm)])
    seconds, model = bench.wall(lambda: make().fit(X))
    return {"seconds": seconds} | bench.memory(), model


def search(device: str, small: bool) -> Iterator[Row]:
    """Searches for nearest neighbours, also by other libraries, with the recall on sampled points."""
    bench, n = Bench(device), 400 if small else 1_000_000
    for data, d in (("swiss roll", 3), ("normals", 3), ("normals", 50), ("tree", 50), ("normals", 128)):
        X = sample(data, n, d)
        for method, find in (("heatsketch", _ours), ("FAISS", _faiss), ("cuVS", _cuvs)):
            if method == "heatsketch" or d in (50, 128):
                work = partial(_search, bench, find, X)
                yield bench.case(work, data=data, n=n, d=d, method=method)


def _search(bench: Bench, find: Callable[..., Any], X: Any) -> Row:
    find(bench, X[:50_000], NEIGHBORS)
    seconds, ids = bench.wall(lambda: find(bench, X, NEIGHBORS))
    rows, there = bench.sampled(len(X)), bench.tensor(X).double()
    apart = bench.torch.cdist(there[rows], there, compute_mode="donot_use_mm_for_euclid_dist")
    apart[bench.torch.arange(len(rows)), rows] = bench.torch.inf
    kth = apart.kthvalue(NEIGHBORS, dim=1, keepdim=True).values
    found = apart.gather(1, bench.tensor(ids[rows.cpu().numpy()].astype(np.int64)))
    return {
        "seconds": seconds,
        "pairs_per_s": len(X) * float(len(X)) / seconds,
        "recall": float((found <= kth * (1.0 + 1e-12)).double().mean()),
    } | bench.memory()


def _ours(bench: Bench, X: Any, k: int) -> Any:
    return nearest_neighbors(X, k, device=find_device(bench.device)).indices


def _faiss(bench: Bench, X: Any, k: int) -> Any:
    import faiss  # noqa: PLC0415

    index = faiss.IndexFlatL2(X.shape[1])
    if bench.is_cuda:
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    index.add(X)
    return _others(index.search(X, k + 1)[1])


def _cuvs(_bench: Bench, X: Any, k: int) -> Any:
    import cupy  # noqa: PLC0415
    from cuvs.neighbors import brute_force  # noqa: PLC0415

    there = cupy.asarray(X)
    return _others(cupy.asnumpy(brute_force.search(brute_force.build(there), there, k + 1)[1]))


def _others(ids: Any) -> Any:
    """Lists of neighbours without the point itself, or without the last one if it is not among them."""
    own = ids == np.arange(len(ids))[:, None]
    own[~own.any(axis=1), -1] = True
    return ids[~own].reshape(len(ids), -1)


# Fits with neighbours, by name.
FITS: dict[str, Callable[..., Any]] = {
    "sketch": partial(hs.GaussianProcessEmbedding, COMPONENTS, power=POWER, n_neighbors=NEIGHBORS, random_state=0),
    "sketch, multiscale": partial(hs.GaussianProcessEmbedding, COMPONENTS, power="multiscale", random_state=0),
    "DiffusionMaps": partial(hs.DiffusionMaps, COMPONENTS, power=POWER, n_neighbors=NEIGHBORS),
    "HeatSketch()": partial(hs.HeatSketch, random_state=0),
}


def fits(device: str, small: bool) -> Iterator[Row]:
    """Fits with a neighbour graph, from an array in memory to coordinates."""
    bench, n = Bench(device), 400 if small else 1_000_000
    for data in ("swiss roll", "tree"):
        X = make(data, n)
        for name, kind in FITS.items():

            def work(kind: Any = kind, X: Any = X) -> Row:
                row, model = _warm_fit(bench, partial(kind, device=device), X)
                return row | {"recall": float(model.kernel_.affinity.recall)}

            yield bench.case(work, method=name, data=data, n=n, d=X.shape[1])


def moderate(device: str, small: bool) -> Iterator[Row]:
    """Fits of fewer points: eigenvectors of all pairs and of a graph, cuML, and HeatSketch for the worst distance."""
    bench, n = Bench(device), 200 if small else 50_000
    every: Row = {"power": POWER, "bandwidth": bandwidth_of(3), "n_neighbors": None, "device": device}
    makers: dict[str, Callable[[], Any]] = {
        "DiffusionMaps, all pairs": partial(hs.DiffusionMaps, COMPONENTS, **every),
        "DiffusionMaps, 15 neighbours": partial(
            hs.DiffusionMaps, COMPONENTS, power=POWER, n_neighbors=15, device=device
        ),
        "HeatSketch, all pairs, worst distance": partial(
            hs.HeatSketch, 4, objective="bilipschitz", random_state=0, **every
        ),
        "cuML SpectralEmbedding, 15 neighbours": _cuml,
    }
    for data, d in (("normals", 3), ("tree", 50)):
        X = sample(data, n, d)
        for name, maker in makers.items():
            if d == 3 or "neighbours" in name:

                def work(maker: Any = maker, X: Any = X, repeats: int = 1 if "worst" in name else 5) -> Row:
                    maker().fit(X)
                    seconds = [bench.wall(lambda: maker().fit(X))[0] for _ in range(repeats)]
                    return {"seconds": median(seconds)} | bench.memory()

                yield bench.case(work, method=name, data=data, n=n, d=d)


def _cuml() -> Any:
    from cuml.manifold import SpectralEmbedding  # noqa: PLC0415

    return SpectralEmbedding(n_components=COMPONENTS, n_neighbors=15, random_state=0)


def arrays(device: str, small: bool) -> Iterator[Row]:
    """The same fit of a NumPy array, of a tensor, and of arrays of other libraries on the device."""
    bench, n = Bench(device), 400 if small else 1_000_000
    X = make("tree", n)
    there = bench.tensor(X)
    kinds: dict[str, Callable[[], Any]] = {
        "NumPy array": lambda: X,
        "PyTorch tensor": lambda: there,
        "CuPy array": partial(_cupy, X),
        "any other with DLPack": lambda: _Exchanged(there),
    }
    expected: Any = None
    for name, maker in kinds.items():
        if name.startswith(("NumPy", "PyTorch")) or bench.is_cuda:

            def work(maker: Any = maker) -> Row:
                given = maker()
                model = estimator(device, COMPONENTS, n_neighbors=NEIGHBORS)
                seconds, Y = bench.wall(lambda: model.fit_transform(given))
                Y = np.from_dlpack(Y) if isinstance(Y, np.ndarray) else bench.torch.from_dlpack(Y).cpu().numpy()
                nonlocal expected
                expected = Y if expected is None else expected
                return {"seconds": seconds, "largest_difference": float(abs(Y - expected).max())} | bench.memory()

            if name.startswith("NumPy"):
                bench.case(work)  # compiles
            yield bench.case(work, data="tree", n=n, d=X.shape[1], method=name)


def _cupy(X: Any) -> Any:
    import cupy  # noqa: PLC0415

    return cupy.asarray(X)


class _Exchanged:
    """An array that only supports DLPack."""

    def __init__(self, held: Any) -> None:
        self._held, self.shape, self.dtype, self.ndim = held, held.shape, held.dtype, held.ndim

    def __dlpack__(self, **options: Any) -> Any:
        return self._held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._held.__dlpack_device__()


def cpu(device: str, small: bool) -> Iterator[Row]:
    """The same fit of all pairs by the CPU and on the device, in turns."""
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
    """Differences between embeddings by the CPU and by the device."""
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


# Tables in which an older version is also measured.
COMPARED = ("search", "fits", "pairs", "moderate")


@dataclass(frozen=True)
class Section(Experiment):
    """One table: the rows of the function of this module with its name, in a fresh process.

    `older` is a checkout of an earlier version, which is measured by the same functions in the same run.
    """

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("heatsketch", "torch", "triton", "cupy", *PEERS)
    free: ClassVar[tuple[str, ...]] = ("n_trials", "effort", "older")
    device: str = "cuda"
    small: int = 0
    older: str = ""

    def trial(self, index: int) -> list[Row]:  # noqa: ARG002
        """All rows, measured with empty caches of compiled code."""
        rows = self._run("now")
        if self.older and self.name in COMPARED:
            rows += self._run("before", PYTHONPATH=os.pathsep.join([f"{self.older}/src", str(Path.cwd())]))
        if all(row.get("status", "ok") != "ok" for row in rows):
            raise ReproductionError(f"{self.name}: {rows[-1]['reason']}")
        return rows

    def _run(self, version: str, **environment: str) -> list[Row]:
        job = {"device": self.device, "small": bool(self.small)}
        with tempfile.TemporaryDirectory() as empty:
            caches = {"TRITON_CACHE_DIR": f"{empty}/triton", "NUMBA_CACHE_DIR": f"{empty}/numba"}
            rows = run_apart(
                f"benchmarks.gpu:{self.name}", job, timeout_s=200.0, memory_gib=100.0, environment=caches | environment
            )
        return [row | {"version": version} for row in rows]


_NAMES = (
    "ceilings",
    "products",
    "search",
    "fits",
    "pairs",
    "first",
    "moderate",
    "arrays",
    "growth",
    "plain",
    "same",
    "cpu",
)
STUDY = Study(
    "gpu",
    "On a GPU, measured",
    page.INTRODUCTION,
    tuple(map(Section, _NAMES)),
    page.judged,
    page.SECTIONS,
    quick=lambda experiment: replace(experiment, small=1),  # type: ignore[call-arg]
)

if __name__ == "__main__":
    main(STUDY)
