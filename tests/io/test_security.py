"""Files from unknown sources: nothing in them is executed, no other file is read, and absurd sizes raise."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import anndata
import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import heatsketch as hs
from conftest import run_code
from heatsketch._utils.files import check_writable, replacing
from heatsketch._utils.text import visible
from heatsketch.cli import main
from heatsketch.io import Reading, errors, read
from heatsketch.io.models import save_model
from heatsketch.io.writers import write

POINTS = np.random.default_rng(0).standard_normal((40, 3))
HOSTILE = [
    "<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "[red]x[/]", "[link=http://x]y[/link]", ":warning:", "$\\frac$",
    "_hidden", "=cmd|' /C calc'!A0", "\u202eabc", "\u2028", "{0.__class__}", "%s%n", "../../x",
]  # fmt: skip


class _Bomb:
    def __reduce__(self):
        return os.system, ("touch ran",)


def test_pickles_are_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = np.array([[_Bomb()]], dtype=object)
    np.save("x.npy", objects, allow_pickle=True)
    np.savez("x.npz", X=objects, Z=POINTS)
    for name, key in (("x.npy", None), ("x.npz", "X")):
        with pytest.raises(ValueError, match=r"allow_pickle=False|Python objects"):
            read(name, Reading(key=key))
    np.testing.assert_array_equal(read("x.npz").X, POINTS)  # without what was not asked for
    assert not Path("ran").exists()


def _cells(path, **options):
    anndata.AnnData(POINTS).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["uns"].create_dataset("more", dtype="f8", **options)


_MTX = b"%%MatrixMarket matrix "
ABSURD = {
    "zeros.csv.gz": lambda path: path.write_bytes(gzip.compress(b"0,0\n" * (1 << 20))),
    "zeros.npz": lambda path: np.savez_compressed(path, X=np.zeros((1 << 17, 8))),
    "run.parquet": lambda path: pd.DataFrame({"a": np.zeros(1 << 20)}).to_parquet(path),
    "unwritten.h5ad": lambda path: _cells(path, shape=(1 << 40,), chunks=(64,)),
    "rows.mtx": lambda path: path.write_bytes(_MTX + b"coordinate real general\n9999999999999 3 1\n1 1 1\n"),
    "values.mtx": lambda path: path.write_bytes(_MTX + b"array real general\n9999999 9999999\n1\n"),
}


@pytest.mark.parametrize("name", ABSURD)
def test_data_larger_than_memory_raises(tmp_path, monkeypatch, name):
    ABSURD[name](tmp_path / name)
    monkeypatch.setattr(errors, "available_memory", lambda: 1 << 20)
    with pytest.raises(ValueError, match=rf"{re.escape(name)}.*of memory"):
        read(tmp_path / name)


def test_headers_are_checked(tmp_path):
    np.save(tmp_path / "x.npy", POINTS)
    content = (tmp_path / "x.npy").read_bytes().replace(b"(40, 3), }   ", b"(90000, 30), }")
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.npy"):
        read(tmp_path / "x.npy")
    X = sparse.csr_array(POINTS)
    X.indices[3] = 10**6
    sparse.save_npz(tmp_path / "x.npz", X)
    with pytest.raises(ValueError, match="index 1000000"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize("how", ["link", "external", "virtual"])
def test_other_files_are_not_read(tmp_path, how):
    (tmp_path / "secret").write_bytes(bytes(1000))
    if how == "external":
        _cells(tmp_path / "c.h5ad", shape=(10,), external=[(str(tmp_path / "secret"), 0, 80)])
    else:
        _cells(tmp_path / "c.h5ad", shape=(10,))
        with h5py.File(tmp_path / "c.h5ad", "r+") as file:
            if how == "link":
                file["uns/there"] = h5py.ExternalLink(str(tmp_path / "secret"), "/x")
            else:
                layout = h5py.VirtualLayout(shape=(10,), dtype="f8")
                layout[:] = h5py.VirtualSource(str(tmp_path / "secret"), "x", shape=(10,))
                file["uns"].create_virtual_dataset("there", layout)
    with pytest.raises(ValueError, match="another file"):
        read(tmp_path / "c.h5ad")


def test_external_entities_of_xml_raise(tmp_path):
    declared = '<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    (tmp_path / "g.graphml").write_text(f'{declared}<graphml><graph><node id="&x;"/></graph></graphml>')
    with pytest.raises(ValueError, match="external entity"):
        read(tmp_path / "g.graphml")


def _save_table(path):
    write(path, POINTS, list("xyz"), cells=anndata.AnnData(POINTS) if path.suffix == ".h5ad" else None)


def _save_model(path):
    save_model(hs.GaussianProcessEmbedding(2, bandwidth=1.0, random_state=0).fit(POINTS), path)


@pytest.mark.parametrize(
    ("name", "writer", "function"),
    [
        ("y.csv", _save_table, "pandas.DataFrame.to_csv"),
        ("y.parquet", _save_table, "pandas.DataFrame.to_parquet"),
        ("y.npz", _save_table, "numpy.savez"),
        ("y.h5ad", _save_table, "anndata.AnnData.write_h5ad"),
        ("m.heatsketch", _save_model, "numpy.lib.format.write_array"),
    ],
)
def test_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch, name, writer, function):
    path = tmp_path / name

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    for before in (None, b"as it was"):
        if before is not None:
            path.write_bytes(before)
        with monkeypatch.context() as patch:
            patch.setattr(function, fail)
            with pytest.raises(OSError, match="No space left"):
                writer(path)
        assert [one.read_bytes() for one in tmp_path.iterdir()] == ([] if before is None else [before])
    writer(path)
    assert path.stat().st_size > len(b"as it was")


def test_outputs_keep_links_and_devices(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("before")
    link.symlink_to(target)
    with replacing(link) as temporary:
        temporary.write_text("after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    with replacing("/dev/null") as device:
        device.write_text("gone")
    assert Path("/dev/null").is_char_device()


def test_outputs_that_cannot_be_written(tmp_path):
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "no" / "file", FileNotFoundError)):
        with pytest.raises(error):
            check_writable(path)


def test_names_do_not_control_the_terminal(tmp_path, capsys):
    words = "".join(HOSTILE).replace("/", "|")
    path = tmp_path / f"{words}.csv"
    frame = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    frame.assign(**{words: "w", "\x1b]0;title\x07": "w"}).to_csv(path, index=False)
    for arguments in (["estimate", str(path)], ["embed", str(path), "-o", str(tmp_path / "y.csv"), "--id", "none"]):
        with pytest.raises(SystemExit):
            main(arguments)
        shown = "".join(capsys.readouterr())
        assert shown == visible(shown)
        assert "\\x1b[31mred" in shown
        assert "[red]x[|]" in shown
        assert ":warning:" in shown


def test_pictures_take_any_name(tmp_path):
    for color in (
        np.array([HOSTILE[n % len(HOSTILE)] for n in range(40)]),
        pd.Series(np.arange(40.0), name=HOSTILE[5]),
    ):
        ax = hs.plot_embedding(POINTS[:, :2], color=color, label=None if isinstance(color, pd.Series) else HOSTILE[5])
        ax.figure.savefig(tmp_path / "p.svg")
        assert "<script" not in (tmp_path / "p.svg").read_text("utf-8")
        plt.close(ax.figure)


_WATCHED = """
import sys
from pathlib import Path
seen = []
def watch(event, arguments):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.bind", "urllib", "os.system",
                         "os.exec", "os.posix_spawn", "os.fork", "subprocess", "webbrowser")):
        if "lscpu" not in str(arguments):  # by which some versions of h5py ask for the processor
            seen.append((event, str(arguments)[:200]))
sys.addaudithook(watch)
folder = Path(sys.argv[1])
import heatsketch as hs
from heatsketch.cli import main
for arguments in (["embed", str(folder / "x.csv"), "-o", str(folder / "y.csv"), "--report", str(folder / "p.html"),
                   "--save", str(folder / "m.heatsketch"), "--quiet"],
                  ["transform", str(folder / "m.heatsketch"), str(folder / "x.csv"), "-o", str(folder / "z.npz")]):
    try:
        main(arguments)
    except SystemExit as done:
        assert not done.code, done.code
print([one for one in seen if "ldconfig" not in one[1] and "uname" not in one[1]])
"""


def test_nothing_is_downloaded_or_started(tmp_path):
    frame = pd.DataFrame(POINTS, columns=["a", "b", "c"]).assign(kind=[HOSTILE[n % len(HOSTILE)] for n in range(40)])
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert run_code(_WATCHED, tmp_path).stdout.strip().splitlines()[-1] == "[]"
    page = (tmp_path / "p.html").read_text("utf-8")
    own = re.sub(r'<script type="text/plain".*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(|<link|<[^>]*\ssrc=", own)
    assert HOSTILE[0] not in page
    assert {path.name for path in tmp_path.iterdir()} == {"x.csv", "y.csv", "p.html", "m.heatsketch", "z.npz"}
