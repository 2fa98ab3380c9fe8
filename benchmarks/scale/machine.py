"""What the machine can do at best, measured in the same run, and what results of two runs must agree in."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["described", "fingerprint", "limits", "source_digest", "versions"]

LIBRARIES = (
    "heatsketch", "numpy", "scipy", "scikit-learn", "numba", "faiss-cpu", "pynndescent", "umap-learn", "phate",
    "scanpy", "palantir", "topometry", "hnswlib", "pydiffmap", "pygsp", "pykeops", "torch", "pyamg", "datafold",
)  # fmt: skip
# A results file made with others of these is of another run; peers' versions are in their own rows.
_MUST_AGREE = ("heatsketch", "numpy", "scipy", "scikit-learn", "numba", "faiss-cpu")
_COPY_BYTES = 1 << 28
_ROW = 32  # float32 numbers in a row of 128 bytes
_GEMM = 4096
_EXP = 1 << 22
_REPEATS = 5

_EXP_C = r"""
#include <math.h>
void exps(const float *x, float *y, long n) {
#pragma omp parallel for simd
    for (long i = 0; i < n; i++) y[i] = expf(x[i]);
}
"""


def described(libraries: tuple[str, ...]) -> dict[str, Any]:
    """What results are of; without names of machines, places or times."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "source": source_digest(),
        "versions": {"python": platform.python_version(), **versions(libraries)},
    }


def versions(names: tuple[str, ...] = LIBRARIES) -> dict[str, str]:
    """Installed versions of the libraries; those that are absent are left out."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return named.get("model name") or platform.processor() or platform.machine()


def memory_gib() -> float:
    """Memory of the machine in GiB."""
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def source_digest() -> str:
    """Digest of heatsketch's own source: rows of ours that were measured with another one are stale."""
    import heatsketch  # noqa: PLC0415

    digest = hashlib.sha256()
    root = Path(heatsketch.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "experiments" not in path.parts:  # they use the library and are no part of what is measured
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def fingerprint() -> dict[str, Any]:
    """What the results of two runs must agree in to be put into one file."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(_MUST_AGREE),
    }


def best_seconds(function: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """Shortest of some runs, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def limits() -> dict[str, float]:
    """Copy and gather bandwidth (GB/s), float32 GEMM (GFLOP/s) and exp (1e9/s), best of some runs each."""
    found = {**_copy(), **_gather(), "gemm_gflops": _gemm(), **_exp()}
    found["exp_best"] = max(value for name, value in found.items() if name.startswith("exp_"))
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def _copy() -> dict[str, float]:
    source = np.ones(_COPY_BYTES // 4, dtype=np.float32)
    target = np.empty_like(source)
    cores = len(os.sched_getaffinity(0))
    parts = list(zip(np.array_split(source, cores), np.array_split(target, cores), strict=True))
    found = {"copy_1_thread": 2 * _COPY_BYTES / best_seconds(lambda: np.copyto(target, source)) / 1e9}
    with ThreadPoolExecutor(cores) as pool:
        seconds = best_seconds(lambda: list(pool.map(lambda part: np.copyto(part[1], part[0]), parts)))
    return found | {"copy": 2 * _COPY_BYTES / seconds / 1e9}


def _gather() -> dict[str, float]:
    """Rows of 128 bytes in random order, read once each, all cores; only the bytes gathered are counted."""
    found = {}
    cores = len(os.sched_getaffinity(0))
    for rows, name in ((200_000, "gather_200k"), (1_000_000, "gather_1M")):
        table = np.ones((rows, _ROW), dtype=np.float32)
        order = np.random.default_rng(0).permutation(rows)
        # Small targets that stay in cache, so that the reading is what takes the time.
        parts = [np.array_split(part, max(1, len(part) // 1024)) for part in np.array_split(order, cores)]

        def read(blocks: list[Any], table: Any = table) -> None:
            out = np.empty((max(map(len, blocks)), _ROW), dtype=np.float32)
            for block in blocks:
                np.take(table, block, axis=0, out=out[: len(block)], mode="clip")

        with ThreadPoolExecutor(cores) as pool:
            seconds = best_seconds(lambda parts=parts, read=read: list(pool.map(read, parts)))
        found[name] = table.nbytes / seconds / 1e9
    return found


def _gemm() -> float:
    A = np.random.default_rng(0).standard_normal((_GEMM, _GEMM), dtype=np.float32)
    out = np.empty_like(A)
    return 2.0 * _GEMM**3 / best_seconds(lambda: np.matmul(A, A, out=out), 3) / 1e9


def _exp() -> dict[str, float]:
    x = -10 * np.random.default_rng(0).random(_EXP, dtype=np.float32)
    out = np.empty_like(x)
    cores = len(os.sched_getaffinity(0))
    parts = list(zip(np.array_split(x, cores), np.array_split(out, cores), strict=True))
    found = {"exp_numpy_1_thread": _EXP / best_seconds(lambda: np.exp(x, out=out)) / 1e9}
    with ThreadPoolExecutor(cores) as pool:
        seconds = best_seconds(lambda: list(pool.map(lambda part: np.exp(part[0], out=part[1]), parts)))
    found["exp_numpy"] = _EXP / seconds / 1e9
    for name, maker in (("exp_numba", _numba_exp), ("exp_c", _c_exp)):
        function = maker()
        if function is not None:
            found[name] = _EXP / best_seconds(lambda function=function: function(x, out)) / 1e9
    return found


def _numba_exp() -> Callable[[Any, Any], None] | None:
    try:
        import numba  # noqa: PLC0415
    except ImportError:
        return None

    @numba.njit(parallel=True, fastmath=True)
    def exps(x: Any, out: Any) -> None:
        for i in numba.prange(x.shape[0]):
            out[i] = np.exp(x[i])

    return exps


def _c_exp() -> Callable[[Any, Any], None] | None:
    """A loop in C with the compiler's vector exp: the rate that a compiled library can hope for."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        source, library = Path(directory) / "exps.c", Path(directory) / "exps.so"
        source.write_text(_EXP_C)
        flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
        done = subprocess.run(
            [compiler, *flags, str(source), "-o", str(library), "-lm"], capture_output=True, check=False
        )
        if done.returncode:
            return None
        exps = ctypes.CDLL(str(library)).exps
    exps.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    return lambda x, out: exps(x.ctypes.data, out.ctypes.data, x.size)
