"""Shared data, kernels and fixtures."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heatsketch as hs
from heatsketch._utils.registry import find_device, has_gpu
from heatsketch_paper.settings import PAPER

PAPER_SETS = ("circle", "stretched_torus", "klein_bottle", "circle_with_outliers")
NORMALIZATIONS = ("symmetric", "bistochastic", "stochastic", "bistochastic-weighted")


def paper_data(name: str, seed: int = 0) -> tuple[np.ndarray, object]:
    """One of the paper's data sets, with its size, bandwidth and power."""
    setting = PAPER[name]
    return getattr(hs.datasets, name)(setting.n_samples, random_state=seed), setting


def run_code(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that imports this source tree; it must succeed."""
    paths = [str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run


@pytest.fixture(scope="session")
def torus() -> np.ndarray:
    return hs.datasets.stretched_torus(300, random_state=0)


@pytest.fixture(scope="session", params=NORMALIZATIONS)
def kernel(request: pytest.FixtureRequest, torus: np.ndarray) -> hs.HeatKernel:
    return hs.heat_kernel(torus, bandwidth=1.0, normalization=request.param)


# Minimum number of points of experiments that need more than 45.
_TOY_SIZES = {"refinement": 320, "cost": 400, "local_coordinates": 120, "challenge": 60}


@pytest.fixture(scope="session")
def toy():
    """Shrink an experiment so that a trial takes a fraction of a second."""

    def shrink(experiment, n_trials=2):
        return replace(experiment, n_samples=_TOY_SIZES.get(experiment.name, 45), n_trials=n_trials)

    return shrink


@pytest.fixture(scope="session", params=["torch-cpu", "cuda"])
def device(request):
    """PyTorch on the CPU, and on a GPU where there is one."""
    pytest.importorskip("torch")
    if request.param == "cuda" and not has_gpu():
        pytest.skip("there is no GPU")
    return find_device(request.param)


@pytest.fixture
def one_thread():
    """Dask arrays computed on the calling thread: mutation tests fork, and threads do not survive a fork."""
    arrays = pytest.importorskip("dask.array")
    with pytest.importorskip("dask").config.set(scheduler="synchronous"):
        yield arrays
