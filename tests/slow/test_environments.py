"""Results of many kinds in other environments: threads, hash seeds, cores and concurrent callers change no bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import digests
import heatsketch as hs

# Threads of BLAS, OMP_NUM_THREADS, the seed of Python's hashes, cores, and joblib threads that call at once.
ENVIRONMENTS = [(1, 1, "0", 1, 1), (4, 4, "random", 3, 2)]


def digests_in(blas: int, omp: int, hashes: str, cores: int, callers: int) -> dict[str, str]:
    """Digests of all results, computed in another process."""
    variables = {
        "OPENBLAS_NUM_THREADS": blas,
        "MKL_NUM_THREADS": blas,
        "OMP_NUM_THREADS": omp,
        "PYTHONHASHSEED": hashes,
        "PYTHONPATH": os.pathsep.join([str(Path(hs.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]),
    }
    run = subprocess.run(
        [sys.executable, digests.__file__, str(cores), str(callers)],
        env=os.environ | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_threads_and_hashes_change_no_bit():
    first, second = (digests_in(*environment) for environment in ENVIRONMENTS)
    assert [name for name in first if second[name] != first[name]] == []
    assert len(set(first.values())) == len(first) > 20  # no digest of an empty result
