"""A process that reads files which may do it harm, and tells what came of each.

It has little memory, no network and may start nothing; it watches its own warnings, open files and audit events. If
a file ends it or keeps it busy, that is what is told of the file, and another process takes its place.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import shutil
import subprocess
import sys
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import heatsketch as hs
from heatsketch.io import read
from heatsketch_paper.errors import ReproductionError
from heatsketch_paper.harness.store import Store

# What a process may take beyond what it begins with, and what one small file may take of it.
ROOM = 1 << 30
PATIENCE = 120.0
_FORBIDDEN = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "pickle.find_class",
    "ctypes.dlopen",
    "urllib.Request",
    "webbrowser.open",
)


class Reader:
    """Files read in another process, each with a verdict: {"outcome": "read", "refused", "broken", "died", ...}."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.counts: dict[str, int] = {}

    def judge(self, path: Path) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            assert self._answer() == "ready\n", self._end()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        answer = self._answer()
        verdict: dict[str, Any]
        if answer is None:
            verdict = {"outcome": "hung", "detail": self._end()}
        elif not answer:
            verdict = {"outcome": "died", "detail": self._end()}
        else:
            verdict = json.loads(answer)
        self.counts[verdict["outcome"]] = self.counts.get(verdict["outcome"], 0) + 1
        return verdict

    def _answer(self) -> str | None:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            if not waiting.select(PATIENCE):
                return None
        return self._process.stdout.readline()

    def _end(self) -> str:
        assert self._process is not None
        self._process.kill()
        _, words = self._process.communicate()
        code, self._process = self._process.returncode, None
        return f"exit code {code}: {words[-3000:]}"

    def close(self) -> None:
        if self._process is not None:
            self._end()


def _read(path: Path) -> None:
    """Read a file, and check that what came of it holds together."""
    if path.suffix in (".table", ".record"):
        _read_results(path)
        return
    if path.suffix == ".heatsketch":
        _load(path)
        return
    data = read(path)
    n, d = data.X.shape
    assert n > 0
    assert d > 0 or data.is_graph
    assert data.X.dtype.kind in "biuf", data.X.dtype
    if sparse.issparse(data.X):
        data.X.check_format(full_check=True)
    assert np.isfinite(data.X.data if sparse.issparse(data.X) else data.X).all()
    assert not data.is_graph or n == d
    assert data.names is None or (len(data.names) == n and all(isinstance(one, str) for one in data.names))
    assert data.features is None or (len(data.features) == d == len(set(data.features)))
    assert all(len(values) == n for values in data.columns.values())
    assert data.points.shape == (n, d)


def _load(path: Path) -> None:
    """Load a model, and place points with it: that must not end the process either."""
    model = hs.load_model(path)
    X = model.kernel_.affinity.given if model.affinity == "precomputed" else model.kernel_.affinity.X
    try:
        model.transform(X[:2])
    except Exception as error:
        raise ValueError(f"{path}: {error}") from error


def _read_results(path: Path) -> None:
    tables = path.parent / "tables"
    tables.mkdir(exist_ok=True)
    name = "circle.csv" if path.suffix == ".table" else "circle.json"
    shutil.copy(path, tables / name)
    try:
        if path.suffix == ".table":
            assert len(Store(path.parent).read("circle"))
        else:
            assert Store(path.parent).provenance("circle").seconds >= 0
    except ReproductionError as error:
        raise ValueError(str(error).replace(name, path.name)) from error


def _judged(path: Path, events: list[str]) -> dict[str, Any]:
    before, events[:] = _handles(), []
    _forget_peak()
    start, _ = _memory()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _read(path)
            verdict: dict[str, Any] = {"outcome": "read", "detail": ""}
        except ValueError as error:
            verdict = {"outcome": "refused", "detail": str(error)}
        except BaseException:
            verdict = {"outcome": "broken", "detail": traceback.format_exc()[-3000:]}
    _, peak = _memory()
    verdict["warnings"] = [f"{one.category.__name__}: {one.message}" for one in caught]
    if _handles() - before:
        gc.collect()  # a frame of a traceback may have held it
    verdict["left_open"] = sorted(_handles() - before)
    verdict["events"] = list(events)
    verdict["megabytes"] = max(0, peak - start) / 1e6
    return verdict


def _handles() -> set[str]:
    links = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            links.append(f"{one.name} {one.readlink()}")
        except OSError:  # that of the listing itself
            continue
    return {link for link in links if not link.endswith("/fd")}


def _memory() -> tuple[int, int]:
    """Bytes that the process holds, and the most that it held."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(found[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _tell(answer: str) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def _serve() -> None:
    corpus = Path(__file__).parent / "corpus"
    # Whatever is imported on the way is so now; the models come last, for threadpoolctl looks at all that was.
    for path in sorted(corpus.iterdir(), key=lambda path: (path.suffix == ".heatsketch", path.name)):
        if path.suffix not in (".py", ".md", ".table", ".record") and "absurd" not in path.name:
            with suppress(Exception):
                _read(path)
    events: list[str] = []

    def watch(event: str, arguments: Any) -> None:
        if event.startswith(_FORBIDDEN):
            events.append(f"{event} {arguments!r:.300}")

    sys.addaudithook(watch)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _tell("ready")
    for line in sys.stdin:
        _tell(json.dumps(_judged(Path(line.rstrip("\n")), events)))


if __name__ == "__main__":
    _serve()
