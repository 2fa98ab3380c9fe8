"""Commands that are interrupted, killed, starved of memory or not listened to: whole results, words, and exit codes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import heatsketch as hs
from budget import HUNT, rounds
from heatsketch._utils import threads
from heatsketch._utils.files import left_over
from heatsketch._utils.memory import available_memory
from heatsketch.cli import main
from heatsketch.io.models import load_model
from heatsketch_paper.harness.store import Store
from processes import command, finish, start, until_begun

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # see test_interrupts
FAST = ("--method", "gaussian-process", "-p", "4", "--bandwidth", "0.25", "-q")
RNG = np.random.default_rng(None if HUNT > 1 else 0)
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL") if hasattr(signal, name)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a table of points."""
    there = tmp_path / "work"
    there.mkdir()
    monkeypatch.chdir(there)
    points = hs.datasets.stretched_torus(800, random_state=0)
    pd.DataFrame(points, columns=list("abcd")).to_csv("points.csv", index=False)
    return there


def _check_table(path):
    assert len(pd.read_csv(path)) == 800


def _check_array(path):
    assert np.load(path).shape == (800, 2)


def _check_model(path):
    assert load_model(path).embedding_.shape == (800, 2)


COMMANDS = {
    "y.csv": (("embed", "points.csv", "-o", "y.csv", *FAST), _check_table),
    "y.npy": (("embed", "points.csv", "-o", "y.npy", "--method", "diffusion-maps", "-p", "auto", "-q"), _check_array),
    "m.heatsketch": (("embed", "points.csv", "--save", "m.heatsketch", "--n-neighbors", "10", *FAST), _check_model),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_ended_leaves_its_output_whole_or_as_it_was(name, folder, tmp_path, record_property):
    arguments, check = COMMANDS[name]
    faults = 0
    for number in SIGNALS * rounds(1):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        Path(name).write_text("as it was")
        process = start(command, folder, *arguments, log=log)
        until_begun(folder)
        time.sleep(RNG.uniform(0, 0.5))
        with suppress(ProcessLookupError):  # it may be done
            os.kill(process.pid, number)
        code = finish(process)
        assert code in (0, -number) or (code == 130 and number != signal.SIGKILL), log.read_text()
        assert "Traceback" not in log.read_text()
        if code == 0 or (code < 0 and number != signal.SIGKILL):  # the signal met a process that was done
            check(name)
        else:
            faults += 1
            if Path(name).read_text(errors="replace") != "as it was":
                check(name)
        for path in left_over(folder):
            assert number == signal.SIGKILL
            path.unlink()
    assert {path.name for path in folder.iterdir()} == {"points.csv", name}
    record_property("faults", faults)


def test_two_reproductions_in_one_directory_do_not_mix(tmp_path):
    arguments = ("reproduce", "circle_with_outliers", "--trials", "1", "-j", "1", "-q", "-o", "out")
    logs = [tmp_path / "one", tmp_path / "two"]
    codes = [finish(process) for process in [start(command, tmp_path, *arguments, log=log) for log in logs]]
    for code, log in zip(codes, logs, strict=True):
        assert code == 0, log.read_text()
    assert Store(tmp_path / "out").read("circle_with_outliers")["trial"].nunique() == 1
    assert (tmp_path / "out" / "index.html").read_text().rstrip().endswith("</html>")


def _limit_address_space(megabytes):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _join_group(group, megabytes):
    """Go into a control group; what was taken before is not counted there."""
    names = ("memory.limit_in_bytes", "memory.max")
    (limit,) = (group / name for name in names if (group / name).exists())
    limit.write_text(str(megabytes << 20))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _starved(megabytes, n, group=None):
    """Fit within a limit; exit with 3 after an error in words, with 4 where threads found no room for their stacks."""
    model = hs.GaussianProcessEmbedding(2, n_neighbors=None, metric="cityblock", random_state=0)
    model.fit(np.eye(30, 4))  # so that libraries and threads are there
    _limit_address_space(megabytes) if group is None else _join_group(group, megabytes)
    threads._cores.cache_clear()  # as if the limit had been there from the beginning
    assert available_memory() <= megabytes << 20
    try:
        model.fit(np.random.default_rng(0).normal(size=(n, 4)))
    except MemoryError as error:
        sys.exit(3 if "n_neighbors=32" in str(error) and model.embedding_.shape == (30, 2) else f"{error!r}")
    except OSError as error:
        sys.exit(4 if "OMP_NUM_THREADS=1" in str(error) and model.embedding_.shape == (30, 2) else f"{error!r}")
    assert model.embedding_.shape == (n, 2)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what a process has taken")
def test_a_limit_on_memory_is_met_in_words(tmp_path, record_property):
    codes = []
    for megabytes in [20, 340, 800, *RNG.integers(256, 700, rounds(2)).tolist()]:
        log = tmp_path / "log"
        codes.append(finish(start(_starved, int(megabytes), 2500, log=log)))
        assert codes[-1] in (0, 3, 4), f"{megabytes} MB: {codes[-1]}, {log.read_text()}"
    assert codes[0] == 3
    assert codes[2] == 0 or (codes[2] == 4 and len(os.sched_getaffinity(0)) > 2)  # each has a stack
    record_property("faults", len(codes) - codes.count(0))


@pytest.fixture
def control_group():
    """A group of our own whose memory can be limited."""
    for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        group = Path(root) / f"heatsketch-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        limited = any((group / name).exists() for name in ("memory.limit_in_bytes", "memory.max"))
        if limited:
            yield group
        group.rmdir()
        if limited:
            return
    pytest.skip("no control group can be made here")


def test_a_limit_of_a_control_group_is_met_in_words(control_group, tmp_path, record_property):
    """Without words, the system would kill whoever passes it."""
    codes = []
    for megabytes in [8, 1000, *RNG.integers(20, 400, rounds(2)).tolist()]:
        log = tmp_path / "log"
        codes.append(finish(start(_starved, int(megabytes), 2500, control_group, log=log)))
        assert codes[-1] in (0, 3), f"{megabytes} MB: {codes[-1]}, {log.read_text()}"
    assert codes[:2] == [3, 0]
    record_property("faults", codes.count(3))


@pytest.mark.skipif(sys.platform != "linux", reason="limits on address space hold on Linux")
def test_a_limit_that_does_not_hold_the_libraries_is_told_before_they_are_loaded(folder):
    """They would end the process, each in its own way."""
    words = [sys.executable, "-m", "heatsketch", "embed", "points.csv", "-o", "y.csv"]
    paths = {"PYTHONPATH": str(Path(hs.__file__).parent.parent)}
    done = subprocess.run(["bash", "-c", 'ulimit -v 400000; exec "$@"', "-", *words], env=os.environ | paths,
                          capture_output=True, text=True, check=False, timeout=120)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "raise its limit (ulimit -v)" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["points.csv"]


def _with_stdout(kind, folder, *arguments):
    """A command whose standard output is a full disk, closed, or read by nobody."""
    if kind == "closed":
        os.close(1)
        sys.stdout = None
    else:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(os.open("/dev/full", os.O_WRONLY) if kind == "full" else writer, 1)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    command(folder, *arguments)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device on this system")
def test_output_that_nobody_takes(folder, tmp_path, record_property):
    """A reader that has seen enough is no error; a disk that is full is one, and so is a closed output."""
    told = {"full": "standard output cannot be written (No space left", "closed": "cannot be written (Bad file", "": ""}
    faults = 0
    for arguments in (("datasets", "--json"), ("datasets", "circle", "-o", "-"), ("datasets",)):
        for kind, words in told.items():
            log = tmp_path / "log"
            log.unlink(missing_ok=True)
            assert finish(start(_with_stdout, kind, folder, *arguments, log=log)) == 1
            assert words in log.read_text()
            assert "Traceback" not in log.read_text()
            assert "Exception ignored" not in log.read_text()
            faults += 1
    log.unlink()
    assert finish(start(_with_stdout, "closed", folder, "datasets", "circle", "-o", "c.csv", log=log)) == 0
    record_property("faults", faults)


def test_truncated_files_are_told_in_a_line(folder, capsys, record_property):
    frame, faults = pd.read_csv("points.csv"), 0
    frame.to_csv("a.csv.gz", index=False)
    frame.to_parquet("a.parquet")
    np.save("a.npy", frame.to_numpy())
    np.savez("a.npz", X=frame.to_numpy())
    hs.save_model(hs.GaussianProcessEmbedding(2, bandwidth=1.0).fit(frame[:50]), "m.heatsketch")
    for path in sorted(folder.glob("[am].*")):
        content = path.read_bytes()
        for share in (0.0, 0.5, 0.99):
            path.write_bytes(content[: int(share * len(content))])
            model = ("transform", path.name, "points.csv") if path.name[0] == "m" else ("embed", path.name)
            with pytest.raises(SystemExit) as done:
                main([*model, "-o", "y.csv", "-q"])
            told = capsys.readouterr().err
            assert done.value.code == 1, (path.name, share)
            assert told.startswith(f"Error: {path.name}")
            assert told.count("\n") == 1
            assert len(told) > len(f"Error: {path.name}: \n")
            faults += 1
        path.unlink()
    assert [path.name for path in folder.iterdir()] == ["points.csv"]
    record_property("faults", faults)
