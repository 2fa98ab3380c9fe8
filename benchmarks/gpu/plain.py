"""The same product by others: plain PyTorch in strips of rows, the same compiled, and KeOps; turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heatsketch.backends.torch.device import full_precision

from .bench import Bench, Row, bandwidth_of, in_words, timing
from .products import operator, relative_error

__all__ = ["plain"]


def plain(bench: Bench) -> None:
    """Every contender at every size; in rounds, each once in a round."""
    for n, d in bench.plan.plain:
        X, V = bench.device.tensor(bench.points(n, d)), bench.columns(n, bench.plan.columns)
        _side_by_side(bench, X, V, bandwidth_of(d))


def _side_by_side(bench: Bench, X: Any, V: Any, epsilon: float) -> None:
    n, d = X.shape
    few = n if n <= bench.plan.overrides else bench.plan.slice  # rows that they are timed on
    makers: dict[str, Callable[[], tuple[int, Callable[[], Any]]]] = {
        "heatsketch": lambda: (n, _ours(bench, X, V, epsilon)),
        "PyTorch": lambda: (few, _strips(bench, X, V, epsilon, few)),
        "KeOps": lambda: (few, _keops(X, V, epsilon, few)),
    }
    if bench.device.is_cuda:
        makers["PyTorch, compiled"] = lambda: (few, _strips(bench, X, V, epsilon, few, compiled=True))
    rows: dict[str, Row] = {}
    ready: dict[str, Callable[[], Any]] = {}
    times: dict[str, list[float]] = {}
    with full_precision():
        for name, make in makers.items():
            row = rows[name] = {"n": n, "d": d, "columns": V.shape[1], "method": name}
            try:
                row["timed_rows"], work = make()
                row["error"] = relative_error(bench, X, epsilon, work(), V)
                ready[name] = work
                times[name] = []
            except ModuleNotFoundError as missing:
                row["failed"] = f"{missing.name} is not installed"
            except Exception as error:  # whatever went wrong is the result
                row["failed"] = in_words(error)
        for _ in range(bench.plan.repeats):
            for name, work in ready.items():
                times[name].append(bench.once(work))
    for name, row in rows.items():
        with bench.case(**row) as kept:
            if name in times:
                kept.update(timing([t * n / row["timed_rows"] for t in times[name]]))
                kept["ratio"] = kept["seconds"] / timing(times["heatsketch"])["seconds"]


def _ours(bench: Bench, X: Any, V: Any, epsilon: float) -> Callable[[], Any]:
    op = operator(bench, X, epsilon)
    return lambda: op.matmat(V)


def _strip(some: Any, X: Any, norms: Any, V: Any, epsilon: float) -> Any:
    """Rows of K V: squared distances by norms and a product, exponentials, and a product."""
    here = some.square().sum(1)
    squared = (some @ X.T).mul_(-2.0).add_(norms[None, :]).add_(here[:, None]).clamp_(min=0.0)
    return squared.mul_(-1.0 / epsilon).exp_() @ V


def _strips(bench: Bench, X: Any, V: Any, epsilon: float, timed: int, *, compiled: bool = False) -> Callable[[], Any]:
    torch, size = bench.device.torch, min(bench.plan.strip, timed)
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
