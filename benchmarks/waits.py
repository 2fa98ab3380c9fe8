"""Time what users wait for besides a fit: the first fit of a process, questions about a fit, and the page."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import heatsketch as hs

from . import data as points
from .exactness import POWER, Row

__all__ = ["QUESTIONS", "first_use", "page", "questions"]

COMPONENTS = 10
_FEW = 2_000  # points of a warm-up

# Arguments: a file of points, the name of an estimator, its parameters, and a module to import first.
_FIRST_FIT = """
import importlib, json, sys, time
importlib.import_module(sys.argv[4])
start = time.perf_counter()
import heatsketch as hs
imported = time.perf_counter() - start
import numpy
X, times = numpy.load(sys.argv[1]), []
for _ in range(3):
    start = time.perf_counter()
    getattr(hs, sys.argv[2])(**json.loads(sys.argv[3])).fit(X)
    times.append(time.perf_counter() - start)
print(json.dumps([imported, *times]))
"""
_REPEATS = 30  # fits for timing the overhead


def parameters(method: str) -> Row:
    """Defaults for HeatSketch; ten columns and one diffusion time for the other estimators."""
    return {"random_state": 0} if method == "HeatSketch" else {"n_components": COMPONENTS, "power": POWER}


def estimator(method: str) -> Any:
    """An estimator of heatsketch by name."""
    return getattr(hs, method)(**parameters(method))


def first_use(method: str, data: str, n: int) -> Iterator[Row]:
    """Seconds of ``import heatsketch``, of the first fit of a process, of later ones, and of the first fit ever.

    First fits are timed in processes with and without scikit-learn imported before. With few points the overhead of a
    fit is timed as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/points.npy", points.make(data, n))
        # Empty caches: the first process finds no code that an earlier one compiled.
        empty = os.environ | {"XDG_CACHE_HOME": folder, "NUMBA_CACHE_DIR": f"{folder}/numba"}
        command = [sys.executable, "-c", _FIRST_FIT, f"{folder}/points.npy", method, json.dumps(parameters(method))]

        def seconds(loaded: str) -> list[float]:
            printed = subprocess.run([*command, loaded], env=empty, check=True, capture_output=True, text=True).stdout
            return json.loads(printed)  # type: ignore[no-any-return]

        ever = seconds("time")[1]
        alone, beside = (np.median([seconds(loaded) for _ in range(3)], axis=0) for loaded in ("time", "sklearn.base"))
    row = {"import_s": alone[0], "first_s": alone[1], "seconds": alone[2], "more_s": alone[1] - alone[2]}
    row |= {"beside_s": beside[1], "more_beside_s": beside[1] - beside[2], "ever_s": ever}
    if n <= _FEW:
        row["besides_s"] = _besides(estimator(method), points.make(data, n))
    yield {"status": "ok"} | {key: float(value) for key, value in row.items()}


def _besides(model: Any, X: Any) -> float:
    """Overhead of a fit outside of its mathematics: checks of arguments, planning, and setting threads."""
    inside, compute = [], type(model)._fit_points

    def timed(self: Any, *args: Any) -> None:
        start = time.perf_counter()
        compute(self, *args)
        inside.append(time.perf_counter() - start)

    with patch.object(type(model), "_fit_points", timed):
        outside = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            model.fit(X)
            outside.append(time.perf_counter() - start)
    return float(np.median(np.subtract(outside, inside)[1:]))


def _few_pairs(n: int) -> Any:
    return np.random.default_rng(0).integers(n, size=(10, 2))


QUESTIONS: dict[str, Callable[[Any, int], Any]] = {
    "distortion": lambda model, _: model.distortion(),
    "diagnose": lambda model, _: model.diagnose(),
    "stability": lambda model, _: model.stability(),
    "scales": lambda model, _: model.scales(),
    "unsupported_neighbors": lambda model, _: model.unsupported_neighbors(),
    "distances of 10 pairs": lambda model, n: model.diffusion_distances(_few_pairs(n)),
    "intervals of 10 pairs": lambda model, n: model.diffusion_distances(_few_pairs(n), interval=0.95),
}


def questions(method: str, data: str, n: int) -> Iterator[Row]:
    """Seconds of a fit and of each question about it, without results of earlier questions."""
    X = points.make(data, n)
    few = estimator(method).fit(points.tuning(_FEW, X.shape[1]))
    for ask in QUESTIONS.values():
        ask(few, _FEW)
    model = estimator(method)
    start = time.perf_counter()
    model.fit(X)
    fitted = time.perf_counter() - start
    yield {"status": "ok", "question": "fit", "seconds": fitted}
    for question, ask in QUESTIONS.items():
        fresh = _forgetful(model)
        start = time.perf_counter()
        ask(fresh, n)
        taken = time.perf_counter() - start
        yield {"status": "ok", "question": question, "seconds": taken, "ratio": taken / fitted}


def _forgetful(model: Any) -> Any:
    """The same fit without the reference sketch that several questions share."""
    fresh = copy.copy(model)
    fresh.__dict__.pop("_reference", None)
    return fresh


def page(method: str, data: str, n: int) -> Iterator[Row]:  # noqa: ARG001
    """Seconds of the command that reads a csv file of points and writes the page, and the size of the page."""
    with tempfile.TemporaryDirectory() as folder:
        table, written = Path(folder) / "points.csv", Path(folder) / "page.html"
        X = points.make(data, n)
        np.savetxt(table, X, "%.6g", ",", header=",".join(f"x{i}" for i in range(X.shape[1])), comments="")
        del X
        command = [sys.executable, "-m", "heatsketch", "embed", str(table), "--report", str(written)]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield {"status": "ok", "seconds": time.perf_counter() - start, "page_mb": written.stat().st_size / 1e6}
