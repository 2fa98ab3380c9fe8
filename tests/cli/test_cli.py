"""The command line: files, errors, exit codes, pipes."""

from __future__ import annotations

import base64
import errno
import gzip
import io
import json
import os
import re
import subprocess
import sys
import time

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import heatsketch as hs
from conftest import run_code
from heatsketch.cli import main
from heatsketch.estimators import ESTIMATORS, METHODS

X = hs.datasets.circle(60, random_state=0)
FRAME = pd.DataFrame(X, columns=["east", "north"]).assign(colour=np.where(X[:, 0] > 0, "red", "blue"))
FAST = ("--method", "gaussian-process", "--power", "4", "--bandwidth", "0.25")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, which is the current one."""
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("points.csv", index=False)
    return tmp_path


@pytest.fixture
def heatsketch(folder, capsys, monkeypatch):
    """Run the command; gives the exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["heatsketch", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, " ".join(said.err.split())

    return run


def test_embed_a_table(heatsketch):
    code, out, err = heatsketch("embed", "points.csv", "-o", "y.csv", *FAST)
    assert (code, out) == (0, "")
    assert "kept aside: colour" in err
    assert "60 rows" in err
    table = pd.read_csv("y.csv", dtype=str)
    assert list(table.columns) == ["id", "colour", "gaussianprocessembedding0", "gaussianprocessembedding1"]
    model = hs.GaussianProcessEmbedding(2, power=4, bandwidth=0.25, random_state=0).fit(X)
    np.testing.assert_array_equal(table.iloc[:, 2:].astype(float), model.embedding_)
    assert table["colour"].tolist() == FRAME["colour"].tolist()


def test_categories_are_read_as_written(heatsketch):
    """NA is a country, 1.10 is not 1.1, and codes do not depend on the other rows of the file."""
    frame = FRAME.assign(country=np.tile(["NA", "DE", "FR", ""], 15), code=np.tile(["01", "A", "1.10", "1.1"], 15))
    frame.to_csv("coded.csv", index=False)
    named = ("--categorical", "country", "--categorical", "code")
    assert heatsketch("embed", "coded.csv", *named, "--save", "m.heatsketch", "-q", *FAST) == (0, "", "")
    levels = {column.name: column.levels for column in hs.load_model("m.heatsketch")[0].columns_}
    assert levels["country"] == ("DE", "FR", "NA", None)
    assert levels["code"] == ("01", "1.1", "1.10", "A")
    frame[frame["code"] == "01"].to_csv("new.csv", index=False)
    assert heatsketch("transform", "m.heatsketch", "new.csv", "-o", "y.csv", "-q") == (0, "", "")
    table = pd.read_csv("y.csv").iloc[:, -2:].to_numpy()
    np.testing.assert_allclose(table, hs.load_model("m.heatsketch")[-1].embedding_[::4], atol=1e-6)


def test_weights(heatsketch):
    counts = 1 + np.arange(60) % 3
    FRAME.assign(count=counts).to_csv("counted.csv", index=False)
    assert heatsketch("embed", "counted.csv", "--weight", "count", "-o", "y.npy", "-q", *FAST) == (0, "", "")
    model = hs.GaussianProcessEmbedding(2, power=4, bandwidth=0.25, random_state=0).fit(X, sample_weight=counts)
    np.testing.assert_array_equal(np.load("y.npy"), model.embedding_)
    np.save("x.npy", X)
    for wrong in (("counted.csv", "--weight", "colour"), ("counted.csv", "--weight", "count", "--drop", "count"),
                  ("x.npy", "--weight", "count")):  # fmt: skip
        code, _, err = heatsketch("embed", *wrong, "-o", "y.npy")
        assert code == 1
        assert "--weight" in err
    FRAME.assign(count=np.where(np.arange(60) == 1, 0, 1), name=[f"p{i}" for i in range(60)]).to_csv("zero.csv")
    named = ("--weight", "count", "--id", "name", "--drop", "Unnamed: 0")
    assert "row 1 (p1)" in heatsketch("embed", "zero.csv", *named, "-o", "y.npy")[2]


def test_classes(heatsketch):
    y = np.where(np.arange(60) % 6 == 0, np.arange(60) % 4 // 2, -1)
    words = [["left", "right", ""][label] for label in y]
    FRAME.assign(kind=words, every="a").to_csv("known.csv", index=False)
    assert heatsketch("embed", "known.csv", "--classes", "kind", "-o", "y.npy", "-q") == (0, "", "")
    model = hs.HeatSketch(use_labels=True, random_state=0).fit(X, y)
    np.testing.assert_array_equal(np.load("y.npy"), model.embedding_)
    assert not np.array_equal(model.embedding_, hs.HeatSketch(random_state=0).fit_transform(X))
    for options, word in ((("--classes", "every"), "names a"), (("--classes", "kind", *FAST), "--method"),
                          (("--classes", "none"), "none"), (("--set", "use_labels=true"), "--classes")):  # fmt: skip
        code, _, err = heatsketch("embed", "known.csv", *options, "-o", "y.npy")
        assert code == 1
        assert word in err


@pytest.mark.parametrize("encoded", [False, True])
def test_added_rows(heatsketch, encoded):
    frame = FRAME.assign(name=[f"p{i}" for i in range(60)], count=1 + np.arange(60) % 2)
    if encoded:
        frame["kind"] = ["a", "b"] * 30
    frame[:40].to_csv("first.csv", index=False)
    frame[40:].to_csv("more.csv", index=False)
    options = "--id", "name", "--weight", "count", "-q"
    category = ("--categorical", "kind") if encoded else ()
    assert heatsketch("embed", "first.csv", *options, *category, *FAST, "--save", "m.heatsketch")[0] == 0
    added = heatsketch("extend", "m.heatsketch", "more.csv", *options, "--save", "m.heatsketch", "-o", "y.csv")
    assert added == (0, "", "")
    model = hs.load_model("m.heatsketch")[-1]
    assert list(model.sample_names_) == list(frame["name"])
    table = pd.read_csv("y.csv", index_col=0)
    assert list(table.index) == list(frame["name"])
    np.testing.assert_allclose(table, model.embedding_, rtol=1e-5)
    if not encoded:
        whole = hs.GaussianProcessEmbedding(2, power=4, bandwidth=0.25, random_state=0)
        np.testing.assert_allclose(model.embedding_, whole.fit_transform(X, sample_weight=frame["count"]), rtol=1e-8)
    frame[40:].drop(columns="name").to_csv("nameless.csv", index=False)
    for command, word in (
        (("more.csv", "--save", "m.heatsketch"), "20 of the 20 rows"),
        (("more.csv", "--save", "more.csv"), "overwritten"),
        (("nameless.csv", "--save", "n"), "--id"),
    ):
        code, _, err = heatsketch("extend", "m.heatsketch", *command)
        assert code == 1
        assert word in err


def test_columns_that_are_not_written_are_not_kept_aside(heatsketch):
    heatsketch("embed", "points.csv", "--save", "m.heatsketch", *FAST)
    code, _, err = heatsketch("extend", "m.heatsketch", "points.csv", "--save", "more.heatsketch", "-o", "y.csv")
    assert code == 0
    assert "kept aside" not in err
    assert "not embedded: colour" in err
    assert "Wrote more.heatsketch and y.csv" in err
    assert list(pd.read_csv("y.csv").columns) == ["id", "gaussianprocessembedding0", "gaussianprocessembedding1"]


def test_remedies_for_new_rows_are_accepted(heatsketch):
    heatsketch("embed", "points.csv", "--save", "m.heatsketch", *FAST)
    gap = FRAME.astype({"east": object})
    gap.loc[3, "east"] = None
    gap.to_csv("gap.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "gap.csv", "-o", "y.csv")
    assert (code, "--impute" in err, "--drop-missing" in err) == (1, False, True)
    assert heatsketch("transform", "m.heatsketch", "gap.csv", "-o", "y.csv", "--drop-missing")[0] == 0
    assert len(pd.read_csv("y.csv")) == 59
    gap.assign(east="", north="").to_csv("gap.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "gap.csv", "-o", "y.csv", "--drop-missing")
    assert (code, "--drop" in err) == (1, False)
    gap.loc[3, "east"] = "far"
    gap.to_csv("gap.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "gap.csv", "-o", "y.csv")
    assert (code, "'far'" in err, "--" in err) == (1, True, False)


def test_notes_and_warnings_are_in_the_json_output(heatsketch):
    FRAME.assign(name=[f"p{i}" for i in range(60)]).to_csv("named.csv", index=False)
    coded = ("--id", "name", "--categorical", "colour")
    out = heatsketch("embed", "named.csv", *coded, "--save", "m.heatsketch", "-q", "--json", *FAST)[1]
    assert json.loads(out)["warnings"] == []
    FRAME.assign(colour="green").to_csv("green.csv", index=False)
    code, out, err = heatsketch("transform", "m.heatsketch", "green.csv", "-o", "y.csv", "-q", "--json")
    assert (code, err) == (0, "")
    (warning,) = json.loads(out)["warnings"]
    assert "'green'" in warning
    assert "no ids" in json.loads(out)["notes"][-1]
    FRAME.assign(colour="green", name=[f"q{i}" for i in range(60)]).to_csv("green.csv", index=False)
    out = heatsketch("extend", "m.heatsketch", "green.csv", "--save", "m.heatsketch", "-q", "--json")[1]
    assert any("'green'" in warning for warning in json.loads(out)["warnings"])
    assert "'name' is taken as ids" in json.loads(out)["notes"][0]


def test_rows_are_added_to_a_model_of_an_array_as_they_are(heatsketch):
    Z = X * [1.0, 1e5]
    np.save("z.npy", Z[:40])
    pd.DataFrame(Z[40:]).to_csv("z.csv", index=False, header=False)
    assert heatsketch("embed", "z.npy", *FAST, "--bandwidth", "1e9", "--save", "m.heatsketch", "-q")[0] == 0
    assert heatsketch("extend", "m.heatsketch", "z.csv", "--save", "m.heatsketch", "-q")[0] == 0
    np.testing.assert_allclose(hs.load_model("m.heatsketch").kernel_.affinity.X, Z)


@pytest.mark.parametrize("method", METHODS)
def test_methods_with_defaults(heatsketch, method):
    assert heatsketch("embed", "points.csv", "-o", "y.npy", "--method", method, "-q") == (0, "", "")
    kind = METHODS[method]
    seeded = {} if method == "diffusion-maps" else {"random_state": 0}
    np.testing.assert_array_equal(np.load("y.npy"), kind(power="auto", **seeded).fit_transform(X))


def test_options_reach_the_estimator(heatsketch):
    given = ["--normalization", "symmetric", "--n-neighbors", "all", "--metric", "minkowski", "--bandwidth", "slope"]
    given += ["-k", "5", "--seed", "7", "-p", "2", "--device", "cpu", "--set", 'metric_params={"p": 3}']
    given += ["--set", "sketch=rademacher", "--set", "n_exact=2", "--set", 'kernel_params={"diagonal": "zero"}']
    code, out, _ = heatsketch(
        "embed", "points.csv", "--save", "m.heatsketch", "--json", "--method", "gaussian-process", *given
    )
    assert code == 0
    model, said = hs.load_model("m.heatsketch")[-1], json.loads(out)
    wanted = {"normalization": "symmetric", "n_neighbors": None, "metric_params": {"p": 3}, "power": 2, "n_exact": 2}
    wanted |= {"sketch": "rademacher", "random_state": 7, "device": "cpu", "kernel_params": {"diagonal": "zero"}}
    assert {name: model.get_params()[name] for name in wanted} == wanted
    assert said["bandwidth_rule"] == "slope"
    assert (said["power"], said["components"], said["model"]) == (2, 5, "m.heatsketch")


def test_graphs_keep_their_names(heatsketch, folder):
    graph = nx.karate_club_graph()
    nx.write_graphml(graph, folder / "club.graphml")
    lines = "".join(f"v{a} v{b}\n" for a, b in graph.edges)
    with gzip.open(folder / "club.edges.gz", "wt") as file:
        file.write(lines)
    assert heatsketch("embed", "club.graphml", "-o", "y.csv", "--method", "diffusion-maps", "-p", 3, "-q")[0] == 0
    table = pd.read_csv("y.csv")
    assert table["id"].tolist() == list(range(34))
    assert set(table["club"]) == {"Mr. Hi", "Officer"}
    assert heatsketch("embed", "club.edges.gz", "-o", "e.csv", "--method", "diffusion-maps", "-p", 3, "-q")[0] == 0
    assert set(pd.read_csv("e.csv")["id"]) == {f"v{node}" for node in graph}
    code, _, err = heatsketch("embed", "club.graphml", "-o", "y.csv", "--affinity", "gaussian")
    assert code == 1
    assert "--affinity does not apply to a graph" in err


def test_transform_with_a_saved_model(heatsketch):
    assert heatsketch("embed", "points.csv", "-o", "y.csv", "--save", "m.heatsketch", "-q", *FAST)[0] == 0
    FRAME[["north", "colour", "east"]].iloc[:7].assign(more=1.0).to_csv("new.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "new.csv", "-o", "placed.csv")
    assert code == 0
    assert "7 rows" in err
    before, placed = pd.read_csv("y.csv"), pd.read_csv("placed.csv")
    np.testing.assert_allclose(placed.iloc[:, -2:], before.iloc[:7, -2:], rtol=1e-9)
    assert list(placed.columns[:3]) == ["id", "colour", "more"]
    FRAME[["north", "colour"]].to_csv("short.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "short.csv", "-o", "placed.csv")
    assert code == 1
    assert "'east'" in err
    assert len(pd.read_csv("placed.csv")) == 7


def test_pipes(folder, monkeypatch, heatsketch):
    sent = io.TextIOWrapper(io.BufferedReader(io.BytesIO(FRAME.to_csv(index=False).encode())))
    monkeypatch.setattr(sys, "stdin", sent)
    code, out, err = heatsketch("embed", "-", "--format", "csv", "-o", "-", "-q", *FAST)
    assert (code, err) == (0, "")
    assert pd.read_csv(io.StringIO(out)).shape == (60, 4)


def test_estimate(heatsketch):
    code, out, _ = heatsketch("estimate", "--shape", "1000000,50", "-k", 10, "-p", 16, "--dtype", "float32", "--json")
    assert (code, json.loads(out)["n_neighbors"]) == (0, 15)
    code, out, _ = heatsketch("estimate", "points.csv")
    assert code == 0
    assert "60" in out
    for given in ((), ("points.csv", "--shape", "3,4"), ("points.csv", "--dtype", "float32")):
        assert heatsketch("estimate", *given)[0] == 1
    assert heatsketch("estimate", "points.csv", "--seed", 1)[0] == 0
    assert "rows and columns" in heatsketch("estimate", "--shape", "a,4")[2]


def test_diagnose(heatsketch):
    code, out, _ = heatsketch("diagnose", "points.csv", "-p", 8, "--bandwidth", 0.25, "-q", "--json", "--strict")
    assert code == 0
    assert json.loads(out) == {"input": "points.csv", "harmful": False, "findings": []}
    narrow = ("diagnose", "points.csv", "-p", 8, "--bandwidth", 0.0002, "--strict", *FAST[:2])
    code, out, _ = heatsketch(*narrow)
    assert code == 3
    assert "identity" in out
    assert heatsketch("embed", "points.csv", "--save", "m.heatsketch", "-q", *FAST)[0] == 0
    code, out, _ = heatsketch("diagnose", "m.heatsketch")
    assert code == 0
    assert out


def test_datasets(heatsketch):
    code, out, _ = heatsketch("datasets")
    assert code == 0
    assert "klein_bottle" in out
    names = [one["name"] for one in json.loads(heatsketch("datasets", "--json")[1])]
    for name in names:
        assert heatsketch("datasets", name, "-o", f"{name}.csv", "-q") == (0, "", "")
    digits = pd.read_csv("digits.csv")
    assert digits.shape == (1797, 66)
    np.testing.assert_array_equal(digits["digit"], hs.datasets.digits()[1])
    circle = pd.read_csv("circle.csv", dtype=str).iloc[:, 1:].astype(float)
    np.testing.assert_array_equal(circle, hs.datasets.circle(300, random_state=0))
    assert "Did you mean 'circle'" in heatsketch("datasets", "circles", "-o", "c.csv")[2]
    assert "always 1797" in heatsketch("datasets", "digits", "-n", 5, "-o", "c.csv")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["points.csv"], "no output was given"),
        (["none.csv", "-o", "y.csv"], "none.csv"),
        (["points.csv", "-o", "y.xlsx"], "y.xlsx"),
        (["points.csv", "-o", "no/y.csv"], "no directory"),
        (["points.csv", "-o", "y.h5ad"], "h5ad"),
        (["points.csv", "-o", "-", "--json"], "both write to standard output"),
        (["points.csv", "-o", "y.csv", "--set", "solver=dense"], "solver does not apply"),
        (["points.csv", "-o", "y.csv", "--set", "n_neighbours=9"], "Did you mean 'n_neighbors'?"),
        (["point.csv", "-o", "y.csv"], "Did you mean 'points.csv'?"),
        (["points.csv", "-o", "y.csv", "--id", "colour", "--label", "colour"], "both --id and --label"),
        (["points.csv", "-o", "y.csv", "--set", "dense"], "NAME=VALUE"),
        (["points.csv", "-o", "y.csv", "--power", "best"], "-p best"),
        (["points.csv", "-o", "y.csv", "-k", "two"], "-k two was given"),
        (["points.csv", "-o", "y.csv", "-k", "auto"], "--method gaussian-process"),
        (["points.csv", "-o", "y.csv", "--n-neighbors", "few"], "must be all for every pair"),
        (["points.csv", "-o", "y.csv", "--label", "color"], "no column 'color'"),
        (["points.csv", "-o", "y.csv", "--bandwidth", "1e-12"], "bandwidth"),
    ],
)
def test_errors_have_a_message_and_leave_no_file(heatsketch, folder, arguments, words):
    code, out, err = heatsketch("embed", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(("Error: ", "points.csv: "))
    assert words in err
    assert os.listdir(folder) == ["points.csv"]  # noqa: PTH208


@pytest.mark.parametrize(("number", "advice"), [(errno.ENOSPC, "free space"), (errno.EROFS, "name another file")])
def test_errors_of_the_disk_have_their_own_advice(heatsketch, monkeypatch, number, advice):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("pathlib.Path.replace", fail)
    code, _, err = heatsketch("embed", "points.csv", "-o", "y.csv", "-q", *FAST)
    assert (code, advice in err, "free space" in err) == (1, True, number == errno.ENOSPC)


def test_wrong_usage_exits_with_2(heatsketch):
    assert heatsketch("embed", "points.csv", "--colour", "red")[0] == 2
    assert heatsketch("embed", "points.csv", "-o", "y.csv", "--method", "umap")[0] == 2
    code, _, err = heatsketch("embed", "points.csv", "-o", "y.csv", "--impute", "mean")
    assert code == 2
    assert "'mean' was given; use median" in err
    assert heatsketch("embed")[0] == 2
    assert heatsketch("transform", "m.heatsketch", "points.csv")[0] == 2
    assert heatsketch("nonsense")[0] == 2


def test_warnings_have_no_code_location(heatsketch):
    few = ("embed", "points.csv", "-o", "y.csv", *FAST, "--set", 'kernel_params={"max_iter": 2}')
    code, _, err = heatsketch(*few)
    assert code == 0
    assert "Warning: " in err
    assert ".py:" not in err
    assert heatsketch(*few, "-q") == (0, "", "")


def test_traceback_on_request(folder, monkeypatch):
    monkeypatch.setenv("HEATSKETCH_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no output"):
        main(["embed", "points.csv"])


def test_interrupt_exits_with_130_and_leaves_no_file(heatsketch, folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for where in ("heatsketch.GaussianProcessEmbedding.fit", "pandas.DataFrame.to_csv"):
        with monkeypatch.context() as patch:
            patch.setattr(where, interrupt)
            code, out, err = heatsketch("embed", "points.csv", "-o", "y.csv", "-q", *FAST)
        assert (code, out, err) == (130, "", "")
        assert [path.name for path in folder.iterdir()] == ["points.csv"]


def test_closed_pipe_has_no_traceback(folder):
    command = f"{sys.executable} -m heatsketch datasets digits -o - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("id,digit,pixel0")
    assert "Traceback" not in done.stderr


def test_help_imports_no_numerical_library():
    code = """
import sys
from heatsketch.cli import main
try:
    main(["embed", "--help"])
except SystemExit:
    print("imported:", *{"sklearn", "scipy", "numpy", "pandas", "psutil"} & set(sys.modules))
"""
    assert run_code(code).stdout.splitlines()[-1].split() == ["imported:"]


def test_report_of_embed(heatsketch, folder):
    code, _, err = heatsketch("embed", "points.csv", "--report", "page.html", "--title", "A <b>circle</b>", *FAST)
    assert code == 0
    assert "Wrote page.html" in err
    assert err.endswith("Open page.html in a browser.")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "A &lt;b&gt;circle" in page
    assert "A <b>circle" not in page
    assert "heatsketch embed points.csv" in page  # the call that repeats it


def _offered(page):
    """Names of the columns that a page can be coloured by; it opens with the first."""
    (packed,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    data = gzip.decompress(base64.b85decode(packed.replace(":", "<")))
    columns = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])["columns"]
    return [column["name"] for column in columns]


def test_page_is_coloured_by_the_first_label(heatsketch, folder):
    FRAME.assign(kind="a", size=np.arange(60) % 5).to_csv("kinds.csv", index=False)
    given = ("--label", "size", "--label", "kind", "-q")
    heatsketch("embed", "kinds.csv", *given, "--report", "page.html", "--save", "m.heatsketch", *FAST)
    assert _offered(folder / "page.html") == ["size", "kind", "colour", "east", "north"]
    heatsketch("report", "m.heatsketch", "--data", "kinds.csv", "--label", "kind", "-o", "other.html", "-q")
    assert _offered(folder / "other.html")[0] == "kind"


def test_report_of_a_saved_model(heatsketch, folder):
    assert heatsketch("embed", "points.csv", "--save", "m.heatsketch", "-q", *FAST)[0] == 0
    code, out, _ = heatsketch("report", "m.heatsketch", "--data", "points.csv", "-o", "page.html", "--json")
    assert code == 0
    assert json.loads(out) == {"model": "m.heatsketch", "report": "page.html"}
    assert "colour" in (folder / "page.html").read_text(encoding="utf-8")
    FRAME[:9].to_csv("few.csv", index=False)
    code, _, err = heatsketch("report", "m.heatsketch", "--data", "few.csv", "-o", "other.html")
    assert code == 1
    assert "9 rows" in err
    assert not (folder / "other.html").exists()


def test_compare(heatsketch, folder):
    given = ("compare", "points.csv", "-k", 2, "-p", 4, "--bandwidth", 0.25, "--label", "colour")
    code, out, err = heatsketch(*given, "-o", "three.png")
    assert code == 0
    assert "Wrote three.png" in err
    assert (folder / "three.png").read_bytes().startswith(b"\x89PNG")
    for name in ESTIMATORS:
        assert name in out
    code, out, _ = heatsketch(*given, "--json", "-q")
    said = json.loads(out)
    assert code == 0
    wanted = hs.compare_embeddings(X, 2, power=4, bandwidth=0.25, random_state=0)
    for one in said["methods"]:
        assert one["log_distortion"] == pytest.approx(wanted[one["method"]].log_distortion)
    code, _, err = heatsketch(*given, "-o", "three.doc")
    assert code == 1
    assert "png" in err


def test_vertices_are_matched_by_name(heatsketch, folder):
    graph = nx.karate_club_graph()
    lines = [f"v{a} v{b} {w}\n" for a, b, w in graph.edges(data="weight")]
    (folder / "club.edges").write_text("".join(lines))
    (folder / "turned.edges").write_text("".join(reversed(lines)))
    given = ("--method", "diffusion-maps", "-p", 3, "-q")
    assert heatsketch("embed", "club.edges", "-o", "y.csv", "--save", "m.heatsketch", *given)[0] == 0
    assert heatsketch("transform", "m.heatsketch", "turned.edges", "-o", "z.csv", "-q") == (0, "", "")
    first, second = (pd.read_csv(name).set_index("id") for name in ("y.csv", "z.csv"))
    np.testing.assert_allclose(second.loc[first.index], first, atol=1e-12)
    (folder / "new.edges").write_text("guest v0 3\nguest v1 2\n")
    assert heatsketch("transform", "m.heatsketch", "new.edges", "-o", "n.csv", "-q")[0] == 0
    placed = pd.read_csv("n.csv").set_index("id")
    np.testing.assert_allclose(placed.loc[["v0", "v1"]], first.loc[["v0", "v1"]], atol=1e-12)
    apart = np.linalg.norm(first - placed.loc["guest"], axis=1)
    assert first.index[apart.argmin()] in {f"v{n}" for n in (0, 1, *graph[0], *graph[1])}
    (folder / "lost.edges").write_text("guest v0 3\nother guest 1\n")
    assert heatsketch("transform", "m.heatsketch", "lost.edges", "-o", "n.csv", "-q")[0] == 1


def test_columns_without_names_are_taken_in_order(heatsketch):
    assert heatsketch("embed", "points.csv", "-o", "y.csv", "--save", "m.heatsketch", "-q", *FAST)[0] == 0
    np.save("new.npy", X[:5])
    code, _, err = heatsketch("transform", "m.heatsketch", "new.npy", "-o", "z.npy")
    assert code == 0
    assert "Warning: X does not have valid feature names" in err
    np.testing.assert_allclose(np.load("z.npy"), pd.read_csv("y.csv").iloc[:5, -2:], rtol=1e-9)
    np.save("wide.npy", np.ones((4, 3)))
    assert "3 columns" in heatsketch("transform", "m.heatsketch", "wide.npy", "-o", "z.npy")[2]


def test_input_is_not_overwritten(heatsketch, folder):
    before = (folder / "points.csv").read_bytes()
    for given in (("-o", "points.csv"), ("-o", "y.csv", "--save", "points.csv"), ("--report", "./points.csv")):
        code, _, err = heatsketch("embed", "points.csv", *given, *FAST)
        assert code == 1
        assert "points.csv is the input" in err
    assert (folder / "points.csv").read_bytes() == before


def test_outputs_repeat_to_the_byte(heatsketch, folder, monkeypatch):
    given = ("-o", "y.csv.gz", "--save", "m.heatsketch", "--report", "page.html", "-q", *FAST)
    written = []
    for moment in (10**9, 2 * 10**9):
        monkeypatch.setattr("time.localtime", lambda *_, moment=moment: time.gmtime(moment))
        heatsketch("embed", "points.csv", *given)
        written.append([(folder / name).read_bytes() for name in ("y.csv.gz", "m.heatsketch", "page.html")])
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["embed", "points.csv", "--save", "p.html", "--report", "./p.html"], "two outputs have the name"),
        (["embed", "points.csv", "-o", "y.csv", "--n-neighbors", "0"], "--n-neighbors 0 was given"),
        (["embed", "g.edges", "-o", "y.csv", "--metric", "cosine"], "--metric does not apply to a graph"),
        (["report", "m.heatsketch", "-o", "p.html", "--label", "x"], "--label needs --data"),
        (["diagnose", "m.heatsketch", "--label", "x"], "label does not apply to a saved model"),
        (["datasets", "circle", "-o", "-", "--json"], "both write to standard output"),
        (["report", "points.csv", "-o", "p.html"], "`heatsketch embed points.csv --report p.html`"),
        (["transform", "points.csv", "m.heatsketch", "-o", "y.csv"], "MODEL comes first"),
        (["transform", "m.heatsketch", "points.csv", "-o", "y.csv"], "m.heatsketch does not exist"),
    ],
)
def test_options_that_do_not_apply_raise(heatsketch, folder, arguments, words):
    (folder / "g.edges").write_text("a b\nb c\n")
    code, _, err = heatsketch(*arguments)
    assert code == 1
    assert words in err


def test_square_matrix_is_taken_as_points(heatsketch, folder):
    np.save("square.npy", np.exp(-np.abs(np.subtract.outer(X[:, 0], X[:, 0]))))
    assert "its rows are taken as points" in heatsketch("embed", "square.npy", "-o", "y.npy", *FAST)[2]
    np.save("apart.npy", np.abs(np.subtract.outer(X[:, 0], X[:, 0])))
    said = heatsketch("embed", "apart.npy", "-o", "y.npy", *FAST)[2]
    assert "looks like a matrix of distances" in said
    assert "--metric precomputed" in said
    given = ("--affinity", "precomputed", "--method", "diffusion-maps", "-p", 2)
    assert "taken as points" not in heatsketch("embed", "square.npy", "-o", "y.npy", *given)[2]


def test_table_of_every_kind_of_column(heatsketch):
    rng, n = np.random.default_rng(0), 90
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "id": [f"{i:03}" for i in range(n)],
            "income": 4e4 + 2e4 * group + rng.normal(size=n),
            "visits": rng.integers(0, 9, n),
            "member": rng.random(n) < 0.5,
            "pet": np.array(["cat", "dog", "eel"])[group],
            "since": pd.date_range("2026-01-01", periods=n),
            "price": [f"{1000 + i:,}" for i in range(n)],
            "comment": [f"no. {i}" for i in range(n)],
            "class": group,
        }
    )
    frame.loc[5, "income"] = np.nan
    frame.to_csv("mixed.csv", index=False)
    code, _, err = heatsketch("embed", "mixed.csv", "-o", "y.csv", *FAST)
    assert code == 1
    assert "'income'" in err
    assert "--impute median" in err
    given = [
        "--id",
        "id",
        "--label",
        "class",
        "--categorical",
        "pet",
        "--dates",
        "number",
        "--method",
        "diffusion-maps",
    ]
    code, _, err = heatsketch("embed", "mixed.csv", "-o", "y.csv", "--save", "m.heatsketch", "--drop-missing", *given)
    assert code == 0
    assert "embedding 6 columns: income, visits, member, pet, since, price (standardised" in err
    assert "kept aside: comment, class" in err
    table = pd.read_csv("y.csv", dtype=str)
    kept = frame.drop(index=5)
    assert table["id"].tolist() == kept["id"].tolist()
    assert table["class"].tolist() == kept["class"].astype(str).tolist()
    model = hs.load_model("m.heatsketch")
    np.testing.assert_allclose(model.transform(kept), table.iloc[:, -2:].astype(float), atol=1e-9)
    kept[kept.columns[::-1]].assign(pet="newt").to_csv("new.csv", index=False)
    code, _, err = heatsketch("transform", "m.heatsketch", "new.csv", "-o", "z.csv", "--id", "id")
    assert code == 0
    assert "'newt'" in err
    assert pd.read_csv("z.csv", dtype=str)["id"].tolist() == kept["id"].tolist()
    code, _, err = heatsketch("transform", "m.heatsketch", "new.csv", "-o", "z.csv", "--standardize")
    assert (code, "--standardize" in err) == (1, True)
    for command in (["diagnose", "m.heatsketch"], ["estimate", "mixed.csv", "--impute", "median"]):
        assert heatsketch(*command)[0] == 0
    assert heatsketch("report", "m.heatsketch", "--data", "mixed.csv", "--drop-missing", "-o", "p.html")[0] == 0


def test_new_rows_have_the_ids_and_fills_of_the_fit(heatsketch):
    frame = FRAME.assign(customer=[f"k{i}" for i in range(60)])
    frame.loc[3, "east"] = np.nan
    frame.loc[:5, "colour"] = None
    frame.to_csv("customers.csv", index=False)
    given = ("--id", "customer", "--categorical", "colour", "--impute", "median")
    err = heatsketch("embed", "customers.csv", *given, "-o", "y.csv", "--save", "m.heatsketch", *FAST)[2]
    filled = f"east (1 by the median, {frame['east'].median():g}), colour (6 by the most frequent value, "
    assert filled in err
    code, _, err = heatsketch("transform", "m.heatsketch", "customers.csv", "-o", "z.csv")
    assert code == 0
    assert filled in err
    for name in ("y.csv", "z.csv"):
        table = pd.read_csv(name)
        assert list(table.columns[:2]) == ["customer", "gaussianprocessembedding0"]
        assert table["customer"].tolist() == frame["customer"].tolist()
    frame.drop(columns="customer").to_csv("nameless.csv", index=False)
    assert heatsketch("transform", "m.heatsketch", "nameless.csv", "-o", "z.csv")[0] == 0
    assert pd.read_csv("z.csv")["id"].tolist() == list(range(60))
    assert heatsketch("transform", "m.heatsketch", "customers.csv", "--label", "customer", "-o", "z.csv")[0] == 0
    assert list(pd.read_csv("z.csv").columns[:2]) == ["id", "customer"]


def test_repeated_ids_are_noted(heatsketch):
    err = heatsketch("embed", "points.csv", "--id", "colour", "-o", "y.csv", *FAST)[2]
    assert "some ids occur more than once" in err
    assert "--label colour" in err


@pytest.fixture
def cells(folder):
    """Cells of 60 genes in raw.h5ad, with components in pca.h5ad, and others in new.h5ad."""
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * 30)}, index=[f"c{i}" for i in range(60)])
    made = anndata.AnnData(rng.poisson(2.0, (60, 60)).astype(np.float32), obs=obs)
    made.write_h5ad("raw.h5ad")
    made.obsm["X_pca"] = rng.normal(size=(60, 8))
    made.write_h5ad("pca.h5ad")
    made[:9].write_h5ad("new.h5ad")
    return made


def test_representation_of_new_cells_is_named(heatsketch, cells):
    err = heatsketch("embed", "pca.h5ad", "-o", "y.csv", "--save", "m.heatsketch", *FAST[:4])[2]
    assert "obsm['X_pca'] is embedded" in err
    for command in (("transform", "-o", "z.npy"), ("extend", "--save", "n.heatsketch")):
        code, _, err = heatsketch(command[0], "m.heatsketch", "new.h5ad", *command[1:])
        assert code == 1
        assert "'X_pca'; use --key X_pca, if new.h5ad has it in the same space" in err
        assert "heatsketch.scanpy.place_cells" in err
    assert heatsketch("transform", "m.heatsketch", "new.h5ad", "--key", "X_pca", "-o", "z.npy")[0] == 0
    np.testing.assert_allclose(np.load("z.npy"), pd.read_csv("y.csv").iloc[:9, -2:], rtol=1e-9)
    hs.save_model(hs.DiffusionMaps(2).fit(cells.obsm["X_pca"]), "python.heatsketch")  # does not say what was embedded
    assert "with --key, if" in heatsketch("transform", "python.heatsketch", "new.h5ad", "-o", "z.npy")[2]
    err = heatsketch("transform", "python.heatsketch", "raw.h5ad", "--key", "X", "-o", "z.npy")[2]
    assert "60 columns, and python.heatsketch was fitted to 8" in err
    assert "--key" in err


def test_counts_are_embedded_on_request_only(heatsketch, cells):
    code, _, err = heatsketch("embed", "raw.h5ad", "-o", "y.npy", *FAST[:4])
    assert code == 1
    for word in ("60 genes", "sc.pp.normalize_total", "sc.pp.log1p", "sc.pp.pca", "--key X"):
        assert word in err
    assert heatsketch("embed", "raw.h5ad", "--key", "X", "-o", "y.npy", "-q", *FAST[:4])[0] == 0
    cells.X[:, 0] *= 1e4
    cells.write_h5ad("raw.h5ad")
    code, out, _ = heatsketch("diagnose", "raw.h5ad", "--key", "X", *FAST[:4])
    assert "very different scales" in out
    assert "--standardize" not in out


@pytest.mark.parametrize(
    ("params", "embedded"),
    [
        ({"use_rep": "X_pca_harmony"}, "obsm['X_pca_harmony'] is embedded, as in uns['neighbors']"),
        ({"n_pcs": 5}, "obsm['X_pca'][:, :5] is embedded, as in uns['neighbors']"),
        ({"metric": "cosine"}, "obsm['X_pca'] with the metric cosine is embedded, as in uns['neighbors']"),
        ({"method": "another"}, "the graph of uns['neighbors'] is embedded"),
    ],
)
def test_cells_are_embedded_as_in_python(heatsketch, cells, params, embedded):
    cells.obsm["X_pca_harmony"] = cells.obsm["X_pca"][:, ::-1] ** 3
    cells.uns["neighbors"] = {"params": {"method": "umap", "n_neighbors": 15} | params}
    distance = np.linalg.norm(cells.obsm["X_pca"][:, None] - cells.obsm["X_pca"], axis=2)
    cells.obsp["connectivities"] = sparse.csr_array(np.exp(-(distance**2)) * (distance < 3))
    cells.write_h5ad("cells.h5ad")
    code, _, err = heatsketch("embed", "cells.h5ad", "-o", "y.npy", "--method", "diffusion-maps")
    assert code == 0
    assert embedded in err
    hs.scanpy.heat_sketch(cells, method="diffusion-maps", diagnose=False)
    np.testing.assert_allclose(np.load("y.npy"), cells.obsm["X_heatsketch"], rtol=1e-6)


def test_parameters_of_the_metric_are_those_of_the_neighbours(heatsketch, cells):
    cells.uns["neighbors"] = {"params": {"method": "umap", "metric": "minkowski", "metric_kwds": {"p": 1}}}
    cells.write_h5ad("cells.h5ad")
    err = heatsketch("embed", "cells.h5ad", "-o", "y.npy", "--save", "m.heatsketch", "--method", "diffusion-maps")[2]
    assert "with the metric minkowski {'p': 1} is embedded" in err
    np.testing.assert_allclose(np.load("y.npy"), _maps(cells.obsm["X_pca"], metric="manhattan"), rtol=1e-6)
    assert hs.load_model("m.heatsketch").metric_params == {"p": 1}
    options = ("--method", "diffusion-maps", "--metric", "cosine")
    assert heatsketch("embed", "cells.h5ad", "-o", "y.npy", *options)[0] == 0
    np.testing.assert_allclose(np.load("y.npy"), _maps(cells.obsm["X_pca"], metric="cosine"), rtol=1e-6)


def _maps(X, **options):
    return hs.DiffusionMaps(2, **options).fit_transform(X)


def test_model_remembers_what_was_embedded(heatsketch, cells):
    cells.obsm["X_pca_harmony"] = cells.obsm["X_pca"][:, ::-1].copy()
    cells.uns["neighbors"] = {"params": {"method": "umap", "use_rep": "X_pca_harmony", "n_pcs": 5}}
    cells.write_h5ad("cells.h5ad")
    heatsketch("embed", "cells.h5ad", "-o", "y.npy", "--save", "m.heatsketch", *FAST[:4])
    for model in ("m.heatsketch", "more.heatsketch"):
        new = ("transform", model, "cells.h5ad", "-o", "z.npy")
        code, _, err = heatsketch(*new)
        assert code == 1
        assert f"{model} was fitted to 'X_pca_harmony'; use --key X_pca_harmony" in err
        code, _, err = heatsketch(*new, "--key", "X_pca")
        assert code == 1
        assert "--key X_pca is another space; use --key X_pca_harmony" in err
        assert heatsketch(*new, "--key", "X_pca_harmony")[0] == 0
        if model == "m.heatsketch":
            np.testing.assert_allclose(np.load("z.npy"), np.load("y.npy"), rtol=1e-6)
            more = ("--key", "X_pca_harmony", "--save", "more.heatsketch")
            assert "60 of the 60 rows" in heatsketch("extend", "m.heatsketch", "cells.h5ad", *more)[2]
            cells.obs_names = [f"new {name}" for name in cells.obs_names]
            cells.write_h5ad("others.h5ad")
            assert heatsketch("extend", "m.heatsketch", "others.h5ad", *more)[0] == 0


def test_model_of_a_graph_takes_no_new_cells(heatsketch, cells):
    cells.uns["neighbors"] = {"params": {"method": "another"}}
    cells.obsp["connectivities"] = sparse.csr_array(
        np.exp(-((cells.obsm["X_pca"][:, None] - cells.obsm["X_pca"]) ** 2).mean(axis=2))
    )
    cells.write_h5ad("cells.h5ad")
    heatsketch("embed", "cells.h5ad", "--save", "m.heatsketch", "--method", "diffusion-maps", "-p", "2")
    code, _, err = heatsketch("transform", "m.heatsketch", "cells.h5ad", "--key", "X_pca", "-o", "z.npy")
    assert code == 1
    assert "fitted to the graph of uns['neighbors']" in err


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), {}),
        (("--key", "X", "--weight", "size"), {"use_rep": "X", "weights_key": "size"}),
        (
            ("-k", 3, "--n-neighbors", "all", "--bandwidth", 20),
            {"n_components": 3, "n_neighbors": None, "bandwidth": 20},
        ),
        (("--set", "neighbor_weight=0.5", "--seed", 7), {"neighbor_weight": 0.5, "random_state": 7}),
        (("--method", "diffusion-maps", "--metric", "cosine"), {"method": "diffusion-maps", "metric": "cosine"}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # random points are not easy to embed
def test_cells_get_the_record_of_python(heatsketch, cells, options, given):
    cells.obs["size"] = 1 + np.arange(60) % 3
    hs.scanpy.heat_sketch(cells, 5, use_rep="X")  # of which nothing is left
    cells.write_h5ad("cells.h5ad")
    assert heatsketch("embed", "cells.h5ad", "-o", "cells.h5ad", *options)[0] == 0
    expected = hs.scanpy.heat_sketch(cells, **{"use_rep": "X_pca"} | given, copy=True)
    found = pytest.importorskip("anndata").read_h5ad("cells.h5ad")
    np.testing.assert_allclose(found.obsm["X_heatsketch"], expected.obsm["X_heatsketch"], rtol=1e-6)
    np.testing.assert_array_equal(found.obs["heatsketch_trust"], expected.obs["heatsketch_trust"])
    record, other = found.uns["heatsketch"], expected.uns["heatsketch"]
    assert record.keys() == other.keys()
    assert record["params"] == other["params"]
    for name in {"coefficients", "layout"} & record.keys():
        kept, expected = (one[name] if name == "layout" else {name: one[name]} for one in (record, other))
        for part, values in expected.items():
            np.testing.assert_allclose(kept[part], values, rtol=1e-6)
    np.testing.assert_array_equal(hs.scanpy.model(found).embedding_, found.obsm["X_heatsketch"])
    if given.get("use_rep") == "X":  # for others there are no loadings
        new = found[:9].copy()
        hs.scanpy.place_cells(new, found)
        np.testing.assert_allclose(new.obsm["X_heatsketch"], found.obsm["X_heatsketch"][:9], atol=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_placed_cells_have_no_record(heatsketch, cells):
    hs.scanpy.heat_sketch(cells, 3, use_rep="X_pca")
    cells.write_h5ad("cells.h5ad")
    heatsketch("embed", "cells.h5ad", "--save", "m.heatsketch", *FAST[:4])
    assert heatsketch("transform", "m.heatsketch", "cells.h5ad", "--key", "X_pca", "-o", "cells.h5ad")[0] == 0
    found = pytest.importorskip("anndata").read_h5ad("cells.h5ad")
    assert found.obsm["X_heatsketch"].shape == (60, 2)
    assert "heatsketch" not in found.uns
    assert "heatsketch_trust" not in found.obs
    code, _, err = heatsketch("embed", "cells.h5ad", "--key", "X_heatsketch", "-o", "y.npy")
    assert code == 1
    assert "'X_heatsketch' is an embedding by heatsketch" in err


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classes_of_cells_are_not_repeated(heatsketch, cells):
    cells.obs["known"] = pd.Categorical(np.where(np.arange(60) < 20, cells.obs["kind"], None))
    cells.write_h5ad("cells.h5ad")
    assert heatsketch("embed", "cells.h5ad", "-o", "cells.h5ad", "--classes", "known")[0] == 0
    with pytest.raises(ValueError, match="--classes"):
        hs.scanpy.model(pytest.importorskip("anndata").read_h5ad("cells.h5ad"))


def test_model_of_a_frame_is_not_standardised(heatsketch):
    wide = FRAME.assign(east=1000 * FRAME["east"])
    wide.to_csv("wide.csv", index=False)
    model = hs.DiffusionMaps(2).fit(wide[["east", "north"]])
    hs.save_model(model, "m.heatsketch")
    assert heatsketch("transform", "m.heatsketch", "wide.csv", "-o", "z.npy")[0] == 0
    np.testing.assert_allclose(np.load("z.npy"), model.embedding_, atol=1e-9)


def test_units_of_an_array_are_noted(heatsketch):
    np.save("x.npy", X * [1000.0, 1.0] + 5000.0)
    code, _, err = heatsketch("embed", "x.npy", "-o", "y.npy", *FAST[:4])
    assert code == 0
    assert "not standardised" in err
    np.save("x.npy", X)
    assert "not standardised" not in heatsketch("embed", "x.npy", "-o", "y.npy", *FAST[:4])[2]


def test_estimate_takes_the_parameters_of_the_estimator(heatsketch):
    plain = json.loads(heatsketch("estimate", "points.csv", "--json")[1])
    given = ["--set", "neighbor_weight=0.5", "--set", 'kernel_params={"tol": 1e-6}', "--set", "metric=euclidean"]
    code, out, _ = heatsketch("estimate", "points.csv", "--json", *given)
    assert code == 0
    assert json.loads(out)["memory"] == plain["memory"]
    code, _, err = heatsketch("estimate", "points.csv", "--method", "gaussian-process", "--set", "n_exact=8")
    assert code == 0
    assert "n_exact" in err
    for name, method in (("neighbor_wieght", "heatsketch"), ("neighbor_weight", "diffusion-maps")):
        code, _, err = heatsketch("estimate", "--shape", "1000,5", "--method", method, "--set", f"{name}=0.5")
        assert code == 1
        assert name in err
    assert "neighbor_weight" in heatsketch("estimate", "points.csv", "--set", "neighbor_wieght=0.5")[2]
