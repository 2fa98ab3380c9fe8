"""What is measured, and in which order."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import data
from .launch import ROOT, run_job
from .methods import COMPONENTS, registry
from .neighbours import SEARCHES
from .products import DENSE, SPARSE
from .results import Results, ResultsError, job_key

__all__ = ["FULL", "PARTS", "QUICK", "Plan", "carry_out"]

# The kernel of the fewer points is held; more have neighbours, whose search is compiled as well.
_COLD_POINTS = (10_000, 20_000)
_SCORED_UP_TO = 1_000_000


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes
    ----------
    parts, methods, searches : tuples of names
    sizes, dense_sizes, graph_sizes : tuples of int
        Numbers of points: end to end, for the dense product, and for neighbours and the sparse product.
    repeats : int
        Runs of each embedding that takes less than `repeat_below_s` seconds; a slower one runs once.
    case_s : float
        Seconds for the products of one process.
    timeout_s, memory_gib : float
        Limits of a process: seconds for each stage, and resident memory.
    pythons : dict
        Interpreters of methods that need an environment of their own.
    source : callable, optional
        Gives the digest of heatsketch's source, to see whether it changed while it was measured.
    """

    parts: tuple[str, ...]
    methods: tuple[str, ...]
    searches: tuple[str, ...]
    sizes: tuple[int, ...]
    dense_sizes: tuple[int, ...]
    graph_sizes: tuple[int, ...]
    repeats: int
    repeat_below_s: float = 60.0
    case_s: float = 4.0
    timeout_s: float = 600.0
    memory_gib: float = 16.0
    pythons: dict[str, str] = field(default_factory=dict)
    cache: Path = ROOT / "out" / "benchmark-cache"
    source: Callable[[], str] | None = None


def carry_out(plan: Plan, results: Results) -> None:
    """Measure all that is not yet there."""
    for part in plan.parts:
        PARTS[part](plan, results)


def _measure(plan: Plan, results: Results, job: dict[str, Any], *, ours: bool, **launch: Any) -> list[dict[str, Any]]:
    """Rows of a job: those that are there, or new ones."""
    there = results.of(job)
    if there:
        return there
    key = job_key(job)
    python = plan.pythons.get(str(job.get("method")), sys.executable)
    started = time.perf_counter()
    # The limits and products are ours to bound; a peer that never ends must not end the whole.
    found = run_job(job, timeout_s=plan.timeout_s, memory_gib=plan.memory_gib, python=python, **launch)
    wall = time.perf_counter() - started
    if ours and plan.source is not None and plan.source() != results.source:
        raise ResultsError(f"heatsketch was changed while {key} was measured; that is not kept. Run again to go on.")
    about = {name: value for name, value in job.items() if name not in ("reference", "path", "case_s")}
    rows = [about | row | {"job": key, "ours": ours, "wall_s": wall} for row in found]
    results.append(rows)
    said = ", ".join(sorted({_said(row) for row in rows}))
    print(f"{key}: {said} ({wall:.1f} s in all)", file=sys.stderr, flush=True)
    return rows


def _said(row: dict[str, Any]) -> str:
    if row.get("status", "ok") != "ok":
        return f"{row['status']}: {row.get('reason', '')}"
    return f"{row['seconds']:.3g} s" if "seconds" in row else "ok"


def _limits(plan: Plan, results: Results) -> None:
    _measure(plan, results, {"kind": "limits"}, ours=False)


def _cold(plan: Plan, results: Results) -> None:
    """First use on a new machine, with empty caches of compiled code, and the second use."""
    for n in _COLD_POINTS:
        for name in data.DATA:
            jobs = [_embedding("heatsketch", name, n, repeat) | {"kind": "cold", "warm": False} for repeat in range(2)]
            if all(results.of(job) for job in jobs):
                continue
            with tempfile.TemporaryDirectory() as empty:
                for job in jobs:
                    caches = {"NUMBA_CACHE_DIR": empty, "XDG_CACHE_HOME": empty}
                    _measure(plan, results, job, ours=True, environment=caches)


def _dense(plan: Plan, results: Results) -> None:
    for n in plan.dense_sizes:
        for d in (3, 50):
            _take_turns(plan, results, {"kind": "dense", "n": n, "d": d}, DENSE)


def _sparse(plan: Plan, results: Results) -> None:
    for n in plan.graph_sizes:
        for name in data.DATA:
            _take_turns(plan, results, {"kind": "sparse", "data": name, "n": n}, SPARSE)


def _take_turns(plan: Plan, results: Results, case: dict[str, Any], contenders: tuple[str, ...]) -> None:
    for repeat in range(plan.repeats):
        for method in contenders:
            job = case | {"method": method, "repeat": repeat, "case_s": plan.case_s}
            _measure(plan, results, job, ours=method == "heatsketch")


def _neighbours(plan: Plan, results: Results) -> None:
    gave_up: dict[tuple[str, str], int] = {}
    for n in plan.graph_sizes:
        for name in data.DATA:
            for search in plan.searches:
                job = {"kind": "neighbours", "method": search, "data": name, "n": n}
                _unless_given_up(plan, results, job, gave_up, ours=search == "heatsketch")


def _unless_given_up(
    plan: Plan, results: Results, job: dict[str, Any], gave_up: dict[tuple[str, str], int], **how: Any
) -> list[dict[str, Any]]:
    """Measure, unless fewer points were already too many: then say so."""
    case = (job["method"], job["data"])
    if case in gave_up and not results.of(job):
        row = job | {"job": job_key(job), "status": "skipped", "reason": f"over a limit at {gave_up[case]:,} points"}
        row.pop("reference", None)
        results.append([row | {"ours": how["ours"]}])
    rows = _measure(plan, results, job, **how)
    if any(row.get("status") in ("timeout", "memory") for row in rows):
        gave_up.setdefault(case, job["n"])
    return rows


def _embed(plan: Plan, results: Results) -> None:
    gave_up: dict[tuple[str, str], int] = {}
    known = registry()
    for n in plan.sizes:
        for name in data.DATA:
            reference = _reference(plan, results, name, n)
            # Repeats outside, methods inside: whatever else the machine does meets all of them alike.
            for repeat in range(plan.repeats):
                for method in plan.methods:
                    job = _embedding(method, name, n, repeat)
                    if repeat == 0:
                        job["reference"] = reference
                    elif not _worth_repeating(plan, results.of(_embedding(method, name, n, 0))):
                        continue
                    _unless_given_up(plan, results, job, gave_up, ours=known[method].family != "peer")


def _embedding(method: str, name: str, n: int, repeat: int) -> dict[str, Any]:
    about = {"kind": "embed", "method": method, "data": name, "n": n}
    return about | {"components": COMPONENTS, "seed": data.SEED, "repeat": repeat}


def _worth_repeating(plan: Plan, rows: list[dict[str, Any]]) -> bool:
    return bool(rows) and rows[0].get("status") == "ok" and rows[0]["seconds"] < plan.repeat_below_s


def _reference(plan: Plan, results: Results, name: str, n: int) -> str | None:
    """File with the exact distances of the sampled pairs; None where there are none."""
    if n > _SCORED_UP_TO:
        return None
    path = plan.cache / f"reference-{name.replace(' ', '-')}-{n}-{data.SEED}-{results.source}.npz"
    job = {"kind": "reference", "data": name, "n": n, "seed": data.SEED, "path": str(path)}
    if not path.exists() and results.of(job):
        # Measured before, but the file is gone: make it again without a second row.
        run_job(job, timeout_s=plan.timeout_s, memory_gib=plan.memory_gib)
    _measure(plan, results, job, ours=True)
    return str(path) if path.exists() else None


PARTS: dict[str, Callable[[Plan, Results], None]] = {
    "limits": _limits,
    "cold": _cold,
    "dense": _dense,
    "sparse": _sparse,
    "neighbours": _neighbours,
    "embed": _embed,
}

_OURS = ("heatsketch", "heatsketch-symmetric", "heatsketch-32", "heatsketch-deflated")

# About five minutes on two cores.
QUICK = Plan(
    parts=tuple(PARTS),
    methods=(*_OURS, "eigsh", "sklearn", "pygsp-heat", "topometry"),
    searches=("heatsketch", "ckdtree", "faiss-ivf"),
    sizes=(2_000, 10_000, 50_000),
    dense_sizes=(5_000,),
    graph_sizes=(50_000,),
    repeats=1,
    case_s=2.0,
    timeout_s=120.0,
)
# Hours.
FULL = Plan(
    parts=tuple(PARTS),
    methods=tuple(registry()),
    searches=tuple(SEARCHES),
    sizes=(2_000, 10_000, 50_000, 200_000, 1_000_000),
    dense_sizes=(5_000, 20_000),
    graph_sizes=(50_000, 200_000, 1_000_000),
    repeats=3,
)
