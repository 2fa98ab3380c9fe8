"""Readers and writers: every format, the roles of columns, and errors that say where."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from scipy import sparse
from scipy.io import mmwrite

from conftest import run_code
from heatsketch.io import FORMATS, Reading, read
from heatsketch.io.writers import check_output, write

X = np.arange(12.0).reshape(4, 3) / 7.0
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=list("uvuv"), age=[3, 1, 4, 1])


def _text(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _table(path, frame=FRAME):
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep="\t" if name.endswith(".tsv") else ",", index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.csv.gz"])
def test_tables(tmp_path, name):
    data = read(_table(tmp_path / name), Reading(label=["age"]))
    np.testing.assert_array_equal(data.X, X)
    assert data.features == ["a", "b", "c"]
    assert list(data.columns) == ["kind", "age"]
    assert data.columns["kind"].tolist() == list("uvuv")
    assert data.names is None
    assert "kept aside: kind" in data.notes[0]
    assert list(data.points.columns) == data.features


@pytest.mark.parametrize(
    ("reading", "features", "aside", "names"),
    [
        (Reading(), ["a", "b", "c", "age"], ["kind"], None),
        (Reading(id="kind"), ["a", "b", "c", "age"], [], list("uvuv")),
        (Reading(drop=["b", "kind"]), ["a", "c", "age"], [], None),
        (Reading(only=["b", "a"]), ["b", "a"], ["c", "kind", "age"], None),
        (Reading(id="age", label=["c"]), ["a", "b"], ["c", "kind"], list("3141")),
    ],
)
def test_roles_of_columns(tmp_path, reading, features, aside, names):
    data = read(_table(tmp_path / "t.csv"), reading)
    assert data.features == features
    assert list(data.columns) == aside
    assert data.names is None if names is None else data.names.tolist() == names
    np.testing.assert_array_equal(data.X, FRAME[features])


def test_ids_are_recognised(tmp_path):
    FRAME.set_index(pd.Index(list("wxyz"))).to_csv(tmp_path / "index.csv")
    data = read(tmp_path / "index.csv")
    assert data.names.tolist() == list("wxyz")
    assert "first column" in data.notes[0]
    FRAME.set_index(pd.Index([7, 7, 8, 9], name="ID")).to_csv(tmp_path / "id.csv")
    data = read(tmp_path / "id.csv")
    assert data.names.tolist() == ["7", "7", "8", "9"]
    assert "more than once" in data.notes[-1]
    for first in ("id", ""):  # as they are written
        data = read(_text(tmp_path / "z.csv", f"{first},x\n007,1\nNA,2\n1152921504606846977,3\n"))
        assert data.names.tolist() == ["007", "NA", "1152921504606846977"]
    data = read(_text(tmp_path / "n.csv", "007,1,5\n008,2,6\n"), Reading(id="x0"))
    assert data.names.tolist() == ["007", "008"]
    data = read(_text(tmp_path / "r.tsv", "a\tb\nr1\t2\t3\nr2\t5\t6\n"))  # row names as R writes them
    assert data.names.tolist() == ["r1", "r2"]
    np.testing.assert_array_equal(data.X, [[2, 3], [5, 6]])


def test_index_of_parquet_is_ids(tmp_path):
    FRAME.set_axis(pd.MultiIndex.from_product([list("ab"), [1, 2]])).to_parquet(tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet", Reading(drop=["age"]))
    assert data.features == ["a", "b", "c"]
    assert data.names.tolist() == ["a, 1", "a, 2", "b, 1", "b, 2"]


def test_ids_and_labels_stay_as_written(tmp_path):
    path = _text(tmp_path / "t.csv", "code,grp,n,x\n007,01,1,5\nNA,02,,6\n008,None,3,7\n")
    data = read(path, Reading(id="code", label=["grp", "n"]))
    assert data.names.tolist() == ["007", "NA", "008"]
    assert list(data.columns["grp"]) == ["01", "02", "None"]
    halves = read(
        _text(tmp_path / "h.csv", "w;x\n0,5;1\n1,5;2\n"), Reading(label=["w"], separator="semicolon", decimal=",")
    )
    assert list(halves.columns["w"]) == [0.5, 1.5]
    large = _text(tmp_path / "n.csv", "n,x\n1152921504606846977,1\n1152921504606846979,2\n,3\n")
    assert read(large, Reading(label=["n"])).columns["n"].nunique() == 2
    write(tmp_path / "o.csv", data.X, ["y"], names=data.names, columns=data.columns)
    assert (tmp_path / "o.csv").read_text().splitlines()[1:3] == ["007,01,1.0,5.0", "NA,02,,6.0"]


def test_header_is_detected(tmp_path):
    np.savetxt(tmp_path / "t.csv", X, delimiter=",")
    data = read(tmp_path / "t.csv")
    np.testing.assert_allclose(data.X, X)
    assert data.features == ["x0", "x1", "x2"]
    pd.DataFrame(X).to_csv(tmp_path / "t.csv", index=False)  # column names 0, 1, 2
    np.testing.assert_array_equal(read(tmp_path / "t.csv").X, X)
    path = _text(tmp_path / "t.csv", "2019,2020,2021\n1,2,3\n4,5,6\n")
    assert read(path).X.shape == (3, 3)
    assert read(path, Reading(header=True)).features == ["2019", "2020", "2021"]


def test_separators_and_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, sep=";", index=False)
    with pytest.raises(ValueError, match="--separator"):
        read(path)
    for name in ("semicolon", ";"):
        np.testing.assert_array_equal(read(path, Reading(separator=name, label=["age"])).X, X)
    FRAME.to_csv(path, sep=" ", index=False)
    assert read(path, Reading(separator="space", label=["age"])).X.shape == (4, 3)
    _text(path, "a;b\n0,5;1,5\n2,5;3,5\n")
    with pytest.raises(ValueError, match="--decimal"):
        read(path, Reading(separator="semicolon"))
    data = read(path, Reading(separator="semicolon", decimal=","))
    np.testing.assert_array_equal(data.X, [[0.5, 1.5], [2.5, 3.5]])
    with pytest.raises(ValueError, match="separator"):
        Reading(separator="ab")


def test_encodings(tmp_path):
    path = _text(tmp_path / "t.csv", "größe,b\n1,2\n3,4\n".encode("latin-1"))
    with pytest.raises(ValueError, match="--encoding"):
        read(path)
    assert read(path, Reading(encoding="latin-1")).features == ["größe", "b"]
    assert read(_text(path, "\ufeffa,b\n1,2\n3,4\n")).features == ["a", "b"]
    with pytest.raises(ValueError, match="klingon"):
        read(path, Reading(encoding="klingon"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,,3,u,4", r"row 4 \(line 6 of the file\), column 'b' holds a missing value"),
        ("1,inf,3,u,4", r"row 4 \(line 6 of the file\), column 'b'"),
        ("1,2,?,u,4", r"row 4 \(line 6 of the file\), column 'c' holds '\?'"),
    ],
)
def test_missing_values_are_located(tmp_path, line, message):
    path = _table(tmp_path / "t.csv")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=message):
        read(path)
    with pytest.raises(ValueError, match=r"row 4 \(u\)"):
        read(path, Reading(id="kind"))
    path.write_text("\n" + path.read_text())  # rows are no longer lines
    with pytest.raises(ValueError, match="row 4, column"):
        read(path)


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (None, Reading(id="ag"), "Did you mean 'age'"),
        (None, Reading(only=["kind"]), "not a number"),
        (None, Reading(drop=["a", "b", "c", "age"]), "nothing to embed"),
        (None, Reading(format="xls"), "format 'xls'"),
        ("a,b\n", Reading(), "no rows"),
        ("a,b\n1,2,3\n4,5,6\n", Reading(), "rows hold 3 values"),
        ("age;income\n26;29178,83\n31;40000,12\n", Reading(), "--separator semicolon"),
        ("1,5;2,5;3\n4,5;2,5;3\n", Reading(), "--separator semicolon"),
        ("a,b\n0,2,\n1,4,\n2,9,\n", Reading(), "rows hold 3 values"),
        ("a,flag\n1,True\n2,\n3,False\n", Reading(), r"row 1 \(line 3 of the file\), column 'flag'"),
        ("a,d\n1,2020-01-01\n2,2020-01-02\n", Reading(only=["d"]), "2020-01-01"),
        ('a,b\n1,"' + "x,y\n" * 9999, Reading(), "as a table"),
        ("a,b\n1,2\n12\0\0" + "34.5,4\n", Reading(), "line 3 holds a zero byte"),
        ("age,income\n26,29178\n31,40000\n", Reading(separator="semicolon"), "--separator comma"),
        ("a,b\n1,\n2, \n", Reading(), "column 'b' is empty; leave it out with --drop b"),
        ("a,b,my c\n1,,\n2,,\n", Reading(impute="median"), "--drop b --drop 'my c'"),
        ("a,b\n1,\n2,\n", Reading(only=["a", "b"]), "--only"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, content, reading, message):
    path = _table(tmp_path / "t.csv") if content is None else _text(tmp_path / "t.csv", content)
    with pytest.raises(ValueError, match=message) as caught:
        read(path, reading)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("role", [{"label": ["b"]}, {"id": "b"}, {"drop": ["b"]}, {"only": ["a"]}])
def test_empty_columns_may_have_a_role(tmp_path, role):
    path = _text(tmp_path / "t.csv", "a,b\n1,\n2,\n")
    np.testing.assert_array_equal(read(path, Reading(**role)).X, [[1], [2]])


def test_blank_ids_are_noted(tmp_path):
    data = read(_text(tmp_path / "t.csv", "id,a\nx,1\n,2\n ,4\n"))
    assert any("2 of 3 ids are blank" in note for note in data.notes)


def test_zero_bytes_of_other_encodings(tmp_path):
    path = _text(tmp_path / "t.csv", "a,b\n1,2\n3,4\n".encode("utf-16"))
    np.testing.assert_array_equal(read(path, Reading(encoding="utf-16")).X, [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="--encoding utf-16"):
        read(path)


def test_types_of_columns(tmp_path):
    huge = "12345678901234567890123456"
    data = read(_text(tmp_path / "t.csv", f"a,big,flag,day\n1,{huge},True,2020-01-01\n2,{huge},False,2020-01-02\n"))
    assert data.features == ["a", "big", "flag"]
    assert data.X[0, 1] == float(huge)
    nullable = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([0.5, 1.5], dtype="Float64")})
    np.testing.assert_array_equal(read(_table(tmp_path / "t.parquet", nullable)).X, [[1, 0.5], [2, 1.5]])


MIXED = pd.DataFrame(
    {
        "code": [f"c{i}" for i in range(30)],
        "height": np.linspace(1.5, 2.0, 30),
        "income": np.linspace(2e4, 9e4, 30)[::-1],
        "pet": ["cat", "dog", "eel"] * 10,
        "born": pd.date_range("1990-01-01", periods=30).astype(str),
    }
)


def test_units_are_noticed(tmp_path):
    data = read(_table(tmp_path / "t.csv", MIXED), Reading(id="code"))
    np.testing.assert_allclose(data.X.std(axis=0), 1.0)
    assert any("standardised" in note and "kept aside: pet, born" in note for note in data.notes)
    plain = read(tmp_path / "t.csv", Reading(id="code", standardize=False))
    np.testing.assert_array_equal(plain.X, MIXED[["height", "income"]])


def test_categories_and_dates_on_request(tmp_path):
    _table(tmp_path / "t.csv", MIXED)
    _table(tmp_path / "t.parquet", MIXED.assign(born=pd.to_datetime(MIXED["born"])))
    for name in ("t.csv", "t.parquet"):
        for chosen in (["pet"], ["all"]):
            data = read(tmp_path / name, Reading(categorical=chosen, dates="number"))
            assert data.features == ["height", "income", "pet=cat", "pet=dog", "pet=eel", "born"]
            assert list(data.columns) == ["code"]
    chosen = read(tmp_path / "t.csv", Reading(only=["height"], categorical=["pet"]))
    assert chosen.features == ["height", "pet=cat", "pet=dog", "pet=eel"]
    mixed = MIXED.assign(rooms=["6+" if i % 9 == 0 else str(i % 5) for i in range(len(MIXED))], same="x")
    _table(tmp_path / "m.csv", mixed)
    for chosen in (["all", "rooms"], ["rooms", "same", "all"], ["rooms", "pet"]):
        data = read(tmp_path / "m.csv", Reading(categorical=chosen, id="code"))
        assert data.features[2:] == ["pet=cat", "pet=dog", "pet=eel", *(f"rooms={i}" for i in (0, 1, 2, 3, 4, "6+"))]
        assert list(data.columns) == ["born", "same"]
    with pytest.raises(ValueError, match="'pett'"):
        read(tmp_path / "t.csv", Reading(categorical=["pett"]))
    with pytest.raises(ValueError, match="--categorical"):
        Reading(categorical=["pet"], label=["pet"])


def test_missing_values_are_dropped_or_imputed(tmp_path):
    frame = MIXED.assign(income=MIXED["income"].where(MIXED.index % 10 != 3))
    path = _table(tmp_path / "t.csv", frame)
    with pytest.raises(ValueError, match=r"row 3 \(c3\), column 'income'.*--impute median.*--drop-missing"):
        read(path, Reading(id="code"))
    data = read(path, Reading(id="code", drop_missing=True))
    kept = frame[frame["income"].notna()]
    assert data.names.tolist() == kept["code"].tolist()
    assert list(data.columns["pet"]) == kept["pet"].tolist()
    assert data.X.shape == (27, 2)
    assert any("3 of 30 rows" in note for note in data.notes)
    data = read(path, Reading(id="code", impute="median", standardize=False))
    np.testing.assert_array_equal(data.X[3::10, 1], frame["income"].median())
    with pytest.raises(ValueError, match="choose one"):
        Reading(impute="median", drop_missing=True)
    with pytest.raises(ValueError, match="all 30 rows"):
        read(_table(path, MIXED.assign(b=[1.0] + 29 * [None], height=[None] + 29 * [1.0])), Reading(drop_missing=True))


def test_encoder_of_a_model_is_repeated(tmp_path):
    fitted = read(_table(tmp_path / "t.csv", MIXED), Reading(id="code", categorical=["pet"], impute="median"))
    new = MIXED[["pet", "income", "code", "height"]][:6].assign(income=np.nan, more=1.0)
    data = read(_table(tmp_path / "new.csv", new), Reading(id="code", encoder=fitted.encoder))
    assert data.features == fitted.features
    np.testing.assert_allclose(data.X[:, [0, 2, 3, 4]], fitted.X[:6, [0, 2, 3, 4]])
    assert np.ptp(data.X[:, 1]) == 0
    assert list(data.columns) == ["more"]
    some = _table(tmp_path / "new.csv", new.assign(income=[1.0, None, 2.0, None, 3.0, None]))
    assert len(read(some, Reading(id="code", encoder=fitted.encoder, drop_missing=True)).names) == 3


@pytest.mark.parametrize(
    ("columns", "reading", "word"),
    [
        ({"customer": np.random.default_rng(0).permutation(500)[:30]}, Reading(), "--id customer"),
        ({"customer": np.arange(30)}, Reading(drop=["customer"]), None),
        ({"Class": [0, 1, 2] * 10}, Reading(), "--label Class"),
        ({"Class": [0, 1, 2] * 10}, Reading(label=["Class"]), None),
        ({"y": np.linspace(0, 1, 30)}, Reading(), None),
        ({"target": np.linspace(0, 1, 30)}, Reading(), "--label target"),
        ({"p0": 0.5, "p1": 0.7, "p2": 0.9, "digit": [0, 1, 2] * 10}, Reading(drop=["x"]), "--label digit"),
        ({"p0": 0.5, "p1": 0.7, "p2": 0.9, "height": np.linspace(0, 1, 30)}, Reading(drop=["x"]), None),
        ({"width": 0.5, "height": 0.7, "depth": 0.9, "legs": [0, 1, 2] * 10}, Reading(drop=["x"]), None),
    ],
)
def test_hints(tmp_path, columns, reading, word):
    frame = pd.DataFrame(columns).assign(x=np.linspace(3.0, 4.0, 30))
    notes = " ".join(read(_table(tmp_path / "t.csv", frame), reading).notes)
    assert word in notes if word else "--" not in notes


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
def test_features_of_known_tables_are_no_targets(tmp_path, name):
    table = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    notes = " ".join(read(_table(tmp_path / "t.csv", table)).notes)
    assert re.findall(r"--label (\w+)", notes) == ["target"]


@pytest.mark.parametrize("ends", [("source", "target"), ("From", "To"), ("u", "v")])
def test_edge_lists_in_tables(tmp_path, ends):
    frame = pd.DataFrame({ends[0]: list("abc"), ends[1]: list("bca"), "weight": [1.0, 2.0, 3.0]})
    path = _table(tmp_path / "t.csv", frame)
    assert any("--format edges" in note for note in read(path).notes)
    assert read(path, Reading(format="edges")).is_graph
    with pytest.raises(ValueError, match="--format edges"):
        read(_table(path, frame.drop(columns="weight")))


def test_roles_must_differ():
    with pytest.raises(ValueError, match="'a' is both --id and --drop"):
        Reading(id="a", drop=["a"])
    with pytest.raises(ValueError, match="'a' is given twice by --label"):
        Reading(label=["a", "a"])


def test_other_files_in_an_archive_are_skipped(tmp_path):
    np.savez(tmp_path / "x.npz", X=X)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("readme.txt", "how the points were made")
    data = read(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.X, X)
    assert "'readme.txt' is skipped" in data.notes[0]
    with pytest.raises(ValueError, match="npy format"):
        read(tmp_path / "x.npz", Reading(key="readme.txt"))


_MTX = "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1.5\n"
_ENDS = {
    "2 3 -2.5E-1": r"\[\[1.5, 0.0, 0.0\], \[0.0, 0.0, -0.25\]\]",
    "2 3 2.5 7": r"\[\[1.5, 0.0, 0.0\], \[0.0, 0.0, 2.5\]\]",
    "2 3 2.5E-": "ValueError .*'2.5E-', which is not a number",
    "2 3 2.5x": "ValueError .*'2.5x', which is not a number",
    "2 3 2.5\0\n": "ValueError .*byte 67 is zero",
    "2 3": "ValueError .*floating-point",
    "": "ValueError .*Truncated",
}
_READ = """
import sys
from heatsketch.io import read
for path in sys.argv[1:]:
    try:
        print(read(path).X.toarray().tolist())
    except ValueError as error:
        print("ValueError", error)
"""


def test_end_of_matrix_market_files(tmp_path):
    """SciPy's parser needs a newline after each number, and may end the process where there is none."""
    paths = [_text(tmp_path / f"{number}.mtx", _MTX + end) for number, end in enumerate(_ENDS)]
    for found, expected in zip(run_code(_READ, *paths).stdout.splitlines(), _ENDS.values(), strict=True):
        assert re.match(expected, found)


@pytest.mark.parametrize(
    "size", ["array real general\n0 3", "array real general\n3 0", "coordinate real general\n0 0 0"]
)
def test_matrix_market_files_without_rows_or_columns(tmp_path, size):
    """SciPy's parser of dense files divides by their numbers."""
    path = _text(tmp_path / "x.mtx", f"%%MatrixMarket matrix {size}\n1.5\n")
    assert re.match("ValueError .*at least one of each", run_code(_READ, path).stdout)


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
    assert isinstance(data.X, np.memmap) == (".npy" in name)


def test_archives_of_several_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", first=X, second=2 * X, names=np.array(list("abcd")))
    with pytest.raises(ValueError, match="--key"):
        read(tmp_path / "x.npz")
    data = read(tmp_path / "x.npz", Reading(key="second", id="names"))
    np.testing.assert_array_equal(data.X, 2 * X)
    assert data.names.tolist() == list("abcd")
    with pytest.raises(ValueError, match="'age'"):
        read(tmp_path / "x.npz", Reading(key="second", label=["age"]))
    np.savez(tmp_path / "y.npz", names=np.array(list("abcd")))
    with pytest.raises(ValueError, match="no matrix, only names"):
        read(tmp_path / "y.npz")


@pytest.mark.parametrize("array", [np.arange(3.0), np.zeros((0, 2)), np.ones((2, 2), dtype=complex)])
def test_arrays_must_be_matrices(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match="matrix of real numbers"):
        read(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        ("a b\nb c\n", [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        ("\ufeff# edges\na,b,2\n% more\nb,c,0.5\n", [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]),
        ("source\ttarget\tweight\na\tb\t2\nb\tc\t3\n", [[0, 2, 0], [2, 0, 3], [0, 3, 0]]),
        ("a b 2\nb a 2\nb c 3\n", [[0, 2, 0], [2, 0, 3], [0, 3, 0]]),
        ("a b 2\na b 1\nb c 3\nc c 1\n", [[0, 3, 0], [3, 0, 3], [0, 3, 1]]),
    ],
)
def test_edge_lists(tmp_path, lines, weights):
    data = read(_text(tmp_path / "g.edges", lines))
    assert data.is_graph
    assert data.names.tolist() == list("abc")
    np.testing.assert_array_equal(data.X.toarray(), weights)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a b 2\nb a 3\n", "undirected"),
        ("a b 2\nb c\n", "edge 2"),
        ("a b 2\nb c x\n", "weight 'x'"),
        ("a b 1\nb c -1\n", "non-negative"),
        ("a b 1 2\n", "4 fields"),
        ("# nothing\n", "no edges"),
        ("a b {'weight': 4}\n", "write_weighted_edgelist"),
        ("a,b,{'weight': 4, 'kind': 'x'}\n", "write_graphml"),
        ("a b {}\n", "write_weighted_edgelist"),
    ],
)
def test_invalid_edge_lists(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        read(_text(tmp_path / "g.edges", lines))


def test_graphml(tmp_path):
    graph = nx.karate_club_graph()
    nx.set_node_attributes(graph, {n: f"member {n}" for n in graph}, "who")
    nx.write_graphml(graph, tmp_path / "g.graphml.gz")
    data = read(tmp_path / "g.graphml.gz")
    assert data.names.tolist() == [str(node) for node in graph]
    np.testing.assert_array_equal(data.X.toarray(), nx.to_numpy_array(graph))
    assert list(data.columns["club"]) == [graph.nodes[node]["club"] for node in graph]
    data = read(tmp_path / "g.graphml.gz", Reading(id="who", label=["club"]))
    assert data.names[3] == "member 3"
    assert list(data.columns) == ["club"]
    with pytest.raises(ValueError, match="no attribute 'age'"):
        read(tmp_path / "g.graphml.gz", Reading(label=["age"]))
    nx.write_graphml(graph.to_directed(), tmp_path / "d.graphml")
    with pytest.raises(ValueError, match="undirected"):
        read(tmp_path / "d.graphml")


@pytest.mark.parametrize("name", [*FORMATS])
def test_files_of_another_format_raise(tmp_path, name):
    path = tmp_path / f"noise{FORMATS[name].suffixes[0]}"
    for content in (b"", b"\x93NUMPY\x01\x00v\x00{'descr': '|O'", bytes(range(256))):
        with pytest.raises(ValueError, match=r"noise\."):
            read(_text(path, content))


def test_damaged_compressed_files_raise(tmp_path):
    packed = gzip.compress(FRAME.to_csv().encode())
    flipped = packed[:30] + bytes([packed[30] ^ 255]) + packed[31:]
    for name, damaged in {"cut.csv.gz": packed[:20], "flip.csv.gz": flipped}.items():
        with pytest.raises(ValueError, match=name):
            read(_text(tmp_path / name, damaged))


def test_standard_input_and_unknown_suffixes(tmp_path, monkeypatch):
    content = FRAME.to_csv(index=False).encode()
    for sent in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(sent))))
        assert read("-", Reading(format="csv", label=["age"])).X.shape == (4, 3)
    for path in ("-", "table.xlsx"):
        with pytest.raises(ValueError, match="--format"):
            read(path)
    (tmp_path / "table.csv").touch()
    with pytest.raises(FileNotFoundError, match=r"does not exist in .*Did you mean 'table\.csv'\?"):
        read(tmp_path / "tabel.csv")
    with pytest.raises(FileNotFoundError, match="download"):
        read("https://example.org/table.csv")
    with pytest.raises(ValueError, match="empty"):
        read(tmp_path / "table.csv")
    (tmp_path / "table.csv").write_bytes("größe\n1\n2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"not text in UTF-8; .* --encoding latin-1"):
        read(tmp_path / "table.csv")
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        read(tmp_path / "none" / "table.csv")


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("x.npy", Reading(key="z")),
        ("x.npy", Reading(drop_missing=True)),
        ("g.edges", Reading(only=["a"])),
        ("x.npy", Reading(label="a")),
    ],
)
def test_options_of_other_formats_raise(tmp_path, name, reading):
    with pytest.raises(ValueError, match="does not apply"):
        read(tmp_path / name, reading)


Y, NAMES = X[:, :2], np.array(["p", "q", "<b>", "é"], dtype=object)


@pytest.mark.parametrize("name", ["y.csv", "y.tsv", "y.csv.gz", "y.parquet", "y.npz", "y.npy"])
def test_what_is_written_can_be_read(tmp_path, name):
    columns = {"kind": np.array(list("uvuv"), dtype=object), "y0": np.arange(4)}
    write(tmp_path / name, Y, ["y0", "y1"], names=NAMES, columns=columns)
    if name == "y.npy":
        np.testing.assert_array_equal(np.load(tmp_path / name), Y)
        return
    data = read(tmp_path / name, Reading(id="id", key="Y" if name == "y.npz" else None))
    assert data.names.tolist() == NAMES.tolist()
    if name == "y.npz":
        np.testing.assert_array_equal(data.X, Y)
        assert data.columns["kind"].tolist() == list("uvuv")
    else:
        assert data.features == ["y0 (input)", "y0", "y1"]
        np.testing.assert_array_equal(data.X[:, 1:], Y)


@pytest.mark.parametrize("name", ["y.csv", "y.parquet", "y.npz"])
def test_ids_keep_their_name(tmp_path, name):
    write(tmp_path / name, Y, ["y0", "y1"], names=NAMES, columns={"id": np.arange(4)}, id_name="customer")
    data = read(tmp_path / name, Reading(id="customer", label=["id"], key="Y" if name == "y.npz" else None))
    assert data.id_name == "customer"
    assert data.names.tolist() == NAMES.tolist()
    assert list(data.columns["id"]) == [0, 1, 2, 3]
    write(tmp_path / name, Y, ["y0", "Y"], names=NAMES, id_name="Y")  # a name that is taken
    assert read(tmp_path / name, Reading(id="id", key="Y" if name == "y.npz" else None)).names[0] == "p"


def test_archives_keep_all_columns(tmp_path):
    days = np.array(["2020-01-01", "NaT", "2020-01-03", "2020-01-04"], dtype="M8[D]")
    columns = {"Y": np.arange(4), "id": np.arange(4), "file": [1, 2, 3, 4], "day": days, "../k": ["u", None, "", "v"]}
    write(tmp_path / "y.npz", Y, ["y0", "y1"], names=NAMES, columns=columns)
    with np.load(tmp_path / "y.npz") as held:
        assert set(held.files) == {"Y", "id", "Y (input)", "id (input)", "file (input)", "day", ".._k"}
        assert [day[:10] for day in held["day"]] == ["2020-01-01", "", "2020-01-03", "2020-01-04"]
        assert held[".._k"].tolist() == ["u", "", "", "v"]


@pytest.mark.parametrize("path", ["y.xlsx", "y.npy.gz", "y.h5ad", "y"])
def test_outputs_of_unknown_format_raise(tmp_path, path):
    with pytest.raises(ValueError, match=r"suffix|h5ad"):
        check_output(tmp_path / path)


@pytest.fixture
def cells(tmp_path):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"kind": pd.Categorical(list("uvuv")), "depth": [3, 1, 4, 1]}, index=["c1", "c2", "c3", "c4"])
    made = anndata.AnnData(X=sparse.csr_matrix(X), obs=obs, obsm={"X_pca": X[:, :2], "X_other": -X})
    made.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.mark.parametrize(("key", "wanted"), [("X_pca", X[:, :2]), ("X_other", -X), ("X", X)])
def test_h5ad(cells, key, wanted):
    data = read(cells, Reading(key=key))
    np.testing.assert_array_equal(data.X.toarray() if sparse.issparse(data.X) else data.X, wanted)
    assert data.names.tolist() == ["c1", "c2", "c3", "c4"]
    assert list(data.columns["kind"]) == list("uvuv")
    assert list(data.columns["depth"]) == [3, 1, 4, 1]
    assert key in data.notes[0]


def test_embedding_is_added_to_h5ad(cells):
    import anndata  # noqa: PLC0415

    data = read(cells, Reading(drop=["depth"], id="kind", key="X_pca"))
    assert data.names.tolist() == list("uvuv")
    assert not data.columns
    write(cells, Y, ["y0", "y1"], cells=data.source)
    again = anndata.read_h5ad(cells)
    np.testing.assert_array_equal(again.obsm["X_heatsketch"], Y)
    np.testing.assert_array_equal(again.obsm["X_other"], -X)
    with pytest.raises(ValueError, match="no entry 'X_umap'"):
        read(cells, Reading(key="X_umap"))
    with pytest.raises(ValueError, match="no column 'age'"):
        read(cells, Reading(label=["age"], key="X"))
    cells.with_suffix(".h5ad.gz").write_bytes(gzip.compress(cells.read_bytes()))
    assert read(cells.with_suffix(".h5ad.gz"), Reading(key="X_pca")).X.shape == (4, 2)


_RNG = np.random.default_rng(0)
_TABLES = {
    "numbers": "a,b,c\n1,2.5,x\n2,-3e-5,007\n",
    "no text": "a,b\n1,2.5\n2,3\n",
    "no header": "1,2.5,3\n2,3.25,4\n",
    "text by name": "a,b,c\n1,1.5,\n2,2.5,NA\n",
    "quotes": 'a,b,c\n"1","1.5","x,y"\n2,2.5,"a\nb"\n',
    "blank lines": "\na,b,c\r\n\r\n1,1.5,x\r\n2,2.5,y",
    "byte order mark": "\ufeffa,b,c\n1,1.5,é\n2,2.5,y\n",
    "spaces and signs": "a,b,c\n 1,+1.5,x\n2,.5 ,y\n",
    "equal names": "a,a,c\n1,1.5,x\n2,2.5,y\n",
    "not finite": "a,b,c\n1,nan,x\n2,-inf,y\n",
    "gap": "a,b,c\n1,,x\n2,3,y\n",
    "short row": "a,b,c\n1,1.5\n2,2.5,y\n",
    "wide row": "a,b,c\n1,1.5,x\n2,2.5,y,4\n",
    "hexadecimal": "a,b,c\n0x1f,1.5,x\n0x10,2.5,y\n",
    "huge integers": "a,b,c\n18446744073709551615,1.5,x\n1,2.5,y\n",
    "out of range": "a,b,c\n1e400,1e-400,x\n1,2,y\n",
    "truth": "a,b,c\nTrue,1.5,x\nFalse,2.5,y\n",
    "dates": "a,b,c\n2020-01-01,1.5,x\n2020-01-02,2.5,y\n",
    "zero byte": "a,b,c\n1,1.5,x\0y\n2,2.5,y\n",
    "word at the end": "a,b,c\n" + 150_000 * "1,1.5,x\n" + "oops,2,x\n",
    "number at the end": "a,b,c\n" + 150_000 * "1,1.5,x\n" + "1.25,2,x\n",
    "many digits": "a,b,c\n" + "".join(f"{n},{x:.25f},x\n" for n, x in enumerate(_RNG.normal(size=500))),
    "all sizes": "a,b,c\n" + "".join(f"{n},{float(x)!r},x\n" for n, x in enumerate(10 ** _RNG.uniform(-100, 100, 500))),
}


@pytest.mark.parametrize("label", [("c",), ()])
@pytest.mark.parametrize("name", _TABLES)
def test_large_tables_are_read_as_small_ones(tmp_path, monkeypatch, name, label):
    pytest.importorskip("pyarrow")
    path = _text(tmp_path / "t.csv", _TABLES[name])

    def found(large):
        monkeypatch.setattr("heatsketch.io.tables._LARGE", large)
        try:
            data = read(path, Reading(label=label))
        except ValueError as error:
            return str(error)
        columns = {key: (str(column.dtype), column.tolist()) for key, column in data.columns.items()}
        return data.X.tobytes(), data.X.shape, str(data.X.dtype), repr(columns), data.notes

    assert found(0) == found(1 << 60)


def test_numbers_and_labels_of_large_tables_are_read_by_pyarrow(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("heatsketch.io.tables._LARGE", 0)
    monkeypatch.setattr("heatsketch.io.tables._read_cells", lambda *_, **__: pytest.fail("was read by pandas"))
    data = read(_text(tmp_path / "t.csv", _TABLES["numbers"]), Reading(label=["c"]))
    np.testing.assert_array_equal(data.X, [[1, 2.5], [2, -3e-5]])
    assert data.columns["c"].tolist() == ["x", "007"]
