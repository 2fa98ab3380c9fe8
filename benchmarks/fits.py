"""Fit with any version of heatsketch in a new process: ``python benchmarks/fits.py given.npz found.npz``.

The version is that on ``PYTHONPATH``. This file only uses names that exist in every version.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

__all__ = ["BEFORE", "EARLIER", "fits"]

Fit = dict[str, Any]

_ROOT = Path(__file__).parents[1]
# The last version whose defaults were one bandwidth for all points and power 8.
BEFORE = "feae239"
EARLIER = _ROOT / "out" / f"heatsketch-{BEFORE}"


def fits(X: np.ndarray, wanted: list[Fit], *, before: bool = False, threads: int = 1) -> list[np.ndarray]:
    """Results of fits to the same points, with this version or with the one before the present defaults.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    wanted : list of dict
        Each has ``estimator``, its ``options``, and ``returns``: ``"embedding"``, ``"distances"`` (the exact condensed
        distances of its kernel and power), or ``"seconds"`` (the median over ``repeats`` fits).
    before : bool
        Use the earlier version.
    threads : int
        Number of BLAS threads.
    """
    source = _earlier() if before else _ROOT / "src"
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, X=X, wanted=json.dumps(wanted))
        environment = os.environ | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": str(threads)}
        subprocess.run([sys.executable, __file__, str(given), str(found)], env=environment, check=True)
        with np.load(found) as results:
            return [results[f"arr_{i}"] for i in range(len(wanted))]


def _earlier() -> Path:
    """Source of the earlier version, extracted from the history of the repository."""
    if not EARLIER.is_dir():
        EARLIER.parent.mkdir(exist_ok=True)
        command = ["git", "archive", BEFORE, "src"]
        archive = subprocess.run(command, cwd=_ROOT, capture_output=True, check=True).stdout
        with tempfile.TemporaryDirectory(dir=EARLIER.parent) as folder:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            with suppress(OSError):  # another process has extracted it in the meantime
                Path(folder, "src").rename(EARLIER)
    return EARLIER


def _fit(X: np.ndarray, estimator: str, options: Fit, returns: str, repeats: int = 1) -> Any:
    import heatsketch as hs  # noqa: PLC0415  the version on PYTHONPATH

    model = getattr(hs, estimator)(**options)
    if returns == "seconds":
        model.fit(X[: min(len(X), 500)])  # compiles or loads compiled code
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        model.fit(X)
        seconds.append(perf_counter() - start)
    if returns == "seconds":
        return np.median(seconds)
    return model.embedding_ if returns == "embedding" else hs.diffusion_distances(model.kernel_, model.power_)


def _main(given: str, found: str) -> None:
    with np.load(given) as task:
        X, wanted = task["X"], json.loads(str(task["wanted"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about components and parameters, which the tables show
        np.savez(found, *[_fit(X, **fit) for fit in wanted])


if __name__ == "__main__":
    _main(*sys.argv[1:])
