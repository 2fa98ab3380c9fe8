"""The fresh process in which one measurement runs: ``python -m benchmarks.scale.worker JOB`` with JOB in JSON.

Results go to the standard output as lines of JSON, one for each stage that is finished, so that what was measured
before a time limit struck is not lost. Whatever libraries print goes to the standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .failures import as_row

__all__ = ["main"]

_STARTED = time.perf_counter()
_LEAST_WARM_POINTS = 500

Emit = Callable[[dict[str, Any]], None]


def _embed(job: dict[str, Any], emit: Emit) -> None:
    from .. import data  # noqa: PLC0415
    from .machine import versions  # noqa: PLC0415
    from .memory import PeakMemory  # noqa: PLC0415
    from .methods import registry  # noqa: PLC0415

    method = registry()[job["method"]]
    X = data.make(job["data"], job["n"], job["seed"])
    k = job["components"]
    if job.get("warm", True):
        # Compiling and importing are measured by themselves, on points of another set.
        start = time.perf_counter()
        other = data.tuning(max(_LEAST_WARM_POINTS, min(method.warm_points, job["n"])), X.shape[1])
        method.run(other, k).coordinates()
        emit({"stage": "warmed", "cold_s": time.perf_counter() - start})
    with PeakMemory() as memory:
        start = time.perf_counter()
        found = method.run(X, k)
        seconds = time.perf_counter() - start
    emit({
        "stage": "measured",
        "status": "ok",
        "seconds": seconds,
        "process_s": time.perf_counter() - _STARTED,
        "peak_mb": memory.peak / 1e6,
        "baseline_mb": memory.baseline / 1e6,
        "maxrss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "version": versions((method.package,)).get(method.package, "unknown"),
        **found.parts,
    })  # fmt: skip
    if job.get("reference"):
        from .accuracy import evaluate  # noqa: PLC0415

        Y = found.coordinates()
        own = None if found.own is None else found.own()
        emit({"stage": "scored", "dimensions": int(Y.shape[1]), **evaluate(Y, own, Path(job["reference"]))})


def _reference(job: dict[str, Any], emit: Emit) -> None:
    from .. import data  # noqa: PLC0415
    from .accuracy import build_reference  # noqa: PLC0415

    start = time.perf_counter()
    about = build_reference(data.make(job["data"], job["n"], job["seed"]), Path(job["path"]))
    emit({"status": "ok", "seconds": time.perf_counter() - start, **about})


def _limits(job: dict[str, Any], emit: Emit) -> None:  # noqa: ARG001
    from .machine import limits, memory_gib, versions  # noqa: PLC0415

    emit({"status": "ok", "limits": limits(), "memory_gib": memory_gib(), "versions": versions()})


def _dense(job: dict[str, Any], emit: Emit) -> None:
    from .products import dense_row  # noqa: PLC0415

    emit({"row": dense_row(job["method"], job["n"], job["d"], job["case_s"])})


def _sparse(job: dict[str, Any], emit: Emit) -> None:
    from .products import sparse_rows  # noqa: PLC0415

    for row in sparse_rows(job["method"], job["data"], job["n"], job["case_s"]):
        emit({"row": row})


def _neighbours(job: dict[str, Any], emit: Emit) -> None:
    from .neighbours import measured  # noqa: PLC0415

    for row in measured(job["method"], job["data"], job["n"]):
        emit({"row": row})


JOBS: dict[str, Callable[[dict[str, Any], Emit], None]] = {
    "embed": _embed,
    "cold": _embed,
    "reference": _reference,
    "limits": _limits,
    "dense": _dense,
    "sparse": _sparse,
    "neighbours": _neighbours,
}


def main(argument: str) -> None:
    """Run one job; an error is a result, of which the first line is kept."""
    # Peers print to the standard output; give them the standard error in its place.
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(part: dict[str, Any]) -> None:
        print(json.dumps(part), file=private, flush=True)

    job = json.loads(argument)
    try:
        JOBS[job["kind"]](job, emit)
    except Exception as error:
        emit(as_row(error))
        traceback.print_exc()
    finally:
        private.flush()


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # some libraries hang or crash when they are unloaded, after all is measured
