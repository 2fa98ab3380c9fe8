"""Files in: every format, what becomes of columns, and errors that name the place."""

from __future__ import annotations

import gzip
import io
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

from heatsketch.io import FORMATS, Reading, read
from heatsketch.io.writers import check_output, write

X = np.arange(12.0).reshape(4, 3) / 7.0
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=list("uvuv"), age=[3, 1, 4, 1])
TABLES = ["t.csv", "t.tsv", "t.parquet", "t.csv.gz", "t.tsv.gz"]


def _table(path, frame=FRAME):
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep="\t" if name.endswith(".tsv") else ",", index=False)
    return path


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_told_apart_by_columns(tmp_path, name):
    data = read(_table(tmp_path / name), Reading(labels=["age"]))
    np.testing.assert_array_equal(data.X, X)
    assert data.features == ["a", "b", "c"]
    assert list(data.columns) == ["kind", "age"]
    assert data.columns["kind"].tolist() == list("uvuv")
    assert data.names is None
    assert data.notes == [f"{tmp_path / name}: columns of words are kept aside: kind"]
    assert list(data.points.columns) == data.features


@pytest.mark.parametrize(
    ("reading", "features", "aside", "names"),
    [
        (Reading(), ["a", "b", "c", "age"], ["kind"], None),
        (Reading(id="kind"), ["a", "b", "c", "age"], [], list("uvuv")),
        (Reading(drop=["b", "kind"]), ["a", "c", "age"], [], None),
        (Reading(only=["b", "a"]), ["b", "a"], ["c", "kind", "age"], None),
        (Reading(id="age", labels=["c"]), ["a", "b"], ["c", "kind"], list("3141")),
    ],
)
def test_columns_have_the_roles_that_they_are_given(tmp_path, reading, features, aside, names):
    data = read(_table(tmp_path / "t.csv"), reading)
    assert data.features == features
    assert list(data.columns) == aside
    assert names is None if data.names is None else data.names.tolist() == names
    np.testing.assert_array_equal(data.X, FRAME[features])


def test_ids_are_recognised(tmp_path):
    FRAME.set_index(pd.Index(list("wxyz"))).to_csv(tmp_path / "index.csv")
    data = read(tmp_path / "index.csv")
    assert data.names.tolist() == list("wxyz")
    assert "the unnamed first column is taken as ids" in data.notes[0]
    FRAME.set_index(pd.Index([7, 7, 8, 9], name="ID")).to_csv(tmp_path / "id.csv")
    data = read(tmp_path / "id.csv")
    assert data.names.tolist() == ["7", "7", "8", "9"]
    assert "some ids occur more than once" in data.notes[-1]
    FRAME.set_index(pd.Index(list("wxyz"), name="cell")).to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", Reading(id="cell")).names.tolist() == list("wxyz")


def test_a_first_line_of_numbers_is_data(tmp_path):
    np.savetxt(tmp_path / "t.csv", X, delimiter=",")
    data = read(tmp_path / "t.csv")
    np.testing.assert_allclose(data.X, X)
    assert data.features == ["x0", "x1", "x2"]
    assert "the first line holds numbers" in data.notes[0]
    pd.DataFrame(X).to_csv(tmp_path / "t.csv", index=False)  # whose names are 0, 1, 2
    np.testing.assert_array_equal(read(tmp_path / "t.csv").X, X)


def test_separators(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, sep=";", index=False)
    with pytest.raises(ValueError, match="looks like several; name what is between the columns with --separator"):
        read(path)
    for name in ("semicolon", ";"):
        np.testing.assert_array_equal(read(path, Reading(separator=name, labels=["age"])).X, X)
    FRAME.to_csv(path, sep=" ", index=False)
    assert read(path, Reading(separator="space", labels=["age"])).X.shape == (4, 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,,3,u,4", r"row 5, column 'b' holds a missing value; every value must be a finite number"),
        ("1,inf,3,u,4", r"row 5, column 'b' holds the value inf"),
        ("1,2,?,u,4", r"row 5, column 'c' holds '\?', which is no number; .* --label 'c', .* --drop 'c'"),
        ("nan,,3,u,4", r"row 5, column 'a' holds a missing value, the first of 2 such values"),
    ],
)
def test_missing_values_are_named_by_row_and_column(tmp_path, line, words):
    path = _table(tmp_path / "t.csv")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=words):
        read(path)
    named = words.replace("row 5", r"row 5 \(u\)")
    with pytest.raises(ValueError, match=named):
        read(path, Reading(id="kind"))


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (Reading(id="ag"), "no column 'ag'; there are: 'a', 'b', 'c', 'kind', 'age'. Did you mean 'age'?"),
        (Reading(only=["kind"]), "column 'kind' holds 'u', which is no number"),
        (Reading(drop=["a", "b", "c", "age"]), "no column holds numbers"),
        (Reading(format="xls"), "format 'xls' is not known; use one of csv"),
    ],
)
def test_readings_that_do_not_fit_are_refused(tmp_path, reading, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        read(_table(tmp_path / "t.csv"), reading)


def test_a_column_has_one_role():
    with pytest.raises(ValueError, match="column 'a' was given to --id and to --drop"):
        Reading(id="a", drop=["a"])


@pytest.mark.parametrize("name", ["x.npy", "x.npy.gz", "x.npz", "x.mtx", "x.mtx.gz", "sparse.mtx", "sparse.npz"])
def test_arrays(tmp_path, name):
    path, plain = tmp_path / name, tmp_path / name.removesuffix(".gz")
    if name.startswith("sparse"):
        held = sparse.csr_array(X)
        mmwrite(plain, held) if name.endswith(".mtx") else sparse.save_npz(plain, held)
    elif ".npy" in name:
        np.save(plain, X)
    elif ".npz" in name:
        np.savez(plain, X=X, digit=np.arange(4), words=np.array(list("abcd")), other=np.arange(3))
    else:
        mmwrite(plain, X)
    if path != plain:
        path.write_bytes(gzip.compress(plain.read_bytes()))
    data = read(path)
    found = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    np.testing.assert_allclose(found, X, rtol=1e-15)
    assert sparse.issparse(data.X) == name.startswith("sparse")
    assert list(data.columns) == (["digit", "words"] if name == "x.npz" else [])


def test_archives_of_several_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", first=X, second=2 * X, names=np.array(list("abcd")))
    with pytest.raises(ValueError, match=r"2 matrices \(first, second\); name the one to embed with --key"):
        read(tmp_path / "x.npz")
    data = read(tmp_path / "x.npz", Reading(key="second", id="names"))
    np.testing.assert_array_equal(data.X, 2 * X)
    assert data.names.tolist() == list("abcd")
    with pytest.raises(ValueError, match="no vector of as many rows 'age'"):
        read(tmp_path / "x.npz", Reading(key="second", labels=["age"]))


def test_a_large_array_is_mapped_rather_than_read(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert isinstance(read(tmp_path / "x.npy").X, np.memmap)


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        ("a b\nb c\n", [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        ("# edges\na,b,2\nb,c,0.5\n", [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]),
        ("source\ttarget\tweight\na\tb\t2\nb\tc\t3\n", [[0, 2, 0], [2, 0, 3], [0, 3, 0]]),
        ("a b 2\nb a 2\nb c 3\n", [[0, 2, 0], [2, 0, 3], [0, 3, 0]]),
        ("a b 2\na b 1\nb c 3\nc c 1\n", [[0, 3, 0], [3, 0, 3], [0, 3, 1]]),
    ],
)
def test_edges(tmp_path, lines, weights):
    (tmp_path / "g.edges").write_text(lines)
    data = read(tmp_path / "g.edges")
    assert data.is_graph
    assert data.names.tolist() == list("abc")
    np.testing.assert_array_equal(data.X.toarray(), weights)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("a b 2\nb a 3\n", "weight from 'a' to 'b' is 2 and back 3; the heat kernel needs an undirected graph"),
        ("a b 2\nb c\n", "edge 2 is 'b c'; each line must hold two vertices"),
        ("a b 2\nb c x\n", "edge 2, from 'b' to 'c', has the weight 'x'"),
        ("# nothing\n", "holds no edges"),
    ],
)
def test_edges_that_do_not_fit_are_refused(tmp_path, lines, words):
    (tmp_path / "g.edges").write_text(lines)
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "g.edges")


@pytest.mark.parametrize("ending", ["graphml", "graphml.gz"])
def test_graphml(tmp_path, ending):
    graph = nx.karate_club_graph()
    nx.write_graphml(graph, tmp_path / f"g.{ending}")
    data = read(tmp_path / f"g.{ending}")
    assert data.names.tolist() == [str(node) for node in graph]
    np.testing.assert_array_equal(data.X.toarray(), nx.to_numpy_array(graph))
    assert list(data.columns["club"]) == [graph.nodes[node]["club"] for node in graph]
    nx.write_graphml(graph.to_directed(), tmp_path / "d.graphml")
    with pytest.raises(ValueError, match="DiGraph was given; the heat kernel needs an undirected graph"):
        read(tmp_path / "d.graphml")


@pytest.mark.parametrize("name", [*FORMATS])
def test_what_is_not_of_its_format_is_refused_in_words(tmp_path, name):
    path = tmp_path / f"noise{FORMATS[name].endings[0]}"
    for content in (b"", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'", bytes(range(256))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"noise\."):
            read(path)


def test_no_pickles_are_read(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[None]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", X=np.array([[None]], dtype=object), Z=X)
    np.testing.assert_array_equal(read(tmp_path / "x.npz").X, X)
    for name, key in (("x.npy", None), ("x.npz", "X")):
        with pytest.raises(ValueError, match=r"allow_pickle=False|Python objects"):
            read(tmp_path / name, Reading(key=key))


def test_standard_input_and_unknown_endings(tmp_path, monkeypatch):
    content = FRAME.to_csv(index=False).encode()
    for sent in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sent)))
        assert read("-", Reading(format="csv", labels=["age"])).X.shape == (4, 3)
    with pytest.raises(ValueError, match="standard input has no ending; name the format with --format"):
        read("-")
    with pytest.raises(ValueError, match=r"the ending of table.xlsx is not known; .* \.csv \.tsv"):
        read("table.xlsx")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(content)[:20])
    with pytest.raises(ValueError, match="cannot be decompressed"):
        read(tmp_path / "cut.csv.gz")


Y, NAMES = X[:, :2], np.array(["p", "q", "<b>", "é"], dtype=object)


@pytest.mark.parametrize("name", ["y.csv", "y.tsv", "y.csv.gz", "y.parquet", "y.npz", "y.npy"])
def test_what_is_written_can_be_read(tmp_path, name):
    columns = {"kind": np.array(list("uvuv"), dtype=object), "y0": np.arange(4)}
    write(tmp_path / name, Y, ["y0", "y1"], names=NAMES, columns=columns)
    if name == "y.npy":
        np.testing.assert_array_equal(np.load(tmp_path / name), Y)
        return
    data = read(tmp_path / name, Reading(id="id", key="Y" if name == "y.npz" else None, only=()))
    assert data.names.tolist() == NAMES.tolist()
    if name == "y.npz":
        np.testing.assert_array_equal(data.X, Y)
        assert data.columns["kind"].tolist() == list("uvuv")
    else:
        assert data.features == ["y0 (input)", "y0", "y1"]
        np.testing.assert_array_equal(data.X[:, 1:], Y)


def test_packed_tables_are_the_plain_ones_and_have_the_same_bytes_whenever_they_are_written(tmp_path):
    names = ["é", "naïve", "日本", "d"]
    for name in ("a.csv", "a.csv.gz", "b.csv.gz"):
        write(tmp_path / name, X, list("xyz"), names=names)
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("path", ["y.xlsx", "y.npy.gz", "y.h5ad", "y"])
def test_outputs_that_cannot_be_are_refused(tmp_path, path):
    with pytest.raises(ValueError, match=r"y.* an (embedding|h5ad)"):
        check_output(tmp_path / path)


@pytest.fixture
def cells(tmp_path):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"kind": pd.Categorical(list("uvuv")), "depth": [3, 1, 4, 1]}, index=["c1", "c2", "c3", "c4"])
    made = anndata.AnnData(X=sparse.csr_matrix(X), obs=obs, obsm={"X_pca": X[:, :2], "X_other": -X})
    made.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.mark.parametrize(("key", "wanted"), [(None, X[:, :2]), ("X_other", -X), ("X", X)])
def test_cells(cells, key, wanted):
    data = read(cells, Reading(key=key))
    np.testing.assert_array_equal(data.X.toarray() if sparse.issparse(data.X) else data.X, wanted)
    assert data.names.tolist() == ["c1", "c2", "c3", "c4"]
    assert {name: list(values) for name, values in data.columns.items()} == {
        "kind": list("uvuv"),
        "depth": [3, 1, 4, 1],
    }
    what = "the matrix X" if key == "X" else f"obsm[{key or 'X_pca'!r}]"
    assert data.notes == [f"{cells}: {what} is embedded"]


def test_cells_take_their_embedding(cells):
    import anndata  # noqa: PLC0415

    data = read(cells, Reading(drop=["depth"], id="kind"))
    assert data.names.tolist() == list("uvuv")
    assert not data.columns
    write(cells, Y, ["y0", "y1"], cells=data.source)
    again = anndata.read_h5ad(cells)
    np.testing.assert_array_equal(again.obsm["X_heatsketch"], Y)
    np.testing.assert_array_equal(again.obsm["X_other"], -X)
    with pytest.raises(ValueError, match="no entry 'X_umap'; there are: 'X_heatsketch', 'X_other', 'X_pca', 'X'"):
        read(cells, Reading(key="X_umap"))
    with pytest.raises(ValueError, match="no column 'age'"):
        read(cells, Reading(labels=["age"]))
    cells.with_suffix(".h5ad.gz").write_bytes(gzip.compress(cells.read_bytes()))
    assert read(cells.with_suffix(".h5ad.gz")).X.shape == (4, 2)


def _text(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("first", ["0.0,0.0,1.0", "1.5,,1.0"])
def test_no_line_of_data_is_lost(tmp_path, first):
    path = _text(tmp_path / "t.csv", first + "\n1,2,3\n4,5,6\n")
    if ",," in first:
        with pytest.raises(ValueError, match="row 1, column 'x1' holds a missing value"):
            read(path)
    else:
        assert read(path).X.shape == (3, 3)


def test_whether_a_line_names_the_columns_can_be_said(tmp_path):
    path = _text(tmp_path / "t.csv", "2019,2020,2021\n1,2,3\n4,5,6\n")
    assert read(path).X.shape == (3, 3)
    data = read(path, Reading(header=True))
    assert data.features == ["2019", "2020", "2021"]
    assert data.X.shape == (2, 3)


def test_rows_longer_than_the_line_of_names(tmp_path):
    with pytest.raises(ValueError, match="rows hold 3 values, and the first line names 2 columns"):
        read(_text(tmp_path / "t.csv", "a,b\n1,2,3\n4,5,6\n"))
    with pytest.raises(ValueError, match="rows hold 3 values, and the first line names 2 columns"):
        read(_text(tmp_path / "t.csv", "a,b\n0,2,3\n1,5,6\n"))  # what is left over may look like an index
    with pytest.raises(ValueError, match="rows hold 4 values, and the first line names 2 columns"):
        read(_text(tmp_path / "t.csv", "a,b\n0,1,2,3\n4,5,6,7\n"))
    with pytest.raises(ValueError, match="rows hold 4 values, and the first line names 3 columns"):
        read(_text(tmp_path / "t.csv", "a,b,kind\n0,1,2,\n1,3,4,x\n2,5,6,y\n"))  # the last of which may be empty
    data = read(_text(tmp_path / "r.tsv", "a\tb\nr1\t2\t3\nr2\t5\t6\n"))  # as R writes its row names
    assert data.names.tolist() == ["r1", "r2"]
    np.testing.assert_array_equal(data.X, [[2, 3], [5, 6]])


def test_ids_are_words_even_where_they_are_missing(tmp_path):
    data = read(_text(tmp_path / "t.csv", ",x\nu,1\n,2\nw,3\n"))
    assert data.names.tolist() == ["u", "nan", "w"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "edges"])
def test_text_that_ends_in_the_middle_of_a_number(tmp_path, ending):
    """Pandas before 3.1 takes 5, NUL, 3 for 5."""
    between = "\t" if ending == "tsv" else ","
    content = f"1{between}2\n5\x003{between}4\n"
    with pytest.raises(ValueError, match=r"its byte 6 is a NUL, which text does not have"):
        read(_text(tmp_path / f"t.{ending}", content))
    wide = _text(tmp_path / "wide.csv", "a,b\n1,2\n3,4\n".encode("utf-16"))
    assert read(wide, Reading(encoding="utf-16")).features == ["a", "b"]
    _text(wide, "a,b\n1,2\n5\x003,4\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"its character 10 is a NUL, which text does not have"):
        read(wide, Reading(encoding="utf-16"))


def test_other_separators_and_decimal_commas(tmp_path):
    content = "a;b\n0,5;1,5\n2,5;3,5\n"
    for text in (content, content.partition("\n")[2]):
        with pytest.raises(ValueError, match="looks like several"):
            read(_text(tmp_path / "t.csv", text))
    with pytest.raises(ValueError, match=r"no column holds numbers.* --decimal ,"):
        read(_text(tmp_path / "t.csv", content), Reading(separator="semicolon"))
    data = read(tmp_path / "t.csv", Reading(separator="semicolon", decimal=","))
    np.testing.assert_array_equal(data.X, [[0.5, 1.5], [2.5, 3.5]])
    with pytest.raises(ValueError, match="--separator 'ab' is not known"):
        Reading(separator="ab")


def test_encodings(tmp_path):
    path = _text(tmp_path / "t.csv", "größe,b\n1,2\n3,4\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"it is not text in utf-8.* name its --encoding"):
        read(path)
    assert read(path, Reading(encoding="latin-1")).features == ["größe", "b"]
    assert read(_text(path, "\ufeffa,b\n1,2\n3,4\n")).features == ["a", "b"]
    with pytest.raises(ValueError, match="--encoding klingon is not known"):
        read(path, Reading(encoding="klingon"))


def test_ids_and_labels_stay_as_they_are_written(tmp_path):
    path = _text(tmp_path / "t.csv", "code,grp,n,x\n007,01,1,5\nNA,02,,6\n008,None,3,7\n")
    data = read(path, Reading(id="code", labels=["grp", "n"]))
    assert data.names.tolist() == ["007", "NA", "008"]
    assert list(data.columns["grp"]) == ["01", "02", "None"]
    assert data.columns["n"].tolist()[0] == 1
    write(tmp_path / "o.csv", data.X, ["y"], names=data.names, columns=data.columns)
    assert (tmp_path / "o.csv").read_text().splitlines()[1:3] == ["007,01,1,5.0", "NA,02,,6.0"]


def test_columns_do_not_change_their_role(tmp_path):
    huge = "12345678901234567890123456"
    data = read(_text(tmp_path / "t.csv", f"a,big,flag\n1,{huge},True\n2,{huge},False\n"))
    assert data.features == ["a", "big", "flag"]
    assert data.X[0, 1] == float(huge)
    with pytest.raises(ValueError, match="row 2, column 'flag' holds a missing value"):
        read(_text(tmp_path / "t.csv", "a,flag\n1,True\n2,\n3,False\n"))
    dates = _text(tmp_path / "t.csv", "a,d\n1,2020-01-01\n2,2020-01-02\n")
    assert read(dates).features == ["a"]
    with pytest.raises(ValueError, match="column 'd' holds '2020-01-01', which is no number"):
        read(dates, Reading(only=["d"]))


@pytest.mark.parametrize(
    "index",
    [pd.Index([0, 1000, 2000, 3000], name="sample"), pd.MultiIndex.from_product([list("ab"), [1, 2]]), list("wxyz")],
)
def test_an_index_in_parquet_holds_ids(tmp_path, index):
    FRAME.assign(id=1).set_axis(index).to_parquet(tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet", Reading(drop=["id", "age"]))
    assert data.features == ["a", "b", "c"]
    assert len(set(data.names)) == 4
    assert "the index holds ids" in data.notes[0]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("source,target\na,b\nb,c\n", "abc"),
        ("\ufeffa b\nb c\n", "abc"),
        ("% one\n# two\na b 1\n# three\nb c 1\n", "abc"),
        ("Smith, J\tb\nb\tc\n", ["Smith, J", "b", "c"]),
    ],
)
def test_layouts_of_edges(tmp_path, content, names):
    assert read(_text(tmp_path / "g.edges", content)).names.tolist() == list(names)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a b 1\nb c -1\n", "edge 2, from 'b' to 'c', has the weight '-1'; weights must be finite and not negative"),
        ("a b l\nb c 1\n", "edge 1, from 'a' to 'b', has the weight 'l'"),
        ("s t w\na b 1\nb c\n", "edge 2 is 'b c'"),
        ("a b 1 2\n", "its lines have 4 parts"),
    ],
)
def test_edges_that_are_none(tmp_path, content, words):
    with pytest.raises(ValueError, match=words):
        read(_text(tmp_path / "g.edges", content))


def test_attributes_of_vertices_have_roles(tmp_path):
    graph = nx.karate_club_graph()
    nx.set_node_attributes(graph, {n: f"member {n}" for n in graph}, "who")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    data = read(tmp_path / "g.graphml", Reading(id="who", labels=["club"]))
    assert data.names[3] == "member 3"
    assert list(data.columns) == ["club"]
    with pytest.raises(ValueError, match="no attribute 'age'; there are: 'club', 'who'"):
        read(tmp_path / "g.graphml", Reading(labels=["age"]))
    graph.edges[0, 1]["weight"] = "heavy"
    nx.write_graphml(graph, tmp_path / "g.graphml", infer_numeric_types=False)
    with pytest.raises(ValueError, match=r"the edge from '0' to '1' has the weight 'heavy'|cannot be read as GraphML"):
        read(tmp_path / "g.graphml")


def test_damaged_archives(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=X)
    whole = (tmp_path / "x.npz").read_bytes()
    packed = gzip.compress(FRAME.to_csv().encode())
    for name, content in {
        "cut.npz": whole[:100],
        "flip.npz": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
        "flip.csv.gz": packed[:30] + bytes([packed[30] ^ 255]) + packed[31:],
    }.items():
        with pytest.raises(ValueError, match=name):
            read(_text(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "reading", "option"),
    [
        ("x.npy", Reading(key="z"), "--key"),
        ("x.npy", Reading(labels=["a"]), "--label"),
        ("g.edges", Reading(only=["a"]), "--only"),
        ("t.parquet", Reading(separator=";"), "--separator"),
    ],
)
def test_what_means_nothing_to_a_format_is_refused(tmp_path, name, reading, option):
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"{option} was given, which means nothing for"):
        read(tmp_path / name, reading)


def test_archives_keep_columns_whatever_they_are_called(tmp_path):
    days = np.array(["2020-01-01", "NaT", "2020-01-03", "2020-01-04"], dtype="M8[D]")
    columns = {
        "Y": np.arange(4),
        "id": np.arange(4),
        "file": [1.5, 2, 3, 4],
        "day": days,
        "kind": ["u", None, np.nan, "v"],
    }
    write(tmp_path / "y.npz", Y, ["y0", "y1"], names=NAMES, columns=columns)
    with np.load(tmp_path / "y.npz") as held:
        assert set(held.files) == {"Y", "id", "Y (input)", "id (input)", "file (input)", "day", "kind"}
        assert held["day"].tolist() == ["2020-01-01", "", "2020-01-03", "2020-01-04"]
        assert held["kind"].tolist() == ["u", "", "", "v"]
