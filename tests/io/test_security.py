"""What a file, a name or a dependency must not do: fill the memory, fetch, run, speak to the terminal."""

from __future__ import annotations

import gzip
import io
import re
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import heatsketch as hs
from conftest import run_code
from heatsketch._utils.text import visible
from heatsketch.cli import main
from heatsketch.io import read, untrusted
from heatsketch.io.writers import write
from mutations import CORPUS

ROOT = Path(__file__).parents[2]
POINTS = np.random.default_rng(0).standard_normal((40, 3))
EVIL = [
    "<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "[red]x[/]", "[link=http://x]y[/link]", ":warning:", "$\\frac$",
    "_hidden", "=cmd|' /C calc'!A0", "a\x00b", "\u202eabc", "\u2028", "{0.__class__}", "%s%n", "../../x",
]  # fmt: skip


def _zeros_in_npz(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", _npy(np.zeros((1 << 17, 8))))


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _nested(path):
    """An archive in an archive."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(1 << 20))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", inner.getvalue())


def _cells(path, **options):
    path.write_bytes((CORPUS / "dense.h5ad").read_bytes())
    with h5py.File(path, "r+") as file:
        file["uns"].create_dataset("more", dtype="f8", **options)


BOMBS = {
    "zeros.csv.gz": lambda path: path.write_bytes(gzip.compress(b"0,0\n" * (1 << 20))),
    "zeros.npy.gz": lambda path: path.write_bytes(gzip.compress(_npy(np.zeros((1 << 17, 8))))),
    "zeros.graphml.gz": lambda path: path.write_bytes(gzip.compress(b" " * (1 << 22))),
    "zeros.npz": _zeros_in_npz,
    "run.parquet": lambda path: pq.write_table(pa.table({"a": np.zeros(1 << 20)}), path),
    "list.parquet": lambda path: pq.write_table(pa.table({"a": [1.0], "b": [np.zeros(1 << 20)]}), path),
    "unwritten.h5ad": lambda path: _cells(path, shape=(1 << 21,), chunks=(64,)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(tmp_path, monkeypatch, name):
    """In small: the bound of 256 MB is 2 MB here."""
    monkeypatch.setattr(untrusted, "HARMLESS", 1 << 21)
    BOMBS[name](tmp_path / name)
    with pytest.raises(ValueError, match=rf"{re.escape(name)}.* would unpack to .* over 200 times as much.*trust it"):
        read(tmp_path / name)
    monkeypatch.setattr(untrusted, "HARMLESS", 1 << 28)
    if name in ("zeros.csv.gz", "zeros.npz", "run.parquet"):
        assert not read(tmp_path / name).X.any()  # it is what is refused, not the file


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "HARMLESS", 1000)
    monkeypatch.setattr(untrusted, "available_memory", lambda: 2000)
    np.savez(tmp_path / "x.npz", X=POINTS.repeat(9, axis=0))
    with pytest.raises(ValueError, match=r"x\.npz.* would take 9 kB of memory or more, and 2 kB are available"):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("wide.mtx", b"%%MatrixMarket matrix coordinate real general\n3 999999999 1\n1 1 1\n", "leave out the empty"),
        ("cut.mtx", b"%%MatrixMarket matrix array real general\n3 1\n1 2 3", "Truncated"),  # SciPy alone dies of it
        ("nul.mtx", b"%%MatrixMarket matrix array real general\n1 1\n1\x002\n", "the byte b'.x00' among its numbers"),
        (
            "none.mtx",
            b"%%MatrixMarket matrix array real general\n0 3\n1\n",
            r"of shape \(0, 3\), in which there is nothing",
        ),
        ("a.npz", _npy(POINTS), "it holds a single array"),
        ("twice.npz", _npz({"X": b"0", "X.npy": _npy(POINTS)}), "two of its arrays have the same name"),
        ("a.graphml", b'<!DOCTYPE g [<!ENTITY a "b">]><graphml/>', "declares the entity 'a'"),
        ("quote.csv", b'a,b\n1,"' + b"x,y\n" * (1 << 18), "cannot be read as a table"),
    ],
)
def test_absurd_files_are_refused_in_words(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        read(tmp_path / name)
    assert len(str(caught.value)) < 1500


def test_a_doctype_without_entities_does_no_harm(tmp_path):
    plain = (CORPUS / "plain.graphml").read_bytes()
    start = plain.index(b"<graphml")
    (tmp_path / "g.graphml").write_bytes(b'<!DOCTYPE graphml SYSTEM "http://example.org/x.dtd">' + plain[start:])
    assert read(tmp_path / "g.graphml").X.shape == (5, 5)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia"])
def test_sparse_archives_of_every_form_are_the_matrix(kind):
    assert read(CORPUS / f"{kind}.npz").X.shape == (8, 6)


@pytest.mark.parametrize("how", ["link", "external", "virtual"])
def test_cells_are_not_fetched_from_other_files(tmp_path, how):
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


def test_two_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet: .*'?a'?"):
        read(tmp_path / "t.parquet")


def test_names_do_not_speak_to_the_terminal(tmp_path, capsys):
    words = "".join(EVIL).replace("/", "|").replace("\0", "")
    path = tmp_path / f"{words}.csv"
    frame = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    frame.assign(**{words: "w", "\x1b]0;title\x07": "w"}).to_csv(path, index=False)
    for arguments in (["estimate", str(path)], ["embed", str(path), "-o", str(tmp_path / "y.csv"), "--id", "none"]):
        with pytest.raises(SystemExit):
            main(arguments)
        said = "".join(capsys.readouterr())
        assert said == visible(said)
        assert "\\x1b[31mred" in said
        assert "[red]x[|]" in said
        assert ":warning:" in said


def test_pictures_take_any_name(tmp_path):
    for color in (np.array([EVIL[n % len(EVIL)] for n in range(40)]), pd.Series(np.arange(40.0), name=EVIL[5])):
        ax = hs.plot_embedding(POINTS[:, :2], color=color, label=None if isinstance(color, pd.Series) else EVIL[5])
        for ending in ("png", "svg"):
            ax.figure.savefig(tmp_path / f"p.{ending}")
        assert "<script" not in (tmp_path / "p.svg").read_text("utf-8").replace("<!--", "")
        plt.close(ax.figure)


def test_archives_hold_no_paths_that_lead_out(tmp_path):
    columns = {name: np.arange(40) for name in ("../../x", "/etc/x", "C:\\x", "a/b", "a\x00b", "..")}
    write(tmp_path / "y.npz", POINTS, ["y0", "y1", "y2"], columns=columns)
    with np.load(tmp_path / "y.npz") as archive:
        assert {*archive.files} == {".._.._x", "_etc_x", "C__x", "a/b", "a_b", "..", "Y"}


def test_words_are_written_as_they_are(tmp_path):
    """Spreadsheets may take them for formulas; to change them would change ids."""
    write(tmp_path / "y.csv", POINTS[:2], ["y0", "y1", "y2"], names=np.array(["=1+1", "@x"], dtype=object))
    assert pd.read_csv(tmp_path / "y.csv")["id"].tolist() == ["=1+1", "@x"]


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


def test_nothing_is_fetched_or_started(tmp_path):
    words = [word.replace("\0", "") for word in EVIL]  # with which text is refused
    frame = pd.DataFrame(POINTS, columns=["a", "b", "c"]).assign(kind=[words[n % len(words)] for n in range(40)])
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert run_code(_WATCHED, tmp_path).stdout.strip().splitlines()[-1] == "[]"
    page = (tmp_path / "p.html").read_text("utf-8")
    own = re.sub(r'<script type="text/plain".*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(|<link|<[^>]*\ssrc=", own)
    assert EVIL[0] not in page
    assert {path.name for path in tmp_path.iterdir()} == {"x.csv", "y.csv", "p.html", "m.heatsketch", "z.npz"}


ADVISORIES = tomllib.loads((Path(__file__).parents[1] / "advisories.toml").read_text())


def test_no_lower_bound_admits_a_known_vulnerability():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(one for extra in extras for one in extra)]
    found = set()
    for requirement in map(Requirement, declared):
        # Dask and its scheduler are released together.
        name = "distributed" if "distributed" in requirement.extras else canonicalize_name(requirement.name)
        lowest = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
        for advisory, fixed in ADVISORIES["fixed"].get(name, {}).items():
            if not lowest or max(lowest) < Version(fixed):
                found.add(f"{name} {advisory}")
    assert found == set(ADVISORIES["accepted"])


def test_nothing_that_is_installed_has_a_known_vulnerability():
    installed = {canonicalize_name(one.metadata["Name"]): Version(one.version) for one in distributions()}
    assert len(installed.keys() & ADVISORIES["fixed"].keys()) > 10
    for name, fixed in ADVISORIES["fixed"].items():
        for advisory, version in fixed.items():
            # Which setuptools there is is not ours to say.
            if name in installed and name != "setuptools" and f"{name} {advisory}" not in ADVISORIES["accepted"]:
                assert installed[name] >= Version(version), f"{name} {installed[name]} has {advisory}"


def test_the_threat_model_names_what_is_tested():
    text = (ROOT / "SECURITY.md").read_text()
    for name in ("tests/test_fuzz.py", "tests/test_security.py", "tests/advisories.toml", "256 MB", "200 times"):
        assert name in text
    assert (untrusted.HARMLESS, untrusted.MOST_EXPANSION) == (1 << 28, 200)
