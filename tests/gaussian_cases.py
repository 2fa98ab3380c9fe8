"""Products with the Gaussian kernel by fused kernels, and how far they are from float64.

Tests on a GPU call these functions; where there is none, this file is run as a script, in a process in which Triton
interprets its kernels: it prints what was measured as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A product: of the kernel of some points with some columns."""

    data: str
    n: int
    d: int
    k: int
    factor: float = 1.0
    precision: str = "auto"
    local: bool = False
    zero: bool = False

    @property
    def epsilon(self) -> Any:
        """In units of the mean squared distance of normal points."""
        epsilon = 2.0 * self.d * self.factor
        if not self.local:
            return epsilon
        return epsilon * np.exp(np.random.default_rng(3).normal(size=self.n))


def points(name: str, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Data that are easy, and data that are not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if name == "clusters":
        X = 0.1 * X + 10.0 * rng.normal(size=(5, d))[rng.integers(5, size=n)]
    elif name == "an outlier":
        X[n // 2] = 1e6
    elif name == "two far clusters":
        X[: n // 2] += 1e4
    elif name == "far from the origin":
        X += 3e3
    elif name == "heavy tails":
        X = rng.standard_t(2, size=(n, d))
    elif name == "pixels":
        X = rng.integers(256, size=(n, d)).astype(float)
    return X.astype(np.float32)


def product(X: np.ndarray, epsilon: Any, V: np.ndarray, *, zero: bool = False, rows: Any = None) -> np.ndarray:
    """Some rows of the product in float64, by differences."""
    X, V = X.astype(np.float64), V.astype(np.float64)
    every = np.arange(len(X)) if rows is None else rows
    scales = np.broadcast_to(np.sqrt(epsilon), len(X))
    out = np.empty((len(every), V.shape[1]))
    for place, i in enumerate(every):
        K = np.exp(-np.square(X - X[i]).sum(axis=1) / (scales[i] * scales))
        if zero:
            K[i] = 0.0
        out[place] = K @ V
    return out


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative error in the norm; infinite if anything is not a number."""
    found = np.asarray(found, dtype=np.float64)
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def columns(n: int, k: int, seed: int = 1) -> np.ndarray:
    """Random columns of float32."""
    return np.random.default_rng(seed).normal(size=(n, k)).astype(np.float32)


def operator(X: np.ndarray, epsilon: Any, device: Any, **options: Any) -> Any:
    """The kernel on the device."""
    from heatsketch.backends.torch.operators import DeviceGaussianOperator  # noqa: PLC0415

    return DeviceGaussianOperator(X, epsilon, device, **options)


def measure(case: Case, device: Any, n_rows: int = 100_000) -> dict[str, Any]:
    """Errors of products with random columns and with ones."""
    X = points(case.data, case.n, case.d)
    if case.data == "pixels" and case.factor == 1.0:
        epsilon: Any = 2.0 * np.log2(np.e) * 2.0**14  # by which whole numbers stay whole, but for a power of two
    else:
        epsilon = case.epsilon
    op = operator(X, epsilon, device, zero_diagonal=case.zero, precision=case.precision)
    V = columns(case.n, case.k)
    rows = np.arange(0, case.n, max(1, case.n // n_rows))
    products = [V, np.ones((case.n, 1))]
    if case.k > 1:
        V[:, 0] = 1.0
        products = [V]
    found = np.column_stack([op @ W for W in products])[rows]
    expected = product(X, epsilon, np.column_stack(products), zero=case.zero, rows=rows)
    one = 0 if case.k > 1 else 1
    random = [c for c in range(expected.shape[1]) if c != one]
    return {
        "arithmetic": op.arithmetic,
        "share": op._kernel.share,
        "random": error(found[:, random], expected[:, random]),
        "ones": error(found[:, [one]], expected[:, [one]]),
    }


def _arithmetics() -> dict[str, Case]:
    """Every arithmetic in every width and depth; numbers of points that are no multiple of anything."""
    cases = {}
    sizes, widths = (61, 2, 17, 131, 67, 45), (2, 1, 16, 17, 33, 5)
    for shift, precision in enumerate(("halves", "mixed", "split", "float32")):
        for c, d in enumerate((1, 3, 17, 50, 130, 300)):
            if d <= {"float32": 3, "mixed": 130}.get(precision, 300):  # an interpreter takes long
                n, k = sizes[(c + shift) % 6], widths[(c + 2 * shift) % 6]
                cases[f"{precision}, {d} features, {n} points, {k} columns"] = Case("a cloud", n, d, k, 1.0, precision)
        for local, zero in ((True, False), (False, True), (True, True)):
            name = f"{precision}{', local scales' * local}{', zero diagonal' * zero}"
            cases[name] = Case("a cloud", 61, 3, 3, 0.3, precision, local, zero)
    return cases


def _choices() -> dict[str, Case]:
    """What "auto" makes of bandwidths from tiny to huge, and of data that are not easy."""
    cases = {}
    for d in (1, 3, 17, 50):
        for factor in (1e-8, 1e-3, 2e-3, 1e-2, 0.1, 1.0, 100.0, 1e8):
            if d <= 3 or 0.1 <= factor <= 100.0:  # by differences an interpreter takes long
                cases[f"auto, {d} features, bandwidth {factor:g}"] = Case("a cloud", 61, d, 3, factor)
    for data in ("clusters", "two far clusters", "far from the origin", "heavy tails"):
        for factor in (1e-2, 1.0):
            cases[f"auto, {data}, bandwidth {factor:g}"] = Case(data, 61, 3, 3, factor)
        cases[f"auto, {data}, local scales"] = Case(data, 61, 3, 3, 0.1, local=True)
    # So many that one point is a small share.
    cases["auto, an outlier"] = Case("an outlier", 301, 3, 3)
    cases["auto, an outlier, zero diagonal, local scales"] = Case("an outlier", 301, 3, 1, local=True, zero=True)
    cases["auto, pixels"] = Case("pixels", 61, 20, 3)
    cases["auto, pixels, any bandwidth"] = Case("pixels", 61, 20, 3, 65.0**2)
    return cases


ARITHMETICS, CHOICES = _arithmetics(), _choices()


def sizes(device: Any) -> dict[str, Any]:
    """Columns of very different sizes, and one of zeros, side by side."""
    X, V = points("a cloud", 61, 3), columns(61, 4)
    V *= np.array([1e-30, 1.0, 1e30, 0.0], dtype=np.float32)
    expected = product(X, 2.0, V)
    found = {}
    for precision in ("split", "float32"):
        out = operator(X, 2.0, device, precision=precision) @ V
        assert not out[:, 3].any()
        found[precision] = max(error(out[:, c], expected[:, c]) for c in range(3))
    single = operator(X, 2.0, device) @ V[:, :1]
    return found | {"single": error(single, expected[:, :1])}


def new_points(device: Any) -> dict[str, Any]:
    """Rows at points near the others, far from them, and at the same places."""
    found = {}
    for name, n, zero, local in (
        ("several groups", 1100, False, False),
        ("zero diagonal", 61, True, False),
        ("local scales", 61, False, True),
        ("an outlier", 301, False, False),
    ):
        case = Case("an outlier" if name == "an outlier" else "a cloud", n, 3, 3, 0.3, local=local)
        X, epsilon, V = points(case.data, n, 3), case.epsilon, columns(n, 3)
        new = np.vstack([points("a cloud", 3, 3, 7), [[40.0, 0, 0], [1e3, -1e3, 0], [-1e5, 3.0, 1e4]], X[:3]])
        own = case.epsilon[:9] if local else epsilon
        op = operator(X, epsilon, device, zero_diagonal=zero)
        products, logs = op.rows(new.astype(np.float32), own, V)
        D2 = np.square(new.astype(np.float32).astype(float)[:, None] - X.astype(float)[None]).sum(axis=2)
        exponents = -D2 / (np.sqrt(own).reshape(-1, 1) * np.sqrt(epsilon))
        if zero:
            exponents[D2 == 0] = -np.inf
        top = exponents.max(axis=1)
        expected = np.exp(exponents - top[:, None]) @ V.astype(float)
        logs = np.asarray(logs, dtype=np.float64)
        # Far away a logarithm is a large number, of which float64 keeps 16 digits.
        slack = 1e-4 + 1e-12 * np.abs(top)
        agree = np.exp(np.clip(logs - top, -50, 50))
        found[name] = {
            "logs": float((np.abs(logs - top) / slack).max()),
            "error": max(error(products[i] * agree[i], expected[i]) for i in range(len(new))),
        }
    return found


def skipping(device: Any) -> dict[str, Any]:
    """Tiles that have nothing to give are not looked at, and nobody can tell."""
    found = {}
    for precision in ("auto", "float32") if device.is_cuda else ("auto",):
        X = np.linspace(-1, 1, 1200)[np.random.default_rng(0).permutation(1200), None].astype(np.float32)
        op = operator(X, 0.004, device, precision=precision)
        V, rows = columns(1200, 2), np.arange(0, 1200, 7)
        found[precision] = {
            "share": op._kernel.share,
            "error": error((op @ V)[rows], product(X, 0.004, V, rows=rows)),
        }
    return found


def order(device: Any) -> dict[str, Any]:
    """The order of the points does not matter, and the same product is the same to the last bit."""
    X, V, shuffled = points("a cloud", 131, 3), columns(131, 17), np.random.default_rng(5).permutation(131)
    op = operator(X, 2.0, device)
    first, second = op @ V, op @ V
    again = operator(X[shuffled], 2.0, device) @ V[shuffled]
    return {"equal": bool((first == second).all()), "error": error(again, first[shuffled].astype(float))}


def out_of_memory(device: Any) -> dict[str, Any]:
    """Products where the device's memory is short: for more than 16 columns, and for any."""
    import torch  # noqa: PLC0415

    from heatsketch.backends.torch.gaussian import FusedGaussian  # noqa: PLC0415

    X, V, run, widths = points("a cloud", 61, 3), columns(61, 33), FusedGaussian._run, []
    op = operator(X, 2.0, device)
    expected = op @ V

    def short(self: Any, left: Any, task: Any) -> Any:
        widths.append(task.width)
        if task.width > limit:
            raise torch.OutOfMemoryError("short")
        return run(self, left, task)

    FusedGaussian._run, limit = short, 16  # type: ignore[method-assign]
    try:
        fewer = op @ V
        new = op.rows(X[:5], 2.0, V)[0]
        limit = 0
        try:
            op @ V
            words = ""
        except MemoryError as refused:
            words = str(refused)
    finally:
        FusedGaussian._run = run  # type: ignore[method-assign]
    there = op @ V
    return {
        "widths": widths,
        "error": error(fewer, expected.astype(float)),
        "new": error(new, expected[:5].astype(float)),
        "after": error(there, expected.astype(float)),
        "words": words,
    }


def outposts(device: Any) -> dict[str, Any]:
    """Two points beyond a dense cluster, and a column that is theirs alone: the arithmetic must suit them as well."""
    rng = np.random.default_rng(0)
    X = 0.02 * rng.normal(size=(300, 3))
    X[:2] += 1.03
    X, V = X.astype(np.float32), np.eye(300, 1) + np.eye(300, 1, k=-1)
    new = X[:1] + np.float32(0.3)
    op, inner = operator(X, 1.0, device), operator(X[2:], 1.0, device)
    row = np.exp(-np.square(new.astype(float) - X[2:].astype(float)).sum(axis=1))
    products, logs = inner.rows(new, 1.0, V[2:] + 1.0)
    return {
        "error": error(op @ V, product(X, 1.0, V)),
        "new": error(products * np.exp(np.asarray(logs, dtype=float))[:, None], row.sum().reshape(1, 1)),
        "arithmetic": inner.arithmetic,
    }


def far_without_diagonal(device: Any) -> dict[str, Any]:
    """Sparse points amid clusters, whose entries are all tiny, and two points too far out for halves."""
    rng = np.random.default_rng(0)
    clusters = [0.3 * rng.normal(size=(50, 5)) + 14.0 * sign * np.eye(5)[k] for k in range(5) for sign in (1, -1)]
    sparse = np.zeros((3, 5))
    sparse[1, 1] = sparse[2, 2] = 5.5
    X = np.vstack([*clusters, sparse, [[0, 0, 0, 0, 25.0], [0, 0.5, 0, 0, 25.0]]]).astype(np.float32)
    op, V = operator(X, 1.0, device, zero_diagonal=True), columns(len(X), 3)
    rows = np.arange(0, len(X), 9)
    rows = np.unique(np.append(rows, np.arange(500, 505)))
    out, expected = (op @ V)[rows], product(X, 1.0, V, zero=True, rows=rows)
    rows_off = [error(a, b) for a, b in zip(out, expected, strict=True)]
    return {"far": len(X) - op._kernel._near, "error": error(out, expected), "rows": max(rows_off)}


def refused(device: Any) -> dict[str, Any]:
    """Points all of which are too far out, and what is said of a precision that cannot be had for them."""
    angles = np.linspace(0.0, 6.0, 60)
    X, V = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32), columns(60, 3)
    try:
        operator(X, 0.001, device, precision="split")
        words = ""
    except ValueError as given:
        words = str(given)
    op = operator(X, 0.001, device)
    return {"words": words, "auto": op.arithmetic, "error": error(op @ V, product(X, 0.001, V))}


_ALL = sizes, new_points, skipping, order, out_of_memory, outposts, far_without_diagonal, refused
BEHAVIOURS = {f.__name__: f for f in _ALL}


def attempt(name: str, device: Any) -> dict[str, Any]:
    """What was measured, or what went wrong."""
    try:
        return BEHAVIOURS[name](device) if name in BEHAVIOURS else measure({**ARITHMETICS, **CHOICES}[name], device)
    except Exception:
        return {"failed": traceback.format_exc()}


def main() -> None:
    """Measure everything, interpreted."""
    import torch  # noqa: PLC0415

    from heatsketch._utils.registry import find_device  # noqa: PLC0415

    torch.set_num_threads(1)
    device = find_device("torch-cpu")
    found = {name: attempt(name, device) for name in (*BEHAVIOURS, *ARITHMETICS, *CHOICES)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    os.environ["TRITON_INTERPRET"] = "1"
    main()
