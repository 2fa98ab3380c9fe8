"""Faults while files are written: a file is there whole or not at all, what was there stays, and errors have words."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData

import heatsketch as hs
from budget import HUNT, rounds
from heatsketch._utils import files as outputs
from heatsketch._utils.drawing import save_picture
from heatsketch._utils.files import left_over, writable, write_whole
from heatsketch.cli import main
from heatsketch.io.models import save_model
from heatsketch.io.writers import write
from heatsketch.report import page
from processes import command, finish, start

resource = pytest.importorskip("resource", reason="limits are set as Unix has it")

Y = np.random.default_rng(0).normal(size=(3000, 6))
NAMES = [f"y{j}" for j in range(6)]
POINTS = hs.datasets.circle(150, random_state=0)
FAST = ("--method", "gaussian-process", "-p", "4", "--bandwidth", "0.25", "-q")
RNG = np.random.default_rng(None if HUNT > 1 else 0)


@pytest.fixture(scope="module")
def model():
    return hs.GaussianProcessEmbedding(16, n_neighbors=None, random_state=0).fit(hs.datasets.circle(900))


def _write_table(path, model):
    write(path, Y, NAMES, cells=AnnData(Y.copy()) if path.suffix == ".h5ad" else None)


def _draw(path, model):
    try:
        save_picture(hs.plot_embedding(model), path)
    finally:
        plt.close("all")


def _write_page(path, model):
    """The page as it is written; to gather what is on it takes its time, and is not what fails here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "gather", lambda *_: None)
        patch.setattr(page, "render", lambda *_: "words " * 20_000)
        page.write_report(model, path)


# How each kind of file is written.
WRITERS = {f"y.{ending}": _write_table for ending in ("npy", "npz", "csv", "csv.gz", "tsv", "parquet", "h5ad")} | {
    "m.heatsketch": lambda path, model: save_model(model, path),
    "page.html": _write_page,
    "y.png": _draw,
    "y.pdf": _draw,
    "plain.txt": lambda path, _: write_whole(path, "words " * 20_000),
}


@contextmanager
def largest_file(size):
    """No file may grow beyond so many bytes, as on a disk that has no more to give."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def mounted(tmp_path):
    """Mount a small disk, or the folder to be read only."""
    there = []

    def mount(*arguments):
        folder = tmp_path / f"disk{len(there)}"
        folder.mkdir()
        done = subprocess.run(["mount", *arguments, folder], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        there.append(folder)
        return folder

    yield mount
    for folder in there:
        subprocess.run(["umount", folder], check=True)


def _fails_and_leaves_all_as_it_was(path, model):
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(OSError, match=r"cannot be written \(.*make room or mend that, or name a file in another"):
        WRITERS[path.name](path, model)
    assert before is None or path.read_bytes() == before
    assert list(path.parent.iterdir()) == ([] if before is None else [path])


@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_on_files_is_met_in_words(name, model, tmp_path, record_property):
    path, faults = tmp_path / name, 0
    WRITERS[name](path, model)
    size = path.stat().st_size
    for limit in [1, size // 2, size - 1, *RNG.integers(0, size, rounds(2)).tolist()]:
        for there in (True, False):
            path.write_bytes(b"as it was") if there else path.unlink(missing_ok=True)
            with largest_file(limit):
                _fails_and_leaves_all_as_it_was(path, model)
            faults += 1
    WRITERS[name](path, model)  # and nothing of it stands in the way of the next
    assert path.stat().st_size > 0
    record_property("faults", faults)


def test_a_full_disk_is_met_in_words(model, mounted, record_property):
    disk = mounted("-t", "tmpfs", "-o", "size=12k", "tmpfs")
    for name in WRITERS:
        _fails_and_leaves_all_as_it_was(disk / name, model)
    (disk / "y.csv").write_bytes(b"as it was")
    _fails_and_leaves_all_as_it_was(disk / "y.csv", model)
    (disk / "filler").write_bytes(bytes(8192))
    with pytest.raises(OSError, match="No space left"):  # before any work
        writable(disk / "y.npy")
    record_property("faults", len(WRITERS) + 2)


def _heatsketch(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    return done.value.code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a table of points."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(POINTS, columns=["a", "b"]).to_csv("points.csv", index=False)
    return tmp_path


def _unwritable(folder):
    """Places where nothing can be written, and what is said of them."""
    (folder / "a_folder.csv").mkdir()
    (folder / "a_file").write_text("")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "dangling.csv").symlink_to("nowhere/y.csv")
    return {
        "a_folder.csv": "is a folder",
        "missing/y.csv": "there is no folder",
        "a_file/y.csv": "there is no folder",
        "loop.csv": "link that leads back to itself",
        "dangling.csv": "there is no folder",
        f"{'n' * 300}.csv": "name too long",
        "/proc/y.csv": "cannot be written",
        "/dev/full/y.csv": "there is no folder",
    }


def test_places_where_nothing_can_be_written_are_found_before_any_work(folder, capsys, record_property):
    cases = _unwritable(folder)
    before = sorted(folder.rglob("*"))
    for path, words in cases.items():
        for option in ("-o", "--save", "--report"):
            assert _heatsketch("embed", "absent.csv", option, path, *FAST) == 1  # not even the input is looked for
            told = capsys.readouterr().err
            assert words.lower() in told.lower(), told
            assert told.startswith("Error: ")
            assert "Traceback" not in told
    assert sorted(folder.rglob("*")) == before
    record_property("faults", 3 * len(cases))


def test_a_disk_that_may_only_be_read_and_one_that_is_full_are_found_before_any_work(folder, capsys, mounted):
    disks = {
        mounted("-t", "tmpfs", "-o", "ro", "tmpfs"): "is not writable",
        mounted("-t", "tmpfs", "-o", "size=4k,nr_inodes=20", "tmpfs"): "No space left on device",
    }
    (list(disks)[1] / "filler").write_bytes(bytes(4096))
    for disk, words in disks.items():
        assert _heatsketch("embed", "absent.csv", "-o", disk / "y.csv") == 1
        assert words in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["disk0", "disk1", "points.csv"]


def _as_nobody(folder):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    command(folder, "embed", "points.csv", "-o", "y.csv", *FAST)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become nobody")
def test_a_folder_of_somebody_else_is_found_before_any_work(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "log"
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o5 != 0o5:
            parent.chmod(0o755)
    assert finish(start(_as_nobody, folder, log=log)) == 1
    assert "is not writable" in log.read_text()
    assert [path.name for path in folder.iterdir()] == ["points.csv"]


def test_what_can_be_kept_of_an_embedding_is_kept(folder, capsys):
    """The table finds no room, the model does not need as much."""
    with largest_file(5000):
        code = _heatsketch("embed", "points.csv", "-o", "y.csv", "--save", "m.heatsketch", "--title", "t", "--report",
                           "p.html", *FAST)  # fmt: skip
    assert code == 1
    assert "y.csv cannot be written" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["points.csv"]
    with largest_file(9000):  # the model is larger still, the table is not
        assert _heatsketch("embed", "points.csv", "--save", "m.heatsketch", "-o", "y.csv", *FAST) == 1
    assert "m.heatsketch cannot be written" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["points.csv", "y.csv"]
    assert len(pd.read_csv("y.csv")) == len(POINTS)


def _again_and_again(path, number):
    """Write files of one number each, of ever other lengths, until somebody ends it."""
    round_ = 0
    while True:
        rows = 2000 + 517 * (round_ % 7)
        write(path, np.full((rows, 4), number + round_), ["a", "b", "c", "d"])
        round_ += 1


READERS = {
    "y.npy": np.load,
    "y.npz": lambda path: np.load(path)["Y"],
    "y.csv": lambda path: pd.read_csv(path)[["a", "b", "c", "d"]].to_numpy(),
    # Read at once: pandas may open a path twice, and see one file's header beside the other's rows.
    "y.parquet": lambda path: pd.read_parquet(io.BytesIO(path.read_bytes()))[["a", "b", "c", "d"]].to_numpy(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_process_killed_while_it_writes_leaves_a_whole_file(name, tmp_path, record_property):
    """Two write the same file at once, and both are killed; all the while, a reader sees a whole file or none."""
    path, faults, seen = tmp_path / name, 0, set()
    for moment in RNG.uniform(0.05, 0.4, rounds(1)):
        writers = [start(_again_and_again, path, number) for number in (1e6, 2e6)]
        until = time.monotonic() + 60
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        until = time.monotonic() + moment
        while time.monotonic() < until or len(seen) < 2:
            seen.add(_whole_number(READERS[name](path)))
        for writer in writers:
            writer.kill()
            assert finish(writer) == -signal.SIGKILL
            faults += 1
        assert _whole_number(READERS[name](path))
    # What was being written is there under a name that tells so, and does not stand in the way.
    assert {path, *left_over(tmp_path)} == set(tmp_path.iterdir())
    write(path, np.full((10, 4), 7.0), ["a", "b", "c", "d"])
    assert _whole_number(READERS[name](path)) == 7.0
    record_property("faults", faults)


def _whole_number(values):
    """The number that all of a file consists of, which has the length that belongs to it."""
    assert values.shape[1] == 4
    assert len(np.unique(values)) == 1
    number = float(values[0, 0])
    assert number == 7.0 or len(values) == 2000 + 517 * (int(number) % 1_000_000 % 7)
    return number


def test_names_that_no_file_can_have():
    with pytest.raises(OSError, match="cannot be written: no file can be called that"):
        writable("n\0.csv")


def test_an_interrupt_of_the_cleaning_up_leaves_it_to_the_end_of_the_process(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def fail(path):
        with outputs.whole(path) as temporary:
            temporary.write_text("part")
            raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fail(tmp_path / "y.csv")
    assert [path.name.endswith("-y.csv") for path in tmp_path.iterdir()] == [True]
    outputs._clear_away()
    assert [*tmp_path.iterdir()] == []


def test_an_interrupt_at_the_edge_of_a_block_leaves_nothing_when_the_process_ends(tmp_path):
    """Where a block has just been entered or is just being left, its cleaning up is not called."""
    code = (
        "import sys; from pathlib import Path; from heatsketch._utils import files as outputs\n"
        "outputs._temporary(Path(sys.argv[1])).write_text('part')\n"
        "assert len(list(Path(sys.argv[1]).parent.iterdir())) == 1\n"
        "raise KeyboardInterrupt"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "y.csv"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == []
