"""K V for the Gaussian kernel of all pairs: how fast, and how far off."""

from __future__ import annotations

from typing import Any

import numpy as np

from heatsketch.backends.torch.operators import DeviceGaussianOperator
from heatsketch.kernel.bandwidth import bandwidth_by_rule
from heatsketch.linalg.metrics import Metric

from .bench import Bench, Row, bandwidth_of, timing

__all__ = ["exact_rows", "growth", "operator", "products", "relative_error"]

_OVERRIDES = ("halves", "mixed", "split", "float32")
# Terms of a product of two halves each, p' v' + p' v'' + p'' v'.
_TERMS = 3


def products(bench: Bench) -> None:
    """All numbers of points and features by the arithmetic that is chosen, and at one size by every other."""
    plan = bench.plan
    for n in plan.sizes:
        for d in plan.features:
            X = bench.device.tensor(bench.points(n, d))
            close = d in plan.both
            for k in (plan.columns, 1) if close else (plan.columns,):
                _product(bench, X, k, repeats=plan.repeats if close and k > 1 else 3)
            if n == plan.overrides and close:
                for precision in _OVERRIDES:
                    _product(bench, X, plan.columns, precision=precision)
        X = bench.device.tensor(bench.points(n, 3))
        _product(bench, X, plan.columns, rule="neighbor")


def operator(bench: Bench, X: Any, epsilon: float, precision: str = "auto") -> Any:
    """The kernel of points on the device, in float32."""
    return DeviceGaussianOperator(X, epsilon, bench.device, dtype=np.float32, precision=precision)


def _product(
    bench: Bench, X: Any, k: int, *, precision: str = "auto", rule: str = "given", repeats: int | None = None
) -> None:
    n, d = X.shape
    with bench.case(n=n, d=d, columns=k, precision=precision, rule=rule) as row:
        if rule == "given":
            epsilon = bandwidth_of(d)
        else:
            epsilon = float(bandwidth_by_rule(X.cpu().numpy(), rule, Metric(), device=bench.device)[0])
        row["epsilon"] = epsilon
        row["setup_s"], op = bench.wall(lambda: operator(bench, X, epsilon, precision))
        V = bench.columns(n, k)
        row.update(timing(bench.seconds(lambda: op.matmat(V), repeats)))
        row.update(bench.memory() | _work(op, k))
        row["pairs_per_s"] = n * float(n) / row["seconds"]
        row["error"] = relative_error(bench, X, epsilon, op.matmat(V), V)


def _work(op: Any, k: int) -> Row:
    """What a product takes: how exponents are formed, tiles that are looked at, and matrix flops for each pair."""
    found: Row = {"arithmetic": op.arithmetic, "share": getattr(op._kernel, "share", 1.0)}
    left = getattr(op._kernel, "_left", None)
    if left is None:  # PyTorch, some rows at a time
        return found
    width = 0 if k == 1 else max(16, 1 << (k - 1).bit_length())
    depth = 0.0
    if hasattr(left, "columns"):  # eight bits are multiplied twice as fast, and so count half
        depth = left.columns.shape[1] + (0 if left.eighths is None else left.eighths.shape[1] / 2)
    return found | {"depth": depth, "flops_per_pair": 2.0 * (depth + _TERMS * width)}


def exact_rows(bench: Bench, X: Any, epsilon: float, rows: Any, V: Any, *, as_halves: bool = False) -> Any:
    """Rows of K V in float64, from differences of the coordinates; with K as it is, or rounded to halves."""
    x = X.double()
    apart = bench.device.torch.cdist(x[rows], x, compute_mode="donot_use_mm_for_euclid_dist")
    K = apart.square_().mul_(-1.0 / epsilon).exp_()
    return (K.half().double() if as_halves else K) @ V.double()


def relative_error(bench: Bench, X: Any, epsilon: float, found: Any, V: Any) -> float:
    """Frobenius norm of the error on sampled rows, over that of these rows in float64."""
    rows = bench.sampled(len(found))
    exact = exact_rows(bench, X, epsilon, rows, V)
    return float((found[rows].double() - exact).norm() / exact.norm())


def growth(bench: Bench) -> None:
    """The error for more and more points: columns that average out, and columns that do not."""
    torch = bench.device.torch
    for d in bench.plan.both:
        for n in bench.plan.growth:
            with bench.case(n=n, d=d) as row:
                X, epsilon = bench.device.tensor(bench.points(n, d)), bandwidth_of(d)
                op = operator(bench, X, epsilon)
                normal = bench.columns(n, bench.plan.columns)
                ones = torch.ones_like(normal)
                row["arithmetic"] = op.arithmetic
                for name, V in (("normal", normal), ("ones", ones), ("one", ones[:, :1])):
                    row[name] = relative_error(bench, X, epsilon, op.matmat(V), V)
                row["rounded"] = _rounded(bench, X, epsilon, normal)


def _rounded(bench: Bench, X: Any, epsilon: float, V: Any) -> float:
    """The error that there would be if entries and columns were rounded to one half each, and nothing else."""
    rows, halves = bench.sampled(len(X)), V.half()
    exact = exact_rows(bench, X, epsilon, rows, V)
    found = exact_rows(bench, X, epsilon, rows, halves, as_halves=True)
    return float((found - exact).norm() / exact.norm())
